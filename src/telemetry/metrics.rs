//! Counts what runs do: the measurements, and the instruments that they go to.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

/// One number to be counted, with what it is about. The attributes have few different values.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    instrument: Instrument,
    value: f64,
    about: Vec<KeyValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instrument {
    Tokens,
    Operation,
    Run,
    Cost,
    ToolCalls,
    Denials,
    Checks,
}

impl Measurement {
    /// Tokens of a request.
    pub fn tokens(count: u64, about: Vec<KeyValue>) -> Measurement {
        Measurement { instrument: Instrument::Tokens, value: count as f64, about }
    }

    /// The time that a request took.
    pub fn operation(took: Duration, about: Vec<KeyValue>) -> Measurement {
        Measurement { instrument: Instrument::Operation, value: took.as_secs_f64(), about }
    }

    /// The time that a run took.
    pub fn run(took: Duration, about: Vec<KeyValue>) -> Measurement {
        Measurement { instrument: Instrument::Run, value: took.as_secs_f64(), about }
    }

    /// What a run cost, in US dollars.
    pub fn cost(dollars: f64, about: Vec<KeyValue>) -> Measurement {
        Measurement { instrument: Instrument::Cost, value: dollars, about }
    }

    /// A call.
    pub fn tool_call(about: Vec<KeyValue>) -> Measurement {
        Measurement { instrument: Instrument::ToolCalls, value: 1.0, about }
    }

    /// A denied call.
    pub fn denial(about: Vec<KeyValue>) -> Measurement {
        Measurement { instrument: Instrument::Denials, value: 1.0, about }
    }

    /// A check.
    pub fn check(about: Vec<KeyValue>) -> Measurement {
        Measurement { instrument: Instrument::Checks, value: 1.0, about }
    }
}

/// The instruments.
#[derive(Debug)]
pub(super) struct Instruments {
    tokens: Histogram<u64>,
    operation: Histogram<f64>,
    run: Histogram<f64>,
    cost: Counter<f64>,
    tool_calls: Counter<u64>,
    denials: Counter<u64>,
    checks: Counter<u64>,
}

impl Instruments {
    /// Makes the instruments. The boundaries of tokens and times are those of the GenAI conventions.
    pub(super) fn new(meter: &Meter) -> Instruments {
        let seconds = |name: &'static str, bounds: Vec<f64>| {
            meter.f64_histogram(name).with_unit("s").with_boundaries(bounds).build()
        };
        let operation = (0..14).map(|power| 0.01 * f64::from(1 << power)).collect();
        let run = vec![0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
        let tokens = (0..14).map(|power| 4_f64.powi(power)).collect();
        let count = |name: &'static str, unit: &'static str| meter.u64_counter(name).with_unit(unit).build();
        Instruments {
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_boundaries(tokens)
                .build(),
            operation: seconds("gen_ai.client.operation.duration", operation),
            run: seconds("qwen.run.duration", run),
            cost: meter.f64_counter("qwen.run.cost").with_unit("USD").build(),
            tool_calls: count("qwen.tool.calls", "{call}"),
            denials: count("qwen.denials", "{call}"),
            checks: count("qwen.checks", "{check}"),
        }
    }

    /// Counts a measurement.
    pub(super) fn record(&self, measurement: &Measurement) {
        let Measurement { value, about, .. } = measurement;
        match measurement.instrument {
            Instrument::Tokens => self.tokens.record(*value as u64, about),
            Instrument::Operation => self.operation.record(*value, about),
            Instrument::Run => self.run.record(*value, about),
            Instrument::Cost => self.cost.add(*value, about),
            Instrument::ToolCalls => self.tool_calls.add(*value as u64, about),
            Instrument::Denials => self.denials.add(*value as u64, about),
            Instrument::Checks => self.checks.add(*value as u64, about),
        }
    }
}
