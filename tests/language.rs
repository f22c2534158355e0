//! Holds the language of the help: short lines that give an order or name a thing, in the field's words.

use clap::{Command, CommandFactory as _};

use crate::support::Project;

/// Words that only the authors would understand, and what to write instead.
const GLOSSARY: &str = include_str!("glossary.txt");

/// The longest help of an option and of a command, in characters, without the notes in brackets.
const LONGEST: (usize, usize) = (90, 100);

fn private_words(text: &str) -> Vec<String> {
    let words = text.to_lowercase().replace("wall time", "").replace("wall-time", "");
    let words = words.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    let words = format!(" {} ", words.collect::<Vec<_>>().join(" "));
    let pairs = GLOSSARY.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
    pairs
        .filter(|(private, _)| words.contains(&format!(" {private} ")))
        .map(|(private, instead)| format!("`{private}`: write `{instead}`"))
        .collect()
}

/// Collects what is wrong with the help of a command and of those below it.
fn check(command: &Command, name: &str, problems: &mut Vec<String>) {
    let arguments = command.get_arguments().map(|argument| (argument.get_id().to_string(), argument.get_help()));
    for (what, help) in arguments.chain([(String::new(), command.get_about())]) {
        let longest = if what.is_empty() { LONGEST.1 } else { LONGEST.0 };
        let help = help.map(ToString::to_string).unwrap_or_default();
        let plain = help.split(" [").next().unwrap_or_default();
        let mut wrong = private_words(&help);
        if plain.chars().count() > longest {
            wrong.push(format!("{} characters", plain.chars().count()));
        }
        if plain.is_empty() || plain.ends_with('.') {
            wrong.push("empty, or a full stop at its end".to_owned());
        }
        problems.extend(wrong.into_iter().map(|wrong| format!("{name} {what}: {help:?}: {wrong}")));
    }
    if let Some(text) = command.get_after_help() {
        problems.extend(private_words(&text.to_string()).into_iter().map(|wrong| format!("{name}, below: {wrong}")));
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        check(inner, &format!("{name} {}", inner.get_name()), problems);
    }
}

#[test]
fn help_is_short_and_in_the_words_of_the_field() {
    let mut problems = Vec::new();
    check(&qwen_run::cli::Cli::command(), "qwen", &mut problems);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_private_word_is_found_and_a_longer_one_that_holds_it_is_not() {
    assert_eq!(private_words("Is not to be had."), ["`to be had`: write `available`"]);
    assert_eq!(private_words("a wallet, the maximum wall time, a blanket"), [""; 0]);
}

/// Returns what a call prints in a terminal of 80 columns.
fn printed(arguments: &[&str]) -> String {
    let outcome = Project::new().env("COLUMNS", "80").qwen(arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stdout
}

#[test]
fn a_short_help_fits_a_screen_and_the_long_one_shows_every_option() {
    let (short, long) = (printed(&["run", "-h"]), printed(&["run", "--help"]));
    assert!(short.lines().count() <= 60, "{} lines", short.lines().count());
    assert!(short.contains("--apply") && short.contains("More: qwen --help") && !short.contains("--top-p"), "{short}");
    assert!(long.contains("--top-p") && long.contains("Exit codes"), "{long}");
    assert!(!printed(&["-h"]).contains("--top-p"));
    assert!(printed(&["apply", "-h"]).contains("--check"));
}

#[test]
fn each_command_has_a_manual_page() {
    let project = Project::new();
    let outcome = project.qwen(&["man", "--to", "pages"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let page = |name: &str| std::fs::read_to_string(project.root().join("pages").join(name)).unwrap();
    assert!(page("qwen.1").contains(r"\-\-prompt\-file") && page("qwen-policy-check.1").contains("calls"));
    assert!(printed(&["man"]).starts_with(".ie"), "the page of `qwen`");
    let refused = Project::new().file("pages", "a file\n").qwen(&["man", "--to", "pages"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot write manual pages to"), "{}", refused.stderr);
}
