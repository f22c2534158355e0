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
        for name in ["action", "release/v1.2.3", "bin", "temp", "work"] {
            std::fs::create_dir_all(machine.path(name)).unwrap();
        }
        std::fs::write(machine.path("action/VERSION"), "1.2.3\n").unwrap();
        std::fs::write(machine.path("action/SHA256SUMS"), "").unwrap();
        machine.executable("bin/uname", "case $1 in -s) echo Linux ;; *) echo x86_64 ;; esac");
        let log = machine.path("log").display().to_string();
        machine.executable("bin/cargo", &(format!("{{ echo \"cargo $*\"; echo \"in $PWD\"; env; }} >>'{log}'; ") + "while [ $# -gt 0 ]; do [ \"$1\" = --root ] && root=$2; shift; done; mkdir -p \"$root/bin\"; printf '#!/bin/sh\\necho built\\n' >\"$root/bin/qwen\"; chmod +x \"$root/bin/qwen\""));
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
        self.install_in(&self.path("work"), variables)
    }

    fn install_in(&self, checkout: &Path, variables: &[(&str, &str)]) -> (Output, String) {
        let output = self.path("output");
        std::fs::write(&output, "").unwrap();
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        // By its path: the one of the planted PATH is the runner's to avoid.
        let done = Command::new("/bin/bash")
            .arg(action_folder().join("install.sh"))
            .current_dir(checkout)
            .env_clear()
            .env("PATH", path)
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

/// A checkout in which every way to run a program of its own is planted; each leaves a file `ran`.
fn planted(machine: &Machine) -> std::path::PathBuf {
    let checkout = machine.path("checkout");
    for folder in ["node_modules/.bin", "toolchain/bin", ".cargo"] {
        std::fs::create_dir_all(checkout.join(folder)).unwrap();
    }
    let mark = format!("echo \"$0\" >>'{}'; exit 1", machine.path("ran").display());
    for program in [
        "awk",
        "bash",
        "basename",
        "cargo",
        "chmod",
        "cp",
        "curl",
        "cut",
        "dirname",
        "env",
        "mkdir",
        "mktemp",
        "mv",
        "qwen",
        "rm",
        "rustc",
        "sha256sum",
        "tar",
        "uname",
    ] {
        machine.executable(&format!("checkout/node_modules/.bin/{program}"), &mark);
    }
    for program in ["cargo", "rustc"] {
        machine.executable(&format!("checkout/toolchain/bin/{program}"), &mark);
    }
    let toolchain = format!("[toolchain]\npath = \"{}\"\n", checkout.join("toolchain").display());
    std::fs::write(checkout.join("rust-toolchain.toml"), toolchain).unwrap();
    let wrapper = format!("[build]\nrustc-wrapper = \"{}\"\n", checkout.join("toolchain/bin/rustc").display());
    std::fs::write(checkout.join(".cargo/config.toml"), wrapper).unwrap();
    std::os::unix::fs::symlink(checkout.join("node_modules"), machine.path("linked")).unwrap();
    checkout
}

#[test]
fn nothing_of_the_checkout_runs_and_no_key_is_handed_on() {
    for (how, wanted) in [("auto", "released\n"), ("cargo", "built\n"), ("none", "mine\n")] {
        let machine = Machine::new();
        machine.release(|digest| digest);
        machine.executable("bin/qwen", "echo mine");
        let checkout = planted(&machine);
        let shown = checkout.display().to_string();
        let path = format!(
            "{shown}/node_modules/.bin:node_modules/.bin::.:{}/.bin:{}:{}",
            machine.path("linked").display(),
            machine.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let rustc = format!("{shown}/toolchain/bin/rustc");
        let variables = [
            ("QWEN_INSTALL", how),
            ("PATH", path.as_str()),
            ("GITHUB_WORKSPACE", shown.as_str()),
            ("OPENAI_API_KEY", "sk-of-the-job"),
            ("QWEN_API_KEY", "sk-of-the-job"),
            ("RUSTC_WRAPPER", rustc.as_str()),
            ("CARGO_BUILD_RUSTC", rustc.as_str()),
            ("CARGO_HOME", shown.as_str()),
            ("RUSTUP_TOOLCHAIN", "planted"),
            ("TAR_OPTIONS", "--to-command=sh"),
            ("CDPATH", "toolchain"),
        ];
        let (done, bin) = machine.install_in(&checkout, &variables);
        assert!(done.status.success(), "{how}: {done:?}");
        assert_eq!(says(&bin), wanted);
        assert_eq!(std::fs::read_to_string(machine.path("ran")).unwrap_or_default(), "", "{how}");
        let log = machine.log();
        assert_eq!(log.is_empty(), how != "cargo", "{log}");
        let log = log.replace(&format!("GITHUB_WORKSPACE={shown}\n"), "");
        for part in ["sk-of-the-job", "RUSTC", "planted", "TAR_OPTIONS", "CDPATH", shown.as_str()] {
            assert!(!log.contains(part), "{how}: {part} in {log}");
        }
        assert!(how != "cargo" || log.contains("RUSTUP_TOOLCHAIN=stable\n"), "{log}");
        assert_eq!(
            std::fs::read_dir(machine.path("temp"))
                .unwrap()
                .flatten()
                .filter(|entry| entry.file_name() != "qwen")
                .count(),
            0
        );
    }
}

#[test]
fn a_cargo_configuration_above_the_build_ends_it() {
    let machine = Machine::new();
    std::fs::create_dir(machine.path(".cargo")).unwrap();
    std::fs::write(machine.path(".cargo/config.toml"), "[build]\nrustc-wrapper = \"x\"\n").unwrap();
    let (done, bin) = machine.install(&[("QWEN_INSTALL", "cargo")]);
    assert_eq!((done.status.code(), bin.as_str(), machine.log().as_str()), (Some(1), "", ""), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("a .cargo/config above the build directory"), "{done:?}");
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
