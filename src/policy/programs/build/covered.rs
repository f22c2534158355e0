//! The table of programs that watch which code runs while another one does.

use super::{Call, Denial, Operands, Style, TOOL, Table};
use crate::path::RelPath;
use crate::policy::names::named;

pub(super) const TABLES: &[Table] =
    &[Table { names: "c8 nyc", operands: Operands::Starts, style: Style::First, special: Some(covered), ..COVERED }];

/// What c8 and nyc are told. Both take the next word for the value of an option that has one.
const COVERED: Table = Table {
    options: "--all --check-coverage --per-file --clean -r,--reporter={text|text-summary|text-lcov|lcov|lcovonly|html|json|json-summary|cobertura|clover|teamcity|none} \
        --lines=D --branches=D --functions=D --statements=D -n,--include=X -x,--exclude=D --report-dir=O --reports-dir=O --version -h,--help",
    operands: Operands::None,
    ..TOOL
};

/// Programs that another one starts as they are on the PATH, unless an installed package has one of that name.
const ON_PATH: &str = "npm node";

// `c8 mocha`, `nyc npm test`, `nyc report`: what runs while it is watched, or the report of that.
fn covered(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.operands.clone();
    let Some((first, rest)) = words.split_first() else { return Err(call.deny("no program is named")) };
    if named("report check-coverage", &first.text) {
        call.out.starts.clear();
        call.operands.clear();
        return call.apply(&COVERED, rest);
    }
    // Below the root, directories above may have one as well.
    let is_on_path = named(ON_PATH, &first.text)
        && call.cx.folders.iter().all(RelPath::is_root)
        && !call.is_there(&format!("node_modules/.bin/{}", first.text))?;
    if is_on_path { Ok(()) } else { super::node::installed(call) }
}
