//! `edit`: replaces text in a file.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::common::names;
use super::{Call, Tool, ToolContext, ToolError, ToolOutput, required_str};
use crate::model::{BoxFuture, ToolSpec};
use crate::policy::{Access, Grant};

/// The tool.
pub struct Edit;

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit".into(),
            description: "Replace old_string by new_string in a file. Copy old_string exactly from the file, with enough lines to be unique.".into(),
            parameters: json!({"type": "object", "properties": {
                "file_path": {"type": "string"},
                "old_string": {"type": "string", "description": "Empty to create a file"},
                "new_string": {"type": "string"},
                "expected_replacements": {"type": "integer", "minimum": 1},
                "replace_all": {"type": "boolean"}
            }, "required": ["file_path", "old_string", "new_string"]}),
        }
    }

    fn display_name(&self) -> &'static str {
        "Edit"
    }

    fn only_reads(&self) -> bool {
        false
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
        let path = required_str(&arguments, "file_path")?;
        Ok(Box::new(EditCall { path: path.into() }))
    }
}

struct EditCall {
    path: PathBuf,
}

impl Call for EditCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Read { path: self.path.clone() }, Access::Write { path: self.path.clone() }]
    }

    fn describe(&self) -> String {
        names::one_line(&self.path)
    }

    fn run<'a>(
        self: Box<Self>,
        _grant: &'a Grant,
        _cx: &'a ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { Err(ToolError::failed("edit is not there yet")) })
    }
}
