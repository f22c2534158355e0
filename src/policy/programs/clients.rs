//! Judges programs without a table that run code among their words: database clients, evaluators.

use crate::policy::names::named;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A program without a table that takes a program text, or statements, among other words: a database client, a compiler
/// with an evaluator, an interpreter whose scripts are anywhere.
pub(super) struct Client {
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
    // Frameworks and build tools with an evaluator.
    Client { names: "mix", code: "-e --eval --rpc-eval", words: "eval", operands: ANY, reads: false },
    Client { names: "swift", code: "-e", words: "repl", operands: ANY, reads: false },
    Client {
        names: "stack cabal",
        code: "--exec -e",
        words: "eval ghci repl v1-repl v2-repl new-repl runghc runhaskell",
        operands: ANY,
        reads: false,
    },
    Client { names: "lein", code: "", words: "update-in exec eval repl shell assoc", operands: ANY, reads: false },
    Client { names: "v", code: "-e", words: "repl", operands: ANY, reads: false },
    Client { names: "haxe", code: "--cmd -cmd --macro", words: "", operands: ANY, reads: false },
    Client { names: "artisan", code: "", words: "tinker db", operands: ANY, reads: false },
    Client {
        names: "manage.py django-admin django flask scrapy celery gleam",
        code: "",
        words: "shell shell_plus dbshell",
        operands: ANY,
        reads: false,
    },
    Client {
        names: "wp wp.phar wp-cli.phar",
        code: "--exec --require",
        words: "eval shell db",
        operands: ANY,
        reads: false,
    },
    Client {
        names: "drush drush.phar drush.php",
        code: "",
        words: "ev eval php:eval php-eval php:cli php-cli core:cli core-cli php php:script sql:query sql-query sqlq sql:cli sqlc \
            sh exec core:execute core-execute",
        operands: ANY,
        reads: false,
    },
    Client { names: "dotnet dotnet-script", code: "", words: "eval", operands: ANY, reads: false },
    Client {
        names: "powershell",
        code: "-c -e -command -Command -enc -EncodedCommand",
        words: "",
        operands: ANY,
        reads: true,
    },
    Client { names: "rebar3", code: "--eval", words: "shell eval", operands: ANY, reads: false },
    Client { names: "hanami spring", code: "", words: "console c runner r", operands: ANY, reads: false },
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
    Client { names: "psysh", code: "-r -c --config --cwd", words: "", operands: ANY, reads: true },
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

/// Long options of node. It has hundreds more, of which some load code or write files.
pub(super) const NODE: &str = "--abort-on-uncaught-exception --allow-addons --allow-child-process --allow-wasi --allow-worker --check --completion-bash \
    --conditions=D --cpu-prof --cpu-prof-dir=O --cpu-prof-interval=D --cpu-prof-name=W --deprecation --diagnostic-dir=O --disable-proto=D \
    --disable-warning=D --disallow-code-generation-from-strings --dns-result-order=D --enable-source-maps --env-file=R --env-file-if-exists=R \
    --experimental-default-type=D --experimental-detect-module --experimental-fetch --experimental-json-modules --experimental-modules \
    --experimental-network-inspection --experimental-permission --experimental-require-module --experimental-specifier-resolution=D \
    --experimental-sqlite --experimental-strip-types --experimental-test-coverage --experimental-test-module-mocks \
    --experimental-test-snapshots --experimental-transform-types --experimental-vm-modules --experimental-wasm-modules \
    --experimental-websocket --experimental-webstorage --expose-gc --force-color --force-node-api-uncaught-exceptions-policy --frozen-intrinsics \
    --harmony --heap-prof --heap-prof-dir=O --heap-prof-interval=D --heap-prof-name=W --heapsnapshot-near-heap-limit=D \
    --heapsnapshot-signal=D --help --icu-data-dir=R --input-type=D --insecure-http-parser --interactive --jitless --localstorage-file=W \
    --max-http-header-size=D --max-old-space-size=?D --max-semi-space-size=?D --napi-modules --no-addons --no-deprecation \
    --no-experimental-detect-module --no-experimental-fetch --no-experimental-global-navigator --no-experimental-require-module \
    --no-experimental-strip-types --no-experimental-websocket --no-experimental-webstorage --no-extra-info-on-fatal-exception \
    --no-force-async-hooks-checks --no-global-search-paths --no-network-family-autoselection --no-warnings --node-memory-debug \
    --openssl-config=R --openssl-legacy-provider --openssl-shared-config --pending-deprecation --permission --allow-fs-read=D --allow-fs-write=D \
    --preserve-symlinks --preserve-symlinks-main --redirect-warnings=W --report-compact --report-dir=O --report-directory=O \
    --report-exclude-network --report-filename=W --report-on-fatalerror --report-on-signal --report-signal=D --report-uncaught-exception \
    --secure-heap=D --secure-heap-min=D --stack-size=?D --stack-trace-limit=?D --test --test-concurrency=D --test-force-exit \
    --test-name-pattern=D --test-only --test-reporter=D --test-reporter-destination=W --test-shard=D --test-skip-pattern=D --test-timeout=D \
    --throw-deprecation --title=D --tls-cipher-list=D --tls-keylog=W --tls-max-v1.2 --tls-max-v1.3 --tls-min-v1.0 --tls-min-v1.1 --tls-min-v1.2 \
    --tls-min-v1.3 --trace-deprecation --trace-event-categories=D --trace-event-file-pattern=W --trace-exit --trace-sigint --trace-sync-io \
    --trace-tls --trace-uncaught --trace-warnings --track-heap-objects --unhandled-rejections=D --use-bundled-ca --use-openssl-ca --use-system-ca \
    --v8-pool-size=D --verify-base-objects --version --watch --watch-path=D --watch-preserve-output --zero-fill-buffers";

/// Returns a program's name without the ending of its file.
pub(super) fn stem(name: &str) -> &str {
    let endings = [".js", ".mjs", ".cjs", ".py", ".rb", ".php", ".phar"];
    endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Libraries of ruby that read nothing from the standard input; a debugger does.
pub(super) const RUBY_LIBRARIES: &str =
    "json csv yaml set time date pp optparse fileutils stringio securerandom digest erb bundler/setup";

/// Returns what is known of a program of this name, by one entry or more.
pub(super) fn clients(name: &str) -> &'static [&'static Client] {
    static BY_NAME: LazyLock<HashMap<&str, Vec<&Client>>> = LazyLock::new(|| {
        let mut known: HashMap<&str, Vec<&Client>> = HashMap::new();
        for client in CLIENTS {
            client.names.split_whitespace().for_each(|name| known.entry(name).or_default().push(client));
        }
        known
    });
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// Tells whether a word gives code, or begins it.
pub(super) fn is_code(known: &Client, word: &str) -> bool {
    if named(known.words, word) {
        return true;
    }
    let name = word.split(['=', ':']).next().unwrap_or(word);
    known.code.split_whitespace().any(|code| match code.len() {
        // A letter may be among others, and its value after it.
        2 => {
            word.starts_with(code)
                || word.starts_with('-') && !word.starts_with("--") && word.len() <= 4 && word.contains(&code[1..])
        }
        _ => name == code || name.len() > 4 && name.starts_with("--") && code.starts_with(name),
    })
}

/// Returns what of the words of a program, or of a script, by this name is code; `input`: there is a standard input.
pub(super) fn code_of(name: &str, words: &[&str], input: bool) -> Option<&'static str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let other = if plain == name { &[] } else { clients(plain) };
    clients(name).iter().chain(other).find_map(|known| {
        let operands = words.iter().filter(|word| !word.starts_with('-')).count();
        // Where there is input, some go on with it after any other option.
        let asks = matches!(words, [word] if match input {
            true => matches!(*word, "--version" | "--help" | "-version" | "-help"),
            false => word.starts_with('-') && *word != "-",
        });
        if words.iter().any(|word| is_code(known, word)) {
            Some("code among its words")
        } else if operands > known.operands {
            Some("statements among its words")
        } else if known.reads && !asks && (input || words.contains(&"-")) {
            Some("code on its standard input")
        } else {
            None
        }
    })
}

/// Returns a property of MSBuild that may be a line of a shell, or a program: `PreBuildEvent`, `CscToolExe`.
pub(super) fn property(program: &str, words: &[&str]) -> Option<String> {
    if !matches!(program, "dotnet" | "msbuild" | "xbuild") {
        return None;
    }
    let words = words.iter().map(|word| word.trim_start_matches(['-', '/']));
    let sets = words.filter(|text| text.contains('=')).map(|text| {
        let (name, value) = text.split_at(text.find([':', '=']).map_or(0, |at| at + 1));
        let names = ["property", "p", "restoreproperty", "rp"];
        let sets = names.contains(&name.trim_end_matches([':', '=']).to_ascii_lowercase().as_str());
        if sets && value.contains('=') { value } else { text }
    });
    let runs = ["event", "command", "exe", "program", "tool", "toolpath", "arguments", "script", "shell"];
    let plain = |c: char| c.is_alphanumeric() || "_.+-/:*|".contains(c);
    let mut pairs = sets.flat_map(|text| text.split([';', ','])).filter_map(|set| set.split_once('='));
    let (name, value) = pairs.find(|(name, value)| {
        let name = name.to_ascii_lowercase();
        runs.iter().any(|end| name.ends_with(end)) || !value.chars().all(plain)
    })?;
    Some(format!("the property `{name}={value}` may be a command"))
}

// A word of `rename` that is not code for the variant that takes a program of perl: a file, plain text, or one
// substitution.
pub(super) fn is_renaming(word: &str) -> bool {
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

// `-F/…/` of perl is taken over into its program as it is written; without delimiters it is a pattern.
pub(super) fn is_split_code(pattern: &str) -> bool {
    let Some(delimiter) = pattern.chars().next().filter(|c| "/'\"".contains(*c)) else { return false };
    let inner = &pattern[1..];
    !inner.ends_with(delimiter)
        || inner.matches(delimiter).count() > 1
        || inner.contains(['(', ')', '{', '}', '`', '$', '@', ';', '\\'])
}

// `-MName::Of=list,of,names`, and no code after it.
pub(super) fn is_module(value: &str) -> bool {
    let (name, list) = value.trim_start_matches('-').split_once('=').unwrap_or((value.trim_start_matches('-'), ""));
    let plain = |text: &str, more: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c));
    !name.is_empty() && plain(name, "_:") && plain(list, "_:,./-")
}
