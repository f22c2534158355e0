//! Runs every command except `run`: each reads its input, calls the module that does the work, and prints the result.

mod apply;
mod check;
mod ci;
mod doctor;
mod hook;
mod mcp;
mod policy;
mod recipe;
mod recipe_show;
mod recipe_test;
mod schema;
mod tools;
mod undo;

use std::io::Write;
use std::path::Path;

use clap::CommandFactory as _;
use futures_util::FutureExt as _;

use crate::bounded;
use crate::cli::{Cli, Command, completions, man};
use crate::emit::safe::{brief, escape};
use crate::exit::Exit;
use crate::policy::Policy;
use crate::run::error::{PolicyError, SetupError};
use crate::run::{Failure, policy_layers};
use crate::settings::Environment;

/// Runs a command and returns the way it ends.
pub async fn run(command: Command, environment: &Environment, out: &mut dyn Write, err: &mut dyn Write) -> Exit {
    let running = std::panic::AssertUnwindSafe(dispatch(command, environment, out, err)).catch_unwind().await;
    let outcome = running.unwrap_or_else(|panic| Err(Failure::internal(panic.as_ref())));
    match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            let mut text = format!("error: {}\n", escape(&brief(&failure.error.message)));
            if let Some(hint) = &failure.error.hint {
                text.push_str(&format!("  hint: {}\n", escape(&brief(hint))));
            }
            let _closed = err.write_all(text.as_bytes());
            failure.exit
        }
    }
}

async fn dispatch(
    command: Command,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    match command {
        Command::Run(_) => unreachable!("`run` is dispatched by main"),
        Command::Apply(arguments) => apply::run(&arguments, environment, out),
        Command::Undo(arguments) => undo::run(&arguments, environment, out),
        Command::Policy { verb } => policy::run(&verb, environment, out),
        Command::Recipe { verb } => recipe::run(&verb, environment, out).await,
        Command::Check { verb } => check::run(&verb, environment, out).await,
        Command::Ci { verb } => ci::run(verb, environment, out).await,
        Command::Tools { verb } => tools::run(&verb, environment, out, err).await,
        Command::Mcp { verb } => mcp::run(&verb, environment, out, err).await,
        Command::Hook { verb } => hook::run(&verb, environment, out, err).await,
        Command::Sandbox { verb } => doctor::sandbox(&verb, out),
        Command::Schema(arguments) => schema::run(&arguments, out),
        Command::Doctor(arguments) => doctor::run(&arguments, environment, out),
        Command::Completions(arguments) => print_bytes(out, &completions::script(arguments.shell, Cli::command())),
        Command::Man(arguments) => write_pages(&arguments, environment, out),
    }
}

/// Prints the manual page, or writes all of them.
fn write_pages(arguments: &man::ManArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let Some(directory) = arguments.to.as_ref().map(|directory| environment.cwd.join(directory)) else {
        return print_bytes(out, &man::page(Cli::command()));
    };
    man::write_to(&directory, Cli::command()).map(|()| Exit::Ok).map_err(|error| {
        let message = format!("cannot write manual pages to {}: {error}", directory.display());
        Failure::new(Exit::Failed, message, "name a directory that you can write to with --to")
    })
}

/// Reads a file that a command names; `-` is standard input.
fn read(path: &Path, environment: &Environment) -> Result<Vec<u8>, Failure> {
    let result = match path.as_os_str() == "-" {
        true => bounded::to_the_end(std::io::stdin(), bounded::PRODUCT),
        false => bounded::named(&environment.cwd.join(path), bounded::PRODUCT),
    };
    result.map_err(|error| {
        Failure::new(Exit::Input, format!("{}: {error}", path.display()), "name a file that can be read")
    })
}

fn print(out: &mut dyn Write, text: &str) -> Result<Exit, Failure> {
    print_bytes(out, text.as_bytes())
}

/// Prints; a reader that went away is not a failure.
fn print_bytes(out: &mut dyn Write, bytes: &[u8]) -> Result<Exit, Failure> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Exit::Ok),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        Err(error) => Err(SetupError::Output(error).into()),
    }
}

/// A policy of this name alone, for verbs that need no workspace.
fn alone(named: &str, environment: &Environment) -> Result<Policy, Failure> {
    let layer = policy_layers::named_layer(named, &environment.cwd)?;
    let folder = environment.cwd.join(named).parent().map(Path::to_path_buf).unwrap_or_default();
    let parents =
        |name: &str| bounded::named_text(&folder.join(name), bounded::CONFIG).map_err(|error| error.to_string());
    Ok(Policy::new(&layer, &[], &parents).map_err(|error| PolicyError::Alone(error.into()))?)
}
