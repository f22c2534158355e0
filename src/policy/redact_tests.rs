//! Tests of the masking of secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use proptest::prelude::*;

use super::redact::*;
use crate::base::digest::hex;
use crate::change::{Change, Entry};
use crate::path::RelPath;
use crate::policy::spellings::{in_lines, spellings};

fn secrets() -> Secrets {
    secrets_of(&["ACME-[A-Z0-9]{20}".to_owned()])
}

fn secrets_of(patterns: &[String]) -> Secrets {
    let variables = [
        ("API_TOKEN", "hunter2-hunter2"),
        ("SSH_KEY_PATH", "/home/x/key"),
        ("MAX_TOKENS", "100000000"),
        ("MULTI_SECRET", "first line\nsecond line"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Secrets::new(&variables, patterns).unwrap()
}

fn masked(secrets: &Secrets, text: &str) -> String {
    mask(secrets, text.to_owned()).0
}

#[test]
fn a_blank_of_any_script_ends_a_word() {
    let secrets = Secrets::new(&BTreeMap::new(), &[]).unwrap();
    for (text, settled) in [("a b", 2), ("a\u{3000}b", 4), ("\u{a0}", 2), ("字", 0)] {
        assert_eq!(secrets.settled(text, 100), settled, "{text:?}");
    }
}

#[test]
fn a_long_secret_is_masked_as_programs_write_it() {
    let value = format!("/+ä:{}", "long secret ".repeat(9));
    let secrets = Secrets::new(&BTreeMap::from([("LONG_TOKEN".to_owned(), format!("x{value}"))]), &[]).unwrap();
    let value = format!("x{}", value.trim_end());
    let base64 = base64::engine::general_purpose::STANDARD.encode(&value);
    let python = r"x/+\u00e4:long secret long secret";
    let percent: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
    let percent = percent.replace("%2F", "%2f").replace("%2B", "%2b").replace("%C3%A4", "%c3%a4").replace("%3A", "%3a");
    for text in [in_lines(&base64, 76), in_lines(&base64, 64), in_lines(&hex(value.as_bytes()), 60), percent] {
        let (masked, count) = mask(&secrets, format!("a {text} b"));
        assert!(count == 1 && masked.len() < 40, "{masked}");
    }
    assert!(spellings(&value).iter().any(|(_, text)| text.starts_with(python)));
}

#[test]
fn a_secret_is_masked_in_every_spelling() {
    let secrets = secrets();
    let inner = base64::engine::general_purpose::STANDARD.encode("user:hunter2-hunter2@host");
    let texts = [
        "a hunter2-hunter2 b",
        "aHVudGVyMi1odW50ZXIy",
        "68756e746572322d68756e74657232",
        "68756E746572322D68756E74657232",
        inner.as_str(),
        r#"{"k":"first line\nsecond line"}"#,
        "first line\nsecond line",
        "first+line%0Asecond+line",
        "first%20line%0asecond%20line",
    ];
    for text in texts {
        let (masked, count) = mask(&secrets, text.to_owned());
        assert!(masked.contains("[redacted:") && count == 1, "{text}: {masked}");
    }
    assert_eq!(mask(&secrets, "/home/x/key 100000000".to_owned()).1, 0);
}

#[test]
fn the_headers_of_reports_are_secrets() {
    let of = |name: &str, value: &str| Secrets::new(&[(name.to_owned(), value.to_owned())].into(), &[]).unwrap();
    for name in
        ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "otel_exporter_otlp_metrics_headers"]
    {
        let secrets = of(name, "authorization=Bearer%20plain-key-1, x-team=short,api-key=key%3Dof%2Bteam ");
        for text in ["plain-key-1", "Bearer plain-key-1", "Bearer%20plain-key-1", "key=of+team", "key%3Dof%2Bteam"] {
            let shown = masked(&secrets, &format!("a {text} b"));
            assert!(shown.contains("[redacted:") && !shown.contains(text), "{name} {text}: {shown}");
        }
        assert_eq!(masked(&secrets, "Bearer short authorization"), "Bearer short authorization");
    }
    assert!(!masked(&of("OTEL_EXPORTER_OTLP_HEADERS", "lonely-secret"), "lonely-secret").contains("lonely"));
}

#[test]
fn a_placeholder_stands_for_one_text_and_is_the_same_each_time() {
    let secrets = secrets();
    let key = |letter: char| format!("sk-{}", letter.to_string().repeat(24));
    let text = format!("{} {} {} ACME-{} hunter2-hunter2", key('a'), key('b'), key('a'), "A1".repeat(10));
    let (masked, count) = mask(&secrets, text);
    assert_eq!(count, 5);
    assert_eq!(masked, "[redacted:key-1] [redacted:key-2] [redacted:key-1] [redacted:pattern-3] [redacted:API_TOKEN]");
}

#[test]
fn what_looks_like_a_placeholder_is_masked_and_comes_back_as_it_was() {
    let secrets = secrets();
    let text = "hunter2-hunter2 [redacted:API_TOKEN] [redacted:x]";
    let hidden = masked(&secrets, text);
    assert_eq!(hidden, "[redacted:API_TOKEN] [redacted:text-2] [redacted:text-3]");
    assert_eq!(secrets.restore(&hidden, text).unwrap(), text);
    assert_eq!(mask(&secrets, "[redacted:y]".to_owned()).1, 0, "it is no secret");
}

#[test]
fn a_text_that_looks_like_a_placeholder_leads_nowhere_else() {
    for text in [
        "[redacted:text-1]",
        "[redacted:text-2] [redacted:text-1]",
        "[redacted:text-2] [redacted:text-3] [redacted:text-1]",
    ] {
        let secrets = secrets();
        let hidden = masked(&secrets, text);
        for held in [text, "", "other"] {
            assert_eq!(secrets.restore(&hidden, held).unwrap(), text, "{hidden}");
        }
    }
}

#[test]
fn a_name_of_an_earlier_run_is_not_given_to_another_secret() {
    let secrets = secrets();
    secrets.resume("a [redacted:key-1] b [redacted:API_TOKEN]");
    let key = format!("sk-{}", "a".repeat(24));
    let hidden = masked(&secrets, &format!("{key} hunter2-hunter2"));
    assert_eq!(hidden, "[redacted:key-1-1] [redacted:API_TOKEN]");
    assert!(secrets.restore("[redacted:key-1]", &key).is_err());
}

#[test]
fn a_token_may_stand_behind_letters_that_are_no_part_of_it() {
    let secrets = secrets();
    let tokens =
        [format!("ghp_{}", "aB3d".repeat(9)), format!("sk-{}", "aB3d".repeat(6)), format!("AKIA{}", "A1B2".repeat(4))];
    for token in &tokens {
        for before in ["\\n", "\\t", "\\u003d", "%3D", "\\x22", "\u{1b}[32m", "_", "x="] {
            let hidden = masked(&secrets, &format!("{before}{token} b"));
            assert!(hidden.contains("[redacted:") && !hidden.contains(&token[6..]), "{before}: {hidden}");
        }
    }
    for text in ["risk-management-of-something-long", "task-aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "desk_ghp"] {
        assert_eq!(masked(&secrets, text), text);
    }
}

#[test]
fn lines_of_a_key_are_masked_in_a_part_of_something_however_much_follows() {
    let line = |salt: u32| {
        let bytes = (0..48_u32).map(|at| ((at + salt).wrapping_mul(2_654_435_761) >> 13) as u8);
        base64::engine::general_purpose::STANDARD.encode(bytes.collect::<Vec<u8>>())
    };
    let much: String = (0..12_000).map(|n| line(1_000_000 + n * 48) + "\n").collect();
    let lines: Vec<String> = (0..8).map(|n| line(n * 48)).collect();
    let secrets = secrets();
    let text = format!("{}\n{much}", lines.join("\n"));
    let hidden = secrets.mask_part(&text).0;
    assert!(lines.iter().all(|line| !hidden.contains(line)));
    // A whole file may hold other base64.
    assert_eq!(masked(&secrets_of(&[]), &text), text);
}

#[test]
fn a_secret_comes_back_only_into_a_file_that_held_it() {
    let secrets = secrets();
    let hidden = masked(&secrets, "token = hunter2-hunter2");
    assert_eq!(secrets.restore(&hidden, "hunter2-hunter2").unwrap(), "token = hunter2-hunter2");
    let refused = secrets.restore(&hidden, "another file").unwrap_err();
    assert_eq!(refused.name, "API_TOKEN");
    assert!(refused.to_string().contains("did not hold"), "{refused}");
    assert_eq!(secrets.restore("[redacted:INVENTED]", "").unwrap(), "[redacted:INVENTED]");
    // What was masked twice is the secret in its own file, and in another one an error.
    let twice = masked(&secrets, &hidden);
    assert_ne!(twice, hidden);
    assert_eq!(secrets.restore(&twice, "hunter2-hunter2").unwrap(), "token = hunter2-hunter2");
    assert!(secrets.restore(&twice, "another file").is_err());
    assert_eq!(secrets.restore(&twice, &hidden).unwrap(), hidden);
}

proptest! {
    #[test]
    fn masking_then_restoring_gives_the_same_text(pieces in prop::collection::vec(prop_oneof![
        Just("hunter2-hunter2".to_owned()),
        Just("aHVudGVyMi1odW50ZXIy".to_owned()),
        Just("[redacted:API_TOKEN]".to_owned()),
        Just("[redacted:key-1]".to_owned()),
        Just("[redacted:".to_owned()),
        Just("]".to_owned()),
        Just("first line\nsecond line".to_owned()),
        Just("-----BEGIN RSA PRIVATE KEY-----\nx\n-----END RSA PRIVATE KEY-----".to_owned()),
        "sk-[a-c]{20,22}",
        "ghp_[a-b0-1]{30,31}",
        "ACME-[A-B]{19,21}",
        "\\PC{0,12}",
        "[ \n\r\t\"\\\\]{0,3}",
    ], 0..12)) {
        static SHARED: std::sync::LazyLock<Secrets> = std::sync::LazyLock::new(secrets);
        let secrets = &*SHARED;
        let text = pieces.concat();
        let hidden = masked(secrets, &text);
        for secret in ["hunter2-hunter2", "first line\nsecond line"] {
            prop_assert!(!hidden.contains(secret), "{hidden:?}");
        }
        prop_assert_eq!(secrets.restore(&hidden, &text).unwrap(), text);
    }
}

#[test]
fn a_change_that_adds_a_secret_is_named_and_one_that_keeps_it_is_not() {
    let secrets = secrets();
    let path = RelPath::new("a").unwrap();
    let change = |before: &str, after: &str| Change { before: Entry::file(before), after: Entry::file(after) };
    let adds = change("x", "x hunter2-hunter2");
    assert_eq!(secrets.added(&path, &adds, true), Some("the value of API_TOKEN".into()));
    assert_eq!(secrets.added(&path, &adds, false), None);
    assert_eq!(secrets.added(&path, &change("hunter2-hunter2", "hunter2-hunter2 y"), true), None);
    let key = format!("k = {}", "AKIA0123456789ABCDEF");
    let named = secrets.added(&path, &change("", &key), true);
    assert_eq!(named, Some("something with the shape of aws-key".into()));
    assert_eq!(secrets.added(&path, &change("", "[redacted:API_TOKEN]"), true), None);
}

#[test]
fn people_see_placeholders_as_the_model_wrote_them() {
    let secrets = secrets();
    assert_eq!(secrets.hide("[redacted:key-1] hunter2-hunter2"), "[redacted:key-1] [redacted:API_TOKEN]");
}

#[test]
fn a_pattern_that_is_none_is_named() {
    assert!(Secrets::new(&BTreeMap::new(), &["(".to_owned()]).unwrap_err().to_string().contains("`(`"));
    assert!(Secrets::new(&BTreeMap::new(), &["x*".to_owned()]).unwrap_err().to_string().contains("everywhere"));
}

/// Not a measurement: a quadratic search would not end.
#[test]
fn a_megabyte_of_text_is_one_pass() {
    let secrets = secrets();
    let text = "let key = sk-ab; // eyJ [redacted: -----BEGIN ghp_ hunter2\n".repeat(20_000);
    assert_eq!(mask(&secrets, text.clone()).1, 0);
    let line = "MIIE".repeat(16) + "\n";
    for begins in
        ["-----BEGIN PRIVATE KEY-----\n".to_owned(), format!("-----BEGIN PRIVATE KEY-----\n{line}{line}{line}")]
    {
        let count = begins.lines().count();
        assert_eq!(mask(&secrets, begins.repeat(40_000 / count)).1 > 0, count > 1);
    }
}
