//! Validates what the settings say about one server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::settings::{Origin, Valued};

/// How long a call may be silent where the settings do not say.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum time of a server from its start to the end of its lists.
pub const HANDSHAKE: Duration = Duration::from_secs(30);

/// Keys of a server. What is not among them is a warning.
const KEYS: &[&str] = &[
    "command",
    "args",
    "cwd",
    "env",
    "url",
    "httpUrl",
    "headers",
    "timeout",
    "trust",
    "required",
    "description",
    "includeTools",
    "excludeTools",
    "oauth",
    "authProviderType",
    "type",
    "extensionName",
    "targetAudience",
    "targetServiceAccount",
];

/// A server as the settings describe it.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Its name in the settings.
    pub name: String,
    /// The place of its description.
    pub origin: Origin,
    /// How it is reached.
    pub connect: Connect,
    /// How long a call may be silent.
    pub timeout: Duration,
    /// Whether the settings allow all its tools.
    pub trust: bool,
    /// Whether the run ends if it is unavailable.
    pub required: bool,
    /// For people.
    pub description: Option<String>,
    /// If not empty, the only tools that are taken.
    pub include: Vec<String>,
    /// Tools that are not taken; wins over `include`.
    pub exclude: Vec<String>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Connect {
    /// A program, connected over its standard input and output.
    Stdio(Program),
    /// Streamable HTTP.
    Http(Web),
    /// Server-sent events, the older of the two ways over HTTP.
    Sse(Web),
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// A name for PATH, or a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The directory that it starts in, relative to the workspace.
    pub cwd: Option<PathBuf>,
    /// Variables next to the usual ones.
    pub env: BTreeMap<String, String>,
}

/// A server on the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Web {
    /// Its address.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// How to get a token, where the server asks for one.
    pub oauth: OAuth,
}

/// `oauth` of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuth {
    /// Registered by hand; without it the client registers itself.
    pub client_id: Option<String>,
    /// The secret that belongs to it.
    pub client_secret: Option<String>,
    /// What is asked for; without it what the server names.
    pub scopes: Vec<String>,
    /// Where the browser comes back to, if not the usual place.
    pub redirect_uri: Option<String>,
    /// Whether a run gets a token by itself, with the client's own credentials.
    pub client_credentials: bool,
    /// The file of the private key that then proves who the client is, where no secret does.
    pub private_key_file: Option<PathBuf>,
    /// `enabled: false`: no token is used, and none asked for.
    pub off: bool,
    /// Where a person grants the token, if not where the server names it.
    pub authorization_url: Option<String>,
    /// The URL for tokens, if not the one that the server names.
    pub token_url: Option<String>,
    /// The audiences of the token.
    pub audiences: Vec<String>,
    /// The part of the address's query that carries the token, instead of a header; over server-sent events.
    pub token_param_name: Option<String>,
    /// The URL of a document that describes the client; a server that accepts it needs no registration.
    pub client_metadata_url: Option<String>,
}

impl Connect {
    /// Returns the word for it in lists and results.
    pub fn transport(&self) -> &'static str {
        match self {
            Connect::Stdio(_) => "stdio",
            Connect::Http(_) => "http",
            Connect::Sse(_) => "sse",
        }
    }

    /// Returns the command line or address, for people.
    pub fn describe(&self) -> String {
        match self {
            Connect::Stdio(program) => {
                let words = std::iter::once(&program.command).chain(&program.args);
                super::shown(&words.map(String::as_str).collect::<Vec<_>>().join(" "), 200)
            }
            Connect::Http(web) | Connect::Sse(web) => super::shown(&without_secrets(&web.url), 200),
        }
    }
}

/// What is to be corrected in the entry of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A key has a value that it cannot have.
    #[error("mcpServers.{place} {problem}")]
    Value {
        /// The server, and the key if there is one.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Values that cannot be used together.
    #[error("mcpServers.{name}: {what}")]
    Together {
        /// The server.
        name: String,
        /// Which, and what they need.
        what: &'static str,
    },
    /// A way to get a token that is not known.
    #[error("unknown mcpServers.{name}.grantType `{other}`; known are client_credentials and authorization_code")]
    GrantType {
        /// The server.
        name: String,
        /// The way.
        other: String,
    },
    /// A variable in a value is not set.
    #[error("the variable {variable} is not set (mcpServers.{place})")]
    Unset {
        /// The variable.
        variable: String,
        /// The server and the key.
        place: String,
    },
}

impl Config {
    /// Reads a server; the list warns of keys that have no meaning.
    pub fn parse(name: &str, value: &Valued<Value>) -> Result<(Config, Vec<String>), ConfigError> {
        let Some(server) = value.value.as_object() else {
            return Err(ConfigError::Value { place: name.to_owned(), problem: "must be an object".to_owned() });
        };
        let reader = Reader { name, server };
        let mut warnings = Vec::new();
        for key in server.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            warnings.push(format!("{}: unknown key `mcpServers.{name}.{}`", value.origin, super::shown(key, 60)));
        }
        if let Some(kind) = reader.text("authProviderType")? {
            match kind.as_str() {
                "dynamic_discovery" => {}
                other => {
                    let problem = format!("`{other}` is not supported; put a token into `headers`, or use `oauth`");
                    return Err(reader.wrong("authProviderType", problem));
                }
            }
        }
        let connect = reader.connect()?;
        let timeout = match server.get("timeout") {
            None | Some(Value::Null) => TIMEOUT,
            Some(value) => match value.as_u64() {
                Some(millis @ 1..) => Duration::from_millis(millis),
                Some(0) | None => {
                    return Err(reader.wrong("timeout", format!("must be a number of milliseconds, not {value}")));
                }
            },
        };
        let config = Config {
            name: name.to_owned(),
            origin: value.origin.clone(),
            connect,
            timeout,
            trust: reader.yes("trust")?,
            required: reader.yes("required")?,
            description: reader.text("description")?,
            include: reader.tools("includeTools")?,
            exclude: reader.tools("excludeTools")?,
        };
        Ok((config, warnings))
    }

    /// Tells whether a tool of the server is taken.
    pub fn takes(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == tool);
        !named(&self.exclude) && (self.include.is_empty() || named(&self.include))
    }

    /// Returns how long it may take until it is ready.
    pub fn handshake(&self) -> Duration {
        self.timeout.min(HANDSHAKE)
    }

    /// Tells whether it is a program that this program starts.
    pub fn is_program(&self) -> bool {
        matches!(self.connect, Connect::Stdio(_))
    }

    /// Tells whether the user or the machine's owner configured it: their settings, or a flag.
    pub fn is_operators(&self) -> bool {
        match &self.origin {
            Origin::File { path, .. } => path.starts_with("~/") || path.starts_with('/'),
            Origin::Flag(_) | Origin::Variable(_) | Origin::Default => true,
            Origin::DotEnv { .. } | Origin::Recipe => false,
        }
    }
}

struct Reader<'a> {
    name: &'a str,
    server: &'a Map<String, Value>,
}

impl Reader<'_> {
    /// Makes the error of a key; of the server as a whole where that is empty.
    fn wrong(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        let place = if key.is_empty() { self.name.to_owned() } else { format!("{}.{key}", self.name) };
        ConfigError::Value { place, problem: problem.into() }
    }

    fn connect(&self) -> Result<Connect, ConfigError> {
        if let Some(url) = self.text("httpUrl")? {
            return Ok(Connect::Http(self.web("httpUrl", url)?));
        }
        if let Some(url) = self.text("url")? {
            // Later settings of Qwen Code name the kind next to the address.
            let streamable =
                matches!(self.text("type")?.as_deref(), Some("http" | "streamable-http" | "streamableHttp"));
            let web = self.web("url", url)?;
            return Ok(if streamable { Connect::Http(web) } else { Connect::Sse(web) });
        }
        let Some(command) = self.text("command")? else {
            return Err(self.wrong("", "has none of httpUrl, url and command"));
        };
        let env = self.texts_by_name("env")?;
        for (key, value) in &env {
            self.is_set(&format!("env.{key}"), value)?;
        }
        Ok(Connect::Stdio(Program {
            command,
            args: self.list("args")?,
            cwd: self.text("cwd")?.map(PathBuf::from),
            env,
        }))
    }

    fn web(&self, key: &str, url: String) -> Result<Web, ConfigError> {
        self.is_set(key, &url)?;
        let parsed = url::Url::parse(&url).map_err(|error| self.wrong(key, format!("is not an address: {error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(self.wrong(key, "must begin with https:// or http://"));
        }
        let headers = self.texts_by_name("headers")?;
        for (header, value) in &headers {
            self.is_set(&format!("headers.{header}"), value)?;
        }
        Ok(Web { url, headers, oauth: self.oauth()? })
    }

    fn oauth(&self) -> Result<OAuth, ConfigError> {
        let Some(value) = self.server.get("oauth") else { return Ok(OAuth::default()) };
        let Some(map) = value.as_object() else {
            return Err(self.wrong("oauth", "must be an object"));
        };
        let name = format!("{}.oauth", self.name);
        let reader = Reader { name: &name, server: map };
        let client_credentials = match reader.text("grantType")?.as_deref() {
            None | Some("authorization_code") => false,
            Some("client_credentials") => true,
            Some(other) => {
                let other = super::shown(other, 60);
                return Err(ConfigError::GrantType { name, other });
            }
        };
        let oauth = OAuth {
            client_id: reader.text("clientId")?,
            client_secret: reader.text("clientSecret")?,
            scopes: reader.list("scopes")?,
            redirect_uri: reader.text("redirectUri")?,
            client_credentials,
            private_key_file: reader.text("privateKeyFile")?.map(PathBuf::from),
            client_metadata_url: reader.text("clientMetadataUrl")?,
            off: map.get("enabled") == Some(&Value::Bool(false)),
            authorization_url: reader.text("authorizationUrl")?,
            token_url: reader.text("tokenUrl")?,
            audiences: reader.list("audiences")?,
            token_param_name: reader.text("tokenParamName")?,
        };
        reader.yes("enabled")?;
        reader.checked(oauth)
    }

    /// Refuses values that cannot work together, or that would be sent in the clear.
    fn checked(&self, oauth: OAuth) -> Result<OAuth, ConfigError> {
        for (key, address) in [("authorizationUrl", &oauth.authorization_url), ("tokenUrl", &oauth.token_url)] {
            if let Some(address) = address
                && !(address.starts_with("https://") || is_loopback(address))
            {
                return Err(self.wrong(key, "must begin with https://"));
            }
        }
        let key = oauth.private_key_file.as_ref().map(|file| file.display().to_string());
        for (key, value) in [
            ("clientId", &oauth.client_id),
            ("clientSecret", &oauth.client_secret),
            ("privateKeyFile", &key),
            ("clientMetadataUrl", &oauth.client_metadata_url),
        ] {
            if let Some(value) = value {
                self.is_set(key, value)?;
            }
        }
        let wrong = |what| Err(ConfigError::Together { name: self.name.to_owned(), what });
        if let Some(address) = &oauth.client_metadata_url
            && !address.starts_with("https://")
        {
            return wrong("clientMetadataUrl must begin with https://");
        }
        match (&oauth.private_key_file, oauth.client_credentials) {
            (Some(_), false) => wrong("privateKeyFile needs grantType client_credentials"),
            (Some(_), true) if oauth.client_secret.is_some() => {
                wrong("has both clientSecret and privateKeyFile; keep one")
            }
            (Some(file), true) if !file.is_absolute() => {
                wrong("privateKeyFile must be an absolute path, for example $HOME/key.pem")
            }
            (key, true) if oauth.client_id.is_none() || (key.is_none() && oauth.client_secret.is_none()) => {
                wrong("client_credentials needs clientId, and clientSecret or privateKeyFile")
            }
            (Some(_) | None, _) => Ok(oauth),
        }
    }

    /// A variable that is not set would be sent as it is spelled: better to say so at the start.
    fn is_set(&self, key: &str, value: &str) -> Result<(), ConfigError> {
        match unset_variable(value) {
            Some(variable) => {
                Err(ConfigError::Unset { variable: variable.to_owned(), place: format!("{}.{key}", self.name) })
            }
            None => Ok(()),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        match self.server.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) if text.contains('\0') => Err(self.wrong(key, "contains a NUL byte")),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(key, "must be text")),
        }
    }

    fn yes(&self, key: &str) -> Result<bool, ConfigError> {
        match self.server.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(yes)) => Ok(*yes),
            Some(_) => Err(self.wrong(key, "must be true or false")),
        }
    }

    fn list(&self, key: &str) -> Result<Vec<String>, ConfigError> {
        let wrong = || self.wrong(key, "must be a list of texts");
        match self.server.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().filter(|text| !text.contains('\0')).map(str::to_owned).ok_or_else(wrong))
                .collect(),
            Some(_) => Err(wrong()),
        }
    }

    /// A list of tools; `name(…)` of older settings means the name.
    fn tools(&self, key: &str) -> Result<Vec<String>, ConfigError> {
        let plain = |tool: String| tool.split('(').next().unwrap_or_default().trim().to_owned();
        Ok(self.list(key)?.into_iter().map(plain).collect())
    }

    fn texts_by_name(&self, key: &str) -> Result<BTreeMap<String, String>, ConfigError> {
        let wrong = || self.wrong(key, "must be an object of texts");
        match self.server.get(key) {
            None | Some(Value::Null) => Ok(BTreeMap::new()),
            Some(Value::Object(entries)) => entries
                .iter()
                .map(|(name, value)| {
                    let text = match value {
                        Value::String(text) => text.clone(),
                        Value::Number(number) => number.to_string(),
                        Value::Bool(yes) => yes.to_string(),
                        Value::Null | Value::Array(_) | Value::Object(_) => return Err(wrong()),
                    };
                    if text.contains('\0') || name.is_empty() || name.contains(['=', '\0']) {
                        return Err(wrong());
                    }
                    Ok((name.clone(), text))
                })
                .collect(),
            Some(_) => Err(wrong()),
        }
    }
}

/// Returns the first variable in a text: `${VAR}`, or `$VAR` in capitals. Those that are set were replaced before.
fn unset_variable(value: &str) -> Option<&str> {
    for (at, _) in value.match_indices('$') {
        let rest = &value[at + 1..];
        let (body, braced) = match rest.strip_prefix('{') {
            Some(inner) => (inner.split_once('}').map(|(name, _)| name).unwrap_or_default(), true),
            None => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                (&rest[..end], false)
            }
        };
        let is_name = !body.is_empty()
            && !body.starts_with(|c: char| c.is_ascii_digit())
            && body.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name && (braced || !body.contains(|c: char| c.is_ascii_lowercase())) {
            return Some(body);
        }
    }
    None
}

/// Returns an address without user, password and query: they may hold a key.
pub fn without_secrets(url: &str) -> String {
    let Ok(mut parsed) = url::Url::parse(url) else { return "an address that cannot be read".to_owned() };
    // Both succeed for addresses of http and https.
    let _fixed = (parsed.set_username(""), parsed.set_password(None));
    if parsed.query().is_some() {
        parsed.set_query(Some("…"));
    }
    parsed.to_string().replace("%E2%80%A6", "…")
}

/// Tells whether an address is this machine's own.
pub(super) fn is_loopback(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: Value) -> Result<Config, ConfigError> {
        Config::parse("s", &Valued::new(value, Origin::Flag("--mcp-config".into()))).map(|(config, _)| config)
    }

    #[test]
    fn the_address_for_streams_wins_over_the_other_and_both_over_a_command() {
        let all = json!({"command": "x", "url": "http://a/sse", "httpUrl": "https://a/mcp"});
        assert_eq!(parse(all).unwrap().connect.transport(), "http");
        assert_eq!(parse(json!({"command": "x", "url": "http://a/sse"})).unwrap().connect.transport(), "sse");
        assert_eq!(parse(json!({"url": "http://a/mcp", "type": "http"})).unwrap().connect.transport(), "http");
        assert_eq!(parse(json!({"command": "x"})).unwrap().connect.transport(), "stdio");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (value, error) in [
            (json!(1), "mcpServers.s must be an object"),
            (json!({}), "mcpServers.s has none of httpUrl, url and command"),
            (json!({"command": 1}), "mcpServers.s.command must be text"),
            (json!({"command": "x", "args": "y"}), "mcpServers.s.args must be a list of texts"),
            (json!({"command": "x", "env": {"A": {}}}), "mcpServers.s.env must be an object of texts"),
            (
                json!({"command": "x", "timeout": "1s"}),
                "mcpServers.s.timeout must be a number of milliseconds, not \"1s\"",
            ),
            (json!({"command": "x", "trust": "yes"}), "mcpServers.s.trust must be true or false"),
            (json!({"httpUrl": "ftp://x"}), "mcpServers.s.httpUrl must begin with https:// or http://"),
            (
                json!({"command": "x", "env": {"TOKEN": "${GONE}"}}),
                "the variable GONE is not set (mcpServers.s.env.TOKEN)",
            ),
            (
                json!({"url": "http://a", "headers": {"Authorization": "Bearer $GONE"}}),
                "the variable GONE is not set (mcpServers.s.headers.Authorization)",
            ),
            (
                json!({"url": "http://a", "authProviderType": "google_credentials"}),
                "mcpServers.s.authProviderType `google_credentials` is not supported; put a token into `headers`, or use `oauth`",
            ),
            (
                json!({"url": "http://a", "oauth": {"grantType": "client_credential"}}),
                "unknown mcpServers.s.oauth.grantType `client_credential`; known are client_credentials and \
                 authorization_code",
            ),
            (
                json!({"url": "http://a", "oauth": {"grantType": "client_credentials", "clientId": "c"}}),
                "mcpServers.s.oauth: client_credentials needs clientId, and clientSecret or privateKeyFile",
            ),
            (
                json!({"url": "http://a", "oauth": {"grantType": "client_credentials", "clientId": "c", "privateKeyFile": "key"}}),
                "mcpServers.s.oauth: privateKeyFile must be an absolute path, for example $HOME/key.pem",
            ),
            (
                json!({"url": "http://a", "oauth": {"privateKeyFile": "/key"}}),
                "mcpServers.s.oauth: privateKeyFile needs grantType client_credentials",
            ),
            (
                json!({"url": "http://a", "oauth": {"clientMetadataUrl": "http://a/me.json"}}),
                "mcpServers.s.oauth: clientMetadataUrl must begin with https://",
            ),
        ] {
            assert_eq!(parse(value).unwrap_err().to_string(), error);
        }
        assert!(parse(json!({"command": "x", "env": {"PASSWORD": "pa$word$5"}})).is_ok());
    }

    #[test]
    fn an_unknown_key_is_a_warning() {
        let value = Valued::new(json!({"command": "x", "trsut": true}), Origin::Flag("--mcp-config".into()));
        let (_, warnings) = Config::parse("s", &value).unwrap();
        assert_eq!(warnings, ["--mcp-config: unknown key `mcpServers.s.trsut`"]);
    }

    #[test]
    fn what_is_excluded_is_out_even_if_included() {
        let config = parse(json!({"command": "x", "includeTools": ["a", "b(x)"], "excludeTools": ["a"]})).unwrap();
        assert!(!config.takes("a") && config.takes("b") && !config.takes("c"));
    }

    #[test]
    fn whoever_wrote_the_file_is_known() {
        let of = |path: &str| {
            let origin = Origin::File { path: path.into(), line: 1, column: 1 };
            Config::parse("s", &Valued::new(json!({"command": "x"}), origin)).unwrap().0.is_operators()
        };
        assert!(of("~/.qwen/settings.json") && of("/etc/qwen-code/settings.json") && !of(".qwen/settings.json"));
    }

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        assert_eq!(without_secrets("https://u:p@h.example/mcp?key=1"), "https://h.example/mcp?…");
    }
}
