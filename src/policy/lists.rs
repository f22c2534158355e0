//! Parses lists of tools (`--allowed-tools`, `tools.core`, `permissions.deny` …) and applies them to a policy.
//!
//! An entry is a tool's name, in this program's or in Qwen Code's words (`ShellTool`, `Bash`), with an optional
//! argument in parentheses: `run_shell_command(git status)` (the command's first words), `WebFetch(domain:docs.rs)`,
//! `Read(GLOB)`, `Edit(GLOB)`, `mcp__server(tool)`; or the name of a tool that a server or the project's discovery
//! offers.

use std::path::{Path, PathBuf};

use super::Policy;
use super::decision::RuleRef;
use super::file::{CommandRule, DefaultRule, Element, HostRule, Options, Server};
use super::glob::Glob;
use super::layers::{Layer, Origin, Standing};
use super::rules::{List, NameRules, Rule, Rules};
use crate::base::digest;
use crate::tool_name::{DISCOVERED, READING, ToolId, WRITING, family_of, tool_listed};

const MCP: &str = "mcp__";

/// An entry of a list of tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolEntry {
    /// The entry as written.
    pub text: String,
    /// The flag, or the place in a settings file.
    pub origin: String,
    target: Target,
}

/// What is wrong with the form of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolEntryError {
    /// `name(…` without its end.
    #[error("the bracket is not closed")]
    OpenBracket,
    /// Nothing before the bracket.
    #[error("the name is missing")]
    NoName,
    /// A tool that is not ours, with brackets.
    #[error("`{0}` is not a tool that takes brackets")]
    UnknownWithBrackets(String),
    /// A tool of ours that is listed as a whole.
    #[error("`{0}` takes no brackets")]
    TakesNoBrackets(ToolId),
    /// The brackets should name a host.
    #[error("write a host name, as in WebFetch(domain:docs.rs)")]
    NotAHost,
    /// The brackets name files that file rules do not reach.
    #[error("file rules apply only in the workspace, and this names an included directory")]
    IncludedDirectory,
    /// The brackets are not a glob.
    #[error("{0}")]
    Glob(String),
}

/// What an entry names.
#[derive(Debug, Clone, PartialEq)]
enum Target {
    /// A built-in tool as a whole.
    Tool(ToolId),
    /// Commands that begin with these words.
    Command(Vec<String>),
    /// A host and all below it.
    Host(String),
    /// Files of the workspace; a glob that is `None` names files outside of it.
    Path { tool: ToolId, writes: bool, glob: Option<Glob> },
    /// Tools of a server: the readings of `mcp__a__b`, the likeliest first.
    Server(Vec<(String, String)>),
    /// A tool that is not built in, and what it may be called on a server.
    Foreign(String, Vec<(String, String)>),
}

/// What entries are read against.
#[derive(Debug, Clone, Copy)]
pub struct EntryContext<'a> {
    /// The names of the servers that are configured.
    pub servers: &'a [String],
    /// The workspace.
    pub workspace: &'a Path,
    /// Directories that may be read in addition to it.
    pub included: &'a [PathBuf],
    /// The user's home directory.
    pub home: Option<&'a Path>,
}

impl ToolEntry {
    /// Reads an entry. An unknown name is not an error.
    pub fn parse(text: &str, origin: &str, around: EntryContext<'_>) -> Result<ToolEntry, ToolEntryError> {
        let (name, inner) = match text.split_once('(') {
            None => (text.trim(), ""),
            Some((name, rest)) => (name.trim(), rest.trim_end().strip_suffix(')').ok_or(ToolEntryError::OpenBracket)?),
        };
        let inner = inner.trim();
        if name.is_empty() {
            return Err(ToolEntryError::NoName);
        }
        let target = match tool_listed(name) {
            None if name.starts_with(MCP) => {
                Target::Server(readings(&name[MCP.len()..], (!inner.is_empty()).then_some(inner), around.servers))
            }
            None if inner.is_empty() || inner == "*" => {
                let own = name.strip_prefix(DISCOVERED).unwrap_or(name);
                Target::Foreign(own.to_owned(), pairs(own, around.servers))
            }
            None => return Err(ToolEntryError::UnknownWithBrackets(name.to_owned())),
            Some(tool) if inner.is_empty() || inner == "*" => Target::Tool(tool),
            Some(ToolId::RunShellCommand) => {
                // `npm test:*` and `npm test *` mean: with anything that follows, which is always the case here.
                let words = inner.trim_end_matches(":*").trim_end_matches(" *");
                Target::Command(words.split_whitespace().map(str::to_owned).collect())
            }
            Some(ToolId::WebFetch) => Target::Host(host(inner)?),
            Some(tool) if READING.contains(&tool) => Target::Path { tool, writes: false, glob: glob(inner, around)? },
            Some(tool) if WRITING.contains(&tool) => Target::Path { tool, writes: true, glob: glob(inner, around)? },
            // Single agents and skills are not told apart: the tool as a whole.
            Some(tool @ (ToolId::Task | ToolId::Skill)) => Target::Tool(tool),
            Some(tool) => return Err(ToolEntryError::TakesNoBrackets(tool)),
        };
        Ok(ToolEntry { text: text.trim().to_owned(), origin: origin.to_owned(), target })
    }

    /// Makes the entry that names all tools of a server.
    pub fn server(name: &str, origin: &str) -> ToolEntry {
        let target = Target::Server(vec![(name.to_owned(), "*".to_owned())]);
        ToolEntry { text: format!("{MCP}{name}"), origin: origin.to_owned(), target }
    }

    /// Says what an entry that allows cannot do, if there is such a thing.
    pub fn allows_nothing(&self) -> Option<String> {
        let why = match &self.target {
            Target::Path { glob: None, .. } => "use --include-directories to read files outside the workspace",
            Target::Command(words) if words.iter().any(|word| is_special(word)) => {
                "the words of a command are literal; `*` is allowed only at the end, after a space"
            }
            _ => return None,
        };
        Some(format!("{}: `{}` allows nothing: {why}", self.origin, self.text))
    }

    /// Says what an entry that takes away takes next to what it names, if there is such a thing.
    pub fn takes_more(&self) -> Option<String> {
        let more = match &self.target {
            Target::Command(words) => match words.iter().position(|word| is_special(word))? {
                0 => "all commands".to_owned(),
                at => format!("every command that begins with `{}`", words[..at].join(" ")),
            },
            Target::Tool(tool @ (ToolId::Task | ToolId::Skill)) if self.text.contains('(') => {
                format!("the whole tool {tool}")
            }
            _ => return None,
        };
        Some(format!("{}: `{}` also denies {more}", self.origin, self.text))
    }

    /// Says which tool the entry does not find. `foreign` are the discovered tools; `servers` are the configured ones,
    /// each with its tools where they are known.
    pub fn unknown(&self, foreign: &[String], servers: &[(String, Option<Vec<String>>)]) -> Option<String> {
        let has = |(server, tool): &(String, String), where_not_known: bool| {
            let tools = servers.iter().find(|(name, _)| name == server).map(|(_, tools)| tools);
            tools.is_some_and(|tools| match tools {
                Some(tools) => tool == "*" || tools.iter().any(|known| super::mcp::matches(tool, known)),
                None => where_not_known,
            })
        };
        let found = match &self.target {
            Target::Server(pairs) => pairs.iter().any(|pair| has(pair, true)),
            Target::Foreign(name, pairs) => foreign.contains(name) || pairs.iter().any(|pair| has(pair, false)),
            Target::Tool(_) | Target::Command(_) | Target::Host(_) | Target::Path { .. } => true,
        };
        (!found).then(|| format!("{}: {}", self.origin, crate::tool_name::unknown(&self.text)))
    }

    fn located<T>(&self, value: T) -> Rule<T> {
        Rule { value, at: RuleRef { rule: self.text.clone(), source: self.origin.clone() } }
    }
}

/// Returns what `mcp__NAME` may mean: the configured servers whose name it begins with, the longest first.
fn readings(name: &str, inner: Option<&str>, servers: &[String]) -> Vec<(String, String)> {
    if let Some(tool) = inner {
        return vec![(name.to_owned(), tool.to_owned())];
    }
    let tool_of = |server: &String| match name.strip_prefix(server.as_str())? {
        "" => Some((server.clone(), "*".to_owned())),
        rest => rest.strip_prefix("__").map(|tool| (server.clone(), tool.to_owned())),
    };
    let mut found: Vec<(String, String)> = servers.iter().filter_map(tool_of).collect();
    found.sort_by_key(|(server, _)| std::cmp::Reverse(server.len()));
    if found.is_empty() {
        let (server, tool) = name.split_once("__").unwrap_or((name, "*"));
        found.push((server.to_owned(), tool.to_owned()));
    }
    found
}

/// Returns what a bare name may be on each server.
fn pairs(name: &str, servers: &[String]) -> Vec<(String, String)> {
    let of = |server: &String| {
        let tool = name.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix("__"));
        (server.clone(), tool.unwrap_or(name).to_owned())
    };
    servers.iter().map(of).collect()
}

fn host(inner: &str) -> Result<String, ToolEntryError> {
    let host = inner.strip_prefix("domain:").unwrap_or(inner).trim().to_ascii_lowercase();
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !host.is_empty() && host.strip_prefix("*.").unwrap_or(&host).chars().all(is_host) {
        true => Ok(host),
        false => Err(ToolEntryError::NotAHost),
    }
}

/// Reads a path as Qwen Code does: `/x` and `x` are in the workspace, `//x` is absolute, `~/x` is in the home.
fn glob(inner: &str, around: EntryContext<'_>) -> Result<Option<Glob>, ToolEntryError> {
    let absolute = match (inner.strip_prefix("//"), inner.strip_prefix("~/")) {
        (Some(path), _) => Some(Path::new("/").join(path)),
        (_, Some(path)) => Some(around.home.unwrap_or(Path::new("~")).join(path)),
        (None, None) => None,
    };
    let relative = match &absolute {
        None => inner.trim_start_matches("./").trim_start_matches('/'),
        Some(path) => match path.strip_prefix(around.workspace).ok().and_then(Path::to_str) {
            Some(below) => below,
            // `//home/**` holds the workspace, too.
            None if holds(path, around.workspace) => "**",
            None if around.included.iter().any(|folder| path.starts_with(folder) || holds(path, folder)) => {
                return Err(ToolEntryError::IncludedDirectory);
            }
            None => return Ok(None),
        },
    };
    Glob::new(if relative.is_empty() { "**" } else { relative }).map(Some).map_err(ToolEntryError::Glob)
}

/// Tells whether a glob of absolute paths may match something in the workspace.
fn holds(pattern: &Path, workspace: &Path) -> bool {
    let mut workspace = workspace.components();
    for part in pattern.components() {
        if part.as_os_str().to_str().is_none_or(is_pattern) {
            return true;
        }
        if workspace.next() != Some(part) {
            return false;
        }
    }
    true
}

fn is_pattern(word: &str) -> bool {
    word.contains(['*', '?', '[', '{'])
}

/// Tells whether a shell reads more in a word than its letters.
fn is_special(word: &str) -> bool {
    is_pattern(word) || word.contains(['\'', '"', '`', '$', '\\', '|', '&', ';', '<', '>', '(', ')', '~', '#', '!'])
}

/// A rule that allows a command by its first words; `None` where a word is a pattern.
fn allowed_command(words: &[String]) -> Option<CommandRule> {
    (!words.iter().any(|word| is_special(word))).then(|| command(words.to_vec(), Vec::new()))
}

/// A rule that denies a command: by its words before the first option, or any of its options; `None` where that is
/// every command.
fn denied_command(words: &[String]) -> Option<CommandRule> {
    let literal = words.iter().take_while(|word| !is_special(word));
    let (options, _): (Vec<&String>, Vec<&String>) = literal.clone().partition(|word| word.starts_with('-'));
    let letters = |word: &String| match word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
        Some(letters) => letters.chars().map(|letter| format!("-{letter}")).collect(),
        None => vec![word.clone()],
    };
    let plain: Vec<String> = literal.take_while(|word| !word.starts_with('-')).cloned().collect();
    (!plain.is_empty()).then(|| command(plain, options.into_iter().flat_map(letters).collect()))
}

fn command(words: Vec<String>, deny: Vec<String>) -> CommandRule {
    CommandRule {
        cmd: words.into_iter().map(|word| Element(vec![word])).collect(),
        options: (!deny.is_empty()).then(|| Options { deny, ..Options::default() }),
        ..CommandRule::default()
    }
}

/// The rules for a host: it stands for itself and all that is below it.
fn hosts(host: &str) -> Vec<HostRule> {
    let rule = |host: String| HostRule { host, path: None };
    match host.strip_prefix("*.") {
        Some(_) => vec![rule(host.to_owned())],
        None => vec![rule(host.to_owned()), rule(format!("*.{host}"))],
    }
}

/// The lists of tools that flags and settings name.
#[derive(Debug, Clone, Default)]
pub struct ToolLists {
    /// Entries that a built-in policy additionally allows.
    pub allowed: Vec<ToolEntry>,
    /// Lists that keep only what they name.
    pub core: Vec<Vec<ToolEntry>>,
    /// Excluded entries.
    pub excluded: Vec<ToolEntry>,
}

impl ToolLists {
    /// Returns the policy with what the lists add and exclude.
    pub fn apply(&self, policy: &Policy) -> Policy {
        let allowing = policy.allowing(&self.allowed);
        self.core.iter().fold(allowing, |policy, list| policy.only(list)).without(&self.excluded)
    }

    /// Returns warnings about entries that do less, or more, than they seem to.
    pub fn warnings(&self) -> Vec<String> {
        let kept = self.allowed.iter().chain(self.core.iter().flatten());
        let taken = self.excluded.iter().filter_map(ToolEntry::takes_more);
        kept.filter_map(ToolEntry::allows_nothing).chain(taken).collect()
    }

    /// Returns a warning for each entry that names no tool; see [`ToolEntry::unknown`].
    pub fn unknown(&self, foreign: &[String], servers: &[(String, Option<Vec<String>>)]) -> Vec<String> {
        let entries = self.allowed.iter().chain(self.core.iter().flatten()).chain(&self.excluded);
        entries.filter_map(|entry| entry.unknown(foreign, servers)).collect()
    }
}

impl Policy {
    /// Adds what the entries name to the built-in policies in effect. If a file grants, nothing is added.
    #[must_use]
    pub fn allowing(&self, entries: &[ToolEntry]) -> Policy {
        let is_builtin = |layer: &Layer| layer.origin.is_builtin() && layer.origin.standing == Standing::Operator;
        let mut layers = self.layers.as_ref().clone();
        if !entries.is_empty() && layers.first().is_some_and(is_builtin) {
            for layer in layers.iter_mut().filter(|layer| is_builtin(layer)) {
                let list = origin(&format!("{} with allowed tools", layer.origin.source), entries);
                layer.origin.sha256 = digest::sha256(format!("{}{}", layer.origin.sha256, list.sha256).as_bytes());
                layer.origin.source = list.source;
                layer.rules = std::mem::take(&mut layer.rules).allowing(entries);
            }
        }
        Policy { layers: layers.into() }
    }

    /// Keeps only what the entries name.
    #[must_use]
    pub fn only(&self, entries: &[ToolEntry]) -> Policy {
        self.and(Layer { origin: origin("tools.core", entries), rules: Rules::only(entries), ..Layer::default() })
    }

    /// Takes away what the entries name.
    #[must_use]
    pub fn without(&self, entries: &[ToolEntry]) -> Policy {
        if entries.is_empty() {
            return self.clone();
        }
        self.and(Layer { origin: origin("tools.exclude", entries), rules: Rules::without(entries), ..Layer::default() })
    }
}

fn origin(name: &str, entries: &[ToolEntry]) -> Origin {
    let texts: Vec<&str> = entries.iter().map(|entry| entry.text.as_str()).collect();
    let sha256 = digest::sha256(format!("{name}\n{}", texts.join("\n")).as_bytes());
    Origin { name: name.to_owned(), source: name.to_owned(), sha256, ..Origin::default() }
}

impl Rules {
    /// Adds what the entries name.
    fn allowing(mut self, entries: &[ToolEntry]) -> Rules {
        for entry in entries {
            match &entry.target {
                Target::Tool(tool) => self.allow_tool(entry, *tool),
                Target::Command(words) => {
                    if let Some(rule) = allowed_command(words) {
                        self.tools
                            .allow
                            .get_or_insert_default()
                            .push(entry.located(ToolId::RunShellCommand.to_string()));
                        self.shell.present = true;
                        self.shell.allow.get_or_insert_default().push(entry.located(rule));
                    }
                }
                Target::Host(host) => {
                    self.tools.allow.get_or_insert_default().push(entry.located(ToolId::WebFetch.to_string()));
                    if self.network.default != Some(DefaultRule::Allow) {
                        let rules = hosts(host).into_iter().map(|rule| entry.located(rule));
                        self.network.allow.get_or_insert_default().extend(rules);
                    }
                }
                // Which files are read and written is the built-in policy's.
                Target::Path { tool, glob: Some(_), .. } => {
                    self.tools.allow.get_or_insert_default().push(entry.located(tool.to_string()));
                }
                Target::Path { glob: None, .. } => {}
                Target::Server(pairs) => self.allow_of_server(entry, pairs.first()),
                Target::Foreign(name, pairs) => {
                    self.discovered.allow.get_or_insert_default().push(entry.located(name.clone()));
                    self.allow_of_server(entry, pairs.iter().find(|(_, tool)| tool != name));
                }
            }
        }
        self
    }

    /// Allows a tool as a whole: of the shell all that `builtin:open` lets run, of the web every public host.
    fn allow_tool(&mut self, entry: &ToolEntry, tool: ToolId) {
        let family = std::iter::once(tool).chain(family_of(tool).iter().copied());
        self.tools.allow.get_or_insert_default().extend(family.map(|tool| entry.located(tool.to_string())));
        if tool == ToolId::WebFetch {
            self.network.default = Some(DefaultRule::Allow);
        }
        if tool == ToolId::RunShellCommand && self.shell.default != Some(DefaultRule::Allow) {
            let open = Layer::builtin("open").expect("a built-in policy").rules.shell;
            self.shell.default = Some(DefaultRule::Allow);
            self.shell.deny.extend(open.deny);
            // What cannot be analysed may write: not where nothing is written.
            if self.paths.write.allow.is_some() {
                self.shell.unanalysable = open.unanalysable;
            }
        }
    }

    // If every server is allowed, a rule of its own could only narrow.
    fn allow_of_server(&mut self, entry: &ToolEntry, pair: Option<&(String, String)>) {
        if let Some((server, tool)) = pair
            && self.mcp.default != Some(DefaultRule::Allow)
        {
            let rules = self.mcp.servers.get_or_insert_default();
            let rules = rules.entry(server.clone()).or_insert_with(|| entry.located(Server::default()));
            rules.value.allow.get_or_insert_default().push(tool.clone());
        }
    }

    /// Makes rules that keep only what the entries name.
    fn only(entries: &[ToolEntry]) -> Rules {
        let mut rules = Rules { tools: NameRules { allow: Some(Vec::new()), deny: Vec::new() }, ..Rules::default() };
        let whole = |tool: ToolId| entries.iter().any(|entry| entry.target == Target::Tool(tool));
        let reads = READING.into_iter().any(whole);
        let writes = WRITING.into_iter().any(whole);
        for entry in entries {
            let tool = match &entry.target {
                Target::Tool(tool) => *tool,
                Target::Command(words) => {
                    if !whole(ToolId::RunShellCommand) {
                        rules.shell.present = true;
                        rules.shell.default = Some(DefaultRule::Deny);
                        let rule = allowed_command(words).map(|rule| entry.located(rule));
                        rules.shell.allow.get_or_insert_default().extend(rule);
                    }
                    ToolId::RunShellCommand
                }
                Target::Host(host) => {
                    if !whole(ToolId::WebFetch) {
                        rules.network.default = Some(DefaultRule::Deny);
                        let hosts = hosts(host).into_iter().map(|rule| entry.located(rule));
                        rules.network.allow.get_or_insert_default().extend(hosts);
                    }
                    ToolId::WebFetch
                }
                Target::Path { tool, writes: false, glob } => {
                    if !reads {
                        let globs = rules.paths.read.allow.get_or_insert_default();
                        globs.extend(glob.clone().map(|glob| entry.located(glob)));
                    }
                    *tool
                }
                Target::Path { tool, writes: true, glob } => {
                    if !writes {
                        let globs = rules.paths.write.allow.get_or_insert_default();
                        globs.extend(glob.clone().map(|glob| entry.located(glob)));
                    }
                    *tool
                }
                Target::Server(pairs) => {
                    rules.mcp.default = Some(DefaultRule::Deny);
                    rules.allow_of_server(entry, pairs.first());
                    continue;
                }
                Target::Foreign(..) => continue,
            };
            rules.tools.allow.get_or_insert_default().push(entry.located(tool.to_string()));
        }
        rules
    }

    /// Makes rules that take away what the entries name.
    fn without(entries: &[ToolEntry]) -> Rules {
        let mut rules = Rules::default();
        for entry in entries {
            let mut deny = |tool: ToolId| rules.tools.deny.push(entry.located(tool.to_string()));
            match &entry.target {
                Target::Tool(tool) => {
                    deny(*tool);
                    family_of(*tool).iter().for_each(|tool| deny(*tool));
                }
                Target::Command(words) => match denied_command(words) {
                    Some(rule) => {
                        rules.shell.present = true;
                        rules.shell.deny.push(entry.located(rule));
                    }
                    None => deny(ToolId::RunShellCommand),
                },
                Target::Host(host) => {
                    // A layer that only denies would else deny what it does not name.
                    rules.network.default = Some(DefaultRule::Allow);
                    rules.network.deny.extend(hosts(host).into_iter().map(|rule| entry.located(rule)));
                }
                Target::Path { writes, glob, .. } => {
                    let globs: &mut List<Glob> =
                        if *writes { &mut rules.paths.write.deny } else { &mut rules.paths.read.deny };
                    globs.extend(glob.clone().map(|glob| entry.located(glob)));
                }
                Target::Server(pairs) => rules.deny_of_servers(entry, pairs),
                Target::Foreign(name, pairs) => {
                    rules.discovered.deny.push(entry.located(name.clone()));
                    rules.deny_of_servers(entry, pairs);
                }
            }
        }
        rules
    }

    fn deny_of_servers(&mut self, entry: &ToolEntry, pairs: &[(String, String)]) {
        self.mcp.default = Some(DefaultRule::Allow);
        for (server, tool) in pairs {
            let rules = self.mcp.servers.get_or_insert_default();
            let rules = rules.entry(server.clone()).or_insert_with(|| entry.located(Server::default()));
            rules.value.deny.push(tool.clone());
        }
    }
}
