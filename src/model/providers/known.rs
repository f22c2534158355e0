//! Tests that `docs/reference/providers.md` names what is known of each kind of server and what this program does about it.

use super::Provider;

/// A quirk, and what is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// What the server does.
    pub(super) quirk: &'static str,
    /// What this program does.
    pub(super) answer: &'static str,
}

const fn known(quirk: &'static str, answer: &'static str) -> Known {
    Known { quirk, answer }
}

/// The servers of the manual with their quirks.
pub(super) const KNOWN: &[(Provider, &[Known])] = &[
    (
        Provider::DashScope,
        &[
            known(
                "The id and the name of a call come once, and then as `\"\"` or null.",
                "Chunks are grouped by index; an empty id is ignored.",
            ),
            known(
                "Errors arrive with status 200: as `event:error`, as a comment `:HTTP_STATUS/429`, or as `finish_reason: error_finish` with the message in the text.",
                "Each ends the turn as an error of its class; the message is never taken as an answer.",
            ),
            known(
                "`insufficient_quota` and “Allocated quota exceeded” mean too many tokens per minute; “Free allocated quota exceeded” means no credit.",
                "The first is retried after a wait; the second ends the run with 41 and says why.",
            ),
            known(
                "A call truncated by the output limit may have `finish_reason: tool_calls`.",
                "A call with incomplete arguments never runs; the model is told to write less at once.",
            ),
            known(
                "`cache_control` requests the prompt cache; a hit costs a tenth, a write a quarter more.",
                "For Qwen models, up to four marks are sent, on the system message and the newest messages; a setting turns them off.",
            ),
            known(
                "Keys are bound to a region and a plan.",
                "On a 401 the error names the region or plan that the key seems to belong to.",
            ),
            known(
                "Newer models may refuse `max_tokens`, and some thinking models refuse `enable_thinking`.",
                "After the first refusal the other name is used, or the field is omitted, until the run ends.",
            ),
        ],
    ),
    (
        Provider::OpenRouter,
        &[
            known(
                "It sends comments (`: OPENROUTER PROCESSING`) while it waits.",
                "Comments do not extend any timeout.",
            ),
            known(
                "There are two final chunks, and the second may say `stop` after `tool_calls`.",
                "Complete calls run, whatever `finish_reason` says.",
            ),
            known(
                "Errors arrive with status 200, with the upstream message in `metadata.raw`.",
                "The upstream message is shown and decides the error class.",
            ),
            known(
                "402 means no credit, but with `Retry-After` it means too many requests.",
                "Without the header the run ends with 41; with it the request is retried after the wait.",
            ),
            known(
                "`reasoning_details` must be returned unchanged.",
                "They are, with their chunks joined; if there are none, `reasoning` is returned.",
            ),
        ],
    ),
    (
        Provider::Vllm,
        &[
            known(
                "Without `--enable-auto-tool-choice` and a parser, it refuses `tools` with 400.",
                "The tools are described in the prompt, and calls are read from the text.",
            ),
            known(
                "`\"tool_calls\": []` may accompany content, and every chunk may have usage.",
                "Empty lists are ignored; the last usage counts, never a sum.",
            ),
            known(
                "Some parsers give every chunk of a call a new id.",
                "A chunk in the middle of an object continues the open call.",
            ),
            known(
                "A wrong parser leaves the call in the text or in the reasoning.",
                "The call is read from there if it is unambiguous.",
            ),
            known("A forced call has `finish_reason: stop`.", "Calls run, whatever `finish_reason` says."),
        ],
    ),
    (
        Provider::Sglang,
        &[
            known(
                "`finish_reason` may be `stop` although there are calls.",
                "Calls run, whatever `finish_reason` says.",
            ),
            known(
                "A context overflow is an error object in a stream with status 200.",
                "Its limit is remembered, the conversation is compacted, and the turn is retried.",
            ),
            known("Every field of a chunk may be null.", "Null is treated as absent."),
            known(
                "Its XML parser may truncate a value that contains `</parameter>`.",
                "If the server has no `--tool-call-parser` and `qwen` has `--text-tools force`, values are read whole.",
            ),
        ],
    ),
    (
        Provider::LlamaCpp,
        &[
            known("It responds with 503 while the model loads.", "The request waits until the model is loaded."),
            known(
                "A 500 “Failed to parse input at pos …” contains the model's output.",
                "Calls are read from that output, by the rules for calls in text.",
            ),
            known(
                "Without a GPU a prompt is processed slowly.",
                "On loopback the first byte may take ten minutes; the setting `model.generationConfig.timeout` changes that.",
            ),
            known(
                "It makes one call per turn, unless `parallel_tool_calls` is sent.",
                "`parallel_tool_calls` is sent.",
            ),
            known(
                "The window is the value of `-c`, not the model's maximum.",
                "For models outside the catalogue, `meta.n_ctx` of `/v1/models` limits the window.",
            ),
        ],
    ),
    (
        Provider::Ollama,
        &[
            known(
                "The beginning of a conversation that is too long is cut without notice.",
                "One warning is printed when the server counts far fewer tokens than were sent.",
            ),
            known(
                "`/v1` ignores `tool_choice`, `parallel_tool_calls` and `num_ctx`.",
                "They are not sent. Set the window on the server.",
            ),
            known(
                "Each call arrives in a single chunk, always with index 0.",
                "Calls are told apart by the id or by the complete object.",
            ),
            known(
                "If arguments in the history are not a JSON object, it refuses every further request with 400.",
                "Arguments in the history are always a JSON object.",
            ),
            known(
                "Reasoning is in the field `reasoning`; with it, null content is refused.",
                "That field is used, and content is `\"\"`.",
            ),
            known(
                "About one in five calls of qwen3-coder arrives as text without its `<tool_call>`.",
                "The call is read from the text.",
            ),
        ],
    ),
    (
        Provider::LmStudio,
        &[
            known("Call ids may be empty.", "Such a call gets the id `call_TURN_PLACE`."),
            known("Calls of Qwen3-Coder may remain in the text as XML.", "Calls are read from the text."),
            known(
                "Images in tool messages are refused with 400.",
                "They are sent in a separate message after all tool results.",
            ),
            known(
                "A crashed model is an `event: error` with status 200.",
                "It counts as a server error and is retried.",
            ),
        ],
    ),
    (
        Provider::OpenAi,
        &[
            known("Newer models refuse `max_tokens`.", "`max_completion_tokens` is sent, never both."),
            known(
                "It refuses unknown fields with 400.",
                "`top_k` and similar fields, cache marks and reasoning are never sent.",
            ),
            known("`insufficient_quota` means no credit.", "The run ends with 41 without a retry."),
            known(
                "Delays are given in `retry-after-ms` and `x-ratelimit-…`.",
                "The delay is respected if it is at most `--max-wait` and fits into the run's time limit.",
            ),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::providers::{PreserveThinking, Quirks, ReasoningOut, ThinkingSwitch, quirks_named};

    const MANUAL: &str = include_str!("../../../docs/reference/providers.md");

    fn section(name: &str) -> &'static str {
        let mut sections = MANUAL.split("\n## ").skip(1);
        sections.find(|section| section.starts_with(name)).unwrap_or_else(|| panic!("no section `{name}`"))
    }

    fn yes(is: bool) -> &'static str {
        if is { "yes" } else { "no" }
    }

    fn row(quirks: &Quirks) -> String {
        let reasoning = match quirks.reasoning.out {
            ReasoningOut::Never => "never".to_owned(),
            ReasoningOut::Field(field) => format!("`{field}`"),
            ReasoningOut::Details => "`reasoning_details`".to_owned(),
        };
        let thinking = match quirks.reasoning.switch {
            ThinkingSwitch::None => "none",
            ThinkingSwitch::EnableThinking => "`enable_thinking`",
            ThinkingSwitch::TemplateKwargs => "`chat_template_kwargs`",
            ThinkingSwitch::ReasoningEffort => "`reasoning_effort: none`",
        };
        let keep = if quirks.reasoning.preserve == PreserveThinking::Body { " (+`preserve_thinking`)" } else { "" };
        let sampling: Vec<String> = quirks.body.sampling.iter().map(|field| format!("`{field}`")).collect();
        format!(
            "| {} | `{}` | {} | {reasoning}{keep} | {thinking} | {} |",
            quirks.name,
            quirks.body.max_tokens_field,
            yes(quirks.body.parallel_tool_calls),
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
            let places = data.location.host_suffixes.iter().map(|host| (*host).to_owned());
            let places = places.chain(data.location.ports.iter().map(|port| format!(":{port}")));
            missing.extend(places.filter(|place| !section.contains(place.as_str())));
        }
        assert!(missing.is_empty(), "docs/reference/providers.md lacks:\n{}", missing.join("\n"));
    }

    #[test]
    fn every_server_of_the_manual_has_a_page_with_variables_and_a_check() {
        for (provider, _) in KNOWN {
            let section = section(quirks_named(*provider).name);
            for part in ["export QWEN_", "qwen doctor", "### Known quirks"] {
                assert!(section.contains(part), "{provider:?} lacks {part}");
            }
            assert!(section.lines().count() > 25, "{provider:?} is too short");
        }
    }
}
