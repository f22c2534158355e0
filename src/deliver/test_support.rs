//! Sets up a project in a temporary directory, with a place for undo records, for tests.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::journal::Record;
use super::{Gate, Site, records};
use crate::change::{ChangeSet, Entry};
use crate::path::RelPath;
use crate::workspace::disk::Disk;

pub(super) struct Project {
    folder: tempfile::TempDir,
    root: PathBuf,
    undo: PathBuf,
}

pub(super) fn link(target: &str) -> Entry {
    Entry::Link { target: target.into() }
}

pub(super) fn script(content: &str) -> Entry {
    Entry::File { content: content.as_bytes().into(), executable: true }
}

pub(super) const OPEN: Gate<'static> = Gate {
    judge: &|_, _| Ok(()),
    secret: &|_, _| None,
    hide: &str::to_owned,
    made_by: &|_| None,
    max_files: None,
    max_patch_bytes: None,
};

impl Project {
    pub(super) fn new() -> Project {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&root).unwrap();
        let undo = folder.path().join("state/undo");
        Project { folder, root, undo }
    }

    pub(super) fn file(self, path: &str, content: &str) -> Project {
        let at = self.root.join(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, content).unwrap();
        self
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn undo(&self) -> PathBuf {
        self.undo.clone()
    }

    pub(super) fn site(&self) -> Site<'_> {
        Site {
            root: &self.root,
            repository: None,
            undo: Some(&self.undo),
            run_id: "run-1",
            time: "2026-01-01T00:00:00Z",
            outputs: None,
        }
    }

    pub(super) fn entry(&self, path: &RelPath) -> Entry {
        Disk.entry(&path.under(&self.root)).unwrap()
    }

    pub(super) fn changes(&self, afters: &[(&str, Entry)]) -> ChangeSet {
        let mut changes = ChangeSet::default();
        for (path, after) in afters {
            let path = RelPath::new(path).unwrap();
            changes.stage(path.clone(), || self.entry(&path), after.clone());
        }
        changes
    }

    pub(super) fn records(&self) -> Vec<(PathBuf, Record)> {
        records(&self.undo).unwrap()
    }

    /// Everything below the root, directories and modes included.
    pub(super) fn tree(&self) -> BTreeMap<PathBuf, (u32, Entry)> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                found.insert(path.clone(), (metadata.permissions().mode(), Disk.entry(&path).unwrap()));
                if metadata.is_dir() {
                    folders.push(path);
                }
            }
        }
        found
    }

    /// As [`Project::tree`], without the modes of directories: undoing makes them anew.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, (u32, Entry)> {
        Project::only_files(self.tree())
    }

    pub(super) fn only_files(mut tree: BTreeMap<PathBuf, (u32, Entry)>) -> BTreeMap<PathBuf, (u32, Entry)> {
        tree.values_mut().filter(|(_, entry)| *entry == Entry::Absent).for_each(|(mode, _)| *mode = 0);
        tree
    }

    pub(super) fn leftovers(&self) -> Vec<PathBuf> {
        let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".qwen-"));
        self.tree().into_keys().filter(ours).collect()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}
