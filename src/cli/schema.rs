//! `qwen schema`: JSON Schemas of what we write and read.

use clap::{Args, ValueEnum};
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::emit::Report;
use crate::event::Event;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen schema result > result.schema.json";

/// The flags of `schema`.
#[derive(Debug, Clone, Args)]
pub struct SchemaArgs {
    /// Of what
    #[arg(value_name = "KIND")]
    pub kind: SchemaKind,
}

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// The result object
    Result,
    /// A line of --events-file
    Events,
    /// A policy file
    Policy,
}

/// Returns a schema; that of the policy file comes from the caller, which knows its type.
pub fn schema(kind: SchemaKind, policy: impl FnOnce() -> Value) -> Value {
    match kind {
        SchemaKind::Result => of::<Report>(),
        SchemaKind::Events => of::<Event>(),
        SchemaKind::Policy => policy(),
    }
}

/// Returns the schema of a type, as it is written.
pub fn of<T: schemars::JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}
