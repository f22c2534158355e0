//! Prepares a command workspace for a check, which is to judge the change and nothing else: what commands made that is no
//! part of it is removed, and git's directory says what the repository says.
//!
//! Ignored files stay as commands left them: what they build and install is there.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat};

use super::CommandTree;
use super::common::DEEPEST;
use super::git::{Scratch, scratch_git_of};
use super::layer;
use super::outputs::Rules;
use crate::change::{Change, ChangeSet, Entry};
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::workspace::folder::Folder;
use crate::workspace::ignore::{Kind, Source};
use crate::workspace::snapshot::number;
use crate::workspace::view::WorkspaceError;

/// The name of git's directory of the other commands while a check has its own.
const ASIDE: &str = "git.aside";

/// Returns when a file was changed last.
fn modified(stat: &Stat) -> SystemTime {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, u32::try_from(stat.st_mtime_nsec).unwrap_or(0))
}

/// Renames a file or directory of our own, also where commands have closed it or the directory above.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    if let (Some(above), Some(name)) = (from.parent(), from.file_name()) {
        let above = Folder::root_of_ours(above)?;
        if above.stat(name)?.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()) {
            above.open_to(name, 0o700)?;
        }
    }
    if let Some(above) = to.parent() {
        Folder::root_of_ours(above)?;
    }
    std::fs::rename(from, to)
}

/// A search for leftovers.
struct Search<'a> {
    tree: &'a CommandTree,
    staged: &'a ChangeSet,
    /// Whether `.git` at the top is the command workspace's own.
    keeps_git: bool,
}

impl CommandTree {
    /// Removes what is neither the project's nor a part of the change nor ignored by the project's own rules: files, directories
    /// without any, special files, and repositories below the top.
    pub fn drop_leftovers(&mut self, staged: &ChangeSet) -> Result<(), WorkspaceError> {
        self.open_wide()?;
        let dropped = self.search_leftovers(staged);
        dropped.map_err(|cause| self.common().failed(cause))
    }

    fn search_leftovers(&self, staged: &ChangeSet) -> io::Result<()> {
        let common = self.common();
        let before = Source::of_tree(&common.project, &common.project);
        let (here, project) = match self {
            CommandTree::Copy(tree) => (tree.tree.again()?, Folder::root(&common.project)?),
            CommandTree::Overlay(tree) => tree.layer.sides()?,
        };
        let own_git = |git: &Scratch| git.folder == common.root.join(".git");
        let keeps_git = self.layer().is_some() || common.git.as_ref().is_some_and(own_git);
        let search = Search { tree: self, staged, keeps_git };
        let rules = Rules::new(&common.rules, &before);
        search.clear(&here, Some(&project), &RelPath::root(), &rules)?;
        before.check()?;
        common.rules.check()
    }

    /// Gives a check a directory of git in which no command has changed anything; [`CommandTree::take_git_back`] ends that.
    pub fn lend_git(&mut self, repository: Option<&Repository>, objects_at: Option<&Path>) -> io::Result<()> {
        let common = self.common_mut();
        let Some(git) = common.git.clone() else { return Ok(()) };
        let at = common.directory.path().canonicalize()?;
        let aside = at.join(ASIDE);
        match rename(&git.folder, &aside) {
            // A command has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
        let is_apart = git.is_apart();
        let folder = if is_apart { git.work_tree.join(".git") } else { git.folder.clone() };
        if is_apart {
            // Something that a command made, as there was none.
            Folder::root_of_ours(&git.work_tree)?.clear(OsStr::new(".git"))?;
        }
        let work_tree = git.work_tree.clone();
        common.git_aside = Some(git);
        common.git = scratch_git_of(repository, objects_at, folder, Some(&work_tree))?.0;
        if is_apart { self.keep_git_apart() } else { Ok(()) }
    }

    /// Gives the other commands their directory of git back.
    pub fn take_git_back(&mut self) -> io::Result<()> {
        let common = self.common_mut();
        let Some(git) = common.git_aside.take() else { return Ok(()) };
        let at = common.directory.path().canonicalize()?;
        // What a check has left there may be hard to remove; it goes with everything else at the end of the run.
        let used = (1..).map(|number: u32| at.join(format!("git.{number}")));
        let free =
            used.into_iter().find(|path| path.symlink_metadata().is_err()).ok_or(io::ErrorKind::AlreadyExists)?;
        for (from, to) in [(&git.folder, &free), (&at.join(ASIDE), &git.folder)] {
            match rename(from, to) {
                // A command has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                moved => moved?,
            }
        }
        common.git = Some(git);
        Ok(())
    }
}

impl Search<'_> {
    /// Clears a directory; returns whether it holds a file.
    fn clear(&self, here: &Folder, project: Option<&Folder>, at: &RelPath, rules: &Rules) -> io::Result<bool> {
        let mut holds = false;
        for (name, kind) in here.names()? {
            let Some(path) = at.child(&name) else { continue };
            if name == ".git" {
                let is_kept = at.is_root() && self.keeps_git || self.is_mark(here, &name, kind)?;
                if !is_kept {
                    self.remove(here, &name, &path)?;
                }
            } else if kind.is_dir() {
                if rules.ignore(&name, Kind::Folder) || path.components().count() > DEEPEST {
                    holds = true;
                    continue;
                }
                let beneath = layer::below(project, &name)?;
                let inner = here.enter_name(&name)?;
                let is_full = self.clear(&inner, beneath.as_ref(), &path, &rules.enter(&path))?;
                // A directory goes with its last file; one that was empty before stays.
                if is_full || beneath.is_some() && !self.loses_files(&path) {
                    holds = true;
                } else {
                    self.remove(here, &name, &path)?;
                }
            } else if kind.is_file() || kind.is_symlink() {
                if rules.ignore(&name, Kind::File) {
                    holds = true;
                } else if self.is_part(project, &name, &path)? {
                    holds = true;
                    if kind.is_file() {
                        self.set_right(here, project, &name, &path)?;
                    }
                } else {
                    // It is ignored by what the run itself has made.
                    self.remove(here, &name, &path)?;
                }
            } else if !self.is_mark(here, &name, kind)? {
                self.remove(here, &name, &path)?;
            }
        }
        Ok(holds)
    }

    /// Tells whether a file is the project's or a part of the change.
    fn is_part(&self, project: Option<&Folder>, name: &OsStr, path: &RelPath) -> io::Result<bool> {
        let is_known = self.staged.get(path).is_some() || self.tree.common().snapshot.knows(path);
        Ok(is_known || project.map(|project| project.stat(name)).transpose()?.flatten().is_some())
    }

    /// Tells whether the change removes files below a directory.
    fn loses_files(&self, directory: &RelPath) -> bool {
        self.staged.iter().any(|(path, change)| change.after == Entry::Absent && path.is_under(directory))
    }

    /// Gives a file the mode that it is delivered with, and one that is a part of the change a time between the beginning of
    /// the run and now: programs such as make decide by them. What was built of a file that is unchanged again is older than
    /// it, so its time stays.
    fn set_right(&self, here: &Folder, project: Option<&Folder>, name: &OsStr, path: &RelPath) -> io::Result<()> {
        let Some(found) = here.stat(name)? else { return Ok(()) };
        let bits = |stat: &Stat| number::<_, u32>(stat.st_mode) & 0o777;
        let change = self.staged.get(path);
        if change.is_some() && !(self.tree.common().since..=SystemTime::now()).contains(&modified(&found)) {
            here.touch(name)?;
        }
        let own = project.map(|project| project.stat(name)).transpose()?.flatten();
        let own = own.filter(|own| FileType::from_raw_mode(own.st_mode).is_file()).map(|own| bits(&own));
        let mut wanted = match (own, change) {
            (Some(own), None) => own,
            (None, None) => return Ok(()),
            (own, Some(Change { after: Entry::File { executable, .. }, .. })) => {
                let own = own.unwrap_or(0o644);
                if *executable { own | (own & 0o444) >> 2 } else { own & !0o111 }
            }
            (_, Some(_)) => return Ok(()),
        };
        if self.tree.layer().is_none() || change.is_some() {
            wanted |= 0o600;
        }
        if bits(&found) == wanted { Ok(()) } else { here.open_to(name, wanted) }
    }

    /// Tells whether the name only says that something of the project is gone, or is not to be seen.
    fn is_mark(&self, here: &Folder, name: &OsStr, kind: FileType) -> io::Result<bool> {
        let can_be = self.tree.layer().is_some() && kind.is_char_device();
        Ok(can_be && here.stat(name)?.is_some_and(|stat| layer::is_white_out(&stat)))
    }

    fn remove(&self, here: &Folder, name: &OsStr, path: &RelPath) -> io::Result<()> {
        here.open_wide()?;
        let Some(layer) = self.tree.layer() else { return here.clear(name) };
        let is_staged = self.staged.get(path).is_some_and(|change| change.after == Entry::Absent);
        if is_staged || layer.hides(path) || self.loses_files(path) {
            layer.put(path, &Entry::Absent)
        } else {
            here.clear(name)
        }
    }
}
