//! Reads the inputs of the Action: one environment variable each, never part of a command's text.

use std::path::PathBuf;

use super::error::CiError;
use super::{commands, flags};
use crate::recipe::Recipe;
use super::commands::Asked;
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
    pub(super) fail_on: Option<String>,
    pub(super) shown: Shown,
    pub(super) max_cost_usd: Option<String>,
    pub(super) timeout: Option<String>,
    pub(super) allow_actors: Vec<String>,
    pub(super) mention: Option<String>,
    /// Recipes by the first word of a comment; `*` for any other.
    pub(super) commands: Vec<(String, String)>,
    /// The label that starts a run.
    pub(super) label: Option<String>,
    /// Whose assignment starts a run.
    pub(super) assignee: Option<String>,
    pub(super) on_deny: Option<String>,
    pub(super) fail_confidence: Option<String>,
    /// Further flags of the run, as `--flag=value`.
    pub(super) flags: Vec<String>,
    pub(super) token: Option<Secret>,
    pub(super) delivery: DeliveryInputs,
    /// The first input that cannot be what it says.
    problem: Option<String>,
    /// An input that is given by an old name, and the new one.
    renamed: Option<(&'static str, &'static str)>,
}

/// The inputs of `deliver`.
#[derive(Debug, Clone, Default)]
pub(super) struct DeliveryInputs {
    /// The directory with the proposal.
    pub(super) proposal: Option<PathBuf>,
    pub(super) proposal_sha256: Option<String>,
    pub(super) branch: Option<String>,
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

impl Inputs {
    /// Reads the variables `QWEN_CI_*`.
    pub(super) fn read(environment: &Environment) -> Inputs {
        let mut problem = None;
        let text = |name: &str| {
            let value = environment.variables.get(&format!("QWEN_CI_{name}"))?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let mut yes = |name: &str, input: &str| match text(name).as_deref() {
            None | Some("true") => true,
            Some("false") => false,
            Some(other) => {
                problem.get_or_insert_with(|| format!("the input {input} is `{other}`: give true or false"));
                true
            }
        };
        let shown = Shown {
            annotations: yes("ANNOTATIONS", "annotations"),
            step_summary: yes("STEP_SUMMARY", "step-summary"),
            report: yes("REPORT", "report"),
        };
        let draft = text("DRAFT").is_some().then(|| yes("DRAFT", "draft"));
        let lines = |name: &str, separator: &[char]| -> Vec<String> {
            let value = text(name).unwrap_or_default();
            value.split(separator).map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
        };
        let given = lines("COMMANDS", &['\n']);
        let commands = commands::read(&given).unwrap_or_else(|wrong| {
            problem.get_or_insert(wrong);
            Vec::new()
        });
        let flags = lines("FLAGS", &['\n']);
        if let Some(wrong) = flags.iter().find_map(|flag| flags::check(flag).err()) {
            problem.get_or_insert(wrong);
        }
        let token = text("TOKEN").and_then(|token| match Secret::parse(&token) {
            Ok(token) => Some(token),
            Err(_) => {
                problem.get_or_insert_with(|| "the input github-token cannot be a token".to_owned());
                None
            }
        });
        let renamed = [("PATCH_DIR", "directory", "proposal-dir"), ("PATCH_SHA256", "patch-sha256", "proposal-sha256")];
        let renamed = renamed.into_iter().find(|(name, _, _)| text(name).is_some()).map(|(_, old, new)| (old, new));
        Inputs {
            recipe: text("RECIPE"),
            prompt: text("PROMPT"),
            params: lines("PARAMS", &['\n']),
            policy: text("POLICY"),
            trusted_ref: text("TRUSTED_REF").filter(|revision| revision != "auto"),
            directory_to_work_in: PathBuf::from(text("DIR").unwrap_or_else(|| ".".to_owned())),
            changes: text("CHANGES"),
            fail_on: text("FAIL_ON"),
            shown,
            max_cost_usd: text("MAX_COST_USD"),
            timeout: text("TIMEOUT"),
            allow_actors: lines("ALLOW_ACTORS", &[',', '\n', ' ']),
            mention: text("MENTION"),
            commands,
            label: text("LABEL"),
            assignee: text("ASSIGNEE"),
            on_deny: text("ON_DENY"),
            fail_confidence: text("FAIL_CONFIDENCE"),
            flags,
            token,
            delivery: DeliveryInputs {
                proposal: text("PROPOSAL_DIR").map(PathBuf::from),
                proposal_sha256: text("PROPOSAL_SHA256"),
                branch: text("BRANCH"),
                draft,
                bot_login: text("BOT_LOGIN"),
            },
            problem,
            renamed,
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
        for param in self.params_for(recipe, asked)? {
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
        for (flag, value) in [
            ("fail-on", &self.fail_on),
            ("max-cost-usd", &self.max_cost_usd),
            ("max-wall-time", &self.timeout),
            ("trusted-ref", &self.trusted_ref),
            ("on-deny", &self.on_deny),
            ("fail-confidence", &self.fail_confidence),
        ] {
            if let Some(value) = value {
                arguments.push(format!("--{flag}={value}"));
            }
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
        let expected = "qwen|run|--no-stdin|--recipe=--yolo|--param=a=--policy=x|--param=b=@event:/issue/title|--dry-run|--fail-on=never --apply|--on-deny=stop|--cd=-x|--seed=1|-v";
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
            (&[("RECIPE", "a"), ("DRAFT", "no")], "the input draft is `no`"),
            (&[("RECIPE", "a"), ("PATCH_SHA256", "0")], "the input patch-sha256"),
        ] {
            let error = inputs(values).arguments(&Asked::default(), None).unwrap_err();
            assert_eq!(error.exit(), Exit::Usage);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
