//! Implements `skill`: loads instructions that the project keeps for a kind of task, when the model asks for them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::common::names;
use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool};
use crate::bounded;
use crate::change::Entry;
use crate::change::text::Decoded;
use crate::path::{RelPath, Tree as _};
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::Workspace;
use crate::workspace::disk::Disk;

const FOLDER: &str = ".qwen/skills";
/// Characters of a skill's description that every request carries.
const DESCRIPTION: usize = 100;
/// Maximum skills, and agents, of a project.
pub const MOST: usize = 200;

/// Says why a file of the workspace must not be shown to the model.
pub type MayRead<'a> = &'a dyn Fn(&RelPath) -> Result<(), String>;

/// The tool, with the available skills.
pub struct Skill {
    skills: Vec<Known>,
}

struct Known {
    name: String,
    about: String,
    /// Its text where it is not read from the workspace.
    text: Option<String>,
}

impl Skill {
    /// Finds the skills of the workspace and of the user; the workspace's come first. `None` if there are none. The
    /// warnings say which are left out. `may_read` says why a file of the workspace must not be shown.
    pub fn find(workspace: &Workspace, home: Option<&Path>, may_read: MayRead<'_>) -> (Option<Skill>, Vec<String>) {
        let mut warnings = Vec::new();
        let folder = RelPath::new(FOLDER).expect("it is a path below the root");
        let names = match workspace.leads_out(&folder) {
            true => {
                warnings.push(leads_out(FOLDER));
                Vec::new()
            }
            false => workspace.names(&folder.under(workspace.root())).unwrap_or_default(),
        };
        let mut known = |name: std::ffi::OsString| {
            let name = name.into_string().ok().filter(|name| is_name(name))?;
            let file = RelPath::new(file_of(&name))?;
            if workspace.leads_out(&file) {
                warnings.push(leads_out(&file.to_string()));
                return None;
            }
            let readable =
                may_read(&file).and_then(|()| text_of(workspace.entry_within(&file, bounded::CONFIG)).transpose());
            match readable {
                Ok(text) => Known::new(name, &text?, None, "", &mut warnings),
                Err(why) => {
                    warnings.push(format!("{} left out: {why}", file.to_string_lossy()));
                    None
                }
            }
        };
        let own = names.into_iter().filter_map(&mut known).take(MOST).collect();
        Skill::together(own, home, warnings)
    }

    /// As `find`, with the workspace's skills as texts by their paths in it.
    pub fn of(files: Vec<(String, String)>, home: Option<&Path>) -> (Option<Skill>, Vec<String>) {
        let mut warnings = Vec::new();
        let known = |(path, text): (String, String)| {
            let name = path.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix("/SKILL.md")?.to_owned();
            is_name(&name).then(|| Known::new(name, &text, Some(text.clone()), "", &mut warnings)).flatten()
        };
        let own = files.into_iter().filter_map(known).collect();
        Skill::together(own, home, warnings)
    }

    /// Adds the user's skills.
    fn together(
        mut skills: Vec<Known>,
        home: Option<&Path>,
        mut warnings: Vec<String>,
    ) -> (Option<Skill>, Vec<String>) {
        let folder = home.map(|home| home.join(FOLDER));
        let names = folder.as_ref().and_then(|folder| Disk.names(folder).ok()).unwrap_or_default();
        for name in names.into_iter().filter_map(|name| name.into_string().ok()).filter(|name| is_name(name)) {
            let text = folder.as_ref().and_then(|folder| {
                text_of(Disk.entry_within(&folder.join(&name).join("SKILL.md"), bounded::CONFIG))?.ok()
            });
            if let Some(text) = text.filter(|_| skills.iter().all(|skill| skill.name != name)) {
                skills.extend(Known::new(name, &text, Some(text.clone()), "~/", &mut warnings));
            }
        }
        ((!skills.is_empty()).then_some(Skill { skills }), warnings)
    }
}

impl Known {
    /// `None` for a skill that is not for the model, or that is not the same here.
    fn new(name: String, text: &str, own: Option<String>, place: &str, warnings: &mut Vec<String>) -> Option<Known> {
        if let Some(why) = refusal(text) {
            warnings.push(format!("{place}{} left out: {why}", file_of(&name).display()));
            return None;
        }
        (front(text, "disable-model-invocation") != Some("true")).then(|| Known {
            about: description(text),
            name,
            text: own,
        })
    }
}

/// Says why a skill is not loaded, where its hooks would hold back what it asks for.
pub fn refusal(text: &str) -> Option<&'static str> {
    front(text, "hooks").map(|_| "hooks of a skill do not run here; put them into `hooks` of your settings")
}

/// Returns a key of the front matter, as it is written.
fn front<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(key)?.trim_start().strip_prefix(':').map(str::trim);
    split_front_matter(text).0.lines().find_map(value)
}

/// Returns the text of an entry; `None` if it is not a file. The error says why it cannot be used.
pub(super) fn text_of<E: std::error::Error>(entry: Result<Entry, E>) -> Option<Result<String, String>> {
    match entry {
        Ok(Entry::File { content, .. }) => {
            Some(Decoded::from_bytes(&content).map(|text| text.text).ok_or_else(|| "it is not a text file".to_owned()))
        }
        Ok(Entry::Absent | Entry::Link { .. }) => None,
        // The cause alone: the caller names the file.
        Err(error) => Some(Err(error.source().map_or_else(|| error.to_string(), ToString::to_string))),
    }
}

/// Says that a link of the checkout is not followed.
pub(super) fn leads_out(path: &str) -> String {
    format!("{path} left out: it is a link that points outside the workspace")
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

fn file_of(name: &str) -> PathBuf {
    PathBuf::from(format!("{FOLDER}/{name}/SKILL.md"))
}

/// Returns the `description` of the front matter, as one bounded line.
fn description(text: &str) -> String {
    let value = front(text, "description").unwrap_or_default();
    value.trim_matches(['"', '\'']).chars().filter(|c| !c.is_control()).take(DESCRIPTION).collect()
}

/// Splits a text into what is between two `---` lines at its beginning, and the rest.
pub(super) fn split_front_matter(text: &str) -> (&str, &str) {
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else { return ("", text) };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (&rest[..at], &rest[at + line.len()..]);
        }
        at += line.len();
    }
    ("", text)
}

/// Returns what a skill tells the model: its text without the front matter.
pub fn instructions(text: &str) -> &str {
    split_front_matter(text).1
}

impl TypedTool for Skill {
    type Args = SkillArgs;
    const ID: ToolId = ToolId::Skill;
    const EFFECTS: Effects = Effects::Reads;
    const DESCRIPTION: &'static str = "Load the project's instructions for a task.";

    fn description(&self) -> String {
        let list: Vec<String> = self.skills.iter().map(|skill| format!("{}: {}", skill.name, skill.about)).collect();
        format!("{} {}", Self::DESCRIPTION, list.join("; "))
    }

    fn parameters(&self) -> Value {
        let names: Vec<&str> = self.skills.iter().map(|skill| skill.name.as_str()).collect();
        json!({"type": "object", "properties": {"skill": {"type": "string", "enum": names}}, "required": ["skill"]})
    }

    fn call(&self, args: SkillArgs) -> Result<Box<dyn Call>, ToolError> {
        let Some(skill) = self.skills.iter().find(|skill| skill.name == args.skill) else {
            return Err(ToolError::arguments(format!("there is no skill {:?}", args.skill)));
        };
        Ok(Box::new(SkillCall { name: args.skill, text: skill.text.clone() }))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct SkillArgs {
    skill: String,
}

struct SkillCall {
    name: String,
    text: Option<String>,
}

impl Call for SkillCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Read { path: file_of(&self.name) }]
    }

    fn subject(&self, _root: &Path) -> String {
        self.name.clone()
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let file = file_of(&self.name);
            let shown = names::shown(cx, &file);
            let text = match self.text {
                Some(text) => text,
                None => {
                    names::check_size(cx, &cx.workspace.root().join(&file), &shown)?;
                    let view = cx.workspace.read(grant, &file).map_err(|error| names::file_error(&error, &shown))?;
                    let binary = || ToolError::failed(format!("Cannot display content of binary file: {shown}"));
                    Decoded::from_bytes(&view.content).ok_or_else(binary)?.text
                }
            };
            Ok(ToolOutput::text(instructions(&text).trim(), format!("Loaded the skill {}", self.name)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Toolbox;
    use crate::tools::tests::{NoRunner, Project};
    use serde_json::Map;

    #[test]
    fn a_skill_is_listed_in_one_line_and_loaded_whole() {
        let text = b"---\nname: release\ndescription: \"How we release\"\n---\n# Steps\n1. tag\n";
        let project = Project::new(&[
            (".qwen/skills/release/SKILL.md", text),
            (".qwen/skills/a b/SKILL.md", text),
            (".qwen/skills/empty/", b""),
        ]);
        let skill = Skill::find(&project.workspace, None, &|_| Ok(())).0.unwrap();
        assert_eq!(skill.description(), "Load the project's instructions for a task. release: How we release");
        let mut toolbox = Toolbox::default();
        toolbox.add(skill);
        let call = |name: &str| {
            let arguments = Map::from_iter([("skill".to_owned(), Value::from(name))]);
            project.call_of(&toolbox, "skill", arguments, &NoRunner)
        };
        let output = call("release").unwrap();
        assert_eq!(crate::model::Part::text_of(&output.llm_content), "# Steps\n1. tag");
        assert!(call("../release").is_err());
    }

    #[test]
    fn a_skill_that_is_too_large_is_left_out_and_not_read() {
        let project = Project::new(&[(".qwen/skills/small/SKILL.md", b"s"), (".qwen/skills/huge/SKILL.md", b"")]);
        let huge = std::fs::File::options().write(true).open(project.folder.path().join(".qwen/skills/huge/SKILL.md"));
        huge.unwrap().set_len(1 << 32).unwrap();
        let (skill, warnings) = Skill::find(&project.workspace, Some(project.folder.path()), &|_| Ok(()));
        assert_eq!(skill.unwrap().parameters()["properties"]["skill"]["enum"], json!(["small"]));
        assert_eq!(warnings, [".qwen/skills/huge/SKILL.md left out: it is larger than 1 MiB"]);
    }

    #[test]
    fn without_skills_there_is_no_tool() {
        assert!(Skill::find(&Project::new(&[]).workspace, None, &|_| Ok(())).0.is_none());
    }

    #[test]
    fn the_users_skills_are_there_and_what_is_not_for_the_model_or_needs_hooks_is_not() {
        let text = |front: &str| format!("---\ndescription: d\n{front}---\nDo it.\n").into_bytes();
        let (plain, manual, hooked) =
            (text(""), text("disable-model-invocation: true\n"), text("hooks:\n  Stop: []\n"));
        let project =
            Project::new(&[(".qwen/skills/same/SKILL.md", &plain), (".qwen/skills/manual/SKILL.md", &manual)]);
        let home = Project::new(&[
            (".qwen/skills/mine/SKILL.md", &plain),
            (".qwen/skills/same/SKILL.md", &hooked),
            (".qwen/skills/hooked/SKILL.md", &hooked),
        ]);
        let (skill, warnings) = Skill::find(&project.workspace, Some(home.folder.path()), &|_| Ok(()));
        assert_eq!(skill.unwrap().parameters()["properties"]["skill"]["enum"], json!(["same", "mine"]));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("~/.qwen/skills/hooked/SKILL.md left out: hooks"), "{warnings:?}");
    }
}
