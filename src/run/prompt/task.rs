//! Builds the first message of a run: the task, and the parts of the project that it names.

use serde_json::Map;

use crate::cli::prompt::{Prompt, PromptPart};
use crate::event::Event;
use crate::model::Part;
use crate::path::RelPath;
use crate::policy::Access;
use crate::prompt::first_message::{
    LISTING_CHARS, Note, PROJECT_BYTES, PROJECT_FILES, SHOWN_FILE_BYTES, SHOWN_FILES, first_message, named_paths,
    new_file, note, top_line,
};

use crate::run::error::Failure;
use crate::run::error::PromptError;
use crate::run::prompt::included::Reader;
use crate::run::prompt::listing::listing;
use crate::run::prompt::slash_command::Commands;
use crate::tool_name::ToolId;

/// Builds the first message.
pub struct Task<'a> {
    /// The prompt as it was typed and read.
    pub prompt: &'a Prompt,
    /// `--file PATH[:FROM-TO]`, in order.
    pub files: &'a [String],
    /// Whether a name that is not a path is an error (`--strict`).
    pub strict: bool,
    /// What `/name` may call.
    pub commands: &'a Commands,
    /// Images of `--image`.
    pub images: &'a [Part],
    /// Whether the model writes its calls as text, as small ones do.
    pub text_tools: bool,
    /// Reads what is named.
    pub reader: Reader<'a>,
}

impl Task<'_> {
    /// Returns what was typed; the files that it names are included.
    async fn typed(
        &self,
        included: &mut String,
        media: &mut Vec<Part>,
        warnings: &mut Vec<String>,
    ) -> Result<String, Failure> {
        let mut task = String::new();
        for piece in &self.prompt.typed {
            match piece {
                PromptPart::Text(text) => task.push_str(text),
                PromptPart::Path { path, spelled } => match self.reader.include(path).await? {
                    Some(parts) => {
                        task.push_str(path);
                        for part in parts {
                            match part {
                                Part::Text(text) => included.push_str(&text),
                                Part::Media { .. } => media.push(part),
                            }
                        }
                    }
                    None if self.strict => {
                        return Err(PromptError::NoPath(spelled.clone()).into());
                    }
                    None => {
                        warnings.push(format!(
                            "{spelled} in the prompt is not a path in the workspace; it is kept as text"
                        ));
                        task.push_str(spelled);
                    }
                },
            }
        }
        Ok(task)
    }

    /// Reads what the prompt names and returns the message, and events to show.
    ///
    /// Everything is read through the tools and under the policy: a file that must not be read is an error if a flag or
    /// `@` names it, and is left out if the prompt only mentions it.
    pub async fn message(&self) -> Result<(Vec<Part>, Vec<Event>), Failure> {
        let mut warnings = Vec::new();
        let mut included = String::new();
        let mut media = self.images.to_vec();
        let mut task = String::new();
        for file in self.files {
            let text = self.file(file).await?;
            included.push_str(&text);
        }
        if let Some(read) = &self.prompt.read {
            task.push_str(read.trim_end_matches('\n'));
            if !self.prompt.typed.is_empty() {
                task.push_str("\n\n");
            }
        }
        let begins = task.len();
        let typed = self.typed(&mut included, &mut media, &mut warnings).await?;
        task.push_str(&typed);
        let mut events: Vec<Event> = warnings.into_iter().map(|message| Event::Warning { message }).collect();
        if let Some(called) = self.commands.expand(&self.prompt.typed_text(), &self.reader).await? {
            task.truncate(begins);
            task.push_str(&called.text);
            media.extend(called.media);
            events.extend(called.events);
        }
        let names = listing(self.reader.context.workspace, LISTING_CHARS);
        let mut shown = self.mentioned();
        let note = self.note(&task);
        let top = match shown.as_slice() {
            [(_, text)] => top_line(&task, text).map(str::to_owned),
            _ => None,
        };
        let is_counted = note.is_some_and(|note| note.counts());
        if self.text_tools && !is_counted && !self.prompt.typed.is_empty() {
            shown.extend(self.whole_project(&names, &shown).unwrap_or_default());
        }
        let task = match note {
            Some(note) => {
                let workspace = self.reader.context.workspace;
                let is_there = |name: &str| RelPath::new(name).is_none_or(|path| !workspace.is_free(&path));
                format!("{}\n\n{}", task.trim(), note.said(new_file(&task, &is_there), top.as_deref()))
            }
            None => task.trim().to_owned(),
        };
        let mut parts = vec![Part::Text(first_message(&names, &shown, &included, &task))];
        parts.extend(media);
        Ok((parts, events))
    }

    /// Returns what a model that writes its calls as text is told about a task, if it has the tool that is spoken of.
    fn note(&self, task: &str) -> Option<Note> {
        let is_told = self.text_tools && !self.prompt.typed.is_empty();
        note(task).filter(|note| is_told && self.reader.registry.has(note.tool))
    }

    /// Reads the small files that the typed text mentions without `@`.
    fn mentioned(&self) -> Vec<(String, String)> {
        let typed: String = self
            .prompt
            .typed
            .iter()
            .map(|piece| match piece {
                PromptPart::Text(text) => text.as_str(),
                PromptPart::Path { .. } => " ",
            })
            .collect();
        let files = named_paths(&typed).into_iter().filter_map(|name| self.small(name)).take(SHOWN_FILES);
        files.map(|file| self.show(file)).collect()
    }

    /// Reads the other files of a project that is very small: models that write their calls as text search badly.
    /// `None` where there is more.
    fn whole_project(&self, names: &str, shown: &[(String, String)]) -> Option<Vec<(String, String)>> {
        let others: Vec<&str> = names.lines().filter(|name| shown.iter().all(|(path, _)| path != name)).collect();
        if others.len() > PROJECT_FILES {
            return None;
        }
        let mut left = PROJECT_BYTES.checked_sub(shown.iter().map(|(_, text)| text.len()).sum())?;
        let mut files = Vec::new();
        for file in others.into_iter().filter_map(|name| self.small(name)) {
            left = left.checked_sub(file.text.len())?;
            files.push(file);
        }
        Some(files.into_iter().map(|file| self.show(file)).collect())
    }

    /// Reads a small text file that the policy lets the model read.
    fn small(&self, name: &str) -> Option<Shown> {
        let path = std::path::Path::new(name);
        let (_, grant) = self.reader.judge.authorize(ToolId::ReadFile.name(), &[Access::Read { path: path.into() }]);
        let view = self.reader.context.workspace.read(&grant?, path).ok()?;
        let is_small = view.content.len() <= SHOWN_FILE_BYTES && !view.content.contains(&0);
        let text = std::str::from_utf8(&view.content).ok().filter(|_| is_small)?.to_owned();
        Some(Shown { path: view.path, text })
    }

    /// Notes that the model sees a file.
    fn show(&self, file: Shown) -> (String, String) {
        crate::tools::common::memory::saw(self.reader.context.memory, &file.path, file.text.as_bytes());
        (file.path.to_string(), file.text)
    }

    async fn file(&self, named: &str) -> Result<String, Failure> {
        let mut arguments = Map::new();
        let (path, lines) = split_range(named);
        arguments.insert("file_path".into(), path.into());
        if let Some((from, to)) = lines {
            arguments.insert("offset".into(), (from - 1).into());
            arguments.insert("limit".into(), (to + 1 - from).into());
        }
        let parts = self.reader.call(ToolId::ReadFile, arguments).await;
        let parts = parts.map_err(|why| {
            let before = named.rsplit_once(':').filter(|_| lines.is_none());
            let root = self.reader.context.workspace.root();
            let why = match before.filter(|(path, _)| root.join(path).is_file()) {
                Some((_, range)) => format!("`{range}` is not a range of lines: write FROM-TO, from line 1 on"),
                None => why,
            };
            PromptError::Attached { named: named.to_owned(), why }
        })?;
        Ok(format!("--- {path} ---\n{}\n--- End of {path} ---\n\n", Part::text_of(&parts).trim_end()))
    }
}

/// A file that is shown with the task.
struct Shown {
    path: RelPath,
    text: String,
}

/// Splits `PATH:FROM-TO` (lines from 1, both included); a name without a range means the whole file.
fn split_range(named: &str) -> (&str, Option<(u64, u64)>) {
    let range = named.rsplit_once(':').and_then(|(path, range)| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        (from >= 1 && to >= from).then_some((path, (from, to)))
    });
    match range {
        Some((path, lines)) => (path, Some(lines)),
        None => (named, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_flag_may_name_lines() {
        assert_eq!(split_range("a.rs"), ("a.rs", None));
        assert_eq!(split_range("a.rs:3-7"), ("a.rs", Some((3, 7))));
        assert_eq!(split_range("a.rs:3"), ("a.rs", Some((3, 3))));
        assert_eq!(split_range("a:b:7-3"), ("a:b:7-3", None));
    }
}
