//! Reads one chunk of a stream from any JSON.
//!
//! Servers differ in every field, so none is required: a field of an unexpected type counts as absent.

use serde_json::{Map, Value};

use super::Usage;

/// No model reads or writes as many tokens at once.
const MOST_TOKENS: u64 = 1 << 40;

/// What a chunk says, as far as it says it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chunk {
    /// The server's id of the answer.
    pub id: Option<String>,
    /// The model that answers.
    pub model: Option<String>,
    /// The next piece of visible text.
    pub content: Option<String>,
    /// The next piece of reasoning.
    pub reasoning: Option<String>,
    /// OpenRouter's opaque pieces of reasoning.
    pub reasoning_details: Vec<Value>,
    /// Whether it is a `message`, which may repeat what came before, and no `delta`.
    pub is_message: bool,
    /// Fragments of calls.
    pub calls: Vec<CallPiece>,
    /// A piece of a call in the older field `function_call`.
    pub function_call: Option<CallPiece>,
    /// Why the server says it ended.
    pub finish: Option<Finish>,
    /// Tokens.
    pub usage: Option<Usage>,
    /// An error instead of an answer.
    pub error: Option<ErrorFrame>,
}

/// What a server says about the end, in classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// `stop`, `eos`, `end_turn`.
    Stop,
    /// `tool_calls`, `tool`, `function_call`.
    Calls,
    /// `length`, `max_tokens`.
    Length,
    /// `content_filter`.
    ContentFilter,
    /// `insufficient_system_resource`.
    Overloaded,
    /// `error`, `error_finish`.
    Error,
    /// Something else; the state decides.
    Other(String),
}

/// An error that came inside a stream, for the classifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFrame {
    /// The status, where the frame itself names one.
    pub status: Option<u16>,
    /// The frame's text: JSON, or the words that came with `error_finish`.
    pub body: String,
}

/// A piece of a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallPiece {
    /// Which of the calls, if it says so.
    pub index: Option<u64>,
    /// Its id, not empty.
    pub id: Option<String>,
    /// Its name or a piece of it, not empty.
    pub name: Option<String>,
    /// The next piece of the arguments.
    pub arguments: String,
}

impl CallPiece {
    pub(super) fn starts_object(&self) -> bool {
        self.arguments.trim_start().starts_with('{')
    }

    pub(super) fn is_blank(&self) -> bool {
        self.arguments.trim_start().is_empty()
    }
}

/// Reads a chunk of any shape.
pub fn read(value: Value) -> Chunk {
    let mut chunk = Chunk::default();
    let mut top = match value {
        Value::Object(top) => top,
        // Gemini sends its errors in an array.
        Value::Array(items) => {
            if let Some(error) = items.first().and_then(Value::as_object).filter(|first| first.contains_key("error")) {
                chunk.error = error_in(error);
            }
            return chunk;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return chunk,
    };
    chunk.error = error_in(&top);
    chunk.id = text_in(&top, "id").or_else(|| text_in(&top, "request_id"));
    chunk.model = text_in(&top, "model");
    chunk.usage = usage_in(&top)
        .or_else(|| top.get("x_groq").and_then(Value::as_object).and_then(usage_in))
        .or_else(|| own_counts(&top));
    // DashScope's own protocol wraps the choices once more.
    if !top.contains_key("choices")
        && let Some(Value::Object(output)) = top.get_mut("output")
    {
        let output = std::mem::take(output);
        read_choice(&output, &mut chunk, true);
        return chunk;
    }
    if top.get("choices").is_some_and(|choices| !choices.is_null()) {
        read_choice(&top, &mut chunk, false);
    } else if let Some(Value::Object(message)) = top.get("message") {
        // Ollama's own protocol.
        read_message(message, &mut chunk);
        if top.get("done") == Some(&Value::Bool(true)) {
            chunk.finish = Some(text_in(&top, "done_reason").map_or(Finish::Stop, |label| finish(&label)));
        }
    }
    chunk
}

fn read_choice(top: &Map<String, Value>, chunk: &mut Chunk, incremental: bool) {
    let choices = match top.get("choices") {
        Some(Value::Array(choices)) => choices.as_slice(),
        Some(one @ Value::Object(_)) => std::slice::from_ref(one),
        Some(_) | None => return,
    };
    let first = choices.iter().enumerate().find_map(|(place, choice)| {
        let choice = choice.as_object()?;
        let index = choice.get("index").and_then(whole).unwrap_or(place as u64);
        (index == 0).then_some(choice)
    });
    let Some(choice) = first else { return };
    if chunk.error.is_none() && choice.get("error").is_some_and(is_something) {
        chunk.error = error_in(choice);
    }
    // Kimi counts inside the choice.
    chunk.usage = chunk.usage.or_else(|| usage_in(choice));
    if let Some(Value::Object(delta)) = choice.get("delta") {
        read_message(delta, chunk);
    } else if let Some(Value::Object(message)) = choice.get("message") {
        read_message(message, chunk);
        chunk.is_message = !incremental;
    } else if let Some(text) = choice.get("text").and_then(Value::as_str) {
        chunk.content = Some(text.to_owned());
    }
    chunk.finish = ["finish_reason", "stop_reason", "finishReason"]
        .iter()
        .find_map(|key| choice.get(*key).and_then(Value::as_str))
        .filter(|label| !label.is_empty() && *label != "null")
        .map(finish);
}

fn read_message(message: &Map<String, Value>, chunk: &mut Chunk) {
    let mut thought = String::new();
    let content = message.get("content").map(|content| text_of(content, &mut thought));
    if message.get("thought") == Some(&Value::Bool(true))
        || message.get("extra_content").and_then(|extra| extra.pointer("/google/thought")) == Some(&Value::Bool(true))
    {
        thought.push_str(&content.unwrap_or_default());
    } else {
        chunk.content = content.filter(|text| !text.is_empty()).or_else(|| {
            message.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        });
    }
    if let Some(Value::Array(details)) = message.get("reasoning_details") {
        chunk.reasoning_details = details.clone();
    }
    // Gateways send the same reasoning in several fields; the first that says something is taken.
    let field = ["reasoning_content", "reasoning", "thinking"].iter().find_map(|key| {
        let mut inner = String::new();
        let mut text = text_of(message.get(*key)?, &mut inner);
        text.push_str(&inner);
        (!text.is_empty()).then_some(text)
    });
    let details = || {
        let texts = chunk
            .reasoning_details
            .iter()
            .filter_map(|detail| ["text", "summary"].iter().find_map(|key| detail.get(*key).and_then(Value::as_str)));
        texts.collect::<String>()
    };
    let reasoning = field.unwrap_or_else(details) + &thought;
    chunk.reasoning = Some(reasoning).filter(|text| !text.is_empty());
    match message.get("tool_calls") {
        Some(Value::Array(calls)) => chunk.calls = calls.iter().filter_map(call).collect(),
        Some(one @ Value::Object(_)) => chunk.calls = call(one).into_iter().collect(),
        Some(_) | None => {}
    }
    chunk.function_call = message.get("function_call").and_then(call);
}

/// Returns the text of a string, of parts, or of an object around it; thinking parts go to `thought`.
fn text_of(value: &Value, thought: &mut String) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text_of(part, thought)).collect(),
        Value::Object(part) => {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
            let text = ["text", "content", "thinking", "reasoning", "summary"]
                .iter()
                .find_map(|key| part.get(*key).filter(|value| is_something(value)));
            let Some(text) = text else { return String::new() };
            let text = text_of(text, thought);
            if matches!(kind, "thinking" | "reasoning") || part.get("thought") == Some(&Value::Bool(true)) {
                thought.push_str(&text);
                return String::new();
            }
            text
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

fn call(value: &Value) -> Option<CallPiece> {
    let call = value.as_object()?;
    let function = call.get("function").and_then(Value::as_object).unwrap_or(call);
    let arguments = ["arguments", "parameters", "input"].iter().find_map(|key| function.get(*key));
    Some(CallPiece {
        index: call.get("index").and_then(whole),
        id: text_in(call, "id"),
        name: text_in(function, "name"),
        arguments: match arguments {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other @ (Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_))) => other.to_string(),
        },
    })
}

fn text_in(object: &Map<String, Value>, key: &str) -> Option<String> {
    match object.get(key)? {
        Value::String(text) => Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads a number that is not negative, also from a string or a float.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            number
                .as_f64()
                .filter(|float| *float >= 0.0 && float.fract() == 0.0 && *float < 1e15)
                .map(|float| float as u64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::String(text) => !text.trim().is_empty(),
        Value::Object(object) => !object.is_empty(),
        Value::Array(array) => !array.is_empty(),
        Value::Number(_) => true,
    }
}

/// Finds an error in the forms that servers send inside a stream.
fn error_in(top: &Map<String, Value>) -> Option<ErrorFrame> {
    let is = |key: &str, text: &str| top.get(key).and_then(Value::as_str) == Some(text);
    let has_answer = top.get("choices").and_then(Value::as_array).is_some_and(|choices| !choices.is_empty())
        || top.get("output").is_some_and(is_something)
        || top.get("message").is_some_and(Value::is_object);
    let found = top.get("error").is_some_and(|error| is_something(error) && !error.is_number())
        || is("object", "error")
        || is("type", "error")
        || (!has_answer
            && (top.get("code").is_some_and(|code| is_something(code) && code.as_u64() != Some(200))
                && top.get("message").is_some_and(Value::is_string)
                || top.get("errors").is_some_and(is_something)
                || top.get("detail").is_some_and(is_something)));
    if !found {
        return None;
    }
    let status = |value: Option<&Value>| value.and_then(whole).filter(|code| (400..600).contains(code));
    let error = top.get("error");
    let status = status(error.and_then(|error| error.get("code")))
        .or_else(|| status(error.and_then(|error| error.get("status"))))
        .or_else(|| status(top.get("code")))
        .or_else(|| status(top.get("status_code")));
    Some(ErrorFrame { status: status.map(|code| code as u16), body: Value::Object(top.clone()).to_string() })
}

/// Reads an error event, whose data may be anything.
pub fn error_event(data: &str) -> ErrorFrame {
    let status = match serde_json::from_str::<Value>(data) {
        Ok(Value::Object(top)) => error_in(&top).and_then(|error| error.status),
        Ok(_) | Err(_) => None,
    };
    ErrorFrame { status, body: data.to_owned() }
}

fn finish(label: &str) -> Finish {
    match label.to_ascii_lowercase().as_str() {
        "stop" | "eos" | "end_turn" | "stop_sequence" | "done" => Finish::Stop,
        "tool_calls" | "tool_call" | "tool" | "tool_use" | "function_call" => Finish::Calls,
        "length" | "max_tokens" | "max_output_tokens" | "model_length" => Finish::Length,
        "content_filter" | "safety" => Finish::ContentFilter,
        "insufficient_system_resource" => Finish::Overloaded,
        "error" | "error_finish" => Finish::Error,
        _ => Finish::Other(label.chars().take(64).collect()),
    }
}

fn usage_in(object: &Map<String, Value>) -> Option<Usage> {
    object.get("usage").and_then(Value::as_object).and_then(usage)
}

/// Reads a number of tokens; a server that states a number beyond reason states none.
fn tokens(value: &Value) -> Option<u64> {
    whole(value).filter(|count| *count <= MOST_TOKENS)
}

/// Reads the counts of Ollama's own protocol.
fn own_counts(top: &Map<String, Value>) -> Option<Usage> {
    let count = |key: &str| top.get(key).and_then(tokens);
    let read =
        Usage { input_tokens: count("prompt_eval_count"), output_tokens: count("eval_count"), ..Usage::default() };
    (read != Usage::default()).then_some(read)
}

fn usage(usage: &Map<String, Value>) -> Option<Usage> {
    let first = |keys: &[&str]| keys.iter().find_map(|key| usage.get(*key).and_then(tokens));
    let inside = |outer: &[&str], keys: &[&str]| {
        outer
            .iter()
            .filter_map(|key| usage.get(*key))
            .find_map(|object| keys.iter().find_map(|key| object.get(*key).and_then(tokens)))
    };
    const PROMPT: &[&str] = &["prompt_tokens_details", "input_tokens_details"];
    const ANSWER: &[&str] = &["completion_tokens_details", "output_tokens_details"];
    const CREATED: &[&str] = &["cache_creation_input_tokens", "cache_write_tokens"];
    let read = Usage {
        input_tokens: first(&["prompt_tokens", "input_tokens"]),
        cache_read_input_tokens: inside(PROMPT, &["cached_tokens"])
            .or_else(|| first(&["cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"])),
        cache_creation_input_tokens: inside(PROMPT, CREATED).or_else(|| first(CREATED)),
        output_tokens: first(&["completion_tokens", "output_tokens"]),
        reasoning_tokens: inside(ANSWER, &["reasoning_tokens"]).or_else(|| first(&["reasoning_tokens"])),
    };
    (read != Usage::default()).then_some(read)
}

/// Takes the later value of each field; never a sum.
pub fn later_usage(old: Usage, new: Usage) -> Usage {
    Usage {
        input_tokens: new.input_tokens.or(old.input_tokens),
        cache_read_input_tokens: new.cache_read_input_tokens.or(old.cache_read_input_tokens),
        cache_creation_input_tokens: new.cache_creation_input_tokens.or(old.cache_creation_input_tokens),
        output_tokens: new.output_tokens.or(old.output_tokens),
        reasoning_tokens: new.reasoning_tokens.or(old.reasoning_tokens),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_tokens_beyond_reason_is_none_and_sums_of_the_others_do_not_overflow() {
        let counts = serde_json::json!({"usage": {"prompt_tokens": u64::MAX, "completion_tokens": 1_u64 << 63,
            "total_tokens": 1e300, "prompt_tokens_details": {"cached_tokens": u64::MAX}}, "choices": []});
        assert_eq!(usage_in(counts.as_object().unwrap()), None);
        let own = serde_json::json!({"prompt_eval_count": u64::MAX, "eval_count": 7});
        assert_eq!(own_counts(own.as_object().unwrap()), Some(Usage { output_tokens: Some(7), ..Usage::default() }));
    }
}
