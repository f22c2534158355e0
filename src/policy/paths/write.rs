//! Decides which files may be written.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::resolve::{PathRules, Place, Resolved};
use super::walk::{MAX_WALK, strip_tail, walk};
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::glob::{Glob, fold, fold_name};
use crate::policy::layers::Layer;
use crate::policy::protected::{known_names, protected_name, secret_name};
use crate::policy::rules::Rule;

impl PathRules<'_> {
    /// Judges creating or changing a file.
    pub(crate) fn write(&self, folder: &RelPath, path: &Path) -> Result<(Resolved, Place), Denial> {
        let (resolved, place) = self.inside(folder, path)?;
        let shown = path.to_string_lossy();
        if resolved.last_is_link {
            return Err(Denial::new(format!("`{shown}` is a link; a write never follows one")).by("F6"));
        }
        if let Some(Node::File { links, .. }) = &resolved.node
            && *links > 1
        {
            return Err(Denial::new(format!("the file `{shown}` has more than one name")).by("F6"));
        }
        if resolved.node == Some(Node::Other) {
            return Err(Denial::new(format!("`{shown}` is a device, pipe or socket")).by("F6"));
        }
        let path = match &place {
            Place::Workspace(path) | Place::Included(path) => path,
            Place::Outputs(_) => return Err(self.outside(&shown)),
        };
        self.write_allowed(path, &shown)?;
        if matches!(resolved.node, Some(Node::File { .. })) {
            self.shows_nothing(path, &shown)?;
        }
        if resolved.node.is_none() {
            self.may("create", |layer| layer.rules.paths.write.create, &shown)?;
        }
        Ok((resolved, place))
    }

    fn may(&self, what: &str, key: impl Fn(&Layer) -> Option<bool>, shown: &str) -> Result<(), Denial> {
        match self.layers.iter().find(|layer| key(layer) == Some(false)) {
            Some(layer) => {
                let reason = format!("`{shown}`: `paths.write.{what}` is false in {}", layer.origin.source);
                Err(Denial::new(reason))
            }
            None => Ok(()),
        }
    }

    /// Judges where a link leads: to a path of the workspace that is neither protected nor kept from reading.
    pub(crate) fn link(&self, path: &RelPath, target: &[u8]) -> Result<(), Denial> {
        let shown = path.to_string();
        let leads = |reason: &str| Denial::new(format!("the link `{shown}` points where it may not: {reason}"));
        let folder = path.parent().unwrap_or_default();
        let (resolved, place) =
            self.inside(&folder, Path::new(OsStr::from_bytes(target))).map_err(|denial| leads(&denial.reason))?;
        let Place::Workspace(to) = &place else { return Err(leads("it is outside the workspace")) };
        let to_text = to.to_string();
        self.read_resolved(&resolved, &place, &to_text).map_err(|denial| leads(&denial.reason))?;
        match self.contents_denied(to, &to_text).or_else(|| self.write_denied(to, &to_text)) {
            Some(denial) => Err(leads(&denial.reason)),
            None => Ok(()),
        }
    }

    /// Judges removing a file, link or empty directory.
    pub(crate) fn delete(&self, folder: &RelPath, path: &Path) -> Result<(), Denial> {
        let resolved = self.unfollowed(folder, path)?;
        let shown = path.to_string_lossy();
        match self.place(&resolved) {
            Some(Place::Workspace(path) | Place::Included(path)) => self.write_allowed(&path, &shown)?,
            Some(Place::Outputs(_)) | None => return Err(self.outside(&shown)),
        }
        self.may("delete", |layer| layer.rules.paths.write.delete, &shown)
    }

    /// Judges a write by the path alone: protected names, deny rules, allow rules of every layer.
    pub(crate) fn write_allowed(&self, path: &RelPath, shown: &str) -> Result<(), Denial> {
        if let Some(denial) = self.write_denied(path, shown) {
            return Err(denial);
        }
        let text = path.to_string_lossy();
        for layer in self.layers {
            let matches = |allow: &[Rule<Glob>]| {
                allow.iter().any(|glob| glob.value.is_match(&text) || (path.is_root() && glob.value.text() == "**"))
            };
            match &layer.rules.paths.write.allow {
                Some(allow) if matches(allow) => {}
                None if !layer.grants => {}
                Some(allow) => {
                    let globs: Vec<_> = allow.iter().map(|glob| glob.value.text()).collect();
                    let denial = Denial::new(format!(
                        "no rule of `paths.write.allow` in {} matches `{shown}`",
                        layer.origin.source
                    ));
                    return Err(denial.hint(format!("writes are allowed to {}", globs.join(", "))));
                }
                None => {
                    let denial = Denial::new(format!("{} allows no writes: `{shown}`", layer.origin.source));
                    return Err(denial.hint("answer with what you would change"));
                }
            }
        }
        Ok(())
    }

    /// Returns why a path may not be written, even if rules allow it.
    pub(crate) fn write_denied(&self, path: &RelPath, shown: &str) -> Option<Denial> {
        let exact = path.to_string_lossy();
        let folded = fold(&exact);
        if let Some(what) = protected_name(&folded).or_else(|| secret_name(&folded))
            && !self.lifted(&exact, &folded)
        {
            return Some(Denial::new(format!("`{shown}` is protected ({what})")).by("F4"));
        }
        let rule = self.never_written().find(|rule| rule.value.covers_folded(&folded))?;
        let reason = format!("`{shown}` matches `{}`, which may not be written", rule.value.text());
        Some(Denial::new(reason).by_rule(rule.at.clone()))
    }

    /// Judges creating files whose names only begin so; `letters`: small letters and digits follow.
    pub(crate) fn write_beginning(&self, folder: &RelPath, start: &str, letters: bool) -> Result<(), Denial> {
        for ending in ["aa", "00"] {
            self.write(folder, Path::new(&format!("{start}{ending}")))?;
        }
        let (Place::Workspace(first) | Place::Included(first) | Place::Outputs(first)) =
            self.inside(folder, Path::new(&format!("{start}a")))?.1;
        let first = fold(&first.to_string_lossy());
        let first = first.strip_suffix('a').unwrap_or(&first);
        let reaches = |known: &str| {
            let rest = known.strip_prefix(first.rsplit('/').next().unwrap_or(first));
            rest.is_some_and(|rest| !letters || rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        };
        if let Some(known) = known_names().find(|known| reaches(known)) {
            return Err(Denial::new(format!("a name that begins with `{start}` may be `{known}`")).by("F4"));
        }
        match self.never_written().find(|rule| literal_prefix(rule.value.text()).starts_with(first)) {
            Some(rule) => {
                let reason = format!("a name that begins with `{start}` may match `{}`", rule.value.text());
                Err(Denial::new(reason).by_rule(rule.at.clone()))
            }
            None => Ok(()),
        }
    }

    /// Judges that everything below a directory may be written (or removed).
    pub(crate) fn write_tree(&self, folder: &RelPath, path: &Path) -> Result<(), Denial> {
        let (resolved, place) = self.inside(folder, path)?;
        let shown = path.to_string_lossy();
        let (Place::Workspace(start) | Place::Included(start)) = &place else { return Err(self.outside(&shown)) };
        if let Some(denial) = self.write_denied(start, &shown) {
            return Err(denial);
        }
        // A name that no rule can have foreseen stands for all of them.
        for probe in ["qwen-any", "qwen-any/any/any.any"] {
            let below = start.join(probe).expect("the probe does not climb");
            self.write_allowed(&below, &format!("{shown}/…"))?;
        }
        let folded = fold(&start.to_string_lossy());
        for rule in self.never_written() {
            let prefix = literal_prefix(rule.value.text());
            if !prefix.is_empty() && (folded.is_empty() || prefix.starts_with(&format!("{folded}/"))) {
                let reason = format!("`{}` below `{shown}` may not be written", rule.value.text());
                return Err(Denial::new(reason).by_rule(rule.at.clone()));
            }
        }
        if resolved.node != Some(Node::Dir) {
            return Ok(());
        }
        let base = strip_tail(&resolved.absolute, start);
        let mut left = MAX_WALK;
        let mut visit = |path: &RelPath, node: &Node| {
            if *path == *start {
                return Ok(true);
            }
            self.write_allowed(path, &path.to_string())?;
            if matches!(node, Node::Link(_)) {
                self.inside(&RelPath::root(), &path.under(&base))?;
            }
            Ok(true)
        };
        walk(self.tree(), &base, start, &mut left, &mut visit)
    }

    /// Tells whether every layer lets links be made.
    pub(crate) fn allows_links(&self) -> bool {
        self.layers.iter().all(|layer| {
            layer.rules.paths.write.symlinks == Some(true)
                || (layer.rules.paths.write.symlinks.is_none() && !layer.grants)
        })
    }

    /// Judges a directory that a build keeps its own files in: inside and not protected.
    pub(crate) fn own_folder(&self, folder: &RelPath, path: &Path) -> Result<(), Denial> {
        let (_, place) = self.inside(folder, path)?;
        let shown = path.to_string_lossy();
        match place {
            Place::Workspace(path) => {
                // A rule may deny all that is in it and not the directory itself.
                let inner = || path.child("file").and_then(|inner| self.write_denied(&inner, &shown));
                self.write_denied(&path, &shown).or_else(inner).map_or(Ok(()), Err)
            }
            Place::Included(_) | Place::Outputs(_) => Err(self.outside(&shown)),
        }
    }

    fn never_written(&self) -> impl Iterator<Item = &Rule<Glob>> {
        self.layers.iter().flat_map(|layer| layer.rules.paths.write.deny.iter().chain(&layer.rules.paths.protected))
    }
}

fn literal_prefix(glob: &str) -> String {
    let parts = glob.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\']));
    parts.map(fold_name).collect::<Vec<_>>().join("/")
}
