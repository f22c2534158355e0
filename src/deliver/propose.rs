//! What a dry run proposed, read back from its result or its patch: the change set that `qwen apply` judges and delivers.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use serde_json::Value;

use super::folder::Folder;
use super::{DeliverError, Site};
use crate::change::patch::{ObjectFormat, name_in_repository, sha256};
use crate::change::patch_reader::{Patch, PatchError};
use crate::change::{ChangeSet, Entry, diff};
use crate::path::RelPath;

/// A proposed change, not yet compared with the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposal {
    /// The patch.
    pub patch: Vec<u8>,
    /// The commit it was made for; `None` where the result names none, or only a patch is given.
    pub base: Option<String>,
    /// The digests of the files before, where a result names them.
    pub befores: BTreeMap<String, Option<String>>,
}

/// What must be as the dry run found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// HEAD is the commit of the proposal.
    SameCommit,
    /// The files that the patch touches have the contents it was made for; HEAD may have moved.
    SameFiles,
}

impl Proposal {
    /// Reads a result object, the output of `json` or `stream-json`, or a patch.
    ///
    /// `digest` is the patch's digest as it came by another way; the result's own is compared as well.
    pub fn read(input: &[u8], digest: Option<&str>) -> Result<Proposal, DeliverError> {
        let damaged = |what: &str| {
            DeliverError::conflict(what.to_owned(), "give the result or the patch of a dry run as it was written")
        };
        let proposal = match input.trim_ascii_start().first() {
            Some(b'{' | b'[') => {
                let result = result_object(input).ok_or_else(|| damaged("no result object found in it"))?;
                let changes = result.get("changes").ok_or_else(|| damaged("the result names no changes"))?;
                let text = |key: &str| changes.get(key).and_then(Value::as_str);
                let patch = match (text("patch"), text("patch_base64")) {
                    (Some(patch), _) => patch.as_bytes().to_vec(),
                    (None, Some(patch)) => base64::engine::general_purpose::STANDARD
                        .decode(patch)
                        .map_err(|_| damaged("`patch_base64` is damaged"))?,
                    (None, None) if text("patch_sha256").is_none() => Vec::new(),
                    (None, None) => {
                        return Err(damaged("the result names a patch that is not in it; give the patch file"));
                    }
                };
                if text("patch_sha256").is_some_and(|named| named != sha256(&patch)) {
                    return Err(damaged("the patch is not the one that the result's digest names"));
                }
                let files = changes.get("files").and_then(Value::as_array).into_iter().flatten();
                let befores = files.filter_map(|file| {
                    let digest = file.get("sha256_before").and_then(Value::as_str).map(str::to_owned);
                    Some((file.get("path")?.as_str()?.to_owned(), digest))
                });
                Proposal { patch, base: text("base").map(str::to_owned), befores: befores.collect() }
            }
            Some(_) | None => Proposal { patch: input.to_vec(), ..Proposal::default() },
        };
        match digest {
            Some(digest) if !digest.eq_ignore_ascii_case(&sha256(&proposal.patch)) => {
                Err(damaged("the patch is not the one whose digest was handed over"))
            }
            Some(_) | None => Ok(proposal),
        }
    }

    /// Compares the proposal with the files and returns the changes; nothing is written.
    pub fn changes(&self, base: Base, site: &Site<'_>) -> Result<ChangeSet, DeliverError> {
        let head = site.repository.and_then(|repository| repository.head.as_ref());
        if base == Base::SameCommit && self.base.is_some() && self.base.as_ref() != head {
            return Err(DeliverError::conflict(
                format!(
                    "the change was made for {}, HEAD is {}",
                    self.base.as_deref().unwrap_or("nothing"),
                    head.map_or("unborn", String::as_str)
                ),
                "run again on the commit as it is now",
            ));
        }
        let nowhere = RelPath::root();
        let prefix = site.repository.map_or(&nowhere, |repository| &repository.prefix);
        let format = site.repository.map_or(ObjectFormat::Sha1, |repository| repository.format);
        let unfit =
            |error: PatchError| DeliverError::conflict(error.to_string(), "run again on the files as they are now");
        let root = Folder::root(site.root).map_err(|error| DeliverError::io(site.root.display(), &error))?;
        let look = |name: &RelPath| {
            let mismatch = |reason: String| PatchError::Mismatch { path: name.clone(), reason };
            let path = below(prefix, name).ok_or_else(|| mismatch(format!("it lies outside {prefix}")))?;
            root.entry_at(&path).map_err(|error| mismatch(error.to_string()))
        };
        let by_name = Patch::parse(&self.patch).and_then(|patch| patch.apply(&look, format)).map_err(unfit)?;

        let mut changes = ChangeSet::default();
        for (name, change) in by_name.iter() {
            let path = below(prefix, name).expect("every name was looked up below the prefix");
            if let Some(named) =
                self.befores.get(&String::from_utf8_lossy(&name_in_repository(prefix, &path)).into_owned())
            {
                let found = (change.before != Entry::Absent).then(|| sha256(diff::text_of(&change.before)));
                if *named != found {
                    return Err(unfit(PatchError::Mismatch {
                        path: name.clone(),
                        reason: "its bytes are not those that the change was made for".to_owned(),
                    }));
                }
            }
            changes.stage(path, || change.before.clone(), change.after.clone());
        }
        Ok(changes)
    }
}

/// Takes the folder of the workspace off a name of the repository.
fn below(prefix: &RelPath, name: &RelPath) -> Option<RelPath> {
    RelPath::below(&Path::new("/").join(prefix.as_path()), &Path::new("/").join(name.as_path()))
        .filter(|path| !path.is_root())
}

/// Finds the result in an object, in an array of messages, or in one message a line.
fn result_object(input: &[u8]) -> Option<Value> {
    let is_result = |value: &Value| value.get("type").is_some_and(|kind| kind == "result");
    match serde_json::from_slice(input) {
        Ok(Value::Array(messages)) => messages.into_iter().rev().find(is_result),
        Ok(value) => is_result(&value).then_some(value),
        Err(_) => {
            let lines = input.split(|byte| *byte == b'\n').rev().filter(|line| !line.trim_ascii().is_empty());
            lines.map_while(|line| serde_json::from_slice(line).ok()).find(is_result)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::Project;
    use super::*;
    use crate::change::patch;

    fn result(patch: &str, base: Option<&str>) -> Value {
        serde_json::json!({"type": "result", "changes": {
            "base": base, "patch": patch, "patch_sha256": sha256(patch.as_bytes()),
            "files": [{"path": "a", "sha256_before": sha256(b"1\n")}],
        }})
    }

    fn proposed(project: &Project) -> (ChangeSet, String) {
        let changes = project.changes(&[("a", Entry::file("2\n")), ("d/new", Entry::file(""))]);
        let patch = patch::print(&changes, &RelPath::root(), ObjectFormat::Sha1);
        (changes, String::from_utf8(patch).unwrap())
    }

    #[test]
    fn every_form_of_a_proposal_gives_the_change_set_of_the_run() {
        let project = Project::new().file("a", "1\n");
        let (changes, patch) = proposed(&project);
        let result = result(&patch, None);
        let forms = [
            patch.clone(),
            result.to_string(),
            serde_json::json!([{"type": "system"}, result]).to_string(),
            format!("{{\"type\":\"system\"}}\n{result}\n"),
        ];
        for form in forms {
            let proposal = Proposal::read(form.as_bytes(), Some(&sha256(patch.as_bytes()))).unwrap();
            assert_eq!(proposal.changes(Base::SameCommit, &project.site()).unwrap(), changes);
        }
    }

    #[test]
    fn a_tampered_proposal_is_a_conflict() {
        let project = Project::new().file("a", "1\n");
        let (_, patch) = proposed(&project);
        let mut other = result(&patch, None);
        other["changes"]["patch"] = Value::from(patch.replace("+2", "+3"));
        assert!(Proposal::read(other.to_string().as_bytes(), None).is_err());
        // Patch and result both changed: the digest that came by another way tells.
        let both = result(&patch.replace("+2", "+3"), None);
        assert!(Proposal::read(both.to_string().as_bytes(), None).is_ok());
        assert!(Proposal::read(both.to_string().as_bytes(), Some(&sha256(patch.as_bytes()))).is_err());
        assert!(Proposal::read(b"{\"type\":\"assistant\"}", None).is_err());
    }

    #[test]
    fn a_moved_base_is_a_conflict_that_names_both() {
        let project = Project::new().file("a", "1\n");
        let (_, patch) = proposed(&project);
        let proposal = Proposal::read(result(&patch, Some("c0ffee")).to_string().as_bytes(), None).unwrap();
        let error = proposal.changes(Base::SameCommit, &project.site()).unwrap_err();
        assert_eq!(error.to_string(), "the change was made for c0ffee, HEAD is unborn");
        assert!(proposal.changes(Base::SameFiles, &project.site()).is_ok());
        let project = project.file("a", "1\nmore\n");
        assert!(proposal.changes(Base::SameFiles, &project.site()).is_err());
    }
}
