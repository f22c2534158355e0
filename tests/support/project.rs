//! Provides a project in a directory of its own, with its own home, and runs the program in it.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::program;
use super::server::{Reply, Server};

/// A temporary project: `work/` is the workspace, `home/` the home.
pub(crate) struct Project {
    folder: tempfile::TempDir,
    server: Option<Server>,
    environment: Vec<(String, String)>,
    stdin: Option<Vec<u8>>,
}

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stdout_bytes: Vec<u8>,
    pub(crate) stderr: String,
    /// The result object of `--result-file`, which every run gets.
    pub(crate) result: Value,
}

impl Project {
    pub(crate) fn new() -> Project {
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        std::fs::create_dir(folder.path().join("work")).unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        std::fs::write(folder.path().join("home/.gitconfig"), "[user]\n\tname = A\n\temail = a@example.com\n").unwrap();
        Project { folder, server: None, environment: Vec::new(), stdin: None }
    }

    /// Returns the workspace.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns the home directory.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns a path next to the workspace.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the workspace.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Project {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Writes an executable file of the workspace.
    pub(crate) fn executable(self, path: &str, content: &str) -> Project {
        let project = self.file(path, content);
        std::fs::set_permissions(project.root().join(path), std::fs::Permissions::from_mode(0o755)).unwrap();
        project
    }

    /// Writes a policy file outside the workspace; runs name it with `--policy`.
    pub(crate) fn policy(self, text: &str) -> Project {
        std::fs::write(self.beside("policy.yaml"), text).unwrap();
        let file = self.beside("policy.yaml").display().to_string();
        self.env("QWEN_POLICY", &file)
    }

    /// Makes the workspace a repository with everything in it committed.
    pub(crate) fn git(self) -> Project {
        self.run_git(&["init", "-q", "-b", "main", "."]);
        self.run_git(&["add", "-A"]);
        self.run_git(&["commit", "-q", "--allow-empty", "-m", "start"]);
        self
    }

    /// Sets what the model answers.
    pub(crate) fn model(mut self, replies: impl IntoIterator<Item = Reply>) -> Project {
        self.server = Some(Server::start(replies));
        self
    }

    /// Sets who answers.
    pub(crate) fn served_by(mut self, server: Server) -> Project {
        self.server = Some(server);
        self
    }

    /// Sets a variable for the program.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Project {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the program's standard input.
    pub(crate) fn stdin(mut self, text: impl Into<Vec<u8>>) -> Project {
        self.stdin = Some(text.into());
        self
    }

    /// Returns the scripted server.
    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().expect("the project has a model")
    }

    /// Runs git in the workspace with a fixed identity and returns its standard output.
    pub(crate) fn run_git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(self.root())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .envs([
                ("GIT_AUTHOR_NAME", "A"),
                ("GIT_AUTHOR_EMAIL", "a@example.com"),
                ("GIT_COMMITTER_NAME", "A"),
                ("GIT_COMMITTER_EMAIL", "a@example.com"),
                ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
                ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
            ])
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the program's command line, ready to start: own home, cleared environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .current_dir(self.root())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("TMPDIR", self.folder.path());
        if let Some(server) = &self.server {
            command.env("QWEN_BASE_URL", server.base_url()).env("QWEN_MODEL", "scripted");
        }
        // What a test sets wins.
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the program and returns at once.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut child = self
            .command(arguments)
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        if let Some(text) = &self.stdin {
            let mut pipe = child.stdin.take().unwrap();
            let text = text.clone();
            std::thread::spawn(move || pipe.write_all(&text));
        }
        child
    }

    /// Runs `qwen ARGUMENTS` and waits for it.
    pub(crate) fn qwen(&self, arguments: &[&str]) -> Outcome {
        self.finish(self.spawn(arguments))
    }

    /// Runs `qwen run --result-file … ARGUMENTS` and waits for it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        let file = self.beside("result.json");
        let _gone = std::fs::remove_file(&file);
        let file = file.display().to_string();
        self.qwen(&[&["run", "--result-file", &file], arguments].concat())
    }

    /// Waits for a started program.
    pub(crate) fn finish(&self, child: Child) -> Outcome {
        let output = child.wait_with_output().expect("the program ends");
        let result = std::fs::read(self.beside("result.json"))
            .ok()
            .map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).expect("the result file is JSON"));
        Outcome {
            code: output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0)),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stdout_bytes: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            result,
        }
    }

    /// Returns a file of the workspace as text.
    pub(crate) fn read(&self, path: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.root().join(path)).expect("the file is there")).into_owned()
    }

    /// Returns every file below the workspace, `.git` included, with mode, contents and time of change.
    pub(crate) fn snapshot(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>, std::time::SystemTime)> {
        let mut found = BTreeMap::new();
        collect(&self.root(), &mut found);
        found
    }

    /// Returns the files below the workspace without `.git`, with mode and contents.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let root = self.root();
        self.snapshot()
            .into_iter()
            .filter_map(|(path, (mode, content, _))| {
                let path = path.strip_prefix(&root).ok()?.to_path_buf();
                (!path.starts_with(".git")).then_some((path, (mode, content)))
            })
            .collect()
    }
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>, std::time::SystemTime)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            collect(&path, found);
        } else {
            let content = if metadata.is_symlink() {
                std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if metadata.is_file() {
                std::fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            found.insert(path, (metadata.permissions().mode(), content, metadata.modified().unwrap()));
        }
    }
}
