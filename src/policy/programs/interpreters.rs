//! Judges interpreters, shells and editors under `shell.default: allow`: they may run a script file, but not inline
//! code, which cannot be analysed.

use super::table::Call;
use super::{Stdin, Word};
use crate::policy::decision::Denial;

/// An interpreter, and what its options do.
struct Interpreter {
    names: &'static str,
    /// Short options with code.
    code: &'static str,
    /// Short options that take a value: the rest of the word, or the next one.
    values: &'static str,
    /// Long options with code.
    long_code: &'static str,
    /// Options after which it continues to read code from its standard input when the script has ended.
    goes_on: &'static str,
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: "python python2 python3 pypy pypy3 ipython ipython3 bpython ptpython micropython circuitpython",
        code: "c",
        values: "WXQ",
        long_code: "",
        goes_on: "-i",
    },
    Interpreter { names: "perl", code: "eE", values: "IMm", long_code: "", goes_on: "-d" },
    Interpreter { names: "ruby", code: "e", values: "rICE", long_code: "", goes_on: "" },
    Interpreter {
        names: "node nodejs bun",
        code: "ep",
        values: "rC",
        long_code: "--eval --print --import --require --loader --experimental-loader",
        goes_on: "-i --interactive",
    },
    Interpreter { names: "deno", code: "", values: "", long_code: "--eval", goes_on: "" },
    Interpreter {
        names: "php",
        code: "rBREF",
        values: "dcfzt",
        long_code: "--run --process-begin --process-code --process-end",
        goes_on: "-a --interactive",
    },
    Interpreter { names: "lua luajit", code: "e", values: "l", long_code: "", goes_on: "-i" },
    Interpreter {
        names: "Rscript R",
        code: "e",
        values: "",
        long_code: "--eval --expression",
        goes_on: "--interactive",
    },
    Interpreter { names: "osascript", code: "e", values: "ls", long_code: "", goes_on: "-i" },
    Interpreter {
        names: "sh bash dash zsh ksh fish ash rbash rzsh mksh lksh oksh loksh posh yash osh ysh csh tcsh xonsh nu",
        code: "cs",
        values: "oO",
        long_code: "--command --commands --execute --init-command --rcfile --init-file",
        goes_on: "",
    },
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

/// A program without a table that takes a program text, or statements, among other words: a database client, a compiler
/// with an evaluator, an interpreter whose scripts are anywhere.
struct Client {
    names: &'static str,
    /// Options with code: short letters in one word, everything else whole.
    code: &'static str,
    /// Words that begin code, wherever they are.
    words: &'static str,
    /// The most words that are no options; more hold statements.
    operands: usize,
    /// What it is given on its standard input is run.
    reads: bool,
}

const ANY: usize = usize::MAX;

const CLIENTS: &[Client] = &[
    // Their words are lines for a shell, or code.
    Client { names: "pee mispipe fx", code: "", words: "", operands: 0, reads: false },
    Client {
        names: "exiftool",
        code: "-if -if1 -if2 -if3 -if4 -if5 -p -printFormat -config -api -@ -stay_open -userParam",
        words: "",
        operands: ANY,
        reads: false,
    },
    Client { names: "pdb ipdb pudb", code: "-c --command", words: "", operands: ANY, reads: true },
    Client {
        names: "ansible ansible-console ansible-adhoc",
        code: "-m -a --module-name --args",
        words: "",
        operands: ANY,
        reads: true,
    },
    Client {
        names: "fzf sk",
        code: "--preview --bind --cmd --interactive --become --with-shell -c -i",
        words: "",
        operands: ANY,
        reads: false,
    },
    Client {
        names: "tex latex etex pdftex pdflatex xetex xelatex luahbtex dvilualatex uplatex ptex latexmk tectonic",
        code: "-shell-escape --shell-escape -enable-write18 --enable-write18 -e -r -latex -pdflatex -lualatex -usepretex -pretex",
        words: "",
        operands: ANY,
        reads: true,
    },
    Client {
        names: "prove",
        code: "-e -P -M --exec --formatter --harness --source",
        words: "",
        operands: ANY,
        reads: false,
    },
    Client { names: "chokidar", code: "-c --command", words: "", operands: ANY, reads: false },
    Client {
        names: "sqlite3 sqlite duckdb litecli",
        code: "-cmd -c -s -e --execute",
        words: "",
        operands: 1,
        reads: true,
    },
    Client {
        names: "psql pgcli usql createdb vsql",
        code: "-c --command -v --set --variable -P --pset",
        words: "",
        operands: ANY,
        reads: true,
    },
    Client {
        names: "mysql mariadb mycli mclient sqlcmd isql osql snowsql bq hive beeline impala-shell presto trino spark-sql \
            clickhouse-client clickhouse-local clickhouse influx cqlsh",
        code: "-e -q -Q -s --execute --statement -execute --init-command --query --queries --pager query local",
        words: "",
        operands: ANY,
        reads: true,
    },
    Client {
        names: "mongo mongosh redis-cli cypher-shell iredis",
        code: "--eval",
        words: "eval evalsha",
        operands: ANY,
        reads: true,
    },
    Client { names: "dc", code: "-e --expression", words: "", operands: ANY, reads: true },
    Client {
        names: "gnuplot maxima gp octave octave-cli sage matlab units",
        code: "-e -c --eval -r -batch --batch-string --run-string -default-settings",
        words: "",
        operands: ANY,
        reads: true,
    },
    Client { names: "mlr", code: "-s", words: "put filter tee split case", operands: ANY, reads: false },
    Client {
        names: "elixir iex erl elvish escript gleam lfe",
        code: "-e -r --eval --rpc-eval -eval -run -s -remsh",
        words: "",
        operands: ANY,
        reads: true,
    },
    Client {
        names: "groovy groovysh scala scala-cli amm kotlin kotlinc jshell clojure clj bb lein jython jruby bsh ghc ghci runghc \
            runhaskell stack-ghc idris agda",
        code: "-e -E -M -execute --execute-script -expression -x -c --eval",
        words: "",
        operands: ANY,
        reads: true,
    },
    Client {
        names: "swipl prolog gprolog yap",
        code: "-g -t -f --goal --entry-goal --query-goal --init-goal",
        words: "",
        operands: ANY,
        reads: true,
    },
    Client {
        names: "tsx ts-node ts-node-esm esno jiti babel-node vite-node zx coffee lsc qjs qjsc d8 jsc rhino mujs hermes swc-node",
        code: "-e -p -pe -c --eval --print -r --require --import --loader",
        words: "eval",
        operands: ANY,
        reads: true,
    },
    Client {
        names: "julia crystal nim nims racket guile sbcl clisp ccl ecl gosh csi chicken-csi mit-scheme scheme chez chibi-scheme janet \
            fennel hy raku perl6 rakudo pike gforth gst ocaml utop io j ijconsole pry irb tclsh8.6 wish jimsh gs ghostscript m4 csharp fsi fsharpi \
            root cling dart lldb r2 radare2 pwsh-preview xidel psysh hhvm texlua lualatex slsh newlisp",
        code: "-e -E -L -c -l -p -q -o -s -k -x --eval --print --load --expression --execute --exec --command --one-line --system-property -eval -load",
        words: "eval",
        operands: ANY,
        reads: true,
    },
];

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
    let plain = call.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let has = |known: &&Client| known.names.split_whitespace().any(|name| name == call.name || name == plain);
    let Some(known) = CLIENTS.iter().find(has) else { return Ok(()) };
    if words.iter().any(|word| is_code(known, &word.text)) {
        return Err(unknown(call, "code among its words"));
    }
    let operands = words.iter().filter(|word| !word.text.starts_with('-')).count();
    if operands > known.operands {
        return Err(unknown(call, "statements among its words"));
    }
    let asks = matches!(words, [word] if word.text.starts_with('-') && word.text != "-");
    if known.reads && !asks && (call.cx.stdin != Stdin::Empty || words.iter().any(|word| word.text == "-")) {
        return Err(unknown(call, "code on its standard input"));
    }
    Ok(())
}

// A word of `rename` that is not code for the variant that takes a program of perl: a file, plain text, or one
// substitution.
fn is_renaming(word: &str) -> bool {
    let substitution = ["s/", "y/", "tr/"].iter().find_map(|start| word.strip_prefix(start));
    let Some(substitution) = substitution else {
        let is_option =
            matches!(word, "-v" | "-n" | "-f" | "-o" | "-i" | "--verbose" | "--no-act" | "--force" | "--dry-run");
        return is_option
            || !word.starts_with('-') && !word.contains(|c: char| !(c.is_alphanumeric() || "/._-,+*?[]~".contains(c)));
    };
    let parts: Vec<&str> = substitution.split('/').collect();
    let is_plain = |part: &str| !part.contains(['{', '}', '(', ')', '@', '`', ';', '&']);
    matches!(parts.as_slice(), [from, to, flags] if is_plain(from) && is_plain(to) && flags.chars().all(|c| "gimsxr".contains(c)))
}

fn is_code(known: &Client, word: &str) -> bool {
    if known.words.split_whitespace().any(|name| name == word) {
        return true;
    }
    let name = word.split('=').next().unwrap_or(word);
    known.code.split_whitespace().any(|code| match code.len() {
        // A letter may be among others, and its value after it.
        2 => {
            word.starts_with(code)
                || word.starts_with('-') && !word.starts_with("--") && word.len() <= 4 && word.contains(&code[1..])
        }
        _ => name == code || name.len() > 4 && name.starts_with("--") && code.starts_with(name),
    })
}

/// Tells whether words start a program with code among them that no rule sees.
pub(crate) fn gives_code(words: &[Word]) -> bool {
    let Some(name) = words.first().map(|word| crate::policy::rules::base_name(&word.text)) else { return false };
    let Some(known) = interpreter(name) else {
        return CLIENTS.iter().any(|known| {
            known.names.split_whitespace().any(|known| known == name)
                && words.get(1).is_some_and(|word| is_code(known, &word.text))
        });
    };
    words.get(1).is_some_and(|word| {
        let text = word.text.as_str();
        let long = known.long_code.split_whitespace().any(|code| code == text.split('=').next().unwrap_or(text));
        long || text.starts_with('-')
            && !text.starts_with("--")
            && text.chars().any(|letter| known.code.contains(letter))
    })
}

/// Long options whose value is the next word, which is not a script then.
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

// `perl5.36-x86_64-linux-gnu` and `bash-static` are the interpreters that they begin with.
fn interpreter(name: &str) -> Option<&'static Interpreter> {
    let (stem, build) = name.split_once('-').unwrap_or((name, ""));
    let is_build = build.starts_with(|c: char| c.is_ascii_digit())
        || BUILDS.contains(&build.split('-').next().unwrap_or_default());
    let name = if is_build { stem } else { name };
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
            goes_on(call, known, text)?;
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
                if runs_code_module(attached.as_ref(), &words[at..]) {
                    return Err(unknown(call, "a module that runs code that it is given"));
                }
                let started: Vec<Word> = attached.iter().chain(&words[at..]).cloned().collect();
                if !started.first().is_some_and(|module| module.literal && !module.text.is_empty()) {
                    return Err(unknown(call, "a module whose name is not known"));
                }
                call.out.starts.push(started);
                return Ok(());
            }
            if known.code.contains(letter) || known.names == "perl" && letter == 'F' && is_split_code(rest) {
                return Err(unknown(call, &format!("code given by `-{letter}`")));
            }
            goes_on(call, known, &format!("-{letter}"))?;
            // The rest of the word is a pattern, or a kind of warnings.
            if letter == 'F' && matches!(known.names, "perl" | "ruby") || letter == 'W' && rest.starts_with(':') {
                break;
            }
            // A script by its name in PATH is a program.
            if letter == 'S' && matches!(known.names, "perl" | "ruby") {
                return Err(unknown(call, "a script that is looked for in PATH"));
            }
            // A shell takes the next word, and what is after the letter are more letters.
            if known.values.contains(letter) && !rest.is_empty() && known.names.starts_with("sh ") {
                return Err(unknown(call, &format!("`{text}`, whose letters versions read differently")));
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

// An interpreter that continues to its standard input gets code there.
fn goes_on(call: &Call<'_>, known: &Interpreter, option: &str) -> Result<(), Denial> {
    let goes_on = known.goes_on.split_whitespace().any(|name| name == option);
    if goes_on && call.cx.stdin != Stdin::Empty {
        return Err(unknown(call, "code on its standard input, behind the script"));
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

// `-F/…/` of perl is taken over into its program as it is written; without delimiters it is a pattern.
fn is_split_code(pattern: &str) -> bool {
    let Some(delimiter) = pattern.chars().next().filter(|c| "/'\"".contains(*c)) else { return false };
    let inner = &pattern[1..];
    !inner.ends_with(delimiter)
        || inner.matches(delimiter).count() > 1
        || inner.contains(['(', ')', '{', '}', '`', '$', '@', ';', '\\'])
}

// What an option loads, or a list of directories that it loads from: a path is one that is read, a name is a module.
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
