//! Manages one server: starts it, lists and calls its tools, and restarts it once if it dies.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, GetPromptRequest, GetPromptRequestParams,
    ListPromptsRequest, ListResourcesRequest, ListToolsRequest, PaginatedRequestParams, ReadResourceRequest,
    ReadResourceRequestParams,
};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::config::{Config, Connect, Web};
use super::connection::{Behind, Connection, Trouble, Unopened};
use super::definition::{Definition, PromptDefinition, definition, prompt_of};
use super::handler::{Handler, News};
use super::launch::Launcher;
use super::lines::{Faults, Lines};
use super::oauth::Tokens;
use super::pins::Pins;
use super::tail::Tail;
use super::{http, shown, sse};
use crate::base::cut;
use crate::base::trace::Context;
use crate::policy::access::Pin;

/// Maximum tools of one server.
const TOOLS: usize = 1_000;

/// Maximum bytes that the tools of one server take in a request.
const BYTES: usize = 512 << 10;

/// Maximum characters of a server's instructions.
const INSTRUCTIONS: usize = 4_000;

/// How long a list that changed may take to be read again.
const REFRESH: Duration = Duration::from_secs(5);

/// How often a server is started in a run.
const STARTS: u32 = 2;

/// A server of the run.
pub struct Server {
    config: Config,
    launcher: Arc<dyn Launcher>,
    tokens: Tokens,
    root: String,
    pins: Pins,
    life: Mutex<Life>,
    listing: RwLock<Listing>,
    /// How often its tools have changed.
    changes: AtomicU64,
}

#[derive(Default)]
struct Life {
    connection: Option<Arc<Connection>>,
    starts: u32,
    /// Why it is gone.
    fault: Option<String>,
}

/// What a server has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// Its tools, in its order.
    pub tools: Vec<Definition>,
    /// Its prompts.
    pub prompts: Vec<PromptDefinition>,
    /// Its resources: address and name.
    pub resources: Vec<(String, String)>,
    /// Its instructions, cut to 4,000 characters.
    pub instructions: String,
    /// What was wrong with the lists, and how it runs.
    pub notes: Vec<String>,
}

/// Entries of a list, and what is wrong with it.
type Listed = Result<(Vec<Value>, Option<String>), Trouble>;

impl Listing {
    /// Returns the entries of a list that a server need not have, and notes what is wrong with it.
    fn optional(&mut self, what: &str, listed: Option<Listed>) -> Vec<Value> {
        match listed {
            Some(Ok((entries, note))) => {
                self.notes.extend(note);
                entries
            }
            Some(Err(trouble)) => {
                self.notes.push(format!("its {what} cannot be listed: {}", words(&trouble)));
                Vec::new()
            }
            None => Vec::new(),
        }
    }
}

/// Why a server is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// A sentence for the user.
    pub why: String,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
    /// Whether it asks for a token.
    pub needs_token: bool,
}

impl Server {
    /// Prepares; nothing is started.
    pub fn new(config: Config, launcher: Arc<dyn Launcher>, tokens: Tokens, root: String, pins: Pins) -> Server {
        Server {
            config,
            launcher,
            tokens,
            root,
            pins,
            life: Mutex::default(),
            listing: RwLock::default(),
            changes: AtomicU64::new(0),
        }
    }

    /// Returns its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns what it has, as far as it was asked.
    pub fn listing(&self) -> Listing {
        self.listing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores new facts about the server, and counts a change of its tools.
    fn keep(&self, change: impl FnOnce(&mut Listing)) {
        let mut listing = self.listing.write().unwrap_or_else(PoisonError::into_inner);
        let before = listing.tools.clone();
        change(&mut listing);
        if listing.tools != before {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how often its tools have changed; where it said that they did, they are read again first.
    pub async fn changes(&self) -> u64 {
        let connection = self.life.lock().await.connection.clone();
        if let Some(connection) = connection.filter(|connection| !connection.is_gone())
            && connection.news.take_tools_changed()
        {
            self.refresh(&connection).await;
        }
        self.changes.load(Ordering::Relaxed)
    }

    /// Starts it and asks for its lists, within its own time.
    pub async fn start(&self) -> Result<(), Failed> {
        let mut life = self.life.lock().await;
        self.begin(&mut life).await
    }

    async fn begin(&self, life: &mut Life) -> Result<(), Failed> {
        life.starts += 1;
        let most = self.config.handshake();
        let (faults, tail) = (Faults::default(), Tail::default());
        let started = async {
            let connection = self.connect(faults.clone(), tail.clone()).await?;
            let listing = self.list(&connection.0, connection.1, most).await;
            match listing {
                Ok(listing) => Ok((connection.0, listing)),
                Err(unopened) => Err(unopened),
            }
        };
        let outcome = match tokio::time::timeout(most, started).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Unopened {
                why: format!("it was not ready within {}{}{}", seconds(most), faults.garbage(), tail.said(3)),
                asks: None,
            }),
        };
        match outcome {
            Ok((connection, listing)) => {
                self.keep(|kept| *kept = listing);
                life.connection = Some(Arc::new(connection));
                life.fault = None;
                Ok(())
            }
            Err(Unopened { why, asks }) => {
                let why = match &asks {
                    Some(ask) => format!("{why}: run {}", ask.command(&self.config.name)),
                    None => why,
                };
                life.fault = Some(why.clone());
                Err(Failed { why, stderr: tail.lines(), needs_token: asks.is_some() })
            }
        }
    }

    async fn connect(&self, faults: Faults, tail: Tail) -> Result<(Connection, Option<String>), Unopened> {
        let unopened = |why: String| Unopened { why, asks: None };
        let handler = Handler { root: self.root.clone(), news: News::default() };
        match &self.config.connect {
            Connect::Stdio(_) => {
                let launched = self.launcher.launch(&self.config).await.map_err(unopened)?;
                tokio::spawn(tail.clone().follow(launched.stderr));
                let lines = Lines::new(launched.stdout, launched.stdin, faults.clone());
                let behind = Behind { process: Some(launched.process), faults, tail };
                Ok((Connection::open(lines, handler, behind).await?, launched.note))
            }
            Connect::Http(web) => {
                let client = self.client(web)?;
                let behind = Behind { faults, ..Behind::default() };
                let connection = match self.tokens.manager(&self.config.name, web).await.map_err(unopened)? {
                    Some(manager) => {
                        let client = rmcp::transport::AuthClient::new(client, manager);
                        Connection::open(http::streamable(client, web).map_err(unopened)?, handler, behind).await?
                    }
                    None => Connection::open(http::streamable(client, web).map_err(unopened)?, handler, behind).await?,
                };
                Ok((connection, None))
            }
            Connect::Sse(web) => {
                let client = self.client(web)?;
                let token = self.tokens.source(&self.config.name, web).await.map_err(unopened)?;
                let headers = http::headers(web).map_err(unopened)?;
                let events = sse::Events::open(client, &web.url, headers, token, faults.clone()).await?;
                let behind = Behind { faults, ..Behind::default() };
                Ok((Connection::open(events, handler, behind).await?, None))
            }
        }
    }

    fn client(&self, web: &Web) -> Result<reqwest::Client, Unopened> {
        let unopened = |why: String| Unopened { why, asks: None };
        let host = url::Url::parse(&web.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        if let Some(why) = self.launcher.refuses(&self.config, &host.unwrap_or_default()) {
            return Err(unopened(why));
        }
        http::client(web).map_err(unopened)
    }

    /// Asks for everything that the server says it has.
    async fn list(&self, connection: &Connection, note: Option<String>, most: Duration) -> Result<Listing, Unopened> {
        let info = connection.info();
        let capabilities = info.as_ref().map(|info| info.capabilities.clone()).unwrap_or_default();
        let instructions = info.and_then(|info| info.instructions.clone()).unwrap_or_default();
        let instructions = instructions.trim();
        let mut listing = Listing {
            instructions: instructions[..cut::end(instructions, INSTRUCTIONS)].to_owned(),
            notes: note.into_iter().collect(),
            ..Listing::default()
        };
        let tools = async {
            match capabilities.tools {
                Some(_) => self.list_tools(connection, most).await.map(Some),
                None => Ok(None),
            }
        };
        let prompts = async {
            capabilities.prompts.as_ref()?;
            Some(connection.list("prompts", most, list_prompts).await)
        };
        let resources = async {
            capabilities.resources.as_ref()?;
            Some(connection.list("resources", most, list_resources).await)
        };
        let (tools, prompts, resources) = tokio::join!(tools, prompts, resources);
        if let Some((tools, notes)) = tools.map_err(|trouble| Unopened {
            why: format!("its tools cannot be listed: {}", words(&trouble)),
            asks: match &trouble {
                Trouble::Unauthorized(ask) => Some(ask.clone()),
                Trouble::Refused { .. } | Trouble::Silent { .. } | Trouble::Gone(_) => None,
            },
        })? {
            listing.tools = tools;
            listing.notes.extend(notes);
        }
        let prompts = listing.optional("prompts", prompts);
        listing.prompts = prompts.iter().filter_map(prompt_of).collect();
        let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let resource = |entry: &Value| Some((text(entry, "uri")?, text(entry, "name").unwrap_or_default()));
        let resources = listing.optional("resources", resources);
        listing.resources = resources.iter().filter_map(resource).collect();
        Ok(listing)
    }

    async fn list_tools(
        &self,
        connection: &Connection,
        most: Duration,
    ) -> Result<(Vec<Definition>, Vec<String>), Trouble> {
        let (entries, note) = connection.list("tools", most, list_tools).await?;
        let mut notes: Vec<String> = note.into_iter().collect();
        let mut seen = BTreeSet::new();
        let mut tools = Vec::new();
        let mut useless: Vec<String> = Vec::new();
        let mut bytes = 0;
        for entry in &entries {
            let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
            if !name.is_empty() && !self.config.takes(name) {
                continue;
            }
            if tools.len() == TOOLS {
                notes.push(format!("it has more than {TOOLS} tools; the rest is left out"));
                break;
            }
            match definition(entry) {
                Ok(tool) if bytes + tool.bytes() > BYTES => {
                    useless.push(format!("{}: all of its tools together are too large", shown(&tool.name, 60)));
                }
                Ok(tool) if seen.insert(tool.name.clone()) => {
                    bytes += tool.bytes();
                    tools.push(tool);
                }
                Ok(tool) => useless.push(format!("{} is defined twice", shown(&tool.name, 60))),
                Err(why) => useless.push(why),
            }
        }
        if let Some(first) = useless.first() {
            notes.push(match useless.len() {
                1 => format!("a tool is left out: {first}"),
                many => format!("{many} tools are left out, the first because {first}"),
            });
        }
        Ok((tools, notes))
    }

    /// Compares a tool's definition, as it is now, with its pin.
    pub fn pin(&self, tool: &str) -> Pin {
        let listing = self.listing.read().unwrap_or_else(PoisonError::into_inner);
        let hash = listing.tools.iter().find(|definition| definition.name == tool).map(|found| found.hash.as_str());
        match hash {
            Some(hash) => self.pins.compare(tool, hash),
            // What the server does not list any more is not what was pinned.
            None => match self.pins.compare(tool, "") {
                Pin::Match | Pin::Changed => Pin::Changed,
                other @ (Pin::New | Pin::Unpinned) => other,
            },
        }
    }

    /// Calls a tool and returns the plain result. The error is for the model.
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>, traced: &Context) -> Result<Value, String> {
        let what = format!("the call of {tool}");
        let arguments = self.outward(arguments);
        let request = || {
            let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.clone());
            ClientRequest::CallToolRequest(CallToolRequest::new(with_context(params, traced)))
        };
        self.ask(&what, request).await
    }

    /// Reads a resource.
    pub async fn read(&self, uri: &str) -> Result<Value, String> {
        let uri = self.outward_text(uri);
        let request = || {
            let params = ReadResourceRequestParams::new(uri.as_str());
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        };
        self.ask(&format!("the reading of {}", shown(&uri, 200)), request).await
    }

    /// Returns a prompt with its arguments put in.
    pub async fn prompt(&self, name: &str, arguments: Map<String, Value>) -> Result<Value, String> {
        let request = || {
            let params = GetPromptRequestParams::new(name).with_arguments(arguments.clone());
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        };
        self.ask(&format!("the prompt {}", shown(name, 100)), request).await
    }

    /// Where a program sees the workspace elsewhere, paths change on their way to it and back.
    fn outward(&self, mut arguments: Map<String, Value>) -> Map<String, Value> {
        if let Some((from, to)) = self.moved() {
            arguments.values_mut().for_each(|value| replace_path(value, &from, &to));
        }
        arguments
    }

    fn outward_text(&self, text: &str) -> String {
        match self.moved() {
            Some((from, to)) => with_path(text, &from, &to),
            None => text.to_owned(),
        }
    }

    fn moved(&self) -> Option<(String, String)> {
        match self.config.connect {
            Connect::Stdio(_) => self.launcher.moved(),
            Connect::Http(_) | Connect::Sse(_) => None,
        }
    }

    async fn ask(&self, what: &str, request: impl Fn() -> ClientRequest) -> Result<Value, String> {
        let name = &self.config.name;
        let connection = self.connection().await?;
        let mut asked = connection.ask(request(), self.config.timeout).await;
        if let (Ok(result), Some((from, to))) = (&mut asked, self.moved()) {
            replace_path(result, &to, &from);
        }
        if connection.news.take_tools_changed() {
            self.refresh(&connection).await;
        }
        asked.map_err(|trouble| match trouble {
            Trouble::Refused { message, .. } => format!("The MCP server {name} refused {what}: {message}"),
            Trouble::Unauthorized(ask) => format!(
                "The MCP server {name} refused {what}: it requires a token{}. The user has to run {}.",
                if ask.scope.is_some() { " that is good for it" } else { "" },
                ask.command(name)
            ),
            Trouble::Silent { time, garbage } => format!(
                "The MCP server {name} gave no answer to {what} within {}; it was cancelled{garbage}. It may still have had an effect.",
                seconds(time)
            ),
            Trouble::Gone(why) => format!(
                "The MCP server {name} was lost during {what}: {why}. Whether it had an effect is not known; it was not repeated."
            ),
        })
    }

    /// Returns the connection; a server that has died is started again, once.
    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let name = &self.config.name;
        let mut life = self.life.lock().await;
        if let Some(connection) = &life.connection {
            if !connection.is_gone() {
                return Ok(Arc::clone(connection));
            }
            life.connection = None;
        }
        if life.starts >= STARTS {
            let why = life.fault.clone().unwrap_or_else(|| "it ended again after a restart".to_owned());
            return Err(format!("The MCP server {name} is gone: {why}. Do without it."));
        }
        self.begin(&mut life).await.map_err(|failed| format!("The MCP server {name} is gone: {}.", failed.why))?;
        life.connection.clone().ok_or_else(|| format!("The MCP server {name} is gone."))
    }

    /// Reads the tools again after the server said that they have changed; where that fails the old list stays.
    async fn refresh(&self, connection: &Connection) {
        if let Ok(Ok((tools, _))) = tokio::time::timeout(REFRESH, self.list_tools(connection, REFRESH)).await {
            self.keep(|kept| kept.tools = tools);
        }
    }

    /// Ends it.
    pub async fn close(&self) {
        let mut life = self.life.lock().await;
        life.starts = STARTS;
        life.fault = Some("the run is over".to_owned());
        if let Some(connection) = life.connection.take().and_then(Arc::into_inner) {
            connection.close().await;
        }
    }
}

/// Replaces a directory in every text.
fn replace_path(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text.contains(from) => *text = with_path(text, from, to),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_path(item, from, to)),
        Value::Object(entries) => entries.values_mut().for_each(|item| replace_path(item, from, to)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces a directory where it is a whole path: not inside a longer one, nor the beginning of another name.
pub fn with_path(text: &str, from: &str, to: &str) -> String {
    let is_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(from) {
        let end = at + from.len();
        if !text[..at].ends_with(is_name) && !text[end..].starts_with(is_name) {
            result.push_str(&text[done..at]);
            result.push_str(to);
            done = end;
        }
    }
    result.push_str(&text[done..]);
    result
}

fn list_tools(params: Option<PaginatedRequestParams>) -> ClientRequest {
    ClientRequest::ListToolsRequest(ListToolsRequest { params, ..ListToolsRequest::default() })
}

fn list_prompts(params: Option<PaginatedRequestParams>) -> ClientRequest {
    ClientRequest::ListPromptsRequest(ListPromptsRequest { params, ..ListPromptsRequest::default() })
}

fn list_resources(params: Option<PaginatedRequestParams>) -> ClientRequest {
    ClientRequest::ListResourcesRequest(ListResourcesRequest { params, ..ListResourcesRequest::default() })
}

fn words(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Refused { code, message } => format!("{message} ({code})"),
        Trouble::Unauthorized(_) => "it requires a token".to_owned(),
        Trouble::Silent { time, garbage } => format!("no answer within {}{garbage}", seconds(*time)),
        Trouble::Gone(why) => why.clone(),
    }
}

/// Writes a time for people.
fn seconds(time: Duration) -> String {
    if time.as_secs() > 0 && time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}

/// Adds the context of the call's span, as the conventions for MCP have it.
fn with_context(mut params: CallToolRequestParams, traced: &Context) -> CallToolRequestParams {
    let context = traced.headers().map(|(name, value)| (name.to_owned(), Value::from(value)));
    let meta: Map<String, Value> = context.collect();
    if !meta.is_empty() {
        params.meta = Some(meta.into());
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_replaced_where_it_stands_as_a_whole() {
        let moved = |text: &str| with_path(text, "/a/proj", "/t");
        assert_eq!(moved("see /a/proj/x, file:///a/proj and /a/project"), "see /t/x, file:///t and /a/project");
        assert_eq!(moved("/a/proj"), "/t");
        assert_eq!(moved("--root=/a/proj sub/a/proj/x ./a/proj"), "--root=/t sub/a/proj/x ./a/proj");
        let mut value = serde_json::json!({"p": ["/a/proj/b", 1]});
        replace_path(&mut value, "/a/proj", "/t");
        assert_eq!(value, serde_json::json!({"p": ["/t/b", 1]}));
    }
}
