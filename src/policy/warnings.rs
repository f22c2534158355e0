//! Warns of rules that do not mean what they say.

use super::file::{CommandRule, HostRule};
use super::glob::Glob;
use super::layers::Policy;
use super::programs;
use super::protected::is_protected;
use super::rules::{List, Rule};
use super::shell::no_rule_allows;
use super::web::host_matches;
use crate::path::RelPath;
use crate::tool_name::{tool_named, unknown};

/// Returns warnings about rules: allowed interpreters, write rules over protected paths, rules that a deny covers.
pub fn warnings(policy: &Policy) -> Vec<String> {
    let layers = || policy.layers.iter().map(|layer| &layer.rules);
    let mut found = Vec::new();
    for layer in policy.layers.iter() {
        let (rules, source) = (&layer.rules, layer.origin.source.as_str());
        found.extend(own(source, &rules.shell.allow).flat_map(|rule| {
            let denied = covered(rule, layers().flat_map(|rules| &rules.shell.deny), |deny| covers(deny, &rule.value));
            named(rule, of_command(&rule.value)).chain(denied)
        }));
        found.extend(own(source, &rules.tools.allow).filter_map(|rule| {
            let Some(real) = tool_named(&rule.value) else {
                return Some(never(rule, unknown(&rule.value)));
            };
            let deny =
                layers().flat_map(|rules| &rules.tools.deny).find(|deny| tool_named(&deny.value) == Some(real))?;
            Some(never(rule, format!("{} denies {real}", deny.at.rule)))
        }));
        found.extend(own(source, &rules.network.allow).flat_map(|rule| {
            let host = &rule.value.host;
            let denied = covered(rule, layers().flat_map(|rules| &rules.network.deny), |deny| covers_host(deny, host));
            let unnamed = (!is_host(plain(host))).then(|| never(rule, format!("`{host}` is not a host name")));
            unnamed.into_iter().chain(denied)
        }));
        found.extend(own(source, &rules.paths.read.allow).filter_map(|rule| {
            covered(rule, layers().flat_map(|rules| &rules.paths.read.deny), |deny| covers_glob(deny, &rule.value))
        }));
        found.extend(own(source, &rules.paths.write.allow).filter_map(|rule| {
            covered(rule, layers().flat_map(|rules| &rules.paths.write.deny), |deny| covers_glob(deny, &rule.value))
        }));
        found.extend(rules.paths.write.allow.iter().flatten().filter_map(over_protected));
    }
    found
}

/// The rules of a layer's own file: whoever extends a built-in policy knows what that says.
fn own<'a, T>(source: &'a str, list: &'a Option<List<T>>) -> impl Iterator<Item = &'a Rule<T>> {
    list.iter().flatten().filter(move |rule| rule.at.source == source || !rule.at.source.starts_with("builtin:"))
}

fn never<T>(rule: &Rule<T>, why: String) -> String {
    format!("{}: this can never match: {why}", rule.at.source)
}

fn covered<'a, T: 'a>(
    rule: &Rule<T>,
    mut denies: impl Iterator<Item = &'a Rule<T>>,
    covers: impl Fn(&T) -> bool,
) -> Option<String> {
    denies.find(|deny| covers(&deny.value)).map(|deny| never(rule, format!("{} denies it", deny.at.rule)))
}

fn named<'a, T>(rule: &'a Rule<T>, what: Vec<String>) -> impl Iterator<Item = String> + 'a {
    what.into_iter().map(|what| format!("{}: {what}", rule.at.source))
}

fn of_command(rule: &CommandRule) -> Vec<String> {
    let first = &rule.cmd[0].0;
    // `deno test` runs the project's tests; `deno` alone runs anything that it is given.
    let is_bare = rule.cmd.len() == 1 && rule.args.is_none();
    let lists = rule.options.is_some() || rule.args.is_some() || rule.operands.is_some();
    let mut found = Vec::new();
    let interpreters = first.iter().filter(|name| is_bare && programs::interpreters::reads_code(name));
    found.extend(interpreters.map(|name| format!("{name} runs any code that it is given")));
    let is_unknown =
        |name: &&String| programs::find_for_rules(name).is_none() && !name.contains('/') && !no_rule_allows(name);
    let unknown = first.iter().filter(|_| is_bare && !lists).filter(is_unknown);
    found.extend(
        unknown.map(|name| format!("{name} is unknown: without `options` and `operands` the rule allows no arguments")),
    );
    if first.iter().all(|name| no_rule_allows(name)) {
        found.push(format!("this can never match: {} is decided by built-in rules", first.join("|")));
    }
    found
}

/// Tells whether a deny rule has fewer words, each of which names all that the other one names.
fn covers(deny: &CommandRule, allow: &CommandRule) -> bool {
    deny.options.is_none()
        && deny.args.is_none()
        && deny.cmd.len() <= allow.cmd.len()
        && deny.cmd.iter().zip(&allow.cmd).all(|(denied, allowed)| allowed.0.iter().all(|word| denied.0.contains(word)))
}

fn plain(host: &str) -> &str {
    host.strip_prefix("*.").unwrap_or(host)
}

fn is_host(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', ':', '*', '@', ' ']) && name.parse::<std::net::IpAddr>().is_err()
}

fn covers_host(deny: &HostRule, host: &str) -> bool {
    deny.path.is_none() && (deny.host == host || host_matches(&deny.host, plain(host)))
}

fn covers_glob(deny: &Glob, allow: &Glob) -> bool {
    deny.text() == allow.text() || matches!(deny.text(), "**" | "**/*")
}

fn over_protected(rule: &Rule<Glob>) -> Option<String> {
    let text = rule.value.text();
    let directory = text.trim_end_matches("/**").trim_end_matches("/*");
    let path = RelPath::new(directory).filter(|path| !path.is_root() && !directory.contains('*'))?;
    is_protected(&path)
        .then(|| format!("{}: `{text}` is protected; use `protected.remove` to allow it", rule.at.source))
}
