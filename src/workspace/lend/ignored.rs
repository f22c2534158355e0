//! What commands left in ignored files and directories: no part of the changes, and written back where the operator
//! wants it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::time::{Duration, SystemTime};

use super::layered::{DEEPEST, Rules, is_file_of};
use super::{LONGEST, LeftOut, Lent, WhyLeftOut, is_closed};
use crate::change::ChangeSet;
use crate::path::RelPath;
use crate::policy::protected::names_git;
use crate::workspace::copy::copy_between;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::ignore::{Kind, Source};
use crate::workspace::layer::{self, Layer};
use crate::workspace::snapshot::Stat;

/// An ignored file or link that is not as it was before the first command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Output {
    /// Its path.
    pub path: RelPath,
    /// Whether it is gone.
    pub is_gone: bool,
}

/// The rules that hold in a directory; `None` in one that is ignored with everything below.
type Held = Option<Rules>;

fn enter(held: &Held, name: &OsStr, path: &RelPath) -> Held {
    held.as_ref().filter(|rules| !rules.ignore(name, Kind::Folder)).map(|rules| rules.enter(path))
}

fn ignores(held: &Held, name: &OsStr) -> bool {
    held.as_ref().is_none_or(|rules| rules.ignore(name, Kind::File))
}

/// What was found so far.
struct Search<'a> {
    changes: &'a ChangeSet,
    found: BTreeSet<Output>,
}

impl Lent {
    /// Returns the ignored files and links that commands made, changed or removed, by path.
    ///
    /// Ignored is what the project's own rules ignore, as they were before the run, and the rules of the tree as well:
    /// a run does not decide by itself what nobody looks at. Nothing below a name of git's own directory counts.
    pub fn ignored_outputs(&self, changes: &ChangeSet) -> io::Result<Vec<Output>> {
        let before = Source::of_tree(&self.real_root, &self.real_root);
        let rules = Some(Rules::new(&self.rules, &before));
        let mut search = Search { changes, found: BTreeSet::new() };
        match self.layer.clone() {
            Some(layer) => {
                let (upper, lower) = layer.sides()?;
                self.search_layer((&upper, Some(&lower)), &RelPath::root(), &rules, &layer, &mut search)?;
            }
            None => self.search_copy(rules, &mut search)?,
        }
        before.check()?;
        self.rules.check()?;
        match self.tracked.get() {
            Some(Err(error)) => Err(io::Error::new(error.kind(), error.to_string())),
            Some(Ok(_)) | None => Ok(search.found.into_iter().collect()),
        }
    }

    /// Tells whether a file of the project was changed after this tree was made.
    pub fn was_changed_since(&self, stat: &rustix::fs::Stat) -> bool {
        let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
        let nanos = u32::try_from(stat.st_ctime_nsec).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos) >= self.since
    }

    /// Returns why commands did not see what the project has at a path, or above it.
    pub fn why_left_out(&self, path: &RelPath) -> Option<WhyLeftOut> {
        let is_it = |left: &&LeftOut| *path == left.path || path.is_under(&left.path);
        self.left_out.iter().find(is_it).map(|left| left.why)
    }

    /// Tells whether commands see a directory at a path.
    pub fn is_directory(&self, path: &RelPath) -> io::Result<bool> {
        Ok(self.stat(path)?.is_some_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir()))
    }

    /// Returns the target of what commands see at a path, if that is a link.
    pub fn link(&self, path: &RelPath) -> io::Result<Option<Vec<u8>>> {
        let Some((folder, name)) = self.place(path)? else { return Ok(None) };
        let stat = folder.stat(name)?;
        if !stat.is_some_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink()) {
            return Ok(None);
        }
        Ok(Some(rustix::fs::readlinkat(&folder, name, Vec::new())?.into_bytes()))
    }

    /// Copies a file or link that commands see, with its mode and time, to a free name; no link is followed.
    pub fn copy_out(&self, path: &RelPath, to: &Folder, name: &OsStr) -> io::Result<()> {
        let (folder, from) = self.place(path)?.ok_or(io::ErrorKind::NotFound)?;
        copy_between(&folder, from, to, name)
    }

    /// Brings what commands left in the ignored directories of another tree into this one.
    pub fn take_over(&self, other: &Lent, changes: &ChangeSet) -> io::Result<()> {
        for Output { path, is_gone } in other.ignored_outputs(changes)? {
            if self.why_left_out(&path).is_some() {
                continue;
            }
            let (folder, name) = match self.tree.parent_of(&path) {
                Err(error) if is_missing(&error) && is_gone => continue,
                Err(error) if is_missing(&error) => self.tree.make_way_to(&path)?,
                found => found?,
            };
            folder.clear(name)?;
            if !is_gone {
                other.copy_out(&path, &folder, name)?;
            }
        }
        Ok(())
    }

    /// Tells whether a file is part of the changes, or would be if it were changed.
    fn counts(&self, path: &RelPath, search: &Search<'_>) -> bool {
        self.snapshot.knows(path) || search.changes.get(path).is_some() || self.tracked().contains(path)
    }

    fn left(&self, path: RelPath, is_gone: bool, search: &mut Search<'_>) {
        if path.as_bytes().len() <= LONGEST && !self.counts(&path, search) {
            search.found.insert(Output { path, is_gone });
        }
    }

    fn search_copy(&self, rules: Held, search: &mut Search<'_>) -> io::Result<()> {
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
                        let inner = enter(&held, &name, &path);
                        ahead.push((path, inner));
                    }
                } else if (kind.is_file() || kind.is_symlink())
                    && ignores(&held, &name)
                    && let Some(stat) = folder.stat(&name)?
                    && !self.ignored.is_same(&path, Stat::of_raw(&stat))
                {
                    self.left(path, false, search);
                }
            }
        }
        for path in self.ignored.paths() {
            let found = match self.stat(path) {
                // What a command has closed is not gone.
                Err(error) if is_closed(&error) => continue,
                found => found?,
            };
            if found.is_none_or(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir()) {
                self.left(path.clone(), true, search);
            }
        }
        Ok(())
    }

    fn search_layer(
        &self,
        (upper, lower): (&Folder, Option<&Folder>),
        at: &RelPath,
        held: &Held,
        layer: &Layer,
        search: &mut Search<'_>,
    ) -> io::Result<()> {
        for (name, kind) in upper.names()? {
            let Some(path) = at.child(&name) else { continue };
            if names_git(&name.to_string_lossy()) || layer.hides(&path) && kind.is_char_device() {
                continue;
            }
            let beneath = layer::below(lower, &name)?;
            if kind.is_dir() {
                if path.components().count() > DEEPEST {
                    continue;
                }
                if beneath.is_none() && is_file_of(lower, &name)? && ignores(held, &name) {
                    self.left(path.clone(), true, search);
                }
                let inner = match upper.enter_name(&name) {
                    Err(error) if is_closed(&error) => continue,
                    inner => inner?,
                };
                let inner_held = enter(held, &name, &path);
                let is_opaque = layer::is_opaque(&inner)?;
                if let Some(beneath) = beneath.as_ref().filter(|_| is_opaque) {
                    self.search_covered(beneath, &path, &inner_held, layer, search)?;
                }
                let beneath = beneath.as_ref().filter(|_| !is_opaque);
                self.search_layer((&inner, beneath), &path, &inner_held, layer, search)?;
                continue;
            }
            if let Some(beneath) = &beneath {
                self.search_covered(beneath, &path, &enter(held, &name, &path), layer, search)?;
            }
            let Some(stat) = upper.stat(&name)?.filter(|_| ignores(held, &name)) else { continue };
            if layer::is_white_out(&stat) {
                if is_file_of(lower, &name)? {
                    self.left(path, true, search);
                }
            } else if kind.is_file() || kind.is_symlink() {
                self.left(path, false, search);
            }
        }
        Ok(())
    }

    /// Notes the ignored files of a directory of the project that the layer covers.
    fn search_covered(
        &self,
        folder: &Folder,
        at: &RelPath,
        held: &Held,
        layer: &Layer,
        search: &mut Search<'_>,
    ) -> io::Result<()> {
        for (name, kind) in folder.names()? {
            let Some(path) = at.child(&name) else { continue };
            if names_git(&name.to_string_lossy()) || layer.hides(&path) {
                continue;
            }
            if !kind.is_dir() {
                if ignores(held, &name) && layer.place(&path)?.is_none() {
                    self.left(path, true, search);
                }
            } else if let Some(inner) = layer::below(Some(folder), &name)? {
                self.search_covered(&inner, &path, &enter(held, &name, &path), layer, search)?;
            }
        }
        Ok(())
    }
}
