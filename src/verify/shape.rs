//! Checks documents: the structure of a translation, and a new section of a changelog.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

/// What a translation must keep.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    headings: Vec<usize>,
    links: Vec<String>,
    blocks: Vec<String>,
    keys: Vec<String>,
}

/// Returns how a page differs in shape from its source: headings, links, code blocks, keys of the front matter.
pub fn differences(source: &str, target: &str) -> Vec<String> {
    let (source, target) = (shape(source), shape(target));
    let mut found = Vec::new();
    if source.headings != target.headings {
        let at = source.headings.iter().zip(&target.headings).position(|(a, b)| a != b);
        let at = at.unwrap_or_else(|| source.headings.len().min(target.headings.len())) + 1;
        found.push(format!(
            "headings differ from number {at} on: the source has {}, the page has {}",
            levels(&source.headings),
            levels(&target.headings)
        ));
    }
    for (what, source, target) in
        [("link", &source.links, &target.links), ("front matter key", &source.keys, &target.keys)]
    {
        let (mut gone, mut more) = (source.clone(), target.clone());
        gone.retain(|item| !take(&mut more, item));
        found.extend(gone.iter().map(|item| format!("the {what} `{item}` is missing")));
        found.extend(more.iter().map(|item| format!("the {what} `{item}` is not in the source")));
    }
    if source.blocks.len() != target.blocks.len() {
        found.push(format!("the source has {} code blocks, the page has {}", source.blocks.len(), target.blocks.len()));
    } else if let Some(at) = source.blocks.iter().zip(&target.blocks).position(|(a, b)| a != b) {
        found.push(format!("code block {} differs from the source", at + 1));
    }
    found
}

fn take(list: &mut Vec<String>, item: &str) -> bool {
    let at = list.iter().position(|known| known == item);
    at.map(|at| list.remove(at)).is_some()
}

fn levels(headings: &[usize]) -> String {
    if headings.is_empty() {
        return "none".to_owned();
    }
    headings.iter().map(|level| format!("h{level}")).collect::<Vec<_>>().join(" ")
}

fn shape(text: &str) -> Shape {
    static LINK: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\]\(\s*<?([^)\s>]+)|^\s*\[[^\]]+\]:\s*(\S+)|<(https?://[^>\s]+)>").expect("the pattern is fixed")
    });
    let mut shape = Shape::default();
    let mut lines = text.lines().peekable();
    if lines.peek() == Some(&"---") {
        lines.next();
        for line in lines.by_ref().take_while(|line| *line != "---") {
            if let Some((key, _)) = line.split_once(':').filter(|(key, _)| !key.starts_with([' ', '#', '-'])) {
                shape.keys.push(key.to_owned());
            }
        }
    }
    let mut fence: Option<(String, String)> = None;
    for line in lines {
        let start = line.trim_start();
        if let Some((mark, block)) = &mut fence {
            if start.starts_with(mark.as_str()) && start.trim_end().chars().all(|c| mark.starts_with(c)) {
                shape.blocks.push(std::mem::take(block));
                fence = None;
            } else {
                block.push_str(line);
                block.push('\n');
            }
            continue;
        }
        if start.starts_with("```") || start.starts_with("~~~") {
            let mark = start.chars().next().unwrap_or('`');
            let length = start.chars().take_while(|c| *c == mark).count();
            fence = Some((mark.to_string().repeat(length), format!("{}\n", start[length..].trim())));
            continue;
        }
        let level = start.chars().take_while(|c| *c == '#').count();
        if (1..=6).contains(&level) && start[level..].starts_with([' ', '\t']) {
            shape.headings.push(level);
        }
        for found in LINK.captures_iter(line) {
            if let Some(target) = found.iter().skip(1).flatten().next() {
                shape.links.push(target.as_str().to_owned());
            }
        }
    }
    if let Some((_, block)) = fence {
        shape.blocks.push(block);
    }
    shape
}

/// Returns what is wrong with a new section of a changelog: it is there, no old line is gone, each entry names a
/// commit, and each commit is one of `commits` (full hashes).
pub fn changelog(before: &str, after: &str, heading: &str, commits: &[String]) -> Vec<String> {
    static HASH: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[\[(`]([0-9a-f]{7,40})[\])`]").expect("the pattern is fixed"));
    let mut found = Vec::new();
    let mut rest = after.lines().map(str::trim_end);
    for line in before.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()) {
        if !rest.any(|kept| kept == line) {
            found.push(format!("an old line was removed or moved: `{line}`"));
            break;
        }
    }
    let old: BTreeSet<&str> = before.lines().map(str::trim_end).collect();
    let is_heading = |line: &str| line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
    let named = |line: &str| {
        let title = line.trim_start_matches('#').trim().trim_start_matches('[');
        title.strip_prefix(heading).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '.'))
    };
    let mut section = after.lines().skip_while(|line| !(is_heading(line) && named(line)));
    let Some(first) = section.next() else {
        found.push(format!("the heading `{heading}` is missing"));
        return found;
    };
    let level = first.chars().take_while(|c| *c == '#').count();
    let mut entries = 0;
    for line in section {
        if is_heading(line) && line.chars().take_while(|c| *c == '#').count() <= level {
            break;
        }
        let is_entry = line.trim_start().starts_with(['-', '*', '+']) && !old.contains(line.trim_end());
        let hashes: Vec<&str> = HASH.captures_iter(line).filter_map(|found| Some(found.get(1)?.as_str())).collect();
        for hash in &hashes {
            if !commits.iter().any(|commit| commit.starts_with(hash)) {
                found.push(format!("the commit {hash} is not in the range"));
            }
        }
        if is_entry {
            entries += 1;
            if hashes.is_empty() {
                found.push(format!("an entry names no commit in brackets: `{}`", line.trim()));
            }
        }
    }
    if entries == 0 {
        found.push(format!("the section `{heading}` has no entry"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "---\ntitle: x\n---\n# A\n\nSee [b](b.md).\n\n## C\n\n```sh\nls # not a heading\n```\n";

    #[test]
    fn a_translation_keeps_headings_links_and_blocks() {
        let good = "---\ntitle: y\n---\n# Ah\n\nSiehe [be](b.md).\n\n## Ce\n\n```sh\nls # not a heading\n```\n";
        assert_eq!(differences(PAGE, good), [] as [&str; 0]);
        let bad = "# A\n\n[b](c.md)\n\n```sh\nls -l\n```\n";
        insta::assert_snapshot!(differences(PAGE, bad).join("\n"), @r"
        headings differ from number 2 on: the source has h1 h2, the page has h1
        the link `b.md` is missing
        the link `c.md` is not in the source
        the front matter key `title` is missing
        code block 1 differs from the source
        ");
    }

    #[test]
    fn a_new_section_names_commits_of_the_range_and_keeps_the_old_ones() {
        let before = "# Changelog\n\n## 1.0\n\n- First [aaaaaaa]\n";
        let commits = ["bbbbbbb1234".to_owned()];
        let good = "# Changelog\n\n## 1.1 (today)\n\n- Second [bbbbbbb]\n\n## 1.0\n\n- First [aaaaaaa]\n";
        assert_eq!(changelog(before, good, "1.1", &commits), [] as [&str; 0]);
        let bad = "# Changelog\n\n## 1.1\n\n- Second [ccccccc]\n- Third\n\n## 1.0\n";
        insta::assert_snapshot!(changelog(before, bad, "1.1", &commits).join("\n"), @r"
        an old line was removed or moved: `- First [aaaaaaa]`
        the commit ccccccc is not in the range
        an entry names no commit in brackets: `- Third`
        ");
        assert_eq!(changelog(before, before, "1.1", &commits), ["the heading `1.1` is missing"]);
    }
}
