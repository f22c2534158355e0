//! Builds the prompt from its possible sources.
//!
//! Performs no I/O: the caller passes in what it read, and reads the paths that the prompt names under the policy.

use super::run::InputArgs;

/// Where the prompt is to be read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source<'a> {
    /// Nothing was typed: standard input alone, or a recipe.
    None,
    /// Typed: `@path` in it means a file.
    Typed(String),
    /// A file of this name; its text is taken as it stands.
    File(&'a std::path::Path),
    /// Standard input is the prompt.
    StandardInput,
}

impl InputArgs {
    /// Returns where the prompt comes from.
    pub fn source(&self) -> Source<'_> {
        if let Some(text) = &self.prompt {
            return Source::Typed(text.clone());
        }
        match (self.prompt_file.as_deref(), self.words.as_slice()) {
            (Some(path), _) if path.as_os_str() == "-" => Source::StandardInput,
            (Some(path), _) => Source::File(path),
            (None, [word]) if word == "-" => Source::StandardInput,
            (None, []) => Source::None,
            (None, words) => Source::Typed(words.join(" ")),
        }
    }

    /// Returns the explicit readers of standard input; two of them are a usage error.
    ///
    /// `params` are the values of `--param`, `params_file` that of `--params-file`.
    pub fn readers_of_standard_input(
        &self,
        params: &[String],
        params_file: Option<&std::path::Path>,
    ) -> Vec<&'static str> {
        let mut readers = Vec::new();
        if self.prompt_file.as_deref().is_some_and(|path| path.as_os_str() == "-") {
            readers.push("--prompt-file -");
        } else if self.source() == Source::StandardInput {
            readers.push("PROMPT -");
        }
        readers.extend(self.files.iter().filter(|file| *file == "-").map(|_| "--file -"));
        readers.extend(params.iter().filter(|param| param.ends_with("=-")).map(|_| "--param K=-"));
        if params_file.is_some_and(|path| path.as_os_str() == "-") {
            readers.push("--params-file -");
        }
        readers
    }
}

/// A prompt in pieces, in the order in which the model sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// What stood on standard input or in a file: text as it stands.
    pub read: Option<String>,
    /// What was typed.
    pub typed: Vec<PromptPart>,
}

/// A piece of typed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptPart {
    /// Text.
    Text(String),
    /// `@path`: a file, a folder, a glob, or `server:uri`.
    Path {
        /// What stands behind the `@`, quotes and backslashes resolved.
        path: String,
        /// The whole as it was typed, for the case that no such path exists.
        spelled: String,
    },
}

impl Prompt {
    /// Puts a prompt together: what was read comes first, then what was typed.
    ///
    /// Returns `None` if nothing but blanks came from anywhere.
    pub fn new(standard_input: Option<String>, file: Option<String>, typed: Option<&str>) -> Option<Prompt> {
        let read: Vec<String> =
            [standard_input, file].into_iter().flatten().filter(|text| !text.trim().is_empty()).collect();
        let typed = typed.map(pieces).unwrap_or_default();
        let has_typed = typed.iter().any(|piece| match piece {
            PromptPart::Text(text) => !text.trim().is_empty(),
            PromptPart::Path { .. } => true,
        });
        if read.is_empty() && !has_typed {
            return None;
        }
        Some(Prompt {
            read: (!read.is_empty()).then(|| read.join("\n\n")),
            typed: if has_typed { typed } else { Vec::new() },
        })
    }

    /// Returns the paths that the prompt names, in order.
    #[cfg(test)]
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.typed.iter().filter_map(|piece| match piece {
            PromptPart::Path { path, .. } => Some(path.as_str()),
            PromptPart::Text(_) => None,
        })
    }

    /// Returns what was typed, paths as they were typed.
    pub fn typed_text(&self) -> String {
        self.typed
            .iter()
            .map(|piece| match piece {
                PromptPart::Text(text) => text.as_str(),
                PromptPart::Path { spelled, .. } => spelled.as_str(),
            })
            .collect()
    }

    /// Returns the prompt as text, paths as they were typed.
    #[cfg(test)]
    pub fn text(&self) -> String {
        let typed = self.typed_text();
        match (&self.read, typed.is_empty()) {
            (Some(read), true) => read.clone(),
            (Some(read), false) => format!("{}\n\n{typed}", read.trim_end_matches('\n')),
            (None, _) => typed,
        }
    }
}

/// Splits typed text into text and `@path`.
///
/// `@` counts where a word begins (or behind an opening bracket or quote), so that addresses stay text; `\@` is a
/// literal. The path ends at a blank; `\ ` and quotes (`@"a b"`) keep one in it. Punctuation that ends a sentence and
/// brackets that were opened before the path are not part of it.
pub fn pieces(text: &str) -> Vec<PromptPart> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\\@") {
            literal.push('@');
            before = Some('@');
            rest = after;
            continue;
        }
        let begins_word = before.is_none_or(|c: char| c.is_whitespace() || "([{<\"'`,;".contains(c));
        if c == '@'
            && begins_word
            && let Some((path, length)) = path_at(&rest[1..])
        {
            if !literal.is_empty() {
                pieces.push(PromptPart::Text(std::mem::take(&mut literal)));
            }
            let (spelled, after) = rest.split_at(1 + length);
            pieces.push(PromptPart::Path { path, spelled: spelled.to_owned() });
            before = spelled.chars().next_back();
            rest = after;
            continue;
        }
        literal.push(c);
        before = Some(c);
        rest = &rest[c.len_utf8()..];
    }
    if !literal.is_empty() {
        pieces.push(PromptPart::Text(literal));
    }
    pieces
}

/// Reads a path; returns it and how many bytes it takes.
fn path_at(text: &str) -> Option<(String, usize)> {
    if let Some(quote @ ('"' | '\'')) = text.chars().next() {
        let end = text[1..].find(quote)?;
        let path = &text[1..=end];
        return (!path.is_empty() && !path.contains('\n')).then(|| (path.to_owned(), end + 2));
    }
    let mut end = 0;
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        if c.is_whitespace() || c.is_control() || (c == ',' && text[at + 1..].starts_with('@')) {
            break;
        }
        end = at + c.len_utf8();
        if c == '\\'
            && let Some((at, escaped)) = characters.next()
        {
            end = at + escaped.len_utf8();
        }
    }
    let mut path = &text[..end];
    loop {
        let last = path.chars().next_back()?;
        let stem = &path[..path.len() - last.len_utf8()];
        let unopened =
            |open: char, close: char| last == close && stem.matches(open).count() <= stem.matches(close).count();
        // `.`, `..` and `dir/..` are paths; a dot behind anything else ends a sentence.
        let is_dots = stem.is_empty() || stem == "." || stem.ends_with("/.") || stem.ends_with('/');
        let ends_sentence = ",;:!?".contains(last) || (last == '.' && !is_dots) || "\"'`>".contains(last);
        if stem.ends_with('\\') || !(ends_sentence || unopened('(', ')') || unopened('[', ']') || unopened('{', '}')) {
            break;
        }
        path = stem;
    }
    let mut resolved = String::with_capacity(path.len());
    let mut characters = path.chars();
    while let Some(c) = characters.next() {
        match (c, characters.clone().next()) {
            // Only what the splitting gave a meaning is unescaped: a glob keeps its `\*`.
            ('\\', Some(next)) if next.is_whitespace() || "@\\,\"'".contains(next) => {
                resolved.push(next);
                characters.next();
            }
            _ => resolved.push(c),
        }
    }
    Some((resolved, path.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths(text: &str) -> Vec<String> {
        pieces(text)
            .into_iter()
            .filter_map(|piece| match piece {
                PromptPart::Path { path, .. } => Some(path),
                PromptPart::Text(_) => None,
            })
            .collect()
    }

    #[test]
    fn a_path_is_what_stands_behind_an_at_sign_that_begins_a_word() {
        for (text, expected) in [
            ("read @src/lib.rs please", vec!["src/lib.rs"]),
            ("@a @b", vec!["a", "b"]),
            ("mail me@example.com", vec![]),
            ("a literal \\@src", vec![]),
            ("see @README.md.", vec!["README.md"]),
            ("(see @src/a.rs), @b!", vec!["src/a.rs", "b"]),
            ("@src/**/*.{ts,tsx}", vec!["src/**/*.{ts,tsx}"]),
            ("@my\\ file.txt now", vec!["my file.txt"]),
            ("@\"my file.txt\" now", vec!["my file.txt"]),
            ("@. and @.. and @../x", vec![".", "..", "../x"]),
            ("@ alone, @, @.", vec!["."]),
            ("@a,@b", vec!["a", "b"]),
            ("`@a`", vec!["a"]),
            ("@server:res://x/y", vec!["server:res://x/y"]),
            ("@\"unclosed", vec![]),
        ] {
            assert_eq!(paths(text), expected, "{text:?}");
        }
        assert_eq!(pieces("x \\@y"), [PromptPart::Text("x @y".into())]);
    }

    #[test]
    fn standard_input_comes_before_the_prompt_and_names_no_paths() {
        let prompt = Prompt::new(Some("@piped\n".into()), None, Some("look at @b")).unwrap();
        assert_eq!(prompt.text(), "@piped\n\nlook at @b");
        assert_eq!(prompt.paths().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn blanks_are_no_prompt() {
        assert_eq!(Prompt::new(Some("\n".into()), None, Some("  ")), None);
        assert_eq!(Prompt::new(None, None, None), None);
        assert_eq!(Prompt::new(Some("x".into()), None, Some(" ")).unwrap().text(), "x");
    }

    #[test]
    fn explicit_readers_of_standard_input_are_counted() {
        let input = InputArgs { prompt_file: Some("-".into()), ..InputArgs::default() };
        assert_eq!(input.source(), Source::StandardInput);
        assert_eq!(input.readers_of_standard_input(&["k=-".into()], None), ["--prompt-file -", "--param K=-"]);
        let input = InputArgs { words: vec!["-".into()], ..InputArgs::default() };
        assert_eq!(input.readers_of_standard_input(&[], None), ["PROMPT -"]);
    }

    proptest! {
        #[test]
        fn splitting_loses_no_text(text in "[a-c@\\\\ .,()\"'\n\u{e4}]*") {
            let joined: String = pieces(&text)
                .into_iter()
                .map(|piece| match piece {
                    PromptPart::Text(text) => text,
                    PromptPart::Path { spelled, .. } => spelled,
                })
                .collect();
            // Only the backslash of a literal goes; inside a path it stays as it was typed.
            prop_assert_eq!(joined.replace('\\', ""), text.replace('\\', ""));
        }
    }
}
