//! Prints a change set as a patch that `git apply` accepts, byte for byte.
//!
//! Needs no repository. A rename, and a file that becomes a link, are shown as a deletion and an addition.

use sha2::{Digest, Sha256};

use super::binary;
use super::change_set::{Change, ChangeSet, Entry};
use super::diff::{CONTEXT, LineDiff, is_binary, text_of};
use super::git_name;
use crate::base::digest::hex;
use crate::path::RelPath;

/// What a repository names its objects by; `git apply` checks the names of binary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ObjectFormat {
    /// The usual one.
    #[default]
    Sha1,
    /// `extensions.objectFormat = sha256`.
    Sha256,
}

impl ObjectFormat {
    /// Returns the name of a blob in hexadecimal.
    pub fn blob(self, content: &[u8]) -> String {
        match self {
            ObjectFormat::Sha1 => git2::Oid::hash_object(git2::ObjectType::Blob, content)
                .expect("libgit2 hashes bytes in memory")
                .to_string(),
            ObjectFormat::Sha256 => {
                let mut hash = Sha256::new();
                hash.update(format!("blob {}\0", content.len()));
                hash.update(content);
                hex(&hash.finalize())
            }
        }
    }

    /// Returns the name for a missing file.
    pub fn zero(self) -> String {
        "0".repeat(match self {
            ObjectFormat::Sha1 => 40,
            ObjectFormat::Sha256 => 64,
        })
    }
}

/// Returns the patch of a whole change set; empty if nothing is changed.
///
/// `prefix` is the workspace's directory in its repository: names in the patch are relative to the repository.
///
/// ```
/// use qwen_run::change::{ChangeSet, Entry, patch};
/// use qwen_run::path::RelPath;
/// let mut changes = ChangeSet::default();
/// changes.stage(RelPath::new("a").unwrap(), || Entry::file("1\n"), Entry::file("2\n"));
/// let text = patch::print(&changes, &RelPath::root(), patch::ObjectFormat::Sha1);
/// assert!(text.ends_with(b"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"));
/// ```
pub fn print(changes: &ChangeSet, prefix: &RelPath, format: ObjectFormat) -> Vec<u8> {
    let mut out = Vec::new();
    // Deletions first: a directory may take the place of a file, and a file that of a directory.
    for deletions in [true, false] {
        for (path, change) in changes.iter() {
            let name = name_in_repository(prefix, path);
            for part in parts(change).into_iter().filter(|part| (part.1 == &Entry::Absent) == deletions) {
                print_part(&name, part, format, &mut out);
            }
        }
    }
    out
}

/// Returns a path of the workspace as the repository names it.
pub fn name_in_repository(prefix: &RelPath, path: &RelPath) -> Vec<u8> {
    let mut name = prefix.as_bytes().to_vec();
    if !name.is_empty() {
        name.push(b'/');
    }
    name.extend_from_slice(path.as_bytes());
    name
}

/// A change of type is a deletion and an addition.
fn parts(change: &Change) -> Vec<(&Entry, &Entry)> {
    let (before, after) = (&change.before, &change.after);
    match (before, after) {
        (Entry::File { .. }, Entry::Link { .. }) | (Entry::Link { .. }, Entry::File { .. }) => {
            vec![(before, &Entry::Absent), (&Entry::Absent, after)]
        }
        (Entry::Absent, _)
        | (_, Entry::Absent)
        | (Entry::File { .. }, Entry::File { .. })
        | (Entry::Link { .. }, Entry::Link { .. }) => vec![(before, after)],
    }
}

/// Returns git's mode of an entry; `None` if nothing is there.
pub fn mode(entry: &Entry) -> Option<&'static str> {
    match entry {
        Entry::Absent => None,
        Entry::File { executable: false, .. } => Some("100644"),
        Entry::File { executable: true, .. } => Some("100755"),
        Entry::Link { .. } => Some("120000"),
    }
}

fn print_part(name: &[u8], (before, after): (&Entry, &Entry), format: ObjectFormat, out: &mut Vec<u8>) {
    let (old, new) = (text_of(before), text_of(after));
    let object = |entry: &Entry| match entry {
        Entry::Absent => format.zero(),
        Entry::File { content, .. } => format.blob(content),
        Entry::Link { target } => format.blob(target),
    };
    let (old_name, new_name) = ([b"a/", name].concat(), [b"b/", name].concat());

    out.extend_from_slice(b"diff --git ");
    git_name::quote(&old_name, out);
    out.push(b' ');
    git_name::quote(&new_name, out);
    out.push(b'\n');
    let mut same_mode = String::new();
    match (mode(before), mode(after)) {
        (None, Some(mode)) => out.extend_from_slice(format!("new file mode {mode}\n").as_bytes()),
        (Some(mode), None) => out.extend_from_slice(format!("deleted file mode {mode}\n").as_bytes()),
        (Some(old), Some(new)) if old != new => {
            out.extend_from_slice(format!("old mode {old}\nnew mode {new}\n").as_bytes());
        }
        (Some(mode), Some(_)) => same_mode = format!(" {mode}"),
        (None, None) => {}
    }
    let is_kept = before != &Entry::Absent && after != &Entry::Absent;
    if is_kept && old == new {
        return;
    }
    out.extend_from_slice(format!("index {}..{}{same_mode}\n", object(before), object(after)).as_bytes());
    if is_binary(old) || is_binary(new) {
        out.extend_from_slice(b"GIT binary patch\n");
        binary::write_literal(new, out);
        binary::write_literal(old, out);
    } else if old != new {
        print_side(b"--- ", (before != &Entry::Absent).then_some(&old_name), out);
        print_side(b"+++ ", (after != &Entry::Absent).then_some(&new_name), out);
        LineDiff::new(old, new).write_hunks(CONTEXT, out);
    }
}

fn print_side(mark: &[u8], name: Option<&Vec<u8>>, out: &mut Vec<u8>) {
    out.extend_from_slice(mark);
    match name {
        None => out.extend_from_slice(b"/dev/null"),
        Some(name) => {
            let start = out.len();
            git_name::quote(name, out);
            // A tab ends a name that contains spaces: what follows could be read as a date.
            if out[start] != b'"' && name.contains(&b' ') {
                out.push(b'\t');
            }
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;
    use crate::change::arbitrary::{Files, changes, content, files, read, write};
    use crate::change::patch_reader::{Body, Patch};

    fn git_apply(root: &Path, patch: &[u8]) -> Result<(), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), patch).unwrap();
        let output = Command::new("git")
            .args(["apply", "--allow-empty", "--whitespace=nowarn"])
            .arg(file.path())
            .current_dir(root)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("GIT_CEILING_DIRECTORIES", root.parent().unwrap())
            .output()
            .unwrap();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    proptest! {
        #![proptest_config(crate::properties::tried(96))]
        #[test]
        fn git_apply_makes_the_same_tree_as_the_change_set(before in files(), after in files()) {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), &before);
            let patch = print(&changes(&before, &after), &RelPath::root(), ObjectFormat::Sha1);
            let applied = git_apply(folder.path(), &patch);
            prop_assert!(applied.is_ok(), "{}\n{}", applied.unwrap_err(), String::from_utf8_lossy(&patch));
            let mut found = Files::new();
            read(folder.path(), &RelPath::root(), &mut found);
            prop_assert_eq!(found, after, "{}", String::from_utf8_lossy(&patch));
        }
    }

    proptest! {
        #[test]
        fn a_printed_patch_is_read_and_applied_to_the_same_change_set(before in files(), after in files()) {
            let changes = changes(&before, &after);
            let patch = Patch::parse(&print(&changes, &RelPath::root(), ObjectFormat::Sha1)).unwrap();
            let look = |path: &RelPath| Ok(before.get(path).cloned().unwrap_or(Entry::Absent));
            prop_assert_eq!(patch.apply(&look, ObjectFormat::Sha1).unwrap(), changes);
        }

        #[test]
        fn the_places_of_files_and_hunks_are_the_whole_patch(before in files(), after in files()) {
            let text = print(&changes(&before, &after), &RelPath::root(), ObjectFormat::Sha1);
            let (patch, places) = Patch::parse_with_places(&text).unwrap();
            prop_assert_eq!(patch.files.len(), places.len());
            let mut end = 0;
            for (file, place) in patch.files.iter().zip(places) {
                prop_assert_eq!(place.whole.start, end);
                end = place.whole.end;
                prop_assert_eq!(&Patch::parse(&text[place.whole]).unwrap().files, std::slice::from_ref(file));
                if let Body::Text(hunks) = &file.body {
                    prop_assert_eq!(hunks.len(), place.hunks.len());
                }
                prop_assert!(place.hunks.iter().all(|hunk| text[hunk.clone()].starts_with(b"@@ -")));
            }
            prop_assert_eq!(end, text.len());
        }

        #[test]
        fn a_patch_for_another_content_is_refused(before in content(), after in content(), other in content()) {
            let path = RelPath::new("a").unwrap();
            let mut changes = ChangeSet::default();
            changes.stage(path.clone(), || Entry::file(before.clone()), Entry::file(after.clone()));
            let patch = Patch::parse(&print(&changes, &RelPath::root(), ObjectFormat::Sha1)).unwrap();
            if let Ok(applied) = patch.apply(&|_| Ok(Entry::file(other.clone())), ObjectFormat::Sha1) {
                // Text may differ outside the hunks; within them it cannot.
                let counts = |a: &[u8], b: &[u8]| LineDiff::new(a, b).counts();
                if let Some(Entry::File { content, .. }) = applied.staged(&path) {
                    prop_assert_eq!(
                        i64::try_from(content.len()).unwrap() - i64::try_from(other.len()).unwrap(),
                        i64::try_from(after.len()).unwrap() - i64::try_from(before.len()).unwrap()
                    );
                } else {
                    prop_assert_eq!(counts(&before, &after).added, counts(&before, &after).removed);
                }
            }
        }
    }

    #[test]
    fn names_are_relative_to_the_repository() {
        let mut changes = ChangeSet::default();
        changes.stage(RelPath::new("b c").unwrap(), || Entry::Absent, Entry::file("1\n"));
        let patch = print(&changes, &RelPath::new("sub/dir").unwrap(), ObjectFormat::Sha1);
        insta::assert_snapshot!(String::from_utf8(patch).unwrap().replace('\t', "<TAB>"), @r"
        diff --git a/sub/dir/b c b/sub/dir/b c
        new file mode 100644
        index 0000000000000000000000000000000000000000..d00491fd7e5bb6fa28c517a0bb32b8b506539d4d
        --- /dev/null
        +++ b/sub/dir/b c<TAB>
        @@ -0,0 +1 @@
        +1
        ");
    }

    #[test]
    fn objects_are_named_as_git_names_them() {
        assert_eq!(ObjectFormat::Sha1.blob(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(ObjectFormat::Sha256.blob(b""), "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813");
    }
}
