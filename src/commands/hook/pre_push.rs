//! Runs `qwen hook pre-push` on the commits that the remote does not have yet.

use std::io::{IsTerminal as _, Write};
use std::time::{Duration, Instant};

use super::super::check::{commits, local, tag};
use super::asked::{HookRequest, Line, given, of_git, report, skipped};
use super::error::HookError;
use crate::cli::hook::HookMode;
use crate::cli::input::{CAP, FIRST_BYTE, ProcessInput, read_standard_input};
use crate::cli::run::FromHook;
use crate::exit::Exit;
use crate::git::Git;
use crate::git::trusted::TrustedTree;
use crate::policy::Policy;
use crate::recipe::file::DiffKind;
use crate::run::Failure;
use crate::run::recipe::RecipeContext;
use crate::settings::Environment;

/// A review reads more than a check of what is staged.
const BUDGET: Duration = Duration::from_secs(120);

/// Maximum ranges that are reviewed.
const MOST: usize = 8;

/// One reference that is pushed, as git says it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Update {
    local: String,
    /// `None`: the remote has no such reference yet, or nobody says what it has.
    remote: Option<String>,
}

pub(super) async fn run(
    asked: &HookRequest<'_>,
    remote: Option<&str>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let started = Instant::now();
    let git = asked.repository().git();
    let environment = asked.environment;
    let remote =
        given(remote).or_else(|| environment.value("PRE_COMMIT_REMOTE_NAME")).unwrap_or_else(|| "origin".to_owned());
    let updates = pushed(environment).await?;
    let mode = asked.mode()?;
    let mut ranges: Vec<Range> = Vec::new();
    for update in &updates {
        if let Some(range) = range(&git, update, &remote)
            && !ranges.contains(&range)
        {
            ranges.push(range);
        }
    }
    let budget = asked.common.max_wall_time.unwrap_or(BUDGET);
    let policy = asked.place.policy(None, false, environment)?.policy;
    let mut lines = in_tags(asked, &policy, &updates, started + budget, err)?;
    lines.extend(local_lines(asked, &policy, (&ranges, &remote), started + budget, err)?);
    if mode == HookMode::Local || lines.iter().any(|line| line.blocks) {
        let exit = report(lines, environment, out)?;
        if exit != Exit::Ok {
            let _closed =
                writeln!(err, "qwen: the commits were not reviewed; take it out of them, or QWEN_HOOK=0 git push");
        }
        return Ok(if mode == HookMode::Advise { Exit::Ok } else { exit });
    }
    let head = asked.repository().head.clone();
    let names = params(asked)?;
    let mut exit = Exit::Ok;
    let reviewed: Vec<(String, String)> = ranges.into_iter().filter_map(Range::reviewed).collect();
    if reviewed.len() > MOST {
        let reason = format!("{} branches are pushed, and {MOST} of them are reviewed", reviewed.len());
        exit = exit.or_worse(skipped(asked.common, asked.what, err, &reason)?);
    }
    for (base, tip) in reviewed.into_iter().take(MOST) {
        if Some(&tip) != head.as_ref() && !names.iter().any(|name| name == "head") {
            let reason = format!("{} is not checked out, and the recipe has no parameter `head`", short(&tip));
            exit = exit.or_worse(skipped(asked.common, asked.what, err, &reason)?);
            continue;
        }
        let given = [("base", &base), ("head", &tip)];
        let params: Vec<String> = given
            .into_iter()
            .filter(|(name, _)| names.iter().any(|known| known == name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let left = budget.saturating_sub(started.elapsed());
        let from_hook = FromHook { revision: Some(tip), ..asked.facts() };
        let reply = asked.ask("review-diff", &params, from_hook, left).await?;
        exit = exit.or_worse(asked.judge(reply, mode, out, err)?);
    }
    Ok(exit)
}

/// Looks for secrets in tags that are pushed.
fn in_tags(
    asked: &HookRequest<'_>,
    policy: &Policy,
    updates: &[Update],
    until: Instant,
    err: &mut dyn Write,
) -> Result<Vec<Line>, Failure> {
    let git = asked.repository().git();
    let kind = |object: &str| git.line(&["cat-file", "-t", object], b"").unwrap_or_default();
    let mut lines = Vec::new();
    for Update { local, .. } in updates.iter().filter(|update| !matches!(&*kind(&update.local), "commit" | "")) {
        let (found, unsearched) = tag((asked.place, policy, asked.environment), local, until)?;
        lines.extend(found.iter().map(Line::of));
        if let Some(reason) = unsearched {
            skipped(asked.common, asked.what, err, &reason)?;
        }
    }
    Ok(lines)
}

/// Looks for what no model is needed for, in the commits themselves as well: a key that one adds and the next one removes is
/// sent, too.
fn local_lines(
    asked: &HookRequest<'_>,
    policy: &Policy,
    (ranges, remote): (&[Range], &str),
    until: Instant,
    err: &mut dyn Write,
) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for range in ranges {
        let from_hook = FromHook { revision: Some(range.tip.clone()), ..asked.facts() };
        let mut found = Vec::new();
        if let Some((base, tip)) = range.clone().reviewed() {
            let change = format!("{base}..{tip}");
            let kind = (DiffKind::Range, Some(change.as_str()));
            found = local(asked.place, policy, asked.environment, kind, Some(&from_hook))?.findings;
        }
        let of = (asked.place, policy, asked.environment);
        let (in_commits, left) = commits(of, (range.base.as_deref(), Some(remote), &range.tip), until, &found)?;
        if left > 0 {
            let left = crate::emit::words::count(left as u64, "commit");
            let reason = format!("there was no time to search {left} before {} for secrets", short(&range.tip));
            skipped(asked.common, asked.what, err, &reason)?;
        }
        lines.extend(found.iter().chain(&in_commits).map(Line::of));
    }
    Ok(lines)
}

/// Returns what is pushed, as git or pre-commit says it.
async fn pushed(environment: &Environment) -> Result<Vec<Update>, HookError> {
    Ok(if environment.value("PRE_COMMIT").is_some() && environment.value("PRE_COMMIT_REMOTE_NAME").is_some() {
        // pre-commit has read standard input itself; for a new branch it says only where that branch is.
        let local = ["PRE_COMMIT_TO_REF", "PRE_COMMIT_LOCAL_BRANCH"].iter().find_map(|name| environment.value(name));
        vec![Update {
            local: local.unwrap_or_else(|| "HEAD".to_owned()),
            remote: environment.value("PRE_COMMIT_FROM_REF"),
        }]
    } else if std::io::stdin().is_terminal() {
        Vec::new()
    } else {
        let read = read_standard_input(ProcessInput::open(), CAP, FIRST_BYTE).await;
        updates(&read.map_err(HookError::StandardInput)?.text)
    })
}

/// Returns the names of the recipe's parameters.
fn params(asked: &HookRequest<'_>) -> Result<Vec<String>, Failure> {
    let repository = asked.repository();
    let tree = match &repository.head {
        Some(head) => Some(TrustedTree::find(&repository.top, head, "HEAD").map_err(|error| of_git(&error))?),
        None => None,
    };
    let trusted = asked.place.trusted(asked.environment)?;
    let surroundings = RecipeContext {
        environment: asked.environment,
        top: &repository.top,
        root: asked.place.workspace.root(),
        repository: Some(repository),
        trusted: &trusted,
        state: None,
        tree: tree.as_ref(),
    };
    let recipe = surroundings.find(asked.common.recipe.as_deref().unwrap_or("review-diff"))?;
    Ok(recipe.params().into_keys().collect())
}

/// Reads `LOCAL-REF LOCAL-OBJECT REMOTE-REF REMOTE-OBJECT` lines; a deletion pushes nothing.
fn updates(text: &str) -> Vec<Update> {
    let is_zero = |object: &str| object.bytes().all(|byte| byte == b'0');
    let is_object = |object: &str| matches!(object.len(), 40 | 64) && object.bytes().all(|b| b.is_ascii_hexdigit());
    text.lines()
        .filter_map(|line| {
            let [_, local, _, remote] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
            if !is_object(local) || !is_object(remote) || is_zero(local) {
                return None;
            }
            Some(Update { local: local.to_owned(), remote: (!is_zero(remote)).then(|| remote.to_owned()) })
        })
        .collect()
}

/// Commits that are new to the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    /// The commit that they begin behind; `None` where the remote has nothing of them.
    base: Option<String>,
    /// Their root, where they have no base.
    root: Option<String>,
    tip: String,
}

impl Range {
    /// Returns the two ends that are compared. Nothing comes before a root.
    fn reviewed(self) -> Option<(String, String)> {
        let base = self.base.or(self.root)?;
        (base != self.tip).then_some((base, self.tip))
    }
}

/// Finds the commits that are new to the remote: since its version, else since the one commit where they leave its branches,
/// else since its default branch, else all.
/// `None` if there are none, or if the object is not a commit.
fn range(git: &Git, update: &Update, remote: &str) -> Option<Range> {
    let commit = |revision: &str| {
        let revision = format!("{revision}^{{commit}}");
        git.line(&["rev-parse", "-q", "--verify", "--end-of-options", &revision], b"").ok()
    };
    let tip = commit(&update.local)?;
    let merge_base = |other: &str| git.line(&["merge-base", other, &tip], b"").ok().filter(|base| !base.is_empty());
    // What was force-pushed away may be unknown here.
    let since_remote = update.remote.as_deref().and_then(commit).and_then(|known| merge_base(&known));
    let default_branch = || {
        ["HEAD", "main", "master"]
            .iter()
            .filter_map(|name| commit(&format!("refs/remotes/{remote}/{name}")))
            .find_map(|known| merge_base(&known))
    };
    // A branch may have begun at any of the remote's.
    let boundary = || {
        let known = format!("--remotes={remote}");
        let words = ["rev-list", "--boundary", "--not", &known, "--not", "--end-of-options", &tip];
        let listed = String::from_utf8(git.run(&words, b"").ok()?).ok()?;
        let mut begins = listed.lines().filter_map(|line| line.strip_prefix('-'));
        begins.next().filter(|_| begins.next().is_none()).map(str::to_owned)
    };
    let root = || {
        let roots = git.line(&["rev-list", "--max-parents=0", &tip], b"").ok()?;
        roots.lines().last().map(str::to_owned)
    };
    let base = since_remote.or_else(boundary).or_else(default_branch);
    let root = if base.is_none() { root() } else { None };
    (base.as_ref() != Some(&tip)).then_some(Range { base, root, tip })
}

fn short(object: &str) -> &str {
    object.get(..12).unwrap_or(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_pushes_nothing_and_a_new_branch_has_no_past() {
        let (a, b, zero) = ("a".repeat(40), "b".repeat(64), "0".repeat(40));
        let text = format!(
            "refs/heads/x {a} refs/heads/x {b}\n(delete) {zero} refs/heads/y {a}\nrefs/heads/new {b} refs/heads/new {zero}\n\
             nonsense\nrefs/heads/x HEAD refs/heads/x {a}\n"
        );
        assert_eq!(updates(&text), [Update { local: a, remote: Some(b.clone()) }, Update { local: b, remote: None }]);
        assert!(updates("").is_empty());
    }
}
