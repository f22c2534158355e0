//! Defines the flags of `qwen recipe eval`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::values::{dollars, not_blank, share};
use super::workspace::WorkspaceArgs;

/// Maximum runs of each case with each model.
pub const MOST_RUNS: u32 = 1000;

/// The flags of `recipe eval`.
#[derive(Debug, Clone, Args)]
pub struct EvalArgs {
    /// Recipe files, or names of recipes in .qwen/recipes
    #[arg(value_name = "NAME|FILE", required = true)]
    pub recipes: Vec<String>,
    /// Models to compare, separated by commas [default: the configured model]
    #[arg(short, long, value_name = "A,B", value_delimiter = ',', value_parser = not_blank)]
    pub model: Vec<String>,
    /// Runs of each case with each model [default: 5; with --replay: those that are recorded]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RUNS)))]
    pub runs: Option<u32>,
    /// Run only this case (repeatable)
    #[arg(long = "case", value_name = "NAME", value_parser = not_blank)]
    pub cases: Vec<String>,
    /// More cases: JSON lines with name, fixture, params, expect
    #[arg(long = "cases", value_name = "FILE")]
    pub cases_file: Option<PathBuf>,
    /// Runs at a time
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: u32,
    /// Directory of recordings and results; the same command continues there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Judge the recordings in --out again, without a network
    #[arg(long)]
    pub replay: bool,
    /// Make one shard of the runs: K of N, or what the CI system or scheduler says
    #[arg(long, value_name = "K/N|auto", conflicts_with = "replay")]
    pub shard: Option<String>,
    /// Most that all runs may cost, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars, conflicts_with = "replay")]
    pub total_cost_usd: Option<f64>,
    /// Format of standard output
    #[arg(short = 'o', long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output_format: EvalFormat,
    /// What it must come to.
    #[command(flatten)]
    pub gates: GateArgs,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// What an evaluation must come to.
#[derive(Debug, Clone, Default, Args)]
pub struct GateArgs {
    /// Compare with an earlier evaluation: its --out directory or eval.json
    #[arg(long, value_name = "DIR|FILE")]
    pub baseline: Option<PathBuf>,
    /// Exit with 3 if a smaller share of the runs passes, 0 to 1
    #[arg(long, value_name = "R", value_parser = share)]
    pub min_rate: Option<f64>,
    /// Exit with 3 if a smaller share of any case's runs passes
    #[arg(long, value_name = "R", value_parser = share)]
    pub min_case_rate: Option<f64>,
    /// Exit with 3 if the lower end of the interval is smaller
    #[arg(long, value_name = "R", value_parser = share)]
    pub min_rate_lower: Option<f64>,
    /// Exit with 3 if the recipe works worse than in the baseline
    #[arg(long, requires = "baseline")]
    pub no_regression: bool,
    /// Exit with 3 if the median cost rises by more than P percent
    #[arg(long, value_name = "P", requires = "baseline", value_parser = percent)]
    pub max_cost_rise: Option<f64>,
    /// Exit with 3 if the median of tokens rises by more than P percent
    #[arg(long, value_name = "P", requires = "baseline", value_parser = percent)]
    pub max_tokens_rise: Option<f64>,
}

/// A format of standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum EvalFormat {
    /// A table for people
    #[default]
    Text,
    /// The object that eval.json has
    Result,
    /// A table for a pull request, as in eval.md
    Markdown,
}

/// Parses a percentage, with or without its sign.
fn percent(text: &str) -> Result<f64, String> {
    dollars(text.strip_suffix('%').unwrap_or(text)).map_err(|_| format!("`{text}` is not a percentage such as 20%"))
}
