//! Evaluates accesses and facts to a decision and, if allowed, a grant. This is the only evaluation.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::access::Access;
use super::decision::{Decision, Denial, RuleRef, Verdict};
use super::file::{Changes, DefaultRule, Delivery, Env, Hosts, LentTree, OnDeny, Unanalysable, UntrustedInput};
use super::grant::{CommandPlan, GitAccess, Grant, Isolation, Network, SandboxProfile, Start, TreeAccess};
use super::history::{GitFacts, Unreadable};
use super::layers::{self, Layer, LayerError, LayerText, NameRules, Parents};
use super::paths::{Folders, PathRules, Place};
use super::{mcp, web};
use crate::change::Kind;
use crate::event::{Limits, PolicyFacts};
use crate::path::{Node, RelPath, Tree};
use crate::tool_name;

/// What decisions rest on besides the rules.
#[derive(Clone)]
pub struct Facts {
    /// The workspace: absolute, canonical.
    pub root: PathBuf,
    /// Included directories: absolute, canonical.
    pub included: Vec<PathBuf>,
    /// The run's directory of full outputs, for reading.
    pub outputs: Option<PathBuf>,
    /// The value of `$HOME`.
    pub home: String,
    /// The files.
    pub tree: Arc<dyn Tree>,
    /// The repository around the workspace.
    pub git: GitFacts,
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts").field("root", &self.root).field("included", &self.included).finish_non_exhaustive()
    }
}

/// The rules in effect: a layer that grants, and layers that narrow.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(in crate::policy) layers: Arc<Vec<Layer>>,
}

/// A change as the gate before delivery sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeFacts {
    /// What became of the path.
    pub kind: Kind,
    /// The file is executable now and was not before.
    pub becomes_executable: bool,
    /// A link is made, changed or removed.
    pub is_link: bool,
}

impl Policy {
    /// Combines layers: the first grants, the others narrow. `parents` finds the files that `extends` names.
    pub fn new(first: &LayerText, narrowing: &[LayerText], parents: Parents<'_>) -> Result<Policy, LayerError> {
        let mut all = layers::read(first, parents)?;
        if let Some(grants) = all.first_mut() {
            grants.grants = true;
        }
        for text in narrowing {
            all.extend(layers::read(text, parents)?);
        }
        Ok(Policy { layers: Arc::new(all) })
    }

    /// Returns a built-in policy; `None` if no policy has this name.
    pub fn builtin(name: &str) -> Option<Policy> {
        let text = LayerText::builtin(name)?;
        Some(Policy::new(&text, &[], &crate::policy::layers::no_parents).expect("a test reads every built-in policy"))
    }

    /// Adds further narrowing layers, such as a mode's built-in policy next to a file.
    pub fn narrowed(&self, narrowing: &[LayerText], parents: Parents<'_>) -> Result<Policy, LayerError> {
        let mut all = self.layers.as_ref().clone();
        for text in narrowing {
            all.extend(layers::read(text, parents)?);
        }
        Ok(Policy { layers: Arc::new(all) })
    }

    /// Decides a call: its tool, and everything it would touch. A grant comes with every allowed call.
    pub fn authorize(&self, tool: &str, accesses: &[Access], facts: &Facts) -> (Decision, Option<Grant>) {
        // A panic is a bug, and a check that fails is a denial.
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.judged(tool, accesses, facts)));
        judged.unwrap_or_else(|_| (Denial::new("the policy check of this call failed").into(), None))
    }

    fn judged(&self, tool: &str, accesses: &[Access], facts: &Facts) -> (Decision, Option<Grant>) {
        let mut judge = Judge::new(self, facts);
        match judge.tool(tool, accesses).and_then(|()| accesses.iter().try_for_each(|access| judge.access(access))) {
            Ok(()) => judge.allowed(),
            Err(denial) => (Decision { effects: judge.effects, ..Decision::from(denial) }, None),
        }
    }

    /// Returns name, digest and layers.
    pub fn facts(&self) -> PolicyFacts {
        let digests: String = self.layers.iter().map(|layer| layer.sha256.as_str()).collect();
        PolicyFacts {
            name: self.layers.first().map(|layer| layer.name.clone()).unwrap_or_default(),
            sha256: layers::digest(digests.as_bytes()),
            layers: self.layers.iter().map(|layer| layer.source.clone()).collect(),
        }
    }

    /// Returns the lowest of each limit.
    pub fn limits(&self) -> Limits {
        layers::limits(&self.layers)
    }

    /// Returns what happens with the changes without a flag, and what flags may ask for.
    pub fn changes(&self) -> Changes {
        layers::changes(&self.layers)
    }

    /// Names the files that do not give a delivery.
    pub fn refusing(&self, wanted: Delivery) -> Vec<&str> {
        layers::refusing(&self.layers, wanted)
    }

    /// Returns the strictest answer to denials that a layer gives; `None` where none says anything.
    pub fn on_deny(&self) -> Option<OnDeny> {
        self.layers.iter().filter_map(|layer| layer.on_deny).max()
    }

    /// Returns what becomes of commands that cannot be analysed.
    pub fn unanalysable(&self) -> Unanalysable {
        let says = |layer: &Layer| match (layer.shell.unanalysable, layer.standing) {
            (Some(Unanalysable::Sandboxed), layers::Standing::Operator) => Unanalysable::Sandboxed,
            (None, _) if !layer.grants => Unanalysable::Sandboxed,
            _ => Unanalysable::Deny,
        };
        let all = self.layers.iter().all(|layer| says(layer) == Unanalysable::Sandboxed);
        if all { Unanalysable::Sandboxed } else { Unanalysable::Deny }
    }

    /// Returns the maximum time of a command, if a layer sets one.
    pub fn shell_timeout(&self) -> Option<Duration> {
        self.layers.iter().filter_map(|layer| layer.shell.timeout).min()
    }

    /// Returns the environment that the granting layer gives to commands.
    pub fn env(&self) -> Env {
        self.layers.first().and_then(|layer| layer.shell.env.clone()).unwrap_or_default()
    }

    /// Tells whether commands get this variable: every layer that grants or says something of variables names it.
    pub fn passes_variable(&self, name: &str) -> bool {
        let named = |layer: &layers::Layer| {
            layer.shell.env.as_ref().is_some_and(|env| env.pass.iter().any(|passed| passed == name))
        };
        self.layers.iter().filter(|layer| layer.shell.env.is_some() || layer.grants).all(named)
    }

    /// Returns what commands may reach at most: the hosts that every layer names.
    pub fn network_shell(&self) -> Network {
        let first = self.layers.first().and_then(|layer| layer.network_shell.clone());
        let others = self.layers.iter().skip(1).filter_map(|layer| layer.network_shell.clone());
        let first = first.map_or(Network::None, Network::from);
        others.fold(first, |network, hosts| network.within(&hosts.into()))
    }

    /// Returns the hosts that an MCP server may reach; `None` if no layer names the server.
    pub fn mcp_network(&self, server: &str) -> Option<Hosts> {
        let rules = self.layers.iter().filter_map(|layer| layer.mcp.as_ref()?.get(server));
        rules.filter_map(|rules| rules.value.network.clone()).next()
    }

    /// Returns the directories that an MCP server may write.
    pub fn mcp_write(&self, server: &str) -> Vec<String> {
        let rules = self.layers.first().and_then(|layer| layer.mcp.as_ref()?.get(server));
        rules.map(|rules| rules.value.write.clone()).unwrap_or_default()
    }

    /// Returns the file with the pins of an MCP server, as the granting layer names it.
    pub fn mcp_pins(&self, server: &str) -> Option<String> {
        self.layers.iter().find_map(|layer| layer.mcp.as_ref()?.get(server)?.value.pins.clone())
    }

    /// Tells whether the run must end where there is no isolation.
    pub fn sandbox_required(&self) -> bool {
        self.layers.iter().any(|layer| layer.sandbox_require == Some(true))
    }

    /// Returns what becomes of what commands leave in ignored files: it is delivered only if an operator's granting
    /// layer says so.
    pub fn lent_tree(&self) -> LentTree {
        let first = self.layers.first().and_then(|layer| layer.lent_tree);
        let staged = self.layers.iter().any(|layer| layer.lent_tree == Some(LentTree::Staged));
        if first == Some(LentTree::InPlace) && !staged { LentTree::InPlace } else { LentTree::Staged }
    }

    /// Returns the maximum bytes of ignored directories that are copied for commands.
    pub fn copy_max(&self) -> u64 {
        self.layers.iter().filter_map(|layer| layer.copy_max).min().unwrap_or(1 << 30)
    }

    /// Returns further directories of the system that commands may read.
    pub fn read_system(&self) -> Vec<String> {
        self.layers.first().map(|layer| layer.read_system.clone()).unwrap_or_default()
    }

    /// Tells whether secrets are masked for the model: unless the granting layer says `false` and no other says `true`.
    pub fn redacts(&self) -> bool {
        self.layers.first().is_none_or(|layer| layer.redact != Some(false))
            || self.layers.iter().skip(1).any(|layer| layer.redact == Some(true))
    }

    /// Returns further shapes of secrets, as regular expressions.
    pub fn secret_patterns(&self) -> Vec<String> {
        self.layers.iter().flat_map(|layer| layer.secret_patterns.clone()).collect()
    }

    /// Tells whether a change that adds a secret is refused.
    pub fn refuses_secrets(&self) -> bool {
        self.layers.first().is_none_or(|layer| layer.secrets_on_write != Some(DefaultRule::Allow))
            || self.layers.iter().skip(1).any(|layer| layer.secrets_on_write == Some(DefaultRule::Deny))
    }

    /// Returns what a run may do whose prompt holds untrusted text.
    pub fn untrusted_input(&self) -> UntrustedInput {
        let first = self.layers.first().and_then(|layer| layer.untrusted_input);
        let narrows = |layer: &Layer| layer.untrusted_input == Some(UntrustedInput::AnswerOnly);
        if first == Some(UntrustedInput::Allow) && !self.layers.iter().any(narrows) {
            UntrustedInput::Allow
        } else {
            UntrustedInput::AnswerOnly
        }
    }

    /// Returns the fetch limits: redirects and bytes of a query.
    pub fn web_limits(&self) -> (u32, usize) {
        let redirects = self.layers.iter().filter_map(|layer| layer.max_redirects).min();
        let query = self.layers.iter().filter_map(|layer| layer.query_max).min();
        (redirects.unwrap_or(web::MAX_REDIRECTS), query.unwrap_or(web::QUERY_MAX))
    }

    /// Judges one hop of a fetch: a URL, or a `Location` relative to the URL that sent it.
    pub fn judge_url(&self, url: &str, base: Option<&url::Url>) -> Result<url::Url, Denial> {
        web::judge(&self.layers, url, base)
    }

    /// Tells whether the contents of a file may be shown, by its path alone (links and other names are not examined).
    pub fn may_read(&self, path: &RelPath, facts: &Facts) -> Result<(), Denial> {
        PathRules::new(&self.layers, facts).read(&RelPath::root(), path_or_dot(path)).map(|_| ())
    }

    /// Refuses a change of a file that is there and may not be read: it would show what the file holds.
    pub fn may_change(&self, path: &RelPath, facts: &Facts) -> Result<(), Denial> {
        PathRules::new(&self.layers, facts).shows_nothing(path, &path.to_string())
    }

    /// As [`Policy::may_read`], for many paths of a tree that nothing changes meanwhile; looks at directories once.
    pub fn reader<'a>(&'a self, facts: &'a Facts) -> impl Fn(&RelPath) -> bool + 'a {
        let folders = Folders::default();
        move |path| self.reads(&path.under(&facts.root), facts, &folders)
    }

    /// Returns what the index and the commits hold that may not be read; the error says why that is not known.
    pub fn unreadable_of_history(&self, facts: &Facts) -> Result<Arc<Unreadable>, String> {
        let paths = PathRules::new(&self.layers, facts);
        facts.git.history.unreadable(&self.layers, |path| paths.read_named(path, "").is_err())
    }

    fn reads(&self, path: &Path, facts: &Facts, folders: &Folders) -> bool {
        PathRules::new(&self.layers, facts).remembering(folders).read(&RelPath::root(), path).is_ok()
    }

    /// Judges a change before delivery: the path against the write rules, its kind, mode and links.
    pub fn judge_change(&self, path: &RelPath, change: ChangeFacts, facts: &Facts) -> Result<(), Denial> {
        let rules = PathRules::new(&self.layers, facts);
        let shown = path.to_string();
        rules.write_allowed(path, &shown)?;
        let refuse = |what: &str, key: &str, layer: &Layer| {
            Err(Denial::new(format!("`{shown}`: {what} (`paths.write.{key}` in {})", layer.source)).by("gate"))
        };
        for layer in self.layers.iter() {
            let unless_allowed = |key: Option<bool>| key == Some(false) || (key.is_none() && layer.grants);
            match change.kind {
                Kind::Added if layer.create == Some(false) => {
                    return refuse("new files are not allowed", "create", layer);
                }
                Kind::Deleted if layer.delete == Some(false) => {
                    return refuse("deleting is not allowed", "delete", layer);
                }
                Kind::Added | Kind::Modified | Kind::Deleted => {}
            }
            if change.becomes_executable && unless_allowed(layer.exec_bit) {
                return refuse("it becomes executable", "exec_bit", layer);
            }
            if change.is_link && unless_allowed(layer.symlinks) {
                return refuse("it is a symbolic link", "symlinks", layer);
            }
        }
        Ok(())
    }

    /// Judges where a link that is delivered leads, by the files as they will be: inside the workspace, and to nothing
    /// that may not be read or is protected.
    pub fn judge_link(&self, path: &RelPath, target: &[u8], facts: &Facts) -> Result<(), Denial> {
        PathRules::new(&self.layers, facts).link(path, target).map_err(|denial| denial.by("gate"))
    }

    /// Returns the maximum files and bytes that a run may change.
    pub fn change_limits(&self) -> (u64, u64) {
        let files = self.layers.iter().filter_map(|layer| layer.max_files).min();
        let bytes = self.layers.iter().filter_map(|layer| layer.max_bytes).min();
        (files.unwrap_or(200), bytes.unwrap_or(10 << 20))
    }

    /// Returns the pinned programs of the workspace with their digests, which are checked at each start.
    pub fn pinned_programs(&self) -> Vec<(RelPath, String)> {
        let rules = self.layers.iter().flat_map(|layer| layer.shell.allow.iter().flatten());
        let pins = rules.filter_map(|rule| {
            let sum = rule.value.sha256.clone()?;
            Some(rule.value.cmd[0].0.iter().filter_map(move |path| Some((RelPath::new(path)?, sum.clone()))))
        });
        pins.flatten().collect()
    }

    /// Tells whether a built-in tool is denied as a whole: it is not shown to the model.
    pub fn denies_tool(&self, tool: &str) -> bool {
        name_allowed(&self.layers, |layer| &layer.tools, tool, "tools").is_err()
    }

    /// Sums up for the system prompt what is restricted, in a few lines; whole tools aside, see
    /// [`Policy::denies_tool`].
    pub fn summary(&self) -> String {
        let mut lines = Vec::new();
        let globs = |rules: &[layers::Located<super::glob::Glob>]| {
            rules.iter().map(|rule| rule.value.text().to_owned()).collect::<Vec<_>>().join(", ")
        };
        for layer in self.layers.iter() {
            match &layer.write_allow {
                Some(allow) if allow.is_empty() => lines.push("No files may be written.".to_owned()),
                Some(allow) if !allow.iter().any(|rule| rule.value.text() == "**") => {
                    lines.push(format!("Files may be written only under: {}.", globs(allow)));
                }
                None if layer.grants => lines.push("No files may be written.".to_owned()),
                _ => {}
            }
            if !layer.write_deny.is_empty() {
                lines.push(format!("Never written: {}.", globs(&layer.write_deny)));
            }
            if !layer.read_deny.is_empty() {
                lines.push(format!("Never read: {}.", globs(&layer.read_deny)));
            }
            if self.denies_tool("run_shell_command") {
                continue;
            }
            let commands = |rules: &[layers::Located<super::file::CommandRule>]| {
                let one = |rule: &layers::Located<super::file::CommandRule>| {
                    let words: Vec<String> = rule.value.cmd.iter().map(|element| shortened(&element.0)).collect();
                    words.join(" ")
                };
                rules.iter().map(one).collect::<Vec<_>>().join(", ")
            };
            match (layer.shell.default, &layer.shell.allow) {
                (Some(DefaultRule::Allow), _) => {}
                (_, Some(allow)) => lines.push(format!("Commands: {}.", commands(allow))),
                _ => {}
            }
            if !layer.shell.deny.is_empty() {
                lines.push(format!("Never run: {}.", commands(&layer.shell.deny)));
            }
        }
        lines.dedup();
        lines.join("\n")
    }
}

// A long list tells the model enough by its beginning; a denial names the whole of it.
fn shortened(words: &[String]) -> String {
    const SHOWN: usize = 24;
    let more = if words.len() > SHOWN { "|…" } else { "" };
    format!("{}{more}", words[..words.len().min(SHOWN)].join("|"))
}

fn path_or_dot(path: &RelPath) -> &Path {
    if path.is_root() { Path::new(".") } else { path.as_path() }
}

// Allowed by every layer, denied by none. Names compare exactly, denies folded.
fn name_allowed(
    layers: &[Layer],
    rules: impl Fn(&Layer) -> &NameRules,
    name: &str,
    key: &str,
) -> Result<Option<RuleRef>, Denial> {
    let mut allowed_by = None;
    for layer in layers {
        let names = rules(layer);
        let folded = name.to_lowercase();
        if let Some(rule) = names.deny.iter().find(|rule| mcp::matches(&rule.value.to_lowercase(), &folded)) {
            return Err(Denial::new(format!("the tool {name} is denied")).by_rule(rule.rule.clone()));
        }
        match &names.allow {
            Some(allow) => match allow.iter().find(|rule| mcp::matches(&rule.value, name)) {
                Some(rule) => {
                    allowed_by.get_or_insert_with(|| rule.rule.clone());
                }
                None => {
                    return Err(Denial::new(format!("`{key}.allow` in {} does not name {name}", layer.source)).by(key));
                }
            },
            None if layer.grants => {
                return Err(Denial::new(format!("{} allows no tool by `{key}.allow`", layer.source)).by(key));
            }
            None => {}
        }
    }
    Ok(allowed_by)
}

// One call on its way to a decision.
struct Judge<'a> {
    policy: &'a Policy,
    facts: &'a Facts,
    paths: PathRules<'a>,
    effects: Vec<String>,
    rule: Option<RuleRef>,
    reads: Vec<(PathBuf, RelPath)>,
    outside: Vec<(PathBuf, PathBuf)>,
    writes: Vec<(PathBuf, RelPath)>,
    command: Option<CommandPlan>,
}

impl<'a> Judge<'a> {
    fn new(policy: &'a Policy, facts: &'a Facts) -> Judge<'a> {
        Judge {
            policy,
            facts,
            paths: PathRules::new(&policy.layers, facts),
            effects: Vec::new(),
            rule: None,
            reads: Vec::new(),
            outside: Vec::new(),
            writes: Vec::new(),
            command: None,
        }
    }

    fn tool(&mut self, tool: &str, accesses: &[Access]) -> Result<(), Denial> {
        // These kinds of tools are decided by their own keys.
        let foreign = accesses.iter().any(|access| matches!(access, Access::Mcp { .. } | Access::Discovered { .. }));
        if foreign || tool == "structured_output" {
            return Ok(());
        }
        if !tool_name::BUILT_IN.contains(&tool) {
            return Err(Denial::new(format!("unknown tool {tool:?}")).by("tools"));
        }
        self.rule = name_allowed(&self.policy.layers, |layer| &layer.tools, tool, "tools")?;
        Ok(())
    }

    fn readable(&mut self, given: &Path, absolute: &Path, place: Place) {
        match place {
            Place::Workspace(path) => self.reads.push((given.to_path_buf(), path)),
            Place::Included(_) | Place::Outputs(_) => self.outside.push((given.to_path_buf(), absolute.to_path_buf())),
        }
    }

    fn access(&mut self, access: &Access) -> Result<(), Denial> {
        let root = RelPath::root();
        match access {
            Access::Read { path } => {
                self.effects.push(format!("read {}", path.display()));
                let (resolved, place) = self.paths.read(&root, path)?;
                self.readable(path, &resolved.absolute, place);
            }
            Access::List { path } => {
                self.effects.push(format!("list {}", path.display()));
                let (resolved, place) = self.paths.list(&root, path)?;
                self.readable(path, &resolved.absolute, place);
            }
            Access::Search { root, patterns } => {
                self.effects.push(format!("search {}", root.display()));
                let (resolved, place) = self.paths.search(root, patterns)?;
                self.readable(root, &resolved.absolute, place);
            }
            Access::Write { path } => {
                self.effects.push(format!("write {}", path.display()));
                let (_, place) = self.paths.write(&root, path)?;
                match place {
                    Place::Workspace(resolved) => self.writes.push((path.clone(), resolved)),
                    Place::Included(_) | Place::Outputs(_) => {
                        let reason = format!("`{}` is in an included directory, which is only read", path.display());
                        return Err(Denial::new(reason).by("F2"));
                    }
                }
            }
            Access::Run { command, directory } => self.run(command, directory.as_deref())?,
            Access::Fetch { url, resolves_to, redirects } => {
                self.effects.push(format!("fetch {url}"));
                web::fetch(&self.policy.layers, url, resolves_to.as_deref(), redirects)?;
            }
            Access::Mcp { server, tool, arguments, pin } => {
                self.effects.push(format!("mcp {server} {tool}"));
                let rule = mcp::judge(&self.policy.layers, server, tool, *pin)?;
                for path in mcp::paths(arguments)? {
                    self.effects.push(format!("read {}", path.display()));
                    self.paths.read(&root, &path)?;
                }
                self.rule = rule;
            }
            Access::Discovered { tool } => {
                self.effects.push(format!("call {tool}"));
                self.rule = name_allowed(&self.policy.layers, |layer| &layer.discovered, tool, "discovered_tools")?;
            }
            Access::Memory { path } => {
                self.effects.push(format!("write {}", path.display()));
                if let Place::Workspace(resolved) = self.memory(path)? {
                    self.writes.push((path.clone(), resolved));
                }
            }
        }
        Ok(())
    }

    // The one way to QWEN.md: the tool's own rule has decided, but links are still not followed.
    fn memory(&self, path: &Path) -> Result<Place, Denial> {
        let resolved = self.paths.resolve(&RelPath::root(), path)?;
        let many = matches!(resolved.node, Some(Node::File { links, .. }) if links > 1);
        if resolved.last_is_link || many {
            return Err(Denial::new(format!("`{}` is a link", path.display())).by("F6"));
        }
        // The global memory is outside the workspace; its directory is the tool's own.
        Ok(self.paths.place(&resolved.absolute).unwrap_or(Place::Outputs(RelPath::root())))
    }

    fn run(&mut self, command: &str, directory: Option<&Path>) -> Result<(), Denial> {
        let answers = super::rules::Answers::new(self.policy, self.facts);
        let directory = directory
            .map(|path| path.to_str().ok_or_else(|| Denial::new("the directory's name is not UTF-8").by("F7")));
        let directory = directory.transpose()?;
        let mut judged = super::shell::judge(command, directory, &answers);
        if judged.is_ok() && answers.again() {
            judged = super::shell::judge(command, directory, &answers);
        }
        match judged {
            Ok(approved) => {
                self.effects.extend(approved.effects);
                self.rule = approved.rules.into_iter().next().or(self.rule.take());
                self.command = Some(approved.plan);
                Ok(())
            }
            Err(denial) if denial.unanalysable && self.policy.unanalysable() == Unanalysable::Sandboxed => {
                let folder = match directory {
                    Some(folder) => self.paths.enter(&RelPath::root(), folder)?,
                    None => RelPath::root(),
                };
                self.effects.push(format!("run as written, isolated and without network ({})", denial.reason));
                self.command = Some(CommandPlan {
                    directory: folder,
                    start: Start::AsWritten(command.to_owned()),
                    form: None,
                    named: Vec::new(),
                    profile: SandboxProfile {
                        tree: TreeAccess::Writable,
                        network: Network::None,
                        git: GitAccess::Scratch,
                    },
                    isolation: Isolation::Required,
                    programs: vec!["bash".to_owned()],
                    unchanged: Vec::new(),
                });
                Ok(())
            }
            Err(denial) => Err(denial),
        }
    }

    fn allowed(self) -> (Decision, Option<Grant>) {
        let decision = Decision {
            verdict: Verdict::Allow,
            rule: self.rule,
            reason: "allowed by every policy layer".to_owned(),
            hint: None,
            effects: self.effects,
        };
        let (policy, facts) = (self.policy.clone(), self.facts.clone());
        let folders = Folders::default();
        let may_read = move |path: &Path| policy.reads(path, &facts, &folders);
        let grant = Grant {
            reads: self.reads,
            outside: self.outside,
            writes: self.writes,
            command: self.command,
            may_read: Arc::new(may_read),
        };
        (decision, Some(grant))
    }
}
