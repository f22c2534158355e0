//! Runs `qwen help`: shows a page of the manual, or the flags of a command.

use std::io::{IsTerminal as _, Write};

use clap::CommandFactory as _;

use super::console::{appearance, of_a_pipe, print};
use super::error::HelpError;
use crate::base::document::yaml::nearest;
use crate::cli::Cli;
use crate::cli::help_topic::{HelpArgs, Page, manual};
use crate::emit::manual_page;
use crate::exit::Exit;
use crate::run::Failure;
use crate::settings::Environment;

pub(super) fn run(arguments: &HelpArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let pages = manual();
    let [topic] = arguments.words.as_slice() else {
        return match arguments.words.is_empty() {
            true => print(out, &list(&pages)),
            false => Err(HelpError::Prompt(arguments.words.join(" ")).into()),
        };
    };
    if let Some(page) = pages.iter().find(|page| page.topic == *topic) {
        return print(out, &shown(page, environment));
    }
    if let Some(command) = Cli::command().find_subcommand_mut(topic) {
        let mut command = command.clone().bin_name(format!("qwen {topic}"));
        return print(out, &command.render_help().to_string());
    }
    let known = nearest(topic, pages.iter().map(|page| page.topic.as_str())).map(str::to_owned);
    Err(HelpError::Unknown { topic: topic.clone(), nearest: known }.into())
}

/// Names every page with its title.
fn list(pages: &[Page]) -> String {
    let width = pages.iter().map(|page| page.topic.len()).max().unwrap_or(0);
    let rows = pages.iter().map(|page| format!("{:width$}  {}\n", page.topic, page.title()));
    rows.collect::<String>() + "\nShow a page: qwen help TOPIC; flags and commands: qwen --help\n"
}

/// Returns a page as a terminal shows it, without colours where a person sends it through a pipe; programs get the
/// Markdown.
fn shown(page: &Page, environment: &Environment) -> String {
    match (std::io::stdout().is_terminal(), std::io::stderr().is_terminal()) {
        (true, _) => manual_page(&page.text, &appearance(environment)),
        (false, true) => manual_page(&page.text, &of_a_pipe(environment)),
        (false, false) => page.text.clone(),
    }
}
