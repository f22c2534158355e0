//! Runs `qwen schema`: prints JSON Schemas generated from the types.

use std::io::Write;

use super::console::print;
use crate::cli::schema::{self, SchemaArgs};
use crate::emit::to_pretty;
use crate::exit::Exit;
use crate::policy::file::PolicyFile;
use crate::run::Failure;

pub(super) fn run(arguments: &SchemaArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let schema = schema::schema(arguments.kind, schema::of::<PolicyFile>);
    print(out, &(to_pretty(&schema) + "\n"))
}
