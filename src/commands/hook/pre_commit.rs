//! Runs `qwen hook pre-commit` on the staged change, as the index holds it, or on a range of commits.

use std::io::Write;

use super::super::check::local;
use super::asked::{BUDGET, HookRequest, Line, report, skipped};
use crate::cli::hook::HookMode;
use crate::cli::run::FromHook;
use crate::exit::Exit;
use crate::recipe::file::DiffKind;
use crate::run::Failure;
use crate::run::recipe::diff::right_of;
use crate::settings::Environment;

pub(super) async fn run(
    asked: &HookRequest<'_>,
    mode: Option<HookMode>,
    range: Option<&str>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    if asked.is_in_between() {
        return Ok(Exit::Ok);
    }
    let mode = mode.map_or_else(|| asked.mode(), Ok)?;
    let range = range.map(str::to_owned).or_else(|| of_pre_commit(asked.environment));
    let kind = if range.is_some() { DiffKind::Range } else { DiffKind::Staged };
    let policy = asked.place.policy(None, false, asked.environment)?.policy;
    let revision = range.as_deref().and_then(right_of);
    let from_hook = FromHook { revision, range: range.clone(), ..asked.facts() };
    let looked = local(asked.place, &policy, asked.environment, (kind, range.as_deref()), Some(&from_hook))?;
    if looked.files == 0 && range.is_none() {
        return skipped(asked.common, asked.what, err, "nothing is staged, and no range is given");
    }
    let lines = looked.findings.iter().map(Line::of).collect::<Vec<_>>();
    let ended = |exit: Exit| if mode == HookMode::Advise { Exit::Ok } else { exit };
    if mode == HookMode::Local || lines.iter().any(|line| line.blocks) {
        let exit = report(lines, asked.environment, out)?;
        if exit != Exit::Ok {
            let _closed = writeln!(err, "qwen: nothing was sent; take it out, or QWEN_HOOK=0 git commit");
        }
        return Ok(ended(exit));
    }
    if looked.texts == 0 {
        return report(lines, asked.environment, out);
    }
    let budget = asked.common.max_wall_time.unwrap_or(BUDGET);
    let reply = asked.ask("staged-check", &[], from_hook, budget).await?;
    asked.judge(reply, mode, out, err)
}

/// Returns the range that pre-commit was given (`--from-ref`, `--to-ref`).
fn of_pre_commit(environment: &Environment) -> Option<String> {
    let value = |name: &str| environment.value(name).filter(|value| !value.is_empty());
    Some(format!("{}...{}", value("PRE_COMMIT_FROM_REF")?, value("PRE_COMMIT_TO_REF")?))
}
