//! Summarizes a run in Markdown for readers who do not know this program: a job's summary, a pull request's text.

use serde_json::Value;

use super::markdown::{block, cell, code, prose};
use super::report::Report;
use super::words::{self, count};
use crate::event::FileReport;

/// GitHub drops a summary over 1 MiB whole.
const LONGEST: usize = 900 * 1024;

/// Longest quotation of the model, in characters.
const ANSWER: usize = 20_000;

/// Maximum findings, files, denials and warnings that are shown.
const FINDINGS: usize = 100;
const FILES: usize = 200;
const OTHERS: usize = 50;

/// Returns the summary of a run: what came of it first, then what it rests on, then the figures.
pub fn summary(report: &Report) -> String {
    let mut text = format!("### {}\n\n{}\n\n", headline(report), what_ran(report));
    if let Some(error) = &report.error {
        text.push_str(&format!(
            "**{}** {}",
            if report.ending.is_error { "Why:" } else { "Note:" },
            prose(&error.message, 2_000)
        ));
        if let Some(hint) = &error.hint {
            text.push_str(&format!("  \n**What to do:** {}", prose(hint, 2_000)));
        }
        text.push_str("\n\n");
    }
    text.push_str(&findings(report));
    text.push_str(&files(report));
    text.push_str(&checks(report));
    if !report.answer.result.trim().is_empty() {
        text.push_str("**What the model says**\n\n");
        text.push_str(&block(&report.answer.result, ANSWER));
        text.push('\n');
    }
    text.push_str(&denials(report));
    text.push_str(&warnings(report));
    text.push_str(&figures(report));
    cut(text)
}

/// What a pull request says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullRequest<'a> {
    /// The page of the workflow run.
    pub run_url: Option<&'a str>,
    /// Who started it.
    pub actor: Option<&'a str>,
    /// The commit.
    pub commit: &'a str,
}

/// Returns the text of the pull request that proposes a run's change.
pub fn pull_request(report: &Report, about: &PullRequest<'_>) -> String {
    let by = about.actor.map(|actor| format!(", started by {}", code(actor))).unwrap_or_default();
    let mut text =
        format!("{}{by}. No person has reviewed it yet: review it like any other change.\n\n", made_by(report));
    if let Some(url) = about.run_url {
        text.push_str(&format!("[The run and its log]({url})\n\n"));
    }
    text.push_str(&files(report));
    text.push_str(&checks(report));
    if !report.answer.result.trim().is_empty() {
        text.push_str("**What the model says about it**\n\n");
        text.push_str(&block(&report.answer.result, ANSWER));
        text.push('\n');
    }
    text.push_str(&denials(report));
    text.push_str(&warnings(report));
    text.push_str("> [!NOTE]\n> Checks do not start by themselves for a commit that a workflow pushed with its own token. Close and reopen this pull request to start them.\n\n");
    text.push_str(&figures(report));
    text.truncate(text.floor_char_boundary(60_000));
    text
}

/// Says where the review page of a job is: this step cannot know whether a later one uploads it.
pub fn review_page(report: &Report, run_url: &str, name: &str) -> String {
    let proposes = !report.changes.files.is_empty() && !report.changes.applied && report.git.commit.is_none();
    let apply = if proposes { format!("; `qwen apply {name}` applies the change in it") } else { String::new() };
    format!(
        "\n**Review page:** `{name}` in the [artifacts of this run]({run_url}#artifacts), if the job uploads the output \
         `report-file`{apply}.\n"
    )
}

/// Returns the summary of a job that delivered. `lines` are trusted markdown, one for each thing that was done.
pub fn delivered(report: &Report, lines: &[String]) -> String {
    let nothing = ["Nothing was left to do.".to_owned()];
    let lines = if lines.is_empty() { &nothing[..] } else { lines };
    let list: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    format!("### ✅ Delivered\n\n{}\n\n{list}\n{}", headline(report), table(&report.changes.files))
}

/// Returns the summary of a job that did not deliver all. `lines` are what was done before.
pub fn not_delivered(message: &str, hint: &str, lines: &[String]) -> String {
    let hint = if hint.is_empty() { String::new() } else { format!("  \n**What to do:** {}", prose(hint, 2_000)) };
    let (title, done) = match lines {
        [] => ("Nothing was delivered", String::new()),
        lines => {
            let list: String = lines.iter().map(|line| format!("- {line}\n")).collect();
            ("Not all was delivered", format!("Done before:\n\n{list}\n"))
        }
    };
    format!("### ⛔ {title}\n\n**Why:** {}{hint}\n\n{done}", prose(message, 2_000))
}

/// The one line that says how it ended.
pub fn headline(report: &Report) -> String {
    let files = report.changes.files.len();
    let change = |verb: &str| format!("{} {verb}", count(files as u64, "file"));
    match report.ending.conclusion.as_str() {
        "success" if files > 0 && report.git.commit.is_some() => format!("✅ {} and committed", change("changed")),
        "success" if files > 0 && report.changes.applied => format!("✅ {}", change("changed")),
        "success" if files > 0 => format!("✅ {} proposed", count(files as u64, "changed file")),
        "success" if !report.findings.is_empty() => format!("🟡 {}", found(report)),
        "success"
            if report.ran.recipe.is_some()
                && report.answer.structured_output.as_ref().is_some_and(|value| value.get("findings").is_some()) =>
        {
            no_problems(report)
        }
        "success" => "✅ Done".to_owned(),
        "nothing_to_do" => "✅ Nothing to do".to_owned(),
        "findings" if report.findings.is_empty() && is_incomplete(report) => {
            "🔴 Not all of the change was looked at".to_owned()
        }
        "findings" if report.findings.is_empty() => "🔴 A finding of an earlier run is still open".to_owned(),
        "findings" => format!("🔴 {}", found(report)),
        "denied" if report.error.as_ref().is_some_and(|error| error.code == "denied") => {
            let done =
                if files > 0 { format!("{} proposed", count(files as u64, "changed file")) } else { "Done".to_owned() };
            format!("⚠️ {done}; the policy denied {}", count(report.permission_denials.len() as u64, "call"))
        }
        "denied" => "⛔ The policy denied a call or the delivery".to_owned(),
        "refused_trigger" => "⛔ Not started: this event is not allowed to start a run".to_owned(),
        "verify_failed" => "❌ The change does not pass its checks, so it is not delivered".to_owned(),
        "limit" => "⏱️ Stopped at a limit".to_owned(),
        _ => "❌ The run failed".to_owned(),
    }
}

fn coverage(report: &Report) -> Option<&Value> {
    report.answer.structured_output.as_ref()?.get("coverage")
}

/// Tells whether a part of a change was not looked at although somebody would expect it to be.
pub fn is_incomplete(report: &Report) -> bool {
    coverage(report).is_some_and(|coverage| coverage["complete"] == false)
}

/// Says that nothing was found, and in how many files where some could not be looked at.
fn no_problems(report: &Report) -> String {
    let number = |key: &str| coverage(report).and_then(|coverage| coverage.get(key)?.as_u64()).unwrap_or_default();
    match is_incomplete(report) {
        true => format!("⚠️ No problems found in {} of {} files", number("looked_at"), number("files")),
        false if number("files") > 0 && number("looked_at") == 0 => {
            format!("➖ Nothing to look at in {}", count(number("files"), "file"))
        }
        false => "✅ No problems found".to_owned(),
    }
}

fn found(report: &Report) -> String {
    let of = |level: &str| {
        report.findings.iter().filter(|finding| finding.get("severity").is_some_and(|s| s == level)).count()
    };
    let parts: Vec<String> = ["error", "warning", "note"]
        .into_iter()
        .filter(|level| of(level) > 0)
        .map(|level| count(of(level) as u64, level))
        .collect();
    format!("{} found", parts.join(", "))
}

pub(super) fn made_by(report: &Report) -> String {
    let model = report.ran.model.as_deref().filter(|model| !model.is_empty());
    let model = model.map_or("an AI model".to_owned(), |model| format!("the AI model {}", code(model)));
    match &report.ran.recipe {
        Some(recipe) => {
            let version = recipe.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
            format!("Made by {model} with the recipe {}", code(&format!("{}{version}", recipe.name)))
        }
        None => format!("Made by {model}"),
    }
}

/// Two sentences for whoever sees this for the first time.
fn what_ran(report: &Report) -> String {
    if report.ran.run_id.is_none() {
        return "The coding agent `qwen` ended before it sent a request to the model, and changed nothing.".to_owned();
    }
    let model = report.ran.model.as_deref().filter(|model| !model.is_empty());
    let model = model.map_or("an AI model".to_owned(), |model| format!("the AI model {}", code(model)));
    let recipe =
        report.ran.recipe.as_ref().map(|recipe| format!(" with the recipe {}", code(&recipe.name))).unwrap_or_default();
    let kept = match (report.changes.applied, report.changes.mode.as_str()) {
        (true, _) => "Its change passed the policy and is in the checkout",
        (false, "dry-run") => "It only proposed a change: nothing was written, committed or pushed",
        (false, _) => "Nothing was delivered: the checkout is unchanged",
    };
    format!("The coding agent `qwen` ran {model}{recipe}, unattended and under a policy. {kept}.")
}

fn findings(report: &Report) -> String {
    let text = |finding: &serde_json::Value, key: &str| {
        finding.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let mut out = String::new();
    for finding in report.findings.iter().take(FINDINGS) {
        let line = finding.get("start_line").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let mark = match text(finding, "severity").as_str() {
            "error" => "🔴 error",
            "warning" => "🟡 warning",
            _ => "🔵 note",
        };
        out.push_str(&format!(
            "- {mark} {} {}  \n  {}\n",
            code(&format!("{}:{line}", text(finding, "path"))),
            code(&text(finding, "rule_id")),
            prose(&text(finding, "message"), 2_000),
        ));
    }
    if report.findings.len() > FINDINGS {
        out.push_str(&format!("- … and {} more in the result file\n", report.findings.len() - FINDINGS));
    }
    let dropped: u64 = report.dropped.values().sum();
    if dropped > 0 {
        let why: Vec<String> =
            report.dropped.iter().map(|(reason, count)| format!("{count} {}", code(reason))).collect();
        out.push_str(&format!("\n{dropped} more are left out: they could not be confirmed ({}).\n", why.join(", ")));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn files(report: &Report) -> String {
    let mut text = table(&report.changes.files);
    if report.changes.policy_changed {
        text.push_str("> [!WARNING]\n> The change touches the policy itself. It had no effect on this run.\n\n");
    }
    text
}

fn table(files: &[FileReport]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let mut text = "| File | Change | Lines added | Lines removed |\n|:---|:---|---:|---:|\n".to_owned();
    for file in files.iter().take(FILES) {
        text.push_str(&format!(
            "| {} | {} | {} | {} |\n",
            cell(&file.path),
            cell_word(&file.kind),
            file.added,
            file.removed
        ));
    }
    if files.len() > FILES {
        text.push_str(&format!("| … and {} more | | | |\n", files.len() - FILES));
    }
    text.push('\n');
    let later: Vec<String> = runs_later(files).map(|file| code(&file.path)).collect();
    if !later.is_empty() {
        text.push_str(&format!(
            "> [!WARNING]\n> Tools run these files automatically, so review them first: {}\n\n",
            later.join(", ")
        ));
    }
    text
}

/// `added`, `modified`, `deleted`: only known words, as the report may have been read from a file.
fn cell_word(kind: &str) -> String {
    if ["added", "modified", "deleted"].contains(&kind) { kind.to_owned() } else { cell(kind) }
}

fn runs_later(files: &[FileReport]) -> impl Iterator<Item = &FileReport> {
    files.iter().filter(|file| file.executes_later).take(FILES)
}

fn checks(report: &Report) -> String {
    let mut text = String::new();
    // Of each check the last time: that is how it ended.
    let last_attempt = report.verify.iter().map(|check| check.attempt).max().unwrap_or(0);
    for check in report.verify.iter().filter(|check| check.attempt == last_attempt).take(OTHERS) {
        let (mark, word) = if check.passed { ("✅", "passes") } else { ("❌", "fails") };
        text.push_str(&format!("- {mark} {} {word} ({})\n", code(&check.command), words::time(check.duration_ms)));
        if !check.passed && !check.output_tail.trim().is_empty() {
            let end: String = check
                .output_tail
                .lines()
                .rev()
                .take(30)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .map(|line| format!("{line}\n"))
                .collect();
            text.push_str(&format!("\n{}\n", block(&end, 4_000)));
        }
    }
    if text.is_empty() { text } else { format!("**Checks after the change**\n\n{text}\n") }
}

pub(super) fn denials(report: &Report) -> String {
    let denials = &report.permission_denials;
    if denials.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<details><summary>{} of the model denied by the policy</summary>\n\n| Tool | What | Why |\n|:---|:---|:---|\n",
        count(denials.len() as u64, "call")
    );
    for denial in denials.iter().take(OTHERS) {
        let what = ["command", "file_path", "path", "url"]
            .iter()
            .find_map(|key| denial.tool_input.get(key)?.as_str())
            .unwrap_or_default();
        let what = if what.is_empty() { String::new() } else { cell(&what.chars().take(200).collect::<String>()) };
        let why = prose(&denial.reason, 300).replace('|', "\\|").replace("\\\\|", "\\|");
        text.push_str(&format!("| {} | {what} | {why} |\n", cell(&denial.tool_name)));
    }
    text.push_str("\n</details>\n\n");
    text
}

pub(super) fn warnings(report: &Report) -> String {
    if report.warnings.is_empty() {
        return String::new();
    }
    let lines: String =
        report.warnings.iter().take(OTHERS).map(|warning| format!("- {}\n", prose(warning, 500))).collect();
    format!("<details><summary>{}</summary>\n\n{lines}\n</details>\n\n", count(report.warnings.len() as u64, "warning"))
}

pub(super) fn figures(report: &Report) -> String {
    let Some(run_id) = &report.ran.run_id else { return String::new() };
    let mut parts =
        vec![count(report.totals.num_turns.into(), "answer"), count(report.totals.num_tool_calls.into(), "tool call")];
    if let Some(tokens) = report.usage.total_tokens {
        parts.push(format!("{tokens} tokens"));
    }
    if let Some(cost) = report.total_cost_usd.filter(|cost| *cost > 0.0) {
        parts.push(format!("about ${cost:.4}"));
    }
    parts.push(words::time(report.totals.duration_ms));
    parts.push(format!("run {}", code(run_id)));
    if let Some(base) = &report.changes.base {
        parts.push(format!("on commit {}", code(&base.chars().take(12).collect::<String>())));
    }
    format!("<sub>{}</sub>\n", parts.join(" · "))
}

/// Cuts at the end of a line, and says so.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = text.floor_char_boundary(LONGEST);
        let end = text[..end].rfind('\n').unwrap_or(end);
        text.truncate(end);
        text.push_str("\n\n(cut)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::emit::report;
    use crate::event::{
        ChangesReport, Event, PermissionDenial, RecipeFacts, RunError, RunFinished, RunStarted, VerifyOutcome,
    };
    use crate::exit::Exit;

    fn told(end: impl FnOnce(&mut RunFinished), more: Vec<Event>) -> String {
        let started = RunStarted {
            run_id: "01-run".into(),
            model: "qwen3-coder-plus".into(),
            changes_mode: "dry-run".into(),
            recipe: Some(RecipeFacts { name: "fix-lint".into(), version: Some("1.0.0".into()), sha256: "1f3a".into() }),
            ..RunStarted::default()
        };
        let mut finished = RunFinished::failed(Exit::Ok, RunError::default());
        finished.error = None;
        end(&mut finished);
        let mut events = vec![Event::RunStarted(Box::new(started))];
        events.extend(more);
        events.push(Event::RunFinished(Box::new(finished)));
        summary(&report(&events))
    }

    #[test]
    fn a_proposed_change_is_told_from_its_outcome_to_its_figures() {
        let file = |path: &str, executes_later| FileReport {
            path: path.into(),
            kind: "modified".into(),
            added: 2,
            removed: 1,
            executes_later,
            ..FileReport::default()
        };
        let check = VerifyOutcome {
            command: "cargo test".into(),
            passed: true,
            attempt: 1,
            duration_ms: 61_000,
            ..VerifyOutcome::default()
        };
        let denial = PermissionDenial {
            tool_name: "run_shell_command".into(),
            tool_input: json!({"command": "git push | tee x"}),
            reason: "`git push` is denied".into(),
            ..PermissionDenial::default()
        };
        let text = told(
            |end| {
                end.changes = ChangesReport {
                    mode: "dry-run".into(),
                    base: Some("c0ffee00c0ffee00".into()),
                    files: vec![file("src/a|b.rs", false), file("build.rs", true)],
                    ..ChangesReport::default()
                };
                end.result = "Replaced `len() == 0`.\nThanks @octocat, fixes #1".into();
                end.duration_ms = 3_400;
            },
            vec![
                Event::Verify(check),
                Event::Denied(Box::new(denial)),
                Event::Warning { message: "careful, @you".into() },
            ],
        );
        insta::assert_snapshot!(text, @r##"
        ### ✅ 2 changed files proposed

        The coding agent `qwen` ran the AI model `qwen3-coder-plus` with the recipe `fix-lint`, unattended and under a policy. It only proposed a change: nothing was written, committed or pushed.

        | File | Change | Lines added | Lines removed |
        |:---|:---|---:|---:|
        | `src/a\|b.rs` | modified | 2 | 1 |
        | `build.rs` | modified | 2 | 1 |

        > [!WARNING]
        > Tools run these files automatically, so review them first: `build.rs`

        **Checks after the change**

        - ✅ `cargo test` passes (1 min 1 s)

        **What the model says**

        ```text
        Replaced `len() == 0`.
        Thanks @octocat, fixes #1
        ```

        <details><summary>1 call of the model denied by the policy</summary>

        | Tool | What | Why |
        |:---|:---|:---|
        | `run_shell_command` | `git push \| tee x` | `git push` is denied |

        </details>

        <details><summary>1 warning</summary>

        - careful, `@you`

        </details>

        <sub>0 answers · 0 tool calls · 0 tokens · 3.4 s · run `01-run` · on commit `c0ffee00c0ff`</sub>
        "##);
    }

    #[test]
    fn findings_are_told_worst_mark_first_with_their_place() {
        let text = told(
            |end| {
                end.exit = Exit::Gate;
                end.findings = vec![
                    json!({"severity": "error", "path": "src/a.rs", "start_line": 3, "rule_id": "bug", "message": "An empty list divides by zero; see https://x.example."}),
                    json!({"severity": "note", "path": "b", "start_line": 1, "rule_id": "style", "message": "m"}),
                ];
                end.dropped = [("unanchored".to_owned(), 2)].into();
            },
            Vec::new(),
        );
        insta::assert_snapshot!(text, @r##"
        ### 🔴 1 error, 1 note found

        The coding agent `qwen` ran the AI model `qwen3-coder-plus` with the recipe `fix-lint`, unattended and under a policy. It only proposed a change: nothing was written, committed or pushed.

        - 🔴 error `src/a.rs:3` `bug`  
          An empty list divides by zero; see `https://x.example.`
        - 🔵 note `b:1` `style`  
          m

        2 more are left out: they could not be confirmed (2 `unanchored`).

        <sub>0 answers · 0 tool calls · 0 tokens · 0.0 s · run `01-run`</sub>
        "##);
    }

    #[test]
    fn what_was_not_started_says_why_and_what_to_do() {
        let mut end = RunFinished::failed(
            Exit::Denied,
            RunError {
                code: "refused_trigger".into(),
                message: "the run was not started: eve may not write to this repository".into(),
                hint: Some("somebody with write access can start it".into()),
                ..RunError::default()
            },
        );
        end.duration_ms = 1;
        let text = summary(&report([&Event::RunFinished(Box::new(end))]));
        insta::assert_snapshot!(text, @r##"
        ### ⛔ Not started: this event is not allowed to start a run

        The coding agent `qwen` ended before it sent a request to the model, and changed nothing.

        **Note:** the run was not started: eve may not write to this repository  
        **What to do:** somebody with write access can start it
        "##);
    }
}
