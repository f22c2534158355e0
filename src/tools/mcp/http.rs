//! Talks to servers over HTTP: the client, the headers, the streamable HTTP transport.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Action, Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::config::{Web, is_loopback};

/// How long opening a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Maximum redirects that are followed.
const REDIRECTS: usize = 5;

/// Makes the client for a server. A redirect to another place is not followed: it would carry the headers there.
pub(super) fn client(web: &Web) -> Result<reqwest::Client, String> {
    crate::model::trust::install_crypto();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("qwen-run/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(Policy::custom(within_origin));
    if is_loopback(&web.url) {
        builder = builder.no_proxy();
        if web.url.starts_with("http://") {
            // Without TLS the system's certificates are not worth the time to read them.
            builder = builder.tls_certs_only([]);
        }
    }
    builder.build().map_err(|error| format!("cannot create an HTTP client: {}", super::connection::causes(&error)))
}

fn within_origin(attempt: Attempt<'_>) -> Action {
    let same = attempt.previous().last().is_some_and(|last| last.origin() == attempt.url().origin());
    if same && attempt.previous().len() <= REDIRECTS { attempt.follow() } else { attempt.stop() }
}

/// Returns the headers of the settings.
pub(super) fn headers(web: &Web) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &web.headers {
        let wrong = || format!("the header {name:?} of its settings is not valid");
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    Ok(headers)
}

/// Prepares streamable HTTP; nothing is sent yet.
pub(super) fn streamable<C>(client: C, web: &Web) -> Result<StreamableHttpClientTransport<C>, String>
where
    C: rmcp::transport::streamable_http_client::StreamableHttpClient + Sync,
{
    let headers: HashMap<HeaderName, HeaderValue> =
        headers(web)?.into_iter().filter_map(|(name, value)| Some((name?, value))).collect();
    let config = StreamableHttpClientTransportConfig::with_uri(web.url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(super::lines::LARGEST);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        assert!(
            is_loopback("http://127.0.0.1:1/x") && is_loopback("http://localhost/") && is_loopback("http://[::1]/")
        );
        assert!(!is_loopback("http://localhost.evil.example/") && !is_loopback("http://10.0.0.1/"));
    }
}
