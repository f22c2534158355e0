//! Masks the texts of JSON values, such as a tool's definition.

use serde_json::Value;

use super::ToolSpec;

impl ToolSpec {
    /// Returns the tool with every text of it passed through `mask`, also the names of parameters; `None` if that would
    /// change its own name, by which it is called.
    pub fn masked(&self, mask: &dyn Fn(String) -> String) -> Option<ToolSpec> {
        let mask = |text: &str| mask(text.to_owned());
        if mask(&self.name) != self.name {
            return None;
        }
        let (description, parameters) = (mask(&self.description), masked_value(&self.parameters, &mask));
        Some(ToolSpec { name: self.name.clone(), description, parameters })
    }
}

/// Returns a value with every text and every name in it passed through `mask`.
pub fn masked_value(value: &Value, mask: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(mask(text)),
        Value::Array(values) => values.iter().map(|value| masked_value(value, mask)).collect(),
        Value::Object(entries) => entries.iter().map(|(name, value)| (mask(name), masked_value(value, mask))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_text_and_name_is_masked_and_a_tool_named_so_is_left_out() {
        let mask = |text: String| text.replace("s3cret", "#");
        let parameters = json!({"properties": {"s3cret": {"enum": ["s3cret", 1]}}, "required": ["s3cret"]});
        let spec = ToolSpec { name: "get".into(), description: "as s3cret".into(), parameters };
        let masked = spec.masked(&mask).unwrap();
        assert_eq!(masked.description, "as #");
        assert_eq!(masked.parameters, json!({"properties": {"#": {"enum": ["#", 1]}}, "required": ["#"]}));
        assert_eq!(ToolSpec { name: "get_s3cret".into(), ..spec }.masked(&mask), None);
    }
}
