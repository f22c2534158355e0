//! Recovers from failures without a wait, and learns from answers: features given up, limits, how the model calls.

use super::assemble::from_body;
use super::attempt::Failure;
use super::attempts::{Attempts, Recovered};
use super::client::{Client, completion};
use super::config::TextToolsMode;
use super::streamed::Streamed;
use super::{Arguments, Delta, ErrorClass, Feature, Message, Model as _, Notice, Part, Request, Turn, Usage};

/// What is asked for where a server refuses the output limit and does not say which it takes.
const OUTPUT_WITHOUT_A_LIMIT: u64 = 4_096;

impl Client {
    /// Tries what needs no wait: a feature given up, a limit learned, text read from an error.
    pub(super) fn recover(
        &self,
        failure: &mut Failure,
        request: &Request,
        run: &mut Attempts,
        streamed: &mut Streamed<'_>,
    ) -> Recovered {
        let downgrade = match &failure.class {
            ErrorClass::Unsupported(feature) => {
                let feature = *feature;
                let given_up = self.give_up(feature, request);
                if given_up.is_none() && feature != Feature::Tools {
                    failure.class = ErrorClass::BadRequest { param: None };
                }
                given_up.map(|feature| (feature, self.mask(&failure.message)))
            }
            ErrorClass::OutputTooLong { limit } => self
                .learn_output(*limit)
                .map(|limit| ("max_tokens".to_owned(), format!("the server gives at most {limit} output tokens"))),
            ErrorClass::ContextOverflow { limit: Some(limit), .. } if *limit > 0 => {
                self.learn_window(*limit);
                None
            }
            ErrorClass::RawGeneration(raw) => return self.read_raw(raw, request, run, streamed),
            ErrorClass::ModelNotFound if failure.status == Some(404) && run.requests == 1 => {
                let Some(notice) = self.try_version() else { return Recovered::No };
                streamed.push(Delta::Notice(notice));
                return Recovered::Again;
            }
            _ => None,
        };
        let Some((feature, message)) = downgrade else { return Recovered::No };
        streamed.push(Delta::Notice(Notice::Downgrade { feature, message }));
        streamed.begin(&run.kept);
        Recovered::Again
    }

    /// Learns how long an answer may be; `None` if that was known.
    fn learn_output(&self, limit: Option<u64>) -> Option<u64> {
        let mut state = self.state();
        let lower = match (limit, state.learned_output) {
            (Some(limit), Some(known)) if limit >= known => None,
            (Some(limit), _) if limit > 0 => Some(limit),
            (_, None) => Some(OUTPUT_WITHOUT_A_LIMIT),
            (_, Some(_)) => None,
        }?;
        state.learned_output = Some(lower);
        Some(lower)
    }

    /// Reads the calls in what a server could not parse.
    fn read_raw(&self, raw: &str, request: &Request, run: &mut Attempts, streamed: &mut Streamed<'_>) -> Recovered {
        let (tools, options) = (self.tool_set(request), self.assembler_options(request));
        let mut deltas = Vec::new();
        match from_body(&completion(raw), tools, options, &mut deltas) {
            Ok(assembled) if !assembled.calls.is_empty() => {
                for delta in deltas {
                    streamed.push(delta);
                }
                Recovered::Turn(Box::new(run.turn(assembled)))
            }
            Ok(_) | Err(_) => Recovered::No,
        }
    }

    /// Tries the base URL with the version that it lacks.
    fn try_version(&self) -> Option<Notice> {
        let mut state = self.state();
        if !state.endpoint.lacks_version() {
            return None;
        }
        state.endpoint = state.endpoint.with_version();
        Some(Notice::Warning(format!("the server knows nothing at the base URL; trying {} instead", state.endpoint)))
    }

    /// Corrects what the class alone cannot know: a bare refusal of a short conversation is not an overflow.
    pub(super) fn judge(&self, failure: &mut Failure, estimate: u64) {
        let bare = failure.class == ErrorClass::ContextOverflow { limit: None, actual: None };
        let said_nothing = failure.message == format!("answered {}", failure.status.unwrap_or(0));
        if bare && said_nothing && estimate < self.facts().context_window / 4 {
            failure.class = ErrorClass::BadRequest { param: None };
        }
    }

    /// Gives a feature up for the run; `None` if that was done before, so that it cannot be the cause.
    fn give_up(&self, feature: Feature, request: &Request) -> Option<String> {
        let mut state = self.state();
        if feature == Feature::Tools {
            if self.config.text_tools == TextToolsMode::Off || state.prompted || request.tools.is_empty() {
                return None;
            }
            state.prompted = true;
        }
        if feature == Feature::Media && !has_media(request) {
            return None;
        }
        state.given_up.insert(feature).then(|| feature.name().to_owned())
    }

    /// Puts the tools into the prompt if a turn's calls all came as text and none ever came natively.
    pub(super) fn learn_calls(&self, turn: &Turn, request: &Request, streamed: &mut Streamed<'_>) {
        let calls = &turn.message.calls;
        let leaked = !calls.is_empty() && calls.iter().all(|call| call.recovered.is_some());
        if !leaked {
            let tools = self.tool_set(request);
            let is_valid = calls.iter().any(|call| match &call.arguments {
                Arguments::Object(arguments) => {
                    call.recovered.is_none() && tools.check(&call.name, arguments.clone()).is_ok()
                }
                Arguments::Incomplete { .. } | Arguments::Invalid { .. } => false,
            });
            self.state().calls_natively |= is_valid;
        } else if !self.state().calls_natively && !self.text_tools() && self.switch_to_text_tools() {
            streamed.push(Delta::Notice(Notice::Warning(
                "the model writes calls as text: they are read from it, and from now on the prompt describes the tools"
                    .to_owned(),
            )));
        }
    }

    /// Compares the server's token count with the estimate: this calibrates the next estimate, and reveals a server
    /// that cut the conversation without saying so.
    pub(super) fn learn_usage(&self, estimate: u64, usage: &Usage, streamed: &mut Streamed<'_>) {
        const WORTH_COMPARING: u64 = 2_000;
        let Some(counted) = usage.input_tokens.filter(|counted| *counted > 0 && estimate >= WORTH_COMPARING) else {
            return;
        };
        let mut state = self.state();
        if counted * 10 < estimate * 6 {
            if !state.warned_of_truncation {
                state.warned_of_truncation = true;
                drop(state);
                let remedy = self.quirks.hint(&ErrorClass::PayloadTooLarge, self.model_name()).unwrap_or_default();
                streamed.push(Delta::Notice(Notice::Warning(format!(
                    "the server counted {counted} prompt tokens where about {estimate} were sent: it seems to truncate the conversation; {remedy}"
                ))));
            }
            return;
        }
        let ratio = counted as f64 / estimate as f64;
        state.calibration = (state.calibration * 0.5 + ratio * 0.5).clamp(0.5, 3.0);
    }
}

fn has_media(request: &Request) -> bool {
    let is_media = |part: &Part| matches!(part, Part::Media { .. });
    request.messages.iter().any(|message| match message {
        Message::User(parts) => parts.iter().any(is_media),
        Message::Tool(answer) => answer.content.iter().any(is_media),
        Message::System(_) | Message::Assistant(_) => false,
    })
}
