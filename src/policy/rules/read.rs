//! Makes rules of a policy file.

use super::{
    BatchRules, DeliveryRules, GitHubRules, List, McpRules, NameRules, NetworkRules, PathRules, ReadRules, Rule, Rules,
    SandboxRules, SecretRules, ShellRules, WriteRules,
};
use crate::base::{Diagnostic, Spanned};
use crate::event::Limits;
use crate::policy::decision::RuleRef;
use crate::policy::file::{self, PolicyFile};
use crate::policy::glob::Glob;

impl Rules {
    /// Makes the rules of a file. Only an operator's file can lift built-in protection.
    pub(crate) fn of(file: PolicyFile, source: &str, by_operator: bool) -> Result<Rules, Diagnostic> {
        let from = Source(source);
        let secrets = file.secrets.unwrap_or_default();
        Ok(Rules {
            tools: from.names(file.tools, "tools"),
            discovered: from.names(file.discovered_tools, "discovered_tools"),
            paths: from.paths(file.paths.unwrap_or_default(), by_operator)?,
            shell: file.shell.map(|shell| from.shell(shell)).unwrap_or_default(),
            network: from.network(file.network.unwrap_or_default()),
            mcp: file.mcp.map(|mcp| from.mcp(mcp)).unwrap_or_default(),
            sandbox: sandbox(file.sandbox.unwrap_or_default()),
            secrets: SecretRules {
                redact: secrets.redact,
                patterns: secrets.patterns,
                on_write: secrets.on_write,
                ignore: secrets.ignore,
            },
            delivery: DeliveryRules {
                changes: file.changes,
                on_deny: file.on_deny,
                untrusted_input: file.untrusted_input,
                github: from.github(file.github.unwrap_or_default())?,
                batch: from.batch(file.batch.unwrap_or_default())?,
            },
            limits: limits(file.limits.unwrap_or_default()),
        })
    }
}

/// Names where the rules of a list are: `shell.allow[0]` in `policy.yaml:14`.
pub(crate) fn located<T>(list: Vec<Spanned<T>>, source: &str, key: &str) -> List<T> {
    let one = |(index, item): (usize, Spanned<T>)| Rule {
        at: at(source, item.span.line, format!("{key}[{index}]")),
        value: item.value,
    };
    list.into_iter().enumerate().map(one).collect()
}

fn at(source: &str, line: u32, rule: String) -> RuleRef {
    let source = if source.starts_with("builtin:") { source.to_owned() } else { format!("{source}:{line}") };
    RuleRef { rule, source }
}

/// The file that rules are from.
#[derive(Clone, Copy)]
struct Source<'a>(&'a str);

impl Source<'_> {
    fn names(self, names: Option<file::Names>, key: &str) -> NameRules {
        let names = names.unwrap_or_default();
        NameRules {
            allow: names.allow.map(|list| located(list, self.0, &format!("{key}.allow"))),
            deny: located(names.deny, self.0, &format!("{key}.deny")),
        }
    }

    fn globs(self, list: Vec<Spanned<String>>, key: &str) -> Result<List<Glob>, Diagnostic> {
        let compile = |text: Spanned<String>| match Glob::new(&text.value) {
            Ok(value) => Ok(Spanned { value, span: text.span }),
            Err(message) => Err(Diagnostic::at(self.0, text.span, message)),
        };
        let globs: Result<Vec<_>, _> = list.into_iter().map(compile).collect();
        Ok(located(globs?, self.0, key))
    }

    fn plain_globs(self, list: Option<Vec<String>>, key: &str) -> Result<Option<Vec<Glob>>, Diagnostic> {
        let compile = |text: String| {
            Glob::new(&text).map_err(|message| Diagnostic::of_file(self.0, format!("`{key}`: {message}")))
        };
        list.map(|list| list.into_iter().map(compile).collect()).transpose()
    }

    fn batch(self, batch: file::BatchFile) -> Result<BatchRules, Diagnostic> {
        Ok(BatchRules {
            items: batch.items,
            jobs: batch.jobs,
            total_cost_usd: batch.total_cost_usd,
            total_wall_time: batch.total_wall_time.map(|limit| limit.0),
            repositories: self.plain_globs(batch.repos.unwrap_or_default().allow, "batch.repos.allow")?,
        })
    }

    fn github(self, github: file::GitHubFile) -> Result<GitHubRules, Diagnostic> {
        let labels = self.plain_globs(github.labels, "github.labels")?;
        Ok(GitHubRules { allow: github.allow, labels, max_inline: github.max_inline })
    }

    fn paths(self, paths: file::Paths, by_operator: bool) -> Result<PathRules, Diagnostic> {
        let (read, write) = (paths.read.unwrap_or_default(), paths.write.unwrap_or_default());
        let protected = paths.protected.unwrap_or_default();
        let allowed = |list: Option<_>, key: &str| list.map(|list| self.globs(list, key)).transpose();
        let unprotected = if by_operator { protected.remove } else { Vec::new() };
        Ok(PathRules {
            read: ReadRules {
                allow: allowed(read.allow, "paths.read.allow")?,
                deny: self.globs(read.deny, "paths.read.deny")?,
            },
            write: WriteRules {
                allow: allowed(write.allow, "paths.write.allow")?,
                deny: self.globs(write.deny, "paths.write.deny")?,
                create: write.create,
                delete: write.delete,
                exec_bit: write.exec_bit,
                symlinks: write.symlinks,
                max_files: write.max_files,
                max_bytes: write.max_bytes.map(|bytes| bytes.0),
            },
            protected: self.globs(protected.add, "paths.protected.add")?,
            unprotected: self
                .globs(unprotected, "paths.protected.remove")?
                .into_iter()
                .map(|glob| glob.value)
                .collect(),
        })
    }

    fn shell(self, shell: file::Shell) -> ShellRules {
        ShellRules {
            present: true,
            default: shell.default,
            unanalysable: shell.unanalysable,
            timeout: shell.timeout.map(|timeout| timeout.0),
            env: shell.env,
            allow: shell.allow.map(|list| located(list, self.0, "shell.allow")),
            deny: located(shell.deny, self.0, "shell.deny"),
            of_all_ecosystems: Vec::new(),
        }
    }

    fn network(self, network: file::Network) -> NetworkRules {
        NetworkRules {
            default: network.default,
            allow: network.allow.map(|list| located(list, self.0, "network.allow")),
            deny: located(network.deny, self.0, "network.deny"),
            max_redirects: network.max_redirects,
            query_max: network.query_max,
            shell: network.shell,
        }
    }

    fn mcp(self, mcp: file::Mcp) -> McpRules {
        let servers = mcp.servers.into_iter().map(|(name, server)| {
            let at = at(self.0, server.span.line, format!("mcp.servers.{name}"));
            (name, Rule { value: server.value, at })
        });
        McpRules { default: mcp.default, servers: Some(servers.collect()) }
    }
}

fn sandbox(sandbox: file::Sandbox) -> SandboxRules {
    SandboxRules {
        require: sandbox.require,
        workspace: sandbox.workspace,
        copy_max: sandbox.copy_max.map(|bytes| bytes.0),
        read_system: (!sandbox.read_system.is_empty()).then_some(sandbox.read_system),
    }
}

fn limits(limits: file::LimitsFile) -> Limits {
    Limits {
        turns: limits.turns,
        tool_calls: limits.tool_calls,
        shell_calls: limits.shell_calls,
        denials: limits.denials,
        same_denial: limits.same_denial,
        wall_time_ms: limits.wall_time.map(|time| time.0.as_millis() as u64),
        total_tokens: limits.total_tokens,
        cost_usd: limits.cost_usd,
    }
}
