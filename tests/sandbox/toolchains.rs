//! Tests that real toolchains work inside, without a network, with the caches of the real home.

use super::*;

/// The real home of whoever runs the tests, with everything by which toolchains are found.
fn at_home() -> Place {
    let mut place = Place::new();
    let known = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOMODCACHE", "PYENV_ROOT", "NVM_DIR", "JAVA_HOME"];
    for name in known {
        if let Some(value) = std::env::var_os(name) {
            place.environment.push((name.to_owned(), value));
        }
    }
    place
}

/// Runs a command in each tier that isolates and expects it to succeed.
fn works(place: &Place, program: &str, command: &str, expected: &str) {
    let found = std::env::split_paths(&place.path).any(|folder| folder.join(program).exists());
    if !found {
        aloud(&format!("NOT TESTED: {program} is not installed"));
        return;
    }
    for tier in [Tier::T0, Tier::T2, Tier::T3] {
        let Some(sandbox) = place.sandbox(tier) else { continue };
        let mut request = place.request();
        request.timeout = Duration::from_secs(240);
        let output = run(&sandbox, &script(command), request);
        let said = text(&output.stdout) + &text(&output.stderr);
        if tier == Tier::T0 && output.exit_code != Some(0) {
            aloud(&format!("NOT TESTED: `{command}` does not even work without isolation: {said}"));
            return;
        }
        assert_eq!(output.exit_code, Some(0), "{tier:?} `{command}`: {said}");
        assert!(said.contains(expected), "{tier:?} `{command}`: {said}");
        aloud(&format!("{tier:?} `{program}` {} ms", output.duration.as_millis()));
    }
}

#[test]
fn cargo_tests_a_project() {
    let place = at_home();
    let file = |name: &str, text: &str| std::fs::write(place.at("tree").join(name), text).unwrap();
    file("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    file("src/lib.rs", "#[test]\nfn adds() { assert_eq!(1 + 1, 2) }\n");
    works(&place, "cargo", "touch src/lib.rs; cargo test --offline 2>&1", "1 passed");
}

#[test]
fn cargo_uses_the_crates_of_the_real_home() {
    let place = at_home();
    let file = |name: &str, text: &str| std::fs::write(place.at("tree").join(name), text).unwrap();
    // A crate without dependencies that this very program needs, and so is in the cache.
    file(
        "Cargo.toml",
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nfnv = \"1\"\n",
    );
    file("src/lib.rs", "#[test]\nfn hashes() { let _ = fnv::FnvHasher::default(); }\n");
    works(&place, "cargo", "rm -rf target; cargo test --offline 2>&1", "1 passed");
}

#[test]
fn python_tests_a_project() {
    let place = at_home();
    std::fs::write(place.at("tree/test_it.py"), "def test_adds():\n    assert 1 + 1 == 2\n").unwrap();
    works(
        &place,
        "python3",
        "python3 -c 'import ssl, sqlite3, subprocess, sys; print(subprocess.check_output([sys.executable, \"-c\", \"print(42)\"]))'",
        "42",
    );
    let unittest = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): self.assertEqual(1 + 1, 2)\n";
    std::fs::write(place.at("tree/test_unit.py"), unittest).unwrap();
    works(&place, "python3", "python3 -m unittest test_unit 2>&1", "OK");
    works(&place, "pytest", "python3 -m pytest -q 2>&1", "passed");
}

#[test]
fn node_and_npm_test_a_project() {
    let place = at_home();
    let file = |name: &str, text: &str| std::fs::write(place.at("tree").join(name), text).unwrap();
    file("package.json", "{\"name\": \"tiny\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node --test\"}}\n");
    file("it.test.js", "require('node:test')('adds', () => require('node:assert').equal(1 + 1, 2));\n");
    works(&place, "node", "node -e 'console.log(6 * 7, require(\"os\").tmpdir())'", "42");
    works(&place, "npm", "npm test 2>&1", "pass 1");
}

#[test]
fn git_reads_a_repository_that_it_cannot_write() {
    let place = at_home();
    let git = |words: &[&str]| {
        let status = std::process::Command::new("git").args(words).current_dir(place.at("project")).output().unwrap();
        assert!(status.status.success());
    };
    git(&["init", "-q"]);
    git(&["add", "a.txt"]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]);
    for tier in [Tier::T2, Tier::T3] {
        let Some(sandbox) = place.sandbox(tier) else { continue };
        let mut request = place.request();
        request.read = vec![place.at("project/.git")];
        let variables = [("GIT_DIR", place.at("project/.git")), ("GIT_WORK_TREE", place.at("tree"))];
        request.variables = variables.map(|(name, path)| (name.into(), path.to_str().unwrap().into())).into();
        request.variables.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
        let output = run(&sandbox, &script("git diff --stat && git log --oneline && git status -s"), request.clone());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(
            said.contains("a.txt | 2 +-") && said.contains("first") && said.contains(" M a.txt"),
            "{tier:?}: {said}"
        );
        let output = run(&sandbox, &script("git add a.txt"), request);
        assert_ne!(output.exit_code, Some(0), "{tier:?}");
    }
}
