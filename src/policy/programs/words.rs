//! Classifies the words of build tools: paths, tasks and scripts that a rule lists.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::Word;
use super::spelling::is_listed;
use super::table::{Call, Dashes, Table};
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::names::{base_name, is_switch};
use crate::policy::paths::{Place, walk};

/// What an address begins with, where a path would be meant otherwise.
const SCHEMES: [&str; 11] = ["data", "npm", "jsr", "file", "blob", "http", "https", "ftp", "node", "github", "git"];

/// Tools that lay out JSON, YAML, TOML or JavaScript anew, with the same words in it. What others do to such a file may change
/// what it says of programs.
const FORMATTERS: [&str; 6] = ["prettier", "biome format", "dprint", "deno fmt", "taplo", "clang-format"];

/// Tells whether a word is an address where a file may be meant.
pub(crate) fn is_address(text: &str) -> bool {
    let known = |scheme: &str| SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    text.split_once(':').is_some_and(|(scheme, rest)| rest.starts_with("//") || known(scheme))
}

impl Call<'_> {
    // A file or directory of the project, and perhaps a place in it.
    pub(crate) fn inside(&mut self, word: &Word) -> Result<(), Denial> {
        let text = word.text.as_str();
        if text.starts_with('@') {
            return Err(self
                .deny(format!("`{text}` may stand for the words in a file"))
                .hint("write the words themselves"));
        }
        if is_address(text) {
            return Err(self.deny(format!("`{text}` is an address, not a file")).hint("name a file of the workspace"));
        }
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        };
        if !self.is_open() && text.split_once('=').is_some_and(|(name, _)| is_name(name)) {
            return Err(self.deny(format!("`{text}` may set something instead of naming a file")));
        }
        // `:NAME` is a file's literal name to some tools.
        let text = text.trim_start_matches(':');
        let (path, place) = text.split_once(':').map_or((text, None), |(path, place)| (path, Some(place)));
        if path.contains(['*', '?', '[', '{', '(']) {
            self.pattern(path, false, false)?;
        } else if !path.is_empty() {
            self.read(&Word::literal(path));
        }
        if place.is_some() {
            self.effect(Effect::List, &Word { text: text.to_owned(), literal: word.literal });
        }
        Ok(())
    }

    /// Judges the operands of a tool that takes in hidden files, or ignored ones, as everything below them.
    pub(super) fn takes_in_all(&mut self) {
        let words = match self.operands.is_empty() {
            true => vec![Word::literal(".")],
            false => self.operands.clone(),
        };
        for word in &words {
            let start: Vec<&str> =
                word.text.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '('])).collect();
            let start = if start.is_empty() { ".".to_owned() } else { start.join("/") };
            self.read_tree(&Word { text: start, literal: word.literal }, false);
        }
    }

    // A file, a directory or a glob of files that a tool changes; below a directory that is judged as a diff.
    pub(crate) fn formatted(&mut self, word: &Word, writes: bool) -> Result<(), Denial> {
        self.inside(word)?;
        let path = word.text.trim_start_matches(':');
        if !writes || matches!(path, "" | "-") || path.starts_with('!') {
            return Ok(());
        }
        if path.contains(['*', '?', '[', '{', '(']) {
            return self.pattern(path, false, true);
        }
        let path = Word { text: path.to_owned(), literal: word.literal };
        if self.node(&path.text)? == Some(Node::Dir) {
            // Below a directory eslint takes in JSON only where it is told to.
            if self.values("--ext").iter().any(|ends| ends.text.contains("json")) {
                self.pattern(&format!("{}/**/*.json", path.text), false, true)?;
            }
            return self.own_folder(&path);
        }
        self.write(&path);
        if self.lays_out() {
            self.out.formatted.push(path.text);
        }
        Ok(())
    }

    /// Tells whether the program only lays out files anew.
    pub(super) fn lays_out(&self) -> bool {
        FORMATTERS.contains(&base_name(&self.name))
    }

    // A revision that the program hands to git, where one that begins with a dash would be an option.
    pub(super) fn revision(&mut self, word: &Word) -> Result<(), Denial> {
        if word.text.starts_with('-') || word.text.contains("[-") {
            return Err(self.deny(format!("`{}` is not a revision", word.text)));
        }
        let is_git = self.name == "git" || self.name.starts_with("git ");
        // Other tools say no more than git's error, which they do not print, and some call git through a shell.
        let is_plain = |c: char| c.is_alphanumeric() || "._/@{}^~-".contains(c);
        if !is_git && !word.text.chars().all(is_plain) {
            return Err(self.deny(format!("`{}` may be text for a shell", word.text)).hint("name a revision"));
        }
        if is_git { super::git::revisions_named(self, std::slice::from_ref(word)) } else { Ok(()) }
    }

    // pnpm's filter: packages by name or directory, with globs, and in brackets a revision.
    pub(super) fn packages(&mut self, word: &Word) -> Result<(), Denial> {
        let plain = |c: char| c.is_alphanumeric() || "._/@{}^~-*!".contains(c);
        let (before, rest) = word.text.split_once('[').unwrap_or((&word.text, ""));
        let (revision, after) = rest.split_once(']').unwrap_or((rest, ""));
        if !before.chars().chain(after.chars()).all(plain) {
            return Err(self.deny(format!("`{}` does not name packages", word.text)).hint("name one package"));
        }
        let climbs = |part: &str| part.starts_with('/') || part.split('/').any(|part| part == "..");
        let dependents = |part: &str| climbs(part) || part.strip_prefix("...").is_some_and(climbs);
        if before.split(['{', '}', '!', '^']).any(dependents) && !self.is_open() {
            return Err(self.deny(format!("`{}` may name packages outside the workspace", word.text)));
        }
        match revision {
            "" => Ok(()),
            revision => self.revision(&Word { text: revision.to_owned(), ..word.clone() }),
        }
    }

    // A launcher may hand a program's name with spaces to a shell.
    pub(super) fn launches(&mut self, words: &[Word]) -> Result<(), Denial> {
        if let Some(first) = words.first()
            && (first.text.contains(|c: char| c.is_whitespace() || ";&|<>()$`".contains(c)) || first.text == "-")
        {
            return Err(self.deny(format!("`{}` may be text for a shell", first.text)).hint("write its words apart"));
        }
        super::build::refuse_shell_text(self, words)?;
        self.starts(words.to_vec());
        Ok(())
    }

    /// Judges tasks: where rules list what may run, each must be listed, and one must be named where some are listed.
    pub(crate) fn tasks(&mut self, separator: &str, tasks: &[Word]) -> Result<(), Denial> {
        if self.is_open() {
            return Ok(());
        }
        let listed = self.listed.first().map(Vec::as_slice).unwrap_or_default();
        let hint = || format!("listed are {}", listed.join(", "));
        let name = |word: &Word| match separator {
            "" => word.text.clone(),
            separator => word.text.rsplit(separator).next().unwrap_or_default().to_owned(),
        };
        match tasks.iter().find(|word| !is_listed(listed.iter().map(String::as_str), &name(word))) {
            Some(word) => Err(self.deny(format!("the target `{}` is not listed", word.text)).hint(hint())),
            None if tasks.is_empty() && !listed.is_empty() => Err(self.deny("no target is named").hint(hint())),
            None => Ok(()),
        }
    }

    // The name of a script, at the place after the subcommand, and the script's own words.
    pub(super) fn script(&mut self, words: &[Word]) -> Result<(), Denial> {
        // Without a name the scripts are listed; behind `--` there would be one.
        if self.everyday && words.is_empty() && self.dashes.is_none() {
            return Ok(());
        }
        let listed = self.listed.get(1..).unwrap_or_default();
        let is_named = words.len() >= listed.len()
            && words.iter().zip(listed).all(|(word, names)| is_listed(names.iter().map(String::as_str), &word.text));
        if !self.is_open() && !is_named {
            let name = words.first().map_or("", |word| word.text.as_str());
            let names: Vec<String> = listed.iter().map(|names| names.join("|")).collect();
            let denial = self.deny(format!("the script `{name}` is not listed"));
            return Err(denial.hint(format!("listed are {}", names.join(" "))));
        }
        self.all_passed(words.get(listed.len().max(1)..).unwrap_or_default())
    }

    /// Notes a command that is started. A launcher may keep a `--` among its words for itself or pass it on: both are
    /// judged.
    pub(super) fn starts(&mut self, words: Vec<Word>) {
        if let Some(at) = words.iter().position(|word| word.literal && word.text == "--") {
            let mut without = words.clone();
            without.remove(at);
            self.out.starts.extend((!without.is_empty()).then_some(without));
        }
        self.out.starts.extend((!words.is_empty()).then_some(words));
    }

    /// Notes a dotted name, of a module or of what is in it, as the files and directories that it may stand for.
    pub(super) fn module(&mut self, name: &str) {
        if name.contains('/') {
            return;
        }
        let ends = name.match_indices('.').map(|(end, _)| end).chain([name.len()]);
        for path in ends.filter(|end| *end > 0).map(|end| name[..end].replace('.', "/")) {
            if !path.starts_with('/') {
                self.out.effects.push(Effect::Read(format!("{path}.py")));
                self.looks_at(&path);
            }
        }
    }

    pub(super) fn behind_dashes(&mut self, table: &Table, words: &[Word]) -> Result<(), Denial> {
        match table.dashes {
            Dashes::Operands => self.operands.extend(words.iter().cloned()),
            Dashes::Passed => self.all_passed(words)?,
            Dashes::Table(other) => {
                let operands = std::mem::take(&mut self.operands);
                self.apply(other, words)?;
                self.operands = operands;
            }
        }
        Ok(())
    }

    // `KEY=VALUE`, of which some name programs or give other names to subcommands, or a file.
    pub(super) fn setting(&mut self, word: &Word) -> Result<(), Denial> {
        let runs = ["alias", "runner", "wrapper", "linker", "rustc", "rustdoc", "credential", "include", "env"];
        match word.text.split_once('=') {
            Some((key, _)) if runs.iter().any(|name| key.contains(name)) => {
                Err(self.deny(format!("the setting `{}` runs programs or renames subcommands", word.text)))
            }
            Some(_) => Ok(()),
            None => {
                self.read(word);
                Ok(())
            }
        }
    }

    /// `NAME=VALUE`, of a name that nobody knows: it must not be more than on or off.
    pub(super) fn switch(&mut self, word: &Word) -> Result<(), Denial> {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, "true"));
        if is_switch(name, value) {
            return Ok(());
        }
        Err(self.deny(format!("the setting `{}` is not known to be harmless", word.text)))
    }

    // A name that stands for something built in, where a path would be code that is loaded.
    pub(super) fn name(&mut self, choices: &str, option: &str, word: &Word) -> Result<(), Denial> {
        let known = match choices {
            "" => !word.text.contains(['/', '.', '@', '\\']),
            choices => {
                // A logger of dotnet has its settings behind the name.
                let has_settings = base_name(&self.words[0].text) == "dotnet";
                let parts = word.text.split_once(';').filter(|_| has_settings);
                let (names, settings) = parts.unwrap_or((&word.text, ""));
                names.split(',').all(|name| is_listed(choices.split('|'), name))
                    && !settings.contains(['/', '\\'])
                    && !settings.contains("..")
            }
        };
        if word.text.contains(char::is_control) {
            return Err(self.deny(format!("the value of `{option}` has a line break or another control character")));
        }
        if known && word.literal {
            return Ok(());
        }
        if !self.is_open() {
            return Err(self.deny(format!("the value `{}` of `{option}` is not known to be harmless", word.text)));
        }
        self.leads_to(&word.text);
        Ok(())
    }

    /// Refuses another file of rules than the one that would be taken anyway; a rule of an operator names the option itself.
    pub(super) fn only_own_file(&self, option: &str, names: &[&str]) -> Result<(), Denial> {
        match self.values(option).into_iter().find(|file| !names.contains(&file.text.as_str())) {
            Some(file) if self.everyday => {
                let denial = self.deny(format!("`{}` is not the file that it takes by itself", file.text));
                Err(denial.hint(format!("leave `{option}` out")))
            }
            _ => Ok(()),
        }
    }

    /// A denial of code that no rule can examine.
    pub(crate) fn code(&self, what: impl std::fmt::Display) -> Denial {
        let denial = match self.is_open() {
            true => Denial::unanalysable(format!("{}: {what}", self.name)).by("G3"),
            false => self.deny(what),
        };
        denial.hint("put the code in a file and run the file")
    }

    // `@FILE`: most build tools put the lines of the file in its place, wherever it is, before they read their options.
    pub(crate) fn no_response_file(&self, word: &Word) -> Result<(), Denial> {
        let program = self.words.first().map_or("", |word| crate::policy::names::base_name(&word.text));
        if word.text.len() < 2 || !word.text.starts_with('@') || (self.cx.known.takes_at)(program) {
            return Ok(());
        }
        Err(self.deny(format!("`{}` may stand for the words in a file", word.text)).hint("write the words themselves"))
    }

    /// Judges every link below the operands as a name whose metadata is read: for listings that follow links.
    pub(crate) fn through_links(&mut self) -> Result<(), Denial> {
        let starts: Vec<String> = match self.operands.as_slice() {
            [] => vec![".".to_owned()],
            words => words.iter().map(|word| word.text.clone()).collect(),
        };
        self.links_below(&starts)
    }

    /// The same for start points.
    pub(crate) fn links_below(&mut self, starts: &[String]) -> Result<(), Denial> {
        let mut left = 100_000;
        let mut seen = HashSet::new();
        for folder in self.cx.folders {
            let mut pending: Vec<(RelPath, PathBuf)> =
                starts.iter().map(|start| (folder.clone(), PathBuf::from(start))).collect();
            while let Some((folder, start)) = pending.pop() {
                let resolved = self.cx.paths.resolve(&folder, &start)?;
                let Some(Place::Workspace(below)) = self.cx.paths.place(&resolved.absolute) else {
                    return Err(self.deny(format!("`{}` is outside the workspace", start.display())).by("F2"));
                };
                if !seen.insert(below.clone()) {
                    continue;
                }
                let mut links = Vec::new();
                let mut visit = |path: &RelPath, node: &Node| {
                    if matches!(node, Node::Link(_)) {
                        links.push(path.under(self.cx.root));
                    }
                    Ok(true)
                };
                walk(self.cx.paths.tree(), self.cx.root, &below, &mut left, &mut visit)?;
                for link in links {
                    // A link that leads nowhere, or round, is only a name; below a directory there may be more links.
                    if self.cx.paths.resolve(&RelPath::root(), &link).is_ok_and(|resolved| resolved.node.is_some()) {
                        pending.push((RelPath::root(), link));
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells whether another part of the command may make a directory of a path that does not exist.
    pub(crate) fn may_be_made(&self, path: &str) -> Result<bool, Denial> {
        for folder in self.cx.folders {
            if self.cx.made.may_be_directory(&self.cx.paths.resolve(folder, Path::new(path))?.absolute) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells whether a path is in the workspace, or the command itself writes it.
    pub(crate) fn is_there(&self, path: &str) -> Result<bool, Denial> {
        for folder in self.cx.folders {
            let resolved = self.cx.paths.resolve(folder, Path::new(path))?;
            if resolved.node.is_some() || self.cx.made.is_written(&resolved.absolute) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where rules list what may not run, a value that is not known may name a file anywhere in it (`file:PATH`), which
    /// the program may write as well.
    pub(super) fn leads_to(&mut self, text: &str) {
        let before = self.out.effects.len();
        self.looks_at(text);
        if !self.is_open() {
            return;
        }
        let text = text.strip_prefix("https://").map_or(text, |address| address.trim_start_matches('/'));
        text.split([':', '=', ',', ';']).skip(1).for_each(|part| self.looks_at(part));
        let read: Vec<Effect> = self.out.effects[before..].to_vec();
        self.out.effects.extend(read.into_iter().filter_map(|effect| match effect {
            Effect::Read(path) => Some(Effect::Write(path)),
            _ => None,
        }));
    }
}
