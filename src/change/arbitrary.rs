//! Generates trees of files for property tests, with odd names and odd contents.

use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::change_set::{ChangeSet, Entry};
use crate::path::RelPath;

/// Every file of a tree.
pub(crate) type Files = BTreeMap<RelPath, Entry>;

const NAMES: [&[u8]; 12] = [
    b"a",
    b"b c",
    "\u{e9}\u{df}".as_bytes(),
    b"q\"uote",
    b"new\nline",
    b"tab\tname",
    b"dir",
    b"dir/x",
    b"dir/y z/w",
    b"-dash",
    b"back\\slash ",
    b"\xff\xfe.bin",
];

pub(crate) fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => Just(b"line\n".to_vec()),
        4 => Just(b"other line\n".to_vec()),
        2 => Just(b"\n".to_vec()),
        2 => Just(b"crlf\r\n".to_vec()),
        1 => Just(b"lone\rcr".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"-- \n".to_vec()),
        1 => Just(b"@@ -1 +1 @@\n".to_vec()),
        1 => Just(b"latin \xe9\n".to_vec()),
        1 => Just(b"\\ No newline at end of file\n".to_vec()),
        1 => Just(b"no end".to_vec()),
    ];
    let text = proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat());
    prop_oneof![
        8 => text,
        1 => proptest::collection::vec(any::<u8>(), 1..200).prop_map(|mut bytes| { bytes.push(0); bytes }),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        4 => Just(Entry::Absent),
        6 => (content(), any::<bool>())
            .prop_map(|(content, executable)| Entry::File { content: content.into(), executable }),
        1 => "[a-z ]{1,9}".prop_map(|target| Entry::Link { target: target.into_bytes() }),
    ]
}

/// A tree that a disk can hold: nothing is below a file.
pub(crate) fn files() -> impl Strategy<Value = Files> {
    proptest::collection::vec(entry(), NAMES.len()).prop_map(|entries| {
        let mut files: Files = Files::new();
        for (name, entry) in NAMES.iter().zip(entries) {
            let path = RelPath::from_bytes(name).unwrap();
            let fits = !files.keys().any(|known| path.is_under(known));
            if entry != Entry::Absent && fits {
                files.insert(path, entry);
            }
        }
        files
    })
}

pub(crate) fn changes(before: &Files, after: &Files) -> ChangeSet {
    let mut changes = ChangeSet::default();
    let at = |files: &Files, path: &RelPath| files.get(path).cloned().unwrap_or(Entry::Absent);
    for path in before.keys().chain(after.keys()) {
        changes.stage(path.clone(), || at(before, path), at(after, path));
    }
    changes
}

pub(crate) fn write(root: &Path, files: &Files) {
    for (path, entry) in files {
        let at = path.under(root);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        match entry {
            Entry::Absent => {}
            Entry::File { content, executable } => {
                std::fs::write(&at, content).unwrap();
                let mode = if *executable { 0o755 } else { 0o644 };
                std::fs::set_permissions(&at, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            Entry::Link { target } => symlink(std::ffi::OsStr::from_bytes(target), &at).unwrap(),
        }
    }
}

pub(crate) fn read(root: &Path, folder: &RelPath, files: &mut Files) {
    for entry in std::fs::read_dir(folder.under(root)).unwrap() {
        let path = folder.child(entry.unwrap().file_name()).unwrap();
        let at = path.under(root);
        let metadata = at.symlink_metadata().unwrap();
        if metadata.is_dir() {
            read(root, &path, files);
        } else if metadata.is_symlink() {
            let target = std::fs::read_link(&at).unwrap().into_os_string().into_vec();
            files.insert(path, Entry::Link { target });
        } else {
            let executable = metadata.permissions().mode() & 0o100 != 0;
            files.insert(path, Entry::File { content: std::fs::read(&at).unwrap().into(), executable });
        }
    }
}
