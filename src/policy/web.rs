//! Decides which URLs may be fetched and which addresses may be connected to.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, SyntaxViolation, Url};

use super::decision::Denial;
use super::file::DefaultRule;
use super::layers::{Layer, narrowed};

/// Maximum redirects where no file says.
pub const MAX_REDIRECTS: u32 = 3;
/// Maximum bytes of a query where no file says.
pub const QUERY_MAX: usize = 256;

/// Returns the maximum redirects of a fetch.
pub(super) fn max_redirects(layers: &[Layer]) -> u32 {
    narrowed(layers, MAX_REDIRECTS, |layer| layer.rules.network.max_redirects)
}

/// Returns the maximum bytes of a query.
pub(super) fn query_max(layers: &[Layer]) -> usize {
    narrowed(layers, QUERY_MAX, |layer| layer.rules.network.query_max)
}

/// Judges a fetch from the first URL through its redirects; the addresses are those the first host resolves to.
pub(crate) fn fetch(
    layers: &[Layer],
    url: &str,
    resolves_to: Option<&[String]>,
    redirects: &[String],
) -> Result<Url, Denial> {
    let first = judge(layers, url, None)?;
    if let Some(addresses) = resolves_to {
        let host = first.host_str().unwrap_or_default();
        if addresses.is_empty() {
            return Err(Denial::new(format!("{host} has no address")).by("web"));
        }
        let bad = addresses.iter().find(|text| !text.parse().is_ok_and(is_public));
        if let Some(bad) = bad {
            return Err(Denial::new(format!("{host} resolves to {bad}, which is not a public address")).by("web"));
        }
    }
    let most = max_redirects(layers);
    if redirects.len() > most as usize {
        return Err(Denial::new(format!("more than {most} redirects")).by("network.max_redirects"));
    }
    let mut at = first.clone();
    for location in redirects {
        at = judge(layers, location, Some(&at))
            .map_err(|denial| Denial { reason: format!("redirect to {location:?}: {}", denial.reason), ..denial })?;
    }
    Ok(first)
}

/// Judges one URL, or one `Location` relative to the URL that sent it.
pub(crate) fn judge(layers: &[Layer], text: &str, base: Option<&Url>) -> Result<Url, Denial> {
    let refuse = |reason: String| Denial::new(format!("{text:?}: {reason}")).by("web");
    let url = parsed(text, base).map_err(refuse)?;
    if url.scheme() != "https" {
        return Err(refuse(format!("only https is fetched, not {}", url.scheme())).hint("use the https address"));
    }
    let host = host_of(text, &url).map_err(refuse)?;
    let most = query_max(layers);
    if url.query().is_some_and(|query| query.len() > most) {
        return Err(Denial::new(format!("the query is longer than {most} bytes")).by("network.query_max"));
    }
    layers.iter().try_for_each(|layer| allowed(layer, text, &url, &host))?;
    Ok(url)
}

// Parses a URL in which nothing has to be repaired.
fn parsed(text: &str, base: Option<&Url>) -> Result<Url, String> {
    if text.is_empty() {
        return Err("an empty URL".to_owned());
    }
    // The parser would silently drop or encode these.
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || "\"<>`\\".contains(c)) {
        return Err("a space, control character, quote or backslash in a URL".to_owned());
    }
    let violation = Cell::new(None);
    let note = |found: SyntaxViolation| match found {
        // These are left as they are, not repaired; the letters that would be encoded were refused above.
        SyntaxViolation::PercentDecode | SyntaxViolation::NonUrlCodePoint => {}
        other => violation.set(Some(other)),
    };
    let parsed = Url::options().base_url(base).syntax_violation_callback(Some(&note)).parse(text);
    let url = parsed.map_err(|error| format!("not a URL ({error})"))?;
    violation.get().map_or(Ok(url), |found| Err(found.description().to_owned()))
}

// The host of a URL, in small letters; the error says what is wrong with it.
fn host_of(text: &str, url: &Url) -> Result<String, String> {
    let refuse = |reason: &str| Err(reason.to_owned());
    // `https:/host` and `https:host` are repaired in one way with a base and in another without.
    let scheme = text.split(['/', '?', '#']).next().filter(|first| first.contains(':'));
    if let Some(scheme) = scheme.filter(|scheme| !text[scheme.len()..].starts_with("//") || !scheme.ends_with(':')) {
        return Err(format!("`{scheme}` without two slashes"));
    }
    let authority = authority(text);
    if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
        return refuse("user information in a URL");
    }
    if authority.contains('%') || !authority.is_ascii() {
        return refuse("a host with encoded or non-ASCII letters");
    }
    if url.port().is_some() {
        return refuse("only port 443 is used");
    }
    let host = match url.host() {
        Some(Host::Domain(host)) => host.strip_suffix('.').unwrap_or(host).to_lowercase(),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => return refuse("an address in the place of a host name"),
        None => return refuse("no host"),
    };
    if host.split('.').any(str::is_empty) {
        return refuse("a host with an empty label");
    }
    if !host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return refuse("a host with letters that no host name has");
    }
    if host.split('.').next_back().is_some_and(|last| last == "localhost" || last.parse::<u64>().is_ok()) {
        return refuse("not a public host name");
    }
    Ok(host)
}

// Judges a URL by the rules of one layer.
fn allowed(layer: &Layer, text: &str, url: &Url, host: &str) -> Result<(), Denial> {
    let rules = &layer.rules.network;
    // Dot segments and encodings of the path as it was written: the parser has already resolved some.
    let written = text.split(['?', '#']).next().unwrap_or(text).to_lowercase();
    let encoded = ["%2f", "%2e", "%25", "%5c"].iter().any(|code| written.contains(code));
    let denied = rules.deny.iter().find(|rule| {
        host_matches(&rule.value.host.to_lowercase(), host)
            && rule.value.path.as_deref().is_none_or(|path| encoded || is_at_or_below(url, path))
    });
    if let Some(rule) = denied {
        return Err(Denial::new(format!("{host} is denied")).by_rule(rule.at.clone()));
    }
    let silent = rules.allow.is_none() && rules.default.is_none();
    if rules.default == Some(DefaultRule::Allow) || (silent && !layer.grants) {
        return Ok(());
    }
    let mut named = rules.allow.iter().flatten().filter(|rule| host_matches(&rule.value.host, host)).peekable();
    let first = named.peek().copied();
    if named.any(|rule| rule.value.path.as_deref().is_none_or(|path| !encoded && is_below(url, path))) {
        return Ok(());
    }
    Err(match first {
        Some(rule) if encoded => {
            Denial::new(format!("{text:?}: an encoded slash, dot or percent sign in the path")).by_rule(rule.at.clone())
        }
        Some(rule) => {
            let path = rule.value.path.clone().unwrap_or_default();
            Denial::new(format!("{} is not below {path}", url.path())).by_rule(rule.at.clone())
        }
        None => {
            let hosts: Vec<_> = rules.allow.iter().flatten().map(|rule| rule.value.host.as_str()).collect();
            let denial = Denial::new(format!("no rule of `network.allow` in {} names {host}", layer.origin.source));
            if hosts.is_empty() { denial } else { denial.hint(format!("allowed are {}", hosts.join(", "))) }
        }
    })
}

// The part between `//` and the path, as written; empty for a relative location.
fn authority(text: &str) -> &str {
    let after = match text.split_once("//") {
        Some((scheme, after)) if scheme.is_empty() || (scheme.ends_with(':') && !scheme.contains(['/', '?', '#'])) => {
            after
        }
        _ => return "",
    };
    after.split(['/', '?', '#']).next().unwrap_or(after)
}

/// Tells whether a rule names a host: by whole labels, in lower case; `*.` stands for one or more labels, not none.
pub fn host_matches(rule: &str, host: &str) -> bool {
    let rule = rule.strip_suffix('.').unwrap_or(rule);
    match rule.strip_prefix("*.") {
        Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => rule == host || rule == "*",
    }
}

fn segments(path: &str) -> Vec<Vec<u8>> {
    path.strip_prefix('/').unwrap_or(path).split('/').map(decode).collect()
}

/// Tells whether some servers take a part for a step up, as `..;`: what is meant by the path is not known.
fn is_step_up(part: &[u8]) -> bool {
    let name = part.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    name.len() > 1 && name.iter().all(|byte| *byte == b'.')
}

fn is_below(url: &Url, folder: &str) -> bool {
    let folder = folder.trim_matches('/');
    if folder.is_empty() {
        return true;
    }
    let (path, folder) = (segments(url.path()), segments(folder));
    path.len() > folder.len()
        && !path.iter().any(|part| is_step_up(part))
        && path[..folder.len()] == folder[..]
        && path[folder.len()..].iter().any(|part| !part.is_empty())
}

fn is_at_or_below(url: &Url, folder: &str) -> bool {
    // Servers merge slashes, and cut what is behind `;` and dots at the end of a name.
    let plain = |part: Vec<u8>| {
        let part = part.split(|byte| *byte == b';').next().unwrap_or_default();
        part.trim_ascii().iter().rposition(|byte| *byte != b'.').map_or_else(Vec::new, |last| part[..=last].to_vec())
    };
    let path = segments(url.path());
    let folded = |parts: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        parts.into_iter().map(|part| plain(part).to_ascii_lowercase()).filter(|part| !part.is_empty()).collect()
    };
    path.iter().any(|part| is_step_up(part)) || folded(path).starts_with(&folded(segments(folder)))
}

fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match code
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
        {
            Some(byte) if bytes[at] == b'%' => {
                decoded.push(byte);
                at += 3;
            }
            _ => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    decoded
}

/// Tells whether an address is one that a fetch may connect to: neither loopback, private, link-local, shared,
/// multicast, unspecified, reserved, nor a form of IPv6 that carries such an IPv4 address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || a == 10
        || a == 127
        || (a == 100 && (64..128).contains(&b))
        || (a == 169 && b == 254)
        || (a == 172 && (16..32).contains(&b))
        || (a == 192 && b == 168)
        || (a == 192 && b == 0 && (c == 0 || c == 2))
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b))
        || (a == 198 && b == 51 && c == 100)
        || (a == 203 && b == 0 && c == 113)
        || a >= 224)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let low = || Ipv4Addr::from((u32::from(parts[6]) << 16) | u32::from(parts[7]));
    // IPv4 in IPv6: mapped, compatible, NAT64, 6to4, Teredo.
    if parts[..5] == [0; 5] && parts[5] == 0xffff || parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return is_public_v4(low());
    }
    if parts[..6] == [0; 6] || parts[0] == 0x64 && parts[1] == 0xff9b || parts[0] == 0x2002 {
        return false;
    }
    let global = (0x2000..0x4000).contains(&parts[0]);
    let documentation = parts[0] == 0x2001 && parts[1] == 0xdb8 || parts[0] == 0x3fff;
    let special = parts[0] == 0x2001 && parts[1] < 0x200;
    global && !documentation && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for bad in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "2001::1",
            "198.18.0.1",
        ] {
            assert!(!is_public(bad.parse().unwrap()), "{bad}");
        }
        for good in ["18.64.1.1", "1.1.1.1", "2606:4700::1111", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8"] {
            assert!(is_public(good.parse().unwrap()), "{good}");
        }
    }

    #[test]
    fn a_star_stands_for_one_or_more_labels() {
        assert!(host_matches("*.rust-lang.org", "doc.rust-lang.org"));
        assert!(host_matches("*.rust-lang.org", "a.b.rust-lang.org"));
        assert!(!host_matches("*.rust-lang.org", "rust-lang.org"));
        assert!(!host_matches("*.rust-lang.org", "evilrust-lang.org"));
        assert!(!host_matches("*.rust-lang.org", ".rust-lang.org"));
    }
}
