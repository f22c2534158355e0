//! Tests decisions on web addresses and MCP tools, case by case, against the text of the rules.

use serde_json::{Value, json};

use super::Policy;
use super::check::check_call;
use super::explain::tests::facts_of_nothing;
use super::layers::{LayerText, Standing};

const POLICY: &str = "\
version: 1
name: reach
tools: {allow: [web_fetch]}
paths: {read: {allow: ['**'], deny: ['private/**']}}
network:
  default: deny
  allow: [{host: docs.rs}, {host: '*.rust-lang.org'}, {host: api.github.com, path: /repos/acme/}]
  deny: [{host: evil.rust-lang.org}]
  max_redirects: 2
  query_max: 16
mcp:
  default: deny
  servers:
    github: {allow: [get_issue, 'list_*'], deny: [list_secrets]}
    pinned: {allow: ['*'], pins: pins.json, on_change: deny}
    files: {allow: [read]}
";

fn is_allowed(tool: &str, input: &Value) -> (bool, String) {
    let layer = LayerText { name: "reach.yaml".to_owned(), text: POLICY.to_owned(), standing: Standing::Operator };
    let policy = Policy::new(&layer, &[], &crate::policy::layers::no_parents).unwrap();
    let facts = facts_of_nothing();
    let decision = check_call(&policy, &facts, tool, input);
    (decision.is_allowed(), decision.reason)
}

#[track_caller]
fn hold(tool: &str, cases: &[(bool, Value)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(expected, input)| {
            let (allowed, reason) = is_allowed(tool, input);
            (allowed != *expected)
                .then(|| format!("{input} should be {}: {reason}", if *expected { "allowed" } else { "denied" }))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_url_is_judged_by_its_own_host_and_path_and_nothing_is_repaired() {
    let urls = [
        (true, "https://docs.rs/serde/latest/"),
        (true, "https://DOCS.RS/"),
        (true, "https://docs.rs./"),
        (true, "https://docs.rs:443/"),
        (true, "https://docs.rs/a//b"),
        (true, "https://docs.rs/%2e%2e/x"),
        (true, "https://docs.rs/a%20b#https://evil.example"),
        (true, "https://docs.rs/?q=0123456789abcd"),
        (true, "https://doc.rust-lang.org/std/"),
        (true, "https://a.b.rust-lang.org/"),
        (true, "https://api.github.com/repos/acme/app"),
        (true, "https://api.github.com/repos/x/../acme/app"),
        (false, "https://docs.rs/?q=0123456789abcdef"),
        (false, "https://docs.rs../"),
        (false, "https://.docs.rs/"),
        (false, "https://docs.rs@evil.example/"),
        (false, "https://user@docs.rs/"),
        (false, "https://user:pass@docs.rs/"),
        (false, "https://@docs.rs/"),
        (false, "https://:@docs.rs/"),
        (false, "https://docs.rs:8443/"),
        (false, "https://docs.rs:80/"),
        (false, "http://docs.rs/"),
        (false, "HTTP://docs.rs:443/"),
        (false, "wss://docs.rs/"),
        (false, "https:docs.rs"),
        (false, "https:/docs.rs/"),
        (false, "https:///docs.rs/"),
        (false, "//docs.rs/"),
        (false, "https:\\\\docs.rs\\"),
        (false, "https://docs.rs\\@evil.example/"),
        (false, " https://docs.rs/"),
        (false, "https://docs.rs/\t"),
        (false, "https://do\ncs.rs/"),
        (false, "https://evil.example/docs.rs"),
        (false, "https://docs.rs.evil.example/"),
        (false, "https://xdocs.rs/"),
        (false, "https://rust-lang.org/"),
        (false, "https://xrust-lang.org/"),
        (false, "https://evil.rust-lang.org/"),
        (false, "https://EVIL.rust-lang.org./"),
        (false, "https://dоcs.rs/"),
        (false, "https://xn--dcs-sbd.rs/"),
        (false, "https://docs%2ers/"),
        (false, "https://docs。rs/"),
        (false, "https://127.0.0.1/"),
        (false, "https://2130706433/"),
        (false, "https://0x7f.1/"),
        (false, "https://0177.0.0.1/"),
        (false, "https://127.1/"),
        (false, "https://[::1]/"),
        (false, "https://[::ffff:127.0.0.1]/"),
        (false, "https://api.github.com/repos/acme"),
        (false, "https://api.github.com/repos/acme/"),
        (false, "https://api.github.com/repos/acmeevil/x"),
        (false, "https://api.github.com/repos/acme/../evil/x"),
        (false, "https://api.github.com/repos/acme/%2e%2e/evil/x"),
        (false, "https://api.github.com/repos/acme%2f..%2fevil/x"),
        (false, "https://api.github.com/repos/acme/%252e%252e/x"),
        (false, "https://api.github.com/REPOS/acme/x"),
        (false, "https://api.github.com/?/repos/acme/x"),
        (false, "data:text/plain,x"),
        (false, "file:///etc/passwd"),
        (false, ""),
    ];
    let cases: Vec<(bool, Value)> = urls.into_iter().map(|(expected, url)| (expected, json!({"url": url}))).collect();
    hold("web_fetch", &cases);
}

#[test]
fn every_address_and_every_redirect_must_be_good() {
    let url = "https://docs.rs/a/b";
    let answers = |addresses: &[&str]| json!({"url": url, "resolves_to": addresses});
    let hops = |locations: &[&str]| json!({"url": url, "redirects": locations});
    hold(
        "web_fetch",
        &[
            (true, answers(&["18.64.1.1", "2600:9000::1"])),
            (false, answers(&[])),
            (false, answers(&["18.64.1.1", "10.0.0.1"])),
            (false, answers(&["0.0.0.0"])),
            (false, answers(&["100.64.0.1"])),
            (false, answers(&["169.254.169.254"])),
            (false, answers(&["192.168.1.1"])),
            (false, answers(&["172.31.255.255"])),
            (true, answers(&["172.32.0.1"])),
            (false, answers(&["224.0.0.1"])),
            (false, answers(&["255.255.255.255"])),
            (false, answers(&["::"])),
            (false, answers(&["fc00::1"])),
            (false, answers(&["fe80::1"])),
            (false, answers(&["::ffff:10.0.0.1"])),
            (false, answers(&["::ffff:a00:1"])),
            (false, answers(&["64:ff9b::a00:1"])),
            (false, answers(&["2002:a00:1::"])),
            (false, answers(&["ff02::1"])),
            (false, answers(&["no address"])),
            (true, hops(&["/c", "../d"])),
            (true, hops(&["https://doc.rust-lang.org/"])),
            (true, hops(&["//docs.rs/x"])),
            (false, hops(&["/1", "/2", "/3"])),
            (false, hops(&["//evil.example/"])),
            (false, hops(&["http://docs.rs/"])),
            (false, hops(&["/ok", "https://10.0.0.1/"])),
            (false, hops(&["https://user@docs.rs/"])),
            (false, hops(&["/\\evil.example"])),
            (false, hops(&["https:evil.example"])),
            (false, hops(&[""])),
        ],
    );
}

#[test]
fn mcp_tools_are_pairs_and_their_paths_are_paths() {
    let call =
        |server: &str, tool: &str, arguments: Value| json!({"server": server, "tool": tool, "arguments": arguments});
    let pin = |pin: &str| json!({"server": "pinned", "tool": "x", "arguments": {}, "pin": pin});
    let read = |arguments: Value| call("files", "read", arguments);
    hold(
        "mcp",
        &[
            (true, call("github", "get_issue", json!({}))),
            (true, call("github", "list_issues", json!({"q": "../../etc/passwd"}))),
            (true, call("github", "list_", json!(null))),
            (false, call("GitHub", "get_issue", json!({}))),
            (false, call("github", "Get_Issue", json!({}))),
            (false, call("github", "get_issue2", json!({}))),
            (false, call("github", "get_issue ", json!({}))),
            (false, call("github", "List_issues", json!({}))),
            (false, call("github", "list_secrets", json!({}))),
            (false, call("github", "list_Secrets", json!({}))),
            (false, call("github", "list_*", json!({}))),
            (false, call("other", "get_issue", json!({}))),
            (false, call("", "get_issue", json!({}))),
            (false, call("github", "", json!({}))),
            (true, pin("match")),
            (false, pin("changed")),
            (false, pin("new")),
            (false, json!({"server": "pinned", "tool": "x", "arguments": {}})),
            (true, read(json!({"path": "src/a.rs"}))),
            (true, read(json!({"text": "/etc/passwd"}))),
            (false, read(json!({"path": "/etc/passwd"}))),
            (false, read(json!({"path": "../x"}))),
            (false, read(json!({"path": ".env"}))),
            (false, read(json!({"deep": [{"path": ["a", "private/x"]}]}))),
            (false, read(json!({"Path": ".env"}))),
            (false, read(json!({"u": "file:///etc/passwd"}))),
            (false, read(json!({"u": "FILE:/etc/passwd"}))),
            (false, read(json!({"u": ["file://localhost/project/.env"]}))),
            (false, read(json!({"u": "file:///project/%2eenv"}))),
            (true, read(json!({"u": "file:///project/src/a.rs"}))),
            (true, read(json!({"u": "https://evil.example/.env"}))),
        ],
    );
    for name in ["github__get_issue", "mcp__github__get_issue", "github.get_issue"] {
        assert!(!is_allowed(name, &json!({})).0, "{name}");
    }
}
