//! Finds what the owner of a valid recipe should know.

use super::check::{Checker, untrusted};
use super::file::{CacheKey, Needs, OnEmpty, OutputKind, RecipeFile, Text};
use super::render;
use crate::base::{Code, Diagnostic, Location};
use crate::policy::file::Delivery;
use crate::tool_name::ToolId;

impl Checker<'_> {
    pub(super) fn warn(&mut self) {
        let file = self.file.clone();
        let mut warnings = Vec::new();
        let mut warn = |code: Code, place: &Location, message: String| {
            warnings.push(Diagnostic::new(code, place.clone(), message));
        };
        let at = |path: &str| self.at(path);
        for name in file.params.iter().flat_map(|params| params.keys()) {
            if !self.used.contains(&format!("params.{name}")) {
                warn(Code::W101, &at(&format!("params.{name}")), format!("the parameter `{name}` is not used"));
            }
        }
        for context in file.context.iter().flatten() {
            let skips = context.on_empty.is_some_and(|on_empty| on_empty != OnEmpty::Continue);
            if !skips && !self.used.contains(&format!("context.{}", context.name.value)) {
                warn(Code::W103, &context.name.place, format!("the input `{}` is not used", context.name.value));
            }
            if context.diff.is_some() && context.truncate.is_some() {
                let message = format!("`context.{}.truncate` is for texts, and this is a change", context.name.value);
                warn(Code::W108, &context.name.place, message);
            }
        }
        let cached = file.cache.as_ref().is_some_and(|cache| cache.key == Some(CacheKey::Context));
        if cached && let Some(prompt) = &file.prompt {
            let names = render::names(&prompt.value).unwrap_or_default();
            if names.iter().any(|name| name.starts_with("run.")) {
                let message = "`run.*` in the prompt of a cached recipe: the cache is never used".to_owned();
                warn(Code::W102, &prompt.place, message);
            }
        }
        let is_changes = file.output.as_ref().is_some_and(|output| output.kind == OutputKind::Changes);
        if is_changes && file.verify.as_ref().is_none_or(|verify| verify.checks.iter().flatten().next().is_none()) {
            warn(Code::W104, &at("output.kind"), "it makes changes, and no check verifies them".to_owned());
        }
        if file.limits.as_ref().is_none_or(|limits| limits.cost_usd.is_none()) {
            warn(Code::W105, &at("limits"), "`limits.cost_usd` is missing".to_owned());
        }
        let needs = file.needs.as_ref().and_then(Option::as_ref);
        if let Some(text) =
            needs.into_iter().flat_map(|needs| needs.run.iter().flatten()).find(|text| text.value == "**")
        {
            warn(Code::W106, &text.place, "`needs.run` requests every command".to_owned());
        }
        if cached && needs.is_some_and(uses_tools) {
            let message = "its answer depends on what tools return: it is not cached".to_owned();
            warn(Code::W110, &at("cache"), message);
        }
        let acts = needs.is_some_and(acts);
        if acts && !is_proposal(&file) && !untrusted(&file).is_empty() {
            let message = "untrusted text comes with permission to write, run or use the network".to_owned();
            warn(Code::W107, &at("needs"), message);
        }
        self.warnings = warnings;
    }
}

fn is_any(list: &Option<Vec<Text>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

/// Tells whether more than an answer may come of it.
fn acts(needs: &Needs) -> bool {
    [&needs.write, &needs.create, &needs.delete, &needs.run, &needs.net].into_iter().any(is_any)
}

/// Tells whether it only proposes a change, without a network: somebody reads that before it counts.
fn is_proposal(file: &RecipeFile) -> bool {
    file.output.as_ref().is_some_and(|output| output.kind == OutputKind::Changes)
        && file.git.as_ref().is_some_and(|git| git.changes == Some(Delivery::DryRun))
        && !file.needs.iter().flatten().any(|needs| is_any(&needs.net))
}

/// Tells whether the model may use a tool that returns more than it was given.
fn uses_tools(needs: &Needs) -> bool {
    match &needs.tools {
        Some(tools) => tools.iter().any(|tool| ToolId::named(&tool.value) != Some(ToolId::TodoWrite)),
        None => [&needs.read, &needs.run, &needs.net].into_iter().any(is_any),
    }
}
