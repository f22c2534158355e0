//! Asks GitHub what CI needs to know: whether somebody may write here, and which pull request a branch has.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::model::trust::install_crypto;
use crate::secret::Secret;

/// The longest that one question may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Pauses before a question is asked again.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// The longest pause that the server can ask for.
const LONGEST_PAUSE: u64 = 60;

/// The largest answer that is read.
const LARGEST: usize = 4 << 20;

/// GitHub's interface for one repository.
#[derive(Debug)]
pub struct GitHub {
    base: String,
    repository: String,
    token: Option<Secret>,
    client: reqwest::Client,
    pauses: [Duration; 2],
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// It cannot be asked at all.
    #[error("{0}")]
    Setup(String),
    /// It is not there, or breaks off.
    #[error("{0} does not answer: {1}")]
    Transport(String, String),
    /// It refuses.
    #[error("{what}: GitHub responded {status}: {message}")]
    Refused {
        /// What was asked.
        what: String,
        /// The HTTP status.
        status: u16,
        /// Its words.
        message: String,
    },
}

/// A pull request that is open now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// It was there already, and was brought up to date.
    pub was_there: bool,
    /// The label could not be set.
    pub without_label: Option<String>,
}

/// What a pull request is to say.
#[derive(Debug, Clone, Copy)]
pub struct Proposed<'a> {
    /// The branch with the change, in the same repository.
    pub head: &'a str,
    /// The branch that it is for.
    pub base: &'a str,
    /// One line.
    pub title: &'a str,
    /// Markdown.
    pub body: &'a str,
    /// Whether it is a draft.
    pub draft: bool,
    /// Its label.
    pub label: &'a str,
}

impl GitHub {
    /// Prepares questions about a repository `OWNER/NAME`. `api` is `GITHUB_API_URL`; plain http only on this machine.
    pub fn new(api: &str, repository: &str, token: Option<Secret>) -> Result<GitHub, ForgeError> {
        let setup = |message: String| ForgeError::Setup(message);
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
            pauses: PAUSES,
        })
    }

    /// Tells whether somebody may write to the repository. The login must be one.
    pub async fn may_write(&self, login: &str) -> Result<bool, ForgeError> {
        let path = format!("collaborators/{}/permission", login.replace('[', "%5B").replace(']', "%5D"));
        match self.ask(Method::GET, &path, None, "who may write").await {
            Ok(answer) => {
                Ok(matches!(answer.get("permission").and_then(Value::as_str), Some("admin" | "maintain" | "write")))
            }
            // Somebody who is not a collaborator.
            Err(ForgeError::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the pull request of a branch, or brings the open one up to date.
    pub async fn propose(&self, proposed: &Proposed<'_>) -> Result<Opened, ForgeError> {
        let owner = self.repository.split('/').next().unwrap_or_default();
        let query: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("state", "open")
            .append_pair("head", &format!("{owner}:{}", proposed.head))
            .append_pair("base", proposed.base)
            .finish();
        let open = self.ask(Method::GET, &format!("pulls?{query}"), None, "the open pull requests").await?;
        let open = open.as_array().and_then(|open| open.first()).cloned();
        let was_there = open.is_some();
        let pull = match open.as_ref().and_then(|open| open.get("number")).and_then(Value::as_u64) {
            Some(number) => {
                let body = json!({"title": proposed.title, "body": proposed.body});
                self.ask(Method::PATCH, &format!("pulls/{number}"), Some(body), "the pull request").await?
            }
            None => {
                let body = json!({"title": proposed.title, "body": proposed.body, "head": proposed.head,
                                  "base": proposed.base, "draft": proposed.draft});
                self.ask(Method::POST, "pulls", Some(body), "a new pull request").await?
            }
        };
        let number = pull.get("number").and_then(Value::as_u64).ok_or_else(|| ForgeError::Refused {
            what: "the pull request".to_owned(),
            status: 200,
            message: "the answer has no number".to_owned(),
        })?;
        let labels = json!({"labels": [proposed.label]});
        let labelled = self.ask(Method::POST, &format!("issues/{number}/labels"), Some(labels), "the label").await;
        let url = pull.get("html_url").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Opened { number, url, was_there, without_label: labelled.err().map(|error| error.to_string()) })
    }

    /// Asks. A question that only reads is asked again where the server or the connection may recover.
    async fn ask(&self, method: Method, path: &str, body: Option<Value>, what: &str) -> Result<Value, ForgeError> {
        for pause in self.pauses.iter().filter(|_| method == Method::GET) {
            match self.ask_once(method.clone(), path, body.clone(), what).await {
                Err((error, wait)) if error.may_pass() => tokio::time::sleep(wait.unwrap_or(*pause)).await,
                answer => return answer.map_err(|(error, _)| error),
            }
        }
        self.ask_once(method, path, body, what).await.map_err(|(error, _)| error)
    }

    /// Asks one time. An error comes with the pause that the server asks for.
    async fn ask_once(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        what: &str,
    ) -> Result<Value, (ForgeError, Option<Duration>)> {
        let url = format!("{}/repos/{}/{path}", self.base, self.repository);
        let mut request = self
            .client
            .request(method, url)
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let gone =
            |error: reqwest::Error| (ForgeError::Transport(self.base.clone(), error.without_url().to_string()), None);
        let mut response = request.send().await.map_err(gone)?;
        let status = response.status();
        let wait = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let wait = wait.map(|seconds| Duration::from_secs(seconds.min(LONGEST_PAUSE)));
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(gone)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LARGEST {
                return Err((ForgeError::Transport(self.base.clone(), "the response is too long".to_owned()), None));
            }
        }
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let message = answer.get("message").and_then(Value::as_str).unwrap_or("no reason given").to_owned();
        Err((ForgeError::Refused { what: what.to_owned(), status: status.as_u16(), message }, wait))
    }
}

impl ForgeError {
    /// Tells whether the same question may be answered a moment later.
    fn may_pass(&self) -> bool {
        match self {
            ForgeError::Setup(_) => false,
            ForgeError::Transport(..) => true,
            ForgeError::Refused { status, .. } => matches!(status, 429 | 500..=599),
        }
    }
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
    async fn who_may_write_is_asked_three_times_where_the_server_may_recover() {
        for (statuses, answer) in [
            (&["429 x", "502 x", "200 x"][..], Some(true)),
            (&["404 x"][..], Some(false)),
            (&["403 x"][..], None),
            (&["500 x", "500 x", "503 x"][..], None),
        ] {
            let (url, answers) = server(statuses);
            let mut github = GitHub::new(&url, "o/r", None).unwrap();
            github.pauses = [Duration::ZERO; 2];
            assert_eq!(github.may_write("ann").await.ok(), answer, "{statuses:?}");
            assert_eq!(answers.join().unwrap(), statuses.len());
        }
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
