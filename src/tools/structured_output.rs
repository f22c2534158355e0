//! Implements `structured_output`: the answer of a run as a value of the schema that `--json-schema` gave.

use std::path::Path;
use std::sync::Mutex;

use serde_json::{Map, Value};

use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool};
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;

/// The tool. The toolbox validates the arguments against the schema, so a call that parses is the answer.
pub struct StructuredOutput {
    schema: Value,
}

impl StructuredOutput {
    /// Makes the tool for a schema of an object.
    pub fn new(schema: Value) -> StructuredOutput {
        StructuredOutput { schema }
    }
}

impl TypedTool for StructuredOutput {
    type Args = Map<String, Value>;
    const ID: ToolId = ToolId::StructuredOutput;
    const EFFECTS: Effects = Effects::Answers;
    const DESCRIPTION: &'static str = "Give the final answer. Call it once, at the end; nothing comes after it.";

    fn parameters(&self) -> Value {
        self.schema.clone()
    }

    fn call(&self, args: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
        Ok(Box::new(AnswerCall { answer: Value::Object(args) }))
    }
}

struct AnswerCall {
    answer: Value,
}

impl Call for AnswerCall {
    fn accesses(&self) -> Vec<Access> {
        Vec::new()
    }

    fn subject(&self, _root: &Path) -> String {
        "the final answer".into()
    }

    fn run<'a>(self: Box<Self>, _grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let answer: &Mutex<Option<Value>> = &cx.memory.answer;
            let mut kept = answer.lock().expect("nothing panics while it holds the answer");
            if kept.is_some() {
                return Err(ToolError::failed("the final answer was already given"));
            }
            *kept = Some(self.answer);
            Ok(ToolOutput::text("The answer is taken.", "The answer is taken."))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Toolbox;
    use crate::tools::tests::{NoRunner, Project};
    use serde_json::json;

    #[test]
    fn only_an_answer_that_fits_the_schema_is_taken_and_only_once() {
        let project = Project::new(&[]);
        let mut toolbox = Toolbox::default();
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        toolbox.add(StructuredOutput::new(schema));
        let call = |value: Value| {
            let Value::Object(arguments) = value else { unreachable!("tests pass objects") };
            project.call_of(&toolbox, "structured_output", arguments, &NoRunner)
        };
        let error = call(json!({"m": 1})).unwrap_err();
        assert!(error.message.starts_with("params must have required property 'n'\n"), "{}", error.message);
        assert!(call(json!({"n": 1})).is_ok());
        assert!(call(json!({"n": 2})).is_err());
        assert_eq!(*project.memory.answer.lock().unwrap(), Some(json!({"n": 1})));
    }
}
