//! Tests what `qwen batch` does with the directory of a batch: it is read safely, shards are merged as a whole, and
//! reports hold text and never markup.

use std::os::unix::fs::symlink;

use qwen_run::base::digest::sha256;
use serde_json::{Value, json};

use crate::support::batch::{Ending, ended, left, write_batch, write_shards};
use crate::support::{Outcome, Project};

/// Returns what `-o result` prints.
fn result(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

fn mixed() -> Vec<Ending> {
    vec![
        ended("a", 0).patch("patch of a"),
        ended("b", 3),
        ended("c", 64).patch("patch of c"),
        ended("d", 60).with("error", json!({"code": "denied", "message": "2 calls were denied", "retryable": false, "hint": null, "budget": null})).patch("patch of d"),
        ended("e", 65),
    ]
}

#[test]
fn the_status_says_how_items_ended_what_they_cost_and_what_is_left() {
    let project = Project::new();
    let endings = [mixed(), vec![ended("f", 75), left("g")]].concat();
    write_batch(&project.root().join("out"), &endings, None);
    let outcome = project.qwen(&["batch", "status", "out"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    insta::assert_snapshot!(outcome.stdout);
    let result = result(&project.qwen(&["batch", "status", "-o", "result", "out"]));
    assert_eq!(result["items"]["total"], 7);
    assert_eq!(result["items"]["not_final"], 2);
    assert_eq!(result["exit_code"], 75);
    assert_eq!(result["cost_usd"], 1.5);
    assert_eq!(result["failed_keys"], json!(["c"]));
    let patches: Vec<&str> = result["patches"].as_array().unwrap().iter().map(|p| p["key"].as_str().unwrap()).collect();
    assert_eq!(patches, ["a", "c", "d"]);
}

#[test]
fn shards_are_shown_as_one_batch_and_one_of_them_alone() {
    let project = Project::new();
    write_shards(&project.root().join("out"), &mixed(), 3);
    std::fs::remove_dir_all(project.root().join("out/shard-2-of-3")).unwrap();
    let outcome = project.qwen(&["batch", "status", "out"]);
    assert!(outcome.stdout.contains("shards that are not here: 2/3"), "{}{}", outcome.stdout, outcome.stderr);
    // Items 1 and 4 are the first shard's.
    let result = result(&project.qwen(&["batch", "status", "-o", "result", "out/shard-1-of-3"]));
    assert_eq!((&result["items"]["total"], &result["shard"]), (&json!(2), &json!({"number": 1, "of": 3})));
}

#[test]
fn merged_shards_are_what_one_process_would_have_written() {
    for of in 1..=9 {
        let project = Project::new();
        write_batch(&project.root().join("whole"), &mixed(), None);
        write_shards(&project.root().join("out"), &mixed(), of);
        let merged = result(&project.qwen(&["batch", "merge", "out", "--out", "merged", "-o", "result"]));
        let whole = result(&project.qwen(&["batch", "status", "whole", "-o", "result"]));
        assert_eq!(merged, whole, "{of}");
        let again = result(&project.qwen(&["batch", "status", "merged", "-o", "result"]));
        assert_eq!(again, whole, "{of}");
        let ends = |text: String| -> Vec<String> {
            text.lines().filter(|line| line.contains("\"t\":\"end\"")).map(str::to_owned).collect()
        };
        assert_eq!(ends(project.read("merged/journal.jsonl")), ends(project.read("whole/journal.jsonl")));
        for file in ["items.jsonl", "items/000001-a.patch", "items/000003-c.patch"] {
            assert_eq!(project.read(&format!("merged/{file}")), project.read(&format!("whole/{file}")), "{file}");
        }
    }
}

#[test]
fn a_merge_names_the_shards_and_keys_that_are_missing_and_makes_nothing() {
    let project = Project::new();
    let endings: Vec<Ending> =
        (0..60).map(|n| if n % 3 == 0 { left(&format!("k{n}")) } else { ended(&format!("k{n}"), 0) }).collect();
    write_shards(&project.root().join("out"), &endings, 4);
    std::fs::remove_dir_all(project.root().join("out/shard-4-of-4")).unwrap();
    let outcome = project.qwen(&["batch", "merge", "out", "--out", "merged"]);
    assert_eq!(outcome.code, 42);
    insta::assert_snapshot!(outcome.stderr);
    assert!(!project.root().join("merged").exists());
    let partial = result(&project.qwen(&["batch", "merge", "out", "--out", "merged", "--partial", "-o", "result"]));
    assert_eq!(
        (&partial["items"]["total"], &partial["items"]["ok"], &partial["exit_code"]),
        (&json!(60), &json!(30), &json!(75))
    );
}

#[test]
fn parts_of_different_batches_are_not_merged() {
    let project = Project::new();
    let out = project.root().join("out");
    let merge = |says: &str| {
        let outcome = project.qwen(&["batch", "merge", "out", "--out", "merged"]);
        assert_eq!(outcome.code, 42, "{}", outcome.stdout);
        assert!(outcome.stderr.contains(says), "{says}: {}", outcome.stderr);
        std::fs::remove_dir_all(&out).unwrap();
    };
    let change = |path: &str, from: &str, to: &str| {
        let path = out.join(path);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    };
    write_shards(&out, &mixed(), 2);
    change("shard-2-of-2/items.jsonl", "a text", "another text");
    merge("they have different lists of items");
    write_shards(&out, &mixed(), 2);
    change("shard-2-of-2/batch.json", "\"plan_sha256\":\"", "\"plan_sha256\":\"0");
    merge("they have different recipes, prompts");
    write_shards(&out, &mixed(), 2);
    change("shard-2-of-2/batch.json", "\"number\":2", "\"number\":1");
    merge("shard 1/2 is there twice");
    write_shards(&out, &mixed(), 2);
    change("shard-2-of-2/batch.json", "\"of\":2", "\"of\":3");
    merge("they have different numbers of shards");
    write_batch(&out.join("shard-1"), &mixed(), None);
    write_batch(&out.join("shard-2"), &mixed(), None);
    merge("each holds the whole list");
    write_shards(&out, &mixed(), 2);
    std::fs::write(out.join("shard-1-of-2/items/000001-a.patch"), "another patch").unwrap();
    merge("is not the patch that `a` ended with");
    write_shards(&out, &mixed(), 2);
    std::fs::remove_file(out.join("shard-1-of-2/items/000001-a.patch")).unwrap();
    merge("is not the patch that `a` ended with");
}

#[test]
fn a_job_on_github_gets_the_digest_of_the_summary() {
    let project = Project::new();
    write_shards(&project.root().join("out"), &mixed(), 2);
    let outcome = project.qwen(&["batch", "merge", "out", "--out", "merged", "--github"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(!project.root().join("merged").exists());
    let file = project.beside("outputs");
    std::fs::write(&file, "earlier=1\n").unwrap();
    let project = project.env("GITHUB_OUTPUT", &file.display().to_string());
    let outcome = project.qwen(&["batch", "merge", "out", "--out", "merged", "--github"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let digest = sha256(&std::fs::read(project.root().join("merged/summary.json")).unwrap());
    assert_eq!(std::fs::read_to_string(file).unwrap(), format!("earlier=1\nsha256={digest}\nexit-code=1\n"));
    assert!(outcome.stdout.contains(&digest), "{}", outcome.stdout);
    let again = project.qwen(&["batch", "merge", "out", "--out", "merged", "--github"]);
    assert_eq!(again.code, 63, "{}", again.stderr);
}

#[test]
fn a_line_that_a_kill_has_cut_off_does_not_count_and_any_other_one_is_an_error() {
    let project = Project::new();
    let out = project.root().join("out");
    write_batch(&out, &mixed(), None);
    let journal = project.read("out/journal.jsonl");
    std::fs::write(out.join("journal.jsonl"), &journal[..journal.len() - 9]).unwrap();
    let outcome = project.qwen(&["batch", "status", "out"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("batch 4/5") && outcome.stdout.contains("journal.jsonl is cut off"),
        "{}",
        outcome.stdout
    );
    std::fs::write(out.join("journal.jsonl"), journal.replacen("{\"t\"", "{", 1)).unwrap();
    let outcome = project.qwen(&["batch", "status", "out"]);
    assert_eq!(outcome.code, 42);
    assert!(outcome.stderr.contains("line 1 of the journal"), "{}", outcome.stderr);
}

#[test]
fn a_directory_with_links_or_without_a_batch_is_refused() {
    let project = Project::new().file("secret.txt", "private");
    let out = project.root().join("out");
    for name in ["batch.json", "items.jsonl", "journal.jsonl"] {
        write_batch(&out, &mixed(), None);
        std::fs::remove_file(out.join(name)).unwrap();
        symlink(project.root().join("secret.txt"), out.join(name)).unwrap();
        let outcome = project.qwen(&["batch", "status", "out"]);
        assert_eq!(outcome.code, 42, "{name}");
        assert!(outcome.stderr.contains(&format!("{name}: it is a link")), "{name}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("private"), "{}", outcome.stderr);
        std::fs::remove_dir_all(&out).unwrap();
    }
    std::fs::create_dir(&out).unwrap();
    let outcome = project.qwen(&["batch", "status", "out"]);
    assert_eq!(outcome.code, 42);
    assert!(outcome.stderr.contains("out is not the directory of a batch"), "{}", outcome.stderr);
}

#[test]
fn a_key_cannot_write_to_the_terminal() {
    let project = Project::new();
    write_shards(&project.root().join("out"), &[ended("ok", 0), left("\u{1b}[31m\u{202e}../../x")], 2);
    let outcome = project.qwen(&["batch", "merge", "out", "--out", "merged"]);
    assert!(outcome.stderr.contains("\\u{1b}[31m\\u{202e}../../x"), "{}", outcome.stderr);
}

fn hostile() -> Vec<Ending> {
    let error = json!({"code": "verify", "message": "<b>it</b> fails\u{1b}[31m", "retryable": false, "hint": null, "budget": null});
    let found = |path: &str| {
        json!({"findings": [{
            "rule_id": "bug", "severity": "error", "path": path, "start_line": 2, "end_line": 2, "quote": "x", "message": "m",
        }]})
    };
    vec![
        ended("=cmd()", 0).with("output", json!({"label": "<script>alert(1)</script>", "score": -1})),
        ended("<img src=x>", 64).with("error", error.clone()),
        ended("a\u{0}\u{202e}b", 75).with("final", json!(true)).with("error", error),
        ended("src/a.rs", 3).with("output", found("src/a.rs")).with("findings", json!(1)),
        ended("src/b.rs", 3).with("output", json!("cut")).with("output_cut", json!(true)).with("findings", json!(1)),
        left("]]>"),
    ]
}

#[test]
fn reports_are_written_from_the_journal_and_hold_text_only() {
    let project = Project::new();
    let out = project.root().join("out");
    write_batch(&out, &hostile(), None);
    let kept = json!({"findings": [{"rule_id": "slow", "severity": "note", "path": "src/b.rs", "start_line": 1, "end_line": 1, "message": "n"}]});
    std::fs::write(out.join("items/000005-src_b.rs.result.json"), kept.to_string()).unwrap();
    let outcome = project.qwen(&[
        "batch",
        "report",
        "out",
        "--html",
        "page.html",
        "--junit",
        "junit.xml",
        "--csv",
        "table.csv",
        "--sarif",
        "log.sarif",
        "--failed",
    ]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "<img src=x>\na\\u{0}\\u{202e}b\n");
    let page = project.read("page.html");
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script") && !page.contains("<img"), "{page}");
    assert!(page.contains("default-src 'none'") && !page.contains("http://") && !page.contains("https://"), "{page}");
    assert!(!crate::report::assert_safe(&page).is_empty());
    let junit = project.read("junit.xml");
    insta::assert_snapshot!("junit", junit);
    let table = project.read("table.csv");
    assert!(table.lines().next().unwrap().ends_with(",output.findings,output.label,output.score"), "{table}");
    assert!(table.contains("\n1,'=cmd(),0,") && table.contains(",-1\n"), "{table}");
    let log: Value = serde_json::from_str(&project.read("log.sarif")).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let rules: Vec<&str> = results.iter().map(|result| result["ruleId"].as_str().unwrap()).collect();
    assert_eq!(rules, ["bug", "slow"]);
}

#[test]
fn a_report_goes_to_standard_output_or_says_why_it_cannot_be_written() {
    let project = Project::new();
    write_shards(&project.root().join("out"), &mixed(), 2);
    let outcome = project.qwen(&["batch", "report", "out", "--csv", "-"]);
    assert_eq!((outcome.code, outcome.stdout.lines().count()), (0, 6), "{}{}", outcome.stdout, outcome.stderr);
    let outcome = project.qwen(&["batch", "report", "out"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    let outcome = project.qwen(&["batch", "report", "out", "--junit", "no/junit.xml"]);
    assert_eq!(outcome.code, 63, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("cannot write no/junit.xml"), "{}", outcome.stderr);
}

/// `cargo nextest run --run-ignored only -E 'test(a_hundred_thousand_items)' --no-capture` with a program built for
/// release in `QWEN_TEST_PROGRAM`.
#[test]
#[ignore = "writes 100,000 items and prints times: see the comment above it"]
fn a_hundred_thousand_items_are_counted_and_merged() {
    let project = Project::new();
    let endings: Vec<Ending> = (0..100_000).map(|n| ended(&format!("T-{n}"), u8::from(n % 50 == 0) * 64)).collect();
    write_shards(&project.root().join("out"), &endings, 8);
    for arguments in [
        &["batch", "status", "out", "-o", "result"][..],
        &["batch", "merge", "out", "--out", "merged", "-o", "result"],
        &["batch", "status", "merged", "-o", "result"],
        &["batch", "report", "merged", "--csv", "table.csv", "--junit", "junit.xml", "--html", "page.html"],
    ] {
        let begun = std::time::Instant::now();
        let outcome = project.qwen(arguments);
        eprintln!("{:?}: {arguments:?}", begun.elapsed());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
}
