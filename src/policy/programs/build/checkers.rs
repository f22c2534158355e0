//! Tables for checkers of single kinds of files.

use super::{Call, Denial, GROUP, Operands, Style, TOOL, Table};
use crate::path::Node;
use crate::policy::names::named;

/// A checker that is written in Go: long options with one dash or two.
const GO: Table = Table { style: Style::SingleDash, dash_values: true, ..TOOL };

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "markdownlint",
        options: "-f,--fix -d,--dot -j,--json -q,--quiet -s,--stdin -i,--ignore=D --enable=+D --disable=+D -V,--version -h,--help -o,--output=W \
            !-c,--config=R !-r,--rules=P !-p,--ignore-path=R",
        operands: Operands::WrittenWith("-f"),
        special: Some(takes_in_hidden),
        ..TOOL
    },
    Table {
        names: "shfmt",
        options: "-l,-list -d,-diff -w,-write -i,-indent=D -ci,-case-indent -bn,-binary-next-line -s,-simplify -sr,-space-redirects -kp,-keep-padding \
            -fn,-func-next-line -mn,-minify -ln,-language-dialect=D -p,-posix -f,-find -apply-ignore -filename=L -h,-help -version",
        operands: Operands::WrittenWith("-w"),
        ..GO
    },
    Table {
        names: "hadolint",
        options: "-f,--format={tty|json|checkstyle|codeclimate|gitlab_codeclimate|gnu|codacy|sonarqube|sarif} --no-fail --no-color -V,--verbose \
            -v,--version -h,--help --ignore=D --error=D --warning=D --info=D --style=D -t,--failure-threshold=D --trusted-registry=D \
            --strict-labels --disable-ignore-pragma !-c,--config=R",
        ..TOOL
    },
    Table {
        names: "actionlint",
        options: "-color -no-color -verbose -oneline -version -h,-help -format={json|tty|sarif} -ignore=D !-config-file=R !!-shellcheck=D !!-pyflakes=D",
        ..GO
    },
    Table {
        names: "editorconfig-checker",
        options: "-exclude=D -format={default|gcc|github-actions|codeclimate} -color -no-color -v,-verbose -version -h,-help -dry-run \
            -ignore-defaults !-config=R",
        ..GO
    },
    Table {
        names: "markdownlint-cli2",
        options: "--fix --no-globs --format -h,--help !--config=R",
        operands: Operands::WrittenWith("--fix"),
        ..TOOL
    },
    Table {
        names: "cspell",
        options: "--exclude=D -e=D --no-progress --no-summary --quiet -u,--unique --words-only --color --no-color --show-context --show-suggestions \
            --locale=N --language-id=N --gitignore --dot --cache -v,--verbose -V,--version -h,--help !-c,--config=R !-r,--root=L \
            !--file-list=F",
        operands: Operands::Special,
        special: Some(checker),
        ..TOOL
    },
    Table {
        names: "typos",
        options: "-w,--write-changes --diff --files --file-types --words --identifiers --exclude=D --hidden --no-ignore --no-check-filenames \
            --no-check-files --format={silent|brief|long|json|sarif} -q,--quiet -v,--verbose --color=D -j,--threads=D --locale=D --sort --isolated \
            -V,--version -h,--help !-c,--config=R !--file-list=F",
        operands: Operands::WrittenWith("-w"),
        special: Some(takes_in_hidden),
        ..TOOL
    },
    Table {
        names: "taplo",
        options: "--check --diff --colors=D --verbose --no-auto-config --no-schema -V,--version -h,--help !-c,--config=R",
        operands: Operands::Special,
        special: Some(checker),
        ..TOOL
    },
    Table {
        names: "dprint",
        options: "--check --diff --excludes=+D --incremental=?D --allow-no-files --staged --list-different --log-level=D --verbose -V,--version \
            -h,--help !-c,--config=R !--plugins=+P",
        operands: Operands::Special,
        special: Some(checker),
        ..TOOL
    },
    Table {
        names: "terraform tofu",
        options: "~-version ~-help !-chdir=E",
        style: Style::SingleDash,
        subcommands: &[
            Table {
                names: "fmt",
                options: "-check -recursive -diff -list=?D -write=?D -no-color -help",
                operands: Operands::WrittenWithout("-check"),
                ..GO
            },
            Table { names: "validate", options: "-json -no-color -no-tests -help !-test-directory=L !-var=P", ..GO },
            Table { names: "version", options: "-json", operands: Operands::None, ..GO },
        ],
        ..GROUP
    },
    Table {
        names: "tflint",
        options: "--recursive -f,--format={default|json|checkstyle|junit|compact|sarif} --color --no-color --minimum-failure-severity=D --only=D \
            --enable-rule=D --disable-rule=D --force --fix --call-module-type=D --filter=X --chdir=E -v,--version -h,--help --max-workers=D \
            -c,--config={.tflint.hcl} !--init !--langserver !--var=P !--var-file=R !--enable-plugin=P !--ignore-module=P",
        operands: Operands::WrittenWith("--fix"),
        ..TOOL
    },
    Table {
        names: "helm",
        options: "~-h,--help ~--debug !-n,--namespace=N !--kubeconfig=R !--kube-context=P !--registry-config=R !--repository-config=R",
        subcommands: &[Table {
            names: "lint template",
            options: "-f,--values=V --set=D --set-string=D --strict --quiet --with-subcharts --kube-version=D -n,--namespace=N --debug -s,--show-only=D \
                --include-crds --skip-tests --skip-schema-validation --no-hooks --is-upgrade -a,--api-versions=D --output-dir=O -h,--help \
                !--set-file=P !--set-json=P !--set-literal=P !--validate !--dependency-update !--repo=P !!--post-renderer=P \
                !!--post-renderer-args=P !--name-template=P !-g,--generate-name !--ca-file=R !--keyring=R !--version=D",
            operands: Operands::Special,
            special: Some(chart),
            ..TOOL
        }],
        ..GROUP
    },
    Table {
        names: "ansible-lint",
        options: "-q,--quiet -v -p,--parseable --nocolor --force-color -f,--format={brief|full|md|json|codeclimate|quiet|pep8|sarif} --strict \
            -t,--tags=D -x,--skip-list=D -w,--warn-list=D --enable-list=D --exclude=+V --offline -L,--list-rules -T,--list-tags \
            --profile={min|basic|moderate|safety|shared|production} --fix=?D --sarif-file=W -i,--ignore-file=R --version -h,--help \
            -c,--config-file={.ansible-lint|.ansible-lint.yml|.ansible-lint.yaml} !-r,--rules-dir=L !-R !--project-dir=L !--generate-ignore",
        operands: Operands::WrittenWith("--fix"),
        ..TOOL
    },
    Table {
        names: "sqlfluff",
        options: "--version -h,--help",
        subcommands: &[
            Table {
                names: "lint",
                options: "-d,--dialect=N -f,--format={human|json|yaml|github-annotation|github-annotation-native|none} -r,--rules=D \
                    -e,--exclude-rules=D -p,--processes=D -t,--templater={raw|jinja|python|placeholder} --nofail -n,--nocolor -v,--verbose \
                    --disable-progress-bar --bench --ignore=D --ignore-local-config --encoding=N --warn-unused-ignores --write-output=W \
                    -h,--help !--config=R !--library-path=L !--persist-timing=W --stdin-filename=L",
                ..TOOL
            },
            Table { names: "version dialects rules", options: "-v,--verbose", operands: Operands::None, ..TOOL },
        ],
        ..GROUP
    },
    Table {
        names: "buf",
        options: "~--version ~-h,--help ~--debug ~-v,--verbose",
        subcommands: &[
            Table {
                names: "lint",
                options: "--path=T --exclude-path=L --error-format={text|json|msvs|junit|github-actions|config-ignore-yaml} --timeout=D --debug \
                -v,--verbose -h,--help --disable-symlinks --config={buf.yaml} !--against=P",
                operands: Operands::Special,
                special: Some(module),
                ..TOOL
            },
            Table {
                names: "format",
                options: "-d,--diff -w,--write --exit-code --path=T --exclude-path=L --error-format={text|json|msvs} -o,--output=W --debug -h,--help \
                --disable-symlinks --config={buf.yaml}",
                operands: Operands::Special,
                special: Some(module),
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "buildifier",
        options: "-mode={check|diff|fix|print_if_changed} -lint={off|warn|fix} -r -v -type=N -warnings=D -format={text|json} -version -help !!-diff_command=P \
            !-config=R !-tables=R !-add_tables=R !-path=P",
        operands: Operands::WrittenWithout("-version"),
        ..GO
    },
    Table {
        names: "hlint",
        options: "-i,--ignore=D --report=?W -j,--threads=?D -g,--git -s,--show -q,--quiet -v,--verbose --json --sarif --no-exit-code --only=D --with-group=D \
            -X,--language=D --color=?D --no-summary -V,--version -?,--help -h,--hint={.hlint.yaml} !--refactor !!--refactor-options=P !!--with-refactor=P \
            !--cpp-include=L !--cpp-file=R !-d,--datadir=L !-p,--path=L",
        ..TOOL
    },
    Table {
        names: "ormolu fourmolu",
        options: "-m,--mode={check|inplace|stdout} -i -q,--quiet --no-cabal -c,--check-idempotence --color=D -u,--unsafe -v,--version -h,--help --stdin-input-file=L \
            !-o,--ghc-opt=P !-f,--fixity=P !-p,--package=P --config=R",
        operands: Operands::WrittenWith("-i,-m"),
        ..TOOL
    },
    Table {
        names: "kubeconform",
        options: "-strict -summary -verbose -n=D -output={json|junit|pretty|tap|text} -kubernetes-version=D -ignore-missing-schemas \
            -ignore-filename-pattern=D -skip=D -reject=D -exit-on-error -debug -h,-help -v -schema-location={default} !-cache=O \
            !-insecure-skip-tls-verify",
        ..GO
    },
];

fn takes_in_hidden(call: &mut Call<'_>) -> Result<(), Denial> {
    if ["--hidden", "--no-ignore", "--dot", "-d", "-H"].iter().any(|option| call.has(option)) {
        call.takes_in_all();
    }
    Ok(())
}

// `taplo fmt a.toml`, `cspell lint src`: some have subcommands, of which others start servers or change settings. `--diff`
// prints what a formatter then writes.
fn checker(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    let verbs: &[&str] = match call.name.as_str() {
        "taplo" => &["check", "lint", "format", "fmt"],
        "dprint" => &["check", "fmt", "output-file-paths", "output-resolved-config"],
        _ => &["lint", "check"],
    };
    if call.name == "cspell" {
        takes_in_hidden(call)?;
    }
    let first = words.first().map_or("", |word| word.text.as_str());
    let changes = ["lsp", "link", "init", "config", "add", "upgrade"];
    let refused = if call.name == "cspell" { changes.contains(&first) } else { !verbs.contains(&first) };
    if !call.is_open() && refused && !first.is_empty() {
        return Err(call.deny(format!("`{first}` is not known to be harmless")));
    }
    let writes = matches!(first, "format" | "fmt") && !call.has("--check");
    words.iter().skip(usize::from(verbs.contains(&first))).try_for_each(|word| call.formatted(word, writes))
}

// `helm template NAME DIRECTORY`: a chart that is no directory of the workspace would be fetched.
fn chart(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    let named = usize::from(call.name.ends_with(" template") && words.len() == 2);
    for word in &words[named..] {
        call.inside(word)?;
        if !call.is_open() && call.node(&word.text)? != Some(Node::Dir) {
            return Err(call.deny(format!("`{}` is not a directory of the workspace", word.text)));
        }
    }
    Ok(())
}

// `buf lint proto`; another input is fetched, or taken from a repository (`x.git#branch=main`).
fn module(call: &mut Call<'_>) -> Result<(), Denial> {
    for word in call.operands.clone() {
        call.inside(&word)?;
        if !call.is_open() && call.node(&word.text)?.is_none() {
            return Err(call.deny(format!("`{}` is not in the workspace", word.text)));
        }
        if call.has("-w") {
            call.formatted(&word, true)?;
        }
    }
    Ok(())
}

// `mix credo gen.config` writes a file that no word names.
pub(super) fn no_generator(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    match words.iter().find(|word| word.text.starts_with("gen.")) {
        Some(word) if !call.is_open() => Err(call.deny(format!("`{}` writes a file of its own choice", word.text))),
        _ => words.iter().try_for_each(|word| call.inside(word)),
    }
}

// Its other subcommands serve, or do what is not known; before version 1 it had none.
pub(super) fn csharpier(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.operands.first().cloned() {
        Some(word) if !named("format check", &word.text) && call.node(&word.text)?.is_none() => {
            Err(call.deny(format!("`{}` is neither `format`, `check` nor a file or directory", word.text)))
        }
        Some(_) | None => Ok(()),
    }
}
