//! Finds the context files of a run: the user's, then the project's from the repository's root down to the workspace.

use std::path::Path;

use crate::path::RelPath;
use crate::policy::Policy;
use crate::prompt::context_files::{ContextFile, ImportFormat, NAMES, bounded, read};
use crate::settings::Settings;

use crate::run::prompt::library::Folder;
use crate::run::rules::trust::Source;

/// Where context files are looked for.
pub struct ContextSources<'a> {
    /// The home directory.
    pub home: Option<&'a Path>,
    /// The repository's top directory, else the workspace.
    pub top: &'a Path,
    /// The workspace.
    pub workspace: &'a Path,
    /// Where the project's files are read from.
    pub project: Source<'a>,
    /// Names and format.
    pub settings: &'a Settings,
    /// What may be read.
    pub policy: &'a Policy,
}

/// Reads the context files in the order in which the model sees them: the nearest to the workspace comes last.
///
/// Returns names with texts, and warnings.
pub fn gather(sources: &ContextSources<'_>) -> (Vec<(String, String)>, Vec<String>) {
    let mut warnings = Vec::new();
    let mut files: Vec<ContextFile> = Vec::new();
    let names = names(sources.settings);
    let format = match sources.settings.context.import_format.as_ref().map(|format| format.value.as_str()) {
        Some("flat") => ImportFormat::Flat,
        Some(_) | None => ImportFormat::Tree,
    };
    let home = sources.home.map(|home| home.display().to_string()).unwrap_or_default();
    let own = sources.home.map(|home| home.join(".qwen")).filter(|own| own.is_dir());
    let mut look = |library: Option<Folder>, folders: &[RelPath], shown: &str| {
        let Some(library) = library else { return };
        for folder in folders {
            for name in &names {
                let Some(path) = folder.join(name) else {
                    warnings.push(format!("context file {name} left out: it is outside the workspace"));
                    continue;
                };
                if library.has(&path) {
                    files.extend(read(&path, &format!("{shown}{path}"), &library, format, &mut warnings));
                }
            }
        }
    };
    if let Some(own) = &own {
        look(Folder::open(own, &home, sources.policy), &[RelPath::root()], "~/.qwen/");
    }
    let project = Folder::of_project(sources.project, sources.top, &home, sources.policy);
    look(project, &folders_down(sources.top, sources.workspace), "");
    let files = bounded(files, &mut warnings);
    warnings.sort();
    warnings.dedup();
    (files.into_iter().map(|file| (file.name, file.text)).collect(), warnings)
}

/// Returns the names of context files.
pub fn names(settings: &Settings) -> Vec<String> {
    match &settings.context.file_names {
        Some(names) => names.value.clone(),
        None => NAMES.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// Returns the directories from the root down to the workspace, both included.
fn folders_down(top: &Path, workspace: &Path) -> Vec<RelPath> {
    let mut folders = vec![RelPath::root()];
    let Some(below) = RelPath::below(top, workspace) else { return folders };
    for component in below.components() {
        let next = std::str::from_utf8(component).ok().and_then(|name| folders.last()?.child(name));
        match next {
            Some(folder) => folders.push(folder),
            None => break,
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::layers::LayerText;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new(files: &[(&str, &str)]) -> Place {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(folder.path().join("repo/a/b")).unwrap();
            for (path, text) in files {
                let path = folder.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Place(folder)
        }

        fn gather(&self, settings: &Settings) -> (Vec<(String, String)>, Vec<String>) {
            let at = |path: &str| self.0.path().join(path).canonicalize().unwrap_or_default();
            let policy =
                Policy::new(&LayerText::builtin("default").unwrap(), &[], &crate::policy::layers::no_parents).unwrap();
            gather(&ContextSources {
                home: Some(&at("home")),
                top: &at("repo"),
                workspace: &at("repo/a/b"),
                project: Source::Disk,
                settings,
                policy: &policy,
            })
        }

        fn names(&self) -> Vec<String> {
            self.gather(&Settings::default()).0.into_iter().map(|(name, _)| name).collect()
        }
    }

    #[test]
    fn files_come_from_home_and_from_the_root_down() {
        let place = Place::new(&[
            ("home/.qwen/QWEN.md", "u"),
            ("repo/AGENTS.md", "2"),
            ("repo/QWEN.md", "1"),
            ("repo/a/b/QWEN.md", "3"),
            ("repo/a/b/c/QWEN.md", "below"),
            ("QWEN.md", "above"),
        ]);
        assert_eq!(place.names(), ["~/.qwen/QWEN.md", "QWEN.md", "AGENTS.md", "a/b/QWEN.md"]);
    }

    #[test]
    fn what_is_ignored_denied_or_outside_is_left_out_and_said() {
        let place = Place::new(&[
            ("repo/.qwenignore", "notes.md\n"),
            ("repo/notes.md", "n"),
            ("repo/.env", "KEY=1"),
            ("repo/QWEN.md", "@notes.md\n@.env\n@link.md\n"),
            ("secret", "s"),
        ]);
        std::os::unix::fs::symlink(place.0.path().join("secret"), place.0.path().join("repo/link.md")).unwrap();
        let (files, warnings) = place.gather(&Settings::default());
        assert_eq!(files[0].1.matches("left out").count(), 3, "{}", files[0].1);
        assert!(!files[0].1.contains("KEY"));
        assert_eq!(warnings.len(), 3, "{warnings:?}");
    }

    #[test]
    fn the_names_are_settable() {
        let place = Place::new(&[("repo/CONTEXT.md", "c"), ("repo/QWEN.md", "q")]);
        let mut settings = Settings::default();
        let names = vec!["CONTEXT.md".into(), "../QWEN.md".into()];
        settings.context.file_names = Some(crate::settings::Valued::new(names, Default::default()));
        let (files, warnings) = place.gather(&settings);
        assert_eq!(files, [("CONTEXT.md".to_owned(), "c".to_owned()), ("QWEN.md".to_owned(), "q".to_owned())]);
        assert!(warnings[0].contains("outside the workspace"), "{warnings:?}");
    }
}
