//! Reads and writes check runs.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::GitHub;
use super::error::GitHubError;

/// A check run that is over when it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRun<'a> {
    /// Its name.
    pub name: &'a str,
    /// The commit.
    pub head: &'a str,
    /// The run that it is about: a second one for it is not made.
    pub run_id: &'a str,
    /// `success`, `failure` or `neutral`.
    pub conclusion: &'a str,
    /// One line.
    pub title: &'a str,
    /// Markdown.
    pub summary: &'a str,
    /// The page of the workflow run.
    pub url: Option<&'a str>,
}

impl GitHub {
    /// Tells whether a commit has the check of this run already.
    pub async fn has_check(&self, check: &CheckRun<'_>) -> Result<bool, GitHubError> {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("check_name", check.name).finish();
        let path = format!("commits/{}/check-runs?{query}", check.head);
        let all = self.list(&path, Some("check_runs"), "the checks of the commit").await?;
        Ok(all.iter().any(|run| run.get("external_id").and_then(Value::as_str) == Some(check.run_id)))
    }

    /// Writes a check run.
    pub async fn check(&self, check: &CheckRun<'_>) -> Result<(), GitHubError> {
        let mut body = json!({
            "name": check.name, "head_sha": check.head, "external_id": check.run_id, "status": "completed",
            "conclusion": check.conclusion, "output": {"title": check.title, "summary": check.summary},
        });
        if let Some(url) = check.url {
            body["details_url"] = url.into();
        }
        self.write(Method::POST, "check-runs", Some(body), "the check").await.map(drop)
    }
}
