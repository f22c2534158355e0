//! Keeps what a server showed of itself and of a model, so that later runs need not find it out again.
//!
//! Limits and names of parameters only: nothing of any conversation.

use serde::{Deserialize, Serialize};

use super::Feature;

/// How long it counts: then it is found out anew.
const SECONDS: i64 = 7 * 24 * 3600;

/// Servers that are kept, the newest.
const MOST: usize = 100;

/// What is known of a model at a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Learned {
    /// The model writes its calls as text, or the server takes no tools.
    pub text_calls: bool,
    /// The context window that the server gives.
    pub window: Option<u64>,
    /// The longest answer that the server gives.
    pub output: Option<u64>,
    /// Parameters that the server refuses.
    pub refused: Vec<String>,
}

impl Learned {
    /// Returns the features that need not be tried.
    pub fn given_up(&self) -> impl Iterator<Item = Feature> {
        KEPT.into_iter().filter(|feature| self.refused.iter().any(|name| name == feature.name()))
    }

    /// Tells whether a refusal of this feature is kept. That of media may be about one image, and that of tools is
    /// [`Learned::text_calls`].
    pub fn keeps(feature: Feature) -> bool {
        KEPT.contains(&feature)
    }

    /// Says it in a few words.
    pub fn in_words(&self) -> String {
        let calls = self.text_calls.then(|| "calls are written as text".to_owned());
        let window = self.window.map(|window| format!("window of {window} tokens"));
        let output = self.output.map(|output| format!("answers of {output} tokens at most"));
        let refused = (!self.refused.is_empty()).then(|| format!("refuses {}", self.refused.join(", ")));
        [calls, window, output, refused].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

const KEPT: [Feature; 9] = [
    Feature::StreamOptions,
    Feature::ParallelToolCalls,
    Feature::ToolChoice,
    Feature::MaxTokens,
    Feature::Thinking,
    Feature::Stream,
    Feature::Sampling,
    Feature::CacheControl,
    Feature::ResponseFormat,
];

/// What is known of all servers, as `servers.json` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Servers {
    version: u32,
    servers: Vec<Entry>,
}

/// One model at one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The base URL.
    pub endpoint: String,
    /// The model's name there.
    pub model: String,
    /// When it was found out, in seconds since 1970.
    pub time: i64,
    /// What is known.
    #[serde(flatten)]
    pub learned: Learned,
}

const VERSION: u32 = 1;

impl Servers {
    /// Reads the file's text; what is damaged or of another version is as if nothing were known.
    ///
    /// ```
    /// use qwen_run::model::learned::{Learned, Servers};
    ///
    /// let mut servers = Servers::parse("{");
    /// servers.learn(("http://127.0.0.1:8080/v1", "qwen"), Learned { text_calls: true, ..Learned::default() }, 100);
    /// let again = Servers::parse(&servers.text());
    /// assert!(again.known("http://127.0.0.1:8080/v1", "qwen", 200).unwrap().learned.text_calls);
    /// assert_eq!(again.known("http://127.0.0.1:8080/v1", "other", 200), None);
    /// ```
    pub fn parse(text: &str) -> Servers {
        let read: Option<Servers> = serde_json::from_str(text).ok();
        read.filter(|servers| servers.version == VERSION)
            .unwrap_or_else(|| Servers { version: VERSION, servers: Vec::new() })
    }

    /// Returns what is known of this model and not too old.
    pub fn known(&self, endpoint: &str, model: &str, now: i64) -> Option<&Entry> {
        self.at(endpoint, now).into_iter().find(|entry| entry.model == model)
    }

    /// Returns what is known of every model at a server and not too old.
    pub fn at(&self, endpoint: &str, now: i64) -> Vec<&Entry> {
        // An entry from the future was written while the clock was wrong.
        let is_valid = |entry: &&Entry| (0..=SECONDS).contains(&now.saturating_sub(entry.time));
        self.servers.iter().filter(|entry| entry.endpoint == endpoint).filter(is_valid).collect()
    }

    /// Takes what is known now in the place of what was; `false` if that is the same.
    pub fn learn(&mut self, (endpoint, model): (&str, &str), learned: Learned, now: i64) -> bool {
        let known = self.known(endpoint, model, now);
        if known.map_or(&Learned::default(), |known| &known.learned) == &learned {
            return false;
        }
        self.servers.retain(|entry| entry.endpoint != endpoint || entry.model != model);
        if learned != Learned::default() {
            let (endpoint, model) = (endpoint.to_owned(), model.to_owned());
            self.servers.push(Entry { endpoint, model, time: now, learned });
        }
        let surplus = self.servers.len().saturating_sub(MOST);
        self.servers.drain(..surplus);
        true
    }

    /// Writes the file's text.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: (&str, &str) = ("http://127.0.0.1:1/v1", "m");

    fn window(window: u64) -> Learned {
        Learned { window: Some(window), ..Learned::default() }
    }

    #[test]
    fn it_counts_for_a_week_from_when_it_was_found_out() {
        let mut servers = Servers::default();
        assert!(servers.learn(HERE, window(5), 1_000));
        assert!(!servers.learn(HERE, window(5), 2_000), "the same is no news");
        let is_known = |servers: &Servers, now| servers.known(HERE.0, HERE.1, now).is_some();
        assert!(is_known(&servers, 1_000) && is_known(&servers, 1_000 + SECONDS));
        assert!(!is_known(&servers, 1_001 + SECONDS) && !is_known(&servers, 999));
        assert!(servers.learn(HERE, window(5), 1_001 + SECONDS), "what is too old is found out anew");
        assert_eq!(servers.servers.len(), 1);
    }

    #[test]
    fn something_else_takes_its_place_and_nothing_removes_it() {
        let mut servers = Servers::default();
        servers.learn(HERE, window(5), 0);
        assert!(servers.learn(HERE, window(7), 1));
        assert_eq!(servers.known(HERE.0, HERE.1, 1).unwrap().learned, window(7));
        assert!(servers.learn(HERE, Learned::default(), 2));
        assert_eq!(servers.at(HERE.0, 2).len(), 0);
    }

    #[test]
    fn the_newest_are_kept() {
        let mut servers = Servers::default();
        for number in 0..MOST + 5 {
            servers.learn((HERE.0, &number.to_string()), window(1), 0);
        }
        assert_eq!(servers.servers.len(), MOST);
        assert!(servers.known(HERE.0, "4", 0).is_none() && servers.known(HERE.0, "5", 0).is_some());
    }

    #[test]
    fn another_version_is_as_if_nothing_were_known() {
        let text = r#"{"version": 2, "servers": [{"endpoint": "a", "model": "m", "time": 0}]}"#;
        assert_eq!(Servers::parse(text).at("a", 0).len(), 0);
        assert_eq!(Servers::parse(&text.replace("2,", "1,")).at("a", 0).len(), 1);
    }

    #[test]
    fn every_kept_refusal_is_found_by_its_name_and_that_of_media_and_tools_is_not_kept() {
        let refused = KEPT.iter().map(|feature| feature.name().to_owned()).collect();
        let learned = Learned { refused, ..Learned::default() };
        assert_eq!(learned.given_up().count(), KEPT.len());
        assert!(!Learned::keeps(Feature::Media) && !Learned::keeps(Feature::Tools));
    }

    #[test]
    fn it_is_said_in_a_few_words() {
        let learned = Learned {
            text_calls: true,
            window: Some(16_384),
            output: Some(4_096),
            refused: vec!["stream_options".into(), "tool_choice".into()],
        };
        insta::assert_snapshot!(learned.in_words(), @"calls are written as text; window of 16384 tokens; answers of 4096 tokens at most; refuses stream_options, tool_choice");
    }
}
