//! Holds what GitHub knows of the repository `o/r`.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Trouble, patches};

/// The token of a job with every permission that a delivery can need.
pub(crate) const TOKEN: &str = "ghs_0123456789abcdef";

/// All of it.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) origin: PathBuf,
    pub(super) url: String,
    pub(super) tokens: BTreeMap<String, Token>,
    pub(crate) collaborators: BTreeMap<String, String>,
    pub(crate) pulls: BTreeMap<u64, Pull>,
    pub(crate) issues: BTreeMap<u64, Issue>,
    pub(crate) comments: Vec<Comment>,
    pub(crate) reviews: Vec<Review>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) labels: Vec<String>,
    pub(crate) checks: Vec<Value>,
    pub(crate) reactions: Vec<(u64, String)>,
    pub(crate) runs: Vec<Run>,
    pub(super) asked: Vec<(String, Value)>,
    pub(super) troubles: VecDeque<(String, Trouble)>,
    pub(super) differences: Vec<String>,
    next: u64,
}

/// A job's token.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) login: String,
    /// `pull-requests: write`.
    permissions: Vec<String>,
}

impl Token {
    /// Tells whether it may; who may write may read.
    pub(super) fn may(&self, scope: &str, level: &str) -> bool {
        self.permissions.iter().any(|given| {
            given.split_once(": ").is_some_and(|(known, granted)| known == scope && [level, "write"].contains(&granted))
        })
    }
}

/// A pull request.
#[derive(Debug, Clone)]
pub(crate) struct Pull {
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) draft: bool,
    pub(crate) is_open: bool,
    pub(crate) head_ref: String,
    /// `o/r`, or a fork of it.
    pub(crate) head_repository: String,
    pub(crate) base_ref: String,
    pub(crate) labels: Vec<String>,
}

/// An issue that is not a pull request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Issue {
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) author: String,
    pub(crate) labels: Vec<String>,
}

/// A comment below an issue or pull request.
#[derive(Debug, Clone)]
pub(crate) struct Comment {
    pub(crate) id: u64,
    pub(crate) number: u64,
    pub(crate) author: String,
    pub(crate) body: String,
}

/// A review.
#[derive(Debug, Clone)]
pub(crate) struct Review {
    pub(crate) commit: String,
    pub(crate) body: String,
    pub(crate) author: String,
}

/// A run of a workflow with one job.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: u64,
    /// The workflow's file.
    pub(crate) workflow: String,
    pub(crate) event: String,
    pub(crate) commit: String,
    pub(crate) conclusion: &'static str,
    /// The log of its job.
    pub(crate) log: String,
}

/// A thread of a review.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) path: String,
    pub(crate) start_line: Option<u64>,
    pub(crate) line: u64,
    pub(crate) commit: String,
    pub(crate) resolved_by: Option<String>,
    /// Id, author and text; the first began it.
    pub(crate) comments: Vec<(u64, String, String)>,
}

impl State {
    pub(super) fn new(origin: &Path, url: &str) -> State {
        let mut state = State {
            origin: origin.to_owned(),
            url: url.to_owned(),
            tokens: BTreeMap::new(),
            collaborators: [("ann".to_owned(), "write".to_owned())].into(),
            pulls: BTreeMap::new(),
            issues: BTreeMap::new(),
            comments: Vec::new(),
            reviews: Vec::new(),
            threads: Vec::new(),
            labels: ["bug", "docs", "qwen"].map(str::to_owned).into(),
            checks: Vec::new(),
            reactions: Vec::new(),
            runs: Vec::new(),
            asked: Vec::new(),
            troubles: VecDeque::new(),
            differences: Vec::new(),
            next: 1_000,
        };
        let all = ["pull-requests", "issues", "checks", "contents", "actions"].map(|scope| format!("{scope}: write"));
        state.set_token(TOKEN, "github-actions[bot]", &all.each_ref().map(String::as_str));
        state
    }

    /// Makes a token with these permissions.
    pub(crate) fn set_token(&mut self, token: &str, login: &str, permissions: &[&str]) {
        let permissions = permissions.iter().map(|permission| (*permission).to_owned()).collect();
        self.tokens.insert(token.to_owned(), Token { login: login.to_owned(), permissions });
    }

    /// Opens a pull request of a branch of the repository.
    pub(crate) fn open_pull(&mut self, number: u64, head_ref: &str, base_ref: &str) {
        let pull = Pull {
            title: "Change".into(),
            body: String::new(),
            draft: false,
            is_open: true,
            head_ref: head_ref.into(),
            head_repository: "o/r".into(),
            base_ref: base_ref.into(),
            labels: Vec::new(),
        };
        self.pulls.insert(number, pull);
    }

    /// Adds a comment of somebody.
    pub(crate) fn add_comment(&mut self, number: u64, author: &str, body: &str) {
        let comment = Comment { id: self.new_id(), number, author: author.to_owned(), body: body.to_owned() };
        self.comments.push(comment);
    }

    /// Adds a run of a workflow that is over.
    pub(crate) fn add_run(
        &mut self,
        workflow: &str,
        event: &str,
        commit: &str,
        conclusion: &'static str,
        log: &str,
    ) -> u64 {
        let id = self.new_id();
        let (workflow, event) = (workflow.to_owned(), event.to_owned());
        self.runs.push(Run { id, workflow, event, commit: commit.to_owned(), conclusion, log: log.to_owned() });
        id
    }

    /// Returns a new number.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the commit of a branch.
    pub(crate) fn tip(&self, branch: &str) -> String {
        let reference = format!("refs/heads/{branch}");
        let tip = patches::git(&self.origin, &["rev-parse", "--verify", "--quiet", &reference]).unwrap_or_default();
        String::from_utf8_lossy(&tip).trim().to_owned()
    }

    /// Returns the texts below an issue, each with its author.
    pub(crate) fn comments_of(&self, number: u64) -> Vec<(&str, &str)> {
        let of = self.comments.iter().filter(|comment| comment.number == number);
        of.map(|comment| (comment.author.as_str(), comment.body.as_str())).collect()
    }

    pub(super) fn pull_json(&self, number: u64, pull: &Pull) -> Value {
        let place = |branch: &str, repository: &str, sha: String| {
            json!({"label": format!("o:{branch}"), "ref": branch, "sha": sha, "user": user("o"),
                   "repo": {"full_name": repository, "fork": repository != "o/r"}})
        };
        let mut value = json!({
            "number": number, "state": if pull.is_open { "open" } else { "closed" }, "title": pull.title,
            "body": pull.body, "draft": pull.draft, "html_url": format!("https://github.example/o/r/pull/{number}"),
            "merged_at": null, "closed_at": null, "user": user("ann"),
            "head": place(&pull.head_ref, &pull.head_repository, self.tip(&pull.head_ref)),
            "base": place(&pull.base_ref, "o/r", self.tip(&pull.base_ref)),
            "labels": pull.labels.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        });
        for side in ["head", "base"] {
            value[side].as_object_mut().expect("an object").remove("user");
        }
        value
    }

    pub(super) fn comment_json(comment: &Comment) -> Value {
        let time = "2026-01-01T00:00:00Z";
        let url = format!("https://github.example/o/r/issues/{}#issuecomment-{}", comment.number, comment.id);
        json!({"id": comment.id, "body": comment.body, "html_url": url, "user": user(&comment.author),
               "created_at": time, "updated_at": time})
    }
}

/// A user, as the answers have one.
pub(super) fn user(login: &str) -> Value {
    let kind = if login.ends_with("[bot]") { "Bot" } else { "User" };
    json!({"login": login, "id": 1, "type": kind})
}
