//! Decides from variables, settings and flags whether a run is reported, what of it, and to where.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use opentelemetry_sdk::trace::Sampler;
use url::Url;

use crate::base::trace::{Parent, Trace};

/// Where reports go when they are asked for and nothing names a place.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";

/// How long the end of a run waits for the last report, if `OTEL_BSP_EXPORT_TIMEOUT` does not say.
const LAST_REPORT: Duration = Duration::from_secs(3);

/// How long one report may take, if `OTEL_EXPORTER_OTLP_TIMEOUT` does not say.
const ONE_REPORT: Duration = Duration::from_secs(10);

/// What settings and flags say; the settings of an untrusted checkout are not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// `telemetry.enabled`, `--telemetry`.
    pub enabled: Option<bool>,
    /// `telemetry.otlpEndpoint`, `--telemetry-otlp-endpoint`.
    pub endpoint: Option<String>,
    /// `telemetry.otlpProtocol`, `--telemetry-otlp-protocol`.
    pub protocol: Option<String>,
    /// `telemetry.outfile`, `--telemetry-outfile`.
    pub outfile: Option<String>,
    /// `telemetry.logPrompts`, `--telemetry-log-prompts`.
    pub contents: Option<bool>,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`.
    #[default]
    Protobuf,
    /// `http/json`.
    Json,
}

/// Where the reports of one signal go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The URL, complete.
    pub url: Url,
    /// How they are written.
    pub protocol: Protocol,
    /// Whether they are compressed.
    pub gzip: bool,
    /// How long one may take.
    pub timeout: Duration,
    /// A file of certificates to trust, as PEM.
    pub certificates: Option<PathBuf>,
}

impl Target {
    /// Returns the URL as it may be shown: what follows its path may be a key.
    pub fn shown(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        crate::secret::mask_credentials(url.as_str())
    }
}

/// Where everything goes.
#[expect(clippy::large_enum_variant, reason = "a run has one of it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// To servers; a signal without one is not reported.
    Servers {
        /// Spans.
        traces: Option<Target>,
        /// Metrics.
        metrics: Option<Target>,
    },
    /// Into a file, one JSON object a line.
    File(PathBuf),
}

impl Targets {
    /// Names what is reported, each with where to.
    pub fn places(&self) -> Vec<(&'static str, String)> {
        match self {
            Targets::File(path) => vec![("traces and metrics", path.display().to_string())],
            Targets::Servers { traces, metrics } => [("traces", traces), ("metrics", metrics)]
                .into_iter()
                .filter_map(|(signal, target)| Some((signal, target.as_ref()?.shown())))
                .collect(),
        }
    }
}

/// Returns the variables that name headers of reports, each with the names of its headers: their values are secrets.
pub fn headers(variables: &Variables) -> Vec<(String, Vec<String>)> {
    let names =
        |text: &str| text.split(',').filter_map(|pair| Some(pair.split_once('=')?.0.trim().to_owned())).collect();
    let all = ["", "TRACES", "METRICS"].map(|signal| of_signal(signal, "HEADERS"));
    all.into_iter().filter_map(|name| variable(variables, &name).map(names).map(|names| (name, names))).collect()
}

/// How a run is reported.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to.
    pub targets: Targets,
    /// Whether reports contain what was said, read and run, paths included.
    pub contents: bool,
    /// How long the end of the run waits for the last report.
    pub last_report: Duration,
    sampler: Sampler,
    parent: Option<Parent>,
    state: String,
    propagates: bool,
}

/// Why the run cannot be reported as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TelemetryError {
    /// The protocol is not spoken here.
    #[error("{from}: the protocol `{protocol}` is not supported; http/protobuf and http/json are")]
    Protocol {
        /// The variable, setting or flag.
        from: String,
        /// What it says.
        protocol: String,
    },
    /// Not the URL of a server.
    #[error("{from}: `{url}` is not a valid endpoint: {problem}")]
    Endpoint {
        /// The variable, setting or flag.
        from: String,
        /// What it says, credentials masked.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// Plain http beyond this machine.
    #[error("{from}: `{url}` would receive reports unencrypted; use https, or allow it with --allow-http")]
    PlainHttp {
        /// The variable, setting or flag.
        from: String,
        /// What it says.
        url: String,
    },
}

/// The variables of the process. `.env` files are not among them: the exporter would send to wherever a checkout says.
type Variables = BTreeMap<String, String>;

fn variable<'v>(variables: &'v Variables, name: &str) -> Option<&'v str> {
    variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

fn is_true(variables: &Variables, name: &str) -> bool {
    variable(variables, name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// A value and where it is from, for messages.
type From = (String, String);

impl Config {
    /// Decides whether and how a run is reported; `None` where nobody asked for it.
    ///
    /// `flags` count before the variables, these before `settings`. `warnings` gets what is ignored.
    pub fn resolve(
        variables: &Variables,
        flags: &Wishes,
        settings: &Wishes,
        allow_http: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Config>, TelemetryError> {
        let names_endpoint =
            SIGNALS.iter().chain(&[""]).any(|signal| variable(variables, &endpoint_variable(signal)).is_some());
        let asked = flags.enabled.unwrap_or(
            flags.endpoint.is_some() || flags.outfile.is_some() || names_endpoint || settings.enabled == Some(true),
        );
        if !asked || is_true(variables, "OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let everything = flags.enabled == Some(true) || flags.endpoint.is_some() || settings.enabled == Some(true);
        let named = Named { variables, flags, settings, allow_http, everything };
        let outfile = flags.outfile.as_ref().or(settings.outfile.as_ref().filter(|_| !names_endpoint));
        let targets = match outfile {
            Some(file) => Targets::File(PathBuf::from(file)),
            None => Targets::Servers {
                traces: named.target("TRACES", "v1/traces", warnings)?,
                metrics: named.target("METRICS", "v1/metrics", warnings)?,
            },
        };
        if targets == (Targets::Servers { traces: None, metrics: None }) {
            return Ok(None);
        }
        let last_report = milliseconds(variables, "OTEL_BSP_EXPORT_TIMEOUT").unwrap_or(LAST_REPORT);
        let captures = variable(variables, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
            .map(|value| value.eq_ignore_ascii_case("true"));
        Ok(Some(Config {
            targets,
            contents: flags.contents.or(captures).or(settings.contents).unwrap_or(false),
            last_report,
            sampler: sampler(variables, warnings),
            parent: variable(variables, "TRACEPARENT").and_then(Parent::parse),
            state: variable(variables, "TRACESTATE").unwrap_or_default().to_owned(),
            propagates: propagates(variables, warnings),
        }))
    }

    /// Returns the trace of a run whose own number this is.
    pub fn trace(&self, run: u128) -> Trace {
        let is_sampled = |id| is_sampled(&self.sampler, self.parent, id);
        Trace::new(self.parent, run, is_sampled, &self.state, self.propagates)
    }
}

const SIGNALS: [&str; 2] = ["TRACES", "METRICS"];

fn endpoint_variable(signal: &str) -> String {
    of_signal(signal, "ENDPOINT")
}

/// Returns the name of an exporter's variable: a signal's own, or the general one.
fn of_signal(signal: &str, what: &str) -> String {
    let own = if signal.is_empty() { String::new() } else { format!("{signal}_") };
    format!("OTEL_EXPORTER_OTLP_{own}{what}")
}

fn milliseconds(variables: &Variables, name: &str) -> Option<Duration> {
    variable(variables, name).and_then(|value| value.parse().ok()).map(Duration::from_millis)
}

/// Where values are looked for.
struct Named<'a> {
    variables: &'a Variables,
    flags: &'a Wishes,
    settings: &'a Wishes,
    allow_http: bool,
    /// Both signals are asked for, whatever has an endpoint.
    everything: bool,
}

impl Named<'_> {
    /// Returns where a signal goes; `None` where it is not reported.
    fn target(&self, signal: &str, path: &str, warnings: &mut Vec<String>) -> Result<Option<Target>, TelemetryError> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        match variable(self.variables, &exporter) {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                warnings
                    .push(format!("{exporter}={other} is not supported: {} are not reported", signal.to_lowercase()));
                return Ok(None);
            }
        }
        let Some((from, url)) = self.endpoint(signal, path) else { return Ok(None) };
        let of_variables = |what: &str| {
            let own = of_signal(signal, what);
            let general = of_signal("", what);
            [own, general].into_iter().find_map(|name| Some((variable(self.variables, &name)?.to_owned(), name)))
        };
        Ok(Some(Target {
            url: self.checked(&from, &url)?,
            protocol: self.protocol(of_variables("PROTOCOL"))?,
            gzip: of_variables("COMPRESSION").is_some_and(|(value, _)| value == "gzip"),
            timeout: of_variables("TIMEOUT")
                .and_then(|(value, _)| value.parse().ok())
                .map_or(ONE_REPORT, Duration::from_millis),
            certificates: of_variables("CERTIFICATE").map(|(value, _)| PathBuf::from(value)),
        }))
    }

    /// Returns the complete URL of a signal, and who names it.
    fn endpoint(&self, signal: &str, path: &str) -> Option<From> {
        let below = |base: &str| format!("{}/{path}", base.trim_end_matches('/'));
        if let Some(base) = &self.flags.endpoint {
            return Some(("--telemetry-otlp-endpoint".to_owned(), below(base)));
        }
        // A signal's own endpoint is used as it stands.
        let own = endpoint_variable(signal);
        if let Some(url) = variable(self.variables, &own) {
            return Some((own, url.to_owned()));
        }
        let general = endpoint_variable("");
        if let Some(base) = variable(self.variables, &general) {
            return Some((general, below(base)));
        }
        if let Some(base) = self.settings.endpoint.as_ref().filter(|_| self.everything) {
            return Some(("telemetry.otlpEndpoint".to_owned(), below(base)));
        }
        self.everything.then(|| ("the default endpoint".to_owned(), below(DEFAULT_ENDPOINT)))
    }

    fn protocol(&self, of_variables: Option<(String, String)>) -> Result<Protocol, TelemetryError> {
        let flag = self.flags.protocol.clone().map(|value| (value, "--telemetry-otlp-protocol".to_owned()));
        let setting = self.settings.protocol.clone().map(|value| (value, "telemetry.otlpProtocol".to_owned()));
        match flag.or(of_variables).or(setting) {
            None => Ok(Protocol::default()),
            Some((value, from)) => match value.as_str() {
                // `http` is Qwen Code's word.
                "http/protobuf" | "http" => Ok(Protocol::Protobuf),
                "http/json" => Ok(Protocol::Json),
                _ => Err(TelemetryError::Protocol { from, protocol: value }),
            },
        }
    }

    fn checked(&self, from: &str, text: &str) -> Result<Url, TelemetryError> {
        let invalid = |problem: &str| TelemetryError::Endpoint {
            from: from.to_owned(),
            url: crate::secret::mask_credentials(text),
            problem: problem.to_owned(),
        };
        let url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(invalid("it must begin with http:// or https:// and a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("it contains credentials; put them into OTEL_EXPORTER_OTLP_HEADERS"));
        }
        if url.scheme() == "http" && !is_loopback(&url) && !self.allow_http {
            return Err(TelemetryError::PlainHttp { from: from.to_owned(), url: url.to_string() });
        }
        Ok(url)
    }
}

/// Tells whether a URL leads to this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}

fn sampler(variables: &Variables, warnings: &mut Vec<String>) -> Sampler {
    let ratio = || {
        let given = variable(variables, "OTEL_TRACES_SAMPLER_ARG").and_then(|value| value.parse::<f64>().ok());
        Sampler::TraceIdRatioBased(given.unwrap_or(1.0))
    };
    match variable(variables, "OTEL_TRACES_SAMPLER").unwrap_or("parentbased_always_on") {
        "always_on" => Sampler::AlwaysOn,
        "always_off" => Sampler::AlwaysOff,
        "traceidratio" => ratio(),
        "parentbased_always_on" => Sampler::ParentBased(Box::new(Sampler::AlwaysOn)),
        "parentbased_always_off" => Sampler::ParentBased(Box::new(Sampler::AlwaysOff)),
        "parentbased_traceidratio" => Sampler::ParentBased(Box::new(ratio())),
        other => {
            warnings.push(format!("OTEL_TRACES_SAMPLER={other} is not supported: parentbased_always_on is used"));
            Sampler::ParentBased(Box::new(Sampler::AlwaysOn))
        }
    }
}

fn is_sampled(sampler: &Sampler, parent: Option<Parent>, trace: u128) -> bool {
    use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceContextExt as _, TraceFlags, TraceId, TraceState};
    use opentelemetry_sdk::trace::{SamplingDecision, ShouldSample as _};
    let id = TraceId::from_bytes(trace.to_be_bytes());
    let context = parent.map(|parent| {
        let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let span = SpanId::from_bytes(parent.span.to_be_bytes());
        opentelemetry::Context::new().with_remote_span_context(SpanContext::new(
            id,
            span,
            flags,
            true,
            TraceState::NONE,
        ))
    });
    let result = sampler.should_sample(context.as_ref(), id, "run", &SpanKind::Internal, &[], &[]);
    result.decision == SamplingDecision::RecordAndSample
}

/// Tells whether programs and servers are told the trace: `tracecontext` is among the propagators.
fn propagates(variables: &Variables, warnings: &mut Vec<String>) -> bool {
    let Some(listed) = variable(variables, "OTEL_PROPAGATORS") else { return true };
    let names: Vec<&str> = listed.split(',').map(str::trim).collect();
    for name in names.iter().filter(|name| !["tracecontext", "baggage", "none"].contains(name)) {
        warnings.push(format!("OTEL_PROPAGATORS: `{name}` is not supported; tracecontext is"));
    }
    names.contains(&"tracecontext")
}
