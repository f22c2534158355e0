//! Resolves paths and decides which files may be read and written.

mod read;
mod resolve;
mod search;
mod tree;
mod walk;
mod write;

use std::path::Path;

use self::tree::TreeRead;
use super::decision::Denial;
use super::effect::Effect;
use crate::path::{Node, RelPath};

pub(crate) use resolve::{Folders, PathRules, Place, Resolved};
pub(crate) use walk::walk;

impl PathRules<'_> {
    /// Judges looking at names and metadata: everywhere inside.
    pub(crate) fn list(&self, folder: &RelPath, path: &Path) -> Result<(Resolved, Place), Denial> {
        self.inside(folder, path)
    }

    /// Judges one effect of a command from each of the directories it may run in; what it reads may be a directory.
    pub(crate) fn effect(&self, effect: &Effect, folders: &[RelPath]) -> Result<(), Denial> {
        let (root, at) = ([RelPath::root()], Path::new(effect.path()));
        for folder in if folders.is_empty() { root.as_slice() } else { folders } {
            match effect {
                Effect::Read(_) if self.read(folder, at)?.0.node != Some(Node::Dir) => {}
                Effect::Read(_) => self.name_only(folder, at)?,
                Effect::ReadTree { path, follow_links, left_out, only, skips_hidden } => {
                    let tree =
                        TreeRead { path, follow_links: *follow_links, left_out, only, skips_hidden: *skips_hidden };
                    self.read_tree(folder, &tree)?;
                }
                Effect::List(_) => self.list(folder, at).map(drop)?,
                Effect::Write(_) => self.write(folder, at).map(drop)?,
                Effect::Delete(_) => self.delete(folder, at)?,
                Effect::WriteTree(_) => self.write_tree(folder, at)?,
                Effect::DeleteTree(_) => self.delete(folder, at).and(self.write_tree(folder, at))?,
                Effect::Enter(path) => self.enter(folder, path).map(|_| ())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
