//! Judges sed: its options, and what its scripts write, read or run.

use super::Word;
use super::table::{Call, Operands, TABLE, Table};
use crate::policy::decision::Denial;

pub(crate) const SED: Table = Table {
    names: "sed gsed",
    options: "-n,--quiet,--silent --debug -e,--expression=D !-f,--file=R -E,--regexp-extended -r --follow-symlinks -i,--in-place=?D -l,--line-length=D \
        --posix -s,--separate --sandbox -u,--unbuffered -z,--null-data --help --version --binary -b",
    operands: Operands::Special,
    special: Some(sed),
    ..TABLE
};

fn sed(call: &mut Call<'_>) -> Result<(), Denial> {
    // Only under `shell.default: allow`: the script's file is read like any script.
    let files = call.values("-f");
    if files.iter().any(|file| file.text == "-" || file.text.starts_with("/dev/") || !file.literal) {
        return Err(Denial::unanalysable("sed: a script from its standard input").by("G3"));
    }
    let mut operands = std::mem::take(&mut call.operands);
    let mut scripts: Vec<Word> = call.values("-e");
    if scripts.is_empty() && files.is_empty() {
        if operands.is_empty() {
            return Err(call.deny("the script is missing"));
        }
        scripts.push(operands.remove(0));
    }
    if scripts.iter().any(|script| !script.literal) {
        return Err(call.deny("its script is not known"));
    }
    // Several scripts are joined by newlines, so that one may continue the text of another.
    let script = scripts.iter().map(|script| script.text.as_str()).collect::<Vec<_>>().join("\n");
    let files = read(&script).map_err(|what| call.deny(what))?;
    for (file, kind) in files {
        if !call.is_open() {
            return Err(call.deny(format!("the command `{kind}` reads or writes the file `{file}`")));
        }
        match kind {
            'w' | 'W' => call.write(&Word::literal(file)),
            _ => call.read(&Word::literal(file)),
        }
    }
    let in_place = call.found.iter().find(|found| found.name == "-i").cloned();
    for word in &operands {
        call.read(word);
        if let Some(in_place) = &in_place {
            if !word.literal {
                return Err(call.deny("the files to change are not known"));
            }
            call.write(word);
            if let Some(suffix) = in_place.value.as_ref().filter(|suffix| !suffix.text.is_empty()) {
                call.write(&Word::literal(backup(&word.text, &suffix.text)));
            }
        }
    }
    if in_place.is_some() && operands.is_empty() {
        return Err(call.deny("`-i` without a file"));
    }
    let has_files = script_has_files(&script);
    if !call.has("--sandbox") && !has_files && !call.is_open() {
        let mut printed = call.words.to_vec();
        printed.insert(1, Word::literal("--sandbox"));
        call.out.printed = Some(printed);
    }
    call.operands = operands;
    Ok(())
}

// The name under which `-iSUFFIX` keeps a file as it was.
fn backup(file: &str, suffix: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let backup = if suffix.contains('*') { suffix.replace('*', name) } else { format!("{name}{suffix}") };
    if backup.contains('/') || folder.is_empty() { backup } else { format!("{folder}/{backup}") }
}

fn script_has_files(script: &str) -> bool {
    read(script).map_or(true, |files| !files.is_empty())
}

/// Reads a script; returns the files that it names with the command that does, or says what runs programs or is not
/// understood.
pub(crate) fn read(script: &str) -> Result<Vec<(String, char)>, String> {
    let mut reader = Reader::new(script, true);
    reader.script()?;
    // Older versions let a delimiter inside brackets end the pattern: what that reading finds counts as well. If it
    // does not parse there, sed ends before it has done anything.
    let mut older = Reader::new(script, false);
    match older.script() {
        Err(what) if what.contains("runs a program") => return Err(what),
        Err(_) => {}
        Ok(()) => reader.files.extend(older.files),
    }
    reader.files.sort();
    reader.files.dedup();
    Ok(reader.files)
}

struct Reader {
    text: Vec<char>,
    at: usize,
    files: Vec<(String, char)>,
    /// A delimiter inside brackets is a letter.
    brackets: bool,
}

impl Reader {
    fn new(script: &str, brackets: bool) -> Reader {
        Reader { text: script.chars().collect(), at: 0, files: Vec::new(), brackets }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|c| c == ' ' || c == '\t') {
            self.at += 1;
        }
    }

    fn script(&mut self) -> Result<(), String> {
        loop {
            while self.peek().is_some_and(|c| c.is_whitespace() || c == ';') {
                self.at += 1;
            }
            if self.peek().is_none() {
                return Ok(());
            }
            self.command()?;
        }
    }

    fn command(&mut self) -> Result<(), String> {
        self.address()?;
        self.blanks();
        while self.peek() == Some('!') {
            self.at += 1;
            self.blanks();
        }
        let Some(command) = self.next() else { return Err("an address without a command".to_owned()) };
        match command {
            '{' => Ok(()),
            '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => self.end(),
            '#' => {
                self.line();
                Ok(())
            }
            'a' | 'i' | 'c' => {
                self.appended();
                Ok(())
            }
            ':' | 'b' | 't' | 'T' => self.label(),
            'q' | 'Q' | 'l' | 'L' => {
                self.blanks();
                while self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    self.at += 1;
                }
                self.end()
            }
            's' => self.substitute(),
            'y' => {
                let delimiter = self.delimiter()?;
                self.until(delimiter, false)?;
                self.until(delimiter, false)?;
                self.end()
            }
            'r' | 'R' | 'w' | 'W' => {
                self.blanks();
                let file = self.line();
                if file.is_empty() {
                    return Err(format!("`{command}` without a file"));
                }
                self.files.push((file, command));
                Ok(())
            }
            'e' => Err("the command `e` runs a program".to_owned()),
            'v' => self.version(),
            other => Err(format!("`{other}` is not a command of sed that is known")),
        }
    }

    fn label(&mut self) -> Result<(), String> {
        self.blanks();
        // GNU ends a label of `b` at `;` and one of `:` at a space; either way a label holds no command.
        while self.peek().is_some_and(|c| !c.is_whitespace() && c != ';' && c != '}') {
            self.at += 1;
        }
        self.blanks();
        match self.peek() {
            None | Some('\n' | ';' | '}') => Ok(()),
            Some(other) => Err(format!("`{other}` after a label")),
        }
    }

    // The next command may be after the version, on the same line.
    fn version(&mut self) -> Result<(), String> {
        self.blanks();
        while self.peek().is_some_and(|c| !c.is_whitespace() && c != ';') {
            if self.next() == Some('}') {
                return Err("a brace in the version of `v`".to_owned());
            }
        }
        Ok(())
    }

    fn address(&mut self) -> Result<(), String> {
        if !self.one_address()? {
            return Ok(());
        }
        self.blanks();
        if self.peek() == Some(',') {
            self.at += 1;
            self.blanks();
            if self.peek().is_some_and(|c| c == '+' || c == '~') {
                self.at += 1;
            }
            if !self.one_address()? {
                return Err("half of an address".to_owned());
            }
        }
        Ok(())
    }

    fn one_address(&mut self) -> Result<bool, String> {
        match self.peek() {
            Some(c) if c.is_ascii_digit() => {
                while self.peek().is_some_and(|c| c.is_ascii_digit() || c == '~') {
                    self.at += 1;
                }
                Ok(true)
            }
            Some('$') => {
                self.at += 1;
                Ok(true)
            }
            Some('/') => {
                self.at += 1;
                self.until('/', true)?;
                self.regex_flags();
                Ok(true)
            }
            Some('\\') => {
                self.at += 1;
                let delimiter = self.delimiter()?;
                self.until(delimiter, true)?;
                self.regex_flags();
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn regex_flags(&mut self) {
        while self.peek().is_some_and(|c| c == 'I' || c == 'M') {
            self.at += 1;
        }
    }

    fn delimiter(&mut self) -> Result<char, String> {
        match self.next() {
            Some(c) if c != '\n' && c != '\\' => Ok(c),
            _ => Err("a pattern without a delimiter".to_owned()),
        }
    }

    // To the next delimiter that neither a backslash nor, in a pattern, brackets hide.
    fn until(&mut self, delimiter: char, regex: bool) -> Result<(), String> {
        while let Some(c) = self.next() {
            if c == '\\' {
                self.next();
            } else if c == '[' && delimiter != '[' && regex && self.brackets {
                self.bracket()?;
            } else if c == delimiter {
                return Ok(());
            }
        }
        Err(format!("a pattern without its end `{delimiter}`"))
    }

    fn bracket(&mut self) -> Result<(), String> {
        if self.peek() == Some('^') {
            self.at += 1;
        }
        if self.peek() == Some(']') {
            self.at += 1;
        }
        while let Some(c) = self.next() {
            if c == ']' {
                return Ok(());
            }
            if c == '[' && self.peek().is_some_and(|c| ":.=".contains(c)) {
                let kind = self.next();
                while let Some(c) = self.next() {
                    if Some(c) == kind && self.peek() == Some(']') {
                        self.at += 1;
                        break;
                    }
                }
            }
        }
        Err("brackets without their end".to_owned())
    }

    fn substitute(&mut self) -> Result<(), String> {
        let delimiter = self.delimiter()?;
        self.until(delimiter, true)?;
        self.until(delimiter, false)?;
        loop {
            match self.peek() {
                Some('g' | 'p' | 'i' | 'I' | 'm' | 'M') => self.at += 1,
                Some(c) if c.is_ascii_digit() => self.at += 1,
                Some('e') => return Err("the flag `e` of `s` runs a program".to_owned()),
                Some('w') => {
                    self.at += 1;
                    self.blanks();
                    let file = self.line();
                    self.files.push((file, 'w'));
                    return Ok(());
                }
                _ => return self.end(),
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        while let Some(c) = self.next() {
            if c == '\n' {
                break;
            }
            line.push(c);
        }
        line
    }

    // Text of `a`, `i`, `c`: to the end of a line that no backslash continues.
    fn appended(&mut self) {
        while let Some(c) = self.next() {
            if c == '\\' {
                self.next();
            } else if c == '\n' {
                return;
            }
        }
    }

    fn end(&mut self) -> Result<(), String> {
        self.blanks();
        match self.peek() {
            None | Some('\n' | ';' | '}' | '#') => Ok(()),
            Some(other) => Err(format!("`{other}` where a command ends")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn harmless_scripts_are_read_whole() {
        for script in [
            "s/a/b/",
            "s/a/b/g;p",
            "1,5p",
            "/x/,/y/d",
            "$!N;P;D",
            "s|w|e|2p",
            "/^$/d",
            "y/abc/xyz/",
            "5q",
            "2,+3!d",
            "a\\\ne id",
            "/a/{p;d}",
            ":a;N;$!ba;s/\\n/ /g",
            "s/[/]/x/;p",
            "0~3p",
            "s/e/w/",
            "/e/I,/w/p",
            "1!G;h;$!d",
            "s/\\(.*\\)/\\1/p",
            "i hello",
            "\\,x,p",
            "l 5",
        ] {
            assert_eq!(read(script), Ok(Vec::new()), "{script}");
        }
    }

    #[test]
    fn what_runs_or_names_files_is_found() {
        for script in [
            "e id",
            "1e id",
            "s/a/b/e",
            "s/a/b/ge",
            "/x/e",
            "{e id\n}",
            "1!e",
            "s,a,b,e",
            "p;e",
            "p\ne id",
            "}e",
            "s/[/]/e/",
            "v 4 e id",
            "1v 4.2 s/a/b/e",
        ] {
            assert!(read(script).is_err(), "{script}");
        }
        for script in [
            "w out",
            "r .env",
            "s/a/b/w out",
            "W x",
            "R x",
            "1{w x\n}",
            "$r /etc/passwd",
            "s/a/b/gpw /dev/stdout",
            "v 1 r .env",
            "v 4 w x",
        ] {
            assert_eq!(read(script).map(|files| files.len()), Ok(1), "{script}");
        }
    }
}
