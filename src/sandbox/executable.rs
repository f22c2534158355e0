//! Starts this program's own binary as the sandbox helper.

#![expect(clippy::disallowed_methods, reason = "the helper is started here")]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The hidden command under which `main` hands over to [`super::helper_main`].
pub const HELPER: &str = "__sandbox-exec";

/// Returns this program's executable: on Linux by the link that no update of the file can break.
pub fn own_executable() -> PathBuf {
    if cfg!(target_os = "linux") {
        return "/proc/self/exe".into();
    }
    std::env::current_exe().unwrap_or_default()
}

/// Returns the command of a part of the helper with its end of a socket. The command holds this end: drop it once it is
/// started, or the end of the helper is never seen.
pub(super) fn helper_part(helper: &Path, part: &str, socket: UnixStream) -> Command {
    let mut command = Command::new(helper);
    command.arg(HELPER).arg(part).env_clear();
    command.stdin(OwnedFd::from(socket)).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
