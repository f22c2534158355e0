//! Tables for the tools of Ruby, .NET, Elixir, Dart, Haskell and OCaml.

use super::{Call, Dashes, Denial, GROUP, LAUNCHER, Operands, Style, TASKS, TOOL, Table, Word};
use crate::policy::names::{base_name, named};
use crate::policy::programs::is_plain_in_shell;
use crate::policy::programs::unknown::words_as_paths;

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "rspec",
        options: "-f,--format={progress|p|documentation|doc|d|json|j|html|h|failures|f|RspecJunitFormatter} -c,--color,--colour --no-color --force-color --order=D --seed=D --fail-fast=?D --no-fail-fast --failure-exit-code=D --only-failures -n,--next-failure --dry-run -b,--backtrace -w,--warnings -p,--profile=*D \
            -e,--example=D -E,--example-matches=D -t,--tag=A -P,--pattern=X --exclude-pattern=D --bisect=?D -v,--version -h,--help -o,--out=W --error-exit-code=D --deprecation-out=W --no-profile \
            !-r,--require=R !-I=L !-O,--options=R !--drb !--drb-port=P !--init !--default-path=L",
        ..TOOL
    },
    Table {
        names: "rubocop standardrb",
        options: "-a,--autocorrect,--auto-correct -A,--autocorrect-all,--auto-correct-all -x,--fix-layout -l,--lint --only=D --except=D -f,--format={progress|p|simple|s|clang|c|emacs|e|json|j|offenses|o|files|fi|html|h|worst|w|tap|t|quiet|q|github|g|junit|ju|autogenconf|fuubar|fu|pacman|markdown|m|compact} \
            -D,--display-cop-names --no-display-cop-names -S,--display-style-guide -E,--extra-details -F,--fail-fast -P,--parallel --no-parallel --fail-level=D --force-exclusion --display-only-fail-level-offenses --display-only-correctable --only-recognized-file-types -L,--list-target-files --safe \
            --cache=D -C=D --color --no-color -d,--debug -v,--version -V,--verbose-version -h,--help --show-cops=?D --show-docs-url=?D --disable-pending-cops --enable-pending-cops --display-time --fix --no-fix --no-server --lint-all --enable-all-linters \
            -o,--out=W --cache-root=O --auto-gen-config --regenerate-todo -s,--stdin=L \
            -c,--config={.rubocop.*|.standard.yml} !-r,--require=R !--plugin=P !--init !--server !--lsp !--memory !--profile",
        operands: Operands::WrittenWith("-a,-A,-x,--fix,--auto-gen-config,--regenerate-todo"),
        ..TOOL
    },
    Table {
        names: "erblint",
        options: "-f,--format={compact|json|junit|multiline|gitlab} -a,--autocorrect --lint-all --enable-all-linters --enable-linters=D --cache \
            --clear-cache --allow-no-files --fail-level=D -s,--stdin=L --show-linter-names -v,--version -h,--help --cache-dir=O \
            !--config=R",
        operands: Operands::WrittenWith("-a"),
        ..TOOL
    },
    Table {
        names: "reek",
        options: "-f,--format={text|html|json|xml|yaml|code_climate} --color --no-color --smell=D --stdin-filename=L -s,--single-line \
            -L,--line-numbers --no-line-numbers -U,--documentation --no-documentation -V,--empty-headings --progress --no-progress \
            --sort-by=D --force-exclusion --success-exit-code=D --failure-exit-code=D -v,--version -h,--help !-c,--config=R",
        ..TOOL
    },
    Table {
        names: "rake",
        options: "-n,--dry-run -q,--quiet -s,--silent -v,--verbose -t,--trace=?D -T,--tasks=*D -A,--all -P,--prereqs -j,--jobs=*D -m,--multitask -D,--describe=*D -W,--where=*D -N,--no-search,--nosearch --backtrace=?D -V,--version -h,--help --suppress-backtrace=D -B,--build-all \
            !$-e,--execute=P !$-E,--execute-continue=P !$-p,--execute-print=P !-f,--rakefile=R !-r,--require=R !-R,--rakelibdir=L !-I,--libdir=L !-G !-g,--system !-C=E",
        special: Some(rake),
        ..TASKS
    },
    Table {
        names: "bundle",
        options: "~--no-color ~-V,--verbose ~--version ~-v ~-h,--help ~-r,--retry=D",
        subcommands: &[
            Table {
                names: "exec e",
                options: "~--keep-file-descriptors !--gemfile=R",
                special: Some(super::scripts::installed),
                ..LAUNCHER
            },
            Table {
                names: "list show info",
                options: "--only-group=D --without-group=D --paths --name-only --path --version !--gemfile=R",
                operands: Operands::Data,
                ..TOOL
            },
            Table {
                names: "check outdated platform doctor version env",
                options: "--dry-run --local --strict --parseable --porcelain --only-explicit --filter-major --filter-minor --filter-patch --group=D --groups !--gemfile=R !--path=L",
                operands: Operands::Data,
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "rails",
        options: "~-v,--version ~-h,--help",
        subcommands: &[
            Table {
                names: "test t test:all test:system test:units test:models",
                special: Some(rails_test),
                options: "-v,--verbose -n,--name=D -f,--fail-fast -b,--backtrace -d,--defer-output -s,--seed=D -w,--warnings -c,--color --no-color -p,--pride -j=D --exclude=D --profile=?D !-r=P !-I=P !-e,--environment=P",
                ..TOOL
            },
            Table {
                names: "routes about stats zeitwerk:check middleware notes db:version",
                options: "-c,--controller=D -g,--grep=A -E,--expanded --unused -a,--annotations=D",
                operands: Operands::None,
                ..TOOL
            },
            Table { names: "runner r console c dbconsole db", operands: Operands::Code, ..TOOL },
        ],
        ..GROUP
    },
    Table {
        names: "ruby",
        options: "-c -w -W=?{0|1|2|:*} -v,--version -h,--help !!-e=D !-r=R -I=V !-C=E",
        operands: Operands::Special,
        style: Style::First,
        special: Some(ruby),
        ..TOOL
    },
    Table { names: "minitest", ..OF_TEST },
    Table {
        names: "brakeman",
        options: "-q,--quiet -A,--run-all-checks -w,--confidence-level=D -o,--output=W -f,--format={text|html|tabs|json|junit|markdown|csv|codeclimate|sarif|github} \
            --no-pager --exit-on-warn --no-exit-on-warn --no-exit-on-error --color --no-color --summary --no-summary -t,--test=D -x,--except=D -i,--ignore-config=R \
            --skip-files=D --only-files=D -n,--no-threads --no-progress --faster --ensure-latest -v,--version -h,--help -p,--path={.} !-c,--config-file=R \
            !--add-checks-path=L !-I,--interactive-ignore !--add-libs-path=L",
        ..TOOL
    },
    Table {
        names: "bundle-audit bundler-audit",
        options: "",
        subcommands: &[Table {
            names: "check",
            options: "-q,--quiet -v,--verbose -i,--ignore=+N --no-update -F,--format={text|json|junit} -o,--output=W !-u,--update !-D,--database=L !-c,--config=R \
                !-G,--gemfile-lock=R",
            operands: Operands::None,
            ..TOOL
        }],
        ..GROUP
    },
    Table {
        names: "srb",
        options: "~--version",
        subcommands: &[Table {
            names: "tc typecheck",
            options: "-q,--quiet -v --color=D --ignore=D --isolate-error-code=D --suppress-error-code=D --error-white-list=D --typed=N !$-e=P !-p,--print=P \
                !--dir=T !--file=R !-a,--autocorrect !--lsp",
            ..TOOL
        }],
        ..GROUP
    },
    Table {
        names: "steep",
        options: "~--version",
        subcommands: &[Table {
            names: "check stats",
            options: "-j,--jobs=D --severity-level=N --log-level=N --format=N --with-expectations=?R -h,--help !--steepfile=R !--steep-command=P \
                !--save-expectations=?W",
            ..TOOL
        }],
        ..GROUP
    },
    Table {
        names: "cucumber",
        options: "-f,--format={progress|pretty|html|json|junit|summary|usage|rerun|message} -t,--tags=A -n,--name=D -d,--dry-run -S,--strict --fail-fast -c,--color \
            --no-color --order=D --retry=D --publish-quiet -q,--quiet -o,--out=W -e,--exclude=D -p,--profile=N -P,--no-profile -b,--backtrace -v,--verbose --version \
            -h,--help !-r,--require=R !--publish !--init",
        ..TOOL
    },
    Table {
        names: "dotnet",
        options: "~--version ~--info ~--list-sdks ~--list-runtimes ~-h,--help !--additionalprobingpath=L !--additional-deps=R !--runtimeconfig=R !--depsfile=R !--fx-version=P !--roll-forward=P",
        subcommands: &[
            Table {
                names: "build test format restore clean list sln",
                options: "-c,--configuration=N -f,--framework={net*} --no-restore --no-build --no-incremental -v,--verbosity,/v,/verbosity,-verbosity=D -clp,/clp,-consoleLoggerParameters,-consoleloggerparameters={ErrorsOnly|WarningsOnly|NoSummary|Summary|NoItemAndPropertyList|DisableConsoleColor} --nologo,-nologo,/nologo --filter=D -t,--list-tests --verify-no-changes --severity=D --no-dependencies -r,--runtime=N -l,--logger={console|trx|html|junit|GitHubActions|GithubActions} --include=D --exclude=D --blame --blame-hang --blame-hang-timeout=D --blame-crash \
                    --collect=N --diagnostics=D --arch,-a={x64|x86|arm|arm64|s390x|ppc64le|riscv64|loongarch64} --os=N -m,/m=?D -maxcpucount,/maxcpucount=?D --interactive=?D --locked-mode --use-lock-file --tl=?D -tl=?D --self-contained=?D --version-suffix=N --force --no-cache --ignore-failed-sources --include-generated --report=W \
                    -warnaserror,--warnaserror,/warnaserror=?D -p:Configuration,/p:Configuration=N -p:Version,/p:Version=D -p:TreatWarningsAsErrors,/p:TreatWarningsAsErrors=D -p:CollectCoverage,/p:CollectCoverage=D -p:CoverletOutputFormat,/p:CoverletOutputFormat=D -p:Deterministic,/p:Deterministic=D -p:ContinuousIntegrationBuild,/p:ContinuousIntegrationBuild=D -p:WarningLevel,/p:WarningLevel=D -p:NoWarn,/p:NoWarn=D -h,--help --outdated --vulnerable --deprecated --include-transitive \
                    -o,--output=O --results-directory=O --artifacts-path=O \
                    !-p,--property=P !--project=R !-s,--settings=R !--source=P !--configfile=R !--test-adapter-path=L !-e,--environment=P !--diag=W !-d=P !--packages=O !--disable-build-servers !-bl=?W !--ucr !-t:=P !-target=P !-logger=P !-fl",
                operands: Operands::Special,
                special: Some(dotnet),
                style: Style::SingleDash,
                dashes: Dashes::Table(&RUN_SETTINGS),
                ..TOOL
            },
            Table {
                names: "run",
                options: "-c,--configuration=N -f,--framework={net*} --no-build --no-restore --project=R -v,--verbosity=D --launch-profile=D",
                operands: Operands::Special,
                special: Some(dotnet_run),
                dashes: Dashes::Passed,
                ..TOOL
            },
            Table {
                names: "csharpier",
                options: "--check",
                operands: Operands::WrittenWithout("--check"),
                special: Some(super::checkers::csharpier),
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "mix",
        options: "~-v,--version ~-h,--help",
        subcommands: &[
            Table {
                names: "test",
                options: "--trace --cover --failed --stale --seed=D --only=D --include=D --exclude=D --max-failures=D --slowest=D --color --no-color --no-compile --no-start --no-deps-check --no-archives-check --partitions=D --timeout=D --warnings-as-errors --max-cases=D --listen-on-stdin --profile-require=D --repeat-until-failure=D --all-warnings --force --max-requires=D --raise --slowest-modules=D --preload-modules --breakpoints \
                    !--formatter=P !-r,--require=R !--elixirc-paths=L !--export-coverage=P",
                ..TOOL
            },
            Table {
                names: "format",
                options: "--check-formatted --check-equivalent --dry-run --no-exit --migrate --force --stdin-filename=L !--dot-formatter=R",
                operands: Operands::WrittenWithout("--check-formatted,--dry-run"),
                ..TOOL
            },
            Table { names: "do", operands: Operands::Special, style: Style::First, special: Some(parts), ..TOOL },
            Table {
                names: "compile credo dialyzer deps deps.tree deps.unlock coveralls coveralls.html coveralls.json coveralls.detail docs xref hex.audit hex.outdated sobelow lint check help clean",
                options: "--warnings-as-errors --force --check-formatted --check-equivalent --dry-run --strict --all --format=N --only=D --ignore=D --no-compile --quiet -q --verbose --all-warnings --no-deps-check --check-unused --unused --no-exit-code --profile=D --return-errors --explain --mute-exit-status -a -A --halt-exit-status --no-check --config=N --read-config=N --migrate !--dot-formatter=R !--plt=P !--config-file=R !--config-name=P !--require=R !--erl=P",
                operands: Operands::Special,
                special: Some(super::checkers::no_generator),
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "dart flutter",
        options: "~--version ~-h,--help ~-v,--verbose ~--no-color ~--suppress-analytics ~--disable-analytics !--packages=R",
        subcommands: &[
            Table { names: "test analyze doctor", options: DART, ..TOOL },
            Table {
                names: "build",
                options: "--debug --release --profile --no-pub --flavor=N --build-name=D --build-number=D --no-codesign --split-per-abi --no-tree-shake-icons \
                    --target-platform=N --analyze-size -v,--verbose -t,--target=R !--dart-define=P !--dart-define-from-file=R !--extra-gen-snapshot-options=P \
                    !--obfuscate !--split-debug-info=O !-o,--output=O",
                operands: Operands::Special,
                special: Some(artefact),
                ..TOOL
            },
            Table { names: "format", options: DART, operands: Operands::Special, special: Some(dart_format), ..TOOL },
        ],
        ..GROUP
    },
    Table { names: "opam", options: "", subcommands: &[Table { names: "exec", options: "", ..LAUNCHER }], ..GROUP },
    Table {
        names: "dune",
        options: "~--version",
        subcommands: &[Table {
            names: "build test runtest fmt",
            options: "-j=D --display=D --force -f --auto-promote --check --profile=D --verbose --no-buffer !--root=L !--build-dir=I !-x=P !--workspace=R",
            operands: Operands::Special,
            special: Some(dune),
            ..TOOL
        }],
        ..GROUP
    },
];

const DART: &str = "-n,--name=D -N,--plain-name=D -t,--tags=D -x,--exclude-tags=D -r,--reporter={compact|expanded|github|json|failures-only|silent} --coverage=?O -j,--concurrency=D --no-pub --pub --update-goldens --fatal-infos --fatal-warnings --no-fatal-infos --no-fatal-warnings -o,--output={none|show|write|json} --set-exit-if-changed -l,--line-length=D --run-skipped --total-shards=D --shard-index=D --test-randomize-ordering-seed=D --machine --timeout=D --no-color --fail-fast !-p,--platform=P !-d=P !--dart-define=P !--dart-define-from-file=R !--configuration=R !--test-assets=P";

fn dart_format(call: &mut Call<'_>) -> Result<(), Denial> {
    let looks = call.values("-o").last().is_some_and(|word| word.text != "write");
    call.operands.clone().iter().try_for_each(|word| call.formatted(word, !looks))
}

// `flutter build apk`.
fn artefact(call: &mut Call<'_>) -> Result<(), Denial> {
    let known = "apk appbundle aar bundle ios ipa ios-framework macos linux windows web";
    match call.operands.iter().find(|word| !named(known, &word.text)) {
        Some(word) if !call.is_open() => Err(call.deny(format!("`{}` is not known to be harmless", word.text))),
        _ => Ok(()),
    }
}

// An alias of dune is after `@`.
// `mix do compile --warnings-as-errors, test`, `mix do compile + test`: each part is a call of mix.
fn parts(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    let by_comma = words.iter().any(|word| word.text.ends_with(','));
    if by_comma && words.iter().any(|word| word.text == "+") {
        return Err(call.deny("commas or `+` separate its parts, not both"));
    }
    let mut parts = vec![vec![call.words[0].clone()]];
    for word in words {
        let text = if by_comma { word.text.strip_suffix(',').unwrap_or(&word.text) } else { &word.text };
        let ends = text.len() < word.text.len() || text == "+";
        if let Some(part) = parts.last_mut().filter(|_| !text.is_empty() && text != "+") {
            part.push(Word { text: text.to_owned(), literal: word.literal });
        }
        if ends {
            parts.push(vec![call.words[0].clone()]);
        }
    }
    if parts.iter().any(|part| part.len() < 2) {
        return Err(call.deny("a part of it is empty"));
    }
    parts.into_iter().for_each(|part| call.out.starts.push(part));
    Ok(())
}

// To some versions `test:units` is a task of rake: further words are more tasks.
fn rails_test(call: &mut Call<'_>) -> Result<(), Denial> {
    let is_file = |word: &Word| word.text.contains(['/', '.']);
    match call.operands.iter().find(|word| call.name.contains("test:") && !is_file(word)) {
        Some(word) if !call.is_open() => Err(call.deny(format!("`{}` may be another task", word.text))),
        _ => Ok(()),
    }
}

fn dune(call: &mut Call<'_>) -> Result<(), Denial> {
    let known = "all check default runtest test fmt lint doc doc-private ocaml-index";
    // An alias is a task of the project: `@check`, `@src/check`, `@@runtest`.
    let task = |word: &Word| Some(word.text.strip_prefix('@')?.rsplit(['/', '@']).next()?.to_owned());
    if let Some(name) = call.operands.iter().filter_map(task).find(|name| !call.is_open() && !named(known, name)) {
        return Err(call.deny(format!("the alias `{name}` is not known to be harmless")));
    }
    // `(alias deploy)` and `%{…}` are written in a language of their own.
    if let Some(word) = call.operands.iter().find(|word| !call.is_open() && word.text.contains(['(', '{'])) {
        return Err(call.deny(format!("`{}` is not known to be harmless", word.text)));
    }
    let path = |word: &Word| Word { text: word.text.trim_start_matches('@').to_owned(), literal: word.literal };
    call.operands.clone().iter().try_for_each(|word| call.inside(&path(word)))
}

/// What is after `--` of `dotnet test`: settings, some of which name code.
const RUN_SETTINGS: Table =
    Table { names: "", options: "", operands: Operands::Special, special: Some(settings), ..TOOL };

fn settings(call: &mut Call<'_>) -> Result<(), Denial> {
    let plain = [
        "RunConfiguration.MaxCpuCount=",
        "RunConfiguration.TestSessionTimeout=",
        "RunConfiguration.DisableParallelization=",
        "NUnit.NumberOfTestWorkers=",
        "MSTest.Parallelize.Workers=",
        "xUnit.MaxParallelThreads=",
    ];
    match call.operands.iter().find(|word| !plain.iter().any(|known| word.text.starts_with(known))) {
        Some(word) if !call.is_open() => {
            Err(call.deny(format!("the setting `{}` is not known to be harmless", word.text)))
        }
        _ => Ok(()),
    }
}

// Such a value becomes a property of MSBuild, which begins another one at each `;` and `,`; after quotes, too.
fn properties(call: &Call<'_>) -> Result<(), Denial> {
    // These the program itself escapes.
    let whole = ["-l", "--collect", "--filter"];
    for found in &call.found {
        let Some(value) = &found.value else { continue };
        let text = value.text.as_str();
        let splits = text.contains([';', '%']) || text.contains(',') && text.contains('=');
        let breaks = text.contains('"') || text.contains(char::is_control);
        if !call.is_open() && (breaks || splits && !whole.contains(&found.name.as_str())) {
            return Err(call.deny(format!("the value `{text}` of `{}` may set other properties", found.name)));
        }
    }
    Ok(())
}

fn dotnet_run(call: &mut Call<'_>) -> Result<(), Denial> {
    properties(call)?;
    passes_all(call)
}

// `dotnet test tests/A.csproj`; MSBuild takes options that begin with `/`, which lead outside as paths.
fn dotnet(call: &mut Call<'_>) -> Result<(), Denial> {
    properties(call)?;
    let is_solution = |word: &Word| word.text.ends_with(".sln") || word.text.ends_with(".slnx");
    let verbs: &[&str] = match call.name.rsplit(' ').next() {
        Some("sln") if call.is_open() => return words_as_paths(call, &call.words[1..]),
        Some("sln") => match call.operands.split_last() {
            Some((verb, files)) if verb.text == "list" && files.iter().all(is_solution) => &["list"],
            _ => return Err(call.deny("only `list` is known to be harmless")),
        },
        Some("list") => &["package", "reference"],
        Some("format") => &["whitespace", "style", "analyzers"],
        _ => &[],
    };
    for word in call.operands.clone() {
        if !verbs.contains(&word.text.as_str()) {
            call.inside(&word)?;
        }
    }
    Ok(())
}

// `rake test TEST=test/a_test.rb`: variables that choose which tests run.
fn rake(call: &mut Call<'_>) -> Result<(), Denial> {
    let mut tasks = Vec::new();
    for word in call.operands.clone() {
        match word.text.split_once('=') {
            Some(("TEST" | "SPEC", path)) => shell_word(call, path)?,
            Some(("TESTOPTS", value)) if test_options(value) => {}
            Some(("SEED" | "VERBOSE" | "V", value)) if value.chars().all(|c| c.is_ascii_alphanumeric()) => {}
            // Many tasks put such a value into a line of a shell.
            Some((_, value)) if call.is_open() && !value.chars().all(is_plain) => {
                return Err(call.code(format!("`{}` may be code or a command", word.text)));
            }
            _ => tasks.push(word),
        }
    }
    call.tasks("", &tasks)
}

// rake puts the name of a test into a line of a shell, where most marks would begin something else.
fn shell_word(call: &mut Call<'_>, path: &str) -> Result<(), Denial> {
    if path.starts_with('-') || !path.chars().all(is_plain_in_shell) {
        return Err(call.code(format!("`{path}` may be code or a command")));
    }
    call.inside(&Word::literal(path))
}

fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || "_-.,:/+@%=".contains(letter)
}

// rake puts these into a line of a shell.
fn test_options(value: &str) -> bool {
    let named = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    value.split(' ').all(|word| match word.split_once('=') {
        Some(("--name" | "--seed", name)) => named(name),
        Some(_) => false,
        None => ["-v", "--verbose", "-p", "--pride"].contains(&word),
    })
}

// `ruby -c FILE`, `ruby -Ilib -Itest test/a_test.rb -n test_foo`.
fn ruby(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    if call.has("-c") {
        return words.iter().try_for_each(|word| call.inside(word));
    }
    let is_test = |word: &Word| {
        let name = base_name(&word.text).strip_suffix(".rb").unwrap_or_default();
        word.literal && (name.starts_with("test_") || name.ends_with("_test") || name.ends_with("_spec"))
    };
    let Some((script, rest)) = words.split_first().filter(|(script, _)| is_test(script)) else {
        return Err(call.deny("without `-c`, and without the file of a test, it runs any script"));
    };
    call.inside(script)?;
    call.operands.clear();
    call.found.clear();
    call.apply(&OF_TEST, rest)
}

/// What the file of a test is given: options of minitest and test-unit.
const OF_TEST: Table = Table {
    options: "-n,--name=D -e,--exclude=D -i,--include=D -s,--seed=D -v,--verbose -q,--quiet -p,--pride --show-skips -h,--help",
    ..TOOL
};

pub(super) fn passes_all(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    call.all_passed(&words)
}
