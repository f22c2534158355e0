//! Lists a few of the project's files for the first message: breadth first, directory by directory, up to a limit.

use std::collections::VecDeque;

use crate::path::{Node, RelPath, Tree};
use crate::workspace::Workspace;
use crate::workspace::ignore::{Kind, Level, Source};

/// Names that tell a model nothing.
const DULL: &[&str] = &[".git", "node_modules", "__pycache__", ".venv", "target", "vendor"];

/// Lists files below the root without ignored ones, in at most `chars` characters.
///
/// If the project does not fit, the list ends with the names of further directories. Only names are read, and only of
/// as many directories as fit: the cost does not grow with the project.
pub fn listing(workspace: &Workspace, chars: usize) -> String {
    let source = Source::new(workspace);
    let mut folders = VecDeque::from([(RelPath::root(), Level::root(&source))]);
    let mut text = String::new();
    while let Some((folder, level)) = folders.pop_front() {
        let absolute = folder.under(workspace.root());
        let mut entries = String::new();
        let mut inside = Vec::new();
        for name in workspace.names(&absolute).unwrap_or_default() {
            let Some(path) = folder.child(&name) else { continue };
            let is_folder = matches!(workspace.look(&absolute.join(&name)), Ok(Some(Node::Dir)));
            let ignored = level.child(&name, if is_folder { Kind::Folder } else { Kind::File });
            if ignored.git || ignored.qwen || DULL.iter().any(|dull| *dull == name) {
                continue;
            }
            if is_folder {
                inside.push(path);
            } else {
                entries.push_str(&crate::tools::common::names::one_line(path.as_path()));
                entries.push('\n');
            }
        }
        if text.len() + entries.len() > chars {
            let rest: Vec<String> = std::iter::once(folder)
                .chain(folders.into_iter().map(|(folder, _)| folder))
                .map(|f| format!("{f}/"))
                .collect();
            let mut line = format!("... and more in {}", rest.join(" "));
            let mut end = line.len().min(300);
            while !line.is_char_boundary(end) {
                end -= 1;
            }
            line.truncate(end);
            text.push_str(&line);
            text.push('\n');
            break;
        }
        text.push_str(&entries);
        folders.extend(inside.into_iter().map(|path| {
            let rules = level.enter(&source, &path);
            (path, rules)
        }));
    }
    text
}
