//! The folders of the system that commands may read.

use std::path::{Path, PathBuf};

use crate::path::{Node, Tree};

/// Devices that commands may read and write.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Folders and files of the system that may be read and executed, as far as they are there.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/snap"];

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
///
/// A program outside of the home and of the system's folders comes with its neighbours: `/opt/gradle` for
/// `/opt/gradle/bin`.
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
    let with_neighbours = |entry: &PathBuf| {
        let is_bin = entry.file_name().is_some_and(|name| name == "bin" || name == "sbin");
        let prefix = entry.parent().filter(|prefix| {
            let at_home = home.is_some_and(|home| prefix.starts_with(home));
            is_bin && !at_home && !holds(prefix) && prefix.components().count() > 2
        });
        prefix.map_or_else(|| entry.clone(), Path::to_path_buf)
    };
    path.iter()
        .filter(|entry| !holds(entry) && matches!(disk.look(entry), Ok(Some(Node::Dir | Node::Link(_)))))
        .map(with_neighbours)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io;

    use super::*;

    /// A disk on which every path is a folder.
    struct Everything;

    impl Tree for Everything {
        fn look(&self, _path: &Path) -> io::Result<Option<Node>> {
            Ok(Some(Node::Dir))
        }

        fn names(&self, _path: &Path) -> io::Result<Vec<OsString>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_folder_of_path_never_shows_the_home_or_what_lies_beside_it() {
        let path = ["/usr/bin", "/opt/gradle/bin", "/opt/bin", "/h/u/.local/bin", "/h/u", "/h", "/", "/p", "/w/x/bin"];
        let path: Vec<PathBuf> = path.iter().map(PathBuf::from).collect();
        let found = of_path(&path, Some(Path::new("/h/u")), Path::new("/w/x/y"), Path::new("/p/run"), &Everything);
        let expected = ["/usr/bin", "/opt/gradle", "/opt/bin", "/h/u/.local/bin", "/w/x/bin"];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn the_system_s_list_has_no_home_and_no_secrets() {
        let found = readable(&Everything, &["/opt/sdk".into()]);
        for hidden in ["/etc", "/etc/shadow", "/etc/ssh", "/root", "/home", "/var", "/run", "/"] {
            assert!(!found.contains(&hidden.into()), "{hidden}");
        }
        assert!(found.contains(&"/opt/sdk".into()));
    }
}
