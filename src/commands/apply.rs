//! `qwen apply`: judges what a dry run proposed once more, and delivers all of it or nothing.

use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;

use super::{Place, print, read};
use crate::change::Change;
use crate::cli::apply::ApplyArgs;
use crate::deliver::propose::{Base, Proposal};
use crate::deliver::{self, Delivery, Gate, Order, Site};
use crate::emit::{Format, to_line};
use crate::exit::Exit;
use crate::path::RelPath;
use crate::policy::redact::Secrets;
use crate::run::outcome::from_delivery;
use crate::run::outputs::new_id;
use crate::run::runner::judge_change;
use crate::run::{Failure, policy_layers};
use crate::run::{folders::state_folder, prepare::secret_variables};
use crate::settings::Environment;

pub(super) fn run(arguments: &ApplyArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::open(&arguments.workspace, environment)?;
    let input = read(&arguments.from, environment)?;
    let chosen: policy_layers::Chosen = place.policy(arguments.policy.as_deref(), true, environment)?;
    let facts = place.facts(environment);
    let undo = state_folder(environment)?.join("undo");
    let run_id = new_id();
    let time = jiff::Timestamp::now().to_string();
    let site = Site {
        root: place.workspace.root(),
        repository: place.repository.as_ref(),
        undo: (!arguments.check).then_some(undo.as_path()),
        run_id: &run_id,
        time: &time,
    };
    let proposal = Proposal::read(&input, None).map_err(|error| from_delivery(&error))?;
    let changes = proposal.changes(Base::SameFiles, &site).map_err(|error| from_delivery(&error))?;
    let order = || {
        let message = arguments.message.clone().unwrap_or_else(|| "Apply a proposed change".to_owned());
        let (subject, body) = message.split_once('\n').unwrap_or((&message, ""));
        deliver::commit::message(subject.trim(), body, &[("Assisted-by", "qwen-run")])
            .map(|message| Order { message, ..Order::default() })
            .map_err(|problem| Failure::new(Exit::Usage, format!("--message: {problem}"), "give a short first line"))
    };
    let how = match (&arguments.branch, arguments.commit, arguments.check) {
        (_, _, true) => Delivery::DryRun,
        (Some(name), _, false) => Delivery::Branch { name: name.clone(), order: order()? },
        (None, true, false) => Delivery::Commit(order()?),
        (None, false, false) => Delivery::Apply,
    };
    deliver::preflight(&how, &site).map_err(|error| from_delivery(&error))?;
    if matches!(how, Delivery::Apply | Delivery::Commit(_)) {
        let recovered = deliver::recover(&undo, site.root).map_err(|error| {
            Failure::new(
                Exit::Conflict,
                format!("an earlier delivery was cut off and cannot be taken back: {error}"),
                "qwen undo",
            )
        })?;
        for report in recovered {
            print(out, &format!("took back a delivery that was cut off: {}\n", report.run_id))?;
        }
    }
    let policy = chosen.policy;
    let secrets = Secrets::new(&secret_variables(environment, None, None), &policy.secret_patterns())
        .map_err(|error| Failure::new(Exit::Config, error, "correct `secrets.patterns` in the policy"))?;
    let judge = |path: &RelPath, change: &Change| judge_change(&policy, &facts, path, change);
    let secret = |path: &RelPath, change: &Change| secrets.added(path, change, policy.refuses_secrets());
    let (max_files, max_bytes) = policy.change_limits();
    let gate = Gate {
        judge: &judge,
        secret: &secret,
        max_files: usize::try_from(max_files).ok(),
        max_patch_bytes: usize::try_from(max_bytes).ok(),
    };
    let delivered = deliver::deliver(&changes, &how, &site, &gate).map_err(|error| from_delivery(&error))?;
    let names: Vec<&str> = delivered.files.iter().map(|file| file.path.as_str()).collect();
    match arguments.output_format.unwrap_or_default() {
        Format::Text => {
            let verb = if arguments.check { "would change" } else { "changed" };
            let mut text = format!("{verb} {} file(s)\n", names.len());
            if let Some(commit) = &delivered.commit {
                text.push_str(&format!("commit {commit}\n"));
            }
            if delivered.record.is_some() {
                text.push_str(&format!("undo with: qwen undo {run_id}\n"));
            }
            print(out, &text)
        }
        Format::Patch => super::print_bytes(out, &delivered.patch),
        Format::Json | Format::StreamJson | Format::Result => {
            let value = serde_json::json!({
                "files": delivered.files, "applied": delivered.applied, "commit": delivered.commit,
                "branch": delivered.branch, "warnings": delivered.warnings,
                "run_id": run_id, "root": String::from_utf8_lossy(site.root.as_os_str().as_bytes()),
            });
            print(out, &(to_line(&value) + "\n"))
        }
    }
}
