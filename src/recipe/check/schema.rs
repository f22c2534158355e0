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
    jsonschema::validator_for(schema).map(drop).map_err(invalid)
}
