//! Tests what OpenTelemetry is told of a run: the spans, where they go, and that nothing else learns of it.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use crate::support::{Outcome, Project, Reply, Server, call, calls, say};

/// A server that takes every report.
fn receiver() -> Server {
    Server::start((0..50).map(|_| Reply::Status(200, vec![], String::new())))
}

fn endpoint(server: &Server) -> String {
    server.base_url().trim_end_matches("/v1").to_owned()
}

/// Returns the spans that a server got.
fn spans(server: &Server) -> Vec<Span> {
    let requests = server.heads().into_iter().zip(server.bodies());
    let traces = requests.filter(|(head, _)| head.starts_with("POST /v1/traces "));
    let decoded = traces.map(|(_, body)| ExportTraceServiceRequest::decode(body.as_slice()).unwrap());
    let resources = decoded.flat_map(|request| request.resource_spans);
    resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
}

fn text(span: &Span, name: &str) -> Option<String> {
    let value = span.attributes.iter().find(|pair| pair.key == name)?.value.clone()?.value?;
    Some(match value {
        Any::StringValue(text) => text,
        Any::IntValue(number) => number.to_string(),
        Any::BoolValue(yes) => yes.to_string(),
        other => format!("{other:?}"),
    })
}

/// Writes the tree of spans, one a line, sorted by start below each parent, with the class of each error.
fn tree(spans: &[Span]) -> String {
    fn below(spans: &[Span], parent: &[u8], depth: usize, into: &mut String) {
        let mut children: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id == parent).collect();
        children.sort_by(|a, b| (a.start_time_unix_nano, &a.name).cmp(&(b.start_time_unix_nano, &b.name)));
        for child in children {
            let class = text(child, "error.type").map(|class| format!(" ({class})")).unwrap_or_default();
            into.push_str(&format!("{}{}{class}\n", "  ".repeat(depth), child.name));
            below(spans, &child.span_id, depth + 1, into);
        }
    }
    let mut written = String::new();
    let known: Vec<&[u8]> = spans.iter().map(|span| span.span_id.as_slice()).collect();
    let root = spans.iter().find(|span| !known.contains(&span.parent_span_id.as_slice())).expect("a root");
    below(spans, &root.parent_span_id, 0, &mut written);
    written
}

/// Every span has an end, and lies within its parent.
fn assert_nested(spans: &[Span]) {
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (span.span_id.as_slice(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "an id is used twice");
    for span in spans {
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{}", span.name);
        if let Some(parent) = by_id.get(span.parent_span_id.as_slice()) {
            let inside = parent.start_time_unix_nano <= span.start_time_unix_nano
                && span.end_time_unix_nano <= parent.end_time_unix_nano;
            assert!(inside, "{} is not inside of {}", span.name, parent.name);
        }
    }
}

fn reported(project: Project, server: &Server, arguments: &[&str]) -> Outcome {
    project.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint(server)).run(arguments)
}

const POLICY: &str = "version: 1\nextends: builtin:edit\nshell: {default: deny, allow: [{cmd: [sh, seen.sh]}]}\n\
                      changes: {default: dry-run, allow: [dry-run, apply, commit]}\n";

#[test]
fn the_spans_of_a_run_are_a_whole_tree() {
    let server = receiver();
    let agent = "---\nname: reader\ndescription: reads\n---\nYou read.\n";
    let project = Project::new()
        .file("a.txt", "one\n")
        .file("b.txt", "two\n")
        .file("check.sh", "grep -q done a.txt\n")
        .file(".qwen/agents/reader.md", agent)
        .policy(POLICY)
        .git()
        .model([
            Reply::Status(503, vec![("retry-after", "0".into())], "{}".into()),
            calls([("read_file", json!({"file_path": "a.txt"})), ("read_file", json!({"file_path": "b.txt"}))]),
            call("run_shell_command", json!({"command": "curl https://example.com"})),
            call("task", json!({"subagent_type": "reader", "prompt": "read b", "description": "read b"})),
            call("read_file", json!({"file_path": "b.txt"})),
            say("It says two."),
            say("Nothing to do."),
            call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "done"})),
            say("Changed."),
        ]);
    let arguments =
        ["--trust-checkout", "--verify", "sh check.sh", "--commit", "--on-deny", "continue", "-o", "result", "go"];
    let outcome = reported(project, &server, &arguments);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let spans = spans(&server);
    assert_nested(&spans);
    assert_eq!(
        tree(&spans),
        "invoke_agent qwen\n  chat scripted (overloaded)\n  chat scripted\n  execute_tool read_file\n  \
         execute_tool read_file\n  chat scripted\n  execute_tool run_shell_command (denied)\n  chat scripted\n  \
         execute_tool task\n    invoke_agent reader\n      chat scripted\n      execute_tool read_file\n      \
         chat scripted\n  chat scripted\n  check sh (check_failed)\n  chat scripted\n  execute_tool edit\n  \
         chat scripted\n  check sh\n  deliver commit\n"
    );
    let root = spans.iter().find(|span| span.name == "invoke_agent qwen").unwrap();
    assert_eq!(text(root, "qwen.exit.reason").as_deref(), Some("ok"));
    assert_eq!(text(root, "qwen.changes.files").as_deref(), Some("1"));
    assert!(root.parent_span_id.is_empty());
    let result: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let id: String = root.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(result["trace_id"], id);
    // What was said, read and run is not reported.
    let all = server.bodies().concat();
    let all = String::from_utf8_lossy(&all);
    for secret in ["a.txt", "check.sh", "example.com", "Changed.", "read b"] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[test]
fn metrics_count_what_the_spans_show() {
    let server = receiver();
    let project = Project::new().file("a.txt", "1").git().model([
        call("read_file", json!({"file_path": "a.txt"})),
        call("run_shell_command", json!({"command": "curl https://example.com"})),
        say("done"),
    ]);
    reported(project, &server, &["go"]);
    let requests = server.heads().into_iter().zip(server.bodies());
    let metrics = requests.filter(|(head, _)| head.starts_with("POST /v1/metrics "));
    let decoded = metrics.map(|(_, body)| ExportMetricsServiceRequest::decode(body.as_slice()).unwrap());
    let mut names: Vec<String> = decoded
        .flat_map(|request| request.resource_metrics)
        .flat_map(|resource| resource.scope_metrics)
        .flat_map(|scope| scope.metrics)
        .map(|metric| metric.name)
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "gen_ai.client.operation.duration",
            "gen_ai.client.token.usage",
            "qwen.denials",
            "qwen.run.cost",
            "qwen.run.duration",
            "qwen.tool.calls"
        ]
    );
}

#[test]
fn what_starts_the_run_is_its_parent_and_what_it_starts_are_its_children() {
    let server = receiver();
    let project = Project::new()
        .file("seen.sh", "printf '%s' \"$TRACEPARENT $OTEL_EXPORTER_OTLP_HEADERS\"\n")
        .policy(POLICY)
        .git()
        .model([call("run_shell_command", json!({"command": "sh seen.sh"})), say("done")])
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hidden-value")
        .env("TRACESTATE", "a=1")
        .env("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint(&server));
    let outcome = project.run(&["go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let spans = spans(&server);
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let root = named("invoke_agent qwen");
    assert_eq!(hex(&root.parent_span_id), "00f067aa0ba902b7");
    let context = |span: &Span| format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
    let command = named("execute_tool run_shell_command");
    let answer = project.server().messages(1);
    assert!(answer.contains(&context(command)), "{answer}");
    assert!(!answer.contains("hidden-value"), "{answer}");
    let chats: Vec<&Span> = spans.iter().filter(|span| span.name == "chat scripted").collect();
    for (head, chat) in project.server().heads().iter().zip(chats) {
        assert!(head.contains(&format!("traceparent: {}", context(chat))), "{head}");
        assert!(head.contains("tracestate: a=1") && !head.contains("hidden-value"), "{head}");
    }
    assert!(server.heads().iter().all(|head| head.contains("x-key: hidden-value")));
}

#[test]
fn nothing_is_reported_unless_it_is_asked_for() {
    let server = receiver();
    let to = endpoint(&server);
    let settings = json!({"telemetry": {"enabled": true, "otlpEndpoint": to}}).to_string();
    let variables = format!("OTEL_EXPORTER_OTLP_ENDPOINT={to}\n");
    let said = || [say("done")];
    let checkout = || {
        let project = Project::new().file(".env", &variables).file(".qwen/.env", &variables);
        project.file(".qwen/settings.json", &settings).git().model(said())
    };
    let disabled = |name: &str, value: &str| {
        Project::new().git().model(said()).env("OTEL_EXPORTER_OTLP_ENDPOINT", &to).env(name, value)
    };
    let outcomes = [
        // An untrusted checkout chooses no place; and no `.env` file does.
        checkout().run(&["-o", "result", "go"]),
        Project::new().file(".env", &variables).git().model(said()).run(&["--trust-checkout", "-o", "result", "go"]),
        disabled("OTEL_SDK_DISABLED", "true").run(&["-o", "result", "go"]),
        disabled("OTEL_TRACES_EXPORTER", "none").env("OTEL_METRICS_EXPORTER", "none").run(&["-o", "result", "go"]),
        disabled("A", "b").run(&["--telemetry=false", "-o", "result", "go"]),
    ];
    for outcome in outcomes {
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert!(outcome.stdout.contains("\"trace_id\":null"), "{}", outcome.stdout);
    }
    assert_eq!(server.connections(), 0);
    let trusted = checkout().run(&["--trust-checkout", "go"]);
    assert_eq!(trusted.code, 0, "{}", trusted.stderr);
    assert!(!spans(&server).is_empty());
}

#[test]
fn a_server_that_fails_costs_one_warning() {
    let elsewhere = receiver();
    let moved = vec![("location", format!("{}/v1/traces", endpoint(&elsewhere)))];
    let replies = [
        Reply::Stall,
        Reply::Hangup,
        Reply::Status(500, vec![], String::new()),
        Reply::Status(429, vec![("retry-after", "3600".into())], String::new()),
        Reply::Status(307, moved, String::new()),
        Reply::Bytes(vec![b'x'; 200_000]),
    ];
    for reply in replies {
        let server = Server::start((0..50).map(|_| reply.clone()));
        let project = Project::new().git().model([say("done")]).env("OTEL_BSP_EXPORT_TIMEOUT", "700");
        let outcome = reported(project, &server, &["-o", "result", "go"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let warnings = outcome.stderr.lines().filter(|line| line.contains("telemetry report is incomplete")).count();
        assert_eq!(warnings, 1, "{reply:?}: {}", outcome.stderr);
        let result: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert!(
            result["warnings"][0].as_str().unwrap().contains("telemetry report is incomplete"),
            "{}",
            outcome.stdout
        );
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn contents_are_reported_if_asked_for_and_without_secrets() {
    let server = receiver();
    let project = Project::new()
        .file("a.txt", "one hunter2hunter2 two\n")
        .git()
        .model([call("read_file", json!({"file_path": "a.txt"})), say("It says hunter2hunter2.")])
        .env("MY_PASSWORD", "hunter2hunter2")
        .env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let outcome = reported(project, &server, &["go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let all = server.bodies().concat();
    let all = String::from_utf8_lossy(&all);
    assert!(all.contains("a.txt") && all.contains("It says"), "{all}");
    assert!(!all.contains("hunter2"), "{all}");
}

#[test]
fn a_file_gets_the_reports_as_lines_of_json() {
    let project = Project::new().git().model([say("done")]);
    let path = project.beside("spans.jsonl");
    let outcome = project.run(&["--telemetry-outfile", path.to_str().unwrap(), "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines = std::fs::read_to_string(&path).unwrap();
    let values: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(values.iter().any(|value| value["resourceSpans"][0]["scopeSpans"][0]["spans"].is_array()), "{lines}");
    assert!(values.iter().any(|value| value["resourceMetrics"].is_array()), "{lines}");
}

#[test]
fn what_cannot_be_reported_as_asked_ends_the_run_before_it_begins() {
    for (name, value, part) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "the protocol `grpc` is not supported"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://example.com", "--allow-http"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://example.com", "it must begin with http"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://u:pw-of-me@example.com", "it contains credentials"),
    ] {
        let project = Project::new().git().model([say("done")]);
        let project = project.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9").env(name, value);
        let outcome = project.run(&["go"]);
        assert_eq!(outcome.code, 52, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(part) && !outcome.stderr.contains("pw-of-me"), "{}", outcome.stderr);
        assert_eq!(project.server().connections(), 0);
    }
}

#[test]
fn the_doctor_says_where_reports_go_and_keeps_the_keys() {
    let project = || Project::new().git().env("QWEN_BASE_URL", "http://127.0.0.1:9/v1").env("QWEN_MODEL", "m");
    let doctor = |project: Project| project.qwen(&["doctor", "-v"]);
    let off = doctor(project());
    assert_eq!(off.code, 0, "{}", off.stderr);
    assert!(!off.stdout.contains("telemetry"), "{}", off.stdout);
    let on = doctor(
        project()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otlp.example.com")
            .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318/t?token=hidden-value")
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hidden-value,other=hidden-value"),
    );
    assert_eq!(on.code, 0, "{}", on.stderr);
    for part in [
        "telemetry  traces to http://127.0.0.1:4318/t, metrics to https://otlp.example.com/v1/metrics",
        "without what is said, read and run",
        "x-key=***,other=***   (OTEL_EXPORTER_OTLP_HEADERS)",
    ] {
        assert!(on.stdout.contains(part), "{part}: {}", on.stdout);
    }
    assert!(!on.stdout.contains("hidden-value"), "{}", on.stdout);
    let wrong = doctor(project().env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otlp.example.com"));
    assert_eq!(wrong.code, 52);
    assert!(wrong.stdout.contains("--allow-http") && wrong.stdout.contains("OTEL_SDK_DISABLED"), "{}", wrong.stdout);
}

#[test]
fn the_events_file_names_the_span_of_each_event() {
    let server = receiver();
    let project = Project::new().file("a.txt", "1").git();
    let project = project.model([call("read_file", json!({"file_path": "a.txt"})), say("done")]);
    let project = project.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint(&server));
    let path = project.beside("events.jsonl");
    let outcome = project.run(&["--events-file", path.to_str().unwrap(), "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let known: Vec<String> =
        spans(&server).iter().map(|span| span.span_id.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    let events = std::fs::read_to_string(&path).unwrap();
    for line in events.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(known.iter().any(|id| event["span_id"] == *id), "{line}");
    }
}

#[test]
fn no_report_is_appended_where_a_link_of_a_checkout_leads() {
    let project = Project::new().file("a.txt", "one\n").git().model([say("done")]);
    let mine = project.beside("mine");
    std::fs::write(&mine, "mine\n").unwrap();
    std::os::unix::fs::symlink(&mine, project.root().join("report.jsonl")).unwrap();
    let outcome = project.run(&["--telemetry", "--telemetry-outfile", "report.jsonl", "go"]);
    assert_eq!(outcome.code, 52, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is a link in the checkout"), "{}", outcome.stderr);
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine\n");
}

/// A project with a list of so many lines to label.
fn batch(server: &Server, lines: usize) -> Project {
    let recipe = "recipe: 1\nname: label\ndescription: Label a line.\nparams:\n  line: {type: string, description: A \
                  line., untrusted: true}\nprompt: 'Label {{ params.line }}'\nneeds: {tools: []}\n";
    let list: String = (1..=lines).map(|n| format!("line {n}\n")).collect();
    let project = Project::new().file("label.yaml", recipe).file("list.txt", list);
    project
        .served_by(Server::answering(|_| say("bug")))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint(server))
        .env("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
}

const BATCH: [&str; 6] = ["batch", "--lines", "list.txt", "--recipe", "./label.yaml", "--out"];

#[test]
fn a_batch_is_one_span_and_its_items_are_below_it() {
    let server = receiver();
    let project = batch(&server, 3);
    let outcome = project.qwen(&[&BATCH[..], &["out"]].concat());
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let spans = spans(&server);
    assert_nested(&spans);
    let item = "  invoke_workflow label\n    chat scripted\n    deliver dry-run\n";
    assert_eq!(tree(&spans), format!("batch label\n{}", item.repeat(3)));
    let root = spans.iter().find(|span| span.name == "batch label").unwrap();
    assert_eq!(text(root, "qwen.batch.items").as_deref(), Some("3"));
    assert_eq!(text(root, "qwen.exit.reason").as_deref(), Some("ok"));
    for (head, trace) in project.server().heads().iter().zip(std::iter::repeat("4bf92f3577b34da6a3ce929d0e0e4736")) {
        assert!(head.contains(&format!("traceparent: 00-{trace}-")), "{head}");
    }
}

#[test]
fn shards_that_one_job_started_are_in_one_trace() {
    let server = receiver();
    let project = batch(&server, 4);
    for shard in ["1/2", "2/2"] {
        let outcome = project.qwen(&[&BATCH[..], &["out", "--shard", shard]].concat());
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    }
    let spans = spans(&server);
    let batches: Vec<&Span> = spans.iter().filter(|span| span.name == "batch label").collect();
    assert_eq!(batches.len(), 2);
    assert!(spans.iter().all(|span| span.trace_id == batches[0].trace_id));
    assert_eq!(batches[0].parent_span_id, batches[1].parent_span_id);
    assert_ne!(batches[0].span_id, batches[1].span_id);
}

#[test]
fn a_large_batch_has_a_trace_for_each_item_that_is_linked_to_it() {
    let server = receiver();
    // What is run is one item of a long list.
    let outcome = batch(&server, 1_001).qwen(&[&BATCH[..], &["out", "--limit", "2"]].concat());
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let spans = spans(&server);
    let root = spans.iter().find(|span| span.name == "batch label").unwrap();
    let items: Vec<&Span> = spans.iter().filter(|span| span.name == "invoke_workflow label").collect();
    assert_eq!(items.len(), 2);
    for item in &items {
        assert!(item.parent_span_id.is_empty() && item.trace_id != root.trace_id);
        assert_eq!((&item.links[0].trace_id, &item.links[0].span_id), (&root.trace_id, &root.span_id));
    }
    assert_ne!(items[0].trace_id, items[1].trace_id);
}

#[test]
fn a_run_that_is_stopped_leaves_only_spans_with_an_end() {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, code) in [(Signal::TERM, Some(143)), (Signal::KILL, None)] {
        let server = receiver();
        let project = Project::new()
            .git()
            .file("a.txt", "one\n")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint(&server))
            .model([call("read_file", json!({"file_path": "a.txt"})), Reply::Stall]);
        let child = project.spawn(&["run", "go"]);
        project.server().wait_for(2);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let outcome = project.finish(child);
        let spans = spans(&server);
        assert_nested(&spans);
        let Some(code) = code else {
            assert!(spans.iter().all(|span| span.name != "invoke_agent qwen"));
            continue;
        };
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        let drawn = "invoke_agent qwen (interrupted)\n  chat scripted\n  execute_tool read_file\n  chat scripted (interrupted)\n";
        assert_eq!(tree(&spans), drawn);
    }
}

#[test]
fn commands_that_finish_a_change_and_checks_are_told_their_own_spans() {
    let server = receiver();
    let recipe = "recipe: 1\nname: fix\ndescription: D\nlimits: {cost_usd: 1}\nprompt: p\n\
                  needs: {read: ['**'], write: [a.txt], run: [sh first.sh, sh second.sh]}\noutput: {kind: changes}\n\
                  finish: [{name: note, run: [sh, first.sh], writes: [first.txt]}]\n\
                  verify: {checks: [{name: note, run: [sh, second.sh]}]}\n";
    let policy = POLICY.replace("{cmd: [sh, seen.sh]}", "{cmd: [sh, first.sh]}, {cmd: [sh, second.sh]}");
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    let project = Project::new()
        .file("first.sh", "echo $TRACEPARENT > first.txt\n")
        .file("second.sh", "echo $TRACEPARENT\n")
        .file("a.txt", "one\n")
        .file(".qwen/recipes/fix.yaml", recipe)
        .policy(&policy)
        .git()
        .model([call("edit", edit), say("done")]);
    let outcome = reported(project, &server, &["--recipe", "fix", "--trust-checkout", "-o", "result"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let spans = spans(&server);
    let mut checks: Vec<&Span> = spans.iter().filter(|span| span.name == "check sh").collect();
    checks.sort_by_key(|span| span.start_time_unix_nano);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let contexts: Vec<String> =
        checks.iter().map(|span| format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))).collect();
    assert_eq!(contexts.len(), 2, "{}", tree(&spans));
    let patch = outcome.result["changes"]["patch"].as_str().unwrap();
    assert!(patch.contains(&format!("+{}", contexts[0])), "{contexts:?}: {patch}");
    assert!(outcome.result.to_string().contains(&contexts[1]), "{contexts:?}: {}", outcome.result);
}
