//! Defines tables of programs, and a command while its table is applied.

use std::path::Path;

use super::made::Made;
use super::word::{Stdin, Word};
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::names::base_name;
use crate::policy::paths::PathRules;
use crate::policy::{Facts, Policy};

/// A program as a table. Options are written as words: `-n,--lines=D` (all spellings, then the kind of value). Before
/// an option `!`: it loads code or configuration, and is denied unless a rule lists it, where rules list what may run;
/// `~`: as `!`, but usual and harmless: `builtin:ci-dev` allows it; `!!`: denied everywhere, since it runs programs; `!$`:
/// as `!`, and where rules list what may not run, its code or command cannot be analysed.
/// Kinds of value: `D` data, `R` a file that is read, `W` one that is written, `L` one of which only metadata is read,
/// `T` a directory read with all below, `E` a directory to work in, `I` the program's own directory inside, `O` a
/// directory written below, `F` a list of files, always denied, as its contents are unknown, `N` a bare name that is
/// not a file, `P` a name, or a file that is read, `C` cargo's `KEY=VALUE` or a file, `G` a revision of git, `H` a filter of packages, `V` text
/// in which each part that looks like a path is read, `X` globs of files inside, `A` data that may begin with `@` and a name: a
/// tag or a set of rules, `B` `NAME=VALUE` that switches something on or off, `{a|b*}` one of these words. `=?D`:
/// only attached; `=*D`: attached, or the next word if there is one; `=+D`: that and all words up to the next option;
/// `=>`: all later words are the started program's; `-NUM`: `-` and digits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// Names of the program.
    pub(crate) names: &'static str,
    /// Options, as above.
    pub(crate) options: &'static str,
    /// What the words are that are no options.
    pub(crate) operands: Operands,
    /// How options are spelled.
    pub(crate) style: Style,
    /// It writes nothing unless an option or operand says so.
    pub(crate) writes_nothing: bool,
    /// It takes the next word for an option's value even if that begins with a dash, as getopt does; others read an
    /// option there.
    pub(crate) dash_values: bool,
    /// Reads the operands where no general kind fits, and what the options mean together.
    pub(crate) special: Option<Special>,
    /// What is after `--`.
    pub(crate) dashes: Dashes,
    /// Tables of its subcommands; where there are any, `options` are the ones before them. `*` is any other word.
    pub(crate) subcommands: &'static [Table],
}

/// Reads what a table's columns cannot say.
pub(crate) type Special = fn(&mut Call<'_>) -> Result<(), Denial>;

/// What operands are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operands {
    /// Text.
    Data,
    /// Revisions of git.
    Revisions,
    /// Code, or a command, that no rule can examine.
    Code,
    /// Files that are read; `-` is the standard input.
    Read,
    /// Paths of which only names and metadata are read.
    List,
    /// The first one is a pattern or program text unless one of the options named gave it; the others are read.
    TextThenRead(&'static str),
    /// Files that are created or changed.
    Write,
    /// Files or directories, with a place in them after a colon (`tests/a.py::name`, `spec/a_spec.rb:12`).
    Inside,
    /// As `Inside`, and written where one of the options named is there.
    WrittenWith(&'static str),
    /// As `Inside`, and written unless one of the options named is there.
    WrittenWithout(&'static str),
    /// Tasks, of which the rule must list each; before this separator is the part of the project it is for.
    Tasks(&'static str),
    /// The name of a script that the rule must list, then the script's own words.
    Script,
    /// The words of a command that is started.
    Starts,
    /// What `special` decides about them.
    Special,
    /// `special` reads all words itself.
    Raw,
    /// There may be none.
    None,
}

/// What words after `--` are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Dashes {
    /// Operands.
    Operands,
    /// Words for a program of the project: none may lead out of the workspace.
    Passed,
    /// Words that this table reads.
    Table(&'static Table),
}

/// How options are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// GNU: short ones bundle, long ones may be abbreviated, words may be in any order.
    Gnu,
    /// As GNU, but long ones are written out.
    Whole,
    /// As `Whole`, but a letter that takes a value is the last one of its word: what is after it may be more letters.
    Last,
    /// As GNU, but the first operand ends the options.
    First,
    /// Long ones with one dash or two; nothing bundles.
    SingleDash,
}

pub(crate) const TABLE: Table = Table {
    names: "",
    options: "",
    operands: Operands::Read,
    style: Style::Gnu,
    writes_nothing: true,
    dash_values: true,
    special: None,
    dashes: Dashes::Operands,
    subcommands: &[],
};

/// Whether rules list what may run, or what may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `shell.default: deny`.
    Strict,
    /// `shell.default: allow`.
    Open,
}

/// An option as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The first spelling of the table; of an unknown one, as written.
    pub(crate) name: String,
    pub(crate) value: Option<Word>,
    /// How many operands are before it.
    pub(crate) at: usize,
}

/// What surrounds a command.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) mode: Mode,
    pub(crate) paths: &'a PathRules<'a>,
    pub(crate) folders: &'a [RelPath],
    pub(crate) stdin: Stdin,
    pub(crate) root: &'a Path,
    /// Globs of the rules that are never read, for exclusions.
    pub(crate) never_read: &'a [String],
    pub(crate) policy: &'a Policy,
    pub(crate) facts: &'a Facts,
    /// Directories that other parts of the same command make.
    pub(crate) made: &'a Made,
    /// The other tables.
    pub(crate) known: &'static Known,
}

/// What a table asks about other programs.
pub(crate) struct Known {
    /// Returns the table of a program, by its bare name.
    pub(crate) find: fn(&str) -> Option<&'static Table>,
    /// Tells whether a program takes a word that begins with `@` for what it says.
    pub(crate) takes_at: fn(&str) -> bool,
    /// Tells whether a program takes its standard input for data.
    pub(crate) takes_data: fn(&Call<'_>) -> bool,
    /// Tells whether a table describes everything that its program does.
    pub(crate) is_described: fn(&Table) -> bool,
}

/// One command while its table is applied.
pub(crate) struct Call<'a> {
    pub(crate) cx: Context<'a>,
    /// The program's words, itself first.
    pub(crate) words: &'a [Word],
    /// Its name, for messages.
    pub(crate) name: String,
    pub(crate) found: Vec<Found>,
    pub(crate) operands: Vec<Word>,
    /// How many operands are before `--`; `None` without one.
    pub(crate) dashes: Option<usize>,
    /// Unknown options were passed over.
    pub(crate) unknown: bool,
    /// Targets or subcommands that the allow rule lists after the program's name.
    pub(crate) listed: &'a [Vec<String>],
    /// The rule is one of `builtin:ci-dev`.
    pub(crate) everyday: bool,
    /// Options that the rule lists.
    pub(crate) granted: Vec<&'a str>,
    pub(crate) out: Out,
}

/// What a command does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) effects: Vec<Effect>,
    pub(crate) starts: Vec<Vec<Word>>,
    /// Programs of the workspace that it runs: they must be as they were when the run began.
    pub(crate) unchanged: Vec<RelPath>,
    /// Files that it writes and whose meaning it keeps.
    pub(crate) formatted: Vec<String>,
    pub(crate) writes: bool,
    pub(crate) writes_git: bool,
    /// Directories that it works in or keeps its own files in.
    pub(crate) directories: Vec<String>,
    /// Its words do not tell all that it does.
    pub(crate) open_ended: bool,
    pub(crate) printed: Option<Vec<Word>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(cx: Context<'a>, words: &'a [Word], listed: &'a [Vec<String>]) -> Call<'a> {
        // A program is judged the same by whatever path it is named.
        let name = words.first().map(|word| base_name(&word.text).to_owned()).unwrap_or_default();
        Call {
            cx,
            words,
            name,
            found: Vec::new(),
            operands: Vec::new(),
            dashes: None,
            unknown: false,
            listed,
            everyday: false,
            granted: Vec::new(),
            out: Out::default(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.cx.mode == Mode::Open
    }

    /// A denial that names the program.
    pub(crate) fn deny(&self, what: impl std::fmt::Display) -> Denial {
        Denial::new(format!("{}: {what}", self.name)).by("G8")
    }

    // What a build writes there is judged as a diff later; the directory itself must be inside and unprotected.
    pub(crate) fn own_folder(&self, word: &Word) -> Result<(), Denial> {
        for folder in self.cx.folders {
            self.cx.paths.own_folder(folder, Path::new(&word.text))?;
        }
        Ok(())
    }

    /// Refuses input to a program that is not known to take it for data. What the program starts is judged by itself.
    pub(crate) fn refuse_input(&self) -> Result<(), Denial> {
        if matches!(self.cx.stdin, Stdin::Empty | Stdin::Taken)
            || !self.out.starts.is_empty()
            || (self.cx.known.takes_data)(self)
        {
            return Ok(());
        }
        let what = format!("{}: what it reads on its standard input may be commands or code", self.name);
        let denial = if self.is_open() { Denial::unanalysable(what).by("G3") } else { Denial::new(what).by("G6") };
        Err(denial.hint("name the files that it is to read, and give it no input"))
    }

    /// Tells whether an option is there; by the first spelling of the table.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.found.iter().any(|found| found.name == name)
    }

    /// Tells whether an option is there and not switched off, as yargs takes `--check=false`.
    pub(crate) fn has_on(&self, name: &str) -> bool {
        let is_off = |found: &Found| found.value.as_ref().is_some_and(|value| value.text == "false");
        self.found.iter().any(|found| found.name == name && !is_off(found))
    }

    /// Returns the values of an option, by the first spelling of the table.
    pub(crate) fn values(&self, name: &str) -> Vec<Word> {
        self.found.iter().filter(|found| found.name == name).filter_map(|found| found.value.clone()).collect()
    }

    pub(crate) fn effect(&mut self, make: fn(String) -> Effect, word: &Word) {
        if word.literal {
            self.out.effects.push(make(word.text.clone()));
        }
    }

    /// A file that is read; `-` is the standard input, and `/dev/null` has nothing.
    pub(crate) fn read(&mut self, word: &Word) {
        if word.text != "-" && word.text != "/dev/null" {
            self.effect(Effect::Read, word);
        }
    }

    pub(crate) fn read_tree(&mut self, word: &Word, follow_links: bool) {
        if word.literal && word.text != "-" {
            self.out.effects.push(Effect::tree(&word.text, follow_links));
        }
    }

    /// A file that is written; a word that is not known becomes one that no rule allows.
    pub(crate) fn write(&mut self, word: &Word) {
        // What others do to it may put a file into its place.
        if word.literal && word.text == "/dev/null" && self.name == "tee" {
            return;
        }
        self.out.writes = true;
        self.out.effects.push(Effect::Write(if word.literal { word.text.clone() } else { String::new() }));
    }

    /// Tells whether a directory that is there may be replaced: another part of the command removes it.
    pub(crate) fn may_be_replaced(&self, path: &str) -> Result<bool, Denial> {
        for folder in self.cx.folders {
            if self.cx.made.may_be_removed(&self.cx.paths.unfollowed(folder, Path::new(path))?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells whether the last part of a path is a link now.
    pub(crate) fn is_link(&self, path: &str) -> Result<bool, Denial> {
        for folder in self.cx.folders {
            if self.cx.paths.resolve(folder, Path::new(path))?.last_is_link {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is at a path, links followed: a directory if it is one from any of the directories that this may run in.
    pub(crate) fn node(&self, path: &str) -> Result<Option<Node>, Denial> {
        let mut found = None;
        for folder in self.cx.folders {
            let node = self.cx.paths.resolve(folder, Path::new(path))?.node;
            if node == Some(Node::Dir) {
                return Ok(node);
            }
            found = found.or(node);
        }
        Ok(found)
    }
}
