//! Describes what known programs do with their words: one table per program.

mod apply;
pub(crate) mod awk;
pub(crate) mod build;
mod clients;
pub(crate) mod files;
pub(crate) mod find;
pub(crate) mod git;
mod hidden;
mod input;
pub(crate) mod interpreters;
pub(crate) mod jq;
mod judgement;
pub(crate) mod made;
mod options;
mod passed;
mod pattern;
mod search;
pub(crate) mod sed;
pub(crate) mod specs;
mod spelling;
pub(crate) mod table;
mod tar;
pub(crate) mod text;
pub(crate) mod unknown;
pub(crate) mod untabled;
mod word;
pub(crate) mod words;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::decision::Denial;
use spelling::is_plain_in_shell;

pub(crate) use build::is_toolchain;
pub use judgement::{CommandRules, Judged, Judgement};
pub(crate) use spelling::{begins_like_an_option, is_listed};
pub(crate) use unknown::code_among;
pub use word::{Stdin, Word};

/// Returns the table by which a rule of a file has a program judged. Interpreters and launchers run anything: for them
/// such a rule lists what they get, and so it does for tools of which a table covers only what is everyday.
pub(crate) fn find_for_rules(name: &str) -> Option<&'static table::Table> {
    let name = super::names::unversioned(name);
    let describes = |table: &&table::Table| {
        table.operands != table::Operands::Starts && !interpreters::reads_code(name) && !build::is_of_ci_dev(name)
    };
    find(name).filter(describes)
}

/// Programs that run where the kernel holds nothing: they read files and print, and no option of theirs that a table
/// lets through does more. Of git the subcommands that only read belong to them.
pub const PLAIN_READERS: &str = "cat head tail wc ls tree stat file diff cmp sort uniq cut tr nl grep rg echo printf test pwd \
    basename dirname git";

/// Programs with a language in their arguments, each for its kin; interpreters are known by themselves.
const LANGUAGES: [&str; 4] = ["awk", "sed", "jq", "xargs"];

/// Tells whether a program is one of [`PLAIN_READERS`], by its bare name.
pub(crate) fn is_plain_reader(name: &str) -> bool {
    super::names::named(PLAIN_READERS, name)
}

/// Tells whether a program takes another program in its arguments; `starts`: it was found to start one.
pub(crate) fn has_language(name: &str, starts: bool) -> bool {
    let is_known = |table: &table::Table| LANGUAGES.iter().any(|known| super::names::named(table.names, known));
    starts || interpreters::reads_code(name) || find(name).is_some_and(is_known)
}

/// Tells whether a table describes everything that its program does, so that it needs no network.
///
/// Programs that make, move and pack files are described completely; others that write run code of the workspace, or
/// download.
fn is_described(table: &table::Table) -> bool {
    table.writes_nothing && !git::reaches_hosts(table) || files::TABLES.iter().any(|known| known.names == table.names)
}

/// Tools for building, and programs without a table, to which a word that begins with `@` is that word: a package, a
/// label, an alias, a place on the network, a user.
const TAKES_AT: &str = "npm pnpm yarn yarnpkg npx pnpx bunx bun deno corepack lerna nx turbo rush ng changeset ncu eslint eslint_d prettier \
    jest vitest mocha biome stylelint standard xo bazel bazelisk dune curl curlie wget wget2 http https xh dig drill kdig host gh glab hub \
    drush wp cucumber ssh scp rsync elm vercel netlify systemctl sd say cowsay logger";

/// Tells whether a program takes a word that begins with `@` for what it says, where others read words from a file.
fn takes_at(name: &str) -> bool {
    let builds = || build::TABLES.iter().flat_map(|tables| *tables).any(|table| super::names::named(table.names, name));
    super::names::named(TAKES_AT, name) || name != "strings" && find(name).is_some() && !builds()
}

/// Refuses, where rules list what may not run, what no program of that name is given: code, and settings of the user.
pub(crate) fn refuse_always(call: &table::Call<'_>, table: Option<&table::Table>) -> Result<(), Denial> {
    interpreters::refuse_text(call)?;
    refuse_lines(call)?;
    build::toolchain(call)?;
    let texts: Vec<&str> = call.words[1..].iter().map(|word| word.text.as_str()).collect();
    let reads = table.is_some_and(|table| table.writes_nothing && table.subcommands.is_empty());
    let has_verbs = table.is_none_or(|table| !table.subcommands.is_empty());
    if reads || !untabled::leaves_work(&call.name, &texts, has_verbs) {
        return Ok(());
    }
    let denial = call.deny("it changes what runs, or what is set, outside this run").by("G4");
    Err(denial.hint("keep settings in files of the workspace"))
}

/// Programs whose recipes put the words of the command line into lines of a shell; each has `NAME=value` among them, and
/// most take more words for parameters.
const RECIPES: &str = "just task go-task bmake pmake nmake remake mk scons waf doit invoke inv fab tup earthly mask makers xmake rake drake";

/// Refuses words of a program with recipes that would be more than one plain word in a line of a shell.
pub(crate) fn refuse_lines(call: &table::Call<'_>) -> Result<(), Denial> {
    if !super::names::named(RECIPES, super::names::base_name(&call.words[0].text)) {
        return Ok(());
    }
    match call.words[1..].iter().find(|word| !word.literal || !word.text.chars().all(is_plain_in_shell)) {
        Some(word) => Err(call.code(format!("`{}` may become more than one word in a line of a shell", word.text))),
        None => Ok(()),
    }
}

/// Refuses what a rule that describes a program does not speak of: input that may be commands, and words that a recipe may
/// put into a line of a shell. `declared`: the rule says what the operands are. An interpreter gives its input to the
/// script that comes first.
pub(crate) fn refuse_undeclared(call: &table::Call<'_>, declared: bool) -> Result<(), Denial> {
    refuse_lines(call)?;
    let name = super::names::base_name(&call.words[0].text);
    let is_script =
        |word: &Word| word.literal && !word.text.starts_with('-') && !matches!(word.text.as_str(), "inspect" | "debug");
    let is_data = match interpreters::reads_code(name) {
        true => !interpreters::is_editor(name) && call.words.get(1).is_some_and(is_script),
        false => declared && clients::clients(name).is_empty() && find(name).is_none(),
    };
    if is_data { Ok(()) } else { call.refuse_input() }
}

fn takes_data(call: &table::Call<'_>) -> bool {
    let program = call.words[0].text.as_str();
    let name = super::names::unversioned(clients::stem(super::names::base_name(program)));
    let table = find(name);
    let builds =
        |table: &table::Table| build::TABLES.iter().flat_map(|tables| *tables).any(|known| known.names == table.names);
    let is_known = table.is_some() || !clients::clients(name).is_empty() || interpreters::reads_code(name);
    // A program of the project, and none that goes by a known name.
    if table.is_some_and(|table| !builds(table)) || program.contains('/') && !is_known {
        return true;
    }
    let texts = || call.words[1..].iter().map(|word| word.text.as_str());
    let verb = call.name.split(' ').nth(1).or_else(|| texts().find(|text| !text.starts_with('-')));
    // An interpreter's own options end with its first operand: what follows is its script's.
    let ends = |text: &&str| interpreters::reads_code(name) && (*text == "-" || !text.starts_with('-'));
    let has = |option: &str| call.has(option) || texts().take_while(|text| !ends(text)).any(|text| text == option);
    input::is_data_to(name, verb.unwrap_or_default(), has)
}

/// What the tables ask of each other.
pub(crate) static KNOWN: table::Known = table::Known { find, takes_at, takes_data, is_described };

/// Returns what of the words of a client or an evaluator is code; none of them is an option.
pub(crate) fn code_of(name: &str, words: &[&str]) -> Option<&'static str> {
    clients::code_of(name, words, false)
}

/// Returns every table.
pub(crate) fn all() -> impl Iterator<Item = &'static table::Table> {
    static LONE: &[table::Table] = &[git::GIT, find::FIND, find::XARGS, sed::SED, awk::AWK, jq::JQ];
    [LONE, text::TABLES, files::TABLES].into_iter().chain(build::TABLES).flatten()
}

/// Tells whether a program is known to write nothing, by its bare name.
pub fn only_reads(name: &str) -> bool {
    find(name).is_some_and(|table| table.writes_nothing)
}

/// Tells whether a program starts the command in its words (`env`, `timeout`, `xargs`).
pub fn starts_another(name: &str) -> bool {
    name == "xargs" || crate::policy::shell::WRAPPERS.contains(&name)
}

/// Returns git's subcommand and the word after it, in the words of a command that starts git, by itself or through a
/// program that starts another; empty where it has none.
pub fn git_verb(words: &[impl AsRef<str>]) -> Option<(&str, &str)> {
    let name = |word: &str| word.rsplit('/').next() == Some("git");
    let first = words.first()?.as_ref();
    let git = match name(first) {
        true => 0,
        false if starts_another(first) => words.iter().position(|word| name(word.as_ref()))?,
        false => return None,
    };
    let mut rest = words[git + 1..].iter().map(AsRef::as_ref);
    while let Some(word) = rest.next() {
        if !word.starts_with('-') {
            return Some((word, rest.next().unwrap_or_default()));
        }
        for _ in 0..specs::arity(git::GIT.options, word).unwrap_or(0) {
            rest.next();
        }
    }
    Some(("", ""))
}

/// Returns the table of a program, by its bare name.
pub(crate) fn find(name: &str) -> Option<&'static table::Table> {
    static BY_NAME: LazyLock<HashMap<&str, &table::Table>> = LazyLock::new(|| {
        all().flat_map(|table| table.names.split_whitespace().map(move |name| (name, table))).collect()
    });
    BY_NAME.get(super::names::unversioned(name)).copied()
}
