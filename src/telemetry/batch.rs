//! Reports a batch: a span for all of it, which the runs of its items are children of or linked to.

use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::trace::SpanKind;

use super::config::Config;
use super::fold::{Fold, ended, scope};
use super::send::Sender;
use super::span::{Open, number};
use super::{Sending, Telemetry};
use crate::base::trace::Trace;
use crate::exit::Exit;

/// Items up to which all runs are in the trace of their batch: more than this no backend shows as one tree.
const ONE_TRACE: u64 = 1_000;

/// Reports a batch while it works, and lends its runs the way to the server.
#[derive(Debug)]
pub struct BatchTelemetry {
    config: Config,
    trace: Arc<Trace>,
    sender: Arc<Sender>,
    started: SystemTime,
    in_one_trace: bool,
}

/// How a batch ended.
#[derive(Debug, Clone, Copy)]
pub struct BatchEnd<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its recipe, if it has one.
    pub recipe: Option<&'a str>,
    /// Its exit code.
    pub exit: Exit,
    /// Items of the list, or of this shard of it.
    pub items: u64,
    /// Items that failed for good.
    pub failed: u64,
    /// Items that are not done.
    pub not_final: u64,
    /// What they cost, in US dollars.
    pub cost_usd: Option<f64>,
}

impl BatchTelemetry {
    /// Begins to report a batch of so many items, all shards together.
    pub fn begin(config: Config, trace: Arc<Trace>, items: u64, started: SystemTime) -> BatchTelemetry {
        let sender = Arc::new(Sender::start(config.clone()));
        BatchTelemetry { config, trace, sender, started, in_one_trace: items <= ONE_TRACE }
    }

    /// Returns how reports are made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Makes the trace of an item's run, whose own number this is.
    pub fn trace_of_item(&self, run: u128) -> Arc<Trace> {
        Arc::new(if self.in_one_trace { self.trace.child(run) } else { self.trace.linked_to_this(run) })
    }

    /// Begins to report an item's run.
    pub fn item(&self, trace: Arc<Trace>, started: SystemTime) -> Telemetry {
        let fold = Fold::new(Arc::clone(&trace), self.config.contents, started);
        Telemetry { trace, fold, sender: Sending::OfBatch(Arc::clone(&self.sender)) }
    }

    /// Ends the batch, sends what is left and waits for it as long as the configuration says. Returns what could not be
    /// reported.
    pub fn finish(self, end: BatchEnd<'_>, at: SystemTime) -> Option<String> {
        if self.trace.is_sampled() {
            let name = format!("batch {}", end.recipe.unwrap_or("qwen"));
            let mut span = Open::new(self.trace.root(), self.trace.parent(), name, SpanKind::Internal, self.started);
            span.set("qwen.batch.id", end.id.to_owned());
            span.set_some("qwen.recipe.name", end.recipe.map(str::to_owned));
            span.set("qwen.batch.items", number(end.items));
            span.set("qwen.batch.failed", number(end.failed));
            span.set("qwen.batch.not_final", number(end.not_final));
            span.set_some("qwen.cost_usd", end.cost_usd);
            span.set("qwen.exit.code", i64::from(end.exit.code()));
            span.set("qwen.exit.reason", end.exit.name());
            if end.exit != Exit::Ok {
                span.fail(end.exit.name());
            }
            self.sender.send(vec![ended(&self.trace, &scope(), span, at)], Vec::new());
        }
        self.sender.finish()
    }
}
