//! Asks models that write their calls as text what they meant, and does what their answer in one word means.

use serde_json::Map;

use super::Invoker;
use crate::change::Entry;
use crate::model::{Arguments, ToolCall};
use crate::path::RelPath;
use crate::policy::Access;
use crate::tool_name::ToolId;
use crate::tools::common::memory;

impl Invoker<'_> {
    /// Tells the tools the task in the user's words.
    pub(crate) fn set_task(&self, task: &str) {
        // A run has one task; what continues it does not change that.
        let _ = self.context.memory.task.set(task.to_owned());
    }

    /// Returns the question about what rewritten files lost, beyond what the task names.
    pub(crate) fn question_of_loss(&self, task: &str) -> Option<String> {
        memory::question_of_loss(&self.context, task)
    }

    /// Puts back what rewritten files lost beyond what the task names, as far as the policy still allows to write them;
    /// returns the names of the files.
    pub(crate) fn restore_lost(&self, task: &str) -> Vec<String> {
        self.stage(memory::restored(&self.context, task))
    }

    /// Returns the question about lines that are like removed ones, where the task asks to remove all of them.
    pub(crate) fn question_of_rest(&self, task: &str) -> Option<String> {
        memory::question_of_rest(&self.context, task)
    }

    /// Removes the lines that were asked about, as far as the policy still allows; returns the names of the files.
    pub(crate) fn remove_rest(&self) -> Vec<String> {
        self.stage(memory::without_rest(&self.context))
    }

    fn stage(&self, files: Vec<(RelPath, Entry)>) -> Vec<String> {
        let mut names = Vec::new();
        for (path, entry) in files {
            let access = [Access::Write { path: path.as_path().to_owned() }];
            let (_, Some(grant)) = self.judge.authorize(ToolId::WriteFile.name(), &access) else { continue };
            if self.context.workspace.write(&grant, path.as_path(), entry).is_ok() {
                names.push(path.to_string());
            }
        }
        names
    }

    /// Returns the call that an answer means which says at which place the last edit was meant; `None` if nothing was
    /// asked, or the answer is another. The question is over then.
    pub(crate) fn chosen(&self, answer: &str, turn: u32) -> Option<ToolCall> {
        let choice = self.context.memory.choice.lock().expect("nothing panics while it holds the choice").take()?;
        let answer = answer.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let number = answer.strip_prefix("line ").or(answer.strip_prefix("place ")).unwrap_or(&answer);
        let is_all = matches!(number, "all" | "both");
        let (old, new) = match number.parse::<usize>() {
            Ok(number) => {
                let (_, old, new) = choice.places.into_iter().find(|(line, _, _)| *line == number)?;
                (old, new)
            }
            Err(_) if is_all => choice.given,
            Err(_) => return None,
        };
        let mut arguments = Map::new();
        arguments.insert("file_path".into(), choice.path.to_str()?.into());
        arguments.insert("old_string".into(), old.into());
        arguments.insert("new_string".into(), new.into());
        if is_all {
            arguments.insert("replace_all".into(), true.into());
        }
        Some(ToolCall {
            id: format!("choice_{turn}"),
            name: ToolId::Edit.name().to_owned(),
            arguments: Arguments::Object(arguments),
            recovered: Some("choice"),
            notes: Vec::new(),
        })
    }
}
