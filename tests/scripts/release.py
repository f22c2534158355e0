#!/usr/bin/env python3
"""set-repository, bump and check of .ci/release, on a copy of the repository."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]


def git(folder, *arguments):
    return subprocess.run([*GIT, *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


class Releasing(unittest.TestCase):
    def setUp(self):
        self.copy = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.copy)
        for path in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")[:-1]:
            if os.path.lexists(f"{ROOT}/{path}"):
                os.makedirs(os.path.dirname(f"{self.copy}/{path}"), exist_ok=True)
                shutil.copy2(f"{ROOT}/{path}", f"{self.copy}/{path}", follow_symlinks=False)
        git(self.copy, "init", "-q", "-b", "main")
        self.commit()

    def commit(self):
        git(self.copy, "add", "-A", "-f")
        git(self.copy, "commit", "-q", "-m", "x")

    def release(self, *arguments, **variables):
        done = subprocess.run([self.copy + "/.ci/release", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": self.copy, "SOURCE_DATE_EPOCH": "1790000000", **variables})
        self.said = done.stdout
        return done.returncode

    def change(self, path, pattern, text):
        with open(f"{self.copy}/{path}") as file:
            old = file.read()
        new = re.sub(pattern, text, old, count=1, flags=re.M)
        self.assertNotEqual(old, new, path)
        with open(f"{self.copy}/{path}", "w") as file:
            file.write(new)

    def named(self):
        self.assertEqual(self.release("set-repository", "a/b"), 0, self.said)
        self.commit()

    def bumped(self):
        self.named()
        self.assertEqual(self.release("bump", "0.1.1"), 0, self.said)
        self.commit()

    def test_every_placeholder_is_named_and_check_passes_after_two_commands(self):
        self.assertEqual(self.release("check"), 1)
        for line in git(self.copy, "grep", "-lE", "OWNER/REPO|@TAG", "--", ".", ":!.ci/release", ":!.ci/versions", ":!tests/scripts/release.py").split():
            self.assertIn(f"{line}:", self.said)
        self.assertEqual(self.release("check", "--unreleased"), 0, self.said)
        self.bumped()
        left = subprocess.run([*GIT, "grep", "-nE", "OWNER/REPO|@TAG", "--", ".", ":!.ci/release", ":!.ci/versions", ":!tests/scripts/release.py"],
                              cwd=self.copy, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(left, "")
        self.assertEqual(self.release("check"), 0, self.said)

    def test_the_version_is_the_same_everywhere(self):
        self.bumped()
        for path, pattern in [("VERSION", r"0\.1\.1"), ("Cargo.toml", r'^version = "0\.1\.1"'), ("Cargo.lock", r'"qwen-run"\nversion = "0\.1\.1"'),
                              ("fuzz/Cargo.lock", r'"qwen-run"\nversion = "0\.1\.1"'), ("pyproject.toml", "qwen-run==0.1.1"),
                              ("packaging/npm/package.json", '"version": "0.1.1"'), ("packaging/npm/package.json", 'linux-x64": "0.1.1"'), ("docs/how-to/hooks.md", "rev: v0.1.1")]:
            self.change(path, pattern, lambda found: found[0].replace("0.1.1", "0.1.7"))
            self.assertEqual(self.release("check", "--unreleased"), 1, path)
            self.assertIn(path if path != "Cargo.toml" else "Cargo.toml 0.1.7", self.said)
            git(self.copy, "checkout", "-q", ".")
        self.change("README.md", "a/b@v0", "a/b@v1")
        self.assertEqual(self.release("check", "--unreleased"), 1)
        self.assertIn("README.md names the tag v1", self.said)

    def test_what_else_is_in_the_way_is_named(self):
        self.bumped()
        self.change("SHA256SUMS", r"\A", "x\n")
        self.assertEqual(self.release("check"), 1)
        for part in ["SHA256SUMS is not empty", "the work tree has changes"]:
            self.assertIn(part, self.said)
        git(self.copy, "checkout", "-q", ".")
        git(self.copy, "tag", "v0.1.1")
        self.assertEqual(self.release("check", GITHUB_REPOSITORY="c/d"), 1)
        for part in ["the tag v0.1.1 is there already", "this one is c/d"]:
            self.assertIn(part, self.said)

    def test_bump_refuses_what_is_no_step_forward(self):
        self.bumped()
        for version, part in [("0.1.1", "not greater"), ("0.1.0", "not greater"), ("1", "no version"), ("0.2.0", "nothing under Unreleased")]:
            self.assertEqual(self.release("bump", version), 1)
            self.assertIn(part, self.said)
        self.change("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n- x\n")
        self.assertEqual(self.release("bump", "1.0.0"), 0, self.said)
        with open(self.copy + "/README.md") as file:
            self.assertIn("a/b@v1", file.read())
        with open(self.copy + "/CHANGELOG.md") as file:
            self.assertIn("## 1.0.0 - 2026-09-21\n\n- x\n", file.read())

    def test_set_repository_takes_a_name_and_a_clean_tree_only(self):
        for name in ["a", "a/b/c", "https://github.com/a/b", "a/b;x", ""]:
            self.assertEqual(self.release("set-repository", name), 1, name)
        self.change("README.md", r"\A", "x")
        self.assertEqual(self.release("set-repository", "a/b"), 1)
        self.assertIn("has changes", self.said)

    def test_every_page_says_the_same_of_the_platforms(self):
        tables = []
        for page in ["README.md", "docs/how-to/install.md"]:
            with open(f"{self.copy}/{page}") as file:
                tables.append(re.search(r"^\| machine \| program .*?\n\n", file.read(), re.M | re.S)[0])
        self.assertEqual(*tables)

    def test_an_unknown_command_or_target_ends_it(self):
        self.assertEqual([self.release(), self.release("publish"), self.release("package", "--all")], [2, 2, 2])
        self.assertEqual(self.release("build", "x86_64-pc-windows-msvc"), 1)
        self.assertIn("there is no target", self.said)


if __name__ == "__main__":
    unittest.main()
