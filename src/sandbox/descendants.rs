//! Finds and ends all processes that descend from one, however they detached themselves.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

/// Returns the processes below `ancestor` (not itself), as the system's list of processes has them.
pub(super) fn of(ancestor: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent_of_running(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut ahead = vec![ancestor];
    while let Some(pid) = ahead.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        ahead.extend(below);
    }
    found
}

/// Reads the parent from a line of `/proc/PID/stat`; `None` for a process that has already ended.
///
/// The program's name is in parentheses and may hold anything, parentheses and spaces included.
fn parent_of_running(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

/// Sends a signal to each; one that is gone already is not a failure.
pub(super) fn signal(pids: &[i32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _gone = rustix::process::kill_process(pid, signal);
    }
}

/// Kills everything below this process and waits until nothing is left; returns what was killed.
///
/// The caller must be the parent of orphans (a subreaper, or the first process of a namespace). A process that forks
/// faster than its children are killed is stopped first; one that hangs in the kernel is abandoned after two seconds.
pub(super) fn end_all() -> BTreeSet<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let begin = Instant::now();
    let mut killed = BTreeSet::new();
    while begin.elapsed() < Duration::from_secs(2) {
        let mut stopped = 0;
        loop {
            let living = of(own);
            signal(&living, Signal::STOP);
            if living.len() <= stopped {
                break;
            }
            stopped = living.len();
        }
        let living = of(own);
        signal(&living, Signal::KILL);
        killed.extend(living);
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_no_child_is_left) => return killed,
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    killed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_parent() {
        assert_eq!(parent_of_running(b"12 (a) R 1 (b)) S 7 12 12 0"), Some(7));
        assert_eq!(parent_of_running(b"12 (x) Z 7 12"), None);
        assert_eq!(parent_of_running(b"nonsense"), None);
    }
}
