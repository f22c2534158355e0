//! Gets tokens with the client's own credentials, for runs where nobody signs in.
//!
//! A token that is about to expire is replaced on its next use: there is no refresh token, and nothing is kept on the
//! disk.

use std::pin::Pin;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore, OAuthTokenResponse, StoredCredentials,
};
use serde_json::Value;
use tokio::sync::Mutex;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::client_key::ClientKey;
use super::config::{Web, is_loopback};
use super::{http, shown};

/// How long before its end a token is replaced.
const EARLY: Duration = Duration::from_secs(60);

/// How long the token endpoint may take.
const WAIT: Duration = Duration::from_secs(20);

/// Maximum bytes of its answer.
const LARGEST: usize = 1 << 20;

/// Requests tokens from a token endpoint.
pub(super) struct ClientCredentials {
    client: reqwest::Client,
    endpoint: url::Url,
    client_id: String,
    proof: Proof,
    scopes: Vec<String>,
    resource: String,
    token: Mutex<Option<Token>>,
}

/// How the client proves who it is.
enum Proof {
    /// The secret in a header.
    Basic(String),
    /// The secret in the form.
    Post(String),
    /// What the key has signed, for this audience.
    Key { key: ClientKey, audience: String },
}

struct Token {
    credentials: StoredCredentials,
    until: Option<Instant>,
}

impl ClientCredentials {
    /// Finds the token endpoint of an MCP server, gets a first token, and returns the manager of further ones.
    pub(super) async fn manager(web: &Web) -> Result<AuthorizationManager, String> {
        let said = |error: AuthError| super::connection::causes(&error);
        let mut manager = AuthorizationManager::new(web.url.as_str()).await.map_err(said)?;
        let found = manager.resolve_metadata().await.map(|found| found.metadata);
        let metadata = match token_endpoint(web) {
            // What the server says about another endpoint means nothing for this one.
            Some(told) => found.ok().filter(|found| found.token_endpoint == told.token_endpoint).unwrap_or(told),
            None => found.map_err(said)?,
        };
        let own = ClientCredentials::new(web, &metadata)?;
        own.token().await?;
        manager.set_credential_store(own);
        Ok(manager)
    }

    fn new(web: &Web, metadata: &AuthorizationMetadata) -> Result<ClientCredentials, String> {
        let endpoint = url::Url::parse(&metadata.token_endpoint)
            .map_err(|error| format!("the token endpoint is not a valid URL: {error}"))?;
        let is_safe = endpoint.scheme() == "https"
            || (endpoint.scheme() == "http"
                && is_loopback(endpoint.as_str())
                && (is_loopback(&web.url) || web.oauth.token_url.is_some()));
        if !is_safe {
            return Err(format!(
                "the token endpoint is not safe ({}): it must begin with https://",
                shown(&super::config::without_secrets(endpoint.as_str()), 200)
            ));
        }
        let place = Web { url: endpoint.to_string(), headers: Default::default(), oauth: Default::default() };
        let client_id = web.oauth.client_id.clone().unwrap_or_default();
        Ok(ClientCredentials {
            client: http::client(&place)?,
            proof: proof(web, metadata)?,
            endpoint,
            client_id,
            scopes: web.oauth.scopes.clone(),
            resource: resource_of(&web.url),
            token: Mutex::default(),
        })
    }

    /// Returns a token that still counts.
    async fn token(&self) -> Result<StoredCredentials, String> {
        let mut held = self.token.lock().await;
        if let Some(token) = held.as_ref().filter(|token| token.until.is_none_or(|until| Instant::now() < until)) {
            return Ok(token.credentials.clone());
        }
        let response = self.ask().await?;
        let lasts = response.get("expires_in").and_then(Value::as_u64).map(Duration::from_secs);
        // Of one that ends sooner than that, half its time.
        let until = lasts.and_then(|lasts| Instant::now().checked_add(lasts.saturating_sub(EARLY).max(lasts / 2)));
        let response: OAuthTokenResponse = serde_json::from_value(response)
            .map_err(|_| "the token endpoint sent a response that is not a token".to_owned())?;
        let credentials = StoredCredentials::new(self.client_id.clone(), Some(response), Vec::new(), None);
        *held = Some(Token { credentials: credentials.clone(), until });
        Ok(credentials)
    }

    /// Returns the request for a token, with the proof of who asks.
    fn request(&self) -> Result<reqwest::RequestBuilder, String> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials").append_pair("resource", &self.resource);
        if !self.scopes.is_empty() {
            form.append_pair("scope", &self.scopes.join(" "));
        }
        let mut request = self.client.post(self.endpoint.clone()).timeout(WAIT).header(ACCEPT, "application/json");
        match &self.proof {
            Proof::Basic(secret) => {
                let coded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = STANDARD.encode(format!("{}:{}", coded(&self.client_id), coded(secret)));
                let mut value = HeaderValue::try_from(format!("Basic {pair}"))
                    .map_err(|_| "the client's id and secret cannot be sent".to_owned())?;
                value.set_sensitive(true);
                request = request.header(AUTHORIZATION, value);
            }
            Proof::Post(secret) => {
                form.append_pair("client_id", &self.client_id).append_pair("client_secret", secret);
            }
            Proof::Key { key, audience } => {
                let now = jiff::Timestamp::now().as_second();
                let id = uuid::Uuid::now_v7().to_string();
                form.append_pair("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
                    .append_pair("client_assertion", &key.assertion(&self.client_id, audience, now, &id)?);
            }
        }
        Ok(request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.finish()))
    }

    async fn ask(&self) -> Result<Value, String> {
        let said = |error: reqwest::Error| format!("the token endpoint: {}", super::connection::causes(&error));
        let mut answer = self.request()?.send().await.map_err(said)?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(bytes) = answer.chunk().await.map_err(said)? {
            if body.len() + bytes.len() > LARGEST {
                return Err("the response of the token endpoint is too long".to_owned());
            }
            body.extend_from_slice(&bytes);
        }
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() && value.get("access_token").is_some_and(Value::is_string) {
            return Ok(value);
        }
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        Err(match (text("error"), text("error_description")) {
            (Some(error), Some(more)) => {
                format!("the token endpoint refused the request: {} ({})", shown(error, 100), shown(more, 200))
            }
            (Some(error), None) => format!("the token endpoint refused the request: {}", shown(error, 100)),
            (None, _) => format!("the token endpoint responded {status} without a token"),
        })
    }
}

/// Returns the token endpoint of the settings, which no server replaces; `None` if they do not name one.
pub(super) fn token_endpoint(web: &Web) -> Option<AuthorizationMetadata> {
    let token = web.oauth.token_url.as_deref()?;
    Some(endpoints(web.oauth.authorization_url.as_deref().unwrap_or(token), token))
}

/// Returns metadata with these addresses alone.
pub(super) fn endpoints(authorization: &str, token: &str) -> AuthorizationMetadata {
    let mut metadata = AuthorizationMetadata::default();
    authorization.clone_into(&mut metadata.authorization_endpoint);
    token.clone_into(&mut metadata.token_endpoint);
    metadata
}

/// Chooses how to authenticate: as the settings say, and the server accepts.
fn proof(web: &Web, metadata: &AuthorizationMetadata) -> Result<Proof, String> {
    let listed = |key: &str| -> Option<Vec<&str>> {
        let list = metadata.additional_fields.get(key)?.as_array()?;
        Some(list.iter().filter_map(Value::as_str).collect())
    };
    let methods = listed("token_endpoint_auth_methods_supported");
    let takes = |method: &str| methods.as_ref().is_none_or(|methods| methods.contains(&method));
    let refused = |what: &str, known: &[&str]| {
        Err(format!("the token endpoint does not accept {what}; it accepts {}", shown(&known.join(", "), 200)))
    };
    if let Some(file) = &web.oauth.private_key_file {
        let key = ClientKey::read(file)?;
        if !takes("private_key_jwt") {
            return refused("a private key", methods.as_deref().unwrap_or_default());
        }
        if let Some(known) = listed("token_endpoint_auth_signing_alg_values_supported")
            && !known.contains(&key.algorithm())
        {
            return refused(key.algorithm(), &known);
        }
        let audience = metadata.issuer.clone().unwrap_or_else(|| metadata.token_endpoint.clone());
        return Ok(Proof::Key { key, audience });
    }
    let secret = web.oauth.client_secret.clone().unwrap_or_default();
    match (takes("client_secret_post"), takes("client_secret_basic")) {
        (true, _) => Ok(Proof::Post(secret)),
        (false, true) => Ok(Proof::Basic(secret)),
        (false, false) => refused("a secret", methods.as_deref().unwrap_or_default()),
    }
}

/// The server's address without query and fragment, as tokens name what they are for.
fn resource_of(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut url) => {
            url.set_query(None);
            url.set_fragment(None);
            url.to_string()
        }
        Err(_) => url.to_owned(),
    }
}

// The library's trait is written with a macro that is not needed otherwise; these are the signatures that it generates.
type Stored<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl CredentialStore for ClientCredentials {
    fn load<'a, 'b>(&'a self) -> Stored<'b, Option<StoredCredentials>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async { self.token().await.map(Some).map_err(AuthError::CredentialStoreError) })
    }

    fn save<'a, 'b>(&'a self, _credentials: StoredCredentials) -> Stored<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(Ok(())))
    }

    fn clear<'a, 'b>(&'a self) -> Stored<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async {
            *self.token.lock().await = None;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::tools::mcp::config::OAuth;

    fn metadata(more: Value) -> AuthorizationMetadata {
        let mut value =
            json!({"authorization_endpoint": "https://a.example/a", "token_endpoint": "https://a.example/t"});
        for (key, item) in more.as_object().unwrap() {
            value[key] = item.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    fn web(oauth: OAuth) -> Web {
        Web { url: "https://s.example/mcp?x=1".into(), headers: Default::default(), oauth }
    }

    fn secret() -> OAuth {
        OAuth { client_id: Some("me".into()), client_secret: Some("s3cret".into()), ..OAuth::default() }
    }

    #[test]
    fn what_the_server_takes_is_used_and_else_it_is_refused() {
        let methods = |list: Value| metadata(json!({"token_endpoint_auth_methods_supported": list}));
        let of = |metadata: &AuthorizationMetadata| proof(&web(secret()), metadata);
        assert!(matches!(of(&metadata(json!({}))), Ok(Proof::Post(_))));
        assert!(matches!(of(&methods(json!(["client_secret_basic"]))), Ok(Proof::Basic(_))));
        let refused = of(&methods(json!(["private_key_jwt"]))).err().unwrap();
        assert_eq!(refused, "the token endpoint does not accept a secret; it accepts private_key_jwt");
    }

    #[test]
    fn a_secret_is_sent_over_nothing_that_others_can_read() {
        for endpoint in ["http://a.example/t", "http://127.0.0.1/t", "ftp://a.example/t", "x"] {
            let metadata = metadata(json!({ "token_endpoint": endpoint }));
            assert!(ClientCredentials::new(&web(secret()), &metadata).is_err(), "{endpoint}");
        }
    }

    /// Answers each request with the next of these, and returns what was asked.
    async fn answering(answers: Vec<(&'static str, String)>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/t", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let mut asked = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut text = Vec::new();
                let mut buffer = [0; 4096];
                while !String::from_utf8_lossy(&text).contains("grant_type") {
                    let length = stream.read(&mut buffer).await.unwrap();
                    text.extend_from_slice(&buffer[..length]);
                }
                asked.push(String::from_utf8_lossy(&text).into_owned());
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(body.as_bytes()).await.unwrap();
            }
            asked
        });
        (address, task)
    }

    async fn asking(answers: Vec<(&'static str, String)>) -> (ClientCredentials, tokio::task::JoinHandle<Vec<String>>) {
        let (endpoint, task) = answering(answers).await;
        let local = Web { url: "http://127.0.0.1:1/mcp?x=1".into(), ..web(secret()) };
        let metadata = metadata(json!({ "token_endpoint": endpoint }));
        (ClientCredentials::new(&local, &metadata).unwrap(), task)
    }

    #[tokio::test]
    async fn a_token_is_kept_until_it_ends_and_then_replaced() {
        let token = |name: &str, lasts: u64| {
            ("200 OK", json!({"access_token": name, "token_type": "Bearer", "expires_in": lasts}).to_string())
        };
        let (own, asked) = asking(vec![token("one", 0), token("two", 3600)]).await;
        let read = async || {
            serde_json::to_value(own.token().await.unwrap()).unwrap()["token_response"]["access_token"].clone()
        };
        assert_eq!([read().await, read().await, read().await], ["one", "two", "two"]);
        let asked = asked.await.unwrap();
        assert!(
            asked[0].contains("resource=http%3A%2F%2F127.0.0.1%3A1%2Fmcp&client_id=me&client_secret=s3cret"),
            "{asked:?}"
        );
    }

    #[tokio::test]
    async fn a_refusal_is_said_without_the_secret() {
        let refusal = json!({"error": "invalid_client", "error_description": "who?\u{1b}[2J"}).to_string();
        let (own, _asked) =
            asking(vec![("401 Unauthorized", refusal), ("200 OK", "[]".into()), ("200 OK", "x".repeat(LARGEST + 1))])
                .await;
        let said = own.token().await.err().unwrap();
        assert_eq!(said, "the token endpoint refused the request: invalid_client (who?\\u{1b}[2J)");
        assert_eq!(own.token().await.err().unwrap(), "the token endpoint responded 200 OK without a token");
        assert_eq!(own.token().await.err().unwrap(), "the response of the token endpoint is too long");
    }
}
