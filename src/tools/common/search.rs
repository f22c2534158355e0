//! Contains what `glob`, `search_file_content` and `read_many_files` share: where they search, outside the event loop.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::path::{Node, RelPath};
use crate::policy::Grant;
use crate::threads::off_the_event_loop;
use crate::tools::common::location::Location;
use crate::tools::{ToolContext, ToolError};
use crate::workspace::ignore::Source;
use crate::workspace::walk::{Filter, Found, Walk, walk};

/// Where a search looks, as values that other threads can hold.
pub(crate) struct Scope {
    /// The directory or file that it starts at.
    pub(crate) start: RelPath,
    /// The one file that it starts at, if it does.
    pub(crate) single: Option<Found>,
    /// Which files the policy lets it show.
    pub(crate) may_read: Arc<dyn Fn(&RelPath) -> bool + Send + Sync>,
    /// The staged view.
    pub(crate) source: Source,
    is_outside: bool,
}

impl Scope {
    /// Resolves the start that a call declared.
    pub(crate) fn new(given: &Path, grant: &Grant, cx: &ToolContext<'_>) -> Result<Scope, ToolError> {
        let location = Location::of(given, grant, cx)?;
        let (source, shown) = (location.source(cx.workspace), &location.shown);
        let single = match location.look(cx.workspace)? {
            Some(Node::Dir) => None,
            Some(Node::File { .. }) => {
                location.check_not_hidden(cx.workspace)?;
                let staged = source.changes().staged(&location.path).and_then(|entry| match entry {
                    crate::change::Entry::File { content, .. } => Some(Arc::clone(content)),
                    crate::change::Entry::Absent | crate::change::Entry::Link { .. } => None,
                });
                Some(Found { path: location.path.clone(), staged })
            }
            Some(Node::Link(_) | Node::Other) => {
                return Err(ToolError::failed(format!("Path is not a file or directory: {shown}")));
            }
            None => return Err(ToolError::failed(format!("Path does not exist: {shown}"))),
        };
        let Location { root, path: start, is_outside, .. } = location;
        Ok(Scope { start, single, may_read: grant.read_filter(root), source, is_outside })
    }

    /// Returns the directory next to the workspace that its paths are below; `None` in the workspace.
    pub(crate) fn outside(&self) -> Option<&Path> {
        self.is_outside.then(|| self.source.root())
    }

    /// Walks the scope; a file that was named is found whatever the filter says about its name.
    pub(crate) fn walk(&self, filter: &Filter<'_>, cancelled: &AtomicBool) -> Walk {
        match &self.single {
            Some(found) if (self.may_read)(&found.path) => Walk { files: vec![found.clone()], ..Walk::default() },
            Some(_) => Walk::default(),
            None => walk(&self.source, &self.start, filter, cancelled),
        }
    }
}

/// Sets its flag when the call that holds it is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How long a search may take: a pattern can be one that never ends.
const LONGEST: Duration = Duration::from_secs(120);

/// Runs blocking work on another thread, so that timers and Ctrl-C continue; dropping the future cancels it, and so does
/// the end of its time.
pub(crate) async fn in_background<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<T, ToolError> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let _guard = CancelOnDrop(Arc::clone(&cancelled));
    let made = tokio::time::timeout(LONGEST, off_the_event_loop(move || work(&cancelled))).await;
    let made = made.map_err(|_| {
        let seconds = LONGEST.as_secs();
        ToolError::failed(format!("not done after {seconds} s and ended: use a simpler pattern, or name a directory"))
    })?;
    made.map_err(|_| ToolError::failed("the search ended early: a fault in qwen itself"))
}
