//! Decides which recipes are the operator's own, and what the others may not choose.

use crate::base::{Code, Diagnostic};
use crate::recipe::Recipe;
use crate::run::rules::trust::Source;

use super::RecipeContext;

impl RecipeContext<'_> {
    /// Tells whether the project's recipes count as the operator's: they are read from a trusted commit or checkout.
    pub(super) fn counts(&self) -> bool {
        self.trusted.checkout || matches!(self.source(), Source::Commit(_))
    }

    /// Tells whether a recipe may read values from the environment: always on a person's machine; in CI if it is trusted.
    /// Any other could put the secrets of a job into its prompt.
    pub(super) fn may_read_variables(&self, recipe: &Recipe) -> bool {
        !self.environment.is_ci() || self.is_trusted(&recipe.source)
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
