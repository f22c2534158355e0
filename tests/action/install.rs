//! install.sh: which binary it takes, and what it never takes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

use super::runner::{action, action_folder, output_file};

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { folder: tempfile::tempdir().unwrap() };
        for name in ["action", "release/v1.2.3", "bin", "temp"] {
            std::fs::create_dir_all(machine.path(name)).unwrap();
        }
        std::fs::write(machine.path("action/VERSION"), "1.2.3\n").unwrap();
        std::fs::write(machine.path("action/SHA256SUMS"), "").unwrap();
        machine.executable("bin/uname", "case $1 in -s) echo Linux ;; *) echo x86_64 ;; esac");
        machine.executable("bin/cargo", "echo \"cargo $*\" >>\"$LOG\"; while [ $# -gt 0 ]; do [ \"$1\" = --root ] && root=$2; shift; done; mkdir -p \"$root/bin\"; printf '#!/bin/sh\\necho built\\n' >\"$root/bin/qwen\"; chmod +x \"$root/bin/qwen\"");
        machine
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn executable(&self, name: &str, script: &str) {
        std::fs::write(self.path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Puts a release where it is downloaded from, and its digest where the action has it.
    fn release(&self, digest: impl FnOnce(String) -> String) {
        self.executable("qwen", "echo released");
        let archive = self.path("release/v1.2.3/qwen-1.2.3-x86_64-unknown-linux-musl.tar.gz");
        let done = Command::new("tar")
            .arg("-czf")
            .arg(&archive)
            .arg("-C")
            .arg(self.folder.path())
            .arg("qwen")
            .status()
            .unwrap();
        assert!(done.success());
        let sum: String = Sha256::digest(std::fs::read(&archive).unwrap()).iter().map(|b| format!("{b:02x}")).collect();
        let line = format!("{}  qwen-1.2.3-x86_64-unknown-linux-musl.tar.gz\n", digest(sum));
        std::fs::write(self.path("action/SHA256SUMS"), line).unwrap();
    }

    fn install(&self, variables: &[(&str, &str)]) -> (Output, String) {
        let output = self.path("output");
        std::fs::write(&output, "").unwrap();
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let done = Command::new("bash")
            .arg(action_folder().join("install.sh"))
            .env_clear()
            .env("PATH", path)
            .env("LOG", self.path("log"))
            .env("QWEN_ACTION_DIR", self.path("action"))
            .env("QWEN_RELEASE_BASE", format!("file://{}", self.path("release").display()))
            .env("QWEN_SERVER", "https://github.example")
            .env("QWEN_ACTION_REPOSITORY", "o/r")
            .env("RUNNER_TEMP", self.path("temp"))
            .env("GITHUB_OUTPUT", &output)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let bin = output_file(&std::fs::read_to_string(&output).unwrap()).remove("bin").unwrap_or_default();
        (done, bin)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

fn says(path: &str) -> String {
    String::from_utf8(Command::new(path).output().unwrap().stdout).unwrap()
}

#[test]
fn a_release_with_the_right_digest_is_taken_once() {
    let machine = Machine::new();
    machine.release(|digest| digest);
    let (done, bin) = machine.install(&[]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(says(&bin), "released\n");
    std::fs::remove_dir_all(machine.path("release")).unwrap();
    assert_eq!(machine.install(&[]).1, bin, "it is in the cache");
    assert_eq!(machine.log(), "");
}

#[test]
fn a_wrong_digest_is_final() {
    let machine = Machine::new();
    machine.release(|digest| digest.chars().rev().collect());
    let (done, bin) = machine.install(&[]);
    assert_eq!((done.status.code(), bin.as_str(), machine.log().as_str()), (Some(1), "", ""));
    assert!(String::from_utf8_lossy(&done.stdout).contains("the digest of qwen-1.2.3-x86_64"), "{done:?}");
}

#[test]
fn without_a_release_the_sources_of_the_version_are_built() {
    let machine = Machine::new();
    assert_eq!(says(&machine.install(&[]).1), "built\n");
    assert!(machine.log().contains("--git https://github.example/o/r --tag v1.2.3"), "{}", machine.log());
    let machine = Machine::new();
    std::fs::write(machine.path("action/Cargo.toml"), "").unwrap();
    machine.install(&[]);
    assert!(machine.log().contains("--path"), "{}", machine.log());
    assert_eq!(Machine::new().install(&[("QWEN_INSTALL", "download")]).0.status.code(), Some(1));
}

#[test]
fn odd_inputs_end_before_anything_is_fetched() {
    let machine = Machine::new();
    for variables in [
        [("QWEN_VERSION", "1.2.3/../../x"), ("A", "b")],
        [("QWEN_VERSION", "latest"), ("A", "b")],
        [("QWEN_INSTALL", "please"), ("A", "b")],
        [("QWEN_BINARY", "/etc/passwd"), ("A", "b")],
    ] {
        let (done, bin) = machine.install(&variables);
        assert_eq!((done.status.code(), bin.as_str(), machine.log().as_str()), (Some(1), "", ""), "{variables:?}");
    }
    let own = machine.install(&[("QWEN_BINARY", env!("CARGO_BIN_EXE_qwen"))]).1;
    assert!(Path::new(&own).is_absolute());
    machine.executable("bin/qwen", "echo mine");
    assert_eq!(says(&machine.install(&[("QWEN_INSTALL", "none")]).1), "mine\n");
}

#[test]
fn the_version_of_the_action_is_the_crates() {
    let version = std::fs::read_to_string(action_folder().join("VERSION")).unwrap();
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
    assert_eq!(action()["runs"]["using"], "composite");
}
