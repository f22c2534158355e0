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
