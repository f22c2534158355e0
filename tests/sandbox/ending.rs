//! Nothing outlives a command, and no command outlives the run.

use std::time::Instant;

use super::*;

#[test]
fn the_time_is_kept_and_the_output_so_far_is_shown() {
    let place = Place::new();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let mut request = place.request();
    request.timeout = Duration::from_millis(300);
    let output = run(&sandbox, &script("echo before; sleep 1000 & echo $! > child; wait"), request);
    assert!(output.timed_out);
    assert_eq!(text(&output.stdout), "before\n");
    assert!(!lives(&wait_for(&place.at("lent/child"))));
}

#[test]
fn a_command_that_ignores_the_request_to_end_is_killed() {
    let place = Place::new();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let mut request = place.request();
    request.timeout = Duration::from_millis(200);
    let output = run(&sandbox, &script("trap '' TERM; echo $$ > pid; while :; do sleep 1000; done"), request);
    assert!(output.timed_out && output.exit_code.is_none());
    assert!(!lives(&wait_for(&place.at("lent/pid"))));
}

#[test]
fn a_survivor_that_detached_itself_twice_is_ended_and_never_waited_for() {
    let place = Place::new();
    for tier in [Tier::T0, Tier::T2, Tier::T3] {
        let Some(sandbox) = place.sandbox(tier) else { continue };
        // It holds the output open, has its own session, and its parents are gone.
        let text_of = "( setsid bash -c '(trap \"\" TERM HUP; echo $BASHPID > daemon; sleep 1000) & exit' & ); \
                       while ! [ -s daemon ]; do sleep 0.01; done; echo done";
        let begin = Instant::now();
        let output = run(&sandbox, &script(text_of), place.request());
        assert_eq!((text(&output.stdout).as_str(), output.exit_code), ("done\n", Some(0)), "{tier:?}");
        assert!(begin.elapsed() < Duration::from_secs(20), "it was waited for");
        assert!(output.notes.iter().any(|note| note.contains("left over")), "{tier:?} {:?}", output.notes);
        if tier != Tier::T3 {
            assert!(!lives(&wait_for(&place.at("lent/daemon"))), "{tier:?}");
        }
        assert_eq!(processes_in(&place.at("lent")), 0, "{tier:?}");
        std::fs::remove_file(place.at("lent/daemon")).unwrap();
    }
}

#[test]
fn dropping_the_future_ends_the_command_at_once() {
    let place = Place::new();
    for tier in [Tier::T0, Tier::T2, Tier::T3] {
        let Some(sandbox) = place.sandbox(tier) else { continue };
        wait(async {
            let plan = script("trap '' TERM; setsid sleep 1000 & echo $! > pid; wait; sleep 1000");
            let mut running = Box::pin(sandbox.run(&plan, place.request()));
            loop {
                let tick = tokio::time::sleep(Duration::from_millis(5));
                tokio::select! { output = &mut running => panic!("it ended by itself: {output:?}"), () = tick => {} }
                if std::fs::read_to_string(place.at("lent/pid")).is_ok_and(|text| text.ends_with('\n')) {
                    break;
                }
            }
            assert!(processes_in(&place.at("lent")) >= 2);
            drop(running);
        });
        let begin = Instant::now();
        while processes_in(&place.at("lent")) > 0 {
            assert!(begin.elapsed() < Duration::from_secs(5), "{tier:?}: it lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        aloud(&format!("{tier:?}: ended {} ms after the drop", begin.elapsed().as_millis()));
        std::fs::remove_file(place.at("lent/pid")).unwrap();
    }
}

#[test]
fn background_commands_live_until_the_run_ends() {
    let place = Place::new();
    for tier in [Tier::T0, Tier::T2, Tier::T3] {
        let Some(sandbox) = place.sandbox(tier) else { continue };
        wait(async {
            let mut request = place.request();
            request.background = true;
            let plan = script("echo serving; echo ready > ready; sleep 1000");
            let started = sandbox.run(&plan, request).await.unwrap();
            assert_eq!((started.exit_code, started.background_pids.len()), (None, 1));
            let ready = place.at("lent/ready");
            while std::fs::read_to_string(&ready).is_err() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert!(processes_in(&place.at("lent")) > 0);
            let ended = sandbox.end().await;
            assert_eq!(ended.len(), 1);
            assert_eq!(text(&ended[0].stdout), "serving\n");
            assert_eq!(processes_in(&place.at("lent")), 0);
            std::fs::remove_file(ready).unwrap();
        });
    }
}

/// Counts the processes whose working directory is below a folder.
fn processes_in(folder: &Path) -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
        .count()
}
