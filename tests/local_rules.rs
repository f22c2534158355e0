//! Tests what is found in a change without a model: in reviews and by `qwen check change`.

use serde_json::{Value, json};

use crate::support::{Outcome, Project, Reply, call, say};

const HEAD: &str = "recipe: 1\nname: fix\ndescription: D\nlimits: {cost_usd: 1}\n";

fn project(replies: impl IntoIterator<Item = Reply>) -> Project {
    Project::new().git().model(replies)
}

fn run(project: &Project) -> Outcome {
    project.run(&["--recipe", "fix", "--trust-checkout", "-o", "result"])
}

#[test]
fn a_secret_of_a_change_is_found_wherever_it_is_and_shown_nowhere() {
    let text = "context: [{name: change, diff: worktree}]\nprompt: '{{ context.change | fence }}'\nneeds: {tools: []}\noutput: {kind: findings, rules: [{id: bug, description: B}]}\n";
    let (aws, key) = (format!("AKIA{}", "ABCDEFGHIJKLMNOP"), format!("sk_live_{}", "a1B2".repeat(8)));
    let pem = "-----BEGIN PRIVATE KEY-----\nabcd\n-----END PRIVATE KEY-----";
    let start = || {
        let project = project([call("structured_output", json!({"findings": []}))]).env("MY_TOKEN", "hunter2-hunter2");
        let project = project.file(".qwen/recipes/fix.yaml", format!("{HEAD}{text}"));
        project.run_git(&["add", "-Af", "."]);
        project.run_git(&["commit", "-q", "-m", "recipe"]);
        let project = project
            .file("a.rs", format!("one\nlet k = \"{key}\";\nthree hunter2-hunter2\n"))
            .file("sub/Cargo.lock", format!("x\n# {aws}\n"))
            .file("k.txt", format!("first\n{pem}\n"));
        project.run_git(&["add", "-Af", "."]);
        project
    };
    let project = start();
    let outcome = run(&project);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let found: Vec<String> = outcome.result["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            format!(
                "{}:{} {}",
                finding["path"].as_str().unwrap(),
                finding["start_line"],
                finding["message"].as_str().unwrap().split(';').next().unwrap()
            )
        })
        .collect();
    let expected = [
        "a.rs:2 adds what looks like a stripe-key",
        "a.rs:3 adds the value of the variable MY_TOKEN",
        "k.txt:2 adds what looks like a private-key",
        "sub/Cargo.lock:2 adds what looks like an aws-key",
    ];
    assert_eq!(found, expected);
    let all = format!("{}{}{:?}", outcome.stdout, outcome.stderr, project.server().requests());
    for secret in [key.as_str(), &aws, "hunter2-hunter2", "abcd"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    // What the policy says is none is none; a variable's value always is one.
    let message = outcome.result["findings"][0]["message"].as_str().unwrap();
    let (_, sum) = message.split_once("sha256: ").unwrap();
    let sum = sum.trim_end_matches(')');
    let policy = format!(
        "version: 1\nextends: builtin:default\nsecrets: {{ignore: {{sha256: [{sum}], paths: [k.txt, '**/*.lock']}}}}\n"
    );
    let project = start().policy(&policy);
    let outcome = run(&project);
    assert_eq!(outcome.result["findings"].as_array().unwrap().len(), 1, "{}", outcome.stdout);
    let checked = start().policy(&policy).qwen(&["check", "change"]);
    assert_eq!(
        (checked.code, checked.stdout.as_str()),
        (1, "a.rs:3: error [qwen/secret] adds the value of the variable MY_TOKEN\n")
    );
    let wrong = start().policy("version: 1\nsecrets: {ignore: {sha256: [abc]}}\n").qwen(&["check", "change"]);
    assert!(wrong.code == 52 && wrong.stderr.contains("`abc` does not have 64 hexadecimal digits"), "{}", wrong.stderr);
}

#[test]
fn a_key_that_is_exchanged_between_its_marks_is_found() {
    let key = |seed: u32| {
        let letter = |at: u32| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(at % 26) as usize]);
        let line = |n: u32| (0..64).map(|at| letter(at * 7 + n * 11 + seed)).collect::<String>();
        let lines: Vec<String> = (0..20).map(line).collect();
        format!("KEY = \"\"\"-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\"\"\"\n", lines.join("\n"))
    };
    let project = project([]).file("conf.py", key(1));
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    let project = project.file("conf.py", key(2));
    let checked = project.qwen(&["check", "change"]);
    assert_eq!(checked.code, 1, "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.starts_with("conf.py:1: error [qwen/secret] adds what looks like a private-key"));
    let project = project.file("conf.py", key(1) + "other = 1\n");
    assert_eq!(project.qwen(&["check", "change"]).stdout, "", "the key was there");
}

#[test]
fn a_change_is_checked_without_a_model() {
    let project = project([]).file("web/a.txt", "one\n");
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    let clean = project.qwen(&["check", "change"]);
    assert_eq!((clean.code, clean.stdout.as_str()), (0, ""));
    std::os::unix::fs::symlink("/etc/passwd", project.root().join("web/out")).unwrap();
    let project = project.file("web/.env", "A=1\n").file("web/a.txt", "one\nt\u{202e}wo\n").file("top.pem", "x\n");
    project.run_git(&["add", "-Af", "."]);
    let lines = "web/.env:1: error [qwen/denied-file] a file for secrets (.env) is part of the change; no model looked at it\n\
                 web/a.txt:2: error [qwen/hidden-character] the line has the invisible character U+202E\n\
                 web/out:1: error [qwen/link-outside] the link leads out of the repository: /etc/passwd\n";
    let web = project.root().join("web").display().to_string();
    let staged = project.qwen(&["check", "change", "--staged", "--cd", &web]);
    assert_eq!((staged.code, staged.stdout.as_str()), (1, lines));
    project.run_git(&["commit", "-q", "-m", "change"]);
    assert_eq!(project.qwen(&["check", "change"]).code, 0, "nothing differs from the commit");
    let range = project.qwen(&["check", "change", "--range", "HEAD~1..HEAD", "--json", "-C", &web]);
    let value: Value = serde_json::from_str(&range.stdout).unwrap();
    assert_eq!((range.code, value["findings"].as_array().unwrap().len()), (1, 3));
    assert_eq!(value["findings"][0]["source"], "local");
    let unknown = project.qwen(&["check", "change", "--range", "nope..HEAD"]);
    assert!(unknown.code == 42 && unknown.stderr.contains("`nope..HEAD` does not name commits"), "{}", unknown.stderr);
    assert_eq!(project.qwen(&["check", "change", "--range", "HEAD"]).code, 2);
    assert_eq!(project.server().connections(), 0);
}

#[test]
fn a_secret_in_the_name_of_a_file_is_found_and_not_shown() {
    let key = format!("sk_live_{}", "a1B2".repeat(8));
    let project = project([]).env("MY_TOKEN", "hunter2-hunter2").file("old/hunter2-hunter2.txt", "x\n");
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    std::fs::remove_file(project.root().join("old/hunter2-hunter2.txt")).unwrap();
    let project = project.file(&format!("a/{key}/b.txt"), "one\n").file("hunter2-hunter2.txt", "two\n");
    project.run_git(&["add", "-A"]);
    for more in [&[][..], &["--json"]] {
        let checked = project.qwen(&[&["check", "change"], more].concat());
        assert_eq!(checked.code, 1, "{}{}", checked.stdout, checked.stderr);
        let said = checked.stdout.matches("the name has ").count();
        assert!(
            said == 2 && checked.stdout.contains("the name has what looks like a stripe-key"),
            "{}",
            checked.stdout
        );
        assert!(checked.stdout.contains("the name has the value of the variable MY_TOKEN"), "{}", checked.stdout);
        assert!(!checked.stdout.contains(&key) && !checked.stdout.contains("hunter2"), "{}", checked.stdout);
    }
}

#[test]
fn a_recipe_chooses_the_files_that_are_shown() {
    let text = "context: [{name: change, diff: staged, include: ['**/*.rs', '*.lock'], exclude: ['old/**'], generated: show}]\nprompt: '{{ context.change | fence }}'\nneeds: {tools: []}\noutput: {kind: findings, rules: [{id: bug, description: B}]}\n";
    let project = project([call("structured_output", json!({"findings": []}))]);
    let project = project.file(".qwen/recipes/fix.yaml", format!("{HEAD}{text}"));
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    let project = project.file("a.rs", "shown\n").file("old/b.rs", "hidden\n").file("c.md", "hidden\n");
    let project = project.file("Cargo.lock", "locked\n");
    project.run_git(&["add", "-A"]);
    let outcome = run(&project);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent = project.server().messages(0);
    assert!(sent.contains("+shown") && sent.contains("+locked") && !sent.contains("+hidden"), "{sent}");
    assert!(sent.contains("A c.md +1 -0 (excluded)") && sent.contains("A old/b.rs +1 -0 (excluded)"), "{sent}");
    let wrong = text.replace("diff: staged", "stdin: true").replace("'old/**'", "'[a'");
    let project = project.file(".qwen/recipes/fix.yaml", format!("{HEAD}{wrong}"));
    let refused = project.qwen(&["recipe", "validate", "fix"]);
    for part in ["`context.change.include` belongs to `diff`", "`context.change.exclude`: "] {
        assert!(
            refused.code != 0 && format!("{}{}", refused.stdout, refused.stderr).contains(part),
            "{}",
            refused.stdout
        );
    }
}

#[test]
fn a_change_cannot_call_its_code_binary() {
    let text = "context: [{name: change, diff: staged}]\nprompt: '{{ context.change | fence }}'\nneeds: {tools: []}\noutput: {kind: findings, rules: [{id: bug, description: B}]}\n";
    let project = project([call("structured_output", json!({"findings": []}))]);
    let project = project.file(".qwen/recipes/fix.yaml", format!("{HEAD}{text}")).file("a.rs", "one\n");
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    let key = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
    let project = project
        .file(".gitattributes", "*.rs -diff\n*.lock binary\n")
        .file("a.rs", "one\ntwo\n")
        .file("x.lock", format!("{key}\n"))
        .file("p.png", b"\x89PNG\0\0AKIAABCDEFGHIJKLMNOP");
    std::os::unix::fs::symlink("a.rs", project.root().join("link")).unwrap();
    project.run_git(&["add", "-A"]);
    let checked = project.qwen(&["check", "change", "--staged"]);
    let places: Vec<&str> = checked.stdout.lines().filter_map(|line| line.split(" adds").next()).collect();
    assert_eq!(places, ["p.png:1: error [qwen/secret]", "x.lock:1: error [qwen/secret]"], "{}", checked.stdout);
    let outcome = run(&project);
    let sent = project.server().messages(0);
    assert!(sent.contains("+two") && !sent.contains("Binary files"), "{sent}");
    assert!(sent.contains("A p.png (binary)") && sent.contains("A link +1 -0 (link)"), "{sent}");
    assert_eq!(outcome.code, 3);
    assert_eq!(outcome.result["structured_output"]["coverage"]["looked_at"], 3);
}

#[test]
fn a_link_that_leaves_through_another_link_and_every_invisible_character_are_findings() {
    use std::os::unix::fs::symlink;
    let project = project([]).file("d/x.txt", "one\n");
    symlink("..", project.root().join("d/up")).unwrap();
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    symlink("d/up/../../x", project.root().join("out")).unwrap();
    symlink("d/up/d/x.txt", project.root().join("inside")).unwrap();
    let hidden =
        ['\u{61c}', '\u{feff}', '\u{2061}', '\u{3164}', '\u{206a}', '\u{fff9}', '\u{ad}', '\u{34f}', '\u{e0100}'];
    let lines: String = hidden.iter().map(|c| format!("a{c}b\n")).collect();
    // A byte order mark in front, joiners of scripts and emoji, and a variant of an ideograph are seen or needed.
    let good = "\u{feff}first\n\u{1f469}\u{200d}\u{1f4bb} \u{2764}\u{fe0f} \u{845b}\u{e0100}\n";
    let project = project.file("a.txt", lines).file("good.txt", good).file("na\u{202e}me.txt", "x\n");
    project.run_git(&["add", "-A"]);
    let checked = project.qwen(&["check", "change", "--staged"]);
    let places: Vec<String> =
        checked.stdout.lines().map(|line| line.split(": error [").next().unwrap().to_owned()).collect();
    let mut expected: Vec<String> = (1..=hidden.len()).map(|n| format!("a.txt:{n}")).collect();
    expected.extend(["na\\u{202e}me.txt:1".to_owned(), "out:1".to_owned()]);
    assert_eq!(places, expected, "{}", checked.stdout);
}

#[test]
fn a_secret_in_utf_16_is_found_where_it_was_added() {
    let key = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
    let utf16 = |mark: &str, text: &str| {
        let units = format!("{mark}{text}").encode_utf16().collect::<Vec<_>>();
        units.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<u8>>()
    };
    let project = project([]).file("old.reg", utf16("\u{feff}", &format!("one\r\n{key}\r\n")));
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    let project = project
        .file("old.reg", utf16("\u{feff}", &format!("one\r\n{key}\r\nthree\r\n")))
        .file("new.reg", utf16("\u{feff}", &format!("one\r\ntwo {key}\r\n")))
        .file("bare.sql", utf16("", &format!("{key}\n")));
    let places = |arguments: &[&str]| -> Vec<String> {
        let checked = project.qwen(arguments);
        checked.stdout.lines().filter_map(|line| Some(line.split_once(": error [qwen/secret]")?.0.to_owned())).collect()
    };
    project.run_git(&["add", "-A"]);
    assert_eq!(places(&["check", "change"]), ["bare.sql:1", "new.reg:2"]);
    assert_eq!(places(&["check", "change", "--staged"]), ["bare.sql:1", "new.reg:2"]);
}

/// A repository whose staged change has three files of about 100 bytes, for a recipe whose parts have 200.
fn large_change(replies: impl IntoIterator<Item = Reply>, keys: &str) -> Project {
    let text = format!(
        "context: [{{name: change, diff: staged, {keys}}}]\nprompt: '{{{{ context.change | fence }}}}'\nneeds: {{tools: []}}\noutput: {{kind: findings, incomplete: fail, rules: [{{id: bug, description: B}}]}}\n"
    );
    let head = HEAD.replace("cost_usd: 1", "cost_usd: 1, turns: 1");
    let project = project(replies).file(".qwen/recipes/fix.yaml", format!("{head}{text}"));
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    let project = ["a", "b", "c"].into_iter().fold(project, |project, name| {
        project.file(&format!("{name}.rs"), format!("let {name} = 1;\n{}", "// filled\n".repeat(4)))
    });
    project.run_git(&["add", "-A"]);
    project
}

fn found(name: &str) -> Reply {
    let (path, quote) = (format!("{name}.rs"), format!("let {name} = 1;"));
    call(
        "structured_output",
        json!({"findings": [{"rule_id": "bug", "severity": "warning", "path": path, "start_line": 1, "end_line": 1,
            "quote": quote, "message": "wrong", "confidence": "high"}]}),
    )
}

#[test]
fn a_large_change_is_reviewed_in_parts() {
    let project = large_change(["a", "b", "c"].map(found), "max_bytes: 250");
    let outcome = run(&project);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let requests: Vec<String> = (0..3).map(|n| project.server().messages(n)).collect();
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        assert!(requests[n].contains(&format!("+let {name} = 1;")), "{}", requests[n]);
        assert_eq!(requests[n].matches("+let ").count(), 1, "each part is a conversation of its own");
        assert!(requests[n].contains(&format!("This is part {} of 3", n + 1)), "{}", requests[n]);
    }
    assert!(requests[0].contains("A a.rs +5 -0\\nA b.rs +5 -0 (in another part)"), "{}", requests[0]);
    let paths: Vec<&str> =
        outcome.result["findings"].as_array().unwrap().iter().map(|found| found["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a.rs", "b.rs", "c.rs"]);
    let coverage = &outcome.result["structured_output"]["coverage"];
    assert_eq!(
        (&coverage["parts"], &coverage["parts_done"], &coverage["looked_at"]),
        (&json!(3), &json!(3), &json!(3))
    );
}

#[test]
fn what_has_no_room_is_named_and_an_incomplete_review_can_fail() {
    let cut = large_change([found("a")], "max_bytes: 250, on_large: cut");
    let outcome = run(&cut);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let coverage = &outcome.result["structured_output"]["coverage"];
    assert_eq!(coverage["not_looked_at"][1], json!({"path": "c.rs", "status": "A", "class": "not_reached"}));
    assert!(
        outcome.result["result"]
            .as_str()
            .unwrap()
            .contains("looked at 1 of 3 files; not looked at: b.rs (not reached)")
    );
    let short = large_change(["a", "b", "c"].map(found), "max_bytes: 140");
    let outcome = run(&short);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let coverage = &outcome.result["structured_output"]["coverage"];
    assert_eq!((&coverage["looked_at"], &coverage["cut"][0]["path"]), (&json!(3), &json!("a.rs")), "{coverage}");
    let whole = large_change([], "max_bytes: 250, on_large: fail");
    let refused = run(&whole);
    assert!(refused.code == 42 && refused.stderr.contains("at most 250"), "{}", refused.stderr);
    assert_eq!(whole.server().connections(), 0);
}

#[test]
fn what_the_finished_parts_found_stays_when_a_limit_ends_a_later_one() {
    // The turn of the second part is used up by a text that is no answer.
    let project = large_change([found("a"), say("I am not sure.")], "max_bytes: 250");
    let outcome = run(&project);
    assert_eq!(outcome.code, 53, "{}", outcome.stderr);
    assert_eq!(outcome.result["findings"][0]["path"], "a.rs");
    let coverage = &outcome.result["structured_output"]["coverage"];
    assert_eq!((&coverage["parts_done"], &coverage["looked_at"]), (&json!(1), &json!(1)), "{coverage}");
    assert_eq!(coverage["not_looked_at"].as_array().unwrap().len(), 2, "{coverage}");
}

#[test]
fn a_change_of_generated_files_alone_names_them_and_costs_no_request() {
    let text = "context: [{name: change, diff: staged, on_empty: skip_run}]\nprompt: '{{ context.change | fence }}'\nneeds: {tools: []}\noutput: {kind: findings, rules: [{id: bug, description: B}]}\n";
    let key = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
    for (content, code) in [("x\n".to_owned(), 0), (format!("{key}\n"), 3)] {
        let project = project([]).file(".qwen/recipes/fix.yaml", format!("{HEAD}{text}"));
        project.run_git(&["add", "-A"]);
        project.run_git(&["commit", "-q", "-m", "start"]);
        let project = project.file("sub/Cargo.lock", content);
        project.run_git(&["add", "-A"]);
        let outcome = run(&project);
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        let result = outcome.result["result"].as_str().unwrap();
        assert!(result.ends_with("looked at 0 of 1 files; not looked at: sub/Cargo.lock (generated)"), "{result}");
        assert_eq!(outcome.result["findings"].as_array().unwrap().len(), usize::from(code == 3));
        assert_eq!(project.server().connections(), 0);
    }
}

#[test]
fn a_change_cannot_call_itself_generated_but_what_it_changes_can() {
    let text = "context: [{name: change, diff: range, range: 'HEAD~1...HEAD'}]\nprompt: '{{ context.change | fence }}'\nneeds: {tools: []}\noutput: {kind: findings, rules: [{id: bug, description: B}]}\n";
    let project = project([call("structured_output", json!({"findings": []}))])
        .file(".qwen/recipes/fix.yaml", format!("{HEAD}{text}"))
        .file(".gitattributes", "gen/** linguist-generated\n*.c linguist-vendored=true\n")
        .file("gen/a.rs", "one\n")
        .file("b.c", "one\n")
        .file("x.rs", "// @generated by tool\n")
        .file("y.rs", "one\n")
        .file("z.rs", "one\n");
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    let project = project
        .file(".gitattributes", "gen/** linguist-generated\n*.c linguist-vendored=true\nz.rs linguist-generated\n")
        .file("gen/a.rs", "one\nin gen\n")
        .file("b.c", "one\nin c\n")
        .file("x.rs", "// @generated by tool\nin x\n")
        .file("y.rs", "// @generated by me\nin y\n")
        .file("z.rs", "one\nin z\n");
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "change"]);
    assert_eq!(run(&project).code, 0);
    let sent = project.server().messages(0);
    for shown in ["+in y", "+in z", "M y.rs +2 -1\\n", "M z.rs +1 -0\\n"] {
        assert!(sent.contains(shown), "{shown}: {sent}");
    }
    for hidden in ["gen/a.rs", "b.c", "x.rs"] {
        assert!(sent.contains(&format!("M {hidden} +1 -0 (generated)")), "{hidden}: {sent}");
    }
    assert!(["+in gen", "+in c", "+in x"].iter().all(|hidden| !sent.contains(hidden)), "{sent}");
}

#[test]
fn every_output_names_the_same_findings_and_none_holds_a_secret() {
    let text = "context: [{name: change, diff: staged}]\nprompt: '{{ context.change | fence }}'\nneeds: {tools: []}\noutput: {kind: findings, rules: [{id: bug, description: B}, {id: style, description: S}]}\n";
    let key = format!("sk_live_{}", "a1B2".repeat(8));
    let finding = |rule: &str, quote: &str, suggestion: Value| {
        json!({"rule_id": rule, "severity": "warning", "path": "a.rs", "start_line": 7, "end_line": 9, "quote": quote,
            "message": format!("about {rule}"), "confidence": "high", "suggestion": suggestion})
    };
    let findings = [
        finding("bug", "let k =", json!({"replacement": "let k = load();"})),
        finding("style", "fn f() {\n  1", json!({"quote": "  1", "replacement": "2", "start_line": 99})),
        finding("style", "never written", json!({"replacement": ""})),
    ];
    let answer = call("structured_output", json!({"findings": findings}));
    let project = project([answer]).file(".qwen/recipes/fix.yaml", format!("{HEAD}{text}"));
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "start"]);
    let project = project.file("web/a.rs", format!("one\n  let k = \"{key}\";\nfn f() {{\n  1\n}}\n"));
    project.run_git(&["add", "-A"]);
    let names = ["x.sarif", "x.rdjson", "x.md", "x.html", "x.jsonl", "x.json"].map(|name| project.beside(name));
    let flags = ["--sarif-file", "--rdjson-file", "--summary-file", "--report-file", "--events-file", "--result-file"];
    let files: Vec<String> =
        flags.iter().zip(&names).map(|(flag, file)| format!("{flag}={}", file.display())).collect();
    let web = project.root().join("web").display().to_string();
    let mut words = vec!["run", "--recipe", "fix", "--trust-checkout", "-o", "result", "-vv", "--cd", &web];
    words.extend(files.iter().map(String::as_str));
    let outcome = project.qwen(&words);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let texts = names.map(|file| std::fs::read_to_string(file).unwrap());
    for text in texts.iter().chain([&outcome.stdout, &outcome.stderr]) {
        assert!(!text.contains(&key), "{text}");
    }
    let [sarif, rdjson, summary, page, events, result] = texts;
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let list = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_array).unwrap().clone();
    let named = |all: Vec<Value>, keys: [&str; 3]| -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let one = |finding: &Value| keys.map(|key| text(finding.pointer(key).unwrap())).join(" ");
        all.iter().map(one).collect()
    };
    let expected = ["qwen/secret web/a.rs 2", "bug web/a.rs 2", "style web/a.rs 3"];
    let of_result = ["/rule_id", "/path", "/start_line"];
    let result = value(&result);
    let end = value(events.lines().last().unwrap());
    for (all, keys) in [
        (list(&result, "/findings"), of_result),
        (list(&result, "/structured_output/findings"), of_result),
        (list(&value(&outcome.stdout), "/findings"), of_result),
        (list(&end, "/findings"), of_result),
        (
            list(&value(&sarif), "/runs/0/results"),
            [
                "/ruleId",
                "/locations/0/physicalLocation/artifactLocation/uri",
                "/locations/0/physicalLocation/region/startLine",
            ],
        ),
        (list(&value(&rdjson), "/diagnostics"), ["/code/value", "/location/path", "/location/range/start/line"]),
    ] {
        assert_eq!(named(all, keys), expected);
    }
    for (text, what) in [(&summary, "summary"), (&page, "page")] {
        for part in ["web/a.rs", "about bug", "about style"] {
            assert!(text.contains(part), "{what}: {part}: {text}");
        }
        assert!(!text.contains("never written"), "{what}");
    }
    let suggestions: Vec<Value> = list(&result, "/findings").iter().map(|one| one["suggestion"].clone()).collect();
    let suggestion = |line: u64, text: &str| json!({"start_line": line, "end_line": line, "replacement": text});
    assert_eq!(suggestions, [Value::Null, suggestion(2, "  let k = load();\n"), suggestion(4, "  2\n")]);
    let all = list(&result, "/findings");
    assert!(all.iter().all(|one| one["dismissed"] == false && one["fingerprint"].as_str().unwrap().len() == 32));
    assert!(all[1]["quote"].as_str().unwrap().starts_with("  let k = \"[redacted:"), "{}", all[1]);
}
