//! Tables for cargo and the compilers of Rust.

use super::{Call, Dashes, Denial, Operands, Style, TABLE, Table, Word};
use crate::policy::names::{base_name, named};

const CARGO_GLOBAL: &str = "-V,--version --list --explain=D -v,--verbose -q,--quiet --color=D --locked --offline --frozen -h,--help \
    !--config=C !-Z=P !-C=E";

macro_rules! cargo_options {
    () => {
        "-p,--package=*D --workspace --all --exclude=D --lib --bin=*D --bins --example=*D --examples --test=*D --tests --bench=*D \
        --benches --all-targets -F,--features=D --all-features --no-default-features -r,--release --profile,--cargo-profile=*D --target=*N --target-dir=I \
        --manifest-path=R -j,--jobs=D --keep-going --message-format=D -v,--verbose -q,--quiet --color=D --locked --offline --frozen \
        --ignore-rust-version --timings=?D --no-fail-fast --doc --no-run --fix --allow-dirty --allow-staged --allow-no-vcs --broken-code --edition \
        --edition-idioms --no-deps --check --document-private-items --future-incompat-report --unit-graph -h,--help --format-version=D \
        --filter-platform=N -e,--edges=D -i,--invert=*D --prune=D --depth=D --prefix=D --no-dedupe -d,--duplicates --charset=D -f,--format=D \
        --emit=D --frozen --retries=D --failure-output=D --success-output=D --status-level=D --final-status-level=D --test-threads=D \
        --run-ignored=D --partition=D --filter-expr=D -E=D --no-capture --nocapture --no-tests=D -P=D --dry-run --aggressive -w --bless --max-fail=D \
        --baseline=D !--config=C !-Z=P !--root=O !--artifact-dir=I !--open !--lockfile-path=R --list,-l --precise=D --fail-fast --ff"
    };
}

/// A subcommand that builds: options may be after a nested subcommand or a filter, too.
const BUILD: Table = Table {
    options: cargo_options!(),
    operands: Operands::Special,
    style: Style::First,
    writes_nothing: false,
    special: Some(cargo),
    dashes: Dashes::Passed,
    ..TABLE
};

const CARGO: Table = Table {
    names: "cargo",
    options: CARGO_GLOBAL,
    operands: Operands::Special,
    style: Style::First,
    subcommands: &[
        Table {
            names: "build b check c test t clippy doc d bench run r tree metadata nextest fix rustc rustdoc update fetch vendor package install uninstall publish login owner yank search info new init add remove generate-lockfile locate-project pkgid verify-project report udeps",
            ..BUILD
        },
        // Another directory would be removed, whatever is in it.
        Table {
            names: "clean",
            options: "-p,--package=D --workspace -r,--release --profile=N --target=N --doc -n,--dry-run -v,--verbose -q,--quiet --color=D --locked --offline --frozen \
                --manifest-path=R -h,--help !--target-dir=I !--config=C !-Z=P",
            operands: Operands::None,
            writes_nothing: false,
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
        Table {
            names: "llvm-cov",
            options: concat!(
                cargo_options!(),
                " --summary-only --html --text --json --lcov --cobertura --codecov --output-path=W --output-dir=O --ignore-filename-regex=D \
                --fail-under-lines=D --fail-under-functions=D --fail-under-regions=D --fail-uncovered-lines=D --no-report --no-clean --branch --mcdc \
                --doctests --show-missing-lines --show-instantiations --include-build-script --hide-instantiations --no-cfg-coverage --skip-functions \
                --no-default-ignore-filename-regex --disable-default-ignore-filename-regex --remap-path-prefix"
            ),
            ..BUILD
        },
        Table {
            names: "hack",
            options: concat!(
                cargo_options!(),
                " --feature-powerset --each-feature --no-dev-deps --ignore-private --optional-deps=?D --skip,--exclude-features=D --depth=D \
                --group-features=D --include-features=D --exclude-all-features --exclude-no-default-features --clean-per-run --version-range=D \
                --rust-version --print-command-list !--remove-dev-deps"
            ),
            ..BUILD
        },
        Table { names: "miri", ..BUILD },
        Table { names: "expand", options: concat!(cargo_options!(), " --ugly --theme=D --themes"), ..BUILD },
        Table {
            names: "tarpaulin",
            options: concat!(
                "!-r,--root=O -i,--ignored -f,--forward ",
                cargo_options!(),
                " -o,--out=+{Xml|Html|Lcov|Json|Stdout|xml|html|lcov|json|stdout} --output-dir=O --engine={auto|ptrace|llvm} --timeout=D --exclude-files=D \
                --include-files=D --ignore-tests --include-tests --skip-clean --force-clean --fail-under=D --line --branch --count --run-types=D \
                --ignore-panics --ignore-config --no-dead-code --implicit-test-threads --follow-exec --post-test-delay=D !--rustflags=P !--command=P \
                !--objects=R"
            ),
            ..BUILD
        },
        Table {
            names: "semver-checks",
            options: concat!(
                cargo_options!(),
                " --baseline-rev=G --baseline-version=D --release-type=N --default-features --only-explicit-features !--baseline-root=L \
                !--baseline-rustdoc=R !--current-rustdoc=R"
            ),
            ..BUILD
        },
        Table {
            names: "insta",
            options: concat!(
                cargo_options!(),
                " --check --accept --accept-unseen --unseen --unreferenced={ignore|warn|reject|delete|auto} --require-full-match --keep-pending \
                --test-runner={auto|cargo-test|nextest} --disable-nextest-doctest --snapshots=D --no-force-pass !--review"
            ),
            ..BUILD
        },
        Table {
            names: "deny",
            options: "--all-features --no-default-features --features=D --workspace --exclude=D --exclude-dev --manifest-path=R -L,--log-level=D \
                -f,--format={human|json|sarif} -c,--color=D --offline --locked --frozen -t,--target=N --hide-inclusion-graph -D,--deny=N -W,--warn=N \
                -A,--allow=N -s,--show-stats -d,--disable-fetch --audit-compatible-output -h,--help -V,--version !--config=R !-g,--graph=O \
                !--metadata-path=R",
            operands: Operands::Special,
            writes_nothing: false,
            special: Some(checks),
            ..TABLE
        },
        Table {
            names: "outdated",
            options: "-R,--root-deps-only -d,--depth=D -w,--workspace --exit-code=D -v,--verbose -q,--quiet --format=N -a,--aggressive -o,--offline \
                --ignore-external-rel -x,--exclude=D -i,--ignore=D -p,--packages=D -r,--root=N --features=D --manifest-path=R -h,--help -V,--version",
            operands: Operands::None,
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "sort",
            options: "-c,--check --check-format -w,--workspace -g,--grouped -p,--print -n,--no-format -h,--help -V,--version !-o,--order=P",
            operands: Operands::WrittenWithout("-c,--check-format,-p"),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "machete",
            options: "--with-metadata --fix --no-ignore --skip-target-dir --version -h,--help",
            operands: Operands::WrittenWith("--fix"),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "audit",
            options: "-D,--deny=N -f,--file=R -q,--quiet --json --format={json|terminal|sarif} -n,--no-fetch --stale --ignore=N --target-arch=N --target-os=N \
                -c,--color=N -v,--verbose -h,--help --version -V !-d,--db=L !-u,--url=P !--ignore-source",
            operands: Operands::None,
            writes_nothing: false,
            ..TABLE
        },
        Table { names: "version help", options: "-v,--verbose -q", operands: Operands::Data, ..TABLE },
    ],
    ..TABLE
};

// Options may be after a filter (`cargo test name --release`), and everything after `--` is the program's.
fn cargo(call: &mut Call<'_>) -> Result<(), Denial> {
    if !call.is_open() {
        passed_on(call)?;
        nested(call)?;
    }
    if call.dashes == Some(0) || call.operands.is_empty() {
        return Ok(());
    }
    let rest: Vec<Word> = call.operands.clone();
    let first_end = call.dashes;
    let verb = call.name.rsplit(' ').next().unwrap_or_default().to_owned();
    let nests = NESTED.iter().any(|(subcommand, _)| *subcommand == verb);
    let mut seen: Vec<Word> = Vec::new();
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
        // The first word that is not cargo's, and all behind it, are the program's.
        let runs = if nests { seen.first().map_or("", |word| &word.text) } else { &verb };
        if matches!(runs, "run" | "r") && verb != "nextest" {
            let own = first_end.map_or(pending.len(), |end| end - seen.len()).min(pending.len());
            return call.all_passed(&pending[..own]);
        }
        if matches!(runs, "test" | "t" | "bench") {
            call.all_passed(std::slice::from_ref(word))?;
        }
        seen.push(word.clone());
        call.operands.clear();
        call.dashes = None;
        let table = CARGO.subcommands.iter().find(|sub| named(sub.names, &verb)).unwrap_or(&CARGO.subcommands[0]);
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
    if ["new", "init", "vendor"].iter().any(|verb| call.name.ends_with(&format!(" {verb}"))) {
        seen.iter().for_each(|word| call.write(word));
    }
    call.operands = seen;
    call.dashes = None;
    Ok(())
}

/// What follows a subcommand that has its own; other words there replace programs, or do more than to build and test.
const NESTED: [(&str, &str); 6] = [
    ("nextest", "run r list show-config"),
    ("llvm-cov", "nextest test run report clean"),
    ("hack", "check c build b test t clippy doc d"),
    ("miri", "test t run r"),
    ("insta", "test"),
    ("semver-checks", "check-release"),
];

fn nested(call: &Call<'_>) -> Result<(), Denial> {
    let verb = call.name.rsplit(' ').next().unwrap_or_default();
    let looks = [("update", "--dry-run"), ("package", "--list")];
    if let Some((_, option)) = looks.iter().find(|(name, option)| *name == verb && !call.has(option))
        && call.everyday
    {
        return Err(call.deny(format!("it only looks with `{option}`")));
    }
    let known = NESTED.iter().find(|(subcommand, _)| *subcommand == verb);
    match (known, call.operands.first()) {
        (Some(("hack" | "miri" | "insta", _)), None) => Err(call.deny("it names no subcommand")),
        (Some((_, words)), Some(first)) if !named(words, &first.text) => {
            Err(call.deny(format!("`{}` is not known to be harmless", first.text)))
        }
        _ => Ok(()),
    }
}

// `cargo deny check advisories bans`; other words of it write or fetch.
fn checks(call: &mut Call<'_>) -> Result<(), Denial> {
    let known = "check list advisories advisory bans ban licenses license sources all";
    match call.operands.iter().find(|word| !named(known, &word.text)) {
        Some(word) if !call.is_open() => Err(call.deny(format!("`{}` is not known to be harmless", word.text))),
        _ => Ok(()),
    }
}

// What rustfmt and clippy are given after `--`: as the compiler's own options these write files and load code.
fn passed_on(call: &mut Call<'_>) -> Result<(), Denial> {
    let behind = |word: &Word| word.text == "--";
    let Some(at) = call.words.iter().position(behind) else { return Ok(()) };
    let mut words = call.words[at + 1..].iter();
    if let Some(word) = words.clone().find(|word| word.text.split('=').next() == Some("--logfile")) {
        return Err(call.deny(format!("`{}` after `--` has the tests write a file", word.text)));
    }
    let formats = call.name.ends_with(" fmt");
    // `cargo hack clippy` is clippy, too.
    let nested = call.operands.first().is_some_and(|word| word.text == "clippy");
    if !formats && !nested && !call.name.ends_with(" clippy") {
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
                call.write(word);
                false
            }
            (false, "--no-deps" | "-v" | "--verbose") => false,
            (false, "-A" | "-W" | "-D" | "-F" | "--allow" | "--warn" | "--deny" | "--forbid" | "--cap-lints") => true,
            (false, _) if ["-A", "-W", "-D", "-F"].iter().any(|lint| text.starts_with(lint)) => false,
            (_, _) => return Err(call.deny(format!("`{text}` after `--` is not known to be harmless"))),
        };
        if takes_value && attached.is_none() {
            words.next();
        }
    }
    Ok(())
}

/// Refuses a toolchain that is named by its directory: rustup runs the programs in it.
pub(crate) fn toolchain(call: &Call<'_>) -> Result<(), Denial> {
    let proxies = "cargo rustc rustfmt rustdoc cargo-fmt cargo-clippy clippy-driver cargo-miri rust-analyzer rust-gdb rust-lldb rustup";
    if !named(proxies, base_name(&call.words[0].text)) {
        return Ok(());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match call.words.get(1).filter(|word| word.text.strip_prefix('+').is_some_and(|name| !name.chars().all(plain))) {
        Some(word) => Err(call
            .deny(format!("`{}` names a toolchain by its directory", word.text))
            .hint("name it, for example `+nightly`")),
        None => Ok(()),
    }
}

/// Tells whether cargo is told to use one of the published toolchains: `+stable`, `+nightly-2026-01-31`, `+1.85.0`.
pub(crate) fn is_toolchain(words: &[Word]) -> bool {
    let published = |name: &str| {
        let version = name.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        let date =
            name.strip_prefix("nightly-").is_some_and(|date| date.bytes().all(|byte| b"0123456789-".contains(&byte)));
        version || date || matches!(name, "stable" | "beta" | "nightly")
    };
    let name = words.get(1).filter(|word| word.literal && words[0].text == "cargo");
    name.and_then(|word| word.text.strip_prefix('+')).is_some_and(published)
}

fn rustfmt(call: &mut Call<'_>) -> Result<(), Denial> {
    toolchain(call)
}

// `--print KIND=FILE` writes the file.
fn rustc(call: &mut Call<'_>) -> Result<(), Denial> {
    toolchain(call)?;
    for word in call.values("--print") {
        if let Some((_, file)) = word.text.split_once('=') {
            call.write(&Word::literal(file));
        }
    }
    Ok(())
}

pub(super) const TABLES: &[Table] = &[
    CARGO,
    Table {
        names: "rustc",
        options: "-V,--version -v,--verbose --edition=D --crate-type=D --crate-name=D -O -g --test -A=D -W=D -D=D -F=D --cap-lints=D --cfg=D \
            --explain=D --print=D -h,--help --error-format=D --color=D -o=W --out-dir=O --target=N !-C=P !-L=P !-Z=P !--extern=P !--sysroot=P !--emit=P",
        operands: Operands::Inside,
        writes_nothing: false,
        special: Some(rustc),
        ..TABLE
    },
    Table {
        names: "rustfmt",
        options: "--check --edition=D --style-edition=D --emit={stdout|files} -l,--files-with-diff -q,--quiet -v,--verbose --color=D -V,--version -h,--help \
            !--config=P !--config-path=R",
        operands: Operands::Write,
        writes_nothing: false,
        special: Some(rustfmt),
        ..TABLE
    },
];
