//! Toolchains under the real home: found, given by variable, readable, without their credentials.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::path::Tree;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// Variables by which programs find them.
    pub variables: BTreeMap<String, OsString>,
    /// Folders and files that may be read.
    pub read: Vec<PathBuf>,
}

/// Finds them.
pub fn find(_environment: &BTreeMap<OsString, OsString>, _disk: &dyn Tree) -> Toolchains {
    Toolchains::default()
}
