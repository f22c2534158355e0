//! Tests that no way to name a committed file goes past the rules on paths, with the real git.

use super::tests::{SETUP, decided, policy, printed, sh};

/// What is a file today was a directory in a commit; a message has a brace, as a path may.
const MORE: &str = "
mkdir -p 'secrets/x:q'; echo topsecret > 'secrets/launch.txt'; mkdir -p a}; echo public > a}/x; git add -Af .
git commit -qm 'fix: braces'
git rm -qr --cached private customers; rm -r private customers; echo now > private; echo now > customers; git add -A; git commit -qm gone
";

#[test]
fn each_way_to_name_a_committed_file_is_judged_by_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    sh(&root, &format!("{SETUP}{MORE}"));
    let policy = policy(
        "paths: {read: {allow: ['**'], deny: [.env, 'secrets/**', 'private/**', 'customers/**']}}\nshell: {allow: [{cmd: [git]}, {cmd: [git, stash]}]}\n",
    );
    for command in [
        "git show 'v1^{/one}:./a}/../.env'",
        "git show ':/two..v1:.env'",
        "git cat-file -p 'v1^{/one}:.env'",
        "git grep -h topsecret 'v1^{/one}:secrets'",
        "git diff 'v1^{/one}:docs' 'v1^{/one}:secrets'",
        "git grep -h topsecret v1:private",
        "git diff v1:docs v1:customers",
        "git log -L '1,1:secrets/x:q/../token.txt' v1",
        "git log -C -C -L 1,1:conf.txt HEAD~6",
        "git log --find-copies-harder -L 1,1:conf.txt HEAD~6",
        "git log -M -L 1,1:docs/token.md",
        // What git reads in another role than the tables: a value that is optional, or none.
        "git show -U v1:.env",
        "git show -wU v1:.env",
        "git show --unified v1:.env",
        "git log -p -U --full-diff v1 -- README.md",
        "git blame --abbrev .env v1",
        "git rev-parse --since v1:.env",
        "git --literal-pathspecs show --grep --literal-pathspecs --author v1:.env",
        "git grep -h -- topsecret v1:.env",
        "git grep -h ( -e topsecret ) v1 -- .env",
        "git cat-file -p -- v1:.env",
        "git cat-file blob -- v1:.env",
        "git stash show --oneline",
        "git stash show --",
    ] {
        let shown = printed(&policy, &root, command).map(|text| sh(&root, &text)).unwrap_or_default();
        assert!(!shown.contains("topsecret"), "{command}: {shown}");
    }
    for command in [
        "git show v1:README.md",
        "git cat-file -p HEAD:README.md",
        "git show 'HEAD^{/fix: braces}'",
        "git diff HEAD:README.md v1:README.md",
        "git grep -h main v1:src/main.rs",
        "git log -L 1,1:README.md",
        "git log -L '/read:me/,+1:README.md'",
        "git show 'HEAD^{/one}:README.md'",
        "git log -n 2 --author a --since 2020-01-01 --format %h",
        "git grep -n -A 1 -e readme -- README.md",
        "git blame -L 1,1 README.md",
        "git stash show",
        "git stash show --stat",
    ] {
        assert!(printed(&policy, &root, command).is_some(), "{command} is denied");
    }
    let shown = sh(&root, "git grep -h topsecret 'v1^{/one}:secrets'; git grep -h topsecret v1:private");
    assert_eq!(shown.matches("topsecret").count(), 2, "git itself shows them: {shown}");
}

#[test]
fn blame_shows_no_file_that_is_gone_and_may_not_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    sh(
        &root,
        "git init -q . && git config user.email a@b && git config user.name a; mkdir private src; echo x > private/x.txt; \
         echo y > src/y; git add -A; git commit -qm one; git rm -q private/x.txt; git commit -qm two",
    );
    let policy = policy("paths: {read: {allow: ['src/**']}}\nshell: {allow: [{cmd: [git, blame]}]}\n");
    for command in [
        "git blame HEAD~1 private/x.txt",
        "git blame private/x.txt HEAD~1",
        "git blame --reverse HEAD~1..HEAD private/x.txt",
        "git blame HEAD~1 ./private/x.txt",
    ] {
        assert!(!decided(&policy, &root, command).0.is_allowed(), "{command}");
    }
    assert!(decided(&policy, &root, "git blame HEAD~1 src/y").0.is_allowed());
}
