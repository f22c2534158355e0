//! Tables for what runs tests that are scripts: of the shell, Perl and Lua.

use super::{Call, Denial, Operands, TOOL, Table};
use crate::path::Node;

pub(super) const TABLES: &[Table] = &[
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
    Table {
        names: "prove",
        options: "-l,--lib -b,--blib -r,--recurse -v,--verbose -q,--quiet -Q,--QUIET -f,--failures -o,--comments -s,--shuffle -j,--jobs=D --timer -m,--merge \
            -c,--color --nocolor --count --nocount --trap --directives --normalize --dry -D -w -W --version -V -h,--help -I=V --ext=D !!-e,--exec=P !-P=P !-M=P \
            !--rc=R !--norc !-a,--archive=W !--state=P !--statefile=P !--formatter=P !--source=P !--harness=P -T -t",
        operands: Operands::Special,
        special: Some(tests),
        ..TOOL
    },
    Table {
        names: "busted",
        options: "-v,--verbose --no-verbose -c,--coverage --no-coverage -t,--tags=D --exclude-tags=D --filter=D --filter-out=D --name=D --shuffle --shuffle-files \
            --shuffle-tests --seed=D --repeat=D -p,--pattern=D --exclude-pattern=D -l,--list --no-keep-going --lazy -R,--no-recursive -s,--enable-sound \
            --defer-print --suppress-pending -o,--output={utfTerminal|plainTerminal|TAP|junit|json|gtest} --version -h,--help \
            !-r,--run=P !-f,--config-file=R !--coverage-config-file=R !--helper=P !--lua=P !-m,--lpath=P !--cpath=P !--loaders=P !-C,--directory=E !$-e=P \
            !-Xoutput=P !-Xhelper=P --ignore-lua",
        operands: Operands::Special,
        special: Some(tests),
        ..TOOL
    },
];

// Directories, and files by the names that tests have: any other script would run as well.
fn tests(call: &mut Call<'_>) -> Result<(), Denial> {
    for word in call.operands.clone() {
        call.inside(&word)?;
        let is_test = [".bats", ".t", "_spec.lua", "_test.lua"].iter().any(|end| word.text.ends_with(end));
        if !call.is_open() && !is_test && call.node(&word.text)? != Some(Node::Dir) {
            return Err(call.deny(format!("`{}` is not the file of a test", word.text)));
        }
    }
    Ok(())
}
