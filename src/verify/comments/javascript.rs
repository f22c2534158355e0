//! Reads JavaScript in every way in which it can be read: whether a slash divides or begins a regular expression depends on
//! what is before it, and a quote in a regular expression begins nothing.

/// Ways to read a text that are followed at once; a text with more of them is not read.
const MOST: usize = 64;

/// Words behind which a regular expression may come.
const KEYWORDS: [&str; 19] = [
    "return",
    "typeof",
    "instanceof",
    "in",
    "of",
    "new",
    "delete",
    "void",
    "throw",
    "case",
    "do",
    "else",
    "yield",
    "await",
    "default",
    "extends",
    "break",
    "continue",
    "debugger",
];

/// What may be open around a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// A template.
    Template,
    /// The code between `${` and `}`, with so many braces open in it.
    Code(u32),
}

/// What a character belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    Code,
    Comment,
    Block,
    Quote(char),
    Regex { class: bool },
}

/// What a slash means behind a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slash {
    Divides,
    Begins,
    Either,
}

/// One way to read what came so far.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reading {
    open: Vec<Open>,
    inside: In,
    slash: Slash,
    /// The name that is being read.
    name: String,
    /// Whether the next character belongs to the one before it: it is escaped, or ends a mark of two.
    skips: bool,
}

impl Reading {
    /// Reads a character; `next` is the one behind it. Returns another way to read it, if there is one; `Err` if the text cannot
    /// be read this way.
    fn read(&mut self, c: char, next: Option<char>) -> Result<Option<Reading>, ()> {
        if std::mem::take(&mut self.skips) {
            return Ok(None);
        }
        match self.inside {
            In::Comment if ends_line(c) => {
                self.inside = In::Code;
                self.end_line();
            }
            In::Comment => {}
            In::Block if c == '*' && next == Some('/') => (self.inside, self.skips) = (In::Code, true),
            In::Block if ends_line(c) => self.end_line(),
            In::Block => {}
            In::Quote(_) if matches!(c, '\n' | '\r') => return Err(()),
            In::Regex { .. } if ends_line(c) || c == '\\' && next.is_some_and(ends_line) => return Err(()),
            In::Quote(_) | In::Regex { .. } if c == '\\' => self.skips = true,
            In::Quote(quote) if c == quote => self.value(),
            In::Quote(_) => {}
            In::Regex { class: true } if c == ']' => self.inside = In::Regex { class: false },
            In::Regex { class: false } if c == '[' => self.inside = In::Regex { class: true },
            In::Regex { class: false } if c == '/' => self.value(),
            In::Regex { .. } => {}
            In::Code if self.open.last() == Some(&Open::Template) => self.template(c, next),
            In::Code => return Ok(self.code(c, next)),
        }
        Ok(None)
    }

    /// Tells whether the next character is in code, or begins something.
    fn is_code(&self) -> bool {
        self.inside == In::Code && self.open.last() != Some(&Open::Template)
    }

    /// Ends a line: a statement may have ended with it.
    fn end_line(&mut self) {
        if self.slash == Slash::Divides {
            self.slash = Slash::Either;
        }
    }

    /// Ends a literal.
    fn value(&mut self) {
        (self.inside, self.slash) = (In::Code, Slash::Divides);
    }

    fn template(&mut self, c: char, next: Option<char>) {
        match (c, next) {
            ('\\', _) => self.skips = true,
            ('`', _) => {
                self.open.pop();
                self.value();
            }
            ('$', Some('{')) => {
                self.open.push(Open::Code(0));
                (self.slash, self.skips) = (Slash::Begins, true);
            }
            _ => {}
        }
    }

    fn code(&mut self, c: char, next: Option<char>) -> Option<Reading> {
        if c.is_alphanumeric() || "_$#".contains(c) {
            self.name.push(c);
            let is_word = KEYWORDS.contains(&self.name.as_str());
            self.slash = if is_word { Slash::Either } else { Slash::Divides };
            return None;
        }
        self.name.clear();
        match c {
            '/' if next == Some('/') => self.inside = In::Comment,
            '/' if next == Some('*') => (self.inside, self.skips) = (In::Block, true),
            '/' => return self.slash(),
            '"' | '\'' => self.inside = In::Quote(c),
            '`' => self.open.push(Open::Template),
            '{' => {
                if let Some(Open::Code(braces)) = self.open.last_mut() {
                    *braces += 1;
                }
                self.slash = Slash::Begins;
            }
            '}' => {
                match self.open.last_mut() {
                    Some(Open::Code(0)) => drop(self.open.pop()),
                    Some(Open::Code(braces)) => *braces -= 1,
                    Some(Open::Template) | None => {}
                }
                self.slash = Slash::Either;
            }
            ']' => self.slash = Slash::Divides,
            // `x++ / y`, `x! / y`, `1. / y`, `</p>` and the parentheses of `if` have one of these as well.
            ')' | '!' | '+' | '-' | '>' | '<' | '.' => self.slash = Slash::Either,
            c if ends_line(c) => self.end_line(),
            c if c.is_whitespace() => {}
            _ => self.slash = Slash::Begins,
        }
        None
    }

    fn slash(&mut self) -> Option<Reading> {
        let regex = Reading { inside: In::Regex { class: false }, ..self.clone() };
        match std::mem::replace(&mut self.slash, Slash::Begins) {
            Slash::Divides => None,
            Slash::Begins => {
                *self = regex;
                None
            }
            Slash::Either => Some(regex),
        }
    }
}

fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// Tells of each line whether it begins outside of strings, templates and block comments, however the text can be read to its
/// end.
pub(super) fn outside(text: &str) -> Vec<bool> {
    let text = text.replace("\r\n", "\n");
    let lines: Vec<&str> = text.split('\n').collect();
    let begin = Reading { open: Vec::new(), inside: In::Code, slash: Slash::Begins, name: String::new(), skips: false };
    // Each with what it says of the lines so far.
    let mut readings = vec![(begin, Vec::new())];
    for (number, line) in lines.iter().enumerate() {
        for (reading, outside) in &mut readings {
            outside.push(reading.is_code());
        }
        if number == 0 && line.starts_with("#!") {
            continue;
        }
        let end = (number + 1 < lines.len()).then_some('\n');
        let mut characters = line.chars().chain(end).enumerate().peekable();
        while let Some((at, c)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            // In scripts, and in no modules, these begin comments.
            let is_mark = matches!((c, next), ('<', Some('!')) | ('-', Some('-')))
                && ["<!--", "-->"].iter().any(|mark| line.chars().skip(at).take(mark.len()).eq(mark.chars()));
            if is_mark && readings.iter().any(|(reading, _)| reading.is_code()) {
                return vec![false; lines.len()];
            }
            let mut others = Vec::new();
            readings.retain_mut(|(reading, outside)| match reading.read(c, next) {
                Ok(other) => {
                    others.extend(other.map(|other| (other, outside.clone())));
                    true
                }
                Err(()) => false,
            });
            readings.extend(others);
            if readings.len() > MOST {
                return vec![false; lines.len()];
            }
        }
        readings = merged(readings);
    }
    readings.retain(|(reading, _)| reading.open.is_empty() && matches!(reading.inside, In::Code | In::Comment));
    let is_outside = |line: usize| !readings.is_empty() && readings.iter().all(|(_, outside)| outside[line]);
    (0..lines.len()).map(is_outside).collect()
}

/// Makes one of those that go on in the same way: what both say of a line holds.
fn merged(readings: Vec<(Reading, Vec<bool>)>) -> Vec<(Reading, Vec<bool>)> {
    let mut different: Vec<(Reading, Vec<bool>)> = Vec::new();
    for (reading, outside) in readings {
        match different.iter_mut().find(|(known, _)| *known == reading) {
            Some((_, known)) => known.iter_mut().zip(outside).for_each(|(known, more)| *known &= more),
            None => different.push((reading, outside)),
        }
    }
    different
}
