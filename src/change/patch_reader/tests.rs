use proptest::prelude::*;

use super::*;

fn apply(patch: &str, content: &str) -> Result<ChangeSet, PatchError> {
    let look = |path: &RelPath| Ok(if path.to_string() == "a" { Entry::file(content) } else { Entry::Absent });
    Patch::parse(patch.as_bytes())?.apply(&look, ObjectFormat::Sha1)
}

#[test]
fn a_rename_moves_the_file_and_its_mode() {
    let patch =
        "diff --git a/a b/n\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from a\nrename to n\n";
    let changes = apply(patch, "1\n").unwrap();
    assert_eq!(changes.staged(&RelPath::new("a").unwrap()), Some(&Entry::Absent));
    let moved = Entry::File { content: b"1\n".as_slice().into(), executable: true };
    assert_eq!(changes.staged(&RelPath::new("n").unwrap()), Some(&moved));
}

#[test]
fn a_copy_or_a_rename_takes_the_file_as_it_was_before_the_patch() {
    let of = |changes: &ChangeSet, path: &str| changes.staged(&RelPath::new(path).unwrap()).cloned();
    let copy = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n\
                diff --git a/a b/n\nsimilarity index 100%\ncopy from a\ncopy to n\n";
    let changes = apply(copy, "1\n").unwrap();
    assert_eq!((of(&changes, "a"), of(&changes, "n")), (Some(Entry::file("2\n")), Some(Entry::file("1\n"))));
    // Two files change places.
    let one = |from: &str, to: &str| {
        format!("diff --git a/{from} b/{to}\nsimilarity index 100%\nrename from {from}\nrename to {to}\n")
    };
    let patch = Patch::parse((one("a", "b") + &one("b", "a")).as_bytes()).unwrap();
    let look = |path: &RelPath| Ok(Entry::file(format!("{path}\n")));
    let changes = patch.apply(&look, ObjectFormat::Sha1).unwrap();
    assert_eq!((of(&changes, "a"), of(&changes, "b")), (Some(Entry::file("b\n")), Some(Entry::file("a\n"))));
    let patch = Patch::parse(one("a", "b").as_bytes()).unwrap();
    assert!(patch.apply(&look, ObjectFormat::Sha1).unwrap_err().to_string().contains("already exists"));
}

#[test]
fn a_plain_diff_with_a_cover_letter_is_read() {
    let changes =
        apply("Hello\n\n--- a/a\t2020-01-01\n+++ b/a\n@@ -1,2 +1,2 @@ fn x()\n 1\n-2\n+two\n", "1\n2\n").unwrap();
    assert_eq!(changes.staged(&RelPath::new("a").unwrap()), Some(&Entry::file("1\ntwo\n")));
}

#[test]
fn a_refusal_names_the_place() {
    let error = |patch, content| apply(patch, content).unwrap_err().to_string();
    let patch = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n";
    assert_eq!(error(patch, "1\n3\n"), "a: the patch does not apply: hunk 1: line 2 is not `2`");
    assert_eq!(error(patch, "1\n"), "a: the patch does not apply: hunk 1: the file has no line 1");
    let ends = error(patch, "1\r\n2\r\n");
    assert!(ends.ends_with("hunk 1: line 1 is not `1`: the line ends differently (CRLF or LF)"), "{ends}");
    assert_eq!(error("hello\n", ""), "patch line 1: it contains no changes");
    assert_eq!(error("--- a/a\n+++ b/../a\n@@ -1 +1 @@\n", ""), "patch line 3: `b/../a` is outside the project");
    assert_eq!(error("--- a/a\n+++ b/a\n@@ -1,2 +1 @@\n 1\n", ""), "patch line 5: the patch ends within a hunk");
    assert_eq!(
        error("diff --git a/x b/x\nnew file mode 160000\n", ""),
        "patch line 1: a submodule's change cannot be applied"
    );
}

#[test]
fn every_file_that_does_not_fit_is_named() {
    let patch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n";
    let patch = Patch::parse(patch.as_bytes()).unwrap();
    let settle = |file: &FilePatch, before: &Entry, _: First| file.exactly(before, ObjectFormat::Sha1);
    let refused = patch.apply_by(&|_| Ok(Entry::file("1\n")), &settle, &|_, _, _| Ok(())).unwrap_err();
    assert_eq!(refused.len(), 2);
}

#[test]
fn a_moved_hunk_is_put_at_the_nearest_place_and_the_borders_hold() {
    let moved = |patch: &str, content: &str| {
        let file = Patch::parse(format!("--- a/a\n+++ b/a\n{patch}").as_bytes()).unwrap().files.remove(0);
        let entry = file.wherever_it_fits(&Entry::file(content), ObjectFormat::Sha1);
        entry.map(|entry| String::from_utf8_lossy(entry.content().unwrap()).into_owned()).map_err(|e| e.to_string())
    };
    let hunk = "@@ -3,3 +3,3 @@\n 1\n-2\n+two\n 3\n";
    assert_eq!(moved(hunk, "0\n1\n2\n3\n4\n").as_deref(), Ok("0\n1\ntwo\n3\n4\n"));
    assert_eq!(moved(hunk, "1\n2\n3\n1\n2\n3\n").as_deref(), Ok("1\n2\n3\n1\ntwo\n3\n"), "after before before");
    // A line inserted without context goes to the end, where git puts it.
    assert_eq!(moved("@@ -2,0 +3 @@\n+x\n", "1\n2\n3\n").as_deref(), Ok("1\n2\n3\nx\n"));
    let refused = |patch: &str, content: &str| moved(patch, content).unwrap_err();
    assert!(refused(hunk, "1\n3\n3\n3\n3\n").ends_with("line 3 is not `1`, and its lines are at no other place"));
    assert!(refused(hunk, "1\n3\n").ends_with("the file has no line 3"));
    let first = "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n";
    assert!(
        refused(first, "0\n1\n2\n3\n4\n")
            .ends_with("its lines are at line 2, but its header places it at the beginning of the file")
    );
    assert!(refused("@@ -2 +2 @@\n-2\n+two\n", "1\n2\n3\n").contains("it must be at the end of the file"));
    let twice = format!("{hunk}@@ -4,2 +4,2 @@\n-two\n+2\n 3\n");
    assert!(refused(&twice, "1\n2\n3\n").contains("hunk 2: "), "what a hunk has written is no place");
}

#[test]
fn a_part_is_applied_already_only_if_each_of_its_hunks_is() {
    let patch = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n@@ -8,2 +8,2 @@\n 8\n-9\n+nine\n";
    let file = Patch::parse(patch.as_bytes()).unwrap().files.remove(0);
    let lines = |first: &str, last: &str| Entry::file(format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n"));
    assert!(file.is_applied(&lines("one", "nine")));
    assert!(!file.is_applied(&lines("one", "9")) && !file.is_applied(&lines("1", "9")));
}

#[test]
fn what_git_does_not_take_for_a_patch_is_no_patch() {
    let header = "diff --git a/a b/a\n";
    for (patch, line) in [
        (format!("{header}index 1234567..89abcde 100644\n"), 1),
        (format!("{header}--- a/a\n+++ b/a\n"), 4),
        (format!("{header}--- a/a\n+++ b/a\n@@ @@\n-1\n+2\n"), 4),
        ("--- a/a\n+++ b/a\n@@\n-1\n+2\n".to_owned(), 3),
        ("--- a/a\n+++ b/a\n@@ -1 +1 @@\n 1\n".to_owned(), 3),
        ("--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n".to_owned(), 6),
        ("Here is the patch:\n".to_owned(), 1),
        ("\n".to_owned(), 1),
    ] {
        match Patch::parse(patch.as_bytes()) {
            Err(PatchError::Syntax { line: found, .. }) => assert_eq!(found, line, "{patch}"),
            other => panic!("{patch}: {other:?}"),
        }
    }
    assert_eq!(Patch::parse(b"").unwrap(), Patch::default());
}

#[test]
fn a_new_file_does_not_overwrite() {
    let patch = "diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+1\n";
    assert_eq!(apply(patch, "").unwrap_err().to_string(), "a: the patch does not apply: it already exists");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(diff --git a/a b/a\n|--- a/a\n|\\+\\+\\+ b/a\n|@@ -[0-9]{1,20},[0-9] \\+1 @@\n|[ +-]1\n|GIT binary patch\n|literal 9\n|cmc\n|\\PC{0,5}\n|new file mode 100644\n|rename from a\n|rename to b\n){0,12}") {
        if let Ok(patch) = Patch::parse(text.as_bytes()) {
            let _ = patch.apply(&|_| Ok(Entry::file("1\n1\n")), ObjectFormat::Sha1);
        }
    }
}
