//! Defines the recipe file's keys as types that refuse everything else.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use super::cases::{TestCase, TestCheck, TestExpect};
pub use super::deliver::{
    AllowedLabels, CheckWish, CommentMode, CommentWhen, CommentWish, Deliver, LabelMode, LabelWish, PullRequestWish,
    ReviewWish,
};
pub use super::judged::{Before, CheckFile, CheckTree, Expect, Finish, Forbidden, Guards, OnExhausted, Preset, Verify};
use super::places::Places;
pub use super::results::{
    Body, Confidence, Filter, GitWishes, IfNoChanges, Incomplete, LocalRule, Output, OutputKind, Rule, Severity,
};
pub use super::scalar::{Argument, Given, Text, Time};
pub use super::texts::Kind;

/// A recipe file. Keys that begin with `x-` are free; any other unknown key is an error.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false, "patternProperties" = {"^x-": true}, "required" = ["recipe", "name", "description"]))]
pub struct RecipeFile {
    /// The number of this format: 1.
    pub recipe: u32,
    /// The name; the file's name without its ending.
    pub name: Option<Text>,
    /// What it does, in one line.
    pub description: Option<Text>,
    /// The version of this recipe, as `1.2.3`.
    pub version: Option<Text>,
    /// The recipe it builds on: a relative path inside the folder of recipes, or `builtin:NAME`.
    pub extends: Option<Text>,
    /// What must be there before it begins.
    pub requires: Option<Requires>,
    /// Values that the caller gives.
    pub params: Option<BTreeMap<String, Param>>,
    /// Named inputs that are gathered before the model is asked.
    pub context: Option<Vec<Context>>,
    /// Added to the system prompt.
    pub instructions: Option<Text>,
    /// Files whose text is added to the system prompt; beside the recipe.
    pub instructions_files: Option<Vec<Text>>,
    /// The user message.
    pub prompt: Option<Text>,
    /// A file with the user message; beside the recipe.
    pub prompt_file: Option<Text>,
    /// What it asks of the policy; `null` clears what it would inherit.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Needs>")]
    pub needs: Option<Option<Needs>>,
    /// The most that a run may spend.
    pub limits: Option<Limits>,
    /// Wishes about the model.
    pub model: Option<ModelWishes>,
    /// Rules that judge the change itself.
    pub guards: Option<Guards>,
    /// Commands after each attempt of the model, whose changes are kept.
    pub finish: Option<Vec<Finish>>,
    /// Checks of the change.
    pub verify: Option<Verify>,
    /// What the run gives back.
    pub output: Option<Output>,
    /// What happens to the change.
    pub git: Option<GitWishes>,
    /// What is written to GitHub, by the job that delivers.
    pub deliver: Option<Deliver>,
    /// Reuse of answers.
    pub cache: Option<Cache>,
    /// What to do without a provider.
    pub offline: Option<Offline>,
    /// Examples, run by `qwen recipe test`.
    pub tests: Option<Vec<TestCase>>,
    /// Where its keys stand.
    #[serde(skip)]
    pub places: Places,
}

fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl RecipeFile {
    /// Returns the commands that it runs itself, each with its path.
    pub fn commands(&self) -> Vec<(String, &[Argument])> {
        let of_context = self.context.iter().flatten().filter_map(|context| {
            let run = context.run.as_ref()?;
            Some((format!("context.{}.run", context.name.value), run.as_slice()))
        });
        let of_finish = self.finish.iter().flatten();
        let of_finish = of_finish.map(|finish| (format!("finish.{}.run", finish.name.value), finish.run.as_slice()));
        let checks = self.verify.iter().flat_map(|verify| verify.checks.iter().flatten());
        let of_checks = checks.map(|check| (format!("verify.checks.{}.run", check.name.value), check.run.as_slice()));
        of_context.chain(of_finish).chain(of_checks).collect()
    }
}

/// The keys of the top level.
pub const KEYS: [&str; 24] = [
    "recipe",
    "name",
    "description",
    "version",
    "extends",
    "requires",
    "params",
    "context",
    "instructions",
    "instructions_files",
    "prompt",
    "prompt_file",
    "needs",
    "limits",
    "model",
    "guards",
    "finish",
    "verify",
    "output",
    "git",
    "deliver",
    "cache",
    "offline",
    "tests",
];

/// Keys that a later format may have.
pub const RESERVED: [&str; 6] = ["steps", "matrix", "mcp", "hooks", "include", "sub_recipes"];

/// What must be there.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requires {
    /// The versions of qwen, for example `>=0.1`.
    pub qwen: Option<Text>,
    /// Programs in PATH.
    pub programs: Option<Vec<Text>>,
    /// A repository.
    pub git: Option<RequiredGit>,
}

/// Which repository must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequiredGit {
    /// None.
    None,
    /// One.
    Repo,
    /// One without changes to tracked files.
    Clean,
}

/// A value that the caller gives.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// Its type.
    pub r#type: ParamType,
    /// What it is for.
    pub description: Text,
    /// Its value when nobody gives one; without it the parameter must be given.
    pub default: Option<Given>,
    /// The words that it may be.
    pub r#enum: Option<Vec<Text>>,
    /// A regular expression for the whole value.
    pub pattern: Option<Text>,
    /// The smallest number.
    pub min: Option<f64>,
    /// The largest number.
    pub max: Option<f64>,
    /// The most bytes; a longer untrusted value is cut, another is refused.
    pub max_bytes: Option<usize>,
    /// Whether a path must exist.
    #[serde(default)]
    pub must_exist: bool,
    /// The variable that gives it.
    pub env: Option<Text>,
    /// Whether strangers may have written it.
    #[serde(default)]
    pub untrusted: bool,
    /// Whether nobody may see it.
    #[serde(default)]
    pub secret: bool,
    /// Whether the run writes the file at this path: a protected one is refused.
    #[serde(default)]
    pub writes: bool,
    /// Whether it takes what a comment asks for (`NAME=@command`). It may stand in `prompt` alone.
    #[serde(default)]
    pub command: bool,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParamType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A path below the workspace.
    Path,
    /// One of the words of `enum`.
    Enum,
    /// Several texts.
    List,
    /// The words of a command, written on one line.
    Command,
}

impl ParamType {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            ParamType::String => "string",
            ParamType::Integer => "integer",
            ParamType::Number => "number",
            ParamType::Boolean => "boolean",
            ParamType::Path => "path",
            ParamType::Enum => "enum",
            ParamType::List => "list",
            ParamType::Command => "command",
        }
    }
}

/// A named input. Exactly one of `run`, `file`, `glob`, `diff`, `github`, `stdin` and `param` says where it comes from.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Its name in templates.
    pub name: Text,
    /// The output of a command, one word each.
    pub run: Option<Vec<Argument>>,
    /// A file of the workspace.
    pub file: Option<Text>,
    /// Files of the workspace.
    pub glob: Option<Vec<Text>>,
    /// A change.
    pub diff: Option<DiffKind>,
    /// The commits of `diff: range`.
    pub range: Option<Text>,
    /// The files of a change that are shown, as globs [default: all].
    pub include: Option<Vec<Text>>,
    /// The files of a change that are not shown, as globs.
    pub exclude: Option<Vec<Text>>,
    /// Whether files of a change that programs write are shown [default: skip].
    pub generated: Option<Generated>,
    /// What GitHub has on the pull request or issue.
    pub github: Option<GitHubKind>,
    /// The number of the pull request or issue of `github` [default: the event's].
    pub number: Option<Text>,
    /// Standard input.
    pub stdin: Option<bool>,
    /// A parameter.
    pub param: Option<Text>,
    /// Whether strangers may have written it.
    #[serde(default)]
    pub untrusted: bool,
    /// The most bytes; of a change, those of one part.
    pub max_bytes: Option<usize>,
    /// What is kept of more. For a change `on_large` says it.
    pub truncate: Option<Truncate>,
    /// What happens with a change of more than `max_bytes` [default: `split` for findings, else `cut`].
    pub on_large: Option<OnLarge>,
    /// The most parts of a change, 1 to 32 [default: 8].
    pub max_parts: Option<usize>,
    /// What happens when there is nothing.
    pub on_empty: Option<OnEmpty>,
    /// Exit codes of the command that count as success.
    pub ok_exit: Option<Vec<i32>>,
    /// The most time of the command.
    pub timeout: Option<Time>,
    /// Variables of the command; the policy's `shell.env.pass` must name them. The one place for a secret.
    pub env: Option<BTreeMap<String, Text>>,
}

/// What is read from GitHub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GitHubKind {
    /// Title and text of the pull request.
    PullRequest,
    /// The comments below it, the newest first to stay.
    Comments,
    /// The open threads of its reviews.
    ReviewThreads,
    /// Title and text of the issue.
    Issue,
    /// The labels of the repository, one `name: description` a line.
    Labels,
    /// What the failed jobs printed: of the event's workflow run, else of the last commit's.
    CiFailure,
}

/// Which change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiffKind {
    /// The index against HEAD.
    Staged,
    /// The work tree against HEAD.
    Worktree,
    /// One commit against another.
    Range,
}

/// Whether files that programs write are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Generated {
    /// Only their names are.
    #[default]
    Skip,
    /// They are.
    Show,
}

/// What happens with a change that is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnLarge {
    /// The model gets it in parts, each in a conversation of its own; the findings are put together.
    Split,
    /// What has no room is named and not shown.
    Cut,
    /// The run ends with 42.
    Fail,
}

/// What is kept of a text that is too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Truncate {
    /// Its beginning.
    Head,
    /// Its end.
    Tail,
    /// Both ends.
    #[default]
    Middle,
    /// Nothing: the run ends.
    Fail,
}

/// What an empty input means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnEmpty {
    /// Nothing.
    #[default]
    Continue,
    /// There is nothing to do: exit 0.
    SkipRun,
    /// The run ends with 42.
    Fail,
}

/// What the recipe asks of the policy. What it does not ask for, the run does not get.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Files to read, as globs.
    pub read: Option<Vec<Text>>,
    /// Files to change.
    pub write: Option<Vec<Text>>,
    /// Files to make.
    pub create: Option<Vec<Text>>,
    /// Files to delete.
    pub delete: Option<Vec<Text>>,
    /// Commands: words, and `**` at the end for whatever follows; `param:NAME` for exactly the words of a parameter of
    /// the type `command`.
    pub run: Option<Vec<Text>>,
    /// Hosts.
    pub net: Option<Vec<Text>>,
    /// Tools; without it all that the policy has and the other needs can use.
    pub tools: Option<Vec<Text>>,
    /// The commands that `param:NAME` means, once parameters are bound.
    #[serde(skip)]
    pub commands: Vec<NeededCommand>,
    /// The files that `finish` writes.
    #[serde(skip)]
    pub finished: Vec<Text>,
}

/// A command that a parameter gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NeededCommand {
    /// Where the recipe needs it.
    pub needed: Text,
    /// Its words.
    pub words: Vec<String>,
}

/// The most that a run may spend.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Answers of the model.
    pub turns: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
    /// Time.
    pub wall_time: Option<Time>,
    /// Tokens in all.
    pub total_tokens: Option<u64>,
    /// Tokens of one answer.
    pub output_tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Bytes of all gathered inputs together.
    pub context_bytes: Option<usize>,
}

/// Wishes about the model; flags and the environment win.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelWishes {
    /// Its name.
    pub name: Option<Text>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// The seed of sampling.
    pub seed: Option<u64>,
    /// Whether the model thinks before it answers, where it can be told.
    pub thinking: Option<bool>,
}

/// Reuse of answers.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// By what an answer is found again.
    pub key: Option<CacheKey>,
    /// How long it is good for.
    pub max_age: Option<Time>,
}

/// By what an answer is found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheKey {
    /// Not at all.
    None,
    /// By recipe, policy, model and prompt.
    Context,
}

/// What to do without a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Offline {
    /// End with 75.
    Fail,
    /// End with 0.
    Skip,
    /// Take an old answer, else end with 75.
    Cached,
}
