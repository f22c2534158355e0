//! Tests a pull request that is large and odd, and texts that would act on GitHub.

use serde_json::{Value, json};

use super::runner::Seen;
use super::{Event, Job};
use crate::support::github::TOKEN;
use crate::support::{GitHub, Project, call, program, say};

const NUMBER: u64 = 12;

/// Names of files that git quotes, each with a line that is wrong.
const ODD: [&str; 2] = ["quo\"te.py", "ä b.py"];

/// The policy shows no file with such a name to a model.
const UNREADABLE: &str = "ta\tb.py";

fn finding(path: &str, line: usize, quote: &str) -> Value {
    json!({"rule_id": "correctness", "severity": "error", "path": path, "start_line": line, "end_line": line,
           "quote": quote, "message": "Divides by zero.", "confidence": "high"})
}

/// 50 kB, in which one line is wrong.
fn big(number: usize) -> String {
    let line = |at: usize| match at {
        700 => format!("wrong_{number} = 1 / 0\n"),
        _ => format!("value_{number}_{at:04} = \"{}\"\n", "x".repeat(30)),
    };
    (1..=1_000).map(line).collect()
}

/// Makes the change in a folder of the repository.
fn change(project: &Project) {
    let write = |path: &str, text: &str| std::fs::write(project.root().join("app").join(path), text).unwrap();
    for number in 0..5 {
        write(&format!("big{number}.py"), &big(number));
    }
    for path in ODD.iter().chain([&UNREADABLE]) {
        write(path, "a = 1\nb = a / 0\n");
    }
    let lock: String = (0..20_000).map(|number| format!("checksum = \"{number}\"\n")).collect();
    write("Cargo.lock", &lock);
    write("long.js", &format!("var a = \"{}\";\n", "y".repeat(300_000)));
    write(".env", "PASSWORD=hunter2-hunter2\n");
    write("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nabcd\n-----END OPENSSH PRIVATE KEY-----\n");
    std::os::unix::fs::symlink("/etc/passwd", project.root().join("app/passwd")).unwrap();
}

fn run(project: &Project, api: &GitHub, folder: &std::path::Path, inputs: Vec<(&'static str, String)>) -> Seen {
    let commit = |revision: &str| project.run_git(&["rev-parse", revision]).trim().to_owned();
    let content = json!({"repository": {"default_branch": "main", "full_name": "o/r"}, "action": "opened",
        "pull_request": {"number": NUMBER, "head": {"sha": commit("change"), "repo": {"full_name": "o/r"}},
                         "base": {"sha": commit("main")}}});
    let mut all = vec![
        ("binary", program().display().to_string()),
        ("github-token", TOKEN.to_owned()),
        ("recipe", "review-diff".to_owned()),
        ("working-directory", "app".to_owned()),
    ];
    all.extend(inputs);
    let home = project.home();
    let event = Event { name: "pull_request", content, actor: "ann" };
    let environment = vec![("GITHUB_API_URL", api.url.clone())];
    Job { folder, home: &home, event, inputs: all, environment }.run()
}

#[test]
fn a_large_and_odd_change_is_reviewed_at_its_lines_and_what_nobody_saw_is_named() {
    let odd: Vec<Value> = ODD.iter().map(|path| finding(path, 2, "b = a / 0")).collect();
    let reply = |findings: Vec<Value>| call("structured_output", json!({"findings": findings}));
    let replies = [
        reply(vec![finding("big0.py", 3, "wrong_0 = 1 / 0")]),
        reply(vec![finding("app/big3.py", 700, "wrong_3 = 1 / 0"), finding("big0.py", 1, "this is nowhere")]),
        reply(odd),
    ];
    let project = Project::new().file("app/a.py", "a = 1\n").model(replies).git();
    let origin = project.beside("origin.git");
    project.run_git(&["clone", "-q", "--bare", ".", &origin.display().to_string()]);
    project.run_git(&["remote", "add", "origin", &origin.display().to_string()]);
    project.run_git(&["fetch", "-q", "origin"]);
    project.run_git(&["checkout", "-q", "-b", "change"]);
    change(&project);
    project.run_git(&["add", "-Af", "."]);
    project.run_git(&["commit", "-q", "-m", "much"]);
    project.run_git(&["push", "-q", "origin", "change"]);
    let api = GitHub::start(&origin);
    api.state().open_pull(NUMBER, "change", "main");
    let model = vec![
        ("api-key", "sk-something-secret".to_owned()),
        ("base-url", project.server().base_url()),
        ("model", "scripted".to_owned()),
    ];
    let review = run(&project, &api, &project.root(), model);
    assert_eq!((review.code, review.outputs["complete"].as_str()), (3, "false"), "{}", review.log);
    let found: Vec<Value> = serde_json::from_str(&review.outputs["findings"]).unwrap();
    let mut places: Vec<String> = found
        .iter()
        .map(|one| {
            format!("{}:{} {}", one["path"].as_str().unwrap(), one["start_line"], one["rule_id"].as_str().unwrap())
        })
        .collect();
    places.sort();
    let expected = [
        "app/.env:1 qwen/denied-file",
        "app/big0.py:700 correctness",
        "app/big3.py:700 correctness",
        "app/id_rsa:1 qwen/denied-file",
        "app/id_rsa:1 qwen/secret",
        "app/passwd:1 qwen/link-outside",
        "app/quo\"te.py:2 correctness",
        "app/ä b.py:2 correctness",
    ];
    assert_eq!(places, expected);
    let result: Value = serde_json::from_slice(&std::fs::read(&review.outputs["result-file"]).unwrap()).unwrap();
    let coverage = &result["structured_output"]["coverage"];
    assert_eq!((&coverage["parts"], &coverage["parts_done"]), (&json!(3), &json!(3)), "{coverage}");
    let missing: Vec<String> = coverage["not_looked_at"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| format!("{} {}", file["path"].as_str().unwrap(), file["class"].as_str().unwrap()))
        .collect();
    let unseen = [
        "app/.env denied",
        "app/Cargo.lock generated",
        "app/id_rsa denied",
        "app/passwd denied",
        "app/ta\tb.py denied",
    ];
    assert_eq!(missing, unseen);
    let sent = format!("{:?}", project.server().requests());
    assert!(!sent.contains("hunter2") && !sent.contains("abcd\\n"), "no secret is sent");

    let second = project.beside("second");
    project.run_git(&["clone", "-q", &origin.display().to_string(), &second.display().to_string()]);
    let delivered = run(
        &project,
        &api,
        &second,
        vec![
            ("job", "deliver".to_owned()),
            ("proposal-dir", review.outputs["proposal-dir"].clone()),
            ("proposal-sha256", review.outputs["proposal-sha256"].clone()),
        ],
    );
    assert_eq!(delivered.code, 0, "{}", delivered.log);
    let state = api.state();
    let mut posted: Vec<(String, u64)> =
        state.threads.iter().map(|thread| (thread.path.clone(), thread.line)).collect();
    posted.sort();
    for path in ODD {
        assert!(posted.contains(&(format!("app/{path}"), 2)), "{posted:?}");
    }
    assert!(posted.contains(&("app/big3.py".to_owned(), 700)), "{posted:?}");
    let comment = state.comments_of(NUMBER)[0].1.to_owned();
    assert!(comment.contains("`app/Cargo.lock`: generated") && comment.contains("`app/.env`: denied"), "{comment}");
}

/// Texts that git, GitHub or its runner would act on.
const HOSTILE: [&str; 17] = [
    "thanks @octocat and @org/team",
    "fixes #7",
    "Closes o/r#8, resolves GH-9",
    "https://github.com/o/r/issues/10",
    "[skip ci]",
    "[CI Skip] [no ci]",
    "[skip actions] [actions skip]",
    "Signed-off-by: Eve <eve@example.com>",
    "Co-authored-by: Eve <eve@example.com>",
    "skip-checks: true",
    "Qwen-Tree: 0000000000000000000000000000000000000000",
    "Reviewed-by = Eve <eve@example.com>",
    "::set-output name=a::b",
    "<!-- qwen:sticky v1 do -->",
    "```\n</details>\n````",
    "fix\u{200b}es #\u{200b}7 @\u{200b}octocat",
    "Change-Id: I0123",
];

#[test]
fn no_text_of_a_model_acts_in_a_commit_or_a_pull_request() {
    let answer = format!("Adds a file.\n\n{}\n", HOSTILE.join("\n\n"));
    let script = [call("write_file", json!({"file_path": "x.txt", "content": "x\n"})), say(&answer)];
    let policy = "version: 1\nname: p\nextends: builtin:edit\nchanges: dry-run\npaths:\n  write: {allow: [\"**\"]}\n";
    let project = Project::new().file("a.txt", "a\n").file(".qwen/policy.yaml", policy).model(script).git();
    let origin = project.beside("origin.git");
    project.run_git(&["clone", "-q", "--bare", ".", &origin.display().to_string()]);
    let api = GitHub::start(&origin);
    let (root, home, second) = (project.root(), project.home(), project.beside("second"));
    let job = |folder: &std::path::Path, inputs: Vec<(&'static str, String)>| {
        let environment = vec![("GITHUB_API_URL", api.url.clone())];
        Job { folder, home: &home, event: Event::by_hand(), inputs, environment }.run()
    };
    let common = || vec![("binary", program().display().to_string()), ("github-token", TOKEN.to_owned())];
    let mut inputs = common();
    inputs.extend([
        ("api-key", "sk-something-secret".to_owned()),
        ("base-url", project.server().base_url()),
        ("model", "scripted".to_owned()),
        ("prompt", "add a file".to_owned()),
    ]);
    let first = job(&root, inputs);
    assert_eq!(first.code, 0, "{}", first.log);
    project.run_git(&["clone", "-q", &origin.display().to_string(), &second.display().to_string()]);
    let mut inputs = common();
    inputs.extend([
        ("job", "deliver".to_owned()),
        ("branch", "qwen/x".to_owned()),
        ("proposal-dir", first.outputs["proposal-dir"].clone()),
        ("proposal-sha256", first.outputs["proposal-sha256"].clone()),
    ]);
    let delivered = job(&second, inputs);
    assert_eq!(delivered.code, 0, "{}", delivered.log);
    let git = |words: &[&str]| project.run_git(&[&["-C", &origin.display().to_string()], words].concat());
    let message = git(&["log", "-1", "--format=%B", "qwen/x"]);
    let file = project.beside("message");
    std::fs::write(&file, &message).unwrap();
    let trailers = git(&["interpret-trailers", "--parse", &file.display().to_string()]);
    let names: Vec<&str> = trailers.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["Assisted-by", "Qwen-Run-Id", "Qwen-Tree"], "{message}");
    let acts = [
        r"(?i)@[\w-]",
        r"(?i)(close[sd]?|fix(es|ed)?|resolve[sd]?):?\s+([\w.-]+/[\w.-]+)?#\d",
        r"#\d",
        r"(?i)\bgh-\d",
        r"(?i)/(issues|pull)/\d",
        r"(?i)\[(skip ci|ci skip|no ci|skip actions|actions skip)\]",
        r"(?im)^(skip-checks|co-authored-by|signed-off-by|reviewed-by|change-id)\s*[:=]",
    ];
    let state = api.state();
    let title = state.pulls.values().next().unwrap().title.clone();
    for pattern in acts {
        let pattern = regex::Regex::new(pattern).unwrap();
        for text in [&message, &title] {
            assert!(!pattern.is_match(text), "`{pattern}` in\n{text}");
        }
    }
}
