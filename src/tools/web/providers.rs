//! Asks search providers, and reads their answers.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use url::Url;

use crate::secret::Secret;
use crate::settings::Environment;

/// Results of a search.
const RESULTS: u64 = 10;

/// A provider of web searches.
pub trait Provider: Send + Sync {
    /// Returns its name in settings and calls.
    fn name(&self) -> &'static str;

    /// Puts a query into a request.
    fn ask(&self, query: &str) -> Ask;

    /// Reads its response; `None` if it has no results.
    fn read(&self, answer: &Value) -> Option<Found>;
}

/// A request to a provider: a POST where it has a body.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The address.
    pub url: Url,
    /// For the header, if the provider takes its key there.
    pub bearer: Option<Secret>,
    /// JSON.
    pub body: Option<Value>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// An answer in words, if the provider gives one.
    pub answer: Option<String>,
    /// Pages, best first.
    pub results: Vec<Hit>,
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its title.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// What it says about the query.
    pub snippet: String,
}

/// Returns the providers that settings (`webSearch`) and environment have all for, the default one first, and what is
/// wrong with those that are named and incomplete.
pub fn providers(settings: &Map<String, Value>, environment: &Environment) -> (Vec<Arc<dyn Provider>>, Vec<String>) {
    let mut found: Vec<Arc<dyn Provider>> = Vec::new();
    let mut warnings = Vec::new();
    let empty = Map::new();
    let named = settings.get("provider").and_then(Value::as_array).into_iter().flatten();
    for entry in named {
        let entry = entry.as_object().unwrap_or(&empty);
        let name = entry.get("type").and_then(Value::as_str).unwrap_or_default();
        match provider(name, entry, environment) {
            Ok(provider) => found.push(provider),
            Err(problem) => warnings.push(format!("webSearch.provider `{name}`: {problem}")),
        }
    }
    for name in ["tavily", "google", "searxng"] {
        if found.iter().all(|known| known.name() != name)
            && let Ok(provider) = provider(name, &empty, environment)
        {
            found.push(provider);
        }
    }
    let default = settings.get("default").and_then(Value::as_str);
    found.sort_by_key(|provider| default != Some(provider.name()));
    (found, warnings)
}

fn provider(name: &str, entry: &Map<String, Value>, environment: &Environment) -> Result<Arc<dyn Provider>, String> {
    let value = |key: &str, variable: &str| {
        let set = entry.get(key).and_then(Value::as_str).map(str::to_owned).or_else(|| environment.value(variable));
        set.filter(|text| !text.trim().is_empty()).ok_or_else(|| format!("needs `{key}`, or {variable}"))
    };
    let key = |variable: &str| Secret::parse(&value("apiKey", variable)?).map_err(|error| error.to_string());
    let url = |text: &str| {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        url.ok_or_else(|| format!("`{text}` is not an http or https address"))
    };
    Ok(match name {
        "tavily" => Arc::new(Tavily { key: key("TAVILY_API_KEY")? }),
        "google" => Arc::new(Google {
            key: key("GOOGLE_API_KEY")?,
            engine: value("searchEngineId", "GOOGLE_SEARCH_ENGINE_ID")?,
        }),
        "dashscope" => Arc::new(DashScope { key: key("DASHSCOPE_API_KEY")? }),
        "searxng" => Arc::new(SearXng { base: url(&value("url", "SEARXNG_URL")?)? }),
        _ => return Err("is not one of tavily, google, dashscope, searxng".into()),
    })
}

fn fixed(address: &str) -> Url {
    Url::parse(address).expect("the address is a constant, and a test asks every provider")
}

/// Reads a list of pages whose title, address and text are under these keys.
fn hits(list: Option<&Value>, keys: [&str; 3]) -> Option<Vec<Hit>> {
    let one = |item: &Value| {
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
        let line = |key: &str| text(key).split_whitespace().collect::<Vec<_>>().join(" ");
        let [title, url, snippet] = keys.map(line);
        (!url.is_empty()).then_some(Hit { title, url, snippet })
    };
    let most = usize::try_from(RESULTS).unwrap_or(usize::MAX);
    Some(list?.as_array()?.iter().filter_map(one).take(most).collect())
}

struct Tavily {
    key: Secret,
}

impl Provider for Tavily {
    fn name(&self) -> &'static str {
        "tavily"
    }

    fn ask(&self, query: &str) -> Ask {
        let body = json!({"query": query, "max_results": RESULTS, "include_answer": true});
        Ask { url: fixed("https://api.tavily.com/search"), bearer: Some(self.key.clone()), body: Some(body) }
    }

    fn read(&self, answer: &Value) -> Option<Found> {
        let text = answer.get("answer").and_then(Value::as_str).filter(|text| !text.is_empty());
        let results = hits(answer.get("results"), ["title", "url", "content"])?;
        Some(Found { answer: text.map(str::to_owned), results })
    }
}

struct Google {
    key: Secret,
    engine: String,
}

impl Provider for Google {
    fn name(&self) -> &'static str {
        "google"
    }

    fn ask(&self, query: &str) -> Ask {
        let mut url = fixed("https://www.googleapis.com/customsearch/v1");
        let (key, count) = (self.key.expose(), RESULTS.to_string());
        url.query_pairs_mut().extend_pairs([("key", key), ("cx", &self.engine), ("q", query), ("num", &count)]);
        Ask { url, bearer: None, body: None }
    }

    fn read(&self, answer: &Value) -> Option<Found> {
        // An answer without `items` found nothing.
        let results = match answer.get("items") {
            None if answer.is_object() => Vec::new(),
            items => hits(items, ["title", "link", "snippet"])?,
        };
        Some(Found { answer: None, results })
    }
}

struct DashScope {
    key: Secret,
}

impl Provider for DashScope {
    fn name(&self) -> &'static str {
        "dashscope"
    }

    fn ask(&self, query: &str) -> Ask {
        Ask {
            url: fixed("https://dashscope.aliyuncs.com/api/v1/indices/plugin/web_search"),
            bearer: Some(self.key.clone()),
            body: Some(json!({"uq": query, "page": 1, "rows": RESULTS})),
        }
    }

    fn read(&self, answer: &Value) -> Option<Found> {
        Some(Found { answer: None, results: hits(answer.pointer("/data/docs"), ["title", "url", "snippet"])? })
    }
}

struct SearXng {
    base: Url,
}

impl Provider for SearXng {
    fn name(&self) -> &'static str {
        "searxng"
    }

    fn ask(&self, query: &str) -> Ask {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/search", self.base.path().trim_end_matches('/')));
        url.query_pairs_mut().extend_pairs([("q", query), ("format", "json")]);
        Ask { url, bearer: None, body: None }
    }

    fn read(&self, answer: &Value) -> Option<Found> {
        Some(Found { answer: None, results: hits(answer.get("results"), ["title", "url", "content"])? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_settings_or_environment_and_the_default_goes_first() {
        let settings = json!({"default": "google", "provider": [
            {"type": "tavily", "apiKey": "tvly-1"}, {"type": "google", "apiKey": "g"}, {"type": "bing"}]});
        let names = |(found, warnings): (Vec<Arc<dyn Provider>>, Vec<String>)| {
            (found.iter().map(|provider| provider.name()).collect::<Vec<_>>(), warnings)
        };
        let all = Environment::with(&[("GOOGLE_SEARCH_ENGINE_ID", "e"), ("SEARXNG_URL", "http://127.0.0.1:1/s/")]);
        let settings = settings.as_object().unwrap();
        assert_eq!(
            names(providers(settings, &all)),
            (
                vec!["google", "tavily", "searxng"],
                vec!["webSearch.provider `bing`: is not one of tavily, google, dashscope, searxng".to_owned()]
            )
        );
        let (found, warnings) = names(providers(settings, &Environment::with(&[])));
        assert_eq!(found, ["tavily"]);
        assert_eq!(warnings[0], "webSearch.provider `google`: needs `searchEngineId`, or GOOGLE_SEARCH_ENGINE_ID");
        // A key for the model is not an order to search with it.
        assert_eq!(
            names(providers(&Map::new(), &Environment::with(&[("DASHSCOPE_API_KEY", "k")]))).0,
            Vec::<&str>::new()
        );
        assert_eq!(names(providers(&Map::new(), &Environment::with(&[("TAVILY_API_KEY", "k")]))).0, ["tavily"]);
    }

    #[test]
    fn every_provider_is_asked_and_read_in_its_own_way() {
        let settings = json!({"provider": [{"type": "tavily", "apiKey": "k"}, {"type": "dashscope", "apiKey": "k"},
            {"type": "google", "apiKey": "k", "searchEngineId": "e"}, {"type": "searxng", "url": "http://h/s"}]});
        let (found, _) = providers(settings.as_object().unwrap(), &Environment::with(&[]));
        let asked: Vec<String> = found
            .iter()
            .map(|provider| {
                let ask = provider.ask("a b");
                let key = if ask.bearer.is_some() { " with key" } else { "" };
                format!("{}{key} {}", ask.url, ask.body.unwrap_or_default())
            })
            .collect();
        insta::assert_snapshot!(asked.join("\n"), @r#"
        https://api.tavily.com/search with key {"query":"a b","max_results":10,"include_answer":true}
        https://dashscope.aliyuncs.com/api/v1/indices/plugin/web_search with key {"uq":"a b","page":1,"rows":10}
        https://www.googleapis.com/customsearch/v1?key=k&cx=e&q=a+b&num=10 null
        http://h/s/search?q=a+b&format=json null
        "#);
        let page = json!({"title": "T", "url": "u", "link": "u", "content": "S\n s", "snippet": "S s"});
        let answers = [
            json!({"results": [page]}),
            json!({"data": {"docs": [page]}}),
            json!({"items": [page]}),
            json!({"results": [page, {"title": "no address"}]}),
        ];
        let hit = Hit { title: "T".into(), url: "u".into(), snippet: "S s".into() };
        for (provider, answer) in found.iter().zip(&answers) {
            let wanted = Some(Found { answer: None, results: vec![hit.clone()] });
            assert_eq!(provider.read(answer), wanted, "{}", provider.name());
            assert_eq!(provider.read(&json!([1])), None, "{}", provider.name());
        }
    }
}
