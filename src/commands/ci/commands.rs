//! Chooses what a comment asks for: a recipe by its first word, and the text for parameters that take it.

use serde_json::Value;

use super::error::CiError;
use super::inputs::Inputs;
use crate::policy::trigger::said;
use crate::recipe::Recipe;

/// The value of a parameter that takes what a comment asks for.
const COMMAND: &str = "=@command";

/// What stands for any other word.
const ANY: &str = "*";

/// Reads the lines of the input `commands`: a word, or `*`, and the recipe that it starts.
pub(super) fn read(lines: &[String]) -> Result<Vec<(String, String)>, String> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in lines {
        let wrong = || format!("the input commands has the line `{line}`: write WORD=RECIPE, or *=RECIPE");
        let (word, recipe) = line.split_once('=').map(|(word, recipe)| (word.trim(), recipe.trim())).ok_or_else(wrong)?;
        let is_word = word == ANY || word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
        if word.is_empty() || !is_word || recipe.is_empty() {
            return Err(wrong());
        }
        if commands.iter().any(|(known, _)| known == word) {
            return Err(format!("the input commands has `{word}` twice"));
        }
        commands.push((word.to_owned(), recipe.to_owned()));
    }
    Ok(commands)
}

/// What a comment asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The recipe that its first word names; `None` where the inputs name the task.
    pub(super) recipe: Option<String>,
    /// Its text; `None` where no comment started the run.
    pub(super) text: Option<String>,
}

impl Inputs {
    /// Reads what the comment of the event asks for. `Err(Ok(why))`: nothing starts, and nobody did wrong.
    pub(super) fn asked(&self, event: Option<&Value>) -> Result<Asked, Result<String, CiError>> {
        let text = self.mention.as_deref().zip(event).and_then(|(mention, event)| said(event, mention));
        if self.commands.is_empty() {
            return Ok(Asked { recipe: None, text });
        }
        if self.recipe.is_some() || self.prompt.is_some() {
            return Err(Err(CiError::CommandsAndTask));
        }
        let Some(mention) = &self.mention else { return Err(Err(CiError::CommandsWithoutMention)) };
        let Some(text) = text else { return Err(Ok(format!("no comment with `{mention}` started this job"))) };
        let word = text.split_whitespace().next().unwrap_or_default();
        let find = |wanted: &str| self.commands.iter().find(|(word, _)| word == wanted).map(|(_, recipe)| recipe.clone());
        match (find(word), find(ANY)) {
            (Some(recipe), _) => {
                let rest = text.trim_start()[word.len()..].trim().to_owned();
                Ok(Asked { recipe: Some(recipe), text: Some(rest) })
            }
            (None, Some(recipe)) => Ok(Asked { recipe: Some(recipe), text: Some(text) }),
            (None, None) => {
                let words: Vec<&str> = self.commands.iter().map(|(word, _)| word.as_str()).collect();
                Err(Ok(format!("the comment names none of the commands {}", words.join(", "))))
            }
        }
    }

    /// Returns the parameters for a recipe. Of several recipes not each takes what a comment asks for.
    pub(super) fn params_for(&self, recipe: Option<&Recipe>, asked: &Asked) -> Result<Vec<String>, CiError> {
        let known = recipe.map(Recipe::params).unwrap_or_default();
        let is_left_out = |param: &str| {
            asked.recipe.is_some()
                && recipe.is_some()
                && param.strip_suffix(COMMAND).is_some_and(|name| !known.contains_key(name))
        };
        let params: Vec<String> = self.params.iter().filter(|param| !is_left_out(param)).cloned().collect();
        if asked.text.as_deref() == Some("") && params.iter().any(|param| param.ends_with(COMMAND)) {
            return Err(CiError::EmptyCommand(self.mention.clone().unwrap_or_default()));
        }
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inputs(commands: &str) -> Inputs {
        let commands: Vec<String> = commands.lines().map(str::to_owned).collect();
        let mut inputs = Inputs::default();
        (inputs.commands, inputs.mention) = (read(&commands).unwrap(), Some("/qwen".into()));
        inputs
    }

    #[test]
    fn the_first_word_chooses_the_recipe_and_is_no_part_of_the_command() {
        let asked = |commands: &str, body: &str| inputs(commands).asked(Some(&json!({"comment": {"body": body}})));
        let of = |recipe: &str, text: &str| Ok(Asked { recipe: Some(recipe.into()), text: Some(text.into()) });
        let same = |found: Result<Asked, Result<String, CiError>>, wanted: Result<Asked, ()>| {
            assert_eq!(found.map_err(drop), wanted);
        };
        same(asked("fix=do\nlint=fix-lint\n*=answer", "/qwen fix  the tests"), of("do", "the tests"));
        same(asked("fix=do\nlint=fix-lint\n*=answer", "/qwen lint"), of("fix-lint", ""));
        same(asked("fix=do\n*=answer", "/qwen why is it red?"), of("answer", "why is it red?"));
        same(asked("fix=do", "/qwen fixes it"), Err(()));
        same(asked("fix=do", "hello"), Err(()));
        let why = asked("fix=do", "/qwen other").unwrap_err().unwrap();
        assert!(why.contains("none of the commands fix"), "{why}");
        for line in ["fix", "=do", "fix=", "a b=do", "fix=do\nfix=else"] {
            assert!(read(&line.lines().map(str::to_owned).collect::<Vec<_>>()).is_err(), "{line}");
        }
    }

    #[test]
    fn an_empty_command_is_an_error_where_a_parameter_takes_it() {
        let mut inputs = inputs("fix=do");
        inputs.params = vec!["request=@command".into()];
        let asked = |text: &str| Asked { recipe: Some("do".into()), text: Some(text.into()) };
        assert_eq!(inputs.params_for(None, &asked("x")).unwrap(), ["request=@command"]);
        assert!(matches!(inputs.params_for(None, &asked("")), Err(CiError::EmptyCommand(_))));
        let text = "recipe: 1\nname: r\ndescription: d\nprompt: p\n";
        let recipe = crate::recipe::load::from_text("r", text).unwrap();
        assert!(inputs.params_for(Some(&recipe), &asked("")).unwrap().is_empty(), "this recipe takes none");
    }
}
