//! Starts a server's program: inside the sandbox in a run, anywhere in tests.

use tokio::io::{AsyncRead, AsyncWrite};

use super::config::Config;
use crate::model::BoxFuture;

/// Starts servers' programs.
pub trait Launcher: Send + Sync {
    /// Starts the program of a server that is spoken to over its standard input and output.
    ///
    /// The error is one sentence for the user.
    fn launch<'a>(&'a self, config: &'a Config) -> BoxFuture<'a, Result<Launched, String>>;

    /// Returns the workspace's path and the one at which programs see it, where these are two.
    fn moved(&self) -> Option<(String, String)> {
        None
    }

    /// Returns what keeps a server on the network from being spoken to; `None` if nothing does.
    fn refuses(&self, config: &Config, host: &str) -> Option<String>;
}

/// A program that runs. Dropping all of it ends the program and what it started.
pub struct Launched {
    /// What it reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it says.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it complains.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Its life.
    pub process: Box<dyn Process>,
    /// What the user should know about how it runs.
    pub note: Option<String>,
}

/// The life of a program: it ends when this is dropped.
pub trait Process: Send {
    /// Waits until it has ended by itself; returns its exit code, if it has one.
    fn ended<'a>(&'a mut self) -> BoxFuture<'a, Option<i32>>;
}
