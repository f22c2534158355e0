//! Reads single words.

/// Tells whether a word is one of the names: `test:*` stands for every name that begins so.
pub(crate) fn is_listed<'n>(names: impl IntoIterator<Item = &'n str>, word: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || ":_.-".contains(c);
    names.into_iter().any(|name| match name.strip_suffix('*') {
        Some(start) if start.len() > 2 => {
            word.strip_prefix(start).is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain))
        }
        _ => name == word,
    })
}

// Tells whether a part of a glob could be this name; an unsupported glob could be any.
pub(super) fn could_match(part: &str, name: &str) -> bool {
    let glob = globset::GlobBuilder::new(part).literal_separator(true).case_insensitive(true).build();
    glob.map_or(true, |glob| glob.compile_matcher().is_match(name))
}

/// Tells whether a word begins as an option does; negative numbers do not count.
pub(crate) fn begins_like_an_option(word: &str) -> bool {
    let rest = word.strip_prefix('-').unwrap_or_default();
    !rest.is_empty() && !rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Tells whether a letter means itself in a line of a shell; patterns expand there to names of files.
pub(crate) fn is_plain_in_shell(letter: char) -> bool {
    letter.is_alphanumeric() || "_-.,:/+@%=*?[]".contains(letter)
}
