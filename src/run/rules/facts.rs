//! Collects the facts that the policy decides by.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::git::drivers::drivers;
use crate::git::history;
use crate::git::repository::Repository;
use crate::policy::{Facts, GitFacts, History};
use crate::workspace::Workspace;

/// How long to search a repository for files that must not be read; after that it counts as containing some.
const HISTORY_TIME: Duration = Duration::from_secs(2);

/// Returns the git facts for decisions; the history is searched when the first decision needs it.
pub fn git_facts(repository: &Repository) -> GitFacts {
    let found = repository.clone();
    let find = move || history::files(&found, Instant::now() + HISTORY_TIME).map_err(|error| error.to_string());
    GitFacts { drivers: drivers(repository), history: History::new(repository.prefix.clone(), find) }
}

/// Returns the facts for decisions.
pub fn facts(
    stage_workspace: &Arc<Workspace>,
    setup_home: String,
    outputs: PathBuf,
    included: Vec<PathBuf>,
    git: GitFacts,
) -> Facts {
    Facts {
        root: stage_workspace.root().to_path_buf(),
        included,
        outputs: Some(outputs),
        home: setup_home,
        tree: Arc::clone(stage_workspace) as Arc<dyn crate::path::Tree>,
        git,
    }
}
