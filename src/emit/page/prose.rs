//! Shows Markdown that others wrote: headings, emphasis, code, lists. Links, images and HTML stay text.

use maud::{Markup, html};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::emit::safe::escape;

/// Elements within elements; of what is deeper, only the text stays.
const DEEPEST: usize = 12;

/// Shows a text.
pub(super) fn prose(text: &str) -> Markup {
    let text = escape(text);
    Prose { events: Parser::new(&text) }.until(None, 0)
}

/// Shows a line in which code stands between backticks.
pub(super) fn inline(text: &str) -> Markup {
    let text = escape(text);
    let pieces: Vec<&str> = text.split('`').collect();
    let is_code = |at: usize| at % 2 == 1 && at + 1 < pieces.len();
    html! {
        @for (at, piece) in pieces.iter().enumerate() {
            @if is_code(at) { code { (piece) } }
            @else if at % 2 == 1 { "`" (piece) }
            @else { (piece) }
        }
    }
}

struct Prose<'a> {
    events: Parser<'a>,
}

impl Prose<'_> {
    /// Shows what stands before the end of an element.
    fn until(&mut self, end: Option<TagEnd>, depth: usize) -> Markup {
        let mut parts = Vec::new();
        // Elements that are left out, because they are too deep.
        let mut left_out = 0_usize;
        while let Some(event) = self.events.next() {
            parts.push(match event {
                Event::Start(_) if depth >= DEEPEST => {
                    left_out += 1;
                    continue;
                }
                Event::End(_) if left_out > 0 => {
                    left_out -= 1;
                    continue;
                }
                Event::End(tag) if Some(tag) == end => break,
                Event::End(_) => continue,
                Event::Start(tag) => self.element(&tag, depth),
                Event::Text(text) | Event::InlineMath(text) | Event::DisplayMath(text) => html! { (text.as_ref()) },
                Event::Html(text) | Event::InlineHtml(text) => html! { (text.as_ref()) },
                Event::Code(text) => html! { code { (text.as_ref()) } },
                // Lines that a model broke stay broken: it means tables and lists of its own by that.
                Event::SoftBreak | Event::HardBreak => html! { br; },
                Event::Rule => html! { hr; },
                Event::FootnoteReference(name) => html! { "[^" (name.as_ref()) "]" },
                Event::TaskListMarker(done) => html! { (if done { "[x] " } else { "[ ] " }) },
            });
        }
        html! { @for part in &parts { (part) } }
    }

    fn element(&mut self, tag: &Tag<'_>, depth: usize) -> Markup {
        let inner = self.until(Some(tag.to_end()), depth + 1);
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => html! { p { (inner) } },
            Tag::Heading { .. } => html! { p { b { (inner) } } },
            Tag::BlockQuote(_) => html! { blockquote { (inner) } },
            Tag::CodeBlock(_) => html! { pre { code { (inner) } } },
            Tag::List(Some(_)) => html! { ol { (inner) } },
            Tag::List(None) => html! { ul { (inner) } },
            Tag::Item => html! { li { (inner) } },
            Tag::Emphasis => html! { em { (inner) } },
            Tag::Strong => html! { b { (inner) } },
            Tag::Link { dest_url, .. } => html! { (inner) " (" (dest_url.as_ref()) ")" },
            Tag::Image { dest_url, .. } => html! { "[image " (dest_url.as_ref()) "] " (inner) },
            _ => inner,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_elements_without_attributes() {
        insta::assert_snapshot!(prose("# Done\n\n**60 s** now, `a<b`.\n\n- one\n- two\n\n```rust\nlet a = \"<\";\n```\n> q").into_string(), @r#"<p><b>Done</b></p><p><b>60 s</b> now, <code>a&lt;b</code>.</p><ul><li>one</li><li>two</li></ul><pre><code>let a = &quot;&lt;&quot;;
</code></pre><blockquote><p>q</p></blockquote>"#);
    }

    #[test]
    fn links_images_and_html_stay_text() {
        insta::assert_snapshot!(prose("[here](javascript:x) ![alt](http://e.example/p.png) <b onclick=x>\n\n<script>\nx\n</script>").into_string(), @r"<p>here (javascript:x) [image http://e.example/p.png] alt &lt;b onclick=x&gt;</p><p>&lt;script&gt;
x
&lt;/script&gt;</p>");
    }

    #[test]
    fn code_stands_between_backticks_and_one_alone_is_itself() {
        assert_eq!(inline("use `pip` here").into_string(), "use <code>pip</code> here");
        assert_eq!(inline("don`t").into_string(), "don`t");
    }

    #[test]
    fn deep_nesting_ends() {
        let shown = prose(&"> ".repeat(20_000)).into_string();
        assert!(shown.matches("<blockquote>").count() <= DEEPEST);
        assert!(!prose(&"*a ".repeat(5_000)).into_string().is_empty());
    }
}
