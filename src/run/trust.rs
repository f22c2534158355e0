//! Whether this checkout's own files count in a run, and from which commit they are read if not from the tree.

use std::path::Path;

use serde_json::Value;

use crate::exit::Exit;
use crate::policy::trust::{Circumstances, Trust};
use crate::settings::Environment;
use crate::workspace::trusted::{self, TrustedError, TrustedTree};

use super::Failure;

/// The largest event that is read.
const LARGEST_EVENT: u64 = 64 << 20;

/// Files of a checkout that need trust before anything of them is taken.
const SENSITIVE: [&str; 3] = [".qwen", ".mcp.json", ".env"];

/// What the flags say about trust.
#[derive(Debug, Clone, Default)]
pub struct TrustFlags {
    /// `--trusted-ref`.
    pub trusted_ref: Option<String>,
    /// `--trust-checkout`.
    pub trust_checkout: bool,
}

/// Whose files count.
#[derive(Debug, Clone)]
pub struct Trusted {
    /// The checkout's own files count as they lie there.
    pub checkout: bool,
    /// Files are read from this commit; those of the tree can only take away.
    pub tree: Option<TrustedTree>,
    /// Why nothing is trusted; empty where something is.
    pub why_not: String,
}

impl Trusted {
    /// Reads a text by its path below the repository's top folder, from where it is trusted: the trusted commit, or the
    /// trusted checkout. `None` where there is none, or where nothing is trusted. The name is for messages.
    pub fn read_text(&self, top: &Path, path: &str) -> Result<Option<(String, String)>, Failure> {
        if let Some(tree) = &self.tree {
            let text = tree.read_text(path).map_err(refused)?;
            return Ok(text.map(|text| (tree.name_of(path), text)));
        }
        if !self.checkout {
            return Ok(None);
        }
        match std::fs::read_to_string(top.join(path)) {
            Ok(text) => Ok(Some((path.to_owned(), text))),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(Failure::new(Exit::Config, format!("{path}: {error}"), "make it readable, or remove it")),
        }
    }

    /// Says in one line whose files count, for `doctor`.
    pub fn describe(&self) -> String {
        match (&self.tree, self.checkout) {
            (Some(tree), _) => format!("files of commit {} ({})", tree.commit, tree.why),
            (None, true) => "this checkout's files".to_owned(),
            (None, false) => format!("no file of this checkout: {}", self.why_not),
        }
    }

    /// Names what an untrusted checkout holds and nobody else names: settings and `.env` files are named by the loader
    /// of settings, the policy by the reader of policies.
    pub fn left_out(&self, top: &Path) -> Vec<String> {
        if self.checkout || self.tree.is_some() || !top.join(".mcp.json").is_file() {
            return Vec::new();
        }
        vec![".mcp.json left out: this checkout is not trusted (`qwen policy trust`, or --trust-checkout)".to_owned()]
    }
}

/// Finds out whose files count. A trusted commit that the clone lacks is an error: going on without it would be a guess.
pub fn find(
    flags: &TrustFlags,
    environment: &Environment,
    top: &Path,
    workspace: &Path,
    is_repository: bool,
    state: Option<&Path>,
) -> Result<Trusted, Failure> {
    let event_name = environment.value("GITHUB_EVENT_NAME");
    let event = match (&event_name, environment.value("GITHUB_EVENT_PATH")) {
        (Some(_), Some(path)) => read_event(&environment.cwd.join(path)),
        _ => None,
    };
    let trust_checkout = flags.trust_checkout || environment.is_on("QWEN_TRUST_CHECKOUT");
    let is_ci = environment.is_ci();
    let by_operator = trust_checkout || flags.trusted_ref.is_some() || is_ci || event_name.is_some();
    let circumstances = Circumstances {
        trust_checkout,
        trusted_ref: flags.trusted_ref.as_deref(),
        is_ci,
        event_name: event_name.as_deref(),
        event: event.as_ref(),
        is_approved: !by_operator && state.is_some_and(|state| is_approved(state, top, workspace)),
    };
    match circumstances.trust() {
        Trust::Checkout => Ok(Trusted { checkout: true, tree: None, why_not: String::new() }),
        Trust::Nothing { why } => Ok(Trusted { checkout: false, tree: None, why_not: why }),
        Trust::Ref(found) if !is_repository => {
            if flags.trusted_ref.is_some() {
                return Err(Failure::new(
                    Exit::Config,
                    format!("--trusted-ref {} and there is no repository", found.revision),
                    "run in a clone, or leave the flag out",
                ));
            }
            Ok(Trusted { checkout: false, tree: None, why_not: "there is no repository".to_owned() })
        }
        Trust::Ref(found) => {
            let tree = TrustedTree::find(top, &found.revision, &found.why).map_err(refused)?;
            Ok(Trusted { checkout: false, tree: Some(tree), why_not: String::new() })
        }
    }
}

fn refused(error: TrustedError) -> Failure {
    let hint = match &error {
        TrustedError::Missing { .. } => {
            "fetch-depth: 0 in actions/checkout fetches it (or `git fetch origin`); --trusted-ref names another one"
        }
        TrustedError::Unfit { .. } => "put a plain file there, in the trusted commit",
        TrustedError::Git(_) => "run `git status` there; it says what is wrong",
    };
    Failure::new(Exit::Config, error.to_string(), hint)
}

fn read_event(path: &Path) -> Option<Value> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST_EVENT {
        return None;
    }
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn is_approved(state: &Path, top: &Path, workspace: &Path) -> bool {
    let Some(approval) = trusted::read_approval(&trusted::approval_file(state, top)) else { return false };
    trusted::fingerprint(top, workspace).is_ok_and(|now| approval.changed(&now).is_empty())
}

/// Tells whether a checkout holds anything that trust is about.
pub fn is_concerned(top: &Path) -> bool {
    SENSITIVE.iter().any(|name| top.join(name).symlink_metadata().is_ok())
}
