//! Judges programs without a table, by what a rule lists.

use crate::policy::decision::Denial;
use crate::policy::file::{CommandRule, OperandKind, Options, PathKind};
use crate::policy::names::{base_name, named};
use crate::policy::programs::table::{Call, Context, Out};
use crate::policy::programs::words::is_address;
use crate::policy::programs::{self, Word, begins_like_an_option};
use crate::policy::rules::Rule;

/// Programs that run what is in the files they are given, whatever their options are.
const RUN_FILES: &str = "perl perl5 m4 gdb lldb vim vi view rvim rview vimdiff gvim nvim ex emacs";

/// Judges a program without a table: the rule lists options and operands.
pub(super) fn judge(cx: Context<'_>, rule: &Rule<CommandRule>, words: &[Word]) -> Result<Out, Denial> {
    let value = &rule.value;
    let rest = &words[value.cmd.len().min(words.len())..];
    let mut call = Call::new(cx, words, &[]);
    (call.out.writes, call.out.open_ended) = (!only_reads(value), true);
    programs::refuse_undeclared(&call, !matches!(value.operands, None | Some(OperandKind::None)))?;
    match arguments(&mut call, value, words, rest) {
        Ok(()) => Ok(call.out),
        Err(what) => Err(Denial::new(format!("{}: {what}", words[0].text)).by_rule(rule.at.clone())),
    }
}

// The error says what the rule does not list.
fn arguments(call: &mut Call<'_>, rule: &CommandRule, words: &[Word], rest: &[Word]) -> Result<(), String> {
    if let Some(most) = rule.max_args.filter(|most| words.len() > most + 1) {
        return Err(format!("more than {most} arguments"));
    }
    if let Some(word) = rest.iter().find(|word| !word.literal) {
        return Err(format!("`{}` is not known", word.text));
    }
    if let Some(args) = &rule.args {
        let fits =
            rest.len() == args.len() && rest.iter().zip(args).all(|(word, element)| element.0.contains(&word.text));
        return if fits { Ok(()) } else { Err("the arguments are not those that the rule lists".to_owned()) };
    }
    let none = Options::default();
    let options = rule.options.as_ref().unwrap_or(&none);
    if matches!(rule.operands, Some(OperandKind::Read | OperandKind::Write)) {
        let files: Vec<&str> =
            rest.iter().map(|word| word.text.as_str()).filter(|word| !word.starts_with('-')).collect();
        if let Some(what) = programs::code_of(base_name(&words[0].text), &files) {
            return Err(format!("{what}, and the rule allows files"));
        }
        if named(RUN_FILES, base_name(&words[0].text)) {
            return Err("it runs code of the files that it reads, also with `-c`".to_owned());
        }
    }
    let (mut ended, mut rest) = (false, rest.iter());
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if ended || !is_option(rule.operands, text) {
            operand(call, rule.operands, word)?;
        } else if text == "--" {
            ended = true;
        } else if !is_flag(options, text) {
            let (kind, path) = match (attached(options, text), options.paths.get(text)) {
                (Some((kind, path)), _) => (kind, Word::literal(path)),
                (None, Some(kind)) => {
                    let next = rest.next().filter(|next| !begins_like_an_option(&next.text));
                    (*kind, next.ok_or_else(|| format!("`{text}` needs a path"))?.clone())
                }
                (None, None) => return Err(format!("the option `{text}` is not listed")),
            };
            names_a_file(call, &path.text)?;
            match kind {
                PathKind::Read => call.read(&path),
                PathKind::Write => call.write(&path),
            }
        }
    }
    Ok(())
}

// `+n` of a shell and `+CMD` of an editor or a pager are options as well; only of text it is certain that they are none.
fn is_option(operands: Option<OperandKind>, text: &str) -> bool {
    text.len() > 1 && (text.starts_with('-') || text.starts_with('+') && operands != Some(OperandKind::Data))
}

// A listed option without a value, or a bundle of such.
fn is_flag(options: &Options, text: &str) -> bool {
    let is_bundle = !text.starts_with("--") && text.chars().count() > 2;
    options.allow.iter().any(|known| known == text)
        || is_bundle && text[1..].chars().all(|c| options.allow.contains(&format!("-{c}")))
}

// `--option=PATH`, `-oPATH`.
fn attached<'t>(options: &Options, text: &'t str) -> Option<(PathKind, &'t str)> {
    options.paths.iter().find_map(|(name, kind)| {
        let rest = text.strip_prefix(name.as_str())?;
        if name.starts_with("--") {
            Some((*kind, rest.strip_prefix('=')?))
        } else {
            Some((*kind, rest)).filter(|_| name.len() == 2 && !rest.is_empty())
        }
    })
}

// An operand of a program without a table.
fn operand(call: &mut Call<'_>, kind: Option<OperandKind>, word: &Word) -> Result<(), String> {
    let text = &word.text;
    match kind.unwrap_or(OperandKind::None) {
        OperandKind::None => return Err(format!("the operand `{text}` is not listed")),
        OperandKind::Data => {}
        _ if text.len() > 1 && text.starts_with('@') => {
            return Err(format!("`{text}` may stand for the words in a file"));
        }
        OperandKind::Read => {
            names_a_file(call, text)?;
            call.read(word);
        }
        OperandKind::Write => {
            names_a_file(call, text)?;
            call.write(word);
        }
    }
    Ok(())
}

// Some programs take an address where others take a file, read `%2e` in a name as a dot, expand patterns themselves, or take
// several paths in one word. That a file of that name is there says nothing: who may write could have made it.
fn names_a_file(call: &mut Call<'_>, text: &str) -> Result<(), String> {
    let is_host = text.starts_with("github.com/") && !matches!(call.node("github.com"), Ok(Some(_)));
    if is_address(text) || is_host {
        return Err(format!("`{text}` is an address, not a file"));
    }
    let is_encoded = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if text.split('%').skip(1).any(is_encoded) || text.contains([':', '|', ',', ';', '=']) {
        return Err(format!("`{text}` may stand for another name, or for more than one"));
    }
    if !text.contains(['*', '?', '[', '{']) {
        return Ok(());
    }
    // `app/[id]/page.tsx` is a file, and to some programs a pattern as well.
    match call.node(text) {
        Ok(Some(_)) => call.pattern(text, false, false).map_err(|denial| denial.reason),
        Ok(None) | Err(_) => Err(format!("`{text}` may stand for another name, or for more than one")),
    }
}

/// Tells whether a rule says that a program without a table only reads its paths.
fn only_reads(rule: &CommandRule) -> bool {
    let mut kinds = rule.options.iter().flat_map(|options| options.paths.values());
    rule.operands == Some(OperandKind::Read) && kinds.all(|kind| *kind == PathKind::Read)
}
