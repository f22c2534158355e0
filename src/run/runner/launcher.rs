//! Starts the programs of MCP servers inside the sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use std::time::Duration;

use crate::base::private_file;
use crate::base::trace::{Context, Trace};
use crate::git::Programs;
use crate::model::BoxFuture;
use crate::path::RelPath;
use crate::policy::grant::{GitAccess, Isolation, SandboxProfile, Start, TreeAccess};
use crate::policy::web::host_matches;
use crate::policy::{CommandPlan, Policy};
use crate::sandbox::{
    self, BindMount, Confinement, Demand, Lifeline, Names, Network, RunRequest, Sandbox, SandboxOptions,
};
use crate::tools::mcp::launch::Process;
use crate::tools::mcp::{Config, Connect, Launched, Launcher, Program, with_path};
use crate::workspace::disk::Disk;

/// What servers' programs are started with.
pub struct Place {
    /// The policy: network and writable directories of each server.
    pub policy: Policy,
    /// The workspace.
    pub workspace: PathBuf,
    /// Their command workspace, and what else they must be able to read.
    pub tree: (PathBuf, Vec<PathBuf>),
    /// Directories that are seen at another path.
    pub mounts: Vec<BindMount>,
    /// Paths in the tree that cannot be written.
    pub read_only: Vec<PathBuf>,
    /// Paths in the tree that cannot be read.
    pub hidden: Vec<PathBuf>,
    /// Whether programs see the tree at the workspace's own path.
    pub seen_at_home: bool,
    /// A private directory of the run.
    pub private: PathBuf,
    /// The required isolation.
    pub demand: Demand,
    /// The programs of the machine.
    pub programs: Programs,
    /// The environment that this process was started with.
    pub environment: BTreeMap<OsString, OsString>,
    /// This program's executable.
    pub helper: PathBuf,
}

/// Starts the programs of servers inside the sandbox.
pub struct SandboxLauncher {
    place: Place,
    /// One for each network that a server may reach, with the name of its directory.
    sandboxes: tokio::sync::Mutex<Vec<(Network, PathBuf, Arc<Sandbox>)>>,
    /// What programs are told of the trace.
    traced: Context,
}

impl SandboxLauncher {
    /// Returns where programs see the workspace.
    pub fn root(&self) -> PathBuf {
        if self.place.seen_at_home { self.place.workspace.clone() } else { self.place.tree.0.clone() }
    }

    /// Creates a launcher; nothing is started.
    pub fn new(place: Place) -> SandboxLauncher {
        SandboxLauncher { place, sandboxes: tokio::sync::Mutex::default(), traced: Context::NONE }
    }

    /// Tells the programs of a trace.
    #[must_use]
    pub fn tracing(self, trace: Option<&Trace>) -> SandboxLauncher {
        SandboxLauncher { traced: trace.map(Trace::context_of_run).unwrap_or_default(), ..self }
    }

    /// Returns what a server may reach: as the policy says, else everything for the user's own servers and nothing for
    /// others.
    fn network(&self, config: &Config) -> Network {
        let default = if config.is_operators() { Network::Any } else { Network::None };
        self.place.policy.mcp_network(&config.name, default)
    }

    /// Returns the sandbox for a network, and its directory; the first call makes it.
    async fn sandbox(&self, network: Network) -> Result<(Arc<Sandbox>, PathBuf), String> {
        let mut made = self.sandboxes.lock().await;
        if let Some((_, folder, sandbox)) = made.iter().find(|(known, ..)| *known == network) {
            return Ok((Arc::clone(sandbox), folder.clone()));
        }
        let private = self.place.private.join(match &network {
            Network::Any => "mcp-open".to_owned(),
            Network::None => "mcp".to_owned(),
            Network::Hosts(_) => format!("mcp-{}", made.len()),
        });
        private_file::folder(&private).map_err(|error| format!("{}: {error}", private.display()))?;
        let env = self.place.policy.env();
        let confinement = Confinement::detect(self.place.demand, network.clone(), &self.place.helper, &private);
        let sandbox = Sandbox::new(SandboxOptions {
            confinement: confinement.map_err(|error| error.to_string())?,
            programs: self.place.programs.clone(),
            helper: self.place.helper.clone(),
            private: private.clone(),
            workspace: self.place.workspace.clone(),
            environment: self.place.environment.clone(),
            disk: &Disk,
            read_system: self.place.policy.read_system().into_iter().map(PathBuf::from).collect(),
            names: Names::of_the_system(),
            env_pass: env.pass.into_iter().map(|passed| passed.0).collect(),
            env_set: env.set.into_iter().collect(),
        });
        let sandbox = Arc::new(sandbox.map_err(|error| error.to_string())?);
        made.push((network, private.clone(), Arc::clone(&sandbox)));
        Ok((sandbox, private))
    }

    async fn start(&self, config: &Config, program: &Program) -> Result<Launched, String> {
        let network = self.network(config);
        let (sandbox, private) = self.sandbox(network.clone()).await?;
        let (write, writes_tree) = self.writable(config);
        let plan = self.plan(program, network, writes_tree)?;
        let request = self.request(config, program, write, &private);
        let piped = sandbox.pipe(&plan, request).await.map_err(|error| error.to_string())?;
        let note = (!sandbox.tier().isolates()).then(|| format!("it runs {}", sandbox.confinement().describe()));
        Ok(Launched {
            stdin: Box::new(piped.stdin),
            stdout: Box::new(piped.stdout),
            stderr: Box::new(piped.stderr),
            process: Box::new(Alive(piped.lifeline)),
            note,
        })
    }

    /// Returns a text that names the workspace as the server sees it.
    fn as_seen(&self, text: &str) -> String {
        self.moved().map_or_else(|| text.to_owned(), |(from, to)| with_path(text, &from, &to))
    }

    /// Returns the directories that a server may write, and whether it writes in the tree.
    ///
    /// In namespaces a single directory of the tree cannot be made writable: writes elsewhere are judged afterwards.
    fn writable(&self, config: &Config) -> (Vec<PathBuf>, bool) {
        let (workspace, tree) = (&self.place.workspace, &self.place.tree.0);
        let (mut write, mut writes_tree) = (Vec::new(), false);
        for folder in self.place.policy.mcp_write(&config.name) {
            let folder = workspace.join(folder);
            let inside = folder.strip_prefix(workspace).ok().map(|below| tree.join(below));
            writes_tree |= inside.is_some();
            write.push(inside.unwrap_or(folder));
        }
        if self.place.seen_at_home {
            write.retain(|folder| !folder.starts_with(tree));
        }
        (write, writes_tree)
    }

    fn plan(&self, program: &Program, network: Network, writes_tree: bool) -> Result<CommandPlan, String> {
        let cwd = program.cwd.as_ref().map(|cwd| self.place.workspace.join(cwd));
        let below = |cwd: &PathBuf| cwd.strip_prefix(&self.place.workspace).ok().and_then(RelPath::new);
        let directory = match &cwd {
            None => RelPath::root(),
            Some(cwd) => below(cwd).ok_or_else(|| format!("cwd {} is outside the workspace", cwd.display()))?,
        };
        let words = std::iter::once(program.command.clone()).chain(program.args.iter().map(|text| self.as_seen(text)));
        Ok(CommandPlan {
            directory,
            start: Start::Pipeline(vec![words.collect()]),
            form: None,
            named: Vec::new(),
            profile: SandboxProfile {
                tree: if self.place.seen_at_home && writes_tree { TreeAccess::Writable } else { TreeAccess::ReadOnly },
                network,
                git: GitAccess::ReadOnly,
            },
            // The author of the settings named it; a warning is shown if nothing isolates it.
            isolation: Isolation::None,
            programs: vec![program.command.clone()],
            unchanged: Vec::new(),
        })
    }

    fn request(&self, config: &Config, program: &Program, write: Vec<PathBuf>, private: &Path) -> RunRequest {
        let (tree, mut read) = self.place.tree.clone();
        if config.is_operators() {
            let home = self.place.environment.get(std::ffi::OsStr::new("HOME")).map(Path::new);
            read.extend(named_by(program, home));
        }
        let mut variables: Vec<(String, String)> = Vec::new();
        if !self.place.seen_at_home {
            // A read-only cache is of no use to a program that must download a server first.
            variables.push(("npm_config_cache".into(), private.join("home/.npm").display().to_string()));
        }
        variables.extend(self.traced.variables());
        variables.extend(program.env.iter().map(|(name, value)| (name.clone(), self.as_seen(value))));
        RunRequest {
            seen_at: Some(self.place.workspace.clone()),
            read,
            write,
            mounts: self.place.mounts.clone(),
            read_only: self.place.read_only.clone(),
            hidden: self.place.hidden.clone(),
            variables,
            ..RunRequest::in_folder(tree, Duration::MAX)
        }
    }
}

/// Returns the paths that a command line names and that must therefore be readable.
fn named_by(program: &Program, home: Option<&Path>) -> Vec<PathBuf> {
    let words = std::iter::once(&program.command).chain(&program.args);
    let values = words.map(|word| word.split_once('=').map_or(word.as_str(), |(_, value)| value));
    sandbox::named::shown(values.map(Path::new), home)
}

struct Alive(Lifeline);

impl Process for Alive {
    fn ended<'a>(&'a mut self) -> BoxFuture<'a, Option<i32>> {
        Box::pin(self.0.ended())
    }
}

impl Launcher for SandboxLauncher {
    fn launch<'a>(&'a self, config: &'a Config) -> BoxFuture<'a, Result<Launched, String>> {
        Box::pin(async move {
            match &config.connect {
                Connect::Stdio(program) => self.start(config, program).await,
                Connect::Http(_) | Connect::Sse(_) => Err("it is not a program".to_owned()),
            }
        })
    }

    fn moved(&self) -> Option<(String, String)> {
        let (from, to) = (self.place.workspace.to_str()?, self.place.tree.0.to_str()?);
        (!self.place.seen_at_home).then(|| (from.to_owned(), to.to_owned()))
    }

    fn refuses(&self, config: &Config, host: &str) -> Option<String> {
        match self.network(config) {
            Network::Any => None,
            Network::Hosts(hosts)
                if hosts.iter().any(|rule| host_matches(&rule.to_lowercase(), &host.to_lowercase())) =>
            {
                None
            }
            Network::Hosts(_) | Network::None => {
                Some(format!("`mcp.servers.{}.network` of the policy does not allow {host}", config.name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_line_names_is_readable_and_the_home_folder_never_is() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        for file in ["pkg/package.json", "pkg/dist/index.js", "alone.py", "data/x"] {
            private_file::replace(&home.join(file), b"", None).unwrap();
        }
        let program = |args: &[&str]| Program {
            command: "node".into(),
            args: args.iter().map(|arg| arg.replace("~", home.to_str().unwrap())).collect(),
            cwd: None,
            env: BTreeMap::new(),
        };
        let read = |args: &[&str]| -> Vec<String> {
            let mut read: Vec<String> = named_by(&program(args), Some(&home))
                .into_iter()
                .map(|path| path.strip_prefix(&home).unwrap().display().to_string())
                .collect();
            read.dedup();
            read
        };
        assert_eq!(read(&["~/pkg/dist/index.js"]), ["pkg"]);
        assert_eq!(read(&["~/alone.py", "--root=~/data"]), ["alone.py", "data"]);
        assert_eq!(read(&["~", "/", "/etc", "no/path"]), [] as [&str; 0]);
    }
}
