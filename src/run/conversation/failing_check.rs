//! Runs the failing command that the task names: before the model begins, and again before its answer is believed.

use std::time::Duration;

use crate::agent::invoke::PolicyCheck;
use crate::prompt::named_check::named_check;
use crate::run::recipe::checks::{Action, CheckEnvironment, Done, action};
use crate::tools::Variables;
use crate::verify;

/// How long it may run.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Bytes of its output that the model reads.
const SHOWN: usize = 1_500;

/// How often the model hears that it still fails.
const REMINDERS: u32 = 2;

/// A command that fails and is to pass.
pub struct FailingCheck {
    command: String,
    action: Action,
    reminders: u32,
}

impl FailingCheck {
    /// Finds and runs the command; `None` if the task names none, the model could not run it, or it passes. The text is
    /// for the model.
    pub async fn find(
        task: &str,
        judge: &dyn PolicyCheck,
        environment: &CheckEnvironment<'_>,
    ) -> Option<(FailingCheck, String)> {
        let words = named_check(task)?;
        let action = action(&words, None, judge).ok()?;
        let check = FailingCheck { command: words.join(" "), action, reminders: REMINDERS };
        let (code, output) = check.fails(environment).await?;
        let text = format!("`{}` fails now (exit code {code}):\n{output}\n\n", check.command);
        Some((check, text))
    }

    /// Runs it again; `Some` is for the model if it still fails, `None` if the answer counts.
    pub async fn remind(&mut self, environment: &CheckEnvironment<'_>) -> Option<String> {
        self.reminders = self.reminders.checked_sub(1)?;
        let (code, output) = self.fails(environment).await?;
        Some(format!(
            "`{}` still fails (exit code {code}):\n{output}\n\nSo the task is not done. Correct the files with the tools.",
            self.command
        ))
    }

    /// Returns exit code and output if it ran and failed. It leaves nothing in the change.
    async fn fails(&self, environment: &CheckEnvironment<'_>) -> Option<(i32, String)> {
        let mut variables = Variables::default();
        variables.0.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
        let (done, _) = environment.perform_check(&self.action, environment.runner, TIMEOUT, &variables).await;
        let code = done.exit_code.filter(|code| *code != 0 && !is_missing(*code, &done))?;
        let tail = verify::tail(&done.output, &environment.runner.seen_root());
        Some((code, verify::middle_cut(&tail, SHOWN).trim_end().to_owned()))
    }
}

/// Tells whether what failed is the program itself: it is not installed, or must not run here.
fn is_missing(code: i32, done: &Done) -> bool {
    matches!(code, 126 | 127) || done.output.contains("No module named pytest")
}
