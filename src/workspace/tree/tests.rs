//! Tests the command workspace: what it contains, and which changes are found in it.

use std::time::Instant;

use super::*;
use crate::git::repository::Repository;
use crate::workspace::test_support::sh;

pub(super) struct Fixture {
    _folder: tempfile::TempDir,
    pub(super) workspace: Workspace,
    pub(super) repository: Option<Repository>,
    outside: PathBuf,
}

/// A repository made by a script, and the workspace at one of its directories.
pub(super) fn fixture(script: &str, at: &str) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("project");
    std::fs::create_dir(&root).unwrap();
    sh(&root, script);
    let workspace = Workspace::open(&root.join(at)).unwrap();
    let repository = Repository::discover(workspace.root()).unwrap();
    let outside = folder.path().canonicalize().unwrap();
    Fixture { _folder: folder, workspace, repository, outside }
}

pub(super) const PLAIN: &str = "git init -q -b main; printf '1\\n' >a; printf x >run; chmod +x run; mkdir -p src/deep out vendor; \
    printf '1\\n' >src/deep/b; ln -s a link; ln -s \"$PWD/a\" absolute; printf 'out/\\n*.log\\nvendor/\\n' >.gitignore; \
    printf big >out/old; printf v >vendor/kept; printf s >.env; git add -f vendor/kept; git add a run src link absolute .gitignore; \
    git commit -qm first; printf u >untracked; mkfifo pipe";

impl Fixture {
    fn made(&self, copy_max: u64) -> CommandTree {
        let may_read = |path: &RelPath| path.file_name().is_none_or(|name| name != ".env");
        let options = TreeOptions {
            repository: self.repository.as_ref(),
            may_read: &may_read,
            copy_max,
            parent: None,
            objects_at: None,
            until: None,
            layers: false,
            ignored_outputs: false,
        };
        let mut tree = CommandTree::make(self.workspace.root(), &options).unwrap();
        tree.sync_in(&self.workspace.changes()).unwrap();
        tree
    }

    fn stage(&self, path: &str, after: Entry) {
        let path = RelPath::new(path).unwrap();
        let before = self.workspace.first_state(&path).unwrap();
        self.workspace.stage_judged(&path, Change { before, after });
    }
}

fn collect(fixture: &Fixture, tree: &mut CommandTree) -> Vec<String> {
    let judge = |path: &RelPath, _: &Change| {
        if path.to_string().contains("protected") || path.to_string() == ".env" { Err("no".to_owned()) } else { Ok(()) }
    };
    let collected = tree.sync_out(&fixture.workspace, &judge).unwrap();
    let staged = collected.staged.iter().map(|(path, change)| format!("{:?} {path}", change.kind().unwrap()));
    let mut all: Vec<String> =
        staged.chain(collected.refused.iter().map(|(path, _)| format!("Refused {path}"))).collect();
    all.sort();
    all
}

/// A program in the background may put a link in the way at any moment: here, while a change is judged.
#[test]
fn a_link_that_is_put_in_the_way_meanwhile_leads_nowhere() {
    let fixture = fixture(PLAIN, "");
    let outside = fixture.outside.join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("new"), "theirs").unwrap();
    let mut tree = fixture.made(1 << 30);
    sh(tree.root(), "echo n >src/deep/new");
    let root = tree.root().to_path_buf();
    let judge = |_: &RelPath, _: &Change| {
        sh(&root, &format!("rm -rf src/deep; ln -sfn '{}' src/deep", outside.display()));
        Err("no".to_owned())
    };
    let collected = tree.sync_out(&fixture.workspace, &judge).unwrap();
    assert!(!collected.refused.is_empty() && collected.staged.is_empty());
    assert_eq!(std::fs::read_to_string(outside.join("new")).unwrap(), "theirs");
}

#[test]
fn a_tree_as_deep_as_paths_can_be_is_refused_and_removed() {
    let fixture = fixture(PLAIN, "");
    let mut tree = fixture.made(1 << 30);
    let deep = tree.root().join("folder01/".repeat(400));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("f"), "x").unwrap();
    sh(tree.root(), "echo 2 >a");
    let collected = tree.sync_out(&fixture.workspace, &|_, _| Ok(())).unwrap();
    let refused: Vec<String> = collected.refused.iter().map(|(path, reason)| format!("{path}: {reason}")).collect();
    assert_eq!(
        refused,
        [format!("{}: a path of 3601 bytes below it is too long to be staged", ["folder01"; 9].join("/"))]
    );
    assert_eq!(fixture.workspace.changes().iter().map(|(path, _)| path.to_string()).collect::<Vec<_>>(), ["a"]);
    assert!(!deep.join("f").exists());
    assert_eq!(collect(&fixture, &mut tree), Vec::<String>::new());
    // Without as many descriptors as directories.
    Folder::root(tree.root()).unwrap().clear(OsStr::new("folder01")).unwrap();
    assert_eq!(sh(tree.root(), "ls"), "a\nabsolute\nlink\nout\nrun\nsrc\nuntracked\nvendor\n");
}

#[test]
fn a_copy_that_takes_too_long_is_given_up_and_leaves_nothing() {
    let fixture = fixture(PLAIN, "");
    let parent = tempfile::tempdir().unwrap();
    let options = TreeOptions {
        repository: fixture.repository.as_ref(),
        may_read: &|_| true,
        copy_max: 0,
        parent: Some(parent.path()),
        objects_at: None,
        until: Some(Instant::now()),
        layers: false,
        ignored_outputs: false,
    };
    let error = CommandTree::make(fixture.workspace.root(), &options).err().unwrap().to_string();
    assert!(error.ends_with("copying it took too long and was given up"), "{error}");
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn the_lent_tree_holds_what_may_be_read_and_says_what_it_lacks() {
    let fixture = fixture(PLAIN, "");
    let tree = fixture.made(1 << 20);
    let left_out: Vec<String> = tree.left_out().iter().map(|left| format!("{} {:?}", left.path, left.why)).collect();
    assert_eq!(left_out, [".env Denied", "pipe Special"]);
    let list = "find . -name .git -prune -o -printf '%p %y %m %l\\n' | sort";
    assert_eq!(
        sh(tree.root(), &format!("{list} | sed 's#{}#ROOT#'", tree.root().display())),
        sh(
            fixture.workspace.root(),
            &format!("{list} | grep -v -e pipe -e '[.]env' | sed 's#{}#ROOT#'", fixture.workspace.root().display())
        )
    );
    let old = |root: &Path| root.join("src/deep/b").metadata().unwrap().modified().unwrap();
    assert_eq!(old(tree.root()), old(fixture.workspace.root()));

    let tree = fixture.made(2);
    let left_out: Vec<String> = tree.left_out().iter().map(|left| format!("{} {:?}", left.path, left.why)).collect();
    assert_eq!(left_out, [".env Denied", "out TooLarge", "pipe Special"]);
    assert!(tree.root().join("vendor/kept").exists());
}

#[test]
fn rights_that_a_command_takes_away_stop_nobody_after_it() {
    let fixture = fixture(PLAIN, "");
    let mut tree = fixture.made(0);
    sh(tree.root(), "printf 2 >a; printf 2 >src/deep/b; chmod 000 a src/deep src; chmod 500 .");
    assert_eq!(collect(&fixture, &mut tree), ["Modified a", "Modified src/deep/b"]);
    tree.sync_in(&fixture.workspace.changes()).unwrap();
    assert_eq!(sh(tree.root(), "cat a src/deep/b; printf n >src/new"), "22");
}

#[test]
fn what_a_command_changes_is_staged_and_build_output_only_stays() {
    let fixture = fixture(PLAIN, "");
    let mut tree = fixture.made(1 << 20);
    assert_eq!(collect(&fixture, &mut tree), Vec::<String>::new());
    sh(
        tree.root(),
        "printf 2 >a; rm -r src; chmod -x run; mkdir new; printf n >new/f; printf b >out/new; printf l >x.log; \
         printf w >vendor/kept; printf w >vendor/other; ln -sf run link; touch untracked; printf d >.env; printf p >protected; \
         mkdir nested; cd nested; git init -q; printf i >inner",
    );
    assert_eq!(
        collect(&fixture, &mut tree),
        [
            "Added nested/inner",
            "Added new/f",
            "Deleted src/deep/b",
            "Modified a",
            "Modified link",
            "Modified run",
            "Modified vendor/kept",
            "Refused .env",
            "Refused protected"
        ]
    );
    assert_eq!(collect(&fixture, &mut tree), Vec::<String>::new());
    // Refused: put back. Build output: still there, and not in the changes.
    assert!(!tree.root().join("protected").exists());
    // What may not be read was never there, and is not put there now.
    assert!(!tree.root().join(".env").exists());
    assert_eq!(sh(tree.root(), "cat out/new x.log vendor/other"), "blw");
    // The project itself is as it was.
    assert_eq!(sh(fixture.workspace.root(), "git status --porcelain; cat a .env"), "?? .env\n?? untracked\n1\ns");
    sh(tree.root(), "printf '1\\n' >a");
    assert_eq!(fixture.workspace.changes().len(), 7);
    tree.sync_out(&fixture.workspace, &|_, _| Ok(())).unwrap();
    assert_eq!(fixture.workspace.changes().len(), 6);
}

#[test]
fn a_change_that_hides_behind_an_old_time_is_found() {
    let fixture = fixture(PLAIN, "");
    let mut tree = fixture.made(0);
    sh(tree.root(), "touch -r a keep.log; printf '2\\n' >a; touch -r keep.log a");
    assert_eq!(collect(&fixture, &mut tree), ["Modified a"]);
    // In the same tick, by the same size.
    for content in ["3\n", "4\n", "5\n"] {
        std::fs::write(tree.root().join("a"), content).unwrap();
        assert_eq!(collect(&fixture, &mut tree), ["Modified a"]);
    }
}

#[test]
fn commands_see_what_is_staged_and_what_is_staged_back() {
    let fixture = fixture(PLAIN, "");
    let mut tree = fixture.made(0);
    fixture.stage("a", Entry::file("staged\n"));
    fixture.stage("src/deep/b", Entry::Absent);
    fixture.stage("src/deep", Entry::file("a file now"));
    fixture.stage("new/deep/f", Entry::File { content: b"x".as_slice().into(), executable: true });
    tree.sync_in(&fixture.workspace.changes()).unwrap();
    assert_eq!(sh(tree.root(), "cat a src/deep; test -x new/deep/f"), "staged\na file now");
    assert_eq!(collect(&fixture, &mut tree), Vec::<String>::new());
    fixture.stage("a", Entry::file("1\n"));
    fixture.stage("src/deep", Entry::Absent);
    fixture.stage("src/deep/b", Entry::file("1\n"));
    tree.sync_in(&fixture.workspace.changes()).unwrap();
    assert_eq!(sh(tree.root(), "cat a src/deep/b"), "1\n1\n");
    assert_eq!(collect(&fixture, &mut tree), Vec::<String>::new());
}

#[test]
fn a_link_into_the_project_leads_into_the_lent_tree() {
    let fixture = fixture(PLAIN, "");
    let mut tree = fixture.made(0);
    sh(tree.root(), "printf through >absolute");
    assert_eq!(collect(&fixture, &mut tree), ["Modified a"]);
    assert_eq!(sh(fixture.workspace.root(), "cat a"), "1\n");
}

#[test]
fn git_sees_the_history_and_writes_nothing_to_the_repository() {
    for init in ["", "--object-format=sha256", "--ref-format=reftable"] {
        let fixture = fixture(&PLAIN.replace("-q -b main", &format!("-q -b main {init}")), "");
        sh(
            fixture.workspace.root(),
            "git config http.extraheader 'AUTHORIZATION: secret'; git config alias.x '!touch x'",
        );
        // Git touches the time of an object that it would write again; below T2 nothing keeps it from that.
        let digest = || {
            sh(
                fixture.workspace.root(),
                "find .git -type f -not -path '*/objects/*' -printf '%p %T@\\n' -exec sha256sum {} +; find .git/objects -type f | sort | xargs sha256sum",
            )
        };
        let before = digest();
        let mut tree = fixture.made(0);
        assert_eq!(
            sh(tree.root(), "git status --porcelain | grep -v absolute; git log --format=%s; git branch"),
            "?? untracked\nfirst\n* main\n"
        );
        sh(
            tree.root(),
            "printf 2 >a; git add -A; git commit -qm second; git branch other; git stash list; git tag t; git gc -q",
        );
        assert_eq!(sh(tree.root(), "git log --format=%s"), "second\nfirst\n");
        assert_eq!(sh(tree.root(), "grep -r -e secret -e alias .git/config || true"), "");
        assert_eq!(digest(), before);
        assert_eq!(collect(&fixture, &mut tree), ["Modified a"]);
    }
}

#[test]
fn what_a_command_changes_of_gits_settings_is_put_back_through_no_link() {
    let fixture = fixture(&format!("{PLAIN}; mkdir -p .git/info; printf '* -text\\n' >.git/info/attributes"), "");
    let tree = fixture.made(0);
    let git = tree.git().unwrap();
    let outside = fixture.outside.join("outside");
    std::fs::create_dir(&outside).unwrap();
    let settings = || {
        sh(tree.root(), "cat .git/config .git/info/attributes; ls .git | grep -e config.worktree -e commondir || true")
    };
    let before = settings();
    for change in [
        "git config diff.external x".to_owned(),
        "git config filter.x.clean y; printf '* filter=x\\n' >.git/info/attributes".to_owned(),
        "printf x >.git/config.worktree; printf /tmp >.git/commondir".to_owned(),
        "rm .git/config .git/info/attributes".to_owned(),
        "printf x >.git/config; chmod 000 .git/config .git/info; chmod 500 .git".to_owned(),
        "rm .git/config; mkdir .git/config; rm .git/info/attributes; mkfifo .git/info/attributes".to_owned(),
        format!("rm .git/config; ln -s '{}/config' .git/config", outside.display()),
        format!("rm -r .git/info; ln -s '{}' .git/info", outside.display()),
    ] {
        sh(tree.root(), &change);
        git.put_settings_back().unwrap();
        assert_eq!(settings(), before, "{change}");
    }
    sh(tree.root(), &format!("rm -r .git; ln -s '{}' .git", outside.display()));
    git.put_settings_back().unwrap();
    assert!(tree.root().join(".git").symlink_metadata().is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn only_the_workspace_is_lent_and_the_rest_does_not_look_deleted() {
    let fixture = fixture(&format!("{PLAIN}; printf '*.tmp\\n' >>.gitignore; git commit -qam ignore"), "src");
    let mut tree = fixture.made(0);
    assert_eq!(sh(tree.root(), "ls; git status --porcelain; git log --format=%s -- deep"), "deep\nfirst\n");
    sh(tree.root(), "printf 2 >deep/b; printf x >x.tmp; printf x >../outside");
    assert_eq!(collect(&fixture, &mut tree), ["Modified deep/b"]);
}

#[test]
fn without_a_repository_there_is_no_git_folder_and_all_else_works() {
    let fixture = fixture("printf 1 >a; mkdir d; printf 'd/\\n' >.gitignore; printf 1 >d/x", "");
    let mut tree = fixture.made(1 << 20);
    assert!(!tree.root().join(".git").exists());
    sh(tree.root(), "printf 2 >a; printf 2 >d/x; rm .gitignore; printf y >y");
    // The rules are gone with their file, so `d` counts now: what is not ignored is part of the change.
    assert_eq!(collect(&fixture, &mut tree), ["Added y", "Deleted .gitignore", "Modified a", "Modified d/x"]);
    assert!(fixture.outside.exists());
}

#[test]
fn a_folder_in_place_of_a_file_and_a_link_in_place_of_a_folder_are_changes() {
    let fixture = fixture(PLAIN, "");
    let mut tree = fixture.made(0);
    sh(tree.root(), "rm a; mkdir a; printf x >a/inner; rm -r src; ln -s a src; mkdir deep-protected");
    assert_eq!(collect(&fixture, &mut tree), ["Added a/inner", "Added src", "Deleted a", "Deleted src/deep/b"]);
}
