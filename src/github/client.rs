//! Sends requests to GitHub, one after the other, and waits where it asks to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::error::GitHubError;
use crate::model::trust::install_crypto;
use crate::secret::Secret;

/// The longest that one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Pauses before a request that only reads is repeated.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// Pauses where GitHub asks to slow down and does not say for how long.
const SLOWER: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(20), Duration::from_secs(60)];

/// The longest that all pauses for limits may take together.
const LONGEST_WAIT: Duration = Duration::from_secs(180);

/// The shortest time between two requests that write: GitHub asks for it.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// The largest answer that is read.
const LARGEST: usize = 16 << 20;

/// The most pages of a list: GitHub gives at most 3,000 files of a pull request.
const MOST_PAGES: usize = 30;

/// GitHub's interface for one repository.
#[derive(Debug)]
pub struct GitHub {
    base: String,
    repository: String,
    token: Option<Secret>,
    client: reqwest::Client,
    /// A server on this machine needs no courtesy.
    is_loopback: bool,
    waits: Arc<Mutex<Waits>>,
}

/// What was waited so far.
#[derive(Debug, Default)]
struct Waits {
    for_limits: Duration,
    last_write: Option<Instant>,
}

/// An answer.
struct Answer {
    value: Value,
    /// The address of the next page.
    next: Option<String>,
}

/// Why a request failed, with the pause that the server asks for.
struct Failed {
    error: GitHubError,
    /// GitHub asks to slow down.
    is_limit: bool,
    pause: Option<Duration>,
}

/// One request.
struct Request<'a> {
    method: Method,
    url: String,
    body: Option<Value>,
    what: &'a str,
}

impl GitHub {
    /// Prepares requests about a repository `OWNER/NAME`. `api` is `GITHUB_API_URL`; plain http only on this machine.
    pub fn new(api: &str, repository: &str, token: Option<Secret>) -> Result<GitHub, GitHubError> {
        let setup = |message: String| GitHubError::Setup(message);
        let url = url::Url::parse(api).map_err(|error| setup(format!("GITHUB_API_URL `{api}`: {error}")))?;
        let is_loopback = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback) {
            return Err(setup(format!("GITHUB_API_URL `{api}` is not https: the token is not sent there")));
        }
        let is_name = |name: &str| {
            !name.is_empty()
                && !name.starts_with('.')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if !repository.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name)) {
            return Err(setup(format!("GITHUB_REPOSITORY `{repository}` is not OWNER/NAME")));
        }
        install_crypto();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("qwen-run/", env!("CARGO_PKG_VERSION")))
            // A redirect would carry the token elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT);
        if is_loopback {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| setup(format!("no connection to {api}: {error}")))?;
        Ok(GitHub {
            base: api.trim_end_matches('/').to_owned(),
            repository: repository.to_owned(),
            token,
            client,
            is_loopback,
            waits: Arc::default(),
        })
    }

    /// Returns the same for another repository of the same server: pauses between requests are common to both.
    pub fn about(&self, repository: &str) -> Result<GitHub, GitHubError> {
        let other = GitHub::new(&self.base, repository, self.token.clone())?;
        Ok(GitHub { client: self.client.clone(), waits: Arc::clone(&self.waits), ..other })
    }

    /// Returns the owner of the repository.
    pub(super) fn owner(&self) -> &str {
        self.repository.split('/').next().unwrap_or_default()
    }

    /// Returns owner and name of the repository.
    pub(super) fn repository(&self) -> (&str, &str) {
        self.repository.split_once('/').unwrap_or_default()
    }

    /// Tells whether somebody may write to the repository. The login must be one.
    pub async fn may_write(&self, login: &str) -> Result<bool, GitHubError> {
        let path = format!("collaborators/{}/permission", segment(login));
        match self.get(&path, "who may write").await {
            Ok(answer) => {
                Ok(matches!(answer.get("permission").and_then(Value::as_str), Some("admin" | "maintain" | "write")))
            }
            // Somebody who is not a collaborator.
            Err(error) if error.has_status(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads one thing of the repository.
    pub(super) async fn get(&self, path: &str, what: &str) -> Result<Value, GitHubError> {
        let request = Request { method: Method::GET, url: self.url(path), body: None, what };
        self.ask(&request).await.map(|answer| answer.value)
    }

    /// Reads all pages of a list; `key` names it where a page is an object.
    pub(super) async fn list(&self, path: &str, key: Option<&str>, what: &str) -> Result<Vec<Value>, GitHubError> {
        let joined = if path.contains('?') { '&' } else { '?' };
        let mut next = Some(self.url(&format!("{path}{joined}per_page=100")));
        let mut all = Vec::new();
        for _ in 0..MOST_PAGES {
            let Some(url) = next.take() else { break };
            let answer = self.ask(&Request { method: Method::GET, url, body: None, what }).await?;
            let page = match (answer.value, key) {
                (Value::Object(mut page), Some(key)) => page.remove(key).unwrap_or_default(),
                (page, _) => page,
            };
            let Value::Array(page) = page else {
                return Err(GitHubError::Answer { what: what.to_owned(), field: "list" });
            };
            all.extend(page);
            // The token stays with the server that it was given for.
            next = answer.next.filter(|url| url.strip_prefix(&self.base).is_some_and(|rest| rest.starts_with('/')));
        }
        Ok(all)
    }

    /// Reads a text that GitHub keeps elsewhere: its answer says where. The token is not sent there.
    pub(super) async fn text_elsewhere(&self, path: &str, what: &str) -> Result<String, GitHubError> {
        let missing = || GitHubError::Answer { what: what.to_owned(), field: "location" };
        let gone = |error: reqwest::Error| GitHubError::Transport(what.to_owned(), error.without_url().to_string());
        let mut asked = self.client.get(self.url(path)).header("accept", "application/vnd.github+json");
        if let Some(token) = &self.token {
            asked = asked.bearer_auth(token.expose());
        }
        let answer = asked.send().await.map_err(gone)?;
        if !answer.status().is_redirection() {
            let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
            let value: Value = serde_json::from_slice(&answer.bytes().await.map_err(gone)?).unwrap_or_default();
            return Err(refused(what, status, &headers, &value).error);
        }
        let place = answer.headers().get("location").and_then(|place| place.to_str().ok()).ok_or_else(missing)?;
        let place = url::Url::parse(place).map_err(|_| missing())?;
        if place.scheme() != "https" && !self.is_loopback {
            return Err(missing());
        }
        let mut answer = self.client.get(place).send().await.map_err(gone)?;
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            let message = "it does not exist any more".to_owned();
            return Err(GitHubError::Refused { what: what.to_owned(), status, message });
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(gone)?.filter(|_| bytes.len() < LARGEST) {
            bytes.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Writes one thing of the repository.
    pub(super) async fn write(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        what: &str,
    ) -> Result<Value, GitHubError> {
        self.keep_distance().await;
        self.ask(&Request { method, url: self.url(path), body, what }).await.map(|answer| answer.value)
    }

    /// Runs a GraphQL document, and returns its data.
    pub(super) async fn graphql(
        &self,
        document: &str,
        variables: Value,
        what: &str,
        writes: bool,
    ) -> Result<Value, GitHubError> {
        if writes {
            self.keep_distance().await;
        }
        let url = match self.base.strip_suffix("/api/v3") {
            Some(server) => format!("{server}/api/graphql"),
            None => format!("{}/graphql", self.base),
        };
        let body = Some(json!({"query": document, "variables": variables}));
        // What only reads is repeated, as a GET is.
        let method = if writes { Method::PATCH } else { Method::GET };
        let mut answer = self.ask_as(&Request { method: Method::POST, url, body, what }, &method).await?.value;
        let errors = answer.get("errors").and_then(Value::as_array);
        if let Some(error) = errors.and_then(|errors| errors.first()) {
            let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
            let is_refused = error.get("type").and_then(Value::as_str) == Some("FORBIDDEN");
            let status = if is_refused { 403 } else { 422 };
            return Err(GitHubError::Refused { what: what.to_owned(), status, message: message.to_owned() });
        }
        match answer.get_mut("data") {
            Some(data) => Ok(data.take()),
            None => Err(GitHubError::Answer { what: what.to_owned(), field: "data" }),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/repos/{}/{path}", self.base, self.repository)
    }

    /// Waits until the last write is long enough ago.
    async fn keep_distance(&self) {
        let now = Instant::now();
        let due = {
            let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
            let due = waits.last_write.map(|last| last + BETWEEN_WRITES).filter(|due| *due > now && !self.is_loopback);
            waits.last_write = Some(due.unwrap_or(now));
            due
        };
        if let Some(due) = due {
            tokio::time::sleep(due - now).await;
        }
    }

    async fn ask(&self, request: &Request<'_>) -> Result<Answer, GitHubError> {
        self.ask_as(request, &request.method).await
    }

    /// Sends a request, again where that makes sense for a `method`.
    async fn ask_as(&self, request: &Request<'_>, method: &Method) -> Result<Answer, GitHubError> {
        let (mut limits, mut tries) = (0, 0);
        loop {
            let failed = match self.ask_once(request).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let pause = if failed.is_limit {
                limits += 1;
                match self.pause_for_limit(limits, failed.pause) {
                    Some(pause) => pause,
                    None => {
                        let what = request.what.to_owned();
                        return Err(GitHubError::Limit { what, message: failed.error.to_string() });
                    }
                }
            } else if *method == Method::GET && failed.error.may_pass() && tries < PAUSES.len() {
                tries += 1;
                if self.is_loopback { Duration::ZERO } else { PAUSES[tries - 1] }
            } else {
                return Err(failed.error);
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns the pause before a request that met a limit for the nth time is repeated; `None`: it is too long.
    fn pause_for_limit(&self, times: usize, asked: Option<Duration>) -> Option<Duration> {
        let own = SLOWER.get(times - 1).copied();
        // A server that names a pause may name it again; one that names none gives up after a few.
        let pause = match asked {
            Some(asked) if times <= 10 => asked,
            Some(_) | None if self.is_loopback => own.map(|_| Duration::ZERO)?,
            Some(_) | None => own?,
        };
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let all = waits.for_limits + pause;
        (all <= LONGEST_WAIT).then(|| {
            waits.for_limits = all;
            pause
        })
    }

    async fn ask_once(&self, request: &Request<'_>) -> Result<Answer, Failed> {
        let mut sent = self
            .client
            .request(request.method.clone(), &request.url)
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        if let Some(token) = &self.token {
            sent = sent.bearer_auth(token.expose());
        }
        if let Some(body) = &request.body {
            sent = sent.header("content-type", "application/json").body(body.to_string());
        }
        let gone = |cause: String| {
            let error = GitHubError::Transport(self.base.clone(), cause);
            Failed { error, is_limit: false, pause: None }
        };
        let broken = |error: reqwest::Error| gone(error.without_url().to_string());
        let mut response = sent.send().await.map_err(broken)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LARGEST {
                return Err(gone("the response is too long".to_owned()));
            }
        }
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(Answer { value, next: next_page(&headers) });
        }
        Err(refused(request.what, status.as_u16(), &headers, &value))
    }
}

/// Reads a refusal: whether it is a limit, and how long to wait.
fn refused(what: &str, status: u16, headers: &HeaderMap, answer: &Value) -> Failed {
    let said = answer.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    let reasons = answer.get("errors").and_then(Value::as_array).into_iter().flatten();
    let reasons = reasons.filter_map(|reason| reason.as_str().or_else(|| reason.get("message")?.as_str()));
    let message = [said].into_iter().chain(reasons).collect::<Vec<_>>().join(": ");
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<i64>().ok();
    let now = jiff::Timestamp::now().as_second();
    let until_reset = || {
        let is_used_up = number("x-ratelimit-remaining") == Some(0);
        is_used_up.then(|| number("x-ratelimit-reset").unwrap_or(now) - now + 1)
    };
    let seconds = number("retry-after").or_else(until_reset).map(|seconds| seconds.max(0).unsigned_abs());
    let is_limit = matches!(status, 403 | 429)
        && (status == 429 || seconds.is_some() || said.to_ascii_lowercase().contains("secondary rate limit"));
    let error = GitHubError::Refused { what: what.to_owned(), status, message };
    Failed { error, is_limit, pause: seconds.map(Duration::from_secs) }
}

/// Returns the address behind `rel="next"`.
fn next_page(headers: &HeaderMap) -> Option<String> {
    let links = headers.get("link")?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    Some(next.split_once('<')?.1.split_once('>')?.0.to_owned())
}

/// Writes a text as one segment of a path.
pub(super) fn segment(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each connection with the next status, and returns the address.
    fn server(statuses: &'static [&'static str]) -> (String, std::thread::JoinHandle<usize>) {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = std::thread::spawn(move || {
            for (number, status) in statuses.iter().enumerate() {
                let mut stream = listener.accept().unwrap().0;
                let _request = stream.read(&mut [0; 4096]).unwrap();
                let body = if number + 1 == statuses.len() { r#"{"permission":"write"}"# } else { "{}" };
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
            statuses.len()
        });
        (url, answers)
    }

    #[tokio::test]
    async fn who_may_write_is_asked_again_where_the_server_may_recover() {
        for (statuses, answer) in [
            (&["429 x", "502 x", "200 x"][..], Some(true)),
            (&["403 x\r\nretry-after: 0", "200 x"][..], Some(true)),
            (&["403 x\r\nx-ratelimit-remaining: 0\r\nx-ratelimit-reset: 1", "200 x"][..], Some(true)),
            (&["404 x"][..], Some(false)),
            (&["403 x"][..], None),
            (&["301 x\r\nlocation: http://127.0.0.1:1/"][..], None),
            (&["429 x\r\nretry-after: 181"][..], None),
            (&["429 x", "429 x", "429 x", "429 x"][..], None),
            (&["500 x", "500 x", "503 x"][..], None),
        ] {
            let (url, answers) = server(statuses);
            let github = GitHub::new(&url, "o/r", None).unwrap();
            assert_eq!(github.may_write("ann").await.ok(), answer, "{statuses:?}");
            assert_eq!(answers.join().unwrap(), statuses.len());
        }
    }

    #[test]
    fn pauses_for_limits_have_an_end() {
        let github = GitHub::new("https://api.github.com", "o/r", None).unwrap();
        let seconds = |times, asked: Option<u64>| {
            github.pause_for_limit(times, asked.map(Duration::from_secs)).map(|pause| pause.as_secs())
        };
        assert_eq!(
            [seconds(1, None), seconds(2, None), seconds(3, None), seconds(4, None)],
            [Some(5), Some(20), Some(60), None]
        );
        assert_eq!([seconds(1, Some(90)), seconds(1, Some(6)), seconds(1, Some(5))], [Some(90), None, Some(5)]);
    }

    #[test]
    fn a_token_goes_only_where_it_cannot_be_read_on_the_way() {
        for (api, repository, fits) in [
            ("https://api.github.com", "o/r", true),
            ("http://127.0.0.1:1", "o/r", true),
            ("http://api.github.com", "o/r", false),
            ("ftp://api.github.com", "o/r", false),
            ("https://api.github.com", "o/r/../x", false),
            ("https://api.github.com", "o", false),
            ("https://api.github.com", "o/..", false),
        ] {
            assert_eq!(GitHub::new(api, repository, None).is_ok(), fits, "{api} {repository}");
        }
    }
}
