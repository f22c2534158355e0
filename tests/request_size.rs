//! What the first request costs: every character is paid on every request.

use crate::support::{Project, say};

fn first_request(arguments: &[&str]) -> (usize, serde_json::Value) {
    let project = Project::new().model([say("hi")]);
    let outcome = project.run(arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    (project.server().bodies()[0].len(), project.server().requests()[0].clone())
}

#[test]
fn the_first_request_of_the_default_policy_stays_under_12_000_bytes() {
    let (bytes, _) = first_request(&["hi"]);
    assert!(bytes < 12_000, "{bytes} bytes");
}

#[test]
fn a_bare_request_is_no_larger() {
    let (bytes, _) = first_request(&["hi"]);
    let (bare, _) = first_request(&["--bare", "hi"]);
    assert!(bare <= bytes, "{bare} bytes, and {bytes} without --bare");
}

#[test]
fn with_the_tools_in_the_prompt_it_stays_under_6_000_bytes() {
    let (bytes, _) = first_request(&["--bare", "--text-tools", "force", "hi"]);
    assert!(bytes < 6_000, "{bytes} bytes");
}

#[test]
fn the_first_request_is_this_one() {
    let (_, request) = first_request(&["--bare", "--text-tools", "force", "hi"]);
    let mut shown = String::new();
    for message in request["messages"].as_array().unwrap() {
        shown.push_str(&format!("[{}]\n{}\n", message["role"].as_str().unwrap(), message["content"].as_str().unwrap()));
    }
    insta::assert_snapshot!(shown, @"");
}
