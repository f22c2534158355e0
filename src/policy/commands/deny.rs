//! Matches deny rules, broadly: any spelling of a program, a subcommand and an option.

use crate::policy::decision::Denial;
use crate::policy::file::{CommandRule, Element};
use crate::policy::glob::fold_name;
use crate::policy::layers::Layer;
use crate::policy::names::{base_name, named, unversioned};
use crate::policy::programs::specs::{arity, names_of};
use crate::policy::programs::table::{Operands, Table};
use crate::policy::programs::{self, Word, build};

/// Returns the denial of the first deny rule of a layer that matches, broadly.
pub(super) fn denied_by(layer: &Layer, words: &[Word]) -> Option<Denial> {
    let rule = layer.rules.shell.deny.iter().find(|rule| deny_matches(&rule.value, words))?;
    Some(Denial::new(why(&rule.value)).by_rule(rule.at.clone()))
}

/// Says what a deny rule denies, and why.
pub(super) fn why(rule: &CommandRule) -> String {
    let text: Vec<String> = rule.cmd.iter().map(|element| element.0.join("|")).collect();
    match &rule.reason {
        Some(reason) => format!("`{}` is denied: {reason}", text.join(" ")),
        None => format!("`{}` is denied", text.join(" ")),
    }
}

fn deny_matches(rule: &CommandRule, words: &[Word]) -> bool {
    let Some(program) = words.first() else { return false };
    let name = fold_name(base_name(&program.text));
    // `git-push` is `git push`.
    if let Some((program, subcommand)) = name.split_once('-').filter(|(program, _)| matches!(*program, "git" | "cargo"))
    {
        let mut apart = vec![Word::literal(program), Word::literal(subcommand)];
        apart.extend_from_slice(&words[1..]);
        if deny_matches(rule, &apart) {
            return true;
        }
    }
    let table = programs::find(base_name(&program.text)).or_else(|| programs::find(&name));
    if !rule.cmd[0].0.iter().any(|known| names_program(&fold_name(base_name(known)), &name, table)) {
        return false;
    }
    let options = table.map(|table| table.options).unwrap_or_default();
    let denied = rule.options.as_ref().map(|options| options.deny.as_slice()).unwrap_or_default();
    subcommand_matches(&name, &rule.cmd[1..], &words[1..], table, options)
        && (denied.is_empty() || {
            let names = denied.iter().flat_map(|option| spellings(option, table, rule.cmd.get(1)));
            names.into_iter().any(|option| has_option(option, &words[1..], options))
        })
}

// An option, with its other names in the tables of its program and of the subcommands that a rule names.
fn spellings<'o>(option: &'o str, table: Option<&'static Table>, subcommand: Option<&Element>) -> Vec<&'o str> {
    let is_meant =
        |sub: &&Table| subcommand.is_none_or(|element| element.0.iter().any(|known| named(sub.names, known)));
    let tables =
        table.into_iter().flat_map(|table| std::iter::once(table).chain(table.subcommands.iter().filter(is_meant)));
    let mut names: Vec<&str> = tables.flat_map(|table| names_of(table.options, option)).chain([option]).collect();
    if table.is_some_and(|table| table.names == "git") && names.contains(&"--patch") {
        names.extend(SHOWS_PATCH);
    }
    names
}

/// Options of git that show a patch as `--patch` does.
/// Source: git-log(1), git-diff(1).
const SHOWS_PATCH: [&str; 10] = [
    "-U",
    "--unified",
    "--patch-with-raw",
    "--patch-with-stat",
    "--binary",
    "-c",
    "--cc",
    "--dd",
    "--remerge-diff",
    "-L",
];

// Programs that are others under another name.
const KIN: [(&str, &str); 5] =
    [("ssh", "slogin"), ("rsync", "rsync-ssl"), ("kill", "skill snice"), ("killall", "killall5"), ("mkfs", "mke2fs")];

// Whether a rule's word names a program: `nc.openbsd`, `mkfs.ext4` and `git.exe` are kinds of what is named; `gmake`, `pip3`
// and `mvnw` are other names of it, where the table is not one of many programs.
fn names_program(known: &str, name: &str, table: Option<&'static Table>) -> bool {
    if name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
        return true;
    }
    if unversioned(name) == known || KIN.iter().any(|(of, names)| *of == known && named(names, name)) {
        return true;
    }
    let Some(table) = table else { return false };
    let is_one = tasks(table).is_some() || !table.subcommands.is_empty() || name.strip_prefix('g') == Some(known);
    is_one && programs::find(known).is_some_and(|of_rule| std::ptr::eq(of_rule, table))
}

// What is before a task is a part of the project up to this separator; none where the words are no tasks.
fn tasks(table: &Table) -> Option<&'static str> {
    match table.operands {
        Operands::Tasks(separator) => Some(separator),
        _ => None,
    }
}

// Whether the next level of a rule is after any options. Any task counts, wherever it is. Once an option's arity is unknown, each later word counts.
fn subcommand_matches(
    program: &str,
    elements: &[Element],
    words: &[Word],
    table: Option<&Table>,
    options: &'static str,
) -> bool {
    let Some(element) = elements.first() else { return true };
    let separator = table.and_then(tasks);
    let mut loose = separator.is_some();
    let mut at = 0;
    while at < words.len() {
        let word = &words[at];
        at += 1;
        if !word.literal {
            return true;
        }
        let text = word.text.strip_prefix("./").unwrap_or(&word.text);
        let task =
            separator.filter(|separator| !separator.is_empty()).and_then(|separator| text.rsplit(separator).next());
        let is = |known: &String| {
            is_subcommand(program, table, known, text)
                || task.is_some_and(|task| is_subcommand(program, table, known, task))
        };
        let below = || {
            let sub = table.and_then(|table| table.subcommands.iter().find(|sub| named(sub.names, &word.text)));
            subcommand_matches("", &elements[1..], &words[at..], sub, sub.map(|sub| sub.options).unwrap_or_default())
        };
        if element.0.iter().any(is) && below() {
            return true;
        }
        // `cargo +nightly`; npm takes `true` and `false` after a flag as its value.
        if word.text.starts_with('+') || matches!(word.text.as_str(), "true" | "false" | "null") {
            continue;
        }
        if word.text.len() > 1 && word.text.starts_with('-') {
            match arity(options, &word.text) {
                _ if word.text == "--" || word.text.contains('=') => {}
                Some(taken) => at += taken,
                None => loose = true,
            }
            continue;
        }
        if !loose {
            return false;
        }
    }
    false
}

// Whether a word names a subcommand: as it is written, by another name, or abbreviated where the program takes that.
fn is_subcommand(program: &str, table: Option<&Table>, known: &str, word: &str) -> bool {
    let (known, word) = (fold_name(known), fold_name(word));
    if known == word {
        return true;
    }
    let groups = build::ALIASES.iter().filter(|(programs, _)| named(programs, program)).flat_map(|(_, groups)| *groups);
    let names = groups.into_iter().find(|names| named(names, &known)).copied().unwrap_or(&known);
    let is_exact = || {
        let tables = table.map_or(&[][..], |table| table.subcommands);
        tables.iter().any(|sub| named(sub.names, &word))
    };
    named(names, &word)
        || build::ABBREVIATES.contains(&program)
            && !word.is_empty()
            && names.split(' ').any(|name| name.starts_with(&word))
            && !is_exact()
}

// Whether an option is there in any spelling, before `--`.
fn has_option(option: &str, words: &[Word], options: &'static str) -> bool {
    for word in words {
        if word.literal && word.text == "--" {
            return false;
        }
        if !word.literal && !word.is_process() {
            return true;
        }
        let text = word.text.as_str();
        let matches = if let Some(letter) = option.strip_prefix('-').filter(|rest| rest.chars().count() == 1) {
            text.starts_with('-') && !text.starts_with("--") && bundled(text, letter, options)
        } else if option.starts_with("--") {
            let name = text.split('=').next().unwrap_or(text);
            name.len() > 2 && option.starts_with(name)
        } else {
            let name = text.split('=').next().unwrap_or(text);
            name == option || name.strip_prefix('-').is_some_and(|name| name == option)
        };
        if matches {
            return true;
        }
    }
    false
}

// Whether a letter is in a bundle before one that takes the rest as its value.
fn bundled(word: &str, letter: &str, options: &'static str) -> bool {
    for (index, c) in word.char_indices().skip(1) {
        if letter.starts_with(c) {
            return true;
        }
        let takes_rest = arity(options, &format!("-{c}")) == Some(1);
        if takes_rest && index + c.len_utf8() < word.len() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::policy::layers::{LayerText, Standing, no_parents};

    fn denies(rule: &str, command: &str) -> bool {
        let text = format!("version: 1\nshell: {{default: allow, deny: [{{cmd: {rule}}}]}}\n");
        let layer = LayerText { name: "p.yaml".into(), text, standing: Standing::Operator };
        let policy = Policy::new(&layer, &[], &no_parents).unwrap();
        let words: Vec<Word> = command.split(' ').map(Word::literal).collect();
        policy.layers.iter().any(|layer| denied_by(layer, &words).is_some())
    }

    #[test]
    fn a_task_is_denied_wherever_it_is_and_by_each_name_of_its_program() {
        for (rule, commands) in [
            (
                "[make, deploy]",
                &["make deploy", "make -j 4 deploy", "make all deploy", "make X=1 deploy", "gmake deploy"][..],
            ),
            ("[mvn, deploy]", &["mvn clean deploy", "./mvnw -q deploy", "mvn -pl app test deploy"]),
            (
                "[gradle, publish]",
                &["gradle build publish", "gradle :publish", "gradle :app:publish", "./gradlew publish"],
            ),
            ("[rake, 'db:drop']", &["rake test db:drop"]),
            ("[pip, install]", &["pip3 install x"]),
            ("[yarn, publish]", &["yarnpkg publish"]),
            ("[npm, test]", &["npm t"]),
            ("[find]", &["gfind docs", "find ."]),
            ("[python3, manage.py]", &["python3 ./manage.py"]),
            ("[rm], options: {deny: [--recursive]}", &["rm -r x", "rm -fR x", "rm --rec x"]),
            ("[git, commit], options: {deny: [--no-verify]}", &["git commit -n -m x", "git commit -nm x"]),
            (
                "[git, log], options: {deny: [-p]}",
                &["git log -u", "git log --patch-with-stat", "git log -U3", "git log --cc -1", "git log -L1,2:a"],
            ),
            ("[cargo, test], options: {deny: [--release]}", &["cargo test -r", "cargo t -r"]),
        ] {
            for command in commands {
                assert!(denies(rule, command), "{rule}: {command}");
            }
        }
        for (rule, command) in [
            ("[make, deploy]", "make all test"),
            ("[make, deploy]", "make deploy-docs"),
            ("[gradle, publish]", "gradle :publish:check"),
            ("[cat]", "head README.md"),
            ("[git, push]", "git log push"),
            ("[cargo, test]", "cargo build"),
            ("[git, push], options: {deny: [-n]}", "git push --no-verify"),
        ] {
            assert!(!denies(rule, command), "{rule}: {command}");
        }
    }
}
