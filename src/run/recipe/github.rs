//! Gathers what GitHub has on a pull request or issue. Most of it strangers wrote: what nobody sees is taken out.

use serde_json::Value;

use crate::bounded;
use crate::github::marker::FindingMark;
use crate::github::threads::OpenThread;
use crate::github::{Comment, GitHub, GitHubError, Said};
use crate::hidden::is_foreign;
use crate::recipe::file::GitHubKind;
use crate::secret::Secret;
use crate::settings::Environment;

/// The most failed runs, and failed jobs of each, whose logs are read.
const MOST_RUNS: usize = 3;
const MOST_JOBS: usize = 5;

/// Lines of a log around its first error, and at its end.
const AROUND: usize = 200;
const END: usize = 100;

/// The largest event that is read.
const LARGEST_EVENT: u64 = 64 << 20;

/// Returns what is asked for; nothing where there is no repository on GitHub or no token.
pub(super) async fn read(
    kind: GitHubKind,
    number: Option<u64>,
    most: usize,
    environment: &Environment,
    token: Option<&Secret>,
) -> Result<String, GitHubError> {
    let variable = |name: &str| environment.value(name).filter(|value| !value.is_empty());
    let own = ["GH_TOKEN", "GITHUB_TOKEN"].iter().find_map(|name| Secret::parse(&variable(name)?).ok());
    let (Some(repository), Some(token)) = (variable("GITHUB_REPOSITORY"), token.cloned().or(own)) else {
        return Ok(String::new());
    };
    let api = variable("GITHUB_API_URL").unwrap_or_else(|| "https://api.github.com".to_owned());
    let github = GitHub::new(&api, &repository, Some(token))?;
    let event = event(environment);
    let of_event = |pointer: &str| event.as_ref().and_then(|event| event.pointer(pointer)?.as_u64());
    let number = number.or_else(|| of_event("/pull_request/number")).or_else(|| of_event("/issue/number"));
    let text = match (kind, number) {
        (GitHubKind::Labels, _) => labels(&github.described_labels().await?),
        (GitHubKind::CiFailure, _) => failures(&github, event.as_ref(), number, environment).await?,
        (_, None) => String::new(),
        (GitHubKind::PullRequest, Some(number)) => said(&github.said(number).await?),
        (GitHubKind::Issue, Some(number)) => said(&github.issue(number).await?),
        (GitHubKind::Comments, Some(number)) => comments(&github.comments(number).await?, most),
        (GitHubKind::ReviewThreads, Some(number)) => threads(&github.open_threads(number).await?),
    };
    Ok(text)
}

fn event(environment: &Environment) -> Option<Value> {
    let path = environment.cwd.join(environment.value("GITHUB_EVENT_PATH")?);
    serde_json::from_slice(&bounded::regular(&path, LARGEST_EVENT).ok()?).ok()
}

fn labels(all: &[(String, String)]) -> String {
    let line = |(name, description): &(String, String)| format!("{}: {}\n", plain(name), plain(description));
    all.iter().map(line).collect()
}

fn said(said: &Said) -> String {
    let Said { title, body, author } = said;
    format!("{}\nby {author}\n\n{}\n", plain(title).trim(), plain(body).trim())
}

/// Shows the newest comments that have room, in their order, without those of this program.
fn comments(all: &[Comment], most: usize) -> String {
    let is_ours = |comment: &&Comment| comment.body.starts_with("<!-- qwen:");
    let all: Vec<String> = all
        .iter()
        .filter(|comment| !is_ours(comment))
        .map(|comment| format!("{}:\n{}\n\n", comment.author, plain(&comment.body).trim()))
        .collect();
    let mut size = 0;
    let fits = all.iter().rev().take_while(|text| {
        size += text.len();
        size <= most
    });
    // One that is too long by itself is cut like any input.
    let kept = fits.count().max(usize::from(!all.is_empty()));
    all[all.len() - kept..].concat()
}

/// Shows what people say in threads: a finding of this program is to be found again, not read.
fn threads(all: &[OpenThread]) -> String {
    let one = |(author, body): &(String, String)| match FindingMark::read(body) {
        Some(_) => String::new(),
        None => format!("{author}: {}\n", plain(body).trim()),
    };
    let thread = |thread: &OpenThread| {
        let said: String = thread.comments.iter().map(one).collect();
        if said.is_empty() { said } else { format!("{}\n{said}\n", plain(&thread.path)) }
    };
    all.iter().map(thread).collect()
}

/// Returns what failed jobs printed: those of the event's run, else of the last commit's runs.
async fn failures(
    github: &GitHub,
    event: Option<&Value>,
    number: Option<u64>,
    environment: &Environment,
) -> Result<String, GitHubError> {
    let at = |pointer: &str| event.and_then(|event| event.pointer(pointer));
    let runs = match (at("/workflow_run/id").and_then(Value::as_u64), number) {
        (Some(run), _) => vec![run],
        (None, number) => {
            let of_event = at("/pull_request/head/sha").and_then(Value::as_str).map(str::to_owned);
            let commit = match (of_event, number.filter(|_| at("/issue/pull_request").is_some())) {
                (Some(commit), _) => Some(commit),
                (None, Some(number)) => Some(github.pull(number).await?.head),
                (None, None) => environment.value("GITHUB_SHA"),
            };
            match commit {
                Some(commit) => github.failed_runs(&commit).await?,
                None => Vec::new(),
            }
        }
    };
    let mut text = String::new();
    for run in runs.into_iter().take(MOST_RUNS) {
        for job in github.failed_jobs(run).await?.into_iter().take(MOST_JOBS) {
            let log = excerpt(&github.log(job.id).await?);
            text.push_str(&format!("--- job {} ---\n{log}\n", plain(&job.name)));
        }
    }
    Ok(text)
}

/// Returns the lines of a log around its first error and at its end, without time stamps and colours.
fn excerpt(log: &str) -> String {
    let lines: Vec<String> = log.lines().map(|line| without_colours(without_time(line))).collect();
    let first = lines.iter().position(|line| line.contains("##[error]"));
    let start = first.map_or(0, |first| first.saturating_sub(AROUND / 2));
    let stop = first.map_or(0, |_| (start + AROUND).min(lines.len()));
    let end = lines.len().saturating_sub(END).max(stop);
    let gap = if end > stop && start < stop { "...\n" } else { "" };
    let shown = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    format!("{}{gap}{}", shown(&lines[start..stop]), shown(&lines[end..]))
}

/// Returns a line without the time at its beginning: `2026-01-02T03:04:05.1234567Z `.
fn without_time(line: &str) -> &str {
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let is_time = |word: &str| {
        word.len() > 20 && word.ends_with('Z') && word.as_bytes()[4] == b'-' && word.as_bytes()[10] == b'T'
    };
    match line.split_once(' ') {
        Some((word, rest)) if is_time(word) => rest,
        Some(_) | None => line,
    }
}

/// Returns a line without escape sequences and other characters that nobody sees.
fn without_colours(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // `ESC [ 31 m`: to its letter.
            let _ended = rest.by_ref().skip(1).find(char::is_ascii_alphabetic);
        } else if !is_foreign(c) {
            out.push(c);
        }
    }
    out
}

/// Returns Markdown without comments, images and characters that nobody sees.
fn plain(text: &str) -> String {
    let text: String = text.chars().filter(|c| *c != '\r' && !is_foreign(*c)).collect();
    without_images(&without(&without(&text, "<!--", "-->"), "<img", ">"))
}

/// Takes out all from one mark to the next other one, or to the end.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    // Marks are ASCII, so that positions in the lower-case text are those of the text.
    while let Some(at) = rest.to_ascii_lowercase().find(open) {
        out.push_str(&rest[..at]);
        rest = rest[at..].find(close).map_or("", |end| &rest[at + end + close.len()..]);
    }
    out + rest
}

/// Takes out `![text](address)` and `![text][name]`.
fn without_images(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, image)) = rest.split_once("![") {
        let end = image.find(']').and_then(|at| {
            let close = match image[at + 1..].chars().next()? {
                '(' => ')',
                '[' => ']',
                _ => return None,
            };
            image[at + 1..].find(close).map(|end| at + 1 + end + 1)
        });
        match end.filter(|end| !image[..*end].contains('\n')) {
            Some(end) => {
                out.push_str(before);
                rest = &image[end..];
            }
            None => {
                out.push_str(before);
                out.push_str("![");
                rest = image;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_not_shown_to_the_model() {
        for (text, seen) in [
            ("a <!-- do evil --> b", "a  b"),
            ("a <!-- never closed", "a "),
            ("x ![logo](https://e.example/a.png) y <IMG src='b'> z", "x  y  z"),
            ("![a][b]c ![open\n](x) [link](y)", "c ![open\n](x) [link](y)"),
            ("h\u{202e}i\u{200b}\u{e0041}\r\n", "hi\n"),
            ("<!-<!-- a -->- b -->", "<!-- b -->"),
        ] {
            assert_eq!(plain(text), seen, "{text:?}");
        }
    }

    #[test]
    fn the_newest_comments_stay_and_ours_do_not() {
        let comment =
            |author: &str, body: &str| Comment { id: 1, author: author.into(), body: body.into(), url: String::new() };
        let all = [
            comment("ann", "the first"),
            comment("github-actions[bot]", "<!-- qwen:sticky v1 x -->\nours"),
            comment("bob", "the last"),
        ];
        assert_eq!(comments(&all, 1_000), "ann:\nthe first\n\nbob:\nthe last\n\n");
        assert_eq!(comments(&all, 20), "bob:\nthe last\n\n");
        assert_eq!(comments(&all, 1), "bob:\nthe last\n\n");
        assert_eq!(comments(&[], 1), "");
    }

    #[test]
    fn of_a_thread_what_people_say_is_shown() {
        let (rule_id, severity, confidence) = ("leak".to_owned(), "error".to_owned(), "high".to_owned());
        let mark = FindingMark { fingerprint: "00ff".into(), rule_id, lines: 1, severity, confidence }.write().unwrap();
        let ours = ("github-actions".to_owned(), format!("It leaks.\n\n{mark}"));
        let thread = |comments: &[&(String, String)]| OpenThread {
            path: "a.c".into(),
            comments: comments.iter().map(|comment| (*comment).clone()).collect(),
        };
        let answer = ("bob".to_owned(), "no, see b.c".to_owned());
        assert_eq!(threads(&[thread(&[&ours]), thread(&[&ours, &answer])]), "a.c\nbob: no, see b.c\n\n");
    }

    #[test]
    fn of_a_log_the_error_and_the_end_stay() {
        let mut lines: Vec<String> =
            (0..1_000).map(|number| format!("2026-01-02T03:04:05.1234567Z l{number}")).collect();
        lines[500] = "2026-01-02T03:04:05.1234567Z \u{1b}[31m##[error]\u{1b}[0mit failed".into();
        let shown = excerpt(&lines.join("\n"));
        let shown: Vec<&str> = shown.lines().collect();
        assert_eq!((shown[0], shown[100], shown[199]), ("l400", "##[error]it failed", "l599"));
        assert_eq!((shown[200], shown[201], shown.len()), ("...", "l900", 301));
        assert_eq!(excerpt("2026 is a year\nb\n"), "2026 is a year\nb\n");
    }
}
