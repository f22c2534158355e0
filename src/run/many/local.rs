//! Keeps the server of `--local` beside a batch, whose main thread does not run an event loop.

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use tokio::process::Command;
use tokio::sync::oneshot;

use crate::cli::RunArgs;
use crate::model::local::{self, LocalError};
use crate::run::error::{Failure, SetupError};
use crate::run::place::Place;
use crate::sandbox::beside;
use crate::settings::Environment;

/// The server of a batch, which lives no longer than this.
pub struct Beside {
    base_url: String,
    model: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Starts the server of `--local` and waits until it is ready; `None` without the flag.
    pub fn start(arguments: &RunArgs, environment: &Environment, place: &Place) -> Result<Option<Beside>, Failure> {
        let Some(model) = &arguments.model.local else { return Ok(None) };
        let model = environment.cwd.join(model);
        let program = beside::server(local::PROGRAM, &place.checkout.programs, &environment.variables);
        let (tell, told) = channel();
        let (end, ended) = oneshot::channel();
        let work = move || serve(&model, program, ended, |started| drop(tell.send(started)));
        let failed = |error: std::io::Error| Failure::output(format!("cannot start a thread: {error}"));
        let thread = std::thread::Builder::new().name("local server".to_owned()).spawn(work).map_err(failed)?;
        let gone = || Failure::output("the local server did not start".to_owned());
        let (base_url, model) = told.recv().map_err(|_| gone())?.map_err(SetupError::Local)?;
        Ok(Some(Beside { base_url, model, end: Some(end), thread: Some(thread) }))
    }

    /// Returns the flags with this server in the place of the one that they name.
    pub fn asked(&self, arguments: &RunArgs) -> RunArgs {
        let mut arguments = arguments.clone();
        arguments.model.openai_base_url = Some(self.base_url.clone());
        arguments.model.model = Some(self.model.clone());
        arguments
    }
}

impl Drop for Beside {
    /// Ends the server and returns once it is gone.
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Runs the server until the other end of `ended` is gone.
fn serve(
    model: &Path,
    program: Option<(PathBuf, Command)>,
    ended: oneshot::Receiver<()>,
    tell: impl Fn(Result<(String, String), LocalError>),
) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        match local::start(model, program, &|_| {}).await {
            Ok(server) => {
                tell(Ok((server.base_url.clone(), server.model.clone())));
                let _gone = ended.await;
                server.end().await;
            }
            Err(error) => tell(Err(error)),
        }
    });
}
