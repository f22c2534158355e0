//! Combines what the layers set beside rules: deliveries, limits, environment, network, isolation.

use std::time::Duration;

use super::file::{
    Changes, DefaultRule, Delivery, Env, GitHubWrite, OnDeny, Unanalysable, UntrustedInput, WorkspaceMode,
};
use super::glob::Glob;
use super::grant::Network;
use super::layers::{Layer, Policy, Standing, lowest, lowest_of, narrowed};
use super::web;
use crate::event::Limits;
use crate::path::RelPath;

/// Limits of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BatchLimits {
    /// Maximum items of a list.
    pub items: Option<u64>,
    /// Maximum items at a time.
    pub jobs: Option<u32>,
    /// Maximum cost of all items in US dollars.
    pub total_cost_usd: Option<f64>,
    /// Maximum duration of one call.
    pub total_wall_time: Option<Duration>,
}

impl Policy {
    /// Returns the lowest of each limit.
    pub fn limits(&self) -> Limits {
        self.layers.iter().fold(Limits::default(), |lowest, layer| lowest_of(&lowest, &layer.rules.limits))
    }

    /// Returns what happens with the changes without a flag, and what flags may ask for.
    pub fn changes(&self) -> Changes {
        let dry = Changes { default: Delivery::DryRun, allow: vec![Delivery::DryRun] };
        let changes = |layer: &Layer| layer.rules.delivery.changes.clone();
        let mut common = self.layers.first().and_then(changes).unwrap_or(dry);
        for changes in self.layers.iter().skip(1).filter_map(changes) {
            common.allow.retain(|mode| changes.allow.contains(mode));
            common.default = common.default.min(changes.default);
        }
        if !common.allow.contains(&common.default) {
            common.default = Delivery::DryRun;
        }
        common
    }

    /// Names the files that do not give a delivery.
    pub fn refusing(&self, wanted: Delivery) -> Vec<&str> {
        let gives = |(index, layer): &(usize, &Layer)| match &layer.rules.delivery.changes {
            Some(changes) => changes.allow.contains(&wanted),
            None => *index > 0 || wanted == Delivery::DryRun,
        };
        let refusing = self.layers.iter().enumerate().filter(|layer| !gives(layer));
        refusing.map(|(_, layer)| layer.origin.source.as_str()).collect()
    }

    /// Returns the strictest answer to denials that a layer or the flag gives; `default` where neither the granting
    /// layer nor the flag says anything.
    pub fn on_deny(&self, flag: Option<OnDeny>, default: OnDeny) -> OnDeny {
        let says = |layer: &Layer| layer.rules.delivery.on_deny;
        let granted = self.layers.first().and_then(says).max(flag).unwrap_or(default);
        self.layers.iter().skip(1).filter_map(says).fold(granted, OnDeny::max)
    }

    /// Returns the lowest of each limit of a batch.
    pub fn batch(&self) -> BatchLimits {
        let rules = || self.layers.iter().map(|layer| &layer.rules.delivery.batch);
        BatchLimits {
            items: lowest(rules().map(|batch| batch.items)),
            jobs: lowest(rules().map(|batch| batch.jobs)),
            total_cost_usd: lowest(rules().map(|batch| batch.total_cost_usd)),
            total_wall_time: lowest(rules().map(|batch| batch.total_wall_time)),
        }
    }

    /// Tells whether a batch may clone this repository, `host/owner/name`: the policy that grants must name it, and the
    /// others must not leave it out.
    pub fn may_clone(&self, repository: &str) -> bool {
        self.layers.iter().all(|layer| match &layer.rules.delivery.batch.repositories {
            Some(globs) => globs.iter().any(|glob| glob.is_match(repository)),
            None => !layer.grants,
        })
    }

    /// Tells whether every layer lets this be written to GitHub; a push to somebody's branch only where the granting
    /// layer names it.
    pub fn may_write_to_github(&self, what: GitHubWrite) -> bool {
        let is_usual = what != GitHubWrite::PushHead;
        let list = |layer: &Layer| layer.rules.delivery.github.allow.clone();
        let names = |layer: &Layer| list(layer).is_some_and(|all| all.contains(&what));
        let allows = |layer: &Layer| list(layer).is_none_or(|all| all.contains(&what));
        self.layers.iter().all(allows) && (is_usual || self.layers.first().is_some_and(names))
    }

    /// Tells whether every layer lets this label be set.
    pub fn may_set_label(&self, label: &str) -> bool {
        let allows = |layer: &Layer| {
            let labels = layer.rules.delivery.github.labels.as_ref();
            labels.is_none_or(|labels| labels.iter().any(|glob| glob.is_match(label)))
        };
        self.layers.iter().all(allows)
    }

    /// Returns the maximum comments at lines in one review.
    pub fn max_inline(&self) -> usize {
        narrowed(&self.layers, 30, |layer| layer.rules.delivery.github.max_inline)
    }

    /// Returns what becomes of commands that cannot be analysed.
    pub fn unanalysable(&self) -> Unanalysable {
        let says = |layer: &Layer| match (layer.rules.shell.unanalysable, layer.origin.standing) {
            (Some(Unanalysable::Sandboxed), Standing::Operator) => Unanalysable::Sandboxed,
            (None, _) if !layer.grants => Unanalysable::Sandboxed,
            _ => Unanalysable::Deny,
        };
        let all = self.layers.iter().all(|layer| says(layer) == Unanalysable::Sandboxed);
        if all { Unanalysable::Sandboxed } else { Unanalysable::Deny }
    }

    /// Returns the maximum time of a command: ten minutes where no layer sets one.
    pub fn shell_timeout(&self) -> Duration {
        narrowed(&self.layers, Duration::from_secs(600), |layer| layer.rules.shell.timeout)
    }

    /// Returns the environment that the granting layer gives to commands.
    pub fn env(&self) -> Env {
        self.layers.first().and_then(|layer| layer.rules.shell.env.clone()).unwrap_or_default()
    }

    /// Tells whether commands get this variable: every layer that grants or says something of variables names it.
    pub fn passes_variable(&self, name: &str) -> bool {
        let named = |layer: &Layer| {
            layer.rules.shell.env.as_ref().is_some_and(|env| env.pass.iter().any(|passed| passed.0 == name))
        };
        self.layers.iter().filter(|layer| layer.rules.shell.env.is_some() || layer.grants).all(named)
    }

    /// Returns what commands may reach at most: the hosts that every layer names.
    pub fn network_shell(&self) -> Network {
        let first = self.layers.first().and_then(|layer| layer.rules.network.shell.clone());
        let others = self.layers.iter().skip(1).filter_map(|layer| layer.rules.network.shell.clone());
        let first = first.map_or(Network::None, Network::from);
        others.fold(first, |network, hosts| network.within(&hosts.into()))
    }

    /// Returns what an MCP server may reach: what the granting layer gives it, else `default`, and of that only what
    /// every other layer that says something names, too.
    pub fn mcp_network(&self, server: &str, default: Network) -> Network {
        let says = |layer: &Layer| -> Option<Network> {
            Some(layer.rules.mcp.servers.as_ref()?.get(server)?.value.network.clone()?.into())
        };
        let granted = self.layers.first().and_then(says).unwrap_or(default);
        self.layers.iter().skip(1).filter_map(says).fold(granted, |network, hosts| network.within(&hosts))
    }

    /// Returns the directories that an MCP server may write.
    pub fn mcp_write(&self, server: &str) -> Vec<String> {
        let rules = self.layers.first().and_then(|layer| layer.rules.mcp.servers.as_ref()?.get(server));
        rules.map(|rules| rules.value.write.clone()).unwrap_or_default()
    }

    /// Returns the file with the pins of an MCP server: an operator's file of pins comes before any other.
    pub fn mcp_pins(&self, server: &str) -> Option<String> {
        let of = |standing| {
            let mut layers = self.layers.iter().filter(move |layer| layer.origin.standing == standing);
            layers.find_map(|layer| layer.rules.mcp.servers.as_ref()?.get(server)?.value.pins.clone())
        };
        of(Standing::Operator).or_else(|| of(Standing::Repository))
    }

    /// Tells whether the run must end where there is no isolation.
    pub fn sandbox_required(&self) -> bool {
        self.layers.iter().any(|layer| layer.rules.sandbox.require == Some(true))
    }

    /// Returns what becomes of what commands leave in ignored files: it is delivered only if an operator's granting
    /// layer says so.
    pub fn workspace_mode(&self) -> WorkspaceMode {
        let first = self.layers.first().and_then(|layer| layer.rules.sandbox.workspace);
        let staged = self.layers.iter().any(|layer| layer.rules.sandbox.workspace == Some(WorkspaceMode::Staged));
        if first == Some(WorkspaceMode::InPlace) && !staged { WorkspaceMode::InPlace } else { WorkspaceMode::Staged }
    }

    /// Returns the maximum bytes of ignored directories that are copied for commands.
    pub fn copy_max(&self) -> u64 {
        narrowed(&self.layers, 1 << 30, |layer| layer.rules.sandbox.copy_max)
    }

    /// Returns further directories of the system that commands may read.
    pub fn read_system(&self) -> Vec<String> {
        self.layers.first().and_then(|layer| layer.rules.sandbox.read_system.clone()).unwrap_or_default()
    }

    /// Tells whether secrets are masked for the model: unless the granting layer says `false` and no other says `true`.
    pub fn redacts(&self) -> bool {
        self.layers.first().is_none_or(|layer| layer.rules.secrets.redact != Some(false))
            || self.layers.iter().skip(1).any(|layer| layer.rules.secrets.redact == Some(true))
    }

    /// Returns further shapes of secrets, as regular expressions.
    pub fn secret_patterns(&self) -> Vec<String> {
        self.layers.iter().flat_map(|layer| layer.rules.secrets.patterns.clone()).collect()
    }

    /// Tells whether what looks like a secret in a file of a change is none (`secrets.ignore`); `digest` is the SHA-256
    /// of its text, in hexadecimal.
    pub fn ignores_secret(&self, path: &str, digest: &str) -> bool {
        let Some(ignored) = self.layers.first().map(|layer| &layer.rules.secrets.ignore) else { return false };
        ignored.sha256.iter().any(|sum| sum.eq_ignore_ascii_case(digest))
            || ignored.paths.iter().filter_map(|glob| Glob::new(glob).ok()).any(|glob| glob.is_match(path))
    }

    /// Tells whether a change that adds a secret is refused.
    pub fn refuses_secrets(&self) -> bool {
        self.layers.first().is_none_or(|layer| layer.rules.secrets.on_write != Some(DefaultRule::Allow))
            || self.layers.iter().skip(1).any(|layer| layer.rules.secrets.on_write == Some(DefaultRule::Deny))
    }

    /// Returns what a run may do whose prompt holds untrusted text.
    pub fn untrusted_input(&self) -> UntrustedInput {
        let says = |layer: &Layer| layer.rules.delivery.untrusted_input;
        match self.layers.first().and_then(says) {
            Some(first) => self.layers.iter().filter_map(says).fold(first, UntrustedInput::min),
            None => UntrustedInput::AnswerOnly,
        }
    }

    /// Returns the fetch limits: redirects and bytes of a query.
    pub fn web_limits(&self) -> (u32, usize) {
        (web::max_redirects(&self.layers), web::query_max(&self.layers))
    }

    /// Returns the maximum files and bytes that a run may change.
    pub fn change_limits(&self) -> (u64, u64) {
        let files = narrowed(&self.layers, 200, |layer| layer.rules.paths.write.max_files);
        let bytes = narrowed(&self.layers, 10 << 20, |layer| layer.rules.paths.write.max_bytes);
        (files, bytes)
    }

    /// Returns the pinned programs of the workspace with their digests, which are checked at each start.
    pub fn pinned_programs(&self) -> Vec<(RelPath, String)> {
        let rules = self.layers.iter().flat_map(|layer| layer.rules.shell.allow.iter().flatten());
        let pins = rules.filter_map(|rule| {
            let sum = rule.value.sha256.clone()?;
            Some(rule.value.cmd[0].0.iter().filter_map(move |path| Some((RelPath::new(path)?, sum.clone()))))
        });
        pins.flatten().collect()
    }
}
