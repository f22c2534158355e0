//! Tests repositories inside a project whose configuration names programs: git never works in them.

use nix::libc;
use serde_json::{Value, json};

use crate::failing_calls::{Fault, qwen};
use crate::support::{Outcome, Project, Reply, call, calls, say};

const NO_NAMESPACES: Fault = ("making namespaces", &[libc::SYS_unshare], libc::EPERM, None);
const NO_LANDLOCK: Fault = ("Landlock", &[444, 445, 446], libc::ENOSYS, None);

/// What the kernel is kept from, and what then isolates; `--sandbox off` needs nothing of it.
const TIERS: [(&str, &[Fault], &[&str]); 4] = [
    ("T3", &[], &[]),
    ("T2", &[NO_NAMESPACES], &[]),
    ("T1", &[NO_NAMESPACES, NO_LANDLOCK], &[]),
    ("off", &[], &["--sandbox", "off"]),
];

/// A program that says so when it ran, in a word that its own text does not hold.
const EVIL: &str = "sh -c 'echo EVIL-$((40+2)); echo EVIL-$((40+2)) >&2; touch ran; cat'";

const OPEN: &str = "version: 1\nchanges: {default: dry-run, allow: [dry-run, apply, commit]}\n\
    tools: {allow: [read_file, edit, write_file, run_shell_command]}\n\
    paths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"]}}\n\
    shell: {default: allow}\n";

/// The files of a bare repository that has the objects of the workspace's own.
fn bare(project: &Project) -> Vec<(&'static str, String)> {
    let head = project.run_git(&["rev-parse", "HEAD"]);
    let mut config = format!(
        "[core]\n\tbare = false\n\tworktree = {}\n\tfsmonitor = \"{EVIL}\"\n\tpager = \"{EVIL}\"\n",
        project.root().display()
    );
    config +=
        &format!("[diff]\n\texternal = \"{EVIL}\"\n[diff \"evil\"]\n\ttextconv = \"{EVIL}\"\n\tcommand = \"{EVIL}\"\n");
    config += &format!("[filter \"evil\"]\n\tclean = \"{EVIL}\"\n\tsmudge = \"{EVIL}\"\n[alias]\n\tst = \"!{EVIL}\"\n");
    vec![
        ("HEAD", "ref: refs/heads/main\n".to_owned()),
        ("config", config),
        ("info/attributes", "* diff=evil filter=evil\n".to_owned()),
        ("objects/info/alternates", format!("{}/.git/objects\n", project.root().display())),
        ("refs/heads/main", head),
    ]
}

fn shell(command: &str) -> Reply {
    call("run_shell_command", json!({"command": command}))
}

/// What is tried in a directory, by `-C` and by `cd`.
fn tries(folder: &str) -> Vec<(&'static str, Value)> {
    let verbs = [
        "status",
        "diff",
        "diff --cached",
        "log -p -1",
        "log --oneline -1",
        "show HEAD",
        "blame a.txt",
        "ls-files",
        "grep one",
        "st",
    ];
    let by = |verb: &&str| [format!("git -C {folder} {verb}"), format!("cd {folder} && git {verb}")];
    verbs.iter().flat_map(by).map(|command| ("run_shell_command", json!({"command": command}))).collect()
}

fn run(project: &Project, (_, faults, flags): (&str, &[Fault], &[&str])) -> Outcome {
    let result = project.beside("result.json").display().to_string();
    let always = ["run", "--result-file", &result, "--on-deny", "continue", "--max-denials", "1000", "look"];
    qwen(project, &faults.iter().collect::<Vec<_>>(), &[&always[..], flags].concat())
}

#[track_caller]
fn assert_nothing_ran(project: &Project, tier: &str, outcome: &Outcome) {
    let seen = serde_json::to_string(&project.server().requests()).unwrap();
    assert!(!seen.contains("EVIL-42"), "{tier}: it ran: {}", outcome.stderr);
    assert!(!project.root().join("ran").exists(), "{tier}: it ran in the project");
    assert!(!outcome.result["changes"].to_string().contains("\"ran\""), "{tier}: it ran in the tree of commands");
}

fn denials(outcome: &Outcome) -> usize {
    let denied = outcome.result["permission_denials"].as_array().cloned().unwrap_or_default();
    denied.iter().filter(|denial| denial.to_string().contains("in another repository")).count()
}

#[test]
fn git_never_works_in_a_repository_that_the_project_brings_along() {
    for tier in TIERS {
        for policy in [None, Some(OPEN)] {
            for at in ["docs/ex", "vendor/x/.git"] {
                let mut project = Project::new().file("a.txt", "one\n").git();
                for (name, text) in bare(&project) {
                    project = project.file(&format!("{at}/{name}"), text);
                }
                let folder = at.trim_end_matches("/.git");
                let tried = tries(folder);
                let count = tried.len();
                project = project.file(&format!("{folder}/sub/a.txt"), "one\n").file("a.txt", "two\n");
                let below = tries(&format!("{folder}/sub"));
                project = project.model([calls(tried), calls(below), say("done")]);
                if let Some(policy) = policy {
                    project = project.policy(policy);
                }
                let outcome = run(&project, tier);
                assert_nothing_ran(&project, tier.0, &outcome);
                assert_eq!(denials(&outcome), 2 * count, "{} {at}: {:#}", tier.0, outcome.result["permission_denials"]);
            }
        }
    }
}

#[test]
fn git_never_works_in_a_repository_that_the_run_writes_and_no_change_delivers_one() {
    for tier in TIERS {
        let project = Project::new().file("a.txt", "one\n").git();
        let writes = bare(&project)
            .into_iter()
            .map(|(name, text)| call("write_file", json!({"file_path": format!("docs/ex/{name}"), "content": text})));
        let replies: Vec<Reply> = writes.chain([calls(tries("docs/ex")), say("done")]).collect();
        let project = project.model(replies);
        let outcome = run(&project, (tier.0, tier.1, &[tier.2, &["--apply"]].concat()));
        assert_nothing_ran(&project, tier.0, &outcome);
        assert_eq!(denials(&outcome), tries("").len(), "{}: {}", tier.0, outcome.stderr);
        assert_eq!(outcome.code, 60, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("docs/ex as a repository"), "{}", outcome.stderr);
        assert!(!project.root().join("docs").exists());
    }
}

/// A table cannot know what the same command has written a moment before.
#[test]
fn git_never_works_in_a_repository_that_its_own_command_writes() {
    for tier in TIERS {
        let project = Project::new().file("a.txt", "one\n").file(".gitignore", "build/\n").git();
        let mut script = String::from("mkdir -p build/ex/info build/ex/objects/info build/ex/refs/heads");
        for (name, text) in bare(&project) {
            script += &format!(" && cat > build/ex/{name} <<'EOF'\n{text}\nEOF\n true");
        }
        let replies = [shell(&format!("{script} && git -C build/ex log -p -1")), shell("git -C build/ex log -p -1")];
        let project = project.policy(OPEN).model(replies.into_iter().chain([say("done")]));
        let outcome = run(&project, tier);
        assert_nothing_ran(&project, tier.0, &outcome);
    }
}

#[test]
fn a_run_that_begins_in_a_planted_repository_ends_with_63() {
    let mut project = Project::new().file("a.txt", "one\n").git();
    for (name, text) in bare(&project) {
        project = project.file(&format!("docs/ex/{name}"), text);
    }
    let project = project.file("docs/ex/sub/a.txt", "one\n").model([say("done")]);
    for at in ["docs/ex", "docs/ex/sub", ".git"] {
        let outcome = project.run(&["-C", at, "hi"]);
        assert_eq!(outcome.code, 63, "{at}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("looks like a git directory itself"), "{}", outcome.stderr);
    }
    assert_eq!(project.server().requests().len(), 0);
    assert_eq!(project.run(&["-C", "docs", "hi"]).code, 0);
}

/// A `.git` that leads elsewhere is the word of whoever packed the project.
#[test]
fn no_run_takes_a_repository_that_does_not_name_the_project_as_its_work_tree() {
    for is_link in [false, true] {
        for theirs in ["private/.git", "apart.git", "bare.git"] {
            let project = Project::new().file("a.txt", "one\n").model([shell("git log -p"), say("done")]);
            let at = |name: &str| project.beside(name).display().to_string();
            project.run_git(&["init", "-q", "-b", "main", &at("private")]);
            std::fs::write(project.beside("private/secret"), "TOP-SECRET\n").unwrap();
            project.run_git(&["-C", &at("private"), "add", "."]);
            project.run_git(&["-C", &at("private"), "commit", "-qm", "x"]);
            match theirs {
                "apart.git" => {
                    drop(project.run_git(&["init", "-q", "--separate-git-dir", &at(theirs), &at("private")]));
                }
                "bare.git" => drop(project.run_git(&["clone", "-q", "--bare", &at("private"), &at(theirs)])),
                _ => {}
            }
            let git = project.root().join(".git");
            match is_link {
                true => std::os::unix::fs::symlink(project.beside(theirs), git).unwrap(),
                false => std::fs::write(git, format!("gitdir: {}\n", at(theirs))).unwrap(),
            }
            let outcome = project.run(&["hi"]);
            assert_eq!(outcome.code, 63, "{theirs} {is_link}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("git config core.worktree"), "{theirs} {is_link}: {}", outcome.stderr);
            assert_eq!(project.server().requests().len(), 0);
            if theirs == "apart.git" {
                let (own, root) = (at(theirs), project.root().display().to_string());
                project.run_git(&["--git-dir", &own, "config", "core.worktree", &root]);
                assert_eq!(project.run(&["hi"]).code, 0, "{theirs} {is_link}");
            }
        }
    }
}

/// Git compares files whose time has changed by what it would store of them.
#[test]
fn no_filter_of_the_repository_starts_before_or_after_the_conversation() {
    let edit = call("edit", serde_json::json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}));
    for flags in [&["--dry-run"][..], &["--apply"], &["--commit", "--message", "m"]] {
        let project = Project::new().file("a.txt", "one\n").file("b.txt", "one\n").git();
        let started = project.beside("started");
        for key in ["filter.x.clean", "filter.x.process"] {
            project.run_git(&["config", key, &format!("touch {}; cat", started.display())]);
        }
        let project = project.file(".gitattributes", "* filter=x\n").model([edit.clone(), say("done")]);
        for name in ["a.txt", "b.txt"] {
            let file = std::fs::File::open(project.root().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let outcome = project.run(&[flags, &["go"]].concat());
        assert!(matches!(outcome.code, 0 | 63), "{flags:?}: {}", outcome.stderr);
        assert!(!started.exists(), "{flags:?}: {}", outcome.stderr);
    }
}

/// The workspace's own repository answers in each tier, whatever its kind.
#[test]
fn git_works_in_the_workspaces_own_repository_of_every_kind() {
    for tier in TIERS {
        for (kind, at) in [("plain", "."), ("part", "app"), ("work tree", "../tree"), ("submodule", "module")] {
            let project = Project::new().file("a.txt", "one\n").file("app/b.txt", "one\n").git();
            match kind {
                "work tree" => drop(project.run_git(&["worktree", "add", "-q", "-b", "other", "../tree"])),
                "submodule" => {
                    let url = project.root().display().to_string();
                    project.run_git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", &url, "module"]);
                }
                _ => {}
            }
            let project = project.model([
                shell("git log --format=said-%s -1"),
                shell("git log --format=said-%s -1 | cat"),
                shell("pwd && git log --format=said-%s -1"),
                shell("git status --short --branch"),
                say("done"),
            ]);
            let outcome = run(&project, (tier.0, tier.1, &[tier.2, &["-C", at]].concat()));
            let seen = project.server().requests().last().unwrap().to_string();
            assert_eq!(seen.matches("said-start").count(), 3, "{} {kind}: {} {seen}", tier.0, outcome.stderr);
            assert!(seen.contains("## main") || seen.contains("## other"), "{} {kind}: {seen}", tier.0);
        }
    }
}
