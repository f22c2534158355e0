//! Defines `qwen recipe`: list, show, check, create and test recipes.

use std::path::PathBuf;

use clap::Subcommand;

use super::WorkspaceArgs;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen recipe list
  qwen recipe show fix-lint --commands
  qwen recipe new tidy && qwen recipe validate tidy
  qwen recipe test recipes/*.yaml";

/// What to do with recipes.
#[derive(Debug, Clone, Subcommand)]
pub enum RecipeVerb {
    /// List the recipes that can be had by name: the repository's, yours, the built-in ones
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Show what a recipe is, asks for, gets of the policy, and may cost
    Show {
        /// The recipe
        #[arg(value_name = "NAME|FILE")]
        recipe: String,
        /// Print the rendered prompt; what is gathered at the run stands as [context.NAME]
        #[arg(long)]
        prompt: bool,
        /// Print each command that the recipe runs, rendered
        #[arg(long)]
        commands: bool,
        /// Print the merged recipe
        #[arg(long)]
        merged: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Set a parameter (repeatable)
        #[arg(long = "param", value_name = "K=V")]
        params: Vec<String>,
        /// The policy that it meets [default: as for `run`]
        #[arg(long, value_name = "NAME|FILE")]
        policy: Option<String>,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Check recipes without running them; 42 if one is wrong
    Validate {
        /// The recipes [default: all of .qwen/recipes]
        #[arg(value_name = "NAME|FILE")]
        recipes: Vec<String>,
        /// Make errors of warnings
        #[arg(long)]
        strict: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Write a recipe of ten lines to .qwen/recipes/NAME.yaml, to begin with
    New {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Run the tests of recipes: a small project and a conversation each, without a network; 64 if one fails
    Test {
        /// The recipes, as files [default: all of .qwen/recipes]
        #[arg(value_name = "FILE")]
        recipes: Vec<PathBuf>,
        /// Ask the model of the environment, and write each `transcript` that ends in .jsonl anew
        #[arg(long)]
        record: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}
