//! Carries the trace of a run to what the run starts: the ids of its spans, and the context that programs and servers get.
//!
//! An id is made from the trace and the name of what the span is about, so whoever starts a program knows the id of a
//! span that is reported later, without asking anybody.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest as _, Sha256};

/// The trace of a run, with the context of <https://www.w3.org/TR/trace-context/>.
#[derive(Debug)]
pub struct Trace {
    id: u128,
    /// The run's own number: runs in one trace must not share spans.
    run: u128,
    parent: Option<u64>,
    sampled: bool,
    state: String,
    /// Whether others are told of it (`OTEL_PROPAGATORS`).
    propagates: bool,
    /// The span of the request that is under way, else of the agent.
    open: Mutex<u64>,
    checks: AtomicU32,
}

/// A parent that was named by whoever started this run (`TRACEPARENT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The trace.
    pub trace: u128,
    /// The span.
    pub span: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

impl Parent {
    /// Parses a `traceparent`; `None` where it is not valid, in which case the specification asks for a new trace.
    pub fn parse(text: &str) -> Option<Parent> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        // Later versions may append fields.
        let ends = version != "00" || parts.next().is_none();
        if !hex(version, 2) || version == "ff" || !hex(trace, 32) || !hex(span, 16) || !hex(flags, 2) || !ends {
            return None;
        }
        let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        (trace != 0 && span != 0).then_some(Parent { trace, span, sampled })
    }
}

impl Trace {
    /// Makes the trace of a run: its parent's, else a new one whose id is `run`, the run's own number.
    ///
    /// `state` is passed on unchanged with the parent's trace (`TRACESTATE`).
    pub fn new(parent: Option<Parent>, run: u128, sampled: bool, state: &str, propagates: bool) -> Trace {
        let id = parent.map_or(run.max(1), |parent| parent.trace);
        let state = if parent.is_some() && is_printable(state) { state.trim().to_owned() } else { String::new() };
        let trace = Trace {
            id,
            run,
            parent: parent.map(|parent| parent.span),
            sampled,
            state,
            propagates,
            open: Mutex::new(0),
            checks: AtomicU32::new(0),
        };
        trace.set_open(trace.root());
        trace
    }

    /// Returns the trace's id.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Returns the id as 32 hexadecimal digits.
    pub fn id_text(&self) -> String {
        format!("{:032x}", self.id)
    }

    /// Returns the span that the run is a part of.
    pub fn parent(&self) -> Option<u64> {
        self.parent
    }

    /// Tells whether spans are recorded; the context is passed on either way.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// Returns the `tracestate`.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Returns the id of the span of this name.
    pub fn span(&self, name: &str) -> u64 {
        let mut hash = Sha256::new();
        hash.update(self.id.to_be_bytes());
        hash.update(self.run.to_be_bytes());
        hash.update(name.as_bytes());
        let bytes: [u8; 8] = hash.finalize()[..8].try_into().expect("eight bytes of a digest");
        u64::from_be_bytes(bytes).max(1)
    }

    /// Returns the id of the run's own span.
    pub fn root(&self) -> u64 {
        self.span("run")
    }

    /// Returns the id of a call's span.
    pub fn call(&self, id: &str) -> u64 {
        self.span(&format!("call {id}"))
    }

    /// Returns the id of the span of the n-th check, from 1.
    pub fn check(&self, number: u32) -> u64 {
        self.span(&format!("check {number}"))
    }

    /// Begins a check and returns the id of its span. Checks are reported in the order in which they begin.
    pub fn begin_check(&self) -> u64 {
        self.check(self.checks.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Sets the span of the request that is under way.
    pub fn set_open(&self, span: u64) {
        *self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = span;
    }

    /// Returns the headers of a request to a server, in the span that is under way.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let open = *self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.context(open).into_iter().zip(["traceparent", "tracestate"]).map(|(value, name)| (name, value)).collect()
    }

    /// Returns the variables of a program that is started in a span.
    pub fn variables(&self, span: u64) -> Vec<(&'static str, String)> {
        self.context(span).into_iter().zip(["TRACEPARENT", "TRACESTATE"]).map(|(value, name)| (name, value)).collect()
    }

    fn context(&self, span: u64) -> Vec<String> {
        if !self.propagates {
            return Vec::new();
        }
        let parent = format!("00-{:032x}-{span:016x}-{:02x}", self.id, u8::from(self.sampled));
        let state = Some(self.state.clone()).filter(|state| !state.is_empty());
        std::iter::once(parent).chain(state).collect()
    }
}

/// A `tracestate` goes into headers and variables as it is.
fn is_printable(text: &str) -> bool {
    text.len() <= 512 && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_parent_is_read_as_the_specification_has_it() {
        let parent = Parent::parse(PARENT).unwrap();
        assert_eq!((parent.span, parent.sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert!(!Parent::parse(&PARENT.replace("-01", "-00")).unwrap().sampled);
        assert!(Parent::parse(&PARENT.replacen("00-", "cc-", 1).replace("-01", "-01-more")).is_some());
        for wrong in [
            "",
            "00",
            &PARENT.to_uppercase(),
            &PARENT.replacen("00-", "ff-", 1),
            &format!("{PARENT}-more"),
            &PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &PARENT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &PARENT.replace("4bf9", "4bg9"),
        ] {
            assert_eq!(Parent::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn programs_and_servers_are_told_the_span_that_they_are_started_in() {
        let trace = Trace::new(Parent::parse(PARENT), 7, true, "a=1,b=2", true);
        assert_eq!(trace.id_text(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let call = trace.call("c1");
        let expected = format!("00-{}-{call:016x}-01", trace.id_text());
        assert_eq!(trace.variables(call), [("TRACEPARENT", expected), ("TRACESTATE", "a=1,b=2".to_owned())]);
        trace.set_open(call);
        assert_eq!(trace.headers()[0].1, trace.variables(call)[0].1);
        let silent = Trace::new(None, 7, true, "a=1", false);
        assert!(silent.headers().is_empty() && silent.variables(1).is_empty());
        assert_eq!(Trace::new(None, 7, true, "a=1", true).state(), "");
    }

    #[test]
    fn two_runs_in_one_trace_have_different_spans() {
        let run = |number| Trace::new(Parent::parse(PARENT), number, true, "", true);
        assert_eq!(run(1).id(), run(2).id());
        assert_ne!(run(1).root(), run(2).root());
    }
}
