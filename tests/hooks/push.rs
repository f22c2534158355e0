//! Tests what a push is stopped by and reviewed for.

use super::*;

#[test]
fn a_push_is_looked_at_by_what_the_remote_does_not_have() {
    let nothing = || vec![nothing(); 8];
    let project = project(&["--pre-push"], nothing());
    let remote = project.beside("remote.git").display().to_string();
    must(&project, &["init", "-q", "--bare", "-b", "main", &remote]);
    must(&project, &["remote", "add", "origin", &remote]);
    let commit = |text: &str| {
        write(&project, "a.py", text);
        must(&project, &["commit", "-q", "-a", "-m", text.trim()]);
    };
    must(&project, &["push", "-q", "origin", "main"]);
    assert_eq!(requests(&project), 0, "nothing is new since the root");
    must(&project, &["remote", "set-head", "origin", "main"]);
    commit("second = 2\n");
    must(&project, &["push", "-q", "origin", "main"]);
    assert!(project.server().messages(0).contains("+second = 2"));

    // A new remote branch: since it left the default branch. It is not checked out while it is pushed.
    must(&project, &["checkout", "-q", "-b", "topic"]);
    commit("topic = 3\n");
    must(&project, &["checkout", "-q", "main"]);
    must(&project, &["push", "-q", "origin", "topic"]);
    let said_of_topic = project.server().messages(1);
    assert!(said_of_topic.contains("+topic = 3") && !said_of_topic.contains("+second = 2"), "{said_of_topic}");
    // The same commits under another name: the answer is known.
    must(&project, &["push", "-q", "origin", "topic:again"]);
    must(&project, &["push", "-q", "origin", ":again"]);
    assert_eq!(requests(&project), 2);
    // Forced.
    must(&project, &["checkout", "-q", "topic"]);
    write(&project, "a.py", "forced = 4\n");
    must(&project, &["commit", "-q", "-a", "--amend", "-m", "forced"]);
    must(&project, &["push", "-q", "--force", "origin", "topic"]);
    let forced = project.server().messages(2);
    assert!(forced.contains("+forced = 4") && !forced.contains("topic = 3"), "{forced}");
    must(&project, &["push", "-q", "origin", "topic"]);
    assert_eq!(requests(&project), 3);
}

#[test]
fn a_push_with_a_secret_in_any_of_its_commits_is_stopped_without_a_model() {
    let project = project(&["--pre-push"], vec![nothing(); 12]);
    let remote = project.beside("remote.git").display().to_string();
    must(&project, &["init", "-q", "--bare", "-b", "main", &remote]);
    must(&project, &["remote", "add", "origin", &remote]);
    let token = format!("token = \"ghp_{}\"\n", "0123456789abcdefABCDEF0123456789abcd");
    let commit = |path: &str, text: &str| {
        write(&project, path, text);
        must(&project, &["add", "."]);
        must(&project, &["commit", "-q", "-m", path]);
    };
    let push = |variables: &[(&str, &str)], words: &[&str]| {
        let words = [&["push", "-q", "origin"], words].concat();
        git_in(&project, &project.root(), variables, &words)
    };
    // A root commit has nothing before it, and is searched.
    must(&project, &["checkout", "-q", "--orphan", "first"]);
    commit("key.py", &token);
    let stopped = push(&[], &["first"]);
    assert!(!stopped.ok && stopped.text.contains("key.py:1: [qwen/secret]"), "{}", stopped.text);
    must(&project, &["checkout", "-q", "main"]);
    must(&project, &["push", "-q", "origin", "main"]);
    must(&project, &["remote", "set-head", "origin", "main"]);
    // What the next commit removes is in the history; so is a file for secrets.
    must(&project, &["checkout", "-q", "-b", "topic"]);
    commit("key.py", &token);
    must(&project, &["rm", "-q", "key.py"]);
    commit("other.py", "other = 1\n");
    for variables in [&[][..], &[("QWEN_HOOK", "local")], &[("OPENAI_API_KEY", "")]] {
        let stopped = push(variables, &["topic"]);
        assert!(!stopped.ok && stopped.text.contains("(in commit "), "{}", stopped.text);
        assert!(stopped.text.contains("QWEN_HOOK=0 git push"), "{}", stopped.text);
    }
    assert!(push(&[("QWEN_HOOK", "advise")], &["topic:advised"]).ok);
    assert_eq!(requests(&project), 0);
    // Of a merge, what neither side has.
    must(&project, &["checkout", "-q", "-b", "clean", "main"]);
    commit("clean.py", "clean = 1\n");
    must(&project, &["merge", "-q", "--no-edit", "main"]);
    assert!(push(&[("QWEN_HOOK", "local")], &["clean"]).ok);
    // Tags have messages, too.
    must(&project, &["tag", "-a", "v1", "-m", &token]);
    let stopped = push(&[], &["v1"]);
    assert!(!stopped.ok && stopped.text.contains("TAG_EDITMSG:1: [qwen/secret]"), "{}", stopped.text);
    must(&project, &["tag", "-a", "v2", "-m", "fine"]);
    assert!(push(&[("QWEN_HOOK", "local")], &["v2"]).ok);
    must(&project, &["-c", &format!("user.name={}", token.trim()), "tag", "-a", "v3", "-m", "fine"]);
    let stopped = push(&[], &["v3"]);
    assert!(!stopped.ok && stopped.text.contains("TAG:3: [qwen/secret]"), "{}", stopped.text);
    must(&project, &["tag", "file", "topic~1:key.py"]);
    let stopped = push(&[], &["file"]);
    assert!(!stopped.ok && stopped.text.contains("BLOB:1: [qwen/secret]"), "{}", stopped.text);
    must(&project, &["tag", "clean-file", "HEAD:clean.py"]);
    let searched = push(&[("QWEN_HOOK", "local")], &["clean-file"]);
    assert!(searched.ok && !searched.text.contains("not searched"), "{}", searched.text);
    must(&project, &["tag", "tree", "HEAD^{tree}"]);
    let named = push(&[("QWEN_HOOK", "local")], &["tree"]);
    assert!(named.ok && named.text.contains("is a tree, which is not searched"), "{}", named.text);
    // Each branch that is not reviewed is named.
    let names: Vec<String> = (0..9).map(|n| format!("b{n}")).collect();
    for name in &names {
        must(&project, &["checkout", "-q", "-b", name, "main"]);
        commit(name, "x\n");
    }
    let pushed = push(&[], &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(pushed.ok && pushed.text.contains("9 branches are pushed, and 8 of them are reviewed"), "{}", pushed.text);
}
