//! Implements `todo_write`: the model's list of what is to be done, kept in the run.

use serde_json::{Map, Value, json};

use super::{Call, Todo, Tool, ToolContext, ToolError, ToolOutput};
use crate::model::{BoxFuture, ToolSpec};
use crate::policy::{Access, Grant};

/// The tool.
pub struct TodoWrite;

impl Tool for TodoWrite {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "todo_write".into(),
            description: "Replace your to-do list. For tasks of many steps.".into(),
            parameters: json!({"type": "object", "properties": {
                "todos": {"type": "array", "items": {"type": "object", "properties": {
                    "id": {"type": "string"},
                    "content": {"type": "string"},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
                }, "required": ["id", "content", "status"]}}
            }, "required": ["todos"]}),
        }
    }

    fn display_name(&self) -> &'static str {
        "TodoWrite"
    }

    fn only_reads(&self) -> bool {
        false
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
        let todos: Vec<Todo> = serde_json::from_value(arguments.get("todos").cloned().unwrap_or_default())
            .map_err(|error| ToolError::arguments(format!("params/todos: {error}")))?;
        for (index, todo) in todos.iter().enumerate() {
            if todo.content.trim().is_empty() {
                return Err(ToolError::arguments(format!("params/todos/{index}/content must not be empty")));
            }
            if todos[..index].iter().any(|other| other.id == todo.id) {
                return Err(ToolError::arguments(format!("params/todos/{index}/id must be unique: {:?}", todo.id)));
            }
        }
        Ok(Box::new(TodoCall { todos }))
    }
}

struct TodoCall {
    todos: Vec<Todo>,
}

impl Call for TodoCall {
    fn accesses(&self) -> Vec<Access> {
        Vec::new()
    }

    fn describe(&self) -> String {
        format!("{} to-dos", self.todos.len())
    }

    fn run<'a>(
        self: Box<Self>,
        _grant: &'a Grant,
        cx: &'a ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
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
