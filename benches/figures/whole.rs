//! Measures whole processes.

use std::path::Path;
use std::time::Duration;

use crate::conversation;
use crate::peers::{self, Start};
use crate::sample::{self, Sample};
use crate::server::{Seen, Server, Turn};
use crate::{Options, Row, median};

pub(crate) fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

pub(crate) fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn count(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

/// One run of one program: what it cost and what it sent.
struct Run {
    sample: Sample,
    requests: Vec<Seen>,
}

/// A program that is measured.
pub(crate) struct Contestant<'a> {
    name: String,
    program: &'a Path,
    runs: Vec<Run>,
}

/// Lets the contestants take turns, each run in a fresh project. Each has a home of its own, in which it has run once
/// before: what a program finds out at its first start on a machine is not what a run costs.
pub(crate) fn contest<'a>(
    options: &'a Options,
    prompt: &str,
    own_flags: &[&str],
    script: &dyn Fn(&conversation::Words, &str) -> Vec<Turn>,
    finished: fn(&Path, &Sample) -> Result<(), String>,
) -> Result<Vec<Contestant<'a>>, String> {
    let own = Contestant { name: "qwen".into(), program: &options.program, runs: Vec::new() };
    let peers =
        options.peers.iter().map(|(name, program)| Contestant { name: name.clone(), program, runs: Vec::new() });
    let mut all: Vec<Contestant<'_>> = [own].into_iter().chain(peers).collect();
    let homes = tempfile::tempdir().map_err(|error| error.to_string())?;
    for run in 0..=options.runs {
        for (number, contestant) in all.iter_mut().enumerate() {
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            let (root, home) = (folder.path().join("project"), homes.path().join(number.to_string()));
            std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
            conversation::project(&root).map_err(|error| error.to_string())?;
            let place = root.display().to_string();
            let start = |port| -> Result<Start, String> {
                if contestant.name == "qwen" {
                    return Ok(peers::own(&home, port, prompt, own_flags));
                }
                let start = peers::start(&contestant.name, &home, port, prompt)
                    .ok_or(format!("there is no peer `{}`", contestant.name))?;
                start.map_err(|error| error.to_string())
            };
            let server = Server::start(script(start(0)?.words, &place));
            let start = start(server.port)?;
            let sample = sample::take(contestant.program, &start.arguments, &root, &start.environment)?;
            finished(&root, &sample).map_err(|problem| {
                format!("{}: {problem}; exit {}\n{}{}", contestant.name, sample.code, sample.stdout, sample.stderr)
            })?;
            if run > 0 {
                contestant.runs.push(Run { sample, requests: server.take() });
            }
        }
    }
    Ok(all)
}

/// Returns the median of what a program took.
pub(crate) fn wall(contestant: &Contestant<'_>) -> Duration {
    median(contestant.runs.iter().map(|run| run.sample.wall).collect())
}

fn rows(contestants: &[Contestant<'_>], what: &str, goals: [&'static str; 6]) -> Vec<Row> {
    let mut rows = Vec::new();
    for contestant in contestants {
        let of = |figure: fn(&Run) -> u64| median(contestant.runs.iter().map(figure).collect());
        let time = |figure: fn(&Run) -> Duration| median(contestant.runs.iter().map(figure).collect());
        let first = time(|run| {
            let first = run.requests.first().map(|seen| seen.at.duration_since(run.sample.started));
            first.and_then(Result::ok).unwrap_or_default()
        });
        let name = if contestant.name == "qwen" { String::new() } else { format!(" ({})", contestant.name) };
        let goals = if contestant.name == "qwen" { goals } else { [""; 6] };
        rows.extend([
            Row::new(format!("{what}{name}: wall"), ms(time(|run| run.sample.wall)), goals[0]),
            Row::new(format!("{what}{name}: to the first request"), ms(first), goals[1]),
            Row::new(format!("{what}{name}: CPU"), ms(time(|run| run.sample.cpu)), goals[2]),
            Row::new(format!("{what}{name}: peak RSS"), mb(of(|run| run.sample.resident)), goals[3]),
            Row::new(
                format!("{what}{name}: requests, first request"),
                format!(
                    "{}, {} bytes",
                    of(|run| run.requests.len() as u64),
                    count(of(|run| run.requests.first().map_or(0, |seen| seen.bytes as u64)) as usize)
                ),
                goals[4],
            ),
            Row::new(
                format!("{what}{name}: sent in all"),
                format!("{} bytes", count(of(|run| run.requests.iter().map(|seen| seen.bytes as u64).sum()) as usize)),
                goals[5],
            ),
        ]);
    }
    rows
}

/// One answer, no tools.
pub(crate) fn one_answer(options: &Options) -> Result<Vec<Row>, String> {
    let finished = |_: &Path, sample: &Sample| match sample.code == 0 && sample.stdout.contains("Hello.") {
        true => Ok(()),
        false => Err("it did not answer".to_owned()),
    };
    let all = contest(options, "Say hello.", &[], &|_, _| conversation::one_answer(), finished)?;
    let goals = ["1/8 of the fastest peer", "≤ 15 ms", "", "≤ 25 MB", "1, ≤ 12,000 bytes", ""];
    Ok(rows(&all, "one answer", goals))
}

/// List, search, read and edit eight files, one command.
pub(crate) fn edit(options: &Options) -> Result<Vec<Row>, String> {
    let finished = |root: &Path, _: &Sample| {
        for number in 0..8 {
            let text = std::fs::read_to_string(root.join(format!("src/part_{number}.py"))).unwrap_or_default();
            if !text.contains(&format!("def new_name_{number}(")) {
                return Err(format!("src/part_{number}.py is not changed"));
            }
        }
        Ok(())
    };
    let all = contest(options, "Rename the eight functions.", &["--apply"], &conversation::edit, finished)?;
    let mut rows = rows(
        &all,
        "edit of 19 requests",
        ["1/8 of the fastest peer", "", "≤ 2 ms a turn", "≤ 30 MB", "19", "1/2 of the leanest peer"],
    );
    // The command gets a command workspace in a sandbox; this says what a turn costs without one.
    let without: fn(&conversation::Words, &str) -> Vec<Turn> = |words, root| {
        let mut turns = conversation::edit(words, root);
        turns.remove(turns.len() - 2);
        turns
    };
    let alone = Options {
        rows: Vec::new(),
        peers: Vec::new(),
        tree: None,
        program: options.program.clone(),
        runs: options.runs,
    };
    let all = contest(&alone, "Rename the eight functions.", &["--apply"], &without, finished)?;
    let cpu = median(all[0].runs.iter().map(|run| run.sample.cpu).collect::<Vec<_>>());
    rows.push(Row::new("the same without the command: CPU a turn", ms(cpu / 18), "≤ 2 ms"));
    Ok(rows)
}

/// 200 turns with 1 MB of results.
pub(crate) fn long(options: &Options) -> Result<Vec<Row>, String> {
    let mut resident = Vec::new();
    let (mut own, mut coming) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..options.runs.min(3) {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let line = format!("{}\n", "x".repeat(100));
        std::fs::write(folder.path().join("long.txt"), line.repeat(10_000)).map_err(|error| error.to_string())?;
        let server = Server::start(conversation::long());
        // So large that nothing is summed up on the way.
        let settings = folder.path().join(".qwen/settings.json");
        std::fs::create_dir_all(folder.path().join(".qwen")).map_err(|error| error.to_string())?;
        std::fs::write(settings, r#"{"model": {"generationConfig": {"contextWindowSize": 4000000}}}"#)
            .map_err(|error| error.to_string())?;
        let flags = ["--max-session-turns", "300"];
        let start = peers::own(folder.path(), server.port, "Read it all.", &flags);
        let sample = sample::take(&options.program, &start.arguments, folder.path(), &start.environment)?;
        let seen = server.take();
        if sample.code != 0 || seen.len() != 200 {
            return Err(format!("exit {} after {} requests\n{}", sample.code, seen.len(), sample.stderr));
        }
        resident.push(sample.resident);
        for (which, from) in [20, 175].into_iter().enumerate() {
            let turns = &seen[from..from + 20];
            own[which]
                .extend(turns.windows(2).map(|two| two[1].at.duration_since(two[0].answered).unwrap_or_default()));
            coming[which].extend(turns.iter().map(|turn| turn.coming));
        }
    }
    let both = |times: [Vec<Duration>; 2]| times.map(|times| ms(median(times))).join(", ");
    Ok(vec![
        Row::new("200 turns, 1 MB of results: peak RSS", mb(median(resident)), "≤ 60 MB"),
        Row::new("200 turns: from an answer to the next request's head, turn 20 and turn 175", both(own), "flat"),
        Row::new("200 turns: until its body is there", both(coming), "as its length"),
    ])
}

/// Search and glob over a large tree, against `rg`.
pub(crate) fn search(options: &Options) -> Result<Vec<Row>, String> {
    let Some(tree) = &options.tree else {
        return if options.rows.is_empty() { Ok(Vec::new()) } else { Err("name a large tree with --tree DIR".into()) };
    };
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let environment = peers::own(home.path(), 0, "", &[]).environment;
    let rg = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("rg"))
        .find(|path| path.is_file())
        .ok_or("rg is not on PATH")?;
    let mut rows = Vec::new();
    for pattern in ["PM_RESUME", "[A-Z]+_SUSPEND", "(?i)todo.*locking", "schedule_timeout\\("] {
        let input = serde_json::json!({"pattern": pattern}).to_string();
        let own = ["tools", "call", "search_file_content", "--input", &input];
        let theirs =
            ["--no-config", "-n", "--no-heading", "--color", "never", "--hidden", "--glob", "!.git", pattern, "."];
        let (mut ours, mut rgs, mut resident) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.runs {
            let sample = sample::take(&options.program, &own, tree, &environment)?;
            if sample.code != 0 {
                return Err(format!("{pattern}: exit {}\n{}", sample.code, sample.stderr));
            }
            ours.push(sample.wall);
            resident.push(sample.resident);
            rgs.push(sample::take(&rg, &theirs, tree, &environment)?.wall);
        }
        let (ours, theirs) = (median(ours), median(rgs));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        rows.push(Row::new(
            format!("search `{pattern}`: ours, rg"),
            format!("{}, {} ({ratio:.2}), {}", ms(ours), ms(theirs), mb(median(resident))),
            "≤ 1.5",
        ));
    }
    let own = ["tools", "call", "glob", "--input", r#"{"pattern": "**/Kconfig"}"#];
    let theirs = ["--no-config", "--files", "--hidden", "--glob", "!.git", "--glob", "**/Kconfig"];
    let (mut ours, mut rgs) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        ours.push(sample::take(&options.program, &own, tree, &environment)?.wall);
        rgs.push(sample::take(&rg, &theirs, tree, &environment)?.wall);
    }
    let (ours, theirs) = (median(ours), median(rgs));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    rows.push(Row::new("glob `**/Kconfig`: ours, rg", format!("{}, {} ({ratio:.2})", ms(ours), ms(theirs)), "≤ 1.5"));
    Ok(rows)
}

/// The program by itself.
pub(crate) fn program(options: &Options) -> Result<Vec<Row>, String> {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let environment = peers::own(home.path(), 0, "", &[]).environment;
    let walls: Result<Vec<Duration>, String> = (0..options.runs * 4)
        .map(|_| Ok(sample::take(&options.program, &["--version"], home.path(), &environment)?.wall))
        .collect();
    let bytes = std::fs::metadata(&options.program).map_err(|error| error.to_string())?.len();
    Ok(vec![Row::new("`--version`: wall", ms(median(walls?)), "≤ 3 ms"), Row::new("the program", mb(bytes), "≤ 24 MB")])
}
