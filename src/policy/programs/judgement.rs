//! Defines what the shell's judge asks about one simple command, and the answer.

use super::word::{Stdin, Word};
use crate::path::{RelPath, Tree};
use crate::policy::decision::{Denial, RuleRef};
use crate::policy::effect::Effect;
use crate::policy::grant::{Isolation, Network};

/// What one simple command would do, if it may run at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The allow rule that matched.
    pub rule: RuleRef,
    /// What it does to files; each is still to be judged by the path rules.
    pub effects: Vec<Effect>,
    /// Commands that it starts itself (`xargs`, `find -exec`, `env`, `timeout`): each is still to be judged.
    pub starts: Vec<Vec<Word>>,
    /// Programs of the workspace that it runs: they must be as they were when the run began.
    pub unchanged: Vec<RelPath>,
    /// Files among the effects that it only lays out anew.
    pub formatted: Vec<String>,
    /// The table says that it writes nothing, on disk or elsewhere.
    pub writes_nothing: bool,
    /// It is a git subcommand that writes `.git`.
    pub writes_git: bool,
    /// Its words do not tell all that it does: it builds, tests, fetches, or has no table. It gets the network that the
    /// policy gives to commands.
    pub open_ended: bool,
    /// What it needs of the machine before it may start.
    pub isolation: Isolation,
    /// Paths that are no effects: directories to work in, or to keep its own files in.
    pub directories: Vec<String>,
    /// The words to run in place of the given ones, where our printing adds some (`--sandbox` for sed, exclusions for
    /// git); `None`: run them as they are.
    pub printed: Option<Vec<Word>>,
}

/// The outcome of asking about one simple command.
pub type Judgement = Result<Judged, Denial>;

/// What the shell's judge asks about one simple command; the policy answers, or the stand-in of a test.
pub trait CommandRules: Sync {
    /// Judges one simple command: `words[0]` is the program as written (a bare name or a path), wrappers and builtins
    /// of the shell already dealt with. `folders` are the directories it may run in (more than one after a `cd` that
    /// may have failed): what is allowed must be allowed from each.
    fn judge(&self, words: &[Word], stdin: Stdin, folders: &[RelPath]) -> Judgement;

    /// Judges one effect on a path from each of the directories.
    fn check(&self, effect: &Effect, folders: &[RelPath]) -> Result<(), Denial>;

    /// Returns the denial of a deny rule that names this program, for wrappers (`timeout`, `env`), about which allow
    /// rules are not asked.
    fn denied(&self, words: &[Word]) -> Option<Denial>;

    /// Tells whether `NAME=value command` may set this variable to this value.
    fn may_set(&self, variable: &str, value: &str) -> bool;

    /// Returns what commands may reach at most (`network.shell`).
    fn network(&self) -> Network;

    /// Tells whether `shell.default` is `allow`.
    fn default_allows(&self) -> bool;

    /// Resolves a directory for `cd` from one directory: below the root, existing or not.
    fn enter(&self, folder: &RelPath, path: &str) -> Result<RelPath, Denial>;

    /// Returns the value of `$HOME`.
    fn home(&self) -> &str;

    /// Returns the absolute path of the workspace root.
    fn root(&self) -> &std::path::Path;

    /// Returns the files that glob expansion sees.
    fn tree(&self) -> &dyn Tree;
}
