//! Puts the values of parameters where a recipe names them outside of templates.

use super::Recipe;
use super::check_commands::with_lists;
use super::file::NeededCommand;
use super::needs;
use super::params::Bound;
use super::render::plain;

/// Returns the recipe with what depends on the values of parameters: the commands that it needs, and the words in the
/// schema of its answer.
pub fn complete(mut recipe: Recipe, bound: &Bound) -> Recipe {
    if let Some(needs) = recipe.file.needs.as_mut().and_then(Option::as_mut) {
        for text in needs.run.iter().flatten() {
            let words = needs::of_param(text.as_str()).and_then(|name| bound.get(name)?.as_array());
            let words: Vec<String> = words.into_iter().flatten().map(plain).collect();
            if !words.is_empty() {
                needs.commands.push(NeededCommand { needed: text.clone(), words });
            }
        }
        needs.finished = recipe.file.finish.iter().flatten().flat_map(|finish| finish.writes.iter().cloned()).collect();
    }
    if let Some(schema) = recipe.file.output.as_mut().and_then(|output| output.schema.as_mut()) {
        with_lists(schema, &|name| bound.get(name).cloned());
    }
    recipe
}
