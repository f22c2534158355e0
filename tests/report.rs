//! Tests the review page: what `qwen report` and `--report-file` write is one safe file that is itself a proposal.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use qwen_run::base::digest::sha256;
use qwen_run::change::patch::{ObjectFormat, print};
use qwen_run::change::{ChangeSet, Entry};
use qwen_run::deliver::propose::Proposal;
use qwen_run::emit::{Material, page, report, safe, to_line};
use qwen_run::event::*;
use qwen_run::exit::Exit;
use qwen_run::path::RelPath;
use serde_json::{Value, json};
use sha2::Digest as _;

use crate::support::{Project, call, say};

/// Elements of a page, and the attributes that each may have.
const ALLOWED: &[(&str, &str)] = &[
    ("html", "lang"),
    ("head", ""),
    ("meta", "charset http-equiv content name"),
    ("script", "type id"),
    ("title", "id"),
    ("style", ""),
    ("body", ""),
    ("header", "class"),
    ("nav", "aria-label"),
    ("aside", "aria-label"),
    ("main", ""),
    ("section", "id"),
    ("article", "class id"),
    ("footer", ""),
    ("div", "class id data-at aria-hidden role aria-label"),
    ("span", "class id aria-live"),
    ("p", "class data-o data-n"),
    ("a", "class href"),
    ("h1", ""),
    ("h2", ""),
    ("ol", ""),
    ("ul", "class"),
    ("li", ""),
    ("bdi", ""),
    ("b", ""),
    ("em", ""),
    ("i", "class"),
    ("ins", ""),
    ("del", ""),
    ("br", ""),
    ("hr", ""),
    ("code", "class id data-from"),
    ("pre", "class"),
    ("kbd", ""),
    ("small", ""),
    ("blockquote", "class"),
    ("dl", "class"),
    ("dt", ""),
    ("dd", ""),
    ("details", "class id open data-head"),
    ("summary", ""),
    ("fieldset", "class"),
    ("legend", "class"),
    ("label", "class"),
    ("input", "type name id checked value aria-label"),
    ("button", "id class type"),
    ("svg", "viewBox role aria-labelledby"),
    ("line", "class x1 x2 y1 y2"),
    ("rect", "class x y width height rx"),
    ("text", "x y text-anchor"),
    ("table", ""),
    ("thead", ""),
    ("tbody", ""),
    ("tr", ""),
    ("th", "scope"),
    ("td", ""),
];

/// An element: its name, its attributes, the text directly in it, and whether it is in what the model says.
pub(crate) struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    in_prose: bool,
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

fn parsed(page: &str) -> Vec<Element> {
    let dom = html5ever::parse_document(RcDom::default(), html5ever::ParseOpts::default()).one(page);
    let mut elements = Vec::new();
    walk(&dom.document, false, &mut elements);
    elements
}

fn walk(node: &Handle, in_prose: bool, elements: &mut Vec<Element>) {
    let mut within = in_prose;
    match &node.data {
        NodeData::Element { name, attrs, .. } => {
            let attributes: Vec<(String, String)> =
                attrs.borrow().iter().map(|of| (of.name.local.to_string(), of.value.to_string())).collect();
            let text = node.children.borrow().iter().filter_map(text_of).collect();
            let element = Element { name: name.local.to_string(), attributes, text, in_prose };
            within |= element.attribute("class") == Some("said");
            elements.push(element);
        }
        NodeData::Comment { contents } => panic!("a comment: {contents}"),
        _ => {}
    }
    for child in node.children.borrow().iter() {
        walk(child, within, elements);
    }
}

fn text_of(node: &Handle) -> Option<String> {
    let NodeData::Text { contents } = &node.data else { return None };
    Some(RefCell::borrow(contents).to_string())
}

/// Holds what is true of every page.
pub(crate) fn assert_safe(page: &str) -> Vec<Element> {
    let elements = parsed(page);
    for element in &elements {
        let allowed = ALLOWED.iter().find(|(name, _)| *name == element.name);
        let Some((_, attributes)) = allowed else { panic!("<{}> in the page", element.name) };
        for (name, value) in &element.attributes {
            assert!(attributes.split(' ').any(|allowed| allowed == name), "<{} {name}>", element.name);
            assert!(name != "href" || value.starts_with('#'), "{value}");
        }
        assert!(!element.in_prose || element.attributes.is_empty(), "<{}> with attributes in prose", element.name);
        let is_ours = ["script", "style"].contains(&element.name.as_str());
        assert!(is_ours || !element.text.contains(safe::is_active), "{:?}", element.text);
    }
    let ids: Vec<&str> = elements.iter().filter_map(|element| element.attribute("id")).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "an id twice");
    elements
}

fn changes_of(patch: &[u8], files: Vec<FileReport>) -> ChangesReport {
    let text = std::str::from_utf8(patch).ok().map(str::to_owned);
    let base64 = base64::engine::general_purpose::STANDARD.encode(patch);
    ChangesReport {
        mode: "dry-run".into(),
        files,
        patch_base64: text.is_none().then_some(base64),
        patch: text,
        patch_sha256: Some(sha256(patch)),
        ..ChangesReport::default()
    }
}

fn ended(change: impl FnOnce(&mut RunFinished)) -> Event {
    let mut end = RunFinished::failed(Exit::Ok, RunError::default());
    end.error = None;
    change(&mut end);
    Event::RunFinished(Box::new(end))
}

fn material(events: &[Event]) -> Material {
    let lines: String = events.iter().map(|event| to_line(event) + "\n").collect();
    Material::read([lines.as_bytes()]).unwrap()
}

/// A run in every field of which `text` stands; `said` is what the model says.
fn run_with(bytes: &[u8], said: &str) -> (Vec<Event>, Vec<u8>) {
    let text = &*String::from_utf8_lossy(bytes);
    let t = || text.to_owned();
    let some = || Some(text.to_owned());
    // A NUL would make it a binary file, and no path has one.
    let name: Vec<u8> = bytes.iter().map(|byte| if *byte == 0 { b'x' } else { *byte }).collect();
    let in_path: Vec<u8> = name.iter().map(|byte| if *byte == b'/' { b'x' } else { *byte }).collect();
    let path = RelPath::from_bytes(&[b"d/", &in_path[..], b".txt"].concat()).unwrap();
    let shown = path.to_string_lossy();
    let mut set = ChangeSet::default();
    set.stage(path, || Entry::Absent, Entry::file([&name[..], b"\n"].concat()));
    let patch = print(&set, &RelPath::root(), ObjectFormat::Sha1);
    let file = FileReport { path: shown.clone(), kind: t(), executes_later: true, ..FileReport::default() };
    let started = RunStarted {
        run_id: t(),
        session_id: t(),
        cwd: t(),
        model: t(),
        policy: PolicyFacts { name: t(), sha256: t(), layers: vec![t()] },
        changes_mode: t(),
        sandbox: t(),
        git_head: some(),
        recipe: Some(RecipeFacts { name: t(), version: some(), sha256: t() }),
        title: some(),
        ..RunStarted::default()
    };
    let input = json!({ "command": text });
    let call = |id: &str| CallFacts { id: id.into(), name: t(), input: input.clone(), recovered: some() };
    let calls = vec![call("1"), call("2")];
    let turn = AssistantTurn { turn: 1, id: t(), model: t(), text: said.into(), calls, ..AssistantTurn::default() };
    let decided = |id: &str, allowed| DecisionRecord {
        turn: 1,
        call_id: id.to_owned(),
        tool: t(),
        allowed,
        rule: some(),
        source: some(),
        reason: t(),
        ..DecisionRecord::default()
    };
    let result = |id: &str, is_error| {
        let id = id.to_owned();
        ToolResult {
            turn: 1,
            call_id: id,
            tool: t(),
            description: t(),
            is_error,
            content: t(),
            display: t(),
            ..ToolResult::default()
        }
    };
    let denial = PermissionDenial {
        tool_name: t(),
        tool_use_id: "2".into(),
        tool_input: input.clone(),
        rule: some(),
        source: some(),
        reason: t(),
        hint: some(),
        allow_with: some(),
        turn: 1,
    };
    let check =
        |passed| VerifyOutcome { command: t(), attempt: 1, output_tail: t(), passed, ..VerifyOutcome::default() };
    let findings = vec![json!({
        "rule_id": text, "severity": "error", "path": shown, "start_line": 1, "end_line": 1, "quote": text,
        "message": text, "confidence": text,
        "suggestion": {"start_line": 7, "end_line": 8, "replacement": text},
    })];
    let events = vec![
        Event::RunStarted(Box::new(started)),
        Event::Assistant(Box::new(turn)),
        Event::Decided(Box::new(decided("1", true))),
        Event::ToolResult(Box::new(result("1", true))),
        Event::Decided(Box::new(decided("2", false))),
        Event::Denied(Box::new(denial)),
        Event::ToolResult(Box::new(result("2", true))),
        Event::Retry(Retry { message: t(), class: t(), ..Retry::default() }),
        Event::ModelFallback { from: t(), to: t() },
        Event::Verify(check(false)),
        Event::Verify(check(true)),
        Event::Warning { message: t() },
        Event::Todos { todos: vec![json!(text)] },
        ended(|end| {
            end.error = Some(RunError { code: t(), message: t(), hint: some(), ..RunError::default() });
            end.result = format!("{said} again");
            end.changes = ChangesReport { base: some(), policy_changed: true, ..changes_of(&patch, vec![file]) };
            end.branch = some();
            end.findings = findings;
            end.dropped = [(t(), 1)].into();
        }),
    ];
    (events, patch)
}

fn corpus() -> Vec<Vec<u8>> {
    let texts = include_str!("../fixtures/hostile-html/texts.json");
    let texts: Vec<String> = serde_json::from_str(texts).unwrap();
    assert!(texts.len() >= 40);
    let bytes = |text: &String| match text.strip_prefix("bytes:") {
        Some(digits) => {
            let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
        }
        None => text.as_bytes().to_vec(),
    };
    texts.iter().map(bytes).collect()
}

/// A text of the same shape in which nothing acts: the same lines, blanks and backticks, letters for all else.
fn harmless(bytes: &[u8]) -> Vec<u8> {
    let letter = |c: char| match c {
        '\n' | ' ' | '\t' | '`' => c,
        c if c.is_ascii_alphanumeric() => c,
        _ => 'x',
    };
    String::from_utf8_lossy(bytes).chars().map(letter).collect::<String>().into_bytes()
}

fn shape(page: &str) -> Vec<String> {
    let names = |element: &Element| {
        let attributes: Vec<&str> = element.attributes.iter().map(|(name, _)| name.as_str()).collect();
        format!("{} {}", element.name, attributes.join(" "))
    };
    assert_safe(page).iter().map(names).collect()
}

#[test]
fn a_hostile_text_in_any_field_adds_no_element_and_the_page_is_the_true_proposal() {
    for text in corpus() {
        let shown = String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned();
        let (events, patch) = run_with(&text, "said");
        let name = String::from_utf8_lossy(&text).chars().take(200).collect::<String>();
        let hostile = page(&material(&events), &name);
        let twin = page(&material(&run_with(&harmless(&text), "said").0), "page.html");
        assert_eq!(shape(&hostile), shape(&twin), "{shown}");
        let proposal = Proposal::read(hostile.as_bytes(), None).unwrap();
        assert_eq!(proposal.patch, patch, "{shown}");
        let again = Material::read([hostile.as_bytes()]).unwrap();
        assert_eq!(again.report, report(&events), "{shown}");
    }
}

#[test]
fn a_line_of_a_megabyte_adds_no_element() {
    let text = format!("</script><script>window.hit=1</script>{}", "<b>x".repeat(250_000));
    let (events, patch) = run_with(text.as_bytes(), &text);
    let page = page(&material(&events), "page.html");
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    assert_eq!(Proposal::read(page.as_bytes(), None).unwrap().patch, patch);
}

#[test]
fn what_the_model_says_becomes_few_elements_without_attributes() {
    for text in corpus() {
        let (events, _) = run_with(b"plain", &String::from_utf8_lossy(&text));
        assert_safe(&page(&material(&events), "page.html"));
    }
}

#[test]
fn the_head_names_what_may_run_before_any_text_of_others() {
    let (events, _) = run_with(b"text", "said");
    let text = page(&material(&events), "page.html");
    let elements = parsed(&text);
    let at = elements.iter().position(|element| element.name == "head").unwrap();
    let head: Vec<String> = elements[at + 1..]
        .iter()
        .take_while(|element| element.name != "body")
        .map(|element| {
            let named = ["charset", "http-equiv", "name", "id"].iter().find_map(|name| element.attribute(name));
            format!("{} {}", element.name, named.unwrap_or_default()).trim_end().to_owned()
        })
        .collect();
    assert_eq!(
        head,
        [
            "meta utf-8",
            "meta Content-Security-Policy",
            "meta generator",
            "meta viewport",
            "meta referrer",
            "script qwen-result",
            "title",
            "style"
        ]
    );
    let policy = elements
        .iter()
        .find_map(|element| element.attribute("content").filter(|_| element.attribute("http-equiv").is_some()));
    let hash = |name: &str| {
        let of = elements.iter().rfind(|element| element.name == name && element.attribute("type").is_none()).unwrap();
        base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(&of.text))
    };
    let expected = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash("style"),
        hash("script")
    );
    assert_eq!(policy, Some(expected.as_str()));
    assert!(text.trim_end().ends_with("</script></body></html>"), "the script is last");
}

#[test]
fn a_run_without_changes_has_no_script() {
    let text = page(&material(&[ended(|end| end.result = "Hello.".into())]), "page.html");
    let elements = assert_safe(&text);
    assert_eq!(elements.iter().filter(|element| element.name == "script").count(), 1, "the data block alone");
    assert!(!text.contains("script-src"));
}

#[test]
fn only_one_file_of_the_page_leaves_text_unescaped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut todo = vec![folder.clone()];
    let mut found = Vec::new();
    while let Some(directory) = todo.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                todo.push(path);
            } else if std::fs::read_to_string(&path).is_ok_and(|text| text.contains("PreEscaped")) {
                found.push(path.strip_prefix(&folder).unwrap().display().to_string());
            }
        }
    }
    assert_eq!(found, ["emit/page/raw.rs"]);
    assert!(include_str!("../src/emit/page/page.js").len() <= 6_000);
}

/// A patch of `hunks` hunks in files of a hundred hunks, each with four times `lines` added lines of `width` characters.
fn long_patch(hunks: usize, lines: usize, width: usize) -> String {
    let words = "let wait = delay(attempt, longest) + 1; ".repeat(width.div_ceil(40));
    let line = format!("+    say(\"waiting\");\n+    {words}\n+    {words}\n+    {words}\n");
    let mut patch = String::new();
    for hunk in 0..hunks {
        if hunk % 100 == 0 {
            let _ = write!(patch, "diff --git a/f{hunk}.rs b/f{hunk}.rs\n--- a/f{hunk}.rs\n+++ b/f{hunk}.rs\n");
        }
        let (old, new) = (1 + hunk % 100 * 10, 1 + hunk % 100 * (10 + 4 * lines));
        let _ = write!(patch, "@@ -{old},2 +{new},{} @@\n a\n{} b\n", 4 * lines + 2, line.repeat(lines));
    }
    patch
}

#[test]
fn a_page_is_not_much_larger_than_what_it_shows() {
    let patch = long_patch(30, 5, 60);
    assert!((36_000..50_000).contains(&patch.len()), "{}", patch.len());
    let mut events = vec![Event::RunStarted(Box::default())];
    for turn in 1..=20 {
        let id = turn.to_string();
        let call = CallFacts { id: id.clone(), name: "read_file".into(), ..CallFacts::default() };
        let text = "I look at the file.".into();
        events.push(Event::Assistant(Box::new(AssistantTurn {
            turn,
            text,
            calls: vec![call],
            ..AssistantTurn::default()
        })));
        let content = "def delay(attempt): return 2 ** attempt\n".repeat(50);
        events.push(Event::ToolResult(Box::new(ToolResult { turn, call_id: id, content, ..ToolResult::default() })));
    }
    events.push(ended(|end| end.changes = changes_of(patch.as_bytes(), Vec::new())));
    let text = page(&material(&events), "page.html");
    assert!(text.len() <= 300_000, "{}", text.len());

    let patch = long_patch(5_200, 8, 60);
    assert!(patch.len() >= 10_000_000, "{}", patch.len());
    let text = page(&Material::read([patch.as_bytes()]).unwrap(), "page.html");
    assert!(text.len() <= patch.len() * 5 / 2, "{}", text.len());
    assert_eq!(text.matches("<div class=\"hunk\"").count(), 5_200);
    assert!(text.contains("<pre class=\"plain\">") && text.matches("<p data-o=").count() < 50_000);
}

#[test]
fn hunks_have_the_numbers_that_apply_takes_and_the_bytes_that_the_script_cuts() {
    let patch = long_patch(3, 1, 60);
    let text = page(&Material::read([patch.as_bytes()]).unwrap(), "page.html");
    let elements = assert_safe(&text);
    let hunks: Vec<&Element> = elements.iter().filter(|element| element.attribute("data-at").is_some()).collect();
    assert_eq!(hunks.len(), 3);
    for (at, hunk) in hunks.iter().enumerate() {
        assert_eq!(hunk.attribute("id"), Some(format!("h{}", at + 1).as_str()));
        let (start, end) = hunk.attribute("data-at").unwrap().split_once(' ').unwrap();
        assert!(patch[start.parse().unwrap()..end.parse().unwrap()].starts_with("@@ -"));
    }
}

fn editing() -> Project {
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    Project::new().file("a.txt", "one\n").git().model([call("edit", edit), say("It is **done**.")])
}

/// A finished run with every file that it can be shown by.
fn told(project: &Project) -> [String; 4] {
    let name = |name: &str| project.beside(name).display().to_string();
    let [result, events, messages, report] = ["result.json", "events.jsonl", "messages.jsonl", "report.html"].map(name);
    let outcome = project.run(&["--events-file", &events, "--report-file", &report, "-o", "stream-json", "edit it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    std::fs::write(&messages, outcome.stdout).unwrap();
    [result, events, messages, report]
}

#[test]
fn a_run_writes_its_page_and_the_page_is_applied() {
    let project = editing();
    let [_, _, _, report] = told(&project);
    let text = std::fs::read_to_string(&report).unwrap();
    let elements = assert_safe(&text);
    let title = elements.iter().find(|element| element.name == "h1").map(|element| element.text.clone());
    assert_eq!(title.as_deref(), Some("edit it"));
    assert!(text.contains("qwen apply report.html") && text.contains("It is <b>done</b>."));
    let list = project.qwen(&["apply", "--list", &report]);
    assert_eq!((list.code, list.stdout.as_str()), (0, "1  a.txt  line 1  +1 -1\n"), "{}", list.stderr);
    assert_eq!(project.qwen(&["apply", &report]).code, 0);
    assert_eq!(project.read("a.txt"), "two\n");
}

#[test]
fn a_changed_page_is_not_applied() {
    let project = editing();
    let [_, _, _, report] = told(&project);
    let text = std::fs::read_to_string(&report).unwrap();
    std::fs::write(&report, text.replacen("+two", "+three", 1)).unwrap();
    assert_eq!(project.qwen(&["apply", &report]).code, 63);
    assert_eq!(project.qwen(&["report", &report]).code, 42);
    std::fs::write(&report, "<!doctype html><title>x</title>").unwrap();
    let other = project.qwen(&["apply", &report]);
    assert!(other.code == 63 && other.stderr.contains("not a review page"), "{}", other.stderr);
}

#[test]
fn a_run_that_fails_writes_its_page_too() {
    let project = Project::new().file("a.txt", "one\n").model([say("x")]);
    let report = project.beside("report.html").display().to_string();
    let outcome = project.run(&["--report-file", &report, "--policy", "missing.yaml", "x"]);
    assert_eq!(outcome.code, 52, "{}", outcome.stderr);
    assert!(assert_safe(&std::fs::read_to_string(&report).unwrap()).len() > 20);
}

#[test]
fn every_file_of_a_run_gives_a_page_and_several_are_one() {
    let project = editing();
    let [result, events, messages, report] = told(&project);
    let page_of = |from: &[&str]| {
        let outcome = project.qwen(&[&["report", "-o", "-"], from].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert_safe(&outcome.stdout);
        outcome.stdout
    };
    let patch = project.beside("x.patch").display().to_string();
    let changes: Value = serde_json::from_str(&std::fs::read_to_string(&result).unwrap()).unwrap();
    std::fs::write(&patch, changes["changes"]["patch"].as_str().unwrap()).unwrap();
    for from in [&result, &events, &messages, &report, &patch] {
        let page = page_of(&[from]);
        assert!(page.contains("Hunk ") && page.contains("<ins>two</ins>"), "{from}");
        assert_eq!(page.contains("id=\"run\""), [&events, &messages].contains(&from), "{from}");
    }
    let both = page_of(&[&result, &events]);
    assert!(both.contains("id=\"run\"") && both.contains("<h1>edit it</h1>"));
    // The half of a line that a killed run leaves is passed over.
    let whole = std::fs::read_to_string(&events).unwrap();
    std::fs::write(&events, &whole[..whole.len() - 20]).unwrap();
    assert!(page_of(&[&events]).contains("id=\"run\""));
}

#[test]
fn the_page_has_a_name_of_its_own_and_replaces_nothing_else() {
    let project = editing();
    let [result, ..] = told(&project);
    let first = project.qwen(&["report", &result]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let name = first.stdout.trim();
    assert!(name.starts_with("qwen-report-") && name.ends_with(".html"), "{name}");
    assert_eq!(project.qwen(&["report", &result]).stdout.trim(), name);
    let other = project.qwen(&["report", "-o", "a.txt", &result]);
    assert_eq!((other.code, project.read("a.txt").as_str()), (63, "one\n"));
    std::os::unix::fs::symlink("a.txt", project.root().join("link.html")).unwrap();
    assert_eq!(project.qwen(&["report", "-o", "link.html", &result]).code, 63);
    assert_eq!(project.qwen(&["report", "-o", "no/such.html", &result]).code, 63);
}

#[test]
fn what_cannot_be_shown_says_why() {
    let project = editing();
    let [result, ..] = told(&project);
    let other = project.beside("other.jsonl").display().to_string();
    let started = RunStarted { run_id: "other".into(), ..RunStarted::default() };
    std::fs::write(&other, to_line(&Event::RunStarted(Box::new(started)))).unwrap();
    for (words, code, why) in [
        (&["report", "a.txt"][..], 42, "it contains no changes"),
        (&["report", &result, &other], 42, "from two runs"),
        (&["report", "missing.json"], 42, "missing.json"),
        (&["report", "what", "changed"], 2, "qwen run 'report what changed'"),
    ] {
        let outcome = project.qwen(words);
        assert!(outcome.code == code && outcome.stderr.contains(why), "{words:?}: {} {}", outcome.code, outcome.stderr);
    }
    for (text, why) in [("{\"a\":1}", "neither a result"), ("{\"type\":\"result\",\"usage\":7}\n", "line 1")] {
        std::fs::write(&other, text).unwrap();
        let outcome = project.qwen(&["report", &other]);
        assert!(outcome.code == 42 && outcome.stderr.contains(why), "{}", outcome.stderr);
    }
}

#[test]
fn the_browser_gets_the_page_and_a_missing_one_is_a_warning() {
    let project = editing();
    let [result, ..] = told(&project);
    let (pipe, browser) = (project.beside("pipe"), project.beside("browser"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let script = format!("#!/bin/sh\nprintf %s \"$1\" > '{}'\n", pipe.display());
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let project = project.env("BROWSER", &browser.display().to_string());
    let outcome = project.qwen(&["report", "--open", "-o", "page.html", &result]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(std::fs::read_to_string(&pipe).unwrap(), project.root().join("page.html").display().to_string());
    let project = project.env("BROWSER", "no-such-browser");
    let outcome = project.qwen(&["report", "--open", "-o", "page.html", &result]);
    assert_eq!(outcome.code, 0);
    assert!(outcome.stderr.starts_with("warning: the page cannot be opened: "), "{}", outcome.stderr);
}
