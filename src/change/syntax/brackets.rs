//! Checks the balance of brackets and quotes in code.
//!
//! Knows only as much of each language as that needs, and says nothing where two ways of counting disagree: brackets
//! outside of strings and comments, and brackets wherever they are.

/// What of a language matters here.
struct Language {
    endings: &'static [&'static str],
    line_comment: Option<&'static str>,
    block_comment: bool,
    nested_comments: bool,
    /// The quotes of strings that end on their line, and of strings that need not.
    short: &'static [u8],
    long: &'static [u8],
    /// `"""` and, in Python, `'''`.
    triple: &'static [u8],
    /// A short string without an end is an apostrophe, such as in the text of a page.
    has_apostrophes: bool,
    /// Rust's raw strings, lifetimes and character literals.
    is_rust: bool,
    /// Templates and regular expressions.
    is_script: bool,
}

const PLAIN: Language = Language {
    endings: &[],
    line_comment: Some("//"),
    block_comment: true,
    nested_comments: false,
    short: b"\"'",
    long: b"",
    triple: b"",
    has_apostrophes: false,
    is_rust: false,
    is_script: false,
};

const LANGUAGES: &[Language] = &[
    Language { endings: &["rs"], nested_comments: true, short: b"", long: b"\"", is_rust: true, ..PLAIN },
    Language { endings: &["py", "pyi"], line_comment: Some("#"), block_comment: false, triple: b"\"'", ..PLAIN },
    Language {
        endings: &["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"],
        has_apostrophes: true,
        is_script: true,
        ..PLAIN
    },
    Language { endings: &["go"], long: b"`", ..PLAIN },
    Language { endings: &["java"], triple: b"\"", ..PLAIN },
    Language { endings: &["c", "h", "cc", "cpp", "cxx", "hpp"], ..PLAIN },
    Language { endings: &["css"], line_comment: None, has_apostrophes: true, ..PLAIN },
];

/// Returns where and what is out of balance after a change and was not before.
pub(super) fn broken(ending: &str, before: &str, after: &str) -> Option<(usize, String)> {
    let language = LANGUAGES.iter().find(|language| language.endings.contains(&ending))?;
    // Branches of the preprocessor may each open what only one closes.
    let has_branches = |text: &str| text.lines().any(|line| line.trim_start().starts_with("#if"));
    let is_c = language.endings.contains(&"c");
    if is_c && [before, after].iter().any(|text| has_branches(text) || text.contains("R\"")) {
        return None;
    }
    if Scan::new(before, language).run().is_err() {
        return None;
    }
    let problem = Scan::new(after, language).run().err()?;
    problem.is_counted(before, after).then_some((problem.at, problem.message))
}

/// What is out of balance.
struct Problem {
    at: usize,
    message: String,
    kind: Kind,
}

enum Kind {
    Bracket,
    Quote(u8),
    Comment,
}

impl Problem {
    /// Tells whether the plain count of signs changed as well.
    fn is_counted(&self, before: &str, after: &str) -> bool {
        let count = |text: &str, sign: &str| text.matches(sign).count();
        let excess = |text: &str, open: &str, close: &str| count(text, open).wrapping_sub(count(text, close));
        match self.kind {
            Kind::Bracket => {
                let pairs = [("(", ")"), ("[", "]"), ("{", "}")];
                pairs.iter().any(|(open, close)| excess(before, open, close) != excess(after, open, close))
            }
            Kind::Quote(quote) => {
                let quote = char::from(quote).to_string();
                count(before, &quote) % 2 != count(after, &quote) % 2
            }
            Kind::Comment => excess(before, "/*", "*/") != excess(after, "/*", "*/"),
        }
    }
}

/// One pass over a text.
struct Scan<'a> {
    text: &'a [u8],
    language: &'a Language,
    at: usize,
    /// What is open, and where; a template is `` ` `` and a place in one is `$`.
    open: Vec<(u8, usize)>,
    /// The last byte of code that is no space.
    last: u8,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str, language: &'a Language) -> Scan<'a> {
        Scan { text: text.as_bytes(), language, at: 0, open: Vec::new(), last: b';' }
    }

    fn run(mut self) -> Result<(), Problem> {
        while let Some(byte) = self.text.get(self.at).copied() {
            if matches!(self.open.last(), Some((b'`', _))) {
                self.template(byte);
                continue;
            }
            if self.comment()? || self.string(byte)? || self.pattern(byte) {
                continue;
            }
            self.bracket(byte)?;
            if !byte.is_ascii_whitespace() {
                self.last = byte;
            }
            self.at += 1;
        }
        match self.open.first() {
            Some((b'`', at)) => Err(problem(*at, "the template that begins here is never closed", Kind::Quote(b'`'))),
            Some((sign, at)) => {
                let sign = if *sign == b'$' { '{' } else { char::from(*sign) };
                Err(problem(*at, format!("`{sign}` is never closed"), Kind::Bracket))
            }
            None => Ok(()),
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn template(&mut self, byte: u8) {
        match byte {
            b'\\' => self.at += 2,
            b'`' => {
                self.open.pop();
                (self.at, self.last) = (self.at + 1, b'`');
            }
            b'$' if self.rest().starts_with(b"${") => {
                self.open.push((b'$', self.at + 1));
                (self.at, self.last) = (self.at + 2, b'{');
            }
            _ => self.at += 1,
        }
    }

    /// Steps over a comment.
    fn comment(&mut self) -> Result<bool, Problem> {
        let (rest, start) = (self.rest(), self.at);
        if self.language.line_comment.is_some_and(|mark| rest.starts_with(mark.as_bytes())) {
            self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            return Ok(true);
        }
        if !self.language.block_comment || !rest.starts_with(b"/*") {
            return Ok(false);
        }
        let mut depth = 0;
        loop {
            let rest = self.rest();
            if rest.starts_with(b"*/") {
                (self.at, depth) = (self.at + 2, depth - 1);
                if depth == 0 {
                    return Ok(true);
                }
            } else if rest.starts_with(b"/*") && (depth == 0 || self.language.nested_comments) {
                (self.at, depth) = (self.at + 2, depth + 1);
            } else if rest.is_empty() {
                return Err(problem(start, "the comment that begins here is never closed", Kind::Comment));
            } else {
                self.at += 1;
            }
        }
    }

    /// Steps over a string.
    fn string(&mut self, byte: u8) -> Result<bool, Problem> {
        let (language, start) = (self.language, self.at);
        let is = |quotes: &[u8]| quotes.contains(&byte);
        if language.is_script && byte == b'`' {
            self.open.push((b'`', start));
            self.at += 1;
            return Ok(true);
        }
        if language.is_rust && byte == b'\'' {
            self.at += self.character();
            self.last = b'\'';
            return Ok(true);
        }
        if is(language.triple) && self.rest().starts_with(&[byte; 3]) {
            self.at += 3;
            return self.until(&[byte; 3], true, start);
        }
        if is(language.long) {
            if let Some(hashes) = self.raw_hashes() {
                self.at += 1;
                let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
                return self.until(&end, false, start);
            }
            self.at += 1;
            return self.until(&[byte], byte != b'`', start);
        }
        if !is(language.short) {
            return Ok(false);
        }
        // `1'000` of C++.
        if byte == b'\'' && language.endings.contains(&"c") && self.last.is_ascii_hexdigit() {
            self.at += 1;
            return Ok(true);
        }
        match self.end_on_line(byte) {
            Some(end) => self.at = end,
            None if language.has_apostrophes => self.at += 1,
            None => {
                return Err(problem(start, "the string that begins here is not closed on its line", Kind::Quote(byte)));
            }
        }
        self.last = byte;
        Ok(true)
    }

    /// Continues after the end of a string that may have several lines.
    fn until(&mut self, end: &[u8], has_escapes: bool, start: usize) -> Result<bool, Problem> {
        loop {
            let rest = self.rest();
            if rest.starts_with(end) {
                self.at += end.len();
                self.last = end[0];
                return Ok(true);
            }
            match rest.first() {
                None => return Err(problem(start, "the string that begins here is never closed", Kind::Quote(end[0]))),
                Some(b'\\') if has_escapes => self.at = (self.at + 2).min(self.text.len()),
                Some(_) => self.at += 1,
            }
        }
    }

    /// Returns where a string ends that has to on this line.
    fn end_on_line(&self, quote: u8) -> Option<usize> {
        let mut at = self.at + 1;
        loop {
            match self.text.get(at)? {
                b'\\' if self.text[at..].starts_with(b"\\\r\n") => at += 3,
                b'\\' => at += 2,
                b'\n' => return None,
                byte if *byte == quote => return Some(at + 1),
                _ => at += 1,
            }
        }
    }

    /// Returns the number of `#` in front of a raw string's quote; `None` if it is no raw string.
    fn raw_hashes(&self) -> Option<usize> {
        let before = &self.text[..self.at];
        let hashes = before.iter().rev().take_while(|byte| **byte == b'#').count();
        let before = before[..before.len() - hashes].strip_suffix(b"r")?;
        let before = before.strip_suffix(b"b").or(before.strip_suffix(b"c")).unwrap_or(before);
        let is_word = before.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        (self.language.is_rust && !is_word).then_some(hashes)
    }

    /// Returns the length of a character literal, or 1 for the mark of a lifetime.
    fn character(&self) -> usize {
        const LONGEST: usize = 12;
        let rest = &self.rest()[1..];
        let skipped = match rest.first() {
            Some(b'\\') => 2,
            Some(byte) if byte.is_ascii() => 1,
            // Of as many bytes as its first says.
            Some(byte) => usize::try_from(byte.leading_ones()).unwrap_or(1),
            None => return 1,
        };
        let end = match rest.first() {
            Some(b'\\') => rest.iter().take(LONGEST).skip(skipped).position(|byte| *byte == b'\''),
            _ => (rest.get(skipped) == Some(&b'\'')).then_some(0),
        };
        end.map_or(1, |end| 1 + skipped + end + 1)
    }

    /// Steps over a regular expression of JavaScript.
    fn pattern(&mut self, byte: u8) -> bool {
        if !self.language.is_script || byte != b'/' {
            return false;
        }
        let before = self.text[..self.at].trim_ascii_end();
        let word = before.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let begins = b"(,=:[!&|?{};+-*%~^>".contains(&self.last)
            || [&b"return"[..], b"typeof", b"case", b"in", b"of", b"await", b"yield"]
                .contains(&&before[before.len() - word..]);
        let (mut at, mut in_class) = (self.at + 1, false);
        if !begins {
            return false;
        }
        loop {
            match self.text.get(at) {
                None | Some(b'\n') => return false,
                Some(b'\\') => at += 1,
                Some(b'[') => in_class = true,
                Some(b']') => in_class = false,
                Some(b'/') if !in_class => {
                    (self.at, self.last) = (at + 1, b'/');
                    return true;
                }
                Some(_) => {}
            }
            at += 1;
        }
    }

    fn bracket(&mut self, byte: u8) -> Result<(), Problem> {
        let opener = match byte {
            b'(' | b'[' | b'{' => {
                self.open.push((byte, self.at));
                return Ok(());
            }
            b')' => b'(',
            b']' => b'[',
            b'}' => b'{',
            _ => return Ok(()),
        };
        let shown = char::from(byte);
        match self.open.pop() {
            Some((open, _)) if open == opener || (open == b'$' && opener == b'{') => Ok(()),
            Some((open, at)) => {
                let open = if open == b'$' { '{' } else { char::from(open) };
                let line = self.text[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
                let message = format!("`{shown}` does not close the `{open}` of line {line}");
                Err(problem(self.at, message, Kind::Bracket))
            }
            None => Err(problem(self.at, format!("`{shown}` closes nothing"), Kind::Bracket)),
        }
    }
}

fn problem(at: usize, message: impl Into<String>, kind: Kind) -> Problem {
    Problem { at, message: message.into(), kind }
}
