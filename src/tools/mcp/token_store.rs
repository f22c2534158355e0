//! Keeps the tokens of servers in a file of the user.

use std::path::{Path, PathBuf};
use std::pin::Pin;

use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde_json::{Value, json};

use crate::base::private_file;
use crate::bounded;

/// The largest file of tokens that is read.
const LARGEST: u64 = 4 << 20;

/// The entry of one server in the file.
///
/// The file is a list with one entry per server, as Qwen Code writes it; additional data is under `credentials`, which
/// Qwen Code does not read.
pub(super) struct Store {
    pub(super) file: Option<PathBuf>,
    pub(super) name: String,
    pub(super) url: String,
    /// The token endpoint that gives what is saved.
    pub(super) token_url: Option<String>,
}

impl Store {
    /// Returns the token endpoint that gave the stored token; `None` if an older version stored it.
    pub(super) fn given_by(&self) -> Result<Option<String>, AuthError> {
        let Some(file) = &self.file else { return Ok(None) };
        let entries = entries(file).map_err(AuthError::CredentialStoreError)?;
        let entry = entries.iter().find(|entry| self.is(entry));
        let url = entry.and_then(|entry| entry.get("tokenUrl")?.as_str()).filter(|url| !url.is_empty());
        Ok(url.map(str::to_owned))
    }

    pub(super) fn read(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let Some(file) = &self.file else { return Ok(None) };
        let entries = entries(file).map_err(AuthError::CredentialStoreError)?;
        let Some(entry) = entries.iter().find(|entry| self.is(entry)) else { return Ok(None) };
        let credentials = entry.get("credentials").cloned().unwrap_or_else(|| credentials_of(entry));
        let broken =
            |error| AuthError::CredentialStoreError(format!("the token of {} cannot be read: {error}", self.name));
        serde_json::from_value(credentials).map(Some).map_err(broken)
    }

    pub(super) fn write(&self, credentials: Option<&StoredCredentials>) -> Result<(), AuthError> {
        let failed = |why: String| AuthError::CredentialStoreError(why);
        let Some(file) = &self.file else { return Err(failed("no home directory is set to keep a token in".into())) };
        let mut all = entries(file).map_err(failed)?;
        all.retain(|entry| !self.is(entry) && entry.get("serverName") != Some(&json!(self.name)));
        if let Some(credentials) = credentials {
            let value = serde_json::to_value(credentials).map_err(|error| failed(error.to_string()))?;
            all.push(self.entry(credentials, value));
        }
        let text = serde_json::to_vec_pretty(&all).map_err(|error| failed(error.to_string()))?;
        private_file::replace(file, &text, Some(private_file::SECRET))
            .map_err(|error| failed(format!("{}: {error}", file.display())))
    }

    fn is(&self, entry: &Value) -> bool {
        entry.get("serverName") == Some(&json!(self.name)) && entry.get("mcpServerUrl") == Some(&json!(self.url))
    }

    fn entry(&self, credentials: &StoredCredentials, value: Value) -> Value {
        let token = value.get("token_response").cloned().unwrap_or_default();
        let expires_at = match (credentials.token_received_at, token.get("expires_in").and_then(Value::as_u64)) {
            (Some(received), Some(lasts)) => json!(received.saturating_add(lasts).saturating_mul(1000)),
            _ => Value::Null,
        };
        json!({
            "serverName": self.name,
            "mcpServerUrl": self.url,
            "clientId": credentials.client_id,
            "tokenUrl": self.token_url,
            "token": {
                "accessToken": token.get("access_token"),
                "refreshToken": token.get("refresh_token"),
                "tokenType": "Bearer",
                "scope": token.get("scope"),
                "expiresAt": expires_at,
            },
            "credentials": value,
        })
    }
}

/// Reads what Qwen Code has written.
fn credentials_of(entry: &Value) -> Value {
    let token = entry.get("token").cloned().unwrap_or_default();
    // It says when the token ends, not how long it lasts: counted from the beginning of time that is the same.
    let expires_at = token.get("expiresAt").and_then(Value::as_u64).map(|millis| millis / 1000);
    let mut response = json!({ "access_token": token.get("accessToken"), "token_type": "bearer" });
    for (ours, theirs) in [("refresh_token", "refreshToken"), ("scope", "scope")] {
        if let Some(value) = token.get(theirs).filter(|value| value.is_string()) {
            response[ours] = value.clone();
        }
    }
    if let Some(seconds) = expires_at {
        response["expires_in"] = json!(seconds);
    }
    json!({
        "client_id": entry.get("clientId").and_then(Value::as_str).unwrap_or("qwen-run"),
        "token_response": response,
        "token_received_at": expires_at.map(|_| 0),
    })
}

fn entries(file: &Path) -> Result<Vec<Value>, String> {
    let said = |why: String| format!("{}: {why}", file.display());
    let text = bounded::optional(bounded::regular(file, LARGEST)).map_err(|error| said(error.to_string()))?;
    let text = text.unwrap_or_default();
    if text.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_slice(&text).map_err(|error| said(format!("it is not a list of tokens: {error}")))
}

// The library's trait is written with a macro that is not needed otherwise; these are the signatures that it generates.
type Stored<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl CredentialStore for Store {
    fn load<'a, 'b>(&'a self) -> Stored<'b, Option<StoredCredentials>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(self.read()))
    }

    fn save<'a, 'b>(&'a self, credentials: StoredCredentials) -> Stored<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(self.write(Some(&credentials))))
    }

    fn clear<'a, 'b>(&'a self) -> Stored<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(self.write(None)))
    }

    // A token that the server will never renew is not a token: without it the user is asked to sign in.
    fn on_refresh_token_rejected<'a, 'b, 'c>(&'a self, rejected: &'b StoredCredentials) -> Stored<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        let value = |credentials: &StoredCredentials| serde_json::to_value(credentials).ok();
        let removed = self.read().and_then(|kept| match kept {
            Some(kept) if value(&kept) == value(rejected) => self.write(None),
            Some(_) | None => Ok(()),
        });
        Box::pin(std::future::ready(removed))
    }
}
