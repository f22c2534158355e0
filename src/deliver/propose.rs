//! Reads back what a dry run proposed, from its result or its patch, as the change set that `qwen apply` delivers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use serde_json::Value;

use super::delivery::Site;
use super::error::{DeliverError, from_repository};
use crate::base::digest::sha256;
use crate::base::embedded;
use crate::change::merge::merge;
use crate::change::patch::ObjectFormat;
use crate::change::patch_reader::{Body, FilePatch, First, Patch, PatchError, PathAccess};
use crate::change::selection::{self, Choice, Numbered, SelectionError};
use crate::change::{ChangeSet, Entry, diff};
use crate::git::attributes::Conversions;
use crate::path::RelPath;
use crate::policy::glob::Glob;
use crate::workspace::folder::Folder;

/// A proposed change, not yet compared with the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposal {
    /// The patch.
    pub patch: Vec<u8>,
    /// The commit it was made for; `None` where the result names none, or only a patch is given.
    pub base: Option<String>,
    /// The digests of the files before, where a result names them.
    pub befores: BTreeMap<String, Option<String>>,
    /// The digests of the files after, where a result names them.
    afters: BTreeMap<String, String>,
    /// The commands of the checks that the run made, each once.
    pub checks: Vec<String>,
    /// The hunks to apply; `None`: all of them.
    chosen: Option<Patch>,
}

/// Which hunks of a proposal are wanted: those of the list and those of the files.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// A list as [`Choice::parse`] reads it.
    pub hunks: Option<String>,
    /// Relative to the workspace.
    pub(crate) files: Vec<Glob>,
}

/// Which hunks of a proposal are applied.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Chosen {
    /// The numbers: `1`, or `2.1` for one run of changed lines.
    pub hunks: Vec<String>,
    /// How many hunks that is, parts of hunks included.
    #[serde(skip)]
    pub number: usize,
    /// Hunks of the whole proposal.
    pub of: usize,
}

impl Proposal {
    /// Reads a result object, the output of `json` or `stream-json`, a review page, or a patch.
    ///
    /// `digest` is the patch's digest from another source; the result's own is compared as well.
    pub fn read(input: &[u8], digest: Option<&str>) -> Result<Proposal, DeliverError> {
        let damaged = |what: &str| {
            DeliverError::conflict(what.to_owned(), "give the result or the patch of a dry run, unchanged")
        };
        let input = match embedded::is_page(input) {
            true => embedded::json_of(input).ok_or_else(|| damaged("the page is not a review page of qwen"))?,
            false => input,
        };
        let proposal = match input.trim_ascii_start().first() {
            Some(b'{' | b'[') => {
                let result = result_object(input).ok_or_else(|| damaged("no result object found"))?;
                let changes = result.get("changes").ok_or_else(|| damaged("the result has no changes"))?;
                let text = |key: &str| changes.get(key).and_then(Value::as_str);
                let patch = match (text("patch"), text("patch_base64")) {
                    (Some(patch), _) => patch.as_bytes().to_vec(),
                    (None, Some(patch)) => base64::engine::general_purpose::STANDARD
                        .decode(patch)
                        .map_err(|_| damaged("`patch_base64` is damaged"))?,
                    (None, None) if text("patch_sha256").is_none() => Vec::new(),
                    (None, None) => {
                        return Err(damaged("the result refers to a patch file; give that file"));
                    }
                };
                if text("patch_sha256").is_some_and(|named| named != sha256(&patch)) {
                    return Err(damaged("the digest of the patch differs from that in the result"));
                }
                let files = changes.get("files").and_then(Value::as_array).into_iter().flatten();
                let text_of = |file: &Value, key: &str| file.get(key).and_then(Value::as_str).map(str::to_owned);
                let digests =
                    |key| files.clone().filter_map(move |file| Some((text_of(file, "path")?, text_of(file, key))));
                let afters = digests("sha256_after").filter_map(|(path, digest)| Some((path, digest?))).collect();
                let checks = result.get("verify").and_then(Value::as_array).into_iter().flatten();
                let mut checks: Vec<String> =
                    checks.filter_map(|check| Some(check.get("command")?.as_str()?.to_owned())).collect();
                let mut seen = BTreeSet::new();
                checks.retain(|check| seen.insert(check.clone()));
                Proposal {
                    patch,
                    base: text("base").map(str::to_owned),
                    befores: digests("sha256_before").collect(),
                    afters,
                    checks,
                    chosen: None,
                }
            }
            Some(_) | None => Proposal { patch: input.to_vec(), ..Proposal::default() },
        };
        match digest {
            Some(digest) if !digest.eq_ignore_ascii_case(&sha256(&proposal.patch)) => {
                Err(damaged("the digest of the patch is not the given one"))
            }
            Some(_) | None => Ok(proposal),
        }
    }

    /// Leaves out the hunks that are not wanted.
    pub fn choose(&mut self, wanted: &Wanted, site: &Site<'_>) -> Result<Chosen, DeliverError> {
        let (patch, prefix) = (self.parsed()?, prefix_of(site));
        let all = selection::numbered(&patch);
        let mut choice = match &wanted.hunks {
            Some(list) => Choice::parse(list, all.len())?,
            None => Choice::default(),
        };
        for glob in &wanted.files {
            let is_match = |hunk: &&Numbered| {
                hunk.path(&patch)
                    .and_then(|name| below(&prefix, name))
                    .is_some_and(|path| glob.is_match(&path.to_string_lossy()))
            };
            let before = all.iter().filter(is_match).map(|hunk| choice.add(hunk.number)).count();
            if before == 0 {
                return Err(SelectionError::NoFile { glob: glob.text().to_owned(), of: all.len() }.into());
            }
        }
        self.chosen = Some(selection::select(&patch, &choice)?);
        Ok(Chosen { hunks: choice.names(), number: choice.len(), of: all.len() })
    }

    /// Returns what the patch does; what is not chosen is left out.
    pub fn parsed(&self) -> Result<Patch, DeliverError> {
        if let Some(chosen) = &self.chosen {
            return Ok(chosen.clone());
        }
        Patch::parse(&self.patch).map_err(|error| DeliverError::Input {
            message: error.to_string(),
            hint: "give the whole patch, as `git diff` or `qwen run -o patch` wrote it".to_owned(),
        })
    }

    /// Returns what the patch reads from and writes to below the workspace, without looking at files.
    ///
    /// Names outside the workspace are left out: [`Proposal::changes`] refuses them.
    pub fn accesses(&self, site: &Site<'_>) -> Result<Vec<PathAccess>, DeliverError> {
        let patch = self.parsed()?;
        let prefix = prefix_of(site);
        let below = |access| match access {
            PathAccess::Read(name) => below(&prefix, &name).map(PathAccess::Read),
            PathAccess::Write(name) => below(&prefix, &name).map(PathAccess::Write),
        };
        Ok(patch.accesses().into_iter().filter_map(below).collect())
    }

    /// Compares the proposal with the files and returns the changes, without writing anything. HEAD must be the commit of
    /// the proposal, if it names one.
    pub fn changes(&self, site: &Site<'_>) -> Result<ChangeSet, DeliverError> {
        let head = site.repository.and_then(|repository| repository.head.as_ref());
        if self.base.is_some() && self.base.as_ref() != head {
            return Err(DeliverError::conflict(
                format!(
                    "the change was made for {}, HEAD is {}",
                    self.base.as_deref().unwrap_or("nothing"),
                    head.map_or("unborn", String::as_str)
                ),
                "run again on the current commit",
            ));
        }
        let exactly = |file: &FilePatch, found: &Found<'_>, first: First| self.exactly(file, found, first, site);
        self.by(&ChangeSet::default(), site, &exactly, &|file, _, _| Err(file.mismatch("it already exists")))
    }

    /// As [`Proposal::changes`], but merges later changes if both do not touch the same lines. Also returns the merged
    /// files.
    pub fn merged(&self, site: &Site<'_>) -> Result<(ChangeSet, Vec<RelPath>), DeliverError> {
        self.merged_over(&ChangeSet::default(), site)
    }

    /// As [`Proposal::merged`], onto the files as earlier changes leave them.
    pub fn merged_over(&self, earlier: &ChangeSet, site: &Site<'_>) -> Result<(ChangeSet, Vec<RelPath>), DeliverError> {
        let (merged, applied) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let settle = |file: &FilePatch, found: &Found<'_>, first: First| {
            let refused = match self.exactly(file, found, first, site) {
                Ok(after) => return Ok(after),
                Err(refused) => refused,
            };
            let after = self.by_merging(file, found, refused, site).or_else(|refused| {
                if !file.is_applied(&found.kept) {
                    return Err(refused);
                }
                applied.borrow_mut().push(refused);
                Ok(found.kept.clone())
            })?;
            merged.borrow_mut().extend(file.old.clone().or_else(|| file.new.clone()));
            Ok(after)
        };
        let there = |file: &FilePatch, found: &Entry, after: &Entry| match found == after {
            true => Ok(()),
            false => Err(file.mismatch("the new file cannot be made: another one already exists")),
        };
        let changes = self.by(earlier, site, &settle, &there)?;
        // All of it is applied already, or a part of it does not fit.
        let applied = applied.into_inner();
        if !applied.is_empty() && changes.iter().next().is_some() {
            return Err(unfit(&applied));
        }
        Ok((changes, merged.into_inner()))
    }

    fn by(
        &self,
        earlier: &ChangeSet,
        site: &Site<'_>,
        settle: &Settle<'_>,
        there: &dyn Fn(&FilePatch, &Entry, &Entry) -> Result<(), PatchError>,
    ) -> Result<ChangeSet, DeliverError> {
        let prefix = prefix_of(site);
        let placed = |name: &RelPath| below(&prefix, name);
        let root = Folder::root(site.root).map_err(|error| DeliverError::io(site.root.display(), &error))?;
        let look = |name: &RelPath| {
            let mismatch = |reason: String| PatchError::Mismatch { path: name.clone(), reason };
            let path = below(&prefix, name).ok_or_else(|| mismatch(format!("it is outside {prefix}")))?;
            match earlier.staged(&path) {
                Some(staged) => Ok(staged.clone()),
                None => root.entry_at(&path).map_err(|error| mismatch(error.to_string())),
            }
        };
        let patch = self.parsed()?;
        let conversions = conversions(&patch, &look, site)?;
        let settle = |file: &FilePatch, tree: &Entry, first: First| {
            self.written((file, tree, first), conversions.as_ref(), site, settle)
        };
        let by_name = patch.apply_by(&look, &settle, there).map_err(|refused| unfit(&refused))?;
        let mut changes = ChangeSet::default();
        for (name, change) in by_name.iter() {
            let path = below(&prefix, name).expect("every name was looked up below the prefix");
            changes.stage(path, || change.before.clone(), change.after.clone());
        }
        // A file that comes from another one gets no rights that that one does not have.
        for file in patch.files.iter().filter(|file| file.takes_from_elsewhere()) {
            let (Some(old), Some(new)) = (file.old.as_ref().and_then(placed), file.new.as_ref().and_then(placed))
            else {
                continue;
            };
            let there = root.parent_of(&old).and_then(|(parent, name)| parent.mode_of(name)).unwrap_or_default();
            let earlier = [changes.limit_of(&old), earlier.limit_of(&old)];
            let all = there.into_iter().chain(earlier.into_iter().flatten());
            if let Some(rights) = all.reduce(|one, other| one & other) {
                changes.limit(&new, rights);
            }
        }
        Ok(changes)
    }

    /// Returns a file as `settle` makes it, with the bytes of the work tree.
    fn written(
        &self,
        (file, tree, first): (&FilePatch, &Entry, First),
        conversions: Option<&Conversions<'_>>,
        site: &Site<'_>,
        settle: &Settle<'_>,
    ) -> Result<Entry, PatchError> {
        let has_ends = file.has_line_ends_of_git(tree, format_of(site));
        let is_converted = |conversions: &Conversions<'_>, name: &RelPath| {
            conversions.covers(name.as_bytes()) || has_ends && conversions.covers_ends(name.as_bytes())
        };
        let convert = |name: &Option<RelPath>, entry: &Entry, out: bool| match (conversions, name) {
            (Some(conversions), Some(name)) if is_converted(conversions, name) => match out {
                // A content that is not in its declared encoding is compared as it is, as git does.
                false => Ok(conversions.kept(name.as_bytes(), entry).unwrap_or_else(|_| entry.clone())),
                true => {
                    conversions.checked_out(name.as_bytes(), entry).map_err(|error| file.mismatch(error.to_string()))
                }
            },
            _ => Ok(entry.clone()),
        };
        let found = Found { tree, kept: convert(&file.old, tree, false)? };
        let after = settle(file, &found, first)?;
        let written = match after == found.kept && file.old == file.new {
            true => tree.clone(),
            false => convert(&file.new, &after, true)?,
        };
        let expands = |name: &RelPath| conversions.is_some_and(|all| all.expands_id(name.as_bytes(), &after));
        let expanded = file.new.as_ref().is_some_and(expands).then(|| written.clone());
        let made = self.as_made(file, tree, first, [written, after], format_of(site));
        // An expanded `$Id` names the stored content, which no run knows.
        made.or_else(|refused| expanded.ok_or(refused))
    }

    /// Returns the first of these contents; but where a result names the digest of the new one, and the old one is what
    /// its run found, the one with that digest.
    fn as_made(
        &self,
        file: &FilePatch,
        tree: &Entry,
        first: First,
        [written, as_patched]: [Entry; 2],
        format: ObjectFormat,
    ) -> Result<Entry, PatchError> {
        let digest = |entry: &Entry| (*entry != Entry::Absent).then(|| sha256(diff::text_of(entry)));
        let name =
            |path: &Option<RelPath>| path.as_ref().map(|path| String::from_utf8_lossy(path.as_bytes()).into_owned());
        let is_as_found = match name(&file.old) {
            Some(old) => first == First::Yes && self.befores.get(&old).is_some_and(|named| *named == digest(tree)),
            None => true,
        };
        let after = name(&file.new).and_then(|name| self.afters.get(&name));
        let Some(named) = after.filter(|_| is_as_found && self.chosen.is_none()) else { return Ok(written) };
        let as_it_is = file.exactly(tree, format).ok();
        let mut contents = [written, as_patched].into_iter().chain(as_it_is);
        contents.find(|content| digest(content).as_ref() == Some(named)).ok_or_else(|| {
            file.mismatch("its new content would not be the one that the run made; see which attributes and settings of git convert it")
        })
    }

    fn exactly(
        &self,
        file: &FilePatch,
        before: &Found<'_>,
        first: First,
        site: &Site<'_>,
    ) -> Result<Entry, PatchError> {
        let name = file.old.as_ref().or(file.new.as_ref()).map(|path| String::from_utf8_lossy(path.as_bytes()));
        if let Some(named) = name.and_then(|name| self.befores.get(&*name)).filter(|_| first == First::Yes) {
            let found = (*before.tree != Entry::Absent).then(|| sha256(diff::text_of(before.tree)));
            if *named != found {
                return Err(file.mismatch("its contents are not those that the change was made for"));
            }
        }
        file.exactly(&before.kept, format_of(site))
    }

    /// Merges with the current contents; `refused` says why the patch does not fit directly.
    fn by_merging(
        &self,
        file: &FilePatch,
        found: &Found<'_>,
        refused: PatchError,
        site: &Site<'_>,
    ) -> Result<Entry, PatchError> {
        let now = &found.kept;
        let is_text = matches!(file.body, Body::Text(_)) && !matches!(now, Entry::Link { .. });
        // If its base is unknown, or both changes touch, the patch's context decides where it belongs.
        let by_context = |refused: PatchError| match is_text {
            true => file.wherever_it_fits(now, format_of(site)).map_err(|_| refused),
            false => Err(refused),
        };
        let Some(base) = self.base_of(file, found, site) else {
            return if is_text { file.wherever_it_fits(now, format_of(site)) } else { Err(refused) };
        };
        let Ok(theirs) = file.exactly(&base, format_of(site)) else { return by_context(refused) };
        match (&base, now, &theirs) {
            _ if *now == theirs => Ok(theirs),
            _ if *now == base => Ok(theirs),
            (
                Entry::File { content: before, executable: was },
                Entry::File { content: ours, executable: is },
                Entry::File { content: proposed, executable: shall },
            ) if ![before, ours, proposed].into_iter().any(|content| diff::is_binary(content)) => {
                let content = merge(before, ours, proposed).or_else(|touching| {
                    let hunk = match &file.body {
                        Body::Text(hunks) => hunks.iter().rposition(|hunk| hunk.start < touching.line),
                        Body::Same | Body::Literal(_) | Body::Delta(_) => None,
                    };
                    let hunk = hunk.map(|number| format!("hunk {}: ", number + 1)).unwrap_or_default();
                    let why = format!("{hunk}the file has other changes there (line {} of the base)", touching.line);
                    match by_context(file.mismatch(why))? {
                        Entry::File { content, .. } => Ok(content.to_vec()),
                        Entry::Absent | Entry::Link { .. } => Err(refused.clone()),
                    }
                })?;
                Ok(Entry::File { content: content.into(), executable: if was == shall { *is } else { *shall } })
            }
            _ => Err(refused),
        }
    }

    /// Returns the base of a part of the patch, if the repository still has it.
    fn base_of(&self, file: &FilePatch, found: &Found<'_>, site: &Site<'_>) -> Option<Entry> {
        let Some(path) = &file.old else { return Some(Entry::Absent) };
        let git = site.repository?.git();
        let is_object = |name: &&String| name.len() >= 7 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let by_object = file.old_object.as_ref().filter(is_object).cloned();
        let base = self.base.as_ref().filter(is_object);
        let by_commit = base.map(|commit| format!("{commit}:{}", String::from_utf8_lossy(path.as_bytes())));
        let named = self.befores.get(&*String::from_utf8_lossy(path.as_bytes()));
        let content = [by_object, by_commit].into_iter().flatten().find_map(|object| {
            let content = git.run(&["cat-file", "blob", &object], b"").ok()?;
            // Git may store other line ends than the file had; if it stores other bytes, the digest tells nothing.
            let is_converted = *found.tree != found.kept;
            (is_converted || named.is_none_or(|named| *named == Some(sha256(&content)))).then_some(content)
        })?;
        Some(match file.old_mode.as_deref() {
            Some("120000") => Entry::Link { target: content },
            mode => Entry::File { content: content.into(), executable: mode == Some("100755") },
        })
    }
}

/// Applies a part of a patch to what git stores of its file.
type Settle<'a> = dyn Fn(&FilePatch, &Found<'_>, First) -> Result<Entry, PatchError> + 'a;

/// A file that a patch is for.
struct Found<'a> {
    /// As it is in the work tree.
    tree: &'a Entry,
    /// As git stores it, which patches are made for.
    kept: Entry,
}

/// Finds the files of a patch that git stores with other bytes than the work tree has.
fn conversions<'s>(
    patch: &Patch,
    look: &dyn Fn(&RelPath) -> Result<Entry, PatchError>,
    site: &Site<'s>,
) -> Result<Option<Conversions<'s>>, DeliverError> {
    let Some(repository) = site.repository else { return Ok(None) };
    let names = patch.files.iter().flat_map(|file| [&file.old, &file.new]).flatten();
    // An unreadable file is refused when its part is applied.
    let found: Vec<(&RelPath, Entry)> = names.filter_map(|name| Some((name, look(name).ok()?))).collect();
    // Lines that end with `\n` alone stay so, whatever git would make of them.
    let has_ends = |entry: &Entry| {
        let content = entry.content().unwrap_or_default();
        !content.contains(&b'\n') || content.windows(2).any(|ends| ends == b"\r\n")
    };
    let named = |(name, _): &(&RelPath, Entry)| name.as_bytes().to_vec();
    let names = found.iter().map(named).collect();
    let mut conversions = Conversions::with_line_ends(repository, &names).map_err(|error| from_repository(&error))?;
    conversions.only_line_ends_of(&found.iter().filter(|(_, entry)| has_ends(entry)).map(named).collect());
    Ok(Some(conversions))
}

fn unfit(refused: &[PatchError]) -> DeliverError {
    let all: Vec<String> = refused.iter().map(ToString::to_string).collect();
    DeliverError::conflict(all.join("; "), "run again on the current files")
}

fn prefix_of(site: &Site<'_>) -> RelPath {
    site.repository.map(|repository| repository.prefix.clone()).unwrap_or_default()
}

fn format_of(site: &Site<'_>) -> ObjectFormat {
    site.repository.map_or(ObjectFormat::Sha1, |repository| repository.format)
}

/// Removes the workspace's directory from a name of the repository.
fn below(prefix: &RelPath, name: &RelPath) -> Option<RelPath> {
    RelPath::below(&Path::new("/").join(prefix.as_path()), &Path::new("/").join(name.as_path()))
        .filter(|path| !path.is_root())
}

/// Finds the result in an object, in an array of messages, or in one message per line.
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
            assert_eq!(proposal.changes(&project.site()).unwrap(), changes);
        }
    }

    #[test]
    fn a_tampered_proposal_is_a_conflict() {
        let project = Project::new().file("a", "1\n");
        let (_, patch) = proposed(&project);
        let mut other = result(&patch, None);
        other["changes"]["patch"] = Value::from(patch.replace("+2", "+3"));
        assert!(Proposal::read(other.to_string().as_bytes(), None).is_err());
        // Patch and result both changed: the digest from another source shows it.
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
        let error = proposal.changes(&project.site()).unwrap_err();
        assert_eq!(error.to_string(), "the change was made for c0ffee, HEAD is unborn");
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn changes_on_top_of_each_other_are_what_applying_each_in_order_gives(
            edits in proptest::collection::vec(proptest::collection::vec((0_usize..12, "[a-c\n]{0,3}"), 1..3), 1..5)
        ) {
            let base: Vec<String> = (0..12).map(|n| format!("line {n}")).collect();
            let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let patch = |edit: &[(usize, String)]| {
                let mut lines = base.clone();
                edit.iter().for_each(|(at, new)| lines[*at] = new.clone());
                let mut changes = ChangeSet::default();
                changes.stage(RelPath::new("a").unwrap(), || Entry::file(text(&base)), Entry::file(text(&lines)));
                patch::print(&changes, &RelPath::root(), ObjectFormat::Sha1)
            };
            let (staged, written) = (Project::new().file("a", &text(&base)), Project::new().file("a", &text(&base)));
            let mut all = ChangeSet::default();
            for edit in &edits {
                let proposal = Proposal::read(&patch(edit), None).unwrap();
                let over = proposal.merged_over(&all, &staged.site()).map(|(changes, _)| changes);
                let after = proposal.merged(&written.site()).map(|(changes, _)| changes);
                proptest::prop_assert_eq!(&over, &after);
                for (path, change) in over.iter().flat_map(ChangeSet::iter) {
                    all.stage(path.clone(), || change.before.clone(), change.after.clone());
                    std::fs::write(path.under(written.root()), diff::text_of(&change.after)).unwrap();
                }
            }
            let path = RelPath::new("a").unwrap();
            let result = all.staged(&path).cloned().unwrap_or_else(|| staged.entry(&path));
            proptest::prop_assert_eq!(result, written.entry(&path));
        }
    }
}
