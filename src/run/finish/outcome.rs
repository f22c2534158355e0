//! Ends a run: delivery, its failures, and what the result reports about the changes.

use crate::agent::OnDeny;
use crate::agent::limits::Denials;
use crate::change::{Change, ChangeSet};
use crate::deliver::gate::Cap;
use crate::deliver::inert::{inert, inert_subject};
use crate::deliver::{self, DeliverError, Delivered, Delivery, DeliveryRequest, Gate, Site};
use crate::event::{Event, RunError, RunFinished};
use crate::exit::Exit;
use crate::path::RelPath;
use crate::recipe::file::{Body, IfNoChanges};
use crate::verify::Failed;
use crate::workspace::tree::CommandTree;

use crate::run::error::{DeliveryError, Failure, VerifyError};
use crate::run::finish::ignored;
use crate::run::finish::mode::Mode;
use crate::run::finish::stage::Stage;
use crate::run::output::emitter::Emitter;
use crate::run::output::masking::published;
use crate::run::recipe::answers::Answer;
use crate::run::rules::judge::judge_change;
use crate::run::stages::Setup;

/// Delivers what is staged, or returns why not.
///
/// `tree`: where commands worked, if their ignored files are delivered as well.
pub fn deliver(
    setup: &Setup,
    stage: &Stage,
    emitter: &Emitter,
    answer: Answer,
    tree: Option<&CommandTree>,
) -> RunFinished {
    if answer.nothing_to_do {
        return nothing_to_do(answer.text);
    }
    if let Some(failure) = answer.cut_short {
        let mut finished = RunFinished::from(failure);
        let exit = finished.exit;
        answer.taken.complete(&mut finished);
        return RunFinished { exit, ..finished };
    }
    let warn = |message: String| emitter.emit(Event::Warning { message });
    let (changes, text) = (stage.workspace.changes(), answer.text.clone());
    let (mut finished, exit) = answered(setup, answer);
    if changes.is_empty()
        && let Some(error) = no_changes(setup, &warn)
    {
        finished.exit = Exit::NoChanges.or_worse(exit);
        finished.error = Some(error);
        return finished;
    }
    emitter.emit(Event::DeliveryStarted { mode: stage.mode.name().into() });
    match delivered(setup, stage, &text, &changes, tree) {
        Ok((delivered, left)) => {
            delivered.warnings.iter().chain(&left).for_each(|message| warn(message.clone()));
            // Secrets that passed the gate were there before, or the policy allows them.
            let shown = setup.masking.secrets.shown_in(&String::from_utf8_lossy(&delivered.patch));
            if !shown.is_empty() {
                warn(format!("the patch contains {}; it is masked in logs only", shown.join(" and ")));
            }
            finished.branch = delivered.branch.clone();
            finished.commit = delivered.commit.clone();
            finished.changes = stage.report(&delivered, &changes);
            finished.changes.closes = setup.closes();
        }
        Err((failure, rolled_back)) => {
            finished.exit = failure.exit;
            finished.error = Some(*failure.error);
            finished.changes.rolled_back = rolled_back;
        }
    }
    finished
}

/// Returns the ending that an answer gives a run, as if it had changed nothing; and the exit without that of its form.
fn answered(setup: &Setup, answer: Answer) -> (RunFinished, Exit) {
    let exit = match (answer.denials.number, setup.rules.on_deny) {
        (0, _) | (_, OnDeny::Continue) => Exit::Ok,
        (_, OnDeny::Fail | OnDeny::Stop) => Exit::Denied,
    };
    let mut finished = RunFinished {
        exit,
        error: (exit == Exit::Denied).then(|| RunError {
            code: "denied".into(),
            message: format!("the policy denied a call of {}; the rest was done", denied(&answer.denials)),
            hint: Some(
                "`permission_denials` of the JSON result has each call; with --on-deny continue such a run ends with 0"
                    .into(),
            ),
            ..RunError::default()
        }),
        result: answer.text,
        changes_expected: setup.delivery.expected,
        ..RunFinished::failed(exit, RunError::default())
    };
    answer.taken.complete(&mut finished);
    (finished, exit)
}

fn denied(denials: &Denials) -> String {
    match denials.number {
        0 | 1 => denials.first.clone(),
        number => format!("{} (and {} more)", denials.first, number - 1),
    }
}

/// Says what it means that there are no changes: a warning, or an error.
fn no_changes(setup: &Setup, warn: &dyn Fn(String)) -> Option<RunError> {
    let if_no_changes = setup.git_wishes().and_then(|git| git.if_no_changes).unwrap_or_default();
    if if_no_changes == IfNoChanges::Warn {
        warn("the recipe requires changes; none were made".to_owned());
    }
    (setup.delivery.required || if_no_changes == IfNoChanges::Fail).then(|| RunError {
        code: "no_changes".into(),
        message: "--require-changes was given, and the model made no changes".into(),
        ..RunError::default()
    })
}

/// Delivers what is staged, and returns a warning about outputs that are not. The error says, too, whether a delivery was
/// begun and rolled back.
fn delivered(
    setup: &Setup,
    stage: &Stage,
    answer: &str,
    changes: &ChangeSet,
    tree: Option<&CommandTree>,
) -> Result<(Delivered, Option<String>), (Failure, bool)> {
    let policy = &setup.rules.policy;
    let how = delivery(setup, stage, answer).map_err(|failure| (failure, false))?;
    let judge = |path: &RelPath, change: &Change| judge_change(policy, &setup.facts(stage), path, (change, changes));
    let secret = |path: &RelPath, change: &Change| setup.masking.secrets.added(path, change, policy.refuses_secrets());
    let options = [setup.delivery.max_files, setup.delivery.max_patch_bytes];
    let [max_files, max_patch_bytes] = Cap::both(options, policy.change_limits());
    let gate = Gate {
        judge: &judge,
        secret: &secret,
        hide: &|text| published(text, policy, &setup.masking.secrets),
        made_by: &|path| stage.workspace.made_by(path),
        max_files,
        max_patch_bytes,
    };
    let facts = setup.facts(stage);
    let rules = ignored::Rules { policy, facts: &facts };
    let outputs = tree.filter(|_| !changes.is_empty()).map(|tree| ignored::outputs(tree, changes, &rules)).transpose();
    let outputs = outputs.map_err(|error| (error.into(), false))?;
    let site = Site {
        outputs: outputs.as_ref().map(|(outputs, _)| outputs),
        root: stage.workspace.root(),
        repository: stage.repository.as_ref(),
        undo: setup.delivery.undo.as_deref(),
        run_id: &setup.run.id,
        time: &setup.run.time,
    };
    let delivered = deliver::deliver(changes, &how, &site, &gate).map_err(|error| {
        let rolled_back = error.rolled_back();
        (error.into(), rolled_back)
    })?;
    Ok((delivered, outputs.and_then(|(_, left)| left)))
}

fn delivery(setup: &Setup, stage: &Stage, answer: &str) -> Result<Delivery, Failure> {
    let hide = |text: &str| published(text, &setup.rules.policy, &setup.masking.secrets);
    let order = || {
        // What the model wrote notifies nobody and closes nothing; a message that is typed is the operator's.
        let answer = inert(&hide(answer));
        let given = setup.delivery.message.as_deref().map(masked(&hide));
        let own = setup.subject()?.as_deref().map(masked(&hide));
        let (subject, body) = match (given.as_deref(), own) {
            (None, Some(subject)) => {
                let body = match setup.git_wishes().and_then(|git| git.body) {
                    Some(Body::None) => String::new(),
                    Some(Body::Model | Body::Summary) | None => answer.trim().to_owned(),
                };
                (inert(&message_parts(Some(&subject), "").0), body)
            }
            (given, _) => message_parts(given, &answer),
        };
        let assisted = format!("qwen-run:{}", setup.asked.client.name);
        let recipe = setup.recipe.as_ref().map(|active| {
            let facts = active.recipe.facts();
            let version = facts.version.map(|version| format!("@{version}")).unwrap_or_default();
            format!("{}{version} sha256:{}", facts.name, facts.sha256)
        });
        let own = setup.trailers()?.into_iter().map(|(name, value)| (name, hide(&value))).collect::<Vec<_>>();
        let mut trailers = vec![("Assisted-by", assisted.as_str())];
        trailers.extend(recipe.as_deref().map(|recipe| ("Qwen-Recipe", recipe)));
        trailers.push(("Qwen-Run-Id", setup.run.id.as_str()));
        let closes = setup.closes().map(|number| format!("#{number}"));
        trailers.extend(closes.as_deref().map(|number| ("Closes", number)));
        trailers.extend(own.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let message = deliver::message::message(&subject, &body, &trailers).map_err(DeliveryError::Message)?;
        Ok::<DeliveryRequest, Failure>(DeliveryRequest {
            message,
            sign: setup.delivery.sign,
            ..DeliveryRequest::default()
        })
    };
    Ok(match &stage.mode {
        Mode::DryRun => Delivery::DryRun,
        Mode::Apply => Delivery::Apply,
        Mode::Commit => Delivery::Commit(order()?),
        Mode::Branch(name) => {
            refuse_secret(name, setup)?;
            Delivery::Branch { name: name.clone(), order: order()? }
        }
    })
}

/// Masks a message that somebody gave. A placeholder may be longer than what it stands for: the first line still fits.
fn masked<'h>(hide: &'h impl Fn(&str) -> String) -> impl Fn(&str) -> String + 'h {
    move |text| {
        let hidden = hide(text);
        if hidden == text {
            return hidden;
        }
        let (subject, rest) = hidden.split_at(hidden.find('\n').unwrap_or(hidden.len()));
        inert_subject(subject) + rest
    }
}

/// Refuses the name of a branch that shows a secret: it cannot be masked.
fn refuse_secret(name: &str, setup: &Setup) -> Result<(), DeliverError> {
    let shown = setup.masking.secrets.shown_in(name);
    match shown.first().filter(|_| setup.rules.policy.refuses_secrets()) {
        Some(secret) => Err(DeliverError::denied(
            format!("the name of the branch shows a secret ({secret})"),
            "name another; the policy's `secrets.on_write` decides",
        )),
        None => Ok(()),
    }
}

/// Splits `--message` into subject and body; without it the answer gives both.
fn message_parts(given: Option<&str>, answer: &str) -> (String, String) {
    let plain =
        |text: &str| -> String { text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned() };
    match given {
        Some(text) => {
            let (subject, body) = text.split_once('\n').unwrap_or((text, ""));
            (plain(subject), body.trim().to_owned())
        }
        None => {
            let first =
                answer.lines().map(plain).find(|line| !line.is_empty()).unwrap_or_else(|| "Change files".into());
            let first = first.trim_start_matches(['#', '*', ' ']).to_owned();
            (inert_subject(&first), answer.trim().to_owned())
        }
    }
}

/// The ending of a run whose checks still fail.
pub fn verify_failed(failed: &Failed, (attempt, attempts): (u32, u32), same: bool) -> VerifyError {
    let violation = match failed {
        Failed::Check(_) => None,
        Failed::Guards(violations) => Some(violations.first().map(|first| first.message.clone()).unwrap_or_default()),
    };
    VerifyError::StillFails { name: failed.name().to_string(), same, attempt, attempts, violation }
}

/// The ending of a run for which there was nothing to do.
pub fn nothing_to_do(text: String) -> RunFinished {
    RunFinished {
        error: None,
        result: text,
        changes_expected: true,
        ..RunFinished::failed(Exit::Ok, RunError::default())
    }
}

/// The ending of a run that a signal stopped.
pub fn interrupted(exit: Exit) -> RunFinished {
    let signal = crate::run::output::signals::name().unwrap_or("a signal");
    RunFinished::failed(
        exit,
        RunError {
            code: "interrupted".into(),
            message: format!("interrupted by {signal}; the tree is unchanged"),
            retryable: true,
            ..RunError::default()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_from_the_flag_or_from_the_answer() {
        assert_eq!(message_parts(Some("fix: x\n\nwhy"), "a"), ("fix: x".into(), "why".into()));
        assert_eq!(message_parts(None, "# Done it\nmore").0, "Done it");
        let long = message_parts(None, &"word ".repeat(40)).0;
        assert!(long.chars().count() <= deliver::message::SUBJECT && long.ends_with('…'));
        assert_eq!(message_parts(None, "").0, "Change files");
    }
}
