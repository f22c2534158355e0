//! Finds what commands of the operator's settings start: their words, as far as these can be read before the run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::bounded;
use crate::policy::names::named;
use crate::policy::programs::find;
use crate::policy::programs::interpreters::reads_code;
use crate::policy::shell::ast::{AndOr, Command, Kind, Part, Piece, Pipeline, Redirection, Script, Simple, Word};
use crate::policy::shell::parser::parse;

/// Shells whose `-c` is a command like any other.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

/// Other interpreters that run the file that their first operand names, with the letters of options that bring no code.
/// They load nothing from the directory in which they start, as R and Lua do.
const INTERPRETERS: [(&str, &str); 5] =
    [("python", "BEIOSqsu"), ("node", ""), ("ruby", "w"), ("perl", "wT"), ("php", "nq")];

/// Programs that start what the words behind their own name.
const WRAPPERS: &str = "command env exec nohup setsid timeout";

/// Programs that are many under as many names: what they do depends on the name alone.
const MANY: [&str; 3] = ["busybox", "coreutils", "toybox"];

/// Programs and commands of the shell that start nothing, whatever they are told.
const READERS: &str = ": [ basename cat chmod cksum cmp cp curl cut date diff dirname du echo egrep exit expr false fgrep \
    file fmt fold grep groups head hostname id join jq ln logger ls md5sum mkdir mktemp mv nl notify-send nproc paste \
    printenv printf pwd readlink realpath rm rmdir seq set sha1sum sha256sum sha512sum sleep stat sync tac tail \
    tee test touch tr true truncate tty uname uniq wait wc which whoami";

/// Git's commands that start no program that their words name, and that no configuration replaces.
const GIT_READERS: &str = "cat-file describe diff log ls-files rev-list rev-parse show status";

/// Programs that start what their words, their input or files of the directory name, besides those that have a table.
const LAUNCHERS: &str = ". act alias ansible ansible-playbook asdf at batch bazel builtin bunx busybox bwrap catchsegv cd \
    chroot chrt concurrently cpulimit crontab dbus-run-session declare devbox direnv docker docker-compose doas earthly \
    eatmydata enable entr eval expect export faketime fakechroot fakeroot firejail flock foreman forego gdb goreman hash helm \
    hivemind honcho husky hyperfine inv invoke ionice just kubectl lefthook lerna lldb local ltrace m4 mage mise nix \
    nix-build nix-shell nodemon nox nsenter nx overcommit overmind packer parallel perf pipx pnpx podman popd pre-commit \
    proot pulumi pushd rake readonly rlwrap rr run-parts runuser screen script setarch setpriv source ssh sshpass \
    start-stop-daemon strace su sudo supervisord systemd-run task taskset terraform tini tmux tofu torsocks tox toybox trap \
    turbo typeset unbuffer unshare uvx vagrant valgrind watch watchexec watchman xonsh xvfb-run";

/// Where the programs of the system are: one that is on no list here may start anything.
const OF_SYSTEM: [&str; 4] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin"];

/// A hook, a server or the discovery of tools, with a name for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The name.
    pub name: String,
    /// What is started.
    pub what: What,
}

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A text for the shell.
    Text(String),
    /// The words of a program.
    Words {
        /// The words.
        words: Vec<String>,
        /// Variables, with values that may name files.
        variables: Vec<(String, String)>,
        /// The directory in which it starts, if that is not the workspace.
        directory: Option<PathBuf>,
    },
}

impl Started {
    /// Makes one of a text for the shell.
    pub fn text(name: &str, text: &str) -> Started {
        Started { name: name.to_owned(), what: What::Text(text.to_owned()) }
    }

    /// Returns every word that may name a file. The error names what cannot be read before it runs: anything but a
    /// program that only reads, or the file of a program or script, with operands that the shell does not expand.
    pub fn words(&self, home: Option<&Path>, path: Option<&str>) -> Result<Vec<String>, String> {
        let mut reader = Reader { home, path, found: Vec::new() };
        match &self.what {
            What::Text(text) => reader.text(text)?,
            What::Words { words, variables, .. } => {
                reader.program(words)?;
                variables.iter().for_each(|(name, value)| reader.value(name, value.clone()));
            }
        }
        Ok(reader.found)
    }

    /// Returns the words as they are written, for a command whose words cannot be read.
    pub fn as_written(&self) -> Vec<String> {
        match &self.what {
            What::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            What::Words { words, variables, .. } => {
                let texts = words.iter().flat_map(|word| word.split_whitespace()).map(str::to_owned);
                texts.chain(words.iter().cloned()).chain(variables.iter().map(|(_, value)| value.clone())).collect()
            }
        }
    }

    /// Returns the directories from which its words name files.
    pub fn places(&self, top: &Path, workspace: &Path) -> Vec<PathBuf> {
        let mut places = vec![top.to_path_buf(), workspace.to_path_buf()];
        if let What::Words { directory: Some(directory), .. } = &self.what {
            places.push(workspace.join(directory));
        }
        places
    }
}

/// Tells whether a variable holds a list of directories, by its name.
fn is_list(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["PATH", "LIB", "LIBS", "DIRS"].iter().any(|ending| name.ends_with(ending))
}

/// What a program is known for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known<'n> {
    /// It starts the words behind its own: its name.
    Wrapper(&'n str),
    /// Git.
    Git,
    /// A shell.
    Shell,
    /// It reads code: its name without a version.
    Code(&'n str),
    /// It starts nothing.
    Reader,
    /// It starts what is not known.
    Launcher,
    /// It may be anything.
    Nothing,
}

impl Known<'_> {
    fn of(name: &str) -> Known<'_> {
        match name {
            _ if named(WRAPPERS, name) => Known::Wrapper(name),
            "git" => Known::Git,
            _ if SHELLS.contains(&name) => Known::Shell,
            "nodejs" => Known::Code("node"),
            _ if reads_code(name) => Known::Code(name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')),
            _ if named(READERS, name) => Known::Reader,
            _ if named(LAUNCHERS, name) || find(name).is_some() => Known::Launcher,
            _ => Known::Nothing,
        }
    }
}

struct Reader<'a> {
    home: Option<&'a Path>,
    path: Option<&'a str>,
    found: Vec<String>,
}

impl Reader<'_> {
    fn text(&mut self, text: &str) -> Result<(), String> {
        let script = parse(text).map_err(|_| format!("`{text}`"))?;
        self.script(&script)
    }

    fn script(&mut self, script: &Script) -> Result<(), String> {
        for AndOr { first, rest } in &script.statements {
            for Pipeline { first, rest, .. } in std::iter::once(first).chain(rest.iter().map(|(_, next)| next)) {
                for command in std::iter::once(first).chain(rest.iter().map(|(_, next)| next)) {
                    self.command(command)?;
                }
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &Command) -> Result<(), String> {
        for redirection in &command.redirections {
            match redirection {
                Redirection::File { target, .. } | Redirection::OutputAndErrors { target, .. } => {
                    let target = self.literal(target)?;
                    self.found.push(target);
                }
                Redirection::HereDocument { body, .. } => {
                    if body.iter().any(|piece| !matches!(piece, Piece::Text(_))) {
                        return Err("an expansion in a here-document".to_owned());
                    }
                }
                Redirection::HereString { word, .. } => drop(self.literal(word)?),
                Redirection::Copy { .. } => {}
            }
        }
        match &command.kind {
            Kind::Simple(simple) => self.simple(simple),
            Kind::Subshell(script) | Kind::Group(script) => self.script(script),
            Kind::If { branches, otherwise } => {
                let inner = branches.iter().flat_map(|(condition, then)| [condition, then]).chain(otherwise);
                inner.into_iter().try_for_each(|script| self.script(script))
            }
            Kind::While { condition, body, .. } => self.script(condition).and_then(|()| self.script(body)),
            Kind::For { .. } | Kind::Case { .. } | Kind::Test(_) => Err("a loop or comparison over words".to_owned()),
        }
    }

    fn simple(&mut self, simple: &Simple) -> Result<(), String> {
        for (name, value) in &simple.assignments {
            let value = self.literal(value)?;
            self.assignment(name, value)?;
        }
        let words = simple.words.iter().map(|word| self.literal(word)).collect::<Result<Vec<String>, String>>()?;
        self.program(&words)
    }

    /// Takes the value of a variable. Programs and shells read some values as commands.
    fn assignment(&mut self, name: &str, value: String) -> Result<(), String> {
        if name.starts_with("GIT_") || value.contains(['$', '`']) {
            return Err(format!("the variable {name}"));
        }
        self.value(name, value);
        Ok(())
    }

    /// Takes what a value may name. An empty part of a list of directories is the one in which the program starts, and so
    /// is an empty `PATH`.
    fn value(&mut self, name: &str, value: String) {
        if is_list(name) && value.split(':').any(str::is_empty) && (name == "PATH" || !value.is_empty()) {
            self.found.push(".".to_owned());
        }
        self.found.push(value);
    }

    /// Takes the words of a program, and reads the text that it gives a shell.
    fn program(&mut self, words: &[String]) -> Result<(), String> {
        let Some((first, operands)) = words.split_first() else { return Ok(()) };
        let name = first.rsplit('/').next().unwrap_or(first);
        let undetermined = || Err(format!("`{}`", words.join(" ")));
        if words.iter().any(|word| ["/dev/", "/proc/"].iter().any(|place| word.contains(place)) && word != "/dev/null")
        {
            return undetermined();
        }
        self.found.push(first.clone());
        let known = Known::of(name);
        if !self.is_what_it_is_called(first, known) {
            return undetermined();
        }
        match known {
            Known::Wrapper(name) => return self.wrapped(name, operands).unwrap_or_else(undetermined),
            Known::Git if operands.first().is_some_and(|verb| named(GIT_READERS, verb)) => {}
            Known::Shell => return self.script_of(operands, "efuvx", true).unwrap_or_else(undetermined),
            Known::Code(plain) => {
                let known = INTERPRETERS.iter().find(|(known, _)| *known == plain);
                let taken = known.and_then(|(_, letters)| self.script_of(operands, letters, false));
                return taken.unwrap_or_else(undetermined);
            }
            Known::Reader => {}
            // A file that the operator names by its path does what it is for. What is installed by a name may start
            // what files of the directory say.
            Known::Nothing if first.contains('/') && !self.is_of_system(first) => {}
            Known::Git | Known::Launcher | Known::Nothing => return undetermined(),
        }
        self.found.extend_from_slice(operands);
        Ok(())
    }

    /// Takes the words of a program that starts another. `None` where they cannot be read.
    fn wrapped(&mut self, name: &str, operands: &[String]) -> Option<Result<(), String>> {
        match name {
            "command" if operands.first().is_some_and(|option| option == "-v") => {
                self.found.extend_from_slice(operands);
                Some(Ok(()))
            }
            "timeout" if operands.first().is_none_or(|time| time.starts_with('-')) => None,
            "timeout" => Some(self.started_by(&operands[1..])),
            "env" => {
                let is_set = |word: &&String| !word.starts_with('-') && word.contains('=');
                let count = operands.iter().take_while(is_set).count();
                for (name, value) in operands[..count].iter().filter_map(|word| word.split_once('=')) {
                    if let Err(what) = self.assignment(name, value.to_owned()) {
                        return Some(Err(what));
                    }
                }
                Some(self.started_by(&operands[count..]))
            }
            _ => Some(self.started_by(operands)),
        }
    }

    /// Takes the words that a program starts another with; options of its own are not known.
    fn started_by(&mut self, words: &[String]) -> Result<(), String> {
        match words.first() {
            Some(option) if option.starts_with('-') => Err(format!("the option `{option}`")),
            Some(_) | None => self.program(words),
        }
    }

    /// Takes the script of an interpreter with its operands, or the text that a shell gets. `None` without a script
    /// whose name is known: options other than these letters, or code on its standard input.
    fn script_of(&mut self, words: &[String], letters: &str, is_shell: bool) -> Option<Result<(), String>> {
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if word == "-" || word.starts_with('+') {
                return None;
            }
            let Some(given) = word.strip_prefix('-') else {
                self.found.push(word.clone());
                self.found.extend(rest.cloned());
                return Some(Ok(()));
            };
            let has_text = is_shell && given.contains('c');
            if !given.chars().all(|letter| letters.contains(letter) || has_text && letter == 'c') {
                return None;
            }
            if has_text {
                let text = rest.next()?;
                self.found.extend(rest.cloned());
                return Some(self.text(text));
            }
        }
        None
    }

    /// Returns the file of a program, where it is found first.
    fn file_of(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return Some(PathBuf::from(program)).filter(|file| file.is_absolute());
        }
        let is_there = |file: &PathBuf| file.metadata().is_ok_and(|data| data.is_file());
        self.directories().map(|entry| entry.join(program)).find(is_there)
    }

    fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.path.into_iter().flat_map(|path| std::env::split_paths(path)).filter(|entry| entry.is_absolute())
    }

    /// Tells whether a program is one of the system's: by the path that names it, or by where this leads.
    fn is_of_system(&self, program: &str) -> bool {
        let is_there =
            |file: &Path| file.parent().is_some_and(|at| OF_SYSTEM.iter().any(|known| at == Path::new(known)));
        self.file_of(program)
            .is_some_and(|file| is_there(&file) || file.canonicalize().is_ok_and(|file| is_there(&file)))
    }

    /// Tells whether a program is no other one under this name: a link to one that is known for more, or a copy of it.
    fn is_what_it_is_called(&self, program: &str, known: Known<'_>) -> bool {
        let Some(real) = self.file_of(program).and_then(|file| file.canonicalize().ok()) else { return true };
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        if MANY.contains(&&*name) && known != Known::Nothing {
            return true;
        }
        match Known::of(&name) {
            Known::Nothing | Known::Reader if !self.is_of_system(program) && self.is_copy(&real) => false,
            Known::Nothing => true,
            other => other == known,
        }
    }

    /// Tells whether a file is a known program of the system, or has the bytes of one.
    fn is_copy(&self, file: &Path) -> bool {
        let Ok(data) = file.metadata() else { return false };
        let names = SHELLS.into_iter().chain(INTERPRETERS.map(|(name, _)| name)).chain(WRAPPERS.split_whitespace());
        let names: Vec<&str> =
            names.chain(LAUNCHERS.split_whitespace()).chain(["git", "xargs", "make", "find"]).collect();
        let places = self.directories().chain(OF_SYSTEM.iter().map(PathBuf::from)).collect::<BTreeSet<PathBuf>>();
        let mut same_size = places
            .iter()
            .flat_map(|at| names.iter().map(move |name| at.join(name)))
            .filter(|known| known.metadata().is_ok_and(|known| known.is_file() && known.len() == data.len()));
        let text = |file: &Path| bounded::regular(file, bounded::PRODUCT).ok();
        same_size.any(|known| text(&known).is_none_or(|known| text(file).is_none_or(|file| file == known)))
    }

    /// Returns the text of a word in which the shell expands nothing but the home at its beginning.
    fn literal(&self, word: &Word) -> Result<String, String> {
        let expands = || "a word with an expansion (`$`, `` ` ``, `*`, `?`, `[`, `{`, `~`)".to_owned();
        let mut text = String::new();
        for (at, part) in word.parts.iter().enumerate() {
            match part {
                Part::Quoted(quoted) => text.push_str(quoted),
                Part::Plain(plain) => {
                    let (before, rest) = match (plain.strip_prefix('~'), self.home) {
                        (Some(rest), Some(home)) if at == 0 && (rest.is_empty() || rest.starts_with('/')) => {
                            (home.display().to_string(), rest)
                        }
                        _ => (String::new(), plain.as_str()),
                    };
                    if rest.contains(['*', '?', '[', '~']) || rest.contains('{') && rest.contains(',') {
                        return Err(expands());
                    }
                    text.push_str(&before);
                    text.push_str(rest);
                }
                Part::Double(_)
                | Part::Parameter(_)
                | Part::Substitution(_)
                | Part::Process(_)
                | Part::Path(_)
                | Part::Text(_) => return Err(expands()),
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(text: &str) -> Result<Vec<String>, String> {
        Started::text("", text).words(Some(Path::new("/h/u")), Some("/usr/bin:/bin"))
    }

    #[test]
    fn every_word_of_a_plain_command_is_read() {
        for (text, words) in [
            ("/usr/local/bin/x --flag", &["/usr/local/bin/x", "--flag"][..]),
            ("~/bin/notify.sh 'a b' > /tmp/log", &["/tmp/log", "/h/u/bin/notify.sh", "a b"]),
            ("~/../ws/tools/x.sh", &["/h/u/../ws/tools/x.sh"]),
            ("sh to\\ols/x.sh || true", &["sh", "tools/x.sh", "true"]),
            ("sh -eu tools/x.sh -c y", &["sh", "tools/x.sh", "-c", "y"]),
            ("A=tools/x sh -c 'exec node tools/s.js' | cat", &["tools/x", "sh", "exec", "node", "tools/s.js", "cat"]),
            ("timeout 5 env A=b python3 -u ~/s.py", &["timeout", "env", "b", "python3", "/h/u/s.py"]),
            ("git status > /dev/null", &["/dev/null", "git", "status"]),
            ("command -v no-such-program", &["command", "-v", "no-such-program"]),
            ("/opt/no-such-program tools/x", &["/opt/no-such-program", "tools/x"]),
            ("PYTHONPATH=/a::/b /opt/x", &[".", "/a::/b", "/opt/x"]),
            ("env NODE_PATH=:/a PATH= RUST_LOG=a::b /opt/x", &["env", ".", ":/a", ".", "", "a::b", "/opt/x"]),
        ] {
            assert_eq!(of_text(text).unwrap(), words, "{text}");
        }
    }

    #[test]
    fn what_the_shell_or_an_interpreter_makes_of_words_cannot_be_read() {
        for text in [
            "\"$QWEN_PROJECT_DIR\"/tools/x.sh",
            "${PWD}/tools/x.sh",
            "\"$(pwd)\"/tools/x.sh",
            "`pwd`/tools/x.sh",
            "sh tools/x.*",
            "sh ./t*/x.sh",
            "sh tools/{x,y}.sh",
            "~other/x.sh",
            "cd tools; ../x.sh",
            "eval 'sh tools/x.sh'",
            "sh -c 'exec node $PWD/tools/s.js'",
            "python3 -mtools.s",
            "python3 -c 'import s'",
            "node -e 'require(\"./s\")'",
            "for x in tools/*; do sh x; done",
            "sh <<END\n$PWD/x\nEND",
            "\"",
        ] {
            assert!(of_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_program_that_starts_what_no_word_of_a_command_names_cannot_be_read() {
        for text in [
            "git -c alias.x=!tools/x.sh x",
            "git x",
            "git -C tools status",
            "git grep -Ocat x",
            "git ls-files -z | xargs -0 -n1 sh",
            "ls | xargs -I@ sh @/x.sh",
            "ls | /usr/bin/xargs sh",
            "printf tools/x.sh | xargs sh",
            "env -S 'sh tools/x.sh'",
            "env -C tools sh ./x.sh",
            "find . -name x.sh -exec sh {} +",
            "git show HEAD | sh",
            "git show HEAD | bash -s",
            "git show HEAD | sh -",
            "git show HEAD | sh -e",
            "git show HEAD | sh +x",
            "cd tools && sh x",
            "export PATH=tools && x",
            "git show HEAD | sh /dev/stdin",
            "git show HEAD | python3",
            "sh -o emacs tools/x.sh",
            "bash --rcfile x -i",
            "node --test",
            "make",
            "/usr/bin/make test",
            "~/bin/just fmt",
            "npm --prefix tools run x",
            "npx -y server",
            "uvx server",
            "deno run /h/u/x.ts",
            "cargo run",
            "go run .",
            "docker compose up",
            "run-parts tools",
            "busybox sh tools/x.sh",
            "awk -f tools/x.awk",
            "sed s/a/b/e x",
            "rg --pre sh x",
            "sort --compress-program=sh x",
            "trap 'sh tools/x.sh' EXIT",
            ". /dev/stdin",
            "alias x=sh",
            "GIT_EXTERNAL_DIFF='sh x' git diff",
            "timeout -k 1 5 sh x",
            "exec -a x sh",
            "vim x",
            "/bin/no-such-program",
            "no-such-program",
            "no-such-program --flag",
            "timeout 5 github-mcp-server stdio",
            "~/.cargo/bin/just",
            "/opt/bin/turbo run lint",
            "flock x sh tools/x.sh",
            "Rscript ~/x.R",
            "lua ~/x.lua",
        ] {
            assert!(of_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_program_is_judged_by_what_it_is_and_not_by_what_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        crate::workspace::test_support::sh(
            &top,
            "for name in env sh; do ln -s $(command -v $name) link-$name; cp $(command -v $name) copy-$name; done
            mkdir known; cp $(command -v env) known/timeout; ln -s $(command -v sh) known/cat; cp $(command -v env) known/head
            ln -s $(command -v dash || command -v sh) known/bash; ln -s /usr/bin/no-such-program gone
            printf 'true\n' > own; ln -s own other; mkdir many; printf 'x' > many/busybox; ln -s busybox many/cat",
        );
        let read = |name: &str| {
            let words = vec![top.join(name).display().to_string(), "tools/x.sh".to_owned()];
            let what = What::Words { words, variables: Vec::new(), directory: None };
            Started { name: String::new(), what }.words(None, Some("/usr/bin:/bin"))
        };
        for other in ["link-env", "copy-env", "link-sh", "copy-sh", "known/cat", "known/head"] {
            assert!(read(other).is_err(), "{other}");
        }
        for own in ["own", "other", "many/cat", "known/bash"] {
            assert!(read(own).is_ok(), "{own}: {:?}", read(own));
        }
    }
}
