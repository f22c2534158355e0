//! The fifth stage: the tools, and the MCP servers that give more of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::item::Item;
use super::shared::Shared;
use crate::model::ToolSpec;
use crate::policy::Access;
use crate::policy::lists::ToolEntry;
use crate::run::error::Failure;
use crate::run::recipe::answers::AnswerSpec;
use crate::run::recipe::fences;
use crate::run::runner::Runner;
use crate::run::runner::servers;
use crate::run::runner::tools;
use crate::tools::mcp::Servers;
use crate::tools::structured_output::StructuredOutput;
use crate::tools::task::AgentFile;
use crate::tools::{RunMemory, ToolLimits, Toolbox};

/// The tools of an item.
pub struct RunTools {
    /// The tools.
    pub registry: Toolbox,
    /// The agents that tasks can be given to.
    pub agents: Vec<AgentFile>,
    /// The tools that the model sees.
    pub offered: Arc<[ToolSpec]>,
    /// What tools remember.
    pub memory: RunMemory,
    /// Limits on tools.
    pub limits: ToolLimits,
    /// The servers, as results list them.
    pub listed_servers: Vec<Value>,
    /// Whether a request of its own reads each fetched page (`tools.webFetch.summarize`).
    pub reads_pages: bool,
    /// The names of discovered tools.
    discovered: Vec<String>,
}

impl RunTools {
    /// Creates the tools of this program, and discovers the project's.
    pub async fn open(shared: &Shared, item: &mut Item, runner: &Runner) -> Result<RunTools, Failure> {
        let wanted = tools::ToolOptions {
            settings: &shared.settings,
            environment: &shared.environment,
            policy: &item.rules.policy,
            home: &item.rules.home,
            included: &shared.included,
            top: shared.place.top(),
            project: shared.trusted.source(),
            bare: item.arguments.context.bare,
            fence_secret: fences::of_run(&item.arguments, None)?,
        };
        let found = tools::tools(&wanted, &item.workspace, runner).await;
        let tools::Tools { mut registry, agents, discovered, warnings } = found;
        item.warn(warnings)?;
        let AnswerSpec { schema, .. } = &item.wanted;
        if let Some(schema) = schema {
            registry.add(StructuredOutput::new(schema.clone()));
        }
        Ok(RunTools {
            registry,
            agents,
            offered: Arc::default(),
            memory: RunMemory::default(),
            limits: limits(shared, item, runner),
            listed_servers: Vec::new(),
            reads_pages: shared.settings.tools.web_fetch_summarize.as_ref().is_some_and(|summarize| summarize.value),
            discovered,
        })
    }

    /// Starts the servers and adds their tools. It may take longest: every other error has been found before.
    pub async fn connect(&mut self, shared: &Shared, item: &mut Item, runner: &Runner) -> Result<Servers, Failure> {
        let (pins, home) = (std::mem::take(&mut item.servers), shared.environment.home.as_deref());
        let trace = item.trace();
        let (mcp, listed) =
            servers::start(&shared.servers, pins, runner, trace.as_deref(), home, &mut item.warnings).await?;
        self.listed_servers = listed;
        let facts = item.rules.facts(&item.workspace, runner.outputs());
        // A tool that only lacks the user's approval is shown: its calls are denied, and the denial says what would
        // allow it.
        let names = shared.servers.names();
        let approvals: Vec<ToolEntry> = names.iter().map(|name| ToolEntry::server(name, "mcp")).collect();
        let allowable = item.rules.policy.allowing(&approvals);
        let allows = |access: &Access| allowable.authorize("mcp", std::slice::from_ref(access), &facts).1.is_some();
        let mut warnings = mcp.register(&mut self.registry, &allows);
        warnings.extend(shared.lists.unknown(&self.discovered, &with_tools(names, &mcp)));
        item.warn(warnings)?;
        item.warnings.extend(servers::waiting(&mcp, &item.rules.policy, &allowable, &facts));
        self.offered = self.registry.specs().into();
        Ok(mcp)
    }
}

/// Returns the servers with the tools of the connected ones.
fn with_tools(names: Vec<String>, connected: &Servers) -> Vec<(String, Option<Vec<String>>)> {
    let mut tools: std::collections::BTreeMap<String, Vec<String>> = connected.tools().into_iter().collect();
    names.into_iter().map(|name| (name.clone(), tools.remove(&name))).collect()
}

fn limits(shared: &Shared, item: &Item, runner: &Runner) -> ToolLimits {
    let settings = &shared.settings;
    let millis = settings.tools.shell_timeout_ms.as_ref().map(|ms| Duration::from_millis(ms.value));
    let number = |value: &Option<crate::settings::Valued<u64>>, default| {
        value.as_ref().map_or(default, |n| usize::try_from(n.value).unwrap_or(usize::MAX))
    };
    ToolLimits {
        shell_timeout: millis.unwrap_or(Duration::from_secs(120)),
        shell_timeout_max: item.rules.policy.shell_timeout(),
        output_chars: number(&settings.tools.truncate_output_threshold, 25_000),
        output_lines: number(&settings.tools.truncate_output_lines, 2_000),
        outputs: runner.outputs(),
    }
}
