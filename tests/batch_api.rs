//! Tests `qwen batch --api batch`: the provider is asked for each item once, whatever happens on the way.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::batch_api::{Creation, completion};
use crate::support::batch_recipes::CLASSIFY;
use crate::support::{BatchApi, Outcome, Project, Reply, say};

/// Arguments of a batch over the tickets.
const BATCH: [&str; 9] =
    ["batch", "--items", "tickets.jsonl", "--recipe", "./classify.yaml", "--out", "out", "--api", "batch"];

fn tickets(count: usize) -> String {
    (1..=count)
        .map(|n| json!({"id": format!("T-{n}"), "text": format!("ticket number {n}.")}).to_string() + "\n")
        .collect()
}

/// A project with so many tickets, and a provider whose chat answers nothing.
fn project(count: usize) -> (Project, BatchApi) {
    with_chat(count, |_| Reply::Status(500, vec![], r#"{"error":{"message":"no chat is asked for"}}"#.into()))
}

fn with_chat(count: usize, chat: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> (Project, BatchApi) {
    let api = BatchApi::new();
    let project = Project::new().file("tickets.jsonl", tickets(count)).file("classify.yaml", CLASSIFY);
    (project.served_by(api.server(chat)), api)
}

fn run(project: &Project, more: &[&str]) -> Outcome {
    project.qwen(&[&BATCH, more].concat())
}

/// The usual answer.
fn kind(_: &str) -> Option<(u16, Value)> {
    Some((200, completion("kind")))
}

/// Returns the lines of a file of the directory.
fn lines(project: &Project, name: &str) -> Vec<Value> {
    let text = project.read(&format!("out/{name}"));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Returns the last end of each key.
fn ends(project: &Project) -> BTreeMap<String, Value> {
    let ends = lines(project, "journal.jsonl").into_iter().filter(|line| line["t"] == "end");
    ends.map(|end| (end["key"].as_str().unwrap().to_owned(), end)).collect()
}

/// Asserts that each of so many items was answered once, and that nothing is left at the provider.
fn each_paid_once(api: &BatchApi, items: usize) {
    let paid = api.paid();
    assert_eq!((paid.len(), paid.values().max()), (items, Some(&1)));
    assert_eq!(api.files(), 0, "files are left at the provider");
}

/// Starts a batch and kills it when a request has come that begins so.
fn kill_at(project: &Project, api: &BatchApi, line: &str) {
    let mut child = project.spawn(&BATCH);
    api.wait_for(line);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn all_items_are_one_file_and_the_same_command_asks_nothing_again() {
    let (project, api) = project(12);
    let first = run(&project, &[]);
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    assert!(first.stdout.contains("12 of 12 items done · ok 12"), "{}", first.stdout);
    assert!(first.stderr.contains("12 requests for the Batch API of 127.0.0.1:"), "{}", first.stderr);
    assert!(first.stderr.contains("% of each is the same for all"), "{}", first.stderr);
    each_paid_once(&api, 12);
    assert_eq!((api.asked("POST /v1/files"), api.asked("POST /v1/batches")), (1, 1));
    assert!(project.server().requests().is_empty(), "no chat was asked for");
    let ends = ends(&project);
    for (key, end) in &ends {
        assert_eq!(
            (&end["output"], &end["final"], &end["usage"]["requests"]),
            (&json!("kind"), &json!(true), &json!(1)),
            "{key}"
        );
    }
    let schema: Value = serde_json::from_str(&project.qwen(&["schema", "batch"]).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let provider = lines(&project, "provider.jsonl");
    assert!(provider.iter().all(|line| validator.is_valid(line)), "{provider:?}");
    let steps: Vec<&str> = provider.iter().map(|line| line["t"].as_str().unwrap()).collect();
    assert_eq!(steps, ["input", "uploaded", "create", "created", "ended", "collected"]);
    let names: Vec<String> = std::fs::read_dir(project.root().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("provider"))
        .collect();
    assert_eq!(names, ["provider.jsonl"], "no prompt stays here");
    let again = run(&project, &[]);
    assert_eq!((again.code, api.asked("POST"), api.asked("GET /v1/batches/")), (0, 2, 1), "{}", again.stderr);
}

#[test]
fn a_shard_has_a_file_of_its_own() {
    let (project, api) = project(4);
    assert_eq!(run(&project, &["--shard", "1/2"]).code, 0);
    assert_eq!(run(&project, &["--shard", "2/2"]).code, 0);
    each_paid_once(&api, 4);
    assert_eq!(project.qwen(&["batch", "merge", "out", "--out", "merged"]).code, 0);
}

#[test]
fn who_was_killed_while_the_provider_works_collects_later() {
    let (project, api) = project(3);
    api.now(|does| does.works = true);
    kill_at(&project, &api, "GET /v1/batches/");
    let status = project.qwen(&["batch", "status", "out"]);
    assert!(status.stdout.contains("at the provider: batch-1, 3 requests"), "{}", status.stdout);
    api.now(|does| does.works = false);
    let end = run(&project, &[]);
    assert_eq!((end.code, api.batches()), (0, 1), "{}{}", end.stdout, end.stderr);
    each_paid_once(&api, 3);
}

#[test]
fn who_was_killed_before_the_batch_was_answered_for_finds_it() {
    let (project, api) = project(3);
    api.now(|does| does.creation = Creation::Silent);
    kill_at(&project, &api, "POST /v1/batches");
    assert_eq!(api.batches(), 1);
    let end = run(&project, &[]);
    assert_eq!((end.code, api.batches(), api.asked("POST /v1/files")), (0, 1, 1), "{}{}", end.stdout, end.stderr);
    each_paid_once(&api, 3);
}

#[test]
fn kills_at_any_moment_pay_for_nothing_twice() {
    let (project, api) = project(30);
    let mut moment = 0x2545_f491_u64;
    for _ in 0..12 {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = project.spawn(&BATCH);
        std::thread::sleep(std::time::Duration::from_millis(20 + (moment >> 33) % 400));
        let _ended = child.kill();
        let _reaped = child.wait();
    }
    // The first of these may have to look for a batch that was about to be created.
    let codes: Vec<i32> = (0..3).map(|_| run(&project, &[]).code).collect();
    let ends = ends(&project);
    assert_eq!((ends.len(), api.batches()), (30, 1), "{codes:?}");
    // An item that was killed when nothing else ran is given up, and nothing else fails.
    assert!(ends.values().all(|end| end["exit_code"] == 0 || end["error"]["code"] == "crashed"), "{ends:?}");
    each_paid_once(&api, 30);
}

#[test]
fn a_file_whose_upload_was_not_answered_is_deleted_in_the_end() {
    let (project, api) = project(3);
    api.now(|does| does.loses_upload = true);
    let end = run(&project, &[]);
    assert_eq!((end.code, api.asked("POST /v1/files")), (0, 2), "{}{}", end.stdout, end.stderr);
    each_paid_once(&api, 3);
}

#[test]
fn an_answer_that_is_lost_is_looked_up_and_nothing_is_created_twice() {
    let (project, api) = project(3);
    api.now(|does| does.creation = Creation::Lost);
    let end = run(&project, &[]);
    assert_eq!((end.code, api.batches(), api.asked("POST /v1/batches")), (0, 1, 1), "{}{}", end.stdout, end.stderr);
    each_paid_once(&api, 3);
}

#[test]
fn what_is_not_found_is_created_by_the_next_call() {
    let (project, api) = project(3);
    api.now(|does| does.creation = Creation::Dropped);
    let lost = run(&project, &[]);
    assert_eq!((lost.code, api.batches()), (75, 0), "{}{}", lost.stdout, lost.stderr);
    assert!(lost.stdout.contains("did not say whether it has created the batch"), "{}", lost.stdout);
    api.now(|does| does.creation = Creation::Answered);
    let end = run(&project, &[]);
    assert_eq!((end.code, api.batches(), api.asked("POST /v1/files")), (0, 1, 1), "{}{}", end.stdout, end.stderr);
    each_paid_once(&api, 3);
}

#[test]
fn a_kill_before_creation_is_looked_up_twice_before_it_is_created_again() {
    let (project, api) = project(2);
    api.now(|does| does.creation = Creation::Silent);
    kill_at(&project, &api, "POST /v1/batches");
    // As if the request had never arrived.
    let provider = project.read("out/provider.jsonl").replace("file-0", "file-none");
    std::fs::write(project.root().join("out/provider.jsonl"), provider).unwrap();
    assert_eq!((run(&project, &[]).code, api.asked("POST /v1/batches")), (75, 1));
    assert_eq!(api.asked("GET /v1/batches?"), 1);
}

#[test]
fn items_without_an_answer_are_asked_for_again_and_the_others_are_not() {
    let (project, api) = project(4);
    api.now(|does| {
        does.status = "expired";
        does.answer = |text| (!text.contains("ticket number 2.")).then(|| (200, completion("kind")));
    });
    let first = run(&project, &[]);
    assert_eq!(first.code, 75, "{}{}", first.stdout, first.stderr);
    assert!(first.stderr.contains("warning: batch-1: expired"), "{}", first.stderr);
    assert!(first.stdout.contains("3 of 4 items done · ok 3 · not done 1"), "{}", first.stdout);
    let end = &ends(&project)["T-2"];
    assert_eq!((&end["exit_code"], &end["final"], &end["try"]), (&json!(75), &json!(false), &json!(1)));
    assert_eq!(end["error"]["message"], "the provider's Batch API has no answer for it: expired");
    api.now(|does| (does.status, does.answer) = ("completed", kind));
    let end = run(&project, &[]);
    assert_eq!((end.code, api.batches()), (0, 2), "{}{}", end.stdout, end.stderr);
    each_paid_once(&api, 4);
}

#[test]
fn an_item_that_is_never_answered_has_failed_after_its_tries() {
    let (project, api) = project(1);
    api.now(|does| does.status = "failed");
    for code in [75, 75, 1] {
        let ended = run(&project, &["--item-attempts", "3"]);
        assert_eq!(ended.code, code, "{}", ended.stdout);
        assert!(ended.stderr.contains(": failed: line 1: unknown model"), "{}", ended.stderr);
    }
    assert_eq!(ends(&project)["T-1"]["final"], true);
    assert_eq!((run(&project, &[]).code, api.batches()), (1, 3));
}

#[test]
fn the_file_of_errors_says_what_each_item_ends_with() {
    let (project, api) = project(3);
    api.now(|does| {
        does.answer = |text| match text {
            text if text.contains("number 1.") => Some((400, json!({"error": {"message": "too rude"}}))),
            text if text.contains("number 2.") => Some((500, json!({"error": {"message": "busy"}}))),
            _ => Some((200, completion("kind"))),
        };
    });
    let ended = run(&project, &[]);
    assert_eq!(ended.code, 75, "{}{}", ended.stdout, ended.stderr);
    let ends = ends(&project);
    let message = ends["T-1"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("answered 400: too rude"), "{message}");
    let codes: Vec<(&Value, &Value)> = ends.values().map(|end| (&end["exit_code"], &end["final"])).collect();
    assert_eq!(codes, [(&json!(1), &json!(true)), (&json!(75), &json!(false)), (&json!(0), &json!(true))]);
    assert!(project.server().requests().is_empty(), "a refused item is not asked for at the full price");
}

#[test]
fn a_wrong_key_and_another_key_end_with_41_and_no_batch_is_created() {
    let (project, api) = project(3);
    api.now(|does| does.refuses = Some(401));
    let refused = run(&project, &[]);
    assert_eq!((refused.code, api.asked("POST /v1/files"), api.batches()), (41, 1, 0), "{}", refused.stderr);
    api.now(|does| (does.refuses, does.works) = (None, true));
    kill_at(&project, &api, "GET /v1/batches/");
    let project = project.env("QWEN_API_KEY", "another-key");
    let other = run(&project, &[]);
    assert_eq!((other.code, api.batches()), (41, 1), "{}", other.stderr);
    assert!(other.stderr.contains("another key, or at another base URL"), "{}", other.stderr);
    assert_eq!(project.qwen(&["batch", "cancel", "out"]).code, 41);
}

#[test]
fn a_server_without_a_batch_api_is_named() {
    let (project, api) = project(3);
    api.now(|does| does.refuses = Some(404));
    let ended = run(&project, &[]);
    assert_eq!((ended.code, api.asked("POST")), (52, 1), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.contains("stopped: 127.0.0.1:") && ended.stdout.contains(" has no Batch API"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_batch_is_cancelled_at_the_provider_and_what_was_answered_is_kept() {
    let (project, api) = project(3);
    assert_eq!(project.qwen(&["batch", "cancel", "out"]).code, 42);
    api.now(|does| {
        does.works = true;
        does.answer = |text| text.contains("number 1.").then(|| (200, completion("kind")));
    });
    kill_at(&project, &api, "GET /v1/batches/");
    let restarted = run(&project, &["--restart"]);
    assert_eq!(restarted.code, 63, "{}", restarted.stderr);
    assert!(restarted.stderr.contains("qwen batch cancel DIR"), "{}", restarted.stderr);
    let cancelled = project.qwen(&["batch", "cancel", "out"]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
    assert!(cancelled.stdout.contains("1 cancelled at the provider"), "{}", cancelled.stdout);
    assert!(cancelled.stdout.contains("batch-1: cancelled, 3 requests"), "{}", cancelled.stdout);
    let ended = run(&project, &[]);
    assert_eq!((ended.code, api.batches()), (75, 1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 of 3 items done"), "{}", ended.stdout);
    let nothing = project.qwen(&["batch", "cancel", "out"]);
    assert!(nothing.code == 0 && nothing.stdout.contains("nothing is at the provider"), "{}", nothing.stdout);
    api.now(|does| (does.works, does.answer) = (false, kind));
    assert_eq!(run(&project, &[]).code, 0);
    each_paid_once(&api, 3);
}

#[test]
fn who_begins_again_after_a_cancellation_asks_for_everything() {
    let (project, api) = project(2);
    api.now(|does| does.works = true);
    kill_at(&project, &api, "GET /v1/batches/");
    assert_eq!(project.qwen(&["batch", "cancel", "out"]).code, 0);
    api.now(|does| does.works = false);
    let again = run(&project, &["--restart"]);
    assert_eq!((again.code, api.batches()), (0, 2), "{}{}", again.stdout, again.stderr);
    assert!(project.root().join("out/provider.1.jsonl").is_file());
}

#[test]
fn a_signal_or_the_time_ends_the_wait_and_nothing_is_lost() {
    let (project, api) = project(2);
    api.now(|does| does.works = true);
    let child = project.spawn(&BATCH);
    api.wait_for("GET /v1/batches/");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let ended = project.finish(child);
    assert_eq!(ended.code, 143, "{}{}", ended.stdout, ended.stderr);
    let ended = run(&project, &["--total-wall-time", "300ms"]);
    assert_eq!(ended.code, 55, "{}{}", ended.stdout, ended.stderr);
    api.now(|does| does.works = false);
    assert_eq!((run(&project, &[]).code, api.batches()), (0, 1));
    each_paid_once(&api, 2);
}

#[test]
fn another_plan_is_another_batch_while_something_is_at_the_provider() {
    let (project, api) = project(2);
    api.now(|does| does.works = true);
    kill_at(&project, &api, "GET /v1/batches/");
    let chat = ["batch", "--items", "tickets.jsonl", "--recipe", "./classify.yaml", "--out", "out"];
    let other = project.qwen(&chat);
    assert_eq!(other.code, 42, "{}", other.stderr);
    assert!(other.stderr.contains("different: --api"), "{}", other.stderr);
}

#[test]
fn a_repair_is_an_ordinary_request_and_what_was_answered_before_a_kill_is_not_asked_for_again() {
    let recipe = CLASSIFY.to_owned()
        + "output: {kind: json, schema: {type: object, required: [kind], properties: {kind: {type: string}}}}\n";
    let stall = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let stalls = std::sync::Arc::clone(&stall);
    let (project, api) = with_chat(2, move |_| match stalls.load(std::sync::atomic::Ordering::SeqCst) {
        true => Reply::Stall,
        false => say(r#"{"kind": "repaired"}"#),
    });
    let project = project.file("classify.yaml", recipe);
    api.now(|does| {
        does.answer = |text| match text.contains("number 1.") {
            true => Some((200, completion(r#"{"kind": "good"}"#))),
            false => Some((200, completion(r#"{"sort": "bad"}"#))),
        };
    });
    let mut child = project.spawn(&BATCH);
    project.server().wait_for(1);
    child.kill().unwrap();
    child.wait().unwrap();
    stall.store(false, std::sync::atomic::Ordering::SeqCst);
    let end = run(&project, &[]);
    assert_eq!((end.code, api.batches()), (0, 1), "{}{}", end.stdout, end.stderr);
    let ends = ends(&project);
    let outputs: Vec<&Value> = ends.values().map(|end| &end["output"]["kind"]).collect();
    assert_eq!(outputs, ["good", "repaired"]);
    assert_eq!(project.server().requests().len(), 2, "one before the kill, one after it");
    each_paid_once(&api, 2);
}

#[test]
fn an_answer_to_another_request_does_not_count() {
    let recipe =
        CLASSIFY.replace("prompt: |", "context: [{name: rules, file: rules.txt}]\nprompt: |\n  {{ context.rules }}");
    let (project, api) = project(1);
    let project = project.file("classify.yaml", recipe).file("rules.txt", "be kind");
    api.now(|does| does.works = true);
    kill_at(&project, &api, "GET /v1/batches/");
    std::fs::write(project.root().join("rules.txt"), "be strict").unwrap();
    api.now(|does| does.works = false);
    let ended = run(&project, &[]);
    assert_eq!(ended.code, 1, "{}{}", ended.stdout, ended.stderr);
    let end = &ends(&project)["T-1"];
    assert_eq!(end["exit_code"], 66);
    let message = end["error"]["message"].as_str().unwrap();
    assert!(message.contains("what the recipe reads has changed since"), "{message}");
    assert_eq!(run(&project, &["--rerun", "failed"]).code, 0);
}

#[test]
fn a_prompt_that_is_mostly_the_same_is_warned_of() {
    let long = CLASSIFY.replace("Answer with", &format!("{} Answer with", "These are the rules. ".repeat(400)));
    let (project, api) = project(3);
    let project = project.file("classify.yaml", long + "limits: {cost_usd: 0.5}\n");
    let strict = run(&project, &["--strict"]);
    assert_eq!((strict.code, api.asked("POST")), (42, 0), "{}", strict.stderr);
    assert!(strict.stderr.contains("W111"), "{}", strict.stderr);
    let warned = run(&project, &[]);
    assert_eq!(warned.code, 0);
    assert!(warned.stderr.contains("% of each request is the same for all items: above 62%"), "{}", warned.stderr);
}

#[test]
fn what_may_need_several_requests_and_what_has_no_effect_is_refused() {
    let (project, api) = project(1);
    let with = |change: &str| CLASSIFY.replace("needs: {tools: []}\n", change);
    let recipes = [
        (with("needs: {read: ['**']}\n"), "does not say `needs: {tools: []}`"),
        (with(""), "does not say `needs: {tools: []}`"),
        (with("needs: {tools: []}\nverify: {checks: [{name: x, run: ['true']}]}\n"), "has checks (`verify`)"),
        (with("needs: {tools: []}\noutput: {kind: changes}\n"), "makes changes"),
        (
            with(
                "needs: {tools: []}\ncontext: [{name: d, diff: staged}]\noutput: {kind: findings, rules: [{id: a, description: b}]}\n",
            ),
            "shows a change",
        ),
    ];
    for (recipe, why) in recipes {
        std::fs::write(project.root().join("classify.yaml"), recipe).unwrap();
        let refused = run(&project, &[]);
        assert!(refused.code == 42 && refused.stderr.contains(why), "{why}: {}", refused.stderr);
    }
    std::fs::write(project.root().join("classify.yaml"), CLASSIFY).unwrap();
    for flags in [
        &["--total-cost-usd", "1"][..],
        &["--total-tokens", "9"],
        &["--rpm", "9"],
        &["--record", "c"],
        &["--window", "90m"],
        &["--window", "0"],
    ] {
        let refused = run(&project, flags);
        assert_eq!(refused.code, 2, "{flags:?}: {}", refused.stderr);
    }
    let without = project.qwen(&["batch", "--items", "tickets.jsonl", "--recipe", "./classify.yaml", "--api", "batch"]);
    assert!(without.code == 2 && without.stderr.contains("--api batch needs --out"), "{}", without.stderr);
    let alone = project.qwen(&["batch", "--items", "tickets.jsonl", "--recipe", "./classify.yaml", "--window", "24h"]);
    assert!(alone.code == 2 && alone.stderr.contains("--window without --api batch"), "{}", alone.stderr);
    assert_eq!(api.asked(""), 0);
}

#[test]
fn a_prompt_stands_for_a_recipe_that_answers_at_once() {
    let (project, api) = project(0);
    let project = project.file("names.txt", "Ada\nGrace\n");
    let prompt = "A person? {{ item.line }}";
    let ended = project.qwen(&["batch", "--lines", "names.txt", "-p", prompt, "--out", "out", "--api", "batch"]);
    assert_eq!((ended.code, api.batches()), (0, 1), "{}{}", ended.stdout, ended.stderr);
    each_paid_once(&api, 2);
}
