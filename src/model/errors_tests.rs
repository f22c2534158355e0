//! Tests how errors of servers are classified.

use serde::Deserialize;

use super::*;
use crate::model::providers::{Provider, quirks_named};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    provider: String,
    status: Option<u16>,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
    body: String,
    expect: String,
    retry_after_ms: Option<u64>,
    request_id: Option<String>,
}

fn provider(name: &str) -> Provider {
    match name {
        "openai" => Provider::OpenAi,
        "dashscope" => Provider::DashScope,
        "coding" => Provider::DashScopeCoding,
        "openrouter" => Provider::OpenRouter,
        "modelscope" => Provider::ModelScope,
        "vllm" => Provider::Vllm,
        "sglang" => Provider::Sglang,
        "llama.cpp" => Provider::LlamaCpp,
        "ollama" => Provider::Ollama,
        "lmstudio" => Provider::LmStudio,
        "python" => Provider::LlamaCppPython,
        "unknown" => Provider::Unknown,
        other => panic!("{other}"),
    }
}

fn describe(class: &ErrorClass) -> String {
    let number = |number: &Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    match class {
        ErrorClass::ContextOverflow { limit, actual } => {
            format!("context_overflow {} {}", number(limit), number(actual))
        }
        ErrorClass::OutputTooLong { limit } => format!("output_too_long {}", number(limit)),
        ErrorClass::Unsupported(feature) => format!("unsupported {}", feature.name()),
        other => other.name().to_owned(),
    }
}

#[test]
fn r36_every_known_error_has_its_class() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/errors");
    let mut wrong = Vec::new();
    let mut rows = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let table: Vec<Row> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for row in table {
            rows += 1;
            let headers: Vec<(String, String)> = row.headers.into_iter().collect();
            let found = classify(quirks_named(provider(&row.provider)), row.status, &headers, &row.body, None);
            let waits = found.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap());
            let is = (describe(&found.class), waits, found.request_id.clone());
            let should = (row.expect, row.retry_after_ms, row.request_id);
            if is != should {
                wrong.push(format!("{} / {}: {is:?}, should be {should:?}", row.provider, row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "of {rows}:\n{}", wrong.join("\n"));
    assert!(rows > 80);
}

#[test]
fn every_pattern_compiles() {
    for index in 0..RULES.len() {
        compiled(index);
    }
}

#[test]
fn r37_retry_after_is_read_in_every_form() {
    let wait = |name: &str, value: &str| retry_after(&[(name.to_owned(), value.to_owned())], None);
    assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
    assert_eq!(wait("retry-after", " 0.25 "), Some(Duration::from_millis(250)));
    assert_eq!(wait("retry-after-ms", "20"), Some(Duration::from_millis(20)));
    for none in ["0", "-5", "0.0", "NaN", "-inf"] {
        assert_eq!(wait("retry-after", none), Some(Duration::ZERO), "{none}");
        assert_eq!(wait("retry-after-ms", none), Some(Duration::ZERO), "{none}");
    }
    assert_eq!(wait("retry-after", "soon"), None);
    assert_eq!(wait("retry-after", "inf"), Some(Duration::from_secs(31_536_000)));
    assert_eq!(wait("retry-after", "1e300"), Some(Duration::from_secs(31_536_000)));
    assert_eq!(wait("retry-after", "23s"), Some(Duration::from_secs(23)));
    // A date without any clock cannot be a wait.
    assert_eq!(wait("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"), None);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_792_567_690);
    let until = |date: &str| retry_after(&[("retry-after".to_owned(), date.to_owned())], Some(now));
    for date in [
        "Wed, 21 Oct 2026 07:28:30 GMT",
        "Wednesday, 21-Oct-26 07:28:30 GMT",
        "Wed Oct 21 07:28:30 2026",
        "Wed, 21 Oct 2026 09:28:30 +0200",
    ] {
        assert_eq!(until(date), Some(Duration::from_secs(20)), "{date}");
    }
    assert_eq!(until("Fri, 31 Dec 9999 23:59:59 GMT"), Some(Duration::from_secs(31_536_000)));
    assert_eq!(until("Wed, 21 Oct 2026 07:28:10 GMT"), Some(Duration::ZERO), "it is now");
    assert_eq!(until("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO), "it is over");
    let of_server = [("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"), ("date", "Wed, 21 Oct 2026 07:28:25 GMT")];
    let of_server = of_server.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(retry_after(&of_server, Some(now)), Some(Duration::from_secs(5)));
}

#[test]
fn r38_a_final_error_says_what_to_do() {
    for provider in [Provider::DashScope, Provider::Ollama, Provider::LmStudio, Provider::Unknown] {
        for class in [ErrorClass::Permission, ErrorClass::Billing, ErrorClass::ModelNotFound, ErrorClass::ContentFilter]
        {
            assert!(quirks_named(provider).hint(&class, "m").is_some());
        }
    }
}

#[test]
fn a_message_is_short_and_holds_no_control_characters() {
    let body = serde_json::json!({"error": {"message": format!("\u{1b}[31mred\n{}", "x".repeat(5_000))}}).to_string();
    let found = classify(quirks_named(Provider::Unknown), Some(400), &[], &body, None);
    assert!(found.message.chars().count() <= 401);
    assert!(!found.message.contains('\u{1b}'));
}

proptest::proptest! {
    #[test]
    fn no_body_makes_the_classifier_panic(body in ".{0,200}", status in 0u16..700) {
        let _ = classify(quirks_named(Provider::Unknown), Some(status), &[], &body, None);
    }
}

#[test]
fn r39_quota_is_throttling_or_the_end_by_provider_and_words() {
    let class = |provider: Provider, message: &str| {
        let body = serde_json::json!({"error": {"message": message, "code": "insufficient_quota"}}).to_string();
        classify(quirks_named(provider), Some(429), &[], &body, None).class.name()
    };
    assert_eq!(class(Provider::DashScope, "Allocated quota exceeded, please increase your quota limit."), "rate_limit");
    assert_eq!(class(Provider::DashScope, "Free allocated quota exceeded."), "billing");
    assert_eq!(class(Provider::OpenAi, "You exceeded your current quota."), "billing");
}
