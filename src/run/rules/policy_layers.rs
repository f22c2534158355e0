//! Decides which policy texts apply to this run, and who is responsible for each (docs/reference/policy.md, "Policy layers and
//! trust").

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::bounded;
use crate::policy::Facts;
use crate::policy::choose::{Candidates, REPOSITORY, Selection};
use crate::policy::layers::{LayerError, LayerText, Parents, Standing};
use crate::policy::lists::ToolLists;
use crate::policy::own_files;
use crate::policy::{Policy, check};
use crate::workspace::disk::Disk;

use crate::run::error::Failure;
use crate::run::error::PolicyError;
use crate::run::rules::trust::{NamedFile, Trusted};

/// What the flags, the environment and the repository say about the policy.
pub struct PolicySources<'a> {
    /// `--policy`, else `QWEN_POLICY`: a file or `builtin:NAME`.
    pub named: Option<&'a str>,
    /// The built-in policy of `--approval-mode` or `--yolo`.
    pub mode: Option<&'static str>,
    /// Whether `--apply`, `--commit` or `--branch` was given.
    pub delivers: bool,
    /// Lists of tools that the flags and settings name.
    pub lists: &'a ToolLists,
    /// The directory in which relative names are looked up.
    pub cwd: &'a Path,
    /// The repository's top directory, else the workspace.
    pub top: &'a Path,
    /// Which files of the checkout are trusted.
    pub trusted: &'a Trusted,
    /// The machine's policy: [`machine`] except in tests.
    pub machine: &'a Path,
}

/// Returns where the machine's policy is.
pub fn machine() -> &'static Path {
    Path::new("/etc/qwen/policy.yaml")
}

/// A policy, and warnings about its sources.
#[derive(Debug, Clone)]
pub struct PolicySelection {
    /// The policy.
    pub policy: Policy,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Whether the granting layer is a file (then a mode only narrows).
    pub from_file: bool,
    /// The directory in which files that it names are looked up.
    pub folder: PathBuf,
    /// Each file with inline tests as a policy of its own, so that a narrowing flag cannot make a test fail.
    tested: Vec<Policy>,
}

impl PolicySelection {
    /// Runs the inline tests of every file, as each load does: a failing one is exit 52.
    pub fn require_tests(&self, facts: &Facts) -> Result<(), PolicyError> {
        for policy in &self.tested {
            check::require_tests(policy, facts).map_err(|error| PolicyError::Tests(error.into()))?;
        }
        Ok(())
    }
}

/// Reads and combines the layers. Every error is exit 52: nothing was sent.
pub fn choose(sources: &PolicySources<'_>) -> Result<PolicySelection, Failure> {
    let trusted = sources.trusted;
    let (named, named_in_tree) = match sources.named {
        Some(named) if named.starts_with("builtin:") => (Some(named_layer(named, sources.cwd)?), None),
        Some(named) => named_file(named, sources).map(|(text, in_tree)| (Some(text), in_tree))?,
        None => (None, None),
    };
    let (machine, names_changed) = (sources.machine.display().to_string(), named_in_tree.is_some());
    let committed = match &trusted.tree {
        Some(_) => trusted.read_text(sources.top, REPOSITORY)?,
        None => None,
    };
    let candidates = Candidates {
        named,
        named_in_tree,
        trusted: committed.map(|(name, text)| layer(&name, text, Standing::Operator)),
        in_tree: in_checkout(sources.top, &sources.top.join(REPOSITORY))?,
        trusts_tree: trusted.checkout,
        machine: machine_policy(sources.machine)?.map(|text| layer(&machine, text, Standing::Operator)),
        mode: sources.mode,
        delivers: sources.delivers,
    };
    let Selection { first, narrowing, warnings: narrowed } =
        candidates.choose().map_err(|mode| PolicyError::NotBuiltin(mode.to_owned()))?;
    let mut warnings = Vec::new();
    if first.is_file() && !sources.lists.allowed.is_empty() {
        warnings.push("allowed tools have no effect with a policy file: write them into the file".to_owned());
    }
    warnings.extend(sources.lists.warnings().into_iter().chain(narrowed));
    let folder = match sources.named {
        Some(named) if !named.starts_with("builtin:") => {
            sources.cwd.join(named).parent().map(Path::to_path_buf).unwrap_or_default()
        }
        Some(_) | None => sources.top.join(".qwen"),
    };
    let of_tree = if names_changed { folder.clone() } else { sources.top.join(".qwen") };
    let is_foreign = !trusted.checkout && trusted.tree.is_none() && folder.starts_with(sources.top);
    let in_tree = |folder: &Path, name: &str| {
        own_files::text(sources.top, &folder.join(name), bounded::CONFIG).map_err(|error| error.to_string())
    };
    let parents = |standing: Standing, name: &str| match standing {
        Standing::Operator if !is_foreign => trusted.named_text(sources.top, &folder.join(name)),
        Standing::Operator => in_tree(&folder, name),
        Standing::Repository => in_tree(&of_tree, name),
    };
    let policy = Policy::new(&first, &narrowing, &parents).map_err(|error| PolicyError::Layers(error.into()))?;
    let policy = sources.lists.apply(&policy).for_workspace(&Disk, sources.top);
    let files = std::iter::once(&first).chain(&narrowing).filter(|text| text.is_file());
    let tested: Result<Vec<Policy>, _> = files.map(|text| alone(text, &machine, &parents)).collect();
    let tested = tested.map_err(|error| PolicyError::Alone(error.into()))?;
    let from_file = first.is_file();
    Ok(PolicySelection { policy, warnings, from_file, tested, folder })
}

/// Makes a policy of one file, for its tests: they say what it does where it grants, as `qwen policy test` does.
fn alone(text: &LayerText, machine: &str, parents: Parents<'_>) -> Result<Policy, LayerError> {
    if text.name == machine {
        // The machine's policy only ever narrows: alone it would allow nothing.
        let open = LayerText::builtin("open").expect("it is a built-in policy");
        return Policy::new(&open, std::slice::from_ref(text), parents);
    }
    match text.standing {
        Standing::Operator => Policy::new(text, &[], parents),
        Standing::Repository => {
            let granting = LayerText { standing: Standing::Operator, ..text.clone() };
            // On a repository's word no file is read as an operator's is.
            Policy::new(&granting, &[], &|_, name: &str| parents(Standing::Repository, name))
        }
    }
}

/// Reads a file that a flag or variable names. A file of a checkout under review is read from the trusted commit; if
/// the tree's version differs it narrows in addition.
fn named_file(named: &str, sources: &PolicySources<'_>) -> Result<(LayerText, Option<LayerText>), Failure> {
    let path = sources.cwd.join(named);
    let below = match sources.trusted.named(sources.top, &path) {
        Ok(NamedFile::OnDisk) => return Ok((named_layer(named, sources.cwd)?, None)),
        Ok(NamedFile::InCommit(below)) => below,
        Err(why) => {
            return Err(PolicyError::Untrusted { named: named.to_owned(), why }.into());
        }
    };
    let Some((name, text)) = sources.trusted.read_text(sources.top, &below)? else {
        return Err(PolicyError::NotCommitted(named.to_owned()).into());
    };
    let of_tree = in_checkout(sources.top, &path)?.filter(|of_tree| *of_tree != text);
    let of_tree = of_tree.map(|text| layer(named, text, Standing::Repository));
    Ok((layer(&name, text, Standing::Operator), of_tree))
}

/// Reads a policy that a flag or variable names.
pub fn named_layer(named: &str, cwd: &Path) -> Result<LayerText, PolicyError> {
    if let Some(name) = named.strip_prefix("builtin:") {
        return builtin_layer(name);
    }
    let path = cwd.join(named);
    match bounded::named_text(&path, bounded::CONFIG) {
        Ok(text) => Ok(layer(named, text, Standing::Operator)),
        Err(cause) => Err(PolicyError::Unreadable { named: named.to_owned(), cause }),
    }
}

fn builtin_layer(name: &str) -> Result<LayerText, PolicyError> {
    LayerText::builtin(name).ok_or_else(|| PolicyError::NotBuiltin(name.to_owned()))
}

fn layer(name: &str, text: String, standing: Standing) -> LayerText {
    LayerText { name: name.to_owned(), text, standing }
}

/// Reads the machine's policy. Its author could do anything here, so only root may be able to write it.
fn machine_policy(path: &Path) -> Result<Option<String>, PolicyError> {
    let shown = || path.display().to_string();
    let unreadable = |cause| PolicyError::Machine { path: shown(), cause };
    // An existing policy that cannot be read must not count as missing.
    let text = bounded::optional(bounded::regular_text(path, bounded::CONFIG)).map_err(unreadable)?;
    let Some(text) = text else { return Ok(None) };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if metadata.uid() != 0 || metadata.permissions().mode() & 0o022 != 0 {
        return Err(PolicyError::MachineOwner(shown()));
    }
    Ok(Some(text))
}

fn in_checkout(top: &Path, path: &Path) -> Result<Option<String>, PolicyError> {
    bounded::optional(own_files::text(top, path, bounded::CONFIG))
        .map_err(|cause| PolicyError::Checkout { path: path.display().to_string(), cause })
}
