//! Carries the trace of a run to what the run starts: the ids of its spans, and the context that programs and servers get.
//!
//! An id is made from the trace and the name of what the span is about, so whoever starts a program knows the id of a
//! span that is reported later, without asking anybody.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest as _, Sha256};

/// What a program or a server is told of a span, as <https://www.w3.org/TR/trace-context/> has it: nothing without a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    parent: Option<String>,
    state: Option<String>,
}

impl Context {
    /// Tells nothing.
    pub const NONE: Context = Context { parent: None, state: None };

    /// Returns the headers of a request, which are also the keys of MCP's `_meta`.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("traceparent", &self.parent), ("tracestate", &self.state)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// Returns the variables of a program.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> {
        self.headers().map(|(name, value)| (name.to_ascii_uppercase(), value.to_owned()))
    }
}

/// The trace of a run.
#[derive(Debug)]
pub struct Trace {
    id: u128,
    /// The run's own number: runs in one trace must not share spans.
    run: u128,
    root: u64,
    parent: Option<u64>,
    /// What the run belongs to, if that is in another trace.
    linked: Option<Parent>,
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
    /// `is_sampled` says whether spans of the trace of this id are recorded; `state` is passed on unchanged with the
    /// parent's trace (`TRACESTATE`).
    pub fn new(
        parent: Option<Parent>,
        run: u128,
        is_sampled: impl FnOnce(u128) -> bool,
        state: &str,
        propagates: bool,
    ) -> Trace {
        let id = parent.map_or(run.max(1), |parent| parent.trace);
        let state = if parent.is_some() && is_printable(state) { state.trim().to_owned() } else { String::new() };
        let root = span_of(id, run, "run");
        Trace {
            id,
            run,
            root,
            parent: parent.map(|parent| parent.span),
            linked: None,
            sampled: is_sampled(id),
            state,
            propagates,
            open: Mutex::new(root),
            checks: AtomicU32::new(0),
        }
    }

    /// Makes the trace of a run that is a part of this one: its root is a child of this root.
    pub fn child(&self, run: u128) -> Trace {
        let parent = Parent { trace: self.id, span: self.root, sampled: self.sampled };
        Trace::new(Some(parent), run, |_| self.sampled, &self.state, self.propagates)
    }

    /// Makes a trace of its own for a run that is a part of this one: its root is linked to this root. It is recorded if
    /// this one is.
    pub fn linked_to_this(&self, run: u128) -> Trace {
        let linked = Parent { trace: self.id, span: self.root, sampled: self.sampled };
        let own = Trace::new(None, run, |_| self.sampled, "", self.propagates);
        Trace { linked: Some(linked), ..own }
    }

    /// Returns the span in another trace that the run belongs to.
    pub fn linked(&self) -> Option<Parent> {
        self.linked
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
        span_of(self.id, self.run, name)
    }

    /// Returns the id of the run's own span.
    pub fn root(&self) -> u64 {
        self.root
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

    /// Returns what a server is told in the span that is under way.
    pub fn context_of_open(&self) -> Context {
        self.context(*self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Returns what is told to programs and servers that belong to the run as a whole.
    pub fn context_of_run(&self) -> Context {
        self.context(self.root)
    }

    /// Returns what is told to whatever is started in a span.
    pub fn context(&self, span: u64) -> Context {
        if !self.propagates {
            return Context::NONE;
        }
        Context {
            parent: Some(format!("00-{:032x}-{span:016x}-{:02x}", self.id, u8::from(self.sampled))),
            state: Some(self.state.clone()).filter(|state| !state.is_empty()),
        }
    }
}

fn span_of(trace: u128, run: u128, name: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(trace.to_be_bytes());
    hash.update(run.to_be_bytes());
    hash.update(name.as_bytes());
    let bytes: [u8; 8] = hash.finalize()[..8].try_into().expect("eight bytes of a digest");
    u64::from_be_bytes(bytes).max(1)
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
        let trace = Trace::new(Parent::parse(PARENT), 7, |_| true, "a=1,b=2", true);
        assert_eq!(trace.id_text(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let call = trace.call("c1");
        let expected = format!("00-{}-{call:016x}-01", trace.id_text());
        let context = trace.context(call);
        assert_eq!(
            context.headers().collect::<Vec<_>>(),
            [("traceparent", expected.as_str()), ("tracestate", "a=1,b=2")]
        );
        let variables = [("TRACEPARENT".to_owned(), expected.clone()), ("TRACESTATE".to_owned(), "a=1,b=2".to_owned())];
        assert_eq!(context.variables().collect::<Vec<_>>(), variables);
        trace.set_open(call);
        assert_eq!(trace.context_of_open(), context);
        let silent = Trace::new(None, 7, |_| true, "a=1", false);
        assert_eq!([silent.context_of_open(), silent.context(1)], [Context::NONE, Context::NONE]);
        assert_eq!(Trace::new(None, 7, |_| true, "a=1", true).state(), "");
    }

    #[test]
    fn a_part_is_a_child_in_the_same_trace_or_linked_from_a_trace_of_its_own() {
        let whole = Trace::new(Parent::parse(PARENT), 7, |_| true, "a=1", true);
        let child = whole.child(8);
        assert_eq!((child.id(), child.parent(), child.linked()), (whole.id(), Some(whole.root()), None));
        assert_eq!(child.state(), "a=1");
        let own = whole.linked_to_this(8);
        let linked = Parent { trace: whole.id(), span: whole.root(), sampled: true };
        assert_eq!((own.id(), own.parent(), own.linked()), (8, None, Some(linked)));
        assert!(own.is_sampled());
    }

    #[test]
    fn two_runs_in_one_trace_have_different_spans() {
        let run = |number| Trace::new(Parent::parse(PARENT), number, |_| true, "", true);
        assert_eq!(run(1).id(), run(2).id());
        assert_ne!(run(1).root(), run(2).root());
    }
}
