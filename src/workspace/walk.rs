//! The files below a folder in the staged view, less what is ignored: in parallel, and in one order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::ignore::{Ignored, Kind, Level, Rules, Source};
use crate::change::Entry;
use crate::path::RelPath;

/// A regular file of the staged view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: RelPath,
    /// Its contents where they are staged; else they are on the disk.
    pub staged: Option<Arc<[u8]>>,
}

/// What a walk leaves out, besides `.git`.
pub struct Filter<'a> {
    /// Whether `.gitignore` and `.git/info/exclude` hold. `.qwenignore` always does.
    pub git: bool,
    /// Whether a folder is entered; asked with its path.
    pub enter: &'a (dyn Fn(&RelPath) -> bool + Sync),
    /// Whether a file is wanted; asked with its path.
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
    /// How many files and folders git's rules left out; what lies in such a folder is not counted.
    pub git_ignored: usize,
    /// How many `.qwenignore` left out.
    pub qwen_ignored: usize,
    /// Folders that could not be read.
    pub unreadable: Vec<RelPath>,
}

/// Walks from a folder down. Links are not followed; a start that git ignores is walked all the same, since the
/// caller named it. Returns what was found so far once `cancelled` is set.
pub fn walk(source: &Source, start: &RelPath, filter: &Filter<'_>, cancelled: &AtomicBool) -> Walk {
    let rules = Rules::of_source(source.clone());
    let queue = Queue::new(start.clone(), rules.level(start).named());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let mut walk = Walk::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(|| work(source, &queue, filter, cancelled))).collect();
        let mut parts = vec![work(source, &queue, filter, cancelled)];
        parts.extend(workers.into_iter().map(|worker| worker.join().expect("a walk does not panic")));
        for part in parts {
            walk.files.extend(part.files);
            walk.git_ignored += part.git_ignored;
            walk.qwen_ignored += part.qwen_ignored;
            walk.unreadable.extend(part.unreadable);
        }
    });
    overlay(source, &rules, start, filter, &mut walk.files);
    walk.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    walk.unreadable.sort_unstable();
    walk
}

/// Puts the staged state above what is on the disk.
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

/// The rules of a folder as the walk sees them: what git says of the start and above does not matter.
fn named_level(rules: &Rules, folder: &RelPath, start: &RelPath) -> Arc<Level> {
    let level = rules.level(folder);
    match rules.level(start).is_git_ignored() {
        true => level.named(),
        false => level,
    }
}

/// Folders that wait to be read.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Vec<(RelPath, Arc<Level>)>,
    /// Workers that read a folder now, and may find more.
    busy: usize,
}

impl Queue {
    fn new(start: RelPath, level: Arc<Level>) -> Queue {
        Queue { state: Mutex::new(State { waiting: vec![(start, level)], busy: 0 }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the queue")
    }

    /// Waits for a folder; `None` when there is none left and nobody can find more.
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

    /// Ends what `take` began and adds the folders found in it.
    fn done(&self, found: Vec<(RelPath, Arc<Level>)>) {
        let mut state = self.lock();
        state.busy -= 1;
        state.waiting.extend(found);
        drop(state);
        self.changed.notify_all();
    }
}

fn work(source: &Source, queue: &Queue, filter: &Filter<'_>, cancelled: &AtomicBool) -> Walk {
    let mut walk = Walk::default();
    while let Some((folder, level)) = queue.take() {
        let found = match cancelled.load(Ordering::Relaxed) {
            true => Vec::new(),
            false => read_folder(source, &folder, &level, filter, &mut walk),
        };
        queue.done(found);
    }
    walk
}

/// Reads one folder: its files go into `walk`, the folders to enter are returned.
fn read_folder(
    source: &Source,
    folder: &RelPath,
    level: &Arc<Level>,
    filter: &Filter<'_>,
    walk: &mut Walk,
) -> Vec<(RelPath, Arc<Level>)> {
    let absolute: PathBuf = folder.under(source.root());
    let entries = match std::fs::read_dir(&absolute) {
        Ok(entries) => entries,
        // A folder that only staged files make is no fault.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(_) => {
            walk.unreadable.push(folder.clone());
            return Vec::new();
        }
    };
    let mut folders = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == ".git" {
            continue;
        }
        let Ok(kind) = entry.file_type() else { continue };
        if !kind.is_dir() && !kind.is_file() {
            continue;
        }
        let ignored = level.child(&name, if kind.is_dir() { Kind::Folder } else { Kind::File });
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
                let level = level.enter(source, &path);
                folders.push((path, level));
            }
        } else if (filter.want)(&path) {
            walk.files.push(Found { path, staged: None });
        }
    }
    folders
}
