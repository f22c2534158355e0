//! Chooses what a comment asks for: a recipe by its first word, and the text for parameters that take it. Performs no
//! I/O.

use serde_json::Value;

use super::error::CiError;
use crate::policy::trigger::said;
use crate::recipe::Recipe;

/// The value of a parameter that takes what a comment asks for.
const COMMAND: &str = "=@command";

/// What stands for any other word.
const ANY: &str = "*";

/// The input `commands`: words, and the recipe that each starts.
#[derive(Debug, Clone, Default)]
pub(super) struct Commands(Vec<(String, String)>);

/// What a comment asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The recipe that its first word names; `None` where the inputs name the task.
    pub(super) recipe: Option<String>,
    /// Its text; `None` where no comment started the run.
    pub(super) text: Option<String>,
    /// What it has to say before that.
    mention: String,
}

impl Commands {
    /// Reads its lines: a word, or `*`, and the recipe.
    pub(super) fn read(lines: &[String]) -> Result<Commands, String> {
        let mut commands: Vec<(String, String)> = Vec::new();
        for line in lines {
            let wrong = || format!("the input commands has the line `{line}`: write WORD=RECIPE, or *=RECIPE");
            let (word, recipe) = line.split_once('=').ok_or_else(wrong)?;
            let (word, recipe) = (word.trim(), recipe.trim());
            let is_word = word == ANY || word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
            if word.is_empty() || !is_word || recipe.is_empty() {
                return Err(wrong());
            }
            if commands.iter().any(|(known, _)| known == word) {
                return Err(format!("the input commands has `{word}` twice"));
            }
            commands.push((word.to_owned(), recipe.to_owned()));
        }
        Ok(Commands(commands))
    }

    /// Reads what the comment of an event asks for. `has_task`: another input names the task. `Err(Ok(why))`: nothing
    /// starts, and nobody did wrong.
    pub(super) fn choose(
        &self,
        mention: Option<&str>,
        has_task: bool,
        event: Option<&Value>,
    ) -> Result<Asked, Result<String, CiError>> {
        let text = mention.zip(event).and_then(|(mention, event)| said(event, mention));
        let mention = mention.unwrap_or_default().to_owned();
        if self.0.is_empty() {
            return Ok(Asked { recipe: None, text, mention });
        }
        if has_task {
            return Err(Err(CiError::CommandsAndTask));
        }
        if mention.is_empty() {
            return Err(Err(CiError::CommandsWithoutMention));
        }
        let Some(text) = text else { return Err(Ok(format!("no comment with `{mention}` started this job"))) };
        let word = text.split_whitespace().next().unwrap_or_default();
        let find = |wanted: &str| self.0.iter().find(|(word, _)| word == wanted).map(|(_, recipe)| recipe.clone());
        match (find(word), find(ANY)) {
            (Some(recipe), _) => {
                let rest = text.trim_start()[word.len()..].trim().to_owned();
                Ok(Asked { recipe: Some(recipe), text: Some(rest), mention })
            }
            (None, Some(recipe)) => Ok(Asked { recipe: Some(recipe), text: Some(text), mention }),
            (None, None) => {
                let words: Vec<&str> = self.0.iter().map(|(word, _)| word.as_str()).collect();
                Err(Ok(format!("the comment names none of the commands {}", words.join(", "))))
            }
        }
    }
}

/// Returns the parameters for a recipe. Of several recipes not each takes what a comment asks for.
pub(super) fn params_for(params: &[String], recipe: Option<&Recipe>, asked: &Asked) -> Result<Vec<String>, CiError> {
    let known = recipe.map(Recipe::params).unwrap_or_default();
    let is_left_out = |param: &str| {
        asked.recipe.is_some()
            && recipe.is_some()
            && param.strip_suffix(COMMAND).is_some_and(|name| !known.contains_key(name))
    };
    let params: Vec<String> = params.iter().filter(|param| !is_left_out(param)).cloned().collect();
    match asked.text.as_deref() == Some("") && params.iter().any(|param| param.ends_with(COMMAND)) {
        true => Err(CiError::EmptyCommand(asked.mention.clone())),
        false => Ok(params),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(commands: &str) -> Result<Commands, String> {
        Commands::read(&commands.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_first_word_chooses_the_recipe_and_is_not_a_part_of_the_command() {
        let asked = |commands: &str, body: &str| {
            let event = json!({"comment": {"body": body}});
            let asked = read(commands).unwrap().choose(Some("/qwen"), false, Some(&event));
            asked.map(|asked| (asked.recipe.unwrap(), asked.text.unwrap())).map_err(Result::unwrap)
        };
        let of = |recipe: &str, text: &str| Ok((recipe.to_owned(), text.to_owned()));
        assert_eq!(asked("fix=do\nlint=fix-lint\n*=answer", "/qwen fix  the tests"), of("do", "the tests"));
        assert_eq!(asked("fix=do\nlint=fix-lint\n*=answer", "/qwen lint"), of("fix-lint", ""));
        assert_eq!(asked("fix=do\n*=answer", "/qwen why is it red?"), of("answer", "why is it red?"));
        assert!(asked("fix=do", "/qwen fixes it").unwrap_err().contains("none of the commands fix"));
        assert!(asked("fix=do", "hello").unwrap_err().contains("no comment with `/qwen`"));
        for lines in ["fix", "=do", "fix=", "a b=do", "fix=do\nfix=else"] {
            assert!(read(lines).is_err(), "{lines}");
        }
    }

    #[test]
    fn an_empty_command_is_an_error_where_a_parameter_takes_it() {
        let params = ["request=@command".to_owned()];
        let asked = |text: &str| Asked { recipe: Some("do".into()), text: Some(text.into()), mention: "/qwen".into() };
        assert_eq!(params_for(&params, None, &asked("x")).unwrap(), params);
        assert!(matches!(params_for(&params, None, &asked("")), Err(CiError::EmptyCommand(_))));
        let text = "recipe: 1\nname: r\ndescription: d\nprompt: p\n";
        let recipe = crate::recipe::load::from_text("r", text).unwrap();
        assert!(params_for(&params, Some(&recipe), &asked("")).unwrap().is_empty(), "this recipe takes none");
    }
}
