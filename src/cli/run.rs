//! Defines the flags of `qwen run`, one struct per group.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::values::{count, dollars, duration, not_blank, positive, share, size, temperature};
use super::workspace::WorkspaceArgs;
use crate::emit::{Colour, Format, Verbosity};
use crate::recipe::file::Confidence;
use crate::secret::Secret;
use crate::verify::findings::Earlier;

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
    /// Telemetry.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// Flags without effect.
    #[command(flatten)]
    pub ignored: IgnoredArgs,
    /// Set where a hook of git's asks, never by a flag.
    #[arg(skip)]
    pub from_hook: Option<FromHook>,
    /// Set where a recipe is shown, never by a flag: nothing is sent, and the answer is the first message.
    #[arg(skip)]
    pub shows_prompt: bool,
    /// Set by a job of the Action, never by a flag.
    #[arg(skip)]
    pub from_job: FromJob,
}

/// What a run is told by the job of the Action that starts it.
#[derive(Debug, Clone, Default)]
pub struct FromJob {
    /// People who may write to the repository started the run.
    pub by_writer: bool,
    /// What the comment asks for that started it.
    pub command: Option<String>,
    /// What stands in the threads of the pull request already.
    pub earlier: Vec<Earlier>,
    /// The commit up to which the change was looked at before: what is older is not looked at again.
    pub since: Option<String>,
    /// Reads from GitHub.
    pub token: Option<Secret>,
}

/// What a run is told by the hook that starts it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FromHook {
    /// The index of the commit that is being made, as git names it to its hooks.
    pub index: Option<PathBuf>,
    /// The commit that is looked at; `None`: what the index holds.
    pub revision: Option<String>,
    /// The commits that are looked at in the place of the index.
    pub range: Option<String>,
    /// Nothing is sent: the answer is what would be.
    pub shows_request: bool,
}

/// What the model is asked.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// The prompt; words are joined with spaces, `-` reads standard input
    #[arg(value_name = "PROMPT")]
    pub words: Vec<String>,
    /// The prompt as one argument
    #[arg(short, long, value_name = "TEXT", conflicts_with = "words", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Read the prompt from a file; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["words", "prompt"])]
    pub prompt_file: Option<PathBuf>,
    /// Attach a file, or a range of its lines (repeatable)
    #[arg(long = "file", value_name = "PATH[:FROM-TO]")]
    pub files: Vec<String>,
    /// Run a recipe: a name from `qwen recipe list`, or a file
    #[arg(long, value_name = "NAME|FILE", value_parser = not_blank, conflicts_with_all = ["words", "prompt", "prompt_file"])]
    pub recipe: Option<String>,
    /// Set a recipe parameter: K=V, K=@FILE, K=@event:/POINTER or K=- (repeatable)
    #[arg(long = "param", value_name = "K=V", requires = "recipe")]
    pub params: Vec<String>,
    /// Read parameters from a JSON or YAML file; `-` reads standard input
    #[arg(long, value_name = "FILE", requires = "recipe")]
    pub params_file: Option<PathBuf>,
    /// Attach an image, for models that accept images (repeatable)
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
    /// Also allow reading these directories (repeatable, comma-separated)
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
    /// Model to use [env: QWEN_MODEL, OPENAI_MODEL] [default: qwen3-coder-plus on DashScope]
    #[arg(short, long, value_name = "NAME", value_parser = not_blank)]
    pub model: Option<String>,
    /// Server to send requests to [env: QWEN_BASE_URL, OPENAI_BASE_URL] [default: DashScope, international]
    #[arg(long, alias = "base-url", value_name = "URL", value_parser = not_blank)]
    pub openai_base_url: Option<String>,
    /// Run this GGUF model with a local `llama-server`
    #[arg(long, value_name = "MODEL.gguf", conflicts_with_all = ["openai_base_url", "replay", "model"])]
    pub local: Option<PathBuf>,
    /// API key; visible to other users of this machine, prefer --api-key-file [env: QWEN_API_KEY, OPENAI_API_KEY]
    #[arg(long, value_name = "KEY")]
    pub openai_api_key: Option<String>,
    /// Read the API key from a file
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Try these models in order when the model is unavailable (comma-separated)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub fallback_model: Vec<String>,
    /// Sampling temperature, 0 to 2 [default: the server's]
    #[arg(long, value_name = "X", value_parser = temperature)]
    pub temperature: Option<f64>,
    /// Nucleus sampling, 0 to 1 [default: the server's]
    #[arg(long, value_name = "X", value_parser = share)]
    pub top_p: Option<f64>,
    /// Sampling seed, where the server supports one
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Maximum tokens per response [default: by model]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_output_tokens: Option<u64>,
    /// Parse tool calls from response text, for models without native calls
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub text_tools: TextTools,
    /// Time out a request after this long, 0 for never [default: 15m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub request_timeout: Option<Duration>,
    /// Time out a response that sends no data for this long, 0 for never [default: 4m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub stream_idle_timeout: Option<Duration>,
    /// Maximum retries of a failed request [default: 5]
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Longest `Retry-After` delay to honour [default: 10m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub max_wait: Option<Duration>,
    /// Additional trusted CA or server certificates (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Allow unencrypted http to a server on another machine
    #[arg(long)]
    pub allow_http: bool,
}

/// When calls are looked for in text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TextTools {
    /// If the model writes calls in text
    #[default]
    Auto,
    /// Never
    Off,
    /// Always; the prompt describes the tools
    Force,
}

/// When to stop.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Maximum responses of the model, -1 for no limit [default: 100]
    #[arg(long, alias = "max-turns", value_name = "N", value_parser = positive)]
    pub max_session_turns: Option<u64>,
    /// Maximum tool calls, -1 for no limit [default: 500]
    #[arg(long, value_name = "N", value_parser = count)]
    pub max_tool_calls: Option<u64>,
    /// Maximum duration of the run [default: 60m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub max_wall_time: Option<Duration>,
    /// Maximum denied calls [default: 20]
    #[arg(long, value_name = "N")]
    pub max_denials: Option<u64>,
    /// Maximum tokens of all requests and responses [default: none]
    #[arg(long, value_name = "N")]
    pub max_total_tokens: Option<u64>,
    /// Maximum estimated cost in US dollars [default: none]
    #[arg(long, value_name = "X", value_parser = dollars)]
    pub max_cost_usd: Option<f64>,
}

/// What the model may do.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Policy")]
pub struct PolicyArgs {
    /// Policy to apply [env: QWEN_POLICY] [default: .qwen/policy.yaml if trusted, else builtin:default]
    #[arg(long, value_name = "FILE|builtin:NAME", value_parser = not_blank)]
    pub policy: Option<String>,
    /// What to do when the policy denies a call [default: the policy's choice, else fail; continue if it only answers]
    #[arg(long, value_name = "WHAT")]
    pub on_deny: Option<OnDeny>,
    /// Built-in policy by its Qwen Code name; with a policy file it only narrows [default: default]
    #[arg(long, value_name = "MODE", conflicts_with = "yolo")]
    pub approval_mode: Option<ApprovalMode>,
    /// Same as --approval-mode yolo
    #[arg(short, long)]
    pub yolo: bool,
    /// Also allow these tools, e.g. 'run_shell_command(npm test)' (repeatable, comma-separated)
    #[arg(long, value_name = "TOOLS")]
    pub allowed_tools: Vec<String>,
    /// Keep only these tools (repeatable, comma-separated)
    #[arg(long, value_name = "TOOLS")]
    pub core_tools: Vec<String>,
    /// Remove these tools (repeatable, comma-separated)
    #[arg(long, value_name = "TOOLS")]
    pub exclude_tools: Vec<String>,
    /// Isolate commands; without a value, require it [default: auto, or the policy's choice]
    #[arg(
        short,
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "require"
    )]
    pub sandbox: Option<SandboxMode>,
    /// Read policy, settings and context files from this commit [default: in CI, by the event]
    #[arg(long, value_name = "REF", value_parser = not_blank)]
    pub trusted_ref: Option<String>,
    /// Trust this checkout's policy, settings, hooks and MCP servers [env: QWEN_TRUST_CHECKOUT=1]
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
    /// Continue, and end with exit code 60
    Fail,
    /// Continue; the exit code may be 0
    Continue,
    /// End the run at once
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
    /// Use what this machine provides
    Auto,
    /// End with exit code 44 without isolation
    Require,
    /// Never
    Off,
}

/// What happens to changes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Changes")]
pub struct ChangeArgs {
    /// Only propose changes; nothing in the working tree changes [this is the default]
    #[arg(long, conflicts_with_all = ["apply", "commit", "branch"])]
    pub dry_run: bool,
    /// Apply all changes to the working tree if the run succeeds
    #[arg(long, conflicts_with_all = ["commit", "branch"])]
    pub apply: bool,
    /// Apply the changes and commit them
    #[arg(long, conflicts_with = "branch")]
    pub commit: bool,
    /// Commit the changes to a new branch; working tree and index stay unchanged
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    pub branch: Option<String>,
    /// Checks.
    #[command(flatten)]
    pub checks: CheckArgs,
    /// Commit message [default: the recipe's subject, or the answer]
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    pub message: Option<String>,
    /// Sign the commit with git's configured key
    #[arg(long)]
    pub sign: bool,
    /// Do not keep an undo record
    #[arg(long)]
    pub no_undo: bool,
    /// Maximum changed files to deliver [default: the policy's limit]
    #[arg(long, value_name = "N")]
    pub max_changed_files: Option<u64>,
    /// Maximum size of the patch to deliver, e.g. 2MiB [default: none]
    #[arg(long, value_name = "N", value_parser = size)]
    pub max_patch_bytes: Option<u64>,
}

/// What the changes of a run must be.
#[derive(Debug, Clone, Default, Args)]
pub struct CheckArgs {
    /// Run this check on the changes; if it fails, the model tries again (repeatable)
    #[arg(long, value_name = "CMD", value_parser = not_blank)]
    pub verify: Vec<String>,
    /// Maximum attempts to make the checks pass [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub verify_attempts: Option<u32>,
    /// End with exit code 65 if nothing changed
    #[arg(long)]
    pub require_changes: bool,
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
    /// Format of standard output [default: text]
    #[arg(short, long, value_name = "FORMAT")]
    pub output_format: Option<Format>,
    /// Add partial responses to stream-json as they arrive
    #[arg(long)]
    pub include_partial_messages: bool,
    /// Write the result object to a file
    #[arg(long, value_name = "FILE")]
    pub result_file: Option<PathBuf>,
    /// Write all events to a file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub events_file: Option<PathBuf>,
    /// Write the patch to a file
    #[arg(long, value_name = "FILE")]
    pub patch_file: Option<PathBuf>,
    /// Write a Markdown summary to a file
    #[arg(long, value_name = "FILE")]
    pub summary_file: Option<PathBuf>,
    /// Write a review page to an HTML file
    #[arg(long, value_name = "FILE")]
    pub report_file: Option<PathBuf>,
    /// Write findings to a SARIF 2.1.0 file, for code scanning
    #[arg(long, value_name = "FILE")]
    pub sarif_file: Option<PathBuf>,
    /// Write findings and suggestions to an rdjson file, for reviewdog
    #[arg(long, value_name = "FILE")]
    pub rdjson_file: Option<PathBuf>,
    /// Findings as annotations of GitHub; `qwen ci github` alone sets it.
    #[arg(skip)]
    pub annotations_file: Option<PathBuf>,
    /// Require an answer that matches this JSON Schema
    #[arg(long, alias = "output-schema", value_name = "LITERAL|@FILE")]
    pub json_schema: Option<String>,
    /// End with exit code 3 if a finding is at least this severe [default: the recipe's choice]
    #[arg(long, value_name = "LEVEL")]
    pub fail_on: Option<FailOn>,
    /// Count only findings that the model is at least this sure of [default: the recipe's choice]
    #[arg(long, value_name = "LEVEL")]
    pub fail_confidence: Option<Confidence>,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
    /// Print only errors to standard error
    #[arg(short, long, conflicts_with_all = ["verbose", "debug"])]
    pub quiet: bool,
    /// Print more to standard error; twice: everything that the model sees
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    /// Same as -vv
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
    /// Ignore context files, settings, commands, agents, skills, MCP servers and hooks on disk
    #[arg(long)]
    pub bare: bool,
    /// Add MCP servers from JSON or a JSON file; replaces servers of the same name (repeatable)
    #[arg(long, value_name = "JSON|FILE", value_parser = not_blank)]
    pub mcp_config: Vec<String>,
    /// Start only these MCP servers (repeatable, comma-separated)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub allowed_mcp_server_names: Vec<String>,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
}

/// Which conversation it is.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Session")]
pub struct SessionArgs {
    /// Resume the last session of this directory
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["resume", "no_session"])]
    pub continue_last: bool,
    /// Resume the session with this id
    #[arg(short, long, value_name = "ID", conflicts_with = "no_session")]
    pub resume: Option<String>,
    /// Resume into a new session
    #[arg(long)]
    pub fork_session: bool,
    /// Id of the new session
    #[arg(long, value_name = "ID")]
    pub session_id: Option<String>,
    /// Do not keep a session [this is the default in CI]
    #[arg(long)]
    pub no_session: bool,
    /// Whether the session that is resumed has text of strangers.
    #[arg(skip)]
    pub is_untrusted: bool,
}

/// Runs without a model.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Test")]
pub struct TestArgs {
    /// Record requests and responses to a file
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Answer from a recorded file; end with exit code 66 if a request differs
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
    /// No effect; only `text` is accepted
    #[arg(long, value_name = "FORMAT", value_parser = ["text"])]
    pub input_format: Option<String>,
    /// No effect; only `openai` is accepted
    #[arg(long, value_name = "TYPE", value_parser = ["openai"])]
    pub auth_type: Option<String>,
    /// No effect
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub chat_recording: Option<bool>,
    /// No effect
    #[arg(long, value_name = "X")]
    pub telemetry_target: Option<String>,
}

/// Whether and where a run is reported to OpenTelemetry.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "OpenTelemetry (`qwen help observe`)")]
pub struct TelemetryArgs {
    /// Report the run to OpenTelemetry; `false` overrides variables and settings
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub telemetry: Option<bool>,
    /// Server to report to; `/v1/traces` and `/v1/metrics` are appended
    #[arg(long, value_name = "URL")]
    pub telemetry_otlp_endpoint: Option<String>,
    /// Protocol: http/protobuf or http/json
    #[arg(long, value_name = "NAME")]
    pub telemetry_otlp_protocol: Option<String>,
    /// Also report prompts, responses, and the input and output of tools
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub telemetry_log_prompts: Option<bool>,
    /// Append the reports to this file as JSON Lines instead of sending them
    #[arg(long, value_name = "FILE")]
    pub telemetry_outfile: Option<String>,
}
