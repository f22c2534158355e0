//! JSON arguments that are not quite JSON.
