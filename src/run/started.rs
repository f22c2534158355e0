//! Finds what commands of the operator's settings start: their words, as far as these can be read before the run.

use std::path::Path;

use crate::policy::programs::Word as Literal;
use crate::policy::programs::interpreters::{gives_code, reads_code};
use crate::policy::shell::ast::{AndOr, Command, Kind, Part, Piece, Pipeline, Redirection, Script, Simple, Word};
use crate::policy::shell::parser::parse;

/// Shells whose `-c` is a command like any other.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

/// Commands after which a word has another meaning.
const MOVES: [&str; 4] = ["cd", "pushd", "eval", "alias"];

/// A hook, a server or the discovery of tools, with a name for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The name.
    pub name: String,
    /// What is started.
    pub what: What,
}

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A text for the shell.
    Text(String),
    /// The words of a program, and texts beside them that may name files: values of variables.
    Words {
        /// The words.
        words: Vec<String>,
        /// The texts.
        beside: Vec<String>,
    },
}

impl Started {
    /// Makes one of a text for the shell.
    pub fn text(name: &str, text: &str) -> Started {
        Started { name: name.to_owned(), what: What::Text(text.to_owned()) }
    }

    /// Returns every word that may name a file. The error names what cannot be read before it runs.
    pub fn words(&self, home: Option<&Path>) -> Result<Vec<String>, String> {
        let mut reader = Reader { home, found: Vec::new() };
        match &self.what {
            What::Text(text) => reader.text(text)?,
            What::Words { words, beside } => {
                reader.program(words)?;
                reader.found.extend(beside.iter().cloned());
            }
        }
        Ok(reader.found)
    }
}

struct Reader<'a> {
    home: Option<&'a Path>,
    found: Vec<String>,
}

impl Reader<'_> {
    fn text(&mut self, text: &str) -> Result<(), String> {
        let script = parse(text).map_err(|_| format!("`{text}`"))?;
        self.script(&script)
    }

    fn script(&mut self, script: &Script) -> Result<(), String> {
        for AndOr { first, rest } in &script.statements {
            for Pipeline { first, rest, .. } in std::iter::once(first).chain(rest.iter().map(|(_, next)| next)) {
                for command in std::iter::once(first).chain(rest.iter().map(|(_, next)| next)) {
                    self.command(command)?;
                }
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &Command) -> Result<(), String> {
        for redirection in &command.redirections {
            match redirection {
                Redirection::File { target, .. } | Redirection::OutputAndErrors { target, .. } => {
                    let target = self.literal(target)?;
                    self.found.push(target);
                }
                Redirection::HereDocument { body, .. } => {
                    if body.iter().any(|piece| !matches!(piece, Piece::Text(_))) {
                        return Err("an expansion in a here-document".to_owned());
                    }
                }
                Redirection::HereString { word, .. } => drop(self.literal(word)?),
                Redirection::Copy { .. } => {}
            }
        }
        match &command.kind {
            Kind::Simple(simple) => self.simple(simple),
            Kind::Subshell(script) | Kind::Group(script) => self.script(script),
            Kind::If { branches, otherwise } => {
                let inner = branches.iter().flat_map(|(condition, then)| [condition, then]).chain(otherwise);
                inner.into_iter().try_for_each(|script| self.script(script))
            }
            Kind::While { condition, body, .. } => self.script(condition).and_then(|()| self.script(body)),
            Kind::For { .. } | Kind::Case { .. } | Kind::Test(_) => Err("a loop or comparison over words".to_owned()),
        }
    }

    fn simple(&mut self, simple: &Simple) -> Result<(), String> {
        for (_, value) in &simple.assignments {
            let value = self.literal(value)?;
            self.found.push(value);
        }
        let words = simple.words.iter().map(|word| self.literal(word)).collect::<Result<Vec<String>, String>>()?;
        match words.first() {
            Some(name) if MOVES.contains(&name.as_str()) => Err(format!("`{name}`")),
            Some(_) | None => self.program(&words),
        }
    }

    /// Takes the words of a program, and reads the text that it gives a shell.
    fn program(&mut self, words: &[String]) -> Result<(), String> {
        for (at, word) in words.iter().enumerate() {
            let name = word.rsplit('/').next().unwrap_or(word);
            let options = words.iter().enumerate().skip(at + 1).take_while(|(_, option)| option.starts_with('-'));
            for (place, option) in options.filter(|_| reads_code(name)) {
                let is_module = name.starts_with("py") && option.starts_with("-m");
                if !is_module && !gives_code(&[Literal::literal(word), Literal::literal(option)]) {
                    continue;
                }
                return match words.get(place + 1) {
                    Some(text) if SHELLS.contains(&name) => self.text(text),
                    Some(_) | None => Err(format!("code in words (`{name} {option}`)")),
                };
            }
        }
        self.found.extend_from_slice(words);
        Ok(())
    }

    /// Returns the text of a word in which the shell expands nothing but the home at its beginning.
    fn literal(&self, word: &Word) -> Result<String, String> {
        let expands = || "a word with an expansion (`$`, `` ` ``, `*`, `?`, `[`, `{`, `~`)".to_owned();
        let mut text = String::new();
        for (at, part) in word.parts.iter().enumerate() {
            match part {
                Part::Quoted(quoted) => text.push_str(quoted),
                Part::Plain(plain) => {
                    let (before, rest) = match (plain.strip_prefix('~'), self.home) {
                        (Some(rest), Some(home)) if at == 0 && (rest.is_empty() || rest.starts_with('/')) => {
                            (home.display().to_string(), rest)
                        }
                        _ => (String::new(), plain.as_str()),
                    };
                    if rest.contains(['*', '?', '[', '~']) || rest.contains('{') && rest.contains(',') {
                        return Err(expands());
                    }
                    text.push_str(&before);
                    text.push_str(rest);
                }
                Part::Double(_)
                | Part::Parameter(_)
                | Part::Substitution(_)
                | Part::Process(_)
                | Part::Path(_)
                | Part::Text(_) => return Err(expands()),
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(text: &str) -> Result<Vec<String>, String> {
        Started::text("", text).words(Some(Path::new("/h/u")))
    }

    #[test]
    fn every_word_of_a_plain_command_is_read() {
        for (text, words) in [
            ("/usr/local/bin/x --flag", &["/usr/local/bin/x", "--flag"][..]),
            ("~/bin/notify.sh 'a b' > /tmp/log", &["/tmp/log", "/h/u/bin/notify.sh", "a b"]),
            ("~/../ws/tools/x.sh", &["/h/u/../ws/tools/x.sh"]),
            ("sh to\\ols/x.sh || true", &["sh", "tools/x.sh", "true"]),
            ("A=tools/x sh -c 'exec node tools/s.js' | cat", &["tools/x", "exec", "node", "tools/s.js", "cat"]),
        ] {
            assert_eq!(of_text(text).unwrap(), words, "{text}");
        }
    }

    #[test]
    fn what_the_shell_or_an_interpreter_makes_of_words_cannot_be_read() {
        for text in [
            "\"$QWEN_PROJECT_DIR\"/tools/x.sh",
            "${PWD}/tools/x.sh",
            "\"$(pwd)\"/tools/x.sh",
            "`pwd`/tools/x.sh",
            "sh tools/x.*",
            "sh ./t*/x.sh",
            "sh tools/{x,y}.sh",
            "~other/x.sh",
            "cd tools; ../x.sh",
            "eval 'sh tools/x.sh'",
            "sh -c 'exec node $PWD/tools/s.js'",
            "python3 -mtools.s",
            "python3 -c 'import s'",
            "node -e 'require(\"./s\")'",
            "for x in tools/*; do sh x; done",
            "sh <<END\n$PWD/x\nEND",
            "\"",
        ] {
            assert!(of_text(text).is_err(), "{text}");
        }
    }
}
