//! Creates the model of a run: a server, a server that is recorded, or a cassette.

use crate::model::script::Script;
use crate::recipe::file::ModelWishes;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::trace::Trace;
use crate::bounded;
use crate::cli::RunArgs;
use crate::emit::Spooled;
use crate::event::RunError;
use crate::exit::Exit;
use crate::model::Model;
use crate::model::canonical::Masks;
use crate::model::cassette::{CassetteError, Header, Player};
use crate::model::client::Client;
use crate::model::config::{ClientConfig, Proxies, Sampling, TextToolsMode};
use crate::model::trust;
use crate::policy::redact;
use crate::secret::Secret;
use crate::settings::keys::{self, EndpointOptions};
use crate::settings::{Environment, ModelChoice, Settings, providers};

use crate::run::error::ConnectError;
use crate::run::error::Failure;
use crate::run::output::masking::secret_variables;
use crate::run::output::outputs::checkouts;
use crate::run::place::Place;
use crate::run::stages::server_memory::ServerMemory;
use crate::run::stages::{Lent, Shared};

/// The model, and warnings about it.
pub struct ModelSelection {
    /// The client.
    pub client: Answering,
    /// The model's name.
    pub name: String,
    /// What serves it: a base URL, or the file of `--local`, whose server has another port every time.
    pub server: String,
    /// Warnings.
    pub warnings: Vec<String>,
    /// The key in use, which is masked everywhere.
    pub key: Option<Secret>,
    recording: Option<Recording>,
    memory: Option<ServerMemory>,
}

/// The file of `--record`: it is renamed when the run is over, however it ends.
#[derive(Clone)]
struct Recording(Arc<Mutex<Spooled>>);

impl Recording {
    fn open(arguments: &RunArgs, place: &Place, environment: &Environment) -> Result<Option<Recording>, Failure> {
        let Some(path) = &arguments.test.record else { return Ok(None) };
        match Spooled::open(&environment.cwd.join(path), &checkouts(&place.checkout.around)) {
            Ok(file) => Ok(Some(Recording(Arc::new(Mutex::new(file))))),
            Err(error) => {
                let error = unwritten(&format!("{}: {error}", path.display()));
                Err(Failure { exit: Exit::Failed, error: Box::new(error) })
            }
        }
    }

    fn file(&self) -> std::sync::MutexGuard<'_, Spooled> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Recording {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file().flush()
    }
}

fn unwritten(why: &str) -> RunError {
    RunError::output(format!("cannot write --record {why}"))
}

/// The source of answers.
pub enum Answering {
    /// A server, or its recording.
    Http(Box<Client>),
    /// A script.
    Scripted(Script),
}

impl ModelSelection {
    /// Returns the client as the loop sees it.
    pub fn as_model(&self) -> &dyn Model {
        match &self.client {
            Answering::Http(client) => client.as_ref(),
            Answering::Scripted(script) => script,
        }
    }

    /// Returns the kind of server; `None` for a script.
    pub fn provider(&self) -> Option<&'static str> {
        match &self.client {
            Answering::Http(client) => Some(client.provider_name()),
            Answering::Scripted(_) => None,
        }
    }

    /// Returns why the recording could not be written, if so.
    fn recording_failure(&self) -> Option<RunError> {
        let Answering::Http(client) = &self.client else { return None };
        client.recording_failure().map(|why| unwritten(&why))
    }

    /// Completes the recording and returns why it could not be written, if so. An incomplete one is not kept.
    pub fn keep_recording(&self) -> Option<RunError> {
        let kept = |recording: &Recording| recording.file().keep().err().map(|error| unwritten(&error.to_string()));
        self.recording_failure().or_else(|| kept(self.recording.as_ref()?))
    }

    /// Tells whether the model takes images.
    pub fn facts_of_images(&self) -> bool {
        self.as_model().facts().images
    }
}

/// Selects and prepares the model. Asks the server nothing, except for its only model if none is named on loopback.
pub async fn choose(
    arguments: &RunArgs,
    shared: &Shared,
    recipe: &ModelWishes,
    trace: Option<Arc<Trace>>,
    lent: Option<&Lent<'_>>,
) -> Result<ModelSelection, Failure> {
    let Shared { environment, place, .. } = shared;
    if let Some(script) = script(arguments)? {
        return Ok(script);
    }
    let player = player(arguments, environment, place)?;
    let recording = match &player {
        Some(_) => None,
        None => Recording::open(arguments, place, environment)?,
    };
    let recorded = player.as_ref().map(Player::header);
    let (settings, mut endpoint) = endpoint(arguments, shared, recorded, recipe)?;
    endpoint.warnings.extend(unknown_auth(&settings));
    let mut config = reached(arguments, environment, &settings, &endpoint)?;
    let key = config.key.clone();
    config.connection.trace = trace;
    think(&mut config, recipe);
    if let Some(header) = recorded {
        config.known.served_window = header.served_window;
    }
    config.model = match &endpoint.model {
        ModelChoice::Named(name) => name.value.clone(),
        ModelChoice::TheOnlyOne => {
            let served = crate::model::server_info::only_model(&config).await.map_err(ConnectError::Unnamed)?;
            config.known.served_window = served.window;
            config.known.asks_for_window = false;
            served.name
        }
    };
    let name = config.model.clone();
    let server = server_of(arguments, &config);
    let repeats = lent.is_some_and(|lent| lent.repeats);
    config.known.asks_for_window &= !repeats;
    let memory = if repeats { None } else { recall(arguments, environment, place, &mut config) };
    let transport = || match lent {
        Some(lent) => (lent.transport)(&config),
        None => Client::http(&config, 1),
    };
    let client = match (player, &recording) {
        (Some(player), _) => Client::with_transport(config, Arc::new(player)),
        (None, Some(recording)) => transport().and_then(|transport| {
            let masks = masks(environment, place.root(), config.key.as_ref());
            Client::recording(config, transport, Box::new(recording.clone()), masks)
        }),
        (None, None) => transport().and_then(|transport| Client::with_transport(config, transport)),
    };
    let client = Answering::Http(Box::new(client.map_err(ConnectError::Options)?));
    let chosen = ModelSelection { client, name, server, warnings: endpoint.warnings, key, recording, memory };
    // Its first line is written: an unwritable recording ends the run before a request is paid for.
    match chosen.recording_failure() {
        Some(error) => Err(Failure { exit: Exit::Failed, error: Box::new(error) }),
        None => Ok(chosen),
    }
}

/// Returns how the server is reached that runs with these flags ask, whatever their model is.
pub fn server(arguments: &RunArgs, shared: &Shared, recipe: &ModelWishes) -> Result<ClientConfig, ConnectError> {
    let (settings, endpoint) = endpoint(arguments, shared, None, recipe)?;
    reached(arguments, &shared.environment, &settings, &endpoint)
}

fn reached(
    arguments: &RunArgs,
    environment: &Environment,
    settings: &Settings,
    endpoint: &keys::Endpoint,
) -> Result<ClientConfig, ConnectError> {
    let key = endpoint.key.as_ref().map(|key| key.value.clone());
    let mut config = ClientConfig { key, ..ClientConfig::new(endpoint.base_url.value.as_str(), "") };
    configure(&mut config, arguments, settings, environment)?;
    config.connection.key_from = endpoint.key.as_ref().map(|key| key.origin.to_string());
    Ok(config)
}

/// Returns what serves the model, the same in each run.
fn server_of(arguments: &RunArgs, config: &ClientConfig) -> String {
    arguments.model.local.as_ref().map_or_else(|| config.base_url.clone(), |file| file.display().to_string())
}

/// Returns the name of the model that would be asked, as far as it is known without asking the server.
pub fn name(arguments: &RunArgs, shared: &Shared, recipe: &ModelWishes) -> Result<Option<String>, Failure> {
    if arguments.test.replay.is_some() || arguments.test.script.is_some() || arguments.shows_prompt {
        return Ok(arguments.model.model.clone());
    }
    let (_, endpoint) = endpoint(arguments, shared, None, recipe)?;
    Ok(match endpoint.model {
        ModelChoice::Named(name) => Some(name.value),
        ModelChoice::TheOnlyOne => None,
    })
}

/// Finds server, key and model, and the settings with those of the model's provider.
fn endpoint(
    arguments: &RunArgs,
    shared: &Shared,
    recorded: Option<&Header>,
    recipe: &ModelWishes,
) -> Result<(Settings, keys::Endpoint), ConnectError> {
    let Shared { settings, environment, .. } = shared;
    let key_file = key_file(arguments, environment)?;
    let wishes = wishes(arguments, key_file.as_ref(), recorded, recipe);
    let settings = providers::applied(settings, environment, &wishes).map_err(ConnectError::Key)?;
    let endpoint = keys::resolve(&wishes, environment, &settings).map_err(ConnectError::Key)?;
    Ok((settings, endpoint))
}

/// Takes what an earlier run found out about the server and its model. A recording must hold without it, and a server of
/// `--local` has another port every time.
fn recall(
    arguments: &RunArgs,
    environment: &Environment,
    place: &Place,
    config: &mut ClientConfig,
) -> Option<ServerMemory> {
    let (test, model) = (&arguments.test, &arguments.model);
    if arguments.context.bare || test.record.is_some() || test.replay.is_some() || model.local.is_some() {
        return None;
    }
    let (memory, learned) = ServerMemory::of(&place.cache(environment)?, config)?;
    config.learned = learned;
    Some(memory)
}

/// Returns what answers without a server: a script, or nothing at all where nothing is asked.
fn script(arguments: &RunArgs) -> Result<Option<ModelSelection>, ConnectError> {
    if arguments.shows_prompt {
        return Ok(Some(scripted(Script::empty())));
    }
    let Some(path) = &arguments.test.script else { return Ok(None) };
    let script = bounded::named_text(path, bounded::PRODUCT).map_err(|error| error.to_string());
    let script = script
        .and_then(|text| Script::parse(&text).map_err(|error| error.to_string()))
        .map_err(|why| ConnectError::Script { path: path.display().to_string(), why })?;
    Ok(Some(scripted(script)))
}

fn scripted(script: Script) -> ModelSelection {
    let (client, name, server) = (Answering::Scripted(script), "scripted".to_owned(), String::new());
    ModelSelection { client, name, server, warnings: Vec::new(), key: None, recording: None, memory: None }
}

/// Reads the cassette of `--replay`.
fn player(arguments: &RunArgs, environment: &Environment, place: &Place) -> Result<Option<Player>, ConnectError> {
    let Some(path) = &arguments.test.replay else { return Ok(None) };
    let shown = || path.display().to_string();
    let text = bounded::named_text(&environment.cwd.join(path), bounded::PRODUCT);
    let text = text.map_err(|cause| ConnectError::Replay { path: shown(), cause })?;
    let player = Player::new(&text, masks(environment, place.root(), None));
    player.map(Some).map_err(|error| match error {
        CassetteError::Edited { line } => ConnectError::Edited { path: shown(), line, why: error.to_string() },
        CassetteError::Empty | CassetteError::Line { .. } | CassetteError::Version(_) => {
            ConnectError::Recording { path: shown(), why: error.to_string() }
        }
    })
}

/// Reads the file of `--api-key-file`: its name, and its text.
fn key_file(arguments: &RunArgs, environment: &Environment) -> Result<Option<(String, String)>, ConnectError> {
    let Some(path) = &arguments.model.api_key_file else { return Ok(None) };
    let shown = path.display().to_string();
    match bounded::named_text(&environment.cwd.join(path), bounded::CONFIG) {
        Ok(text) => Ok(Some((shown, text))),
        Err(cause) => Err(ConnectError::KeyFile { path: shown, cause }),
    }
}

/// Returns what flags, cassette and recipe say about the server and its model.
fn wishes<'a>(
    arguments: &'a RunArgs,
    key_file: Option<&'a (String, String)>,
    recorded: Option<&'a Header>,
    recipe: &'a ModelWishes,
) -> EndpointOptions<'a> {
    let flags = &arguments.model;
    EndpointOptions {
        api_key: flags.openai_api_key.as_deref(),
        api_key_file: key_file.map(|(path, text)| (path.as_str(), text.as_str())),
        // A recorded conversation is replayed with the recorded URL, wherever it is replayed.
        base_url: flags.openai_base_url.as_deref().or(recorded.map(|header| header.base_url.as_str())),
        allow_http: flags.allow_http,
        model: flags.model.as_deref().or(recorded.map(|header| header.model.as_str())),
        recipe_model: recipe.name.as_ref().map(|name| name.as_str()),
        local: flags.local.is_some(),
        offline: recorded.is_some(),
    }
}

fn unknown_auth(settings: &Settings) -> Option<String> {
    let kind = settings.auth.selected_type.as_ref()?;
    let is_known = matches!(kind.value.as_str(), "openai" | "USE_OPENAI" | "");
    (!is_known).then(|| {
        format!(
            "{}: unknown security.auth.selectedType `{}`; the server and key of `openai` are used",
            kind.origin, kind.value
        )
    })
}

/// The recipe says whether the model thinks.
fn think(config: &mut ClientConfig, recipe: &ModelWishes) {
    let Some(thinking) = recipe.thinking else { return };
    config.generation.thinking = Some(thinking);
    if !thinking {
        // The thinking that the settings ask for.
        config.generation.extra_body.retain(|name, _| !matches!(name.as_str(), "reasoning_effort" | "thinking_budget"));
    }
}

impl Drop for ModelSelection {
    /// A run that a signal ends keeps what was recorded and found out so far.
    fn drop(&mut self) {
        if let (Some(memory), Answering::Http(client)) = (&self.memory, &self.client) {
            memory.keep(client);
        }
        let _nobody_hears = self.keep_recording();
    }
}

/// What a cassette must not contain: paths of this machine, and secrets in every spelling.
fn masks(environment: &Environment, root: &std::path::Path, key: Option<&Secret>) -> Masks {
    let home = environment.home.as_ref().map(|home| home.display().to_string());
    let secrets = redact::texts(&secret_variables(environment, key, None));
    Masks::new(&root.display().to_string(), home.as_deref(), environment.value("TMPDIR").as_deref(), secrets)
}

fn configure(
    config: &mut ClientConfig,
    arguments: &RunArgs,
    settings: &Settings,
    environment: &Environment,
) -> Result<(), ConnectError> {
    let flags = &arguments.model;
    sampling(config, arguments, settings);
    config.fallback_models = match &settings.model.fallbacks {
        _ if !flags.fallback_model.is_empty() => flags.fallback_model.clone(),
        Some(models) => models.value.clone(),
        None => Vec::new(),
    };
    reasoning(config, settings);
    config.generation.cache_marks = settings.generation.enable_cache_control.as_ref().is_none_or(|marks| marks.value);
    // Those of the settings are for another server than that of `--local`, and may hold its key.
    let headers = settings.generation.custom_headers.iter().filter(|_| flags.local.is_none());
    for (name, value) in headers {
        config.connection.headers.push((name.clone(), value.as_str().unwrap_or_default().to_owned()));
    }
    config.known.context_window = settings.generation.context_window_size.as_ref().map(|window| window.value);
    patience(config, arguments, settings);
    config.text_tools = match flags.text_tools {
        crate::cli::run::TextTools::Auto => TextToolsMode::Auto,
        crate::cli::run::TextTools::Off => TextToolsMode::Off,
        crate::cli::run::TextTools::Force => TextToolsMode::Force,
    };
    connection(config, arguments, settings, environment)?;
    config.retry.now = Some(|| jiff::Timestamp::now().into());
    config.retry.jitter_seed = flags.seed.unwrap_or_else(|| u64::from(std::process::id()));
    Ok(())
}

/// How the model chooses its words, and what else the settings put into each request.
fn sampling(config: &mut ClientConfig, arguments: &RunArgs, settings: &Settings) {
    let flags = &arguments.model;
    let parameter = |name: &str| settings.generation.sampling_params.get(name);
    config.generation.sampling = Sampling {
        temperature: flags.temperature.or_else(|| parameter("temperature")?.as_f64()),
        top_p: flags.top_p.or_else(|| parameter("top_p")?.as_f64()),
        seed: flags.seed.and_then(|seed| i64::try_from(seed).ok()).or_else(|| parameter("seed")?.as_i64()),
    };
    config.generation.max_output_tokens = flags.max_output_tokens.or_else(|| parameter("max_tokens")?.as_u64());
    config.generation.extra_body = settings.generation.extra_body.clone();
    for (name, value) in &settings.generation.sampling_params {
        if !matches!(name.as_str(), "temperature" | "top_p" | "max_tokens" | "seed") {
            config.generation.extra_body.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// How long the server is waited for, and how often it is asked.
fn patience(config: &mut ClientConfig, arguments: &RunArgs, settings: &Settings) {
    let flags = &arguments.model;
    if let Some(timeout) =
        flags.request_timeout.or(settings.generation.timeout_ms.as_ref().map(|ms| Duration::from_millis(ms.value)))
    {
        config.timers.first_byte = Some(timeout);
    }
    let idle = settings.generation.stream_idle_timeout_ms.as_ref().filter(|idle| idle.value > 0);
    let idle = idle.map(|idle| Duration::from_millis(idle.value));
    if let Some(idle) = flags.stream_idle_timeout.or(idle) {
        config.timers.idle = idle;
    }
    if let Some(retries) =
        flags.retries.or(settings.generation.max_retries.as_ref().and_then(|n| u32::try_from(n.value).ok()))
    {
        config.retry.retries = retries;
    }
    if let Some(wait) = flags.max_wait {
        config.retry.max_wait = wait;
    }
}

/// Which certificates count, and which proxy is used.
fn connection(
    config: &mut ClientConfig,
    arguments: &RunArgs,
    settings: &Settings,
    environment: &Environment,
) -> Result<(), ConnectError> {
    let flags = &arguments.model;
    config.connection.allow_http = flags.allow_http;
    config.connection.ca_files = environment.value("SSL_CERT_FILE").map(Into::into).into_iter().collect();
    if let Some(file) = &flags.ca_file {
        let file = environment.cwd.join(file);
        let read = trust::read_certificates(&file);
        let none = "it contains no certificate".to_owned();
        read.and_then(|found| if found.is_empty() { Err(none) } else { Ok(()) })
            .map_err(|why| ConnectError::CaFile { path: file.display().to_string(), why })?;
        config.connection.ca_files.push(file);
    }
    let variable = |upper: &str| environment.value(&upper.to_lowercase()).or_else(|| environment.value(upper));
    let proxy = settings.environment.proxy.as_ref().map(|proxy| proxy.value.clone());
    config.connection.proxy = Proxies {
        https: proxy.clone().or_else(|| variable("HTTPS_PROXY")),
        http: proxy.or_else(|| variable("HTTP_PROXY")),
        all: variable("ALL_PROXY"),
        no_proxy: variable("NO_PROXY"),
    };
    Ok(())
}

/// `reasoning` of the settings: `false` or `true`, or an object with `effort` and `budget_tokens`.
fn reasoning(config: &mut ClientConfig, settings: &Settings) {
    let Some(reasoning) = &settings.generation.reasoning else { return };
    config.generation.thinking = Some(reasoning.value != serde_json::Value::Bool(false));
    let fields = [("effort", "reasoning_effort"), ("budget_tokens", "thinking_budget")];
    for (name, field) in fields {
        if let Some(value) = reasoning.value.get(name) {
            config.generation.extra_body.entry(field).or_insert_with(|| value.clone());
        }
    }
}
