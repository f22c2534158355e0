//! Reads the files that a command names, and prints its output.

use std::io::{IsTerminal as _, Write};
use std::path::Path;

use super::error::CommandError;
use crate::bounded;
use crate::checkouts::checkouts_around;
use crate::emit::{Appearance, Colour, Colours};
use crate::exit::Exit;
use crate::policy::Policy;
use crate::policy::layers::Standing;
use crate::policy::own_files;
use crate::run::Failure;
use crate::run::error::{PolicyError, SetupError};
use crate::run::output::outputs;
use crate::run::rules::policy_layers;
use crate::settings::Environment;

/// Reads a file that a command names; `-` is standard input.
pub(super) fn read(path: &Path, environment: &Environment) -> Result<Vec<u8>, CommandError> {
    let result = match path.as_os_str() == "-" {
        true => bounded::to_the_end(std::io::stdin(), bounded::PRODUCT),
        false => bounded::named(&environment.cwd.join(path), bounded::PRODUCT),
    };
    result.map_err(CommandError::input(path))
}

/// Returns how standard output shows text. Only a terminal breaks lines and has colours.
pub(super) fn appearance(environment: &Environment) -> Appearance {
    let stdout = std::io::stdout();
    let get = |name: &str| environment.variables.get(name).cloned();
    if !stdout.is_terminal() {
        return Appearance { width: usize::MAX, ..Appearance::from_environment(None, false, get) };
    }
    let colours = Colours::from_environment(Colour::Auto, get).on(true);
    outputs::appearance(environment, rustix::termios::tcgetwinsize(&stdout), colours)
}

/// Returns how a pager shows text that a person sends through a pipe: as wide as the terminal of standard error.
pub(super) fn of_a_pipe(environment: &Environment) -> Appearance {
    outputs::appearance(environment, rustix::termios::tcgetwinsize(std::io::stderr()), false)
}

pub(super) fn print(out: &mut dyn Write, text: &str) -> Result<Exit, Failure> {
    print_bytes(out, text.as_bytes())
}

/// Prints; a reader that went away is not a failure.
pub(super) fn print_bytes(out: &mut dyn Write, bytes: &[u8]) -> Result<Exit, Failure> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Exit::Ok),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        Err(error) => Err(SetupError::Output(error).into()),
    }
}

/// A policy of this name alone, for verbs that need no workspace.
pub(super) fn alone(named: &str, environment: &Environment) -> Result<Policy, Failure> {
    let layer = policy_layers::named_layer(named, &environment.cwd)?;
    let folder = environment.cwd.join(named).parent().map(Path::to_path_buf).unwrap_or_default();
    let top = folder.canonicalize().ok().and_then(|folder| checkouts_around(&folder).next().map(Path::to_path_buf));
    let parents = |_: Standing, name: &str| {
        let path = folder.join(name);
        let text = match &top {
            Some(top) => own_files::text(top, &path, bounded::CONFIG),
            None => bounded::named_text(&path, bounded::CONFIG),
        };
        text.map_err(|error| error.to_string())
    };
    Ok(Policy::new(&layer, &[], &parents).map_err(|error| PolicyError::Alone(error.into()))?)
}
