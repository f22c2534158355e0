//! Converts argument lists as Qwen Code accepts them into the form that this program parses.
//!
//! Qwen Code accepts `--yolo=false`, `--no-yolo`, a repeated switch, `--outputFormat`, and every word after a flag with
//! several values. Only spellings that would otherwise be an error, or part of the prompt, change their meaning.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};

use crate::tool_name::tool_listed;

/// Flags of which Qwen Code takes every word up to the next flag as a value, by id.
const MANY: [&str; 5] =
    ["allowed_tools", "core_tools", "exclude_tools", "include_directories", "allowed_mcp_server_names"];

/// Flags that say what the prompt is, by id.
const PROMPTS: [&str; 3] = ["prompt", "prompt_file", "recipe"];

/// One word of the arguments, or several that belong together.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A switch, by id: on or off.
    Switch(String, bool),
    /// A flag of many values, by id.
    Many(String, Vec<String>),
    /// A word that is neither a flag nor a value of one.
    Word(String),
    /// What is passed on as it is, with the id of its flag if it has one.
    Other(Option<String>, Vec<String>),
}

/// Returns the arguments of a run, without the program's name, as they are read here.
pub(super) fn normalized(arguments: &[String], command: &Command) -> Vec<String> {
    if arguments == ["-v"] {
        return vec!["--version".to_owned()];
    }
    let (mut tokens, literal) = tokens(arguments, command);
    settle_many(&mut tokens);
    let mut last: BTreeMap<&str, bool> = BTreeMap::new();
    for token in &tokens {
        if let Token::Switch(id, on) = token {
            last.insert(id, *on);
        }
    }
    let mut result = Vec::new();
    for token in &tokens {
        match token {
            // The last one counts, and once.
            Token::Switch(id, _) => {
                if last.remove(id.as_str()) == Some(true) {
                    result.extend(spelled(command, id));
                }
            }
            Token::Many(id, values) => {
                let flag = spelled(command, id).unwrap_or_default();
                result.extend(values.iter().flat_map(|value| [flag.clone(), value.clone()]));
            }
            Token::Word(word) => result.push(word.clone()),
            Token::Other(_, words) => result.extend(words.iter().cloned()),
        }
    }
    result.extend(literal.iter().cloned());
    result
}

fn spelled(command: &Command, id: &str) -> Option<String> {
    let arg = command.get_arguments().find(|arg| arg.get_id() == id)?;
    arg.get_long().map(|long| format!("--{long}"))
}

/// Splits arguments into tokens; what begins with `--` as a word of its own stays apart.
fn tokens<'a>(arguments: &'a [String], command: &Command) -> (Vec<Token>, &'a [String]) {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        if word == "--" {
            break;
        }
        at += 1;
        let next = arguments.get(at).map(String::as_str);
        let (token, taken) = match flag(word, command) {
            Some(Flag { arg, negated, value }) => of_flag(word, arg, negated, value, next),
            None if word.starts_with('-') && word.len() > 1 => (Token::Other(None, vec![word.clone()]), false),
            None => (Token::Word(word.clone()), false),
        };
        tokens.push(token);
        at += usize::from(taken);
    }
    (tokens, &arguments[at..])
}

struct Flag<'a> {
    arg: &'a Arg,
    negated: bool,
    value: Option<String>,
}

/// Finds the flag that a word is; `None` for what is none of ours, and for short flags in a bundle.
fn flag<'a>(word: &str, command: &'a Command) -> Option<Flag<'a>> {
    let long = |name: &str| {
        let is = |arg: &&Arg| {
            arg.get_long_and_visible_aliases().into_iter().flatten().any(|long| long == name)
                || arg.get_all_aliases().into_iter().flatten().any(|long| long == name)
        };
        command.get_arguments().find(is)
    };
    let Some(body) = word.strip_prefix("--") else {
        let mut letters = word.strip_prefix('-')?.chars();
        let (letter, rest) = (letters.next()?, letters.as_str());

        let arg = command.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
        return rest.is_empty().then_some(Flag { arg, negated: false, value: None });
    };
    let (name, value) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (body, None),
    };
    let dashed = dashed(name);
    let find = |name: &str| long(name).or_else(|| long(&dashed));
    if let Some(arg) = find(name) {
        return Some(Flag { arg, negated: false, value });
    }
    let arg = long(dashed.strip_prefix("no-")?)?;
    (value.is_none() && is_boolean(arg)).then_some(Flag { arg, negated: true, value: None })
}

/// `outputFormat` as `output-format`.
fn dashed(name: &str) -> String {
    let mut dashed = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !dashed.is_empty() {
            dashed.push('-');
        }
        dashed.push(c.to_ascii_lowercase());
    }
    dashed
}

/// Tells whether Qwen Code knows the flag as one that is on or off.
fn is_boolean(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue) || arg.is_require_equals_set()
}

/// Returns the token of a flag, and whether it takes the next word.
fn of_flag(word: &str, arg: &Arg, negated: bool, value: Option<String>, next: Option<&str>) -> (Token, bool) {
    let id = arg.get_id().to_string();
    let long = format!("--{}", arg.get_long().unwrap_or_default());
    if is_boolean(arg) {
        let truth = |text: &str| match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        let (said, taken) = match (&value, next.and_then(truth)) {
            (None, Some(said)) => (Some(said != negated), true),
            (None, None) => (Some(!negated), false),
            (Some(value), _) => (truth(value), false),
        };
        return match (said, id.as_str()) {
            (Some(on), _) if matches!(arg.get_action(), ArgAction::SetTrue) => (Token::Switch(id, on), taken),
            (Some(true), _) => (Token::Other(Some(id), vec![long]), taken),
            (Some(false), "sandbox") => (Token::Other(Some(id), vec![format!("{long}=off")]), taken),
            (Some(false), _) => (Token::Other(Some(id), vec![format!("{long}=false")]), taken),
            (None, _) => (Token::Other(Some(id), vec![format!("{long}={}", value.unwrap_or_default())]), false),
        };
    }
    if MANY.contains(&id.as_str()) {
        return match (value, next) {
            (Some(value), _) => (Token::Many(id, vec![value]), false),
            (None, Some(next)) if !next.starts_with('-') => (Token::Many(id, vec![next.to_owned()]), true),
            (None, _) => (Token::Other(Some(id), vec![long]), false),
        };
    }
    let takes_value = arg.get_action().takes_values();
    match (value, next) {
        (Some(value), _) => (Token::Other(Some(id), vec![format!("{long}={value}")]), false),
        // `-1` is a value, not a flag.
        (None, Some(next)) if takes_value && next.parse::<i64>().is_ok_and(|number| number < 0) => {
            (Token::Other(Some(id), vec![format!("{long}={next}")]), true)
        }
        (None, Some(next)) if takes_value => {
            (Token::Other(Some(id), vec![word_of(word, &long), next.to_owned()]), true)
        }
        (None, _) => (Token::Other(Some(id), vec![word_of(word, &long)]), false),
    }
}

/// A short flag stays as it is written, for messages.
fn word_of(word: &str, long: &str) -> String {
    if word.starts_with("--") { long.to_owned() } else { word.to_owned() }
}

/// Gives the words behind a flag of many values to the flag: all of them where the prompt is said elsewhere, else those
/// that cannot be meant as a prompt.
fn settle_many(tokens: &mut Vec<Token>) {
    let says_prompt = |token: &Token| matches!(token, Token::Other(Some(id), _) if PROMPTS.contains(&id.as_str()));
    let mut has_prompt = tokens.iter().any(says_prompt);
    let mut settled: Vec<Token> = Vec::new();
    for token in tokens.drain(..) {
        match (token, settled.last_mut()) {
            (Token::Word(word), Some(Token::Many(id, values))) if has_prompt || is_value(id, &word) => {
                values.push(word);
            }
            (token, _) => {
                has_prompt |= matches!(token, Token::Word(_));
                settled.push(token);
            }
        }
    }
    *tokens = settled;
}

/// Tells whether a word can only be a value of the flag.
fn is_value(id: &str, word: &str) -> bool {
    match id {
        // `/review` is a command.
        "include_directories" => {
            let is_whole = word.strip_prefix('/').is_some_and(|rest| rest.contains('/'));
            (is_whole || word.starts_with(['.', '~'])) && !word.contains(char::is_whitespace)
        }
        "allowed_mcp_server_names" => false,
        _ => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            let name = word.split('(').next().unwrap_or(word);
            let is_named = word.starts_with("mcp__")
                || (word.contains(['_', '(']) || name.starts_with(char::is_uppercase)) && tool_listed(name).is_some();
            name.chars().all(is_name) && (word == name || word.ends_with(')')) && is_named
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn of(arguments: &str) -> String {
        let arguments: Vec<String> = arguments.split_whitespace().map(|word| word.replace('+', " ")).collect();
        normalized(&arguments, &Cli::command()).join(" ")
    }

    #[test]
    fn switches_are_on_or_off_once() {
        for (given, read) in [
            ("--yolo=true hi", "--yolo hi"),
            ("--yolo=false hi", "hi"),
            ("-y -y --yolo hi", "--yolo hi"),
            ("-y --no-yolo hi", "hi"),
            ("--no-stdin hi", "--no-stdin hi"),
            ("--debug=true -d hi", "--debug hi"),
            ("--continue=false --bare=true hi", "--bare hi"),
            ("--telemetry false hi", "--telemetry=false hi"),
            ("--no-telemetry --no-chat-recording hi", "--telemetry=false --chat-recording=false hi"),
            ("--sandbox=true --x", "--sandbox --x"),
            ("--no-sandbox hi", "--sandbox=off hi"),
            ("--sandbox=require hi", "--sandbox=require hi"),
            ("-yv hi", "-yv hi"),
            ("-v", "--version"),
            ("-v hi", "-v hi"),
            ("--no-such hi", "--no-such hi"),
        ] {
            assert_eq!(of(given), read, "{given}");
        }
    }

    #[test]
    fn values_are_passed_on() {
        for (given, read) in [
            ("--outputFormat json -m x hi", "--output-format json -m x hi"),
            ("--max-session-turns -1 hi", "--max-session-turns=-1 hi"),
            ("-p --yolo=true", "-p --yolo=true"),
            ("hi -- --yolo=true", "hi -- --yolo=true"),
            ("--system-prompt --no-yolo hi", "--system-prompt --no-yolo hi"),
            ("--base-url=http://x hi", "--openai-base-url=http://x hi"),
        ] {
            assert_eq!(of(given), read, "{given}");
        }
    }

    #[test]
    fn a_flag_of_many_values_takes_the_words_that_are_no_prompt() {
        for (given, read) in [
            ("--exclude-tools a b -p x", "--exclude-tools a --exclude-tools b -p x"),
            ("do+it --exclude-tools edit glob", "do it --exclude-tools edit --exclude-tools glob"),
            ("--allowed-tools edit write_file do+it", "--allowed-tools edit --allowed-tools write_file do it"),
            ("--allowed-tools x Bash(git+log) fix", "--allowed-tools x --allowed-tools Bash(git log) fix"),
            ("--allowed-tools x find it", "--allowed-tools x find it"),
            ("--include-directories /a /b/c look", "--include-directories /a --include-directories /b/c look"),
            ("--include-directories ../a /review", "--include-directories ../a /review"),
            ("--allowed-mcp-server-names a b -p x", "--allowed-mcp-server-names a --allowed-mcp-server-names b -p x"),
            ("--core-tools=a,b hi", "--core-tools a,b hi"),
        ] {
            assert_eq!(of(given), read, "{given}");
        }
    }
}
