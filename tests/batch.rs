//! Tests `qwen batch`: every item runs once, whatever happens on the way.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::batch_recipes::CLASSIFY;
use crate::support::{Project, Reply, Server, call, say};

/// Returns a list of so many tickets.
fn tickets(count: usize) -> String {
    (1..=count)
        .map(|n| json!({"id": format!("T-{n}"), "text": format!("ticket number {n}.")}).to_string() + "\n")
        .collect()
}

/// Returns the number of the ticket that a request is about.
fn ticket(request: &Value) -> usize {
    let text = request["messages"].to_string();
    let from = text.rfind("ticket number ").expect("a ticket") + "ticket number ".len();
    text[from..].chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

/// A project with so many tickets, in which a server answers each with `kind N`.
fn project(count: usize) -> Project {
    with(count, Server::answering(|request| say(&format!("kind {}", ticket(request)))))
}

fn with(count: usize, server: Server) -> Project {
    Project::new().file("tickets.jsonl", tickets(count)).file("classify.yaml", CLASSIFY).served_by(server)
}

/// Arguments of a batch over the tickets.
const BATCH: [&str; 5] = ["batch", "--items", "tickets.jsonl", "--recipe", "./classify.yaml"];

fn batch<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&BATCH, more].concat()
}

/// Returns the lines of a file of JSON.
fn lines(project: &Project, path: &str) -> Vec<Value> {
    project.read(path).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Returns the last end of each key in a journal.
fn ends(project: &Project) -> BTreeMap<String, Value> {
    let ends = lines(project, "out/journal.jsonl").into_iter().filter(|line| line["t"] == "end");
    ends.map(|end| (end["key"].as_str().unwrap().to_owned(), end)).collect()
}

/// Returns how often each ticket was asked for.
fn asked(project: &Project) -> BTreeMap<usize, usize> {
    let mut asked = BTreeMap::new();
    project.server().requests().iter().for_each(|request| *asked.entry(ticket(request)).or_default() += 1);
    asked
}

#[test]
fn every_item_runs_once_and_the_same_command_runs_none_again() {
    let project = project(12);
    let first = project.qwen(&batch(&["--out", "out", "-o", "result"]));
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    let result: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!(
        (&result["type"], &result["items"]["ok"], &result["items"]["total"]),
        (&json!("batch_result"), &json!(12), &json!(12))
    );
    assert_eq!((&result["usage"]["requests"], &result["by_exit_code"]), (&json!(12), &json!({"0": 12})));
    assert_eq!(asked(&project), (1..=12).map(|n| (n, 1)).collect());
    let ends = ends(&project);
    assert_eq!(ends.len(), 12);
    for (key, end) in &ends {
        let n = key.strip_prefix("T-").unwrap();
        assert_eq!(
            (&end["output"], &end["final"], &end["try"]),
            (&json!(format!("kind {n}")), &json!(true), &json!(1))
        );
    }
    let again = project.qwen(&batch(&["--out", "out"]));
    assert_eq!((again.code, project.server().requests().len()), (0, 12), "{}", again.stderr);
    assert!(again.stdout.contains("12 of 12 items done · ok 12 · skipped: done before 12"), "{}", again.stdout);
    for name in ["batch.json", "items.jsonl", "journal.jsonl", "summary.json"] {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &project.root().join("out").join(name).metadata().unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(lines(&project, "out/items.jsonl").len(), 12);
}

#[test]
fn what_is_new_or_changed_runs_and_what_is_gone_is_named() {
    let project = project(3);
    assert_eq!(project.qwen(&batch(&["--out", "out"])).code, 0);
    let list = tickets(4).replace("ticket number 2.", "ticket number 2, changed.").replace("T-3", "T-9");
    std::fs::write(project.root().join("tickets.jsonl"), list).unwrap();
    let again = project.qwen(&batch(&["--out", "out"]));
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stderr.contains("1 item of the journal not in the list any more: T-3"), "{}", again.stderr);
    assert_eq!(asked(&project), [(1, 1), (2, 2), (3, 2), (4, 1)].into());
}

#[test]
fn another_recipe_is_another_batch_until_it_begins_again() {
    let project = project(2);
    assert_eq!(project.qwen(&batch(&["--out", "out"])).code, 0);
    std::fs::write(project.root().join("classify.yaml"), CLASSIFY.replace("one word", "two words")).unwrap();
    let other = project.qwen(&batch(&["--out", "out"]));
    assert_eq!(other.code, 42);
    assert!(other.stderr.contains("out belongs to another batch; different: recipe"), "{}", other.stderr);
    assert!(other.stderr.contains("--restart"), "{}", other.stderr);
    assert_eq!(project.server().requests().len(), 2);
    let again = project.qwen(&batch(&["--out", "out", "--restart"]));
    assert_eq!((again.code, project.server().requests().len()), (0, 4), "{}", again.stderr);
    assert_eq!(lines(&project, "out/journal.1.jsonl").len(), 4);
}

#[test]
fn a_wrong_key_costs_one_request() {
    let refused = |_: &Value| Reply::Status(401, vec![], r#"{"error":{"message":"wrong key"}}"#.into());
    let project = with(40, Server::answering(refused));
    let run = project.qwen(&batch(&["--out", "out", "-j", "16"]));
    assert_eq!((run.code, project.server().requests().len()), (41, 1), "{}", run.stderr);
    assert!(run.stdout.contains("0 of 40 items done"), "{}", run.stdout);
    assert!(ends(&project).values().all(|end| end["final"] == false));
}

#[test]
fn a_killed_batch_goes_on_and_pays_for_nothing_twice() {
    kills(60, 10);
}

#[test]
#[ignore = "200 kills take minutes: cargo nextest run --run-ignored all -E 'test(hundreds_of_kills)'"]
fn hundreds_of_kills_lose_nothing() {
    kills(300, 200);
}

/// Kills a batch of so many items again and again, then lets it end.
fn kills(items: usize, kills: usize) {
    let jobs = 4;
    let project = with(items, Server::with_places(jobs, |request| say(&format!("kind {}", ticket(request)))));
    let arguments = batch(&["--out", "out", "-j", "4", "--item-attempts", "3"]);
    // The moments differ from run to run of this loop, and not from one test to the next.
    let mut moment = 0x2545_f491_u64;
    for _ in 0..kills {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = project.spawn(&arguments);
        std::thread::sleep(Duration::from_millis(20 + (moment >> 33) % 400));
        let _ended = child.kill();
        let _reaped = child.wait();
    }
    let end = project.qwen(&arguments);
    let journal = lines(&project, "out/journal.jsonl");
    // An item that was killed when nothing else ran is given up, and nothing else fails.
    let failed: Vec<&Value> = journal.iter().filter(|line| line["final"] == true && line["exit_code"] != 0).collect();
    let was_alone = |key: &Value| journal.iter().any(|line| &line["key"] == key && line["alone"] == true);
    assert!(failed.iter().all(|line| line["error"]["code"] == "crashed" && was_alone(&line["key"])), "{failed:?}");
    assert_eq!(end.code, i32::from(!failed.is_empty()), "{}", end.stdout);
    let mut finals: BTreeMap<&str, usize> = BTreeMap::new();
    for line in journal.iter().filter(|line| line["final"] == true) {
        *finals.entry(line["key"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!((finals.len(), finals.values().max()), (items, Some(&1)));
    let requests = project.server().requests().len();
    assert!(requests <= items + kills * jobs, "{requests} requests for {items} items and {kills} kills");
}

/// Kills a batch as soon as so many requests have come since the last kill, and so many items have ended.
fn kill_after(project: &Project, requests: usize, ended: usize, arguments: &[&str]) {
    let before = project.server().requests().len();
    let mut child = project.spawn(arguments);
    project.server().wait_for(before + requests);
    while project.read("out/journal.jsonl").matches("\"t\":\"end\"").count() < ended {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn items_that_only_ran_beside_the_one_that_ends_the_process_are_not_given_up() {
    // In each call one answer lets the others start, which hang until the process is killed; ticket 4 always hangs.
    let call = Arc::new(AtomicUsize::new(1));
    let now = Arc::clone(&call);
    let answer = move |request: &Value| match (now.load(Ordering::SeqCst), ticket(request)) {
        (1, 1) | (2, 2) | (3, 1..=3 | 5) => say("kind"),
        _ => Reply::Stall,
    };
    let project = with(5, Server::answering(answer));
    let arguments = batch(&["--out", "out", "-j", "4"]);
    kill_after(&project, 5, 1, &arguments);
    call.store(2, Ordering::SeqCst);
    kill_after(&project, 4, 2, &arguments);
    call.store(3, Ordering::SeqCst);
    let before = project.server().requests().len();
    let mut child = project.spawn(&arguments);
    project.server().wait_for(before + 2);
    let started: Vec<Value> =
        lines(&project, "out/journal.jsonl").into_iter().filter(|line| line["alone"] == true).collect();
    let keys: Vec<&Value> = started.iter().map(|line| &line["key"]).collect();
    assert_eq!(keys, ["T-3", "T-4"], "each runs when the one before has ended");
    child.kill().unwrap();
    child.wait().unwrap();
    let end = project.qwen(&arguments);
    assert_eq!(end.code, 1, "{}{}", end.stdout, end.stderr);
    let ends = ends(&project);
    let failed: Vec<&str> = ends.iter().filter(|(_, end)| end["exit_code"] != 0).map(|(key, _)| key.as_str()).collect();
    assert_eq!((failed, &ends["T-4"]["error"]["code"]), (vec!["T-4"], &json!("crashed")));
    assert!(end.stdout.contains("fail T-4 1 failed: the process ended 3 times while it ran"), "{}", end.stdout);
}

#[test]
fn a_torn_line_at_the_end_is_cut_off_and_one_elsewhere_is_an_error() {
    let project = project(3);
    assert_eq!(project.qwen(&batch(&["--out", "out"])).code, 0);
    let whole = std::fs::read(project.root().join("out/journal.jsonl")).unwrap();
    let journal = project.root().join("out/journal.jsonl");
    std::fs::write(&journal, &whole[..whole.len() - 20]).unwrap();
    let run = project.qwen(&batch(&["--out", "out"]));
    assert_eq!((run.code, project.server().requests().len()), (0, 4), "{}", run.stderr);
    assert!(run.stderr.contains("the last line of the journal was incomplete"), "{}", run.stderr);
    std::fs::write(&journal, [&whole[..30], b"\n", &whole[..]].concat()).unwrap();
    let run = project.qwen(&batch(&["--out", "out"]));
    assert_eq!((run.code, project.server().requests().len()), (42, 4));
    assert!(run.stderr.contains("line 1 of the journal is not valid"), "{}", run.stderr);
}

#[test]
fn a_second_process_in_the_same_directory_is_a_conflict() {
    let project = with(2, Server::answering(|_| Reply::Stall));
    let mut first = project.spawn(&batch(&["--out", "out"]));
    project.server().wait_for(1);
    let second = project.qwen(&batch(&["--out", "out"]));
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.code, 63, "{}", second.stderr);
    assert!(second.stderr.contains(&format!("out is in use by process {} on ", first.id())), "{}", second.stderr);
}

#[test]
fn a_crowded_server_fails_no_item() {
    crowded(60, 12);
}

#[test]
#[ignore = "500 items: cargo nextest run --run-ignored all -E 'test(few_of_five_hundred)'"]
fn few_of_five_hundred_requests_are_refused() {
    let refused = crowded(500, 32);
    assert!(refused <= 20, "{refused} of 500");
}

/// Runs so many items against a server with three places, and returns how many requests it refused.
fn crowded(items: usize, jobs: usize) -> usize {
    let project = with(items, Server::with_places(3, |request| say(&format!("kind {}", ticket(request)))));
    let run = project.qwen(&batch(&["--out", "out", "-o", "result", "-j", &jobs.to_string()]));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["items"]["ok"], items);
    assert!(result["concurrency"]["least"].as_u64().unwrap() <= 4);
    project.server().refused()
}

#[test]
fn what_a_stranger_wrote_goes_only_where_it_is_fenced() {
    let plain = CLASSIFY.replace(", untrusted: true", "");
    let project = project(2).file("classify.yaml", plain);
    let run = project.qwen(&batch(&[]));
    assert_eq!((run.code, project.server().requests().len()), (42, 0));
    assert!(
        run.stderr.contains("parameter text takes values of items: declare it `untrusted: true`"),
        "{}",
        run.stderr
    );
    let run = project.qwen(&batch(&["--trust-items"]));
    assert_eq!((run.code, project.server().requests().len()), (0, 2), "{}", run.stderr);
    assert_eq!(run.stdout.lines().count(), 2);
}

#[test]
fn hostile_keys_and_values_are_only_text() {
    let keys =
        ["../../x", "-n", "a/b", "x\u{0}y", "\u{202e}abc", "=cmd()", "\u{1b}[31m", "{{ x }}", "$(id)", "@/etc/passwd"];
    let list: String = keys.iter().map(|key| json!({"id": key, "text": key}).to_string() + "\n").collect();
    let echo = |request: &Value| say(&request["messages"].as_array().unwrap().last().unwrap()["content"].to_string());
    let project = Project::new()
        .file("list/tickets.jsonl", list)
        .file("list/classify.yaml", CLASSIFY)
        .served_by(Server::answering(echo));
    let arguments = [
        "batch",
        "--items",
        "list/tickets.jsonl",
        "--recipe",
        "./list/classify.yaml",
        "--out",
        "o/out",
        "--keep",
        "all",
        "-v",
    ];
    let run = project.qwen(&arguments);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stderr.contains('\u{1b}') && !run.stderr.contains('\u{202e}'), "{:?}", run.stderr);
    let names: Vec<String> = std::fs::read_dir(project.root().join("o/out/items"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), keys.len());
    assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))), "{names:?}");
    let ended: HashSet<String> =
        lines(&project, "o/out/journal.jsonl").iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ended.len(), keys.len());
    let sent = project.server().requests().iter().map(Value::to_string).collect::<String>();
    assert!(
        sent.contains("{{ x }}") && sent.contains("@/etc/passwd") && !sent.contains("root:"),
        "values are themselves"
    );
}

#[test]
fn a_prompt_sees_fields_of_the_item_and_nothing_else() {
    let project = Project::new().file("names.txt", "Ada\n\nGrace\n").served_by(Server::answering(|_| say("yes")));
    let run = project.qwen(&["batch", "--lines", "names.txt", "-p", "A person? {{ item.line }}"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let ends: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut keys: Vec<&str> = ends.iter().map(|end| end["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["Ada", "Grace"]);
    assert!(project.server().messages(0).contains("UNTRUSTED") || project.server().messages(0).contains("untrusted"));
    for (prompt, error) in [
        ("{{ git.branch }}", "it uses `git.branch`, and sees only fields of the item"),
        ("{{ item.nothing }}", "the item `Ada` has no field `nothing` with a value; its fields are line"),
        ("hello", "no parameter takes a value of the items"),
    ] {
        let run = project.qwen(&["batch", "--lines", "names.txt", "-p", prompt]);
        assert_eq!((run.code, project.server().requests().len()), (42, 2), "{prompt}: {}", run.stderr);
        assert!(run.stderr.contains(error), "{prompt}: {}", run.stderr);
    }
}

#[test]
fn items_do_not_see_each_other_and_a_dry_run_changes_no_byte() {
    let recipe = "\
recipe: 1
name: document
description: Document a file.
params:
  path: {type: path, description: The file.}
prompt: 'Document the file {{ params.path }}'
needs: {read: ['**'], write: ['src/**'], create: ['src/**'], tools: [read_file, write_file, glob]}
output: {kind: changes}
";
    let answer = |request: &Value| {
        let messages = request["messages"].as_array().unwrap();
        let prompt = messages[1].to_string();
        let name = if prompt.contains("Document the file src/a.rs") { "a" } else { "b" };
        match messages.len() {
            2 => call("write_file", json!({"file_path": format!("src/{name}.rs"), "content": format!("//! {name}\n")})),
            4 => call("glob", json!({"pattern": "src/**"})),
            6 => call("write_file", json!({"file_path": "src/new.rs", "content": format!("// {name}\n")})),
            _ => say("documented"),
        }
    };
    let project = Project::new()
        .file("src/a.rs", "fn a() {}\n")
        .file("src/b.rs", "fn b() {}\n")
        .file("document.yaml", recipe)
        .git()
        .served_by(Server::answering(answer));
    let out = project.beside("out").display().to_string();
    let before = project.snapshot();
    let run = project.qwen(&[
        "batch",
        "--each",
        "src/*.rs",
        "--each",
        "!src/c*",
        "--recipe",
        "./document.yaml",
        "--out",
        &out,
    ]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let after = project.snapshot();
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after, "a dry run changes no byte");
    for (number, name, other) in [(1, "a", "b"), (2, "b", "a")] {
        let patch = std::fs::read_to_string(format!("{out}/items/00000{number}-src_{name}.rs.patch")).unwrap();
        assert!(patch.contains(&format!("+//! {name}")) && patch.contains("src/new.rs"), "{patch}");
        assert!(!patch.contains(&format!("//! {other}")) && !patch.contains(&format!("+// {other}")), "{patch}");
    }
    let applied = project.qwen(&["apply", &format!("{out}/items/000001-src_a.rs.patch")]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
}

#[test]
fn an_item_cannot_read_what_was_said_of_the_others() {
    let recipe = CLASSIFY.replace("needs: {tools: []}", "needs: {read: ['**'], tools: [read_file, glob]}");
    let recipe = recipe.replace("untrusted: true", "pattern: '.*'");
    let answer = |request: &Value| match request["messages"].as_array().unwrap().len() {
        2 => call("read_file", json!({"file_path": "out/journal.jsonl"})),
        4 => call("glob", json!({"pattern": "out/**"})),
        _ => say("done"),
    };
    let project = with(1, Server::answering(answer)).file("classify.yaml", recipe);
    let run = project.qwen(&batch(&["--out", "out"]));
    // A denied look does not fail a run that only answers.
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let last = project.server().messages(2);
    assert!(!last.contains("\\\"t\\\"") && !last.contains("items.jsonl"), "{last}");
    assert!(!project.server().messages(0).contains("Never read: out"), "the prompt says nothing of it");
}

#[test]
fn a_failed_item_fails_the_batch_and_can_run_again() {
    let answer = |request: &Value| match ticket(request) {
        2 => Reply::Status(400, vec![], r#"{"error":{"message":"no"}}"#.into()),
        n => say(&format!("kind {n}")),
    };
    let project = with(3, Server::answering(answer));
    let run = project.qwen(&batch(&["--out", "out"]));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("fail T-2 1 failed: "), "{}", run.stdout);
    assert!(project.root().join("out/items/000002-T-2.result.json").is_file());
    assert_eq!(project.qwen(&batch(&["--out", "out", "--allow-failures", "1"])).code, 0);
    assert_eq!(asked(&project), [(1, 1), (2, 1), (3, 1)].into());
    assert_eq!(project.qwen(&batch(&["--out", "out", "--rerun", "failed"])).code, 1);
    assert_eq!(asked(&project), [(1, 1), (2, 2), (3, 1)].into());
    assert_eq!(project.qwen(&batch(&["--out", "out", "--rerun", "T-1", "--allow-failures", "1"])).code, 0);
    assert_eq!(asked(&project), [(1, 2), (2, 2), (3, 1)].into());
    let unknown = project.qwen(&batch(&["--out", "out", "--rerun", "T-7"]));
    assert!(unknown.code == 42 && unknown.stderr.contains("--rerun T-7"), "{}", unknown.stderr);
}

#[test]
fn a_total_stops_the_batch_and_the_same_command_goes_on() {
    // Each answer counts 1050 tokens.
    let project = project(8);
    let run = project.qwen(&batch(&["--out", "out", "-j", "1", "--total-tokens", "3000"]));
    assert_eq!((run.code, project.server().requests().len()), (55, 2), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("the batch's budget of 3000 tokens is used up (2100 spent)"), "{}", run.stdout);
    let run = project.qwen(&batch(&["--out", "out", "-j", "1", "--total-tokens", "3000"]));
    assert_eq!((run.code, project.server().requests().len()), (55, 2), "{}", run.stdout);
    let run = project.qwen(&batch(&["--out", "out", "--total-tokens", "30000"]));
    assert_eq!((run.code, project.server().requests().len()), (0, 8), "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_limit_tries_some_items_and_leaves_the_rest() {
    let project = project(9);
    let run = project.qwen(&batch(&["--out", "out", "--limit", "4"]));
    assert_eq!((run.code, project.server().requests().len()), (0, 4), "{}", run.stdout);
    assert_eq!(project.qwen(&batch(&["--out", "out"])).code, 0);
    assert_eq!(asked(&project), (1..=9).map(|n| (n, 1)).collect());
}

#[test]
fn a_signal_ends_the_batch_in_order() {
    let answer = |request: &Value| if ticket(request) > 3 { Reply::Stall } else { say("kind") };
    let project = with(20, Server::answering(answer));
    let child = project.spawn(&batch(&["--out", "out", "-j", "2", "--drain", "100ms"]));
    project.server().wait_for(5);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let ended = project.finish(child);
    assert_eq!(ended.code, 143, "{}{}", ended.stdout, ended.stderr);
    let ends = ends(&project);
    assert_eq!(ends.values().filter(|end| end["final"] == true).count(), 3);
    assert!(ends.values().filter(|end| end["final"] == false).all(|end| end["exit_code"] == 143), "{ends:?}");
    let summary: Value = serde_json::from_str(&project.read("out/summary.json")).unwrap();
    assert_eq!((&summary["exit_code"], &summary["items"]["not_final"]), (&json!(143), &json!(17)));
}

#[test]
fn shards_divide_the_list() {
    let project = project(10);
    for shard in ["1/3", "2/3", "3/3"] {
        let run = project.qwen(&batch(&["--out", "out", "--shard", shard]));
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    assert_eq!(asked(&project), (1..=10).map(|n| (n, 1)).collect());
    let keys = |shard: &str| -> Vec<String> {
        let ends = lines(&project, &format!("out/{shard}/journal.jsonl")).into_iter().filter(|line| line["t"] == "end");
        let mut keys: Vec<String> = ends.map(|end| end["key"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys("shard-1-of-3"), ["T-1", "T-10", "T-4", "T-7"]);
    let other = project.qwen(&batch(&["--out", "out", "--shard", "1/4"]));
    assert!(other.code == 42 && other.stderr.contains("shards of another division"), "{}", other.stderr);
    assert_eq!(project.qwen(&batch(&["--out", "other", "--shard", "auto"])).code, 2);
}

#[test]
fn recorded_items_are_replayed_one_file_each() {
    let project = project(3);
    assert_eq!(project.qwen(&batch(&["--out", "out", "--record", "cassettes"])).code, 0);
    let replayed = project.qwen(&batch(&["--replay", "cassettes"]));
    assert_eq!((replayed.code, project.server().requests().len()), (0, 3), "{}{}", replayed.stdout, replayed.stderr);
    assert!(replayed.stdout.contains("kind 2"), "{}", replayed.stdout);
}

#[test]
fn the_journal_and_the_summary_fit_their_schema() {
    let project = project(2);
    assert_eq!(project.qwen(&batch(&["--out", "out"])).code, 0);
    let schema: Value = serde_json::from_str(&project.qwen(&["schema", "batch"]).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let whole = |path: &str| serde_json::from_str::<Value>(&project.read(path)).unwrap();
    let mut values = vec![whole("out/batch.json"), whole("out/summary.json")];
    values.extend(lines(&project, "out/journal.jsonl"));
    values.extend(lines(&project, "out/items.jsonl"));
    for value in values {
        assert!(validator.is_valid(&value), "{value}");
    }
    assert!(!validator.is_valid(&json!({"t": "begin"})));
}

#[test]
fn other_words_after_batch_are_usage_errors() {
    let project = project(1);
    for word in ["submit", "run", "x"] {
        let run = project.qwen(&["batch", word]);
        assert_eq!(run.code, 2, "{word}: {}", run.stderr);
    }
    assert_eq!(project.qwen(&["batch", "--lines", "a", "--items", "b", "-p", "x"]).code, 2);
}

#[test]
fn a_full_disk_ends_the_batch_and_it_goes_on_once_there_is_room() {
    let project = project(60);
    std::fs::create_dir(project.root().join("disk")).unwrap();
    let inner = project.command(&batch(&["--out", "disk/out"]));
    // An ordinary user may not change the size of a file system: a file takes the room, and gives it back.
    let script = "mount -t tmpfs -o size=8m full disk 2>&1 || exit 99
        head -c 8160k /dev/zero > disk/taken; \"$@\"; echo \"first $?\"; rm disk/taken; \"$@\"; echo \"second $?\"; cp -r disk/out kept";
    let mut outer = std::process::Command::new("unshare");
    outer.args(["-rm", "sh", "-c", script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    outer.current_dir(project.root()).env_clear();
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let Some(ended) = outer.output().ok().filter(|ended| ended.status.code() != Some(99)) else {
        eprintln!("left out: no small file system can be mounted here");
        return;
    };
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    if err.contains("unshare failed") || err.contains("unshare: ") {
        eprintln!("left out: no small file system can be mounted here");
        return;
    }
    assert!(out.contains("first 1\n") && out.contains("second 0\n"), "{out}{err}");
    assert!(err.contains("No space left on device"), "{err}");
    let journal = lines(&project, "kept/journal.jsonl");
    let finals = journal.iter().filter(|line| line["final"] == true);
    let keys: HashSet<&str> = finals.map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), 60);
    // Only what was in flight when the disk was full is paid for again.
    assert!(project.server().requests().len() <= 60 + 4, "{}", project.server().requests().len());
}

#[test]
fn a_checkout_decides_neither_what_is_listed_nor_what_is_done() {
    let project = project(3).git();
    let outside = project.beside("outside.jsonl");
    std::fs::write(&outside, tickets(2)).unwrap();
    std::os::unix::fs::symlink(&outside, project.root().join("link.jsonl")).unwrap();
    let linked = project.qwen(&["batch", "--items", "link.jsonl", "--recipe", "./classify.yaml"]);
    assert_eq!((linked.code, project.server().requests().len()), (42, 0), "{}", linked.stderr);
    assert!(linked.stderr.contains("link in the checkout that points outside"), "{}", linked.stderr);
    assert_eq!(project.qwen(&batch(&["--out", "out"])).code, 0);
    project.run_git(&["add", "-f", "out"]);
    project.run_git(&["commit", "-q", "-m", "results"]);
    let committed = project.qwen(&batch(&["--out", "out"]));
    assert_eq!((committed.code, project.server().requests().len()), (63, 3), "{}", committed.stderr);
    assert!(committed.stderr.contains("git tracks results in this directory"), "{}", committed.stderr);
}
