//! Holds the language of the help: short lines that give an order or name a thing, in the field's words.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use proc_macro2::{TokenStream, TokenTree};

use crate::support::Project;

/// Words that only the authors would understand, and what to write instead.
const GLOSSARY: &str = include_str!("glossary.txt");

/// Files whose text the model reads: their words are part of what it was measured with.
const FOR_THE_MODEL: [&str; 11] = [
    "agent/loop_guard.rs",
    "change/replace/stage.rs",
    "change/replace/write.rs",
    "prompt/first_search.rs",
    "prompt/system.rs",
    "tools/glob.rs",
    "tools/list_directory.rs",
    "tools/read_many_files.rs",
    "tools/run_shell_command.rs",
    "tools/search_file_content.rs",
    "tools/todo_write.rs",
];

/// The longest help of an option and of a command, in characters, without the notes in brackets.
const LONGEST: (usize, usize) = (90, 100);

fn private_words(text: &str) -> Vec<String> {
    let words = text.to_lowercase().replace("wall time", "").replace("wall-time", "").replace("wall_time", "");
    let words = words.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    let words = format!(" {} ", words.collect::<Vec<_>>().join(" "));
    let not_a = words.replace("there is no ", "").replace("is no longer", "");
    let pairs = GLOSSARY.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
    pairs
        .filter(|(private, _)| words.contains(&format!(" {private} ")))
        .chain(not_a.contains(" is no ").then_some(("is no", "is not a")))
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

/// The options of a run that `-h` shows.
const COMMON: [&str; 21] = [
    "--apply",
    "--branch",
    "--cd",
    "--commit",
    "--file",
    "--json-schema",
    "--local",
    "--max-cost-usd",
    "--model",
    "--openai-base-url",
    "--output-format",
    "--param",
    "--policy",
    "--prompt",
    "--quiet",
    "--recipe",
    "--report-file",
    "--result-file",
    "--sandbox",
    "--verbose",
    "--verify",
];

#[test]
fn the_short_help_shows_exactly_the_common_options() {
    for arguments in [&["run", "-h"][..], &["-h"]] {
        let help = printed(arguments);
        let options = help.lines().filter_map(|line| {
            let line = line.strip_prefix("  ")?.trim_start();
            let option = line.split_once("--").filter(|(before, _)| before.is_empty() || before.ends_with(", "));
            let name: String = option?.1.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            Some(format!("--{name}"))
        });
        let mut options: Vec<String> = options.filter(|name| !["--help", "--version"].contains(&&**name)).collect();
        options.sort();
        assert_eq!(options, COMMON, "{help}");
        assert!(help.contains("  [PROMPT]... "), "{help}");
    }
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

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|ends| ends == extension) {
            found.push(path);
        }
    }
}

/// Collects the string literals of code that is not a test: those of attributes only where they are messages.
fn literals(code: TokenStream, found: &mut Vec<String>) {
    let mut tokens = code.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                // `#![…]` is an attribute, too.
                tokens.next_if(|token| matches!(token, TokenTree::Punct(sign) if sign.as_char() == '!'));
                let Some(TokenTree::Group(attribute)) = tokens.peek() else { continue };
                let text = attribute.stream().to_string();
                if text == "cfg (test)" {
                    // What the attribute is for ends with a block or a semicolon.
                    tokens.by_ref().find(|token| match token {
                        TokenTree::Group(group) => group.delimiter() == proc_macro2::Delimiter::Brace,
                        TokenTree::Punct(sign) => sign.as_char() == ';',
                        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
                    });
                } else if !text.starts_with("error") {
                    tokens.next();
                }
            }
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Literal(literal) => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    found.push(text.value());
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Removes the names in braces, and tables of options.
fn shown(text: &str) -> String {
    if text.starts_with(['-', '~']) || !text.contains(' ') {
        return String::new();
    }
    let parts = text.split('{').map(|part| part.split_once('}').map_or(part, |(_, after)| after));
    parts.collect::<Vec<_>>().join(" ")
}

#[test]
fn messages_readme_and_documents_have_no_private_word() {
    let (mut sources, mut pages, mut problems) = (Vec::new(), vec![package().join("README.md")], Vec::new());
    let src = package().join("src");
    files(&src, "rs", &mut sources);
    files(&package().join("docs"), "md", &mut pages);
    for path in sources {
        let name = path.strip_prefix(&src).unwrap().to_string_lossy().replace('\\', "/");
        let of_tests = name.ends_with("tests.rs") || name.contains("/tests/") || name.ends_with("/against_bash.rs");
        if !of_tests && !FOR_THE_MODEL.contains(&name.as_str()) {
            let mut texts = Vec::new();
            literals(std::fs::read_to_string(&path).unwrap().parse().unwrap(), &mut texts);
            let wrong = texts.iter().flat_map(|text| private_words(&shown(text)).into_iter().map(move |w| (text, w)));
            problems.extend(wrong.map(|(text, wrong)| format!("src/{name}: {text:?}: {wrong}")));
        }
    }
    for path in pages {
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            problems
                .extend(private_words(line).into_iter().map(|wrong| format!("{}: {line}: {wrong}", path.display())));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Words of the field that not everybody knows: README and the how-to pages use one only if the glossary explains it.
const TERMS: [&str; 24] = [
    "base",
    "dry run",
    "event",
    "events",
    "finding",
    "findings",
    "gate",
    "guard",
    "guards",
    "hunk",
    "hunks",
    "isolation",
    "layer",
    "layers",
    "overlay",
    "patch",
    "proposal",
    "provider",
    "recipe",
    "replay",
    "session",
    "tier",
    "trusted",
    "workspace",
];

/// Words that stay out of README and the how-to pages altogether.
const INTERNAL: [&str; 8] = ["ctx", "lent", "overlay", "seccomp", "T0", "T1", "T2", "T3"];

#[test]
fn readme_and_how_to_pages_use_no_word_that_the_glossary_lacks() {
    let glossary = std::fs::read_to_string(package().join("docs/glossary.md")).unwrap();
    let explained: Vec<&str> = glossary.split("**").skip(1).step_by(2).flat_map(|terms| terms.split(", ")).collect();
    let mut pages = vec![package().join("README.md")];
    files(&package().join("docs/how-to"), "md", &mut pages);
    let mut problems = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        // Code is no prose: only what is outside of backticks counts.
        let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let words: Vec<&str> =
            prose.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let prose = format!(" {} ", words.join(" "));
        let has = |word: &&&str| prose.contains(&format!(" {word} "));
        let is_explained = |word: &&&str| explained.iter().any(|term| *term == **word || format!("{term}s") == ***word);
        let wrong = TERMS.iter().filter(has).filter(|word| !is_explained(word)).chain(INTERNAL.iter().filter(has));
        problems.extend(wrong.map(|word| format!("{}: {word}", page.display())));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
