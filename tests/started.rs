//! Tests which programs that settings name start in a checkout, and when they no longer do.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::support::{Project, say};
use crate::trust::{event, pull_request};

#[test]
fn an_approval_ends_when_a_program_that_an_approved_command_names_changes() {
    let server = |command: &str, args: &[&str]| json!({"mcpServers": {"s": {"command": command, "args": args}}});
    let hook = json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "sh tools/x.sh"}]}]}});
    for (settings, of_user) in [
        (server("sh", &["tools/x.sh"]), json!({})),
        (server("tools/x.sh", &[]), json!({})),
        (server("{root}/tools/x.sh", &[]), json!({})),
        (server("xargs", &["sh", "./tools/x.sh"]), json!({})),
        (json!({"tools": {"discoveryCommand": "tools/x.sh --list"}}), json!({})),
        (server("true", &[]), hook),
    ] {
        let project = Project::new();
        let root = project.root().canonicalize().unwrap().display().to_string();
        let started = format!("#!/bin/sh\ntouch {}\n", project.beside("ran").display());
        std::fs::create_dir(project.home().join(".qwen")).unwrap();
        std::fs::write(project.home().join(".qwen/settings.json"), of_user.to_string()).unwrap();
        let project = project
            .file(".qwen/settings.json", settings.to_string().replace("{root}", &root))
            .file("other.txt", "1\n")
            .executable("tools/x.sh", "#!/bin/sh\ntrue\n")
            .git();
        let said = project.qwen(&["policy", "trust"]);
        assert!(said.stdout.contains("tools/x.sh"), "{settings}: {}{}", said.stdout, said.stderr);
        let is_trusted = |project: &Project| {
            let outcome = project.run(&["look"]);
            !outcome.stderr.contains("this checkout is not trusted")
        };
        let project = project.file("other.txt", "2\n").file("tools/kept.db", "1\n").model([say("done")]);
        assert!(is_trusted(&project), "{settings}");
        let project = project.executable("tools/x.sh", &started).model([say("done")]);
        assert!(!is_trusted(&project), "{settings}");
        assert!(of_user != json!({}) || !project.beside("ran").exists(), "{settings}");
    }
}

#[test]
fn a_command_that_cannot_be_read_does_not_start_in_a_change_under_review() {
    let hook =
        |command: &str| json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}});
    let server = |server: serde_json::Value| json!({"mcpServers": {"s": server}});
    for (settings, code) in [
        (hook("\"$QWEN_PROJECT_DIR\"/tools/x.sh"), 52),
        (hook("\"$(git rev-parse --show-toplevel)\"/tools/x.sh"), 52),
        (hook("$GITHUB_WORKSPACE/tools/x.sh"), 52),
        (hook("~/../work/tools/x.sh"), 52),
        (hook("sh tools/x.*"), 52),
        (hook("sh to\\ols/x.sh"), 52),
        (hook("~/bin/notify.sh"), 0),
        (hook("~/bin/notify.sh --flag || true"), 0),
        (hook("sh tools/same.sh"), 52),
        (hook("git -c alias.x=!tools/x.sh x"), 52),
        (hook("git ls-files -z | xargs -0 -n1 sh"), 52),
        (hook("ls | xargs -I@ sh @/x.sh"), 52),
        (hook("pwd | /usr/bin/xargs -I@ sh @/tools/x.sh"), 52),
        (hook("git show HEAD:./tools/x''.sh | sh"), 52),
        (hook("env -S 'sh tools/x.sh'"), 52),
        (hook("find . -name 'x.s'h -exec sh {} +"), 52),
        (hook("run-parts tools"), 52),
        (hook("make -s run"), 52),
        (server(json!({"command": "npx", "args": ["-y", "x"]})), 52),
        (server(json!({"command": "sh", "args": ["-c", "exec node $PWD/tools/s.js"]})), 52),
        (server(json!({"command": "python3", "args": ["-mtools.s"]})), 52),
        (server(json!({"command": "sh", "args": ["-c", "exec ./x.sh"], "cwd": "tools"})), 52),
        (server(json!({"command": "sh", "args": ["-c", "exec ./none.sh"], "cwd": "tools"})), 0),
        (server(json!({"command": "/opt/no-such-python", "env": {"PYTHONPATH": ":/opt/lib"}})), 52),
        (server(json!({"command": "/opt/no-such-python", "env": {"PYTHONPATH": "/opt/lib"}})), 0),
        (server(json!({"command": "no-such-server", "args": ["stdio"]})), 52),
        (hook("just fmt"), 52),
        (hook("turbo run lint"), 52),
        (server(json!({"command": "/opt/no-such-node", "env": {"NODE_OPTIONS": "--require ./tools/x.sh"}})), 52),
        (server(json!({"command": "/opt/no-such-python", "env": {"PYTHONPATH": "tools"}})), 52),
        (server(json!({"command": "/opt/no-such-shell", "env": {"BASH_ENV": "tools/x.sh"}})), 52),
        (server(json!({"command": "/opt/no-such-program", "args": ["--flag"], "env": {"A": "b"}})), 0),
    ] {
        let project =
            Project::new().executable("tools/x.sh", "#!/bin/sh\ntrue\n").file("tools/same.sh", "true\n").git();
        let base = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
        let ran = project.beside("ran").display().to_string();
        let project = project.executable("tools/x.sh", &format!("#!/bin/sh\ntouch {ran}\n"));
        project.run_git(&["commit", "-qam", "change"]);
        let notify = project.home().join("bin/notify.sh");
        std::fs::create_dir_all(notify.parent().unwrap()).unwrap();
        std::fs::write(&notify, "#!/bin/sh\ntrue\n").unwrap();
        std::fs::set_permissions(&notify, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(project.home().join(".qwen")).unwrap();
        std::fs::write(project.home().join(".qwen/settings.json"), settings.to_string()).unwrap();
        let project = event(project.model([say("done")]), "pull_request", &pull_request(&base, "acme/app"));
        let outcome = project.run(&["look"]);
        assert_eq!(outcome.code, code, "{settings}: {}", outcome.stderr);
        assert!(!project.beside("ran").exists(), "{settings}: {}", outcome.stderr);
    }
}

#[test]
fn a_program_at_the_top_of_a_change_under_review_starts_only_if_what_it_may_load_is_the_same() {
    for (changed, code) in [
        ("helper.py", 52),
        ("helper/__init__.py", 52),
        ("lib/deep/a.js", 52),
        ("env", 52),
        ("README.md", 0),
        ("src/main.rs", 0),
        ("src/data.json", 0),
    ] {
        let project = Project::new().file("tool.py", "import helper\n").file(changed, "1\n").git();
        let base = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
        let project = project.file(changed, "2\n");
        project.run_git(&["commit", "-qam", "change"]);
        std::fs::create_dir(project.home().join(".qwen")).unwrap();
        let server = json!({"mcpServers": {"s": {"command": "python3", "args": ["tool.py"]}}});
        std::fs::write(project.home().join(".qwen/settings.json"), server.to_string()).unwrap();
        let project = event(project.model([say("done")]), "pull_request", &pull_request(&base, "acme/app"));
        let outcome = project.run(&["look"]);
        assert_eq!(outcome.code, code, "{changed}: {}", outcome.stderr);
    }
}
