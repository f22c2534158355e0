//! Judges interpreters, shells and editors under `shell.default: allow`: they may run a script file, but not inline
//! code, which cannot be analysed.

use super::clients::{
    NODE, RUBY_LIBRARIES, clients, code_of, is_code, is_module, is_renaming, is_split_code, property, stem,
};
use super::spelling::begins_like_an_option;
use super::table::Call;
use super::unknown::code_among;
use super::{Stdin, Word};
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::names::named;

/// An interpreter, and what its options do. One that is not listed may take code, or write a file.
struct Interpreter {
    names: &'static str,
    /// Short options with code.
    code: &'static str,
    /// Short options that take a value: the rest of the word, or the next one.
    values: &'static str,
    /// Other short options.
    flags: &'static str,
    /// Long options with code.
    long_code: &'static str,
    /// Other long options: `--name`, or `--name=` with what its value is: `R` a file that is read, `W` one that is written,
    /// `O` a directory written to, `D` data, or what it loads; `?` before it: only after `=`.
    long: &'static str,
    /// Options after which it continues to read code from its standard input when the script has ended.
    goes_on: &'static str,
}

const NONE: Interpreter =
    Interpreter { names: "", code: "", values: "", flags: "", long_code: "", long: "", goes_on: "" };

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: "python python2 python3 pypy pypy3 ipython ipython3 bpython ptpython micropython circuitpython",
        code: "c",
        values: "WXQ",
        flags: "bBdEhiIOPqRsStuvVx3m",
        long: "--check-hash-based-pycs=D --help --help-all --help-env --help-xoptions --version",
        goes_on: "-i",
        ..NONE
    },
    Interpreter {
        names: "perl",
        code: "eE",
        values: "IMm",
        flags: "acCdfFghilnpstTuUvVwWxX0123456789",
        long: "--help --version",
        goes_on: "-d",
        ..NONE
    },
    Interpreter {
        names: "ruby",
        code: "e",
        values: "rICEX",
        flags: "acdFhiKlnpsTuUvVwWxy0123456789",
        long: "--backtrace-limit=D --copyright --debug --disable=D --disable-gems --disable-all --disable-did_you_mean --disable-error_highlight \
            --disable-rubyopt --disable-jit --disable-yjit --disable-frozen-string-literal --enable=D --enable-frozen-string-literal --enable-jit \
            --enable-yjit --enable-gems --encoding=D --external-encoding=D --internal-encoding=D --help --jit --mjit --rjit --yjit --parser=D \
            --verbose --version --yydebug",
        ..NONE
    },
    Interpreter {
        names: "node nodejs bun",
        code: "ep",
        values: "rC",
        flags: "chiv",
        long_code: "--eval --print --import --require --loader --experimental-loader",
        long: NODE,
        goes_on: "-i --interactive",
    },
    Interpreter { names: "deno", long_code: "--eval", ..NONE },
    Interpreter {
        names: "php",
        code: "rBREF",
        values: "dcfztS",
        flags: "aChHilmnqsvw",
        long_code: "--run --process-begin --process-code --process-end",
        long: "--php-ini=R --no-php-ini --define=D --file=R --info --interactive --syntax-check --modules --no-header --strip --version --ini \
            --rf=D --rc=D --re=D --rz=D --ri=D --server=D --docroot=D --help",
        goes_on: "-a --interactive",
    },
    Interpreter { names: "lua luajit", code: "e", values: "l", flags: "ivEWO0123456789", goes_on: "-i", ..NONE },
    Interpreter {
        names: "Rscript R",
        code: "e",
        values: "g",
        flags: "fqs",
        long_code: "--eval --expression",
        long: "--vanilla --no-save --save --no-restore --no-restore-data --no-restore-history --restore --slave --quiet --silent --no-echo \
            --no-init-file --no-site-file --no-environ --no-readline --verbose --version --help --args --encoding=D --default-packages=D --file=R \
            --interactive",
        goes_on: "--interactive",
    },
    Interpreter { names: "osascript", code: "e", values: "ls", flags: "i", goes_on: "-i", ..NONE },
    Interpreter {
        names: "sh bash dash zsh ksh ash rbash rzsh mksh lksh oksh loksh posh yash osh ysh",
        code: "cs",
        values: "oO",
        flags: "abefghiklmnpqrtuvwxyBCDEGHIPTVX0123456789",
        long_code: "--command --rcfile --init-file",
        long: "--norc --noprofile --no-rcs --posix --login --verbose --restricted --version --help --noediting --debugger --dump-strings \
            --dump-po-strings --pretty-print",
        ..NONE
    },
    Interpreter {
        names: "fish",
        code: "cC",
        values: "df",
        flags: "hiIlnNPv",
        long_code: "--command --init-command",
        long: "--interactive --login --no-config --no-execute --private --version --help --features=D --debug=D",
        ..NONE
    },
    Interpreter {
        names: "nu",
        code: "ce",
        values: "Imt",
        flags: "hilnv",
        long_code: "--commands --execute --testbin",
        long: "--no-config-file --no-history --no-std-lib --version --help --login --stdin --interactive --config=R --env-config=R \
            --include-path=D --log-level=D --table-mode=D --threads=D --error-style=D",
        ..NONE
    },
    Interpreter {
        names: "xonsh",
        code: "c",
        flags: "hilV",
        long: "--no-rc --no-env --interactive --login --shell-type=D --help --version --timings",
        ..NONE
    },
    Interpreter { names: "csh tcsh", code: "cst", flags: "befFilmnqvVxX", long: "--help --version", ..NONE },
];

/// Modules of python that run code among their words or on their standard input.
const CODE_MODULES: [&str; 19] = [
    "IPython",
    "_pyrepl",
    "asyncio",
    "bdb",
    "bpython",
    "code",
    "debugpy",
    "idlelib",
    "ipdb",
    "jupyter",
    "pdb",
    "ptipython",
    "ptpython",
    "pudb",
    "pyperf",
    "pyrepl",
    "runpy",
    "timeit",
    "xonsh",
];

/// What is after a dash in the name of an interpreter that is only built or packed in another way.
const BUILDS: [&str; 13] =
    ["aarch64", "arm", "bin", "cgi", "cli", "dbg", "debug", "i386", "i686", "minimal", "shared", "static", "x86_64"];

/// What an expression of yq may hold to reach files, variables or code that its text does not name.
const YQ: [&str; 9] = ["load", "eval", "env", "import", "include", "input", "system", "split_doc", "ltrimstr_file"];

/// Refuses program texts among the words of a program that has no table.
pub(crate) fn refuse_text(call: &Call<'_>) -> Result<(), Denial> {
    let words = &call.words[1..];
    if call.name == "yq" {
        let reaches = |word: &&Word| YQ.iter().any(|name| word.text.contains(name));
        return match words.iter().filter(|word| word.text != "eval" && word.text != "eval-all").find(reaches) {
            Some(word) => Err(unknown(call, &format!("`{}` may reach other files", word.text))),
            None if words.iter().any(|word| word.text.starts_with("-s") || word.text.starts_with("--split-exp")) => {
                Err(unknown(call, "an expression names the files that it writes"))
            }
            None => Ok(()),
        };
    }
    if call.name.ends_with("rename") {
        return match words.iter().find(|word| !is_renaming(&word.text)) {
            Some(word) => Err(unknown(call, &format!("`{}` may be code that says the new names", word.text))),
            None => Ok(()),
        };
    }
    // A template of exiftool with code in braces, a macro of TeX in place of a file, the program that zip tests with.
    let hides = |word: &&Word| match call.name.as_str() {
        "exiftool" => word.text.contains("${"),
        "zip" => word.text.starts_with('-') && word.text.contains("TT") || word.text.starts_with("--unzip"),
        name => (name.ends_with("tex") || name == "latexmk") && word.text.contains(['\\', '|']),
    };
    if let Some(word) = words.iter().find(hides) {
        return Err(unknown(call, &format!("code in `{}`", word.text)));
    }
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    if let Some(what) = property(&call.name, &texts) {
        return Err(unknown(call, &what));
    }
    client(call, &call.name, words)
}

// Code among the words of a program of this name, which may be a script that an interpreter runs.
fn client(call: &Call<'_>, name: &str, words: &[Word]) -> Result<(), Denial> {
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    code_of(name, &texts, call.cx.stdin != Stdin::Empty).map_or(Ok(()), |what| Err(unknown(call, what)))
}

/// Tells whether words start a program with code among them that no rule sees.
pub(crate) fn gives_code(words: &[Word]) -> bool {
    let Some(name) = words.first().map(|word| crate::policy::names::base_name(&word.text)) else { return false };
    let Some(known) = interpreter(name) else {
        return words.get(1).is_some_and(|word| clients(name).iter().any(|known| is_code(known, &word.text)));
    };
    words.iter().skip(1).take_while(|word| word.text.starts_with('-')).any(|word| {
        let text = word.text.as_str();
        let long = known.long_code.split_whitespace().any(|code| code == text.split('=').next().unwrap_or(text));
        long || text.starts_with('-')
            && !text.starts_with("--")
            && text.chars().any(|letter| known.code.contains(letter))
    })
}

const EDITORS: &str = "vi vim nvim ex ed emacs view rvim gvim vimdiff emacsclient";

// `perl5.36-x86_64-linux-gnu` and `bash-static` are the interpreters that they begin with.
fn interpreter(name: &str) -> Option<&'static Interpreter> {
    let (stem, build) = name.split_once('-').unwrap_or((name, ""));
    let is_build = build.starts_with(|c: char| c.is_ascii_digit())
        || BUILDS.contains(&build.split('-').next().unwrap_or_default());
    let name = if is_build { stem } else { name };
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|known| named(known.names, name) || named(known.names, plain))
}

/// Tells whether a program is an editor, which takes commands.
pub(super) fn is_editor(name: &str) -> bool {
    named(EDITORS, name)
}

/// Tells whether a program runs code that it is given.
pub(crate) fn reads_code(name: &str) -> bool {
    interpreter(name).is_some() || is_editor(name)
}

fn unknown(call: &Call<'_>, what: &str) -> Denial {
    Denial::unanalysable(format!("{}: {what}", call.name)).by("G3").hint("put the code in a file and run the file")
}

// Whether a program is asked what it is. Some go on with what they are given after a letter that they pass over.
fn asks(word: &str, stdin: Stdin) -> bool {
    matches!(word, "--version" | "--help")
        || matches!(word, "-V" | "-h") && matches!(stdin, Stdin::Empty | Stdin::Taken)
}

/// Judges a call of an interpreter or editor.
pub(crate) fn judge(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes = true;
    call.out.open_ended = true;
    let words = call.words[1..].to_vec();
    if let [only] = words.as_slice()
        && only.literal
        && asks(&only.text, call.cx.stdin)
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
        return runtime(call, known, &words);
    }
    // The script may be the value of an option: `php -f artisan tinker`.
    for (at, word) in words.iter().enumerate().filter(|(_, word)| word.text.ends_with("artisan")) {
        client(call, crate::policy::names::base_name(&word.text), &words[at + 1..])?;
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
                Some(script) => return script_of(call, known, script, &words[at + 1..]),
                None => break,
            }
        }
        // Shells take `+o` too.
        let is_option = text.starts_with('-') || (text.starts_with('+') && known.names.starts_with("sh "));
        if !is_option {
            return script_of(call, known, word, &words[at..]);
        }
        let taken = match text.starts_with("--") {
            true => Some(long(call, known, text, words.get(at))?),
            false => letters(call, known, text, &words[at..])?,
        };
        let Some(taken) = taken else { return Ok(()) };
        at += taken;
    }
    let from = match call.cx.stdin {
        Stdin::Empty => "no script",
        Stdin::Pipe | Stdin::Plain | Stdin::File | Stdin::Data | Stdin::Taken => "code on its standard input",
    };
    Err(unknown(call, from))
}

// A long option; returns how many further words it takes.
fn long(call: &mut Call<'_>, known: &Interpreter, text: &str, next: Option<&Word>) -> Result<usize, Denial> {
    let (name, attached) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    if known.long_code.split_whitespace().any(|code| name.len() > 2 && code.starts_with(name)) {
        return Err(unknown(call, &format!("code given by `{text}`")));
    }
    goes_on(call, known, text)?;
    let mut listed = known.long.split_whitespace().map(|option| option.split_once('=').unwrap_or((option, "")));
    let Some((_, kind)) = listed.find(|(option, _)| *option == name) else {
        return Err(unknown(call, &format!("the option `{name}` is not known")));
    };
    let (value, taken) = match (attached, kind) {
        (Some(value), "") => return Err(unknown(call, &format!("`{name}` takes no value such as `{value}`"))),
        (Some(value), _) => (value.to_owned(), 0),
        (None, kind) if kind.is_empty() || kind.starts_with('?') => return Ok(0),
        (None, _) => match next.filter(|next| next.literal && !begins_like_an_option(&next.text)) {
            Some(next) => (next.text.clone(), 1),
            None => return Err(unknown(call, &format!("the value of `{name}` is not known"))),
        },
    };
    let word = Word::literal(value.as_str());
    match kind {
        "R" => call.read(&word),
        "W" => call.write(&word),
        "O" => call.effect(Effect::WriteTree, &word),
        _ if name == "--define" => setting(call, &value)?,
        _ => loads(call, &value),
    }
    Ok(taken)
}

// Short options in one word; returns how many further words they take, `None` where the rest belongs to a module.
fn letters(call: &mut Call<'_>, known: &Interpreter, text: &str, next: &[Word]) -> Result<Option<usize>, Denial> {
    let (perl, ruby) = (known.names == "perl", known.names == "ruby");
    for (index, letter) in text.char_indices().skip(1) {
        let rest = &text[index + letter.len_utf8()..];
        let given = || unknown(call, &format!("code given by `-{letter}`"));
        if letter == 'm' && known.names.starts_with("python") {
            return module(call, rest, next).map(|()| None);
        }
        // What is after `-d:` and `-M` is put into the program as it is written.
        let hides = match letter {
            'F' if perl => is_split_code(rest),
            'd' if perl => rest.starts_with([':', 't']),
            'C' if perl => !rest.chars().all(|c| "IOEioADSLa0123456789".contains(c)),
            'i' if perl || ruby => rest.contains('/'),
            _ => known.code.contains(letter),
        };
        if hides {
            return Err(given());
        }
        goes_on(call, known, &format!("-{letter}"))?;
        // A script by its name in PATH is a program.
        if letter == 'S' && (perl || ruby) {
            return Err(unknown(call, "a script that is searched for in PATH"));
        }
        if known.values.contains(letter) {
            // A shell takes the next word, and what is after the letter are more letters.
            if !rest.is_empty() && known.names.starts_with("sh ") {
                return Err(unknown(call, &format!("`{text}`, whose letters versions read differently")));
            }
            let value = if rest.is_empty() { next.first().map_or("", |word| word.text.as_str()) } else { rest };
            if perl && (matches!(letter, 'M' | 'm') && !is_module(value) || value.contains(['`', '|', ';', '"'])) {
                return Err(given());
            }
            let plain = value.starts_with(['.', '/']) || RUBY_LIBRARIES.split(' ').any(|library| library == value);
            if ruby && letter == 'r' && call.cx.stdin != Stdin::Empty && !plain {
                return Err(unknown(call, &format!("`{value}` may read code on its standard input")));
            }
            if letter == 'd' && known.names == "php" {
                setting(call, value)?
            } else {
                loads(call, value)
            }
            return Ok(Some(usize::from(rest.is_empty())));
        }
        if !known.flags.contains(letter) {
            return Err(unknown(call, &format!("the option `-{letter}` is not known")));
        }
        // The rest of the word is a pattern, an ending, a directory, or a kind of warnings.
        let takes_rest = match letter {
            'F' | 'i' | 'C' => perl || ruby,
            'x' if perl || ruby => {
                loads(call, rest);
                true
            }
            'V' => perl && rest.starts_with(':'),
            'W' => rest.starts_with(':'),
            _ => false,
        };
        if takes_rest {
            break;
        }
    }
    Ok(Some(0))
}

// A module of python by its name, which is judged as the program of that name.
fn module(call: &mut Call<'_>, attached: &str, next: &[Word]) -> Result<(), Denial> {
    let attached = (!attached.is_empty()).then(|| Word::literal(attached));
    if runs_code_module(attached.as_ref(), next) {
        return Err(unknown(call, "a module that runs code that it is given"));
    }
    let started: Vec<Word> = attached.iter().chain(next).cloned().collect();
    if !started.first().is_some_and(|module| module.literal && !module.text.is_empty()) {
        return Err(unknown(call, "a module whose name is not known"));
    }
    call.out.starts.push(started);
    Ok(())
}

// A setting of php may be an address with code in it, or a line of a shell.
fn setting(call: &mut Call<'_>, value: &str) -> Result<(), Denial> {
    if value.contains(|c: char| c.is_whitespace() || ":;|&$`'\"".contains(c)) {
        return Err(unknown(call, &format!("`{value}` may contain code")));
    }
    loads(call, value);
    Ok(())
}

// An interpreter that continues to its standard input gets code there.
fn goes_on(call: &Call<'_>, known: &Interpreter, option: &str) -> Result<(), Denial> {
    let goes_on = named(known.goes_on, option);
    if goes_on && call.cx.stdin != Stdin::Empty {
        return Err(unknown(call, "code on its standard input, after the script"));
    }
    Ok(())
}

// Whether `python -m` starts a module that runs code, or one that starts such a module (`-m cProfile -m timeit`).
fn runs_code_module(attached: Option<&Word>, words: &[Word]) -> bool {
    let is = |name: &str| CODE_MODULES.contains(&name.split('.').next().unwrap_or_default());
    let first = attached.or_else(|| words.first());
    first.is_some_and(|word| is(&word.text))
        || words.windows(2).any(|pair| matches!(pair[0].text.as_str(), "-m" | "--module") && is(&pair[1].text))
        || words.iter().any(|word| word.text.strip_prefix("-m").is_some_and(is))
}

// What an option loads, or a list of directories that it loads from: a path is one that is read, a name is a module.
fn loads(call: &mut Call<'_>, value: &str) {
    let value = value.split_once('=').map_or(value, |(_, value)| value);
    for path in value.split(':').filter(|path| path.contains('/') || path.starts_with('.')) {
        call.read(&Word::literal(path));
    }
}

// The first operand is a script that is read; later words are the script's.
fn script_of(call: &mut Call<'_>, known: &Interpreter, script: &Word, rest: &[Word]) -> Result<(), Denial> {
    if script.is_process() || !script.literal || script.text.starts_with("/dev/") || script.text.starts_with("data:") {
        return Err(unknown(call, "a script that is not a file"));
    }
    if known.names.starts_with("node") && matches!(script.text.as_str(), "inspect" | "debug") {
        return Err(unknown(call, "a debugger that takes code"));
    }
    // `R CMD PROGRAM` starts any program but for those of its own.
    let own = |word: &Word| ["BATCH", "INSTALL", "REMOVE", "Rdiff", "build", "check"].contains(&word.text.as_str());
    if call.name == "R" && script.text == "CMD" && !rest.first().is_some_and(own) {
        call.out.starts.extend((!rest.is_empty()).then(|| rest.to_vec()));
        return Ok(());
    }
    let name = crate::policy::names::base_name(&script.text);
    client(call, name, rest)?;
    let stem = stem(name);
    if let Some(table) = (call.cx.known.find)(stem) {
        let words = [std::slice::from_ref(script), rest].concat();
        if let Some(denial) = code_among(call.cx, stem, table, &words) {
            return Err(denial);
        }
    }
    call.read(script);
    Ok(())
}

fn runtime(call: &mut Call<'_>, known: &Interpreter, words: &[Word]) -> Result<(), Denial> {
    let bun = call.name == "bun";
    let bad = words.iter().find(|word| {
        let text = word.text.as_str();
        !word.literal
            || text == "-"
            || text.starts_with("--eval")
            || text.starts_with("--print")
            || text == "-e"
            || bun && text.starts_with('-') && !text.starts_with("--") && text.contains(['e', 'p'])
    });
    if bad.is_some() {
        return Err(unknown(call, "code that is given inline"));
    }
    let operands: Vec<&Word> = words.iter().filter(|word| !word.text.starts_with('-')).collect();
    outputs(call, words, false);
    match operands.first().map(|word| word.text.as_str()) {
        None | Some("eval" | "repl" | "exec" | "x") => Err(unknown(call, "code that is given inline")),
        Some("run") => match operands.get(1) {
            // A script of the project by its name may start anything.
            Some(script) if !script.text.contains(['.', '/']) => {
                call.refuse_input()?;
                script_of(call, known, &(*script).clone(), &[])
            }
            Some(script) => script_of(call, known, &(*script).clone(), &[]),
            None => Err(unknown(call, "no script")),
        },
        Some(
            "test" | "check" | "lint" | "fmt" | "install" | "task" | "info" | "build" | "add" | "remove" | "doc"
            | "bench" | "cache" | "types" | "compile" | "bundle" | "pm" | "coverage" | "vendor" | "i" | "a",
        ) => {
            outputs(call, words, true);
            call.refuse_input()?;
            // `deno bundle SOURCE OUTPUT`.
            if operands[0].text == "bundle" {
                operands.iter().skip(2).for_each(|word| call.write(word));
            }
            Ok(())
        }
        Some(_) => script_of(call, known, &operands[0].clone(), &[]),
    }
}

// The word after an option, and a value in it, may be a file that is written.
fn outputs(call: &mut Call<'_>, words: &[Word], apart: bool) {
    let mut after = false;
    for word in words {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let is_option = name.starts_with('-');
        let grants =
            ["--allow-", "--deny-", "--define", "--external", "-D"].iter().any(|start| name.starts_with(start));
        let file = match (is_option, after) {
            (true, _) if grants || value.is_empty() => "",
            (true, _) => value,
            (false, true) => word.text.as_str(),
            (false, false) => "",
        };
        if !file.is_empty() {
            call.effect(Effect::Read, &Word::literal(file));
            call.write(&Word::literal(file));
        }
        after = apart && is_option && value.is_empty() && !grants;
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
