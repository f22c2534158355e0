//! Build and test tools, as tables. What they write while they build is judged as a diff before delivery.

use super::Word;
use super::table::{Call, Operands, Style, TABLE, Table};
use crate::policy::decision::Denial;

const CARGO_GLOBAL: &str = "-V,--version --list --explain=D -v,--verbose -q,--quiet --color=D --locked --offline --frozen -h,--help \
    !--config=D !-Z=D !-C=E";

macro_rules! cargo_options {
    () => {
        "-p,--package=*D --workspace --all --exclude=D --lib --bin=*D --bins --example=*D --examples --test=*D --tests --bench=*D \
        --benches --all-targets -F,--features=D --all-features --no-default-features -r,--release --profile=*D --target=*D --target-dir=I \
        --manifest-path=R -j,--jobs=D --keep-going --message-format=D -v,--verbose -q,--quiet --color=D --locked --offline --frozen \
        --ignore-rust-version --timings=?D --no-fail-fast --doc --no-run --fix --allow-dirty --allow-staged --allow-no-vcs --broken-code --edition \
        --edition-idioms --no-deps --check --document-private-items --future-incompat-report --unit-graph -h,--help --format-version=D \
        --filter-platform=D -e,--edges=D -i,--invert=*D --prune=D --depth=D --prefix=D --no-dedupe -d,--duplicates --charset=D -f,--format=D \
        --emit=D --frozen --retries=D --failure-output=D --success-output=D --status-level=D --final-status-level=D --test-threads=D \
        --run-ignored=D --partition=D --filter-expr=D -E=D --no-capture --nocapture --no-tests=D -P=D --dry-run --aggressive -w --bless --max-fail=D \
        --baseline=D !--config=D !-Z=D !--artifact-dir=I !--open !--lockfile-path=R --list --fail-fast --ff"
    };
}

const CARGO: Table = Table {
    names: "cargo",
    options: CARGO_GLOBAL,
    operands: Operands::Special,
    style: Style::First,
    subcommands: &[
        Table {
            names: "build b check c test t clippy doc d bench run r tree metadata nextest fix rustc rustdoc update fetch vendor package clean install uninstall publish login owner yank search info new init add remove generate-lockfile locate-project pkgid verify-project report audit deny machete outdated expand llvm-cov tarpaulin hack miri",
            options: cargo_options!(),
            operands: Operands::Special,
            style: Style::First,
            writes_nothing: false,
            special: Some(cargo),
            ..TABLE
        },
        Table {
            names: "fmt",
            options: "-p,--package=D --all --check --message-format=D -v,--verbose -q,--quiet --manifest-path=R -h,--help --version",
            operands: Operands::Special,
            style: Style::First,
            writes_nothing: false,
            special: Some(cargo),
            ..TABLE
        },
        Table { names: "version help", options: "-v,--verbose -q", operands: Operands::Data, ..TABLE },
    ],
    ..TABLE
};

// Options may stand behind a filter (`cargo test name --release`), and everything behind `--` is the program's.
fn cargo(call: &mut Call<'_>) -> Result<(), Denial> {
    if !call.is_open() {
        passed_on(call)?;
    }
    if call.dashes == Some(0) || call.operands.is_empty() {
        return Ok(());
    }
    let rest: Vec<Word> = call.operands.clone();
    let first_end = call.dashes;
    let mut seen = Vec::new();
    // A nested subcommand (`cargo nextest run`) or a filter, then options again.
    let mut pending = rest.as_slice();
    while let Some((word, more)) = pending.split_first() {
        if first_end.is_some_and(|end| seen.len() >= end) {
            break;
        }
        if word.text == "--" && word.literal {
            break;
        }
        if !word.literal {
            return Err(call.deny("a word of it is not known"));
        }
        seen.push(word.clone());
        call.operands.clear();
        call.dashes = None;
        let table = CARGO.subcommands.iter().find(|sub| sub.special.is_some()).expect("cargo's builds have a table");
        let table = Table { special: None, ..*table };
        call.parse(&table, more)?;
        if call.dashes == Some(0) {
            break;
        }
        let left = call.operands.len();
        pending = &more[more.len() - left..];
        if left == 0 {
            break;
        }
    }
    call.operands = seen;
    call.dashes = None;
    Ok(())
}

// What rustfmt and clippy are given behind `--`: as the compiler's own options these write files and load code.
fn passed_on(call: &mut Call<'_>) -> Result<(), Denial> {
    let behind = |word: &Word| word.text == "--";
    let Some(at) = call.words.iter().position(behind) else { return Ok(()) };
    let mut words = call.words[at + 1..].iter();
    let formats = call.name.ends_with(" fmt");
    if !formats && !call.name.ends_with(" clippy") {
        return Ok(());
    }
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        let (name, attached) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let takes_value = match (formats, name) {
            (true, "--check" | "-v" | "--verbose" | "-q" | "--quiet" | "-l" | "--files-with-diff" | "--backup") => {
                false
            }
            (true, "--edition" | "--color" | "--config" | "--style-edition") => true,
            (true, _) if !text.starts_with(['-', '@']) => {
                call.read(word);
                false
            }
            (false, "--no-deps" | "-v" | "--verbose") => false,
            (false, "-A" | "-W" | "-D" | "-F" | "--allow" | "--warn" | "--deny" | "--forbid" | "--cap-lints") => true,
            (false, _) if ["-A", "-W", "-D", "-F"].iter().any(|lint| text.starts_with(lint)) => false,
            (_, _) => return Err(call.deny(format!("`{text}` behind `--` is not known to be harmless"))),
        };
        if takes_value && attached.is_none() {
            words.next();
        }
    }
    Ok(())
}

const MAKE: Table = Table {
    names: "make gmake",
    options: "-j,--jobs=?D -k,--keep-going -s,--silent,--quiet !-f,--file,--makefile=R !-C,--directory=E !-I,--include-dir=L !-E,--eval=D \
        !-B,--always-make !-n,--just-print,--dry-run,--recon !-i,--ignore-errors !-e,--environment-overrides !-l,--load-average=?D \
        !-o,--old-file=D !-W,--what-if=D !-q,--question !-r,--no-builtin-rules !-R,--no-builtin-variables !-t,--touch !-w,--print-directory \
        !--no-print-directory !-d !--debug=?D !-p,--print-data-base !-S,--no-keep-going !--trace !-O,--output-sync=?D !-L !-v,--version !-h,--help \
        !--warn-undefined-variables",
    operands: Operands::Special,
    writes_nothing: false,
    special: Some(make),
    ..TABLE
};

fn make(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.has("-E") {
        return Err(call.deny("`--eval` is code"));
    }
    if call.values("-f").iter().any(|file| file.text == "-") {
        return Err(Denial::unanalysable("make: rules on its standard input").by("G3"));
    }
    if let Some(word) = call.operands.iter().find(|word| !word.literal) {
        return Err(call.deny(format!("the target `{}` is not known", word.text)));
    }
    // make takes `-j 4` too: the number is then no target.
    let jobs_apart = call.found.iter().any(|found| found.name == "-j" && found.value.is_none());
    let is_number = |word: &Word| !word.text.is_empty() && word.text.bytes().all(|b| b.is_ascii_digit());
    let targets: Vec<String> =
        call.operands.iter().filter(|word| !(jobs_apart && is_number(word))).map(|word| word.text.clone()).collect();
    if call.is_open() {
        for word in &call.operands {
            let names = ["SHELL", "MAKEFLAGS", "GNUMAKEFLAGS", "MAKEFILES"];
            let runs = word.text.split_once('=').is_some_and(|(name, value)| {
                names.contains(&name.trim_end_matches([':', '+', '?'])) || value.contains("$(") || value.contains('`')
            });
            if runs {
                return Err(call.deny(format!("the assignment `{}` runs programs", word.text)));
            }
        }
        return Ok(());
    }
    if let Some(target) = targets.iter().find(|target| target.contains('=')) {
        return Err(call.deny(format!("the assignment `{target}`")));
    }
    let listed: Vec<&String> = call.listed.first().map(|names| names.iter().collect()).unwrap_or_default();
    match targets.iter().find(|target| !listed.contains(target)) {
        Some(target) => {
            let names: Vec<&str> = listed.iter().map(|name| name.as_str()).collect();
            Err(call
                .deny(format!("the target `{target}` is not listed"))
                .hint(format!("targets are {}", names.join(", "))))
        }
        None if targets.is_empty() && !listed.is_empty() => {
            let names: Vec<&str> = listed.iter().map(|name| name.as_str()).collect();
            Err(call.deny("no target is named").hint(format!("targets are {}", names.join(", "))))
        }
        None => Ok(()),
    }
}

const NPM: Table = Table {
    names: "npm pnpm yarn",
    options: "",
    operands: Operands::Special,
    style: Style::First,
    writes_nothing: false,
    special: None,
    subcommands: &[Table {
        names: "test t tst run run-script start build lint ls list ll outdated why explain version view info audit ci install i add remove exec x dlx publish pack init link login logout owner config set get prefix root bin cache fund doctor format fmt check typecheck",
        options: "",
        operands: Operands::Special,
        style: Style::Whole,
        writes_nothing: false,
        special: Some(npm),
        ..TABLE
    }],
};

fn npm(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.listed.is_empty() && !call.is_open() {
        let plain = [
            "test",
            "t",
            "tst",
            "run",
            "run-script",
            "start",
            "build",
            "lint",
            "ls",
            "list",
            "outdated",
            "why",
            "explain",
            "format",
            "check",
        ];
        if !plain.iter().any(|name| call.name.ends_with(&format!(" {name}"))) {
            return Err(call.deny("a rule must name this subcommand"));
        }
    }
    if call.is_open() && (call.name.ends_with(" install") || call.name.ends_with(" i") || call.name.ends_with(" add")) {
        let words: Vec<Word> = call.operands.iter().filter(|word| word.text.starts_with(['.', '/'])).cloned().collect();
        words.iter().for_each(|word| call.read_tree(word, false));
    }
    Ok(())
}

const PYTEST: Table = Table {
    names: "pytest py.test",
    options: "-k=D -m=D --markers -x,--exitfirst --fixtures --funcargs --fixtures-per-test --pdb --trace --capture=D -s --runxfail --lf,--last-failed \
        --ff,--failed-first --nf,--new-first --cache-show=?D --cache-clear --lfnf,--last-failed-no-failures=D --sw,--stepwise --sw-skip,--stepwise-skip \
        --durations=D --durations-min=D -v,--verbose --no-header --no-summary -q,--quiet --verbosity=D -r=D --disable-warnings,--disable-pytest-warnings \
        -l,--showlocals --no-showlocals --tb=D --xfail-tb --show-capture=D --full-trace --color=D --code-highlight=D --pastebin=D --junit-xml,--junitxml=W \
        --junit-prefix=D -W,--pythonwarnings=D --maxfail=D --strict-config --strict-markers --strict --continue-on-collection-errors --collect-only,--co \
        --pyargs --ignore=D --ignore-glob=D --deselect=D --noconftest --keep-duplicates --collect-in-virtualenv --import-mode=D --doctest-modules \
        --doctest-report=D --doctest-glob=D --doctest-ignore-import-errors --doctest-continue-on-failure --setup-only --setup-show --setup-plan --version -V \
        -h,--help --log-level=D --log-format=D --log-cli-level=D --log-file=W -n,--numprocesses=D --dist=D --cov=?D --cov-report=D --cov-fail-under=D \
        --no-cov --timeout=D --reruns=D --benchmark-skip --benchmark-only --asyncio-mode=D \
        !-p=D !-c,--config-file=R !-o,--override-ini=D !--rootdir=L !--confcutdir=L !--basetemp=W !--debug=?W !--pdbcls=D",
    operands: Operands::Special,
    writes_nothing: false,
    special: Some(pytest),
    ..TABLE
};

fn pytest(call: &mut Call<'_>) -> Result<(), Denial> {
    for report in call.values("--cov-report") {
        // `html:FOLDER`; `term:skip-covered` writes nothing.
        if let Some((kind, path)) = report.text.split_once(':')
            && !kind.starts_with("term")
        {
            call.out.effects.push(crate::policy::effect::Effect::Write(path.to_owned()));
        }
    }
    for word in call.operands.clone() {
        if !word.literal {
            return Err(call.deny("a word of it is not known"));
        }
        // `file::Class::test`, `file[param]`.
        // `@file` holds further arguments.
        if word.text.starts_with('@') && !call.is_open() {
            return Err(call.deny(format!("`{}` takes options from a file", word.text)));
        }
        let path = word.text.split("::").next().unwrap_or_default().to_owned();
        if !path.is_empty() {
            call.out.effects.push(crate::policy::effect::Effect::Read(path));
        }
    }
    Ok(())
}

// Tools whose words are files of the project that they read and may rewrite with an option that says so.
const LINT: &str = "--check -c --diff --fix --fix-only --unsafe-fixes --write -w --quiet -q --verbose -v --version --help -h --color=?D --no-color --format=D -f=D \
    --output-format=D --max-warnings=D --ext=D --cache --no-cache --noEmit --pretty --strict --watch=? --coverage --silent --bail=?D --ci --runInBand -i --testNamePattern=D -t=D \
    --reporter=D --run --passWithNoTests --list-different -l --select=D --ignore=D --extend-select=D --exclude=D --target-version=D --line-length=D --show-files \
    --statistics --exit-zero --no-eslintrc --rule=D --no-warn-ignored --skipLibCheck --listFiles --incremental --noUnusedLocals --autocorrect -a -A --only=D --except=D \
    --fail-level=D --tag=D --order=D --seed=D --fail-fast --no-fail-fast --profile=?D --example=D -e=D --documentation --dry-run --parallel --maxWorkers=D -u --updateSnapshot \
    !-p,--project=R !--config=R !--require=R !-r=R !--rulesdir=R !--plugin=D !--resolve-plugins-relative-to=L !-o,--out,--outDir=O !--outputFile=W !--out-dir=O \
    !--globalSetup=R !--setupFiles=R !--cache-location=W !--config-file=R !--root=L !--rootDir=L !--env=D --no-error-on-unmatched-pattern \
    --ignore-missing-imports --show-error-codes --no-incremental --python-version=D --namespace-packages --explicit-package-bases";

pub(crate) const TABLES: &[Table] = &[
    CARGO,
    MAKE,
    NPM,
    PYTEST,
    Table {
        names: "tsc eslint prettier jest vitest mypy black isort flake8 pylint rspec rubocop standard biome",
        options: LINT,
        operands: Operands::Read,
        style: Style::Whole,
        writes_nothing: false,
        ..TABLE
    },
    Table {
        names: "ruff",
        options: LINT,
        operands: Operands::Special,
        style: Style::Whole,
        writes_nothing: false,
        special: Some(after_subcommand),
        ..TABLE
    },
    Table {
        names: "rustc",
        options: "-V,--version -v,--verbose --edition=D --crate-type=D --crate-name=D -O -g --test -A=D -W=D -D=D -F=D --cap-lints=D --cfg=D --explain=D --print=D -h,--help --error-format=D --color=D -o=W --out-dir=O !-C=D !-L=D !-Z=D !--extern=D !--sysroot=D !--emit=D",
        operands: Operands::Read,
        writes_nothing: false,
        ..TABLE
    },
    Table {
        names: "rustfmt",
        options: "--check --edition=D --emit=D -l,--files-with-diff -q,--quiet -v,--verbose --color=D -V,--version -h,--help --config=D !--config-path=R",
        operands: Operands::Write,
        writes_nothing: false,
        ..TABLE
    },
    Table {
        names: "gofmt goimports",
        options: "-d -e -l -s -w -r=D",
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(gofmt),
        ..TABLE
    },
    Table {
        names: "go",
        options: "!-C=E",
        operands: Operands::Special,
        style: Style::SingleDash,
        subcommands: &[Table {
            names: "build test vet fmt list doc version env run mod generate install get clean",
            options: "-v -race -cover -covermode=D -coverpkg=D -count=D -run=D -skip=D -bench=D -benchtime=D -benchmem -short -timeout=D -parallel=D -p=D -cpu=D -failfast -json -a -n -x -trimpath -tags=D -mod=D -m -f=D -deps -e -u -all -list=D -shuffle=D -fullpath -c -s -w -l -d -fix -compiled -test -find -versions -retracted -buildvcs=D -o=W -coverprofile=W !!-exec=D !!-toolexec=D !-ldflags=D !-gcflags=D !-asmflags=D !-overlay=R !-modfile=R !-modcacherw !-cpuprofile=W !-memprofile=W !-trace=W !-outputdir=O !!-vettool=D !-pkgdir=L !-args",
            operands: Operands::Special,
            style: Style::SingleDash,
            writes_nothing: false,
            special: Some(go),
            ..TABLE
        }],
        ..TABLE
    },
    Table {
        names: "ctest",
        options: "-j,--parallel=D -R,--tests-regex=D -E,--exclude-regex=D -L=D -LE=D -V,--verbose -VV --output-on-failure -N,--show-only=?D -Q,--quiet --rerun-failed --repeat=D --timeout=D --test-dir=L --stop-on-failure --progress -C,--build-config=D !-S=R !-SP=R !-D=D !-M=D !-T=D !--build-and-test=D",
        operands: Operands::None,
        style: Style::Whole,
        writes_nothing: false,
        ..TABLE
    },
    Table {
        names: "cmake",
        options: "--build=I -S=T -B=I -j,--parallel=?D --config=D -t,--target=D --clean-first -v,--verbose -G=D --install=I --preset=D --list-presets -N -Wno-dev -Wdev --version --help !-D=D !-C=R !-P=R !-E !-U=D",
        operands: Operands::Special,
        style: Style::Whole,
        writes_nothing: false,
        special: None,
        ..TABLE
    },
    Table {
        names: "mvn gradle gradlew mvnw",
        options: "-q,--quiet -o,--offline -B,--batch-mode -v,--version -h,--help -T=D -am -pl=D -U -e -X -ntp --no-transfer-progress --info --debug --stacktrace --no-daemon --daemon --parallel --build-cache --no-build-cache --continue --tests=D -x=D --rerun-tasks --dry-run -DskipTests --console=D --warning-mode=D !-f=R !-s=R !-D=D !-P=D !-I,--init-script=R !-b=R !-c=R !-p,--project-dir=L !-g,--gradle-user-home=L !--settings=R !--file=R",
        operands: Operands::Data,
        style: Style::Whole,
        writes_nothing: false,
        ..TABLE
    },
    Table {
        names: "dotnet",
        options: "",
        operands: Operands::Special,
        style: Style::First,
        subcommands: &[Table {
            names: "build test format restore clean run list",
            options: "-c,--configuration=D -f,--framework=D --no-restore --no-build -v,--verbosity=D --nologo --filter=D --verify-no-changes --severity=D --no-dependencies -r,--runtime=D -l,--logger=D --include=D --exclude=D !-o,--output=O !-p=D !--project=R !--settings=R !-s=D !--test-adapter-path=L !--results-directory=O",
            operands: Operands::Read,
            style: Style::Whole,
            writes_nothing: false,
            ..TABLE
        }],
        ..TABLE
    },
    Table {
        names: "composer",
        options: "-q,--quiet -n,--no-interaction -v --no-ansi --ansi !-d,--working-dir=E",
        operands: Operands::Special,
        style: Style::First,
        subcommands: &[Table {
            names: "validate show outdated check-platform-reqs test run-script run dump-autoload install",
            options: "--no-dev --strict --no-check-all --format=D -q -n --no-interaction",
            operands: Operands::Data,
            writes_nothing: false,
            ..TABLE
        }],
        ..TABLE
    },
    Table {
        names: "pip pip3 uv poetry",
        options: "-q,--quiet -v,--verbose -V,--version -h,--help --no-color --offline --no-cache !--python=D !--config-file=R !--directory=E !--project=L",
        operands: Operands::Special,
        style: Style::First,
        subcommands: &[Table {
            names: "list show freeze check tree",
            options: "--format=D -o,--outdated -u --all -v -q --tree --local",
            operands: Operands::Data,
            ..TABLE
        }],
        ..TABLE
    },
];

fn gofmt(call: &mut Call<'_>) -> Result<(), Denial> {
    let writes = call.has("-w");
    for word in call.operands.clone() {
        call.read_tree(&word, false);
        if writes {
            call.write(&word);
        }
    }
    Ok(())
}

fn go(call: &mut Call<'_>) -> Result<(), Denial> {
    for word in call.operands.clone() {
        if !word.literal {
            return Err(call.deny("a word of it is not known"));
        }
        // `./...` and package names; a name with dots is a module's address.
        let path = word.text.trim_end_matches("...").trim_end_matches('/');
        if path.starts_with('.') || path.starts_with('/') {
            call.effect(crate::policy::effect::Effect::List, &Word::literal(if path.is_empty() { "/" } else { path }));
        }
    }
    Ok(())
}

fn after_subcommand(call: &mut Call<'_>) -> Result<(), Denial> {
    for word in call.operands.clone().iter().skip(1) {
        call.read(word);
    }
    Ok(())
}

/// Tells whether a table compares its operands with the rule's list itself.
pub(crate) fn judges_its_list(table: &Table) -> bool {
    table.names == MAKE.names
}
