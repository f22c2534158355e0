//! Tests what allowed git commands print, with the real git in a repository whose history holds secrets.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::git::repository::Repository;
use crate::policy::access::Access;
use crate::policy::decision::Decision;
use crate::policy::grant::{Grant, Start};
use crate::policy::layers::{LayerText, Standing};
use crate::policy::{Facts, Policy};
use crate::run::rules::facts::git_facts;
use crate::workspace::disk::Disk;

pub(super) const SETUP: &str = "
git init -q -b main . && git config user.email a@b && git config user.name a
mkdir -p secrets private customers src docs
printf 'KEY=topsecret1\\nB\\nC\\nD\\nE\\nF\\nG\\n' > .env; echo topsecret > secrets/token.txt; echo topsecret > private/a.txt
echo topsecret > customers/b.md; echo readme > README.md; echo 'fn main() {}' > src/main.rs; echo guide > docs/guide.md
git add -A; git commit -qm one; git tag v1
sed -i s/topsecret1/topsecret2/ .env; echo more >> README.md; git commit -qam two
git mv .env conf.txt; sed -i s/topsecret2/public/ conf.txt; git commit -qam three
git mv conf.txt docs/conf.md; git commit -qam four
git mv secrets/token.txt docs/token.md; echo public > docs/token.md; git commit -qam five
git checkout -q -b side HEAD~2; echo topsecret3 > side.key; echo side >> README.md; git add -A; git commit -qm side
git checkout -q main; echo main >> src/main.rs; git commit -qam six; git merge -q -m merge side
echo topsecret4 > .env; echo more >> README.md; git add -A; git stash -q; echo more >> src/main.rs; git add -A
";

pub(super) fn sh(directory: &Path, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-c", script]).current_dir(directory).env("HOME", directory);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_PAGER", "cat").stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(super) fn policy(text: &str) -> Policy {
    let text = format!("version: 1\ntools: {{allow: [run_shell_command]}}\n{text}");
    let layer = LayerText { name: "p.yaml".to_owned(), text, standing: Standing::Operator };
    Policy::new(&layer, &[], &crate::policy::layers::no_parents).unwrap()
}

pub(super) fn decided(policy: &Policy, root: &Path, command: &str) -> (Decision, Option<Grant>) {
    let facts = Facts {
        root: root.to_path_buf(),
        included: Vec::new(),
        outputs: None,
        home: "/nowhere".to_owned(),
        tree: Arc::new(Disk),
        git: Repository::discover(root).unwrap().map(|found| git_facts(&found)).unwrap_or_default(),
    };
    let access = Access::Run { command: command.to_owned(), directory: None };
    policy.authorize("run_shell_command", &[access], &facts)
}

/// The printed form of an allowed command.
pub(super) fn printed(policy: &Policy, root: &Path, command: &str) -> Option<String> {
    let grant = decided(policy, root, command).1;
    let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    Some(match &grant?.command()?.start {
        Start::Pipeline(commands) => {
            let one = |words: &Vec<String>| words.iter().map(quoted).collect::<Vec<_>>().join(" ");
            commands.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
        Start::Script(text) | Start::AsWritten(text) => text.clone(),
    })
}

const SUBCOMMANDS: [&str; 25] = [
    "log",
    "log -p",
    "log -2 -p",
    "log --all -p",
    "log -g -p",
    "show HEAD",
    "show HEAD~3",
    "show v1",
    "show side",
    "show",
    "show HEAD~4:README.md HEAD~4",
    "diff",
    "diff HEAD",
    "diff HEAD~5",
    "diff v1 main",
    "diff --cached",
    "diff v1...side",
    "diff-tree -p HEAD~3",
    "diff-index -p HEAD~5",
    "whatchanged -p",
    "range-diff v1..HEAD~4 v1..HEAD~3",
    "reflog -p",
    "format-patch --stdout v1",
    "grep -h topsecret v1",
    "grep -e topsecret --all-match HEAD~4",
];
const OPTIONS: [&str; 30] = [
    "",
    "-p",
    "-U9",
    "--cc",
    "-c",
    "-m",
    "--dd",
    "--full-diff",
    "-S topsecret -p",
    "-G topsecret -p",
    "--follow",
    "--raw",
    "--stat",
    "--check",
    "--word-diff",
    "--color-words",
    "--remerge-diff",
    "--diff-merges=first-parent",
    "-W",
    "-M -C --find-copies-harder",
    "--binary",
    "-R",
    "--no-renames",
    "--submodule=diff",
    "--relative",
    "--root",
    "--reverse -p",
    "--first-parent -p",
    "--patch-with-stat",
    "--literal-pathspecs",
];
const PATHS: [&str; 9] = [
    "",
    "-- README.md",
    "-- docs",
    "-- docs/conf.md",
    "-- '*.md'",
    "README.md",
    "-- :/docs",
    "-- ':(exclude)docs'",
    "-- .",
];

const OTHERS: [&str; 47] = [
    "git log -L1,3:docs/conf.md",
    "git log -L1,3:docs/conf.md -p",
    "git show -L1,3:docs/conf.md HEAD~2",
    "git log -L1,1:docs/token.md",
    "git log -p --follow -- docs/conf.md",
    "git log -p --follow docs/token.md",
    "git blame docs/conf.md",
    "git blame v1 -- .env",
    "git show v1:.env",
    "git show v1:secrets/token.txt",
    "git show v1:./.env",
    "git show :.env",
    "git show v1:secrets",
    "git diff v1:secrets v1:src",
    "git grep topsecret v1:secrets",
    "git grep topsecret v1:private",
    "git grep topsecret stash",
    "git cat-file -p v1:.env",
    "git cat-file blob v1:private/a.txt",
    "git archive v1",
    "git archive --format=tar v1 .",
    "git archive v1:secrets",
    "git archive v1 secrets",
    "git stash show -p",
    "git stash list -p",
    "git stash show --patch-with-stat",
    "git show stash",
    "git show --indexed-objects",
    "git merge-tree v1 HEAD~4 side",
    "git merge-tree --trivial-merge v1 HEAD~4 side",
    "git fast-export --all",
    "git status -v",
    "git status -vv",
    "git -C docs log -p",
    "git -C docs show v1",
    "git -C src diff v1",
    "git rev-list --objects --all",
    "git cat-file --batch-all-objects --batch",
    "git bundle create - --all",
    "echo v1:.env | git cat-file --batch",
    "echo HEAD~5 | git log -p --stdin",
    "git diff --no-index /dev/null .env",
    "git reflog -p",
    "git reflog show -p HEAD",
    "git shortlog -p",
    "git format-patch --stdout --root HEAD",
    "git log -p -- .env",
];

fn leaks(policies: &[(&str, Policy)], commands: &[String]) -> (usize, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    sh(&root, SETUP);
    let ids = sh(&root, "git rev-parse v1:.env v1:secrets v1:secrets/token.txt side:side.key v1:private");
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), 5, "{ids:?}");
    let mut commands = commands.to_vec();
    for id in ids {
        for form in [
            id,
            &id[..7],
            &format!("x-1-g{}", &id[..7]),
            &format!("{id}^{{}}"),
            &format!("{id}:token.txt"),
            &format!("{id}:a.txt"),
        ] {
            for command in [
                "show",
                "show --stat",
                "cat-file -p",
                "grep topsecret",
                "diff v1",
                "archive",
                "log -p",
                "diff-tree -p v1",
            ] {
                commands.push(format!("git {command} '{form}'"));
            }
            commands.push(format!("git diff {form}..{form}"));
            commands.push(format!("git diff v1:README.md {form}"));
            commands.push(format!("git tag t {form} && git show t"));
        }
    }
    let mut allowed = 0;
    let mut wrong = Vec::new();
    let mut known = std::collections::HashMap::new();
    for (name, policy) in policies {
        for command in &commands {
            let Some(text) = printed(policy, &root, command) else { continue };
            allowed += 1;
            let output = known.entry(text.clone()).or_insert_with(|| sh(&root, &text));
            if output.contains("topsecret") {
                wrong.push(format!("{name}: {command}\n    {text}"));
            }
        }
    }
    (allowed, wrong)
}

#[test]
fn no_allowed_command_prints_committed_files_that_may_not_be_read() {
    let denied = "paths: {read: {allow: ['**'], deny: ['{private,customers}/**']}}\n";
    let rule = "shell: {allow: [{cmd: [git]}, {cmd: [echo]}]}\n";
    let policies = [
        ("rules", policy(&format!("{denied}{rule}"))),
        ("open", policy(&format!("{denied}shell: {{default: allow}}\n"))),
        ("kept", policy(&format!("paths: {{read: {{allow: ['docs/**', '*.md', 'src/**']}}}}\n{rule}"))),
    ];
    let mut commands: Vec<String> = OTHERS.iter().map(|text| (*text).to_owned()).collect();
    let mut number = 0usize;
    for subcommand in SUBCOMMANDS {
        for option in OPTIONS {
            for paths in PATHS {
                number += 1;
                // Each option and each kind of path meets each subcommand; not every three of them.
                if !number.is_multiple_of(60) && !option.is_empty() && !paths.is_empty() {
                    continue;
                }
                let (first, rest) = subcommand.split_once(' ').unwrap_or((subcommand, ""));
                commands.push(match option {
                    "--literal-pathspecs" => format!("git {option} {subcommand} {paths}"),
                    _ => format!("git {first} {option} {rest} {paths}"),
                });
            }
        }
    }
    let (allowed, wrong) = leaks(&policies, &commands);
    assert!(wrong.is_empty(), "{} of {allowed} print secrets:\n{}", wrong.len(), wrong.join("\n"));
    assert!(allowed > 700, "only {allowed} were allowed: the test shows little");
}

#[test]
fn a_workspace_below_the_top_of_its_repository_shows_its_own_files_alone() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    sh(
        &root,
        "git init -q . && git config user.email a@b && git config user.name a; mkdir -p sub/secrets; echo topsecret > a; \
        echo topsecret > sub/secrets/b; echo public > sub/c; git add -A; git commit -qm one",
    );
    let policy = policy("paths: {read: {allow: ['**']}}\nshell: {allow: [{cmd: [git]}]}\n");
    for command in [
        "git log -p",
        "git show HEAD",
        "git grep -e e HEAD",
        "git show HEAD:a",
        "git show HEAD:sub/secrets/b",
        "git show HEAD:sub/c",
    ] {
        let output = printed(&policy, &root.join("sub"), command).map(|text| sh(&root.join("sub"), &text));
        assert!(!output.as_ref().is_some_and(|output| output.contains("topsecret")), "{command}: {output:?}");
        if !command.contains(":a") && !command.contains("secrets") && !command.contains("grep") {
            assert!(output.as_ref().is_some_and(|output| output.contains("public")), "{command}: {output:?}");
        }
    }
}

#[test]
fn a_commit_named_by_its_id_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    sh(&root, SETUP);
    let id = sh(&root, "git rev-parse HEAD~3").trim().to_owned();
    let policy = policy("paths: {read: {allow: ['**']}}\nshell: {allow: [{cmd: [git]}]}\n");
    for form in [id.clone(), id[..8].to_owned(), format!("{}^", &id[..8]), format!("{}:README.md", &id[..8])] {
        let text = printed(&policy, &root, &format!("git show '{form}'")).unwrap_or_else(|| panic!("{form} is denied"));
        let output = sh(&root, &text);
        assert!(!output.contains("fatal") && !output.is_empty(), "{form}: {output}");
    }
    assert_eq!(printed(&policy, &root, "git show 1234567890abcdef"), None);
}

#[test]
fn the_whole_tree_as_a_pathspec_is_not_the_directory_of_git() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    sh(&root, "git init -q && echo x > a && git add a && git -c user.name=a -c user.email=a@b commit -qm x");
    let policy = policy("paths: {read: {allow: [\"**\"]}}\nshell: {allow: [{cmd: [git, [diff, grep, log]]}]}\n");
    for command in ["git diff -- .", "git grep x -- .", "git log -p -- .", "git diff -- '*'"] {
        assert!(printed(&policy, &root, command).is_some(), "{command}");
    }
    for command in ["git diff -- .git", "git grep x -- .git/config"] {
        assert_eq!(printed(&policy, &root, command), None, "{command}");
    }
}

/// A base commit with files that may not be read, which a later one replaces by links to others.
const LINKED: &str = "
git init -q -b main . && git config user.email a@b && git config user.name a
mkdir -p secrets docs src; echo topsecret > .env; echo topsecret > secrets/token.txt; echo readme > README.md
echo public > docs/env.txt; echo public > docs/token.txt; echo x > src/x.rs; git add -A; git commit -qm base
git rm -rq .env secrets; ln -s docs/env.txt .env; ln -s docs secrets; git add -A; git commit -qm linked
printf '%s\\n' 'diff --git a/.env b/docs/pub.txt' 'similarity index 100%' 'copy from .env' 'copy to docs/pub.txt' > docs/evil.patch
printf '%s\\n' 'diff --git a/README.md b/README.md' '--- a/README.md' '+++ b/README.md' '@@ -1 +1 @@' '-readme' '+more' > docs/good.patch
";

fn open() -> Policy {
    policy("paths: {read: {allow: ['**']}, write: {allow: ['**'], symlinks: true}}\nshell: {default: allow}\n")
}

#[test]
fn a_denied_name_of_a_commit_is_denied_whatever_link_has_it_now() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    sh(&root, LINKED);
    for command in [
        "git show HEAD~1:.env",
        "git show HEAD~1:./.env",
        "git show HEAD~1:secrets/token.txt",
        "git blame HEAD~1 -- .env",
        "git blame HEAD~1 -- secrets/token.txt",
        "git log -L1,1:secrets/token.txt HEAD~1",
        "git log -p HEAD~1 -L1,1:.env",
        "git diff HEAD~1:.env HEAD:README.md",
        "git grep TOP HEAD~1:secrets/token.txt",
        "git rev-parse HEAD~1:.env",
        "git ls-files -s .env",
        "git ls-tree HEAD~1 .env",
        "git ls-tree HEAD~1:secrets",
        "git cat-file -p HEAD~1:.env",
        "git archive HEAD~1 secrets",
        "git log -p -- secrets",
        "git mv secrets/token.txt docs/x",
        "cd docs && git show HEAD~1:../.env",
    ] {
        assert_eq!(printed(&open(), &root, command), None, "{command}");
    }
    for command in ["git show HEAD~1:README.md", "git blame README.md", "git log -L1,1:docs/env.txt"] {
        assert!(printed(&open(), &root, command).is_some(), "{command}");
    }
}

#[test]
fn no_denied_file_of_a_commit_comes_back_into_the_tree() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    sh(&root, LINKED);
    for command in [
        "git reset -q --hard HEAD",
        "git reset --har",
        "git reset --merge",
        "git stash -q",
        "git stash push -m x",
        "git stash pop",
        "git checkout HEAD~1",
        "git checkout -f",
        "git checkout -f -b x",
        "git checkout main --",
        "git checkout HEAD~1 -- .",
        "git checkout -- '*'",
        "git switch main",
        "git switch -c x HEAD~1",
        "git restore .",
        "git restore -s HEAD~1 secrets",
        "git merge HEAD~1",
        "git pull",
        "git rebase HEAD~1",
        "git revert HEAD",
        "git cherry-pick HEAD~1",
        "git am docs/good.patch",
        "git bisect reset",
        "git sparse-checkout disable",
        "git apply --cached docs/good.patch",
        "git apply -3 docs/good.patch",
        "git apply < docs/good.patch",
        "git apply docs/evil.patch",
        "git rev-list --objects --all",
        "git rev-list --verify-objects --all",
        "echo HEAD | git rev-list --objects --stdin",
        "git rev-parse 'HEAD:.env^!'",
        "git ls-tree -r HEAD",
        "git blame -C README.md",
        "git blame -C -C -C1 README.md",
        "git merge-tree --write-tree HEAD~1 HEAD",
    ] {
        assert_eq!(printed(&open(), &root, command), None, "{command}");
    }
    for command in [
        "git checkout -b x",
        "git switch -c x",
        "git checkout README.md",
        "git checkout HEAD~1 -- README.md src",
        "git restore docs",
        "git restore --staged README.md",
        "git reset HEAD~1",
        "git stash list",
        "git apply docs/good.patch",
        "git ls-tree -r --name-only HEAD",
        "git rev-list --all",
    ] {
        assert!(printed(&open(), &root, command).is_some(), "{command}");
    }
    let status = printed(&open(), &root, "git reset -q HEAD~1").map(|text| sh(&root, &text));
    assert!(status.is_some());
    let status = printed(&open(), &root, "git status --porcelain=v2").map(|text| sh(&root, &text)).unwrap();
    assert!(!status.contains(".env") && !status.contains("token"), "{status}");
}

#[test]
fn where_commits_hold_nothing_denied_git_may_write_the_tree() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    sh(
        &root,
        "git init -q -b main . && git config user.email a@b && git config user.name a; echo readme > README.md; git add -A
        git commit -qm one; echo more >> README.md; git commit -qam two; echo topsecret > .env
        printf '%s\\n' 'diff --git a/.env b/pub.txt' 'similarity index 100%' 'copy from .env' 'copy to pub.txt' > evil.patch",
    );
    for command in
        ["git stash", "git reset --hard", "git checkout HEAD~1", "git rebase main", "git pull", "git revert HEAD"]
    {
        assert!(printed(&open(), &root, command).is_some(), "{command}");
    }
    assert_eq!(printed(&open(), &root, "git apply --index evil.patch"), None);
}

/// Where a commit holds a denied file, neither its id nor its contents are shown through a tree or a reference.
#[test]
fn trees_and_references_show_no_denied_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    sh(&root, SETUP);
    sh(
        &root,
        "git tag hidden HEAD~2:private/a.txt; git tag kept HEAD~2:private; git tag -a -m x deep hidden; git pack-refs --all",
    );
    sh(&root, "git tag loose HEAD~2:private/a.txt");
    let policy = policy(
        "paths: {read: {allow: [\"**\"], deny: [\"private/**\"]}, write: {allow: [\"**\"]}}\nshell: {default: allow}\n",
    );
    for command in [
        "git cat-file -p HEAD^{tree}",
        "git cat-file -p HEAD:",
        "git cat-file -p HEAD:docs",
        "git cat-file -p HEAD:README.md", // A directory once, perhaps.
        "git cat-file tree HEAD",
        "git cat-file -p hidden",
        "git cat-file blob tags/hidden",
        "git cat-file -p refs/tags/loose",
        "git show hidden",
        "git show loose",
        "git show deep",
        "git show --tags",
        "git archive kept",
        "git restore -s kept a.txt",
        "git grep topsecret kept",
        "git diff kept HEAD:docs",
        "git show-ref",
        "git show-ref --tags",
        "git for-each-ref",
        "git for-each-ref --format='%(objectname:short)'",
        "git tag -l --format='%(objectname)'",
        "git rev-parse --all",
        "git rev-parse --tags",
    ] {
        assert_eq!(printed(&policy, &root, command), None, "{command}");
    }
    for command in [
        "git cat-file -p HEAD",
        "git cat-file -t hidden",
        "git show v1",
        "git for-each-ref --format='%(refname)'",
        "git rev-parse --symbolic --tags",
        "git tag -l",
    ] {
        assert!(printed(&policy, &root, command).is_some(), "{command}");
    }
}

/// Git's errors and listings tell the whole id of a file that an abbreviation names, in whatever form.
#[test]
fn an_abbreviated_id_of_a_file_is_refused_and_that_of_a_commit_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    sh(&root, SETUP);
    let short = |revision: &str| sh(&root, &format!("git rev-parse --short=7 {revision}")).trim().to_owned();
    let (file, commit) = (short("HEAD~2:private/a.txt"), short("HEAD~1"));
    let policy = policy("paths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"]}}\nshell: {default: allow}\n");
    for command in [
        "git rev-parse ID",
        "git rev-parse ID^",
        "git rev-parse x-gID",
        "git rev-parse ID^{commit}",
        "git log ID~1",
        "git log --oneline HEAD..ID^0",
        "git show ID~2",
        "git shortlog ID^",
        "git rev-list ID^",
        "git blame ID^ -- README.md",
        "git ls-tree --name-only ID",
        "git merge-base ID HEAD",
        "git branch --contains ID",
        "git for-each-ref --contains=ID",
        "git for-each-ref '--format=%(ahead-behind:ID)'",
        "git log --ancestry-path=ID HEAD~1..HEAD",
        "git rev-parse --default ID",
        "git commit -m x --fixup ID",
        "git describe ID",
    ] {
        let of = |id: &str| printed(&policy, &root, &command.replace("ID", id));
        assert_eq!(of(&file), None, "{command}");
        let is_commit = of(&commit).is_some();
        assert!(is_commit, "{command}");
    }
    // No reference names a file.
    for command in ["git show-ref", "git for-each-ref", "git rev-parse --all"] {
        assert!(printed(&policy, &root, command).is_some(), "{command}");
    }
}

#[test]
fn a_stash_is_listed_without_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    sh(&root, SETUP);
    let policy = policy("paths: {read: {allow: [\"**\"]}}\nshell: {allow: [{cmd: [git, stash, list]}]}\n");
    let shown = sh(&root, &printed(&policy, &root, "git stash list --stat").unwrap());
    assert!(shown.contains("stash@{0}") && shown.contains("README.md"), "{shown}");
    for option in ["-p", "-u", "-S topsecret", "-G topsecret", "--patch-with-stat", "-L1,1:.env"] {
        assert_eq!(printed(&policy, &root, &format!("git stash list {option}")), None, "{option}");
    }
}

#[test]
fn the_hint_for_a_short_exclusion_is_a_command_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    sh(&root, "git init -q -b main .; mkdir src; touch src/a; git add .");
    let policy = policy("paths: {read: {allow: ['**']}, write: {allow: ['**']}}\nshell: {default: allow}\n");
    for command in ["git restore --", "git clean -n --", "git checkout --", "git stash push --", "git reset --"] {
        for short in [":!src/a", ":^src/a", ":!**/*.lock"] {
            let decision = decided(&policy, &root, &format!("{command} '{short}'")).0;
            let hint = decision.hint.unwrap_or_default();
            let words = hint.strip_prefix("write `").and_then(|rest| rest.strip_suffix('`')).unwrap_or_default();
            assert_eq!(words, format!("':(exclude){}'", &short[2..]), "{command} {hint}");
            assert!(printed(&policy, &root, &format!("{command} {words}")).is_some(), "{command} {words}");
        }
        for other in [":!", ":!/src", ":!!src", ":^(top)src"] {
            let decision = decided(&policy, &root, &format!("{command} '{other}'")).0;
            assert!(!decision.is_allowed() && decision.hint.is_none(), "{command} {other}: {decision:?}");
        }
    }
}

#[test]
fn the_state_of_submodules_is_shown_unless_git_would_work_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    sh(&root, "git init -q -b main .; touch a; git add .");
    let policy = policy("shell: {allow: [{cmd: [git, submodule, status]}]}\n");
    assert!(decided(&policy, &root, "git submodule status --cached").0.is_allowed());
    std::fs::create_dir_all(root.join(".git/modules/sub")).unwrap();
    let decision = decided(&policy, &root, "git submodule status").0;
    assert_eq!(decision.rule.map(|rule| rule.rule).as_deref(), Some("G11"), "{}", decision.reason);
}
