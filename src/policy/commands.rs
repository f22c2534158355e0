//! Matches rules on commands, and decides what a matched command may do. Denies match broadly, allows exactly.

mod alone;
mod deny;
mod open;
mod option;
mod place;
mod strict;

use std::path::Path;

use self::deny::denied_by;
use self::open::{hidden_start, launched};
use self::option::started_by_option;
use self::strict::{names_program, no_rule};
use super::decision::{Denial, RuleRef};
use super::effect::Effect;
use super::facts::Facts;
use super::file::DefaultRule;
use super::glob::fold_name;
use super::grant::{Isolation, Network};
use super::layers::{Layer, Policy, Standing};
use super::names::{base_name, is_harmless_setting, keeps_charset, names_setting};
use super::paths::PathRules;
use super::programs::made::Made;
use super::programs::table::{Call, Context, Mode, Out};
use super::programs::{self, CommandRules, Judged, Judgement, Stdin, Word};
use super::repositories::other_repository;
use crate::path::{RelPath, Tree};

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
        let globs = policy.layers.iter().flat_map(|layer| &layer.rules.paths.read.deny);
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
            self.note_written(effect, folders);
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

    // Files that the command writes: one of them may be what another part would start.
    fn note_written(&self, effect: &Effect, folders: &[RelPath]) {
        let (Effect::Write(path) | Effect::WriteTree(path)) = effect else { return };
        for folder in folders {
            if let Ok(resolved) = self.paths.resolve(folder, Path::new(path)) {
                self.made.write(resolved.absolute);
            }
        }
    }

    fn layers(&self) -> impl Iterator<Item = &'a Layer> {
        // A narrowing layer without rules on commands narrows nothing.
        self.policy.layers.iter().filter(|layer| layer.grants || layer.rules.shell.present)
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
            known: &programs::KNOWN,
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
        // Under `shell.default: allow` a layer that only denies speaks of what a program starts, too.
        let denies_alone = layer.rules.shell.default.is_none() && layer.rules.shell.allow.is_none();
        let is_open = layer.rules.shell.default == Some(DefaultRule::Allow);
        if is_open || denies_alone && self.default_allows() {
            let started = launched(layer, name, words).or_else(|| hidden_start(layer, name, words));
            if let Some(denial) = started.or_else(|| started_by_option(layer, name, words)) {
                return Err(denial);
            }
        }
        if is_open {
            let cx = self.context(Mode::Open, stdin, folders);
            let rule = RuleRef { rule: "shell.default".to_owned(), source: layer.origin.source.clone() };
            return Ok((rule, open::judge(cx, name, words)?));
        }
        let Some(rules) = &layer.rules.shell.allow else {
            if layer.grants || layer.rules.shell.default == Some(DefaultRule::Deny) {
                return Err(Denial::new(format!("{} allows no commands", layer.origin.source)).by("G1"));
            }
            // It narrows by its deny rules alone; the layer that grants judges the rest.
            let rule = RuleRef { rule: "shell".to_owned(), source: layer.origin.source.clone() };
            return Ok((rule, Out::default()));
        };
        let cx = self.context(Mode::Strict, stdin, folders);
        let mut refused: Option<Denial> = None;
        for rule in rules.iter().filter(|rule| names_program(rule, &program.text)) {
            match strict::judge(cx, rule, words) {
                Ok(Some(out)) => return Ok((rule.at.clone(), out)),
                Ok(None) => {}
                Err(denial) => {
                    refused.get_or_insert(denial);
                }
            }
        }
        Err(refused.unwrap_or_else(|| no_rule(layer, rules, program, name)))
    }

    // What every layer says of a command, as one; and whether a rule of the operator's own file allows it.
    fn judge_layers(&self, words: &[Word], stdin: Stdin, folders: &[RelPath]) -> Result<(RuleRef, Out, bool), Denial> {
        let mut all: Option<(RuleRef, Out)> = None;
        let mut by_operator = false;
        for layer in self.layers() {
            let (rule, out) = self.judge_layer(layer, words, stdin, folders)?;
            by_operator |= layer.origin.standing == Standing::Operator && !rule.source.starts_with("builtin:");
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
        Ok((rule, out, by_operator))
    }

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
                place::moved(&call)?
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
        let attached = programs::git::attached(words);
        if attached.is_some() {
            // The rules must allow what was written, and the tables what git will read.
            self.judge_layers(words, stdin, folders)?;
        }
        let words = attached.as_deref().unwrap_or(words);
        let (rule, out, by_operator) = self.judge_layers(words, stdin, folders)?;
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
            formatted: out.formatted,
            writes_git: out.writes_git,
            open_ended: out.open_ended,
            directories: out.directories,
            printed: out.printed.or_else(|| attached.clone()),
        })
    }

    fn check(&self, effect: &Effect, folders: &[RelPath]) -> Result<(), Denial> {
        self.note_written(effect, folders);
        self.paths.effect(effect, folders)
    }

    fn denied(&self, words: &[Word]) -> Option<Denial> {
        self.layers().find_map(|layer| denied_by(layer, words))
    }

    fn may_set(&self, variable: &str, value: &str) -> bool {
        let passes = |layer: &Layer| {
            let env = layer.rules.shell.env.as_ref();
            env.is_some_and(|env| env.pass.iter().any(|known| names_setting(&known.0, variable, value)))
        };
        let narrows = |layer: &&Layer| layer.rules.shell.env.is_some() || layer.grants;
        let may_pass = || keeps_charset(variable, value) && self.layers().filter(narrows).all(passes);
        is_harmless_setting(variable, value) || may_pass()
    }

    fn network(&self) -> Network {
        self.policy.network_shell()
    }

    fn default_allows(&self) -> bool {
        self.layers().all(|layer| {
            let silent = layer.rules.shell.default.is_none() && layer.rules.shell.allow.is_none() && !layer.grants;
            silent || layer.rules.shell.default == Some(DefaultRule::Allow)
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
