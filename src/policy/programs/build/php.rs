//! Tables for the tools of PHP.

use super::others::passes_all;
use super::{Call, Dashes, Denial, GROUP, LAUNCHER, Operands, Style, TOOL, Table, Word};
use crate::policy::names::named;
use crate::policy::programs::unknown::words_as_paths;

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "php",
        options: "-l -n -v,--version -m -i,--info -h,--help -d={memory_limit*|memory_limit=-1|memory_limit=128M|memory_limit=256M|memory_limit=512M|memory_limit=768M|memory_limit=1024M|memory_limit=2048M|memory_limit=1G|memory_limit=2G|memory_limit=4G|xdebug.mode=off|xdebug.mode=coverage} !!-r=D !-c=R !-z=R !-S=P !-t=L !-f=R",
        operands: Operands::Special,
        style: Style::First,
        special: Some(php),
        ..TOOL
    },
    Table {
        names: "composer",
        options: "~-q,--quiet ~-n,--no-interaction ~-v ~-vv ~-vvv,--verbose ~--no-ansi ~--ansi ~--no-plugins ~--no-cache ~--version ~-V ~--profile ~--no-scripts !-d,--working-dir=E",
        subcommands: &[
            Table {
                names: "show outdated check-platform-reqs licenses diagnose why why-not depends prohibits audit status fund",
                options: "--no-dev --strict --no-check-all --no-check-lock --no-check-publish --no-check-version --with-dependencies -A --format=D -f=D -q,--quiet -n,--no-interaction --direct -D --tree -t --installed -i --latest -l --minor-only -m --locked --no-ansi --ansi -v --self --platform -p --name-only -N --lock --all",
                operands: Operands::Data,
                ..TOOL
            },
            Table {
                names: "validate",
                options: "--no-dev --strict --no-check-all --no-check-lock --no-check-publish --no-check-version --with-dependencies -A -q,--quiet -n,--no-interaction --no-ansi --ansi -v",
                ..TOOL
            },
            Table {
                names: "dump-autoload dumpautoload install",
                options: "-o,--optimize -a,--classmap-authoritative --no-dev --no-scripts --no-interaction -n --prefer-dist --no-progress -q,--quiet --no-plugins --strict-psr",
                operands: Operands::None,
                ..TOOL
            },
            Table {
                names: "run-script run",
                options: "~-q,--quiet ~-n,--no-interaction ~--dev ~--no-dev ~-v ~--timeout=D ~-l,--list ~--no-ansi ~--ansi",
                operands: Operands::Script,
                dashes: Dashes::Passed,
                ..TOOL
            },
            Table { names: "exec", options: "~-q,--quiet ~-n,--no-interaction ~-l,--list ~-v", ..LAUNCHER },
            Table {
                names: "require update remove global config create-project init self-update archive browse clear-cache search reinstall bump",
                operands: Operands::Special,
                special: Some(refused),
                ..TOOL
            },
            Table {
                names: "*",
                options: "~-q,--quiet ~-n,--no-interaction ~-v ~--no-ansi ~--ansi ~--timeout=D",
                operands: Operands::Special,
                special: Some(passes_all),
                dashes: Dashes::Passed,
                ..TOOL
            },
        ],
        ..GROUP
    },
    Table {
        names: "phpunit pest paratest",
        options: "--filter=D --exclude-filter=D --group=A --exclude-group=A --testsuite=D --exclude-testsuite=D --testdox --no-testdox --colors=?D --no-coverage --stop-on-failure --stop-on-error --stop-on-defect --stop-on-warning --stop-on-risky --stop-on-skipped --stop-on-incomplete --list-tests --list-suites --list-groups -v,--verbose --debug --no-progress --no-results --no-output \
            --order-by=D --random-order --random-order-seed=D --fail-on-warning --fail-on-risky --fail-on-skipped --fail-on-incomplete --fail-on-deprecation --fail-on-notice --fail-on-empty-test-suite --do-not-cache-result --cache-result --display-deprecations --display-warnings --display-notices --display-skipped --display-incomplete --display-errors --display-all-issues --dont-report-useless-tests \
            --repeat=D --teamcity --coverage-text=?W --covers=D --uses=D --disallow-test-output --process-isolation --columns=D --reverse-list --no-extensions --version -h,--help --parallel --processes=D -p=?D --compact --bail --retry --dirty --ci --coverage --min=D --type-coverage --profile --todos --mutate --shard=D \
            --log-junit=W --testdox-html=W --testdox-text=W --coverage-html=O --coverage-clover=W --coverage-xml=O --coverage-cobertura=W --coverage-filter=R --log-teamcity=W --test-suffix=D --strict-coverage --no-logging --path-coverage --disable-coverage-ignore \
            -c,--configuration={phpunit.xml|phpunit.xml.dist|phpunit.dist.xml} !--bootstrap=R !--include-path=L !-d=P !--printer=P !--extension=P !--loader=P !--no-configuration !--cache-directory=O !--generate-configuration !--migrate-configuration !--prepend=R !--coverage-php=W !--runner=P !$--passthru-php=P",
        special: Some(test_files),
        ..TOOL
    },
    Table {
        names: "phpstan php-cs-fixer pint rector infection",
        options: "--memory-limit=D --error-format=D --no-progress --level,-l=D --ansi --no-ansi -q,--quiet -n,--no-interaction -v,--verbose -vv -vvv --debug --xdebug -V,--version -h,--help --threads=D --no-diff --diff -s -p \
            --parallel=?D --dry-run --using-cache=D --allow-risky=D --rules=A --path-mode=D --format=D --output-format=D --show-progress=D --test --dirty --preset={laravel|psr12|per|symfony|empty} --stop-on-violation --clear-cache --repair --sequential \
            --min-msi=D --min-covered-msi=D --generate-baseline=*W --allow-empty-baseline --use-baseline=R --fail-without-result-cache --no-cache \
            -c,--config,--configuration={phpstan.neon|phpstan.neon.dist|phpstan.dist.neon|.php-cs-fixer.*|.php-cs-fixer.dist.php|pint.json|rector.php} !-a,--autoload-file=R !--bootstrap=R !-d=P !--init !--test-framework-options=P !$--initial-tests-php-options=P",
        operands: Operands::Special,
        special: Some(php_verb),
        ..TOOL
    },
    Table {
        names: "psalm",
        options: "--memory-limit=D --no-progress --ansi --no-ansi -v,--version -h,--help --no-cache --show-info=D --threads=D --stats --output-format=D --find-dead-code=?D --alter --issues=D --no-diff --diff --dry-run --error-level=D \
            --monochrome -m --long-progress --use-baseline=R --clear-cache --debug \
            -c,--config={psalm.xml|psalm.xml.dist} !--plugin=P !--root,-r=L !-f=R !--init,-i !--taint-analysis",
        operands: Operands::Special,
        special: Some(php_verb),
        ..TOOL
    },
    Table {
        names: "phpcs phpcbf",
        options: "-q -n -w -v -vv -vvv -s -p -l -a -e --colors --no-colors --no-cache --extensions={php|inc|phtml|module|install|theme|profile|js|css} --ignore=D --report={full|summary|json|diff|source|emacs|checkstyle|junit} --warning-severity=D --error-severity=D --severity=D --parallel=D \
            --standard={phpcs.xml|phpcs.xml.dist|.phpcs.xml|.phpcs.xml.dist|PSR1|PSR2|PSR12|PEAR|Squiz|Generic|Zend|PSR-*} --report-width=D --tab-width=D --encoding=N --version -h,--help !-d=P !--bootstrap=R !--runtime-set=P !--installed_paths=P",
        operands: Operands::Special,
        special: Some(php_verb),
        ..TOOL
    },
    Table {
        names: "phan",
        options: "-p,--progress-bar -q,--quick --version -v -h,--help --no-progress-bar --color --no-color -j,--processes=D -y,--minimum-severity=D -m,--output-mode=N !-l,--directory=T !-f,--file-list=F !-r !-o,--output=W !-k,--config-file=R",
        operands: Operands::Special,
        special: Some(php_verb),
        ..TOOL
    },
];

fn refused(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.is_open() {
        true => words_as_paths(call, &call.operands.clone()),
        false => Err(call.deny("it changes what is installed")),
    }
}

// Files that end so are run as tests, and printed where they are no PHP.
fn test_files(call: &mut Call<'_>) -> Result<(), Denial> {
    for ends in call.values("--test-suffix") {
        for end in ends.text.split(',') {
            if !call.is_open() && !end.ends_with(".php") && !end.ends_with(".phpt") {
                return Err(call.deny(format!("what ends with `{end}` may be no test")));
            }
            call.pattern(&format!("*{end}"), false, false)?;
        }
    }
    Ok(())
}

/// What commands of a framework are given that print what it knows of the project, or check it.
const SHOWN: Table = Table {
    options: "-q,--quiet -v,--verbose -vv --ansi --no-ansi -n,--no-interaction --show-deprecations --show-controllers --json --except-vendor --only-vendor -r,--reverse --format={txt|json|md|github} --path=D --except-path=D --method=D --name=D --action=D --domain=D --sort=D",
    ..TOOL
};

// `php bin/console debug:router`, `php artisan route:list`: the script, its command, and their words.
fn shown(call: &mut Call<'_>, words: &[Word]) -> Result<(), Denial> {
    call.inside(&words[0])?;
    call.operands.clear();
    call.found.clear();
    call.apply(&SHOWN, &words[2..])
}

// `php -l FILE`, `php artisan test`, and tools of installed packages.
fn php(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    if call.has("-l") {
        return words.iter().try_for_each(|word| call.inside(word));
    }
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    match texts.as_slice() {
        ["artisan", "test", rest @ ..] => {
            let tool = [vec![Word::literal("phpunit")], words[words.len() - rest.len()..].to_vec()].concat();
            // Its options are those of phpunit.
            call.out.starts.push(tool);
            Ok(())
        }
        ["artisan", verb, ..] if named("route:list about list", verb) => shown(call, &words),
        ["bin/console", verb, ..]
            if verb.starts_with("lint:") || named("about list debug:router debug:autowiring", verb) =>
        {
            shown(call, &words)
        }
        [tool, ..]
            if ["vendor/bin/", "bin/phpunit"].iter().any(|start| tool.trim_start_matches("./").starts_with(start)) =>
        {
            call.out.starts.push(words);
            Ok(())
        }
        [] if ["-m", "-i", "-v"].iter().any(|option| call.has(option)) => Ok(()),
        _ => Err(call.deny("it runs any script")),
    }
}

// `phpstan analyse src`, `psalm`, `php-cs-fixer fix --dry-run`.
fn php_verb(call: &mut Call<'_>) -> Result<(), Denial> {
    let verbs = ["analyse", "analyze", "fix", "check", "process", "list-files", "describe", "clear-result-cache"];
    let words = call.operands.clone();
    let skipped = usize::from(words.first().is_some_and(|word| verbs.contains(&word.text.as_str())));
    // What these do first is a word: others of them update the program or write into the project.
    if let (0, Some(word), "phpstan" | "php-cs-fixer" | "rector" | "infection") =
        (skipped, words.first(), call.name.as_str())
    {
        return Err(call.deny(format!("`{}` is not known to be harmless", word.text)));
    }
    let looks = ["--dry-run", "--test"].iter().any(|option| call.has(option));
    let fixes = match call.name.as_str() {
        "phpcbf" | "pint" | "rector" => true,
        "php-cs-fixer" => words.first().is_some_and(|word| word.text == "fix"),
        _ => call.has("--alter"),
    };
    words.iter().skip(skipped).try_for_each(|word| call.formatted(word, fixes && !looks))
}
