//! Classifies the words of git's subcommands: which are revisions, which are paths, and what each lets git read.

use std::path::Path;

use super::history::may_hold;
use super::objects::top;
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::effect::{Effect, Pattern};
use crate::policy::programs::Word;
use crate::policy::programs::table::Call;

pub(super) enum Operand {
    Revision,
    Path,
}

/// The operands of a subcommand, told apart.
pub(super) struct Operands<'w> {
    words: &'w [Word],
    first_path: usize,
}

impl<'w> Operands<'w> {
    pub(super) fn revisions(&self) -> &'w [Word] {
        &self.words[..self.first_path]
    }

    pub(super) fn paths(&self) -> &'w [Word] {
        &self.words[self.first_path..]
    }

    /// `REVISION:PATH` and `:PATH`: one file or directory of a commit or of the index.
    pub(super) fn blobs(&self) -> impl Iterator<Item = &'w Word> {
        self.revisions().iter().filter(|word| path_of(&word.text).is_some())
    }
}

/// Returns what git takes for the path in `REVISION:PATH` or `:PATH`: all after the first colon outside of braces, as
/// its `get_oid_with_context` reads it. `:/text` searches commit messages, up to `..`.
fn path_of(text: &str) -> Option<&str> {
    if text.starts_with(":/") {
        return path_of(text.split_once("..")?.1.trim_start_matches('.'));
    }
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => return Some(&text[at + 1..]),
            _ => {}
        }
    }
    None
}

/// Judges the words of a subcommand as revisions or pathspecs.
pub(super) fn words<'w>(call: &mut Call<'_>, operands: &'w [Word], recursive: bool) -> Result<Operands<'w>, Denial> {
    let mut first_path = call.dashes.unwrap_or(operands.len()).min(operands.len());
    for (index, word) in operands.iter().enumerate() {
        if !word.literal {
            return Err(call.deny("a word of it is not known"));
        }
        let kind = if index < call.dashes.unwrap_or(usize::MAX) { Operand::Revision } else { Operand::Path };
        if matches!(kind, Operand::Path) && is_exclusion(&word.text) && !call.has("--literal-pathspecs") {
            continue;
        }
        let path = one(call, &word.text, &kind, recursive)? || word.text.starts_with(":(exclude)");
        // Before `--` git reads revisions alone.
        if path && call.dashes.is_none() {
            first_path = first_path.min(index);
        }
    }
    Ok(Operands { words: operands, first_path })
}

/// Judges one word; tells whether it names a path.
pub(super) fn one(call: &mut Call<'_>, text: &str, kind: &Operand, recursive: bool) -> Result<bool, Denial> {
    if text.is_empty() {
        return Ok(false);
    }
    if matches!(kind, Operand::Revision) && text.starts_with('-') {
        return Err(call.deny(format!("the word `{text}` looks like an option")));
    }
    if let Some(magic) = text.strip_prefix(':') {
        return pathspec_or_index(call, magic, text, kind, recursive);
    }
    if matches!(kind, Operand::Revision) && (text.contains(':') || text.contains("^{/")) {
        // A colon inside `^{/text:more}` begins no path. Behind the first that does, every reading must pass.
        let from = if text.contains("^{/") { path_of(text).map(|path| text.len() - path.len() - 1) } else { Some(0) };
        from.map_or(Ok(()), |from| every_path(call, &text[from..]))?;
        return Ok(false);
    }
    if call.has("--literal-pathspecs") || !text.contains(['*', '?', '[']) {
        return path(call, text, kind, recursive);
    }
    for folder in call.cx.folders {
        let start = folder.under(call.cx.root);
        call.cx.paths.search(&start, std::slice::from_ref(&text.to_owned()))?;
    }
    // The wildcard of a pathspec also matches slashes; what it could reach is counted by its literal start.
    if recursive {
        let prefix = text.split(['*', '?', '[']).next().unwrap_or_default();
        let folder = prefix.rsplit_once('/').map_or(".", |(folder, _)| folder);
        let name = text.rsplit('/').next().unwrap_or(text);
        call.out.effects.push(Effect::ReadTree {
            path: if folder.is_empty() { ".".to_owned() } else { folder.to_owned() },
            follow_links: false,
            left_out: own(),
            only: vec![Pattern::Name(name.to_owned())],
            skips_hidden: false,
        });
    }
    Ok(true)
}

/// Tells whether a pathspec leaves something out.
pub(super) fn is_exclusion(text: &str) -> bool {
    [":(exclude)", ":!", ":^"].iter().any(|magic| text.starts_with(magic))
}

/// What git does not look at in a work tree.
fn own() -> Vec<Pattern> {
    vec![Pattern::Name(".git".to_owned())]
}

/// Judges the name of a path as it is written: in a commit, or in the index, no link of today leads elsewhere.
pub(super) fn as_written(call: &Call<'_>, text: &str) -> Result<(), Denial> {
    let is_directory = matches!(call.node(text)?, Some(Node::Dir) | None);
    for folder in call.cx.folders {
        let whole = match Path::new(text).is_absolute() {
            true => RelPath::below(call.cx.root, Path::new(text)),
            false => folder.join(text),
        };
        // A name that leaves the workspace is judged by where it leads.
        let Some(path) = whole else { continue };
        call.cx.paths.tree_named(&path, text)?;
        if !is_directory {
            call.cx.paths.read_named(&path, text)?;
        }
    }
    Ok(())
}

fn path(call: &mut Call<'_>, text: &str, kind: &Operand, recursive: bool) -> Result<bool, Denial> {
    as_written(call, text)?;
    let node = call.node(text)?;
    let exists = node.is_some();
    for folder in call.cx.folders {
        let named = call.cx.paths.name_only(folder, Path::new(text));
        if named.is_err() {
            call.out.effects.push(Effect::Read(text.to_owned()));
        }
    }
    match (node, kind) {
        // As without a path: our printing leaves out what may not be read.
        (Some(Node::Dir), _) if recursive && matches!(text, "." | "./") && !call.has("--untracked") => {
            call.out.effects.push(Effect::List(text.to_owned()));
        }
        (Some(Node::Dir), _) if recursive => call.out.effects.push(Effect::ReadTree {
            path: text.to_owned(),
            follow_links: false,
            left_out: own(),
            only: Vec::new(),
            skips_hidden: false,
        }),
        (Some(_), _) | (None, Operand::Path) => call.out.effects.push(Effect::Read(text.to_owned())),
        // A revision: nothing of that name is on disk, and the name itself is not denied.
        (None, Operand::Revision) => {}
    }
    Ok(exists || matches!(kind, Operand::Path))
}

// Judges what is behind each colon.
fn every_path(call: &mut Call<'_>, text: &str) -> Result<(), Denial> {
    text.match_indices(':').try_for_each(|(at, _)| blob(call, &text[at + 1..]))
}

// `rev:path` is relative to the repository, or to the directory if it begins with a dot.
// Some subcommands take `^!`, `^@` and `^-` away first, and `..` may begin another revision, or be in the name: every
// reading must pass.
fn blob(call: &mut Call<'_>, path: &str) -> Result<(), Denial> {
    let shorter = ["^", ".."].iter().filter_map(|mark| Some(path.split_once(mark)?.0));
    for path in std::iter::once(path).chain(shorter).filter(|path| !path.is_empty()) {
        let whole = from_top(call, path);
        as_written(call, &whole)?;
        call.out.effects.push(Effect::Read(whole));
    }
    Ok(())
}

fn pathspec_or_index(
    call: &mut Call<'_>,
    magic: &str,
    text: &str,
    kind: &Operand,
    recursive: bool,
) -> Result<bool, Denial> {
    // `:/text..REVISION:PATH` ends in a file of a revision.
    if magic.starts_with('/') {
        every_path(call, magic)?;
    }
    let top = |path: &str| {
        RelPath::new(path.trim_start_matches('/')).map(|path| path.under(repository(call)).display().to_string())
    };
    if let Some(rest) = magic.strip_prefix("(top)").or_else(|| magic.strip_prefix('/')) {
        // `:/text` is also a search among commit messages; as a path it must pass.
        let whole = top(rest).ok_or_else(|| call.deny(format!("the pathspec `{text}` leaves the repository")))?;
        return match whole.contains(['*', '?', '[']) {
            true => one(call, &whole, &Operand::Path, recursive),
            false => path(call, &whole, kind, recursive),
        };
    }
    if magic.starts_with("(exclude)") || magic.starts_with('!') || magic.starts_with('^') {
        return if magic.starts_with("(exclude)") { Ok(false) } else { Err(denied_magic(call, text)) };
    }
    if magic.starts_with('(') || matches!(kind, Operand::Path) {
        return Err(denied_magic(call, text));
    }
    // `:path` and `:N:path` name a file of the index.
    let path = match magic.split_once(':') {
        Some((stage, path)) if stage.len() == 1 && stage.bytes().all(|b| b.is_ascii_digit()) => path,
        _ => magic,
    };
    blob(call, path)?;
    Ok(false)
}

pub(super) fn denied_magic(call: &Call<'_>, text: &str) -> Denial {
    let denial = call.deny(format!("the pathspec magic of `{text}` is denied"));
    match text.strip_prefix(":!").or_else(|| text.strip_prefix(":^")) {
        None => denial.hint("use `:(exclude)PATH` or `:(top)PATH`"),
        Some(path) if path.is_empty() || path.starts_with(['/', '!', '^', ':', '(']) || path.contains('\'') => denial,
        Some(path) => denial.hint(format!("write `':(exclude){path}'`")),
    }
}

// The repository's top: what `REVISION:PATH` and `:/PATH` begin at.
fn repository<'a>(call: &Call<'a>) -> &'a Path {
    top(call.cx.paths.tree(), call.cx.root).unwrap_or(call.cx.root)
}

fn from_top(call: &Call<'_>, path: &str) -> String {
    let relative = path.starts_with("./") || path.starts_with("../") || path.starts_with('/');
    if relative { path.to_owned() } else { format!("{}/{path}", repository(call).display()) }
}

/// Refuses `REVISION:PATH` where contents are compared or searched and it may be a directory: what is below it has
/// other paths there than the rules name.
pub(super) fn only_files(call: &Call<'_>, operands: &Operands<'_>) -> Result<(), Denial> {
    for word in operands.blobs() {
        let path = from_top(call, path_of(&word.text).unwrap_or_default());
        // What is a file today was a directory perhaps in that commit.
        let is_file = matches!(call.node(&path)?, Some(Node::File { .. }));
        if !is_file || may_hold(call, &path)? {
            let denial = call.deny(format!("`{}` may be a directory with files that may not be read", word.text));
            return Err(denial.hint("write `REVISION -- PATH`"));
        }
    }
    Ok(())
}

/// `-L 1,5:file` and `-L :function:file` show a file; `-L 1,5` of blame does not name one.
pub(super) fn lines(call: &mut Call<'_>) -> Result<(), Denial> {
    for value in call.values("-L") {
        // A name may hold a colon, as may a pattern before it: every reading must pass.
        for (at, _) in value.text.match_indices(':') {
            let file = &value.text[at + 1..];
            as_written(call, file)?;
            call.out.effects.push(Effect::Read(file.to_owned()));
        }
    }
    Ok(())
}
