//! Defines `qwen batch`: one recipe over many items.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::RunArgs;
use super::batch_directory::{BatchVerb, CombineArgs};
use super::run::{CheckArgs, ContextArgs, FailOn, LimitArgs, ModelArgs, PolicyArgs, TelemetryArgs};
use super::values::{dollars, duration, not_blank};
use super::workspace::WorkspaceArgs;
use crate::batch::journal::Keep;
use crate::batch::tally::Share;
use crate::emit::{BatchFormat, Colour};

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Examples:
  qwen batch --items tickets.jsonl --recipe ./classify.yaml --out out --limit 10
  qwen batch --lines names.txt -p 'Is this the name of a person? {{ item.line }}'
  qwen batch --each 'src/**' --recipe ./document.yaml --map file=path --out out --branch docs
The same command again continues where it ended; `qwen help batch` says more.";

/// The flags of `batch`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct BatchArgs {
    /// What is done with the directory of a batch, if no items are run.
    #[command(subcommand)]
    pub verb: Option<BatchVerb>,
    /// The list.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Names of the items.
    #[command(flatten)]
    pub items: ItemArgs,
    /// What is done with each.
    #[command(flatten)]
    pub task: TaskArgs,
    /// In which order and how often.
    #[command(flatten)]
    pub course: CourseArgs,
    /// By which API.
    #[command(flatten)]
    pub api: ApiArgs,
    /// What happens to the changes of all.
    #[command(flatten)]
    pub combine: CombineArgs,
    /// Limits of all together.
    #[command(flatten)]
    pub totals: TotalArgs,
    /// What is printed.
    #[command(flatten)]
    pub output: BatchOutputArgs,
    /// Model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Limits of one item.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Context.
    #[command(flatten)]
    pub context: ContextArgs,
    /// Cassettes.
    #[command(flatten)]
    pub test: CassetteArgs,
    /// Telemetry.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// Where the items come from: one of these.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Items")]
#[group(required = true, multiple = false)]
pub struct SourceArgs {
    /// Files of the workspace that match; `!GLOB` leaves files out (repeatable)
    #[arg(long, value_name = "GLOB", value_parser = not_blank)]
    pub each: Vec<String>,
    /// Records of a .jsonl, .csv or .tsv file; `-` reads lines of JSON from standard input
    #[arg(long, value_name = "FILE")]
    pub items: Option<PathBuf>,
    /// Lines of a file that are not empty, as the field `line`; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub lines: Option<PathBuf>,
    /// Failed tests of a JUnit report
    #[arg(long, value_name = "FILE")]
    pub from_junit: Option<PathBuf>,
    /// Repositories, a line each: `URL|PATH [BRANCH]`, or JSON with `url` and `ref`; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub repos: Option<PathBuf>,
}

/// How the items are named and used.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Items")]
pub struct ItemArgs {
    /// Lines end with NUL
    #[arg(short = '0', long, requires = "lines")]
    pub null: bool,
    /// Field that names each item [default: `id`, `key` or `custom_id`, else a digest]
    #[arg(long, value_name = "FIELD", conflicts_with_all = ["each", "lines", "from_junit"], value_parser = not_blank)]
    pub key: Option<String>,
    /// Take a parameter from this field, a name or a JSON pointer [default: the field of its name] (repeatable)
    #[arg(long, value_name = "PARAM=FIELD", value_parser = mapping)]
    pub map: Vec<(String, String)>,
    /// Take the values of items for your own: without this they may be a stranger's
    #[arg(long)]
    pub trust_items: bool,
}

/// What is done with each item.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Task")]
pub struct TaskArgs {
    /// Recipe to run: a name from `qwen recipe list`, or a file
    #[arg(long, value_name = "NAME|FILE", value_parser = not_blank, required_unless_present = "prompt")]
    pub recipe: Option<String>,
    /// Prompt to run, with `{{ item.FIELD }}` where a value goes
    #[arg(short, long, value_name = "TEXT", conflicts_with = "recipe", value_parser = not_blank)]
    pub prompt: Option<String>,
    /// Set a recipe parameter for all items: K=V, K=@FILE or K=@event:/POINTER (repeatable)
    #[arg(long = "param", value_name = "K=V", requires = "recipe")]
    pub params: Vec<String>,
    /// Read parameters for all items from a JSON or YAML file
    #[arg(long, value_name = "FILE", requires = "recipe")]
    pub params_file: Option<PathBuf>,
    /// Show each item this file too, or a range of its lines (repeatable)
    #[arg(long = "file", value_name = "PATH[:FROM-TO]")]
    pub files: Vec<String>,
    /// Require an answer that matches this JSON Schema
    #[arg(long, value_name = "LITERAL|@FILE")]
    pub json_schema: Option<String>,
    /// Count an item as one with findings if a finding is at least this severe [default: the recipe's choice]
    #[arg(long, value_name = "LEVEL")]
    pub fail_on: Option<FailOn>,
    /// Checks of an item's changes.
    #[command(flatten)]
    pub checks: CheckArgs,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
    /// Also allow reading these directories (repeatable, comma-separated)
    #[arg(long, alias = "add-dir", value_name = "DIRS", value_delimiter = ',')]
    pub include_directories: Vec<PathBuf>,
}

/// In which order items run, how often, and what is kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Batch")]
pub struct CourseArgs {
    /// Directory for the journal, the changes and the results; the same command continues in it
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Which whole results to keep
    #[arg(long, value_name = "WHICH", default_value = "failed", requires = "out")]
    pub keep: Keep,
    /// Items at a time
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: u32,
    /// Run only the first N items that are not done
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Run items again: `failed`, `all`, or the one with this key (repeatable)
    #[arg(long, value_name = "WHICH|KEY", requires = "out")]
    pub rerun: Vec<String>,
    /// Begin again: every item is new; the old journal is kept
    #[arg(long, requires = "out")]
    pub restart: bool,
    /// Run one shard of the items: K of N, or what the CI system or scheduler says
    #[arg(long, value_name = "K/N|auto", requires = "out")]
    pub shard: Option<String>,
    /// Maximum tries of one item
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub item_attempts: u32,
    /// Exit codes of items that deserve another try (comma-separated)
    #[arg(long, value_name = "CODES", default_value = "75", value_delimiter = ',')]
    pub retry_on: Vec<u8>,
    /// Start no more items after so many failed; a percentage counts from 20 ended items on [default: none]
    #[arg(long, value_name = "N|P%")]
    pub max_failures: Option<Share>,
    /// Failed items that still count as success
    #[arg(long, value_name = "N|P%", default_value = "0")]
    pub allow_failures: Share,
    /// What running items may still take when the batch is to end
    #[arg(long, value_name = "D", default_value = "10s", value_parser = duration)]
    pub drain: Duration,
}

/// By which API the model is asked.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Batch")]
pub struct ApiArgs {
    /// How the model is asked
    #[arg(long, value_name = "WHICH", default_value = "chat")]
    pub api: Api,
    /// How long the provider may take with --api batch, in whole hours [default: 24h]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub window: Option<Duration>,
}

impl ApiArgs {
    /// Tells whether the provider's Batch API is used.
    pub fn is_batch(&self) -> bool {
        self.api == Api::Batch
    }
}

/// How the model is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Api {
    /// Item by item
    #[default]
    Chat,
    /// By the provider's Batch API
    Batch,
}

/// Limits of the whole batch.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Totals")]
pub struct TotalArgs {
    /// Maximum estimated cost of all items in US dollars [default: none]
    #[arg(long, value_name = "X", value_parser = dollars)]
    pub total_cost_usd: Option<f64>,
    /// Maximum tokens of all items [default: none]
    #[arg(long, value_name = "N")]
    pub total_tokens: Option<u64>,
    /// Maximum duration of this call [default: none]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub total_wall_time: Option<Duration>,
    /// Maximum requests in a minute [default: none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rpm: Option<u32>,
    /// Maximum tokens in a minute, as estimated before a request [default: none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub tpm: Option<u64>,
}

/// What is printed.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct BatchOutputArgs {
    /// Format of standard output [default: text with --out, else jsonl]
    #[arg(short, long, value_name = "FORMAT")]
    pub output_format: Option<BatchFormat>,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
    /// Print only errors to standard error
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also print a line for every item that is done
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// Runs without a server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Test")]
pub struct CassetteArgs {
    /// Record requests and responses, a file an item in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Answer from the recorded files of a directory
    #[arg(long, value_name = "DIR")]
    pub replay: Option<PathBuf>,
}

impl BatchArgs {
    /// Returns the flags of the run of an item, as far as they are the same for all.
    pub fn of_items(&self) -> RunArgs {
        let mut run = RunArgs {
            model: self.model.clone(),
            limits: self.limits.clone(),
            policy: self.policy.clone(),
            context: self.context.clone(),
            telemetry: self.telemetry.clone(),
            ..RunArgs::default()
        };
        let task = &self.task;
        run.input.recipe = task.recipe.clone();
        run.input.params = task.params.clone();
        run.input.files = task.files.clone();
        run.input.params_file = task.params_file.clone();
        run.input.workspace = task.workspace.clone();
        run.input.include_directories = task.include_directories.clone();
        run.input.no_stdin = true;
        // What is delivered, if anything, is the business of the batch.
        match (&self.source.repos, &self.combine.branch_each) {
            // Each repository is delivered to by its own item.
            (Some(_), Some(template)) => {
                run.changes.branch = Some(template.clone());
                run.changes.message = self.combine.message.clone();
            }
            _ => run.changes.dry_run = true,
        }
        run.changes.checks = task.checks.clone();
        run.output.json_schema = task.json_schema.clone();
        run.output.fail_on = task.fail_on;
        run.session.no_session = true;
        run
    }
}

/// Parses `PARAM=FIELD`.
fn mapping(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(param, field)| !param.is_empty() && !field.is_empty());
    let (param, field) = parts.ok_or_else(|| format!("`{text}` is not PARAM=FIELD, for example text=/ticket/body"))?;
    Ok((param.to_owned(), field.to_owned()))
}

/// The words that Qwen Code has after `batch`.
pub const OTHER_VERBS: [&str; 8] = ["check", "clean", "collect", "fetch", "list", "retry", "run", "submit"];
