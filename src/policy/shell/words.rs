//! Expands words as bash would: the fields after every expansion, and how to print each again.

use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::programs::Word as RuleWord;

use super::ast::{Parameter, Part, Piece, Word};
use super::braces;
use super::fields::{Field, Place};
use super::glob::{self, Bit, Globber};
use super::lexer::is_name;
use super::state::Judge;

/// Maximum words that a command may expand to.
const WORDS_CAP: usize = 20_000;

/// A field while it is put together.
#[derive(Default)]
struct Draft {
    bits: Vec<Bit>,
    shown: Vec<Shown>,
    /// It stays even if it is empty.
    kept: bool,
    unknown: bool,
}

enum Shown {
    Text(String),
    Symbol(Part),
}

/// The value of a parameter.
enum Value {
    Text(String),
    /// The variable is kept in the printing, because it has this value then.
    Symbol(String),
    Number,
}

impl Draft {
    fn text(&mut self, text: &str, quoted: bool) {
        self.bits.extend(text.chars().map(|c| (c, quoted)));
        self.kept |= quoted || !text.is_empty();
        match self.shown.last_mut() {
            Some(Shown::Text(before)) => before.push_str(text),
            Some(Shown::Symbol(_)) | None => self.shown.push(Shown::Text(text.to_owned())),
        }
    }

    fn symbol(&mut self, value: &str, quoted: bool, piece: Piece) {
        self.bits.extend(value.chars().map(|c| (c, quoted)));
        self.kept |= quoted || !value.is_empty();
        self.shown.push(Shown::Symbol(Part::Double(vec![piece])));
    }

    fn finish(self) -> Field {
        let text: String = self.bits.iter().map(|(c, _)| *c).collect();
        let mut shown = Word::default();
        for part in self.shown {
            match part {
                Shown::Text(text) if text.is_empty() => {}
                Shown::Text(text) => shown.push_text(&text),
                Shown::Symbol(part) => shown.parts.push(part),
            }
        }
        if shown.parts.is_empty() {
            shown = Word::from_text("");
        }
        let word =
            if self.unknown { RuleWord { text: String::new(), literal: false } } else { RuleWord::literal(text) };
        Field { word, shown }
    }
}

/// Adds the value of an unquoted parameter, which bash splits at spaces.
fn split(parameter: &Parameter, value: Value, draft: &mut Draft, done: &mut Vec<Draft>) -> Result<(), Denial> {
    let (value, symbol) = match value {
        Value::Number => {
            draft.unknown = true;
            draft.symbol("", true, Piece::Parameter(braced(parameter)));
            return Ok(());
        }
        Value::Text(value) => (value, false),
        Value::Symbol(value) => (value, true),
    };
    if value.contains('\\') {
        let denial = Denial::unanalysable(format!("`${}` has a backslash in its value", parameter.name));
        return Err(denial.hint("put it in double quotes"));
    }
    if symbol && !value.is_empty() && !value.contains([' ', '\t', '\n']) {
        draft.symbol(&value, false, Piece::Parameter(braced(parameter)));
        return Ok(());
    }
    for (at, piece) in value.split([' ', '\t', '\n']).enumerate() {
        if at > 0 {
            let before = std::mem::take(draft);
            done.extend(before.kept.then_some(before));
        }
        if !piece.is_empty() {
            draft.text(piece, false);
        }
    }
    Ok(())
}

impl Judge<'_> {
    /// Expands a word of a command: braces, `~`, parameters, fields and globs.
    pub(super) fn fields(&mut self, word: &Word, place: Place<'_>) -> Result<Vec<Field>, Denial> {
        if let [Part::Process(script)] = word.parts.as_slice() {
            if !place.process {
                return Err(Denial::unanalysable("`<( )` that is not an operand of a program").hint("use a pipe"));
            }
            let script = self.nested(script, place.folders, place.stdin)?;
            return Ok(vec![Field { word: RuleWord::process(), shown: Word { parts: vec![Part::Process(script)] } }]);
        }
        refuse_assigned_tilde(word)?;
        let mut fields = Vec::new();
        for word in braces::expand(word)? {
            let drafts = self.drafts(&word, place)?;
            for draft in drafts {
                self.glob(draft, place, &mut fields)?;
            }
            self.words += 1;
            if fields.len() + self.words > WORDS_CAP {
                return Err(Denial::unanalysable(format!("the command has more than {WORDS_CAP} words")));
            }
        }
        Ok(fields)
    }

    /// Expands a word that must be one field of known text: the file of a redirection.
    pub(super) fn one_field(&mut self, word: &Word, place: Place<'_>) -> Result<Field, Denial> {
        let mut fields = self.fields(word, place)?;
        match (fields.pop(), fields.is_empty()) {
            (Some(field), true) if field.word.literal => Ok(field),
            _ => Err(Denial::unanalysable("a redirection to a name that is not one known word")),
        }
    }

    fn drafts(&mut self, word: &Word, place: Place<'_>) -> Result<Vec<Draft>, Denial> {
        let mut done = Vec::new();
        let mut draft = Draft::default();
        for (at, part) in word.parts.iter().enumerate() {
            match part {
                Part::Plain(text) => {
                    let text = if at == 0 { self.tilde(text, word.parts.len() > 1, &mut draft)? } else { text };
                    if !text.is_empty() {
                        draft.text(text, false);
                    }
                }
                Part::Quoted(text) => draft.text(text, true),
                Part::Double(pieces) => {
                    draft.kept = true;
                    for piece in pieces {
                        self.quoted_piece(piece, place, &mut draft)?;
                    }
                }
                Part::Parameter(parameter) => {
                    let value = self.value(parameter, place.folders)?;
                    split(parameter, value, &mut draft, &mut done)?;
                }
                Part::Substitution(_) => return Err(no_output()),
                Part::Process(_) => return Err(Denial::unanalysable("`<( )` inside a word")),
                Part::Path(_) | Part::Text(_) => return Err(decided_already()),
            }
        }
        if draft.kept {
            done.push(draft);
        }
        Ok(done)
    }

    /// Adds the value of `~` to the draft and returns what follows it.
    fn tilde<'t>(&self, text: &'t str, more: bool, draft: &mut Draft) -> Result<&'t str, Denial> {
        let Some(after) = text.strip_prefix('~') else { return Ok(text) };
        if !(after.starts_with('/') || (after.is_empty() && !more)) {
            return Err(
                Denial::unanalysable("a home directory other than `~`").hint("write the path, or quote the `~`")
            );
        }
        draft.text(self.rules.home(), true);
        Ok(after)
    }

    fn quoted_piece(&mut self, piece: &Piece, place: Place<'_>, draft: &mut Draft) -> Result<(), Denial> {
        match piece {
            Piece::Text(text) => draft.text(text, true),
            Piece::Parameter(parameter) => match self.value(parameter, place.folders)? {
                Value::Text(value) => draft.text(&value, true),
                Value::Symbol(value) => draft.symbol(&value, true, Piece::Parameter(braced(parameter))),
                Value::Number => {
                    draft.unknown = true;
                    draft.symbol("", true, Piece::Parameter(braced(parameter)));
                }
            },
            Piece::Substitution(script) => {
                if !place.output {
                    return Err(no_output());
                }
                let script = self.nested(script, place.folders, place.stdin)?;
                draft.unknown = true;
                draft.symbol("", true, Piece::Substitution(script));
            }
        }
        Ok(())
    }

    fn glob(&mut self, draft: Draft, place: Place<'_>, fields: &mut Vec<Field>) -> Result<(), Denial> {
        if !glob::is_active(&draft.bits) {
            fields.push(draft.finish());
            return Ok(());
        }
        if draft.unknown {
            return Err(Denial::unanalysable("a glob next to an unknown value"));
        }
        let mut found: Option<Vec<String>> = None;
        for folder in place.folders {
            let globber = Globber {
                tree: self.rules.tree(),
                folder: folder.under(self.rules.root()),
                may_list: &|path| self.rules.check(&Effect::List(path.to_owned()), std::slice::from_ref(folder)),
            };
            let files = globber.expand(&draft.bits)?;
            if found.as_ref().is_some_and(|found| *found != files) {
                return Err(
                    Denial::unanalysable("a glob after a `cd` that may have failed").hint("join them with `&&`")
                );
            }
            found = Some(files);
        }
        match found.filter(|files| !files.is_empty()) {
            Some(files) => {
                self.words += files.len();
                fields.extend(files.iter().map(|file| Field::literal(file)));
            }
            None => fields.push(draft.finish()),
        }
        Ok(())
    }

    /// Expands a word that bash does not split: in `[[ ]]`, after `case` and `<<<`.
    pub(super) fn unsplit(&mut self, word: &Word, place: Place<'_>) -> Result<Field, Denial> {
        let mut draft = Draft { kept: true, ..Draft::default() };
        for (at, part) in word.parts.iter().enumerate() {
            match part {
                Part::Plain(text) => {
                    let text = if at == 0 { self.tilde(text, word.parts.len() > 1, &mut draft)? } else { text };
                    draft.text(text, true);
                }
                Part::Quoted(text) => draft.text(text, true),
                Part::Double(pieces) => {
                    for piece in pieces {
                        self.quoted_piece(piece, place, &mut draft)?;
                    }
                }
                Part::Parameter(parameter) => {
                    self.quoted_piece(&Piece::Parameter(parameter.clone()), place, &mut draft)?;
                }
                Part::Substitution(_) => return Err(no_output()),
                Part::Process(_) => return Err(Denial::unanalysable("`<( )` that is not an operand of a program")),
                Part::Path(_) | Part::Text(_) => return Err(decided_already()),
            }
        }
        Ok(draft.finish())
    }

    /// Expands a pattern, whose unquoted characters keep their meaning.
    pub(super) fn pattern(&mut self, word: &Word, place: Place<'_>) -> Result<Word, Denial> {
        let mut pattern = Word::default();
        for (at, part) in word.parts.iter().enumerate() {
            match part {
                Part::Plain(text) => {
                    if at == 0 && text.starts_with('~') {
                        return Err(Denial::unanalysable("a pattern that begins with `~`").hint("quote it"));
                    }
                    text.chars().for_each(|c| pattern.push_plain(c));
                }
                Part::Quoted(text) => pattern.push_quoted(text),
                Part::Double(_) => {
                    let quoted = Word { parts: vec![part.clone()] };
                    for part in self.unsplit(&quoted, place)?.shown.parts {
                        match part {
                            Part::Plain(text) | Part::Quoted(text) => pattern.push_quoted(&text),
                            other => pattern.parts.push(other),
                        }
                    }
                }
                Part::Path(_) | Part::Text(_) => return Err(decided_already()),
                Part::Parameter(_) | Part::Substitution(_) | Part::Process(_) => {
                    return Err(Denial::unanalysable("an expansion outside quotes in a pattern").hint("quote it"));
                }
            }
        }
        Ok(pattern)
    }

    /// Judges what a here-document expands, and returns how it is printed.
    pub(super) fn here_document(&mut self, body: &[Piece], place: Place<'_>) -> Result<Vec<Piece>, Denial> {
        let mut shown: Vec<Piece> = Vec::new();
        let mut push = |piece: Piece| match (shown.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, piece) => shown.push(piece),
        };
        for piece in body {
            match piece {
                Piece::Text(text) => push(Piece::Text(text.clone())),
                Piece::Parameter(parameter) => push(match self.value(parameter, place.folders)? {
                    Value::Text(value) => Piece::Text(value),
                    Value::Symbol(_) | Value::Number => Piece::Parameter(braced(parameter)),
                }),
                Piece::Substitution(script) => {
                    push(Piece::Substitution(self.nested(script, place.folders, place.stdin)?));
                }
            }
        }
        Ok(shown)
    }

    fn value(&self, parameter: &Parameter, folders: &[RelPath]) -> Result<Value, Denial> {
        let name = parameter.name.as_str();
        if let Some((_, value)) = self.variables.iter().rev().find(|(variable, _)| variable == name) {
            return Ok(Value::Symbol(value.clone()));
        }
        match name {
            "?" => Ok(Value::Number),
            "HOME" => Ok(Value::Text(self.rules.home().to_owned())),
            "PWD" => match folders {
                [folder] => Ok(Value::Symbol(folder.under(self.rules.root()).to_string_lossy().into_owned())),
                _ => Err(Denial::unanalysable("`$PWD` after a `cd` that may have failed").hint("join them with `&&`")),
            },
            _ => Err(Denial::unanalysable(format!("the value of `${name}` is not known"))
                .hint("write the value itself; only $HOME, $PWD, $? and variables of `for` are known")),
        }
    }
}

fn braced(parameter: &Parameter) -> Parameter {
    Parameter { name: parameter.name.clone(), braced: true }
}

/// No parser makes such a word.
fn decided_already() -> Denial {
    Denial::unanalysable("a word that was decided already")
}

fn no_output() -> Denial {
    Denial::unanalysable("the output of `$( )` is not known before it runs").hint(
        "run the inner command first and write its output, or a form without it such as main..HEAD; \
         only echo \"$( )\" is understood",
    )
}

/// bash expands `~` after `=` and `:` in words that look like assignments.
fn refuse_assigned_tilde(word: &Word) -> Result<(), Denial> {
    let Some(Part::Plain(first)) = word.parts.first() else { return Ok(()) };
    let name = first.split_once(['=', '[', '+']).map(|(name, _)| name);
    if !name.is_some_and(is_name) {
        return Ok(());
    }
    for (at, part) in word.parts.iter().enumerate() {
        if let Part::Plain(text) = part
            && (text.contains("=~") || text.contains(":~") || (at > 0 && text.starts_with('~')))
        {
            return Err(Denial::unanalysable("`~` in a word like NAME=~").hint("write the path, or quote the `~`"));
        }
    }
    Ok(())
}
