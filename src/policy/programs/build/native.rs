//! Tables for make and its generators, and for the build tools of C, Zig, Swift and similar languages.

use super::{Call, Dashes, Denial, GROUP, Operands, Style, TABLE, TASKS, TOOL, Table, Word};
use crate::policy::names::{is_harmless_setting, is_switch, named, unversioned};
use crate::policy::programs::is_plain_in_shell;
use crate::policy::programs::untabled::runs_program;

const MAKE: Table = Table {
    names: "make gmake",
    options: "-j,--jobs=?D -k,--keep-going -s,--silent,--quiet ~-f,--file,--makefile=R ~-C,--directory=E !-I,--include-dir=L !!-E,--eval=D \
        ~-B,--always-make ~-n,--just-print,--dry-run,--recon ~-i,--ignore-errors !-e,--environment-overrides ~-l,--load-average=?D \
        !-o,--old-file=P !-W,--what-if=P ~-q,--question ~-r,--no-builtin-rules !-R,--no-builtin-variables !-t,--touch ~-w,--print-directory \
        ~--no-print-directory !-d !--debug=?P !-p,--print-data-base !-S,--no-keep-going ~--trace ~-O,--output-sync=?D !-L ~-v,--version ~-h,--help \
        !--warn-undefined-variables",
    operands: Operands::Tasks(""),
    writes_nothing: false,
    dash_values: true,
    special: Some(make),
    ..TABLE
};

/// Variables that a person may set for make: by custom they change what is printed.
const SHOWS: [&str; 4] = ["VERBOSE", "V", "DEBUG", "CI"];

fn make(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.values("-f").iter().any(|file| file.text == "-") {
        return Err(Denial::unanalysable("make: rules on its standard input").by("G3"));
    }
    call.only_own_file("-f", &["Makefile", "makefile", "GNUmakefile"])?;
    if let Some(word) = call.operands.iter().find(|word| !word.literal) {
        return Err(call.deny(format!("the target `{}` is not known", word.text)));
    }
    // make takes `-j 4` too: the number is then no target.
    let jobs_apart = call.found.iter().any(|found| found.name == "-j" && found.value.is_none());
    let mut targets = Vec::new();
    for word in call.operands.clone() {
        match word.text.split_once('=') {
            Some((name, value)) => assigned(call, name, value)?,
            None if jobs_apart && !word.text.is_empty() && word.text.bytes().all(|b| b.is_ascii_digit()) => {}
            None => targets.push(word),
        }
    }
    // A recipe may put the name of its target into a line of a shell.
    if let Some(word) = targets.iter().find(|word| !word.text.chars().all(is_plain_in_shell)) {
        return Err(call.code(format!("the target `{}` may be code or a command", word.text)));
    }
    call.tasks("", &targets)
}

/// Variables that name programs, in the rules that make has itself or as everybody calls them.
const PROGRAMS: &str = "AR AS AWK BASH CC CO CPP CTANGLE CURL CXX CWEAVE DOCKER ECHO F77 FC GET GIT GO GREP INSTALL \
    INSTALL_DATA INSTALL_PROGRAM LD LEX LINT M2C MAKE MAKEINFO MKDIR MV CP NM NODE NPM OBJC OBJCOPY OBJDUMP PC PERL PYTHON PYTHON3 RANLIB RM \
    SED SH STRIP SUDO TANGLE TAR TEX TEXI2DVI WEAVE WGET YACC";

/// Tools that these may name: compilers and their kin, with a version perhaps.
const COMPILERS: &str = "cc gcc g++ c++ clang clang++ tcc cpp clang-cpp ld lld ld.lld ld.gold mold ar llvm-ar gcc-ar as nm llvm-nm \
    ranlib llvm-ranlib strip llvm-strip objcopy llvm-objcopy objdump gfortran flang python python3 true false :";

// A value that is put into the lines of a shell: where rules deny programs, it may name one of them.
fn assigned(call: &Call<'_>, name: &str, value: &str) -> Result<(), Denial> {
    if !call.is_open() {
        let plain = value.chars().all(|c| c.is_ascii_alphanumeric());
        let shows = call.everyday && SHOWS.contains(&name) && plain;
        return if shows { Ok(()) } else { Err(call.deny(format!("the assignment `{name}={value}`"))) };
    }
    let name = name.trim_end_matches([':', '+', '?', '!']);
    let reads = ["SHELL", "MAKEFLAGS", "GNUMAKEFLAGS", "MAKEFILES"].contains(&name) || name.contains('.');
    let special = |c: char| ";&|<>()$`\"'\\#{}*?!~[]".contains(c) || c.is_control();
    let hides = if named(PROGRAMS, name) {
        let known = value.trim_end_matches(|c: char| c.is_ascii_digit() || "-.".contains(c));
        // `aarch64-linux-gnu-gcc` is one for another machine.
        let plain = known.rsplit_once("-gnu-").map_or(known, |(_, name)| name);
        !named(COMPILERS, plain)
    } else if name.ends_with("FLAGS") {
        value.split(' ').any(|word| runs_program("", word))
    } else {
        value.contains(char::is_whitespace)
    };
    if reads || hides || value.contains(special) {
        let denial = Denial::unanalysable(format!("make: the assignment `{name}={value}` may name a program")).by("G3");
        return Err(denial.hint("set it in the makefile"));
    }
    Ok(())
}

/// What `cmake --build DIR --` passes on to make or ninja.
const TO_MAKE: Table = Table {
    options: "-j,--jobs=?D -k=?D -s,--silent,--quiet -v,--verbose -d=N --no-print-directory -l=D",
    operands: Operands::Special,
    writes_nothing: false,
    special: Some(to_make),
    ..TABLE
};

fn to_make(call: &mut Call<'_>) -> Result<(), Denial> {
    let words: Vec<Word> = call.operands.drain(..).collect();
    for word in &words {
        match word.text.split_once('=') {
            Some((name, value)) => assigned(call, name, value)?,
            None if word.text.bytes().all(|b| b.is_ascii_digit()) => {}
            None => built(call, &word.text)?,
        }
    }
    Ok(())
}

fn cmake(call: &mut Call<'_>) -> Result<(), Denial> {
    for target in call.values("-t") {
        built(call, &target.text)?;
    }
    for word in call.values("-D") {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let name = name.split(':').next().unwrap_or_default();
        let known = super::super::is_listed(CMAKE_VARIABLES.split_whitespace(), name)
            || OF_PROJECTS.iter().any(|start| name.starts_with(start))
                && !name.to_ascii_lowercase().split(['_', '.', '-']).any(|word| named(OF_PROGRAMS, word));
        let names_more = value.starts_with(['.', '~']) || value.contains(['/', '$', ';', '"', '`', ' ', '@']);
        let is_harmless = is_switch(name, value) || known && !names_more || names_compiler(name, value);
        if !call.is_open() && !is_harmless {
            return Err(call.deny(format!("the variable `{}` is not known to be harmless", word.text)));
        }
        // A list is a program and its words.
        let starts = ["COMPILER", "PROGRAM", "COMMAND", "EXECUTABLE", "LINKER"].iter().any(|end| name.ends_with(end));
        let launches = name.contains("LAUNCH") && !["", "ccache", "sccache", "distcc", "icecc"].contains(&value);
        if call.is_open() && (launches || starts && value.contains([';', ' '])) {
            return Err(call.code(format!("`{}` may be a command", word.text)));
        }
    }
    for word in call.operands.clone() {
        call.read(&word);
    }
    Ok(())
}

// `CMAKE_C_COMPILER=clang-17`, `CMAKE_CXX_FLAGS=-Wall -g`: a compiler of the PATH, and options of it that load nothing.
fn names_compiler(name: &str, value: &str) -> bool {
    let is_flag = |word: &str| !word.starts_with("-Wl,") && super::compilers::is_flag(word);
    match name {
        "CMAKE_C_COMPILER" | "CMAKE_CXX_COMPILER" => named("cc c++ gcc g++ clang clang++", unversioned(value)),
        "CMAKE_C_FLAGS" | "CMAKE_CXX_FLAGS" | "CMAKE_EXE_LINKER_FLAGS" => value.split_whitespace().all(is_flag),
        _ => false,
    }
}

/// Variables of CMake that choose how much is built, and how it is optimised.
const CMAKE_VARIABLES: &str = "CMAKE_BUILD_TYPE CMAKE_EXPORT_COMPILE_COMMANDS CMAKE_CXX_STANDARD CMAKE_C_STANDARD CMAKE_VERBOSE_MAKEFILE \
    CMAKE_UNITY_BUILD CMAKE_POSITION_INDEPENDENT_CODE CMAKE_COLOR_DIAGNOSTICS CMAKE_COMPILE_WARNING_AS_ERROR \
    CMAKE_CXX_STANDARD_REQUIRED CMAKE_C_STANDARD_REQUIRED CMAKE_CXX_EXTENSIONS CMAKE_C_EXTENSIONS CMAKE_INTERPROCEDURAL_OPTIMIZATION \
    CMAKE_POLICY_VERSION_MINIMUM CMAKE_OSX_ARCHITECTURES CMAKE_OSX_DEPLOYMENT_TARGET CMAKE_DISABLE_PRECOMPILE_HEADERS \
    CMAKE_DEBUG_POSTFIX CMAKE_CUDA_ARCHITECTURES VCPKG_TARGET_TRIPLET SANITIZE SANITIZER LLVM_TARGETS_TO_BUILD";

/// How variables begin by which projects choose what they build.
const OF_PROJECTS: [&str; 4] = ["BUILD_", "ENABLE_", "WITH_", "USE_"];

/// Words in the names of variables that hold a program or its words.
const OF_PROGRAMS: &str = "arg args cmd command commands compiler exec executable executables flag flags launch launcher linker plugin \
    plugins program programs script scripts shell tool toolchain";

// A target of a tool that runs the project's rules, whatever they say: installing leaves the workspace.
fn built(call: &Call<'_>, target: &str) -> Result<(), Denial> {
    let listed =
        ["all", "test", "tests", "check", "clean", "lint", "format", "docs", "help", "clang-tidy", "clang-format"];
    if call.is_open()
        || listed.contains(&target)
        || !["install", "uninstall", "package", "deploy", "publish", "upload"].iter().any(|word| target.contains(word))
            && target.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c))
    {
        return Ok(());
    }
    Err(call.deny(format!("the target `{target}` is not listed")))
}

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "stack cabal",
        options: "~--version ~-h,--help ~-v ~--silent ~--no-terminal",
        subcommands: &[Table {
            names: "build test check",
            options: "--fast --pedantic --test --no-run-tests --coverage --bench -j,--jobs=D -v=?D --enable-tests --enable-coverage --test-show-details=D --ta=D --test-arguments=D -O0 -O1 -O2 -w={ghc|ghc-*} --offline --dry-run --only-dependencies --haddock --enable-benchmarks --disable-benchmarks --ghc-options={-Wall|-Werror|-O0|-O2|-Wall*} !--ghc-options=P !--with-compiler=P !--stack-yaml=R !--project-file=R !$--exec=P !--package-db=L !--extra-lib-dirs=L !--build-tool-depends=P !--custom-preprocessor-extensions=P",
            special: Some(haskell),
            ..TOOL
        }],
        ..GROUP
    },
    MAKE,
    Table {
        names: "ctest",
        options: "-j,--parallel=*D -R,--tests-regex=D -E,--exclude-regex=D -L,--label-regex=D -LE,--label-exclude=D -I,--tests-information=D -V,--verbose -VV,--extra-verbose \
            --output-on-failure -N,--show-only=?D -Q,--quiet --rerun-failed --repeat=D --timeout=D --test-dir=I --stop-on-failure --progress -C,--build-config=D \
            --no-tests=D --schedule-random --output-junit=W --preset=D --list-presets --version --help --print-labels -F --no-label-summary \
            --test-load=D -j1 -j2 -j4 -j8 -j16 -j32 !$-S=R !$-SP=R !-D=P !-M=P !-T=P !-O,--output-log=W !$--build-and-test=P !$--build-makeprogram=P !$--test-command=>",
        operands: Operands::Special,
        style: Style::SingleDash,
        writes_nothing: false,
        special: Some(only_numbers),
        ..TABLE
    },
    Table {
        names: "cmake",
        options: "--build=*I -S=R -B=I -j,--parallel=*D --config=D -t,--target=+D --clean-first --fresh -v,--verbose -G=N --preset=D \
            --list-presets --workflow -N -L -LA -LAH -Wno-dev -Wdev -Werror=dev -Wno-error=dev -Wno-deprecated --version --help --log-level=D --warn-uninitialized -D=D \
            !--install=I !--prefix=O !--component=P !-C=R !-P=R !-E=>S !-U=P !--toolchain=R !--open=I !--find-package !--debugger !--trace-source=R !--graphviz=W !-A=P !-T=P",
        operands: Operands::Special,
        style: Style::Whole,
        writes_nothing: false,
        special: Some(cmake),
        dashes: Dashes::Table(&TO_MAKE),
        ..TABLE
    },
    Table {
        names: "ninja ninja-build samu",
        options: "-C=E -j=D -k=D -l=D -n -v,--verbose --quiet --version -h,--help -d={stats|explain|keepdepfile} -t={targets|commands|deps|query|rules|compdb|graph|missingdeps} !-f=R !-w=P",
        special: Some(ninja),
        ..TASKS
    },
    Table {
        names: "meson",
        options: "-h,--help -v,--version",
        subcommands: &[
            Table {
                names: "setup",
                options: "--buildtype=D -Doptimization=D -Dbuildtype=D -Dwarning_level=D -Dwerror=D -Db_coverage=D -Db_lto=D -Db_sanitize={none|address|undefined|thread|leak|memory} -Ddefault_library={shared|static|both} \
                    -Dc_std={none|c89|c99|c11|c17|c18|c23|gnu89|gnu99|gnu11|gnu17|gnu18|gnu23} -Dcpp_std={none|c++11|c++14|c++17|c++20|c++23|c++26|gnu++11|gnu++14|gnu++17|gnu++20|gnu++23|gnu++26} -Dtests=D -Ddocs=D --reconfigure --wipe --wrap-mode={default|nofallback|nodownload|forcefallback|nopromote} -h,--help --werror --warnlevel=D \
                    --debug --optimization=D -D=B !--native-file=R !--cross-file=R !--prefix=P",
                operands: Operands::Special,
                style: Style::SingleDash,
                special: Some(own_folders),
                ..TOOL
            },
            Table {
                names: "compile",
                options: "-C=E -j,--jobs=D -l=D -v,--verbose --clean -h,--help !--ninja-args=P !--vs-args=P !--xcode-args=P",
                operands: Operands::Special,
                special: Some(targets),
                ..TOOL
            },
            Table {
                names: "test",
                options: "-C=E --suite=D --no-suite=D -v,--verbose -q,--quiet --no-rebuild --repeat=D --print-errorlogs --num-processes=D -j=D -t,--timeout-multiplier=D --list \
                    --benchmark --maxfail=D --no-stdsplit --logbase=N -h,--help !$--wrapper=P !--gdb !$--gdb-path=P !--setup=P !--test-args=P",
                operands: Operands::Data,
                ..TOOL
            },
            Table {
                names: "introspect",
                options: "-a,--all -i,--indent --targets --tests --buildoptions --dependencies --projectinfo -f --installed",
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "bazel bazelisk",
        options: "~--nohome_rc ~--noworkspace_rc ~--version !--bazelrc=R !--output_base=O !--output_user_root=O !--host_jvm_args=P !--server_javabase=P !--max_idle_secs=P",
        style: Style::Whole,
        subcommands: &[Table {
            names: "build test query cquery info version clean coverage",
            options: "--config=N -c,--compilation_mode=D --test_output=D --test_filter=D --test_tag_filters=D --build_tag_filters=D --test_size_filters=D --test_summary=D --test_timeout=D -k,--keep_going \
                --nokeep_going -j,--jobs=D --verbose_failures -s,--subcommands --cache_test_results=D --nocache_test_results --runs_per_test=D --test_env=D --output=D --show_progress \
                --noshow_progress --color=D --curses=D --flaky_test_attempts=D --build_tests_only --announce_rc --show_result=D --ui_event_filters=D --test_arg=D --nobuild --instrumentation_filter=D \
                --combined_report=D --local_test_jobs=D --features=D --expunge \
                !$--run_under=P !$--workspace_status_command=P !--action_env=P !--define=P !--override_repository=P !--spawn_strategy=P !--strategy=P !--sandbox_writable_path=P !--crosstool_top=P !--symlink_prefix=P !--remote_cache=P !--bes_backend=P",
            operands: Operands::Special,
            special: Some(labels),
            dashes: Dashes::Passed,
            ..TOOL
        }],
        ..GROUP
    },
    Table {
        names: "zig",
        options: "",
        subcommands: &[
            Table {
                names: "build",
                options: "--summary=D -Doptimize=D -Dtarget=N -j=D -fincremental -freference-trace --verbose -h,--help -l,--list-steps --release=?D --color=D -Dtest-filter=D --prominent-compile-errors \
                    -j1 -j2 -j4 -j8 !-D=P !--prefix=O !-p=O !--build-file=R !--zig-lib-dir=R !--global-cache-dir=O !--cache-dir=I !--build-runner=R !--search-prefix=L !--libc=R",
                operands: Operands::Special,
                style: Style::SingleDash,
                special: Some(steps),
                dashes: Dashes::Passed,
                ..TOOL
            },
            Table {
                names: "test build-exe build-lib build-obj ast-check",
                options: "-O=D -OReleaseSafe -OReleaseFast -ODebug --test-filter=D -fsummary --name=N -target=N -lc -freference-trace --color=D -t \
                    !-I=P !-L=P !-l=P !$--test-cmd=P !--test-cmd-bin !--mod=P !--dep=P !--main-mod-path=L !-femit-bin=W !--zig-lib-dir=R",
                style: Style::SingleDash,
                ..TOOL
            },
            Table {
                names: "fmt",
                options: "--check --ast-check --color=D --exclude=R",
                operands: Operands::WrittenWithout("--check"),
                ..TOOL
            },
            Table { names: "version env targets zen", operands: Operands::None, ..TABLE },
        ],
        ..GROUP
    },
    Table {
        names: "swift",
        options: "--version -h,--help !$-e=D",
        subcommands: &[
            Table {
                names: "build test package",
                options: "-c,--configuration=D -v,--verbose --very-verbose -q,--quiet --filter=D --skip=D --parallel --num-workers=D --enable-code-coverage --list-tests -l --target=N --product=N --build-tests \
                    --skip-build -j,--jobs=D --enable-test-discovery --show-bin-path --xunit-output=W --skip-update --disable-automatic-resolution --explicit-target-dependency-import-check=D --enable-swift-testing \
                    --enable-xctest --disable-xctest --sanitize=D \
                    !--package-path=I !--chdir=E !--scratch-path=I !--build-path=I !-Xswiftc=P !-Xcc=P !-Xcxx=P !-Xlinker=P !--toolchain=P !--swift-sdk=P !--destination=R !--sdk=P !--triple=P !--disable-sandbox !--cache-path=O !--config-path=R",
                operands: Operands::Special,
                special: Some(swift),
                ..TOOL
            },
            Table {
                names: "format",
                options: "-r,--recursive -i,--in-place -p,--parallel -s,--strict !--configuration=R",
                operands: Operands::WrittenWith("-i"),
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "swiftlint swiftformat",
        options: "--strict --quiet --lint --fix --format --reporter={xcode|json|csv|checkstyle|github-actions-logging|emoji|markdown|sarif|summary} --autocorrect --lenient --swiftversion=D --verbose \
            --no-cache --dryrun --disable=D --enable=D --rules=D --exclude=D !--config=R !--output=W !--cache=P",
        operands: Operands::Special,
        special: Some(after_lint),
        ..TOOL
    },
    Table {
        names: "clang-format",
        options: "-i -n,--dry-run --Werror,-Werror --style={file|llvm|LLVM|google|Google|chromium|mozilla|webkit|WebKit|microsoft|gnu|GNU} -style={file|llvm|LLVM|google|Google|chromium|mozilla|webkit|WebKit|gnu|GNU} --verbose --version --sort-includes=?D --fallback-style=D --lines=D --assume-filename=D !--files=F",
        operands: Operands::WrittenWith("-i"),
        style: Style::SingleDash,
        ..TOOL
    },
    Table {
        names: "cppcheck",
        options: "--enable=D --disable=D --std=D --error-exitcode=D --suppress=D --inline-suppr -q,--quiet -j=D -f,--force --xml --xml-version=D --output-file=W \
            --template={gcc|vs|cppcheck1|edit} --platform={unix32|unix64|win32A|win32W|win64|native|unspecified} --language=D -x=D -I=V -i=V -D=D -U=D --max-configs=D \
            --inconclusive --check-level=D --safety --report-progress --verbose -v --version -h,--help --project={compile_commands.json} --suppressions-list=R --cppcheck-build-dir=O \
            !--addon=P !--addon-python=P !--clang=?P !--library=P !--config-exclude=L !--file-list=F !--includes-file=F !--rule=P !--rule-file=R !--plist-output=O",
        ..TOOL
    },
    Table {
        names: "gcovr",
        options: "-r,--root={.} -e,--exclude=D -f,--filter=D --xml=*W --json=*W --html=*W --html-details=*W --lcov=*W --sonarqube=*W --cobertura=*W --txt=*W --csv=*W -o,--output=W -s,--print-summary \
            --fail-under-line=D --fail-under-branch=D --exclude-unreachable-branches --exclude-throw-branches -j=D -v,--verbose --version -h,--help --branches \
            --object-directory=L !--gcov-executable=P !--config=R !-g,--use-gcov-files !-k,--keep",
        ..TOOL
    },
    Table { names: "nproc", options: "--all --ignore=D --version --help", operands: Operands::None, ..TABLE },
];

fn haskell(call: &mut Call<'_>) -> Result<(), Denial> {
    for value in call.values("--ta").into_iter().chain(call.values("--test-arguments")) {
        let words: Vec<Word> = value.text.split_whitespace().map(Word::literal).collect();
        call.all_passed(&words)?;
    }
    super::scripts::names_installed(call, "-w")
}

fn ninja(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.operands.iter().find(|word| word.text.contains('=')) {
        Some(word) => Err(call.deny(format!("the assignment `{}`", word.text))),
        None => call.tasks("", &call.operands.clone()),
    }
}

// `-I 1,10,2` chooses tests by their numbers; another word is a file in which these are.
fn only_numbers(call: &mut Call<'_>) -> Result<(), Denial> {
    let is_file = |word: &Word| word.text.contains(|c: char| !c.is_ascii_digit() && c != ',');
    call.values("-I").into_iter().filter(is_file).for_each(|word| call.read(&word));
    match call.operands.iter().find(|word| word.text.is_empty() || !word.text.bytes().all(|b| b.is_ascii_digit())) {
        Some(word) if !call.is_open() => Err(call.deny(format!("takes no operand such as `{}`", word.text))),
        _ => Ok(()),
    }
}

fn targets(call: &mut Call<'_>) -> Result<(), Denial> {
    let targets: Vec<Word> = call.operands.clone();
    targets.iter().try_for_each(|word| built(call, &word.text))
}

fn own_folders(call: &mut Call<'_>) -> Result<(), Denial> {
    call.operands.clone().iter().try_for_each(|word| call.own_folder(word))
}

fn steps(call: &mut Call<'_>) -> Result<(), Denial> {
    let listed = ["test", "check", "fmt", "docs", "build", "lint", "bench", "unit", "integration"];
    match call
        .operands
        .iter()
        .find(|word| !listed.iter().any(|name| word.text == *name || word.text.starts_with(&format!("{name}-"))))
    {
        Some(word) if !call.is_open() => Err(call.deny(format!("the step `{}` is not listed", word.text))),
        _ => Ok(()),
    }
}

fn swift(call: &mut Call<'_>) -> Result<(), Denial> {
    let listed = ["describe", "dump-package", "show-dependencies", "clean", "resolve", "tools-version"];
    let package = call.name.ends_with(" package");
    match call.operands.iter().find(|word| !package || !listed.contains(&word.text.as_str())) {
        Some(word) if !call.is_open() => Err(call.deny(format!("takes no operand such as `{}`", word.text))),
        _ => Ok(()),
    }
}

fn after_lint(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    let skipped =
        usize::from(words.first().is_some_and(|word| matches!(word.text.as_str(), "lint" | "format" | "analyze")));
    let looks = ["--lint", "--dryrun"].iter().any(|option| call.has(option));
    let changes = ["--fix", "--autocorrect", "--format"].iter().any(|option| call.has(option));
    let writes = changes || call.name == "swiftformat" && !looks;
    words.iter().skip(skipped).try_for_each(|word| call.formatted(word, writes))
}

// Labels of Bazel are no paths: `//pkg:target` is of this workspace, `@repo//pkg` of one that it names.
fn labels(call: &mut Call<'_>) -> Result<(), Denial> {
    // As before a command: most variables could name code that the tests load.
    let sets = |word: &&Word| word.text.split_once('=').is_some_and(|(name, value)| !is_harmless_setting(name, value));
    if let Some(word) = call.values("--test_env").iter().find(sets).filter(|_| !call.is_open()) {
        return Err(call.deny(format!("the variable `{}` is not known to be harmless", word.text)));
    }
    let climbs = |word: &&Word| {
        !word.literal
            || word.text.contains("..") && !word.text.contains("...")
            || word.text.starts_with('/') && !word.text.starts_with("//")
    };
    let passed = call.values("--test_arg");
    call.all_passed(&passed)?;
    match call.operands.iter().find(climbs) {
        Some(word) => Err(call.deny(format!("`{}` is not a label of the workspace", word.text))),
        None => Ok(()),
    }
}
