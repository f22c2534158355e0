//! Gathers the inputs of a recipe before the model is asked, bounded and masked.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::agent::invoke::PolicyCheck;
use crate::change::Entry;
use crate::cli::run::FromHook;
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::policy::Facts;
use crate::policy::Policy;
use crate::policy::redact::Secrets;
use crate::recipe::file::{Context, DiffKind, LocalRule, OnEmpty, OutputKind, Truncate};
use crate::recipe::params::normalised;
use crate::recipe::render::{Renderer, TemplateProblem, plain};
use crate::verify::middle_cut;
use crate::verify::review::Review;
use crate::workspace::Workspace;
use crate::workspace::ignore::Source;
use crate::workspace::walk::{Filter, walk};

use crate::run::error::{ContextError, Failure, InputProblem};
use crate::run::recipe::Active;
use crate::run::recipe::checks::{self, Place, action};
use crate::run::recipe::diff::{ChangeReader, Choice};
use crate::run::runner::Runner;

/// Maximum bytes of an input that sets no limit.
const MAX_BYTES: usize = 65_536;

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
    /// The git hook that started the run, if any.
    pub from_hook: Option<&'a FromHook>,
}

/// The result of gathering.
pub enum Gathered {
    /// The inputs, by name, and the changes under review among them.
    Inputs(Vec<(String, String)>, Option<Review>),
    /// An input is empty, so there is nothing to do: its name.
    NothingToDo(String),
}

impl Gatherer<'_> {
    /// Gathers every input, in order.
    pub async fn gather(&self) -> Result<Gathered, Failure> {
        let renderer = self.active.renderer(&[]);
        let mut inputs = Vec::new();
        let mut reviewed: Option<Review> = None;
        let mut total = 0;
        for context in self.active.recipe.context() {
            let name = context.name.value.clone();
            let (text, review) = self.input(context, &renderer).await?;
            if text.trim().is_empty() {
                match context.on_empty.unwrap_or_default() {
                    OnEmpty::Continue => {}
                    OnEmpty::SkipRun => return Ok(Gathered::NothingToDo(name)),
                    OnEmpty::Fail => {
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
            let text = cut(text, context).map_err(|problem| failure(&name, InputProblem::TooLarge(problem)))?;
            total += text.len();
            if self.active.recipe.limits().context_bytes.is_some_and(|most| total > most) {
                return Err(failure(&name, InputProblem::TooMuch(total)));
            }
            inputs.push((name, (self.redact)(text).0));
        }
        Ok(Gathered::Inputs(inputs, reviewed))
    }

    async fn input(&self, context: &Context, renderer: &Renderer) -> Result<(String, Option<Review>), Failure> {
        let name = &context.name.value;
        let rendered = |template: &str| {
            renderer.text(template).map_err(|problem| unrendered(name, problem, "correct the parameter"))
        };
        if let Some(words) = &context.run {
            return Ok((self.command(context, words, renderer).await?, None));
        }
        if let Some(file) = &context.file {
            let path = rendered(file.as_str())?;
            let normal = normalised(&path).ok_or_else(|| failure(name, InputProblem::Outside(path)))?;
            return Ok((self.file(context, &normal)?, None));
        }
        if let Some(globs) = &context.glob {
            let globs = globs.iter().map(|glob| rendered(glob.as_str())).collect::<Result<Vec<_>, _>>()?;
            return Ok((self.files(context, globs)?, None));
        }
        if let Some(kind) = context.diff {
            let range = match &context.range {
                None => None,
                Some(range) => renderer
                    .words(&[range.as_str()])
                    .map_err(|problem| unrendered(name, problem, "give a revision"))?
                    .pop(),
            };
            let repository = self.repository.ok_or_else(|| failure(name, InputProblem::NoRepository))?;
            let Gatherer { policy, facts, secrets, from_hook, .. } = *self;
            let reader = ChangeReader { repository, policy, facts, secrets, from_hook };
            let output = self.active.recipe.output();
            let rules = output.local.as_deref().unwrap_or(&LocalRule::ALL);
            // Without findings there is nowhere to say it.
            let rules = if output.kind == OutputKind::Findings { rules } else { &[] };
            let of_hook = from_hook.and_then(|hook| hook.range.as_deref()).filter(|_| kind == DiffKind::Staged);
            let (kind, range) = of_hook.map_or((kind, range.as_deref()), |range| (DiffKind::Range, Some(range)));
            let read = reader.read(kind, range, &Choice::new(context), rules);
            let (text, review) = read.map_err(|error| failure(name, InputProblem::Diff(error)))?;
            return Ok((text, Some(review)));
        }
        if let Some(param) = &context.param {
            let value = self.active.bound.get(param.as_str());
            return Ok((value.map(plain).unwrap_or_default(), None));
        }
        Ok((self.active.standard_input.clone().unwrap_or_default(), None))
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

    async fn command(
        &self,
        context: &Context,
        templates: &[crate::recipe::file::Text],
        renderer: &Renderer,
    ) -> Result<String, Failure> {
        let name = &context.name.value;
        let templates: Vec<&str> = templates.iter().map(|text| text.as_str()).collect();
        let words = renderer.words(&templates).map_err(|problem| unrendered(name, problem, "correct the parameter"))?;
        let what = format!("context.{name}");
        let action = action(&words, None, self.judge)
            .map_err(|denial| self.active.not_run(&context.name.place, &what, &words, denial))?;
        let place = Place { workspace: self.workspace, repository: self.repository };
        let timeout = context.timeout.map_or(TIMEOUT, |time| time.0);
        let variables = checks::variables(context.env.as_ref(), self.active, self.policy, &what)?;
        let done = action.perform(self.runner, &place, timeout, &variables).await;
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
        match self.workspace.entry(path) {
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
    let most = context.max_bytes.unwrap_or(MAX_BYTES);
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
