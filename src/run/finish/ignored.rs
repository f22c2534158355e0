//! What commands left in ignored files and directories, judged before it is delivered with the change
//! (`sandbox.workspace: in-place`).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::change::{Change, ChangeSet, Entry, Kind};
use crate::deliver::{Outputs, gate};
use crate::path::RelPath;
use crate::policy::Policy;
use crate::policy::{ChangeFacts, Facts};
use crate::workspace::Workspace;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::tree::{CommandTree, Output, WhyLeftOut};

use crate::run::error::DeliveryError;

/// How many refused files a warning names.
const NAMED: usize = 5;

/// By whose rules ignored files are delivered.
pub(super) struct Rules<'a> {
    pub(super) policy: &'a Policy,
    pub(super) facts: &'a Facts,
}

/// Returns what may be delivered of the tree, and a warning that names what may not.
pub(super) fn outputs<'t>(
    tree: &'t CommandTree,
    changes: &ChangeSet,
    rules: &Rules<'_>,
) -> Result<(Outputs<'t>, Option<String>), DeliveryError> {
    let io = |error: std::io::Error| DeliveryError::Ignored(error.to_string());
    let root = &rules.facts.root;
    let project = Folder::root(root).map_err(io)?;
    let mut refused: Vec<(RelPath, String)> = Vec::new();
    let mut kept: Vec<(Output, Change)> = Vec::new();
    for output in tree.ignored_outputs(changes).map_err(io)? {
        match change_of(tree, &project, &output).map_err(io)? {
            Ok(change) => kept.push((output, change)),
            Err(reason) => refused.push((output.path, reason.to_owned())),
        }
    }
    // What is refused changes where links lead, and what stands in the way.
    loop {
        let mut after = changes.clone();
        for (output, change) in &kept {
            after.stage(output.path.clone(), || change.before.clone(), change.after.clone());
        }
        let view =
            Workspace::with_changes(root, after.clone()).map_err(|error| DeliveryError::Ignored(error.to_string()))?;
        let facts = Facts { tree: Arc::new(view), ..rules.facts.clone() };
        let shapes = gate::Shapes::of(&after, root).map_err(|error| DeliveryError::Ignored(error.to_string()))?;
        let staying: BTreeSet<&RelPath> =
            refused.iter().map(|(path, _)| path).filter(|path| tree.why_left_out(path).is_none()).collect();
        let judge = |(output, change): &(Output, Change)| {
            if let Some(path) = above(&output.path).find(|path| staying.contains(path)) {
                return Err(format!("{path} is not changed"));
            }
            shapes.check(&output.path, change)?;
            judge(rules.policy, &facts, &output.path, change)
        };
        let before = kept.len();
        let mut next = Vec::new();
        let mut also = Vec::new();
        for one in kept {
            match judge(&one) {
                Ok(()) => next.push(one),
                Err(reason) => also.push((one.0.path, reason)),
            }
        }
        kept = next;
        refused.extend(also);
        if kept.len() == before {
            break;
        }
    }
    let files = kept.into_iter().map(|(output, _)| output).collect();
    Ok((Outputs::new(tree, files), warning(&refused)))
}

/// Returns the directories above a path.
fn above(path: &RelPath) -> impl Iterator<Item = RelPath> {
    std::iter::successors(path.parent(), RelPath::parent).filter(|path| !path.is_root())
}

/// Returns an output as a change without its contents, which nobody judges; the inner error says why it is left out.
fn change_of(tree: &CommandTree, project: &Folder, output: &Output) -> std::io::Result<Result<Change, &'static str>> {
    match tree.why_left_out(&output.path) {
        Some(WhyLeftOut::TooLarge) => {
            return Ok(Err("commands did not see the project's files there (`sandbox.copy_max`)"));
        }
        Some(WhyLeftOut::Denied | WhyLeftOut::Special | WhyLeftOut::Unreadable) => {
            return Ok(Err("commands did not see the project's files there"));
        }
        None => {}
    }
    let there = match project.parent_of(&output.path) {
        Ok((folder, name)) => folder.stat(name)?,
        Err(error) if is_missing(&error) => None,
        Err(error) => return Err(error),
    };
    if there.is_some_and(|stat| tree.was_changed_since(&stat)) {
        return Ok(Err("it has changed in the project since the commands began"));
    }
    let before = if there.is_some() || output.is_gone { Entry::file("before") } else { Entry::Absent };
    let after = match output.is_gone {
        true => Entry::Absent,
        false => tree.link(&output.path)?.map_or_else(|| Entry::file(""), |target| Entry::Link { target }),
    };
    Ok(Ok(Change { before, after }))
}

/// Judges a path as every write, but for what makes a change large or executable: build output is both.
fn judge(policy: &Policy, facts: &Facts, path: &RelPath, change: &Change) -> Result<(), String> {
    let kind = change.kind().unwrap_or(Kind::Modified);
    let facts_of_change = ChangeFacts { kind, becomes_executable: false, is_link: false };
    policy.may_change(path, facts).map_err(|denial| denial.reason)?;
    policy.judge_change(path, facts_of_change, facts).map_err(|denial| denial.reason)?;
    match &change.after {
        Entry::Link { target } => policy.judge_link(path, target, facts).map_err(|denial| denial.reason),
        Entry::Absent | Entry::File { .. } => Ok(()),
    }
}

fn warning(refused: &[(RelPath, String)]) -> Option<String> {
    let named: Vec<String> = refused.iter().take(NAMED).map(|(path, reason)| format!("{path} ({reason})")).collect();
    let rest = refused.len().saturating_sub(NAMED);
    let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
    let count = crate::emit::words::count(refused.len() as u64, "file");
    let what = "output of commands in ignored directories was not delivered";
    (!refused.is_empty()).then(|| format!("{what} ({count}): {}{more}", named.join(", ")))
}
