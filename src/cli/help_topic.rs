//! Defines `qwen help`, and contains the manual that it shows.

use clap::Args;

use crate::bounded;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Examples:
  qwen help --list
  qwen help policy";

/// The pages, packed by the build script.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/manual.deflate"));

/// The flags of `help`.
#[derive(Debug, Clone, Args)]
pub struct HelpArgs {
    /// Page or command to show
    #[arg(value_name = "TOPIC")]
    pub words: Vec<String>,
    /// List the pages
    #[arg(long, conflicts_with = "words")]
    pub list: bool,
}

/// One page of the manual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The name that finds it.
    pub topic: String,
    /// Its Markdown.
    pub text: String,
}

impl Page {
    /// Returns its heading.
    pub fn title(&self) -> &str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }
}

/// Unpacks the manual; the pages are in the order of their topics.
pub fn manual() -> Vec<Page> {
    let unpacked = bounded::to_the_end(flate2::read::DeflateDecoder::new(PACKED), bounded::PRODUCT);
    let text = String::from_utf8_lossy(&unpacked.expect("the build script packed it")).into_owned();
    let pages = text.split('\u{1e}').filter_map(|page| page.split_once('\n'));
    pages.map(|(topic, text)| Page { topic: topic.to_owned(), text: text.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_is_small_and_each_page_has_a_title() {
        assert!(PACKED.len() <= 80_000, "{} bytes", PACKED.len());
        let pages = manual();
        for topic in ["apply", "exit-codes", "glossary", "policy", "troubleshooting"] {
            assert!(pages.iter().any(|page| page.topic == topic), "{topic}");
        }
        assert!(pages.iter().all(|page| page.text.starts_with("# ")), "a page begins with its title");
    }

    #[test]
    fn the_policy_page_explains_each_rule_that_a_result_may_name() {
        let pages = manual();
        let policy = pages.iter().find(|page| page.topic == "policy").expect("there is such a page");
        for (rule, sentence) in crate::policy::explain::BUILT_IN {
            let row = format!("| {rule} | {sentence} |");
            assert!(policy.text.contains(&row), "docs/reference/policy.md lacks: {row}");
        }
    }
}
