//! Interpreters, shells and editors under `shell.default: allow`: a script in a file may run, code given inline is not known.

use super::table::Call;
use super::{Stdin, Word};
use crate::policy::decision::Denial;

/// Short options with code, short options that take a value, long options with code, words that ask about the program.
struct Interpreter {
    names: &'static str,
    code: &'static str,
    values: &'static str,
    long_code: &'static str,
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: "python python2 python3 pypy pypy3 ipython ipython3 bpython",
        code: "c",
        values: "WXQ",
        long_code: "",
    },
    Interpreter { names: "perl", code: "eE", values: "IMm", long_code: "" },
    Interpreter { names: "ruby", code: "e", values: "rICEFKTW", long_code: "" },
    Interpreter {
        names: "node nodejs bun",
        code: "ep",
        values: "rC",
        long_code: "--eval --print --import --require --loader --experimental-loader",
    },
    Interpreter { names: "deno", code: "", values: "", long_code: "--eval" },
    Interpreter {
        names: "php",
        code: "rBREF",
        values: "dcfzt",
        long_code: "--run --process-begin --process-code --process-end",
    },
    Interpreter { names: "lua luajit", code: "e", values: "l", long_code: "" },
    Interpreter { names: "Rscript R", code: "e", values: "", long_code: "--eval --expression" },
    Interpreter { names: "osascript", code: "e", values: "ls", long_code: "" },
    Interpreter {
        names: "sh bash dash zsh ksh fish",
        code: "cs",
        values: "oO",
        long_code: "--command --init-command --rcfile --init-file",
    },
];

/// Long options whose value is the next word, which is no script then.
const TAKES_VALUE: [&str; 12] = [
    "--check-hash-based-pycs",
    "--conditions",
    "--encoding",
    "--env-file",
    "--external-encoding",
    "--icu-data-dir",
    "--input-type",
    "--internal-encoding",
    "--openssl-config",
    "--title",
    "--diagnostic-dir",
    "--rcfile",
];

const EDITORS: &str = "vi vim nvim ex ed emacs view rvim gvim vimdiff emacsclient";

fn interpreter(name: &str) -> Option<&'static Interpreter> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|known| {
        known.names.split_whitespace().any(|known| known == name || (!plain.is_empty() && known == plain))
    })
}

fn is_editor(name: &str) -> bool {
    EDITORS.split_whitespace().any(|known| known == name)
}

/// Tells whether a program runs code that it is given.
pub(crate) fn reads_code(name: &str) -> bool {
    interpreter(name).is_some() || is_editor(name)
}

fn unknown(call: &Call<'_>, what: &str) -> Denial {
    Denial::unanalysable(format!("{}: {what}", call.name)).by("G3").hint("put the code in a file and run the file")
}

/// Judges a call of an interpreter or editor.
pub(crate) fn judge(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes = true;
    call.out.open_ended = true;
    let words = call.words[1..].to_vec();
    if let [only] = words.as_slice()
        && only.literal
        && matches!(only.text.as_str(), "--version" | "--help" | "-V" | "-h")
    {
        return Ok(());
    }
    // Words that xargs adds go to a program that may do anything with them.
    if words.iter().any(|word| !word.literal && !word.is_process()) {
        return Err(call.deny("the words that are added to it are not known"));
    }
    if is_editor(&call.name) {
        return editor(call, &words);
    }
    let Some(known) = interpreter(&call.name) else { return Err(unknown(call, "it is not known")) };
    if matches!(call.name.as_str(), "deno" | "bun") {
        return runtime(call, &words);
    }
    let mut at = 0;
    while at < words.len() {
        let word = &words[at];
        at += 1;
        if word.is_process() {
            return Err(unknown(call, "a program text from a command"));
        }
        if !word.literal {
            return Err(call.deny("its words are not known"));
        }
        let text = word.text.as_str();
        if text == "-" {
            return Err(unknown(call, "code on its standard input"));
        }
        if text == "--" {
            match words.get(at) {
                Some(script) => return script_of(call, script),
                None => break,
            }
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or(long);
            let code = known
                .long_code
                .split_whitespace()
                .any(|code| code.trim_start_matches('-').starts_with(name) && !name.is_empty());
            if code {
                return Err(unknown(call, &format!("code given by `{text}`")));
            }
            if let Some((_, value)) = text.split_once('=') {
                let value = Word::literal(value);
                call.read(&value);
            } else if TAKES_VALUE.contains(&text) {
                words.get(at).iter().for_each(|word| loads(call, &word.text));
                at += 1;
            }
            continue;
        }
        // zsh and bash take `+o` too.
        let is_option = text.starts_with('-') || (text.starts_with('+') && known.names.contains("bash"));
        if !is_option {
            return script_of(call, word);
        }
        for (index, letter) in text.char_indices().skip(1) {
            let rest = &text[index + letter.len_utf8()..];
            if letter == 'm' && known.names.starts_with("python") {
                // A module by its name, which is judged as the program of that name.
                let attached = (!rest.is_empty()).then(|| Word::literal(rest));
                let started: Vec<Word> = attached.iter().chain(&words[at..]).cloned().collect();
                if !started.first().is_some_and(|module| module.literal && !module.text.is_empty()) {
                    return Err(unknown(call, "a module whose name is not known"));
                }
                call.out.starts.push(started);
                return Ok(());
            }
            if known.code.contains(letter) {
                return Err(unknown(call, &format!("code given by `-{letter}`")));
            }
            if known.values.contains(letter) {
                let next = words.get(at).filter(|_| rest.is_empty()).map(|word| word.text.as_str());
                at += usize::from(rest.is_empty());
                let value = next.unwrap_or(rest);
                if known.names == "perl" && value.contains([';', '(', '`', '{', '|', '"', '\\', ' ']) {
                    return Err(unknown(call, &format!("code given by `-{letter}`")));
                }
                loads(call, value);
                break;
            }
        }
    }
    let from = match call.cx.stdin {
        Stdin::Empty => "no script",
        Stdin::Pipe | Stdin::Data => "code on its standard input",
    };
    Err(unknown(call, from))
}

// What an option loads, or a list of folders that it loads from: a path is one that is read, a name is a module.
fn loads(call: &mut Call<'_>, value: &str) {
    let value = value.split_once('=').map_or(value, |(_, value)| value);
    for path in value.split(':').filter(|path| path.contains('/') || path.starts_with('.')) {
        call.read(&Word::literal(path));
    }
}

// The first operand is a script that is read; later words are the script's.
fn script_of(call: &mut Call<'_>, script: &Word) -> Result<(), Denial> {
    if script.is_process() || !script.literal || script.text.starts_with("/dev/") {
        return Err(unknown(call, "a script that is not a file"));
    }
    call.read(script);
    Ok(())
}

fn runtime(call: &mut Call<'_>, words: &[Word]) -> Result<(), Denial> {
    let bad = words.iter().find(|word| {
        let text = word.text.as_str();
        !word.literal
            || text == "-"
            || text.starts_with("--eval")
            || text.starts_with("--print")
            || text == "-e"
            || text == "-p" && call.name == "bun"
    });
    if bad.is_some() {
        return Err(unknown(call, "code that is given inline"));
    }
    let operands: Vec<&Word> = words.iter().filter(|word| !word.text.starts_with('-')).collect();
    match operands.first().map(|word| word.text.as_str()) {
        None | Some("eval" | "repl" | "exec" | "x") => Err(unknown(call, "code that is given inline")),
        Some("run") => match operands.get(1) {
            Some(script) => script_of(call, &(*script).clone()),
            None => Err(unknown(call, "no script")),
        },
        Some(
            "test" | "check" | "lint" | "fmt" | "install" | "task" | "info" | "build" | "add" | "remove" | "doc"
            | "bench" | "cache" | "types",
        ) => Ok(()),
        Some(_) => script_of(call, &operands[0].clone()),
    }
}

fn editor(call: &mut Call<'_>, words: &[Word]) -> Result<(), Denial> {
    if call.cx.stdin != Stdin::Empty {
        return Err(unknown(call, "commands on its standard input"));
    }
    let mut ended = false;
    for word in words {
        if !word.literal {
            return Err(call.deny("its words are not known"));
        }
        let text = word.text.as_str();
        if text == "--" && !ended {
            ended = true;
        } else if !ended && text.starts_with('+') {
            return Err(unknown(call, "commands given by `+`"));
        } else if !ended && text.starts_with('-') && text.len() > 1 {
            let short = !text.starts_with("--") && text.chars().skip(1).any(|c| "cSsuUWwe".contains(c));
            let long = [
                "--cmd",
                "--eval",
                "--load",
                "--script",
                "--execute",
                "--batch",
                "-eval",
                "-load",
                "-script",
                "-batch",
                "-f",
                "-l",
            ];
            if short || long.iter().any(|name| text.starts_with(name)) {
                return Err(unknown(call, &format!("commands given by `{text}`")));
            }
        } else {
            call.read(word);
            call.write(word);
        }
    }
    Ok(())
}
