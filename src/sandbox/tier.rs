//! Detects the isolation tier of this machine by trying each.

use serde::{Deserialize, Serialize};

use crate::policy::grant::{Isolation, Start};
use crate::policy::programs::PLAIN_READERS;
use crate::policy::{CommandPlan, Denial};

/// The strength of the sandbox around a command, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Tier {
    /// None: only a process group.
    T0,
    /// System calls are filtered; files are not protected.
    T1,
    /// Landlock protects files, system calls are filtered, no sockets.
    T2,
    /// In addition, private namespaces for users, mounts, network and processes.
    T3,
}

impl Tier {
    /// Returns the short name that is printed.
    pub fn name(self) -> &'static str {
        match self {
            Tier::T0 => "T0",
            Tier::T1 => "T1",
            Tier::T2 => "T2",
            Tier::T3 => "T3",
        }
    }

    /// Tells whether files outside the command workspace are protected: what `sandbox.require` requires.
    pub fn isolates(self) -> bool {
        self >= Tier::T2
    }
}

impl Tier {
    /// Refuses a command that needs more isolation than is available; `off`: by the operator's `--sandbox off`.
    pub fn admits(self, off: bool, plan: &CommandPlan) -> Result<(), Denial> {
        let enough = match plan.isolation {
            Isolation::None => true,
            Isolation::Waivable => self.isolates() || off,
            Isolation::Required => self.isolates(),
        };
        if enough {
            return Ok(());
        }
        let programs = plan.programs.join(", ");
        let denial = if matches!(plan.start, Start::AsWritten(_)) {
            Denial::new("the command cannot be analysed, and this machine cannot isolate it")
                .hint("write a simpler command, or use a machine with Landlock (Linux 6.2 or newer)")
        } else if off {
            Denial::new(format!("`{programs}` takes a program in its arguments, and commands are not isolated"))
                .hint("leave out `--sandbox off`, or allow it by a `shell.allow` rule in your own policy file")
        } else {
            let name = self.name();
            // `echo x > y` starts no program.
            let what = if programs.is_empty() { "writing a file".to_owned() } else { format!("`{programs}`") };
            Denial::new(format!("{what} is not one of the simple reading commands that run without isolation ({name})"))
                .hint(format!(
                    "use Landlock (Linux 6.2 or newer) or `--sandbox off`; simple reading commands: {PLAIN_READERS}"
                ))
        };
        Err(denial.by("sandbox"))
    }
}

/// What a child found when it tried each part of the sandbox on itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The version of Landlock; 0 without Landlock.
    pub landlock: u32,
    /// Why system calls cannot be filtered, if so.
    pub seccomp: Option<String>,
    /// Why namespaces are unavailable, if so.
    pub namespaces: Option<String>,
    /// Why an overlay cannot be mounted in them, if so.
    pub overlay: Option<String>,
}

/// The first version of Landlock that also guards truncation.
pub(super) const LEAST_LANDLOCK: u32 = 3;

impl Probe {
    /// Returns the strongest tier that was found to work.
    pub fn tier(&self) -> Tier {
        match (&self.seccomp, &self.namespaces) {
            (Some(_), _) => Tier::T0,
            (None, None) => Tier::T3,
            (None, Some(_)) if self.landlock >= LEAST_LANDLOCK => Tier::T2,
            (None, Some(_)) => Tier::T1,
        }
    }

    /// Returns the strongest tier that was found to work and is not above `most`.
    pub fn tier_at_most(&self, most: Tier) -> Tier {
        match self.tier().min(most) {
            // Namespaces without Landlock allow T3, but not T2.
            Tier::T2 if self.landlock < LEAST_LANDLOCK => Tier::T1,
            tier => tier,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(landlock: u32, seccomp: bool, namespaces: bool) -> Probe {
        let why = |works: bool| (!works).then(|| "no".to_owned());
        Probe { landlock, seccomp: why(seccomp), namespaces: why(namespaces), overlay: None }
    }

    #[test]
    fn a_tier_needs_all_its_parts() {
        assert_eq!(probe(7, true, true).tier(), Tier::T3);
        assert_eq!(probe(3, true, false).tier(), Tier::T2);
        assert_eq!(probe(2, true, false).tier(), Tier::T1);
        assert_eq!(probe(7, false, true).tier(), Tier::T0);
        assert!(Tier::T2.isolates() && Tier::T3.isolates() && !Tier::T1.isolates() && !Tier::T0.isolates());
    }
}
