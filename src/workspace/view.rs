//! Shows the project with the staged changes over it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use super::disk::Disk;
use super::ignore::{BESIDE, Ignored, TrustedIgnores};
use crate::bounded;
use crate::change::{Change, ChangeSet, Entry};
use crate::path::{Node, RelPath, Tree};
use crate::policy::Grant;

/// The workspace of a run. Shared by the calls of a turn: every method takes `&self`.
pub struct Workspace {
    root: PathBuf,
    disk: Disk,
    changes: RwLock<ChangeSet>,
    without: OnceLock<Ignored>,
    ignore_files: OnceLock<Arc<[String]>>,
    trusted_ignores: OnceLock<TrustedIgnores>,
    /// The last call that changed each path, in words for people.
    made_by: RwLock<BTreeMap<RelPath, String>>,
    /// Changes of commands that were refused, since the last [`Workspace::take_refusals`].
    refusals: Mutex<Vec<(RelPath, String)>>,
    watch: OnceLock<Arc<dyn Watch>>,
}

/// Knows secrets, so that a part of a text shows no part of one.
pub trait Watch: Send + Sync {
    /// Sees a text of which the model may be shown a part; `is_part`: the text is itself a part of something.
    fn notice(&self, text: &[u8], is_part: bool);

    /// Returns where the secrets of a text are, in its order.
    fn secrets(&self, text: &str) -> Vec<Range<usize>>;

    /// Masks the secrets of a text, of which only a part may be shown.
    fn masked(&self, text: &str) -> String;
}

/// Why the workspace refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The call did not declare this path, or the policy did not grant it.
    #[error("{0} was not granted to this call")]
    NotGranted(PathBuf),
    /// Nothing is there.
    #[error("file not found: {0}")]
    NotFound(PathBuf),
    /// A directory is where a file was expected.
    #[error("{0} is a directory, not a file")]
    IsFolder(PathBuf),
    /// A file is where a directory was expected.
    #[error("{0} is not a directory")]
    NotAFolder(PathBuf),
    /// A socket, pipe or device.
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    /// The disk failed.
    #[error("{path}: {cause}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What.
        #[source]
        cause: io::Error,
    },
}

/// A file as the staged view has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileView {
    /// Its resolved path.
    pub path: RelPath,
    /// Its bytes.
    pub content: Arc<[u8]>,
    /// Whether its owner may execute it.
    pub executable: bool,
}

impl Workspace {
    /// Opens the workspace at an existing directory.
    pub fn open(root: &Path) -> Result<Workspace, WorkspaceError> {
        let failed = |cause| WorkspaceError::Io { path: root.to_path_buf(), cause };
        let root = root.canonicalize().map_err(failed)?;
        if !root.is_dir() {
            return Err(WorkspaceError::NotAFolder(root));
        }
        Ok(Workspace {
            disk: Disk,
            root,
            changes: RwLock::default(),
            without: OnceLock::new(),
            ignore_files: OnceLock::new(),
            trusted_ignores: OnceLock::new(),
            made_by: RwLock::default(),
            refusals: Mutex::default(),
            watch: OnceLock::new(),
        })
    }

    /// Opens the workspace with changes staged.
    pub fn with_changes(root: &Path, changes: ChangeSet) -> Result<Workspace, WorkspaceError> {
        Ok(Workspace { changes: RwLock::new(changes), ..Workspace::open(root)? })
    }

    /// Opens the same directory once more, with nothing staged and by the same ignore rules.
    pub fn anew(&self) -> Workspace {
        Workspace {
            disk: Disk,
            root: self.root.clone(),
            changes: RwLock::default(),
            without: self.without.clone(),
            ignore_files: self.ignore_files.clone(),
            trusted_ignores: self.trusted_ignores.clone(),
            made_by: RwLock::default(),
            refusals: Mutex::default(),
            watch: OnceLock::new(),
        }
    }

    /// Shows every file that a call reads to this as a whole; the first call counts.
    pub fn show_to(&self, watch: Arc<dyn Watch>) {
        let _first = self.watch.set(watch);
    }

    /// Notes a text of which the model may be shown a part: see [`Watch::notice`].
    pub fn notice(&self, text: &[u8], is_part: bool) {
        if let Some(watch) = self.watch.get() {
            watch.notice(text, is_part);
        }
    }

    /// Masks the secrets of a text before a part of it is shown: see [`Watch::masked`].
    pub fn masked(&self, text: String) -> String {
        self.watch.get().map(|watch| watch.masked(&text)).unwrap_or(text)
    }

    /// Returns where a text can be cut at `at`, in bytes, without cutting a secret: the end of what is before the cut, and the
    /// beginning of what is behind it.
    pub fn cut_at(&self, text: &str, at: usize) -> (usize, usize) {
        let spans = self.watch.get().map(|watch| watch.secrets(text)).unwrap_or_default();
        spans.into_iter().find(|span| span.start < at && at < span.end).map_or((at, at), |span| (span.start, span.end))
    }

    /// Ignores the rules of these ignore files; the first call counts.
    pub fn disregard(&self, rules: Ignored) {
        let _first = self.without.set(rules);
    }

    /// Uses files of these names like `.qwenignore`, instead of the default ones; the first call counts.
    pub fn hold_to(&self, names: Vec<String>) {
        let _first = self.ignore_files.set(names.into());
    }

    /// Returns the names of the files that apply like `.qwenignore`.
    pub fn ignore_files(&self) -> Arc<[String]> {
        self.ignore_files.get().cloned().unwrap_or_else(|| BESIDE.map(str::to_owned).into())
    }

    /// Applies the `.qwenignore` files of the trusted commit as well; the first call counts.
    pub fn ignore_also(&self, trusted: TrustedIgnores) {
        let _first = self.trusted_ignores.set(trusted);
    }

    /// Returns the `.qwenignore` files of the trusted commit.
    pub fn trusted_ignores(&self) -> TrustedIgnores {
        self.trusted_ignores.get().cloned().unwrap_or_default()
    }

    /// Returns the ignore files whose rules do not count.
    pub fn without_ignore_rules(&self) -> Ignored {
        self.without.get().copied().unwrap_or_default()
    }

    /// Returns the canonical absolute path of the root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns what is at a path in the staged view, links not followed, contents included.
    pub fn entry(&self, path: &RelPath) -> Result<Entry, WorkspaceError> {
        if let Some(staged) = self.staged(path) {
            return Ok(staged);
        }
        self.disk
            .entry(&path.under(&self.root))
            .map_err(|cause| WorkspaceError::Io { path: path.as_path().into(), cause })
    }

    /// Returns what is at a path, as [`Workspace::entry`] does; a file of more than `most` bytes is an error and not read.
    pub fn entry_within(&self, path: &RelPath, most: u64) -> Result<Entry, WorkspaceError> {
        match self.look(&path.under(&self.root)) {
            Ok(Some(Node::File { size, .. })) if size > most => {
                Err(WorkspaceError::Io { path: path.as_path().into(), cause: bounded::too_large(most) })
            }
            _ => self.entry(path),
        }
    }

    /// Tells whether nothing is at a path, as far as it can be looked at.
    pub fn is_free(&self, path: &RelPath) -> bool {
        matches!(self.look(&path.under(&self.root)), Ok(None))
    }

    /// Reads a file that the call declared to read.
    pub fn read(&self, grant: &Grant, given: &Path) -> Result<FileView, WorkspaceError> {
        let view = match grant.readable_outside(given) {
            Some(outside) => self.read_outside(given, outside)?,
            None => self.read_inside(grant, given)?,
        };
        // What a command wrote may be a part of something.
        self.notice(&view.content, self.staged(&view.path).is_some());
        Ok(view)
    }

    fn read_inside(&self, grant: &Grant, given: &Path) -> Result<FileView, WorkspaceError> {
        let path = grant.readable(given).ok_or_else(|| WorkspaceError::NotGranted(given.into()))?;
        match self.entry(path)? {
            Entry::File { content, executable } => Ok(FileView { path: path.clone(), content, executable }),
            Entry::Link { .. } => Err(WorkspaceError::NotAFile(given.into())),
            Entry::Absent => match self.look(&path.under(&self.root)) {
                Ok(Some(Node::Dir)) => Err(WorkspaceError::IsFolder(given.into())),
                Ok(Some(_)) => Err(WorkspaceError::NotAFile(given.into())),
                Ok(None) => Err(WorkspaceError::NotFound(given.into())),
                Err(cause) => Err(WorkspaceError::Io { path: given.into(), cause }),
            },
        }
    }

    /// Reads a file of an included directory, from the disk, as nothing is ever staged there.
    fn read_outside(&self, given: &Path, outside: &Path) -> Result<FileView, WorkspaceError> {
        let failed = |cause| WorkspaceError::Io { path: given.into(), cause };
        match self.disk.look(outside).map_err(failed)? {
            Some(Node::File { executable, size, .. }) => {
                // No path of the workspace contains a control character, so this name is unique.
                let name = [b"\x01".as_slice(), outside.as_os_str().as_encoded_bytes()].concat();
                let path = RelPath::from_bytes(&name).ok_or_else(|| WorkspaceError::NotGranted(given.into()))?;
                let content = bounded::regular(outside, size).map_err(failed)?.into();
                Ok(FileView { path, content, executable })
            }
            Some(Node::Dir) => Err(WorkspaceError::IsFolder(given.into())),
            Some(Node::Link(_) | Node::Other) => Err(WorkspaceError::NotAFile(given.into())),
            None => Err(WorkspaceError::NotFound(given.into())),
        }
    }

    /// Stages a state at a path that the call declared to write, and returns the path's whole change so far.
    pub fn write(&self, grant: &Grant, given: &Path, after: Entry) -> Result<Change, WorkspaceError> {
        let path = grant.writable(given).ok_or_else(|| WorkspaceError::NotGranted(given.into()))?.clone();
        if matches!(self.look(&path.under(&self.root)), Ok(Some(Node::Dir))) {
            return Err(WorkspaceError::IsFolder(given.into()));
        }
        let before = self.entry(&path)?;
        let mut changes = self.changes.write().expect("no writer panics while it holds the lock");
        let first = before.clone();
        changes.stage(path.clone(), || first, after.clone());
        Ok(changes.get(&path).cloned().unwrap_or(Change { before, after }))
    }

    /// Returns a copy of everything staged so far.
    pub fn changes(&self) -> ChangeSet {
        self.changes.read().expect("no writer panics while it holds the lock").clone()
    }

    /// Returns to what was staged before a command of our own, which leaves nothing.
    pub fn take_back(&self, staged: ChangeSet) {
        *self.changes.write().expect("no writer panics while it holds the lock") = staged;
    }

    /// Remembers changes of a command that were refused, with the reasons.
    pub fn note_refusals(&self, refused: &[(RelPath, String)]) {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(refused);
    }

    /// Returns the refused changes since the last call.
    pub fn take_refusals(&self) -> Vec<(RelPath, String)> {
        std::mem::take(&mut self.refusals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers the call that changed paths, to report later where a change came from.
    pub fn note_maker(&self, paths: impl IntoIterator<Item = RelPath>, call: &str) {
        let mut made_by = self.made_by.write().unwrap_or_else(PoisonError::into_inner);
        made_by.extend(paths.into_iter().map(|path| (path, call.to_owned())));
    }

    /// Returns the last call that changed a path; `None` if no call did.
    pub fn made_by(&self, path: &RelPath) -> Option<String> {
        self.made_by.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    /// Tells whether links on the disk lead from a path of the workspace to a place outside of it.
    pub fn leads_out(&self, path: &RelPath) -> bool {
        path.under(&self.root).canonicalize().is_ok_and(|real| !real.starts_with(&self.root))
    }

    /// Returns the staged change of a path.
    pub(super) fn change(&self, path: &RelPath) -> Option<Change> {
        self.changes.read().expect("no writer panics while it holds the lock").get(path).cloned()
    }

    /// Returns what was at a path before the run.
    pub(super) fn first_state(&self, path: &RelPath) -> Result<Entry, WorkspaceError> {
        let disk = || Disk.entry(&path.under(&self.root));
        let known = self.changes.read().expect("no writer panics while it holds the lock").get(path).cloned();
        match known {
            Some(change) => Ok(change.before),
            None => disk().map_err(|cause| WorkspaceError::Io { path: path.as_path().into(), cause }),
        }
    }

    /// Stages a change of a command, which was judged.
    pub(super) fn stage_judged(&self, path: &RelPath, change: Change) {
        let mut changes = self.changes.write().expect("no writer panics while it holds the lock");
        changes.stage(path.clone(), || change.before, change.after);
    }

    /// Keeps a staged file from getting more rights than commands gave it.
    pub(super) fn limit(&self, path: &RelPath, mode: u32) {
        self.changes.write().expect("no writer panics while it holds the lock").limit(path, mode);
    }

    fn staged(&self, path: &RelPath) -> Option<Entry> {
        self.changes.read().expect("no writer panics while it holds the lock").staged(path).cloned()
    }
}

/// The staged view by absolute path, for decisions.
impl Tree for Workspace {
    fn look(&self, path: &Path) -> io::Result<Option<Node>> {
        let Some(relative) = RelPath::below(&self.root, path) else { return self.disk.look(path) };
        match self.staged(&relative) {
            Some(Entry::File { content, executable }) => {
                Ok(Some(Node::File { links: 1, id: (0, 0), executable, size: content.len() as u64 }))
            }
            Some(Entry::Link { target }) => {
                use std::os::unix::ffi::OsStringExt;
                Ok(Some(Node::Link(OsString::from_vec(target).into())))
            }
            Some(Entry::Absent) => Ok(None),
            None => match self.disk.look(path)? {
                Some(node) => Ok(Some(node)),
                // A directory with staged files only.
                None => {
                    let changes = self.changes.read().expect("no writer panics while it holds the lock");
                    let makes = |(staged, change): (&RelPath, &Change)| {
                        staged.is_under(&relative) && change.after != Entry::Absent
                    };
                    Ok(changes.iter().any(makes).then_some(Node::Dir))
                }
            },
        }
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let Some(folder) = RelPath::below(&self.root, path) else { return self.disk.names(path) };
        let mut names = match self.disk.names(path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound && matches!(self.look(path), Ok(Some(Node::Dir))) => {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let changes = self.changes.read().expect("no writer panics while it holds the lock");
        for (staged, change) in changes.iter().filter(|(staged, _)| staged.is_under(&folder) && **staged != folder) {
            let depth = folder.components().count();
            let Some(name) = staged.components().nth(depth) else { continue };
            let name = {
                use std::os::unix::ffi::OsStringExt;
                OsString::from_vec(name.to_vec())
            };
            let direct = staged.components().count() == depth + 1;
            match &change.after {
                Entry::Absent if direct => names.retain(|known| *known != name),
                Entry::Absent => {}
                Entry::File { .. } | Entry::Link { .. } => names.push(name),
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}
