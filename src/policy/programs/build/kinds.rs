//! Defines kinds of build tools, which their tables refine.

use super::super::table::{self, Operands, Style, Table};

/// Their parsers differ: what is after an option and begins with a dash is another option to most of them.
pub(super) const TABLE: Table = Table { dash_values: false, ..table::TABLE };

/// A tool whose words are files or directories of the project; what it is asked to write is judged as a diff.
pub(super) const TOOL: Table =
    Table { operands: Operands::Inside, style: Style::Whole, writes_nothing: false, ..TABLE };

/// A tool with subcommands.
pub(super) const GROUP: Table = Table { operands: Operands::Special, style: Style::Whole, ..TABLE };

/// A tool that starts the command in its words.
pub(super) const LAUNCHER: Table =
    Table { operands: Operands::Starts, style: Style::First, writes_nothing: false, ..TABLE };

/// A tool that runs tasks of the project, which the rule must list.
pub(super) const TASKS: Table =
    Table { operands: Operands::Tasks(""), style: Style::Whole, writes_nothing: false, ..TABLE };
