use proptest::prelude::*;

use super::super::arbitrary::{self, Files};
use super::super::change_set::Entry;
use super::super::diff::lines;
use super::super::patch::{self, ObjectFormat};
use super::*;

fn read(text: &str) -> Patch {
    Patch::parse(text.as_bytes()).unwrap()
}

fn choose(patch: &Patch, list: &str) -> Result<Patch, SelectionError> {
    select(patch, &Choice::parse(list, numbered(patch).len())?)
}

fn applied(patch: &Patch, before: &Files) -> Files {
    let look = |path: &RelPath| Ok(before.get(path).cloned().unwrap_or(Entry::Absent));
    let changes = patch.apply(&look, ObjectFormat::Sha1).unwrap();
    let mut after = before.clone();
    for (path, change) in changes.iter() {
        after.remove(path);
        if change.after != Entry::Absent {
            after.insert(path.clone(), change.after.clone());
        }
    }
    after
}

/// Moves a choice to where its lines are once another choice of the same patch is applied.
fn after(other: &Patch, mut patch: Patch) -> Patch {
    for file in &mut patch.files {
        let before = other.files.iter().find(|other| other.old == file.old && other.new == file.new);
        let (Body::Text(hunks), Some(Body::Text(before))) = (&mut file.body, before.map(|before| &before.body)) else {
            continue;
        };
        for hunk in hunks {
            let end = |other: &Hunk| other.start + other.runs.last().map_or(0, |run| run.old.end);
            let earlier = before.iter().filter(|other| end(other) <= hunk.start);
            let (added, removed) = earlier.fold((0, 0), |(a, r), of| (a + of.new.len(), r + of.old.len()));
            hunk.start = hunk.start + added - removed;
        }
    }
    patch
}

const TWO: &str = "\
diff --git a/a b/a
--- a/a
+++ b/a
@@ -1,7 +1,7 @@
 1
-2
+two
 3
 4
 5
-6
+six
 7
diff --git a/b b/b
new file mode 100644
--- /dev/null
+++ b/b
@@ -0,0 +1 @@
+b
";

#[test]
fn a_run_is_taken_with_the_context_up_to_the_next_one() {
    let patch = read(TWO);
    let Body::Text(hunks) = choose(&patch, "1.2").unwrap().files.remove(0).body else { panic!("not text") };
    let [hunk] = &hunks[..] else { panic!("{hunks:?}") };
    assert_eq!((hunk.start, hunk.new_start, hunk.old.concat()), (2, 2, b"3\n4\n5\n6\n7\n".to_vec()));
    assert_eq!(hunk.new.concat(), b"3\n4\n5\nsix\n7\n");
    assert_eq!(choose(&patch, "1.1,1.2,2").unwrap(), patch);
    assert_eq!(choose(&patch, "2").unwrap().files.len(), 1);
}

#[test]
fn what_cannot_be_chosen_is_named_with_what_there_is() {
    let patch = read(TWO);
    for (list, why) in [
        ("", "the list of hunks is empty; the patch has hunks 1 to 2"),
        ("3", "there is no hunk 3; the patch has hunks 1 to 2"),
        ("0", "there is no hunk 0; the patch has hunks 1 to 2"),
        ("1-99999999999", "there is no hunk 3; the patch has hunks 1 to 2"),
        ("2-1", "`2-1` names no hunk; write numbers and ranges, for example 1,3-5,7.2"),
        ("one", "`one` names no hunk; write numbers and ranges, for example 1,3-5,7.2"),
        ("1.3", "there is no hunk 1.3; hunk 1 has 1.1 to 1.2"),
        ("2.1", "hunk 2 cannot be divided: its file is new, deleted, renamed, binary or a link, or changes its mode"),
    ] {
        assert_eq!(choose(&patch, list).unwrap_err().to_string(), why, "{list}");
    }
}

#[test]
fn what_makes_no_sense_alone_comes_together() {
    let folder = read(
        "diff --git a/src/a b/src/a\ndeleted file mode 100644\n--- a/src/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
         diff --git a/src/a/b b/src/a/b\nnew file mode 100644\n--- /dev/null\n+++ b/src/a/b\n@@ -0,0 +1 @@\n+y\n",
    );
    assert_eq!(choose(&folder, "2").unwrap_err().to_string(), "hunk 2 needs hunk 1 (src/a becomes a directory)");
    assert_eq!(choose(&folder, "1").unwrap_err().to_string(), "hunk 1 needs hunk 2 (src/a becomes a directory)");
    assert_eq!(choose(&folder, "1-2").unwrap(), folder);
    let moved = read(
        "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
         diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n",
    );
    assert_eq!(choose(&moved, "1").unwrap_err().to_string(), "hunk 1 needs hunk 2 (a becomes b)");
    let mode = "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n";
    assert_eq!(numbered(&read(mode)).len(), 1);
}

#[test]
fn a_last_line_without_an_end_belongs_to_its_run() {
    let patch = read("--- a/a\n+++ b/a\n@@ -1,3 +1,4 @@\n-1\r\n+one\r\n 2\n-3\n\\ No newline at end of file\n+3\n+4\n");
    let path = RelPath::new("a").unwrap();
    let before: Files = [(path.clone(), Entry::file("1\r\n2\n3"))].into();
    let text = |list: &str| applied(&choose(&patch, list).unwrap(), &before).remove(&path).unwrap();
    assert_eq!(text("1.1"), Entry::file("one\r\n2\n3"));
    assert_eq!(text("1.2"), Entry::file("1\r\n2\n3\n4\n"));
}

/// Chooses runs and undivided hunks by one bit each; what is left over is the other choice.
fn parted_by(patch: &Patch, bits: &[bool]) -> (Choice, Choice) {
    let mut choices = [Choice::default(), Choice::default()];
    let mut bits = bits.iter().map(|bit| usize::from(*bit)).cycle();
    for listed in numbered(patch) {
        let runs = listed.hunk.map_or(0, |_| listed.hunks(patch)[0].runs.len());
        if runs == 0 {
            choices[bits.next().unwrap_or_default()].add(listed.number);
        }
        for run in 1..=runs {
            choices[bits.next().unwrap_or_default()].add_run(listed.number, run);
        }
    }
    choices.into()
}

fn every_line(files: &Files) -> BTreeSet<Vec<u8>> {
    let text = |entry: &Entry| lines(super::super::diff::text_of(entry)).iter().map(|line| line.to_vec()).collect();
    files.values().flat_map(|entry| -> Vec<Vec<u8>> { text(entry) }).collect()
}

proptest! {
    #[test]
    fn all_hunks_are_the_whole_patch(before in arbitrary::files(), after in arbitrary::files()) {
        let text = patch::print(&arbitrary::changes(&before, &after), &RelPath::root(), ObjectFormat::Sha1);
        let patch = Patch::parse(&text).unwrap();
        prop_assume!(!patch.files.is_empty());
        let of = numbered(&patch).len();
        prop_assert_eq!(&select(&patch, &Choice::parse(&format!("1-{of}"), of).unwrap()).unwrap(), &patch);
    }

    #[test]
    fn a_choice_and_the_rest_of_it_give_the_whole(
        before in arbitrary::files(), after_all in arbitrary::files(),
        bits in proptest::collection::vec(any::<bool>(), 1..30),
    ) {
        let text = patch::print(&arbitrary::changes(&before, &after_all), &RelPath::root(), ObjectFormat::Sha1);
        let patch = Patch::parse(&text).unwrap();
        let (one, rest) = parted_by(&patch, &bits);
        let (Ok(one), Ok(rest)) = (select(&patch, &one), select(&patch, &rest)) else { return Ok(()) };
        let between = applied(&one, &before);
        let (old, new) = (every_line(&before), every_line(&after_all));
        prop_assert!(every_line(&between).iter().all(|line| old.contains(line) || new.contains(line)));
        prop_assert_eq!(applied(&after(&one, rest), &between), after_all);
    }

    #[test]
    fn runs_of_one_file_are_independent(
        before in arbitrary::content(), after_all in arbitrary::content(),
        bits in proptest::collection::vec(any::<bool>(), 1..12),
    ) {
        let path = RelPath::new("f").unwrap();
        let files = |content: &[u8]| -> Files {
            [(path.clone(), Entry::File { content: content.to_vec().into(), executable: false })].into()
        };
        let (before, after_all) = (files(&before), files(&after_all));
        let text = patch::print(&arbitrary::changes(&before, &after_all), &RelPath::root(), ObjectFormat::Sha1);
        let patch = Patch::parse(&text).unwrap();
        let (one, rest) = parted_by(&patch, &bits);
        let (Ok(one), Ok(rest)) = (select(&patch, &one), select(&patch, &rest)) else { return Ok(()) };
        let between = applied(&one, &before);
        prop_assert_eq!(applied(&after(&one, rest), &between), after_all);
    }
}
