//! Tests every promise about commands from inside a command.

#[cfg(target_os = "linux")]
mod containing;
mod ending;
#[cfg(target_os = "linux")]
mod escaping;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod limits;
mod starting;
mod toolchains;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use qwen_run::checkouts::Around;
use qwen_run::git::Programs;
use qwen_run::path::RelPath;
use qwen_run::policy::CommandPlan;
use qwen_run::policy::grant::{GitAccess, Isolation, SandboxProfile, Start, TreeAccess};
use qwen_run::sandbox::{
    Confinement, Demand, Names, Network, RunOutput, RunRequest, Sandbox, SandboxError, SandboxOptions, Tier,
};
use qwen_run::workspace::disk::Disk;

use crate::support::program;

/// A place with a project, a command workspace, a real home with secrets and a private directory.
struct Place {
    folder: tempfile::TempDir,
    network: Network,
    names: Names,
    path: OsString,
    env_set: Vec<(String, String)>,
    environment: Vec<(String, OsString)>,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "project/src", "tree", "tree/src", "home", "home/.ssh", "private", "outside"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        file("project/a.txt", "project\n");
        file("tree/a.txt", "tree\n");
        file("home/.ssh/id_ed25519", "PRIVATE KEY\n");
        file("outside/secret", "SECRET\n");
        let path = std::env::var_os("PATH").unwrap();
        Place {
            folder,
            network: Network::None,
            names: Names::of_the_system(),
            path,
            env_set: Vec::new(),
            environment: Vec::new(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn sandbox_with(&self, demand: Demand) -> Result<Sandbox, SandboxError> {
        let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
        environment.insert("PATH".into(), self.path.clone());
        environment.insert("HOME".into(), self.at("home").into());
        environment.insert("SECRET_TOKEN".into(), "hunter2hunter2".into());
        environment.extend(self.environment.iter().map(|(name, value)| (name.into(), value.clone())));
        let helper = program().to_path_buf();
        let around = Around::new(&self.at("project"), Path::new("."), Some(&self.at("home")));
        Sandbox::new(SandboxOptions {
            confinement: Confinement::detect(demand, self.network.clone(), &helper, &self.at("private"))?,
            helper,
            private: self.at("private"),
            workspace: self.at("project"),
            programs: Programs::new(Some(&self.path), &around),
            environment,
            disk: &Disk,
            read_system: Vec::new(),
            names: self.names.clone(),
            env_pass: Vec::new(),
            env_set: self.env_set.clone(),
        })
    }

    /// The sandbox of exactly this tier; where the machine cannot give it, says so aloud and returns nothing.
    fn sandbox(&self, tier: Tier) -> Option<Sandbox> {
        let demand = if tier == Tier::T0 { Demand::Off } else { Demand::AtMost(tier) };
        let sandbox = self.sandbox_with(demand).unwrap();
        if sandbox.tier() != tier {
            aloud(&format!(
                "NOT TESTED: this machine gives {} where {} was to be tried",
                sandbox.tier().name(),
                tier.name()
            ));
            return None;
        }
        Some(sandbox)
    }

    fn request(&self) -> RunRequest {
        RunRequest::in_folder(self.at("tree"), Duration::from_secs(60))
    }
}

/// Says what could not be tried, or what a trial found; a test that passes for want of something must not be silent.
#[expect(clippy::print_stdout, reason = "the output of a test is how it speaks")]
fn aloud(text: &str) {
    println!("{text}");
}

fn script(text: &str) -> CommandPlan {
    plan(Start::Script(text.to_owned()))
}

fn pipeline(programs: &[&[&str]]) -> CommandPlan {
    plan(Start::Pipeline(programs.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect()))
}

fn plan(start: Start) -> CommandPlan {
    let profile = SandboxProfile { tree: TreeAccess::Writable, network: Network::Any, git: GitAccess::Scratch };
    let (directory, isolation) = (RelPath::root(), Isolation::None);
    CommandPlan {
        directory,
        start,
        form: None,
        named: Vec::new(),
        profile,
        isolation,
        programs: Vec::new(),
        unchanged: Vec::new(),
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn run(sandbox: &Sandbox, plan: &CommandPlan, request: RunRequest) -> RunOutput {
    wait(sandbox.run(plan, request)).unwrap()
}

fn text(captured: &qwen_run::sandbox::Captured) -> String {
    String::from_utf8(captured.text()).unwrap()
}

/// Tells whether a process is there and running.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

/// Waits until a file has text; the test's own limit of time ends it otherwise.
fn wait_for(file: &Path) -> String {
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// The tiers that isolate, as far as this machine gives them.
#[cfg(target_os = "linux")]
fn each_tier(place: &Place, mut with: impl FnMut(&Sandbox, Tier)) {
    for tier in [Tier::T2, Tier::T3] {
        if let Some(sandbox) = place.sandbox(tier) {
            with(&sandbox, tier);
        }
    }
}

/// Runs a script and returns everything that it printed.
#[cfg(target_os = "linux")]
fn said(sandbox: &Sandbox, place: &Place, text_of: &str) -> String {
    let output = run(sandbox, &script(text_of), place.request());
    text(&output.stdout) + &text(&output.stderr)
}
