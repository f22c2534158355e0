//! Selects server, key and model, and makes sure that no key goes to a server that it is not for.

use url::{Host, Url};

use super::environment::Environment;
use super::sections::Settings;
use super::{Origin, Valued};
use crate::exit::Exit;
use crate::secret::{Secret, SecretError};

/// The server where nothing says otherwise.
pub const DASHSCOPE: &str = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1";

/// The server of coding-plan keys.
pub const CODING_PLAN: &str = "https://coding-intl.dashscope.aliyuncs.com/v1";

/// The model on DashScope where nothing says otherwise.
pub const DASHSCOPE_MODEL: &str = "qwen3-coder-plus";

/// What flags and the recipe say.
#[derive(Clone, Default)]
pub struct EndpointOptions<'a> {
    /// `--openai-api-key`.
    pub api_key: Option<&'a str>,
    /// `--api-key-file`: its name and its text.
    pub api_key_file: Option<(&'a str, &'a str)>,
    /// `--openai-base-url`.
    pub base_url: Option<&'a str>,
    /// `--allow-http`.
    pub allow_http: bool,
    /// `--model`.
    pub model: Option<&'a str>,
    /// `model` of the recipe.
    pub recipe_model: Option<&'a str>,
    /// The server is our own (`--local`): no key is for it.
    pub local: bool,
    /// Nothing is sent (`--replay`): no key is needed, and no model.
    pub offline: bool,
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The server's address.
    pub base_url: Valued<Url>,
    /// The key; `None` where none is needed.
    pub key: Option<Valued<Secret>>,
    /// The model.
    pub model: ModelChoice,
    /// Whether the server is on this machine.
    pub is_loopback: bool,
    /// What the owner should know.
    pub warnings: Vec<String>,
}

/// Which model is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoice {
    /// This one.
    Named(Valued<String>),
    /// The only one that `/v1/models` of a server on this machine lists; several or none are 52.
    TheOnlyOne,
}

/// Why there is nothing to ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KeyError {
    /// How the run ends.
    pub exit: Exit,
    /// What is wrong; never holds a key.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// Whose server it is, as far as keys care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    DashScope,
    CodingPlan,
    Other,
}

/// Decides where requests go.
pub fn resolve(
    wishes: &EndpointOptions<'_>,
    environment: &Environment,
    settings: &Settings,
) -> Result<Endpoint, KeyError> {
    let mut warnings = Vec::new();
    let base_url = base_url(wishes, environment, settings)?;
    let is_loopback = is_loopback(&base_url.value);
    if base_url.value.scheme() == "http" && !is_loopback && !wishes.allow_http && !wishes.offline {
        return Err(KeyError {
            exit: Exit::Config,
            message: format!(
                "{} ({}) is plain http to another machine: others on the network could read the key and the code",
                shown(&base_url.value),
                base_url.origin
            ),
            hint: "use https, or allow it with --allow-http".into(),
        });
    }
    let owner = owner(&base_url.value);
    let found = if wishes.local { None } else { find_key(wishes, environment, settings, owner)? };
    let key = match found {
        Some(key) => Some(checked(key, &base_url.value, owner)?),
        None if is_loopback || wishes.offline => None,
        None => return Err(no_key(&base_url, owner)),
    };
    if wishes.api_key.is_some() {
        warnings.push(
            "--openai-api-key can be read by other users of this machine; use --api-key-file or QWEN_API_KEY".into(),
        );
    }
    Ok(Endpoint {
        model: model(wishes, environment, settings, owner, is_loopback)?,
        base_url,
        key,
        is_loopback,
        warnings,
    })
}

fn base_url(
    wishes: &EndpointOptions<'_>,
    environment: &Environment,
    settings: &Settings,
) -> Result<Valued<Url>, KeyError> {
    let from_flag = wishes.base_url.map(|url| (url.to_owned(), Origin::Flag("--openai-base-url".into())));
    let from_settings = || {
        [&settings.model.base_url, &settings.auth.base_url]
            .into_iter()
            .flatten()
            .map(|url| (url.value.clone(), url.origin.clone()))
            .next()
    };
    let said = from_flag
        .or_else(|| environment.get("QWEN_BASE_URL"))
        .or_else(|| environment.get("OPENAI_BASE_URL"))
        .or_else(from_settings);
    let (text, origin) = match said {
        Some(said) => said,
        // The key of a coding plan chooses its own server, unless a key for any server is there.
        None if chooses_coding_plan(wishes, environment, settings) => {
            (CODING_PLAN.to_owned(), Origin::Variable("BAILIAN_CODING_PLAN_API_KEY".into()))
        }
        None => (DASHSCOPE.to_owned(), Origin::Default),
    };
    let exit = if matches!(origin, Origin::Flag(_)) { Exit::Usage } else { Exit::Config };
    let wrong = |problem: String| KeyError {
        exit,
        message: format!("the server's address in {origin} {problem}"),
        hint: "write an address, for example http://127.0.0.1:8080/v1".into(),
    };
    // The address may hold a password: it is not shown where it does not parse.
    let url = Url::parse(text.trim()).map_err(|error| wrong(format!("does not parse: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong(format!("is not an http or https address: it begins with `{}:`", url.scheme())));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("has a query or fragment, which requests would lose".into()));
    }
    Ok(Valued::new(url, origin))
}

fn chooses_coding_plan(wishes: &EndpointOptions<'_>, environment: &Environment, settings: &Settings) -> bool {
    let general = wishes.api_key.is_some()
        || wishes.api_key_file.is_some()
        || settings.auth.api_key.is_some()
        || ["QWEN_API_KEY", "OPENAI_API_KEY", "DASHSCOPE_API_KEY"].iter().any(|name| environment.get(name).is_some());
    !general && environment.get("BAILIAN_CODING_PLAN_API_KEY").is_some()
}

/// Returns the first key that is set and not empty, as it was written.
fn find_key(
    wishes: &EndpointOptions<'_>,
    environment: &Environment,
    settings: &Settings,
    owner: Owner,
) -> Result<Option<(String, Origin)>, KeyError> {
    let set = |text: &str| Secret::parse(text) != Err(SecretError::Empty);
    if let Some(key) = wishes.api_key.filter(|key| set(key)) {
        return Ok(Some((key.to_owned(), Origin::Flag("--openai-api-key".into()))));
    }
    if let Some((path, text)) = wishes.api_key_file {
        if !set(text) {
            return Err(KeyError {
                exit: Exit::Auth,
                message: format!("{path} (--api-key-file) is empty"),
                hint: "write the key into it".into(),
            });
        }
        return Ok(Some((text.to_owned(), Origin::File { path: path.to_owned(), line: 1, column: 1 })));
    }
    if let Some(key) = &settings.auth.provider_key {
        return Ok(Some((key.value.clone(), key.origin.clone())).filter(|(key, _)| set(key)));
    }
    let own = match owner {
        Owner::DashScope => Some("DASHSCOPE_API_KEY"),
        Owner::CodingPlan => Some("BAILIAN_CODING_PLAN_API_KEY"),
        Owner::Other => None,
    };
    let from_environment = ["QWEN_API_KEY", "OPENAI_API_KEY"]
        .into_iter()
        .chain(own)
        .filter_map(|name| environment.get(name))
        .find(|(key, _)| set(key));
    let from_settings =
        || settings.auth.api_key.as_ref().filter(|key| set(&key.value)).map(|k| (k.value.clone(), k.origin.clone()));
    Ok(from_environment.or_else(from_settings))
}

/// Refuses a key that cannot be in a header, or that belongs to another provider.
fn checked((key, origin): (String, Origin), base_url: &Url, owner: Owner) -> Result<Valued<Secret>, KeyError> {
    let refused = |message: String, hint: String| KeyError { exit: Exit::Auth, message, hint };
    let key = Secret::parse(&key).map_err(|error| {
        let hint = "copy the key again, alone on one line".to_owned();
        refused(format!("the key in {origin} is invalid: {error}"), hint)
    })?;
    let foreign = match owner {
        Owner::Other => None,
        Owner::DashScope | Owner::CodingPlan => [
            ("sk-proj-", "OpenAI", "https://api.openai.com/v1"),
            ("sk-or-", "OpenRouter", "https://openrouter.ai/api/v1"),
            ("sk-ant-", "Anthropic", "https://api.anthropic.com/v1"),
        ]
        .into_iter()
        .find(|(prefix, _, _)| key.expose().starts_with(prefix)),
    };
    if let Some((_, provider, address)) = foreign {
        return Err(refused(
            format!(
                "the key in {origin} looks like one of {provider} and was not sent to {}",
                base_url.host_str().unwrap_or_default()
            ),
            format!("set OPENAI_BASE_URL={address} to use it there, or QWEN_API_KEY to a DashScope key"),
        ));
    }
    Ok(Valued::new(key, origin))
}

fn no_key(base_url: &Valued<Url>, owner: Owner) -> KeyError {
    let variable = match owner {
        Owner::DashScope => "QWEN_API_KEY or DASHSCOPE_API_KEY",
        Owner::CodingPlan => "QWEN_API_KEY or BAILIAN_CODING_PLAN_API_KEY",
        Owner::Other => "QWEN_API_KEY or OPENAI_API_KEY",
    };
    KeyError {
        exit: Exit::Auth,
        message: format!("no key for {} ({})", shown(&base_url.value), base_url.origin),
        hint: format!(
            "set {variable}, or --api-key-file; a server on this machine needs none: QWEN_BASE_URL=http://127.0.0.1:8080/v1"
        ),
    }
}

/// Returns the model that flags, variables, the recipe or the settings name, the first of them.
pub(super) fn named_model(
    wishes: &EndpointOptions<'_>,
    environment: &Environment,
    settings: &Settings,
) -> Option<(String, Origin)> {
    wishes
        .model
        .map(|model| (model.to_owned(), Origin::Flag("--model".into())))
        .or_else(|| environment.get("QWEN_MODEL"))
        .or_else(|| environment.get("OPENAI_MODEL"))
        .or_else(|| wishes.recipe_model.map(|model| (model.to_owned(), Origin::Recipe)))
        .or_else(|| settings.model.name.as_ref().map(|model| (model.value.clone(), model.origin.clone())))
        .map(|(model, origin)| (model.trim().to_owned(), origin))
}

fn model(
    wishes: &EndpointOptions<'_>,
    environment: &Environment,
    settings: &Settings,
    owner: Owner,
    is_loopback: bool,
) -> Result<ModelChoice, KeyError> {
    match (named_model(wishes, environment, settings), owner) {
        (Some((model, origin)), _) => Ok(ModelChoice::Named(Valued::new(model, origin))),
        (None, Owner::DashScope | Owner::CodingPlan) => {
            Ok(ModelChoice::Named(Valued::new(DASHSCOPE_MODEL.into(), Origin::Default)))
        }
        (None, Owner::Other) if is_loopback || wishes.offline => Ok(ModelChoice::TheOnlyOne),
        (None, Owner::Other) => Err(KeyError {
            exit: Exit::Config,
            message: "no model is given, and this server has no default".into(),
            hint: "name one with --model or QWEN_MODEL".into(),
        }),
    }
}

/// Tells whether the address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        }
        Some(Host::Domain(name)) => name.trim_end_matches('.') == "localhost",
        None => false,
    }
}

/// Returns an address without its user and password.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only for addresses without a host, which are refused before.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// By the parsed host, never by a part of the text: `https://evil/dashscope.aliyuncs.com` is somebody else's.
fn owner(url: &Url) -> Owner {
    let Some(Host::Domain(host)) = url.host() else { return Owner::Other };
    match host.trim_end_matches('.') {
        "coding.dashscope.aliyuncs.com" | "coding-intl.dashscope.aliyuncs.com" => Owner::CodingPlan,
        "dashscope.aliyuncs.com" | "dashscope-intl.aliyuncs.com" | "dashscope-us.aliyuncs.com" => Owner::DashScope,
        host if host.ends_with(".dashscope.aliyuncs.com") || host.ends_with(".maas.aliyuncs.com") => Owner::DashScope,
        _ => Owner::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        wishes: EndpointOptions<'_>,
        variables: &[(&str, &str)],
    ) -> Result<(String, Option<String>, String), (u8, String)> {
        resolve(&wishes, &Environment::with(variables), &Settings::default())
            .map(|endpoint| {
                let model = match endpoint.model {
                    ModelChoice::Named(model) => model.value,
                    ModelChoice::TheOnlyOne => "(the only one)".into(),
                };
                let key = endpoint.key.map(|key| key.value.expose().to_owned());
                (endpoint.base_url.value.to_string(), key, model)
            })
            .map_err(|error| (error.exit.code(), format!("{error}; {}", error.hint)))
    }

    fn to(url: &str, key: Option<&str>, model: &str) -> Result<(String, Option<String>, String), (u8, String)> {
        Ok((url.into(), key.map(Into::into), model.into()))
    }

    #[test]
    fn the_first_key_that_is_set_and_not_empty_counts() {
        let all = [("QWEN_API_KEY", "q"), ("OPENAI_API_KEY", "o"), ("DASHSCOPE_API_KEY", "d")];
        let flag =
            EndpointOptions { api_key: Some("f"), api_key_file: Some(("p", "file")), ..EndpointOptions::default() };
        assert_eq!(found(flag, &all), to(DASHSCOPE, Some("f"), DASHSCOPE_MODEL));
        let file = EndpointOptions { api_key_file: Some(("p", " \u{feff}file\n")), ..EndpointOptions::default() };
        assert_eq!(found(file, &all), to(DASHSCOPE, Some("file"), DASHSCOPE_MODEL));
        assert_eq!(found(EndpointOptions::default(), &all), to(DASHSCOPE, Some("q"), DASHSCOPE_MODEL));
        let empty = [("QWEN_API_KEY", " "), ("OPENAI_API_KEY", "''"), ("DASHSCOPE_API_KEY", "d")];
        assert_eq!(found(EndpointOptions::default(), &empty), to(DASHSCOPE, Some("d"), DASHSCOPE_MODEL));
    }

    #[test]
    fn a_key_of_one_host_goes_to_no_other() {
        let keys = [("DASHSCOPE_API_KEY", "d"), ("BAILIAN_CODING_PLAN_API_KEY", "b")];
        for (url, key) in [
            (DASHSCOPE, Some("d")),
            (CODING_PLAN, Some("b")),
            ("https://dashscope.aliyuncs.com/compatible-mode/v1", Some("d")),
            ("https://w1.ap-southeast-1.maas.aliyuncs.com/compatible-mode/v1", Some("d")),
            ("http://127.0.0.1:8090/v1", None),
        ] {
            let wishes = EndpointOptions { base_url: Some(url), model: Some("m"), ..EndpointOptions::default() };
            assert_eq!(found(wishes, &keys), to(url, key, "m"), "{url}");
        }
        for url in [
            "https://evil.example/dashscope.aliyuncs.com",
            "https://dashscope.aliyuncs.com.evil.example/v1",
            "https://x@evil.example/",
        ] {
            let wishes = EndpointOptions { base_url: Some(url), model: Some("m"), ..EndpointOptions::default() };
            assert_eq!(found(wishes, &keys).unwrap_err().0, 41, "{url}");
        }
    }

    #[test]
    fn a_coding_plan_key_alone_chooses_its_host() {
        let alone = [("BAILIAN_CODING_PLAN_API_KEY", "b")];
        assert_eq!(found(EndpointOptions::default(), &alone), to(CODING_PLAN, Some("b"), DASHSCOPE_MODEL));
    }

    #[test]
    fn a_key_of_another_provider_is_not_sent_to_dashscope() {
        for key in ["sk-proj-abc", "sk-or-v1-abc", "sk-ant-abc"] {
            let (code, message) = found(EndpointOptions::default(), &[("OPENAI_API_KEY", key)]).unwrap_err();
            assert_eq!(code, 41);
            assert!(message.contains("OPENAI_BASE_URL=") && !message.contains(key), "{message}");
        }
        let url = "https://openrouter.ai/api/v1";
        let variables = [("OPENAI_API_KEY", "sk-or-1"), ("OPENAI_BASE_URL", url), ("OPENAI_MODEL", "m")];
        assert_eq!(found(EndpointOptions::default(), &variables), to(url, Some("sk-or-1"), "m"));
    }

    #[test]
    fn a_server_on_this_machine_needs_no_key_and_no_model() {
        for url in ["http://127.0.0.1:8090/v1", "http://localhost:1234/v1", "http://[::1]:8080/v1"] {
            let wishes = EndpointOptions { base_url: Some(url), ..EndpointOptions::default() };
            assert_eq!(found(wishes, &[]), to(url, None, "(the only one)"), "{url}");
        }
    }

    #[test]
    fn what_cannot_work_ends_in_its_code() {
        let base = |url| EndpointOptions { base_url: Some(url), model: Some("m"), ..EndpointOptions::default() };
        assert_eq!(found(EndpointOptions::default(), &[]).unwrap_err().0, 41);
        assert_eq!(found(base("nonsense"), &[]).unwrap_err().0, 2);
        assert_eq!(found(base("file:///etc"), &[]).unwrap_err().0, 2);
        assert_eq!(found(EndpointOptions::default(), &[("QWEN_BASE_URL", "nonsense")]).unwrap_err().0, 52);
        assert_eq!(found(base("http://example.com/v1"), &[("QWEN_API_KEY", "k")]).unwrap_err().0, 52);
        let allowed = EndpointOptions { allow_http: true, ..base("http://example.com/v1") };
        assert!(found(allowed, &[("QWEN_API_KEY", "k")]).is_ok());
        let no_model = EndpointOptions { base_url: Some("https://example.com/v1"), ..EndpointOptions::default() };
        assert_eq!(found(no_model, &[("QWEN_API_KEY", "k")]).unwrap_err().0, 52);
        for key in ["a b", "a\nb", "schlüssel"] {
            assert_eq!(found(EndpointOptions::default(), &[("QWEN_API_KEY", key)]).unwrap_err().0, 41, "{key:?}");
        }
        assert_eq!(
            found(
                EndpointOptions { api_key_file: Some(("p", "\n")), ..EndpointOptions::default() },
                &[("QWEN_API_KEY", "k")]
            )
            .unwrap_err()
            .0,
            41
        );
    }

    #[test]
    fn the_model_is_named_by_the_first_that_names_one() {
        let model = |wishes, variables: &[(&str, &str)]| found(wishes, variables).unwrap().2;
        let key = ("QWEN_API_KEY", "k");
        let recipe = EndpointOptions { recipe_model: Some("r"), ..EndpointOptions::default() };
        assert_eq!(model(recipe.clone(), &[key]), "r");
        assert_eq!(model(recipe.clone(), &[key, ("OPENAI_MODEL", "o")]), "o");
        assert_eq!(model(recipe.clone(), &[key, ("OPENAI_MODEL", "o"), ("QWEN_MODEL", "q")]), "q");
        assert_eq!(model(EndpointOptions { model: Some("f"), ..recipe }, &[key, ("QWEN_MODEL", "q")]), "f");
    }
}
