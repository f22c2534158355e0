//! Restricts what git may show of committed files: read rules are added as pathspecs after the command's own words.

use std::path::Path;

use super::objects::{Named, named, top};
use super::words::{Operand, Operands, is_exclusion, one};
use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::programs::Word;
use crate::policy::programs::table::Call;
use crate::policy::protected::{braces, never_read};

/// How a subcommand reads its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Options, revisions, paths.
    OptionsFirst,
    /// Options may be among the operands.
    Mixed,
}

/// Prints the rules on reading as pathspecs: what is never read is excluded, and where rules allow only some paths the
/// command keeps to them. Denied where pathspecs cannot say it.
pub(super) fn confine(call: &mut Call<'_>, operands: &Operands<'_>, order: Order) -> Result<(), Denial> {
    if call.unknown && !call.name.ends_with(" log") {
        return Err(call.deny("an option that is not known might show what may not be read"));
    }
    let prefix = prefix(call)?;
    let mut specs = Vec::new();
    let excludes = |word: &Word| is_exclusion(&word.text) && !call.has("--literal-pathspecs");
    let only_excludes = operands.paths().iter().all(excludes);
    let allowed = call.cx.paths.read_globs().map_err(|what| call.deny(what))?;
    match &allowed {
        Some(globs) if only_excludes => {
            specs.extend(globs.iter().filter_map(|glob| included(&prefix, glob)));
            if specs.is_empty() {
                return Err(call
                    .deny("the paths that may be read cannot be written as pathspecs")
                    .hint("name the paths"));
            }
        }
        Some(globs) => {
            for word in operands.paths() {
                specs.extend(covered(call, globs, &prefix, word)?);
            }
        }
        None if only_excludes && !prefix.is_empty() => specs.push(format!(":(top,literal){prefix}")),
        None => {}
    }
    for glob in never_read().chain(call.cx.never_read.iter().map(String::as_str)) {
        specs.extend(
            excluded(&prefix, glob).ok_or_else(|| {
                call.deny(format!("`{glob}` of the rules on reading cannot be written as a pathspec"))
            })?,
        );
    }
    specs.extend(call.cx.paths.other_names()?.iter().map(|path| format!(":(top,exclude,literal){prefix}{path}")));
    print(call, operands, order, &specs)
}

/// Refuses words that lead to a file or directory by its id, past the rules on paths.
pub(crate) fn refuse_ids<'w>(call: &Call<'_>, words: impl IntoIterator<Item = &'w Word>) -> Result<(), Denial> {
    refuse_named(call, words, &[Named::Other, Named::Unknown])
}

/// Judges words that name revisions: operands, and values of options. An id is looked up, and `REVISION:PATH` is a
/// read of that path: even an error about it tells the whole id.
pub(crate) fn revisions_named(call: &mut Call<'_>, words: &[Word]) -> Result<(), Denial> {
    refuse_ids(call, words)?;
    for word in words.iter().filter(|word| word.text.contains(':')) {
        one(call, &word.text, &Operand::Revision, false)?;
    }
    Ok(())
}

/// The same where an id that no object has does no harm. Of an object that is no commit git tells the whole id.
pub(super) fn refuse_known_ids<'w>(call: &Call<'_>, words: impl IntoIterator<Item = &'w Word>) -> Result<(), Denial> {
    refuse_named(call, words, &[Named::Other])
}

fn refuse_named<'w>(
    call: &Call<'_>,
    words: impl IntoIterator<Item = &'w Word>,
    refused: &[Named],
) -> Result<(), Denial> {
    let of = |word: &Word| named(call.cx.paths.tree(), call.cx.root, &word.text);
    match words.into_iter().find(|word| refused.contains(&of(word))) {
        None => Ok(()),
        Some(word) => {
            let denial = call.deny(format!("`{}` may be the id of a file, past the rules on paths", word.text));
            Err(denial
                .hint("write `ID^{commit}` for a commit, `refs/heads/NAME` for a branch, and `COMMIT:PATH` for a file"))
        }
    }
}

/// Returns the workspace's path in its repository, with `/` after it; empty where it is the top.
pub(super) fn prefix(call: &Call<'_>) -> Result<String, Denial> {
    let Some(top) = top(call.cx.paths.tree(), call.cx.root) else { return Ok(String::new()) };
    let below = RelPath::below(top, call.cx.root).ok_or_else(|| call.deny("the repository's top is not known"))?;
    Ok(if below.is_root() { String::new() } else { format!("{below}/") })
}

fn excluded(prefix: &str, glob: &str) -> Option<Vec<String>> {
    let texts = covering(prefix, glob)?.into_iter();
    Some(texts.map(|text| format!(":(top,exclude,glob,icase){text}")).collect())
}

// Git's wildcards match bytes where the policy's match characters, and git has no braces: differences become `*`, which
// covers more.
fn covering(prefix: &str, glob: &str) -> Option<Vec<String>> {
    // A brace that is not a group.
    if glob.contains("\\{")
        || glob.contains("\\}")
        || glob.contains("\\,")
        || (glob.contains('[') && glob.contains('{'))
    {
        return None;
    }
    let mut specs = Vec::new();
    for one in braces(glob.trim_end_matches('/'))? {
        let mut text = escaped(prefix);
        let mut letters = one.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => match letters.next() {
                    Some(next) if next.is_ascii() => text.extend(['\\', next]),
                    _ => text.push('*'),
                },
                '[' => {
                    // `[]a]` and `[!]a]` hold the bracket.
                    let rest = letters.as_str();
                    let first = rest.trim_start_matches(['!', '^']);
                    let from = rest.len() - first.len() + usize::from(first.starts_with(']'));
                    let end = rest.get(from..)?.find(']')? + from;
                    letters = rest.get(end + 1..)?.chars();
                    text.push('*');
                }
                '?' => text.push('*'),
                letter if letter.is_ascii() => text.push(letter),
                _ => text.push('*'),
            }
        }
        // A pathspec with wildcards does not match what is below.
        if !text.ends_with("/**") {
            specs.push(format!("{text}/**"));
        }
        specs.push(text);
    }
    Some(specs)
}

// Only globs that mean the same to git; another one is left out, which shows less.
fn included(prefix: &str, glob: &str) -> Option<String> {
    let plain = glob.trim_end_matches('/');
    if !plain.is_ascii() || plain.contains(['[', '?', '\\']) {
        return None;
    }
    // Without a wildcard git would match what is below, too: the backslash is one.
    let whole = format!("{}{plain}", escaped(prefix));
    Some(format!(
        ":(top,glob){}",
        if whole.contains('*') || whole.contains('\\') { whole } else { format!("\\{whole}") }
    ))
}

fn escaped(text: &str) -> String {
    let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '\\');
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

// A path that the command names is within what may be read, as a file or with all below.
fn covered(call: &Call<'_>, globs: &[String], prefix: &str, word: &Word) -> Result<Option<String>, Denial> {
    let refuse = || {
        let denial = call.deny(format!("not all of `{}` may be read", word.text));
        denial.hint(format!("name paths within {}", globs.join(", ")))
    };
    let [folder] = call.cx.folders else { return Err(refuse()) };
    if is_exclusion(&word.text) && !call.has("--literal-pathspecs") {
        return Ok(None);
    }
    let magic = word.text.strip_prefix(":(top)").or_else(|| word.text.strip_prefix(":/"));
    let text = magic.unwrap_or(&word.text);
    if text.starts_with(':') || (text.contains(['*', '?', '[']) && !call.has("--literal-pathspecs")) {
        return Err(refuse());
    }
    let below = match magic {
        Some(path) => RelPath::new(path),
        None if Path::new(text).is_absolute() => RelPath::below(call.cx.root, Path::new(text)),
        None => folder.join(text),
    };
    let path = below.ok_or_else(refuse)?.to_string();
    let tree =
        |glob: &String| glob.strip_suffix("/**").is_some_and(|top| path == top || path.starts_with(&format!("{top}/")));
    if globs.iter().any(tree) {
        return Ok(None);
    }
    let is_match = |glob: &String| crate::policy::glob::Glob::new(glob).is_ok_and(|glob| glob.is_match(&path));
    if globs.iter().any(is_match) {
        // Once it may have been a directory.
        return Ok(Some(format!(":(top,exclude,glob){}{}/**", escaped(prefix), escaped(&path))));
    }
    Err(refuse())
}

// `--` ends what could be a revision: a file of the index may be named like one of our pathspecs.
fn print(call: &mut Call<'_>, operands: &Operands<'_>, order: Order, specs: &[String]) -> Result<(), Denial> {
    let literal = call.has("--literal-pathspecs");
    let paths = operands.paths();
    let mut printed: Vec<Word> = call.words.to_vec();
    let mut tail = Vec::new();
    if order == Order::OptionsFirst {
        let at = printed.len().saturating_sub(paths.len());
        if printed[at..] != *paths {
            return Err(call.deny("an option after a path").hint("write options before paths"));
        }
        tail = printed.split_off(at);
    }
    if literal {
        printed.retain(|word| word.text != "--literal-pathspecs");
        if order == Order::Mixed && !paths.is_empty() {
            return Err(call.deny("`--literal-pathspecs` with paths").hint("leave the option out"));
        }
        tail.iter_mut().for_each(|word| word.text.insert_str(0, ":(literal)"));
    }
    if call.dashes.is_none() {
        printed.push(Word::literal("--"));
    }
    printed.extend(tail);
    printed.extend(specs.iter().map(Word::literal));
    call.out.printed = Some(printed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_becomes_pathspecs_that_exclude_at_least_as_much() {
        let specs =
            |glob: &str| excluded("", glob).map(|specs| specs.join(" ").replace(":(top,exclude,glob,icase)", ""));
        assert_eq!(specs("{private,customers}/**").unwrap(), "customers/** private/**");
        assert_eq!(specs("**/.env").unwrap(), "**/.env/** **/.env");
        assert_eq!(specs("a[bc]?/é.txt").unwrap(), "a**/*.txt/** a**/*.txt");
        assert_eq!(specs("a[!]x]b").unwrap(), "a*b/** a*b");
        assert_eq!(specs("a\\{b"), None);
        assert_eq!(excluded("sub[1]/", "x/**").unwrap(), [":(top,exclude,glob,icase)sub\\[1\\]/x/**"]);
    }

    #[test]
    fn an_allowed_glob_is_included_only_where_git_means_the_same() {
        assert_eq!(included("", "docs/**").unwrap(), ":(top,glob)docs/**");
        assert_eq!(included("", "README.md").unwrap(), ":(top,glob)\\README.md");
        assert_eq!(included("", "a?.md"), None);
        assert_eq!(included("", "é/**"), None);
    }
}
