//! Keeps what runs of a workspace proposed, for `qwen apply` and `qwen report`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::session_file;
use crate::bounded;

/// Runs that are kept of one workspace.
const MOST_RUNS: usize = 20;

/// Bytes that are kept in all.
const MOST_BYTES: u64 = 64 << 20;

/// The shortest beginning of an id that names a run.
const SHORTEST: usize = 6;

/// The kept runs of one workspace.
#[derive(Debug, Clone)]
pub struct Runs {
    all: PathBuf,
    own: PathBuf,
}

/// A run that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRun {
    /// The run's id.
    pub id: String,
    folder: PathBuf,
}

impl KeptRun {
    /// Reads its result object.
    pub fn result(&self) -> io::Result<Vec<u8>> {
        bounded::regular(&self.folder.join(format!("{}.json", self.id)), bounded::PRODUCT)
    }

    /// Reads its events, one JSON object a line, without pieces of answers.
    pub fn events(&self) -> io::Result<Vec<u8>> {
        bounded::regular(&self.folder.join(format!("{}.jsonl", self.id)), bounded::PRODUCT)
    }
}

impl Runs {
    /// Returns the runs of a workspace, by the directory of the program's state.
    pub fn of(state: &Path, workspace: &Path) -> Runs {
        let all = state.join("runs");
        Runs { own: all.join(session_file::folder_name(workspace)), all }
    }

    /// Keeps a run, and removes the oldest ones that are too many. Both files are for their owner alone; whoever finds
    /// the result finds all of it, and the events.
    pub fn keep(&self, id: &str, result: &[u8], events: &[u8]) -> io::Result<()> {
        let bytes = (result.len() + events.len()) as u64;
        if bytes > MOST_BYTES {
            let (needed, most) = (bytes.div_ceil(1 << 20), MOST_BYTES >> 20);
            return Err(io::Error::other(format!("it needs {needed} MiB, and at most {most} MiB are kept")));
        }
        if !is_id(id) {
            return Err(io::Error::other(format!("`{id}` is not an id")));
        }
        session_file::make_folder(&self.own)?;
        for (extension, contents) in [("jsonl", events), ("json", result)] {
            let (new, path) = (format!("{id}.{extension}.new"), format!("{id}.{extension}"));
            let new = self.own.join(new);
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(contents)?;
            std::fs::rename(new, self.own.join(path))?;
        }
        self.remove_oldest();
        Ok(())
    }

    /// Returns the kept runs, the one that began last first.
    pub fn newest_first(&self) -> Vec<KeptRun> {
        let runs = found(&self.own).into_iter().rev().filter(|(_, found)| found.is_whole);
        runs.map(|(id, _)| KeptRun { id, folder: self.own.clone() }).collect()
    }

    /// Returns the runs whose id begins so; none if that is shorter than six characters.
    pub fn named(&self, beginning: &str) -> Vec<KeptRun> {
        match beginning.len() < SHORTEST {
            true => Vec::new(),
            false => self.newest_first().into_iter().filter(|run| run.id.starts_with(beginning)).collect(),
        }
    }

    /// Removes the oldest runs of this workspace, and then of all, until there are not too many. What another run
    /// removes at the same time is gone, too.
    fn remove_oldest(&self) {
        for (id, _) in found(&self.own).into_iter().rev().skip(MOST_RUNS) {
            remove(&self.own, &id);
        }
        let folders = session_file::folders(&self.all);
        let all = folders.iter().flat_map(|folder| found(folder).into_iter().map(move |(id, run)| (id, run, folder)));
        // Ids are ordered by time.
        let by_age: BTreeMap<(String, &PathBuf), u64> =
            all.map(|(id, run, folder)| ((id, folder), run.bytes)).collect();
        let mut sum = 0_u64;
        for ((id, folder), bytes) in by_age.into_iter().rev() {
            sum = sum.saturating_add(bytes);
            if sum > MOST_BYTES {
                remove(folder, &id);
            }
        }
    }
}

/// What is in a directory of one run.
#[derive(Default)]
struct OnDisk {
    bytes: u64,
    /// Whether its result is there: it is written last.
    is_whole: bool,
}

/// Returns what a directory has of each run, by the id.
fn found(folder: &Path) -> BTreeMap<String, OnDisk> {
    let mut found: BTreeMap<String, OnDisk> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((id, extension)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
        let Some(data) = entry.metadata().ok().filter(|data| data.is_file() && is_id(id)) else { continue };
        let run = found.entry(id.to_owned()).or_default();
        run.bytes = run.bytes.saturating_add(data.len());
        run.is_whole |= extension == "json";
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "files of the user's own folders are removed here")]
fn remove(folder: &Path, id: &str) {
    // The result goes first: without it the run is not found.
    for extension in ["json", "jsonl", "json.new", "jsonl.new"] {
        let _missing = std::fs::remove_file(folder.join(format!("{id}.{extension}")));
    }
}

fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn ids(runs: &[KeptRun]) -> Vec<&str> {
        runs.iter().map(|run| run.id.as_str()).collect()
    }

    #[test]
    fn a_kept_run_is_found_by_the_beginning_of_its_id_and_is_for_its_owner_alone() {
        let state = tempfile::tempdir().unwrap();
        let runs = Runs::of(state.path(), Path::new("/p"));
        assert_eq!(runs.newest_first(), []);
        for id in ["0123456-a", "0123457-b", "0123456-b"] {
            runs.keep(id, id.as_bytes(), b"events\n").unwrap();
        }
        assert_eq!(ids(&runs.newest_first()), ["0123457-b", "0123456-b", "0123456-a"]);
        assert_eq!(ids(&runs.named("0123457")), ["0123457-b"]);
        assert_eq!(ids(&runs.named("0123456")), ["0123456-b", "0123456-a"]);
        assert_eq!(ids(&runs.named("01234")), [""; 0]);
        assert_eq!(runs.newest_first()[0].result().unwrap(), b"0123457-b");
        assert_eq!(runs.newest_first()[0].events().unwrap(), b"events\n");
        for entry in std::fs::read_dir(&runs.own).unwrap().flatten() {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
        }
        assert_eq!(runs.own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(Runs::of(state.path(), Path::new("/q")).newest_first(), []);
        assert!(runs.keep("../x", b"", b"").is_err());
    }

    #[test]
    fn only_the_newest_runs_of_a_workspace_stay() {
        let state = tempfile::tempdir().unwrap();
        let (runs, others) = (Runs::of(state.path(), Path::new("/p")), Runs::of(state.path(), Path::new("/q")));
        others.keep("00", b"{}", b"").unwrap();
        for number in 10..=10 + MOST_RUNS {
            runs.keep(&number.to_string(), b"{}", b"").unwrap();
        }
        let kept = runs.newest_first();
        assert_eq!((kept.len(), kept[0].id.as_str(), kept[MOST_RUNS - 1].id.as_str()), (MOST_RUNS, "30", "11"));
        assert!(!runs.own.join("10.jsonl").exists());
        assert_eq!(ids(&others.newest_first()), ["00"]);
    }

    #[test]
    fn older_runs_of_all_workspaces_go_when_there_are_too_many_bytes() {
        let state = tempfile::tempdir().unwrap();
        let (runs, others) = (Runs::of(state.path(), Path::new("/p")), Runs::of(state.path(), Path::new("/q")));
        let half = vec![b' '; 25 << 20];
        others.keep("10", &half, b"").unwrap();
        runs.keep("20", b"{}", &half).unwrap();
        others.keep("30", &half, b"").unwrap();
        assert_eq!((ids(&runs.newest_first()), ids(&others.newest_first())), (vec!["20"], vec!["30"]));
        let refused = runs.keep("40", &half, &[&half[..], &half].concat()).unwrap_err();
        assert_eq!(refused.to_string(), "it needs 75 MiB, and at most 64 MiB are kept");
        assert_eq!(ids(&runs.newest_first()), ["20"]);
    }

    #[test]
    fn what_a_killed_run_left_half_written_is_not_found_and_goes_in_time() {
        let state = tempfile::tempdir().unwrap();
        let runs = Runs::of(state.path(), Path::new("/p"));
        runs.keep("10", b"{}", b"").unwrap();
        std::fs::rename(runs.own.join("10.json"), runs.own.join("10.json.new")).unwrap();
        assert_eq!(runs.newest_first(), []);
        for number in 11..=10 + MOST_RUNS {
            runs.keep(&number.to_string(), b"{}", b"").unwrap();
        }
        assert!(!runs.own.join("10.json.new").exists() && !runs.own.join("10.jsonl").exists());
    }
}
