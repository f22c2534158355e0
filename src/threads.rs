//! Uses threads where available: a limit on processes makes work slower, never wrong.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// Maximum threads for one piece of work.
const MOST: usize = 8;

/// Runs the same work on this thread and on as many others as there are cores (at most 8, at most `most` in all) and as
/// the system grants, and returns their results. A panic in one of them is raised again in this thread.
pub fn on_all_cores<T: Send>(most: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST).min(most);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map_while(|_| Builder::new().spawn_scoped(scope, &work).ok()).collect();
        let mut made = vec![work()];
        let joined = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        made.extend(joined);
        made
    })
}

/// Runs blocking work on a thread of its own, so that timers and signals are served meanwhile; on this thread where the
/// system grants no other. The error is the work's panic.
pub async fn off_the_event_loop<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::Result<T> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    // A thread that cannot be made takes its closure with it: the work waits where both can reach it.
    let work = Arc::new(Mutex::new(Some(work)));
    let theirs = Arc::clone(&work);
    let started = Builder::new().spawn(move || {
        if let Some(work) = take(&theirs) {
            // The receiver may be gone.
            let _gone = done.send(catch_unwind(AssertUnwindSafe(work)));
        }
    });
    match started {
        Ok(_) => outcome.await.expect("the thread sends what its work made, or its panic"),
        Err(_) => {
            let work = take(&work).expect("no thread has taken the work");
            catch_unwind(AssertUnwindSafe(work))
        }
    }
}

fn take<W>(work: &Mutex<Option<W>>) -> Option<W> {
    work.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_whether_or_not_there_are_threads() {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let parts = on_all_cores(64, || {
            std::iter::from_fn(|| {
                let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                (number < 100).then_some(number)
            })
            .count()
        });
        assert_eq!(parts.into_iter().sum::<usize>(), 100);
        assert_eq!(on_all_cores(0, || 1), [1]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_panic_off_the_event_loop_reaches_who_waits() {
        assert_eq!(off_the_event_loop(|| 7).await.ok(), Some(7));
        assert!(off_the_event_loop(|| -> u8 { panic!("made by a test") }).await.is_err());
    }
}
