//! Tests that links, archives and state in a checkout do not lead a run to files of the user outside of it.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::failing_calls::{qwen, tier_faults};
use crate::support::{Outcome, Project, Reply, call, say};
use crate::trust::{event, pull_request};

const TIERS: [(&str, &[&str]); 4] = [("T3", &[]), ("T2", &[]), ("T1", &[]), ("off", &["--sandbox=off"])];

/// A checkout in which links lead to directories of the home, one of them by way of another link.
fn with_links() -> Project {
    let project = Project::new().file("a.txt", "one\n").file("own/b.txt", "two\n").git();
    let secret = project.home().join("deep/notes.txt");
    std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
    std::fs::write(&secret, "HOMESEC\n").unwrap();
    symlink("../home/deep", project.root().join("out")).unwrap();
    symlink("out", project.root().join("twice")).unwrap();
    symlink(project.home(), project.root().join("own/up")).unwrap();
    symlink("own", project.root().join("in")).unwrap();
    project
}

fn write() -> [Reply; 3] {
    [
        call("run_shell_command", json!({"command": "cat notes.txt"})),
        call("write_file", json!({"file_path": "notes.txt", "content": "owned\n"})),
        say("done"),
    ]
}

fn nothing_leaked(project: &Project, what: &str, outcome: &Outcome) {
    let bodies = project.server().bodies().concat();
    for text in [&String::from_utf8_lossy(&bodies).into_owned(), &outcome.stderr, &outcome.stdout] {
        assert!(!text.contains("HOMESEC"), "{what}: {text}");
    }
    assert_eq!(std::fs::read_to_string(project.home().join("deep/notes.txt")).unwrap(), "HOMESEC\n", "{what}");
}

#[test]
fn no_run_works_where_a_link_of_a_checkout_leads() {
    for (tier, flags) in TIERS {
        for directory in ["out", "twice", "own/up/deep", "in/up/deep", "./own/../out"] {
            let project = with_links().model(write());
            let arguments = [&["run", "--yolo", "--apply", "-C", directory][..], flags, &["go"]].concat();
            let outcome = qwen(&project, tier_faults(tier), &arguments);
            let what = format!("{tier} {directory}");
            assert_eq!(outcome.code, 52, "{what}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("is a link in the checkout that points outside it"), "{}", outcome.stderr);
            nothing_leaked(&project, &what, &outcome);
        }
    }
    // The way that the shell went.
    let project = with_links().model(write());
    let pwd = project.root().join("out").display().to_string();
    let project = project.env("PWD", &pwd);
    let mut command = project.command(&["run", "--no-stdin", "--apply", "go"]);
    let done = command.current_dir(&pwd).output().unwrap();
    assert_eq!(done.status.code(), Some(52), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_link_that_stays_in_the_checkout_or_lies_outside_of_any_is_followed() {
    let project = with_links();
    symlink(project.root(), project.beside("shortcut")).unwrap();
    for directory in ["in", "../shortcut", "../shortcut/own"] {
        let project = Project::model(with_links(), [say("done")]);
        symlink(project.root(), project.beside("shortcut")).unwrap();
        let outcome = project.run(&["-C", directory, "go"]);
        assert_eq!(outcome.code, 0, "{directory}: {}", outcome.stderr);
    }
}

#[test]
fn no_file_that_a_flag_names_is_read_through_a_link_out_of_the_checkout() {
    const RECIPE: &str = "recipe: 1\nname: r\ndescription: d\nparams:\n  k: {type: string, description: k}\nprompt: say {{ params.k }}\n";
    for flags in [
        &["--prompt-file", "out/notes.txt"][..],
        &["--policy", "out/notes.txt", "go"],
        &["--policy", "p.yaml", "go"],
        &["--image", "out/notes.txt", "go"],
        &["--mcp-config", "out/notes.txt", "go"],
        &["--json-schema", "@out/notes.txt", "go"],
        &["--include-directories", "out", "go"],
        &["--include-directories", "own/up/deep", "go"],
        &["--recipe", "out/notes.txt", "--param", "k=1"],
        &["--recipe", "./r.yaml", "--param", "k=@out/notes.txt"],
        &["--recipe", "./r.yaml", "--params-file", "out/notes.txt"],
        &["--api-key-file", "out/notes.txt", "go"],
        &["--replay", "out/notes.txt", "go"],
        &["--ca-file", "out/notes.txt", "go"],
    ] {
        let project = with_links().file("r.yaml", RECIPE).model([
            call("read_file", json!({"file_path": "../home/deep/notes.txt"})),
            call("read_file", json!({"file_path": "out/notes.txt"})),
            say("done"),
        ]);
        symlink("out/notes.txt", project.root().join("p.yaml")).unwrap();
        let outcome = project.run(flags);
        assert!(!matches!(outcome.code, 0 | 101), "{flags:?}: {}: {}", outcome.code, outcome.stderr);
        assert!(outcome.stderr.contains("link in the checkout"), "{flags:?}: {}", outcome.stderr);
        assert_eq!(project.server().requests().len(), 0, "{flags:?}");
        nothing_leaked(&project, &format!("{flags:?}"), &outcome);
    }
    let project = with_links().model([say("done")]);
    let outcome = project.run(&["--file", "out/notes.txt", "go"]);
    nothing_leaked(&project, "--file", &outcome);
}

#[test]
fn no_link_makes_a_prompt_of_a_file_for_secrets() {
    let recipe = "recipe: 1\nname: r\ndescription: d\nparams:\n  k: {type: string, description: k}\nprompt: say {{ params.k }}\n";
    let project = Project::new()
        .file("r.yaml", recipe)
        .file(".env", "PASSWORD=hunter2hunter2\n")
        .file("notes.txt", "be brief")
        .model([say("done")]);
    symlink(".env", project.root().join("TASK.md")).unwrap();
    symlink("notes.txt", project.root().join("linked.md")).unwrap();
    for flags in [&["--prompt-file", "TASK.md"][..], &["--recipe", "./r.yaml", "--param", "k=@TASK.md"]] {
        let outcome = project.run(flags);
        assert_eq!(outcome.code, 42, "{flags:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("a link to a file for secrets"), "{flags:?}: {}", outcome.stderr);
    }
    assert_eq!(project.server().requests().len(), 0);
    assert_eq!(project.run(&["--prompt-file", "linked.md"]).code, 0);
}

/// Approves a checkout with this state directory, as the user would.
fn approve(project: &Project, directory: &Path, state: &Path) {
    let mut command = project.command(&["policy", "trust"]);
    let done = command.env("XDG_STATE_HOME", state).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn an_approval_that_a_checkout_around_the_workspace_brings_along_trusts_nothing() {
    const ALL: &str = "version: 1\nname: planted\nextends: builtin:open\nchanges: apply\n";
    for (variable, state) in [("HOME", ".local/state"), ("XDG_STATE_HOME", ".state"), ("HOME", "link")] {
        for (tier, flags) in TIERS {
            let project = Project::new().file("sub/.qwen/policy.yaml", ALL).file("sub/a.txt", "one\n");
            project.run_git(&["init", "-q", "sub"]);
            project.run_git(&["-C", "sub", "commit", "-q", "--allow-empty", "-m", "sub"]);
            let (root, sub) = (project.root().canonicalize().unwrap(), project.root().join("sub"));
            let made = project.beside("state");
            approve(&project, &sub.canonicalize().unwrap(), &made);
            let planted = if state == "link" { ".local/state" } else { state };
            std::fs::create_dir_all(root.join(planted)).unwrap();
            match state {
                "link" => {
                    std::fs::remove_dir(root.join(".local/state")).unwrap();
                    symlink(&made, root.join(".local/state")).unwrap();
                }
                _ => std::fs::rename(made.join("qwen"), root.join(planted).join("qwen")).unwrap(),
            }
            let value = if variable == "HOME" { root.clone() } else { root.join(state) };
            let project = project
                .git()
                .env(variable, &value.display().to_string())
                .model([call("run_shell_command", json!({"command": "sh -c 'echo ran > z'"})), say("done")]);
            let arguments = [&["run", "-C", "sub"][..], flags, &["go"]].concat();
            let outcome = qwen(&project, tier_faults(tier), &arguments);
            let what = format!("{tier} {variable} {state}: {}", outcome.stderr);
            assert!(!outcome.stderr.contains("planted"), "{what}");
            assert!(outcome.stderr.contains("come with it"), "{what}");
            assert!(!sub.join("z").exists(), "{what}");
        }
    }
}

#[test]
fn no_state_is_written_where_a_link_of_a_checkout_leads() {
    for directory in ["", "sub"] {
        for links in [&[".local"][..], &[".cache"], &[".local/state", ".cache/qwen"]] {
            let project = Project::new().file("a.txt", "one\n").file("sub/a.txt", "one\n").git();
            if !directory.is_empty() {
                project.run_git(&["init", "-q", directory]);
            }
            let elsewhere = project.beside("elsewhere");
            std::fs::create_dir_all(elsewhere.join("state/qwen")).unwrap();
            for link in links {
                let link = project.root().join(link);
                std::fs::create_dir_all(link.parent().unwrap()).unwrap();
                symlink(&elsewhere, link).unwrap();
            }
            let home = project.root().display().to_string();
            let project = project
                .env("HOME", &home)
                .model([call("write_file", json!({"file_path": "new.txt", "content": "new\n"})), say("done")]);
            let outcome = project.run(&["--apply", "-C", &format!("./{directory}"), "go"]);
            assert_eq!(outcome.code, 0, "{}", outcome.stderr);
            let left: Vec<_> = walkdir(&elsewhere);
            assert_eq!(left, ["state", "state/qwen"], "{directory} {links:?}");
        }
    }
}

fn walkdir(top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            found.push(entry.path().strip_prefix(top).unwrap().display().to_string());
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// What an archive without a repository brings along: settings with a hook, and an approval of them.
fn archive() -> Project {
    let project = Project::new().file("pkg/a.txt", "one\n");
    let ran = project.beside("ran").display().to_string();
    let hook =
        json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": format!("touch {ran}")}]}]}});
    let project = project.file(".qwen/settings.json", hook.to_string());
    let made = project.beside("state");
    for directory in [project.root(), project.root().join("pkg")] {
        approve(&project, &directory.canonicalize().unwrap(), &made);
    }
    std::fs::create_dir(project.root().join(".local")).unwrap();
    std::fs::rename(made, project.root().join(".local/state")).unwrap();
    project
}

#[test]
fn nothing_of_a_home_that_was_unpacked_with_the_workspace_is_the_users() {
    for (cwd, flags) in [("", &[][..]), ("", &["-C", "pkg"]), ("pkg", &[])] {
        for variable in ["HOME", "XDG_STATE_HOME"] {
            let project = archive();
            let root = project.root().canonicalize().unwrap();
            let value = if variable == "HOME" { root.clone() } else { root.join(".local/state") };
            let project = project.env(variable, &value.display().to_string()).model([say("done")]);
            let mut command = project.command(&[&["run", "--no-stdin"], flags, &["go"]].concat());
            let done = command.current_dir(root.join(cwd)).output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(0), "{cwd} {flags:?}: {said}");
            // A directory that XDG_STATE_HOME names beside the workspace is the operator's word.
            let is_named = variable == "XDG_STATE_HOME" && cwd == "pkg";
            assert!(is_named || !project.beside("ran").exists(), "{cwd} {flags:?} {variable}: {said}");
            assert!(variable != "HOME" || said.contains("nothing is read from it"), "{cwd} {flags:?}: {said}");
        }
    }
}

#[test]
fn no_output_goes_where_a_link_of_an_unpacked_archive_leads() {
    for (cwd, flags, file) in [
        ("", &["-C", "pkg"][..], "out/r.json"),
        ("pkg", &[], "../out/r.json"),
        ("pkg", &["-C", "."], "{root}/out/r.json"),
        ("", &[], "out/r.json"),
    ] {
        let project = Project::new().file("pkg/a.txt", "one\n").model([say("done")]);
        let kept = project.home().join(".config/r.json");
        std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
        std::fs::write(&kept, "keep\n").unwrap();
        symlink("../home/.config", project.root().join("out")).unwrap();
        let root = project.root().canonicalize().unwrap();
        let file = file.replace("{root}", root.to_str().unwrap());
        let mut command = project.command(&[&["run", "--no-stdin", "--result-file", &file], flags, &["go"]].concat());
        let done = command.current_dir(root.join(cwd)).output().unwrap();
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "keep\n", "{cwd} {flags:?}");
        assert!(!done.status.success(), "{cwd} {flags:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn no_program_of_an_unpacked_archive_starts_in_a_part_of_it() {
    for (tier, flags) in TIERS.iter().filter(|(tier, _)| *tier != "T2") {
        for bin in [".venv/bin", "tools/node/bin"] {
            let project = Project::new().file("pkg/a.txt", "one\n");
            let pwned = project.beside("pwned").display().to_string();
            let script = format!("#!/bin/sh\necho planted; echo > {pwned}\n");
            let project = ["cat", "bash", "git"]
                .iter()
                .fold(project, |project, name| project.executable(&format!("{bin}/{name}"), &script));
            let root = project.root().canonicalize().unwrap();
            let path = format!("{}:{}", root.join(bin).display(), std::env::var("PATH").unwrap());
            let project = project.env("PATH", &path).model([
                call("run_shell_command", json!({"command": "cat a.txt"})),
                call("run_shell_command", json!({"command": "for i in 1; do cat a.txt; done"})),
                say("done"),
            ]);
            let pkg = root.join("pkg").display().to_string();
            let arguments = [&["run", "-C", &pkg][..], flags, &["go"]].concat();
            let outcome = qwen(&project, tier_faults(tier), &arguments);
            assert!(!project.beside("pwned").exists(), "{tier} {bin}: {}", outcome.stderr);
            let bodies = project.server().bodies().concat();
            assert!(!String::from_utf8_lossy(&bodies).contains("planted"), "{tier} {bin}: {}", outcome.stderr);
        }
    }
}

#[test]
fn a_link_of_the_user_s_that_leads_into_a_change_under_review_starts_nothing_that_was_changed() {
    let hook =
        |command: &str| json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}});
    for flags in [&[][..], &["--sandbox=off"]] {
        for changed in [true, false] {
            for settings in [
                hook("~/bin/fmt"),
                hook("fmt --check"),
                hook("true && fmt"),
                hook("~/bin/twice"),
                hook("~/t/x.sh"),
                json!({"mcpServers": {"s": {"command": "fmt"}}}),
                json!({"mcpServers": {"s": {"command": "{home}/bin/fmt"}}}),
                json!({"mcpServers": {"s": {"command": "sh", "args": ["{home}/bin/fmt"]}}}),
                json!({"tools": {"discoveryCommand": "{home}/bin/fmt"}}),
            ] {
                let project = Project::new().executable("tools/x.sh", "#!/bin/sh\ntrue\n").git();
                let base = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
                let ran = project.beside("ran").display().to_string();
                let project = match changed {
                    true => project.executable("tools/x.sh", &format!("#!/bin/sh\ntouch {ran}\n")),
                    false => project,
                };
                project.run_git(&["commit", "-q", "--allow-empty", "-am", "change"]);
                std::fs::create_dir_all(project.home().join("bin")).unwrap();
                std::fs::create_dir(project.home().join(".qwen")).unwrap();
                let link = |to: &Path, name: &str| {
                    symlink(to, project.home().join(name)).unwrap();
                };
                link(&project.root().join("tools/x.sh"), "bin/fmt");
                link(Path::new("fmt"), "bin/twice");
                link(&project.root().join("tools"), "t");
                let home = project.home().display().to_string();
                let settings = settings.to_string().replace("{home}", &home);
                std::fs::write(project.home().join(".qwen/settings.json"), &settings).unwrap();
                let path = format!("{home}/bin:{}", std::env::var("PATH").unwrap());
                let project = project.env("PATH", &path).model([say("done")]);
                let project = event(project, "pull_request", &pull_request(&base, "acme/app"));
                let outcome = project.run(&[flags, &["look"]].concat());
                assert_eq!(outcome.code == 52, changed, "{settings} {flags:?}: {}", outcome.stderr);
                assert!(!project.beside("ran").exists(), "{settings}: {}", outcome.stderr);
            }
        }
    }
}

#[test]
fn nothing_is_kept_in_a_checkout_that_is_the_home() {
    let project = Project::new()
        .file("a.txt", "one\n")
        .git()
        .model([call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})), say("done")]);
    let root = project.root().display().to_string();
    let inside = format!("{root}/.state");
    let project = project.env("HOME", &root).env("XDG_STATE_HOME", &inside).env("XDG_CACHE_HOME", &inside);
    let before = project.tree();
    let outcome = project.run(&["edit it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.tree(), before);
}

#[test]
fn no_temporary_file_is_made_where_a_link_of_a_checkout_leads() {
    for (tier, flags) in TIERS {
        for directory in ["out", "twice", "own/up/deep"] {
            let project = with_links().model(write());
            let named = project.root().join(directory).display().to_string();
            let project = project.env("TMPDIR", &named);
            let outcome = qwen(&project, tier_faults(tier), &[&["run", "--apply"][..], flags, &["go"]].concat());
            let what = format!("{tier} {directory}");
            assert_eq!(outcome.code, 52, "{what}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("the temporary directory"), "{what}: {}", outcome.stderr);
            assert_eq!(walkdir(&project.home().join("deep")).len(), 1, "{what}");
        }
    }
}

#[test]
fn a_change_is_applied_and_undone_with_a_home_that_came_with_the_checkout() {
    let project = Project::new()
        .file("a.txt", "one\n")
        .file(".qwen/settings.json", "{}")
        .git()
        .model([call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})), say("done")]);
    let root = project.root().display().to_string();
    let project = project.env("HOME", &root);
    let outcome = project.run(&["--apply", "edit it"]);
    assert_eq!((outcome.code, project.read("a.txt").as_str()), (0, "two\n"), "{}", outcome.stderr);
    let state = project.beside(&format!("qwen-{}", rustix::process::geteuid().as_raw()));
    assert!(state.join("undo").is_dir(), "kept in the directory for temporary files");
    let outcome = project.qwen(&["undo"]);
    assert_eq!((outcome.code, project.read("a.txt").as_str()), (0, "one\n"), "{}", outcome.stderr);
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");
}

#[test]
fn a_repository_that_a_change_put_into_the_checkout_is_not_trusted_by_its_own_branches() {
    let project = Project::new().file("a.txt", "one\n").git();
    let project =
        project.file("app/a.txt", "one\n").file("app/.qwen/policy.yaml", "version: 1\nextends: builtin:open\n");
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "x"],
        &["update-ref", "refs/remotes/origin/main", "HEAD"],
    ] {
        project.run_git(&[&["-C", "app"][..], arguments].concat());
    }
    let project = event(project, "pull_request", &pull_request(&"f".repeat(40), "evil/app"));
    let outcome = project.model([say("done")]).run(&["-C", "app", "do it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let is_default = outcome.stderr.contains("policy default") && outcome.stderr.contains("only restricts");
    assert!(is_default, "{}", outcome.stderr);
}
