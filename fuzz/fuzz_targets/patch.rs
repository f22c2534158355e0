//! Checks that any bytes are a patch or an error with a line number, that a parsed patch prints to an equivalent one,
//! and that the patch between two texts turns one into the other.
//!
//! The input is two texts separated by a zero byte; the first is also parsed as a patch.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::change::patch::{ObjectFormat, print};
use qwen_run::change::patch_reader::{Patch, PatchError};
use qwen_run::change::{ChangeSet, Entry, merge::merge};
use qwen_run::path::RelPath;

fn returns(changes: &ChangeSet) {
    let printed = print(changes, &RelPath::root(), ObjectFormat::Sha1);
    let look = |path: &RelPath| -> Result<Entry, PatchError> {
        Ok(changes.get(path).map_or(Entry::Absent, |change| change.before.clone()))
    };
    let again = Patch::parse(&printed)
        .and_then(|patch| patch.apply(&look, ObjectFormat::Sha1))
        .unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&printed)));
    let of = |changes: &ChangeSet| -> Vec<(RelPath, Entry)> {
        changes.iter().map(|(path, change)| (path.clone(), change.after.clone())).collect()
    };
    assert_eq!(of(&again), of(changes), "{}", String::from_utf8_lossy(&printed));
}

fuzz_target!(|input: &[u8]| {
    let cut = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (one, two) = (&input[..cut], input.get(cut + 1..).unwrap_or_default());
    if let Ok(patch) = Patch::parse(one) {
        let look = |_: &RelPath| -> Result<Entry, PatchError> { Ok(Entry::file(two)) };
        for file in &patch.files {
            let _found = file.wherever_it_fits(&Entry::file(two), ObjectFormat::Sha1);
        }
        if let Ok(changes) = patch.apply(&look, ObjectFormat::Sha1) {
            returns(&changes);
        }
        let nothing = |_: &RelPath| -> Result<Entry, PatchError> { Ok(Entry::Absent) };
        if let Ok(changes) = patch.apply(&nothing, ObjectFormat::Sha1) {
            returns(&changes);
        }
    }
    let mut changes = ChangeSet::default();
    changes.stage(RelPath::new("a b").expect("a name"), || Entry::file(one), Entry::file(two));
    returns(&changes);
    assert_eq!(merge(one, two, one).as_deref(), Ok(two));
    assert_eq!(merge(one, one, two).as_deref(), Ok(two));
});
