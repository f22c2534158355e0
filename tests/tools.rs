//! Tests the tools that read and change files, on everything that a directory may hold, under a real policy.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Project, call, calls, say};

/// What a path may lead to.
const ODD: &[&str] = &[
    "plain",
    "crlf",
    "bom",
    "utf16le",
    "utf16be",
    "latin1",
    "no-end",
    "empty",
    "binary",
    "huge",
    "a b",
    "dir",
    "fifo",
    "in",
    "out",
    "dangling",
    "loop",
    "to-dir",
    "to-git",
    "none",
    "new\nline",
    "/etc/hostname",
    "../up",
    "",
];

/// One time for all files, so that those found come by name.
fn long_ago() -> std::time::SystemTime {
    std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)
}

fn odd() -> Project {
    let utf16 = |big: bool| -> Vec<u8> {
        let units = "\u{feff}one\r\nzwö\r\n".encode_utf16();
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    };
    let project = Project::new()
        .file("plain", "one\ntwo\n")
        .file("crlf", "one\r\ntwo\r\n")
        .file("bom", b"\xef\xbb\xbfone\ntwo\n")
        .file("utf16le", utf16(false))
        .file("utf16be", utf16(true))
        .file("latin1", b"one\ngr\xfcn\n")
        .file("no-end", "one")
        .file("empty", "")
        .file("binary", b"\x7fELF\0one\0\xff")
        .file("a b", "one\n")
        .file("new\nline", "one\n")
        .file("dir/x", "one\n");
    let at = |name: &str| project.root().join(name);
    std::fs::write(project.root().join(OsStr::from_bytes(b"n\xffn")), "one\n").unwrap();
    std::fs::File::create(at("huge")).unwrap().set_len(1 << 40).unwrap();
    for (target, name) in [
        ("plain", "in"),
        ("/etc/hostname", "out"),
        ("nowhere", "dangling"),
        ("loop", "loop"),
        ("dir", "to-dir"),
        (".git/config", "to-git"),
    ] {
        symlink(target, at(name)).unwrap();
    }
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::create_dir(at(".git")).unwrap();
    std::fs::write(at(".git/config"), "one\n").unwrap();
    for entry in std::fs::read_dir(project.root()).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            std::fs::File::options().append(true).open(entry.path()).unwrap().set_modified(long_ago()).unwrap();
        }
    }
    std::fs::File::options().append(true).open(at("dir/x")).unwrap().set_modified(long_ago()).unwrap();
    project
}

/// Lets the model make these calls and returns the answers, with the workspace as `/p`.
fn answers(project: Project, made: Vec<(&str, Value)>, flags: &[&str]) -> (Project, Vec<String>) {
    let project = project.model([calls(made), say("done")]);
    let more = ["--on-deny", "continue", "--max-denials", "1000", "--no-undo", "--no-session"];
    let outcome = project.run(&[&more, flags, &["go"]].concat());
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    let said = told(&project);
    (project, said)
}

fn told(project: &Project) -> Vec<String> {
    let root = project.root().canonicalize().unwrap().display().to_string();
    let requests = project.server().requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
    let answers = messages.iter().filter(|message| message["role"] == "tool");
    answers.map(|answer| answer["content"].as_str().unwrap_or_default().replace(&root, "/p")).collect()
}

/// One line a call: what it was for, and the answer with its line ends shown.
fn table(paths: &[&str], answers: &[String]) -> String {
    let lines: Vec<String> =
        paths.iter().zip(answers).map(|(path, answer)| format!("{path:?} => {}", answer.escape_debug())).collect();
    lines.join("\n")
}

#[test]
fn read_file_on_everything() {
    let made = ODD.iter().map(|path| ("read_file", json!({"file_path": path}))).collect();
    let (_, said) = answers(odd(), made, &[]);
    insta::assert_snapshot!(table(ODD, &said));
}

#[test]
fn edit_on_everything_keeps_encodings() {
    let made = ODD
        .iter()
        .map(|path| ("edit", json!({"file_path": path, "old_string": "one", "new_string": "zwei\nund"})))
        .collect();
    let (project, said) = answers(odd(), made, &["--apply"]);
    insta::assert_snapshot!(table(ODD, &said) + "\n" + &bytes(&project));
}

#[test]
fn write_file_on_everything_keeps_encodings() {
    let made = ODD.iter().map(|path| ("write_file", json!({"file_path": path, "content": "zwö\nend\n"}))).collect();
    let (project, said) = answers(odd(), made, &["--apply"]);
    insta::assert_snapshot!(table(ODD, &said) + "\n" + &bytes(&project));
}

/// The files as they are delivered.
fn bytes(project: &Project) -> String {
    let names = [
        "plain", "crlf", "bom", "utf16le", "utf16be", "latin1", "no-end", "empty", "a b", "none", "dangling", "nowhere",
    ];
    let show = |name: &&str| match std::fs::read(project.root().join(name)) {
        Ok(bytes) => format!("{name}: {}", bytes.escape_ascii()),
        Err(error) => format!("{name}: {}", error.kind()),
    };
    names.iter().map(show).collect::<Vec<_>>().join("\n")
}

#[test]
fn listing_globbing_and_searching_everything() {
    let mut made: Vec<(&str, Value)> = Vec::new();
    for path in ODD {
        made.push(("list_directory", json!({"path": path})));
        made.push(("search_file_content", json!({"pattern": "one", "path": path})));
    }
    made.push(("list_directory", json!({"path": "."})));
    made.push(("glob", json!({"pattern": "**"})));
    made.push(("search_file_content", json!({"pattern": "one|zwö|grün"})));
    made.push(("read_many_files", json!({"paths": ODD.iter().filter(|path| !path.is_empty()).collect::<Vec<_>>()})));
    let names: Vec<String> = made
        .iter()
        .map(|(tool, arguments)| format!("{tool} {}", arguments["path"].as_str().unwrap_or_default()))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_, said) = answers(odd(), made, &[]);
    insta::assert_snapshot!(table(&names, &said));
}

/// Root reads everything, so the program is started as somebody who does not.
#[test]
fn what_may_not_be_read_is_said_and_left_out() {
    let paths = ["locked", "locked-dir", "locked-dir/x", "open"];
    let mut made: Vec<(&str, Value)> = paths.iter().map(|path| ("read_file", json!({"file_path": path}))).collect();
    made.push(("list_directory", json!({"path": "locked-dir"})));
    made.push(("edit", json!({"file_path": "locked", "old_string": "one", "new_string": "two"})));
    made.push(("search_file_content", json!({"pattern": "one"})));
    made.push(("glob", json!({"pattern": "**"})));
    made.push(("read_many_files", json!({"paths": ["*"]})));
    let project = Project::new()
        .file("locked", "one\n")
        .file("locked-dir/x", "one\n")
        .file("open", "one\n")
        .model([calls(made), say("done")]);
    for name in ["locked", "open"] {
        std::fs::File::options()
            .append(true)
            .open(project.root().join(name))
            .unwrap()
            .set_modified(long_ago())
            .unwrap();
    }
    let mode = |path: std::path::PathBuf, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for folder in [project.root(), project.home(), project.root().parent().unwrap().to_path_buf()] {
        mode(folder, 0o777);
    }
    mode(project.root().join("locked"), 0);
    mode(project.root().join("locked-dir"), 0);
    let mut command = project.command(&["run", "--on-deny", "continue", "--no-session", "go"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if std::fs::File::open(project.root().join("locked")).is_ok() {
        command.uid(65_534).gid(65_534);
    }
    match command.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("not tried: the program cannot be started as somebody without rights here ({error})");
            mode(project.root().join("locked-dir"), 0o755);
            return;
        }
    }
    mode(project.root().join("locked-dir"), 0o755);
    insta::assert_snapshot!(
        told(&project).iter().map(|said| said.escape_debug().to_string()).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn an_included_folder_is_listed_searched_and_never_written() {
    let project = Project::new().file("a", "one\n");
    let beside = project.beside("lib");
    for (name, text) in [
        ("src/b.rs", "one\n"),
        ("src/c.o", "one\n"),
        (".env", "KEY=one\n"),
        (".gitignore", "*.o\n"),
        ("q", "one\n"),
        (".qwenignore", "q\n"),
    ] {
        let path = beside.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let lib = beside.canonicalize().unwrap().display().to_string();
    let at = |name: &str| format!("{lib}/{name}");
    let made = vec![
        ("list_directory", json!({"path": lib})),
        ("glob", json!({"pattern": "**/*.rs", "path": lib})),
        ("search_file_content", json!({"pattern": "one", "path": lib})),
        ("search_file_content", json!({"pattern": "one", "path": at("src/b.rs")})),
        ("read_file", json!({"file_path": at("src/b.rs")})),
        ("read_file", json!({"file_path": at("q")})),
        ("read_file", json!({"file_path": at(".env")})),
        ("write_file", json!({"file_path": at("src/b.rs"), "content": "x"})),
        ("list_directory", json!({"path": project.home()})),
    ];
    let (project, said) = answers(project, made, &["--include-directories", &lib]);
    let said: Vec<String> = said
        .iter()
        .map(|said| {
            said.replace(&lib, "/lib").replace(&project.home().canonicalize().unwrap().display().to_string(), "/home")
        })
        .collect();
    insta::assert_snapshot!(said.join("\n=====\n"));
    assert_eq!(std::fs::read_to_string(beside.join("src/b.rs")).unwrap(), "one\n");
}

#[test]
fn hooks_are_asked_about_calls_of_agents_and_commands_of_prompts() {
    let hooks = |matcher: &str| {
        json!({"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [
            {"type": "command", "command": "echo not today >&2; exit 2"}]}]}})
    };
    let settings = |project: Project, text: Value| {
        std::fs::create_dir_all(project.home().join(".qwen")).unwrap();
        std::fs::write(project.home().join(".qwen/settings.json"), text.to_string()).unwrap();
        project
    };
    let project = Project::new()
        .file("a.txt", "one\n")
        .file(".qwen/agents/reader.md", "---\ndescription: Reads\n---\nYou read.\n")
        .policy("version: 1\nname: t\ntools: {allow: [task, read_file]}\npaths: {read: {allow: ['**']}}\n")
        .model([
            call("task", json!({"description": "d", "prompt": "p", "subagent_type": "reader"})),
            call("read_file", json!({"file_path": "a.txt"})),
            say("could not"),
            say("done"),
        ]);
    let outcome = settings(project, hooks("ReadFile")).run(&["go"]);
    assert_eq!(outcome.code, 60, "{}", outcome.stderr);
    assert_eq!(outcome.result["permission_denials"][0]["rule"], "hooks.PreToolUse");
    let project = Project::new()
        .file(".qwen/commands/look.toml", "prompt = \"!{ls}\"\n")
        .env("QWEN_TRUST_CHECKOUT", "1")
        .model([say("never asked")]);
    let project = settings(project, hooks("Bash"));
    let outcome = project.run(&["/look"]);
    assert_eq!((outcome.code, &outcome.result["error"]["code"]), (60, &json!("hook")), "{}", outcome.stderr);
    assert!(outcome.result["error"]["message"].as_str().unwrap().ends_with("a hook blocks it: not today"));
    assert!(project.server().requests().is_empty());
}

#[test]
fn agents_of_the_user_can_be_given_tasks() {
    let project = Project::new().policy("version: 1\nname: t\ntools: {allow: [task]}\n").model([
        calls([("task", json!({"description": "d", "prompt": "p", "subagent_type": "mine"}))]),
        say("it is 4"),
        say("done"),
    ]);
    std::fs::create_dir_all(project.home().join(".qwen/agents")).unwrap();
    std::fs::write(project.home().join(".qwen/agents/mine.md"), "---\nmodel: other\n---\nYou are mine.\n").unwrap();
    let outcome = project.run(&["go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(project.server().requests()[1]["messages"][0]["content"].as_str().unwrap().starts_with("You are mine."));
    assert!(
        outcome.result["warnings"].to_string().contains("uses the run's model instead of other"),
        "{}",
        outcome.result["warnings"]
    );
}
