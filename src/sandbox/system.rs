//! Lists the system directories that commands may read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::named::has_credentials;
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
    "java-8-openjdk",
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
    "maven/logging",
    "maven/m2.conf",
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

/// Tells whether a path is in a directory of the system, where nobody but root keeps anything.
#[cfg(target_os = "linux")]
pub(super) fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|known| path.starts_with(known)) || path.starts_with("/etc")
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
/// A program outside of the system's directories comes with the toolchain that it is part of: `/opt/gradle/lib` for
/// `/opt/gradle/bin`, and below the home `~/tools/rust/lib` for `~/tools/rust/bin`, unless credentials are there, or a
/// table knows more of it.
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
        prefix.map_or_else(|| vec![entry.clone()], |prefix| with_toolchain(prefix, entry, disk))
    };
    path.iter()
        .filter(|entry| !holds(entry) && matches!(disk.look(entry), Ok(Some(Node::Dir | Node::Link(_)))))
        .flat_map(with_neighbours)
        .collect()
}

/// What programs need beside their directory, in every toolchain: directories, and files that state the version.
const BESIDE: [&str; 25] = [
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "libexec",
    "libs",
    "share",
    "include",
    "man",
    "VERSION",
    "version",
    "version.txt",
    "build.txt",
    "revision",
    "release",
    "pyvenv.cfg",
    "go.env",
    "asdf.sh",
    // Of Conda: the certificates of authorities, not the keys beside them.
    "ssl/cacert.pem",
    "ssl/openssl.cnf",
    // Of Maven, Gradle and older JDKs.
    "boot",
    "init.d",
    "jre",
];

/// What a toolchain needs besides, where it is of the kind that has the mark.
const BY_MARK: [(&str, &[&str]); 7] = [
    ("lib/modules", &["conf", "jmods", "legal"]),
    ("src/runtime", &["src", "pkg", "api", "misc"]),
    ("package.json", &["package.json", "node_modules", "dist"]),
    ("lib/groovy.jar", &["conf"]),
    ("bin/cache/dart-sdk", &["packages"]),
    ("composer/autoload_real.php", &["."]),
    ("shims", &["shims", "versions", "installs", "plugins", "completions"]),
];

/// The processors whose names begin a directory of a cross compiler (`arm-none-eabi`, `x86_64-conda-linux-gnu`).
const PROCESSORS: [&str; 14] = [
    "x86_64",
    "i386",
    "i686",
    "aarch64",
    "arm",
    "armv7",
    "riscv32",
    "riscv64",
    "mips",
    "mipsel",
    "powerpc64le",
    "s390x",
    "avr",
    "xtensa",
];

/// Returns the directory of programs `entry`, and of what is beside it below `prefix` the parts of a toolchain: by their
/// names alone, as anything else may be the user's own.
fn with_toolchain(prefix: &Path, entry: &Path, disk: &dyn Tree) -> Vec<PathBuf> {
    let is_there = |name: &str| matches!(disk.look(&prefix.join(name)), Ok(Some(_)));
    let by_mark = BY_MARK.into_iter().filter(|(mark, _)| is_there(mark)).flat_map(|(_, names)| names);
    let mut shown: Vec<PathBuf> = vec![entry.to_path_buf()];
    let names = BESIDE.iter().chain(by_mark).filter(|name| is_there(name));
    shown.extend(
        names
            .map(|name| if *name == "." { prefix.to_path_buf() } else { prefix.join(name) })
            .filter(|path| path != entry),
    );
    let is_target = |name: &OsString| {
        let mut parts = name.to_str().unwrap_or_default().split('-');
        parts.next().is_some_and(|first| PROCESSORS.contains(&first)) && parts.count() > 0
    };
    shown.extend(
        disk.names(prefix).unwrap_or_default().iter().filter(|name| is_target(name)).map(|name| prefix.join(name)),
    );
    shown
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
            ("/usr/bin", true, false),
            ("/opt/gradle/bin", true, true),
            ("/opt/bin", true, false),
            ("/h/u/.local/bin", true, false),
            ("/h/u/bin", true, false),
            ("/h/u", false, false),
            ("/h", false, false),
            ("/", false, false),
            ("/p", false, false),
            ("/w/x/bin", true, false),
            ("/h/u/tools/rust/bin", true, true),
            ("/h/u/opt/node/bin", true, true),
            ("/h/u/opt/rbenv/shims", true, true),
            ("/h/u/tools/rust/other", true, false),
            ("/h/u/.cargo/bin", true, false),
            ("/h/u/keys/bin", true, false),
            ("/h/u/.config/composer/bin", true, false),
        ];
        let around = Around {
            home: Some(Path::new("/h/u")),
            workspace: Path::new("/w/x/y"),
            private: Path::new("/p/run"),
            toolchains: &["/h/u/.cargo".into(), "/h/u/.local".into()],
        };
        for (entry, is_shown, with_lib) in cases {
            let found = of_path(&[entry.into()], around, &Everything);
            let lib = Path::new(entry).with_file_name("lib");
            assert_eq!(
                (found.contains(&entry.into()), found.contains(&lib)),
                (is_shown, with_lib),
                "{entry}: {found:?}"
            );
            assert!(
                found.iter().all(|path| path.starts_with(Path::new(entry).with_file_name(""))),
                "{entry}: {found:?}"
            );
        }
    }

    #[test]
    fn of_what_is_beside_a_directory_of_programs_the_parts_of_a_toolchain_are_shown_alone() {
        // The directory of programs, what else is there, and what of it is shown; a name with `/` at its end is a directory.
        let homes: [(&str, &[&str], &[&str]); 14] = [
            (
                "fly/bin",
                &["config.yml", "credentials.json", ".session", "TOKEN", "VERSION", "lib/"],
                &["VERSION", "lib"],
            ),
            (".foundry/bin", &["keystores/deployer", "share/man"], &["share"]),
            (".sui/bin", &["sui_config/sui.keystore"], &[]),
            (".lmstudio/bin", &["conversations/1.json", "models/m"], &[]),
            (".acme/bin", &["session", "config/settings", "data/tokens", "etc/key"], &[]),
            ("project/bin", &["server.key", "deploy.pem", "id_rsa", "src/a.rs", "lib/a.rb", "conf/x"], &["lib"]),
            ("env/bin", &["pyvenv.cfg", "lib/python3/site.py", "include/", "token"], &["pyvenv.cfg", "lib", "include"]),
            (
                "jdk/bin",
                &["lib/modules", "conf/security/x", "jmods/", "release", "keys/"],
                &["lib", "conf", "jmods", "release"],
            ),
            (
                "go/bin",
                &["VERSION", "go.env", "src/runtime/a.go", "pkg/tool/x", "api/", "secret"],
                &["VERSION", "go.env", "src", "pkg", "api"],
            ),
            ("maven/bin", &["boot/x.jar", "lib/x.jar", "conf/settings.xml"], &["boot", "lib"]),
            (
                "node/bin",
                &["lib/node_modules/npm/x.js", "include/", "share/", "etc/npmrc"],
                &["lib", "include", "share"],
            ),
            ("gcc/bin", &["arm-none-eabi/lib/x", "libexec/", "avr"], &["arm-none-eabi", "libexec"]),
            (
                "cli/bin",
                &["package.json", "node_modules/", "dist/x.js", "token"],
                &["package.json", "node_modules", "dist"],
            ),
            (
                "asdf/shims",
                &["installs/x", "plugins/", "lib/", "asdf.sh", "auth"],
                &["installs", "plugins", "lib", "asdf.sh"],
            ),
        ];
        for (entry, beside, expected) in homes {
            let folder = tempfile::tempdir().unwrap();
            let top = folder.path().canonicalize().unwrap();
            let prefix = top.join(entry).parent().unwrap().to_path_buf();
            std::fs::create_dir_all(top.join(entry)).unwrap();
            for name in beside {
                let path = prefix.join(name);
                std::fs::create_dir_all(if name.ends_with('/') { &path } else { path.parent().unwrap() }).unwrap();
                if !name.ends_with('/') {
                    std::fs::write(path, "").unwrap();
                }
            }
            let around =
                Around { home: Some(&top), workspace: &top.join("w"), private: &top.join("p"), toolchains: &[] };
            let mut found = of_path(&[top.join(entry)], around, &crate::workspace::disk::Disk);
            let mut expected: Vec<PathBuf> =
                expected.iter().map(|name| prefix.join(name)).chain([top.join(entry)]).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{entry}");
        }
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
