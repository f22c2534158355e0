//! Judges programs without a table, and files of the workspace that have the name of a program with one.

use super::hidden::word_in;
use super::table::{Call, Context, Table};
use super::untabled;
use super::word::Word;
use crate::path::Node;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::names::named;

/// Under `shell.default: allow`: each word that is not an option, and each value after `=`, is a path read and written.
pub(crate) fn words_as_paths(call: &mut Call<'_>, words: &[Word]) -> Result<(), Denial> {
    (call.out.writes, call.out.open_ended) = (true, true);
    call.refuse_input()?;
    if call.name == "cpio" {
        return Err(call.deny("the files that it packs or unpacks are not known").hint("use tar"));
    }
    let program = call.name.split(' ').next().unwrap_or_default().to_owned();
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let named_so = untabled::downloads(&program, &texts).map_err(|what| call.deny(what).hint("name the file"))?;
    named_so.iter().for_each(|name| call.write(&Word::literal(name.as_str())));
    if untabled::unpacks(&program, &texts) {
        let glued = |word: &Word| word.text.strip_prefix("-o").filter(|folder| !folder.is_empty()).map(str::to_owned);
        match words.iter().find_map(glued).filter(|_| call.name.starts_with("7z")) {
            Some(folder) => call.out.effects.push(Effect::WriteTree(folder)),
            None => {
                let denial = call.deny("the names of the files that it writes are not known");
                return Err(denial.hint("unpack with `tar -x -C DIRECTORY` or `unzip -d DIRECTORY`"));
            }
        }
    }
    if named(SEARCHES, &program) {
        searched(call, words)?;
    }
    packed(call, &program, words)?;
    let mut ended = false;
    let pages = matches!(call.name.as_str(), "less" | "more" | "most" | "pg" | "lv");
    for word in words {
        if !word.literal {
            return Err(call.deny("its words are not known"));
        }
        if pages && word.text.starts_with('+') {
            return Err(Denial::unanalysable(format!("{}: commands given by `+`", call.name)).by("G3"));
        }
        if let Some(what) = untabled::refused(&program, &word.text) {
            return Err(call.deny(what));
        }
        let is_option = !ended && word.text.len() > 1 && word.text.starts_with('-');
        word_in(call, &word.text, is_option)?;
        if word.text == "--" && !ended {
            ended = true;
            continue;
        }
        let mut both = |text: &str| {
            if !text.is_empty() && text != "-" {
                call.out.effects.push(Effect::Read(text.to_owned()));
                call.out.effects.push(Effect::Write(text.to_owned()));
            }
        };
        if !is_option {
            both(&word.text);
            // A file with more words.
            both(word.text.strip_prefix('@').unwrap_or_default());
        }
        if let Some((_, value)) = word.text.split_once('=') {
            both(value);
        }
    }
    Ok(())
}

/// Programs that pack or copy all below the directories in their words.
const PACKS: &str =
    "zip 7z 7za 7zr 7zz rar jar pax rsync rclone scp ditto mksquashfs genisoimage mkisofs xorrisofs lha arj zpaq asar";

fn packed(call: &mut Call<'_>, program: &str, words: &[Word]) -> Result<(), Denial> {
    for word in words.iter().filter(|word| named(PACKS, program) && word.literal && !word.text.starts_with('-')) {
        if call.node(&word.text)? == Some(Node::Dir) {
            call.read_tree(word, false);
        }
    }
    Ok(())
}

/// Programs that search all below the directories in their words, or below the one that they work in.
const SEARCHES: &str = "ag pt rga ugrep ug ack ack-grep sift";

/// Those of them that pass over hidden files, unless one of these letters or a long option says otherwise.
const PASS_OVER_HIDDEN: (&str, &str) = ("ag pt rga ugrep ug", "u.at");

/// Letters of theirs that take the next word for a value.
const SEARCH_VALUES: [&str; 12] = ["-A", "-B", "-C", "-m", "-g", "-G", "-e", "-f", "-t", "-T", "-p", "-W"];

// Whatever the search could reach is read.
fn searched(call: &mut Call<'_>, words: &[Word]) -> Result<(), Denial> {
    let is_option = |word: &Word| word.text.len() > 1 && word.text.starts_with('-');
    let before = std::iter::once("").chain(words.iter().map(|word| word.text.as_str()));
    let operands =
        words.iter().zip(before).filter(|(word, before)| !is_option(word) && !SEARCH_VALUES.contains(before));
    let given = words.iter().any(|word| word.text.starts_with("-e"));
    let mut starts: Vec<String> = Vec::new();
    for (word, _) in operands.skip(usize::from(!given)) {
        if call.node(&word.text)?.is_some() {
            starts.push(word.text.clone());
        }
    }
    if starts.is_empty() {
        starts.push(".".to_owned());
    }
    let (passing, letters) = PASS_OVER_HIDDEN;
    let takes_in =
        |word: &Word| word.text.starts_with("--") || is_option(word) && word.text.contains(|c| letters.contains(c));
    let skips_hidden = named(passing, &call.name) && !words.iter().any(takes_in);
    call.out.effects.extend(starts.into_iter().map(|path| Effect::ReadTree {
        path,
        follow_links: false,
        left_out: Vec::new(),
        only: Vec::new(),
        skips_hidden,
    }));
    Ok(())
}

/// Returns the denial of code: a program of the workspace by the name of a known one takes code where that does.
pub(crate) fn code_among(cx: Context<'_>, name: &str, table: &Table, words: &[Word]) -> Option<Denial> {
    let mut call = Call::new(cx, words, &[]);
    call.name = name.to_owned();
    let judged = call.parse(table, &words[1..]).and_then(|()| {
        let rest = std::mem::take(&mut call.operands);
        match rest
            .split_first()
            .and_then(|(first, rest)| Some((table.subcommands.iter().find(|sub| named(sub.names, &first.text))?, rest)))
        {
            Some((sub, rest)) => call.apply(sub, rest),
            None if table.subcommands.is_empty() => call.apply(table, &words[1..]),
            None => Ok(()),
        }
    });
    judged.err().filter(|denial| denial.unanalysable)
}
