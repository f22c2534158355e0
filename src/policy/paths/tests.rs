//! Tests which files may be read and written.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::path::Tree;
use crate::policy::{Facts, Policy};
use crate::workspace::disk::Disk;

/// The disk, and how many directories were listed.
struct Listed(std::sync::atomic::AtomicUsize);

impl Tree for Listed {
    fn look(&self, path: &Path) -> std::io::Result<Option<Node>> {
        Disk.look(path)
    }

    fn names(&self, path: &Path) -> std::io::Result<Vec<std::ffi::OsString>> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Disk.names(path)
    }
}

/// As a package manager's store makes them: each file there has another name elsewhere.
#[test]
fn files_with_several_names_cost_one_look_at_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("store")).unwrap();
    std::fs::write(root.join(".env"), "").unwrap();
    std::fs::hard_link(root.join(".env"), root.join("other")).unwrap();
    for number in 0..20 {
        std::fs::write(root.join(format!("store/{number}")), "").unwrap();
        std::fs::hard_link(root.join(format!("store/{number}")), root.join(number.to_string())).unwrap();
    }
    let listed = Arc::new(Listed(0.into()));
    let facts = Facts {
        root: root.clone(),
        included: Vec::new(),
        outputs: None,
        home: String::new(),
        tree: Arc::clone(&listed) as Arc<dyn Tree>,
        git: crate::policy::GitFacts::default(),
    };
    let policy = Policy::builtin("default").unwrap();
    let may_read = policy.reader(&facts);
    assert!((0..20).all(|number| may_read(&RelPath::new(number.to_string()).unwrap())));
    assert!(!may_read(&RelPath::new("other").unwrap()), "it is another name of `.env`");
    assert_eq!(listed.0.load(std::sync::atomic::Ordering::Relaxed), 2, "the root and `store`, once each");
    let others = super::PathRules::new(&policy.layers, &facts).other_names().unwrap();
    assert_eq!(others, [RelPath::new("other").unwrap()], "git and rg leave it out by its name");
}

/// The disk, of which a directory cannot be listed.
struct Closed(std::io::ErrorKind);

impl Tree for Closed {
    fn look(&self, path: &Path) -> std::io::Result<Option<Node>> {
        Disk.look(path)
    }

    fn names(&self, path: &Path) -> std::io::Result<Vec<std::ffi::OsString>> {
        if path.ends_with("closed") { Err(self.0.into()) } else { Disk.names(path) }
    }
}

#[test]
fn other_names_of_secrets_are_found_beside_a_closed_directory_and_an_error_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("closed")).unwrap();
    std::fs::write(root.join(".env"), "").unwrap();
    std::fs::hard_link(root.join(".env"), root.join("other")).unwrap();
    let names = |kind: std::io::ErrorKind| {
        let facts = Facts {
            root: root.clone(),
            included: Vec::new(),
            outputs: None,
            home: String::new(),
            tree: Arc::new(Closed(kind)) as Arc<dyn Tree>,
            git: crate::policy::GitFacts::default(),
        };
        super::PathRules::new(&Policy::builtin("default").unwrap().layers, &facts).other_names()
    };
    let closed = names(std::io::ErrorKind::PermissionDenied).unwrap();
    assert_eq!(closed, [RelPath::new("other").unwrap()]);
    assert!(names(std::io::ErrorKind::Other).is_err());
}

#[test]
fn a_folder_that_is_remembered_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    std::os::unix::fs::symlink("a", root.join("link")).unwrap();
    for name in ["a/b/x", "a/b/.env", "a/y"] {
        std::fs::write(root.join(name), "").unwrap();
    }
    let facts = Facts {
        root: root.clone(),
        included: Vec::new(),
        outputs: None,
        home: String::new(),
        tree: Arc::new(Disk),
        git: crate::policy::GitFacts::default(),
    };
    let policy = Policy::builtin("default").unwrap();
    let folders = Folders::default();
    let paths = ["a/b/x", "a/b/.env", "a/b/../y", "a/b/.", "a/b/none", "link/b/x", "link/y", "a/b/x/z", "a/b"];
    for path in paths.iter().chain(&paths) {
        let path = root.join(path);
        let plain = PathRules::new(&policy.layers, &facts);
        let remembering = PathRules::new(&policy.layers, &facts).remembering(&folders);
        let at_root = RelPath::root();
        assert_eq!(remembering.resolve(&at_root, &path), plain.resolve(&at_root, &path), "{path:?}");
        assert_eq!(remembering.read(&at_root, &path).is_ok(), plain.read(&at_root, &path).is_ok(), "{path:?}");
    }
    assert!(folders.known().contains(&root.join("a/b")) && !folders.known().contains(&root.join("link/b")));
}
