//! Tests that a pinned program of the workspace is started only while it is what the rule names.

use qwen_run::base::digest::sha256;
use serde_json::json;

use crate::support::{Project, Reply, call, say};

const SCRIPT: &str = "#!/bin/sh\necho generated > out.txt\n";

fn project(script: impl IntoIterator<Item = Reply>) -> Project {
    let policy = format!(
        "version: 1\nchanges: apply\ntools: {{allow: [write_file, run_shell_command]}}\n\
         paths: {{read: {{allow: [\"**\"]}}, write: {{allow: [\"**\"], exec_bit: true}}}}\n\
         shell:\n  allow:\n    - {{cmd: [./tools/gen.sh], sha256: {}}}\n    - {{cmd: [cp]}}\n",
        sha256(SCRIPT.as_bytes())
    );
    Project::new()
        .executable("tools/gen.sh", SCRIPT)
        .file("other", "#!/bin/sh\necho other > out.txt\n")
        .policy(&policy)
        .model(script)
        .git()
}

fn start(command: &str) -> Reply {
    call("run_shell_command", json!({"command": command}))
}

#[test]
fn what_is_pinned_runs_and_what_was_changed_does_not() {
    let project = project([start("./tools/gen.sh"), say("Done.")]);
    let outcome = project.run(&["--apply", "go"]);
    assert_eq!((outcome.code, project.read("out.txt").as_str()), (0, "generated\n"), "{}", outcome.stderr);
    for attack in [
        vec![
            call("write_file", json!({"file_path": "tools/gen.sh", "content": "#!/bin/sh\necho evil > out.txt\n"})),
            start("./tools/gen.sh"),
        ],
        vec![start("cp other tools/gen.sh"), start("./tools/gen.sh")],
        vec![start("cp -r tools other2; cd other2 && ./tools/gen.sh")],
    ] {
        let last = attack.len();
        let project = self::project(attack.into_iter().chain([say("Done.")]));
        let outcome = project.run(&["--apply", "go"]);
        let asked = project.server().requests()[last].to_string();
        assert!(asked.contains("pin") || asked.contains("Denied"), "{asked}");
        assert!(!project.root().join("out.txt").exists(), "{}", outcome.stderr);
    }
}

#[test]
fn a_pinned_script_does_not_start_beside_code_that_the_run_changed_and_that_it_may_load() {
    for (directory, written, runs) in [
        ("", "lib.sh", false),
        ("tools/", "lib.sh", false),
        ("tools/", "new.sh", false),
        ("tools/", "data.txt", true),
        ("tools/", "other.py", true),
        ("tools/", "sub/other.sh", true),
    ] {
        for by_command in [false, true] {
            let script = "#!/bin/sh\n. \"$(dirname \"$0\")/lib.sh\"\n";
            let policy = format!(
                "version: 1\nchanges: apply\ntools: {{allow: [write_file, run_shell_command]}}\n\
                 paths: {{read: {{allow: [\"**\"]}}, write: {{allow: [\"**\"], exec_bit: true}}}}\n\
                 shell:\n  allow:\n    - {{cmd: [./{directory}gen.sh], sha256: {}}}\n    - {{cmd: [cp]}}\n",
                sha256(script.as_bytes())
            );
            let path = format!("{directory}{written}");
            let write = match by_command {
                true => start(&format!("cp evil {path}")),
                false => call("write_file", json!({"file_path": path, "content": "echo evil > out.txt\n"})),
            };
            let project = Project::new()
                .executable(&format!("{directory}gen.sh"), script)
                .file(&format!("{directory}lib.sh"), "echo generated > out.txt\n")
                .file("tools/sub/kept", "\n")
                .file("evil", "echo evil > out.txt\n")
                .policy(&policy)
                .model([write, start(&format!("./{directory}gen.sh")), say("Done.")])
                .git();
            let outcome = project.run(&["--apply", "go"]);
            let asked = project.server().requests()[2].to_string();
            assert_eq!(!asked.contains("is pinned and may load"), runs, "{path} {by_command}: {asked}");
            let denials = outcome.result["permission_denials"].as_array().map_or(0, Vec::len);
            assert_eq!((outcome.code, denials), if runs { (0, 0) } else { (60, 1) }, "{path}: {}", outcome.stderr);
            let made = std::fs::read_to_string(project.root().join("out.txt")).unwrap_or_default();
            assert_eq!(made, if runs { "generated\n" } else { "" }, "{path} {by_command}: {}", outcome.stderr);
        }
    }
}

fn with_wrapper(script: impl IntoIterator<Item = Reply>) -> Project {
    let project = Project::new()
        .file("build.gradle", "\n")
        .file("package.json", "{}\n")
        .executable("gradlew", "#!/bin/sh\necho built > out.txt\n")
        .executable("node_modules/jest/jest.js", "#!/bin/sh\necho tested > out.txt\n")
        .file("node_modules/jest/index.js", "\n")
        .file("node_modules/.bin/other", "\n")
        .file("other", "#!/bin/sh\necho evil > out.txt\n");
    std::os::unix::fs::symlink("../jest/jest.js", project.root().join("node_modules/.bin/jest")).unwrap();
    project.model(script).git()
}

#[test]
fn wrappers_and_installed_programs_run_only_as_they_were_when_the_run_began() {
    for (command, text) in [("./gradlew test", "built\n"), ("node_modules/.bin/jest --ci", "tested\n")] {
        let project = with_wrapper([start(command), say("Done.")]);
        let outcome = project.run(&["--policy", "builtin:ci-dev", "--apply", "go"]);
        assert_eq!((outcome.code, project.read("out.txt").as_str()), (0, text), "{}", outcome.stderr);
    }
    let write =
        |path: &str| call("write_file", json!({"file_path": path, "content": "#!/bin/sh\necho evil > out.txt\n"}));
    let own_bin =
        json!({"file_path": "package.json", "content": "{\"name\": \"x\", \"bin\": {\"jest\": \"other\"}}\n"});
    for attack in [
        vec![call("write_file", own_bin), start("npx jest --ci")],
        vec![start("echo '{\"bin\": {\"jest\": \"other\"}}' > package.json && npx jest --ci")],
        vec![write("gradlew"), start("./gradlew test")],
        vec![start("cp other gradlew"), start("./gradlew test")],
        vec![write("gradle/wrapper/gradle-wrapper.jar"), start("./gradlew test")],
        vec![write("node_modules/jest/index.js"), start("node_modules/.bin/jest")],
        vec![start("cp other node_modules/jest/jest.js"), start("node_modules/.bin/jest")],
        vec![start("cp other gradlew && ./gradlew test")],
    ] {
        let last = attack.len();
        // The model is asked once more about the file that is no JavaScript any more.
        let project = with_wrapper(attack.into_iter().chain([say("Done."), say("Done.")]));
        let outcome = project.run(&["--policy", "builtin:ci-dev", "--apply", "go"]);
        let asked = project.server().requests()[last].to_string();
        assert!(asked.contains("Denied by policy"), "{asked}");
        assert!(!project.root().join("out.txt").exists(), "{}", outcome.stderr);
        // What is found when the command is to start is a denial like any other.
        assert_eq!(outcome.code, 60, "{}", outcome.stderr);
        assert_eq!(outcome.result["permission_denials"][0]["tool_name"], "run_shell_command", "{}", outcome.result);
    }
    let attack = [write("gradlew"), start("./gradlew test"), write("later.txt"), say("Done.")];
    let project = with_wrapper(attack);
    let outcome = project.run(&["--policy", "builtin:ci-dev", "--on-deny", "stop", "go"]);
    assert_eq!((outcome.code, project.server().requests().len()), (60, 2), "{}", outcome.stderr);
}

#[test]
fn a_program_of_a_python_environment_runs_with_the_packages_that_were_there() {
    let write = |path: &str, text: &str| call("write_file", json!({"file_path": path, "content": text}));
    let run = |script: Vec<Reply>| {
        let project = with_wrapper(script)
            .file(".gitignore", ".venv/\n")
            .file("pyproject.toml", "[project]\nname = \"x\"\n")
            .file("src/a.py", "a = 1\n")
            .executable(".venv/bin/mypy", "#!/bin/sh\n. .venv/lib/main.sh\n")
            .file(".venv/lib/main.sh", "echo typed > out.txt\n")
            .file(".venv/pyvenv.cfg", "\n");
        let outcome = project.run(&["--policy", "builtin:ci-dev", "--apply", "go"]);
        (outcome, project)
    };
    let (outcome, project) = run(vec![start(".venv/bin/mypy src"), start(".venv/bin/mypy src"), say("Done.")]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(project.root().join("out.txt").exists());
    for attack in [
        write(".venv/lib/main.sh", "echo evil > out.txt\n"),
        write(".venv/lib/x.pth", "import evil\n"),
        start("cp other .venv/bin/python"),
        start("cp other .venv/bin/mypy"),
    ] {
        let (_, project) = run(vec![attack, start(".venv/bin/mypy src"), say("Done.")]);
        let asked = project.server().requests()[2].to_string();
        assert!(asked.contains("is not as it was when the run began"), "{asked}");
        assert!(!project.root().join("out.txt").exists());
    }
}

#[test]
fn launchers_under_a_rule_of_a_file_start_what_was_there() {
    let policy = "version: 1\nextends: builtin:edit\nshell: {default: deny, allow: [{cmd: [npx, [jest, '@s/jest', jest@1]], operands: read}]}\n";
    let write = |path: &str| call("write_file", json!({"file_path": path, "content": "#!/bin/sh\necho evil\n"}));
    for (script, code) in [
        (vec![start("npx jest src")], 0),
        (vec![write("node_modules/jest/jest.js"), start("npx jest src")], 60),
        (vec![write("node_modules/jest/index.js"), start("npx jest src")], 60),
        (vec![write("node_modules/new/index.js"), start("npx jest src")], 60),
        (vec![write("node_modules/@s/jest/index.js"), start("npx @s/jest src")], 60),
        (vec![write("node_modules/jest/index.js"), start("npx jest@1 src")], 60),
    ] {
        let project = with_wrapper(script.into_iter().chain([say("Done."), say("Done.")])).file("src/a.txt", "a\n");
        let outcome = project.policy(policy).run(&["go"]);
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
    }
}

#[test]
fn a_closer_program_that_the_same_line_makes_does_not_start() {
    let line = "mkdir -p src/node_modules/.bin && cp other src/node_modules/.bin/jest && cd src && npx jest";
    let project = with_wrapper([start(line), say("Done.")]).file("src/a.txt", "a\n");
    let outcome = project.run(&["--policy", "builtin:ci-dev", "--apply", "go"]);
    assert_eq!(outcome.code, 60, "{}", outcome.stderr);
    let below = with_wrapper([start("cd src && npx jest --ci"), say("Done.")]).file("src/a.txt", "a\n");
    let outcome = below.run(&["--policy", "builtin:ci-dev", "--apply", "go"]);
    assert_eq!((outcome.code, below.read("src/out.txt").as_str()), (0, "tested\n"), "{}", outcome.stderr);
}

#[test]
fn an_installed_program_whose_ignored_packages_a_command_changed_does_not_start() {
    for is_large in [false, true] {
        let run = |script: Vec<&str>| {
            let script = script.into_iter().map(start).chain([say("Done.")]).collect::<Vec<_>>();
            let project = with_wrapper(script);
            std::fs::write(project.root().join(".gitignore"), "node_modules/\nhuge.bin\n").unwrap();
            project.run_git(&["rm", "-rq", "--cached", "node_modules"]);
            project.run_git(&["add", "."]);
            project.run_git(&["commit", "-qm", "ignored"]);
            std::fs::create_dir_all(project.root().join("node_modules/old/lib")).unwrap();
            std::fs::write(project.root().join("node_modules/old/lib/x.js"), "").unwrap();
            if is_large {
                // Takes no room; a project of this size is not copied where the machine has layers.
                for name in ["huge.bin", "large.bin"] {
                    std::fs::File::create(project.root().join(name)).unwrap().set_len(900 << 20).unwrap();
                }
            }
            let outcome = project.run(&["--policy", "builtin:ci-dev", "--apply", "go"]);
            (outcome, project)
        };
        for harmless in [
            vec!["node_modules/.bin/jest"],
            vec!["mkdir -p node_modules/.cache/jest", "cp other node_modules/.cache/jest/x", "node_modules/.bin/jest"],
            vec!["npx jest", "cp other new.txt", "npx jest"],
        ] {
            let (outcome, project) = run(harmless.clone());
            assert_eq!(
                (outcome.code, project.read("out.txt").as_str()),
                (0, "tested\n"),
                "{harmless:?} {}",
                outcome.stderr
            );
        }
        for attack in [
            vec!["cp other node_modules/jest/index.js", "node_modules/.bin/jest"],
            vec!["cp other node_modules/jest/new.js", "npx jest"],
            vec!["mkdir node_modules/evil", "cp other node_modules/evil/index.js", "npx jest"],
            vec!["rm node_modules/old/lib/x.js", "npx jest"],
            vec!["mkdir node_modules/old/evil", "mv node_modules/jest/index.js node_modules/old/evil/x", "npx jest"],
            vec!["cp other node_modules/jest/index.js && npx jest"],
        ] {
            let last = attack.len();
            let (outcome, project) = run(attack.clone());
            let asked = project.server().requests()[last].to_string();
            assert!(asked.contains("Denied by policy"), "{attack:?} {is_large} {asked}");
            assert!(!project.root().join("out.txt").exists(), "{}", outcome.stderr);
        }
    }
}
