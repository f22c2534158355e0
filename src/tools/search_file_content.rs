//! Implements `search_file_content`: finds lines that match a pattern, with ripgrep's own libraries.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use globset::GlobMatcher;
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use serde::Deserialize;
use serde_json::{Value, json};

use super::common::{bound, names, search};
use super::glob::{below, matcher};
use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool, named, whole};
use crate::bounded;
use crate::change::Entry;
use crate::change::text::Decoded;
use crate::path::RelPath;
use crate::policy::{Access, Grant};
use crate::threads::on_all_cores;
use crate::tool_name::ToolId;
use crate::workspace::Workspace;
use crate::workspace::walk::{Filter, Found};

/// The tool.
pub struct SearchFileContent;

/// Matches shown if the call does not say.
const MATCHES: usize = 20;
/// Maximum that a call may ask for.
const MATCHES_MOST: usize = 100;
/// Up to how many matches are counted if not all are shown.
const COUNTED: usize = 10_000;
/// Characters of a line that are kept until it is shown: a secret in it is not cut.
const KEPT_CHARS: usize = 10_000;
/// The longest line that is searched: more is not a text that a model could use.
const LINE_BYTES: usize = 64 * 1024 * 1024;

impl TypedTool for SearchFileContent {
    type Args = SearchArgs;
    const ID: ToolId = ToolId::SearchFileContent;
    const EFFECTS: Effects = Effects::Reads;
    const DESCRIPTION: &'static str = "Search the lines of files with a regex.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "pattern": {"type": "string"},
            "path": {"type": "string", "description": "Folder or file"},
            "include": {"type": "string", "description": "Glob of files, as *.ts"},
            "maxResults": {"type": "integer", "minimum": 1, "description": "20 if not given, at most 100"},
            "case_sensitive": {"type": "boolean"}
        }, "required": ["pattern"]})
    }

    fn call(&self, args: SearchArgs) -> Result<Box<dyn Call>, ToolError> {
        let SearchArgs { pattern, .. } = args;
        let case_sensitive = args.case_sensitive.unwrap_or(false);
        if pattern.is_empty() {
            return Err(ToolError::arguments("params/pattern must not be empty"));
        }
        let include = args.include.filter(|include| !include.is_empty());
        Ok(Box::new(SearchCall {
            query: Query { regex: Regex::new(&of_one_line(&pattern), case_sensitive)?, pattern, case_sensitive },
            path: named(args.path).unwrap_or_else(|| ".".into()),
            matcher: include
                .as_ref()
                .map(|include| matcher(include, true))
                .transpose()
                .map_err(|error| ToolError::arguments(error.message.replace("params/pattern", "params/include")))?,
            include,
            most: args.most.unwrap_or(MATCHES).clamp(1, MATCHES_MOST),
        }))
    }
}

/// Returns a pattern with `$` for a line break at its end and `^` for one at its beginning: lines are searched without
/// theirs.
fn of_one_line(pattern: &str) -> Cow<'_, str> {
    let ends = ["\\r\\n", "\\n", "\r\n", "\n"];
    let begin = ends.iter().find_map(|end| pattern.strip_prefix(end));
    let inner = begin.unwrap_or(pattern);
    let is_escape = |rest: &&str| (rest.len() - rest.trim_end_matches('\\').len()).is_multiple_of(2);
    let end = ends.iter().find_map(|end| inner.strip_suffix(end)).filter(is_escape);
    if (begin.is_none() && end.is_none()) || end.unwrap_or(inner).is_empty() {
        return Cow::Borrowed(pattern);
    }
    let mark = |is_there: bool, mark: &'static str| if is_there { mark } else { "" };
    Cow::Owned(format!("{}{}{}", mark(begin.is_some(), "^"), end.unwrap_or(inner), mark(end.is_some(), "$")))
}

/// What the model gives.
#[derive(Deserialize)]
pub struct SearchArgs {
    pattern: String,
    path: Option<PathBuf>,
    include: Option<String>,
    #[serde(rename = "maxResults", default, deserialize_with = "whole")]
    most: Option<usize>,
    case_sensitive: Option<bool>,
}

struct SearchCall {
    query: Query,
    path: PathBuf,
    include: Option<String>,
    matcher: Option<GlobMatcher>,
    most: usize,
}

impl Call for SearchCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Search { root: self.path.clone(), patterns: self.include.iter().cloned().collect() }]
    }

    fn subject(&self, root: &Path) -> String {
        names::pattern_within(&self.query.pattern, root, &self.path)
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let scope = search::Scope::new(&self.path, grant, cx).map_err(|error| self.swapped(error))?;
            let outside = scope.outside().map(Path::to_path_buf);
            let SearchCall { query, path, include, matcher, most } = *self;
            // Models that write their calls as text count badly.
            let counted = cx.text_tools;
            let task = cx.memory.task.get().map(|task| task.text.to_lowercase()).unwrap_or_default();
            let place = format!(
                "\"{}\" in path \"{}\"{}",
                query.pattern,
                names::one_line(&path),
                include.map(|include| format!(" (filter: \"{include}\")")).unwrap_or_default()
            );
            let found = search::in_background(move |cancelled| {
                let want =
                    |path: &RelPath| matcher.as_ref().is_none_or(|matcher| matcher.is_match(below(path, &scope.start)));
                let walk = scope.walk(&Filter { git: true, enter: &|_| true, want: &want }, cancelled);
                let within = (scope.source.root(), &*scope.may_read);
                let search = |regex: &Regex, most| search_all(within, &walk.files, regex, most, cancelled);
                Matches::find(&search, &query, (most, counted), &task)
            })
            .await??;
            if found.lines.is_empty() {
                return Ok(ToolOutput::text(format!("No matches found for pattern {place}."), "No matches found"));
            }
            for (path, _) in &found.lines {
                // A file that cannot be read again shows what was found.
                let content = match &outside {
                    Some(folder) => bounded::regular(&path.under(folder), names::MOST_BYTES).ok().map(Entry::file),
                    None => cx.workspace.entry_within(path, names::MOST_BYTES).ok(),
                };
                cx.workspace.notice(content.as_ref().and_then(Entry::content).unwrap_or_default(), false);
            }
            Ok(listed(&found, most, (outside.as_deref(), &place), cx.workspace))
        })
    }
}

impl SearchCall {
    /// Adds to the message about a missing path what may be meant: the pattern looks like a file.
    fn swapped(&self, mut error: ToolError) -> ToolError {
        let is_path = |text: &str| text.contains(['.', '/']) && !text.contains([' ', '*', '\\', '(', '[', '+']);
        if is_path(&self.query.pattern) && error.message.starts_with("Path does not exist") {
            let (file, text) = (&self.query.pattern, names::one_line(&self.path));
            error
                .message
                .push_str(&format!(". To search for \"{text}\" in {file}, give {file} as path and {text} as pattern."));
        }
        error
    }
}

/// A pattern with its other readings, which are compiled where they are needed.
struct Query {
    regex: Regex,
    pattern: String,
    case_sensitive: bool,
}

impl Query {
    /// The same letters exactly, where capital letters were given and are not asked for.
    fn exact(&self) -> Option<Regex> {
        let mut escaped = false;
        let has_capital = self.pattern.chars().any(|c| !std::mem::replace(&mut escaped, c == '\\') && c.is_uppercase());
        (has_capital && !self.case_sensitive).then(|| Regex::new(&self.pattern, true).ok()).flatten()
    }

    /// The pattern as plain text, where it means something else as a regular expression.
    fn text(&self) -> Option<Regex> {
        let text = regex::escape(&self.pattern);
        (text != self.pattern).then(|| Regex::new(&text, self.case_sensitive).ok()).flatten()
    }
}

/// Lines by their file.
type Lined = Vec<(RelPath, Vec<Line>)>;

/// What a search found.
struct Matches {
    /// The lines by file, at most one more than are shown.
    lines: Lined,
    /// All matches, if more were found than are shown and they were counted, up to [`COUNTED`].
    all: Option<usize>,
    /// Those of the shown ones that have the pattern's own capital letters, if not all have.
    exact: Option<usize>,
    /// How many are in which top folder, if all are shown and in more than one.
    folders: Option<String>,
    /// The pattern was found as plain text.
    is_text: bool,
}

impl Matches {
    /// Searches; a pattern that finds nothing as a regular expression is searched as text, as `#[test]` or `a[0]`.
    fn find(
        search: &dyn Fn(&Regex, usize) -> Result<Lined, ToolError>,
        query: &Query,
        (most, counted): (usize, bool),
        task: &str,
    ) -> Result<Matches, ToolError> {
        let mut lines = search(&query.regex, most + 1)?;
        let text = if lines.is_empty() { query.text() } else { None };
        if let Some(text) = &text {
            lines = search(text, most + 1)?;
        }
        let (shown, is_text) = (count(&lines), text.is_some());
        let (mut all, mut exact) = (None, None);
        if counted && shown > most {
            all = Some(count(&search(text.as_ref().unwrap_or(&query.regex), COUNTED)?));
        } else if counted && !is_text {
            let is_exact = |exact: Regex| {
                lines.iter().flat_map(|(_, lines)| lines).filter(|line| exact.matches(&line.text)).count()
            };
            exact = query.exact().map(is_exact).filter(|exact| (1..shown).contains(exact));
        }
        let folders = if counted && shown <= most { by_folder(&lines, task) } else { None };
        Ok(Matches { lines, all, exact, folders, is_text })
    }
}

/// Counts the lines in each of a few top folders; `None` where that tells nothing, or the task, in small letters, names none of
/// them: a small model takes one of the numbers for the answer.
fn by_folder(lines: &Lined, task: &str) -> Option<String> {
    const MOST: usize = 4;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (path, lines) in lines {
        let mut parts = path.as_path().iter();
        let first = parts.next().filter(|_| parts.next().is_some());
        let folder = first.map_or_else(|| "the root".to_owned(), |first| names::one_line(Path::new(first)));
        *counts.entry(folder).or_default() += lines.len();
    }
    let listed: Vec<String> = counts.iter().map(|(folder, count)| format!("{count} in {folder}")).collect();
    let is_word =
        |word: &str| task.split(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).any(|named| named == word);
    let is_asked = counts.keys().any(|folder| is_word(&folder.to_lowercase()));
    (is_asked && (2..=MOST).contains(&listed.len())).then(|| listed.join(", "))
}

fn count(lines: &[(RelPath, Vec<Line>)]) -> usize {
    lines.iter().map(|(_, lines)| lines.len()).sum()
}

/// A line that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    number: u64,
    text: String,
}

/// A compiled pattern.
enum Regex {
    /// By lines of bytes, in linear time.
    Plain(RegexMatcher),
    /// With look-around or back-references, line by line.
    Fancy(fancy_regex::Regex),
}

impl Regex {
    fn new(pattern: &str, case_sensitive: bool) -> Result<Regex, ToolError> {
        let plain = RegexMatcherBuilder::new()
            .case_insensitive(!case_sensitive)
            .multi_line(true)
            .line_terminator(Some(b'\n'))
            .crlf(true)
            .build(pattern);
        let error = match plain {
            Ok(regex) => return Ok(Regex::Plain(regex)),
            Err(error) => error,
        };
        let fancy = fancy_regex::RegexBuilder::new(pattern).case_insensitive(!case_sensitive).build();
        match fancy {
            // What our own dialect refuses for its meaning (a line break) the other one would only never match.
            Ok(regex) if !matches!(error.kind(), grep_regex::ErrorKind::NotAllowed(_)) => Ok(Regex::Fancy(regex)),
            Ok(_) | Err(_) => {
                Err(ToolError::arguments(format!("Invalid regular expression pattern: {pattern}. {error}")))
            }
        }
    }

    /// Tells whether a line matches.
    fn matches(&self, line: &str) -> bool {
        match self {
            Regex::Plain(regex) => regex.is_match(line.as_bytes()).unwrap_or(false),
            Regex::Fancy(regex) => regex.is_match(line).unwrap_or(false),
        }
    }
}

/// Searches files in their order and returns the first `most` lines, by file.
///
/// Files are searched in parallel, so later ones may be searched in vain; what is returned is always the same. Whether
/// a file may be read is asked about those alone that have something to show: the answer needs a system call.
fn search_all(
    (root, may_read): (&Path, &(dyn Fn(&RelPath) -> bool + Send + Sync)),
    files: &[Found],
    regex: &Regex,
    most: usize,
    cancelled: &AtomicBool,
) -> Result<Lined, ToolError> {
    let next = AtomicUsize::new(0);
    let progress = Mutex::new(Progress::default());
    let enough = AtomicBool::new(false);
    let work = || {
        let mut searcher = searcher();
        while !enough.load(Ordering::Relaxed) && !cancelled.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(index) else { break };
            let mut lines = search_one(&mut searcher, (root, file), regex, most, cancelled);
            if lines.as_ref().map_or(true, |lines| !lines.is_empty()) && !may_read(&file.path) {
                lines = Ok(Vec::new());
            }
            let mut progress = progress.lock().expect("nothing panics while it holds the results");
            if progress.add(index, lines) >= most {
                enough.store(true, Ordering::Relaxed);
            }
        }
    };
    on_all_cores(files.len(), work);
    let progress = progress.into_inner().expect("nothing panics while it holds the results");
    let mut left = most;
    let mut found = Vec::new();
    for (index, result) in progress.found {
        if left == 0 {
            break;
        }
        let mut lines = result?;
        lines.truncate(left);
        left -= lines.len();
        if !lines.is_empty() {
            found.push((files[index].path.clone(), lines));
        }
    }
    Ok(found)
}

/// Results by the index of their file, and how far every file is done.
#[derive(Default)]
struct Progress {
    found: BTreeMap<usize, Result<Vec<Line>, ToolError>>,
    /// Files that are done although one before them is not.
    ahead: std::collections::BTreeSet<usize>,
    /// All files below this index are done.
    done: usize,
    /// Lines found in them; an error counts as enough.
    lines: usize,
}

impl Progress {
    /// Adds a file's lines and returns how many are without a gap before them.
    fn add(&mut self, index: usize, result: Result<Vec<Line>, ToolError>) -> usize {
        if result.as_ref().map_or(true, |lines| !lines.is_empty()) {
            self.found.insert(index, result);
        }
        self.ahead.insert(index);
        while self.ahead.remove(&self.done) {
            self.lines = match self.found.get(&self.done) {
                Some(Ok(lines)) => self.lines.saturating_add(lines.len()),
                Some(Err(_)) => usize::MAX,
                None => self.lines,
            };
            self.done += 1;
        }
        self.lines
    }
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_BYTES))
        .line_number(true)
        .build()
}

/// Lists the matches, at most so many.
fn listed(found: &Matches, most: usize, (outside, place): (Option<&Path>, &str), workspace: &Workspace) -> ToolOutput {
    let total = count(&found.lines);
    let cut = total > most;
    let shown = total.min(most);
    let noun = if shown == 1 { "match" } else { "matches" };
    let kind = if found.is_text { "plain text" } else { "pattern" };
    let folders = found.folders.as_ref().map(|folders| format!(" in all, {folders}")).unwrap_or_default();
    let mut text = format!("Found {shown} {noun}{folders} for {kind} {place}");
    match (found.all, found.exact) {
        (Some(COUNTED..), _) => text.push_str(&format!("; there are {COUNTED} or more")),
        (Some(all), _) => text.push_str(&format!("; there are {all} in all")),
        (None, Some(exact)) => text.push_str(&format!("; {exact} of them in exactly these letters")),
        (None, None) => {}
    }
    text.push_str(":\n---");
    let mut left = shown;
    for (path, lines) in &found.lines {
        if left == 0 {
            break;
        }
        let name = match &outside {
            Some(folder) => names::one_line(&path.under(folder)),
            None => names::relative(path),
        };
        text.push_str(&format!("\nFile: {name}"));
        for line in lines.iter().take(left) {
            let shown = bound::line(&line.text, workspace);
            let mark = if shown.is_some() { "... [truncated]" } else { "" };
            text.push_str(&format!("\nL{}: {}{mark}", line.number, shown.unwrap_or(&line.text)));
        }
        left -= lines.len().min(left);
        text.push_str("\n---");
    }
    if cut {
        text.push_str(&format!(
            "\nWARNING: Results truncated to prevent context overflow. To see more results:\n\
             - Use a more specific pattern to reduce matches\n\
             - Add file filters with the 'include' parameter (e.g., \"*.js\", \"src/**\")\n\
             - Specify a narrower 'path' to search in a subdirectory\n\
             - Increase 'maxResults' parameter if you need more matches (current: {most})"
        ));
    }
    let display = format!("Found {shown} {noun}{}", if cut { " (truncated)" } else { "" });
    ToolOutput::text(text, display)
}

/// Searches one file; one that cannot be read has no matches.
fn search_one(
    searcher: &mut Searcher,
    (root, file): (&Path, &Found),
    regex: &Regex,
    most: usize,
    cancelled: &AtomicBool,
) -> Result<Vec<Line>, ToolError> {
    match regex {
        Regex::Plain(matcher) => {
            let mut sink = Lines { lines: Vec::new(), most };
            // A file that vanished, may not be read or has an endless line is left out, as grep would.
            let _ = match &file.staged {
                Some(content) => searcher.search_slice(matcher, content, &mut sink),
                None => match File::open(file.path.under(root)) {
                    Ok(open) => searcher.search_file(matcher, &open, &mut sink),
                    Err(_) => Ok(()),
                },
            };
            Ok(sink.lines)
        }
        Regex::Fancy(regex) => {
            let content = match &file.staged {
                Some(content) => content.to_vec(),
                None => {
                    let path = file.path.under(root);
                    // This dialect needs the text whole; what does not fit into memory is left out.
                    bounded::regular(&path, names::MOST_BYTES).unwrap_or_default()
                }
            };
            search_text(&content, &file.path, regex, most, cancelled)
        }
    }
}

/// Searches a text line by line, until nobody waits for it.
fn search_text(
    content: &[u8],
    path: &RelPath,
    regex: &fancy_regex::Regex,
    most: usize,
    cancelled: &AtomicBool,
) -> Result<Vec<Line>, ToolError> {
    let Some(decoded) = Decoded::from_bytes(content) else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(decoded.text.lines()) {
        match regex.is_match(line) {
            Ok(true) => lines.push(Line { number, text: shown(line.as_bytes()) }),
            Ok(false) => {}
            Err(error) => {
                let place = names::relative(path);
                return Err(ToolError::failed(format!(
                    "the pattern is too costly for {place} line {number} ({error}); write it without \
                     look-around or back-references"
                )));
            }
        }
        if lines.len() >= most || cancelled.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(lines)
}

/// Collects the first matching lines of a file.
struct Lines {
    lines: Vec<Line>,
    most: usize,
}

impl Sink for Lines {
    type Error = std::io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, std::io::Error> {
        let number = found.line_number().unwrap_or_default();
        self.lines.push(Line { number, text: shown(found.bytes()) });
        Ok(self.lines.len() < self.most)
    }
}

/// Returns a line as it is, less its end; one that is not UTF-8 is read as Latin-1.
fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = match std::str::from_utf8(line) {
        Ok(text) => text.to_owned(),
        Err(_) => encoding_rs::mem::decode_latin1(line).into_owned(),
    };
    match text.char_indices().nth(KEPT_CHARS) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
