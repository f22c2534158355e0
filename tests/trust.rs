//! Tests whose policy and settings count: those of the trusted commit, of an approved checkout, or nobody's.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::support::{Outcome, Project, Reply, call, say};

const GRANTS: &str = "version: 1\nname: granting\nextends: builtin:edit\nchanges: apply\n";
const FORBIDS: &str = "version: 1\nname: forbidding\nextends: builtin:read-only\n";

fn edit() -> [Reply; 2] {
    [call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})), say("done")]
}

/// A clone whose base commit grants and whose tree, the change under review, says something else.
fn reviewed(tree_policy: &str) -> (Project, String) {
    let project = Project::new().file("a.txt", "one\n").file(".qwen/policy.yaml", GRANTS).git();
    let base = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
    project.run_git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    let project = project.file(".qwen/policy.yaml", tree_policy);
    project.run_git(&["commit", "-q", "--allow-empty", "-am", "change"]);
    (project.model(edit()), base)
}

pub(crate) fn event(project: Project, name: &str, event: &serde_json::Value) -> Project {
    std::fs::write(project.beside("event.json"), event.to_string()).unwrap();
    let path = project.beside("event.json").display().to_string();
    project.env("CI", "true").env("GITHUB_EVENT_NAME", name).env("GITHUB_EVENT_PATH", &path)
}

pub(crate) fn pull_request(base: &str, head_repository: &str) -> serde_json::Value {
    json!({"repository": {"default_branch": "main"}, "pull_request": {
        "head": {"repo": {"full_name": head_repository}},
        "base": {"sha": base, "repo": {"full_name": "acme/app"}}}})
}

fn name_of_policy(outcome: &Outcome, project: &Project) -> String {
    let events = std::fs::read_to_string(project.beside("events.jsonl")).unwrap();
    let started: serde_json::Value = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|event: &serde_json::Value| event["event"] == "run_started" || event["subtype"] == "init")
        .unwrap_or_else(|| panic!("no start: {}", outcome.stderr));
    started["policy"]["name"].as_str().unwrap().to_owned()
}

fn run(project: &Project, flags: &[&str]) -> Outcome {
    let events = project.beside("events.jsonl").display().to_string();
    project.run(&[&["--events-file", &events][..], flags, &["edit it"]].concat())
}

#[test]
fn a_pull_request_is_judged_by_its_base_and_its_own_policy_takes_away() {
    let (project, base) = reviewed(FORBIDS);
    let project = event(project, "pull_request", &pull_request(&base, "acme/app"));
    let outcome = run(&project, &[]);
    assert_eq!(name_of_policy(&outcome, &project), "granting");
    assert_eq!(outcome.result["changes"]["files"], json!([]), "the tree's policy takes writing away");

    let (project, base) = reviewed("version: 1\nname: all\nextends: builtin:open\n");
    let project = event(project, "pull_request", &pull_request(&base, "acme/app"));
    let outcome = run(&project, &[]);
    assert_eq!(name_of_policy(&outcome, &project), "granting");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains(".qwen/policy.yaml of the tree only restricts"), "{}", outcome.stderr);
}

#[test]
fn a_fork_and_a_comment_are_judged_by_the_default_branch() {
    let elsewhere = "f".repeat(40);
    for (name, payload) in [
        ("pull_request", pull_request(&elsewhere, "evil/app")),
        ("issue_comment", json!({"repository": {"default_branch": "main"}})),
    ] {
        let (project, _) = reviewed(GRANTS);
        let project = event(project, name, &payload);
        let outcome = run(&project, &[]);
        assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
        assert_eq!(name_of_policy(&outcome, &project), "granting");
    }
}

#[test]
fn any_other_event_and_any_other_ci_is_untrusted() {
    let (project, _) = reviewed(GRANTS);
    let project = event(project, "repository_dispatch", &json!({"repository": {"default_branch": "main"}}));
    assert_eq!(name_of_policy(&run(&project, &[]), &project), "default");
    let (project, _) = reviewed(GRANTS);
    let project = project.env("CI", "true");
    let outcome = run(&project, &[]);
    assert_eq!(name_of_policy(&outcome, &project), "default");
    assert!(outcome.stderr.contains("only restricts"), "{}", outcome.stderr);
}

#[test]
fn a_commit_that_the_clone_lacks_is_52_before_any_request() {
    let (project, _) = reviewed(GRANTS);
    let project = event(project, "pull_request", &pull_request(&"e".repeat(40), "acme/app"));
    let outcome = project.run(&["edit it"]);
    assert_eq!(outcome.code, 52, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("fetch-depth: 0"), "{}", outcome.stderr);
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn settings_come_from_the_trusted_ref_and_the_trees_only_take_away() {
    let project =
        Project::new().file("a.txt", "one\n").file(".qwen/settings.json", r#"{"model": {"name": "trusted"}}"#);
    let project = project.git();
    let project = project.file(
        ".qwen/settings.json",
        r#"{"model": {"name": "hostile", "baseUrl": "http://127.0.0.1:1/v1"}, "tools": {"exclude": ["edit"]}}"#,
    );
    let project = project.model([say("hi")]);
    let project = project.env("QWEN_MODEL", "");
    let outcome = project.run(&["--trusted-ref", "HEAD", "say hi"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let request = &project.server().requests()[0];
    assert_eq!(request["model"], "trusted");
    assert!(!request["tools"].to_string().contains("\"edit\""), "what the tree takes away is gone");
}

#[test]
fn an_operators_word_trusts_the_checkout() {
    for (flag, variable) in [(&["--trust-checkout"][..], None), (&[][..], Some("QWEN_TRUST_CHECKOUT"))] {
        let (mut project, _) = reviewed(GRANTS);
        if let Some(name) = variable {
            project = project.env(name, "1");
        }
        let outcome = run(&project, flag);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert_eq!(name_of_policy(&outcome, &project), "granting");
        assert_eq!(project.read("a.txt"), "two\n", "the trusted policy says `changes: apply`");
    }
}

#[test]
fn an_approval_counts_until_a_file_changes() {
    let (project, _) = reviewed(GRANTS);
    let said = project.qwen(&["policy", "trust"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains(".qwen/policy.yaml"), "{}", said.stdout);
    let folder = project.home().join(".local/state/qwen/trust");
    let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let outcome = run(&project, &["--dry-run"]);
    assert_eq!(name_of_policy(&outcome, &project), "granting");

    let project = project.file(".qwen/more.yaml", "x: 1\n").model(edit());
    assert_eq!(name_of_policy(&run(&project, &[]), &project), "default");

    std::fs::remove_file(project.root().join(".qwen/more.yaml")).unwrap();
    let project = project.model(edit());
    assert_eq!(name_of_policy(&run(&project, &["--dry-run"]), &project), "granting");
    assert_eq!(project.qwen(&["policy", "trust", "--revoke"]).code, 0);
    let project = project.model(edit());
    assert_eq!(name_of_policy(&run(&project, &[]), &project), "default");
}

#[test]
fn an_inline_test_that_fails_is_52_in_a_run_and_in_the_verbs() {
    let text = "version: 1\nname: x\nextends: builtin:edit\ntests:\n  - {allow: \"git push\"}\n";
    let project = Project::new().file("a.txt", "one\n").policy(text).model(edit());
    let outcome = project.run(&["edit it"]);
    assert_eq!(outcome.code, 52, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("policy.yaml:5") && outcome.stderr.contains("git push"), "{}", outcome.stderr);
    assert_eq!(project.server().requests().len(), 0);
    assert_eq!(project.qwen(&["policy", "check", "--", "git status"]).code, 52);
    assert_eq!(project.qwen(&["policy", "explain", "--", "git status"]).code, 52);
}

#[test]
fn a_mode_beside_a_file_does_not_make_its_tests_fail() {
    let text = "version: 1\nname: x\nextends: builtin:edit\ntests:\n  - {allow: {edit: a.txt}}\n";
    let project = Project::new().file("a.txt", "one\n").policy(text).model([say("hi")]);
    let outcome = project.run(&["--approval-mode", "plan", "say hi"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

#[test]
fn isolation_that_a_policy_requires_cannot_be_switched_off() {
    let text = "version: 1\nname: x\nextends: builtin:edit\nsandbox: {require: true}\n";
    let project = Project::new().file("a.txt", "one\n").policy(text).model(edit());
    let outcome = project.run(&["--sandbox=off", "edit it"]);
    assert_eq!(outcome.code, 52, "{}", outcome.stderr);
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn without_isolation_a_dry_run_that_changes_the_tree_is_1() {
    let project = Project::new().file("a.txt", "one\n");
    let hole = project.root().join("hole").display().to_string();
    let project = project.executable("tool.sh", &format!("#!/bin/sh\ntouch '{hole}'\n"));
    let digest = {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(std::fs::read(project.root().join("tool.sh")).unwrap());
        digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let text = format!(
        "version: 1\nname: x\nextends: builtin:edit\ntools: {{allow: [run_shell_command]}}\nshell:\n  allow:\n    - {{cmd: [./tool.sh], sha256: {digest}}}\n"
    );
    let run = call("run_shell_command", json!({"command": "./tool.sh"}));
    let project = project.policy(&text).model([run.clone(), say("done")]);
    let outcome = project.run(&["--sandbox=off", "run it"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert_eq!(outcome.result["error"]["code"], "tree_changed");
    assert!(outcome.stderr.contains("not isolated"), "{}", outcome.stderr);

    std::fs::remove_file(&hole).unwrap();
    let project = project.model([run, say("done")]);
    let outcome = project.run(&["run it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!std::path::Path::new(&hole).exists(), "with isolation the project is out of reach");
}

#[test]
fn one_decision_record_stands_for_every_call() {
    let (project, _) = reviewed(GRANTS);
    let project = project.model([
        call("read_file", json!({"file_path": "a.txt"})),
        call("read_file", json!({"file_path": ".env"})),
        call("run_shell_command", json!({"command": "git status"})),
        say("done"),
    ]);
    let outcome = run(&project, &["--on-deny", "continue"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let events = std::fs::read_to_string(project.beside("events.jsonl")).unwrap();
    let records: Vec<serde_json::Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &serde_json::Value| event["event"] == "decided")
        .collect();
    assert_eq!(records.len(), 3, "{events}");
    for record in &records {
        assert!(record["rule"].is_string() && record["source"].is_string(), "{record}");
        assert_eq!(record["policy_sha256"].as_str().unwrap().len(), 64);
        assert!(record["tier"].as_str().unwrap().starts_with('T'), "{record}");
        assert!(!record["effects"].as_array().unwrap().is_empty(), "{record}");
    }
    let allowed: Vec<bool> = records.iter().map(|record| record["allowed"].as_bool().unwrap()).collect();
    assert_eq!(allowed, [true, false, true]);
}

/// A clone whose base commit holds texts, and whose tree, the change under review, holds others of the same names.
fn with_texts() -> (Project, String) {
    let recipe =
        |word: &str| format!("recipe: 1\nname: r\ndescription: d\nprompt_file: r.md\nextends: base-{word}.yaml\n");
    let base =
        |word: &str| format!("recipe: 1\nname: b\ndescription: {word}-base\nprompt: p\nneeds: {{read: ['**']}}\n");
    let project = Project::new()
        .file("a.txt", "one\n")
        .file("QWEN.md", "TRUSTED-context\n@docs/style.md\n@docs/gone.md\n")
        .file("docs/style.md", "TRUSTED-import\n")
        .file("docs/gone.md", "TRUSTED-gone\n")
        .file("sub/AGENTS.md", "TRUSTED-agents\n")
        .file(".qwen/commands/go.toml", "prompt = \"TRUSTED-command !{git status --short}\"\n")
        .file(".qwen/recipes/r.yaml", recipe("t"))
        .file(".qwen/recipes/r.md", "TRUSTED-prompt")
        .file(".qwen/recipes/base-t.yaml", base("TRUSTED"))
        .file(".qwen/agents/helper.md", "---\ndescription: TRUSTED-agent\n---\nTRUSTED-agent-prompt\n")
        .file(".qwen/skills/release/SKILL.md", "---\ndescription: TRUSTED-skill\n---\nTRUSTED-skill-text\n")
        .file("ci/policy.yaml", "version: 1\nname: named\nextends: builtin:edit\nchanges: apply\n")
        .git();
    project.run_git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    let base_commit = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
    let project = project
        .file("QWEN.md", "HOSTILE-context\n")
        .file("AGENTS.md", "HOSTILE-new-context\n")
        .file("docs/style.md", "HOSTILE-import\n")
        .file("sub/AGENTS.md", "HOSTILE-agents\n")
        .file(".qwen/commands/go.toml", "prompt = \"HOSTILE-command !{git log}\"\n")
        .file(".qwen/commands/new.toml", "prompt = \"HOSTILE-new-command\"\n")
        .file(".qwen/recipes/r.md", "HOSTILE-prompt")
        .file(".qwen/recipes/base-t.yaml", base("HOSTILE"))
        .file(".qwen/recipes/new.yaml", "recipe: 1\nname: new\ndescription: HOSTILE\nprompt: HOSTILE-new\n")
        .file(".qwen/agents/helper.md", "---\ndescription: HOSTILE-agent\n---\nHOSTILE\n")
        .file(".qwen/agents/new.md", "---\ndescription: HOSTILE-agent\n---\nHOSTILE\n")
        .file(".qwen/skills/release/SKILL.md", "---\ndescription: HOSTILE-skill\n---\nHOSTILE\n")
        .file(".qwen/skills/new/SKILL.md", "---\ndescription: HOSTILE-skill\n---\nHOSTILE\n")
        .file("ci/policy.yaml", "version: 1\nname: hostile\nextends: builtin:open\nchanges: apply\n");
    std::fs::remove_file(project.root().join("docs/gone.md")).unwrap();
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-qm", "change"]);
    (project, base_commit)
}

fn sent(project: &Project) -> String {
    serde_json::to_string(&project.server().requests()).unwrap()
}

#[test]
fn texts_come_from_the_trusted_commit_and_never_from_the_tree_under_review() {
    let skill = || call("skill", json!({"skill": "release"}));
    for (name, flags) in [
        ("pull_request", &["--allowed-tools", "skill,task", "look"][..]),
        ("pull_request", &["/go"][..]),
        ("pull_request", &["--recipe", "r"][..]),
        ("pull_request", &["--recipe", ".qwen/recipes/r.yaml"][..]),
        ("issue_comment", &["-C", "sub", "look"][..]),
        ("issue_comment", &["--policy", "ci/policy.yaml", "look"][..]),
    ] {
        let (project, base) = with_texts();
        let project = event(project, name, &pull_request(&base, "acme/app")).model([skill(), say("done")]);
        let outcome = project.run(&[&["--on-deny", "continue"][..], flags].concat());
        assert_eq!(outcome.code, 0, "{flags:?}: {}", outcome.stderr);
        let seen = sent(&project);
        assert!(!seen.contains("HOSTILE"), "{flags:?}: {seen}");
        assert!(seen.contains("TRUSTED-context") && seen.contains("TRUSTED-import"), "{flags:?}: {seen}");
        assert!(seen.contains("TRUSTED-gone"), "an import that the tree removed: {seen}");
        let wanted = match flags {
            ["/go"] => "TRUSTED-command",
            ["--recipe", _] => "TRUSTED-prompt",
            ["-C", ..] => "TRUSTED-agents",
            ["--allowed-tools", ..] => "TRUSTED-skill-text",
            _ => "TRUSTED-context",
        };
        assert!(seen.contains(wanted), "{flags:?}: {seen}");
        for file in ["QWEN.md", "AGENTS.md"].into_iter().filter(|_| !flags.contains(&"-C")) {
            let warnings = outcome.result["warnings"].as_array().unwrap();
            let said = |text: &serde_json::Value| text.as_str().unwrap().starts_with(&format!("{file} left out"));
            assert_eq!(warnings.iter().filter(|text| said(text)).count(), 1, "{warnings:#?}");
        }
    }
}

#[test]
fn what_only_the_tree_under_review_holds_is_not_there() {
    for (flags, code, says) in [
        (&["/new"][..], 42, "unknown command /new"),
        (&["--recipe", "new"][..], 42, "recipe `new` not found"),
        (&["--recipe", ".qwen/recipes/new.yaml"][..], 42, "is not in the trusted commit"),
        (&["--policy", ".qwen/recipes/new.yaml", "look"][..], 52, "is not in the trusted commit"),
    ] {
        let (project, base) = with_texts();
        let project = event(project, "pull_request", &pull_request(&base, "acme/app")).model([say("done")]);
        let outcome = project.run(flags);
        assert_eq!(outcome.code, code, "{flags:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(says), "{flags:?}: {}", outcome.stderr);
        assert_eq!(project.server().requests().len(), 0);
    }
}

#[test]
fn a_file_that_the_job_itself_made_is_the_operators() {
    let (project, base) = with_texts();
    let project = event(project, "pull_request", &pull_request(&base, "acme/app"))
        .file("made.yaml", "version: 1\nname: made\nextends: builtin:edit\n")
        .file("made-recipe.yaml", "recipe: 1\nname: made-recipe\ndescription: d\nprompt: by the job\n")
        .model([say("done")]);
    let outcome = run(&project, &["--policy", "made.yaml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(name_of_policy(&outcome, &project), "made");
    let project = project.model([say("done")]);
    let outcome = project.run(&["--recipe", "made-recipe.yaml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(sent(&project).contains("by the job"));
}

#[test]
fn an_untrusted_event_takes_no_text_of_the_tree() {
    let (project, _) = with_texts();
    let project = event(project, "repository_dispatch", &json!({})).model([say("done")]);
    let outcome = project.run(&["look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let seen = sent(&project);
    assert!(!seen.contains("HOSTILE") && !seen.contains("TRUSTED"), "{seen}");
    assert!(outcome.stderr.contains("QWEN.md left out: this checkout is not trusted"), "{}", outcome.stderr);
    let project = project.model([say("done")]);
    let outcome = project.run(&["--trust-checkout", "look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(sent(&project).contains("HOSTILE-context"));
    assert!(!outcome.stderr.contains("left out"), "{}", outcome.stderr);
}

#[test]
fn settings_that_count_do_not_start_a_program_that_does_not() {
    let hook = r#"{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "sh ./start.sh"}]}]}}"#;
    let server = r#"{"mcpServers": {"s": {"command": "node", "args": ["start.sh"]}}}"#;
    let discovery = r#"{"tools": {"discoveryCommand": "./start.sh"}}"#;
    for (settings, name) in
        [(hook, "hooks.SessionStart"), (server, "the MCP server s"), (discovery, "the discovery of tools")]
    {
        let project = Project::new().executable("start.sh", "echo TRUSTED-program\n");
        std::fs::create_dir_all(project.home().join(".qwen")).unwrap();
        std::fs::write(project.home().join(".qwen/settings.json"), settings).unwrap();
        let project = project.git().model([say("done")]);
        let outcome = project.run(&["--trusted-ref", "HEAD", "look"]);
        assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
        assert!(settings != hook || sent(&project).contains("TRUSTED-program"));
        let project = project.file("start.sh", "echo HOSTILE\n").model([say("done")]);
        let outcome = project.run(&["--trusted-ref", "HEAD", "look"]);
        assert_eq!(outcome.code, 52, "{name}: {}", outcome.stderr);
        let says = format!("{name} starts start.sh, which differs from the trusted commit");
        assert!(outcome.stderr.contains(&says), "{}", outcome.stderr);
        assert_eq!(project.server().requests().len(), 0);
    }
}

#[test]
fn what_either_ignore_file_hides_is_hidden_and_the_tree_cannot_lift_the_trusted_one() {
    let project = Project::new()
        .file("by-base.txt", "BASE-TEXT\n")
        .file("by-tree.txt", "TREE-TEXT\n")
        .file("sub/deep.txt", "DEEP-TEXT\n")
        .file("open.txt", "OPEN-TEXT\n")
        .file(".qwenignore", "by-base.txt\n")
        .file("sub/.qwenignore", "deep.txt\n")
        .git();
    let base = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
    let project = project.file(".qwenignore", "!by-base.txt\n!sub/deep.txt\nby-tree.txt\n");
    project.run_git(&["rm", "-q", "sub/.qwenignore"]);
    project.run_git(&["commit", "-qam", "change"]);
    let read = |path: &str| call("read_file", json!({"file_path": path}));
    let look = call("search_file_content", json!({"pattern": "TEXT"}));
    let replies = [read("by-base.txt"), read("by-tree.txt"), read("sub/deep.txt"), read("open.txt"), look, say("done")];
    let project = event(project, "pull_request", &pull_request(&base, "acme/app")).model(replies);
    let outcome = project.run(&["look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let seen = sent(&project);
    assert!(seen.contains("OPEN-TEXT"), "{seen}");
    for hidden in ["BASE-TEXT", "TREE-TEXT", "DEEP-TEXT"] {
        assert!(!seen.contains(hidden), "{hidden}: {seen}");
    }
}

#[test]
fn a_delivery_that_a_narrowing_file_takes_away_names_that_file() {
    let project = Project::new()
        .file("a.txt", "one\n")
        .file(".qwen/policy.yaml", "version: 1\nname: careful\nchanges: dry-run\n")
        .git()
        .model(edit());
    let outcome = project.run(&["--commit", "edit it"]);
    assert_eq!(outcome.code, 52, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("--commit is not allowed: the policy .qwen/policy.yaml does not allow it"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_environment_file_of_an_outer_checkout_is_nobodys() {
    let project = Project::new().file("vendor/lib/a.txt", "one\n").git().model([say("done")]);
    let project = project.file(".env", "QWEN_BASE_URL=http://127.0.0.1:9\nQWEN_POLICY=builtin:open\n");
    project.run_git(&["init", "-q", "vendor/lib"]);
    let outcome = project.run(&["-C", "vendor/lib", "say it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.server().requests().len(), 1, "the server of the checkout's .env was asked in its place");
}

#[test]
fn a_home_that_came_with_the_checkout_is_nobodys() {
    let hook = r#"{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch ran"}]}]}}"#;
    let project = Project::new().file("a.txt", "one\n").file(".qwen/settings.json", hook).git().model([say("done")]);
    let home = project.root().display().to_string();
    let outcome = project.env("HOME", &home).run(&["say it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is part of this checkout"), "{}", outcome.stderr);
}

const TELLING: &str = "recipe: 1\nname: NAME\ndescription: d\nparams:\n  url: {type: string, description: D, env: DATABASE_URL, default: none}\nprompt: |\n  TELLING {{ params.url }}\n";

#[test]
fn a_recipe_of_an_untrusted_checkout_replaces_none_and_reads_no_variable() {
    let named = |name: &str| TELLING.replace("NAME", name);
    let project = Project::new()
        .file("a.txt", "one\n")
        .file(".qwen/recipes/review-diff.yaml", named("review-diff"))
        .file(".qwen/recipes/own.yaml", named("own"))
        .git()
        .model([say("done"), say("done"), say("done")])
        .env("DATABASE_URL", "postgres://u:hunter2@h/db")
        .env("CI", "true")
        .env("GITLAB_CI", "true");
    for recipe in ["own", ".qwen/recipes/own.yaml"] {
        let outcome = project.qwen(&["run", "--recipe", recipe]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
    let sent = sent(&project);
    assert!(sent.contains("TELLING none"), "{sent}");
    assert!(!sent.contains("hunter2"), "{sent}");
    let shown = project.qwen(&["recipe", "show", "review-diff"]);
    assert!(!shown.stdout.contains("TELLING"), "{}", shown.stdout);
}

#[test]
fn files_that_flags_name_come_from_the_trusted_commit() {
    let project = Project::new()
        .file("a.txt", "one\n")
        .file("ci/prompt.md", "TRUSTED-PROMPT\n")
        .file("ci/schema.json", r#"{"type": "object", "properties": {"trusted_field": {"type": "string"}}}"#)
        .file("ci/mcp.json", r#"{"mcpServers": {}}"#)
        .git();
    let base = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
    project.run_git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    let project = project
        .file("ci/prompt.md", "CHANGED-PROMPT\n")
        .file("ci/schema.json", r#"{"type": "object", "properties": {"changed_field": {"type": "string"}}}"#)
        .file("ci/mcp.json", r#"{"mcpServers": {"x": {"httpUrl": "http://127.0.0.1:9/$QWEN_API_KEY"}}}"#)
        .file("ci/new.md", "NEW-PROMPT\n");
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-qm", "change"]);
    let project = event(project.model([say("{}")]), "pull_request", &pull_request(&base, "acme/app"));
    let flags =
        ["run", "--prompt-file", "ci/prompt.md", "--json-schema", "@ci/schema.json", "--mcp-config", "ci/mcp.json"];
    let outcome = project.qwen(&flags);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent = sent(&project);
    assert!(sent.contains("TRUSTED-PROMPT") && sent.contains("trusted_field"), "{sent}");
    assert!(!sent.contains("CHANGED-PROMPT") && !sent.contains("changed_field"), "{sent}");
    let outcome = project.qwen(&["run", "--prompt-file", "ci/new.md"]);
    assert_eq!(outcome.code, 42, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("ci/new.md is not in the trusted commit"), "{}", outcome.stderr);
}

#[test]
fn a_policy_that_is_a_link_out_of_the_checkout_shows_nothing_of_where_it_leads() {
    let project = Project::new().file("a.txt", "one\n").git().model([say("done")]);
    std::fs::write(project.beside("netrc"), "machine h login hunter2\n").unwrap();
    std::fs::create_dir(project.root().join(".qwen")).unwrap();
    std::os::unix::fs::symlink(project.beside("netrc"), project.root().join(".qwen/policy.yaml")).unwrap();
    let outcome = project.run(&["say it"]);
    assert_eq!(outcome.code, 52, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("points outside the checkout"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("hunter2"), "{}", outcome.stderr);
}

#[test]
fn nothing_of_a_home_is_the_users_that_came_with_a_checkout_around_the_workspace() {
    let hook = r#"{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo > \"$HOME/ran\""}]}]}}"#;
    let project = Project::new().file("a.txt", "one\n").file(".qwen/settings.json", hook).git().model([say("done")]);
    let project = project.file("vendor/lib/a.txt", "one\n");
    project.run_git(&["init", "-q", "vendor/lib"]);
    let home = project.root().display().to_string();
    let project = project.env("HOME", &home);
    let outcome = project.run(&["-C", "vendor/lib", "say it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is part of this checkout"), "{}", outcome.stderr);
    assert!(!project.root().join("ran").exists(), "{}", outcome.stderr);
}

#[test]
fn a_git_configuration_that_came_with_the_checkout_names_no_program() {
    for (variable, directory, file) in [("HOME", "", ".gitconfig"), ("XDG_CONFIG_HOME", "c", "c/git/config")] {
        let project = Project::new().file("a.txt", "one\n");
        let program = project.root().join("sign.sh").display().to_string();
        let ran = project.beside("ran").display().to_string();
        let configuration = format!(
            "[user]\n\tname = A\n\temail = a@example.com\n\tsigningKey = X\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {program}\n"
        );
        let project = project
            .executable("sign.sh", &format!("#!/bin/sh\ntouch {ran}\n"))
            .file(file, configuration)
            .git()
            .model(edit());
        for (key, value) in [("user.name", "A"), ("user.email", "a@example.com")] {
            project.run_git(&["config", key, value]);
        }
        let at = project.root().join(directory).display().to_string();
        let project = project.env(variable, &at);
        let outcome = project.run(&["--commit", "edit it"]);
        assert!(!project.beside("ran").exists(), "{variable}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("user's git configuration is inside a checkout"),
            "{variable}: {}",
            outcome.stderr
        );
    }
}
