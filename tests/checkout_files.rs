//! Tests that files of a checkout that nobody trusts do not choose what the model or a message gets.

use std::os::unix::fs::symlink;

use crate::support::{Outcome, Project, say};

const SECRET: &str = "OUTSIDE-SECRET-TEXT";

fn recipe(more: &str) -> String {
    format!("recipe: 1\nname: evil\ndescription: d\nneeds: {{read: ['**']}}\nlimits: {{cost_usd: 1}}\n{more}\n")
}

fn nothing_shown(project: &Project, what: &str, outcome: &Outcome) {
    let sent = project.server().bodies().concat();
    for text in [&String::from_utf8_lossy(&sent).into_owned(), &outcome.stderr, &outcome.stdout] {
        assert!(!text.contains(SECRET), "{what}: {text}");
    }
}

#[test]
fn a_policy_of_a_checkout_shows_no_file_that_it_extends() {
    let line = format!("machine x password {SECRET}\n");
    let plain = Project::new().file("notes.txt", &line).file(".env", &line);
    std::fs::write(plain.beside("netrc"), &line).unwrap();
    let outside = plain.beside("netrc").display().to_string();
    let mut project = plain.git().model([say("done")]);
    let known = "5b8c3cf4e5d0a6d1d1f2a4d2c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091";
    for file in [outside.as_str(), "../../netrc", "../.env", "../.git/config", "../notes.txt"] {
        let policy = |digest: &str| format!("version: 1\nextends: {{file: '{file}', sha256: '{digest}'}}\n");
        project = project.file(".qwen/policy.yaml", policy(known));
        let outcome = project.run(&["do it"]);
        assert_eq!(outcome.code, 52, "{file}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("has the digest"), "{file}: {}", outcome.stderr);
        project = project.file(".qwen/policy.yaml", policy(&sha256(line.as_bytes())));
        let outcome = project.run(&["do it"]);
        assert_eq!(outcome.code, 52, "{file}: {}", outcome.stderr);
        nothing_shown(&project, file, &outcome);
    }
    symlink("../.env", project.root().join(".qwen/linked.yaml")).unwrap();
    std::fs::remove_file(project.root().join(".qwen/policy.yaml")).unwrap();
    std::fs::rename(project.root().join(".qwen/linked.yaml"), project.root().join(".qwen/policy.yaml")).unwrap();
    nothing_shown(&project, "a link", &project.run(&["do it"]));
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn an_error_before_the_policy_is_known_shows_no_value_of_the_environment() {
    let text = format!("version: {SECRET}\n");
    let project = Project::new().file(".qwen/policy.yaml", text).git().model([say("done")]).env("DB_PASSWORD", SECRET);
    for arguments in [&["run", "do it"][..], &["policy", "explain", "--", "ls"]] {
        let outcome = project.qwen(arguments);
        assert_eq!(outcome.code, 52, "{}", outcome.stderr);
        nothing_shown(&project, "masked", &outcome);
    }
}

#[test]
fn a_recipe_of_a_checkout_includes_no_file_that_is_never_read() {
    let line = format!("KEY={SECRET}\n");
    for (named, link) in [
        (".env", None),
        (".git/config", None),
        ("p.md", Some(".env")),
        ("p.md", Some(".git/config")),
        ("p.md", Some("customers/a.md")),
    ] {
        for key in [format!("prompt_file: {named}"), format!("prompt: p\ninstructions_files: [{named}]")] {
            let project = Project::new()
                .file(".env", &line)
                .file("customers/a.md", &line)
                .file("evil.yaml", recipe(&key))
                .git()
                .policy("version: 1\nextends: builtin:edit\npaths: {read: {deny: ['customers/**']}}\n")
                .model([say("done")]);
            project.run_git(&["config", "http.extraheader", SECRET]);
            std::fs::create_dir_all(project.root().join(".qwen")).unwrap();
            symlink("..", project.root().join(".qwen/recipes")).unwrap();
            if let Some(target) = link {
                symlink(target, project.root().join("p.md")).unwrap();
            }
            for word in ["evil", "./evil.yaml"] {
                let outcome = project.run(&["--recipe", word]);
                assert_ne!(outcome.code, 0, "{word} {key} {link:?}");
                nothing_shown(&project, &key, &outcome);
            }
        }
    }
}

#[test]
fn recipes_behind_a_link_out_of_the_checkout_are_not_read() {
    let project = Project::new().file("a.txt", "a\n").git().model([say("done")]);
    std::fs::create_dir_all(project.beside("elsewhere")).unwrap();
    std::fs::write(project.beside("elsewhere/evil.yaml"), format!("b: [{SECRET}\n")).unwrap();
    std::fs::create_dir_all(project.root().join(".qwen")).unwrap();
    symlink("../../elsewhere", project.root().join(".qwen/recipes")).unwrap();
    let outcome = project.run(&["--recipe", "evil"]);
    assert_ne!(outcome.code, 0);
    assert!(
        outcome.stderr.contains("is a link in the checkout that points outside the checkout"),
        "{}",
        outcome.stderr
    );
    nothing_shown(&project, "outside", &outcome);
}

#[test]
fn a_recipe_of_an_untrusted_checkout_takes_nothing_from_the_environment() {
    let text = recipe("params: {x: {type: string, description: d, env: DATABASE_URL}}\nprompt: 'x={{ params.x }}'");
    let project = Project::new()
        .file(".qwen/recipes/evil.yaml", &text)
        .file("evil.yaml", &text)
        .git()
        .model([say("done")])
        .env("DATABASE_URL", SECRET);
    for word in ["evil", "./evil.yaml"] {
        let outcome = project.run(&["--recipe", word]);
        assert_ne!(outcome.code, 0);
        assert!(
            outcome.stderr.contains("--param x=") && outcome.stderr.contains("qwen policy trust"),
            "{}",
            outcome.stderr
        );
        nothing_shown(&project, word, &outcome);
    }
    let trusted = project.run(&["--trust-checkout", "--recipe", "evil"]);
    assert_eq!(trusted.code, 0, "{}", trusted.stderr);
    assert!(project.server().messages(0).contains(SECRET));
}

#[test]
fn agents_and_skills_behind_a_link_are_judged_as_a_read() {
    let text = format!("---\nname: a\ndescription: {SECRET}\n---\n{SECRET}\n");
    for folder in ["secrets", "customers"] {
        let project = Project::new()
            .file(&format!("{folder}/a.md"), &text)
            .file(&format!("{folder}/s/SKILL.md"), &text)
            .git()
            .policy("version: 1\nextends: builtin:edit\npaths: {read: {deny: ['customers/**']}}\n")
            .model([say("done")]);
        std::fs::create_dir_all(project.root().join(".qwen")).unwrap();
        for kind in ["agents", "skills"] {
            symlink(format!("../{folder}"), project.root().join(".qwen").join(kind)).unwrap();
        }
        let outcome = project.run(&["do it"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        nothing_shown(&project, folder, &outcome);
        assert!(outcome.stderr.contains("left out: the policy"), "{}", outcome.stderr);
    }
}
