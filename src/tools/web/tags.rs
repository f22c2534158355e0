//! Measures HTML without a parser, and extracts its text where a parser would be too expensive.

/// Elements that have no end, or whose end is often left out.
const OPEN_ENDED: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "p", "li",
    "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "colgroup", "path", "use", "circle", "rect",
];

/// Elements whose contents are no text.
const NO_TEXT: &[&str] = &["script", "style", "noscript", "svg", "template", "iframe"];

/// Elements that are on lines of their own.
const BLOCKS: &[&str] = &[
    "p",
    "div",
    "br",
    "li",
    "ul",
    "ol",
    "tr",
    "table",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "section",
    "article",
    "pre",
    "blockquote",
    "header",
    "footer",
    "main",
    "nav",
    "title",
    "dt",
    "dd",
    "hr",
];

/// How many tags a text holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tags {
    /// Start tags.
    pub starts: usize,
    /// Start tags without an end tag, as far as counting tells.
    pub unclosed: usize,
}

/// Counts tags. What is in attributes, comments and scripts is counted as well: it is an estimate.
pub fn count(html: &str) -> Tags {
    let (mut starts, mut open, mut closed) = (0, 0_usize, 0);
    for (at, _) in html.match_indices('<') {
        let rest = &html[at + 1..];
        if let Some(end) = rest.strip_prefix('/') {
            closed += usize::from(!is_one_of(name(end), OPEN_ENDED));
        } else if rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            starts += 1;
            open += usize::from(!is_one_of(name(rest), OPEN_ENDED));
        }
    }
    Tags { starts, unclosed: open.saturating_sub(closed) }
}

/// Returns the text between the tags, one line per block, in linear time for any input.
pub fn strip(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let after = match rest.strip_prefix("<!--") {
            Some(comment) => comment.find("-->").map(|end| &comment[end + 3..]),
            None => rest.find('>').map(|end| &rest[end + 1..]),
        };
        let tag = name(rest[1..].trim_start_matches('/'));
        if tag.is_empty() && !rest.starts_with("<!") && !rest.starts_with("</") && !rest.starts_with("<?") {
            // `a < b` is not a tag.
            text.push('<');
            rest = &rest[1..];
            continue;
        }
        let Some(mut after) = after else { break };
        if is_one_of(tag, NO_TEXT) && !rest.starts_with("</") {
            after = end_of(after, tag).unwrap_or("");
        }
        if is_one_of(tag, BLOCKS) && !text.ends_with('\n') {
            text.push('\n');
        }
        rest = after;
    }
    text.push_str(rest.split('<').next().unwrap_or_default());
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    entities(&lines.join("\n"))
}

/// Returns what follows the end tag of an element.
fn end_of<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(at) = text[from..].find("</") {
        let rest = &text[from + at + 2..];
        if name(rest).eq_ignore_ascii_case(tag) {
            return rest.find('>').map(|end| &rest[end + 1..]);
        }
        from += at + 2;
    }
    None
}

fn name(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len())]
}

fn is_one_of(name: &str, list: &[&str]) -> bool {
    list.iter().any(|one| one.eq_ignore_ascii_case(name))
}

fn entities(text: &str) -> String {
    let known = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")];
    known.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags_are_counted() {
        assert_eq!(count("<div><p>a<p>b<br></div>"), Tags { starts: 4, unclosed: 0 });
        assert_eq!(count(&"<b>".repeat(7)), Tags { starts: 7, unclosed: 7 });
        assert_eq!(count("1 < 2"), Tags::default());
    }

    #[test]
    fn only_text_is_left() {
        let html =
            "<title>T</title><script>if (a < b) {}</script><p>one &lt; two</p><!-- <p>no -->1 < 2<SVG><a>x</a></svg>";
        assert_eq!(strip(html), "T\none < two\n1 < 2");
        assert_eq!(strip("a<"), "a<");
        assert_eq!(strip("a<b"), "a");
    }

    proptest! {
        #[test]
        fn any_text_can_be_stripped(text in "[<>/!a-cé \n-]{0,60}|(<script|</|<!--|-->|<b>|é){0,10}") {
            let _ = (strip(&text), count(&text));
        }
    }
}
