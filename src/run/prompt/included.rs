//! Reads what a prompt names, through the tools and under the policy.

use serde_json::{Map, Value};

use crate::agent::invoke::PolicyCheck;
use crate::model::Part;
use crate::run::conversation::hooks::Hooks;
use crate::run::error::{Failure, PromptError};
use crate::tool_name::ToolId;
use crate::tools::mcp::{Servers, content};
use crate::tools::{ToolContext, Toolbox};

/// Reads what a prompt names.
pub struct Reader<'a> {
    /// The tools.
    pub registry: &'a Toolbox,
    /// Judges the calls.
    pub judge: &'a dyn PolicyCheck,
    /// Files and memory.
    pub context: &'a ToolContext<'a>,
    /// The MCP servers, whose resources may be named as `@server:uri`.
    pub servers: &'a Servers,
    /// The user's hooks, which are asked about commands in prompts, too.
    pub hooks: Option<Hooks>,
}

impl Reader<'_> {
    /// Reads `@server:uri`.
    async fn resource(&self, path: &str) -> Option<Result<Vec<Part>, Failure>> {
        let (server, uri, access) = self.servers.resource(path)?;
        let (decision, grant) = self.judge.authorize("mcp", std::slice::from_ref(&access));
        if grant.is_none() {
            return Some(Err(PromptError::Denied { path: path.to_owned(), why: decision.reason }.into()));
        }
        let read = server.read(&uri).await;
        Some(match read {
            Ok(result) => {
                let mut parts = content::resource(&result, self.context.media);
                if let Some(Part::Text(text)) = parts.first_mut() {
                    *text = format!("--- {path} ---\n{}\n--- End of {path} ---\n\n", text.trim_end());
                }
                Ok(parts)
            }
            Err(why) => Err(PromptError::Resource { path: path.to_owned(), why }.into()),
        })
    }

    /// Reads `@path`; `None` if nothing is there.
    pub async fn include(&self, path: &str) -> Result<Option<Vec<Part>>, Failure> {
        if let Some(read) = self.resource(path).await {
            return read.map(Some);
        }
        let denied = |why| Failure::from(PromptError::Denied { path: path.to_owned(), why });
        let reader = ToolId::ReadManyFiles;
        if !self.registry.has(reader) {
            return Err(denied(format!("the tool that reads it, {reader}, is not available in this run")));
        }
        let mut arguments = Map::new();
        arguments.insert("paths".into(), Value::from(vec![path]));
        match self.call(reader, arguments).await {
            Ok(parts) if parts.iter().all(|part| matches!(part, Part::Text(text) if !text.starts_with("--- "))) => {
                Ok(None)
            }
            Ok(parts) => Ok(Some(parts)),
            Err(error) if error.starts_with("denied") => Err(denied(error)),
            Err(_) => Ok(None),
        }
    }

    /// Calls a tool, as far as the policy allows it.
    pub async fn call(&self, tool: ToolId, arguments: Map<String, Value>) -> Result<Vec<Part>, String> {
        let prepared = self.registry.parse(tool.name(), arguments).map_err(|error| error.message)?;
        let (decision, grant) = self.judge.authorize(tool.name(), &prepared.call.accesses());
        let Some(grant) = grant else { return Err(format!("denied by the policy: {}", decision.reason)) };
        let output = prepared.call.run(&grant, self.context).await.map_err(|error| error.message)?;
        Ok(output.llm_content)
    }
}
