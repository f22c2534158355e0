//! Compares the paths of a change with HEAD and the index.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::attributes::Conversions;
use super::repository::{Repository, RepositoryError};
use crate::change::patch::{mode, name_in_repository};
use crate::change::{ChangeSet, Entry, diff};
use crate::path::RelPath;

/// How the changed paths differ from HEAD and the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileStatus {
    /// Tracked, and different from HEAD in the work tree or the index when the run found it. Untracked files are not
    /// dirty.
    pub dirty: Vec<RelPath>,
    /// In a submodule, with the submodule's name.
    pub in_submodule: Vec<(RelPath, String)>,
}

/// A file as git stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Git's mode.
    pub mode: String,
    /// The name of its content.
    pub object: String,
}

#[derive(Debug, Default)]
struct Index {
    files: BTreeMap<Vec<u8>, TreeEntry>,
    submodules: Vec<Vec<u8>>,
}

fn ancestors(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &name[..at])
}

fn with_ancestors(names: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = names.to_vec();
    all.extend(names.iter().flat_map(|name| ancestors(name).map(<[u8]>::to_vec)));
    all.sort();
    all.dedup();
    all
}

fn split_at_tab(line: &[u8]) -> Option<(&str, &[u8])> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    Some((std::str::from_utf8(&line[..tab]).ok()?, &line[tab + 1..]))
}

impl Repository {
    /// Compares what the run found with HEAD and the index, for the changed paths only.
    pub fn file_status(&self, changes: &ChangeSet) -> Result<FileStatus, RepositoryError> {
        let mut status = FileStatus::default();
        if changes.is_empty() {
            return Ok(status);
        }
        let names: Vec<Vec<u8>> = changes.iter().map(|(path, _)| name_in_repository(&self.prefix, path)).collect();
        let head = self.in_commit(self.head_now()?.0.as_deref(), &names)?;
        let index = self.in_index(&names)?;
        let mut other_bytes = BTreeMap::new();
        for ((path, change), name) in changes.iter().zip(&names) {
            if let Some(folder) = ancestors(name).find(|folder| {
                head.get(*folder).is_some_and(|at| at.mode == "160000") || index.submodules.contains(&folder.to_vec())
            }) {
                status.in_submodule.push((path.clone(), String::from_utf8_lossy(folder).into_owned()));
                continue;
            }
            let (in_head, in_index) = (head.get(name), index.files.get(name));
            if in_head.is_none() && in_index.is_none() {
                continue;
            }
            let is_clean = in_head == in_index && in_head.is_some_and(|at| at.mode != "160000") && {
                let at = in_head.expect("one of two equal options is some");
                match mode(&change.before) {
                    None => false,
                    Some(mode) if mode != at.mode && (mode == "120000") != (at.mode == "120000") => false,
                    Some(mode) if mode != at.mode && self.minds_mode() => false,
                    Some(_) => {
                        let content = diff::text_of(&change.before);
                        let is_file = matches!(change.before, Entry::File { .. });
                        let is_same = self.format.blob(content) == at.object;
                        if is_file && !is_same {
                            other_bytes.insert(name.clone(), (path, &change.before, &*at.object));
                        }
                        is_file || is_same
                    }
                }
            };
            if !is_clean {
                status.dirty.push(path.clone());
            }
        }
        status.dirty.extend(self.differing(&other_bytes)?.into_iter().cloned());
        status.dirty.sort();
        if !status.dirty.is_empty() {
            self.forgive_filtered(&mut status)?;
        }
        Ok(status)
    }

    /// Returns which of these files, by their names in the repository, git would not store as these objects.
    pub fn differing<'a>(
        &self,
        files: &BTreeMap<Vec<u8>, (&'a RelPath, &Entry, &str)>,
    ) -> Result<Vec<&'a RelPath>, RepositoryError> {
        let mut differing = Vec::new();
        if files.is_empty() {
            return Ok(differing);
        }
        let conversions = Conversions::with_line_ends(self, &files.keys().cloned().collect())?;
        let git = self.without_filters()?;
        for (name, (path, entry, object)) in files {
            let content = diff::text_of(entry);
            let now = match self.format.blob(content) {
                // A content with `\r\n` that git has stored so stays so.
                same if same == *object => continue,
                _ if conversions.is_in_lfs(name) => self.blob_by(&git, name, content, false)?,
                _ => self.format.blob(diff::text_of(&conversions.kept(name, entry)?)),
            };
            differing.extend((now != *object).then_some(*path));
        }
        Ok(differing)
    }

    /// Removes paths that seem changed only because their filter did not run, if git recorded the file as unchanged.
    fn forgive_filtered(&self, status: &mut FileStatus) -> Result<(), RepositoryError> {
        let names: Vec<Vec<u8>> = status.dirty.iter().map(|path| name_in_repository(&self.prefix, path)).collect();
        let filtered = self.filtered(&names)?;
        if filtered.is_empty() {
            return Ok(());
        }
        let mut arguments: Vec<OsString> = ["diff-index", "-z", "--name-only", "HEAD", "--"].map(OsString::from).into();
        arguments.extend(filtered.keys().map(|name| OsString::from_vec(name.clone())));
        let changed = self.without_filters()?.run(&arguments, b"")?;
        let changed: Vec<&[u8]> = changed.split(|byte| *byte == 0).collect();
        status.dirty.retain(|path| {
            let name = name_in_repository(&self.prefix, path);
            !filtered.contains_key(&name) || changed.contains(&name.as_slice())
        });
        Ok(())
    }

    /// Returns those lines of `update-index --index-info` whose path has in the index what the other lines say.
    ///
    /// Only complete lines count, so an entry that somebody has changed since is left out.
    pub fn index_info_where_still(&self, lines: &[u8], expected: &[u8]) -> Result<Vec<u8>, RepositoryError> {
        let parsed = |text: &[u8]| -> BTreeMap<Vec<u8>, TreeEntry> {
            let lines = text.split(|byte| *byte == 0).filter_map(split_at_tab);
            let entries = lines.filter_map(|(meta, name)| {
                let (mode, object) = meta.split_once(' ')?;
                Some((name.to_vec(), TreeEntry { mode: mode.to_owned(), object: object.to_owned() }))
            });
            entries.collect()
        };
        let expected = parsed(expected);
        let now = self.in_index(&expected.keys().cloned().collect::<Vec<_>>())?.files;
        let is_still = |name: &[u8]| match (expected.get(name), now.get(name)) {
            (Some(expected), None) => expected.mode == "0",
            (Some(expected), Some(now)) => expected == now,
            (None, _) => false,
        };
        let kept = lines.split_inclusive(|byte| *byte == 0).filter(|line| {
            split_at_tab(line.strip_suffix(b"\0").unwrap_or(line)).is_some_and(|(_, name)| is_still(name))
        });
        Ok(kept.collect::<Vec<_>>().concat())
    }

    /// Returns each option of `update-index` that sets a flag of people, with those of these names that have it in the
    /// index, each with a zero byte behind it.
    pub fn flagged_in_index(&self, names: &[Vec<u8>]) -> Result<[(&'static str, Vec<u8>); 2], RepositoryError> {
        let mut flagged = [("--assume-unchanged", Vec::new()), ("--skip-worktree", Vec::new())];
        for chunk in names.chunks(1000) {
            let mut arguments: Vec<OsString> = ["ls-files", "-z", "-v", "--full-name", "--"].map(OsString::from).into();
            arguments.extend(chunk.iter().map(|name| OsString::from_vec(name.clone())));
            for line in self.git().run(&arguments, b"")?.split(|byte| *byte == 0) {
                let [tag, b' ', name @ ..] = line else { continue };
                let is_set = [tag.is_ascii_lowercase(), tag.eq_ignore_ascii_case(&b's')];
                for ((_, names), _) in flagged.iter_mut().zip(is_set).filter(|(_, is_set)| *is_set) {
                    names.extend([name, b"\0"].concat());
                }
            }
        }
        Ok(flagged)
    }

    /// Returns those of these names that the index holds as executable files.
    pub fn executable_in_index(&self, names: &[Vec<u8>]) -> Result<BTreeSet<Vec<u8>>, RepositoryError> {
        let files = self.in_index(names)?.files.into_iter();
        Ok(files.filter(|(_, at)| at.mode == "100755").map(|(name, _)| name).collect())
    }

    /// Returns what a commit has under these names, and above them; nothing where there is no commit.
    pub fn in_commit(
        &self,
        commit: Option<&str>,
        names: &[Vec<u8>],
    ) -> Result<BTreeMap<Vec<u8>, TreeEntry>, RepositoryError> {
        let mut found = BTreeMap::new();
        let Some(commit) = commit else { return Ok(found) };
        for chunk in with_ancestors(names).chunks(1000) {
            let mut arguments: Vec<OsString> =
                ["ls-tree", "-z", "--full-tree", commit, "--"].map(OsString::from).into();
            arguments.extend(chunk.iter().map(|name| OsString::from_vec(name.clone())));
            for line in self.git().run(&arguments, b"")?.split(|byte| *byte == 0) {
                let Some((meta, name)) = split_at_tab(line) else { continue };
                let mut words = meta.split(' ');
                let (Some(mode), _, Some(object)) = (words.next(), words.next(), words.next()) else { continue };
                if mode != "040000" {
                    found.insert(name.to_vec(), TreeEntry { mode: mode.to_owned(), object: object.to_owned() });
                }
            }
        }
        Ok(found)
    }

    fn in_index(&self, names: &[Vec<u8>]) -> Result<Index, RepositoryError> {
        let mut index = Index::default();
        let git = self.git();
        for chunk in names.chunks(1000) {
            let mut arguments: Vec<OsString> =
                ["ls-files", "-z", "--stage", "--full-name", "--"].map(OsString::from).into();
            arguments.extend(chunk.iter().map(|name| OsString::from_vec(name.clone())));
            for line in git.run(&arguments, b"")?.split(|byte| *byte == 0) {
                let Some((meta, name)) = split_at_tab(line) else { continue };
                let words: Vec<&str> = meta.split(' ').collect();
                let [mode, object, stage] = words[..] else { continue };
                if mode == "160000" {
                    index.submodules.push(name.to_vec());
                }
                // An unmerged path equals nothing in HEAD.
                let mode = if stage == "0" { mode } else { "unmerged" };
                index.files.insert(name.to_vec(), TreeEntry { mode: mode.to_owned(), object: object.to_owned() });
            }
        }
        Ok(index)
    }
}
