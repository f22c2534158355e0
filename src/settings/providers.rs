//! Reads `modelProviders`: servers by their models, as Qwen Code's settings list them.
//!
//! ```json
//! {"modelProviders": {"openai": [{"id": "my-model", "baseUrl": "https://…/v1", "envKey": "MY_KEY"}]}}
//! ```
//!
//! The entry whose `id` is the model in use gives the server, the variable of its key, and its own `generationConfig`.
//! A flag or variable that names a server overrides it; the entry's key is then not used, as it is for another server.

use serde_json::{Map, Value};

use super::environment::Environment;
use super::keys::{EndpointOptions, KeyError, named_model};
use super::sections::{GenerationSettings, Settings};
use super::{Origin, Valued};
use crate::exit::Exit;

/// Returns the settings with those of the entry of the model in use; unchanged if there is none.
pub fn applied(
    settings: &Settings,
    environment: &Environment,
    wishes: &EndpointOptions<'_>,
) -> Result<Settings, KeyError> {
    let mut applied = settings.clone();
    let Some((model, _)) = named_model(wishes, environment, settings) else { return Ok(applied) };
    let Some((protocol, entry)) = find(&settings.model.providers, &model) else { return Ok(applied) };
    let origin = settings
        .entries
        .iter()
        .find(|(key, _)| *key == "modelProviders")
        .map_or(Origin::Default, |(_, value)| value.origin.clone());
    let error = |exit: Exit, message: String, hint: &str| KeyError {
        exit,
        message: format!("{origin}: modelProviders.{protocol} `{model}`: {message}"),
        hint: hint.to_owned(),
    };
    let server_is_named = wishes.base_url.is_some()
        || ["QWEN_BASE_URL", "OPENAI_BASE_URL"].iter().any(|name| environment.value(name).is_some());
    if protocol != "openai" && !server_is_named {
        return Err(error(
            Exit::Config,
            "only servers with OpenAI's chat completions API are supported".into(),
            "list it under modelProviders.openai with the address of its compatible mode",
        ));
    }
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    if !server_is_named {
        if let Some(url) = text("baseUrl") {
            applied.model.base_url = Some(Valued::new(url.to_owned(), origin.clone()));
            // The keys of the environment are for other servers.
            applied.auth.provider_key = Some(Valued::new(String::new(), origin.clone()));
        }
        if let Some(variable) = text("envKey") {
            let Some((key, origin)) = environment.get(variable) else {
                return Err(error(
                    Exit::Auth,
                    format!("its key is read from {variable}, which is not set"),
                    &format!("set {variable}"),
                ));
            };
            applied.auth.provider_key = Some(Valued::new(key, origin));
        }
    }
    if let Some(Value::Object(config)) = entry.get("generationConfig") {
        configure(&mut applied.generation, config, &origin).map_err(|key| {
            error(Exit::Config, format!("generationConfig.{key} has the wrong type"), "see `qwen help settings`")
        })?;
    }
    Ok(applied)
}

/// Finds the entry of a model; lists are under a protocol's name, bare or as `{"models": […]}`.
fn find<'a>(providers: &'a Map<String, Value>, model: &str) -> Option<(&'a str, &'a Map<String, Value>)> {
    let lists = providers.iter().filter_map(|(protocol, value)| {
        let list = value.as_array().or_else(|| value.get("models")?.as_array())?;
        Some((protocol.as_str(), list))
    });
    let entries =
        lists.flat_map(|(protocol, list)| list.iter().filter_map(move |entry| Some((protocol, entry.as_object()?))));
    let matching: Vec<_> =
        entries.filter(|(_, entry)| entry.get("id").and_then(Value::as_str) == Some(model)).collect();
    // Supported protocols first.
    matching.iter().find(|(protocol, _)| *protocol == "openai").or(matching.first()).copied()
}

/// Puts the entry's own values over the general ones; the error is the key whose value does not fit.
fn configure(generation: &mut GenerationSettings, config: &Map<String, Value>, origin: &Origin) -> Result<(), String> {
    for (key, value) in config {
        let wrong = || key.clone();
        let count = || value.as_u64().map(|count| Some(Valued::new(count, origin.clone()))).ok_or_else(wrong);
        let object = || value.as_object().cloned().ok_or_else(wrong);
        match key.as_str() {
            "timeout" => generation.timeout_ms = count()?,
            "maxRetries" => generation.max_retries = count()?,
            "contextWindowSize" => generation.context_window_size = count()?,
            "samplingParams" => generation.sampling_params = object()?,
            "extra_body" => generation.extra_body = object()?,
            "customHeaders" => generation.custom_headers = object()?,
            "enableCacheControl" => {
                let yes = value.as_bool().ok_or_else(wrong)?;
                generation.enable_cache_control = Some(Valued::new(yes, origin.clone()));
            }
            "reasoning" => generation.reasoning = Some(Valued::new(value.clone(), origin.clone())),
            // Others are of Qwen Code's own.
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sections::ModelSettings;
    use super::*;

    fn settings() -> Settings {
        let providers = json!({
            "openai": [
                {"id": "a", "baseUrl": "https://a.example/v1", "envKey": "A_KEY",
                 "generationConfig": {"timeout": 5, "samplingParams": {"temperature": 0.5}, "reasoning": false}},
                {"id": "local", "baseUrl": "http://127.0.0.1:1/v1"},
                {"id": "broken", "generationConfig": {"timeout": "x"}}
            ],
            "anthropic": [{"id": "c"}]
        });
        let Value::Object(providers) = providers else { panic!("an object") };
        Settings { model: ModelSettings { providers, ..Default::default() }, ..Default::default() }
    }

    #[test]
    fn the_entry_of_the_model_gives_server_key_and_configuration() {
        let applied =
            applied(&settings(), &Environment::with(&[("A_KEY", "k"), ("QWEN_MODEL", "a")]), &flags(None)).unwrap();
        assert_eq!(applied.model.base_url.unwrap().value, "https://a.example/v1");
        assert_eq!(applied.auth.provider_key.unwrap().value, "k");
        assert_eq!(applied.generation.timeout_ms.unwrap().value, 5);
        assert_eq!(applied.generation.sampling_params["temperature"], 0.5);
    }

    #[test]
    fn a_server_that_is_named_gets_no_key_of_an_entry() {
        let named = Environment::with(&[("A_KEY", "k"), ("OPENAI_BASE_URL", "https://b.example/v1")]);
        let applied = applied(&settings(), &named, &flags(Some("a"))).unwrap();
        assert!(applied.model.base_url.is_none() && applied.auth.provider_key.is_none());
    }

    fn flags(model: Option<&str>) -> EndpointOptions<'_> {
        EndpointOptions { model, ..EndpointOptions::default() }
    }

    #[test]
    fn the_entry_of_a_recipes_model_sets_the_server() {
        let keys = [("A_KEY", "k")];
        let recipe = EndpointOptions { recipe_model: Some("a"), ..EndpointOptions::default() };
        let mut settings = settings();
        settings.model.name = Some(Valued::new("local".into(), Origin::Default));
        let url = |wishes: EndpointOptions<'_>, variables: &[(&str, &str)]| {
            let applied = applied(&settings, &Environment::with(variables), &wishes).unwrap();
            applied.model.base_url.unwrap().value
        };
        let (of_a, of_local) = (url(flags(Some("a")), &keys), url(flags(Some("local")), &[]));
        assert_eq!((url(recipe.clone(), &keys), url(flags(None), &keys)), (of_a, of_local.clone()));
        assert_eq!(url(recipe, &[keys[0], ("QWEN_MODEL", "local")]), of_local);
    }

    #[test]
    fn an_entry_without_a_key_gets_none_of_the_environment() {
        let applied =
            applied(&settings(), &Environment::with(&[("OPENAI_API_KEY", "k")]), &flags(Some("local"))).unwrap();
        assert_eq!(applied.auth.provider_key.unwrap().value, "");
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let problem = |model: &str| applied(&settings(), &Environment::with(&[]), &flags(Some(model))).unwrap_err();
        assert_eq!(problem("a").exit, Exit::Auth);
        assert!(problem("a").message.contains("A_KEY"));
        assert!(problem("c").message.contains("chat completions"));
        assert!(problem("broken").message.contains("generationConfig.timeout"));
        assert_eq!(applied(&settings(), &Environment::with(&[]), &flags(Some("other"))).unwrap(), settings());
    }
}
