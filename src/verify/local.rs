//! Finds problems of a change that no model is needed for, in files that a model must not see, too.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::findings::{Finding, Source};
use super::new_side::Shown;
use crate::base::digest::sha256;
use crate::hidden::is_ignorable;
use crate::policy::protected::{fold, secret_name};
use crate::policy::redact::{Kind, Secrets};
use crate::recipe::file::{Confidence, LocalRule, Severity};

/// Findings at most; more say nothing new.
const MOST: usize = 100;

/// Links that are followed; more go round in circles, or are meant to confuse.
const LINKS: usize = 40;

/// The mode of a link in git.
const LINK: &str = "120000";

/// The mode of a submodule in git.
const SUBMODULE: &str = "160000";

/// A file that a change touches, as `git diff --raw -z` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Relative to the repository, never quoted.
    pub path: Vec<u8>,
    /// Its mode before.
    pub before: String,
    /// Its mode after.
    pub after: String,
    /// The id of its contents: after the change, or before it where it is deleted; zeros for what git has no object of.
    pub id: String,
    /// The id of its contents before the change; zeros where it is new.
    pub base_id: String,
    /// `A`, `M`, `D` or `T`.
    pub status: char,
    /// Lines added and removed; `None` for a file that git does not compare by lines.
    pub lines: Option<(u64, u64)>,
}

impl Changed {
    /// Returns the mode of what is looked at: after the change, or before it where it is deleted.
    fn mode(&self) -> &str {
        if self.status == 'D' { &self.before } else { &self.after }
    }

    /// Tells whether it is a link.
    pub fn is_link(&self) -> bool {
        self.mode() == LINK
    }

    /// Tells whether it is a submodule.
    pub fn is_submodule(&self) -> bool {
        self.mode() == SUBMODULE
    }
}

/// Reads the output of `git diff --raw --numstat -z --no-renames`: names are never quoted there.
pub fn changed(listed: &[u8]) -> Vec<Changed> {
    let mut words = listed.split(|byte| *byte == 0);
    let (mut files, mut lines) = (Vec::new(), BTreeMap::new());
    while let Some(word) = words.next() {
        let Some(head) = word.strip_prefix(b":") else {
            lines.extend(numbers(word));
            continue;
        };
        let Some(path) = words.next() else { continue };
        let head = String::from_utf8_lossy(head);
        let fields: Vec<&str> = head.split(' ').collect();
        let [before, after, old, new, status] = fields[..] else { continue };
        let status = status.chars().next().unwrap_or('M');
        let id = if status == 'D' { old } else { new };
        let [before, after, id, base_id] = [before, after, id, old].map(str::to_owned);
        files.push(Changed { path: path.to_vec(), before, after, id, base_id, status, lines: None });
    }
    for file in &mut files {
        file.lines = lines.get(file.path.as_slice()).copied();
    }
    files
}

/// Reads `3<tab>1<tab>path`.
fn numbers(word: &[u8]) -> Option<(&[u8], (u64, u64))> {
    let mut fields = word.splitn(3, |byte| *byte == b'\t');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
    let lines = (number()?, number()?);
    Some((fields.next()?, lines))
}

/// What is looked for.
pub struct Rules<'a> {
    /// These.
    pub wanted: &'a [LocalRule],
    /// Knows secrets.
    pub secrets: &'a Secrets,
    /// Tells whether what looks like a secret in the file of this path is none, by the SHA-256 of its text.
    pub is_ignored: &'a dyn Fn(&str, &str) -> bool,
    /// Returns the target of the link at a path of the repository, as it is after the change.
    pub link_at: &'a dyn Fn(&str) -> Option<String>,
    /// Returns the whole text of a file after the change.
    pub text_of: &'a dyn Fn(&Changed) -> Option<String>,
}

/// Looks at one file of a change. `path` is relative to the workspace, `lines` are those that the change has of it.
pub fn problems(file: &Changed, path: &str, lines: Option<&Shown>, rules: &Rules<'_>) -> Vec<Finding> {
    if file.status == 'D' {
        return Vec::new();
    }
    let wants = |rule: LocalRule| rules.wanted.contains(&rule);
    let mut found = Vec::new();
    let mut add = |rule: &str, severity: Severity, line: u64, message: String| {
        found.push(Finding {
            rule_id: format!("qwen/{rule}"),
            severity,
            path: path.to_owned(),
            start_line: line,
            end_line: line,
            quote: String::new(),
            message,
            confidence: Confidence::High,
            suggestion: None,
            fingerprint: String::new(),
            source: Source::Local,
            dismissed: false,
        });
    };
    let added = || lines.into_iter().flatten().filter(|(_, (_, is_added))| *is_added);
    let full = String::from_utf8_lossy(&file.path);
    if let Some(name) = secret_name(&fold(&full)).filter(|_| wants(LocalRule::Denied)) {
        let text = format!("a file for secrets ({name}) is part of the change; no model looked at it");
        add("denied-file", Severity::Error, 1, text);
    }
    if wants(LocalRule::Secrets) {
        let in_name = secrets_of("the name has", (1, &full), path, rules);
        for (lines, message) in in_name.into_iter().chain(secrets(file, path, lines, rules)) {
            add("secret", Severity::Error, *lines.start(), message);
        }
    }
    if file.is_submodule() && wants(LocalRule::Submodules) {
        if file.before != SUBMODULE {
            let text = "a submodule is added: its code is not part of the review".to_owned();
            add("submodule", Severity::Warning, 1, text);
        }
    } else if file.is_link() && wants(LocalRule::Links) {
        let target = added().map(|(_, (text, _))| text).next();
        if let Some(target) = target.filter(|target| leads_out(&full, target, rules.link_at)) {
            let target: String = target.chars().filter(|c| !crate::hidden::is_foreign(*c)).take(200).collect();
            add("link-outside", Severity::Error, 1, format!("the link leads out of the repository: {target}"));
        }
    }
    if wants(LocalRule::Hidden) {
        let lines = added().filter(|_| !file.is_link() && !file.is_submodule());
        let lines = lines.map(|(number, (text, _))| (*number, text.as_str()));
        for (line, message) in invisible(&full, lines) {
            add("hidden-character", Severity::Error, line, message);
        }
    }
    found.truncate(MOST);
    found
}

/// Finds a file's name and added lines that have characters which cannot be seen: the line of each, and what to say.
fn invisible<'l>(name: &str, lines: impl Iterator<Item = (u64, &'l str)>) -> Vec<(u64, String)> {
    let said = |place: &str, c: char| format!("the {place} has the invisible character U+{:04X}", u32::from(c));
    let in_name = deceiving(name).map(|c| (1, said("name", c)));
    let in_lines = lines.filter_map(|(number, text)| {
        // A byte order mark is one only in front of a file.
        let mark = if number == 1 { "\u{feff}" } else { "" };
        Some((number, said("line", deceiving(text.strip_prefix(mark).unwrap_or(text))?)))
    });
    in_name.into_iter().chain(in_lines).collect()
}

/// Finds the secrets that have an added line: their lines, and what to say, which never has their text.
fn secrets(file: &Changed, path: &str, lines: Option<&Shown>, rules: &Rules<'_>) -> Vec<(RangeInclusive<u64>, String)> {
    let added = || lines.into_iter().flatten().filter(|(_, (_, is_added))| *is_added);
    if added().next().is_none() {
        return Vec::new();
    }
    // The marks of a key that is exchanged are lines that stay.
    let whole = (rules.text_of)(file).filter(|_| !file.is_submodule()).unwrap_or_default();
    let mut found = secrets_of("adds", (1, &whole), path, rules);
    found.retain(|(lines, _)| added().any(|(number, _)| lines.contains(number)));
    // A secret may have several lines, so lines that follow each other are one text.
    let mut runs: Vec<(u64, u64, String)> = Vec::new();
    for (number, (text, _)) in added() {
        match runs.last_mut().filter(|(_, next, _)| next == number) {
            Some((_, next, run)) => {
                *next += 1;
                run.push('\n');
                run.push_str(text);
            }
            None => runs.push((*number, number + 1, text.clone())),
        }
    }
    // The text of the file may be another one to us than to git.
    let in_runs = runs.iter().flat_map(|(first, _, run)| secrets_of("adds", (*first, run), path, rules));
    let more: Vec<_> = in_runs.filter(|one| !found.iter().any(|known| known.0.start() == one.0.start())).collect();
    found.extend(more);
    found.sort_by_key(|(lines, _)| *lines.start());
    found
}

/// Finds the secrets of a text that begins at a line: the lines of each, and what to say, which never has its text.
fn secrets_of(
    has: &str,
    (first, text): (u64, &str),
    path: &str,
    rules: &Rules<'_>,
) -> Vec<(RangeInclusive<u64>, String)> {
    let (mut found, mut counted) = (Vec::new(), (0, first));
    for secret in rules.secrets.all_in(text) {
        let line = counted.1 + text[counted.0..secret.at].matches('\n').count() as u64;
        counted = (secret.at, line);
        let message = match secret.kind {
            Kind::Value(name) => format!("{has} the value of the variable {name}"),
            Kind::Shape(kind) => {
                let digest = sha256(secret.text.as_bytes());
                if (rules.is_ignored)(path, &digest) {
                    continue;
                }
                let what = if kind == "pattern" { "secret (a pattern of the policy)" } else { kind };
                let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
                // The digest of a short text would give it away.
                let entry = if secret.text.len() < 20 { "paths".to_owned() } else { format!("sha256: {digest}") };
                format!(
                    "{has} what looks like {article} {what}; if it is none, add it to `secrets.ignore` of the policy ({entry})"
                )
            }
        };
        found.push((line..=line + secret.text.trim_end().matches('\n').count() as u64, message));
    }
    found
}

/// Tells whether the target of a link is absolute or above the repository's top, also by the links on its way.
fn leads_out(path: &str, target: &str, link_at: &dyn Fn(&str) -> Option<String>) -> bool {
    let owned = |target: &str| target.split('/').rev().map(str::to_owned).collect::<Vec<_>>();
    let mut at: Vec<String> = path.split('/').map(str::to_owned).collect();
    at.pop();
    let (mut left, mut followed) = (owned(target), 0);
    if target.starts_with('/') {
        return true;
    }
    while let Some(part) = left.pop() {
        match part.as_str() {
            "" | "." => {}
            ".." if at.pop().is_none() => return true,
            ".." => {}
            _ => {
                at.push(part);
                let Some(next) = link_at(&at.join("/")) else { continue };
                followed += 1;
                if next.starts_with('/') || followed > LINKS {
                    return true;
                }
                at.pop();
                left.extend(owned(&next));
            }
        }
    }
    false
}

/// Returns the first character of a text that changes the order of others or cannot be seen. Joiners, which scripts and
/// emoji need, are left out, and so is the selector of a variant behind an ideograph.
fn deceiving(text: &str) -> Option<char> {
    let mut before = None;
    text.chars().find(|c| {
        let is_ideograph =
            |c: char| matches!(c, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
        let is_variant = ('\u{e0100}'..='\u{e01ef}').contains(c) && before.is_some_and(is_ideograph);
        before = Some(*c);
        let is_control = matches!(c, '\u{fff9}'..='\u{fffb}');
        !is_variant && !is_needed(*c) && (is_control || is_ignorable(*c))
    })
}

/// Tells whether scripts or emoji need a character that cannot be seen: joiners, and selectors of variants.
fn is_needed(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180f}' | '\u{17b4}' | '\u{17b5}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::new_side::new_side;

    fn rules(raw: &str, diff: &str) -> Vec<String> {
        let side = new_side(diff);
        let secrets = Secrets::new(&std::collections::BTreeMap::new(), &[]).unwrap();
        let rules = Rules {
            wanted: &LocalRule::ALL,
            secrets: &secrets,
            is_ignored: &|_, _| false,
            link_at: &|_| None,
            text_of: &|_| None,
        };
        let problems = |file: &Changed| {
            let path = String::from_utf8_lossy(&file.path);
            problems(file, &path, side.get(&*path), &rules)
        };
        changed(raw.as_bytes())
            .iter()
            .flat_map(problems)
            .map(|found| format!("{}:{} {}", found.path, found.start_line, found.rule_id))
            .collect()
    }

    #[test]
    fn what_no_model_may_see_is_a_finding_by_itself() {
        let raw = ":000000 100644 0 1 A\0.env\0:100644 100644 1 2 M\0sub/\u{e4} id_rsa\0:000000 100644 0 1 A\0x/id_rsa.bak\0:100644 000000 1 0 D\0a.pem\0:000000 100644 0 1 A\0.env.example\0";
        assert_eq!(rules(raw, ""), [".env:1 qwen/denied-file", "x/id_rsa.bak:1 qwen/denied-file"]);
    }

    #[test]
    fn names_and_numbers_of_lines_are_read_as_they_are() {
        let listed = b":100644 100644 1 2 M\0a\tb\0:000000 120000 0 3 A\0:c\0:100644 000000 4 0 D\0d\0\
            3\t1\ta\tb\0-\t-\t:c\x000\t9\td\0";
        let files = changed(listed);
        let shown: Vec<_> = files
            .iter()
            .map(|file| {
                let Changed { path, id, base_id, status, lines, .. } = file;
                (String::from_utf8_lossy(path), id.as_str(), base_id.as_str(), *status, *lines)
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("a\tb".into(), "2", "1", 'M', Some((3, 1))),
                (":c".into(), "3", "0", 'A', None),
                ("d".into(), "4", "4", 'D', Some((0, 9))),
            ]
        );
    }

    #[test]
    fn links_that_lead_out_submodules_and_invisible_characters_are_findings() {
        let raw = ":000000 120000 0 1 A\0d/out\0:000000 120000 0 1 A\0d/in\0:000000 120000 0 1 A\0abs\0:000000 160000 0 1 A\0lib\0:100644 100644 1 2 M\0a.rs\0";
        let diff = "+++ b/d/out\n@@ -0,0 +1 @@\n+../../x\n+++ b/d/in\n@@ -0,0 +1 @@\n+../x\n+++ b/abs\n@@ -0,0 +1 @@\n+/etc/passwd\n+++ b/a.rs\n@@ -4 +4,3 @@\n-x\n+ok \u{1f468}\u{200d}\u{1f469} na\u{ef}ve\n+if a\u{202e} {\n }\n";
        assert_eq!(
            rules(raw, diff),
            [
                "d/out:1 qwen/link-outside",
                "abs:1 qwen/link-outside",
                "lib:1 qwen/submodule",
                "a.rs:5 qwen/hidden-character"
            ]
        );
    }
}
