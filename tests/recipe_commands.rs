//! Tests commands that parameters give, commands that finish a change, and what else a recipe takes from its parameters.

use serde_json::{Value, json};

use crate::support::{Outcome, Project, Reply, call, say};

const HEAD: &str = "recipe: 1\nname: fix\ndescription: Fix it.\nlimits: {cost_usd: 1}\n";

fn project(text: &str, replies: impl IntoIterator<Item = Reply>) -> Project {
    Project::new()
        .file("src/a.txt", "bad\n")
        .file("gen.txt", "bad\n")
        .file(".qwen/recipes/fix.yaml", format!("{HEAD}{text}"))
        .git()
        .model(replies)
}

fn edit(path: &str, old: &str, new: &str) -> Reply {
    call("edit", json!({"file_path": path, "old_string": old, "new_string": new}))
}

fn run(project: &Project, more: &[&str]) -> Outcome {
    project.run(&[&["--policy", "builtin:ci-dev", "--recipe", "fix"], more].concat())
}

fn changed(outcome: &Outcome) -> Vec<&str> {
    let files = outcome.result["changes"]["files"].as_array().into_iter().flatten();
    files.filter_map(|file| file["path"].as_str()).collect()
}

fn commands(project: &Project, more: &[&str]) -> Outcome {
    let show = ["recipe", "show", "fix", "--commands", "--json", "--policy", "builtin:ci-dev"];
    project.qwen(&[&show[..], more].concat())
}

/// A recipe whose change is finished by copying a file.
fn finishing(needs: &str, writes: &str) -> String {
    format!(
        "prompt: p\nneeds: {{read: ['**'], write: [{needs}]}}\noutput: {{kind: changes}}\n\
         guards: {{only_paths: [src/**], max_files: 1}}\ngit: {{changes: apply}}\n\
         finish: [{{name: copy, run: [cp, src/a.txt, gen.txt], writes: [{writes}]}}]\n\
         verify: {{attempts: 1, checks: [{{name: same, run: [cmp, src/a.txt, gen.txt]}}]}}\n"
    )
}

#[test]
fn what_finishes_a_change_is_kept_and_not_counted() {
    let project = project(&finishing("src/**", "gen.txt"), [edit("src/a.txt", "bad", "good"), say("done")]);
    let outcome = run(&project, &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(changed(&outcome), ["gen.txt", "src/a.txt"]);
    assert_eq!(project.read("gen.txt"), "good\n");
    assert_eq!(outcome.result["verify"][0]["command"], "cp src/a.txt gen.txt");
}

#[test]
fn what_finishes_a_change_stays_in_its_files_and_the_model_out_of_them() {
    let elsewhere =
        project(&finishing("src/**, gen.txt", "other.txt"), [edit("src/a.txt", "bad", "good"), say("done")]);
    let outcome = run(&elsewhere, &[]);
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("gen.txt is changed by `cp src/a.txt gen.txt`"), "{}", outcome.stderr);
    assert_eq!(elsewhere.read("gen.txt"), "bad\n");
    let model = [edit("src/a.txt", "bad", "good"), edit("gen.txt", "bad", "mine"), say("done")];
    let by_model = project(&finishing("src/**", "gen.txt"), model);
    let outcome = run(&by_model, &[]);
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("gen.txt is not allowed to change"), "{}", outcome.stderr);
}

#[test]
fn what_finished_commands_wrote_before_one_failed_is_not_the_models() {
    let text = finishing("src/**", "gen.txt").replace(
        "writes: [gen.txt]}]",
        "writes: [gen.txt]}, {name: look, run: [grep, -q, best, gen.txt], writes: [none.txt]}]",
    );
    let text = text.replace("attempts: 1", "attempts: 2");
    let script = [edit("src/a.txt", "bad", "good"), say("done"), edit("src/a.txt", "good", "best"), say("done")];
    let project = project(&text, script);
    let outcome = run(&project, &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("gen.txt"), "best\n");
}

#[test]
fn nothing_is_finished_where_nothing_changed_and_a_denied_command_ends_the_run_before_it() {
    let idle = project(&finishing("src/**", "gen.txt"), [say("nothing to do")]);
    let outcome = run(&idle, &[]);
    assert_eq!(changed(&outcome), [] as [&str; 0]);
    assert!(!outcome.result["verify"].to_string().contains("cp src/a.txt"), "{}", outcome.result["verify"]);
    let denied = project(&finishing("src/**", "gen.txt"), []);
    let outcome = denied.run(&["--policy", "builtin:edit", "--recipe", "fix"]);
    assert_eq!(outcome.code, 60, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("`finish.copy`"), "{}", outcome.stderr);
    assert_eq!(denied.server().requests().len(), 0);
}

const LINT: &str = "params:
  lint: {type: command, description: L, default: project.lint}
  files: {type: list, description: F, default: []}
context:
  - {name: lint, run: ['{{ params.lint }}', {each: files, words: [--file, '{{ item }}']}], ok_exit: [0, 1]}
prompt: '{{ context.lint | fence }}'
needs: {read: ['**']}
";

#[test]
fn a_command_is_the_projects_unless_one_is_given() {
    let argv = |more: &[&str]| {
        let project = project(LINT, []).file("package.json", r#"{"scripts": {"lint": "x"}}"#);
        let outcome = commands(&project, more);
        let shown: Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{}", outcome.stderr));
        shown["commands"][0]["argv"].clone()
    };
    assert_eq!(argv(&[]), json!(["npm", "run", "lint"]));
    assert_eq!(argv(&["--param", "lint=git 'a b'"]), json!(["git", "a b"]));
    let files = ["--param", "lint=git x", "--param", "files=a", "--param", "files=b c"];
    assert_eq!(argv(&files), json!(["git", "x", "--file", "a", "--file", "b c"]));
}

#[test]
fn a_project_without_or_with_several_commands_says_what_to_give() {
    let bare = project(LINT, []);
    let outcome = run(&bare, &[]);
    assert_eq!(outcome.code, 42, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("P001: lint: no file of the project gives a command to lint"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("--param lint='COMMAND'"), "{}", outcome.stderr);
    let several = project(LINT, []).file("go.mod", "module a\n").file("Makefile", "lint:\n");
    let outcome = run(&several, &[]);
    assert_eq!(outcome.code, 42, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("P003: lint: several: go vet ./..., make lint"), "{}", outcome.stderr);
    assert_eq!(several.server().requests().len(), 0);
}

#[test]
fn a_needed_command_is_exactly_that_of_the_parameter() {
    let text =
        "params: {test: {type: command, description: T}}\nprompt: p\nneeds: {read: ['**'], run: ['param:test']}\n";
    let shell = |command: &str| call("run_shell_command", json!({"command": command}));
    let project =
        project(text, [shell("wc src/a.txt"), shell("wc -l src/a.txt"), shell("wc src/a.txt gen.txt"), say("done")]);
    let outcome = run(&project, &["--param", "test=wc -l src/a.txt", "--on-deny", "continue"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.result["permission_denials"].as_array().unwrap().len(), 2, "{}", outcome.result);
    assert!(project.server().messages(2).contains("1 src/a.txt"));
}

#[test]
fn a_program_that_is_not_there_is_found_before_the_run() {
    let text = "params: {test: {type: command, description: T}}\nprompt: '{{ params.test | join(\" \") }}'\n";
    let project = project(text, []);
    let outcome = run(&project, &["--param", "test=no-such-program --x"]);
    assert_eq!(outcome.code, 42, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("N002: the program `no-such-program` is not in PATH"), "{}", outcome.stderr);
}

#[test]
fn the_schema_of_the_answer_has_the_words_of_the_callers_list() {
    let text = "params: {labels: {type: list, description: L, default: [a]}}\nprompt: p\nneeds: {tools: []}\n\
                output: {kind: json, repairs: 0, schema: {type: object, required: [label], properties: {label: {$param: labels}}}}\n";
    let answer = |label: &str| call("structured_output", json!({"label": label}));
    let mine = project(text, [answer("mine")]);
    let outcome = run(&mine, &["--param", "labels=mine", "--param", "labels=other"]);
    assert_eq!(
        (outcome.code, &outcome.result["structured_output"]["label"]),
        (0, &json!("mine")),
        "{}",
        outcome.stderr
    );
    assert!(mine.server().requests()[0].to_string().contains(r#"["mine","other"]"#));
    let theirs = project(text, [answer("mine")]);
    assert_eq!(run(&theirs, &[]).code, 62);
}

#[test]
fn an_issue_is_closed_by_the_recipes_parameter_and_by_no_word_of_the_model() {
    let text = "params: {issue: {type: integer, description: I, min: 1}}\nprompt: p\nneeds: {read: ['**'], write: ['src/**']}\n\
                output: {kind: changes}\ngit: {changes: commit, subject: fix the file, closes: issue}\n";
    let project = project(text, [edit("src/a.txt", "bad", "good"), say("Repaired it.\n\nFixes #99, thanks @octocat")]);
    let outcome = run(&project, &["--param", "issue=7", "--commit"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.result["changes"]["closes"], 7);
    let message = project.run_git(&["log", "-1", "--format=%B"]);
    assert!(message.contains("\nCloses: #7\n"), "{message}");
    assert!(!message.contains("#99") && !message.contains("@octocat"), "{message}");
}

#[test]
fn the_prompt_that_is_shown_is_the_one_that_is_sent() {
    let text = "params: {word: {type: string, description: W, untrusted: true}}\n\
                context: [{name: source, file: src/a.txt}, {name: log, run: [git, log, '--format=%s']}]\n\
                prompt: |\n  Look: {{ params.word }}\n  {{ context.source | fence }}\n  {{ context.log | fence }}\nneeds: {read: ['**']}\n";
    let project = project(text, [say("done")]);
    let show = ["recipe", "show", "fix", "--prompt", "--json", "--policy", "builtin:ci-dev", "--param", "word=a\u{e9}"];
    let shown = project.qwen(&show);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(project.server().requests().len(), 0);
    assert_eq!(run(&project, &["--param", "word=a\u{e9}"]).code, 0);
    let sent = project.server().requests()[0]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(shown["prompt"], sent);
    assert!(shown["prompt"].as_str().unwrap().contains("```\nbad\n```"), "{shown}");
}

#[test]
fn a_new_recipe_is_written_in_the_checkout_or_not_at_all() {
    use std::os::unix::fs::symlink;
    for (link, target) in [(".qwen/recipes", "../../outside"), (".qwen", "../outside"), (".qwen", ".git")] {
        let project = Project::new().git();
        let outside = project.beside("outside");
        std::fs::create_dir(&outside).unwrap();
        let at = project.root().join(link);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(target, &at).unwrap();
        let outcome = project.qwen(&["recipe", "new", "tidy"]);
        assert_ne!(outcome.code, 0, "{link}: {}", outcome.stdout);
        assert!(outcome.stderr.contains("is a link in the checkout that"), "{}", outcome.stderr);
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        assert!(!project.root().join(".git/recipes").exists());
    }
}

#[test]
fn a_recipe_of_a_checkout_that_is_not_trusted_does_not_choose_the_model() {
    let text = "recipe: 1\nname: tidy\ndescription: d\nmodel: {name: expensive, temperature: 0.25}\nprompt: p\nneeds: {read: []}\noutput: {kind: text}\nlimits: {cost_usd: 1}\n";
    let project = Project::new()
        .file(".qwen/recipes/tidy.yaml", text)
        .git()
        .model(["a", "b", "c", "d", "e"].map(say))
        .env("QWEN_MODEL", "");
    std::fs::create_dir(project.home().join(".qwen")).unwrap();
    std::fs::write(project.home().join(".qwen/settings.json"), r#"{"model": {"name": "mine"}}"#).unwrap();
    std::fs::write(project.beside("tidy.yaml"), text).unwrap();
    for (flags, model) in [
        (&["--recipe", "tidy"][..], "mine"),
        (&["--recipe", ".qwen/recipes/tidy.yaml"], "mine"),
        (&["--recipe", "tidy", "--trust-checkout"], "expensive"),
        (&["--recipe", "tidy", "--trusted-ref", "HEAD"], "expensive"),
        (&["--recipe", "../tidy.yaml"], "expensive"),
    ] {
        let outcome = project.run(flags);
        assert_eq!(outcome.code, 0, "{flags:?}: {}", outcome.stderr);
        let request = project.server().requests().last().unwrap().clone();
        assert_eq!((&request["model"], &request["temperature"]), (&json!(model), &json!(0.25)), "{flags:?}");
        let warns = outcome.stderr.contains("the model `expensive` is not used");
        assert_eq!(warns, model == "mine", "{flags:?}: {}", outcome.stderr);
    }
}

#[test]
fn nothing_is_left_of_a_new_recipe_for_which_there_is_no_room() {
    let project = Project::new().git();
    let plain = project.command(&["recipe", "new", "tidy"]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]).arg(plain.get_program());
    command.args(["recipe", "new", "tidy"]).current_dir(project.root()).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let outcome = command.output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.code() == Some(63) && said.contains("make room"), "{outcome:?}");
    assert!(!project.root().join(".qwen/recipes/tidy.yaml").exists());
}
