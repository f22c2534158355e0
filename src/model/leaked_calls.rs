//! Calls that a model wrote into its text.

/// Whether calls are looked for in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextTools {
    /// Never.
    Off,
    /// Where nothing else could be meant (wire.md 2.2).
    #[default]
    Auto,
    /// The tools stand in the prompt: fenced blocks that end the message count too.
    Prompted,
}
