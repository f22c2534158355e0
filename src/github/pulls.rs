//! Reads and writes pull requests and their reviews.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::GitHub;
use super::error::GitHubError;
use super::issues::Comment;
use super::place::Patch;

/// A pull request as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// Its number.
    pub number: u64,
    /// Neither merged nor closed.
    pub is_open: bool,
    /// The last commit.
    pub head: String,
    /// The commit it is compared with.
    pub base: String,
    /// The branch with the commits.
    pub head_ref: String,
    /// The repository of that branch, `owner/name`; `None` where it is gone.
    pub head_repository: Option<String>,
    /// Its page.
    pub url: String,
}

/// A comment at lines of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineComment {
    /// The file, relative to the repository.
    pub path: String,
    /// The first line.
    pub start_line: u64,
    /// The last line.
    pub line: u64,
    /// Markdown.
    pub body: String,
}

/// A pull request that is open now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// It was there already, and was brought up to date.
    pub was_there: bool,
    /// The labels could not be set.
    pub without_labels: Option<String>,
}

/// What a pull request is to say.
#[derive(Debug, Clone, Copy)]
pub struct Proposed<'a> {
    /// The branch with the change, in the same repository.
    pub head: &'a str,
    /// The branch that it is for.
    pub base: &'a str,
    /// One line.
    pub title: &'a str,
    /// Markdown.
    pub body: &'a str,
    /// Whether it is a draft.
    pub draft: bool,
    /// Its labels.
    pub labels: &'a [String],
}

impl GitHub {
    /// Returns a pull request.
    pub async fn pull(&self, number: u64) -> Result<Pull, GitHubError> {
        let what = "the pull request";
        let pull = self.get(&format!("pulls/{number}"), what).await?;
        let text = |pointer: &str| pull.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let missing = |field| GitHubError::Answer { what: what.to_owned(), field };
        Ok(Pull {
            number,
            is_open: pull.get("state").and_then(Value::as_str) == Some("open"),
            head: text("/head/sha").ok_or_else(|| missing("head"))?,
            base: text("/base/sha").ok_or_else(|| missing("base"))?,
            head_ref: text("/head/ref").ok_or_else(|| missing("head"))?,
            head_repository: text("/head/repo/full_name"),
            url: text("/html_url").unwrap_or_default(),
        })
    }

    /// Returns what GitHub shows of each file of a pull request.
    pub async fn patches(&self, number: u64) -> Result<Vec<Patch>, GitHubError> {
        let files = self.list(&format!("pulls/{number}/files"), None, "the files of the pull request").await?;
        let text = |file: &Value, key: &str| file.get(key).and_then(Value::as_str).map(str::to_owned);
        let patch = |file: &Value| Some(Patch::read(text(file, "filename")?, &text(file, "patch").unwrap_or_default()));
        Ok(files.iter().filter_map(patch).collect())
    }

    /// Writes a review that neither approves nor refuses, and returns its page.
    pub async fn review(
        &self,
        number: u64,
        commit: &str,
        body: &str,
        comments: &[InlineComment],
    ) -> Result<String, GitHubError> {
        let comment = |comment: &InlineComment| {
            let mut value = json!({"path": comment.path, "body": comment.body, "line": comment.line, "side": "RIGHT"});
            if comment.start_line < comment.line {
                value["start_line"] = comment.start_line.into();
                value["start_side"] = "RIGHT".into();
            }
            value
        };
        let comments: Vec<Value> = comments.iter().map(comment).collect();
        let body = json!({"commit_id": commit, "event": "COMMENT", "body": body, "comments": comments});
        let answer = self.write(Method::POST, &format!("pulls/{number}/reviews"), Some(body), "the review").await?;
        Ok(answer.get("html_url").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Returns all comments in the reviews of a pull request, the oldest first.
    pub async fn review_comments(&self, number: u64) -> Result<Vec<Comment>, GitHubError> {
        let all = self.list(&format!("pulls/{number}/comments"), None, "the comments of the reviews").await?;
        Ok(all.iter().filter_map(Comment::read).collect())
    }

    /// Replaces the text of a comment in a review.
    pub async fn edit_review_comment(&self, id: u64, body: &str) -> Result<(), GitHubError> {
        let body = Some(json!({"body": body}));
        self.write(Method::PATCH, &format!("pulls/comments/{id}"), body, "a comment of the review").await.map(drop)
    }

    /// Answers a comment of a review, and returns the page of the answer.
    pub async fn reply(&self, number: u64, id: u64, body: &str) -> Result<String, GitHubError> {
        let path = format!("pulls/{number}/comments/{id}/replies");
        let answer = self.write(Method::POST, &path, Some(json!({"body": body})), "the reply").await?;
        Ok(answer.get("html_url").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Opens the pull request of a branch, or brings the open one up to date.
    pub async fn propose(&self, proposed: &Proposed<'_>) -> Result<Opened, GitHubError> {
        let open = self.open_pull(proposed).await?;
        let was_there = open.is_some();
        let says = |open: &Value, key: &str, text: &str| open.get(key).and_then(Value::as_str) == Some(text);
        let is_same = |open: &Value| says(open, "title", proposed.title) && says(open, "body", proposed.body);
        let known = open.as_ref().and_then(|open| open.get("number")).and_then(Value::as_u64);
        let pull = match (open, known) {
            (Some(open), _) if is_same(&open) => open,
            (_, Some(number)) => {
                let body = json!({"title": proposed.title, "body": proposed.body});
                self.write(Method::PATCH, &format!("pulls/{number}"), Some(body), "the pull request").await?
            }
            (_, None) => {
                let body = json!({"title": proposed.title, "body": proposed.body, "head": proposed.head,
                                  "base": proposed.base, "draft": proposed.draft});
                match self.write(Method::POST, "pulls", Some(body.clone()), "a new pull request").await {
                    // It may have been opened: a second one for the branch is refused anyway.
                    Err(error) if error.is_uncertain() => match self.open_pull(proposed).await? {
                        Some(open) => open,
                        None => self.write(Method::POST, "pulls", Some(body), "a new pull request").await?,
                    },
                    answer => answer?,
                }
            }
        };
        let missing = || GitHubError::Answer { what: "the pull request".to_owned(), field: "number" };
        let number = pull.get("number").and_then(Value::as_u64).ok_or_else(missing)?;
        let has = |label: &String| {
            let mut all = pull.get("labels").and_then(Value::as_array).into_iter().flatten();
            all.any(|known| says(known, "name", label))
        };
        let missing: Vec<String> = proposed.labels.iter().filter(|label| !has(label)).cloned().collect();
        let labelled = if missing.is_empty() { Ok(()) } else { self.add_labels(number, &missing).await };
        let url = pull.get("html_url").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Opened { number, url, was_there, without_labels: labelled.err().map(|error| error.to_string()) })
    }

    /// Returns the page of a closed pull request of this very commit; the branch may have got others since.
    pub async fn closed_pull(&self, proposed: &Proposed<'_>, commit: &str) -> Result<Option<String>, GitHubError> {
        let closed = self.pulls_of(proposed, "closed").await?;
        let text = |pull: &Value, pointer: &str| pull.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let own = closed.iter().find(|pull| text(pull, "/head/sha").as_deref() == Some(commit));
        Ok(own.and_then(|pull| text(pull, "/html_url")))
    }

    async fn open_pull(&self, proposed: &Proposed<'_>) -> Result<Option<Value>, GitHubError> {
        Ok(self.pulls_of(proposed, "open").await?.into_iter().next())
    }

    async fn pulls_of(&self, proposed: &Proposed<'_>, state: &str) -> Result<Vec<Value>, GitHubError> {
        let query: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("state", state)
            .append_pair("head", &format!("{}:{}", self.owner(), proposed.head))
            .append_pair("base", proposed.base)
            .finish();
        self.list(&format!("pulls?{query}"), None, &format!("the {state} pull requests")).await
    }
}
