//! Tests `sandbox.workspace: in-place`: commands work in the project itself, which is restored unless changes are
//! delivered.

use std::process::Stdio;

use serde_json::json;

use crate::support::{Outcome, Project, Reply, call, say};

const POLICY: &str = "version: 1\nchanges: {default: dry-run, allow: [dry-run, apply, commit, branch]}\n\
    tools: {allow: [read_file, edit, write_file, run_shell_command]}\n\
    paths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"]}}\n\
    shell: {default: allow}\nsandbox: {workspace: in-place}\n";

/// Changes, removes and makes files, and leaves build output.
const WORK: &str = "pwd; echo 2 > a; rm src/gone; mkdir -p new/deep out; echo n > new/deep/f; echo o > out/built; chmod +x run; \
                    ln -sf a link";

fn project(script: impl IntoIterator<Item = Reply>) -> Project {
    let project = Project::new()
        .file("a", "1\n")
        .file("src/gone", "1\n")
        .file("src/b", "1\n")
        .file("run", "x\n")
        .file(".gitignore", "out/\n.env\n")
        .policy(
            &POLICY.replace("{allow: [\"**\"]}}\nshell", "{allow: [\"**\"], exec_bit: true, symlinks: true}}\nshell"),
        )
        .model(script)
        .git();
    std::fs::create_dir(project.root().join("out")).unwrap();
    std::fs::write(project.root().join("out/old"), "old\n").unwrap();
    std::fs::write(project.root().join(".env"), "KEY=hunter2hunter2\n").unwrap();
    project
}

fn work(command: &str) -> Vec<Reply> {
    vec![call("run_shell_command", json!({"command": command})), say("Done.")]
}

/// Without namespaces nothing of this can be tried: then it must be refused, before any request.
fn is_to_be_had(outcome: &Outcome) -> bool {
    if outcome.code == 44 {
        aloud("NOT TESTED: this machine gives no namespaces, so that a project cannot be lent in place");
        assert!(outcome.stderr.contains("in-place"), "{}", outcome.stderr);
        return false;
    }
    true
}

#[expect(clippy::print_stdout, reason = "the output of a test is how it speaks")]
fn aloud(text: &str) {
    println!("{text}");
}

#[test]
fn what_commands_did_in_the_project_is_delivered_with_a_record() {
    for flag in ["--apply", "--commit"] {
        let project = project(work(WORK));
        let outcome = project.run(&[flag, "go"]);
        if !is_to_be_had(&outcome) {
            return;
        }
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
        assert_eq!((project.read("a"), project.read("new/deep/f")), ("2\n".into(), "n\n".into()));
        assert!(!project.root().join("src/gone").exists());
        // Commands worked in the project itself: build output is where a build left it.
        assert_eq!((project.read("out/built"), project.read("out/old")), ("o\n".into(), "old\n".into()));
        assert_eq!(outcome.result["changes"]["files"].as_array().unwrap().len(), 5, "{}", outcome.result);
        let asked = project.server().requests()[1].to_string();
        assert!(asked.contains(project.root().canonicalize().unwrap().to_str().unwrap()), "{asked}");
        let undone = project.qwen(&["undo"]);
        assert_eq!(undone.code, 0, "{}", undone.stderr);
        assert_eq!((project.read("a"), project.read("src/gone")), ("1\n".into(), "1\n".into()));
        assert_eq!(project.run_git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn a_run_that_does_not_deliver_leaves_the_project_byte_for_byte_as_it_was() {
    let failing = "echo 2 > a; rm src/gone; echo n > new; echo o > out/built; echo x > out/old";
    let denied = format!("{failing}; mkdir -p .github; echo x > wf; ln wf .github/wf");
    let endings: [(&str, &[&str], i32); 4] = [
        (failing, &["--apply", "--verify", "false"], 64),
        (failing, &["--apply", "--max-changed-files", "1"], 60),
        (&denied, &["--apply", "--on-deny", "stop"], 60),
        (failing, &["--commit", "--verify", "test -e nothing"], 64),
    ];
    for (command, flags, code) in endings {
        let mut script = work(command);
        script.push(say("Done."));
        script.push(say("Done."));
        script.push(say("Done."));
        let project = project(script);
        let before = project.tree();
        let outcome = project.run(&[flags, &["go"]].concat());
        if !is_to_be_had(&outcome) {
            return;
        }
        assert_eq!(outcome.code, code, "{flags:?} {}\n{}", outcome.stdout, outcome.stderr);
        assert_eq!(project.tree(), before, "{flags:?}");
        let kept = std::fs::read_dir(project.home().join(".local/state/qwen/in-place"));
        assert_eq!(kept.map_or(0, Iterator::count), 0, "{flags:?}");
    }
}

#[test]
fn denied_files_and_git_s_own_folder_are_held_back() {
    let attack = "cat .env; echo x > .git/hooks-were-here; echo y > .env; rm -f .env; mv .git g; echo 2 > a\n";
    let project = project(work("bash attack.sh; git add a; git commit -qm in-scratch; git log --oneline"))
        .file("attack.sh", attack);
    project.run_git(&["add", "attack.sh"]);
    project.run_git(&["commit", "-qm", "attack"]);
    let history = project.run_git(&["log", "--oneline"]);
    let outcome = project.run(&["--apply", "go"]);
    if !is_to_be_had(&outcome) {
        return;
    }
    let asked = project.server().requests()[1].to_string();
    assert!(!asked.contains("hunter2"), "{asked}");
    assert!(asked.contains("in-scratch"), "git works, in a scratch folder: {asked}");
    assert_eq!(project.run_git(&["log", "--oneline"]), history);
    assert_eq!(project.read(".env"), "KEY=hunter2hunter2\n");
    assert!(!project.root().join(".git/hooks-were-here").exists());
    assert_eq!((outcome.code, project.read("a").as_str()), (0, "2\n"), "{}", outcome.stderr);
}

/// Starts a run whose command changes the project and then waits; returns when it has.
fn at_work(project: &Project) -> Option<std::process::Child> {
    let file = project.beside("result.json").display().to_string();
    let mut child = project
        .command(&["run", "--result-file", &file, "--apply", "go"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    loop {
        if std::fs::read_to_string(project.root().join("ready")).is_ok_and(|text| text.ends_with('\n')) {
            return Some(child);
        }
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(44), "it ended by itself");
            aloud("NOT TESTED: this machine gives no namespaces");
            return None;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

const WAITS: &str = "echo 2 > a; rm src/gone; echo o > out/built; echo ready > ready; sleep 600";

#[test]
fn an_interrupted_run_puts_the_project_back_itself() {
    let project = project(work(WAITS));
    let before = project.tree();
    let Some(child) = at_work(&project) else { return };
    std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let outcome = project.finish(child);
    assert_eq!(outcome.code, 143, "{}", outcome.stderr);
    assert_eq!(project.tree(), before);
}

#[test]
fn after_a_kill_undo_puts_the_project_back_and_until_then_nothing_runs_there() {
    let project = project(work(WAITS));
    let before = project.tree();
    let Some(child) = at_work(&project) else { return };
    let busy = project.qwen(&["undo"]);
    assert_eq!(busy.code, 63, "{}", busy.stderr);
    std::process::Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap();
    project.finish(child);
    assert_eq!(project.read("a"), "2\n");
    let next = project.run(&["--apply", "go"]);
    assert_eq!(next.code, 63, "{}", next.stderr);
    assert!(next.stderr.contains("qwen undo"), "{}", next.stderr);
    let undone = project.qwen(&["undo"]);
    assert_eq!(undone.code, 0, "{}", undone.stderr);
    assert!(undone.stdout.contains("killed while its commands worked"), "{}", undone.stdout);
    assert_eq!(project.tree(), before);
    assert_eq!(project.qwen(&["undo"]).code, 63, "there is nothing more to undo");
}

#[test]
fn what_cannot_be_read_never_runs_in_the_project_itself() {
    let policy = POLICY.replace("{default: allow}", "{default: allow, unanalysable: sandboxed}");
    let project = project(work("eval 'echo 2 > a'")).policy(&policy);
    let outcome = project.run(&["--apply", "go"]);
    if !is_to_be_had(&outcome) {
        return;
    }
    let asked = project.server().requests()[1].to_string();
    assert!(asked.contains("cannot be read"), "{asked}");
    assert_eq!(project.read("a"), "1\n");
}

#[test]
fn a_dry_run_starts_only_what_writes_nothing_and_a_branch_is_refused() {
    let project = project([
        call("write_file", json!({"file_path": "a", "content": "staged\n"})),
        call("run_shell_command", json!({"command": "cat a"})),
        call("run_shell_command", json!({"command": "touch b"})),
        say("Done."),
    ]);
    let before = project.tree();
    let outcome = project.run(&["go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let requests = project.server().requests();
    assert!(requests[2].to_string().contains("Stdout: staged"), "{}", requests[2]);
    assert!(
        requests[3].to_string().contains("in a dry run a command that may write is not started"),
        "{}",
        requests[3]
    );
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
