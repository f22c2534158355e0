//! Holds the tools on offer, for the parsers of calls.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::ToolSpec;
use super::coerce::{Fitted, Parameters, one_object, properties};
use crate::tool_name;

/// The tools on offer, for the parsers of calls.
#[derive(Debug)]
pub struct ToolSet {
    specs: Arc<[ToolSpec]>,
    parameters: Vec<Parameters>,
}

impl ToolSet {
    /// Takes the tools of a run; compiles nothing yet.
    pub fn new(specs: Arc<[ToolSpec]>) -> ToolSet {
        let parameters = specs.iter().map(Parameters::of).collect();
        ToolSet { specs, parameters }
    }

    /// Returns the tools.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Finds the tool of this very name, known prefixes aside.
    pub fn exact(&self, name: &str) -> Option<&ToolSpec> {
        let find = |name: &str| self.specs.iter().find(|spec| spec.name == name);
        find(name).or_else(|| find(tool_name::bare(name)))
    }

    /// Fits the arguments of the tool that a model means by a name; see [`Parameters::fit`].
    pub fn check(&self, name: &str, arguments: Map<String, Value>) -> Result<Fitted, String> {
        match self.position(name) {
            Some(at) => self.parameters[at].fit(arguments),
            None => Err(tool_name::not_found(name, self.names())),
        }
    }

    /// Restores the brace that a server dropped before arguments, if they fit then.
    pub(super) fn with_brace(&self, name: &str, raw: &str) -> Option<Map<String, Value>> {
        let properties = properties(&self.specs[self.position(name)?].parameters)?;
        ["{", "{\""].iter().find_map(|lost| {
            let object = one_object(&format!("{lost}{}", raw.trim_start()))?;
            // A tool that takes anything says nothing about what is meant.
            let is_known = object.keys().any(|key| properties.contains_key(key));
            (is_known && self.check(name, object.clone()).is_ok()).then_some(object)
        })
    }

    /// Tells whether a tool has parameters that must be there.
    pub(super) fn has_required(&self, name: &str) -> bool {
        self.position(name)
            .and_then(|at| self.specs[at].parameters.get("required"))
            .and_then(Value::as_array)
            .is_some_and(|required| !required.is_empty())
    }

    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.specs.iter().map(|spec| spec.name.as_str())
    }

    fn position(&self, name: &str) -> Option<usize> {
        let name = tool_name::resolve(name, self.names())?;
        self.specs.iter().position(|spec| spec.name == name)
    }
}
