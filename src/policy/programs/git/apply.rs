//! Judges `git apply`: the paths that its patch names are judged like those of `qwen apply`.

use std::path::Path;

use super::history::unreadable;
use super::keeps::keeps;
use super::objects::top;
use super::words::as_written;
use crate::bounded;
use crate::change::patch_reader::{Body, Patch, PathAccess};
use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::programs::table::Call;

pub(super) fn apply(call: &mut Call<'_>) -> Result<(), Denial> {
    keeps(call)?;
    // What is not read here may say anything: one on the standard input, one that another part of the command makes.
    let mut known = !call.operands.is_empty();
    for word in call.operands.clone() {
        match text_of(call, &word.text)? {
            Some(text) => known &= patch(call, &word.text, &text)?,
            None => known = false,
        }
    }
    let from_objects = ["--cached", "--index", "-3"].iter().any(|name| call.has(name)) || call.unknown;
    if known && !from_objects {
        return Ok(());
    }
    match unreadable(call)?.any() {
        None => Ok(()),
        Some(path) => Err(call
            .deny(format!("a patch may carry `{path}` of a commit to another path, which may not be read"))
            .hint("write the patch to a file, and apply it to the work tree in a call of its own")),
    }
}

fn text_of(call: &Call<'_>, path: &str) -> Result<Option<Vec<u8>>, Denial> {
    let [folder] = call.cx.folders else { return Ok(None) };
    if path == "-" {
        return Ok(None);
    }
    let resolved = call.cx.paths.read(folder, Path::new(path))?.0;
    Ok(bounded::regular(&resolved.absolute, bounded::PRODUCT).ok())
}

// Judges every path of a patch; whether its contents are all in it, or some are objects that it names by their ids.
fn patch(call: &mut Call<'_>, name: &str, text: &[u8]) -> Result<bool, Denial> {
    let patch = Patch::parse(text).map_err(|error| {
        call.deny(format!("the paths of the patch `{name}` are not known: {error}")).hint("write it as `git diff` does")
    })?;
    let shows = ["--stat", "--numstat", "--summary", "--check"].iter().any(|name| call.has(name));
    let writes = !shows || call.has("--apply") || call.unknown;
    let reversed = call.has("-R");
    for access in patch.accesses() {
        let (path, read, written) = match &access {
            PathAccess::Read(path) => (path, true, reversed),
            PathAccess::Write(path) => (path, reversed, true),
        };
        for path in places(call, path) {
            if read {
                as_written(call, &path)?;
                call.out.effects.push(Effect::Read(path.clone()));
            }
            if written && writes {
                call.out.effects.push(Effect::Write(path));
            }
        }
    }
    Ok(!patch.files.iter().any(|file| matches!(file.body, Body::Literal(_) | Body::Delta(_))))
}

// Returns the possible places of a patch's path: below the repository's top or the command's directory, without the
// parts that `-p` removes, below `--directory`.
fn places(call: &Call<'_>, path: &RelPath) -> Vec<String> {
    let text = path.to_string();
    let mut names = vec![text.clone()];
    if call.has("-p") {
        names.extend(text.match_indices('/').map(|(at, _)| text[at + 1..].to_owned()));
        names.extend([format!("a/{text}"), format!("b/{text}")]);
    }
    let below = call.values("--directory");
    let tree = call.cx.paths.tree();
    let top = top(tree, call.cx.root).unwrap_or(call.cx.root);
    let mut places = Vec::new();
    for name in names {
        let name = below.last().map_or_else(|| name.clone(), |below| format!("{}/{name}", below.text));
        places.push(top.join(&name).display().to_string());
        places.push(name);
    }
    places.sort();
    places.dedup();
    places
}
