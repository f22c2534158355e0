//! Runs `qwen ci acknowledge`: shows that a comment is seen which starts a run.

use std::io::Write;

use super::error::{CiError, StepError};
use super::guard::{Permission, guard};
use super::job::{Job, say, say_failure};
use crate::emit::github::notice;
use crate::exit::Exit;
use crate::run::Failure;

pub(super) async fn run(job: &mut Job, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (exit, conclusion) = match acknowledge(job).await {
        Ok(None) => (Exit::Ok, "success"),
        Ok(Some(why)) => {
            say(out, &notice("notice", "qwen", &why));
            (Exit::Ok, "nothing_to_do")
        }
        Err(failure) => {
            say_failure(out, failure.exit, &failure.error.message, failure.error.hint.as_deref());
            (failure.exit, if failure.exit == Exit::Denied { "refused_trigger" } else { "error" })
        }
    };
    job.set("conclusion", conclusion);
    job.set("exit-code", exit.code().to_string());
    job.write_outputs()?;
    Ok(exit)
}

/// Says why there is nothing to acknowledge.
async fn acknowledge(job: &Job) -> Result<Option<String>, Failure> {
    job.inputs.check()?;
    let event_name = job.variable("GITHUB_EVENT_NAME").ok_or(CiError::NoEvent)?;
    match job.inputs.asked(job.event().as_ref()) {
        Ok(_) => {}
        Err(Ok(why)) => return Ok(Some(format!("not acknowledged: {why}"))),
        Err(Err(error)) => return Err(error.into()),
    }
    if let Permission::Skip(why) = guard(job, &event_name, false).await? {
        return Ok(Some(format!("not acknowledged: {why}")));
    }
    let in_review = match event_name.as_str() {
        "issue_comment" => false,
        "pull_request_review_comment" => true,
        _ => return Ok(Some("not acknowledged: the event is not a comment that can have a reaction".to_owned())),
    };
    let id = job.event().and_then(|event| event.pointer("/comment/id")?.as_u64());
    let id = id.ok_or_else(|| CiError::Input("the event names no comment".to_owned()))?;
    let permission = if in_review { "pull-requests: write" } else { "issues: write" };
    let failed = |error| StepError::new("the reaction", permission, String::new(), error);
    job.github().map_err(failed)?.acknowledge(id, in_review).await.map_err(failed)?;
    Ok(None)
}
