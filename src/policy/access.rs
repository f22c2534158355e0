//! Describes what a call would touch, before anything has judged it.

use std::path::PathBuf;

use serde_json::Value;

/// One thing that a call would touch. Paths are as the model wrote them: absolute, or relative to the workspace.
#[derive(Debug, Clone, PartialEq)]
pub enum Access {
    /// The contents of one file are read.
    Read {
        /// The file.
        path: PathBuf,
    },
    /// The names in a directory are listed.
    List {
        /// The directory.
        path: PathBuf,
    },
    /// Names or contents below a directory (or of one file) are searched; what may not be read is left out of the
    /// results.
    Search {
        /// Where the search starts.
        root: PathBuf,
        /// Path and glob patterns that select files; never the text searched for.
        patterns: Vec<String>,
    },
    /// A file is created or overwritten.
    Write {
        /// The file.
        path: PathBuf,
    },
    /// A shell command runs.
    Run {
        /// The model's text.
        command: String,
        /// The directory it starts in; judged as a `cd` before the command.
        directory: Option<PathBuf>,
    },
    /// A URL is fetched with GET.
    Fetch {
        /// The URL as written.
        url: String,
        /// For `policy check` only: the addresses the first host resolves to (`None`: a public one).
        resolves_to: Option<Vec<String>>,
        /// For `policy check` only: the `Location` values of the redirects, in order.
        redirects: Vec<String>,
    },
    /// A tool of an MCP server is called.
    Mcp {
        /// The server's name in the settings.
        server: String,
        /// The server's own name of the tool.
        tool: String,
        /// The arguments.
        arguments: Value,
        /// How the tool's definition compares with its pin.
        pin: Pin,
    },
    /// A discovered tool is called.
    Discovered {
        /// Its name.
        tool: String,
    },
    /// `save_memory` appends to a context file: the one way to write QWEN.md, decided by `tools` and this alone.
    Memory {
        /// The file.
        path: PathBuf,
    },
}

/// How a tool's definition compares with the hash that the policy pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// The hash is the pinned one.
    Match,
    /// The tool is pinned and its definition has changed.
    Changed,
    /// The tool has no pin, although the server has pins.
    New,
    /// The server has no pins.
    Unpinned,
}
