//! Sums up a policy for the system prompt.

use super::file::{CommandRule, DefaultRule};
use super::glob::Glob;
use super::layers::Policy;
use super::rules::Rule;
use crate::tool_name::ToolId;

impl Policy {
    /// Sums up for the system prompt what is restricted, in a few lines; whole tools aside, see
    /// [`Policy::denies_tool`].
    pub fn summary(&self) -> String {
        let mut lines = Vec::new();
        let globs =
            |rules: &[Rule<Glob>]| rules.iter().map(|rule| rule.value.text().to_owned()).collect::<Vec<_>>().join(", ");
        // Where a batch keeps its files is no item's business, and every prompt begins with the same words.
        for layer in self.layers.iter().filter(|layer| !layer.is_of_batch()) {
            match &layer.rules.paths.write.allow {
                Some(allow) if allow.is_empty() => lines.push("No files may be written.".to_owned()),
                Some(allow) if !allow.iter().any(|rule| rule.value.text() == "**") => {
                    lines.push(format!("Files may be written only under: {}.", globs(allow)));
                }
                None if layer.grants => lines.push("No files may be written.".to_owned()),
                _ => {}
            }
            if !layer.rules.paths.write.deny.is_empty() {
                lines.push(format!("Never written: {}.", globs(&layer.rules.paths.write.deny)));
            }
            if !layer.rules.paths.read.deny.is_empty() {
                lines.push(format!("Never read: {}.", globs(&layer.rules.paths.read.deny)));
            }
            if self.denies_tool(ToolId::RunShellCommand.name()) {
                continue;
            }
            let commands = |rules: &[Rule<CommandRule>]| {
                let one = |rule: &Rule<CommandRule>| {
                    let words: Vec<String> = rule.value.cmd.iter().map(|element| shortened(&element.0)).collect();
                    words.join(" ")
                };
                rules.iter().map(one).collect::<Vec<_>>().join(", ")
            };
            match (layer.rules.shell.default, &layer.rules.shell.allow) {
                (Some(DefaultRule::Allow), _) => {}
                (_, Some(allow)) => lines.push(format!("Commands: {}.", commands(allow))),
                _ => {}
            }
            if !layer.rules.shell.deny.is_empty() {
                lines.push(format!("Never run: {}.", commands(&layer.rules.shell.deny)));
            }
        }
        lines.dedup();
        lines.join("\n")
    }
}

// A long list tells the model enough by its beginning; a denial names the whole of it.
fn shortened(words: &[String]) -> String {
    const SHOWN: usize = 24;
    let more = if words.len() > SHOWN { "|…" } else { "" };
    format!("{}{more}", words[..words.len().min(SHOWN)].join("|"))
}
