//! Reads the policy that the input names from the trusted commit, so that a change under review cannot bring its own.

use std::path::{Path, PathBuf};

use super::error::{CiError, TrustedPolicyError};
use crate::base::private_file::{SECRET, replace};
use crate::path::RelPath;
use crate::run::Failure;
use crate::run::rules::trust::Trusted;

/// Returns what `--policy` is to be: a builtin as it is, a file outside of the checkout as it is there, a file of the
/// repository as the trusted commit has it, copied to `folder` with the policies next to it.
pub(super) fn find(named: &str, top: &Path, cwd: &Path, trusted: &Trusted, folder: &Path) -> Result<String, Failure> {
    if named.starts_with("builtin:") {
        return Ok(named.to_owned());
    }
    let path = Path::new(named);
    let inside = match path.is_absolute() {
        true => RelPath::below(top, path),
        // As the input says: relative to the repository, wherever the job works.
        false => RelPath::new(named),
    };
    let Some(inside) = inside else {
        return match path.is_absolute() {
            true => Ok(named.to_owned()),
            false => Err(TrustedPolicyError::Outside(named.to_owned()).into()),
        };
    };
    if trusted.checkout {
        return Ok(cwd.join(inside.under(top)).display().to_string());
    }
    let Some(tree) = &trusted.tree else {
        let why = trusted.why_not.clone();
        return Err(TrustedPolicyError::NoCommit { named: named.to_owned(), why }.into());
    };
    let failed = |cause| TrustedPolicyError::Unreadable { named: named.to_owned(), cause };
    let name = inside.to_string_lossy();
    if tree.read(&name).map_err(failed)?.is_none() {
        let why = tree.why.clone();
        return Err(TrustedPolicyError::Missing { named: named.to_owned(), why }.into());
    }
    // A policy may extend one that is next to it.
    let beside = inside.parent().filter(|parent| !parent.is_root()).map(|parent| parent.to_string_lossy());
    let mut names = match &beside {
        Some(parent) => tree.files_below(parent).map_err(failed)?,
        None => Vec::new(),
    };
    names.retain(|name| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)));
    names.push(name.clone());
    for name in &names {
        if let Some(bytes) = tree.read(name).map_err(failed)? {
            replace(&folder.join(name), &bytes, Some(SECRET)).map_err(|error| {
                let (path, cause) = (folder.display().to_string(), error.to_string());
                CiError::Result { path, cause }
            })?;
        }
    }
    Ok(PathBuf::from(folder).join(name).display().to_string())
}
