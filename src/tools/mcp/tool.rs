//! Adapts a server's tool to the toolbox.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::content;
use super::definition::Definition;
use super::server::Server;
use crate::model::{Part, ToolSpec};
use crate::policy::{Access, Grant};
use crate::tools::common::bound;
use crate::tools::{Call, CallFuture, Display, Effects, Tool, ToolContext, ToolError, ToolOutput};

/// A tool of a server, under the name that the model sees.
pub(super) struct McpTool {
    pub(super) server: Arc<Server>,
    pub(super) name: String,
    pub(super) definition: Definition,
}

impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: self.definition.description.clone(),
            parameters: self.definition.schema.clone(),
        }
    }

    /// A server's own claims are not a reason to run its calls in parallel.
    fn effects(&self) -> Effects {
        Effects::Other
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
        Ok(Box::new(McpCall {
            server: Arc::clone(&self.server),
            tool: self.definition.name.clone(),
            judged: self.definition.judged(),
            arguments,
        }))
    }
}

struct McpCall {
    server: Arc<Server>,
    tool: String,
    /// The name that the policy knows.
    judged: String,
    arguments: Map<String, Value>,
}

impl Call for McpCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Mcp {
            server: self.server.config().name.clone(),
            tool: self.judged.clone(),
            arguments: Value::Object(self.arguments.clone()),
            // By the current definition: one that changed since it was reviewed is another tool.
            pin: self.server.pin(&self.tool),
        }]
    }

    fn subject(&self, _root: &Path) -> String {
        format!("{}/{}", super::shown(&self.server.config().name, 60), super::shown(&self.tool, 60))
    }

    fn run<'a>(self: Box<Self>, _grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            cx.runner.show_staged().await?;
            let result = self.server.call(&self.tool, self.arguments, cx.traced).await;
            let notes = cx.runner.take_changes().await?;
            let answer = content::answer(&result.map_err(ToolError::failed)?, cx.media);
            let mut parts = bounded(answer.parts, cx);
            if !notes.is_empty() {
                parts.push(Part::Text(format!("\n({})", notes.join("; "))));
            }
            if answer.is_error {
                return Err(ToolError::failed(format!(
                    "{} of {} failed: {}",
                    self.tool,
                    self.server.config().name,
                    Part::text_of(&parts)
                )));
            }
            let display = Display::Markdown(super::shown(&Part::text_of(&parts), 400));
            Ok(ToolOutput { llm_content: parts, display, command: None })
        })
    }
}

/// Cuts the texts to the run's limits.
pub(super) fn bounded(parts: Vec<Part>, cx: &ToolContext<'_>) -> Vec<Part> {
    let cut = |part: Part| match part {
        Part::Text(text) => Part::Text(bound::bound(&text, cx)),
        media @ Part::Media { .. } => media,
    };
    parts.into_iter().map(cut).collect()
}
