//! Reads lists of records, one at a time: lines of JSON, CSV, TSV, or plain lines.

use std::cell::Cell;
use std::io::{self, BufRead, Read as _};

use serde_json::Value;

use crate::batch::item::Fields;
use crate::batch::keys::{KeyError, RECORD};

/// The byte order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListForm {
    /// An object a line.
    Jsonl,
    /// A table whose first line names its columns, with this separator.
    Table(u8),
    /// A field `line` for every line that is not empty, with this byte at its end.
    Lines(u8),
}

impl ListForm {
    /// Returns the form of a file of records by its name.
    pub fn of_name(name: &str) -> Option<ListForm> {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        match extension.as_deref() {
            Some("jsonl" | "ndjson") => Some(ListForm::Jsonl),
            Some("csv") => Some(ListForm::Table(b',')),
            Some("tsv") => Some(ListForm::Table(b'\t')),
            Some(_) | None if name == "-" => Some(ListForm::Jsonl),
            Some(_) | None => None,
        }
    }
}

/// Why a list cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line is not a record.
    #[error("line {line}: {why}")]
    Line {
        /// The line.
        line: u64,
        /// Why.
        why: String,
    },
    /// A record is no item.
    #[error("{0}")]
    Key(#[from] KeyError),
}

/// Reads a list to its end: `take` gets each record with its line.
pub fn read(
    form: ListForm,
    source: &mut dyn BufRead,
    take: &mut dyn FnMut(u64, Fields) -> Result<(), ListError>,
) -> Result<(), ListError> {
    match form {
        ListForm::Jsonl => each_line(source, b'\n', &mut |line, text| {
            if text.trim_ascii().is_empty() {
                return Ok(());
            }
            let wrong = |why: String| ListError::Line { line, why };
            match serde_json::from_slice(text).map_err(|error| wrong(format!("it is not JSON: {error}")))? {
                Value::Object(fields) => take(line, fields),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    Err(wrong("it is not an object".to_owned()))
                }
            }
        }),
        ListForm::Lines(end) => each_line(source, end, &mut |line, text| {
            let text = match end {
                b'\n' => text.strip_suffix(b"\r").unwrap_or(text),
                _ => text,
            };
            if text.is_empty() {
                return Ok(());
            }
            let text = std::str::from_utf8(text);
            let text = text.map_err(|_| ListError::Line { line, why: "it is not UTF-8".to_owned() })?;
            take(line, [("line".to_owned(), Value::from(text))].into_iter().collect())
        }),
        ListForm::Table(separator) => table(separator, source, take),
    }
}

/// Takes a line with its number.
type TakeLine<'a> = dyn FnMut(u64, &[u8]) -> Result<(), ListError> + 'a;

fn each_line(source: &mut dyn BufRead, end: u8, take: &mut TakeLine<'_>) -> Result<(), ListError> {
    let most = RECORD as u64 + 1;
    let (mut line, mut text) = (0, Vec::new());
    loop {
        text.clear();
        if (&mut *source).take(most).read_until(end, &mut text)? == 0 {
            return Ok(());
        }
        line += 1;
        if line == 1 && text.starts_with(MARK) {
            text.drain(..MARK.len());
        }
        match text.pop() {
            Some(last) if last != end => text.push(last),
            Some(_) | None => {}
        }
        if text.len() > RECORD {
            return Err(KeyError::Large { line, bytes: text.len() }.into());
        }
        take(line, &text)?;
    }
}

fn table(
    separator: u8,
    source: &mut dyn BufRead,
    take: &mut dyn FnMut(u64, Fields) -> Result<(), ListError>,
) -> Result<(), ListError> {
    let wrong = |error: csv::Error| {
        let line = error.position().map_or(0, csv::Position::line);
        match error.into_kind() {
            csv::ErrorKind::Io(error) => ListError::Io(error),
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                ListError::Line { line, why: format!("it has {len} columns, and the first line has {expected_len}") }
            }
            csv::ErrorKind::Utf8 { .. } => ListError::Line { line, why: "it is not UTF-8".to_owned() },
            other => ListError::Line { line, why: format!("it cannot be read: {other:?}") },
        }
    };
    let unclosed = Cell::new(None);
    let closed = || match unclosed.get() {
        Some(line) => Err(ListError::Line { line, why: "the quote is never closed".to_owned() }),
        None => Ok(()),
    };
    let quotes = Quotes { source, separator, line: 1, at: At::Start, unclosed: &unclosed };
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).from_reader(quotes);
    let names = reader.headers().map_err(wrong)?.clone();
    closed()?;
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(ListError::Line { line: 1, why: format!("two columns are named `{twice}`") });
    }
    for record in reader.records() {
        closed()?;
        let record = record.map_err(wrong)?;
        let line = record.position().map_or(0, csv::Position::line);
        let cells = names.iter().zip(&record).map(|(name, cell)| (name.to_owned(), Value::from(cell)));
        take(line, cells.collect())?;
    }
    Ok(())
}

/// Where in a table a byte is.
#[derive(Debug, Clone, Copy)]
enum At {
    /// At the beginning of a field.
    Start,
    /// In a field without quotes.
    Plain,
    /// In quotes, from this line on.
    Quoted(u64),
    /// After a quote that ends the field, or is the first of two.
    Quote(u64),
}

/// Passes a table on, and notes where a quote begins that its end does not close: the parser takes all that follows as
/// one field.
struct Quotes<'a> {
    source: &'a mut dyn BufRead,
    separator: u8,
    line: u64,
    at: At,
    unclosed: &'a Cell<Option<u64>>,
}

impl io::Read for Quotes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        if let (0, false, At::Quoted(line)) = (read, buffer.is_empty(), self.at) {
            self.unclosed.set(Some(line));
        }
        for byte in &buffer[..read] {
            let ends = [b'\r', b'\n', self.separator].contains(byte);
            self.at = match (self.at, byte) {
                (At::Start, b'"') => At::Quoted(self.line),
                (At::Quoted(line), b'"') => At::Quote(line),
                (At::Quote(line), b'"') => At::Quoted(line),
                (At::Quoted(line), _) => At::Quoted(line),
                (At::Start | At::Plain | At::Quote(_), _) if ends => At::Start,
                (At::Start, byte) if MARK.contains(byte) => At::Start,
                (At::Start | At::Plain | At::Quote(_), _) => At::Plain,
            };
            self.line += u64::from(*byte == b'\n');
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(form: ListForm, text: &str) -> Result<Vec<(u64, String)>, ListError> {
        let mut found = Vec::new();
        read(form, &mut text.as_bytes(), &mut |line, fields| {
            found.push((line, Value::Object(fields).to_string()));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn each_form_gives_its_records_with_their_lines() {
        let found = |line: u64, text: &str| (line, text.to_owned());
        assert_eq!(
            all(ListForm::Jsonl, "{\"a\":1}\n\n{\"a\":[2]}").unwrap(),
            [found(1, r#"{"a":1}"#), found(3, r#"{"a":[2]}"#)]
        );
        assert_eq!(
            all(ListForm::Table(b','), "id,text\n1,\"a, \"\"b\"\"\nc\"\n2,\n").unwrap(),
            [found(2, r#"{"id":"1","text":"a, \"b\"\nc"}"#), found(4, r#"{"id":"2","text":""}"#)]
        );
        assert_eq!(all(ListForm::Table(b'\t'), "a\tb\nx\t\"y\"\n").unwrap(), [found(2, r#"{"a":"x","b":"y"}"#)]);
        assert_eq!(
            all(ListForm::Lines(b'\n'), "a\r\n\n b").unwrap(),
            [found(1, r#"{"line":"a"}"#), found(3, r#"{"line":" b"}"#)]
        );
        assert_eq!(all(ListForm::Jsonl, "\u{feff}{\"a\":1}\n").unwrap(), [found(1, r#"{"a":1}"#)]);
        assert_eq!(all(ListForm::Lines(b'\n'), "\u{feff}a").unwrap(), [found(1, r#"{"line":"a"}"#)]);
        assert_eq!(all(ListForm::Table(b','), "a,b\nx \"y,z\"").unwrap(), [found(2, r#"{"a":"x \"y","b":"z\""}"#)]);
        assert_eq!(all(ListForm::Lines(0), "a\nb\0").unwrap(), [found(1, r#"{"line":"a\nb"}"#)]);
    }

    #[test]
    fn what_is_no_record_is_an_error_with_its_line() {
        for (form, text, error) in [
            (ListForm::Jsonl, "{}\n[1]\n", "line 2: it is not an object"),
            (
                ListForm::Jsonl,
                "{}\n\n{\"a\":\n",
                "line 3: it is not JSON: EOF while parsing a value at line 1 column 5",
            ),
            (ListForm::Table(b','), "a,b\n1\n", "line 2: it has 1 columns, and the first line has 2"),
            (ListForm::Table(b','), "id,text\na,\"un\nb,\"\"x\nc,third", "line 2: the quote is never closed"),
            (ListForm::Table(b','), "id,text\na,\"un\"\n\"b\"\"", "line 3: the quote is never closed"),
            (ListForm::Table(b','), "\u{feff}\"id,text\na,b", "line 1: the quote is never closed"),
            (ListForm::Table(b','), "a,a\n1,2\n", "line 1: two columns are named `a`"),
        ] {
            assert_eq!(all(form, text).unwrap_err().to_string(), error);
        }
        let long = "x".repeat(RECORD + 1);
        assert!(matches!(all(ListForm::Lines(b'\n'), &long), Err(ListError::Key(KeyError::Large { line: 1, .. }))));
    }

    #[test]
    fn a_file_s_name_says_its_form() {
        assert_eq!(ListForm::of_name("-"), Some(ListForm::Jsonl));
        assert_eq!(ListForm::of_name("a.b/x.CSV"), Some(ListForm::Table(b',')));
        assert_eq!(ListForm::of_name("x.json"), None);
    }
}
