//! Describes a change under review: what the model is shown of it, and what nobody looks at.

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
    /// The files of each part that the model is still to be shown.
    pub waiting: Vec<Vec<NotLookedAt>>,
}

impl Review {
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

    /// Tells whether a file was kept from the model by the policy.
    pub fn has_denied(&self) -> bool {
        self.not_looked_at.iter().any(|file| file.class == Class::Denied)
    }

    /// Tells whether the model was not shown something that a person would look at.
    pub fn is_incomplete(&self) -> bool {
        let counts = |file: &NotLookedAt| matches!(file.class, Class::Denied | Class::NotReached);
        !self.cut.is_empty() || self.not_looked_at.iter().any(counts)
    }

    /// Returns what the model is told of the files that it does not see; empty if it sees all. `others` are the files of
    /// other parts.
    pub fn listing(&self, others: &[&NotLookedAt]) -> String {
        if self.not_looked_at.is_empty() && others.is_empty() {
            return String::new();
        }
        let line = |file: &NotLookedAt, why: &str| format!("{} {} ({why})\n", file.status, printable(&file.path));
        let here = self.not_looked_at.iter().map(|file| line(file, file.class.name()));
        let lines: String = here.chain(others.iter().map(|file| line(file, "in another part"))).take(200).collect();
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
