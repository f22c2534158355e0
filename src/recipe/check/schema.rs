//! Checks the schemas of answers.

use serde_json::Value;

/// What is wrong with a schema of an answer.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It is not that of an object.
    #[error("the answer is an object: write `type: object`")]
    NotAnObject,
    /// It needs another document.
    #[error("`$ref: {0}` points outside the schema")]
    Remote(String),
    /// A keyword is misspelt, and validators take unknown keywords as remarks.
    #[error("`{keyword}` is not a keyword of JSON Schema; did you mean `{meant}`?")]
    Misspelt {
        /// The keyword.
        keyword: String,
        /// The one that is nearest.
        meant: &'static str,
    },
    /// It is not valid.
    #[error("at {place}: {problem}")]
    Invalid {
        /// Where in it, as a JSON pointer.
        place: String,
        /// What is wrong there.
        problem: String,
    },
}

/// Checks the schema of an answer: it must be valid, of an object, and complete in itself.
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(SchemaError::NotAnObject);
    }
    check_any_schema(schema)
}

/// Keywords of JSON Schema whose values hold no schema, and those of OpenAPI that are like one of them.
const PLAIN: &str = "type enum const required dependentRequired minimum maximum exclusiveMinimum exclusiveMaximum \
    multipleOf minLength maxLength pattern format minItems maxItems uniqueItems minContains maxContains minProperties \
    maxProperties title description default examples example deprecated readOnly writeOnly contentEncoding \
    contentMediaType id nullable";

/// Keywords whose value is a schema or a list of schemas.
const OF_SCHEMAS: &str = "items prefixItems additionalItems contains additionalProperties propertyNames \
    unevaluatedItems unevaluatedProperties contentSchema allOf anyOf oneOf not if then else";

/// Keywords whose value is an object of schemas under names of the user's.
const OF_NAMED: &str = "properties patternProperties dependentSchemas dependencies definitions $defs";

/// Finds a keyword that is nearly a known one.
fn misspelt(schema: &Value) -> Option<SchemaError> {
    let is_of = |list: &str, key: &str| list.split_whitespace().any(|known| known == key);
    match schema {
        Value::Object(keywords) => keywords.iter().find_map(|(keyword, value)| {
            let key = keyword.as_str();
            if is_of(OF_NAMED, key) {
                return value.as_object()?.values().find_map(misspelt);
            }
            if is_of(OF_SCHEMAS, key) {
                return misspelt(value);
            }
            let is_known = is_of(PLAIN, key) || key.starts_with(['$', '_']) || key.starts_with("x-");
            let mut all = [PLAIN, OF_SCHEMAS, OF_NAMED].into_iter().flat_map(str::split_whitespace);
            // People add keys of their own: only what is one or two letters away is a mistake, and not of `not` or `if`.
            let is_near = |word: &&str| word.len() > 3 && strsim::osa_distance(key, word) <= 1 + word.len() / 8;
            let meant = all.find(is_near).filter(|_| !is_known)?;
            Some(SchemaError::Misspelt { keyword: keyword.clone(), meant })
        }),
        Value::Array(schemas) => schemas.iter().find_map(misspelt),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Checks a schema: it must be valid, and complete in itself.
pub(crate) fn check_any_schema(schema: &Value) -> Result<(), SchemaError> {
    fn remote(value: &Value) -> Option<&str> {
        match value {
            Value::Object(map) => map.iter().find_map(|(key, value)| match (key.as_str(), value.as_str()) {
                ("$ref" | "$dynamicRef", Some(target)) if !target.starts_with('#') => Some(target),
                _ => remote(value),
            }),
            Value::Array(items) => items.iter().find_map(remote),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
    if let Some(target) = remote(schema) {
        return Err(SchemaError::Remote(target.to_owned()));
    }
    let invalid = |error: jsonschema::ValidationError<'_>| SchemaError::Invalid {
        place: error.instance_path().to_string(),
        problem: error.to_string(),
    };
    jsonschema::validator_for(schema).map_err(invalid)?;
    misspelt(schema).map_or(Ok(()), Err)
}
