//! Represents what a layer of a policy says, as values. `None` and an empty list say nothing.

pub(crate) mod read;

use std::collections::BTreeMap;
use std::time::Duration;

use super::decision::RuleRef;
use super::file::{
    Changes, CommandRule, DefaultRule, Env, GitHubWrite, HostRule, Hosts, IgnoredSecrets, OnDeny, Server, Unanalysable,
    UntrustedInput, WorkspaceMode,
};
use super::glob::Glob;
use crate::event::Limits;

/// A value, and where the rule is that states it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule<T> {
    pub(crate) value: T,
    pub(crate) at: RuleRef,
}

pub(crate) type List<T> = Vec<Rule<T>>;

/// The rules of one layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) tools: NameRules,
    pub(crate) discovered: NameRules,
    pub(crate) paths: PathRules,
    pub(crate) shell: ShellRules,
    pub(crate) network: NetworkRules,
    pub(crate) mcp: McpRules,
    pub(crate) sandbox: SandboxRules,
    pub(crate) secrets: SecretRules,
    pub(crate) delivery: DeliveryRules,
    pub(crate) limits: Limits,
}

/// Allowed and denied names.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameRules {
    pub(crate) allow: Option<List<String>>,
    pub(crate) deny: List<String>,
}

/// Rules on files.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathRules {
    pub(crate) read: ReadRules,
    pub(crate) write: WriteRules,
    pub(crate) protected: List<Glob>,
    /// What the built-in lists no longer protect.
    pub(crate) unprotected: Vec<Glob>,
}

/// What may be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadRules {
    pub(crate) allow: Option<List<Glob>>,
    pub(crate) deny: List<Glob>,
}

/// What may be written.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteRules {
    pub(crate) allow: Option<List<Glob>>,
    pub(crate) deny: List<Glob>,
    pub(crate) create: Option<bool>,
    pub(crate) delete: Option<bool>,
    pub(crate) exec_bit: Option<bool>,
    pub(crate) symlinks: Option<bool>,
    pub(crate) max_files: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
}

/// Rules on commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShellRules {
    /// Whether the layer has rules on commands.
    pub(crate) present: bool,
    pub(crate) default: Option<DefaultRule>,
    pub(crate) unanalysable: Option<Unanalysable>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) env: Option<Env>,
    pub(crate) allow: Option<List<CommandRule>>,
    pub(crate) deny: List<CommandRule>,
    /// The allow rules before those for other ecosystems than the workspace's were removed. They allow nothing; a
    /// recipe that names one of them still starts.
    pub(crate) of_all_ecosystems: List<CommandRule>,
}

/// Rules on the web, and on what commands may reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetworkRules {
    pub(crate) default: Option<DefaultRule>,
    pub(crate) allow: Option<List<HostRule>>,
    pub(crate) deny: List<HostRule>,
    pub(crate) max_redirects: Option<u32>,
    pub(crate) query_max: Option<usize>,
    pub(crate) shell: Option<Hosts>,
}

/// Rules on MCP servers and their tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct McpRules {
    pub(crate) default: Option<DefaultRule>,
    pub(crate) servers: Option<BTreeMap<String, Rule<Server>>>,
}

/// Rules on the isolation of processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct SandboxRules {
    pub(crate) require: Option<bool>,
    pub(crate) workspace: Option<WorkspaceMode>,
    pub(crate) copy_max: Option<u64>,
    pub(crate) read_system: Option<Vec<String>>,
}

/// Rules on secrets.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretRules {
    pub(crate) redact: Option<bool>,
    pub(crate) patterns: Vec<String>,
    pub(crate) on_write: Option<DefaultRule>,
    pub(crate) ignore: IgnoredSecrets,
}

/// What may become of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeliveryRules {
    pub(crate) changes: Option<Changes>,
    pub(crate) on_deny: Option<OnDeny>,
    pub(crate) untrusted_input: Option<UntrustedInput>,
    pub(crate) github: GitHubRules,
    pub(crate) batch: BatchRules,
}

/// Limits of a batch, and the repositories that it may clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchRules {
    pub(crate) items: Option<u64>,
    pub(crate) jobs: Option<u32>,
    pub(crate) total_cost_usd: Option<f64>,
    pub(crate) total_wall_time: Option<Duration>,
    pub(crate) repositories: Option<Vec<Glob>>,
}

/// Rules on what is written to GitHub.
#[derive(Debug, Clone, Default)]
pub(crate) struct GitHubRules {
    pub(crate) allow: Option<Vec<GitHubWrite>>,
    pub(crate) labels: Option<Vec<Glob>>,
    pub(crate) max_inline: Option<usize>,
}

/// What `extends` does: allow lists and single values replace the parent's; the other lists add up.
pub(crate) trait Over {
    fn over(self, parent: Self) -> Self;
}

impl<T> Over for Option<T> {
    fn over(self, parent: Option<T>) -> Option<T> {
        self.or(parent)
    }
}

impl<T> Over for Vec<T> {
    fn over(self, mut parent: Vec<T>) -> Vec<T> {
        parent.extend(self);
        parent
    }
}

impl Over for bool {
    fn over(self, parent: bool) -> bool {
        self || parent
    }
}

macro_rules! over {
    ($($type:ident { $($field:ident),+ })+) => {
        $(impl Over for $type {
            fn over(self, parent: $type) -> $type {
                $type { $($field: self.$field.over(parent.$field)),+ }
            }
        })+
    };
}

over! {
    Rules { tools, discovered, paths, shell, network, mcp, sandbox, secrets, delivery, limits }
    NameRules { allow, deny }
    PathRules { read, write, protected, unprotected }
    ReadRules { allow, deny }
    WriteRules { allow, deny, create, delete, exec_bit, symlinks, max_files, max_bytes }
    ShellRules { present, default, unanalysable, timeout, env, allow, deny, of_all_ecosystems }
    NetworkRules { default, allow, deny, max_redirects, query_max, shell }
    SandboxRules { require, workspace, copy_max, read_system }
    SecretRules { redact, patterns, on_write, ignore }
    IgnoredSecrets { paths, sha256 }
    DeliveryRules { changes, on_deny, untrusted_input, github, batch }
    BatchRules { items, jobs, total_cost_usd, total_wall_time, repositories }
    GitHubRules { allow, labels, max_inline }
    Limits { turns, tool_calls, shell_calls, denials, same_denial, wall_time_ms, total_tokens, cost_usd }
}

impl Over for McpRules {
    fn over(self, parent: McpRules) -> McpRules {
        let default = self.default.over(parent.default);
        let servers = match (self.servers, parent.servers) {
            (Some(child), Some(mut servers)) => {
                for (name, mut server) in child {
                    if let Some(parent) = servers.remove(&name) {
                        server.value = server.value.over(parent.value);
                    }
                    servers.insert(name, server);
                }
                Some(servers)
            }
            (child, parent) => child.or(parent),
        };
        McpRules { default, servers }
    }
}

impl Over for Server {
    fn over(self, parent: Server) -> Server {
        Server {
            allow: self.allow.over(parent.allow),
            deny: self.deny.over(parent.deny),
            network: self.network.over(parent.network),
            write: self.write,
            pins: self.pins.over(parent.pins),
            on_change: self.on_change.over(parent.on_change),
        }
    }
}
