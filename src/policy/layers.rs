//! Combines the layers of a policy: the first one grants, later ones narrow.
//!
//! Performs no I/O: callers pass in the files' texts, and whether each is trusted.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::builtin;
use super::decision::RuleRef;
use super::file::{
    Changes, CommandRule, DefaultRule, Delivery, Env, Extends, HostRule, Hosts, LentTree, OnDeny, PolicyFile, Server,
    Span, TestCase, Unanalysable, UntrustedInput,
};
use super::glob::Glob;
use crate::base::{self, Diagnostic, Spanned};
use crate::event::Limits;

/// A policy text with its standing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerText {
    /// The name that messages carry: the file as the user knows it, or `builtin:NAME`.
    pub name: String,
    /// The file's text.
    pub text: String,
    /// Whose word it is.
    pub standing: Standing,
}

/// Whose word a policy text is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// An operator's: the first layer, or `/etc/qwen/policy.yaml`.
    Operator,
    /// Anybody's: a repository's file that only narrows.
    #[default]
    Repository,
}

impl LayerText {
    /// Returns a built-in policy as a layer; `None` if no policy has this name.
    pub fn builtin(name: &str) -> Option<LayerText> {
        let text = builtin::text(name)?.to_owned();
        Some(LayerText { name: format!("builtin:{name}"), text, standing: Standing::Operator })
    }
}

/// Why the layers do not make a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// A file was not understood.
    #[error(transparent)]
    Yaml(#[from] Diagnostic),
    /// `extends` names something that is not there.
    #[error("{file}: `extends`: {what}")]
    Extends {
        /// The file that extends.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// Inline tests decided otherwise.
    #[error("{}", .0.join("\n"))]
    Tests(Vec<String>),
}

/// A value with the place that it is at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) rule: RuleRef,
}

pub(crate) type Rules<T> = Vec<Located<T>>;

/// One layer with what it builds on merged in. `None`: it says nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) sha256: String,
    pub(crate) standing: Standing,
    /// The first layer: what it does not allow is denied.
    pub(crate) grants: bool,
    pub(crate) changes: Option<Changes>,
    pub(crate) on_deny: Option<OnDeny>,
    pub(crate) tools: NameRules,
    pub(crate) discovered: NameRules,
    pub(crate) read_allow: Option<Rules<Glob>>,
    pub(crate) read_deny: Rules<Glob>,
    pub(crate) write_allow: Option<Rules<Glob>>,
    pub(crate) write_deny: Rules<Glob>,
    pub(crate) create: Option<bool>,
    pub(crate) delete: Option<bool>,
    pub(crate) exec_bit: Option<bool>,
    pub(crate) symlinks: Option<bool>,
    pub(crate) max_files: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) protected_add: Rules<Glob>,
    pub(crate) protected_remove: Vec<Glob>,
    pub(crate) shell: ShellRules,
    pub(crate) network_default: Option<DefaultRule>,
    pub(crate) network_allow: Option<Rules<HostRule>>,
    pub(crate) network_deny: Rules<HostRule>,
    pub(crate) max_redirects: Option<u32>,
    pub(crate) query_max: Option<usize>,
    pub(crate) network_shell: Option<Hosts>,
    pub(crate) mcp_default: Option<DefaultRule>,
    pub(crate) mcp: Option<BTreeMap<String, Located<Server>>>,
    pub(crate) sandbox_require: Option<bool>,
    pub(crate) lent_tree: Option<LentTree>,
    pub(crate) copy_max: Option<u64>,
    pub(crate) read_system: Vec<String>,
    pub(crate) redact: Option<bool>,
    pub(crate) secret_patterns: Vec<String>,
    pub(crate) secrets_on_write: Option<DefaultRule>,
    pub(crate) untrusted_input: Option<UntrustedInput>,
    pub(crate) limits: Limits,
    pub(crate) tests: Rules<TestCase>,
}

/// Allowed and denied names of a layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameRules {
    pub(crate) allow: Option<Rules<String>>,
    pub(crate) deny: Rules<String>,
}

/// Rules on commands of a layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShellRules {
    /// Whether the layer speaks of commands at all.
    pub(crate) present: bool,
    pub(crate) default: Option<DefaultRule>,
    pub(crate) unanalysable: Option<Unanalysable>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) env: Option<Env>,
    pub(crate) allow: Option<Rules<CommandRule>>,
    pub(crate) deny: Rules<CommandRule>,
    /// Rules that were here before they were cut to what the workspace uses: they allow nothing, and who needs one of
    /// them where there is nothing for it to do is not refused.
    pub(crate) before_cut: Rules<CommandRule>,
}

/// Reads the text of a file that another one extends, by the path as written; the error says why it cannot be read. The
/// digest is checked here.
pub type Parents<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Reads no file: for texts that are at hand whole.
///
/// # Errors
///
/// Always.
pub fn no_parents(_: &str) -> Result<String, String> {
    Err("files cannot be extended here".to_owned())
}

/// Reads a text into its layers: one, or under [`Standing::Repository`] one for each file of the `extends` chain, since
/// parent and child are both asked there.
pub(crate) fn read(text: &LayerText, parents: Parents<'_>) -> Result<Vec<Layer>, LayerError> {
    read_below(text, parents, 0)
}

fn read_below(text: &LayerText, parents: Parents<'_>, depth: usize) -> Result<Vec<Layer>, LayerError> {
    let failed = |what: String| LayerError::Extends { file: text.name.clone(), what };
    if depth > 8 {
        return Err(failed("more than eight levels of `extends`".to_owned()));
    }
    let file = PolicyFile::parse(&text.name, &text.text)?;
    let extends = file.extends.clone();
    let layer = Layer::new(text, file)?;
    let parent = match extends {
        None => return Ok(vec![layer]),
        Some(Extends::Builtin(name)) => {
            let known = builtin::BUILTINS.map(|(name, _)| name);
            let mut parent = LayerText::builtin(&name)
                .ok_or_else(|| failed(format!("unknown policy builtin:{name}; known are {}", known.join(", "))))?;
            parent.standing = text.standing;
            parent
        }
        Some(Extends::File { file, sha256 }) => {
            let content = parents(&file).map_err(|why| failed(format!("{file} cannot be read: {why}")))?;
            let found = digest(content.as_bytes());
            if !found.eq_ignore_ascii_case(&sha256) {
                return Err(failed(format!("{file} has the digest {found}, not {sha256}")));
            }
            LayerText { name: file, text: content, standing: text.standing }
        }
    };
    let mut above = read_below(&parent, parents, depth + 1)?;
    match text.standing {
        Standing::Operator => {
            let parent = above.pop().expect("an operator's text is one layer");
            Ok(vec![layer.over(parent)])
        }
        Standing::Repository => {
            above.push(layer);
            Ok(above)
        }
    }
}

/// Returns the SHA-256 of some bytes in hex.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Layer {
    fn new(text: &LayerText, file: PolicyFile) -> Result<Layer, Diagnostic> {
        let source = text.name.as_str();
        let names = |names: Option<super::file::Names>, key: &str| {
            let names = names.unwrap_or_default();
            NameRules {
                allow: names.allow.map(|list| located(list, source, &format!("{key}.allow"))),
                deny: located(names.deny, source, &format!("{key}.deny")),
            }
        };
        let globs = |list: Vec<Spanned<String>>, key: &str| -> Result<Rules<Glob>, Diagnostic> {
            let compile = |located: Located<String>, span: base::Span| match Glob::new(&located.value) {
                Ok(value) => Ok(Located { value, rule: located.rule }),
                Err(message) => Err(Diagnostic::at(source, span, message)),
            };
            let spans: Vec<base::Span> = list.iter().map(|text| text.span).collect();
            located(list, source, key).into_iter().zip(spans).map(|(glob, span)| compile(glob, span)).collect()
        };
        let optional = |list: Option<Vec<Spanned<String>>>, key: &str| list.map(|list| globs(list, key)).transpose();
        let paths = file.paths.unwrap_or_default();
        let read = paths.read.unwrap_or_default();
        let write = paths.write.unwrap_or_default();
        let protected = paths.protected.unwrap_or_default();
        let network = file.network.unwrap_or_default();
        let sandbox = file.sandbox.unwrap_or_default();
        let secrets = file.secrets.unwrap_or_default();
        let limits = file.limits.unwrap_or_default();
        let (mcp_default, mcp) = match file.mcp {
            None => (None, None),
            Some(mcp) => {
                let servers = mcp.servers.into_iter().map(|(name, server)| {
                    let rule = place(source, server.span.line, format!("mcp.servers.{name}"));
                    (name, Located { value: server.value, rule })
                });
                (mcp.default, Some(servers.collect()))
            }
        };
        let present = file.shell.is_some();
        let shell = file.shell.unwrap_or_default();
        Ok(Layer {
            name: file.name.unwrap_or_else(|| source.to_owned()),
            source: source.to_owned(),
            sha256: digest(text.text.as_bytes()),
            standing: text.standing,
            grants: false,
            changes: file.changes,
            on_deny: file.on_deny,
            tools: names(file.tools, "tools"),
            discovered: names(file.discovered_tools, "discovered_tools"),
            read_allow: optional(read.allow, "paths.read.allow")?,
            read_deny: globs(read.deny, "paths.read.deny")?,
            write_allow: optional(write.allow, "paths.write.allow")?,
            write_deny: globs(write.deny, "paths.write.deny")?,
            create: write.create,
            delete: write.delete,
            exec_bit: write.exec_bit,
            symlinks: write.symlinks,
            max_files: write.max_files,
            max_bytes: write.max_bytes.map(|bytes| bytes.0),
            protected_add: globs(protected.add, "paths.protected.add")?,
            protected_remove: match text.standing {
                Standing::Operator => {
                    globs(protected.remove, "paths.protected.remove")?.into_iter().map(|glob| glob.value).collect()
                }
                Standing::Repository => Vec::new(),
            },
            shell: ShellRules {
                present,
                default: shell.default,
                unanalysable: shell.unanalysable,
                timeout: shell.timeout.map(|Span(time)| time),
                env: shell.env,
                allow: shell.allow.map(|list| located(list, source, "shell.allow")),
                deny: located(shell.deny, source, "shell.deny"),
                before_cut: Vec::new(),
            },
            network_default: network.default,
            network_allow: network.allow.map(|list| located(list, source, "network.allow")),
            network_deny: located(network.deny, source, "network.deny"),
            max_redirects: network.max_redirects,
            query_max: network.query_max,
            network_shell: network.shell,
            mcp_default,
            mcp,
            sandbox_require: sandbox.require,
            lent_tree: sandbox.workspace,
            copy_max: sandbox.copy_max.map(|bytes| bytes.0),
            read_system: sandbox.read_system,
            redact: secrets.redact,
            secret_patterns: secrets.patterns,
            secrets_on_write: secrets.on_write,
            untrusted_input: file.untrusted_input,
            limits: Limits {
                turns: limits.turns,
                tool_calls: limits.tool_calls,
                shell_calls: limits.shell_calls,
                denials: limits.denials,
                same_denial: limits.same_denial,
                wall_time_ms: limits.wall_time.map(|Span(time)| time.as_millis() as u64),
                total_tokens: limits.total_tokens,
                cost_usd: limits.cost_usd,
            },
            tests: located(file.tests, source, "tests"),
        })
    }

    // The child's allow lists and scalars replace the parent's; denies, protected paths, patterns and tests add up.
    fn over(self, parent: Layer) -> Layer {
        let both = |parent: Limits, child: Limits| Limits {
            turns: child.turns.or(parent.turns),
            tool_calls: child.tool_calls.or(parent.tool_calls),
            shell_calls: child.shell_calls.or(parent.shell_calls),
            denials: child.denials.or(parent.denials),
            same_denial: child.same_denial.or(parent.same_denial),
            wall_time_ms: child.wall_time_ms.or(parent.wall_time_ms),
            total_tokens: child.total_tokens.or(parent.total_tokens),
            cost_usd: child.cost_usd.or(parent.cost_usd),
        };
        let names = |parent: NameRules, child: NameRules| NameRules {
            allow: child.allow.or(parent.allow),
            deny: [parent.deny, child.deny].concat(),
        };
        let mcp = match (parent.mcp, self.mcp) {
            (None, child) => child,
            (parent, None) => parent,
            (Some(mut servers), Some(child)) => {
                for (name, mut server) in child {
                    if let Some(parent) = servers.remove(&name) {
                        server.value.allow = server.value.allow.or(parent.value.allow);
                        server.value.deny.extend(parent.value.deny);
                        server.value.network = server.value.network.or(parent.value.network);
                        server.value.pins = server.value.pins.or(parent.value.pins);
                        server.value.on_change = server.value.on_change.or(parent.value.on_change);
                    }
                    servers.insert(name, server);
                }
                Some(servers)
            }
        };
        Layer {
            name: self.name,
            source: self.source,
            sha256: digest(format!("{}{}", parent.sha256, self.sha256).as_bytes()),
            standing: self.standing,
            grants: self.grants,
            changes: self.changes.or(parent.changes),
            on_deny: self.on_deny.or(parent.on_deny),
            tools: names(parent.tools, self.tools),
            discovered: names(parent.discovered, self.discovered),
            read_allow: self.read_allow.or(parent.read_allow),
            read_deny: [parent.read_deny, self.read_deny].concat(),
            write_allow: self.write_allow.or(parent.write_allow),
            write_deny: [parent.write_deny, self.write_deny].concat(),
            create: self.create.or(parent.create),
            delete: self.delete.or(parent.delete),
            exec_bit: self.exec_bit.or(parent.exec_bit),
            symlinks: self.symlinks.or(parent.symlinks),
            max_files: self.max_files.or(parent.max_files),
            max_bytes: self.max_bytes.or(parent.max_bytes),
            protected_add: [parent.protected_add, self.protected_add].concat(),
            protected_remove: [parent.protected_remove, self.protected_remove].concat(),
            shell: ShellRules {
                present: parent.shell.present || self.shell.present,
                default: self.shell.default.or(parent.shell.default),
                unanalysable: self.shell.unanalysable.or(parent.shell.unanalysable),
                timeout: self.shell.timeout.or(parent.shell.timeout),
                env: self.shell.env.or(parent.shell.env),
                allow: self.shell.allow.or(parent.shell.allow),
                deny: [parent.shell.deny, self.shell.deny].concat(),
                before_cut: Vec::new(),
            },
            network_default: self.network_default.or(parent.network_default),
            network_allow: self.network_allow.or(parent.network_allow),
            network_deny: [parent.network_deny, self.network_deny].concat(),
            max_redirects: self.max_redirects.or(parent.max_redirects),
            query_max: self.query_max.or(parent.query_max),
            network_shell: self.network_shell.or(parent.network_shell),
            mcp_default: self.mcp_default.or(parent.mcp_default),
            mcp,
            sandbox_require: self.sandbox_require.or(parent.sandbox_require),
            lent_tree: self.lent_tree.or(parent.lent_tree),
            copy_max: self.copy_max.or(parent.copy_max),
            read_system: if self.read_system.is_empty() { parent.read_system } else { self.read_system },
            redact: self.redact.or(parent.redact),
            secret_patterns: [parent.secret_patterns, self.secret_patterns].concat(),
            secrets_on_write: self.secrets_on_write.or(parent.secrets_on_write),
            untrusted_input: self.untrusted_input.or(parent.untrusted_input),
            limits: both(parent.limits, self.limits),
            tests: [parent.tests, self.tests].concat(),
        }
    }
}

fn place(source: &str, line: u32, rule: String) -> RuleRef {
    let source = if source.starts_with("builtin:") { source.to_owned() } else { format!("{source}:{line}") };
    RuleRef { rule, source }
}

fn located<T>(list: Vec<Spanned<T>>, source: &str, key: &str) -> Rules<T> {
    let one = |(index, item): (usize, Spanned<T>)| Located {
        rule: place(source, item.span.line, format!("{key}[{index}]")),
        value: item.value,
    };
    list.into_iter().enumerate().map(one).collect()
}

/// Returns what every layer allows of the delivery: the first one's default where all give it, and the common modes.
pub(crate) fn changes(layers: &[Layer]) -> Changes {
    let dry = Changes { default: Delivery::DryRun, allow: vec![Delivery::DryRun] };
    let mut common = layers.first().and_then(|layer| layer.changes.clone()).unwrap_or(dry);
    for changes in layers.iter().skip(1).filter_map(|layer| layer.changes.as_ref()) {
        common.allow.retain(|mode| changes.allow.contains(mode));
        common.default = common.default.min(changes.default);
    }
    if !common.allow.contains(&common.default) {
        common.default = Delivery::DryRun;
    }
    common
}

/// Names the layers that do not give a delivery: the granting one where it does not, else those that narrow it away.
pub(crate) fn refusing(layers: &[Layer], wanted: Delivery) -> Vec<&str> {
    let gives = |(index, layer): &(usize, &Layer)| match &layer.changes {
        Some(changes) => changes.allow.contains(&wanted),
        None => *index > 0 || wanted == Delivery::DryRun,
    };
    layers.iter().enumerate().filter(|layer| !gives(layer)).map(|(_, layer)| layer.source.as_str()).collect()
}

/// Returns the lowest of each limit.
pub(crate) fn limits(layers: &[Layer]) -> Limits {
    layers.iter().fold(Limits::default(), |lowest, layer| lowest_of(&lowest, &layer.limits))
}

/// Returns the lower of two limits, one by one.
pub fn lowest_of(a: &Limits, b: &Limits) -> Limits {
    fn low<T: PartialOrd + Copy>(a: Option<T>, b: Option<T>) -> Option<T> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b < a { b } else { a }),
            (one, other) => one.or(other),
        }
    }
    Limits {
        turns: low(a.turns, b.turns),
        tool_calls: low(a.tool_calls, b.tool_calls),
        shell_calls: low(a.shell_calls, b.shell_calls),
        denials: low(a.denials, b.denials),
        same_denial: low(a.same_denial, b.same_denial),
        wall_time_ms: low(a.wall_time_ms, b.wall_time_ms),
        total_tokens: low(a.total_tokens, b.total_tokens),
        cost_usd: low(a.cost_usd, b.cost_usd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn text(name: &str, text: &str, standing: Standing) -> LayerText {
        LayerText { name: name.to_owned(), text: format!("version: 1\n{text}"), standing }
    }

    fn operator(yaml: &str) -> LayerText {
        text("p.yaml", yaml, Standing::Operator)
    }

    fn policy(first: &str, narrowing: &[&str]) -> Policy {
        let narrowing: Vec<_> = narrowing.iter().map(|yaml| text("repo.yaml", yaml, Standing::Repository)).collect();
        Policy::new(&operator(first), &narrowing, &no_parents).unwrap()
    }

    #[test]
    fn a_narrowing_layer_takes_away_and_never_gives() {
        let both =
            policy("tools: {allow: [read_file, edit]}", &["tools: {allow: [read_file, web_fetch]}", "name: silent"]);
        assert!(!both.denies_tool("read_file"));
        assert!(both.denies_tool("edit") && both.denies_tool("web_fetch"));
    }

    #[test]
    fn limits_are_the_lowest_and_answers_to_denials_the_strictest() {
        let both = policy(
            "on_deny: continue\nlimits: {turns: 5, tool_calls: 9}\nchanges: commit",
            &["on_deny: stop\nlimits: {turns: 9, denials: 2}\nchanges: apply"],
        );
        let limits = both.limits();
        assert_eq!((limits.turns, limits.tool_calls, limits.denials), (Some(5), Some(9), Some(2)));
        assert_eq!(both.on_deny(), Some(OnDeny::Stop));
        assert_eq!(both.changes().allow, [Delivery::DryRun, Delivery::Apply]);
    }

    #[test]
    fn an_operators_child_replaces_allows_and_adds_denies() {
        let parent = "version: 1\ntools: {allow: [edit], deny: [glob]}\n";
        let sum = digest(parent.as_bytes());
        let child = operator(&format!(
            "extends: {{file: base.yaml, sha256: {sum}}}\ntools: {{allow: [glob, read_file], deny: [task]}}"
        ));
        let find = |name: &str| (name == "base.yaml").then(|| parent.to_owned()).ok_or_else(String::new);
        let layers = read(&child, &find).unwrap();
        assert_eq!(layers.len(), 1);
        let allow: Vec<_> = layers[0].tools.allow.iter().flatten().map(|rule| rule.value.as_str()).collect();
        let deny: Vec<_> = layers[0].tools.deny.iter().map(|rule| rule.rule.source.as_str()).collect();
        assert_eq!((allow, deny), (vec!["glob", "read_file"], vec!["base.yaml:2", "p.yaml:3"]));
        let changed = |_: &str| Ok(format!("{parent}#"));
        assert!(read(&child, &changed).unwrap_err().to_string().contains("digest"));
    }

    #[test]
    fn a_repositorys_parent_and_child_are_both_asked() {
        let child = text("repo.yaml", "extends: builtin:read-only\ntools: {allow: [edit]}", Standing::Repository);
        assert_eq!(read(&child, &no_parents).unwrap().len(), 2);
    }

    #[test]
    fn only_an_operators_file_lifts_protection_and_runs_the_unanalysable() {
        let yaml = "paths: {protected: {remove: [QWEN.md]}}\nshell: {unanalysable: sandboxed}";
        let of = |standing| read(&text("x", yaml, standing), &no_parents).unwrap().remove(0);
        assert_eq!(of(Standing::Operator).protected_remove.len(), 1);
        assert_eq!(of(Standing::Repository).protected_remove.len(), 0);
        assert_eq!(policy("shell: {unanalysable: sandboxed}", &[yaml]).unanalysable(), Unanalysable::Deny);
    }
}
