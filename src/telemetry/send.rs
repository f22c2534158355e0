//! Sends spans and measurements, from a thread of its own: a server that hangs costs the run nothing until its end, and
//! there no more than the configured time.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    Compression, MetricExporter, Protocol as Wire, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::runtime::Runtime;

use super::config::{self, Config, Protocol, Target, Targets};
use super::metrics::{Instruments, Measurement};
use crate::model::trust;

/// How long spans wait for others, as the specification's default has it.
const GATHERED: Duration = Duration::from_secs(5);

/// The most spans in one report.
const BATCH: usize = 512;

/// The most messages that wait for a slow server; more are dropped.
const QUEUE: usize = 2_048;

/// The longest answer of a server that is read.
const ANSWER: usize = 64 << 10;

enum Message {
    Made(Vec<SpanData>, Vec<Measurement>),
    End(SyncSender<()>),
}

/// The other end of the thread.
#[derive(Debug)]
pub(super) struct Sender {
    queue: SyncSender<Message>,
    state: Arc<Mutex<State>>,
    last_report: Duration,
}

/// What went wrong so far.
#[derive(Debug, Default)]
struct State {
    dropped: usize,
    problem: Option<String>,
}

impl Sender {
    /// Starts the thread. Without one nothing is reported, which is said at the end.
    pub(super) fn start(config: Config) -> Sender {
        let (queue, messages) = sync_channel(QUEUE);
        let state = Arc::new(Mutex::new(State::default()));
        let (shared, last_report) = (Arc::clone(&state), config.last_report);
        let work = move || {
            let mut worker = match Worker::new(&config, &shared) {
                Ok(worker) => worker,
                Err(problem) => return note(&shared, problem),
            };
            let mut next = Instant::now() + GATHERED;
            loop {
                match messages.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(Message::Made(spans, measurements)) => worker.take(spans, &measurements),
                    Ok(Message::End(done)) => {
                        worker.end();
                        let _waits_no_more = done.send(());
                        return;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return worker.end(),
                }
                if worker.spans.len() >= BATCH || next <= Instant::now() {
                    worker.send_spans();
                    next = Instant::now() + GATHERED;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("telemetry".to_owned()).spawn(work) {
            note(&state, format!("no thread could be started: {error}"));
        }
        Sender { queue, state, last_report }
    }

    /// Hands over what was made; never waits.
    pub(super) fn send(&self, spans: Vec<SpanData>, measurements: Vec<Measurement>) {
        if spans.is_empty() && measurements.is_empty() {
            return;
        }
        let count = spans.len();
        match self.queue.try_send(Message::Made(spans, measurements)) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => self.state().dropped += count,
        }
    }

    /// Waits until everything is sent, at most as long as the configuration says; returns what went wrong.
    pub(super) fn finish(&self) -> Option<String> {
        let (done, ended) = sync_channel(1);
        let deadline = Instant::now() + self.last_report;
        let mut message = Message::End(done);
        let is_told = loop {
            match self.queue.try_send(message) {
                Ok(()) => break true,
                Err(TrySendError::Disconnected(_)) => break false,
                Err(TrySendError::Full(_)) if Instant::now() >= deadline => break true,
                Err(TrySendError::Full(again)) => {
                    message = again;
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let is_late = is_told && matches!(ended.recv_timeout(left), Err(RecvTimeoutError::Timeout));
        let state = self.state();
        match (&state.problem, is_late, state.dropped) {
            (Some(problem), ..) => Some(problem.clone()),
            (None, true, _) => Some(format!("no answer within {} s", self.last_report.as_secs_f32())),
            (None, false, 0) => None,
            (None, false, dropped) => Some(format!("{dropped} spans were dropped: the server is too slow")),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the first problem: the ones after it are often its consequences.
fn note(state: &Mutex<State>, problem: String) {
    state.lock().unwrap_or_else(PoisonError::into_inner).problem.get_or_insert(problem);
}

/// Where reports go, and what takes them there.
type Reached = (Target, Arc<dyn HttpClient>);

/// What the thread works with.
struct Worker {
    runtime: Runtime,
    spans: Vec<SpanData>,
    traces: Option<SpanExporter>,
    metrics: Option<(SdkMeterProvider, Instruments)>,
}

impl Worker {
    fn new(config: &Config, state: &Arc<Mutex<State>>) -> Result<Worker, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (traces, metrics) = match &config.targets {
            Targets::Servers { traces, metrics } => {
                let client = |target: &Option<Target>| -> Result<Option<Reached>, String> {
                    target.as_ref().map(|target| Ok((target.clone(), web_client(target, state)?))).transpose()
                };
                (client(traces)?, client(metrics)?)
            }
            Targets::File(path) => {
                let (target, client) = file_client(path, state)?;
                (Some((target.clone(), Arc::clone(&client))), Some((target, client)))
            }
        };
        let resource = resource();
        let traces = traces.map(|(target, client)| span_exporter(&target, client, &resource)).transpose()?;
        let metrics = metrics.map(|(target, client)| meter(&target, client, resource)).transpose()?;
        Ok(Worker { runtime, spans: Vec::new(), traces, metrics })
    }

    fn take(&mut self, spans: Vec<SpanData>, measurements: &[Measurement]) {
        if self.traces.is_some() {
            self.spans.extend(spans);
        }
        if let Some((_, instruments)) = &self.metrics {
            measurements.iter().for_each(|measurement| instruments.record(measurement));
        }
    }

    fn send_spans(&mut self) {
        let Some(exporter) = &self.traces else { return };
        while !self.spans.is_empty() {
            let rest = self.spans.split_off(self.spans.len().min(BATCH));
            let batch = std::mem::replace(&mut self.spans, rest);
            // The client has noted what went wrong, in words for people.
            let _noted = self.runtime.block_on(exporter.export(batch));
        }
    }

    fn end(&mut self) {
        // Both at once: a server that hangs takes the time of one.
        let metrics = self.metrics.take();
        let counted = std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            let _noted = metrics.map(|(provider, _)| provider.shutdown());
        });
        self.send_spans();
        let _ended = counted.map(std::thread::JoinHandle::join);
    }
}

fn sent_to<B: WithExportConfig + WithHttpConfig>(builder: B, target: &Target, client: Arc<dyn HttpClient>) -> B {
    let protocol = match target.protocol {
        Protocol::Protobuf => Wire::HttpBinary,
        Protocol::Json => Wire::HttpJson,
    };
    let builder = builder
        .with_shared_http_client(client)
        .with_endpoint(target.url.as_str())
        .with_protocol(protocol)
        .with_timeout(target.timeout);
    if target.gzip { builder.with_compression(Compression::Gzip) } else { builder }
}

fn span_exporter(target: &Target, client: Arc<dyn HttpClient>, resource: &Resource) -> Result<SpanExporter, String> {
    let builder = sent_to(SpanExporter::builder().with_http(), target, client);
    let mut exporter = builder.build().map_err(|error| error.to_string())?;
    exporter.set_resource(resource);
    Ok(exporter)
}

fn meter(
    target: &Target,
    client: Arc<dyn HttpClient>,
    resource: Resource,
) -> Result<(SdkMeterProvider, Instruments), String> {
    let builder = sent_to(MetricExporter::builder().with_http(), target, client);
    let exporter = builder.build().map_err(|error| error.to_string())?;
    let reader = PeriodicReader::builder(exporter).build();
    let provider = SdkMeterProvider::builder().with_resource(resource).with_reader(reader).build();
    let scope = opentelemetry::InstrumentationScope::builder("qwen")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(super::SCHEMA);
    let instruments = Instruments::new(&provider.meter_with_scope(scope.build()));
    Ok((provider, instruments))
}

/// Describes this program, with what `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say.
fn resource() -> Resource {
    use opentelemetry::{Key, KeyValue, Value};
    let found = Resource::builder().build();
    let name = found.get(&Key::from_static_str("service.name")).map(|name: Value| name.to_string());
    let builder = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    match name.filter(|name| !name.starts_with("unknown_service")) {
        Some(_) => builder.build(),
        None => builder.with_service_name("qwen").build(),
    }
}

/// Sends over HTTP, on threads that have no runtime of their own.
#[derive(Debug)]
struct Web {
    client: reqwest::Client,
    timeout: Duration,
    place: String,
    state: Arc<Mutex<State>>,
}

fn web_client(target: &Target, state: &Arc<Mutex<State>>) -> Result<Arc<dyn HttpClient>, String> {
    trust::install_crypto();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("qwen-run/", env!("CARGO_PKG_VERSION")))
        // A redirect would carry the report to a place that nobody named.
        .redirect(reqwest::redirect::Policy::none())
        // Each thread has a runtime of its own: no connection outlives a report.
        .pool_max_idle_per_host(0);
    if config::is_loopback(&target.url) {
        builder = builder.no_proxy();
    }
    if target.url.scheme() == "http" {
        builder = builder.tls_certs_only([]);
    } else {
        let unusable = |file: &Path, problem| format!("OTEL_EXPORTER_OTLP_CERTIFICATE {}: {problem}", file.display());
        let read = |file: &Path| trust::read_certificates(file).map_err(|problem| unusable(file, problem));
        let certificates = target.certificates.as_deref().map(read).transpose()?.unwrap_or_default();
        let trust = trust::trust(certificates).map_err(|error| error.to_string())?;
        builder = builder.tls_backend_preconfigured(trust);
    }
    let client = builder.build().map_err(|error| error.to_string())?;
    Ok(Arc::new(Web { client, timeout: target.timeout, place: target.shown(), state: Arc::clone(state) }))
}

impl Web {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = self.client.execute(reqwest::Request::try_from(request)?);
        let mut response = tokio::time::timeout(self.timeout, request).await??;
        let mut answer = Response::builder().status(response.status());
        if let Some(after) = response.headers().get("retry-after") {
            answer = answer.header("retry-after", after);
        }
        let status = response.status();
        if !status.is_success() {
            note(&self.state, format!("{} answers {status}", self.place));
        }
        let read = async {
            let mut body = Vec::new();
            while let Some(piece) = response.chunk().await? {
                body.extend_from_slice(&piece);
                if body.len() > ANSWER {
                    return Err(HttpError::from("the answer is too long"));
                }
            }
            Ok(body)
        };
        let body = tokio::time::timeout(self.timeout, read).await??;
        if status.is_success() {
            // A report that came through later makes an earlier refusal harmless.
            self.state.lock().unwrap_or_else(PoisonError::into_inner).problem = None;
        }
        Ok(answer.body(Bytes::from(body))?)
    }
}

#[async_trait::async_trait]
impl HttpClient for Web {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = match tokio::runtime::Handle::try_current() {
            Ok(_) => self.send(request).await,
            // The reader of the metrics has a thread without a runtime.
            Err(_) => match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(self.send(request)),
                Err(error) => Err(error.into()),
            },
        };
        sent.inspect_err(|error| note(&self.state, format!("{}: {}", self.place, crate::model::http::causes(&**error))))
    }
}

/// Writes each report as a line of JSON.
#[derive(Debug)]
struct Lines {
    file: Mutex<File>,
    name: String,
    state: Arc<Mutex<State>>,
}

fn file_client(path: &Path, state: &Arc<Mutex<State>>) -> Result<Reached, String> {
    let unusable = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = File::options().create(true).append(true).open(path).map_err(unusable)?;
    let target = Target {
        url: url::Url::parse("http://localhost/file").expect("a constant"),
        protocol: Protocol::Json,
        gzip: false,
        timeout: Duration::from_secs(10),
        certificates: None,
    };
    let lines = Lines { file: Mutex::new(file), name: path.display().to_string(), state: Arc::clone(state) };
    Ok((target, Arc::new(lines)))
}

#[async_trait::async_trait]
impl HttpClient for Lines {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // The exporter indents what it writes.
        let report: serde_json::Value = serde_json::from_slice(request.body())?;
        let mut line = serde_json::to_vec(&report)?;
        line.push(b'\n');
        let written = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
        written.inspect_err(|error| note(&self.state, format!("{}: {error}", self.name)))?;
        Ok(Response::new(Bytes::from_static(b"{}")))
    }
}
