//! Holds what the repository means for decisions: programs that it names, and files of its history that must not be
//! read.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::layers::Layer;
use crate::path::RelPath;

/// What decisions about git rest on; by default that there is no repository.
#[derive(Debug, Clone, Default)]
pub struct GitFacts {
    /// Filters, textconv and merge drivers that the repository's configuration names; git commands that would start one
    /// are denied.
    pub drivers: Vec<String>,
    /// The files that the index and the commits hold.
    pub history: History,
}

/// The files that the index and the commits hold, found when somebody first asks. Copies share what was found.
#[derive(Clone, Default)]
pub struct History {
    committed: Option<Arc<Committed>>,
}

/// The rules of a policy, and what they deny.
type Judged = (Arc<Vec<Layer>>, Arc<Unreadable>);

struct Committed {
    /// The workspace in its repository.
    prefix: RelPath,
    find: Box<dyn Fn() -> Result<Vec<RelPath>, String> + Send + Sync>,
    files: OnceLock<Result<Vec<RelPath>, String>>,
    /// The unreadable files under the rules of each policy that asked.
    unreadable: Mutex<Vec<Judged>>,
}

/// Files of the history that may not be read.
#[derive(Debug, Default)]
pub struct Unreadable {
    /// Relative to the workspace, in the order of paths.
    files: Vec<RelPath>,
    /// Whether there is one next to the workspace.
    outside: bool,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

impl History {
    /// Makes the history of a repository that holds the workspace at `prefix`. `find` returns every file that the index
    /// or a commit holds, relative to the repository's top, or says why that is not known; it is called once at most.
    pub fn new(prefix: RelPath, find: impl Fn() -> Result<Vec<RelPath>, String> + Send + Sync + 'static) -> History {
        let committed =
            Committed { prefix, find: Box::new(find), files: OnceLock::new(), unreadable: Mutex::new(Vec::new()) };
        History { committed: Some(Arc::new(committed)) }
    }

    /// Returns the files that rules deny; the error says why that is not known.
    pub(super) fn unreadable(
        &self,
        layers: &Arc<Vec<Layer>>,
        is_denied: impl Fn(&RelPath) -> bool,
    ) -> Result<Arc<Unreadable>, String> {
        let Some(committed) = &self.committed else { return Ok(Arc::default()) };
        let mut known = committed.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known.iter().find(|(of, _)| Arc::ptr_eq(of, layers)) {
            return Ok(Arc::clone(found));
        }
        let mut found = Unreadable::default();
        for file in committed.files.get_or_init(&committed.find).as_ref().map_err(Clone::clone)? {
            match RelPath::below(committed.prefix.as_path(), file.as_path()) {
                None => found.outside = true,
                Some(file) if is_denied(&file) => found.files.push(file),
                Some(_) => {}
            }
        }
        found.files.sort_by(|one, other| one.as_path().cmp(other.as_path()));
        let found = Arc::new(found);
        known.push((Arc::clone(layers), Arc::clone(&found)));
        Ok(found)
    }
}

impl Unreadable {
    /// Tells whether there is no repository, also next to the workspace.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.outside
    }

    /// Returns one of the workspace.
    pub(super) fn any(&self) -> Option<&RelPath> {
        self.files.first()
    }

    /// Returns one that is `path` or is below it.
    pub(super) fn under(&self, path: &RelPath) -> Option<&RelPath> {
        let at = self.files.partition_point(|file| file.as_path() < path.as_path());
        self.files.get(at).filter(|file| file.is_under(path))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::policy::Policy;

    fn path(text: &str) -> RelPath {
        RelPath::new(text).unwrap()
    }

    fn of(files: &'static [&'static str], prefix: &str) -> History {
        let prefix = if prefix.is_empty() { RelPath::root() } else { path(prefix) };
        History::new(prefix, || Ok(files.iter().map(|file| path(file)).collect()))
    }

    #[test]
    fn what_lies_below_a_path_is_found_whatever_sorts_between() {
        let layers = Policy::builtin("default").unwrap().layers;
        let history = of(&["a-b/x", "a/.env", "a.b", "b/a", "a/b/c.pem", "z"], "");
        let found = history.unreadable(&layers, |_| true).unwrap();
        for (name, expected) in
            [("a", Some("a/.env")), ("a/b", Some("a/b/c.pem")), ("a-", None), ("b", Some("b/a")), ("c", None)]
        {
            assert_eq!(found.under(&path(name)).map(RelPath::to_string_lossy).as_deref(), expected, "{name}");
        }
        assert!(found.under(&RelPath::root()).is_some());
    }

    #[test]
    fn files_beside_the_workspace_count_for_what_sees_the_whole_repository() {
        let layers = Policy::builtin("default").unwrap().layers;
        let found = of(&["sub/a", "other/a"], "sub").unreadable(&layers, |_| false).unwrap();
        assert!(!found.is_empty() && found.any().is_none());
        assert!(of(&["sub/a"], "sub").unreadable(&layers, |_| false).unwrap().is_empty());
    }

    #[test]
    fn the_repository_is_asked_once_and_each_policy_judges_by_its_own_rules() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let history = History::new(RelPath::root(), move || {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(vec![path("a")])
        });
        let (one, other) = (Policy::builtin("default").unwrap().layers, Policy::builtin("open").unwrap().layers);
        assert!(!history.unreadable(&one, |_| true).unwrap().is_empty());
        assert!(history.clone().unreadable(&other, |_| false).unwrap().is_empty());
        assert!(!history.unreadable(&one, |_| false).unwrap().is_empty(), "it was judged again");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_history_that_cannot_be_looked_through_is_an_error_for_every_policy() {
        let layers = Policy::builtin("default").unwrap().layers;
        let history = History::new(RelPath::root(), || Err("too long".to_owned()));
        assert_eq!(history.unreadable(&layers, |_| false).unwrap_err(), "too long");
    }
}
