//! Reads JavaScript in every way in which it can be read: whether a slash divides or begins a regular expression depends on
//! what is before it, and a quote in a regular expression begins nothing.

/// Ways to read a text that are followed at once; a text with more of them is not read.
const MOST: usize = 64;

/// Templates and code in them that are open at once; a text with more of them is not read.
const MOST_OPEN: usize = 100;

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

    /// Tells whether programs that read JavaScript go on in different ways here. `last_tag` is where the last tag of JSX may end.
    fn is_unsure(&self, text: &str, at: usize, last_tag: Option<usize>) -> bool {
        if self.open.len() > MOST_OPEN {
            return true;
        }
        if !self.is_code() || self.skips {
            return false;
        }
        let rest = &text[at..];
        // In scripts, and in no modules, these begin comments.
        ["<!--", "-->"].iter().any(|mark| rest.starts_with(mark))
            || rest.starts_with(is_disputed)
            || last_tag.is_some_and(|last| at <= last) && self.may_be_jsx(rest)
    }

    /// Tells whether a tag of JSX may begin or end a text. Behind a value `<` compares.
    fn may_be_jsx(&self, rest: &str) -> bool {
        let divides = self.slash == Slash::Divides;
        rest.starts_with("</")
            || divides && rest.starts_with("/>")
            || !divides && rest.strip_prefix('<').is_some_and(begins_tag)
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
        if is_name(c) {
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
            c if is_space(c) => {}
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

fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// Tells whether a character may be a part of a name. All signs have one byte.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$#\\".contains(c) || !c.is_ascii() && !is_space(c)
}

/// Tells whether a character is white space to some programs that read JavaScript, and none to others.
fn is_disputed(c: char) -> bool {
    let is_known = matches!(c, '\t' | '\n' | '\r' | '\u{b}' | '\u{c}');
    c.is_control() && !is_known || matches!(c, '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}')
}

/// Tells whether a text can be a tag of JSX without its `<`.
fn begins_tag(text: &str) -> bool {
    let mut rest = text.trim_start_matches(is_space);
    if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return false;
    }
    loop {
        let name = rest.find(|c| !is_name(c) && c != '-').unwrap_or(rest.len());
        rest = rest[name..].trim_start_matches(is_space);
        let behind = || rest[1..].trim_start_matches(is_space);
        match rest.chars().next() {
            Some('.' | ':') if name > 0 => rest = behind(),
            // The end of an empty element, or a comment.
            Some('/') => return name == 0 || behind().starts_with(['>', '/', '*']),
            Some('>') => return true,
            // An attribute, or types.
            Some(c) => return name > 0 && (is_name(c) || "{<".contains(c)),
            None => return false,
        }
    }
}

/// Returns where the last tag of JSX that ends an element is at the latest: `</` or `/>`, with white space or comments in it.
fn last_tag(text: &str) -> Option<usize> {
    let (mut last, mut before, mut is_apart) = (None, None, false);
    for (at, c) in text.char_indices() {
        if is_space(c) {
            is_apart = true;
            continue;
        }
        let is_end = match (before, c) {
            (Some('<'), '/') | (Some('/'), '>') => true,
            (Some('/'), '/') => is_apart,
            _ => false,
        };
        last = if is_end { Some(at) } else { last };
        (before, is_apart) = (Some(c), false);
    }
    last
}

/// What a reading says of a line, and what it said before.
#[derive(Debug)]
struct Step {
    line: usize,
    is_outside: bool,
    before: Vec<usize>,
}

/// Readings, each with the last steps that led to it.
type Readings = Vec<(Reading, Vec<usize>)>;

/// Tells of each line whether it begins outside of strings, templates and block comments, however the text can be read to its
/// end. `has_jsx`: the text may have JSX; where it may begin, nobody knows what is code.
pub(super) fn outside(text: &str, has_jsx: bool) -> Vec<bool> {
    let count = text.split('\n').count();
    let last_tag = if has_jsx { last_tag(text) } else { None };
    let mut steps = Vec::new();
    let mut outside = vec![true; count];
    let Some(readings) = read(text, last_tag, &mut steps).filter(|readings| !readings.is_empty()) else {
        return vec![false; count];
    };
    let mut counts = vec![false; steps.len()];
    readings.iter().flat_map(|(_, before)| before).for_each(|step| counts[*step] = true);
    for (at, step) in steps.iter().enumerate().rev() {
        if counts[at] {
            outside[step.line] &= step.is_outside;
            step.before.iter().for_each(|before| counts[*before] = true);
        }
    }
    outside
}

/// Reads a text; returns the readings that came to its end. `None` if it cannot be known how to read it.
fn read(text: &str, last_tag: Option<usize>, steps: &mut Vec<Step>) -> Option<Readings> {
    let is_program = text.trim_start_matches('\u{feff}').starts_with("#!");
    let inside = if is_program { In::Comment } else { In::Code };
    let begin = Reading { open: Vec::new(), inside, slash: Slash::Begins, name: String::new(), skips: false };
    let mut readings = vec![(begin, Vec::new())];
    let mut line = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        if readings.iter().any(|(reading, _)| reading.is_unsure(text, at, last_tag)) {
            return None;
        }
        let mut others = Vec::new();
        readings.retain_mut(|(reading, before)| match reading.read(c, next) {
            Ok(other) => {
                others.extend(other.map(|other| (other, before.clone())));
                true
            }
            Err(()) => false,
        });
        readings.extend(others);
        if readings.len() > MOST {
            return None;
        }
        if c == '\n' {
            line += 1;
            readings = merged(readings);
            note(line, &mut readings, steps);
        }
    }
    readings.retain(|(reading, _)| reading.open.is_empty() && matches!(reading.inside, In::Code | In::Comment));
    Some(readings)
}

/// Notes what the readings say of a line. That it is outside is only noted to have one step where there were several.
fn note(line: usize, readings: &mut Readings, steps: &mut Vec<Step>) {
    for (reading, before) in readings {
        let is_outside = reading.is_code();
        if !is_outside || before.len() > 1 {
            steps.push(Step { line, is_outside, before: std::mem::take(before) });
            before.push(steps.len() - 1);
        }
    }
}

/// Makes one of those that go on in the same way: what both say of a line holds.
fn merged(readings: Readings) -> Readings {
    let mut different: Readings = Vec::new();
    for (reading, before) in readings {
        match different.iter_mut().find(|(known, _)| *known == reading) {
            Some((_, known)) => {
                for step in before {
                    if !known.contains(&step) {
                        known.push(step);
                    }
                }
            }
            None => different.push((reading, before)),
        }
    }
    different
}

#[cfg(test)]
mod tests {
    use super::super::{Language, only_comments_differ};

    /// Tells whether a comment may be put before the last line of a text.
    fn may_add(path: &str, text: &str) -> bool {
        let language = super::super::language(path).unwrap();
        let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
        only_comments_differ(language, text, &format!("{before}\n// {{f(\"id\")}}\n{last}\n"))
    }

    #[test]
    fn a_text_that_may_have_jsx_has_no_comments() {
        for code in [
            "const a = (\n  <div>\n    Says so.\n  </div>\n);\n",
            "const a = <p>See http://x.y/ {f(`\necho\n#//`)}</p>;\n",
            "const a = <>a</>;\nc();\n",
            "const a = < p\n/ >;\nc();\n",
            "const a = </* a */p / /* b */ >;\nc();\n",
            "const a = b => <a.b-c d={e} / // f\n>;\nc();\n",
            "if (a) <p {...b}>c< /p>;\nc();\n",
            "x = `${<p>`\n}</p>}`;\nc();\n",
            "import 'a'\n<p>it's</p>\nc();\n",
        ] {
            assert!(!may_add("a.js", code), "{code}");
        }
        for code in [
            "for (let i = 0; i < n; i++) f(a() < b, (c) < d.e);\nc();\n",
            "const a = '<p>' + b() + `<p>${c < d}</p>`;\nc();\n",
            "if (a() < b && (c) << 2 > 1) d('</p>');\nc();\n",
            "a.replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/\\/>/, '/>');\nc();\n",
            "const f = (a) => a / 2;\nc();\n",
            "while (i++ < n) f(`<br/>`);\nc();\n",
        ] {
            assert!(may_add("a.js", code) && may_add("a.ts", code), "{code}");
        }
        for code in [
            "const a: Array<string> = <any>b;\nc();\n",
            "const f = <T,>(a: Map<string, T[]>) => x<y>(a);\nc('</p>');\n",
            "export async function* f<T extends A<B>>(): Promise<T> {}\nc();\n",
        ] {
            assert!(may_add("a.ts", code) && may_add("b/a.mts", code), "{code}");
        }
    }

    #[test]
    fn characters_above_ascii_are_parts_of_names() {
        for name in ["e\u{301}", "a\u{203f}", "a\u{200d}", "a\u{b7}", "\u{1d4d0}", "a\\u0301"] {
            let code = format!("const x = {name} /f(`/ 1\necho building\n# const y = {name} /`)/ 1;\n");
            assert!(!may_add("a.js", &code), "{code}");
            assert!(may_add("a.js", &format!("const {name} = a / {name} / 2;\nc();\n")), "{name}");
        }
        for code in [
            "x =\u{feff}/`/.test(a);\nc();\n//`\n",
            "\u{feff}#!/usr/bin/env node `\nc();\n",
            "#!/usr/bin/env node '\nc();\n",
        ] {
            assert!(may_add("a.js", code), "{code}");
        }
        for code in ["return\u{200b}/`/;\nc();\n", "#!a\rf(`\nb\n`)\n", "#!a\u{2028}f(`\nb\n`)\n"] {
            assert!(!may_add("a.ts", code), "{code}");
        }
        for added in ["///<reference path='a' />", "///  <amd-module />"] {
            assert!(!only_comments_differ(Language::TypeScript, "a();\n", &format!("{added}\na();\n")), "{added}");
        }
    }

    #[test]
    fn long_texts_are_read_in_time() {
        let long = [
            format!("a = '{}';\nc();\n", "-".repeat(200_000)),
            format!("{}c();\n", "(a) / 2 / 1;\n".repeat(20_000)),
            format!("a = b{};\nc();\n", "() < (a)".repeat(20_000)),
            format!("a = b{};\nc();\n", "() < a".repeat(20_000)),
        ];
        for code in long {
            assert!(may_add("a.js", &code));
        }
        assert!(!may_add("a.js", &format!("{}\nc();\n", "`${".repeat(100_000))));
    }
}
