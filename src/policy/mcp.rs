//! Decides calls of MCP tools by server and tool, the pin of the definition and the paths among the arguments.

use std::path::PathBuf;

use serde_json::Value;
use url::Url;

use super::access::Pin;
use super::decision::{Denial, RuleRef};
use super::file::DefaultRule;
use super::glob::fold_name;
use super::layers::Layer;
use crate::tool_name::sent;

/// Judges a call by its pair and pin; the rule that allowed it is the granting layer's.
pub(crate) fn judge(layers: &[Layer], server: &str, tool: &str, pin: Pin) -> Result<Option<RuleRef>, Denial> {
    let plain = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '*');
    if !plain(server) || !plain(tool) {
        return Err(Denial::new(format!("({server:?}, {tool:?}) does not name a server and a tool")).by("mcp"));
    }
    let mut allowed_by = None;
    for layer in layers {
        if layer.rules.mcp.servers.is_none() && layer.rules.mcp.default.is_none() {
            if layer.grants {
                return Err(Denial::new(format!("{} allows no MCP tools", layer.origin.source))
                    .by("mcp")
                    .hint(words(layer, server, tool)));
            }
            continue;
        }
        let rules = layer.rules.mcp.servers.as_ref().and_then(|servers| servers.get(server));
        if let Some(rules) = rules
            && rules.value.deny.iter().any(|pattern| {
                // The model sees other letters as `_`: who takes away what is seen takes it away.
                let pattern = fold_name(pattern);
                [tool.to_owned(), sent(tool)].iter().any(|name| matches(&pattern, &fold_name(name)))
            })
        {
            return Err(Denial::new(format!("the tool {tool} of {server} is denied")).by_rule(rules.at.clone()));
        }
        match rules.and_then(|rules| rules.value.allow.as_ref()) {
            Some(allow) if allow.iter().any(|pattern| matches(pattern, tool)) => {}
            None if layer.rules.mcp.default == Some(DefaultRule::Allow) => {}
            Some(allow) => {
                let denial = Denial::new(format!("no rule allows the tool {tool} of {server}"));
                let denial = denial.hint(format!("allowed are {}", allow.join(", ")));
                return Err(match rules {
                    Some(rules) => denial.by_rule(rules.at.clone()),
                    None => denial,
                });
            }
            None => {
                let denial = Denial::new(format!("no rule of `mcp.servers` in {} names {server}", layer.origin.source));
                return Err(denial.by("mcp").hint(words(layer, server, tool)));
            }
        }
        if let Some(rules) = rules {
            if rules.value.on_change == Some(DefaultRule::Deny) {
                let what = match pin {
                    Pin::Match => None,
                    Pin::Changed => Some("has changed since it was pinned"),
                    Pin::New => Some("is new since the pins were made"),
                    Pin::Unpinned => Some("has no pin"),
                };
                if let Some(what) = what {
                    let denial = Denial::new(format!("the definition of {tool} of {server} {what}"));
                    return Err(denial.by_rule(rules.at.clone()).hint("review it and pin it again"));
                }
            }
            allowed_by.get_or_insert_with(|| rules.at.clone());
        }
    }
    Ok(allowed_by)
}

/// Says what would allow a tool that no rule names.
fn words(layer: &Layer, server: &str, tool: &str) -> String {
    match layer.origin.source.starts_with("builtin:") {
        true => {
            format!("the user can allow it with --allowed-tools 'mcp__{server}({tool})', or `trust` for the server")
        }
        false => {
            format!(
                "the user can allow it in {}: mcp: {{servers: {{{server}: {{allow: [{tool}]}}}}}}",
                layer.origin.source
            )
        }
    }
}

/// Returns the paths among the arguments: strings named `path`, and `file:` URLs, at any depth.
pub(crate) fn paths(arguments: &Value) -> Result<Vec<PathBuf>, Denial> {
    let mut found = Vec::new();
    let mut pending = vec![(false, arguments)];
    while let Some((named, value)) = pending.pop() {
        match value {
            Value::String(text) => {
                let trimmed = text.trim_start();
                if trimmed.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) {
                    let path = Url::parse(trimmed).ok().and_then(|url| url.to_file_path().ok());
                    let bad = || Denial::new(format!("{text:?} is not the URL of a file here")).by("F2");
                    found.push(path.ok_or_else(bad)?);
                } else if named {
                    found.push(PathBuf::from(text));
                }
            }
            Value::Array(items) => pending.extend(items.iter().map(|item| (named, item))),
            Value::Object(entries) => {
                pending.extend(entries.iter().map(|(key, item)| (fold_name(key) == "path", item)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    Ok(found)
}

/// Matches a name against a pattern in which `*` stands for any letters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_a_pattern_stands_for_any_letters() {
        assert!(matches("search_*", "search_") && matches("search_*", "search_a") && matches("*", "x"));
        assert!(!matches("search_*", "xsearch_a") && !matches("get", "get2") && !matches("a*b*c", "ab"));
        assert!(matches("a*b*c", "a-b-c") && matches("get", "get"));
    }

    #[test]
    fn paths_are_found_at_any_depth() {
        let arguments =
            serde_json::json!({"a": [{"path": "x"}], "u": "FILE:///etc/passwd", "b": {"path": ["y"]}, "q": "path"});
        let mut found = paths(&arguments).unwrap();
        found.sort();
        assert_eq!(found, [PathBuf::from("/etc/passwd"), "x".into(), "y".into()]);
        assert!(paths(&serde_json::json!(["file://host.example/x"])).is_err());
    }
}
