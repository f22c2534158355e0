//! Tests git's hooks: real git in real repositories, and a scripted model.

mod push;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{Project, Reply, program, say};

/// How a git command ended.
struct Ended {
    ok: bool,
    text: String,
}

/// Runs git in a directory as a person would, with the hooks that are installed.
fn git_in(project: &Project, folder: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let plain = project.command(&[]);
    let program = program().parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("git");
    command.args(arguments).current_dir(folder).env_clear().stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("PATH", path).envs(environment.iter().copied());
    let output = command.output().expect("git runs");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ended { ok: output.status.success(), text }
}

fn git(project: &Project, arguments: &[&str]) -> Ended {
    git_in(project, &project.root(), &[], arguments)
}

fn must(project: &Project, arguments: &[&str]) -> String {
    let ended = git(project, arguments);
    assert!(ended.ok, "git {arguments:?}: {}", ended.text);
    ended.text
}

fn write(project: &Project, path: &str, text: &str) {
    let path = project.root().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A repository with the hooks installed and a model that gives these answers.
fn project(hooks: &[&str], replies: impl IntoIterator<Item = Reply>) -> Project {
    let project = Project::new().file("a.py", "one = 1\n").file("b.py", "two = 2\n").git().model(replies);
    let installed = project.qwen(&[&["hook", "install"], hooks].concat());
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    project
}

fn nothing() -> Reply {
    say("```json\n{\"findings\": []}\n```")
}

fn finding(rule: &str, quote: &str, confidence: &str) -> Reply {
    let finding = json!({"rule_id": rule, "severity": "error", "path": "a.py", "start_line": 1, "end_line": 1,
        "quote": quote, "message": "this\n\u{1b}[31m is bad", "confidence": confidence});
    say(&format!("```json\n{}\n```", json!({"findings": [finding]})))
}

fn requests(project: &Project) -> usize {
    project.server().requests().len()
}

#[test]
fn a_certain_error_stops_the_commit_and_the_same_commit_again_costs_no_request() {
    let project = project(&[], [finding("credential", "token = 'abc'", "high"), nothing()]);
    write(&project, "a.py", "token = 'abc'\n");
    must(&project, &["add", "a.py"]);
    for _ in 0..2 {
        let ended = git(&project, &["commit", "-m", "x"]);
        assert!(!ended.ok);
        let stopped = "qwen: the commit is stopped by 1 error\n  commit anyway:  git commit --no-verify\n";
        assert!(ended.text.contains(stopped), "{}", ended.text);
        assert!(ended.text.contains("a.py:1: [credential] this\\n\\u{1b}[31m is bad"), "{}", ended.text);
        assert_eq!(requests(&project), 1);
    }
    write(&project, "a.py", "token = load()\n");
    must(&project, &["commit", "-a", "-m", "x"]);
    assert_eq!(requests(&project), 2);
}

#[test]
fn a_guess_and_a_warning_are_printed_and_stop_nothing() {
    let project = project(&[], [finding("credential", "x = 1", "medium"), finding("leftover", "x = 2", "high")]);
    for text in ["x = 1\n", "x = 2\n"] {
        write(&project, "a.py", text);
        let printed = must(&project, &["commit", "-a", "-m", "x"]);
        assert!(printed.contains("a.py:1: ["), "{printed}");
    }
}

#[test]
fn what_is_not_to_be_looked_at_costs_no_request() {
    let project = project(&[], []);
    must(&project, &["commit", "--allow-empty", "-m", "empty"]);
    write(&project, "Cargo.lock", "x\n");
    std::fs::write(project.root().join("p.png"), b"\x89PNG\0\0").unwrap();
    must(&project, &["rm", "-q", "b.py"]);
    must(&project, &["add", "-A"]);
    must(&project, &["commit", "-m", "a lock file, a picture, a deletion"]);
    must(&project, &["commit", "--amend", "-m", "amended, and nothing new"]);
    must(&project, &["mv", "a.py", "c.py"]);
    assert_eq!(requests(&project), 0);
}

#[test]
fn the_index_is_looked_at_and_not_the_files() {
    let project = project(&[], [nothing()]);
    write(&project, "a.py", "staged = 1\n");
    must(&project, &["add", "a.py"]);
    write(&project, "a.py", "not_staged = 1\n");
    must(&project, &["commit", "-m", "x"]);
    let said = project.server().messages(0);
    assert!(said.contains("+staged = 1") && !said.contains("not_staged"), "{said}");
}

#[test]
fn a_partial_commit_is_looked_at_as_git_will_make_it() {
    let project = project(&[], [nothing(), nothing(), nothing()]);
    write(&project, "b.py", "staged_but_not_named = 1\n");
    must(&project, &["add", "b.py"]);
    write(&project, "a.py", "named = 1\n");
    must(&project, &["commit", "-m", "x", "a.py"]);
    let first = project.server().messages(0);
    assert!(first.contains("+named = 1") && !first.contains("staged_but_not_named"), "{first}");
    assert_eq!(must(&project, &["status", "--porcelain"]), "M  b.py\n");
    must(&project, &["commit", "--amend", "--no-edit"]);
    assert!(project.server().messages(1).contains("+staged_but_not_named = 1"));
    write(&project, "a.py", "by_all = 1\n");
    must(&project, &["commit", "-a", "-m", "x"]);
    assert!(project.server().messages(2).contains("+by_all = 1"));
    must(&project, &["fsck", "--strict"]);
}

#[test]
fn the_first_commit_of_a_repository_is_looked_at() {
    let project = Project::new().file("a.py", "first = 1\n").model([nothing()]);
    must(&project, &["init", "-q", "."]);
    assert_eq!(project.qwen(&["hook", "install"]).code, 0);
    must(&project, &["add", "a.py"]);
    must(&project, &["commit", "-m", "first"]);
    assert!(project.server().messages(0).contains("+first = 1"));
}

#[test]
fn a_merge_and_a_rebase_are_nobodys_own_change() {
    let project = project(&["--pre-commit", "--prepare-commit-msg"], []);
    let off = [("QWEN_HOOK", "0"), ("GIT_EDITOR", "true")];
    let with = |arguments: &[&str]| git_in(&project, &project.root(), &off, arguments);
    assert!(with(&["checkout", "-q", "-b", "side"]).ok);
    write(&project, "a.py", "side = 1\n");
    assert!(with(&["commit", "-q", "-a", "-m", "side"]).ok);
    assert!(with(&["checkout", "-q", "main"]).ok);
    write(&project, "a.py", "main = 1\n");
    assert!(with(&["commit", "-q", "-a", "-m", "main"]).ok);

    let on = [("GIT_EDITOR", "true")];
    let ended = |arguments: &[&str]| git_in(&project, &project.root(), &on, arguments);
    assert!(!ended(&["merge", "side"]).ok, "it conflicts");
    write(&project, "a.py", "both = 1\n");
    must(&project, &["add", "a.py"]);
    let merged = ended(&["commit"]);
    assert!(merged.ok, "{}", merged.text);
    must(&project, &["reset", "-q", "--hard", "HEAD^"]);
    must(&project, &["checkout", "-q", "side"]);
    assert!(!ended(&["rebase", "main"]).ok, "it conflicts");
    write(&project, "a.py", "both = 1\n");
    must(&project, &["add", "a.py"]);
    let rebased = ended(&["rebase", "--continue"]);
    assert!(rebased.ok, "{}", rebased.text);
    assert_eq!(requests(&project), 0);
}

#[test]
fn a_linked_work_tree_has_an_index_of_its_own() {
    let project = project(&["--pre-commit", "--prepare-commit-msg"], [nothing(), say("feat: linked")]);
    let linked = project.beside("linked");
    must(&project, &["worktree", "add", "-q", "-b", "other", &linked.display().to_string()]);
    write(&project, "a.py", "in_the_main_tree = 1\n");
    must(&project, &["add", "a.py"]);
    std::fs::write(linked.join("a.py"), "in_the_linked_tree = 1\n").unwrap();
    let ended = git_in(&project, &linked, &[("GIT_EDITOR", "true")], &["commit", "-a"]);
    assert!(ended.ok, "{}", ended.text);
    let said = project.server().messages(0);
    assert!(said.contains("+in_the_linked_tree") && !said.contains("in_the_main_tree"), "{said}");
    assert_eq!(must(&project, &["log", "-1", "--format=%s", "other"]), "feat: linked\n");
    assert_eq!(must(&project, &["status", "--porcelain"]), "M  a.py\n");
}

#[test]
fn without_a_server_a_key_or_time_the_commit_goes_on_and_says_so() {
    let project = project(&[], [Reply::Stall]);
    let commit = |text: &str, environment: &[(&str, &str)]| {
        write(&project, "a.py", text);
        git_in(&project, &project.root(), environment, &["commit", "-a", "-m", "x"])
    };
    for (text, environment) in [
        ("a = 1\n", vec![("QWEN_BASE_URL", "http://127.0.0.1:9/v1")]),
        ("a = 2\n", vec![("QWEN_BASE_URL", "https://example.invalid/v1")]),
    ] {
        let ended = commit(text, &environment);
        assert!(ended.ok, "{}", ended.text);
        assert_eq!(ended.text.matches("qwen: skipped, ").count(), 1, "{}", ended.text);
    }
    write(&project, "a.py", "a = 3\n");
    must(&project, &["add", "a.py"]);
    let late = project.qwen(&["hook", "pre-commit", "--max-wall-time", "300ms"]);
    assert_eq!((late.code, late.stderr.as_str()), (0, "qwen: skipped, no answer within 0.3 s; the commit continues\n"));
    let project = project.env("QWEN_BASE_URL", "http://127.0.0.1:9/v1");
    assert_eq!(project.qwen(&["hook", "pre-commit", "--require"]).code, 75);
}

#[test]
fn a_staged_secret_is_found_here_and_nothing_is_sent() {
    let project = project(&[], [nothing()]);
    let key = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
    write(&project, "a.py", &format!("one = 1\nkey = '{key}'\n"));
    let ended = git(&project, &["commit", "-a", "-m", "x"]);
    assert!(!ended.ok && ended.text.contains("a.py:2: [qwen/secret]"), "{}", ended.text);
    assert!(!ended.text.contains(&key), "{}", ended.text);
    assert_eq!(requests(&project), 0);
    // So is a file for secrets, and a secret in a file that no model is shown.
    must(&project, &["checkout", "-q", "a.py"]);
    write(&project, ".env", "PLAIN=1\n");
    write(&project, "Cargo.lock", &format!("# {key}\n"));
    must(&project, &["add", "-f", ".env", "Cargo.lock"]);
    let ended = git(&project, &["commit", "-m", "x"]);
    for part in [".env:1: [qwen/denied-file]", "Cargo.lock:1: [qwen/secret]", "qwen: nothing was sent"] {
        assert!(!ended.ok && ended.text.contains(part), "{part}: {}", ended.text);
    }
    assert!(!ended.text.contains(&key), "{}", ended.text);
    let advised = git_in(&project, &project.root(), &[("QWEN_HOOK", "advise")], &["commit", "-m", "x"]);
    assert!(advised.ok && advised.text.contains("[qwen/secret]"), "{}", advised.text);
    assert_eq!(requests(&project), 0);
}

#[test]
fn a_name_that_is_no_text_hides_neither_a_secret_nor_a_file_that_may_not_be_read() {
    use std::os::unix::ffi::OsStrExt as _;
    let odd = Path::new(std::ffi::OsStr::from_bytes(b"k\xff"));
    let staged = |project: &Project, name: &str, text: &str| {
        let folder = project.root().join(odd);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
        write(project, "a.py", "one = 2\n");
        must(project, &["add", "-f", "."]);
    };
    let key = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
    let project_of = || project(&[], [nothing()]);
    let project = project_of();
    staged(&project, "b.py", &format!("key = '{key}'\n"));
    let ended = git(&project, &["commit", "-m", "x"]);
    assert!(!ended.ok && ended.text.contains("b.py:1: [qwen/secret]"), "{}", ended.text);
    assert_eq!(requests(&project), 0);
    let project = project_of();
    staged(&project, ".env", "PLAIN=in-the-file\n");
    let ended = git(&project, &["commit", "-m", "x"]);
    assert!(!ended.ok && ended.text.contains("[qwen/denied-file]"), "{}", ended.text);
    // A file that only this team keeps from the model stops nothing.
    let project = project_of();
    let policy = "version: 1\nextends: builtin:default\npaths: {read: {deny: [\"**/mine.txt\"]}}\n";
    write(&project, ".qwen/policy.yaml", policy);
    must(&project, &["add", "-A"]);
    must(&project, &["commit", "--no-verify", "-m", "the policy"]);
    staged(&project, "mine.txt", "PLAIN=in-the-file\n");
    must(&project, &["commit", "-m", "x"]);
    let sent = project.server().messages(0);
    assert!(sent.contains("+one = 2") && !sent.contains("in-the-file"), "{sent}");
}

#[test]
fn a_hook_stops_advises_or_asks_no_model() {
    let project = project(&[], [finding("credential", "key = 1", "high")]);
    let hook = |arguments: &[&str], word: &str| {
        let mut command = project.command(&[&["hook", "pre-commit"], arguments].concat());
        let ended = command.env("QWEN_HOOK", word).output().unwrap();
        let text = [ended.stdout, ended.stderr].concat();
        (ended.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let (code, text) = hook(&[], "");
    assert_eq!(
        (code, text.as_str()),
        (0, "qwen: skipped, nothing is staged, and no range is given; the commit continues\n")
    );
    assert_eq!(hook(&["--require"], "").0, 75);
    write(&project, "a.py", "key = 1\n");
    must(&project, &["add", "-A"]);
    assert_eq!(hook(&["--mode", "local"], ""), (0, String::new()));
    assert_eq!(hook(&[], "local"), (0, String::new()));
    assert_eq!(requests(&project), 0);
    let (code, text) = hook(&[], "advise");
    assert!(code == 0 && text.contains("[credential]"), "{text}");
    let (code, text) = hook(&["--mode", "block"], "advise");
    assert!(code == 3 && text.contains("[credential]"), "{text}");
    let (code, text) = hook(&[], "perhaps");
    assert!(code == 2 && text.contains("QWEN_HOOK: `perhaps` is not a mode"), "{text}");
}

#[test]
fn a_hook_looks_at_a_range_if_there_is_one() {
    let project = project(&[], [nothing(), nothing()]);
    let key = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
    write(&project, "a.py", &format!("key = '{key}'\n"));
    must(&project, &["commit", "--no-verify", "-a", "-m", "x"]);
    write(&project, "a.py", "key = None\n");
    must(&project, &["commit", "--no-verify", "-a", "-m", "y"]);
    let outcome = project.qwen(&["hook", "pre-commit", "--range", "HEAD~2..HEAD~1"]);
    assert!(outcome.code == 3 && outcome.stdout.contains("a.py:1: [qwen/secret]"), "{}", outcome.stdout);
    let mut command = project.command(&["hook", "pre-commit"]);
    command.env("PRE_COMMIT_FROM_REF", "HEAD~1").env("PRE_COMMIT_TO_REF", "HEAD");
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    let sent = project.server().messages(0);
    assert!(sent.contains("+key = None"), "{sent}");
    assert_eq!(project.qwen(&["hook", "pre-commit", "--range", "HEAD"]).code, 2);
}

#[test]
fn of_a_large_change_a_part_is_looked_at_and_the_rest_is_named() {
    let project = project(&[], [nothing()]);
    write(&project, "a.py", &"line = 1\n".repeat(9_000));
    let printed = must(&project, &["commit", "-a", "-m", "x"]);
    assert!(printed.contains("qwen: looked at 1 of 1 files; looked at in part: a.py (not lines "), "{printed}");
    assert_eq!(requests(&project), 1);
}

#[test]
fn a_recipe_counts_as_it_is_committed_and_a_broken_setup_is_told() {
    let recipe = |rule: &str| {
        format!(
            "recipe: 1\nname: staged-check\ndescription: D\nlimits: {{cost_usd: 1}}\ncontext: [{{name: s, diff: staged}}]\n\
             prompt: \"{rule} {{{{ context.s | fence('diff') }}}}\"\nneeds: {{tools: []}}\noutput: {{kind: text}}\n"
        )
    };
    let project = project(&[], [nothing(), say("fine"), say("fine")]);
    write(&project, ".qwen/recipes/staged-check.yaml", &recipe("COMMITTED"));
    must(&project, &["add", "-A"]);
    must(&project, &["commit", "-m", "the recipe"]);
    let asked = |request: usize| {
        let content = project.server().requests()[request]["messages"][1]["content"].clone();
        content.as_str().map_or_else(|| content[0]["text"].as_str().unwrap().to_owned(), str::to_owned)
    };
    assert!(!asked(0).starts_with("COMMITTED "), "the built-in recipe has judged it");
    write(&project, ".qwen/recipes/staged-check.yaml", &recipe("STAGED"));
    must(&project, &["add", "-A"]);
    must(&project, &["commit", "-m", "another"]);
    assert!(asked(1).starts_with("COMMITTED "), "{}", asked(1));
    write(&project, "a.py", "x = 9\n");
    must(&project, &["add", "-A"]);
    let outcome = project.qwen(&["hook", "pre-commit", "--recipe", "staged-chek"]);
    assert_eq!(outcome.code, 42);
    assert!(outcome.stderr.contains("did you mean `staged-check`"), "{}", outcome.stderr);
}

#[test]
fn a_variable_turns_it_off_and_another_shows_what_would_be_sent() {
    let project = project(&[], []);
    write(&project, "a.py", "shown = 1\n");
    must(&project, &["add", "a.py"]);
    let shown = project.command(&["hook", "pre-commit"]).env("QWEN_HOOK_DRY_RUN", "1").output().unwrap();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success() && text.contains("[system]") && text.contains("+shown = 1"), "{text}");
    let off = git_in(&project, &project.root(), &[("QWEN_HOOK", "0")], &["commit", "-m", "x"]);
    assert!(off.ok, "{}", off.text);
    assert_eq!(requests(&project), 0);
}

#[test]
fn a_message_is_drafted_only_where_somebody_will_edit_it() {
    let draft = "feat: a draft\n\n#7 is in it";
    let project = project(&["--prepare-commit-msg"], [say(draft), say(draft)]);
    let editor = project.beside("editor");
    std::fs::write(&editor, format!("#!/bin/sh\ncp \"$1\" '{}'\n", project.beside("seen").display())).unwrap();
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let editor = [("GIT_EDITOR", editor.display().to_string())];
    let editor: Vec<(&str, &str)> = editor.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let edited = |arguments: &[&str]| git_in(&project, &project.root(), &editor, arguments);

    write(&project, "a.py", "x = 1\n");
    let ended = edited(&["commit", "-a", "-v", "-s"]);
    assert!(ended.ok, "{}", ended.text);
    let seen = std::fs::read_to_string(project.beside("seen")).unwrap();
    assert!(seen.starts_with("feat: a draft\n\n #7 is in it\n"), "{seen}");
    assert!(seen.contains("Signed-off-by") && seen.contains("# Please enter") && seen.contains(">8"), "{seen}");
    let message = must(&project, &["log", "-1", "--format=%B"]);
    assert!(message.starts_with("feat: a draft\n\n #7 is in it\n"), "{message}");

    for arguments in [
        &["commit", "--amend", "-m", "mine"][..],
        &["commit", "--amend", "--no-edit"],
        &["commit", "--amend"],
        &["commit", "--allow-empty", "-m", "mine"],
        &["commit", "--allow-empty", "-C", "HEAD"],
    ] {
        assert!(edited(arguments).ok, "{arguments:?}");
    }
    std::fs::write(project.beside("template"), "A template\n").unwrap();
    let template = project.beside("template").display().to_string();
    write(&project, "a.py", "x = 2\n");
    // An unchanged template is not a message: git ends this one itself.
    edited(&["commit", "-a", "-t", &template]);
    assert_eq!(requests(&project), 1);
    // Whatever is wrong, the hook lets git continue.
    let broken = project.qwen(&["hook", "prepare-commit-msg", "--recipe", "none-such", "missing-file", "{2}", "{3}"]);
    assert_eq!(broken.code, 0, "{}", broken.stderr);
    assert!(broken.stderr.starts_with("qwen: skipped, "), "{}", broken.stderr);
}

#[test]
fn the_answer_of_a_model_that_reads_files_counts_while_they_are_the_same() {
    let project = project(&["--pre-push"], vec![nothing(); 8]);
    let remote = project.beside("remote.git").display().to_string();
    must(&project, &["init", "-q", "--bare", "-b", "main", &remote]);
    must(&project, &["remote", "add", "origin", &remote]);
    must(&project, &["push", "-q", "origin", "main"]);
    must(&project, &["remote", "set-head", "origin", "main"]);
    must(&project, &["checkout", "-q", "-b", "topic"]);
    write(&project, "a.py", "topic = 3\n");
    must(&project, &["commit", "-q", "-a", "-m", "topic"]);
    // Each name of the branch is pushed once, with the same commits.
    for (number, (file, text, asked)) in [
        ("b.py", "two = 2\n", 1),
        ("b.py", "two = 3\n", 2),
        ("new.py", "new = 1\n", 3),
        ("new.py", "new = 1\n", 3),
        ("new.py", "new = 2\n", 4),
    ]
    .into_iter()
    .enumerate()
    {
        write(&project, file, text);
        must(&project, &["push", "-q", "origin", &format!("topic:name-{number}")]);
        assert_eq!(requests(&project), asked, "{number}");
    }
}

#[test]
fn an_installed_hook_finds_the_program_where_path_does_not_name_it() {
    let project = project(&[], [finding("credential", "token = 'abc'", "high")]);
    let script = project.read(".git/hooks/pre-commit");
    assert!(script.contains(&format!("program='{}'", program().display())), "{script}");
    write(&project, "a.py", "token = 'abc'\n");
    must(&project, &["add", "a.py"]);
    let path = std::env::var("PATH").unwrap();
    let bare = |arguments: &[&str]| git_in(&project, &project.root(), &[("PATH", path.as_str())], arguments);
    let stopped = bare(&["commit", "-m", "x"]);
    assert!(!stopped.ok && stopped.text.contains("a.py:1: [credential]"), "{}", stopped.text);
    must(&project, &["reset", "-q"]);
    let empty = bare(&["commit", "--allow-empty", "-m", "x"]);
    assert!(empty.ok, "{}", empty.text);
}

#[test]
fn a_hook_starts_no_program_of_the_checkout() {
    let project = Project::new().file("a", "1\n").git();
    assert_eq!(project.qwen(&["hook", "install"]).code, 0);
    let hook = project.root().join(".git/hooks/pre-commit");
    // The program is gone from where it was, and the checkout has one of its name.
    let script = std::fs::read_to_string(&hook).unwrap();
    std::fs::write(&hook, script.replace(&format!("program='{}'", program().display()), "program=/gone/qwen")).unwrap();
    write(&project, "node_modules/.bin/qwen", "#!/bin/sh\ntouch \"$(git rev-parse --show-toplevel)/ran\"\n");
    write(&project, "qwen", "#!/bin/sh\ntouch ran\n");
    for file in ["node_modules/.bin/qwen", "qwen"] {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(project.root().join(file), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let root = project.root().display().to_string();
    for entry in [format!("{root}/node_modules/.bin"), root.clone(), ".".to_owned(), String::new()] {
        let path = format!("{entry}:/usr/bin:/bin");
        let mut command = Command::new("sh");
        command.arg(&hook).current_dir(project.root()).env_clear().env("PATH", &path).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("qwen: skipped: the program is not installed"), "{path}: {said}");
        assert!(!project.root().join("ran").exists(), "{path}");
    }
}

#[test]
fn installing_takes_nobodys_hook_away() {
    let project = Project::new().file("a", "1\n").git();
    let hooks = project.root().join(".git/hooks");
    std::fs::write(hooks.join("pre-push"), "#!/bin/sh\necho mine\n").unwrap();
    let refused = project.qwen(&["hook", "install", "--pre-commit", "--pre-push"]);
    assert_eq!(refused.code, 63, "{}", refused.stderr);
    assert!(refused.stderr.contains("a hook already exists") && refused.stderr.contains("qwen hook pre-push \"$@\""));
    assert!(!hooks.join("pre-commit").exists(), "all or nothing");
    for _ in 0..2 {
        assert_eq!(project.qwen(&["hook", "install"]).code, 0);
    }
    let gone = project.qwen(&["hook", "uninstall"]);
    assert_eq!(gone.code, 0);
    assert!(gone.stdout.contains("removed") && gone.stdout.contains("kept"), "{}", gone.stdout);
    assert!(hooks.join("pre-push").exists() && !hooks.join("pre-commit").exists());

    must(&project, &["config", "core.hooksPath", "tools/hooks"]);
    assert_eq!(project.qwen(&["hook", "install"]).code, 0);
    assert!(project.root().join("tools/hooks/pre-commit").exists());
    // A directory that only looks as if it was inside.
    let away = project.beside("away");
    std::fs::create_dir(&away).unwrap();
    std::os::unix::fs::symlink(&away, project.root().join("linked")).unwrap();
    for value in ["linked", "linked/deeper", "tools/../../away"] {
        must(&project, &["config", "core.hooksPath", value]);
        let outside = project.qwen(&["hook", "install"]);
        assert!(
            outside.code == 63 && outside.stderr.contains("outside this repository"),
            "{value}: {}",
            outside.stderr
        );
        assert_eq!(project.qwen(&["hook", "uninstall"]).code, 63, "{value}");
    }
    assert!(std::fs::read_dir(&away).unwrap().next().is_none());
    must(&project, &["config", "core.hooksPath", &project.home().display().to_string()]);
    let outside = project.qwen(&["hook", "install"]);
    assert_eq!(outside.code, 63);
    assert!(outside.stderr.contains("outside this repository"), "{}", outside.stderr);
    must(&project, &["config", "--unset", "core.hooksPath"]);
    for (file, who) in [("lefthook.yml", "lefthook"), (".pre-commit-config.yaml", "pre-commit"), (".husky/x", "husky")]
    {
        write(&project, file, "");
        let managed = project.qwen(&["hook", "install"]);
        assert_eq!(managed.code, 63, "{file}");
        assert!(managed.stderr.contains(&format!("{who} manages the hooks")), "{}", managed.stderr);
        let top = file.split('/').next().unwrap();
        let _gone = std::fs::remove_dir_all(project.root().join(top))
            .or_else(|_| std::fs::remove_file(project.root().join(top)));
    }
    assert_eq!(Project::new().file("a", "1").qwen(&["hook", "install"]).code, 63, "no repository");
}
