//! Lists the programs that a repository's configuration lets git start for files: filters, diff and merge drivers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::filters::{has_lfs, is_lfs};
use super::repository::{Repository, SMALL};
use super::{Git, GitError};
use crate::bounded;

/// The keys of each kind that name a program, with the attribute that selects a driver.
const PROGRAMS: [(&str, &[&str], &str); 3] = [
    ("filter", &["clean", "smudge", "process"], "filter"),
    ("diff", &["textconv", "command"], "diff"),
    ("merge", &["driver"], "merge"),
];

/// Returns the drivers that the repository's own configuration names and its attributes select, as `filter.NAME`.
///
/// `filter.lfs` is not among them where it starts what `git lfs install` writes, Git LFS is installed, and the repository
/// names no program for it. What cannot be found out counts as picked. Without such a section nothing is started.
pub fn drivers(repository: &Repository) -> Vec<String> {
    if !mentions_drivers(repository) {
        return Vec::new();
    }
    let git = repository.git();
    let arguments = ["config", "--show-scope", "--includes", "-z", "--get-regexp"];
    let listed = match git.run(&[&arguments[..], &[r"^(filter|diff|merge)\."]].concat(), b"") {
        Ok(listed) => listed,
        // Exit status 1 without a message: there is none.
        Err(GitError::Failed { message, .. }) if message.starts_with("exit status") => return Vec::new(),
        Err(error) => return vec![format!("a driver that cannot be read ({error})")],
    };
    let words: Vec<String> =
        listed.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let attributes = attributes(repository, &git);
    let has_lfs = has_lfs(repository);
    let mut found = BTreeSet::new();
    for pair in words.chunks(2) {
        // The user chose what the user's own configuration names.
        let [scope, setting] = pair else { continue };
        let (key, value) = setting.split_once('\n').unwrap_or((setting, ""));
        if scope != "local" && scope != "worktree" {
            continue;
        }
        if key == "merge.default" {
            found.insert(key.to_owned());
            continue;
        }
        for (kind, programs, attribute) in PROGRAMS {
            let Some((name, program)) =
                key.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.')?.rsplit_once('.'))
            else {
                continue;
            };
            let picked = |text: &String| text.contains(&format!("{attribute}={name}"));
            let is_meant = programs.contains(&program)
                && !(kind == "filter" && name == "lfs" && has_lfs && is_lfs(value))
                && attributes.as_ref().is_none_or(|texts| texts.iter().any(picked));
            if is_meant {
                found.insert(format!("{kind}.{name}"));
            }
        }
    }
    found.into_iter().collect()
}

/// Searches for the sections as text, so that most repositories need no process.
pub(super) fn mentions_drivers(repository: &Repository) -> bool {
    let files = [repository.common_dir.join("config"), repository.git_dir.join("config.worktree")];
    files.iter().any(|file| match bounded::optional(bounded::regular(file, SMALL)) {
        Ok(Some(text)) => {
            let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
            ["[filter", "[diff", "[merge", "[include"].iter().any(|section| text.contains(section))
        }
        Ok(None) => false,
        Err(_) => true,
    })
}

/// Returns the text of every attributes file; `None` where one cannot be read.
fn attributes(repository: &Repository, git: &Git) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "-c", "-o", "--", ":(top,glob)**/.gitattributes"];
    let listed = git.clone().with_patterns().run(&arguments, b"").ok()?;
    let mut files: Vec<PathBuf> = listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| repository.top.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name)))
        .collect();
    files.push(repository.common_dir.join("info/attributes"));
    match git.line(&["config", "--type=path", "core.attributesFile"], b"") {
        Ok(file) => files.push(repository.top.join(file)),
        Err(GitError::Failed { .. }) => {}
        Err(_) => return None,
    }
    let read = |file: &PathBuf| match bounded::regular(file, SMALL) {
        Ok(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        Err(_) if file.ends_with("info/attributes") => Some(String::new()),
        // Deleted in the tree and still in the index: git reads it there.
        Err(_) => None,
    };
    files.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::super::programs::Programs;
    use super::*;

    fn found(config: &[(&str, &str)], attributes: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let git = Git::new(&top);
        git.run(&["init", "-q"], b"").unwrap();
        for (key, value) in config {
            git.run(&["config", key, value], b"").unwrap();
        }
        for (path, text) in attributes {
            std::fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
            std::fs::write(top.join(path), text).unwrap();
        }
        let bin = top.with_extension("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("git-lfs"), "").unwrap();
        std::fs::set_permissions(bin.join("git-lfs"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", bin.display());
        let mut repository = Repository::discover(Path::new(&top)).unwrap().unwrap();
        repository.programs =
            Programs::new(Some(path.as_ref()), &crate::checkouts::Around::new(top.as_ref(), Path::new("."), None));
        let found = drivers(&repository);
        std::fs::remove_dir_all(bin).unwrap();
        found
    }

    #[test]
    fn a_driver_counts_where_an_attribute_picks_it() {
        let evil = [("filter.evil.clean", "touch x"), ("diff.evil.textconv", "touch x"), ("merge.evil.driver", "x")];
        let none: [&str; 0] = [];
        assert_eq!(found(&[], &[(".gitattributes", "* filter=evil\n")]), none);
        assert_eq!(found(&evil, &[]), none);
        assert_eq!(found(&evil, &[(".gitattributes", "* filter=evil\n")]), ["filter.evil"]);
        assert_eq!(found(&evil, &[("a/b/.gitattributes", "*.c diff=evil merge=evil\n")]), ["diff.evil", "merge.evil"]);
        assert_eq!(found(&evil, &[(".git/info/attributes", "[attr]x diff=evil\n* x\n")]), ["diff.evil"]);
        let lfs = [("filter.lfs.clean", "git-lfs clean -- %f")];
        assert_eq!(found(&lfs, &[(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")]), none);
        for key in ["alias.lfs", "lfs.extension.x.clean", "lfs.customtransfer.x.path"] {
            let chosen = [lfs[0], (key, "!evil")];
            assert_eq!(found(&chosen, &[(".gitattributes", "*.bin filter=lfs\n")]), ["filter.lfs"], "{key}");
        }
        let named_so = [("filter.lfs.clean", "sh x"), ("filter.lfs.process", "git-lfs filter-process; sh x")];
        assert_eq!(found(&named_so, &[(".gitattributes", "*.bin filter=lfs\n")]), ["filter.lfs"]);
        assert_eq!(found(&[("merge.default", "evil")], &[]), ["merge.default"]);
        assert_eq!(found(&[("diff.algorithm", "histogram")], &[(".gitattributes", "* diff=cpp\n")]), none);
    }

    #[test]
    fn an_included_file_counts_too() {
        let folder = tempfile::tempdir().unwrap();
        let include = folder.path().join("more");
        std::fs::write(&include, "[diff \"evil\"]\n\tcommand = touch x\n").unwrap();
        let include = include.display().to_string();
        assert_eq!(found(&[("include.path", &include)], &[(".gitattributes", "* diff=evil\n")]), ["diff.evil"]);
    }
}
