//! Plays a scripted model, for tests of recipes that need no recorded conversation.
//!
//! Unlike a cassette it does not compare requests, so a changed prompt does not break it.

use std::sync::Mutex;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Arguments, AssistantMessage, BoxFuture, Delta, ErrorClass, Model, ModelError, ModelFacts, Price, Request, Stop,
    ToolCall, Turn, Usage,
};

/// The file: its purpose, and the model's turns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptFile {
    /// Where the turns come from, in a sentence.
    pub origin: String,
    /// The turns, in order.
    pub turns: Vec<ScriptedTurn>,
}

/// One turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedTurn {
    /// The text.
    #[serde(default)]
    pub text: String,
    /// The calls.
    #[serde(default)]
    pub calls: Vec<ScriptedCall>,
}

/// One call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// The model.
#[derive(Debug)]
pub struct Script {
    turns: Mutex<std::vec::IntoIter<ScriptedTurn>>,
}

impl Script {
    /// Returns one without an answer, where nothing is asked.
    pub fn empty() -> Script {
        Script { turns: Mutex::new(Vec::new().into_iter()) }
    }

    /// Reads a script.
    pub fn parse(text: &str) -> Result<Script, serde_json::Error> {
        let file: ScriptFile = serde_json::from_str(text)?;
        Ok(Script { turns: Mutex::new(file.turns.into_iter()) })
    }
}

impl Model for Script {
    fn respond<'a>(
        &'a self,
        request: &'a Request,
        _on_delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Turn, ModelError>> {
        Box::pin(async move {
            let turn = self.turns.lock().expect("nothing panics while it holds the script").next();
            let Some(turn) = turn else {
                let message = "the script has ended, and the run needs another response".to_owned();
                return Err(ModelError {
                    class: ErrorClass::ReplayMismatch(message.clone()),
                    message,
                    hint: None,
                    status: None,
                    request_id: None,
                    requests: 0,
                    usage: Box::default(),
                });
            };
            let call = |(index, call): (usize, ScriptedCall)| ToolCall {
                id: format!("call_{}_{index}", request.turn),
                name: call.name,
                arguments: Arguments::Object(call.arguments),
                recovered: None,
                notes: Vec::new(),
            };
            let calls: Vec<ToolCall> = turn.calls.into_iter().enumerate().map(call).collect();
            Ok(Turn {
                stop: if calls.is_empty() { Stop::End } else { Stop::Calls },
                message: AssistantMessage { text: turn.text, reasoning: None, calls },
                usage: Usage { input_tokens: Some(0), output_tokens: Some(0), ..Usage::default() },
                model: None,
                requests: 1,
                api_time: Duration::ZERO,
                response_id: None,
            })
        })
    }

    fn facts(&self) -> ModelFacts {
        ModelFacts {
            name: "scripted".to_owned(),
            context_window: 262_144,
            max_output: 8_192,
            price: Some(Price::default()),
            images: false,
        }
    }
}
