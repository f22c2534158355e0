//! Maintains a command workspace without a copy: the project below a [`Layer`], of which only writes are searched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use super::scratch::scratch_git_of;
use super::{LendOptions, Lent, is_closed, is_missing, scratch};
use crate::change::ChangeSet;
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::workspace::changed_since::Since;
use crate::workspace::folder::Folder;
use crate::workspace::ignore::{Kind, Level, Source};
use crate::workspace::layer::{self, Layer};
use crate::workspace::snapshot::{Snapshot, Stat};
use crate::workspace::{Workspace, WorkspaceError};

/// Which files count: existing ones by the current rules, deleted ones by the earlier rules.
pub(super) struct Rules {
    sources: Arc<(Source, Source)>,
    now: Arc<Level>,
    before: Arc<Level>,
}

impl Rules {
    pub(super) fn new(now: &Source, before: &Source) -> Rules {
        Rules { now: Level::root(now), before: Level::root(before), sources: Arc::new((now.clone(), before.clone())) }
    }

    pub(super) fn enter(&self, folder: &RelPath) -> Rules {
        let (now, before) = &*self.sources;
        Rules {
            sources: Arc::clone(&self.sources),
            now: self.now.enter(now, folder),
            before: self.before.enter(before, folder),
        }
    }

    /// Tells whether a name is ignored, and was.
    pub(super) fn ignore(&self, name: &OsStr, kind: Kind) -> bool {
        self.now.child(name, kind).git && self.before.child(name, kind).git
    }
}

/// The result of scanning the layer.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files and links to compare with their earlier contents.
    pub(super) changed: Vec<RelPath>,
    /// What commands no longer see.
    pub(super) gone: Vec<RelPath>,
    /// Directories that are too deep to scan.
    pub(super) too_deep: Vec<RelPath>,
}

/// Maximum nesting of directories in a layer.
pub(super) const DEEPEST: usize = 256;

struct Look<'a> {
    layer: Arc<Layer>,
    staged: &'a ChangeSet,
    found: Found,
}

/// Tells whether a file or link of the project has this name.
pub(super) fn is_file_of(lower: Option<&Folder>, name: &OsStr) -> io::Result<bool> {
    let Some(lower) = lower else { return Ok(false) };
    let stat = lower.stat(name)?;
    Ok(stat.is_some_and(|stat| !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir()))
}

impl Workspace {
    /// Makes the command workspace as a layer over the project; nothing is copied. `None` if no layer is possible:
    /// git's directory is elsewhere, or the file system lacks what a layer needs.
    ///
    /// Only if the kernel mounts overlays, and not while anything is still running in the tree.
    pub fn lend_layered(&self, options: &LendOptions<'_>) -> Result<Option<Lent>, WorkspaceError> {
        let failed = |cause| WorkspaceError::Io { path: self.root.clone(), cause };
        let git_is_a_folder = |repository: &Repository| {
            repository.top.join(".git").symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
        };
        if !options.repository.is_none_or(git_is_a_folder) {
            return Ok(None);
        }
        let since = SystemTime::now();
        let scratch = scratch(options).map_err(failed)?;
        let at = scratch.path().canonicalize().map_err(failed)?;
        let (git, reads) =
            scratch_git_of(options.repository, options.objects_at, at.join(".git"), None).map_err(failed)?;
        let keeps_git = git.is_some() && options.repository.is_some_and(|repository| repository.prefix.is_root());
        let (layer, left_out) = match Layer::begin(&self.root, &at, keeps_git, options) {
            Ok(begun) => begun,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(failed(error)),
            Err(_) => return Ok(None),
        };
        let layer = Arc::new(layer);
        Ok(Some(Lent {
            root: self.root.clone(),
            tree: Folder::root(&self.root).map_err(failed)?,
            layer: Some(Arc::clone(&layer)),
            repository: options.repository.cloned(),
            tracked: OnceLock::new(),
            covered: BTreeSet::new(),
            reads,
            left_out,
            snapshot: Snapshot::default(),
            ignored: Snapshot::default(),
            since,
            flushed: BTreeMap::new(),
            rules: Source::of_layer(&self.root, layer),
            real_root: self.root.clone(),
            git,
            scratch,
        }))
    }
}

impl Lent {
    /// Returns something below a directory that commands have made or changed, ignored files too. What `leaves_out` names
    /// is not looked at.
    pub fn changed_below(
        &self,
        directory: &RelPath,
        leaves_out: &dyn Fn(&RelPath) -> bool,
    ) -> io::Result<Option<RelPath>> {
        let or_hidden = |path: &RelPath| leaves_out(path) || self.layer.as_ref().is_some_and(|layer| layer.hides(path));
        let (above, since) = match &self.layer {
            Some(layer) => (layer.sides()?.0, Since::always(&or_hidden)),
            None => (self.tree.again()?, Since::mark(self.scratch.path(), &or_hidden)?),
        };
        match above.enter(directory) {
            Ok(folder) => since.first_below(&folder, directory),
            // A layer has only what was written, and a copy without it has nothing to run.
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Scans what commands wrote over the project: everything else is unchanged.
    pub(super) fn look_over(&mut self, staged: &ChangeSet) -> io::Result<Found> {
        let Some(layer) = self.layer.clone() else { return Ok(Found::default()) };
        let (upper, lower) = layer.sides()?;
        let before = Source::of_changes(&self.real_root, staged.clone());
        let rules = Rules::new(&self.rules, &before);
        let mut look = Look { layer, staged, found: Found::default() };
        self.look_at((&upper, Some(&lower)), &RelPath::root(), &rules, &mut look)?;
        before.check()?;
        if let Some(Err(error)) = self.tracked.get() {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        Ok(look.found)
    }

    fn look_at(
        &mut self,
        (upper, lower): (&Folder, Option<&Folder>),
        at: &RelPath,
        rules: &Rules,
        look: &mut Look<'_>,
    ) -> io::Result<()> {
        for (name, kind) in upper.names()? {
            let Some(path) = at.child(&name) else { continue };
            if name == ".git" || look.layer.hides(&path) && kind.is_char_device() {
                continue;
            }
            let beneath = layer::below(lower, &name)?;
            let is_ignored = rules.ignore(&name, Kind::Folder);
            // Files that were gone before this command have been handled already.
            let was_covered = self.covered.contains(&path);
            if kind.is_dir() && path.components().count() > DEEPEST {
                look.found.too_deep.push(path);
                continue;
            }
            if kind.is_dir() {
                if beneath.is_none() && !was_covered && is_file_of(lower, &name)? {
                    self.lose(&path, &name, rules, look);
                    self.covered.insert(path.clone());
                }
                if is_ignored {
                    self.look_for_tracked(&path, look)?;
                    continue;
                }
                let inner = match upper.enter_name(&name) {
                    // A directory that a command makes unreadable contains nothing to stage.
                    Err(error) if is_closed(&error) => continue,
                    inner => inner?,
                };
                let inner_rules = rules.enter(&path);
                let is_opaque = layer::is_opaque(&inner)?;
                if let Some(beneath) = beneath.as_ref().filter(|_| is_opaque && !was_covered) {
                    self.lose_below(beneath, &path, &inner_rules, look)?;
                    self.covered.insert(path.clone());
                }
                self.look_at((&inner, beneath.as_ref().filter(|_| !is_opaque)), &path, &inner_rules, look)?;
                continue;
            }
            if let Some(beneath) = beneath.as_ref().filter(|_| !was_covered) {
                // A whole directory is covered.
                if is_ignored {
                    self.look_for_tracked(&path, look)?;
                } else {
                    self.lose_below(beneath, &path, &rules.enter(&path), look)?;
                }
                self.covered.insert(path.clone());
            }
            let Some(stat) = upper.stat(&name)? else { continue };
            if layer::is_white_out(&stat) {
                if !was_covered && is_file_of(lower, &name)? {
                    self.lose(&path, &name, rules, look);
                    self.covered.insert(path);
                }
                continue;
            }
            let counts = !rules.now.child(&name, Kind::File).git
                || self.is_known(&path, look)
                || self.counted(&path, &name, rules, look) && is_file_of(lower, &name)?;
            if counts && (kind.is_file() || kind.is_symlink()) && self.snapshot.meet(&path, Stat::of_raw(&stat)) {
                look.found.changed.push(path);
            }
        }
        Ok(())
    }

    /// Records that a file of the project is no longer at its path.
    fn lose(&self, path: &RelPath, name: &OsStr, rules: &Rules, look: &mut Look<'_>) {
        if !look.layer.hides(path) && self.counted(path, name, rules, look) {
            look.found.gone.push(path.clone());
        }
    }

    /// Records that no file below a directory of the project is at its path any more.
    fn lose_below(&self, folder: &Folder, at: &RelPath, rules: &Rules, look: &mut Look<'_>) -> io::Result<()> {
        for (name, kind) in folder.names()? {
            let Some(path) = at.child(&name) else { continue };
            if name == ".git" || look.layer.hides(&path) || self.covered.contains(&path) {
                continue;
            }
            if !kind.is_dir() {
                self.lose(&path, &name, rules, look);
            } else if rules.before.child(&name, Kind::Folder).git {
                self.look_for_tracked(&path, look)?;
            } else if let Some(inner) = layer::below(Some(folder), &name)? {
                self.lose_below(&inner, &path, &rules.enter(&path), look)?;
            }
        }
        Ok(())
    }

    /// Looks at the tracked files of an ignored directory.
    fn look_for_tracked(&self, folder: &RelPath, look: &mut Look<'_>) -> io::Result<()> {
        let below = self.tracked().range(folder.clone()..);
        for path in below.take_while(|path| path.as_bytes().starts_with(folder.as_bytes())) {
            if !path.is_under(folder) {
                continue;
            }
            match look.layer.place(path)? {
                Some(place) if place.is_above => look.found.changed.push(path.clone()),
                Some(_) => {}
                None if look.layer.hides(path) => {}
                None => look.found.gone.push(path.clone()),
            }
        }
        Ok(())
    }

    fn is_known(&self, path: &RelPath, look: &Look<'_>) -> bool {
        self.snapshot.knows(path) || look.staged.get(path).is_some()
    }

    /// Tells whether a file counted before the command.
    fn counted(&self, path: &RelPath, name: &OsStr, rules: &Rules, look: &Look<'_>) -> bool {
        !rules.before.child(name, Kind::File).git || self.is_known(path, look) || self.tracked().contains(path)
    }

    /// Returns the tracked files; none where git could not be asked, which [`Lent::look_over`] reports.
    pub(super) fn tracked(&self) -> &BTreeSet<RelPath> {
        static NONE: BTreeSet<RelPath> = BTreeSet::new();
        self.tracked.get_or_init(|| super::tracked(self.repository.as_ref())).as_ref().unwrap_or(&NONE)
    }
}

#[cfg(test)]
#[path = "layered_tests.rs"]
mod tests;
