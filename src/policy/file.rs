//! Defines the policy file's keys as types that refuse everything else.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{Diagnostic, Spanned, document::yaml};

/// A policy file. An absent key grants nothing in the layer that grants, and narrows nothing in the others.
#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// The version of this format: 1.
    pub version: u32,
    /// The policy's name, for reports.
    pub name: Option<String>,
    /// What it builds on: `builtin:NAME`, or a file with its digest.
    pub extends: Option<Extends>,
    /// What happens with the changes without a flag, and the most that flags may ask for.
    pub changes: Option<Changes>,
    /// What a denial does to the run.
    pub on_deny: Option<OnDeny>,
    /// Built-in tools by name.
    pub tools: Option<Names>,
    /// Files.
    pub paths: Option<Paths>,
    /// Commands.
    pub shell: Option<Shell>,
    /// The web.
    pub network: Option<Network>,
    /// MCP servers and their tools.
    pub mcp: Option<Mcp>,
    /// Tools that the project's discovery command announces.
    pub discovered_tools: Option<Names>,
    /// Isolation of processes.
    pub sandbox: Option<Sandbox>,
    /// Secrets.
    pub secrets: Option<Secrets>,
    /// What a run may do whose prompt holds untrusted text.
    pub untrusted_input: Option<UntrustedInput>,
    /// The most that a run may spend.
    pub limits: Option<LimitsFile>,
    /// Calls whose decision is checked at every load.
    #[serde(default)]
    #[schemars(with = "Vec<TestCase>")]
    pub tests: Vec<Spanned<TestCase>>,
}

/// What a policy builds on.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
pub enum Extends {
    /// `builtin:NAME`.
    Builtin(String),
    /// `{file: F, sha256: …}`.
    File {
        /// The path, relative to the file that extends it.
        file: String,
        /// The digest of its bytes, in hex.
        sha256: String,
    },
}

/// What may become of the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// They are shown.
    DryRun,
    /// They are written to the project.
    Apply,
    /// They become a commit.
    Commit,
    /// They become a commit on a new branch.
    Branch,
}

/// What happens without a flag, and what flags may ask for.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
pub struct Changes {
    /// Without a flag.
    pub default: Delivery,
    /// With one.
    pub allow: Vec<Delivery>,
}

/// What a denial does to the run; ordered by strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDeny {
    /// It goes on and the denial does not change the exit code.
    Continue,
    /// It goes on and ends with 60.
    Fail,
    /// It ends at the first one.
    Stop,
}

/// Allowed and denied names.
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
    /// What may be read.
    pub read: Option<ReadPaths>,
    /// What may be written.
    pub write: Option<WritePaths>,
    /// What is never read or written.
    pub protected: Option<Protected>,
}

/// What may be read, as globs relative to the workspace.
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

/// What may be written, as globs relative to the workspace.
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
    /// Whether new files may be made.
    pub create: Option<bool>,
    /// Whether files may be deleted.
    pub delete: Option<bool>,
    /// Whether a file may become executable.
    pub exec_bit: Option<bool>,
    /// Whether symbolic links may be made or changed.
    pub symlinks: Option<bool>,
    /// The most files that a run may change.
    pub max_files: Option<u64>,
    /// The most bytes that the changed files may have together.
    pub max_bytes: Option<Bytes>,
}

/// Additions to and exceptions from the built-in lists.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Protected {
    /// Globs of further protected paths.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub add: Vec<Spanned<String>>,
    /// Paths that the built-in lists no longer cover; an operator's file only, and never `.git`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub remove: Vec<Spanned<String>>,
}

/// Allow or deny what no rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DefaultRule {
    /// It passes unless it is denied.
    Allow,
    /// It does not pass unless it is allowed.
    Deny,
}

/// What becomes of a command that cannot be analysed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unanalysable {
    /// It is denied.
    Deny,
    /// It runs as written, isolated and without network; an operator's file only.
    Sandboxed,
}

/// Rules on commands.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// For commands that no rule names.
    pub default: Option<DefaultRule>,
    /// For commands that cannot be analysed.
    pub unanalysable: Option<Unanalysable>,
    /// The most time that a command gets.
    pub timeout: Option<Span>,
    /// The environment of commands.
    pub env: Option<Env>,
    /// What may run.
    #[schemars(with = "Option<Vec<CommandRule>>")]
    pub allow: Option<Vec<Spanned<CommandRule>>>,
    /// What may not.
    #[serde(default)]
    #[schemars(with = "Vec<CommandRule>")]
    pub deny: Vec<Spanned<CommandRule>>,
}

/// The environment of commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Env {
    /// Variables that are passed on, and may stand before a command.
    #[serde(default)]
    pub pass: Vec<String>,
    /// Variables that are set.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

/// A rule on commands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// The words from the program on; a list stands for any one of its words.
    pub cmd: Vec<Element>,
    /// Options.
    pub options: Option<Options>,
    /// What the words are that are no options.
    pub operands: Option<OperandKind>,
    /// The words after `cmd`, place by place; nothing else may follow.
    pub args: Option<Vec<Element>>,
    /// The most words in all.
    pub max_args: Option<usize>,
    /// The digest of a program of the workspace.
    pub sha256: Option<String>,
    /// Why, for the message of a denial.
    pub reason: Option<String>,
}

/// One place in `cmd` or `args`: any one of these words.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
pub struct Element(pub Vec<String>);

/// Options of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Allowed ones that take no value.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Allowed ones whose value is a path.
    #[serde(default)]
    pub paths: BTreeMap<String, PathKind>,
    /// In a deny rule: it matches only if one of these is there.
    #[serde(default)]
    pub deny: Vec<String>,
}

impl Options {
    /// Returns the options that the rule allows.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &str> {
        self.allow.iter().chain(self.paths.keys()).map(String::as_str)
    }
}

/// What is done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathKind {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// What the operands of a program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperandKind {
    /// There may be none.
    None,
    /// Files that are read.
    Read,
    /// Files that are written.
    Write,
    /// Text.
    Data,
}

/// Rules on the web.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// For hosts that no rule names.
    pub default: Option<DefaultRule>,
    /// Hosts that may be fetched from.
    #[schemars(with = "Option<Vec<HostRule>>")]
    pub allow: Option<Vec<Spanned<HostRule>>>,
    /// Hosts that may not.
    #[serde(default)]
    #[schemars(with = "Vec<HostRule>")]
    pub deny: Vec<Spanned<HostRule>>,
    /// The most redirects.
    pub max_redirects: Option<u32>,
    /// The most bytes of a query.
    pub query_max: Option<usize>,
    /// Hosts that commands may reach.
    pub shell: Option<Hosts>,
}

/// A host, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRule {
    /// The name; `*.` stands for one or more labels.
    pub host: String,
    /// A prefix of whole segments; the folder itself is not below it.
    pub path: Option<String>,
}

/// Hosts that a process may reach.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
pub enum Hosts {
    /// Without restriction.
    Any,
    /// These.
    Only(Vec<String>),
}

/// Rules on MCP servers.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    /// For tools that no rule names.
    pub default: Option<DefaultRule>,
    /// By the server's name in the settings.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Server>")]
    pub servers: BTreeMap<String, Spanned<Server>>,
}

/// Rules on one MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Tools that may be called; `*` stands for any letters.
    pub allow: Option<Vec<String>>,
    /// Tools that may not.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Hosts that it may reach.
    pub network: Option<Hosts>,
    /// Folders that it may write.
    #[serde(default)]
    pub write: Vec<String>,
    /// The file with the pins of its tools.
    pub pins: Option<String>,
    /// What a changed, new or missing pin means.
    pub on_change: Option<DefaultRule>,
}

/// Isolation of processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// Whether to end with 44 where there is none.
    pub require: Option<bool>,
    /// What becomes of what commands leave in ignored files and directories.
    pub workspace: Option<LentTree>,
    /// The most that is copied of ignored folders.
    pub copy_max: Option<Bytes>,
    /// Further folders of the system that commands may read.
    #[serde(default)]
    pub read_system: Vec<String>,
}

/// What becomes of what commands leave in ignored files and directories. They always work in an overlay or a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LentTree {
    /// It goes with the run.
    Staged,
    /// It is delivered together with the change; an operator's file only.
    InPlace,
}

/// Secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// Whether known ones are replaced in what the model sees.
    pub redact: Option<bool>,
    /// Further shapes, as regular expressions.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// What a change means that adds one.
    pub on_write: Option<DefaultRule>,
}

/// What a run may do whose prompt holds untrusted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UntrustedInput {
    /// It may read and answer.
    AnswerOnly,
    /// What the rules allow.
    Allow,
}

/// The most that a run may spend.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsFile {
    /// Wall time.
    pub wall_time: Option<Span>,
    /// Turns.
    pub turns: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
    /// Shell calls.
    pub shell_calls: Option<u64>,
    /// Denied calls.
    pub denials: Option<u64>,
    /// Equal denials in a row.
    pub same_denial: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Tokens in all.
    pub total_tokens: Option<u64>,
}

/// A call and its decision.
#[derive(Debug, Clone, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    /// This must be allowed.
    pub allow: Option<TestCall>,
    /// This must be denied.
    pub deny: Option<TestCall>,
}

/// A call of a test: a command, or `{TOOL: MAIN ARGUMENT}`, or `{TOOL: {ARGUMENTS}}`.
#[derive(Debug, Clone, PartialEq, schemars::JsonSchema)]
pub enum TestCall {
    /// A shell command.
    Command(String),
    /// A tool and its input.
    Tool(String, Value),
}

/// A size such as `2MiB`; the unit is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, schemars::JsonSchema)]
pub struct Bytes(pub u64);

/// A duration such as `5m`; the unit is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, schemars::JsonSchema)]
pub struct Span(#[schemars(with = "String")] pub Duration);

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
    fn check(&self, file: &str) -> Result<(), Diagnostic> {
        let shell = self.shell.as_ref();
        let allow = shell.and_then(|shell| shell.allow.as_deref()).unwrap_or_default();
        let deny = shell.map(|shell| shell.deny.as_slice()).unwrap_or_default();
        for (rules, kind) in [(allow, "allow"), (deny, "deny")] {
            for rule in rules {
                let at = |message: String| Diagnostic::at(file, rule.span, message);
                if rule.value.cmd.is_empty() || rule.value.cmd.iter().any(|element| element.0.is_empty()) {
                    return Err(at("`cmd` does not name a program".to_owned()));
                }
                let options = rule.value.options.clone().unwrap_or_default();
                if kind == "deny" && (!options.allow.is_empty() || !options.paths.is_empty()) {
                    return Err(at("a deny rule takes `options: {deny: […]}` only".to_owned()));
                }
                if kind == "allow" && !options.deny.is_empty() {
                    return Err(at("`options.deny` belongs to a deny rule".to_owned()));
                }
                let names = options.allow.iter().chain(options.paths.keys()).chain(&options.deny);
                if let Some(name) = names.into_iter().find(|name| !name.starts_with('-') || name.len() < 2) {
                    return Err(at(format!("`{name}` is not an option; options begin with `-`")));
                }
                let path = rule.value.cmd[0].0.iter().any(|word| word.contains('/'));
                if kind == "allow" && path && rule.value.sha256.is_none() && !file.starts_with("builtin:") {
                    return Err(at("a program of the workspace needs its `sha256`".to_owned()));
                }
                if rule.value.sha256.as_ref().is_some_and(|sum| !is_sha256(sum)) {
                    return Err(at("`sha256` is 64 hexadecimal digits".to_owned()));
                }
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
        Ok(())
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

// Values that are either text or something longer: serde's untagged enums would lose the place of an error.
macro_rules! text_or {
    ($type:ty, $expecting:literal, $text:expr $(, seq $seq:expr)? $(, map $helper:ty => $map:expr)?) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct V;
                impl<'de> Visitor<'de> for V {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        let read: fn(&str) -> Result<$type, String> = $text;
                        read(text).map_err(E::custom)
                    }
                    fn visit_bool<E: de::Error>(self, value: bool) -> Result<$type, E> {
                        self.visit_str(if value { "true" } else { "false" })
                    }
                    fn visit_u64<E: de::Error>(self, value: u64) -> Result<$type, E> {
                        self.visit_str(&value.to_string())
                    }
                    fn visit_i64<E: de::Error>(self, value: i64) -> Result<$type, E> {
                        self.visit_str(&value.to_string())
                    }
                    fn visit_f64<E: de::Error>(self, value: f64) -> Result<$type, E> {
                        // The spelling is lost (`1.10` would be `1.1`), and the spelling is what is meant.
                        Err(E::custom(format!("write the number {value} in quotes")))
                    }
                    $(fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<$type, A::Error> {
                        let read: fn(Vec<String>) -> Result<$type, String> = $seq;
                        let words = Vec::<String>::deserialize(de::value::SeqAccessDeserializer::new(seq))?;
                        read(words).map_err(de::Error::custom)
                    })?
                    $(fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
                        let read: fn($helper) -> Result<$type, String> = $map;
                        let helper = <$helper>::deserialize(de::value::MapAccessDeserializer::new(map))?;
                        read(helper).map_err(de::Error::custom)
                    })?
                }
                deserializer.deserialize_any(V)
            }
        }
    };
}

text_or!(
    Element,
    "a word or a list of words",
    |text| Ok(Element(vec![text.to_owned()])),
    seq | words | Ok(Element(words))
);

text_or!(
    Hosts,
    "`any` or a list of hosts",
    |text| if text == "any" { Ok(Hosts::Any) } else { Err(format!("`{text}`: write `any` or a list of hosts")) },
    seq | hosts | Ok(Hosts::Only(hosts))
);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtendsFile {
    file: String,
    sha256: String,
}

text_or!(
    Extends, "`builtin:NAME`, or a file with its sha256",
    |text| match text.strip_prefix("builtin:") {
        Some(name) => Ok(Extends::Builtin(name.to_owned())),
        None => Err(format!("`{text}`: write `builtin:NAME`, or `{{file: {text}, sha256: …}}`")),
    },
    map ExtendsFile => |file| Ok(Extends::File { file: file.file, sha256: file.sha256 })
);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangesInFull {
    default: Delivery,
    allow: Vec<Delivery>,
}

text_or!(
    Changes, "`dry-run`, `apply`, `commit`, or `{default: …, allow: […]}`",
    |text| {
        use Delivery::{Apply, Branch, Commit, DryRun};
        let (default, allow) = match text {
            "dry-run" => (DryRun, vec![DryRun]),
            "apply" => (Apply, vec![DryRun, Apply]),
            "commit" => (Commit, vec![DryRun, Apply, Commit, Branch]),
            other => return Err(format!("unknown value `{other}` of `changes`; known are dry-run, apply, commit")),
        };
        Ok(Changes { default, allow })
    },
    map ChangesInFull => |full| {
        if full.allow.contains(&full.default) || full.default == Delivery::DryRun {
            Ok(Changes { default: full.default, allow: full.allow })
        } else {
            Err("`changes.default` is not in `changes.allow`".to_owned())
        }
    }
);

text_or!(
    TestCall, "a command, or a tool with its input",
    |text| Ok(TestCall::Command(text.to_owned())),
    map BTreeMap<String, Value> => |mut map| match (map.pop_first(), map.is_empty()) {
        (Some((tool, input)), true) => Ok(TestCall::Tool(tool, input)),
        _ => Err("a test names one tool".to_owned()),
    }
);

text_or!(Bytes, "a size such as `2MiB`", |text| parse_bytes(text).map(Bytes));
text_or!(Span, "a duration such as `5m`", |text| parse_span(text).map(Span));

fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "" => return Err(format!("`{text}` has no unit; write for example `{text}B` or `2MiB`")),
        _ => return Err(format!("`{text}` is not a size; units are B, kB, MB, GB, KiB, MiB, GiB")),
    };
    let number: Option<u64> = number.parse().ok();
    number.and_then(|n| n.checked_mul(factor)).ok_or_else(|| format!("`{text}` is not a size such as `2MiB`"))
}

fn parse_span(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" => return Err(format!("`{text}` has no unit; write for example `{text}s` or `5m`")),
        _ => return Err(format!("`{text}` is not a duration; units are ms, s, m, h")),
    };
    let number: Option<u64> = number.parse().ok();
    let millis = number.and_then(|n| n.checked_mul(millis));
    millis.map(Duration::from_millis).ok_or_else(|| format!("`{text}` is not a duration such as `5m`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        PolicyFile::parse("p.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn every_key_of_the_page_is_read() {
        let text = include_str!("../../fixtures/policies/every-key.yaml");
        let policy = PolicyFile::parse("every-key.yaml", text).unwrap();
        let shell = policy.shell.unwrap();
        assert_eq!(shell.timeout, Some(Span(Duration::from_secs(300))));
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
