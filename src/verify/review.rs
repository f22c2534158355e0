//! Describes a change under review: what the model is shown of it, and what nobody looks at.

use serde::Serialize;

use super::findings::{Finding, NewSide};

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
}

impl Review {
    /// Adds another change that the same run looks at. Files are read from the work tree then.
    pub fn add(&mut self, other: Review) {
        self.side.extend(other.side);
        self.local.extend(other.local);
        self.coverage.add(other.coverage);
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
    /// The others, in the order of git.
    pub not_looked_at: Vec<NotLookedAt>,
    /// Others that are not named.
    pub more: u64,
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
        }
    }
}

impl Coverage {
    /// Counts a file; with a class it is not shown.
    pub fn count(&mut self, path: &str, status: char, class: Option<Class>) {
        self.files += 1;
        match class {
            None => self.looked_at += 1,
            Some(_) if self.not_looked_at.len() == MOST => self.more += 1,
            Some(class) => self.not_looked_at.push(NotLookedAt { path: path.to_owned(), status, class }),
        }
    }

    /// Tells whether a file was kept from the model by the policy.
    pub fn has_denied(&self) -> bool {
        self.not_looked_at.iter().any(|file| file.class == Class::Denied)
    }

    /// Returns what the model is told of the files that it does not see; empty if it sees all.
    pub fn listing(&self) -> String {
        if self.not_looked_at.is_empty() {
            return String::new();
        }
        let lines = self.not_looked_at.iter().take(200);
        let lines: String =
            lines.map(|file| format!("{} {} ({})\n", file.status, printable(&file.path), file.class.name())).collect();
        format!("\nFiles of the change that are not shown here; they are not missing:\n{lines}")
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
        text
    }

    /// Adds what another input of the same run covers.
    pub fn add(&mut self, other: Coverage) {
        self.files += other.files;
        self.looked_at += other.looked_at;
        self.more += other.more;
        self.not_looked_at.extend(other.not_looked_at);
        self.more += self.not_looked_at.len().saturating_sub(MOST) as u64;
        self.not_looked_at.truncate(MOST);
    }
}

/// Keeps a name on its line.
fn printable(path: &str) -> String {
    path.chars().map(|c| if crate::hidden::is_foreign(c) || c == '\n' || c == '\r' { '\u{fffd}' } else { c }).collect()
}
