//! Maps the names of tools: built-in names, the names that models use for them, and which tool is meant.

use crate::base::document::yaml::nearest;

/// A tool of ours. The order is that of the names, in which tools are listed and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolId {
    /// `edit`
    Edit,
    /// `glob`
    Glob,
    /// `list_directory`
    ListDirectory,
    /// `read_file`
    ReadFile,
    /// `read_many_files`
    ReadManyFiles,
    /// `run_shell_command`
    RunShellCommand,
    /// `save_memory`
    SaveMemory,
    /// `search_file_content`
    SearchFileContent,
    /// `skill`
    Skill,
    /// `structured_output`: the answer of a run. It is not built in, because the user defines its schema.
    StructuredOutput,
    /// `task`
    Task,
    /// `todo_write`
    TodoWrite,
    /// `web_fetch`
    WebFetch,
    /// `web_search`
    WebSearch,
    /// `write_file`
    WriteFile,
}

/// The built-in tools.
pub const BUILT_IN: [ToolId; 14] = [
    ToolId::ListDirectory,
    ToolId::ReadFile,
    ToolId::WriteFile,
    ToolId::Edit,
    ToolId::Glob,
    ToolId::SearchFileContent,
    ToolId::ReadManyFiles,
    ToolId::RunShellCommand,
    ToolId::WebFetch,
    ToolId::WebSearch,
    ToolId::SaveMemory,
    ToolId::TodoWrite,
    ToolId::Task,
    ToolId::Skill,
];

/// The tools that read the files of the workspace.
pub const READING: [ToolId; 5] =
    [ToolId::ReadFile, ToolId::ListDirectory, ToolId::Glob, ToolId::SearchFileContent, ToolId::ReadManyFiles];

/// The tools that change files.
pub const WRITING: [ToolId; 2] = [ToolId::Edit, ToolId::WriteFile];

/// The `$comment` of a part of the answer's schema that models whose calls are text are not shown: small models give
/// whatever they are shown.
pub const NOT_SHOWN_IN_TEXT: &str = "native calls only";

impl ToolId {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            ToolId::Edit => "edit",
            ToolId::Glob => "glob",
            ToolId::ListDirectory => "list_directory",
            ToolId::ReadFile => "read_file",
            ToolId::ReadManyFiles => "read_many_files",
            ToolId::RunShellCommand => "run_shell_command",
            ToolId::SaveMemory => "save_memory",
            ToolId::SearchFileContent => "search_file_content",
            ToolId::Skill => "skill",
            ToolId::StructuredOutput => "structured_output",
            ToolId::Task => "task",
            ToolId::TodoWrite => "todo_write",
            ToolId::WebFetch => "web_fetch",
            ToolId::WebSearch => "web_search",
            ToolId::WriteFile => "write_file",
        }
    }

    /// Returns what the tool does, as a terminal shows its calls.
    pub const fn verb(self) -> &'static str {
        match self {
            ToolId::Edit => "edit",
            ToolId::Glob => "find",
            ToolId::ListDirectory => "list",
            ToolId::ReadFile | ToolId::ReadManyFiles => "read",
            ToolId::RunShellCommand => "run",
            ToolId::SaveMemory => "remember",
            ToolId::SearchFileContent => "search",
            ToolId::Skill => "skill",
            ToolId::StructuredOutput => "answer",
            ToolId::Task => "task",
            ToolId::TodoWrite => "plan",
            ToolId::WebFetch => "fetch",
            ToolId::WebSearch => "web",
            ToolId::WriteFile => "write",
        }
    }

    /// Tells whether the tool returns nothing that the model does not say itself.
    pub fn adds_nothing(self) -> bool {
        matches!(self, ToolId::StructuredOutput | ToolId::TodoWrite)
    }

    /// Tells whether the tool returns what files of the workspace hold, or nothing that the model does not say itself.
    pub fn only_reads(self) -> bool {
        READING.contains(&self) || self.adds_nothing()
    }

    /// Returns the tool of exactly this name.
    pub fn named(name: &str) -> Option<ToolId> {
        BUILT_IN.into_iter().chain([ToolId::StructuredOutput]).find(|tool| tool.name() == name)
    }

    /// Returns the built-in tool of exactly this name.
    pub fn built_in(name: &str) -> Option<ToolId> {
        BUILT_IN.into_iter().find(|tool| tool.name() == name)
    }
}

impl std::fmt::Display for ToolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The prefix of a discovered tool whose own name means a built-in tool.
pub const DISCOVERED: &str = "discovered__";

/// The longest name that every provider takes.
pub const LONGEST: usize = 63;

/// Prefixes that models put before a tool's name.
const PREFIXES: [&str; 4] = ["functions.", "default_api.", "tools.", "functions:"];

/// What models and other programs call our tools, [`folded`].
const ALIASES: &[(ToolId, &[&str])] = &[
    (
        ToolId::RunShellCommand,
        &[
            "bash",
            "cmd",
            "exec",
            "execute",
            "executecommand",
            "runcommand",
            "runshell",
            "runterminalcmd",
            "sh",
            "shell",
            "shellcommand",
            "terminal",
        ],
    ),
    (
        ToolId::Edit,
        &["editfile", "replace", "searchreplace", "strreplace", "strreplacebasededittool", "strreplaceeditor"],
    ),
    (ToolId::ReadFile, &["cat", "open", "openfile", "read", "view", "viewfile"]),
    (ToolId::ReadManyFiles, &["readfiles"]),
    (ToolId::WriteFile, &["createfile", "savefile", "write", "writetofile"]),
    (ToolId::ListDirectory, &["list", "listdir", "listfiles", "ls", "readfolder"]),
    (ToolId::SearchFileContent, &["grep", "grepsearch", "rg", "ripgrep", "search", "searchfiles", "searchtext"]),
    (ToolId::Glob, &["filesearch", "find", "findfiles"]),
    (ToolId::WebFetch, &["fetch", "fetchurl"]),
    (ToolId::WebSearch, &["googlewebsearch", "searchweb"]),
    (ToolId::TodoWrite, &["todo", "todolist", "todos", "todowriter", "writetodos"]),
    (ToolId::SaveMemory, &["memory", "remember", "savemem"]),
    (ToolId::Task, &["agent", "subagent"]),
];

/// Returns every name that leads to a built-in tool: the tools' own, and their aliases, folded.
pub fn every_name() -> impl Iterator<Item = &'static str> {
    BUILT_IN.into_iter().map(ToolId::name).chain(ALIASES.iter().flat_map(|(_, aliases)| aliases.iter().copied()))
}

/// Lowercase letters and digits only: `ReadFile`, `read-file` and `read_file` are one.
pub fn folded(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Takes known prefixes (`functions.`) and the counter of Kimi (`:0`) off a tool's name.
pub fn bare(name: &str) -> &str {
    let mut name = name.trim();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        name = rest;
    }
    match name.rsplit_once(':') {
        Some((bare, counter)) if !bare.is_empty() && counter.bytes().all(|byte| byte.is_ascii_digit()) => bare,
        Some(_) | None => name,
    }
}

/// Returns a name as it is sent: only what every provider takes, and a dot is an underscore.
pub fn sent(name: &str) -> String {
    plain(name).replace('.', "_")
}

/// Returns a name with `_` for characters outside of `[A-Za-z0-9_.-]`; of a long name the middle becomes `___`.
pub fn plain(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' }).collect();
    if name.len() <= LONGEST {
        return name;
    }
    format!("{}___{}", &name[..28], &name[name.len() - 32..])
}

/// Returns the tool of ours that a name means, case, separators and aliases aside, whether or not it is registered.
///
/// For policies and settings, which speak of tools without a toolbox.
///
/// ```
/// use qwen_run::tool_name::{ToolId, tool_named};
///
/// assert_eq!(tool_named("ReadFile"), Some(ToolId::ReadFile));
/// assert_eq!(tool_named("grep"), Some(ToolId::SearchFileContent));
/// assert_eq!(tool_named("read_fil"), None);
/// ```
pub fn tool_named(called: &str) -> Option<ToolId> {
    let folded = folded(called);
    let mut tools = BUILT_IN.into_iter().chain([ToolId::StructuredOutput]);
    tools.find(|tool| self::folded(tool.name()) == folded).or_else(|| alias(&folded))
}

/// Returns the built-in tool that an entry of a list names: as [`tool_named`], and by Qwen Code's class names.
///
/// ```
/// use qwen_run::tool_name::{ToolId, tool_listed};
///
/// assert_eq!(tool_listed("ShellTool"), Some(ToolId::RunShellCommand));
/// assert_eq!(tool_listed("LSTool"), Some(ToolId::ListDirectory));
/// assert_eq!(tool_listed("structured_output"), None);
/// ```
pub fn tool_listed(written: &str) -> Option<ToolId> {
    let class = || written.strip_suffix("Tool").and_then(tool_named);
    tool_named(written).or_else(class).filter(|tool| BUILT_IN.contains(tool))
}

/// Returns the tools that lists mean next to a tool: those that read files with `read_file`, `write_file` with `edit`.
pub fn family_of(tool: ToolId) -> &'static [ToolId] {
    use ToolId::{Edit, Glob, ListDirectory, ReadFile, ReadManyFiles, SearchFileContent, WriteFile};
    match tool {
        ReadFile => &[ReadManyFiles, ListDirectory, Glob, SearchFileContent],
        Edit => &[WriteFile],
        _ => &[],
    }
}

/// Returns the one of `names` that a model means: the name itself, prefixes aside, another spelling of it, or a known
/// alias. Never the nearest: what is only similar is not found.
pub fn resolve<'a>(called: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let bare = bare(called);
    let exactly = |wanted: &str| names.clone().find(|name| *name == wanted);
    if let Some(name) = exactly(called).or_else(|| exactly(bare)) {
        return Some(name);
    }
    let folded = folded(bare);
    let mut same = names.clone().filter(|name| self::folded(name) == folded);
    match (same.next(), same.next()) {
        (Some(name), None) => Some(name),
        (Some(_), Some(_)) => None,
        (None, _) => exactly(alias(&folded)?.name()),
    }
}

/// Reports an unknown tool, with the three nearest of `names`.
pub fn not_found<'a>(called: &str, names: impl Iterator<Item = &'a str>) -> String {
    let wanted: String = folded(bare(called)).chars().take(64).collect();
    let mut nearest: Vec<(usize, &str)> =
        names.map(|name| (strsim::osa_distance(&wanted, &folded(name)), name)).collect();
    nearest.sort_unstable();
    let mut message = format!(
        "Tool {} not found in registry. Tools must use the exact names that are registered.",
        serde_json::Value::from(shown(called))
    );
    if !nearest.is_empty() {
        let names: Vec<String> = nearest.iter().take(3).map(|(_, name)| format!("\"{name}\"")).collect();
        message.push_str(&format!(" Did you mean one of: {}?", names.join(", ")));
    }
    message
}

/// Says that an entry of a list names no tool, and which one it is near to.
///
/// ```
/// assert_eq!(qwen_run::tool_name::unknown("Reed"), "unknown tool `Reed`; did you mean `read_file`?");
/// assert_eq!(qwen_run::tool_name::unknown("my_tool"), "unknown tool `my_tool`");
/// ```
pub fn unknown(written: &str) -> String {
    match nearest(written, every_name()).and_then(tool_named) {
        Some(tool) => format!("unknown tool `{written}`; did you mean `{}`?", tool.name()),
        None => format!("unknown tool `{written}`"),
    }
}

fn alias(folded: &str) -> Option<ToolId> {
    ALIASES.iter().find(|(_, aliases)| aliases.contains(&folded)).map(|(tool, _)| *tool)
}

/// One line of at most 100 characters.
fn shown(called: &str) -> String {
    called.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect()
}

/// Returns the server and the tool that a name of the form `mcp__SERVER__TOOL` means; `None` for other names.
pub fn server_and_tool(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("mcp__")?.split_once("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_answers_to_its_aliases_and_to_nothing_similar() {
        for (called, tool) in [
            ("functions.read_file", Some("read_file")),
            ("functions.read_file:0", Some("read_file")),
            ("ReadFile", Some("read_file")),
            ("read-file", Some("read_file")),
            ("READ FILE", Some("read_file")),
            ("bash", Some("run_shell_command")),
            ("str_replace_editor", Some("edit")),
            ("cat", Some("read_file")),
            ("Grep-Search", Some("search_file_content")),
            ("agent", Some("task")),
            ("read_fil", None),
            ("", None),
            ("my_tool", None),
        ] {
            assert_eq!(resolve(called, BUILT_IN.into_iter().map(ToolId::name)), tool, "{called}");
        }
        assert_eq!(resolve("web_fetch", ["edit"].into_iter()), None, "only what is registered is found");
        assert_eq!(resolve("my-tool", ["my_tool", "myTool"].into_iter()), None, "two may be meant");
        assert_eq!(resolve("grep", ["grep", "search_file_content"].into_iter()), Some("grep"), "a name goes first");
    }

    #[test]
    fn tools_are_ordered_by_their_names() {
        let mut tools = BUILT_IN;
        tools.sort_unstable();
        assert!(tools.map(ToolId::name).is_sorted());
        assert!(tools.into_iter().all(|tool| ToolId::named(tool.name()) == Some(tool)));
    }

    #[test]
    fn no_alias_means_two_tools() {
        let all: Vec<&str> = ALIASES.iter().flat_map(|(_, aliases)| aliases.iter().copied()).collect();
        for (at, alias) in all.iter().enumerate() {
            assert_eq!(folded(alias), *alias);
            assert!(!all[at + 1..].contains(alias), "{alias}");
            assert!(!BUILT_IN.iter().any(|tool| folded(tool.name()) == *alias), "{alias}");
        }
        for (tool, _) in ALIASES {
            assert!(BUILT_IN.contains(tool), "{tool}");
        }
    }

    #[test]
    fn an_unknown_tool_is_named_with_its_three_nearest() {
        assert_eq!(
            not_found("read_fil\n", BUILT_IN.into_iter().map(ToolId::name)),
            "Tool \"read_fil \" not found in registry. Tools must use the exact names that are registered. \
             Did you mean one of: \"read_file\", \"edit\", \"write_file\"?"
        );
        assert!(not_found("x", std::iter::empty()).ends_with("registered."));
    }
}
