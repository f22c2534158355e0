//! Standard input.
