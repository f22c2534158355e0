//! Measures batches: what an item costs beside a process of its own, and what many items take.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::conversation;
use crate::peers;
use crate::sample::{self, Sample};
use crate::server::Server;
use crate::whole::{mb, ms};
use crate::{Options, Row, median};

/// Items of the batch that is compared with processes.
const FEW: usize = 400;

/// Items of the batch that is large.
const MANY: usize = 100_000;

/// Repositories that are cloned.
const REPOSITORIES: usize = 20;

const PROMPT: &str = "Say hello to {{ item.line }}";

/// A directory with lists, and how the program is started in it.
struct Place {
    folder: tempfile::TempDir,
    /// Outside of the workspace: where repositories are cloned.
    _cache: tempfile::TempDir,
    environment: BTreeMap<String, String>,
    program: PathBuf,
    server: Server,
}

impl Place {
    fn make(options: &Options) -> Result<Place, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let server = Server::start(conversation::one_answer());
        let mut environment = peers::own(folder.path(), server.port, "", &[]).environment;
        let cache = tempfile::tempdir().map_err(|error| error.to_string())?;
        environment.insert("XDG_CACHE_HOME".to_owned(), cache.path().display().to_string());
        let place = Place { folder, _cache: cache, environment, program: options.program.clone(), server };
        place.list("few.txt", FEW)?;
        // What a program finds out at its first start on a machine is not what a run costs.
        place.batch("few.txt", &["-q", "--limit", "1", "--out", "first"])?;
        Ok(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn list(&self, name: &str, count: usize) -> Result<(), String> {
        let lines = (1..=count).fold(String::new(), |mut lines, n| {
            let _written = writeln!(lines, "person {n}");
            lines
        });
        std::fs::write(self.path(name), lines).map_err(|error| error.to_string())
    }

    fn sample(&self, arguments: &[&str]) -> Result<Sample, String> {
        let sample = sample::take(&self.program, arguments, self.folder.path(), &self.environment)?;
        self.server.take();
        match sample.code {
            0 => Ok(sample),
            code => Err(format!("{arguments:?}: exit {code}\n{}{}", sample.stdout, sample.stderr)),
        }
    }

    fn batch(&self, list: &str, flags: &[&str]) -> Result<Sample, String> {
        self.sample(&[&["batch", "--lines", list, "-p", PROMPT], flags].concat())
    }

    /// Makes a journal in which all items of a directory have ended but the last `left`.
    fn end_all(&self, out: &str, left: usize) -> Result<(), String> {
        let text = |name: &str| {
            std::fs::read_to_string(self.path(out).join(name)).map_err(|error| format!("{out}/{name}: {error}"))
        };
        let journal = text("journal.jsonl")?;
        let end: Value = journal
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .find(|line: &Value| line["t"] == "end")
            .ok_or("no item has ended")?;
        let shard: Value = serde_json::from_str(&text("batch.json")?).map_err(|error| error.to_string())?;
        let (number, of) = (shard["shard"]["number"].as_u64(), shard["shard"]["of"].as_u64());
        let items = text("items.jsonl")?;
        let items: Vec<Value> = items.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut lines = String::new();
        for item in &items[..items.len() - left] {
            let n = item["n"].as_u64().unwrap_or_default();
            if number.zip(of).is_some_and(|(number, of)| (n - 1) % of + 1 != number) {
                continue;
            }
            let start = json!({"t": "start", "n": n, "key": item["key"], "try": 1, "time": "2026-11-22T10:00:00Z"});
            let mut end = end.clone();
            for name in ["n", "key", "sha256"] {
                end[name] = item[name].clone();
            }
            let _written = write!(lines, "{start}\n{end}\n");
        }
        std::fs::write(self.path(out).join("journal.jsonl"), lines).map_err(|error| error.to_string())
    }
}

/// All figures of batches.
pub(crate) fn batch(options: &Options) -> Result<Vec<Row>, String> {
    let place = Place::make(options)?;
    let mut rows = beside_processes(&place, options.runs.min(3))?;
    rows.extend(many(&place)?);
    rows.extend(merge(&place)?);
    rows.extend(repositories(&place)?);
    Ok(rows)
}

/// The items of a batch, and as many processes, two at a time.
fn beside_processes(place: &Place, runs: usize) -> Result<Vec<Row>, String> {
    let (mut batches, mut processes, mut wide) = (Vec::new(), Vec::new(), Vec::new());
    let program = place.program.display().to_string();
    let each =
        format!("xargs -d '\\n' -P2 -I @@ '{program}' run --no-stdin -q -p 'Say hello to @@' < few.txt > answers");
    for run in 0..runs {
        batches.push(place.batch("few.txt", &["-q", "-j", "2", "--out", &format!("two-{run}")])?);
        wide.push(place.batch("few.txt", &["-q", "-j", "64", "--out", &format!("wide-{run}")])?.resident);
        let shell = Path::new("/bin/sh");
        let sample = sample::take(shell, &["-c", &each], place.folder.path(), &place.environment)?;
        place.server.take();
        if sample.code != 0 {
            return Err(format!("xargs: exit {}\n{}", sample.code, sample.stderr));
        }
        processes.push(sample);
    }
    let of = |samples: &[Sample], figure: fn(&Sample) -> Duration| median(samples.iter().map(figure).collect());
    let cpu = |samples: &[Sample]| of(samples, |sample| sample.cpu).as_secs_f64() * 1000.0 / FEW as f64;
    let rate = |samples: &[Sample]| FEW as f64 / of(samples, |sample| sample.wall).as_secs_f64();
    let (own, other) = (cpu(&batches), cpu(&processes));
    let (fast, slow) = (rate(&batches), rate(&processes));
    Ok(vec![
        Row::new(
            "batch: CPU an item, beside a process each",
            format!("{own:.2} ms, {other:.2} ms: {:.2}", own / other),
            "≤ 1/3",
        ),
        Row::new(
            "batch: items a second with -j 2, beside `xargs -P2`",
            format!("{fast:.0}, {slow:.0}: {:.1} times", fast / slow),
            "≥ 2.5 times",
        ),
        Row::new("batch: peak RSS with -j 64", mb(median(wide)), "≤ 80 MB"),
    ])
}

/// A hundred thousand items, of which all but a few are done.
fn many(place: &Place) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut resident = Vec::new();
    for (list, count) in [("thousand.txt", 1_000), ("many.txt", MANY)] {
        place.list(list, count)?;
        place.batch(list, &["-q", "--limit", "1", "--out", list.trim_end_matches(".txt")])?;
        let out = list.trim_end_matches(".txt");
        place.end_all(out, 200)?;
        resident.push(place.batch(list, &["-q", "--out", out])?.resident);
        if count == MANY {
            place.end_all(out, 0)?;
            let sample = place.batch(list, &["-q", "--out", out])?;
            rows.push(Row::new("batch: continue with 100,000 done items", ms(sample.wall), "≤ 2 s"));
        }
    }
    let more = resident[1].saturating_sub(resident[0]);
    rows.insert(0, Row::new("batch: peak RSS of 100,000 items above that of 1,000", mb(more), "≤ 16 MB"));
    Ok(rows)
}

/// Eight shards of 12,500 items.
fn merge(place: &Place) -> Result<Vec<Row>, String> {
    for shard in 1..=8 {
        let number = format!("{shard}/8");
        place.batch("many.txt", &["-q", "--limit", "1", "--shard", &number, "--out", "shards"])?;
        place.end_all(&format!("shards/shard-{shard}-of-8"), 0)?;
    }
    let sample = place.sample(&["batch", "merge", "shards", "--out", "merged"])?;
    Ok(vec![Row::new("batch: merge of 8 shards with 12,500 items", ms(sample.wall), "≤ 5 s")])
}

/// Repositories, beside `git clone` of each.
fn repositories(place: &Place) -> Result<Vec<Row>, String> {
    let script = format!(
        "set -e; git init -q -b main origin; cd origin; git config user.email a@b; git config user.name a
        for n in $(seq 40); do echo $n > $n.txt; done; git add -A; git commit -qm one; cd ..; mkdir clones
        for n in $(seq {REPOSITORIES}); do cp -r origin origin-$n; echo ./origin-$n; done > repos.txt"
    );
    shell(place, &script)?;
    let clock = Instant::now();
    let clone = "git clone -q --depth=1 --no-tags --single-branch --no-local";
    shell(place, &format!("set -e; for n in $(seq {REPOSITORIES}); do {clone} ./origin-$n clones/$n; done"))?;
    let clones = clock.elapsed();
    let arguments = ["batch", "--repos", "repos.txt", "-p", "Say hello.", "-j", "1", "-q", "--out", "repos"];
    let batch = place.sample(&arguments)?.wall;
    let more = batch.saturating_sub(clones) / u32::try_from(REPOSITORIES).unwrap_or(1);
    Ok(vec![Row::new("batch: a repository beyond `git clone`", ms(more), "≤ 20 ms")])
}

fn shell(place: &Place, script: &str) -> Result<(), String> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).current_dir(place.folder.path()).env_clear().envs(&place.environment);
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
