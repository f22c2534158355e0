//! Makes every kind of system call that writes fail, in each command that writes: the tree is as before or as after,
//! never between, and the next command works without the fault.

use std::path::PathBuf;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::apply::leftovers;
use crate::support::{Outcome, Project, Reply, call, say};

/// A system call by its name for messages, what it fails with, and the bit of an argument without which it works.
pub(crate) type Fault = (&'static str, &'static [i64], i32, Option<(u8, u64)>);

/// `open` for the sake of a new file.
const CREATES: u64 = libc::O_CREAT as u64;

const FAULTS: &[Fault] = &[
    ("making files", &[libc::SYS_openat], libc::ENOSPC, Some((2, CREATES))),
    ("making folders", &[libc::SYS_mkdirat], libc::ENOSPC, None),
    ("renaming", &[libc::SYS_renameat, libc::SYS_renameat2], libc::EIO, None),
    ("removing", &[libc::SYS_unlinkat], libc::EACCES, None),
    ("making links", &[libc::SYS_symlinkat, libc::SYS_linkat], libc::EPERM, None),
    ("flushing", &[libc::SYS_fsync, libc::SYS_fdatasync], libc::EIO, None),
    ("changing modes", &[libc::SYS_fchmod, libc::SYS_fchmodat], libc::EPERM, None),
    ("setting times", &[libc::SYS_utimensat], libc::EPERM, None),
    ("setting lengths", &[libc::SYS_ftruncate], libc::EFBIG, None),
    ("copying in the kernel", &[libc::SYS_copy_file_range, libc::SYS_sendfile], libc::EIO, None),
    ("locking", &[libc::SYS_flock], libc::ENOLCK, None),
    ("scattered writing", &[libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2], libc::ENOSPC, None),
];

/// The calls of old that take no directory.
#[cfg(target_arch = "x86_64")]
const OLD: &[(&str, &[i64])] = &[
    ("making folders", &[libc::SYS_mkdir]),
    ("renaming", &[libc::SYS_rename]),
    ("removing", &[libc::SYS_unlink, libc::SYS_rmdir]),
    ("making links", &[libc::SYS_symlink, libc::SYS_link]),
    ("changing modes", &[libc::SYS_chmod]),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[(&str, &[i64])] = &[];

fn filter((name, calls, errno, bit): &Fault) -> BpfProgram {
    let old = OLD.iter().filter(|(of, _)| of == name).flat_map(|(_, calls)| calls.iter());
    let rules = calls.iter().chain(old).map(|number| {
        let rules = bit.map(|(argument, bit)| {
            let condition =
                SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bit), bit).unwrap();
            vec![SeccompRule::new(vec![condition]).unwrap()]
        });
        (*number, rules.unwrap_or_default())
    });
    let fails = SeccompAction::Errno(u32::try_from(*errno).unwrap());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    SeccompFilter::new(rules.collect(), SeccompAction::Allow, fails, arch).unwrap().try_into().unwrap()
}

/// Runs the program under faults: the filters are the thread's, and what it starts inherits them.
pub(crate) fn qwen(project: &Project, faults: &[&Fault], arguments: &[&str]) -> Outcome {
    let programs: Vec<BpfProgram> = faults.iter().map(|fault| filter(fault)).collect();
    std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            programs.iter().for_each(|program| seccompiler::apply_filter(program).unwrap());
            project.spawn(arguments)
        });
        project.finish(started.join().unwrap())
    })
}

fn project() -> Project {
    let model = || {
        [
            call("edit", serde_json::json!({"file_path": "a.txt", "old_string": "one", "new_string": "ONE"})),
            call("write_file", serde_json::json!({"file_path": "new/deep/c.txt", "content": "c\n"})),
            call("edit", serde_json::json!({"file_path": "b.txt", "old_string": "two", "new_string": "TWO"})),
            say("done"),
        ]
    };
    let replies: Vec<Reply> = model().into_iter().chain(model()).collect();
    Project::new().file("a.txt", "one\n").file("b.txt", "two\n").git().model(replies)
}

const BEFORE: [&str; 3] = ["one\n", "two\n", ""];
const AFTER: [&str; 3] = ["ONE\n", "TWO\n", "c\n"];

fn now(project: &Project) -> [String; 3] {
    ["a.txt", "b.txt", "new/deep/c.txt"]
        .map(|path| std::fs::read_to_string(project.root().join(path)).unwrap_or_default())
}

/// Asserts that a command did all of its work or nothing of it, and said which.
fn assert_whole(project: &Project, what: &str, outcome: &Outcome, done: [&str; 3], undone: [&str; 3]) {
    assert!(matches!(outcome.code, 0 | 1 | 63 | 78), "{what}: exit {}: {}", outcome.code, outcome.stderr);
    assert!(!outcome.stderr.contains("panicked"), "{what}: {}", outcome.stderr);
    let expected = if outcome.code == 0 { done } else { undone };
    assert_eq!(now(project), expected, "{what}: exit {}: {}", outcome.code, outcome.stderr);
}

#[test]
fn a_delivery_and_its_undoing_are_whole_or_not_at_all_whatever_fails() {
    for fault in FAULTS {
        for flag in ["--apply", "--commit"] {
            let what = format!("{} fails, {flag}", fault.0);
            let project = project();
            let outcome = qwen(&project, &[fault], &["run", flag, "change it"]);
            assert_whole(&project, &what, &outcome, AFTER, BEFORE);
            let said = outcome.stdout + &outcome.stderr;
            if said.contains("git reset") || said.contains("was left over") {
                // Git's own locks stay where nothing can be removed, and we can refuse more than that.
                assert_eq!((fault.0, flag), ("removing", "--commit"), "{said}");
                continue;
            }
            if outcome.code != 0 {
                // A delivery that could not even be taken back is put right by the next run, which says so.
                let mut again = project.run(&[flag, "change it"]);
                if again.stderr.contains("was interrupted") {
                    assert_eq!((again.code, now(&project).as_slice()), (63, BEFORE.map(str::to_owned).as_slice()));
                    again = project.run(&[flag, "change it"]);
                }
                assert_eq!(again.code, 0, "{what}, again: {}", again.stderr);
            }
            assert_eq!(now(&project), AFTER, "{what}");
            // What a delivery could not remove is named, and goes with the next command.
            let is_named = outcome.code == 0 && said.contains("cannot remove");
            assert!(is_named || leftovers(&project).is_empty(), "{what}");
            assert_eq!(project.run_git(&["fsck", "--no-progress", "--no-dangling"]), "", "{what}");

            let undone = qwen(&project, &[fault], &["undo"]);
            if undone.code == 63 && undone.stdout.contains("cannot remove") {
                assert_eq!(now(&project), BEFORE, "{what}, undo");
            } else {
                assert_whole(&project, &format!("{what}, undo"), &undone, BEFORE, AFTER);
            }
            if undone.code != 0 {
                let again = project.qwen(&["undo"]);
                assert_eq!(again.code, 0, "{what}, undo again: {}", again.stderr);
            }
            assert_eq!(now(&project), BEFORE, "{what}");
            assert_eq!(leftovers(&project), Vec::<PathBuf>::new(), "{what}");
        }
    }
}

/// Without it there are no namespaces: T2.
const UNSHARE: Fault = ("unsharing", &[libc::SYS_unshare], libc::EPERM, None);

/// Landlock's own calls; without them as well there is a filter of system calls alone: T1.
const LANDLOCK: Fault = (
    "Landlock",
    &[libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self],
    libc::ENOSYS,
    None,
);

/// Returns the faults that leave a machine with this tier at most.
pub(crate) fn tier_faults(tier: &str) -> &'static [&'static Fault] {
    const BOTH: &[&Fault] = &[&UNSHARE, &LANDLOCK];
    match tier {
        "T1" => BOTH,
        "T2" => &BOTH[..1],
        _ => &[],
    }
}

/// Runs commands as [`run_in`] does, in a project of one file; `{root}` is its directory.
fn commands_in(tier: &str, flags: &[&str], commands: &[&str]) -> Option<(Vec<String>, Project, Outcome)> {
    let project = Project::new().file("a.txt", "one\n").git();
    let root = project.root().canonicalize().unwrap().display().to_string();
    let commands: Vec<String> = commands.iter().map(|command| command.replace("{root}", &root)).collect();
    run_in(tier, project, flags, &commands.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Lets the model run commands one after the other in a tier; returns what it read of each. `None`: this machine does
/// not give the tier.
pub(crate) fn run_in(
    tier: &str,
    project: Project,
    flags: &[&str],
    commands: &[&str],
) -> Option<(Vec<String>, Project, Outcome)> {
    let calls = commands.iter().map(|command| call("run_shell_command", serde_json::json!({"command": command})));
    let project = project.model(calls.chain([say("done")]));
    let outcome = qwen(&project, tier_faults(tier), &[&["run"], flags, &["go"]].concat());
    if !outcome.stderr.contains(&format!("sandbox {tier}")) && !flags.contains(&"--sandbox=off") {
        eprintln!("SKIPPED: this machine does not give {tier}: {}", outcome.stderr);
        return None;
    }
    let requests = project.server().requests();
    let answers = (0..commands.len()).map(|at| {
        let messages = requests[at + 1]["messages"].as_array().unwrap();
        messages.last().unwrap()["content"].to_string()
    });
    Some((answers.collect(), project, outcome))
}

#[test]
fn each_tier_runs_what_it_can_hold_and_says_what_it_runs() {
    let commands =
        ["cat a.txt | wc -l", "git status --short", "sed -n 1p a.txt", "cat a.txt > b.txt", "timeout 5 cat a.txt"];
    for tier in ["T3", "T2", "T1"] {
        let Some((answers, project, outcome)) = commands_in(tier, &["--yolo"], &commands) else { continue };
        for (at, (command, answer)) in commands.iter().zip(&answers).enumerate() {
            let refused = answer.contains("simple reading commands");
            assert_eq!(refused, tier == "T1" && at > 1, "{tier} `{command}`: {answer}");
        }
        assert!(answers[0].contains("Stdout: 1"), "{tier}: {}", answers[0]);
        assert_eq!(outcome.stderr.contains("only simple reading commands run"), tier == "T1", "{}", outcome.stderr);
        assert!(
            tier != "T1" || answers[2].contains("use Landlock (Linux 6.2 or newer) or `--sandbox off`"),
            "{answers:?}"
        );
        assert_eq!(project.read("a.txt"), "one\n");
    }
}

#[test]
fn below_t2_a_check_that_is_no_plain_reader_ends_the_run_before_the_first_request() {
    for (check, code) in [("grep -q one a.txt", 0), ("touch b.txt", 1)] {
        let Some((_, project, outcome)) = commands_in("T1", &["--verify", check], &[]) else { return };
        assert_eq!(outcome.code, code, "{check}: {}", outcome.stderr);
        assert_eq!(project.server().requests().len(), usize::from(code == 0), "{check}");
    }
}

#[test]
fn with_the_sandbox_off_a_program_in_arguments_needs_a_rule_of_the_operator_s_own() {
    let commands = ["awk '{print $1}' a.txt", "cat a.txt > b.txt"];
    let (answers, ..) = commands_in("off", &["--yolo", "--sandbox=off"], &commands).unwrap();
    assert!(answers[0].contains("takes a program in its arguments"), "{}", answers[0]);
    assert!(answers[1].contains("Changed files: b.txt"), "{}", answers[1]);
}

#[test]
fn an_absolute_path_leads_into_the_tree_in_every_tier() {
    let commands = ["cat {root}/a.txt", "cat < {root}/a.txt", "echo {root}/a.txt"];
    for (tier, flags) in
        [("T3", &["--yolo"][..]), ("T2", &["--yolo"]), ("T1", &["--yolo"]), ("off", &["--yolo", "--sandbox=off"])]
    {
        let Some((answers, project, _)) = commands_in(tier, flags, &commands) else { continue };
        assert!(answers[..2].iter().all(|answer| answer.contains("Stdout: one")), "{tier}: {answers:?}");
        let root = project.root().canonicalize().unwrap();
        assert!(answers[2].contains(&format!("{}/a.txt", root.display())), "{tier}: {answers:?}");
    }
}

#[test]
fn what_is_remembered_of_a_machine_counts_for_no_process_with_other_limits() {
    let tier = |outcome: &Outcome| outcome.stderr.split("sandbox ").nth(1).map(|text| text[..2].to_owned()).unwrap();
    let project = Project::new().file("a.txt", "one\n").git().model([say("a"), say("b"), say("c")]);
    let first = project.run(&["hi"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let note = project.home().join(".cache/qwen/sandbox.json");
    if tier(&first) != "T3" {
        eprintln!("SKIPPED: no namespaces here");
        assert!(!note.exists());
        return;
    }
    let before = std::fs::read(&note).unwrap();
    let second = project.run(&["hi"]);
    assert_eq!((second.code, tier(&second).as_str()), (0, "T3"));
    assert_eq!(std::fs::read(&note).unwrap(), before);
    let third = qwen(&project, &[&UNSHARE], &["run", "hi"]);
    assert_eq!((third.code, tier(&third).as_str()), (0, "T2"), "{}", third.stderr);
}

#[test]
fn git_of_a_command_sets_no_time_of_the_project_s_objects_and_a_newer_one_is_no_change() {
    let again = "git rm -q --cached a.txt && git add a.txt && git commit -q --allow-empty -m again";
    let commands = [
        again,
        "echo two > a.txt && git add a.txt && git stash -q && git stash pop -q",
        "touch a.txt && git add a.txt && git gc --auto -q",
    ];
    for (tier, flags) in [("T3", &["--yolo"][..]), ("T2", &["--yolo"]), ("off", &["--yolo", "--sandbox=off"])] {
        for commands in [&commands[..2], &commands] {
            let project = Project::new().file("a.txt", "one\n").git();
            let objects = project.root().join(".git/objects");
            let listed = std::process::Command::new("find").arg(&objects).args(["-type", "f"]).output().unwrap();
            let files: Vec<PathBuf> = String::from_utf8(listed.stdout).unwrap().lines().map(PathBuf::from).collect();
            let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
            files.iter().for_each(|file| std::fs::File::open(file).unwrap().set_modified(old).unwrap());
            let flags = [flags, &["--dry-run"]].concat();
            let Some((answers, _project, outcome)) = run_in(tier, project, &flags, commands) else { continue };
            assert_eq!(outcome.code, 0, "{tier}: {}\n{answers:?}", outcome.stderr);
            assert!(answers.iter().all(|answer| answer.contains("Exit Code: 0")), "{tier}: {answers:?}");
            let is_old = |file: &PathBuf| file.metadata().unwrap().modified().unwrap() == old;
            let kept = files.iter().all(is_old);
            assert!(files.len() > 2 && (kept || tier == "off" || tier == "T2" && commands.len() > 2), "{tier}");
        }
    }
}

#[test]
fn an_open_network_leads_to_no_local_socket_of_the_machine_with_or_without_landlock() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let name = format!("qwen-test-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let script = format!(
        "import socket\nwith socket.socket(socket.AF_INET): print('open')\n\
         try: socket.socket(socket.AF_UNIX).connect('\\0{name}'); print('reached')\nexcept OSError as e: print(e)\n"
    );
    for faults in [&[][..], &[&LANDLOCK]] {
        let asks = call("run_shell_command", serde_json::json!({"command": "python3 a.py"}));
        let project = Project::new().file("a.py", &script).git().model([asks, say("done")]);
        let outcome = qwen(&project, faults, &["run", "--yolo", "go"]);
        if !outcome.stderr.contains("sandbox T3") {
            return eprintln!("SKIPPED: this machine does not give T3: {}", outcome.stderr);
        }
        let requests = project.server().requests();
        let answer = requests[1]["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
        assert!(answer.contains("open") && !answer.contains("reached"), "{}: {answer}", faults.len());
    }
}
