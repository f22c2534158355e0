//! Tests the sample cases through the program itself: `qwen policy check --calls`, one process per policy.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::program;

// The tree that the cases speak of; as the script that came with them makes it.
fn tree(root: &Path, home: &Path, out: &Path) {
    let put = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(&home.join(".ssh/id_rsa"), "k\n");
    put(&home.join(".netrc"), "n\n");
    put(&home.join(".bashrc"), "");
    put(&out.join("data.txt"), "d\n");
    for folder in ["secrets", "build/out", "build/empty", "vendor/lib", "sub"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let files = "README.md Cargo.toml Makefile src/main.rs src/lib.rs src/old.rs src/a.rs src/x.rs src/utils/helpers.rs \
                 tests/it.rs docs/guide.md docs/list.txt docs/data.csv config/settings.yml scripts/build.sh scripts/gen.py \
                 .env.example .gitignore QWEN.md .github/workflows/ci.yml build/pkg.tar -r docs/résumé.md";
    for file in files.split_whitespace().chain(["docs/with space.md"]) {
        put(&root.join(file), "x\n");
    }
    put(&root.join(".qwen/settings.json"), "{}\n");
    put(&root.join(".qwen/policy.yaml"), "version: 1\n");
    put(&root.join("package.json"), "{\"scripts\":{}}\n");
    put(&root.join(".env"), "KEY=1\n");
    put(&root.join("secrets/prod.key"), "k\n");
    put(&root.join("sub/.git"), "gitdir: ../.git/modules/sub\n");
    for repository in [root.to_owned(), root.join("vendor/lib")] {
        let made = Command::new("git").args(["init", "-q", "-b", "main"]).arg(&repository).status().unwrap();
        assert!(made.success());
    }
    for (target, link) in [
        (out.to_str().unwrap(), "link_out"),
        ("/etc/passwd", "link_passwd"),
        ("src", "link_src"),
        (".git", "link_git"),
        (".env", "link_env"),
        ("..", "docs/up"),
        (out.join("newfile").to_str().unwrap(), "dangling"),
        ("loop", "src/loop"),
        ("../README.md", "docs/readme_link"),
    ] {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    fs::hard_link(root.join(".env"), root.join("docs/env_hard")).unwrap();
}

#[test]
fn the_program_decides_the_sample_cases_as_stated() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let (root, home, out) = (base.join("ws"), base.join("home"), base.join("out"));
    tree(&root, &home, &out);
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/policies");
    let text = fs::read_to_string(policies.join("cases.jsonl")).unwrap();
    let text = text
        .replace("@WS@", root.to_str().unwrap())
        .replace("@HOME@", home.to_str().unwrap())
        .replace("@OUT@", out.to_str().unwrap());
    let mut calls: BTreeMap<String, Vec<(&str, Value)>> = BTreeMap::new();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        calls.entry(case["policy"].as_str().unwrap().to_owned()).or_default().push((line, case));
    }
    let mut wrong = Vec::new();
    for (policy, cases) in &calls {
        let file = base.join(format!("{policy}.jsonl"));
        let lines: Vec<&str> = cases.iter().map(|(line, _)| *line).collect();
        fs::write(&file, lines.join("\n")).unwrap();
        let output = Command::new(program())
            .args(["policy", "check", "--calls"])
            .arg(&file)
            .arg("--policy")
            .arg(policies.join(format!("{policy}.yaml")))
            .arg("-C")
            .arg(&root)
            .env_clear()
            .env("HOME", &home)
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap();
        let answers: Vec<Value> =
            String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), cases.len(), "{policy}: {}", String::from_utf8_lossy(&output.stderr));
        let denied = cases.iter().any(|(_, case)| case["expect"] == "deny");
        assert_eq!(output.status.code(), Some(if denied { 60 } else { 0 }), "{policy}");
        for (answer, (line, case)) in answers.iter().zip(cases) {
            if answer["id"] != case["id"] || answer["decision"] != case["expect"] {
                wrong.push(format!("{line}\n  {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
