//! Reads the files that show a project's own commands, from where its files are trusted.

use std::path::Path;

use crate::bounded;
use crate::policy::own_files;
use crate::recipe::project::Project;
use crate::run::rules::trust::Source;

/// Finds the commands in the files of the workspace's directory, else of the top one. `prefix` is the workspace below the
/// top; `why_not` says why nothing is trusted.
pub(super) fn find(source: Source<'_>, top: &Path, prefix: &str, why_not: &str) -> Result<Project, String> {
    let project = find_in(source, top, prefix, why_not)?;
    if prefix.is_empty() || !project.is_empty() {
        return Ok(project);
    }
    find_in(source, top, "", why_not)
}

fn find_in(source: Source<'_>, top: &Path, folder: &str, why_not: &str) -> Result<Project, String> {
    let below = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    match source {
        Source::Nowhere => Err(format!("no file of this checkout is trusted ({why_not})")),
        Source::Disk => {
            let entries = std::fs::read_dir(top.join(folder)).map_err(|error| error.to_string())?;
            let names: Vec<String> =
                entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
            let read = |name: &str| own_files::text(top, &top.join(below(name)), bounded::CONFIG).ok();
            Ok(Project::of(&names, &read))
        }
        Source::Commit(tree) => {
            let names = tree.names_in(folder).map_err(|error| error.to_string())?;
            let read = |name: &str| tree.read_text(&below(name)).ok().flatten();
            Ok(Project::of(&names, &read))
        }
    }
}
