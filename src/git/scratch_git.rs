//! A git folder for the lent tree: the real one's history, and everything written to it is dropped with the run.
//!
//! Objects are read from the real repository; index, references and new objects are private. Of the configuration only
//! what decides how files are read is taken: it can hold tokens, and programs to run.

#![expect(clippy::disallowed_methods, reason = "the lent tree gets its git folder here")]

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::bounded;

use super::Git;
use super::repository::Repository;

/// Keys that are taken over as they are.
const KEYS: [&str; 19] = [
    "core.repositoryformatversion",
    "core.filemode",
    "core.ignorecase",
    "core.symlinks",
    "core.precomposeunicode",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.abbrev",
    "core.commentchar",
    "core.quotepath",
    "index.sparse",
    "index.version",
    "user.name",
    "user.email",
    "init.defaultbranch",
    "merge.conflictstyle",
];

/// Makes the folder and returns the folders of the real repository that git reads through it.
///
/// `objects_at` says where its objects are seen, if not at their own place.
pub fn make(repository: &Repository, at: &Path, objects_at: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let (own, common) = (&repository.git_dir, &repository.common_dir);
    for folder in ["objects/info", "objects/pack", "info", "logs"] {
        std::fs::create_dir_all(at.join(folder))?;
    }
    for (from, name) in [
        (own, "HEAD"),
        (own, "index"),
        (own, "ORIG_HEAD"),
        (own, "MERGE_HEAD"),
        (own, "logs/HEAD"),
        (own, "info/sparse-checkout"),
        (common, "packed-refs"),
        (common, "shallow"),
        (common, "info/exclude"),
        (common, "info/attributes"),
    ] {
        copy_file(&from.join(name), &at.join(name))?;
    }
    for entry in std::fs::read_dir(own)? {
        let name = entry?.file_name();
        if name.as_bytes().starts_with(b"sharedindex.") {
            copy_file(&own.join(&name), &at.join(&name))?;
        }
    }
    copy_folder(&common.join("refs"), &at.join("refs"))?;
    copy_folder(&common.join("reftable"), &at.join("reftable"))?;
    // Where references are in tables, a file stands here and says so.
    if !at.join("refs/heads").exists() {
        std::fs::create_dir_all(at.join("refs/heads"))?;
    }

    let objects = common.join("objects");
    let mut alternates = objects_at.unwrap_or(&objects).as_os_str().as_bytes().to_vec();
    alternates.push(b'\n');
    std::fs::write(at.join("objects/info/alternates"), alternates)?;
    std::fs::write(at.join("config"), configuration(common, own))?;
    hide_outside(repository, at)?;

    let mut reads = vec![objects.clone()];
    if let Ok(further) = bounded::regular(&objects.join("info/alternates"), bounded::CONFIG) {
        let path = |line: &[u8]| objects.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(line));
        reads.extend(further.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(path));
    }
    Ok(reads)
}

/// Only the workspace is lent: what the repository holds beside it must not look deleted.
fn hide_outside(repository: &Repository, at: &Path) -> io::Result<()> {
    if repository.prefix.is_root() {
        return Ok(());
    }
    let top = at.parent().unwrap_or(at);
    let git = Git::new(top);
    let names = git.run(&["ls-files", "-z"], b"").map_err(io::Error::other)?;
    let outside: Vec<u8> = names
        .split_inclusive(|byte| *byte == 0)
        .filter(|name| {
            let below = name.strip_prefix(repository.prefix.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'));
            !below
        })
        .flatten()
        .copied()
        .collect();
    git.run(&["update-index", "-z", "--skip-worktree", "--stdin"], &outside).map_err(io::Error::other)?;
    Ok(())
}

fn configuration(common: &Path, own: &Path) -> String {
    let mut text = String::from("[core]\n\tbare = false\n\tcheckStat = minimal\n\ttrustctime = false\n");
    // A commit here is dropped with the run, and the user's own settings are out of reach: anybody's name will do.
    text.push_str("[user]\n\tname = qwen\n\temail = qwen@localhost\n");
    // A worktree's own settings come second, and the later value wins.
    for file in [common.join("config"), own.join("config.worktree")] {
        let Ok(config) = git2::Config::open(&file) else { continue };
        let Ok(entries) = config.entries(None) else { continue };
        let _ = entries.for_each(|entry| {
            // One without a value means yes, and asking for its value panics.
            let value = if entry.has_value() { entry.value() } else { Ok("true") };
            let (Ok(name), Ok(value)) = (entry.name(), value) else { return };
            let lower = name.to_ascii_lowercase();
            let is_taken = KEYS.contains(&lower.as_str())
                || lower.starts_with("extensions.") && lower != "extensions.worktreeconfig"
                || lower.starts_with("branch.") && (lower.ends_with(".merge") || lower.ends_with(".remote"))
                || lower.starts_with("remote.") && (lower.ends_with(".fetch") || lower.ends_with(".promisor"));
            if is_taken {
                text.push_str(&setting(name, value));
            } else if lower.starts_with("remote.") && lower.ends_with(".url") {
                text.push_str(&setting(name, &without_credentials(value)));
            }
        });
    }
    text
}

fn setting(name: &str, value: &str) -> String {
    let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let (section, key) = name.rsplit_once('.').unwrap_or((name, ""));
    match section.split_once('.') {
        Some((section, sub)) => format!("[{section} \"{}\"]\n\t{key} = \"{}\"\n", quote(sub), quote(value)),
        None => format!("[{section}]\n\t{key} = \"{}\"\n", quote(value)),
    }
}

/// Takes name and password out of a URL.
fn without_credentials(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, host)| host);
            format!("{scheme}://{host}{}", &rest[end..])
        }
        None => url.to_owned(),
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    std::fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() { copy_folder(&from, &to)? } else { copy_file(&from, &to)? }
    }
    Ok(())
}

/// Copies a regular file with its time, by which git judges its index; anything else is left out.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(metadata) = from.symlink_metadata() else { return Ok(()) };
    if !metadata.is_file() {
        return Ok(());
    }
    std::fs::copy(from, to)?;
    let copy = std::fs::File::options().append(true).open(to)?;
    copy.set_times(std::fs::FileTimes::new().set_modified(metadata.modified()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_credentials_stay_in_a_url() {
        assert_eq!(without_credentials("https://x:tok@h.example/a@b"), "https://h.example/a@b");
        assert_eq!(without_credentials("git@h.example:a/b"), "git@h.example:a/b");
    }

    #[test]
    fn a_setting_is_quoted() {
        assert_eq!(setting("branch.a\"b.merge", "x\\y"), "[branch \"a\\\"b\"]\n\tmerge = \"x\\\\y\"\n");
    }
}
