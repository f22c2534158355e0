//! Lists what is known of each kind of server and what this program does about it: the sentences of the manual.
//!
//! A test checks that `docs/providers.md` says the same.

use super::quirks::Provider;

/// A quirk, and what is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What the server does.
    pub quirk: &'static str,
    /// What this program does.
    pub answer: &'static str,
}

const fn known(quirk: &'static str, answer: &'static str) -> Known {
    Known { quirk, answer }
}

/// The servers of the manual with their quirks.
pub const KNOWN: &[(Provider, &[Known])] = &[
    (
        Provider::DashScope,
        &[
            known(
                "The id and the name of a call come once, and then as `\"\"` or null.",
                "Pieces are sorted by index; an empty id is no id.",
            ),
            known(
                "Errors come inside status 200: `event:error`, a comment `:HTTP_STATUS/429`, or `finish_reason: error_finish` with the words in the text.",
                "Each ends the turn with the class of its code; the words never pass for an answer.",
            ),
            known(
                "`insufficient_quota` and “Allocated quota exceeded” mean too many tokens in this minute; “Free allocated quota exceeded” means the end.",
                "The first is waited for, the second ends the run with 41 and says why.",
            ),
            known(
                "A call that the output limit cut may come with `finish_reason: tool_calls`.",
                "Arguments that do not close are never run, whatever the label says; the model is told to write less at once.",
            ),
            known(
                "The prompt cache is asked for with `cache_control`; a hit costs a tenth, writing a quarter more.",
                "Up to four marks, on the system message and the newest ones, for Qwen models; settings switch them off.",
            ),
            known("Keys are bound to a region and a plan.", "A 401 names the region or plan that the key looks like."),
            known(
                "Newer models may refuse `max_tokens`, and some thinking models refuse `enable_thinking`.",
                "The other name is used, or the field left out, from the first refusal to the end of the run.",
            ),
        ],
    ),
    (
        Provider::OpenRouter,
        &[
            known("Comments (`: OPENROUTER PROCESSING`) come while it waits.", "They keep no timer from running out."),
            known(
                "There are two finish chunks, and the second may say `stop` after `tool_calls`.",
                "What arrived decides, not the label.",
            ),
            known(
                "Errors come inside status 200, with the upstream's own words in `metadata.raw`.",
                "The upstream's words are shown and decide the class.",
            ),
            known(
                "402 means no credit, but with `Retry-After` it means too much at once.",
                "Without the header the run ends with 41; with it the wait is kept.",
            ),
            known(
                "`reasoning_details` must go back as they came.",
                "They do, piece by piece joined; `reasoning` goes back where there are none.",
            ),
        ],
    ),
    (
        Provider::Vllm,
        &[
            known(
                "Without `--enable-auto-tool-choice` and a parser, `tools` are refused with 400.",
                "The tools move into the prompt, and calls are read from the text.",
            ),
            known(
                "`\"tool_calls\": []` stands beside content, and usage may stand on every chunk.",
                "Empty lists are nothing; the last count is taken, never a sum.",
            ),
            known(
                "Some parsers give every piece of a call a new id.",
                "A piece in the middle of an object goes on with the call that is open.",
            ),
            known(
                "A parser that does not fit leaves the call in the text or in the reasoning.",
                "It is read from there, if nothing else can be meant.",
            ),
            known("A forced call ends with `stop`.", "Calls count whatever the label says."),
        ],
    ),
    (
        Provider::Sglang,
        &[
            known("`finish_reason` may be `stop` although calls were made.", "Calls count whatever the label says."),
            known(
                "A context overflow is an error object inside a stream of status 200.",
                "The limit in it is learned, the conversation compacted, and the turn tried again.",
            ),
            known("Every field of a chunk may be null.", "Null is as good as absent."),
            known(
                "Its XML parser may end a value early where a file holds `</parameter>`.",
                "Without `--tool-call-parser`, and with `--text-tools force` here, values are read whole.",
            ),
        ],
    ),
    (
        Provider::LlamaCpp,
        &[
            known("It answers 503 while the model loads.", "That is waited for."),
            known(
                "A 500 “Failed to parse input at pos …” carries what the model wrote.",
                "Calls are read from it, under the rules for calls in text.",
            ),
            known(
                "A prompt is read slowly without a GPU.",
                "On loopback the first byte may take ten minutes; `model.generationConfig.timeout` in the settings changes that.",
            ),
            known("One call a turn, unless `parallel_tool_calls` is sent.", "It is sent."),
            known(
                "The window is what `-c` says, not what the model could take.",
                "`meta.n_ctx` of `/v1/models` bounds the window for models that nobody knows better.",
            ),
        ],
    ),
    (
        Provider::Ollama,
        &[
            known(
                "The front of a conversation that is too long is cut without a word.",
                "A warning, once, when the server counts far fewer tokens than were sent.",
            ),
            known(
                "`tool_choice`, `parallel_tool_calls` and `num_ctx` are ignored by `/v1`.",
                "They are not sent; set the window on the server.",
            ),
            known(
                "Each call comes whole in one chunk, all with index 0.",
                "The id, or the complete object, tells them apart.",
            ),
            known(
                "Arguments in the history that are no JSON object are refused with 400, for ever.",
                "What goes into the history is always a JSON object.",
            ),
            known(
                "Reasoning is written to and read from `reasoning`; null content beside it is refused.",
                "That field is used, and content is `\"\"`.",
            ),
            known(
                "About one call in five of qwen3-coder comes as text without its `<tool_call>`.",
                "It is read from the text.",
            ),
        ],
    ),
    (
        Provider::LmStudio,
        &[
            known("Call ids may be empty.", "They get one of their own: `call_TURN_PLACE`."),
            known("Calls of Qwen3-Coder may stay in the text as XML.", "They are read from the text."),
            known(
                "Images in tool messages are refused with 400.",
                "They follow in a message of their own, after all answers.",
            ),
            known("A crashed model is an `event: error` inside status 200.", "It is a server error and tried again."),
        ],
    ),
    (
        Provider::OpenAi,
        &[
            known("Newer models refuse `max_tokens`.", "`max_completion_tokens` is sent, never both."),
            known(
                "Unknown fields are refused with 400.",
                "`top_k` and the like, cache marks and reasoning are never sent.",
            ),
            known("`insufficient_quota` is out of credit.", "The run ends with 41; nothing is tried again."),
            known(
                "Waits are told in `retry-after-ms` and `x-ratelimit-…`.",
                "The wait is kept, if it is at most `--max-wait` and the run's own time allows it.",
            ),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::quirks::{PreserveThinking, Quirks, ReasoningOut, ThinkingSwitch, quirks_named};

    const MANUAL: &str = include_str!("../../docs/providers.md");

    fn section(name: &str) -> &'static str {
        let mut sections = MANUAL.split("\n## ").skip(1);
        sections.find(|section| section.starts_with(name)).unwrap_or_else(|| panic!("no section `{name}`"))
    }

    fn yes(is: bool) -> &'static str {
        if is { "yes" } else { "no" }
    }

    fn row(quirks: &Quirks) -> String {
        let reasoning = match quirks.reasoning_out {
            ReasoningOut::Never => "never".to_owned(),
            ReasoningOut::Field(field) => format!("`{field}`"),
            ReasoningOut::Details => "`reasoning_details`".to_owned(),
        };
        let thinking = match quirks.thinking_switch {
            ThinkingSwitch::None => "none",
            ThinkingSwitch::EnableThinking => "`enable_thinking`",
            ThinkingSwitch::TemplateKwargs => "`chat_template_kwargs`",
            ThinkingSwitch::ReasoningEffort => "`reasoning_effort: none`",
        };
        let keep = if quirks.preserve_thinking == PreserveThinking::Body { " (+`preserve_thinking`)" } else { "" };
        let sampling: Vec<String> = quirks.sampling.iter().map(|field| format!("`{field}`")).collect();
        format!(
            "| {} | `{}` | {} | {reasoning}{keep} | {thinking} | {} |",
            quirks.name,
            quirks.max_tokens_field,
            yes(quirks.parallel_tool_calls),
            sampling.join(", ")
        )
    }

    #[test]
    fn the_manual_says_what_the_tables_say() {
        let mut missing = Vec::new();
        for (provider, quirks) in KNOWN {
            let data = quirks_named(*provider);
            let section = section(data.name);
            missing.extend(
                quirks
                    .iter()
                    .map(|known| format!("| {} | {} |", known.quirk, known.answer))
                    .filter(|line| !section.contains(line.as_str())),
            );
            missing.extend(Some(row(data)).filter(|line| !MANUAL.contains(line.as_str())));
            let places = data.host_suffixes.iter().map(|host| (*host).to_owned());
            let places = places.chain(data.ports.iter().map(|port| format!(":{port}")));
            missing.extend(places.filter(|place| !section.contains(place.as_str())));
        }
        assert!(missing.is_empty(), "docs/providers.md lacks:\n{}", missing.join("\n"));
    }

    #[test]
    fn every_server_of_the_manual_has_a_page_with_variables_and_a_check() {
        for (provider, _) in KNOWN {
            let section = section(quirks_named(*provider).name);
            for part in ["export QWEN_", "qwen doctor", "### Known quirks"] {
                assert!(section.contains(part), "{provider:?} lacks {part}");
            }
            assert!(section.lines().count() > 25, "{provider:?} is no page");
        }
    }
}
