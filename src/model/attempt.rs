//! Makes one attempt: sends a request and returns a turn, or a failure with what arrived before it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout_at};

use super::assemble::{Assembler, Options, from_body};
use super::assembled::{Assembled, BodyError, Ending, Failed, Fault, Partial};
use super::chunk::{ErrorFrame, Finish};
use super::errors::classify;
use super::providers::Quirks;
use super::sse::{Decoder, Frame};
use super::streamed::Streamed;
use super::tool_set::ToolSet;
use super::transport::{Body, End, Transport, TransportError, WireRequest, WireResponse};
use super::{ErrorClass, StreamFault, TimeoutKind};

/// Maximum bytes read of an error's body.
const MAX_ERROR_BODY: usize = 1 << 20;

/// How much of a body that is not an answer is shown.
const SHOWN_BODY: usize = 512;

/// How long the end of the bytes is waited for after `[DONE]`, so that the connection can be used again.
const GRACE: Duration = Duration::from_millis(50);

/// Where an attempt goes and how long it may take.
pub struct Attempt<'a> {
    /// The transport.
    pub transport: &'a dyn Transport,
    /// What is known of the server.
    pub quirks: &'a Quirks,
    /// The wait for the first byte.
    pub first_byte: Duration,
    /// The wait between data events.
    pub idle: Duration,
    /// The time for the whole answer.
    pub lifetime: Duration,
    /// When the run's own time is over.
    pub deadline: Option<Instant>,
    /// Tells the time, for a date in a header.
    pub now: Option<fn() -> SystemTime>,
}

/// Why an attempt gave no turn.
#[derive(Debug)]
pub struct Failure {
    /// The class.
    pub class: ErrorClass,
    /// The words after "the server".
    pub message: String,
    /// What to do, where only this place knows.
    pub hint: Option<String>,
    /// The status.
    pub status: Option<u16>,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// The wait that the server asks for.
    pub retry_after: Option<Duration>,
    /// What arrived before.
    pub partial: Partial,
    /// A retry cannot help, whatever the class.
    pub last: bool,
}

impl Failure {
    fn new(class: ErrorClass, message: impl Into<String>) -> Failure {
        Failure {
            class,
            message: message.into(),
            hint: None,
            status: None,
            request_id: None,
            retry_after: None,
            partial: Partial::default(),
            last: false,
        }
    }

    fn after(self, partial: Partial) -> Failure {
        Failure { partial, ..self }
    }
}

/// The times of an answer that is being read.
struct Clock {
    first_byte: Option<Instant>,
    lifetime: Option<Instant>,
    deadline: Option<Instant>,
    idle: Duration,
    /// The last data event.
    last_data: Option<Instant>,
    /// Whether something came since that shows that the connection lives.
    alive: bool,
    began: Instant,
}

impl Clock {
    fn start(attempt: &Attempt<'_>) -> Clock {
        let began = Instant::now();
        let after = |wait: Duration| (!wait.is_zero()).then(|| began + wait);
        Clock {
            first_byte: after(attempt.first_byte),
            lifetime: after(attempt.lifetime),
            deadline: attempt.deadline,
            idle: attempt.idle,
            last_data: None,
            alive: false,
            began,
        }
    }

    /// Returns which timer runs out next, and when.
    fn next(&self) -> (Instant, TimeoutKind) {
        let silence = if self.idle.is_zero() {
            None
        } else {
            // Comments show that the connection lives, so that the patience is twice as long, and no longer.
            let patience = if self.alive { self.idle * 2 } else { self.idle };
            match self.last_data {
                Some(last) => Some(last + patience),
                None if self.alive => Some(self.began + patience),
                None => None,
            }
        };
        let first = match (self.last_data, self.first_byte) {
            (Some(_), _) | (None, None) => None,
            // A ping is not an answer, but the first byte has come.
            (None, Some(at)) if self.alive => silence.map(|silence| at.max(silence)),
            (None, Some(at)) => Some(at),
        };
        let silence = if first.is_some() { None } else { silence };
        [
            (self.deadline, TimeoutKind::Deadline),
            (self.lifetime, TimeoutKind::Lifetime),
            (first, TimeoutKind::FirstByte),
            (silence, TimeoutKind::Idle),
        ]
        .into_iter()
        .filter_map(|(at, kind)| Some((at?, kind)))
        .min_by_key(|(at, _)| *at)
        // Without any timer: a day that nobody waits for.
        .unwrap_or((self.began + Duration::from_secs(86_400), TimeoutKind::Lifetime))
    }
}

fn timed_out(kind: TimeoutKind, attempt: &Attempt<'_>) -> Failure {
    let message = match kind {
        TimeoutKind::Connect => "could not be reached in time".to_owned(),
        TimeoutKind::FirstByte => format!("did not begin to answer within {} s", attempt.first_byte.as_secs_f32()),
        TimeoutKind::Idle => format!("fell silent for {} s in the middle of an answer", attempt.idle.as_secs_f32()),
        TimeoutKind::Lifetime => format!("did not finish the answer within {} s", attempt.lifetime.as_secs_f32()),
        TimeoutKind::Deadline => "had not answered when the run's time was over".to_owned(),
    };
    Failure::new(ErrorClass::Timeout(kind), message)
}

fn of_transport(error: TransportError, attempt: &Attempt<'_>) -> Failure {
    match error {
        TransportError::ConnectTimeout(words) => {
            Failure::new(ErrorClass::Timeout(TimeoutKind::Connect), format!("could not be reached in time: {words}"))
        }
        TransportError::Network(words) => {
            Failure::new(ErrorClass::Network, format!("could not be reached, or the connection broke: {words}"))
        }
        TransportError::Timeout(kind) => timed_out(kind, attempt),
        TransportError::Setup { message, hint } => {
            Failure { hint, last: true, ..Failure::new(ErrorClass::Network, format!("cannot be reached: {message}")) }
        }
        TransportError::Mismatch(difference) => {
            let message = format!("the recording does not match this run: {difference}");
            Failure::new(ErrorClass::ReplayMismatch(difference), message)
        }
    }
}

impl Attempt<'_> {
    /// Sends a request and returns the whole body.
    pub async fn fetch(&self, request: WireRequest) -> Result<String, Box<Failure>> {
        let mut clock = Clock::start(self);
        let mut response = self.open(request, &clock).await?;
        let body = self.read_all(&mut response, &mut clock).await?;
        if (200..300).contains(&response.status) { Ok(body) } else { Err(Box::new(self.refusal(&response, &body))) }
    }

    /// Sends a request and writes the body as it comes. The inner error is that of `out`.
    pub async fn save(
        &self,
        request: WireRequest,
        out: &mut (dyn std::io::Write + Send),
    ) -> Result<std::io::Result<()>, Box<Failure>> {
        let mut clock = Clock::start(self);
        let mut response = self.open(request, &clock).await?;
        if !(200..300).contains(&response.status) {
            let body = self.read_all(&mut response, &mut clock).await?;
            return Err(Box::new(self.refusal(&response, &body)));
        }
        while let Some(bytes) = self.next(response.body.as_mut(), &clock).await? {
            clock.last_data = Some(Instant::now());
            if let Err(error) = out.write_all(&bytes) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// Sends a request and puts the answer together.
    pub async fn turn(
        &self,
        request: WireRequest,
        tools: Arc<ToolSet>,
        options: Options,
        streamed: &mut Streamed<'_>,
    ) -> Result<Assembled, Box<Failure>> {
        let mut clock = Clock::start(self);
        let mut response = self.open(request, &clock).await?;
        let status = response.status;
        if !(200..300).contains(&status) {
            let body = self.read_all(&mut response, &mut clock).await?;
            return Err(Box::new(self.refusal(&response, &body)));
        }
        let result = match response.header("content-type") {
            Some(kind) if kind.to_ascii_lowercase().contains("text/html") => {
                let body = self.read_all(&mut response, &mut clock).await?;
                Err(Box::new(not_an_answer(&body)))
            }
            Some(_) | None => self.read_turn(&mut response, &mut clock, tools, options, streamed).await,
        };
        result.map_err(|mut failure| {
            failure.status = failure.status.or(Some(status));
            failure.request_id = failure.request_id.take().or_else(|| id_of(&response));
            failure
        })
    }

    async fn open(&self, request: WireRequest, clock: &Clock) -> Result<WireResponse, Box<Failure>> {
        let (at, kind) = clock.next();
        match timeout_at(at, self.transport.send(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(Box::new(of_transport(error, self))),
            Err(_) => Err(Box::new(timed_out(kind, self))),
        }
    }

    async fn next(&self, body: &mut dyn Body, clock: &Clock) -> Result<Option<Vec<u8>>, Box<Failure>> {
        let (at, kind) = clock.next();
        match timeout_at(at, body.next()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(Box::new(of_transport(error, self))),
            Err(_) => {
                body.abandon(End::Timeout(kind));
                Err(Box::new(timed_out(kind, self)))
            }
        }
    }

    async fn read_all(&self, response: &mut WireResponse, clock: &mut Clock) -> Result<String, Box<Failure>> {
        let mut bytes = Vec::new();
        let refused = !(200..300).contains(&response.status);
        while bytes.len() < MAX_ERROR_BODY {
            match self.next(response.body.as_mut(), clock).await {
                Ok(Some(more)) => bytes.extend(more),
                Ok(None) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                // A refusal says more than the connection that broke after it.
                Err(_) if refused => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Err(failure) => return Err(failure),
            }
            clock.last_data = Some(Instant::now());
        }
        response.body.abandon(End::Enough);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn refusal(&self, response: &WireResponse, body: &str) -> Failure {
        let classified =
            classify(self.quirks, Some(response.status), &response.headers, body, self.now.map(|now| now()));
        let words = match (classified.message.as_str(), response.header("location")) {
            (_, Some(place)) if (300..400).contains(&response.status) => {
                format!(
                    "answered {}: it redirects to {place}; use that as the base URL if you trust it",
                    response.status
                )
            }
            ("", _) => format!("answered {}", response.status),
            (words, _) => format!("answered {}: {words}", response.status),
        };
        Failure {
            status: Some(response.status),
            request_id: classified.request_id,
            retry_after: classified.retry_after,
            ..Failure::new(classified.class, crate::secret::mask_credentials(&words))
        }
    }

    fn of_frame(&self, frame: &ErrorFrame, response: &WireResponse) -> Failure {
        let classified = classify(self.quirks, frame.status, &response.headers, &frame.body, self.now.map(|now| now()));
        let words = if classified.message.is_empty() { "no reason" } else { &classified.message };
        Failure {
            status: frame.status.or(Some(response.status)),
            request_id: classified.request_id,
            retry_after: classified.retry_after,
            ..Failure::new(classified.class, format!("ended the response with an error: {words}"))
        }
    }

    async fn read_turn(
        &self,
        response: &mut WireResponse,
        clock: &mut Clock,
        tools: Arc<ToolSet>,
        options: Options,
        streamed: &mut Streamed<'_>,
    ) -> Result<Assembled, Box<Failure>> {
        let mut decoder = Decoder::new();
        let mut reading = Reading::new(tools.clone(), options.clone());
        let ending = loop {
            let (frames, at_end) = match self.next(response.body.as_mut(), clock).await {
                Ok(Some(bytes)) => {
                    clock.alive = true;
                    (decoder.push(&bytes), false)
                }
                Ok(None) => (decoder.finish(), true),
                Err(failure) => {
                    // An answer that was complete stays one when the connection breaks after it.
                    let end = reading.finish(Ending::Broken, streamed);
                    return end.map_err(|failed| Box::new(failure.after(*failed.partial)));
                }
            };
            let (step, has_data) = reading.take_all(frames);
            let over = match step {
                Step::More | Step::Data => None,
                Step::Done => Some(Ok(Ending::Done)),
                Step::Error(frame) => Some(Err(self.of_frame(&frame, response))),
                Step::Whole(body) => return self.whole(&body, tools, options, streamed, response),
                Step::TooLarge => Some(Err(Failure::new(
                    ErrorClass::Stream(StreamFault::TooLarge),
                    "sent a response that is too long",
                ))),
            };
            if has_data {
                clock.last_data = Some(Instant::now());
                clock.alive = false;
            }
            for delta in reading.deltas.drain(..) {
                streamed.push(delta);
            }
            match over {
                Some(Ok(ending)) => {
                    self.leave(response.body.as_mut()).await;
                    break ending;
                }
                Some(Err(failure)) => {
                    response.body.abandon(End::Enough);
                    return Err(Box::new(failure.after(reading.assembler.into_partial())));
                }
                None if at_end => break Ending::Eof,
                None => {}
            }
        };
        let no_events = reading.events == 0;
        reading.finish(ending, streamed).map_err(|failed| Box::new(self.of_failed(*failed, no_events, response)))
    }

    /// Reads on after `[DONE]` for a moment: at the end of its bytes a connection can be used again.
    async fn leave(&self, body: &mut dyn Body) {
        let until = Instant::now() + GRACE;
        loop {
            match timeout_at(until, body.next()).await {
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None) | Err(_)) => return,
                Err(_) => {
                    body.abandon(End::Enough);
                    return;
                }
            }
        }
    }

    fn of_failed(&self, failed: Failed, no_events: bool, response: &WireResponse) -> Failure {
        let failure = match failed.fault {
            Fault::Stream(StreamFault::Empty | StreamFault::NoFinish) if no_events => {
                Failure::new(ErrorClass::Stream(StreamFault::Empty), "sent an empty response")
            }
            Fault::Stream(fault) => Failure::new(ErrorClass::Stream(fault), fault_words(fault)),
            Fault::Overloaded => {
                Failure::new(ErrorClass::Overloaded { retry_after: None }, "ran out of resources while answering")
            }
            Fault::ContentFilter => Failure::new(ErrorClass::ContentFilter, "cut the answer by its content filter"),
            Fault::Error(frame) => self.of_frame(&frame, response),
            Fault::Broken => Failure::new(ErrorClass::Network, "broke the connection off"),
        };
        failure.after(*failed.partial)
    }

    fn whole(
        &self,
        body: &str,
        tools: Arc<ToolSet>,
        options: Options,
        streamed: &mut Streamed<'_>,
        response: &WireResponse,
    ) -> Result<Assembled, Box<Failure>> {
        let mut deltas = Vec::new();
        let result = from_body(body, tools, options, &mut deltas);
        for delta in deltas {
            streamed.push(delta);
        }
        result.map_err(|error| {
            Box::new(match error {
                BodyError::Frame(frame) => self.of_frame(&frame, response),
                BodyError::Failed(failed) => self.of_failed(failed, false, response),
                BodyError::NotJson(_) => not_an_answer(body),
            })
        })
    }
}

fn id_of(response: &WireResponse) -> Option<String> {
    ["x-request-id", "x-generation-id"].iter().find_map(|name| response.header(name)).map(str::to_owned)
}

/// A web page, or something else that no API says.
fn not_an_answer(body: &str) -> Failure {
    let trimmed = body.trim_start_matches('\u{feff}').trim_start();
    let shown: String = trimmed.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end = shown.char_indices().map(|(at, _)| at).take_while(|at| *at <= SHOWN_BODY).last().unwrap_or(0);
    let shown = crate::secret::mask_credentials(if shown.len() > SHOWN_BODY { &shown[..end] } else { &shown });
    let page = trimmed.starts_with('<');
    let words = if page { "answered with a web page" } else { "sent an invalid response" };
    Failure {
        // A web page is a wrong address or somebody's proxy: it will not be another one the next time.
        last: page,
        ..Failure::new(ErrorClass::Stream(StreamFault::NotSse), format!("{words}: {shown}"))
    }
}

fn fault_words(fault: StreamFault) -> &'static str {
    match fault {
        StreamFault::NoFinish => "ended the answer in the middle",
        StreamFault::Empty => "sent an empty response",
        StreamFault::MalformedCall => "announced a tool call and sent none that can be read",
        StreamFault::NotSse => "sent a response that is not an event stream",
        StreamFault::TagLeak => "sent a tag of the model's own protocol as text",
        StreamFault::TooLarge => "sent a response that is too long",
    }
}

/// A stream as far as it has been read.
struct Reading {
    assembler: Assembler,
    /// The status that a comment of DashScope gave the next event.
    status: Option<u16>,
    events: u64,
    deltas: Vec<super::Delta>,
}

enum Step {
    More,
    Data,
    Done,
    Error(ErrorFrame),
    Whole(String),
    TooLarge,
}

impl Reading {
    fn new(tools: Arc<ToolSet>, options: Options) -> Reading {
        let assembler = Assembler::new(tools, options).cutting_repetition();
        Reading { assembler, status: None, events: 0, deltas: Vec::new() }
    }

    /// Takes frames up to one that ends the answer; tells that one, and whether there was data before it.
    fn take_all(&mut self, frames: impl IntoIterator<Item = Frame>) -> (Step, bool) {
        let mut has_data = false;
        for frame in frames {
            match self.take(frame) {
                Step::More => {}
                Step::Data => has_data = true,
                last @ (Step::Done | Step::Error(_) | Step::Whole(_) | Step::TooLarge) => return (last, has_data),
            }
        }
        (Step::More, has_data)
    }

    fn take(&mut self, frame: Frame) -> Step {
        match frame {
            Frame::Comment(_) => Step::More,
            Frame::HttpStatus(status) => {
                self.status = Some(status);
                Step::More
            }
            Frame::Body(body) => Step::Whole(body),
            Frame::TooLarge => Step::TooLarge,
            Frame::Event { event, data } => {
                self.events += 1;
                let status = self.status.take();
                if let Some(refused) = status.filter(|status| *status >= 400) {
                    return Step::Error(ErrorFrame { status: Some(refused), body: data });
                }
                match self.assembler.push_event(event.as_deref(), &data, &mut self.deltas) {
                    Err(frame) => Step::Error(frame),
                    Ok(()) if self.assembler.done() => Step::Done,
                    Ok(()) => Step::Data,
                }
            }
        }
    }

    fn finish(mut self, ending: Ending, streamed: &mut Streamed<'_>) -> Result<Assembled, Box<Failed>> {
        let result = self.assembler.finish(ending, &mut self.deltas);
        for delta in self.deltas {
            streamed.push(delta);
        }
        result.map_err(Box::new)
    }
}

/// Says whether an answer was cut by its output limit before it called anything.
pub fn is_cut(assembled: &Assembled) -> bool {
    assembled.finish == Some(Finish::Length) && assembled.calls.is_empty()
}
