//! Decides which recipes are the operator's own, and what the others may not choose.

use crate::base::{Code, Diagnostic, Location};
use crate::path::RelPath;
use crate::policy::{Facts, Policy};
use crate::recipe::Recipe;
use crate::run::error::RecipeError;
use crate::run::rules::trust::Source;

use super::{FOLDER, RecipeContext};

impl RecipeContext<'_> {
    /// Tells whether the project's recipes count as the operator's: they are read from a trusted commit or checkout.
    pub(super) fn counts(&self) -> bool {
        self.trusted.checkout || matches!(self.source(), Source::Commit(_))
    }

    /// Tells whether a recipe may read values from the environment: any that is not trusted could put its secrets into the
    /// prompt.
    pub(super) fn may_read_variables(&self, recipe: &Recipe) -> bool {
        self.is_trusted(&recipe.source)
    }

    /// Refuses a recipe of the disk that is made of a file which the policy does not let the model read. What is in the
    /// directory of recipes itself was written for it.
    pub fn require_readable(&self, recipe: &Recipe, policy: &Policy, facts: &Facts) -> Result<(), RecipeError> {
        if matches!(self.source(), Source::Commit(_)) {
            return Ok(());
        }
        let own = self.top.join(FOLDER);
        for shown in recipe.texts.keys().filter(|shown| **shown != recipe.source) {
            let base = if shown.starts_with(FOLDER) { self.top } else { &self.environment.cwd };
            let Ok(real) = base.join(shown).canonicalize() else { continue };
            let Some(path) = RelPath::below(self.root, &real).filter(|_| !real.starts_with(&own)) else { continue };
            if let Err(denial) = policy.may_read(&path, facts) {
                let place = Location { file: shown.as_str().into(), ..Location::default() };
                let message = format!("the policy does not allow to read this file of the recipe: {}", denial.reason);
                let error =
                    Diagnostic::new(Code::N001, place, message).help("name another file, or allow it in the policy");
                return Err(RecipeError::NotGranted(vec![error]));
            }
        }
        Ok(())
    }

    /// Tells whether a recipe from `source` is the operator's: the user's, a built-in one, one outside the checkout, or
    /// the checkout's if it is trusted.
    fn is_trusted(&self, source: &str) -> bool {
        let own = ["builtin:", "~/.qwen/recipes/"].iter().any(|start| source.starts_with(start));
        let outside = || {
            let path = self.environment.cwd.join(source);
            path.canonicalize().is_ok_and(|real| !real.starts_with(self.top))
        };
        self.counts() || own || !source.starts_with(".qwen/recipes/") && outside()
    }

    /// Takes the name of the model out of a recipe that is not trusted, with a warning: like the model of the checkout's
    /// settings, another one costs more, or answers worse.
    pub(super) fn without_foreign_model(&self, mut recipe: Recipe) -> Recipe {
        let wishes = recipe.file.model.as_mut().filter(|_| !self.is_trusted(&recipe.source));
        if let Some(name) = wishes.and_then(|model| model.name.take()) {
            let message =
                format!("the model `{}` is not used: the recipe is of a checkout that is not trusted", name.value);
            let warning = recipe.with_line(Diagnostic::new(Code::W112, name.place, message));
            recipe.warnings.push(warning);
        }
        recipe
    }
}
