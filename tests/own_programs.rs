//! Tests the programs that this program starts itself: never one from the workspace, and none that outlives the run.

use std::io::BufRead as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{Project, Reply, call, say};

/// Names of programs that some command of ours starts.
const NAMES: [&str; 8] = ["git", "sh", "bash", "gpg", "gpgsm", "ssh-keygen", "llama-server", "env"];

fn executable(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Puts a program of each name into a directory; each notes that it ran, and then does what was asked.
fn plant(project: &Project, at: &str) {
    for name in NAMES {
        let note = project.beside("ran").display().to_string();
        let text = format!(
            "#!/bin/bash\necho {name} \"$@\" >> {note}\nfor at in /usr/local/bin /usr/bin /bin; do [ -x $at/{name} ] && exec $at/{name} \"$@\"; done\nexit 1\n"
        );
        executable(&project.root().join(at).join(name), &text);
    }
}

fn ran(project: &Project) -> String {
    std::fs::read_to_string(project.beside("ran")).unwrap_or_default()
}

fn replies() -> Vec<Reply> {
    vec![
        call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "ONE"})),
        call("run_shell_command", json!({"command": "git status --short | cat"})),
        call("run_shell_command", json!({"command": "test -f a.txt && git log --oneline"})),
        say("done"),
    ]
}

/// The project's own directories as build tools put them into PATH: by name, and through a link.
fn paths(project: &Project) -> [PathBuf; 2] {
    let link = project.beside("link");
    symlink(project.root().join("node_modules"), &link).unwrap();
    [project.root().join("node_modules/.bin"), link.join(".bin")]
}

#[test]
fn no_program_of_the_workspace_starts_for_any_call_of_ours() {
    let flags: [&[&str]; 5] =
        [&[], &["--apply"], &["--commit"], &["--branch", "qwen/x"], &["--sandbox", "off", "--apply"]];
    for flags in flags {
        for at in 0..2 {
            let project = Project::new().file("a.txt", "one\n").git();
            let settings = json!({"hooks": {"SessionStart": [{"hooks": [
                {"type": "command", "command": "git rev-parse HEAD; true"}]}]}});
            std::fs::create_dir_all(project.home().join(".qwen")).unwrap();
            std::fs::write(project.home().join(".qwen/settings.json"), settings.to_string()).unwrap();
            std::fs::write(
                project.home().join(".gitconfig"),
                "[user]\n\tname = A\n\temail = a@example.com\n[commit]\n\tgpgSign = true\n",
            )
            .unwrap();
            plant(&project, "node_modules/.bin");
            let path = format!("{}:{}", paths(&project)[at].display(), std::env::var("PATH").unwrap());
            let project = project.env("PATH", &path).model(replies());
            let outcome = project.run(&[flags, &["change it"]].concat());
            assert_eq!(ran(&project), "", "{flags:?} {}", outcome.stderr);
            for verb in
                [&["undo"][..], &["doctor"], &["policy", "trust"], &["hook", "install"], &["hook", "pre-commit"]]
            {
                let outcome = project.qwen(verb);
                assert_eq!(ran(&project), "", "{verb:?} {}", outcome.stderr);
            }
            let outcome = project.run(&["--local", "a.txt", "hi"]);
            assert_eq!((outcome.code, ran(&project)), (52, String::new()), "{}", outcome.stderr);
        }
    }
}

#[test]
fn in_a_part_of_a_checkout_no_program_of_the_checkout_starts_either() {
    let project = Project::new().file("a.txt", "one\n").file("app/b.txt", "one\n").git();
    plant(&project, "node_modules/.bin");
    let path = format!("{}:{}", paths(&project)[0].display(), std::env::var("PATH").unwrap());
    let project = project
        .env("PATH", &path)
        .model([call("edit", json!({"file_path": "b.txt", "old_string": "one", "new_string": "ONE"})), say("done")]);
    let outcome = project.run(&["-C", "app", "--commit", "change it"]);
    assert_eq!((outcome.code, ran(&project)), (0, String::new()), "{}", outcome.stderr);
}

/// Starts a run with a git that never ends, and returns it once that git is at work, with the end of a pipe that it
/// holds for as long as it lives.
fn waiting_for_git(project: &Project, flags: &[&str]) -> (std::process::Child, impl Iterator<Item = String> + use<>) {
    let life = project.beside("life");
    assert!(std::process::Command::new("mkfifo").arg(&life).status().unwrap().success());
    executable(
        &project.beside("bin/git"),
        &format!("#!/bin/sh\nexec > {}\necho up\nsleep 600 & trap '' TERM INT\nwait\nsleep 600\n", life.display()),
    );
    let child = project.spawn(flags);
    let mut lines = std::io::BufReader::new(std::fs::File::open(&life).unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "up");
    (child, lines)
}

/// Puts a git first on PATH that, after each call, runs this line of the shell.
fn with_git_then(project: Project, line: &str) -> Project {
    let paths = std::env::var("PATH").unwrap();
    let git = std::env::split_paths(&paths).map(|path| path.join("git")).find(|path| path.is_file()).unwrap();
    executable(&project.beside("bin/git"), &format!("#!/bin/sh\n{} \"$@\" || exit\n{line}\n", git.display()));
    let path = format!("{}:{paths}", project.beside("bin").display());
    project.env("PATH", &path)
}

#[test]
fn a_lock_that_git_leaves_behind_is_named() {
    let project = with_git_then(
        Project::new().file("a.txt", "one\n").git(),
        "case \" $* \" in *' update-ref '*) : > \"${GIT_DIR:-.git}/HEAD.lock\";; esac",
    );
    let edit = call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}));
    let project = project.model([edit, say("done")]);
    let outcome = project.run(&["--commit", "--message", "m", "do it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains(".git/HEAD.lock was left over"), "{}", outcome.stderr);
    let lock = project.root().join(".git/HEAD.lock");
    std::fs::remove_file(&lock).unwrap();
    let undone = project.qwen(&["undo"]);
    assert_eq!(undone.code, 0, "{}{}", undone.stdout, undone.stderr);
    assert!(undone.stdout.contains(".git/HEAD.lock was left over"), "{}{}", undone.stdout, undone.stderr);
}

#[test]
fn a_git_that_dies_once_it_has_moved_a_branch_has_moved_it() {
    for flags in [&["--commit"][..], &["--branch", "b"]] {
        let dies = "case \" $* \" in *' update-ref '*) kill -9 $$;; esac";
        let project = with_git_then(Project::new().file("a.txt", "one\n").git(), dies);
        let edit = call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}));
        let project = project.model([edit, say("done")]);
        let head = project.run_git(&["rev-parse", "HEAD"]);
        let outcome = project.run(&[flags, &["--message", "m", "do it"]].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let made = outcome.result["git"]["commit"].as_str().unwrap().to_owned();
        let branch = if flags.len() == 1 { "HEAD" } else { "b" };
        assert_eq!(project.run_git(&["rev-parse", branch]).trim(), made);
        assert_eq!(project.run_git(&["status", "--porcelain"]), "");
        if flags.len() == 1 {
            let undone = project.qwen(&["undo"]);
            assert_eq!(undone.code, 0, "{}{}", undone.stdout, undone.stderr);
            assert_eq!(project.run_git(&["rev-parse", "HEAD"]), head);
            assert_eq!(project.run_git(&["status", "--porcelain"]), "");
        }
    }
}

#[test]
fn a_signal_ends_a_run_that_waits_for_git_and_git_with_it() {
    for (signal, code) in [(rustix::process::Signal::TERM, 143), (rustix::process::Signal::INT, 130)] {
        let project = Project::new().file("a.txt", "one\n").git();
        // With such a section nobody looks meanwhile whether files differ: one git is waited for.
        project.run_git(&["config", "diff.algorithm", "myers"]);
        let path = format!("{}:{}", project.beside("bin").display(), std::env::var("PATH").unwrap());
        let project = project.env("PATH", &path).model([say("done")]);
        let file = project.beside("result.json").display().to_string();
        let (child, mut life) = waiting_for_git(&project, &["run", "--result-file", &file, "--commit", "hi"]);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        let outcome = project.finish(child);
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        assert_eq!(outcome.result["error"]["code"], "interrupted", "{}", outcome.stderr);
        // The pipe closes when git and what it started are gone; no other starts after the signal.
        assert_eq!(life.next(), None);
    }
}

#[test]
fn a_signal_ends_a_command_that_waits_for_git_and_git_with_it() {
    let project = Project::new().file("a.txt", "one\n").git();
    let path = format!("{}:{}", project.beside("bin").display(), std::env::var("PATH").unwrap());
    let project = project.env("PATH", &path);
    let (child, mut life) = waiting_for_git(&project, &["hook", "pre-commit"]);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let outcome = project.finish(child);
    assert_eq!(outcome.code, 143, "{}", outcome.stderr);
    assert_eq!(life.next(), None);
}

#[test]
fn a_browser_gets_nothing_of_the_checkout_and_no_key() {
    let patch = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let project = Project::new().file("a.txt", "one\n").executable("planted", "#!/bin/sh\n").git().stdin(patch);
    let (pipe, browser) = (project.beside("pipe"), project.beside("browser"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let script = "#!/bin/sh\nprintf '%s|%s|%s|%s' \"$1\" \"$(pwd -P)\" \"$QWEN_API_KEY\" \"$(command -v planted)\" > ";
    executable(&browser, &format!("{script}'{}'\n", pipe.display()));
    let path = format!("{}:{}", project.root().display(), std::env::var("PATH").unwrap());
    let project = project
        .env("BROWSER", &browser.display().to_string())
        .env("QWEN_API_KEY", "key-of-a-provider")
        .env("PATH", &path);
    let outcome = project.qwen(&["report", "--open", "-o", "page.html", "-"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let page = project.root().join("page.html").display().to_string();
    assert_eq!(std::fs::read_to_string(&pipe).unwrap(), format!("{page}|/||"));
}
