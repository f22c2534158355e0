//! Defines what was overlooked to find a match.

/// The greatest difference that was ignored to find a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Nothing.
    Exact,
    /// Line ends, and a byte order mark.
    LineEnds,
    /// Typographic quotes, dashes and spaces, invisible characters, and how accents are composed.
    LookAlikes,
    /// Spaces at the ends of lines.
    TrailingBlanks,
    /// How lines are indented.
    Indentation,
    /// Spaces anywhere in a line.
    Blanks,
    /// Numbers before the lines.
    LineNumbers,
    /// A Markdown fence around the text.
    Fence,
    /// Empty lines at the ends.
    BlankEnds,
    /// Escapes and entities, such as `\n`, `\"` and `&lt;`, typed out.
    OverEscaped,
}

impl Stage {
    /// Returns what was overlooked, for the model; `None` if nothing was.
    pub fn overlooked(self) -> Option<&'static str> {
        match self {
            Stage::Exact => None,
            Stage::LineEnds => Some("line ends"),
            Stage::LookAlikes => Some("look-alike characters (quotes, dashes, blanks)"),
            Stage::TrailingBlanks => Some("blanks at the ends of lines"),
            Stage::Indentation => Some("indentation; new_string was indented as the file is"),
            Stage::Blanks => Some("blanks; new_string was indented as the file is"),
            Stage::LineNumbers => Some("line numbers, which were taken off"),
            Stage::Fence => Some("a Markdown fence, which was taken off"),
            Stage::BlankEnds => Some("empty lines at its ends"),
            Stage::OverEscaped => Some("escapes that were typed out"),
        }
    }
}
