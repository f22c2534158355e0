//! Implements `search_file_content`: finds lines that match a pattern, with ripgrep's own libraries.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use globset::GlobMatcher;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use serde_json::{Map, Value, json};

use super::common::{names, search};
use super::glob::{below, matcher};
use super::{Call, Tool, ToolContext, ToolError, ToolOutput, optional_path, required_str};
use crate::bounded;
use crate::change::text::Decoded;
use crate::model::{BoxFuture, ToolSpec};
use crate::path::RelPath;
use crate::policy::{Access, Grant};
use crate::threads::on_all_cores;
use crate::workspace::walk::{Filter, Found};

/// The tool.
pub struct SearchFileContent;

/// Matches shown if the call does not say.
const MATCHES: usize = 20;
/// Maximum that a call may ask for.
const MATCHES_MOST: usize = 100;
/// Characters shown of a line.
const LINE_CHARS: usize = 2_000;
/// The longest line that is searched: more is not a text that a model could use.
const LINE_BYTES: usize = 64 * 1024 * 1024;

impl Tool for SearchFileContent {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "search_file_content".into(),
            description: "Search the lines of files with a regex.".into(),
            parameters: json!({"type": "object", "properties": {
                "pattern": {"type": "string"},
                "path": {"type": "string", "description": "Folder or file"},
                "include": {"type": "string", "description": "Glob of files, as *.ts"},
                "maxResults": {"type": "integer", "minimum": 1, "description": "20 if not given, at most 100"},
                "case_sensitive": {"type": "boolean"}
            }, "required": ["pattern"]}),
        }
    }

    fn display_name(&self) -> &'static str {
        "SearchText"
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
        let pattern = required_str(&arguments, "pattern")?;
        if pattern.is_empty() {
            return Err(ToolError::arguments("params/pattern must not be empty"));
        }
        let case_sensitive = arguments.get("case_sensitive").and_then(Value::as_bool).unwrap_or(false);
        let include = arguments.get("include").and_then(Value::as_str).filter(|include| !include.is_empty());
        let most = arguments.get("maxResults").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
        Ok(Box::new(SearchCall {
            regex: Regex::new(pattern, case_sensitive)?,
            pattern: pattern.to_owned(),
            path: optional_path(&arguments, "path").unwrap_or(Path::new(".")).to_path_buf(),
            matcher: include
                .map(|include| matcher(include, true))
                .transpose()
                .map_err(|error| ToolError::arguments(error.message.replace("params/pattern", "params/include")))?,
            include: include.map(str::to_owned),
            most: most.unwrap_or(MATCHES).clamp(1, MATCHES_MOST),
        }))
    }
}

struct SearchCall {
    regex: Regex,
    pattern: String,
    path: PathBuf,
    include: Option<String>,
    matcher: Option<GlobMatcher>,
    most: usize,
}

impl Call for SearchCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Search { root: self.path.clone(), patterns: self.include.iter().cloned().collect() }]
    }

    fn describe(&self) -> String {
        format!("'{}' within {}", names::brief(&self.pattern), names::one_line(&self.path))
    }

    fn run<'a>(
        self: Box<Self>,
        grant: &'a Grant,
        cx: &'a ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let scope = search::Scope::new(&self.path, grant, cx)?;
            let outside = scope.outside().map(Path::to_path_buf);
            let SearchCall { regex, pattern, path, include, matcher, most } = *self;
            let about = format!(
                "for pattern \"{pattern}\" in path \"{}\"{}",
                names::one_line(&path),
                include.map(|include| format!(" (filter: \"{include}\")")).unwrap_or_default()
            );
            let found = search::in_background(move |cancelled| {
                let want =
                    |path: &RelPath| matcher.as_ref().is_none_or(|matcher| matcher.is_match(below(path, &scope.start)));
                let walk = scope.walk(&Filter { git: true, enter: &|_| true, want: &want }, cancelled);
                search_all((scope.source.root(), &*scope.may_read), &walk.files, &regex, most + 1, cancelled)
            })
            .await??;
            if found.is_empty() {
                return Ok(ToolOutput::text(format!("No matches found {about}."), "No matches found"));
            }
            let total: usize = found.iter().map(|(_, lines)| lines.len()).sum();
            let cut = total > most;
            let shown = total.min(most);
            let noun = if shown == 1 { "match" } else { "matches" };
            let mut text = format!("Found {shown} {noun} {about}:\n---");
            let mut left = shown;
            for (path, lines) in found {
                if left == 0 {
                    break;
                }
                let name = match &outside {
                    Some(folder) => names::one_line(&path.under(folder)),
                    None => names::relative(&path),
                };
                text.push_str(&format!("\nFile: {name}"));
                for line in lines.iter().take(left) {
                    text.push_str(&format!("\nL{}: {}", line.number, line.text));
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
            Ok(ToolOutput::text(text, display))
        })
    }
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
) -> Result<Vec<(RelPath, Vec<Line>)>, ToolError> {
    let next = AtomicUsize::new(0);
    let progress = Mutex::new(Progress::default());
    let enough = AtomicBool::new(false);
    let work = || {
        let mut searcher = searcher();
        while !enough.load(Ordering::Relaxed) && !cancelled.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(index) else { break };
            let mut lines = search_one(&mut searcher, root, file, regex, most);
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

/// Searches one file; one that cannot be read has no matches.
fn search_one(
    searcher: &mut Searcher,
    root: &Path,
    file: &Found,
    regex: &Regex,
    most: usize,
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
            let Some(decoded) = Decoded::from_bytes(&content) else { return Ok(Vec::new()) };
            let mut lines = Vec::new();
            for (number, line) in (1..).zip(decoded.text.lines()) {
                match regex.is_match(line) {
                    Ok(true) => lines.push(Line { number, text: shown(line.as_bytes()) }),
                    Ok(false) => {}
                    Err(error) => {
                        let place = names::relative(&file.path);
                        return Err(ToolError::failed(format!(
                            "the pattern is too costly for {place} line {number} ({error}); write it without \
                             look-around or back-references"
                        )));
                    }
                }
                if lines.len() >= most {
                    break;
                }
            }
            Ok(lines)
        }
    }
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
    match text.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}... [truncated]", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Project;
    use proptest::prelude::*;

    fn search(project: &Project, arguments: Value) -> String {
        project.says("search_file_content", arguments)
    }

    #[test]
    fn matches_are_grouped_by_file() {
        let project = Project::new(&[
            ("src/utils.ts", b"one\n  function f() {}\r\nF\n"),
            ("src/a\nb.ts", b"fx\n"),
            ("src/x.rs", b"f\n"),
        ]);
        insta::assert_snapshot!(search(&project, json!({"pattern": "f", "include": "*.ts"})), @r#"
        Found 3 matches for pattern "f" in path "." (filter: "*.ts"):
        ---
        File: src/a\nb.ts
        L1: fx
        ---
        File: src/utils.ts
        L2:   function f() {}
        L3: F
        ---
        "#);
        insta::assert_snapshot!(search(&project, json!({"pattern": "^f$", "path": "src/utils.ts"})), @r#"
        Found 1 match for pattern "^f$" in path "src/utils.ts":
        ---
        File: src/utils.ts
        L3: F
        ---
        "#);
        assert_eq!(
            search(&project, json!({"pattern": "f", "path": "src", "include": "*.md"})),
            "No matches found for pattern \"f\" in path \"src\" (filter: \"*.md\")."
        );
        assert_eq!(
            search(&project, json!({"pattern": "F()", "case_sensitive": true, "dir_path": "src"})).lines().next(),
            Some("Found 1 match for pattern \"F()\" in path \"src\":")
        );
        assert_eq!(search(&project, json!({"pattern": "f", "path": "none"})), "Path does not exist: /p/none");
    }

    #[test]
    fn a_cut_answer_says_how_to_see_more_and_is_always_the_same() {
        let files: Vec<(String, Vec<u8>)> = (0..200)
            .map(|n| (format!("d{}/f{n:03}", n % 7), format!("hit {n}\n").repeat(n % 4).into_bytes()))
            .collect();
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
        let project = Project::new(&files);
        let said = search(&project, json!({"pattern": "hit", "maxResults": 2}));
        insta::assert_snapshot!(said, @r#"
        Found 2 matches for pattern "hit" in path ".":
        ---
        File: d0/f007
        L1: hit 7
        L2: hit 7
        ---
        WARNING: Results truncated to prevent context overflow. To see more results:
        - Use a more specific pattern to reduce matches
        - Add file filters with the 'include' parameter (e.g., "*.js", "src/**")
        - Specify a narrower 'path' to search in a subdirectory
        - Increase 'maxResults' parameter if you need more matches (current: 2)
        "#);
        let first = search(&project, json!({"pattern": "hit"}));
        for _ in 0..20 {
            assert_eq!(search(&project, json!({"pattern": "hit"})), first);
        }
        let most = search(&project, json!({"pattern": "hit", "limit": 5000}));
        assert!(most.starts_with("Found 100 matches"), "{most}");
    }

    #[test]
    fn look_around_works_and_a_wrong_pattern_is_named() {
        let project = Project::new(&[("a", b"foo bar\nfoo baz\nabab\n")]);
        let lines = |pattern: &str| search(&project, json!({"pattern": pattern})).matches("\nL").count();
        assert_eq!(lines("foo (?!bar)"), 1);
        assert_eq!(lines(r"(ab)\1"), 1);
        let said = search(&project, json!({"pattern": "a("}));
        assert!(said.starts_with("Invalid regular expression pattern: a(. "), "{said}");
        assert!(search(&project, json!({"pattern": "a\nb"})).starts_with("Invalid regular expression pattern: "));
        let costly = Project::new(&[("a", format!("{}!", "a".repeat(60)).as_bytes())]);
        assert!(search(&costly, json!({"pattern": "^(?:a|a(?=.))+b"})).contains("too costly for a line 1"));
    }

    #[test]
    fn a_file_that_may_not_be_read_neither_shows_a_line_nor_counts_nor_fails() {
        let project = Project::new(&[(".env", b"KEY=abc\nKEY=def\n"), ("z.txt", b"KEY\n")]);
        let answer = search(&project, json!({"pattern": "KEY", "maxResults": 1}));
        assert!(answer.starts_with("Found 1 match ") && answer.contains("File: z.txt"), "{answer}");
        assert!(!answer.contains("truncated") && !answer.contains(".env"), "{answer}");
        let answer = search(&project, json!({"pattern": "KEY(?==)"}));
        assert!(answer.starts_with("No matches found"), "{answer}");
    }

    #[test]
    fn the_staged_view_is_searched() {
        let project =
            Project::new(&[("gone", b"hit\n"), ("changed", b"hit\n"), ("kept", b"hit\n"), (".gitignore", b"ig\n")]);
        let stage = |path: &str, after: crate::change::Entry| {
            let grant = Grant::for_tests(&[], &[(path, path)], |_| true);
            project.workspace.write(&grant, Path::new(path), after).unwrap();
        };
        stage("gone", crate::change::Entry::Absent);
        stage("changed", crate::change::Entry::file("no\nhit 2\n"));
        stage("new/file", crate::change::Entry::file("hit 3\n"));
        stage("ig/file", crate::change::Entry::file("hit 4\n"));
        insta::assert_snapshot!(search(&project, json!({"pattern": "hit"})), @r#"
        Found 3 matches for pattern "hit" in path ".":
        ---
        File: changed
        L2: hit 2
        ---
        File: kept
        L1: hit
        ---
        File: new/file
        L1: hit 3
        ---
        "#);
    }

    #[test]
    fn odd_files_neither_hang_nor_show() {
        let project = Project::new(&[
            ("bin", b"\0hit\n"),
            (".git/config", b"hit\n"),
            (".env", b"hit\n"),
            (".hidden", b"hit\n"),
            ("q", b"hit\n"),
            (".qwenignore", b"q\n"),
            ("latin", b"hit gr\xfcn\n"),
            ("utf16", b"\xff\xfeh\0i\0t\0\n\0"),
            ("d/", b""),
        ]);
        let at = |name: &str| project.folder.path().join(name);
        std::fs::write(at("long"), [b"x".repeat(3_000_000), b" hit".to_vec()].concat()).unwrap();
        std::os::unix::fs::symlink("..", at("d/loop")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let said = search(&project, json!({"pattern": "hit|root"}));
        let files: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("File: ")).collect();
        assert_eq!(files, [".hidden", "latin", "long", "utf16"]);
        assert!(said.contains("L1: hit grün\n") && said.contains("x... [truncated]\n"), "line ends and lengths");
        assert!(said.len() < 4_000);
    }

    /// Runs ripgrep over a tree with the same rules, and returns what it prints.
    fn ripgrep(tree: &Path, arguments: &[&str]) -> Vec<u8> {
        let rules = ["--hidden", "--no-config", "--no-ignore-dot", "--no-ignore-global", "--no-require-git", "--null"];
        let mut command = std::process::Command::new("rg");
        command.args(rules).args(["--glob", "!.git"]).args(arguments).current_dir(tree);
        command.stdin(std::process::Stdio::null()).output().expect("rg is installed").stdout
    }

    /// The whole of a large tree, file by file and line by line:
    /// `QWEN_TREE=/usr/src/linux cargo test --lib -- --ignored as_ripgrep`.
    #[test]
    #[ignore = "needs rg and a large tree in QWEN_TREE"]
    fn a_large_tree_has_the_files_and_lines_as_ripgrep_finds_them() {
        let tree = PathBuf::from(std::env::var("QWEN_TREE").expect("QWEN_TREE names a tree")).canonicalize().unwrap();
        let workspace = crate::workspace::Workspace::open(&tree).unwrap();
        let source = crate::workspace::ignore::Source::new(&workspace);
        let cancelled = AtomicBool::new(false);
        let filter = Filter { git: true, enter: &|_| true, want: &|_| true };
        let walk = crate::workspace::walk::walk(&source, &RelPath::root(), &filter, &cancelled);
        let ours: Vec<&[u8]> = walk.files.iter().map(|found| found.path.as_bytes()).collect();
        let listed = ripgrep(&tree, &["--files"]);
        let mut theirs: Vec<&[u8]> = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).collect();
        theirs.sort_unstable();
        assert_eq!(ours.len(), theirs.len());
        assert_eq!(ours, theirs);
        for (pattern, case_sensitive) in [
            ("EXPORT_SYMBOL_GPL", true),
            ("export_symbol_gpl", false),
            ("[[:upper:]]{12,}_[0-9]+\\b", true),
            ("^#define\\s+PCI_", true),
            ("return -E(NOMEM|INVAL);$", true),
            ("größe|naïve|Müller", false),
            ("\\p{Greek}", true),
            ("schedule_timeout_uninterruptible", true),
            ("no_such_word_anywhere_at_all", false),
            ("^$", true),
        ] {
            let regex = Regex::new(pattern, case_sensitive).unwrap();
            let found = search_all((&tree, &|_| true), &walk.files, &regex, usize::MAX, &cancelled).unwrap();
            let again = search_all((&tree, &|_| true), &walk.files, &regex, usize::MAX, &cancelled).unwrap();
            assert!(found == again, "{pattern} differs from one run to the next");
            let ours: Vec<(Vec<u8>, u64)> = found
                .iter()
                .flat_map(|(path, lines)| lines.iter().map(|line| (path.as_bytes().to_vec(), line.number)))
                .collect();
            let case = if case_sensitive { "--case-sensitive" } else { "--ignore-case" };
            let printed = ripgrep(&tree, &["--crlf", "--line-number", "--no-heading", case, "--regexp", pattern]);
            let mut theirs: Vec<(Vec<u8>, u64)> = printed
                .split(|byte| *byte == b'\n')
                .filter_map(|line| {
                    let at = line.iter().position(|byte| *byte == 0)?;
                    let number = line[at + 1..].split(|byte| *byte == b':').next()?;
                    Some((line[..at].to_vec(), std::str::from_utf8(number).ok()?.parse().ok()?))
                })
                .collect();
            theirs.sort_unstable();
            let differs = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
            assert!(differs.is_none(), "{pattern}: {differs:?}");
            assert_eq!(ours.len(), theirs.len(), "{pattern}");
        }
    }

    fn name() -> impl Strategy<Value = String> {
        "[abc]{1,2}(\\.o)?"
    }

    proptest! {
        #![proptest_config(crate::properties::tried(40))]
        #[test]
        fn the_answer_is_that_of_a_naive_search(
            files in proptest::collection::btree_map((name(), name()), "[xy\\n]{0,6}", 0..12),
            staged in proptest::collection::btree_map((name(), name()), proptest::option::of("[xy\\n]{0,6}"), 0..4),
            ignores in proptest::collection::vec("!?/?[abc*]{1,2}(\\.o)?/?", 0..3),
        ) {
            let folder_of = |(folder, file): &(String, String)| format!("{folder}_d/{file}");
            let project = Project::new(&[(".gitignore", ignores.join("\n").as_bytes())]);
            let mut view: BTreeMap<String, String> = BTreeMap::new();
            for (path, text) in &files {
                let path = folder_of(path);
                std::fs::create_dir_all(project.folder.path().join(&path).parent().unwrap()).unwrap();
                project.on_disk(&path, text.as_bytes());
                view.insert(path, text.clone());
            }
            for (path, text) in &staged {
                let path = folder_of(path);
                let after = match text {
                    Some(text) => crate::change::Entry::file(text.as_bytes()),
                    None => crate::change::Entry::Absent,
                };
                let grant = Grant::for_tests(&[], &[(&path, &path)], |_| true);
                project.workspace.write(&grant, Path::new(&path), after).unwrap();
                match text {
                    Some(text) => view.insert(path, text.clone()),
                    None => view.remove(&path),
                };
            }
            let rules = crate::workspace::ignore::Rules::new(&project.workspace);
            let mut expected = Vec::new();
            for (path, text) in &view {
                if rules.of(&RelPath::new(path).unwrap(), crate::workspace::ignore::Kind::File).git {
                    continue;
                }
                for (number, line) in (1..).zip(text.lines()) {
                    if line.contains('x') {
                        expected.push(format!("{path} L{number}: {line}"));
                    }
                }
            }
            let said = search(&project, json!({"pattern": "x", "maxResults": 100}));
            let mut file = "";
            let mut found = Vec::new();
            for line in said.lines() {
                match line.strip_prefix("File: ") {
                    Some(name) => file = name,
                    None if line.starts_with('L') => found.push(format!("{file} {line}")),
                    None => {}
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
