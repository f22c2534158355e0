//! Sorts errors of servers into classes, by a table.

use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, SystemTime};

use regex::Regex;
use serde_json::{Map, Value};

use super::providers::{InsufficientQuota, Quirks};
use super::retry_after::{parse_delay, retry_after};
use super::transport::header;
use super::{ErrorClass, Feature};
use crate::secret::mask_credentials;

/// An error of a server, understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Classified {
    /// The class.
    pub class: ErrorClass,
    /// The server's message, shortened and without credentials.
    pub message: String,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// The wait that the server asks for, whatever the class.
    pub retry_after: Option<Duration>,
}

/// Classifies an error.
///
/// `status` is the response's, or the one in a frame inside a stream; `body` may be JSON of any provider, an event
/// stream, HTML or nothing. `now` is for a date in `Retry-After` if the response has no `Date`.
pub fn classify(
    quirks: &Quirks,
    status: Option<u16>,
    headers: &[(String, String)],
    body: &str,
    now: Option<SystemTime>,
) -> Classified {
    let said = Said::read(body);
    // A status of 200 says nothing about an error that came inside the stream; the body's own code does.
    let status = status.filter(|status| *status >= 300).or(said.status);
    let retry_after = retry_after(headers, now).or(said.retry_after);
    let class = class_of(quirks, status, &said, retry_after);
    let request_id = ["x-request-id", "x-generation-id", "x-dashscope-request-id", "request-id"]
        .iter()
        .find_map(|name| header(headers, name).map(str::to_owned))
        .or_else(|| said.request_id.clone());
    Classified { class, message: said.shown(), request_id, retry_after }
}

/// The parts of a body, whatever its form.
#[derive(Debug, Default, Clone, PartialEq)]
struct Said {
    /// The message.
    message: String,
    /// Words of the provider behind a gateway.
    raw: String,
    /// `code`, `type`, `status`, in the order found.
    codes: Vec<String>,
    /// A code that is an HTTP status.
    status: Option<u16>,
    param: Option<String>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    limit: Option<u64>,
    actual: Option<u64>,
    /// Whether there was nothing at all.
    empty: bool,
    html: bool,
}

/// How deep JSON inside JSON strings is followed.
const MAX_NESTING: usize = 8;

/// Maximum length of a message that is examined: some servers echo the whole prompt after their message.
const MAX_LOOKED_AT: usize = 2_000;

impl Said {
    fn read(body: &str) -> Said {
        let mut said = Said::default();
        let trimmed = body.trim_start_matches('\u{feff}').trim();
        if trimmed.is_empty() {
            said.empty = true;
            return said;
        }
        if trimmed.starts_with('<') {
            said.html = true;
            said.message = html_title(trimmed);
            return said;
        }
        match serde_json::from_str::<Value>(trimmed) {
            Ok(value) => said.walk(&value, MAX_NESTING),
            Err(_) => {
                let framed = trimmed
                    .lines()
                    .filter_map(|line| line.strip_prefix("data:"))
                    .find_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
                match framed {
                    Some(value) => said.walk(&value, MAX_NESTING),
                    None => said.message = trimmed.to_owned(),
                }
            }
        }
        if said.message.is_empty() {
            said.message = if said.raw.is_empty() { said.codes.join(" ") } else { said.raw.clone() };
        }
        said
    }

    fn walk(&mut self, value: &Value, depth: usize) {
        if depth == 0 {
            return;
        }
        match value {
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(inner @ (Value::Object(_) | Value::Array(_))) => self.walk(&inner, depth - 1),
                Ok(_) | Err(_) => {
                    if self.message.is_empty() {
                        self.message = text.clone();
                    }
                }
            },
            Value::Array(items) => {
                if items.iter().any(|item| item.get("msg").is_some()) {
                    self.message = items.iter().map(validation_line).collect::<Vec<_>>().join("; ");
                } else if let Some(first) = items.first() {
                    self.walk(first, depth - 1);
                }
            }
            Value::Object(map) => self.walk_object(map, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn walk_object(&mut self, map: &Map<String, Value>, depth: usize) {
        for key in ["request_id", "requestId"] {
            if let Some(Value::String(id)) = map.get(key) {
                self.request_id.get_or_insert_with(|| id.clone());
            }
        }
        for key in ["code", "type", "status"] {
            match map.get(key) {
                // `{"type":"error"}` only says that what follows is one.
                Some(Value::String(code)) if code != "error" => {
                    self.status = self.status.or(code.parse().ok().filter(|n| (400..600).contains(n)));
                    self.codes.push(code.clone());
                }
                Some(Value::Number(number)) => {
                    let status = number.as_u64().and_then(|n| u16::try_from(n).ok());
                    self.status = self.status.or(status.filter(|n| (400..600).contains(n)));
                }
                Some(_) | None => {}
            }
        }
        if let Some(Value::String(param)) = map.get("param") {
            self.param.get_or_insert_with(|| param.clone());
        }
        self.limit = self.limit.or(map.get("n_ctx").and_then(Value::as_u64));
        self.actual = self.actual.or(map.get("n_prompt_tokens").and_then(Value::as_u64));
        if let Some(Value::Array(details)) = map.get("details") {
            let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str());
            self.retry_after = self.retry_after.or(delay.and_then(parse_delay));
        }
        if let Some(metadata) = map.get("metadata") {
            self.read_metadata(metadata, depth);
        }
        for key in ["error", "errors", "detail", "message", "msg"] {
            if let Some(inner) = map.get(key) {
                self.walk(inner, depth - 1);
            }
        }
    }

    /// OpenRouter puts the message of the provider behind it into `metadata.raw`.
    fn read_metadata(&mut self, metadata: &Value, depth: usize) {
        let Some(raw) = metadata.get("raw") else { return };
        let mut inner = Said::default();
        inner.walk(raw, depth - 1);
        self.codes.extend(inner.codes);
        self.retry_after = self.retry_after.or(inner.retry_after);
        self.limit = self.limit.or(inner.limit);
        self.actual = self.actual.or(inner.actual);
        self.raw = inner.message;
        if let Some(source) = metadata.get("limit_source").and_then(Value::as_str) {
            self.codes.push(source.to_owned());
        }
    }

    /// What patterns are matched against.
    fn text(&self) -> String {
        let head = |text: &str| text.chars().take(MAX_LOOKED_AT).collect::<String>();
        if self.raw.is_empty() || self.raw == self.message {
            head(&self.message)
        } else {
            format!("{}\n{}", head(&self.message), head(&self.raw))
        }
    }

    /// What a person gets to see.
    fn shown(&self) -> String {
        let words = if self.raw.is_empty() || self.message.contains(&self.raw) {
            self.message.clone()
        } else {
            format!("{} ({})", self.message, self.raw)
        };
        let one_line: String =
            words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned();
        let masked = mask_credentials(&one_line);
        match masked.char_indices().nth(400) {
            Some((end, _)) => format!("{}…", &masked[..end]),
            None => masked,
        }
    }
}

/// One complaint of FastAPI's validation: where and what.
fn validation_line(item: &Value) -> String {
    let place: Vec<String> = item
        .get("loc")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
        .collect();
    let words = item.get("msg").and_then(Value::as_str).unwrap_or_default();
    if place.is_empty() { words.to_owned() } else { format!("{}: {words}", place.join(".")) }
}

fn html_title(html: &str) -> String {
    static TITLE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?is)<title[^>]*>\s*(.*?)\s*</title>"));
    match TITLE.captures(html) {
        Some(found) if !found[1].is_empty() => format!("an HTML page: {}", &found[1]),
        Some(_) | None => "an HTML page".to_owned(),
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant and a test compiles it")
}

/// What a rule's class is before the details of this error are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Auth,
    Permission,
    Billing,
    ModelNotFound,
    ContextOverflow,
    OutputTooLong,
    ContentFilter,
    RateLimit,
    Overloaded,
    Server,
    /// As [`Quirks::insufficient_quota`] says.
    Quota,
    Unsupported(Feature),
}

/// Where a rule looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    /// One of the codes, whole.
    Code,
    /// The message.
    Text,
}

/// One row of the table. The first that matches wins.
struct Rule {
    /// With these statuses only; empty is any. 0 stands for an error that has none.
    statuses: &'static [u16],
    on: On,
    pattern: &'static str,
    kind: Kind,
}

const ANY: &[u16] = &[];
/// The statuses with which servers refuse a request for what is in it.
const REFUSED: &[u16] = &[0, 400, 404, 422, 500, 501];

const fn code(pattern: &'static str, kind: Kind) -> Rule {
    Rule { statuses: ANY, on: On::Code, pattern, kind }
}

const fn text(statuses: &'static [u16], pattern: &'static str, kind: Kind) -> Rule {
    Rule { statuses, on: On::Text, pattern, kind }
}

const fn lacks(feature: Feature, pattern: &'static str) -> Rule {
    text(REFUSED, pattern, Kind::Unsupported(feature))
}

/// How servers say that they do not know a field.
const REFUSAL: &str = r"(unsupported|not supported|n't support|not support|unrecognized|unknown|unexpected|not permitted|not allowed|extra inputs?|invalid|restricted|only support|must be|should be|cannot be)";

const RULES: &[Rule] = &[
    code(r"data_?inspection_?failed|content_filter|content_policy_violation|responsible_?ai.*", Kind::ContentFilter),
    text(
        &[0, 400, 403],
        r"inappropriate content|flagged by moderation|requires moderation|content management policy",
        Kind::ContentFilter,
    ),
    code(
        r"arrearage|insufficient_balance|credit_balance_exhausted|billing_hard_limit_reached|billing_not_active|.*_spend_limit_exceeded|organization_usage_limit_exceeded",
        Kind::Billing,
    ),
    text(
        ANY,
        r"free (allocated )?quota (has been )?(exceeded|exhausted)|allocated free quota|free tier of the model has been exhausted|account is in arrears|overdue",
        Kind::Billing,
    ),
    text(&[429], r"today'?s quota|daily (quota|limit|request)|per[-_ ]?day|requests? (for )?today", Kind::Billing),
    code(r"openrouter_in_flight_budget", Kind::RateLimit),
    text(
        &[0, 400, 429],
        r"allocated quota exceeded|exceeded your current requests? list|request rate increased too quickly",
        Kind::RateLimit,
    ),
    code(r"insufficient_quota", Kind::Quota),
    text(
        REFUSED,
        r"max_(completion_|new_)?tokens.{0,60}(too large|exceeds|at most|less than or equal)|range of max_(completion_)?tokens should be",
        Kind::OutputTooLong,
    ),
    code(r"context_length_exceeded|exceed_context_size_error", Kind::ContextOverflow),
    lacks(Feature::StreamOptions, r"stream_options.*REFUSAL|REFUSAL.*stream_options"),
    lacks(Feature::ParallelToolCalls, r"parallel_tool_calls.*REFUSAL|REFUSAL.*parallel_tool_calls"),
    lacks(
        Feature::Stream,
        r"automatic streaming tool choice|stream(ing)?( mode)?( is|=true is)? (not supported|unsupported)|does not support stream",
    ),
    lacks(
        Feature::Tools,
        r"enable-auto-tool-choice|(does not|doesn't) support (tools|tool (use|calls?|calling)|function calling)|support tool use|(`|'|\x22)?tools(`|'|\x22)?( parameter| param)? (is|are) (not supported|unsupported)|tools? .{0,40}requires? .{0,10}--jinja|(unrecognized|unknown|unsupported|unexpected).{0,40}\btools\b",
    ),
    lacks(Feature::ToolChoice, r"tool_choice.*REFUSAL|REFUSAL.*tool_choice|tool_choice.*thinking"),
    lacks(
        Feature::MaxTokens,
        r"max_tokens.*(unsupported|not supported|max_completion_tokens)|(unsupported|unrecognized|unknown|unexpected|extra).{0,60}max_(completion_)?tokens",
    ),
    lacks(
        Feature::Thinking,
        r"(enable_thinking|preserve_thinking|thinking_budget|chat_template_kwargs|reasoning_effort|reasoning_content|reasoning_details).*REFUSAL|REFUSAL.*(enable_thinking|preserve_thinking|thinking_budget|chat_template_kwargs|reasoning_effort|reasoning_content|reasoning_details)",
    ),
    lacks(Feature::CacheControl, r"cache_control.*REFUSAL|REFUSAL.*cache_control"),
    lacks(
        Feature::ResponseFormat,
        r"response_format.*REFUSAL|REFUSAL.*response_format|json schema conversion failed|(parse|compile|convert).{0,20}grammar|grammar error",
    ),
    lacks(
        Feature::Media,
        r"(image|image_url|media|vision|multimodal|modality).{0,80}REFUSAL|REFUSAL.{0,80}(image|image_url|media|vision|multimodal|modality)|invalid 'messages' in payload|image input is not supported|mmproj",
    ),
    lacks(
        Feature::Sampling,
        r"(\btop_k|repetition_penalty|repeat_penalty|\bmin_p\b|\bseed\b|\btemperature\b|\btop_p\b).*REFUSAL|REFUSAL.*(\btop_k|repetition_penalty|repeat_penalty|\bmin_p\b|\bseed\b|\btemperature\b|\btop_p\b)",
    ),
    code(r"model_?not_?found|model_not_supported", Kind::ModelNotFound),
    text(
        &[0, 400, 404, 422],
        r"model .{0,120}(not found|does not exist|not exist|is not supported)|is not a valid model|invalid model name|no models? loaded|try pulling it first|no such model",
        Kind::ModelNotFound,
    ),
    code(r"invalid_?api_?key|authentication_error|unauthorized", Kind::Auth),
    text(
        &[0, 400, 401, 403],
        r"invalid access token or token expired|(incorrect|invalid) api[- ]key|no auth credentials",
        Kind::Auth,
    ),
    code(r"(model\.)?access_?denied|permission_error|permission_denied", Kind::Permission),
    code(
        r"throttling(\..*)?|rate_?limit.*|limit_requests|limit_burst_rate|resource_exhausted|too_?many_?requests",
        Kind::RateLimit,
    ),
    text(&[0, 429], r"rate limit|too many requests|throttl|requests? per (minute|second)", Kind::RateLimit),
    code(
        r"overloaded(_error)?|model_?unavailable|model_?serving_?error|unavailable(_error)?|insufficient_system_resource|engine_overloaded",
        Kind::Overloaded,
    ),
    text(
        &[0, 500, 502, 503, 529],
        r"overloaded|queue( is)? full|server is busy|at capacity|loading model|no available (channel|capacity)",
        Kind::Overloaded,
    ),
    code(r"internal_?(server_?)?error(\.timeout|\.algo)?|server_error|api_error", Kind::Server),
    text(&[0], r"enginecore|internal (server )?error", Kind::Server),
];

/// How servers say that the conversation is longer than the context window.
const OVERFLOW: &str = r"(?is)context[_ -]?length[_ -]?exceeded|maximum context length|prompt (is )?too long|input (token )?(count |length )?(is )?too long|range of input length should be|too many tokens|tokens? > \d+ (maximum|max|limit)|exceeds? the context window|input token count.*exceeds the maximum|maximum prompt length is \d+|reduce the length of the messages|exceeds the limit of \d+|exceeds? the available context size|greater than the context length|context window exceeds limit|exceeded model token limit|context length is only \d+ tokens|input length.*exceeds.*context length|is longer than the model's context length|inputs` tokens \+ `?max_new_tokens`? must be|current length is \d+ while limit is \d+|maximum input length is|request entity too large|exceeds the model's maximum context|requested tokens \(\d+\) exceed context window of \d+|reached context length of \d+";

/// Messages that contain such words and mean something else.
const NOT_OVERFLOW: &str = r"(?i)context deadline exceeded|string_above_max_length|invalid 'user'|timed? ?out";

/// The rules' patterns, each compiled on first use: most errors match one of the first.
static COMPILED: LazyLock<Vec<OnceLock<Regex>>> = LazyLock::new(|| RULES.iter().map(|_| OnceLock::new()).collect());

fn compiled(index: usize) -> &'static Regex {
    COMPILED[index].get_or_init(|| {
        let rule = &RULES[index];
        let text = rule.pattern.replace("REFUSAL", REFUSAL);
        match rule.on {
            On::Code => pattern(&format!("(?i)^(?:{text})$")),
            On::Text => pattern(&format!("(?is)(?:{text})")),
        }
    })
}

fn class_of(quirks: &Quirks, status: Option<u16>, said: &Said, retry_after: Option<Duration>) -> ErrorClass {
    static OVERFLOW_RE: LazyLock<Regex> = LazyLock::new(|| pattern(OVERFLOW));
    static NOT_OVERFLOW_RE: LazyLock<Regex> = LazyLock::new(|| pattern(NOT_OVERFLOW));
    static UNPARSED: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?s)^\s*Failed to parse input at pos(?:ition)? \d+:\s?(.*)$"));

    if let Some(found) = UNPARSED.captures(&said.message) {
        return ErrorClass::RawGeneration(found[1].to_owned());
    }
    let words = said.text();
    let number = status.unwrap_or(0);
    // Credit and rate limits are recognised by code and status first: a body that echoes the prompt must not decide.
    let may_overflow = !matches!(number, 401..=404 | 429) && !NOT_OVERFLOW_RE.is_match(&words);
    let bare = said.empty && matches!(number, 400 | 413);
    for (index, rule) in RULES.iter().enumerate() {
        if !rule.statuses.is_empty() && !rule.statuses.contains(&number) {
            continue;
        }
        let matches = match rule.on {
            On::Code => said.codes.iter().any(|code| compiled(index).is_match(code)),
            On::Text => !words.is_empty() && compiled(index).is_match(&words),
        };
        if matches {
            let kind = match rule.kind {
                // What asks for a shorter conversation may use a word of a later row.
                Kind::Unsupported(_)
                | Kind::ModelNotFound
                | Kind::Auth
                | Kind::Permission
                | Kind::RateLimit
                | Kind::Overloaded
                | Kind::Server
                    if may_overflow && OVERFLOW_RE.is_match(&words) =>
                {
                    Kind::ContextOverflow
                }
                other => other,
            };
            return fill(kind, quirks, said, &words, retry_after);
        }
    }
    if bare || (may_overflow && OVERFLOW_RE.is_match(&words)) {
        return fill(Kind::ContextOverflow, quirks, said, &words, retry_after);
    }
    by_status(number, said, retry_after)
}

fn fill(kind: Kind, quirks: &Quirks, said: &Said, words: &str, retry_after: Option<Duration>) -> ErrorClass {
    match kind {
        Kind::Auth => ErrorClass::Auth,
        Kind::Permission => ErrorClass::Permission,
        Kind::Billing => ErrorClass::Billing,
        Kind::ModelNotFound => ErrorClass::ModelNotFound,
        Kind::ContentFilter => ErrorClass::ContentFilter,
        Kind::RateLimit => ErrorClass::RateLimit { retry_after },
        Kind::Overloaded => ErrorClass::Overloaded { retry_after },
        Kind::Server => ErrorClass::Server,
        Kind::Unsupported(feature) => ErrorClass::Unsupported(feature),
        Kind::Quota => match quirks.insufficient_quota {
            InsufficientQuota::Billing => ErrorClass::Billing,
            InsufficientQuota::RateLimit => ErrorClass::RateLimit { retry_after },
        },
        Kind::OutputTooLong => ErrorClass::OutputTooLong { limit: output_limit(words) },
        Kind::ContextOverflow => {
            let numbers = Numbers::read(words);
            // The conversation fits, but not together with the maximum of output tokens: a lower maximum helps.
            if let (Some(window), Some(prompt)) = (numbers.limit, numbers.prompt)
                && prompt + MIN_ANSWER < window
            {
                return ErrorClass::OutputTooLong { limit: Some(window - prompt) };
            }
            ErrorClass::ContextOverflow {
                limit: said.limit.or(numbers.limit),
                actual: said.actual.or(numbers.prompt).or(numbers.actual),
            }
        }
    }
}

/// The least room for an answer that makes sending the same conversation again worthwhile.
const MIN_ANSWER: u64 = 512;

/// The numbers that a message about the window names.
#[derive(Debug, Default, PartialEq)]
struct Numbers {
    limit: Option<u64>,
    actual: Option<u64>,
    /// Of `actual`, the conversation alone.
    prompt: Option<u64>,
}

impl Numbers {
    fn read(words: &str) -> Numbers {
        static LIMITS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
            [
                r"(?i)maximum context length (?:is|of) (\d[\d,]*)",
                r"(?i)tokens? > (\d[\d,]*)",
                r"(?i)range of input length should be \[\d+, ?(\d+)\]",
                r"(?i)maximum (?:prompt|input) length is (\d[\d,]*)",
                r"(?i)context length is only (\d[\d,]*)",
                r"(?i)while limit is (\d[\d,]*)",
                r"(?i)exceeds the limit of (\d[\d,]*)",
                r"(?i)reached context length of (\d[\d,]*)",
                r"(?i)exceed context window of (\d[\d,]*)",
                r"(?i)context length \(?(\d[\d,]*)",
                r"(?i)available context size \((\d[\d,]*)",
                r"(?i)maximum number of tokens allowed \((\d[\d,]*)\)",
            ]
            .iter()
            .map(|text| pattern(text))
            .collect()
        });
        static ACTUALS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
            [
                r"(?i)(\d[\d,]*) tokens? > \d",
                r"(?i)(?:requested|resulted in)(?: a total of)? (\d[\d,]*) tokens",
                r"(?i)request \((\d[\d,]*) tokens",
                r"(?i)requested tokens \((\d[\d,]*)\)",
                r"(?i)current length is (\d[\d,]*)",
                r"(?i)input token count \(?(\d[\d,]*)",
            ]
            .iter()
            .map(|text| pattern(text))
            .collect()
        });
        static PROMPTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
            [
                r"(?i)\((\d[\d,]*) in the messages",
                r"(?i)(\d[\d,]*) tokens from the input messages",
                r"(?i)request has (\d[\d,]*) input tokens",
            ]
            .iter()
            .map(|text| pattern(text))
            .collect()
        });
        let first = |list: &[Regex]| {
            list.iter().find_map(|regex| regex.captures(words)?[1].replace(',', "").parse::<u64>().ok())
        };
        Numbers { limit: first(&LIMITS), actual: first(&ACTUALS), prompt: first(&PROMPTS) }
    }
}

/// Reads the maximum output tokens from a message.
fn output_limit(words: &str) -> Option<u64> {
    static LIMITS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        [
            r"(?i)range of max_(?:completion_)?tokens should be \[\d+, ?(\d+)\]",
            r"(?i)(?:at most|less than or equal to|maximum (?:value|of)(?: is)?|exceeds(?: the)?(?: model'?s?)?(?: maximum)?(?: limit)?(?: of)?) (\d[\d,]*)",
        ]
        .iter()
        .map(|text| pattern(text))
        .collect()
    });
    let numbers = Numbers::read(words);
    if let (Some(window), Some(prompt)) = (numbers.limit, numbers.prompt) {
        return Some(window.saturating_sub(prompt));
    }
    LIMITS.iter().find_map(|regex| regex.captures(words)?[1].replace(',', "").parse().ok())
}

fn by_status(status: u16, said: &Said, retry_after: Option<Duration>) -> ErrorClass {
    match status {
        401 | 407 => ErrorClass::Auth,
        402 if retry_after.is_some() => ErrorClass::RateLimit { retry_after },
        402 => ErrorClass::Billing,
        403 => ErrorClass::Permission,
        404 => ErrorClass::ModelNotFound,
        408 | 409 | 425 | 499 => ErrorClass::Server,
        413 => ErrorClass::PayloadTooLarge,
        429 => ErrorClass::RateLimit { retry_after },
        501 => ErrorClass::BadRequest { param: said.param.clone() },
        503 | 520..=524 | 529 => ErrorClass::Overloaded { retry_after },
        500..=599 => ErrorClass::Server,
        300..=499 => ErrorClass::BadRequest { param: said.param.clone() },
        // Inside a stream without any code: a server that fails while it answers.
        _ => ErrorClass::Server,
    }
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
