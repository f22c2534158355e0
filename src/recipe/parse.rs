//! Parses a recipe file strictly and with limits; every error has its position.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cases::TestCase;
use super::file::{KEYS, RESERVED, RecipeFile};
use super::places::Places;
use super::scalar::{Given, NUMBER, Text};
use crate::base::document::yaml::{self, Kind, MAX_BYTES, Node, Plain, Scalar, nearest};
use crate::base::{Code, Diagnostic, Location, Span};
use crate::hidden::is_foreign;

/// The number of the format that is read.
pub const FORMAT: u64 = 1;

/// Reads one file. `name` is how messages call it.
pub fn parse(name: &str, bytes: &[u8]) -> Result<RecipeFile, Diagnostic> {
    let file: Arc<str> = name.into();
    let at = |span: Span| Location { file: Arc::clone(&file), span };
    let text = text_of(bytes, &at)?;
    let fault = |code: Code, mut error: Diagnostic| {
        let help = [
            ("a tab", "write spaces"),
            ("duplicate key", "keep one of them"),
            ("more than one document", "keep one recipe a file"),
            ("anchors and aliases", "write the value out, or build on another recipe with `extends`"),
            ("merge keys", "write the keys out, or build on another recipe with `extends`"),
            ("too large or too deep", "move long texts into `prompt_file`, and parts into `extends`"),
        ];
        let help = help.iter().find(|(start, _)| error.message.starts_with(start));
        error.help = help.map(|(_, help)| (*help).to_owned());
        error.code = Some(code);
        error.with_line_of(text)
    };
    let top = yaml::tree(name, text).map_err(|error| fault(Code::R002, error))?;
    if let Some(problem) = check_top(&top, &at) {
        return Err(problem.with_line_of(text));
    }
    let mut recipe: RecipeFile = yaml::read(name, text, &top).map_err(|error| {
        let code = if error.message.starts_with("unknown key") { Code::R003 } else { Code::R005 };
        fault(code, error)
    })?;
    recipe.places = Places::in_tree(&top, &file);
    let mut lines = Lines::of(text);
    recipe.each_text(&mut |_, _, found| {
        found.place.file = Arc::clone(&file);
        lines.respell(found);
    });
    Ok(recipe)
}

/// Returns the text of a file that is not too long and has no hidden characters.
fn text_of<'a>(bytes: &'a [u8], at: &dyn Fn(Span) -> Location) -> Result<&'a str, Diagnostic> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; at most {MAX_BYTES} are read", bytes.len());
        return Err(
            Diagnostic::new(Code::R001, at(Span::default()), message).help("move long texts into `prompt_file`")
        );
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let span = Span::START.after(&String::from_utf8_lossy(&bytes[..error.valid_up_to()]));
        let text = String::from_utf8_lossy(bytes);
        Diagnostic::new(Code::R001, at(span), "not UTF-8").help("save the file as UTF-8").with_line_of(&text)
    })?;
    if let Some((offset, c)) = text.char_indices().find(|(_, c)| is_foreign(*c)) {
        let message = format!("hidden character U+{:04X}", u32::from(c));
        let problem = Diagnostic::new(Code::R001, at(Span::of(text, offset)), message);
        return Err(problem.help("remove it").with_line_of(text));
    }
    Ok(text)
}

/// Reads a file of parameters: one key each, a scalar or a list of them, as the file spells them.
pub fn parse_params(name: &str, text: &str) -> Result<BTreeMap<String, Given>, Diagnostic> {
    let mut params: BTreeMap<String, Given> = yaml::parse(name, text)?;
    let mut lines = Lines::of(text);
    for given in params.values_mut() {
        lines.respell_given(given);
    }
    Ok(params)
}

/// Reads a file of test cases: a line of JSON each, with the keys of `tests`.
pub fn parse_cases(name: &str, text: &str) -> Result<Vec<TestCase>, Diagnostic> {
    let mut cases = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let mut case: TestCase = yaml::parse(name, line).map_err(|mut error| {
            error.span.line += number;
            error
        })?;
        let mut lines = Lines::of(line);
        for given in case.params.iter_mut().flat_map(|params| params.values_mut()) {
            lines.respell_given(given);
        }
        let file: Arc<str> = name.into();
        for text in [&mut case.name, &mut case.fixture] {
            text.place = Location { file: Arc::clone(&file), span: Span { line: number + 1, column: 1 } };
        }
        cases.push(case);
    }
    Ok(cases)
}

/// The lines of a file, with the letters of those that were asked about.
struct Lines<'a> {
    lines: Vec<&'a str>,
    letters: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Lines<'a> {
        Lines { lines: text.lines().collect(), letters: BTreeMap::new() }
    }

    /// Replaces each number of a parameter by its spelling in the file.
    fn respell_given(&mut self, given: &mut Given) {
        let found = match given {
            Given::One(found) => std::slice::from_mut(found),
            Given::Many(found) => found.as_mut_slice(),
        };
        found.iter_mut().for_each(|found| self.respell(found));
    }

    /// Replaces a number's value by its spelling in the file.
    fn respell(&mut self, found: &mut Text) {
        if let Some(value) = found.value.strip_prefix(NUMBER) {
            found.value = self.spelling(&found.place).unwrap_or(value).to_owned();
        }
    }

    /// Returns how the file spells the number at a place: `1.10` stays that, and so does `0x1f`.
    fn spelling(&mut self, place: &Location) -> Option<&'a str> {
        let at = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
        let index = at(place.span.line)?;
        let line: &'a str = self.lines.get(index)?;
        let letters =
            self.letters.entry(index).or_insert_with(|| line.char_indices().map(|(offset, _)| offset).collect());
        let start = *letters.get(at(place.span.column)?)?;
        let word = line[start..].split([' ', ',', ']', '}', '#']).next()?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        (!word.is_empty() && word.chars().all(plain)).then_some(word)
    }
}

/// Judges the keys of the top level and the format number before everything else: a file of a later format is not to be
/// judged by this one's keys.
fn check_top(top: &Node, at: &dyn Fn(Span) -> Location) -> Option<Diagnostic> {
    let Kind::Map(entries) = &top.kind else {
        return Some(
            Diagnostic::new(Code::R005, at(Span::START), "a recipe is a mapping of keys")
                .help("begin with `recipe: 1`; `qwen recipe new NAME` writes one"),
        );
    };
    let Some((key, format)) = entries.iter().find(|(key, _)| key.text() == Some("recipe")) else {
        return Some(
            Diagnostic::new(Code::R004, at(Span::START), "the key `recipe:` is missing").help("begin with `recipe: 1`"),
        );
    };
    let number = match &format.kind {
        Kind::Scalar(Scalar { plain: Plain::Unsigned(number), .. }) => Some(*number),
        Kind::Scalar(Scalar { plain: Plain::Text, text, .. }) => text.parse().ok(),
        Kind::Scalar(_) | Kind::Map(_) | Kind::List(_) => None,
    };
    match number {
        Some(FORMAT) => {}
        Some(number) => {
            let message = format!("this file is format {number}, this qwen reads {FORMAT}");
            let help = if number > FORMAT { "use a newer qwen" } else { "write `recipe: 1`" };
            return Some(Diagnostic::new(Code::R004, at(key.span), message).help(help));
        }
        None => {
            let message = "`recipe` is the number of the format";
            return Some(Diagnostic::new(Code::R004, at(key.span), message).help("write `recipe: 1`"));
        }
    }
    let unknown = |key: &str| !KEYS.contains(&key) && !key.starts_with("x-");
    let (found, _) = entries.iter().find(|(key, _)| key.text().is_some_and(unknown))?;
    let key = found.text()?;
    let error = |message: String| Diagnostic::new(Code::R003, at(found.span), message);
    if RESERVED.contains(&key) {
        return Some(
            error(format!("`{key}` is reserved for a later format"))
                .help("compose recipes with `extends`, and runs with the shell"),
        );
    }
    Some(match nearest(key, KEYS.iter().copied()) {
        Some(near) => error(format!("unknown key `{key}`; did you mean `{near}`?")),
        None => error(format!("unknown key `{key}`")),
    })
}
