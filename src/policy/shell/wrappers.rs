//! Lists programs that run another program: which are looked through, and where the inner command begins.

use crate::policy::decision::Denial;
use crate::policy::programs::{Stdin, Word as RuleWord};

use super::fields::Field;

/// Programs whose whole purpose is to run another with other rights or to be another: never allowed.
pub(super) const ESCALATING: [&str; 8] = ["sudo", "su", "doas", "busybox", "toybox", "pkexec", "run0", "runuser"];

/// Programs that run the program named by their operands: under `shell.default: allow` no deny rule would see it.
const STARTING: &[&str] = &[
    "chronic",
    "cpulimit",
    "elvish",
    "ifne",
    "ksh93",
    "nsjail",
    "nu",
    "oksh",
    "proxychains",
    "proxychains4",
    "retry",
    "run-parts",
    "runcon",
    "sash",
    "sem",
    "sg",
    "tclsh",
    "torify",
    "torsocks",
    "ash",
    "at",
    "batch",
    "bwrap",
    "catchsegv",
    "chpst",
    "choom",
    "chroot",
    "chrt",
    "csh",
    "daemonize",
    "dumb-init",
    "entr",
    "eatmydata",
    "expect",
    "fakeroot",
    "faketime",
    "firejail",
    "fish",
    "flock",
    "gdb",
    "hyperfine",
    "ionice",
    "ksh",
    "linux32",
    "linux64",
    "ltrace",
    "mksh",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "posh",
    "prlimit",
    "proot",
    "pwsh",
    "rbash",
    "rlwrap",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "softlimit",
    "ssh-agent",
    "start-stop-daemon",
    "strace",
    "systemd-run",
    "taskset",
    "tcsh",
    "tini",
    "tmux",
    "unbuffer",
    "unshare",
    "valgrind",
    "watch",
    "xonsh",
    "xvfb-run",
    "yash",
];

/// Tells whether a program runs any program that its operands name.
pub(super) fn starts_any(base: &str) -> bool {
    STARTING.contains(&base)
        || ["ld-linux", "ld-musl", "ld.so", "ld64.so"].iter().any(|loader| base.starts_with(loader))
}

/// Shells whose `-c` text is judged as a command.
pub(super) const SHELLS: [&str; 4] = ["sh", "bash", "dash", "zsh"];

/// Programs that only change how the program in their words runs: that program is judged.
pub(in crate::policy) const WRAPPERS: [&str; 8] =
    ["command", "nice", "nohup", "time", "timeout", "stdbuf", "setsid", "env"];

/// Tells whether a path names a program of the system.
pub(super) fn is_system(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    matches!(folder, "/bin" | "/usr/bin" | "/usr/local/bin" | "/sbin" | "/usr/sbin" | "/usr/local/sbin")
}

/// Returns where the inner command of a wrapper begins; `None` if this is not a wrapper.
pub(super) fn wrapped(name: &str, words: &[Field]) -> Result<Option<usize>, Denial> {
    let text = |at: usize| words.get(at).and_then(Field::text);
    let denied = |what: &str| {
        Denial::new(format!("`{name}` with {what}")).by("G4").hint(format!("run the program without `{name}`"))
    };
    if name == "qwen" {
        return repeated(words);
    }
    let looks_up = name == "command" && matches!(text(1), Some("-v" | "-V"));
    if !WRAPPERS.contains(&name) || looks_up || (name == "env" && words.len() == 1) {
        return Ok(None);
    }
    // Options without a value, and options with one.
    let (flags, values): (&[&str], &[&str]) = match name {
        "nice" => (&[], &["-n"]),
        "time" => (&["-p"], &[]),
        "timeout" => (&["--foreground"], &["-s", "-k"]),
        "stdbuf" => (&[], &["-i", "-o", "-e"]),
        "setsid" => (&["-w"], &[]),
        _ => (&[], &[]),
    };
    let mut at = 1;
    while let Some(option) = text(at).filter(|option| option.starts_with('-')) {
        if flags.contains(&option) {
            at += 1;
        } else if values.contains(&option) {
            let plain = |value: &str| is_option_value(value) && (name != "nice" || value.parse::<i32>().is_ok());
            if !text(at + 1).is_some_and(plain) {
                return Err(denied(&format!("`{option}` and no plain value")));
            }
            at += 2;
        } else if values.iter().any(|value| option.strip_prefix(value).is_some_and(is_option_value)) {
            at += 1;
        } else {
            return Err(denied(&format!("the option `{option}`")));
        }
    }
    if name == "timeout" {
        if !text(at).is_some_and(is_duration) {
            return Err(denied("no plain duration"));
        }
        at += 1;
        if text(at).is_some_and(|word| word.starts_with('-')) {
            return Err(denied("an option after the duration"));
        }
    }
    match text(at) {
        None => Err(denied("no program")),
        Some(word) if name == "env" && word.contains('=') => Err(denied("an assignment")),
        Some(_) => Ok(Some(at)),
    }
}

fn is_option_value(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty()
        && digits.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
        && (digits.len() == text.len() || digits.bytes().all(|b| b.is_ascii_digit()))
}

fn is_duration(text: &str) -> bool {
    let number = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.') && number.parse::<f64>().is_ok()
}

/// Returns the text of `sh -c TEXT`; `None` if a file is to be run or a question answered.
pub(super) fn shell_text(name: &str, words: &[Field]) -> Result<Option<String>, Denial> {
    let denied = |what: &str| {
        Err(Denial::unanalysable(format!("`{name}` {what}"))
            .hint("write the commands themselves, or `sh -c 'COMMANDS'`"))
    };
    let mut at = 1;
    while words.get(at).and_then(Field::text).is_some_and(|word| matches!(word, "--noprofile" | "--norc")) {
        at += 1;
    }
    match words.get(at) {
        None => denied("reads its program from the standard input"),
        Some(field) => match field.text() {
            None => denied("with a program that is not known"),
            Some("-c") => match (words.get(at + 1).and_then(Field::text), words.len() - at) {
                (Some(text), 2) => Ok(Some(text.to_owned())),
                (Some(_), _) => denied("-c with arguments after the text"),
                (None, _) => denied("-c with a text that is not known"),
            },
            Some("--version" | "--help") => Ok(None),
            Some(_) if script_options(&words[at..]) => Ok(None),
            Some(option) if option.starts_with(['-', '+']) => denied(&format!("with the option `{option}`")),
            Some(_) => Ok(None),
        },
    }
}

// `bash -eu SCRIPT`, `bash -o pipefail SCRIPT`: options that only change how a script's own commands run.
fn script_options(words: &[Field]) -> bool {
    const NAMES: [&str; 8] = ["errexit", "nounset", "pipefail", "xtrace", "verbose", "noglob", "noclobber", "posix"];
    let text = |at: usize| words.get(at).and_then(Field::text);
    let mut at = 0;
    while let Some(option) = text(at).filter(|word| word.starts_with(['-', '+'])) {
        let letters = &option[1..];
        let set = letters.strip_suffix('o');
        if letters.is_empty() || !set.unwrap_or(letters).chars().all(|letter| "efnuvxC".contains(letter)) {
            return false;
        }
        at += 1;
        if set.is_some() {
            if !text(at).is_some_and(|name| NAMES.contains(&name)) {
                return false;
            }
            at += 1;
        }
    }
    at > 0 && text(at).is_some_and(|script| !script.is_empty())
}

/// Returns where the command begins that `qwen check repeat` runs.
fn repeated(words: &[Field]) -> Result<Option<usize>, Denial> {
    let text = |at: usize| words.get(at).and_then(Field::text);
    if (text(1), text(2)) != (Some("check"), Some("repeat")) {
        return Ok(None);
    }
    let end = (3..words.len()).find(|at| text(*at) == Some("--")).filter(|end| end + 1 < words.len());
    match end.filter(|end| repeats((3..*end).map(text))) {
        Some(end) => Ok(Some(end + 1)),
        None => Err(Denial::new("`qwen check repeat` with other words than `--times N -- COMMAND`").by("G4")),
    }
}

/// Tells whether these words of `qwen check repeat` say how often, and nothing else: other options lead elsewhere.
fn repeats<'w>(words: impl Iterator<Item = Option<&'w str>>) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut waits = false;
    for word in words {
        match word {
            Some(number) if waits && is_number(number) => waits = false,
            Some("--times") if !waits => waits = true,
            Some("--summary") if !waits => {}
            Some(word) if !waits && word.strip_prefix("--times=").is_some_and(is_number) => {}
            Some(_) | None => return false,
        }
    }
    !waits
}

/// Returns what is left on the standard input of a program that another one starts: xargs has read it, unless it reads
/// the words from a file.
pub(super) fn left_of(stdin: Stdin, starter: &[RuleWord], started: &[RuleWord]) -> Stdin {
    let is_xargs = starter.first().is_some_and(|word| word.text.rsplit('/').next() == Some("xargs"));
    let own = &starter[..starter.len() - started.len().min(starter.len() - 1)];
    let names_file = |word: &RuleWord| {
        word.text.starts_with("--a")
            || !word.text.starts_with("--") && word.text.starts_with('-') && word.text.contains('a')
    };
    let reads_all = is_xargs && stdin != Stdin::Empty && !own.iter().any(names_file);
    if reads_all { Stdin::Taken } else { stdin }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_hold_names_once() {
        for list in [STARTING, ESCALATING.as_slice(), WRAPPERS.as_slice()] {
            let mut names = list.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.len());
        }
    }

    #[test]
    fn a_wrapper_is_looked_through_with_its_own_options_only() {
        let inner = |command: &str| {
            let words: Vec<Field> = command.split(' ').map(Field::literal).collect();
            wrapped(command.split(' ').next().unwrap_or_default(), &words).map_err(|denial| denial.reason)
        };
        for (command, at) in [
            ("nice -n 5 ls", 3),
            ("nice -n-5 ls", 2),
            ("nohup ls", 1),
            ("time -p ls", 2),
            ("timeout -s TERM -k 2s --foreground 1.5m ls", 7),
            ("stdbuf -i0 -oL -e 4K ls", 5),
            ("setsid -w ls", 2),
            ("env ls", 1),
            ("qwen check repeat --times 3 --summary -- ls", 7),
            ("qwen check repeat --times=3 -- ls", 5),
            ("qwen check repeat -- ls", 4),
        ] {
            assert_eq!(inner(command), Ok(Some(at)), "{command}");
        }
        for command in [
            "nice --x ls",
            "timeout 5x ls",
            "timeout 5 -v ls",
            "env A=b ls",
            "env -i ls",
            "setsid -c ls",
            "nohup",
            "qwen check repeat -C /etc -- ls",
            "qwen check repeat --cd=.. -- ls",
            "qwen check repeat --times -- ls",
            "qwen check repeat --times 3 -C .. -- ls",
            "qwen check repeat ls",
        ] {
            assert!(inner(command).is_err(), "{command}");
        }
        for command in ["ls -l", "env", "qwen run"] {
            assert_eq!(inner(command), Ok(None), "{command}");
        }
    }
}
