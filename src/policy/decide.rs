//! Evaluates accesses and facts to a decision and, if allowed, a grant. This is the only evaluation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::access::Access;
use super::decision::{Decision, Denial, RuleRef, Verdict};
use super::facts::{ChangeFacts, Facts};
use super::file::Unanalysable;
use super::grant::{CommandPlan, GitAccess, Grant, Isolation, Network, SandboxProfile, Start, TreeAccess};
use super::history::Unreadable;
use super::layers::{Layer, Policy};
use super::paths::{Folders, PathRules, Place};
use super::rules::NameRules;
use super::{mcp, web};
use crate::change::Kind;
use crate::path::{Node, RelPath};
use crate::tool_name::ToolId;

impl Policy {
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
            Err(Denial::new(format!("`{shown}`: {what} (`paths.write.{key}` in {})", layer.origin.source)).by("gate"))
        };
        for layer in self.layers.iter() {
            let unless_allowed = |key: Option<bool>| key == Some(false) || (key.is_none() && layer.grants);
            match change.kind {
                Kind::Added if layer.rules.paths.write.create == Some(false) => {
                    return refuse("new files are not allowed", "create", layer);
                }
                Kind::Deleted if layer.rules.paths.write.delete == Some(false) => {
                    return refuse("deleting is not allowed", "delete", layer);
                }
                Kind::Added | Kind::Modified | Kind::Deleted => {}
            }
            if change.becomes_executable && unless_allowed(layer.rules.paths.write.exec_bit) {
                return refuse("it becomes executable", "exec_bit", layer);
            }
            if change.is_link && unless_allowed(layer.rules.paths.write.symlinks) {
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

    /// Tells whether a built-in tool is denied as a whole: it is not shown to the model.
    pub fn denies_tool(&self, tool: &str) -> bool {
        name_allowed(&self.layers, |layer| &layer.rules.tools, tool, "tools").is_err()
    }
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
            return Err(Denial::new(format!("the tool {name} is denied")).by_rule(rule.at.clone()));
        }
        match &names.allow {
            Some(allow) => match allow.iter().find(|rule| mcp::matches(&rule.value, name)) {
                Some(rule) => {
                    allowed_by.get_or_insert_with(|| rule.at.clone());
                }
                None => {
                    return Err(
                        Denial::new(format!("`{key}.allow` in {} does not name {name}", layer.origin.source)).by(key)
                    );
                }
            },
            None if layer.grants => {
                return Err(Denial::new(format!("{} allows no tool by `{key}.allow`", layer.origin.source)).by(key));
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
        if foreign || tool == ToolId::StructuredOutput.name() {
            return Ok(());
        }
        if ToolId::built_in(tool).is_none() {
            return Err(Denial::new(format!("unknown tool {tool:?}")).by("tools"));
        }
        self.rule = name_allowed(&self.policy.layers, |layer| &layer.rules.tools, tool, "tools")?;
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
                self.rule =
                    name_allowed(&self.policy.layers, |layer| &layer.rules.discovered, tool, "discovered_tools")?;
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
        let answers = super::commands::Answers::new(self.policy, self.facts);
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
