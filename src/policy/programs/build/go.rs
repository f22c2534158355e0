//! Tables for the tools of Go.

use super::{Call, Denial, GROUP, Operands, Style, TABLE, TOOL, Table, Word};
use crate::path::Node;
use crate::policy::effect::{Effect, Pattern};
use crate::policy::names::named;

const GO_BUILD: &str = "-v -race -cover -covermode=D -coverpkg=D -count=D -run=D -skip=D -bench=D -benchtime=D -benchmem -short -timeout=D -parallel=D -p=D -cpu=D \
    -failfast -json -a -n -x -trimpath -tags=D -mod={mod|readonly|vendor} -m -f=D -deps -e -u -all -list=D -shuffle=D -fullpath -c -s -w -l -d -fix -compiled -test \
    -find -versions -retracted -buildvcs=D -buildmode={default|exe|pie|c-archive|c-shared|archive} -o=W -coverprofile=W -vet=D -msan -asan -work -args,--args=> \
    -h,--help -fuzz=D -fuzztime=D -fuzzminimizetime=D -outputdir=O -ldflags=D -gcflags=D -cpuprofile=W -memprofile=W -blockprofile=W -mutexprofile=W -trace=W -html=R -func=R -testcache -cache -fuzzcache -r -i \
    -unsafeptr=?D -printf=?D -shadow=?D -copylocks=?D -composites=?D -assign=?D -atomic=?D -bools=?D -nilfunc=?D -structtag=?D -unreachable=?D -unusedresult=?D -lostcancel=?D \
    -diff -go=D -compat=D -module=D -vendor -C=E \
    !!-exec=D !!-toolexec=D !!-vettool=D !-asmflags=P !-overlay=R !-modfile=R !-modcacherw !-pkgdir=L !-gccgoflags=P !-compiler=P";

const GOLANGCI: &str = "-v,--verbose --fix --fast --fast-only --timeout=D -E,--enable=D -D,--disable=D --enable-only=D --disable-all --enable-all --default=D --out-format={colored-line-number|line-number|json|tab|checkstyle|github-actions|junit-xml} \
                    --new --new-from-rev=G --tests=?D --build-tags=D -j,--concurrency=D --max-issues-per-linter=D --max-same-issues=D --issues-exit-code=D --output.text.path,--output.json.path,--output.tab.path,--output.checkstyle.path,--output.sarif.path,--output.junit-xml.path={stdout|stderr} \
                    --output.text.colors=?D --output.text.print-issued-lines=?D --output.text.print-linter-name=?D --allow-parallel-runners --print-issued-lines=?D \
                    --color=D --skip-dirs=D --exclude=D -p,--presets=D --show-stats --no-config -d,--diff --allow-serial-runners --modules-download-mode={readonly|vendor|mod} --go=D -h,--help -c,--config={.golangci.*} !--path-prefix=P !--cpu-profile-path=W";

/// What is handed to `go test`.
const GO_TEST: Table = Table {
    options: GO_BUILD,
    operands: Operands::Special,
    style: Style::SingleDash,
    writes_nothing: false,
    special: Some(go),
    ..TABLE
};

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "gofmt goimports gofumpt",
        dash_values: true,
        options: "-d -e -l -s -w -r=D -local=D -extra -v -format-only !-cpuprofile=W !-srcdir=L",
        operands: Operands::Special,
        style: Style::SingleDash,
        writes_nothing: false,
        special: Some(gofmt),
        ..TABLE
    },
    Table {
        names: "go",
        options: "!-C=E",
        operands: Operands::Special,
        style: Style::SingleDash,
        subcommands: &[
            Table {
                names: "build test vet fmt list run generate install get clean mod work tool",
                dash_values: true,
                options: GO_BUILD,
                operands: Operands::Special,
                style: Style::SingleDash,
                writes_nothing: false,
                special: Some(go),
                ..TABLE
            },
            Table {
                names: "env help",
                options: "-json -changed !-w !-u",
                operands: Operands::Data,
                style: Style::SingleDash,
                ..TABLE
            },
            Table {
                names: "version",
                options: "-m -v -json",
                operands: Operands::Read,
                style: Style::SingleDash,
                ..TABLE
            },
            Table {
                names: "doc",
                options: "-all -src -short -u -c -cmd",
                operands: Operands::Special,
                style: Style::SingleDash,
                special: Some(go),
                ..TABLE
            },
        ],
        ..TABLE
    },
    Table {
        names: "golangci-lint",
        options: "-v,--verbose --color=D -h,--help --version !-c,--config=R",
        subcommands: &[
            Table { names: "run", options: GOLANGCI, operands: Operands::WrittenWith("--fix"), ..TOOL },
            Table {
                names: "fmt",
                options: "-d,--diff --diff-colored -E,--enable=D --stdin -v,--verbose --color=D -h,--help -c,--config={.golangci.*} --no-config",
                operands: Operands::WrittenWithout("-d,--diff-colored"),
                ..TOOL
            },
            Table {
                names: "linters version help config",
                options: "-h,--help --json --enabled",
                operands: Operands::Data,
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "staticcheck errcheck gosec revive govulncheck ineffassign",
        dash_values: true,
        options: "-checks=D -fail=D -f={text|json|stylish|sarif|junit-xml|null} -tests=?D -go=D -tags=D -show-ignored -explain=D -version -debug.version -blank -asserts -ignoretests -exclude=V \
            -severity=D -confidence=D -quiet -fmt={text|json|sarif} -no-fail -formatter={default|friendly|stylish|json} -set_exit_status -test -mode=D -json -v !-config=R !-out=W !-matrix -exclude-dir=D",
        operands: Operands::Special,
        style: Style::SingleDash,
        special: Some(go),
        ..TOOL
    },
    Table {
        names: "gotestsum",
        options: "-f,--format=N --format-icons=N --format-hide-empty-pkg --junitfile=W --junitfile-testsuite-name=N --junitfile-testcase-classname=N \
            --junitfile-project-name=N --junitfile-hide-empty-pkg --jsonfile=W --jsonfile-timing-events=W --no-color --no-summary=?N --hide-summary=N \
            --rerun-fails=?D --rerun-fails-max-failures=D --rerun-fails-report=W --rerun-fails-abort-on-data-race --rerun-fails-run-root-test \
            --packages=D --max-fails=D --debug --version -h,--help !$--raw-command !$--post-run-command=P !--watch !--watch-chdir",
        operands: Operands::Special,
        style: Style::First,
        special: Some(gotestsum),
        ..TOOL
    },
];

// What follows its own options are words of `go test`; `tool` is a subcommand.
fn gotestsum(call: &mut Call<'_>) -> Result<(), Denial> {
    let mut words: Vec<Word> = call.operands.drain(..).collect();
    if !call.is_open() && words.first().is_some_and(|word| matches!(word.text.as_str(), "tool" | "help")) {
        return Err(call.deny(format!("`{}` is not known to be harmless", words[0].text)));
    }
    let packages = call.values("--packages");
    words.extend(packages.iter().flat_map(|value| value.text.split_whitespace()).map(Word::literal));
    call.apply(&GO_TEST, &words)
}

fn gofmt(call: &mut Call<'_>) -> Result<(), Denial> {
    for word in call.operands.clone() {
        if !word.literal {
            return Err(call.deny("a word of it is not known"));
        }
        let sources = vec![Pattern::File("*.go".to_owned())];
        let path = word.text.clone();
        call.out.effects.push(Effect::ReadTree {
            path,
            follow_links: false,
            left_out: vec![],
            only: sources,
            skips_hidden: false,
        });
        // Below a directory what is formatted is judged as a diff, as with every formatter.
        if call.has("-w") && call.node(&word.text)? != Some(Node::Dir) {
            call.write(&word);
        }
    }
    Ok(())
}

fn go(call: &mut Call<'_>) -> Result<(), Denial> {
    let flags = ["-s", "-w", "-N", "-l", "-m", "-m=2", "-e", "-v"];
    for value in [call.values("-ldflags"), call.values("-gcflags")].concat() {
        let mut words = value.text.split_whitespace().map(|word| word.strip_prefix("all=").unwrap_or(word));
        while let Some(word) = words.next() {
            let sets = word == "-X" && words.next().is_some();
            if !call.is_open() && !sets && !word.starts_with("-X=") && !flags.contains(&word) {
                return Err(call.deny(format!("the flag `{word}` is not known to be harmless")));
            }
        }
    }
    // Words for the test's own program: as its general options these write files.
    let general = "v run skip count short timeout parallel cpu bench benchtime benchmem failfast shuffle list";
    let behind = call.words.iter().skip_while(|word| !matches!(word.text.as_str(), "-args" | "--args"));
    for word in behind.filter(|word| word.text.trim_start_matches('-').starts_with("test.")) {
        let name = word.text.split('=').next().unwrap_or_default().trim_start_matches('-');
        if !call.is_open() && !named(general, &name["test.".len()..]) {
            return Err(call.deny(format!("`{}` may write a file", word.text)).hint("write it before `-args`"));
        }
    }
    for word in call.operands.clone() {
        if !word.literal {
            return Err(call.deny("a word of it is not known"));
        }
        // `./...` and package names; a name with dots is a module's address.
        let path = word.text.trim_end_matches("...").trim_end_matches('/');
        if path.starts_with('.') || path.starts_with('/') {
            let path = Word::literal(if path.is_empty() { "/" } else { path });
            call.effect(Effect::List, &path);
            // What such a package holds may be printed.
            if !path.text.trim_matches(['.', '/']).is_empty() {
                call.read(&path);
            }
        } else if path.split('/').any(|part| part == "..") || path.ends_with(".go") || call.node(path)?.is_some() {
            call.read(&Word::literal(path));
        } else {
            // `MODULE/dir` is a directory of the module, whatever its name is.
            for (slash, _) in path.match_indices('/') {
                call.looks_at(&path[slash + 1..]);
            }
        }
    }
    Ok(())
}
