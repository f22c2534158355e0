//! Runs `qwen policy`: tells what the rules decide about calls before a run. Uses no model and no network.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::console::{alone, print, read};
use super::error::{CommandError, RulesError};
use super::kept;
use crate::cli::WorkspaceArgs;
use crate::cli::policy::{JudgeArgs, PolicyVerb};
use crate::emit::safe::escape;
use crate::emit::to_line;
use crate::event::{CallFacts, Event};
use crate::exit::Exit;
use crate::git::trusted;
use crate::policy::Facts;
use crate::policy::{Policy, Verdict, builtin, check, explain, suggest, warnings};
use crate::run::Failure;
use crate::run::place::Place;
use crate::run::rules::approval::covered;
use crate::settings::Environment;
use crate::tool_name::ToolId;

pub(super) fn run(verb: &PolicyVerb, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    match verb {
        PolicyVerb::Check(arguments) => check(arguments, environment, out),
        PolicyVerb::Explain(arguments) => explain(arguments, environment, out),
        PolicyVerb::Test { file } => test(file, environment, out),
        PolicyVerb::Init { from } => init(from, environment, out),
        PolicyVerb::Trust { revoke, workspace } => trust(*revoke, workspace, environment, out),
        PolicyVerb::Builtin { name: None } => {
            let names: Vec<&str> = builtin::BUILTINS.iter().map(|(name, _)| *name).collect();
            print(out, &(names.join("\n") + "\n"))
        }
        PolicyVerb::Builtin { name: Some(name) } => match builtin::text(name.trim_start_matches("builtin:")) {
            Some(text) => print(out, text),
            None => Err(RulesError::Builtin(name.clone()).into()),
        },
    }
}

/// The policy and facts that a verb judges by.
fn rules(arguments: &JudgeArgs, environment: &Environment) -> Result<(Policy, Facts), Failure> {
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let chosen = place.policy(arguments.policy.as_deref(), false, environment)?;
    Ok((chosen.policy, place.facts(environment)))
}

/// The one call that a command line names.
fn one_call(arguments: &JudgeArgs) -> Result<(String, Value), CommandError> {
    match (&arguments.tool, &arguments.input) {
        (Some(tool), Some(input)) => {
            let input = serde_json::from_str(input).map_err(CommandError::Arguments)?;
            Ok((tool.clone(), input))
        }
        (Some(_), None) | (None, _) => {
            Ok((ToolId::RunShellCommand.to_string(), json!({"command": command_text(&arguments.command)})))
        }
    }
}

/// Returns the command as the model would write it: one word is the text itself, several were split by a shell.
fn command_text(words: &[String]) -> String {
    match words {
        [text] => text.clone(),
        words => words
            .iter()
            .map(|word| {
                match word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c)) && !word.is_empty() {
                    true => word.clone(),
                    false => format!("'{}'", word.replace('\'', r"'\''")),
                }
            })
            .collect::<Vec<_>>()
            .join(" "),
    }
}

fn check(arguments: &JudgeArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (policy, facts) = rules(arguments, environment)?;
    let text = match &arguments.calls {
        Some(file) => {
            String::from_utf8(read(file, environment)?).map_err(|_| RulesError::Calls(file.display().to_string()))?
        }
        None => {
            let (tool, input) = one_call(arguments)?;
            json!({"id": Value::Null, "tool": tool, "input": input}).to_string()
        }
    };
    let mut exit = Exit::Ok;
    for answer in check::run_calls(&policy, &facts, text.lines()) {
        if answer.decision == Verdict::Deny {
            exit = Exit::Denied;
        }
        print(out, &(to_line(&answer) + "\n"))?;
    }
    Ok(exit)
}

fn explain(arguments: &JudgeArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    if arguments.calls.is_some() {
        return Err(RulesError::OneCall.into());
    }
    let (policy, facts) = rules(arguments, environment)?;
    let (tool, input) = one_call(arguments)?;
    let allowed = check::check_call(&policy, &facts, &tool, &input).is_allowed();
    let text = explain::explain(&policy, &facts, &tool, &input);
    let lines: Vec<String> = text.lines().map(|line| escape(line).into_owned()).collect();
    print(out, &(lines.join("\n") + "\n"))?;
    Ok(if allowed { Exit::Ok } else { Exit::Denied })
}

fn test(file: &Path, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let policy = alone(&file.display().to_string(), environment)?;
    let place = Place::open(None, environment)?;
    let results = check::run_tests(&policy, &place.facts(environment));
    let mut failed = 0;
    for result in &results {
        if !result.passed() {
            failed += 1;
            let wanted = if result.expected == Verdict::Allow { "allowed" } else { "denied" };
            print(
                out,
                &format!(
                    "failed {}: should be {wanted}: {}\n  {}\n",
                    result.source,
                    escape(&result.call),
                    escape(&result.decision.reason)
                ),
            )?;
        }
    }
    for warning in warnings::warnings(&policy) {
        print(out, &format!("warning {}\n", escape(&warning)))?;
    }
    print(out, &format!("{} passed, {failed} failed\n", results.len() - failed))?;
    Ok(if failed == 0 { Exit::Ok } else { Exit::Denied })
}

/// Approves the files of a checkout as they are now, and shows which; what is shown is what was hashed.
fn trust(
    revoke: bool,
    workspace: &WorkspaceArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let place = Place::open(workspace.cd.as_deref(), environment)?;
    let top = place.top();
    let file = trusted::approval_file(place.state()?, top);
    let failed = |cause| RulesError::State { path: file.display().to_string(), cause };
    if revoke {
        let known = trusted::remove_approval(&file).map_err(failed)?;
        let text = if known { "is no longer trusted" } else { "was not trusted" };
        return print(out, &format!("{} {text}\n", escape(&top.display().to_string())));
    }
    let covered = covered(place.top(), &place.checkout.around, environment).map_err(RulesError::NotApproved)?;
    let approval = covered.approval;
    if approval.files.is_empty() {
        return print(out, "nothing to approve: .qwen, .mcp.json and .env do not exist\n");
    }
    let before = trusted::read_approval(&file);
    trusted::write_approval(&file, &approval).map_err(failed)?;
    let mut text = format!("trusted in {}:\n", escape(&top.display().to_string()));
    for (path, digest) in &approval.files {
        let news = match before.as_ref().map(|before| before.files.get(path)) {
            None => "",
            Some(Some(known)) if known == digest => "",
            Some(Some(_)) => "  (changed)",
            Some(None) => "  (new)",
        };
        text.push_str(&format!("  {}  {}{news}\n", &digest[..12], escape(path)));
    }
    for (name, what) in &covered.undetermined {
        let (name, what) = (escape(name), escape(what));
        text.push_str(&format!("not covered: {name} may start more files of the checkout than it names ({what})\n"));
    }
    text.push_str("changing any of them, or adding one, ends the trust; `qwen policy trust --revoke` ends it now\n");
    print(out, &text)
}

/// Writes the smallest policy that would have allowed what a recorded run did.
fn init(from: &Path, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let path = || from.display().to_string();
    let place = Place::open(None, environment)?;
    let events = match kept::named(from, &place, environment)? {
        Some(run) => run.events().map_err(CommandError::input(from))?,
        None => read(from, environment)?,
    };
    let text = String::from_utf8(events).map_err(|_| RulesError::NotEvents(path()))?;
    let (mut calls, mut denials): (Vec<(_, Option<String>)>, _) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let event: Event =
            serde_json::from_str(line).map_err(|cause| RulesError::Event { path: path(), line: index + 1, cause })?;
        match event {
            Event::Assistant(turn) => calls.extend(turn.calls.into_iter().map(|call| (call, None))),
            Event::Denied(denial) => denials.push(denial),
            _ => {}
        }
    }
    if calls.is_empty() {
        return Err(RulesError::NoCalls(path()).into());
    }
    for denial in denials {
        // A subagent's call may have the id of another one.
        let has_id = |(call, denied): &(CallFacts, Option<String>)| denied.is_none() && call.id == denial.tool_use_id;
        let same = calls.iter().position(|known| has_id(known) && known.0.input == denial.tool_input);
        if let Some(at) = same.or_else(|| calls.iter().position(has_id)) {
            calls[at].1 = Some(denial.reason);
        }
    }
    let calls =
        calls.into_iter().map(|(call, denied)| suggest::Recorded { denied, tool: call.name, input: call.input });
    let suggested = suggest::policy(calls.collect(), &place.facts(environment));
    print(out, &suggested)
}
