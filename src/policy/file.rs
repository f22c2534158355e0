//! Defines the policy file's keys as types that refuse everything else.

mod batch;
mod values;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::glob::Glob;
use crate::base::{Diagnostic, Spanned, document::yaml};

pub use batch::{BatchFile, ReposFile};
pub use values::{Bytes, Changes, Delivery, Element, Extends, Hosts, PassedVariable, TestCall, TimeLimit};

/// A policy file. In the policy that grants, an absent key allows nothing; in one that only restricts, it restricts
/// nothing.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// The version of this format: 1.
    pub version: u32,
    /// The policy's name, for reports.
    pub name: Option<String>,
    /// The policy that this one extends: `builtin:NAME`, or a file with its SHA-256.
    pub extends: Option<Extends>,
    /// How changes are delivered by default, and which deliveries flags may request.
    pub changes: Option<Changes>,
    /// What the run does after a denied call.
    pub on_deny: Option<OnDeny>,
    /// Built-in tools that may be called.
    pub tools: Option<Names>,
    /// Files that may be read and written.
    pub paths: Option<Paths>,
    /// Commands that may run.
    pub shell: Option<Shell>,
    /// Addresses that may be reached.
    pub network: Option<Network>,
    /// MCP servers and their tools that may be called.
    pub mcp: Option<Mcp>,
    /// Tools of the project's discovery command that may be called.
    pub discovered_tools: Option<Names>,
    /// Isolation of commands.
    pub sandbox: Option<Sandbox>,
    /// How secrets are protected.
    pub secrets: Option<Secrets>,
    /// What a run may do if its prompt contains untrusted text.
    pub untrusted_input: Option<UntrustedInput>,
    /// What the delivering job may write to GitHub.
    pub github: Option<GitHubFile>,
    /// Limits of a batch, and the repositories that it may clone.
    pub batch: Option<BatchFile>,
    /// Limits of a run.
    pub limits: Option<LimitsFile>,
    /// Calls with the expected decision; checked each time the policy is loaded.
    #[serde(default)]
    #[schemars(with = "Vec<TestCase>")]
    pub tests: Vec<Spanned<TestCase>>,
}

/// What the run does after a denied call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDeny {
    /// The run continues, and the exit code does not change.
    Continue,
    /// The run continues, and exits with 60.
    Fail,
    /// The run ends at the first denied call.
    Stop,
}

/// What the delivering job may write to GitHub.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitHubFile {
    /// What it may write [default: all of it].
    pub allow: Option<Vec<GitHubWrite>>,
    /// Labels that it may set, as globs [default: all].
    pub labels: Option<Vec<String>>,
    /// Maximum comments at lines in one review [default: 30].
    pub max_inline: Option<usize>,
}

/// A kind of thing that the delivering job writes to GitHub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GitHubWrite {
    /// Comments at lines of a pull request.
    Review,
    /// Comments below a pull request or an issue.
    Comment,
    /// Labels.
    Labels,
    /// A check at a commit.
    Check,
    /// A branch and its pull request.
    PullRequest,
    /// A commit on the branch of a pull request.
    PushHead,
}

impl GitHubWrite {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            GitHubWrite::Review => "review",
            GitHubWrite::Comment => "comment",
            GitHubWrite::Labels => "labels",
            GitHubWrite::Check => "check",
            GitHubWrite::PullRequest => "pull_request",
            GitHubWrite::PushHead => "push_head",
        }
    }
}

/// Names of tools.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// Allowed.
    #[schemars(with = "Option<Vec<String>>")]
    pub allow: Option<Vec<Spanned<String>>>,
    /// Denied.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<Spanned<String>>,
}

/// Rules on files.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paths {
    /// Files that may be read.
    pub read: Option<ReadPaths>,
    /// Files that may be written.
    pub write: Option<WritePaths>,
    /// Additions to the files that are always protected, and exceptions.
    pub protected: Option<Protected>,
}

/// Files that may be read, as globs relative to the workspace.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadPaths {
    /// Allowed.
    #[schemars(with = "Option<Vec<String>>")]
    pub allow: Option<Vec<Spanned<String>>>,
    /// Denied.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<Spanned<String>>,
}

/// Files that may be written, as globs relative to the workspace.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WritePaths {
    /// Allowed.
    #[schemars(with = "Option<Vec<String>>")]
    pub allow: Option<Vec<Spanned<String>>>,
    /// Denied.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<Spanned<String>>,
    /// Whether files may be created [default: true].
    pub create: Option<bool>,
    /// Whether files may be deleted [default: true].
    pub delete: Option<bool>,
    /// Whether a file may become executable [default: false].
    pub exec_bit: Option<bool>,
    /// Whether symbolic links may be created or changed [default: false].
    pub symlinks: Option<bool>,
    /// Maximum files that a run may change [default: 200].
    pub max_files: Option<u64>,
    /// Maximum total size of the changed files [default: 10MiB].
    pub max_bytes: Option<Bytes>,
}

/// Additions to the built-in list of protected files, and exceptions.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Protected {
    /// Globs of additional protected files.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub add: Vec<Spanned<String>>,
    /// Globs of files that are no longer protected; only in a policy that grants, and never `.git`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub remove: Vec<Spanned<String>>,
}

/// The decision where no rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DefaultRule {
    /// Allowed unless a rule denies it.
    Allow,
    /// Denied unless a rule allows it.
    Deny,
}

/// What happens to a command that cannot be analysed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unanalysable {
    /// The command is denied.
    Deny,
    /// The command runs as written, isolated and without network; only in a policy that grants.
    Sandboxed,
}

/// Rules on commands.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// The decision for commands that no rule names [default: deny].
    pub default: Option<DefaultRule>,
    /// What happens to commands that cannot be analysed [default: deny].
    pub unanalysable: Option<Unanalysable>,
    /// Maximum time limit of a command.
    pub timeout: Option<TimeLimit>,
    /// Environment variables of commands.
    pub env: Option<Env>,
    /// Rules that allow commands.
    #[schemars(with = "Option<Vec<CommandRule>>")]
    pub allow: Option<Vec<Spanned<CommandRule>>>,
    /// Rules that deny commands.
    #[serde(default)]
    #[schemars(with = "Vec<CommandRule>")]
    pub deny: Vec<Spanned<CommandRule>>,
}

/// Environment variables of commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Env {
    /// Variables that commands inherit, and that a command line may set; `NAME=VALUE`: one that it may set to this value.
    #[serde(default)]
    pub pass: Vec<PassedVariable>,
    /// Variables that are set, with their values.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

/// A rule that allows or denies commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// The first words of the command; a list matches any one of its words.
    pub cmd: Vec<Element>,
    /// Options that the rule allows, or for which it denies.
    pub options: Option<Options>,
    /// What the operands are [default: none].
    pub operands: Option<OperandKind>,
    /// The words after `cmd`, each with its allowed values; nothing else may follow.
    pub args: Option<Vec<Element>>,
    /// Maximum words after the program.
    pub max_args: Option<usize>,
    /// SHA-256 of a program in the workspace; checked at each start.
    pub sha256: Option<String>,
    /// The reason, shown with a denial.
    pub reason: Option<String>,
}

/// Options of a command rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Allowed options without a value.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Allowed options whose value is a path.
    #[serde(default)]
    pub paths: BTreeMap<String, PathKind>,
    /// In a deny rule: the rule matches only if the command has one of these options.
    #[serde(default)]
    pub deny: Vec<String>,
}

impl Options {
    /// Returns the options that the rule allows.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &str> {
        self.allow.iter().chain(self.paths.keys()).map(String::as_str)
    }
}

/// What an option does with its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathKind {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
}

/// What the operands of a program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperandKind {
    /// Operands are not allowed.
    None,
    /// Operands are files that are read.
    Read,
    /// Operands are files that are written.
    Write,
    /// Operands are text.
    Data,
}

/// Rules on network access.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The decision for hosts that no rule names [default: deny].
    pub default: Option<DefaultRule>,
    /// Hosts that `web_fetch` may reach, by https on port 443.
    #[schemars(with = "Option<Vec<HostRule>>")]
    pub allow: Option<Vec<Spanned<HostRule>>>,
    /// Hosts that `web_fetch` may not reach.
    #[serde(default)]
    #[schemars(with = "Vec<HostRule>")]
    pub deny: Vec<Spanned<HostRule>>,
    /// Maximum redirects [default: 3].
    pub max_redirects: Option<u32>,
    /// Maximum bytes of a query [default: 256].
    pub query_max: Option<usize>,
    /// Hosts that commands may reach [default: none].
    pub shell: Option<Hosts>,
}

/// A host, or the pages below a path of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRule {
    /// The host's name; `*.` at the beginning stands for one or more labels.
    pub host: String,
    /// A path: only pages below it match, by whole segments.
    pub path: Option<String>,
}

/// Rules on MCP servers.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    /// The decision for tools that no rule names [default: deny].
    pub default: Option<DefaultRule>,
    /// Rules by the server's name in the settings.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Server>")]
    pub servers: BTreeMap<String, Spanned<Server>>,
}

/// Rules on one MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Tools that may be called; `*` stands for any characters.
    pub allow: Option<Vec<String>>,
    /// Tools that may not be called.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Hosts that the server may reach.
    pub network: Option<Hosts>,
    /// Directories that the server may write.
    #[serde(default)]
    pub write: Vec<String>,
    /// The file that pins the definitions of the server's tools.
    pub pins: Option<String>,
    /// The decision for a tool whose definition changed, is new or has no pin.
    pub on_change: Option<DefaultRule>,
}

/// Isolation of commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// Whether the run exits with 44 if isolation is unavailable [default: false].
    pub require: Option<bool>,
    /// What happens to the ignored files that commands write [default: staged].
    pub workspace: Option<WorkspaceMode>,
    /// Maximum size of ignored directories that are copied for commands [default: 1GiB].
    pub copy_max: Option<Bytes>,
    /// Additional system directories that commands may read.
    #[serde(default)]
    pub read_system: Vec<String>,
}

/// What happens to the ignored files that commands write. Commands always work in an overlay or a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceMode {
    /// They are discarded when the run ends.
    Staged,
    /// They are delivered together with the changes; only in a policy that grants.
    InPlace,
}

/// How secrets are protected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// Whether secrets are masked before the model sees them [default: true].
    pub redact: Option<bool>,
    /// Regular expressions for additional secrets.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// The decision for a change that adds a secret [default: deny].
    pub on_write: Option<DefaultRule>,
    /// Texts that look like secrets and are none, for the rule `qwen/secret`; only in a policy that grants.
    #[serde(default)]
    pub ignore: IgnoredSecrets,
}

/// Texts that look like secrets and are none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IgnoredSecrets {
    /// Globs of files in which nothing is taken for a secret.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Digests of such texts, in hexadecimal.
    #[serde(default)]
    pub sha256: Vec<String>,
}

/// What a run may do if its prompt contains untrusted text, from the strictest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UntrustedInput {
    /// The run may read files and answer.
    AnswerOnly,
    /// It may also propose changes and run isolated commands, without a network; in CI only if somebody who may write
    /// started it.
    Propose,
    /// The run may do what the rules allow.
    Allow,
}

/// Limits of a run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsFile {
    /// Maximum wall time.
    pub wall_time: Option<TimeLimit>,
    /// Maximum turns.
    pub turns: Option<u64>,
    /// Maximum tool calls.
    pub tool_calls: Option<u64>,
    /// Maximum shell commands.
    pub shell_calls: Option<u64>,
    /// Maximum denied calls.
    pub denials: Option<u64>,
    /// Maximum equal denials in a row.
    pub same_denial: Option<u64>,
    /// Maximum cost in US dollars.
    pub cost_usd: Option<f64>,
    /// Maximum total tokens.
    pub total_tokens: Option<u64>,
}

/// A call with its expected decision: `allow` or `deny`.
#[derive(Debug, Clone, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    /// The policy must allow this call.
    pub allow: Option<TestCall>,
    /// The policy must deny this call.
    pub deny: Option<TestCall>,
}

impl PolicyFile {
    /// Reads a policy file; `file` is the name that errors carry.
    pub fn parse(file: &str, text: &str) -> Result<PolicyFile, Diagnostic> {
        let policy: PolicyFile = yaml::parse(file, text)?;
        if policy.version != 1 {
            return Err(Diagnostic::of_file(file, format!("version {} is unknown; this is version 1", policy.version)));
        }
        policy.check(file)?;
        Ok(policy)
    }

    // What types cannot say.
    pub(super) fn check(&self, file: &str) -> Result<(), Diagnostic> {
        let (shell, is_builtin) = (self.shell.as_ref(), file.starts_with("builtin:"));
        let allow = shell.and_then(|shell| shell.allow.as_deref()).unwrap_or_default();
        let deny = shell.map(|shell| shell.deny.as_slice()).unwrap_or_default();
        for (rules, allows) in [(allow, true), (deny, false)] {
            for rule in rules {
                rule.value.check(allows, is_builtin).map_err(|message| Diagnostic::at(file, rule.span, message))?;
            }
        }
        for test in &self.tests {
            if test.value.allow.is_some() == test.value.deny.is_some() {
                return Err(Diagnostic::at(file, test.span, "a test has either `allow` or `deny`"));
            }
        }
        if let Some(Extends::File { sha256, .. }) = &self.extends
            && !is_sha256(sha256)
        {
            return Err(Diagnostic::of_file(file, "`extends.sha256` is 64 hexadecimal digits"));
        }
        if let Some(ignored) = self.secrets.as_ref().map(|secrets| &secrets.ignore) {
            if let Some(sum) = ignored.sha256.iter().find(|sum| !is_sha256(sum)) {
                let text = format!("`secrets.ignore.sha256`: `{sum}` does not have 64 hexadecimal digits");
                return Err(Diagnostic::of_file(file, text));
            }
            if let Some(problem) = ignored.paths.iter().find_map(|glob| Glob::new(glob).err()) {
                return Err(Diagnostic::of_file(file, format!("`secrets.ignore.paths`: {problem}")));
            }
        }
        Ok(())
    }
}

impl CommandRule {
    fn check(&self, allows: bool, is_builtin: bool) -> Result<(), String> {
        if self.cmd.is_empty() || self.cmd.iter().any(|element| element.0.is_empty()) {
            return Err("`cmd` does not name a program".to_owned());
        }
        let words = || self.cmd.iter().flat_map(|element| &element.0);
        if let Some(word) = words().find(|word| matches!(word.as_str(), "*" | "**")) {
            return Err(format!(
                "`{word}` in `cmd` is not a pattern: write the first words; table, `options` and `operands` say what follows"
            ));
        }
        let none = Options::default();
        let options = self.options.as_ref().unwrap_or(&none);
        if !allows && (!options.allow.is_empty() || !options.paths.is_empty()) {
            return Err("a deny rule takes `options: {deny: […]}` only".to_owned());
        }
        if allows && !options.deny.is_empty() {
            return Err("`options.deny` belongs to a deny rule".to_owned());
        }
        let mut names = options.allow.iter().chain(options.paths.keys()).chain(&options.deny);
        if let Some(name) = names.find(|name| !name.starts_with('-') || name.len() < 2) {
            return Err(format!("`{name}` is not an option; options begin with `-`"));
        }
        let is_path = self.cmd[0].0.iter().any(|word| word.contains('/'));
        if allows && is_path && self.sha256.is_none() && !is_builtin {
            return Err("a program of the workspace needs its `sha256`".to_owned());
        }
        if self.sha256.as_ref().is_some_and(|sum| !is_sha256(sum)) {
            return Err("`sha256` is 64 hexadecimal digits".to_owned());
        }
        Ok(())
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn error(text: &str) -> String {
        PolicyFile::parse("p.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn every_key_of_the_page_is_read() {
        let text = include_str!("../../fixtures/policies/every-key.yaml");
        let policy = PolicyFile::parse("every-key.yaml", text).unwrap();
        let shell = policy.shell.unwrap();
        assert_eq!(shell.timeout, Some(TimeLimit(Duration::from_secs(300))));
        assert_eq!(shell.allow.unwrap()[0].value.cmd[1].0, ["status", "diff", "log", "show", "blame"]);
        assert_eq!(policy.paths.unwrap().write.unwrap().max_bytes, Some(Bytes(2 << 20)));
        assert_eq!(policy.changes.unwrap().default, Delivery::Apply);
        assert_eq!(policy.tests.len(), 4);
    }

    #[test]
    fn errors_name_the_place_and_what_to_write() {
        assert_eq!(error("version: 1\nshell:\n  alow: []\n"), "p.yaml:3:3: unknown key `alow`; did you mean `allow`?");
        assert!(error("version: 2\n").contains("version 2 is unknown"));
        assert!(error("version: 1\nshell: {timeout: 5}\n").contains("has no unit"));
        assert!(error("version: 1\npaths: {write: {max_bytes: 10}}\n").contains("has no unit"));
        assert!(error("version: 1\nshell:\n  allow:\n    - {cmd: []}\n").starts_with("p.yaml:4:"));
        assert!(error("version: 1\nshell: {allow: [{cmd: [./x]}]}\n").contains("sha256"));
        assert!(error("version: 1\nshell: {allow: [{cmd: [make, 1.10]}]}\n").contains("quotes"));
        assert!(error("version: 1\nextends: other.yaml\n").contains("sha256"));
        assert!(error("version: 1\nchanges: push\n").contains("dry-run, apply, commit"));
        assert!(error("version: 1\ntests: [{}]\n").contains("either"));
        assert!(error("version: 1\nlimits: {turn: 3}\n").contains("did you mean `turns`"));
    }

    #[test]
    fn words_that_look_like_booleans_stay_words() {
        let policy = PolicyFile::parse("p", "version: 1\nname: no\nshell: {allow: [{cmd: [npm, run, [on, true, 8]]}]}");
        let policy = policy.unwrap();
        assert_eq!(policy.name.as_deref(), Some("no"));
        assert_eq!(policy.shell.unwrap().allow.unwrap()[0].value.cmd[2].0, ["on", "true", "8"]);
    }
}
