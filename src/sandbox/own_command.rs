//! Runs a command of the user's own settings (a hook) as the user would run it: outside the sandbox, bounded in time.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use crate::git::Programs;

/// Bytes of each stream that are kept.
const KEPT: u64 = 256 << 10;

/// The result of such a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnOutput {
    /// The exit code; `None` if a signal or the timeout ended it.
    pub exit_code: Option<i32>,
    /// The beginning of standard output.
    pub stdout: String,
    /// The beginning of standard error.
    pub stderr: String,
    /// Whether it timed out.
    pub timed_out: bool,
}

/// Kills the process group when it is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _gone = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Runs `command` by `sh -c` with `input` on standard input; it finds `programs` in its PATH. Dropping the future ends
/// the whole process group.
#[expect(clippy::disallowed_methods, reason = "what the user's own settings name is started here, beside the sandbox")]
pub async fn run_own(
    command: &str,
    programs: &Programs,
    folder: &Path,
    variables: impl IntoIterator<Item = (String, String)>,
    input: &str,
    timeout: Duration,
) -> std::io::Result<OwnOutput> {
    let shell = programs.find("sh").map_err(std::io::Error::other)?;
    let mut process = tokio::process::Command::new(shell.path());
    process.arg("-c").arg(command).current_dir(folder).env_clear().envs(variables);
    process.env("PATH", programs.path_variable());
    for (name, value) in programs.loader_variables() {
        match value {
            Some(value) => process.env(name, value),
            None => process.env_remove(name),
        };
    }
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process.process_group(0).kill_on_drop(true);
    let mut child = process.spawn()?;
    let _group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        let Some(mut stdin) = stdin else { return Ok(()) };
        match stdin.write_all(input.as_bytes()).await {
            // A command that does not read its input is fine.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    };
    let work = async {
        // Half of the input or of the output could have another meaning than the whole.
        let (fed, stdout, stderr, status) = tokio::join!(feed, beginning(stdout), beginning(stderr), child.wait());
        fed?;
        Ok(OwnOutput { exit_code: status?.code(), stdout: stdout?, stderr: stderr?, timed_out: false })
    };
    match tokio::time::timeout(timeout, work).await {
        Ok(output) => output,
        Err(_) => Ok(OwnOutput { timed_out: true, ..OwnOutput::default() }),
    }
}

/// Reads a stream to its end and keeps the beginning.
async fn beginning(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let Some(mut stream) = stream else { return Ok(String::new()) };
    let mut kept = Vec::new();
    (&mut stream).take(KEPT).read_to_end(&mut kept).await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, timeout: Duration) -> OwnOutput {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let programs = Programs::of_process(folder.path());
        runtime.block_on(run_own(command, &programs, folder.path(), [], "in", timeout)).unwrap()
    }

    #[test]
    fn input_outputs_and_exit_code_pass() {
        let output = run("cat; echo err >&2; exit 3", Duration::from_secs(60));
        assert_eq!(
            output,
            OwnOutput { exit_code: Some(3), stdout: "in".into(), stderr: "err\n".into(), timed_out: false }
        );
    }

    #[test]
    fn one_that_does_not_read_its_input_is_no_error() {
        assert_eq!(run("exit 0", Duration::from_secs(60)).exit_code, Some(0));
    }

    #[test]
    fn time_is_bounded_and_children_end_too() {
        assert!(run("sleep 600 & sleep 600", Duration::from_millis(50)).timed_out);
    }
}
