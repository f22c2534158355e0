//! Maintains a command workspace that is a copy of the project.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::FileType;

use super::changed_since::{self, Since};
use super::common::{Common, DEEPEST, Found, Place, first_changed, stat};
use super::copying::{Copied, copy};
use super::git::scratch_git_of;
use super::options::{TreeOptions, is_closed, moved};
use super::outputs::{Held, Output, Search};
use crate::change::{ChangeSet, Entry};
use crate::path::RelPath;
use crate::policy::protected::names_git;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::ignore::{Kind, Level, Source};
use crate::workspace::snapshot::{Snapshot, Stat};

/// A copy of the project: tracked and untracked files, ignored ones up to `copy_max`, denied ones never.
pub struct CopyTree {
    pub(super) common: Common,
    /// The root, held open: earlier programs may still write below it, and links that they make must not lead out.
    pub(super) tree: Folder,
    /// The ignored files as they were copied, where they are asked for later.
    ignored: Snapshot,
}

impl CopyTree {
    /// Copies the project; `None` if the copy would be large and a layer may take its place.
    pub(super) fn make(project: &Path, options: &TreeOptions<'_>) -> io::Result<Option<CopyTree>> {
        let since = SystemTime::now();
        let directory = options.directory()?;
        let top = directory.path().canonicalize()?.join("tree");
        let root = options.repository.map_or(top.clone(), |repository| repository.prefix.under(&top));
        std::fs::create_dir_all(&root)?;
        let Copied::Done(snapshot, ignored, left_out) = copy(project, &root, options)? else { return Ok(None) };
        let (git, reads) = scratch_git_of(options.repository, options.objects_at, top.join(".git"), Some(&top))?;
        changed_since::mark(directory.path())?;
        let common = Common {
            project: project.to_path_buf(),
            reads,
            left_out,
            snapshot,
            since,
            synced: BTreeMap::new(),
            rules: Source::of_tree(project, &root),
            git,
            git_aside: None,
            directory,
            root,
        };
        Ok(Some(CopyTree { tree: Folder::root_of_ours(&common.root)?, ignored, common }))
    }

    pub(super) fn place<'p>(&self, path: &'p RelPath) -> io::Result<Place<'p>> {
        match self.tree.parent_of(path) {
            Err(error) if is_missing(&error) => Ok(None),
            found => found.map(Some),
        }
    }

    pub(super) fn put(&self, path: &RelPath, entry: &Entry) -> io::Result<()> {
        let (folder, name) = match entry {
            // There is nothing to remove below something that is not a directory.
            Entry::Absent => match self.tree.parent_of(path) {
                Err(error) if is_missing(&error) => return Ok(()),
                found => found?,
            },
            Entry::Link { .. } | Entry::File { .. } => self.tree.make_way_to(path)?,
        };
        folder.clear(name)?;
        match entry {
            Entry::Absent => Ok(()),
            Entry::Link { target } => {
                let target = moved(target, &self.common.project, &self.common.root);
                folder.write(name, &Entry::Link { target })
            }
            Entry::File { .. } => folder.write(name, entry),
        }
    }

    pub(super) fn changed_below(
        &self,
        directory: &RelPath,
        leaves_out: &dyn Fn(&RelPath) -> bool,
    ) -> io::Result<Option<RelPath>> {
        first_changed(&self.tree, directory, &Since::mark(self.common.directory.path(), leaves_out)?)
    }

    /// Looks at every file that counts. However deep the tree is, one directory is open at a time.
    pub(super) fn scan(&mut self, staged: &ChangeSet) -> io::Result<Found> {
        let mut found = Found::default();
        let mut ahead = vec![(RelPath::root(), Level::root(&self.common.rules))];
        while let Some((at, rules)) = ahead.pop() {
            let folder = match self.tree.enter(&at) {
                // A directory that a command makes unreadable or removes meanwhile contains nothing to stage.
                Err(error) if !at.is_root() && (is_closed(&error) || is_missing(&error)) => continue,
                entered => entered?,
            };
            for (name, kind) in folder.names()? {
                let Some(path) = at.child(&name) else { continue };
                // Git's own directory, or one that a command made: never part of the changes.
                if name == ".git" {
                    continue;
                }
                if kind.is_dir() {
                    if !rules.child(&name, Kind::Folder).git {
                        let inner = rules.enter(&self.common.rules, &path);
                        ahead.push((path, inner));
                    }
                    continue;
                }
                if !kind.is_file() && !kind.is_symlink() {
                    continue;
                }
                let counts = self.common.snapshot.knows(&path)
                    || staged.get(&path).is_some()
                    || !rules.child(&name, Kind::File).git;
                if counts
                    && let Some(stat) = folder.stat(&name)?
                    && self.common.snapshot.meet(&path, Stat::of_raw(&stat))
                {
                    found.changed.push(path);
                }
            }
        }
        Ok(found)
    }

    /// Returns the ignored files that commands made, changed or removed.
    pub(super) fn ignored_outputs(&self, rules: Held, changes: &ChangeSet) -> io::Result<BTreeSet<Output>> {
        let is_part = |path: &RelPath| self.common.snapshot.knows(path) || changes.get(path).is_some();
        let mut search = Search::new(&is_part);
        let mut ahead = vec![(RelPath::root(), rules)];
        while let Some((at, held)) = ahead.pop() {
            let folder = match self.tree.enter(&at) {
                Err(error) if !at.is_root() && is_closed(&error) => continue,
                entered => entered?,
            };
            for (name, kind) in folder.names()? {
                let Some(path) = at.child(&name) else { continue };
                if names_git(&name.to_string_lossy()) {
                    continue;
                }
                if kind.is_dir() {
                    if path.components().count() <= DEEPEST {
                        let inner = held.enter(&name, &path);
                        ahead.push((path, inner));
                    }
                } else if (kind.is_file() || kind.is_symlink())
                    && held.ignores(&name)
                    && let Some(found) = folder.stat(&name)?
                    && !self.ignored.is_same(&path, Stat::of_raw(&found))
                {
                    search.note(path, false);
                }
            }
        }
        for path in self.ignored.paths() {
            let found = match stat(self.place(path)) {
                // What a command has closed is not gone.
                Err(error) if is_closed(&error) => continue,
                found => found?,
            };
            if found.is_none_or(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()) {
                search.note(path.clone(), true);
            }
        }
        Ok(search.found)
    }
}
