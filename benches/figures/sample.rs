//! Takes one sample: runs a program once and reads the operating system's accounting of it.
//!
//! Only a parent can read the figures of its children, and they add up over all of them. So a process of its own takes
//! each sample: this program, started again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};

/// The first argument that makes this program take one sample.
pub(crate) const WORD: &str = "--one-sample";

/// What one run cost.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// When it was started.
    pub(crate) started: SystemTime,
    pub(crate) wall: Duration,
    /// User and system time, its children's included.
    pub(crate) cpu: Duration,
    /// The largest resident size of one of its processes, in bytes.
    pub(crate) resident: u64,
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program in a directory with no environment but the given one.
pub(crate) fn take<S: AsRef<OsStr>>(
    program: &Path,
    arguments: &[S],
    folder: &Path,
    environment: &BTreeMap<String, String>,
) -> Result<Sample, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(own)
        .arg(WORD)
        .arg(program)
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let figures: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let micros = |name: &str| Duration::from_micros(figures[name].as_u64().unwrap_or_default());
    let text = |name: &str| figures[name].as_str().unwrap_or_default().to_owned();
    Ok(Sample {
        started: UNIX_EPOCH + micros("started"),
        wall: micros("wall"),
        cpu: micros("cpu"),
        resident: figures["resident"].as_u64().unwrap_or_default(),
        code: figures["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(-1),
        stdout: text("stdout"),
        stderr: text("stderr"),
    })
}

/// Takes the sample that the arguments name and prints it as JSON.
pub(crate) fn print(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let Some(program) = arguments.next() else { return ExitCode::from(2) };
    let started = SystemTime::now();
    let clock = Instant::now();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let wall = clock.elapsed();
    let (Ok(output), Ok(usage)) = (output, getrusage(UsageWho::RUSAGE_CHILDREN)) else { return ExitCode::FAILURE };
    let micros = |time: nix::sys::time::TimeVal| nix::sys::time::TimeValLike::num_microseconds(&time);
    let figures = json!({
        "started": started.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64,
        "wall": wall.as_micros() as u64,
        "cpu": micros(usage.user_time()) + micros(usage.system_time()),
        "resident": usage.max_rss() * 1024,
        "code": output.status.code().unwrap_or(-1),
        "stdout": String::from_utf8_lossy(&output.stdout),
        "stderr": String::from_utf8_lossy(&output.stderr),
    });
    println!("{figures}");
    ExitCode::SUCCESS
}
