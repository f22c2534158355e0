//! Decides which files may be read.

use std::collections::HashSet;
use std::path::Path;

use super::resolve::{Folders, PathRules, Place, Resolved};
use super::walk::{MAX_WALK, Open, walk};
use crate::change::layout::is_git_directory;
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::glob::fold;
use crate::policy::protected::{braces, secret_name};

impl PathRules<'_> {
    /// Judges reading the contents of a file (of a directory: only that it is not denied).
    pub(crate) fn read(&self, folder: &RelPath, path: &Path) -> Result<(Resolved, Place), Denial> {
        let (resolved, place) = self.inside(folder, path)?;
        self.read_resolved(&resolved, &place, &path.to_string_lossy())?;
        Ok((resolved, place))
    }

    pub(super) fn read_resolved(&self, resolved: &Resolved, place: &Place, shown: &str) -> Result<(), Denial> {
        let path = match place {
            Place::Workspace(path) | Place::Included(path) => path,
            Place::Outputs(_) => return Ok(()),
        };
        if let Some(denial) = self.read_denied(path, shown) {
            return Err(denial);
        }
        if let Some(Node::File { links, id, .. }) = &resolved.node
            && *links > 1
            && self.is_denied_file(*id)?
        {
            return Err(Denial::new(format!("`{shown}` is another name of a file that may not be read")).by("F6"));
        }
        // Directories hold names, and names may be listed; what is below is judged file by file.
        if resolved.node == Some(Node::Dir) {
            return Ok(());
        }
        let above = path.components().count();
        if let Some(root) = resolved.absolute.ancestors().nth(above)
            && let Some(directory) = self.git_directory(root, &path.parent().unwrap_or_default())?
        {
            return Err(Denial::new(format!(
                "`{shown}` is never read (the contents of the git directory {directory})"
            ))
            .by("F3"));
        }
        self.read_allowed(path, shown)
    }

    fn read_allowed(&self, path: &RelPath, shown: &str) -> Result<(), Denial> {
        let text = path.to_string_lossy();
        for layer in self.layers {
            match &layer.rules.paths.read.allow {
                Some(allow) if allow.iter().any(|glob| glob.value.is_match(&text)) => {}
                None if !layer.grants => {}
                _ => {
                    let reason = format!("no rule of `paths.read.allow` in {} matches `{shown}`", layer.origin.source);
                    return Err(Denial::new(reason));
                }
            }
        }
        Ok(())
    }

    // A git directory is recognised by its contents, whatever its name; the root itself is where the run works.
    fn git_directory(&self, root: &Path, folder: &RelPath) -> Result<Option<RelPath>, Denial> {
        if folder.is_root() {
            return Ok(None);
        }
        let path = folder.under(root);
        let known = |folders: &Folders| folders.git_directories().get(&path).cloned();
        if let Some(known) = self.folders.and_then(known) {
            return Ok(known);
        }
        let found = if is_git_directory(|name| Ok(self.look(&path.join(name))?.is_some()))? {
            Some(folder.clone())
        } else {
            self.git_directory(root, &folder.parent().unwrap_or_default())?
        };
        if let Some(folders) = self.folders {
            folders.git_directories().insert(path, found.clone());
        }
        Ok(found)
    }

    /// Judges reading a file of this very name, wherever a link of that name leads now: in a commit it may be a file.
    pub(crate) fn read_named(&self, path: &RelPath, shown: &str) -> Result<(), Denial> {
        self.read_denied(path, shown).map_or_else(|| self.read_allowed(path, shown), Err)
    }

    /// The same for what may be a directory of that name: it is not denied, nor is all that can be in it.
    pub(crate) fn tree_named(&self, path: &RelPath, shown: &str) -> Result<(), Denial> {
        self.read_denied(path, shown).or_else(|| self.contents_denied(path, shown)).map_or(Ok(()), Err)
    }

    /// Returns why a path may not be read, by its name alone.
    pub(crate) fn read_denied(&self, path: &RelPath, shown: &str) -> Option<Denial> {
        let exact = path.to_string_lossy();
        let folded = fold(&exact);
        if let Some(what) = secret_name(&folded)
            && !self.lifted(&exact, &folded)
        {
            return Some(Denial::new(format!("`{shown}` is never read ({what})")).by("F3"));
        }
        let denies = self.layers.iter().flat_map(|layer| &layer.rules.paths.read.deny);
        let rule = denies.into_iter().find(|glob| glob.value.covers_folded(&folded))?;
        let reason = format!("`{shown}` matches `{}`, which may not be read", rule.value.text());
        Some(Denial::new(reason).by_rule(rule.at.clone()))
    }

    // `secrets` itself has no denied name, but all that can be in it has.
    pub(super) fn contents_denied(&self, folder: &RelPath, shown: &str) -> Option<Denial> {
        if folder.is_root() { None } else { self.read_denied(&folder.child("any")?, shown) }
    }

    /// Refuses a change of a file that is there and may not be read: the patch and the result would show what it held.
    pub(crate) fn shows_nothing(&self, path: &RelPath, shown: &str) -> Result<(), Denial> {
        match self.read_denied(path, shown) {
            Some(denial) => {
                Err(Denial { reason: format!("{}; a change of it would reveal its contents", denial.reason), ..denial })
            }
            None => Ok(()),
        }
    }

    /// Returns the globs to which the rules keep reading; `None` where they allow every path.
    pub(crate) fn read_globs(&self) -> Result<Option<Vec<String>>, String> {
        let mut kept: Option<Vec<String>> = None;
        for layer in self.layers {
            let allow: Vec<&str> = match &layer.rules.paths.read.allow {
                Some(allow) => allow.iter().map(|glob| glob.value.text()).collect(),
                None if layer.grants => Vec::new(),
                None => continue,
            };
            if allow.contains(&"**") {
                continue;
            }
            let mut globs = Vec::new();
            for glob in allow {
                globs.extend(braces(glob).ok_or_else(|| format!("too many braces in `{glob}`"))?);
            }
            kept = Some(match kept {
                None => globs,
                Some(kept) => within(&kept, &globs).chain(within(&globs, &kept)).cloned().collect(),
            });
        }
        Ok(kept)
    }

    // `paths.protected.remove` of the granting layer lifts the protection of paths (F3: not read, F4: not
    // written), never that of `.git`.
    pub(super) fn lifted(&self, exact: &str, folded: &str) -> bool {
        !folded.split('/').any(|name| name == ".git")
            && self
                .layers
                .first()
                .is_some_and(|layer| layer.rules.paths.unprotected.iter().any(|glob| glob.is_match(exact)))
    }

    // Files with several names whose other name may not be read: found once, when the first such file is met.
    fn is_denied_file(&self, id: (u64, u64)) -> Result<bool, Denial> {
        let found = self.folders.map_or(&self.denied_files, |folders| &folders.denied_files).get_or_init(|| {
            let mut ids = HashSet::new();
            let mut left = MAX_WALK;
            for root in std::iter::once(&self.facts.root).chain(&self.facts.included) {
                let mut visit = |path: &RelPath, node: &Node| {
                    if let Node::File { links, id, .. } = node
                        && *links > 1
                        && self.read_denied(path, "").is_some()
                    {
                        ids.insert(*id);
                    }
                    Ok(true)
                };
                walk(self.tree(), root, &RelPath::root(), &mut left, &mut visit).map_err(|denial| denial.reason)?;
            }
            Ok(ids)
        });
        match found {
            Ok(ids) => Ok(ids.contains(&id)),
            Err(reason) => Err(Denial::new(format!("files with several names cannot be checked: {reason}"))),
        }
    }

    /// Returns the other names in the workspace of files that may not be read: a name that is not a secret itself,
    /// whose file has one that is. A tree of which this cannot be found out is an error.
    pub(crate) fn other_names(&self) -> Result<Vec<RelPath>, Denial> {
        let mut denied = HashSet::new();
        let mut others = Vec::new();
        // One look a file, with nothing judged but what has several names.
        let mut left = 10 * MAX_WALK;
        let mut visit = |path: &RelPath, node: &Node| {
            if let Node::File { links, id, .. } = node
                && *links > 1
            {
                match self.read_denied(path, "") {
                    Some(_) => drop(denied.insert(*id)),
                    None => others.push((*id, path.clone())),
                }
            }
            Ok(path.components().last().is_none_or(|name| name != b".git"))
        };
        walk(&Open(self.tree()), &self.facts.root, &RelPath::root(), &mut left, &mut visit)
            .map_err(|denial| denial.hint("read single files; other names of secrets could not be left out here"))?;
        Ok(others.into_iter().filter(|(id, _)| denied.contains(id)).map(|(_, path)| path).collect())
    }

    /// Judges a word that may or may not be a path: inside and not denied by its name.
    pub(crate) fn name_only(&self, folder: &RelPath, path: &Path) -> Result<(), Denial> {
        let (_, place) = self.inside(folder, path)?;
        match place {
            Place::Workspace(inside) | Place::Included(inside) => {
                let shown = path.to_string_lossy();
                let denied = self.read_denied(&inside, &shown).or_else(|| self.contents_denied(&inside, &shown));
                denied.map_or(Ok(()), Err)
            }
            Place::Outputs(_) => Ok(()),
        }
    }

    /// Resolves a directory for `cd`: inside and not denied for reading.
    pub(crate) fn enter(&self, folder: &RelPath, path: &str) -> Result<RelPath, Denial> {
        let (_, place) = self.inside(folder, Path::new(path))?;
        match place {
            Place::Workspace(path_in) => {
                match self.read_denied(&path_in, path).or_else(|| self.contents_denied(&path_in, path)) {
                    Some(denial) => Err(denial),
                    None => Ok(path_in),
                }
            }
            Place::Included(_) | Place::Outputs(_) => {
                Err(Denial::new(format!("`{path}`: commands run inside the workspace")).by("G9"))
            }
        }
    }
}

// The globs that lie within one of the others.
fn within<'g>(globs: &'g [String], others: &'g [String]) -> impl Iterator<Item = &'g String> {
    let covers = |other: &String, glob: &str| {
        other == glob
            || other.strip_suffix("**").is_some_and(|top| glob.starts_with(top) && !top.contains(['*', '?', '[']))
    };
    globs.iter().filter(move |glob| others.iter().any(|other| covers(other, glob)))
}
