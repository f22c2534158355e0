//! Tests that a layer and a copy report the same changes of a command.

use std::process::Command;

use proptest::prelude::*;

use super::tests::{Fixture, PLAIN, fixture};
use super::*;
use crate::git::repository::Repository;
use crate::workspace::test_support::sh;

/// Tells whether this machine mounts overlays for us; says so aloud where it does not.
#[expect(clippy::print_stderr, reason = "the output of a test is how it speaks")]
fn mounts() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let script = "cd \"$1\"; mkdir l u w; mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w,userxattr l";
    let tried = Command::new("unshare").args(["-rm", "bash", "-euc", script, "bash"]).arg(folder.path()).output();
    let mounts = tried.is_ok_and(|output| output.status.success());
    let _left_by_the_kernel =
        std::fs::set_permissions(folder.path().join("w/work"), std::os::unix::fs::PermissionsExt::from_mode(0o700));
    if !mounts {
        eprintln!("NOT TESTED: this machine mounts no overlay");
    }
    mounts
}

fn options(repository: Option<&Repository>) -> TreeOptions<'_> {
    TreeOptions {
        repository,
        may_read: &may_read,
        copy_max: 1 << 30,
        parent: None,
        objects_at: None,
        until: None,
        layers: false,
        ignored_outputs: false,
    }
}

fn may_read(path: &RelPath) -> bool {
    path.file_name().is_none_or(|name| name != ".env")
}

/// Runs a script as a command: in the tree itself, or where the layer is mounted over the project.
fn command(tree: &CommandTree, script: &str) -> String {
    let Some(layer) = tree.layer() else { return sh(tree.root(), script) };
    let file = layer.upper().parent().unwrap().join("script");
    let mount = format!(
        "r='{root}'; mount -t overlay overlay -o lowerdir=\"$r\",upperdir='{upper}',workdir='{work}',userxattr \"$r\"\n",
        root = tree.root().display(),
        upper = layer.upper().display(),
        work = layer.work().display(),
    );
    let git = tree.git().map_or_else(String::new, |git| {
        let [objects, at] = [&git.objects, &objects_at()].map(|path| path.display().to_string());
        let over = format!("mount --bind '{}' '{}'\n", git.folder.display(), git.stands_for.display());
        format!("mount -t tmpfs none /mnt; mkdir {at}; mount --bind '{objects}' {at}\n{over}")
    });
    std::fs::write(&file, format!("{mount}{git}cd \"$r\"\n{script}\n")).unwrap();
    sh(Path::new("/"), &format!("unshare -rm bash -eu '{}'", file.display()))
}

/// What the command's changes came to, in words.
fn collected(tree: &mut CommandTree, workspace: &Workspace) -> Vec<String> {
    let judge = |path: &RelPath, _: &Change| match path.to_string() {
        path if path.contains("protected") || path == ".env" => Err("no".to_owned()),
        _ => Ok(()),
    };
    let collected = tree.sync_out(workspace, &judge).unwrap();
    let staged = collected.staged.iter().map(|(path, change)| format!("{path}: {change:?}"));
    let mut all: Vec<String> =
        staged.chain(collected.refused.iter().map(|(path, _)| format!("{path}: refused"))).collect();
    all.sort();
    all
}

const SHOW: &str = "find . -path ./.git -prune -o \\( -type f -printf '%p %m ' -exec md5sum -z {} ';' -printf '\\n' -o -not -type f -printf '%y %p %l\\n' \\) | sort";

/// Where commands see the repository's objects while git's directory is covered.
fn objects_at() -> std::path::PathBuf {
    "/mnt/objects".into()
}

fn layered(project: &Fixture) -> CommandTree {
    let at = objects_at();
    let options = TreeOptions { objects_at: Some(&at), ..options(project.repository.as_ref()) };
    let tree = CommandTree::overlay(project.workspace.root(), &options).unwrap();
    let mut tree = tree.expect("the file system of temporary files has attributes");
    tree.sync_in(&project.workspace.changes()).unwrap();
    tree
}

#[test]
fn nothing_is_copied_and_what_may_not_be_seen_is_not_there() {
    if !mounts() {
        return;
    }
    let project = fixture(&format!("{PLAIN}; mkdir -p sub/inner; git init -q sub; printf s >sub/inner/.env"), "");
    let tree = layered(&project);
    let left_out: Vec<String> = tree.left_out().iter().map(|left| format!("{} {:?}", left.path, left.why)).collect();
    assert_eq!(left_out, [".env Denied", "pipe Special", "sub/inner/.env Denied"]);
    assert_eq!(
        command(&tree, "ls -A . sub sub/inner; cat a; git log --format=%s; git status --porcelain"),
        ".:\n.git\n.gitignore\na\nabsolute\nlink\nout\nrun\nsrc\nsub\nuntracked\nvendor\n\nsub:\ninner\n\nsub/inner:\n1\nfirst\n?? untracked\n"
    );
    // What a command makes of a name that was taken away is its own.
    assert_eq!(
        command(
            &tree,
            "cat .env sub/.git/config || true; mkdir sub/.git; ls sub/.git; rm -r sub; mkdir -p sub/inner; ls -A sub/inner"
        ),
        ""
    );
    assert_eq!(
        sh(project.workspace.root(), "cat .env sub/inner/.env; test -d sub/.git; ls -A"),
        "ss.env\n.git\n.gitignore\na\nabsolute\nlink\nout\npipe\nrun\nsrc\nsub\nuntracked\nvendor\n"
    );
}

#[test]
fn what_a_command_changes_is_found_in_the_layer() {
    if !mounts() {
        return;
    }
    let project = fixture(PLAIN, "");
    let mut tree = layered(&project);
    assert_eq!(collected(&mut tree, &project.workspace), Vec::<String>::new());
    command(
        &tree,
        "printf 2 >a; rm -r src; chmod -x run; mkdir new; printf n >new/f; printf b >out/new; printf l >x.log; \
         printf w >vendor/kept; printf w >vendor/other; ln -sf run link; touch untracked; printf d >.env; printf p >protected; \
         mkdir nested; cd nested; git init -q; printf i >inner",
    );
    let found = collected(&mut tree, &project.workspace);
    let names: Vec<&str> = found.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(names, [".env", "a", "link", "nested/inner", "new/f", "protected", "run", "src/deep/b", "vendor/kept"]);
    assert_eq!(collected(&mut tree, &project.workspace), Vec::<String>::new());
    assert_eq!(
        command(&tree, "cat out/new out/old x.log vendor/other; test ! -e protected; test ! -e .env; test ! -e src"),
        "bbiglw"
    );
    assert_eq!(sh(project.workspace.root(), "git status --porcelain; cat a .env"), "?? .env\n?? untracked\n1\ns");
    // The kernel's own directory is not a hindrance to removing it all.
    let scratch = tree.layer().unwrap().upper().parent().unwrap().to_path_buf();
    drop(tree);
    assert!(!scratch.exists());
}

#[test]
fn folders_that_lie_too_deep_are_refused_and_removed() {
    if !mounts() {
        return;
    }
    let project = fixture(PLAIN, "");
    let mut tree = layered(&project);
    command(&tree, "mkdir -p $(printf 'd/%.0s' $(seq 300)); echo x >d/f");
    let found = collected(&mut tree, &project.workspace);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ends_with("d/d/d: refused") && found[1].starts_with("d/f: "), "{found:?}");
    assert_eq!(collected(&mut tree, &project.workspace), Vec::<String>::new());
    assert_eq!(command(&tree, "find d | wc -l"), "257\n");
}

#[test]
fn where_git_keeps_its_folder_elsewhere_there_is_no_layer() {
    let project = fixture(&format!("{PLAIN}; git worktree add -q ../linked"), "");
    let linked = project.workspace.root().parent().unwrap().join("linked");
    let (workspace, repository) = (Workspace::open(&linked).unwrap(), Repository::discover(&linked).unwrap());
    assert!(CommandTree::overlay(workspace.root(), &options(repository.as_ref())).unwrap().is_none());
}

/// One thing that a command does.
fn deed() -> impl Strategy<Value = String> {
    let path = || {
        prop::sample::select(vec![
            "a",
            "run",
            "src",
            "src/deep",
            "src/deep/b",
            "src/new",
            "vendor",
            "vendor/kept",
            "vendor/x",
            "out",
            "out/old",
            "out/n",
            "link",
            "untracked",
            "d",
            "d/e",
            "d/e/f",
            "x.log",
            "protected",
            "protected/x",
            ".env",
            ".gitignore",
        ])
    };
    prop_oneof![
        4 => (path(), 0..3_u8).prop_map(|(path, n)| format!("mkdir -p \"$(dirname {path})\" && printf {n} >{path}")),
        3 => path().prop_map(|path| format!("rm -rf {path}")),
        2 => (path(), path()).prop_map(|(from, to)| format!("mv -T {from} {to}")),
        1 => (path(), path()).prop_map(|(from, to)| format!("rm -rf {to}; cp -a {from} {to}")),
        1 => path().prop_map(|path| format!("mkdir -p {path}")),
        1 => path().prop_map(|path| format!("rm -rf {path}; mkdir -p {path}/in && printf i >{path}/in/i")),
        1 => path().prop_map(|path| format!("ln -sfn a {path}")),
        1 => path().prop_map(|path| format!("ln -sfn src {path}")),
        1 => path().prop_map(|path| format!("chmod +x {path}")),
        1 => path().prop_map(|path| format!("touch -h {path}")),
    ]
}

/// What is staged between two commands: a file's content, or nothing in its place.
fn staging() -> impl Strategy<Value = (RelPath, Entry)> {
    let path = prop::sample::select(vec!["a", "src/deep/b", "src", "new/s", "d/e/f", "vendor/kept", "out/s"]);
    let entry = prop_oneof![Just(Entry::Absent), Just(Entry::file("staged"))];
    (path, entry).prop_map(|(path, entry)| (RelPath::new(path).unwrap(), entry))
}

proptest! {
    #![proptest_config(crate::properties::tried(12))]

    #[test]
    fn a_layer_and_a_copy_are_the_same_to_commands_and_to_us(
        rounds in prop::collection::vec((prop::collection::vec(deed(), 1..6), prop::collection::vec(staging(), 0..2)), 1..4)
    ) {
        if !mounts() {
            return Ok(());
        }
        let project = fixture(PLAIN, "");
        let other = Workspace::open(project.workspace.root()).unwrap();
        let mut over = layered(&project);
        let mut copy = CommandTree::make(other.root(), &options(project.repository.as_ref())).unwrap();
        copy.sync_in(&other.changes()).unwrap();
        let before = sh(project.workspace.root(), SHOW);
        for (deeds, staged) in rounds {
            let script = deeds.iter().map(|deed| format!("{{ {deed}; }} 2>/dev/null || true\n")).collect::<String>();
            command(&over, &script);
            command(&copy, &script);
            prop_assert_eq!(collected(&mut over, &project.workspace), collected(&mut copy, &other), "{}", script);
            let shown = |tree: &CommandTree| command(tree, SHOW).replace(&tree.root().display().to_string(), "ROOT");
            prop_assert_eq!(shown(&over), shown(&copy), "{}", script);
            for (path, entry) in staged {
                for workspace in [&project.workspace, &other] {
                    let before = workspace.first_state(&path).unwrap();
                    workspace.stage_judged(&path, Change { before, after: entry.clone() });
                }
            }
            over.sync_in(&project.workspace.changes()).unwrap();
            copy.sync_in(&other.changes()).unwrap();
            prop_assert_eq!(shown(&over), shown(&copy), "staged, {}", script);
        }
        prop_assert_eq!(project.workspace.changes(), other.changes());
        prop_assert_eq!(sh(project.workspace.root(), SHOW), before);
    }
}

const LEFT: &str = "printf n >out/new; printf o >out/old; rm vendor/other; rm -rf gone; mkdir -p out/.GIT out/deep; \
    printf x >out/.GIT/config; printf d >out/deep/er; printf l >x.log; printf 2 >a; printf t >vendor/kept; \
    printf 'out/\\n*.log\\nvendor/\\ngone/\\nback/\\nsrc/\\n' >.gitignore; printf s >src/slipped; ln -s er out/deep/link; \
    rm -rf back; mkdir back; printf b >back/new";

fn outputs(tree: &CommandTree, fixture: &Fixture) -> Vec<String> {
    let found = tree.ignored_outputs(&fixture.workspace.changes()).unwrap();
    found.iter().map(|output| format!("{}{}", if output.is_gone { "-" } else { "" }, output.path)).collect()
}

#[test]
fn what_commands_left_in_ignored_places_is_found_and_a_run_ignores_nothing_by_itself() {
    let script = format!(
        "{PLAIN}; printf o >vendor/other; mkdir gone back; printf 'gone/\\nback/\\n' >>.gitignore; printf g >gone/g; \
         printf o >back/old"
    );
    for layered in [false, true] {
        if layered && !mounts() {
            continue;
        }
        let fixture = fixture(&script, "");
        let options = TreeOptions { ignored_outputs: true, ..options(fixture.repository.as_ref()) };
        let made = || match layered {
            true => CommandTree::overlay(fixture.workspace.root(), &options).unwrap().unwrap(),
            false => CommandTree::make(fixture.workspace.root(), &options).unwrap(),
        };
        let mut tree = made();
        assert_eq!(outputs(&tree, &fixture), Vec::<String>::new());
        command(&tree, LEFT);
        tree.sync_out(&fixture.workspace, &|_, _| Ok(())).unwrap();
        let expected = [
            "-back/old",
            "back/new",
            "-gone/g",
            "out/deep/er",
            "out/deep/link",
            "out/new",
            "out/old",
            "-vendor/other",
            "x.log",
        ];
        let sorted = |mut found: Vec<String>| {
            found.sort_by_key(|name| name.trim_start_matches('-').to_owned());
            found
        };
        assert_eq!(sorted(outputs(&tree, &fixture)), sorted(expected.map(str::to_owned).to_vec()), "{layered}");
        // A copy that takes the place of the tree has the same.
        let mut next = CommandTree::make(fixture.workspace.root(), &options).unwrap();
        next.sync_in(&fixture.workspace.changes()).unwrap();
        next.take_over(&tree, &fixture.workspace.changes()).unwrap();
        assert_eq!(outputs(&next, &fixture), outputs(&tree, &fixture), "{layered}");
        assert_eq!(sh(next.root(), "cat out/deep/link back/new"), "db");
    }
}

/// What commands leave that is no part of the change.
const BESIDE: &str = "mkdir -p test/in empty src/repo/.git; mkfifo src/pipe new.pipe; mkdir out/test; touch out/test/x; chmod 0 a run; \
    echo x >src/.git; git checkout -qb other; git rm -q --cached a; mkdir kept; echo 1 >kept/file; touch -d 2001-01-01 kept/file; \
    mkdir lib; echo '*' >lib/.gitignore; echo x >lib/helper; rm src/deep/b; chmod a-w .git";

#[test]
fn a_check_sees_the_change_alone() {
    let project = fixture(&format!("{PLAIN}; mkdir own"), "");
    let copy = CommandTree::make(project.workspace.root(), &options(project.repository.as_ref())).unwrap();
    for mut tree in [Some(copy), mounts().then(|| layered(&project))].into_iter().flatten() {
        command(&tree, BESIDE);
        tree.sync_out(&project.workspace, &|_, _| Ok(())).unwrap();
        let seen = "ls -d test empty src/repo src/pipe new.pipe src/.git out/test/x kept/file own lib src/deep 2>/dev/null || true";
        assert!(command(&tree, seen).contains("new.pipe"));
        tree.drop_leftovers(&project.workspace.changes()).unwrap();
        assert_eq!(command(&tree, seen), "kept/file\nout/test/x\nown\n");
        assert_eq!(command(&tree, "stat -c %a a run; [ kept/file -nt a ] && echo later"), "644\n644\nlater\n");
        let objects_at = tree.layer().map(|_| objects_at());
        let of_git = "git branch --show-current; git ls-files a; git status --short kept";
        tree.lend_git(project.repository.as_ref(), objects_at.as_deref()).unwrap();
        assert_eq!(command(&tree, of_git), "main\na\n?? kept/\n");
        command(&tree, "rm -rf .git/refs .git/HEAD");
        tree.take_git_back().unwrap();
        assert_eq!(command(&tree, of_git), "other\n?? kept/\n");
        tree.keep_git_apart().unwrap();
        tree.lend_git(project.repository.as_ref(), objects_at.as_deref()).unwrap();
        assert!(tree.layer().is_some() || !tree.root().join(".git").exists());
        tree.take_git_back().unwrap();
        assert!(tree.git().is_some_and(|git| git.folder.join("refs/heads/other").exists()));
    }
}
