//! Converts a fetched body to text for a model.

use std::time::Duration;

use super::fetch::Fetched;
use super::tags;
use crate::change::text::Decoded;

/// How a page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// HTML as Markdown, other text as it is.
    Auto,
    /// As `Auto`.
    Markdown,
    /// Without markup.
    Text,
    /// As it came.
    Html,
}

/// A page as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The text.
    pub text: String,
    /// What was done to it, for the model: `text/html as markdown`.
    pub about: String,
}

/// Maximum start tags of a page that is always parsed: the parser's work may grow with their square.
const FEW_TAGS: usize = 20_000;

/// Tags left open of a larger page that a parser is still let at.
const OPEN_TAGS: usize = 2_000;

/// Nesting that the conversion, which calls itself for each level, is let at.
const DEPTH: usize = 500;

/// Its stack: several times what that nesting needs.
const STACK: usize = 64 << 20;

/// What the conversion of a page may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Turns a body into text; `Err` says what else it is.
pub async fn page(fetched: Fetched, format: Format) -> Result<Page, String> {
    let media_type = media_type(&fetched);
    let text = decode(&fetched, &media_type)
        .ok_or_else(|| format!("{} is not text: {media_type}, {} bytes", fetched.url, fetched.body.len()))?;
    let is_html = matches!(media_type.as_str(), "text/html" | "application/xhtml+xml");
    match (format, is_html) {
        (Format::Html, _) | (_, false) => Ok(Page { text, about: media_type }),
        (Format::Text, true) => Ok(Page { text: tags::strip(&text), about: format!("{media_type} as text") }),
        (Format::Auto | Format::Markdown, true) => Ok(match markdown(text).await {
            Ok(text) => Page { text, about: format!("{media_type} as markdown") },
            Err(text) => Page { text, about: format!("{media_type}, nested too deeply, as text") },
        }),
    }
}

/// The type without parameters; where none is sent, what the bytes look like.
fn media_type(fetched: &Fetched) -> String {
    let sent = fetched.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !sent.is_empty() && sent != "application/octet-stream" {
        return sent;
    }
    let body = fetched.body.trim_ascii_start();
    let begins = |with: &[u8]| body.len() >= with.len() && body[..with.len()].eq_ignore_ascii_case(with);
    if begins(b"<!doctype html") || begins(b"<html") { "text/html".into() } else { "text/plain".into() }
}

/// Reads the bytes by BOM, by what the server says, by what the page says, and by what they look like, in this order.
fn decode(fetched: &Fetched, media_type: &str) -> Option<String> {
    let text_like = media_type.starts_with("text/")
        || ["json", "xml", "javascript", "yaml", "toml", "x-sh", "markdown", "x-ndjson", "sql"]
            .iter()
            .any(|kind| media_type.ends_with(kind));
    if !text_like {
        return None;
    }
    let bytes = &fetched.body[..];
    if let Some((encoding, _)) = encoding_rs::Encoding::for_bom(bytes) {
        return Some(encoding.decode(bytes).0.into_owned());
    }
    let label = charset(&fetched.content_type).or_else(|| {
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).into_owned();
        head.find("<meta").and_then(|at| charset(&head[at..]))
    });
    let named = label.and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()));
    // A wrong label is common: what is UTF-8 to the last byte is nothing else.
    if let Ok(text) = std::str::from_utf8(bytes) {
        let is_ascii_compatible = named.is_none_or(encoding_rs::Encoding::is_ascii_compatible);
        if is_ascii_compatible && !text.contains('\0') {
            return Some(text.to_owned());
        }
    }
    match named {
        Some(encoding) if encoding != encoding_rs::UTF_8 => Some(encoding.decode(bytes).0.into_owned()),
        Some(_) | None => match Decoded::from_bytes(bytes) {
            Some(decoded) => Some(decoded.text),
            // Text by the server's word with a damaged or cut character somewhere.
            None if !bytes.contains(&0) => Some(String::from_utf8_lossy(bytes).into_owned()),
            None => None,
        },
    }
}

/// Returns the value of `charset=`.
fn charset(text: &str) -> Option<String> {
    let at = text.to_ascii_lowercase().find("charset=")? + "charset=".len();
    let value = text[at..].trim_start_matches(['"', '\'']);
    let end = value.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.+".contains(c))).unwrap_or(value.len());
    (end > 0).then(|| value[..end].to_owned())
}

/// Converts HTML; `Err` is its mere text, where it is too deep or too slow to convert.
async fn markdown(html: String) -> Result<String, String> {
    let tags = tags::count(&html);
    if tags.starts > FEW_TAGS && tags.unclosed > OPEN_TAGS {
        return Err(tags::strip(&html));
    }
    let (send, receive) = tokio::sync::oneshot::channel();
    let text = html.clone();
    // A thread of its own: the parser may be slow, and the conversion may panic.
    let started = std::thread::Builder::new().name("html".into()).stack_size(STACK).spawn(move || {
        let _ = send.send(convert(&text));
    });
    let converted = match started {
        Ok(_) => tokio::time::timeout(PATIENCE, receive).await.ok().and_then(Result::ok).flatten(),
        Err(_) => None,
    };
    converted.ok_or_else(|| tags::strip(&html))
}

fn convert(html: &str) -> Option<String> {
    let converter = htmd::HtmlToMarkdown::builder()
        .skip_tags(vec!["script", "style", "noscript", "svg", "template", "iframe", "head"])
        .build();
    let tree = converter.html_to_tree(html).ok()?;
    let mut level = vec![std::rc::Rc::clone(&tree)];
    for _ in 0..DEPTH {
        level = level.iter().flat_map(|node| node.children.borrow().clone()).collect();
        if level.is_empty() {
            return Some(converter.tree_to_markdown(&tree));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(content_type: &str, body: &[u8]) -> Result<String, String> {
        let url = url::Url::parse("https://a.test/").unwrap();
        let fetched = Fetched { url, content_type: content_type.into(), body: body.to_vec(), cut: false };
        page(fetched, Format::Auto).await.map(|page| page.text)
    }

    #[tokio::test]
    async fn html_becomes_markdown() {
        let html =
            b"<!doctype html><head><title>T</title></head><h1>A</h1><script>x()</script><p>b <a href=\"/c\">c</a>";
        assert_eq!(text("", html).await.unwrap(), "# A\n\nb [c](/c)");
        assert_eq!(text("application/json", b"{}").await.unwrap(), "{}");
        assert!(text("application/pdf", b"%PDF").await.unwrap_err().contains("is not text: application/pdf, 4 bytes"));
    }

    #[tokio::test]
    async fn a_page_is_read_in_its_own_letters_and_a_wrong_label_does_no_harm() {
        let latin = b"gr\xfc\xdfe".as_slice();
        assert_eq!(text("text/plain; charset=ISO-8859-1", latin).await.unwrap(), "grüße");
        assert_eq!(text("text/html", b"<meta charset='windows-1252'><p>gr\xfc\xdfe").await.unwrap(), "grüße");
        assert_eq!(text("text/plain; charset=latin1", "grüße".as_bytes()).await.unwrap(), "grüße");
        assert_eq!(text("text/plain; charset=utf-8", latin).await.unwrap().chars().count(), 5);
        assert_eq!(text("text/plain; charset=nonsense", "é".as_bytes()).await.unwrap(), "é");
        assert_eq!(text("text/plain", b"\xff\xfeh\0i\0").await.unwrap(), "hi");
        assert_eq!(text("text/plain; charset=shift_jis", b"\x83\x65\x83\x58\x83\x67").await.unwrap(), "テスト");
    }

    #[tokio::test]
    async fn what_is_nested_too_deeply_is_text() {
        for html in
            ["<div>".repeat(20_000) + "x", "<div title='</div>'>".repeat(2_000) + "x", "<div>".repeat(499) + "x"]
        {
            assert!(text("text/html", html.as_bytes()).await.unwrap().ends_with('x'));
        }
    }
}
