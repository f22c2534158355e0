//! Implements `todo_write`: the model's list of what is to be done, kept in the run.

use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

use super::{Call, CallFuture, Effects, Todo, ToolContext, ToolError, ToolOutput, TypedTool};
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;

/// The tool.
pub struct TodoWrite;

impl TypedTool for TodoWrite {
    type Args = TodoCall;
    const ID: ToolId = ToolId::TodoWrite;
    const EFFECTS: Effects = Effects::Other;
    const DESCRIPTION: &'static str = "Replace your to-do list. For tasks of many steps.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "todos": {"type": "array", "items": {"type": "object", "properties": {
                "id": {"type": "string"},
                "content": {"type": "string"},
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
            }, "required": ["id", "content", "status"]}}
        }, "required": ["todos"]})
    }

    fn call(&self, args: TodoCall) -> Result<Box<dyn Call>, ToolError> {
        let todos = &args.todos;
        for (index, todo) in todos.iter().enumerate() {
            if todo.content.trim().is_empty() {
                return Err(ToolError::arguments(format!("params/todos/{index}/content must not be empty")));
            }
            if todos[..index].iter().any(|other| other.id == todo.id) {
                return Err(ToolError::arguments(format!("params/todos/{index}/id must be unique: {:?}", todo.id)));
            }
        }
        Ok(Box::new(args))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct TodoCall {
    todos: Vec<Todo>,
}

impl Call for TodoCall {
    fn accesses(&self) -> Vec<Access> {
        Vec::new()
    }

    fn subject(&self, _root: &Path) -> String {
        format!("{} to-dos", self.todos.len())
    }

    fn run<'a>(self: Box<Self>, _grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let lines: Vec<String> = self
                .todos
                .iter()
                .map(|todo| {
                    let mark = match todo.status.as_str() {
                        "completed" => "x",
                        "in_progress" => "~",
                        _ => " ",
                    };
                    format!("- [{mark}] {}", todo.content.replace('\n', " "))
                })
                .collect();
            *cx.memory.todos.lock().expect("nothing panics while it holds the list") = self.todos;
            let llm = "Todos have been modified successfully. Go on with the next one, and keep the list up to date.";
            Ok(ToolOutput::text(llm, lines.join("\n")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Display;
    use crate::tools::tests::Project;

    #[test]
    fn the_list_is_replaced_whole() {
        let project = Project::new(&[]);
        let todos = |status: &str| json!({"todos": [{"id": "1", "content": "a", "status": status}]});
        let output = project.call("todo_write", todos("pending")).unwrap();
        assert_eq!(output.display, Display::Markdown("- [ ] a".into()));
        assert!(project.says("todo_write", todos("completed")).starts_with("Todos have been modified successfully. "));
        let kept = project.memory.todos.lock().unwrap().clone();
        assert_eq!(kept, [Todo { id: "1".into(), content: "a".into(), status: "completed".into() }]);
    }

    #[test]
    fn two_items_cannot_share_an_id() {
        let item = json!({"id": "1", "content": "a", "status": "pending"});
        let said = Project::new(&[]).says("todo_write", json!({"todos": [item, item]}));
        assert_eq!(said, "params/todos/1/id must be unique: \"1\"");
    }
}
