//! Matches rules on commands, and decides what a matched command may do. Denies match broadly, allows exactly.

use std::path::Path;

use super::decide::{Facts, Policy};
use super::decision::{Denial, RuleRef};
use super::ecosystems::{CUT, is_tool};
use super::effect::Effect;
use super::file::{CommandRule, DefaultRule, OperandKind, Options, PathKind};
use super::glob::fold_name;
use super::grant::{Isolation, Network};
use super::layers::{Layer, Located, Standing};
use super::paths::{PathRules, Place};
use super::programs::build;
use super::programs::table::{Call, Context, Made, Mode, Operands, Out, Table, arity};
use super::programs::{self, CommandRules, Judged, Judgement, Stdin, Word, begins_like_an_option, is_listed, word_in};
use super::repositories::other_repository;
use super::untabled;
use crate::path::{RelPath, Tree};

/// Variables that may be set before a command (`NAME=value command`): they make no known program run another.
const HARMLESS: &str =
    "CI RUST_BACKTRACE RUST_LOG NO_COLOR FORCE_COLOR CLICOLOR TERM LANG LC_ALL TZ NODE_ENV DEBUG COLUMNS";

/// Directories of the system's programs; under `shell.default: allow` a program there may be named by its path.
const SYSTEM: [&str; 6] = ["/bin", "/sbin", "/usr", "/lib", "/opt", "/nix/store"];

/// The policy's answers to what the judge of commands asks, for one call.
pub(crate) struct Answers<'a> {
    policy: &'a Policy,
    facts: &'a Facts,
    paths: PathRules<'a>,
    never_read: Vec<String>,
    made: Made,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(policy: &'a Policy, facts: &'a Facts) -> Answers<'a> {
        let globs = policy.layers.iter().flat_map(|layer| &layer.read_deny);
        let never_read = globs.map(|rule| rule.value.text().to_owned()).collect();
        Answers { policy, facts, paths: PathRules::new(&policy.layers, facts), never_read, made: Made::default() }
    }

    /// Tells whether a command must be judged again: one part of it asked for what a later one makes.
    pub(crate) fn again(&self) -> bool {
        self.made.again()
    }

    // Directories that a part makes; a program that is not known may make one wherever it writes.
    fn note_made(&self, words: &[Word], effects: &[Effect], folders: &[RelPath]) {
        let name = words.first().map(|word| base_name(&word.text)).unwrap_or_default();
        let directories =
            effects.iter().any(|effect| matches!(effect, Effect::DeleteTree(_) | Effect::ReadTree { .. }))
                || !matches!(name, "cp" | "mv") && programs::find(name).is_none()
                || matches!(name, "mkdir" | "ln" | "install")
                || matches!(name, "cp" | "mv")
                    && words.iter().skip(1).any(|word| {
                        folders.iter().any(|folder| {
                            let resolved = self.paths.resolve(folder, Path::new(&word.text));
                            resolved.is_ok_and(|resolved| {
                                resolved.node.is_none() && self.made.may_be_directory(&resolved.absolute)
                            })
                        })
                    });
        for effect in effects {
            let (path, below) = match effect {
                Effect::Delete(path) | Effect::DeleteTree(path) => {
                    let at = |folder| self.paths.unfollowed(folder, Path::new(path));
                    folders.iter().filter_map(|folder| at(folder).ok()).for_each(|path| self.made.remove(path));
                    continue;
                }
                Effect::WriteTree(path) => (path, true),
                Effect::Write(path) if directories => (path, false),
                _ => continue,
            };
            for folder in folders {
                if let Ok(resolved) = self.paths.resolve(folder, Path::new(path)) {
                    self.made.make(resolved.absolute, below);
                }
            }
        }
    }

    fn layers(&self) -> impl Iterator<Item = &'a Layer> {
        // A narrowing layer without rules on commands narrows nothing.
        self.policy.layers.iter().filter(|layer| layer.grants || layer.shell.present)
    }

    fn context(&'a self, mode: Mode, stdin: Stdin, folders: &'a [RelPath]) -> Context<'a> {
        Context {
            mode,
            paths: &self.paths,
            folders,
            stdin,
            root: &self.facts.root,
            never_read: &self.never_read,
            policy: self.policy,
            facts: self.facts,
            made: &self.made,
        }
    }

    fn judge_layer(
        &self,
        layer: &Layer,
        words: &[Word],
        stdin: Stdin,
        folders: &[RelPath],
    ) -> Result<(RuleRef, Out), Denial> {
        let program = words.first().filter(|word| word.literal && !word.text.is_empty());
        let program = program.ok_or_else(|| Denial::unanalysable("the program's name is not known").by("G3"))?;
        if let Some(denial) = denied_by(layer, words) {
            return Err(denial);
        }
        let name = base_name(&program.text);
        if layer.shell.default == Some(DefaultRule::Allow) {
            if let Some(denial) = launched(layer, name, words).or_else(|| hidden_start(layer, name, words)) {
                return Err(denial);
            }
            let cx = self.context(Mode::Open, stdin, folders);
            let rule = RuleRef { rule: "shell.default".to_owned(), source: layer.source.clone() };
            return Ok((rule, self.open(cx, name, words)?));
        }
        let Some(rules) = &layer.shell.allow else {
            if layer.grants || layer.shell.default == Some(DefaultRule::Deny) {
                return Err(Denial::new(format!("{} allows no commands", layer.source)).by("G1"));
            }
            // It narrows by its deny rules alone; the layer that grants judges the rest.
            let rule = RuleRef { rule: "shell".to_owned(), source: layer.source.clone() };
            return Ok((rule, Out::default()));
        };
        let cx = self.context(Mode::Strict, stdin, folders);
        let mut refused: Option<Denial> = None;
        for rule in rules.iter().filter(|rule| names_program(rule, &program.text)) {
            match self.strict(cx, rule, words) {
                Ok(Some(out)) => return Ok((rule.rule.clone(), out)),
                Ok(None) => {}
                Err(denial) => {
                    refused.get_or_insert(denial);
                }
            }
        }
        Err(refused.unwrap_or_else(|| no_rule(layer, rules, program, name)))
    }

    // `None`: the rule does not speak of this command.
    fn strict(&self, cx: Context<'_>, rule: &Located<CommandRule>, words: &[Word]) -> Result<Option<Out>, Denial> {
        let cmd = &rule.value.cmd;
        let program = words[0].text.as_str();
        let is_path = program.contains('/');
        let everyday = rule.rule.source == CUT;
        if cmd.len() == 2 && asks_only(words) && cmd[1].0.contains(&words[1].text) {
            let unchanged = if is_path { self.programs_at(cx, program)? } else { Vec::new() };
            return Ok(Some(Out { unchanged, writes: is_path, ..Out::default() }));
        }
        let table = if everyday { programs::find(base_name(program)) } else { programs::find_for_rules(program) };
        let Some(table) = table.filter(|_| everyday || !is_path) else {
            let fits = words.len() >= cmd.len()
                && words.iter().zip(cmd).all(|(word, element)| word.literal && element.0.contains(&word.text));
            if !fits {
                return Ok(None);
            }
            if is_path && cx.folders.iter().any(|folder| !folder.is_root()) {
                return Err(Denial::new(format!("`{}` is run from the workspace's root only", words[0].text)).by("G7"));
            }
            return by_rule_alone(cx, rule, words).map(Some);
        };
        let listed: Vec<Vec<String>> = cmd[1..].iter().map(|element| element.0.clone()).collect();
        let moved;
        let mut call = Call::new(cx, words, &listed);
        call.everyday = everyday;
        call.granted = rule.value.options.iter().flat_map(Options::listed).collect();
        if is_path {
            call.out.unchanged = self.programs_at(cx, program)?;
        }
        let below = if table.subcommands.is_empty() {
            // The table itself examines tasks and the words of started commands.
            let judges = matches!(table.operands, Operands::Tasks(_) | Operands::Script | Operands::Starts);
            if !judges && !starts_with(&words[1..], &listed) {
                return Ok(None);
            }
            None
        } else {
            call.parse(table, &words[1..])?;
            call.out.writes |= !table.writes_nothing;
            let rest = std::mem::take(&mut call.operands);
            if let Some(folders) = self.moved(&call)? {
                moved = folders;
                call.cx.folders = &moved;
            }
            let Some(first) = rest.first() else {
                let harmless =
                    call.found.iter().all(|found| matches!(found.name.as_str(), "--version" | "--help" | "-h" | "-V"));
                if listed.is_empty() && harmless && !call.found.is_empty() {
                    return Ok(Some(call.out));
                }
                return Ok(None);
            };
            // The names of scripts and tasks may be after options of the subcommand.
            let judges = subcommand(table, &first.text)
                .is_some_and(|sub| matches!(sub.operands, Operands::Tasks(_) | Operands::Script));
            let places = if judges { listed.len().min(1) } else { listed.len() };
            if !first.literal || !starts_with(&rest, &listed[..places]) {
                return Ok(None);
            }
            Some(rest)
        };
        match below {
            None => call.apply(table, &words[1..])?,
            Some(rest) => match subcommand(table, &rest[0].text)
                .filter(|sub| everyday || sub.operands != Operands::Starts)
            {
                Some(sub) => {
                    call.name = format!("{} {}", words[0].text, rest[0].text);
                    call.found.retain(|found| found.name == "--literal-pathspecs");
                    call.apply(sub, &rest[1..])?;
                }
                None if rule.value.options.is_some() || rule.value.operands.is_some() || rule.value.args.is_some() => {
                    let mut out = by_rule_alone(cx, rule, words)?;
                    out.effects.extend(call.out.effects);
                    return Ok(Some(out));
                }
                None if listed.is_empty() => return Ok(None),
                None => {
                    let denial = call.deny(format!("the subcommand `{}` has no table", rest[0].text));
                    return Err(denial.hint("a rule that lists `options` and `operands` can allow it"));
                }
            },
        }
        if call.out.writes_git && listed.is_empty() {
            return Err(call.deny("it writes .git, which needs a rule that names the subcommand").by("G11"));
        }
        narrowed_by(&call, &rule.value, words)?;
        self.seen_from(&mut call, cx);
        Ok(Some(call.out))
    }

    // `git -C DIR`: the directories it works in then.
    fn moved(&self, call: &Call<'_>) -> Result<Option<Vec<RelPath>>, Denial> {
        let values = call.values("-C");
        if values.is_empty() {
            return Ok(None);
        }
        let mut folders = call.cx.folders.to_vec();
        for value in values {
            if !value.literal {
                return Err(call.deny("the directory of `-C` is unknown"));
            }
            for folder in &mut folders {
                *folder = self.paths.enter(folder, &value.text)?;
            }
        }
        Ok(Some(folders))
    }

    // Effects are judged from the directory where the command starts; if it works in another, paths become absolute.
    fn seen_from(&self, call: &mut Call<'_>, started: Context<'_>) {
        if std::ptr::eq(call.cx.folders, started.folders) {
            return;
        }
        let effects = std::mem::take(&mut call.out.effects);
        for folder in call.cx.folders {
            let base = folder.under(&self.facts.root);
            let whole = |path: String| if path.is_empty() { path } else { base.join(path).display().to_string() };
            call.out.effects.extend(effects.iter().cloned().map(|effect| match effect {
                Effect::Read(path) => Effect::Read(whole(path)),
                Effect::List(path) => Effect::List(whole(path)),
                Effect::Write(path) => Effect::Write(whole(path)),
                Effect::WriteTree(path) => Effect::WriteTree(whole(path)),
                Effect::Delete(path) => Effect::Delete(whole(path)),
                Effect::DeleteTree(path) => Effect::DeleteTree(whole(path)),
                Effect::Enter(path) => Effect::Enter(whole(path)),
                Effect::ReadTree { path, follow_links, left_out, only, skips_hidden } => {
                    Effect::ReadTree { path: whole(path), follow_links, left_out, only, skips_hidden }
                }
            }));
        }
    }

    fn open(&self, cx: Context<'_>, name: &str, words: &[Word]) -> Result<Out, Denial> {
        let moved;
        let mut call = Call::new(cx, words, &[]);
        call.name = name.to_owned();
        let of_git = |name: &&str| {
            let known =
                programs::find("git").is_some_and(|git| git.subcommands.iter().any(|sub| named(sub.names, name)));
            known || words[0].text.contains("/git-core/")
        };
        if let Some(name) = name.strip_prefix("git-").filter(of_git) {
            return Err(call.deny("git starts its programs itself").hint(format!("write `git {name}`")));
        }
        let mut table = programs::find(name);
        programs::refuse_always(&call, table)?;
        if words[0].text.contains('/') {
            let place = self.program_path(cx, &words[0].text)?;
            if place {
                if let Some(denial) = table.and_then(|table| programs::code_among(cx, name, table, words)) {
                    return Err(denial);
                }
                // A file of the workspace is not the program that a table describes.
                table = None;
                call.read(&words[0]);
            }
        }
        if programs::interpreters::reads_code(name) {
            return programs::interpreters::judge(&mut call).map(|()| call.out);
        }
        let Some(table) = table else {
            words_as_paths(&mut call, &words[1..])?;
            return Ok(call.out);
        };
        if table.subcommands.is_empty() {
            call.apply(table, &words[1..])?;
            return Ok(call.out);
        }
        call.parse(table, &words[1..])?;
        call.out.writes |= !table.writes_nothing;
        let rest = std::mem::take(&mut call.operands);
        if let Some(folders) = self.moved(&call)? {
            moved = folders;
            call.cx.folders = &moved;
        }
        let Some(first) = rest.first() else { return Ok(call.out) };
        if !first.literal {
            return Err(call.deny("its subcommand is not known"));
        }
        call.name = format!("{name} {}", first.text);
        match subcommand(table, &first.text) {
            Some(sub) => {
                call.found.retain(|found| found.name == "--literal-pathspecs");
                call.apply(sub, &rest[1..])?;
            }
            None if name == "git" => {
                return Err(call.deny("an unknown subcommand may be an alias for anything").by("G11"));
            }
            None => words_as_paths(&mut call, &rest[1..])?,
        }
        self.seen_from(&mut call, cx);
        Ok(call.out)
    }

    // A program of the workspace and the links that lead to it, from each directory, with what a wrapper loads.
    fn programs_at(&self, cx: Context<'_>, path: &str) -> Result<Vec<RelPath>, Denial> {
        self.program_path(cx, path)?;
        let outside = || Denial::new(format!("the program `{path}` is outside the workspace")).by("G7");
        let mut found = Vec::new();
        for folder in cx.folders {
            let at = match Path::new(path).strip_prefix(&self.facts.root) {
                Ok(below) => RelPath::new(below),
                Err(_) => folder.join(path),
            };
            let at = at.ok_or_else(outside)?;
            let beside = at.parent().unwrap_or_default();
            let loads = build::LOADS.iter().filter(|(name, _)| *name == base_name(path));
            found.extend(loads.flat_map(|(_, files)| files.split_whitespace()).filter_map(|file| beside.join(file)));
            found.push(at);
        }
        Ok(found)
    }

    // Whether a program's path is in the workspace; otherwise it must be one of the system's directories.
    fn program_path(&self, cx: Context<'_>, path: &str) -> Result<bool, Denial> {
        let mut inside = false;
        for folder in cx.folders {
            let resolved = self.paths.resolve(folder, Path::new(path))?;
            match self.paths.place(&resolved.absolute) {
                Some(Place::Workspace(_)) => inside = true,
                _ if SYSTEM.iter().any(|folder| resolved.absolute.starts_with(folder)) => {}
                _ => {
                    let reason = format!("the program `{path}` is neither in the workspace nor the system's");
                    return Err(Denial::new(reason).by("G7"));
                }
            }
        }
        Ok(inside)
    }
}

impl Answers<'_> {
    // Git takes the repository of the directory that it works in, with all that its configuration names.
    fn own_repository(&self, words: &[Word], stdin: Stdin, folders: &[RelPath]) -> Result<(), Denial> {
        let Some(program) = words.first() else { return Ok(()) };
        let name = fold_name(base_name(&program.text));
        if name != "git" && !name.starts_with("git-") {
            return Ok(());
        }
        let mut call = Call::new(self.context(Mode::Open, stdin, folders), words, &[]);
        let moved = match name.as_str() {
            "git" => {
                // What cannot be read is denied by the rules, with their own words.
                if call.parse(&programs::git::GIT, &words[1..]).is_err() {
                    return Ok(());
                }
                self.moved(&call)?
            }
            _ => None,
        };
        for folder in moved.as_deref().unwrap_or(folders) {
            if let Some(other) = other_repository(self.facts.tree.as_ref(), &self.facts.root, folder)? {
                let denial = Denial::new(format!("git would work in another repository there: {other}")).by("G11");
                return Err(denial.hint("run git in a directory of the workspace's own repository"));
            }
        }
        Ok(())
    }
}

impl CommandRules for Answers<'_> {
    fn judge(&self, words: &[Word], stdin: Stdin, folders: &[RelPath]) -> Judgement {
        let root = [RelPath::root()];
        let folders = if folders.is_empty() { &root } else { folders };
        self.own_repository(words, stdin, folders)?;
        self.made.next();
        let mut all: Option<(RuleRef, Out)> = None;
        let mut by_operator = false;
        for layer in self.layers() {
            let (rule, out) = self.judge_layer(layer, words, stdin, folders)?;
            by_operator |= layer.standing == Standing::Operator && !rule.source.starts_with("builtin:");
            match &mut all {
                None => all = Some((rule, out)),
                Some((_, known)) => {
                    known.writes |= out.writes;
                    known.writes_git |= out.writes_git;
                    known.open_ended |= out.open_ended;
                    known.directories.extend(out.directories);
                    known.effects.extend(
                        out.effects.into_iter().filter(|effect| !known.effects.contains(effect)).collect::<Vec<_>>(),
                    );
                    known.unchanged.extend(out.unchanged);
                    known.starts.extend(
                        out.starts.into_iter().filter(|start| !known.starts.contains(start)).collect::<Vec<_>>(),
                    );
                    known.printed = known.printed.take().or(out.printed);
                }
            }
        }
        let (rule, out) = all.ok_or_else(|| Denial::new("no policy is given").by("G1"))?;
        self.note_made(words, &out.effects, folders);
        let writes_effect = |effect: &Effect| {
            matches!(effect, Effect::Write(_) | Effect::WriteTree(_) | Effect::Delete(_) | Effect::DeleteTree(_))
        };
        // What it starts is judged by itself.
        let writes = out.writes && out.starts.is_empty() || out.effects.iter().any(writes_effect);
        let name = words.first().map_or("", |word| word.text.as_str());
        let only_reads = !writes && !out.writes_git && !out.open_ended;
        let in_arguments = programs::has_language(base_name(name), !out.starts.is_empty());
        Ok(Judged {
            rule,
            writes_nothing: !writes,
            isolation: if only_reads && programs::is_plain_reader(name) {
                Isolation::None
            } else if in_arguments && !by_operator {
                Isolation::Required
            } else {
                Isolation::Waivable
            },
            effects: out.effects,
            starts: out.starts,
            unchanged: out.unchanged,
            writes_git: out.writes_git,
            open_ended: out.open_ended,
            directories: out.directories,
            printed: out.printed,
        })
    }

    fn check(&self, effect: &Effect, folders: &[RelPath]) -> Result<(), Denial> {
        self.paths.effect(effect, folders)
    }

    fn denied(&self, words: &[Word]) -> Option<Denial> {
        self.layers().find_map(|layer| denied_by(layer, words))
    }

    fn may_set(&self, variable: &str) -> bool {
        let passes =
            |layer: &Layer| layer.shell.env.as_ref().is_some_and(|env| env.pass.iter().any(|name| name == variable));
        let narrows = |layer: &&Layer| layer.shell.env.is_some() || layer.grants;
        is_harmless_variable(variable) || self.layers().filter(narrows).all(passes)
    }

    fn network(&self) -> Network {
        self.policy.network_shell()
    }

    fn default_allows(&self) -> bool {
        self.layers().all(|layer| {
            let silent = layer.shell.default.is_none() && layer.shell.allow.is_none() && !layer.grants;
            silent || layer.shell.default == Some(DefaultRule::Allow)
        })
    }

    fn enter(&self, folder: &RelPath, path: &str) -> Result<RelPath, Denial> {
        self.paths.enter(folder, path)
    }

    fn home(&self) -> &str {
        &self.facts.home
    }

    fn root(&self) -> &Path {
        &self.facts.root
    }

    fn tree(&self) -> &dyn Tree {
        self.facts.tree.as_ref()
    }
}

/// Returns the last part of a program's path.
pub(crate) fn base_name(program: &str) -> &str {
    program.trim_end_matches('/').rsplit('/').next().unwrap_or(program)
}

/// Tells whether a word is among names that are separated by spaces.
pub(crate) fn named(names: &str, word: &str) -> bool {
    names.split_whitespace().any(|name| name == word)
}

fn starts_with(words: &[Word], listed: &[Vec<String>]) -> bool {
    let is =
        |(word, names): (&Word, &Vec<String>)| word.literal && is_listed(names.iter().map(String::as_str), &word.text);
    words.len() >= listed.len() && words.iter().zip(listed).all(is)
}

/// Returns the table of a subcommand: that of its name, or the one for any other.
fn subcommand(table: &Table, name: &str) -> Option<&'static Table> {
    let of = |wanted: &str| table.subcommands.iter().find(|sub| named(sub.names, wanted));
    of(name).or_else(|| of("*"))
}

/// Tells whether a variable may be set before any command: it changes what is printed and loads nothing.
pub(crate) fn is_harmless_variable(name: &str) -> bool {
    named(HARMLESS, name)
}

fn asks_only(words: &[Word]) -> bool {
    words.len() == 2
        && words[1].literal
        && ["--version", "-V", "-v", "-version", "--info", "--help", "-h"].contains(&words[1].text.as_str())
}

/// Directories of the workspace with installed programs: a rule of `builtin:ci-dev` names these by their bare name.
const INSTALLED: [&str; 5] = ["node_modules/.bin", "vendor/bin", ".venv/bin", "venv/bin", "bin"];

// Whether a rule speaks of a program as it was written.
fn names_program(rule: &Located<CommandRule>, program: &str) -> bool {
    let listed = &rule.value.cmd[0].0;
    if listed.iter().any(|known| known == program) {
        return true;
    }
    let Some((folder, name)) = program.rsplit_once('/').filter(|_| rule.rule.source == CUT) else { return false };
    let ends =
        |installed: &&str| folder.strip_suffix(*installed).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    let is_installed = !folder.starts_with('/') && INSTALLED.iter().any(ends);
    listed
        .iter()
        .any(|known| if is_installed { known == name && is_tool(name) } else { known.strip_prefix("./") == Some(name) })
}

fn no_rule(layer: &Layer, rules: &[Located<CommandRule>], program: &Word, name: &str) -> Denial {
    let known = |rule: &&Located<CommandRule>| rule.value.cmd[0].0.iter().any(|word| word == name);
    let shown: Vec<String> = rules
        .iter()
        .filter(known)
        .map(|rule| rule.value.cmd.iter().map(|element| element.0.join("|")).collect::<Vec<_>>().join(" "))
        .collect();
    if program.text.contains('/') {
        let denial = Denial::new(format!("`{}`: rules allow programs by their bare name", program.text)).by("G7");
        return if shown.is_empty() { denial } else { denial.hint(format!("write `{name}`")) };
    }
    let denial =
        Denial::new(format!("no rule of `shell.allow` in {} matches this use of `{name}`", layer.source)).by("G1");
    if shown.is_empty() { denial } else { denial.hint(format!("allowed is: {}", shown.join(", "))) }
}

/// Returns the denial of the first deny rule of a layer that matches, broadly.
fn denied_by(layer: &Layer, words: &[Word]) -> Option<Denial> {
    let rule = layer.shell.deny.iter().find(|rule| deny_matches(&rule.value, words))?;
    let text: Vec<String> = rule.value.cmd.iter().map(|element| element.0.join("|")).collect();
    let reason = match &rule.value.reason {
        Some(reason) => format!("`{}` is denied: {reason}", text.join(" ")),
        None => format!("`{}` is denied", text.join(" ")),
    };
    Some(Denial::new(reason).by_rule(rule.rule.clone()))
}

// Tools that run the program after a word of theirs, which a deny rule must find there too. What they fetch and run
// under a name of their own is theirs.
fn launched(layer: &Layer, name: &str, words: &[Word]) -> Option<Denial> {
    // Other names for subcommands would hide them.
    let renames = |word: &Word| word.text.trim_start_matches("--config=").starts_with("alias.");
    if name == "cargo" && words.iter().any(renames) {
        return Some(Denial::unanalysable("cargo: a setting that gives subcommands other names").by("G3"));
    }
    if let Some(denial) = as_own_subcommand(layer, name, words).or_else(|| assigned(layer, name, words)) {
        return Some(denial);
    }
    let gate: &[&str] = match name {
        "npx" | "bunx" | "pnpx" | "uvx" | "cross-env" | "cross-env-shell" | "env-cmd" | "dotenv" | "dotenvx"
        | "direnv" | "nix-shell" | "concurrently" | "nodemon" | "corepack" | "xcrun" => &[],
        "npm" | "pnpm" | "yarn" | "bun" => &["exec", "exe", "x", "dlx"],
        "uv" | "poetry" | "pipenv" | "pdm" | "hatch" | "rye" | "pixi" | "conda" | "mamba" | "micromamba" | "rustup"
        | "doppler" | "op" | "nix" => &["run", "exec", "shell", "develop"],
        "bundle" => &["exec", "exe", "ex", "e"],
        "tox" | "rbenv" | "pyenv" | "nodenv" | "asdf" | "mise" | "volta" | "opam" | "stack" | "cabal" | "dune" => {
            &["exec", "x", "run"]
        }
        _ => return None,
    };
    let start = match gate {
        [] => 1,
        gate => 1 + words.iter().position(|word| gate.contains(&word.text.as_str()))?,
    };
    let behind = words.get(start..).unwrap_or_default();
    if let Some(word) = behind.iter().find(|word| !word.literal || word.text.contains(char::is_whitespace)) {
        let reason = format!("`{name}` may run `{}` as a command", word.text);
        return Some(Denial::unanalysable(reason).by("G3"));
    }
    (0..behind.len()).find_map(|at| denied_by(layer, &behind[at..]))
}

// What comes first for these may be the name of any program.
fn as_own_subcommand(layer: &Layer, name: &str, words: &[Word]) -> Option<Denial> {
    if !matches!(name, "yarn" | "yarnpkg" | "pnpm" | "bun") {
        return None;
    }
    let first = 1 + words.iter().skip(1).position(|word| !word.text.starts_with('-'))?;
    let start = first + usize::from(words[first].text == "run");
    denied_by(layer, words.get(start..).unwrap_or_default())
}

// A variable of make may name a program: none that a deny rule names, whatever is after it there.
fn assigned(layer: &Layer, name: &str, words: &[Word]) -> Option<Denial> {
    if !matches!(name, "make" | "gmake") {
        return None;
    }
    let names = |program: &str| {
        let known = |rule: &Located<CommandRule>| rule.value.cmd[0].0.iter().any(|name| fold_name(name) == program);
        layer.shell.deny.iter().any(known)
    };
    let values = words.iter().skip(1).filter_map(|word| word.text.split_once('='));
    let found = values.map(|(_, value)| value).find(|value| names(&fold_name(base_name(value))))?;
    Some(Denial::unanalysable(format!("{name} may run `{found}` as a command")).by("G3"))
}

// Without a table, each word may name a program that is started, alone or in a line of a shell, and the words after it
// may be that program's: deny rules are asked about all of them.
fn hidden_start(layer: &Layer, name: &str, words: &[Word]) -> Option<Denial> {
    let table = programs::find(name).filter(|_| !words[0].text.contains('/'));
    let known = table.is_some_and(|table| {
        let named = |word: &&Word| subcommand(table, &word.text).is_some();
        table.subcommands.is_empty()
            || words[1..].iter().find(|word| !word.text.starts_with(['-', '+'])).is_none_or(|word| named(&word))
    });
    // Subcommands of cargo that start others of its own.
    let again = ["auditable", "careful", "component", "hack", "llvm-cov", "minimal-versions", "miri", "xwin"];
    let starts_again = name == "cargo" && words.iter().any(|word| again.contains(&word.text.as_str()));
    if known && !starts_again || programs::interpreters::reads_code(name) {
        return None;
    }
    for (at, word) in words.iter().enumerate().skip(1) {
        let rest = &words[at + 1..];
        let glued = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.get(1..));
        // A shell would take the quotes away, and the backslashes.
        let unquoted: String = word.text.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
        let quoted = (unquoted.len() < word.text.len()).then_some(unquoted.as_str());
        for text in std::iter::once(word.text.as_str()).chain(glued).chain(quoted) {
            let parts = text.split(|c: char| c.is_whitespace() || ";&|()<>'\"`${}=,:!".contains(c));
            let parts: Vec<Word> = parts.filter(|part| !part.is_empty()).map(Word::literal).collect();
            for start in 0..parts.len() {
                let tail: Vec<Word> = parts[start..].iter().chain(rest).cloned().collect();
                // `cargo hack publish`: it may start its own kin.
                let again: Vec<Word> = std::iter::once(Word::literal(name)).chain(tail.iter().cloned()).collect();
                let own = table.and_then(|_| denied_by(layer, &again));
                let found = own.or_else(|| denied_by(layer, &tail));
                if found.is_some() {
                    return found;
                }
                if programs::interpreters::gives_code(&tail) || no_rule_starts(&tail[0].text) {
                    let reason = format!("{name}: it may start `{}`", tail[0].text);
                    return Some(Denial::unanalysable(reason).by("G4").hint("run the program itself"));
                }
            }
        }
    }
    None
}

fn no_rule_starts(word: &str) -> bool {
    ["sudo", "doas", "pkexec", "run0", "runuser", "busybox", "toybox"].contains(&base_name(word))
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
    // `nc.openbsd`, `mkfs.ext4`, `git.exe`: kinds of the program that is named.
    let names_program = |known: &String| {
        let known = fold_name(base_name(known));
        name.strip_prefix(&known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if !rule.cmd[0].0.iter().any(names_program) {
        return false;
    }
    let table = programs::find(base_name(&program.text)).or_else(|| programs::find(&name));
    let options = table.map(|table| table.options).unwrap_or_default();
    let denied = rule.options.as_ref().map(|options| options.deny.as_slice()).unwrap_or_default();
    subcommand_matches(&name, &rule.cmd[1..], &words[1..], table, options)
        && (denied.is_empty() || denied.iter().any(|option| has_option(option, &words[1..], options)))
}

// Whether the next level of a rule is after any options. Once an option's arity is unknown, each later word counts.
fn subcommand_matches(
    program: &str,
    elements: &[super::file::Element],
    words: &[Word],
    table: Option<&Table>,
    options: &'static str,
) -> bool {
    let Some(element) = elements.first() else { return true };
    let mut loose = false;
    let mut at = 0;
    while at < words.len() {
        let word = &words[at];
        at += 1;
        if !word.literal {
            return true;
        }
        let is = |known: &String| is_subcommand(program, table, known, &word.text);
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

// A program without a table: the rule lists options and operands.
fn by_rule_alone(cx: Context<'_>, rule: &Located<CommandRule>, words: &[Word]) -> Result<Out, Denial> {
    let value = &rule.value;
    let rest = &words[value.cmd.len().min(words.len())..];
    let mut call = Call::new(cx, words, &[]);
    (call.out.writes, call.out.open_ended) = (!only_reads(value), true);
    let refuse = |what: String| Err(Denial::new(format!("{}: {what}", words[0].text)).by_rule(rule.rule.clone()));
    if value.max_args.is_some_and(|most| words.len() > most + 1) {
        return refuse(format!("more than {} arguments", value.max_args.unwrap_or_default()));
    }
    if let Some(word) = rest.iter().find(|word| !word.literal) {
        return refuse(format!("`{}` is not known", word.text));
    }
    if let Some(args) = &value.args {
        let fits =
            rest.len() == args.len() && rest.iter().zip(args).all(|(word, element)| element.0.contains(&word.text));
        return if fits { Ok(call.out) } else { refuse("the arguments are not those that the rule lists".to_owned()) };
    }
    let options = value.options.clone().unwrap_or_default();
    let (mut ended, mut at) = (false, 0);
    while at < rest.len() {
        let text = rest[at].text.as_str();
        at += 1;
        if ended || text.len() < 2 || !text.starts_with('-') {
            if let Err(what) = operand(&mut call, value.operands, &rest[at - 1]) {
                return refuse(what);
            }
            continue;
        }
        if text == "--" {
            ended = true;
            continue;
        }
        let letters = || text[1..].chars().map(|c| format!("-{c}"));
        let is_bundle = !text.starts_with("--") && text.chars().count() > 2;
        if options.allow.iter().any(|known| known == text)
            || (is_bundle && letters().all(|letter| options.allow.contains(&letter)))
        {
            continue;
        }
        let attached = options.paths.iter().find_map(|(name, kind)| {
            let rest = text.strip_prefix(name.as_str())?;
            if name.starts_with("--") {
                Some((*kind, rest.strip_prefix('=')?))
            } else {
                Some((*kind, rest)).filter(|_| name.len() == 2 && !rest.is_empty())
            }
        });
        let (kind, path) = match (attached, options.paths.get(text)) {
            (Some((kind, path)), _) => (kind, Word::literal(path)),
            (None, Some(kind)) => {
                let Some(next) = rest.get(at).filter(|next| !begins_like_an_option(&next.text)) else {
                    return refuse(format!("`{text}` needs a path"));
                };
                at += 1;
                (*kind, next.clone())
            }
            (None, None) => return refuse(format!("the option `{text}` is not listed")),
        };
        match kind {
            PathKind::Read => call.read(&path),
            PathKind::Write => call.write(&path),
        }
    }
    Ok(call.out)
}

// An operand of a program without a table.
fn operand(call: &mut Call<'_>, kind: Option<OperandKind>, word: &Word) -> Result<(), String> {
    let text = &word.text;
    match kind.unwrap_or(OperandKind::None) {
        OperandKind::None => return Err(format!("the operand `{text}` is not listed")),
        OperandKind::Data => {}
        _ if text.len() > 1 && text.starts_with('@') => {
            return Err(format!("`{text}` may stand for the words in a file"));
        }
        OperandKind::Read => call.read(word),
        OperandKind::Write => call.write(word),
    }
    Ok(())
}

/// Tells whether a rule says that a program without a table only reads its paths.
fn only_reads(rule: &CommandRule) -> bool {
    let mut kinds = rule.options.iter().flat_map(|options| options.paths.values());
    rule.operands == Some(OperandKind::Read) && kinds.all(|kind| *kind == PathKind::Read)
}

// What a rule on a known program says besides `cmd` narrows what its table allows.
fn narrowed_by(call: &Call<'_>, rule: &CommandRule, words: &[Word]) -> Result<(), Denial> {
    if rule.max_args.is_some_and(|most| words.len() > most + 1) {
        return Err(call.deny("more arguments than the rule allows"));
    }
    if let Some(options) = &rule.options {
        let listed = |name: &str| options.allow.iter().any(|known| known == name) || options.paths.contains_key(name);
        if let Some(found) = call.found.iter().find(|found| !listed(&found.name)) {
            return Err(call.deny(format!("the option `{}` is not listed by the rule", found.name)));
        }
    }
    if rule.operands == Some(OperandKind::None) && !call.operands.is_empty() {
        return Err(call.deny("the rule allows no operands"));
    }
    if let Some(args) = &rule.args {
        let rest = &words[rule.cmd.len().min(words.len())..];
        let fits = rest.len() == args.len()
            && rest.iter().zip(args).all(|(word, element)| word.literal && element.0.contains(&word.text));
        if !fits {
            return Err(call.deny("the arguments are not those that the rule lists"));
        }
    }
    Ok(())
}

/// Under `shell.default: allow`: each word that is not an option, and each value after `=`, is a path read and written.
pub(crate) fn words_as_paths(call: &mut Call<'_>, words: &[Word]) -> Result<(), Denial> {
    call.out.writes = true;
    call.out.open_ended = true;
    if call.name == "cpio" {
        return Err(call.deny("the files that it packs or unpacks are not known").hint("use tar"));
    }
    let program = call.name.split(' ').next().unwrap_or_default().to_owned();
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let named_so = untabled::downloads(&program, &texts).map_err(|what| call.deny(what).hint("name the file"))?;
    named_so.iter().for_each(|name| call.write(&Word::literal(name.as_str())));
    if untabled::unpacks(&program, &texts) {
        let glued = |word: &Word| word.text.strip_prefix("-o").filter(|folder| !folder.is_empty()).map(str::to_owned);
        match words.iter().find_map(glued).filter(|_| call.name.starts_with("7z")) {
            Some(folder) => call.out.effects.push(Effect::WriteTree(folder)),
            None => {
                let denial = call.deny("the names of the files that it writes are not known");
                return Err(denial.hint("unpack with `tar -x -C DIRECTORY` or `unzip -d DIRECTORY`"));
            }
        }
    }
    let mut ended = false;
    let pages = matches!(call.name.as_str(), "less" | "more" | "most" | "pg" | "lv");
    for word in words {
        if !word.literal {
            return Err(call.deny("its words are not known"));
        }
        if pages && word.text.starts_with('+') {
            return Err(Denial::unanalysable(format!("{}: commands given by `+`", call.name)).by("G3"));
        }
        if let Some(what) = untabled::refused(&program, &word.text) {
            return Err(call.deny(what));
        }
        let is_option = !ended && word.text.len() > 1 && word.text.starts_with('-');
        word_in(call, &word.text, is_option)?;
        if word.text == "--" && !ended {
            ended = true;
            continue;
        }
        let mut both = |text: &str| {
            if !text.is_empty() && text != "-" {
                call.out.effects.push(Effect::Read(text.to_owned()));
                call.out.effects.push(Effect::Write(text.to_owned()));
            }
        };
        if !is_option {
            both(&word.text);
            // A file with more words.
            both(word.text.strip_prefix('@').unwrap_or_default());
        }
        if let Some((_, value)) = word.text.split_once('=') {
            both(value);
        }
    }
    Ok(())
}
