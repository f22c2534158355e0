//! Tables for the tools of JavaScript and TypeScript.

use super::{Call, Dashes, Denial, GROUP, LAUNCHER, Operands, Style, TABLE, TOOL, Table, Word};
use crate::path::{Node, RelPath};
use crate::policy::launchers::chooses_packages;
use crate::policy::names::{base_name, named};
use crate::policy::programs::interpreters::reads_code;
use crate::policy::programs::specs::arity;

// Without `--ci`, which npm completes to `--cidr`: that takes the next word.
macro_rules! npm_options {
    () => {
        "~-s,--silent ~-q,--quiet ~-d ~-dd ~--verbose ~--loglevel=N ~--if-present ~-w,--workspace=L ~-ws,--workspaces ~-iwr,--include-workspace-root ~--prefix=E ~-C=E \
        ~--no-color ~--color=?D ~--ignore-scripts ~--foreground-scripts ~--no-audit ~--no-fund ~--offline ~--prefer-offline ~--no-update-notifier ~--no-progress \
        ~--progress=?D ~--coverage ~--watch=?D ~--watchAll=?D ~--runInBand ~--json ~--long ~--all ~--depth=D ~--omit=D ~--audit-level=N ~--production ~--prod ~--dry-run ~--list ~--no-save ~--yes ~-y ~--no-install ~--no \
        --pack-destination=O !--script-shell=P !--shell=P !--node-options=P !--userconfig=R !--globalconfig=R !--cache=O !--registry=P !--init-module=R !-g,--global !--package=P !-c,--call=P"
    };
}

/// A script of the project; words after its name are npm's until `--`.
const SCRIPT: Table = Table {
    options: npm_options!(),
    operands: Operands::Script,
    style: Style::SingleDash,
    writes_nothing: false,
    dashes: Dashes::Passed,
    ..TABLE
};

/// A tool whose words are read by yargs, minimist or the like: a letter with letters after it takes no value there.
const YARGS: Table = Table { style: Style::Last, ..TOOL };

/// What npm, pnpm and yarn do besides running scripts; `builtin:ci-dev` lists what only looks.
const OTHERS: &str = "ls list ll la outdated why explain version view info audit ci install i in ins inst insta instal isnt isnta isntal isntall add remove rm r un unlink uninstall publish pack \
    init create link ln login logout adduser add-user owner author config c get set prefix root bin cache fund doctor ping query licenses constraints explore rebuild rb dedupe ddp prune update up upgrade udpate \
    deprecate undeprecate unpublish access team token org hook profile star stars unstar search find s se shrinkwrap sbom stage trust diff dist-tag dist-tags edit docs home bugs issues repo help completion \
    install-test it install-ci-test cit ic clean-install clean-install-test set-script import patch store server deploy setup env dlx plugin policies";

const OTHER: Table = Table {
    names: OTHERS,
    options: npm_options!(),
    operands: Operands::Special,
    style: Style::SingleDash,
    special: Some(other),
    ..SCRIPT
};

/// Scripts by the subcommands that are named as they are.
const BY_NAME: &str = "test t tst start stop restart";

const YARN: Table = Table { style: Style::First, ..SCRIPT };

const DENO: &str = "-A,--allow-all -R,--allow-read=?D -W,--allow-write=?D -N,--allow-net=?D -E,--allow-env=?D -S,--allow-sys=?D --allow-run=?D --allow-ffi=?D --allow-hrtime --no-prompt -P,--permission-set=?N \
    --check --no-check=?D --coverage=?I --filter=D --fail-fast=?D --parallel -q,--quiet --doc --junit-path=W --reporter={pretty|dot|junit|tap} --shuffle=?D --no-run --trace-leaks --trace-ops \
    --permit-no-files --ignore=?D --clean --all --json --rules --rules-tags=?D --rules-include=?D --rules-exclude=?D --fix --ext=D --line-width=D --indent-width=D --single-quote --no-semicolons \
    --use-tabs --prose-wrap=D --options-line-width=D --unstable --unstable-kv --unstable-sloppy-imports --unstable-net --unstable-temporal --node-modules-dir=?D --cached-only --frozen=?D --hide-stacktraces \
    --allow-import=?D --no-lock --no-remote --no-npm --compact --private --html --lint --sourcemap --recursive \
    !-c,--config=R !--import-map=R !--cert=R !--lock=R !-r,--reload=?P !--preload=R !--env-file=?R !--location=P !--v8-flags=P !--inspect=?P !--output=O";

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "npm",
        options: npm_options!(),
        style: Style::SingleDash,
        writes_nothing: false,
        subcommands: &[
            Table { names: "run run-script rum urn", ..SCRIPT },
            Table { names: BY_NAME, operands: Operands::Special, special: Some(passes_all), ..SCRIPT },
            Table { names: "exec x", special: Some(npm_exec), options: EXEC, ..LAUNCHER },
            OTHER,
            Table { names: "pkg", operands: Operands::Special, special: Some(package), ..SCRIPT },
        ],
        ..GROUP
    },
    Table {
        names: "pnpm",
        options: "~-r,--recursive ~--filter=H ~-F=H ~-w,--workspace-root ~-C,--dir=E ~--silent ~-s ~--parallel ~--stream ~--if-present ~--no-bail ~--reporter={default|silent|append-only|ndjson} ~--offline \
            ~--aggregate-output ~--workspace-concurrency=D ~--sequential ~--no-sort ~--color ~--no-color ~--loglevel=N !--shell-emulator !--script-shell=P !--ignore-workspace !-g,--global",
        style: Style::Whole,
        subcommands: &[
            Table { names: "run run-script", options: PNPM_RUN, special: Some(run), ..YARN },
            // Of these it reads the options behind the name itself.
            Table {
                names: "test t tst start stop restart",
                options: PNPM_TEST,
                operands: Operands::Special,
                style: Style::Whole,
                special: Some(passes_all),
                ..SCRIPT
            },
            Table { names: "exec", special: Some(installed), options: PNPM_RUN, ..LAUNCHER },
            Table { options: concat!(npm_options!(), " ~-r,--recursive"), ..OTHER },
            Table { names: "*", operands: Operands::Raw, special: Some(script_or_tool), ..YARN },
        ],
        ..GROUP
    },
    Table {
        names: "yarn yarnpkg",
        options: "~-s,--silent ~--cwd=E ~--offline ~--no-progress ~--non-interactive ~--json ~--frozen-lockfile !--use-yarnrc=R !--script-shell=P !--global-folder=O",
        style: Style::Whole,
        subcommands: &[
            Table {
                names: "run",
                special: Some(run),
                options: "~-s,--silent ~--list ~-T,--top-level ~-B,--binaries-only !--inspect=?P !--require=R",
                ..YARN
            },
            Table { names: "exec", special: Some(installed), options: "", ..LAUNCHER },
            Table { names: "workspace", operands: Operands::Special, special: Some(workspace), ..YARN },
            Table { names: "workspaces", operands: Operands::Special, special: Some(workspaces), ..YARN },
            OTHER,
            Table { names: "*", operands: Operands::Raw, special: Some(script_or_tool), ..YARN },
        ],
        ..GROUP
    },
    Table { names: "npx pnpx bunx", options: EXEC, special: Some(installed), ..LAUNCHER },
    Table {
        names: "bun",
        options: "~--silent ~--cwd=E ~-b,--bun ~-v,--version !--preload=R !-r=R !-c,--config=R !-e,--eval=P !-p,--print=P !--env-file=R !--inspect=?P !--define=P !--loader=P",
        style: Style::Whole,
        subcommands: &[
            Table {
                names: "test",
                options: "--coverage --coverage-reporter={text|lcov} --coverage-dir=O -t,--test-name-pattern=D --bail=?D --timeout=D --rerun-each=D --only --todo -u,--update-snapshots --watch \
                    --concurrent --max-concurrency=D --randomize --seed=D --reporter={junit|dots} --reporter-outfile=W --pass-with-no-tests --only-failures --silent --smol \
                    !--preload=R !-r=R !-c,--config=R !--env-file=R !--define=P !--loader=P",
                ..TOOL
            },
            Table {
                names: "run",
                special: Some(run),
                options: "~-s,--silent ~-b,--bun ~--if-present ~--filter=H ~-F=H !--preload=R !-r=R !-c,--config=R",
                ..YARN
            },
            Table { names: "x", special: Some(installed), options: EXEC, ..LAUNCHER },
            Table { names: "exec", operands: Operands::Raw, special: Some(shell_text), ..YARN },
            Table {
                names: "build",
                options: "--outdir=O --outfile=W --target={browser|bun|node} --format={esm|cjs|iife} --minify --minify-syntax --minify-whitespace --minify-identifiers --sourcemap=?D \
                    --splitting --production --packages={bundle|external} --external=D --watch --no-clear-screen --bytecode --root=L --public-path=D --entry-naming=D --chunk-naming=D --asset-naming=D \
                    !--compile !--plugin=P !--define=P !--loader=P !--env=P !--banner=P !--footer=P !--preload=R !--config=R",
                ..TOOL
            },
            OTHER,
            Table { names: "*", operands: Operands::Raw, special: Some(script_or_tool), ..YARN },
        ],
        ..GROUP
    },
    Table {
        names: "deno",
        options: "~-V,--version ~-h,--help ~-q,--quiet",
        style: Style::Whole,
        subcommands: &[
            Table {
                names: "test check lint bench doc info",
                options: DENO,
                operands: Operands::WrittenWith("--fix"),
                dashes: Dashes::Passed,
                ..TOOL
            },
            Table {
                names: "fmt",
                options: DENO,
                operands: Operands::WrittenWithout("--check"),
                dashes: Dashes::Passed,
                ..TOOL
            },
            Table {
                names: "task",
                options: "~-q,--quiet ~-r,--recursive ~-f,--filter=D !-c,--config=R !--cwd=E !--eval",
                operands: Operands::Script,
                ..YARN
            },
        ],
        ..GROUP
    },
    Table {
        names: "node nodejs",
        options: "-c,--check --test --test-name-pattern=D --test-skip-pattern=D --test-only --test-reporter={spec|tap|dot|junit|lcov} --test-concurrency=D --test-timeout=D --test-shard=D \
            --experimental-test-coverage --test-coverage-* --enable-source-maps --trace-warnings --no-warnings --throw-deprecation --trace-deprecation --test-force-exit --experimental-strip-types --experimental-vm-modules --max-old-space-size=D \
            -r,--require={ts-node/register|ts-node/register/transpile-only|ts-node/register/files|tsx|tsx/cjs|esm|esbuild-register|@babel/register|@swc/register|@swc-node/register|source-map-support/register|tsconfig-paths/register} --import={tsx|tsx/esm|ts-node/esm|ts-node/register|@swc-node/register/esm-register} !--loader=R !--experimental-loader=R !-e,--eval=P !-p,--print=P !--env-file=R !--inspect=?P !--test-reporter-destination=W !-C,--conditions=P",
        operands: Operands::Special,
        style: Style::First,
        special: Some(node_test),
        ..TOOL
    },
    Table {
        names: "tsc vue-tsc",
        options: "--noEmit,--noemit -p,--project=R -b,--build --watch=?D --pretty=?D --strict=?D --skipLibCheck=?D --incremental=?D --listFiles --listEmittedFiles --noUnusedLocals --noUnusedParameters --traceResolution \
            --diagnostics --extendedDiagnostics -v,--version,--verbose -h,--help --showConfig --force,-f --dry,-d --clean --declaration=?D --emitDeclarationOnly --noErrorTruncation --explainFiles --jsx=D -t,--target=D -m,--module=D \
            --moduleResolution=D --esModuleInterop --allowJs --checkJs --noImplicitAny --strictNullChecks --lib=D --types=V --isolatedModules --resolveJsonModule --sourceMap --removeComments --preserveWatchOutput --assumeChangesOnlyAffectDirectDependencies \
            --all --init=? --composite --noEmitOnError --stopBuildOnErrors --noCheck --singleThreaded --downlevelIteration --experimentalDecorators --forceConsistentCasingInFileNames --tsBuildInfoFile=W --outDir,--outdir=O --declarationDir=O --outFile=W --generateTrace=O --generateCpuProfile=W --rootDir=L --baseUrl=L \
            !--plugins=P !--typeRoots=L !--locale=N",
        style: Style::SingleDash,
        ..TOOL
    },
    Table {
        names: "eslint eslint_d",
        options: "--fix --fix-dry-run --fix-type=D --quiet --max-warnings=D --ext={js|jsx|cjs|mjs|ts|tsx|cts|mts|vue|svelte|astro|json|md|html|css|scss|less|.js|.jsx|.cjs|.mjs|.ts|.tsx|.cts|.mts|.vue|.svelte|.astro|.json|.md|.html|.css|.scss|.less} --cache --cache-strategy=D --color --no-color -f,--format={stylish|compact|json|unix|visualstudio|junit|checkstyle|html|tap|codeframe|json-with-metadata|jslint-xml} \
            --report-unused-disable-directives --report-unused-disable-directives-severity=D --no-eslintrc --no-ignore --ignore-pattern=D --no-error-on-unmatched-pattern --rule=D --env=N --debug -v,--version -h,--help --stats \
            --no-warn-ignored --pass-on-no-patterns --exit-on-fatal-error --no-inline-config --concurrency=D --print-config=R --flag=D --suppress-all --pass-on-unpruned-suppressions --stdin --stdin-filename=L --no-cache --ignore-path=R --global=D --parser-options={ecmaVersion:*|sourceType:*|ecmaFeatures.*|project:*} \
            -o,--output-file=W --cache-location=W --cache-file=W \
            -c,--config={eslint.config.*|.eslintrc|.eslintrc.*} !--plugin=P !--parser=P !--rulesdir=R !--resolve-plugins-relative-to=L !--init !--inspect-config !--no-config-lookup",
        operands: Operands::WrittenWith("--fix"),
        special: Some(eslint),
        ..YARGS
    },
    Table {
        names: "prettier",
        options: "-c,--check -w,--write -l,--list-different -u,--ignore-unknown --no-error-on-unmatched-pattern --log-level=N --loglevel=N --cache --no-cache --cache-strategy=D --color --no-color --no-config --no-editorconfig --single-quote --no-semi \
            --print-width=D --tab-width=D --use-tabs --trailing-comma=D --end-of-line=D --prose-wrap=D --arrow-parens=D --bracket-same-line --no-bracket-spacing --quote-props=D --jsx-single-quote \
            --parser={babel|babel-ts|babel-flow|flow|typescript|espree|meriyah|acorn|css|less|scss|json|json5|jsonc|json-stringify|graphql|markdown|mdx|vue|yaml|html|angular|lwc|glimmer} --stdin-filepath=L -v,--version -h,--help --with-node-modules \
            --ignore-path=R --config-precedence=D --find-config-path=L --file-info=L --support-info --require-pragma --insert-pragma --experimental-cli \
            --cache-location=W \
            --config={.prettierrc|.prettierrc.*|prettier.config.*|package.json} !--plugin=P !--plugin-search-dir=L !--no-plugin-search",
        operands: Operands::WrittenWith("-w"),
        ..YARGS
    },
    Table {
        names: "jest",
        options: "--ci --coverage=?D --collectCoverage=?D --collectCoverageFrom=X --coverageReporters=+{text|text-summary|json|json-summary|lcov|lcovonly|html|clover|cobertura|none} --silent=?D --verbose=?D --watch --watchAll=?D -i,--runInBand \
            -w,--maxWorkers=D -t,--testNamePattern=D --testPathPattern=D --testPathPatterns=D --testPathIgnorePatterns=D --passWithNoTests --bail=?D -b -u,--updateSnapshot --no-cache --cache=?D --clearCache -o,--onlyChanged --changedSince=G --lastCommit \
            --onlyFailures -f --findRelatedTests --listTests --detectOpenHandles --forceExit --logHeapUsage --colors --no-colors --color --no-color --expand -e --json --testTimeout=D --shard=D --maxConcurrency=D --randomize --seed=D --showSeed --errorOnDeprecated \
            --notify=?D --noStackTrace --selectProjects=D --ignoreProjects=D --runTestsByPath --useStderr --testLocationInResults --showConfig --debug --version --help -h --no-coverage --no-watchman --watchman=?D --no-watch --workerThreads --openHandlesTimeout=D --injectGlobals=?D --clearMocks --resetMocks --restoreMocks --resetModules --changedFilesWithAncestor \
            --reporters=+{default|verbose|summary|github-actions|agent|jest-junit} --env={node|jsdom|jest-environment-node|jest-environment-jsdom} --testEnvironment={node|jsdom|jest-environment-node|jest-environment-jsdom} --coverageDirectory=O --outputFile=W --coverageProvider={v8|babel} --cacheDirectory=O \
            -c,--config={jest.config.*|jest.*|package.json} !--rootDir=L !--roots=L !--globalSetup=R !--globalTeardown=R !--setupFiles=R !--setupFilesAfterEnv=R !--setupTestFrameworkScriptFile=R !--transform=P !--runner=P !--testRunner=P !--resolver=P !--moduleLoader=P \
            !--preset=P !--testResultsProcessor=R !--testSequencer=R !--snapshotSerializers=P !--filter=R !--globals=P !--projects=R !--prettierPath=R !--haste=P !--moduleNameMapper=P !--moduleDirectories=P !--modulePaths=P !--dependencyExtractor=R !--watchPlugins=P !--testMatch=P !--testRegex=P !--testEnvironmentOptions=P",
        ..YARGS
    },
    Table { names: "vitest", options: VITEST, operands: Operands::Special, special: Some(vitest), ..YARGS },
    Table {
        names: "mocha",
        options: "-t,--timeout=D -b,--bail -g,--grep=A -f,--fgrep=D -i,--invert --recursive --exit --parallel -j,--jobs=D -C,--no-color --color --check-leaks --forbid-only --forbid-pending --retries=D -s,--slow=D -w,--watch --full-trace --dry-run --inline-diffs -S,--sort \
            --extension={js|jsx|cjs|mjs|ts|tsx|cts|mts|coffee} -R,--reporter={spec|dot|nyan|tap|landing|list|progress|json|json-stream|min|doc|markdown|xunit|html} --ignore=D --no-diff --version -h,--help -u,--ui={bdd|tdd|qunit|exports} \
            -r,--require={ts-node/register|ts-node/register/transpile-only|ts-node/register/files|tsx|tsx/cjs|esm|esbuild-register|@babel/register|@swc/register|@swc-node/register|source-map-support/register|tsconfig-paths/register} --config={.mocharc.*|.mocharc} !--package=R !--file=R !--opts=R !-n,--node-option=P !--loader=R !--import=R !-O,--reporter-option=P",
        special: Some(mocha),
        ..YARGS
    },
    Table {
        names: "biome",
        options: "--version -h,--help",
        subcommands: &[Table {
            names: "check lint format ci",
            options: "--write --fix --apply --unsafe --staged --changed --since=G --diagnostic-level=D --max-diagnostics=D --error-on-warnings --no-errors-on-unmatched --colors=D --reporter={summary|json|json-pretty|github|junit|gitlab} --verbose \
                --formatter-enabled=D --linter-enabled=D --only=D --skip=D --files-ignore-unknown=D --indent-style=D --line-width=D --stdin-file-path=L !--config-path=R",
            operands: Operands::WrittenWith("--write,--fix,--apply"),
            ..TOOL
        }],
        ..GROUP
    },
    Table {
        names: "stylelint standard xo",
        options: "--fix --quiet -q --color --no-color --cache --allow-empty-input --max-warnings=D --ignore-pattern=D --global=D --env=D --verbose --version --help -f,--formatter={compact|github|json|string|tap|unix|verbose} \
            --report-needless-disables --ext={js|jsx|cjs|mjs|ts|tsx|cts|mts|vue|svelte|astro|json|md|html|css|scss|less|.js|.jsx|.cjs|.mjs|.ts|.tsx|.cts|.mts|.vue|.svelte|.astro|.json|.md|.html|.css|.scss|.less} --config={.stylelintrc|.stylelintrc.*|stylelint.config.*} !--config-basedir=L !--custom-syntax=P !--plugins=P !--parser=P",
        operands: Operands::WrittenWith("--fix"),
        ..YARGS
    },
];

const EXEC: &str = "~-y,--yes ~--no-install ~--no ~-q,--quiet ~--offline ~--prefer-offline ~--bun ~-s,--silent ~--workspaces ~-w,--workspace=L \
    !!-c,--call=D !!--shell-auto-fallback=D !-p,--package=P !--node-options=P !--node-arg=P !--userconfig=R !--script-shell=P";

macro_rules! pnpm_run {
    () => {
        "!!-c,--shell-mode ~--list ~-r,--recursive ~--if-present ~--silent ~-s ~--filter=H ~-F=H ~--parallel ~--stream ~--no-bail ~--reporter={default|silent|append-only|ndjson} ~--sequential ~--workspace-concurrency=D ~--aggregate-output"
    };
}

const PNPM_RUN: &str = pnpm_run!();

/// With what scripts of tests are given.
const PNPM_TEST: &str = concat!(
    pnpm_run!(),
    " ~--color ~--no-color ~--coverage ~--ci ~--run ~--watch=?D ~--watchAll=?D ~--runInBand ~--bail"
);

const VITEST: &str = "--run --watch=?D -w -t,--testNamePattern=D --coverage=?D --coverage.enabled=?D --coverage.reporter={text|text-summary|json|json-summary|lcov|html|clover|cobertura} --coverage.provider={v8|istanbul} --coverage.all=?D --coverage.include=D \
    --coverage.exclude=D --silent=?D --reporter={default|verbose|dot|json|junit|tap|tap-flat|basic|html|hanging-process|github-actions|tree|agent|blob} --reporters={default|verbose|dot|json|junit|tap|basic|html|github-actions} --passWithNoTests --bail=?D -u,--update=?D --changed=?G --shard=D \
    --project=D --no-threads --threads=?D --single-thread --pool={threads|forks|vmThreads|vmForks} --poolOptions.threads.singleThread=?D --poolOptions.forks.singleFork=?D --maxWorkers=D --minWorkers=D --no-file-parallelism --fileParallelism=?D --isolate=?D --no-isolate --globals=?D \
    --environment={node|jsdom|happy-dom|edge-runtime} --dom --hideSkippedTests --logHeapUsage --testTimeout=D --hookTimeout=D --retry=D --sequence.shuffle=?D --sequence.seed=D --allowOnly=?D --no-color --color --dangerouslyIgnoreUnhandledErrors --exclude=D --typecheck=?D --typecheck.only=?D \
    --mode=N --clearScreen=?D --ui=?D --open=?D --browser=?N --browser.headless=?D --no-coverage --disable-console-intercept --expandSnapshotDiff --teardownTimeout=D --slowTestThreshold=D --related --version -v -h,--help --json=*W --filesOnly --includeTaskLocation --printConsoleTrace --no-cache --cache=?D --standalone \
    --outputFile=W --outputFile.junit=W --outputFile.json=W --coverage.reportsDirectory=O \
    -c,--config={vitest.config.*|vitest.*|vite.config.*} !-r,--root=L !--dir=L !--globalSetup=R !--setupFiles=R !--workspace=R !--alias=P !--configLoader=P !--inspect=?P !--execArgv=P !--browser.provider=P !--diff=R !--snapshotEnvironment=R !--runner=R !--coverage.customProviderModule=R !--typecheck.checker=P";

// `mocha init DIRECTORY` writes a page there, `mocha inspect` is node's debugger, which takes commands.
fn mocha(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.operands.iter().find(|word| matches!(word.text.as_str(), "init" | "inspect" | "debug")) {
        Some(word) => Err(call.code(format!("`{}` starts something else than tests", word.text))),
        None => Ok(()),
    }
}

/// Plugins of eslint of whose rules none takes the name of a file, or of a module, from its options.
const PLAIN_PLUGINS: [&str; 6] = ["@typescript-eslint", "@stylistic", "react", "react-hooks", "jsx-a11y", "unicorn"];

/// Refuses options of eslint's rules that may name files.
///
/// A rule of eslint itself has harmless options. Those of a plugin may name files that it reads or code that it loads: there
/// the word is `PLUGIN/RULE: LEVEL` alone, perhaps several of them.
pub(in crate::policy::programs) fn eslint_rules(call: &Call<'_>, rules: &[&str]) -> Result<(), Denial> {
    let level = |text: &str| {
        let level = text.trim_matches(|c: char| c.is_whitespace() || "\"'[]".contains(c));
        ["off", "warn", "error", "0", "1", "2"].contains(&level)
    };
    let pair = |text: &str| {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim().trim_matches(['"', '\'']);
        name.chars().all(|c| c.is_ascii_alphanumeric() || "@/-_".contains(c)) && level(value)
    };
    let plain = |text: &str| {
        let text = text.trim();
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let plugin = text.trim_start_matches(['{', ' ', '"', '\'']).split('/').next().unwrap_or_default();
        let lone = text.matches('/').count() == 1 && !text.contains('\\') && PLAIN_PLUGINS.contains(&plugin);
        !text.contains(['/', '\\']) || lone || inner.split(',').all(pair)
    };
    match rules.iter().find(|text| !plain(text)) {
        Some(text) if !call.is_open() => {
            let denial = call.deny(format!("the options in `{text}` may name code or files that the rule loads"));
            Err(denial.hint("write `PLUGIN/RULE: LEVEL`, and the options in the configuration of the project"))
        }
        _ => Ok(()),
    }
}

fn eslint(call: &mut Call<'_>) -> Result<(), Denial> {
    for option in call.values("--parser-options") {
        option
            .text
            .split(',')
            .filter_map(|part| part.strip_prefix("project:"))
            .for_each(|path| call.read(&Word::literal(path)));
    }
    let rules = call.values("--rule");
    eslint_rules(call, &rules.iter().map(|word| word.text.as_str()).collect::<Vec<_>>())
}

// A table cannot be looked up before it is there: what belongs to `vitest run src` is that of `vitest src`.
fn vitest(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    if words.first().is_some_and(|word| word.text == "init") {
        return Err(call.deny("`init` installs packages and writes a configuration"));
    }
    let skipped = usize::from(
        words
            .first()
            .is_some_and(|word| matches!(word.text.as_str(), "run" | "watch" | "dev" | "bench" | "list" | "related")),
    );
    words.iter().skip(skipped).try_for_each(|word| call.inside(word))
}

// `npm test X`, `pnpm test X`: the words are the script's.
fn passes_all(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    call.all_passed(&words)
}

fn other(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.listed.is_empty() && !call.is_open() {
        return Err(call.deny("a rule must name this subcommand"));
    }
    // `npm audit -- fix` is `npm audit fix`.
    let fixes = call.words.iter().any(|word| word.text == "fix");
    let changes = call.name.ends_with(" audit") && (!call.operands.is_empty() || fixes)
        || call.name.ends_with(" pack") && !call.has("--dry-run");
    if !call.is_open() && changes {
        return Err(call.deny("it changes what is installed, or makes a package"));
    }
    let words = call.operands.clone();
    words.iter().filter(|word| word.text.starts_with(['.', '/'])).for_each(|word| call.read_tree(word, false));
    super::registry::packages(call, &words)?;
    // A template, and the directory that is made of it.
    let makes =
        ["init", "create", "innit", "dlx", "deploy"].iter().any(|verb| call.name.ends_with(&format!(" {verb}")));
    if call.is_open() && makes {
        let template = usize::from(!call.name.ends_with(" deploy"));
        call.operands.clone().iter().skip(template).for_each(|word| call.write(word));
    }
    Ok(())
}

/// Programs that yarn, pnpm and bun run by their bare name where no script has it, besides those of other tables.
const TOOLS: &str = "npm tsc vue-tsc eslint prettier jest vitest mocha biome stylelint standard xo";

// An interpreter is started by its name, too: `yarn node -e CODE`.
fn is_program(name: &str) -> bool {
    let mut tables = [super::web::TABLES, super::bundlers::TABLES].into_iter().flatten();
    named(TOOLS, name) || tables.any(|table| named(table.names, name)) || reads_code(name)
}

// `npm pkg get version`; `set`, `delete` and `fix` write package.json.
fn package(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.operands.first() {
        Some(word) if word.text == "get" || call.is_open() => Ok(()),
        _ => Err(call.deny("only `get` changes nothing")),
    }
}

// A program of another package may not be as it was when the run began.
fn of_this_package(call: &Call<'_>, words: &[Word]) -> Result<(), Denial> {
    let before = &call.words[..call.words.len().saturating_sub(words.len())];
    if call.is_open() || !before.iter().any(|word| chooses_packages(&word.text)) {
        return Ok(());
    }
    let denial = call.deny(format!("it would start `{}` of another package", words[0].text)).by("G7");
    Err(denial.hint("run it in the directory of that package"))
}

// `yarn run jest`: as the script of that name is not known to be there, the words are judged as the program's, too.
fn run(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    if words.first().is_some_and(|name| is_program(&name.text)) {
        of_this_package(call, &words)?;
        call.starts(words);
    }
    Ok(())
}

// `yarn lint`, `yarn jest`: a script, or a program of an installed package with its own words.
fn script_or_tool(call: &mut Call<'_>) -> Result<(), Denial> {
    let name = call.name.rsplit(' ').next().unwrap_or_default().to_owned();
    // The name may be an option's value before.
    let options = (call.cx.known.find)(base_name(&call.words[0].text)).map_or("", |table| table.options);
    let mut words = &call.words[1.min(call.words.len())..];
    while let Some(option) = words.first().filter(|word| word.text.starts_with('-')) {
        words = &words[(1 + arity(options, &option.text).unwrap_or(0)).min(words.len())..];
    }
    let words = words.to_vec();
    if words.first().is_none_or(|word| word.text != name) {
        return Err(call.deny("which of its words is the script is not known"));
    }
    super::refuse_shell_text(call, &words)?;
    if is_program(&name) {
        of_this_package(call, &words)?;
        call.starts(words);
        return Ok(());
    }
    call.all_passed(&words[1..])
}

// `yarn workspace NAME test`: what follows the name is yarn's again.
fn workspace(call: &mut Call<'_>) -> Result<(), Denial> {
    nested(call, 1)
}

// `yarn workspaces run test`, `yarn workspaces foreach -A run test`.
fn workspaces(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.operands.first().is_some_and(|word| word.text == "list") {
        let looks = |word: &Word| named("list --json -v --verbose -R --recursive --no-private", &word.text);
        let other = call.operands.iter().find(|word| !looks(word));
        return other.map_or(Ok(()), |word| Err(call.deny(format!("`{}` is not known to be harmless", word.text))));
    }
    let at = call.operands.iter().position(|word| word.text == "run");
    let plain = |word: &Word| {
        matches!(
            word.text.as_str(),
            "foreach"
                | "-A"
                | "-p"
                | "-i"
                | "-v"
                | "-t"
                | "-pt"
                | "-Apt"
                | "-At"
                | "--all"
                | "--parallel"
                | "--verbose"
                | "--interlaced"
                | "--topological"
                | "-W"
        )
    };
    match at {
        Some(at) if call.operands[..at].iter().all(plain) => nested(call, at),
        _ => Err(call.deny("`workspaces` without `run`")),
    }
}

fn nested(call: &mut Call<'_>, at: usize) -> Result<(), Denial> {
    let Some(rest) = call.operands.get(at..).filter(|rest| !rest.is_empty()) else {
        return Err(call.deny("no script is named"));
    };
    // Where that package lies is not known, and so not whether its programs are as they were.
    if let Some(program) = named_first(rest).find(|word| is_program(&word.text)) {
        let denial = call.deny(format!("yarn would start `{}` of another package", program.text)).by("G7");
        return Err(denial.hint("run it in the directory of that package"));
    }
    let yarn = vec![call.words[0].clone()];
    let words = [yarn.as_slice(), rest].concat();
    call.starts(words);
    Ok(())
}

// The words of which one is the first that is no option, and no option's value.
fn named_first(words: &[Word]) -> impl Iterator<Item = &Word> {
    let is_option = |word: &Word| word.text.starts_with('-');
    let is_last =
        move |at: usize| !is_option(&words[at]) && words[at].text != "run" && (at == 0 || !is_option(&words[at - 1]));
    let last = (0..words.len()).find(|at| is_last(*at)).map_or(words.len(), |last| last + 1);
    words[..last].iter().filter(move |word| !is_option(word))
}

// `bun exec TEXT` has a shell of its own.
fn shell_text(call: &mut Call<'_>) -> Result<(), Denial> {
    Err(call.deny("it runs any text of a shell").hint("write the command itself"))
}

// Before `--` npm takes every option for its own, after the program's name as well.
fn npm_exec(call: &mut Call<'_>) -> Result<(), Denial> {
    let own = call.operands.iter().take_while(|word| word.text != "--").find(|word| word.text.starts_with('-'));
    if let Some(option) = own.filter(|_| call.dashes.is_none()) {
        let denial = call.deny(format!("npm takes `{}` for an option of its own", option.text));
        return Err(denial.hint("write `npm exec -- PROGRAM OPTIONS`"));
    }
    installed(call)
}

// A package that is not installed would be fetched: its program must be there, as it was when the run began.
pub(super) fn installed(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.is_open() {
        return Ok(());
    }
    let Some(program) = call.operands.first().filter(|word| word.literal && !word.text.contains('/')).cloned() else {
        return Err(call.deny("no program of an installed package is named"));
    };
    for folder in call.cx.folders {
        let mut at = Some(folder.clone());
        loop {
            let Some(above) = at else {
                let denial = call.deny(format!("`{}` is not installed in the workspace", program.text));
                return Err(denial.hint("only programs in `node_modules/.bin` run this way"));
            };
            let path = above.join("node_modules/.bin").and_then(|bin| bin.child(&program.text));
            let node = path.as_ref().map(|path| call.cx.paths.resolve(&RelPath::root(), path.as_path())).transpose()?;
            // A closer one that the same line makes would be the one that runs.
            call.out.unchanged.extend(path);
            if matches!(node.and_then(|resolved| resolved.node), Some(Node::File { .. })) {
                break;
            }
            at = above.parent();
        }
    }
    Ok(())
}

// `node node_modules/jest/bin/jest.js` is `npx jest`.
fn installed_program(script: &str) -> Option<&str> {
    match script.trim_start_matches("./").strip_prefix("node_modules/")? {
        "jest/bin/jest.js" => Some("jest"),
        "mocha/bin/mocha.js" => Some("mocha"),
        path => path.strip_prefix(".bin/").filter(|name| named(TOOLS, name)),
    }
}

// Without `--test` or `--check`, node runs any script.
fn node_test(call: &mut Call<'_>) -> Result<(), Denial> {
    if let Some((script, rest)) =
        call.operands.clone().split_first().filter(|_| call.found.iter().all(|found| found.name.starts_with("--")))
        && let Some(program) = installed_program(&script.text).filter(|_| !call.has("--test"))
    {
        for folder in call.cx.folders {
            call.out.unchanged.extend(folder.join(&script.text));
        }
        call.starts([&[Word::literal("npx"), Word::literal(program)], rest].concat());
        return Ok(());
    }
    if !call.has("--test") && !call.has("-c") {
        return Err(call.deny("without `--test` or `--check` it runs any script"));
    }
    if call.operands.first().is_some_and(|word| matches!(word.text.as_str(), "inspect" | "debug")) {
        return Err(call.deny("its debugger runs any code"));
    }
    call.operands.clone().iter().try_for_each(|word| call.inside(word))
}
