//! Defines the messages between this process and the helper: lines of JSON over a socket, with file descriptors next to
//! the first.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage};
use serde::{Deserialize, Serialize};

use super::tier::Tier;
use super::view::View;

/// Maximum bytes of instructions; a longer message is an error.
const MOST_BYTES: u32 = 64 << 20;

/// The instructions for the helper: what to start, and the sandbox to build around it first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Instructions {
    /// The programs of one pipeline, in order.
    pub(super) programs: Vec<Program>,
    /// Where they start, as they see it.
    pub(super) directory: OsString,
    /// Their whole environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// When they are ended.
    pub(super) timeout: Option<Duration>,
    /// What they may touch.
    pub(super) permissions: Permissions,
}

/// One program of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Program {
    /// The file to execute; `None` if the name was not found, which ends it with 127 as a shell would.
    pub(super) file: Option<OsString>,
    /// Its words, its name first.
    pub(super) words: Vec<OsString>,
}

/// The permissions of the programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Permissions {
    /// The isolation tier.
    pub(super) tier: Tier,
    /// What may be read and executed, each with all below it.
    pub(super) read: Vec<OsString>,
    /// What may be read, executed and written, each with all below it.
    pub(super) write: Vec<OsString>,
    /// Devices and other single files that may be read and written but not made or removed.
    pub(super) devices: Vec<OsString>,
    /// Whether sockets that leave the machine are open to them.
    pub(super) network: bool,
    /// Whether the last descriptor receives a listener inside the network, for the proxy.
    pub(super) proxied: bool,
    /// What must not change of files besides their contents: below T3 nothing else protects it.
    pub(super) kept: Kept,
    /// For namespaces: the file system.
    pub(super) view: Option<View>,
    /// This program's processes, which commands must not be able to signal.
    pub(super) guarded: Vec<i32>,
    /// The lowest and the highest number of its threads: to kill one ends all of it.
    pub(super) threads: Option<(i32, i32)>,
}

/// What programs must not change of the files of their user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kept {
    /// Nothing.
    Nothing,
    /// Times.
    Times,
    /// Modes, times, owners and extended attributes.
    Attributes,
}

/// The helper's reports, one line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// The sandbox is complete and the programs run.
    Started {
        /// Their process group.
        group: i32,
        /// Their process ids.
        pids: Vec<i32>,
    },
    /// The programs ended.
    Ended(End),
    /// The sandbox could not be built; nothing ran.
    Failed(String),
    /// What `probe` found.
    Probed(super::tier::Probe),
}

/// How the last program of a pipeline ended, and what happened to the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    /// Its exit code.
    pub(super) code: Option<i32>,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
    /// Whether it timed out.
    pub(super) timed_out: bool,
    /// How many processes were still running and were killed.
    pub(super) left_over: usize,
}

/// Sends the length of instructions together with descriptors; the caller writes the body after it.
pub(super) fn send_head(socket: &UnixStream, length: usize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let length = u32::try_from(length).ok().filter(|length| *length <= MOST_BYTES);
    let head = length.ok_or_else(|| io::Error::other("the command is too long"))?.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for the helper"));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&head)], &mut control, rustix::net::SendFlags::empty())?;
    Ok(())
}

/// Sends instructions with descriptors.
pub(super) fn send(socket: &UnixStream, what: &Instructions, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let body = serde_json::to_vec(what)?;
    send_head(socket, body.len(), descriptors)?;
    (&*socket).write_all(&body)
}

/// Receives instructions and the descriptors that came with them.
pub(super) fn receive(socket: &UnixStream) -> io::Result<(Instructions, Vec<OwnedFd>)> {
    let mut head = [0u8; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::WAITALL;
    let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut head)], &mut control, flags)?.bytes;
    if got != head.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    for descriptor in &descriptors {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
    }
    let length = u32::from_le_bytes(head);
    if length > MOST_BYTES {
        return Err(io::Error::other("the instructions are too long"));
    }
    let mut body = vec![0; length as usize];
    (&*socket).read_exact(&mut body)?;
    Ok((serde_json::from_slice(&body)?, descriptors))
}

/// Sends one descriptor.
#[cfg(target_os = "linux")]
pub(super) fn send_descriptor(socket: &OwnedFd, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(b"!")], &mut control, rustix::net::SendFlags::empty())?;
    Ok(())
}

/// Receives one descriptor.
pub(super) fn receive_descriptor(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut byte = [0u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut received) => received.next(),
        _ => None,
    });
    received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Sends one report.
pub(super) fn report(socket: &UnixStream, what: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    (&*socket).write_all(&line)
}

/// Returns the reports that arrive over a socket, until it is closed or something else arrives.
pub(super) fn reports(socket: &UnixStream) -> io::Result<impl Iterator<Item = Report> + use<>> {
    let lines = BufReader::new(socket.try_clone()?).lines();
    Ok(lines.map_while(|line| serde_json::from_str(&line.ok()?).ok()))
}

/// Returns standard input as the socket that the helper was started with.
pub(super) fn inherited() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}
