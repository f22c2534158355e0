//! Starts workflows, and reads what their jobs printed.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{GitHub, segment};
use super::error::GitHubError;

/// A job of a workflow run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
}

impl GitHub {
    /// Returns the numbers of the failed runs of a commit, the newest first.
    pub async fn failed_runs(&self, commit: &str) -> Result<Vec<u64>, GitHubError> {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("head_sha", commit)
            .append_pair("status", "failure")
            .finish();
        let path = format!("actions/runs?{query}");
        let runs = self.list(&path, Some("workflow_runs"), "the runs of the commit").await?;
        Ok(runs.iter().filter_map(|run| run.get("id")?.as_u64()).collect())
    }

    /// Returns the failed jobs of a run.
    pub async fn failed_jobs(&self, run: u64) -> Result<Vec<Job>, GitHubError> {
        let jobs = self.list(&format!("actions/runs/{run}/jobs"), Some("jobs"), "the jobs of the run").await?;
        let has_failed = |job: &&Value| job.get("conclusion").and_then(Value::as_str) == Some("failure");
        let job = |job: &Value| Some(Job { id: job.get("id")?.as_u64()?, name: job.get("name")?.as_str()?.to_owned() });
        Ok(jobs.iter().filter(has_failed).filter_map(job).collect())
    }

    /// Returns the log of a job.
    pub async fn log(&self, job: u64) -> Result<String, GitHubError> {
        self.text_elsewhere(&format!("actions/jobs/{job}/logs"), "the log of a job").await
    }

    /// Tells whether a workflow was started by hand for a commit.
    pub async fn has_run(&self, workflow: &str, commit: &str) -> Result<bool, GitHubError> {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("event", "workflow_dispatch")
            .append_pair("head_sha", commit)
            .finish();
        let path = format!("actions/workflows/{}/runs?{query}", segment(workflow));
        let runs = self.list(&path, Some("workflow_runs"), "the runs of the workflow").await?;
        Ok(!runs.is_empty())
    }

    /// Starts a workflow for a branch.
    pub async fn dispatch(&self, workflow: &str, branch: &str) -> Result<(), GitHubError> {
        let path = format!("actions/workflows/{}/dispatches", segment(workflow));
        self.write(Method::POST, &path, Some(json!({"ref": branch})), "the checks").await.map(drop)
    }
}
