//! Decides what is delivered: what the recipe wants, as far as the policy grants it.

use crate::base::{Code, Diagnostic};
use crate::policy::Policy;
use crate::policy::file::{GitHubWrite, UntrustedInput};
use crate::recipe::Recipe;
use crate::recipe::file::{
    AllowedLabels, CheckWish, CommentMode, CommentWhen, CommentWish, Deliver, Given, LabelMode, OutputKind,
    PullRequestWish, ReviewWish, Text,
};
use crate::run::Failure;
use crate::run::error::RecipeError;

/// The most comments of one review where a recipe says nothing else.
const MAX_INLINE: usize = 25;

/// The most labels where a recipe says nothing else.
const MAX_LABELS: usize = 3;

/// The label of our pull requests.
const LABEL: &str = "qwen";

/// What is delivered.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The recipe's name.
    pub(super) recipe: Option<String>,
    pub(super) review: Option<Review>,
    pub(super) comment: Option<CommentWish>,
    pub(super) labels: Option<Labels>,
    pub(super) check: CheckWish,
    pub(super) pull_request: Option<PullRequest>,
}

/// Comments at lines.
#[derive(Debug)]
pub(super) struct Review {
    pub(super) max_inline: usize,
    pub(super) suggestions: bool,
}

/// Labels of the answer.
#[derive(Debug)]
pub(super) struct Labels {
    pub(super) from: String,
    /// Those that the recipe and the policy allow.
    pub(super) allowed: Vec<String>,
    pub(super) max: usize,
    pub(super) mode: LabelMode,
}

/// A branch and its pull request.
#[derive(Debug)]
pub(super) struct PullRequest {
    pub(super) draft: bool,
    /// Untrusted text may have led to the change: it stays a draft, whatever the inputs say.
    pub(super) stays_draft: bool,
    pub(super) labels: Vec<String>,
}

impl Wanted {
    /// Combines recipe and policy. What a recipe wants by name and the policy refuses is an error; what it would get
    /// without a word is left out then.
    pub(super) fn judge(recipe: Option<&Recipe>, policy: &Policy) -> Result<Wanted, Failure> {
        let kind = recipe.map(|recipe| recipe.output().kind);
        let own = recipe.and_then(|recipe| Some((recipe, recipe.file.deliver.clone()?)));
        let mut wish = match (&own, kind) {
            (Some((_, deliver)), _) => deliver.clone(),
            (None, Some(OutputKind::Findings)) => Deliver {
                review: Some(ReviewWish::default()),
                comment: Some(CommentWish::default()),
                check: Some(CheckWish::Auto),
                ..Deliver::default()
            },
            (None, Some(OutputKind::Changes) | None) => {
                Deliver { pull_request: Some(PullRequestWish::default()), ..Deliver::default() }
            }
            (None, Some(OutputKind::Text | OutputKind::Json | OutputKind::Message)) => Deliver::default(),
        };
        let mut refused = Vec::new();
        for (what, is_wanted) in [
            (GitHubWrite::Review, wish.review.is_some()),
            (GitHubWrite::Comment, wish.comment.is_some()),
            (GitHubWrite::Labels, wish.labels.is_some()),
            (GitHubWrite::Check, !matches!(wish.check, None | Some(CheckWish::Never))),
            (GitHubWrite::PullRequest, wish.pull_request.is_some()),
        ] {
            if is_wanted && !policy.may_write_to_github(what) {
                refused.push(what);
            }
        }
        match own {
            Some((recipe, _)) if !refused.is_empty() => return Err(not_granted(recipe, policy, &refused)),
            Some(_) | None => refused.iter().for_each(|what| leave_out(&mut wish, *what)),
        }
        Ok(Wanted::of(wish, recipe, policy))
    }

    fn of(wish: Deliver, recipe: Option<&Recipe>, policy: &Policy) -> Wanted {
        let review = wish.review.map(|review| Review {
            max_inline: review.max_inline.unwrap_or(MAX_INLINE).min(policy.max_inline()),
            suggestions: review.suggestions.unwrap_or(true),
        });
        let labels = wish.labels.map(|labels| Labels {
            from: labels.from.value,
            allowed: names(&labels.allowed, recipe).into_iter().filter(|name| policy.may_set_label(name)).collect(),
            max: labels.max.unwrap_or(MAX_LABELS),
            mode: labels.mode.unwrap_or_default(),
        });
        let pull_request = wish.pull_request.map(|pull| {
            let named = pull.labels.map(|labels| labels.into_iter().map(|label| label.value).collect());
            let labels: Vec<String> = named.unwrap_or_else(|| vec![LABEL.to_owned()]);
            let labels = labels.into_iter().filter(|label| policy.may_set_label(label)).collect();
            let stays_draft = recipe.is_some_and(|recipe| !recipe.untrusted().is_empty())
                && policy.untrusted_input() == UntrustedInput::Propose;
            PullRequest { draft: pull.draft.unwrap_or(true), stays_draft, labels }
        });
        let check = wish.check.unwrap_or_default();
        let recipe = recipe.map(|recipe| recipe.name().to_owned());
        Wanted { recipe, review, comment: wish.comment, labels, check, pull_request }
    }

    /// Returns how the comment is written.
    pub(super) fn comment_mode(&self) -> Option<(CommentMode, CommentWhen)> {
        self.comment.as_ref().map(|wish| (wish.mode.unwrap_or_default(), wish.when.unwrap_or_default()))
    }
}

fn names(allowed: &AllowedLabels, recipe: Option<&Recipe>) -> Vec<String> {
    match allowed {
        AllowedLabels::Names(names) => names.clone(),
        AllowedLabels::Param { param } => {
            let params = recipe.map(Recipe::params).unwrap_or_default();
            let default = params.get(param).and_then(|param| param.default.clone());
            let text = |text: Text| text.value;
            match default {
                Some(Given::Many(all)) => all.into_iter().map(text).collect(),
                Some(Given::One(one)) => one.value.split(',').map(|name| name.trim().to_owned()).collect(),
                None => Vec::new(),
            }
        }
    }
}

fn leave_out(wish: &mut Deliver, what: GitHubWrite) {
    match what {
        GitHubWrite::Review => wish.review = None,
        GitHubWrite::Comment => wish.comment = None,
        GitHubWrite::Labels => wish.labels = None,
        GitHubWrite::Check => wish.check = None,
        GitHubWrite::PullRequest => wish.pull_request = None,
        // No recipe wants it.
        GitHubWrite::PushHead => {}
    }
}

fn not_granted(recipe: &Recipe, policy: &Policy, refused: &[GitHubWrite]) -> Failure {
    let name = policy.facts().name;
    let one = |what: &GitHubWrite| {
        let (place, what) = (recipe.place(&format!("deliver.{}", what.name())), what.name());
        let message = format!("the policy {name} does not grant `deliver: {{{what}: …}}`");
        let help = format!("add `{what}` to the list `github.allow` of the policy");
        recipe.with_line(Diagnostic::new(Code::N001, place, message).help(help))
    };
    RecipeError::NotGranted(refused.iter().map(one).collect()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::policy::layers::{LayerText, Standing, no_parents};

    fn recipe(deliver: &str, kind: &str) -> Recipe {
        let rules = if kind == "findings" { ", rules: [{id: a, description: d}]" } else { "" };
        let schema = if kind == "json" { ", schema: {type: object}" } else { "" };
        let text = format!(
            "recipe: 1\nname: r\ndescription: d\nprompt: p\nneeds: {{tools: []}}\nparams:\n  labels: {{type: list, \
             description: d, default: [bug, docs]}}\noutput: {{kind: {kind}{rules}{schema}}}\n{deliver}\n"
        );
        crate::recipe::load::from_text("r", &text).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    fn policy(github: &str) -> Policy {
        let text = format!("version: 1\nname: p\n{github}\n");
        let layer = LayerText { name: "p.yaml".into(), text, standing: Standing::Operator };
        Policy::new(&layer, &[], &no_parents).unwrap()
    }

    #[test]
    fn what_a_recipe_names_is_granted_or_refused_and_what_it_does_not_name_is_left_out() {
        let all = policy("");
        let wanted = Wanted::judge(Some(&recipe("", "findings")), &all).unwrap();
        assert!(wanted.review.as_ref().is_some_and(|review| review.max_inline == 25 && review.suggestions));
        assert!(wanted.comment.is_some() && wanted.check == CheckWish::Auto && wanted.pull_request.is_none());
        let wanted = Wanted::judge(None, &all).unwrap();
        assert!(
            wanted.pull_request.is_some_and(|pull| pull.draft && pull.labels == ["qwen"]) && wanted.comment.is_none()
        );
        let wanted = Wanted::judge(Some(&recipe("deliver: {comment: {mode: new}}", "findings")), &all).unwrap();
        assert!(wanted.review.is_none() && wanted.comment_mode().is_some_and(|(mode, _)| mode == CommentMode::New));

        let few = policy("github: {allow: [comment], labels: [\"b*\"], max_inline: 3}");
        let wanted = Wanted::judge(Some(&recipe("", "findings")), &few).unwrap();
        assert!(wanted.review.is_none() && wanted.comment.is_some() && wanted.check == CheckWish::Never);
        let refused =
            Wanted::judge(Some(&recipe("deliver: {review: {}, check: always}", "findings")), &few).unwrap_err();
        assert_eq!(refused.exit, Exit::Denied);
        let message = refused.error.message;
        assert!(
            message.contains("N001") && message.contains("{review: …}") && message.contains("{check: …}"),
            "{message}"
        );

        let labels = "deliver: {labels: {from: /labels, allowed: {param: labels}}}";
        let some = policy("github: {labels: [\"b*\"]}");
        let wanted = Wanted::judge(Some(&recipe(labels, "json")), &some).unwrap();
        assert_eq!(wanted.labels.unwrap().allowed, ["bug"]);
    }
}
