//! Implements the tool with which the model reads the resources of servers.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::content;
use super::server::Server;
use super::tool::bounded;
use crate::model::{Part, ToolSpec};
use crate::policy::{Access, Grant, Pin};
use crate::tools::{Call, CallFuture, Display, Effects, Tool, ToolContext, ToolError, ToolOutput};

/// The name that the model sees.
pub(super) const NAME: &str = "mcp_resource";

/// The tool's name in the policy, next to the server's.
pub(super) const ACCESS: &str = "resources/read";

/// Maximum resources that are listed.
const LISTED: usize = 200;

/// Lists and reads resources.
pub(super) struct McpResource {
    pub(super) servers: Vec<Arc<Server>>,
}

impl Tool for McpResource {
    fn spec(&self) -> ToolSpec {
        let names: Vec<&str> = self.servers.iter().map(|server| server.config().name.as_str()).collect();
        ToolSpec {
            name: NAME.into(),
            description: "Read a resource of a server; without uri, list what it has.".into(),
            parameters: json!({"type": "object", "properties": {
                "server": {"type": "string", "enum": names},
                "uri": {"type": "string"}
            }, "required": ["server"]}),
        }
    }

    fn effects(&self) -> Effects {
        Effects::Reads
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
        let named = arguments.get("server").and_then(Value::as_str).unwrap_or_default();
        let server = self.servers.iter().find(|server| server.config().name == named);
        let server = server.ok_or_else(|| ToolError::arguments(format!("there is no server {named:?}")))?;
        let uri = arguments.get("uri").and_then(Value::as_str).filter(|uri| !uri.trim().is_empty());
        Ok(Box::new(ResourceCall { server: Arc::clone(server), uri: uri.map(str::to_owned) }))
    }
}

struct ResourceCall {
    server: Arc<Server>,
    uri: Option<String>,
}

impl Call for ResourceCall {
    fn accesses(&self) -> Vec<Access> {
        vec![access(&self.server.config().name, self.uri.as_deref())]
    }

    fn subject(&self, _root: &Path) -> String {
        let uri = self.uri.as_deref().unwrap_or("list of resources");
        format!("{}/{}", super::shown(&self.server.config().name, 60), super::shown(uri, 120))
    }

    fn run<'a>(self: Box<Self>, _grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let parts = match &self.uri {
                Some(uri) => {
                    cx.runner.show_staged().await?;
                    content::resource(&self.server.read(uri).await.map_err(ToolError::failed)?, cx.media)
                }
                None => vec![Part::Text(list(&self.server))],
            };
            let parts = bounded(parts, cx);
            let display = Display::Markdown(super::shown(&Part::text_of(&parts), 400));
            Ok(ToolOutput { llm_content: parts, display, command: None })
        })
    }
}

/// What the policy judges. A resource has no definition that could be pinned.
pub(super) fn access(server: &str, uri: Option<&str>) -> Access {
    let arguments = match uri {
        Some(uri) => json!({ "uri": uri }),
        None => json!({}),
    };
    Access::Mcp { server: server.to_owned(), tool: ACCESS.to_owned(), arguments, pin: Pin::Match }
}

fn list(server: &Server) -> String {
    let resources = server.listing().resources;
    let mut text: String = resources
        .iter()
        .take(LISTED)
        .map(|(uri, name)| format!("{}  {}\n", super::shown(uri, 500), super::shown(name, 100)))
        .collect();
    match resources.len() {
        0 => text.push_str("(nothing is listed; an address may still be read)"),
        many if many > LISTED => text.push_str(&format!("({} more)", many - LISTED)),
        _ => {}
    }
    text
}
