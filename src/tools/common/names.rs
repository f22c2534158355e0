//! Converts paths between the form that the model gives and the form that messages show.

use std::path::{Component, Path, PathBuf};

use crate::hidden::is_hidden;
pub use crate::path::one_line;
use crate::path::{Node, RelPath, Tree};
use crate::policy::Denial;
use crate::tools::{ToolContext, ToolError};
use crate::workspace::{WorkspaceError, ignore};

/// Returns the absolute path that the model's path means, by its text: `.` and `..` folded, links not followed.
pub fn absolute(root: &Path, given: &Path) -> PathBuf {
    let mut path = PathBuf::new();
    for part in root.join(given).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => path.push(part),
        }
    }
    path
}

/// Returns [`absolute`] as one line, for a message.
pub(crate) fn shown(cx: &ToolContext<'_>, given: &Path) -> String {
    one_line(&absolute(cx.workspace.root(), given))
}

/// Returns the path that the model's path means, relative to the workspace at `root` where it is inside, as one line.
pub fn within(root: &Path, given: &Path) -> String {
    let path = absolute(root, given);
    match path.strip_prefix(root) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => one_line(below),
        Err(_) => one_line(&path),
    }
}

/// Returns a pattern, and where it is looked for, if that is not the whole workspace.
pub(crate) fn pattern_within(pattern: &str, root: &Path, start: &Path) -> String {
    match within(root, start) {
        whole if whole == "." => brief(pattern),
        part => format!("{} in {part}", brief(pattern)),
    }
}

/// Returns a path relative to the workspace as one line; `.` for the root.
pub fn relative(path: &RelPath) -> String {
    if path.is_root() { ".".to_owned() } else { one_line(path.as_path()) }
}

/// Returns the text of an argument as one line of at most 100 characters.
pub fn brief(text: &str) -> String {
    let mut line: String =
        text.chars().map(|c| if c.is_whitespace() || is_hidden(c) { ' ' } else { c }).take(101).collect();
    if let Some((end, _)) = line.char_indices().nth(100) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Tells whether a text holds a private key: a line of it does not look like a secret by itself.
pub(crate) fn has_private_key(text: &str) -> bool {
    text.contains("PRIVATE KEY-----")
}

/// Returns the message for a file that cannot be read or written; `path` is [`shown`]. Scripts match these texts.
pub(crate) fn file_error(error: &WorkspaceError, path: &str) -> ToolError {
    match error {
        WorkspaceError::NotFound(_) => ToolError::failed(format!("File not found: {path}")),
        WorkspaceError::IsFolder(_) => ToolError::failed(format!("Path is a directory, not a file: {path}")),
        WorkspaceError::NotAFile(_) | WorkspaceError::NotAFolder(_) => {
            ToolError::failed(format!("Path is not a regular file: {path}"))
        }
        WorkspaceError::NotGranted(_) => {
            ToolError::denied(Denial::new(format!("this call was not granted access to {path}")).by("F1"))
        }
        WorkspaceError::Io { cause, .. } => ToolError::failed(format!("Cannot access {path}: {cause}")),
    }
}

/// Bytes of a file that is held in memory whole.
pub(crate) const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Refuses what `.qwenignore` hides.
pub(crate) fn check_not_hidden(cx: &ToolContext<'_>, path: &RelPath, shown: &str) -> Result<(), ToolError> {
    match ignore::Rules::new(cx.workspace).of(path, ignore::Kind::File).qwen {
        true => Err(hidden(shown)),
        false => Ok(()),
    }
}

/// Says that `.qwenignore` hides a file.
pub(crate) fn hidden(shown: &str) -> ToolError {
    ToolError::failed(format!("File path '{shown}' is ignored by .qwenignore pattern(s)."))
}

/// Refuses what is too large to hold in memory.
pub(crate) fn check_size(cx: &ToolContext<'_>, absolute: &Path, shown: &str) -> Result<(), ToolError> {
    match cx.workspace.look(absolute) {
        Ok(Some(Node::File { size, .. })) if size > MOST_BYTES => Err(ToolError::failed(format!(
            "File is too large to read: {shown} ({size} bytes). Use search_file_content for the lines you need."
        ))),
        // Any other error is reported when the file is opened.
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_the_output() {
        assert_eq!(one_line(Path::new("a\nb\u{202e}c")), "a\\nb\\u{202e}c");
        assert_eq!(one_line(Path::new("größe x")), "größe x");
    }

    #[test]
    fn paths_are_absolute_or_relative_to_the_workspace() {
        let root = Path::new("/w");
        assert_eq!(absolute(root, Path::new("./a/../b")), Path::new("/w/b"));
        assert_eq!(absolute(root, Path::new("/x/y")), Path::new("/x/y"));
        assert_eq!(absolute(root, Path::new(".")), Path::new("/w"));
    }

    #[test]
    fn a_long_argument_is_cut_at_a_character() {
        assert_eq!(brief(&"ä".repeat(200)).chars().count(), 101);
        assert_eq!(brief("a\nb"), "a b");
    }
}
