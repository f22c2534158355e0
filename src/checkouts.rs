//! Finds the checkouts that hold a directory, and follows paths link by link: a link in a checkout comes from its
//! authors, and must not choose what is read or written outside of it.

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
/// and is none of the root's own directories.
fn unpacked<'d>(directory: &'d Path, home: Option<&Path>) -> Option<&'d Path> {
    let belongs_to_all = |above: &Path| {
        let holds = |other: &Path| other.starts_with(above);
        above.components().count() <= 2 || home.is_some_and(holds) || SYSTEM.iter().map(Path::new).any(holds)
    };
    directory.ancestors().take_while(|above| !belongs_to_all(above)).last()
}

/// The directories around the place that a command works in, looked up once. Paths are canonical as far as they exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// The workspace.
    pub workspace: PathBuf,
    /// The directory that the program was started in.
    pub cwd: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// The checkouts that hold the workspace, the innermost first.
    pub checkouts: Vec<PathBuf>,
    /// The checkouts that hold the directory that the program was started in, if that is not the workspace.
    pub checkouts_of_cwd: Vec<PathBuf>,
}

impl Around {
    /// Looks around a workspace.
    pub fn new(workspace: &Path, cwd: &Path, home: Option<&Path>) -> Around {
        let all = |directory: &Path| checkouts_around(directory).map(Path::to_path_buf).collect();
        let (workspace, cwd) = (real(workspace), real(cwd));
        let checkouts_of_cwd = if cwd == workspace { Vec::new() } else { all(&cwd) };
        Around { checkouts: all(&workspace), checkouts_of_cwd, home: home.map(real), workspace, cwd }
    }

    /// Looks around a workspace of this process.
    pub fn of_process(workspace: &Path) -> Around {
        Around::new(workspace, Path::new("."), std::env::var_os("HOME").map(PathBuf::from).as_deref())
    }

    /// Returns the top directory of the innermost checkout, else the workspace.
    pub fn top(&self) -> &Path {
        self.checkouts.first().unwrap_or(&self.workspace)
    }

    /// Returns the largest directory that may be one project with the workspace; `None` in a checkout.
    pub fn unpacked(&self) -> Option<&Path> {
        self.checkouts.is_empty().then(|| unpacked(&self.workspace, self.home.as_deref()))?
    }

    /// Returns the directories that the project may be a part of: the checkouts around the workspace and around the
    /// directory that the program was started in; without a checkout, what may be one project with either.
    pub fn projects(&self) -> impl Iterator<Item = &Path> {
        let of_cwd = self.checkouts_of_cwd.is_empty() && self.cwd != self.workspace;
        let of_cwd = of_cwd.then(|| unpacked(&self.cwd, self.home.as_deref())).flatten();
        let checkouts = self.checkouts.iter().chain(&self.checkouts_of_cwd).map(PathBuf::as_path);
        checkouts.chain(self.unpacked()).chain(of_cwd)
    }
}

/// Returns a path without links, as it is where it does not exist.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
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

/// Returns where a file of a checkout is written: links are followed as long as they stay in `top`, which holds `file`,
/// and out of its `.git`. Any other link, or one that leads to nothing, is an error: whoever made the checkout must not
/// choose which other file is changed.
pub fn place_in(top: &Path, file: &Path) -> io::Result<PathBuf> {
    let below = file.strip_prefix(top).map_err(io::Error::other)?;
    let top = top.canonicalize()?;
    let path = top.join(below);
    let mut link = None;
    let refused = |link: &Option<PathBuf>, what: &str| {
        let link = link.as_ref().unwrap_or(&path).display();
        io::Error::other(format!("{link} is a link in the checkout that {what}; remove the link first"))
    };
    let led_to = follow(&path, &mut |at, is_link| {
        let in_git = |below: &Path| below.components().any(|part| part.as_os_str() == ".git");
        match at.strip_prefix(&top) {
            Ok(below) if in_git(below) => return Err(refused(&link, "leads into .git")),
            Err(_) if !top.starts_with(at) => return Err(refused(&link, "points outside it")),
            Ok(_) | Err(_) => {}
        }
        if is_link {
            link = Some(at.to_path_buf());
        }
        Ok(())
    });
    match led_to {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match &link {
            None => Ok(path.clone()),
            Some(_) => Err(refused(&link, "leads to nothing")),
        },
        led_to => led_to,
    }
}

/// Where a path leads, entry by entry.
pub struct Trail<'p> {
    path: &'p Path,
    entries: Vec<PathBuf>,
}

impl Trail<'_> {
    /// Follows a path as far as it exists.
    pub fn of(path: &Path) -> Trail<'_> {
        let mut entries = Vec::new();
        let mut visit = |at: &Path, _: bool| {
            entries.push(at.to_path_buf());
            Ok(())
        };
        let _led_to = follow(path, &mut visit);
        Trail { path, entries }
    }

    /// Tells whether the path is in a canonical directory, leads into it, or passes through it: by its text, or by a
    /// link. What is missing at its end is taken to be made where the rest leads.
    pub fn passes(&self, directory: &Path) -> bool {
        self.path.starts_with(directory) || self.entries.iter().any(|at| at.starts_with(directory))
    }
}

fn refusal(link: &Path, what: &str) -> io::Error {
    io::Error::other(format!("{} is a link in the checkout that {what}; name the directory itself", link.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_of_a_checkout_is_written_in_it_or_not_at_all() {
        let beside = tempfile::tempdir().unwrap();
        let (top, outside) = (beside.path().join("checkout"), beside.path().join("home"));
        for folder in [top.join("config"), top.join(".git"), top.join("own"), outside.clone()] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(outside.join("settings.json"), "{}").unwrap();
        std::fs::write(top.join("config/s.json"), "{}").unwrap();
        for (link, target) in [
            ("absolute", outside.display().to_string()),
            ("relative", "../home".into()),
            ("file.json", "../home/settings.json".into()),
            ("dangling.json", "../home/new.json".into()),
            ("nowhere.json", "/nonexistent/x".into()),
            ("above", "..".into()),
            ("git", ".git".into()),
            ("inside", "config".into()),
            ("inside.json", "config/s.json".into()),
        ] {
            symlink(target, top.join(link)).unwrap();
        }
        let place = |file: &str| place_in(&top, &top.join(file));
        let real = top.canonicalize().unwrap();
        for (file, expected) in [
            ("own/new/deep.json", "own/new/deep.json"),
            ("own/new.json", "own/new.json"),
            ("inside/s.json", "config/s.json"),
            ("inside.json", "config/s.json"),
        ] {
            assert_eq!(place(file).unwrap(), real.join(expected), "{file}");
        }
        for file in [
            "absolute/settings.json",
            "absolute/new.json",
            "relative/settings.json",
            "file.json",
            "dangling.json",
            "nowhere.json",
            "above/new.json",
            "above/home/settings.json",
            "git/config",
        ] {
            let error = place(file).unwrap_err().to_string();
            assert!(error.contains("is a link in the checkout that"), "{file}: {error}");
        }
    }
}
