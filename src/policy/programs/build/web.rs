//! Tables for what tests, checks and bundles web projects, and for runners of the tasks of many projects.

use super::{Call, Dashes, Denial, GROUP, LAUNCHER, Operands, Style, TASKS, TOOL, Table, Word};
use crate::policy::programs::is_listed;

/// A tool whose words are read by yargs, minimist or the like: a letter with letters after it takes no value there.
const YARGS: Table = Table { style: Style::Last, ..TOOL };

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "playwright",
        options: "--version -V -h,--help",
        subcommands: &[Table {
            names: "test",
            options: "--project=+D -g,--grep=A --grep-invert=A --reporter={list|line|dot|json|html|junit|github|blob|null} -x --max-failures=D -j,--workers=D \
                --retries=D --repeat-each=D --shard=D --timeout=D --global-timeout=D --list --forbid-only --fully-parallel --pass-with-no-tests --quiet \
                --trace={on|off|on-first-retry|on-all-retries|retain-on-failure|retain-on-first-failure} --last-failed --only-changed=?G --output=O --headed \
                -u,--update-snapshots=?D --ignore-snapshots --no-deps --browser={chromium|firefox|webkit|all} --fail-on-flaky-tests -h,--help \
                -c,--config={playwright.config.*} !--debug !--ui !--ui-host=P !--ui-port=P !--tsconfig=R !--test-list=R",
            ..YARGS
        }],
        ..GROUP
    },
    Table {
        names: "cypress",
        options: "-v,--version -h,--help",
        subcommands: &[
            Table {
                names: "run",
                options: "-b,--browser={chrome|chromium|edge|electron|firefox} --headless --headed --e2e --component -s,--spec=X -q,--quiet --no-exit \
                    -r,--reporter={spec|dot|json|junit|list|min|nyan|progress|tap} --runner-ui --no-runner-ui --auto-cancel-after-failures=D -h,--help \
                    -C,--config-file={cypress.config.*} !--record !-k,--key=P !--parallel !--group=P !-c,--config=P !-e,--env=P \
                    !-o,--reporter-options=P !-P,--project=L !-p,--port=D !--ci-build-id=P !-t,--tag=P",
                operands: Operands::None,
                ..YARGS
            },
            Table { names: "verify version info", options: "-h,--help", operands: Operands::None, ..YARGS },
        ],
        ..GROUP
    },
    Table {
        names: "ava",
        options: "-m,--match=D -t,--tap -v,--verbose -s,--serial -c,--concurrency=D --fail-fast -T,--timeout=D -u,--update-snapshots --color --no-color \
            --no-worker-threads --version --help !--config=R !--node-arguments=P -w,--watch",
        special: Some(tests_alone),
        ..YARGS
    },
    Table {
        names: "svelte-check",
        options: "--workspace=T --output={human|human-verbose|machine|machine-verbose} --watch --preserveWatchOutput --tsconfig=R --no-tsconfig --ignore=D \
            --fail-on-warnings --compiler-warnings=D --diagnostic-sources=D --threshold={warning|error} --color --no-color --version --help",
        operands: Operands::None,
        ..YARGS
    },
    Table {
        names: "oxlint",
        options: "-A,--allow=D -W,--warn=D -D,--deny=D --fix --fix-suggestions --fix-dangerously --quiet --deny-warnings --max-warnings=D \
            -f,--format={default|checkstyle|github|gitlab|json|junit|stylish|unix} --threads=D --ignore-pattern=D --no-ignore --ignore-path=R --silent \
            --rules --type-aware --import-plugin --react-plugin --react-perf-plugin --jest-plugin --vitest-plugin --jsx-a11y-plugin --nextjs-plugin \
            --promise-plugin --node-plugin --vue-plugin --print-config --report-unused-disable-directives -V,--version -h,--help --tsconfig=R \
            -c,--config={.oxlintrc.json|.oxlintrc.jsonc|oxlintrc.json} !--init !--lsp !--js-plugin=P",
        operands: Operands::WrittenWith("--fix,--fix-suggestions,--fix-dangerously"),
        ..YARGS
    },
    Table {
        names: "knip",
        options: "-p,--production --strict -W,--workspace=D --directory=T --cache --cache-location=W --no-config-hints --no-exit-code --no-gitignore --include=D \
            --exclude=D --dependencies --exports --files --fix --fix-type=D --allow-remove-files --format --include-entry-exports --isolate-workspaces \
            -n,--no-progress --max-issues=D --memory --performance -d,--debug --tags=D --use-tsconfig-files -V,--version -h,--help \
            --reporter={symbols|compact|codeowners|json|disclosure|codeclimate|markdown|github-actions} -t,--tsConfig=R \
            -c,--config={knip.json|knip.jsonc|knip.ts|knip.js|.knip.json} !--preprocessor=P !--preprocessor-options=P !--reporter-options=P",
        operands: Operands::None,
        ..YARGS
    },
    Table {
        names: "depcheck",
        options: "--json --ignores=D --ignore-patterns=D --ignore-bin-package=?D --skip-missing=?D --oneline --quiet --version --help \
            --config={.depcheckrc|.depcheckrc.*} !--ignore-path=R !--parsers=P !--detectors=P !--specials=P",
        ..YARGS
    },
    Table { names: "tsd", options: "-t,--typings=R -f,--files=X --show-diff --version --help", ..YARGS },
    Table {
        names: "vite",
        options: "-v,--version -h,--help",
        subcommands: &[Table {
            names: "build",
            options: "-m,--mode=N --outDir=O --assetsDir=V --assetsInlineLimit=D --minify=?D --sourcemap=?D --ssr=?R --emptyOutDir=?D -l,--logLevel=D --base=D \
                --target=D -w,--watch --clearScreen=?D -d,--debug=?D --manifest=?V --ssrManifest=?V --app -h,--help \
                -c,--config={vite.config.*} !--configLoader=P !--profile !--force",
            ..YARGS
        }],
        ..GROUP
    },
    Table {
        names: "next",
        options: "-v,--version -h,--help",
        subcommands: &[
            Table {
                names: "build",
                options: "-d,--debug --profile --no-lint --no-mangling --turbo --turbopack --webpack --experimental-app-only --experimental-build-mode=N -h,--help",
                ..YARGS
            },
            Table {
                names: "lint",
                options: "-d,--dir=+L --file=+R --ext=+N --fix --quiet --strict --max-warnings=D -f,--format={stylish|compact|json|unix|junit|checkstyle|html} \
                    -o,--output-file=W --cache --no-cache --cache-location=W --error-on-unmatched-pattern --no-inline-config -h,--help \
                    -c,--config={eslint.config.*|.eslintrc|.eslintrc.*} !--resolve-plugins-relative-to=L !--rulesdir=R",
                ..YARGS
            },
            Table { names: "info typegen", options: "-h,--help", operands: Operands::None, ..YARGS },
        ],
        ..GROUP
    },
    Table {
        names: "astro",
        options: "--version --help",
        subcommands: &[Table {
            names: "check build sync",
            options: "--minimumSeverity={error|warning|hint} --minimumFailingSeverity={error|warning|hint} --preserveWatchOutput --noSync --watch --silent \
                --verbose --mode=N --outDir=O --site=D --base=D --force --devOutput --tsconfig=R --root=T --help --config={astro.config.*}",
            operands: Operands::None,
            ..YARGS
        }],
        ..GROUP
    },
    Table {
        names: "ng",
        options: "--version --help",
        subcommands: &[Table {
            names: "test build lint version",
            options: "-c,--configuration=N --watch=?D --no-watch --code-coverage=?D --no-code-coverage --coverage=?D --source-map=?D --no-source-map --progress=?D \
                --no-progress --aot=?D --optimization=?D --output-path=O --output-hashing=N --stats-json --include=X --exclude=X --fix --quiet --max-warnings=D \
                --browsers={Chrome|ChromeHeadless|ChromeHeadlessCI|ChromeHeadlessNoSandbox|Firefox|FirefoxHeadless|Edge|Safari} --silent --force --verbose \
                --format={stylish|compact|json|unix|junit|checkstyle|html} --delete-output-path=?D --base-href=D --project=N --named-chunks --help \
                --karma-config={karma.conf.*} !--main=R !--polyfills=P !--reporters=P !--ts-config=R !--runner=P !--setup-files=R !--output-file=W",
            operands: Operands::Special,
            special: Some(projects),
            ..YARGS
        }],
        ..GROUP
    },
    Table {
        names: "turbo",
        options: "~--version ~-h,--help ~--color ~--no-color !--cwd=E !--api=P !--token=P !--team=P !--login=P !--root-turbo-json=R",
        subcommands: &[
            Table { names: "run", ..TURBO },
            Table { names: "*", operands: Operands::Raw, special: Some(first_too), ..TURBO },
        ],
        ..GROUP
    },
    Table {
        names: "lerna",
        options: "~--version ~-h,--help ~--loglevel=N",
        subcommands: &[
            Table {
                names: "run",
                options: "--since=*G --scope=D --ignore=D --parallel --stream --concurrency=D --no-bail --include-dependencies --include-dependents --no-prefix \
                    --no-sort --skip-nx-cache --verbose --loglevel=N --ci --no-private -h,--help !--npm-client=P",
                ..TURBO
            },
            Table {
                names: "list ls changed la ll",
                options: "--json -a,--all -l,--long -p,--parseable --toposort --graph --since=*G --scope=D --ignore=D --no-private --loglevel=N",
                operands: Operands::None,
                ..YARGS
            },
        ],
        ..GROUP
    },
    Table {
        names: "nx",
        options: "~--version ~-h,--help",
        subcommands: &[
            Table { names: "run", special: Some(target_of_project), ..NX },
            Table { names: "exec", ..LAUNCHER },
            Table { names: "run-many affected", special: Some(targets), ..NX },
            Table {
                names: "show",
                options: "--affected --json --sep=D -t,--with-target,--withTarget=+D -p,--projects=+D --exclude=D --base=G --head=G --files=X \
                    --uncommitted --untracked --type={app|lib|e2e} --verbose -h,--help",
                operands: Operands::Special,
                special: Some(shown),
                ..NX
            },
            Table { names: "*", special: Some(own_target), ..NX },
        ],
        ..GROUP
    },
];

const TURBO: Table = Table {
    options: "-F,--filter=D --parallel --no-cache --force=?D --concurrency=D --continue=?D --dry-run=?D --dry=?D --log-order=D --output-logs=D --only --affected \
        --no-daemon --daemon --env-mode=N --cache-dir=O --log-prefix=D --summarize=?D --ui={stream|tui} --color --no-color --verbosity=D -h,--help --graph=*W \
        !--cwd=E !--api=P !--token=P !--team=P !--login=P !--root-turbo-json=R !--profile=W !--cache=P !--remote-cache-timeout=P",
    operands: Operands::Tasks("#"),
    special: Some(tasks_of_projects),
    dashes: Dashes::Passed,
    ..TASKS
};

const NX: Table = Table {
    options: "-t,--target,--targets=+D -p,--projects=+D --all --exclude=D --base=G --head=G --files=X --uncommitted --untracked --parallel=*D --maxParallel=D \
        -c,--configuration=N --skip-nx-cache --skipNxCache --verbose --output-style=D --outputStyle=D --nx-bail --nxBail --coverage=?D --codeCoverage=?D --ci \
        --watch=?D --no-watch --fix --quiet --max-warnings=D --maxWarnings=D --prod --with-deps --skip-cloud --no-cloud --batch --tui=?D --no-tui --graph=*W \
        -h,--help !--runner=P !--plugins=P",
    operands: Operands::Tasks(":"),
    style: Style::Last,
    ..TASKS
};

// `ava debug` starts an inspector, which takes code.
fn tests_alone(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.operands.iter().find(|word| matches!(word.text.as_str(), "debug" | "reset-cache")) {
        Some(word) => Err(call.code(format!("`{}` starts something else than tests", word.text))),
        None => Ok(()),
    }
}

// Names of projects; a name with a mark would choose something of them.
pub(super) fn projects(call: &mut Call<'_>) -> Result<(), Denial> {
    let plain = |word: &&Word| !word.text.chars().all(|c| c.is_alphanumeric() || "_-@/".contains(c));
    match call.operands.iter().find(plain) {
        Some(word) if !call.is_open() => Err(call.deny(format!("`{}` is not the name of a project", word.text))),
        _ => Ok(()),
    }
}

// `nx show projects --affected`.
fn shown(call: &mut Call<'_>) -> Result<(), Denial> {
    super::refuse_shell_text(call, call.words)?;
    projects(call)
}

// The names that the rule lists for tasks.
fn listed(call: &Call<'_>, tasks: &[String]) -> Result<(), Denial> {
    // Options that nx does not know itself go to the script as well.
    super::refuse_shell_text(call, call.words)?;
    if call.is_open() {
        return Ok(());
    }
    let known = call.listed.last().map(Vec::as_slice).unwrap_or_default();
    match tasks.iter().find(|task| !is_listed(known.iter().map(String::as_str), task)) {
        Some(task) => Err(call.deny(format!("the task `{task}` is not listed"))),
        None if tasks.is_empty() => Err(call.deny("no task is named")),
        None => Ok(()),
    }
}

// `turbo run test web#build`.
fn tasks_of_projects(call: &mut Call<'_>) -> Result<(), Denial> {
    let name = |word: &Word| word.text.rsplit('#').next().unwrap_or_default().to_owned();
    listed(call, &call.operands.iter().map(name).collect::<Vec<_>>())
}

// `turbo test lint`: the first word is a task as well.
fn first_too(call: &mut Call<'_>) -> Result<(), Denial> {
    let task = call.name.rsplit(' ').next().unwrap_or_default().to_owned();
    let words: Vec<Word> = call.words.iter().skip_while(|word| word.text != task).cloned().collect();
    call.apply(&TURBO, &words)
}

// `nx run web:test:ci`: project, target, configuration.
fn target_of_project(call: &mut Call<'_>) -> Result<(), Denial> {
    let [word] = call.operands.as_slice() else { return Err(call.deny("one PROJECT:TARGET is named")) };
    let target = word.text.split(':').nth(1).unwrap_or_default().to_owned();
    listed(call, &[target])
}

// `nx run-many -t test lint`, `nx affected --target=test`.
fn targets(call: &mut Call<'_>) -> Result<(), Denial> {
    projects(call)?;
    let values = call.values("-t");
    let names = values.iter().flat_map(|value| value.text.split(',')).map(|name| name.trim().to_owned());
    listed(call, &names.collect::<Vec<_>>())
}

// `nx test web`.
fn own_target(call: &mut Call<'_>) -> Result<(), Denial> {
    projects(call)?;
    listed(call, &[call.name.rsplit(' ').next().unwrap_or_default().to_owned()])
}
