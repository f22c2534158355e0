//! Measures single parts of the program, called as a library.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use qwen_run::git::repository::Repository;
use qwen_run::model::ToolSpec;
use qwen_run::model::assemble::{Assembler, Options as TurnOptions};
use qwen_run::model::assembled::Ending;
use qwen_run::model::leaked_calls::TextTools;
use qwen_run::model::sse::{Decoder, Frame};
use qwen_run::model::tool_set::ToolSet;
use qwen_run::policy::Policy;
use qwen_run::policy::check::check_call;
use qwen_run::policy::layers::{LayerText, Standing};
use qwen_run::run::rules::facts::facts;
use qwen_run::workspace::Workspace;
use qwen_run::workspace::tree::{CommandTree, TreeOptions};
use serde_json::{Value, json};

use crate::{Options, Row, median};

const TEN_MB: usize = 10_000_000;

fn assembler() -> Assembler {
    let spec = ToolSpec {
        name: "write_file".into(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}}}),
    };
    let options =
        TurnOptions { turn: 0, text_tools: TextTools::Auto, used_ids: Default::default(), model: "qwen3".into() };
    Assembler::new(Arc::new(ToolSet::new(Arc::from([spec]))), options)
}

fn delta(arguments: &str) -> String {
    let function = match arguments {
        "" => json!({"name": "write_file", "arguments": ""}),
        text => json!({"arguments": text}),
    };
    let call = match arguments {
        "" => json!({"index": 0, "id": "a", "type": "function", "function": function}),
        _ => json!({"index": 0, "function": function}),
    };
    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock",
           "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]})
    .to_string()
}

/// 10 MB of arguments: as one event whose bytes come one by one, and as one event a byte.
pub(crate) fn stream(_: &Options) -> Result<Vec<Row>, String> {
    let arguments = format!("{{\"file_path\":\"a\",\"content\":\"{}\"}}", "x".repeat(TEN_MB));

    let bytes = format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", delta(""), delta(&arguments));
    let clock = Instant::now();
    let (mut decoder, mut turn, mut out) = (Decoder::with_caps(1 << 30, 1 << 40), assembler(), Vec::new());
    for byte in bytes.as_bytes() {
        for frame in decoder.push(std::slice::from_ref(byte)) {
            if let Frame::Event { event, data } = frame {
                turn.push_event(event.as_deref(), &data, &mut out).map_err(|_| "the stream was refused")?;
            }
        }
    }
    let whole = turn.finish(Ending::Eof, &mut out).map_err(|_| "the turn failed")?;
    let in_bytes = clock.elapsed();
    if whole.calls.len() != 1 {
        return Err("the call was lost".into());
    }

    // A recorded stream repeats a chunk but for the piece: what is measured is reading them, not making them.
    let (mut turn, mut out) = (assembler(), Vec::new());
    let (head, piece, tail) = (delta(r#"{"file_path":"a","content":""#), delta("x"), delta(r#""}"#));
    let clock = Instant::now();
    let first = delta("");
    for data in [&first, &head].into_iter().chain(std::iter::repeat_n(&piece, TEN_MB)).chain([&tail]) {
        turn.push_event(None, data, &mut out).map_err(|_| "the stream was refused")?;
        out.clear();
    }
    let whole = turn.finish(Ending::Eof, &mut out).map_err(|_| "the turn failed")?;
    let in_deltas = clock.elapsed();
    if whole.calls.len() != 1 {
        return Err("the call was lost".into());
    }
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    Ok(vec![
        Row::new("10 MB of arguments in reads of one byte", seconds(in_bytes), "< 2 s"),
        Row::new("10 MB of arguments in ten million events", seconds(in_deltas), ""),
    ])
}

/// One decision, over the sample cases, with the files loaded once.
pub(crate) fn policy(_: &Options) -> Result<Vec<Row>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    crate::conversation::project(folder.path()).map_err(|error| error.to_string())?;
    let workspace = Arc::new(Workspace::open(folder.path()).map_err(|error| error.to_string())?);
    let facts = facts(&workspace, "/home/bench".into(), PathBuf::new(), Vec::new(), Default::default());
    let policies = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/policies");
    let cases = std::fs::read_to_string(policies.join("cases.jsonl")).map_err(|error| error.to_string())?;
    let mut loaded: std::collections::BTreeMap<String, Policy> = Default::default();
    let (mut shell, mut all) = (Vec::new(), Vec::new());
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let (name, tool) = (case["policy"].as_str().unwrap_or_default(), case["tool"].as_str().unwrap_or_default());
        if !loaded.contains_key(name) {
            let file = policies.join(format!("{name}.yaml"));
            let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let policy = Policy::new(
                &LayerText { name: file.display().to_string(), text, standing: Standing::Operator },
                &[],
                &qwen_run::policy::layers::no_parents,
            )
            .map_err(|error| error.to_string())?;
            loaded.insert(name.to_owned(), policy);
        }
        let policy = &loaded[name];
        let times = (0..21).map(|_| {
            let clock = Instant::now();
            std::hint::black_box(check_call(policy, &facts, tool, &case["input"]));
            clock.elapsed()
        });
        let time = median(times.collect());
        all.push(time);
        if tool == "run_shell_command" {
            shell.push(time);
        }
    }
    let micros = |time: Duration| format!("{:.0} µs", time.as_secs_f64() * 1e6);
    let slowest = all.iter().max().copied().unwrap_or_default();
    Ok(vec![Row::new(
        "a decision: all cases, commands, slowest",
        format!("{}, {}, {}", micros(median(all)), micros(median(shell)), micros(slowest)),
        "≤ 50 µs",
    )])
}

/// Makes the command workspace of a project of 2,300 files and 29 MB for a first command, and finds what it changed.
pub(crate) fn tree(options: &Options) -> Result<Vec<Row>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    crate::conversation::project(folder.path()).map_err(|error| error.to_string())?;
    let text = "line of a file that is about as long as a line is\n".repeat(252);
    for number in 0..2_300 {
        let inner = folder.path().join(format!("data/{:02}", number % 60));
        std::fs::create_dir_all(&inner).map_err(|error| error.to_string())?;
        std::fs::write(inner.join(format!("{number}.txt")), &text).map_err(|error| error.to_string())?;
    }
    let repository = Repository::discover(folder.path()).map_err(|error| error.to_string())?;
    let (mut lending, mut layering, mut looking) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.runs {
        let workspace = Workspace::open(folder.path()).map_err(|error| error.to_string())?;
        let wishes = TreeOptions {
            repository: repository.as_ref(),
            may_read: &|_| true,
            copy_max: 1 << 30,
            parent: None,
            objects_at: None,
            until: None,
            layers: false,
            ignored_outputs: false,
        };
        let clock = Instant::now();
        let mut tree = CommandTree::make(workspace.root(), &wishes).map_err(|error| error.to_string())?;
        lending.push(clock.elapsed());
        tree.sync_out(&workspace, &|_, _| Ok(())).map_err(|error| error.to_string())?;
        let clock = Instant::now();
        tree.sync_out(&workspace, &|_, _| Ok(())).map_err(|error| error.to_string())?;
        looking.push(clock.elapsed());
        drop(tree);
        let clock = Instant::now();
        if CommandTree::overlay(workspace.root(), &wishes).map_err(|error| error.to_string())?.is_some() {
            layering.push(clock.elapsed());
        }
    }
    let ms = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1000.0);
    Ok(vec![
        Row::new("lending 2,300 files, 29 MB: by copy", ms(median(lending)), "≤ 300 ms"),
        Row::new(
            "the same beneath a layer",
            if layering.is_empty() { "none here".to_owned() } else { ms(median(layering)) },
            "≤ 20 ms",
        ),
        Row::new("looking for changes after a command", ms(median(looking)), "≤ 30 ms"),
    ])
}

/// Loading recipes of 256 KiB: one of everything that there can be many of, one of texts, one with a mistake in each
/// key.
pub(crate) fn recipe(_: &Options) -> Result<Vec<Row>, String> {
    const SIZE: usize = 256 * 1024;
    let head = "recipe: 1\nname: r\ndescription: D\nlimits: {cost_usd: 1}\n";
    // As many of these as a file may have nodes.
    let many = |wrong: &str| {
        let (mut params, mut context, mut prompt) = (String::new(), String::new(), String::new());
        for number in 0..700 {
            params.push_str(&format!(
                "  p{number}: {{type: number, description: \"The number {number}.\", default: {number}.50, min: 0, max: 1000{wrong}}}\n"
            ));
            context.push_str(&format!(
                "  - {{name: c{number}, run: [echo, '--n={{{{ params.p{number} }}}}'], max_bytes: 10}}\n"
            ));
            prompt.push_str(&format!("  {{{{ context.c{number} | fence('text') }}}}\n"));
        }
        let text = format!("{head}params:\n{params}context:\n{context}prompt: |\n{prompt}");
        let rest = SIZE - text.len() - 1;
        format!("{text}#{}", "x".repeat(rest))
    };
    let prose = "  Say what {{ git.branch }} is about, in plain words.\n";
    let long = format!("{head}prompt: |\n{}", prose.repeat((SIZE - head.len() - 10) / prose.len()));
    let mut rows = Vec::new();
    for (what, text, loads) in [
        ("2,100 parameters, inputs and uses of them", many(""), true),
        ("one prompt", long, true),
        ("700 mistakes", many(", secret: true"), false),
    ] {
        let times = (0..9).map(|_| {
            let clock = Instant::now();
            let loaded = qwen_run::recipe::load::from_text("r.yaml", &text);
            (clock.elapsed(), loaded.is_ok() == loads)
        });
        let times: Vec<(Duration, bool)> = times.collect();
        if times.iter().any(|(_, as_expected)| !as_expected) {
            return Err(format!("{what}: it did not load as expected"));
        }
        let time = median(times.into_iter().map(|(time, _)| time).collect());
        let figure = format!("{:.1} ms", time.as_secs_f64() * 1000.0);
        rows.push(Row::new(format!("loading a recipe of 256 KiB: {what}"), figure, "< 50 ms"));
    }
    Ok(rows)
}
