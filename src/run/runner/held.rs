//! Holds the programs of the workspace that a command starts to what the policy or the beginning of the run says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::Runner;
use crate::base::digest::sha256;
use crate::change::Entry;
use crate::path::RelPath;
use crate::policy::grant::Start;
use crate::policy::launchers::names_the_same;
use crate::policy::names::named;
use crate::policy::packages::{is_cache, packages_of};
use crate::policy::programs::only_reads;
use crate::policy::{CommandPlan, Denial};
use crate::tools::ToolError;
use crate::workspace::disk::Disk;
use crate::workspace::tree::CommandTree;

/// The most links from a program's name to the program.
const MOST_LINKS: usize = 40;

/// Interpreters, with the endings of files that a script of theirs loads by name.
const LOADED: [(&str, &str); 7] = [
    ("python py", "py pyc so pth"),
    ("node deno bun js mjs cjs ts mts cts", "js mjs cjs ts mts cts json node"),
    ("sh bash dash ksh zsh", "sh bash ksh zsh"),
    ("ruby rb", "rb so"),
    ("perl pl", "pl pm"),
    ("lua", "lua so"),
    ("php", "php inc"),
];

/// Returns the endings of what a script may load, by its own ending or its first line; a binary program loads libraries.
fn loaded_by(program: &RelPath, content: &[u8]) -> &'static str {
    let name = program.to_string_lossy();
    let first = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first.strip_prefix(b"#!").unwrap_or_default()).into_owned();
    let words =
        first.split(['/', ' ', '\t']).map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'));
    let words: Vec<&str> = words.chain(name.rsplit_once('.').map(|(_, ending)| ending)).collect();
    let known = LOADED.iter().find(|(names, _)| words.iter().any(|word| named(names, word)));
    known.map_or("so", |(_, endings)| endings)
}

impl Runner {
    /// Returns the pinned programs that a command starts; one that differs from the policy's digest is an error.
    pub(super) fn pinned(&self, plan: &CommandPlan, command_tree: &CommandTree) -> Result<Vec<PathBuf>, ToolError> {
        let mut found = Vec::new();
        for (path, wanted) in self.options.policy.pinned_programs() {
            let is_it = |name: &String| name.contains('/') && RelPath::new(name).as_ref() == Some(&path);
            if !plan.programs.iter().any(is_it) {
                continue;
            }
            // Any other program that can write could replace it.
            let mut others = plan.programs.iter().filter(|name| !is_it(name));
            let writes = match &plan.start {
                Start::Pipeline(_) => false,
                Start::Script(text) | Start::AsWritten(text) => text.contains('>'),
            };
            if writes || others.any(|name| !only_reads(name)) {
                let what = format!("{path} is pinned, and other parts of the same command could change it");
                let hint = "start it in a command of its own, or with programs that only read";
                return Err(ToolError::denied(Denial::new(what).by("G7").hint(hint)));
            }
            // The name is relative to the root; in another directory it would be another program.
            let moves = matches!(&plan.start, Start::Script(text) if text.contains("cd -P"));
            if moves || !plan.directory.is_root() {
                let what = format!("{path} is pinned by the policy and is started at the root alone");
                return Err(ToolError::denied(Denial::new(what).by("G7")));
            }
            let content = match command_tree.entry(&path) {
                Ok(Entry::File { content, .. }) if sha256(&content) == wanted.to_lowercase() => content,
                Ok(Entry::File { .. } | Entry::Absent | Entry::Link { .. }) | Err(_) => {
                    let what = format!("{path} is not the file that the policy pins (sha256 {wanted})");
                    return Err(ToolError::denied(Denial::new(what).by("G7")));
                }
            };
            if let Some(written) = self.written_beside(&path, &content, command_tree)? {
                let what = format!("{path} is pinned and may load {written}, which this run changed");
                return Err(ToolError::denied(Denial::new(what).by("G7").hint("start it before such a change")));
            }
            found.push(path.as_path().to_path_buf());
        }
        Ok(found)
    }

    /// Returns code beside a pinned program that this run changed and that the program may load: its digest does not
    /// cover that.
    fn written_beside(
        &self,
        program: &RelPath,
        content: &[u8],
        command_tree: &CommandTree,
    ) -> Result<Option<RelPath>, ToolError> {
        let directory = program.parent().unwrap_or_default();
        let endings = loaded_by(program, content);
        let is_beside = |path: &RelPath| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (stem, ending) = name.rsplit_once('.').unwrap_or((&name, ""));
            let parent = path.parent().unwrap_or_default();
            let is_package = stem == "__init__" && parent.parent().as_ref() == Some(&directory);
            path != program && named(endings, ending) && (parent == directory || is_package)
        };
        if let Some((path, _)) = self.options.workspace.changes().iter().find(|(path, _)| is_beside(path)) {
            return Ok(Some(path.clone()));
        }
        command_tree
            .changed_below(&directory, &|path| !is_beside(path))
            .map_err(|error| ToolError::failed(format!("{directory} cannot be looked through: {error}")))
    }

    /// Returns the programs of the workspace that a command runs by a rule without a digest, and what they load; one
    /// that changed since the run began is refused.
    pub(super) fn unchanged(&self, plan: &CommandPlan, command_tree: &CommandTree) -> Result<Vec<PathBuf>, ToolError> {
        let refuse = |path: &RelPath, why: &str| {
            let denial = Denial::new(format!("{path} {why}: installed programs and wrappers run as they were"));
            ToolError::denied(denial.by("G7"))
        };
        let mut held: Vec<PathBuf> = Vec::new();
        let mut packages = BTreeSet::new();
        let mut seen = 0;
        let mut pending = plan.unchanged.clone();
        while let Some(path) = pending.pop() {
            seen += 1;
            let before = Disk.entry(&path.under(self.options.workspace.root())).ok();
            let now = command_tree.entry(&path).ok();
            let [was, is] = [&before, &now].map(|entry| entry.as_ref().and_then(Entry::content));
            match names_the_same(&path, was, is) {
                Some(true) => continue,
                Some(false) => return Err(refuse(&path, "names other programs than when the run began")),
                None => {}
            }
            // A directory of programs stands for the packages that they are in.
            let is_directory = path.as_path().ends_with("node_modules/.bin");
            if before == Some(Entry::Absent) && now == Some(Entry::Absent) && !is_directory {
                continue;
            }
            if before == Some(Entry::Absent) && now != Some(Entry::Absent) {
                let denial =
                    Denial::new(format!("{path} was not there when the run began: only what was installed then runs"));
                let hint = "install before the run (`npm ci`, `uv sync`), in a step of its own";
                return Err(ToolError::denied(denial.by("G7").hint(hint)));
            }
            if before.is_none() || before != now || seen > MOST_LINKS + plan.unchanged.len() {
                return Err(refuse(&path, "is not as it was when the run began"));
            }
            packages.extend(packages_of(&path));
            match now {
                Some(Entry::Link { target }) => {
                    let folder = path.parent().unwrap_or_default();
                    pending.extend(folder.join(OsStr::from_bytes(&target)));
                    // Its directory holds the link; the root is where commands work.
                    held.extend((!folder.is_root()).then(|| folder.as_path().to_path_buf()));
                }
                Some(Entry::File { .. }) => held.push(path.as_path().to_path_buf()),
                Some(Entry::Absent) | None => {}
            }
        }
        let staged = self.options.workspace.changes();
        for directory in packages {
            let counts = |path: &&RelPath| path.is_under(&directory) && !is_cache(&directory, path);
            let changed = match staged.iter().map(|(path, _)| path).find(counts) {
                Some(path) => Some(path.clone()),
                None => command_tree
                    .changed_below(&directory, &|path| is_cache(&directory, path))
                    .map_err(|error| ToolError::failed(format!("{directory} cannot be looked through: {error}")))?,
            };
            if let Some(path) = changed {
                return Err(refuse(&path, "is not as it was when the run began"));
            }
        }
        Ok(held)
    }
}
