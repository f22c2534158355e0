//! `task`: a piece of work for another agent of the project, in a conversation of its own.
//!
//! The tool says who there is and what was asked for; the conversation is held by the agent's loop, which has the model.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Call, Tool, ToolContext, ToolError, ToolOutput, required_str};
use crate::change::Entry;
use crate::change::text::Decoded;
use crate::model::{BoxFuture, ToolSpec};
use crate::path::{RelPath, Tree as _};
use crate::policy::{Access, Grant};
use crate::workspace::Workspace;
use crate::workspace::disk::Disk;

/// Where agents live.
const FOLDER: &str = ".qwen/agents";

/// The most characters of a description.
const DESCRIPTION: usize = 200;

/// An agent as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    /// What it is called.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// The tools that it may use; `None`: all but `task`.
    pub tools: Option<Vec<String>>,
    /// The model that it asks for; every agent of a run has the run's.
    pub model: Option<String>,
    /// Its own prompt.
    pub prompt: String,
}

#[derive(serde::Deserialize)]
struct FrontMatter {
    name: Option<String>,
    description: Option<String>,
    tools: Option<Value>,
    model: Option<String>,
}

impl AgentFile {
    /// Reads a file; `stem` is its name where it does not say another. `Err` says what is wrong.
    pub fn parse(stem: &str, text: &str) -> Result<AgentFile, String> {
        let (front, body) = super::skill::split_front_matter(text);
        let front: FrontMatter = match front.trim() {
            "" => FrontMatter { name: None, description: None, tools: None, model: None },
            front => crate::yaml::parse(&format!("{stem}.md"), front).map_err(|error| error.to_string())?,
        };
        let name = front.name.unwrap_or_else(|| stem.to_owned());
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            return Err(format!("{name:?} is no name: letters, digits, `-` and `_` make one"));
        }
        let word = |value: &Value| value.as_str().map(|text| text.trim().to_owned());
        let tools: Option<Vec<String>> = match &front.tools {
            None | Some(Value::Null) => None,
            Some(Value::String(list)) if list.trim() == "*" => None,
            Some(Value::String(list)) => Some(list.split(',').map(|name| name.trim().to_owned()).collect()),
            Some(Value::Array(list)) => Some(list.iter().filter_map(word).collect()),
            Some(_) => return Err("`tools` is a list of names".into()),
        };
        if body.trim().is_empty() {
            return Err("there is no prompt below the front matter".into());
        }
        let description: String =
            front.description.unwrap_or_default().chars().filter(|c| !c.is_control()).take(DESCRIPTION).collect();
        Ok(AgentFile { name, description, tools, model: front.model, prompt: body.trim().to_owned() })
    }

    /// Returns the agents of a workspace and of the user by name, and what is wrong with files that are none. Where both
    /// have a name, the workspace's counts.
    pub fn find(workspace: &Workspace, home: Option<&Path>) -> (Vec<AgentFile>, Vec<String>) {
        let own = |name: &str| {
            let path = RelPath::new(format!("{FOLDER}/{name}"))?;
            workspace.entry(&path).ok()
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
                    warnings.push(format!("{file}: there is another agent called {}", agent.name));
                }
                Ok(agent) => agents.push(agent),
                Err(problem) => warnings.push(format!("{file}: {problem}")),
            }
        }
        if let Some(folder) = home.map(|home| home.join(FOLDER)) {
            let users = |name: &str| Disk.entry(&folder.join(name)).ok();
            for (file, agent) in parsed(texts(FOLDER, workspace.names(&folder), users)) {
                match agent {
                    Ok(agent) if agents.iter().any(|known| known.name == agent.name) => {}
                    Ok(agent) => agents.push(agent),
                    Err(problem) => warnings.push(format!("~/{file}: {problem}")),
                }
            }
        }
        for agent in &agents {
            if let Some(model) = agent.model.as_deref().filter(|model| !matches!(*model, "" | "inherit")) {
                warnings.push(format!("the agent {} asks for the model {model}, and has that of the run", agent.name));
            }
        }
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        (agents, warnings)
    }

    /// Tells whether the agent may use a tool, by the tool's real name. Tasks are not passed on, and the answer of the run
    /// is the run's to give.
    pub fn may_use(&self, tool: &str) -> bool {
        let means = |name: &String| name == tool || crate::tool_name::real_name(name) == Some(tool);
        let of_the_run = ["task", crate::tool_name::STRUCTURED_OUTPUT];
        !of_the_run.contains(&tool) && self.tools.as_ref().is_none_or(|tools| tools.iter().any(means))
    }
}

/// Returns the texts of a folder by their paths.
fn texts(
    folder: &str,
    names: std::io::Result<Vec<std::ffi::OsString>>,
    entry: impl Fn(&str) -> Option<Entry>,
) -> Vec<(String, Result<String, String>)> {
    let names = names.unwrap_or_default().into_iter().filter_map(|name| name.into_string().ok());
    let text = |name: String| {
        let text = entry(&name).as_ref().and_then(Entry::content).and_then(Decoded::from_bytes);
        (format!("{folder}/{name}"), text.map(|text| text.text).ok_or_else(|| "it is no text file".to_owned()))
    };
    names.filter(|name| name.ends_with(".md")).map(text).collect()
}

/// Reads texts as agents; what is no file of the folder itself is passed over.
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

impl Tool for Task {
    fn spec(&self) -> ToolSpec {
        let list: Vec<String> =
            self.agents.iter().map(|agent| format!("{}: {}", agent.name, agent.description)).collect();
        let names: Vec<&str> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
        ToolSpec {
            name: "task".into(),
            description: format!(
                "Give a piece of work to an agent that knows nothing of this conversation. {}",
                list.join("; ")
            ),
            parameters: json!({"type": "object", "properties": {
                "description": {"type": "string", "description": "In five words"},
                "prompt": {"type": "string", "description": "All that it must know"},
                "subagent_type": {"type": "string", "enum": names}},
                "required": ["description", "prompt", "subagent_type"]}),
        }
    }

    fn display_name(&self) -> &'static str {
        "Task"
    }

    fn only_reads(&self) -> bool {
        false
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
        let name = required_str(&arguments, "subagent_type")?;
        if !self.agents.iter().any(|agent| agent.name == name) {
            return Err(ToolError::arguments(format!("there is no agent {name:?}")));
        }
        let about = required_str(&arguments, "description")?;
        Ok(Box::new(TaskCall { about: format!("{name}: {}", super::common::names::brief(about)) }))
    }
}

struct TaskCall {
    about: String,
}

impl Call for TaskCall {
    fn accesses(&self) -> Vec<Access> {
        // The agent's own calls are judged one by one.
        Vec::new()
    }

    fn describe(&self) -> String {
        self.about.clone()
    }

    fn run<'a>(
        self: Box<Self>,
        _grant: &'a Grant,
        _cx: &'a ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
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
        let (agents, warnings) = AgentFile::find(&project.workspace, Some(home.folder.path()));
        assert_eq!(
            agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(),
            ["list", "mine", "plain", "reviewer"]
        );
        assert_eq!(warnings.len(), 5, "{warnings:?}");
        assert_eq!(warnings[4], "the agent mine asks for the model qwen-max, and has that of the run");
        assert_eq!(agents[2].prompt, "x");
        let may = |name: &str, tool: &str| agents.iter().find(|agent| agent.name == name).unwrap().may_use(tool);
        assert!(may("reviewer", "search_file_content") && !may("reviewer", "edit"));
        assert!(may("list", "run_shell_command") && may("plain", "edit") && !may("plain", "task"));
        let spec = Task::new(agents).unwrap().spec();
        assert!(spec.description.ends_with("list: ; mine: ; plain: ; reviewer: Reads code"));
        assert!(Task::new(Vec::new()).is_none());
    }
}
