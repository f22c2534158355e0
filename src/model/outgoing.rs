//! Prepares a request for sending: features that the server accepts, and the room that is left for the answer.

use serde_json::{Value, json};

use super::client::{Client, State};
use super::providers::{Cache, ForcedTool, PreserveThinking, ReasoningOut};
use super::request::{self, Options, Shape};
use super::transport::{Method, WireRequest};
use super::{AssistantMessage, Feature, Message, Model as _, ModelFacts, Part, Request, catalogue, prompted};

/// What a model is told when its answer was cut off.
pub(super) const RESUME: &str = "Your answer was cut off. Go on exactly where it stopped: repeat nothing, explain nothing, and do what is left in smaller steps.";

impl Client {
    /// Writes the body of a request as things are now.
    pub(super) fn body(&self, request: &Request, continued: Option<&str>) -> request::Body {
        let model = self.model_name().to_owned();
        let facts = self.facts();
        let state = self.state();
        // Other families' templates drop content that is a list.
        let marks = self.config.generation.cache_marks
            && self.quirks.body.cache == Cache::Marks
            && catalogue::normal_name(&model).starts_with("qwen")
            && state.has(Feature::CacheControl);
        let shape = Shape {
            prompted: state.prompted,
            parts: marks,
            images: facts.images && state.has(Feature::Media),
            reasoning: if state.has(Feature::Thinking) { self.quirks.reasoning.out } else { ReasoningOut::Never },
            null_content: self.quirks.body.null_content,
            tool_media: self.quirks.body.tool_media,
            question: request.question.clone(),
        };
        let extra_messages = continued.map(|text| {
            [
                Message::Assistant(AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() }),
                Message::User(vec![Part::Text(RESUME.to_owned())]),
            ]
        });
        let messages: Vec<&Message> = request.messages.iter().chain(extra_messages.iter().flatten()).collect();
        let mut options = self.options(request, &state, &model, marks);
        // A continuation is said once and belongs to no later body.
        let (mut kept, mut once) = (self.stem(), request::Stem::default());
        let stem = if extra_messages.is_some() { &mut once } else { &mut *kept };
        let mut begun = request::begin(stem, &request.lineage, &model, &request.tools, &messages, shape, &options);
        drop(kept);
        let Some(asked) =
            request.max_output_tokens.or(self.config.generation.max_output_tokens).or(state.learned_output)
        else {
            return begun.finish(&options);
        };
        let prompt = (begun.estimate(&options) as f64 * state.calibration) as u64;
        let limit = output_limit(asked, &facts, prompt);
        let field = match (state.has(Feature::MaxTokens), self.quirks.body.max_tokens_field) {
            (true, field) => field,
            (false, "max_tokens") => "max_completion_tokens",
            (false, _) => "max_tokens",
        };
        options.max_tokens = limit.map(|limit| (field, limit));
        begun.finish(&options)
    }

    /// Says what goes into the body next to the conversation, as far as the server takes it.
    fn options(&self, request: &Request, state: &State, model: &str, marks: bool) -> Options {
        let (body, reasoning) = (&self.quirks.body, &self.quirks.reasoning);
        let generation = &self.config.generation;
        Options {
            stream: state.has(Feature::Stream),
            stream_options: body.stream_options && state.has(Feature::StreamOptions),
            max_tokens: None,
            sampling: if state.has(Feature::Sampling) { self.sampling(model) } else { Vec::new() },
            force_tool: request
                .force_tool
                .clone()
                .filter(|_| body.forced_tool == ForcedTool::Named && state.has(Feature::ToolChoice)),
            parallel_tool_calls: body.parallel_tool_calls && state.has(Feature::ParallelToolCalls),
            response_format: self.response_format(request, state),
            thinking: generation.thinking.map(|on| (reasoning.switch, on)).filter(|_| state.has(Feature::Thinking)),
            preserve_thinking: reasoning.preserve == PreserveThinking::Body
                && catalogue::normal_name(model).starts_with("qwen")
                && state.has(Feature::Thinking),
            marks,
            extra: generation.extra_body.clone(),
        }
    }

    /// Returns the form that the server holds an answer to: that of a model whose calls are text, where it can only
    /// answer, or has to once more. With tools it could call none, and thoughts before the answer would be against the schema.
    fn response_format(&self, request: &Request, state: &State) -> Option<Value> {
        let only_answers = request.only_answer || request.tools.len() == 1;
        let can = state.prompted && state.has(Feature::ResponseFormat) && self.config.generation.thinking != Some(true);
        let answer = prompted::answer(&request.tools).filter(|_| only_answers && can);
        answer.map(|tool| json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": prompted::shown(&tool.parameters)}}))
    }

    fn sampling(&self, model: &str) -> Vec<(&'static str, Value)> {
        let chosen = &self.config.generation.sampling;
        let card = if self.quirks.local { catalogue::card_sampling(model) } else { None };
        let mut fields: Vec<(&'static str, Value)> = Vec::new();
        let mut add = |name: &'static str, value: Option<Value>| {
            if let Some(value) = value
                && (matches!(name, "temperature" | "top_p") || self.quirks.body.sampling.contains(&name))
            {
                fields.push((name, value));
            }
        };
        add("temperature", chosen.temperature.or(card.map(|card| card.temperature)).map(|number| json!(number)));
        add("top_p", chosen.top_p.or(card.map(|card| card.top_p)).map(|number| json!(number)));
        add("top_k", card.map(|card| json!(card.top_k)));
        let penalty = card.and_then(|card| card.repetition_penalty).map(|number| json!(number));
        add("repetition_penalty", penalty.clone());
        add("repeat_penalty", penalty);
        add("seed", chosen.seed.map(|number| json!(number)));
        fields
    }

    pub(super) fn wire_request(&self, method: Method, operation: &'static str, body: Vec<u8>) -> WireRequest {
        let headers =
            self.quirks.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        WireRequest { method, url: self.state().endpoint.url_of(operation).to_string(), operation, headers, body }
    }
}

/// The least that is asked for, where there is room.
const OUTPUT_FLOOR: u64 = 4_096;

/// Returns the output limit to send: the least of the requested limit, the model's maximum and the room after the
/// prompt. `None` if the prompt seems to fill the window: the server's own count decides then.
pub(super) fn output_limit(asked: u64, facts: &ModelFacts, prompt: u64) -> Option<u64> {
    let ceiling = asked.min(facts.max_output.max(1));
    if facts.context_window == 0 {
        return Some(ceiling);
    }
    let room = facts.context_window.saturating_sub(prompt);
    // The guess may be wrong by some: the margin is for that, smaller where the window is small.
    let margin = (facts.context_window / 20).max(10_000).min(facts.context_window / 8);
    let limit = ceiling.min(room.saturating_sub(margin)).max(OUTPUT_FLOOR.min(ceiling)).min(room);
    (limit > 0).then_some(limit)
}
