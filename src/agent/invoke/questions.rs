//! Asks models what they meant, and makes the call that their answer in one word means.

use serde_json::Map;

use super::Invoker;
use crate::model::{Arguments, ToolCall};
use crate::path::RelPath;
use crate::tool_name::ToolId;
use crate::tools::Assignment;
use crate::tools::common::memory;

impl Invoker<'_> {
    /// Tells the tools the task.
    pub(crate) fn set_task(&self, task: &Assignment) {
        // A run has one task; what continues it does not change that.
        let _ = self.context.memory.task.set(task.clone());
    }

    /// Returns the question about what rewritten files lost, beyond what the task names.
    pub(crate) fn question_of_loss(&self, task: &str) -> Option<String> {
        memory::question_of_loss(&self.context, task, &|text| self.masked(text))
    }

    /// Returns the calls that put back what rewritten files lost beyond what the task names.
    pub(crate) fn restoring_calls(&self, task: &str, turn: u32) -> Vec<ToolCall> {
        self.writes(memory::restored(&self.context, task), turn)
    }

    /// Returns the question about lines that are like removed ones, where the task asks to remove all of them.
    pub(crate) fn question_of_rest(&self, task: &str) -> Option<String> {
        memory::question_of_rest(&self.context, task, &|text| self.masked(text))
    }

    /// Returns the calls that remove the lines that were asked about.
    pub(crate) fn removing_calls(&self, task: &str, turn: u32) -> Vec<ToolCall> {
        self.writes(memory::without_rest(&self.context, task, &|text| self.masked(text)), turn)
    }

    // Calls like the model's own: policy, hooks and limits hold for them, and what is shown of them has no secret.
    fn writes(&self, files: Vec<(RelPath, String)>, turn: u32) -> Vec<ToolCall> {
        let is_offered = self.offer.specs.iter().any(|spec| spec.name == ToolId::WriteFile.name());
        let files = files.into_iter().filter(|_| is_offered);
        let calls = files.zip(0..).filter_map(|((path, text), index)| {
            let values = [("file_path", path.as_path().to_str()?.to_owned()), ("content", self.masked(text))];
            Some(answered(ToolId::WriteFile, &values, (turn, index)))
        });
        calls.collect()
    }

    /// Forgets at which places the last edit may have been meant: the model goes on with something else.
    pub(crate) fn forget_choice(&self) {
        self.context.memory.choice.lock().expect("nothing panics while it holds the choice").take();
    }

    /// Returns the call that an answer means which says at which place the last edit was meant; `None` if nothing was
    /// asked, or the answer is another. The question is over then.
    pub(crate) fn chosen(&self, answer: &str, turn: u32) -> Option<ToolCall> {
        let choice = self.context.memory.choice.lock().expect("nothing panics while it holds the choice").take()?;
        let answer = answer.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let number = answer.strip_prefix("line ").unwrap_or(&answer);
        let is_all = matches!(number, "all" | "both");
        let (old, new) = match number.parse::<usize>() {
            Ok(number) => {
                let (_, old, new) = choice.places.into_iter().find(|(line, _, _)| *line == number)?;
                (old, new)
            }
            Err(_) if is_all => choice.given,
            Err(_) => return None,
        };
        let path = choice.path.to_str()?.to_owned();
        let values = [("file_path", path), ("old_string", self.masked(old)), ("new_string", self.masked(new))];
        let mut call = answered(ToolId::Edit, &values, (turn, 0));
        if let (Arguments::Object(arguments), true) = (&mut call.arguments, is_all) {
            arguments.insert("replace_all".into(), true.into());
        }
        Some(call)
    }
}

fn answered(tool: ToolId, values: &[(&str, String)], (turn, index): (u32, u32)) -> ToolCall {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into()));
    ToolCall {
        id: format!("choice_{turn}_{index}"),
        name: tool.name().to_owned(),
        arguments: Arguments::Object(values.collect::<Map<_, _>>()),
        recovered: Some("choice"),
        notes: Vec::new(),
    }
}
