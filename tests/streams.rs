//! Tests faulty answers: text that only looks like a call, broken calls, answers without an end, conversations that no
//! longer fit.

use serde_json::{Value, json};

use crate::support::server::{Reply, calls, event};
use crate::support::{Project, call, say};

/// The pieces of an answer whose end never comes.
fn endless(key: &str, text: &str, times: usize) -> Reply {
    let begin = event(&json!({key: "First I look at the code.\n"}));
    Reply::Bytes((begin + &event(&json!({key: text})).repeat(times)).into_bytes())
}

fn messages(project: &Project, request: usize) -> Vec<Value> {
    project.server().requests()[request]["messages"].as_array().unwrap().clone()
}

const CIRCLE: &str = "Wait, let me check the function once more. ";

#[test]
fn an_answer_that_repeats_itself_is_cut_and_the_model_finishes_from_what_it_had() {
    let project = Project::new().model([endless("content", CIRCLE, 400), say("It is fine.")]);
    let outcome = project.run(&["--output-format", "json", "look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.server().requests().len(), 2);
    let messages = messages(&project, 1);
    let [.., had, told] = messages.as_slice() else { panic!("{messages:?}") };
    let text = had["content"].as_str().unwrap();
    assert!(text.starts_with("First I look at the code.\nWait, let me check") && text.len() < 200, "{text}");
    assert!(told["content"].as_str().unwrap().starts_with("Your answer repeated itself"), "{told}");
}

#[test]
fn an_answer_that_repeats_itself_twice_ends_the_run_as_a_loop() {
    for key in ["content", "reasoning_content"] {
        let project = Project::new().model([endless(key, CIRCLE, 400), endless(key, CIRCLE, 400)]);
        let outcome = project.run(&["--output-format", "json", "look"]);
        assert_eq!((outcome.code, project.server().requests().len()), (1, 2), "{key}: {}", outcome.stderr);
        assert_eq!(outcome.result["error"]["code"], "loop");
        let told = messages(&project, 1).pop().unwrap()["content"].as_str().unwrap().to_owned();
        assert_eq!(told.contains("First I look at the code."), key == "reasoning_content", "{told}");
    }
}

#[test]
fn of_129_calls_in_a_turn_128_run_and_the_last_is_answered() {
    let many = (0..129).map(|at| ("glob", json!({"pattern": format!("{at}.rs")})));
    let project = Project::new().model([calls(many), say("done")]);
    let outcome = project.run(&["look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let answers: Vec<String> = messages(&project, 1)
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(answers.len(), 129);
    assert_eq!(answers.iter().filter(|answer| answer.contains("not run: at most 128 calls a turn")).count(), 1);
    assert!(answers[128].contains("not run"));
}

#[test]
fn calls_beyond_128_in_a_turn_count_for_no_limit() {
    for (limit, code) in [("128", 0), ("127", 55)] {
        let many = (0..140).map(|at| ("glob", json!({"pattern": format!("{at}.rs")})));
        let project = Project::new().model([calls(many), say("done")]);
        let outcome = project.run(&["--max-tool-calls", limit, "look"]);
        assert_eq!(outcome.code, code, "{limit}: {}", outcome.stderr);
    }
}

#[test]
fn an_answer_in_json_is_an_answer_unless_it_names_a_tool() {
    let answer = r#"{"name":"resize","parameters":{"width":3}}"#;
    let schema = r#"{"type":"object","required":["name","parameters"],"properties":{"name":{"type":"string"}}}"#;
    for arguments in [&["name a function"][..], &["--text-tools", "force", "name a function"]] {
        let project = Project::new().model([say(answer)]);
        let outcome = project.run(arguments);
        assert_eq!((outcome.code, outcome.stdout.trim()), (0, answer), "{}", outcome.stderr);
    }
    let project = Project::new().model([say(answer)]);
    let outcome = project.run(&["--json-schema", schema, "name a function"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let said: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(said, serde_json::from_str::<Value>(answer).unwrap());
}

#[test]
fn after_a_native_call_the_tools_stay_where_they_are_and_leaked_calls_still_run() {
    let leaked = "<tool_call>\n<function=read_file>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>";
    let example = "This reads it:\n```json\n{\"name\":\"read_file\",\"arguments\":{\"file_path\":\"a.txt\"}}\n```";
    let read = call("read_file", json!({"file_path": "a.txt"}));
    let project = Project::new().file("a.txt", "seven\n").model([read, say(leaked), say(example)]);
    let outcome = project.run(&["how is it read?"]);
    assert_eq!((outcome.code, outcome.stdout.trim_end()), (0, example), "{}", outcome.stderr);
    let requests = project.server().requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request["tools"].is_array()), "the tools left their place");
    let answer = messages(&project, 2).pop().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(answer.contains("seven") && answer.contains("`path` was taken as `file_path`"), "{answer}");
}

#[test]
fn beside_a_broken_call_the_good_ones_run_and_the_broken_one_is_told() {
    let text = "<tool_call>{\"name\":\"write_file\",\"arguments\":{\"file_path\":\"b.txt\",\"content\":\"say \"x\"\"}}</tool_call>\n\
                <tool_call>\n<function=write_file>\n<parameter=file_path>\na.txt\n</parameter>\n<parameter=content>\none\n</parameter>\n\
                <parameter=description>\nnothing\n</parameter>\n</function>\n</tool_call>";
    let project = Project::new().model([say(text), say("done")]);
    let outcome = project.run(&["--apply", "write both"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), "one");
    assert!(!project.root().join("b.txt").exists());
    let told = project.server().requests()[1].to_string();
    assert!(told.contains("not valid JSON"), "{told}");
    assert!(told.contains("write_file has no parameter 'description': it was left out"), "{told}");
}

#[test]
fn one_retry_is_two_requests_to_a_silent_server() {
    let project = Project::new().model([Reply::Stall, Reply::Stall, Reply::Stall]);
    let outcome = project.run(&["--retries", "1", "--request-timeout", "1s", "--stream-idle-timeout", "1s", "go"]);
    assert_eq!((outcome.code, project.server().requests().len()), (75, 2), "{}", outcome.stderr);
}

#[test]
fn a_wait_until_the_year_9999_is_not_waited_for() {
    for status in [429, 503] {
        let wait = vec![("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT".to_owned())];
        let busy = Reply::Status(status, wait, r#"{"error":{"message":"later"}}"#.into());
        let project = Project::new().model([busy, say("done")]);
        let outcome = project.run(&["go"]);
        assert_eq!((outcome.code, project.server().requests().len()), (75, 1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("--max-wait"), "{}", outcome.stderr);
    }
}

#[test]
fn a_long_run_goes_on_in_a_small_window_that_the_server_does_not_tell() {
    const WINDOW: usize = 40_000;
    let line = "let value = compute(first, second)?; // as the document says\n";
    let mut project = Project::new();
    for at in 0..4 {
        project = project.file(&format!("{at}.rs"), line.repeat(20 + 15 * at));
    }
    let turn = |at: usize| {
        let reply = match at % 7 {
            3 => call("write_file", json!({"file_path": format!("new{at}.rs"), "content": line.repeat(30)})),
            at => call("read_file", json!({"file_path": format!("{}.rs", at % 4)})),
        };
        Reply::Within(WINDOW, Box::new(reply))
    };
    let project = project.model((0..300).map(turn).chain([Reply::Within(WINDOW, Box::new(say("done")))]));
    let outcome = project.run(&["--output-format", "json", "--max-session-turns", "1000", "read all"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.result["num_turns"].as_u64().unwrap() >= 300, "{}", outcome.result["num_turns"]);
}

#[test]
fn what_a_run_found_out_about_a_server_the_next_one_knows_unless_it_is_told_not_to() {
    let leaked = || {
        say("<tool_call>\n<function=read_file>\n<parameter=file_path>\na.txt\n</parameter>\n</function>\n</tool_call>")
    };
    let replies = [leaked(), say("seven"), say("eight"), say("nine"), say("ten")];
    let project = Project::new().file("a.txt", "seven\n").model(replies);
    let asks_natively = |number: usize| project.server().requests()[number]["tools"].is_array();
    assert_eq!(project.run(&["what is in it?"]).stdout.trim(), "seven");
    assert!(asks_natively(0) && !asks_natively(1));
    assert_eq!(project.run(&["again?"]).stdout.trim(), "eight");
    assert!(!asks_natively(2), "the tools are in the prompt from the first request");
    let file = project.home().join(".cache/qwen/servers.json");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains("\"text_calls\": true") && !kept.contains("seven"), "{kept}");
    let doctor = project.qwen(&["doctor"]);
    assert!(doctor.stdout.contains("calls are written as text"), "{}", doctor.stdout);
    assert_eq!(project.run(&["--bare", "again?"]).stdout.trim(), "nine");
    assert!(asks_natively(3), "--bare does not know it");
    std::fs::write(&file, kept.replace("\"time\": ", "\"time\": 1")).unwrap();
    assert_eq!(project.run(&["again?"]).stdout.trim(), "ten");
    assert!(asks_natively(4), "what is not of this week does not count");
}
