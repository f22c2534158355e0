//! Decides what is done with each item: a recipe, or one that is made of a prompt, and which values it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::error::BatchError;
use crate::base::digest::sha256;
use crate::base::{Code, Diagnostic};
use crate::batch::item::Item;
use crate::cli::batch::BatchArgs;
use crate::recipe::file::{Context, OnLarge, OutputKind, Param, ParamType};
use crate::recipe::{Recipe, parse, render};
use crate::run::error::{Failure, RecipeError};
use crate::run::recipe::RecipeContext;
use crate::tool_name::ToolId;

/// The name by which messages call the recipe that is made of a prompt.
const OF_PROMPT: &str = "prompt";

/// A field of the item in a prompt.
static FIELD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bitem\.([A-Za-z_][A-Za-z0-9_]*)").expect("a valid pattern"));

/// A parameter in a prompt.
static PARAMETER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bparams\.([A-Za-z_][A-Za-z0-9_]*)").expect("a valid pattern"));

/// What is done with each item.
pub(super) struct Task {
    /// The recipe.
    pub(super) recipe: Recipe,
    /// The digest of the prompt that it is made of, if it is.
    pub(super) prompt_sha256: Option<String>,
    /// What the owner should know.
    pub(super) warnings: Vec<String>,
    params: BTreeMap<String, Param>,
    /// Parameters that flags set.
    fixed: BTreeSet<String>,
    map: BTreeMap<String, String>,
    trusts: bool,
    /// Whether a file gives values for all items.
    has_file: bool,
}

impl Task {
    /// Finds the recipe, or makes one of the prompt.
    pub(super) fn open(arguments: &BatchArgs, context: &RecipeContext<'_>) -> Result<Task, Failure> {
        let of_files = !arguments.source.each.is_empty();
        let trusts = arguments.items.trust_items;
        let (mut recipe, prompt_sha256) = match (&arguments.task.recipe, &arguments.task.prompt) {
            (Some(word), _) => (context.find(word)?, None),
            (None, prompt) => {
                let text = prompt.as_deref().unwrap_or_default();
                (of_prompt(text, (of_files, trusts, arguments.api.is_batch()))?, Some(sha256(text.as_bytes())))
            }
        };
        if arguments.api.is_batch() {
            one_request(&recipe, arguments)?;
        }
        if arguments.context.strict && prompt_sha256.is_none() && !recipe.warnings.is_empty() {
            return Err(RecipeError::Wrong(recipe.warnings).into());
        }
        let reads = |recipe: &Recipe| {
            recipe.needs().is_some_and(|needs| match &needs.tools {
                Some(tools) => tools.iter().any(|tool| tool.value == ToolId::ReadFile.name()),
                None => needs.read.as_ref().is_some_and(|read| !read.is_empty()),
            })
        };
        if !arguments.task.files.is_empty() && !reads(&recipe) {
            return Err(BatchError::Unread.into());
        }
        // What the owner of a recipe should know is said once, and nobody owns one that is made of a prompt.
        let warnings = std::mem::take(&mut recipe.warnings);
        let mut warnings: Vec<String> =
            warnings.iter().filter(|_| prompt_sha256.is_none()).map(Diagnostic::brief).collect();
        let params = recipe.params();
        let map: BTreeMap<String, String> = arguments.items.map.iter().cloned().collect();
        if let Some(param) = map.keys().find(|param| !params.contains_key(*param)) {
            return Err(BatchError::MapParam { param: param.clone() }.into());
        }
        let name = |param: &String| param.split('=').next().unwrap_or_default().to_owned();
        let fixed = arguments.task.params.iter().map(name).collect();
        let fixed: BTreeSet<String> = fixed;
        let prompt = recipe.file.prompt.as_ref();
        let early = prompt.and_then(|prompt| early_parameter(&prompt.value, |name| !fixed.contains(name)));
        if let (Some(name), Some(prompt)) = (early, prompt) {
            let message = format!("the parameter `{name}` comes before the last third of the prompt");
            let warning = Diagnostic::new(Code::W109, prompt.place.clone(), message);
            if arguments.context.strict {
                return Err(RecipeError::Wrong(vec![warning]).into());
            }
            warnings.push(warning.brief());
        }
        let has_file = arguments.task.params_file.is_some();
        Ok(Task { recipe, prompt_sha256, warnings, params, fixed, map, trusts, has_file })
    }

    /// Returns the map as `batch.json` has it.
    pub(super) fn map(&self) -> &BTreeMap<String, String> {
        &self.map
    }

    /// Returns the values that an item gives. A stranger's text goes only where it is fenced, or where a rule says which
    /// texts there can be.
    pub(super) fn values(&self, item: &Item) -> Result<Map<String, Value>, BatchError> {
        let mut values = Map::new();
        for (name, param) in self.params.iter().filter(|(name, _)| !self.fixed.contains(*name)) {
            let field = self.map.get(name).unwrap_or(name);
            let Some(value) = item.field(field).filter(|value| !value.is_null()) else {
                if param.default.is_none() && param.env.is_none() && !self.has_file {
                    let (key, field, fields) = (item.key.clone(), field.clone(), fields_of(item));
                    let param = self.prompt_sha256.is_none().then(|| name.clone());
                    return Err(BatchError::NoField { key, field, fields, param });
                }
                continue;
            };
            if !self.trusts && !takes_strangers(param) {
                return Err(BatchError::Trusts(name.clone()));
            }
            values.insert(name.clone(), value.clone());
        }
        Ok(values)
    }

    /// Looks at the first item more closely: what is wrong with it is wrong with the call.
    pub(super) fn check_first(&self, item: &Item) -> Result<Map<String, Value>, BatchError> {
        for (param, field) in &self.map {
            if item.field(field).is_none() {
                let (param, field, key) = (param.clone(), field.clone(), item.key.clone());
                return Err(BatchError::MapField { param, field, key });
            }
        }
        self.values(item)
    }

    /// Refuses items of which nothing is used: each would get the same answer.
    pub(super) fn check_use(item: &Item, values: &Map<String, Value>) -> Result<(), BatchError> {
        if !values.is_empty() {
            return Ok(());
        }
        Err(BatchError::NothingTaken { key: item.key.clone(), fields: fields_of(item) })
    }
}

fn fields_of(item: &Item) -> String {
    item.fields.keys().cloned().collect::<Vec<_>>().join(", ")
}

/// Bytes of a prompt after its first parameter that are worth a warning.
const LONG: usize = 500;

/// Names the first parameter of a prompt behind which more than a third of it follows: that part is the same for all items
/// and cached for none.
fn early_parameter(prompt: &str, varies: impl Fn(&str) -> bool) -> Option<&str> {
    let names = PARAMETER.captures_iter(prompt).filter_map(|found| found.get(1));
    let first = names.into_iter().find(|name| varies(name.as_str()))?;
    let after = prompt.len() - first.end();
    (after >= LONG && after * 3 > prompt.len()).then(|| first.as_str())
}

/// Tells whether a parameter may take a stranger's text.
fn takes_strangers(param: &Param) -> bool {
    let is_plain = match param.r#type {
        ParamType::Integer | ParamType::Number | ParamType::Boolean | ParamType::Path | ParamType::Enum => true,
        ParamType::String | ParamType::List | ParamType::Command => false,
    };
    let is_bounded = param.untrusted || param.pattern.is_some() || param.r#enum.is_some() || is_plain;
    // No pattern tells a harmless command from another one.
    is_bounded && param.r#type != ParamType::Command
}

/// Refuses what may need more than one request for an item.
fn one_request(recipe: &Recipe, arguments: &BatchArgs) -> Result<(), BatchError> {
    let file = &recipe.file;
    let has_tools = recipe.needs().and_then(|needs| needs.tools.as_ref()).is_none_or(|tools| !tools.is_empty());
    let is_in_parts = |context: &Context| match context.on_large {
        Some(OnLarge::Cut | OnLarge::Fail) => false,
        Some(OnLarge::Split) => true,
        None => context.diff.is_some() && recipe.output().kind == OutputKind::Findings,
    };
    let why = [
        (has_tools, "does not say `needs: {tools: []}`"),
        (file.verify.is_some() || !arguments.task.checks.verify.is_empty(), "has checks (`verify`)"),
        (file.finish.is_some() || recipe.output().kind == OutputKind::Changes, "makes changes"),
        (file.context.iter().flatten().any(is_in_parts), "shows a change that may be too large for one request"),
    ];
    why.into_iter().find(|(holds, _)| *holds).map_or(Ok(()), |(_, why)| Err(BatchError::NotOneRequest(why)))
}

/// Makes a recipe of a prompt that sees the fields of an item and nothing else.
fn of_prompt(text: &str, (of_files, trusts, only_answers): (bool, bool, bool)) -> Result<Recipe, Failure> {
    let used: BTreeSet<String> = FIELD.captures_iter(text).map(|found| found[1].to_owned()).collect();
    let template = FIELD.replace_all(text, "params.$1");
    let names = render::names(&template).map_err(|problem| BatchError::Prompt(problem.message))?;
    let known: BTreeSet<String> = used.iter().map(|name| format!("params.{name}")).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(*name)) {
        return Err(BatchError::Prompt(format!("it uses `{unknown}`, and sees only fields of the item")).into());
    }
    let param = |name: &String| match of_files && name == "path" {
        true => json!({"type": "path", "description": "The file."}),
        false => json!({"type": "string", "description": "A field of the item.", "untrusted": !trusts}),
    };
    let params: Map<String, Value> = used.iter().map(|name| (name.clone(), param(name))).collect();
    let description = "One prompt for many items.";
    let mut file =
        json!({"recipe": 1, "name": OF_PROMPT, "description": description, "params": params, "prompt": template});
    if only_answers {
        file["needs"] = json!({"tools": []});
    }
    let bytes = file.to_string();
    let parsed = parse::parse(OF_PROMPT, bytes.as_bytes()).map_err(|error| RecipeError::Wrong(vec![error]))?;
    let texts = [(OF_PROMPT.to_owned(), bytes)].into();
    Ok(Recipe::check(parsed, OF_PROMPT, OF_PROMPT, &texts).map_err(RecipeError::Wrong)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_with_much_text_behind_it_is_early() {
        let long = "x".repeat(600);
        let early = |prompt: &str| early_parameter(prompt, |name| name != "fixed").map(str::to_owned);
        assert_eq!(early(&format!("{{{{ params.text }}}} {long}")), Some("text".to_owned()));
        assert_eq!(early(&format!("{{{{ params.fixed }}}} {long}")), None);
        assert_eq!(early(&format!("{long}{long}{long} {{{{ params.text }}}} {long}")), None);
        assert_eq!(early("{{ params.text }} is what?"), None);
    }
}
