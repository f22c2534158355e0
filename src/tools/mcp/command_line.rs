//! Splits the command line of `mcp.serverCommand` into words.

/// Why `mcp.serverCommand` is not a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    /// The last character quotes nothing.
    #[error("it ends with a backslash")]
    Backslash,
    /// A quote has no end.
    #[error("a quote is not closed")]
    OpenQuote,
    /// There are no words.
    #[error("the command is missing")]
    Missing,
}

/// Splits `mcp.serverCommand` at spaces; quotes keep a word together.
pub fn split_command(text: &str) -> Result<Vec<String>, CommandLineError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', Some('"') | None) => {
                let next = characters.next().ok_or(CommandLineError::Backslash)?;
                word.get_or_insert_default().push(next);
            }
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(CommandLineError::OpenQuote);
    }
    words.extend(word);
    if words.is_empty() { Err(CommandLineError::Missing) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_at_blanks_outside_of_quotes() {
        assert_eq!(split_command(r#"a "b c" d\ e '' 'f"g'"#).unwrap(), ["a", "b c", "d e", "", "f\"g"]);
        assert!(split_command("a 'b").is_err() && split_command("  ").is_err() && split_command("a\\").is_err());
    }
}
