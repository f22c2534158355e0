//! Represents the words of a simple command as the rules see them.

/// A word of a simple command after quote removal and expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The decoded text; empty where nothing of it is known.
    pub text: String,
    /// Whether `text` is exactly what the program gets. `false`: it holds the output of a substitution, or words that
    /// `xargs` adds.
    pub literal: bool,
}

impl Word {
    /// A word whose text is known.
    pub fn literal(text: impl Into<String>) -> Word {
        Word { text: text.into(), literal: true }
    }

    /// The word that `<( … )` becomes: a path to read from, whose contents come from commands judged on their own.
    pub fn process() -> Word {
        Word { text: "/dev/fd/63".to_owned(), literal: false }
    }

    /// Tells whether this is a `<( … )`: reading it is free, writing it, or running it as a program text, is not.
    pub fn is_process(&self) -> bool {
        *self == Word::process()
    }
}

/// What is on a command's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the run gives none.
    Empty,
    /// The output of another command.
    Pipe,
    /// Text in the command itself, in which a compiler finds no directive, attribute or line of assembler.
    Plain,
    /// A file whose reading is judged.
    File,
    /// A here-document, or another descriptor.
    Data,
    /// The program that starts this one has read it: nothing is left.
    Taken,
}

impl Stdin {
    /// What text in the command itself is.
    pub(crate) fn of_text(text: &str) -> Stdin {
        if is_plain_code(text) { Stdin::Plain } else { Stdin::Data }
    }
}

/// Tells whether C and C++ read nothing else for this text: `asm` may name a file, and so may the name of a section.
pub(super) fn is_plain_code(text: &str) -> bool {
    let marks = [
        "#",
        "%",
        "??",
        "\\",
        "asm",
        "_Pragma",
        "attribute",
        "declspec",
        "gnu",
        "clang",
        "import",
        "include",
        "embed",
        "module",
    ];
    let text = text.replace("\\n", " ");
    !marks.iter().any(|mark| text.contains(mark))
}
