//! Lists the files below a directory in the staged view without ignored ones: in parallel, and in a fixed order.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::FileType;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::ignore::{Ignored, Kind, Level, Rules, Source};
use crate::change::Entry;
use crate::path::RelPath;
use crate::threads::on_all_cores;

/// A regular file of the staged view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: RelPath,
    /// Its contents if staged; else they are on the disk.
    pub staged: Option<Arc<[u8]>>,
}

/// What a walk leaves out, besides `.git`.
pub struct Filter<'a> {
    /// Whether `.gitignore` and `.git/info/exclude` apply. `.qwenignore` always does.
    pub git: bool,
    /// Tells whether to enter a directory.
    pub enter: &'a (dyn Fn(&RelPath) -> bool + Sync),
    /// Tells whether a file is wanted.
    pub want: &'a (dyn Fn(&RelPath) -> bool + Sync),
}

impl Filter<'_> {
    fn leaves_out(&self, ignored: Ignored) -> bool {
        ignored.qwen || (ignored.git && self.git)
    }
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    /// The files, by the bytes of their paths.
    pub files: Vec<Found>,
    /// How many files and directories git's rules left out; the contents of such directories are not counted.
    pub git_ignored: usize,
    /// How many `.qwenignore` left out.
    pub qwen_ignored: usize,
    /// Directories that could not be read.
    pub unreadable: Vec<RelPath>,
}

/// Walks from a directory down. Links are not followed; a start that git ignores is walked all the same, since the
/// caller named it. Returns what was found so far once `cancelled` is set.
pub fn walk(source: &Source, start: &RelPath, filter: &Filter<'_>, cancelled: &AtomicBool) -> Walk {
    let rules = Rules::of_source(source.clone());
    let queue = Queue::new(start.clone(), rules.level(start).named());
    let mut walk = Walk::default();
    for part in on_all_cores(usize::MAX, || work(source, start, &queue, filter, cancelled)) {
        walk.files.extend(part.files);
        walk.git_ignored += part.git_ignored;
        walk.qwen_ignored += part.qwen_ignored;
        walk.unreadable.extend(part.unreadable);
    }
    overlay(source, &rules, start, filter, &mut walk.files);
    walk.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    walk.unreadable.sort_unstable();
    walk
}

/// Puts the staged state over what is on the disk.
fn overlay(source: &Source, rules: &Rules, start: &RelPath, filter: &Filter<'_>, files: &mut Vec<Found>) {
    if source.changes().is_empty() {
        return;
    }
    files.retain(|found| source.changes().staged(&found.path).is_none());
    let mut staged: BTreeMap<&RelPath, &Arc<[u8]>> = BTreeMap::new();
    for (path, change) in source.changes().iter() {
        match &change.after {
            Entry::File { content, .. } if path.is_under(start) && path != start => staged.insert(path, content),
            Entry::File { .. } | Entry::Link { .. } | Entry::Absent => continue,
        };
    }
    for (path, content) in staged {
        let Some((parent, name)) = path.parent().zip(path.file_name()) else { continue };
        let below_start = |folder: &RelPath| folder.is_under(start) && folder != start;
        let folders = std::iter::successors(Some(parent.clone()), RelPath::parent).take_while(below_start);
        let entered = folders.into_iter().all(|folder| {
            let left_out = folder.parent().zip(folder.file_name()).is_some_and(|(above, name)| {
                name == ".git" || filter.leaves_out(named_level(rules, &above, start).child(name, Kind::Folder))
            });
            !left_out && (filter.enter)(&folder)
        });
        let left_out = name == ".git" || filter.leaves_out(named_level(rules, &parent, start).child(name, Kind::File));
        if entered && !left_out && (filter.want)(path) {
            files.push(Found { path: path.clone(), staged: Some(Arc::clone(content)) });
        }
    }
}

/// The rules of a directory as the walk sees them: git's rules about the start and above do not matter.
fn named_level(rules: &Rules, folder: &RelPath, start: &RelPath) -> Arc<Level> {
    let level = rules.level(folder);
    match rules.level(start).is_git_ignored() {
        true => level.named(),
        false => level,
    }
}

/// Directories that wait to be read.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Vec<(RelPath, Arc<Level>)>,
    /// Workers that are reading a directory, and may find more.
    busy: usize,
}

impl Queue {
    fn new(start: RelPath, level: Arc<Level>) -> Queue {
        Queue { state: Mutex::new(State { waiting: vec![(start, level)], busy: 0 }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the queue")
    }

    /// Waits for a directory; `None` if none is left and no worker can find more.
    fn take(&self) -> Option<(RelPath, Arc<Level>)> {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.waiting.pop() {
                state.busy += 1;
                return Some(next);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).expect("nothing panics while it holds the queue");
        }
    }

    /// Ends what `take` began and adds the directories found in it.
    fn done(&self, found: Vec<(RelPath, Arc<Level>)>) {
        let mut state = self.lock();
        state.busy -= 1;
        state.waiting.extend(found);
        drop(state);
        self.changed.notify_all();
    }
}

fn work(source: &Source, start: &RelPath, queue: &Queue, filter: &Filter<'_>, cancelled: &AtomicBool) -> Walk {
    let mut walk = Walk::default();
    while let Some((folder, level)) = queue.take() {
        let found = match cancelled.load(Ordering::Relaxed) {
            true => Vec::new(),
            false => read_folder(source, &folder, (&level, folder == *start), filter, &mut walk),
        };
        queue.done(found);
    }
    walk
}

/// Reads one directory: its files go into `walk`, the directories to enter are returned. The level is that of the
/// directory itself at the start of the walk, and of its parent elsewhere.
fn read_folder(
    source: &Source,
    folder: &RelPath,
    (level, is_start): (&Arc<Level>, bool),
    filter: &Filter<'_>,
    walk: &mut Walk,
) -> Vec<(RelPath, Arc<Level>)> {
    let absolute: PathBuf = folder.under(source.root());
    let entries = entries(&absolute, folder, walk);
    let level = match is_start {
        true => Arc::clone(level),
        false => level.enter_listed(source, folder, |name| entries.iter().any(|(other, _)| other == name)),
    };
    let mut path = absolute.into_os_string().into_vec();
    path.push(b'/');
    let base = path.len();
    let mut folders = Vec::new();
    for (name, kind) in entries {
        if name == ".git" || !(kind.is_dir() || kind.is_file()) {
            continue;
        }
        path.truncate(base);
        path.extend_from_slice(name.as_bytes());
        let ignored = level.path(&path, if kind.is_dir() { Kind::Folder } else { Kind::File });
        if filter.leaves_out(ignored) {
            if ignored.git && filter.git {
                walk.git_ignored += 1
            } else {
                walk.qwen_ignored += 1
            }
            continue;
        }
        let Some(path) = folder.child(&name) else { continue };
        if kind.is_dir() {
            if (filter.enter)(&path) {
                folders.push((path, Arc::clone(&level)));
            }
        } else if (filter.want)(&path) {
            walk.files.push(Found { path, staged: None });
        }
    }
    folders
}

/// Returns the names of a directory; what cannot be read is noted.
fn entries(absolute: &Path, folder: &RelPath, walk: &mut Walk) -> Vec<(OsString, FileType)> {
    let entries = match std::fs::read_dir(absolute) {
        Ok(entries) => entries,
        // A directory with staged files only is not an error.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(_) => {
            walk.unreadable.push(folder.clone());
            return Vec::new();
        }
    };
    let entries: Vec<std::io::Result<(OsString, FileType)>> =
        entries.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?)))).collect();
    if entries.iter().any(Result::is_err) {
        walk.unreadable.push(folder.clone());
    }
    entries.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn walked(workspace: &Workspace, start: &str, git: bool) -> Vec<String> {
        let start = RelPath::new(start).unwrap();
        let filter = Filter { git, enter: &|_| true, want: &|_| true };
        let walk = walk(&Source::new(workspace), &start, &filter, &AtomicBool::new(false));
        walk.files.iter().map(|found| found.path.to_string()).collect()
    }

    #[test]
    fn every_file_is_found_once_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut expected = Vec::new();
        for n in 0..300 {
            let name = format!("d{}/e{}/f{n}", n % 7, n % 3);
            let path = folder.path().join(&name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"").unwrap();
            expected.push(name);
        }
        expected.sort();
        let workspace = Workspace::open(folder.path()).unwrap();
        assert_eq!(walked(&workspace, "", true), expected);
        expected.retain(|name| name.starts_with("d1/e2/"));
        assert_eq!(walked(&workspace, "d1/e2", true), expected);
    }

    #[test]
    fn nested_rules_hold_below_their_folder_alone() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            (".gitignore", "*.o\nout/\n"),
            ("a/x.o", ""),
            ("a/b/.gitignore", "!x.o\n/y\n"),
            ("a/b/x.o", ""),
            ("a/b/y", ""),
            ("a/b/c/y", ""),
            ("a/b/c/x.o", ""),
            ("out/.gitignore", "!*\n"),
            ("out/z", ""),
            ("sub/.git/HEAD", ""),
            ("sub/x.o", ""),
            ("q/.qwenignore", "*\n"),
            ("q/x", ""),
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let workspace = Workspace::open(folder.path()).unwrap();
        let all = [".gitignore", "a/b/.gitignore", "a/b/c/x.o", "a/b/c/y", "a/b/x.o", "sub/x.o"];
        assert_eq!(walked(&workspace, "", true), all);
        assert_eq!(walked(&workspace, "out", true), ["out/.gitignore", "out/z"]);
        assert_eq!(walked(&workspace, "q", false), [""; 0]);
    }
}
