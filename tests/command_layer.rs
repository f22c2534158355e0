//! Tests a project too large to be copied: commands work on a layer over it, and only time and disk space show it.

use serde_json::json;

use crate::support::{Project, Reply, call, say};

const POLICY: &str = "version: 1\nchanges: {default: dry-run, allow: [dry-run, apply, commit]}\n\
    tools: {allow: [read_file, edit, write_file, run_shell_command]}\n\
    paths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"], exec_bit: true, symlinks: true}}\n\
    shell: {default: allow}\n";

fn project(script: impl IntoIterator<Item = Reply>) -> Project {
    let project = Project::new()
        .file("a", "1\n")
        .file("src/gone", "1\n")
        .file("src/b", "1\n")
        .file("run", "x\n")
        .file(
            "attack.sh",
            "cat .env; echo x >.git/hooks-were-here; echo y >.env; rm -f .env; cat .env; cat ../*/.env\n",
        )
        .file(".gitignore", "out/\n.env\nhuge.bin\n")
        .policy(POLICY)
        .model(script)
        .git();
    std::fs::create_dir(project.root().join("out")).unwrap();
    std::fs::write(project.root().join("out/old"), "old\n").unwrap();
    std::fs::write(project.root().join(".env"), "KEY=hunter2hunter2\n").unwrap();
    // Takes no room, and would if it were copied. More than `sandbox.copy_max` would be left out of a copy.
    std::fs::File::create(project.root().join("huge.bin")).unwrap().set_len(900 << 20).unwrap();
    std::fs::File::create(project.root().join("large.bin")).unwrap().set_len(900 << 20).unwrap();
    project
}

#[expect(clippy::print_stdout, reason = "the output of a test is how it speaks")]
fn is_layered(answer: &str) -> bool {
    let is_layered = answer.contains("overlayfs");
    if !is_layered {
        println!("NOT TESTED: this machine lends no layers, so that it was a copy");
    }
    is_layered
}

#[test]
fn commands_see_each_other_s_work_and_the_project_stays_as_it_is() {
    let shell = |command: &str| call("run_shell_command", json!({"command": command}));
    let project = project([
        call("edit", json!({"file_path": "a", "old_string": "1", "new_string": "2"})),
        shell(
            "stat -f -c %T .; pwd; cat a; rm src/gone; mkdir -p new/deep; echo n > new/deep/f; echo o > out/built; \
             chmod +x run; ln -s a link; du -h --apparent-size huge.bin",
        ),
        call("edit", json!({"file_path": "new/deep/f", "old_string": "n", "new_string": "m"})),
        shell("cat new/deep/f link out/built out/old; ls src; git status --short; bash attack.sh"),
        say("Done."),
    ]);
    let before = (project.run_git(&["status", "--porcelain"]), project.run_git(&["rev-parse", "HEAD"]));
    let outcome = project.run(&["-o", "patch", "go"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    let requests = project.server().requests();
    let answers = requests[4].to_string();
    if !is_layered(&requests[2].to_string()) {
        return;
    }
    assert!(answers.contains("m\\n2\\no\\nold\\nb\\n"), "{answers}");
    assert!(answers.contains(" D src/gone\\n"), "git compares with the real index: {answers}");
    assert!(!answers.contains("hunter2"), "{answers}");
    assert!(answers.contains("commands do not see .env (may not be read)"), "{answers}");
    assert_eq!((project.run_git(&["status", "--porcelain"]), project.run_git(&["rev-parse", "HEAD"])), before);
    assert_eq!(project.read("a"), "1\n");
    assert!(!project.root().join("out/built").exists() && !project.root().join(".git/hooks-were-here").exists());
    std::fs::write(project.beside("x.patch"), &outcome.stdout_bytes).unwrap();
    project.run_git(&["apply", &project.beside("x.patch").display().to_string()]);
    assert_eq!((project.read("a"), project.read("new/deep/f")), ("2\n".into(), "m\n".into()));
    assert!(!project.root().join("src/gone").exists());
    assert_eq!(project.read(".env"), "KEY=hunter2hunter2\n");
}

#[test]
fn a_commit_of_a_layered_project_holds_what_commands_made() {
    let project = project([
        call(
            "run_shell_command",
            json!({"command": "stat -f -c %T .; mv src lib; echo 3 > a; git add a src lib; git commit -qm inner"}),
        ),
        say("Done."),
    ]);
    let outcome = project.run(&["--commit", "--message", "moved", "go"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    is_layered(&project.server().requests()[1].to_string());
    assert_eq!(
        project.run_git(&["log", "-1", "--format=%s", "--name-status", "--no-renames"]),
        "moved\n\nM\ta\nA\tlib/b\nA\tlib/gone\nD\tsrc/b\nD\tsrc/gone\n"
    );
    assert_eq!(project.run_git(&["status", "--porcelain"]), "?? large.bin\n");
}
