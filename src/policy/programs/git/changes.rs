//! Judges the subcommands that change the repository or the work tree.

use super::content::{refuse_ids, revisions_named};
use super::held::{Kept, formats, refuse_restored};
use super::keeps::{drivers, keeps, refuse_tree};
use super::words::{Operand, as_written, one, words};
use crate::path::Node;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::names::named;
use crate::policy::programs::Word;
use crate::policy::programs::files::move_to;
use crate::policy::programs::table::Call;

pub(super) fn branch(call: &mut Call<'_>) -> Result<(), Denial> {
    formats(call)?;
    let changes = ["-d", "-D", "-m", "-M", "-c", "-C", "-f", "-t", "-u", "--unset-upstream", "--edit-description"];
    let lists = ["-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--show-current"];
    if changes.iter().any(|name| call.has(name))
        || (!call.operands.is_empty() && !lists.iter().any(|name| call.has(name)))
    {
        call.out.writes_git = true;
        if !call.is_open() {
            return Err(call.deny("only listing branches is allowed").hint("use --list before a pattern"));
        }
        // The first one is the new branch, or the one that is changed.
        let revisions: Vec<Word> = call.operands.iter().skip(1).cloned().collect();
        revisions_named(call, &revisions)?;
    }
    Ok(())
}

pub(super) fn tag(call: &mut Call<'_>) -> Result<(), Denial> {
    formats(call)?;
    let lists = ["-l", "-n", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];
    if !call.operands.is_empty() && !lists.iter().any(|name| call.has(name)) {
        call.out.writes_git = true;
        if !call.is_open() {
            return Err(call.deny("only listing tags is allowed"));
        }
        if let Some(word) = call.operands.iter().find(|word| word.text.contains(':')) {
            return Err(call.deny(format!("`{}` is not a commit", word.text)));
        }
        refuse_ids(call, &call.operands)?;
    }
    Ok(())
}

// With a second word it is set; `builtin:ci-dev` only has it shown.
pub(super) fn symbolic_ref(call: &mut Call<'_>) -> Result<(), Denial> {
    let sets = call.operands.len() > 1 || call.has("-d");
    call.out.writes_git |= sets;
    if sets && call.everyday { Err(call.deny("only showing what it names is allowed")) } else { Ok(()) }
}

pub(super) fn remote(call: &mut Call<'_>) -> Result<(), Denial> {
    let words: Vec<&str> = call.operands.iter().map(|word| word.text.as_str()).collect();
    if matches!(words.as_slice(), ["show", _, ..]) && !call.has("-n") && !call.is_open() {
        return Err(call.deny("it asks another host").hint("write `git remote show -n NAME`, or `git remote -v`"));
    }
    // The others may ask the host: `update`, `show`, `prune`, `add -f`.
    call.out.open_ended |= words.first().is_some_and(|word| *word != "get-url") && !call.has("-n");
    let harmless =
        call.operands.first().is_none_or(|word| word.literal && matches!(word.text.as_str(), "show" | "get-url"));
    if !harmless {
        call.out.writes_git = true;
        if !call.is_open() {
            return Err(call.deny("only listing remotes is allowed"));
        }
    }
    Ok(())
}

/// Settings of which `builtin:ci-dev` shows the value, without what is between section and name; others may hold a token.
const SHOWN: &str = "user.name user.email init.defaultbranch remote.fetch branch.merge branch.rebase pull.rebase pull.ff merge.ff push.default \
    push.autosetupremote merge.tool merge.conflictstyle diff.tool diff.algorithm gc.auto color.ui fetch.prune rebase.autosquash commit.gpgsign \
    tag.gpgsign diff.renames core.bare core.filemode core.autocrlf core.eol core.safecrlf \
    core.ignorecase core.quotepath core.symlinks core.abbrev core.commentchar core.editor core.pager core.excludesfile core.attributesfile \
    core.hookspath core.worktree core.longpaths core.precomposeunicode core.logallrefupdates core.repositoryformatversion core.untrackedcache \
    core.fsmonitor core.sparsecheckout safe.directory";

pub(super) fn config(call: &mut Call<'_>) -> Result<(), Denial> {
    if !call.everyday {
        return work_tree(call);
    }
    let shows = |key: &Word| {
        let key = key.text.to_ascii_lowercase();
        let (section, rest) = key.split_once('.').unwrap_or((&key, ""));
        named(SHOWN, &format!("{section}.{}", rest.rsplit('.').next().unwrap_or_default()))
    };
    let verbs: Vec<usize> = (0..call.words.len()).filter(|at| call.words[*at].text == "config").collect();
    let [verb] = verbs.as_slice() else { return Err(call.deny("the word `config` is there twice")) };
    let is_get = usize::from(call.words.get(verb + 1).is_some_and(|word| word.text == "get"));
    let file = call.values("-f");
    let of_modules = |key: &Word| {
        let key = key.text.to_ascii_lowercase();
        key.starts_with("submodule.") && [".path", ".branch"].iter().any(|end| key.ends_with(end))
    };
    // git in a run has the address without credentials, here as for `git remote get-url`.
    let of_remote = |key: &Word| {
        let key = key.text.to_ascii_lowercase();
        key.starts_with("remote.")
            && key.ends_with(".url")
            && !["--global", "--system"].iter().any(|name| call.has(name))
    };
    let is_shown = match call.operands.get(is_get..).unwrap_or_default() {
        [key] if key.literal && of_modules(key) => file.iter().all(|file| file.text == ".gitmodules"),
        [key] => key.literal && file.is_empty() && (shows(key) || of_remote(key)),
        _ => false,
    };
    if !is_shown {
        let denial = call.deny("only one setting that holds no token is shown");
        return Err(denial.hint("write `git config --get user.name`"));
    }
    (call.out.writes, call.out.open_ended) = (false, false);
    // What this run sets for git by its environment is not what the repository says.
    if file.is_empty() && !["--local", "--global", "--system"].iter().any(|name| call.has(name)) {
        let mut printed = call.words.to_vec();
        printed.insert(verb + 1 + is_get, Word::literal("--local"));
        call.out.printed = Some(printed);
    }
    Ok(())
}

pub(super) fn add(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    call.out.writes_git = true;
    let operands = std::mem::take(&mut call.operands);
    call.dashes = Some(0);
    // Directories: what git keeps of them in `.git` is not judged; a denied file that is named is.
    words(call, &operands, false)?;
    for word in &operands {
        // A directory all of whose files are denied.
        if !word.text.contains(['*', '?', '[', ':']) && call.node(&word.text)? == Some(Node::Dir) {
            call.out.effects.push(Effect::Read(format!("{}/x", word.text.trim_end_matches('/'))));
        }
    }
    call.operands = operands;
    Ok(())
}

pub(super) fn commit(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    call.out.writes_git = true;
    if !call.is_open() && !call.has("-m") {
        return Err(call.deny("it needs a message").hint("use -m MESSAGE"));
    }
    let operands = std::mem::take(&mut call.operands);
    if let Some(word) = operands.first().filter(|_| !call.is_open()) {
        let denial = call.deny(format!("it commits what was added, not `{}`", word.text));
        return Err(denial.hint("use git add PATH before it"));
    }
    call.dashes = Some(0);
    words(call, &operands, false)?;
    call.operands = operands;
    Ok(())
}

// `register` and `start` write the user's own settings and timers.
pub(super) fn maintenance(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.operands.first() {
        Some(word) if word.text == "run" => keeps(call),
        _ => Err(call.deny("only `run` keeps to this repository")),
    }
}

pub(super) fn rebase(call: &mut Call<'_>) -> Result<(), Denial> {
    keeps(call)?;
    revisions_named(call, &call.operands.clone())?;
    refuse_restored(call, &Kept::All)
}

// What a subcommand that was read brings from commits into the work tree; `paths` are the words that name some of it.
fn restored(call: &Call<'_>, first: &str, paths: &[String]) -> Kept {
    let has = |names: &[&str]| names.iter().any(|name| call.has(name));
    let makes_branch = call.operands.is_empty()
        && has(&["-b", "-B", "-c", "-C", "--orphan"])
        && !has(&["-f", "-m", "--discard-changes"])
        && !call.unknown;
    let subcommand = call.name.rsplit(' ').next().unwrap_or_default();
    match subcommand {
        "reset" if !has(&["--hard", "--merge", "--keep"]) && !call.unknown => Kept::Nothing,
        "checkout" | "switch" if makes_branch => Kept::Nothing,
        "checkout" if !paths.is_empty() => Kept::Paths(paths.to_vec()),
        "restore" if has(&["-S"]) && !has(&["-W"]) && !call.unknown => Kept::Nothing,
        "restore" => Kept::Paths(paths.to_vec()),
        "stash" if matches!(first, "drop" | "clear" | "create" | "store") => Kept::Nothing,
        "sparse-checkout" if matches!(first, "" | "list") => Kept::Nothing,
        "reset" | "checkout" | "switch" | "stash" | "revert" | "cherry-pick" | "merge" | "pull" | "am"
        | "quiltimport" | "sparse-checkout" => Kept::All,
        _ => Kept::Nothing,
    }
}

// Subcommands that change the work tree: a word that is a path there is read and written.
pub(super) fn work_tree(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    keeps(call)?;
    let subcommand = call.name.rsplit(' ').next().unwrap_or_default().to_owned();
    let is = |name: &str| subcommand == name;
    if is("restore") {
        call.values("-s").iter().try_for_each(|word| refuse_tree(call, word))?;
    }
    let operands = std::mem::take(&mut call.operands);
    let before = call.dashes.unwrap_or(usize::MAX);
    let mut paths = Vec::new();
    for (index, word) in operands.iter().enumerate() {
        let kind = if index < before { Operand::Revision } else { Operand::Path };
        if index < before && (is("checkout") || is("restore") || is("reset") && !word.text.starts_with(':')) {
            refuse_tree(call, word)?;
        }
        let effects = call.out.effects.len();
        let is_path = one(call, &word.text, &kind, false)?;
        if index >= before || is_path && call.dashes.is_none() {
            paths.push(word.text.clone());
        }
        if is_path && !is("stash") {
            let read: Vec<Effect> = call.out.effects[effects..].to_vec();
            for effect in read {
                if let Effect::Read(path) = effect {
                    let folder = call.node(&path)? == Some(Node::Dir);
                    call.out.effects.push(if folder { Effect::WriteTree(path) } else { Effect::Write(path) });
                }
            }
        }
    }
    let first = operands.first().map(|word| word.text.clone()).unwrap_or_default();
    call.operands = operands;
    refuse_restored(call, &restored(call, &first, &paths))
}

// The index holds names as they are written, whatever the links of the work tree.
pub(super) fn moved(call: &mut Call<'_>) -> Result<(), Denial> {
    call.operands.iter().filter(|word| word.literal).try_for_each(|word| as_written(call, &word.text))?;
    move_to(call)
}

pub(super) fn remove(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes_git = true;
    for word in call.operands.clone() {
        if !word.literal || word.text.starts_with(':') || word.text.contains(['*', '?', '[']) {
            return Err(call.deny(format!("what `{}` removes is not known", word.text)));
        }
        call.effect(if call.has("-r") { Effect::DeleteTree } else { Effect::Delete }, &word);
    }
    Ok(())
}
