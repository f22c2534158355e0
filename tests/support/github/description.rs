//! Compares requests and answers with GitHub's description of its interface.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::http::{Answer, Request};

/// The operations that qwen uses.
pub(crate) static DESCRIPTION: LazyLock<Description> = LazyLock::new(|| {
    let text = include_str!("../../../fixtures/github/openapi.json");
    Description { paths: serde_json::from_str::<Value>(text).expect("JSON")["paths"].take() }
});

pub(crate) struct Description {
    paths: Value,
}

/// An operation that a request asks for.
pub(super) struct Operation {
    /// The path with its names: `/repos/{owner}/{repo}/pulls`.
    pub(super) template: String,
    /// What the names stand for in this request.
    pub(super) values: Vec<String>,
    described: &'static Value,
}

impl Description {
    pub(super) fn operation(&'static self, method: &str, path: &str) -> Option<Operation> {
        self.paths.as_object()?.iter().find_map(|(template, methods)| {
            let described = methods.get(method.to_ascii_lowercase())?;
            let (wanted, given): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
            if wanted.len() != given.len() {
                return None;
            }
            let mut values = Vec::new();
            for (wanted, given) in wanted.into_iter().zip(given) {
                match wanted.starts_with('{') {
                    true if !given.is_empty() => values.push(decoded(given)),
                    false if wanted == given => {}
                    _ => return None,
                }
            }
            Some(Operation { template: template.clone(), values, described })
        })
    }
}

fn decoded(segment: &str) -> String {
    let pair = format!("x={}", segment.replace('+', "%2B"));
    url::form_urlencoded::parse(pair.as_bytes()).next().expect("a pair").1.into_owned()
}

impl Operation {
    /// Returns what of a request GitHub does not describe.
    pub(super) fn differences_of_request(&self, request: &Request) -> impl Iterator<Item = String> {
        let mut found = Vec::new();
        let known = self.described["parameters"].as_array().expect("a list");
        for (name, value) in request.query() {
            let Some(parameter) = known.iter().find(|one| one["name"] == name.as_str()) else {
                found.push(format!("no parameter `{name}`"));
                continue;
            };
            let value = value.parse::<u64>().map_or_else(|_| json!(value), |number| json!(number));
            found.extend(differences(&parameter["schema"], &value));
        }
        match self.described.get("requestBody") {
            Some(body) if request.body.is_null() && body["required"] == true => found.push("no body".to_owned()),
            Some(_) if request.body.is_null() => {}
            Some(body) => found.extend(differences(&body["schema"], &request.body)),
            None if request.body.is_null() => {}
            None => found.push("a body where none is described".to_owned()),
        }
        found.into_iter()
    }

    /// Returns what of an answer GitHub does not describe.
    pub(super) fn differences_of_answer(&self, answer: &Answer) -> impl Iterator<Item = String> {
        let described = &self.described["responses"];
        let found = match described.get(answer.status.to_string()) {
            // Every operation may be refused, although some descriptions leave it out.
            None if matches!(answer.status, 401 | 403 | 404 | 429 | 502) => Vec::new(),
            None => vec![format!("status {} is not described", answer.status)],
            Some(Value::Null) if answer.body.is_null() => Vec::new(),
            Some(Value::Null) => vec!["a body where none is described".to_owned()],
            Some(schema) => differences(schema, &answer.body),
        };
        found.into_iter()
    }
}

fn differences(schema: &Value, value: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).expect("a schema");
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}
