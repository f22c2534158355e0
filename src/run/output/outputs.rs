//! Resolves where a run's outputs go, from flags and environment: streams, files and colours.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::termios::Winsize;

use crate::checkouts::Around;
use crate::cli::RunArgs;
use crate::emit::{Appearance, Backlog, Colours, Format, GoesOn, Ids, Keep, OutputFiles, Outputs, Screen};
use crate::run::place::Place;
use crate::settings::{self, Environment};
use crate::workspace::run_record::Runs;

/// The process's standard streams, or a test's.
pub struct Streams {
    /// Standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Whether it is a terminal.
    pub stdout_is_terminal: bool,
    /// Standard error.
    pub stderr: Screen,
    /// Whether it is a terminal.
    pub stderr_is_terminal: bool,
    /// What remains to be written when the run is done.
    pub backlogs: Vec<Backlog>,
}

/// Combines flags, environment and streams.
pub fn outputs(
    arguments: &RunArgs,
    environment: &Environment,
    around: &Around,
    streams: Streams,
    session: &str,
) -> Outputs {
    let output = &arguments.output;
    let colours = Colours::from_environment(output.color, |name| environment.variables.get(name).cloned());
    let file = |path: &Option<PathBuf>| path.as_ref().map(|path| environment.cwd.join(path));
    Outputs {
        format: output
            .output_format
            .or_else(|| format_of_settings(arguments, environment, around))
            .unwrap_or(Format::Text),
        include_partial: output.include_partial_messages,
        stdout_terminal: streams.stdout_is_terminal.then(|| {
            let columns = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
            appearance(environment, columns, colours.on(true))
        }),
        stdout: streams.stdout,
        screen_colour: colours.on(streams.stderr_is_terminal),
        terminal: terminal(environment, &streams.stderr, colours.on(streams.stderr_is_terminal)),
        screen: streams.stderr,
        verbosity: output.verbosity(),
        ci: environment.is_ci(),
        groups: environment.is_on("GITHUB_ACTIONS"),
        files: OutputFiles {
            result: file(&output.result_file),
            events: file(&output.events_file),
            patch: file(&output.patch_file),
            summary: file(&output.summary_file),
            report: file(&output.report_file),
            sarif: file(&output.sarif_file),
            rdjson: file(&output.rdjson_file),
            annotations: file(&output.annotations_file),
            checkouts: checkouts(around),
        },
        ids: Ids::new(session, new_id),
    }
}

/// Returns how a person goes on with what the run makes. A run is kept if a session would be: not in CI, not for a replay
/// and not with `--no-session`.
pub fn goes_on(arguments: &RunArgs, environment: &Environment, place: Option<&Place>) -> GoesOn {
    let is_kept = !arguments.session.no_session && arguments.test.replay.is_none() && !environment.is_ci();
    let state = place.filter(|_| is_kept).and_then(|place| Some((place.state().ok()?, place.root())));
    let keep = state.map(|(state, root)| -> Keep {
        let runs = Runs::of(state, root);
        Box::new(move |id, result, events| runs.keep(id, result, events))
    });
    let output = &arguments.output;
    // A pipe or a device keeps nothing.
    let files = [&output.result_file, &output.patch_file].into_iter().flatten();
    let file = files.map(|file| file.display().to_string()).find(|file| !file.starts_with("/dev/"));
    let directory = arguments.input.workspace.cd.as_ref().map(|cd| cd.display().to_string());
    GoesOn { directory, file, keep }
}

/// Returns how a person's terminal on standard error shows text; `None` where that is a log.
pub fn terminal(environment: &Environment, stderr: &Screen, colour: bool) -> Option<Appearance> {
    let is_dumb = environment.variables.get("TERM").is_some_and(|term| term == "dumb");
    let is_person = matches!(stderr, Screen::Live) && !is_dumb && !environment.is_ci();
    is_person.then(|| appearance(environment, rustix::termios::tcgetwinsize(rustix::stdio::stderr()), colour))
}

/// Returns how a terminal of this size shows text.
pub fn appearance(environment: &Environment, size: rustix::io::Result<Winsize>, colour: bool) -> Appearance {
    let columns = size.ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
    Appearance::from_environment(columns, colour, |name| environment.variables.get(name).cloned())
}

/// Returns the directories whose links are not followed on the way to a file that we write: the workspace, and whatever
/// [may be one project](Around::projects) with it. A checkout must not choose where our output goes.
pub fn checkouts(around: &Around) -> Vec<PathBuf> {
    around.projects().chain([around.workspace.as_path()]).map(Path::to_path_buf).collect()
}

/// Returns `output.format` of the settings.
///
/// Errors in the settings are reported later, when the rest of them is read: without a format there is no way to report
/// them. The key is harmless, so it counts even if the settings are not trusted.
fn format_of_settings(arguments: &RunArgs, environment: &Environment, around: &Around) -> Option<Format> {
    let request = settings::load::Request {
        project_root: around.top().to_path_buf(),
        around: around.clone(),
        bare: arguments.context.bare,
        ..settings::load::Request::default()
    };
    let loaded = settings::load(&request, environment).ok()?;
    Format::from_name(&loaded.settings.output_format?.value)
}

/// Returns the time, for reports.
#[expect(clippy::disallowed_methods, reason = "a report says when things happened; everything below is given the time")]
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// Returns the number that an id is.
pub fn number_of(id: &str) -> u128 {
    uuid::Uuid::parse_str(id).map(|id| id.as_u128()).unwrap_or_default()
}

/// Creates an id that is unique and ordered by time.
pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
