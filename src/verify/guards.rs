//! Checks guards: rules that judge the change itself, so that a check cannot be passed by silencing it.
//!
//! They see what was staged: a rename is a deletion and an addition, and a link counts by where it leads.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use regex::Regex;

pub use super::violation::Violation;
use super::{comments, presets};
use crate::change::diff::{LineDiff, is_binary, text_of};
use crate::change::{Change, ChangeSet, Entry, Kind};
use crate::path::RelPath;
use crate::recipe::file::{Guards as GuardsFile, Needs, Preset, Text};

/// The rules, ready to judge.
#[derive(Debug, Clone, Default)]
pub struct Guards {
    only: Option<GlobSet>,
    never: Option<GlobSet>,
    max_files: Option<usize>,
    max_lines: Option<usize>,
    no_delete: bool,
    comments_only: bool,
    forbid_added: Vec<(Regex, String)>,
    forbid_removed: Vec<(Regex, String)>,
    presets: Vec<Preset>,
    needs: Option<ByKind>,
}

/// What a recipe may write, make and delete.
#[derive(Debug, Clone)]
struct ByKind {
    write: GlobSet,
    create: GlobSet,
    delete: GlobSet,
}

impl Guards {
    /// Compiles the rules of a recipe that was checked. `needs` bounds which files may be written, made and deleted.
    pub fn new(file: Option<&GuardsFile>, needs: Option<&Needs>) -> Guards {
        let none = GuardsFile::default();
        let file = file.unwrap_or(&none);
        let rules = |rules: &Option<Vec<crate::recipe::file::Forbidden>>| {
            let rules = rules.iter().flatten();
            rules.filter_map(|rule| Some((Regex::new(&rule.pattern.value).ok()?, rule.why.value.clone()))).collect()
        };
        let texts = |list: &Option<Vec<Text>>| list.clone().unwrap_or_default();
        Guards {
            only: file.only_paths.as_ref().map(|list| globs(list)),
            never: file.never_paths.as_ref().map(|list| globs(list)),
            max_files: file.max_files,
            max_lines: file.max_lines,
            no_delete: file.no_delete == Some(true),
            comments_only: file.comments_only == Some(true),
            forbid_added: rules(&file.forbid_added),
            forbid_removed: rules(&file.forbid_removed),
            presets: file.presets.clone().unwrap_or_default(),
            needs: needs.map(|needs| ByKind {
                write: globs(&[texts(&needs.write), texts(&needs.create)].concat()),
                create: globs(&texts(&needs.create)),
                delete: globs(&texts(&needs.delete)),
            }),
        }
    }

    /// Returns every rule that the change breaks. `is_finished` tells which files a command has changed that finishes a
    /// change, and nobody else: which files there may be, and how many, is not asked of them.
    pub fn judge(&self, changes: &ChangeSet, is_finished: &dyn Fn(&RelPath) -> bool) -> Vec<Violation> {
        let mut found = Vec::new();
        let (mut files, mut total) = (0, 0);
        for (path, change) in changes.iter() {
            let is_finished = is_finished(path);
            self.path(path, change, is_finished, &mut found);
            let lines = self.lines(path, change, &mut found);
            if !is_finished {
                files += 1;
                total += lines;
            }
        }
        found.extend(presets::judge(&self.presets, changes));
        if self.max_files.is_some_and(|most| files > most) {
            let message = format!("{files} files are changed; at most {} are allowed", self.max_files.unwrap_or(0));
            found.push(Violation { guard: "max_files", message });
        }
        if self.max_lines.is_some_and(|most| total > most) {
            let message = format!("{total} lines are changed; at most {} are allowed", self.max_lines.unwrap_or(0));
            found.push(Violation { guard: "max_lines", message });
        }
        found
    }

    fn path(&self, path: &RelPath, change: &Change, is_finished: bool, found: &mut Vec<Violation>) {
        let Some(kind) = change.kind() else { return };
        let shown = path.to_string();
        let mut broken = |guard: &'static str, message: String| found.push(Violation { guard, message });
        if self.only.as_ref().is_some_and(|only| !is_finished && !only.is_match(&shown)) {
            broken("only_paths", format!("{shown} is not allowed to change"));
        }
        if self.never.as_ref().is_some_and(|never| never.is_match(&shown)) {
            broken("never_paths", format!("{shown} is not allowed to change"));
        }
        if self.no_delete && kind == Kind::Deleted {
            broken("no_delete", format!("{shown} is deleted"));
        }
        if let Some(needs) = self.needs.as_ref().filter(|_| !is_finished) {
            let (globs, what) = match kind {
                Kind::Added => (&needs.create, "made"),
                Kind::Modified => (&needs.write, "changed"),
                Kind::Deleted => (&needs.delete, "deleted"),
            };
            if !globs.is_match(&shown) {
                broken("needs", format!("{shown} is {what}, which the recipe does not allow"));
            }
        }
        if let Entry::Link { target } = &change.after
            && leaves(path, target)
        {
            broken("links", format!("{shown} is a link that points outside the project"));
        }
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        if matches!(name.as_str(), ".gitattributes" | ".gitmodules") {
            broken("git_files", format!("{shown} changes how git works here"));
        }
        if self.comments_only {
            match comments::language(&shown) {
                None => broken("comments_only", format!("{shown}: comments are not supported in files of this kind")),
                Some(language) => {
                    let text = |entry| std::str::from_utf8(text_of(entry)).ok();
                    let texts = text(&change.before).zip(text(&change.after));
                    let is_file = matches!((&change.before, &change.after), (Entry::File { .. }, Entry::File { .. }));
                    let same = |(before, after)| comments::only_comments_differ(language, before, after);
                    if !is_file || !texts.is_some_and(same) {
                        broken("comments_only", format!("{shown}: changes other than comments"));
                    }
                }
            }
        }
    }

    /// Judges the lines of a change, and returns how many there are.
    fn lines(&self, path: &RelPath, change: &Change, found: &mut Vec<Violation>) -> usize {
        let (before, after) = (text_of(&change.before), text_of(&change.after));
        // A byte in a comment makes no picture of a program: its lines are judged, too.
        let is_text = |entry: &Entry, text: &[u8]| {
            *entry != Entry::Absent && (!is_binary(text) || std::str::from_utf8(text).is_ok())
        };
        let counts = is_text(&change.before, before) || is_text(&change.after, after);
        let diff = LineDiff::new(before, after);
        let (added, removed) = diff.changed();
        for (guard, what, rules, lines) in [
            ("forbid_added", "adds", &self.forbid_added, &added),
            ("forbid_removed", "removes", &self.forbid_removed, &removed),
        ] {
            for line in lines {
                let line = String::from_utf8_lossy(line);
                let line = line.trim_end_matches(['\n', '\r']);
                if let Some((_, why)) = rules.iter().find(|(rule, _)| rule.is_match(line)) {
                    let shown: String = line.trim().chars().take(120).collect();
                    found.push(Violation { guard, message: format!("{path} {what} `{shown}`: {why}") });
                }
            }
        }
        if counts { added.len() + removed.len() } else { 0 }
    }
}

/// Compiles globs that were checked.
pub fn globs(list: &[Text]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for text in list {
        if let Ok(glob) = GlobBuilder::new(text.value.trim_end_matches('/')).literal_separator(true).build() {
            set.add(glob);
        }
    }
    set.build().unwrap_or_default()
}

fn leaves(path: &RelPath, target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guards(yaml: &str) -> Guards {
        let text = format!("recipe: 1\n{yaml}\n");
        let file = crate::recipe::parse::parse("r", text.as_bytes()).unwrap();
        Guards::new(file.guards.as_ref(), file.needs.as_ref().and_then(Option::as_ref))
    }

    fn changes(files: &[(&str, Option<&str>, Option<&str>)]) -> ChangeSet {
        let entry = |text: Option<&str>| text.map_or(Entry::Absent, Entry::file);
        let mut set = ChangeSet::default();
        for (path, before, after) in files {
            set.stage(RelPath::new(path).unwrap(), || entry(*before), entry(*after));
        }
        set
    }

    fn broken(yaml: &str, files: &[(&str, Option<&str>, Option<&str>)]) -> Vec<String> {
        let found = guards(yaml).judge(&changes(files), &|_| false);
        found.iter().map(|violation| format!("{}: {}", violation.guard, violation.message)).collect()
    }

    #[test]
    fn a_silenced_lint_a_deleted_test_and_changed_settings_are_seen() {
        let rules = "guards: {never_paths: [clippy.toml], no_delete: true, max_files: 1, forbid_added: [{pattern: '#\\[allow', why: silences}], forbid_removed: [{pattern: '#\\[test\\]', why: tests stay}]}";
        let found = broken(
            rules,
            &[
                ("src/a.rs", Some("#[test]\nfn a() {}\n"), Some("#[allow(dead_code)]\nfn a() {}\n")),
                ("tests/a.rs", Some("x\n"), None),
                ("clippy.toml", Some(""), Some("x = 1\n")),
            ],
        );
        insta::assert_snapshot!(found.join("\n"), @r"
        never_paths: clippy.toml is not allowed to change
        forbid_added: src/a.rs adds `#[allow(dead_code)]`: silences
        forbid_removed: src/a.rs removes `#[test]`: tests stay
        no_delete: tests/a.rs is deleted
        max_files: 3 files are changed; at most 1 are allowed
        ");
    }

    #[test]
    fn what_was_not_asked_for_is_not_made_or_deleted() {
        let needs = "needs: {write: [src/**], create: [tests/**]}";
        assert_eq!(broken(needs, &[("src/a", Some("1"), Some("2")), ("tests/b", None, Some("2"))]), [] as [&str; 0]);
        assert_eq!(broken(needs, &[("src/new", None, Some("2"))]).len(), 1);
        assert_eq!(broken(needs, &[("src/old", Some("2"), None)]).len(), 1);
    }

    #[test]
    fn what_a_command_finished_is_not_counted_but_may_not_be_everything() {
        let rules =
            guards("guards: {only_paths: [src/**], never_paths: [b.lock], max_files: 1}\nneeds: {write: [src/**]}");
        let set =
            changes(&[("src/a", Some("1"), Some("2")), ("a.lock", Some("1"), Some("2")), ("b.lock", Some("1"), None)]);
        let found = |is_finished: &dyn Fn(&RelPath) -> bool| {
            rules.judge(&set, is_finished).iter().map(|violation| violation.guard).collect::<Vec<_>>()
        };
        assert_eq!(found(&|path| path.to_string().ends_with(".lock")), ["never_paths"]);
        assert_eq!(found(&|_| false), ["only_paths", "needs", "only_paths", "never_paths", "needs", "max_files"]);
    }

    #[test]
    fn a_link_may_not_leave_the_project() {
        let mut set = ChangeSet::default();
        for (path, target) in [("a/ok", "../b"), ("a/out", "../../b"), ("abs", "/etc/passwd")] {
            set.stage(RelPath::new(path).unwrap(), || Entry::Absent, Entry::Link { target: target.into() });
        }
        let found: Vec<String> =
            guards("").judge(&set, &|_| false).into_iter().map(|violation| violation.message).collect();
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
