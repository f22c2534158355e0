//! Describes what a command would do to files, as derived from its parsed words.

/// A pattern among a program's own options, as that program reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// The name of a file; no braces (`grep --exclude`).
    File(String),
    /// The name of a directory; no braces (`grep --exclude-dir`).
    Directory(String),
    /// The name of either; no braces (`diff -x`).
    Name(String),
    /// The end of a path, `*` matching slashes as well; no braces (`tar --exclude`).
    PathEnd(String),
    /// As ignore files have it, with braces (`rg -g`).
    Ignore(String),
}

/// One effect of a command on a path. The text is the decoded operand, relative to the command's directory or absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The contents of one file are read.
    Read(String),
    /// Contents below a directory are read (or of the one file, if it is one).
    ReadTree {
        /// The directory or file.
        path: String,
        /// Whether links below it are followed (`grep -R`, `cp -L`).
        follow_links: bool,
        /// What the program's own options leave out (`--exclude=…`, `-g '!…'`).
        left_out: Vec<Pattern>,
        /// Files to which the program's own options keep (`--include=…`); empty: all.
        only: Vec<Pattern>,
        /// The program leaves out hidden and ignored files by itself (`rg` without `--hidden`, `git grep`).
        skips_hidden: bool,
    },
    /// Only names and metadata are read (`ls`, `find`, `stat`).
    List(String),
    /// A file is created or changed.
    Write(String),
    /// Everything below a directory may be created or changed (`tar -x -C DIR`).
    WriteTree(String),
    /// A file or empty directory is removed.
    Delete(String),
    /// A directory and everything below it is removed.
    DeleteTree(String),
    /// The command's directory becomes this one (`cd`, `git -C`).
    Enter(String),
}

impl Effect {
    /// A recursive read that leaves nothing out.
    pub(crate) fn tree(path: &str, follow_links: bool) -> Effect {
        Effect::ReadTree {
            path: path.to_owned(),
            follow_links,
            left_out: Vec::new(),
            only: Vec::new(),
            skips_hidden: false,
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &str {
        match self {
            Effect::Read(path) | Effect::ReadTree { path, .. } | Effect::List(path) | Effect::Enter(path) => path,
            Effect::Write(path) | Effect::WriteTree(path) | Effect::Delete(path) | Effect::DeleteTree(path) => path,
        }
    }
}
