//! What the model calls the tools of servers.

use std::collections::BTreeSet;

/// The longest name that every provider takes.
pub const LONGEST: usize = 63;

/// A tool with the name that the model sees, and the other names that a call may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What is sent.
    pub name: String,
    /// What is accepted beside it: `mcp__server__tool`, and the name with its dots.
    pub aliases: Vec<String>,
}

/// Gives names to tools, in the order of the settings.
///
/// The first with a name keeps it bare. One whose name is taken, by another server or by a tool of ours, gets
/// `server__tool`; `None` if even that is taken.
pub fn assign<'a>(
    tools: impl IntoIterator<Item = (&'a str, &'a str)>,
    is_ours: impl Fn(&str) -> bool,
) -> Vec<Option<Named>> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    tools
        .into_iter()
        .map(|(server, tool)| {
            let whole = format!("{server}__{tool}");
            let name = [tool, &whole].into_iter().map(sent).find(|name| !is_ours(name) && !taken.contains(name))?;
            taken.insert(name.clone());
            let mut aliases =
                vec![format!("mcp__{server}__{tool}"), plain(tool), sent(&format!("mcp__{server}__{tool}"))];
            aliases.retain(|alias| *alias != name);
            aliases.dedup();
            Some(Named { name, aliases })
        })
        .collect()
}

/// Returns a name as it is sent: only what every provider takes, and a dot is an underscore.
pub fn sent(name: &str) -> String {
    plain(name).replace('.', "_")
}

/// Characters outside `[A-Za-z0-9_.-]` become `_`; of a long name the middle becomes `___`.
fn plain(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' }).collect();
    if name.len() <= LONGEST {
        return name;
    }
    format!("{}___{}", &name[..28], &name[name.len() - 32..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(tools: &[(&str, &str)]) -> Vec<String> {
        let is_ours = |name: &str| name == "read_file";
        assign(tools.iter().copied(), is_ours).into_iter().map(|named| named.map_or("-".into(), |n| n.name)).collect()
    }

    #[test]
    fn the_first_server_keeps_a_name_and_nobody_shadows_a_built_in() {
        assert_eq!(
            names(&[("a", "get"), ("b", "get"), ("b", "read_file"), ("b", "get"), ("c", "x.y"), ("d", "x_y")]),
            ["get", "b__get", "b__read_file", "-", "x_y", "d__x_y"]
        );
    }

    #[test]
    fn a_call_may_use_the_full_name_and_the_dots() {
        let named = assign([("git hub", "issue.get")], |_| false).remove(0).unwrap();
        assert_eq!(named.name, "issue_get");
        assert_eq!(named.aliases, ["mcp__git hub__issue.get", "issue.get", "mcp__git_hub__issue_get"]);
    }

    #[test]
    fn a_long_name_loses_its_middle() {
        let name = sent(&format!("{}{}", "a".repeat(40), "b".repeat(40)));
        assert_eq!(name, format!("{}___{}", "a".repeat(28), "b".repeat(32)));
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_providers_take_and_none_stands_twice(tools in prop::collection::vec((".{0,40}", ".{0,80}"), 0..8)) {
            let pairs = tools.iter().map(|(server, tool)| (server.as_str(), tool.as_str()));
            let names: Vec<String> = assign(pairs, |_| false).into_iter().flatten().map(|named| named.name).collect();
            for name in &names {
                prop_assert!(name.len() <= LONGEST && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)));
            }
            let distinct: BTreeSet<&String> = names.iter().collect();
            prop_assert_eq!(distinct.len(), names.len());
        }
    }
}
