//! Decides which policy texts apply to this run, and who is responsible for each (docs/policy.md, "Policy layers and
//! trust").

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::bounded;
use crate::policy::decide::Facts;
use crate::policy::layers::{LayerText, Standing};
use crate::policy::{Policy, check};
use crate::workspace::disk::Disk;

use super::Failure;
use super::error::PolicyError;
use super::tool_lists::ToolLists;
use super::trust::{NamedFile, Trusted};

/// Where a repository keeps its policy.
const REPOSITORY: &str = ".qwen/policy.yaml";

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
    /// The machine's policy; `/etc/qwen/policy.yaml` except in tests.
    pub machine: &'a Path,
}

/// A policy, and warnings about its sources.
#[derive(Debug)]
pub struct Chosen {
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

impl Chosen {
    /// Runs the inline tests of every file, as each load does: a failing one is exit 52.
    pub fn require_tests(&self, facts: &Facts) -> Result<(), PolicyError> {
        for policy in &self.tested {
            check::require_tests(policy, facts).map_err(|error| PolicyError::Tests(error.into()))?;
        }
        Ok(())
    }
}

/// Reads and combines the layers. Every error is exit 52: nothing was sent.
pub fn choose(sources: &PolicySources<'_>) -> Result<Chosen, Failure> {
    let mut warnings = Vec::new();
    let repository = sources.top.join(REPOSITORY);
    let repository_text = in_checkout(sources.top, &repository)?;
    let trusted = sources.trusted;
    let trusted_text = match &trusted.tree {
        Some(_) => trusted.read_text(sources.top, REPOSITORY)?,
        None => None,
    };
    let mut narrowing = Vec::new();
    let (first, from_file) = match (sources.named, &trusted_text, &repository_text) {
        (Some(named), _, _) if named.starts_with("builtin:") => (named_layer(named, sources.cwd)?, false),
        (Some(named), _, _) => {
            let (text, of_tree) = named_file(named, sources)?;
            narrowing.extend(of_tree);
            (text, true)
        }
        (None, Some((name, text)), _) => (layer(name, text.clone(), Standing::Operator), true),
        (None, None, Some(text)) if trusted.checkout => (layer(REPOSITORY, text.clone(), Standing::Operator), true),
        (None, None, _) => {
            let name = match (sources.mode, sources.delivers) {
                // A delivery flag is the operator's decision, so the plain mode may deliver.
                (Some("default") | None, true) => "edit",
                (Some(mode), _) => mode,
                (None, false) => "default",
            };
            (builtin_layer(name)?, false)
        }
    };
    if from_file && !sources.lists.allowed.is_empty() {
        warnings.push("allowed tools have no effect with a policy file: write them into the file".to_owned());
    }
    warnings.extend(sources.lists.warnings());
    if let (Some(_), Some((name, text))) = (sources.named, &trusted_text) {
        narrowing.push(layer(name, text.clone(), Standing::Repository));
    }
    let same_as_trusted = |text: &String| trusted_text.as_ref().is_some_and(|(_, trusted)| trusted == text);
    if let Some(text) = repository_text.filter(|text| !same_as_trusted(text))
        && !(sources.named.is_none() && trusted.checkout)
    {
        match (&trusted_text, trusted.checkout) {
            (_, true) => {}
            (Some((name, _)), false) => {
                warnings.push(format!("policy: .qwen/policy.yaml of the tree only restricts; {name} applies"));
            }
            (None, false) => {
                warnings.push("policy: .qwen/policy.yaml only restricts (`qwen policy trust` widens it)".to_owned());
            }
        }
        narrowing.push(layer(REPOSITORY, text, Standing::Repository));
    }
    if let Some(mode) = sources.mode
        && (from_file || sources.named.is_some())
    {
        // In addition to a file a mode narrows and never adds; with a delivery flag the plain mode counts as `edit`.
        let name = if mode == "default" && sources.delivers { "edit" } else { mode };
        narrowing.push(builtin_layer(name)?);
    }
    if let Some(text) = machine_policy(sources.machine)? {
        narrowing.push(layer(&sources.machine.display().to_string(), text, Standing::Operator));
    }
    let files: Vec<String> = [sources.named.filter(|named| !named.starts_with("builtin:")).map(str::to_owned)]
        .into_iter()
        .flatten()
        .chain(trusted_text.iter().map(|(name, _)| name.clone()))
        .chain([first.name.clone()].into_iter().filter(|_| from_file))
        .chain([REPOSITORY.to_owned(), sources.machine.display().to_string()])
        .collect();
    let base = match sources.named {
        Some(named) if !named.starts_with("builtin:") => {
            sources.cwd.join(named).parent().map(Path::to_path_buf).unwrap_or_default()
        }
        Some(_) | None => sources.top.join(".qwen"),
    };
    let parents = |name: &str| trusted.named_text(sources.top, &base.join(name));
    let policy = Policy::new(&first, &narrowing, &parents).map_err(|error| PolicyError::Layers(error.into()))?;
    let policy = sources.lists.apply(&policy).for_workspace(&Disk, sources.top);
    let open = LayerText::builtin("open").expect("it is a built-in policy");
    let alone = |text: &LayerText| match text.name == sources.machine.display().to_string() {
        // The machine's policy only ever narrows: alone it would allow nothing.
        true => Policy::new(&open, std::slice::from_ref(text), &parents),
        false => Policy::new(text, &[], &parents),
    };
    let is_file = |text: &&LayerText| files.contains(&text.name);
    let tested: Result<Vec<Policy>, _> = std::iter::once(&first).chain(&narrowing).filter(is_file).map(alone).collect();
    let tested = tested.map_err(|error| PolicyError::Alone(error.into()))?;
    Ok(Chosen { policy, warnings, from_file, tested, folder: base })
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
    bounded::optional(bounded::text_below(top, path, bounded::CONFIG))
        .map_err(|cause| PolicyError::Checkout { path: path.display().to_string(), cause })
}
