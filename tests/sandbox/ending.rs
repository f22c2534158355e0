//! Tests that nothing outlives a command, and no command outlives the run.

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
    assert!(!lives(&wait_for(&place.at("tree/child"))));
}

#[test]
fn a_command_that_ignores_the_request_to_end_is_killed() {
    let place = Place::new();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let mut request = place.request();
    request.timeout = Duration::from_millis(200);
    let output = run(&sandbox, &script("trap '' TERM; echo $$ > pid; while :; do sleep 1000; done"), request);
    assert!(output.timed_out && output.exit_code.is_none());
    assert!(!lives(&wait_for(&place.at("tree/pid"))));
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
            assert!(!lives(&wait_for(&place.at("tree/daemon"))), "{tier:?}");
        }
        assert_eq!(processes_in(&place.at("tree")), 0, "{tier:?}");
        std::fs::remove_file(place.at("tree/daemon")).unwrap();
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
                if std::fs::read_to_string(place.at("tree/pid")).is_ok_and(|text| text.ends_with('\n')) {
                    break;
                }
            }
            assert!(processes_in(&place.at("tree")) >= 2);
            drop(running);
        });
        let begin = Instant::now();
        while processes_in(&place.at("tree")) > 0 {
            assert!(begin.elapsed() < Duration::from_secs(5), "{tier:?}: it lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        aloud(&format!("{tier:?}: ended {} ms after the drop", begin.elapsed().as_millis()));
        std::fs::remove_file(place.at("tree/pid")).unwrap();
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
            let ready = place.at("tree/ready");
            while std::fs::read_to_string(&ready).is_err() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert!(processes_in(&place.at("tree")) > 0);
            let ended = sandbox.end().await;
            assert_eq!(ended.len(), 1);
            assert_eq!(text(&ended[0].stdout), "serving\n");
            assert_eq!(processes_in(&place.at("tree")), 0);
            std::fs::remove_file(ready).unwrap();
        });
    }
}

#[test]
fn commands_end_with_us_even_when_we_are_killed() {
    let place = Place::new();
    for tier in [Tier::T0, Tier::T2, Tier::T3] {
        if place.sandbox(tier).is_none() {
            continue;
        }
        let us = std::env::current_exe().unwrap();
        let mut us = std::process::Command::new(us)
            .args(["--exact", "sandbox::ending::somebody_who_is_killed", "--ignored"])
            .env("QWEN_TEST_PLACE", place.at(""))
            .env("QWEN_TEST_TIER", tier.name())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        wait_for(&place.at("tree/pid"));
        assert!(processes_in(&place.at("tree")) >= 2, "{tier:?}");
        us.kill().unwrap();
        us.wait().unwrap();
        let begin = Instant::now();
        while processes_in(&place.at("tree")) > 0 {
            assert!(begin.elapsed() < Duration::from_secs(5), "{tier:?}: it lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::remove_file(place.at("tree/pid")).unwrap();
    }
}

/// Runs a command that detaches a part of itself, until it is killed: the other side of the test above.
#[test]
#[ignore = "a part of another test"]
fn somebody_who_is_killed() {
    let Some(folder) = std::env::var_os("QWEN_TEST_PLACE").map(PathBuf::from) else { return };
    let tier = [Tier::T0, Tier::T2, Tier::T3];
    let tier = tier.into_iter().find(|tier| std::env::var("QWEN_TEST_TIER").as_deref() == Ok(tier.name())).unwrap();
    let place = Place::new();
    let sandbox = place.sandbox(tier).unwrap();
    let plan = script("setsid bash -c 'trap \"\" TERM HUP; sleep 1000' & sleep 0.1; echo $! > pid; sleep 1000");
    let request = RunRequest::in_folder(folder.join("tree"), Duration::from_secs(1000));
    run(&sandbox, &plan, request);
}

#[test]
fn commands_run_side_by_side() {
    let place = Place::new();
    for tier in [Tier::T0, Tier::T2, Tier::T3] {
        let Some(sandbox) = place.sandbox(tier) else { continue };
        let begin = Instant::now();
        wait(async {
            let plans: Vec<_> = (0..8).map(|n| script(&format!("echo {n}; sleep 0.05"))).collect();
            let running = plans.iter().map(|plan| sandbox.run(plan, place.request()));
            let outputs = futures_util::future::join_all(running).await;
            for (n, output) in outputs.into_iter().enumerate() {
                assert_eq!(text(&output.unwrap().stdout), format!("{n}\n"), "{tier:?}");
            }
        });
        aloud(&format!("{tier:?}: 8 commands side by side in {} ms", begin.elapsed().as_millis()));
        let begin = Instant::now();
        for _ in 0..10 {
            run(&sandbox, &pipeline(&[&["true"]]), place.request());
        }
        aloud(&format!("{tier:?}: one `true` in {} us", begin.elapsed().as_micros() / 10));
    }
}

/// Counts the processes whose working directory is below a directory.
fn processes_in(folder: &Path) -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
        .count()
}
