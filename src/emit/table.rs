//! Prints how the items of a batch ended as CSV, a line each.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::Value;

use super::json::to_line;
use super::junit::answer;
use crate::batch::journal::Ended;

/// Fields of answers that get a column of their own.
const MOST: usize = 100;

/// The columns of every table.
const COLUMNS: [&str; 19] = [
    "n",
    "key",
    "exit_code",
    "exit_reason",
    "conclusion",
    "output",
    "findings",
    "files",
    "patch_sha256",
    "branch",
    "commit",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "duration_ms",
    "model",
    "run_id",
    "error_code",
    "error",
];

/// The fields of the answers, each a column: `output.label`.
#[derive(Debug, Clone, Default)]
pub struct AnswerFields(BTreeSet<String>);

impl AnswerFields {
    /// Notes the fields of an answer.
    pub fn see(&mut self, ended: &Ended) {
        for name in ended.product.output.as_object().into_iter().flat_map(|fields| fields.keys()) {
            if self.0.len() < MOST {
                self.0.insert(name.clone());
            }
        }
    }
}

/// A table that grows item by item.
pub struct Table<W: Write> {
    writer: csv::Writer<W>,
    fields: AnswerFields,
}

impl<W: Write> Table<W> {
    /// Begins a table.
    pub fn new(to: W, fields: AnswerFields) -> io::Result<Table<W>> {
        let mut writer = csv::Writer::from_writer(to);
        let own = fields.0.iter().map(|name| cell(&format!("output.{name}")));
        writer.write_record(COLUMNS.iter().map(|name| (*name).to_owned()).chain(own)).map_err(io::Error::other)?;
        Ok(Table { writer, fields })
    }

    /// Adds an item; of one that is not done only number and key are known.
    pub fn add(&mut self, n: u32, key: &str, ended: Option<&Ended>) -> io::Result<()> {
        let mut record = vec![n.to_string(), cell(key)];
        match ended {
            Some(ended) => record.extend(known(ended)),
            None => record.resize(COLUMNS.len(), String::new()),
        }
        let field = |name: &String| {
            let value = ended.and_then(|ended| ended.product.output.get(name));
            value.map(of_value).unwrap_or_default()
        };
        record.extend(self.fields.0.iter().map(field));
        self.writer.write_record(record).map_err(io::Error::other)
    }

    /// Ends the table, and returns what it was written to.
    pub fn end(self) -> io::Result<W> {
        self.writer.into_inner().map_err(|error| io::Error::new(error.error().kind(), error.error().to_string()))
    }
}

/// Returns the cells behind number and key.
fn known(ended: &Ended) -> Vec<String> {
    let (product, usage) = (&ended.product, &ended.usage);
    let text = |text: &Option<String>| cell(text.as_deref().unwrap_or_default());
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let error = ended.error.as_ref();
    vec![
        ended.exit_code.to_string(),
        cell(&ended.exit_reason),
        cell(&ended.conclusion),
        cell(&answer(ended)),
        product.findings.to_string(),
        cell(&product.files.join(" ")),
        text(&product.patch_sha256),
        text(&product.branch),
        text(&product.commit),
        number(usage.input_tokens),
        number(usage.output_tokens),
        ended.cost_usd.map(|cost| cost.to_string()).unwrap_or_default(),
        ended.duration_ms.to_string(),
        text(&ended.model),
        text(&ended.run_id),
        cell(error.map(|error| error.code.as_str()).unwrap_or_default()),
        cell(error.map(|error| error.message.as_str()).unwrap_or_default()),
    ]
}

fn of_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => cell(text),
        Value::Array(_) | Value::Object(_) => to_line(value),
    }
}

/// Returns a text as a cell that no program takes for a formula.
fn cell(text: &str) -> String {
    let means_something = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if means_something { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::batch::journal::Product;

    fn ended(output: Value) -> Ended {
        Ended { exit_reason: "ok".into(), product: Product { output, ..Product::default() }, ..Ended::default() }
    }

    #[test]
    fn a_cell_is_text_and_never_a_formula() {
        let items = [
            ("=cmd()", ended(json!({"label": "+1", "score": -0.5, "why": "a,\"b\"\nc"}))),
            ("@x", ended(json!("-plain"))),
            ("\tx", ended(json!({"more": [1]}))),
        ];
        let mut fields = AnswerFields::default();
        items.iter().for_each(|(_, ended)| fields.see(ended));
        let mut table = Table::new(Vec::new(), fields).unwrap();
        for (n, (key, ended)) in (1..).zip(&items) {
            table.add(n, key, Some(ended)).unwrap();
        }
        table.add(4, "left", None).unwrap();
        let text = String::from_utf8(table.end().unwrap()).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let at = |name: &str, headers: &csv::StringRecord| headers.iter().position(|header| header == name).unwrap();
        let headers = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let column = |name: &str| rows.iter().map(|row| row[at(name, &headers)].to_owned()).collect::<Vec<_>>();
        assert_eq!(column("key"), ["'=cmd()", "'@x", "'\tx", "left"]);
        assert_eq!(column("output.label"), ["'+1", "", "", ""]);
        assert_eq!(column("output.score"), ["-0.5", "", "", ""]);
        assert_eq!(column("output.why"), ["a,\"b\"\nc", "", "", ""]);
        assert_eq!(column("output.more"), ["", "", "[1]", ""]);
        assert_eq!(column("output")[1], "'-plain");
        assert_eq!(column("exit_code"), ["0", "0", "0", ""]);
    }
}
