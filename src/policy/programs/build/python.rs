//! Tables for the tools of Python.

use super::{Call, Dashes, Denial, GROUP, LAUNCHER, Operands, Style, TABLE, TASKS, TOOL, Table, Word};
use crate::policy::names::named;
use crate::policy::programs::unknown::words_as_paths;

const PYTEST: Table = Table {
    names: "pytest py.test",
    options: "-k=D -m=D --base-url=D --splits=D --group=D --markers -x,--exitfirst --fixtures --funcargs --fixtures-per-test --pdb --trace --capture=D -s --runxfail --lf,--last-failed \
        --ff,--failed-first --nf,--new-first --cache-show=?D --cache-clear --lfnf,--last-failed-no-failures=D --sw,--stepwise --sw-skip,--stepwise-skip \
        --durations=D --durations-min=D -v,--verbose --no-header --no-summary -q,--quiet --verbosity=D -r=D --disable-warnings,--disable-pytest-warnings \
        -l,--showlocals --no-showlocals --tb=D --xfail-tb --show-capture=D --full-trace --color=D --code-highlight=D --junit-xml,--junitxml=W --html=W --self-contained-html --benchmark-json=W --alluredir=O \
        --junit-prefix=D -W,--pythonwarnings=D --maxfail=D --strict-config --strict-markers --strict --continue-on-collection-errors --collect-only,--co \
        --pyargs --ignore=D --ignore-glob=D --deselect=D --noconftest --keep-duplicates --collect-in-virtualenv --import-mode=D --doctest-modules \
        --doctest-report=D --doctest-glob={*.md|*.rst|*.txt|*.py|test*.txt|test*.md|test*.rst|README*} --doctest-ignore-import-errors --doctest-continue-on-failure --setup-only --setup-show --setup-plan --version -V \
        -h,--help --log-level=D --log-format=D --log-cli-level=D --log-file=W -n,--numprocesses=D --dist=D --cov=?V --cov-report=D --cov-fail-under=D \
        --no-cov --cov-branch --cov-append --cov-context=D --cov-config={.coveragerc|pyproject.toml|setup.cfg|tox.ini} --no-cov-on-fail --cov-reset --forked --looponfail --random-order --randomly-seed=D --snapshot-update --timeout-method=D --only-rerun=D --reruns-delay=D --sugar --no-sugar --last-failed-no-failures=D --stepwise-reset --force-sugar --create-db --reuse-db --nomigrations --no-migrations --ds=M --benchmark-disable --memray --maxprocesses=D --max-worker-restart=D -d --hypothesis-seed=D --hypothesis-show-statistics --hypothesis-profile=N --log-cli-format=D --log-date-format=D --no-fold-skipped --force-short-summary --doctest-plus --mypy --ruff --flake8 --run-slow --runslow --timeout=D --reruns=D --benchmark-skip --benchmark-only --asyncio-mode=D \
        ~-p={no:*|xdist|pytest_cov|pytest_asyncio|pytest_mock|pytest_timeout|pytest_randomly|randomly|terminal|cacheprovider} !--pastebin=P !-c,--config-file=R -o,--override-ini={junit_family=xunit1|junit_family=xunit2|junit_family=legacy|log_cli=true|log_cli=false|log_cli=1|log_cli=0|addopts=|xfail_strict=true|junit_logging=all|log_cli_level=DEBUG|log_cli_level=INFO|console_output_style=*} !--rootdir=L !--confcutdir=L !--basetemp=W !--debug=?W !--pdbcls=P",
    operands: Operands::Inside,
    writes_nothing: false,
    special: Some(pytest),
    ..TABLE
};

// pytest looks for `-p` among all of its words, also behind `--`.
fn no_plugins(call: &mut Call<'_>) -> Result<(), Denial> {
    let behind = call.words.iter().skip_while(|word| word.text != "--");
    match behind.skip(1).find(|word| word.text.starts_with("-p")) {
        Some(word) if !call.is_open() => {
            let denial = call.deny(format!("pytest takes `{}` behind `--` for a plugin that it loads", word.text));
            Err(denial.hint("leave it out"))
        }
        _ => Ok(()),
    }
}

fn pytest(call: &mut Call<'_>) -> Result<(), Denial> {
    no_plugins(call)?;
    warnings(call)?;
    if call.has("--pyargs") {
        call.operands.clone().iter().for_each(|word| call.module(&word.text));
    }
    for report in call.values("--cov-report") {
        // `html:FOLDER`; `term:skip-covered` writes nothing.
        if let Some((kind, path)) = report.text.split_once(':')
            && !kind.starts_with("term")
        {
            call.out.effects.push(crate::policy::effect::Effect::Write(path.to_owned()));
        }
    }
    Ok(())
}

const RYE: &str = "-a,--all -p,--package=D -v,--verbose -q,--quiet --check --fix";

const RUFF: &str = "--fix --fix-only --unsafe-fixes --no-unsafe-fixes --no-fix --diff --check --show-fixes --output-format=D --select=D --extend-select=D --ignore=D --extend-ignore=D --fixable=D --unfixable=D --exclude=D --extend-exclude=D --force-exclude \
    --target-version=D --line-length=D --show-files --show-settings --statistics --exit-zero --exit-non-zero-on-fix --exit-non-zero-on-format -e -n,--no-cache --preview --no-preview --respect-gitignore --no-respect-gitignore --add-noqa --watch -w --isolated \
    -q,--quiet -v,--verbose -s,--silent -h,--help --stdin-filename=L --range=D --per-file-ignores=D --extend-per-file-ignores=D --all --ignore-noqa --color=D -o,--output-file=W --cache-dir=O --config={ruff.toml|.ruff.toml|pyproject.toml|line-length=*|indent-width=*|preview=*|lint.mccabe.max-complexity=*|lint.pycodestyle.max-line-length=*} !--extension=P";

pub(super) const TABLES: &[Table] = &[
    PYTEST,
    Table {
        names: "python python3 python2 pypy3",
        options: "-u -B -O -OO -I -E -s -S -q -bb -b -v -W=D -X={dev|utf8|faulthandler|importtime|tracemalloc|frozen_modules} -V,--version -h,--help -m=>S !!-c=D !-i !-x",
        operands: Operands::Special,
        special: Some(module_or_manage),
        ..LAUNCHER
    },
    Table {
        names: "unittest",
        options: "-v,--verbose -q,--quiet -f,--failfast -b,--buffer -c,--catch -k=D -s,--start-directory=R -p,--pattern=X -t,--top-level-directory=R --locals --durations=D -h,--help",
        operands: Operands::Special,
        special: Some(unittest),
        ..TOOL
    },
    Table { names: "compileall", options: "-q -f -l -j=D -x=D -r=D", ..TOOL },
    Table {
        names: "py_compile",
        options: "-q,--quiet",
        operands: Operands::Special,
        special: Some(super::python_checks::no_list),
        ..TOOL
    },
    Table {
        names: "json.tool",
        options: "--sort-keys --indent=D --compact --no-ensure-ascii --json-lines --tab --no-indent",
        operands: Operands::Special,
        special: Some(json_tool),
        ..TABLE
    },
    Table { names: "doctest", options: "-v -f -o=D", ..TOOL },
    Table {
        names: "coverage",
        options: "-h,--help --version",
        subcommands: &[
            Table {
                names: "run",
                options: "--branch -a,--append -p,--parallel-mode --source=V --omit=D --include=X --concurrency=D --context=D --timid -m,--module=>S --data-file=W --rcfile={.coveragerc|pyproject.toml|setup.cfg|tox.ini}",
                operands: Operands::None,
                special: Some(module_alone),
                ..LAUNCHER
            },
            Table {
                names: "report html xml json lcov combine erase debug",
                options: "-m,--show-missing --skip-covered --skip-empty --fail-under=D --include=X --omit=D --sort=D --precision=D --format=D -i,--ignore-errors -q,--quiet -o=W -d,--directory=O --keep -a,--append --pretty-print --title=D --no-skip-covered --data-file=W --rcfile={.coveragerc|pyproject.toml|setup.cfg|tox.ini}",
                special: Some(coverage),
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "mypy dmypy",
        options: "--strict --ignore-missing-imports --show-error-codes --hide-error-codes --no-incremental --incremental --python-version=D --platform=D --namespace-packages --no-namespace-packages --explicit-package-bases -p,--package=M -m,--module=M \
            --follow-imports=D --pretty --no-pretty --no-error-summary --disallow-untyped-defs --disallow-any-generics --disallow-untyped-calls --disallow-incomplete-defs --check-untyped-defs --warn-unused-ignores --warn-return-any --warn-unreachable --warn-redundant-casts \
            --warn-unused-configs --no-implicit-optional --implicit-optional --show-column-numbers --show-error-context --show-absolute-path --exclude=D --no-color-output --color-output --non-interactive --no-site-packages --allow-redefinition --strict-optional --no-strict-optional \
            --disable-error-code=D --enable-error-code=D --skip-version-check --sqlite-cache --fast-module-lookup --output=D --error-summary --enable-incomplete-feature=D --local-partial-types --strict-equality --extra-checks -v,--verbose -V,--version -h,--help --cache-fine-grained --txt-report=O --html-report=O --junit-xml=W --cache-dir=O --disallow-subclassing-any --disallow-untyped-decorators --no-strict-equality --no-implicit-reexport --silence-site-packages -s --no-warn-no-return --hide-error-context --soft-error-limit=D --exclude-gitignore --linecount-report=O --xml-report=O --any-exprs-report=O \
            --config-file={mypy.ini|.mypy.ini|pyproject.toml|setup.cfg} !--install-types !-c,--command=P !--python-executable=P !--custom-typeshed-dir=L !--custom-typing-module=P !--plugins=P !--shadow-file=R !--pdb !--find-occurrences=P",
        operands: Operands::Inside,
        style: Style::Whole,
        ..TOOL
    },
    Table {
        names: "ruff",
        options: "-q,--quiet -v,--verbose -s,--silent -V,--version -h,--help --color=D --isolated !--config=R",
        subcommands: &[
            Table {
                names: "check rule linter clean version config analyze",
                options: RUFF,
                operands: Operands::WrittenWith("--fix,--fix-only,--add-noqa"),
                ..TOOL
            },
            Table { names: "format", options: RUFF, operands: Operands::WrittenWithout("--check,--diff"), ..TOOL },
        ],
        ..GROUP
    },
    Table {
        names: "black",
        options: "--check --diff --color --no-color -q,--quiet -v,--verbose -l,--line-length=D -t,--target-version=D -S,--skip-string-normalization -C,--skip-magic-trailing-comma --preview --unstable --fast --safe --pyi --ipynb -W,--workers=D --include={\\.pyi?$|\\.py$|\\.pyi$|\\.ipynb$} --exclude=D \
            --extend-exclude=D --force-exclude=D --line-ranges=D --required-version=D --no-cache -x,--skip-source-first-line --stdin-filename=L --version -h,--help !-c,--code=P --config={pyproject.toml} --enable-unstable-feature=D --python-cell-magics=D",
        operands: Operands::WrittenWithout("--check,--diff"),
        ..TOOL
    },
    Table {
        names: "isort",
        options: "--check,--check-only -c -d,--stdout --diff,--df -q,--quiet -v,--verbose --profile={black|django|pycharm|google|open_stack|plone|attrs|hug|wemake|appnexus} -l,--line-length,--line-width=D -m,--multi-line=D --skip,-s=D --skip-glob,--sg=D --extend-skip=D --filter-files --gitignore --atomic --float-to-top --combine-as \
            --force-single-line-imports,--sl --trailing-comma,--tc -e --only-modified --lai=D --src=L -p,--project=D -o,--thirdparty=D --py=D --color -V,--version -h,--help --show-files --show-config --jobs,-j=?D --dont-follow-links --force-sort-within-sections --use-parentheses --ensure-newline-before-comments \
            --settings-path,--sp,--settings-file,--settings={pyproject.toml|setup.cfg|.isort.cfg|tox.ini} !--formatter=P !--virtual-env=L !--conda-env=L !--extend-skip-glob=P",
        operands: Operands::WrittenWithout("--check,-c,-d,--diff"),
        style: Style::Whole,
        ..TOOL
    },
    Table {
        names: "pycodestyle pyflakes",
        options: "-v,--verbose -q,--quiet --count --exclude=D --filename=X --format=N --hang-closing --ignore=D --max-line-length=D --max-doc-length=D --select=D --show-source --statistics --first --indent-size=D --version -h,--help",
        ..TOOL
    },
    Table {
        names: "flake8",
        options: "-v,--verbose -q,--quiet --count --color=D --diff --exclude=D --extend-exclude=D --filename={*.py|*.pyi|*.pyx|*.ipynb|./*.py} --format=N --hang-closing --ignore=D --extend-ignore=D --per-file-ignores=D --max-line-length=D --max-doc-length=D --select=D --extend-select=D --disable-noqa \
            --show-source --no-show-source --statistics --exit-zero -j,--jobs=D --max-complexity=D --benchmark --bug-report --indent-size=D --doctests --version -h,--help --enable-extensions=D --isolated --require-plugins=D --output-file=W --tee --import-order-style=D --application-import-names=D --docstring-convention=D --inline-quotes=D --stdin-display-name=L \
            --config={.flake8|setup.cfg|tox.ini} !--append-config=R !--local-plugins=P",
        ..TOOL
    },
    Table {
        names: "pylint",
        options: "-E,--errors-only -d,--disable=D -e,--enable=D -f,--output-format={text|colorized|parseable|json|json2|msvs|github|no-header} -r,--reports=D -s,--score=D -j,--jobs=D --fail-under=D --fail-on=D --ignore=D --ignore-patterns=D --ignore-paths=D --recursive=D --max-line-length=D --msg-template=D -v,--verbose --py-version=D \
            --exit-zero --persistent=D --list-msgs --list-msgs-enabled --good-names=D --max-args=D --min-similarity-lines=D --disable-all --from-stdin --clear-cache-post-run=D --confidence=D -h,--help --version --output=W --ignored-modules=D --ignored-classes=D --generated-members=D --max-locals=D --max-branches=D --suggestion-mode=D --notes=D --errors-only --source-roots=L \
            --rcfile={.pylintrc|pylintrc|pyproject.toml|setup.cfg} !--load-plugins=P !$--init-hook=P !--extension-pkg-allow-list,--extension-pkg-whitelist=P !--unsafe-load-any-extension=P !--spelling-dict=P",
        operands: Operands::Special,
        special: Some(unittest),
        ..TOOL
    },
    Table {
        names: "autoflake",
        options: "-c,--check -cd,--check-diff -r,--recursive -j,--jobs=D --exclude=D --imports=D --expand-star-imports --remove-duplicate-keys --remove-unused-variables \
            --remove-rhs-for-unused-variables --remove-all-unused-imports --ignore-init-module-imports --ignore-pass-statements --ignore-pass-after-docstring -i,--in-place \
            -s,--stdout -v,--verbose -q,--quiet --version -h,--help --stdin-display-name=L --config={pyproject.toml|setup.cfg}",
        operands: Operands::WrittenWith("-i"),
        ..TOOL
    },
    Table {
        names: "tox",
        options: "-e=D -q,--quiet -v,--verbose -r,--recreate -p,--parallel=*D --parallel-no-spinner -o --skip-missing-interpreters=?D -s=D --skip-pkg-install --notest -n -l,--listenvs -a,--listenvs-all --colored=D -m=D -f=D --develop --no-provision --skip-env=D --version -h,--help --result-json=W -vv \
            -c,--conf,--config-file={tox.ini|pyproject.toml|setup.cfg} !$-x,--override=P !--workdir=O !--root=L !--runner=P !--default-runner=P !-i=P !--pre !--installpkg=R !--discover=P !--sitepackages !--force-dep=P",
        operands: Operands::Special,
        special: Some(only_known),
        dashes: Dashes::Passed,
        ..TASKS
    },
    Table {
        names: "nox",
        options: "-s,-e,--session,--sessions=+D -k,--keywords=D -t,--tags=+D -l,--list -r,--reuse-existing-virtualenvs -R -v,--verbose -x,--stop-on-first-error --no-install -p,--python,--pythons=+D --error-on-missing-interpreters --no-error-on-missing-interpreters --non-interactive --forcecolor --nocolor --json --reuse-venv=D --no-venv --version -h,--help --report=W \
            -f,--noxfile={noxfile.py} !--envdir=O !--default-venv-backend=P !-db=P !-fb=P !--force-venv-backend=P !--force-python=P !-P=P !--extra-pythons=P !--add-timestamp",
        operands: Operands::Special,
        special: Some(nox),
        dashes: Dashes::Passed,
        ..TASKS
    },
    Table {
        names: "hatch",
        options: "-e,--env=N -q,--quiet -v,--verbose --color --no-color --version -h,--help !--config=R !--data-dir=O !--cache-dir=O",
        subcommands: &[
            Table { names: "run", special: Some(scripts), ..LAUNCHER },
            Table {
                names: "test",
                options: "-c,--cover -a,--all -p,--parallel -r,--randomize -py,--python=D -i,--include=D -x,--exclude=D -q,--quiet -v,--verbose --show --retries=D --cover-quiet -h,--help",
                special: Some(no_plugins),
                dashes: Dashes::Passed,
                ..TOOL
            },
            Table {
                names: "fmt",
                options: "--check -l,--linter -f,--formatter -q,--quiet -v,--verbose -h,--help",
                operands: Operands::WrittenWithout("--check"),
                dashes: Dashes::Passed,
                ..TOOL
            },
            Table {
                names: "status env dep project",
                options: "-h,--help --ascii -i",
                operands: Operands::Data,
                ..TOOL
            },
            // With a word it sets the version.
            Table { names: "version", options: "-h,--help", operands: Operands::None, ..TOOL },
        ],
        ..GROUP
    },
    Table {
        names: "uv",
        options: "~-q,--quiet ~-v,--verbose ~-V,--version ~-h,--help ~--no-color ~--color=D ~--offline ~--no-cache ~-n ~--no-progress !--python=P !--config-file=R !--directory=E !--project=L",
        subcommands: &[
            Table {
                names: "run",
                options: "~--frozen ~--locked ~--offline ~--no-sync ~-q,--quiet ~-v,--verbose ~--all-extras ~--extra=N ~--group=N ~--no-group=N ~--only-group=N ~--all-groups ~--dev ~--no-dev ~--only-dev ~--no-progress ~--no-cache ~-n ~--exact ~--no-editable ~--active ~--package=N ~--all-packages ~-p,--python={3|3.8|3.9|3.10|3.11|3.12|3.13|3.14|3.15|3.10.*|3.11.*|3.12.*|3.13.*|3.14.*|python3*|cpython*|pypy*} ~--color=D ~--resolution=N ~-m,--module=>S \
                    !--isolated !--with=P !--with-requirements=R !--with-editable=T !--env-file=R !--directory=E !--project=L !--config-file=R !--index-url=P !--index=P !--default-index=P !-s,--script !--gui-script !--no-project !-i=P !-f=P",
                special: Some(uv_run),
                ..LAUNCHER
            },
            Table {
                names: "lock",
                options: "--check --check-exists --locked --offline -q,--quiet -v,--verbose",
                operands: Operands::None,
                special: Some(looks),
                ..TOOL
            },
            Table {
                names: "build",
                options: "--sdist --wheel -o,--out-dir=O --all-packages --package=N --no-build-logs --offline -q,--quiet -v,--verbose",
                ..TOOL
            },
            Table {
                names: "tree version",
                options: "--frozen --locked --check --offline -q --short --depth=D --outdated --universal --dry-run --no-dev -v",
                operands: Operands::None,
                ..TOOL
            },
            Table {
                names: "pip",
                options: "--offline -q -v",
                operands: Operands::Special,
                special: Some(pip_looks),
                style: Style::First,
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "poetry pipenv pdm rye",
        options: "~-q,--quiet ~-v,--verbose ~-vv ~-vvv ~-V,--version ~-h,--help ~--no-ansi ~--ansi ~-n,--no-interaction ~--no-cache ~--no-plugins !-C,--directory=E !-P,--project=L !--python=P !-c=P",
        subcommands: &[
            Table {
                names: "run",
                options: "~-q,--quiet ~-v,--verbose ~-n,--no-interaction ~-s,--silent !-p,--project=L !-e,--env-file=R",
                special: Some(scripts),
                ..LAUNCHER
            },
            Table {
                names: "build",
                options: "-f,--format={sdist|wheel} -o,--output=O --clean -n,--no-interaction -q,--quiet -v,--verbose --no-isolation",
                operands: Operands::None,
                ..TOOL
            },
            Table {
                names: "check show env lock graph verify list info",
                options: "--tree --latest -l --outdated -o --top-level -T --no-dev --only=D --with=D --without=D -s,--short --lock --strict --check -q --json --info --path -a,--all --no-interaction -n --no-update --dry-run --venv --where --bare !-p,--project=L",
                operands: Operands::Data,
                ..TOOL
            },
            Table {
                names: "version",
                options: "-s,--short --no-interaction -n -q -h,--help",
                operands: Operands::None,
                ..TOOL
            },
            Table {
                names: "test lint",
                options: RYE,
                operands: Operands::WrittenWith("--fix"),
                special: Some(no_plugins),
                dashes: Dashes::Passed,
                ..TOOL
            },
            Table {
                names: "fmt",
                options: RYE,
                operands: Operands::WrittenWithout("--check"),
                dashes: Dashes::Passed,
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "pip pip3",
        options: "-q,--quiet -v,--verbose -V,--version -h,--help --no-color --offline --no-cache --disable-pip-version-check --no-input !--python=P !--config-file=R !--directory=E !--project=L",
        style: Style::First,
        subcommands: &[
            Table {
                names: "list freeze check inspect debug help",
                options: "--format={columns|freeze|json} -o,--outdated -u,--uptodate --all -v -q --tree --local -l --user --not-required -e,--editable --exclude=D --exclude-editable --path=L --disable-pip-version-check",
                operands: Operands::Data,
                ..TABLE
            },
            Table {
                names: "show",
                options: "-f,--files -v -q --disable-pip-version-check",
                operands: Operands::Data,
                ..TABLE
            },
        ],
        ..GROUP
    },
    Table {
        names: "pre-commit",
        options: "--version -h,--help",
        subcommands: &[Table {
            names: "run",
            options: "-a,--all-files -v,--verbose --show-diff-on-failure --color=D --hook-stage=D --files=+R --from-ref=G --to-ref=G !-c,--config=R",
            operands: Operands::Data,
            ..TOOL
        }],
        ..GROUP
    },
];

// `-W action:message:category`: Python imports the module of a category that it does not have itself.
fn warnings(call: &Call<'_>) -> Result<(), Denial> {
    let foreign = |word: &Word| {
        let category = word.text.split(':').nth(2).unwrap_or_default().trim();
        category.contains('.') && !category.starts_with("pytest.")
    };
    match call.values("-W").iter().find(|word| foreign(word)) {
        Some(word) if !call.is_open() => Err(call.deny(format!("the category of `{}` is imported", word.text))),
        _ => Ok(()),
    }
}

fn module_or_manage(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.operands.is_empty() || call.is_open() {
        return module_alone(call);
    }
    warnings(call)?;
    super::manage::manage(call)
}

fn module_alone(call: &mut Call<'_>) -> Result<(), Denial> {
    warnings(call)?;
    let module = call.out.starts.first().and_then(|words| words.first());
    match module {
        Some(_) if call.is_open() => Ok(()),
        Some(module) if module.literal && named("build django", &module.text) => {
            let name = module.text.clone();
            super::scripts::module_is_installed(call, &name)?;
            let [words] = &std::mem::take(&mut call.out.starts)[..] else {
                return Err(call.deny("`--` among its words"));
            };
            super::manage::of_module(call, words)
        }
        Some(module) if module.literal && named(MODULES, &module.text) => {
            super::scripts::module_is_installed(call, &module.text)
        }
        Some(module) => Err(call.deny(format!("the module `{}` is not listed", module.text))),
        None => Err(call.deny("without `-m` it runs any script")),
    }
}

fn uv_run(call: &mut Call<'_>) -> Result<(), Denial> {
    super::scripts::names_installed(call, "-p")?;
    if call.has("-m") { module_alone(call) } else { super::scripts::installed(call) }
}

/// Modules that rules name like programs; of any other name the workspace may have one of its own.
const MODULES: &str = "pytest unittest mypy black isort flake8 pylint pyright ruff tox nox coverage compileall py_compile json.tool doctest pip \
    bandit vulture pydocstyle autopep8 yapf pyupgrade autoflake interrogate radon codespell yamllint hatch poetry pipenv pdm twine mkdocs pyflakes pycodestyle";

fn json_tool(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    words.iter().take(1).for_each(|word| call.read(word));
    words.iter().skip(1).for_each(|word| call.write(word));
    Ok(())
}

// `python -m unittest discover -s tests`, a file, or the dotted name of a test.
// Files, and names of modules.
fn unittest(call: &mut Call<'_>) -> Result<(), Denial> {
    for word in call.operands.clone() {
        call.inside(&word)?;
        call.module(&word.text);
    }
    Ok(())
}

// Before `--` tox and nox know few words; what is after it is the project's.
/// Parts of names of sessions that do more than to check: the tasks of other tools must be listed.
const PUBLISHES: &str = "deploy deployment publish release upload push pypi twine bump";

fn only_known(call: &mut Call<'_>) -> Result<(), Denial> {
    let chosen = ["-e", "-s", "-m", "-f", "-k", "-t"].iter().flat_map(|name| call.values(name));
    // `tox -e ALL` is every task.
    let risks = |part: &str| PUBLISHES.split(' ').any(|risk| part.starts_with(risk) || part.ends_with(risk));
    let is_known_risk = |part: &str| risks(&part.to_ascii_lowercase()) || part == "ALL";
    let publishes = |name: &Word| name.text.split(|c: char| !c.is_alphanumeric()).any(is_known_risk);
    if let Some(name) = chosen.into_iter().find(publishes).filter(|_| !call.is_open()) {
        return Err(call.deny(format!("`{}` may do more than to build and test", name.text)));
    }
    let known = ["run", "r", "run-parallel", "p", "list", "l", "config", "c", "depends"];
    match call.operands.iter().find(|word| !known.contains(&word.text.as_str())) {
        Some(word) if !call.is_open() => {
            Err(call.deny(format!("`{}` before `--` is not known to be harmless", word.text)))
        }
        _ => Ok(()),
    }
}

// nox evaluates the expression of `-k` as Python.
fn nox(call: &mut Call<'_>) -> Result<(), Denial> {
    let plain = |word: &Word| word.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ' ');
    if let Some(word) = call.values("-k").iter().find(|word| !plain(word)) {
        let denial = Denial::unanalysable(format!("nox: `{}` is evaluated as Python", word.text)).by("G3");
        return Err(denial.hint("write names with `and` and `or`, or choose sessions by `-s`"));
    }
    // Each word stands for the sessions whose names have it as a part.
    let is_part = |term: &str| PUBLISHES.split(' ').any(|risk| risk.contains(term));
    // A constant chooses all of them.
    let is_no_name = |term: &str| {
        term.len() < 3
            || !term.starts_with(|c: char| c.is_ascii_alphabetic())
            || named("True False None else lambda", term)
    };
    let chooses = |word: &Word| {
        let mut terms = word.text.split_whitespace().filter(|term| !named("and or not", term)).peekable();
        terms.peek().is_none() || terms.any(|term| is_part(term) || is_no_name(term))
    };
    if let Some(word) = call.values("-k").into_iter().find(chooses).filter(|_| !call.is_open()) {
        let denial = call.deny(format!("`{}` may choose sessions that do more than to build and test", word.text));
        return Err(denial.hint("choose sessions by `-s`"));
    }
    // What `not` alone leaves is known to nobody.
    let is_open = |all: &str| all.split(" and ").all(|term| term.trim_start().starts_with("not "));
    let negates = |word: &Word| word.text.split(" or ").any(is_open);
    if let Some(word) = call.values("-k").into_iter().find(negates).filter(|_| !call.is_open()) {
        let denial =
            call.deny(format!("`{}` also chooses sessions that may do more than to build and test", word.text));
        return Err(denial.hint("choose sessions by `-s`"));
    }
    only_known(call)
}

const PIP_OPTIONS: &str = "--outdated -o --format -q --quiet -v --verbose --editable -e --exclude --exclude-editable --strict --offline --depth --color";

fn pip_looks(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.operands.first().map(|word| word.text.as_str()) {
        _ if call.is_open() => words_as_paths(call, &call.operands.clone()),
        // `--python` and `--target` choose what is run and looked at.
        Some("list" | "show" | "freeze" | "check" | "tree") => {
            // `-f` of `list` and `freeze` names where packages are looked for.
            let shows = call.operands.first().is_some_and(|word| word.text == "show");
            let is_of_show = |word: &Word| ["-f", "--files"].contains(&word.text.as_str());
            let known = |word: &Word| {
                named(PIP_OPTIONS, word.text.split('=').next().unwrap_or_default()) || (shows && is_of_show(word))
            };
            match call.operands.iter().find(|word| word.text.starts_with('-') && !known(word)) {
                Some(word) => Err(call.deny(format!("the option `{}` is not known to be harmless", word.text))),
                None => Ok(()),
            }
        }
        _ => Err(call.deny("only `list show freeze check tree` of `pip` change nothing")),
    }
}

// A script of the project by its name, such as `hatch run test`, or a command.
fn scripts(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.is_open() {
        return Ok(());
    }
    let Some(first) = call.operands.first().cloned() else { return Err(call.deny("no command is named")) };
    // `hatch run ENV:SCRIPT`.
    let name = first.text.rsplit(':').next().unwrap_or_default();
    let is_script = [
        "test",
        "tests",
        "lint",
        "check",
        "format",
        "fmt",
        "cov",
        "coverage",
        "types",
        "typecheck",
        "typing",
        "style",
        "build",
        "docs",
        "all",
    ]
    .iter()
    .any(|known| name == *known || name.starts_with(&format!("{known}-")) || name.starts_with(&format!("{known}_")));
    let plain = name.chars().all(|c| c.is_alphanumeric() || "_.-".contains(c));
    if is_script && plain && first.literal {
        call.out.starts.clear();
        let words = call.operands.split_off(1);
        return call.all_passed(&words);
    }
    Ok(())
}

// Erasing takes every file whose name begins as that of the data.
fn coverage(call: &mut Call<'_>) -> Result<(), Denial> {
    if !["erase", "combine"].iter().any(|verb| call.name.ends_with(verb)) {
        return Ok(());
    }
    for file in call.values("--data-file") {
        call.cx.folders.iter().try_for_each(|folder| call.cx.paths.write_beginning(folder, &file.text, false))?;
    }
    Ok(())
}

// Without one of these it changes the file of locked versions.
fn looks(call: &mut Call<'_>) -> Result<(), Denial> {
    match ["--check", "--check-exists", "--locked"].iter().any(|option| call.has(option)) || call.is_open() {
        true => Ok(()),
        false => Err(call.deny("without `--check` it changes which packages are installed")),
    }
}
