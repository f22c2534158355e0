//! Keeps a command as it was decided, and prints it for a tree.

use std::path::Path;

use super::ast::{AndOr, Command, Kind, Pipe, Script};
use super::printer::{print_at, text_at};

/// How an allowed command is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// One pipeline of literal words, without a shell: each program's words; this program looks up the first one in
    /// PATH.
    Pipeline(Vec<Vec<String>>),
    /// Our own printing of the parsed form, for `bash --noprofile --norc -c`.
    Script(String),
    /// The model's own text, only under `unanalysable: sandboxed`, isolated and without network.
    AsWritten(String),
}

/// A command as it was decided: what is printed for a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    pub(super) decided: Script,
    /// A shell has to run it.
    pub(super) shell: bool,
}

impl Form {
    /// Prints it for a workspace that is seen at `root`.
    pub(in crate::policy) fn start(&self, root: &Path) -> Start {
        let root = root.to_string_lossy();
        match literal_pipeline(&self.decided, self.shell, &root) {
            Some(pipeline) => Start::Pipeline(pipeline),
            None => Start::Script(print_at(&self.decided, &root)),
        }
    }
}

/// Returns the words of a command that needs no shell, for a workspace that is seen at `root`.
fn literal_pipeline(script: &Script, shell: bool, root: &str) -> Option<Vec<Vec<String>>> {
    let [AndOr { first: pipeline, rest }] = script.statements.as_slice() else { return None };
    if shell || !rest.is_empty() || pipeline.negated || pipeline.time.is_some() {
        return None;
    }
    let words_of = |command: &Command| match &command.kind {
        Kind::Simple(simple) if simple.assignments.is_empty() && command.redirections.is_empty() => {
            simple.words.iter().map(|word| text_at(word, root)).collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    let mut words = vec![words_of(&pipeline.first)?];
    for (pipe, command) in &pipeline.rest {
        match pipe {
            Pipe::Output => words.push(words_of(command)?),
            Pipe::OutputAndErrors => return None,
        }
    }
    Some(words)
}
