//! Tests the cases of `fixtures/policies/`: calls with the expected decision, in a tree made for them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::check::run_calls;
use super::decision::Verdict;
use super::layers::{LayerText, Standing};
use super::{Facts, Policy};
use crate::workspace::disk::Disk;

pub(super) struct Fixture {
    _folder: tempfile::TempDir,
    pub(super) root: PathBuf,
    home: PathBuf,
    out: PathBuf,
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(super) fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let (root, home, out) = (base.join("ws"), base.join("home"), base.join("out"));
    put(&home, ".ssh/id_rsa", "k\n");
    put(&home, ".netrc", "n\n");
    put(&home, ".bashrc", "");
    put(&out, "data.txt", "d\n");
    for path in [
        "README.md",
        "Cargo.toml",
        "Makefile",
        "src/main.rs",
        "src/lib.rs",
        "src/old.rs",
        "src/a.rs",
        "src/x.rs",
        "src/utils/helpers.rs",
        "tests/it.rs",
        "docs/guide.md",
        "docs/list.txt",
        "docs/data.csv",
        "docs/with space.md",
        "config/settings.yml",
        "scripts/build.sh",
        "scripts/gen.py",
        ".env.example",
        ".gitignore",
        "QWEN.md",
        ".github/workflows/ci.yml",
        "build/pkg.tar",
        "-r",
        "docs/résumé.md",
    ] {
        put(&root, path, "x\n");
    }
    for path in ["build/out", "build/empty", "sub", "vendor/lib", "secrets"] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    for repository in ["", "vendor/lib/"] {
        for path in ["HEAD", "config", "description", "hooks/pre-commit.sample", "info/exclude"] {
            put(&root, &format!("{repository}.git/{path}"), "x\n");
        }
        for path in ["objects/pack", "refs/heads", "refs/tags"] {
            fs::create_dir_all(root.join(format!("{repository}.git/{path}"))).unwrap();
        }
    }
    put(&root, ".qwen/settings.json", "{}\n");
    put(&root, ".qwen/policy.yaml", "version: 1\n");
    put(&root, "package.json", "{\"scripts\":{}}\n");
    put(&root, ".env", "KEY=1\n");
    put(&root, "secrets/prod.key", "k\n");
    put(&root, "sub/.git", "gitdir: ../.git/modules/sub\n");
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
        symlink(target, root.join(link)).unwrap();
    }
    fs::hard_link(root.join(".env"), root.join("docs/env_hard")).unwrap();
    Fixture { _folder: folder, root, home, out }
}

/// The tree of the second set: projects of many ecosystems, with programs that they installed.
fn ecosystems() -> Fixture {
    let fixture = fixture();
    for path in [
        "go.mod",
        "pom.xml",
        "mvnw",
        "build.gradle",
        "gradlew",
        "tsconfig.json",
        "deno.json",
        "bun.lock",
        "pyproject.toml",
        "tox.ini",
        "noxfile.py",
        "Gemfile",
        "Rakefile",
        "composer.json",
        "CMakeLists.txt",
        "x.csproj",
        "mix.exs",
        "build.sbt",
        "Package.swift",
        "build.zig",
        "settings.yml",
        "secrets/token.txt",
        "secrets/settings.yml",
        "docs/evil.js",
        "node_modules/.bin/jest",
        "node_modules/.bin/eslint",
        "node_modules/.bin/prettier",
        "node_modules/.bin/tsc",
        "node_modules/.bin/playwright",
        "node_modules/.bin/vite",
        "node_modules/.bin/c8",
        "node_modules/.bin/nx",
        "node_modules/.bin/knip",
        "vendor/bin/phpunit",
    ] {
        put(&fixture.root, path, "x\n");
        let program = path.contains("bin/") || matches!(path, "mvnw" | "gradlew");
        if program {
            fs::set_permissions(fixture.root.join(path), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    fixture
}

/// Returns the calls of a file of cases.
pub(super) fn calls_of(fixture: &Fixture, file: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/policies");
    let text = fs::read_to_string(folder.join(file)).unwrap().replace("@WS@", fixture.root.to_str().unwrap());
    let case = |line: &str| {
        let mut case: Value = serde_json::from_str(line).unwrap();
        (case["tool"].as_str().unwrap().to_owned(), case["input"].take())
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(case).collect()
}

fn policies(folder: &Path) -> BTreeMap<String, Policy> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = LayerText {
                name: format!("{name}.yaml"),
                text: fs::read_to_string(&path).unwrap(),
                standing: Standing::Operator,
            };
            found.insert(name, Policy::new(&text, &[], &crate::policy::layers::no_parents).unwrap());
        }
    }
    for (name, _) in super::builtin::BUILTINS {
        found.insert(format!("builtin:{name}"), Policy::builtin(name).unwrap());
    }
    found
}

/// Runs the cases of a file in a tree; returns the name of each that is decided otherwise, and what was decided.
fn decided_otherwise(file: &str, fixture: &Fixture) -> (usize, Vec<(String, String)>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/policies");
    let mut policies = policies(&folder);
    if file == EVERYDAY {
        // As a run has it: the rules are cut to what the workspace uses.
        policies.values_mut().for_each(|policy| *policy = policy.clone().for_workspace(&Disk, &fixture.root));
    }
    let facts = Facts {
        root: fixture.root.clone(),
        included: Vec::new(),
        outputs: None,
        home: fixture.home.display().to_string(),
        tree: Arc::new(Disk),
        git: crate::policy::GitFacts::default(),
    };
    let text = fs::read_to_string(folder.join(file)).unwrap();
    let text = text
        .replace("@WS@", fixture.root.to_str().unwrap())
        .replace("@HOME@", fixture.home.to_str().unwrap())
        .replace("@OUT@", fixture.out.to_str().unwrap());
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let case: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let policy = policies.get(case["policy"].as_str().unwrap()).unwrap_or_else(|| panic!("no policy: {line}"));
        let answer = run_calls(policy, &facts, std::iter::once(line)).next().unwrap();
        count += 1;
        let decision = match answer.decision {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
        };
        if case["expect"] != decision {
            let shown = format!(
                "{} {} {}: {decision}, {:?} {}",
                case["id"], case["policy"], case["input"], answer.rule, answer.reason
            );
            wrong.push((case["id"].as_str().unwrap_or_default().to_owned(), shown));
        }
    }
    (count, wrong)
}

fn wrong(file: &str) -> (usize, Vec<String>) {
    let (count, wrong) = decided_otherwise(file, &fixture());
    (count, wrong.into_iter().map(|(_, shown)| shown).collect())
}

/// Cases of the second set that are not decided as stated yet. The list only gets shorter: one that is decided as
/// stated must leave it.
const EXPECTED_OPEN: &[&str] = &[];

#[test]
fn the_second_set_is_decided_as_stated() {
    let (count, wrong) = decided_otherwise("second.jsonl", &ecosystems());
    let new: Vec<&str> =
        wrong.iter().filter(|(id, _)| !EXPECTED_OPEN.contains(&id.as_str())).map(|(_, shown)| shown.as_str()).collect();
    let done: Vec<&&str> = EXPECTED_OPEN.iter().filter(|open| !wrong.iter().any(|(id, _)| id == **open)).collect();
    assert!(count >= 80 && new.is_empty(), "{} of {count} wrong:\n{}", new.len(), new.join("\n"));
    assert!(done.is_empty(), "decided as stated now, take them off the list: {done:?}");
}

/// What people type in the common ecosystems, and what is hostile in them, under `builtin:ci-dev`.
const EVERYDAY: &str = "everyday.jsonl";

#[test]
fn everyday_commands_run_and_hostile_ones_like_them_do_not() {
    let fixture = ecosystems();
    for path in [
        "MODULE.bazel",
        "dune-project",
        "meson.build",
        "spec/models/user_spec.rb",
        "packages/a/package.json",
        "src/main.ts",
        "main.tf",
        "chart/Chart.yaml",
        "manage.py",
    ] {
        put(&fixture.root, path, "x\n");
    }
    let (count, wrong) = decided_otherwise(EVERYDAY, &fixture);
    let wrong: Vec<&str> = wrong.iter().map(|(_, shown)| shown.as_str()).collect();
    assert!(count >= 800 && wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_sample_cases_are_decided_as_stated() {
    let (count, wrong) = wrong("cases.jsonl");
    assert!(count >= 150 && wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn our_own_cases_are_decided_as_stated() {
    let (count, wrong) = wrong("own.jsonl");
    assert!(count >= 300 && wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_audited_cases_are_decided_as_stated() {
    let (count, wrong) = wrong("audit.jsonl");
    assert!(count >= 500 && wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_cases_of_each_rule_are_decided_as_stated() {
    let (count, wrong) = wrong("rules.jsonl");
    assert!(count >= 1300 && wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn everyday_words_are_allowed_and_hidden_paths_are_not() {
    let (count, wrong) = decided_otherwise("words.jsonl", &ecosystems());
    let wrong: Vec<String> = wrong.into_iter().map(|(_, shown)| shown).collect();
    assert!(count >= 380 && wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

pub(super) fn facts(fixture: &Fixture) -> Facts {
    Facts {
        root: fixture.root.clone(),
        included: vec![fixture.out.clone()],
        outputs: None,
        home: fixture.home.display().to_string(),
        tree: Arc::new(Disk),
        git: crate::policy::GitFacts::default(),
    }
}

fn policy(yaml: &str) -> Policy {
    let text = format!("version: 1\n{yaml}");
    Policy::new(
        &LayerText { name: "p.yaml".to_owned(), text, standing: Standing::Operator },
        &[],
        &crate::policy::layers::no_parents,
    )
    .unwrap()
}

fn decide(policy: &Policy, fixture: &Fixture, tool: &str, argument: (&str, &str)) -> Verdict {
    let input = serde_json::json!({ argument.0: argument.1 });
    super::check::check_call(policy, &facts(fixture), tool, &input).verdict
}

#[test]
fn a_rule_of_an_unknown_program_lists_all_that_it_may_get() {
    let fixture = fixture();
    let policy = policy(
        "tools: {allow: [run_shell_command]}\npaths: {read: {allow: [\"**\"]}, write: {allow: [\"build/**\"]}}\nshell:\n  allow:\n    \
         - {cmd: [mytool], options: {allow: [--json, -v, -q], paths: {--out: write, -i: read}}, operands: read, max_args: 4}\n    \
         - {cmd: [gen, now], args: [[a, b]]}\n    - {cmd: [bare]}\n",
    );
    for (command, wanted) in [
        ("mytool --json README.md", Verdict::Allow),
        ("mytool -vq --out=build/x", Verdict::Allow),
        ("mytool --out build/x", Verdict::Allow),
        ("mytool -iREADME.md", Verdict::Allow),
        ("mytool -- --json", Verdict::Allow),
        ("mytool --out=src/x", Verdict::Deny),
        ("mytool --jso", Verdict::Deny),
        ("mytool -vx", Verdict::Deny),
        ("mytool .env", Verdict::Deny),
        ("mytool -i .env", Verdict::Deny),
        ("mytool a b c d e", Verdict::Deny),
        ("gen now a", Verdict::Allow),
        ("gen now c", Verdict::Deny),
        ("gen now a b", Verdict::Deny),
        ("gen now", Verdict::Deny),
        ("gen", Verdict::Deny),
        ("bare", Verdict::Allow),
        ("bare x", Verdict::Deny),
        ("bare -x", Verdict::Deny),
    ] {
        assert_eq!(decide(&policy, &fixture, "run_shell_command", ("command", command)), wanted, "{command}");
    }
}

#[test]
fn a_rule_of_a_file_lists_what_a_tool_of_ci_dev_may_get() {
    let fixture = fixture();
    let policy = policy(
        "tools: {allow: [run_shell_command]}\npaths: {read: {allow: [\"**\"]}}\nshell:\n  allow:\n    - {cmd: [terraform, plan]}\n    \
         - {cmd: [webpack], options: {allow: [--custom]}, operands: read}\n    - {cmd: [helm, lint]}\n",
    );
    for (command, wanted) in [
        ("terraform plan", Verdict::Allow),
        ("terraform plan -no-color", Verdict::Deny),
        ("webpack --custom src/a.js", Verdict::Allow),
        ("webpack --mode=production", Verdict::Deny),
        ("helm lint docs", Verdict::Deny),
    ] {
        assert_eq!(decide(&policy, &fixture, "run_shell_command", ("command", command)), wanted, "{command}");
    }
}

#[test]
fn a_formatter_keeps_what_a_package_says_of_programs() {
    let fixture = ecosystems();
    for (command, wanted) in [
        ("npx prettier --write package.json", Verdict::Allow),
        ("npx prettier -w package.json README.md && npx eslint src", Verdict::Allow),
        ("npm exec -- prettier --write package.json", Verdict::Allow),
        ("npx biome format --write package.json && npx eslint src", Verdict::Deny),
        ("taplo fmt pyproject.toml && uv run pytest", Verdict::Allow),
        ("bunx eslint --fix package.json", Verdict::Deny),
        ("npx prettier -w package.json && npx eslint --fix package.json", Verdict::Deny),
        ("ansible-lint --fix pyproject.toml && uv run pytest", Verdict::Deny),
        ("npx eslint -o package.json src", Verdict::Deny),
        ("npx prettier --write node_modules/.bin/prettier", Verdict::Deny),
        ("npx prettier --write '*.json' && npx eslint src", Verdict::Allow),
        ("npx eslint --fix './*.json' && npx prettier src", Verdict::Deny),
        ("npx eslint --fix '**/package.json' && npx prettier src", Verdict::Deny),
        ("npx eslint --fix --ext .js,.json . && npx prettier src", Verdict::Deny),
        ("npx eslint --fix --ext .js . && npx prettier src", Verdict::Allow),
        ("npx eslint --fix 'src/**/*.js' && npx prettier src", Verdict::Allow),
        ("npx playwright test --grep '@smoke|@fast'", Verdict::Allow),
        ("typos -w package.json && npx eslint src", Verdict::Deny),
        ("cp README.md package.json && npx eslint src", Verdict::Deny),
    ] {
        let policy = Policy::builtin("ci-dev").unwrap();
        assert_eq!(decide(&policy, &fixture, "run_shell_command", ("command", command)), wanted, "{command}");
    }
}

#[test]
fn a_layer_that_only_denies_sees_what_a_program_may_start() {
    let fixture = fixture();
    let layer = |text: &str| LayerText {
        name: "p.yaml".to_owned(),
        text: format!("version: 1\n{text}"),
        standing: Standing::Operator,
    };
    let grants = "tools: {allow: [run_shell_command]}\npaths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"]}}\n";
    let narrows = layer("shell: {deny: [{cmd: [evil]}]}\n");
    for (shell, command, wanted) in [
        ("{default: allow}", "gcc -wrapper evil src/a.c", Verdict::Deny),
        ("{default: allow}", "npm --script-shell=evil run x", Verdict::Deny),
        ("{default: allow}", "grep -n evil README.md", Verdict::Allow),
        ("{allow: [{cmd: [mytool], operands: data}]}", "mytool evil", Verdict::Allow),
    ] {
        let first = layer(&format!("{grants}shell: {shell}\n"));
        let policy = Policy::new(&first, std::slice::from_ref(&narrows), &crate::policy::layers::no_parents).unwrap();
        assert_eq!(decide(&policy, &fixture, "run_shell_command", ("command", command)), wanted, "{command}");
    }
}

#[test]
fn protection_is_lifted_path_by_path_and_never_from_git() {
    let fixture = fixture();
    let policy = policy(
        "tools: {allow: [read_file, write_file]}\npaths:\n  read: {allow: [\"**\"], deny: [\"docs/list*\"]}\n  \
         write: {allow: [\"**\"], deny: [\"src/a.rs\"], create: false}\n  \
         protected: {add: [\"config/**\"], remove: [QWEN.md, .env, \".git/**\", \".github/**\"]}\n",
    );
    for (tool, path, wanted) in [
        ("write_file", "QWEN.md", Verdict::Allow),
        ("write_file", ".github/workflows/ci.yml", Verdict::Allow),
        ("write_file", "qwen.md", Verdict::Deny),
        ("read_file", ".env", Verdict::Allow),
        ("read_file", "src/.env", Verdict::Deny),
        ("write_file", ".git/config", Verdict::Deny),
        ("read_file", ".git/config", Verdict::Deny),
        ("write_file", "config/settings.yml", Verdict::Deny),
        ("write_file", "SRC/A.rs", Verdict::Deny),
        ("write_file", "src/a.rs", Verdict::Deny),
        ("write_file", "src/main.rs", Verdict::Allow),
        ("write_file", "src/new.rs", Verdict::Deny),
        ("read_file", "docs/LIST.txt", Verdict::Deny),
        ("read_file", "docs/guide.md", Verdict::Allow),
    ] {
        assert_eq!(decide(&policy, &fixture, tool, ("file_path", path)), wanted, "{tool} {path}");
    }
    let included = fixture.out.join("data.txt");
    assert_eq!(decide(&policy, &fixture, "read_file", ("file_path", included.to_str().unwrap())), Verdict::Allow);
}

#[test]
fn a_failed_inline_test_is_named_with_its_line() {
    let fixture = fixture();
    let policy = policy(
        "tools: {allow: [run_shell_command]}\nshell: {allow: [{cmd: [ls]}]}\ntests:\n  - {allow: ls}\n  - {deny: ls}\n",
    );
    let error = super::check::require_tests(&policy, &facts(&fixture)).unwrap_err().to_string();
    assert!(error.starts_with("p.yaml:6: the test `ls` should be denied and is allowed"), "{error}");
}

#[test]
fn no_line_makes_the_check_panic() {
    let fixture = fixture();
    let policy = Policy::builtin("open").unwrap();
    let lines = [
        "{",
        "[]",
        "null",
        "1",
        "{}",
        "{\"tool\":1}",
        "{\"tool\":\"mcp\"}",
        "{\"tool\":\"edit\",\"input\":[]}",
        "{\"tool\":\"glob\",\"input\":{\"pattern\":[[]]}}",
    ];
    for answer in run_calls(&policy, &facts(&fixture), lines.into_iter()) {
        assert_eq!(answer.decision, Verdict::Deny);
    }
}

#[test]
fn the_builtin_policies_pass_their_own_tests() {
    let fixture = fixture();
    let facts = facts(&fixture);
    for (name, _) in super::builtin::BUILTINS {
        let policy = Policy::builtin(name).unwrap();
        assert_eq!(super::check::require_tests(&policy, &facts), Ok(()), "{name}");
    }
}

#[test]
fn an_address_behind_a_letter_of_any_script_is_found() {
    assert_eq!(
        super::check::urls_in("总结https://a.example/x（和http://b.example）。"),
        ["https://a.example/x（和http://b.example）。"]
    );
    assert_eq!(
        super::check::urls_in("见 ¡http://a.example, (https://b.example)"),
        ["http://a.example", "https://b.example"]
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in ".{0,60}", code in "[a-z/\\\\\\[\\]{}();\"'$@|>.:# \n]{0,40}") {
        for text in [&text, &code] {
            let _ = super::programs::sed::read(text);
            let _ = super::programs::awk::check(text, false);
            let _ = super::programs::jq::check(text);
            let _ = super::glob::fold(text);
            let _ = super::protected::braces(text);
            let _ = super::check::urls_in(text);
            let _ = super::glob::Glob::new(text);
            let policy = Policy::builtin("open").unwrap();
            let _ = policy.judge_url(&format!("https://{text}"), None);
            let _ = super::file::PolicyFile::parse("p", text);
        }
    }

    #[test]
    fn folding_twice_is_folding_once(text in "\\PC{0,20}") {
        let once = super::glob::fold(&text);
        proptest::prop_assert_eq!(super::glob::fold(&once), once);
    }
}
