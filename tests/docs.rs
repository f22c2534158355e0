//! Tests that the manual is whole: its pages are listed, its links lead somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Parser, Tag};

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the pages of the manual, relative to `docs/`.
fn pages() -> BTreeSet<PathBuf> {
    fn collect(directory: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.insert(path.strip_prefix(package().join("docs")).unwrap().to_path_buf());
            }
        }
    }
    let mut found = BTreeSet::new();
    collect(&package().join("docs"), &mut found);
    found
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
