//! Runs `qwen check`: the small checks that recipes use, by hand.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::console::{print, read};
use super::error::{CheckError, CommandError};
use crate::cli::check::CheckVerb;
use crate::cli::run::FromHook;
use crate::emit::safe::one_line;
use crate::emit::to_pretty;
use crate::exit::Exit;
use crate::git::repository::Repository;
use crate::policy::{Denial, Policy};
use crate::recipe::file::{DiffKind, Severity};
use crate::run::Failure;
use crate::run::output::masking::{published, secrets_of};
use crate::run::place::Place;
use crate::run::recipe::checks::{self, Action};
use crate::run::recipe::diff::{ChangeReader, Looked};
use crate::run::runner::{Runner, RunnerOptions};
use crate::sandbox::Demand;
use crate::settings::Environment;
use crate::tools::Variables;
use crate::verify::findings::{self, Finding};
use crate::verify::shape;

/// What a command may take in all.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

pub(super) async fn run(verb: &CheckVerb, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let text = |path: &std::path::Path| -> Result<String, Failure> {
        Ok(String::from_utf8_lossy(&read(path, environment)?).into_owned())
    };
    let problems = match verb {
        CheckVerb::MarkdownShape { source, target } => shape::differences(&text(source)?, &text(target)?),
        CheckVerb::Changelog { file, heading, since, workspace } => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            if since.starts_with('-') {
                return Err(CheckError::NotRevision(since.clone()).into());
            }
            let commits = checks::commits(place.repository(), since).map_err(CheckError::Commits)?;
            let root = place.workspace.root();
            let after = text(&root.join(file))?;
            let committed = |repository: &Repository| {
                let name = file.strip_prefix("./").unwrap_or(file).display().to_string();
                let name = format!("HEAD:{}", repository.prefix.join(name)?);
                repository.git().run(&["cat-file", "blob", &name], b"").ok()
            };
            // A changelog that is not committed yet has no old line.
            let before = place.repository().and_then(committed).unwrap_or_default();
            shape::changelog(&String::from_utf8_lossy(&before), &after, heading, &commits)
        }
        CheckVerb::Change { staged, range, policy, json, workspace } => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            let kind = match (staged, range) {
                (true, _) => DiffKind::Staged,
                (false, Some(_)) => DiffKind::Range,
                (false, None) => DiffKind::Worktree,
            };
            let policy = place.policy(policy.as_deref(), false, environment)?.policy;
            let mut found = local(&place, &policy, environment, (kind, range.as_deref()), None)?.findings;
            if let Some((base, tip)) = range.as_deref().and_then(ends) {
                let of = (&place, &policy, environment);
                let (in_commits, _) = commits(of, (Some(base), None, tip), Instant::now() + HISTORY, &found)?;
                found.extend(in_commits);
            }
            let has_error = found.iter().any(|finding| finding.severity == Severity::Error);
            let text = match json {
                true => to_pretty(&serde_json::json!({ "findings": found })) + "\n",
                false => found.iter().map(|finding| one_line(&findings::line(finding)) + "\n").collect(),
            };
            print(out, &text)?;
            return Ok(if has_error { Exit::Failed } else { Exit::Ok });
        }
        CheckVerb::Repeat { times, summary: _, workspace, command } => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            return repeat(&place, *times, command, environment, out).await;
        }
    };
    for problem in &problems {
        print(out, &format!("{problem}\n"))?;
    }
    Ok(if problems.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// How long the commits of a range are searched.
const HISTORY: Duration = Duration::from_secs(3_600);

/// Returns the ends of a range of commits.
fn ends(range: &str) -> Option<(&str, &str)> {
    let (base, tip) = range.split_once("...").or_else(|| range.split_once(".."))?;
    let named = |end: &'_ str| !end.is_empty() && !end.starts_with('-');
    named(base).then_some((base, if named(tip) { tip } else { "HEAD" }))
}

/// Finds problems of a change that no model is needed for; paths are relative to the repository.
pub(super) fn local(
    place: &Place,
    policy: &Policy,
    environment: &Environment,
    (kind, range): (DiffKind, Option<&str>),
    from_hook: Option<&FromHook>,
) -> Result<Looked, Failure> {
    with_reader((place, policy, environment), from_hook, &mut |reader, publish| {
        let mut looked = reader.local(kind, range)?;
        publish(&mut looked.findings);
        Ok(looked)
    })
}

/// Finds secrets in each commit that `tip` has and neither `base` nor a remote, also in what a later one of them removes; what is
/// found at the tip already is left out. Returns how many commits there was no time for as well.
pub(super) fn commits(
    of: (&Place, &Policy, &Environment),
    (base, remote, tip): (Option<&str>, Option<&str>, &str),
    until: Instant,
    at_tip: &[Finding],
) -> Result<(Vec<Finding>, usize), Failure> {
    with_reader(of, None, &mut |reader, publish| {
        let looked = reader.commits((base, remote), tip, until)?;
        let (commits, mut findings): (Vec<_>, Vec<_>) = looked.findings.into_iter().unzip();
        publish(&mut findings);
        let said = |finding: &Finding| (finding.path.clone(), finding.rule_id.clone(), finding.message.clone());
        let mut known: HashSet<_> = at_tip.iter().map(said).collect();
        let new = commits.into_iter().zip(findings).filter(|(_, finding)| known.insert(said(finding)));
        let named = new.map(|(commit, finding)| {
            let commit = commit.get(..12).unwrap_or(&commit);
            Finding { message: format!("{} (in commit {commit})", finding.message), ..finding }
        });
        Ok((named.collect(), looked.left))
    })
}

/// Finds secrets in a tag, and in the file that it stands for; returns also what was not searched.
pub(super) fn tag(
    of: (&Place, &Policy, &Environment),
    object: &str,
    until: Instant,
) -> Result<(Vec<Finding>, Option<String>), Failure> {
    with_reader(of, None, &mut |reader, publish| {
        let (mut findings, unsearched) = reader.tag(object, until)?;
        publish(&mut findings);
        Ok((findings, unsearched))
    })
}

/// Makes what was found fit to be shown.
type Publish<'p> = &'p dyn Fn(&mut Vec<Finding>);

/// Looks at a change; what is found is made fit to be shown.
fn with_reader<T>(
    (place, policy, environment): (&Place, &Policy, &Environment),
    from_hook: Option<&FromHook>,
    look: &mut dyn FnMut(&ChangeReader<'_>, Publish<'_>) -> Result<T, String>,
) -> Result<T, Failure> {
    let repository =
        place.repository().ok_or_else(|| CheckError::Change("there is no git repository here".to_owned()))?;
    let secrets = secrets_of(policy, environment)?;
    let facts = place.facts(environment);
    let reader = ChangeReader { repository, policy, facts: &facts, secrets: &secrets, from_hook, since: None };
    let publish = |found: &mut Vec<Finding>| {
        for finding in found.iter_mut().filter(|_| !repository.prefix.is_root()) {
            finding.path = format!("{}/{}", repository.prefix, finding.path);
        }
        findings::number(found);
        for finding in found {
            finding.path = published(&finding.path, policy, &secrets);
            finding.message = published(&finding.message, policy, &secrets);
        }
    };
    Ok(look(&reader, &publish).map_err(CheckError::Change)?)
}

async fn repeat(
    place: &Place,
    times: u32,
    command: &[String],
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let policy = Policy::builtin("open").expect("the policy is built in");
    let facts = place.facts(environment);
    let text = command.iter().map(|word| crate::run::recipe::quoted(word)).collect::<Vec<_>>().join(" ");
    let denied = |denial: Denial| CheckError::Denied { reason: denial.reason, hint: denial.hint };
    let plan = policy.operator_command(&text, &facts).map_err(denied)?;
    let options = RunnerOptions {
        workspace: Arc::clone(&place.workspace),
        checkout: place.checkout.clone(),
        policy,
        facts,
        demand: Demand::Auto,
        environment: environment.for_programs(),
        helper: std::env::current_exe().map_err(CheckError::NoProgram)?,
        ignored_outputs: false,
    };
    let runner = Runner::new(options).map_err(CommandError::Temporary)?;
    let site = checks::Place { workspace: &place.workspace, repository: place.repository() };
    let done = Action::Repeat { times, plan }.perform(&runner, &site, TIMEOUT, &Variables::default()).await;
    runner.end().await;
    print(out, &done.output)?;
    Ok(if done.exit_code == Some(0) { Exit::Ok } else { Exit::Failed })
}
