//! Draws where a run's time and tokens went, as a picture and as a table.

use maud::{Markup, html};

use super::parts::short;
use super::transcript::{Item, Turn};
use crate::emit::words;

/// The picture's width, its left edge, and the width of its bars.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const BARS: f64 = 888.0;

/// The lower edge and the height of the bars of tokens.
const FLOOR: f64 = 160.0;
const HEIGHT: f64 = 84.0;

/// Shows the turns of a run that took this long.
pub(super) fn chart(turns: &[Turn<'_>], duration_ms: u64) -> Markup {
    let spans = spans(turns);
    html! {
        svg viewBox="0 0 960 190" role="img" aria-labelledby="chart-title" {
            title id="chart-title" { "Time and tokens of each turn; the table below has the numbers" }
            (time(&spans, duration_ms))
            (tokens(turns))
        }
        ul.legend {
            li { b { "Time" } }
            li { i.f1 {} "model" }
            li { i.f2 {} "tools" }
            li { i.f3 {} "checks" }
            li { i.fr {} "the rest" }
            li { b { "Tokens" } }
            li { i.f4 {} "input from the cache" }
            li { i.f1 {} "new input" }
            li { i.f2 {} "output" }
        }
        details.fold { summary { "As a table" } (table(turns)) }
    }
}

/// A part of the time: its class, what it is, and how long it took.
struct Span {
    class: &'static str,
    what: String,
    ms: u64,
}

fn spans(turns: &[Turn<'_>]) -> Vec<Span> {
    let mut spans = Vec::new();
    for turn in turns {
        spans.push(Span { class: "f1", what: format!("turn {}: model", turn.number), ms: turn.api_ms });
        let tools = tools_ms(turn);
        if tools > 0 {
            spans.push(Span { class: "f2", what: format!("turn {}: tools", turn.number), ms: tools });
        }
        for check in turn.items.iter().filter_map(Item::check) {
            let class = if check.passed { "f3" } else { "f3 fx" };
            let what = format!("check {}", if check.passed { "passed" } else { "failed" });
            spans.push(Span { class, what, ms: check.duration_ms });
        }
    }
    spans
}

fn tools_ms(turn: &Turn<'_>) -> u64 {
    let calls = turn.items.iter().filter_map(Item::result);
    calls.fold(0, |sum, result| sum.saturating_add(result.duration_ms))
}

/// One bar of parts end to end; what no part accounts for is at its end.
fn time(spans: &[Span], duration_ms: u64) -> Markup {
    let known: u64 = spans.iter().fold(0, |sum, span| sum.saturating_add(span.ms));
    let whole = known.max(duration_ms).max(1) as f64;
    let width = |ms: u64| ms as f64 / whole * BARS;
    let mut x = LEFT;
    let mut bars = Vec::new();
    let rest = Span { class: "fr", what: "the rest".to_owned(), ms: duration_ms.saturating_sub(known) };
    for span in spans.iter().chain([&rest]).filter(|span| span.ms > 0) {
        let wide = width(span.ms);
        bars.push((x, (wide - 1.0).max(0.5), span));
        x += wide;
    }
    let step = step(whole);
    let ticks = (0..=12).map(|tick| tick as f64 * step).take_while(|at| *at <= whole);
    html! {
        text x="0" y="29" { "Time" }
        @for at in ticks {
            @let x = format!("{:.1}", LEFT + at / whole * BARS);
            line.grid x1=(x) x2=(x) y1="8" y2="40" {}
            text x=(x) y="56" text-anchor="middle" { (tick(at)) }
        }
        @for (x, wide, span) in bars {
            rect class=(span.class) x=(format!("{x:.1}")) y="14" width=(format!("{wide:.1}")) height="22" rx="2" {
                title { (span.what) " " (short(span.ms)) }
            }
        }
    }
}

/// Returns the milliseconds between two marks: 1, 2 or 5 times a power of ten, or whole minutes; at most ten marks.
fn step(whole: f64) -> f64 {
    let steps =
        [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 6e4, 12e4, 3e5, 6e5, 12e5];
    let fits = |step: &&f64| whole / **step <= 10.0;
    steps.iter().find(fits).copied().unwrap_or_else(|| (whole / 10.0 / 36e5).ceil() * 36e5)
}

fn tick(ms: f64) -> String {
    match ms {
        ..=0.0 => "0 s".to_owned(),
        ..1000.0 => format!("{ms:.0} ms"),
        ..60_000.0 => format!("{} s", ms / 1e3),
        _ => words::time(ms as u64),
    }
}

/// Tokens of a turn: from the cache, other input, output.
fn parts(turn: &Turn<'_>) -> [u64; 3] {
    let cached = turn.usage.cache_read_input_tokens.unwrap_or(0);
    [cached, turn.usage.input_tokens.unwrap_or(0).saturating_sub(cached), turn.usage.output_tokens.unwrap_or(0)]
}

fn tokens(turns: &[Turn<'_>]) -> Markup {
    let sum = |turn: &Turn<'_>| parts(turn).iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let most = turns.iter().map(sum).max().unwrap_or(0).max(1);
    let pitch = BARS / turns.len().max(1) as f64;
    let bar = (pitch * 0.56).max(0.5);
    // As many labels as have room.
    let every = turns.len().div_ceil(12).max(1);
    html! {
        text x="0" y="128" { "Tokens" }
        line.grid x1="64" x2=(WIDTH - 8.0) y1="118" y2="118" {}
        line.grid x1="64" x2=(WIDTH - 8.0) y1="76" y2="76" {}
        text x="56" y="80" text-anchor="end" { (words::tokens(most)) }
        @for (at, turn) in turns.iter().enumerate() {
            @let x = LEFT + at as f64 * pitch + (pitch - bar) / 2.0;
            @for (class, y, height, what) in stack(turn, most) {
                rect class=(class) x=(format!("{x:.1}")) y=(format!("{y:.1}")) width=(format!("{bar:.1}")) height=(format!("{height:.1}")) {
                    title { "turn " (turn.number) ": " (what) }
                }
            }
            @if at % every == 0 {
                text x=(format!("{:.1}", x + bar / 2.0)) y="178" text-anchor="middle" { "turn " (turn.number) }
            }
        }
    }
}

/// The parts of a turn's bar, from below: class, upper edge, height, what it is.
fn stack(turn: &Turn<'_>, most: u64) -> Vec<(&'static str, f64, f64, String)> {
    let names = [("f4", "from the cache"), ("f1", "new input"), ("f2", "output")];
    let mut y = FLOOR;
    let mut stack = Vec::new();
    for ((class, name), tokens) in names.into_iter().zip(parts(turn)) {
        let height = tokens as f64 / most as f64 * HEIGHT;
        y -= height;
        if tokens > 0 {
            stack.push((class, y, height, format!("{tokens} {name}")));
        }
    }
    stack
}

fn table(turns: &[Turn<'_>]) -> Markup {
    html! {
        table {
            thead { tr {
                @for head in ["Turn", "Model", "Tools", "Checks", "From the cache", "New input", "Output"] { th scope="col" { (head) } }
            } }
            tbody {
                @for turn in turns {
                    @let checks = turn.items.iter().filter_map(Item::check).fold(0_u64, |sum, check| sum.saturating_add(check.duration_ms));
                    tr {
                        td { (turn.number) }
                        @for ms in [turn.api_ms, tools_ms(turn), checks] { td { (if ms == 0 { String::new() } else { short(ms) }) } }
                        @for part in parts(turn) { td { (part) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_has_more_than_eleven_marks_of_time() {
        for whole in [1.0, 7.0, 999.0, 7_935.0, 60_000.0, 3.6e6, 1e9] {
            assert!(whole / step(whole) <= 10.0 + 1e-9, "{whole}: {}", step(whole));
        }
        assert_eq!([0.0, 500.0, 7000.0, 120_000.0].map(tick), ["0 s", "500 ms", "7 s", "2 min"]);
        assert_eq!([0, 613, 2_400].map(short), ["< 1 ms", "613 ms", "2.4 s"]);
    }
}
