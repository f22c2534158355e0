//! Tables for checkers, formatters and generators of documentation of Python.

use super::{Call, Denial, GROUP, Operands, TOOL, Table};
use crate::policy::effect::Effect;

/// Options of every report of radon.
macro_rules! radon {
    ($more:literal) => {
        concat!(
            "-e,--exclude=D -i,--ignore=D -j,--json --xml --md --codeclimate -O,--output-file=W --include-ipynb --ipynb-cells \
            --no-assert --show-closures -h,--help ",
            $more
        )
    };
}

// A letter means another thing to each of them.
pub(super) const TABLES: &[Table] = &[
    Table {
        names: "yamllint",
        options: "-d,--config-data=V -f,--format={parsable|standard|colored|github|auto} --list-files -s,--strict --no-warnings -v,--version -h,--help -q \
            -c,--config-file={.yamllint|.yamllint.yml|.yamllint.yaml}",
        special: Some(yamllint),
        ..TOOL
    },
    Table {
        names: "pyright basedpyright",
        options: "--outputjson --warnings --stats --verbose --level=D --pythonversion=D --pythonplatform=D --skipunannotated --dependencies \
            --verifytypes=D --ignoreexternal --version --help -h -p,--project={pyrightconfig.json|pyproject.toml} \
            !--pythonpath=P !-v,--venvpath=L !-t,--typeshedpath=L",
        operands: Operands::Special,
        special: Some(no_list),
        ..TOOL
    },
    Table {
        names: "pyre",
        options: "-n,--noninteractive --strict --version -h,--help --output={text|json|sarif} --exclude=V",
        ..TOOL
    },
    Table {
        names: "ty",
        options: "--error=D --warn=D --ignore=D --error-on-warning --exit-zero --output-format={full|concise|gitlab|github} --python-version=D \
            --python-platform=D --exclude=V -q,--quiet -v,--verbose --no-progress --color=D --version -h,--help",
        ..TOOL
    },
    Table {
        names: "pytype",
        options: "-k,--keep-going -j,--jobs=D -x,--exclude=+V -V,--python-version=D -v,--verbosity=D -n,--no-cache -d,--disable=D \
            -e,--enable-only=D --version -h,--help",
        ..TOOL
    },
    Table {
        names: "vulture",
        options: "--min-confidence=D --sort-by-size --exclude=V --ignore-decorators=D --ignore-names=D --make-whitelist -v,--verbose \
            --version -h,--help --config={pyproject.toml}",
        ..TOOL
    },
    Table {
        names: "bandit",
        options: "-r,--recursive -a,--aggregate={file|vuln} -n,--number=D -t,--tests=D -s,--skip=D -l,--level -ll -lll --severity-level=D \
            -i,--confidence -ii -iii --confidence-level=D -f,--format={csv|html|json|screen|txt|xml|yaml|sarif} -v,--verbose -d,--debug \
            -q,--quiet,--silent --ignore-nosec -x,--exclude=V --exit-zero --version -h,--help \
            -c,--configfile={pyproject.toml|.bandit|bandit.yaml} -o,--output=*W !--ini=R !-b,--baseline=R !--msg-template=D",
        ..TOOL
    },
    Table {
        names: "pydocstyle",
        options: "-e,--explain -s,--source -d,--debug -v,--verbose --count --match=D --match-dir=D --ignore-decorators=D \
            --property-decorators=D --ignore-self-only-init --select=D --ignore=D --add-select=D --add-ignore=D --convention=D --version \
            -h,--help --config={pyproject.toml|setup.cfg|tox.ini|.pydocstyle}",
        ..TOOL
    },
    Table {
        names: "codespell",
        options: "-d,--disable-colors -c,--enable-colors -w,--write-changes --builtin=D --ignore-regex=D -L,--ignore-words-list=D \
            --uri-ignore-words-list=D -I,--ignore-words=R -x,--exclude-file=R -s,--summary --count -S,--skip=V -i,--interactive=D \
            -q,--quiet-level=D -e,--hard-encoding-detection -f,--check-filenames -H,--check-hidden -A,--after-context=D \
            -B,--before-context=D -C,--context=D --stdin-single-line --version -h,--help --config={pyproject.toml|setup.cfg|.codespellrc} \
            --toml={pyproject.toml}",
        operands: Operands::WrittenWith("-w"),
        special: Some(codespell),
        ..TOOL
    },
    Table {
        names: "autopep8",
        options: "-v,--verbose -d,--diff -i,--in-place -p,--pep8-passes=D -a,--aggressive --experimental --exclude=V --list-fixes --ignore=D \
            --select=D --max-line-length=D --hang-closing --exit-code -r,--recursive -j,--jobs=D --indent-size=D --ignore-local-config \
            --version -h,--help !--global-config=R",
        operands: Operands::WrittenWith("-i"),
        ..TOOL
    },
    Table {
        names: "yapf",
        options: "-d,--diff -i,--in-place -q,--quiet -l,--lines=D -r,--recursive -e,--exclude=V --style={pep8|google|facebook|yapf} --style-help \
            --no-local-style -p,--parallel -m,--print-modified -vv,--verbose -v,--version -h,--help",
        operands: Operands::WrittenWith("-i"),
        ..TOOL
    },
    Table {
        names: "interrogate",
        options: "-v,--verbose -q,--quiet -f,--fail-under=D -e,--exclude=V -i,--ignore-init-method -I,--ignore-init-module -m,--ignore-magic \
            -M,--ignore-module -n,--ignore-nested-functions -C,--ignore-nested-classes -O,--ignore-overloaded-functions -p,--ignore-private \
            -P,--ignore-property-decorators -S,--ignore-setters -s,--ignore-semiprivate -r,--ignore-regex=D -w,--whitelist-regex=D --style=D \
            --color --no-color --omit-covered-files --version -h,--help -c,--config={pyproject.toml|setup.cfg} !-o,--output=W \
            !-g,--generate-badge=W",
        ..TOOL
    },
    Table {
        names: "radon",
        options: "-h,--help -v,--version",
        subcommands: &[
            Table {
                names: "cc",
                options: radon!("-n,--min=D -x,--max=D -s,--show-complexity -a,--average --total-average -o,--order=D"),
                ..TOOL
            },
            Table { names: "mi", options: radon!("-n,--min=D -x,--max=D -m,--multi -s,--show --sort"), ..TOOL },
            Table { names: "raw", options: radon!("-s,--summary"), ..TOOL },
            Table { names: "hal", options: radon!("-f,--functions"), ..TOOL },
        ],
        ..GROUP
    },
    Table {
        names: "pyupgrade",
        options: "--help,-h --py3-plus --py3-only --py36-plus --py37-plus --py38-plus --py39-plus --py310-plus --py311-plus --py312-plus \
            --py313-plus --py314-plus --keep-percent-format --keep-mock --keep-runtime-typing --exit-zero-even-if-changed",
        operands: Operands::WrittenWithout("--help"),
        ..TOOL
    },
    Table {
        names: "sphinx-build",
        options: "-b=N -W -n -q -Q -E -a -T -v -N -w=W -j,--jobs=D -d,--doctree-dir=O --keep-going --color --no-color --fail-on-warning --nitpicky \
            --version -h,--help -M=N !-c=L !-C !-D=P !-A=P !-t=P !-P !--pdb",
        operands: Operands::Special,
        special: Some(documentation),
        ..TOOL
    },
    Table {
        names: "mkdocs",
        options: "~-q,--quiet ~-v,--verbose ~-V,--version ~-h,--help",
        subcommands: &[Table {
            names: "build",
            options: "-c,--clean --dirty --no-directory-urls -s,--strict -d,--site-dir=O -q,--quiet -v,--verbose -h,--help !-t,--theme=N !-f,--config-file=R",
            operands: Operands::None,
            ..TOOL
        }],
        ..GROUP
    },
    Table {
        names: "deptry",
        options: "-v,--verbose --no-ansi -e,--exclude=D --extend-exclude=D -i,--ignore=D --per-rule-ignores=D -o,--json-output=W --github-output \
            --version -h,--help --config={pyproject.toml} !--requirements-files=P",
        ..TOOL
    },
    Table {
        names: "lint-imports",
        options: "--contract=D --cache-dir=O --no-cache --show-timings --verbose --debug --version --help --config={.importlinter|pyproject.toml|setup.cfg}",
        operands: Operands::None,
        ..TOOL
    },
    Table {
        names: "djlint",
        options: "--check --lint --reformat --profile=N --indent=D --quiet --warn --ignore=D --include=D -e,--extension=N --statistics --require-pragma \
            --max-line-length=D --github-output --version -h,--help --configuration={pyproject.toml|.djlintrc|djlint.toml}",
        operands: Operands::WrittenWith("--reformat"),
        ..TOOL
    },
    Table {
        names: "twine",
        options: "--version -h,--help --no-color",
        subcommands: &[Table { names: "check", options: "--strict -h,--help", ..TOOL }],
        ..GROUP
    },
];

// `sphinx-build -b html docs docs/_build`: the sources with their configuration, and what is made of them.
fn documentation(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    for (at, word) in words.iter().enumerate() {
        match at {
            1 => call.effect(Effect::WriteTree, word),
            _ => call.inside(word)?,
        }
    }
    Ok(())
}

// The configuration of `-d` is YAML, which has more spellings of a path than one.
fn yamllint(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.values("-d").into_iter().find(|word| word.text.contains(['\\', '!', '&', '*', '<'])) {
        Some(word) if !call.is_open() => Err(call.deny(format!("`{}` may name a file in another spelling", word.text))),
        Some(_) | None => Ok(()),
    }
}

fn codespell(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.has("-H") {
        call.takes_in_all();
    }
    Ok(())
}

// Refuses the standard input, on which some tools take the names of the files.
pub(super) fn no_list(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    match words.iter().find(|word| word.text == "-") {
        Some(_) => Err(call.deny("the files that its standard input lists are not known")),
        None => words.iter().try_for_each(|word| call.inside(word)),
    }
}
