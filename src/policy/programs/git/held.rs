//! Handles files in commits and the index that must not be read: the command workspace does not contain them, and no
//! subcommand may restore them.

use super::content::revisions_named;
use super::history::{named, refuse_held, unreadable};
use super::keeps::keeps;
use super::objects::{directories, names_files};
use crate::policy::decision::Denial;
use crate::policy::programs::Word;
use crate::policy::programs::table::Call;

/// What of commits a subcommand brings into the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nothing.
    Nothing,
    /// What these words name.
    Paths(Vec<String>),
    /// Whatever is in a commit.
    All,
}

/// Refuses a subcommand that may bring a file into the work tree that may not be read.
pub(super) fn refuse_restored(call: &Call<'_>, kept: &Kept) -> Result<(), Denial> {
    let named = match kept {
        Kept::Nothing => return Ok(()),
        Kept::All => None,
        Kept::Paths(words) => named(call, words),
    };
    let found = unreadable(call)?;
    let path = match &named {
        None => found.any(),
        Some(named) => named.iter().find_map(|name| found.under(name)),
    };
    match path {
        None => Ok(()),
        Some(path) => Err(call
            .deny(format!("it may bring `{path}` of a commit into the work tree, which may not be read"))
            .hint("change the files that you mean with the file tools, or restore them by their names")),
    }
}

// Unknown options are refused before: `--verbose`, `--unreachable` and `--lost-found` show every object.
pub(super) fn tells_ids(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes_git = true;
    if call.unknown || !call.is_open() {
        return Err(call.deny("an option of it may show the ids of files").hint("use `git fsck --no-dangling`"));
    }
    if call.name.ends_with(" fsck") && !call.has("--no-dangling") {
        return refuse_held(call, "the ids of its files", "write `git fsck --no-dangling`");
    }
    Ok(())
}

// The directory of a copy that has no name of its own.
fn copied_to(url: &Word) -> Word {
    let name = url.text.trim_end_matches('/').trim_end_matches(".git");
    Word { text: name.rsplit(['/', ':']).next().unwrap_or(name).to_owned(), literal: url.literal }
}

pub(super) fn clone(call: &mut Call<'_>) -> Result<(), Denial> {
    keeps(call)?;
    let operands = call.operands.clone();
    match operands.as_slice() {
        [url, ..] if !url.text.contains(':') || url.text.starts_with("file:") => {
            return Err(call.deny("a copy of a repository on this machine has other paths than the rules name"));
        }
        [url] => {
            call.write(&copied_to(url));
        }
        [_, folder, ..] => call.write(&folder.clone()),
        [] => {}
    }
    Ok(())
}

// A repository inside the workspace has its own rules; what is there already is only looked at again.
pub(super) fn init(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes_git = true;
    if call.has("--separate-git-dir") {
        return Err(call.deny("a second directory of git's own files").hint("leave `--separate-git-dir` out"));
    }
    for word in call.operands.clone() {
        call.write(&word);
        let own = Word { text: format!("{}/.git", word.text.trim_end_matches('/')), literal: word.literal };
        call.write(&own);
    }
    if call.operands.is_empty() && call.node(".git")?.is_none() {
        call.write(&Word::literal(".git"));
    }
    Ok(())
}

pub(super) fn worktree(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes_git = true;
    if call.operands.first().is_some_and(|word| word.text == "add") {
        return Err(call.deny("files of a second work tree have other paths than the rules name"));
    }
    if call.operands.first().is_some_and(|word| word.text != "list") {
        for word in call.operands.clone().iter().skip(1).take(1) {
            call.write(word);
        }
    }
    Ok(())
}

// Git asks each submodule that is checked out by a git of its own, which takes the configuration there.
pub(super) fn submodules(call: &mut Call<'_>) -> Result<(), Denial> {
    let tree = call.cx.paths.tree();
    let Some((own, _)) = directories(tree, call.cx.root) else { return Ok(()) };
    let modules = own.join("modules");
    let none = match tree.look(&modules) {
        Ok(None) => true,
        Ok(Some(_)) => tree.names(&modules).is_ok_and(|names| names.is_empty()),
        Err(_) => false,
    };
    if none {
        return Ok(());
    }
    let denial = call.deny("git would work in the repositories of the submodules that are checked out").by("G11");
    Err(denial.hint("read `.gitmodules`, which names them"))
}

pub(super) fn runs(call: &mut Call<'_>) -> Result<(), Denial> {
    keeps(call)?;
    if call.name.ends_with(" bisect") {
        revisions_named(call, &call.operands.clone())?;
    }
    let adds = call.operands.first().is_some_and(|word| word.text == "add");
    if adds && !call.operands.iter().any(|word| word.text.contains("://") && !word.text.starts_with("file:")) {
        return Err(call.deny("a copy of a repository on this machine has other paths than the rules name"));
    }
    if adds && call.name.ends_with(" submodule") {
        let words = call.operands.clone();
        words.iter().skip(1).filter(|word| !word.text.contains("://")).for_each(|word| call.write(word));
        words.iter().filter(|word| word.text.contains("://")).for_each(|word| call.write(&copied_to(word)));
    }
    if call.name.ends_with(" bisect")
        && !call.operands.first().is_none_or(|word| matches!(word.text.as_str(), "log" | "terms" | "help"))
    {
        refuse_restored(call, &Kept::All)?;
    }
    if call.operands.iter().any(|word| matches!(word.text.as_str(), "run" | "foreach" | "visualize" | "view"))
        || call.name.ends_with("filter-branch")
    {
        return Err(call.deny("it runs programs that it is given"));
    }
    Ok(())
}

// What ids begin with tells which contents there are, and so do the ids of references.
pub(super) fn ids_of_words(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.has("--disambiguate") {
        return Err(call.deny("`--disambiguate` lists the ids of files whatever may be read"));
    }
    let every = ["--all", "--branches", "--tags", "--remotes", "--glob"];
    let symbolic = ["--symbolic", "--symbolic-full-name", "--abbrev-ref"];
    match every.iter().any(|name| call.has(name)) && !symbolic.iter().any(|name| call.has(name)) {
        true => refuse_named_files(call, "name the references"),
        false => Ok(()),
    }
}

// What a listing of references shows of each: of a file `%(raw)` is what it holds and `%(objectname)` its id, and an order
// by these tells of them, too. Some fields compare with another revision.
pub(super) fn formats(call: &mut Call<'_>) -> Result<(), Denial> {
    let shown = [call.values("--format"), call.values("--sort")].concat();
    if let Some(word) = shown.iter().find(|word| word.text.contains("raw")) {
        return Err(call
            .deny(format!("`{}` shows whatever a reference names", word.text))
            .hint("write `git show REVISION:PATH` for a file"));
    }
    let compared = shown.iter().flat_map(|word| {
        ["ahead-behind:", "is-base:"].into_iter().flat_map(|field| word.text.split(field).skip(1)).collect::<Vec<_>>()
    });
    let revisions: Vec<Word> = compared.map(|text| Word::literal(text.split(')').next().unwrap_or_default())).collect();
    revisions_named(call, &revisions)?;
    let lists = call.name.ends_with("-ref");
    let tells = |word: &Word| word.text.contains("object") || word.text.contains("tree") || word.text.contains("deref");
    match shown.iter().any(tells) || lists && call.values("--format").is_empty() {
        true => refuse_named_files(call, "write `--format='%(refname)'`"),
        false => Ok(()),
    }
}

// A tag may name a file instead of a commit: its id tells of the contents.
fn refuse_named_files(call: &Call<'_>, hint: &str) -> Result<(), Denial> {
    match names_files(call.cx.paths.tree(), call.cx.root) {
        true => refuse_held(call, "the ids of files that references name", hint),
        false => Ok(()),
    }
}
