//! Runs `qwen apply`: judges again what a dry run proposed, and delivers all of it or nothing.

use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::console::{appearance, print};
use super::error::CommandError;
use super::{kept, listed};
use crate::cli::apply::ApplyArgs;
use crate::deliver::propose::{Proposal, Wanted};
use crate::deliver::{self, Delivered, Delivery, DeliveryRequest, Site};
use crate::emit::words::{self, count};
use crate::emit::{Appearance, Ended, Format, Mark, to_line};
use crate::event::FileReport;
use crate::exit::Exit;
use crate::git::Whole;
use crate::policy::glob::Glob;
use crate::run::Failure;
use crate::run::finish::apply::{Applied, Fit, Request, Rules, apply};
use crate::run::output::masking::{published, secrets_of};
use crate::run::output::outputs::new_id;
use crate::run::place::Place;
use crate::run::rules::policy_layers;
use crate::settings::Environment;

/// The first line of a commit's message that nobody has given.
const SUBJECT: &str = "Apply a proposed change";

pub(super) fn run(arguments: &ApplyArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let input = kept::proposal(arguments.from.as_deref(), &place, environment)?;
    if arguments.list {
        return list(&input, &place, arguments.output_format.unwrap_or_default(), out);
    }
    let wanted = wanted(arguments)?;
    let chosen: policy_layers::PolicySelection = place.policy(arguments.policy.as_deref(), true, environment)?;
    let secrets = secrets_of(&chosen.policy, environment)?;
    let how = delivery(arguments, &|text| published(text, &chosen.policy, &secrets))?;
    let undo = match &how {
        Delivery::Apply | Delivery::Commit(_) if !arguments.no_undo => Some(place.state()?.join("undo")),
        _ => None,
    };
    let run_id = new_id();
    let time = jiff::Timestamp::now().to_string();
    let site = Site {
        root: place.workspace.root(),
        repository: place.repository(),
        undo: undo.as_deref(),
        run_id: &run_id,
        time: &time,
        outputs: None,
    };
    let facts = place.facts(environment);
    let rules = Rules { policy: &chosen.policy, facts: &facts, secrets: &secrets, also: &|_| Ok(()) };
    let request = Request {
        input: &input,
        wanted: wanted.as_ref(),
        digest: None,
        fit: Fit::Merge,
        how,
        max_files: None,
        max_patch_bytes: None,
    };
    if request.how != Delivery::DryRun {
        Whole::to_the_end();
    }
    let applied = apply(&request, &rules, &site).map_err(|failure| failure.masked(&|text| rules.hide(text)))?;
    let merged: Vec<String> = applied.merged.iter().map(|path| rules.hide(&path.to_string_lossy())).collect();
    match arguments.output_format.unwrap_or_default() {
        Format::Text => {
            print(out, &text(&applied, &merged, arguments, site.repository.is_some(), &appearance(environment)))
        }
        Format::Patch => super::console::print_bytes(out, &applied.delivered.patch),
        Format::Json | Format::StreamJson | Format::Result => {
            print(out, &(to_line(&object(&applied, &merged, &run_id, site.root)) + "\n"))
        }
    }
}

/// Returns what happened as JSON.
fn object(applied: &Applied, merged: &[String], run_id: &str, root: &Path) -> serde_json::Value {
    let Applied { delivered, taken_back, .. } = applied;
    let mut value = serde_json::json!({
        "files": delivered.files, "applied": delivered.applied, "commit": delivered.commit,
        "branch": delivered.branch, "warnings": delivered.warnings, "merged": merged,
        "taken_back": taken_back, "run_id": run_id,
        "root": String::from_utf8_lossy(root.as_os_str().as_bytes()),
    });
    if let Some(chosen) = &applied.chosen {
        value["selected"] = serde_json::json!(chosen);
    }
    value
}

fn wanted(arguments: &ApplyArgs) -> Result<Option<Wanted>, CommandError> {
    if arguments.hunks.is_none() && arguments.files.is_empty() {
        return Ok(None);
    }
    let files: Result<Vec<Glob>, String> = arguments.files.iter().map(|glob| Glob::new(glob)).collect();
    Ok(Some(Wanted { hunks: arguments.hunks.clone(), files: files.map_err(CommandError::Glob)? }))
}

/// Prints the hunks of a proposal with their numbers.
fn list(input: &[u8], place: &Place, format: Format, out: &mut dyn Write) -> Result<Exit, Failure> {
    let patch = Proposal::read(input, None)?.parsed()?;
    let prefix = place.repository().map(|repository| repository.prefix.clone()).unwrap_or_default();
    let hunks = listed::hunks(&patch, &prefix);
    match format {
        Format::Text => print(out, &listed::text(&hunks)),
        Format::Json | Format::StreamJson | Format::Result => {
            print(out, &(to_line(&serde_json::json!({"of": hunks.len(), "hunks": hunks})) + "\n"))
        }
        Format::Patch => Err(CommandError::ListAsPatch.into()),
    }
}

fn delivery(arguments: &ApplyArgs, hide: &dyn Fn(&str) -> String) -> Result<Delivery, CommandError> {
    let order = || {
        let message = hide(arguments.message.as_deref().unwrap_or(SUBJECT));
        let (subject, body) = message.split_once('\n').unwrap_or((&message, ""));
        deliver::message::message(subject.trim(), body, &[("Assisted-by", "qwen-run")])
            .map(|message| DeliveryRequest { message, ..DeliveryRequest::default() })
            .map_err(CommandError::Message)
    };
    if arguments.message.is_some() && !arguments.commit && arguments.branch.is_none() {
        return Err(CommandError::MessageAlone);
    }
    Ok(match (&arguments.branch, arguments.commit, arguments.check) {
        (_, _, true) => Delivery::DryRun,
        (Some(name), _, false) => Delivery::Branch { name: name.clone(), order: order()? },
        (None, true, false) => Delivery::Commit(order()?),
        (None, false, false) => Delivery::Apply,
    })
}

/// Says what happened, one file a line.
fn text(applied: &Applied, merged: &[String], arguments: &ApplyArgs, in_git: bool, look: &Appearance) -> String {
    let Applied { delivered, is_empty, taken_back, chosen, checks, .. } = applied;
    let mut notes = taken_back.clone();
    let mut ended =
        Ended { mark: Mark::Good, headline: String::new(), files: Vec::new(), notes: Vec::new(), next: Vec::new() };
    if delivered.files.is_empty() {
        let why = if *is_empty { "the patch is empty" } else { "already applied" };
        return Ended { headline: format!("Nothing to do: {why}"), notes, ..ended }.text(look);
    }
    ended.headline = headline(applied, arguments.check);
    ended.files = delivered.files.iter().map(|file| (file.path.clone(), about(file))).collect();
    notes.extend(merged.iter().map(|path| format!("merged with later changes: {path}")));
    notes.extend(delivered.warnings.iter().map(|warning| format!("warning: {warning}")));
    ended.notes = notes;
    if chosen.as_ref().is_some_and(|chosen| chosen.number < chosen.of || chosen.hunks.len() > chosen.number) {
        let again = checks.iter().map(|check| ("the checks ran on the whole change; run them again", check.clone()));
        ended.next.extend(again);
        if delivered.applied && in_git {
            ended
                .notes
                .push("the other hunks stay in the proposal; commit these files before you apply more of them".into());
        }
    }
    if delivered.record.is_some() {
        let directory = arguments.workspace.cd.as_ref().map(|cd| words::for_shell(&cd.to_string_lossy()));
        let command = match directory {
            None => Some("qwen undo".to_owned()),
            Some(directory) => directory.map(|directory| format!("qwen undo -C {directory}")),
        };
        ended.next.extend(command.map(|command| ("undo it", command)));
    }
    ended.text(look)
}

/// Says how much changed, and where it went.
fn headline(applied: &Applied, check: bool) -> String {
    let Delivered { files, commit, branch, .. } = &applied.delivered;
    let (added, removed) = FileReport::lines(files);
    let lines = words::lines(added, removed);
    let mut text = words::delivered(files.len(), branch.as_deref(), commit.as_deref(), !check);
    if !lines.is_empty() {
        text.push_str(&format!(", {lines}"));
    }
    if let Some(chosen) = &applied.chosen {
        text.push_str(&format!(" ({} of {})", chosen.number, count(chosen.of as u64, "hunk")));
    }
    text
}

/// Says what happened to a file.
fn about(file: &FileReport) -> String {
    let kind = match file.kind.as_str() {
        "added" => "new",
        "modified" => "",
        other => other,
    };
    let later = if file.executes_later { "runs by itself" } else { "" };
    let lines = words::lines(file.added, file.removed);
    [kind, lines.as_str(), later].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
}
