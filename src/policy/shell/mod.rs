//! The subset of bash that is understood: text to tree and back, and words to what bash would make of them.
