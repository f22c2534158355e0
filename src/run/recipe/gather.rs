//! Gathers the inputs of a recipe before the model is asked, bounded and masked.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::agent::invoke::PolicyCheck;
use crate::base::CliError;
use crate::bounded;
use crate::change::Entry;
use crate::cli::run::{FromHook, FromJob};
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::policy::Facts;
use crate::policy::Policy;
use crate::policy::redact::Secrets;
use crate::recipe::file::{Argument, Context, DiffKind, GitHubKind, LocalRule, OnEmpty, OutputKind, Truncate};
use crate::recipe::params::normalised;
use crate::recipe::render::{Renderer, TemplateProblem, plain};
use crate::settings::Environment;
use crate::verify::middle_cut;
use crate::verify::review::Review;
use crate::workspace::Workspace;
use crate::workspace::ignore::Source;
use crate::workspace::walk::{Filter, walk};

use crate::run::error::{ContextError, Failure, InputProblem};
use crate::run::recipe::Active;
use crate::run::recipe::checks::{self, Done, Place, action};
use crate::run::recipe::diff::{ChangeReader, Choice};
use crate::run::recipe::github;
use crate::run::recipe::parts::{self, in_parts};
use crate::run::runner::Runner;

/// Maximum bytes of an input that sets no limit.
const MAX_BYTES: usize = 65_536;

/// The same for what is read from GitHub.
const OF_GITHUB: usize = 16_000;

/// Timeout of a command that gathers an input.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Gathers the inputs of a recipe.
pub struct Gatherer<'a> {
    /// The recipe.
    pub active: &'a Active,
    /// The files.
    pub workspace: &'a Workspace,
    /// The repository.
    pub repository: Option<&'a Repository>,
    /// The commands.
    pub runner: &'a Runner,
    /// The policy, without the recipe's needs.
    pub policy: &'a Policy,
    /// Applies that policy.
    pub judge: &'a dyn PolicyCheck,
    /// The facts for decisions.
    pub facts: &'a Facts,
    /// The secrets.
    pub secrets: &'a Secrets,
    /// Masks secrets.
    pub redact: &'a (dyn Fn(String) -> (String, u64) + Send + Sync),
    /// What started the run.
    pub start: Start<'a>,
    /// Answers of several conversations can become one.
    pub may_split: bool,
    /// Takes a warning.
    pub warn: &'a (dyn Fn(String) + Sync),
}

/// What started a run.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// Where repository, event and token are found.
    pub environment: &'a Environment,
    /// The git hook, if any.
    pub from_hook: Option<&'a FromHook>,
    /// What the job of the Action says.
    pub from_job: &'a FromJob,
}

/// The result of gathering.
pub enum Gathered {
    /// The inputs of each conversation, by name, and the changes under review among them.
    Inputs(Vec<Vec<(String, String)>>, Option<Review>),
    /// An input is empty, so there is nothing to do: its name.
    NothingToDo(String),
    /// No file of a change can be shown, so there is nothing to ask.
    NothingToShow(Review),
}

impl Gatherer<'_> {
    /// Gathers every input, in order.
    pub async fn gather(&self) -> Result<Gathered, Failure> {
        let renderer = self.active.renderer(&[]);
        let mut inputs = Vec::new();
        let mut reviewed: Option<Review> = None;
        let (mut total, mut parts) = (0, 1);
        for context in self.active.recipe.context() {
            let name = context.name.value.clone();
            let (texts, review) = match context.diff {
                Some(kind) => self.change(context, kind, &renderer).map(|(texts, review)| (texts, Some(review)))?,
                None => (vec![self.input(context, &renderer).await?], None),
            };
            let is_empty = match &review {
                Some(review) => review.coverage.parts == 0,
                None => texts.iter().all(|text| text.trim().is_empty()),
            };
            if is_empty {
                match (context.on_empty.unwrap_or_default(), review.as_ref()) {
                    (OnEmpty::Continue, _) => {}
                    (OnEmpty::SkipRun, Some(review)) if review.coverage.files > 0 => {
                        return Ok(Gathered::NothingToShow(review.clone()));
                    }
                    (OnEmpty::SkipRun, _) => return Ok(Gathered::NothingToDo(name)),
                    (OnEmpty::Fail, _) => {
                        return Err(failure(&name, InputProblem::Empty));
                    }
                }
            }
            if let Some(review) = review {
                match &mut reviewed {
                    Some(reviewed) => reviewed.add(review),
                    None => reviewed = Some(review),
                }
            }
            total += texts.iter().map(String::len).max().unwrap_or(0);
            if self.active.recipe.limits().context_bytes.is_some_and(|most| total > most) {
                return Err(failure(&name, InputProblem::TooMuch(total)));
            }
            parts = parts.max(texts.len());
            inputs.push((name, texts));
        }
        // What has no parts is the same in each conversation.
        let of_part = |part: usize| {
            let text = |texts: &[String]| texts.get(part).or(texts.last()).cloned().unwrap_or_default();
            inputs.iter().map(|(name, texts)| (name.clone(), text(texts))).collect()
        };
        Ok(Gathered::Inputs((0..parts).map(of_part).collect(), reviewed))
    }

    /// Reads a change under review, in parts.
    fn change(&self, context: &Context, kind: DiffKind, renderer: &Renderer) -> Result<(Vec<String>, Review), Failure> {
        let name = &context.name.value;
        let range = match &context.range {
            None => None,
            Some(range) => {
                renderer.words(&[range.as_str()]).map_err(|problem| unrendered(name, problem, "give a revision"))?.pop()
            }
        };
        let repository = self.repository.ok_or_else(|| failure(name, InputProblem::NoRepository))?;
        let Gatherer { policy, facts, secrets, start, .. } = *self;
        let (from_hook, since) = (start.from_hook, start.from_job.since.as_deref());
        let reader = ChangeReader { repository, policy, facts, secrets, from_hook, since };
        let recipe = &self.active.recipe;
        let output = recipe.output();
        let rules = output.local.as_deref().unwrap_or(&LocalRule::ALL);
        // Without findings there is nowhere to say it.
        let rules = if output.kind == OutputKind::Findings { rules } else { &[] };
        let of_hook = from_hook.and_then(|hook| hook.range.as_deref()).filter(|_| kind == DiffKind::Staged);
        let (kind, range) = of_hook.map_or((kind, range.as_deref()), |range| (DiffKind::Range, Some(range)));
        let read = reader.read(kind, range, &Choice::new(context), rules);
        let (text, mut review) = read.map_err(|error| failure(name, InputProblem::Diff(error)))?;
        let is_only = recipe.context().iter().filter(|context| context.diff.is_some()).count() == 1;
        let on_large = parts::on_large(context, self.may_split && is_only);
        // Secrets are masked first: half of one would not be known.
        let texts = in_parts(&self.masked_part(text), &mut review, (context, on_large));
        let texts = texts.map_err(|problem| failure(name, InputProblem::TooLarge(problem)))?;
        // The lists of files were added.
        let masked = |text: String| match self.policy.redacts() {
            true => self.secrets.mask_rest(&text).0.into_owned(),
            false => text,
        };
        Ok((texts.into_iter().map(masked).collect(), review))
    }

    /// Masks what a command printed, or a diff: it may show lines of a key without its beginning.
    fn masked_part(&self, text: String) -> String {
        if self.policy.redacts() { self.secrets.mask_part(&text).0.into_owned() } else { text }
    }

    /// Gathers an input that is no change, masked and then cut.
    async fn input(&self, context: &Context, renderer: &Renderer) -> Result<String, Failure> {
        let text = self.whole(context, renderer).await?;
        // What a command printed is masked at once.
        let text = if context.run.is_some() { text } else { (self.redact)(text).0 };
        cut(text, context).map_err(|problem| failure(&context.name.value, InputProblem::TooLarge(problem)))
    }

    async fn whole(&self, context: &Context, renderer: &Renderer) -> Result<String, Failure> {
        let name = &context.name.value;
        let rendered = |template: &str| {
            renderer.text(template).map_err(|problem| unrendered(name, problem, "correct the parameter"))
        };
        if let Some(words) = &context.run {
            return self.command(context, words, renderer).await;
        }
        if let Some(file) = &context.file {
            let path = rendered(file.as_str())?;
            let normal = normalised(&path).ok_or_else(|| failure(name, InputProblem::Outside(path)))?;
            return self.file(context, &normal);
        }
        if let Some(globs) = &context.glob {
            let globs = globs.iter().map(|glob| rendered(glob.as_str())).collect::<Result<Vec<_>, _>>()?;
            return self.files(context, globs);
        }
        if let Some(kind) = context.github {
            return self.github(context, kind, renderer).await;
        }
        if let Some(param) = &context.param {
            let value = self.active.bound.get(param.as_str());
            return Ok(value.map(plain).unwrap_or_default());
        }
        Ok(self.active.standard_input.clone().unwrap_or_default())
    }

    /// Reads from GitHub.
    async fn github(&self, context: &Context, kind: GitHubKind, renderer: &Renderer) -> Result<String, Failure> {
        let name = &context.name.value;
        let number = match &context.number {
            None => None,
            Some(number) => {
                let text = renderer.text(number.as_str()).map_err(|error| unrendered(name, error, "give a number"))?;
                let problem = || format!("`{text}` is not the number of a pull request or issue");
                let parsed = text.trim().parse::<u64>().ok().filter(|number| *number > 0);
                Some(parsed.ok_or_else(|| {
                    failure(name, InputProblem::Template { problem: problem(), help: "give a number".to_owned() })
                })?)
            }
        };
        let most = context.max_bytes.unwrap_or(OF_GITHUB);
        let read = github::read(kind, number, most, self.start.environment, self.start.from_job.token.as_ref()).await;
        let is_wanted = context.on_empty.unwrap_or_default() != OnEmpty::Continue;
        match read.map_err(|error| ContextError { name: name.clone(), problem: InputProblem::GitHub(error) }) {
            Ok(text) => Ok(text),
            Err(error) if is_wanted => Err(error.into()),
            Err(error) => {
                (self.warn)(format!("{error}; the run continues without it: {}", error.hint().unwrap_or_default()));
                Ok(String::new())
            }
        }
    }

    /// Reads the files that globs match.
    fn files(&self, context: &Context, globs: Vec<String>) -> Result<String, Failure> {
        let name = &context.name.value;
        let mut set = globset::GlobSetBuilder::new();
        for glob in globs {
            let built = globset::GlobBuilder::new(&glob).literal_separator(true).build();
            set.add(built.map_err(|cause| failure(name, InputProblem::Glob { glob, cause }))?);
        }
        let set = set.build().map_err(|cause| failure(name, InputProblem::Globs(cause)))?;
        let may_read = self.policy.reader(self.facts);
        let want = |path: &RelPath| set.is_match(path.as_path()) && may_read(path);
        let filter = Filter { git: true, enter: &|_| true, want: &want };
        let found = walk(&Source::new(self.workspace), &RelPath::root(), &filter, &AtomicBool::new(false));
        let mut text = String::new();
        for found in found.files.iter().take(500) {
            let content = self.file(context, &found.path)?;
            text.push_str(&format!("--- {} ---\n{}\n", found.path, content.trim_end_matches('\n')));
        }
        Ok(text)
    }

    async fn command(&self, context: &Context, arguments: &[Argument], renderer: &Renderer) -> Result<String, Failure> {
        let name = &context.name.value;
        let words =
            renderer.command(arguments).map_err(|problem| unrendered(name, problem, "correct the parameter"))?;
        let what = format!("context.{name}");
        let action = action(&words, None, self.judge)
            .map_err(|denial| self.active.not_run(&context.name.place, &what, &words, denial))?;
        let place = Place { workspace: self.workspace, repository: self.repository };
        let timeout = context.timeout.map_or(TIMEOUT, |time| time.0);
        let variables = checks::variables(context.env.as_ref(), self.active, self.policy, &what)?;
        let done = action.perform(self.runner, &place, timeout, &variables).await;
        let done = Done { output: self.masked_part(done.output), ..done };
        let ok = context.ok_exit.clone().unwrap_or_else(|| vec![0]);
        if done.timed_out || done.exit_code.is_none_or(|code| !ok.contains(&code)) {
            let how = match (done.timed_out, done.exit_code) {
                (true, _) => "ran out of time".to_owned(),
                (false, Some(code)) => format!("ended with {code}"),
                (false, None) => "could not be run".to_owned(),
            };
            let tail = crate::verify::tail(&done.output, &self.runner.seen_root());
            let tail: String =
                tail.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
            return Err(failure(name, InputProblem::Command { command: words.join(" "), how, tail }));
        }
        let root = self.runner.seen_root();
        Ok(done.output.replace(&format!("{root}/"), ""))
    }

    fn file(&self, context: &Context, path: &RelPath) -> Result<String, Failure> {
        let name = &context.name.value;
        self.policy.may_read(path, self.facts).map_err(|denial| {
            let hint = denial.hint.unwrap_or_else(|| "allow it in the policy's `paths.read`".to_owned());
            self.active.not_granted(
                &context.name.place,
                format!("the policy does not allow `context.{name}` to read {path}"),
                format!("{}; {hint}", denial.reason),
            )
        })?;
        match self.workspace.entry_within(path, bounded::PRODUCT) {
            // A missing file is empty: `on_empty` decides.
            Ok(Entry::Absent) => Ok(String::new()),
            Ok(Entry::File { content, .. }) => Ok(String::from_utf8_lossy(&content).into_owned()),
            Ok(Entry::Link { .. }) => Err(failure(name, InputProblem::Link(path.to_string()))),
            Err(error) => Err(failure(name, InputProblem::Unreadable(error))),
        }
    }
}

pub(super) fn failure(name: &str, problem: InputProblem) -> Failure {
    ContextError { name: name.to_owned(), problem }.into()
}

fn unrendered(name: &str, problem: TemplateProblem, help: &str) -> Failure {
    let help = problem.help.unwrap_or_else(|| help.to_owned());
    failure(name, InputProblem::Template { problem: problem.message, help })
}

fn cut(text: String, context: &Context) -> Result<String, String> {
    let most = context.max_bytes.unwrap_or(if context.github.is_some() { OF_GITHUB } else { MAX_BYTES });
    if text.len() <= most {
        return Ok(text);
    }
    Ok(match context.truncate.unwrap_or_default() {
        Truncate::Fail => return Err(format!("{} bytes; at most {most}", text.len())),
        Truncate::Middle => middle_cut(&text, most),
        Truncate::Head => {
            let mut end = most;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}\n... [{} bytes left out]\n", &text[..end], text.len() - end)
        }
        Truncate::Tail => {
            let mut start = text.len() - most;
            while !text.is_char_boundary(start) {
                start += 1;
            }
            format!("[{start} bytes left out] ...\n{}", &text[start..])
        }
    })
}
