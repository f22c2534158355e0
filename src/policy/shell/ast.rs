//! Defines the syntax tree of a command, which the parser builds, the judge decides on, and the printer writes.
//!
//! Quoting is normalised while parsing: `'a'`, `\a`, `"a"` and `$'a'` are all [`Part::Quoted`]. Texts that bash cannot
//! tell apart therefore mostly have one tree, and printing a tree and parsing it again gives the same tree.

/// Statements in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// One entry for each statement, however they were separated.
    pub statements: Vec<AndOr>,
}

/// Pipelines joined by `&&` and `||`, which bind equally and from the left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AndOr {
    /// The first pipeline.
    pub first: Pipeline,
    /// The others, each with what is before it.
    pub rest: Vec<(Join, Pipeline)>,
}

/// What joins two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// `&&`
    And,
    /// `||`
    Or,
}

/// Commands joined by pipes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// The keyword `time` before it, if any.
    pub time: Option<Time>,
    /// `!` before it.
    pub negated: bool,
    /// The first command.
    pub first: Command,
    /// The others, each with the pipe before it.
    pub rest: Vec<(Pipe, Command)>,
}

/// The keyword `time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// `time`
    Plain,
    /// `time -p`
    Posix,
}

/// What joins two commands of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipe {
    /// `|`
    Output,
    /// `|&`
    OutputAndErrors,
}

/// One command of a pipeline, with its redirections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What it is.
    pub kind: Kind,
    /// Its redirections, in order.
    pub redirections: Vec<Redirection>,
}

/// The kinds of command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A program or builtin with its words.
    Simple(Simple),
    /// `( … )`
    Subshell(Script),
    /// `{ …; }`
    Group(Script),
    /// `if … then … elif … else … fi`
    If {
        /// Conditions, each with what follows if it holds.
        branches: Vec<(Script, Script)>,
        /// What follows if none holds.
        otherwise: Option<Script>,
    },
    /// `for NAME in WORDS; do … done`
    For {
        /// The variable.
        variable: String,
        /// The words before expansion.
        words: Vec<Word>,
        /// The body.
        body: Script,
    },
    /// `while … do … done`, or `until`.
    While {
        /// `until` instead of `while`.
        until: bool,
        /// The condition.
        condition: Script,
        /// The body.
        body: Script,
    },
    /// `case WORD in PATTERN) … ;; esac`
    Case {
        /// What is compared.
        subject: Word,
        /// The branches in order.
        arms: Vec<Arm>,
    },
    /// `[[ … ]]`
    Test(Test),
}

/// A branch of `case`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// Its patterns.
    pub patterns: Vec<Word>,
    /// What follows; may be empty.
    pub body: Script,
}

/// A simple command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simple {
    /// `NAME=value` before the words.
    pub assignments: Vec<(String, Word)>,
    /// The words, the command's name first.
    pub words: Vec<Word>,
}

/// An expression of `[[ ]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// `! x`
    Not(Box<Test>),
    /// `a && b`
    And(Box<Test>, Box<Test>),
    /// `a || b`
    Or(Box<Test>, Box<Test>),
    /// `( x )`
    Group(Box<Test>),
    /// A word alone: true if it is not empty.
    Word(Word),
    /// `-f x`
    Unary(String, Word),
    /// `a == b`; the right side of `=`, `==`, `!=` is a pattern, that of `=~` a regular expression.
    Binary(Word, String, Word),
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirection {
    /// `n< w`, `n> w`, `n>> w`, `n>| w`, `n<> w`
    File {
        /// The descriptor.
        descriptor: u8,
        /// How the file is opened.
        mode: Mode,
        /// The file's name.
        target: Word,
    },
    /// `&> w`, `&>> w`
    OutputAndErrors {
        /// `&>>`
        append: bool,
        /// The file's name.
        target: Word,
    },
    /// `n>&m` or `n<&m`
    Copy {
        /// The descriptor that changes.
        descriptor: u8,
        /// The direction as written: input or output.
        input: bool,
        /// The descriptor copied; `None` closes (`n>&-`).
        from: Option<u8>,
    },
    /// `n<<END`
    HereDocument {
        /// The descriptor.
        descriptor: u8,
        /// The text, without the tabs that `<<-` takes away.
        body: Vec<Piece>,
    },
    /// `n<<< w`
    HereString {
        /// The descriptor.
        descriptor: u8,
        /// The text, to which bash adds a newline.
        word: Word,
    },
}

/// How a redirection opens its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `<`
    Read,
    /// `>`
    Write,
    /// `>>`
    Append,
    /// `>|`
    Clobber,
    /// `<>`
    ReadWrite,
}

/// A word before expansion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Its parts: neither two plain nor two quoted ones are adjacent.
    pub parts: Vec<Part>,
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Unquoted text, in which braces, `~`, `*`, `?` and `[` may mean something.
    Plain(String),
    /// Text that stands for itself.
    Quoted(String),
    /// Double quotes that hold at least one expansion.
    Double(Vec<Piece>),
    /// A parameter outside quotes.
    Parameter(Parameter),
    /// `$( )` or backquotes outside quotes.
    Substitution(Script),
    /// `<( )`
    Process(Script),
    /// A path inside the workspace, as the judge resolved it: the root, wherever the tree is seen, and this text.
    Path(String),
    /// The text of `bash -c`, quoted, which names such paths.
    Text(Script),
}

/// A piece of double quotes or of a here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text that stands for itself.
    Text(String),
    /// A parameter.
    Parameter(Parameter),
    /// `$( )` or backquotes.
    Substitution(Script),
}

/// `$NAME`, `${NAME}` or `$?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The name, or `?`.
    pub name: String,
    /// Whether it is written with braces: `$a{b,c}` is not `${a}{b,c}`.
    pub braced: bool,
}

impl Word {
    /// Makes the word that stands for exactly this text.
    pub fn from_text(text: &str) -> Word {
        let mut word = Word::default();
        word.push_text(text);
        word
    }

    /// Adds text that stands for itself: unquoted where no shell could misread it.
    pub fn push_text(&mut self, text: &str) {
        let plain = !text.is_empty() && text.chars().all(is_safe);
        match (plain, self.parts.last_mut()) {
            (true, Some(Part::Plain(before))) => before.push_str(text),
            (true, None | Some(_)) => self.parts.push(Part::Plain(text.to_owned())),
            (false, _) => self.push_quoted(text),
        }
    }

    /// Adds quoted text, joining it to quoted text before it.
    pub(super) fn push_quoted(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Quoted(before)) => before.push_str(text),
            None | Some(_) => self.parts.push(Part::Quoted(text.to_owned())),
        }
    }

    /// Adds one unquoted character, joining it to plain text before it.
    pub(super) fn push_plain(&mut self, c: char) {
        match self.parts.last_mut() {
            Some(Part::Plain(before)) => before.push(c),
            None | Some(_) => self.parts.push(Part::Plain(c.to_string())),
        }
    }

    /// Returns the text if the word is one run of unquoted characters: what a reserved word or a number must be.
    pub fn as_plain(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Plain(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the text if nothing in the word is expanded but quotes (plain text is taken as it is).
    pub fn as_text(&self) -> Option<String> {
        let text = |part: &'_ Part| match part {
            Part::Plain(text) | Part::Quoted(text) => Some(text.clone()),
            Part::Path(_)
            | Part::Text(_)
            | Part::Double(_)
            | Part::Parameter(_)
            | Part::Substitution(_)
            | Part::Process(_) => None,
        };
        self.parts.iter().map(text).collect()
    }
}

/// Characters that mean nothing to any shell, wherever they are in an argument.
fn is_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '@' | '%' | '+' | ',' | '-' | '=')
}
