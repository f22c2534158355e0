//! Judges redirections: which files they read and write, and what standard input then is.

use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::programs::Stdin;

use super::ast::{Mode, Part, Redirection, Word};
use super::judge::Judge;
use super::words::Place;

impl Judge<'_> {
    /// Judges one redirection; `outer` is the standard input before all of them, `stdin` what it becomes.
    pub(super) fn redirection(
        &mut self,
        redirection: &Redirection,
        folders: &[RelPath],
        outer: Stdin,
        stdin: &mut Stdin,
    ) -> Result<Redirection, Denial> {
        self.record.shell = true;
        let place = Place { folders, stdin: outer, output: false, process: false };
        let writes = |judge: &mut Self, target: &Word| -> Result<Word, Denial> {
            let mut field = judge.one_field(target, place)?;
            judge.place_one(&mut field);
            match file_of(&field.word.text)? {
                File::Free => {}
                File::Standard(0) => return Err(Denial::new("output to the standard input")),
                File::Standard(_) => {}
                File::Path => judge.redirected(Effect::Write(field.word.text.clone()), folders)?,
            }
            Ok(field.shown)
        };
        Ok(match redirection {
            Redirection::File { descriptor, mode, target } => {
                let reads = match mode {
                    Mode::Read | Mode::ReadWrite => true,
                    Mode::Write | Mode::Append | Mode::Clobber => false,
                };
                let shown = match (mode, target.parts.as_slice()) {
                    (Mode::Read, [Part::Process(_)]) => {
                        let field = self.fields(target, Place { process: true, ..place })?.pop();
                        if *descriptor == 0 {
                            *stdin = Stdin::Pipe;
                        }
                        field.map(|field| field.shown).unwrap_or_default()
                    }
                    (Mode::Read, _) => {
                        let mut field = self.one_field(target, place)?;
                        self.place_one(&mut field);
                        let data = match file_of(&field.word.text)? {
                            File::Free => Stdin::Empty,
                            File::Standard(0) => outer,
                            File::Standard(_) => Stdin::Data,
                            File::Path => {
                                self.redirected(Effect::Read(field.word.text.clone()), folders)?;
                                Stdin::Data
                            }
                        };
                        if *descriptor == 0 {
                            *stdin = data;
                        }
                        field.shown
                    }
                    (Mode::ReadWrite, _) => {
                        let mut field = self.one_field(target, place)?;
                        self.place_one(&mut field);
                        if !matches!(file_of(&field.word.text)?, File::Free) {
                            self.redirected(Effect::Read(field.word.text.clone()), folders)?;
                            self.redirected(Effect::Write(field.word.text.clone()), folders)?;
                        }
                        field.shown
                    }
                    (Mode::Write | Mode::Append | Mode::Clobber, _) => writes(self, target)?,
                };
                if *descriptor == 0 && (*mode == Mode::ReadWrite || !reads) {
                    *stdin = Stdin::Data;
                }
                Redirection::File { descriptor: *descriptor, mode: *mode, target: shown }
            }
            Redirection::OutputAndErrors { append, target } => {
                Redirection::OutputAndErrors { append: *append, target: writes(self, target)? }
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
                if *descriptor == 0 {
                    *stdin = Stdin::Data;
                }
                Redirection::HereDocument { descriptor: *descriptor, body: self.here_document(body, place)? }
            }
            Redirection::HereString { descriptor, word } => {
                if *descriptor == 0 {
                    *stdin = Stdin::Data;
                }
                Redirection::HereString { descriptor: *descriptor, word: self.unsplit(word, place)?.shown }
            }
        })
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
