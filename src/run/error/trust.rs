//! Defines why it cannot be told whose files count, or why a program of the checkout is not started.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::git::trusted::TrustedError;

/// Why the files of a checkout cannot be used as they are.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// There is no repository to hold the trusted commit.
    #[error("`--trusted-ref {0}` requires a git repository")]
    NoRepository(String),
    /// A trusted file cannot be read.
    #[error("{path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// It cannot be told what a command starts.
    #[error("{name} is not started: {what} may name a file of the checkout, {not_trusted}")]
    Undetermined {
        /// The command.
        name: String,
        /// The part of it.
        what: String,
        /// Why the checkout is not trusted.
        not_trusted: String,
    },
    /// A command names a directory with too many files to compare.
    #[error("{name} names {word}, a directory of more than {most} files of the checkout")]
    TooMany {
        /// The command.
        name: String,
        /// The directory.
        word: String,
        /// How many are compared.
        most: usize,
    },
    /// A command starts a file of the change under review.
    #[error("{name} starts {file}, {why}")]
    Changed {
        /// The command.
        name: String,
        /// The file.
        file: String,
        /// Why it does not count.
        why: String,
    },
}

impl CliError for TrustError {
    fn exit(&self) -> Exit {
        Exit::Config
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            TrustError::NoRepository(_) => "run in a clone, or leave the flag out",
            TrustError::Unreadable { .. } => "make it readable, or remove it",
            TrustError::Undetermined { .. } => {
                "name a program by an absolute path or ~/ that does not point into the checkout through a link, or give --trust-checkout if the change is your own"
            }
            TrustError::TooMany { .. } => "name the file that it starts, or keep its program outside the checkout",
            TrustError::Changed { .. } => {
                "keep its program, and the targets of links to it, outside the checkout, or give --trust-checkout if the change is your own"
            }
        }))
    }
}

impl CliError for TrustedError {
    fn exit(&self) -> Exit {
        Exit::Config
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            TrustedError::Missing { .. } => {
                "fetch it (`fetch-depth: 0` in actions/checkout, or `git fetch origin`), or name another with --trusted-ref"
            }
            TrustedError::Unfit { .. } => "put a regular file there, in the trusted commit",
            TrustedError::Git(_) => "run `git status` there and correct what it reports",
        }))
    }
}
