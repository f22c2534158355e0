//! Reads a change under review from git.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use crate::git::Git;
use crate::path::RelPath;
use crate::recipe::file::DiffKind;
use crate::run::error::{Failure, InputProblem};
use crate::run::recipe::from_hook::{git_of, is_generated};
use crate::run::recipe::gather::{Gatherer, failure};
use crate::verify::findings;
use crate::verify::local::{self, Changed};
use crate::verify::review::{Class, Review};

/// The tree without files, for a repository without a commit.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Options that neither the user's configuration nor the repository's can alter.
const TEXT: [&str; 8] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--find-renames",
    "--no-indent-heuristic",
    "-U3",
];

impl Gatherer<'_> {
    /// Asks git for a change. Files that must not be read, are outside the workspace or are written by programs are left
    /// out, and named below it. Its paths are relative to the workspace.
    pub(super) fn diff(&self, name: &str, kind: DiffKind, range: Option<&str>) -> Result<(String, Review), Failure> {
        let repository = self.repository.ok_or_else(|| failure(name, InputProblem::NoRepository))?;
        let failed = |error: String| failure(name, InputProblem::Diff(error));
        let git = repository.without_filters().map_err(|error| failed(error.to_string()))?;
        let git = git_of(git, self.from_hook).with_patterns();
        let (git, _index) = match kind {
            DiffKind::Worktree | DiffKind::Range => {
                let with_own = repository.with_private_index(git).map_err(|error| failed(error.to_string()))?;
                (with_own.0, Some(with_own.1))
            }
            DiffKind::Staged => (git, None),
        };
        let mut base: Vec<String> = match (kind, range) {
            (DiffKind::Staged, _) => vec!["--cached".into()],
            (DiffKind::Worktree, _) => vec![repository.head.clone().unwrap_or_else(|| EMPTY_TREE.into())],
            (DiffKind::Range, Some(range)) => {
                require_commits(&git, range).map_err(failed)?;
                vec!["--end-of-options".into(), range.to_owned()]
            }
            (DiffKind::Range, None) => return Err(failed("`diff: range` without a range".into())),
        };
        base.push("--".into());
        let run = |options: &[&str], paths: &[OsString]| {
            let mut arguments: Vec<OsString> = vec!["diff".into()];
            arguments.extend(options.iter().map(OsString::from));
            arguments.extend(base.iter().map(OsString::from));
            arguments.extend_from_slice(paths);
            git.run(&arguments, b"").map_err(|error| failed(error.to_string()))
        };
        let raw = run(&["--raw", "-z", "--abbrev=40", "--no-renames", "--no-ext-diff", "--no-textconv"], &[])?;
        let files = local::changed(&raw);
        let mut review = Review { right: right(kind, range), ..Review::default() };
        let mut paths = vec![OsString::from(":(top)")];
        for (file, path, class) in files.iter().map(|file| self.classed(&repository.prefix, file)) {
            if class.is_some() {
                paths.push(OsString::from_vec([b":(top,exclude,literal)", file.path.as_slice()].concat()));
            }
            review.coverage.count(&path, file.status, class);
        }
        let relative = format!("--relative={}/", repository.prefix);
        let mut options = TEXT.to_vec();
        options.extend((!repository.prefix.is_root()).then_some(relative.as_str()));
        let is_shown = review.coverage.looked_at > 0;
        let mut text =
            if is_shown { String::from_utf8_lossy(&run(&options, &paths)?).into_owned() } else { String::new() };
        review.side = findings::new_side(&text);
        // A hook has checks of its own, and nobody is there to read a list.
        if self.from_hook.is_none() {
            let files = files.iter().map(|file| self.classed(&repository.prefix, file));
            let inside = files.filter(|(_, _, class)| *class != Some(Class::Outside));
            review.local = inside.flat_map(|(file, path, _)| local::problems(file, &path, &review.side)).collect();
            if is_shown || review.coverage.has_denied() {
                text.push_str(&review.coverage.listing());
            }
        }
        Ok((text, review))
    }

    /// Returns the path of a file as findings name it, and why the model is not shown it.
    fn classed<'f>(&self, prefix: &RelPath, file: &'f Changed) -> (&'f Changed, String, Option<Class>) {
        let top = RelPath::from_bytes(&file.path);
        let inside = top.and_then(|path| RelPath::below(prefix.as_path(), path.as_path()));
        let Some(inside) = inside else {
            return (file, String::from_utf8_lossy(&file.path).into_owned(), Some(Class::Outside));
        };
        let may_read = self.policy.reader(self.facts);
        let class = match may_read(&inside) {
            false => Some(Class::Denied),
            true => is_generated(&file.path).then_some(Class::Generated),
        };
        (file, inside.to_string_lossy(), class)
    }
}

/// Refuses a range of anything but commits and the empty tree: in the tree of a directory, files have other paths than
/// the rules name.
fn require_commits(git: &Git, range: &str) -> Result<(), String> {
    if range.starts_with('-') {
        return Err(format!("`{range}` is an option"));
    }
    let named = git.line(&["rev-parse", "--revs-only", range], b"").map_err(|error| error.to_string())?;
    let ids: Vec<&str> = named.lines().map(|id| id.trim_start_matches('^')).filter(|id| *id != EMPTY_TREE).collect();
    let asked: String = ids.iter().map(|id| format!("{id}^{{}}\n")).collect();
    let kinds = git.line(&["cat-file", "--batch-check=%(objecttype)"], asked.as_bytes());
    let kinds = kinds.map_err(|error| error.to_string())?;
    match named.is_empty() || kinds.lines().any(|kind| kind != "commit") {
        true => Err(format!("`{range}` does not name commits")),
        false => Ok(()),
    }
}

/// Returns where git has the files as they are after the change.
fn right(kind: DiffKind, range: Option<&str>) -> Option<String> {
    match kind {
        DiffKind::Staged => Some(String::new()),
        DiffKind::Worktree => None,
        DiffKind::Range => {
            let range = range?;
            let (_, right) = range.split_once("...").or_else(|| range.split_once(".."))?;
            Some(if right.is_empty() { "HEAD" } else { right }.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_after_a_change_are_those_of_its_right_side() {
        for (range, side) in [("a...b/c", Some("b/c")), ("v1..", Some("HEAD")), ("a..b", Some("b")), ("v1", None)] {
            assert_eq!(right(DiffKind::Range, Some(range)).as_deref(), side, "{range}");
        }
        assert_eq!((right(DiffKind::Worktree, None), right(DiffKind::Staged, None)), (None, Some(String::new())));
    }
}
