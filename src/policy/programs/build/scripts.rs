//! The table of what runs tests that are scripts of the shell, and what launchers start in place of an installed program.

use super::{Call, Denial, Operands, TOOL, Table};
use crate::path::Node;

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "prove",
        options: "-l,--lib -b,--blib -v,--verbose -r,--recurse -q,--quiet -Q -f,--failures -o,--comments -D,--dry -s,--shuffle --reverse -m,--merge -w -W -T -t --timer \
            --color --nocolor --count --nocount --norc -j,--jobs=D -I=T -h,--help -V,--version !$-e,--exec=P !-P=P !-M=P !--harness=P !--formatter=P !--source=P !--rc=R \
            !-a,--archive=W !--state=P !--ext=P !--rules=P",
        operands: Operands::Special,
        special: Some(tests),
        ..TOOL
    },
    Table {
        names: "bats",
        options: "-r,--recursive -t,--tap -p,--pretty -T,--timing -x,--trace --print-output-on-failure --verbose-run --show-output-of-passing-tests \
            -f,--filter=D --filter-tags=D -j,--jobs=D -F,--formatter={pretty|tap|tap13|junit} --abort --no-parallelize-across-files \
            --no-parallelize-within-files -o,--output=O -c,--count -v,--version -h,--help !--report-formatter=P !!--parallel-binary-name=P \
            !--setup-suite-file=R !--gather-test-outputs-in=O",
        operands: Operands::Special,
        special: Some(tests),
        ..TOOL
    },
];

// Directories, and files by the names that tests have: any other script would run as well.
fn tests(call: &mut Call<'_>) -> Result<(), Denial> {
    for word in call.operands.clone() {
        call.inside(&word)?;
        let is_test = word.text.ends_with(if call.name.ends_with("prove") { ".t" } else { ".bats" });
        if !call.is_open() && !is_test && call.node(&word.text)? != Some(Node::Dir) {
            return Err(call.deny(format!("`{}` is not the file of a test", word.text)));
        }
    }
    Ok(())
}

// A launcher runs a file of that name, or a directory with a `__main__.py`, in place of the installed program.
pub(super) fn installed(call: &mut Call<'_>) -> Result<(), Denial> {
    let Some(name) = call.operands.first().map(|word| word.text.clone()) else { return Ok(()) };
    let is_package = call.is_there(&format!("{name}/__main__.py"))?;
    if is_package || call.node(&name)? != Some(Node::Dir) && call.is_there(&name)? {
        return Err(in_its_place(call, &name));
    }
    Ok(())
}

// What an option names is started: a file or directory of the workspace before an installed interpreter or compiler.
pub(super) fn names_installed(call: &Call<'_>, option: &str) -> Result<(), Denial> {
    for program in call.values(option) {
        if call.is_there(&program.text)? {
            return Err(in_its_place(call, &program.text));
        }
    }
    Ok(())
}

// Python looks for a module in the current directory first.
pub(super) fn module_is_installed(call: &Call<'_>, module: &str) -> Result<(), Denial> {
    let ends = module.match_indices('.').map(|(end, _)| end).chain([module.len()]);
    for path in ends.map(|end| module[..end].replace('.', "/")) {
        for file in [".py", ".pyc", ".so", "/__init__.py", "/__init__.pyc", "/__main__.py", "/__main__.pyc"] {
            if call.is_there(&format!("{path}{file}"))? {
                return Err(in_its_place(call, module));
            }
        }
    }
    Ok(())
}

fn in_its_place(call: &Call<'_>, name: &str) -> Denial {
    call.deny(format!("`{name}` is in the workspace, and would run in place of an installed program"))
}
