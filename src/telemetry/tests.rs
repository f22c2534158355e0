use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::SpanId;
use opentelemetry_sdk::trace::SpanData;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::{
    AssistantTurn, CallFacts, DecisionRecord, DeltaKind, PermissionDenial, Retry, RunError, RunFinished, RunStarted,
    SideRequest, ToolResult, VerifyOutcome,
};
use crate::exit::Exit;

fn resolved(variables: &[(&str, &str)], flags: &Wishes, settings: &Wishes) -> Result<Option<Config>, TelemetryError> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::resolve(&variables, flags, settings, false, &mut Vec::new())
}

fn urls(config: &Config) -> [Option<String>; 2] {
    let Targets::Servers { traces, metrics } = &config.targets else { panic!("a file") };
    [traces, metrics].map(|target| target.as_ref().map(|target| target.url.to_string()))
}

#[test]
fn the_general_endpoint_gets_a_path_and_a_signal_s_own_is_used_as_it_stands() {
    let none = Wishes::default();
    let of = |variables: &[(&str, &str)]| resolved(variables, &none, &none).unwrap().map(|config| urls(&config));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), None);
    let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://o.example/base/");
    let both = [some("https://o.example/base/v1/traces"), some("https://o.example/base/v1/metrics")];
    assert_eq!(of(&[general]), Some(both));
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t.example/x");
    assert_eq!(of(&[own]), Some([some("https://t.example/x"), None]));
    assert_eq!(of(&[general, own]), Some([some("https://t.example/x"), some("https://o.example/base/v1/metrics")]));
    assert_eq!(of(&[general, ("OTEL_SDK_DISABLED", "TRUE")]), None);
    let none_of = ("OTEL_METRICS_EXPORTER", "none");
    assert_eq!(of(&[general, none_of]), Some([some("https://o.example/base/v1/traces"), None]));
}

#[test]
fn flags_count_before_variables_and_these_before_settings() {
    let settings = Wishes {
        enabled: Some(true),
        endpoint: Some("https://s.example".into()),
        protocol: Some("http/json".into()),
        contents: Some(true),
        ..Wishes::default()
    };
    let none = Wishes::default();
    let config = resolved(&[], &none, &settings).unwrap().unwrap();
    assert_eq!(urls(&config)[0].as_deref(), Some("https://s.example/v1/traces"));
    assert!(config.contents);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://v.example"),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "false"),
    ];
    let config = resolved(&variables, &none, &settings).unwrap().unwrap();
    assert_eq!(urls(&config)[0].as_deref(), Some("https://v.example/v1/traces"));
    assert!(!config.contents);
    let flags = Wishes { endpoint: Some("https://f.example".into()), contents: Some(true), ..Wishes::default() };
    let config = resolved(&variables, &flags, &settings).unwrap().unwrap();
    assert_eq!(urls(&config)[1].as_deref(), Some("https://f.example/v1/metrics"));
    assert!(config.contents);
    let off = Wishes { enabled: Some(false), ..Wishes::default() };
    assert!(resolved(&variables, &off, &settings).unwrap().is_none());
    let local = resolved(&[], &none, &Wishes { enabled: Some(true), ..Wishes::default() }).unwrap().unwrap();
    assert_eq!(urls(&local)[0].as_deref(), Some("http://localhost:4318/v1/traces"));
}

#[test]
fn the_sampler_decides_by_the_parent_unless_it_is_told_otherwise() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://o.example");
    let parent = |flags| format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
    let is_sampled = |parent: &str, sampler: &str| {
        let variables = [endpoint, ("TRACEPARENT", parent), ("OTEL_TRACES_SAMPLER", sampler)];
        let none = Wishes::default();
        resolved(&variables, &none, &none).unwrap().unwrap().trace(1).is_sampled()
    };
    assert!(is_sampled("", "") && is_sampled(&parent("01"), "") && !is_sampled(&parent("00"), ""));
    assert!(is_sampled(&parent("00"), "always_on") && !is_sampled(&parent("01"), "always_off"));
    assert!(is_sampled(&parent("01"), "parentbased_always_off") && !is_sampled("", "parentbased_always_off"));
}

/// An event of any kind, about few calls, turns and agents, so that they meet.
fn any_event() -> impl Strategy<Value = Event> {
    let id = || (0_u8..4).prop_map(|number| format!("c{number}"));
    let parent = proptest::option::of((0_u8..4).prop_map(|number| format!("c{number}")));
    let turn = || 1_u32..4;
    prop_oneof![
        (turn(), parent.clone()).prop_map(|(turn, parent)| Event::TurnStarted { turn, parent }),
        turn().prop_map(|turn| Event::Delta { turn, kind: DeltaKind::Text, text: "x".into() }),
        (turn(), id(), 0_u64..5_000).prop_map(|(turn, id, api_ms)| {
            let calls = vec![CallFacts { id, name: "task".into(), input: json!({}), recovered: None }];
            Event::Assistant(Box::new(AssistantTurn { turn, calls, api_ms, ..AssistantTurn::default() }))
        }),
        id().prop_map(|call_id| Event::Decided(Box::new(DecisionRecord { call_id, ..DecisionRecord::default() }))),
        id().prop_map(|tool_use_id| {
            Event::Denied(Box::new(PermissionDenial { tool_use_id, ..PermissionDenial::default() }))
        }),
        (id(), any::<u64>(), any::<bool>()).prop_map(|(call_id, duration_ms, is_error)| {
            let tool = "mcp__s__t".to_owned();
            Event::ToolResult(Box::new(ToolResult { call_id, tool, duration_ms, is_error, ..ToolResult::default() }))
        }),
        (turn(), any::<u64>()).prop_map(|(turn, wait_ms)| Event::Retry(Retry { turn, wait_ms, ..Retry::default() })),
        Just(Event::ModelFallback { from: "a".into(), to: "b".into() }),
        any::<u64>().prop_map(|api_ms| Event::SideRequest(Box::new(SideRequest { api_ms, ..SideRequest::default() }))),
        any::<u64>().prop_map(|duration_ms| Event::Verify(VerifyOutcome { duration_ms, ..VerifyOutcome::default() })),
        Just(Event::DeliveryStarted { mode: "apply".into() }),
        Just(Event::Warning { message: "w".into() }),
        Just(Event::Command { argv: Vec::new(), exit_code: Some(1), duration_ms: 0, sandboxed: true }),
        Just(Event::Redaction { count: 1 }),
        Just(Event::Todos { todos: vec![Value::Null] }),
        Just(Event::RunStarted(Box::default())),
    ]
}

/// Folds events, one every 10 ms, and the end of the run.
fn folded(events: &[Event]) -> Vec<SpanData> {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let mut fold = Fold::new(Arc::new(Trace::new(None, 7, |_| true, "", true)), true, started);
    let end = RunFinished::failed(Exit::Failed, RunError { code: "internal".into(), ..RunError::default() });
    let end = Event::RunFinished(Box::new(end));
    let times = (1..).map(|step| started + Duration::from_millis(10 * step));
    let mut spans: Vec<SpanData> =
        events.iter().chain([&end]).zip(times).flat_map(|(event, at)| fold.add(event, at).spans).collect();
    // Nothing comes after the end.
    spans.extend(fold.add(&Event::TurnStarted { turn: 9, parent: None }, started).spans);
    spans
}

fn count(spans: &[SpanData], prefix: &str) -> usize {
    spans.iter().filter(|span| span.name.starts_with(prefix)).count()
}

proptest! {
    #[test]
    fn whatever_happens_every_span_ends_inside_of_its_parent_and_nothing_is_forgotten(
        events in proptest::collection::vec(any_event(), 0..40)
    ) {
        let spans = folded(&events);
        let by_id: HashMap<SpanId, &SpanData> = spans.iter().map(|span| (span.span_context.span_id(), span)).collect();
        let roots = spans.iter().filter(|span| span.parent_span_id == SpanId::INVALID).count();
        prop_assert_eq!(roots, 1);
        for span in &spans {
            prop_assert!(span.start_time <= span.end_time);
            if span.parent_span_id != SpanId::INVALID {
                prop_assert!(by_id.contains_key(&span.parent_span_id), "{} has no parent", span.name);
            }
        }
        let of = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
        prop_assert_eq!(count(&spans, "check "), of(|event| matches!(event, Event::Verify(_))));
        prop_assert!(count(&spans, "tools/call") >= of(|event| matches!(event, Event::ToolResult(_))));
        let answers = of(|event| matches!(event, Event::Assistant(_) | Event::SideRequest(_)));
        prop_assert!(count(&spans, "chat") >= answers);
        let root = spans.iter().find(|span| span.parent_span_id == SpanId::INVALID).unwrap();
        let names: BTreeSet<&str> = spans.iter().flat_map(|span| &span.events.events).map(|event| &*event.name).collect();
        for (kind, name) in [("w", "qwen.warning"), ("r", "qwen.redaction"), ("t", "qwen.todos")] {
            let happened = events.iter().any(|event| match event {
                Event::Warning { .. } => kind == "w",
                Event::Redaction { .. } => kind == "r",
                Event::Todos { .. } => kind == "t",
                _ => false,
            });
            prop_assert_eq!(happened, names.contains(name), "{}", name);
        }
        prop_assert!(root.end_time >= spans.iter().map(|span| span.end_time).max().unwrap());
    }
}

#[test]
fn a_run_that_never_began_is_one_span_with_its_error() {
    let spans = folded(&[]);
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0].status, opentelemetry::trace::Status::error("internal"));
    let started = Event::RunStarted(Box::new(RunStarted { model: "m".into(), ..RunStarted::default() }));
    assert_eq!(folded(&[started]).len(), 1);
}
