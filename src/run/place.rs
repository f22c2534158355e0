//! Resolves directories that are named from outside: the one to work in, included ones, and the program's own state.

use std::ffi::OsStr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkouts::{Around, Trail, refuse_links_out};
use crate::git::repository::Repository;
use crate::git::{Checkout, trusted};
use crate::policy::Facts;
use crate::policy::lists::ToolLists;
use crate::settings::load::Request;
use crate::settings::{Environment, Settings, Valued, home_came_unpacked};
use crate::workspace::Workspace;

use crate::run::error::{Failure, PlaceError};
use crate::run::rules::approval;
use crate::run::rules::facts;
use crate::run::rules::policy_layers::{self, PolicySelection, PolicySources};
use crate::run::rules::trust::{TrustFlags, Trusted};

/// Where a command works; opened once.
pub struct Place {
    /// The workspace.
    pub workspace: Arc<Workspace>,
    /// The repository, the programs and what is around.
    pub checkout: Checkout,
    /// The directory of the program's state; `None` without a home for it.
    ///
    /// It is never inside a checkout around the workspace, nor reached through a link in one, even if `HOME` or
    /// `XDG_STATE_HOME` is the checkout: then it is a directory of this user in `TMPDIR`, or else in `/var/tmp`. What a
    /// checkout brings along as our state, such as an approval, is nobody's.
    state: Option<PathBuf>,
}

impl Place {
    /// Opens the workspace that `-C` names, else the working directory.
    pub fn open(cd: Option<&Path>, environment: &Environment) -> Result<Place, PlaceError> {
        Place::of(&around(cd, environment), cd, environment)
    }

    /// As [`Place::open`], where what is around the workspace is known.
    ///
    /// Fails where a link in a checkout leads out of it on the way to the workspace, also on the way that the shell went
    /// (`PWD`): whoever wrote the checkout would choose which of the user's directories is worked in. The same is true
    /// of the directory for temporary files.
    pub fn of(around: &Around, cd: Option<&Path>, environment: &Environment) -> Result<Place, PlaceError> {
        let cwd = &environment.cwd;
        let by_shell = environment.variables.get("PWD").map(Path::new).filter(|pwd| pwd.is_absolute() && pwd != cwd);
        let by_shell = by_shell.filter(|pwd| pwd.canonicalize().is_ok_and(|real| real == around.cwd));
        let named = cwd.join(cd.unwrap_or(Path::new(".")));
        for path in by_shell.into_iter().chain([named.as_path()]) {
            let refused = |cause| PlaceError::LinkOut { path: path.display().to_string(), cause };
            refuse_links_out(path).map_err(refused)?;
        }
        if let Some(directory) = environment.variables.get("TMPDIR").filter(|directory| !directory.is_empty()) {
            let refused = |cause| PlaceError::Temporary { path: directory.clone(), cause };
            refuse_links_out(&cwd.join(directory)).map_err(refused)?;
        }
        let workspace = Arc::new(Workspace::open(&named)?);
        let variable = |name: &str| environment.variables.get(name).map(OsStr::new);
        let checkout = Checkout::open(around.clone(), variable("PATH"), variable("XDG_CONFIG_HOME").map(Path::new));
        let state = state_directory(environment, around);
        Ok(Place { workspace, checkout: checkout?, state })
    }

    /// Returns the workspace's directory.
    pub fn root(&self) -> &Path {
        self.workspace.root()
    }

    /// Returns the repository's top directory, else the workspace.
    pub fn top(&self) -> &Path {
        self.checkout.top()
    }

    /// Returns the repository.
    pub fn repository(&self) -> Option<&Repository> {
        self.checkout.repository.as_ref()
    }

    /// Returns the directory of the program's state; without one no run can be undone.
    pub fn state(&self) -> Result<&Path, PlaceError> {
        self.state.as_deref().ok_or(PlaceError::NoState)
    }

    /// Returns the cache directory; `None` without a home, if it is inside a checkout around the workspace, or if it is
    /// another user's.
    pub fn cache(&self, environment: &Environment) -> Option<PathBuf> {
        let base = base(environment, "XDG_CACHE_HOME", ".cache")?;
        let usual = base.join("qwen");
        (is_outside(&base, environment, &self.checkout.around) && is_nobody_elses(&usual)).then_some(usual)
    }

    /// Names an approval of this checkout that does not count, because it is kept in a checkout around the workspace.
    pub fn approval_left_out(&self, trusted: &Trusted, environment: &Environment) -> Option<String> {
        let base = base(environment, "XDG_STATE_HOME", ".local/state").filter(|_| !trusted.checkout)?;
        let file = trusted::approval_file(&base.join("qwen"), self.top());
        let left_out = file.symlink_metadata().is_ok() && !is_outside(&base, environment, &self.checkout.around);
        left_out.then(|| {
            format!(
                "the approval {} left out: it is inside a checkout that contains the workspace and may have come with it",
                file.display()
            )
        })
    }

    /// Returns the policy that a run here would have.
    pub fn policy(
        &self,
        named: Option<&str>,
        delivers: bool,
        environment: &Environment,
    ) -> Result<PolicySelection, Failure> {
        self.policy_with(&ToolLists::default(), named, delivers, environment)
    }

    /// Returns the policy that a run here would have, with these lists of tools.
    pub fn policy_with(
        &self,
        lists: &ToolLists,
        named: Option<&str>,
        delivers: bool,
        environment: &Environment,
    ) -> Result<PolicySelection, Failure> {
        let named = named.map(str::to_owned).or_else(|| environment.value("QWEN_POLICY"));
        let trusted = self.trusted(environment)?;
        let chosen = policy_layers::choose(&PolicySources {
            named: named.as_deref(),
            mode: None,
            delivers,
            lists,
            cwd: &environment.cwd,
            top: self.top(),
            trusted: &trusted,
            machine: policy_layers::machine(),
        })?;
        chosen.require_tests(&self.facts(environment))?;
        Ok(chosen)
    }

    /// Returns whose files of the checkout count, as in a run without flags.
    pub fn trusted(&self, environment: &Environment) -> Result<Trusted, Failure> {
        self.trusted_by(&TrustFlags::default(), environment)
    }

    /// Returns whose files of the checkout count.
    pub fn trusted_by(&self, flags: &TrustFlags, environment: &Environment) -> Result<Trusted, Failure> {
        let is_repository = self.repository().is_some();
        approval::find(flags, environment, self.top(), &self.checkout.around, is_repository, self.state.as_deref())
    }

    /// Returns what to load of the settings, by whose files count.
    pub fn settings_request(&self, trusted: &Trusted) -> Result<Request, Failure> {
        let own = || trusted.read_text(self.top(), ".qwen/settings.json");
        Ok(Request {
            project_root: self.top().to_path_buf(),
            around: self.checkout.around.clone(),
            trusted: trusted.checkout,
            trusted_ref: trusted.tree.is_some().then(own).transpose()?.flatten(),
            bare: false,
        })
    }

    /// Returns the facts for decisions, outside a run.
    pub fn facts(&self, environment: &Environment) -> Facts {
        let home = environment.home_text();
        let git = self.repository().map(facts::git_facts).unwrap_or_default();
        facts::facts(&self.workspace, home, PathBuf::new(), Vec::new(), git)
    }
}

/// Looks around the directory that `-C` names, else the working directory, whether it exists or not.
pub fn around(cd: Option<&Path>, environment: &Environment) -> Around {
    let named = environment.cwd.join(cd.unwrap_or(Path::new(".")));
    Around::new(&named, &environment.cwd, environment.home.as_deref())
}

/// Returns the directories outside the workspace that may be read: those of flags, and of the settings. A missing one is
/// an error.
pub fn included(flags: &[PathBuf], settings: &Settings, environment: &Environment) -> Result<Vec<PathBuf>, PlaceError> {
    let real = |folder: &Path| {
        let path = environment.cwd.join(folder);
        refuse_links_out(&path).and_then(|()| path.canonicalize())
    };
    let of_flag = |folder: &PathBuf| {
        real(folder).map_err(|cause| PlaceError::Included { path: folder.display().to_string(), cause })
    };
    let of_settings = |folder: &Valued<String>| {
        real(Path::new(&folder.value)).map_err(|cause| PlaceError::IncludedBySettings {
            origin: folder.origin.clone(),
            path: folder.value.clone(),
            cause,
        })
    };
    flags.iter().map(of_flag).chain(settings.context.include_directories.iter().map(of_settings)).collect()
}

/// Finds the directory of the program's state, or makes one.
fn state_directory(environment: &Environment, around: &Around) -> Option<PathBuf> {
    let base = base(environment, "XDG_STATE_HOME", ".local/state")?;
    let usual = base.join("qwen");
    if is_outside(&base, environment, around) && is_nobody_elses(&usual) {
        return Some(usual);
    }
    let temporary = environment.value("TMPDIR").map(PathBuf::from);
    let temporary = temporary.filter(|place| place.is_absolute() && is_outside(place, environment, around));
    temporary.into_iter().chain([PathBuf::from("/var/tmp")]).find_map(|place| own_directory(&place))
}

/// Finds or makes this user's directory in one for temporary files, where nobody else can put another in its place.
fn own_directory(place: &Path) -> Option<PathBuf> {
    const SHARED: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let user = rustix::process::geteuid().as_raw();
    let around = place.metadata().ok()?;
    let is_safe = around.mode() & SHARED == 0 && [0, user].contains(&around.uid()) || around.mode() & STICKY != 0;
    let own = place.join(format!("qwen-{user}"));
    let made = || std::fs::DirBuilder::new().mode(0o700).create(&own).is_ok();
    let is_ours = || {
        own.symlink_metadata()
            .is_ok_and(|data| data.is_dir() && data.uid() == user && data.mode().trailing_zeros() >= 6)
    };
    (is_safe && (made() || is_ours())).then_some(own)
}

/// Tells whether a directory is not there, or is this user's, and only this user and a group may write to it: whoever
/// else made it chooses what `qwen apply` and `--continue` find there.
fn is_nobody_elses(directory: &Path) -> bool {
    const OTHERS: u32 = 0o002;
    match directory.metadata() {
        Ok(data) => data.uid() == rustix::process::geteuid().as_raw() && data.mode() & OTHERS == 0,
        Err(_) => directory.symlink_metadata().is_err(),
    }
}

/// Tells whether our own files can be kept below a directory: nobody but the user has written there.
fn is_outside(base: &Path, environment: &Environment, around: &Around) -> bool {
    let trail = Trail::of(base);
    if around.checkouts.iter().chain(&around.checkouts_of_cwd).any(|top| trail.passes(top)) {
        return false;
    }
    let home = environment.home.as_deref();
    let came_along = home_came_unpacked(around);
    if came_along && home.is_some_and(|home| base.starts_with(home)) {
        return false;
    }
    // The user may work in the home itself.
    let is_project = |place: &&Path| came_along || !home.is_some_and(|home| home.starts_with(place));
    let places = [around.workspace.as_path(), &around.cwd].into_iter();
    let mut projects = places.filter(|place| around.workspace.starts_with(place)).filter(is_project);
    !projects.any(|place| trail.passes(place))
}

fn base(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let named = environment.value(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| environment.home.as_ref().map(|home| home.join(below_home)))
}
