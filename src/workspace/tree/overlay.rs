//! Maintains a command workspace without a copy: the project below a [`Layer`], of which only writes are searched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use rustix::fs::FileType;

use super::changed_since::Since;
use super::common::{Common, DEEPEST, Found, Place, first_changed};
use super::git::scratch_git_of;
use super::layer::{self, Layer};
use super::options::{TreeOptions, is_closed, tracked};
use super::outputs::{Held, Output, Rules, Search};
use crate::change::ChangeSet;
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::policy::protected::names_git;
use crate::workspace::folder::Folder;
use crate::workspace::ignore::{Kind, Source};
use crate::workspace::snapshot::{Snapshot, Stat};

/// The project, with what commands write in a layer over it: nothing is copied.
pub struct OverlayTree {
    pub(super) common: Common,
    pub(super) layer: Arc<Layer>,
    /// The repository whose tracked files count even if they are ignored.
    repository: Option<Repository>,
    tracked: OnceLock<io::Result<BTreeSet<RelPath>>>,
    /// Paths where the layer is known to hide what the project has.
    covered: BTreeSet<RelPath>,
}

/// A directory of the layer, and the project's below it.
type Sides<'f> = (&'f Folder, Option<&'f Folder>);

struct Look<'a> {
    staged: &'a ChangeSet,
    found: Found,
}

/// Tells whether a file or link of the project has this name.
fn is_file_of(lower: Option<&Folder>, name: &OsStr) -> io::Result<bool> {
    let Some(lower) = lower else { return Ok(false) };
    let stat = lower.stat(name)?;
    Ok(stat.is_some_and(|stat| !FileType::from_raw_mode(stat.st_mode).is_dir()))
}

impl OverlayTree {
    /// Makes a layer over the project; `None` if none is possible: git's directory is elsewhere, or the file system lacks
    /// what a layer needs.
    ///
    /// Only if the kernel mounts overlays, and not while anything is still running in the tree.
    pub(super) fn make(project: &Path, options: &TreeOptions<'_>) -> io::Result<Option<OverlayTree>> {
        let git_is_a_directory = |repository: &Repository| {
            repository.top.join(".git").symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
        };
        if !options.repository.is_none_or(git_is_a_directory) {
            return Ok(None);
        }
        let since = SystemTime::now();
        let directory = options.directory()?;
        let at = directory.path().canonicalize()?;
        let (git, reads) = scratch_git_of(options.repository, options.objects_at, at.join(".git"), None)?;
        let keeps_git = git.is_some() && options.repository.is_some_and(|repository| repository.prefix.is_root());
        let (layer, left_out) = match Layer::begin(project, &at, keeps_git, options) {
            Ok(begun) => begun,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            Err(_) => return Ok(None),
        };
        let layer = Arc::new(layer);
        let common = Common {
            root: project.to_path_buf(),
            project: project.to_path_buf(),
            reads,
            left_out,
            snapshot: Snapshot::default(),
            since,
            synced: BTreeMap::new(),
            rules: Source::of_layer(project, Arc::clone(&layer)),
            git,
            git_aside: None,
            directory,
        };
        let repository = options.repository.cloned();
        Ok(Some(OverlayTree { common, layer, repository, tracked: OnceLock::new(), covered: BTreeSet::new() }))
    }

    pub(super) fn place<'p>(&self, path: &'p RelPath) -> io::Result<Place<'p>> {
        Ok(self.layer.place(path)?.map(|place| (place.folder, place.name)))
    }

    pub(super) fn changed_below(
        &self,
        directory: &RelPath,
        leaves_out: &dyn Fn(&RelPath) -> bool,
    ) -> io::Result<Option<RelPath>> {
        let or_hidden = |path: &RelPath| leaves_out(path) || self.layer.hides(path);
        first_changed(&self.layer.sides()?.0, directory, &Since::always(&or_hidden))
    }

    /// Scans what commands wrote over the project: everything else is unchanged.
    pub(super) fn scan(&mut self, staged: &ChangeSet) -> io::Result<Found> {
        let (upper, lower) = self.layer.sides()?;
        let before = Source::of_changes(&self.common.project, staged.clone());
        let rules = Rules::new(&self.common.rules, &before);
        let mut look = Look { staged, found: Found::default() };
        self.look_at((&upper, Some(&lower)), &RelPath::root(), &rules, &mut look)?;
        before.check()?;
        self.check_tracked()?;
        Ok(look.found)
    }

    fn look_at(
        &mut self,
        (upper, lower): Sides<'_>,
        at: &RelPath,
        rules: &Rules,
        look: &mut Look<'_>,
    ) -> io::Result<()> {
        for (name, kind) in upper.names()? {
            let Some(path) = at.child(&name) else { continue };
            if name == ".git" || self.layer.hides(&path) && kind.is_char_device() {
                continue;
            }
            match kind.is_dir() {
                true => self.look_at_directory((upper, lower), &name, path, rules, look)?,
                false => self.look_at_file((upper, lower), &name, path, rules, look)?,
            }
        }
        Ok(())
    }

    fn look_at_directory(
        &mut self,
        (upper, lower): Sides<'_>,
        name: &OsStr,
        path: RelPath,
        rules: &Rules,
        look: &mut Look<'_>,
    ) -> io::Result<()> {
        if path.components().count() > DEEPEST {
            look.found.too_deep.push(path);
            return Ok(());
        }
        let beneath = layer::below(lower, name)?;
        // Files that were gone before this command have been handled already.
        let was_covered = self.covered.contains(&path);
        if beneath.is_none() && !was_covered && is_file_of(lower, name)? {
            self.lose(&path, name, rules, look);
            self.covered.insert(path.clone());
        }
        if rules.ignore(name, Kind::Folder) {
            return self.look_for_tracked(&path, look);
        }
        let inner = match upper.enter_name(name) {
            // A directory that a command makes unreadable contains nothing to stage.
            Err(error) if is_closed(&error) => return Ok(()),
            inner => inner?,
        };
        let inner_rules = rules.enter(&path);
        let is_opaque = layer::is_opaque(&inner)?;
        if let Some(beneath) = beneath.as_ref().filter(|_| is_opaque && !was_covered) {
            self.lose_below(beneath, &path, &inner_rules, look)?;
            self.covered.insert(path.clone());
        }
        self.look_at((&inner, beneath.as_ref().filter(|_| !is_opaque)), &path, &inner_rules, look)
    }

    /// Looks at what is not a directory of the layer.
    fn look_at_file(
        &mut self,
        (upper, lower): Sides<'_>,
        name: &OsStr,
        path: RelPath,
        rules: &Rules,
        look: &mut Look<'_>,
    ) -> io::Result<()> {
        let was_covered = self.covered.contains(&path);
        if let Some(beneath) = layer::below(lower, name)?.filter(|_| !was_covered) {
            // A whole directory is covered.
            if rules.ignore(name, Kind::Folder) {
                self.look_for_tracked(&path, look)?;
            } else {
                self.lose_below(&beneath, &path, &rules.enter(&path), look)?;
            }
            self.covered.insert(path.clone());
        }
        let Some(stat) = upper.stat(name)? else { return Ok(()) };
        if layer::is_white_out(&stat) {
            if !was_covered && is_file_of(lower, name)? {
                self.lose(&path, name, rules, look);
                self.covered.insert(path);
            }
            return Ok(());
        }
        let counts = !rules.now.child(name, Kind::File).git
            || self.is_known(&path, look)
            || self.counted(&path, name, rules, look) && is_file_of(lower, name)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if counts && (kind.is_file() || kind.is_symlink()) && self.common.snapshot.meet(&path, Stat::of_raw(&stat)) {
            look.found.changed.push(path);
        }
        Ok(())
    }

    /// Records that a file of the project is no longer at its path.
    fn lose(&self, path: &RelPath, name: &OsStr, rules: &Rules, look: &mut Look<'_>) {
        if !self.layer.hides(path) && self.counted(path, name, rules, look) {
            look.found.gone.push(path.clone());
        }
    }

    /// Records that no file below a directory of the project is at its path any more.
    fn lose_below(&self, folder: &Folder, at: &RelPath, rules: &Rules, look: &mut Look<'_>) -> io::Result<()> {
        for (name, kind) in folder.names()? {
            let Some(path) = at.child(&name) else { continue };
            if name == ".git" || self.layer.hides(&path) || self.covered.contains(&path) {
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
            match self.layer.place(path)? {
                Some(place) if place.is_above => look.found.changed.push(path.clone()),
                Some(_) => {}
                None if self.layer.hides(path) => {}
                None => look.found.gone.push(path.clone()),
            }
        }
        Ok(())
    }

    fn is_known(&self, path: &RelPath, look: &Look<'_>) -> bool {
        self.common.snapshot.knows(path) || look.staged.get(path).is_some()
    }

    /// Tells whether a file counted before the command.
    fn counted(&self, path: &RelPath, name: &OsStr, rules: &Rules, look: &Look<'_>) -> bool {
        !rules.before.child(name, Kind::File).git || self.is_known(path, look) || self.tracked().contains(path)
    }

    /// Returns the tracked files; none where git could not be asked, which [`OverlayTree::check_tracked`] reports.
    fn tracked(&self) -> &BTreeSet<RelPath> {
        static NONE: BTreeSet<RelPath> = BTreeSet::new();
        self.tracked.get_or_init(|| tracked(self.repository.as_ref())).as_ref().unwrap_or(&NONE)
    }

    /// Fails where git could not say which files are tracked.
    fn check_tracked(&self) -> io::Result<()> {
        match self.tracked.get() {
            Some(Err(error)) => Err(io::Error::new(error.kind(), error.to_string())),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Returns the ignored files that commands made, changed or removed.
    pub(super) fn ignored_outputs(&self, rules: &Held, changes: &ChangeSet) -> io::Result<BTreeSet<Output>> {
        let is_part = |path: &RelPath| {
            self.common.snapshot.knows(path) || changes.get(path).is_some() || self.tracked().contains(path)
        };
        let mut search = Search::new(&is_part);
        let (upper, lower) = self.layer.sides()?;
        self.search((&upper, Some(&lower)), &RelPath::root(), rules, &mut search)?;
        self.check_tracked()?;
        Ok(search.found)
    }

    fn search(&self, (upper, lower): Sides<'_>, at: &RelPath, held: &Held, search: &mut Search<'_>) -> io::Result<()> {
        for (name, kind) in upper.names()? {
            let Some(path) = at.child(&name) else { continue };
            if names_git(&name.to_string_lossy()) || self.layer.hides(&path) && kind.is_char_device() {
                continue;
            }
            let beneath = layer::below(lower, &name)?;
            if kind.is_dir() {
                if path.components().count() > DEEPEST {
                    continue;
                }
                if beneath.is_none() && is_file_of(lower, &name)? && held.ignores(&name) {
                    search.note(path.clone(), true);
                }
                let inner = match upper.enter_name(&name) {
                    Err(error) if is_closed(&error) => continue,
                    inner => inner?,
                };
                let inner_held = held.enter(&name, &path);
                let is_opaque = layer::is_opaque(&inner)?;
                if let Some(beneath) = beneath.as_ref().filter(|_| is_opaque) {
                    self.search_covered(beneath, &path, &inner_held, search)?;
                }
                let beneath = beneath.as_ref().filter(|_| !is_opaque);
                self.search((&inner, beneath), &path, &inner_held, search)?;
                continue;
            }
            if let Some(beneath) = &beneath {
                self.search_covered(beneath, &path, &held.enter(&name, &path), search)?;
            }
            let Some(stat) = upper.stat(&name)?.filter(|_| held.ignores(&name)) else { continue };
            if layer::is_white_out(&stat) {
                if is_file_of(lower, &name)? {
                    search.note(path, true);
                }
            } else if kind.is_file() || kind.is_symlink() {
                search.note(path, false);
            }
        }
        Ok(())
    }

    /// Notes the ignored files of a directory of the project that the layer covers.
    fn search_covered(&self, folder: &Folder, at: &RelPath, held: &Held, search: &mut Search<'_>) -> io::Result<()> {
        for (name, kind) in folder.names()? {
            let Some(path) = at.child(&name) else { continue };
            if names_git(&name.to_string_lossy()) || self.layer.hides(&path) {
                continue;
            }
            if !kind.is_dir() {
                if held.ignores(&name) && self.layer.place(&path)?.is_none() {
                    search.note(path, true);
                }
            } else if let Some(inner) = layer::below(Some(folder), &name)? {
                self.search_covered(&inner, &path, &held.enter(&name, &path), search)?;
            }
        }
        Ok(())
    }
}
