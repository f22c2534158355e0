//! Lists the system directories that commands may read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::named::{has_credentials, is_private};
use crate::path::{Node, Tree};

/// Devices that commands may read and write.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Directories and files of the system that may be read and executed, if they exist.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/snap"];

/// Parts of `/etc` that may be read: names, certificates and the loader's and the toolchains' own settings; no secrets.
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

/// Returns what exists of the system and may be read, with the operator's additions.
pub(super) fn readable(disk: &dyn Tree, read_system: &[PathBuf]) -> Vec<PathBuf> {
    let fixed = SYSTEM.iter().map(PathBuf::from).chain(ETC.iter().map(|name| Path::new("/etc").join(name)));
    fixed.chain(read_system.iter().cloned()).filter(|path| matches!(disk.look(path), Ok(Some(_)))).collect()
}

/// What directories of PATH must not show.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// The real home.
    pub(super) home: Option<&'a Path>,
    pub(super) workspace: &'a Path,
    pub(super) private: &'a Path,
    /// Directories of toolchains, whose table says what is shown.
    pub(super) toolchains: &'a [PathBuf],
}

/// Returns the directories of PATH that may be read: none that contains the home, the workspace or the private
/// directory.
///
/// A program outside of the system's directories comes with its neighbours: `/opt/gradle` for `/opt/gradle/bin`, and
/// below the home `~/tools/rust` for `~/tools/rust/bin`, unless credentials are there, or a table knows more of it. Where
/// there are files beside it that look private, everything else of it is shown by itself.
pub(super) fn of_path(path: &[PathBuf], around: Around<'_>, disk: &dyn Tree) -> Vec<PathBuf> {
    let Around { home, workspace, private, toolchains } = around;
    let holds = |entry: &Path| {
        home.is_some_and(|home| home.starts_with(entry)) || workspace.starts_with(entry) || private.starts_with(entry)
    };
    let is_there = |path: &Path| matches!(disk.look(path), Ok(Some(_)));
    let with_neighbours = |entry: &PathBuf| {
        let name = entry.file_name().unwrap_or_default();
        let prefix = entry.parent().filter(|prefix| {
            let at_home = home.is_some_and(|home| prefix.starts_with(home));
            let is_bin = name == "bin" || name == if at_home { "shims" } else { "sbin" };
            let is_own = !at_home || matches!(disk.look(prefix), Ok(Some(Node::Dir)));
            let is_known = toolchains.iter().any(|known| known.starts_with(prefix));
            is_bin
                && is_own
                && !is_known
                && !holds(prefix)
                && prefix.components().count() > 2
                && !has_credentials(prefix, is_there)
        });
        prefix.map_or_else(|| vec![entry.clone()], |prefix| without_private(prefix, entry, disk))
    };
    path.iter()
        .filter(|entry| !holds(entry) && matches!(disk.look(entry), Ok(Some(Node::Dir | Node::Link(_)))))
        .flat_map(with_neighbours)
        .collect()
}

/// Returns a directory without the files at its top that look private; the directory itself, if there are none.
fn without_private(prefix: &Path, entry: &Path, disk: &dyn Tree) -> Vec<PathBuf> {
    let Ok(names) = disk.names(prefix) else { return vec![entry.to_path_buf()] };
    let is_directory = |name: &OsString| matches!(disk.look(&prefix.join(name)), Ok(Some(Node::Dir)));
    let shown: Vec<PathBuf> =
        names.iter().filter(|name| !is_private(name, is_directory(name))).map(|name| prefix.join(name)).collect();
    if shown.len() == names.len() { vec![prefix.to_path_buf()] } else { shown }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A disk on which every path is a directory, but for files with credentials, which are at one place.
    struct Everything;

    impl Tree for Everything {
        fn look(&self, path: &Path) -> io::Result<Option<Node>> {
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            let known = ["/h/u/.local", "/h/u/.cargo", "/h/u/.config", "/h/u/keys/.ssh"];
            let is_there = if hidden { known.iter().any(|one| path == Path::new(one)) } else { true };
            Ok((is_there && !path.ends_with("credentials.toml")).then_some(Node::Dir))
        }

        fn names(&self, _path: &Path) -> io::Result<Vec<OsString>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_folder_of_path_never_shows_the_home_or_what_lies_beside_it() {
        let cases = [
            ("/usr/bin", Some("/usr/bin")),
            ("/opt/gradle/bin", Some("/opt/gradle")),
            ("/opt/bin", Some("/opt/bin")),
            ("/h/u/.local/bin", Some("/h/u/.local/bin")),
            ("/h/u/bin", Some("/h/u/bin")),
            ("/h/u", None),
            ("/h", None),
            ("/", None),
            ("/p", None),
            ("/w/x/bin", Some("/w/x/bin")),
            ("/h/u/tools/rust/bin", Some("/h/u/tools/rust")),
            ("/h/u/opt/node/bin", Some("/h/u/opt/node")),
            ("/h/u/opt/rbenv/shims", Some("/h/u/opt/rbenv")),
            ("/h/u/tools/rust/other", Some("/h/u/tools/rust/other")),
            ("/h/u/.cargo/bin", Some("/h/u/.cargo/bin")),
            ("/h/u/keys/bin", Some("/h/u/keys/bin")),
            ("/h/u/.config/composer/bin", Some("/h/u/.config/composer/bin")),
        ];
        let around = Around {
            home: Some(Path::new("/h/u")),
            workspace: Path::new("/w/x/y"),
            private: Path::new("/p/run"),
            toolchains: &["/h/u/.cargo".into(), "/h/u/.local".into()],
        };
        for (entry, shown) in cases {
            let found = of_path(&[entry.into()], around, &Everything);
            assert_eq!(found, shown.map(PathBuf::from).into_iter().collect::<Vec<_>>(), "{entry}");
        }
    }

    #[test]
    fn files_beside_a_directory_of_programs_that_look_private_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let at = |name: &str| top.join(name);
        for directory in ["fly/bin", "fly/lib", "fly/.git", "env/bin"] {
            std::fs::create_dir_all(at(directory)).unwrap();
        }
        for file in
            ["fly/config.yml", "fly/credentials.json", "fly/.session", "fly/TOKEN", "fly/VERSION", "env/pyvenv.cfg"]
        {
            std::fs::write(at(file), "").unwrap();
        }
        let around = Around { home: Some(&top), workspace: &at("w"), private: &at("p"), toolchains: &[] };
        let shown = |entry: &str| {
            let mut found = of_path(&[at(entry)], around, &crate::workspace::disk::Disk);
            found.sort();
            found
        };
        assert_eq!(shown("fly/bin"), [at("fly/VERSION"), at("fly/bin"), at("fly/lib")]);
        assert_eq!(shown("env/bin"), [at("env")]);
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
