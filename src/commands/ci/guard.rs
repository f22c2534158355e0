//! Asks who may start a job.

use super::error::CiError;
use super::job::Job;
use crate::git::KEYS;
use crate::policy::trigger::{Trigger, Verdict};

/// What came of asking who may start the run.
pub(super) enum Permission {
    /// Nothing starts, although nobody did wrong: why.
    Skip(String),
    /// It starts.
    Start {
        /// Nobody but people who may write started it.
        by_writer: bool,
    },
}

/// Asks who may start the run.
pub(super) async fn guard(job: &Job, event_name: &str, is_harmless: bool) -> Result<Permission, CiError> {
    let event = job.event();
    let actor = job.variable("GITHUB_ACTOR").unwrap_or_default();
    let triggering_actor = job.variable("GITHUB_TRIGGERING_ACTOR").unwrap_or_default();
    let trigger = Trigger {
        event_name,
        event: event.as_ref(),
        actor: &actor,
        triggering_actor: &triggering_actor,
        allowed: &job.inputs.trigger.allow_actors,
        mention: job.inputs.trigger.mention.as_deref(),
        label: job.inputs.trigger.label.as_deref(),
        assignee: job.inputs.trigger.assignee.as_deref(),
        is_harmless,
    };
    let verdict = trigger.judge();
    if matches!(verdict, Verdict::Start | Verdict::Ask(_)) && trigger.gets_no_secrets() && lacks_key(job) {
        let text =
            "GitHub gives this pull request no secrets, so there is no API key; allow-actors alone does not help";
        return Ok(Permission::Skip(text.to_owned()));
    }
    let people = match verdict {
        Verdict::Start => return Ok(Permission::Start { by_writer: trigger.needs_write() }),
        Verdict::Skip(why) => return Ok(Permission::Skip(why)),
        Verdict::Refuse(why) => return Err(CiError::Refused(why)),
        Verdict::Ask(people) => people,
    };
    let github =
        job.github().map_err(|error| CiError::Refused(format!("cannot check who may start this run: {error}")))?;
    for login in people {
        match github.may_write(&login).await {
            Ok(true) => {}
            Ok(false) => return Err(CiError::Refused(format!("{login} may not write to this repository"))),
            Err(error) => {
                return Err(CiError::Refused(format!(
                    "GitHub does not say whether {login} may write to this repository: {error}"
                )));
            }
        }
    }
    Ok(Permission::Start { by_writer: true })
}

/// Tells whether there is no key, and a server that wants one: all but those of this machine may.
fn lacks_key(job: &Job) -> bool {
    let server = ["QWEN_BASE_URL", "OPENAI_BASE_URL"].iter().find_map(|name| job.variable(name));
    let host = server.and_then(|server| url::Url::parse(&server).ok()?.host_str().map(str::to_owned));
    let is_local = host.is_some_and(|host| ["127.0.0.1", "localhost", "[::1]"].contains(&host.as_str()));
    !is_local && KEYS.iter().all(|name| job.variable(name).is_none_or(|key| key.is_empty()))
}
