//! Runs `qwen hook pre-push` on the commits that the remote does not have yet.

use std::io::{IsTerminal as _, Write};
use std::time::{Duration, Instant};

use super::asked::{HookRequest, given, of_git, skipped};
use super::error::HookError;
use crate::cli::hook::HookMode;
use crate::cli::input::{CAP, FIRST_BYTE, ProcessInput, read_standard_input};
use crate::cli::run::FromHook;
use crate::exit::Exit;
use crate::git::Git;
use crate::git::trusted::TrustedTree;
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
    let mut ranges: Vec<(String, String)> = Vec::new();
    for update in &updates {
        if let Some(range) = range(&git, update, &remote)
            && !ranges.contains(&range)
        {
            ranges.push(range);
        }
    }
    let head = asked.repository().head.clone();
    let names = params(asked)?;
    let budget = asked.common.max_wall_time.unwrap_or(BUDGET);
    let mut exit = Exit::Ok;
    for (base, tip) in ranges.into_iter().take(MOST) {
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
        exit = exit.or_worse(asked.judge(reply, HookMode::Block, out, err)?);
    }
    Ok(exit)
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

/// Finds the commits that are new to the remote: since its version, else since the remote's default branch, else since
/// their root. `None` if there are none, or if the object is not a commit.
fn range(git: &Git, update: &Update, remote: &str) -> Option<(String, String)> {
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
    let root = || {
        let roots = git.line(&["rev-list", "--max-parents=0", &tip], b"").ok()?;
        roots.lines().last().map(str::to_owned)
    };
    let base = since_remote.or_else(default_branch).or_else(root)?;
    (base != tip).then_some((base, tip))
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
