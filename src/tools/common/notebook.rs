//! Shows a Jupyter notebook as text: its cells in order, each with its output.

use crate::base::cut;
use serde_json::Value;

/// Bytes of a cell's outputs that are shown.
const OUTPUT_BYTES: usize = 4_000;

/// Returns the cells as text; `None` if this is not a notebook.
pub fn text(json: &str) -> Option<String> {
    let notebook: Value = serde_json::from_str(json).ok()?;
    notebook.get("nbformat")?;
    let cells = notebook.get("cells")?.as_array()?;
    let language =
        notebook.pointer("/metadata/kernelspec/language").or(notebook.pointer("/metadata/language_info/name"));
    let language = language.and_then(Value::as_str).unwrap_or("python");
    let mut text = String::from("[Notebook: its cells as text. To edit it, read its JSON with offset: 0.]\n");
    for (at, cell) in cells.iter().enumerate() {
        let kind = cell.get("cell_type").and_then(Value::as_str).unwrap_or("raw");
        let source = cell.get("source").map(joined).unwrap_or_default();
        let source = source.trim_end();
        text.push_str(&match kind {
            "code" => format!("\n--- cell {} (code) ---\n```{language}\n{source}\n```\n", at + 1),
            _ => format!("\n--- cell {} ({kind}) ---\n{source}\n", at + 1),
        });
        let outputs = cell.get("outputs").and_then(Value::as_array).into_iter().flatten().map(output);
        let outputs: Vec<String> = outputs.filter(|output| !output.is_empty()).collect();
        if !outputs.is_empty() {
            let shown = outputs.join("\n");
            let end = cut::end(&shown, OUTPUT_BYTES);
            let mark = if end < shown.len() { "... [truncated]" } else { "" };
            text.push_str(&format!("Output:\n{}{mark}\n", &shown[..end]));
        }
    }
    Some(text)
}

/// Text in a notebook is a string or a list of lines.
fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn output(output: &Value) -> String {
    if let Some(name) = output.get("ename").and_then(Value::as_str) {
        return format!("{name}: {}", output.get("evalue").map(joined).unwrap_or_default());
    }
    if let Some(text) = output.get("text") {
        return joined(text).trim_end().to_owned();
    }
    let Some(data) = output.get("data").and_then(Value::as_object) else { return String::new() };
    match data.get("text/plain") {
        Some(text) => joined(text).trim_end().to_owned(),
        None => data.keys().map(|kind| format!("[{kind}]")).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_stand_in_order_with_their_outputs() {
        let notebook = json!({"nbformat": 4, "metadata": {"kernelspec": {"language": "julia"}}, "cells": [
            {"cell_type": "markdown", "source": ["# A\n", "text"]},
            {"cell_type": "code", "source": "1 + 1\n", "outputs": [
                {"output_type": "stream", "text": ["hi\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "2", "image/png": "x"}},
                {"output_type": "display_data", "data": {"image/png": "x"}},
                {"output_type": "error", "ename": "E", "evalue": "bad", "traceback": []}]},
            {"cell_type": "code", "source": [], "outputs": 7}, 5]});
        insta::assert_snapshot!(text(&notebook.to_string()).unwrap(), @r"
        [Notebook: its cells as text. To edit it, read its JSON with offset: 0.]

        --- cell 1 (markdown) ---
        # A
        text

        --- cell 2 (code) ---
        ```julia
        1 + 1
        ```
        Output:
        hi
        2
        [image/png]
        E: bad

        --- cell 3 (code) ---
        ```julia

        ```

        --- cell 4 (raw) ---
        ");
        for other in ["", "{}", "{\"cells\": []}", "[1]", "{\"nbformat\": 4, \"cells\": 3}"] {
            assert_eq!(text(other), None);
        }
    }
}
