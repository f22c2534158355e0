//! Describes a change under review: what the model is shown of it, and what nobody looks at.

use std::collections::BTreeSet;

use serde::Serialize;

use super::findings::Finding;
use super::new_side::NewSide;

/// Files that are named at most.
const MOST: usize = 500;

/// A change under review.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Review {
    /// The lines that the model is shown.
    pub side: NewSide,
    /// Where git has the files as they are after the change: a revision, empty for the index; `None`: the work tree.
    pub right: Option<String>,
    /// What was found without a model.
    pub local: Vec<Finding>,
    /// What is looked at.
    pub coverage: Coverage,
    /// All files, in the order of git.
    pub files: Vec<Listed>,
    /// The files of each part that the model is still to be shown.
    pub waiting: Vec<Vec<NotLookedAt>>,
}

/// A file of a change as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Relative to the workspace where it is inside, else to the repository.
    pub path: String,
    /// git's letter.
    pub status: char,
    /// Lines added and removed, where git compares it by lines.
    pub lines: Option<(u64, u64)>,
    /// Why it is not shown.
    pub class: Option<Class>,
}

/// Files that a model is told of at most.
const MOST_LISTED: usize = 200;

impl Review {
    /// Counts a file; with a class it is not shown.
    pub fn count(&mut self, file: Listed) {
        self.coverage.count(&file.path, file.status, file.class);
        self.files.push(file);
    }

    /// Returns the list of all files for the conversation about this part.
    pub fn listing(&self, part: usize) -> String {
        let others = self.waiting.iter().enumerate().filter(|(other, _)| *other != part);
        let elsewhere: BTreeSet<&str> = others.flat_map(|(_, files)| files).map(|file| file.path.as_str()).collect();
        let here = self.waiting.get(part).into_iter().flatten();
        let here: BTreeSet<&str> = here.map(|file| file.path.as_str()).collect();
        let is_cut = |path: &str| self.coverage.cut.iter().any(|cut| cut.path == path);
        let line = |file: &Listed| {
            let Listed { path, status, lines, class } = file;
            let why = match class {
                Some(class) => class.name(),
                None if here.contains(path.as_str()) && is_cut(path) => "in part",
                None if here.contains(path.as_str()) => "",
                None if elsewhere.contains(path.as_str()) => "in another part",
                None => Class::NotReached.name(),
            };
            let lines = lines.map(|(added, removed)| format!(" +{added} -{removed}")).unwrap_or_default();
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            format!("{status} {}{lines}{why}\n", printable(path))
        };
        let lines: String = self.files.iter().take(MOST_LISTED).map(line).collect();
        let more = match self.files.len().saturating_sub(MOST_LISTED) {
            0 => String::new(),
            more => format!("and {more} more\n"),
        };
        format!(
            "\nAll files of the change; those that are not shown here belong to it and are not missing:\n{lines}{more}"
        )
    }

    /// Notes that the model has answered for the next part.
    pub fn part_is_done(&mut self) {
        self.coverage.parts_done += u64::from(!self.waiting.is_empty());
        self.waiting = std::mem::take(&mut self.waiting).into_iter().skip(1).collect();
    }

    /// Ends the review: parts without an answer were not looked at.
    pub fn end(&mut self) {
        self.coverage.not_reached(std::mem::take(&mut self.waiting).into_iter().flatten());
    }

    /// Adds another change that the same run looks at. Files are read from the work tree then.
    pub fn add(&mut self, other: Review) {
        self.side.extend(other.side);
        self.local.extend(other.local);
        self.coverage.add(other.coverage);
        self.files.extend(other.files);
        self.waiting.extend(other.waiting);
        if self.right != other.right {
            self.right = None;
        }
    }
}

/// Which files of a change the model is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Files of the change.
    pub files: u64,
    /// Files that the model is shown.
    pub looked_at: u64,
    /// Conversations that the change is divided into.
    pub parts: u64,
    /// Those that ended with an answer.
    pub parts_done: u64,
    /// The others, in the order of git.
    pub not_looked_at: Vec<NotLookedAt>,
    /// Files that the model is shown a part of.
    pub cut: Vec<Cut>,
    /// Others that are not named.
    pub more: u64,
    /// The model was shown all that a person would look at; set by [`Coverage::in_repository`].
    pub complete: bool,
}

/// A file that is too long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// Relative to the workspace.
    pub path: String,
    /// The lines that are changed and not shown, from the first to the last.
    pub lines: String,
}

/// A file that the model is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotLookedAt {
    /// Relative to the workspace where it is inside, else to the repository.
    pub path: String,
    /// git's letter.
    pub status: char,
    /// Why.
    pub class: Class,
}

/// Why a file is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It is outside of the workspace.
    Outside,
    /// The policy does not allow reading it.
    Denied,
    /// It is a link.
    Link,
    /// It is a submodule.
    Submodule,
    /// It is not a text.
    Binary,
    /// The recipe leaves it out.
    Excluded,
    /// A program writes it.
    Generated,
    /// It has not changed since an earlier run looked at it.
    Reviewed,
    /// The change is too large, or a limit ended the run before.
    NotReached,
}

impl Class {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Outside => "outside",
            Class::Denied => "denied",
            Class::Link => "link",
            Class::Submodule => "submodule",
            Class::Binary => "binary",
            Class::Excluded => "excluded",
            Class::Generated => "generated",
            Class::Reviewed => "reviewed before",
            Class::NotReached => "not reached",
        }
    }
}

impl Coverage {
    /// Counts a file; with a class it is not shown.
    pub fn count(&mut self, path: &str, status: char, class: Option<Class>) {
        self.files += 1;
        match class {
            None => self.looked_at += 1,
            Some(class) => self.leave_out(NotLookedAt { path: path.to_owned(), status, class }),
        }
    }

    fn leave_out(&mut self, file: NotLookedAt) {
        match self.not_looked_at.len() == MOST {
            true => self.more += 1,
            false => self.not_looked_at.push(file),
        }
    }

    /// Notes files that were counted as shown, and are not.
    pub fn not_reached(&mut self, files: impl IntoIterator<Item = NotLookedAt>) {
        for file in files {
            self.looked_at = self.looked_at.saturating_sub(1);
            self.leave_out(file);
        }
    }

    /// Tells whether the model was not shown something that a person would look at.
    pub fn is_incomplete(&self) -> bool {
        let counts = |file: &NotLookedAt| matches!(file.class, Class::Denied | Class::NotReached);
        !self.cut.is_empty() || self.not_looked_at.iter().any(counts)
    }

    /// Returns it with paths relative to the repository, for a workspace of this path in it.
    pub fn in_repository(&self, prefix: &str) -> Coverage {
        let mut coverage = Coverage { complete: !self.is_incomplete(), ..self.clone() };
        if !prefix.is_empty() {
            let inside = coverage.not_looked_at.iter_mut().filter(|file| file.class != Class::Outside);
            let paths = inside.map(|file| &mut file.path).chain(coverage.cut.iter_mut().map(|cut| &mut cut.path));
            paths.for_each(|path| *path = format!("{prefix}/{path}"));
        }
        coverage
    }

    /// Says in one line what was looked at.
    pub fn sentence(&self) -> String {
        let mut text = format!("looked at {} of {} files", self.looked_at, self.files);
        if !self.not_looked_at.is_empty() {
            let named = self.not_looked_at.iter().take(20);
            let named: Vec<String> =
                named.map(|file| format!("{} ({})", printable(&file.path), file.class.name())).collect();
            let rest = self.files.saturating_sub(self.looked_at + named.len() as u64);
            let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            text.push_str(&format!("; not looked at: {}{rest}", named.join(", ")));
        }
        if !self.cut.is_empty() {
            let named = self.cut.iter().take(20);
            let named: Vec<String> =
                named.map(|cut| format!("{} (not lines {})", printable(&cut.path), cut.lines)).collect();
            let rest = self.cut.len() - named.len();
            let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            text.push_str(&format!("; looked at in part: {}{rest}", named.join(", ")));
        }
        text
    }

    /// Adds what another input of the same run covers.
    pub fn add(&mut self, other: Coverage) {
        self.files += other.files;
        self.looked_at += other.looked_at;
        self.more += other.more;
        self.parts = self.parts.max(other.parts);
        self.cut.extend(other.cut);
        self.not_looked_at.extend(other.not_looked_at);
        self.more += self.not_looked_at.len().saturating_sub(MOST) as u64;
        self.not_looked_at.truncate(MOST);
    }
}

/// Keeps a name on its line.
fn printable(path: &str) -> String {
    path.chars().map(|c| if crate::hidden::is_foreign(c) || c == '\n' || c == '\r' { '\u{fffd}' } else { c }).collect()
}
