//! Opens the files of a checkout that the program reads for itself: policies, settings, recipes and what they name.
//!
//! Whoever wrote the checkout chose these paths, and what the files hold reaches the model or a message. So none of them
//! leads out of the checkout, into `.git`, or to a file for secrets.

use std::io;
use std::path::{Path, PathBuf};

use super::protected::{fold, secret_name};
use crate::bounded;

/// Reads a regular file of a checkout, whose top directory is `top`. Links are followed as long as they stay in it, and
/// what they lead to is judged like the file itself.
pub fn read(top: &Path, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bounded::regular(&judged(top, path)?, most)
}

/// Reads a text of a checkout in the same way.
pub fn text(top: &Path, path: &Path, most: u64) -> io::Result<String> {
    bounded::regular_text(&judged(top, path)?, most)
}

/// Says why a path below the top of a checkout, or below a directory of recipes, is never read; `None` if it may be.
pub fn never_read(below: &str) -> Option<String> {
    let secret = secret_name(&fold(below))?;
    Some(format!("it is never read: `{secret}` is in the list of files for secrets and of git"))
}

fn judged(top: &Path, path: &Path) -> io::Result<PathBuf> {
    let (real, below) = bounded::real_below(top, path)?;
    match never_read(&below.to_string_lossy()) {
        None => Ok(real),
        Some(why) => Err(io::Error::other(why)),
    }
}
