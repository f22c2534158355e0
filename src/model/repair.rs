//! Repairs arguments that are not quite JSON.
//!
//! Only text with a single reading is repaired. Text that is cut off becomes [`Fragment::Incomplete`] and never runs; text
//! with two readings is refused with its position, so that the model can write it again. Bad input never becomes `{}`.

use serde_json::{Map, Value};

/// As deep as `serde_json` reads.
const MAX_DEPTH: usize = 120;

/// Characters of the raw text that a message shows.
const SHOWN: usize = 500;

/// What raw arguments turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// One or more objects (glued calls), each in its place, and the steps of the ladder that were needed.
    Fragments {
        /// The objects, in order; only the last can be incomplete.
        pieces: Vec<Fragment>,
        /// For example `control_characters`.
        steps: Vec<&'static str>,
    },
    /// Refused.
    Invalid {
        /// What is wrong and where, for the model.
        problem: String,
    },
}

/// One object among glued ones.
#[derive(Debug, Clone, PartialEq)]
pub enum Fragment {
    /// Complete.
    Object(Map<String, Value>),
    /// Cut off: the raw text.
    Incomplete(String),
}

/// Reads raw arguments.
///
/// ```
/// use qwen_run::model::repair::{read, Fragment, Reading};
///
/// let Reading::Fragments { pieces, steps } = read("{'path': 'a.rs',}") else { panic!() };
/// assert_eq!(pieces, [Fragment::Object(serde_json::from_str(r#"{"path":"a.rs"}"#).unwrap())]);
/// assert_eq!(steps, ["single_quotes", "trailing_comma"]);
/// ```
pub fn read(raw: &str) -> Reading {
    let mut steps = Vec::new();
    read_level(raw, &mut steps, 0)
}

fn read_level(raw: &str, steps: &mut Vec<&'static str>, level: usize) -> Reading {
    let text = raw.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return pieces(vec![Fragment::Object(Map::new())], steps);
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) => return pieces(vec![Fragment::Object(object)], steps),
        // Twice is what servers do; three times is something else.
        Ok(Value::String(inner)) if level < 2 => {
            note(steps, "double_encoded");
            return read_level(&inner, steps, level + 1);
        }
        Ok(other) => {
            return Reading::Invalid {
                problem: format!(
                    "the arguments must be a JSON object, not {}; they are: {}",
                    kind_of(&other),
                    excerpt(text)
                ),
            };
        }
        Err(_) => {}
    }
    if text.starts_with('"') && matches!(Tolerant::new(text, 0).value(0), Err(Stop::End)) {
        return pieces(vec![Fragment::Incomplete(raw.to_owned())], steps);
    }
    let fenced = strip_fence(text);
    if fenced.len() != text.len() {
        note(steps, "code_fence");
    }
    sequence(fenced, steps)
}

/// Reads one or more objects with what is around them.
fn sequence(text: &str, steps: &mut Vec<&'static str>) -> Reading {
    let Some(start) = text.find('{') else {
        return invalid(text, 0, "expected `{`");
    };
    let prose = &text[..start];
    if !prose.is_empty() {
        // A quote or bracket before the object may be a part of a larger value whose beginning is lost.
        if let Some(at) = prose.find(['"', '\'', '[', '}', ']']) {
            return invalid(text, at, "expected `{`");
        }
        note(steps, "leading_text");
    }
    let mut objects = Vec::new();
    let mut at = start;
    loop {
        let mut parser = Tolerant::new(text, at);
        match parser.value(0) {
            Ok(Value::Object(object)) => {
                at = parser.at;
                for step in parser.steps {
                    note(steps, step);
                }
                objects.push(Fragment::Object(object));
            }
            Ok(_) => return invalid(text, at, "expected an object"),
            Err(Stop::End) => {
                objects.push(Fragment::Incomplete(text[at..].to_owned()));
                break;
            }
            Err(Stop::Bad(place, problem)) => return invalid(text, place, &problem),
        }
        let rest = &text[at..];
        let Some(offset) = rest.find(|c: char| !c.is_whitespace()) else { break };
        if rest[offset..].starts_with('{') {
            at += offset;
            continue;
        }
        if let Some(bad) = rest.find(['"', '{', '[']) {
            // An unescaped quote inside a value looks just like this.
            return invalid(text, at + bad, "unexpected text after the object");
        }
        note(steps, "trailing_text");
        break;
    }
    if objects.len() > 1 {
        note(steps, "glued_objects");
    }
    pieces(objects, steps)
}

/// What was read at a place, and where it ends.
type Found<T> = Result<(T, usize), ObjectError>;

/// Reads the object that begins at `at`, repaired where it has one reading.
pub(super) fn object_at(text: &str, at: usize) -> Found<Map<String, Value>> {
    let mut parser = Tolerant::new(text, at);
    match parser.value(0) {
        Ok(Value::Object(object)) => Ok((object, parser.at)),
        Ok(_) => Err(ObjectError::Bad { at, problem: "expected an object".to_owned() }),
        Err(Stop::End) => Err(ObjectError::Cut),
        Err(Stop::Bad(at, problem)) => Err(ObjectError::Bad { at, problem }),
    }
}

/// Like [`object_at`], for an array of anything.
pub(super) fn array_at(text: &str, at: usize) -> Found<Vec<Value>> {
    let mut parser = Tolerant::new(text, at);
    match parser.value(0) {
        Ok(Value::Array(array)) => Ok((array, parser.at)),
        Ok(_) => Err(ObjectError::Bad { at, problem: "expected an array".to_owned() }),
        Err(Stop::End) => Err(ObjectError::Cut),
        Err(Stop::Bad(at, problem)) => Err(ObjectError::Bad { at, problem }),
    }
}

/// Why no object could be read at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ObjectError {
    /// The text ends inside it.
    Cut,
    /// Something is where it may not be.
    Bad { at: usize, problem: String },
}

/// Says what is wrong where, with the text around the place and the beginning of the whole.
pub(super) fn place(text: &str, at: usize, problem: &str) -> String {
    let at = floor(text, at);
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let near: String = text[at..].chars().take(30).collect();
    let near = if near.is_empty() { "the end".to_owned() } else { format!("`{near}`") };
    format!(
        "not valid JSON: {problem} at line {line} column {column}, near {near}. Inside a string write `\"` as `\\\"`, \
         a line break as `\\n` and a backslash as `\\\\`. It began: {}",
        excerpt(text)
    )
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn invalid(text: &str, at: usize, problem: &str) -> Reading {
    Reading::Invalid { problem: format!("the arguments are {}", place(text, at, problem)) }
}

fn pieces(pieces: Vec<Fragment>, steps: &mut Vec<&'static str>) -> Reading {
    Reading::Fragments { pieces, steps: std::mem::take(steps) }
}

fn note(steps: &mut Vec<&'static str>, step: &'static str) {
    if !steps.contains(&step) {
        steps.push(step);
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Takes the inside of a code fence that is the whole text.
fn strip_fence(text: &str) -> &str {
    let Some(inside) = text.strip_prefix("```") else { return text };
    let Some((tag, body)) = inside.split_once('\n') else { return text };
    if tag.contains(['{', '"', '`']) {
        return text;
    }
    let body = body.trim_end();
    body.strip_suffix("```").unwrap_or(body).trim()
}

/// Why the parser stopped.
enum Stop {
    /// The text ended inside the value.
    End,
    /// Something else is at this byte.
    Bad(usize, String),
}

/// A parser for JSON and for what models write instead where it has only one reading.
struct Tolerant<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    steps: Vec<&'static str>,
}

impl<'a> Tolerant<'a> {
    fn new(text: &'a str, at: usize) -> Tolerant<'a> {
        Tolerant { text, bytes: text.as_bytes(), at, steps: Vec::new() }
    }

    fn bad<T>(&self, problem: &str) -> Result<T, Stop> {
        if self.at >= self.bytes.len() { Err(Stop::End) } else { Err(Stop::Bad(self.at, problem.to_owned())) }
    }

    fn spaces(&mut self) -> Result<(), Stop> {
        loop {
            while self.bytes.get(self.at).is_some_and(|byte| byte.is_ascii_whitespace()) {
                self.at += 1;
            }
            if !self.bytes[self.at..].starts_with(b"//") {
                return Ok(());
            }
            let rest = &self.text[self.at..];
            let comment = rest.split('\n').next().unwrap_or(rest);
            if comment.contains(['"', '\'']) {
                // As likely the rest of a string whose quote came too early.
                return self.bad("unexpected `//`");
            }
            note(&mut self.steps, "comment");
            self.at += comment.len();
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        self.spaces()?;
        if depth > MAX_DEPTH {
            return self.bad("too deeply nested");
        }
        match self.bytes.get(self.at) {
            None => Err(Stop::End),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"' | b'\'') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Stop> {
        self.at += 1;
        let mut object = Map::new();
        let mut after_comma = false;
        loop {
            self.spaces()?;
            let key_at = self.at;
            let key = match self.bytes.get(self.at) {
                None => return Err(Stop::End),
                Some(b'}') => {
                    if after_comma {
                        note(&mut self.steps, "trailing_comma");
                    }
                    self.at += 1;
                    return Ok(Value::Object(object));
                }
                Some(b'"' | b'\'') => self.string()?,
                Some(byte) if byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$') => self.unquoted_key(),
                Some(_) => return self.bad("expected a property name"),
            };
            self.spaces()?;
            if self.bytes.get(self.at) != Some(&b':') {
                return self.bad("expected `:`");
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            if object.get(&key).is_some_and(|old| *old != value) {
                return Err(Stop::Bad(key_at, format!("the property `{key}` stands twice")));
            }
            object.insert(key, value);
            self.spaces()?;
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => {}
                _ => return self.bad("expected `,` or `}`"),
            }
            after_comma = self.bytes[self.at - 1] == b',';
        }
    }

    fn unquoted_key(&mut self) -> String {
        let start = self.at;
        while self
            .bytes
            .get(self.at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-'))
        {
            self.at += 1;
        }
        note(&mut self.steps, "unquoted_key");
        self.text[start..self.at].to_owned()
    }

    fn array(&mut self, depth: usize) -> Result<Value, Stop> {
        self.at += 1;
        let mut array = Vec::new();
        let mut after_comma = false;
        loop {
            self.spaces()?;
            if self.bytes.get(self.at) == Some(&b']') {
                if after_comma {
                    note(&mut self.steps, "trailing_comma");
                }
                self.at += 1;
                return Ok(Value::Array(array));
            }
            array.push(self.value(depth + 1)?);
            self.spaces()?;
            match self.bytes.get(self.at) {
                Some(b',') => {
                    self.at += 1;
                    after_comma = true;
                }
                Some(b']') => after_comma = false,
                _ => return self.bad("expected `,` or `]`"),
            }
        }
    }

    fn number(&mut self) -> Result<Value, Stop> {
        let start = self.at;
        while self
            .bytes
            .get(self.at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_'))
        {
            self.at += 1;
        }
        match serde_json::from_str(&self.text[start..self.at]) {
            Ok(number) => Ok(number),
            Err(_) if self.at == self.bytes.len() => Err(Stop::End),
            Err(_) => Err(Stop::Bad(start, "expected a number".to_owned())),
        }
    }

    fn word(&mut self) -> Result<Value, Stop> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = &rest[..end];
        let value = match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            "True" | "False" | "None" => {
                note(&mut self.steps, "python_literals");
                match word {
                    "True" => Value::Bool(true),
                    "False" => Value::Bool(false),
                    _ => Value::Null,
                }
            }
            _ if end == rest.len()
                && ["true", "false", "null", "True", "False", "None"].iter().any(|w| w.starts_with(word)) =>
            {
                return Err(Stop::End);
            }
            _ => return self.bad("expected a value"),
        };
        self.at += end;
        Ok(value)
    }

    fn string(&mut self) -> Result<String, Stop> {
        let quote = self.bytes[self.at];
        let single = quote == b'\'';
        if single {
            note(&mut self.steps, "single_quotes");
        }
        self.at += 1;
        let mut string = String::new();
        let mut plain = self.at;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(Stop::End),
                Some(&byte) if byte == quote => {
                    string.push_str(&self.text[plain..self.at]);
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => {
                    string.push_str(&self.text[plain..self.at]);
                    self.escape(single, &mut string)?;
                    plain = self.at;
                }
                Some(0..=0x1f) => {
                    note(&mut self.steps, "control_characters");
                    self.at += 1;
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self, single: bool, string: &mut String) -> Result<(), Stop> {
        let Some(&escaped) = self.bytes.get(self.at + 1) else {
            self.at = self.bytes.len();
            return Err(Stop::End);
        };
        let plain = match escaped {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'\'' => {
                if !single {
                    note(&mut self.steps, "invalid_escape");
                }
                '\''
            }
            b'u' => return self.unicode(string),
            // In Python these mean a character, in a shell or a regular expression they do not.
            b'x' | b'N' | b'U' | b'0'..=b'7' if single => return self.bad("this escape has two readings"),
            _ => {
                note(&mut self.steps, "invalid_escape");
                string.push('\\');
                self.at += 1;
                return Ok(());
            }
        };
        string.push(plain);
        self.at += 2;
        Ok(())
    }

    /// Tells whether the text ends at `at` or within a `\uXXXX` that begins there.
    fn could_go_on(&self, at: usize) -> bool {
        let rest = &self.bytes[at..];
        rest.len() < 6
            && rest.iter().enumerate().all(|(place, byte)| match place {
                0 => *byte == b'\\',
                1 => *byte == b'u',
                _ => byte.is_ascii_hexdigit(),
            })
    }

    fn unicode(&mut self, string: &mut String) -> Result<(), Stop> {
        let unit = |at: usize| -> Option<u32> {
            let digits = self.text.get(at + 2..at + 6)?;
            if !self.bytes[at..].starts_with(b"\\u") || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            u32::from_str_radix(digits, 16).ok()
        };
        let Some(first) = unit(self.at) else {
            if self.bytes.len() < self.at + 6 && self.bytes[self.at + 2..].iter().all(u8::is_ascii_hexdigit) {
                return Err(Stop::End);
            }
            note(&mut self.steps, "invalid_escape");
            string.push('\\');
            self.at += 1;
            return Ok(());
        };
        if let Some(plain) = char::from_u32(first) {
            string.push(plain);
            self.at += 6;
            return Ok(());
        }
        match unit(self.at + 6) {
            Some(second) if (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second) => {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                string.push(char::from_u32(code).expect("a pair of surrogates is always a character"));
                self.at += 12;
                Ok(())
            }
            _ if self.could_go_on(self.at + 6) => Err(Stop::End),
            _ => self.bad("half a surrogate pair"),
        }
    }
}

#[cfg(test)]
mod tests;
