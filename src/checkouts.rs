//! Finds the checkouts that hold a directory, and follows paths link by link: a link in a checkout is the word of whoever
//! wrote the checkout, and must not choose what is read or written outside of it.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links on the way to a file, as in Linux.
const MOST_LINKS: usize = 40;

/// Returns the directories that are checkouts, from `directory` upwards: those with a `.git`, whatever it is.
pub fn checkouts_around(directory: &Path) -> impl Iterator<Item = &Path> {
    directory.ancestors().filter(|top| top.join(".git").symlink_metadata().is_ok())
}

/// Directories of the system that belong to no project.
const SYSTEM: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/opt"];

/// Returns the largest directory that may be one project with `directory`, which is in no checkout: an archive unpacked
/// without a repository does not show where the project begins. It contains neither the home nor programs of the system,
/// and is none of the root's own directories. `None` in a checkout.
pub fn unpacked_around<'d>(directory: &'d Path, home: Option<&Path>) -> Option<&'d Path> {
    let belongs_to_all = |above: &Path| {
        let holds = |other: &Path| other.starts_with(above);
        above.components().count() <= 2 || home.is_some_and(holds) || SYSTEM.iter().map(Path::new).any(holds)
    };
    match checkouts_around(directory).next() {
        Some(_) => None,
        None => directory.ancestors().take_while(|above| !belongs_to_all(above)).last(),
    }
}

/// Follows an absolute path one component and one link at a time, and returns where it leads.
///
/// `visit` is called with the real path of each entry on the way, and whether it is a link that is followed next. Its
/// error ends the walk. Links of `/proc` have no readable target and are followed at once. Fails where an entry is
/// missing.
pub fn follow(path: &Path, visit: &mut dyn FnMut(&Path, bool) -> io::Result<()>) -> io::Result<PathBuf> {
    let parts =
        |path: &Path| -> Vec<OsString> { path.components().rev().map(|part| part.as_os_str().to_owned()).collect() };
    let mut left = parts(&std::path::absolute(path)?);
    let mut at = PathBuf::new();
    let mut links = 0;
    while let Some(part) = left.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::CurDir) | None => {}
            Some(Component::Normal(_) | Component::RootDir | Component::Prefix(_)) => {
                let next = at.join(&part);
                let is_link = next.symlink_metadata()?.is_symlink();
                visit(&next, is_link)?;
                if !is_link {
                    at = next;
                } else if next.starts_with("/proc") {
                    at = next.canonicalize()?;
                } else if links < MOST_LINKS {
                    links += 1;
                    left.extend(parts(&next.read_link()?));
                } else {
                    return Err(io::Error::other(format!("{}: too many levels of links", path.display())));
                }
            }
        }
    }
    Ok(at)
}

/// Fails where a link on the way to a path is in a checkout and leads out of it. A path that is not there, and a
/// descriptor without a path, is no error.
pub fn refuse_links_out(path: &Path) -> io::Result<()> {
    let walked = follow(path, &mut |at, is_link| {
        let Some(top) = at.parent().filter(|_| is_link).and_then(|folder| checkouts_around(folder).next()) else {
            return Ok(());
        };
        let target = at.canonicalize()?;
        if target.starts_with(top) {
            return Ok(());
        }
        Err(refusal(at, &format!("points outside it, to {}", target.display())))
    });
    match walked {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
        walked => walked.map(drop),
    }
}

/// Fails where a directory on the way to a file is a link that is in one of these directories. Fails, too, where a
/// directory on the way is missing.
pub fn refuse_links(file: &Path, directories: &[PathBuf]) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    follow(folder, &mut |at, is_link| {
        let holds = |directory: &PathBuf| at.parent().is_some_and(|folder| folder.starts_with(directory));
        if is_link && directories.iter().any(holds) {
            return Err(refusal(at, "would decide where the file is written"));
        }
        Ok(())
    })
    .map(drop)
}

/// Tells whether a path is in a directory, leads into it, or passes through it: by its text, or by a link. What is
/// missing at its end is taken to be made where the rest leads.
pub fn passes_through(path: &Path, directory: &Path) -> bool {
    let real = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let mut passes = path.starts_with(directory) || path.starts_with(&real);
    let mut visit = |at: &Path, _: bool| {
        passes |= at.starts_with(&real);
        Ok(())
    };
    let _led_to = follow(path, &mut visit);
    passes
}

fn refusal(link: &Path, what: &str) -> io::Error {
    io::Error::other(format!("{} is a link in the checkout that {what}; name the directory itself", link.display()))
}
