//! Reads and writes comments and labels of issues; a pull request is one, too.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{GitHub, segment};
use super::error::GitHubError;

/// A comment below an issue or a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Its number.
    pub id: u64,
    /// Who wrote it.
    pub author: String,
    /// Its text.
    pub body: String,
    /// Its page.
    pub url: String,
}

/// Tells whether two logins are the same account: GraphQL leaves `[bot]` out.
pub fn is_same_login(one: &str, other: &str) -> bool {
    let bare = |login: &str| login.strip_suffix("[bot]").unwrap_or(login).to_ascii_lowercase();
    bare(one) == bare(other)
}

/// What an issue or a pull request says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// One line.
    pub title: String,
    /// Markdown.
    pub body: String,
    /// Who wrote it.
    pub author: String,
}

impl Said {
    fn read(value: &Value) -> Said {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Said { title: text("/title"), body: text("/body"), author: text("/user/login") }
    }
}

impl Comment {
    pub(super) fn read(value: &Value) -> Option<Comment> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Comment {
            id: value.get("id")?.as_u64()?,
            author: text("/user/login"),
            body: text("/body"),
            url: text("/html_url"),
        })
    }

    fn of(value: &Value, what: &str) -> Result<Comment, GitHubError> {
        Comment::read(value).ok_or_else(|| GitHubError::Answer { what: what.to_owned(), field: "id" })
    }
}

impl GitHub {
    /// Returns all comments below an issue, the oldest first.
    pub async fn comments(&self, number: u64) -> Result<Vec<Comment>, GitHubError> {
        let all = self.list(&format!("issues/{number}/comments"), None, "the comments").await?;
        Ok(all.iter().filter_map(Comment::read).collect())
    }

    /// Writes a comment below an issue.
    pub async fn comment(&self, number: u64, body: &str) -> Result<Comment, GitHubError> {
        let (path, what) = (format!("issues/{number}/comments"), "the comment");
        let answer = self.write(Method::POST, &path, Some(json!({"body": body})), what).await?;
        Comment::of(&answer, what)
    }

    /// Shows that a comment is seen; a second time changes nothing. `in_review`: it is in a thread of a review.
    pub async fn acknowledge(&self, id: u64, in_review: bool) -> Result<(), GitHubError> {
        let kind = if in_review { "pulls" } else { "issues" };
        let path = format!("{kind}/comments/{id}/reactions");
        self.write(Method::POST, &path, Some(json!({"content": "eyes"})), "the reaction").await.map(drop)
    }

    /// Replaces the text of a comment.
    pub async fn edit_comment(&self, id: u64, body: &str) -> Result<Comment, GitHubError> {
        let (path, what) = (format!("issues/comments/{id}"), "the comment");
        let answer = self.write(Method::PATCH, &path, Some(json!({"body": body})), what).await?;
        Comment::of(&answer, what)
    }

    /// Deletes a comment; one that is gone already is fine.
    pub async fn delete_comment(&self, id: u64) -> Result<(), GitHubError> {
        match self.write(Method::DELETE, &format!("issues/comments/{id}"), None, "an old comment").await {
            Err(error) if !error.has_status(404) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns the labels of an issue.
    pub async fn labels_of(&self, number: u64) -> Result<Vec<String>, GitHubError> {
        let all = self.list(&format!("issues/{number}/labels"), None, "the labels").await?;
        Ok(names(&all))
    }

    /// Returns the labels that the repository has.
    pub async fn labels(&self) -> Result<Vec<String>, GitHubError> {
        Ok(self.described_labels().await?.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the labels that the repository has, each with what it means.
    pub async fn described_labels(&self) -> Result<Vec<(String, String)>, GitHubError> {
        let all = self.list("labels", None, "the labels of the repository").await?;
        let text = |label: &Value, key: &str| label.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(all
            .iter()
            .filter_map(|label| Some((text(label, "name")?, text(label, "description").unwrap_or_default())))
            .collect())
    }

    /// Returns title, text and author of an issue.
    pub async fn issue(&self, number: u64) -> Result<Said, GitHubError> {
        Ok(Said::read(&self.get(&format!("issues/{number}"), "the issue").await?))
    }

    /// Returns title, text and author of a pull request.
    pub async fn said(&self, number: u64) -> Result<Said, GitHubError> {
        Ok(Said::read(&self.get(&format!("pulls/{number}"), "the pull request").await?))
    }

    /// Adds labels to an issue.
    pub async fn add_labels(&self, number: u64, labels: &[String]) -> Result<(), GitHubError> {
        let (path, body) = (format!("issues/{number}/labels"), json!({"labels": labels}));
        self.write(Method::POST, &path, Some(body), "the labels").await.map(drop)
    }

    /// Takes a label from an issue; one that is gone already is fine.
    pub async fn remove_label(&self, number: u64, label: &str) -> Result<(), GitHubError> {
        let path = format!("issues/{number}/labels/{}", segment(label));
        match self.write(Method::DELETE, &path, None, "a label").await {
            Err(error) if !error.has_status(404) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn names(labels: &[Value]) -> Vec<String> {
    labels.iter().filter_map(|label| Some(label.get("name")?.as_str()?.to_owned())).collect()
}
