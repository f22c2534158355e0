//! Judges grep and rg: which files they search, and what they leave out.

use std::path::Path;

use super::spelling::could_match;
use super::table::{Call, Found};
use super::word::Word;
use crate::policy::decision::Denial;
use crate::policy::effect::{Effect, Pattern};
use crate::policy::protected::{braces, never_read};

/// Options of ripgrep that choose how a search answers. Next to one that lists, 14 and later take the last one.
const RG_SEARCHES: [&str; 6] = ["-l", "-c", "--count-matches", "--files-without-match", "--json", "--no-json"];

pub(super) fn patterns(call: &Call<'_>, name: &str, make: fn(String) -> Pattern) -> Vec<Pattern> {
    call.values(name).into_iter().map(|word| make(word.text)).collect()
}

fn searched(call: &mut Call<'_>, given: bool) -> Vec<Word> {
    call.operands.iter().skip(usize::from(!given)).cloned().collect()
}

pub(super) fn grep(call: &mut Call<'_>) -> Result<(), Denial> {
    let given = call.has("-e") || call.has("-f");
    let mut files = searched(call, given);
    let follow_links = call.has("-R");
    let recurses = call.values("-d").iter().any(|word| word.text.starts_with("rec"));
    let recursive = call.has("-r") || follow_links || recurses;
    if !recursive {
        files.iter().for_each(|word| call.read(word));
        return Ok(());
    }
    if files.is_empty() && call.operands.len() + usize::from(given) > 0 {
        files.push(Word::literal("."));
    }
    // The last of `--include` and `--exclude` that matches a name decides, and without one the first option of them.
    let is_choice = |found: &&Found| matches!(found.name.as_str(), "--include" | "--exclude" | "--exclude-from");
    let choices: Vec<&Found> = call.found.iter().filter(is_choice).collect();
    let included = choices.iter().rposition(|found| found.name == "--include").map_or(0, |at| at + 1);
    let later = choices[included..].iter().filter(|found| found.name == "--exclude");
    let mut out: Vec<Pattern> =
        later.filter_map(|found| Some(Pattern::File(found.value.as_ref()?.text.clone()))).collect();
    out.extend(patterns(call, "--exclude-dir", Pattern::Directory));
    let keeps = choices.first().is_some_and(|found| found.name == "--include");
    let only = if keeps { patterns(call, "--include", Pattern::File) } else { Vec::new() };
    for word in files.iter().filter(|word| word.literal && word.text != "-") {
        call.out.effects.push(Effect::ReadTree {
            path: word.text.clone(),
            follow_links,
            left_out: out.clone(),
            only: only.clone(),
            skips_hidden: false,
        });
    }
    Ok(())
}

pub(super) fn rg(call: &mut Call<'_>) -> Result<(), Denial> {
    if let Some(asks) =
        ["--type-list", "--pcre2-version", "-h", "-V", "--generate"].into_iter().find(|name| call.has(name))
    {
        let alone = call.found.len() == 1 && call.operands.is_empty();
        let denial = || call.deny(format!("its versions read `{asks}` together with other words differently"));
        return if alone { Ok(()) } else { Err(denial().hint(format!("write only `rg {asks}`"))) };
    }
    if call.unknown {
        return Err(call.deny("which of its words are files is not known: an option is not known"));
    }
    let given = call.has("-e") || call.has("-f") || call.has("--files");
    let mut files = searched(call, given);
    if call.has("--files") {
        if let Some(other) = RG_SEARCHES.iter().find(|name| call.has(name)) {
            let denial = call.deny(format!("some of its versions search if `{other}` is used with `--files`"));
            return Err(denial.hint("write one of them"));
        }
        files.iter().for_each(|word| call.effect(Effect::List, word));
        if call.has("-L") {
            call.operands = files;
            call.through_links()?;
        }
        return Ok(());
    }
    if files.is_empty() {
        files.push(Word::literal("."));
    }
    rg_search(call, &files)
}

fn rg_search(call: &mut Call<'_>, files: &[Word]) -> Result<(), Denial> {
    let unrestricted = call.found.iter().filter(|found| found.name == "-u").count();
    let hidden = unrestricted > 1 || call.has("-.");
    let ignored = unrestricted > 0 || call.found.iter().any(|found: &Found| found.name.starts_with("--no-ignore"));
    let globs = [call.values("-g"), call.values("--iglob")].concat();
    // Comments and empty lines of an ignore file select nothing, a backslash changes the next character, and `-g=*.rs` is `*.rs`.
    let unclear = |text: &str| {
        text.starts_with(['#', '='])
            || text.contains('\\')
            || text.ends_with(char::is_whitespace)
            || text.trim_start_matches('!').trim_matches('/').is_empty()
    };
    if let Some(glob) = globs.iter().find(|glob| unclear(&glob.text)) {
        return Err(call.deny(format!("the glob `{}` is not understood", glob.text)));
    }
    // A glob that takes in is an override: it brings back what ignore files and the dot would leave out.
    let is_taken = |word: &Word| !word.text.starts_with('!');
    let taken: Vec<String> = globs.iter().filter(|word| is_taken(word)).map(|word| word.text.clone()).collect();
    // The last one that matches decides.
    let last = globs.iter().rposition(is_taken).map_or(0, |at| at + 1);
    let out: Vec<Pattern> = globs[last..]
        .iter()
        .filter_map(|word| word.text.strip_prefix('!'))
        .map(|text| Pattern::Ignore(text.to_owned()))
        .collect();
    for glob in &taken {
        call.cx.paths.search(Path::new("."), std::slice::from_ref(glob))?;
    }
    let kept = call.cx.paths.read_globs().map_err(|what| call.deny(what))?.is_some();
    if taken.is_empty() {
        call.out.printed = Some(rg_excluding(call)?);
    }
    let mut careful = !hidden && !ignored && taken.is_empty() && !call.has("-L") && !kept;
    for word in files {
        careful = careful && is_seen_from_here(call, word)?;
    }
    for word in files.iter().filter(|word| word.literal && word.text != "-") {
        if !careful {
            call.out.effects.push(Effect::ReadTree {
                path: word.text.clone(),
                follow_links: call.has("-L"),
                left_out: out.clone(),
                only: taken.iter().cloned().map(Pattern::Ignore).collect(),
                skips_hidden: !hidden && taken.is_empty() && !kept,
            });
        } else if call.node(&word.text)? == Some(crate::path::Node::Dir) {
            // Our printing leaves the denied files out; operands that name them are still denied.
            call.effect(Effect::List, word);
            call.cx.folders.iter().try_for_each(|folder| call.cx.paths.enter(folder, &word.text).map(|_| ()))?;
        } else {
            call.read(word);
        }
    }
    Ok(())
}

// The words with what may not be read left out. They are first: nothing brings it back where no glob takes in.
fn rg_excluding(call: &Call<'_>) -> Result<Vec<Word>, Denial> {
    let mut globs: Vec<String> = Vec::new();
    for glob in never_read().chain(call.cx.never_read.iter().map(String::as_str)) {
        let spread = braces(glob).ok_or_else(|| call.deny(format!("too many braces in `{glob}`")))?;
        for glob in &spread {
            let parts: Vec<&str> = glob.split('/').filter(|part| !part.is_empty()).collect();
            for folder in call.cx.folders {
                let folder = folder.to_string_lossy();
                let folder: Vec<&str> = folder.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
                seen_below(&parts, &folder, &mut globs);
            }
        }
    }
    let names = call.cx.paths.other_names()?;
    globs.extend(names.iter().filter_map(|path| Some(globset::escape(&path.file_name()?.to_string_lossy()))));
    globs.dedup();
    let mut printed = call.words.to_vec();
    let excluded = globs.iter().flat_map(|glob| [Word::literal("--iglob"), Word::literal(format!("!{glob}"))]);
    printed.splice(1..1, excluded);
    Ok(printed)
}

// What a glob of the workspace is, seen from a directory of it: rg anchors globs at the directory that it works in.
fn seen_below(parts: &[&str], folder: &[&str], globs: &mut Vec<String>) {
    let (Some((first, rest)), Some((entered, below))) = (parts.split_first(), folder.split_first()) else {
        // What covers the directory itself covers all in it.
        globs.push(if parts.is_empty() { "**".to_owned() } else { parts.join("/") });
        return;
    };
    if *first == "**" {
        seen_below(parts, below, globs);
        seen_below(rest, folder, globs);
    } else if could_match(first, entered) {
        seen_below(rest, below, globs);
    }
}

// Whether the paths below an operand begin with the directory that rg works in, where our globs are anchored.
fn is_seen_from_here(call: &Call<'_>, word: &Word) -> Result<bool, Denial> {
    let text = word.text.as_str();
    if matches!(text, "-" | "." | "./") {
        return Ok(true);
    }
    let parts = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/').split('/');
    // As rg writes them: it takes away nothing but one `./` and the directory itself.
    if parts.skip(usize::from(text.starts_with('/'))).any(|part| matches!(part, "" | "." | "..")) {
        return Ok(false);
    }
    for folder in call.cx.folders {
        let here = folder.under(call.cx.root);
        let written = here.join(text);
        if !written.starts_with(&here) || call.cx.paths.resolve(folder, Path::new(text))?.absolute != written {
            return Ok(false);
        }
    }
    Ok(true)
}
