//! Runs the program on a pseudo-terminal.

use std::io::Read as _;
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Project;

/// Runs `qwen ARGUMENTS` on a terminal of this width; returns its exit code and every byte that it wrote.
pub(crate) fn raw(project: &Project, columns: u16, arguments: &[&str]) -> (i32, Vec<u8>) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let terminal: OwnedFd = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty()).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 500, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = project.command(arguments);
    command.stdin(std::process::Stdio::null());
    command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
    let mut child = command.spawn().expect("the program starts");
    // The last descriptor of the terminal goes with the program.
    drop(command);
    let mut bytes = Vec::new();
    // The end of a pseudo-terminal is an error on Linux.
    let _ended = std::fs::File::from(master).read_to_end(&mut bytes);
    (child.wait().unwrap().code().unwrap_or(-1), bytes)
}
