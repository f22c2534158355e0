//! Resolves where the path of a call leads: into the workspace, or into an included directory, where nothing is staged.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::names;
use crate::path::{Node, RelPath, Tree};
use crate::policy::Grant;
use crate::tools::{ToolContext, ToolError};
use crate::workspace::ignore::{Kind, Rules, Source};
use crate::workspace::{Workspace, WorkspaceError};

/// What a call named and may look at.
pub(crate) struct Location {
    /// What it is below: the workspace, or next to it the very directory (that of the file) that was named.
    pub(crate) root: PathBuf,
    /// Where it is, below the root.
    pub(crate) path: RelPath,
    /// The path as messages show it.
    pub(crate) shown: String,
    /// Whether it is next to the workspace.
    pub(crate) is_outside: bool,
}

impl Location {
    /// Finds what the call declared; what the grant does not name is refused.
    pub(crate) fn of(given: &Path, grant: &Grant, cx: &ToolContext<'_>) -> Result<Location, ToolError> {
        let shown = names::shown(cx, given);
        if let Some(path) = grant.readable(given) {
            let root = cx.workspace.root().to_path_buf();
            return Ok(Location { root, path: path.clone(), shown, is_outside: false });
        }
        let Some(outside) = grant.readable_outside(given) else {
            return Err(names::file_error(&WorkspaceError::NotGranted(given.into()), &shown));
        };
        let (root, path) = match (cx.workspace.look(outside), outside.parent(), outside.file_name()) {
            (Ok(Some(Node::Dir)), _, _) | (_, None, _) | (_, _, None) => (outside, RelPath::root()),
            (_, Some(folder), Some(name)) => (folder, RelPath::new(name).unwrap_or_default()),
        };
        Ok(Location { root: root.to_path_buf(), path, shown, is_outside: true })
    }

    /// Returns the absolute path, links followed.
    pub(crate) fn absolute(&self) -> PathBuf {
        self.path.under(&self.root)
    }

    /// Returns what is there in the staged view.
    pub(crate) fn look(&self, workspace: &Workspace) -> Result<Option<Node>, ToolError> {
        let cannot = |cause| ToolError::failed(format!("Cannot access {}: {cause}", self.shown));
        workspace.look(&self.absolute()).map_err(cannot)
    }

    /// Returns where its ignore files are read from.
    pub(crate) fn source(&self, workspace: &Workspace) -> Source {
        if self.is_outside { Source::beside(workspace, &self.root) } else { Source::new(workspace) }
    }

    /// Refuses a file that `.qwenignore` hides.
    pub(crate) fn check_not_hidden(&self, workspace: &Workspace) -> Result<(), ToolError> {
        match Rules::of_source(self.source(workspace)).of(&self.path, Kind::File).qwen {
            true => Err(names::hidden(&self.shown)),
            false => Ok(()),
        }
    }
}

/// Tells whether a call wants git's ignore rules kept: in its options of their own, or next to the other arguments.
pub(crate) fn respects_git(options: &Value, own: Option<bool>) -> bool {
    match options.get("respect_git_ignore") {
        Some(nested) => nested.as_bool(),
        None => own,
    }
    .unwrap_or(true)
}
