//! Runs the commands that finish a change after each attempt of the model; what they change is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use globset::GlobSet;

use super::checks::{Action, CheckEnvironment, action};
use super::quoted;
use crate::agent::invoke::PolicyCheck;
use crate::change::{ChangeSet, Entry};
use crate::event::Event;
use crate::path::RelPath;
use crate::policy::Denial;
use crate::recipe::file::Finish;
use crate::verify::guards::{Violation, globs};
use crate::verify::{CheckResult, FEEDBACK_BYTES, Failed};

/// A command that may run.
pub struct Step {
    name: String,
    command: String,
    action: Action,
    writes: GlobSet,
    timeout: Option<Duration>,
}

impl Step {
    /// Judges a command after rendering its words.
    pub fn new(finish: &Finish, words: &[String], judge: &dyn PolicyCheck) -> Result<Step, Denial> {
        Ok(Step {
            name: finish.name.value.clone(),
            command: words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
            action: action(words, None, judge)?,
            writes: globs(&finish.writes),
            timeout: finish.timeout.map(|time| time.0),
        })
    }

    /// Runs it, and returns how it ended if it did not pass.
    async fn run(
        &self,
        environment: &CheckEnvironment<'_>,
        attempts: (u32, u32),
        emit: &(dyn Fn(Event) + Send + Sync),
    ) -> Option<CheckResult> {
        let started = Instant::now();
        let timeout = self.timeout.unwrap_or(environment.timeout);
        let done = environment.perform(&self.action, environment.runner, timeout, &environment.begin()).await;
        let result = CheckResult {
            name: self.name.clone(),
            command: self.command.clone(),
            expect_failure: false,
            feedback_bytes: FEEDBACK_BYTES,
            exit_code: done.exit_code,
            output: done.output,
            timed_out: done.timed_out,
        };
        environment.report(&result, started, attempts, emit);
        (!result.passed()).then_some(result)
    }

    /// Returns what it changed and may not change.
    fn outside(&self, before: &ChangeSet, after: &ChangeSet) -> Vec<Violation> {
        let paths: BTreeSet<&RelPath> = before.iter().chain(after.iter()).map(|(path, _)| path).collect();
        let wrong = paths.into_iter().filter(|path| left(before, path) != left(after, path));
        let wrong = wrong.filter(|path| !self.writes.is_match(path.to_string()));
        let message = |path: &RelPath| format!("{path} is changed by `{}`, which `writes` does not name", self.command);
        wrong.map(|path| Violation { guard: "finish", message: message(path) }).collect()
    }
}

/// Returns what a change leaves at a path; `None` where it does not touch it.
fn left<'a>(changes: &'a ChangeSet, path: &RelPath) -> Option<&'a Entry> {
    changes.get(path).map(|change| &change.after)
}

/// The commands, and what they alone have changed so far.
#[derive(Default)]
pub struct Finishing {
    /// The commands, in order.
    pub steps: Vec<Step>,
    finished: Mutex<BTreeMap<RelPath, Entry>>,
}

impl Finishing {
    /// Runs the commands on what the model left. Where it changed nothing, nothing is to be finished.
    pub async fn run(
        &self,
        environment: &CheckEnvironment<'_>,
        attempts: (u32, u32),
        emit: &(dyn Fn(Event) + Send + Sync),
    ) -> Option<Failed> {
        let workspace = environment.place.workspace;
        let begun = workspace.changes();
        if self.steps.is_empty() || begun.is_empty() {
            return None;
        }
        let of_model = begun.iter().map(|(path, _)| path).filter(|path| !self.is_finished(&begun, path));
        let of_model: BTreeSet<RelPath> = of_model.cloned().collect();
        for step in &self.steps {
            let before = workspace.changes();
            let failed = step.run(environment, attempts, emit).await;
            let after = workspace.changes();
            // A command that fails has written, too, and so have those before it.
            self.note(step, (&before, &after), &of_model);
            if let Some(failed) = failed {
                return Some(Failed::Check(failed));
            }
            let violations = step.outside(&before, &after);
            if !violations.is_empty() {
                return Some(Failed::Guards(violations));
            }
        }
        None
    }

    /// Remembers what a command changed that the model did not.
    fn note(&self, step: &Step, (before, after): (&ChangeSet, &ChangeSet), of_model: &BTreeSet<RelPath>) {
        let own = after.iter().filter(|(path, _)| left(before, path) != left(after, path));
        let own = own.filter(|(path, _)| step.writes.is_match(path.to_string()) && !of_model.contains(*path));
        let own = own.map(|(path, change)| (path.clone(), change.after.clone()));
        self.finished.lock().expect("nothing panics while it holds the files").extend(own);
    }

    /// Tells whether a file is as the commands left it, and nobody else changed it.
    pub fn is_finished(&self, changes: &ChangeSet, path: &RelPath) -> bool {
        let finished = self.finished.lock().expect("nothing panics while it holds the files");
        finished.get(path).is_some_and(|entry| left(changes, path) == Some(entry))
    }
}
