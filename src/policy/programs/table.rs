//! Reads a program's words by its table: options in every spelling, operands, and what each does to files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

use super::words::{begins_like_an_option, hidden_path};
use super::{Stdin, Word};
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::paths::PathRules;
use crate::policy::{Facts, Policy};

/// A program as a table. Options are written as words: `-n,--lines=D` (all spellings, then the kind of value). Before
/// an option `!`: it loads code or configuration, and is denied unless a rule lists it, where rules list what may run;
/// `~`: as `!`, but usual and harmless: `builtin:ci-dev` allows it; `!!`: denied everywhere, since it runs programs; `!$`:
/// as `!`, and where rules list what may not run, its code or command cannot be analysed.
/// Kinds of value: `D` data, `R` a file that is read, `W` one that is written, `L` one of which only metadata is read,
/// `T` a directory read with all below, `E` a directory to work in, `I` the program's own directory inside, `O` a
/// directory written below, `F` a list of files, always denied, as its contents are unknown, `N` a bare name that is
/// not a file, `P` a name, or a file that is read, `C` cargo's `KEY=VALUE` or a file, `G` a revision of git, `V` text
/// in which each part that looks like a path is read, `X` globs of files inside, `A` data that may begin with `@` and a name: a
/// tag or a set of rules, `{a|b*}` one of these words. `=?D`:
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
}

/// What the parts of one command make: a destination that does not exist yet may be a directory when it is written.
#[derive(Debug, Default)]
pub(crate) struct Made {
    inner: Mutex<MadeBy>,
}

#[derive(Debug, Default)]
struct MadeBy {
    /// The number of the part that is judged now.
    part: usize,
    /// Part, path, and whether anything below it may be a directory, too.
    paths: Vec<(usize, PathBuf, bool)>,
    /// Part, and a path that it removes or moves away.
    removed: Vec<(usize, PathBuf)>,
    met: bool,
}

impl Made {
    fn inner(&self) -> MutexGuard<'_, MadeBy> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the command anew; tells whether a part asked for what another one makes.
    pub(crate) fn again(&self) -> bool {
        let mut inner = self.inner();
        inner.part = 0;
        std::mem::take(&mut inner.met) && !(inner.paths.is_empty() && inner.removed.is_empty())
    }

    /// Begins the next part.
    pub(crate) fn next(&self) {
        self.inner().part += 1;
    }

    /// Notes a directory that the part makes.
    pub(crate) fn make(&self, path: PathBuf, below: bool) {
        let mut inner = self.inner();
        let entry = (inner.part, path, below);
        if !inner.paths.contains(&entry) {
            inner.paths.push(entry);
        }
    }

    /// Notes what the part removes: what is there now may be another thing when a later part looks.
    pub(crate) fn remove(&self, path: PathBuf) {
        let mut inner = self.inner();
        let entry = (inner.part, path);
        if !inner.removed.contains(&entry) {
            inner.removed.push(entry);
        }
    }

    /// Tells whether another part may remove what is at this path.
    pub(crate) fn may_be_removed(&self, path: &Path) -> bool {
        let mut inner = self.inner();
        inner.met = true;
        inner.removed.iter().any(|(part, removed)| *part != inner.part && path.starts_with(removed))
    }

    /// Tells whether another part may make a directory of this path.
    pub(crate) fn may_be_directory(&self, path: &Path) -> bool {
        let mut inner = self.inner();
        inner.met = true;
        inner.paths.iter().any(|(part, made, below)| {
            *part != inner.part && (made == path || made.starts_with(path) || (*below && path.starts_with(made)))
        })
    }
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
    pub(crate) writes: bool,
    pub(crate) writes_git: bool,
    /// Directories that it works in or keeps its own files in.
    pub(crate) directories: Vec<String>,
    /// Its words do not tell all that it does.
    pub(crate) open_ended: bool,
    pub(crate) printed: Option<Vec<Word>>,
}

/// One option of a table.
#[derive(Debug, Clone)]
struct Spec {
    names: Vec<&'static str>,
    denied: Denied,
    value: Value,
    kind: char,
    choices: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denied {
    Never,
    Usual,
    Strict,
    Code,
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    Required,
    Attached,
    NextIfAny,
    Several,
    Rest,
}

/// Splits a table's options, once for each table: a command of twenty programs would split as many long texts.
fn specs(options: &'static str) -> Arc<[Spec]> {
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

impl<'a> Call<'a> {
    pub(crate) fn new(cx: Context<'a>, words: &'a [Word], listed: &'a [Vec<String>]) -> Call<'a> {
        let name = words.first().map(|word| word.text.clone()).unwrap_or_default();
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

    /// Applies a table to the words after the program's name (or after the subcommand's), and judges what it is given on
    /// its standard input.
    pub(crate) fn apply(&mut self, table: &Table, words: &[Word]) -> Result<(), Denial> {
        self.apply_words(table, words)?;
        super::refuse_input(self)
    }

    fn apply_words(&mut self, table: &Table, words: &[Word]) -> Result<(), Denial> {
        // `git stash list`: a subcommand of the subcommand, with other options. Any other word is an operand.
        if let Some((first, rest)) = words.split_first().filter(|(first, _)| first.literal)
            && let Some(sub) = table.subcommands.iter().find(|sub| sub.names.split(' ').any(|name| name == first.text))
        {
            self.name = format!("{} {}", self.name, first.text);
            return self.apply_words(sub, rest);
        }
        if !table.subcommands.is_empty() {
            return self.apply_words(&Table { subcommands: &[], ..*table }, words);
        }
        self.out.writes |= !table.writes_nothing;
        self.out.open_ended |= !super::is_described(table);
        if table.operands == Operands::Raw {
            return table.special.map_or(Ok(()), |special| special(self));
        }
        self.parse(table, words)?;
        // If an option is unknown, it is also unknown which word is written.
        if self.unknown && !table.writes_nothing && super::is_described(table) {
            return Err(self.deny("an option of it is not known").hint("leave it out"));
        }
        self.values_of_unknown(table)?;
        let operands = std::mem::take(&mut self.operands);
        match table.operands {
            Operands::Special | Operands::Raw | Operands::Data => {}
            Operands::Revisions => super::git::revisions_named(self, &operands)?,
            Operands::Code => return Err(self.code("code, or a command, among its words")),
            Operands::Read => operands.iter().for_each(|word| self.read(word)),
            Operands::List => operands.iter().for_each(|word| self.effect(Effect::List, word)),
            Operands::Write => operands.iter().for_each(|word| self.write(word)),
            Operands::Inside => operands.iter().try_for_each(|word| self.inside(word))?,
            Operands::WrittenWith(options) => {
                let writes = options.split(',').any(|name| self.has(name));
                operands.iter().try_for_each(|word| self.formatted(word, writes))?;
            }
            Operands::WrittenWithout(options) => {
                let writes = !options.split(',').any(|name| self.has(name));
                operands.iter().try_for_each(|word| self.formatted(word, writes))?;
            }
            // A table that parses the words itself names the tasks.
            Operands::Tasks(separator) if table.special.is_none() => self.tasks(separator, &operands)?,
            Operands::Tasks(_) => {}
            Operands::Script => self.script(&operands)?,
            Operands::Starts => self.launches(&operands)?,
            Operands::TextThenRead(options) => {
                let given = options.split(',').any(|name| self.has(name));
                let recursive = table.special.is_some();
                for word in operands.iter().skip(usize::from(!given)).filter(|_| !recursive) {
                    self.read(word);
                }
            }
            Operands::None => {
                if let Some(word) = operands.first() {
                    return Err(self.deny(format!("takes no operand such as `{}`", word.text)));
                }
            }
        }
        self.operands = operands;
        match table.special {
            Some(special) if !asks(table, words) => special(self),
            Some(_) | None => Ok(()),
        }
    }

    /// A denial that names the program.
    pub(crate) fn deny(&self, what: impl std::fmt::Display) -> Denial {
        Denial::new(format!("{}: {what}", self.name)).by("G8")
    }

    // The word after an option that is not known may be its value: a file that is read, or written.
    fn values_of_unknown(&mut self, table: &Table) -> Result<(), Denial> {
        self.unknown_words(table)?;
        if table.operands != Operands::Starts {
            self.operands.iter().try_for_each(|word| self.no_response_file(word))?;
        }
        if !self.unknown {
            return Ok(());
        }
        let specs = specs(table.options);
        let known = |found: &Found| specs.iter().any(|spec| spec.names.contains(&found.name.as_str()));
        let after = self.found.iter().filter(|found| found.value.is_none() && !known(found));
        let values: Vec<Word> = after.filter_map(|found| self.operands.get(found.at).cloned()).collect();
        for value in values.iter().filter(|value| value.text != "-") {
            self.effect(Effect::Read, value);
            if !table.writes_nothing {
                self.effect(Effect::Write, value);
            }
        }
        Ok(())
    }

    // Words that xargs adds are operands of programs that read or print, and of nothing else.
    fn unknown_words(&self, table: &Table) -> Result<(), Denial> {
        let unknown = |word: &Word| !word.literal && !word.is_process();
        if self.found.iter().any(|found| found.value.as_ref().is_some_and(unknown)) {
            return Err(self.deny("an option's value is not known"));
        }
        let Some(first) = self.operands.iter().position(unknown) else { return Ok(()) };
        let ended = self.dashes.is_some_and(|dashes| first >= dashes);
        let harmful = specs(table.options).iter().any(|spec| {
            matches!(spec.denied, Denied::Always | Denied::Code)
                || (spec.value != Value::None && matches!(spec.kind, 'W' | 'O'))
        });
        let reads = match table.operands {
            Operands::Data | Operands::Revisions | Operands::Read | Operands::List => true,
            Operands::TextThenRead(_) => first > 0 || self.found.iter().any(|found| found.name == "-e"),
            Operands::Code
            | Operands::Write
            | Operands::Inside
            | Operands::WrittenWith(_)
            | Operands::WrittenWithout(_)
            | Operands::Tasks(_)
            | Operands::Script
            | Operands::Starts
            | Operands::Special
            | Operands::Raw
            | Operands::None => false,
        };
        if !reads || self.out.writes || (harmful && !ended) {
            let denial = self.deny("the words that are added to it are not known");
            return Err(denial.hint("write the command for files that you name"));
        }
        Ok(())
    }

    /// Reads words into options and operands.
    pub(crate) fn parse(&mut self, table: &Table, words: &[Word]) -> Result<(), Denial> {
        let specs = specs(table.options);
        let mut at = 0;
        while at < words.len() {
            let word = &words[at];
            at += 1;
            let text = word.text.as_str();
            let is_option =
                word.literal && (text.len() > 1 && text.starts_with('-') || is_slashed(&specs, table, text));
            if !is_option {
                self.operands.push(word.clone());
                if table.style == Style::First || !table.subcommands.is_empty() {
                    self.operands.extend(words[at..].iter().cloned());
                    break;
                }
                continue;
            }
            if text == "--" {
                self.dashes = Some(self.operands.len());
                self.behind_dashes(table, &words[at..])?;
                break;
            }
            // `-Wno-dev`, `-PskipTests=true`: a table names such a word as a whole.
            let name = text.split('=').next().unwrap_or(text);
            let whole = name.len() > 2 && specs.iter().any(|spec| spec.names.contains(&name));
            if table.style == Style::SingleDash || text.starts_with("--") || whole {
                at = self.long(&specs, table, word, words, at)?;
            } else {
                at = self.short(&specs, table, word, words, at)?;
            }
        }
        Ok(())
    }

    fn long(
        &mut self,
        specs: &[Spec],
        table: &Table,
        word: &Word,
        words: &[Word],
        mut at: usize,
    ) -> Result<usize, Denial> {
        let style = table.style;
        let (name, attached) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(Word { text: value.to_owned(), literal: word.literal })),
            None => (word.text.as_str(), None),
        };
        let double = format!("-{name}");
        let same = |known: &str| {
            known == name || (style == Style::SingleDash && (known == double || format!("-{known}") == name))
        };
        let exact = specs.iter().find(|spec| spec.names.iter().any(|known| same(known)));
        // `-j8`, `-T1C`, `-Pname`: a letter and its number or name.
        if let (Style::SingleDash, None, Some(rest)) = (style, exact, word.text.get(2..))
            && let Some(spec) =
                specs.iter().find(|spec| spec.names.contains(&&word.text[..2]) && spec.value != Value::None)
            && (spec.kind == 'N' && !rest.contains([':', '=']) || rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            self.option(spec, &word.text[..2], Some(Word::literal(rest)))?;
            return Ok(at);
        }
        // `--collect:NAME`, as MSBuild has it.
        if let (Style::SingleDash, None, Some((before, value))) = (style, exact, word.text.split_once(':'))
            && let Some(spec) = specs.iter().find(|spec| spec.names.contains(&before) && spec.value != Value::None)
        {
            self.option(spec, before, Some(Word::literal(value)))?;
            return Ok(at);
        }
        let spec = match exact {
            Some(spec) => Some(spec),
            None if matches!(style, Style::Gnu | Style::First) && name.len() > 2 => {
                let begins = |spec: &&Spec| spec.names.iter().any(|known| known.starts_with(name));
                let candidates: Vec<_> = specs.iter().filter(begins).collect();
                match candidates.as_slice() {
                    [one] => Some(*one),
                    [] => None,
                    _ if self.is_open() => None,
                    _ => return Err(self.deny(format!("`{name}` is ambiguous"))),
                }
            }
            None => None,
        };
        let Some(spec) = spec else {
            if !self.is_open() {
                return Err(self.deny(format!("the option `{name}` is not known to be harmless")));
            }
            self.may_mean_code(specs, name)?;
            self.unknown = true;
            self.note(name.to_owned(), attached.clone());
            attached.iter().try_for_each(|value| self.no_response_file(value))?;
            if let Some(value) = attached.filter(|value| !value.text.is_empty()) {
                self.out.effects.push(Effect::Read(value.text.clone()));
                self.out.effects.push(Effect::Write(value.text));
            }
            return Ok(at);
        };
        let value = match spec.value {
            Value::None if attached.is_some() && !self.is_open() && spec.denied == Denied::Never => {
                return Err(self.deny(format!("the option `{name}` takes no value")));
            }
            Value::Rest => {
                let rest = attached.iter().chain(&words[at..]).cloned().collect();
                return self.rest(spec, rest).map(|()| words.len());
            }
            Value::None | Value::Attached => attached,
            Value::Required | Value::NextIfAny | Value::Several => match attached {
                Some(value) => Some(value),
                None => {
                    let next = self.next_value(table, spec, name, words.get(at))?;
                    at += usize::from(next.is_some());
                    next
                }
            },
        };
        self.needs_value(spec, name, value.as_ref())?;
        self.option(spec, name, value)?;
        self.further_values(spec, name, words, at)
    }

    // Many programs take the beginning of a long option for the whole.
    fn may_mean_code(&self, specs: &[Spec], name: &str) -> Result<(), Denial> {
        let begins = |spec: &Spec| name.len() > 3 && spec.names.iter().any(|known| known.starts_with(name));
        let refused = |spec: &&Spec| matches!(spec.denied, Denied::Always | Denied::Code) && begins(spec);
        match specs.iter().find(refused) {
            None => Ok(()),
            Some(spec) if spec.denied == Denied::Code => Err(self.code(format!("code given by `{name}`"))),
            Some(_) => Err(self.deny(format!("`{name}` may mean an option that runs programs"))),
        }
    }

    fn short(
        &mut self,
        specs: &[Spec],
        table: &Table,
        word: &Word,
        words: &[Word],
        mut at: usize,
    ) -> Result<usize, Denial> {
        let style = table.style;
        let letters: Vec<(usize, char)> = word.text.char_indices().skip(1).collect();
        let digits = specs.iter().any(|spec| spec.names.contains(&"-NUM"));
        // `head -5c FILE` is an old way to write `-c 5`: there the letters after the digits take no value.
        let old_count = letters.first().is_some_and(|(_, letter)| letter.is_ascii_digit())
            && letters.iter().any(|(_, letter)| !letter.is_ascii_digit());
        if digits && old_count && matches!(self.name.as_str(), "head" | "tail") {
            return Err(self.deny(format!("the old way to count, `{}`", word.text)).hint("write `-n NUM` or `-c NUM`"));
        }
        for (index, letter) in &letters {
            let name = format!("-{letter}");
            let rest = &word.text[index + letter.len_utf8()..];
            let Some(spec) = specs.iter().find(|spec| spec.names.contains(&name.as_str())) else {
                if digits && letter.is_ascii_digit() {
                    self.note("-NUM".to_owned(), None);
                    continue;
                }
                if !self.is_open() {
                    return Err(self.deny(format!("the option `{name}` is not known to be harmless")));
                }
                self.unknown = true;
                self.note(name, None);
                // What follows the letter may be its value.
                hidden_path(&self.cx, rest)?;
                continue;
            };
            let takes = !matches!(spec.value, Value::None | Value::Rest);
            if style == Style::Last && takes && !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit()) {
                let denial = self.deny(format!("`{}`: the text after `{name}` may be more options", word.text));
                return Err(denial.hint(format!("write `{name}` and its value apart")));
            }
            let attached = (!rest.is_empty()).then(|| Word { text: rest.to_owned(), literal: word.literal });
            let value = match spec.value {
                Value::None => {
                    self.option(spec, &name, None)?;
                    continue;
                }
                Value::Rest => {
                    let rest = attached.iter().chain(&words[at..]).cloned().collect();
                    return self.rest(spec, rest).map(|()| words.len());
                }
                Value::Attached => attached,
                Value::Required | Value::NextIfAny | Value::Several => match attached {
                    Some(value) => Some(value),
                    None => {
                        let next = self.next_value(table, spec, &name, words.get(at))?;
                        at += usize::from(next.is_some());
                        next
                    }
                },
            };
            self.needs_value(spec, &name, value.as_ref())?;
            self.option(spec, &name, value)?;
            at = self.further_values(spec, &name, words, at)?;
            break;
        }
        Ok(at)
    }

    // The word after an option as its value. One that begins with a dash is another option to most programs: what it is
    // would not be judged.
    fn next_value(&self, table: &Table, spec: &Spec, name: &str, next: Option<&Word>) -> Result<Option<Word>, Denial> {
        let Some(next) = next else { return Ok(None) };
        if spec.value == Value::NextIfAny {
            return Ok((!next.text.starts_with('-')).then(|| next.clone()));
        }
        if !table.dash_values && begins_like_an_option(&next.text) {
            let denial = self.deny(format!("`{}` after `{name}` may be its value or another option", next.text));
            return Err(match name.starts_with("--") {
                true => denial.hint(format!("write `{name}=VALUE`")),
                false => denial.hint(format!("give `{name}` a value that does not begin with a dash")),
            });
        }
        Ok(Some(next.clone()))
    }

    // All words after an option are those of a program that it starts (`python -m NAME …`), or of one of the project.
    fn rest(&mut self, spec: &Spec, words: Vec<Word>) -> Result<(), Denial> {
        self.option(spec, spec.names[0], None)?;
        match spec.kind {
            'S' => self.starts(words),
            _ => self.all_passed(&words)?,
        }
        Ok(())
    }

    // The words up to the next option are values, too, of an option that takes several.
    fn further_values(&mut self, spec: &Spec, name: &str, words: &[Word], mut at: usize) -> Result<usize, Denial> {
        while spec.value == Value::Several
            && let Some(word) = words.get(at).filter(|word| !word.text.starts_with('-'))
        {
            self.option(spec, name, Some(word.clone()))?;
            at += 1;
        }
        Ok(at)
    }

    fn needs_value(&self, spec: &Spec, name: &str, value: Option<&Word>) -> Result<(), Denial> {
        if matches!(spec.value, Value::Required | Value::Several) && value.is_none() && !self.is_open() {
            return Err(self.deny(format!("the option `{name}` needs a value")));
        }
        Ok(())
    }

    fn option(&mut self, spec: &Spec, name: &str, value: Option<Word>) -> Result<(), Denial> {
        match spec.denied {
            Denied::Always => {
                return Err(self.deny(format!("`{name}` (`{}`) runs programs or hides what is done", spec.names[0])));
            }
            Denied::Code if self.is_open() => {
                return Err(self.code(format!("code or a command given by `{name}`")));
            }
            Denied::Strict | Denied::Usual | Denied::Code
                if !(self.is_open()
                    || spec.denied == Denied::Usual && self.everyday
                    || spec.names.iter().any(|name| self.granted.contains(name))) =>
            {
                return Err(self.deny(format!("the option `{name}` is denied")));
            }
            Denied::Strict | Denied::Usual | Denied::Code | Denied::Never => {}
        }
        if let Some(value) = &value {
            let tag = |c: char| c.is_alphanumeric() || "@_-:,!".contains(c);
            if spec.kind != 'A' || !value.text.chars().all(tag) {
                self.no_response_file(value)?;
            }
            if self.is_open() && value.text.to_ascii_lowercase().contains("data:text/") {
                return Err(self.code(format!("code in the address given by `{name}`")));
            }
            if matches!(spec.kind, 'E' | 'I') {
                self.out.directories.push(value.text.clone());
            }
            match spec.kind {
                'R' => self.read(value),
                'F' => return Err(self.deny(format!("the files that `{name}` lists are not known"))),
                'T' => self.read_tree(value, false),
                'W' if value.text == "/dev/null" => {}
                'W' => self.write(value),
                'O' => {
                    self.out.writes = true;
                    self.effect(Effect::WriteTree, value);
                }
                'L' => self.effect(Effect::List, value),
                'E' => {
                    for folder in self.cx.folders {
                        self.cx.paths.enter(folder, &value.text)?;
                    }
                }
                'I' => self.own_folder(value)?,
                'C' => self.setting(value)?,
                'P' => self.leads_to(&value.text),
                'V' => {
                    let parts = value.text.split(|c: char| c.is_whitespace() || ",:;=[]{}()'\"".contains(c));
                    parts.for_each(|part| self.looks_at(part));
                }
                'G' => self.revision(value)?,
                'X' => self.pattern(&value.text, true, false)?,
                'N' | '{' => self.name(spec.choices, name, value)?,
                _ => {}
            }
        }
        self.note(spec.names[0].to_owned(), value);
        Ok(())
    }

    fn note(&mut self, name: String, value: Option<Word>) {
        self.found.push(Found { name, value, at: self.operands.len() });
    }

    // What a build writes there is judged as a diff later; the directory itself must be inside and unprotected.
    pub(crate) fn own_folder(&self, word: &Word) -> Result<(), Denial> {
        for folder in self.cx.folders {
            self.cx.paths.own_folder(folder, Path::new(&word.text))?;
        }
        Ok(())
    }

    /// Tells whether an option is there; by the first spelling of the table.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.found.iter().any(|found| found.name == name)
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

    /// A file that is read; `-` is the standard input.
    pub(crate) fn read(&mut self, word: &Word) {
        if word.text != "-" {
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

// `/p:NAME=VALUE`, `/nologo`: MSBuild's options may begin with a slash. Only those that the table writes so are no paths.
fn is_slashed(specs: &[Spec], table: &Table, text: &str) -> bool {
    let name = text.split('=').next().unwrap_or(text);
    let short = text.split(':').next().unwrap_or(text);
    table.style == Style::SingleDash
        && text.starts_with('/')
        && specs.iter().any(|spec| spec.names.contains(&name) || spec.names.contains(&short))
}

// Whether a program is only asked what it is, or how it is used. Next to other words the question ends nothing: it may
// be the value of an option, and some versions pass it over.
fn asks(table: &Table, words: &[Word]) -> bool {
    let is = |spec: &Spec, name: &str| spec.denied == Denied::Never && spec.names.contains(&name);
    let question =
        |spec: &Spec| spec.names.iter().any(|name| matches!(*name, "--help" | "--version" | "--pcre2-version"));
    matches!(words, [only] if only.literal && specs(table.options).iter().any(|spec| is(spec, &only.text) && question(spec)))
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
