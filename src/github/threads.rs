//! Reads and resolves the threads of a pull request's reviews.

use serde_json::{Value, json};

use super::client::GitHub;
use super::error::GitHubError;
use super::issues::is_same_login;
use super::marker::FindingMark;

/// The documents that are sent.
const THREADS: &str = include_str!("review_threads.graphql");
const VIEWER: &str = include_str!("viewer.graphql");
const RESOLVE: &str = include_str!("resolve_thread.graphql");

/// The most pages of threads, 50 each.
const MOST_PAGES: usize = 20;

/// A thread that a comment of ours began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its id in GraphQL.
    pub id: String,
    /// The finding that our comment is about.
    pub mark: FindingMark,
    /// The file.
    pub path: String,
    /// The line of the pull request's last commit where it stands now, the last one of the finding; `None` if it is gone.
    pub line: Option<u64>,
    /// The number of our comment.
    pub comment: u64,
    /// Our comment.
    pub body: String,
    /// The page of our comment.
    pub url: String,
    /// Somebody resolved it, or we did.
    pub state: ThreadState,
    /// We may resolve it, and nobody else wrote in it.
    pub can_resolve: bool,
}

/// Whether a thread is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// It is open.
    Open,
    /// We resolved it, as what it is about was no longer there.
    ResolvedByUs,
    /// A person resolved it.
    Dismissed,
}

/// The threads of ours, and who we are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Threads {
    /// Our login.
    pub login: String,
    /// In the order of GitHub.
    pub ours: Vec<Thread>,
}

/// A thread of a review as anybody sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenThread {
    /// The file.
    pub path: String,
    /// Authors and texts.
    pub comments: Vec<(String, String)>,
}

impl GitHub {
    /// Returns the threads of a pull request that nobody has resolved.
    pub async fn open_threads(&self, number: u64) -> Result<Vec<OpenThread>, GitHubError> {
        let (_, nodes) = self.thread_nodes(number).await?;
        let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let comment =
            |comment: &Value| Some((text(comment, "/author/login").unwrap_or_default(), text(comment, "/body")?));
        let thread = |node: &Value| {
            let comments = node.pointer("/comments/nodes")?.as_array()?.iter().filter_map(comment).collect();
            Some(OpenThread { path: text(node, "/path")?, comments })
        };
        let is_open = |node: &&Value| node.get("isResolved").and_then(Value::as_bool) == Some(false);
        Ok(nodes.iter().filter(is_open).filter_map(thread).collect())
    }

    /// Returns our login: the one that is named, else the one that GitHub says, else that of a job's own token.
    pub async fn login(&self, named: Option<&str>) -> Result<String, GitHubError> {
        if let Some(named) = named {
            return Ok(named.to_owned());
        }
        let viewer = self.graphql(VIEWER, json!({}), "our own login", false).await;
        match viewer {
            Ok(data) => Ok(login_of(&data)),
            Err(error) if error.may_pass() => Err(error),
            Err(_) => Ok(login_of(&Value::Null)),
        }
    }

    /// Returns the threads of ours in a pull request.
    pub async fn threads(&self, number: u64, named: Option<&str>) -> Result<Threads, GitHubError> {
        let (login, nodes) = self.thread_nodes(number).await?;
        let login = named.map_or(login, str::to_owned);
        let ours = nodes.iter().filter_map(|node| ours(node, &login)).collect();
        Ok(Threads { login, ours })
    }

    /// Returns our login, and the threads of a pull request.
    async fn thread_nodes(&self, number: u64) -> Result<(String, Vec<Value>), GitHubError> {
        let (owner, name) = self.repository();
        let what = "the threads of the pull request";
        let (mut login, mut nodes, mut after) = (String::new(), Vec::new(), Value::Null);
        for _ in 0..MOST_PAGES {
            let variables = json!({"owner": owner, "name": name, "number": number, "after": after});
            let mut data = self.graphql(THREADS, variables, what, false).await?;
            login = login_of(&data);
            let page = data.pointer_mut("/repository/pullRequest/reviewThreads");
            let page = page.ok_or_else(|| GitHubError::Answer { what: what.to_owned(), field: "reviewThreads" })?;
            if let Some(Value::Array(found)) = page.get_mut("nodes") {
                nodes.append(found);
            }
            if page.pointer("/pageInfo/hasNextPage").and_then(Value::as_bool) != Some(true) {
                break;
            }
            after = page.pointer("/pageInfo/endCursor").cloned().unwrap_or_default();
        }
        Ok((login, nodes))
    }

    /// Resolves a thread.
    pub async fn resolve(&self, thread: &Thread) -> Result<(), GitHubError> {
        self.graphql(RESOLVE, json!({"thread": thread.id}), "to resolve a thread", true).await.map(drop)
    }
}

fn login_of(data: &Value) -> String {
    data.pointer("/viewer/login").and_then(Value::as_str).unwrap_or("github-actions[bot]").to_owned()
}

/// Reads a thread that a comment of ours began.
fn ours(node: &Value, login: &str) -> Option<Thread> {
    let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let comments = node.pointer("/comments/nodes")?.as_array()?;
    let author = |comment: &Value| text(comment, "/author/login").unwrap_or_default();
    let first = comments.first().filter(|first| is_same_login(&author(first), login))?;
    let body = text(first, "/body")?;
    let is_resolved = node.get("isResolved").and_then(Value::as_bool) == Some(true);
    let by_us = text(node, "/resolvedBy/login").is_some_and(|by| is_same_login(&by, login));
    let state = match (is_resolved, by_us) {
        (false, _) => ThreadState::Open,
        (true, true) => ThreadState::ResolvedByUs,
        (true, false) => ThreadState::Dismissed,
    };
    let is_alone = comments.iter().all(|comment| is_same_login(&author(comment), login));
    let may_resolve = node.get("viewerCanResolve").and_then(Value::as_bool) == Some(true);
    Some(Thread {
        id: text(node, "/id")?,
        mark: FindingMark::read(&body)?,
        path: text(node, "/path")?,
        line: node.get("line").and_then(Value::as_u64),
        comment: first.get("databaseId")?.as_u64()?,
        body,
        url: text(first, "/url").unwrap_or_default(),
        state,
        can_resolve: is_alone && may_resolve,
    })
}
