//! Ends a run that does not notice that its time is used up, because a call computes without a pause.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use super::signals::{self, UNNOTICED, WRITTEN};
use crate::exit::Exit;
use crate::git::Whole;

/// Watches the time of a run until it is dropped.
pub struct Watch(#[expect(dead_code, reason = "dropping it ends the thread")] Sender<()>);

/// Watches a run that has this much time left. `write` writes its ending and returns the exit code; it is called in
/// another thread.
pub fn watch(left: Duration, write: impl FnOnce() -> Exit + Send + 'static) -> Watch {
    watch_and(left, write, signals::end_process)
}

// `end` is called with the exit code of a run that did not notice.
fn watch_and(
    left: Duration,
    write: impl FnOnce() -> Exit + Send + 'static,
    end: impl FnOnce(Exit) + Send + 'static,
) -> Watch {
    let (watched, noticed) = channel();
    let mut patience = left.saturating_add(UNNOTICED);
    let work = move || {
        while noticed.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) && !signals::is_noticed() {
            if Whole::no_more() {
                let (done, written) = channel();
                let _none = Builder::new().spawn(move || done.send(write()));
                return end(written.recv_timeout(WRITTEN).unwrap_or(Exit::Budget));
            }
            patience = UNNOTICED;
        }
    };
    // Without a thread the run ends when the call does.
    let _none = Builder::new().name("deadline".to_owned()).stack_size(256 << 10).spawn(work);
    Watch(watched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_computes_past_its_time_is_ended_with_what_it_wrote() {
        let (ended, exits) = channel();
        let watch = watch_and(Duration::ZERO, || Exit::Schema, move |exit| ended.send(exit).unwrap());
        // This thread waits, and nothing else tells the watch that the time is up.
        assert_eq!(exits.recv(), Ok(Exit::Schema));
        drop(watch);
    }

    #[test]
    fn a_run_that_ended_in_time_is_left_alone() {
        let (ended, exits) = channel::<Exit>();
        drop(watch_and(Duration::ZERO, || Exit::Budget, move |exit| ended.send(exit).unwrap()));
        assert!(exits.recv().is_err(), "the watch ended a run that was over");
    }
}
