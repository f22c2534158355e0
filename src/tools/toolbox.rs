//! Contains the tools of a run, and decides which of them a name means.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Call, Effects, Tool, ToolError, TypedTool};
use crate::model::ToolSpec;
use crate::model::coerce::{Fitted, Parameters};
use crate::tool_name::{self, ToolId};

/// The tools of a run.
///
/// A name leads to one tool, and only [`Toolbox::resolve`] decides to which: built-in tools have priority over others
/// under each of their names.
#[derive(Clone, Default)]
pub struct Toolbox {
    builtin: BTreeMap<ToolId, Entry>,
    foreign: BTreeMap<String, Entry>,
    /// Other names of tools from elsewhere, with the names that they lead to.
    foreign_aliases: BTreeMap<String, String>,
}

/// A tool as the toolbox has it.
#[derive(Clone)]
pub struct Entry {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
    parameters: Arc<Parameters>,
}

impl Entry {
    fn new(tool: Arc<dyn Tool>) -> Entry {
        let spec = tool.spec();
        let parameters = Arc::new(Parameters::of(&spec));
        Entry { tool, spec, parameters }
    }

    /// Returns the tool's real name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns what its calls do.
    pub fn effects(&self) -> Effects {
        self.tool.effects()
    }

    /// Turns what the model gave into a call: validation, coercion, the tool's own checks.
    pub fn parse(&self, arguments: Map<String, Value>) -> Result<ParsedCall, ToolError> {
        let Fitted { arguments, notes } = self.parameters.fit(arguments).map_err(ToolError::arguments)?;
        let call = self.tool.parse(arguments.clone())?;
        Ok(ParsedCall { name: self.spec.name.clone(), effects: self.effects(), arguments, notes, call })
    }
}

/// A call that is ready to be judged.
pub struct ParsedCall {
    /// The tool's real name.
    pub name: String,
    /// What it does.
    pub effects: Effects,
    /// The arguments as they fit the schema.
    pub arguments: Map<String, Value>,
    /// What was corrected in them.
    pub notes: Vec<String>,
    /// The call.
    pub call: Box<dyn Call>,
}

/// Tells whether a name is kept for our tools, whether or not they are there.
fn is_reserved(name: &str) -> bool {
    tool_name::tool_named(name).is_some()
}

impl Toolbox {
    /// Makes a toolbox of every built-in tool that needs nothing but the workspace.
    pub fn of_built_ins() -> Toolbox {
        let mut toolbox = Toolbox::default();
        toolbox.add(super::edit::Edit);
        toolbox.add(super::glob::Glob);
        toolbox.add(super::list_directory::ListDirectory);
        toolbox.add(super::read_file::ReadFile);
        toolbox.add(super::read_many_files::ReadManyFiles);
        toolbox.add(super::run_shell_command::RunShellCommand);
        toolbox.add(super::save_memory::SaveMemory);
        toolbox.add(super::search_file_content::SearchFileContent);
        toolbox.add(super::todo_write::TodoWrite);
        toolbox.add(super::write_file::WriteFile);
        toolbox
    }

    /// Adds a built-in tool; it replaces one of the same name.
    pub fn add<T: TypedTool + 'static>(&mut self, tool: T) {
        self.builtin.insert(T::ID, Entry::new(Arc::new(tool)));
    }

    /// Adds another tool, which may also be called by `aliases` if nothing else has these names. Returns `false` and
    /// adds nothing if its name is taken, or is a name or alias of a built-in tool, present or not.
    pub fn add_foreign(&mut self, tool: Arc<dyn Tool>, aliases: &[String]) -> bool {
        let entry = Entry::new(tool);
        let name = entry.spec.name.clone();
        if is_reserved(&name) || self.foreign.contains_key(&name) {
            return false;
        }
        self.foreign.insert(name.clone(), entry);
        for alias in aliases {
            if !is_reserved(alias) && !self.foreign.contains_key(alias) {
                self.foreign_aliases.entry(alias.clone()).or_insert_with(|| name.clone());
            }
        }
        true
    }

    /// Takes a tool from elsewhere away, with its other names.
    pub fn remove_foreign(&mut self, name: &str) {
        self.foreign.remove(name);
        self.foreign_aliases.retain(|_, of| of != name);
    }

    /// Keeps the tools whose name passes.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.builtin.retain(|tool, _| keep(tool.name()));
        self.foreign.retain(|name, _| keep(name));
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let all = self.builtin.values().chain(self.foreign.values());
        all.map(|entry| (entry.name(), entry)).collect::<BTreeMap<_, _>>().into_values()
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries().map(Entry::name)
    }

    /// Returns every tool as the model sees it, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.entries().map(|entry| entry.spec.clone()).collect()
    }

    /// Tells whether a tool of ours is here.
    pub fn has(&self, tool: ToolId) -> bool {
        self.builtin.contains_key(&tool)
    }

    /// Returns the tool of exactly this name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        ToolId::named(name).and_then(|tool| self.builtin.get(&tool)).or_else(|| self.foreign.get(name))
    }

    /// Returns the tool that a model means: a built-in tool by its name or an alias, then another tool by its name, an
    /// alias, or a spelling that only it has. See [`tool_name::resolve`].
    pub fn resolve(&self, called: &str) -> Option<&Entry> {
        if let Some(name) = tool_name::resolve(called, self.builtin.keys().map(|tool| tool.name())) {
            return self.get(name);
        }
        let bare = tool_name::bare(called);
        if is_reserved(bare) {
            return None;
        }
        let alias = |name: &str| self.foreign_aliases.get(name).and_then(|name| self.foreign.get(name));
        let named = [called, bare].into_iter().find_map(|name| self.foreign.get(name).or_else(|| alias(name)));
        let spelled = || tool_name::resolve(bare, self.foreign.keys().map(String::as_str));
        named.or_else(|| self.foreign.get(spelled()?))
    }

    /// Tells whether an entry of a list of tools means the tool of this name: by name or alias, or as `mcp__server`,
    /// which means all tools of the server. A `*` at the end matches anything that follows.
    pub fn is_meant(&self, entry: &str, tool: &str) -> bool {
        let aliases = || self.foreign_aliases.iter().filter(|(_, of)| *of == tool).map(|(alias, _)| alias.as_str());
        let of_server = format!("{entry}__");
        tool_name::tool_listed(entry).is_some_and(|listed| listed.name() == tool)
            || self.resolve(entry).is_some_and(|entry| entry.name() == tool)
            || (entry.starts_with("mcp__") && aliases().any(|alias| alias.starts_with(&of_server)))
            || entry
                .strip_suffix('*')
                .is_some_and(|start| tool.starts_with(start) || aliases().any(|alias| alias.starts_with(start)))
    }

    /// Finds the tool that a model called, and turns what it gave into a call.
    pub fn parse(&self, called: &str, arguments: Map<String, Value>) -> Result<ParsedCall, ToolError> {
        match self.resolve(called) {
            Some(entry) => entry.parse(arguments),
            None => Err(ToolError::arguments(tool_name::not_found(called, self.names()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_file_is_a_tool_of_the_toolbox() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tools");
        // Not tools: the frame, and tools that come from elsewhere or need more than the workspace.
        let others = [
            "mod",
            "call",
            "command",
            "error",
            "toolbox",
            "tests",
            "discovered",
            "web_fetch",
            "web_search",
            "task",
            "skill",
            "structured_output",
        ];
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                entry.unwrap().file_name().into_string().unwrap().strip_suffix(".rs").map(str::to_owned)
            })
            .filter(|name| !others.contains(&name.as_str()))
            .collect();
        files.sort();
        let names: Vec<String> = Toolbox::of_built_ins().names().map(str::to_owned).collect();
        assert_eq!(names, files);
    }

    struct Foreign(String);

    impl Tool for Foreign {
        fn spec(&self) -> ToolSpec {
            ToolSpec { name: self.0.clone(), description: "x".into(), parameters: json!({"type": "object"}) }
        }
        fn effects(&self) -> Effects {
            Effects::Other
        }
        fn parse(&self, _arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
            Err(ToolError::failed("foreign"))
        }
    }

    #[test]
    fn no_tool_from_elsewhere_takes_a_name_of_ours() {
        let of = |toolbox: &Toolbox, name: &str| toolbox.resolve(name).map(|entry| entry.name().to_owned());
        let before = Toolbox::of_built_ins();
        let mut toolbox = Toolbox::of_built_ins();
        let add = |toolbox: &mut Toolbox, name: &str, aliases: &[&str]| {
            let aliases: Vec<String> = aliases.iter().map(|alias| (*alias).to_owned()).collect();
            toolbox.add_foreign(Arc::new(Foreign(name.to_owned())), &aliases)
        };
        let all: Vec<&str> = tool_name::every_name().collect();
        for name in &all {
            assert!(!add(&mut toolbox, name, &[]), "{name}");
        }
        assert!(add(&mut toolbox, "one", &all) && add(&mut toolbox, "two", &["one", "2", "mcp__s__x"]));
        assert!(!add(&mut toolbox, "two", &["three"]) && add(&mut toolbox, "four", &["2", "mcp__s__x"]));
        for name in all.iter().copied().chain(["Read-File", "functions.bash", "default_api.web_fetch"]) {
            assert_eq!(of(&toolbox, name), of(&before, name), "{name}");
        }
        for (called, name) in [("one", Some("one")), ("2", Some("two")), ("mcp__s__x", Some("two")), ("three", None)] {
            assert_eq!(of(&toolbox, called).as_deref(), name, "{called}");
        }
        // A name that is free again is nobody's alias.
        toolbox.remove_foreign("two");
        assert_eq!((of(&toolbox, "2"), of(&toolbox, "mcp__s__x")), (None, None));
    }

    #[test]
    fn a_tool_answers_to_its_names() {
        let toolbox = Toolbox::of_built_ins();
        let resolved = |name: &str| toolbox.resolve(name).map(Entry::name);
        for (name, shown) in [
            ("edit", "Edit"),
            ("glob", "FindFiles"),
            ("list_directory", "ReadFolder"),
            ("read_file", "ReadFile"),
            ("read_many_files", "ReadManyFiles"),
            ("run_shell_command", "Shell"),
            ("save_memory", "SaveMemory"),
            ("search_file_content", "SearchText"),
            ("todo_write", "TodoWrite"),
            ("write_file", "WriteFile"),
        ] {
            assert_eq!(resolved(shown), Some(name), "{shown}");
        }
        assert_eq!(resolved("web_fetch"), None);
        assert_eq!(resolved("replace"), Some("edit"));
    }

    #[test]
    fn every_tool_answers_wrong_arguments_with_the_parameter() {
        let toolbox = Toolbox::of_built_ins();
        for spec in toolbox.specs() {
            let says = |arguments: &Map<String, Value>| match toolbox.parse(&spec.name, arguments.clone()) {
                Ok(_) => "fine".to_owned(),
                Err(error) => error.message.lines().next().unwrap_or_default().to_owned(),
            };
            let properties = spec.parameters["properties"].as_object().unwrap();
            let valid = |key: &str| match properties[key]["type"].as_str().unwrap() {
                "string" => json!("a"),
                "array" if key == "todos" => json!([]),
                "array" => json!(["a"]),
                other => unreachable!("no required parameter is of type {other}"),
            };
            let required: Vec<&str> =
                spec.parameters["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let whole: Map<String, Value> = required.iter().map(|key| ((*key).to_owned(), valid(key))).collect();
            assert_eq!(says(&whole), "fine", "{}", spec.name);
            for key in &required {
                let mut without = whole.clone();
                without.remove(*key);
                assert_eq!(says(&without), format!("params must have required property '{key}'"), "{}", spec.name);
            }
            for (key, property) in properties {
                let kind = property["type"].as_str().unwrap();
                let wrong = if kind == "object" { json!(1) } else { json!({"x": 1}) };
                let mut with = whole.clone();
                with.insert(key.clone(), wrong);
                assert_eq!(says(&with), format!("params/{key} must be {kind}"), "{}", spec.name);
            }
        }
    }

    #[test]
    fn an_unknown_tool_names_the_three_nearest() {
        let error = Toolbox::of_built_ins().parse("read_file_x", Map::new()).err().unwrap();
        assert_eq!(
            error.message,
            "Tool \"read_file_x\" not found in registry. Tools must use the exact names that are registered. \
             Did you mean one of: \"read_file\", \"read_many_files\", \"write_file\"?"
        );
    }

    #[test]
    fn the_schemas_are_short_and_valid() {
        let specs = Toolbox::of_built_ins().specs();
        let sent: usize = specs
            .iter()
            .map(|spec| {
                jsonschema::validator_for(&spec.parameters).unwrap();
                let function =
                    json!({"name": spec.name, "description": spec.description, "parameters": spec.parameters});
                json!({"type": "function", "function": function}).to_string().len() + 1
            })
            .sum();
        assert!(sent <= 4500, "the tools take {sent} bytes of every request");
    }

    /// Every change of what the model sees is to be seen in a review.
    #[test]
    fn what_the_model_sees_of_each_tool() {
        let lines: Vec<String> = Toolbox::of_built_ins()
            .specs()
            .iter()
            .map(|spec| format!("{}: {}\n  {}", spec.name, spec.description, spec.parameters))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        edit: Replace old_string by new_string in a file. Copy old_string exactly from the file, with enough lines around it to be the only such place.
          {"type":"object","properties":{"file_path":{"type":"string"},"old_string":{"type":"string","description":"Empty to create a file"},"new_string":{"type":"string"},"expected_replacements":{"type":"integer","minimum":1,"description":"1 if not given"},"replace_all":{"type":"boolean"}},"required":["file_path","old_string","new_string"]}
        glob: Find files by name, newest first.
          {"type":"object","properties":{"pattern":{"type":"string","description":"As **/*.rs or src/*.{js,ts}"},"path":{"type":"string","description":"Folder to search"},"case_sensitive":{"type":"boolean"},"respect_git_ignore":{"type":"boolean"}},"required":["pattern"]}
        list_directory: List the names in a folder.
          {"type":"object","properties":{"path":{"type":"string","description":"Folder; . is the workspace"},"ignore":{"type":"array","items":{"type":"string"},"description":"Globs of names to leave out"},"respect_git_ignore":{"type":"boolean"},"file_filtering_options":{"type":"object"}},"required":["path"]}
        read_file: Read a file. Read before you edit.
          {"type":"object","properties":{"file_path":{"type":"string"},"offset":{"type":"integer","minimum":0,"description":"First line, from 0"},"limit":{"type":"integer","minimum":1,"description":"Number of lines"}},"required":["file_path"]}
        read_many_files: Read several files at once.
          {"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"},"minItems":1,"description":"Files, folders or globs"},"include":{"type":"array","items":{"type":"string"}},"exclude":{"type":"array","items":{"type":"string"}},"recursive":{"type":"boolean"},"useDefaultExcludes":{"type":"boolean"},"respect_git_ignore":{"type":"boolean"}},"required":["paths"]}
        run_shell_command: Run a bash command in the workspace. No terminal, no input.
          {"type":"object","properties":{"command":{"type":"string"},"description":{"type":"string"},"directory":{"type":"string","description":"Folder to run in"},"timeout":{"type":"integer","minimum":1,"description":"Milliseconds, at most 600000"},"is_background":{"type":"boolean","description":"For servers; ends with the run"}},"required":["command"]}
        save_memory: Remember a fact for later runs, in QWEN.md. Only when asked to.
          {"type":"object","properties":{"fact":{"type":"string"},"scope":{"type":"string","enum":["project","global"]}},"required":["fact"]}
        search_file_content: Search the lines of files with a regex.
          {"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string","description":"Folder or file"},"include":{"type":"string","description":"Glob of files, as *.ts"},"maxResults":{"type":"integer","minimum":1,"description":"20 if not given, at most 100"},"case_sensitive":{"type":"boolean"}},"required":["pattern"]}
        todo_write: Replace your to-do list. For tasks of many steps.
          {"type":"object","properties":{"todos":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"content":{"type":"string"},"status":{"type":"string","enum":["pending","in_progress","completed"]}},"required":["id","content","status"]}}},"required":["todos"]}
        write_file: Create a file, or replace all of it. Use edit to change a part.
          {"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string","description":"The whole new text"}},"required":["file_path","content"]}
        "#);
    }
}
