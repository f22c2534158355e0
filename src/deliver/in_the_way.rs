//! Finds what is neither file nor link at the place of a new file, and what is no directory on the way to it.

use std::io;

use rustix::fs::FileType;

use super::apply;
use super::delivery::Site;
use super::error::DeliverError;
use crate::change::{ChangeSet, Entry};
use crate::path::RelPath;
use crate::workspace::folder::{Folder, is_missing};

/// Refuses a new file at the place of something else; a directory makes way if the change removes all that is in it.
pub(super) fn refuse(changes: &ChangeSet, site: &Site<'_>) -> Result<(), DeliverError> {
    // Outputs in ignored directories may make way for others first.
    if site.outputs.is_some() {
        return Ok(());
    }
    let folder = Folder::root(site.root).map_err(|error| DeliverError::io(site.root.display(), &error))?;
    for (path, change) in changes.iter() {
        if change.before != Entry::Absent || change.after == Entry::Absent {
            continue;
        }
        apply::standing_folder(&folder, changes, path)?;
        let found = obstacle(&folder, path, changes).map_err(|error| DeliverError::io(path, &error))?;
        if let Some(obstacle) = found {
            return Err(DeliverError::conflict(
                format!("the new file {path} cannot be made: {obstacle}"),
                "move that out of the way, or leave the file out of the change",
            ));
        }
    }
    Ok(())
}

fn obstacle(root: &Folder, path: &RelPath, changes: &ChangeSet) -> io::Result<Option<String>> {
    let stat = match root.parent_of(path) {
        Ok((parent, name)) => parent.stat(name)?,
        Err(error) if is_missing(&error) => None,
        Err(error) => return Err(error),
    };
    match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        None | Some(FileType::RegularFile | FileType::Symlink) => return Ok(None),
        Some(FileType::Directory) => {}
        Some(_) => return Ok(Some("what has that name is neither a file nor a link".to_owned())),
    }
    let mut directories = vec![path.clone()];
    while let Some(directory) = directories.pop() {
        let names = root.enter(&directory)?.names()?;
        if names.is_empty() {
            return Ok(Some(format!("the directory {directory} is there, and it is empty")));
        }
        for (name, kind) in names {
            let Some(inner) = directory.child(&name) else { continue };
            if kind.is_dir() {
                directories.push(inner);
            } else if changes.staged(&inner) != Some(&Entry::Absent) {
                return Ok(Some(format!(
                    "the directory {path} is there with {inner}, which the change does not remove"
                )));
            }
        }
    }
    Ok(None)
}
