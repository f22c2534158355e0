//! Represents the directory that the run works in: the disk, the staged changes over it, the command workspace.
//!
//! Every file is read through the staged view, and nothing is written to the project: `deliver` does that, once.

pub mod batch_folder;
pub mod batch_reader;
pub mod batch_writer;
pub mod disk;
pub mod folder;
pub mod ignore;
pub mod item_list;
pub mod item_source;
pub mod junit_source;
pub mod outputs;
pub mod run_record;
pub mod session_file;
pub(crate) mod snapshot;
pub mod steps;
pub mod temporary;
pub mod temporary_files;
#[cfg(test)]
pub(crate) mod test_support;
pub mod tree;
pub mod untouched;
mod view;
pub mod walk;

pub use view::{FileView, Watch, Workspace, WorkspaceError};
