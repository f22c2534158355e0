//! Tests signals to commands that deliver: the tree is as before or as after, and they say which.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::apply::{large, leftovers};
use crate::batch_deliver::{items, project, without};
use crate::support::batch::write_batch;
use crate::support::{Outcome, Project};

/// Returns a PATH whose git sends this signal to the program that starts it when its arguments have this word, and then
/// waits to be ended.
pub(crate) fn path_with_signal(project: &Project, signal: &str, word: &str) -> String {
    let paths = std::env::var("PATH").unwrap();
    let git = std::env::split_paths(&paths).map(|path| path.join("git")).find(|path| path.is_file()).unwrap();
    let file = project.beside("bin/git");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' {word} '*) kill -{signal} $PPID; exec sleep 600;; esac\nexec {} \"$@\"\n",
        git.display()
    );
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{paths}", project.beside("bin").display())
}

/// Runs the program with such a git.
fn interrupted(project: &Project, signal: &str, word: &str, arguments: &[&str]) -> Outcome {
    let mut command = project.command(arguments);
    command.env("PATH", path_with_signal(project, signal, word)).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    project.finish(command.spawn().unwrap())
}

fn kill(signal: &str, child: &std::process::Child) {
    std::process::Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
}

#[test]
fn a_signal_during_a_commit_rolls_it_back_and_is_told() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let (project, patch) = large();
        let (before, head) = (project.tree(), project.run_git(&["rev-parse", "HEAD"]));
        let outcome = interrupted(&project, signal, "update-ref", &["apply", "--commit", &patch]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (code, ""), "{}", outcome.stderr);
        let told = format!("error: interrupted by SIG{signal}: ");
        assert!(outcome.stderr.starts_with(&told), "{}", outcome.stderr);
        assert!(project.tree() == before, "the tree is mixed");
        assert_eq!(project.run_git(&["rev-parse", "HEAD"]), head);
        assert_eq!(project.run_git(&["status", "--porcelain"]), "");
        assert_eq!(leftovers(&project), Vec::<std::path::PathBuf>::new());
        assert_eq!(project.qwen(&["apply", "--commit", &patch]).code, 0);
    }
}

#[test]
fn a_signal_while_an_undo_takes_a_commit_back_leaves_all_of_it() {
    let (project, patch) = large();
    let before = project.tree();
    assert_eq!(project.qwen(&["apply", "--commit", &patch]).code, 0);
    let (after, head) = (project.tree(), project.run_git(&["rev-parse", "HEAD"]));
    let outcome = interrupted(&project, "TERM", "update-ref", &["undo"]);
    assert_eq!(outcome.code, 143, "{}", outcome.stderr);
    assert!(outcome.stderr.starts_with("error: interrupted by SIGTERM: "), "{}", outcome.stderr);
    assert!(project.tree() == after, "the tree is mixed");
    assert_eq!(project.run_git(&["rev-parse", "HEAD"]), head);
    assert_eq!(project.qwen(&["undo"]).code, 0);
    assert!(project.tree() == before);
}

/// The moments are tried; whichever is hit, all of it is delivered and said, or nothing.
#[test]
fn a_signal_at_any_moment_leaves_the_tree_as_before_or_after() {
    let (project, patch) = large();
    let before = project.tree();
    let started = std::time::Instant::now();
    assert_eq!(project.qwen(&["apply", &patch]).code, 0);
    let (whole, after) = (started.elapsed(), project.tree());
    assert_eq!(project.qwen(&["undo"]).code, 0);
    for number in 0..12_u32 {
        for (arguments, from, to) in [(&["apply", &patch][..], &before, &after), (&["undo"], &after, &before)] {
            if project.tree() != *from {
                continue;
            }
            let child = project.spawn(arguments);
            std::thread::sleep(whole.mul_f64(0.4 + f64::from(number) / 16.0));
            kill("TERM", &child);
            let outcome = project.finish(child);
            let now = project.tree();
            match outcome.code {
                0 => assert!(now == *to && !outcome.stdout.is_empty(), "{number} {arguments:?}"),
                143 => assert!(now == *from, "{number} {arguments:?}: {}", outcome.stderr),
                other => panic!("{other}: {}", outcome.stderr),
            }
        }
        if project.tree() == after {
            assert_eq!(project.qwen(&["undo"]).code, 0);
        }
        assert_eq!(leftovers(&project), Vec::<std::path::PathBuf>::new(), "{number}");
    }
}

#[test]
fn a_second_signal_ends_a_delivery_that_waits_for_its_reader() {
    let project = Project::new().file("a.txt", "one\n").git();
    std::fs::write(project.root().join("a.txt"), "two\n".repeat(100_000)).unwrap();
    let patch = project.beside("x.patch").display().to_string();
    project.run_git(&["diff", &format!("--output={patch}")]);
    project.run_git(&["reset", "-q", "--hard"]);
    let mut child = project.spawn(&["apply", "-o", "patch", &patch]);
    while project.read("a.txt").len() < 100_000 {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
    // Nobody reads what it prints: it waits until the second one comes.
    while child.try_wait().unwrap().is_none() {
        kill("TERM", &child);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(project.read("a.txt").len(), 400_000);
}

#[test]
fn a_signal_ends_the_delivery_of_a_batch_before_or_after_each_change() {
    let project = project();
    let before = project.tree();
    let out = project.beside("out");
    write_batch(&out, &without(items(&project), 3), None);
    let out = out.display().to_string();
    let deliver = ["batch", "deliver", &out];
    let outcome = interrupted(&project, "TERM", "update-ref", &[&deliver[..], &["--commit"]].concat());
    assert_eq!(outcome.code, 143, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("interrupted by SIGTERM"), "{}", outcome.stderr);
    assert!(project.tree() == before, "the tree is mixed");
    let outcome = interrupted(&project, "TERM", "update-ref", &[&deliver[..], &["--branch-each", "q/{key}"]].concat());
    assert_eq!((outcome.code, outcome.stdout.lines().count()), (143, 3), "{}{}", outcome.stdout, outcome.stderr);
    let all_fail = outcome.stdout.lines().all(|line| line.starts_with("fail ") && line.contains(": interrupted by"));
    assert!(all_fail, "{}", outcome.stdout);
    assert_eq!(project.run_git(&["for-each-ref", "refs/heads/q"]), "");
    assert_eq!(project.qwen(&[&deliver[..], &["--branch-each", "q/{key}"]].concat()).code, 0);
}
