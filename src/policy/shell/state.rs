//! Holds what is known of a command while it is judged: what was found, and where the shell may be.

use std::path::{Path, PathBuf};

use super::ast::Word;
use super::printer::print_word;
use crate::path::RelPath;
use crate::policy::decision::{Denial, RuleRef};
use crate::policy::effect::Effect;
use crate::policy::grant::Isolation;
use crate::policy::launchers::says_programs;
use crate::policy::programs::{CommandRules, Judged, Stdin};

/// Maximum simple commands that are judged, loops counted once for each value.
const COMMANDS_CAP: usize = 5_000;

/// One simple command as it was judged, for `policy explain`.
#[derive(Debug, Clone)]
pub struct Step {
    /// The words as they would run.
    pub command: String,
    /// How many layers (wrappers, `-c` texts, programs that start programs) are around it.
    pub depth: usize,
    /// Its effects, one line each.
    pub effects: Vec<String>,
    /// The allow rule that matched (`None` for harmless commands and wrappers), or why it is denied.
    pub outcome: Result<Option<RuleRef>, Denial>,
}

/// The directories that a command may be in, sorted, each once. None: it cannot run.
pub(super) type Folders = Vec<RelPath>;

/// Where the shell may be after a command, by how it ended.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) success: Folders,
    pub(super) failure: Folders,
}

impl Outcome {
    pub(super) fn stays(folders: &[RelPath]) -> Outcome {
        Outcome { success: folders.to_vec(), failure: folders.to_vec() }
    }

    /// Either this one or another.
    pub(super) fn or(&self, other: &Outcome) -> Outcome {
        Outcome { success: union(&self.success, &other.success), failure: union(&self.failure, &other.failure) }
    }

    pub(super) fn either(&self) -> Folders {
        union(&self.success, &self.failure)
    }
}

pub(super) fn union(left: &[RelPath], right: &[RelPath]) -> Folders {
    let mut folders: Folders = left.iter().chain(right).cloned().collect();
    folders.sort();
    folders.dedup();
    folders
}

/// What was found so far.
#[derive(Clone, Default)]
pub(super) struct Record {
    pub(super) steps: Vec<Step>,
    pub(super) effects: Vec<String>,
    pub(super) rules: Vec<RuleRef>,
    pub(super) programs: Vec<String>,
    /// Directories and files outside the workspace that rules accepted by name.
    pub(super) named: Vec<PathBuf>,
    pub(super) unchanged: Vec<RelPath>,
    // By the command's own words.
    pub(super) written: Vec<RelPath>,
    pub(super) writes: bool,
    pub(super) writes_git: bool,
    pub(super) open_ended: bool,
    pub(super) isolation: Isolation,
    pub(super) print: Print,
}

/// How the command is to be printed.
#[derive(Clone, Default)]
pub(super) struct Print {
    /// A word names a path inside the workspace.
    pub(super) placed: bool,
    /// A builtin is used, so a shell has to run it.
    pub(super) shell: bool,
}

/// A command on its way to a decision.
pub(super) struct Judge<'a> {
    pub(super) rules: &'a dyn CommandRules,
    pub(super) record: Record,
    /// The variables of the loops around, with the value they have now.
    pub(super) variables: Vec<(String, String)>,
    /// The directories that a `cd` of this shell process may have entered.
    pub(super) reached: Vec<RelPath>,
    /// How many loops of this shell process are around.
    pub(super) loops: usize,
    pub(super) depth: usize,
    pub(super) commands: usize,
    pub(super) words: usize,
}

/// Who starts a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// bash: its builtins are there.
    Shell,
    /// Another program: only programs are there.
    Program,
    /// A program such as `find` or `xargs`, which may put names for a part of the words.
    Finder,
}

/// The surroundings of a command.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) folders: &'a [RelPath],
    pub(super) stdin: Stdin,
    pub(super) by: By,
    /// Neither redirection nor assignment could keep it from running.
    pub(super) certain: bool,
}

impl<'a> Judge<'a> {
    pub(super) fn new(rules: &'a dyn CommandRules) -> Judge<'a> {
        Judge {
            rules,
            record: Record::default(),
            variables: Vec::new(),
            reached: Vec::new(),
            loops: 0,
            depth: 0,
            commands: 0,
            words: 0,
        }
    }

    pub(super) fn effect(&mut self, line: String) {
        if !self.record.effects.contains(&line) {
            self.record.effects.push(line);
        }
    }

    pub(super) fn count(&mut self) -> Result<(), Denial> {
        self.commands += 1;
        if self.commands > COMMANDS_CAP {
            return Err(Denial::unanalysable(format!("it runs more than {COMMANDS_CAP} commands")));
        }
        Ok(())
    }

    /// Judges what runs in a shell process of its own: neither its `cd` nor its loops reach out of it.
    pub(super) fn isolated<T>(&mut self, judge: impl FnOnce(&mut Self) -> Result<T, Denial>) -> Result<T, Denial> {
        let loops = std::mem::take(&mut self.loops);
        let reached = self.reached.len();
        let result = judge(self);
        self.loops = loops;
        self.reached.truncate(reached);
        result
    }

    pub(super) fn checked(&mut self, effect: &Effect, folders: &[RelPath]) -> Result<(), Denial> {
        self.rules.check(effect, folders)?;
        if let Effect::Write(path) | Effect::WriteTree(path) | Effect::Delete(path) | Effect::DeleteTree(path) = effect
        {
            let root = self.rules.root();
            let below = |folder: &RelPath| RelPath::below(root, Path::new(path)).or_else(|| folder.join(path));
            self.record.written.extend(folders.iter().filter_map(below));
        }
        self.effect(effect_line(effect));
        Ok(())
    }

    /// Judges each effect of a program. A file that says what a launcher starts goes on to say it after a formatter, and
    /// does not count as changed.
    pub(super) fn effects_of(&mut self, judged: &Judged, folders: &[RelPath]) -> Result<(), Denial> {
        for effect in &judged.effects {
            let before = self.record.written.len();
            self.checked(effect, folders)?;
            if judged.formatted.iter().any(|path| path == effect.path()) {
                let new = self.record.written.split_off(before);
                self.record.written.extend(new.into_iter().filter(|path| !says_programs(path)));
            }
        }
        Ok(())
    }

    /// Judges a look at whether a file is there.
    pub(super) fn probed(&mut self, path: &str, folders: &[RelPath]) -> Result<(), Denial> {
        if path.is_empty() || path == "/dev/null" {
            return Ok(());
        }
        self.rules.check(&Effect::List(path.to_owned()), folders)
    }
}

/// Writes an effect as a line for people.
pub(super) fn effect_line(effect: &Effect) -> String {
    match effect {
        Effect::Read(path) => format!("read {path}"),
        Effect::ReadTree { path, .. } => format!("read everything below {path}"),
        Effect::List(path) => format!("list {path}"),
        Effect::Write(path) => format!("write {path}"),
        Effect::WriteTree(path) => format!("write anything below {path}"),
        Effect::Delete(path) => format!("delete {path}"),
        Effect::DeleteTree(path) => format!("delete everything below {path}"),
        Effect::Enter(path) => format!("enter {path}"),
    }
}

pub(super) fn line_of<'w>(words: impl Iterator<Item = &'w Word>) -> String {
    words.map(print_word).collect::<Vec<_>>().join(" ")
}
