//! Prepares the recipe of a run: finds it, binds its parameters, and checks its needs against the policy.

pub mod answer_cache;
pub mod answers;
pub mod checks;
mod commits;
pub mod diff;
pub mod fences;
pub mod finishing;
pub mod from_hook;
pub mod gather;
mod github;
pub mod parts;
mod project;
mod since;
mod trusted;
pub mod verification;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::base::{Code, Diagnostic, Location, Span};
use crate::bounded;
use crate::cli::RunArgs;
use crate::event::Limits;
use crate::git::Programs;
use crate::git::repository::Repository;
use crate::git::trusted::TrustedTree;
use crate::path::RelPath;
use crate::policy::file::{Delivery, UntrustedInput};
use crate::policy::own_files;
use crate::policy::{Denial, Policy};
use crate::recipe::complete::complete;
use crate::recipe::file::{Given, OutputKind, ParamType, RequiredGit, Text};
use crate::recipe::load::Library;
use crate::recipe::params::{Bound, Sources, World, bind, project_command};
use crate::recipe::project::Project;
use crate::recipe::render::{Renderer, Values, plain};
use crate::recipe::{Recipe, needs, version};
use crate::settings::Environment;

use crate::run::error::Failure;
use crate::run::error::RecipeError;
use crate::run::finish::mode::{Mode, refusal};
use crate::run::rules::trust::{Source, Trusted, refuse_linked_secret};

/// The directory of a project's recipes.
const FOLDER: &str = ".qwen/recipes";

/// A recipe that is bound to this run.
pub struct Active {
    /// The recipe.
    pub recipe: Recipe,
    /// The values of its parameters.
    pub bound: Bound,
    /// Standard input, if an input asks for it.
    pub standard_input: Option<String>,
    values: Values,
}

/// What finding recipes and binding their parameters needs.
pub struct RecipeContext<'a> {
    /// The environment.
    pub environment: &'a Environment,
    /// The repository's top directory, else the workspace.
    pub top: &'a Path,
    /// The workspace.
    pub root: &'a Path,
    /// The repository.
    pub repository: Option<&'a Repository>,
    /// Which files of the checkout are trusted.
    pub trusted: &'a Trusted,
    /// The directory of the program's state.
    pub state: Option<&'a Path>,
    /// The commit from which a hook reads the repository's recipes; `None`: as trusted.
    pub tree: Option<&'a TrustedTree>,
}

impl RecipeContext<'_> {
    /// Finds and checks a recipe by its name or path on the command line.
    pub fn find(&self, word: &str) -> Result<Recipe, RecipeError> {
        let recipe = self.with_library(|library| library.load(word)).map_err(RecipeError::Wrong)?;
        Ok(self.without_foreign_model(recipe))
    }

    /// Reads the text of a file that a flag names.
    fn named_text(&self, path: &Path) -> Result<String, String> {
        self.trusted.named_text(self.top, &self.environment.cwd.join(path))
    }

    /// Returns where the project's recipes are read from.
    fn source(&self) -> Source<'_> {
        self.tree.map_or_else(|| self.trusted.source(), Source::Commit)
    }

    /// Calls with the places where recipes are looked for. On a person's own machine a checkout's recipes are always
    /// read: they can only ask. In CI they come from the trusted commit.
    pub fn with_library<T>(&self, call: impl FnOnce(&Library<'_>) -> T) -> T {
        let folder = self.top.join(FOLDER);
        let project = |name: &str| match self.source() {
            Source::Disk => bounded::optional(own_files::read(self.top, &folder.join(name), bounded::CONFIG))
                .map_err(|error| error.to_string()),
            Source::Commit(tree) => tree.read(&format!("{FOLDER}/{name}")).map_err(|error| error.to_string()),
            Source::Nowhere => Ok(None),
        };
        let names = || match self.source() {
            Source::Disk => {
                let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
                entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
            }
            Source::Commit(tree) => {
                let files = tree.files_below(FOLDER).unwrap_or_default();
                let name = |file: &String| file.strip_prefix(FOLDER)?.strip_prefix('/').map(str::to_owned);
                files.iter().filter_map(name).filter(|name| !name.contains('/')).collect()
            }
            Source::Nowhere => Vec::new(),
        };
        call(&Library {
            cwd: &self.environment.cwd,
            home: self.environment.home.as_deref(),
            project: &project,
            project_names: &names,
            project_first: self.counts(),
            named: &|path| self.trusted.read_for_recipe(self.top, path),
        })
    }
}

/// Finds the recipe that the flags name and binds its parameters. Nothing has been sent yet.
pub async fn load(
    arguments: &RunArgs,
    surroundings: &RecipeContext<'_>,
    run_id: &str,
    date: &str,
) -> Result<Option<Active>, Failure> {
    let flags = &arguments.input;
    let Some(word) = &flags.recipe else {
        if !flags.params.is_empty() || flags.params_file.is_some() {
            return Err(RecipeError::ParamsAlone.into());
        }
        return Ok(None);
    };
    let recipe = surroundings.find(word)?;
    if arguments.context.strict && !recipe.warnings.is_empty() {
        return Err(RecipeError::Wrong(recipe.warnings).into());
    }
    let wants_input = recipe.context().iter().any(|context| context.stdin == Some(true));
    let readers = flags.params.iter().filter(|param| param.ends_with("=-")).count()
        + usize::from(flags.params_file.as_deref() == Some(Path::new("-")))
        + usize::from(wants_input);
    if readers > 1 {
        return Err(RecipeError::StandardInputTwice.into());
    }
    let standard_input = match readers {
        0 => None,
        _ => {
            use crate::cli::input::{CAP, FIRST_BYTE, ProcessInput, read_standard_input};
            let read = read_standard_input(ProcessInput::open(), CAP, FIRST_BYTE).await;
            Some(read.map_err(RecipeError::StandardInput)?.text)
        }
    };
    let file = match &flags.params_file {
        None => Map::new(),
        Some(path) => params_file(path, surroundings, standard_input.as_deref())?,
    };
    let sources = Sources { flags: flags.params.clone(), file, items: Map::new() };
    let secret = fences::of_run(arguments, surroundings.state)?;
    let given = (standard_input, arguments.from_job.command.clone());
    surroundings.bound(recipe, &sources, given, secret, (run_id, date)).map(Some).map_err(Failure::from)
}

/// Binds the parameters of a recipe to the values of an item and to those of the flags, which win.
pub fn bind_item(
    recipe: Recipe,
    arguments: &RunArgs,
    surroundings: &RecipeContext<'_>,
    values: &Map<String, Value>,
    run: (&str, &str),
) -> Result<Active, RecipeError> {
    let flags = &arguments.input;
    let file = match &flags.params_file {
        None => Map::new(),
        Some(path) => params_file(path, surroundings, None)?,
    };
    let sources = Sources { flags: flags.params.clone(), file, items: values.clone() };
    let secret = fences::of_run(arguments, surroundings.state)?;
    surroundings.bound(recipe, &sources, (None, None), secret, run)
}

impl RecipeContext<'_> {
    /// Binds parameters for inspection; nothing is run.
    pub fn bind(&self, recipe: Recipe, sources: &Sources) -> Result<Active, RecipeError> {
        self.bound(recipe, sources, (None, None), fences::CONSTANT.to_vec(), ("00000000", "2026-01-01"))
    }

    /// Binds parameters, and finds the commands of the project that templates name.
    fn bound(
        &self,
        recipe: Recipe,
        sources: &Sources,
        (standard_input, command): (Option<String>, Option<String>),
        secret: Vec<u8>,
        run: (&str, &str),
    ) -> Result<Active, RecipeError> {
        let reads_variables = self.may_read_variables(&recipe);
        let world = Outside { surroundings: self, standard_input: standard_input.clone(), reads_variables, command };
        let bound = bind(&recipe.params(), sources, &world).map_err(RecipeError::Wrong)?;
        let mut project = BTreeMap::new();
        for (purpose, place) in recipe.project_commands() {
            let words = project_command(&world, purpose, None).map_err(|mut error| {
                (error.file, error.span) = (place.file.clone(), place.span);
                RecipeError::Wrong(vec![recipe.with_line(error)])
            })?;
            project.insert(purpose.name(), words);
        }
        Ok(Active::new(recipe, bound, standard_input, self.repository, secret, (project, run)))
    }
}

fn params_file(
    path: &Path,
    surroundings: &RecipeContext<'_>,
    standard_input: Option<&str>,
) -> Result<Map<String, Value>, RecipeError> {
    let shown = path.display().to_string();
    let text = match standard_input {
        Some(text) if shown == "-" => text.to_owned(),
        Some(_) | None => {
            surroundings.named_text(path).map_err(|why| RecipeError::ParamsFile { path: shown.clone(), why })?
        }
    };
    // What the file has may be a secret: a wrong one is named by place alone.
    let wrong =
        |span| RecipeError::Params(Diagnostic::at(&shown, span, "this is not a file of parameters").to_string());
    if shown.ends_with(".json") {
        let number = |number: usize| u32::try_from(number).unwrap_or_default();
        let place = |error: &serde_json::Error| Span { line: number(error.line()), column: number(error.column()) };
        return serde_json::from_str(&text).map_err(|error| wrong(place(&error)));
    }
    // A scalar keeps its spelling: the declared type converts it.
    let given = crate::recipe::parse::parse_params(&shown, &text).map_err(|error| wrong(error.span))?;
    let value = |given: Given| match given {
        Given::One(text) => Value::from(text.value),
        Given::Many(texts) => Value::from(texts.into_iter().map(|text| text.value).collect::<Vec<_>>()),
    };
    Ok(given.into_iter().map(|(name, given)| (name, value(given))).collect())
}

/// The sources of parameters outside the command line.
struct Outside<'a> {
    surroundings: &'a RecipeContext<'a>,
    standard_input: Option<String>,
    reads_variables: bool,
    /// What the comment asks for that started the run.
    command: Option<String>,
}

impl World for Outside<'_> {
    fn file(&self, path: &str) -> Result<String, String> {
        let path = self.surroundings.environment.cwd.join(path);
        refuse_linked_secret(&path)?;
        bounded::named_text(&path, bounded::PROMPT).map_err(|error| error.to_string())
    }

    fn event(&self, pointer: &str) -> Result<Value, String> {
        let path = self.surroundings.environment.value("GITHUB_EVENT_PATH").ok_or("GITHUB_EVENT_PATH is not set")?;
        let text = self.file(&path)?;
        let event: Value = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
        event.pointer(pointer).cloned().ok_or_else(|| "the event has no such value".to_owned())
    }

    fn command(&self) -> Result<String, String> {
        self.command.clone().ok_or_else(|| "no comment with the mention started this run".to_owned())
    }

    fn standard_input(&self) -> Result<String, String> {
        self.standard_input.clone().ok_or_else(|| "standard input is not available".to_owned())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.surroundings.environment.value(name).filter(|_| self.reads_variables)
    }

    fn reads_variables(&self) -> bool {
        self.reads_variables
    }

    fn project(&self) -> Result<Project, String> {
        let RecipeContext { top, repository, .. } = *self.surroundings;
        let prefix = repository.map(|repository| repository.prefix.to_string_lossy()).unwrap_or_default();
        project::find(self.surroundings.source(), top, &prefix, &self.surroundings.trusted.why_not)
    }

    fn last_tag(&self) -> Option<String> {
        let git = self.surroundings.repository?.git();
        git.line(&["describe", "--tags", "--abbrev=0"], b"").ok().filter(|tag| !tag.is_empty())
    }

    fn path(&self, path: &RelPath) -> Result<bool, String> {
        let root = self.surroundings.root;
        let mut at: PathBuf = path.under(root);
        let exists = at.exists();
        // A path that does not exist is resolved by its nearest existing directory.
        while !at.exists() && at.symlink_metadata().is_err() && at != root {
            at.pop();
        }
        match at.canonicalize() {
            Ok(real) if real.starts_with(root) => Ok(exists),
            Ok(_) | Err(_) => Err("points outside the workspace".to_owned()),
        }
    }
}

/// Quotes a word so that the command parser reads it as one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.contains('=') {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

impl Active {
    /// Puts a recipe and its values together.
    pub fn new(
        recipe: Recipe,
        bound: Bound,
        standard_input: Option<String>,
        repository: Option<&Repository>,
        secret: Vec<u8>,
        (project, (run_id, date)): (BTreeMap<&'static str, Vec<String>>, (&str, &str)),
    ) -> Active {
        let recipe = complete(recipe, &bound);
        let branch = repository.and_then(|repository| repository.branch.clone()).unwrap_or_default();
        let sha = repository.and_then(|repository| repository.head.clone()).unwrap_or_default();
        let name = repository.and_then(|repository| repository.top.file_name());
        let base = recipe.file.git.as_ref().and_then(|git| git.base.as_ref()).map(|base| base.value.clone());
        let short: String = run_id.chars().rev().filter(char::is_ascii_alphanumeric).take(8).collect();
        let values = Values {
            params: bound.clone(),
            context: BTreeMap::new(),
            git: BTreeMap::from([
                ("branch", branch.trim_start_matches("refs/heads/").to_owned()),
                ("sha", sha),
                ("base", base.unwrap_or_default()),
                ("repo", name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()),
            ]),
            run: BTreeMap::from([
                ("id", run_id.to_owned()),
                ("short_id", short),
                ("date", date.get(..10).unwrap_or(date).to_owned()),
                ("attempt", "1".to_owned()),
            ]),
            recipe: BTreeMap::from([
                ("name", recipe.name().to_owned()),
                ("version", recipe.facts().version.unwrap_or_default()),
            ]),
            project,
            untrusted: recipe.untrusted(),
            secret,
        };
        Active { recipe, bound, standard_input, values }
    }

    /// Returns a renderer of the recipe's texts, with the gathered inputs.
    pub fn renderer(&self, inputs: &[(String, String)]) -> Renderer {
        let mut values = self.values.clone();
        values.context = inputs.iter().cloned().collect();
        Renderer::new(&values)
    }

    /// Renders a text without gathered inputs.
    pub fn text(&self, text: &Text) -> Result<String, RecipeError> {
        self.renderer(&[]).text(&text.value).map_err(|problem| self.unrendered(text, problem.message))
    }

    fn unrendered(&self, text: &Text, problem: String) -> RecipeError {
        RecipeError::Wrong(vec![self.recipe.with_line(Diagnostic::new(Code::R006, text.place.clone(), problem))])
    }

    /// Renders the user message.
    pub fn prompt(&self, inputs: &[(String, String)]) -> Result<String, RecipeError> {
        let Some(prompt) = &self.recipe.file.prompt else { return Ok(String::new()) };
        self.renderer(inputs).text(&prompt.value).map_err(|problem| self.unrendered(prompt, problem.message))
    }

    /// Renders the instructions.
    pub fn instructions(&self) -> Result<Option<String>, RecipeError> {
        self.recipe.file.instructions.as_ref().map(|text| self.text(text)).transpose()
    }

    /// Tells whether the prompt contains text that strangers may have written.
    pub fn has_untrusted_text(&self) -> bool {
        let untrusted = self.recipe.untrusted();
        self.recipe.context().iter().any(|context| untrusted.contains(&format!("context.{}", context.name.value)))
            || self
                .bound
                .iter()
                .any(|(name, value)| untrusted.contains(&format!("params.{name}")) && value.as_str() != Some(""))
    }

    /// Returns what the run may do with the untrusted text in its prompt; `Allow` where there is none.
    /// `by_writer`: nobody but people who may write to the repository started it.
    pub fn untrusted_input(&self, policy: &Policy, by_writer: bool) -> UntrustedInput {
        match policy.untrusted_input() {
            _ if !self.has_untrusted_text() => UntrustedInput::Allow,
            UntrustedInput::Propose if !by_writer => UntrustedInput::AnswerOnly,
            known => known,
        }
    }

    /// Returns a policy without what untrusted text takes away, if the run may still propose.
    pub fn without_network(&self, policy: &Policy) -> Result<Policy, RecipeError> {
        needs::without_network().map(|layer| policy.and(layer)).map_err(|cause| self.in_needs(cause))
    }

    fn in_needs(&self, cause: Diagnostic) -> RecipeError {
        RecipeError::Needs { file: self.recipe.source.clone(), cause: Box::new(cause.into()) }
    }

    /// Returns the policy of the run: what both allow. A need that nothing could meet ends the run here.
    pub fn narrow(&self, policy: &Policy, untrusted: UntrustedInput) -> Result<Policy, RecipeError> {
        let missing = needs::missing(self.recipe.needs(), policy);
        if !missing.is_empty() {
            let missing = missing.into_iter().map(|error| self.recipe.with_line(error)).collect();
            return Err(RecipeError::NotGranted(missing));
        }
        let layer = needs::layer(self.recipe.name(), self.recipe.needs(), untrusted == UntrustedInput::AnswerOnly);
        let layer = layer.map_err(|cause| self.in_needs(cause))?;
        match untrusted {
            UntrustedInput::Propose => self.without_network(policy).map(|policy| policy.and(layer)),
            UntrustedInput::AnswerOnly | UntrustedInput::Allow => Ok(policy.and(layer)),
        }
    }

    /// Returns the ending of a run whose recipe needs what the policy does not grant.
    pub fn not_granted(&self, place: &Location, message: impl Into<String>, help: impl Into<String>) -> RecipeError {
        let error = Diagnostic::new(Code::N001, place.clone(), message).help(help);
        RecipeError::NotGranted(vec![self.recipe.with_line(error)])
    }

    /// The same for a command.
    pub fn not_run(&self, place: &Location, what: &str, words: &[String], denial: Denial) -> RecipeError {
        let words = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let hint = denial.hint.map_or_else(|| "; allow it in the policy".to_owned(), |hint| format!("; {hint}"));
        self.not_granted(
            place,
            format!("the policy does not allow `{what}` to run `{words}`"),
            format!("{}{hint}", denial.reason),
        )
    }

    /// Checks the requirements.
    pub fn requires(&self, programs: &Programs, repository: Option<&Repository>) -> Result<(), RecipeError> {
        let requires = self.recipe.file.requires.clone().unwrap_or_default();
        let mut errors = Vec::new();
        let mut lacks = |place: Location, message: String, help: &str| {
            errors.push(self.recipe.with_line(Diagnostic::new(Code::N002, place, message).help(help)));
        };
        let of_git = || self.recipe.place("requires.git");
        let own = env!("CARGO_PKG_VERSION");
        if let Some(range) = &requires.qwen
            && version::satisfies(&range.value, own) != Ok(true)
        {
            let help = "install that version of qwen, or use a recipe for this one";
            lacks(range.place.clone(), format!("it needs qwen {}, this is {own}", range.value), help);
        }
        for program in requires.programs.iter().flatten() {
            if programs.find(program.as_str()).is_err() {
                let message = format!("the program `{}` is not in PATH", program.value);
                lacks(program.place.clone(), message, "install it, or add its directory to PATH");
            }
        }
        for (name, program) in self.given_programs().filter(|(_, program)| programs.find(program).is_err()) {
            let message = format!("the program `{program}` is not in PATH");
            let help = format!("install it, or give another command with --param {name}='COMMAND'");
            lacks(self.recipe.place(&format!("params.{name}")), message, &help);
        }
        match (requires.git, repository) {
            (Some(RequiredGit::Repo | RequiredGit::Clean), None) => {
                lacks(of_git(), "it needs a git repository".to_owned(), "run it in one, or create one with `git init`");
            }
            (Some(RequiredGit::Clean), Some(repository)) => {
                // No filter of the repository runs: git's record of a filtered file decides.
                let git = repository.without_filters();
                let status = git.and_then(|git| {
                    Ok(git.run(&["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"], b"")?)
                });
                if !status.is_ok_and(|status| status.is_empty()) {
                    lacks(of_git(), "tracked files have changes".to_owned(), "commit or stash them first");
                }
            }
            (Some(RequiredGit::None | RequiredGit::Repo) | None, _) => {}
        }
        if errors.is_empty() { Ok(()) } else { Err(RecipeError::Wrong(errors)) }
    }

    /// Returns the programs of the commands that parameters give, with the parameter. One that is named by its path
    /// belongs to the project.
    fn given_programs(&self) -> impl Iterator<Item = (String, String)> {
        let commands = self.recipe.params().into_iter().filter(|(_, param)| param.r#type == ParamType::Command);
        let program = |(name, _)| {
            let program = self.bound.get(&name)?.get(0)?.as_str()?.to_owned();
            (!program.contains('/') && program != "qwen").then_some((name, program))
        };
        commands.filter_map(program)
    }

    /// Returns the values of secret parameters, under names that masking recognises.
    pub fn secrets(&self) -> Vec<(String, String)> {
        let params = self.recipe.params();
        let secret = self.bound.iter().filter(|(name, _)| params.get(*name).is_some_and(|param| param.secret));
        let named = |name: &str, value: &Value| (format!("SECRET_{}", name.to_uppercase()), plain(value));
        let one = |(name, value): (&String, &Value)| match value {
            Value::Array(items) => {
                items.iter().enumerate().map(|(at, item)| named(&format!("{name}_{at}"), item)).collect()
            }
            value => vec![named(name, value)],
        };
        secret.flat_map(one).collect()
    }

    /// Returns the limits that the recipe sets.
    pub fn limits(&self) -> Limits {
        let limits = self.recipe.limits();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Limits {
            turns: limits.turns,
            tool_calls: limits.tool_calls,
            wall_time_ms: limits.wall_time.map(|time| millis(time.0)),
            total_tokens: limits.total_tokens,
            cost_usd: limits.cost_usd,
            ..Limits::default()
        }
    }

    /// Returns the recipe's delivery, as far as the policy allows it.
    pub fn delivery(&self, policy: &Policy, warnings: &mut Vec<String>) -> Result<Mode, RecipeError> {
        let git = self.recipe.file.git.clone().unwrap_or_default();
        let wish = git.changes.unwrap_or(Delivery::DryRun);
        if wish != Delivery::DryRun && !policy.changes().allow.contains(&wish) {
            warnings.push(format!(
                "the recipe {} wants to deliver its changes, and {}: dry run",
                self.recipe.name(),
                refusal(policy, wish)
            ));
            return Ok(Mode::DryRun);
        }
        Ok(match wish {
            Delivery::DryRun => Mode::DryRun,
            Delivery::Apply => Mode::Apply,
            Delivery::Commit => Mode::Commit,
            Delivery::Branch => match &git.branch {
                Some(branch) => Mode::Branch(self.text(branch)?),
                None => {
                    return Err(RecipeError::NoBranch);
                }
            },
        })
    }

    /// Tells whether the recipe expects changes.
    pub fn changes_expected(&self) -> bool {
        self.recipe.output().kind == OutputKind::Changes
    }
}
