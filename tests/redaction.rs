//! Tests secrets: the model and the logs never see them, patches and files are never altered.

use serde_json::json;

use crate::support::{Project, call, say};

const SECRET: &str = "hunter2-hunter2-hunter2";

fn project() -> Project {
    Project::new()
        .file("config.ini", format!("[db]\npassword = {SECRET}\nuser = a\n"))
        .file("other.txt", "nothing\n")
        .git()
        .env("DB_PASSWORD", SECRET)
}

fn edit(old: &str, new: &str) -> crate::support::Reply {
    call("edit", json!({"file_path": "config.ini", "old_string": old, "new_string": new}))
}

#[test]
fn an_edit_around_a_secret_works_and_nobody_sees_it_but_the_patch() {
    let project = project().model([
        call("read_file", json!({"file_path": "config.ini"})),
        edit("password = [redacted:DB_PASSWORD]\nuser = a", "password = [redacted:DB_PASSWORD]\nuser = b"),
        say(&format!("I changed the user beside [redacted:DB_PASSWORD], not {SECRET}.")),
    ]);
    let events = project.beside("events.jsonl").display().to_string();
    let cassette = project.beside("cassette.jsonl").display().to_string();
    let outcome = project.run(&[
        "--events-file",
        &events,
        "--record",
        &cassette,
        "-vv",
        "--apply",
        "-o",
        "stream-json",
        "change the user in @config.ini",
    ]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("config.ini"), format!("[db]\npassword = {SECRET}\nuser = b\n"));
    let sent = serde_json::to_string(&project.server().requests()).unwrap();
    assert!(!sent.contains(SECRET) && sent.contains("[redacted:DB_PASSWORD]"));
    assert!(!outcome.stderr.contains(SECRET), "{}", outcome.stderr);
    for line in outcome.stdout.lines().chain(std::fs::read_to_string(events).unwrap().lines()) {
        let mut message: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(changes) = message.get_mut("changes") {
            changes["patch"] = json!(null);
        }
        assert!(!message.to_string().contains(SECRET), "{message}");
    }
    let patch = outcome.result["changes"]["patch"].as_str().unwrap();
    assert!(patch.contains(SECRET), "a patch is never altered: {patch}");
    assert!(outcome.result["result"].as_str().unwrap().contains("not [redacted:DB_PASSWORD]"));
    let warnings = outcome.result["warnings"].to_string();
    assert!(warnings.contains("the patch contains the value of DB_PASSWORD"), "{warnings}");
    assert!(outcome.result["redactions"].as_u64().unwrap() >= 2);
    // What the recording holds besides the server's own words.
    let requests = std::fs::read_to_string(cassette).unwrap();
    assert!(!requests.contains(SECRET));
}

#[test]
fn every_spelling_of_a_secret_is_masked_on_its_way_to_the_model() {
    use base64::Engine as _;
    let secret = "p@ss/word+of=the&DB";
    let engine = base64::engine::general_purpose::STANDARD;
    let url: String = secret
        .bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let spellings = [
        secret.to_owned(),
        engine.encode(secret),
        engine.encode(format!("user:{secret}")),
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret),
        url,
        hex.to_uppercase(),
        hex,
    ];
    let text: String = spellings.iter().map(|spelling| format!("a {spelling} b\n")).collect();
    let project = Project::new().file("all.txt", &text).env("DB_PASSWORD", secret).model([
        call("read_file", json!({"file_path": "all.txt"})),
        call("search_file_content", json!({"pattern": "a"})),
        say("done"),
    ]);
    let outcome = project.run(&["look at @all.txt"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent = serde_json::to_string(&project.server().requests()).unwrap();
    for spelling in &spellings {
        // What surrounds the value in base64 may stay; its middle may not.
        let middle = &spelling[spelling.len() / 4..spelling.len() * 3 / 4];
        assert!(!sent.contains(middle), "{spelling}");
    }
    assert!(outcome.result["redactions"].as_u64().unwrap() >= 14, "{}", outcome.result["redactions"]);
}

#[test]
fn a_secret_does_not_wander_into_another_file() {
    let project = project().model([
        call("read_file", json!({"file_path": "config.ini"})),
        call("write_file", json!({"file_path": "copy.txt", "content": "x = [redacted:DB_PASSWORD]\n"})),
        call("write_file", json!({"file_path": "note.txt", "content": "[redacted:INVENTED]\n"})),
        say("done"),
    ]);
    let outcome = project.run(&["--apply", "copy it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!project.root().join("copy.txt").exists());
    assert_eq!(project.read("note.txt"), "[redacted:INVENTED]\n");
    let answers = project.server().requests().last().unwrap().to_string();
    assert!(answers.contains("did not hold when the run began"), "{answers}");
}

#[test]
fn a_change_that_adds_a_secret_is_refused_unless_the_policy_allows_it() {
    let write = || call("write_file", json!({"file_path": "new.txt", "content": "AKIA0123456789ABCDEF\n"}));
    let project = project().model([write(), say("done")]);
    let outcome = project.run(&["--apply", "add it"]);
    assert_eq!(outcome.code, 60, "{}", outcome.stderr);
    assert!(!project.root().join("new.txt").exists());
    assert!(outcome.stderr.contains("new.txt: the change adds a secret"), "{}", outcome.stderr);

    let policy = "version: 1\nname: x\nextends: builtin:edit\nchanges: apply\nsecrets: {on_write: allow}\n";
    let project = project.policy(policy).model([write(), say("done")]);
    let outcome = project.run(&["--apply", "add it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("new.txt"), "AKIA0123456789ABCDEF\n");
}

#[test]
fn the_key_in_use_is_masked_wherever_it_shows_up() {
    let key = "local-key-of-this-server-1";
    let project = Project::new().file("a.txt", format!("{key}\n"));
    std::fs::write(project.beside("key"), key).unwrap();
    let file = project.beside("key").display().to_string();
    let project = project.model([call("read_file", json!({"file_path": "a.txt"})), say("done")]);
    let outcome = project.run(&["--api-key-file", &file, "look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!serde_json::to_string(&project.server().requests()).unwrap().contains(key));
}

#[test]
fn a_policy_may_leave_secrets_readable() {
    let policy = "version: 1\nname: x\nextends: builtin:edit\nsecrets: {redact: false}\n";
    let project = project().policy(policy).model([call("read_file", json!({"file_path": "config.ini"})), say("done")]);
    let outcome = project.run(&["look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(project.server().requests().last().unwrap().to_string().contains(SECRET));
}

#[test]
fn a_cassette_holds_no_secret_of_the_environment_in_any_spelling() {
    use base64::Engine as _;
    let key = "of-the-server-0123456789";
    let engine = base64::engine::general_purpose::STANDARD;
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let spoken = format!("{SECRET} {} {hex} {key} {}", engine.encode(SECRET), engine.encode(key));
    let replies = [call(&format!("read_{SECRET}"), json!({"file_path": "other.txt", SECRET: spoken})), say(&spoken)];
    let project = project().env("QWEN_API_KEY", key).model(replies);
    let (cassette, events) = (project.beside("cassette.jsonl"), project.beside("events.jsonl"));
    let (record, events_file) = (cassette.display().to_string(), events.display().to_string());
    let outcome =
        project.run(&["--record", &record, "--events-file", &events_file, "-vv", "-o", "stream-json", "look"]);
    let cassette = std::fs::read_to_string(cassette).unwrap();
    let shown = std::fs::read_to_string(events).unwrap() + &outcome.stdout + &outcome.stderr;
    let mut recorded = String::new();
    for line in cassette.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        recorded.push_str(&value["request"].to_string());
        let chunks = value["response"]["chunks"].as_array().cloned().unwrap_or_default();
        let bytes = chunks.iter().flat_map(|chunk| engine.decode(chunk["b64"].as_str().unwrap()).unwrap());
        recorded.push_str(&String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()));
    }
    assert!(recorded.contains("tool_calls") && recorded.contains("*****"), "{recorded}");
    for (what, text) in [("recorded", &recorded), ("shown", &shown)] {
        for secret in [SECRET, key, &hex, &engine.encode(SECRET), &engine.encode(key)] {
            assert!(!text.contains(secret), "{secret} is {what}: {text}");
        }
    }
}

/// A token that is known by its shape alone.
fn token() -> String {
    format!("ghp_{}", "a1B2c3D4e5".repeat(4))
}

#[test]
fn no_secret_is_in_the_message_of_a_commit() {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(SECRET);
    let (key, token) = ("of-the-server-0123456789", token());
    let answer = format!("Uses {SECRET} and {token}\n\nalso {encoded},\n{key}");
    let write = || call("write_file", json!({"file_path": "other.txt", "content": "something\n"}));
    let recipe = "recipe: 1\nname: r\ndescription: d\nprompt: x\nparams: {word: {type: string, description: d}}\n\
         needs: {read: ['**'], write: ['**']}\noutput: {kind: changes}\n\
         git: {subject: 'Use {{ params.word }}', trailers: {Word: '{{ params.word }}'}}\n";
    let with_recipe = ["--recipe", "./r.yaml", "--param", &format!("word={SECRET}")];
    let with_message = ["--message", &format!("{SECRET} {token} {SECRET} {token}\n\n{encoded}"), "edit it"];
    for flags in [&["edit it"][..], &with_message, &with_recipe] {
        for mode in [&["--commit"][..], &["--branch", "q/x"]] {
            let project = project().file("r.yaml", recipe).env("QWEN_API_KEY", key).model([write(), say(&answer)]);
            let outcome = project.run(&[mode, flags].concat());
            assert_eq!(outcome.code, 0, "{}", outcome.stderr);
            let message = project.run_git(&["log", "-1", "--format=%B", mode.get(1).unwrap_or(&"HEAD")]);
            assert!(message.contains("[redacted:DB_PASSWORD]"), "{flags:?}: {message}");
            for secret in [SECRET, key, &token, &encoded] {
                assert!(!message.contains(secret), "{flags:?}: {secret} is in {message}");
            }
        }
    }
}

/// What a run has written besides the patch, as one text.
fn written(project: &Project, outcome: &crate::support::Outcome) -> String {
    let mut result = outcome.result.clone();
    result["changes"]["patch"] = json!(null);
    let files = ["events.jsonl", "summary.md"].map(|name| std::fs::read_to_string(project.beside(name)).unwrap());
    let without_patch = |line: &str| {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(changes) = event.get_mut("changes") {
            changes["patch"] = json!(null);
        }
        event.to_string()
    };
    let events: Vec<String> = files[0].lines().map(without_patch).collect();
    [result.to_string(), events.join("\n"), files[1].clone(), outcome.stderr.clone()].join("\n")
}

#[test]
fn a_secret_in_the_name_of_a_new_file_is_refused_and_not_told() {
    let token = token();
    for name in [format!("{token}/n.txt"), format!("n-{SECRET}.txt")] {
        let write = || call("write_file", json!({"file_path": name, "content": "x\n"}));
        let (events, summary) = ("../events.jsonl", "../summary.md");
        let flags = ["--events-file", events, "--summary-file", summary, "write it"];
        for mode in ["--apply", "--commit", "--dry-run"] {
            let project = project().model([write(), say("done")]);
            let (before, head) = (project.tree(), project.run_git(&["rev-parse", "HEAD"]));
            let outcome = project.run(&[&[mode][..], &flags].concat());
            assert_eq!(outcome.code, 60, "{}", outcome.stderr);
            assert!(outcome.stderr.contains("in its name"), "{}", outcome.stderr);
            assert!(project.tree() == before && project.run_git(&["rev-parse", "HEAD"]) == head);
            let told = written(&project, &outcome);
            assert!(told.contains("file_change") && !told.contains(&token) && !told.contains(SECRET), "{told}");
            let proposed = project.beside("result.json").display().to_string();
            let again = project.qwen(&["apply", &proposed]);
            assert_eq!((again.code, project.tree() == before), (60, true), "{}", again.stderr);
            assert!(!again.stderr.contains(&token) && !again.stderr.contains(SECRET), "{}", again.stderr);
        }
        let policy = "version: 1\nname: x\nextends: builtin:edit\nchanges: apply\nsecrets: {on_write: allow}\n";
        let project = project().policy(policy).model([write(), say("done")]);
        let outcome = project.run(&[&["--apply"][..], &flags].concat());
        assert_eq!((outcome.code, project.read(&name).as_str()), (0, "x\n"), "{}", outcome.stderr);
        let told = written(&project, &outcome);
        assert!(told.contains("[redacted:") && !told.contains(&token) && !told.contains(SECRET), "{told}");
        assert!(outcome.result["changes"]["patch"].as_str().unwrap().contains(&name));
    }
}

#[test]
fn no_secret_is_in_the_message_of_what_is_applied() {
    let project = project().model([edit("user = a", "user = b"), say("done")]);
    assert_eq!(project.run(&["edit it"]).code, 0);
    let (result, message) =
        (project.beside("result.json").display().to_string(), format!("use {}\n\n{SECRET}", token()));
    let applied = project.qwen(&["apply", "--commit", "--message", &message, &result]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    let log = project.run_git(&["log", "-1", "--format=%B"]);
    assert!(log.starts_with("use [redacted:github-token-") && log.contains("[redacted:DB_PASSWORD]"), "{log}");
}

#[test]
fn the_question_about_lost_lines_and_the_output_of_a_verification_hold_no_secret() {
    let whole = format!("user = a\n\n[db]\npassword = {SECRET}\n");
    let cut = || call("write_file", json!({"file_path": "db.ini", "content": "user = b\n"}));
    let project = Project::new().file("db.ini", &whole).git().env("DB_PASSWORD", SECRET);
    let project = project.model([cut(), say("Done."), say("restore"), say("It is back.")]);
    let outcome = project.run(&["--apply", "-p", "Set the user to b in db.ini"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let asked = project.server().messages(2);
    assert!(asked.contains("db.ini: password = [redacted:DB_PASSWORD]"), "{asked}");
    assert!(!serde_json::to_string(&project.server().requests()).unwrap().contains(SECRET));
    assert_eq!(project.read("db.ini"), whole.replace("user = a", "user = b"));
    let project = Project::new().file("db.ini", &whole).git().env("DB_PASSWORD", SECRET);
    let project = project.model([cut(), say("Done."), say("remove"), say("It cannot pass."), say("It cannot pass.")]);
    let verify = format!("printf '%s\\n' {SECRET}; exit 1");
    project.run(&["--apply", "--verify", &verify, "-p", "Set the user to b in db.ini"]);
    assert!(!serde_json::to_string(&project.server().requests()).unwrap().contains(SECRET));
}

#[test]
fn a_secret_in_the_definition_of_a_tool_is_not_sent_or_recorded() {
    let schema = json!({
        "type": "object",
        "description": format!("as in {SECRET}"),
        "properties": {SECRET: {"type": "string", "description": format!("not {SECRET}")}},
    });
    let project = project().model([call("structured_output", json!({}))]);
    let cassette = project.beside("cassette.jsonl").display().to_string();
    let outcome = project.run(&["--json-schema", &schema.to_string(), "--record", &cassette, "what is it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent = serde_json::to_string(&project.server().requests()).unwrap();
    assert!(!sent.contains(SECRET) && sent.contains("as in [redacted:DB_PASSWORD]"), "{sent}");
    assert!(!std::fs::read_to_string(cassette).unwrap().contains(SECRET));
}

/// A key of five lines inside of a file, and those lines.
fn file_with_a_key() -> (String, Vec<String>) {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let line = |number: u8| {
        engine.encode((0..48_u8).map(|at| at.wrapping_mul(37) ^ number.wrapping_mul(91)).collect::<Vec<u8>>())
    };
    let lines: Vec<String> = (1..=5).map(line).collect();
    let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
    (format!("# a\nNAME = 'x'\nKEY = '''\n{begin}\n{}\n{end}\n'''\nLAST = 1\n", lines.join("\n")), lines)
}

#[test]
fn a_part_of_a_file_shows_no_line_of_a_private_key() {
    let (text, lines) = file_with_a_key();
    let shell = |command: &str| call("run_shell_command", json!({"command": command}));
    let edit = |old: &str, new: &str| {
        call("edit", json!({"file_path": "conf.py", "old_string": old, "new_string": new, "expected_replacements": 1}))
    };
    let calls: Vec<crate::support::Reply> = vec![
        call("read_file", json!({"file_path": "conf.py", "offset": 5, "limit": 2})),
        call("search_file_content", json!({"pattern": &lines[1][..6]})),
        edit("NAME = 'y'\nKEY = '''", "z"),
        edit("LAST = 1", "LAST = 2"),
        call("write_file", json!({"file_path": "conf.py", "content": "NAME = 'x'\n"})),
        shell(&format!("grep -A1 {} conf.py", &lines[1][..6])),
        shell("tail -n 6 conf.py"),
        shell(&format!("git grep -n {}", &lines[2][..6])),
        shell("git diff -U2 HEAD"),
    ];
    for each in calls {
        let project =
            Project::new().file("conf.py", &text).git().file("conf.py", text.replace("'''\nLAST", "'''  \nLAST"));
        let project = project.model([each, say("done"), say("done")]);
        let outcome = project.run(&["look"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let sent = serde_json::to_string(&project.server().requests()).unwrap();
        let answer =
            project.server().requests().last().unwrap()["messages"].as_array().unwrap().last().unwrap().clone();
        let shown = lines.iter().find(|line| sent.contains(&line[10..30]));
        assert!(shown.is_none(), "{answer}");
    }
}

#[test]
fn a_range_of_a_file_and_a_cut_line_show_no_part_of_a_secret() {
    let (text, lines) = file_with_a_key();
    let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    let long = format!("{}{token} more\n", "x ".repeat(990));
    let project = Project::new().file("conf.py", text).file("long.txt", long);
    let project = project.model([
        call("read_file", json!({"file_path": "long.txt"})),
        call("search_file_content", json!({"pattern": "x x"})),
        say("done"),
    ]);
    let outcome = project.run(&["--file", "conf.py:6-7", "look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent = serde_json::to_string(&project.server().requests()).unwrap();
    assert!(sent.contains("truncated]") && !sent.contains(&token[..20]));
    assert!(lines.iter().all(|line| !sent.contains(&line[10..30])));
}

#[test]
fn a_key_is_masked_between_signs_of_diffs_and_comments_and_a_cut_value_is_not_shown() {
    let (text, lines) = file_with_a_key();
    let commented: String = text.lines().map(|line| format!("-- {line}\n")).collect();
    let password = "kX9!vB2@qL7#mN4$wR8%tY3^zP6&aaQ1";
    let long = format!("{}{password} more\n", "x ".repeat(990));
    let project = Project::new().file("gone.py", text).file("a.sql", commented).file("long.txt", long).git();
    let project = project.env("MY_PASSWORD", password).model([
        call("read_file", json!({"file_path": "a.sql"})),
        call("run_shell_command", json!({"command": "git diff HEAD"})),
        call("run_shell_command", json!({"command": "grep -n -A3 BEGIN a.sql", "directory": "."})),
        call("read_file", json!({"file_path": "long.txt"})),
        say("done"),
    ]);
    std::fs::remove_file(project.root().join("gone.py")).unwrap();
    let outcome = project.run(&["look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent = serde_json::to_string(&project.server().requests()).unwrap();
    assert!(lines.iter().all(|line| !sent.contains(&line[10..30])));
    assert!(sent.contains("truncated]") && !sent.contains(&password[..12]));
}

#[test]
fn a_placeholder_of_an_earlier_run_is_not_written_into_a_file() {
    let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    let project = Project::new().file("t.txt", format!("tok = {token}\n")).git();
    let project = project.model([
        call("read_file", json!({"file_path": "t.txt"})),
        say("read"),
        call("write_file", json!({"file_path": "t.txt", "content": "tok = [redacted:github-token-1]\nx\n"})),
        say("done"),
        say("done"),
    ]);
    assert_eq!(project.run(&["read t.txt"]).code, 0);
    let outcome = project.run(&["--continue", "--apply", "write it"]);
    assert!(project.read("t.txt").contains(&token), "{}", outcome.stderr);
    let answers = project.server().requests().last().unwrap().to_string();
    assert!(answers.contains("read the file again"), "{answers}");
}

#[test]
fn what_is_shown_in_part_is_masked_before_it_is_cut() {
    let token = format!("ghp_{}", "aB3dE6".repeat(6));
    let part = &token[8..24];
    // The token stands across each place at which the output is cut, and across the end of what an edit shows.
    let script = "for n in 1 2 3; do printf '%01990d ' 0; printf \"ghp_$T \"; done; printf '%03990d\\n' 0; exit 1\n";
    let script = format!("T={}\n{script}", &token[4..]);
    let long = format!("{{\"a\": \"{}\", \"t\": \"{token}\"}}\n\"b\"\n", "x ".repeat(1980));
    let project = Project::new().file("t.sh", script).file("a.json", long).git().model([
        call("edit", json!({"file_path": "a.json", "old_string": "\"b\"\n", "new_string": "\"c\"\n"})),
        say("done"),
        say("done"),
    ]);
    let outcome = project.run(&["--policy", "builtin:ci-dev", "--apply", "--verify", "bash t.sh", "change a.json"]);
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
    let sent = serde_json::to_string(&project.server().requests()).unwrap();
    assert!(sent.contains("[redacted:github-token-"), "{sent}");
    for (place, text) in
        [("sent", &sent), ("result", &outcome.result["verify"].to_string()), ("stderr", &outcome.stderr)]
    {
        assert!(!text.contains(part), "{place}: {text}");
    }
}

#[test]
fn a_secret_that_was_typed_is_not_searched_for_or_said_again() {
    let token = format!("ghp_{}", "aB3dE6".repeat(6));
    for task in [format!("Where is the variable {token} used?"), format!("What does a.py do with {token}?")] {
        let read =
            "<tool_call>\n<function=read_file>\n<parameter=file_path>\na.py\n</parameter>\n</function>\n</tool_call>";
        let project = Project::new().file("a.py", "x = 1\n").git().model([say(read), say("It is not used.")]);
        let outcome = project.run(&["--text-tools", "force", &task]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let sent = serde_json::to_string(&project.server().requests()).unwrap();
        assert!(!sent.contains(&token) && !outcome.stderr.contains(&token), "{sent}");
    }
}

#[test]
fn lines_of_a_key_are_masked_in_a_diff_from_a_pipe_and_stay_in_a_whole_file() {
    let line = "MIIEpAIBAAKCAQEA7yG9Qd3kV5bR1mZx8LwT2nC4fJ6hS0uP9eXaKqWvYtBrDgNo";
    let project = Project::new().file("logo.py", format!("LOGO = (\n    \"{line}\"\n)\n")).git();
    let diff = format!("--- a/x\n+++ b/x\n {line}\n-a\n+b\n");
    let project = project.stdin(diff).model([say("done")]);
    let outcome = project.run(&["explain"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let requests = project.server().requests();
    assert!(!requests[0].to_string().contains(line), "{}", requests[0]);
    let project = Project::new().file("logo.py", format!("LOGO = (\n    \"{line}\"\n)\n")).git();
    let project = project.model([call("read_file", json!({"file_path": "logo.py"})), say("done")]);
    project.run(&["look"]);
    assert!(project.server().requests()[1].to_string().contains(line));
}
