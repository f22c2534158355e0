//! Reads the prompt as the operator gave it: as arguments, from a file, from standard input.

use std::path::Path;

use crate::cli::RunArgs;
use crate::cli::input::{CAP, FIRST_BYTE, ProcessInput, read_standard_input};
use crate::cli::prompt::{Prompt, Source};
use crate::settings::Environment;

use crate::run::error::Failure;
use crate::run::error::PromptError;
use crate::run::rules::trust::Trusted;

/// Reads the prompt from arguments, a file or standard input.
pub async fn read_prompt(
    arguments: &RunArgs,
    (trusted, top): (&Trusted, &Path),
    environment: &Environment,
    warnings: &mut Vec<String>,
) -> Result<Prompt, Failure> {
    let input = &arguments.input;
    let readers = input.readers_of_standard_input(&[], None);
    if readers.len() > 1 {
        return Err(PromptError::StandardInputTwice { readers: readers.join(" and ") }.into());
    }
    let source = input.source();
    let wants_stdin =
        !input.no_stdin && (source == Source::StandardInput || !std::io::IsTerminal::is_terminal(&std::io::stdin()));
    let standard_input = if wants_stdin {
        let read = read_standard_input(ProcessInput::open(), CAP, FIRST_BYTE).await;
        let read = read.map_err(PromptError::StandardInput)?;
        warnings.extend(read.warnings);
        Some(read.text)
    } else {
        None
    };
    let (typed, file) = match source {
        Source::Typed(text) => (Some(text), None),
        Source::File(path) => {
            let text = trusted.text_for_model(top, &environment.cwd.join(path));
            let wrong = |why| PromptError::File { path: path.display().to_string(), why };
            (None, Some(text.map_err(wrong)?))
        }
        Source::StandardInput | Source::None => (None, None),
    };
    let missing = || match input.source() {
        Source::File(path) => PromptError::File { path: path.display().to_string(), why: "it is empty".to_owned() },
        Source::Typed(_) | Source::StandardInput | Source::None => PromptError::Missing,
    };
    Prompt::new(standard_input, file, typed.as_deref()).ok_or_else(|| missing().into())
}
