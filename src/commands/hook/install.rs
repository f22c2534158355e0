//! Runs `qwen hook install` and `uninstall`: small scripts in the directory where git looks for hooks.

use std::io::Write;
use std::path::{Component, Path, PathBuf};

use super::super::console::print;
use super::asked::of_git;
use super::error::HookError;
use crate::base::private_file;
use crate::bounded;
use crate::cli::WorkspaceArgs;
use crate::cli::hook::Which;
use crate::emit::safe::escape;
use crate::exit::Exit;
use crate::git::ownership::is_link_out;
use crate::git::repository::Repository;
use crate::run::Failure;
use crate::run::place::Place;
use crate::settings::Environment;

/// The line that identifies this program's scripts.
const MARK: &str = "# Written by `qwen hook install`; `qwen hook uninstall` removes it.";

const ALL: [&str; 3] = ["pre-commit", "prepare-commit-msg", "pre-push"];

pub(super) fn install(
    which: Which,
    workspace: &WorkspaceArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let place = Place::open(workspace.cd.as_deref(), environment)?;
    let repository = repository(&place)?;
    let folder = folder(repository, environment)?;
    let mut names = which.names();
    if names.is_empty() {
        names.push("pre-commit");
    }
    // All or nothing: what is in the way is found before anything is written.
    for name in &names {
        refuse(repository, &folder, name)?;
    }
    // The helper's `/proc/self/exe` would be the shell that runs the hook.
    let program = std::env::current_exe().map_err(HookError::NoProgram)?;
    for name in &names {
        let path = folder.join(name);
        private_file::replace(&path, script(name, &program).as_bytes(), Some(0o755))
            .map_err(|cause| HookError::Unwritable { path: path.display().to_string(), cause })?;
        print(out, &format!("wrote {}\n", escape(&path.display().to_string())))?;
    }
    Ok(Exit::Ok)
}

pub(super) fn uninstall(
    which: Which,
    workspace: &WorkspaceArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let place = Place::open(workspace.cd.as_deref(), environment)?;
    let folder = folder(repository(&place)?, environment)?;
    let named = which.names();
    let names = if named.is_empty() { ALL.to_vec() } else { named };
    for name in names {
        let path = folder.join(name);
        let shown = escape(&path.display().to_string()).into_owned();
        match content(&path) {
            None => {}
            Some(text) if is_ours(&text) => {
                private_file::remove(&path).map_err(|cause| HookError::Unwritable { path: shown.clone(), cause })?;
                print(out, &format!("removed {shown}\n"))?;
            }
            Some(_) => {
                print(out, &format!("kept {shown}: `qwen hook install` did not write it\n"))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn repository(place: &Place) -> Result<&Repository, HookError> {
    place.repository().ok_or(HookError::NoRepository)
}

/// Returns the directory in which git looks for hooks: `core.hooksPath`, else the one that all work trees share.
fn folder(repository: &Repository, environment: &Environment) -> Result<PathBuf, HookError> {
    let values = repository.git().run(&["config", "--type=path", "-z", "--get-all", "core.hooksPath"], b"");
    let values = values.unwrap_or_default();
    let mut values: Vec<&[u8]> = values.split(|byte| *byte == 0).filter(|value| !value.is_empty()).collect();
    // The last one is set by this program, to run no hook while it asks git.
    values.pop();
    let Some(value) = values.last() else {
        let hooks = repository.common_dir.join("hooks");
        if is_link_out(&hooks, &[repository.common_dir.clone(), repository.top.clone()]) {
            return Err(HookError::LinkOut(hooks.display().to_string()));
        }
        return Ok(hooks);
    };
    let value = std::str::from_utf8(value).map_err(|error| of_git(&format!("core.hooksPath: {error}")))?;
    let folder = repository.top.join(value);
    let roots = [&repository.top, &repository.common_dir];
    // A link, or `..` behind one, may lead elsewhere; what is missing is made where the rest leads.
    let leads_to = folder.ancestors().find_map(|path| path.canonicalize().ok());
    let is_inside = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let is_plain = !Path::new(value).components().any(|part| part == Component::ParentDir);
    if !is_plain || !is_inside(&folder) || !leads_to.is_some_and(|real| is_inside(&real)) {
        let more = home_hint(&folder, environment);
        let hint = format!("write `qwen hook NAME \"$@\"` into the hooks there by hand{more}");
        return Err(HookError::Outside { value: value.to_owned(), hint });
    }
    Ok(folder)
}

fn home_hint(folder: &Path, environment: &Environment) -> &'static str {
    let is_home = environment.home.as_ref().is_some_and(|home| folder.starts_with(home));
    if is_home { ", or unset it for this repository with `git config core.hooksPath .git/hooks`" } else { "" }
}

/// Refuses where another program manages the hooks, or a hook of somebody's is there; says what to add to it.
fn refuse(repository: &Repository, folder: &Path, name: &str) -> Result<(), HookError> {
    let path = folder.join(name);
    let found = content(&path).or_else(|| path.symlink_metadata().is_ok().then(String::new));
    // A link of ours would be followed to a file of somebody else's.
    if found.as_deref().is_some_and(is_ours) && !path.is_symlink() {
        return Ok(());
    }
    let has = |files: &[&str]| files.iter().any(|file| repository.top.join(file).symlink_metadata().is_ok());
    let text = found.as_deref().unwrap_or_default();
    let arguments = if name == "prepare-commit-msg" { " {1} {2} {3}" } else { "" };
    let is_husky = folder.ends_with(".husky") || folder.ends_with(".husky/_") || has(&[".husky"]);
    let (who, hint) = if is_husky {
        (
            "husky manages the hooks of this repository",
            format!("add the line `qwen hook {name} \"$@\"` to .husky/{name}"),
        )
    } else if text.contains("lefthook")
        || has(&["lefthook.yml", ".lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json"])
    {
        (
            "lefthook manages the hooks of this repository",
            format!("add to lefthook.yml: {name}: {{commands: {{qwen: {{run: \"qwen hook {name}{arguments}\"}}}}}}"),
        )
    } else if text.contains("pre-commit.com") || has(&[".pre-commit-config.yaml"]) {
        let id = match name {
            "prepare-commit-msg" => "qwen-commit-message-system",
            "pre-push" => "qwen-pre-push-system",
            _ => "qwen-staged-check-system",
        };
        (
            "pre-commit manages the hooks of this repository",
            format!("add the hook `{id}` of this project to .pre-commit-config.yaml"),
        )
    } else if found.is_some() {
        ("a hook already exists", format!("add the line `qwen hook {name} \"$@\"` to it, or remove it first"))
    } else {
        return Ok(());
    };
    Err(HookError::Managed { path: path.display().to_string(), who, hint })
}

fn content(path: &Path) -> Option<String> {
    bounded::regular(path, bounded::CONFIG).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn is_ours(text: &str) -> bool {
    text.lines().any(|line| line == MARK)
}

/// The script of a hook: it starts this program where it was installed from, else one from an absolute directory of PATH
/// outside the work tree, in which git starts hooks; else it does nothing.
fn script(name: &str, program: &Path) -> String {
    let program = program.display().to_string().replace('\'', r"'\''");
    format!(
        "#!/bin/sh\n{MARK}\nprogram='{program}'\nif [ ! -x \"$program\" ]; then\n  program=$(command -v qwen)\n  \
         case $program in\n  \"$(pwd -P)\"/* | \"$PWD\"/* | */node_modules/* | */../*) program= ;;\n  /*) ;;\n  *) program= ;;\n  \
         esac\nfi\n[ -n \"$program\" ] && exec \"$program\" hook {name} \"$@\"\n\
         echo 'qwen: skipped: the program is not installed' >&2\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_as_ours_and_quotes_its_path() {
        let text = script("pre-push", Path::new("/it's/here"));
        assert!(is_ours(&text) && text.starts_with("#!/bin/sh\n"));
        assert!(text.contains(r"program='/it'\''s/here'") && text.contains("hook pre-push"), "{text}");
        assert!(!is_ours("#!/bin/sh\nqwen hook install\n"));
    }
}
