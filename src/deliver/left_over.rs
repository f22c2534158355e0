//! Removes the temporary files that a delivery or an undoing left when it was killed, and keeps what is not its own.

use std::collections::BTreeSet;
use std::io;

use super::journal::{self, Record, Shape};
use super::swaps::Swap;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::steps::Steps;

/// Removes the temporary files of a record. Where names were swapped, one that holds neither old nor new contents is what
/// somebody wrote meanwhile: it gets a name of its own, which is added. Keeps in the list what cannot be removed, and
/// returns why.
pub(super) fn clear_left_over(
    temporary: &mut Vec<String>,
    record: &Record,
    tree: &Folder,
    set_aside: &mut Vec<RelPath>,
    steps: &Steps,
) -> Vec<String> {
    let known: BTreeSet<&Shape> = record.files.iter().flat_map(|file| [&file.before, &file.after]).collect();
    let is_known = |shape: &Shape| !record.swapping || known.contains(shape);
    let mut stuck = Vec::new();
    temporary.retain(|name| {
        let cleared = journal::path(name).and_then(|temporary| {
            let names = second_name(&temporary).into_iter().chain([temporary]);
            names.into_iter().try_for_each(|path| {
                set_aside.extend(clear(tree, &path, &is_known, steps)?);
                Ok(())
            })
        });
        cleared.inspect_err(|error: &io::Error| stuck.push(format!("{name}: {error}"))).is_err()
    });
    stuck
}

/// Removes a temporary file if it holds what is known, else gives it a name that nothing removes, and returns that.
/// Whoever opened it before names were swapped may have written to it since.
pub(super) fn clear(
    tree: &Folder,
    path: &RelPath,
    is_known: &dyn Fn(&Shape) -> bool,
    steps: &Steps,
) -> io::Result<Option<RelPath>> {
    if tree.kind_at(path)?.is_none() {
        return Ok(None);
    }
    steps.step()?;
    let is_ours = match Shape::of(&tree.entry_at(path)?) {
        Shape::Absent => !tree.has_folder(path)?,
        shape @ (Shape::File { .. } | Shape::Link { .. }) => is_known(&shape),
    };
    match is_ours {
        // Nothing comes between the look and the removal.
        true => remove_one(tree, path, &Steps::default()).map(|()| None),
        false => keep(tree, path, steps).map(Some),
    }
}

/// Says where what somebody wrote meanwhile is kept.
pub(super) fn kept_aside(path: &RelPath) -> String {
    format!("what was written to a file while it was replaced is kept in {path}")
}

/// Tells whether one of these temporary files is there.
pub(super) fn is_any_left<'n>(temporary: impl IntoIterator<Item = &'n String>, tree: &Folder) -> io::Result<bool> {
    for name in temporary {
        let temporary = journal::path(name)?;
        for path in second_name(&temporary).into_iter().chain([temporary]) {
            if tree.kind_at(&path)?.is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
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

/// Removes a temporary file, with the second name that it may have.
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
