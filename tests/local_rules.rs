//! Tests what is found in a change without a model: in reviews and by `qwen check change`.

use serde_json::{Value, json};

use crate::support::{Outcome, Project, Reply, call};

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
    assert!(sent.contains("A c.md (excluded)") && sent.contains("A old/b.rs (excluded)"), "{sent}");
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
    assert!(checked.code == 1 && checked.stdout.starts_with("x.lock:1: error [qwen/secret]"), "{}", checked.stdout);
    assert_eq!(checked.stdout.lines().count(), 1, "{}", checked.stdout);
    let outcome = run(&project);
    let sent = project.server().messages(0);
    assert!(sent.contains("+two") && !sent.contains("Binary files"), "{sent}");
    assert!(sent.contains("A p.png (binary)") && sent.contains("A link (link)"), "{sent}");
    assert_eq!(outcome.code, 3);
    assert_eq!(outcome.result["structured_output"]["coverage"]["looked_at"], 3);
}
