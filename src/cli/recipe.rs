//! Defines `qwen recipe`: list, show, check, create, test and evaluate recipes.

use clap::Subcommand;

use super::eval::EvalArgs;
use super::workspace::WorkspaceArgs;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen recipe list
  qwen recipe show fix-lint --commands
  qwen recipe new tidy && qwen recipe validate tidy
  qwen recipe test recipes/*.yaml
  qwen recipe eval fix-lint -m qwen3-coder-plus,qwen3-coder-flash --out eval";

/// What to do with recipes.
#[derive(Debug, Clone, Subcommand)]
pub enum RecipeVerb {
    /// List the recipes of the repository, of your home directory, and the built-in ones
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Show a recipe: parameters, what the policy allows, estimated cost
    Show {
        /// The recipe
        #[arg(value_name = "NAME|FILE")]
        recipe: String,
        /// Gather the inputs and print the first message of a run, byte for byte
        #[arg(long)]
        prompt: bool,
        /// Print the rendered commands that the recipe runs
        #[arg(long)]
        commands: bool,
        /// Print the merged recipe
        #[arg(long)]
        merged: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Recipe parameter (repeatable)
        #[arg(long = "param", value_name = "K=V")]
        params: Vec<String>,
        /// Policy to show it under [default: the policy of a run in this directory]
        #[arg(long, value_name = "NAME|FILE")]
        policy: Option<String>,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Check recipes without running them; exit code 42 if one is invalid
    Validate {
        /// Recipes [default: all of .qwen/recipes]
        #[arg(value_name = "NAME|FILE")]
        recipes: Vec<String>,
        /// Treat warnings as errors
        #[arg(long)]
        strict: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Create a short recipe to start from, .qwen/recipes/NAME.yaml
    New {
        /// Name of the recipe
        #[arg(value_name = "NAME")]
        name: String,
        /// Built-in recipe that it builds on, as builtin:NAME
        #[arg(long, value_name = "builtin:NAME")]
        from: Option<String>,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Run the tests of recipes, offline; exit code 64 if one fails
    Test {
        /// Recipe files, or names of recipes in .qwen/recipes [default: all of them]
        #[arg(value_name = "NAME|FILE")]
        recipes: Vec<String>,
        /// Call the configured model and record each `transcript` ending in .jsonl again
        #[arg(long)]
        record: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Run the tests of recipes several times with a model; say how often they pass
    ///
    /// Gates end it with exit code 3; with 75 if too many runs did not happen.
    Eval(Box<EvalArgs>),
}
