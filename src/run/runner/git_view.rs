//! Decides which repository a command finds, and where.

use std::path::Path;

use super::Runner;
use super::git_commands::is_judged_git;
use super::surroundings::{GIT_AT, OBJECTS_AT, TreeMounts};
use crate::git::{git_environment, private_git_configuration};
use crate::policy::CommandPlan;
use crate::policy::grant::{GitAccess, TreeAccess};
use crate::sandbox::{BindMount, Sandbox, Tier};
use crate::workspace::tree::{CommandTree, Scratch};

impl Runner {
    /// Tells whether a scratch directory is mounted over git's own.
    fn stands_in(&self, git: &Scratch) -> bool {
        self.tier() == Tier::T3 && git.stands_for.symlink_metadata().is_ok_and(|found| found.is_dir())
    }

    /// Tells whether a command must not find a repository: it runs other programs than git under the rules on reading.
    pub(super) fn hides_git(&self, plan: &CommandPlan, command_tree: &CommandTree) -> bool {
        plan.profile.git != GitAccess::None && !is_judged_git(plan) && self.may_show_unreadable(command_tree)
    }

    /// Tells whether git's objects may contain a file that must not be read.
    pub(super) fn may_show_unreadable(&self, command_tree: &CommandTree) -> bool {
        command_tree.git().is_some()
            && self.options.policy.unreadable_of_history(&self.options.facts).map_or(true, |found| !found.is_empty())
    }

    /// Returns what commands find besides their tree.
    pub(super) fn surroundings(
        &self,
        command_tree: &CommandTree,
        tree: TreeAccess,
        access: GitAccess,
        hides_git: bool,
    ) -> TreeMounts {
        let mut around = TreeMounts { read: command_tree.reads().to_vec(), ..TreeMounts::default() };
        if hides_git {
            around.read.clear();
            // In a copy it is not there at all.
            if self.tier() == Tier::T3
                && command_tree.git().is_some_and(|git| {
                    git.work_tree == command_tree.root() && git.work_tree == self.options.workspace.root()
                })
            {
                around.hidden.push(".git".into());
            }
        } else if let Some(git) = command_tree.git() {
            match access {
                GitAccess::None => around.read.clear(),
                GitAccess::ReadOnly => around.read.push(git.folder.clone()),
                GitAccess::Scratch => around.write.push(git.folder.clone()),
            }
            if self.tier() == Tier::T3 {
                // It is seen at another path.
                around.read.retain(|path| *path != git.folder);
                around.write.clear();
                self.mount_git(command_tree, git, tree, access, &mut around);
            }
        }
        around
    }

    /// Adds git's scratch directory and the real objects to what a command in namespaces finds.
    fn mount_git(
        &self,
        command_tree: &CommandTree,
        git: &Scratch,
        tree: TreeAccess,
        access: GitAccess,
        around: &mut TreeMounts,
    ) {
        around.read.retain(|path| *path != git.objects);
        if access != GitAccess::None {
            around.mounts.push(BindMount { at: OBJECTS_AT.into(), from: git.objects.clone(), write: false });
        }
        let write = access == GitAccess::Scratch;
        if git.is_apart() {
            if access != GitAccess::None {
                around.mounts.push(BindMount { at: GIT_AT.into(), from: git.folder.clone(), write });
            }
        } else if command_tree.layer().is_some() || !git.folder.starts_with(command_tree.root()) {
            if self.stands_in(git) {
                around.mounts.push(BindMount { at: git.stands_for.clone(), from: git.folder.clone(), write });
            }
        } else if write && tree == TreeAccess::ReadOnly {
            let at = self.options.workspace.root().join(".git");
            around.mounts.push(BindMount { at, from: git.folder.clone(), write });
        } else if !write && tree == TreeAccess::Writable {
            around.read_only.push(".git".into());
        }
    }

    /// Returns the variables for git in a command: it finds no other repository than that of the tree.
    pub(super) fn git_variables(
        &self,
        sandbox: &Sandbox,
        command_tree: &CommandTree,
        plan: &CommandPlan,
    ) -> Vec<(String, String)> {
        let mut variables = git_environment();
        let seen = if sandbox.tier() == Tier::T3 { self.options.workspace.root() } else { command_tree.root() };
        let (git_dir, top) = match command_tree.git() {
            None => (None, Some(seen)),
            Some(git) if sandbox.tier() == Tier::T3 => {
                let at = if git.is_apart() { Path::new(GIT_AT) } else { &git.stands_for };
                (Some(at), git.stands_for.parent())
            }
            Some(git) => (Some(git.folder.as_path()), Some(git.work_tree.as_path())),
        };
        let mut set = |name: &str, path: Option<&Path>| {
            variables.extend(path.and_then(Path::to_str).map(|path| (name.to_owned(), path.to_owned())));
        };
        set("GIT_CEILING_DIRECTORIES", top.and_then(Path::parent));
        // Other programs may start a git of their own, for a repository of their own.
        if is_judged_git(plan) {
            set("GIT_DIR", git_dir);
            set("GIT_WORK_TREE", top.filter(|_| git_dir.is_some()));
        }
        if plan.is_git_and_readers() {
            variables.extend(private_git_configuration());
        }
        variables
    }
}
