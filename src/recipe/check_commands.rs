//! Validates what a recipe says about commands that parameters give, about commands that finish a change, and counts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::Checker;
use super::file::{Finish, OutputKind, Param, ParamType};
use super::needs::of_param;
use crate::base::Code;

impl Checker<'_> {
    /// Checks the commands of parameters that the recipe needs.
    pub(super) fn needed_commands(&mut self) {
        let needs = self.file.needs.clone().flatten().unwrap_or_default();
        for text in needs.run.iter().flatten() {
            let Some(name) = of_param(text.as_str()) else { continue };
            if self.param_of(name, ParamType::Command).is_none() {
                let message = format!("`needs.run`: no parameter of the type `command` is called `{name}`");
                self.error(Code::R007, &text.place, message);
            }
            self.used.insert(format!("params.{name}"));
        }
    }

    fn param_of(&self, name: &str, r#type: ParamType) -> Option<&Param> {
        let param = self.file.params.as_ref()?.get(name)?;
        (param.r#type == r#type).then_some(param)
    }

    /// Checks the commands that finish a change.
    pub(super) fn finish(&mut self) {
        let Some(steps) = self.file.finish.clone() else { return };
        if !self.gives_changes() {
            let message = "`finish` belongs to a change, and this `output.kind` has none";
            self.error_with_help(Code::R005, &self.at("finish"), message, "write `output: {kind: changes}`");
        }
        let mut names = BTreeSet::new();
        for Finish { name, run, writes, .. } in &steps {
            let path = format!("finish.{}", name.value);
            if !names.insert(name.value.clone()) {
                self.error(Code::R005, &name.place, format!("`{path}` is given twice"));
            }
            if run.is_empty() {
                self.error(Code::R005, &name.place, format!("`{path}.run` does not name a program"));
            }
            if writes.is_empty() {
                self.error(Code::R005, &name.place, format!("`{path}.writes` names no file"));
            }
            self.globs(&format!("{path}.writes"), writes);
        }
    }

    fn gives_changes(&self) -> bool {
        self.file.output.as_ref().is_some_and(|output| output.kind == OutputKind::Changes)
    }

    /// Checks the parameters that other keys name.
    pub(super) fn named_params(&mut self) {
        let schema = self.file.output.as_ref().and_then(|output| output.schema.clone()).unwrap_or_default();
        let mut named = Vec::new();
        lists_in(&schema, &mut named);
        for name in named {
            if self.param_of(&name, ParamType::List).is_none() {
                let message = format!("`output.schema`: `$param: {name}`: no list among `params` is called so");
                self.error(Code::R011, &self.at("output.schema"), message);
            }
            self.used.insert(format!("params.{name}"));
        }
    }

    /// Refuses counts with which nothing could be.
    pub(super) fn counts(&mut self) {
        let mut nothing = Vec::new();
        let guards = self.file.guards.clone().unwrap_or_default();
        nothing.extend([("guards.max_files", guards.max_files), ("guards.max_lines", guards.max_lines)].map(owned));
        let output = self.file.output.clone().unwrap_or_default();
        nothing
            .extend([("output.max_findings", output.max_findings), ("output.max_chars", output.max_chars)].map(owned));
        for context in self.file.context.iter().flatten() {
            nothing.push((format!("context.{}.max_bytes", context.name.value), context.max_bytes));
        }
        for (name, param) in self.file.params.iter().flatten() {
            nothing.push((format!("params.{name}.max_bytes"), param.max_bytes));
        }
        for (path, _) in nothing.into_iter().filter(|(_, count)| *count == Some(0)) {
            self.error(Code::R005, &self.at(&path), format!("`{path}` is at least 1"));
        }
    }
}

fn owned((path, count): (&str, Option<usize>)) -> (String, Option<usize>) {
    (path.to_owned(), count)
}

/// The key of a schema that stands for the words of a parameter.
const PARAM: &str = "$param";

/// Collects the names of the lists that a schema takes its words from.
fn lists_in(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(name) = map.get(PARAM) {
                found.push(name.as_str().map_or_else(|| name.to_string(), str::to_owned));
            }
            map.values().for_each(|value| lists_in(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| lists_in(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces `{"$param": NAME}` by `{"enum": [..]}` with the words of the list, other keys beside it stay.
pub fn with_lists(schema: &mut Value, list: &dyn Fn(&str) -> Option<Value>) {
    match schema {
        Value::Object(map) => {
            if let Some(words) = map.get(PARAM).and_then(Value::as_str).and_then(list) {
                map.remove(PARAM);
                map.insert("enum".to_owned(), words);
            }
            map.values_mut().for_each(|value| with_lists(value, list));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| with_lists(item, list)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_gets_the_words_of_a_list_wherever_it_names_it() {
        let mut schema = json!({"items": {"type": "string", "$param": "labels"}, "x": [{"$param": "gone"}]});
        with_lists(&mut schema, &|name| (name == "labels").then(|| json!(["a", "b"])));
        assert_eq!(schema, json!({"items": {"type": "string", "enum": ["a", "b"]}, "x": [{"$param": "gone"}]}));
    }
}
