//! Reports which isolation this machine supports, and the one thing that would improve it.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::executable::helper_part;
use super::remembered::Remembered;
use super::request::{Demand, SandboxError};
use super::tier::{LEAST_LANDLOCK, Probe, Tier};
use super::wire::{self, Report};
use crate::marked::Marked;
use crate::policy::CommandPlan;
use crate::policy::grant::Network;
use crate::policy::programs::PLAIN_READERS;

/// Maximum time for the child to try everything.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of `sandbox doctor`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Diagnosis {
    /// The tier that commands would run in.
    pub tier: Tier,
    /// What works.
    pub probe: Probe,
    /// The one thing that would improve it; empty if nothing would.
    pub advice: String,
}

/// Tries everything in a child process. `private` is an empty directory for this use.
pub fn diagnose(helper: &Path, private: &Path) -> io::Result<Diagnosis> {
    make_private_folders(private)?;
    let probe = probe(helper, private);
    Ok(Diagnosis { tier: probe.tier(), advice: advice(&probe), probe })
}

impl Diagnosis {
    /// Returns the diagnosis as text for a person.
    pub fn text(&self) -> String {
        let works = |why: &Option<String>| why.as_ref().map_or("works".to_owned(), |why| format!("no ({why})"));
        let landlock = match self.probe.landlock {
            0 => "no".to_owned(),
            version if version < LEAST_LANDLOCK => format!("version {version}, too old"),
            version => format!("version {version}"),
        };
        if cfg!(target_os = "macos") {
            let (name, means) = (self.tier.name(), means(self.tier));
            return format!("tier         {name}: {means}\nsandbox-exec {}\n", works(&self.probe.seccomp));
        }
        let mut text = format!(
            "tier       {}: {}\nnamespaces {}\noverlay    {}\nlandlock   {landlock}\nseccomp    {}\n",
            self.tier.name(),
            means(self.tier),
            works(&self.probe.namespaces),
            if self.probe.namespaces.is_some() {
                "no (needs namespaces)".to_owned()
            } else {
                works(&self.probe.overlay)
            },
            works(&self.probe.seccomp),
        );
        if !self.tier.isolates() {
            text.push_str(&format!("commands   {ONLY_READERS}: {PLAIN_READERS}\n"));
        }
        if !self.advice.is_empty() {
            text.push_str(&format!("to improve {}\n", self.advice));
        }
        text
    }
}

/// The hint where the kernel isolates nothing.
pub(super) const ONLY_READERS: &str = "only simple reading commands run";

/// Results of earlier probes: the machine does not change during a run.
static FOUND: Mutex<BTreeMap<PathBuf, Arc<OnceLock<Probe>>>> = Mutex::new(BTreeMap::new());

/// Lets a child try everything, once per process; a child that fails means that nothing works.
pub(super) fn probe(helper: &Path, private: &Path) -> Probe {
    let mut all = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let found = Arc::clone(all.entry(helper.to_path_buf()).or_default());
    drop(all);
    let try_all = || match ask("probe", helper, private) {
        Ok(probe) => probe,
        Err(error) => {
            let why = format!("the helper {}: {error}", helper.display());
            Probe { landlock: 0, seccomp: Some(why.clone()), namespaces: Some(why), overlay: None }
        }
    };
    found.get_or_init(try_all).clone()
}

/// The cached result, so that a sandbox that cannot be built clears it.
static REMEMBERED: Mutex<Option<Remembered>> = Mutex::new(None);

/// Clears the cached result, because a sandbox could not be built.
pub(super) fn forget() {
    if let Some(remembered) = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        remembered.forget();
    }
}

/// A probe that runs in the background; dropping this waits for it.
#[derive(Debug)]
pub struct Ahead(Option<JoinHandle<()>>);

/// Starts a probe in the background; later callers get its result, or wait for it.
///
/// With a cache directory, results of the current boot are read from and written to it.
pub fn probe_ahead(helper: PathBuf, cache: Option<&Path>) -> Ahead {
    let remembered = cache.and_then(|cache| Remembered::of(cache, &helper));
    if let Some(known) = remembered.as_ref().and_then(Remembered::probe) {
        let mut all = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(helper).or_default().get_or_init(|| known);
        drop(all);
        *REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner) = remembered;
        return Ahead(None);
    }
    let work = move || {
        // Without a directory, a later caller tries again and reports what is wrong.
        let Ok(folder) = Marked::new("probe-") else { return };
        let Ok(private) = folder.path().canonicalize() else { return };
        if make_private_folders(&private).is_ok() {
            let found = probe(&helper, &private);
            if let Some(remembered) = remembered {
                remembered.keep(&found);
            }
        }
    };
    Ahead(std::thread::Builder::new().name("probe".to_owned()).spawn(work).ok())
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // The caller that asks for the result reports a panic.
            let _ended = thread.join();
        }
    }
}

/// Starts a part of the helper in a directory and returns what it found.
fn ask(part: &str, helper: &Path, folder: &Path) -> io::Result<Probe> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut child = helper_part(helper, part, theirs).current_dir(folder).spawn()?;
    ours.set_read_timeout(Some(PATIENCE))?;
    let found = wire::reports(&ours)?.next();
    if found.is_none() {
        let _ended_already = child.kill();
    }
    child.wait()?;
    match found {
        Some(Report::Probed(probe)) => Ok(probe),
        Some(Report::Started { .. } | Report::Ended(_) | Report::Failed(_)) | None => {
            Err(io::Error::other("it ended without a reply"))
        }
    }
}

/// Tries each part on this process, which cannot be used for anything else afterwards.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the helper works in the directory that it was started in")]
pub(super) fn try_everything() -> Probe {
    let inside = super::namespaces::unshare(false)
        .map_err(|error| error.to_string())
        .and_then(|()| {
            let folder = std::env::current_dir().map_err(|error| error.to_string())?;
            ask("probe-inside", &super::executable::own_executable(), &folder).map_err(|error| error.to_string())
        })
        .unwrap_or_else(|why| Probe { namespaces: Some(why), ..Probe::default() });
    Probe { landlock: super::landlock::try_it(), seccomp: super::seccomp::try_it().err(), ..inside }
}

/// On macOS `sandbox-exec` counts as Landlock and the filter together once it was seen to keep its profile.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "the helper works in the directory that it was started in")]
pub(super) fn try_everything() -> Probe {
    let tried = || {
        let folder =
            std::env::current_dir().and_then(|folder| folder.canonicalize()).map_err(|error| error.to_string())?;
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).map_err(|error| error.to_string())?;
        let home = user.ok_or("this user has no account")?.dir;
        super::macos::try_it(Path::new(super::macos::TOOL), &folder, &home)
    };
    let why = if cfg!(target_os = "macos") { tried().err() } else { Some("not on this system".to_owned()) };
    Probe {
        landlock: if why.is_none() { LEAST_LANDLOCK } else { 0 },
        seccomp: why,
        namespaces: Some("not on this system".to_owned()),
        overlay: None,
    }
}

/// Describes a tier in a few words.
pub fn means(tier: Tier) -> &'static str {
    match tier {
        Tier::T3 => "namespaces, Landlock and a system call filter",
        Tier::T2 if cfg!(target_os = "macos") => "a sandbox-exec profile (not tested yet)",
        Tier::T2 => "Landlock and a system call filter; command lines of other processes can be read",
        Tier::T1 => "a system call filter; files are not protected",
        Tier::T0 => "nothing",
    }
}

/// Returns the one thing that would improve the isolation; empty if nothing would.
pub fn advice(probe: &Probe) -> String {
    if cfg!(target_os = "macos") {
        return String::new();
    }
    if let Some(why) = &probe.seccomp {
        return format!("system calls cannot be filtered ({why}): a kernel with CONFIG_SECCOMP_FILTER is needed");
    }
    if let Some(why) = &probe.namespaces {
        if probe.landlock == 0 {
            return "enable Landlock: `landlock` in the kernel's `lsm=` list, Linux 6.2 or newer".to_owned();
        }
        if probe.landlock < LEAST_LANDLOCK {
            return format!(
                "Landlock is of version {} and {LEAST_LANDLOCK} is needed: Linux 6.2 or newer",
                probe.landlock
            );
        }
        let first = why.lines().next().unwrap_or_default();
        return format!(
            "allow unprivileged user namespaces ({first}): \
             `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, \
             `sysctl -w user.max_user_namespaces=10000` elsewhere, \
             in a container `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`"
        );
    }
    if let Some(why) = &probe.overlay {
        return format!("overlays cannot be mounted ({why}): with Linux 5.11 or newer a large workspace needs no copy");
    }
    String::new()
}

/// What is required of the sandbox, and what the machine supports.
#[derive(Debug, Clone)]
pub struct Confinement {
    pub(super) demand: Demand,
    pub(super) tier: Tier,
    pub(super) probe: Probe,
    pub(super) network: Network,
}

impl Confinement {
    /// Detects what the machine supports: starts a child process that tries each part on itself, in `private`, a
    /// directory of the run alone. Returns [`SandboxError::Unmet`] if the required isolation is unavailable.
    ///
    /// `network` is what commands may reach at most.
    pub fn detect(
        demand: Demand,
        network: Network,
        helper: &Path,
        private: &Path,
    ) -> Result<Confinement, SandboxError> {
        let failed = || SandboxError::io(private.display().to_string());
        let real = private.canonicalize().map_err(failed())?;
        make_private_folders(&real).map_err(failed())?;
        let probe = match demand {
            Demand::Off => Probe::default(),
            Demand::Auto | Demand::Require | Demand::AtMost(_) => probe(helper, &real),
        };
        let tier = match demand {
            Demand::Off => Tier::T0,
            Demand::AtMost(most) => probe.tier_at_most(most),
            Demand::Auto | Demand::Require => probe.tier(),
        };
        if demand == Demand::Require && !tier.isolates() {
            return Err(SandboxError::Unmet { tier: tier.name(), reason: advice(&probe) });
        }
        Ok(Confinement { demand, tier, probe, network })
    }

    /// Returns the tier that commands run in.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Tells whether a command may run at all: see [`Tier::admits`].
    pub fn may_run(&self, plan: &CommandPlan) -> Result<(), SandboxError> {
        let hosts = matches!(self.network_of(plan), Network::Hosts(_));
        if hosts && self.tier < Tier::T3 && self.demand != Demand::Off {
            return Err(SandboxError::Refused(
                "the policy allows commands to reach certain hosts only, which needs isolation tier T3 (user namespaces; see `qwen \
                 sandbox doctor`): use `[]` or `any` in the policy, or --sandbox off"
                    .to_owned(),
            ));
        }
        self.tier
            .admits(self.demand == Demand::Off, plan)
            .map_err(|denial| SandboxError::Refused(format!("{} ({})", denial.reason, denial.hint.unwrap_or_default())))
    }

    /// Returns what a command may reach.
    pub(super) fn network_of(&self, plan: &CommandPlan) -> Network {
        plan.profile.network.clone().within(&self.network)
    }

    /// Tells whether an overlay can be used instead of a copy.
    pub fn has_overlay(&self) -> bool {
        self.tier == Tier::T3 && self.probe.overlay.is_none()
    }

    /// Returns one line for the start of the run.
    pub fn describe(&self) -> String {
        match (self.demand, self.tier) {
            (Demand::Off, _) => "not isolated (--sandbox off): only the policy's command rules apply".to_owned(),
            (Demand::Auto | Demand::Require | Demand::AtMost(_), tier @ (Tier::T2 | Tier::T3)) => {
                let network = match &self.network {
                    Network::Any => ", network open".to_owned(),
                    Network::Hosts(hosts) => format!(", network: {}", hosts.join(" ")),
                    Network::None => String::new(),
                };
                format!("{}: {}{network}", tier.name(), means(tier))
            }
            (Demand::Auto | Demand::Require | Demand::AtMost(_), tier @ (Tier::T0 | Tier::T1)) => {
                format!("{}: not isolated, {} ({})", tier.name(), ONLY_READERS, advice(&self.probe))
            }
        }
    }
}

/// The directories of every command for what is nobody else's.
pub(super) const HOME_AND_TMP: [&str; 2] = ["home", "tmp"];

/// Makes the directories that every command has: its home, its temporary directory, and a place to mount at.
pub(super) fn make_private_folders(private: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    HOME_AND_TMP
        .iter()
        .chain(["root"].iter())
        .try_for_each(|name| std::fs::DirBuilder::new().recursive(true).mode(0o700).create(private.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doctor_names_one_thing_that_would_help() {
        let probe = Probe {
            landlock: 6,
            seccomp: None,
            namespaces: Some("EPERM: Operation not permitted".to_owned()),
            overlay: None,
        };
        let text = Diagnosis { tier: probe.tier(), advice: advice(&probe), probe }.text();
        insta::assert_snapshot!(text, @r"
        tier       T2: Landlock and a system call filter; command lines of other processes can be read
        namespaces no (EPERM: Operation not permitted)
        overlay    no (needs namespaces)
        landlock   version 6
        seccomp    works
        to improve allow unprivileged user namespaces (EPERM: Operation not permitted): `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, `sysctl -w user.max_user_namespaces=10000` elsewhere, in a container `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`
        ");
        let best = Probe { landlock: 7, ..Probe::default() };
        assert_eq!(advice(&best), "");
    }
}
