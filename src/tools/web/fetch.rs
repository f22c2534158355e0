//! Fetches one URL: each redirect is judged, only checked addresses are connected to, everything is bounded.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use url::Url;

use crate::model::BoxFuture;
use crate::policy::web::is_public;
use crate::policy::{Denial, Policy};

/// Maximum bytes of a page, after decompression.
const MOST_BYTES: usize = 10 << 20;

/// Judges one hop: a URL, or a `Location` relative to the URL that sent it.
type JudgeHop = dyn Fn(&str, Option<&Url>) -> Result<Url, Denial> + Send + Sync;

/// Looks the addresses of a host up.
type Resolve = dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync;

/// What a fetch may do.
pub struct Limits {
    /// Judges every hop, the first included.
    pub judge: Box<JudgeHop>,
    /// Looks hosts up.
    pub resolve: Box<Resolve>,
    /// Which addresses may be connected to.
    pub may_connect: fn(IpAddr) -> bool,
    /// Maximum redirects.
    pub redirects: u32,
    /// Maximum bytes of a page, after decompression.
    pub bytes: usize,
    /// What the whole fetch may take, redirects and all.
    pub time: Duration,
}

impl Limits {
    /// Takes the rules of a policy; hosts are looked up by the system.
    pub fn of(policy: &Policy) -> Limits {
        let (redirects, _) = policy.web_limits();
        let policy = policy.clone();
        Limits {
            judge: Box::new(move |url, base| policy.judge_url(url, base)),
            resolve: Box::new(|host| {
                Box::pin(async move {
                    Ok(tokio::net::lookup_host((host.as_str(), 443)).await?.map(|address| address.ip()).collect())
                })
            }),
            may_connect: is_public,
            redirects,
            bytes: MOST_BYTES,
            time: Duration::from_secs(60),
        }
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where it came from in the end.
    pub url: Url,
    /// `Content-Type` as sent; empty if there was none.
    pub content_type: String,
    /// The body, decompressed.
    pub body: Vec<u8>,
    /// Whether the body is longer than the limit; what is there is its beginning.
    pub cut: bool,
}

/// Why nothing came back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The policy forbids a hop.
    #[error("{}", .0.reason)]
    Denied(Denial),
    /// It was tried and did not work.
    #[error("{0}")]
    Failed(String),
}

/// Fetches a URL with GET, without cookies, credentials or proxies.
///
/// Every redirect is judged like the first URL. A host is resolved once a hop; one address that may not be connected to
/// among several is a refusal, and the connection goes to an address of that very answer.
pub async fn fetch(url: &str, limits: &Limits) -> Result<Fetched, FetchError> {
    match tokio::time::timeout(limits.time, follow(url, limits)).await {
        Ok(fetched) => fetched,
        Err(_) => Err(FetchError::Failed(format!("{url} was not there whole within {} s", limits.time.as_secs_f32()))),
    }
}

async fn follow(url: &str, limits: &Limits) -> Result<Fetched, FetchError> {
    let mut at = (limits.judge)(url, None).map_err(FetchError::Denied)?;
    let mut redirects = 0;
    loop {
        let response = get(&at, limits).await?;
        let status = response.status();
        if !status.is_redirection() {
            if !status.is_success() {
                return Err(FetchError::Failed(format!("{at} answered {status}")));
            }
            return read(at, response, limits).await;
        }
        let location = response.headers().get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let Some(location) = location else {
            return Err(FetchError::Failed(format!("{at} answered {status} without a Location")));
        };
        if redirects == limits.redirects {
            let denial = Denial::new(format!("more than {redirects} redirects, the next to {location:?}"));
            return Err(FetchError::Denied(denial.by("network.max_redirects")));
        }
        redirects += 1;
        at = (limits.judge)(&location, Some(&at))
            .map_err(|denial| Denial { reason: format!("redirect to {location:?}: {}", denial.reason), ..denial })
            .map_err(FetchError::Denied)?;
    }
}

async fn get(url: &Url, limits: &Limits) -> Result<reqwest::Response, FetchError> {
    let host = url.host_str().unwrap_or_default().to_owned();
    let resolved = (limits.resolve)(host.clone());
    let addresses = resolved.await.map_err(|error| FetchError::Failed(format!("cannot resolve {host}: {error}")))?;
    if addresses.is_empty() {
        return Err(FetchError::Denied(Denial::new(format!("{host} has no address")).by("web")));
    }
    if let Some(bad) = addresses.iter().find(|address| !(limits.may_connect)(**address)) {
        let denial = Denial::new(format!("{host} resolves to {bad}, which is not a public address"));
        return Err(FetchError::Denied(denial.by("web")));
    }
    crate::model::trust::install_crypto();
    let client = reqwest::Client::builder()
        .user_agent(concat!("qwen-run/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .dns_resolver(Arc::new(Checked(addresses)))
        .build()
        .map_err(|error| FetchError::Failed(format!("no connection could be set up: {error}")))?;
    let request = client.get(url.clone()).header(ACCEPT, "text/markdown, text/html;q=0.9, text/*;q=0.8, */*;q=0.5");
    request.send().await.map_err(|error| failed(url, error))
}

/// Answers every question with the addresses that were checked.
struct Checked(Vec<IpAddr>);

impl reqwest::dns::Resolve for Checked {
    fn resolve(&self, _name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        // The port is the URL's.
        let addresses: Vec<SocketAddr> = self.0.iter().map(|address| SocketAddr::new(*address, 0)).collect();
        Box::pin(std::future::ready(Ok(Box::new(addresses.into_iter()) as reqwest::dns::Addrs)))
    }
}

async fn read(url: Url, mut response: reqwest::Response, limits: &Limits) -> Result<Fetched, FetchError> {
    // What was asked for is unpacked already, and its header gone.
    if let Some(packed) = response.headers().get(CONTENT_ENCODING).filter(|packed| *packed != "identity") {
        let packed = packed.to_str().unwrap_or("something").to_owned();
        return Err(FetchError::Failed(format!("{url} is encoded as {packed:?}, which was not requested")));
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.to_owned();
    let (mut body, mut cut) = (Vec::new(), false);
    while !cut && let Some(chunk) = response.chunk().await.map_err(|error| failed(&url, error))? {
        let room = limits.bytes - body.len();
        cut = chunk.len() > room;
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    Ok(Fetched { url, content_type, body, cut })
}

/// The whole chain of causes: the first alone says "error sending request".
fn failed(url: &Url, error: reqwest::Error) -> FetchError {
    let error = error.without_url();
    let mut causes = vec![error.to_string()];
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes.dedup();
    FetchError::Failed(format!("{url}: {}", causes.join(": ")))
}
