//! Opens HTTP connections to a model's server. No other file does.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;

use super::BoxFuture;
use super::config::{ClientConfig, Proxies};
use super::endpoint::Endpoint;
use super::transport::{Body, End, Method, Transport, TransportError, WireRequest, WireResponse};
use super::trust::{self, install_crypto};
use crate::base::trace::Trace;
use crate::secret::Secret;

/// Sends requests over HTTP. Nothing is set up, no certificate read, before the first one.
pub struct Http {
    endpoint: Endpoint,
    key: Option<Secret>,
    headers: Vec<(String, String)>,
    ca_files: Vec<std::path::PathBuf>,
    trace: Option<Arc<Trace>>,
    proxy: Proxies,
    connect: std::time::Duration,
    /// Connections that are kept open.
    connections: usize,
    client: OnceLock<Result<reqwest::Client, TransportError>>,
    /// Whether an answer has come, so that the next request may go out on the connection that it left open.
    may_reuse: AtomicBool,
}

impl Http {
    /// Prepares connections to `endpoint`, of which so many are kept open.
    pub fn new(endpoint: Endpoint, config: &ClientConfig, connections: usize) -> Http {
        Http {
            endpoint,
            key: config.key.clone(),
            headers: config.connection.headers.clone(),
            ca_files: config.connection.ca_files.clone(),
            trace: config.connection.trace.clone(),
            proxy: config.connection.proxy.clone(),
            connect: config.timers.connect,
            connections,
            client: OnceLock::new(),
            may_reuse: AtomicBool::new(false),
        }
    }

    fn client(&self) -> Result<&reqwest::Client, TransportError> {
        self.client.get_or_init(|| self.build()).as_ref().map_err(Clone::clone)
    }

    fn build(&self) -> Result<reqwest::Client, TransportError> {
        install_crypto();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("qwen-run/", env!("CARGO_PKG_VERSION")))
            // A redirect would carry the prompt, and on the same host the key, to a place that nobody named.
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(self.connections)
            .tcp_nodelay(true)
            .tcp_keepalive(std::time::Duration::from_secs(30));
        if !self.connect.is_zero() {
            builder = builder.connect_timeout(self.connect);
        }
        builder = builder.no_proxy();
        if !self.endpoint.is_loopback() {
            for proxy in self.proxies()? {
                builder = builder.proxy(proxy);
            }
        }
        if !self.endpoint.is_https() && self.ca_files.is_empty() {
            // Without TLS the system's certificates are not worth the time to read them.
            builder = builder.tls_certs_only([]);
        } else {
            let mut certificates = Vec::new();
            for file in &self.ca_files {
                certificates.extend(read_certificates(file)?);
            }
            builder =
                builder.tls_backend_preconfigured(trust::trust(certificates).map_err(|error| self.unusable(&error))?);
        }
        builder.build().map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &(dyn std::error::Error + 'static)) -> TransportError {
        TransportError::Setup {
            message: format!("could not set up the connection to {}: {}", self.endpoint, causes(error)),
            hint: Some("name the certificates to trust with --ca-file or SSL_CERT_FILE".to_owned()),
        }
    }

    fn proxies(&self) -> Result<Vec<reqwest::Proxy>, TransportError> {
        let except = self.proxy.no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
        let of_scheme = if self.endpoint.is_https() { &self.proxy.https } else { &self.proxy.http };
        let Some(url) = of_scheme.as_ref().or(self.proxy.all.as_ref()).filter(|url| !url.trim().is_empty()) else {
            return Ok(Vec::new());
        };
        let proxy = reqwest::Proxy::all(url.trim()).map_err(|error| TransportError::Setup {
            message: format!("proxy `{}` is not valid: {}", crate::secret::mask_credentials(url), causes(&error)),
            hint: Some("correct HTTPS_PROXY or unset it".to_owned()),
        })?;
        Ok(vec![proxy.no_proxy(except)])
    }

    fn header_map(&self, request: &WireRequest) -> Result<HeaderMap, TransportError> {
        let mut map = HeaderMap::new();
        if request.method == Method::Post {
            map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(trace) = &self.trace {
            for (name, value) in trace.context_of_open().headers() {
                map.insert(name, HeaderValue::from_str(value).expect("a context is printable ASCII"));
            }
        }
        for (name, value) in request.headers.iter().chain(&self.headers) {
            let invalid = || TransportError::Setup {
                message: format!("header `{name}` is not valid"),
                hint: Some("a header has an ASCII name and a value without line breaks".to_owned()),
            };
            let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            map.insert(parsed, HeaderValue::from_str(value).map_err(|_| invalid())?);
        }
        if let Some(key) = &self.key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .expect("a Secret holds graphic ASCII characters only");
            value.set_sensitive(true);
            map.insert(AUTHORIZATION, value);
        }
        Ok(map)
    }
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let unusable = |problem: String| TransportError::Setup {
        message: format!("certificate file {}: {problem}", file.display()),
        hint: Some("name a file of certificates in PEM form with --ca-file".to_owned()),
    };
    let certificates = trust::read_certificates(file).map_err(&unusable)?;
    if certificates.is_empty() { Err(unusable("it contains no certificate".to_owned())) } else { Ok(certificates) }
}

impl Transport for Http {
    fn send<'a>(&'a self, request: WireRequest) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
        Box::pin(async move {
            let client = self.client()?;
            let headers = self.header_map(&request)?;
            let builder = match request.method {
                Method::Get => client.get(&request.url),
                Method::Delete => client.delete(&request.url),
                Method::Post => client.post(&request.url).body(request.body),
            };
            let builder = builder.headers(headers);
            let again = if self.may_reuse.load(Ordering::Relaxed) { builder.try_clone() } else { None };
            let response = match (builder.send().await, again) {
                // The server closed the kept connection while the request was on its way, and has not read it.
                (Err(error), Some(again)) if was_closed(&error) => again.send().await,
                (result, _) => result,
            };
            let response = response.map_err(|error| classify(&error))?;
            self.may_reuse.store(true, Ordering::Relaxed);
            let headers = response
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
                .collect();
            Ok(WireResponse { status: response.status().as_u16(), headers, body: Box::new(HttpBody(response)) })
        })
    }
}

struct HttpBody(reqwest::Response);

impl Body for HttpBody {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, TransportError>> {
        Box::pin(async move {
            match self.0.chunk().await {
                Ok(chunk) => Ok(chunk.map(|bytes| bytes.to_vec())),
                Err(error) => Err(classify(&error)),
            }
        })
    }

    fn abandon(&mut self, _: End) {}
}

/// Tells whether an open connection was closed before a byte of the answer came.
fn was_closed(error: &reqwest::Error) -> bool {
    let message = causes(error).to_ascii_lowercase();
    !error.is_connect()
        && !error.is_timeout()
        && ["closed before message completed", "connection reset", "broken pipe"]
            .iter()
            .any(|words| message.contains(words))
}

fn classify(error: &reqwest::Error) -> TransportError {
    let message = causes(error);
    if error.is_connect() && error.is_timeout() {
        return TransportError::ConnectTimeout(message);
    }
    if error.is_builder() {
        return TransportError::Setup { message, hint: None };
    }
    let lower = message.to_ascii_lowercase();
    if lower.contains("certificate") || lower.contains("unknownissuer") {
        return TransportError::Setup {
            hint: Some(certificate_hint(&lower).to_owned()),
            message: format!("the server's certificate is not trusted: {message}"),
        };
    }
    TransportError::Network(message)
}

/// Returns what to do about a server's certificate that is refused for this reason.
fn certificate_hint(reason: &str) -> &'static str {
    match reason {
        _ if reason.contains("not valid for name") => {
            "write the base URL with a name that the certificate is valid for"
        }
        _ if reason.contains("expired") || reason.contains("not valid yet") => {
            "renew the server's certificate, or correct this machine's clock"
        }
        _ => "name the certificates to trust with --ca-file or SSL_CERT_FILE",
    }
}

/// Writes an error with its causes, without the URL and without repeating itself.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = match cause.downcast_ref::<reqwest::Error>() {
            // The URL of a request may contain secrets, and the error message names the server anyway.
            Some(own) => own.to_string().split(" for url (").next().unwrap_or_default().to_owned(),
            None => cause.to_string(),
        };
        if !words.iter().any(|word| word.contains(&text)) {
            words.push(text);
        }
        next = cause.source();
    }
    crate::secret::mask_credentials(&words.join(": "))
}
