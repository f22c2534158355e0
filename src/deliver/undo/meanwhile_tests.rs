//! Checks that nothing is lost that somebody writes while a delivery or an undoing is at work, and that nobody may read
//! more meanwhile.

use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::rc::Rc;

use super::super::test_support::{Project, script};
use super::*;
use crate::change::{ChangeSet, Entry};
use crate::deliver::Site;
use crate::deliver::apply::apply;

const EDIT: &str = "what a person wrote\n";

fn project() -> Project {
    Project::new().file("a", "1\n").file("gone/b", "1\n").file("c", "1\n").file("d/x", "1\n")
}

fn changes(project: &Project) -> ChangeSet {
    project.changes(&[
        ("a", script("2\n")),
        ("gone/b", Entry::Absent),
        ("c", Entry::Absent),
        ("c/d", Entry::file("2\n")),
        ("d/x", Entry::Absent),
        ("d", Entry::file("2\n")),
        ("new/e", Entry::file("2\n")),
    ])
}

/// What a person does meanwhile, and whether it worked.
struct Person {
    project: Project,
    path: &'static str,
    wrote: Rc<Cell<bool>>,
}

impl Person {
    fn of(project: Project, path: &'static str) -> Person {
        Person { project, path, wrote: Rc::default() }
    }

    /// Writes before the operation of this number, if the file's directory is there then.
    fn steps(&self, steps: Steps, number: usize) -> Steps {
        let (file, wrote) = (self.project.root().join(self.path), self.wrote.clone());
        steps.meanwhile(number, move || wrote.set(std::fs::write(&file, EDIT).is_ok()))
    }

    /// Returns where it is.
    fn found(&self) -> Vec<PathBuf> {
        let is_edit = |entry: &Entry| entry.content() == Some(EDIT.as_bytes());
        self.project.tree().into_iter().filter(|(_, (_, entry))| is_edit(entry)).map(|(path, _)| path).collect()
    }

    /// Checks that it stays where it was written, or is named by what finishes a delivery that was cut off.
    fn check(&self, what: &str) {
        let root = self.project.root();
        let reports = recover(&self.project.undo(), root).unwrap();
        let named = reports.iter().flat_map(|recovered| &recovered.report.set_aside).map(|path| path.under(root));
        let wanted: Vec<PathBuf> = self.wrote.get().then(|| root.join(self.path)).into_iter().chain(named).collect();
        let found = self.found();
        assert!(found.iter().all(|path| wanted.contains(path)), "{}, {what}: {found:?}, {reports:?}", self.path);
        assert!(!self.wrote.get() || !found.is_empty(), "{}, {what}: {reports:?}", self.path);
    }
}

const PATHS: [&str; 6] = ["a", "gone/b", "c", "c/d", "d/x", "d"];

/// Lets a person write each path before each operation of what `act` returns the words of, and with a failure after it.
fn while_somebody_writes<P>(prepare: impl Fn(&Project) -> P, act: impl Fn(&Project, P, &Steps) -> String) {
    for (path, is_failing) in PATHS.into_iter().flat_map(|path| [(path, false), (path, true)]) {
        for number in 0.. {
            let fails = is_failing.then_some(1 + number % 5);
            let person = Person::of(project(), path);
            let prepared = prepare(&person.project);
            let steps = fails.map_or_else(Steps::default, |later| Steps::failing_at(number + later));
            let steps = person.steps(steps, number);
            let done = act(&person.project, prepared, &steps);
            let is_kept = !person.wrote.get() || person.found() == [person.project.root().join(path)];
            assert!(is_kept || fails.is_some(), "{path}, operation {number}: {done}");
            person.check(&format!("operation {number}, failing {fails:?}: {done}"));
            if steps.taken() <= number {
                assert!(number > 25, "{number}");
                break;
            }
        }
    }
}

#[test]
fn what_is_written_during_a_delivery_stays_where_it_was_written() {
    while_somebody_writes(changes, |project, changes, steps| format!("{:?}", apply(&changes, &project.site(), steps)));
}

#[test]
fn what_is_written_during_an_undo_stays_where_it_was_written() {
    let applied =
        |project: &Project| apply(&changes(project), &project.site(), &Steps::default()).unwrap().record.unwrap();
    while_somebody_writes(applied, |project, record, steps| format!("{:?}", undo(&record, project.root(), steps)));
}

/// Lets a person who has opened each of these files write to it before each operation of what `act` does, and checks that
/// the text is in its place, or in a file that is named.
fn while_somebody_has_a_file_open<P>(
    paths: [&'static str; 4],
    prepare: impl Fn(&Project) -> P,
    act: impl Fn(&Project, P, &Steps) -> String,
) {
    for path in paths {
        let mut kept = 0;
        for number in 0.. {
            let project = project();
            let prepared = prepare(&project);
            let file = std::fs::File::options().append(true).open(project.root().join(path)).unwrap();
            let is_too_late = Rc::new(Cell::new(false));
            let gone = is_too_late.clone();
            let steps = Steps::default().meanwhile(number, move || {
                gone.set(file.metadata().unwrap().nlink() == 0);
                (&file).write_all(EDIT.as_bytes()).unwrap();
            });
            let said = act(&project, prepared, &steps);
            if steps.taken() <= number {
                assert!(kept > 0, "{path}");
                break;
            }
            if is_too_late.get() {
                continue;
            }
            let is_edit = |entry: &Entry| entry.content().is_some_and(|content| content.ends_with(EDIT.as_bytes()));
            let found: Vec<PathBuf> =
                project.tree().into_iter().filter(|(_, (_, entry))| is_edit(entry)).map(|(found, _)| found).collect();
            let [found] = &found[..] else { panic!("{path}, operation {number}: {found:?}: {said}") };
            let name = found.strip_prefix(project.root()).unwrap().to_str().unwrap();
            if name != path {
                kept += 1;
                assert!(name.contains("-kept-") && said.contains(name), "{path}, operation {number}: {name}: {said}");
            }
        }
    }
}

#[test]
fn what_is_written_to_a_file_that_was_opened_before_a_delivery_is_kept_and_named() {
    while_somebody_has_a_file_open(["a", "gone/b", "c", "d/x"], changes, |project, changes, steps| {
        let told = |finished: crate::deliver::apply::Finished| finished.warnings.join("; ");
        apply(&changes, &project.site(), steps).map_or_else(|error| error.to_string(), told)
    });
}

#[test]
fn what_is_written_to_a_file_that_was_opened_before_an_undo_is_kept_and_named() {
    let applied = |project: &Project| apply(&changes(project), &project.site(), &Steps::default()).unwrap().record;
    while_somebody_has_a_file_open(["a", "c/d", "d", "new/e"], applied, |project, record, steps| {
        let told = |report: UndoReport| report.kept_aside().collect::<Vec<_>>().join("; ");
        undo(&record.unwrap(), project.root(), steps).map_or_else(|error| error.to_string(), told)
    });
}

/// Lets a person open a file of the run just before an operation that fails, and write to it before each later one; checks
/// that the text is in its place, or in a file that is named.
fn while_a_failure_is_rolled_back<P>(
    (paths, content): (&[&'static str], &str),
    prepare: impl Fn(&Project) -> P,
    act: impl Fn(&Project, P, &Steps) -> String,
) {
    let mut kept = 0;
    for (path, failing) in paths.iter().flat_map(|path| (0..80).map(move |failing| (path, failing))) {
        for later in 1.. {
            let project = project();
            let prepared = prepare(&project);
            let at = project.root().join(path);
            let (opened, is_written) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(false)));
            let (file, written) = (opened.clone(), is_written.clone());
            let expected = content.to_owned();
            let open = move || {
                if std::fs::read_to_string(&at).is_ok_and(|now| now == expected) {
                    *opened.borrow_mut() = std::fs::File::options().append(true).open(&at).ok();
                }
            };
            let write = move || {
                if let Some(mut file) = file.borrow_mut().take_if(|file| file.metadata().unwrap().nlink() > 0) {
                    file.write_all(EDIT.as_bytes()).unwrap();
                    written.set(true);
                }
            };
            let steps = Steps::failing_at(failing).meanwhile(failing, open).meanwhile(failing + later, write);
            let said = act(&project, prepared, &steps);
            if !is_written.get() {
                break;
            }
            let is_edit = |entry: &Entry| entry.content().is_some_and(|content| content.ends_with(EDIT.as_bytes()));
            let found: Vec<PathBuf> =
                project.tree().into_iter().filter(|(_, (_, entry))| is_edit(entry)).map(|(found, _)| found).collect();
            let [found] = &found[..] else { panic!("{path}, failing {failing}, {later} later: {found:?}: {said}") };
            let name = found.strip_prefix(project.root()).unwrap().to_str().unwrap();
            assert!(name == *path || said.contains(name), "{path}, failing {failing}, {later} later: {name}: {said}");
            kept += usize::from(name.contains("-kept-"));
        }
    }
    assert!(kept > 0);
}

#[test]
fn what_is_written_to_a_file_of_a_delivery_that_is_rolled_back_is_kept_and_named() {
    while_a_failure_is_rolled_back((&["a", "c/d", "d", "new/e"], "2\n"), changes, |project, changes, steps| {
        apply(&changes, &project.site(), steps).map_or_else(|error| error.to_string(), |done| done.warnings.join("; "))
    });
}

#[test]
fn what_is_written_to_a_file_of_an_undo_that_is_given_up_is_kept_and_named() {
    let applied = |project: &Project| apply(&changes(project), &project.site(), &Steps::default()).unwrap().record;
    while_a_failure_is_rolled_back((&["a", "gone/b", "d/x"], "1\n"), applied, |project, record, steps| {
        let told = |report: UndoReport| report.kept_aside().collect::<Vec<_>>().join("; ");
        undo(&record.unwrap(), project.root(), steps).map_or_else(|error| error.to_string(), told)
    });
}

#[test]
fn an_undo_in_which_somebody_writes_changes_nothing_and_says_so() {
    let person = Person::of(Project::new().file("a", "1\n").file("z", "1\n"), "a");
    let project = &person.project;
    let changes = project.changes(&[("a", Entry::file("2\n")), ("z", Entry::file("2\n"))]);
    let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
    let all = (0..).find_map(|number| {
        let error = undo(&record, project.root(), &person.steps(Steps::default(), number)).err()?;
        Some(error)
    });
    let error = all.unwrap();
    assert!(!error.half && error.to_string() == "a was changed meanwhile", "{error}");
    assert_eq!(std::fs::read(project.root().join("z")).unwrap(), b"2\n");
    assert!(project.leftovers().is_empty() && recover(&project.undo(), project.root()).unwrap().is_empty());
}

#[test]
fn what_is_written_before_a_kill_is_kept_and_named() {
    for path in PATHS {
        for (undoing, number) in (9..36).flat_map(|number| [(false, number), (true, number)]) {
            let later = number % 4;
            let person = Person::of(project(), path);
            let (project, site) = (&person.project, person.project.site());
            let steps = person.steps(Steps::killed_at(number + later), number);
            if undoing {
                let record = apply(&changes(project), &site, &Steps::default()).unwrap().record.unwrap();
                let _killed = undo(&record, project.root(), &steps);
            } else {
                let _killed = apply(&changes(project), &site, &steps);
            }
            person.check(&format!("undoing {undoing}, operation {number}, killed {later} later"));
        }
    }
}

const SECRET: &str = "key = 1\n";

fn set_mode(project: &Project, path: &str, mode: u32) {
    std::fs::set_permissions(project.root().join(path), std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(project: &Project, path: &str) -> u32 {
    project.root().join(path).metadata().unwrap().permissions().mode() & 0o7777
}

/// A file that others could read if its directory let them in, beside one whose name its directory takes.
fn private() -> (Project, ChangeSet) {
    let project = Project::new().file("private/k", SECRET).file("closed/in/k", SECRET).file("d/k", SECRET);
    for (path, mode) in [("private", 0o700), ("closed/in", 0o2710), ("closed", 0o750), ("d", 0o700)] {
        set_mode(&project, path, mode);
    }
    let gone = [("private/k", Entry::Absent), ("closed/in/k", Entry::Absent), ("d/k", Entry::Absent)];
    let changes = project.changes(&[&gone[..], &[("d", Entry::file("2\n"))]].concat());
    (project, changes)
}

/// Names the files with the secret that others can read.
fn exposed(project: &Project) -> Vec<PathBuf> {
    let tree = project.tree();
    let lets_in = |path: &Path| {
        path.ancestors()
            .skip(1)
            .take_while(|folder| *folder != project.root())
            .all(|folder| tree[folder].0 & 0o001 != 0)
    };
    let is_exposed = |(path, (mode, entry)): &(&PathBuf, &(u32, Entry))| {
        mode & 0o004 != 0 && entry.content() == Some(SECRET.as_bytes()) && lets_in(path)
    };
    tree.iter().filter(is_exposed).map(|(path, _)| path.clone()).collect()
}

#[test]
fn nobody_may_read_more_at_any_moment_of_a_delivery_or_an_undo() {
    for (undoing, failing) in [(false, false), (true, false), (false, true), (true, true)] {
        for number in 0.. {
            let (project, changes) = private();
            let before = project.tree();
            let steps = match failing {
                false => Steps::killed_at(number),
                true => Steps::failing_then_killed_at(number, number + 1 + number % 3),
            };
            let killed = if undoing {
                let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
                undo(&record, project.root(), &steps).is_err()
            } else {
                apply(&changes, &project.site(), &steps).is_err()
            };
            let what = format!("operation {number}, undoing {undoing}, failing {failing}");
            assert_eq!(exposed(&project), Vec::<PathBuf>::new(), "{what}");
            recover(&project.undo(), project.root()).unwrap();
            for (record, _) in project.records() {
                undo(&record, project.root(), &Steps::default()).unwrap();
            }
            assert_eq!(project.tree(), before, "{what}");
            if !killed && steps.taken() <= number {
                break;
            }
        }
    }
}

#[test]
fn a_directory_that_an_undo_made_and_did_not_finish_gets_its_mode_from_the_next() {
    let (project, changes) = private();
    let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
    // The kill is between the directory and its mode.
    let is_cut_off = (0..60).any(|number| {
        let is_killed = undo(&record, project.root(), &Steps::killed_at(number)).is_err();
        is_killed && project.root().join("closed").exists()
    });
    let (_, saved) = Journal::open(&record).unwrap();
    assert!(is_cut_off && saved.narrow.contains(&"closed".to_owned()), "{:?}", saved.narrow);
    set_mode(&project, "closed", 0o700);
    recover(&project.undo(), project.root()).unwrap();
    undo(&record, project.root(), &Steps::default()).unwrap();
    let modes = ["closed", "closed/in", "closed/in/k"].map(|path| mode(&project, path));
    assert_eq!(modes, [0o750, 0o2710, 0o644]);
}

#[test]
fn an_undo_that_fails_gives_directories_back_their_modes() {
    let project = Project::new().file("file", "1\n");
    let changes = project.changes(&[("file", Entry::Absent), ("file/in", Entry::file("2\n"))]);
    let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
    set_mode(&project, "file", 0o700);
    for number in 0.. {
        let steps = Steps::failing_at(number);
        match undo(&record, project.root(), &steps) {
            Err(error) if !error.half => assert_eq!(mode(&project, "file"), 0o700, "operation {number}"),
            Ok(_) | Err(_) => break,
        }
    }
}

#[test]
fn the_mode_of_a_file_that_was_made_executable_or_not_comes_back_exactly() {
    for (before, makes) in
        [(0o744, false), (0o740, false), (0o711, false), (0o654, true), (0o640, true), (0o2745, false)]
    {
        let project = Project::new().file("a", "1\n");
        set_mode(&project, "a", before);
        let after = if makes { script("1\n") } else { Entry::file("1\n") };
        let changes = project.changes(&[("a", after)]);
        let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
        undo(&record, project.root(), &Steps::default()).unwrap();
        assert_eq!(mode(&project, "a"), before, "{before:o}");
        // What a person has taken away since stays away.
        let site = Site { run_id: "run-2", ..project.site() };
        let record = apply(&changes, &site, &Steps::default()).unwrap().record.unwrap();
        set_mode(&project, "a", if makes { 0o500 } else { 0o400 });
        undo(&record, project.root(), &Steps::default()).unwrap();
        assert_eq!(mode(&project, "a") & 0o077, 0, "{before:o}");
    }
}

#[test]
fn a_link_to_a_directory_never_gives_that_one_another_mode() {
    let (project, outside) = (Project::new().file("in/a", "1\n"), tempfile::tempdir().unwrap());
    set_mode(&project, "in", 0o777);
    let changes = project.changes(&[("in/a", Entry::Absent)]);
    let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
    std::fs::set_permissions(outside.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let (folder, target) = (project.root().join("in"), outside.path().to_path_buf());
    for number in 0..40 {
        let (folder, target) = (folder.clone(), target.clone());
        let swap = move || {
            let aside = folder.with_extension("aside");
            if std::fs::rename(&folder, aside).is_ok() {
                std::os::unix::fs::symlink(&target, &folder).unwrap();
            }
        };
        let _refused = undo(&record, project.root(), &Steps::default().meanwhile(number, swap));
        assert_eq!(outside.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let _gone = std::fs::remove_file(project.root().join("in"));
        let _gone = std::fs::remove_dir_all(project.root().join("in.aside"));
    }
    let tree = Folder::root(project.root()).unwrap();
    std::os::unix::fs::symlink(outside.path(), project.root().join("link")).unwrap();
    assert!(tree.set_mode("link".as_ref(), 0o777).is_err() && tree.set_mode_of_file("link".as_ref(), 0o777).is_err());
}

#[test]
fn a_delivery_that_was_killed_above_or_below_is_rolled_back() {
    for (killed, next) in [("", "sub"), ("sub", ""), ("sub/in", "")] {
        let project = Project::new().file("sub/in/a", "1\n");
        let (killed, next) = (project.root().join(killed), project.root().join(next));
        let path = project.root().join("sub/in/a").strip_prefix(&killed).unwrap().to_str().unwrap().to_owned();
        let mut changes = ChangeSet::default();
        changes.stage(RelPath::new(&path).unwrap(), || Entry::file("1\n"), Entry::file("2\n"));
        let site = Site { root: &killed, ..project.site() };
        let before = project.tree();
        let cut_off = (0..20).find(|number| {
            let site = Site { run_id: &format!("run-{number}"), ..site };
            apply(&changes, &site, &Steps::killed_at(*number)).is_err() && project.tree() != before
        });
        assert!(cut_off.is_some());
        let elsewhere = tempfile::tempdir().unwrap();
        recover(&project.undo(), elsewhere.path()).unwrap();
        assert!(project.tree() != before);
        let told = recover(&project.undo(), &next).unwrap()[0].told();
        assert_eq!(project.tree(), before);
        // The names that it tells are relative to this directory.
        assert!(told.contains(&format!(" in {} was interrupted", killed.display())), "{told}");
    }
}

#[test]
fn what_a_kill_left_of_a_record_goes_after_a_day() {
    let project = Project::new().file("a", "1\n");
    let left = |name: &str, hours: u64| {
        let folder = project.undo().join(name);
        std::fs::create_dir_all(folder.join("blobs")).unwrap();
        std::fs::write(folder.join("blobs/x"), SECRET).unwrap();
        let at = std::time::SystemTime::now() - std::time::Duration::from_hours(hours);
        std::fs::File::open(&folder).unwrap().set_modified(at).unwrap();
    };
    left("old", 25);
    left("new", 1);
    apply(&project.changes(&[("a", Entry::file("2\n"))]), &project.site(), &Steps::default()).unwrap();
    let names = |name: &str| project.undo().join(name).exists();
    assert_eq!((names("old"), names("new"), names("run-1")), (false, true, true));
}

#[test]
fn an_undo_whose_record_cannot_be_written_has_not_begun() {
    let project = Project::new().file("a", "1\n");
    let changes = project.changes(&[("a", Entry::file("2\n"))]);
    let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
    let error = undo(&record, project.root(), &Steps::killed_at(0)).unwrap_err();
    assert!(!error.half, "{error}");
}
