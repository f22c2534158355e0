//! Finds paths in words of which it is not known what they are.

use std::path::Path;

use super::table::{Call, Context};
use super::untabled::is_response_file;
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::paths::Place;

/// If a program's options are unknown a word may contain a path anywhere: refuses one that could leave the workspace,
/// or name what is never read or written.
pub(crate) fn hidden_path(cx: &Context<'_>, word: &str) -> Result<(), Denial> {
    let mut before = None;
    // Where the letters of another option begin: `-Wl,-Tx`.
    let mut option = false;
    let mut letters = 0;
    let leading = word.len() - word.trim_start_matches(char::is_alphabetic).len();
    // `-MF/x`: such options of compilers are written in capitals.
    let is_name = word[..leading].chars().all(char::is_uppercase);
    for (at, letter) in word.char_indices() {
        let tail = &word[at..];
        // `-Isrc/x` is a path after a letter; in `https://x` the slash begins none.
        let begins = match before {
            None => true,
            Some('/') if letter == '/' => false,
            Some(':') if tail.starts_with("//") => false,
            Some(before) if letter == '/' || letter == '~' => {
                !(char::is_alphanumeric(before) || "._-)]}".contains(before))
                    || letters == 1
                    || at == leading && is_name
                    || is_system(tail)
            }
            // `-MF.git/x`: the option may be any number of the letters that are first.
            Some(before) => !char::is_alphanumeric(before) || at <= leading || option,
        };
        option = match letter {
            '-' => before.is_none_or(|before| !before.is_alphanumeric()),
            letter => option && letter.is_alphabetic(),
        };
        letters += usize::from(letter.is_alphabetic());
        before = Some(letter);
        if begins {
            cx.could_name(word, tail)?;
        }
    }
    Ok(())
}

/// The same of a word that is not an option: a path may be after any mark in it (`name=@FILE`, `text:FILE`, `file:…`).
fn path_in_word(cx: &Context<'_>, word: &str) -> Result<(), Denial> {
    let is_mark = |c: char| !(c.is_alphanumeric() || c.is_whitespace() || "./~-_\\*?#^".contains(c));
    if word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:")) {
        cx.could_name(word, word)?;
    }
    for (at, mark) in word.char_indices().filter(|(_, c)| is_mark(*c)) {
        let mut tail = &word[at + mark.len_utf8()..];
        if mark == ':' && tail.starts_with("//") {
            let scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
            let begin = word[..at].trim_end_matches(scheme).len();
            let name = word[begin..at].to_ascii_lowercase();
            if name.is_empty() || name.split(['+', '.', '-']).any(|part| part == "file") {
                return Err(Denial::new(format!("`{word}` may be the address of a file")).by("F2"));
            }
            if !tail.starts_with("///") {
                continue;
            }
            // Without a host it is a path of this machine.
            tail = &tail[2..];
        }
        let end = tail.find(|c: char| is_mark(c) || c.is_whitespace()).unwrap_or(tail.len());
        for path in [tail, &tail[..end]] {
            if !path.trim_matches('/').is_empty() {
                cx.could_name(word, path)?;
            }
        }
    }
    Ok(())
}

fn is_system(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    ["bin", "boot", "dev", "etc", "home", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var"].contains(&first)
}

impl Context<'_> {
    // Resolves a path over links, and a file that is another name of a secret one. A missing path without links is
    // judged by its name.
    fn leads(&self, folder: &RelPath, path: &str) -> Result<(), Denial> {
        // Most words are no paths: nothing has the name that they begin with.
        let first = path.split('/').find(|part| !matches!(*part, "" | ".")).unwrap_or(path);
        let begins = self.paths.resolve(folder, Path::new(first));
        if !path.starts_with('/') && begins.is_ok_and(|begins| begins.node.is_none() && !begins.last_is_link) {
            return Ok(());
        }
        let Ok(resolved) = self.paths.resolve(folder, Path::new(path)) else { return Ok(()) };
        let written = folder.join(path).map(|path| path.under(self.root));
        if resolved.node.is_none() && written.is_some_and(|written| written == resolved.absolute) {
            return Ok(());
        }
        if matches!(resolved.node, Some(Node::File { links, .. }) if links > 1) {
            self.paths.read(folder, Path::new(path))?;
        }
        match self.paths.place(&resolved.absolute) {
            Some(Place::Workspace(at) | Place::Included(at)) => {
                let denied = self.paths.read_denied(&at, path).or_else(|| self.paths.write_denied(&at, path));
                denied.map_or(Ok(()), Err)?;
                if resolved.node == Some(Node::Dir) { self.paths.tree_named(&at, path) } else { Ok(()) }
            }
            Some(Place::Outputs(_)) => Ok(()),
            None => Err(Denial::new("it is outside the workspace").by("F2")),
        }
    }

    fn could_name(&self, word: &str, tail: &str) -> Result<(), Denial> {
        let refuse = |denial: Denial| {
            let reason = format!("`{word}` could name `{tail}`: {}", denial.reason);
            Denial { rule: denial.rule, ..Denial::new(reason) }
        };
        let is_file = tail.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"));
        if is_file || tail.starts_with('~') {
            return Err(refuse(Denial::new("it may be outside the workspace").by("F2")));
        }
        // Headers and libraries of the system are read by every compiler.
        if ["/usr/include", "/usr/lib", "/usr/local/include", "/usr/local/lib", "/dev/null"]
            .iter()
            .any(|known| Path::new(tail).starts_with(known) && !tail.contains(".."))
        {
            return Ok(());
        }
        let climbs = tail.starts_with('/') || tail.starts_with("..");
        for folder in self.folders {
            if climbs {
                self.paths.list(folder, Path::new(tail)).map_err(refuse)?;
            }
            self.leads(folder, tail).map_err(refuse)?;
            let Some(path) = folder.join(tail) else { continue };
            let denied = self.paths.read_denied(&path, tail).or_else(|| self.paths.write_denied(&path, tail));
            if let Some(denial) = denied {
                return Err(refuse(denial));
            }
        }
        Ok(())
    }
}

/// Judges a word of a program without a table: it may hold a path anywhere, code, or the name of a file of words.
pub(crate) fn word_in(call: &Call<'_>, word: &str, is_option: bool) -> Result<(), Denial> {
    if word.to_ascii_lowercase().contains("data:text/javascript") {
        return Err(Denial::unanalysable(format!("{}: code in `{word}`", call.name)).by("G3"));
    }
    let program = call.name.split(' ').next().unwrap_or_default();
    if is_response_file(word, is_option) && !(call.cx.known.takes_at)(program) {
        let denial = call.deny(format!("`{word}` may stand for the words in a file"));
        return Err(denial.hint("write the words themselves"));
    }
    match is_option {
        true => hidden_path(&call.cx, word.trim_start_matches('-')),
        false => path_in_word(&call.cx, word),
    }
}
