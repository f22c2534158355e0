//! Tests limits of the system (`ulimit`): a result object, or one clear line, and a documented exit code.

use std::process::{Command, Stdio};

use crate::support::{Project, say};

#[test]
fn under_every_limit_the_program_ends_with_a_result_or_one_line_and_a_documented_code() {
    // With fewer files than these the loader fails.
    let limits = ["-n 5", "-n 6", "-n 7", "-n 8", "-n 12", "-n 16", "-n 24", "-n 40", "-s 64", "-s 512", "-f 0"];
    let more = ["-v 100000", "-v 400000", "-v 4000000", "-u 1", "-l 0"];
    for limit in limits.into_iter().chain(more) {
        for arguments in [&["run", "-o", "result", "hi"][..], &["run", "--apply", "hi"], &["undo"], &["--nonsense"]] {
            let project = Project::new().file("a.txt", "one\n").git().model([say("done")]);
            let before = project.tree();
            let plain = project.command(&[]);
            let mut command = Command::new("bash");
            command.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "bash"]).arg(plain.get_program());
            command.args(arguments).current_dir(project.root()).env_clear();
            for (name, value) in plain.get_envs() {
                command.env(name, value.unwrap_or_default());
            }
            let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let outcome = project.finish(child);
            let what = format!("{limit} {arguments:?}: {} {}{}", outcome.code, outcome.stdout, outcome.stderr);
            assert!([0, 1, 2, 44, 63, 75].contains(&outcome.code), "{what}");
            assert!(!outcome.stderr.contains("panicked"), "{what}");
            let is_result = || serde_json::from_str::<serde_json::Value>(&outcome.stdout).is_ok();
            let errors = outcome.stderr.lines().filter(|line| line.starts_with("error: ")).count();
            assert!(outcome.code == 0 || is_result() || errors == 1, "{what}");
            assert_eq!(project.tree(), before, "{what}");
        }
    }
}
