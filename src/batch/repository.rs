//! Reads the address of a repository in a list: HTTPS, SSH, or a path. Nothing else reaches git.

/// A repository of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// What git is given.
    pub url: String,
    /// `host/owner/name`; of a path, the path.
    pub key: String,
    /// What is before the name: an owner, a group, or nothing.
    pub owner: String,
    /// The name, without `.git`.
    pub name: String,
    /// The host; `None`: it is a path of this machine.
    pub host: Option<String>,
}

/// Why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is another kind of address.
    #[error("`{0}` is neither an https:// or ssh:// address, HOST:PATH, nor a path")]
    Kind(String),
    /// It would be taken for an option, or has characters that no address has.
    #[error("`{0}` is not an address of a repository")]
    Odd(String),
    /// It holds a password, which would be in the list's copy and in messages.
    #[error("the address holds a user or password; leave it out and set QWEN_GIT_TOKEN")]
    Secret,
    /// It is no branch or tag.
    #[error("`{0}` is not the name of a branch or tag")]
    Reference(String),
}

impl Address {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        let odd = || AddressError::Odd(text.chars().take(200).collect());
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && c != '\\';
        if text.is_empty() || text.starts_with('-') || !text.chars().all(is_plain) {
            return Err(odd());
        }
        if let Some(rest) = text.strip_prefix("https://") {
            let (host, path) = rest.split_once('/').ok_or_else(odd)?;
            if host.contains('@') {
                return Err(AddressError::Secret);
            }
            return Address::remote(text, host, path).ok_or_else(odd);
        }
        if let Some(rest) = text.strip_prefix("ssh://") {
            let (host, path) = rest.split_once('/').ok_or_else(odd)?;
            return Address::remote(text, without_user(host)?, path).ok_or_else(odd);
        }
        if text.contains("://") || text.contains("::") {
            return Err(AddressError::Kind(text.chars().take(200).collect()));
        }
        // As git decides it: a colon before the first slash.
        match text.split_once(':').filter(|(host, _)| !host.contains('/')) {
            Some((host, path)) => Address::remote(text, without_user(host)?, path).ok_or_else(odd),
            None => {
                let (owner, name) = owner_and_name(text).ok_or_else(odd)?;
                let owner = owner.rsplit('/').next().unwrap_or_default().to_owned();
                Ok(Address { url: text.to_owned(), key: text.to_owned(), owner, name, host: None })
            }
        }
    }

    fn remote(url: &str, host: &str, path: &str) -> Option<Address> {
        let host = host.to_ascii_lowercase();
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]_".contains(c);
        let is_path = |c: char| c.is_ascii_alphanumeric() || "._-/~+".contains(c);
        let path = path.trim_matches('/');
        let is_odd = |part: &str| part.is_empty() || part == "." || part == ".." || part.starts_with('-');
        if host.is_empty() || host.starts_with(['-', '.']) || !host.chars().all(is_host) {
            return None;
        }
        if !path.chars().all(is_path) || path.split('/').any(is_odd) {
            return None;
        }
        let (owner, name) = owner_and_name(path)?;
        let key = [host.as_str(), &owner, &name].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        Some(Address { url: url.to_owned(), key: key.join("/"), owner, name, host: Some(host) })
    }
}

/// Splits a path into what is before its last part, and that part without `.git`.
fn owner_and_name(path: &str) -> Option<(String, String)> {
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix("/.git").unwrap_or(path);
    let (owner, name) = path.rsplit_once('/').unwrap_or(("", path));
    let name = name.strip_suffix(".git").unwrap_or(name);
    (!name.is_empty()).then(|| (owner.to_owned(), name.to_owned()))
}

/// Returns the host without the name that SSH logs in with.
fn without_user(host: &str) -> Result<&str, AddressError> {
    match host.split_once('@') {
        Some((user, host)) if user.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) => {
            if user.is_empty() || user.starts_with('-') { Err(AddressError::Odd(host.to_owned())) } else { Ok(host) }
        }
        Some(_) => Err(AddressError::Secret),
        None => Ok(host),
    }
}

/// Refuses what is no name of a branch or tag.
pub fn check_reference(text: &str) -> Result<(), AddressError> {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    match text.is_empty() || text.starts_with(['-', '/', '.']) || text.contains("..") || text.contains(is_odd) {
        true => Err(AddressError::Reference(text.chars().take(200).collect())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gives_a_key_by_host_owner_and_name() {
        for (text, key, owner, name) in [
            ("https://GitHub.com/acme/app.git", "github.com/acme/app", "acme", "app"),
            ("https://gitlab.test:8443/a/b/c/", "gitlab.test:8443/a/b/c", "a/b", "c"),
            ("ssh://git@github.com/acme/app", "github.com/acme/app", "acme", "app"),
            ("git@github.com:acme/app.git", "github.com/acme/app", "acme", "app"),
            ("/srv/repos/app.git", "/srv/repos/app.git", "repos", "app"),
            ("../app/.git", "../app/.git", "..", "app"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.key.as_str(), address.owner.as_str(), address.name.as_str()), (key, owner, name));
            assert_eq!(address.host.is_none(), text.starts_with(['/', '.']));
        }
    }

    #[test]
    fn what_git_would_take_for_something_else_is_refused() {
        for text in [
            "",
            "-u",
            "--upload-pack=touch x",
            "ext::sh -c id",
            "ext::sh",
            "fd::3",
            "file:///etc",
            "http://github.com/a/b",
            "git://github.com/a/b",
            "https://user:key@github.com/a/b",
            "https://key@github.com/a/b",
            "https://github.com",
            "https://github.com/../b",
            "https://github.com/a//b",
            "https://github.com/a/-b",
            "https://github.com/a/b?x",
            "https://-oProxyCommand=x/a/b",
            "ssh://-oProxyCommand=x/a",
            "-oProxyCommand=x:a",
            "ssh://git@-oProxyCommand=x/a",
            "https://github.com/a/b\n--x",
            "https://github.com/a%2f..%2fb",
        ] {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
        for text in ["", "-b", "a..b", "a b", "x:y", "@{-1}:", "/a", ".a"] {
            assert!(check_reference(text).is_err(), "{text:?}");
        }
        assert!(check_reference("release/1.2").is_ok());
    }
}
