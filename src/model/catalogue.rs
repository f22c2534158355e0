//! Lists the context window, output limit and price of known models, as of September 2026.

use super::{ModelFacts, Price};

/// A row of the catalogue. A name ending in `*` matches every name that begins with it.
struct Row {
    name: &'static str,
    window: u64,
    output: u64,
    price: Option<Price>,
    images: bool,
}

/// The longest cache discount that is sure where no price of its own is known: none.
const fn price(input: f64, output: f64) -> Option<Price> {
    Some(Price { input, output, cache_read: input, cache_write: input })
}

const fn cached(input: f64, output: f64, cache_read: f64, cache_write: f64) -> Option<Price> {
    Some(Price { input, output, cache_read, cache_write })
}

const fn text(name: &'static str, window: u64, output: u64, price: Option<Price>) -> Row {
    Row { name, window, output, price, images: false }
}

const fn vision(name: &'static str, window: u64, output: u64, price: Option<Price>) -> Row {
    Row { name, window, output, price, images: true }
}

const M: u64 = 1_000_000;
const K262: u64 = 262_144;
const K128: u64 = 131_072;

/// The first row that matches wins, so the more particular is first.
const ROWS: &[Row] = &[
    vision("qwen3.8-max*", 983_616, 131_072, cached(2.0, 6.0, 0.25, 2.5)),
    vision("qwen3.8*", 983_616, 131_072, None),
    text("qwen3.7-max*", 991_000, 65_536, cached(2.5, 7.5, 0.5, 3.125)),
    vision("qwen3.7-plus*", 991_000, 65_536, cached(0.5, 3.0, 0.05, 0.625)),
    text("qwen3.7-flash*", 991_000, 65_536, price(0.03, 0.12)),
    vision("qwen3.6-plus*", M, 65_536, price(0.5, 3.0)),
    text("qwen3.6-flash*", M, 65_536, price(0.19, 1.1)),
    text("qwen3.6-max*", K262, 65_536, price(1.3, 7.8)),
    text("qwen3.6-35b*", K262, 65_536, price(0.25, 1.5)),
    text("qwen3.6-27b*", K262, 65_536, price(0.6, 3.6)),
    vision("qwen3.5-plus*", M, 65_536, price(0.4, 2.4)),
    text("qwen3.5-flash*", M, 65_536, None),
    text("qwen3.5-397b*", K262, 65_536, None),
    text("qwen3.5-122b*", K262, 65_536, None),
    text("qwen3.5-35b*", K262, 65_536, None),
    text("qwen3.5-27b*", K262, 65_536, None),
    text("qwen3-coder-plus*", 1_048_576, 65_536, price(1.0, 5.0)),
    text("qwen3-coder-flash*", M, 65_536, price(0.3, 1.5)),
    text("qwen3-coder-next*", K262, 65_536, price(0.07, 0.3)),
    text("qwen3-coder-480b*", K262, 65_536, price(1.5, 7.5)),
    text("qwen3-coder-30b*", K262, 65_536, price(0.45, 2.25)),
    text("qwen3-coder*", K262, 65_536, None),
    text("qwen3-max*", K262, 32_768, price(1.2, 6.0)),
    vision("qwen3-vl-plus*", K262, 32_768, price(0.2, 1.6)),
    vision("qwen3-vl*", K262, 32_768, None),
    text("qwen-plus*", M, 32_768, price(0.4, 1.2)),
    text("qwen-flash*", M, 32_768, price(0.05, 0.4)),
    text("qwen-turbo*", M, 16_384, price(0.05, 0.2)),
    text("qwen2.5-coder-32b*", K128, 8_192, price(0.29, 0.86)),
    text("qwen2.5-coder-7b*", K128, 8_192, price(0.29, 0.86)),
    text("qwen2.5-coder*", 32_768, 8_192, None),
    // A version that is newer than this table.
    text("qwen3.*", M, 65_536, None),
    text("qwen*", 256_000, 32_768, None),
];

/// What is assumed of a model that nobody knows.
const UNKNOWN: Row = text("", 200_000, 32_768, None);

/// Returns what is known of a model; an unknown one has cautious limits and no price.
pub fn facts_of(name: &str) -> ModelFacts {
    let row = find(name).unwrap_or(&UNKNOWN);
    ModelFacts {
        name: name.to_owned(),
        context_window: row.window,
        max_output: row.output,
        price: row.price,
        images: row.images,
    }
}

fn find(name: &str) -> Option<&'static Row> {
    let normal = normal_name(name);
    ROWS.iter().find(|row| match row.name.strip_suffix('*') {
        Some(prefix) => normal.starts_with(prefix),
        None => normal == row.name,
    })
}

/// Returns the name without what providers and quantisers hang on it: `qwen/qwen3-coder:free` is `qwen3-coder`.
pub fn normal_name(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.strip_suffix(".gguf").unwrap_or(name);
    // A tag of Ollama names the size (`qwen3-coder:30b`), one of OpenRouter a tier (`:free`).
    let name = match name.split_once(':') {
        Some((family, tag)) if tag.starts_with(|c: char| c.is_ascii_digit()) => format!("{family}-{tag}"),
        Some((family, _)) => family.to_owned(),
        None => name.to_owned(),
    };
    // `Qwen3_5` and `qwen2_5` are other spellings of the same dot.
    let name = match name.split_once('_') {
        Some((before, after))
            if before.ends_with(|c: char| c.is_ascii_digit()) && after.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            format!("{before}.{after}")
        }
        Some(_) | None => name,
    };
    let mut parts: Vec<&str> = name.split('-').collect();
    while let Some(last) = parts.last() {
        let date = last.len() >= 2 && last.chars().all(|c| c.is_ascii_digit()) && parts.len() > 2;
        let quant =
            last.starts_with('q') && last.as_bytes().get(1).is_some_and(u8::is_ascii_digit) && last.contains('_');
        if date || quant || matches!(*last, "preview" | "latest" | "fp8" | "fp16" | "bf16" | "awq" | "gptq" | "gguf") {
            parts.pop();
        } else {
            break;
        }
    }
    parts.join("-")
}

/// Sampling of a model's card, for servers that people run themselves; `None` leaves it to the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CardSampling {
    /// `temperature`.
    pub temperature: f64,
    /// `top_p`.
    pub top_p: f64,
    /// `top_k`.
    pub top_k: u32,
    /// `repetition_penalty`.
    pub repetition_penalty: Option<f64>,
}

/// Sampling by the beginning of a model's name and a word in it; the first row that fits holds. From the models' cards.
const CARDS: [(&str, &str, CardSampling); 6] = [
    ("qwen3-coder-next", "", CardSampling { temperature: 1.0, top_p: 0.95, top_k: 40, repetition_penalty: None }),
    ("qwen3-coder", "", CardSampling { temperature: 0.7, top_p: 0.8, top_k: 20, repetition_penalty: Some(1.05) }),
    ("qwen2.5-coder", "", CardSampling { temperature: 0.7, top_p: 0.8, top_k: 20, repetition_penalty: Some(1.05) }),
    ("qwen3-", "thinking", CardSampling { temperature: 0.6, top_p: 0.95, top_k: 20, repetition_penalty: None }),
    ("qwen3-", "instruct", CardSampling { temperature: 0.7, top_p: 0.8, top_k: 20, repetition_penalty: None }),
    // It thinks unless it is told not to.
    ("qwen3-", "", CardSampling { temperature: 0.6, top_p: 0.95, top_k: 20, repetition_penalty: None }),
];

/// Returns the sampling that the model's card asks for.
pub fn card_sampling(name: &str) -> Option<CardSampling> {
    let normal = normal_name(name);
    let fits = |row: &&(&str, &str, CardSampling)| normal.starts_with(row.0) && normal.contains(row.1);
    CARDS.iter().find(fits).map(|(_, _, sampling)| *sampling)
}

/// Tells whether a model writes its calls into the text whatever its server does. Such a model gets the tools in the
/// prompt from the first request: this is shorter, and in the form that the model follows.
pub fn calls_in_text(name: &str) -> bool {
    normal_name(name).starts_with("qwen2.5-coder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_providers_hang_on_them() {
        let table = [
            ("qwen3-coder-plus", "qwen3-coder-plus"),
            ("qwen/qwen3-coder:free", "qwen3-coder"),
            ("qwen3-coder:30b", "qwen3-coder-30b"),
            ("Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8", "qwen3-coder-30b-a3b-instruct"),
            ("qwen3-max-2026-01-23", "qwen3-max"),
            ("qwen3.8-max-preview", "qwen3.8-max"),
            ("qwen-plus-latest", "qwen-plus"),
            ("/models/Qwen2.5-Coder-1.5B-Q4_K_M.gguf", "qwen2.5-coder-1.5b"),
        ];
        for (name, expected) in table {
            assert_eq!(normal_name(name), expected, "{name}");
        }
    }

    #[test]
    fn a_family_is_sampled_as_its_card_says() {
        let temperature = |name| card_sampling(name).map(|card| (card.temperature, card.top_p, card.top_k));
        assert_eq!(temperature("Qwen/Qwen3-Coder-Next-FP8"), Some((1.0, 0.95, 40)));
        assert_eq!(temperature("qwen3-coder:30b"), Some((0.7, 0.8, 20)));
        assert_eq!(temperature("Qwen/Qwen3-Next-80B-A3B-Instruct"), Some((0.7, 0.8, 20)));
        assert_eq!(temperature("Qwen3-30B-A3B-Thinking-2507"), Some((0.6, 0.95, 20)));
        assert_eq!(temperature("qwen3:8b"), Some((0.6, 0.95, 20)));
        assert_eq!(temperature("llama-4"), None);
    }

    #[test]
    fn r49_an_unknown_model_has_limits_and_no_price() {
        let facts = facts_of("gemma-9");
        assert_eq!((facts.context_window, facts.max_output, facts.price), (200_000, 32_768, None));
    }

    #[test]
    fn the_particular_row_wins() {
        assert_eq!(facts_of("qwen3-coder-plus").context_window, 1_048_576);
        assert_eq!(facts_of("qwen/qwen3-coder-480b-a35b").context_window, 262_144);
        assert!(facts_of("qwen3.7-plus").images);
        assert!(!facts_of("qwen3.7-max").images);
        assert_eq!(facts_of("qwen3.9-anything").max_output, 65_536);
    }
}
