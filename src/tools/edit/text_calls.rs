//! Reads an edit of a model that writes its calls as text by what it means: such models name a variable by its letters
//! alone, keep in another form what is to go, and point at several places at once.

use std::ops::Range;
use std::path::Path;

use super::comments::{comment_of, is_part, words_of};
use crate::change::replace::{Replaced, Stage};
use crate::tools::common::memory::ASKED_BYTES;

/// Tells whether a text is a name alone: a word of a program.
fn is_name(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().all(is_part) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Tells whether a task asks to rename one thing to another everywhere.
pub(super) fn is_renaming(task: &str, old: &str, new: &str) -> bool {
    let has = |name: &str| words_of(task).any(|word| word == name.trim());
    task.to_lowercase().contains("renam") && has(old) && has(new)
}

/// Returns where a name is a word of its own: the name `t` is not in `text`.
fn words(text: &str, name: &str) -> Vec<Range<usize>> {
    let found = text.match_indices(name).map(|(at, _)| at..at + name.len());
    found.filter(|place| !text[..place.start].ends_with(is_part) && !text[place.end..].starts_with(is_part)).collect()
}

/// Replaces a name by a name wherever it is a word of its own; `None` if either is no name, or the text has it nowhere.
pub(super) fn renamed(text: &str, old: &str, new: &str) -> Option<Replaced> {
    let (old, new) = (old.trim(), new.trim());
    let places = if is_name(old) && is_name(new) { words(text, old) } else { Vec::new() };
    if places.is_empty() {
        return None;
    }
    let mut replaced = Replaced { text: String::new(), places: Vec::new(), now: Vec::new(), stage: Stage::Exact };
    let mut copied = 0;
    for place in places {
        replaced.text.push_str(&text[copied..place.start]);
        replaced.now.push(replaced.text.len()..replaced.text.len() + new.len());
        replaced.text.push_str(new);
        copied = place.end;
        replaced.places.push(place);
    }
    replaced.text.push_str(&text[copied..]);
    Some(replaced)
}

/// Returns the whole lines to remove where their text alone was to be replaced by nothing, with an empty line if they leave
/// two; `None` where it is not the only such place, or only a part of a line.
pub(super) fn whole_lines<'t>(text: &'t str, old: &str, new: &str) -> Option<&'t str> {
    let bare = old.trim();
    let mut found = text.match_indices(bare).map(|(at, _)| at).filter(|_| new.trim().is_empty() && !bare.is_empty());
    let (at, None) = (found.next()?, found.next()) else { return None };
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let behind = at + bare.len();
    let mut end = behind + text[behind..].find('\n')? + 1;
    // What separates it from the next goes with it.
    if !text[start..at].trim().is_empty() || !["", ","].contains(&text[behind..end].trim()) {
        return None;
    }
    let is_free = start == 0 || text[..start].ends_with("\n\n");
    if is_free && text[end..].starts_with('\n') && text[end..].trim() != "" {
        end += 1;
    }
    Some(&text[start..end])
}

/// Words between `remove the` and the name of what goes.
const OF_NAMES: &str = "the a setting key option field entry property variable dependency flag";

/// What stands around a word that is meant literally.
const QUOTES: [char; 3] = ['`', '"', '\''];

/// Words with which a task says more than that something is to go.
const MORE: &str = "and not never don instead but then keep comment commented disable";

/// Returns the words behind the verb of a task that is one sentence and says only that something is to be removed.
fn what_goes(task: &str) -> Option<&str> {
    let (verb, rest) = task.trim().trim_end_matches('.').split_once(' ')?;
    let is_removal = ["remove", "delete", "drop"].contains(&verb.to_lowercase().as_str());
    let says_more = [". ", "\n", ";", "!", "?"].iter().any(|end| rest.contains(end))
        || words_of(rest).any(|word| MORE.split(' ').any(|more| more == word.to_lowercase()));
    (is_removal && !says_more).then_some(rest)
}

/// Tells whether an edit keeps what the task says to remove: as a comment, or with another value.
pub(super) fn keeps_what_goes(path: &Path, (old, new): (&str, &str), task: &str) -> bool {
    let Some(goes) = what_goes(task) else { return false };
    let bare = |text: &str, marks: &[char]| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim().trim_start_matches(marks).trim_start());
        lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let is_comment = |text: &str| {
        comment_of(path).is_some_and(|is_comment| text.lines().filter(|line| !line.trim().is_empty()).all(is_comment))
    };
    let whole = bare(old, &[]);
    if !whole.is_empty() && is_comment(new) && !is_comment(old) && whole == bare(new, &['#', '/']) {
        return true;
    }
    // `Remove the setting debug from c.json`: a key whose value alone is another.
    let mut words = goes.split_whitespace().skip_while(|word| OF_NAMES.split(' ').any(|of| of == *word));
    let name = words.next().map(|word| word.trim_matches(QUOTES)).filter(|word| word.chars().all(is_part));
    // Nothing may be said of it but the file: `that are there twice`, `below 100`.
    let rest: Vec<&str> = words.collect();
    let is_all = matches!(rest[..], [] | ["from" | "in", _]);
    let value = |text: &'_ str| text.split_once([':', '=']).map(|(_, value)| value.to_owned()).unwrap_or_default();
    let (had, has) = (value(old), value(new));
    let is_less =
        words_of(&has).next().is_some() && words_of(&has).all(|word| words_of(&had).any(|other| other == word));
    let key = |text: &str| {
        let (key, value) = text.trim().split_once([':', '='])?;
        let key = key.trim().trim_matches(['"', '\'']).to_owned();
        (bare(text, &[]).len() == 1 && !value.trim().is_empty()).then_some(key)
    };
    is_all && !is_less && name.is_some() && key(old).as_deref() == name && key(new).as_deref() == name
}

/// Removes every line of the kind that the task names, `the lines that begin with X`, where an edit removes X; `None` for
/// any other edit.
pub(super) fn lines_of_a_kind(text: &str, (old, new): (&str, &str), task: &str) -> Option<Replaced> {
    let old = old.trim();
    let goes = what_goes(task).filter(|_| new.trim().is_empty() && !old.is_empty() && !old.contains('\n'))?;
    let is_named = |verb: &str| {
        goes.split_once(&format!("lines that {verb} ")).is_some_and(|(before, kind)| {
            // `Remove X from the lines that have Y`.
            !["from", "of", "in"].iter().any(|word| before.trim_end().trim_end_matches(" the").ends_with(word))
                && kind.trim_start_matches(QUOTES).strip_prefix(old).is_some_and(|rest| {
                    let rest = rest.trim_start_matches(QUOTES);
                    rest.is_empty() || rest.starts_with(" from ") || rest.starts_with(" in ")
                })
        })
    };
    let begins = is_named("begin with") || is_named("start with");
    if !begins && !is_named("contain") {
        return None;
    }
    let is_meant = |line: &str| if begins { line.trim_start().starts_with(old) } else { line.contains(old) };
    let mut replaced = Replaced { text: String::new(), places: Vec::new(), now: Vec::new(), stage: Stage::Exact };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        match is_meant(line) {
            true => {
                replaced.now.push(replaced.text.len()..replaced.text.len());
                replaced.places.push(at..at + line.len());
            }
            false => replaced.text.push_str(line),
        }
        at += line.len();
    }
    (!replaced.places.is_empty()).then_some(replaced)
}

/// Bytes of the lines of one place up to which it is asked about.
const PLACE_BYTES: usize = 600;

/// Most places that are asked about.
const MOST_PLACES: usize = 6;

/// Returns the places of a text that an edit may mean, by the numbers of their lines from 1: the number, whole lines that no
/// other place has, and what they become. Empty where they cannot be told apart.
pub(super) fn places(text: &str, (old, new): (&str, &str), numbers: &[usize]) -> Vec<(usize, String, String)> {
    if text.len() > ASKED_BYTES {
        return Vec::new();
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_renamed = is_name(old) && is_name(new);
    let mut numbers: Vec<usize> = match is_renamed {
        true => (1..).zip(&lines).filter(|(_, line)| !words(line, old.trim()).is_empty()).map(|(at, _)| at).collect(),
        false => numbers.to_vec(),
    };
    numbers.dedup();
    if old.trim().contains('\n') || !(2..=MOST_PLACES).contains(&numbers.len()) {
        return Vec::new();
    }
    let found: Option<Vec<_>> = numbers
        .into_iter()
        .map(|number| {
            let at = number.checked_sub(1)?;
            let line = lines.get(at).filter(|line| line.contains(old))?;
            let renamed = if is_renamed { renamed(line, old, new) } else { None };
            let changed = renamed.map_or_else(|| line.replace(old, new), |renamed| renamed.text);
            let (mut first, mut last) = (at, at);
            loop {
                let whole = lines[first..=last].concat();
                if whole.len() > PLACE_BYTES {
                    return None;
                }
                if text.matches(&whole).count() == 1 {
                    let (before, after) = (lines[first..at].concat(), lines[at + 1..=last].concat());
                    return Some((number, whole, format!("{before}{changed}{after}")));
                }
                match (first.checked_sub(1), last + 1 < lines.len()) {
                    (Some(earlier), _) => first = earlier,
                    (None, true) => last += 1,
                    (None, false) => return None,
                }
            }
        })
        .collect();
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_where_it_is_a_word() {
        let replaced = renamed("format(t) // text\nt = t + 1\n", "t", "seconds").unwrap();
        assert_eq!(
            (replaced.text.as_str(), replaced.places.len()),
            ("format(seconds) // text\nseconds = seconds + 1\n", 3)
        );
        assert_eq!(renamed("a.b", "a.b", "c"), None);
        assert_eq!(renamed("text", "t", "x"), None);
    }

    #[test]
    fn removed_lines_leave_no_empty_line() {
        let text = "a\n  f(1);\nb\n\nc\nd\n\ne\n";
        assert_eq!(whole_lines(text, "f(1);", ""), Some("  f(1);\n"));
        assert_eq!(whole_lines(text, "c\nd\n", ""), Some("c\nd\n\n"));
        assert_eq!(whole_lines(text, "f(1)", ""), None);
        assert_eq!(whole_lines("{\n  \"a\": 1,\n  \"b\": 2\n}\n", "\"a\": 1", ""), Some("  \"a\": 1,\n"));
        assert_eq!(whole_lines(text, "b", "x"), None);
        assert_eq!(whole_lines("a\na\n", "a", ""), None);
    }

    #[test]
    fn what_the_task_removes_does_not_stay_in_another_form() {
        let part = ("colors: [a, b, a]", "colors: [a, b]");
        assert!(!keeps_what_goes(Path::new("c.yaml"), part, "Remove colors from c.yaml."));
        for task in ["Remove colors from c.yaml that are there twice.", "Drop colors in c.yaml below 100."] {
            assert!(!keeps_what_goes(Path::new("c.yaml"), ("colors: 1", "colors: 2"), task), "{task}");
        }
        assert!(keeps_what_goes(Path::new("c.yaml"), ("colors: 1", "colors: 2"), "Remove colors from c.yaml."));
        let keeps = |name: &str, old: &str, new: &str, task: &str| keeps_what_goes(Path::new(name), (old, new), task);
        let yaml = ("  cache:\n    image: x\n", "  # cache:\n  #   image: x\n");
        assert!(keeps("c.yaml", yaml.0, yaml.1, "Remove the service cache from c.yaml."));
        for task in [
            "Comment out the service cache.",
            "Disable the service cache in c.yaml, do not remove it.",
            "Remove nothing from c.yaml, but comment out cache.",
        ] {
            assert!(!keeps("c.yaml", yaml.0, yaml.1, task), "{task}");
        }
        assert!(!keeps("c.yaml", yaml.0, "  # cache\n", "Remove the service cache from c.yaml."));
        let json = ("\"debug\": true", "\"debug\": false");
        assert!(keeps("c.json", json.0, json.1, "Remove the setting debug from c.json."));
        assert!(keeps("c.json", json.0, json.1, "Remove `debug` in c.json."));
        for task in [
            "Remove the setting level from c.json.",
            "Set debug to false in c.json.",
            "Don't delete the setting debug in c.json, make it false.",
            "Do not remove debug in c.json; set it to false.",
            "In c.json set debug to false, and delete debug from d.json.",
            "Remove debug from d.json. In c.json debug is false.",
        ] {
            assert!(!keeps("c.json", json.0, json.1, task), "{task}");
        }
        for (old, new, task) in [
            ("f(a, b)", "f(a)", "Remove the argument b of f in a.js."),
            ("import os, sys", "import sys", "Remove import os from a.py"),
            ("export { a, helper };", "export { a };", "Remove the export of helper from m.js."),
            ("colors = ['a', 'a']", "colors = ['a']", "Remove colors that are there twice"),
            ("RUN apt-get update && x", "RUN x", "Drop RUN apt-get update from the Dockerfile."),
        ] {
            assert!(!keeps("a.js", old, new, task), "{task}");
        }
    }

    #[test]
    fn the_lines_of_a_kind_go_together() {
        let text = "set -e\necho DEBUG a\nls\n  echo DEBUG b\necho c # echo DEBUG\n";
        let left = |old: &str, task: &str| lines_of_a_kind(text, (old, ""), task).map(|replaced| replaced.text);
        let task = "Remove the debugging output from build.sh, the lines that begin with echo DEBUG.";
        assert_eq!(left("echo DEBUG", task).as_deref(), Some("set -e\nls\necho c # echo DEBUG\n"));
        let task = "Remove all lines that contain `echo DEBUG` from build.sh.";
        assert_eq!(left("echo DEBUG", task).as_deref(), Some("set -e\nls\n"));
        assert_eq!(left("echo DEBUG a", task), None);
        for task in [
            "Remove the word echo DEBUG from the first line.",
            "Remove echo DEBUG from the lines that contain echo DEBUG.",
            "Do not remove the lines that begin with echo DEBUG.",
            "Remove the lines that begin with echo DEBUGGING.",
            "Remove the lines that begin with echo DEBUG stamp from build.sh.",
            "Remove all lines that contain echo DEBUG, but no line with echo DEBUG a.",
        ] {
            assert_eq!(left("echo DEBUG", task), None, "{task}");
        }
    }

    #[test]
    fn places_are_told_apart_by_their_lines() {
        let text = "# Guide\n\nUsage is free.\n\n## Usage\n";
        let found = places(text, ("Usage", "Start"), &[3, 5]);
        assert_eq!(found[0].0, 3);
        assert_eq!(found[1], (5, "## Usage\n".into(), "## Start\n".into()));
        let found = places("a {\n  x\n}\nb {\n  x\n}\n", ("x", "y"), &[2, 5]);
        assert_eq!(found[1], (5, "b {\n  x\n".into(), "b {\n  y\n".into()));
        // Of a name only where it is a word.
        assert_eq!(places("t;\ntext\nt = t\n", ("t", "s"), &[1, 2, 2, 3]).len(), 2);
        assert!(places("x\nx\n", ("x\nx", "y"), &[1, 2]).is_empty());
    }
}
