//! What commands left in ignored files and directories, delivered with the change (`sandbox.workspace: in-place`).
//!
//! New contents are copied beside their places and swapped in; what was there stays aside until the delivery is done.
//! So it can be taken back as long as the change can, without a byte of it in memory or in the record. Once all is
//! delivered it stays: undoing takes back the change alone, and a build makes the rest again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;

use super::directories::{folders_between, make_folders};
use super::error::DeliverError;
use super::journal::{self, Record, SavedOutput, State};
use crate::change::ChangeSet;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::snapshot::number;
use crate::workspace::steps::Steps;
use crate::workspace::tree::{CommandTree, Output};
use rustix::fs::{FileType, Stat};

/// What is delivered besides the change; every path of it was judged.
pub struct Outputs<'a> {
    tree: &'a CommandTree,
    files: Vec<Output>,
    /// What was put aside and could not be removed.
    left_over: RefCell<Vec<String>>,
}

impl<'a> Outputs<'a> {
    /// Takes files of the tree in which commands worked.
    pub fn new(tree: &'a CommandTree, files: Vec<Output>) -> Outputs<'a> {
        Outputs { tree, files, left_over: RefCell::default() }
    }

    /// Returns what the operator should know.
    pub(super) fn warnings(&self) -> Vec<String> {
        let left = |path: String| format!("cannot remove {path}, a leftover of the delivery: remove it");
        self.left_over.take().into_iter().map(left).collect()
    }
}

/// One swap.
pub(super) struct Item {
    pub(super) path: RelPath,
    /// The directory of the temporary name: it is there from the start to the end.
    folder: RelPath,
    temporary: OsString,
    /// The new files: the path itself, or what is below it. None: what is there goes.
    files: Vec<RelPath>,
    inode: Option<u64>,
    /// Whether something is there that the new contents replace.
    replaces: bool,
}

/// Finds the fewest swaps that bring the outputs into the project.
pub(super) fn plan(
    root: &Folder,
    changes: &ChangeSet,
    outputs: &Outputs<'_>,
    run_id: &str,
) -> Result<Vec<Item>, DeliverError> {
    let failed = |error: io::Error| DeliverError::io("ignored files", &error);
    let mut gone = BTreeSet::new();
    for output in outputs.files.iter().filter(|output| output.is_gone) {
        if look(root, &output.path).map_err(failed)?.is_some_and(|stat| !is_directory(&stat)) {
            gone.insert(output.path.clone());
        }
    }
    let going = whole_directories(root, outputs.tree, &gone).map_err(failed)?;
    let coming = coming(root, changes, outputs, &going).map_err(failed)?;
    let mut items = Vec::new();
    let mut add = |path: RelPath, files: Vec<RelPath>, replaces: bool| -> Result<(), DeliverError> {
        let temporary = OsString::from(format!(".qwen-{run_id}-o{}", items.len()));
        let mut folder = RelPath::root();
        for next in folders_between(&RelPath::root(), &path) {
            if going.contains(&next) || !look(root, &next).map_err(failed)?.is_some_and(|stat| is_directory(&stat)) {
                break;
            }
            folder = next;
        }
        items.push(Item { path, folder, temporary, files, inode: None, replaces });
        Ok(())
    };
    for path in &going {
        add(path.clone(), Vec::new(), false)?;
    }
    for (path, files) in coming {
        let there = look(root, &path).map_err(failed)?.filter(|_| !going.contains(&path));
        if there.is_some_and(|stat| is_directory(&stat) || files[0] != path) {
            return Err(DeliverError::conflict(
                format!("cannot write {path}: it has changed since commands read it"),
                "run again on the current files",
            ));
        }
        add(path, files, there.is_some())?;
    }
    Ok(items)
}

/// Returns what comes: the files, by the topmost directory that is new with them.
fn coming(
    root: &Folder,
    changes: &ChangeSet,
    outputs: &Outputs<'_>,
    going: &BTreeSet<RelPath>,
) -> io::Result<BTreeMap<RelPath, Vec<RelPath>>> {
    let mut coming: BTreeMap<RelPath, Vec<RelPath>> = BTreeMap::new();
    let mut is_standing: BTreeMap<RelPath, bool> = BTreeMap::new();
    for output in outputs.files.iter().filter(|output| !output.is_gone) {
        let mut top = output.path.clone();
        for folder in folders_between(&RelPath::root(), &output.path) {
            if !is_standing.contains_key(&folder) {
                let found = look(root, &folder)?;
                let stands = found.is_some_and(|stat| is_directory(&stat)) && !going.contains(&folder);
                is_standing.insert(folder.clone(), stands);
            }
            // A directory that the change makes as well is not ours to place.
            if !is_standing[&folder] && !changes.iter().any(|(path, _)| path.is_under(&folder) || *path == folder) {
                top = folder;
                break;
            }
        }
        coming.entry(top).or_default().push(output.path.clone());
    }
    Ok(coming)
}

/// Returns what goes: directories of which everything goes as one, and single files.
fn whole_directories(root: &Folder, tree: &CommandTree, gone: &BTreeSet<RelPath>) -> io::Result<BTreeSet<RelPath>> {
    let mut known: BTreeMap<RelPath, bool> = BTreeMap::new();
    let mut going = BTreeSet::new();
    for path in gone {
        let mut top = path.clone();
        for folder in folders_between(&RelPath::root(), path) {
            let is_whole = match known.get(&folder) {
                Some(known) => *known,
                None => {
                    let is_whole = !tree.is_directory(&folder)? && all_goes(&root.enter(&folder)?, &folder, gone)?;
                    known.insert(folder.clone(), is_whole);
                    is_whole
                }
            };
            if is_whole {
                top = folder;
                break;
            }
        }
        going.insert(top);
    }
    Ok(going)
}

fn all_goes(folder: &Folder, at: &RelPath, gone: &BTreeSet<RelPath>) -> io::Result<bool> {
    for (name, kind) in folder.names()? {
        let goes = match at.child(&name) {
            Some(path) if kind.is_dir() => name != ".git" && all_goes(&folder.enter_name(&name)?, &path, gone)?,
            Some(path) => gone.contains(&path),
            None => false,
        };
        if !goes {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns what the system says of a path; `None` also where a part of the path is no directory.
fn look(root: &Folder, path: &RelPath) -> io::Result<Option<Stat>> {
    match root.parent_of(path) {
        Ok((folder, name)) => folder.stat(name),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir()
}

impl Item {
    /// Describes it for the record.
    pub(super) fn saved(&self) -> SavedOutput {
        let temporary = self.folder.child(&self.temporary).unwrap_or_default();
        SavedOutput {
            path: journal::quoted(self.path.as_bytes()),
            temporary: journal::quoted(temporary.as_bytes()),
            is_new: self.is_new(),
            inode: self.inode,
        }
    }

    pub(super) fn is_new(&self) -> bool {
        !self.files.is_empty()
    }

    /// Returns the directories that may have to be made on the way, outermost first.
    pub(super) fn folders_made(&self) -> Vec<RelPath> {
        if self.is_new() { folders_between(&self.folder, &self.path) } else { Vec::new() }
    }

    /// Copies the new contents to their temporary name.
    pub(super) fn stage(&mut self, root: &Folder, outputs: &Outputs<'_>, steps: &Steps) -> io::Result<()> {
        let folder = root.enter(&self.folder)?;
        for file in &self.files {
            steps.step()?;
            if *file == self.path {
                outputs.tree.copy_out(file, &folder, &self.temporary)?;
                continue;
            }
            let to = self.staged(file)?;
            let (inner, name) = folder.make_way_to(&to)?;
            outputs.tree.copy_out(file, &inner, name)?;
        }
        self.narrow(&folder, outputs)?;
        if self.is_new() {
            self.inode = folder.stat(&self.temporary)?.map(|stat| stat.st_ino);
        }
        Ok(())
    }

    /// Returns the temporary name of something below the path.
    fn staged(&self, path: &RelPath) -> io::Result<RelPath> {
        let below = path.as_bytes().strip_prefix(self.path.as_bytes());
        let below = below.ok_or_else(|| io::Error::other("it is not below its directory"))?;
        let name = [std::os::unix::ffi::OsStrExt::as_bytes(self.temporary.as_os_str()), below].concat();
        RelPath::from_bytes(&name).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Gives new directories no right that theirs do not have where commands see them; the owner keeps all of his.
    fn narrow(&self, folder: &Folder, outputs: &Outputs<'_>) -> io::Result<()> {
        let inside = self.files.iter().filter(|file| **file != self.path);
        let mut directories: BTreeSet<RelPath> =
            inside.clone().flat_map(|file| folders_between(&self.path, file)).collect();
        directories.extend(inside.map(|_| self.path.clone()));
        for directory in directories {
            let staged = self.staged(&directory)?;
            let (parent, name) = folder.parent_of(&staged)?;
            let seen = outputs.tree.mode_of_directory(&directory)?;
            if let (Some(seen), Some(stat)) = (seen, parent.stat(name)?) {
                let mode: u32 = number(stat.st_mode);
                if mode & !(seen | 0o700) & 0o777 != 0 {
                    parent.set_mode(name, mode & (seen | 0o700))?;
                }
            }
        }
        Ok(())
    }

    /// Swaps the new contents in, or puts aside what goes.
    pub(super) fn swap(&self, root: &Folder, steps: &Steps) -> io::Result<()> {
        let (parent, name) = root.parent_of(&self.path)?;
        let folder = root.enter(&self.folder)?;
        match (self.is_new(), self.replaces) {
            (true, true) => folder.exchange(&self.temporary, &parent, name, steps),
            (true, false) => folder.place(&self.temporary, &parent, name, steps),
            (false, _) => parent.place(name, &folder, &self.temporary, steps),
        }
    }

    /// Takes [`Item::swap`] back.
    pub(super) fn swap_back(&self, root: &Folder, steps: &Steps) -> io::Result<()> {
        let (parent, name) = root.parent_of(&self.path)?;
        let folder = root.enter(&self.folder)?;
        match (self.is_new(), self.replaces) {
            (true, true) => folder.exchange(&self.temporary, &parent, name, steps),
            (true, false) => parent.place(name, &folder, &self.temporary, steps),
            (false, _) => folder.place(&self.temporary, &parent, name, steps),
        }
    }

    /// Removes what stands at the temporary name.
    pub(super) fn clear(&self, root: &Folder, steps: &Steps) -> io::Result<()> {
        clear(&root.enter(&self.folder)?, &self.temporary, steps)
    }
}

/// Removes what was put aside: the delivery is done.
pub(super) fn clear_aside(items: &[Item], outputs: &Outputs<'_>, root: &Folder, steps: &Steps) -> bool {
    let mut left = outputs.left_over.borrow_mut();
    for item in items {
        if item.clear(root, steps).is_err() {
            left.push(item.folder.child(&item.temporary).unwrap_or_default().to_string_lossy());
        }
    }
    left.is_empty()
}

fn clear(folder: &Folder, name: &OsStr, steps: &Steps) -> io::Result<()> {
    steps.step()?;
    folder.clear(&second(name))?;
    folder.clear(name)
}

/// Where names cannot be swapped, a second name holds the old file for a moment.
fn second(name: &OsStr) -> OsString {
    let mut second = name.to_owned();
    second.push("-old");
    second
}

/// Takes out what a killed delivery had swapped in; of one that ended, nothing. It may be interrupted and repeated.
pub(super) fn take_out(record: &Record, root: &Folder, steps: &Steps) -> io::Result<()> {
    if record.state != State::Begun {
        return Ok(());
    }
    for saved in record.outputs.iter().rev().filter(|saved| saved.is_new) {
        let (path, temporary) = (journal::path(&saved.path)?, journal::path(&saved.temporary)?);
        let inode = |stat: Option<Stat>| stat.map(|stat| stat.st_ino);
        if saved.inode.is_none() || inode(look(root, &path)?) != saved.inode {
            continue;
        }
        let (folder, aside) = root.parent_of(&temporary)?;
        let (parent, name) = root.parent_of(&path)?;
        let mut there = folder.stat(aside)?;
        if there.is_none() && folder.stat(&second(aside))?.is_some() {
            folder.place(&second(aside), &folder, aside, steps)?;
            there = folder.stat(aside)?;
        }
        match there {
            Some(_) if inode(there) == saved.inode => {}
            Some(_) => folder.exchange(aside, &parent, name, steps)?,
            None => parent.place(name, &folder, aside, steps)?,
        }
    }
    Ok(())
}

/// Brings back what a killed delivery had put aside; where something else stands by now, that stays. It may be
/// interrupted and repeated. Of a delivery that ended everything stays, and the warning says so.
pub(super) fn bring_back(record: &Record, root: &Folder, steps: &Steps) -> io::Result<Option<String>> {
    if record.state != State::Begun {
        let warning = "output in ignored directories is kept as delivered".to_owned();
        return Ok((record.outputs_delivered + record.outputs.len() > 0).then_some(warning));
    }
    for saved in record.outputs.iter().rev().filter(|saved| !saved.is_new) {
        let (path, temporary) = (journal::path(&saved.path)?, journal::path(&saved.temporary)?);
        if look(root, &temporary)?.is_none() || look(root, &path)?.is_some() {
            continue;
        }
        make_folders(root, (&RelPath::root(), &path), &|_| None, steps, &mut Vec::new())?;
        let (folder, aside) = root.parent_of(&temporary)?;
        let (parent, name) = root.parent_of(&path)?;
        folder.place(aside, &parent, name, steps)?;
    }
    Ok(None)
}

/// Removes the temporary names of a record, and returns what could not be removed; that stays in the record.
pub(super) fn tidy(record: &mut Record, root: &Folder, steps: &Steps) -> Vec<String> {
    let mut stuck = Vec::new();
    record.outputs.retain(|saved| {
        let cleared = journal::path(&saved.temporary).and_then(|temporary| match root.parent_of(&temporary) {
            Ok((folder, name)) => clear(&folder, name, steps),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(error),
        });
        cleared.inspect_err(|error| stuck.push(format!("{}: {error}", saved.temporary))).is_err()
    });
    stuck
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::apply::apply;
    use super::super::test_support::{Project, script};
    use super::super::undo::recover;
    use super::super::{Site, undo};
    use super::*;
    use crate::change::Entry;
    use crate::workspace::Workspace;
    use crate::workspace::test_support::sh;
    use crate::workspace::tree::TreeOptions;

    /// Every kind of swap: a file anew, one in the place of another, a new directory, one that goes, a file that becomes
    /// a directory and the reverse, and directories that the change makes or takes away.
    const WORK: &str = "echo 2 >out/changed; rm out/gone; mkdir -p new/deep; echo n >new/deep/f; ln -s f new/deep/l; \
        rm -r cache; rm out/file; mkdir out/file; echo d >out/file/x; rm -r out/folder; echo f >out/folder; echo b >src/b.o; \
        mkdir made; echo o >made/m.o; chmod 755 out/changed";

    struct Fixture {
        project: Project,
        workspace: Workspace,
    }

    fn fixture() -> Fixture {
        let project = Project::new()
            .file(".gitignore", "out/\nnew/\ncache/\n*.o\n")
            .file("out/changed", "1\n")
            .file("out/gone", "1\n")
            .file("out/file", "1\n")
            .file("out/folder/x", "1\n")
            .file("cache/deep/x", "1\n")
            .file("src/a", "1\n");
        let workspace = Workspace::open(project.root()).unwrap();
        Fixture { project, workspace }
    }

    impl Fixture {
        fn tree(&self) -> CommandTree {
            let options = TreeOptions {
                repository: None,
                may_read: &|_| true,
                copy_max: 1 << 30,
                parent: Some(self.project.folder()),
                objects_at: None,
                until: None,
                layers: false,
                ignored_outputs: true,
            };
            let tree = CommandTree::make(self.workspace.root(), &options).unwrap();
            sh(tree.root(), WORK);
            tree
        }

        fn changes(&self) -> ChangeSet {
            self.project.changes(&[
                ("made/by-change", script("2\n")),
                ("src/a", Entry::Absent),
                ("z", Entry::file("2\n")),
            ])
        }

        fn apply(&self, tree: &CommandTree, steps: &Steps) -> Result<Option<PathBuf>, DeliverError> {
            let changes = self.changes();
            let outputs = Outputs::new(tree, tree.ignored_outputs(&changes).unwrap());
            let site = Site { outputs: Some(&outputs), ..self.project.site() };
            apply(&changes, &site, steps).map(|finished| finished.record)
        }

        fn relative(&self) -> BTreeMap<PathBuf, (u32, Entry)> {
            let relative = |path: PathBuf| path.strip_prefix(self.project.root()).unwrap().to_owned();
            self.project.files().into_iter().map(|(path, state)| (relative(path), state)).collect()
        }
    }

    #[test]
    fn everything_comes_with_the_change_and_stays_when_that_is_undone() {
        let fixture = fixture();
        let tree = fixture.tree();
        let record = fixture.apply(&tree, &Steps::default()).unwrap().unwrap();
        let root = fixture.project.root();
        assert_eq!(
            sh(root, "cat out/changed new/deep/l out/file/x out/folder src/b.o made/m.o z; test -x out/changed; ls"),
            "2\nn\nd\nf\nb\no\n2\nmade\nnew\nout\nsrc\nz\n"
        );
        assert!(!root.join("out/gone").exists() && fixture.project.leftovers().is_empty());
        let report = undo(&record, root, &Steps::default()).unwrap();
        assert_eq!(report.restored.len(), 3, "{report:?}");
        assert_eq!(report.warnings.len(), 1, "{report:?}");
        assert_eq!(sh(root, "cat src/a out/changed src/b.o; ls made"), "1\n2\nb\nm.o\n");
    }

    #[test]
    fn whatever_operation_fails_the_tree_is_as_before_or_whole() {
        let whole = {
            let fixture = fixture();
            fixture.apply(&fixture.tree(), &Steps::default()).unwrap();
            fixture.relative()
        };
        for number in 0.. {
            let fixture = fixture();
            let tree = fixture.tree();
            let before = fixture.project.tree();
            let steps = Steps::failing_at(number);
            match fixture.apply(&tree, &steps) {
                Err(error) => assert_eq!(fixture.project.tree(), before, "operation {number}: {error}"),
                Ok(_) => {
                    recover(&fixture.project.undo(), fixture.project.root()).unwrap();
                    assert_eq!(fixture.relative(), whole, "operation {number}");
                }
            }
            if steps.taken() <= number {
                assert!(number > 40, "{number}");
                break;
            }
        }
    }

    #[test]
    fn a_kill_at_any_operation_leaves_the_project_as_it_was_or_whole() {
        let whole = {
            let fixture = fixture();
            fixture.apply(&fixture.tree(), &Steps::default()).unwrap();
            fixture.relative()
        };
        let (mut as_before, mut all) = (0, 0);
        for number in 0.. {
            let fixture = fixture();
            let tree = fixture.tree();
            let before = fixture.relative();
            let steps = Steps::killed_at(number);
            // A rollback that is killed as well is what a kill in the middle leaves.
            let _killed = fixture.apply(&tree, &steps);
            for (folder, record) in fixture.project.records() {
                if record.state == State::Begun {
                    let _ = undo(&folder, fixture.project.root(), &Steps::killed_at(number % 11));
                }
            }
            recover(&fixture.project.undo(), fixture.project.root()).unwrap();
            for (folder, record) in fixture.project.records() {
                if record.state == State::Undone {
                    undo(&folder, fixture.project.root(), &Steps::default()).unwrap();
                }
            }
            let now = fixture.relative();
            if now == before {
                as_before += 1;
            } else {
                assert_eq!(now, whole, "operation {number}");
                all += 1;
            }
            if steps.taken() <= number {
                break;
            }
        }
        assert!(as_before > 25 && all > 10, "{as_before}, {all}");
    }

    #[test]
    fn what_has_changed_since_commands_saw_it_is_a_conflict_and_nothing_is_written() {
        for meanwhile in ["rm out/file; mkdir out/file", "mkdir -p new/deep"] {
            let fixture = fixture();
            let tree = fixture.tree();
            sh(fixture.project.root(), meanwhile);
            let before = fixture.project.tree();
            match fixture.apply(&tree, &Steps::default()) {
                Err(error) => {
                    assert!(matches!(error, DeliverError::Conflict { .. }), "{error:?}");
                    assert_eq!(fixture.project.tree(), before, "{meanwhile}");
                }
                Ok(_) => assert_eq!(sh(fixture.project.root(), "cat new/deep/f out/file/x"), "n\nd\n", "{meanwhile}"),
            }
        }
    }
}
