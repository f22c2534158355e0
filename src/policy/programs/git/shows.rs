//! Judges the subcommands that show commits, files and differences.

use super::content::{Order, confine, refuse_ids, refuse_known_ids};
use super::history::refuse_held;
use super::keeps::{drivers, refuse_tree};
use super::options::SILENT;
use super::words::{Operand, as_written, denied_magic, is_exclusion, lines, one, only_files, words};
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::programs::Word;
use crate::policy::programs::specs::arity;
use crate::policy::programs::table::Call;

pub(super) fn diff(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    if call.values("--submodule").iter().any(|word| !word.text.starts_with("log") && !word.text.starts_with("short")) {
        return Err(call.deny("`--submodule=diff` shows files of another repository"));
    }
    let operands = std::mem::take(&mut call.operands);
    lines(call)?;
    if call.has("--no-index") {
        operands.iter().for_each(|word| call.read_tree(word, false));
        call.operands = operands;
        return Ok(());
    }
    let named = words(call, &operands, true)?;
    refuse_ids(call, named.revisions())?;
    let every = ["--all", "--branches", "--tags", "--remotes", "--glob", "--reflog", "-g"];
    if call.name.ends_with(" show") && every.iter().any(|name| call.has(name)) {
        refuse_held(call, "whatever a reference names", "name the commits")?;
    }
    if call.has("-L") {
        followed(call)?;
    } else if !call.name.ends_with(" show") && named.blobs().next().is_some() {
        // Two files that are named: git takes no pathspecs there.
        only_files(call, &named)?;
        if named.blobs().count() + named.paths().len() != operands.len() || call.dashes.is_some() {
            return Err(call.deny("files of a commit together with other revisions").hint("write `REVISION -- PATH`"));
        }
    } else {
        confine(call, &named, Order::OptionsFirst)?;
    }
    call.operands = operands;
    Ok(())
}

// `-L` shows lines of a file, which it would follow to earlier names, and takes no pathspecs.
fn followed(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.unknown || ["-B", "-M", "-C", "--find-copies-harder"].iter().any(|name| call.has(name)) {
        let denial = call.deny("with `-L` an option that finds copies or renames shows a file under its earlier names");
        return Err(denial.hint("leave the option out"));
    }
    let mut printed = call.words.to_vec();
    let at = printed.iter().position(|word| word.text == "--").unwrap_or(printed.len());
    printed.insert(at, Word::literal("--no-renames"));
    call.out.printed = Some(printed);
    Ok(())
}

pub(super) fn log(call: &mut Call<'_>) -> Result<(), Denial> {
    let silent = |name: &str| name == "-NUM" || name == "--literal-pathspecs" || arity(SILENT, name).is_some();
    let shows = call.has("-L") || call.found.iter().any(|found| !silent(&found.name));
    if shows && call.has("--follow") {
        let denial = call.deny("`--follow` shows a file under its earlier names");
        return Err(denial.hint("leave `--follow` out, or the patch"));
    }
    if shows {
        return diff(call);
    }
    revisions(call)
}

// Without a patch only names and messages are shown: a directory is not read.
pub(super) fn revisions(call: &mut Call<'_>) -> Result<(), Denial> {
    let tells_ids = |name: &str| {
        ["--object", "--verify-object", "--filter", "--missing", "--indexed"]
            .iter()
            .any(|known| name.starts_with(known))
    };
    if call.found.iter().any(|found| tells_ids(&found.name)) {
        refuse_held(call, "its id", "leave the objects out: then only commits are shown")?;
    }
    let operands = std::mem::take(&mut call.operands);
    let named = words(call, &operands, false)?;
    refuse_known_ids(call, named.revisions())?;
    call.operands = operands;
    Ok(())
}

pub(super) fn blame(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.has("-C") {
        // It looks for the lines in other files, and says where they are.
        refuse_held(call, "which lines that file has", "leave out `-C`")?;
    }
    let operands = std::mem::take(&mut call.operands);
    let named = words(call, &operands, true)?;
    refuse_known_ids(call, named.revisions())?;
    // Without `--`, a file that is not there today is shown as the commit has it.
    if call.dashes.is_none() {
        let mut nodes = operands.iter().map(|word| call.node(&word.text)).collect::<Result<Vec<_>, _>>()?.into_iter();
        if nodes.all(|node| node.is_none()) {
            call.out.effects.extend(operands.iter().map(|word| Effect::Read(word.text.clone())));
        }
    }
    call.operands = operands;
    Ok(())
}

pub(super) fn reflog(call: &mut Call<'_>) -> Result<(), Denial> {
    let writes = |word: &Word| matches!(word.text.as_str(), "expire" | "delete" | "drop" | "write");
    if call.operands.first().is_some_and(writes) {
        call.out.writes_git = true;
        return if call.is_open() { Ok(()) } else { Err(call.deny("only the listing is allowed")) };
    }
    log(call)
}

pub(super) fn cat_file(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.unknown {
        return Err(call.deny("an option that is not known might show what may not be read"));
    }
    if call.dashes.is_some() {
        return Err(call.deny("git passes over `--` here").hint("leave `--` out"));
    }
    let operands = std::mem::take(&mut call.operands);
    let named = words(call, &operands, true)?;
    if !["-t", "-s", "-e"].iter().any(|name| call.has(name)) {
        refuse_ids(call, named.revisions())?;
        let peels = |word: &Word| word.text == "tree" || word.text.contains("^{") && !word.text.contains("^{commit}");
        // A directory is shown as the ids of what is in it.
        if operands.iter().any(peels) || only_files(call, &named).is_err() {
            refuse_held(call, "the ids of its files", "write `git ls-tree --name-only`")?;
        }
    }
    call.operands = operands;
    Ok(())
}

pub(super) fn archive(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = std::mem::take(&mut call.operands);
    if operands.is_empty() {
        return Ok(());
    }
    let dashes = call.dashes.replace(1);
    let named = words(call, &operands, true)?;
    call.dashes = dashes;
    refuse_ids(call, named.revisions())?;
    named.blobs().try_for_each(|word| refuse_tree(call, word))?;
    confine(call, &named, Order::Mixed)?;
    call.operands = operands;
    Ok(())
}

// The old form, of three trees, shows contents.
pub(super) fn merge_tree(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.operands.len() > 2 || call.unknown {
        return Err(call.deny("it shows contents in this form").hint("write `git merge-tree --write-tree A B`"));
    }
    let base = call.values("--merge-base");
    base.iter().chain(&call.operands).try_for_each(|word| refuse_tree(call, word))?;
    refuse_ids(call, &call.operands)?;
    if !call.has("--name-only") && !call.has("--quiet") {
        refuse_held(call, "its id", "write `--name-only`")?;
    }
    Ok(())
}

pub(super) fn past_the_rules(call: &mut Call<'_>) -> Result<(), Denial> {
    Err(call.deny("it reaches contents past the rules on paths"))
}

// The id of a file tells of its contents.
pub(super) fn ids(call: &mut Call<'_>) -> Result<(), Denial> {
    listing(call)?;
    call.values("--with-tree").iter().try_for_each(|word| refuse_tree(call, word))?;
    let names = ["--name-only", "--name-status"];
    let tree = call.name.ends_with(" ls-tree");
    let shows = match tree {
        true => !names.iter().any(|name| call.has(name)),
        false => ["-s", "-u", "--format", "--debug"].iter().any(|name| call.has(name)) || call.unknown,
    };
    refuse_known_ids(call, call.operands.iter().take(usize::from(tree)))?;
    if !shows {
        return Ok(());
    }
    let operands = std::mem::take(&mut call.operands);
    for word in operands.iter().skip(usize::from(tree)).filter(|word| word.literal && !word.text.starts_with(':')) {
        as_written(call, &word.text)?;
        call.read(word);
    }
    if let Some(word) = operands.first().filter(|_| tree) {
        one(call, &word.text, &Operand::Revision, false)?;
        refuse_held(call, "its id", "write `--name-only`")?;
    }
    if !tree {
        let before = call.dashes.replace(0);
        let named = words(call, &operands, false)?;
        call.dashes = before;
        confine(call, &named, Order::Mixed)?;
    }
    call.operands = operands;
    Ok(())
}

pub(super) fn grep(call: &mut Call<'_>) -> Result<(), Denial> {
    let given = call.has("-e") || call.has("-f");
    let operands = std::mem::take(&mut call.operands);
    if !given && call.dashes == Some(0) {
        let denial = call.deny("before the pattern git passes over `--`: what follows the pattern are revisions");
        return Err(denial.hint("give the pattern with `-e`"));
    }
    let skipped = usize::from(!given);
    let is_left = |word: &&Word| word.text != "(" && word.text != ")";
    let rest: Vec<Word> = operands.iter().skip(skipped).filter(is_left).cloned().collect();
    let before = |dashes: usize| operands[..dashes].iter().skip(skipped).filter(is_left).count();
    call.dashes = call.dashes.map(before);
    if call.has("--no-index") {
        rest.iter().for_each(|word| call.read_tree(word, false));
        if rest.is_empty() {
            call.read_tree(&Word::literal("."), false);
        }
    } else if call.has("--recurse-submodules") {
        return Err(call.deny("`--recurse-submodules` searches other repositories"));
    } else {
        let named = words(call, &rest, true)?;
        refuse_ids(call, named.revisions())?;
        only_files(call, &named)?;
        confine(call, &named, Order::OptionsFirst)?;
    }
    call.operands = operands;
    Ok(())
}

// They take options of log and diff, but no pathspecs that could leave out what may not be read.
pub(super) fn stashes(call: &mut Call<'_>) -> Result<(), Denial> {
    // Any option but these makes a patch of it.
    let summaries = ["--stat", "--numstat", "--shortstat", "--name-only", "--name-status", "--summary"];
    let is_plain = call.found.is_empty() && call.dashes.is_none();
    let is_summary = is_plain || summaries.iter().any(|name| call.has(name));
    if call.unknown || call.has("-L") || call.name.ends_with(" show") && !is_summary {
        return Err(call.deny("an option might show what may not be read").hint("use `git stash show --stat`"));
    }
    if let Some(word) = call.operands.iter().find(|word| !word.literal || word.text.contains(':')) {
        return Err(call.deny(format!("`{}` is not a stash", word.text)));
    }
    refuse_ids(call, &call.operands)
}

// `-v` shows the staged change, even of files that must not be read: the printed command leaves it out.
pub(super) fn status(call: &mut Call<'_>) -> Result<(), Denial> {
    listing(call)?;
    // The second form shows the ids of what changed.
    let shows_ids = call.values("--porcelain").iter().any(|word| !matches!(word.text.as_str(), "1" | "v1"));
    if shows_ids && call.has("-v") {
        return Err(call.deny("`-v` shows the staged change, whatever may be read").hint("leave `-v` out"));
    }
    if shows_ids {
        let operands = std::mem::take(&mut call.operands);
        let before = call.dashes.replace(0);
        let named = words(call, &operands, false)?;
        call.dashes = before;
        confine(call, &named, Order::Mixed)?;
        call.operands = operands;
        return Ok(());
    }
    if !call.has("-v") {
        return Ok(());
    }
    let verbose = |word: &Word| matches!(word.text.as_str(), "-v" | "-vv" | "--verbose");
    let kept: Vec<Word> = call.words.iter().filter(|word| !verbose(word)).cloned().collect();
    if kept.iter().any(|word| word.text.starts_with("--v") || is_bundle_with(&word.text, 'v')) {
        return Err(call.deny("`-v` shows the staged change, whatever may be read").hint("use `git diff --cached`"));
    }
    call.out.printed = Some(kept);
    Ok(())
}

fn is_bundle_with(word: &str, letter: char) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
}

pub(super) fn listing(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = std::mem::take(&mut call.operands);
    for word in &operands {
        if !word.literal {
            continue;
        }
        let magic = word.text.starts_with(':')
            && !word.text.starts_with(":/")
            && !word.text.starts_with(":(top)")
            && !is_exclusion(&word.text);
        if magic {
            return Err(denied_magic(call, &word.text));
        }
        if !word.text.starts_with(':') && !word.text.contains(['*', '?', '[']) {
            call.effect(Effect::List, word);
        } else if word.text.contains("..") || word.text.starts_with('/') {
            return Err(call.deny(format!("the pathspec `{}` may leave the workspace", word.text)));
        }
    }
    call.operands = operands;
    Ok(())
}
