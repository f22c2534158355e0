//! Finds toolchains and caches of the real home, which commands may read without their credential files.
//!
//! A command has a private home, so each tool is told where its directory is. Only named parts of a directory are
//! visible: everything else, credential files above all, does not exist inside. With namespaces, a scratch layer over a
//! cache takes what a tool writes into it and is discarded after the command.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::path::{Node, Tree};

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// Variables by which programs find them.
    pub variables: BTreeMap<String, OsString>,
    /// Directories and files that may be read.
    pub read: Vec<PathBuf>,
    /// Directories that may be read and, with namespaces, written through a scratch layer.
    pub layered: Vec<PathBuf>,
    /// Parent directories of the others, which are private, empty and writable with namespaces.
    pub scratch: Vec<PathBuf>,
}

/// Where commands will run.
#[derive(Debug, Clone, Copy)]
pub struct Where<'a> {
    /// The project's root: a cache in it is part of the command workspace, or unavailable.
    pub workspace: &'a Path,
    /// Whether there are scratch layers: in namespaces.
    pub layers: bool,
    /// Whether commands reach the network.
    pub network: bool,
}

/// When a tool gets the variable that names its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Always: it works with a directory that it cannot write.
    Always,
    /// Only where it can write the directory under a scratch layer.
    WithLayers,
}

/// A tool's directory.
struct Toolchain {
    /// The variable that names it.
    variable: &'static str,
    /// Where it is if the variable is not set, below the home; empty if there is no such place.
    home: &'static str,
    /// Parts that are shown; `.` for all of it.
    read: &'static [&'static str],
    /// Parts that get a scratch layer.
    layered: &'static [&'static str],
    told: Told,
}

const fn whole(variable: &'static str, home: &'static str) -> Toolchain {
    Toolchain { variable, home, read: &["."], layered: &[], told: Told::Always }
}

const fn cache(variable: &'static str, home: &'static str, told: Told) -> Toolchain {
    Toolchain { variable, home, read: &[], layered: &["."], told }
}

/// All directories that are looked for. What a table does not list is hidden: `credentials.toml` of cargo,
/// `gradle.properties` and `init.d` of Gradle, `settings.xml` of Maven, `auth.json` of Composer, `credentials` of gem.
const TOOLCHAINS: &[Toolchain] = &[
    Toolchain {
        variable: "CARGO_HOME",
        home: ".cargo",
        read: &["bin", "config", "config.toml", "env"],
        layered: &["registry", "git"],
        told: Told::Always,
    },
    whole("RUSTUP_HOME", ".rustup"),
    Toolchain { variable: "GOPATH", home: "go", read: &["bin", "src"], layered: &["pkg"], told: Told::Always },
    cache("GOMODCACHE", "", Told::Always),
    whole("GOROOT", ""),
    Toolchain { variable: "npm_config_cache", home: ".npm", read: &[], layered: &["_cacache"], told: Told::Always },
    cache("YARN_CACHE_FOLDER", ".cache/yarn", Told::WithLayers),
    whole("PNPM_HOME", ".local/share/pnpm"),
    cache("PIP_CACHE_DIR", ".cache/pip", Told::Always),
    cache("UV_CACHE_DIR", ".cache/uv", Told::WithLayers),
    whole("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    whole("UV_TOOL_DIR", ".local/share/uv/tools"),
    whole("PIPX_HOME", ".local/share/pipx"),
    Toolchain { variable: "PYTHONUSERBASE", home: ".local", read: &["bin", "lib"], layered: &[], told: Told::Always },
    whole("POETRY_VIRTUALENVS_PATH", ".cache/pypoetry/virtualenvs"),
    whole("VIRTUAL_ENV", ""),
    whole("CONDA_PREFIX", ""),
    whole("NVM_DIR", ".nvm"),
    whole("FNM_DIR", ".local/share/fnm"),
    whole("VOLTA_HOME", ".volta"),
    whole("NODENV_ROOT", ".nodenv"),
    whole("PYENV_ROOT", ".pyenv"),
    whole("RBENV_ROOT", ".rbenv"),
    whole("ASDF_DATA_DIR", ".asdf"),
    whole("MISE_DATA_DIR", ".local/share/mise"),
    whole("SDKMAN_DIR", ".sdkman"),
    whole("JAVA_HOME", ""),
    whole("DOTNET_ROOT", ".dotnet"),
    cache("NUGET_PACKAGES", ".nuget/packages", Told::WithLayers),
    cache("DENO_DIR", ".cache/deno", Told::WithLayers),
    Toolchain { variable: "BUN_INSTALL", home: ".bun", read: &["bin"], layered: &["install"], told: Told::WithLayers },
    Toolchain { variable: "GEM_HOME", home: "", read: &["."], layered: &[], told: Told::Always },
    cache("COMPOSER_CACHE_DIR", ".cache/composer", Told::WithLayers),
    Toolchain {
        variable: "GRADLE_USER_HOME",
        home: ".gradle",
        read: &["jdks"],
        layered: &["caches", "wrapper"],
        told: Told::WithLayers,
    },
    whole("RUNNER_TOOL_CACHE", ""),
];

/// Variables that keep tools from waiting for a network that is unavailable.
const OFFLINE: &[(&str, &str)] = &[
    ("CARGO_NET_OFFLINE", "true"),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    ("PIP_NO_INDEX", "1"),
    ("UV_OFFLINE", "1"),
    // Nothing can be installed, and building the project would run its code.
    ("UV_NO_SYNC", "1"),
    ("npm_config_offline", "true"),
];

/// Variables that keep tools from writing where they cannot, and from checking for updates.
const QUIET: &[(&str, &str)] = &[
    ("npm_config_audit", "false"),
    ("npm_config_fund", "false"),
    ("npm_config_logs_max", "0"),
    ("npm_config_update_notifier", "false"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("DOTNET_CLI_TELEMETRY_OPTOUT", "1"),
];

/// Returns the directories that the table knows: those that variables name, and the usual ones below the real home.
pub(super) fn directories(environment: &BTreeMap<OsString, OsString>) -> Vec<PathBuf> {
    let home = environment.get(OsStr::new("HOME")).map(PathBuf::from);
    let named = |toolchain: &Toolchain| environment.get(OsStr::new(toolchain.variable)).map(PathBuf::from);
    let usual =
        |toolchain: &Toolchain| Some(home.as_ref()?.join(toolchain.home)).filter(|_| !toolchain.home.is_empty());
    TOOLCHAINS.iter().flat_map(|toolchain| [named(toolchain), usual(toolchain)]).flatten().collect()
}

/// Finds the toolchains that the environment names, or that are at their usual place below the real home.
pub fn find(environment: &BTreeMap<OsString, OsString>, disk: &dyn Tree, place: Where<'_>) -> Toolchains {
    let variable = |name: &str| environment.get(OsStr::new(name)).map(PathBuf::from);
    let home = variable("HOME").filter(|home| home.is_absolute() && *home != Path::new("/"));
    let mut found = Toolchains::default();
    let mut set = |name: &str, value: &str| found.variables.insert(name.to_owned(), value.into());
    QUIET.iter().for_each(|(name, value)| drop(set(name, value)));
    if !place.network {
        OFFLINE.iter().for_each(|(name, value)| drop(set(name, value)));
    }
    for toolchain in TOOLCHAINS {
        let usual = (!toolchain.home.is_empty()).then(|| Some(home.as_ref()?.join(toolchain.home))).flatten();
        let Some(folder) = variable(toolchain.variable).or(usual) else { continue };
        let holds = |path: &Path| path.starts_with(&folder);
        let too_wide = holds(place.workspace) || home.as_deref().is_some_and(holds);
        if !folder.is_absolute() || too_wide || folder.starts_with(place.workspace) || !is_folder(disk, &folder) {
            continue;
        }
        if place.layers || toolchain.told == Told::Always {
            found.variables.insert(toolchain.variable.to_owned(), folder.clone().into());
        }
        let part = |name: &&str| if **name == *"." { folder.clone() } else { folder.join(name) };
        let there = |path: &PathBuf| matches!(disk.look(path), Ok(Some(_)));
        found.read.extend(toolchain.read.iter().map(part).filter(there));
        found.layered.extend(toolchain.layered.iter().map(part).filter(|path| is_folder(disk, path)));
        if !toolchain.layered.is_empty() && toolchain.layered != ["."] {
            found.scratch.push(folder);
        }
    }
    if let Some(home) = &home {
        find_java_caches(home, disk, place.layers, &mut found);
    }
    found
}

/// Maven has no variable for its repository, and Gradle uses another one for a read-only cache.
fn find_java_caches(home: &Path, disk: &dyn Tree, layers: bool, found: &mut Toolchains) {
    let repository = home.join(".m2/repository");
    // The variable is split at spaces, and nothing quotes them.
    let plain = repository.to_str().filter(|text| !text.contains(char::is_whitespace));
    if let Some(text) = plain.filter(|_| is_folder(disk, &repository)) {
        let (variable, value) = if layers {
            ("MAVEN_OPTS", format!("-Dmaven.repo.local={text}"))
        } else {
            ("MAVEN_ARGS", format!("-Dmaven.repo.local.tail={text} -Dmaven.repo.local.tail.ignoreAvailability=true"))
        };
        found.variables.insert(variable.to_owned(), value.into());
        found.layered.push(repository);
    }
    let gradle = home.join(".gradle/caches");
    if !layers && is_folder(disk, &gradle) {
        found.variables.insert("GRADLE_RO_DEP_CACHE".to_owned(), gradle.into());
    }
}

/// Tells whether a directory is there, or a link that may lead to one.
fn is_folder(disk: &dyn Tree, path: &Path) -> bool {
    matches!(disk.look(path), Ok(Some(Node::Dir | Node::Link(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk of directories and files by their names; a name that ends in `/` is a directory.
    struct Names(&'static [&'static str]);

    impl Tree for Names {
        fn look(&self, path: &Path) -> std::io::Result<Option<Node>> {
            let path = path.to_str().unwrap();
            let node = self.0.iter().find_map(|name| {
                if *name == path {
                    return Some(Node::File { links: 1, id: (0, 0), executable: false, size: 0 });
                }
                let below = name.strip_prefix(path)?;
                (below.starts_with('/')).then_some(Node::Dir)
            });
            Ok(node)
        }

        fn names(&self, _path: &Path) -> std::io::Result<Vec<OsString>> {
            Ok(Vec::new())
        }
    }

    fn find_in(names: &'static [&'static str], variables: &[(&str, &str)], layers: bool) -> Toolchains {
        let environment = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        find(&environment, &Names(names), Where { workspace: Path::new("/w"), layers, network: true })
    }

    const HOME: &[&str] = &[
        "/h/.cargo/credentials.toml",
        "/h/.cargo/config.toml",
        "/h/.cargo/registry/",
        "/h/.cargo/bin/cargo",
        "/h/.m2/settings.xml",
        "/h/.m2/repository/",
        "/h/.gradle/gradle.properties",
        "/h/.gradle/caches/",
        "/h/.npm/_cacache/",
        "/h/.ssh/id_rsa",
        "/w/cargo/registry/",
    ];

    fn is_shown(found: &Toolchains, path: &str) -> bool {
        found.read.iter().chain(&found.layered).any(|shown| Path::new(path).starts_with(shown))
    }

    #[test]
    fn toolchains_are_shown_and_their_credentials_are_not() {
        for layers in [false, true] {
            let found = find_in(HOME, &[("HOME", "/h")], layers);
            for hidden in
                ["/h/.cargo/credentials.toml", "/h/.m2/settings.xml", "/h/.gradle/gradle.properties", "/h/.ssh/id_rsa"]
            {
                assert!(!is_shown(&found, hidden), "{hidden}");
            }
            for shown in ["/h/.cargo/registry/x", "/h/.cargo/bin/cargo", "/h/.m2/repository/x", "/h/.npm/_cacache/x"] {
                assert!(is_shown(&found, shown), "{shown}");
            }
            assert_eq!(found.variables["CARGO_HOME"], "/h/.cargo");
            assert_eq!(found.variables.contains_key("GRADLE_USER_HOME"), layers);
            assert_eq!(found.variables.contains_key("GRADLE_RO_DEP_CACHE"), !layers);
        }
    }

    #[test]
    fn a_variable_wins_over_the_usual_place_unless_it_shows_too_much() {
        let found = find_in(&["/x/registry/", "/h/.cargo/registry/"], &[("HOME", "/h"), ("CARGO_HOME", "/x")], false);
        assert_eq!(found.variables["CARGO_HOME"], "/x");
        for wide in ["/", "/h", "/w", "/w/cargo", "relative"] {
            let found = find_in(HOME, &[("HOME", "/h"), ("CARGO_HOME", wide), ("PYENV_ROOT", wide)], false);
            assert!(
                !found.variables.contains_key("PYENV_ROOT") && !found.variables.contains_key("CARGO_HOME"),
                "{wide}"
            );
            assert!(!is_shown(&found, "/h/.ssh/id_rsa") && !is_shown(&found, "/w/cargo/registry"), "{wide}");
        }
    }

    #[test]
    fn without_a_home_only_variables_count() {
        let found = find_in(&["/opt/tools/node/"], &[("RUNNER_TOOL_CACHE", "/opt/tools")], false);
        assert_eq!(found.read, [Path::new("/opt/tools")]);
        assert_eq!(find_in(HOME, &[("HOME", "/")], false).read, Vec::<PathBuf>::new());
    }
}
