//! Tests that a command gets only what its decision names: the kernel enforces it even if a table is wrong.

use std::net::TcpListener;
use std::sync::Arc;

use qwen_run::checkouts::Around;
use qwen_run::git::Checkout;
use qwen_run::policy::{Facts, LayerText, Policy};
use qwen_run::run::runner::{Runner, RunnerOptions};
use qwen_run::tools::{CommandReport, CommandRequest, CommandRunner, Variables};
use qwen_run::workspace::Workspace;

use super::containing::CONNECT;
use super::*;
use crate::support::program;

const READER: SandboxProfile =
    SandboxProfile { tree: TreeAccess::ReadOnly, network: Network::None, git: GitAccess::None };

/// A repository with a runner of commands whose policy opens the network, and whoever listens there.
struct Fixture {
    place: Place,
    runner: Runner,
    workspace: Arc<Workspace>,
    listener: TcpListener,
}

impl Fixture {
    /// `None` where the machine cannot give the tier, which is said aloud.
    fn new(tier: Tier) -> Option<Fixture> {
        let place = Place::new();
        place.sandbox(tier)?;
        let file = |name: &str, text: &str| std::fs::write(place.at("project").join(name), text).unwrap();
        file("README.md", "# read me\n");
        file("src/main.rs", "fn main() {}\n");
        file(".env", "TOKEN=hunter2hunter2\n");
        file("notes.json", "{\"a\": 1}\n");
        let git = |words: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words).current_dir(place.at("project"));
            assert!(git.env("HOME", place.at("home")).output().unwrap().status.success(), "{words:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "-f", "README.md", "src", "notes.json", "a.txt"]);
        git(&["commit", "-qm", "first"]);
        let root = place.at("project");
        let workspace = Arc::new(Workspace::open(&root).unwrap());
        let text = "version: 1\nname: open\nextends: builtin:open\nnetwork: {shell: any}\n".to_owned();
        let layer = LayerText { name: "open.yaml".into(), text, standing: qwen_run::policy::Standing::Operator };
        let policy = Policy::new(&layer, &[], &qwen_run::policy::layers::no_parents).unwrap();
        let facts = Facts {
            root: root.clone(),
            included: Vec::new(),
            outputs: None,
            home: place.at("home").display().to_string(),
            tree: Arc::clone(&workspace) as Arc<dyn qwen_run::path::Tree>,
            git: qwen_run::policy::GitFacts::default(),
        };
        let environment: BTreeMap<OsString, OsString> =
            [("PATH".into(), place.path.clone()), ("HOME".into(), place.at("home").into())].into();
        let around = Around::new(&root, &root, Some(&place.at("home")));
        let checkout = Checkout::open(around, Some(&place.path), None).unwrap();
        let runner = Runner::new(RunnerOptions {
            workspace: Arc::clone(&workspace),
            checkout,
            policy,
            facts,
            demand: Demand::AtMost(tier),
            environment,
            helper: program().into(),
            ignored_outputs: false,
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Some(Fixture { runner: runner.unwrap(), place, workspace, listener })
    }

    fn run(&self, text_of: &str, profile: SandboxProfile) -> CommandReport {
        let plan = CommandPlan { profile, programs: vec!["git".into()], ..script(text_of) };
        let request =
            CommandRequest { timeout: Duration::from_secs(60), background: false, variables: Variables::default() };
        wait(self.runner.run(&plan, request)).unwrap()
    }

    fn connect(&self) -> String {
        format!("{CONNECT} inet tcp {}", self.listener.local_addr().unwrap().port())
    }

    /// Everything that is on the disk of the project and of its neighbours.
    fn state(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        use std::os::unix::fs::PermissionsExt;
        let mut found = BTreeMap::new();
        let mut ahead = vec![self.place.at("project"), self.place.at("outside"), self.place.at("home")];
        while let Some(folder) = ahead.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let metadata = entry.path().symlink_metadata().unwrap();
                let content = match metadata.is_dir() {
                    true => Vec::new(),
                    false => std::fs::read(entry.path()).unwrap_or_default(),
                };
                if metadata.is_dir() {
                    ahead.push(entry.path());
                }
                found.insert(entry.path(), (metadata.permissions().mode(), content));
            }
        }
        found
    }

    /// Runs what a table took for a reader, and asserts that nothing came of it.
    fn is_harmless(&self, tier: Tier, what: &str, command: &str) -> String {
        let before = self.state();
        let report = self.run(command, READER);
        let said = String::from_utf8_lossy(&[report.stdout.clone(), report.stderr].concat()).into_owned();
        assert_eq!(report.changed, Vec::<String>::new(), "{tier:?} {what}: {said}");
        assert!(!report.notes.concat().contains("taken back"), "{tier:?} {what}: {:?} {said}", report.notes);
        assert!(self.workspace.changes().is_empty(), "{tier:?} {what}: {said}");
        assert!(self.state() == before, "{tier:?} {what}: the project or its neighbours changed: {said}");
        assert!(self.listener.accept().is_err(), "{tier:?} {what}: the network was reached: {said}");
        assert!(!said.contains("hunter2hunter2"), "{tier:?} {what}: {said}");
        said
    }
}

fn each_bench(with: impl Fn(&Fixture, Tier)) {
    for tier in [Tier::T2, Tier::T3] {
        if let Some(fixture) = Fixture::new(tier) {
            with(&fixture, tier);
        }
    }
}

#[test]
fn a_table_s_lie_costs_nothing_where_the_kernel_holds() {
    each_bench(|fixture, tier| {
        // What earlier commands left is in the tree, too.
        fixture.run("true", SandboxProfile { tree: TreeAccess::Writable, ..READER });
        for lie in [
            "echo x > new",
            "echo x | tee a.txt",
            "sh -c 'echo x >> README.md'",
            "rm -f a.txt",
            "mv a.txt b.txt",
            "mkdir d",
            "ln -s /etc l",
            "ln a.txt hard",
            "chmod 755 a.txt",
            "chmod 000 src",
            "touch -d @0 a.txt",
            "truncate -s 0 a.txt",
            "mknod pipe p",
            "echo x >> .git/config",
            "echo x > .git/hooks/pre-commit",
            "mkdir -p .git/refs/heads/x",
            "git -c user.name=a -c user.email=a@b commit --allow-empty -m x",
            "git config core.fsmonitor 'touch pwned'",
            "git log --format=%s",
            "python3 -c 'open(\"py\", \"w\").write(\"x\")'",
        ] {
            let said = fixture.is_harmless(tier, lie, &format!("({lie}) >\"$TMPDIR/out\" 2>&1 && echo WORKED; true"));
            assert!(!said.contains("WORKED"), "{tier:?} {lie}: {said}");
        }
        let said = fixture.is_harmless(tier, "network", &fixture.connect());
        assert!(!said.contains("reached"), "{tier:?}: {said}");
        let honest = "cat a.txt && echo h > \"$HOME/h\" && echo t > \"$TMPDIR/t\" && cat \"$HOME/h\" \"$TMPDIR/t\"";
        assert_eq!(fixture.is_harmless(tier, "honest", honest), "project\nh\nt\n", "{tier:?}");
    });
}

#[test]
fn a_command_gets_what_its_decision_names_and_no_more() {
    each_bench(|fixture, tier| {
        let said = |text_of: &str, profile: SandboxProfile| {
            let report = fixture.run(text_of, profile);
            String::from_utf8_lossy(&[report.stdout, report.stderr].concat()).into_owned()
        };
        let any = SandboxProfile { network: Network::Any, ..READER };
        assert_eq!(said(&fixture.connect(), any), "reached\n", "{tier:?}");
        let reads_git = SandboxProfile { git: GitAccess::ReadOnly, ..READER };
        assert_eq!(said("git log --format=%s", reads_git.clone()), "first\n", "{tier:?}");
        assert!(!said("git commit -q --allow-empty -m x && echo WORKED", reads_git).contains("WORKED"), "{tier:?}");
        let writes_git = SandboxProfile { git: GitAccess::Scratch, ..READER };
        let commit = "git commit -q --allow-empty -m second && git log --format=%s; echo x > new && echo WORKED";
        let answer = said(commit, writes_git.clone());
        assert!(answer.starts_with("second\nfirst\n") && !answer.contains("WORKED"), "{tier:?}: {answer}");
        let writes = SandboxProfile { tree: TreeAccess::Writable, ..READER };
        let report = fixture.run("echo x > new", writes.clone());
        assert_eq!(report.changed, ["new"], "{tier:?}: {:?}", report.notes);
        if tier == Tier::T3 {
            // Where only mounts can tell a part of the tree from the rest.
            assert!(!said("echo x >> .git/config && echo WORKED", writes).contains("WORKED"), "{tier:?}");
        }
        assert_eq!(std::fs::read(fixture.place.at("project/a.txt")).unwrap(), b"project\n");
    });
}

#[test]
fn an_overlay_is_as_read_only_as_a_copy() {
    let place = Place::new();
    let Some(sandbox) = place.sandbox(Tier::T3).filter(|sandbox| sandbox.confinement().has_overlay()) else {
        aloud("NOT TESTED: this machine mounts no overlay");
        return;
    };
    let (upper, work) = (place.at("private/upper"), place.at("private/work"));
    std::fs::create_dir(&upper).unwrap();
    std::fs::create_dir(&work).unwrap();
    let tree = qwen_run::sandbox::CommandRoot::Overlay { project: place.at("project"), upper: upper.clone(), work };
    let request = RunRequest { tree, ..place.request() };
    let plan = CommandPlan { profile: READER, ..script("cat a.txt; echo x > a.txt; echo x > new; rm -f a.txt") };
    let output = run(&sandbox, &plan, request);
    assert_eq!(text(&output.stdout), "project\n", "{}", text(&output.stderr));
    assert_eq!(std::fs::read_dir(upper).unwrap().count(), 0);
}

/// Ways around a table that were found by attack: each is run as the reader that the table took it for.
#[test]
fn known_bypasses_of_tables_do_nothing() {
    let cases = include_str!("../../fixtures/policies/bypasses.jsonl");
    let cases: Vec<serde_json::Value> = cases.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    each_bench(|fixture, tier| {
        for case in &cases {
            let (id, command) = (case["id"].as_str().unwrap(), case["command"].as_str().unwrap());
            let command = command.replace("PORT", &fixture.listener.local_addr().unwrap().port().to_string());
            let said = fixture.is_harmless(tier, id, &command);
            assert!(!said.contains("PRIVATE KEY") && !said.contains("SECRET\n"), "{tier:?} {id}: {said}");
        }
    });
}

#[test]
fn a_decision_names_no_more_than_its_command_needs() {
    let fixture = Place::new();
    let root = fixture.at("project");
    let workspace = Arc::new(Workspace::open(&root).unwrap());
    let facts = Facts {
        root,
        included: Vec::new(),
        outputs: None,
        home: "/h".into(),
        tree: workspace as Arc<dyn qwen_run::path::Tree>,
        git: qwen_run::policy::GitFacts::default(),
    };
    let text = "version: 1\nname: p\nextends: builtin:ci-dev\nnetwork: {shell: any}\npaths: {write: {allow: [\"**\"]}}\nshell:\n  \
                allow:\n    - {cmd: [git, [status, add, log, fetch]]}\n    - {cmd: [cat]}\n    - {cmd: [sed]}\n    - {cmd: [touch]}\n    \
                - {cmd: [cargo, test]}\n    - {cmd: [awk]}\n    - {cmd: [look], operands: read}\n    - {cmd: [gen], operands: data}\n";
    let layer = LayerText { name: "p.yaml".into(), text: text.into(), standing: qwen_run::policy::Standing::Operator };
    let policy = Policy::new(&layer, &[], &qwen_run::policy::layers::no_parents).unwrap();
    let of = |command: &str| {
        let access = qwen_run::policy::Access::Run { command: command.into(), directory: None };
        let (decision, grant) = policy.authorize("run_shell_command", &[access], &facts);
        let grant = grant.unwrap_or_else(|| panic!("{command}: {}", decision.reason));
        let plan = grant.command().unwrap();
        (plan.profile.tree, plan.profile.git, plan.profile.network.clone(), plan.isolation)
    };
    let (reads, writes) = (TreeAccess::ReadOnly, TreeAccess::Writable);
    let (plain, usual) = (Isolation::None, Isolation::Waivable);
    for (command, tree, git, network, isolation) in [
        ("cat a.txt", reads, GitAccess::None, Network::None, plain),
        ("cat a.txt | cat", reads, GitAccess::None, Network::None, plain),
        ("git status", reads, GitAccess::ReadOnly, Network::None, plain),
        ("git add a.txt", reads, GitAccess::Scratch, Network::None, usual),
        ("git fetch origin", reads, GitAccess::Scratch, Network::Any, usual),
        ("cat a.txt > b.txt", writes, GitAccess::None, Network::None, usual),
        ("sed -n 1p a.txt", reads, GitAccess::None, Network::None, usual),
        ("sed -i s/a/b/ a.txt", writes, GitAccess::None, Network::None, usual),
        ("touch b.txt", writes, GitAccess::None, Network::None, usual),
        ("timeout 5 cat a.txt", reads, GitAccess::None, Network::None, usual),
        ("cargo test", writes, GitAccess::Scratch, Network::Any, usual),
        ("look a.txt", reads, GitAccess::ReadOnly, Network::Any, usual),
        ("gen x", writes, GitAccess::Scratch, Network::Any, usual),
    ] {
        assert_eq!(of(command), (tree, git, network, isolation), "{command}");
    }
}
