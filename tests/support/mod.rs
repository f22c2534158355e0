//! Provides what the tests share: a hermetic project, and a model that plays a script.

pub(crate) mod batch;
pub(crate) mod batch_api;
pub(crate) mod batch_recipes;
pub(crate) mod git_https;
pub(crate) mod github;
pub(crate) mod network;
pub(crate) mod project;
pub(crate) mod server;
pub(crate) mod terminal;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub(crate) use batch_api::BatchApi;
pub(crate) use github::GitHub;
pub(crate) use network::{on_the_network, on_the_network_with};
pub(crate) use project::{Outcome, Project};
pub(crate) use server::{Reply, Server, call, calls, say};
pub(crate) use terminal::raw;

/// Returns the program under test: the one that `QWEN_TEST_PROGRAM` names, or else the one that was built with the tests.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let named = std::env::var_os("QWEN_TEST_PROGRAM").map(PathBuf::from);
        let program = named.unwrap_or_else(|| env!("CARGO_BIN_EXE_qwen").into());
        program.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", program.display()))
    });
    &PROGRAM
}

/// The flags that name a file to write.
pub(crate) const OUTPUT_FLAGS: [&str; 8] = [
    "--result-file",
    "--events-file",
    "--patch-file",
    "--summary-file",
    "--report-file",
    "--sarif-file",
    "--rdjson-file",
    "--record",
];
