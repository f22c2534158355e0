//! Judges find and xargs: what they read, and the programs that they start.

use super::Word;
use super::table::{Call, Operands, Style, TABLE, Table};
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::names::base_name;
use crate::policy::names::named;
use crate::policy::paths::{Place, walk};
use crate::policy::repositories::other_repository;
use crate::policy::shell::WRAPPERS;
use std::path::Path;

pub(crate) const FIND: Table = Table {
    names: "find gfind",
    options: "",
    operands: Operands::Raw,
    style: Style::First,
    special: Some(find),
    ..TABLE
};

pub(crate) const XARGS: Table = Table {
    names: "xargs",
    options: "-0,--null -a,--arg-file=R -d,--delimiter=D -E=D -e,--eof=?D -I=D -i,--replace=?D -L=D -l,--max-lines=?D -n,--max-args=D \
        -o,--open-tty -P,--max-procs=D -p,--interactive --process-slot-var=D -r,--no-run-if-empty -s,--max-chars=D --show-limits \
        -t,--verbose -x,--exit --help --version -J=D -R=D -S=D",
    operands: Operands::Special,
    style: Style::First,
    special: Some(xargs),
    ..TABLE
};

/// Tests and actions that take no value.
const FLAGS: &str = "-depth -d -noleaf -mount -xdev -daystart -follow -ignore_readdir_race -noignore_readdir_race -warn -nowarn -empty \
    -executable -readable -writable -true -false -nouser -nogroup -print -print0 -ls -prune -quit -a -and -o -or -not -H -L -P -E -X -x \
    --help -help --version -version";
/// Tests that take one value, which is data.
const TESTS: &str = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size -mtime -atime -ctime \
    -mmin -amin -cmin -perm -user -group -uid -gid -links -inum -maxdepth -mindepth -regextype -fstype -used -context -printf \
    -flags -Bmin -Btime -depth";
/// Tests that compare with a file's metadata.
const FILES: &str = "-newer -anewer -cnewer -samefile";
const WRITES: &str = "-fprint -fprint0 -fls";
const RUNS: &str = "-exec -execdir -ok -okdir";

/// Reads a find expression.
pub(crate) fn find(call: &mut Call<'_>) -> Result<(), Denial> {
    let words: Vec<Word> = call.words[1..].to_vec();
    if let Some(word) = words.iter().find(|word| !word.literal) {
        return Err(call.deny(format!("the word `{}` is not known", word.text)));
    }
    let (starts, begin) = start_points(call, &words)?;
    let follows = words.iter().any(|word| word.text == "-L" || word.text == "-follow");
    let mut expression = Expression { follows, ..Expression::default() };
    let mut at = begin;
    while at < words.len() {
        expression.join(&words, at);
        at = expression.primary(call, &words, at)?;
    }
    for start in &starts {
        call.out.effects.push(Effect::List(start.clone()));
    }
    if follows {
        call.links_below(&starts)?;
    }
    if expression.deletes {
        if !call.is_open() {
            return Err(call.deny("`-delete` removes files"));
        }
        for start in &starts {
            call.out.effects.push(Effect::DeleteTree(start.clone()));
        }
    }
    if !expression.commands.is_empty() {
        if expression.anything {
            expression.limits_nothing();
        }
        started(call, &starts, &expression.names, expression.only_files, &expression.commands)?;
    }
    Ok(())
}

// The directories that a search begins in, and where the expression begins.
fn start_points(call: &Call<'_>, words: &[Word]) -> Result<(Vec<String>, usize), Denial> {
    let mut at = 0;
    while at < words.len() && (named("-H -L -P -D", &words[at].text) || words[at].text.starts_with("-O")) {
        if words[at].text == "-D" && !call.is_open() {
            return Err(call.deny("`-D` is not known to be harmless"));
        }
        // What is to be shown of its work is a word of its own.
        at += 1 + usize::from(words[at].text == "-D");
    }
    if words.get(at).is_some_and(|word| word.text == "--") {
        at += 1;
    }
    let begins = |word: &&Word| !word.text.starts_with('-') && !matches!(word.text.as_str(), "(" | ")" | "!" | ",");
    let rest = words.get(at..).unwrap_or_default();
    let mut starts: Vec<String> = rest.iter().take_while(begins).map(|word| word.text.clone()).collect();
    at += starts.len();
    if starts.is_empty() {
        starts.push(".".to_owned());
    }
    Ok((starts, at))
}

/// What an expression finds and does.
#[derive(Default)]
struct Expression {
    follows: bool,
    names: Vec<String>,
    only_files: bool,
    /// It is not a plain conjunction: `-name` may not limit what `{}` stands for.
    anything: bool,
    deletes: bool,
    depth: usize,
    commands: Vec<Vec<Word>>,
}

impl Expression {
    fn limits_nothing(&mut self) {
        self.names.clear();
        self.only_files = false;
    }

    // What a word says about how the tests around it belong together.
    fn join(&mut self, words: &[Word], at: usize) {
        let is_name = |word: Option<&Word>| word.is_some_and(|word| matches!(word.text.as_str(), "-name" | "-iname"));
        match words[at].text.as_str() {
            "(" => self.depth += 1,
            ")" => self.depth = self.depth.saturating_sub(1),
            "!" | "-not" | "," => self.anything = true,
            // What is before it runs nothing: only the names after it bound `{}`.
            "-o" | "-or" if self.depth == 0 && self.commands.is_empty() => self.limits_nothing(),
            "-o" | "-or" if self.depth > 0 && at >= 2 && is_name(words.get(at - 2)) && is_name(words.get(at + 1)) => {}
            "-o" | "-or" => self.anything = true,
            _ => {}
        }
    }

    // Judges a test or an action, and returns where the next one begins.
    fn primary(&mut self, call: &mut Call<'_>, words: &[Word], at: usize) -> Result<usize, Denial> {
        let text = words[at].text.as_str();
        let at = at + 1;
        let value = |call: &Call<'_>, what: &str| {
            words.get(at).cloned().ok_or_else(|| call.deny(format!("`{text}` needs a {what}")))
        };
        if named(FLAGS, text) || matches!(text, "(" | ")" | "!" | ",") {
            // `-depth` alone is a flag; BSD's takes a number.
            return Ok(at);
        }
        if named(TESTS, text) || (text.starts_with("-newer") && text.len() == 8) {
            let value = value(call, "value")?;
            if matches!(text, "-name" | "-iname") {
                self.names.push(value.text.clone());
            }
            // Without `-L` a link is not a file.
            if text == "-type" && value.text == "f" && self.depth == 0 && self.commands.is_empty() {
                self.only_files = !self.follows;
            }
            if text.starts_with("-newer") && !text.ends_with('t') {
                call.effect(Effect::List, &value);
            }
            return Ok(at + 1);
        }
        if named(FILES, text) {
            call.effect(Effect::List, &value(call, "file")?);
            return Ok(at + 1);
        }
        if named(WRITES, text) || text == "-fprintf" {
            let value = value(call, "file")?;
            if !call.is_open() {
                return Err(call.deny(format!("`{text}` writes a file")));
            }
            call.write(&value);
            return Ok(at + 1 + usize::from(text == "-fprintf"));
        }
        match text {
            "-files0-from" => Err(call.deny("the files that `-files0-from` lists are not known")),
            "-delete" => {
                self.deletes = true;
                Ok(at)
            }
            _ if named(RUNS, text) => self.command(call, text, &words[at..]).map(|taken| at + taken),
            // How many words belong to it is not known, nor which of those after it are start points.
            _ => Err(call.deny(format!("`{text}` is not known to be harmless"))),
        }
    }

    // Notes the command of `-exec`, and returns how many words it has with its end.
    fn command(&mut self, call: &Call<'_>, text: &str, words: &[Word]) -> Result<usize, Denial> {
        if !call.is_open() || text.starts_with("-ok") {
            return Err(call.deny(format!("`{text}` runs programs")).by("G4"));
        }
        if text == "-execdir" {
            let denial = call.deny("`-execdir` runs programs in directories that are not known").by("G4");
            return Err(denial.hint("use `-exec`"));
        }
        let end = words.iter().position(|word| word.text == ";" || word.text == "+");
        let end = end.ok_or_else(|| call.deny(format!("`{text}` has no end")))?;
        self.commands.push(words[..end].to_vec());
        Ok(end + 1)
    }
}

/// How many paths stand for themselves; of more, one of each kind stands for all.
const SINGLE: usize = 64;

// What `{}` can stand for.
struct Found {
    path: String,
    kind: Kind,
}

#[derive(PartialEq, Eq, Clone, Copy)]
struct Kind {
    readable: bool,
    writable: bool,
    directory: bool,
    link: bool,
    /// A directory in which git takes another repository for its own.
    repository: bool,
    /// Something below a directory may not be read, or not be written.
    holds_denied: (bool, bool),
}

// `{}` counts as every path below the start points that `-name` can match.
fn started(
    call: &mut Call<'_>,
    starts: &[String],
    names: &[String],
    only_files: bool,
    commands: &[Vec<Word>],
) -> Result<(), Denial> {
    call.out.writes = true;
    let found = matched(call, starts, names, only_files)?;
    let mut chosen: Vec<String> = Vec::new();
    if found.len() <= SINGLE {
        chosen.extend(found.into_iter().map(|found| found.path));
    } else {
        // A name that is made of the path differs for each path.
        let makes_names = |command: &Vec<Word>| {
            command.iter().any(|word| {
                word.text.contains("{}") && word.text != "{}" || super::files::names_result(call.cx.known, word)
            })
        };
        if commands.iter().any(makes_names) {
            let denial =
                call.deny(format!("more than {SINGLE} files are found, each of which would make another name"));
            return Err(denial.hint("narrow the search, or name the files"));
        }
        let mut kinds = Vec::new();
        for found in found {
            if !kinds.contains(&found.kind) {
                kinds.push(found.kind);
                chosen.push(found.path);
            }
        }
    }
    // What the pattern alone would name.
    for start in starts {
        for name in names {
            for filler in ["", "x"] {
                let name = name.replace(['*', '?'], filler).replace(['[', ']'], "");
                if !name.is_empty() {
                    chosen.push(format!("{}/{name}", start.trim_end_matches('/')));
                }
            }
        }
    }
    if chosen.is_empty() {
        chosen.push(format!("{}/x", starts[0].trim_end_matches('/')));
    }
    commands.iter().try_for_each(|command| start_with(call, command, &chosen))
}

// The paths that are found, each with what it is to the rules.
fn matched(call: &Call<'_>, starts: &[String], names: &[String], only_files: bool) -> Result<Vec<Found>, Denial> {
    let unclear = || call.deny("a pattern of `-name` is not understood");
    let glob = |name: &String| globset::Glob::new(&plain_glob(&name.to_lowercase())?).ok();
    let globs: Option<Vec<_>> = names.iter().map(|name| Some(glob(name)?.compile_matcher())).collect();
    let globs = globs.ok_or_else(unclear)?;
    let matches = |name: &str| globs.is_empty() || globs.iter().any(|glob| glob.is_match(name.to_lowercase()));
    let mut found: Vec<Found> = Vec::new();
    let mut left = 100_000;
    let paths = call.cx.paths;
    let places = starts.iter().flat_map(|start| call.cx.folders.iter().map(move |folder| (start, folder)));
    for (start, folder) in places {
        let resolved = paths.resolve(folder, Path::new(start))?;
        let Some(Place::Workspace(below)) = paths.place(&resolved.absolute) else {
            return Err(call.deny(format!("`{start}` is outside the workspace")).by("F2"));
        };
        // A start point has the name that it is written with.
        let written = start.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let mut directories: Vec<(RelPath, usize)> = Vec::new();
        let mut visit = |path: &RelPath, node: &Node| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let readable = paths.read_denied(path, "").is_none();
            let writable = paths.write_allowed(path, "").is_ok();
            directories.retain(|(above, _)| path.is_under(above));
            for (_, at) in &directories {
                let holds = &mut found[*at].kind.holds_denied;
                *holds = (holds.0 || !readable, holds.1 || !writable);
            }
            let is_file = matches!(node, Node::File { .. });
            if !matches(if *path == below { written } else { &name }) || only_files && !is_file {
                return Ok(true);
            }
            let absolute = path.under(call.cx.root);
            let root = RelPath::root();
            let directory = *node == Node::Dir;
            let kind = Kind {
                readable: paths.name_only(&root, &absolute).is_ok() && paths.read(&root, &absolute).is_ok(),
                writable: paths.write(&root, &absolute).is_ok(),
                directory,
                link: matches!(node, Node::Link(_)),
                repository: directory && other_repository(paths.tree(), call.cx.root, path)?.is_some(),
                holds_denied: (false, false),
            };
            if directory {
                directories.push((path.clone(), found.len()));
            }
            found.push(Found { path: absolute.display().to_string(), kind });
            Ok(true)
        };
        walk(paths.tree(), call.cx.root, &below, &mut left, &mut visit)?;
    }
    Ok(found)
}

// A pattern of `-name` as our globs have it: braces are letters there. `None`: classes of letters, and ranges that the
// language of the machine orders.
fn plain_glob(name: &str) -> Option<String> {
    let mut glob = String::new();
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '{' | '}' => glob.extend(['[', letter, ']']),
            '\\' => glob.extend([letter, letters.next()?]),
            '[' => {
                let mut set = String::new();
                if let Some(not) = letters.next_if(|c| matches!(c, '!' | '^')) {
                    glob.extend(['[', not]);
                } else {
                    glob.push('[');
                }
                loop {
                    match letters.next()? {
                        ']' if !set.is_empty() => break,
                        '[' | '\\' => return None,
                        other => set.push(other),
                    }
                }
                let inner: Vec<char> = set.chars().collect();
                let ordered = |ends: &[char]| {
                    ends[1] != '-'
                        || ends[0].is_ascii_alphanumeric() && ends[2].is_ascii_alphanumeric() && ends[0] <= ends[2]
                };
                if !inner.windows(3).all(ordered) {
                    return None;
                }
                glob.push_str(&set);
                glob.push(']');
            }
            letter => glob.push(letter),
        }
    }
    Some(glob)
}

// The command for each of the paths.
fn start_with(call: &mut Call<'_>, command: &[Word], chosen: &[String]) -> Result<(), Denial> {
    if command.first().is_none_or(|word| word.text.contains("{}")) {
        return Err(Denial::unanalysable("find runs a program whose name is not known").by("G3"));
    }
    // After a wrapper any word may be the program.
    let wraps = command.first().is_some_and(|word| WRAPPERS.contains(&base_name(&word.text)));
    let programs = if wraps { command.len() } else { 1 };
    for (at, program) in command.iter().enumerate().take(programs) {
        let name = base_name(&program.text);
        let behind = &command[at + 1..];
        if wraps && program.text.contains("{}") && !behind.is_empty() {
            return Err(Denial::unanalysable("find runs a program whose name is not known").by("G3"));
        }
        if super::interpreters::reads_code(name)
            && behind.iter().any(|word| word.text.contains("{}") && word.text != "{}")
        {
            return Err(Denial::unanalysable("a program text contains the replaced string").by("G3"));
        }
        // A start point such as `push` would be the subcommand.
        let subcommand = behind.iter().find(|word| !word.text.starts_with('-'));
        if (call.cx.known.find)(name).is_some_and(|table| !table.subcommands.is_empty())
            && subcommand.is_some_and(|word| word.text.contains("{}"))
        {
            return Err(Denial::unanalysable("find gives a program a subcommand that is not known").by("G3"));
        }
    }
    for path in chosen {
        let replace = |word: &Word| Word { text: word.text.replace("{}", path), literal: word.literal };
        let start: Vec<Word> = command.iter().map(replace).collect();
        if !call.out.starts.contains(&start) {
            call.out.starts.push(start);
        }
    }
    Ok(())
}

fn xargs(call: &mut Call<'_>) -> Result<(), Denial> {
    if !call.is_open() {
        return Err(call.deny("it runs programs with words that are not known").by("G4"));
    }
    call.out.writes = true;
    let mut replaced = call.values("-I").first().map(|word| word.text.clone());
    if let Some(found) = call.found.iter().find(|found| found.name == "-i") {
        replaced = Some(found.value.as_ref().map_or("{}".to_owned(), |word| word.text.clone()));
    }
    if call.has("-J") || call.unknown || replaced.as_deref() == Some("") {
        return Err(call.deny("an option whose meaning is not known"));
    }
    let unknown = Word { text: String::new(), literal: false };
    let mut start: Vec<Word> = call.operands.clone();
    if start.is_empty() {
        start.push(Word::literal("echo"));
    }
    match replaced {
        Some(replaced) => {
            if start[0].text.contains(&replaced) {
                return Err(Denial::unanalysable("xargs runs a program whose name is not known").by("G3"));
            }
            for word in start.iter_mut().filter(|word| word.text.contains(&replaced)) {
                *word = unknown.clone();
            }
        }
        None => start.push(unknown),
    }
    call.out.starts.push(start);
    Ok(())
}
