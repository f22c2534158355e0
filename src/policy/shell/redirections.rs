//! Judges redirections: which files they read and write, and what standard input then is.

use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::programs::Stdin;

use super::ast::{Mode, Part, Piece, Redirection, Word};
use super::fields::Place;
use super::state::Judge;

impl Judge<'_> {
    /// Judges one redirection; `outer` is the standard input before all of them, `stdin` what it becomes.
    pub(super) fn redirection(
        &mut self,
        redirection: &Redirection,
        folders: &[RelPath],
        outer: Stdin,
        stdin: &mut Stdin,
    ) -> Result<Redirection, Denial> {
        self.record.print.shell = true;
        let place = Place { folders, stdin: outer, output: false, process: false };
        Ok(match redirection {
            Redirection::File { descriptor, mode, target } => {
                let (shown, input) = self.file(*mode, target, place)?;
                if *descriptor == 0 {
                    *stdin = input;
                }
                Redirection::File { descriptor: *descriptor, mode: *mode, target: shown }
            }
            Redirection::OutputAndErrors { append, target } => {
                Redirection::OutputAndErrors { append: *append, target: self.written(target, place)? }
            }
            Redirection::Copy { descriptor, input, from } => {
                if *descriptor == 0 {
                    *stdin = match from {
                        None => Stdin::Empty,
                        Some(0) => *stdin,
                        Some(_) => Stdin::Data,
                    };
                }
                Redirection::Copy { descriptor: *descriptor, input: *input, from: *from }
            }
            Redirection::HereDocument { descriptor, body } => {
                let body = self.here_document(body, place)?;
                if *descriptor == 0 {
                    *stdin = match body.as_slice() {
                        [Piece::Text(text)] => Stdin::of_text(text),
                        _ => Stdin::Data,
                    };
                }
                Redirection::HereDocument { descriptor: *descriptor, body }
            }
            Redirection::HereString { descriptor, word } => {
                let field = self.unsplit(word, place)?;
                if *descriptor == 0 {
                    *stdin = field.text().map_or(Stdin::Data, Stdin::of_text);
                }
                Redirection::HereString { descriptor: *descriptor, word: field.shown }
            }
        })
    }

    // The file of a redirection, and what standard input is if it is redirected so.
    fn file(&mut self, mode: Mode, target: &Word, place: Place<'_>) -> Result<(Word, Stdin), Denial> {
        if let (Mode::Read, [Part::Process(_)]) = (mode, target.parts.as_slice()) {
            let field = self.fields(target, Place { process: true, ..place })?.pop();
            return Ok((field.map(|field| field.shown).unwrap_or_default(), Stdin::Pipe));
        }
        if matches!(mode, Mode::Write | Mode::Append | Mode::Clobber) {
            return Ok((self.written(target, place)?, Stdin::Data));
        }
        let mut field = self.one_field(target, place)?;
        self.place_one(&mut field);
        let (file, path) = (file_of(&field.word.text)?, &field.word.text);
        let input = match (mode, file) {
            (Mode::Read, File::Free) => Stdin::Empty,
            (Mode::Read, File::Standard(0)) => place.stdin,
            (Mode::Read, File::Standard(_)) | (_, File::Free) => Stdin::Data,
            (Mode::Read, File::Path) => {
                self.redirected(Effect::Read(path.clone()), place.folders)?;
                Stdin::File
            }
            (_, File::Standard(_) | File::Path) => {
                self.redirected(Effect::Read(path.clone()), place.folders)?;
                self.redirected(Effect::Write(path.clone()), place.folders)?;
                Stdin::Data
            }
        };
        Ok((field.shown, input))
    }

    fn written(&mut self, target: &Word, place: Place<'_>) -> Result<Word, Denial> {
        let mut field = self.one_field(target, place)?;
        self.place_one(&mut field);
        match file_of(&field.word.text)? {
            File::Free => {}
            File::Standard(0) => return Err(Denial::new("output to the standard input")),
            File::Standard(_) => {}
            File::Path => self.redirected(Effect::Write(field.word.text.clone()), place.folders)?,
        }
        Ok(field.shown)
    }

    /// Judges the file of a redirection.
    fn redirected(&mut self, effect: Effect, folders: &[RelPath]) -> Result<(), Denial> {
        if let Effect::Write(_) = effect {
            self.record.writes = true;
        }
        self.checked(&effect, folders)
    }
}

enum File {
    /// `/dev/null`
    Free,
    /// A standard descriptor by name.
    Standard(u8),
    Path,
}

fn file_of(path: &str) -> Result<File, Denial> {
    if path.is_empty() {
        return Err(Denial::new("a redirection to an empty name").by("F7"));
    }
    if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
        return Err(Denial::new(format!("{path} is a network connection")).by("G6"));
    }
    Ok(match path {
        "/dev/null" => File::Free,
        "/dev/stdin" | "/dev/fd/0" => File::Standard(0),
        "/dev/stdout" | "/dev/fd/1" => File::Standard(1),
        "/dev/stderr" | "/dev/fd/2" => File::Standard(2),
        _ => File::Path,
    })
}
