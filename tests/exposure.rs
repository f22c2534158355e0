//! Tests what a command's own programs see of the repository, in each isolation tier.

use std::path::Path;

use serde_json::json;

use crate::failing_calls::{qwen, run_in, tier_faults};
use crate::support::{OUTPUT_FLAGS, Project, call, say};

const POLICY: &str = "version: 1\nchanges: {default: dry-run, allow: [dry-run, apply]}\n\
    tools: {allow: [read_file, edit, write_file, run_shell_command]}\n\
    paths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"], exec_bit: true}}\nshell: {default: allow}\n";

/// A build of the project, which runs programs that no rule has seen.
fn with_build(project: Project, script: &str) -> Project {
    project.file("build.sh", script).policy(POLICY)
}

fn append(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_path_in_the_git_directory_opens_nothing_but_objects_of_a_repository() {
    for tier in ["T3", "T2"] {
        for line in ["/", "{home}", "{home}/keys", "../../../home", "../../../home/keys"] {
            let project = Project::new();
            let home = project.home().canonicalize().unwrap();
            let project =
                with_build(project, &format!("cat {}/keys/id; echo built\n", home.display())).file("a", "1\n").git();
            append(&home.join("keys/id"), "PRIVATE\n");
            let line = line.replace("{home}", home.to_str().unwrap());
            append(&project.root().join(".git/objects/info/alternates"), &format!("{line}\n"));
            let commands = ["sh build.sh", "git log --oneline"];
            let Some((answers, ..)) = run_in(tier, project, &[], &commands) else { continue };
            assert!(answers[0].contains("built") && !answers[0].contains("PRIVATE"), "{tier} {line}: {answers:?}");
            assert!(answers[1].contains("start"), "{tier} {line}: {answers:?}");
        }
    }
}

#[test]
fn objects_that_a_repository_borrows_from_another_one_are_there() {
    for tier in ["T3", "T2"] {
        let project = with_build(Project::new(), "git log --oneline || echo none\n").file("a", "1\n").git();
        project.run_git(&["clone", "-q", "--bare", ".", "../pool"]);
        append(&project.root().join(".git/objects/info/alternates"), "../../../pool/objects\n");
        project.run_git(&["repack", "-a", "-d", "-l", "-q"]);
        let Some((answers, ..)) = run_in(tier, project, &[], &["git log --oneline", "sh build.sh"]) else { continue };
        assert!(answers[0].contains("start"), "{tier}: {answers:?}");
        assert!(answers[1].contains("start"), "{tier}: {answers:?}");
    }
}

#[test]
fn parts_of_a_repository_behind_a_link_are_not_there_and_the_model_is_told() {
    for tier in ["T3", "T2"] {
        for part in ["objects", "refs"] {
            let script = format!("cat /.qwen/objects/id .git/{part}/id {{home}}/keys/id; echo built\n");
            let project = Project::new();
            let home = project.home().canonicalize().unwrap();
            let script = script.replace("{home}", home.to_str().unwrap());
            let project = with_build(project, &script).file("a", "1\n").git();
            append(&home.join("keys/id"), "PRIVATE\n");
            let part = project.root().join(".git").join(part);
            std::fs::remove_dir_all(&part).unwrap();
            std::os::unix::fs::symlink(home.join("keys"), &part).unwrap();
            let Some((answers, ..)) = run_in(tier, project, &[], &["sh build.sh"]) else { continue };
            assert!(answers[0].contains("built") && !answers[0].contains("PRIVATE"), "{tier}: {answers:?}");
            assert!(answers[0].contains("commands get no git repository"), "{tier}: {answers:?}");
        }
    }
}

/// A build prints what was committed, if it finds a repository.
const PRINTS: &str = "git log -p --all --reflog --format=seen-%s; echo built\n";

#[test]
fn a_program_finds_no_repository_whose_history_holds_what_may_not_be_read() {
    let plain = POLICY.to_owned();
    let deny = POLICY.replace("read: {allow", "read: {deny: [\"private/**\"], allow");
    let allow = POLICY.replace("read: {allow: [\"**\"]}", "read: {allow: [\"*.sh\", \"a\"]}");
    let gone = "rm -r private .env .env.example k.pem; git add -A; git commit -qm gone";
    for (policy, file, then, hides) in [
        (&plain, "src/a", "", false),
        (&plain, ".env.example", "", false),
        (&plain, "private/a", "", false),
        (&plain, ".env", "", true),
        (&plain, "k.pem", gone, true),
        (&plain, ".env", "git rm -q --cached .env; git commit -q --amend -m gone", true),
        (&deny, "private/a", gone, true),
        (&deny, "src/a", "", false),
        (&allow, "src/a", "", true),
        (&allow, "a", "", false),
    ] {
        for tier in ["T3", "T2"] {
            let project = with_build(Project::new(), PRINTS).file(file, "TOP-SECRET\n").policy(policy).git();
            let script = then.split("; ").filter(|line| !line.is_empty());
            for line in script {
                let words: Vec<&str> = line.split(' ').collect();
                match words.split_first() {
                    Some((&"git", rest)) => drop(project.run_git(rest)),
                    Some(_) => words[2..].iter().for_each(|name| {
                        let path = project.root().join(name);
                        let _not_there = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
                    }),
                    None => {}
                }
            }
            let commands = ["sh build.sh", "git log --format=own-%s -1", "sh build.sh"];
            let Some((answers, ..)) = run_in(tier, project, &[], &commands) else { continue };
            let what = format!("{tier} {file} {then}: {answers:?}");
            assert_eq!(answers[0].contains("seen-"), !hides, "{what}");
            assert_eq!(answers[0].contains("programs get no git repository"), hides, "{what}");
            assert_eq!(answers.concat().contains("TOP-SECRET"), !hides, "{what}");
            assert!(answers[0].contains("built") && answers[1].contains("own-"), "{what}");
            assert_eq!(answers[2].contains("seen-"), !hides, "{what}");
        }
    }
}

#[test]
fn a_git_directory_is_not_shown_whatever_its_name() {
    for tier in ["T3", "T2", "T1"] {
        let project = Project::new().file("a", "1\n").policy(POLICY).git();
        let root = project.root();
        std::fs::rename(root.join(".git"), root.join("store")).unwrap();
        std::fs::write(root.join(".git"), "gitdir: ./store\n").unwrap();
        project.run_git(&["config", "http.extraheader", "TOKEN-OF-CHECKOUT"]);
        let build = ["sh -c 'cat store/config; echo built'"];
        let commands: &[&str] = if tier == "T1" { &["cat store/config", "cat a"] } else { &build };
        let Some((answers, project, _)) = run_in(tier, project, &[], commands) else { continue };
        assert!(!answers.concat().contains("TOKEN-OF-CHECKOUT"), "{tier}: {answers:?}");
        let project = project.model([call("read_file", json!({"file_path": "store/config"})), say("done")]);
        let _answered = project.run(&["go"]);
        let shown = project.server().requests()[1].to_string();
        assert!(!shown.contains("TOKEN-OF-CHECKOUT") && shown.contains("git directory store"), "{tier}: {shown}");
    }
}

#[test]
fn modes_and_times_that_isolation_does_not_hold_are_found_after_the_run() {
    for (script, code) in [
        ("chmod 600 {root}/a", 1),
        ("touch -d 2001-01-01 {root}/.git/HEAD", 1),
        ("chmod 711 {root}/d", 1),
        ("chmod 711 {root}", 1),
        ("touch -d 2001-01-01 {root}/d", 1),
        ("touch -d 2001-01-01 {root}", 1),
        ("chmod 600 a; touch -d 2001-01-01 d/b; echo 2 > d/b", 0),
    ] {
        for flags in [&[][..], &["--apply"], &["-C", "d"]] {
            let project = Project::new().file("a", "1\n").file("d/b", "1\n");
            let root = project.root().canonicalize().unwrap().display().to_string();
            let script = match flags {
                ["-C", _] => script.replace("d/b", "b").replace("600 a;", "600 b;"),
                _ => script.to_owned(),
            };
            let script = format!("{}\necho built\n", script.replace("{root}", &root));
            let project = with_build(project, &script).file("d/build.sh", &script).git();
            let Some((answers, _, outcome)) = run_in("T2", project, flags, &["sh build.sh"]) else { return };
            assert!(answers[0].contains("built"), "{answers:?}");
            assert_eq!(outcome.code, code, "{script} {flags:?}: {}", outcome.stderr);
        }
    }
}

#[test]
fn a_pinned_program_starts_only_where_nothing_else_in_the_command_writes() {
    let good = "#!/bin/sh\necho GOOD-RAN\n";
    let digest = qwen_run::base::digest::sha256(good.as_bytes());
    let rules = format!(
        "shell: {{default: deny, allow: [{{cmd: [mv]}}, {{cmd: [cp]}}, {{cmd: [cat]}}, \
         {{cmd: [./scripts/gen.sh], sha256: {digest}}}]}}\n"
    );
    let policy = POLICY.replace("shell: {default: allow}\n", &rules);
    for (tier, flags) in [("T3", &[][..]), ("T2", &[]), ("off", &["--sandbox=off"])] {
        for (command, runs) in [
            ("./scripts/gen.sh", true),
            ("cat a && ./scripts/gen.sh | cat", true),
            ("mv scripts s2 && mv evil scripts && ./scripts/gen.sh", false),
            ("cp evil/gen.sh scripts/gen.sh; ./scripts/gen.sh", false),
            ("cat evil/gen.sh > scripts/gen.sh; ./scripts/gen.sh", false),
        ] {
            let project = Project::new()
                .file("a", "1\n")
                .executable("scripts/gen.sh", good)
                .executable("evil/gen.sh", "#!/bin/sh\necho EVIL-RAN\n")
                .policy(&policy)
                .git();
            let Some((answers, ..)) = run_in(tier, project, flags, &[command]) else { continue };
            assert!(!answers[0].contains("EVIL-RAN"), "{tier} {command}: {answers:?}");
            assert_eq!(answers[0].contains("GOOD-RAN"), runs, "{tier} {command}: {answers:?}");
        }
    }
}

#[test]
fn our_own_temporary_directories_are_not_in_the_checkout_that_tmpdir_names() {
    for tier in ["T3", "T2"] {
        let project = with_build(Project::new().file("tmp/kept", "k\n"), "find . -name 'qwen-*'; echo looked\n").git();
        let tmp = project.root().join("tmp").display().to_string();
        let project = project.env("TMPDIR", &tmp);
        let Some((answers, ..)) = run_in(tier, project, &[], &["sh build.sh"]) else { continue };
        assert!(answers[0].contains("looked") && !answers[0].contains("qwen-"), "{tier}: {answers:?}");
    }
}

/// Has git show a second file for each one that it is asked for, by configuration in its home.
const CONFIGURES: &str = r#"mkdir -p "$HOME/.config/git"
echo 'git show HEAD:.env' > "$HOME/t.sh"
echo '* diff=x' | tee "$HOME/attrs" > "$HOME/.config/git/attributes"
printf '[core]\nattributesFile = %s/attrs\n[diff "x"]\ntextconv = sh %s/t.sh\n' "$HOME" "$HOME" |
    tee "$HOME/.gitconfig" > "$HOME/.config/git/config"
echo built
"#;

#[test]
fn no_build_configures_the_git_of_a_later_command() {
    for (tier, flags) in [("T3", &[][..]), ("T2", &[]), ("off", &["--sandbox=off"])] {
        let project =
            with_build(Project::new(), CONFIGURES).file("f.txt", "plain\n").file(".env", "TOP-SECRET\n").git();
        let commands = ["sh build.sh", "git log -p -1 -- f.txt", "git log -p -1 -- f.txt | cat"];
        let Some((answers, ..)) = run_in(tier, project, flags, &commands) else { continue };
        assert!(answers[0].contains("built"), "{tier}: {answers:?}");
        for answer in &answers[1..] {
            assert!(answer.contains("+plain") && !answer.contains("TOP-SECRET"), "{tier}: {answers:?}");
        }
    }
}

/// Waits for git's directory and configures it, for as long as the run lasts.
const WAITS: &str = r#"echo 'git show HEAD:.env' > t.sh
until echo '[diff "x"] textconv = sh t.sh' >> .git/config && echo '* diff=x' >> .git/info/attributes; do
    sleep 0.01
done
"#;

#[test]
fn a_program_that_goes_on_working_does_not_find_the_directory_of_git() {
    for tier in ["T3", "T2"] {
        let project = with_build(Project::new(), WAITS).file("f.txt", "plain\n").file(".env", "TOP-SECRET\n").git();
        let shell = |command: &str, is_background: bool| {
            call("run_shell_command", json!({"command": command, "is_background": is_background}))
        };
        let asks = ["-1", "-n1", "-2"].map(|count| shell(&format!("git log -p {count} -- f.txt"), false));
        let project = project.model([shell("sh build.sh", true)].into_iter().chain(asks).chain([say("done")]));
        let outcome = qwen(&project, tier_faults(tier), &["run", "go"]);
        if !outcome.stderr.contains(&format!("sandbox {tier}")) {
            eprintln!("SKIPPED: this machine does not give {tier}: {}", outcome.stderr);
            continue;
        }
        let seen = project.server().requests().last().unwrap()["messages"].to_string();
        assert!(!seen.contains("TOP-SECRET"), "{tier}: {seen}");
        assert_eq!(seen.matches("+plain").count(), 3, "{tier}: {seen}");
    }
}

#[test]
fn a_build_that_makes_a_repository_of_its_own_does_not_end_later_commands() {
    for tier in ["T3", "T2"] {
        for secret in [".env", "plain.txt"] {
            let project = with_build(Project::new(), "git init -q . && echo built\n").file(secret, "1\n").git();
            let commands = ["sh build.sh", "git log --oneline", "sh build.sh", "cat build.sh"];
            let Some((answers, ..)) = run_in(tier, project, &[], &commands) else { continue };
            assert!(answers[0].contains("built") && answers[2].contains("built"), "{tier} {secret}: {answers:?}");
            assert!(answers[1].contains("start") && answers[3].contains("git init"), "{tier} {secret}: {answers:?}");
        }
    }
}

#[test]
fn no_link_of_the_checkout_chooses_a_directory_for_output_files() {
    for flag in OUTPUT_FLAGS {
        for (name, at) in [("out/r", "."), ("deep/out/r", "deep"), ("real/../out/../home/r", ".")] {
            let project = Project::new().file("real/a", "1\n").file("deep/a", "1\n");
            for link in ["out", "deep/out"] {
                std::os::unix::fs::symlink(project.home(), project.root().join(link)).unwrap();
            }
            let project = project.git().model([say("done")]);
            let outcome = project.qwen(&["run", flag, &format!("{}/{name}", project.root().display()), "-C", at, "go"]);
            assert_ne!(outcome.code, 0, "{flag} {name}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("is a link in the checkout"), "{flag} {name}: {}", outcome.stderr);
            assert!(!project.home().join("r").exists(), "{flag} {name}");
        }
    }
}

#[test]
fn whatever_is_mounted_below_what_is_shown_is_read_only_and_so_are_devices() {
    let script = r#"while read -r _ _ _ _ place options _; do
    case $place in /dev/* | /proc/* | *volume) printf 'mount:%s:%s\n' "$place" "$options" ;; esac
done < /proc/self/mountinfo
"#;
    let project = with_build(Project::new(), script).file("a", "1\n").git();
    let (tools, volume) = (project.beside("tools/bin"), project.beside("tools/bin/a volume"));
    std::fs::create_dir_all(&volume).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let calls = [call("run_shell_command", json!({"command": "sh build.sh"})), say("done")];
    let project = project.env("PATH", &path).model(calls);
    let inner = project.command(&["run", "go"]);
    let mut outer = std::process::Command::new("unshare");
    outer.args(["-rm", "--propagation", "private", "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\""]);
    outer.arg(&volume).arg(inner.get_program()).args(inner.get_args()).env_clear();
    outer.current_dir(inner.get_current_dir().unwrap());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = outer.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !stderr.contains("sandbox T3") {
        eprintln!("SKIPPED: this machine mounts nothing, or does not give T3: {stderr}");
        return;
    }
    let seen = project.server().requests()[1]["messages"].to_string();
    let options = |place: &str| {
        let found = seen.split("mount:").filter_map(|line| line.split_once(':')).find(|(at, _)| at.ends_with(place));
        found.unwrap_or_else(|| panic!("{place} is not mounted: {seen}")).1.to_owned()
    };
    for place in ["/bin/a\\\\040volume", "/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"] {
        assert!(options(place).starts_with("ro,"), "{place}: {seen}");
    }
}

#[test]
fn no_alias_runs_in_the_place_of_git_lfs() {
    for flag in ["--apply", "--commit", "--branch=other"] {
        let project = Project::new().file("a.txt", "one\n").file(".gitattributes", "*.txt filter=lfs\n").git();
        project.run_git(&["config", "filter.lfs.clean", "git lfs clean -- %f"]);
        project.run_git(&["config", "alias.lfs", &format!("!touch {}; cat", project.beside("ran").display())]);
        let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
        let project = project.model([call("edit", edit), say("done")]);
        let outcome = project.run(&[flag, "go"]);
        assert!(!project.beside("ran").exists(), "{flag}: {}", outcome.stderr);
    }
}

#[test]
fn a_repository_that_lacks_nothing_shows_no_other_one() {
    for tier in ["T3", "T2"] {
        let project = with_build(Project::new(), "git log --all -p\n").file("a", "1\n").git();
        project.run_git(&["init", "-q", "../other"]);
        append(&project.beside("other/secret"), "OTHER-SECRET\n");
        project.run_git(&["-C", "../other", "add", "-A"]);
        project.run_git(&["-C", "../other", "commit", "-qm", "other"]);
        let commit = project.run_git(&["-C", "../other", "rev-parse", "HEAD"]).trim().to_owned();
        append(&project.root().join(".git/objects/info/alternates"), "../../../other/.git/objects\n");
        let show = format!("git show {commit}");
        let Some((answers, ..)) = run_in(tier, project, &[], &[&show, "git log --oneline", "sh build.sh"]) else {
            continue;
        };
        assert!(!answers.concat().contains("OTHER-SECRET"), "{tier}: {answers:?}");
        assert!(answers[1].contains("start") && answers[2].contains("start"), "{tier}: {answers:?}");
    }
}

#[test]
fn a_repository_that_lacks_something_shows_of_another_one_what_it_names_itself() {
    const NOTHING: &str = "1234567890123456789012345678901234567890";
    let broken = [
        format!("mkdir -p .git/refs/x; echo {NOTHING} > .git/refs/x/y"),
        format!("echo '{NOTHING} refs/heads/zz' >> .git/packed-refs"),
        format!(
            "T=$(printf '100644 blob {NOTHING}\\tq\\n' | git mktree --missing); \
             git update-ref refs/heads/main $(git commit-tree -p HEAD -m start $T)"
        ),
        format!(
            "T=$(printf '040000 tree {NOTHING}\\tq\\n' | git mktree --missing); \
             git update-ref refs/heads/main $(git commit-tree -p HEAD -m start $T)"
        ),
        // An object that anybody knows, and that only the other repository has.
        "T=$(printf '100644 blob e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\\tq\\n' | git mktree --missing); \
         git update-ref refs/heads/main $(git commit-tree -p HEAD -m start $T)"
            .to_owned(),
    ];
    for tier in ["T3", "T2", "T1"] {
        for script in &broken {
            let project = Project::new().file("a", "1\n").git();
            project.run_git(&["init", "-q", "../other"]);
            append(&project.beside("other/secret"), "OTHER-SECRET\n");
            append(&project.beside("other/empty"), "");
            project.run_git(&["-C", "../other", "add", "-A"]);
            project.run_git(&["-C", "../other", "commit", "-qm", "other"]);
            let commit = project.run_git(&["-C", "../other", "rev-parse", "HEAD"]).trim().to_owned();
            append(&project.root().join(".git/objects/info/alternates"), "../../../other/.git/objects\n");
            project.run_git(&["-c", &format!("alias.x=!{script}"), "x"]);
            let (short, middle) = (format!("git show {}", &commit[..4]), format!("git log -p {}", &commit[..7]));
            let commands = [short.as_str(), middle.as_str(), &format!("git show {commit}"), "cat a"];
            let Some((answers, ..)) = run_in(tier, project, &[], &commands) else { continue };
            assert!(!answers.concat().contains("OTHER-SECRET"), "{tier} {script}: {answers:?}");
            assert!(answers[3].contains("Stdout: 1"), "{tier} {script}: {answers:?}");
        }
    }
}

#[test]
fn what_a_clone_borrows_is_there_and_nothing_else_of_where_it_comes_from() {
    for tier in ["T3", "T2", "T1"] {
        for how in
            [&["clone", "-q", "-s", "../other", "."][..], &["clone", "-q", "--reference", "../other", "../mirror", "."]]
        {
            let project = Project::new();
            project.run_git(&["init", "-q", "-b", "main", "../other"]);
            append(&project.beside("other/a"), "one\n");
            project.run_git(&["-C", "../other", "add", "-A"]);
            project.run_git(&["-C", "../other", "commit", "-qm", "start"]);
            project.run_git(&["clone", "-q", "--bare", "../other", "../mirror"]);
            project.run_git(how);
            append(&project.beside("other/secret"), "OTHER-SECRET\n");
            project.run_git(&["-C", "../other", "add", "-A"]);
            project.run_git(&["-C", "../other", "commit", "-qm", "later"]);
            let commit = project.run_git(&["-C", "../other", "rev-parse", "HEAD"]).trim().to_owned();
            let show = format!("git show {commit}");
            let commands = ["git log -p", "git show HEAD:a", "git status --short", &show];
            let Some((answers, ..)) = run_in(tier, project, &[], &commands) else { continue };
            assert!(answers[0].contains("+one") && answers[1].contains("one"), "{tier} {how:?}: {answers:?}");
            assert!(!answers.concat().contains("OTHER-SECRET"), "{tier} {how:?}: {answers:?}");
        }
    }
}

#[test]
fn a_replaced_object_shows_nothing_that_may_not_be_read() {
    for tier in ["T3", "T2", "T1", "off"] {
        for packed in [false, true] {
            let project = Project::new().file("f.txt", "one\n").file(".env", "PASS=TOPSEC\n").git();
            let blob = |path: &str| project.run_git(&["rev-parse", &format!("HEAD:{path}")]).trim().to_owned();
            project.run_git(&["replace", &blob("f.txt"), &blob(".env")]);
            if packed {
                project.run_git(&["pack-refs", "--all"]);
            }
            let commands = ["git show HEAD:f.txt", "git log -p -- f.txt", "git cat-file -p HEAD:f.txt", "cat f.txt"];
            let flags: &[&str] = if tier == "off" { &["--sandbox=off"] } else { &[] };
            let Some((answers, ..)) = run_in(tier, project, flags, &commands) else { continue };
            assert!(!answers.concat().contains("TOPSEC"), "{tier} {packed}: {answers:?}");
            assert!(answers[0].contains("one"), "{tier} {packed}: {answers:?}");
        }
    }
}

#[test]
fn a_program_finds_no_repository_that_keeps_what_may_not_be_read_for_another_work_tree() {
    for tier in ["T3", "T2"] {
        for staged in [".env", "plain"] {
            let project = with_build(Project::new(), PRINTS).policy(POLICY).git();
            project.run_git(&["worktree", "add", "-q", "--detach", "../tree"]);
            let tree = project.beside("tree").display().to_string();
            std::fs::write(project.beside("tree").join(staged), "TOP-SECRET\n").unwrap();
            project.run_git(&["-C", &tree, "add", "-f", staged]);
            let build = "sh build.sh";
            let Some((answers, ..)) = run_in(tier, project, &[], &[build]) else { continue };
            assert_eq!(answers[0].contains("seen-"), staged == "plain", "{tier} {staged}: {answers:?}");
        }
    }
}

#[test]
fn no_forged_name_shows_a_file_without_its_path() {
    for tier in ["T3", "T2", "T1", "off"] {
        let project = Project::new().policy(POLICY).file("f.txt", "one\n").file(".env", "PASS=TOPSEC\n").git();
        let blob = project.run_git(&["rev-parse", "HEAD:.env"]).trim().to_owned();
        let git = project.root().join(".git");
        let head = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
        let line = |id: &str| format!("{id} {id} a <a@b> 1 +0000\tforged\n");
        for log in ["logs/HEAD", "logs/refs/heads/main", "logs/refs/stash"] {
            append(&git.join(log), &format!("{}{}", line(&blob), line(&head)));
        }
        std::fs::write(git.join("refs/stash"), format!("{head}\n")).unwrap();
        std::fs::write(git.join("ORIG_HEAD"), format!("{blob}\n")).unwrap();
        // Git lists no types where a reference names what is not there.
        std::fs::write(git.join("refs/heads/lost"), "1111111111111111111111111111111111111111\n").unwrap();
        std::fs::write(git.join("refs/tags/blob"), format!("{blob}\n")).unwrap();
        let tag = format!("object {blob}\ntype commit\ntag lie\ntagger a <a@b> 1 +0000\n\nx\n");
        std::fs::write(project.beside("tag"), tag).unwrap();
        let tag = project.beside("tag").display().to_string();
        let tag = project.run_git(&["hash-object", "-t", "tag", "-w", "--literally", &tag]);
        std::fs::write(git.join("refs/tags/lie"), tag).unwrap();
        let commands = [
            "git show HEAD@{1}",
            "git show main@{1}",
            "git show @{1}",
            "git show stash@{1}",
            "git rev-parse HEAD@{1}",
            "git stash list -p",
            "git log -g -p",
            "git reflog",
            "git show ORIG_HEAD",
            "git show blob",
            "git show lie",
            "git log lie",
            "git rev-parse lie^{commit}",
            "git rev-parse lie~1",
            "git log --all --oneline",
            "git show HEAD:f.txt",
        ];
        let flags: &[&str] = if tier == "off" { &["--sandbox=off"] } else { &[] };
        let Some((answers, ..)) = run_in(tier, project, flags, &commands) else { continue };
        for (command, answer) in commands.iter().zip(&answers) {
            let shows = answer.contains("TOPSEC") || answer.contains(&blob[..7]);
            assert!(!shows, "{tier} {command}: {answer}");
        }
        assert!(answers.last().unwrap().contains("one"), "{tier}: {answers:?}");
        assert!(answers[0].contains("start"), "{tier}: {answers:?}");
    }
}

#[test]
fn no_process_of_the_user_is_reached_through_a_directory_of_programs() {
    const REACH: &str = "import os, socket, sys\nat = sys.argv[1]\nos.listdir(at)\ntry:\n    s = socket.socket(socket.AF_UNIX); \
        s.connect(at + '/socket'); s.send(b'SENT')\nexcept OSError as error: print(error)\ntry: os.write(os.open(at + \
        '/fifo', os.O_RDWR | os.O_NONBLOCK), b'SENT')\nexcept OSError as error: print(error)\n";
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no python3");
        return;
    }
    for tier in ["T3", "T2"] {
        for place in ["tools/bin", ".rustup/x", ".cargo/bin", ".local/bin"] {
            let project = Project::new();
            let at = project.home().canonicalize().unwrap().join(place);
            std::fs::create_dir_all(&at).unwrap();
            append(&at.join("tool"), "#!/bin/sh\necho TOOL\n");
            std::fs::set_permissions(at.join("tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let listener = std::os::unix::net::UnixListener::bind(at.join("socket")).unwrap();
            listener.set_nonblocking(true).unwrap();
            nix::unistd::mkfifo(&at.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
            let flags = nix::fcntl::OFlag::O_RDWR | nix::fcntl::OFlag::O_NONBLOCK;
            let fifo = nix::fcntl::open(&at.join("fifo"), flags, nix::sys::stat::Mode::empty()).unwrap();
            let path = format!("{}:{}", at.display(), std::env::var("PATH").unwrap());
            let script = format!("tool; python3 reach.py {}; echo built\n", at.display());
            let project = with_build(project, &script).file("reach.py", REACH).file("Cargo.toml", "").git();
            let Some((answers, ..)) = run_in(tier, project.env("PATH", &path), &[], &["sh build.sh"]) else { continue };
            assert!(answers[0].contains("TOOL") && answers[0].contains("built"), "{tier} {place}: {answers:?}");
            let mut sent = std::fs::File::from(fifo);
            let got = std::io::Read::read(&mut sent, &mut [0; 9]).unwrap_or(0);
            assert_eq!((listener.accept().is_err(), got), (true, 0), "{tier} {place}: {answers:?}");
        }
    }
}
