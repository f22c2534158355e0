//! Pushes one commit to one branch of `origin`, by explicit name and expected old value.

use base64::Engine as _;

use crate::deliver::DeliverError;
use crate::git::{Git, more_configuration};
use crate::secret::Secret;

/// Who commits in CI.
pub(in crate::commands) const COMMITTER: (&str, &str) =
    ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com");

/// The trailer that names the tree of a commit of ours: a commit that somebody amended has another one.
pub(in crate::commands) const TREE: &str = "Qwen-Tree";

/// The most commits of a branch of ours.
const MOST_COMMITS: usize = 50;

/// The programs of the other side, so that none that the repository's configuration names is started in their place.
const UPLOAD: &str = "--upload-pack=git-upload-pack";
const RECEIVE: &str = "--receive-pack=git-receive-pack";

/// Where a commit goes.
pub(in crate::commands) struct Push<'a> {
    pub(in crate::commands) git: Git,
    /// Without `refs/heads/`.
    pub(in crate::commands) branch: &'a str,
    /// Branches that are never pushed to.
    pub(in crate::commands) kept: &'a [String],
    /// Commits that are not ours to judge: what the branch began from.
    pub(in crate::commands) below: &'a [String],
    /// For a server that the checkout has no credentials for.
    pub(in crate::commands) token: Option<&'a Secret>,
    /// `GITHUB_SERVER_URL`.
    pub(in crate::commands) server: Option<&'a str>,
}

impl Push<'_> {
    /// Returns what the branch is on the remote now: `None` if it is not there. A branch that people work on is
    /// refused, and so is one that the rest of the project rests on.
    pub(in crate::commands) fn look(&self) -> Result<Option<String>, DeliverError> {
        let reference = format!("refs/heads/{}", self.branch);
        self.check_name(&reference)?;
        let Some(tip) = self.tip(&reference)? else { return Ok(None) };
        let (git, failed) = (self.with_credentials(), unreadable);
        let depth = format!("--depth={}", MOST_COMMITS + 1);
        git.run(&["fetch", "--quiet", UPLOAD, "--no-tags", "--no-write-fetch-head", &depth, "origin", &tip], b"")
            .map_err(failed)?;
        let most = format!("--max-count={}", MOST_COMMITS + 1);
        let format = format!("--format=%cn%n%ce%n%T%n%h%n%(trailers:key={TREE},valueonly,separator=%x20)");
        let below: Vec<String> = self.below.iter().map(|commit| format!("^{commit}")).collect();
        let mut words = vec!["log", "-z", "--no-show-signature", &most, &format, "--end-of-options", &tip];
        words.extend(below.iter().map(String::as_str));
        let shown = git.line(&words, b"").map_err(failed)?;
        // One that is merged has no commit of its own any more: its last one decides.
        let alone = ["log", "-1", "-z", "--no-show-signature", &format, "--end-of-options", &tip];
        let shown = if shown.is_empty() { git.line(&alone, b"").map_err(failed)? } else { shown };
        let commits: Vec<&str> = shown.split('\0').filter(|commit| !commit.trim().is_empty()).collect();
        commits.iter().try_for_each(|commit| self.refuse_others(commit))?;
        match commits.len() > MOST_COMMITS {
            true => Err(self.not_ours("somebody", &tip[..tip.len().min(7)])),
            false => Ok(Some(tip)),
        }
    }

    /// Refuses a name that is none, and a branch that the rest of the project rests on.
    fn check_name(&self, reference: &str) -> Result<(), DeliverError> {
        let name = self.branch;
        let is_odd = name.starts_with('-') || name.starts_with("refs/") || name == "HEAD";
        if is_odd || self.git.run(&["check-ref-format", reference], b"").is_err() {
            return Err(DeliverError::conflict(
                format!("`{name}` is not a valid branch name"),
                "correct the input branch",
            ));
        }
        if self.kept.iter().any(|kept| kept.eq_ignore_ascii_case(name)) {
            return Err(DeliverError::denied(
                format!("{name} is a protected branch: the action never pushes to it"),
                "name another branch; a person merges its pull request",
            ));
        }
        Ok(())
    }

    /// Returns the last commit that the remote has of a branch.
    fn tip(&self, reference: &str) -> Result<Option<String>, DeliverError> {
        let git = self.with_credentials();
        let listed = git.line(&["ls-remote", "--refs", UPLOAD, "--", "origin", reference], b"").map_err(unreadable)?;
        Ok(listed.lines().find_map(|line| {
            let (tip, name) = line.split_once('\t')?;
            (name == reference).then(|| tip.to_owned())
        }))
    }

    /// Refuses a commit of the branch unless it is one of ours, as we made it. `shown` has a line each for committer,
    /// address, tree, short id, trailer.
    fn refuse_others(&self, shown: &str) -> Result<(), DeliverError> {
        let mut lines = shown.lines().map(str::trim);
        let mut next = || lines.next().unwrap_or_default();
        let (name, address, tree, id, trailer) = (next(), next(), next(), next(), next());
        if address == COMMITTER.1 && !tree.is_empty() && tree == trailer {
            return Ok(());
        }
        let name: String = name.chars().filter(|c| !crate::hidden::is_foreign(*c)).take(60).collect();
        Err(self.not_ours(&name, id))
    }

    fn not_ours(&self, name: &str, id: &str) -> DeliverError {
        DeliverError::conflict(
            format!("{} has work by {name} ({id}) and is not overwritten", self.branch),
            "merge it, delete the branch, or name another",
        )
    }

    /// Tells whether the branch has this very change already: an earlier delivery of the same run put it there.
    pub(in crate::commands) fn is_there(&self, tip: &str, commit: &str) -> bool {
        // The object itself: of a shallow one, `git log` does not know the parents.
        let of = |commit: &str| -> Option<String> {
            let object = self.git.line(&["cat-file", "commit", commit], b"").ok()?;
            let (head, message) = object.split_once("\n\n")?;
            let kept = head.lines().filter(|line| line.starts_with("tree ") || line.starts_with("parent "));
            Some(kept.chain([message]).collect::<Vec<_>>().join("\n"))
        };
        of(tip).is_some_and(|there| of(commit) == Some(there))
    }

    /// Returns the last commit of the branch if it is one of ours, as we made it, with this message. What it was made for
    /// does not matter, and may not be here.
    pub(in crate::commands) fn made_with(&self, message: &str) -> Result<Option<String>, DeliverError> {
        let Some(tip) = self.look_at_head()? else { return Ok(None) };
        let object = self.git.line(&["cat-file", "commit", &tip], b"").map_err(unreadable)?;
        let (head, said) = object.split_once("\n\n").unwrap_or((&object, ""));
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let is_ours = field("committer ").contains(&format!("<{}>", COMMITTER.1));
        let is_same = said.trim_end() == format!("{message}{TREE}: {}", field("tree "));
        Ok(Some(tip).filter(|_| is_ours && is_same))
    }

    /// Returns the last commit of a branch that is somebody's, with what is needed to compare it.
    pub(in crate::commands) fn look_at_head(&self) -> Result<Option<String>, DeliverError> {
        let reference = format!("refs/heads/{}", self.branch);
        self.check_name(&reference)?;
        let Some(tip) = self.tip(&reference)? else { return Ok(None) };
        let words = ["fetch", "--quiet", UPLOAD, "--no-tags", "--no-write-fetch-head", "--depth=2", "origin", &tip];
        self.with_credentials().run(&words, b"").map_err(unreadable)?;
        Ok(Some(tip))
    }

    /// Says that the branch is not as it was when the change was made.
    pub(in crate::commands) fn moved(&self) -> DeliverError {
        DeliverError::conflict(
            format!("{} has newer commits than the change was made for", self.branch),
            "run both jobs again",
        )
    }

    /// Pushes a commit, if the branch is still what [`Push::look`] saw.
    pub(in crate::commands) fn push(&self, commit: &str, expected: Option<&str>) -> Result<(), DeliverError> {
        let reference = format!("refs/heads/{}", self.branch);
        let lease = format!("--force-with-lease={reference}:{}", expected.unwrap_or_default());
        let refspec = format!("{commit}:{reference}");
        self.with_credentials()
            .run(
                &[
                    "push",
                    "--quiet",
                    RECEIVE,
                    "--no-verify",
                    "--no-follow-tags",
                    "--porcelain",
                    &lease,
                    "origin",
                    &refspec,
                ],
                b"",
            )
            .map(drop)
            .map_err(|error| {
                DeliverError::conflict(
                    format!("the push of {} was refused: {error}", self.branch),
                    "the branch may have moved: run again; or the job lacks `contents: write`",
                )
            })
    }

    /// Adds the token where the checkout brings no credentials for the server: in the environment of this git alone,
    /// never on a command line.
    fn with_credentials(&self) -> Git {
        let git = self.git.clone().with_long_patience();
        let (Some(token), Some(server)) = (self.token, self.server) else { return git };
        let key = format!("http.{}/.extraheader", server.trim_end_matches('/'));
        if !server.starts_with("https://") || self.git.run(&["config", "--get-all", &key], b"").is_ok() {
            return git;
        }
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{}", token.expose()));
        let header = format!("AUTHORIZATION: basic {basic}");
        more_configuration(&[(&key, &header)]).into_iter().fold(git, |git, (name, value)| git.env(name, value))
    }
}

fn unreadable(error: crate::git::GitError) -> DeliverError {
    DeliverError::conflict(
        format!("cannot read the branches of origin: {error}"),
        "check out with actions/checkout, and give the job `contents: write`",
    )
}
