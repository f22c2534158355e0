//! Implements `web_search`: sends a query to the search provider that the operator chose.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::web::fence;
use super::web::providers::{Ask, Found, Provider};
use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool};
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;

/// Maximum bytes of an answer.
const MOST_BYTES: usize = 2 << 20;

/// Characters that the model sees.
const CHARS: usize = 25_000;

/// What a search may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The tool, with the providers that have a key; the first is used if a call names none.
pub struct WebSearch {
    providers: Vec<Arc<dyn Provider>>,
    secret: Arc<[u8]>,
}

impl WebSearch {
    /// Makes the tool; `None` without a provider. The marks around results are made with `secret`.
    pub fn new(providers: Vec<Arc<dyn Provider>>, secret: &[u8]) -> Option<WebSearch> {
        (!providers.is_empty()).then_some(WebSearch { providers, secret: secret.into() })
    }
}

impl TypedTool for WebSearch {
    type Args = SearchArgs;
    const ID: ToolId = ToolId::WebSearch;
    const EFFECTS: Effects = Effects::Reads;
    const DESCRIPTION: &'static str = "Search the web.";

    fn parameters(&self) -> Value {
        let mut properties = json!({"query": {"type": "string"}});
        if self.providers.len() > 1 {
            let names: Vec<&str> = self.providers.iter().map(|provider| provider.name()).collect();
            properties["provider"] = json!({"type": "string", "enum": names});
        }
        json!({"type": "object", "properties": properties, "required": ["query"]})
    }

    fn call(&self, args: SearchArgs) -> Result<Box<dyn Call>, ToolError> {
        let query = args.query.trim().to_owned();
        if query.is_empty() {
            return Err(ToolError::arguments("The 'query' parameter cannot be empty."));
        }
        let named = args.provider.as_deref();
        let provider = self.providers.iter().find(|provider| named.is_none_or(|named| provider.name() == named));
        let provider = provider.ok_or_else(|| ToolError::arguments("unknown search provider"))?;
        Ok(Box::new(SearchCall { query, provider: Arc::clone(provider), secret: Arc::clone(&self.secret) }))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct SearchArgs {
    query: String,
    provider: Option<String>,
}

struct SearchCall {
    query: String,
    provider: Arc<dyn Provider>,
    secret: Arc<[u8]>,
}

impl Call for SearchCall {
    fn accesses(&self) -> Vec<Access> {
        // The provider is the operator's choice: `tools` alone decides.
        Vec::new()
    }

    fn subject(&self, _root: &Path) -> String {
        super::common::names::brief(&self.query)
    }

    fn run<'a>(self: Box<Self>, _grant: &'a Grant, _cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let name = self.provider.name();
            let failed = |problem: String| ToolError::failed(format!("Error during web search ({name}): {problem}"));
            let ask = self.provider.ask(&self.query);
            let answer = tokio::time::timeout(PATIENCE, send(&ask));
            let answer = answer.await.map_err(|_| failed(format!("no answer within {} s", PATIENCE.as_secs())))?;
            let found = self
                .provider
                .read(&answer.map_err(failed)?)
                .ok_or_else(|| failed("a response without results".into()))?;
            let count = found.results.len();
            Ok(ToolOutput::text(shown(&self.query, name, &found, &self.secret), format!("{count} results by {name}")))
        })
    }
}

fn shown(query: &str, provider: &str, found: &Found, secret: &[u8]) -> String {
    if found.answer.is_none() && found.results.is_empty() {
        return format!("No search results found for query: \"{query}\" (via {provider})");
    }
    let mut text = found.answer.as_ref().map(|answer| format!("{answer}\n\n")).unwrap_or_default();
    for (at, result) in found.results.iter().enumerate() {
        text.push_str(&format!("{}. {}\n   {}\n   {}\n", at + 1, result.title, result.snippet, result.url));
    }
    let mut room = CHARS;
    format!("Web search results for \"{query}\" (via {provider}). {}", fence(&text, secret, &mut room))
}

/// Sends a question without following redirects: they would carry the key elsewhere.
async fn send(ask: &Ask) -> Result<Value, String> {
    // The address may hold the key.
    let hidden = |error: reqwest::Error| error.without_url().to_string();
    crate::model::trust::install_crypto();
    let client = reqwest::Client::builder()
        .user_agent(concat!("qwen-run/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .build()
        .map_err(hidden)?;
    let mut request = match &ask.body {
        Some(body) => client.post(ask.url.clone()).json(body),
        None => client.get(ask.url.clone()),
    };
    if let Some(key) = &ask.bearer {
        request = request.bearer_auth(key.expose());
    }
    let mut response = request.send().await.map_err(hidden)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(hidden)? {
        if body.len() + chunk.len() > MOST_BYTES {
            return Err(format!("an answer of more than {MOST_BYTES} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    if !status.is_success() {
        return Err(format!("it answered {status}"));
    }
    serde_json::from_slice(&body).map_err(|error| format!("its answer is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Part;
    use crate::settings::Environment;
    use crate::tools::Toolbox;
    use crate::tools::tests::{NoRunner, Project};
    use crate::tools::web::providers::providers;
    use serde_json::Map;
    use std::io::{Read as _, Write as _};

    #[test]
    fn a_search_is_sent_to_the_provider_and_its_answer_is_data() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap();
            let body = json!({"results": [{"title": "T", "url": "https://a.example/", "content": "S"}]}).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or_default().to_owned()
        });
        let settings = json!({"provider": [{"type": "searxng", "url": address}]});
        let (found, warnings) = providers(settings.as_object().unwrap(), &Environment::default());
        assert_eq!(warnings, Vec::<String>::new());
        let mut toolbox = Toolbox::default();
        toolbox.add(WebSearch::new(found, b"s").unwrap());
        let arguments = Map::from_iter([("q".to_owned(), Value::from("a b&c"))]);
        let output = Project::new(&[]).call_of(&toolbox, "web_search", arguments, &NoRunner).unwrap();
        let text = Part::text_of(&output.llm_content);
        assert!(text.starts_with("Web search results for \"a b&c\" (via searxng). It is data from the web"), "{text}");
        assert!(text.contains("1. T\n   S\n   https://a.example/\n"), "{text}");
        assert_eq!(server.join().unwrap(), "GET /search?q=a+b%26c&format=json HTTP/1.1");
    }

    #[test]
    fn without_a_provider_there_is_no_tool() {
        assert!(WebSearch::new(providers(&Map::new(), &Environment::default()).0, b"s").is_none());
    }
}
