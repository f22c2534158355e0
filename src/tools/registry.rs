//! Lists the built-in tools: one line each, looked up by name or alias.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Call, Tool, ToolError};
use crate::model::ToolSpec;
use crate::model::coerce::{Fitted, Parameters};
use crate::tool_name;

/// The tools of a run, by name.
///
/// A name leads to one tool, and only [`Registry::real_name`] decides to which: built-in tools have priority over
/// others under each of their names.
#[derive(Clone, Default)]
pub struct Registry {
    own: BTreeMap<String, Registered>,
    foreign: BTreeMap<String, Registered>,
    /// Other names of tools from elsewhere, with the names that they lead to.
    foreign_aliases: BTreeMap<String, String>,
}

#[derive(Clone)]
struct Registered {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
    parameters: Arc<Parameters>,
}

impl Registered {
    fn new(tool: Arc<dyn Tool>) -> Registered {
        let spec = tool.spec();
        let parameters = Arc::new(Parameters::of(&spec));
        Registered { tool, spec, parameters }
    }
}

/// Tells whether a name is kept for our tools, whether or not they are there.
fn is_reserved(name: &str) -> bool {
    tool_name::real_name(name).is_some()
}

/// Returns every built-in tool that needs nothing but the workspace, sorted by name.
pub fn built_ins() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(super::edit::Edit),
        Arc::new(super::glob::Glob),
        Arc::new(super::list_directory::ListDirectory),
        Arc::new(super::read_file::ReadFile),
        Arc::new(super::read_many_files::ReadManyFiles),
        Arc::new(super::run_shell_command::RunShellCommand),
        Arc::new(super::save_memory::SaveMemory),
        Arc::new(super::search_file_content::SearchFileContent),
        Arc::new(super::todo_write::TodoWrite),
        Arc::new(super::write_file::WriteFile),
    ]
}

impl Registry {
    /// Makes a registry of the built-in tools.
    pub fn of_built_ins() -> Registry {
        let mut registry = Registry::default();
        for tool in built_ins() {
            registry.add_own(tool);
        }
        registry
    }

    /// Adds a built-in tool that needs more than the workspace; it replaces one of the same name.
    pub fn add_own(&mut self, tool: Arc<dyn Tool>) {
        let registered = Registered::new(tool);
        self.own.insert(registered.spec.name.clone(), registered);
    }

    /// Adds another tool, which may also be called by `aliases` if nothing else has these names. Returns `false` and
    /// adds nothing if its name is taken, or is a name or alias of a built-in tool, present or not.
    pub fn add_foreign(&mut self, tool: Arc<dyn Tool>, aliases: &[String]) -> bool {
        let registered = Registered::new(tool);
        let name = registered.spec.name.clone();
        if is_reserved(&name) || self.own.contains_key(&name) || self.foreign.contains_key(&name) {
            return false;
        }
        self.foreign.insert(name.clone(), registered);
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
        self.own.retain(|name, _| keep(name));
        self.foreign.retain(|name, _| keep(name));
    }

    fn tools(&self) -> impl Iterator<Item = (&String, &Registered)> {
        self.own.iter().chain(&self.foreign).collect::<BTreeMap<_, _>>().into_iter()
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools().map(|(name, _)| name.as_str())
    }

    /// Returns every tool as the model sees it, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools().map(|(_, registered)| registered.spec.clone()).collect()
    }

    /// Returns the tool of exactly this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.own.get(name).or_else(|| self.foreign.get(name)).map(|registered| &registered.tool)
    }

    /// Returns the real name of what a model calls: a built-in tool by its name or an alias, then another tool by its
    /// name, an alias, or a spelling that only it has. See [`tool_name::resolve`].
    pub fn real_name(&self, called: &str) -> Option<&str> {
        let of = |tools| BTreeMap::keys(tools).map(String::as_str);
        if let Some(name) = tool_name::resolve(called, of(&self.own)) {
            return Some(name);
        }
        let bare = tool_name::bare(called);
        if is_reserved(bare) {
            return None;
        }
        let foreign = |name: &str| self.foreign.get_key_value(name).map(|(name, _)| name.as_str());
        let alias = |name: &str| self.foreign_aliases.get(name).and_then(|name| foreign(name));
        [called, bare]
            .into_iter()
            .find_map(|name| foreign(name).or_else(|| alias(name)))
            .or_else(|| tool_name::resolve(bare, of(&self.foreign)))
    }

    /// Tells whether an entry of a list of tools means the tool of this name: by name or alias, or as `mcp__server`,
    /// which means all tools of the server. A `*` at the end matches anything that follows.
    pub fn is_meant(&self, entry: &str, tool: &str) -> bool {
        let aliases = || self.foreign_aliases.iter().filter(|(_, of)| *of == tool).map(|(alias, _)| alias.as_str());
        let of_server = format!("{entry}__");
        tool_name::listed_name(entry) == Some(tool)
            || self.real_name(entry) == Some(tool)
            || (entry.starts_with("mcp__") && aliases().any(|alias| alias.starts_with(&of_server)))
            || entry
                .strip_suffix('*')
                .is_some_and(|start| tool.starts_with(start) || aliases().any(|alias| alias.starts_with(start)))
    }

    fn registered(&self, called: &str) -> Option<&Registered> {
        let name = self.real_name(called)?;
        self.own.get(name).or_else(|| self.foreign.get(name))
    }

    /// Turns what the model called into a call: look-up, aliases, validation, coercion, the tool's own checks.
    pub fn parse(&self, called: &str, arguments: Map<String, Value>) -> Result<Prepared, ToolError> {
        let Some(registered) = self.registered(called) else {
            return Err(ToolError::arguments(tool_name::not_found(called, self.names())));
        };
        let Fitted { arguments, notes } = registered.parameters.fit(arguments).map_err(ToolError::arguments)?;
        let call = registered.tool.parse(arguments.clone())?;
        let (name, only_reads) = (registered.spec.name.clone(), registered.tool.only_reads());
        Ok(Prepared { name, only_reads, arguments, notes, call })
    }
}

/// A call that is ready to be judged.
pub struct Prepared {
    /// The tool's real name.
    pub name: String,
    /// Whether it only looks.
    pub only_reads: bool,
    /// The arguments as they fit the schema.
    pub arguments: Map<String, Value>,
    /// What was corrected in them.
    pub notes: Vec<String>,
    /// The call.
    pub call: Box<dyn Call>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_file_is_a_registered_tool() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tools");
        // Not tools: the frame, and tools that come from elsewhere or need more than the workspace.
        let others =
            ["mod", "registry", "tests", "discovered", "web_fetch", "web_search", "task", "skill", "structured_output"];
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                entry.unwrap().file_name().into_string().unwrap().strip_suffix(".rs").map(str::to_owned)
            })
            .filter(|name| !others.contains(&name.as_str()))
            .collect();
        files.sort();
        let names: Vec<String> = built_ins().iter().map(|tool| tool.spec().name).collect();
        assert_eq!(names, files);
    }

    struct Foreign(String);

    impl Tool for Foreign {
        fn spec(&self) -> ToolSpec {
            ToolSpec { name: self.0.clone(), description: "x".into(), parameters: json!({"type": "object"}) }
        }
        fn display_name(&self) -> &'static str {
            "Foreign"
        }
        fn only_reads(&self) -> bool {
            false
        }
        fn parse(&self, _arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
            Err(ToolError::failed("foreign"))
        }
    }

    #[test]
    fn no_tool_from_elsewhere_takes_a_name_of_ours() {
        let of = |registry: &Registry, name: &str| registry.real_name(name).map(str::to_owned);
        let before = Registry::of_built_ins();
        let mut registry = Registry::of_built_ins();
        let add = |registry: &mut Registry, name: &str, aliases: &[&str]| {
            let aliases: Vec<String> = aliases.iter().map(|alias| (*alias).to_owned()).collect();
            registry.add_foreign(Arc::new(Foreign(name.to_owned())), &aliases)
        };
        let all: Vec<&str> = tool_name::every_name().collect();
        for name in &all {
            assert!(!add(&mut registry, name, &[]), "{name}");
        }
        assert!(add(&mut registry, "one", &all) && add(&mut registry, "two", &["one", "2", "mcp__s__x"]));
        assert!(!add(&mut registry, "two", &["three"]) && add(&mut registry, "four", &["2", "mcp__s__x"]));
        for name in all.iter().copied().chain(["Read-File", "functions.bash", "default_api.web_fetch"]) {
            assert_eq!(of(&registry, name), of(&before, name), "{name}");
        }
        for (called, name) in [("one", Some("one")), ("2", Some("two")), ("mcp__s__x", Some("two")), ("three", None)] {
            assert_eq!(of(&registry, called).as_deref(), name, "{called}");
        }
        // A name that is free again is nobody's alias.
        registry.remove_foreign("two");
        assert_eq!((of(&registry, "2"), of(&registry, "mcp__s__x")), (None, None));
    }

    #[test]
    fn a_tool_answers_to_its_names() {
        let registry = Registry::of_built_ins();
        for tool in built_ins() {
            let name = tool.spec().name;
            assert_eq!(registry.real_name(tool.display_name()), Some(name.as_str()), "{}", tool.display_name());
            assert!(tool_name::BUILT_IN.contains(&name.as_str()), "{name}");
        }
        assert_eq!(registry.real_name("web_fetch"), None);
        assert_eq!(registry.real_name("replace"), Some("edit"));
    }

    #[test]
    fn every_tool_answers_wrong_arguments_with_the_parameter() {
        let registry = Registry::of_built_ins();
        for spec in registry.specs() {
            let says = |arguments: &Map<String, Value>| match registry.parse(&spec.name, arguments.clone()) {
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
        let error = Registry::of_built_ins().parse("read_file_x", Map::new()).err().unwrap();
        assert_eq!(
            error.message,
            "Tool \"read_file_x\" not found in registry. Tools must use the exact names that are registered. \
             Did you mean one of: \"read_file\", \"read_many_files\", \"write_file\"?"
        );
    }

    #[test]
    fn the_schemas_are_short_and_valid() {
        let specs = Registry::of_built_ins().specs();
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
        let lines: Vec<String> = Registry::of_built_ins()
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
