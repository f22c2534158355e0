//! Resolves paths and decides which files may be read and written.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::decide::Facts;
use super::decision::Denial;
use super::effect::{Effect, Pattern};
use super::glob::{Glob, fold, fold_name};
use super::layers::Layer;
use super::protected::{braces, known_names, names_secret, protected_name, secret_name};
use crate::change::layout::is_git_directory;
use crate::path::{Node, RelPath, Tree};

const MAX_LINKS: usize = 40;
const MAX_WALK: usize = 200_000;

/// Where a path leads, all links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Absolute, normalised, without links.
    pub(crate) absolute: PathBuf,
    /// The last part, as written, was a link.
    pub(crate) last_is_link: bool,
    /// What is there.
    pub(crate) node: Option<Node>,
}

/// Which root a path is below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The workspace.
    Workspace(RelPath),
    /// An included directory; the path is relative to it.
    Included(RelPath),
    /// The run's directory of full outputs.
    Outputs(RelPath),
}

/// The path rules of a policy over the facts of a run. Made for one call: it remembers what it looked up.
pub(crate) struct PathRules<'a> {
    layers: &'a [Layer],
    facts: &'a Facts,
    denied_files: OnceLock<Result<HashSet<(u64, u64)>, String>>,
    folders: Option<&'a Folders>,
}

/// What was found out of a tree. Made for one call, as a search asks of each file in it.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    /// Directories that are reached through no link.
    known: Mutex<HashSet<PathBuf>>,
    /// Directories, and the git directory that each is or is in.
    git_directories: Mutex<HashMap<PathBuf, Option<RelPath>>>,
    /// Files with several names of which one may not be read.
    denied_files: OnceLock<DeniedFiles>,
}

/// Device and inode of each, or why they could not be found.
type DeniedFiles = Result<HashSet<(u64, u64)>, String>;

impl Folders {
    fn git_directories(&self) -> MutexGuard<'_, HashMap<PathBuf, Option<RelPath>>> {
        self.git_directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> PathRules<'a> {
    pub(crate) fn new(layers: &'a [Layer], facts: &'a Facts) -> PathRules<'a> {
        PathRules { layers, facts, denied_files: OnceLock::new(), folders: None }
    }

    /// Remembers directories from one path to the next.
    pub(crate) fn remembering(self, folders: &'a Folders) -> PathRules<'a> {
        PathRules { folders: Some(folders), ..self }
    }

    fn tree(&self) -> &dyn Tree {
        self.facts.tree.as_ref()
    }

    /// Follows a path from a directory of the workspace to where it leads: every link by hand, `..` after links,
    /// dangling targets by their text, parts that do not exist as they are.
    pub(crate) fn resolve(&self, folder: &RelPath, path: &Path) -> Result<Resolved, Denial> {
        let bytes = path.as_os_str().as_bytes();
        let text = String::from_utf8_lossy(bytes);
        if bytes.is_empty() {
            return Err(Denial::new("the path is empty").by("F7"));
        }
        if text.chars().any(char::is_control) {
            return Err(Denial::new(format!("the path {text:?} contains a control character")).by("F7"));
        }
        let mut at = if bytes[0] == b'/' { PathBuf::from("/") } else { folder.under(&self.facts.root) };
        let mut pending: Vec<Vec<u8>> = parts(bytes);
        pending.reverse();
        if let (Some(folders), Some(parent), Some(_)) = (self.folders, path.parent(), path.file_name())
            && path.is_absolute()
            && folders.known().contains(parent)
        {
            at = parent.to_path_buf();
            pending.truncate(1);
        }
        let mut links = 0;
        let mut seen = None;
        let mut last_is_link = false;
        // Parts that came out of a link are not the last part as written.
        let mut written = pending.len();
        while let Some(part) = pending.pop() {
            let is_last_written = pending.is_empty() && written == 1;
            written = written.min(pending.len());
            seen = None;
            if part == b".." {
                at.pop();
                continue;
            }
            let next = at.join(OsStr::from_bytes(&part));
            match self.look(&next)? {
                Some(Node::Link(target)) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Denial::new(format!("`{text}` is a circular link")).by("F1"));
                    }
                    if is_last_written {
                        last_is_link = true;
                    }
                    let target = target.as_os_str().as_bytes();
                    if target.first() == Some(&b'/') {
                        at = PathBuf::from("/");
                    }
                    pending.extend(parts(target).into_iter().rev());
                }
                node => {
                    at = next;
                    seen = Some(node);
                }
            }
        }
        if let (Some(folders), 0, Some(parent)) = (self.folders, links, at.parent())
            && at == path
        {
            folders.known().insert(parent.to_path_buf());
        }
        let node = match seen {
            Some(node) => node,
            None => self.look(&at)?,
        };
        Ok(Resolved { absolute: at, last_is_link, node })
    }

    fn look(&self, path: &Path) -> Result<Option<Node>, Denial> {
        self.tree().look(path).map_err(|error| Denial::new(format!("{} cannot be checked: {error}", path.display())))
    }

    pub(crate) fn facts_tree(&self) -> &dyn Tree {
        self.tree()
    }

    /// Tells whether every layer lets links be made.
    pub(crate) fn allows_links(&self) -> bool {
        self.layers.iter().all(|layer| layer.symlinks == Some(true) || (layer.symlinks.is_none() && !layer.grants))
    }

    /// Returns the root that an absolute, resolved path is below.
    pub(crate) fn place(&self, absolute: &Path) -> Option<Place> {
        if ["/proc", "/sys", "/dev"].iter().any(|never| absolute.starts_with(never)) {
            return None;
        }
        if let Some(path) = RelPath::below(&self.facts.root, absolute) {
            return Some(Place::Workspace(path));
        }
        if let Some(path) = self.facts.included.iter().find_map(|root| RelPath::below(root, absolute)) {
            return Some(Place::Included(path));
        }
        let outputs = self.facts.outputs.as_ref()?;
        RelPath::below(outputs, absolute).map(Place::Outputs)
    }

    fn outside(&self, shown: &str) -> Denial {
        Denial::new(format!("`{shown}` is outside the workspace"))
            .by("F2")
            .hint("only paths of the workspace can be used")
    }

    fn inside(&self, folder: &RelPath, path: &Path) -> Result<(Resolved, Place), Denial> {
        let resolved = self.resolve(folder, path)?;
        let place = self.place(&resolved.absolute).ok_or_else(|| self.outside(&path.to_string_lossy()))?;
        Ok((resolved, place))
    }

    /// Judges reading the contents of a file (of a directory: only that it is not denied).
    pub(crate) fn read(&self, folder: &RelPath, path: &Path) -> Result<(Resolved, Place), Denial> {
        let (resolved, place) = self.inside(folder, path)?;
        self.read_resolved(&resolved, &place, &path.to_string_lossy())?;
        Ok((resolved, place))
    }

    fn read_resolved(&self, resolved: &Resolved, place: &Place, shown: &str) -> Result<(), Denial> {
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
            match &layer.read_allow {
                Some(allow) if allow.iter().any(|glob| glob.value.is_match(&text)) => {}
                None if !layer.grants => {}
                _ => {
                    let reason = format!("no rule of `paths.read.allow` in {} matches `{shown}`", layer.source);
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
        let denies = self.layers.iter().flat_map(|layer| &layer.read_deny);
        let rule = denies.into_iter().find(|glob| glob.value.covers_folded(&folded))?;
        let reason = format!("`{shown}` matches `{}`, which may not be read", rule.value.text());
        Some(Denial::new(reason).by_rule(rule.rule.clone()))
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
            let allow: Vec<&str> = match &layer.read_allow {
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
    fn lifted(&self, exact: &str, folded: &str) -> bool {
        !folded.split('/').any(|name| name == ".git")
            && self.layers.first().is_some_and(|layer| layer.protected_remove.iter().any(|glob| glob.is_match(exact)))
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

    /// Judges looking at names and metadata: everywhere inside.
    pub(crate) fn list(&self, folder: &RelPath, path: &Path) -> Result<(Resolved, Place), Denial> {
        self.inside(folder, path)
    }

    /// Judges reading everything below a path that is not left out.
    pub(crate) fn read_tree(&self, folder: &RelPath, tree: &TreeRead<'_>) -> Result<(), Denial> {
        let (resolved, place) = self.inside(folder, Path::new(tree.path))?;
        if resolved.node != Some(Node::Dir) {
            return self.read_resolved(&resolved, &place, tree.path);
        }
        let start = match &place {
            Place::Workspace(path) | Place::Included(path) => path.clone(),
            Place::Outputs(_) => return Ok(()),
        };
        // A directory that is denied as a whole is denied whether or not anything is in it.
        if let Some(denial) = self.read_denied(&start, tree.path).or_else(|| self.contents_denied(&start, tree.path)) {
            return Err(denial);
        }
        let left_out = tree.left_out.iter().map(|out| Sieve::new(out, false)).collect::<Result<Vec<_>, _>>()?;
        let only = tree.only.iter().map(|only| Sieve::new(only, true)).collect::<Result<Vec<_>, _>>()?;
        let root = &self.facts.root;
        let base = match &place {
            Place::Workspace(_) => root.clone(),
            _ => strip_tail(&resolved.absolute, &start),
        };
        let mut left = MAX_WALK;
        let here = format!("{}/", folder.under(root).display());
        let mut seen = HashSet::new();
        let mut starts = vec![(start.clone(), false)];
        while let Some((start, through_link)) = starts.pop() {
            if !seen.insert((start.clone(), through_link)) {
                continue;
            }
            let mut linked = Vec::new();
            let mut visit = |path: &RelPath, node: &Node| {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let whole = path.to_string_lossy();
                let below = whole.strip_prefix(&start.to_string_lossy()).unwrap_or(&whole).trim_start_matches('/');
                let shown = format!("{}/{below}", tree.path.trim_end_matches('/'));
                // What is found through a link has the link's path there.
                let shown = (!through_link).then(|| shown.strip_prefix(&here).unwrap_or(&shown));
                let matches = |sieve: &Sieve, unknown| sieve.is_match(shown, &name, *node == Node::Dir, unknown);
                if *path != start
                    && (tree.skips_hidden && name.starts_with('.')
                        || left_out.iter().any(|sieve| matches(sieve, false)))
                {
                    return Ok(false);
                }
                match node {
                    Node::Dir => {}
                    Node::Link(_) if !tree.follow_links => {}
                    Node::Link(_) => linked.push(path.clone()),
                    Node::File { .. } | Node::Other => {
                        if only.is_empty() || only.iter().any(|sieve| matches(sieve, true)) {
                            let found =
                                Resolved { absolute: path.under(&base), last_is_link: false, node: Some(node.clone()) };
                            self.read_resolved(&found, &Place::Workspace(path.clone()), &path.to_string())?;
                        }
                    }
                }
                Ok(true)
            };
            walk(self.tree(), &base, &start, &mut left, &mut visit)?;
            for link in linked {
                let link_path = link.under(&base);
                // A circle or a dangling link has no contents; where it would lead is still judged.
                let (resolved, place) = match self.inside(&RelPath::root(), &link_path) {
                    Err(denial) if denial.rule.as_ref().is_some_and(|rule| rule.rule == "F1") => continue,
                    other => other?,
                };
                match (&resolved.node, place) {
                    (Some(Node::Dir), Place::Workspace(path)) => {
                        if let Some(denial) = self.read_denied(&path, &link.to_string()) {
                            return Err(denial);
                        }
                        starts.push((path, true));
                    }
                    (_, place) => self.read_resolved(&resolved, &place, &link.to_string())?,
                }
            }
        }
        Ok(())
    }

    // `secrets` itself has no denied name, but all that can be in it has.
    fn contents_denied(&self, folder: &RelPath, shown: &str) -> Option<Denial> {
        if folder.is_root() { None } else { self.read_denied(&folder.child("any")?, shown) }
    }

    /// Judges the directory where a search starts and the patterns that select files.
    pub(crate) fn search(&self, root: &Path, patterns: &[String]) -> Result<(Resolved, Place), Denial> {
        let base = RelPath::root();
        let (resolved, place) = self.inside(&base, root)?;
        let shown = root.to_string_lossy();
        if let Place::Workspace(path) | Place::Included(path) = &place {
            if resolved.node == Some(Node::Dir) || resolved.node.is_none() {
                let denied = self.read_denied(path, &shown).or_else(|| self.contents_denied(path, &shown));
                if let Some(denial) = denied {
                    return Err(Denial { rule: denial.rule, ..Denial::new(denial.reason) });
                }
            } else {
                self.read_resolved(&resolved, &place, &shown)?;
            }
        }
        for pattern in patterns {
            for one in braces(pattern).ok_or_else(|| Denial::new("too many braces in a pattern").by("F8"))? {
                self.pattern(&resolved.absolute, &one, pattern)?;
            }
        }
        Ok((resolved, place))
    }

    // A pattern may not leave the workspace, nor name what is denied; that `*` would match it does not count.
    fn pattern(&self, start: &Path, pattern: &str, shown: &str) -> Result<(), Denial> {
        if pattern.chars().any(char::is_control) || pattern.is_empty() {
            return Err(Denial::new("an empty pattern, or one with a control character").by("F7"));
        }
        let pattern = pattern.strip_prefix('!').unwrap_or(pattern);
        let components: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let is_wild = |part: &&str| part.contains(['*', '?', '[']);
        let literal = components.iter().take_while(|part| !is_wild(part)).count();
        if components[literal..].contains(&"..") {
            let reason = format!("the pattern `{shown}` has `..` after a wildcard");
            return Err(Denial::new(reason).by("F8"));
        }
        let prefix = components[..literal].join("/");
        let text = if pattern.starts_with('/') { PathBuf::from(format!("/{prefix}")) } else { start.join(&prefix) };
        let (_, place) = self
            .inside(&RelPath::root(), &text)
            .map_err(|denial| Denial { reason: format!("the pattern `{shown}`: {}", denial.reason), ..denial })?;
        if let Place::Workspace(path) | Place::Included(path) = place {
            let denied = self
                .read_denied(&path, shown)
                .or_else(|| (literal < components.len()).then(|| self.contents_denied(&path, shown)).flatten());
            if let Some(denial) = denied {
                return Err(denial);
            }
            if literal == components.len() {
                self.read(&RelPath::root(), &text)?;
            }
        }
        for part in &components[literal..] {
            if names_secret(part) {
                return Err(Denial::new(format!("the pattern `{shown}` names files that are never read")).by("F8"));
            }
        }
        Ok(())
    }

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
            self.may("create", |layer| layer.create, &shown)?;
        }
        Ok((resolved, place))
    }

    fn may(&self, what: &str, key: impl Fn(&Layer) -> Option<bool>, shown: &str) -> Result<(), Denial> {
        match self.layers.iter().find(|layer| key(layer) == Some(false)) {
            Some(layer) => {
                let reason = format!("`{shown}`: `paths.write.{what}` is false in {}", layer.source);
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
        self.may("delete", |layer| layer.delete, &shown)
    }

    // The parent's links are followed, the last part is not: removing a link removes the link.
    pub(crate) fn unfollowed(&self, folder: &RelPath, path: &Path) -> Result<PathBuf, Denial> {
        let trimmed = trim_slashes(path.as_os_str().as_bytes());
        let split = trimmed.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = match split {
            Some(0) => (b"/".as_slice(), &trimmed[1..]),
            Some(at) => (&trimmed[..at], &trimmed[at + 1..]),
            None => (b".".as_slice(), trimmed),
        };
        let whole = self.resolve(folder, path)?;
        if name.is_empty() || name == b"." || name == b".." {
            return Ok(whole.absolute);
        }
        let parent = self.resolve(folder, Path::new(OsStr::from_bytes(parent)))?;
        Ok(parent.absolute.join(OsStr::from_bytes(name)))
    }

    /// Judges a write by the path alone: protected names, deny rules, allow rules of every layer.
    pub(crate) fn write_allowed(&self, path: &RelPath, shown: &str) -> Result<(), Denial> {
        if let Some(denial) = self.write_denied(path, shown) {
            return Err(denial);
        }
        let text = path.to_string_lossy();
        for layer in self.layers {
            let matches = |allow: &[super::layers::Located<Glob>]| {
                allow.iter().any(|glob| glob.value.is_match(&text) || (path.is_root() && glob.value.text() == "**"))
            };
            match &layer.write_allow {
                Some(allow) if matches(allow) => {}
                None if !layer.grants => {}
                Some(allow) => {
                    let globs: Vec<_> = allow.iter().map(|glob| glob.value.text()).collect();
                    let denial =
                        Denial::new(format!("no rule of `paths.write.allow` in {} matches `{shown}`", layer.source));
                    return Err(denial.hint(format!("writes are allowed to {}", globs.join(", "))));
                }
                None => {
                    let denial = Denial::new(format!("{} allows no writes: `{shown}`", layer.source));
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
        let rules = self.layers.iter().flat_map(|layer| layer.write_deny.iter().chain(&layer.protected_add));
        let rule = rules.into_iter().find(|rule| rule.value.covers_folded(&folded))?;
        let reason = format!("`{shown}` matches `{}`, which may not be written", rule.value.text());
        Some(Denial::new(reason).by_rule(rule.rule.clone()))
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
        let rules = self.layers.iter().flat_map(|layer| layer.write_deny.iter().chain(&layer.protected_add));
        match rules.into_iter().find(|rule| literal_prefix(rule.value.text()).starts_with(first)) {
            Some(rule) => {
                let reason = format!("a name that begins with `{start}` may match `{}`", rule.value.text());
                Err(Denial::new(reason).by_rule(rule.rule.clone()))
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
        let rules = self.layers.iter().flat_map(|layer| layer.write_deny.iter().chain(&layer.protected_add));
        for rule in rules {
            let prefix = literal_prefix(rule.value.text());
            if !prefix.is_empty() && (folded.is_empty() || prefix.starts_with(&format!("{folded}/"))) {
                let reason = format!("`{}` below `{shown}` may not be written", rule.value.text());
                return Err(Denial::new(reason).by_rule(rule.rule.clone()));
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

    /// Judges a directory that a build keeps its own files in: inside and not protected.
    pub(crate) fn own_folder(&self, folder: &RelPath, path: &Path) -> Result<(), Denial> {
        let (_, place) = self.inside(folder, path)?;
        let shown = path.to_string_lossy();
        match place {
            Place::Workspace(path) => self.write_denied(&path, &shown).map_or(Ok(()), Err),
            Place::Included(_) | Place::Outputs(_) => Err(self.outside(&shown)),
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

    /// Judges one effect of a command from each of the directories it may run in; what it reads may be a directory.
    pub(crate) fn effect(&self, effect: &Effect, folders: &[RelPath]) -> Result<(), Denial> {
        let (root, at) = ([RelPath::root()], Path::new(effect.path()));
        for folder in if folders.is_empty() { root.as_slice() } else { folders } {
            match effect {
                Effect::Read(_) if self.read(folder, at)?.0.node != Some(Node::Dir) => {}
                Effect::Read(_) => self.name_only(folder, at)?,
                Effect::ReadTree { path, follow_links, left_out, only, skips_hidden } => {
                    let tree =
                        TreeRead { path, follow_links: *follow_links, left_out, only, skips_hidden: *skips_hidden };
                    self.read_tree(folder, &tree)?;
                }
                Effect::List(_) => self.list(folder, at).map(drop)?,
                Effect::Write(_) => self.write(folder, at).map(drop)?,
                Effect::Delete(_) => self.delete(folder, at)?,
                Effect::WriteTree(_) => self.write_tree(folder, at)?,
                Effect::DeleteTree(_) => self.delete(folder, at).and(self.write_tree(folder, at))?,
                Effect::Enter(path) => self.enter(folder, path).map(|_| ())?,
            }
        }
        Ok(())
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

/// A recursive read, as [`Effect::ReadTree`] has it.
pub(crate) struct TreeRead<'a> {
    pub(crate) path: &'a str,
    pub(crate) follow_links: bool,
    pub(crate) left_out: &'a [Pattern],
    pub(crate) only: &'a [Pattern],
    pub(crate) skips_hidden: bool,
}

// A pattern of a program, compiled.
struct Sieve {
    glob: globset::GlobMatcher,
    pattern: Pattern,
    by_path: bool,
}

impl Sieve {
    /// `keeps`: it says what is read, and not what is left out.
    fn new(pattern: &Pattern, keeps: bool) -> Result<Sieve, Denial> {
        let (Pattern::File(text)
        | Pattern::Directory(text)
        | Pattern::Name(text)
        | Pattern::PathEnd(text)
        | Pattern::Ignore(text)) = pattern;
        let unclear = || Denial::new(format!("the pattern `{text}` cannot be analysed"));
        // Classes of letters have names there, and not here.
        if ["[:", "[.", "[="].iter().any(|class| text.contains(class)) {
            return Err(unclear());
        }
        let ignore = matches!(pattern, Pattern::Ignore(_));
        let plain = match pattern {
            Pattern::Directory(_) | Pattern::Ignore(_) => text.trim_end_matches('/'),
            Pattern::File(_) | Pattern::Name(_) | Pattern::PathEnd(_) => text,
        };
        let by_path = ignore && plain.contains('/');
        let glob = if ignore {
            plain.trim_start_matches('/').to_owned()
        } else if plain.contains(['{', '}']) {
            if plain.contains('[') {
                return Err(unclear());
            }
            plain.replace('{', "[{]").replace('}', "[}]")
        } else {
            plain.to_owned()
        };
        let slashes = !matches!(pattern, Pattern::PathEnd(_));
        // Such a pattern may be one that knows no case (`--iglob`): what it may read counts.
        let mut builder = globset::GlobBuilder::new(&glob);
        let builder = builder.literal_separator(slashes).case_insensitive(ignore && keeps);
        let glob = builder.build().map_err(|_| unclear())?;
        Ok(Sieve { glob: glob.compile_matcher(), pattern: pattern.clone(), by_path })
    }

    /// `shown` is the path as the program sees it: its operand first, or relative to the directory that it works in. If
    /// that is unknown, `unknown` is the answer for a pattern on paths.
    fn is_match(&self, shown: Option<&str>, name: &str, is_folder: bool, unknown: bool) -> bool {
        match &self.pattern {
            Pattern::File(_) => !is_folder && self.glob.is_match(name),
            Pattern::Directory(_) => is_folder && self.glob.is_match(name),
            Pattern::Name(_) => self.glob.is_match(name),
            Pattern::PathEnd(_) => shown.map_or(unknown, |shown| {
                let ends = shown.match_indices('/').map(|(at, _)| &shown[at + 1..]);
                std::iter::once(shown).chain(ends).any(|end| self.glob.is_match(end))
            }),
            Pattern::Ignore(text) if text.ends_with('/') && !is_folder => false,
            Pattern::Ignore(_) if self.by_path => {
                shown.map_or(unknown, |shown| self.glob.is_match(shown.strip_prefix("./").unwrap_or(shown)))
            }
            Pattern::Ignore(_) => self.glob.is_match(name),
        }
    }
}

/// A tree in which a directory that is closed to us is empty: it is closed to every command, too.
struct Open<'t>(&'t dyn Tree);

impl Tree for Open<'_> {
    fn look(&self, path: &Path) -> std::io::Result<Option<Node>> {
        match self.0.look(path) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
            node => node,
        }
    }

    fn names(&self, path: &Path) -> std::io::Result<Vec<OsString>> {
        match self.0.names(path) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(Vec::new()),
            names => names,
        }
    }
}

/// Visits everything from a path down, links not followed; the visitor says whether to go below a directory.
pub(crate) fn walk(
    tree: &dyn Tree,
    root: &Path,
    start: &RelPath,
    left: &mut usize,
    visit: &mut dyn FnMut(&RelPath, &Node) -> Result<bool, Denial>,
) -> Result<(), Denial> {
    let mut pending = vec![start.clone()];
    while let Some(path) = pending.pop() {
        *left = left.checked_sub(1).ok_or_else(|| Denial::new("it contains too many files to check each"))?;
        let absolute = path.under(root);
        let failed = |error: std::io::Error| Denial::new(format!("{} cannot be checked: {error}", absolute.display()));
        let Some(node) = tree.look(&absolute).map_err(failed)? else { continue };
        if visit(&path, &node)? && node == Node::Dir {
            let names = tree.names(&absolute).map_err(failed)?;
            pending.extend(names.iter().rev().filter_map(|name| path.child(name)));
        }
    }
    Ok(())
}

fn parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let parts = bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.map(<[u8]>::to_vec).collect()
}

fn trim_slashes(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(usize::from(!bytes.is_empty()), |at| at + 1);
    &bytes[..end]
}

fn strip_tail(absolute: &Path, tail: &RelPath) -> PathBuf {
    let mut base = absolute.to_path_buf();
    for _ in tail.components() {
        base.pop();
    }
    base
}

fn literal_prefix(glob: &str) -> String {
    let parts = glob.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\']));
    parts.map(fold_name).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests;
