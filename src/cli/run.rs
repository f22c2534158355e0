//! Defines the flags of `qwen run`, one struct per group.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::WorkspaceArgs;
use super::values::{count, dollars, duration, not_blank, positive, share, size, temperature};
use crate::emit::{Colour, Format, Verbosity};

/// The flags of `run`.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    /// Input.
    #[command(flatten)]
    pub input: InputArgs,
    /// Model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Changes.
    #[command(flatten)]
    pub changes: ChangeArgs,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Context.
    #[command(flatten)]
    pub context: ContextArgs,
    /// Session.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Test.
    #[command(flatten)]
    pub test: TestArgs,
    /// Flags without effect.
    #[command(flatten)]
    pub ignored: IgnoredArgs,
    /// Set where a hook of git's asks, never by a flag.
    #[arg(skip)]
    pub from_hook: Option<FromHook>,
}

/// What a run is told by the hook that starts it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FromHook {
    /// The index of the commit that is being made, as git names it to its hooks.
    pub index: Option<PathBuf>,
    /// The commit that is looked at; `None`: what the index holds.
    pub revision: Option<String>,
    /// Nothing is sent: the answer is what would be.
    pub shows_request: bool,
}

/// What the model is asked.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// The prompt; several words are joined by blanks, `-` is standard input
    #[arg(value_name = "PROMPT")]
    pub words: Vec<String>,
    /// The prompt, instead of words
    #[arg(short, long, value_name = "TEXT", conflicts_with = "words", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Read the prompt from a file, `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["words", "prompt"])]
    pub prompt_file: Option<PathBuf>,
    /// Show a file, or some of its lines, with the prompt (repeatable)
    #[arg(long = "file", value_name = "PATH[:FROM-TO]")]
    pub files: Vec<String>,
    /// Run a recipe: a name of `qwen recipe list`, or a file
    #[arg(long, value_name = "NAME|FILE", value_parser = not_blank, conflicts_with_all = ["words", "prompt", "prompt_file"])]
    pub recipe: Option<String>,
    /// Set a parameter of the recipe: K=V, K=@FILE, K=@event:/POINTER or K=- (repeatable)
    #[arg(long = "param", value_name = "K=V", requires = "recipe")]
    pub params: Vec<String>,
    /// Read parameters from a file of JSON or YAML, `-` for standard input
    #[arg(long, value_name = "FILE", requires = "recipe")]
    pub params_file: Option<PathBuf>,
    /// Show an image with the prompt, to a model that takes images (repeatable)
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
    /// Let these folders be listed, searched and read, too (repeatable, or a list with commas)
    #[arg(long, alias = "add-dir", value_name = "DIRS", value_delimiter = ',')]
    pub include_directories: Vec<PathBuf>,
    /// Do not read standard input
    #[arg(long)]
    pub no_stdin: bool,
}

/// Who answers.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Name the model [env: QWEN_MODEL, OPENAI_MODEL] [default: qwen3-coder-plus on DashScope]
    #[arg(short, long, value_name = "NAME", value_parser = not_blank)]
    pub model: Option<String>,
    /// Send requests to this server [env: QWEN_BASE_URL, OPENAI_BASE_URL] [default: DashScope, international]
    #[arg(long, alias = "base-url", value_name = "URL", value_parser = not_blank)]
    pub openai_base_url: Option<String>,
    /// Start this model on this machine with `llama-server` for the time of the run
    #[arg(long, value_name = "MODEL.gguf", conflicts_with_all = ["openai_base_url", "replay", "model"])]
    pub local: Option<PathBuf>,
    /// Use this key; other users of this machine can see it, so prefer --api-key-file [env: QWEN_API_KEY, OPENAI_API_KEY]
    #[arg(long, value_name = "KEY")]
    pub openai_api_key: Option<String>,
    /// Read the key from a file
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Go on with these models, in order, when one is not to be had
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub fallback_model: Vec<String>,
    /// Set the sampling temperature, 0 to 2 [default: the server's]
    #[arg(long, value_name = "X", value_parser = temperature)]
    pub temperature: Option<f64>,
    /// Set nucleus sampling, 0 to 1 [default: the server's]
    #[arg(long, value_name = "X", value_parser = share)]
    pub top_p: Option<f64>,
    /// Set the seed of sampling, where the server takes one
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Let an answer have at most this many tokens [default: by model]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_output_tokens: Option<u64>,
    /// Find tool calls in the text of answers, for models without native calls
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub text_tools: TextTools,
    /// Give up on a request after this time, 0 for never [default: 15m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub request_timeout: Option<Duration>,
    /// Give up on an answer that is silent for this time, 0 for never [default: 4m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub stream_idle_timeout: Option<Duration>,
    /// Try a failed request again at most this often [default: 5]
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Wait at most this long for a server that asks for it [default: 10m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub max_wait: Option<Duration>,
    /// Trust the certificates in this file, too
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Allow plain http to a server that is not on this machine
    #[arg(long)]
    pub allow_http: bool,
}

/// When calls are looked for in text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TextTools {
    /// Where the model writes them there
    #[default]
    Auto,
    /// Never
    Off,
    /// Always; tools are described in the prompt
    Force,
}

/// When to stop.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Stop after this many answers of the model, -1 for no limit [default: 100]
    #[arg(long, alias = "max-turns", value_name = "N", value_parser = positive)]
    pub max_session_turns: Option<u64>,
    /// Stop after this many tool calls, -1 for no limit [default: 500]
    #[arg(long, value_name = "N", value_parser = count)]
    pub max_tool_calls: Option<u64>,
    /// Stop after this time [default: 60m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub max_wall_time: Option<Duration>,
    /// Stop after this many denied calls [default: 20]
    #[arg(long, value_name = "N")]
    pub max_denials: Option<u64>,
    /// Stop after this many tokens [default: none]
    #[arg(long, value_name = "N")]
    pub max_total_tokens: Option<u64>,
    /// Stop when the estimated cost reaches this [default: none]
    #[arg(long, value_name = "X", value_parser = dollars)]
    pub max_cost_usd: Option<f64>,
}

/// What the model may do.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Policy")]
pub struct PolicyArgs {
    /// Decide by this policy [env: QWEN_POLICY] [default: .qwen/policy.yaml if trusted, else builtin:default]
    #[arg(long, value_name = "FILE|builtin:NAME", value_parser = not_blank)]
    pub policy: Option<String>,
    /// Choose what a denied call does to the run [default: as the policy says, else fail]
    #[arg(long, value_name = "WHAT")]
    pub on_deny: Option<OnDeny>,
    /// Choose a builtin policy by Qwen Code's name; beside a policy file it only narrows [default: default]
    #[arg(long, value_name = "MODE", conflicts_with = "yolo")]
    pub approval_mode: Option<ApprovalMode>,
    /// The same as --approval-mode yolo
    #[arg(short, long)]
    pub yolo: bool,
    /// Allow these tools, for example 'run_shell_command(npm test)' (repeatable, or a list with commas)
    #[arg(long, value_name = "TOOLS")]
    pub allowed_tools: Vec<String>,
    /// Keep only these tools (repeatable, or a list with commas)
    #[arg(long, value_name = "TOOLS")]
    pub core_tools: Vec<String>,
    /// Remove these tools (repeatable, or a list with commas)
    #[arg(long, value_name = "TOOLS")]
    pub exclude_tools: Vec<String>,
    /// Isolate commands; without a value: require it [default: auto, or require if the policy says so]
    #[arg(
        short,
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "require"
    )]
    pub sandbox: Option<SandboxMode>,
    /// Read policy, settings and context files from this commit, not from the tree [default: in CI, by the event]
    #[arg(long, value_name = "REF", value_parser = not_blank)]
    pub trusted_ref: Option<String>,
    /// Trust the policy, settings, hooks and servers of this checkout as they lie there [env: QWEN_TRUST_CHECKOUT=1]
    #[arg(long, conflicts_with = "trusted_ref")]
    pub trust_checkout: bool,
}

impl PolicyArgs {
    /// Returns the mode that the flags name.
    pub fn mode(&self) -> Option<ApprovalMode> {
        if self.yolo { Some(ApprovalMode::Yolo) } else { self.approval_mode }
    }
}

/// What a denied call does to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnDeny {
    /// The run goes on and ends with 60
    Fail,
    /// The run goes on and may end with 0
    Continue,
    /// The run ends at once
    Stop,
}

/// Qwen Code's approval modes: builtin policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ApprovalMode {
    /// builtin:read-only
    Plan,
    /// builtin:default
    Default,
    /// builtin:edit, with --apply
    #[value(alias = "auto_edit")]
    AutoEdit,
    /// builtin:open, with --apply
    Yolo,
}

impl ApprovalMode {
    /// Returns the name as settings and `system/init` have it.
    pub fn name(self) -> &'static str {
        match self {
            ApprovalMode::Plan => "plan",
            ApprovalMode::Default => "default",
            ApprovalMode::AutoEdit => "auto-edit",
            ApprovalMode::Yolo => "yolo",
        }
    }

    /// Returns the mode of a name, in today's spelling or Qwen Code's.
    pub fn from_name(name: &str) -> Option<ApprovalMode> {
        <ApprovalMode as ValueEnum>::from_str(name, false).ok()
    }
}

/// When commands are isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SandboxMode {
    /// As far as this machine gives it
    Auto,
    /// Or the run ends with 44
    Require,
    /// Not at all
    Off,
}

/// What happens to changes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Changes")]
pub struct ChangeArgs {
    /// Propose changes only; not one byte of the tree changes [this is the default]
    #[arg(long, conflicts_with_all = ["apply", "commit", "branch"])]
    pub dry_run: bool,
    /// Apply the changes to the tree at the end: all of them or nothing
    #[arg(long, conflicts_with_all = ["commit", "branch"])]
    pub apply: bool,
    /// Apply the changes and commit them
    #[arg(long, conflicts_with = "branch")]
    pub commit: bool,
    /// Commit the changes on a new branch; work tree and index stay untouched
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    pub branch: Option<String>,
    /// Run this command on the changes; the model sees its failure and tries again (repeatable)
    #[arg(long, value_name = "CMD", value_parser = not_blank)]
    pub verify: Vec<String>,
    /// Let the model try at most this often to make the checks pass [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub verify_attempts: Option<u32>,
    /// End with 65 when nothing changed
    #[arg(long)]
    pub require_changes: bool,
    /// Commit with this message [default: made from the prompt]
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    pub message: Option<String>,
    /// Sign the commit as git is set up to
    #[arg(long)]
    pub sign: bool,
    /// Keep no undo record
    #[arg(long)]
    pub no_undo: bool,
    /// Refuse to deliver more changed files than this [default: as the policy says]
    #[arg(long, value_name = "N")]
    pub max_changed_files: Option<u64>,
    /// Refuse to deliver a larger patch than this, for example 2MiB [default: none]
    #[arg(long, value_name = "N", value_parser = size)]
    pub max_patch_bytes: Option<u64>,
}

impl ChangeArgs {
    /// Returns the delivery that a flag names.
    pub fn mode(&self) -> Option<ChangesMode> {
        if let Some(name) = &self.branch {
            Some(ChangesMode::Branch(name.clone()))
        } else if self.commit {
            Some(ChangesMode::Commit)
        } else if self.apply {
            Some(ChangesMode::Apply)
        } else {
            self.dry_run.then_some(ChangesMode::DryRun)
        }
    }
}

/// What happens to changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangesMode {
    /// They are shown.
    DryRun,
    /// They go to the tree.
    Apply,
    /// They go to the tree and into a commit.
    Commit,
    /// They go into a commit on a branch of this name.
    Branch(String),
}

/// What is printed.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Choose what standard output carries [default: text]
    #[arg(short, long, value_name = "FORMAT")]
    pub output_format: Option<Format>,
    /// Add pieces of answers to stream-json as they arrive
    #[arg(long)]
    pub include_partial_messages: bool,
    /// Write the result object to a file
    #[arg(long, value_name = "FILE")]
    pub result_file: Option<PathBuf>,
    /// Write every event to a file, one line of JSON each
    #[arg(long, value_name = "FILE")]
    pub events_file: Option<PathBuf>,
    /// Write the patch to a file
    #[arg(long, value_name = "FILE")]
    pub patch_file: Option<PathBuf>,
    /// Write a summary in markdown to a file
    #[arg(long, value_name = "FILE")]
    pub summary_file: Option<PathBuf>,
    /// Write findings as SARIF 2.1.0, for code scanning
    #[arg(long, value_name = "FILE")]
    pub sarif_file: Option<PathBuf>,
    /// Write findings and suggestions as rdjson, for reviewdog
    #[arg(long, value_name = "FILE")]
    pub rdjson_file: Option<PathBuf>,
    /// Findings as annotations of GitHub; `qwen ci github` alone sets it.
    #[arg(skip)]
    pub annotations_file: Option<PathBuf>,
    /// Ask for an answer that fits this JSON Schema
    #[arg(long, alias = "output-schema", value_name = "LITERAL|@FILE")]
    pub json_schema: Option<String>,
    /// End with 3 when a finding is at least this severe [default: as the recipe says]
    #[arg(long, value_name = "LEVEL")]
    pub fail_on: Option<FailOn>,
    /// Use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
    /// Print only errors to standard error
    #[arg(short, long, conflicts_with_all = ["verbose", "debug"])]
    pub quiet: bool,
    /// Print more to standard error; twice: all that the model saw
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    /// The same as -vv
    #[arg(short, long)]
    pub debug: bool,
}

impl OutputArgs {
    /// Returns how much a person wants to see.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.debug, self.verbose) {
            (true, _, _) => Verbosity::Quiet,
            (false, true, _) | (false, false, 2..) => Verbosity::Debug,
            (false, false, 1) => Verbosity::Verbose,
            (false, false, 0) => Verbosity::Normal,
        }
    }
}

/// What the model knows besides the prompt.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Context")]
pub struct ContextArgs {
    /// Replace the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub system_prompt: Option<String>,
    /// Add to the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub append_system_prompt: Option<String>,
    /// Use no context files, settings, commands, agents, skills, MCP servers or hooks from disk
    #[arg(long)]
    pub bare: bool,
    /// Add MCP servers, as JSON or a file of it; one with a known name replaces that (repeatable)
    #[arg(long, value_name = "JSON|FILE", value_parser = not_blank)]
    pub mcp_config: Vec<String>,
    /// Start these MCP servers alone (repeatable, or a list with commas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub allowed_mcp_server_names: Vec<String>,
    /// Make an error of what would be skipped with a warning
    #[arg(long)]
    pub strict: bool,
}

/// Which conversation it is.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Session")]
pub struct SessionArgs {
    /// Go on with the last session of this folder
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["resume", "no_session"])]
    pub continue_last: bool,
    /// Go on with the session of this id
    #[arg(short, long, value_name = "ID", conflicts_with = "no_session")]
    pub resume: Option<String>,
    /// Leave the session that goes on as it is, and keep a new one
    #[arg(long)]
    pub fork_session: bool,
    /// Give the new session this id
    #[arg(long, value_name = "ID")]
    pub session_id: Option<String>,
    /// Keep no session [this is the default in CI]
    #[arg(long)]
    pub no_session: bool,
}

/// Runs without a model.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Test")]
pub struct TestArgs {
    /// Record the conversation with the server to a file
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Answer from a recorded file; a request that differs ends with 66
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// A scripted model; `qwen recipe test` alone sets it.
    #[arg(skip)]
    pub script: Option<PathBuf>,
}

/// The least severe finding that fails a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// None
    Never,
    /// An error
    Error,
    /// A warning
    Warning,
    /// Any
    Note,
}

/// Flags of Qwen Code that have nothing to do here.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Accepted, no effect (scripts for Qwen Code pass them)")]
pub struct IgnoredArgs {
    /// No effect
    #[arg(long, value_name = "X")]
    pub channel: Option<String>,
    /// No effect; only `text` is known
    #[arg(long, value_name = "FORMAT", value_parser = ["text"])]
    pub input_format: Option<String>,
    /// No effect; only `openai` is known
    #[arg(long, value_name = "TYPE", value_parser = ["openai"])]
    pub auth_type: Option<String>,
    /// No effect
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub chat_recording: Option<bool>,
    /// No effect
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub telemetry: Option<bool>,
    /// No effect
    #[arg(long, value_name = "X")]
    pub telemetry_target: Option<String>,
    /// No effect
    #[arg(long, value_name = "X")]
    pub telemetry_otlp_endpoint: Option<String>,
    /// No effect
    #[arg(long, value_name = "X")]
    pub telemetry_otlp_protocol: Option<String>,
    /// No effect
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub telemetry_log_prompts: Option<bool>,
    /// No effect
    #[arg(long, value_name = "X")]
    pub telemetry_outfile: Option<String>,
}
