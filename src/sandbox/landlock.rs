//! Restricts which files a command may touch with Landlock, whatever its user may.
//!
//! Landlock does not hide metadata: names, sizes, modes and times can be seen, and the owner of a file can change its
//! mode and times from inside. T3 hides the files as well.

use std::ffi::OsString;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::tier::Tier;
use super::wire::Permissions;

/// The newest known version of Landlock; an older kernel guards what it can.
const NEWEST: ABI = ABI::V9;

/// The version that T2 requires.
const LEAST: ABI = ABI::V3;

/// Restricts this process and its children to the files of the sandbox. Returns whether sockets outside without a file,
/// and processes outside, are out of reach as well: since Linux 6.12.
pub(super) fn confine(permissions: &Permissions) -> Result<bool, String> {
    let required = permissions.tier == Tier::T2;
    let status = ruleset(permissions, required).map_err(|error| format!("Landlock: {error}"))?;
    if required && status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock: the kernel does not enforce it".to_owned());
    }
    Ok(matches!(status.landlock, LandlockStatus::Available { effective_abi, .. } if effective_abi >= ABI::V6))
}

fn ruleset(permissions: &Permissions, required: bool) -> Result<RestrictionStatus, RulesetError> {
    let level = if required { CompatLevel::HardRequirement } else { CompatLevel::BestEffort };
    let mut ruleset = Ruleset::default()
        .set_compatibility(level)
        .handle_access(AccessFs::from_all(LEAST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    // In T3 the network is private; otherwise the system call filter already denies sockets.
    if !permissions.network && permissions.tier != Tier::T3 {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let mut created = ruleset.create()?.set_compatibility(CompatLevel::BestEffort);
    created = allow(created, &permissions.write, writing())?;
    created = allow(created, &permissions.read, reading())?;
    created = allow(created, &permissions.devices, AccessFs::ReadFile | AccessFs::WriteFile)?;
    created = allow(created, &["/proc".into()], reading())?;
    if permissions.tier == Tier::T3 {
        let terminals = reading() | AccessFs::WriteFile | AccessFs::IoctlDev;
        created = allow(created, &["/dev/pts".into(), "/dev/ptmx".into()], terminals)?;
        created = allow(created, &["/dev/shm".into(), "/tmp".into()], writing())?;
        // The root and the directories on the way contain nothing else.
        created = allow(created, &["/".into(), "/dev".into()], AccessFs::ReadDir.into())?;
    }
    created.restrict_self()
}

/// Adds a rule for each path that exists.
fn allow(
    mut ruleset: RulesetCreated,
    paths: &[OsString],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    for path in paths {
        let Ok(metadata) = std::fs::metadata(path) else { continue };
        let Ok(descriptor) = PathFd::new(path) else { continue };
        let access = if metadata.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
        if !access.is_empty() {
            ruleset = ruleset.add_rule(PathBeneath::new(descriptor, access))?;
        }
    }
    Ok(ruleset)
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir
}

/// Everything except device nodes: a program that can make one can read the whole disk.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

/// Restricts this process without any rule, and returns the version of Landlock; 0 if there is none.
pub(super) fn try_it() -> u32 {
    let outcome = (|| {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .create()?
            .restrict_self()
    })();
    match outcome.map(|status| status.landlock) {
        Ok(LandlockStatus::Available { effective_abi, .. }) => effective_abi as u32,
        Ok(LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) | Err(_) => 0,
    }
}
