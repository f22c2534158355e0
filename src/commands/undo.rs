//! Runs `qwen undo`: reverts what a run changed.

use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::console::{appearance, print};
use super::error::UndoError;
use crate::bounded;
use crate::cli::undo::UndoArgs;
use crate::deliver::{self, Steps, UndoReport, journal};
use crate::emit::safe::one_line;
use crate::emit::words::count;
use crate::emit::{Appearance, Ended, Format, Mark, to_line};
use crate::exit::Exit;
use crate::git::Whole;
use crate::path::RelPath;
use crate::policy::Policy;
use crate::run::Failure;
use crate::run::output::masking::{published, secrets_of};
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
    let here: Vec<_> = records.into_iter().filter(|(_, record)| record.root == name).collect();
    let format = arguments.output_format.unwrap_or_default();
    // A run can be undone whatever its policy has become.
    let policy = place.policy(None, false, environment).map(|chosen| chosen.policy);
    let policy = policy.unwrap_or_else(|_| Policy::builtin("default").expect("the policy is built in"));
    let secrets = secrets_of(&policy, environment)?;
    let hide = |text: &str| published(text, &policy, &secrets);
    if arguments.list {
        return print(out, &listed(&here, format, &hide));
    }
    let wanted = here.iter().find(|(_, record)| arguments.run_id.as_ref().is_none_or(|id| record.run_id == *id));
    let Some((record, _)) = wanted else {
        let (run, root) = (arguments.run_id.clone(), root.display().to_string());
        return Err(UndoError::NoRecord { run, root }.into());
    };
    let was_undone = wanted.is_some_and(|(_, record)| record.state == journal::State::Undone);
    Whole::to_the_end();
    let report = deliver::undo(record, root, &Steps::default()).map_err(|error| match error.half {
        false => UndoError::Prevented(error.cause),
        true => UndoError::Interrupted(error.cause),
    })?;
    let others = here.iter().any(|(folder, other)| folder != record && other.state == journal::State::Done);
    let told = Told::of(&report, &hide);
    print(out, &shown(told, was_undone, others, format, &appearance(environment)))?;
    Ok(if report.is_whole() { Exit::Ok } else { Exit::Conflict })
}

/// Lists the records, the newest first.
fn listed(records: &[(PathBuf, journal::Record)], format: Format, hide: &dyn Fn(&str) -> String) -> String {
    let is_undone = |record: &journal::Record| record.state == journal::State::Undone;
    match format {
        Format::Text | Format::Patch if records.is_empty() => "no run here has an undo record\n".to_owned(),
        Format::Text | Format::Patch => records
            .iter()
            .map(|(_, record)| {
                let time = record.time.get(..16).unwrap_or(&record.time).replace('T', " ");
                let undone = if is_undone(record) { "  undone" } else { "" };
                let files = count(record.files.len() as u64, "file");
                one_line(&format!("{}  {time} UTC  {files}{undone}", record.run_id)) + "\n"
            })
            .collect(),
        Format::Json | Format::StreamJson | Format::Result => {
            let runs: Vec<_> = records
                .iter()
                .map(|(_, record)| {
                    let files: Vec<String> = record.files.iter().map(|file| hide(&file.path)).collect();
                    serde_json::json!({
                        "run_id": record.run_id, "time": record.time, "files": files, "undone": is_undone(record),
                    })
                })
                .collect();
            to_line(&serde_json::json!({"runs": runs})) + "\n"
        }
    }
}

/// What is told of an undo: texts without secrets.
#[derive(serde::Serialize)]
struct Told {
    run_id: String,
    restored: Vec<String>,
    left_alone: Vec<String>,
    warnings: Vec<String>,
    moved_back: Option<String>,
    commit_stays: bool,
    untidy: Vec<String>,
    #[serde(skip)]
    is_whole: bool,
}

impl Told {
    fn of(report: &UndoReport, hide: &dyn Fn(&str) -> String) -> Told {
        let paths = |paths: &[RelPath]| paths.iter().map(|path| hide(&path.to_string_lossy())).collect();
        let texts = |texts: &[String]| texts.iter().map(|text| hide(text)).collect();
        let warnings: Vec<String> = report.warnings.iter().cloned().chain(report.kept_aside()).collect();
        Told {
            run_id: report.run_id.clone(),
            restored: paths(&report.restored),
            left_alone: paths(&report.left_alone),
            warnings: texts(&warnings),
            moved_back: report.moved_back.as_deref().map(hide),
            commit_stays: report.commit_stays,
            untidy: texts(&report.untidy),
            is_whole: report.is_whole(),
        }
    }
}

fn shown(told: Told, was_undone: bool, others: bool, format: Format, look: &Appearance) -> String {
    match format {
        Format::Text | Format::Patch => {
            let Told { run_id, restored, left_alone, warnings, moved_back, commit_stays, untidy, is_whole } = told;
            let number = |files: &[String]| count(files.len() as u64, "file");
            let mut headline = match was_undone {
                true => format!("Nothing to do: run {run_id} is already undone"),
                false => format!("{} restored", number(&restored)),
            };
            if !left_alone.is_empty() {
                headline.push_str(&format!("; {} kept", number(&left_alone)));
            }
            if commit_stays {
                headline.push_str("; the commit is kept");
            }
            if !is_whole {
                headline.push_str(&format!(" (exit {})", Exit::Conflict.code()));
            }
            let restored = restored.into_iter().map(|path| (path, String::new()));
            let kept = left_alone.into_iter().map(|path| (path, "kept, changed since the run".to_owned()));
            let untidy =
                untidy.iter().map(|path| format!("restored, but cannot remove {path}; run `qwen undo` to try again"));
            let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
            // Another run may have come later.
            let last = match was_undone {
                true => "it is the last run here with an undo record: --branch and --no-undo leave none".to_owned(),
                false => format!("run {run_id}"),
            };
            let ended = Ended {
                mark: if is_whole { Mark::Good } else { Mark::Partly },
                headline,
                files: restored.chain(kept).collect(),
                notes: moved_back.into_iter().chain(untidy).chain(warnings).chain(std::iter::once(last)).collect(),
                next: others.then(|| ("earlier runs", "qwen undo --list".to_owned())).into_iter().collect(),
            };
            ended.text(look)
        }
        Format::Json | Format::StreamJson | Format::Result => to_line(&told) + "\n",
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
