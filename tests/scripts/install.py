#!/usr/bin/env python3
"""install.sh: which program it takes, and what it never starts. Real bash, with stubs of curl, uname and cargo beside it."""
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = "x86_64-unknown-linux-musl"
NAME = f"qwen-1.2.3-{TARGET}"
PROGRAM = "#!/bin/sh\necho qwen 1.2.3\n"
# Every program that the script could start by a name.
PLANTED = ["awk", "bash", "basename", "cargo", "chmod", "cp", "curl", "cut", "dirname", "env", "gzip", "mkdir", "mktemp", "mv", "qwen",
           "readlink", "rm", "rmdir", "rustc", "rustup", "sha256sum", "shasum", "tar", "uname"]
SECRETS = {"QWEN_API_KEY": "sk-of-the-job", "OPENAI_API_KEY": "sk-of-the-job", "DASHSCOPE_API_KEY": "sk-of-the-job"}


def read(path, mode="r"):
    with open(path, mode) as file:
        return file.read()


class Machine:
    """An action of version 1.2.3, a runner's directories, and stubs that come first on PATH."""

    def __init__(self, test):
        self.base = os.path.realpath(tempfile.mkdtemp())
        test.addCleanup(shutil.rmtree, self.base)
        for name in ["action/.ci", "bin", "temp", "cache", "served", "checkout"]:
            os.makedirs(self.path(name))
        self.write("action/VERSION", "1.2.3\n")
        self.write("action/SHA256SUMS", "")
        self.write("action/Cargo.toml", '[package]\nname = "a"\nversion = "1.2.3"\nrust-version = "1.70"\n')
        self.write("action/src/main.rs", "fn main() {}\n")
        self.write("action/.ci/rust-toolchain.toml", '[toolchain]\nchannel = "1.95.0"\n')
        self.system("Linux", "x86_64")
        self.executable("bin/rustup", f"echo \"rustup $*\" >>'{self.path('log')}'")
        self.cargo("")
        self.executable("bin/curl", f"""for last; do :; done
echo "curl $last" >>'{self.path("log")}'
while [ "$1" != -o ]; do shift; done
cp '{self.path("served")}'/"${{last##*/}}" "$2" 2>/dev/null || exit 22""")

    def path(self, name):
        return os.path.join(self.base, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def executable(self, name, script):
        os.chmod(self.write(name, f"#!/bin/sh\n{script}\n"), 0o755)

    def system(self, name, machine):
        self.executable("bin/uname", f"case $1 in -s) echo {name} ;; *) echo {machine} ;; esac")

    def cargo(self, first):
        """A cargo that notes how it was called and installs a program."""
        self.executable("bin/cargo", f"""[ "$1" != --version ] || {{ echo 'cargo 1.69.0 (x)'; exit; }}
{{ echo "cargo $*"; echo "in $PWD"; env; }} >>'{self.path("log")}'
{first}
while [ $# -gt 0 ]; do [ "$1" = --root ] && root=$2; shift; done
mkdir -p "$root/bin"
printf '#!/bin/sh\\n# compiled\\necho qwen 1.2.3\\n' >"$root/bin/qwen"
chmod +x "$root/bin/qwen" """)

    def release(self, archive_digest=None, program=PROGRAM):
        os.chmod(self.write(f"made/{NAME}/qwen", program), 0o755)
        self.write(f"made/{NAME}/README.md", "x")
        archive = self.path(f"served/{NAME}.tar.gz")
        subprocess.run(["tar", "-czf", archive, "-C", self.path("made"), NAME], check=True)
        digest = lambda path: hashlib.sha256(read(path, "rb")).hexdigest()
        self.write("action/SHA256SUMS", f"{archive_digest or digest(archive)}  {NAME}.tar.gz\n{digest(self.path(f'made/{NAME}/qwen'))}  {NAME}/qwen\n")

    def install(self, path="", shell="/bin/bash", **variables):
        self.write("output", "")
        environment = {
            "PATH": f"{path}{self.path('bin')}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/"),
            "QWEN_ACTION_DIR": self.path("action"), "QWEN_SERVER": "https://github.example", "QWEN_ACTION_REPOSITORY": "o/r",
            "GITHUB_WORKSPACE": self.path("checkout"), "GITHUB_OUTPUT": self.path("output"), "GITHUB_PATH": self.path("added"),
            "RUNNER_TEMP": self.path("temp"), "RUNNER_TOOL_CACHE": self.path("cache"),
            **({"RUSTUP_HOME": os.environ["RUSTUP_HOME"]} if "RUSTUP_HOME" in os.environ else {}), **variables,
        }
        # As the action's step starts it.
        done = subprocess.run([shell, "--noprofile", "--norc", "-p", ROOT + "/install.sh"], cwd=self.path("checkout"), env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        output = read(self.path("output"))
        self.bin = output[len("bin="):-1] if output.startswith("bin=") else output
        self.code, self.said, self.heard = done.returncode, done.stdout, done.stderr
        return self.code

    def log(self):
        return read(self.path("log")) if os.path.exists(self.path("log")) else ""

    def program(self):
        return read(self.bin)

    def plant(self):
        """A checkout with every way to run a program of its own; each leaves a line in `ran`. Returns what goes before PATH."""
        mark = f"echo \"$0 $*\" >>'{self.path('ran')}'; exit 1"
        for program in PLANTED:
            self.executable(f"checkout/node_modules/.bin/{program}", mark)
        for program in ["cargo", "rustc"]:
            self.executable(f"checkout/toolchain/bin/{program}", mark)
        self.write("checkout/rust-toolchain.toml", '[toolchain]\npath = "/proc/self/cwd/toolchain"\n')
        self.write("checkout/rust-toolchain", "planted\n")
        self.write("checkout/.cargo/config.toml", f'[build]\nrustc-wrapper = "{self.path("checkout/toolchain/bin/rustc")}"\n')
        self.write("checkout/.curlrc", f'output = "{self.path("ran")}"\n')
        self.write("checkout/environment.sh", f"echo environment >>'{self.path('ran')}'\n")
        os.symlink(self.path("checkout/node_modules"), self.path("linked"))
        return f"{self.path('checkout')}/node_modules/.bin:node_modules/.bin::.:{self.path('linked')}/.bin:"

    def planted_environment(self):
        rustc = self.path("checkout/toolchain/bin/rustc")
        script = self.path("checkout/environment.sh")
        return {"BASH_ENV": script, "ENV": script, "CDPATH": "toolchain", "TAR_OPTIONS": "--to-command=" + script, "GZIP": "-x",
                "GIT_SSH_COMMAND": script, "RUSTC": rustc, "RUSTC_WRAPPER": rustc, "CARGO_BUILD_RUSTC": rustc,
                "CARGO_HOME": self.path("checkout"), "RUSTUP_TOOLCHAIN": "planted", "BASH_FUNC_builtin%%": f"() {{ . {script}; }}",
                "BASH_FUNC_curl%%": f"() {{ . {script}; }}", **SECRETS}


class Installing(unittest.TestCase):
    def assert_nothing_ran(self, machine, what):
        ran = read(machine.path("ran")) if os.path.exists(machine.path("ran")) else ""
        self.assertEqual(ran, "", what)

    def test_nothing_of_the_checkout_runs_and_no_key_is_handed_on(self):
        for how, wanted in [("auto", PROGRAM), ("binary", PROGRAM), ("source", "# compiled"), ("none", "mine")]:
            machine = Machine(self)
            machine.release()
            machine.executable("bin/qwen", "echo mine")
            path = machine.plant()
            self.assertEqual(machine.install(path, QWEN_INSTALL=how, **machine.planted_environment()), 0, (how, machine.said, machine.heard))
            self.assertIn(wanted, machine.program())
            self.assert_nothing_ran(machine, how)
            log = machine.log()
            self.assertEqual("cargo install" in log, how == "source", log)
            for part in ["sk-of-the-job", "RUSTC", "planted", "TAR_OPTIONS", "CDPATH"]:
                self.assertNotIn(part, log, how)
            if how == "source":
                self.assertIn("RUSTUP_TOOLCHAIN=1.95.0\n", log)
                self.assertIn(f"--path {machine.path('action')}", log)
            self.assertEqual([name for name in os.listdir(machine.path("temp")) if "install" in name], [], "nothing is left behind")

    def test_the_real_rustup_and_cargo_obey_nothing_of_the_checkout(self):
        real, rustup = shutil.which("cargo"), shutil.which("rustup")
        version = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True).stdout.split(" ")[1] if real else ""
        if not rustup or subprocess.run([rustup, "run", version, "cargo", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("rustup with a numbered toolchain is not installed")
        machine = Machine(self)
        machine.write("action/.ci/rust-toolchain.toml", f'[toolchain]\nchannel = "{version}"\n')
        # Reading the package asks rustup for a toolchain, and the toolchain's rustc through any wrapper, and compiles nothing.
        machine.cargo(f"'{real}' metadata --offline --format-version 1 --manifest-path '{machine.path('action')}/Cargo.toml' >/dev/null || exit 1")
        os.remove(machine.path("bin/rustup"))
        path = machine.plant()
        self.assertEqual(machine.install(path, QWEN_INSTALL="source", **machine.planted_environment()), 0, machine.heard)
        self.assert_nothing_ran(machine, machine.heard)
        # The plant works: in the checkout itself the same call starts it.
        os.remove(machine.path("checkout/rust-toolchain"))
        subprocess.run([real, "metadata", "--offline", "--format-version", "1", "--manifest-path", machine.path("action/Cargo.toml")],
                       cwd=machine.path("checkout"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={name: value for name, value in os.environ.items() if name != "RUSTUP_TOOLCHAIN"})
        self.assertTrue(os.path.exists(machine.path("ran")))

    def test_a_release_is_fetched_once_and_a_poisoned_cache_is_replaced(self):
        machine = Machine(self)
        machine.release()
        self.assertEqual(machine.install(), 0, machine.heard)
        self.assertEqual(machine.log(), f"curl https://github.example/o/r/releases/download/v1.2.3/{NAME}.tar.gz\n")
        self.assertTrue(machine.bin.startswith(machine.path("temp")), "others write to the cache")
        self.assertEqual(machine.install(), 0)
        self.assertEqual(machine.log().count("curl"), 1, "it is in the cache")
        cached = machine.path(f"cache/qwen/1.2.3/{TARGET}/qwen")
        machine.write(cached, f"#!/bin/sh\necho poison >>'{machine.path('ran')}'\necho qwen 1.2.3\n")
        self.assertEqual(machine.install(), 0)
        self.assert_nothing_ran(machine, "the poisoned program")
        self.assertEqual((machine.log().count("curl"), machine.program(), read(cached)), (2, PROGRAM, PROGRAM))

    def test_a_wrong_digest_is_final_in_every_mode(self):
        for how in ["auto", "binary"]:
            machine = Machine(self)
            machine.release("0" * 64)
            self.assertEqual((machine.install(QWEN_INSTALL=how), machine.bin), (1, ""))
            self.assertIn(f"the digest of {NAME}.tar.gz is wrong", machine.said)
            self.assertNotIn("cargo", machine.log())

    def test_without_a_digest_the_actions_own_directory_is_compiled(self):
        machine = Machine(self)
        self.assertEqual(machine.install(), 0, machine.heard)
        self.assertIn("::notice title=qwen install::no release of this version; compiling takes minutes", machine.said)
        self.assertNotIn("curl", machine.log())
        self.assertEqual(os.listdir(machine.path("cache")), [], "no digest vouches for it, so no other job meets it")
        machine = Machine(self)
        self.assertEqual((machine.install(QWEN_INSTALL="binary"), machine.log()), (1, ""))
        self.assertIn("this version of the action is not a release; use a release tag or install: source", machine.said)

    def test_a_failed_download_falls_back_in_auto_only(self):
        for how, code in [("auto", 0), ("binary", 1)]:
            machine = Machine(self)
            machine.release()
            os.remove(machine.path(f"served/{NAME}.tar.gz"))
            self.assertEqual(machine.install(QWEN_INSTALL=how), code, machine.heard)
            self.assertEqual("cargo install" in machine.log(), how == "auto")
            self.assertEqual("compiling takes minutes" in machine.said, how == "auto")

    def test_a_program_of_the_checkout_is_refused(self):
        machine = Machine(self)
        machine.executable("checkout/qwen", "echo theirs")
        os.symlink(machine.path("checkout/qwen"), machine.path("bin/qwen"))
        for variables in [{"QWEN_BINARY": machine.path("checkout/qwen")}, {"QWEN_BINARY": machine.path("bin/qwen")}, {"QWEN_INSTALL": "none"}]:
            self.assertEqual((machine.install(**variables), machine.bin), (1, ""), variables)
            self.assertIn("a program from the checkout would get the key", machine.said)

    def test_a_given_program_of_any_version_is_taken(self):
        machine = Machine(self)
        machine.executable("mine/qwen", "echo qwen 9.9.9")
        self.assertEqual((machine.install(QWEN_BINARY=machine.path("mine/qwen")), machine.bin), (0, machine.path("mine/qwen")), machine.said)
        self.assertIn("qwen 9.9.9", machine.heard)

    def test_a_program_of_another_version_is_no_release(self):
        machine = Machine(self)
        machine.release(program="#!/bin/sh\necho qwen 1.2.4\n")
        self.assertEqual((machine.install(), machine.bin), (1, ""))
        self.assertIn("of another version", machine.said)

    def test_odd_inputs_end_before_anything_is_fetched(self):
        for variables, code, said in [
            ({"QWEN_INSTALL": "cargo"}, 2, "install: source"), ({"QWEN_INSTALL": "download"}, 2, "install: binary"),
            ({"QWEN_INSTALL": "please"}, 2, "install must be"), ({"QWEN_BINARY": "qwen"}, 1, "absolute"), ({"QWEN_BINARY": "/etc/passwd"}, 1, "executable"),
        ]:
            machine = Machine(self)
            machine.release()
            self.assertEqual((machine.install(**variables), machine.bin, machine.log()), (code, "", ""), variables)
            self.assertIn(said, machine.said)

    def test_an_unknown_machine_compiles_and_windows_is_told(self):
        machine = Machine(self)
        machine.release()
        machine.system("Linux", "riscv64")
        self.assertEqual(machine.install(), 0)
        self.assertIn("cargo install", machine.log())
        machine.system("MINGW64_NT-10.0", "x86_64")
        self.assertEqual(machine.install(), 1)
        self.assertIn("on Windows run it inside WSL 2", machine.said)

    def test_without_rustup_an_old_cargo_is_refused(self):
        machine = Machine(self)
        os.remove(machine.path("bin/rustup"))
        path = [entry for entry in os.environ["PATH"].split(":") if not os.path.exists(entry + "/rustup")]
        self.assertEqual(machine.install(PATH=":".join([machine.path("bin"), *path])), 1)
        self.assertIn("older than the rust-version", machine.said)

    def test_a_cargo_configuration_above_the_build_ends_it(self):
        machine = Machine(self)
        machine.write(".cargo/config.toml", '[build]\nrustc-wrapper = "x"\n')
        self.assertEqual((machine.install(QWEN_INSTALL="source"), machine.bin, machine.log()), (1, "", ""))
        self.assertIn("a .cargo/config above the build directory", machine.said)

    def test_job_install_puts_the_program_on_path(self):
        machine = Machine(self)
        machine.release()
        self.assertEqual(machine.install(QWEN_JOB="install"), 0)
        self.assertEqual(read(machine.path("added")), os.path.dirname(machine.bin) + "\n")


if __name__ == "__main__":
    unittest.main()
