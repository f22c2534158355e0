//! Reads lists of tools from flags and settings (`tools.core`, `exclude`, `allowed`, `permissions`).
//!
//! Every list is enforced with its arguments in every mode; only the operator's `allowed` adds anything, and only to a
//! built-in policy.

use crate::cli::RunArgs;
use crate::cli::values::list;
use crate::exit::Exit;
use crate::policy::Policy;
use crate::policy::lists::{EntryContext, ToolEntry};
use crate::settings::{Settings, Valued};

use super::Failure;

/// Lists of tools from flags and settings.
#[derive(Debug, Default)]
pub struct ToolLists {
    /// Entries that a built-in policy additionally allows.
    pub allowed: Vec<ToolEntry>,
    /// Lists that keep only what they name.
    pub core: Vec<Vec<ToolEntry>>,
    /// Excluded entries.
    pub excluded: Vec<ToolEntry>,
}

impl ToolLists {
    /// Reads the flags and the settings.
    pub fn of(arguments: &RunArgs, settings: &Settings, around: EntryContext<'_>) -> Result<ToolLists, Failure> {
        let flags = &arguments.policy;
        let flag =
            |values: &[String], name: &str| read(values.iter().map(|value| (value.as_str(), name.to_owned())), around);
        let keys = |lists: &[&[Valued<String>]]| {
            let values = lists.iter().flat_map(|list| list.iter());
            read(values.map(|value| (value.value.as_str(), value.origin.to_string())), around)
        };
        let mut allowed = flag(&flags.allowed_tools, "--allowed-tools")?;
        allowed.extend(keys(&[&settings.tools_allowed, &settings.permissions_allow])?);
        let mut core = Vec::new();
        for list in &settings.tools_core {
            let origin = list.origin.to_string();
            core.push(read(list.value.iter().map(|value| (value.as_str(), origin.clone())), around)?);
        }
        if !flags.core_tools.is_empty() {
            core.push(flag(&flags.core_tools, "--core-tools")?);
        }
        let mut excluded = flag(&flags.exclude_tools, "--exclude-tools")?;
        excluded.extend(keys(&[&settings.tools_exclude, &settings.tools_disabled])?);
        excluded.extend(keys(&[&settings.permissions_deny, &settings.permissions_ask])?);
        Ok(ToolLists { allowed, core, excluded })
    }

    /// Returns the policy with what the lists add and exclude.
    pub fn apply(&self, policy: &Policy) -> Policy {
        let allowing = policy.allowing(&self.allowed);
        self.core.iter().fold(allowing, |policy, list| policy.only(list)).without(&self.excluded)
    }

    /// Returns warnings about entries that do less, or more, than they seem to.
    pub fn warnings(&self) -> Vec<String> {
        let kept = self.allowed.iter().chain(self.core.iter().flatten());
        let taken = self.excluded.iter().filter_map(ToolEntry::takes_more);
        kept.filter_map(ToolEntry::allows_nothing).chain(taken).collect()
    }

    /// Returns a warning for each entry that names no tool; see [`ToolEntry::unknown`].
    pub fn unknown(&self, foreign: &[String], servers: &[(String, Option<Vec<String>>)]) -> Vec<String> {
        let entries = self.allowed.iter().chain(self.core.iter().flatten()).chain(&self.excluded);
        entries.filter_map(|entry| entry.unknown(foreign, servers)).collect()
    }
}

fn read<'a>(
    values: impl Iterator<Item = (&'a str, String)>,
    around: EntryContext<'_>,
) -> Result<Vec<ToolEntry>, Failure> {
    let mut entries = Vec::new();
    for (value, origin) in values {
        for text in list(value) {
            let entry = ToolEntry::parse(&text, &origin, around).map_err(|problem| {
                Failure::new(
                    Exit::Config,
                    format!("{origin}: `{text}` in a list of tools: {problem}"),
                    "write a tool's name, or run_shell_command(COMMAND), WebFetch(domain:HOST), Read(GLOB), \
                     Edit(GLOB), mcp__SERVER(TOOL)",
                )
            })?;
            entries.push(entry);
        }
    }
    Ok(entries)
}
