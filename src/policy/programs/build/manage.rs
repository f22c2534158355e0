//! Tables for the `manage.py` of a Django project.

use super::{Call, Denial, GROUP, Operands, TOOL, Table, Word};
use crate::policy::names::{base_name, named};

macro_rules! manage {
    ($more:literal) => {
        concat!(
            "-v,--verbosity=D --settings=M --traceback --no-color --force-color --version -h,--help !--pythonpath=L ",
            $more
        )
    };
}

pub(super) const TABLES: &[Table] = &[Table {
    names: "manage.py",
    options: "~--version ~-h,--help",
    subcommands: &[
        Table {
            names: "test",
            options: manage!(
                "--failfast -r,--reverse --parallel=*D --keepdb --noinput,--no-input --tag=D --exclude-tag=D -k=D --debug-sql --debug-mode -b,--buffer \
                --shuffle=*D --timing --durations=D --enable-faulthandler --no-faulthandler -t,--top-level-directory=R -p,--pattern=X --no-logs \
                !--pdb !--testrunner=P"
            ),
            special: Some(labels),
            ..TOOL
        },
        Table {
            names: "check",
            options: manage!("-t,--tag=D --list-tags --deploy --fail-level=D --database=D --skip-checks"),
            special: Some(settings),
            ..TOOL
        },
        Table {
            names: "makemigrations",
            options: manage!("--check --dry-run --noinput,--no-input --skip-checks"),
            special: Some(checked),
            ..TOOL
        },
        Table {
            names: "showmigrations",
            options: manage!("-l,--list -p,--plan --database=N --skip-checks"),
            special: Some(settings),
            operands: Operands::Data,
            ..TOOL
        },
        Table {
            names: "migrate",
            options: manage!("--plan --check --database=N --noinput,--no-input --skip-checks"),
            special: Some(checked),
            operands: Operands::Data,
            ..TOOL
        },
        Table {
            names: "collectstatic",
            options: manage!("--dry-run,-n --noinput,--no-input --skip-checks"),
            special: Some(checked),
            operands: Operands::None,
            ..TOOL
        },
    ],
    ..GROUP
}];

/// `python manage.py test`: the script, and the words after it.
pub(super) fn manage(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = std::mem::take(&mut call.operands);
    let [script, verb, rest @ ..] = words.as_slice() else { return Err(call.deny("it runs any script")) };
    let is_manage = script.literal && base_name(&script.text) == TABLES[0].names;
    let table = TABLES[0].subcommands.iter().find(|table| is_manage && named(table.names, &verb.text));
    let Some(table) = table else { return Err(call.deny("without `-m` it runs any script")) };
    call.inside(script)?;
    call.name = format!("{} {}", script.text, verb.text);
    call.found.clear();
    call.apply(table, rest)
}

/// `python -m build`: what is made of a package by its own backend.
const BUILD: Table = Table {
    options: "-s,--sdist -w,--wheel -o,--outdir=O -n,--no-isolation -x,--skip-dependency-check -v,--verbose -V,--version -h,--help --installer={pip|uv} \
        !-C,--config-setting=P",
    ..TOOL
};

/// `python -m django test`, `python -m build`: the words from the module on.
pub(super) fn of_module(call: &mut Call<'_>, words: &[Word]) -> Result<(), Denial> {
    let (table, rest) = match words {
        [module, rest @ ..] if module.text == "build" => (&BUILD, rest),
        [_, verb, rest @ ..] => match TABLES[0].subcommands.iter().find(|table| named(table.names, &verb.text)) {
            Some(table) => (table, rest),
            None => return Err(call.deny(format!("`{}` is not known to be harmless", verb.text))),
        },
        _ => return Err(call.deny("no command is named")),
    };
    call.name = words[..words.len() - rest.len()].iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    call.found.clear();
    call.operands.clear();
    call.apply(table, rest)
}

// Directories, and dotted names of modules and what is in them.
fn labels(call: &mut Call<'_>) -> Result<(), Denial> {
    call.operands.clone().iter().for_each(|word| call.module(&word.text));
    settings(call)
}

// Settings are a module by its dotted name.
fn settings(call: &mut Call<'_>) -> Result<(), Denial> {
    let plain = |word: &&Word| word.text.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c));
    match call.values("--settings").iter().find(|word| !plain(word)) {
        Some(word) if !call.is_open() => Err(call.deny(format!("`{}` is not the name of a module", word.text))),
        _ => Ok(()),
    }
}

// Without these it writes migrations, files or a database.
fn checked(call: &mut Call<'_>) -> Result<(), Denial> {
    let harmless = if call.name.ends_with(" migrate") { "--plan" } else { "--check --dry-run" };
    if !call.is_open() && !call.found.iter().any(|found| named(harmless, &found.name)) {
        let denial = call.deny(format!("it writes unless one of `{harmless}` is there"));
        // `migrate --check` goes on where no migration is left.
        return Err(if call.has("--check") { denial.hint("write `--plan --check`") } else { denial });
    }
    settings(call)
}
