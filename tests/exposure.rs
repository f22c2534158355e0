//! What a command's own programs find of the repository, in each isolation tier.

use std::path::Path;

use serde_json::json;

use crate::failing_calls::{self, tier_faults};
use crate::support::{Outcome, Project, call, say};

const POLICY: &str = "version: 1\nchanges: {default: dry-run, allow: [dry-run, apply]}\n\
    tools: {allow: [read_file, edit, write_file, run_shell_command]}\n\
    paths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"], exec_bit: true}}\nshell: {default: allow}\n";

/// Lets the model run commands one after the other in a tier; returns what it read of each. `None`: not this machine.
fn run_in(tier: &str, project: Project, flags: &[&str], commands: &[&str]) -> Option<(Vec<String>, Project, Outcome)> {
    let calls = commands.iter().map(|command| call("run_shell_command", json!({"command": command})));
    let project = project.model(calls.chain([say("done")]));
    let outcome = failing_calls::qwen(&project, tier_faults(tier), &[&["run"], flags, &["go"]].concat());
    if !outcome.stderr.contains(&format!("sandbox {tier}")) && !flags.contains(&"--sandbox=off") {
        eprintln!("SKIPPED: this machine does not give {tier}: {}", outcome.stderr);
        return None;
    }
    let requests = project.server().requests();
    let answers = (0..commands.len()).map(|at| {
        let messages = requests[at + 1]["messages"].as_array().unwrap();
        messages.last().unwrap()["content"].to_string()
    });
    Some((answers.collect(), project, outcome))
}

/// A build of the project, which runs programs that no rule has seen.
fn with_build(project: Project, script: &str) -> Project {
    project.file("build.sh", script).policy(POLICY)
}

fn append(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_path_in_the_git_directory_opens_nothing_but_objects_of_a_repository() {
    for tier in ["T3", "T2"] {
        for line in ["/", "{home}", "{home}/keys", "../../../home", "../../../home/keys"] {
            let project = Project::new();
            let home = project.home().canonicalize().unwrap();
            let project =
                with_build(project, &format!("cat {}/keys/id; echo built\n", home.display())).file("a", "1\n").git();
            append(&home.join("keys/id"), "PRIVATE\n");
            let line = line.replace("{home}", home.to_str().unwrap());
            append(&project.root().join(".git/objects/info/alternates"), &format!("{line}\n"));
            let commands = ["sh build.sh", "git log --oneline"];
            let Some((answers, ..)) = run_in(tier, project, &[], &commands) else { continue };
            assert!(answers[0].contains("built") && !answers[0].contains("PRIVATE"), "{tier} {line}: {answers:?}");
            assert!(answers[1].contains("start"), "{tier} {line}: {answers:?}");
        }
    }
}

#[test]
fn objects_that_a_repository_borrows_from_another_one_are_there() {
    for tier in ["T3", "T2"] {
        let project = with_build(Project::new(), "git log --oneline || echo none\n").file("a", "1\n").git();
        project.run_git(&["clone", "-q", "--bare", ".", "../pool"]);
        append(&project.root().join(".git/objects/info/alternates"), "../../../pool/objects\n");
        project.run_git(&["repack", "-a", "-d", "-l", "-q"]);
        let Some((answers, ..)) = run_in(tier, project, &[], &["git log --oneline", "sh build.sh"]) else { continue };
        assert!(answers[0].contains("start"), "{tier}: {answers:?}");
        // What else is in the other repository, nobody knows.
        assert!(answers[1].contains("none"), "{tier}: {answers:?}");
    }
}

#[test]
fn parts_of_a_repository_behind_a_link_are_not_there_and_the_model_is_told() {
    for tier in ["T3", "T2"] {
        for part in ["objects", "refs"] {
            let script = format!("cat /.qwen/objects/id .git/{part}/id {{home}}/keys/id; echo built\n");
            let project = Project::new();
            let home = project.home().canonicalize().unwrap();
            let script = script.replace("{home}", home.to_str().unwrap());
            let project = with_build(project, &script).file("a", "1\n").git();
            append(&home.join("keys/id"), "PRIVATE\n");
            let part = project.root().join(".git").join(part);
            std::fs::remove_dir_all(&part).unwrap();
            std::os::unix::fs::symlink(home.join("keys"), &part).unwrap();
            let Some((answers, ..)) = run_in(tier, project, &[], &["sh build.sh"]) else { continue };
            assert!(answers[0].contains("built") && !answers[0].contains("PRIVATE"), "{tier}: {answers:?}");
            assert!(answers[0].contains("commands find no git repository"), "{tier}: {answers:?}");
        }
    }
}

/// A build prints what was committed, if it finds a repository.
const PRINTS: &str = "git log -p --all --reflog --format=seen-%s; echo built\n";

#[test]
fn a_program_finds_no_repository_whose_history_holds_what_may_not_be_read() {
    let plain = POLICY.to_owned();
    let deny = POLICY.replace("read: {allow", "read: {deny: [\"private/**\"], allow");
    let allow = POLICY.replace("read: {allow: [\"**\"]}", "read: {allow: [\"*.sh\", \"a\"]}");
    let gone = "rm -r private .env .env.example k.pem; git add -A; git commit -qm gone";
    for (policy, file, then, hides) in [
        (&plain, "src/a", "", false),
        (&plain, ".env.example", "", false),
        (&plain, "private/a", "", false),
        (&plain, ".env", "", true),
        (&plain, "k.pem", gone, true),
        (&plain, ".env", "git rm -q --cached .env; git commit -q --amend -m gone", true),
        (&deny, "private/a", gone, true),
        (&deny, "src/a", "", false),
        (&allow, "src/a", "", true),
        (&allow, "a", "", false),
    ] {
        for tier in ["T3", "T2"] {
            let project = with_build(Project::new(), PRINTS).file(file, "TOP-SECRET\n").policy(policy).git();
            let script = then.split("; ").filter(|line| !line.is_empty());
            for line in script {
                let words: Vec<&str> = line.split(' ').collect();
                match words.split_first() {
                    Some((&"git", rest)) => drop(project.run_git(rest)),
                    Some(_) => words[2..].iter().for_each(|name| {
                        let path = project.root().join(name);
                        let _not_there = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
                    }),
                    None => {}
                }
            }
            let commands = ["sh build.sh", "git log --format=own-%s -1", "sh build.sh"];
            let Some((answers, ..)) = run_in(tier, project, &[], &commands) else { continue };
            let what = format!("{tier} {file} {then}: {answers:?}");
            assert_eq!(answers[0].contains("seen-"), !hides, "{what}");
            assert_eq!(answers[0].contains("programs find no git repository"), hides, "{what}");
            assert_eq!(answers.concat().contains("TOP-SECRET"), !hides, "{what}");
            assert!(answers[0].contains("built") && answers[1].contains("own-"), "{what}");
            assert_eq!(answers[2].contains("seen-"), !hides, "{what}");
        }
    }
}
