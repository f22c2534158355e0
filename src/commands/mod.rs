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
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::CommandFactory as _;
use futures_util::FutureExt as _;

use crate::bounded;
use crate::cli::{Cli, Command, WorkspaceArgs, completions, man};
use crate::emit::safe::{brief, escape};
use crate::exit::Exit;
use crate::git::repository::Repository;
use crate::policy::Facts;
use crate::policy::Policy;
use crate::policy::lists::ToolLists;
use crate::run::error::{PolicyError, SetupError};
use crate::run::folders::{open_workspace, state_folder};
use crate::run::policy_layers::{self, Chosen, PolicySources};
use crate::run::trust::{self, TrustFlags, Trusted};
use crate::run::{Failure, outcome};
use crate::settings::Environment;
use crate::workspace::Workspace;

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

/// The directory that a command works in, and its repository.
struct Place {
    workspace: Arc<Workspace>,
    repository: Option<Repository>,
}

impl Place {
    fn open(arguments: &WorkspaceArgs, environment: &Environment) -> Result<Place, Failure> {
        let workspace = open_workspace(arguments.cd.as_deref(), environment)?;
        let repository = Repository::discover(workspace.root()).map_err(SetupError::Repository)?;
        Ok(Place { workspace: Arc::new(workspace), repository })
    }

    fn top(&self) -> PathBuf {
        self.repository
            .as_ref()
            .map_or_else(|| self.workspace.root().to_path_buf(), |repository| repository.top.clone())
    }

    /// Returns the policy that a run here would have.
    fn policy(&self, named: Option<&str>, delivers: bool, environment: &Environment) -> Result<Chosen, Failure> {
        self.policy_with(&ToolLists::default(), named, delivers, environment)
    }

    /// Returns the policy that a run here would have, with these lists of tools.
    fn policy_with(
        &self,
        lists: &ToolLists,
        named: Option<&str>,
        delivers: bool,
        environment: &Environment,
    ) -> Result<Chosen, Failure> {
        let named = named.map(str::to_owned).or_else(|| environment.value("QWEN_POLICY"));
        let trusted = self.trusted(environment)?;
        let chosen = policy_layers::choose(&PolicySources {
            named: named.as_deref(),
            mode: None,
            delivers,
            lists,
            cwd: &environment.cwd,
            top: &self.top(),
            trusted: &trusted,
            machine: Path::new("/etc/qwen/policy.yaml"),
        })?;
        chosen.require_tests(&self.facts(environment))?;
        Ok(chosen)
    }

    /// Returns whose files of the checkout count, as in a run without flags.
    fn trusted(&self, environment: &Environment) -> Result<Trusted, Failure> {
        let (top, root) = (self.top(), self.workspace.root());
        let state = state_folder(environment, root).ok();
        trust::find(&TrustFlags::default(), environment, &top, root, self.repository.is_some(), state.as_deref())
    }

    fn facts(&self, environment: &Environment) -> Facts {
        let home = environment.home.as_ref().map(|home| home.display().to_string()).unwrap_or_default();
        let git = self.repository.as_ref().map(outcome::git_facts).unwrap_or_default();
        outcome::facts(&self.workspace, home, PathBuf::new(), Vec::new(), git)
    }
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
