//! Matches globs against paths of the workspace; denies compare case-folded names.

use globset::{GlobBuilder, GlobMatcher};
use unicode_normalization::UnicodeNormalization;

use crate::hidden::is_ignorable;

/// A glob relative to the workspace. `**` also matches names that begin with a dot; `dir/**` is everything below `dir`.
#[derive(Debug, Clone)]
pub(crate) struct Glob {
    text: String,
    exact: GlobMatcher,
    folded: GlobMatcher,
}

impl PartialEq for Glob {
    fn eq(&self, other: &Glob) -> bool {
        self.text == other.text
    }
}

impl Glob {
    /// Compiles a glob; the error says what is wrong with it.
    pub(crate) fn new(text: &str) -> Result<Glob, String> {
        if text.is_empty() || text.starts_with('/') || text.split('/').any(|part| part == ".." || part == ".") {
            return Err(format!("`{text}`: globs are relative to the workspace, without `.` and `..`"));
        }
        // A trailing slash means the directory; its contents are `dir/**`.
        let plain = text.trim_end_matches('/');
        let compile = |text: &str| {
            let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
            glob.map(|glob| glob.compile_matcher()).map_err(|error| format!("`{text}` is not a glob: {}", error.kind()))
        };
        let folded = composed(plain).to_lowercase();
        Ok(Glob { text: text.to_owned(), exact: compile(plain)?, folded: compile(&folded)? })
    }

    /// The glob as written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Matches letter by letter, for allows.
    pub(crate) fn is_match(&self, path: &str) -> bool {
        self.exact.is_match(path)
    }

    /// Matches a path that [`fold`] made, for denies. What is below a match matches too.
    pub(crate) fn covers_folded(&self, folded: &str) -> bool {
        prefixes(folded).any(|prefix| self.folded.is_match(prefix))
    }
}

fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

/// NFKC, without ignorable code points.
fn composed(text: &str) -> String {
    text.nfkc().filter(|c| !is_ignorable(*c)).collect()
}

/// Folds the letters of a text.
fn fold_letters(text: &str) -> String {
    // Nearly every name of nearly every tree: nothing composes there, and nothing is ignorable.
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // A second time: folding the case can give letters that NFKC composes.
    composed(&composed(text).to_lowercase())
}

/// Folds one name: case, NFKC, ignorable code points, trailing dots and spaces, `GIT~1`, `name::$DATA`.
pub(crate) fn fold_name(name: &str) -> String {
    let mut folded = fold_letters(name);
    if let Some(stream) = folded.find(':') {
        let rest = &folded[stream..];
        if stream > 0 && (rest.starts_with("::$") || rest.contains(":$")) {
            folded.truncate(stream);
        }
    }
    let trimmed = folded.trim_end_matches(|c: char| c == '.' || c.is_whitespace()).len();
    if trimmed > 0 {
        folded.truncate(trimmed);
    }
    if folded == "git~1" { ".git".to_owned() } else { folded }
}

/// Folds each component of a path.
pub(crate) fn fold(path: &str) -> String {
    let mut folded = String::with_capacity(path.len());
    for (index, name) in path.split('/').enumerate() {
        if index > 0 {
            folded.push('/');
        }
        folded.push_str(&fold_name(name));
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn letters_of_ascii_fold_as_all_others(text in "[ -~\\t]{0,20}") {
            proptest::prop_assert_eq!(fold_letters(&text), composed(&composed(&text).to_lowercase()));
        }
    }

    #[test]
    fn a_folder_glob_matches_what_is_below_and_not_the_folder() {
        let glob = Glob::new("src/**").unwrap();
        assert!(glob.is_match("src/a") && glob.is_match("src/.hidden/b"));
        assert!(!glob.is_match("src") && !glob.is_match("SRC/a") && !glob.is_match("src2/a"));
        assert!(Glob::new("**").unwrap().is_match(".env"));
        assert!(Glob::new("*.md").unwrap().is_match("README.md"));
        assert!(!Glob::new("*.md").unwrap().is_match("docs/a.md"));
        assert!(Glob::new("/etc/**").is_err() && Glob::new("../x").is_err() && Glob::new("a[").is_err());
    }

    #[test]
    fn denies_see_through_spelling() {
        for name in [".env", ".ENV", ".env ", ".env.", ".env. .", ".e\u{200b}nv", "．env", ".ｅnv", ".env::$DATA"] {
            assert_eq!(fold_name(name), ".env", "{name:?}");
        }
        assert_eq!(fold_name("GIT~1"), ".git");
        assert_eq!(fold_name(".environment"), ".environment");
        assert!(Glob::new("Private/**").unwrap().covers_folded(&fold("PRIVATE/x")));
        assert!(Glob::new("deploy").unwrap().covers_folded("deploy/x"));
    }
}
