//! What `glob`, `search_file_content` and `read_many_files` share: where they look, away from the event loop.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::path::{Node, RelPath, Tree};
use crate::policy::Grant;
use crate::tools::common::names;
use crate::tools::{ToolContext, ToolError};
use crate::workspace::WorkspaceError;
use crate::workspace::ignore::Source;
use crate::workspace::walk::{Filter, Found, Walk, walk};

/// Where a search looks, as values that other threads can hold.
pub(crate) struct Scope {
    /// The folder or file that it starts at.
    pub(crate) start: RelPath,
    /// The one file that it starts at, if it does.
    pub(crate) single: Option<Found>,
    /// Which files the policy lets it show.
    pub(crate) may_read: Arc<dyn Fn(&RelPath) -> bool + Send + Sync>,
    /// The staged view.
    pub(crate) source: Source,
}

impl Scope {
    /// Resolves the start that a call declared.
    pub(crate) fn new(given: &Path, grant: &Grant, cx: &ToolContext<'_>) -> Result<Scope, ToolError> {
        let shown = names::shown(cx, given);
        let start = grant
            .readable(given)
            .ok_or_else(|| names::file_error(&WorkspaceError::NotGranted(given.into()), &shown))?
            .clone();
        let source = Source::new(cx.workspace);
        let single = match cx.workspace.look(&start.under(cx.workspace.root())) {
            Ok(Some(Node::Dir)) => None,
            Ok(Some(Node::File { .. })) => {
                names::check_not_hidden(cx, &start, &shown)?;
                let staged = cx.workspace.changes().staged(&start).and_then(|entry| match entry {
                    crate::change::Entry::File { content, .. } => Some(Arc::clone(content)),
                    crate::change::Entry::Absent | crate::change::Entry::Link { .. } => None,
                });
                Some(Found { path: start.clone(), staged })
            }
            Ok(Some(Node::Link(_) | Node::Other)) => {
                return Err(ToolError::failed(format!("Path is not a file or directory: {shown}")));
            }
            Ok(None) => return Err(ToolError::failed(format!("Path does not exist: {shown}"))),
            Err(cause) => return Err(ToolError::failed(format!("Cannot access {shown}: {cause}"))),
        };
        Ok(Scope { start, single, may_read: grant.read_filter(), source })
    }

    /// Walks the scope; a file that was named is found whatever the filter says of its name.
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

/// Runs blocking work on another thread, so that timers and Ctrl-C go on; dropping the future cancels it.
pub(crate) async fn in_background<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<T, ToolError> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let _guard = CancelOnDrop(Arc::clone(&cancelled));
    tokio::task::spawn_blocking(move || work(&cancelled))
        .await
        .map_err(|error| ToolError::failed(format!("the search ended early: {error}")))
}
