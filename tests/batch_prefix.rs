//! Tests that the items of a batch find their shared beginning in the server's cache.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::support::{Project, Server, say};

/// Items of the batch.
const ITEMS: usize = 100;

/// What comes first in each item's text.
const TEXT: &str = "ticket number ";

#[test]
fn first_requests_begin_with_the_same_bytes_and_follow_the_first_byte_of_the_first_answer() {
    let recipe = "\
recipe: 1
name: classify
description: Find the kind of a ticket.
params:
  text: {type: string, description: The ticket., pattern: '.*'}
prompt: |
  Answer with one word for this ticket.
  {{ params.text }}
needs: {tools: []}
";
    let list: String =
        (1..=ITEMS).map(|n| json!({"id": n.to_string(), "text": format!("{TEXT}{n}.")}).to_string() + "\n").collect();
    let (came, early) = (Arc::new((Mutex::new(0), Condvar::new())), Arc::new(AtomicUsize::new(0)));
    let (counter, found) = (Arc::clone(&came), Arc::clone(&early));
    let answer = move |_: &serde_json::Value| {
        let (count, changed) = &*counter;
        let mut count = count.lock().unwrap();
        *count += 1;
        changed.notify_all();
        if *count == 1 {
            // Whoever does not wait for the answer to the first request comes meanwhile.
            let (count, _) =
                changed.wait_timeout_while(count, Duration::from_millis(500), |count| *count == 1).unwrap();
            found.store(*count - 1, Ordering::SeqCst);
        }
        say("bug")
    };
    let project = Project::new().file("tickets.jsonl", list).file("classify.yaml", recipe);
    let project = project.served_by(Server::answering(answer));
    let run = project.qwen(&["batch", "--items", "tickets.jsonl", "--recipe", "./classify.yaml", "-j", "16"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(early.load(Ordering::SeqCst), 0, "requests came before the first answer began");
    let bodies = project.server().bodies();
    assert_eq!(bodies.len(), ITEMS);
    let beginning = |body: &[u8]| {
        let at = body.windows(TEXT.len()).position(|part| part == TEXT.as_bytes()).expect("the item's text");
        body[..at].to_vec()
    };
    let first = beginning(&bodies[0]);
    assert!(first.len() > 200, "{}", String::from_utf8_lossy(&first));
    assert!(bodies.iter().all(|body| body.starts_with(&first) && beginning(body) == first));
}
