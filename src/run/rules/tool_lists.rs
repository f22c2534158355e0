//! Reads lists of tools from flags and settings (`tools.core`, `exclude`, `allowed`, `permissions`).
//!
//! Every list is enforced with its arguments in every mode; only the operator's `allowed` adds anything, and only to a
//! built-in policy.

use crate::cli::RunArgs;
use crate::cli::values::list;
use crate::policy::lists::{EntryContext, ToolEntry, ToolLists};
use crate::settings::{Settings, Valued};

use crate::run::error::PolicyError;

/// Reads the flags and the settings.
pub fn of(arguments: &RunArgs, settings: &Settings, around: EntryContext<'_>) -> Result<ToolLists, PolicyError> {
    let flags = &arguments.policy;
    let flag =
        |values: &[String], name: &str| read(values.iter().map(|value| (value.as_str(), name.to_owned())), around);
    let keys = |lists: &[&[Valued<String>]]| {
        let values = lists.iter().flat_map(|list| list.iter());
        read(values.map(|value| (value.value.as_str(), value.origin.to_string())), around)
    };
    let mut allowed = flag(&flags.allowed_tools, "--allowed-tools")?;
    allowed.extend(keys(&[&settings.tools.allowed, &settings.permissions.allow])?);
    let mut core = Vec::new();
    for list in &settings.tools.core {
        let origin = list.origin.to_string();
        core.push(read(list.value.iter().map(|value| (value.as_str(), origin.clone())), around)?);
    }
    if !flags.core_tools.is_empty() {
        core.push(flag(&flags.core_tools, "--core-tools")?);
    }
    let mut excluded = flag(&flags.exclude_tools, "--exclude-tools")?;
    excluded.extend(keys(&[&settings.tools.exclude, &settings.tools.disabled])?);
    excluded.extend(keys(&[&settings.permissions.deny, &settings.permissions.ask])?);
    Ok(ToolLists { allowed, core, excluded })
}

fn read<'a>(
    values: impl Iterator<Item = (&'a str, String)>,
    around: EntryContext<'_>,
) -> Result<Vec<ToolEntry>, PolicyError> {
    let mut entries = Vec::new();
    for (value, origin) in values {
        for text in list(value) {
            let entry = ToolEntry::parse(&text, &origin, around).map_err(|problem| {
                let (origin, text) = (origin.clone(), text.clone());
                PolicyError::ToolList { origin, text, problem }
            })?;
            entries.push(entry);
        }
    }
    Ok(entries)
}
