//! Runs `qwen undo`: reverts what a run changed.

use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::console::{appearance, print};
use super::error::UndoError;
use crate::bounded;
use crate::cli::undo::UndoArgs;
use crate::deliver::{self, Steps, UndoReport, journal};
use crate::emit::words::count;
use crate::emit::{Appearance, Ended, Format, Mark, to_line};
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::place::Place;
use crate::settings::Environment;

pub(super) fn run(arguments: &UndoArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let root = place.workspace.root();
    let state = place.state()?;
    let folder = state.join("undo");
    let failed = |cause| UndoError::Records { path: folder.display().to_string(), cause };
    let name = journal::quoted(root.as_os_str().as_bytes());
    of_an_earlier_version(&name, arguments.run_id.as_ref(), state)?;
    let records = deliver::records(&folder).map_err(failed)?;
    let wanted = records
        .iter()
        .find(|(_, record)| record.root == name && arguments.run_id.as_ref().is_none_or(|id| record.run_id == *id));
    let Some((record, _)) = wanted else {
        let (run, root) = (arguments.run_id.clone(), root.display().to_string());
        return Err(UndoError::NoRecord { run, root }.into());
    };
    let was_undone = wanted.is_some_and(|(_, record)| record.state == journal::State::Undone);
    let report = deliver::undo(record, root, &Steps::default()).map_err(|error| match error.half {
        false => failed(error.cause),
        true => UndoError::Interrupted(error.cause),
    })?;
    let format = arguments.output_format.unwrap_or_default();
    print(out, &shown(&report, was_undone, format, &appearance(environment)))?;
    Ok(if report.left_alone.is_empty() && report.untidy.is_empty() { Exit::Ok } else { Exit::Conflict })
}

fn shown(report: &UndoReport, was_undone: bool, format: Format, look: &Appearance) -> String {
    let left_alone: Vec<String> = report.left_alone.iter().map(|path| path.to_string_lossy()).collect();
    let restored: Vec<String> = report.restored.iter().map(|path| path.to_string_lossy()).collect();
    match format {
        Format::Text | Format::Patch => {
            let is_whole = report.untidy.is_empty() && left_alone.is_empty();
            let number = |files: &[String]| count(files.len() as u64, "file");
            let mut headline = match was_undone {
                true => {
                    format!("Nothing to do: run {} is already undone; to undo an earlier run, name it", report.run_id)
                }
                false => format!("{} restored", number(&restored)),
            };
            if !left_alone.is_empty() {
                headline.push_str(&format!("; {} kept", number(&left_alone)));
            }
            if !is_whole {
                headline.push_str(&format!(" (exit {})", Exit::Conflict.code()));
            }
            let restored = restored.into_iter().map(|path| (path, String::new()));
            let kept = left_alone.into_iter().map(|path| (path, "kept, changed since the run".to_owned()));
            let untidy = report
                .untidy
                .iter()
                .map(|path| format!("restored, but cannot remove {path}; run `qwen undo` to try again"));
            let warnings = report.warnings.iter().map(|warning| format!("warning: {warning}"));
            let ended = Ended {
                mark: if is_whole { Mark::Good } else { Mark::Partly },
                headline,
                files: restored.chain(kept).collect(),
                notes: untidy.chain(warnings).collect(),
                next: Vec::new(),
            };
            ended.text(look)
        }
        Format::Json | Format::StreamJson | Format::Result => {
            let value = serde_json::json!({
                "run_id": report.run_id, "restored": restored, "left_alone": left_alone, "warnings": report.warnings,
                "untidy": report.untidy,
            });
            to_line(&value) + "\n"
        }
    }
}

/// Refuses where a run of an earlier version was killed while its commands worked in the project itself: what it kept
/// is for people to put back.
fn of_an_earlier_version(root: &str, run: Option<&String>, state: &Path) -> Result<(), UndoError> {
    let kept = crate::workspace::session_file::folders(&state.join("in-place"));
    for folder in kept {
        let Ok(text) = bounded::regular(&folder.join("record.json"), bounded::PRODUCT) else { continue };
        let record: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let is_meant = run.is_none_or(|run| record["run_id"].as_str() == Some(run));
        if record["root"].as_str() == Some(root) && is_meant {
            let tree = folder.join("tree");
            let hint = format!("copy the files back from {}, then remove that directory", tree.display());
            return Err(UndoError::Earlier { hint });
        }
    }
    Ok(())
}
