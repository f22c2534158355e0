//! Runs every command except `run`: each reads its input, calls the module that does the work, and prints the result.

mod apply;
mod batch;
mod batch_directory;
mod check;
mod ci;
mod console;
mod doctor;
mod error;
#[cfg(test)]
mod error_tests;
mod eval;
mod help;
mod hook;
mod kept;
mod listed;
mod mcp;
mod policy;
mod recipe;
mod recipe_case;
mod recipe_fixture;
mod recipe_show;
mod recipe_test;
mod report;
mod schema;
mod tools;
mod undo;

use std::io::Write;

use clap::CommandFactory as _;
use futures_util::FutureExt as _;

use crate::cli::{Cli, Command, completions, man};
use crate::emit::safe::{brief, escape};
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::output::masking;
use crate::run::output::signals;
use crate::settings::Environment;
use console::print_bytes;
use error::CommandError;

/// Runs a command and returns the way it ends.
pub async fn run(command: Command, environment: &Environment, out: &mut dyn Write, err: &mut dyn Write) -> Exit {
    let running = std::panic::AssertUnwindSafe(dispatch(command, environment, out, err)).catch_unwind().await;
    let outcome = running.unwrap_or_else(|panic| Err(Failure::internal(panic.as_ref())));
    match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            let failure = masking::in_failure(signals::or_interrupted(failure), environment);
            let mut text = format!("error: {}\n", escape(&brief(&failure.error.message)));
            if let Some(hint) = &failure.error.hint {
                text.push_str(&format!("  {}\n", escape(&brief(hint))));
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
        Command::Batch(arguments) => match &arguments.verb {
            None => batch::run(&arguments, environment, out).await,
            Some(verb) => batch_directory::run(verb, environment, out, err).await,
        },
        Command::Apply(arguments) => apply::run(&arguments, environment, out),
        Command::Report(arguments) => report::run(&arguments, environment, out, err),
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
        Command::Help(arguments) => help::run(&arguments, environment, out),
        Command::Completions(arguments) => print_bytes(out, &completions::script(arguments.shell, Cli::command())),
        Command::Man(arguments) => write_pages(&arguments, environment, out),
    }
}

/// Prints the manual page, or writes all of them.
fn write_pages(arguments: &man::ManArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let Some(directory) = arguments.to.as_ref().map(|directory| environment.cwd.join(directory)) else {
        return print_bytes(out, &man::page(Cli::command()));
    };
    let written = man::write_to(&directory, Cli::command());
    written.map_err(|cause| CommandError::Manual { path: directory.display().to_string(), cause })?;
    Ok(Exit::Ok)
}
