//! Passes events to what renders or collects them. Every event takes this path.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::emit::Renderer;
use crate::event::{Event, RunFinished, ToolResult};
use crate::exit::Exit;
use crate::policy::redact::Secrets;
use crate::telemetry::Telemetry;

use crate::run::output::outputs::now;
use crate::run::output::redaction::Streamed;

/// What takes the events of a run.
pub trait Outlet: Send {
    /// Takes one event; `span` is the span that it is a part of. What comes after the end of the run is ignored.
    fn event(&mut self, event: &Event, span: Option<&str>);

    /// Ends, and returns the exit code that counts.
    fn close(self: Box<Self>) -> Exit;
}

impl Outlet for Renderer {
    fn event(&mut self, event: &Event, span: Option<&str>) {
        self.event_in(event, span);
    }

    fn close(self: Box<Self>) -> Exit {
        Renderer::close(*self)
    }
}

/// Passes events on, remembers which calls have no answer yet, and ends the stream exactly once.
pub struct Emitter {
    state: Mutex<State>,
}

struct State {
    outlet: Option<Box<dyn Outlet>>,
    open: Vec<(u32, String, String)>,
    last: Instant,
    waiting_for: String,
    secrets: Option<Arc<Secrets>>,
    streamed: Streamed,
    telemetry: Option<Telemetry>,
    /// The first warning of the run.
    warning: Option<String>,
}

impl Emitter {
    /// Starts the stream.
    pub fn new(outlet: Box<dyn Outlet>) -> Emitter {
        let state = State {
            outlet: Some(outlet),
            open: Vec::new(),
            last: Instant::now(),
            waiting_for: String::new(),
            secrets: None,
            streamed: Streamed::default(),
            telemetry: None,
            warning: None,
        };
        Emitter { state: Mutex::new(state) }
    }

    /// Masks these secrets in every event from now on.
    pub fn hide(&self, secrets: Arc<Secrets>) {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).secrets = Some(secrets);
    }

    /// Reports every event to OpenTelemetry from now on.
    pub fn report(&self, telemetry: Telemetry) {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).telemetry = Some(telemetry);
    }

    /// Returns the first warning of the run.
    pub fn first_warning(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).warning.clone()
    }

    /// Passes one event on.
    pub fn emit(&self, event: Event) {
        // An outlet that panicked must not suppress the ending of the run.
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.last = Instant::now();
        match &event {
            Event::Warning { message } => drop(state.warning.get_or_insert_with(|| message.clone())),
            Event::TurnStarted { turn, .. } => state.waiting_for = format!("the model, turn {turn}"),
            Event::Assistant(assistant) => {
                let calls = assistant.calls.iter().map(|call| (assistant.turn, call.id.clone(), call.name.clone()));
                state.open.extend(calls);
                if let Some((_, _, name)) = state.open.first() {
                    state.waiting_for = name.clone();
                }
            }
            Event::ToolResult(result) => {
                let answered = state.open.iter().position(|(_, id, _)| *id == result.call_id);
                answered.map(|at| state.open.remove(at));
            }
            _ => {}
        }
        let State { secrets, streamed, outlet: Some(outlet), telemetry, .. } = &mut *state else { return };
        let mut pass = |event: &Event| {
            let span = telemetry.as_mut().map(|telemetry| telemetry.event(event, now()));
            if let Event::RunFinished(_) = event
                && let Some(problem) = telemetry.take().and_then(Telemetry::finish)
            {
                let message = format!("the telemetry report is incomplete: {problem}");
                outlet.event(&Event::Warning { message }, None);
            }
            outlet.event(event, span.as_deref());
        };
        match secrets {
            Some(secrets) => streamed.without_secrets(event, secrets).iter().for_each(pass),
            None => pass(&event),
        }
    }

    /// Reports what the run is waiting for, if nothing has happened for `silence`.
    pub fn heartbeat(&self, silence: Duration) {
        let status = {
            let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let waited = state.last.elapsed();
            (waited >= silence).then(|| Event::Status { message: format!("waiting for {}", state.waiting_for), waited })
        };
        if let Some(status) = status {
            self.emit(status);
        }
    }

    /// Ends the stream: every call without an answer gets one, then the ending follows. Returns the final exit code.
    pub fn finish(&self, finished: RunFinished) -> Exit {
        let open = {
            let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::take(&mut state.open)
        };
        for (turn, call_id, tool) in open {
            let content = "This call was not finished: the run ended.".to_owned();
            self.emit(Event::ToolResult(Box::new(ToolResult {
                turn,
                call_id,
                tool,
                is_error: true,
                display: content.clone(),
                content,
                ..ToolResult::default()
            })));
        }
        let fallback = finished.exit;
        self.emit(Event::RunFinished(Box::new(finished)));
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.outlet.take().map_or(fallback, |outlet| outlet.close())
    }
}
