//! Finds the directories in which a command works, and the program that its name leads to.

use std::path::Path;

use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::names::{base_name, named};
use crate::policy::paths::Place;
use crate::policy::programs::table::{Call, Context, Table};
use crate::policy::programs::{Word, build};

/// Directories of the system's programs; under `shell.default: allow` a program there may be named by its path.
const SYSTEM: [&str; 6] = ["/bin", "/sbin", "/usr", "/lib", "/opt", "/nix/store"];

/// Returns the directories in which a command works after its `-C DIR`; `None` where it has none.
pub(super) fn moved(call: &Call<'_>) -> Result<Option<Vec<RelPath>>, Denial> {
    let values = call.values("-C");
    if values.is_empty() {
        return Ok(None);
    }
    let mut folders = call.cx.folders.to_vec();
    for value in values {
        if !value.literal {
            return Err(call.deny("the directory of `-C` is unknown"));
        }
        for folder in &mut folders {
            *folder = call.cx.paths.enter(folder, &value.text)?;
        }
    }
    Ok(Some(folders))
}

/// Effects are judged from the directory where the command starts; if it works in another, paths become absolute.
pub(super) fn seen_from(call: &mut Call<'_>, started: Context<'_>) {
    if std::ptr::eq(call.cx.folders, started.folders) {
        return;
    }
    let effects = std::mem::take(&mut call.out.effects);
    for folder in call.cx.folders {
        let base = folder.under(started.root);
        let whole = |path: String| if path.is_empty() { path } else { base.join(path).display().to_string() };
        call.out.effects.extend(effects.iter().cloned().map(|effect| match effect {
            Effect::Read(path) => Effect::Read(whole(path)),
            Effect::List(path) => Effect::List(whole(path)),
            Effect::Write(path) => Effect::Write(whole(path)),
            Effect::WriteTree(path) => Effect::WriteTree(whole(path)),
            Effect::Delete(path) => Effect::Delete(whole(path)),
            Effect::DeleteTree(path) => Effect::DeleteTree(whole(path)),
            Effect::Enter(path) => Effect::Enter(whole(path)),
            Effect::ReadTree { path, follow_links, left_out, only, skips_hidden } => {
                Effect::ReadTree { path: whole(path), follow_links, left_out, only, skips_hidden }
            }
        }));
    }
}

/// Returns a program of the workspace and the links that lead to it, from each directory, with what a wrapper loads.
pub(super) fn programs_at(cx: Context<'_>, path: &str) -> Result<Vec<RelPath>, Denial> {
    program_path(cx, path)?;
    let outside = || Denial::new(format!("the program `{path}` is outside the workspace")).by("G7");
    let mut found = Vec::new();
    for folder in cx.folders {
        let at = match Path::new(path).strip_prefix(cx.root) {
            Ok(below) => RelPath::new(below),
            Err(_) => folder.join(path),
        };
        let at = at.ok_or_else(outside)?;
        let beside = at.parent().unwrap_or_default();
        let loads = build::LOADS.iter().filter(|(name, _)| *name == base_name(path));
        found.extend(loads.flat_map(|(_, files)| files.split_whitespace()).filter_map(|file| beside.join(file)));
        found.push(at);
    }
    Ok(found)
}

/// Tells whether a program's path is in the workspace; otherwise it must be one of the system's directories.
pub(super) fn program_path(cx: Context<'_>, path: &str) -> Result<bool, Denial> {
    let mut inside = false;
    for folder in cx.folders {
        let resolved = cx.paths.resolve(folder, Path::new(path))?;
        match cx.paths.place(&resolved.absolute) {
            Some(Place::Workspace(_)) => inside = true,
            _ if SYSTEM.iter().any(|folder| resolved.absolute.starts_with(folder)) => {}
            _ => {
                let reason = format!("the program `{path}` is neither in the workspace nor the system's");
                return Err(Denial::new(reason).by("G7"));
            }
        }
    }
    Ok(inside)
}

/// Returns the table of a subcommand: that of its name, or the one for any other.
pub(super) fn subcommand(table: &Table, name: &str) -> Option<&'static Table> {
    let of = |wanted: &str| table.subcommands.iter().find(|sub| named(sub.names, wanted));
    of(name).or_else(|| of("*"))
}

/// Applies the table of a subcommand, which comes first in `rest`.
pub(super) fn apply_below(call: &mut Call<'_>, sub: &Table, program: &str, rest: &[Word]) -> Result<(), Denial> {
    call.name = format!("{program} {}", rest[0].text);
    call.found.retain(|found| found.name == "--literal-pathspecs");
    call.apply(sub, &rest[1..])
}
