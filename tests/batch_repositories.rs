//! Tests `qwen batch --repos` with a server that speaks git's own protocol.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::batch_recipes::UPGRADE;
use crate::support::git_https::{GitHttps, fixture};
use crate::support::{Project, Server, call, say};

/// The token of the server.
const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

fn sh(project: &Project, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(project.beside(".")).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A server of so many repositories of `acme`, and a project with the list.
fn served(count: usize) -> (Project, GitHttps) {
    let answer = |request: &Value| match request["messages"].as_array().unwrap().len() {
        2 => call("write_file", json!({"file_path": "version.txt", "content": "version 2\n"})),
        _ => say("upgraded"),
    };
    let project = Project::new().file("upgrade.yaml", UPGRADE).served_by(Server::answering(answer));
    sh(
        &project,
        &format!(
            "mkdir -p served/acme; git init -q -b main first; cd first; git config user.email a@b; git config user.name a
            echo 'version 1' > version.txt; git add -A; git commit -qm one
            for n in $(seq {count}); do git clone -q --bare . ../served/acme/r$n.git; done"
        ),
    );
    let server = GitHttps::start(&project.beside("served"), TOKEN);
    let host = server.host();
    let list: String = (1..=count).map(|n| format!("https://{host}/acme/r{n}.git\n")).collect();
    let policy =
        format!("version: 1\nname: p\nextends: builtin:edit\nbatch: {{repos: {{allow: ['{host}/acme/*']}}}}\n");
    // What pushes reads the user's configuration; what clones does not.
    let authority = fixture("authority.pem");
    let configuration = format!("[user]\n\tname = a\n\temail = a@b\n[http]\n\tsslCAInfo = {authority}\n");
    std::fs::write(project.home().join(".gitconfig"), configuration).unwrap();
    (project.file("repos.txt", list).policy(&policy), server)
}

#[test]
fn repositories_of_a_server_are_cloned_changed_and_pushed_with_its_token() {
    upgraded(8);
}

#[test]
#[ignore = "50 clones take a minute: cargo nextest run --run-ignored all -E 'test(fifty_repositories)'"]
fn fifty_repositories_are_upgraded() {
    upgraded(50);
}

fn upgraded(count: usize) {
    let (project, server) = served(count);
    let project = project.env("QWEN_GIT_TOKEN", TOKEN).env("GIT_SSL_CAINFO", &fixture("authority.pem"));
    let batch = ["batch", "--repos", "repos.txt", "--recipe", "./upgrade.yaml", "--out", "out"];
    let run = project.qwen(&[&batch[..], &["--branch-each", "qwen/{name}", "-j", "8"]].concat());
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let bundles = std::fs::read_dir(project.root().join("out/items")).unwrap().flatten();
    assert_eq!(bundles.filter(|entry| entry.path().extension().is_some_and(|end| end == "bundle")).count(), count);
    let host = server.host();
    let items = project.read("out/items.jsonl");
    assert!(items.contains(&format!("\"key\":\"{host}/acme/r{count}\"")), "{items}");
    let digest = qwen_run::base::digest::sha256(project.read("out/summary.json").as_bytes());
    let deliver = ["batch", "deliver", "out", "--push", "--sha256", &digest, "--branch-each", "qwen/{name}"];
    let pushed = project.qwen(&deliver);
    assert_eq!(pushed.code, 0, "{}{}", pushed.stdout, pushed.stderr);
    for n in 1..=count {
        let shown = sh(&project, &format!("git -C served/acme/r{n}.git show qwen/upgrade:version.txt"));
        assert_eq!(shown, "version 2\n", "r{n}");
    }
    assert_eq!(server.refused(), 0, "each request has the token");
    let kept = sh(&project, "cat work/out/*.json* work/out/items/*; cat -- work/repos.txt");
    assert!(!kept.contains(TOKEN), "the token is in no file");
}

#[test]
fn who_has_no_token_or_does_not_know_the_authority_gets_no_clone() {
    let (project, server) = served(1);
    let batch = ["batch", "--repos", "repos.txt", "--recipe", "./upgrade.yaml"];
    let unknown = project.qwen(&batch);
    assert_eq!(unknown.code, 1, "{}{}", unknown.stdout, unknown.stderr);
    assert!(unknown.stdout.contains("\"exit_code\":42"), "{}", unknown.stdout);
    assert_eq!(server.refused(), 0, "nothing is asked of a server that nobody vouches for");
    let project = project.env("GIT_SSL_CAINFO", &fixture("authority.pem"));
    let refused = project.qwen(&batch);
    assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
    assert!(server.refused() > 0);
    assert!(project.server().requests().is_empty(), "no model is asked");
}
