//! Renders the stream of events: everything that is printed or reported.
//!
//! Standard output carries the product, standard error is for people. Only this module writes to either, and to the
//! files that output flags name.

mod appearance;
mod backlog;
mod batch;
pub mod ci_lines;
pub mod comment;
mod diagnostics;
mod ended;
pub mod evaluation;
mod files;
mod findings;
pub mod github;
mod json;
mod junit;
mod kept;
mod lines;
mod markdown;
mod material;
mod message;
mod page;
pub mod proposal;
mod prose;
mod rdjson;
mod renderer;
mod report;
pub mod safe;
mod sarif;
mod screen;
mod shown_diff;
mod sink;
mod stats;
pub mod summary;
mod table;
mod terminal;
mod terminal_summary;
#[cfg(test)]
mod tests;
mod text;
pub mod words;

pub use appearance::Appearance;
pub use backlog::{Backlog, Eager};
pub use batch::{BatchFormat, FailedItem, Known, Progress};
pub use diagnostics::findings_for_people;
pub use ended::{Ended, Mark};
pub use files::{Spooled, write_whole};
pub use findings::{Found, Level, Suggested, found};
pub use json::{to_line, to_pretty};
pub use junit::Junit;
pub use kept::{GoesOn, Keep};
pub use lines::Verbosity;
pub use material::{Material, MaterialError};
pub use message::Ids;
pub use page::{ShownItems, batch_page, is_review_page, page};
pub use prose::manual_page;
pub use renderer::{Format, OutputFiles, Outputs, Renderer};
pub use report::{Budget, Fold, GitReport, Report, SCHEMA_VERSION, Usage, is_error, report};
pub use sarif::findings_as_sarif;
pub use screen::{Colour, Colours, Screen};
pub use sink::Sink;
pub use stats::{Stats, ToolStats};
pub use table::{AnswerFields, Table};
pub use text::patch_bytes as patch_of;
pub use words::count as words_count;
