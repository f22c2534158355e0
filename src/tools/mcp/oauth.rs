//! Manages tokens for servers that ask for one: kept in a file of the user, refreshed by a run, obtained by `qwen mcp
//! auth`.
//!
//! A run never opens a browser and never waits for a person. A token belongs to a server's name *and* address: settings that
//! point a known name to another address do not get the first one's token.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::callback::{answer, state_of};
use super::client_credentials::{ClientCredentials, endpoints, token_endpoint};
use super::config::Web;
use super::sse::{Source, Token};
use super::token_store::Store;

/// The file below the home directory.
pub const FILE: &str = ".qwen/mcp-oauth-tokens.json";

/// Where the browser comes back to.
pub const REDIRECT: &str = "http://localhost:7777/oauth/callback";

/// How long `qwen mcp auth` waits for the browser to come back.
pub const WAIT: Duration = Duration::from_secs(300);

/// The tokens of a user.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    file: Option<PathBuf>,
}

impl Tokens {
    /// The tokens below a home directory; without a home none is read or stored.
    pub fn of_home(home: Option<&Path>) -> Tokens {
        Tokens { file: home.map(|home| home.join(FILE)) }
    }

    /// Tells whether there is a token for a server.
    pub fn has(&self, name: &str, url: &str) -> bool {
        self.store(name, url).read().ok().flatten().is_some()
    }

    fn store(&self, name: &str, url: &str) -> Store {
        Store { file: self.file.clone(), name: name.to_owned(), url: url.to_owned(), token_url: None }
    }

    /// Returns the source of tokens for a server: stored ones, or new ones if the client has credentials of its own.
    pub(super) async fn manager(&self, name: &str, web: &Web) -> Result<Option<AuthorizationManager>, String> {
        if web.oauth.off || web.headers.keys().any(|header| header.eq_ignore_ascii_case("authorization")) {
            return Ok(None);
        }
        crate::model::trust::install_crypto();
        let said = |error: AuthError| format!("cannot get a token: {}", super::connection::causes(&error));
        if web.oauth.client_credentials {
            let manager = ClientCredentials::manager(web).await;
            return manager.map(Some).map_err(|why| format!("cannot get a token: {why}"));
        }
        let mut store = self.store(name, &web.url);
        if store.read().map_err(said)?.is_none() {
            return Ok(None);
        }
        let mut manager = AuthorizationManager::new(web.url.as_str()).await.map_err(said)?;
        let given_by = store.given_by().map_err(said)?;
        let metadata = renewal(&manager, web, given_by.as_deref()).await.map_err(said)?;
        check_renewal(name, web, given_by.as_deref(), &metadata.token_endpoint)?;
        if !is_safe(&metadata.token_endpoint) {
            let endpoint = plain(&metadata.token_endpoint);
            return Err(format!("cannot get a token: the token endpoint {endpoint} does not begin with https://"));
        }
        store.token_url = Some(metadata.token_endpoint.clone());
        manager.set_credential_store(store);
        manager.set_metadata(metadata);
        match manager.initialize_from_store().await {
            Ok(true) => Ok(Some(manager)),
            Ok(false) => Ok(None),
            Err(error) => Err(said(error)),
        }
    }

    /// Returns the token for each request of the older way over HTTP.
    pub(super) async fn source(&self, name: &str, web: &Web) -> Result<Token, String> {
        let manager = self.manager(name, web).await?.map(|manager| Arc::new(Mutex::new(manager)));
        let source: Source = Arc::new(move || {
            let manager = manager.clone();
            Box::pin(async move { manager?.lock().await.get_access_token().await.ok() })
        });
        Ok(Token { source, parameter: web.oauth.token_param_name.clone() })
    }

    /// Begins a sign-in: finds the authorization server, and registers the client if that is necessary.
    ///
    /// `scopes` take precedence over those of the settings and the server. Returns the address for the person to open,
    /// and what then waits for the browser.
    pub async fn begin(&self, name: &str, web: &Web, scopes: &[String]) -> Result<Waiting, SignInError> {
        crate::model::trust::install_crypto();
        let said =
            |error: AuthError| SignInError::Server { name: name.to_owned(), why: super::connection::causes(&error) };
        if web.oauth.off {
            return Err(SignInError::Off(name.to_owned()));
        }
        let redirect = web.oauth.redirect_uri.clone().unwrap_or_else(|| REDIRECT.to_owned());
        let mut manager = AuthorizationManager::new(web.url.as_str()).await.map_err(said)?;
        // The answer to a request without a token names the authorization server and the scopes.
        let metadata = match addresses(web, None)? {
            Some(metadata) => metadata,
            None => {
                let challenge = challenge(web).await;
                let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await.map_err(said)?;
                match addresses(web, Some(&found.metadata))? {
                    Some(metadata) => metadata,
                    None => found.metadata,
                }
            }
        };
        check_endpoints(name, &metadata)?;
        let token_url = Some(metadata.token_endpoint.clone());
        manager.set_credential_store(Store { token_url, ..self.store(name, &web.url) });
        manager.set_metadata(metadata);
        let mut request = AuthorizationRequest::new(redirect.as_str())
            .with_client_name("qwen-run")
            .with_scopes(if scopes.is_empty() { web.oauth.scopes.clone() } else { self.granted(name, web, scopes) })
            .with_initial_scope_selection();
        if let Some(id) = &web.oauth.client_id {
            request = request.with_preregistered_client(id);
        }
        if let Some(secret) = &web.oauth.client_secret {
            request = request.with_client_secret(secret);
        }
        if let Some(address) = &web.oauth.client_metadata_url {
            request = request.with_client_metadata_url(address);
        }
        let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| said(error))?;
        let listener = listen(&redirect).await?;
        let address = with_audiences(session.get_authorization_url(), &web.oauth.audiences);
        Ok(Waiting { session, listener, redirect, address })
    }

    /// Returns the scopes of the stored token and these: a new token replaces the stored one.
    fn granted(&self, name: &str, web: &Web, scopes: &[String]) -> Vec<String> {
        let kept = self.store(name, &web.url).read().ok().flatten();
        let value = kept.and_then(|kept| serde_json::to_value(kept).ok()).unwrap_or_default();
        let texts = |value: &Value| {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut all: Vec<String> = texts(&value["granted_scopes"]);
        let of_token = value["token_response"]["scope"].as_str().unwrap_or_default();
        for scope in of_token.split(' ').map(str::to_owned).chain(scopes.iter().cloned()) {
            if !scope.is_empty() && !all.contains(&scope) {
                all.push(scope);
            }
        }
        all
    }
}

/// Finds where a stored token is renewed: where the settings say, else where the server says.
async fn renewal(
    manager: &AuthorizationManager,
    web: &Web,
    given_by: Option<&str>,
) -> Result<AuthorizationMetadata, AuthError> {
    if let Some(metadata) = token_endpoint(web) {
        return Ok(metadata);
    }
    let found = manager.resolve_metadata().await?;
    Ok(match given_by {
        // The server names none: these addresses are a guess.
        Some(url) if !found.source.is_discovered() => endpoints(url, url),
        Some(_) | None => found.metadata,
    })
}

/// Refuses to send a stored refresh token to another endpoint than the one that gave it.
///
/// A token of which that is not known is sent where the settings say, and to the MCP server's own origin.
fn check_renewal(name: &str, web: &Web, given_by: Option<&str>, endpoint: &str) -> Result<(), String> {
    let parsed = |url: &str| url::Url::parse(url).ok();
    let is_known = match given_by {
        Some(url) => url == endpoint || parsed(url).is_some_and(|url| Some(url) == parsed(endpoint)),
        None => {
            let origin = |url: &str| parsed(url).map(|url| url.origin());
            web.oauth.token_url.is_some() || origin(endpoint).is_some_and(|own| Some(own) == origin(&web.url))
        }
    };
    if is_known {
        return Ok(());
    }
    let giver = given_by.map_or_else(|| "an unknown server".to_owned(), plain);
    Err(format!(
        "needs authorization again: its token is from {giver}, and tokens now come from {}; run `qwen mcp auth {name}`",
        plain(endpoint)
    ))
}

/// Tells whether what is sent to an address reaches its owner alone: by https, or on this machine.
fn is_safe(address: &str) -> bool {
    let scheme = url::Url::parse(address).map(|url| url.scheme().to_owned()).unwrap_or_default();
    scheme == "https" || scheme == "http" && super::config::is_loopback(address)
}

/// Shows an address in a message.
fn plain(url: &str) -> String {
    super::shown(&super::config::without_secrets(url), 200)
}

/// Refuses addresses of an authorization server that a browser or this program must not open.
fn check_endpoints(name: &str, metadata: &AuthorizationMetadata) -> Result<(), SignInError> {
    let all = [
        ("authorization", Some(&metadata.authorization_endpoint)),
        ("token", Some(&metadata.token_endpoint)),
        ("registration", metadata.registration_endpoint.as_ref()),
    ];
    match all.into_iter().find_map(|(what, address)| Some((what, address.filter(|address| !is_safe(address))?))) {
        Some((what, address)) => Err(SignInError::Endpoint { name: name.to_owned(), what, address: plain(address) }),
        None => Ok(()),
    }
}

/// Returns the addresses for tokens from the settings, and everything else as it was `found`; `None` if the settings do
/// not name enough.
fn addresses(
    web: &Web,
    found: Option<&AuthorizationMetadata>,
) -> Result<Option<AuthorizationMetadata>, serde_json::Error> {
    let (authorization, token) = (&web.oauth.authorization_url, &web.oauth.token_url);
    let known = found.map(serde_json::to_value).transpose()?;
    let mut metadata = match (authorization, token, known) {
        (None, None, _) | (Some(_), None, None) | (None, Some(_), None) => return Ok(None),
        (Some(_), Some(_), None) => json!({
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        }),
        (_, _, Some(known)) => known,
    };
    for (key, value) in [("authorization_endpoint", authorization), ("token_endpoint", token)] {
        if let Some(value) = value {
            metadata[key] = value.as_str().into();
        }
    }
    serde_json::from_value(metadata).map(Some)
}

/// Adds the audiences of the token to the address that the person opens.
fn with_audiences(address: &str, audiences: &[String]) -> String {
    match url::Url::parse(address) {
        Ok(mut url) if !audiences.is_empty() => {
            url.query_pairs_mut().append_pair("audience", &audiences.join(" "));
            url.to_string()
        }
        Ok(_) | Err(_) => address.to_owned(),
    }
}

/// Sends a request without a token, and returns the `WWW-Authenticate` header of the answer.
async fn challenge(web: &Web) -> Option<String> {
    let client = super::http::client(web).ok()?;
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "qwen-run", "version": env!("CARGO_PKG_VERSION")}
    }});
    let request = client
        .post(&web.url)
        .headers(super::http::headers(web).ok()?)
        .header(reqwest::header::ACCEPT, "application/json, text/event-stream")
        .json(&hello)
        .timeout(Duration::from_secs(10));
    let answer = request.send().await.ok()?;
    let header = answer.headers().get(reqwest::header::WWW_AUTHENTICATE)?;
    (answer.status() == reqwest::StatusCode::UNAUTHORIZED).then(|| header.to_str().ok().map(str::to_owned)).flatten()
}

/// Why nobody could sign in at a server.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The settings turn it off.
    #[error("{0}: `oauth.enabled` is false in the settings")]
    Off(String),
    /// The server that gives tokens cannot be asked.
    #[error("{name}: {why}")]
    Server {
        /// The MCP server.
        name: String,
        /// Why, with the causes.
        why: String,
    },
    /// An address of the authorization server is not https, or not on this machine.
    #[error("{name}: the {what} endpoint {address} does not begin with https://")]
    Endpoint {
        /// The MCP server.
        name: String,
        /// Which of its addresses.
        what: &'static str,
        /// The address.
        address: String,
    },
    /// The server's addresses cannot be combined with those of the settings.
    #[error(transparent)]
    Addresses(#[from] serde_json::Error),
    /// `redirectUri` is not an address.
    #[error("redirectUri {redirect}: {cause}")]
    RedirectAddress {
        /// What it is.
        redirect: String,
        /// Why not.
        cause: url::ParseError,
    },
    /// `redirectUri` is another machine's.
    #[error("redirectUri {0} is not on this machine")]
    RedirectElsewhere(String),
    /// Another program has the port of `redirectUri`, or it is reserved.
    #[error("cannot listen on port {port} for the browser's redirect: {cause}")]
    Port {
        /// The port.
        port: u16,
        /// Why not.
        cause: std::io::Error,
    },
    /// The browser cannot connect.
    #[error(transparent)]
    Accept(std::io::Error),
    /// The browser did not come back in this many seconds.
    #[error("the sign-in in the browser was not completed within {0} s")]
    TimedOut(u64),
    /// The browser came back with something that is not an address.
    #[error("the browser's redirect is not a valid URL: {0}")]
    Callback(url::ParseError),
    /// The server said no in the browser.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The server gave no token for what the browser brought.
    #[error("{0}")]
    Token(String),
}

/// A sign-in that waits for the browser.
pub struct Waiting {
    session: AuthorizationSession,
    listener: tokio::net::TcpListener,
    redirect: String,
    address: String,
}

impl Waiting {
    /// Returns the address to open.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the browser to come back, and keeps the token.
    pub async fn finish(self, wait: Duration) -> Result<(), SignInError> {
        let Waiting { session, listener, redirect, .. } = self;
        let path = url::Url::parse(&redirect).map(|url| url.path().to_owned()).unwrap_or_default();
        let state = state_of(session.get_authorization_url()).unwrap_or_default();
        let callback = async {
            loop {
                let (stream, _) = listener.accept().await.map_err(SignInError::Accept)?;
                if let Some(target) = answer(stream, &path, &state).await {
                    return Ok::<String, SignInError>(target);
                }
            }
        };
        let target =
            tokio::time::timeout(wait, callback).await.map_err(|_| SignInError::TimedOut(wait.as_secs()))??;
        let come = url::Url::parse(&redirect).and_then(|base| base.join(&target)).map_err(SignInError::Callback)?;
        if let Some((_, error)) = come.query_pairs().find(|(key, _)| key == "error") {
            let more = come.query_pairs().find(|(key, _)| key == "error_description").map(|(_, text)| text);
            let more = more.map(|text| format!(" ({})", super::shown(&text, 200))).unwrap_or_default();
            return Err(SignInError::Refused(super::shown(&error, 100) + &more));
        }
        let failed = |error| SignInError::Token(super::connection::causes(&error));
        session.handle_callback_url(come.as_str()).await.map(drop).map_err(failed)
    }
}

async fn listen(redirect: &str) -> Result<tokio::net::TcpListener, SignInError> {
    let url = url::Url::parse(redirect)
        .map_err(|cause| SignInError::RedirectAddress { redirect: redirect.to_owned(), cause })?;
    if !super::config::is_loopback(redirect) {
        return Err(SignInError::RedirectElsewhere(redirect.to_owned()));
    }
    let port = url.port_or_known_default().unwrap_or(7777);
    tokio::net::TcpListener::bind(("127.0.0.1", port)).await.map_err(|cause| SignInError::Port { port, cause })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rmcp::transport::auth::{CredentialStore as _, StoredCredentials};

    use super::*;
    use crate::base::private_file;

    fn credentials() -> StoredCredentials {
        serde_json::from_value(json!({
            "client_id": "c", "token_received_at": 100,
            "token_response": {"access_token": "secret", "token_type": "bearer", "refresh_token": "r", "expires_in": 60}
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn a_token_belongs_to_a_name_and_an_address_and_its_file_to_the_owner() {
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::of_home(Some(home.path()));
        let token_url = Some("https://a.example/token".to_owned());
        let store = Store { token_url: token_url.clone(), ..tokens.store("s", "https://a.example/mcp") };
        store.save(credentials()).await.unwrap();
        assert!(tokens.has("s", "https://a.example/mcp"));
        assert_eq!(tokens.store("s", "https://a.example/mcp").given_by().unwrap(), token_url);
        assert!(!tokens.has("s", "https://evil.example/mcp") && !tokens.has("t", "https://a.example/mcp"));
        let mode = std::fs::metadata(home.path().join(FILE)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let written: Value = serde_json::from_slice(&std::fs::read(home.path().join(FILE)).unwrap()).unwrap();
        assert_eq!(written[0]["token"]["expiresAt"], 160_000);
        tokens.store("s", "https://a.example/mcp").clear().await.unwrap();
        assert!(!tokens.has("s", "https://a.example/mcp"));
    }

    #[tokio::test]
    async fn a_token_that_is_refused_is_removed_and_a_newer_one_stays() {
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::of_home(Some(home.path()));
        let store = tokens.store("s", "https://a.example/mcp");
        let mut newer = credentials();
        newer.token_received_at = Some(200);
        store.save(newer).await.unwrap();
        store.on_refresh_token_rejected(&credentials()).await.unwrap();
        assert!(tokens.has("s", "https://a.example/mcp"), "another process has renewed it");
        store.save(credentials()).await.unwrap();
        store.on_refresh_token_rejected(&credentials()).await.unwrap();
        assert!(!tokens.has("s", "https://a.example/mcp"));
    }

    fn web(oauth: crate::tools::mcp::config::OAuth) -> Web {
        Web { url: "https://a.example/mcp".into(), headers: std::collections::BTreeMap::new(), oauth }
    }

    #[tokio::test]
    async fn more_scopes_are_asked_for_beside_those_that_are_granted() {
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::of_home(Some(home.path()));
        let mut kept = credentials();
        kept.granted_scopes = vec!["a".into(), "b".into()];
        let web = web(Default::default());
        assert_eq!(tokens.granted("s", &web, &["c".into()]), ["c"]);
        tokens.store("s", &web.url).save(kept).await.unwrap();
        assert_eq!(tokens.granted("s", &web, &["b".into(), "c".into()]), ["a", "b", "c"]);
    }

    #[test]
    fn the_settings_say_where_tokens_are_asked_for_and_whom_they_are_for() {
        let of = |authorization: Option<&str>, token: Option<&str>| {
            web(crate::tools::mcp::config::OAuth {
                authorization_url: authorization.map(str::to_owned),
                token_url: token.map(str::to_owned),
                ..Default::default()
            })
        };
        let both = of(Some("https://a.example/a"), Some("https://a.example/t"));
        let metadata = addresses(&both, None).unwrap().unwrap();
        assert_eq!(metadata.authorization_endpoint, "https://a.example/a");
        assert_eq!(metadata.token_endpoint, "https://a.example/t");
        let one = of(None, Some("https://b.example/t"));
        assert!(addresses(&one, None).unwrap().is_none());
        let mixed = addresses(&one, Some(&metadata)).unwrap().unwrap();
        assert_eq!(mixed.authorization_endpoint, "https://a.example/a");
        assert_eq!(mixed.token_endpoint, "https://b.example/t");
        assert_eq!(
            with_audiences("https://a.example/a?x=1", &["one".into(), "two".into()]),
            "https://a.example/a?x=1&audience=one+two"
        );
    }

    #[test]
    fn endpoints_are_https_or_on_this_machine() {
        let with = |authorization: &str, token: &str, registration: Option<&str>| {
            let mut metadata = endpoints(authorization, token);
            metadata.registration_endpoint = registration.map(str::to_owned);
            check_endpoints("s", &metadata).map_err(|error| error.to_string())
        };
        let fine = "https://a.example/x";
        assert!(
            with(fine, fine, Some(fine)).is_ok() && with("http://127.0.0.1:9/a", "http://localhost/t", None).is_ok()
        );
        for unsafe_one in ["javascript:alert(1)", "file:///etc/passwd", "http://a.example/x", "data:text/html,x", "x"] {
            for (given, what) in [
                (with(unsafe_one, fine, None), "authorization"),
                (with(fine, unsafe_one, None), "token"),
                (with(fine, fine, Some(unsafe_one)), "registration"),
            ] {
                let error = given.unwrap_err();
                assert!(error.starts_with(&format!("s: the {what} endpoint ")), "{unsafe_one}: {error}");
            }
        }
    }

    #[test]
    fn a_stored_token_is_renewed_where_it_came_from() {
        let own = web(Default::default());
        let told = web(crate::tools::mcp::config::OAuth {
            token_url: Some("https://t.example/t".into()),
            ..Default::default()
        });
        let table = [
            (&own, Some("https://t.example/t"), "https://t.example/t", true),
            (&own, Some("https://T.example:443/t"), "https://t.example/t", true),
            (&own, Some("https://t.example/t"), "https://evil.example/t", false),
            (&own, Some("https://t.example/t"), "https://t.example/other", false),
            // The settings that a token was not made with.
            (&told, Some("https://a.example/t"), "https://t.example/t", false),
            (&told, None, "https://t.example/t", true),
            (&own, None, "https://a.example/t", true),
            (&own, None, "https://a.example:8443/t", false),
            (&own, None, "http://a.example/t", false),
            (&own, None, "https://evil.example/t", false),
            (&own, None, "x", false),
        ];
        for (web, given_by, endpoint, expected) in table {
            assert_eq!(check_renewal("s", web, given_by, endpoint).is_ok(), expected, "{given_by:?} {endpoint}");
        }
        assert_eq!(token_endpoint(&told).unwrap().token_endpoint, "https://t.example/t");
    }

    #[test]
    fn what_qwen_code_has_kept_is_read() {
        let home = tempfile::tempdir().unwrap();
        let kept = json!([{"serverName": "s", "mcpServerUrl": "https://a.example/mcp", "clientId": "c",
            "token": {"accessToken": "t", "refreshToken": "r", "tokenType": "Bearer", "expiresAt": 5000}}]);
        private_file::replace(&home.path().join(FILE), kept.to_string().as_bytes(), None).unwrap();
        let read = Tokens::of_home(Some(home.path())).store("s", "https://a.example/mcp").read().unwrap().unwrap();
        assert_eq!((read.client_id.as_str(), read.token_received_at), ("c", Some(0)));
        let lasts = serde_json::to_value(&read).unwrap()["token_response"]["expires_in"].clone();
        assert_eq!(lasts, 5, "it ends five seconds after the beginning of time");
    }

    #[test]
    fn a_broken_file_is_an_error_and_not_an_empty_one() {
        let home = tempfile::tempdir().unwrap();
        private_file::replace(&home.path().join(FILE), b"{", None).unwrap();
        let store = Tokens::of_home(Some(home.path())).store("s", "u");
        assert!(store.read().is_err() && store.write(Some(&credentials())).is_err());
        assert_eq!(std::fs::read(home.path().join(FILE)).unwrap(), b"{");
    }
}
