//! Runs scripts in a directory, for the tests of this module.

use std::path::Path;
use std::process::Command;

/// Runs a script in a directory, which is also its home, with nothing of git's inherited, and returns what it prints.
pub(crate) fn sh(folder: &Path, script: &str) -> String {
    let mut command = Command::new("bash");
    for (name, _) in std::env::vars_os().filter(|(name, _)| crate::git::is_inherited(name)) {
        command.env_remove(name);
    }
    let identity = [
        ("GIT_AUTHOR_NAME", "U"),
        ("GIT_AUTHOR_EMAIL", "u@e"),
        ("GIT_COMMITTER_NAME", "U"),
        ("GIT_COMMITTER_EMAIL", "u@e"),
    ];
    let output = command
        .args(["-euc", script])
        .current_dir(folder)
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs(identity)
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
