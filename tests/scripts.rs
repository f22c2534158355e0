//! Runs the tests of the scripts around the program, which are written in Python, like the stubs of what they start.

use std::process::Command;

fn passes(script: &str) {
    let path = format!("{}/tests/scripts/{script}", env!("CARGO_MANIFEST_DIR"));
    let done = Command::new("python3").arg(&path).output().unwrap();
    assert!(done.status.success(), "{path}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn install_sh_takes_the_released_program_and_starts_nothing_of_the_checkout() {
    passes("install.py");
}

#[test]
fn a_release_needs_one_name_and_one_version_everywhere() {
    passes("release.py");
}

#[test]
fn the_version_of_the_action_is_the_crates() {
    let version = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/VERSION")).unwrap();
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
}
