//! Provides what the tests share: a hermetic project, and a model that plays a script.

pub(crate) mod network;
pub(crate) mod project;
pub(crate) mod server;

pub(crate) use network::on_the_network;
pub(crate) use project::{Outcome, Project};
pub(crate) use server::{Reply, Server, all_calls, call, calls, say};

/// The flags that name a file to write.
pub(crate) const OUTPUT_FLAGS: [&str; 7] =
    ["--result-file", "--events-file", "--patch-file", "--summary-file", "--sarif-file", "--rdjson-file", "--record"];
