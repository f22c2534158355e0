//! Makes the patches of a pull request as GitHub shows them: by git, three lines of context, none of a large file.

use std::path::Path;
use std::process::Command;

/// Lines after which GitHub shows no patch.
const MOST_LINES: usize = 3_000;

/// A file of a pull request.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) previous: Option<String>,
    pub(super) status: &'static str,
    pub(super) patch: Option<String>,
}

/// Runs git in a bare repository.
pub(super) fn git(repository: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a PATH"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", repository)
        .output()
        .expect("git runs");
    output.status.success().then_some(output.stdout)
}

/// Returns the files of `base...head`.
pub(super) fn files(repository: &Path, base: &str, head: &str) -> Vec<File> {
    let range = format!("{base}...{head}");
    let listed = git(repository, &["diff", "--name-status", "-z", "-M", &range]).expect("both commits are there");
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let mut words = listed.split('\0').filter(|word| !word.is_empty());
    let mut files = Vec::new();
    while let Some(letter) = words.next() {
        let mut next = || words.next().expect("a name").to_owned();
        let (previous, path) = if letter.starts_with('R') { (Some(next()), next()) } else { (None, next()) };
        let status = match letter.as_bytes()[0] {
            b'A' => "added",
            b'D' => "removed",
            b'R' => "renamed",
            _ => "modified",
        };
        let mut arguments = vec!["diff", "--no-color", "-M", &range, "--", &path];
        arguments.extend(previous.as_deref());
        let text = git(repository, &arguments).expect("a diff");
        let text = String::from_utf8_lossy(&text).into_owned();
        let patch = text.find("\n@@ ").map(|at| text[at + 1..].trim_end_matches('\n').to_owned());
        let patch = patch.filter(|patch| patch.lines().count() <= MOST_LINES);
        files.push(File { path, previous, status, patch });
    }
    files
}

/// Returns where a line of a commit stands in a later one, as GitHub says it of threads; `None` if it is gone.
pub(super) fn line_at(repository: &Path, path: &str, (commit, line): (&str, u64), head: &str) -> Option<u64> {
    let text = git(repository, &["diff", "--no-color", "-U0", commit, head, "--", path])?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut now = line;
    for hunk in text.lines().filter_map(|line| line.strip_prefix("@@ -")) {
        let (old, new) = hunk.split_once(" +")?;
        let numbers = |side: &str| {
            let (first, count) = side.split_once(',').unwrap_or((side, "1"));
            Some((first.parse::<u64>().ok()?, count.parse::<u64>().ok()?))
        };
        let ((first, gone), (_, added)) = (numbers(old)?, numbers(new.split(' ').next()?)?);
        match line {
            line if gone > 0 && (first..first + gone).contains(&line) => return None,
            line if line > first => now = now + added - gone,
            _ => {}
        }
    }
    Some(now)
}

/// Tells whether lines of the new side are in one hunk of a patch, by walking through it.
pub(super) fn has_lines(patch: &str, start: u64, end: u64) -> bool {
    let mut number = 0;
    let mut hunk: Vec<u64> = Vec::new();
    let is_in = |hunk: &[u64]| hunk.contains(&start) && hunk.contains(&end);
    for line in patch.lines() {
        if let Some(header) = line.strip_prefix("@@ ") {
            if is_in(&hunk) {
                return true;
            }
            hunk.clear();
            let new = header.split('+').nth(1).expect("a new side").split([',', ' ']).next().expect("a number");
            number = new.parse().expect("a number");
        } else if !line.starts_with(['-', '\\']) {
            hunk.push(number);
            number += 1;
        }
    }
    is_in(&hunk)
}
