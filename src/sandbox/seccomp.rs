//! Filters system calls: no new namespaces or mounts, no access to other processes, no sockets below T3.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::tier::Tier;
use super::wire::{Kept, Permissions};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The number of `kexec_file_load`, which libc does not name for musl on aarch64.
const KEXEC_FILE_LOAD: i64 = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

/// Denied everywhere, whatever their arguments are.
const NEVER: &[i64] = &[
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Ways around this filter, and large attack surfaces of the kernel.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine itself.
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Shared memory, queues and semaphores of System V and POSIX: denied where they are shared with the rest of the
/// machine, below T3. An object is reached by a small number that anybody can guess, so no call on one is allowed.
const SHARED: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls that send a signal to the process in their first argument, or get hold of it: denied for this program's
/// processes, below T3. Which processes are a command's own, a filter cannot know.
const SIGNALS: &[i64] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
];

/// Calls that set what the process in their first argument may use: allowed for the caller alone, as 0, below T3.
const TO_A_PROCESS: &[i64] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// As [`TO_A_PROCESS`]; the first argument says what the second one names, with this number for one process.
const TO_SOME_PROCESSES: &[(i64, u64)] = &[(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// Change other metadata of a file, regardless of Landlock. The numbers are those of `fchmodat2`, `setxattrat`,
/// `removexattrat` and `file_setattr`, the same on every architecture.
const ATTRIBUTES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    452,
    463,
    466,
    469,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// Change the time of a file, regardless of Landlock.
const TIMES: &[i64] = &[
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Each way to ask `clone` for a namespace.
const CLONE_NAMESPACES: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Requests of `fcntl` that have a process get signals: `F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`.
const FCNTL_SIGNALS: &[u64] = &[8, 10, 15];

/// The same of `ioctl`: `FIOSETOWN`, `SIOCSPGRP`.
const IOCTL_SIGNALS: &[u64] = &[0x8901, 0x8902];

/// Calls that set the mode of a file, whatever Landlock protects, with the place of the mode.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (452, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
];

/// Inject input into a terminal.
const TERMINAL_INJECTIONS: &[u64] = &[0x5412, 0x541C];

/// Calls of x86-64's x32 interface that have numbers of their own: ioctl, ptrace, kexec_load, process_vm_*,
/// rt_sigqueueinfo, rt_tgsigqueueinfo. Nothing that runs here needs them.
#[cfg(target_arch = "x86_64")]
const X32_OWN: &[i64] = &[514, 521, 524, 528, 536, 539, 540];

/// Filters the system calls of this process and of its children, from now on. `is_scoped`: Landlock keeps them from
/// sockets outside that have no file.
pub(super) fn confine(permissions: &Permissions, is_scoped: bool) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("seccomp: {error}");
    let denied = rules(permissions, is_scoped).map_err(|error| failed(&error))?;
    // glibc falls back to `clone`, whose flags can be checked, if this call does not seem to exist.
    let unknown = Rules::from([(libc::SYS_clone3, Vec::new())]);
    for (rules, errno) in [(denied, libc::EPERM), (unknown, libc::ENOSYS)] {
        let action = SeccompAction::Errno(errno.unsigned_abs());
        let architecture = std::env::consts::ARCH.try_into().map_err(|error: BackendError| failed(&error))?;
        let filter = SeccompFilter::new(with_x32(rules), SeccompAction::Allow, action, architecture);
        let program: seccompiler::BpfProgram =
            filter.and_then(TryInto::try_into).map_err(|error: BackendError| failed(&error))?;
        seccompiler::apply_filter(&program).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn rules(permissions: &Permissions, is_scoped: bool) -> Result<Rules, BackendError> {
    let mut rules: Rules = NEVER.iter().map(|call| (*call, Vec::new())).collect();
    let has_bit =
        |place, bit: u64| SeccompCondition::new(place, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bit), bit);
    for flag in CLONE_NAMESPACES {
        add(&mut rules, libc::SYS_clone, vec![has_bit(0, u64::from(flag.unsigned_abs()))?])?;
    }
    for request in TERMINAL_INJECTIONS {
        add(&mut rules, libc::SYS_ioctl, vec![compare(1, SeccompCmpOp::Eq, *request)?])?;
    }
    for (call, place) in mknod_calls() {
        for kind in [libc::S_IFCHR, libc::S_IFBLK] {
            let kind_of = SeccompCmpOp::MaskedEq(u64::from(libc::S_IFMT));
            add(&mut rules, call, vec![compare(place, kind_of, u64::from(kind))?])?;
        }
    }
    if permissions.tier < Tier::T3 {
        rules.extend(SHARED.iter().map(|call| (*call, Vec::new())));
        for call in SIGNALS {
            for pid in permissions.guarded.iter().chain([-1].iter()) {
                // As the low half of the register: the kernel reads an `int` from it.
                let pid = u64::from(u32::from_ne_bytes(pid.to_ne_bytes()));
                add(&mut rules, *call, vec![compare(0, SeccompCmpOp::Eq, pid)?])?;
            }
        }
        for call in TO_A_PROCESS {
            add(&mut rules, *call, vec![compare(0, SeccompCmpOp::Ne, 0)?])?;
        }
        for (call, one) in TO_SOME_PROCESSES {
            add(&mut rules, *call, vec![compare(0, SeccompCmpOp::Ne, *one)?])?;
            add(&mut rules, *call, vec![compare(1, SeccompCmpOp::Ne, 0)?])?;
        }
    }
    if permissions.tier < Tier::T3 && !is_scoped {
        guard_threads(&mut rules, permissions)?;
        // A directory of /proc gets hold of a process as well.
        rules.insert(libc::SYS_pidfd_send_signal, Vec::new());
        for (call, requests) in [(libc::SYS_fcntl, FCNTL_SIGNALS), (libc::SYS_ioctl, IOCTL_SIGNALS)] {
            for request in requests {
                add(&mut rules, call, vec![compare(1, SeccompCmpOp::Eq, *request)?])?;
            }
        }
    }
    if permissions.tier < Tier::T3 {
        // A program that others start with the rights of its owner would outlive the sandbox.
        for (call, place) in MODES {
            let bit = u64::from(libc::S_ISUID);
            add(&mut rules, *call, vec![compare(*place, SeccompCmpOp::MaskedEq(bit), bit)?])?;
        }
        let kept: &[&[i64]] = match permissions.kept {
            Kept::Nothing => &[],
            Kept::Times => &[TIMES],
            Kept::Attributes => &[TIMES, ATTRIBUTES],
        };
        rules.extend(kept.iter().copied().flatten().map(|call| (*call, Vec::new())));
    }
    add_sockets(&mut rules, permissions, is_scoped)?;
    Ok(rules)
}

/// Keeps signals from the threads of this program. What commands start has later numbers; one rule for each thread would be
/// longer than the kernel allows.
fn guard_threads(rules: &mut Rules, permissions: &Permissions) -> Result<(), BackendError> {
    let Some((first, last)) = permissions.threads else { return Ok(()) };
    let [first, last] = [first, last].map(|thread| u64::from(thread.unsigned_abs()));
    SIGNALS.iter().try_for_each(|call| {
        let range = vec![compare(0, SeccompCmpOp::Ge, first)?, compare(0, SeccompCmpOp::Le, last)?];
        add(rules, *call, range)
    })
}

/// Below T3 no socket at all, or with an open network Internet sockets only: a local socket may lead out of any
/// sandbox. In T3 it does so with an open network, whose names of local sockets are those of the machine, unless Landlock
/// guards them.
fn add_sockets(rules: &mut Rules, permissions: &Permissions, is_scoped: bool) -> Result<(), BackendError> {
    let mut families = match (permissions.tier < Tier::T3, permissions.network) {
        (true, false) => {
            rules.insert(libc::SYS_socket, Vec::new());
            return Ok(());
        }
        (true, true) => vec![libc::AF_INET, libc::AF_INET6],
        (false, true) if !is_scoped => vec![libc::AF_INET, libc::AF_INET6],
        (false, _) => vec![libc::AF_INET, libc::AF_INET6, libc::AF_UNIX],
    };
    families.push(libc::AF_NETLINK);
    let others = families.iter().map(|family| compare(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    add(rules, libc::SYS_socket, others)?;
    // Of netlink only what lists interfaces and routes.
    let netlink = compare(0, SeccompCmpOp::Eq, u64::from(libc::AF_NETLINK.unsigned_abs()))?;
    add(rules, libc::SYS_socket, vec![netlink, compare(2, SeccompCmpOp::Ne, 0)?])
}

fn compare(place: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(place, SeccompCmpArgLen::Dword, how, value)
}

fn add(rules: &mut Rules, call: i64, conditions: Vec<SeccompCondition>) -> Result<(), BackendError> {
    let conditional = SeccompRule::new(conditions)?;
    rules.entry(call).or_default().push(conditional);
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn mknod_calls() -> Vec<(i64, u8)> {
    vec![(libc::SYS_mknod, 1), (libc::SYS_mknodat, 2)]
}

#[cfg(not(target_arch = "x86_64"))]
fn mknod_calls() -> Vec<(i64, u8)> {
    vec![(libc::SYS_mknodat, 2)]
}

/// Adds the same calls by their other numbers: some kernels offer the x32 interface to every program.
#[cfg(target_arch = "x86_64")]
fn with_x32(rules: Rules) -> Rules {
    const BIT: i64 = 0x4000_0000;
    let mut all: Rules = rules.iter().map(|(call, how)| (call | BIT, how.clone())).collect();
    all.extend(X32_OWN.iter().map(|call| (call | BIT, Vec::new())));
    all.extend(rules);
    all
}

#[cfg(not(target_arch = "x86_64"))]
fn with_x32(rules: Rules) -> Rules {
    rules
}

/// Installs a filter without effect on this process; the error says why it cannot be done.
pub(super) fn try_it() -> Result<(), String> {
    let permissions = Permissions {
        tier: Tier::T1,
        read: Vec::new(),
        write: Vec::new(),
        devices: Vec::new(),
        network: false,
        proxied: false,
        kept: Kept::Nothing,
        view: None,
        guarded: Vec::new(),
        threads: None,
    };
    confine(&permissions, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_compiles_for_every_tier_and_fits_the_kernel() {
        for tier in [Tier::T1, Tier::T2, Tier::T3] {
            for network in [false, true] {
                let permissions = Permissions {
                    tier,
                    read: Vec::new(),
                    write: Vec::new(),
                    devices: Vec::new(),
                    network,
                    proxied: false,
                    kept: Kept::Attributes,
                    view: None,
                    guarded: vec![1000, 2000, -500],
                    threads: Some((1000, 1040)),
                };
                let rules = with_x32(rules(&permissions, false).unwrap());
                let architecture = std::env::consts::ARCH.try_into().unwrap();
                let action = SeccompAction::Errno(1);
                let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture).unwrap();
                let program: seccompiler::BpfProgram = filter.try_into().unwrap();
                assert!(program.len() < 4096, "{tier:?} {network}: {}", program.len());
            }
        }
    }
}
