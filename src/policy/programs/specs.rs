//! Splits the options of a table.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// One option of a table.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) names: Vec<&'static str>,
    pub(super) denied: Denied,
    pub(super) value: Value,
    pub(super) kind: char,
    pub(super) choices: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    Never,
    Usual,
    Strict,
    Code,
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    None,
    Required,
    Attached,
    NextIfAny,
    Several,
    Rest,
}

/// Splits a table's options, once for each table: a command of twenty programs would split as many long texts.
pub(super) fn specs(options: &'static str) -> Arc<[Spec]> {
    type Split = HashMap<&'static str, Arc<[Spec]>>;
    static KNOWN: LazyLock<RwLock<Split>> = LazyLock::new(RwLock::default);
    if let Some(known) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(options) {
        return Arc::clone(known);
    }
    let specs: Arc<[Spec]> = options.split_whitespace().map(spec).collect();
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).insert(options, Arc::clone(&specs));
    specs
}

fn spec(text: &'static str) -> Spec {
    let marks = [("!!", Denied::Always), ("!$", Denied::Code), ("!", Denied::Strict), ("~", Denied::Usual)];
    let marked = marks.iter().find_map(|(mark, denied)| Some((*denied, text.strip_prefix(mark)?)));
    let (denied, text) = marked.unwrap_or((Denied::Never, text));
    let (names, kind) = text.split_once('=').unwrap_or((text, ""));
    let values = [("?", Value::Attached), ("*", Value::NextIfAny), ("+", Value::Several), (">", Value::Rest)];
    let value = values.iter().find_map(|(mark, value)| Some((*value, kind.strip_prefix(mark)?)));
    let (value, kind) = value.unwrap_or(if kind.is_empty() { (Value::None, kind) } else { (Value::Required, kind) });
    let choices = kind.strip_prefix('{').map_or("", |kind| kind.trim_end_matches('}'));
    Spec { names: names.split(',').collect(), denied, value, kind: kind.chars().next().unwrap_or('D'), choices }
}

/// Returns all names of an option in a table; none where the table does not have it.
pub(crate) fn names_of(options: &'static str, option: &str) -> Vec<&'static str> {
    let specs = specs(options);
    specs.iter().filter(|spec| spec.names.contains(&option)).flat_map(|spec| spec.names.iter().copied()).collect()
}

/// What an option does, as far as its tables say.
pub(crate) enum Meaning<'w> {
    /// Nothing but what its name says, with data or a path as its value.
    Plain {
        /// The next word is its value.
        takes_next: bool,
    },
    /// It may start a program: its value, where that is in the same word.
    Starts(Option<&'w str>),
    /// All later words are another program's.
    Rest,
}

/// Returns an option as it is written and what it does: one that no table has may do anything.
pub(crate) fn meaning<'w>(tables: impl Iterator<Item = &'static str>, word: &'w str) -> (&'w str, Meaning<'w>) {
    let tables: Vec<_> = tables.map(specs).collect();
    let all = || tables.iter().rev().flat_map(|specs| specs.iter());
    let (name, attached) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    let of = |spec: &Spec, attached: Option<&'w str>| match (starts(spec), spec.value) {
        (_, Value::Rest) => Meaning::Rest,
        (true, _) => Meaning::Starts(attached),
        (false, value) => Meaning::Plain { takes_next: attached.is_none() && value == Value::Required },
    };
    let is =
        |known: &&str| *known == name || known.strip_prefix('-') == Some(name) || name.strip_prefix('-') == Some(known);
    if let Some(spec) = all().find(|spec| spec.names.iter().any(is)) {
        return (name, of(spec, attached));
    }
    if word.starts_with("--") {
        // Many programs take the beginning of a long option for the whole.
        let mut begun = all().filter(|spec| name.len() > 3 && spec.names.iter().any(|known| known.starts_with(name)));
        let first = begun.clone().next();
        return match (begun.any(starts), first) {
            (false, Some(spec)) => (name, of(spec, attached)),
            _ => (name, Meaning::Starts(attached)),
        };
    }
    for (index, letter) in word.char_indices().skip(1) {
        let end = index + letter.len_utf8();
        let attached = Some(word[end..].trim_start_matches('=')).filter(|rest| !rest.is_empty());
        match all().find(|spec| spec.names.contains(&format!("-{letter}").as_str())) {
            Some(spec) if spec.value == Value::None => {}
            Some(spec) => return (&word[..end], of(spec, attached)),
            // What follows the letter may be its value.
            None => {
                return (
                    &word[..end],
                    attached.map_or(Meaning::Plain { takes_next: false }, |_| Meaning::Starts(attached)),
                );
            }
        }
    }
    (word, Meaning::Plain { takes_next: false })
}

// Whether an option may start what its value names: a property that is set may be read for a program.
fn starts(spec: &Spec) -> bool {
    let is_path = "RWLTEIOFX".contains(spec.kind);
    let is_marked = !matches!(spec.denied, Denied::Never | Denied::Usual);
    spec.value != Value::None && !is_path && (is_marked || "PC{".contains(spec.kind) || spec.names.contains(&"-D"))
}

/// Returns how many words an option of a table takes with it: for deny rules, which look for the subcommand after
/// options. `None`: it is not known.
pub(crate) fn arity(options: &'static str, word: &str) -> Option<usize> {
    let specs = specs(options);
    if word.starts_with("--") {
        let (name, attached) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
        let spec = specs.iter().find(|spec| spec.names.contains(&name))?;
        return Some(usize::from(!attached && matches!(spec.value, Value::Required)));
    }
    let letters: Vec<char> = word.chars().skip(1).collect();
    for (index, letter) in letters.iter().enumerate() {
        let spec = specs.iter().find(|spec| spec.names.contains(&format!("-{letter}").as_str()))?;
        if spec.value == Value::Required {
            return Some(usize::from(index + 1 == letters.len()));
        }
    }
    Some(0)
}
