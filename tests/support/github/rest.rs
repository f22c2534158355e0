//! Answers the operations of the REST interface.

use serde_json::{Value, json};

use super::description::Operation;
use super::http::{Answer, Request};
use super::patches;
use super::state::{Pull, Review, Run, State, Thread, user};

/// What a token needs for an operation that changes something.
const NEEDED: &[(&str, &[&str])] = &[
    ("/repos/{owner}/{repo}/pulls", &["pull-requests"]),
    ("/repos/{owner}/{repo}/issues", &["issues", "pull-requests"]),
    ("/repos/{owner}/{repo}/check-runs", &["checks"]),
    ("/repos/{owner}/{repo}/commits", &["checks"]),
    ("/repos/{owner}/{repo}/actions", &["actions"]),
];

/// Answers a request.
pub(super) fn answer(state: &mut State, operation: &Operation, request: &Request) -> Answer {
    let Some(token) = state.tokens.get(&request.token).cloned() else {
        return Answer::error(401, "Bad credentials");
    };
    let level = if request.method == "GET" { "read" } else { "write" };
    let needed = NEEDED.iter().find(|(start, _)| operation.template.starts_with(start)).map_or(&[][..], |(_, any)| any);
    let is_user = operation.template == "/user";
    if is_user || !(needed.is_empty() || needed.iter().any(|scope| token.may(scope, level))) {
        return Answer::error(403, "Resource not accessible by integration");
    }
    let path = operation.template.trim_start_matches("/repos/{owner}/{repo}");
    let values: Vec<&str> = operation.values.iter().skip(2).map(String::as_str).collect();
    let login = token.login;
    let number = values.first().and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let body = &request.body;
    match (request.method.as_str(), path) {
        ("GET", "/collaborators/{username}/permission") => match state.collaborators.get(values[0]) {
            Some(permission) => Answer::new(200, json!({"permission": permission, "role_name": permission})),
            None => Answer::error(404, "Not Found"),
        },
        ("GET", "/pulls") => list_pulls(state, request),
        ("POST", "/pulls") => open_pull(state, body),
        ("GET", "/pulls/{pull_number}") => pull(state, number),
        ("PATCH", "/pulls/{pull_number}") => {
            if let Some(pull) = state.pulls.get_mut(&number) {
                let text = |key: &str| body[key].as_str().map(str::to_owned);
                pull.title = text("title").unwrap_or_else(|| pull.title.clone());
                pull.body = text("body").unwrap_or_else(|| pull.body.clone());
            }
            pull(state, number)
        }
        ("GET", "/pulls/{pull_number}/files") => match state.pulls.get(&number) {
            None => Answer::error(404, "Not Found"),
            Some(pull) => {
                let (base, head) = (state.tip(&pull.base_ref), state.tip(&pull.head_ref));
                page(state, request, patches::files(&state.origin, &base, &head).iter().map(file_json).collect())
            }
        },
        ("POST", "/pulls/{pull_number}/reviews") => review(state, number, body, &login),
        ("GET", "/pulls/{pull_number}/comments") => {
            let of = state.threads.iter().filter(|thread| thread.number == number);
            let all = of.flat_map(|thread| thread.comments.iter().map(|comment| review_comment(thread, comment)));
            page(state, request, all.collect())
        }
        ("PATCH", "/pulls/comments/{comment_id}") => edit_review_comment(state, number, body),
        ("POST", "/pulls/{pull_number}/comments/{comment_id}/replies") => reply(state, values[1], body, &login),
        ("GET", "/issues/{issue_number}/comments") => {
            let of = state.comments.iter().filter(|comment| comment.number == number);
            page(state, request, of.map(State::comment_json).collect())
        }
        ("POST", "/issues/{issue_number}/comments") => {
            state.add_comment(number, &login, body["body"].as_str().unwrap_or_default());
            Answer::new(201, State::comment_json(state.comments.last().expect("just added")))
        }
        ("PATCH", "/issues/comments/{comment_id}") => {
            let found = state.comments.iter_mut().find(|comment| comment.id == number);
            found.map_or_else(
                || Answer::error(404, "Not Found"),
                |comment| {
                    comment.body = body["body"].as_str().unwrap_or_default().to_owned();
                    Answer::new(200, State::comment_json(comment))
                },
            )
        }
        ("DELETE", "/issues/comments/{comment_id}") => {
            let before = state.comments.len();
            state.comments.retain(|comment| comment.id != number);
            if state.comments.len() < before { Answer::new(204, Value::Null) } else { Answer::error(404, "Not Found") }
        }
        ("POST", "/issues/comments/{comment_id}/reactions" | "/pulls/comments/{comment_id}/reactions") => {
            let content = body["content"].as_str().unwrap_or_default().to_owned();
            let is_new = !state.reactions.contains(&(number, content.clone()));
            state.reactions.push((number, content.clone()));
            Answer::new(if is_new { 201 } else { 200 }, json!({"id": 1, "content": content}))
        }
        (method, "/issues/{issue_number}/labels" | "/issues/{issue_number}/labels/{name}") => {
            labels(state, method, number, values.get(1).copied(), request)
        }
        ("GET", "/labels") => {
            let all = state.labels.iter().map(|name| label(name)).collect();
            page(state, request, all)
        }
        ("GET", "/issues/{issue_number}") => match state.issues.get(&number) {
            None => Answer::error(404, "Not Found"),
            Some(issue) => Answer::new(
                200,
                json!({
                    "number": number, "title": issue.title, "body": issue.body, "state": "open",
                    "html_url": format!("https://github.example/o/r/issues/{number}"), "user": user(&issue.author),
                    "labels": issue.labels.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
                }),
            ),
        },
        ("GET", "/commits/{ref}/check-runs") => {
            let name = request.parameter("check_name");
            let fits =
                |run: &&Value| run["head_sha"] == values[0] && name.as_ref().is_none_or(|name| run["name"] == **name);
            let runs: Vec<Value> = state.checks.iter().filter(fits).cloned().collect();
            Answer::new(200, json!({"total_count": runs.len(), "check_runs": runs}))
        }
        ("POST", "/check-runs") => {
            let mut run = json!({"id": state.new_id(), "html_url": "https://github.example/o/r/runs/1"});
            for key in ["name", "head_sha", "status", "conclusion", "external_id"] {
                run[key] = body[key].clone();
            }
            run["output"] = json!({"title": body["output"]["title"], "summary": body["output"]["summary"]});
            state.checks.push(run.clone());
            Answer::new(201, run)
        }
        ("GET", "/actions/runs") => {
            let (commit, status) = (request.parameter("head_sha"), request.parameter("status"));
            let fits = |run: &Run| {
                commit.as_ref().is_none_or(|commit| *commit == run.commit)
                    && status.as_ref().is_none_or(|status| status == run.conclusion)
            };
            runs(state, &fits)
        }
        ("GET", "/actions/workflows/{workflow_id}/runs") => {
            let (commit, event) = (request.parameter("head_sha"), request.parameter("event"));
            let fits = |run: &Run| {
                run.workflow == values[0]
                    && commit.as_ref().is_none_or(|commit| *commit == run.commit)
                    && event.as_ref().is_none_or(|event| *event == run.event)
            };
            runs(state, &fits)
        }
        ("POST", "/actions/workflows/{workflow_id}/dispatches") => {
            let commit = state.tip(body["ref"].as_str().unwrap_or_default());
            if commit.is_empty() {
                return Answer::error(422, "No ref found");
            }
            state.add_run(values[0], "workflow_dispatch", &commit, "success", "");
            Answer::new(204, Value::Null)
        }
        ("GET", "/actions/runs/{run_id}/jobs") => match state.runs.iter().find(|run| run.id == number) {
            None => Answer::error(404, "Not Found"),
            Some(run) => {
                let job =
                    json!({"id": run.id + 5_000, "name": "test", "conclusion": run.conclusion, "status": "completed"});
                Answer::new(200, json!({"total_count": 1, "jobs": [job]}))
            }
        },
        ("GET", "/actions/jobs/{job_id}/logs") => {
            let mut answer = Answer::new(302, Value::Null);
            answer.headers.push(("location", format!("{}/elsewhere/logs/{number}", state.url)));
            answer
        }
        (method, path) => panic!("the test server does not know {method} {path}"),
    }
}

fn runs(state: &State, fits: &dyn Fn(&Run) -> bool) -> Answer {
    let run = |run: &Run| {
        json!({"id": run.id, "name": run.workflow, "head_sha": run.commit, "status": "completed",
               "conclusion": run.conclusion, "created_at": "2026-01-01T00:00:00Z"})
    };
    let all: Vec<Value> = state.runs.iter().rev().filter(|one| fits(one)).map(run).collect();
    Answer::new(200, json!({"total_count": all.len(), "workflow_runs": all}))
}

/// Returns the log of a job.
pub(super) fn log(state: &State, path: &str) -> Answer {
    let id = path.rsplit('/').next().and_then(|id| id.parse::<u64>().ok()).unwrap_or(0);
    let run = state.runs.iter().find(|run| run.id + 5_000 == id);
    run.map_or_else(|| Answer::error(404, "Not Found"), |run| Answer::new(200, Value::String(run.log.clone())))
}

/// Returns a page of a list, with the address of the next one.
fn page(state: &State, request: &Request, all: Vec<Value>) -> Answer {
    let number = |name: &str, default: usize| {
        request.parameter(name).and_then(|value| value.parse::<usize>().ok()).unwrap_or(default)
    };
    let (size, page) = (number("per_page", 30), number("page", 1));
    let shown: Vec<Value> = all.iter().skip((page - 1) * size).take(size).cloned().collect();
    let mut answer = Answer::new(200, json!(shown));
    if all.len() > page * size {
        let others: Vec<_> = request.query().into_iter().filter(|(name, _)| name != "page").collect();
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(others)
            .append_pair("page", &(page + 1).to_string())
            .finish();
        let next = format!("{}{}?{query}", state.url, request.path());
        answer.headers.push(("link", format!("<{next}>; rel=\"next\", <{next}>; rel=\"last\"")));
    }
    answer
}

fn pull(state: &State, number: u64) -> Answer {
    let Some(pull) = state.pulls.get(&number) else { return Answer::error(404, "Not Found") };
    let mut value = state.pull_json(number, pull);
    value["merged"] = json!(false);
    Answer::new(200, value)
}

fn list_pulls(state: &State, request: &Request) -> Answer {
    let head = request.parameter("head").map(|head| head.trim_start_matches("o:").to_owned());
    let base = request.parameter("base");
    let fits = |pull: &Pull| {
        pull.is_open == (request.parameter("state").as_deref() != Some("closed"))
            && head.as_ref().is_none_or(|head| *head == pull.head_ref)
            && base.as_ref().is_none_or(|base| *base == pull.base_ref)
    };
    let found = state.pulls.iter().filter(|(_, pull)| fits(pull));
    page(state, request, found.map(|(number, pull)| state.pull_json(*number, pull)).collect())
}

fn open_pull(state: &mut State, body: &Value) -> Answer {
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    let (head, base) = (text("head"), text("base"));
    if state.tip(&head).is_empty() || state.tip(&base).is_empty() {
        return refused("Validation Failed", "Head sha can't be blank");
    }
    if state.pulls.values().any(|pull| pull.is_open && pull.head_ref == head && pull.base_ref == base) {
        return refused("Validation Failed", &format!("A pull request already exists for o:{head}."));
    }
    let number = state.pulls.keys().chain(state.issues.keys()).max().copied().unwrap_or(6) + 1;
    state.open_pull(number, &head, &base);
    let pull = state.pulls.get_mut(&number).expect("just opened");
    (pull.title, pull.body, pull.draft) = (text("title"), text("body"), body["draft"] == true);
    let mut value = state.pull_json(number, &state.pulls[&number]);
    value["merged"] = json!(false);
    Answer::new(201, value)
}

/// A refusal of what is described as `validation-error`.
fn refused(message: &str, why: &str) -> Answer {
    let errors = json!([{"code": "custom", "message": why, "resource": "PullRequest"}]);
    Answer::new(422, json!({"message": message, "documentation_url": "https://docs.github.com/rest", "errors": errors}))
}

/// A review is taken whole or, for one line outside of its patch, not at all.
fn review(state: &mut State, number: u64, body: &Value, login: &str) -> Answer {
    let Some(pull) = state.pulls.get(&number) else { return Answer::error(404, "Not Found") };
    let (base, head) = (state.tip(&pull.base_ref), state.tip(&pull.head_ref));
    let files = patches::files(&state.origin, &base, &head);
    let comments = body["comments"].as_array().cloned().unwrap_or_default();
    let commit = body["commit_id"].as_str().unwrap_or(&head).to_owned();
    let fits = |comment: &Value| {
        let line = comment["line"].as_u64().unwrap_or(0);
        let start = comment["start_line"].as_u64();
        let file = files.iter().find(|file| comment["path"] == *file.path);
        let patch = file.and_then(|file| file.patch.as_deref()).unwrap_or_default();
        // The first line must be before the last.
        start.is_none_or(|start| start < line) && patches::has_lines(patch, start.unwrap_or(line), line)
    };
    if body["event"] == "COMMENT" && body["body"].as_str().unwrap_or_default().is_empty() || !comments.iter().all(fits)
    {
        return Answer::new(
            422,
            json!({"message": "Unprocessable Entity", "errors": ["Line could not be resolved"],
                   "documentation_url": "https://docs.github.com/rest"}),
        );
    }
    let id = state.new_id();
    for comment in &comments {
        let (thread, text) = (state.new_id(), state.new_id());
        state.threads.push(Thread {
            id: format!("PRRT_{thread}"),
            number,
            path: comment["path"].as_str().unwrap_or_default().to_owned(),
            start_line: comment["start_line"].as_u64(),
            line: comment["line"].as_u64().unwrap_or(0),
            commit: commit.clone(),
            resolved_by: None,
            comments: vec![(text, login.to_owned(), comment["body"].as_str().unwrap_or_default().to_owned())],
        });
    }
    let text = body["body"].as_str().unwrap_or_default().to_owned();
    state.reviews.push(Review { commit: commit.clone(), body: text.clone(), author: login.to_owned() });
    let url = format!("https://github.example/o/r/pull/{number}#pullrequestreview-{id}");
    Answer::new(
        200,
        json!({"id": id, "body": text, "state": "COMMENTED", "html_url": url, "commit_id": commit, "user": user(login)}),
    )
}

fn review_comment(thread: &Thread, comment: &(u64, String, String)) -> Value {
    let (id, author, body) = comment;
    let time = "2026-01-01T00:00:00Z";
    json!({"id": id, "body": body, "path": thread.path, "commit_id": thread.commit, "user": user(author),
           "html_url": format!("https://github.example/o/r/pull/{}#discussion_r{id}", thread.number),
           "pull_request_url": format!("https://api.github.example/repos/o/r/pulls/{}", thread.number),
           "created_at": time, "updated_at": time})
}

fn edit_review_comment(state: &mut State, id: u64, body: &Value) -> Answer {
    for thread in &mut state.threads {
        if let Some(at) = thread.comments.iter().position(|(known, _, _)| *known == id) {
            thread.comments[at].2 = body["body"].as_str().unwrap_or_default().to_owned();
            return Answer::new(200, review_comment(thread, &thread.comments[at]));
        }
    }
    Answer::error(404, "Not Found")
}

fn reply(state: &mut State, id: &str, body: &Value, login: &str) -> Answer {
    let new = state.new_id();
    let of = |thread: &&mut Thread| thread.comments.iter().any(|(known, _, _)| known.to_string() == id);
    let Some(thread) = state.threads.iter_mut().find(of) else { return Answer::error(404, "Not Found") };
    thread.comments.push((new, login.to_owned(), body["body"].as_str().unwrap_or_default().to_owned()));
    Answer::new(201, review_comment(thread, thread.comments.last().expect("just added")))
}

fn label(name: &str) -> Value {
    json!({"name": name, "description": format!("Is about {name}.")})
}

fn labels(state: &mut State, method: &str, number: u64, one: Option<&str>, request: &Request) -> Answer {
    let of = match (state.pulls.get_mut(&number), state.issues.get_mut(&number)) {
        (Some(pull), _) => &mut pull.labels,
        (None, Some(issue)) => &mut issue.labels,
        (None, None) => return Answer::error(404, "Not Found"),
    };
    if method == "POST" {
        let added = request.body["labels"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in added {
            if !of.iter().any(|known| known == name) {
                of.push(name.to_owned());
            }
        }
    } else if method == "DELETE" {
        let before = of.len();
        of.retain(|name| Some(name.as_str()) != one);
        if of.len() == before {
            return Answer::error(404, "Label does not exist");
        }
    }
    let all: Vec<Value> = of.iter().map(|name| label(name)).collect();
    match method {
        "GET" => page(state, request, all),
        _ => Answer::new(200, json!(all)),
    }
}

fn file_json(file: &patches::File) -> Value {
    let lines = |mark: char| {
        let patch = file.patch.as_deref().unwrap_or_default();
        patch.lines().filter(|line| line.starts_with(mark)).count()
    };
    let (added, removed) = (lines('+'), lines('-'));
    let mut value = json!({"sha": null, "filename": file.path, "status": file.status, "additions": added,
                           "deletions": removed, "changes": added + removed});
    if let Some(previous) = &file.previous {
        value["previous_filename"] = json!(previous);
    }
    if let Some(patch) = &file.patch {
        value["patch"] = json!(patch);
    }
    value
}
