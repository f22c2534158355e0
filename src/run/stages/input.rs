//! The last stage: what the model is shown, and what of it is masked.

use std::sync::PoisonError;

use super::item::Item;
use super::shared::{KnownContext, Shared};
use crate::cli::prompt::Prompt;
use crate::cli::run::{FromHook, FromJob};
use crate::model::{Part, ToolSpec};
use crate::prompt::system;
use crate::run::conversation::hooks::Hooks;
use crate::run::error::{Failure, ServerError, SetupError};
use crate::run::prompt::context::{self, ContextSources};
use crate::run::prompt::images;
use crate::run::prompt::slash_command::Commands;
use crate::run::prompt::typed::read_prompt;
use crate::run::stages::model::ModelSelection;
use crate::settings::Environment;
use crate::tools::mcp::Servers;

/// The prompt and what belongs to it.
pub struct Input {
    /// The prompt; of a recipe, nothing.
    pub prompt: Prompt,
    /// `--file`.
    pub files: Vec<String>,
    /// `--image`.
    pub images: Vec<Part>,
    /// What `/name` may call.
    pub commands: Commands,
    /// `--strict`.
    pub strict: bool,
    /// A git hook for which the run is.
    pub from_hook: Option<FromHook>,
    /// The environment.
    pub environment: Environment,
    /// What the job of the Action says that started the run.
    pub from_job: FromJob,
    /// The first message is shown and not sent.
    pub shows_prompt: bool,
    /// The user's hooks.
    pub hooks: Hooks,
    /// The system prompt, with secrets.
    pub system: String,
}

impl Input {
    /// Reads the prompt as it was typed.
    pub async fn prompt(shared: &Shared, item: &mut Item) -> Result<Prompt, Failure> {
        let files = (&shared.trusted, shared.place.top());
        match &item.recipe {
            Some(_) => Ok(Prompt::default()),
            None => read_prompt(&item.arguments, files, &shared.environment, &mut item.warnings).await,
        }
    }

    /// Reads commands, context and images.
    pub async fn open(
        shared: &Shared,
        item: &mut Item,
        mut prompt: Prompt,
        mcp: &Servers,
        client: &ModelSelection,
        tools: &[ToolSpec],
    ) -> Result<Input, Failure> {
        let (environment, top) = (&shared.environment, shared.place.top());
        let commands = match item.arguments.context.bare {
            true => Commands::none(),
            false => Commands::of(environment, top, &shared.trusted, &item.rules.policy),
        };
        expand(&mut prompt, &commands, mcp).await?;
        let context = context(shared, item)?;
        let mut problems = Vec::new();
        let (root, programs) = (shared.place.root().to_path_buf(), &shared.place.checkout.programs);
        let hooks = Hooks::of(&shared.settings, environment, root, programs, &mut problems)?;
        let takes_images = client.facts_of_images();
        let images = images::read(&item.arguments.input.images, &environment.cwd, takes_images, &mut problems)?;
        item.skipped(problems)?;
        Ok(Input {
            prompt,
            images,
            commands,
            hooks,
            files: item.arguments.input.files.clone(),
            strict: item.arguments.context.strict,
            from_hook: item.arguments.from_hook.clone(),
            environment: environment.clone(),
            from_job: item.arguments.from_job.clone(),
            shows_prompt: item.arguments.shows_prompt,
            system: system_prompt(item, &context, mcp, tools)?,
        })
    }
}

/// Replaces the call of a server's prompt by its text.
async fn expand(prompt: &mut Prompt, commands: &Commands, mcp: &Servers) -> Result<(), ServerError> {
    // A server cannot take a name that a file has: its prompt can be called as `server__prompt`.
    let of_server = match commands.has(&prompt.typed_text()) {
        true => None,
        false => mcp.expand(&prompt.typed_text()).await,
    };
    if let Some(expanded) = of_server {
        let text = expanded.map_err(ServerError::Prompt)?;
        // Treated as text that was read: it is the server's, and calls no command here.
        let read = prompt.read.take();
        prompt.read = Some(read.map_or(text.clone(), |read| format!("{}\n\n{text}", read.trim_end_matches('\n'))));
        prompt.typed = Vec::new();
    }
    Ok(())
}

/// Reads the context files, once for all items: what an edit changes meanwhile is for the next batch, and the prompts of
/// all items begin with the same bytes.
fn context(shared: &Shared, item: &mut Item) -> Result<Vec<(String, String)>, SetupError> {
    if item.arguments.context.bare {
        return Ok(Vec::new());
    }
    let policy = item.rules.policy.facts().sha256;
    let mut known = shared.found.context.lock().unwrap_or_else(PoisonError::into_inner);
    let context = match known.as_ref().filter(|known| known.policy == policy) {
        Some(known) => known.clone(),
        None => {
            let (files, problems) = context::gather(&ContextSources {
                home: shared.environment.home.as_deref(),
                top: shared.place.top(),
                workspace: shared.place.root(),
                project: shared.trusted.source(),
                settings: &shared.settings,
                policy: &item.rules.policy,
            });
            known.insert(KnownContext { policy, files, problems }).clone()
        }
    };
    drop(known);
    item.skipped(context.problems)?;
    Ok(context.files)
}

fn system_prompt(
    item: &Item,
    context: &[(String, String)],
    mcp: &Servers,
    tools: &[ToolSpec],
) -> Result<String, Failure> {
    let mut appended: Vec<String> = Vec::new();
    if let Some(active) = &item.recipe {
        appended.extend(active.instructions()?);
    }
    appended.extend(item.wanted.instruction());
    appended.extend(mcp.instructions());
    let flags = &item.arguments.context;
    appended.extend(flags.append_system_prompt.clone());
    let core = flags.system_prompt.clone().unwrap_or_else(|| system::core(tools));
    let summary = item.rules.policy.summary();
    Ok(system::system_prompt(&core, &summary, context, Some(&appended.join("\n\n"))))
}
