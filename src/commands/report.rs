//! Runs `qwen report`: shows what a run wrote as one page.

use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use super::console::{print, print_bytes, read};
use super::error::{CommandError, ReportError};
use super::kept;
use crate::bounded;
use crate::checkouts::refuse_links;
use crate::cli::report::ReportArgs;
use crate::emit::safe::one_line;
use crate::emit::{Material, is_review_page, page, write_whole};
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::output::outputs::checkouts;
use crate::run::place::Place;
use crate::sandbox::beside::browse;
use crate::settings::Environment;
use crate::workspace::run_record::KeptRun;

pub(super) fn run(
    arguments: &ReportArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let inputs = inputs(arguments, &place, environment)?;
    let named = arguments.from.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let material = Material::read(inputs.iter().map(Vec::as_slice))
        .map_err(|cause| ReportError::Material { path: named, cause })?;
    let usual = || PathBuf::from(format!("qwen-report-{}.html", material.short_id()));
    let to = arguments.output.clone().unwrap_or_else(usual);
    if to.as_os_str() == "-" {
        return print_bytes(out, page(&material, &usual().display().to_string()).as_bytes());
    }
    let path = environment.cwd.join(&to);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let unwritten = |cause| ReportError::Unwritten { path: to.display().to_string(), cause };
    let checkouts = checkouts(&place.checkout.around);
    may_replace(&path, &checkouts, &to)?;
    write_whole(&path, &checkouts, page(&material, &name).as_bytes()).map_err(unwritten)?;
    print(out, &format!("{}\n", one_line(&to.display().to_string())))?;
    if arguments.output.is_none() && std::io::stderr().is_terminal() && place.repository().is_some() {
        let _closed = writeln!(err, "git does not ignore this file; -o writes it elsewhere");
    }
    if arguments.open
        && let Err(problem) = open(&path, &place, environment)
    {
        let _closed = writeln!(err, "warning: the page cannot be opened: {}", one_line(&problem));
    }
    Ok(Exit::Ok)
}

/// Reads what is named: files, and runs that were kept; without a name the newest one.
fn inputs(arguments: &ReportArgs, place: &Place, environment: &Environment) -> Result<Vec<Vec<u8>>, Failure> {
    if arguments.from.is_empty() {
        let newest = kept::runs(place).and_then(|runs| runs.newest_first().into_iter().next());
        let folder = place.root().display().to_string();
        let run = newest.ok_or(CommandError::NothingKept { what: "run", folder })?;
        return Ok(of_run(&run).map_err(CommandError::input(Path::new(&run.id)))?);
    }
    let mut inputs = Vec::new();
    for (at, from) in arguments.from.iter().enumerate() {
        match kept::named(from, place, environment)? {
            Some(run) => inputs.extend(of_run(&run).map_err(CommandError::input(from))?),
            None if at == 0 && is_prompt(arguments, environment) => {
                let words = arguments.from.iter().map(|word| word.to_string_lossy().replace('\'', "'\\''"));
                return Err(ReportError::Prompt(words.collect::<Vec<_>>().join(" ")).into());
            }
            None => inputs.push(read(from, environment)?),
        }
    }
    Ok(inputs)
}

/// Reads a kept run; one whose events are gone has its result alone.
fn of_run(run: &KeptRun) -> std::io::Result<Vec<Vec<u8>>> {
    let events = run.events().ok().filter(|events| !events.is_empty());
    Ok(std::iter::once(run.result()?).chain(events).collect())
}

/// Tells whether the words are more likely a prompt: several, and no file has the name of the first.
fn is_prompt(arguments: &ReportArgs, environment: &Environment) -> bool {
    let [first, _, ..] = arguments.from.as_slice() else { return false };
    first.as_os_str() != "-" && environment.cwd.join(first).symlink_metadata().is_err()
}

/// Refuses to replace what is not a review page.
fn may_replace(path: &Path, checkouts: &[PathBuf], named: &Path) -> Result<(), ReportError> {
    let shown = || named.display().to_string();
    refuse_links(path, checkouts).map_err(|cause| ReportError::Unwritten { path: shown(), cause })?;
    let Ok(data) = path.symlink_metadata() else { return Ok(()) };
    let is_ours =
        || bounded::regular(path, bounded::PRODUCT).is_ok_and(|text| text.is_empty() || is_review_page(&text));
    match data.is_file() && is_ours() {
        true => Ok(()),
        false => Err(ReportError::Other(shown())),
    }
}

/// Starts the user's browser.
fn open(page: &Path, place: &Place, environment: &Environment) -> Result<(), String> {
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let named = environment.variables.get("BROWSER").and_then(|named| named.split(':').next());
    let browser = named.filter(|named| !named.trim().is_empty()).unwrap_or(usual);
    let programs = &place.checkout.programs;
    let program = programs.at(Path::new(browser)).map_or_else(|| programs.find(browser), Ok);
    let program = program.map_err(|error| error.to_string())?;
    browse(&program, page, programs, &environment.variables).map_err(|error| format!("{browser}: {error}"))
}
