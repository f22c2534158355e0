//! Tests that no file that a repository or a command line names blocks a run or fills its memory.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Project, say};

/// Starts the program with little memory: what reads without an end fails instead of filling the machine's.
fn start(project: &Project, arguments: &[&str]) -> Child {
    let plain = project.command(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 4000000; exec \"$@\"", "sh"]).arg(plain.get_program()).args(arguments);
    command.current_dir(project.root()).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn make(path: &Path, is_pipe: bool) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _gone = std::fs::remove_file(path);
    match is_pipe {
        true => nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        false => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
    }
}

#[test]
fn nothing_that_a_repository_holds_is_read_without_an_end() {
    // What counts as it is, and what is only looked at.
    let count = [
        ".qwen/policy.yaml",
        ".qwen/settings.json",
        ".git/HEAD",
        ".git/config",
        ".git/index",
        ".git/packed-refs",
        ".git/shallow",
        ".git/commondir",
        ".git/ORIG_HEAD",
        ".git/FETCH_HEAD",
        ".git/refs/heads/main",
        ".git/refs/tags/other",
        ".git/refs/heads/a/b",
        ".git/logs/HEAD",
        ".git/objects/info/alternates",
        ".git/objects/info/commit-graph",
        ".git/objects/pack/pack-1.idx",
        ".git/info/grafts",
        ".git/info/exclude",
        ".git/info/attributes",
    ];
    let looked_at = [
        ".qwen/recipes/r.yaml",
        "QWEN.md",
        "AGENTS.md",
        ".env",
        ".mcp.json",
        ".gitignore",
        ".qwenignore",
        ".gitattributes",
        ".qwen/agents/a.md",
        ".qwen/skills/s/SKILL.md",
        ".qwen/commands/c.toml",
    ];
    let mut running = Vec::new();
    for (path, counts) in count.map(|path| (path, true)).into_iter().chain(looked_at.map(|path| (path, false))) {
        for is_pipe in [false, true] {
            let project = Project::new().file("a.txt", "one\n").git().model([say("fine"), say("fine")]);
            make(&project.root().join(path), is_pipe);
            let asked = if path.contains("recipes") { ["--recipe", "r"] } else { ["-p", "hi"] };
            let child = start(&project, &[&["run", "--trust-checkout"][..], &asked].concat());
            running.push((path, counts, is_pipe, child, project));
        }
        // A few at a time.
        for (path, counts, is_pipe, child, project) in running.drain(..) {
            let outcome = project.finish(child);
            let expected = [0, 42, 52, 63];
            assert!(expected.contains(&outcome.code), "{path} {is_pipe}: {} {}", outcome.code, outcome.stderr);
            if counts {
                let why = if is_pipe { "it is a pipe" } else { "it is a device" };
                let name = path.strip_prefix(".git/").unwrap_or(path);
                assert_ne!(outcome.code, 0, "{path} {is_pipe}: {}", outcome.stderr);
                let said = outcome.stderr.contains(name) && outcome.stderr.contains(why);
                assert!(said, "{path} {is_pipe}: {}", outcome.stderr);
            }
        }
    }
}

#[test]
fn nothing_that_a_command_line_names_is_read_without_an_end() {
    let run: &[&[&str]] = &[
        &["--policy", "input"],
        &["--prompt-file", "input"],
        &["--api-key-file", "input"],
        &["--json-schema", "@input"],
        &["--mcp-config", "input"],
        &["--replay", "input"],
        &["--recipe", "./input"],
        &["--image", "input"],
        &["--recipe", "./recipe.yaml", "--params-file", "input"],
        &["--recipe", "./recipe.yaml", "--param", "words=@input"],
    ];
    let other: &[&[&str]] =
        &[&["apply", "input"], &["policy", "test", "input"], &["policy", "init", "--from", "input"]];
    let recipe = "recipe: 1\nname: recipe\ndescription: Says it.\nprompt: \"{{ params.words }}\"\nparams: {words: {type: string, description: \"What to say.\"}}\n";
    for is_pipe in [false, true] {
        let project = Project::new().file("recipe.yaml", recipe).model([say("fine")]);
        make(&project.root().join("input"), is_pipe);
        let run = run.iter().map(|flags| {
            let asks = flags.contains(&"--recipe") || flags.contains(&"--prompt-file");
            [&["run"][..], flags, if asks { &[] } else { &["hi"] }].concat()
        });
        let started = run.chain(other.iter().map(|arguments| arguments.to_vec())).map(|arguments| {
            let child = start(&project, &arguments);
            (arguments, child)
        });
        for (arguments, child) in started.collect::<Vec<_>>() {
            let outcome = project.finish(child);
            assert!([41, 42, 52].contains(&outcome.code), "{arguments:?}: {} {}", outcome.code, outcome.stderr);
            let why = match (arguments.contains(&"./input"), is_pipe) {
                (true, _) => "not a regular file",
                (false, true) => "no program writes to the pipe",
                (false, false) => "it is larger than",
            };
            assert!(outcome.stderr.contains("input"), "{arguments:?}: {}", outcome.stderr);
            assert!(outcome.stderr.contains(why), "{arguments:?}: {}", outcome.stderr);
        }
        assert_eq!(project.server().requests().len(), 0);
    }
}

#[test]
fn a_recipe_or_policy_that_cannot_be_read_is_named_with_the_reason_and_what_to_do() {
    let recipe = "recipe: 1\nname: child\ndescription: Says it.\nextends: r.yaml\n";
    let policy = format!("version: 1\nextends: {{file: base.yaml, sha256: {}}}\n", "0".repeat(64));
    let recipes = ["make it readable, or remove it", "name a file in the recipe's directory"];
    for (at, arguments, code, named, hint) in [
        ("work/.qwen/recipes/r.yaml", &["--recipe", "r"][..], 42, ".qwen/recipes/r.yaml", recipes[0]),
        ("work/.qwen/recipes/r.yaml", &["--recipe", "child"], 42, ".qwen/recipes/r.yaml", recipes[1]),
        ("home/.qwen/recipes/r.yaml", &["--recipe", "r"], 42, "~/.qwen/recipes/r.yaml", recipes[0]),
        ("work/base.yaml", &["--policy", "policy.yaml", "hi"], 52, "base.yaml", "correct the file"),
    ] {
        let project = Project::new().file(".qwen/recipes/child.yaml", recipe).file("policy.yaml", &policy);
        let project = project.model([say("fine")]);
        make(&project.beside(at), true);
        let outcome = project.run(&[&["--trust-checkout"][..], arguments].concat());
        let why = if at.ends_with("base.yaml") { "no program writes to the pipe" } else { "it is a pipe" };
        assert_eq!(outcome.code, code, "{arguments:?}: {}", outcome.stderr);
        for part in [named, why, hint] {
            assert!(outcome.stderr.contains(part), "{arguments:?}: {part}: {}", outcome.stderr);
        }
        assert_eq!(project.server().requests().len(), 0);
    }
}

#[test]
fn a_process_substitution_is_read_like_a_file() {
    let project = Project::new().file("a.txt", "one\n").model([say("fine")]);
    let plain = project.command(&[]);
    let script =
        "exec \"$1\" run --policy <(echo 'version: 1'; echo 'extends: builtin:read-only') --prompt-file <(echo hi)";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(plain.get_program()).current_dir(project.root()).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
