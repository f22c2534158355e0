//! Tests that the manual is whole: its pages are listed, its links lead somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Parser, Tag};

use crate::support::Project;

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Collects the files below a directory that end so.
fn collect(directory: &Path, extension: &str, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, extension, found);
        } else if path.extension().is_some_and(|end| end == extension) {
            found.insert(path);
        }
    }
}

/// Returns the pages of the manual, relative to `docs/`.
fn pages() -> BTreeSet<PathBuf> {
    let (docs, mut found) = (package().join("docs"), BTreeSet::new());
    collect(&docs, "md", &mut found);
    found.iter().map(|page| page.strip_prefix(&docs).unwrap().to_path_buf()).collect()
}

/// Returns the destinations of a page's links and pictures.
fn links(text: &str) -> Vec<String> {
    let of = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    };
    Parser::new_ext(text, pulldown_cmark::Options::ENABLE_TABLES).filter_map(of).collect()
}

/// Returns the anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

/// Says what is wrong with a link of a page; `None`: it leads somewhere.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_path_buf() } else { page.parent().unwrap().join(file) };
    let has_anchor = || anchors(&std::fs::read_to_string(&target).unwrap()).iter().any(|known| known == anchor);
    (!target.exists() || (!anchor.is_empty() && !has_anchor())).then(|| format!("{}: {link}", page.display()))
}

#[test]
fn every_link_leads_to_a_page_and_a_heading_that_exist() {
    let manual = pages().into_iter().map(|page| package().join("docs").join(page));
    let guides = ["README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md", ".github/RELEASING.md"];
    let mut problems = Vec::new();
    for page in manual.chain(guides.map(|page| package().join(page))) {
        let text = std::fs::read_to_string(&page).unwrap();
        problems.extend(links(&text).iter().filter_map(|link| broken(&page, link)));
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(broken(&package().join("README.md"), "docs/README.md#not-there").is_some());
}

#[test]
fn the_summary_lists_every_page_once() {
    let listed = links(&std::fs::read_to_string(package().join("docs/SUMMARY.md")).unwrap());
    let known: BTreeSet<PathBuf> = listed.iter().map(PathBuf::from).collect();
    assert_eq!(listed.len(), known.len(), "a page is listed twice");
    let there: BTreeSet<PathBuf> = pages().into_iter().filter(|page| page != Path::new("SUMMARY.md")).collect();
    assert_eq!(known, there);
}

#[test]
fn help_shows_a_page_and_says_what_to_do_where_there_is_none() {
    let project = Project::new();
    let shown = |arguments: &[&str]| {
        let outcome = project.qwen(&[&["help"], arguments].concat());
        (outcome.code, outcome.stdout + &outcome.stderr)
    };
    let list = shown(&["--list"]);
    assert!(
        list.0 == 0 && list.1.lines().any(|row| row.starts_with("policy ") && row.ends_with(" Policy files")),
        "{list:?}"
    );
    let listed: BTreeSet<PathBuf> =
        list.1.lines().map_while(|line| line.split_once("  ").map(|(topic, _)| topic.trim().into())).collect();
    let is_packed = |page: &&PathBuf| {
        ["explain", "how-to", "reference"].iter().any(|part| page.starts_with(part)) || page.ends_with("glossary.md")
    };
    let left_out = ["reference/cli.md", "reference/result.md", "explain/figures.md"].map(PathBuf::from);
    let of_docs = pages().into_iter().filter(|page| !left_out.contains(page));
    let of_docs: BTreeSet<PathBuf> =
        of_docs.filter(|page| is_packed(&page)).map(|page| page.file_stem().unwrap().into()).collect();
    assert_eq!(listed, of_docs);
    let page = std::fs::read_to_string(package().join("docs/reference/policy.md")).unwrap();
    assert_eq!(shown(&["policy"]), (0, page));
    let command = shown(&["run"]);
    assert!(command.0 == 0 && command.1.contains("Usage: qwen run"), "{command:?}");
    let unknown = shown(&[concat!("pol", "cy")]);
    assert!(unknown.0 == 2 && unknown.1.contains("try `qwen help policy`"), "{unknown:?}");
    let prompt = shown(&["me", "fix", "it"]);
    assert!(prompt.0 == 2 && prompt.1.contains("qwen run 'help me fix it'"), "{prompt:?}");
}

#[test]
fn no_message_sends_a_reader_to_a_file_of_the_manual() {
    let cited = regex::Regex::new(r"docs/(explain|how-to|reference|tutorial)/").unwrap();
    let mut sources = BTreeSet::new();
    collect(&package().join("src"), "rs", &mut sources);
    let mut problems = Vec::new();
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
        // The comments of the command line are its help.
        let is_help = path.starts_with(package().join("src/cli"));
        let is_shown = |line: &&str| is_help || !(line.trim_start().starts_with("//") || line.contains("reason ="));
        let code = before_tests.lines().filter(is_shown);
        problems.extend(code.filter(|line| cited.is_match(line)).map(|line| format!("{}: {line}", path.display())));
    }
    assert!(problems.is_empty(), "{problems:#?}");
}
