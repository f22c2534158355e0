//! Finds the programs that this program starts itself, in a PATH that nothing in the workspace can add to.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::checkouts::{Around, Trail};

/// Where programs are looked up when PATH is not set.
const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that name code for the dynamic loader, of Linux and of macOS.
const LOADER: [&str; 6] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
];

/// The programs of the machine: PATH without its empty and relative entries, without those that are, or lead, into
/// the workspace, a checkout that holds it, the directory that we were started in and that holds it, or, without a
/// checkout, [whatever may be one project with it](Around::unpacked), and without those below a `node_modules`.
///
/// Build tools put directories such as `node_modules/.bin` first, and those who write the project's files write these,
/// too.
#[derive(Clone)]
pub struct Programs {
    inner: Arc<Inner>,
    /// Whether git that is started by them reads the user's configuration.
    pub(super) reads_user_configuration: bool,
}

struct Inner {
    path: Vec<PathBuf>,
    /// Canonical directories from which nothing is started.
    excluded: Vec<PathBuf>,
    found: Mutex<BTreeMap<String, Option<Program>>>,
}

/// The absolute path of a program outside the workspace. Only [`Programs::find`] creates one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(PathBuf);

/// No directory of the cleaned PATH contains the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot find `{0}` in PATH (relative entries and entries inside the project are ignored)")]
pub struct NotFound(pub String);

impl Program {
    /// Returns its absolute path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Programs {
    /// Cleans a PATH for work in a workspace. The home and its parents never count as a checkout: people keep their
    /// settings in such repositories, and their programs below them.
    pub fn new(path: Option<&OsStr>, around: &Around) -> Programs {
        let holds_home = |directory: &Path| around.home.as_ref().is_some_and(|home| home.starts_with(directory));
        // The run was started in a directory that holds the workspace: the project is the whole of it.
        let started_around = around.workspace.starts_with(&around.cwd) && around.cwd.components().count() > 2;
        let started_in = started_around.then_some(&around.cwd);
        let projects = around.checkouts.iter().chain(started_in).filter(|directory| !holds_home(directory));
        let mut excluded: Vec<PathBuf> = projects.cloned().collect();
        excluded.extend(around.unpacked().map(Path::to_path_buf));
        excluded.push(around.workspace.clone());
        let is_outside = |real: &Path| !excluded.iter().any(|directory| real.starts_with(directory));
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in std::env::split_paths(path.unwrap_or(OsStr::new(USUAL))) {
            // A missing directory could be created later, through a link.
            let counts = entry.is_absolute()
                && !entry.components().any(|part| part == Component::ParentDir || part.as_os_str() == "node_modules")
                && is_outside(&entry)
                && entry.canonicalize().is_ok_and(|real| is_outside(&real));
            if counts && !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        let inner = Arc::new(Inner { path: entries, excluded, found: Mutex::default() });
        Programs { inner, reads_user_configuration: true }
    }

    /// Cleans the PATH of this process for work in `workspace`.
    pub fn of_process(workspace: &Path) -> Programs {
        Programs::new(std::env::var_os("PATH").as_deref(), &Around::of_process(workspace))
    }

    /// Says whether git that is started by them reads the user's configuration.
    #[must_use]
    pub fn with_user_configuration(self, reads_user_configuration: bool) -> Programs {
        Programs { reads_user_configuration, ..self }
    }

    /// Returns the directories that programs are looked up in.
    pub fn path(&self) -> &[PathBuf] {
        &self.inner.path
    }

    /// Returns the same directories as the value of PATH.
    pub fn path_variable(&self) -> OsString {
        std::env::join_paths(self.path()).unwrap_or_default()
    }

    /// Returns the variables through which the dynamic loader of a child process would load code from the workspace,
    /// with the allowed rest of their values: absolute paths outside it. `None` if nothing remains. An empty or
    /// relative entry means the child's working directory.
    pub fn loader_variables(&self) -> Vec<(&'static str, Option<OsString>)> {
        let is_outside = |entry: &Path| {
            let real = entry.canonicalize().unwrap_or_else(|_| entry.to_path_buf());
            entry.is_absolute() && !self.inner.excluded.iter().any(|directory| real.starts_with(directory))
        };
        let cleaned = |name: &&'static str| {
            let given = std::env::var_os(name)?;
            let given =
                given.as_bytes().split(|byte| b": ;".contains(byte)).map(|entry| Path::new(OsStr::from_bytes(entry)));
            let kept: Vec<&Path> = given.filter(|entry| is_outside(entry)).collect();
            Some((*name, std::env::join_paths(kept).ok().filter(|value| !value.is_empty())))
        };
        LOADER.iter().filter_map(cleaned).collect()
    }

    /// Finds an executable file by its bare name, once; a file that leads into the workspace through a link is skipped.
    pub fn find(&self, name: &str) -> Result<Program, NotFound> {
        let mut found = self.inner.found.lock().unwrap_or_else(PoisonError::into_inner);
        let program = found.entry(name.to_owned()).or_insert_with(|| self.look_up(name));
        program.clone().ok_or_else(|| NotFound(name.to_owned()))
    }

    /// Takes an executable file by its absolute path, if it is not in the workspace or the checkout around it.
    pub fn at(&self, path: &Path) -> Option<Program> {
        (path.is_absolute() && is_executable(path) && self.is_outside(path)).then(|| Program(path.to_path_buf()))
    }

    fn look_up(&self, name: &str) -> Option<Program> {
        if name.is_empty() || name.contains('/') {
            return None;
        }
        let mut files = self.path().iter().map(|directory| directory.join(name));
        files.find(|file| is_executable(file) && self.is_outside(file)).map(Program)
    }

    /// Tells whether an absolute path, which need not exist, is in the workspace or the checkout around it, or leads there.
    pub fn is_kept_from(&self, path: &Path) -> bool {
        let trail = Trail::of(path);
        self.inner.excluded.iter().any(|directory| trail.passes(directory))
    }

    /// Tells whether a file is there, and neither in the workspace or the checkout around it nor a link into them.
    pub fn is_outside(&self, file: &Path) -> bool {
        file.canonicalize().is_ok_and(|real| !self.inner.excluded.iter().any(|directory| real.starts_with(directory)))
    }
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Programs").field(&self.path()).finish()
    }
}

impl PartialEq for Programs {
    fn eq(&self, other: &Programs) -> bool {
        self.inner.path == other.inner.path
            && self.inner.excluded == other.inner.excluded
            && self.reads_user_configuration == other.reads_user_configuration
    }
}

impl Eq for Programs {}

/// Tells whether a file is there and somebody may execute it.
fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn around(home: Option<&Path>, workspace: &Path) -> Around {
        Around::new(workspace, Path::new("."), home)
    }

    fn program(at: &Path) {
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn path_has_no_entry_that_the_workspace_could_fill() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let workspace = top.join("project");
        std::fs::create_dir_all(workspace.join("bin")).unwrap();
        symlink(workspace.join("bin"), top.join("link")).unwrap();
        symlink(workspace.join("later"), top.join("dangling")).unwrap();
        std::fs::create_dir_all(top.join("above/node_modules/.bin")).unwrap();
        let text = format!(
            "/usr/bin:.::bin:{0}/above/node_modules/.bin:{0}/project/bin:{0}/link:{0}/dangling:/usr/bin:{0}/x/../project/bin:/bin",
            top.display()
        );
        let programs = Programs::new(Some(text.as_ref()), &around(None, &workspace));
        assert_eq!(programs.path(), [Path::new("/usr/bin"), Path::new("/bin")]);
    }

    #[test]
    fn nothing_of_a_checkout_around_the_workspace_is_started_but_of_a_home_that_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (workspace, tools) = (top.join("outer/sub"), top.join("outer/tools/bin"));
        for at in [&workspace, &tools, &top.join("outer/.git")] {
            std::fs::create_dir_all(at).unwrap();
        }
        let found =
            |home: &Path| Programs::new(Some(tools.as_os_str()), &around(Some(home), &workspace)).path().to_vec();
        assert_eq!(found(&top), Vec::<PathBuf>::new());
        assert_eq!(found(&top.join("outer")), std::slice::from_ref(&tools));
    }

    #[test]
    fn nothing_beside_a_part_of_an_unpacked_archive_is_started() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let workspace = top.join("archive/packages/app");
        let entries =
            ["archive/.venv/bin", "archive/vendor/bin", "archive/bin", "archive/packages/tools/node/bin", "home/bin"];
        for at in entries.map(|entry| top.join(entry)).iter().chain([&workspace]) {
            std::fs::create_dir_all(at).unwrap();
        }
        let path =
            std::env::join_paths(entries.map(|entry| top.join(entry)).iter().chain([&"/usr/bin".into()])).unwrap();
        let found =
            |workspace: &Path| Programs::new(Some(&path), &around(Some(&top.join("home")), workspace)).path().to_vec();
        assert_eq!(found(&workspace), [top.join("home/bin"), "/usr/bin".into()]);
        std::fs::create_dir(top.join("archive/packages/.git")).unwrap();
        assert_eq!(found(&workspace).len(), 5, "the checkout shows where the project begins");
    }

    #[test]
    fn a_program_is_found_by_its_bare_name_only_and_never_through_a_link_into_the_workspace() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (bin, workspace) = (top.join("bin"), top.join("project"));
        program(&workspace.join("tool"));
        program(&bin.join("other"));
        symlink(workspace.join("tool"), bin.join("tool")).unwrap();
        std::fs::write(bin.join("text"), "").unwrap();
        let programs = Programs::new(Some(bin.as_os_str()), &around(Some(&top), &workspace));
        assert_eq!(programs.find("other").unwrap().path(), bin.join("other"));
        for name in ["tool", "text", "", "../bin/other", "missing"] {
            assert_eq!(programs.find(name), Err(NotFound(name.to_owned())), "{name}");
        }
        let elsewhere = Programs::new(Some(bin.as_os_str()), &around(Some(&top), &top.join("elsewhere")));
        assert_eq!(elsewhere.find("tool").unwrap().path(), bin.join("tool"));
    }
}
