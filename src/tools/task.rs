//! Implements `task`: gives a piece of work to another agent of the project, in a conversation of its own.
//!
//! The tool lists the agents and parses the request; the agent's loop, which has the model, holds the conversation.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::skill::{MOST, MayRead, text_of};
use super::{Call, CallFuture, Effects, ToolContext, ToolError, Toolbox, TypedTool};
use crate::bounded;
use crate::path::{RelPath, Tree as _};
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::Workspace;
use crate::workspace::disk::Disk;

/// Where agents live.
const FOLDER: &str = ".qwen/agents";

/// Maximum characters of a description.
const DESCRIPTION: usize = 200;

/// An agent as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    /// What it is called.
    pub name: String,
    /// What the agent is for.
    pub description: String,
    /// The tools that it may use; `None`: all but `task`.
    pub tools: Option<Vec<String>>,
    /// The tools that it may not use, whatever else it may.
    pub disallowed: Vec<String>,
    /// It plans: of its tools it has those that only look.
    pub only_looks: bool,
    /// What its file asks for and does not get.
    pub notes: Vec<String>,
    /// Its own prompt.
    pub prompt: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrontMatter {
    name: Option<String>,
    description: Option<String>,
    tools: Option<Value>,
    disallowed_tools: Option<Value>,
    model: Option<String>,
    approval_mode: Option<String>,
    permission_mode: Option<String>,
    max_turns: Option<Value>,
    mcp_servers: Option<Value>,
    hooks: Option<Value>,
}

impl FrontMatter {
    /// Returns what the file asks for and does not get.
    fn notes(&self, name: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(model) = self.model.as_deref().filter(|model| !matches!(*model, "" | "inherit")) {
            notes.push(format!("the agent {name} uses the run's model instead of {model}"));
        }
        for (key, value, instead) in [
            ("maxTurns", &self.max_turns, "its turns count for the run's --max-session-turns"),
            ("mcpServers", &self.mcp_servers, "it has the servers of the run"),
        ] {
            if value.is_some() {
                notes.push(format!("the agent {name}: {key} has no effect, {instead}"));
            }
        }
        notes
    }
}

/// Reads a list of tools: texts, or one text with commas.
fn tools_of(key: &str, value: Option<&Value>) -> Result<Option<Vec<String>>, String> {
    let wrong = || format!("`{key}` must be a list of names");
    let names: Vec<String> = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(list)) => list.split(',').map(|name| name.trim().to_owned()).collect(),
        Some(Value::Array(list)) => list
            .iter()
            .map(|name| name.as_str().map(|name| name.trim().to_owned()).ok_or_else(wrong))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(wrong()),
    };
    Ok(Some(names))
}

impl AgentFile {
    /// Reads a file; `stem` is its name where it does not say another. `Err` says what is wrong.
    pub fn parse(stem: &str, text: &str) -> Result<AgentFile, String> {
        let (front, body) = super::skill::split_front_matter(text);
        let front: FrontMatter = match front.trim() {
            "" => FrontMatter::default(),
            front => {
                crate::base::document::yaml::parse(&format!("{stem}.md"), front).map_err(|error| error.to_string())?
            }
        };
        let name = front.name.clone().unwrap_or_else(|| stem.to_owned());
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            return Err(format!("{name:?} is not a name: use letters, digits, `-` and `_`"));
        }
        if front.hooks.is_some() {
            // They may hold back what the agent does: without them it would be another one.
            return Err("left out: hooks of an agent do not run here; put them into `hooks` of your settings".into());
        }
        let tools = tools_of("tools", front.tools.as_ref())?.filter(|tools| !tools.iter().any(|name| name == "*"));
        // Calls with particular arguments cannot be excluded here: the whole tool is removed.
        let whole = |name: String| name.split('(').next().unwrap_or_default().to_owned();
        let disallowed: Vec<String> =
            tools_of("disallowedTools", front.disallowed_tools.as_ref())?.into_iter().flatten().map(whole).collect();
        if body.trim().is_empty() {
            return Err("no prompt below the front matter".into());
        }
        let description: String = front
            .description
            .as_deref()
            .unwrap_or_default()
            .chars()
            .filter(|c| !c.is_control())
            .take(DESCRIPTION)
            .collect();
        let mut notes = front.notes(&name);
        for tool in disallowed.iter().filter(|tool| !tool.starts_with("mcp__") && !tool.ends_with('*')) {
            if crate::tool_name::tool_listed(tool).is_none() {
                notes.push(format!("the agent {name}: disallowedTools: unknown tool `{tool}`"));
            }
        }
        let only_looks = front.approval_mode.or(front.permission_mode).is_some_and(|mode| mode == "plan");
        let prompt = body.trim().to_owned();
        Ok(AgentFile { name, description, tools, disallowed, only_looks, notes, prompt })
    }

    /// Returns the agents of a workspace and of the user by name, and errors of files that are not agents. If both have
    /// a name, the workspace's counts. `may_read` says why a file of the workspace must not be shown.
    pub fn find(workspace: &Workspace, home: Option<&Path>, may_read: MayRead<'_>) -> (Vec<AgentFile>, Vec<String>) {
        let own = |name: &str| {
            let path = RelPath::new(format!("{FOLDER}/{name}"))?;
            match may_read(&path) {
                Ok(()) => text_of(workspace.entry_within(&path, bounded::CONFIG)),
                Err(why) => Some(Err(format!("left out: {why}"))),
            }
        };
        let folder = RelPath::new(FOLDER).expect("it is a path below the root");
        if workspace.leads_out(&folder) {
            let (agents, mut warnings) = AgentFile::of([], workspace, home);
            warnings.push(super::skill::leads_out(FOLDER));
            return (agents, warnings);
        }
        AgentFile::of(texts(FOLDER, workspace.names(&folder.under(workspace.root())), own), workspace, home)
    }

    /// As `find`, with the workspace's agents as texts by their paths in it.
    pub fn of(
        files: impl IntoIterator<Item = (String, Result<String, String>)>,
        workspace: &Workspace,
        home: Option<&Path>,
    ) -> (Vec<AgentFile>, Vec<String>) {
        let (mut agents, mut warnings): (Vec<AgentFile>, Vec<String>) = Default::default();
        for (file, agent) in parsed(files) {
            match agent {
                Ok(agent) if agents.iter().any(|known| known.name == agent.name) => {
                    warnings.push(format!("{file}: another agent is already called {}", agent.name));
                }
                Ok(agent) => agents.push(agent),
                Err(problem) => warnings.push(format!("{file}: {problem}")),
            }
        }
        if let Some(folder) = home.map(|home| home.join(FOLDER)) {
            let users = |name: &str| text_of(Disk.entry_within(&folder.join(name), bounded::CONFIG));
            for (file, agent) in parsed(texts(FOLDER, workspace.names(&folder), users)) {
                match agent {
                    Ok(agent) if agents.iter().any(|known| known.name == agent.name) => {}
                    Ok(agent) => agents.push(agent),
                    Err(problem) => warnings.push(format!("~/{file}: {problem}")),
                }
            }
        }
        warnings.extend(agents.iter().flat_map(|agent| agent.notes.clone()));
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        (agents, warnings)
    }

    /// Tells whether the agent may use a tool of the run, by the tool's real name. Tasks are not passed on, and the
    /// answer of the run is the run's to give.
    pub fn may_use(&self, tool: &str, of_run: &Toolbox) -> bool {
        let named = |list: &[String]| list.iter().any(|entry| of_run.is_meant(entry, tool));
        let effects = of_run.get(tool).map(super::Entry::effects);
        !matches!(effects, None | Some(Effects::Delegates | Effects::Answers))
            && self.tools.as_ref().is_none_or(|tools| named(tools))
            && !named(&self.disallowed)
            && (!self.only_looks || effects == Some(Effects::Reads))
    }
}

/// Returns the texts of a directory by their paths.
fn texts(
    folder: &str,
    names: std::io::Result<Vec<std::ffi::OsString>>,
    text: impl Fn(&str) -> Option<Result<String, String>>,
) -> Vec<(String, Result<String, String>)> {
    let names = names.unwrap_or_default().into_iter().filter_map(|name| name.into_string().ok());
    let text = |name: String| {
        let text = text(&name).unwrap_or_else(|| Err("it is not a text file".to_owned()));
        (format!("{folder}/{name}"), text)
    };
    names.filter(|name| name.ends_with(".md")).take(MOST).map(text).collect()
}

/// Reads texts as agents; what is not a file of the directory itself is passed over.
fn parsed(
    files: impl IntoIterator<Item = (String, Result<String, String>)>,
) -> impl Iterator<Item = (String, Result<AgentFile, String>)> {
    files.into_iter().filter_map(|(file, text)| {
        let stem = file.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(".md")?;
        let stem = Some(stem).filter(|stem| !stem.contains('/'))?.to_owned();
        Some((file, text.and_then(|text| AgentFile::parse(&stem, &text))))
    })
}

/// The tool.
pub struct Task {
    agents: Vec<AgentFile>,
}

impl Task {
    /// Makes the tool; `None` without agents.
    pub fn new(agents: Vec<AgentFile>) -> Option<Task> {
        (!agents.is_empty()).then_some(Task { agents })
    }
}

impl TypedTool for Task {
    type Args = TaskArgs;
    const ID: ToolId = ToolId::Task;
    const EFFECTS: Effects = Effects::Delegates;
    const DESCRIPTION: &'static str = "Give a piece of work to an agent that knows nothing of this conversation.";

    fn description(&self) -> String {
        let list: Vec<String> =
            self.agents.iter().map(|agent| format!("{}: {}", agent.name, agent.description)).collect();
        format!("{} {}", Self::DESCRIPTION, list.join("; "))
    }

    fn parameters(&self) -> Value {
        let names: Vec<&str> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
        json!({"type": "object", "properties": {
            "description": {"type": "string", "description": "In five words"},
            "prompt": {"type": "string", "description": "All that it must know"},
            "subagent_type": {"type": "string", "enum": names}},
            "required": ["description", "prompt", "subagent_type"]})
    }

    fn call(&self, args: TaskArgs) -> Result<Box<dyn Call>, ToolError> {
        let name = args.subagent_type;
        if !self.agents.iter().any(|agent| agent.name == name) {
            return Err(ToolError::arguments(format!("there is no agent {name:?}")));
        }
        Ok(Box::new(TaskCall { about: format!("{name}: {}", super::common::names::brief(&args.description)) }))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct TaskArgs {
    /// What it is about, in few words.
    pub description: String,
    /// What the agent reads.
    pub prompt: String,
    /// The agent.
    pub subagent_type: String,
}

struct TaskCall {
    about: String,
}

impl Call for TaskCall {
    fn accesses(&self) -> Vec<Access> {
        // The agent's own calls are judged one by one.
        Vec::new()
    }

    fn subject(&self, _root: &Path) -> String {
        self.about.clone()
    }

    fn run<'a>(self: Box<Self>, _grant: &'a Grant, _cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async { Err(ToolError::failed("There is no model here that could do the task.")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Project;

    #[test]
    fn agents_are_read_from_their_files() {
        let whole = b"---\nname: reviewer\ndescription: Reads code\ntools: [read_file, grep]\nmodel: inherit\n---\nYou review.\n";
        let project = Project::new(&[
            (".qwen/agents/a.md", whole),
            (".qwen/agents/plain.md", b"You do things.\n"),
            (".qwen/agents/list.md", b"---\ntools: ReadFile, Shell\n---\nx"),
            (".qwen/agents/empty.md", b"---\nname: e\n---\n"),
            (".qwen/agents/bad.md", b"---\nname: [1\n---\nx"),
            (".qwen/agents/other.md", b"---\nname: plain\n---\nx"),
            (".qwen/agents/notes.txt", b"x"),
        ]);
        let home = Project::new(&[
            (".qwen/agents/plain.md", b"Not this one.\n"),
            (".qwen/agents/mine.md", b"---\nmodel: qwen-max\n---\nYou are mine.\n"),
            (".qwen/agents/none.md", b""),
        ]);
        let (agents, warnings) = AgentFile::find(&project.workspace, Some(home.folder.path()), &|_| Ok(()));
        assert_eq!(
            agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(),
            ["list", "mine", "plain", "reviewer"]
        );
        assert_eq!(warnings.len(), 5, "{warnings:?}");
        assert_eq!(warnings[4], "the agent mine uses the run's model instead of qwen-max");
        assert_eq!(agents[2].prompt, "x");
        let toolbox = Toolbox::of_built_ins();
        let may =
            |name: &str, tool: &str| agents.iter().find(|agent| agent.name == name).unwrap().may_use(tool, &toolbox);
        assert!(may("reviewer", "search_file_content") && !may("reviewer", "edit"));
        assert!(may("list", "run_shell_command") && may("plain", "edit") && !may("plain", "task"));
        let task = Task::new(agents).unwrap();
        assert!(task.description().ends_with("list: ; mine: ; plain: ; reviewer: Reads code"));
        assert!(Task::new(Vec::new()).is_none());
    }

    #[test]
    fn an_agent_that_is_too_large_is_left_out_and_not_read() {
        let project = Project::new(&[(".qwen/agents/small.md", b"You do things.\n"), (".qwen/agents/huge.md", b"")]);
        let huge = std::fs::File::options().write(true).open(project.folder.path().join(".qwen/agents/huge.md"));
        huge.unwrap().set_len(1 << 32).unwrap();
        let (agents, warnings) = AgentFile::find(&project.workspace, None, &|_| Ok(()));
        assert_eq!(agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(), ["small"]);
        assert_eq!(warnings, [".qwen/agents/huge.md: it is larger than 1 MiB"]);
    }

    #[test]
    fn what_an_agent_may_not_use_is_taken_away_in_every_spelling() {
        let toolbox = Toolbox::of_built_ins();
        let left = |front: &str| -> Vec<String> {
            let agent = AgentFile::parse("a", &format!("---\n{front}\n---\nYou work.\n")).unwrap();
            toolbox.names().filter(|tool| agent.may_use(tool, &toolbox)).map(str::to_owned).collect()
        };
        let all = left("name: a");
        let without =
            |names: &[&str]| all.iter().filter(|name| !names.contains(&name.as_str())).cloned().collect::<Vec<_>>();
        assert_eq!(
            left("disallowedTools: [write_file, EditTool, 'Bash(rm *)']"),
            without(&["write_file", "edit", "run_shell_command"])
        );
        assert_eq!(left("disallowedTools: Shell, write*"), without(&["run_shell_command", "write_file"]));
        assert_eq!(left("tools: ['*']\ndisallowedTools:\n  - Edit"), without(&["edit"]));
        assert_eq!(left("tools: [read_file, edit]\ndisallowedTools: [edit]"), ["read_file"]);
        let looks = ["glob", "list_directory", "read_file", "read_many_files", "search_file_content"];
        assert_eq!(left("approvalMode: plan"), looks);
        assert_eq!(left("permissionMode: plan"), looks);
        assert_eq!(left("approvalMode: yolo\npermissionMode: plan"), all);
    }

    #[test]
    fn an_agent_that_is_not_what_its_file_says_is_left_out_or_says_so() {
        let parse = |front: &str| AgentFile::parse("a", &format!("---\n{front}\n---\nYou work.\n"));
        assert!(parse("hooks:\n  PreToolUse: []").unwrap_err().contains("do not run here"));
        assert!(parse("disallowedTools: 1").is_err() && parse("disallowedTools: [1]").is_err());
        let notes =
            parse("maxTurns: 5\nmcpServers: {}\ndisallowedTools: [wrte_file, mcp__s]\ncolor: red").unwrap().notes;
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[2].contains("`wrte_file`"), "{notes:?}");
    }
}
