//! Answers the documents of `src/github/*.graphql`; `.ci/actions` compares these with GitHub's schema.

use serde_json::{Value, json};

use super::http::{Answer, Request};
use super::patches;
use super::state::{State, Thread};

/// Threads on a page: fewer than GitHub's, so that tests see more than one page.
const PAGE: usize = 3;

/// Answers a request.
pub(super) fn answer(state: &mut State, request: &Request) -> Answer {
    let Some(token) = state.tokens.get(&request.token).cloned() else {
        return Answer::error(401, "Bad credentials");
    };
    // GitHub's GraphQL names an app without the `[bot]` that REST has.
    let login = token.login.trim_end_matches("[bot]").to_owned();
    let variables = &request.body["variables"];
    let query = request.body["query"].as_str().unwrap_or_default();
    let name = query.split([' ', '(']).nth(1).unwrap_or_default();
    let data = match name {
        "Viewer" => json!({"viewer": {"login": login}}),
        "ReviewThreads" => {
            let number = variables["number"].as_u64().unwrap_or(0);
            if !token.may("pull-requests", "read") || !state.pulls.contains_key(&number) {
                return failed("NOT_FOUND", "Could not resolve to a PullRequest");
            }
            let from = variables["after"].as_str().and_then(|after| after.parse().ok()).unwrap_or(0);
            let of: Vec<_> = state.threads.iter().filter(|thread| thread.number == number).collect();
            let can_resolve = token.may("contents", "write");
            let head = state.tip(&state.pulls[&number].head_ref);
            let json = |thread: &&&Thread| {
                let line = patches::line_at(&state.origin, &thread.path, (&thread.commit, thread.line), &head);
                thread_json(thread, line, can_resolve)
            };
            let nodes: Vec<Value> = of.iter().skip(from).take(PAGE).map(|thread| json(&thread)).collect();
            let end = from + nodes.len();
            let info = json!({"hasNextPage": end < of.len(), "endCursor": end.to_string()});
            let threads = json!({"pageInfo": info, "nodes": nodes});
            json!({"viewer": {"login": login}, "repository": {"pullRequest": {"reviewThreads": threads}}})
        }
        "ResolveThread" => {
            let found = state.threads.iter_mut().find(|thread| variables["thread"] == *thread.id);
            match found {
                Some(thread) if token.may("contents", "write") => {
                    thread.resolved_by = Some(login);
                    json!({"resolveReviewThread": {"thread": {"id": thread.id, "isResolved": true}}})
                }
                _ => return failed("FORBIDDEN", "Resource not accessible by integration"),
            }
        }
        other => {
            state.differences.push(format!("GraphQL: the operation `{other}` is unknown"));
            Value::Null
        }
    };
    Answer::new(200, json!({"data": data}))
}

fn failed(kind: &str, message: &str) -> Answer {
    Answer::new(200, json!({"data": null, "errors": [{"type": kind, "message": message}]}))
}

fn thread_json(thread: &Thread, line: Option<u64>, can_resolve: bool) -> Value {
    let comment = |(id, author, body): &(u64, String, String)| {
        let url = format!("https://github.example/o/r/pull/{}#discussion_r{id}", thread.number);
        let author = json!({"login": author.trim_end_matches("[bot]")});
        json!({"databaseId": id, "body": body, "url": url, "author": author})
    };
    json!({
        "id": thread.id, "isResolved": thread.resolved_by.is_some(), "viewerCanResolve": can_resolve,
        "resolvedBy": thread.resolved_by.as_ref().map(|by| json!({"login": by})), "path": thread.path, "line": line,
        "comments": {"nodes": thread.comments.iter().map(comment).collect::<Vec<_>>()},
    })
}
