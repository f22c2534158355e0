//! The folders of the system that commands may read.

use std::path::{Path, PathBuf};

use crate::path::{Node, Tree};

/// Devices that commands may read and write.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Folders and files of the system that may be read and executed, as far as they are there.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/snap"];

/// What of `/etc` may be read: names, certificates and the loader's and the toolchains' own settings; no secrets.
const ETC: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "environment.d",
    "fonts",
    "gai.conf",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "java",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "magic.mime",
    "mailcap",
    "manpath.config",
    "mime.types",
    "mke2fs.conf",
    "networks",
    "nsswitch.conf",
    "openssl",
    "os-release",
    "paper.d",
    "passwd",
    "perl",
    "php",
    "pki",
    "profile",
    "protocols",
    "python3",
    "R",
    "resolv.conf",
    "rpc",
    "services",
    "shells",
    "ssl",
    "subgid",
    "subuid",
    "terminfo",
    "timezone",
    "xattr.conf",
    "xml",
];

/// Returns what of the system is there and may be read, with the operator's additions.
pub(super) fn readable(disk: &dyn Tree, read_system: &[PathBuf]) -> Vec<PathBuf> {
    let fixed = SYSTEM.iter().map(PathBuf::from).chain(ETC.iter().map(|name| Path::new("/etc").join(name)));
    fixed.chain(read_system.iter().cloned()).filter(|path| matches!(disk.look(path), Ok(Some(_)))).collect()
}

/// Returns the folders of PATH that may be read: none that holds the home, the workspace or our private folder.
pub(super) fn of_path(
    path: &[PathBuf],
    home: Option<&Path>,
    workspace: &Path,
    private: &Path,
    disk: &dyn Tree,
) -> Vec<PathBuf> {
    let holds = |entry: &Path| {
        home.is_some_and(|home| home.starts_with(entry)) || workspace.starts_with(entry) || private.starts_with(entry)
    };
    path.iter()
        .filter(|entry| !holds(entry) && matches!(disk.look(entry), Ok(Some(Node::Dir | Node::Link(_)))))
        .cloned()
        .collect()
}
