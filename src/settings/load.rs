//! Reads settings from disk and environment. No other file of this module does.

#![expect(clippy::disallowed_methods, reason = "the environment is captured here, once")]

use std::path::{Path, PathBuf};

use crate::base::document::jsonc;
use crate::base::{Diagnostic, Span};
use crate::bounded;
use crate::checkouts::Around;
use crate::git::trusted::{committed_in_checkout, configuration_came_along};
use crate::policy::own_files;

use super::account::home_came_unpacked;
use super::environment::Environment;
use super::layers::{Layer, LayerKind, merge};
use super::sections::Settings;
use super::{Origin, SettingsError};

/// What to load, and how far to trust it.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The root of the repository, else the workspace: where `.qwen/` is.
    pub project_root: PathBuf,
    /// The workspace, from which upward `.env` is looked for, and what is around it.
    pub around: Around,
    /// Whether the checkout's files are trusted.
    pub trusted: bool,
    /// The project's settings from the trusted ref, with a name for messages; they are trusted. The tree's own then
    /// count next to them as an untrusted checkout's.
    pub trusted_ref: Option<(String, String)>,
    /// `--bare`: no file at all.
    pub bare: bool,
}

impl Request {
    /// Whether the files of the tree count as they are: not where a trusted commit counts in their place.
    fn trusts_tree(&self) -> bool {
        self.trusted && self.trusted_ref.is_none()
    }
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// The environment, with what `.env` and `env` of the settings add.
    pub environment: Environment,
    /// The files that were read, the weakest first.
    pub files: Vec<String>,
    /// What the owner should know; `--strict` makes errors of them.
    pub warnings: Vec<String>,
}

impl Environment {
    /// Captures the process's environment: called once, in `main`.
    pub fn capture() -> std::io::Result<Environment> {
        let text = |value: std::ffi::OsString| value.into_string().ok();
        Ok(Environment {
            variables: std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect(),
            additional: Default::default(),
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            cwd: std::env::current_dir()?,
        })
    }
}

/// Reads all settings files and the `.env` file, and merges them.
pub fn load(request: &Request, environment: &Environment) -> Result<Loaded, SettingsError> {
    let mut environment = environment.clone();
    let mut warnings = Vec::new();
    leave_out_home(request, &mut environment, &mut warnings);
    if request.bare {
        return Ok(Loaded { environment, warnings, ..Loaded::default() });
    }
    read_dot_env(request, &mut environment, &mut warnings)?;
    let mut layers = Vec::new();
    for (kind, path, shown) in places(request, &environment) {
        let checkout = match kind {
            LayerKind::Project | LayerKind::UntrustedProject => Some(request.project_root.as_path()),
            LayerKind::SystemDefaults | LayerKind::System | LayerKind::User => None,
        };
        if let Some(text) = read(&path, checkout, &shown)? {
            layers.push(layer(kind, shown, &text)?);
        }
    }
    if let Some((name, text)) = &request.trusted_ref {
        layers.push(layer(LayerKind::Project, name.clone(), text)?);
    }
    layers.sort_by_key(|layer| layer.kind);
    let (mut settings, mut problems) = merge(&layers, |name| environment.value(name))?;
    if !settings.environment.env.is_empty() {
        for (name, valued) in &settings.environment.env {
            environment.additional.entry(name.clone()).or_insert_with(|| (valued.value.clone(), valued.origin.clone()));
        }
        // Again, since the other keys may name what `env` sets.
        (settings, problems) = merge(&layers, |name| environment.value(name))?;
    }
    warnings.extend(problems);
    Ok(Loaded { settings, environment, files: layers.into_iter().map(|layer| layer.path).collect(), warnings })
}

/// The files, with the names that messages show.
fn places(request: &Request, environment: &Environment) -> Vec<(LayerKind, PathBuf, String)> {
    let variable = |name: &str, default: &str| environment.variables.get(name).cloned().unwrap_or(default.to_owned());
    let defaults = variable("QWEN_CODE_SYSTEM_DEFAULTS_PATH", "/etc/qwen-code/system-defaults.json");
    let system = variable("QWEN_CODE_SYSTEM_SETTINGS_PATH", "/etc/qwen-code/settings.json");
    let mut places = vec![
        (LayerKind::SystemDefaults, PathBuf::from(&defaults), defaults),
        (LayerKind::System, PathBuf::from(&system), system),
    ];
    let project = request.project_root.join(".qwen/settings.json");
    let user = environment.home.as_ref().map(|home| home.join(".qwen/settings.json"));
    if let Some(user) = &user {
        places.push((LayerKind::User, user.clone(), "~/.qwen/settings.json".to_owned()));
    }
    // In the home directory itself the one file is the user's.
    if user.as_ref() != Some(&project) {
        let kind = if request.trusts_tree() { LayerKind::Project } else { LayerKind::UntrustedProject };
        places.push((kind, project, ".qwen/settings.json".to_owned()));
    }
    places
}

fn layer(kind: LayerKind, path: String, text: &str) -> Result<Layer, SettingsError> {
    match jsonc::parse(&path, text) {
        Ok(root) => Ok(Layer { kind, path, root }),
        Err(Diagnostic { span: Span { line, column }, message, .. }) => {
            Err(SettingsError { origin: Origin::File { path, line, column }, message })
        }
    }
}

/// Returns a file's text; `None` if there is none. One of a checkout is not read through a link out of it.
fn read(path: &Path, checkout: Option<&Path>, shown: &str) -> Result<Option<String>, SettingsError> {
    let problem = |message: String| SettingsError {
        origin: Origin::File { path: shown.to_owned(), line: 1, column: 1 },
        message,
    };
    let read = match checkout {
        // Of a trusted checkout: the one file for secrets that is read.
        Some(checkout) if path.file_name().is_some_and(|name| name == ".env") => {
            bounded::text_below(checkout, path, bounded::CONFIG)
        }
        Some(checkout) => own_files::text(checkout, path, bounded::CONFIG),
        None => bounded::regular_text(path, bounded::CONFIG),
    };
    bounded::optional(read).map_err(|error| problem(format!("cannot be read: {error}")))
}

/// Forgets the home directory where it is inside a checkout that is not trusted (`HOME=$PWD`, as some CI systems set it
/// for containers), or one around the workspace, and a commit holds a `.qwen` or `.env` there: those came with the
/// checkout and are not the user's. Without a checkout, its place [decides](home_came_unpacked). A git configuration there,
/// which names programs, is named here; git reads none.
fn leave_out_home(request: &Request, environment: &mut Environment, warnings: &mut Vec<String>) {
    let configuration = environment.variables.get("XDG_CONFIG_HOME").map(PathBuf::from);
    if configuration_came_along(&request.around, configuration.as_deref()) {
        warnings.push(
            "the user's git configuration is inside a checkout that contains the workspace: it is not read".to_owned(),
        );
    }
    let real = request.around.home.as_ref().filter(|_| !request.trusts_tree());
    let (Some(home), Some(real)) = (&environment.home, real) else { return };
    if home_came_unpacked(&request.around) {
        warnings.push(format!(
            "the home directory {} is in or around the workspace, which is in no repository, and the system has another \
             one for this user: nothing is read from it (set HOME to the user's own, or say --trust-checkout)",
            home.display()
        ));
        environment.home = None;
    } else if committed_in_checkout(&request.around, real, &[".qwen", ".env"]) {
        warnings.push(format!(
            "the home directory {} is part of this checkout, which is not trusted: nothing is read from it",
            home.display()
        ));
        environment.home = None;
    }
}

/// Reads the first `.env` file: `.qwen/.env` and `.env` of each directory from the workspace up to the project's root,
/// then of the home directory.
///
/// One within an untrusted checkout, or that belongs to another user, is left out and named. Directories above the
/// project are not searched: they may be somebody else's checkout, of which this one is a nested repository.
fn read_dot_env(
    request: &Request,
    environment: &mut Environment,
    warnings: &mut Vec<String>,
) -> Result<(), SettingsError> {
    let within = |folder: &Path| folder.starts_with(&request.project_root) || folder == request.around.workspace;
    let upward = request.around.workspace.ancestors().take_while(|folder| within(folder)).map(Path::to_path_buf);
    let folders: Vec<PathBuf> = upward.chain(environment.home.clone()).collect();
    for folder in folders {
        let in_checkout = within(&folder) && environment.home.as_ref() != Some(&folder);
        for path in [folder.join(".qwen/.env"), folder.join(".env")] {
            let shown = path.display().to_string();
            if !path.is_file() {
                continue;
            }
            if in_checkout && !request.trusts_tree() {
                warnings.push(format!(
                    "{shown} left out: this checkout is not trusted (`qwen policy trust`, or --trust-checkout)"
                ));
                continue;
            }
            if !is_ours(&path) {
                warnings.push(format!("{shown} left out: it belongs to another user"));
                continue;
            }
            let checkout = in_checkout.then_some(request.project_root.as_path());
            let Some(text) = read(&path, checkout, &shown)? else { continue };
            for entry in dotenvy::from_read_iter(text.as_bytes()) {
                match entry {
                    Ok((name, value)) => {
                        let origin = Origin::DotEnv { name: name.clone(), path: shown.clone() };
                        environment.additional.entry(name).or_insert((value, origin));
                    }
                    // The line may hold a secret: it is not shown.
                    Err(_) => {
                        warnings.push(format!("{shown}: a line is not NAME=value; the lines after it are left out"));
                        break;
                    }
                }
            }
            return Ok(());
        }
    }
    Ok(())
}

fn is_ours(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let us = rustix::process::geteuid().as_raw();
    path.metadata().is_ok_and(|data| data.uid() == us || data.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new(files: &[(&str, &str)]) -> Place {
            let folder = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = folder.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, text).unwrap();
            }
            std::fs::create_dir_all(folder.path().join("repo/sub")).unwrap();
            Place { folder }
        }

        fn load(&self, trusted: bool) -> Result<Loaded, SettingsError> {
            let at = |path: &str| self.folder.path().join(path);
            let text = |path: &str| at(path).display().to_string();
            let environment = Environment {
                variables: [
                    ("QWEN_CODE_SYSTEM_DEFAULTS_PATH".into(), text("etc/system-defaults.json")),
                    ("QWEN_CODE_SYSTEM_SETTINGS_PATH".into(), text("etc/settings.json")),
                    ("REAL".into(), "process".into()),
                ]
                .into(),
                home: Some(at("home")),
                cwd: at("repo"),
                ..Environment::default()
            };
            let around = Around::new(&at("repo/sub"), &at("repo"), Some(&at("home")));
            let request = Request { project_root: at("repo"), around, trusted, ..Request::default() };
            load(&request, &environment)
        }
    }

    #[test]
    fn layers_stand_in_their_order() {
        let place = Place::new(&[
            ("etc/system-defaults.json", r#"{"model": "defaults", "proxy": "defaults"}"#),
            ("home/.qwen/settings.json", r#"{"model": "user", "proxy": "user"}"#),
            ("repo/.qwen/settings.json", r#"{"model": "project", "proxy": "project"}"#),
            ("etc/settings.json", r#"{"model": "system"}"#),
        ]);
        let loaded = place.load(true).unwrap();
        assert_eq!(loaded.settings.model.name.unwrap().value, "system");
        assert_eq!(loaded.settings.environment.proxy.unwrap().value, "project");
        assert_eq!(loaded.files.len(), 4);
        let loaded = place.load(false).unwrap();
        assert_eq!(loaded.settings.environment.proxy.unwrap().value, "user");
        assert_eq!(loaded.warnings.len(), 2);
    }

    #[test]
    fn no_file_of_a_checkout_is_read_through_a_link_out_of_it() {
        for (name, text) in [(".qwen/settings.json", r#"{"model": "another's"}"#), (".env", "QWEN_MODEL=another's\n")] {
            let place = Place::new(&[("elsewhere", text), ("repo/.qwen/x", "")]);
            let link = place.folder.path().join("repo").join(name);
            std::os::unix::fs::symlink(place.folder.path().join("elsewhere"), &link).unwrap();
            let refused = place.load(true).unwrap_err();
            assert!(refused.message.contains("points outside the checkout"), "{}", refused.message);
        }
    }

    #[test]
    fn a_dot_env_of_an_untrusted_checkout_is_left_out_and_named() {
        let place = Place::new(&[("repo/.env", "REAL=file\nQWEN_API_KEY=k\n"), ("home/.qwen/.env", "HOME_KEY=h\n")]);
        let loaded = place.load(false).unwrap();
        assert_eq!(loaded.environment.value("QWEN_API_KEY"), None);
        assert_eq!(loaded.environment.value("HOME_KEY").as_deref(), Some("h"));
        assert!(loaded.warnings[0].contains(".env left out"), "{:?}", loaded.warnings);
        let loaded = place.load(true).unwrap();
        assert_eq!(loaded.environment.value("QWEN_API_KEY").as_deref(), Some("k"));
        assert_eq!(loaded.environment.value("REAL").as_deref(), Some("process"));
    }

    #[test]
    fn a_dot_env_above_the_project_is_nobodys() {
        let place = Place::new(&[(".env", "QWEN_BASE_URL=http://other\n"), ("home/.env", "HOME_KEY=h\n")]);
        for trusted in [true, false] {
            let loaded = place.load(trusted).unwrap();
            assert_eq!(loaded.environment.value("QWEN_BASE_URL"), None);
            assert_eq!(loaded.environment.value("HOME_KEY").as_deref(), Some("h"));
        }
    }

    #[test]
    fn a_broken_file_is_an_error_that_names_the_place() {
        let place = Place::new(&[("home/.qwen/settings.json", "{\n  oops\n}")]);
        let error = place.load(true).unwrap_err().to_string();
        assert_eq!(error, "~/.qwen/settings.json:2:3: expected a key in \"quotes\", found `o`");
    }

    #[test]
    fn other_keys_may_name_what_env_of_the_settings_sets() {
        let text = r#"{"proxy": "http://$HOST:1", "env": {"HOST": "h.example"}}"#;
        let loaded = Place::new(&[("home/.qwen/settings.json", text)]).load(true).unwrap();
        assert_eq!(loaded.settings.environment.proxy.unwrap().value, "http://h.example:1");
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }

    #[test]
    fn env_of_the_settings_never_wins_over_the_process() {
        let place = Place::new(&[("home/.qwen/settings.json", r#"{"env": {"REAL": "file", "MORE": 1}}"#)]);
        let loaded = place.load(true).unwrap();
        assert_eq!(loaded.environment.value("REAL").as_deref(), Some("process"));
        assert_eq!(loaded.environment.get("MORE").unwrap().1.to_string(), "~/.qwen/settings.json:1:9");
    }
}
