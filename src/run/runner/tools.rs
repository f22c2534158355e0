//! Creates the tools of a run: built-in ones, and those that settings and the project add.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::path::RelPath;
use crate::policy::{GitFacts, Policy};
use crate::prompt::context_files::Library as _;
use crate::settings::{Environment, Settings};
use crate::tool_name::{DISCOVERED, ToolId, tool_named};
use crate::tools::discovered::{Commands, Discovered, discover};
use crate::tools::skill::{MOST, Skill};
use crate::tools::task::{AgentFile, Task};
use crate::tools::web::fetch::Limits;
use crate::tools::web::providers::providers;
use crate::tools::web_fetch::WebFetch;
use crate::tools::web_search::WebSearch;
use crate::tools::{CommandRunner, Tool, Toolbox};
use crate::workspace::Workspace;

use crate::run::prompt::library::Folder;
use crate::run::rules::facts;
use crate::run::rules::trust::Source;

/// What decides which tools exist.
pub struct ToolOptions<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// For keys.
    pub environment: &'a Environment,
    /// The policy: tools that it denies as a whole do not exist.
    pub policy: &'a Policy,
    /// The value of `$HOME`.
    pub home: &'a str,
    /// Included directories.
    pub included: &'a [PathBuf],
    /// The repository's top directory, else the workspace.
    pub top: &'a Path,
    /// Where the project's agents and skills are read from.
    pub project: Source<'a>,
    /// Whether files of agents and skills are ignored (`--bare`).
    pub bare: bool,
    /// The secret of the run for the marks around texts of others.
    pub fence_secret: Vec<u8>,
}

/// The tools of a run.
pub struct Tools {
    /// By name.
    pub registry: Toolbox,
    /// The agents that `task` may name.
    pub agents: Vec<AgentFile>,
    /// The names of the discovered tools, including those that were left out.
    pub discovered: Vec<String>,
    /// What is missing, and why.
    pub warnings: Vec<String>,
}

/// Creates the tools. An error in one of them is a warning, and the others are available.
pub async fn tools(options: &ToolOptions<'_>, workspace: &Arc<Workspace>, runner: &dyn CommandRunner) -> Tools {
    let mut found =
        Tools { registry: Toolbox::of_built_ins(), agents: Vec::new(), discovered: Vec::new(), warnings: Vec::new() };
    found.registry.add(WebFetch::new(Limits::of(options.policy), &options.fence_secret));
    let (searched, incomplete) = providers(&options.settings.tools.web_search, options.environment);
    found.warnings.extend(incomplete);
    if let Some(search) = WebSearch::new(searched, &options.fence_secret) {
        found.registry.add(search);
    }
    let home = Some(Path::new(options.home)).filter(|home| home.is_absolute());
    let (of_home, included) = (options.home.to_owned(), options.included.to_vec());
    let rules = facts::facts(workspace, of_home, PathBuf::new(), included, GitFacts::default());
    // What is elsewhere in the workspace is judged as if the model read it.
    let may_read = |path: &RelPath| {
        let named = path.under(workspace.root());
        match named.canonicalize() {
            Ok(real) if real != named => {
                options.policy.may_read(path, &rules).map_err(|denial| format!("the policy: {}", denial.reason))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    };
    if !options.bare && !options.policy.denies_tool(ToolId::Skill.name()) {
        let (skill, wrong) = match options.project {
            Source::Disk => Skill::find(workspace, home, &may_read),
            Source::Commit(_) | Source::Nowhere => {
                let files = of_commit(options, workspace, ".qwen/skills", "/SKILL.md");
                Skill::of(files.into_iter().filter_map(|(path, text)| Some((path, text.ok()?))).collect(), home)
            }
        };
        found.warnings.extend(wrong);
        if let Some(skill) = skill {
            found.registry.add(skill);
        }
    }
    if !options.bare && !options.policy.denies_tool(ToolId::Task.name()) {
        let (agents, wrong) = match options.project {
            Source::Disk => AgentFile::find(workspace, home, &may_read),
            Source::Commit(_) | Source::Nowhere => {
                AgentFile::of(of_commit(options, workspace, ".qwen/agents", ".md"), workspace, home)
            }
        };
        found.warnings.extend(wrong);
        found.agents.clone_from(&agents);
        if let Some(task) = Task::new(agents) {
            found.registry.add(task);
        }
    }
    found.registry.retain(|name| !options.policy.denies_tool(name));
    if let Some(discovery) = &options.settings.tools.discovery_command {
        found.add_discovered(&discovery.value, options, workspace, runner).await;
    }
    found
}

impl Tools {
    /// Adds the tools that the project's discovery command lists, where the policy allows them.
    async fn add_discovered(
        &mut self,
        discovery: &str,
        options: &ToolOptions<'_>,
        workspace: &Arc<Workspace>,
        runner: &dyn CommandRunner,
    ) {
        let (home, included) = (options.home.to_owned(), options.included.to_vec());
        let facts = facts::facts(workspace, home, PathBuf::new(), included, GitFacts::default());
        let commands = Commands {
            discovery: discovery.to_owned(),
            call: options.settings.tools.call_command.as_ref().map(|command| command.value.clone()),
            policy: options.policy.clone(),
            facts: facts.clone(),
        };
        let listed = match discover(commands, runner).await {
            Ok(listed) => listed,
            Err(problem) => return self.warnings.push(problem.to_string()),
        };
        for tool in listed {
            let name = tool.own_name().to_owned();
            if !options.policy.authorize(&name, &[tool.access()], &facts).0.is_allowed() {
                let listed = if tool_named(&name).is_some() { format!("{DISCOVERED}{name}") } else { name.clone() };
                self.warnings.push(format!(
                    "the discovered tool {name} is left out: allow it with --allowed-tools {listed}, or \
                     `discovered_tools.allow` in a policy file"
                ));
            } else if let Err(other) = add_discovered(&mut self.registry, tool) {
                self.warnings.push(format!("the discovered tool {name} is left out: {other} has the same name"));
            }
            self.discovered.push(name);
        }
    }
}

/// Adds a discovered tool under its own name, or if that is a name or alias of a built-in tool, under a longer one.
/// Returns the longer name if it is taken as well.
fn add_discovered(registry: &mut Toolbox, tool: Discovered) -> Result<(), String> {
    let tool = Arc::new(tool);
    if registry.add_foreign(Arc::clone(&tool) as Arc<dyn Tool>, &[]) {
        return Ok(());
    }
    let longer = tool.renamed(format!("{DISCOVERED}{}", tool.own_name()));
    let name = longer.spec().name;
    if registry.add_foreign(Arc::new(longer), &[]) { Ok(()) } else { Err(name) }
}

/// Reads the texts of a directory of the workspace from the trusted commit, by their paths below the workspace.
fn of_commit(
    options: &ToolOptions<'_>,
    workspace: &Workspace,
    folder: &str,
    ending: &str,
) -> Vec<(String, Result<String, String>)> {
    let Some(library) = Folder::of_project(options.project, options.top, options.home, options.policy) else {
        return Vec::new();
    };
    let Some(below) = RelPath::below(options.top, workspace.root()) else { return Vec::new() };
    let Some(folder) = below.join(folder) else { return Vec::new() };
    let files = library.files(&folder, &[ending], MOST).into_iter();
    files
        .map(|path| {
            let shown = RelPath::below(below.as_path(), path.as_path())
                .map_or_else(|| path.to_string_lossy(), |below| below.to_string_lossy());
            (shown, library.read(&path))
        })
        .collect()
}
