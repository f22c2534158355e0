//! Finds what commands left in ignored files and directories. It is not part of the changes; it is written back only if
//! the operator asks for it (`workspace: in-place`).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::Arc;

use super::common::LONGEST;
use crate::path::RelPath;
use crate::workspace::ignore::{Kind, Level, Source};

/// An ignored file or link that is not as it was before the first command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Output {
    /// Its path.
    pub path: RelPath,
    /// Whether it is gone.
    pub is_gone: bool,
}

/// Which files count: existing ones by the current rules, deleted ones by the earlier rules.
pub(super) struct Rules {
    sources: Arc<(Source, Source)>,
    pub(super) now: Arc<Level>,
    pub(super) before: Arc<Level>,
}

impl Rules {
    pub(super) fn new(now: &Source, before: &Source) -> Rules {
        Rules { now: Level::root(now), before: Level::root(before), sources: Arc::new((now.clone(), before.clone())) }
    }

    pub(super) fn enter(&self, folder: &RelPath) -> Rules {
        let (now, before) = &*self.sources;
        Rules {
            sources: Arc::clone(&self.sources),
            now: self.now.enter(now, folder),
            before: self.before.enter(before, folder),
        }
    }

    /// Tells whether a name is ignored, and was.
    pub(super) fn ignore(&self, name: &OsStr, kind: Kind) -> bool {
        self.now.child(name, kind).git && self.before.child(name, kind).git
    }
}

/// The rules that hold in a directory; `None` in one that is ignored with everything below.
pub(super) struct Held(Option<Rules>);

impl Held {
    pub(super) fn new(rules: Rules) -> Held {
        Held(Some(rules))
    }

    pub(super) fn enter(&self, name: &OsStr, path: &RelPath) -> Held {
        Held(self.0.as_ref().filter(|rules| !rules.ignore(name, Kind::Folder)).map(|rules| rules.enter(path)))
    }

    pub(super) fn ignores(&self, name: &OsStr) -> bool {
        self.0.as_ref().is_none_or(|rules| rules.ignore(name, Kind::File))
    }
}

/// What was found so far.
pub(super) struct Search<'a> {
    /// Tells whether a file is part of the changes, or would be if it were changed.
    is_part: &'a dyn Fn(&RelPath) -> bool,
    pub(super) found: BTreeSet<Output>,
}

impl<'a> Search<'a> {
    pub(super) fn new(is_part: &'a dyn Fn(&RelPath) -> bool) -> Search<'a> {
        Search { is_part, found: BTreeSet::new() }
    }

    pub(super) fn note(&mut self, path: RelPath, is_gone: bool) {
        if path.as_bytes().len() <= LONGEST && !(self.is_part)(&path) {
            self.found.insert(Output { path, is_gone });
        }
    }
}
