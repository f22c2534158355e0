//! Runs `qwen undo`: reverts what a run changed.

use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::{Place, print};
use crate::cli::undo::UndoArgs;
use crate::deliver::{self, Steps, journal};
use crate::emit::{Format, to_line};
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::folders::state_folder;
use crate::run::in_place;
use crate::settings::Environment;
use crate::workspace::kept::{Kept, Pending};

pub(super) fn run(arguments: &UndoArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::open(&arguments.workspace, environment)?;
    let root = place.workspace.root();
    let folder = state_folder(environment)?.join("undo");
    if let Some(exit) = killed(arguments, root, environment, out)? {
        return Ok(exit);
    }
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Conflict, format!("the records in {}: {error}", folder.display()), "nothing was changed")
    };
    let name = journal::quoted(root.as_os_str().as_bytes());
    let records = deliver::records(&folder).map_err(failed)?;
    let wanted = records
        .iter()
        .find(|(_, record)| record.root == name && arguments.run_id.as_ref().is_none_or(|id| record.run_id == *id));
    let Some((record, _)) = wanted else {
        return Err(Failure::new(
            Exit::Conflict,
            match &arguments.run_id {
                Some(id) => format!("there is no record of a run {id} in {}", root.display()),
                None => format!("there is no record of a run that changed {}", root.display()),
            },
            "only runs with --apply or --commit, and without --no-undo, can be undone",
        ));
    };
    let was_undone = wanted.is_some_and(|(_, record)| record.state == journal::State::Undone);
    let report = deliver::undo(record, root, &Steps::default()).map_err(|error| match error.half {
        false => failed(error.cause),
        true => Failure::new(
            Exit::Conflict,
            format!("undoing stopped half-way: {}", error.cause),
            "`qwen undo` goes on where it stopped, once the cause is gone",
        ),
    })?;
    let left_alone: Vec<String> = report.left_alone.iter().map(|path| path.to_string_lossy()).collect();
    let restored: Vec<String> = report.restored.iter().map(|path| path.to_string_lossy()).collect();
    match arguments.output_format.unwrap_or_default() {
        Format::Text | Format::Patch => {
            let mut text = match was_undone {
                true => format!("{} is undone already; name an earlier run to undo that\n", report.run_id),
                false => format!("undid {}: {} file(s) put back\n", report.run_id, restored.len()),
            };
            for path in &left_alone {
                text.push_str(&format!("left alone, it has changed since: {}\n", crate::emit::safe::one_line(path)));
            }
            for path in &report.untidy {
                let path = crate::emit::safe::one_line(path);
                text.push_str(&format!("put back, but this could not be removed: {path}; `qwen undo` tries again\n"));
            }
            for warning in &report.warnings {
                text.push_str(&format!("warning: {}\n", crate::emit::safe::one_line(warning)));
            }
            print(out, &text)?;
        }
        Format::Json | Format::StreamJson | Format::Result => {
            let value = serde_json::json!({
                "run_id": report.run_id, "restored": restored, "left_alone": left_alone, "warnings": report.warnings,
                "untidy": report.untidy,
            });
            print(out, &(to_line(&value) + "\n"))?;
        }
    }
    Ok(if left_alone.is_empty() && report.untidy.is_empty() { Exit::Ok } else { Exit::Conflict })
}

/// Restores a project in which a killed run's commands worked; `None` if there is no such run.
fn killed(
    arguments: &UndoArgs,
    root: &Path,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Option<Exit>, Failure> {
    let folder = in_place::folder(environment)?;
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Conflict, format!("{}: {error}", folder.display()), "`qwen undo` can be repeated")
    };
    let kept = match Kept::pending(&folder, root).map_err(failed)? {
        Pending::Nothing => return Ok(None),
        Pending::AtWork(run) => {
            return Err(Failure::new(
                Exit::Conflict,
                format!("the run {run} works in this project itself at this moment"),
                "end it first",
            ));
        }
        Pending::Killed(kept) => kept,
    };
    let run_id = kept.run_id().to_owned();
    if arguments.run_id.as_ref().is_some_and(|wanted| *wanted != run_id) {
        return Ok(None);
    }
    let restored: Vec<String> = kept.put_back().map_err(failed)?.iter().map(|path| path.to_string_lossy()).collect();
    kept.discard().map_err(failed)?;
    let text = match arguments.output_format.unwrap_or_default() {
        Format::Text | Format::Patch => format!(
            "undid {run_id}, which was killed while its commands worked in the project: {} file(s) put back\n",
            restored.len()
        ),
        Format::Json | Format::StreamJson | Format::Result => {
            let none: [String; 0] = [];
            let value = serde_json::json!({
                "run_id": run_id, "restored": restored, "left_alone": none, "warnings": none,
            });
            to_line(&value) + "\n"
        }
    };
    print(out, &text)?;
    Ok(Some(Exit::Ok))
}
