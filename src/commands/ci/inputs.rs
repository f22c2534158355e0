//! Reads the inputs of the Action: one environment variable each, never part of a command's text.

use std::path::PathBuf;

use super::commands::{Asked, Commands, params_for};
use super::error::CiError;
use super::flags;
use crate::recipe::Recipe;
use crate::secret::Secret;
use crate::settings::Environment;

/// The inputs. An empty one is not there.
#[derive(Debug, Clone, Default)]
pub(super) struct Inputs {
    pub(super) recipe: Option<String>,
    pub(super) prompt: Option<String>,
    /// One `key=value` a line.
    pub(super) params: Vec<String>,
    pub(super) policy: Option<String>,
    /// `None` is `auto`.
    pub(super) trusted_ref: Option<String>,
    pub(super) directory_to_work_in: PathBuf,
    pub(super) changes: Option<String>,
    /// Flags of the run: those of inputs of their own, and those of `flags`.
    flags: Vec<String>,
    /// Only what is new since an earlier run is looked at, where there was one.
    pub(super) looks_at_all: bool,
    pub(super) shown: Shown,
    pub(super) trigger: TriggerInputs,
    pub(super) token: Option<Secret>,
    pub(super) delivery: DeliveryInputs,
    /// The first input that cannot be what it says.
    problem: Option<String>,
    /// An input that is given by an old name, and the new one.
    renamed: Option<(&'static str, &'static str)>,
}

/// The inputs that say who or what starts a run.
#[derive(Debug, Clone, Default)]
pub(super) struct TriggerInputs {
    pub(super) allow_actors: Vec<String>,
    pub(super) mention: Option<String>,
    /// Recipes by the first word of a comment.
    pub(super) commands: Commands,
    /// The label that starts a run.
    pub(super) label: Option<String>,
    /// Whose assignment starts a run.
    pub(super) assignee: Option<String>,
}

/// The inputs of `deliver`.
#[derive(Debug, Clone, Default)]
pub(super) struct DeliveryInputs {
    /// The directory with the proposal.
    pub(super) proposal: Option<PathBuf>,
    pub(super) proposal_sha256: Option<String>,
    pub(super) branch: Option<String>,
    /// The last part of the branch's name, for a matrix.
    pub(super) key: Option<String>,
    /// The change goes to the branch of the pull request.
    pub(super) to_head: bool,
    /// Workflows that are started for what was pushed.
    pub(super) start_checks: Vec<String>,
    /// `None`: as the recipe says.
    pub(super) draft: Option<bool>,
    /// Whose comments are ours.
    pub(super) bot_login: Option<String>,
}

/// What the job shows of a run beside its files.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shown {
    pub(super) annotations: bool,
    pub(super) step_summary: bool,
    /// The review page.
    pub(super) report: bool,
}

/// Reads variables, and keeps the first problem.
struct Reader<'a> {
    environment: &'a Environment,
    problem: Option<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, problem: impl Into<String>) {
        self.problem.get_or_insert(problem.into());
    }

    fn text(&self, name: &str) -> Option<String> {
        let value = self.environment.variables.get(&format!("QWEN_CI_{name}"))?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn lines(&self, name: &str, separator: &[char]) -> Vec<String> {
        let value = self.text(name).unwrap_or_default();
        value.split(separator).map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Reads one of two words; the first is the default. Returns whether it is the second.
    fn second(&mut self, name: &str, input: &str, words: [&str; 2]) -> bool {
        match self.text(name) {
            None => false,
            Some(word) if words.contains(&word.as_str()) => word == words[1],
            Some(other) => {
                self.wrong(format!("the input {input} is `{other}`: give {} or {}", words[0], words[1]));
                false
            }
        }
    }

    fn yes(&mut self, name: &str, input: &str) -> bool {
        !self.second(name, input, ["true", "false"])
    }

    fn shown(&mut self) -> Shown {
        Shown {
            annotations: self.yes("ANNOTATIONS", "annotations"),
            step_summary: self.yes("STEP_SUMMARY", "step-summary"),
            report: self.yes("REPORT", "report"),
        }
    }

    fn trigger(&mut self) -> TriggerInputs {
        let commands = Commands::read(&self.lines("COMMANDS", &['\n'])).unwrap_or_else(|wrong| {
            self.wrong(wrong);
            Commands::default()
        });
        TriggerInputs {
            allow_actors: self.lines("ALLOW_ACTORS", &[',', '\n', ' ']),
            mention: self.text("MENTION"),
            commands,
            label: self.text("LABEL"),
            assignee: self.text("ASSIGNEE"),
        }
    }

    fn flags(&mut self) -> Vec<String> {
        let given = self.lines("FLAGS", &['\n']);
        if let Some(wrong) = given.iter().find_map(|flag| flags::check(flag).err()) {
            self.wrong(wrong);
        }
        let own = ["fail-on", "fail-confidence", "on-deny", "max-cost-usd"].into_iter().map(|flag| (flag, flag));
        let own = own.chain([("max-wall-time", "timeout"), ("trusted-ref", "trusted-ref")]);
        let own = own.filter_map(|(flag, input)| {
            let value = self.text(&input.replace('-', "_").to_ascii_uppercase())?;
            (input != "trusted-ref" || value != "auto").then(|| format!("--{flag}={value}"))
        });
        own.chain(given).collect()
    }

    fn delivery(&mut self) -> DeliveryInputs {
        let key = self.text("KEY");
        let is_word = |key: &String| key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if let Some(key) = key.as_ref().filter(|key| !is_word(key)) {
            self.wrong(format!("the input key is `{key}`: give letters, digits, `-`, `_` and `.`"));
        }
        let start_checks = self.lines("START_CHECKS", &[',', '\n', ' ']);
        if let Some(file) = start_checks.iter().find(|file| !is_word(file)) {
            self.wrong(format!("the input start-checks is `{file}`: give the name of a workflow's file, as ci.yml"));
        }
        if key.is_some() && self.text("BRANCH").is_some() {
            self.wrong("the inputs key and branch are both given");
        }
        DeliveryInputs {
            proposal: self.text("PROPOSAL_DIR").map(PathBuf::from),
            proposal_sha256: self.text("PROPOSAL_SHA256"),
            branch: self.text("BRANCH"),
            key,
            to_head: self.second("PUSH_TO", "push-to", ["branch", "head"]),
            start_checks,
            draft: self.text("DRAFT").is_some().then(|| self.yes("DRAFT", "draft")),
            bot_login: self.text("BOT_LOGIN"),
        }
    }

    fn token(&mut self) -> Option<Secret> {
        let token = Secret::parse(&self.text("TOKEN")?);
        if token.is_err() {
            self.wrong("the input github-token cannot be a token");
        }
        token.ok()
    }
}

impl Inputs {
    /// Reads the variables `QWEN_CI_*`.
    pub(super) fn read(environment: &Environment) -> Inputs {
        let mut reader = Reader { environment, problem: None };
        let shown = reader.shown();
        let looks_at_all = reader.second("SCOPE", "scope", ["auto", "full"]);
        let (trigger, flags, token) = (reader.trigger(), reader.flags(), reader.token());
        let delivery = reader.delivery();
        let text = |name: &str| reader.text(name);
        let renamed = [("PATCH_DIR", "directory", "proposal-dir"), ("PATCH_SHA256", "patch-sha256", "proposal-sha256")];
        let renamed = renamed.into_iter().find(|(name, _, _)| text(name).is_some()).map(|(_, old, new)| (old, new));
        Inputs {
            recipe: text("RECIPE"),
            prompt: text("PROMPT"),
            params: reader.lines("PARAMS", &['\n']),
            policy: text("POLICY"),
            trusted_ref: text("TRUSTED_REF").filter(|revision| revision != "auto"),
            directory_to_work_in: PathBuf::from(text("DIR").unwrap_or_else(|| ".".to_owned())),
            changes: text("CHANGES"),
            flags,
            looks_at_all,
            shown,
            trigger,
            token,
            delivery,
            renamed,
            problem: reader.problem,
        }
    }

    /// Fails for an input that cannot be what it says.
    pub(super) fn check(&self) -> Result<(), CiError> {
        match (&self.problem, self.renamed) {
            (Some(problem), _) => Err(CiError::Input(problem.clone())),
            (None, Some((old, new))) => Err(CiError::Renamed(old, new)),
            (None, None) => Ok(()),
        }
    }

    /// Reads what the comment of the event asks for. `Err(Ok(why))`: nothing starts, and nobody did wrong.
    pub(super) fn asked(&self, event: Option<&serde_json::Value>) -> Result<Asked, Result<String, CiError>> {
        let has_task = self.recipe.is_some() || self.prompt.is_some();
        self.trigger.commands.choose(self.trigger.mention.as_deref(), has_task, event)
    }

    /// Returns the recipe: that of the input, or the one that a comment asks for.
    pub(super) fn recipe<'a>(&'a self, asked: &'a Asked) -> Option<&'a str> {
        asked.recipe.as_deref().or(self.recipe.as_deref())
    }

    /// Returns the command line of the run, with the inputs as values of flags: none can become a flag. `recipe` is the
    /// one that is named, where it can be read.
    pub(super) fn arguments(&self, asked: &Asked, recipe: Option<&Recipe>) -> Result<Vec<String>, CiError> {
        self.check()?;
        let mut arguments = vec!["qwen".to_owned(), "run".to_owned(), "--no-stdin".to_owned()];
        let named = self.recipe(asked);
        match (named, &self.prompt) {
            (Some(recipe), None) => arguments.push(format!("--recipe={recipe}")),
            (None, Some(prompt)) => arguments.push(format!("--prompt={prompt}")),
            (Some(_), Some(_)) => return Err(CiError::TwoTasks),
            (None, None) => return Err(CiError::NoTask),
        }
        if named.is_none() && !self.params.is_empty() {
            return Err(CiError::ParamsAlone);
        }
        for param in params_for(&self.params, recipe, asked)? {
            if param.ends_with("=-") {
                return Err(CiError::StandardInput);
            }
            arguments.push(format!("--param={param}"));
        }
        match self.changes.as_deref() {
            None | Some("dry-run") => arguments.push("--dry-run".to_owned()),
            Some(mode @ ("apply" | "commit")) => arguments.push(format!("--{mode}")),
            Some(other) => return Err(CiError::Changes(other.to_owned())),
        }
        arguments.push(format!("--cd={}", self.directory_to_work_in.display()));
        arguments.extend(self.flags.iter().cloned());
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::CliError as _;
    use crate::exit::Exit;

    fn inputs(values: &[(&str, &str)]) -> Inputs {
        let variables = values.iter().map(|(name, value)| (format!("QWEN_CI_{name}"), (*value).to_owned())).collect();
        Inputs::read(&Environment { variables, ..Environment::default() })
    }

    #[test]
    fn no_input_becomes_a_flag_or_a_second_parameter() {
        let arguments = inputs(&[
            ("RECIPE", "--yolo"),
            ("PARAMS", "a=--policy=x\n\n b=@event:/issue/title \n"),
            ("DIR", "-x"),
            ("FAIL_ON", "never --apply"),
            ("ON_DENY", "stop"),
            ("FLAGS", "--seed=1\n -v \n"),
        ])
        .arguments(&Asked::default(), None)
        .unwrap();
        let expected = "qwen|run|--no-stdin|--recipe=--yolo|--param=a=--policy=x|--param=b=@event:/issue/title|--dry-run|--cd=-x|--fail-on=never --apply|--on-deny=stop|--seed=1|-v";
        assert_eq!(arguments.join("|"), expected);
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error_that_names_the_input() {
        for (values, part) in [
            (&[("RECIPE", "a"), ("PROMPT", "b")][..], "both recipe and prompt"),
            (&[("RECIPE", " ")], "neither recipe nor prompt"),
            (&[("PROMPT", "b"), ("PARAMS", "k=v")], "params"),
            (&[("RECIPE", "a"), ("PARAMS", "k=-")], "standard input"),
            (&[("RECIPE", "a"), ("CHANGES", "push")], "changes"),
            (&[("RECIPE", "a"), ("ANNOTATIONS", "yes")], "annotations"),
            (&[("RECIPE", "a"), ("FLAGS", "--yolo")], "the input flags has `--yolo`"),
            (&[("COMMANDS", "fix")], "WORD=RECIPE"),
            (&[("RECIPE", "a"), ("REPORT", "1")], "the input report is `1`"),
            (&[("RECIPE", "a"), ("TOKEN", "a b")], "github-token"),
            (&[("RECIPE", "a"), ("SCOPE", "new")], "the input scope is `new`: give auto or full"),
            (&[("RECIPE", "a"), ("PUSH_TO", "main")], "the input push-to"),
            (&[("RECIPE", "a"), ("KEY", "a/b")], "the input key"),
            (&[("RECIPE", "a"), ("KEY", "a"), ("BRANCH", "b")], "key and branch"),
            (&[("RECIPE", "a"), ("START_CHECKS", "../x.yml")], "the input start-checks"),
            (&[("RECIPE", "a"), ("DRAFT", "no")], "the input draft is `no`"),
            (&[("RECIPE", "a"), ("PATCH_SHA256", "0")], "the input patch-sha256"),
        ] {
            let error = inputs(values).arguments(&Asked::default(), None).unwrap_err();
            assert_eq!(error.exit(), Exit::Usage);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
