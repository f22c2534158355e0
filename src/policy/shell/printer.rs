//! Prints a tree as text that bash, and this parser, read as exactly that tree.

use crate::hidden::is_hidden;

use super::ansi;
use super::ast::{
    AndOr, Arm, Command, Join, Kind, Mode, Part, Piece, Pipe, Pipeline, Redirection, Script, Simple, Test, Time, Word,
};

/// Prints a script that names no path of the workspace.
pub fn print(script: &Script) -> String {
    print_at(script, "")
}

/// Returns the text of a word as [`Word::as_text`] does, with paths of the workspace below `root`.
pub(super) fn text_at(word: &Word, root: &str) -> Option<String> {
    let mut text = String::new();
    for part in &word.parts {
        match part {
            Part::Plain(t) | Part::Quoted(t) => text.push_str(t),
            Part::Path(rest) => text.extend([root, rest]),
            Part::Text(script) => text.push_str(&print_at(script, root)),
            Part::Double(_) | Part::Parameter(_) | Part::Substitution(_) | Part::Process(_) => return None,
        }
    }
    Some(text)
}

/// Prints a script for a workspace that is seen at `root`.
pub(super) fn print_at(script: &Script, root: &str) -> String {
    let mut printer = Printer { root, ..Printer::default() };
    printer.script(script);
    printer.out
}

/// Prints a word.
pub(super) fn print_word(word: &Word) -> String {
    let mut printer = Printer::default();
    printer.word(word);
    printer.out
}

#[derive(Default)]
struct Printer<'r> {
    /// The path at which commands see the workspace.
    root: &'r str,
    out: String,
    /// Texts of here-documents that begin after the next newline, each with its end mark.
    here: Vec<(String, String)>,
}

impl Printer<'_> {
    fn add(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn newline(&mut self) {
        self.out.push('\n');
        for (body, end) in std::mem::take(&mut self.here) {
            self.add(&body);
            self.add(&end);
            self.out.push('\n');
        }
    }

    fn script(&mut self, script: &Script) {
        for (at, statement) in script.statements.iter().enumerate() {
            if at > 0 {
                self.newline();
            }
            self.and_or(statement);
        }
        if !self.here.is_empty() {
            self.newline();
        }
    }

    /// Prints statements, each with a newline after it.
    fn lines(&mut self, script: &Script) {
        for statement in &script.statements {
            self.and_or(statement);
            self.newline();
        }
    }

    fn and_or(&mut self, statement: &AndOr) {
        self.pipeline(&statement.first);
        for (join, pipeline) in &statement.rest {
            self.add(match join {
                Join::And => " && ",
                Join::Or => " || ",
            });
            self.pipeline(pipeline);
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        match pipeline.time {
            Some(Time::Plain) => self.add("time "),
            Some(Time::Posix) => self.add("time -p "),
            None => {}
        }
        if pipeline.negated {
            self.add("! ");
        }
        self.command(&pipeline.first);
        for (pipe, command) in &pipeline.rest {
            self.add(match pipe {
                Pipe::Output => " | ",
                Pipe::OutputAndErrors => " |& ",
            });
            self.command(command);
        }
    }

    fn command(&mut self, command: &Command) {
        let start = self.out.len();
        match &command.kind {
            Kind::Simple(simple) => self.simple(simple),
            Kind::Subshell(script) => {
                self.add("( ");
                self.lines(script);
                self.add(")");
            }
            Kind::Group(script) => {
                self.add("{ ");
                self.lines(script);
                self.add("}");
            }
            Kind::If { branches, otherwise } => self.branches(branches, otherwise.as_ref()),
            Kind::For { variable, words, body } => {
                self.add("for ");
                self.add(variable);
                self.add(" in");
                for word in words {
                    self.add(" ");
                    self.word(word);
                }
                self.newline();
                self.add("do ");
                self.lines(body);
                self.add("done");
            }
            Kind::While { until, condition, body } => {
                self.add(if *until { "until " } else { "while " });
                self.lines(condition);
                self.add("do ");
                self.lines(body);
                self.add("done");
            }
            Kind::Case { subject, arms } => self.case(subject, arms),
            Kind::Test(test) => {
                self.add("[[ ");
                self.test(test);
                self.add(" ]]");
            }
        }
        for redirection in &command.redirections {
            if self.out.len() > start {
                self.add(" ");
            }
            self.redirection(redirection);
        }
    }

    fn branches(&mut self, branches: &[(Script, Script)], otherwise: Option<&Script>) {
        for (at, (condition, body)) in branches.iter().enumerate() {
            self.add(if at == 0 { "if " } else { "elif " });
            self.lines(condition);
            self.add("then ");
            self.lines(body);
        }
        if let Some(otherwise) = otherwise {
            self.add("else ");
            self.lines(otherwise);
        }
        self.add("fi");
    }

    fn case(&mut self, subject: &Word, arms: &[Arm]) {
        self.add("case ");
        self.word(subject);
        self.add(" in");
        self.newline();
        for arm in arms {
            for (at, pattern) in arm.patterns.iter().enumerate() {
                self.add(if at == 0 { "(" } else { "|" });
                self.word(pattern);
            }
            self.add(")");
            self.newline();
            self.lines(&arm.body);
            self.add(";;");
            self.newline();
        }
        self.add("esac");
    }

    fn simple(&mut self, simple: &Simple) {
        let mut first = true;
        for (name, value) in &simple.assignments {
            if !std::mem::take(&mut first) {
                self.add(" ");
            }
            self.add(name);
            self.add("=");
            self.word(value);
        }
        for word in &simple.words {
            if !std::mem::take(&mut first) {
                self.add(" ");
            }
            self.word(word);
        }
    }

    fn test(&mut self, test: &Test) {
        match test {
            Test::Not(inside) => {
                self.add("! ");
                self.test(inside);
            }
            Test::And(left, right) => {
                self.test(left);
                self.add(" && ");
                self.test(right);
            }
            Test::Or(left, right) => {
                self.test(left);
                self.add(" || ");
                self.test(right);
            }
            Test::Group(inside) => {
                self.add("( ");
                self.test(inside);
                self.add(" )");
            }
            Test::Word(word) => self.word(word),
            Test::Unary(operator, word) => {
                self.add(operator);
                self.add(" ");
                self.word(word);
            }
            Test::Binary(left, operator, right) => {
                self.word(left);
                self.add(" ");
                self.add(operator);
                self.add(" ");
                self.word(right);
            }
        }
    }

    fn redirection(&mut self, redirection: &Redirection) {
        let number = |descriptor: u8, default: u8| {
            if descriptor == default { String::new() } else { descriptor.to_string() }
        };
        match redirection {
            Redirection::File { descriptor, mode, target } => {
                let (default, arrow) = match mode {
                    Mode::Read => (0, "< "),
                    Mode::Write => (1, "> "),
                    Mode::Append => (1, ">> "),
                    Mode::Clobber => (1, ">| "),
                    Mode::ReadWrite => (0, "<> "),
                };
                self.add(&number(*descriptor, default));
                self.add(arrow);
                self.word(target);
            }
            Redirection::OutputAndErrors { append, target } => {
                self.add(if *append { "&>> " } else { "&> " });
                self.word(target);
            }
            Redirection::Copy { descriptor, input, from } => {
                self.add(&number(*descriptor, u8::from(!*input)));
                self.add(if *input { "<&" } else { ">&" });
                self.add(&from.map_or_else(|| "-".to_owned(), |from| from.to_string()));
            }
            Redirection::HereDocument { descriptor, body } => {
                let literal = body.iter().all(|piece| matches!(piece, Piece::Text(_)));
                let mut printed = Printer { root: self.root, ..Printer::default() };
                for piece in body {
                    match piece {
                        Piece::Text(text) if literal => printed.add(text),
                        Piece::Text(text) => printed.escaped(text, &['$', '`', '\\']),
                        Piece::Parameter(_) | Piece::Substitution(_) => printed.piece(piece),
                    }
                }
                let end = (0_usize..)
                    .map(|n| if n == 0 { "EOF".to_owned() } else { format!("EOF_{n}") })
                    .find(|end| printed.out.split('\n').all(|line| line != end))
                    .unwrap_or_default();
                self.add(&number(*descriptor, 0));
                self.add(&if literal { format!("<<'{end}'") } else { format!("<<{end}") });
                self.here.push((printed.out, end));
            }
            Redirection::HereString { descriptor, word } => {
                self.add(&number(*descriptor, 0));
                self.add("<<< ");
                self.word(word);
            }
        }
    }

    fn word(&mut self, word: &Word) {
        for part in &word.parts {
            match part {
                Part::Plain(text) => self.add(text),
                Part::Quoted(text) => self.quoted(text),
                Part::Double(pieces) => {
                    self.add("\"");
                    for piece in pieces {
                        match piece {
                            Piece::Text(text) => self.escaped(text, &['$', '`', '\\', '"']),
                            Piece::Parameter(_) | Piece::Substitution(_) => self.piece(piece),
                        }
                    }
                    self.add("\"");
                }
                Part::Parameter(parameter) => self.piece(&Piece::Parameter(parameter.clone())),
                Part::Substitution(script) => self.substitution("$(", script),
                Part::Process(script) => self.substitution("<(", script),
                Part::Path(rest) => self.literal(&format!("{}{rest}", self.root)),
                Part::Text(script) => self.literal(&print_at(script, self.root)),
            }
        }
    }

    fn literal(&mut self, text: &str) {
        self.word(&Word::from_text(text));
    }

    fn quoted(&mut self, text: &str) {
        if text.chars().any(|c| c == '\n' || is_hidden(c)) {
            ansi::encode(text, &mut self.out);
            return;
        }
        self.add("'");
        self.add(&text.replace('\'', "'\\''"));
        self.add("'");
    }

    fn escaped(&mut self, text: &str, special: &[char]) {
        for c in text.chars() {
            if special.contains(&c) {
                self.out.push('\\');
            }
            self.out.push(c);
        }
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Text(text) => self.add(text),
            Piece::Parameter(parameter) if parameter.braced => self.add(&format!("${{{}}}", parameter.name)),
            Piece::Parameter(parameter) => self.add(&format!("${}", parameter.name)),
            Piece::Substitution(script) => self.substitution("$(", script),
        }
    }

    fn substitution(&mut self, open: &str, script: &Script) {
        let mut inside = Printer { root: self.root, ..Printer::default() };
        inside.script(script);
        self.add(open);
        if inside.out.starts_with('(') {
            self.add(" ");
        }
        self.add(&inside.out);
        self.add(")");
    }
}
