//! Contains what the tests of the tools share: a workspace with files, a grant, and a call run to its end.

mod documented;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::*;
use crate::base::trace::Context;
use crate::model::{BoxFuture, Part};
use crate::path::RelPath;
use crate::policy::{Access, Grant};
use crate::workspace::Workspace;

/// Limits as a run has them by default.
pub(crate) fn limits(outputs: &Path) -> ToolLimits {
    ToolLimits {
        shell_timeout: Duration::from_secs(120),
        shell_timeout_max: Duration::from_secs(600),
        output_chars: 25_000,
        output_lines: 2_000,
        outputs: outputs.to_path_buf(),
    }
}

/// A workspace of its own for one test.
pub(crate) struct Project {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) workspace: Workspace,
    pub(crate) memory: RunMemory,
    pub(crate) media: bool,
    pub(crate) text_tools: bool,
}

impl Project {
    /// Makes a workspace of these files; a name that ends in `/` is a directory.
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Project {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            if name.ends_with('/') {
                std::fs::create_dir_all(path).unwrap();
            } else {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, content).unwrap();
            }
        }
        let workspace = Workspace::open(folder.path()).unwrap();
        Project { folder, workspace, memory: RunMemory::default(), media: true, text_tools: false }
    }

    /// Replaces a file on the disk, behind the run's back.
    pub(crate) fn on_disk(&self, name: &str, content: &[u8]) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    /// Returns a file of the staged view.
    pub(crate) fn staged(&self, name: &str) -> Option<Vec<u8>> {
        self.workspace.entry(&RelPath::new(name).unwrap()).unwrap().content().map(<[u8]>::to_vec)
    }

    /// Grants what a call declares, as a policy without any rule would.
    pub(crate) fn grant(&self, call: &dyn Call) -> Grant {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for access in call.accesses() {
            match access {
                Access::Read { path } | Access::List { path } => reads.push(path),
                Access::Search { root, .. } => reads.push(root),
                Access::Write { path } | Access::Memory { path } => {
                    reads.push(path.clone());
                    writes.push(path);
                }
                Access::Run { .. } | Access::Fetch { .. } | Access::Mcp { .. } | Access::Discovered { .. } => {}
            }
        }
        let root = self.workspace.root();
        let resolve = |paths: &[PathBuf]| -> Vec<(String, String)> {
            paths
                .iter()
                .map(|given| {
                    let absolute = common::names::absolute(root, given);
                    let absolute = absolute.canonicalize().unwrap_or(absolute);
                    let relative = RelPath::below(root, &absolute).unwrap_or_default();
                    (given.to_str().unwrap().to_owned(), relative.as_path().to_str().unwrap().to_owned())
                })
                .collect()
        };
        let (reads, writes) = (resolve(&reads), resolve(&writes));
        fn borrow(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
            pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect()
        }
        Grant::for_tests(&borrow(&reads), &borrow(&writes), |path| path.file_name() != Some(".env".as_ref()))
    }

    /// Runs a call under a grant for what it declares.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        self.call_with(tool, arguments, &NoRunner)
    }

    pub(crate) fn call_with(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        runner: &dyn CommandRunner,
    ) -> Result<ToolOutput, ToolError> {
        self.call_of(&Toolbox::of_built_ins(), tool, arguments, runner)
    }

    pub(crate) fn call_of(
        &self,
        toolbox: &Toolbox,
        tool: &str,
        arguments: Map<String, Value>,
        runner: &dyn CommandRunner,
    ) -> Result<ToolOutput, ToolError> {
        let prepared = toolbox.parse(tool, arguments)?;
        let grant = self.grant(prepared.call.as_ref());
        let outputs = tempfile::tempdir().unwrap();
        let limits = limits(outputs.path());
        let cx = ToolContext {
            workspace: &self.workspace,
            memory: &self.memory,
            limits: &limits,
            runner,
            text_tools: self.text_tools,
            media: self.media,
            traced: &Context::NONE,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(prepared.call.run(&grant, &cx))
    }

    /// Returns what the model sees of a call, error or not, with the workspace's path as `/p`.
    pub(crate) fn says(&self, tool: &str, arguments: Value) -> String {
        let text = match self.call(tool, arguments) {
            Ok(output) => Part::text_of(&output.llm_content),
            Err(error) => error.message,
        };
        text.replace(self.workspace.root().to_str().unwrap(), "/p")
    }
}

/// A runner for tests in which no command runs.
pub(crate) struct NoRunner;

impl CommandRunner for NoRunner {
    fn run<'a>(
        &'a self,
        _plan: &'a crate::policy::CommandPlan,
        _request: CommandRequest,
    ) -> BoxFuture<'a, Result<CommandReport, ToolError>> {
        Box::pin(async { Err(ToolError::failed("no command runs here")) })
    }
}
