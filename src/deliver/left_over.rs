//! Removes the temporary files that a delivery or an undoing left when it was killed, and keeps what is not its own.

use std::io;

use super::journal::{self, Record, Shape};
use super::swaps::Swap;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::steps::Steps;

/// Removes the temporary files of a record. Where it was killed while names were swapped, one that holds neither old nor
/// new contents is what somebody wrote meanwhile: it gets a name of its own, which is added.
pub(super) fn clear_left_over(
    record: &Record,
    tree: &Folder,
    set_aside: &mut Vec<RelPath>,
    steps: &Steps,
) -> io::Result<()> {
    for temporary in &record.temporary {
        let temporary = journal::path(temporary)?;
        for path in second_name(&temporary).into_iter().chain([temporary]) {
            let now = Shape::of(&tree.entry_at(&path)?);
            let is_known = match now {
                Shape::Absent => !tree.has_folder(&path)?,
                Shape::File { .. } | Shape::Link { .. } => {
                    record.files.iter().any(|file| file.before == now || file.after == now)
                }
            };
            match is_known || !record.swapping {
                true => remove_one(tree, &path, steps)?,
                false => set_aside.push(keep(tree, &path, steps)?),
            }
        }
    }
    Ok(())
}

/// Gives a file a name that nothing removes.
fn keep(tree: &Folder, path: &RelPath, steps: &Steps) -> io::Result<RelPath> {
    for number in 1.. {
        let kept = RelPath::from_bytes(&[path.as_bytes(), format!("-kept-{number}").as_bytes()].concat());
        let kept = kept.ok_or(io::ErrorKind::InvalidFilename)?;
        match (Swap { tree, path: &kept, aside: path, steps }).put() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            kept_there => return kept_there.map(|()| kept),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes a temporary file of a delivery or undo, with the second name that it may have.
pub(super) fn remove_left_over(tree: &Folder, path: &RelPath, steps: &Steps) -> io::Result<()> {
    second_name(path).map_or(Ok(()), |second| remove_one(tree, &second, steps))?;
    remove_one(tree, path, steps)
}

/// If names cannot be swapped, a second name holds the old file for a moment.
fn second_name(temporary: &RelPath) -> Option<RelPath> {
    RelPath::from_bytes(&[temporary.as_bytes(), b"-old"].concat())
}

fn remove_one(tree: &Folder, path: &RelPath, steps: &Steps) -> io::Result<()> {
    let removed = tree.parent_of(path).and_then(|(parent, name)| match parent.stat(name)? {
        Some(_) => parent.unlink(name, steps),
        None => Ok(()),
    });
    match removed {
        Err(error) if !is_missing(&error) => Err(error),
        _ => Ok(()),
    }
}
