//! Tests `sandbox.workspace: in-place`: what commands left in ignored places is delivered with the change, and nothing is
//! written before.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{Project, Reply, call, say};

const POLICY: &str = "version: 1\nchanges: {default: dry-run, allow: [dry-run, apply, commit, branch]}\n\
    tools: {allow: [read_file, edit, write_file, run_shell_command]}\n\
    paths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"]}}\n\
    shell: {default: allow}\nsandbox: {workspace: in-place}\n";

/// Changes, removes and makes files, and leaves build output.
const WORK: &str = "pwd; echo 2 > a; rm src/gone; mkdir -p new/deep out/bin; echo n > new/deep/f; echo o > out/built; chmod +x run; \
    rm out/stale; echo 2 > out/old; cp run out/bin/tool; ln -s bin/tool out/tool; ln -sf a link; rm -r cache; echo l > x.log";

fn project(script: impl IntoIterator<Item = Reply>) -> Project {
    let project = Project::new()
        .file("a", "1\n")
        .file("src/gone", "1\n")
        .file("src/b", "1\n")
        .file("run", "x\n")
        .file(".gitignore", "out/\ncache/\n.env\n*.log\n")
        .policy(
            &POLICY.replace("{allow: [\"**\"]}}\nshell", "{allow: [\"**\"], exec_bit: true, symlinks: true}}\nshell"),
        )
        .model(script)
        .git();
    project
        .file("out/old", "1\n")
        .file("out/stale", "1\n")
        .file("out/kept", "1\n")
        .file("cache/deep/x", "1\n")
        .file(".env", "KEY=hunter2hunter2\n")
}

fn work(command: &str) -> Vec<Reply> {
    vec![call("run_shell_command", json!({"command": command})), say("Done.")]
}

/// Names in the project that deliveries put aside.
fn left_over(project: &Project) -> Vec<PathBuf> {
    let ours = |path: &PathBuf| path.to_string_lossy().contains(".qwen-");
    project.snapshot().into_keys().filter(ours).collect()
}

#[test]
fn what_commands_left_in_ignored_places_comes_with_the_change() {
    for flags in [&["--apply"][..], &["--commit"], &["--apply", "--no-undo"], &["--apply", "--sandbox", "off"]] {
        let project = project(work(WORK));
        let outcome = project.run(&[flags, &["go"]].concat());
        assert_eq!(outcome.code, 0, "{flags:?} {}\n{}", outcome.stdout, outcome.stderr);
        assert_eq!((project.read("a"), project.read("new/deep/f")), ("2\n".into(), "n\n".into()));
        assert!(!project.root().join("src/gone").exists());
        let of = |path: &str| project.read(path);
        assert_eq!(
            [of("out/built"), of("out/old"), of("out/kept"), of("out/tool"), of("x.log")],
            ["o\n", "2\n", "1\n", "x\n", "l\n"].map(str::to_owned)
        );
        assert_eq!(std::fs::read_link(project.root().join("out/tool")).unwrap(), Path::new("bin/tool"));
        let mode = project.root().join("out/bin/tool").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{mode:o}");
        assert!(!project.root().join("out/stale").exists() && !project.root().join("cache").exists());
        assert_eq!(left_over(&project), Vec::<PathBuf>::new());
        // The change alone is in the patch, and can be undone.
        assert_eq!(outcome.result["changes"]["files"].as_array().unwrap().len(), 5, "{}", outcome.result);
        if flags.contains(&"--no-undo") {
            continue;
        }
        let undone = project.qwen(&["undo"]);
        assert_eq!(undone.code, 0, "{}", undone.stderr);
        assert!(undone.stdout.contains("output in ignored directories is kept"), "{}", undone.stdout);
        assert_eq!((project.read("a"), project.read("src/gone")), ("1\n".into(), "1\n".into()));
        assert_eq!(project.read("out/built"), "o\n");
        assert_eq!(project.run_git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn a_new_ignored_directory_is_open_to_nobody_whom_commands_shut_out() {
    let project =
        project(work("echo 2 > a; mkdir -m 700 out/own; mkdir -p -m 750 out/own/some; echo 1 > out/own/some/x"));
    let outcome = project.run(&["--apply", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mode = |path: &str| project.root().join(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("out/own"), mode("out/own/some"), mode("out/own/some/x") & 0o400), (0o700, 0o750, 0o400));
}

#[test]
fn a_run_that_does_not_deliver_leaves_the_project_byte_for_byte_as_it_was() {
    let failing = "echo 2 > a; rm src/gone; echo n > new; echo o > out/built; echo x > out/old";
    let denied = format!("{failing}; mkdir -p .github; echo x > wf; ln wf .github/wf");
    let endings: [(&str, &[&str], i32); 6] = [
        (failing, &["--apply", "--verify", "false"], 64),
        (failing, &["--apply", "--max-changed-files", "1"], 60),
        (&denied, &["--apply", "--on-deny", "stop"], 60),
        (failing, &["--commit", "--verify", "test -e nothing"], 64),
        (failing, &["--dry-run"], 0),
        ("echo o > out/built", &["--apply"], 0),
    ];
    for (command, flags, code) in endings {
        let mut script = work(command);
        script.extend([say("Done."), say("Done."), say("Done.")]);
        let project = project(script);
        let before = project.tree();
        let outcome = project.run(&[flags, &["go"]].concat());
        assert_eq!(outcome.code, code, "{flags:?} {}\n{}", outcome.stdout, outcome.stderr);
        assert_eq!(project.tree(), before, "{flags:?}");
    }
}

#[test]
fn what_may_never_be_written_is_not_delivered_from_ignored_places_either() {
    let attack = "cat .env; echo y > .env; mkdir -p out/.git/hooks out/bare/objects out/bare/refs out/.github/workflows; \
        echo x > out/.git/config; echo x > out/bare/HEAD; echo x > out/bare/objects/o; echo x > out/bare/refs/r; \
        echo x > out/.env; echo x > out/no; ln -s /etc out/etc; ln -s ../../.. out/up; ln -s ../.git out/git; \
        ln -s ../.env out/env; echo fine > out/fine; echo 2 > a; echo src/ >> .gitignore; echo x > src/slipped";
    let project = project(work("bash attack.sh")).file("attack.sh", attack);
    let policy = std::fs::read_to_string(project.beside("policy.yaml")).unwrap();
    let project = project.policy(&policy.replace("symlinks: true}", "symlinks: true, deny: [out/no]}"));
    project.run_git(&["add", "attack.sh"]);
    project.run_git(&["commit", "-qm", "attack"]);
    let before = project.snapshot();
    let outcome = project.run(&["--apply", "go"]);
    assert_eq!((outcome.code, project.read("a").as_str()), (0, "2\n"), "{}", outcome.stderr);
    let asked = project.server().requests()[1].to_string();
    assert!(!asked.contains("hunter2"), "{asked}");
    let after = project.snapshot();
    let new: Vec<String> = after
        .keys()
        .filter(|path| !before.contains_key(*path))
        .map(|path| path.strip_prefix(project.root()).unwrap().display().to_string())
        .collect();
    assert_eq!(new, ["out/fine"], "{}", outcome.stderr);
    assert_eq!(project.read(".env"), "KEY=hunter2hunter2\n");
    let said = outcome.stderr.lines().find(|line| line.contains("in ignored directories")).unwrap();
    assert!(said.contains("10 files") && said.contains("out/.env"), "{said}");
}

#[test]
fn ignored_directories_that_commands_did_not_see_are_left_alone() {
    let project = project(work("mkdir -p out; echo n > out/old; echo n > out/new; echo 2 > a"));
    let policy = std::fs::read_to_string(project.beside("policy.yaml")).unwrap();
    let project = project.policy(&policy.replace("workspace: in-place", "workspace: in-place, copy_max: 3B"));
    let outcome = project.run(&["--apply", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!((project.read("a"), project.read("out/old")), ("2\n".into(), "1\n".into()));
    assert!(!project.root().join("out/new").exists());
    assert!(outcome.stderr.contains("sandbox.copy_max"), "{}", outcome.stderr);
}

/// Tells whether a file of this name stands below a directory.
fn stands_below(directory: &Path, name: &str) -> bool {
    std::fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        entry.file_name() == *name || is_directory && stands_below(&entry.path(), name)
    })
}

/// Starts a run whose command changes the tree and then waits; returns when it has.
fn at_work(project: &Project) -> std::process::Child {
    let file = project.beside("result.json").display().to_string();
    let mut child = project.spawn(&["run", "--result-file", &file, "--apply", "go"]);
    while !stands_below(&project.beside(""), "ready") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child
}

#[test]
fn a_kill_leaves_the_project_as_it_was() {
    for (signal, code) in [("-TERM", 143), ("-KILL", 137)] {
        let project =
            project(work("echo 2 > a; rm src/gone; echo o > out/built; echo x > out/old; touch ready; sleep 600"));
        let before = project.tree();
        let child = at_work(&project);
        std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let outcome = project.finish(child);
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        assert_eq!(project.tree(), before);
        assert_eq!(project.qwen(&["undo"]).code, 63, "no such value to undo");
    }
}

#[test]
fn what_an_earlier_version_kept_of_the_project_is_named_and_left_alone() {
    let project = project([]);
    let kept = project.home().join(".local/state/qwen/in-place/run-1");
    std::fs::create_dir_all(kept.join("tree")).unwrap();
    let root = project.root().canonicalize().unwrap();
    let record = json!({"version": 1, "run_id": "run-1", "time": "t", "root": root, "left_out": [], "git": []});
    std::fs::write(kept.join("record.json"), record.to_string()).unwrap();
    let outcome = project.qwen(&["undo"]);
    assert_eq!(outcome.code, 63, "{}", outcome.stderr);
    let tree = kept.join("tree").display().to_string();
    assert!(outcome.stderr.contains("earlier version") && outcome.stderr.contains(&tree), "{}", outcome.stderr);
    assert!(kept.join("record.json").exists());
}

#[test]
fn commands_see_what_is_staged_and_a_branch_is_refused() {
    let project = project([
        call("write_file", json!({"file_path": "a", "content": "staged\n"})),
        call("run_shell_command", json!({"command": "cat a; touch b"})),
        say("Done."),
    ]);
    let before = project.tree();
    let outcome = project.run(&["go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let requests = project.server().requests();
    assert!(requests[2].to_string().contains("Stdout: staged"), "{}", requests[2]);
    assert_eq!(project.tree(), before);
    let branch = project.run(&["--branch", "x", "go"]);
    assert_eq!(branch.code, 52, "{}", branch.stderr);
}

#[test]
fn git_writes_to_a_scratch_folder_in_a_staged_tree_as_well() {
    for at in ["", "src"] {
        let project = project(work(
            "echo 2 > b; git add b && git commit -qm in-scratch; git log --format=%s; git status --short",
        ))
        .policy(&POLICY.replace("in-place", "staged"));
        let before = project.tree();
        let root = project.root().join(at).display().to_string();
        let outcome = project.run(&["-C", &root, "go"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let asked = project.server().requests()[1].to_string();
        assert!(asked.contains("in-scratch\\nstart"), "{at:?}: {asked}");
        assert_eq!(project.tree(), before);
    }
}
