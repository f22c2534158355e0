//! Judges words for a program of the project, of which nobody knows how it reads them: what looks like a path must be one
//! that may be read.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Word;
use super::pattern::widened;
use super::table::Call;
use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::names::named;
use crate::policy::protected::braces;

/// Options of test runners whose value is the name of a test or a group of tests.
const TAKE_NAMES: &str = "--grep --grep-invert --testNamePattern --test-name-pattern";

/// The same, and options that mean a tag to some.
const TAKE_TAGS: &str = "-t --tag --tags -g --grep --grep-invert --testNamePattern --test-name-pattern --group --exclude-group --exclude-tag --exclude-tags";

/// Options of bundlers whose value is the path in an address under which the result will be.
const TAKE_ADDRESSES: &str =
    "--base --base-href --baseHref --basePath --base-path --public-path --publicPath --deploy-url --deployUrl";

/// Directories at the top of a system, and those in which services check out repositories: whatever else begins with a slash
/// may be the path in an address.
const SYSTEM: &str = "Users Volumes __w bin boot builds data dev etc github home lib lib64 media mnt opt private proc root run \
    runner sbin srv sys tmp usr var work workspace workspaces";

/// Schemes of addresses behind which is a file of this machine.
const ON_DISK: &str = "blob data db dir duckdb file fs glob ipc jar leveldb local node npipe phar php rocksdb sqlite sqlite2 sqlite3 \
    tar unix zip zlib";

/// With what the number of a letter begins.
const MARKS_OF_LETTERS: [char; 2] = ['\\', '%'];

/// Tells whether a word is an address of something that is not on this machine's disk.
fn is_web(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let mut parts = scheme.split(['+', '-', '.']);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && (rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "[:_".contains(c)))
        && !parts.any(|part| named(ON_DISK, &part.to_ascii_lowercase()))
}

/// Tells whether a program that expands paths itself would take this one for another.
pub(super) fn is_expanded(path: &str) -> bool {
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '{';
    path.starts_with('~') || path.strip_prefix('$').is_some_and(|name| name.starts_with(begins))
}

impl Call<'_> {
    /// Words for a program of the project. After an option that takes a tag, `@NAME` is one; a rule of eslint is judged as
    /// where eslint is called by its name.
    pub(super) fn all_passed(&mut self, words: &[Word]) -> Result<(), Denial> {
        let apart = words.windows(2).filter(|pair| pair[0].text == "--rule").map(|pair| pair[1].text.as_str());
        let rules: Vec<&str> = words.iter().filter_map(|word| word.text.strip_prefix("--rule=")).chain(apart).collect();
        super::build::eslint_rules(self, &rules)?;
        super::build::refuse_shell_text(self, words)?;
        let mut before = "";
        for word in words {
            let plain =
                |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            // `@smoke and not (@slow or @wip)`
            let is_tags = |text: &str| {
                let mut words =
                    text.split(|c: char| c.is_whitespace() || "()".contains(c)).filter(|word| !word.is_empty());
                let is_one = |word: &str| {
                    matches!(word, "and" | "or" | "not")
                        || word.trim_start_matches('~').strip_prefix('@').is_some_and(plain)
                };
                words.all(is_one)
            };
            let is_tag = || named(TAKE_TAGS, before) && is_tags(&word.text);
            // The name of a test may begin as a path does; no file has a name with a blank that is looked for by accident.
            let has_blank = named(TAKE_TAGS, before) && word.text.contains(' ');
            let attached = word.text.split_once('=').filter(|(name, _)| named(TAKE_NAMES, name));
            let name =
                attached.map(|(_, value)| value).or_else(|| named(TAKE_NAMES, before).then_some(word.text.as_str()));
            let is_name = || {
                name.is_some_and(|name| name.starts_with('/'))
                    || has_blank && (word.text.starts_with('/') || word.text.contains('='))
            };
            let address = address_of(before, &word.text).filter(|_| word.literal && !self.is_open());
            if let Some(address) = address {
                self.text_of_path(address);
            } else if !(word.literal && (is_tag() || is_name())) {
                self.passed(word)?;
                if name.is_none() && !has_blank {
                    self.globs(&word.text)?;
                    if word.text.contains(MARKS_OF_LETTERS) {
                        self.globs(&unescaped(&word.text))?;
                    }
                }
            }
            before = if word.literal { &word.text } else { "" };
        }
        Ok(())
    }

    /// A word for a program of the project.
    pub(crate) fn passed(&mut self, word: &Word) -> Result<(), Denial> {
        if !word.literal {
            return Err(self.deny("a word of it is not known"));
        }
        if self.is_open() {
            return Ok(());
        }
        let value = value_of(&word.text);
        let names_list = value.strip_prefix('@').is_some_and(|name| self.is_file(name));
        if word.text.len() > 1 && word.text.starts_with('@') || names_list {
            let denial = self.deny(format!("`{}` may stand for the words in a file", word.text));
            return Err(denial.hint("write the words themselves"));
        }
        let is_sentence = value.contains(char::is_whitespace) && !value.starts_with(['{', '[']);
        let parts = value.split(|c| !is_sentence && ",:;=|<>\"'()[]{}".contains(c));
        let leads = |part: &str| part.starts_with('~') || part.contains('/') || part == "$HOME" || part == "${HOME}";
        if let Some(path) = parts.into_iter().find(|part| is_expanded(part) && leads(part)) {
            return Err(self.expanded(path));
        }
        self.looks_at(&word.text);
        Ok(())
    }

    // What a word may be a pattern of: programs differ on the marks, on what is between patterns, and on who expands them.
    fn globs(&mut self, text: &str) -> Result<(), Denial> {
        const MARKS: [char; 6] = ['*', '?', '[', '{', '(', '\\'];
        const MOST: usize = 32;
        // No path is longer.
        const LONGEST: usize = 4096;
        if self.is_open() || leaves_out(text) {
            return Ok(());
        }
        // To some, brackets are around a list.
        let listed = text.split(|c| "[](){},\"'".contains(c)).map(before_address);
        let names = listed.flat_map(|part| part.split([':', '=', ';', '|']));
        let behind = |name: &str| name.split(['@', '<', '>']).skip(1).any(|part| part.contains(char::is_alphanumeric));
        for name in names {
            self.text_of_path(name);
            if behind(name) {
                name.split(['@', '<', '>']).for_each(|part| self.text_of_path(part));
            }
        }
        if !text.contains(MARKS) {
            return Ok(());
        }
        let many = || self.deny("too many patterns in one word").hint("name the files");
        let spread = braces(&without_ranges(text)).ok_or_else(many)?;
        let mut found = BTreeSet::new();
        for part in spread.iter().flat_map(|text| text.split([',', '"', '\''])).map(before_address) {
            // What is behind the letter of an option may be its value.
            let option = part.strip_prefix('-').filter(|option| !option.starts_with('-')).unwrap_or_default();
            let marked = [option.find(MARKS), option.find(['.', '/', '~'])].into_iter().flatten();
            let glued = (1..4).chain(marked).filter_map(|at| option.get(at..));
            let parts = part.split([':', '=', ';', '|']).chain([part]).chain(glued);
            found.extend(parts.map(widened).filter(|glob| !glob.is_empty()));
        }
        let (globs, names): (Vec<_>, Vec<_>) = found.into_iter().partition(|glob| glob.contains(MARKS));
        if globs.len() > MOST || globs.iter().any(|glob| glob.len() > LONGEST) {
            return Err(many());
        }
        names.iter().for_each(|name| self.text_of_path(name));
        globs.iter().try_for_each(|glob| self.pattern(glob, false, false))
    }

    /// Refuses a path that the program may expand; the shell did not, as it is in quotes or behind an option.
    pub(super) fn expanded(&self, path: &str) -> Denial {
        let denial = self.deny(format!("`{path}` may be expanded to a path outside the workspace"));
        denial.hint("write the path without `~` and `$`")
    }

    /// Notes a word that looks like a path, or the part of an option that does, as a file that is read.
    pub(super) fn looks_at(&mut self, text: &str) {
        let value = value_of(text);
        if value.chars().any(char::is_control) {
            return;
        }
        let leads = value.contains('/') || value.trim_start().starts_with(['.', '~']) || self.is_file(value);
        let value = if leads { value.trim() } else { value };
        let mut paths: Vec<&str> = Some(value).filter(|value| leads && !value.contains("://")).into_iter().collect();
        // What is behind the letter of an option may be its value.
        let glued = text.strip_prefix('-').and_then(|option| option.get(1..)).filter(|name| self.is_file(name));
        paths.extend(glued.filter(|_| value.is_empty()));
        // A list of files, or the address of one; what has a blank is a sentence, and what is left out is not read.
        let leaves_out = leaves_out(text);
        let is_list = !leaves_out && !value.contains(char::is_whitespace);
        let parts = value.split(',').filter(|_| is_list).flat_map(|part| before_address(part).split(':'));
        let leads_out = |part: &&str| part.starts_with(['/', '~']) || part.starts_with("..") || self.is_file(part);
        paths.extend(parts.filter(|part| *part != value && *part != ".git").filter(leads_out));
        let reads: Vec<Effect> = paths.into_iter().map(|path| Effect::Read(path.to_owned())).collect();
        self.out.effects.extend(reads);
        if !leaves_out && !self.is_open() {
            self.looks_into(value);
        }
    }

    // What is given to a name (`NAME=FILE`), in each part of a list, and the texts in JSON.
    fn looks_into(&mut self, value: &str) {
        for part in std::iter::once(value).chain(value.split([',', ':'])) {
            for given in given_to_names(part) {
                let leads = given.contains('/') || given.starts_with(['.', '~']) || self.is_file(given);
                if leads && !is_web(given) {
                    self.out.effects.push(Effect::Read(given.to_owned()));
                }
            }
        }
        for text in std::iter::once(value).chain(given_to_names(value)) {
            match serde_json::from_str::<Value>(text) {
                Ok(json) => self.texts_in(&json),
                // Looser kinds of JSON have the same texts.
                Err(_) if text.starts_with(['{', '[', '"']) => {
                    text.split(['"', '\'']).for_each(|part| self.text_of_path(part));
                }
                Err(_) => {}
            }
        }
    }

    fn texts_in(&mut self, json: &Value) {
        match json {
            Value::String(text) => self.text_of_path(text),
            Value::Array(items) => items.iter().for_each(|item| self.texts_in(item)),
            Value::Object(fields) => fields.values().for_each(|item| self.texts_in(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    // Of a text that may as well be the path in an address, what leads to something here, or would, is read.
    fn text_of_path(&mut self, text: &str) {
        let parts = text.split(',').flat_map(|part| before_address(part).split([':', '=']));
        for path in std::iter::once(text).chain(parts) {
            if path.split('/').any(|part| part == "..") || self.is_of_system(path) || self.is_file(path) {
                self.out.effects.push(Effect::Read(path.to_owned()));
            }
        }
    }

    // Whether a path begins with a directory at the top of a system, or of this machine.
    fn is_of_system(&self, path: &str) -> bool {
        let top = path.split('/').find(|part| !part.is_empty()).filter(|_| path.starts_with('/'));
        top.is_some_and(|top| named(SYSTEM, top) || matches!(self.node(&format!("/{top}")), Ok(Some(_))))
    }

    // Whether a bare word is the name of a file, or of one that would never be read.
    fn is_file(&self, word: &str) -> bool {
        !word.is_empty() && (self.is_unread(word) || matches!(self.node(word), Ok(Some(_))))
    }

    // Whether it is the name of a file that may not be read.
    fn is_unread(&self, word: &str) -> bool {
        let denied =
            |folder: &RelPath| folder.join(word).is_some_and(|path| self.cx.paths.read_denied(&path, word).is_some());
        !word.is_empty() && self.cx.folders.iter().any(denied)
    }
}

// The value of an option that takes the path in an address, in its own word or in the next.
fn address_of<'w>(before: &str, word: &'w str) -> Option<&'w str> {
    let attached = word.split_once('=').filter(|(name, _)| named(TAKE_ADDRESSES, name)).map(|(_, value)| value);
    attached.or_else(|| named(TAKE_ADDRESSES, before).then_some(word)).filter(|value| value.starts_with('/'))
}

// With a mark for any text in place of each `{a..c}`.
fn without_ranges(text: &str) -> String {
    let mut parts = text.split('{');
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}').filter(|(range, _)| range.contains("..") && !range.contains([',', '"'])) {
            Some((_, behind)) => without.extend(["*", behind]),
            None => without.extend(["{", part]),
        }
    }
    without
}

// A text without the marks by which JSON, code and addresses write letters (`\u002e`, `\x2e`, `\056`, `\/`, `%2e`), also in a
// text in the text.
fn unescaped(text: &str) -> String {
    const DEPTH: usize = 8;
    (0..DEPTH).fold(text.to_owned(), |text, _| unescaped_once(&text))
}

fn unescaped_once(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(MARKS_OF_LETTERS) {
        let (before, mark) = rest.split_at(at);
        let is_percent = mark.starts_with('%');
        let behind = &mark[1..];
        plain += before;
        let (digits, radix) = match behind.chars().next() {
            _ if is_percent => (behind.get(..2), 16),
            Some('u') if behind.starts_with("u{") => (behind.find('}').and_then(|end| behind.get(2..end)), 16),
            Some('u') => (behind.get(1..5), 16),
            Some('x') => (behind.get(1..3), 16),
            Some('0'..='3') => (behind.get(..3), 8),
            _ => (None, 16),
        };
        let letter = digits.and_then(|digits| char::from_u32(u32::from_str_radix(digits, radix).ok()?));
        plain.extend(letter.or(is_percent.then_some('%')));
        rest = match digits.filter(|_| letter.is_some()) {
            Some(digits) => behind[behind.find(digits).unwrap_or(0) + digits.len()..].trim_start_matches('}'),
            None => behind,
        };
    }
    plain + rest
}

// A part of a word, up to an address in it.
fn before_address(part: &str) -> &str {
    let Some(at) = part.find("://") else { return part };
    let scheme = part[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    if is_web(&part[at - scheme.len()..]) { &part[..at - scheme.len()] } else { part }
}

// What is given to a name, as in `NAME=VALUE`.
fn given_to_name(text: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let (name, value) = text.split_once('=')?;
    (!name.is_empty() && name.chars().all(plain)).then_some(value)
}

// What is behind each `NAME=` at the beginning of a text: values may be pairs again, but not without end.
fn given_to_names(text: &str) -> impl Iterator<Item = &str> {
    const MOST: usize = 32;
    std::iter::successors(given_to_name(text), |value| given_to_name(value)).take(MOST)
}

// The part of a word that may be a path: all of it, or what is behind the name of an option.
fn value_of(text: &str) -> &str {
    match text.strip_prefix('-') {
        None => text,
        Some(option) => match option.split_once('=') {
            Some((_, value)) => value,
            None => option.find(['/', '.', '~']).map_or("", |at| &option[at..]),
        },
    }
}

// Whether an option names what is not taken in, by its own name; not one that reads such a list from a file.
fn leaves_out(text: &str) -> bool {
    let Some((name, _)) = text.split_once('=').filter(|(name, _)| name.starts_with('-')) else { return false };
    let name = name.to_ascii_lowercase();
    !name.starts_with("--no-")
        && ["ignore", "exclude"].iter().any(|no| name.contains(no))
        && !["from", "file", "path"].iter().any(|end| name.ends_with(end))
}
