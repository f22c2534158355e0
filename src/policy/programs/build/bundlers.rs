//! Tables for what bundles, generates and documents web projects.

use super::{Call, Denial, GROUP, Operands, Style, TASKS, TOOL, Table, Word};

/// A tool whose words are read by yargs, minimist or the like: a letter with letters after it takes no value there.
const YARGS: Table = Table { style: Style::Last, ..TOOL };

const JEST: &str = "--watchAll=?D --watch=?D --no-watch --coverage --ci --silent --verbose -u,--updateSnapshot -i,--runInBand --passWithNoTests -t,--testNamePattern=D \
    --maxWorkers=D --bail=?D --findRelatedTests --env={jsdom|node} --help";

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "webpack",
        options: "--mode={production|development|none} --progress=?D --json=*W --color --no-color --stats=D -d,--devtool=D --no-devtool --bail --profile \
            --node-env=N -t,--target=N -w,--watch -o,--output-path=O --fail-on-warnings -v,--version -h,--help --env=V \
            -c,--config={webpack.*} !--entry=R !--config-name=P !-m,--merge !--analyze",
        operands: Operands::Special,
        special: Some(bundle),
        ..YARGS
    },
    Table {
        names: "commitlint",
        options: "-f,--from=G -t,--to=G -V,--verbose -l,--last -q,--quiet -c,--color -s,--strict -e,--edit=*R -v,--version -h,--help \
            -g,--config={commitlint.config.*|.commitlintrc|.commitlintrc.*} !-x,--extends=P !-p,--parser-preset=P !-o,--format=P !-d,--cwd=E",
        operands: Operands::None,
        ..YARGS
    },
    Table {
        names: "storybook",
        options: "-v,--version -h,--help",
        subcommands: &[Table {
            names: "build",
            options: "-o,--output-dir=O --quiet --disable-telemetry --docs --test --loglevel=N --stats-json=?W -h,--help -c,--config-dir={.storybook} !--debug-webpack",
            operands: Operands::None,
            ..YARGS
        }],
        ..GROUP
    },
    Table {
        names: "prisma",
        options: "-v,--version -h,--help",
        subcommands: &[Table {
            names: "generate validate version",
            options: "--schema=R --no-hints --no-engine -h,--help !--generator=P !--config=R",
            operands: Operands::None,
            ..YARGS
        }],
        ..GROUP
    },
    Table {
        names: "graphql-codegen",
        options: "--check -v,--verbose -s,--silent -e,--errors-only --version -h,--help -c,--config={codegen.*|.graphqlrc.*} !-r,--require=R !-w,--watch",
        operands: Operands::None,
        ..YARGS
    },
    Table {
        names: "typedoc",
        options: "--out=O --json=W --entryPoints=+R --tsconfig=R --emit={docs|none|both} --treatWarningsAsErrors --logLevel=N --version --help \
            --options={typedoc.*} !--plugin=P !--theme=P",
        ..YARGS
    },
    Table {
        names: "size-limit",
        options: "--json --silent --version --help !--why",
        operands: Operands::None,
        ..YARGS
    },
    Table {
        names: "madge",
        options: "-c,--circular -j,--json --extensions=D --orphans --leaves -s,--summary --no-spinner --no-color --warning -x,--exclude=D --ts-config=R \
            -d,--depends=D -V,--version -h,--help !-i,--image=W !--webpack-config=R !--require-config=R !-b,--basedir=L !--stdin",
        ..YARGS
    },
    Table {
        names: "publint attw",
        options: "--strict --level=N --pack=?N --ignore-rules=+N --profile=N -f,--format=N --no-color --color -q,--quiet --no-summary --no-emoji --version \
            --help !-p,--from-npm !--config-path=R !--registry=P",
        ..YARGS
    },
    Table {
        names: "karma",
        options: "--version --help",
        subcommands: &[Table {
            names: "start",
            options: "--single-run --no-auto-watch --log-level=N --fail-on-empty-test-suite --browsers={Chrome|ChromeHeadless|ChromeHeadlessCI|Firefox|FirefoxHeadless} \
                --help !--reporters=P !--plugins=P",
            operands: Operands::None,
            ..YARGS
        }],
        ..GROUP
    },
    Table {
        names: "react-scripts",
        options: "",
        subcommands: &[
            Table { names: "test", options: JEST, ..YARGS },
            Table { names: "build", options: "--stats --profile", operands: Operands::None, ..YARGS },
        ],
        ..GROUP
    },
    Table {
        names: "nest",
        options: "-v,--version -h,--help",
        subcommands: &[Table {
            names: "build",
            options: "--tsc --webpack -b,--builder={tsc|webpack|swc} --type-check --all -h,--help !-p,--path=R !-c,--config=R !--exec=P",
            operands: Operands::Special,
            special: Some(super::web::projects),
            ..YARGS
        }],
        ..GROUP
    },
    Table {
        names: "nuxt nuxi",
        options: "--version --help",
        subcommands: &[Table {
            names: "build typecheck prepare generate",
            options: "--prerender --preset=N --logLevel=N --help !--dotenv=R !--cwd=E",
            ..YARGS
        }],
        ..GROUP
    },
    Table {
        names: "vue-cli-service",
        options: "--version --help",
        subcommands: &[
            Table {
                names: "build",
                options: "--mode=N --dest=O --no-clean --report --report-json --modern --target={app|lib|wc|wc-async} --name=N --no-module --help",
                ..YARGS
            },
            Table {
                names: "lint",
                options: "--fix --no-fix --max-errors=D --max-warnings=D --format={stylish|compact|json|unix|junit|checkstyle|html} --help",
                operands: Operands::WrittenWithout("--no-fix"),
                ..YARGS
            },
            Table { names: "test:unit", options: JEST, ..YARGS },
        ],
        ..GROUP
    },
    Table {
        names: "parcel",
        options: "-V,--version -h,--help",
        subcommands: &[Table {
            names: "build",
            options: "--dist-dir=O --public-url=D --no-cache --no-source-maps --no-optimize --no-content-hash --log-level=N --target=N --cache-dir=O --help \
                !--config=P !--reporter=P !--no-autoinstall",
            ..YARGS
        }],
        ..GROUP
    },
    // Scripts of the project by their names; a name with a star would choose any.
    Table {
        names: "run-s run-p npm-run-all npm-run-all2",
        options: "-s,--sequential,--serial -p,--parallel --silent -c,--continue-on-error -l,--print-label -n,--print-name --aggregate-output -r,--race \
            --max-parallel=D -v,--version -h,--help !!--npm-path=P",
        operands: Operands::Tasks(""),
        ..TASKS
    },
];

// `webpack build src/a.js`: other words are commands that start servers or write configurations.
fn bundle(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    let skipped = usize::from(words.first().is_some_and(|word| matches!(word.text.as_str(), "build" | "bundle" | "b")));
    let is_file = |word: &Word| word.text.contains(['.', '/']);
    match words[skipped..].iter().find(|word| !is_file(word)) {
        Some(word) if !call.is_open() => Err(call.deny(format!("`{}` is not known to be harmless", word.text))),
        _ => words[skipped..].iter().try_for_each(|word| call.inside(word)),
    }
}
