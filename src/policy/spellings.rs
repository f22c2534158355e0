//! Finds the secrets of an environment by the names of its variables, and lists how programs write a secret.

use base64::Engine as _;

use crate::base::digest::hex;

/// The shortest value of a variable that counts.
const SHORTEST: usize = 8;

/// Words in the name of a variable that make its value a secret.
const SECRET_WORDS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "PASSPHRASE"];

/// Returns a secret as it is, in base64 (also where it begins within a longer text), percent-encoded, in hexadecimal
/// and as JSON and HTML write it, each with the name of the spelling. In base64 and hexadecimal it may have line breaks.
pub(super) fn spellings(value: &str) -> Vec<(&'static str, String)> {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    let mut all = vec![("", value.to_owned())];
    let hex = hex(value.as_bytes());
    all.push(("HEX", hex.to_uppercase()));
    let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
    // Those of forms, of `encodeURIComponent`, and of Python's `quote` with and without slashes.
    let encoded = ["-_.!~*'()", "-_.~/", "-_.~"].map(|plain| percent_encoded(value, plain));
    for encoded in encoded.into_iter().chain([form]) {
        all.push(("url", lower_case_escapes(&encoded)));
        all.push(("url", encoded));
    }
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let quoted = html.replace('"', "&quot;");
    all.push(("html", quoted.replace('\'', "&#39;")));
    all.push(("html", quoted.replace('\'', "&#x27;")));
    all.extend([html, quoted].map(|text| ("html", text)));
    // `xxd -p` and `base64` break their lines.
    all.push(("hex", in_lines(&hex, 60)));
    all.push(("hex", hex));
    let mut whole = STANDARD_NO_PAD.encode(value);
    whole.truncate(value.len() / 3 * 4);
    all.extend([64, 76].map(|width| ("base64", in_lines(&whole, width))));
    for offset in 0..3_usize {
        let mut bytes = vec![0; offset];
        bytes.extend_from_slice(value.as_bytes());
        for (kind, engine) in [("base64", &STANDARD_NO_PAD), ("base64url", &URL_SAFE_NO_PAD)] {
            let text = engine.encode(&bytes);
            // The first characters hold bits of what is before; the last one may hold bits of what follows.
            let start = (offset * 8).div_ceil(6);
            let end = if bytes.len() % 3 == 0 { text.len() } else { text.len() - 1 };
            all.push((kind, text[start..end].to_owned()));
            if offset == 0 {
                all.push((kind, text));
            }
        }
    }
    let json = serde_json::Value::from(value).to_string();
    let json = &json[1..json.len() - 1];
    let unit = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
        Ok(_) | Err(_) => format!("\\u{unit:04x}"),
    };
    all.push(("json", json.encode_utf16().map(unit).collect()));
    all.push(("json", json.to_owned()));
    all.retain(|(_, text)| text.len() >= SHORTEST);
    all
}

/// Percent-encodes all but letters, digits and these characters.
fn percent_encoded(value: &str, plain: &str) -> String {
    let encoded = |byte: u8| match char::from(byte) {
        c if c.is_ascii_alphanumeric() || plain.contains(c) && byte.is_ascii() => c.to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(encoded).collect()
}

/// Writes the escapes of a percent-encoded text with small letters, as some libraries do.
fn lower_case_escapes(encoded: &str) -> String {
    let mut left = 0;
    let lower = |c: char| {
        left = if c == '%' { 2 } else { left - usize::from(left > 0) };
        c.to_ascii_lowercase()
    };
    encoded.chars().map(lower).collect()
}

/// Breaks a text of ASCII into lines.
pub(super) fn in_lines(text: &str, width: usize) -> String {
    text.as_bytes().chunks(width).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n")
}

/// Returns the secrets that a variable holds, with its name: its value, if the name says so, or the values of the headers
/// that it lists (`OTEL_EXPORTER_OTLP_HEADERS`: `name=value,name=value`).
pub(super) fn secrets_in<'n>(name: &'n String, value: &str) -> Vec<(&'n String, String)> {
    let upper = name.to_uppercase();
    let mut found = Vec::new();
    if SECRET_WORDS.iter().any(|word| upper.contains(word)) {
        found.push(value.trim().to_owned());
    }
    if upper.ends_with("HEADERS") {
        for header in value.split([',', '\n']) {
            let written = header.split_once(['=', ':']).map_or(header, |(_, value)| value).trim();
            let decoded = url::form_urlencoded::parse(format!("v={}", written.replace('+', "%2B")).as_bytes())
                .next()
                .map_or_else(String::new, |(_, value)| value.trim().to_owned());
            // The key alone, without `Bearer`, is how a file would hold it.
            let key = decoded.split_whitespace().next_back().unwrap_or_default().to_owned();
            found.extend([written.to_owned(), decoded, key]);
        }
        found.dedup();
    }
    found.into_iter().filter(|secret| may_be_secret(secret)).map(|secret| (name, secret)).collect()
}

fn may_be_secret(value: &str) -> bool {
    value.len() >= SHORTEST
        // A path or a number is where a secret is, or how large; not one itself.
        && !value.starts_with('/')
        && !value.bytes().all(|byte| byte.is_ascii_digit())
        // One of our own placeholders would be put back into itself.
        && !value.contains("[redacted:")
}
