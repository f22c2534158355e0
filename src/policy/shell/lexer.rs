//! Reads text up to whole words: characters, quotes, expansions and here-documents.

use crate::hidden::is_hidden;
use crate::policy::decision::Denial;

use super::ast::{Parameter, Part, Piece, Script, Word};
use super::{ansi, arithmetic};

/// Maximum characters a command may have.
const LENGTH_CAP: usize = 256 * 1024;
/// Maximum constructs that may be inside each other.
const DEPTH_CAP: usize = 24;
/// Maximum words, parts and statements.
const NODE_CAP: usize = 20_000;

/// Reads one text from front to back.
pub(super) struct Reader {
    text: Vec<char>,
    pub(super) at: usize,
    depth: usize,
    nodes: usize,
    /// The end of the line that announced a here-document, and where the text continues after its body.
    here: Option<(usize, usize)>,
}

/// Characters that end an unquoted word.
fn is_meta(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}

pub(super) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub(super) fn unexpected(what: &str) -> Denial {
    Denial::unanalysable(format!("the command does not parse: {what}"))
}

/// What is after a `$`.
enum Dollar {
    Parameter(Parameter),
    Substitution(Script),
    Text(String),
}

/// The surroundings of a `$`, a backquote or a backslash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Word,
    DoubleQuotes,
    HereDocument,
}

impl Reader {
    pub(super) fn new(text: &str) -> Result<Reader, Denial> {
        if text.len() > LENGTH_CAP {
            return Err(Denial::unanalysable(format!("the command is longer than {LENGTH_CAP} bytes"))
                .hint("write long text with write_file"));
        }
        if let Some(c) = text.chars().find(|c| is_hidden(*c)) {
            return Err(Denial::unanalysable(format!(
                "the command contains the invisible character U+{:04X}",
                u32::from(c)
            )));
        }
        Ok(Reader { text: text.chars().collect(), at: 0, depth: 0, nodes: 0, here: None })
    }

    /// Goes one construct deeper for as long as `read` runs.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Reader) -> Result<T, Denial>) -> Result<T, Denial> {
        if self.depth >= DEPTH_CAP {
            return Err(Denial::unanalysable(format!("the command is nested deeper than {DEPTH_CAP}")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    pub(super) fn count(&mut self) -> Result<(), Denial> {
        self.nodes += 1;
        if self.nodes > NODE_CAP {
            return Err(Denial::unanalysable(format!("the command has more than {NODE_CAP} parts")));
        }
        Ok(())
    }

    /// Reads text that was taken out of this one, with the same caps.
    fn inner<T>(&mut self, text: Vec<char>, read: impl FnOnce(&mut Reader) -> Result<T, Denial>) -> Result<T, Denial> {
        let mut inner = Reader { text, at: 0, depth: self.depth, nodes: self.nodes, here: None };
        let result = inner.deeper(read);
        self.nodes = inner.nodes;
        result
    }

    /// Returns the place at or after `from` that is not a line continuation.
    fn joined(&self, mut from: usize) -> usize {
        while self.text.get(from) == Some(&'\\') && self.text.get(from + 1) == Some(&'\n') {
            from += 2;
        }
        from
    }

    /// Returns the next character outside quotes.
    pub(super) fn peek(&self) -> Option<char> {
        self.text.get(self.joined(self.at)).copied()
    }

    /// Takes the next character outside quotes; a newline also takes the here-documents that begin after it.
    pub(super) fn take(&mut self) -> Option<char> {
        let at = self.joined(self.at);
        let c = *self.text.get(at)?;
        match self.here {
            Some((line_end, after)) if at == line_end => {
                self.at = after;
                self.here = None;
            }
            Some(_) | None => self.at = at + 1,
        }
        Some(c)
    }

    /// Tells whether the next characters outside quotes are these.
    pub(super) fn looking_at(&self, text: &str) -> bool {
        self.after(text).is_some()
    }

    fn after(&self, text: &str) -> Option<usize> {
        let mut at = self.at;
        for c in text.chars() {
            at = self.joined(at);
            if self.text.get(at) != Some(&c) {
                return None;
            }
            at += 1;
        }
        Some(at)
    }

    /// Takes these characters if they are next; never used for a newline.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        match self.after(text) {
            Some(at) => {
                self.at = at;
                true
            }
            None => false,
        }
    }

    /// Skips spaces and a comment.
    pub(super) fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.take();
        }
        if self.peek() == Some('#') {
            self.at = self.joined(self.at);
            while self.text.get(self.at).is_some_and(|c| *c != '\n') {
                self.at += 1;
            }
        }
    }

    /// Skips spaces, comments and newlines.
    pub(super) fn skip_lines(&mut self) {
        self.skip_blanks();
        while self.peek() == Some('\n') {
            self.take();
            self.skip_blanks();
        }
    }

    /// Returns the unquoted word that is next, and where it ends, if quotes and expansions have no part in it.
    pub(super) fn peek_plain(&self) -> Option<(String, usize)> {
        let mut word = String::new();
        let mut at = self.joined(self.at);
        while let Some(c) = self.text.get(at) {
            if is_meta(*c) {
                break;
            }
            if matches!(c, '\'' | '"' | '`' | '$' | '\\') || word.len() > 64 {
                return None;
            }
            word.push(*c);
            at = self.joined(at + 1);
        }
        (!word.is_empty()).then_some((word, at))
    }

    /// Tells whether a word can begin here.
    pub(super) fn at_word(&self) -> bool {
        self.peek().is_some_and(|c| !is_meta(c)) || self.looking_at("<(") || self.looking_at(">(")
    }

    /// Reads a word; the caller has seen that one begins.
    pub(super) fn word(&mut self) -> Result<Word, Denial> {
        self.count()?;
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '<' if self.looking_at("<(") => {
                    self.eat("<");
                    let script = self.parenthesised()?;
                    word.parts.push(Part::Process(script));
                }
                '>' if self.looking_at(">(") => {
                    return Err(Denial::unanalysable("`>( )` is not understood").hint("use a pipe"));
                }
                c if is_meta(c) => break,
                '$' => {
                    self.take();
                    match self.dollar(Place::Word)? {
                        Dollar::Parameter(parameter) => word.parts.push(Part::Parameter(parameter)),
                        Dollar::Substitution(script) => word.parts.push(Part::Substitution(script)),
                        Dollar::Text(text) => word.push_quoted(&text),
                    }
                }
                '`' => {
                    self.take();
                    let script = self.backquotes(Place::Word)?;
                    word.parts.push(Part::Substitution(script));
                }
                '\\' | '\'' | '"' => self.quoted(&mut word)?,
                c => {
                    self.plain(c)?;
                    word.push_plain(c);
                }
            }
        }
        if word.parts.is_empty() {
            return Err(unexpected("a word is missing"));
        }
        Ok(word)
    }

    /// Takes an unquoted character that has no meaning in quoting.
    fn plain(&mut self, c: char) -> Result<(), Denial> {
        if c.is_whitespace() {
            let code = u32::from(c);
            return Err(Denial::unanalysable(format!("U+{code:04X} looks like a space but does not separate words")));
        }
        self.take();
        Ok(())
    }

    /// Reads one backslash, `'…'` or `"…"` into a word.
    fn quoted(&mut self, word: &mut Word) -> Result<(), Denial> {
        self.count()?;
        match self.take() {
            Some('\\') => match self.text.get(self.at).copied() {
                Some(c) => {
                    self.at += 1;
                    word.push_quoted(c.encode_utf8(&mut [0; 4]));
                }
                None => return Err(unexpected("it ends in a backslash")),
            },
            Some('\'') => {
                let text = self.until_quote(false)?;
                word.push_quoted(&text);
            }
            _ => {
                let pieces = self.deeper(|reader| reader.pieces(Place::DoubleQuotes))?;
                match pieces.as_slice() {
                    [] => word.push_quoted(""),
                    [Piece::Text(text)] => word.push_quoted(text),
                    _ => word.parts.push(Part::Double(pieces)),
                }
            }
        }
        Ok(())
    }

    /// Reads to the closing `'`; in `$'…'` a backslash protects it.
    fn until_quote(&mut self, escapes: bool) -> Result<String, Denial> {
        let mut text = String::new();
        loop {
            let Some(c) = self.text.get(self.at).copied() else { return Err(unexpected("a `'` is not closed")) };
            self.refuse_newline(c)?;
            self.at += 1;
            match c {
                '\'' => return Ok(text),
                '\\' if escapes => {
                    text.push(c);
                    let Some(next) = self.text.get(self.at) else { return Err(unexpected("a `'` is not closed")) };
                    text.push(*next);
                    self.at += 1;
                }
                c => text.push(c),
            }
        }
    }

    /// A newline in quotes between `<<END` and its text would leave it unclear where the text begins.
    fn refuse_newline(&self, c: char) -> Result<(), Denial> {
        if c == '\n' && self.here.is_some() {
            return Err(Denial::unanalysable("a line break in quotes on the line of a here-document")
                .hint("put the here-document on the last line of the command"));
        }
        Ok(())
    }

    /// Reads the inside of double quotes and the closing one, or a here-document to its end.
    fn pieces(&mut self, place: Place) -> Result<Vec<Piece>, Denial> {
        let mut pieces: Vec<Piece> = Vec::new();
        let push = |pieces: &mut Vec<Piece>, text: &str| match pieces.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            None | Some(_) => pieces.push(Piece::Text(text.to_owned())),
        };
        loop {
            let Some(c) = self.text.get(self.at).copied() else {
                return match place {
                    Place::HereDocument => Ok(pieces),
                    Place::DoubleQuotes | Place::Word => Err(unexpected("a `\"` is not closed")),
                };
            };
            self.refuse_newline(c)?;
            self.at += 1;
            match c {
                '"' if place != Place::HereDocument => return Ok(pieces),
                '\\' => match self.text.get(self.at).copied() {
                    Some('\n') => {
                        self.refuse_newline('\n')?;
                        self.at += 1;
                    }
                    Some(next @ ('$' | '`' | '\\')) => {
                        self.at += 1;
                        push(&mut pieces, next.encode_utf8(&mut [0; 4]));
                    }
                    Some('"') if place != Place::HereDocument => {
                        self.at += 1;
                        push(&mut pieces, "\"");
                    }
                    Some(_) | None => push(&mut pieces, "\\"),
                },
                '$' => {
                    self.count()?;
                    match self.dollar(place)? {
                        Dollar::Parameter(parameter) => pieces.push(Piece::Parameter(parameter)),
                        Dollar::Substitution(script) => pieces.push(Piece::Substitution(script)),
                        Dollar::Text(text) => push(&mut pieces, &text),
                    }
                }
                '`' => {
                    self.count()?;
                    let script = self.backquotes(place)?;
                    pieces.push(Piece::Substitution(script));
                }
                c => push(&mut pieces, c.encode_utf8(&mut [0; 4])),
            }
        }
    }

    /// Reads what is after a `$`.
    fn dollar(&mut self, place: Place) -> Result<Dollar, Denial> {
        let denied = |what: String| {
            Err(Denial::unanalysable(format!("the value of {what} is not known"))
                .hint("write the value itself; only $HOME, $PWD, $? and variables of `for` are known"))
        };
        match self.peek() {
            Some('(') if self.looking_at("((") => {
                self.eat("((");
                Ok(Dollar::Text(self.arithmetic()?.to_string()))
            }
            Some('(') => Ok(Dollar::Substitution(self.parenthesised()?)),
            Some('{') => {
                self.eat("{");
                let mut name = String::new();
                while let Some(c) = self.peek().filter(|c| !is_meta(*c) && !matches!(c, '}' | '"' | '\'' | '`' | '$')) {
                    if name.len() > 64 {
                        break;
                    }
                    name.push(c);
                    self.take();
                }
                if (is_name(&name) || name == "?") && self.eat("}") {
                    return Ok(Dollar::Parameter(Parameter { name, braced: true }));
                }
                denied(format!("`${{{name}…}}`"))
            }
            Some('\'') if place == Place::Word => {
                self.eat("'");
                let raw = self.until_quote(true)?;
                Ok(Dollar::Text(ansi::decode(&raw)?))
            }
            Some('"') if place == Place::Word => Err(Denial::unanalysable("`$\"…\"` is not understood")),
            Some('[') => Err(Denial::unanalysable("`$[…]` is not understood").hint("write the number")),
            Some('?') => {
                self.eat("?");
                Ok(Dollar::Parameter(Parameter { name: "?".to_owned(), braced: false }))
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let mut name = String::new();
                while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                    self.take();
                }
                Ok(Dollar::Parameter(Parameter { name, braced: false }))
            }
            Some(c @ ('@' | '*' | '#' | '$' | '!' | '-' | '0'..='9')) => denied(format!("`${c}`")),
            // Brace expansion could put a name after it: `{$,x}HOME`.
            Some(c) if place == Place::Word && !is_meta(c) => {
                Err(Denial::unanalysable(format!("`$` before `{c}`")).hint("put the `$` in single quotes"))
            }
            Some(_) | None => Ok(Dollar::Text("$".to_owned())),
        }
    }

    /// Reads `( … )`.
    pub(super) fn parenthesised(&mut self) -> Result<Script, Denial> {
        if self.here.is_some() {
            return Err(Denial::unanalysable("a substitution or group after `<<` on the same line")
                .hint("put the here-document on the last line of the command"));
        }
        self.eat("(");
        let script = self.deeper(|reader| reader.list())?;
        if script.statements.is_empty() {
            return Err(unexpected("there is nothing between `(` and `)`"));
        }
        if self.here.is_some() || !self.eat(")") {
            return Err(unexpected("a `(` is not closed"));
        }
        Ok(script)
    }

    /// Reads to the closing backquote, and what is between as a script of its own.
    fn backquotes(&mut self, place: Place) -> Result<Script, Denial> {
        let mut inside = Vec::new();
        loop {
            let Some(c) = self.text.get(self.at).copied() else { return Err(unexpected("a backquote is not closed")) };
            self.refuse_newline(c)?;
            self.at += 1;
            match (c, self.text.get(self.at).copied()) {
                ('`', _) => break,
                ('\\', Some(next))
                    if matches!(next, '$' | '`' | '\\') || (next == '"' && place == Place::DoubleQuotes) =>
                {
                    inside.push(next);
                    self.at += 1;
                }
                (c, _) => inside.push(c),
            }
        }
        let script = self.inner(inside, Reader::script)?;
        if script.statements.is_empty() {
            return Err(unexpected("there is nothing between backquotes"));
        }
        Ok(script)
    }

    /// Reads to the closing `))`.
    fn arithmetic(&mut self) -> Result<i64, Denial> {
        let mut expression = String::new();
        let mut open = 0_usize;
        loop {
            match self.peek() {
                None | Some('\n') => return Err(unexpected("`$((` is not closed on its line")),
                Some(')') if open == 0 => break,
                Some(c) => {
                    match c {
                        '(' => open += 1,
                        ')' => open -= 1,
                        _ => {}
                    }
                    expression.push(c);
                    self.take();
                }
            }
        }
        if !self.eat("))") {
            return Err(Denial::unanalysable("`$((` that does not end in `))`"));
        }
        arithmetic::evaluate(&expression).map_err(|why| {
            Denial::unanalysable(format!("`$(({expression}))`: {why}")).hint("use numbers and operators only")
        })
    }

    /// Reads the right side of `=~`: parentheses and `|` belong to it.
    pub(super) fn regular_expression(&mut self) -> Result<Word, Denial> {
        self.count()?;
        let mut word = Word::default();
        let mut open = 0_usize;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' if open == 0 => break,
                ')' if open == 0 => break,
                ' ' | '\t' | '\n' | ';' | '&' | '<' | '>' | '`' => {
                    return Err(Denial::unanalysable(format!("`{c}` in a regular expression")).hint("put it in quotes"));
                }
                '\\' if self.text.get(self.joined(self.at) + 1).is_some_and(char::is_ascii_alphanumeric) => {
                    return Err(Denial::unanalysable("an escaped letter in a regular expression")
                        .hint("use classes such as [[:digit:]]"));
                }
                '\\' | '\'' | '"' => self.quoted(&mut word)?,
                '$' => {
                    self.take();
                    if !matches!(self.peek(), None | Some(' ' | '\t' | '\n' | ')' | '|')) {
                        return Err(Denial::unanalysable("an expansion in a regular expression"));
                    }
                    word.push_plain('$');
                }
                c => {
                    match c {
                        '(' => open += 1,
                        ')' => open -= 1,
                        _ => {}
                    }
                    self.plain(c)?;
                    word.push_plain(c);
                }
            }
        }
        if word.parts.is_empty() || open > 0 {
            return Err(unexpected("a regular expression is missing or not closed"));
        }
        Ok(word)
    }

    /// Reads the word after `<<` or `<<-`, and the text that begins after this line.
    pub(super) fn here_document(&mut self, tabs: bool) -> Result<Vec<Piece>, Denial> {
        self.skip_blanks();
        if !self.at_word() {
            return Err(unexpected("`<<` without a word"));
        }
        let word = self.word()?;
        let expands = !word.parts.iter().any(|part| matches!(part, Part::Quoted(_)));
        let end = word.as_text().filter(|end| !end.contains('\n'));
        let Some(end) = end else { return Err(Denial::unanalysable("the word after `<<` is not literal")) };
        let end: Vec<char> = end.chars().collect();
        let (line_end, mut at) = match self.here {
            Some(here) => here,
            None => {
                let Some(length) = self.text[self.at..].iter().position(|c| *c == '\n') else {
                    return Err(unexpected("a here-document has no text"));
                };
                (self.at + length, self.at + length + 1)
            }
        };
        if line_end > 0 && self.text[line_end - 1] == '\\' {
            return Err(Denial::unanalysable("a line with `<<` that continues after a backslash"));
        }
        let mut body = Vec::new();
        loop {
            let mut line = match self.text.get(at..) {
                None | Some([]) => return Err(unexpected("a here-document does not end")),
                Some(rest) => rest.split(|c| *c == '\n').next().unwrap_or(rest),
            };
            at += line.len() + 1;
            while tabs && line.first() == Some(&'\t') {
                line = &line[1..];
            }
            if line == end.as_slice() {
                break;
            }
            if expands && line.iter().rev().take_while(|c| **c == '\\').count() % 2 == 1 {
                return Err(Denial::unanalysable("a here-document line that ends in a backslash")
                    .hint("quote the word after `<<`"));
            }
            body.extend_from_slice(line);
            body.push('\n');
        }
        self.here = Some((line_end, at.min(self.text.len())));
        if expands {
            return self.inner(body, |reader| reader.pieces(Place::HereDocument));
        }
        let body: String = body.into_iter().collect();
        Ok(if body.is_empty() { Vec::new() } else { vec![Piece::Text(body)] })
    }
}
