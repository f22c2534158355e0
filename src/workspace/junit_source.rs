//! Reads the failed tests of a JUnit report as records, whatever tool wrote it.

use std::borrow::Cow;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use serde_json::Value;

use super::item_source::ListError;
use crate::base::cut;
use crate::batch::item::Fields;

/// Maximum bytes of a test's output.
const OUTPUT: usize = 16 << 10;

/// The field that names a test: its class and its name.
pub const KEY: &str = "test";

/// Reads a report to its end: `take` gets each test that failed or broke, with its line in the report.
pub fn read(bytes: &[u8], take: &mut dyn FnMut(u64, Fields) -> Result<(), ListError>) -> Result<(), ListError> {
    let mut reader = Reader::from_reader(bytes);
    reader.config_mut().expand_empty_elements = true;
    let mut reading = Reading::default();
    let mut depth = 0_usize;
    loop {
        let line = lines_before(bytes, reader.buffer_position());
        let wrong = |why: String| ListError::Line { line, why };
        match reader.read_event().map_err(|error| wrong(format!("it is not XML: {error}")))? {
            Event::Eof if depth > 0 => return Err(wrong("the report ends in the middle".to_owned())),
            Event::Eof if !reading.is_report => return Err(wrong("it is not a JUnit report".to_owned())),
            Event::Eof => return Ok(()),
            Event::Start(start) => {
                depth += 1;
                reading.start(&start, line).map_err(wrong)?;
            }
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                if let Some((line, fields)) = reading.end(end.name().as_ref()) {
                    take(line, fields)?;
                }
            }
            Event::Text(text) => reading.text(&text.decode().map_err(|error| wrong(error.to_string()))?),
            Event::CData(text) => reading.text(&String::from_utf8_lossy(&text)),
            Event::GeneralRef(reference) => {
                let number = reference.resolve_char_ref().map_err(|error| wrong(error.to_string()))?;
                let name = String::from_utf8_lossy(&reference).into_owned();
                let known = || quick_xml::escape::resolve_xml_entity(&name).map(Cow::Borrowed);
                // Entities that a document declares itself are never expanded.
                let text = number.map(|c| Cow::Owned(c.to_string())).or_else(known);
                reading.text(&text.unwrap_or_default());
            }
            Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

/// Returns the line of a place, from 1.
fn lines_before(bytes: &[u8], position: u64) -> u64 {
    let end = usize::try_from(position).unwrap_or(bytes.len()).min(bytes.len());
    1 + bytes[..end].iter().filter(|byte| **byte == b'\n').count() as u64
}

/// What is open at a place of the report.
#[derive(Default)]
struct Reading {
    is_report: bool,
    /// The names of the suites around.
    suites: Vec<String>,
    case: Option<Case>,
    /// Whether text belongs to the output of the case.
    takes_text: bool,
}

/// A test whose element is open.
struct Case {
    line: u64,
    fields: Fields,
    has_failed: bool,
    output: String,
}

impl Reading {
    fn start(&mut self, start: &BytesStart<'_>, line: u64) -> Result<(), String> {
        let attribute = |name: &str| -> Result<String, String> {
            let found = start.try_get_attribute(name).map_err(|error| error.to_string())?;
            let value = found.map(|found| found.normalized_value(XmlVersion::Explicit1_0).map(Cow::into_owned));
            Ok(value.transpose().map_err(|error| error.to_string())?.unwrap_or_default())
        };
        match start.name().as_ref() {
            b"testsuites" => self.is_report = true,
            b"testsuite" => {
                self.is_report = true;
                self.suites.push(attribute("name")?);
            }
            b"testcase" => {
                let (class, name) = (attribute("classname")?, attribute("name")?);
                let test = if class.is_empty() { name.clone() } else { format!("{class}::{name}") };
                let suite = self.suites.last().cloned().unwrap_or_default();
                let mut fields: Fields = [
                    (KEY, test),
                    ("suite", suite),
                    ("class", class),
                    ("name", name),
                    ("file", attribute("file")?),
                    ("message", String::new()),
                ]
                .map(|(name, value)| (name.to_owned(), Value::from(value)))
                .into_iter()
                .collect();
                let number: Option<u64> = attribute("line")?.parse().ok();
                fields.insert("line".to_owned(), number.map_or(Value::Null, Value::from));
                self.case = Some(Case { line, fields, has_failed: false, output: String::new() });
            }
            b"failure" | b"error" => {
                let message = attribute("message")?;
                if let Some(case) = &mut self.case {
                    case.has_failed = true;
                    case.fields.insert("message".to_owned(), Value::from(message));
                }
                self.takes_text = true;
            }
            b"system-out" | b"system-err" => self.takes_text = true,
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if let Some(case) = self.case.as_mut().filter(|_| self.takes_text) {
            let room = OUTPUT.saturating_sub(case.output.len());
            case.output.push_str(&text[..cut::end(text, room)]);
        }
    }

    /// Ends an element, and returns the test that it ends if that has failed.
    fn end(&mut self, name: &[u8]) -> Option<(u64, Fields)> {
        match name {
            b"testsuite" => drop(self.suites.pop()),
            b"failure" | b"error" | b"system-out" | b"system-err" => {
                self.text("\n");
                self.takes_text = false;
            }
            b"testcase" => {
                let mut case = self.case.take().filter(|case| case.has_failed)?;
                case.fields.insert("output".to_owned(), Value::from(case.output.trim()));
                return Some((case.line, case.fields));
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all(text: &str) -> Result<Vec<(u64, Value)>, String> {
        let mut found = Vec::new();
        let read = read(text.as_bytes(), &mut |line, fields| {
            found.push((line, Value::Object(fields)));
            Ok(())
        });
        read.map(|()| found).map_err(|error| error.to_string())
    }

    #[test]
    fn failed_and_broken_tests_are_records_and_others_are_not() {
        let report = r#"<?xml version="1.0"?>
<testsuites><testsuite name="outer"><testsuite name="api">
<testcase name="passes" classname="a.B"/>
<testcase name="fails &lt;1&gt;" classname="a.B" file="b.py" line="7">
  <failure message="1 &amp; 2">line &#65; &lt;x&gt;<![CDATA[ <raw> ]]></failure>
  <system-out>printed</system-out>
</testcase>
<testcase name="skipped"><skipped message="later"/></testcase>
</testsuite><testcase name="breaks"><error message="boom"/></testcase></testsuite></testsuites>"#;
        let found = all(report).unwrap();
        let first = json!({
            "test": "a.B::fails <1>", "suite": "api", "class": "a.B", "name": "fails <1>", "file": "b.py", "line": 7,
            "message": "1 & 2", "output": "line A <x> <raw> \nprinted",
        });
        let second = json!({
            "test": "breaks", "suite": "outer", "class": "", "name": "breaks", "file": "", "line": null,
            "message": "boom", "output": "",
        });
        assert_eq!(found, [(4, first), (9, second)]);
    }

    #[test]
    fn what_is_no_report_is_an_error_with_its_line() {
        for (text, error) in [
            ("", "line 1: it is not a JUnit report"),
            ("<html></html>", "line 1: it is not a JUnit report"),
            ("<testsuite>\n<testcase>", "line 2: the report ends in the middle"),
            ("<testsuite>\n</testcase>", "line 2: it is not XML"),
        ] {
            let found = all(text).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }

    #[test]
    fn declared_entities_are_not_expanded_and_output_is_cut() {
        let bomb = r#"<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>
<testsuite><testcase name="t"><failure>&b;&f;</failure></testcase></testsuite>"#;
        assert_eq!(all(bomb).unwrap()[0].1["output"], "");
        let long =
            format!("<testsuite><testcase name='t'><failure>{}</failure></testcase></testsuite>", "é".repeat(OUTPUT));
        assert_eq!(all(&long).unwrap()[0].1["output"].as_str().unwrap().len(), OUTPUT);
    }
}
