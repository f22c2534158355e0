//! Assigns the names under which the model calls the tools of servers.

use std::collections::BTreeSet;

use crate::tool_name::{plain, sent};

/// What the full name of a server's tool begins with.
const MCP: &str = "mcp__";

/// A tool with the name that the model sees, and the other names that a call may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What is sent.
    pub name: String,
    /// What is accepted next to it: `mcp__server__tool`, and the name with its dots.
    pub aliases: Vec<String>,
}

/// Assigns names to tools, in the order of the settings.
///
/// The first tool of a name keeps it. One whose name is taken, by another server or a built-in tool, or looks like
/// another server's, gets `server__tool`; `None` if even that is taken.
pub fn assign<'a>(
    tools: impl IntoIterator<Item = (&'a str, &'a str)>,
    servers: &[&str],
    is_taken: impl Fn(&str) -> bool,
) -> Vec<Option<Named>> {
    let is_joined = |of: &str, name: &str| {
        let others = servers.iter().filter(|server| **server != of);
        name.starts_with(MCP) || others.into_iter().any(|server| name.starts_with(&plain(&format!("{server}__"))))
    };
    let mut taken: BTreeSet<String> = BTreeSet::new();
    tools
        .into_iter()
        .map(|(server, tool)| {
            let bare = Some(sent(tool)).filter(|name| !is_joined(server, name));
            let names = bare.into_iter().chain([sent(&format!("{server}__{tool}"))]);
            let name = names.into_iter().find(|name| !is_taken(name) && !taken.contains(name))?;
            taken.insert(name.clone());
            let full = format!("{MCP}{server}__{tool}");
            let mut aliases = vec![sent(&full), full];
            if name == sent(tool) {
                aliases.push(plain(tool));
            }
            aliases.retain(|alias| *alias != name);
            aliases.dedup();
            Some(Named { name, aliases })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tool_name::LONGEST;

    fn names(tools: &[(&str, &str)]) -> Vec<String> {
        let is_ours = |name: &str| name == "read_file";
        let named = assign(tools.iter().copied(), &["a", "b", "c", "d"], is_ours);
        named.into_iter().map(|named| named.map_or("-".into(), |n| n.name)).collect()
    }

    #[test]
    fn the_first_server_keeps_a_name_and_nobody_shadows_a_built_in() {
        assert_eq!(
            names(&[("a", "get"), ("b", "get"), ("b", "read_file"), ("b", "get"), ("c", "x.y"), ("d", "x_y")]),
            ["get", "b__get", "b__read_file", "-", "x_y", "d__x_y"]
        );
    }

    #[test]
    fn a_name_that_looks_like_another_servers_is_joined_to_its_own() {
        let looks = [("a", "b__get"), ("a", "mcp__b__get"), ("b", "get"), ("a", "a__own"), ("a", "x__y")];
        assert_eq!(names(&looks), ["a__b__get", "a__mcp__b__get", "get", "a__own", "x__y"]);
    }

    #[test]
    fn a_call_may_use_the_full_name_and_the_dots() {
        let named = |taken: bool| {
            assign([("git hub", "issue.get")], &["git hub"], |name| taken && name == "issue_get").remove(0).unwrap()
        };
        assert_eq!(named(false).name, "issue_get");
        assert_eq!(named(false).aliases, ["mcp__git_hub__issue_get", "mcp__git hub__issue.get", "issue.get"]);
        // The dots are of the name that it has.
        assert_eq!(named(true).name, "git_hub__issue_get");
        assert_eq!(named(true).aliases, ["mcp__git_hub__issue_get", "mcp__git hub__issue.get"]);
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
            let names: Vec<String> = assign(pairs, &[], |_| false).into_iter().flatten().map(|named| named.name).collect();
            for name in &names {
                prop_assert!(name.len() <= LONGEST && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)));
            }
            let distinct: BTreeSet<&String> = names.iter().collect();
            prop_assert_eq!(distinct.len(), names.len());
        }
    }
}
