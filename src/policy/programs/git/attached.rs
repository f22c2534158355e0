//! Attaches values to their options. Where git knows an option without a value, or with one that is optional, it takes the
//! next word for an operand or for another option, whatever our tables say; an attached value it cannot read otherwise.

use super::GIT;
use crate::policy::glob::fold_name;
use crate::policy::names::{base_name, named};
use crate::policy::programs::specs::{Spec, Value, specs};
use crate::policy::programs::table::Table;
use crate::policy::programs::word::Word;

/// Options of `rev-parse` that take no attached value. Their values are judged as revisions, or they are denied.
const APART: [&str; 4] = ["--default", "--git-path", "--prefix", "--resolve-git-dir"];

/// Returns the words of git with each value attached; `None` where nothing changes, and for other programs.
pub(crate) fn attached(words: &[Word]) -> Option<Vec<Word>> {
    if fold_name(base_name(&words.first()?.text)) != "git" {
        return None;
    }
    let mut at = 1;
    // Git reads its own options before the subcommand as the table does.
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        let takes_next = |spec: &Spec| spec.value == Value::Required && spec.names.contains(&word.text.as_str());
        at += 1 + usize::from(specs(GIT.options).iter().any(takes_next));
    }
    let mut table = &GIT;
    while let Some(sub) = words.get(at).filter(|word| word.literal).and_then(|word| below(table, &word.text)) {
        table = sub;
        at += 1;
    }
    if std::ptr::eq(table, &GIT) {
        return None;
    }
    let mut joined = words[..at].to_vec();
    let mut rest = words[at..].iter();
    while let Some(word) = rest.next() {
        let mark = if word.literal { takes_next(table, &word.text) } else { None };
        let next = mark.and_then(|_| rest.as_slice().first()).filter(|next| next.literal);
        match (mark, next) {
            (Some(mark), Some(next)) => {
                joined.push(Word::literal(format!("{}{mark}{}", word.text, next.text)));
                rest.next();
            }
            _ => joined.push(word.clone()),
        }
        if word.literal && word.text == "--" {
            joined.extend(rest.cloned());
            break;
        }
    }
    (joined.len() < words.len()).then_some(joined)
}

fn below(table: &'static Table, name: &str) -> Option<&'static Table> {
    table.subcommands.iter().find(|sub| named(sub.names, name))
}

/// Returns what is between an option and its value if the next word is that; `None` if the option takes none.
fn takes_next(table: &Table, text: &str) -> Option<&'static str> {
    let specs = specs(table.options);
    let takes = |spec: &Spec| matches!(spec.value, Value::Required | Value::NextIfAny | Value::Several);
    if text.starts_with("--") {
        if text.contains('=') || text == "--" || APART.contains(&text) {
            return None;
        }
        let exact = specs.iter().find(|spec| spec.names.contains(&text));
        // The beginning of an option stands for it; where several begin so, either reading may be git's.
        let mut begin = specs.iter().filter(|spec| spec.names.iter().any(|name| name.starts_with(text)));
        return exact.map_or_else(|| begin.any(takes), takes).then_some("=");
    }
    let mut letters = text.strip_prefix('-')?.char_indices();
    letters.find_map(|(index, letter)| {
        let name = format!("-{letter}");
        // The first entry of a name decides, as where the options are judged: `-n` of shortlog takes nothing.
        let spec = specs.iter().find(|spec| spec.names.contains(&name.as_str()));
        let spec = spec.filter(|spec| spec.value != Value::None)?;
        let is_last = index + letter.len_utf8() == text.len() - 1;
        Some((is_last && takes(spec)).then_some(""))
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(command: &str) -> String {
        let words: Vec<Word> = command.split(' ').map(Word::literal).collect();
        let joined = attached(&words).unwrap_or(words);
        joined.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_value_is_attached_to_its_option_and_to_nothing_else() {
        for (command, expected) in [
            ("git show -wS x HEAD", "git show -wSx HEAD"),
            ("git show -U HEAD:.env", "git show -U HEAD:.env"),
            ("git -C docs log -n 5 --author ann --since=1.day", "git -C docs log -n5 --author=ann --since=1.day"),
            ("git log -p --gre x -- -n 5", "git log -p --gre=x -- -n 5"),
            ("git rev-parse --since HEAD:.env", "git rev-parse --since=HEAD:.env"),
            ("git rev-parse --default main", "git rev-parse --default main"),
            ("git blame --abbrev .env HEAD", "git blame --abbrev=.env HEAD"),
            ("git shortlog --committer --output=x", "git shortlog --committer=--output=x"),
            ("git shortlog -sn HEAD", "git shortlog -sn HEAD"),
            ("git shortlog -n -s", "git shortlog -n -s"),
            ("git format-patch -n v1", "git format-patch -n v1"),
            ("git rev-list -n 5 HEAD", "git rev-list -n5 HEAD"),
            ("git stash push -m fix", "git stash push -mfix"),
            ("git log --oneline -5 --stat main", "git log --oneline -5 --stat main"),
            ("git diff --stat HEAD", "git diff --stat HEAD"),
            ("ls -I x", "ls -I x"),
        ] {
            assert_eq!(text(command), expected);
        }
    }
}
