//! Represents an endpoint: the base URL of a server, and which credentials may be sent to it.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::providers::{Provider, Quirks, quirks_of};
use crate::secret::Secret;

/// Where the requests go when nothing names an endpoint.
pub const DEFAULT_BASE_URL: &str = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1";

/// Where the key of the Coding Plan chooses to go.
pub const CODING_PLAN_BASE_URL: &str = "https://coding-intl.dashscope.aliyuncs.com/v1";

/// A base URL in its normal form: no trailing slash, no query, no operation pasted after it.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    base: Url,
}

/// Why a text is not an endpoint, or a key may not go to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not a URL of a server.
    #[error("base URL `{url}` is not valid: {problem}")]
    Url {
        /// What was given, credentials masked.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Plain http beyond this machine.
    #[error("base URL `{0}` sends the prompt and the key unencrypted; use https, or allow it with --allow-http")]
    PlainHttp(String),
    /// A server beyond this machine needs a key.
    #[error("no API key for {host}; set {variable}")]
    NoKey {
        /// The host.
        host: String,
        /// The environment variable to set.
        variable: &'static str,
    },
    /// The key has the shape of another provider's.
    #[error(
        "the API key looks like one of {owner} and is not sent to {host}; set {variable} to a key for {host}, or the base URL to {owner}'s"
    )]
    ForeignKey {
        /// Whose key it is.
        owner: &'static str,
        /// Where it would have gone.
        host: String,
        /// The environment variable to set.
        variable: &'static str,
    },
}

/// Adds the scheme that an address without one means: `http` for this machine.
fn with_scheme(text: &str) -> String {
    if text.contains("://") {
        text.to_owned()
    } else {
        let host = text.split(['/', ':']).next().unwrap_or_default();
        let scheme =
            if host == "localhost" || host.starts_with("127.") || text.starts_with("[::1]") { "http" } else { "https" };
        format!("{scheme}://{text}")
    }
}

impl Endpoint {
    /// Parses a base URL in any of the forms that people paste.
    ///
    /// Drops spaces, quotes, trailing slashes, query and fragment, and a pasted operation such as `/chat/completions`;
    /// adds a missing scheme, and the path of a host whose path is known. Refuses credentials in the URL.
    pub fn parse(text: &str) -> Result<Endpoint, EndpointError> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\u{feff}'));
        let invalid = |problem: &str| EndpointError::Url {
            url: crate::secret::mask_credentials(text),
            problem: problem.to_owned(),
        };
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        let mut base = Url::parse(&with_scheme(text)).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(invalid("the scheme must be http or https"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(invalid("it contains credentials; put the key into OPENAI_API_KEY instead"));
        }
        if base.host().is_none() {
            return Err(invalid("it names no host"));
        }
        base.set_query(None);
        base.set_fragment(None);
        let mut path = base.path().trim_end_matches('/').to_owned();
        for operation in ["/chat/completions", "/completions", "/responses", "/models"] {
            if let Some(rest) = path.strip_suffix(operation) {
                path = rest.trim_end_matches('/').to_owned();
                break;
            }
        }
        base.set_path(&path);
        let mut endpoint = Endpoint { base };
        if endpoint.base.path().trim_end_matches('/').is_empty()
            && let Some(path) = endpoint.quirks().location.default_path
        {
            endpoint.base.set_path(path);
        }
        Ok(endpoint)
    }

    /// Returns the URL of an operation, for example `chat/completions`.
    pub fn url_of(&self, operation: &str) -> Url {
        let mut url = self.base.clone();
        let path = format!("{}/{operation}", self.base.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }

    /// Returns the URL of what is next to the version and not below it, for example `props` of llama.cpp.
    pub fn url_beside(&self, name: &str) -> Url {
        let mut url = self.base.clone();
        let path = self.base.path().trim_end_matches('/');
        url.set_path(&format!("{}/{name}", path.strip_suffix("/v1").unwrap_or(path)));
        url
    }

    /// Returns the host, with its port where it is not the usual one.
    pub fn authority(&self) -> String {
        match self.base.port() {
            Some(port) => format!("{}:{port}", self.host()),
            None => self.host().to_owned(),
        }
    }

    /// Returns the host without its port.
    pub fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// Returns whether the server is this machine.
    pub fn is_loopback(&self) -> bool {
        match self.base.host() {
            Some(Host::Domain(domain)) => {
                let domain = domain.trim_end_matches('.').to_ascii_lowercase();
                domain == "localhost" || domain.ends_with(".localhost")
            }
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => {
                address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| IpAddr::V4(v4).is_loopback())
            }
            None => false,
        }
    }

    /// Returns whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// Returns what is known of the server behind this endpoint.
    pub fn quirks(&self) -> &'static Quirks {
        quirks_of(self.host(), self.base.port(), self.is_loopback())
    }

    /// Returns whether the path lacks the `/v1` that most servers need.
    pub fn lacks_version(&self) -> bool {
        !self
            .base
            .path()
            .split('/')
            .any(|part| part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
    }

    /// Returns the same endpoint with `/v1` after its path.
    pub fn with_version(&self) -> Endpoint {
        Endpoint { base: self.url_of("v1") }
    }

    /// Checks that plain http stays on this machine, unless the owner allowed it.
    pub fn check_scheme(&self, allow_http: bool) -> Result<(), EndpointError> {
        if self.is_https() || self.is_loopback() || allow_http {
            Ok(())
        } else {
            Err(EndpointError::PlainHttp(self.to_string()))
        }
    }

    /// Checks that `key` may go to this server: present where one is needed, and not another provider's.
    pub fn check_key(&self, key: Option<&Secret>) -> Result<(), EndpointError> {
        let quirks = self.quirks();
        let Some(key) = key else {
            // A private server beyond loopback may take requests without a key; the known hosted ones never do.
            return if self.is_loopback() || quirks.local {
                Ok(())
            } else {
                Err(EndpointError::NoKey { host: self.host().to_owned(), variable: quirks.location.key_variable })
            };
        };
        match owner_of_key(key.expose()) {
            Some(owner) if quirks.provider.is_hosted() && quirks.provider != owner.provider => {
                Err(EndpointError::ForeignKey {
                    owner: owner.name,
                    host: self.host().to_owned(),
                    variable: quirks.location.key_variable,
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns what to do about a refused key, as far as its shape and the host tell.
    ///
    /// `from` is where the key is from, if that is known.
    pub fn hint_on_refused_key(&self, key: Option<&Secret>, from: Option<&str>) -> String {
        let variable = self.quirks().location.key_variable;
        let Some(key) = key else {
            return format!("set QWEN_API_KEY or {variable}");
        };
        let coding_key = key.expose().starts_with("sk-sp-");
        match self.quirks().provider {
            Provider::DashScope if coding_key => format!(
                "a key that begins with sk-sp- belongs to the Coding Plan: use the base URL {CODING_PLAN_BASE_URL}"
            ),
            Provider::DashScopeCoding if !coding_key => format!(
                "the Coding Plan needs its own key (it begins with sk-sp-); for this key use the base URL {DEFAULT_BASE_URL}"
            ),
            Provider::DashScope | Provider::DashScopeCoding => format!(
                "keys are bound to a region: {} is {}; check that the key was made there, or use {}",
                self.host(),
                region_of(self.host()),
                other_regions(self.host()),
            ),
            Provider::OpenRouter
            | Provider::ModelScope
            | Provider::OpenAi
            | Provider::Vllm
            | Provider::Sglang
            | Provider::LlamaCpp
            | Provider::Ollama
            | Provider::LmStudio
            | Provider::LlamaCppPython
            | Provider::Local
            | Provider::Unknown => format!("check the key in {}", from.unwrap_or(variable)),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

/// The provider that a key's shape names.
struct KeyOwner {
    prefix: &'static str,
    provider: Provider,
    name: &'static str,
}

/// Shapes that no other provider uses. A bare `sk-` is everybody's and says nothing.
const KEY_OWNERS: &[KeyOwner] = &[
    KeyOwner { prefix: "sk-proj-", provider: Provider::OpenAi, name: "OpenAI" },
    KeyOwner { prefix: "sk-svcacct-", provider: Provider::OpenAi, name: "OpenAI" },
    KeyOwner { prefix: "sk-or-", provider: Provider::OpenRouter, name: "OpenRouter" },
    // No row of the table is Anthropic's, so such a key goes to no known host but its own, which is unknown to it.
    KeyOwner { prefix: "sk-ant-", provider: Provider::Unknown, name: "Anthropic" },
];

fn owner_of_key(key: &str) -> Option<&'static KeyOwner> {
    KEY_OWNERS.iter().find(|owner| key.starts_with(owner.prefix))
}

const REGIONS: &[(&str, &str)] = &[
    ("dashscope.aliyuncs.com", "Beijing"),
    ("dashscope-intl.aliyuncs.com", "Singapore"),
    ("dashscope-us.aliyuncs.com", "US"),
    ("cn-hongkong.dashscope.aliyuncs.com", "Hong Kong"),
    ("coding.dashscope.aliyuncs.com", "the Chinese Coding Plan"),
    ("coding-intl.dashscope.aliyuncs.com", "the international Coding Plan"),
];

fn region_of(host: &str) -> &'static str {
    REGIONS.iter().find(|(known, _)| *known == host).map_or("a region of its own", |(_, region)| region)
}

fn other_regions(host: &str) -> String {
    let coding = host.starts_with("coding");
    let others: Vec<&str> = REGIONS
        .iter()
        .filter(|(known, _)| *known != host && known.starts_with("coding") == coding)
        .map(|(known, _)| *known)
        .collect();
    others.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Option<Secret> {
        Some(Secret::parse(text).unwrap())
    }

    #[test]
    fn r56_every_pasted_form_gives_the_same_request_url() {
        let table = [
            ("https://h.example/v1", "https://h.example/v1/chat/completions"),
            ("https://h.example/v1/", "https://h.example/v1/chat/completions"),
            ("https://h.example/v1//", "https://h.example/v1/chat/completions"),
            ("  \"https://h.example/v1\" ", "https://h.example/v1/chat/completions"),
            ("https://h.example/v1/chat/completions", "https://h.example/v1/chat/completions"),
            ("https://h.example/v1/chat/completions/", "https://h.example/v1/chat/completions"),
            ("https://h.example/v1/models?x=1#y", "https://h.example/v1/chat/completions"),
            ("h.example/v1", "https://h.example/v1/chat/completions"),
            ("localhost:8080/v1", "http://localhost:8080/v1/chat/completions"),
            ("http://[::1]:8080/v1", "http://[::1]:8080/v1/chat/completions"),
            ("https://h.example", "https://h.example/chat/completions"),
            (
                "https://dashscope-intl.aliyuncs.com",
                "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions",
            ),
            (
                "https://coding-intl.dashscope.aliyuncs.com/",
                "https://coding-intl.dashscope.aliyuncs.com/v1/chat/completions",
            ),
            ("openrouter.ai", "https://openrouter.ai/api/v1/chat/completions"),
        ];
        for (text, expected) in table {
            assert_eq!(Endpoint::parse(text).unwrap().url_of("chat/completions").as_str(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_without_showing_credentials() {
        for text in ["", "ftp://h/v1", "https://", "https://user:hunter22@h.example/v1"] {
            let error = Endpoint::parse(text).unwrap_err().to_string();
            assert!(!error.contains("hunter22"), "{error}");
        }
    }

    #[test]
    fn r55_a_host_is_known_by_its_suffix_and_never_by_a_substring() {
        let provider = |text: &str| Endpoint::parse(text).unwrap().quirks().provider;
        assert_eq!(provider("https://dashscope.aliyuncs.com/compatible-mode/v1"), Provider::DashScope);
        assert_eq!(provider("https://ws1.ap-southeast-1.maas.aliyuncs.com/compatible-mode/v1"), Provider::DashScope);
        assert_eq!(provider("https://coding.dashscope.aliyuncs.com/v1"), Provider::DashScopeCoding);
        assert_eq!(provider("https://evil.example/dashscope.aliyuncs.com/v1"), Provider::Unknown);
        assert_eq!(provider("https://dashscope.aliyuncs.com.evil.example/v1"), Provider::Unknown);
        assert_eq!(provider("https://evildashscope.aliyuncs.com/v1"), Provider::Unknown);
        assert_eq!(provider("http://127.0.0.1:11434/v1"), Provider::Ollama);
        assert_eq!(provider("http://127.0.0.1:9999/v1"), Provider::Local);
        assert_eq!(provider("https://api.openai.com/v1"), Provider::OpenAi);
    }

    #[test]
    fn r54_plain_http_stays_on_this_machine() {
        for text in ["http://localhost:1/v1", "http://127.8.9.1/v1", "http://[::1]/v1", "https://h.example/v1"] {
            assert_eq!(Endpoint::parse(text).unwrap().check_scheme(false), Ok(()), "{text}");
        }
        for text in ["http://h.example/v1", "http://127.0.0.1.evil.example/v1", "http://localhost.evil.example/v1"] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert!(endpoint.check_scheme(false).is_err(), "{text}");
            assert_eq!(endpoint.check_scheme(true), Ok(()));
        }
    }

    #[test]
    fn a_key_of_another_provider_is_not_sent() {
        let check = |url: &str, key: Option<Secret>| Endpoint::parse(url).unwrap().check_key(key.as_ref());
        assert!(check(DEFAULT_BASE_URL, key("sk-proj-abc")).is_err());
        assert!(check(DEFAULT_BASE_URL, key("sk-or-abc")).is_err());
        assert!(check(DEFAULT_BASE_URL, key("sk-ant-abc")).is_err());
        assert!(check("https://openrouter.ai/api/v1", key("sk-proj-abc")).is_err());
        assert_eq!(check(DEFAULT_BASE_URL, key("sk-abc")), Ok(()));
        assert_eq!(check("https://openrouter.ai/api/v1", key("sk-or-abc")), Ok(()));
        assert_eq!(check("https://gateway.example/v1", key("sk-proj-abc")), Ok(()));
        assert_eq!(check("http://127.0.0.1:8080/v1", None), Ok(()));
        insta::assert_snapshot!(
            check(DEFAULT_BASE_URL, None).unwrap_err(),
            @"no API key for dashscope-intl.aliyuncs.com; set DASHSCOPE_API_KEY"
        );
    }

    #[test]
    fn r53_a_refused_key_names_the_plan_and_the_region() {
        let hint = |url: &str, text: &str| {
            Endpoint::parse(url).unwrap().hint_on_refused_key(key(text).as_ref(), Some("QWEN_API_KEY"))
        };
        assert_eq!(hint("http://127.0.0.1:8080/v1", "sk-abc"), "check the key in QWEN_API_KEY");
        insta::assert_snapshot!(
            hint(DEFAULT_BASE_URL, "sk-sp-abc"),
            @"a key that begins with sk-sp- belongs to the Coding Plan: use the base URL https://coding-intl.dashscope.aliyuncs.com/v1"
        );
        insta::assert_snapshot!(
            hint(CODING_PLAN_BASE_URL, "sk-abc"),
            @"the Coding Plan needs its own key (it begins with sk-sp-); for this key use the base URL https://dashscope-intl.aliyuncs.com/compatible-mode/v1"
        );
        insta::assert_snapshot!(
            hint(DEFAULT_BASE_URL, "sk-abc"),
            @"keys are bound to a region: dashscope-intl.aliyuncs.com is Singapore; check that the key was made there, or use dashscope.aliyuncs.com, dashscope-us.aliyuncs.com, cn-hongkong.dashscope.aliyuncs.com"
        );
    }

    #[test]
    fn a_base_without_a_version_can_be_given_one() {
        let endpoint = Endpoint::parse("http://127.0.0.1:9/").unwrap();
        assert!(endpoint.lacks_version());
        assert_eq!(endpoint.with_version().to_string(), "http://127.0.0.1:9/v1");
        assert!(!endpoint.with_version().lacks_version());
    }
}
