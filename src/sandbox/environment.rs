//! Builds the environment of commands from nothing: their variables, and where their programs are found.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::policy::names::keeps_charset;

/// Variables that are passed on unchanged: language, terminal, certificates.
const HANDED_ON: &[&str] = &[
    "CI",
    "COLUMNS",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LINES",
    "LOGNAME",
    "NO_COLOR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "RUNNER_TOOL_CACHE",
    "SOURCE_DATE_EPOCH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TZ",
    "USER",
];

/// Variables that run code in the programs that see them, or take them over: not even `env.pass` passes these on.
const NEVER: &[&str] = &["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS"];

/// What an environment is made from.
pub(super) struct Parts<'a> {
    pub(super) inherited: &'a BTreeMap<OsString, OsString>,
    pub(super) path: &'a [PathBuf],
    pub(super) home: &'a Path,
    pub(super) temporary: &'a Path,
    pub(super) toolchains: &'a BTreeMap<String, OsString>,
    pub(super) pass: &'a [String],
    pub(super) set: &'a [(String, String)],
    /// Whether this process runs as root.
    pub(super) is_root: bool,
}

/// Builds the environment; later sources win: passed on, built-in, toolchains, `pass`, `set`.
pub(super) fn build(parts: &Parts<'_>) -> BTreeMap<OsString, OsString> {
    let inherited = |name: &str| Some((OsString::from(name), parts.inherited.get(OsStr::new(name))?.clone()));
    let mut environment: BTreeMap<OsString, OsString> = HANDED_ON.iter().filter_map(|name| inherited(name)).collect();
    let path = std::env::join_paths(parts.path).unwrap_or_default();
    let own: [(&str, &OsStr); 9] = [
        ("HOME", parts.home.as_os_str()),
        ("TMPDIR", parts.temporary.as_os_str()),
        ("PATH", &path),
        ("TERM", OsStr::new("dumb")),
        ("PAGER", OsStr::new("cat")),
        ("GIT_PAGER", OsStr::new("cat")),
        ("QWEN_CODE", OsStr::new("1")),
        ("SHELL", OsStr::new("/bin/bash")),
        ("DEBIAN_FRONTEND", OsStr::new("noninteractive")),
    ];
    environment.extend(own.map(|(name, value)| (name.into(), value.into())));
    if parts.is_root {
        // As root, tar would try to set owners that cannot be set in here.
        environment.insert("TAR_OPTIONS".into(), "--no-same-owner".into());
    }
    environment.extend(parts.toolchains.iter().map(|(name, value)| (name.into(), value.clone())));
    let allowed = |name: &&String| !is_dangerous(name);
    environment.extend(parts.pass.iter().filter(allowed).filter_map(|name| inherited(name)));
    environment.extend(parts.set.iter().map(|(name, value)| (name.into(), value.into())));
    // Bash has to read a command as the policy has read it.
    let is_plain = |name: &OsStr, value: &OsStr| keeps_charset(&name.to_string_lossy(), &value.to_string_lossy());
    environment.retain(|name, value| is_valid(name, value) && is_plain(name, value));
    environment.entry("LANG".into()).or_insert_with(|| "C.UTF-8".into());
    environment
}

/// Tells whether a variable would run code in programs that see it.
fn is_dangerous(name: &str) -> bool {
    NEVER.contains(&name) || name.starts_with("LD_") || name.starts_with("DYLD_") || name.starts_with("BASH_FUNC_")
}

/// Tells whether a variable can be handed to a process at all.
pub(super) fn is_valid(name: &OsStr, value: &OsStr) -> bool {
    let name = name.as_bytes();
    !name.is_empty() && !name.contains(&b'=') && !name.contains(&0) && !value.as_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn only_listed_variables_reach_a_command() {
        let inherited = map(&[
            ("OPENAI_API_KEY", "sk-1"),
            ("GIT_DIR", "/x"),
            ("LD_PRELOAD", "/x.so"),
            ("BASH_ENV", "/x"),
            ("BASH_FUNC_ls%%", "() { :; }"),
            ("TZ", "UTC"),
            ("LC_ALL", "zh_CN.GBK"),
            ("LC_CTYPE", "ja_JP.SJIS"),
            ("LC_TIME", "de_DE.UTF-8"),
            ("MY_FLAG", "1"),
        ]);
        let pass = ["MY_FLAG", "LD_PRELOAD", "BASH_ENV", "BASH_FUNC_ls%%", "NOT_THERE", "LC_TIME", "LC_ALL"]
            .map(str::to_owned);
        let set = [("CARGO_NET_OFFLINE".to_owned(), "true".to_owned()), ("A=B".to_owned(), "x".to_owned())];
        let environment = build(&Parts {
            inherited: &inherited,
            path: &["/bin".into()],
            home: Path::new("/h"),
            temporary: Path::new("/t"),
            toolchains: &BTreeMap::new(),
            pass: &pass,
            set: &set,
            is_root: false,
        });
        let names: Vec<_> = environment.keys().map(|name| name.to_str().unwrap()).collect();
        let expected = [
            "CARGO_NET_OFFLINE",
            "DEBIAN_FRONTEND",
            "GIT_PAGER",
            "HOME",
            "LANG",
            "LC_TIME",
            "MY_FLAG",
            "PAGER",
            "PATH",
            "QWEN_CODE",
            "SHELL",
            "TERM",
            "TMPDIR",
            "TZ",
        ];
        assert_eq!(names, expected);
        assert_eq!(environment[OsStr::new("HOME")], "/h");
    }
}
