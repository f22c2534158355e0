//! Parses text to statements.

use crate::policy::decision::Denial;

use super::ast::{
    AndOr, Arm, Command, Join, Kind, Mode, Part, Pipe, Pipeline, Redirection, Script, Simple, Test, Time, Word,
};
use super::lexer::{Reader, is_name, unexpected};

/// Parses a command; what is not understood is a denial that says what to write instead.
pub fn parse(text: &str) -> Result<Script, Denial> {
    Reader::new(text)?.script()
}

const RESERVED: [&str; 20] = [
    "if", "then", "elif", "else", "fi", "do", "done", "case", "esac", "while", "until", "for", "select", "function",
    "{", "}", "!", "[[", "time", "coproc",
];

/// Words at which a list of statements ends.
const ENDS: [&str; 8] = ["then", "elif", "else", "fi", "do", "done", "esac", "}"];

/// Tells whether a word means something else than itself where a command's name is.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || word == "in"
}

const UNARY: [&str; 26] = [
    "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-p", "-r", "-s", "-t", "-u", "-w", "-x", "-G", "-L", "-N",
    "-O", "-S", "-z", "-n", "-o", "-v", "-R",
];
const BINARY: [&str; 13] = ["=", "==", "!=", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];

impl Reader {
    /// Reads to the end of the text.
    pub(super) fn script(&mut self) -> Result<Script, Denial> {
        let script = self.list()?;
        match self.peek() {
            None => Ok(script),
            Some(_) => match self.reserved() {
                Some(word) => Err(unexpected(&format!("`{word}` is unexpected"))),
                None => Err(unexpected(&format!("`{}` is unexpected", self.peek().unwrap_or(' ')))),
            },
        }
    }

    fn reserved(&self) -> Option<&'static str> {
        let (word, _) = self.peek_plain()?;
        RESERVED.into_iter().find(|reserved| *reserved == word)
    }

    fn eat_word(&mut self, expected: &str) -> bool {
        match self.peek_plain() {
            Some((word, end)) if word == expected => {
                self.at = end;
                true
            }
            Some(_) | None => false,
        }
    }

    fn expect_word(&mut self, expected: &str) -> Result<(), Denial> {
        if self.eat_word(expected) { Ok(()) } else { Err(unexpected(&format!("`{expected}` is missing"))) }
    }

    /// Reads statements up to the end, `)`, `;;` or a word of [`ENDS`].
    pub(super) fn list(&mut self) -> Result<Script, Denial> {
        let mut script = Script::default();
        loop {
            self.skip_lines();
            let ends = matches!(self.peek(), None | Some(')')) || self.looking_at(";;") || self.looking_at(";&");
            if ends || self.reserved().is_some_and(|word| ENDS.contains(&word)) {
                return Ok(script);
            }
            let statement = self.and_or()?;
            let closed = is_closed(&statement);
            script.statements.push(statement);
            self.skip_blanks();
            match self.peek() {
                // A word that closes a compound command is seen directly after another one: `fi fi`, `) }`.
                Some(_) if closed && self.reserved().is_some_and(|word| ENDS.contains(&word)) => {}
                None | Some('\n' | ')') => {}
                Some(';') if self.looking_at(";;") || self.looking_at(";&") => {}
                Some(';') => {
                    self.eat(";");
                }
                Some('&') => {
                    return Err(Denial::unanalysable("background jobs (`&`) are not understood")
                        .hint("use the parameter is_background"));
                }
                Some(c) => return Err(unexpected(&format!("`{c}` is unexpected"))),
            }
        }
    }

    /// Reads a list that must not be empty.
    fn body(&mut self, of: &str) -> Result<Script, Denial> {
        let script = self.deeper(Reader::list)?;
        if script.statements.is_empty() {
            return Err(unexpected(&format!("nothing follows `{of}`")));
        }
        Ok(script)
    }

    fn and_or(&mut self) -> Result<AndOr, Denial> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.skip_blanks();
            let join = if self.eat("&&") {
                Join::And
            } else if self.eat("||") {
                Join::Or
            } else {
                return Ok(AndOr { first, rest });
            };
            self.skip_lines();
            rest.push((join, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline, Denial> {
        let (mut time, mut negated) = (None, false);
        loop {
            self.skip_blanks();
            if time.is_none() && self.eat_word("time") {
                self.skip_blanks();
                time = Some(if self.eat_word("-p") { Time::Posix } else { Time::Plain });
            } else if !negated && self.eat_word("!") {
                negated = true;
            } else {
                break;
            }
        }
        let first = self.command()?;
        let mut rest = Vec::new();
        loop {
            self.skip_blanks();
            if self.looking_at("||") {
                break;
            }
            let pipe = if self.eat("|&") {
                Pipe::OutputAndErrors
            } else if self.eat("|") {
                Pipe::Output
            } else {
                break;
            };
            self.skip_lines();
            rest.push((pipe, self.command()?));
        }
        Ok(Pipeline { time, negated, first, rest })
    }

    fn command(&mut self) -> Result<Command, Denial> {
        self.count()?;
        let kind = if self.looking_at("((") {
            return Err(Denial::unanalysable("`(( ))` is not understood").hint("use `[ ]`, or `( (` with a space"));
        } else if self.peek() == Some('(') {
            Kind::Subshell(self.parenthesised()?)
        } else {
            match self.reserved() {
                None => return self.simple(),
                Some(word) => {
                    self.eat_word(word);
                    self.compound(word)?
                }
            }
        };
        let mut redirections = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirection()? {
                Some(redirection) => redirections.push(redirection),
                None => return Ok(Command { kind, redirections }),
            }
        }
    }

    fn compound(&mut self, word: &'static str) -> Result<Kind, Denial> {
        match word {
            "{" => {
                let script = self.body("{")?;
                self.expect_word("}")?;
                Ok(Kind::Group(script))
            }
            "if" => {
                let mut branches = Vec::new();
                let mut otherwise = None;
                loop {
                    let condition = self.body("if")?;
                    self.expect_word("then")?;
                    branches.push((condition, self.body("then")?));
                    if self.eat_word("elif") {
                        continue;
                    }
                    if self.eat_word("else") {
                        otherwise = Some(self.body("else")?);
                    }
                    self.expect_word("fi")?;
                    return Ok(Kind::If { branches, otherwise });
                }
            }
            "while" | "until" => {
                let condition = self.body(word)?;
                self.expect_word("do")?;
                let body = self.body("do")?;
                self.expect_word("done")?;
                Ok(Kind::While { until: word == "until", condition, body })
            }
            "for" => self.for_loop(),
            "case" => self.case(),
            "[[" => {
                let test = self.deeper(Reader::test)?;
                self.expect_word("]]")?;
                Ok(Kind::Test(test))
            }
            "function" => Err(no_functions()),
            "select" | "coproc" => Err(Denial::unanalysable(format!("`{word}` is not understood"))),
            _ => Err(unexpected(&format!("`{word}` is unexpected"))),
        }
    }

    fn for_loop(&mut self) -> Result<Kind, Denial> {
        self.skip_blanks();
        if self.peek() == Some('(') {
            return Err(
                Denial::unanalysable("`for (( ))` is not understood").hint("write `for i in 1 2 3` or `{1..3}`")
            );
        }
        let Some((variable, end)) = self.peek_plain().filter(|(name, _)| is_name(name)) else {
            return Err(unexpected("`for` without a name"));
        };
        self.at = end;
        self.skip_lines();
        if !self.eat_word("in") {
            return Err(Denial::unanalysable("`for` without `in`"));
        }
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            if !self.at_word() {
                break;
            }
            words.push(self.word()?);
        }
        if !self.eat(";") && self.peek() != Some('\n') {
            return Err(unexpected("`do` is missing"));
        }
        self.skip_lines();
        self.expect_word("do")?;
        let body = self.body("do")?;
        self.expect_word("done")?;
        Ok(Kind::For { variable, words, body })
    }

    fn case(&mut self) -> Result<Kind, Denial> {
        self.skip_blanks();
        if !self.at_word() {
            return Err(unexpected("`case` without a word"));
        }
        let subject = self.word()?;
        self.skip_lines();
        self.expect_word("in")?;
        let mut arms = Vec::new();
        loop {
            self.skip_lines();
            if self.eat_word("esac") {
                return Ok(Kind::Case { subject, arms });
            }
            self.eat("(");
            let mut patterns = Vec::new();
            loop {
                self.skip_blanks();
                if !self.at_word() {
                    return Err(unexpected("a pattern of `case` is missing"));
                }
                patterns.push(self.word()?);
                self.skip_blanks();
                if !self.eat("|") {
                    break;
                }
            }
            if !self.eat(")") {
                return Err(unexpected("a pattern of `case` without `)`"));
            }
            let body = self.deeper(Reader::list)?;
            arms.push(Arm { patterns, body });
            if self.looking_at(";;&") || self.looking_at(";&") {
                return Err(Denial::unanalysable("`;&` and `;;&` are not understood").hint("end each branch with `;;`"));
            }
            if !self.eat(";;") {
                self.skip_lines();
                self.expect_word("esac")?;
                return Ok(Kind::Case { subject, arms });
            }
        }
    }

    /// Reads an expression of `[[ ]]`.
    fn test(&mut self) -> Result<Test, Denial> {
        let mut left = self.test_and()?;
        while self.next_in_test(|reader| reader.eat("||")) {
            left = Test::Or(Box::new(left), Box::new(self.test_and()?));
        }
        Ok(left)
    }

    fn test_and(&mut self) -> Result<Test, Denial> {
        let mut left = self.test_not()?;
        while self.next_in_test(|reader| reader.eat("&&")) {
            left = Test::And(Box::new(left), Box::new(self.test_not()?));
        }
        Ok(left)
    }

    fn next_in_test(&mut self, eat: impl FnOnce(&mut Reader) -> bool) -> bool {
        self.skip_lines();
        eat(self)
    }

    fn test_not(&mut self) -> Result<Test, Denial> {
        self.count()?;
        self.skip_lines();
        if self.eat_word("!") {
            return Ok(Test::Not(Box::new(self.deeper(Reader::test_not)?)));
        }
        if self.eat("(") {
            let inside = self.deeper(Reader::test)?;
            self.skip_lines();
            return if self.eat(")") { Ok(Test::Group(Box::new(inside))) } else { Err(unexpected("`(` in `[[ ]]`")) };
        }
        let first = self.test_word()?;
        self.skip_blanks();
        if let Some(operator) = first.as_plain().filter(|word| UNARY.contains(word)).map(str::to_owned) {
            if !self.at_word() {
                return Err(unexpected(&format!("`{operator}` in `[[ ]]` without a word")));
            }
            let operand = self.test_word()?;
            if operand.as_plain().is_some_and(|word| BINARY.contains(&word)) {
                return Err(unexpected(&format!("`{operator}` in `[[ ]]`")));
            }
            return Ok(Test::Unary(operator, operand));
        }
        for operator in ["<", ">"] {
            if self.eat(operator) {
                self.skip_blanks();
                return Ok(Test::Binary(first, operator.to_owned(), self.test_word()?));
            }
        }
        let operator = self.peek_plain().filter(|(word, _)| BINARY.contains(&word.as_str()));
        let Some((operator, end)) = operator else { return Ok(Test::Word(first)) };
        self.at = end;
        self.skip_blanks();
        let right = if operator == "=~" { self.regular_expression()? } else { self.test_word()? };
        Ok(Test::Binary(first, operator, right))
    }

    fn test_word(&mut self) -> Result<Word, Denial> {
        if !self.at_word() || self.peek_plain().is_some_and(|(word, _)| word == "]]") {
            return Err(unexpected("a word is missing in `[[ ]]`"));
        }
        self.word()
    }

    fn simple(&mut self) -> Result<Command, Denial> {
        let mut simple = Simple::default();
        let mut redirections = Vec::new();
        loop {
            self.skip_blanks();
            if let Some(redirection) = self.redirection()? {
                redirections.push(redirection);
                continue;
            }
            if !self.at_word() {
                break;
            }
            let reserved = simple.words.is_empty() && self.reserved().is_some();
            if reserved && !(simple.assignments.is_empty() && redirections.is_empty()) {
                return Err(unexpected("a word of the grammar after an assignment or redirection"));
            }
            let word = self.word()?;
            match assignment(&word).filter(|_| simple.words.is_empty()) {
                Some(Ok(assignment)) => simple.assignments.push(assignment),
                Some(Err(denial)) => return Err(denial),
                None => simple.words.push(word),
            }
        }
        if self.peek() == Some('(') {
            return Err(if simple.words.len() == 1 { no_functions() } else { unexpected("`(` is unexpected") });
        }
        if simple.words.is_empty() && redirections.is_empty() {
            if simple.assignments.is_empty() {
                return Err(match self.peek() {
                    Some('&') => unexpected("`&` is unexpected"),
                    Some(c) => unexpected(&format!("a command is missing before `{c}`")),
                    None => unexpected("a command is missing at its end"),
                });
            }
            let name = &simple.assignments[0].0;
            return Err(Denial::unanalysable(format!(
                "`{name}=…` without a command sets a variable that is not tracked"
            ))
            .hint("write the value where it is needed"));
        }
        Ok(Command { kind: Kind::Simple(simple), redirections })
    }

    /// Reads a redirection if one is next.
    fn redirection(&mut self) -> Result<Option<Redirection>, Denial> {
        if self.looking_at("&>") {
            let append = self.eat("&>>");
            let _ = append || self.eat("&>");
            return Ok(Some(Redirection::OutputAndErrors { append, target: self.target()? }));
        }
        let Some(digits) = self.descriptor()? else { return Ok(None) };
        if self.looking_at("<(") || self.looking_at(">(") {
            return Ok(None);
        }
        let file = |descriptor: u8, mode: Mode, target: Word| {
            Some(Redirection::File { descriptor: digits.unwrap_or(descriptor), mode, target })
        };
        Ok(if self.eat("<<<") {
            Some(Redirection::HereString { descriptor: digits.unwrap_or(0), word: self.target()? })
        } else if self.eat("<<-") {
            Some(Redirection::HereDocument { descriptor: digits.unwrap_or(0), body: self.here_document(true)? })
        } else if self.eat("<<") {
            Some(Redirection::HereDocument { descriptor: digits.unwrap_or(0), body: self.here_document(false)? })
        } else if self.eat("<&") {
            Some(self.copy(digits.unwrap_or(0), true)?)
        } else if self.eat("<>") {
            file(0, Mode::ReadWrite, self.target()?)
        } else if self.eat("<") {
            file(0, Mode::Read, self.target()?)
        } else if self.eat(">&") {
            self.skip_blanks();
            let copies = self.peek_plain().is_some_and(|(word, _)| word.trim_end_matches('-').parse::<u64>().is_ok())
                || self.looking_at("-");
            if copies || digits.is_some() {
                Some(self.copy(digits.unwrap_or(1), false)?)
            } else {
                Some(Redirection::OutputAndErrors { append: false, target: self.target()? })
            }
        } else if self.eat(">>") {
            file(1, Mode::Append, self.target()?)
        } else if self.eat(">|") {
            file(1, Mode::Clobber, self.target()?)
        } else if self.eat(">") {
            file(1, Mode::Write, self.target()?)
        } else {
            None
        })
    }

    // The number before an arrow, if there is one; `None`: what is next is not a redirection.
    fn descriptor(&mut self) -> Result<Option<Option<u8>>, Denial> {
        let Some((word, end)) = self.peek_plain() else { return Ok(Some(None)) };
        let before = std::mem::replace(&mut self.at, end);
        let is_arrow = matches!(self.peek(), Some('<' | '>'));
        if is_arrow && word.chars().all(|c| c.is_ascii_digit()) {
            if self.looking_at("<(") || self.looking_at(">(") {
                return Err(unexpected("`<(` directly after a number"));
            }
            let Ok(number @ 0..=9) = word.parse::<u8>() else {
                return Err(Denial::unanalysable(format!("the descriptor {word}")).hint("use 0 to 9"));
            };
            return Ok(Some(Some(number)));
        }
        if is_arrow && word.starts_with('{') && word.ends_with('}') {
            return Err(Denial::unanalysable("`{name}>` is not understood").hint("use a number"));
        }
        self.at = before;
        Ok(None)
    }

    fn target(&mut self) -> Result<Word, Denial> {
        self.skip_blanks();
        if self.at_word() { self.word() } else { Err(unexpected("a redirection without a name")) }
    }

    fn copy(&mut self, descriptor: u8, input: bool) -> Result<Redirection, Denial> {
        let word = self.target()?;
        let from = match word.as_plain() {
            Some("-") => None,
            Some(digit) if digit.len() == 1 => match digit.parse() {
                Ok(number) => Some(number),
                Err(_) => return Err(Denial::unanalysable("a copy of a descriptor that is not a number")),
            },
            Some(_) | None => {
                return Err(Denial::unanalysable("a copy of a descriptor that is not a number from 0 to 9"));
            }
        };
        Ok(Redirection::Copy { descriptor, input, from })
    }
}

/// Tells whether a statement ends with the closing word of a compound command.
fn is_closed(statement: &AndOr) -> bool {
    let pipeline = statement.rest.last().map_or(&statement.first, |(_, pipeline)| pipeline);
    let command = pipeline.rest.last().map_or(&pipeline.first, |(_, command)| command);
    !matches!(command.kind, Kind::Simple(_)) && command.redirections.is_empty()
}

fn no_functions() -> Denial {
    Denial::unanalysable("function definitions are not understood").hint("write the commands themselves")
}

/// Splits `NAME=value`; the error is for assignments that are not understood.
fn assignment(word: &Word) -> Option<Result<(String, Word), Denial>> {
    let Some(Part::Plain(first)) = word.parts.first() else { return None };
    let (name, value) = first.split_once('=')?;
    let bare = name.strip_suffix('+').unwrap_or(name);
    let bare = bare.split_once('[').map_or(bare, |(array, _)| array);
    if !is_name(bare) {
        return None;
    }
    if bare != name {
        return Some(Err(Denial::unanalysable(format!("the assignment `{name}=` is not understood"))));
    }
    let mut rest = Word::default();
    if !value.is_empty() {
        rest.parts.push(Part::Plain(value.to_owned()));
    }
    rest.parts.extend_from_slice(&word.parts[1..]);
    Some(Ok((name.to_owned(), rest)))
}
