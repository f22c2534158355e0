//! Reads how long a server asks to wait.

use std::time::{Duration, SystemTime};

use super::transport::header;

/// Reads the wait that a response asks for: `retry-after-ms`, seconds, a float, or a date.
///
/// An invalid number, a negative one and a past date are zero.
pub fn retry_after(headers: &[(String, String)], now: Option<SystemTime>) -> Option<Duration> {
    if let Some(milliseconds) = header(headers, "retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok()) {
        return Some(seconds(milliseconds / 1000.0));
    }
    let text = header(headers, "retry-after")?.trim();
    if let Ok(number) = text.parse::<f64>() {
        return Some(seconds(number));
    }
    if let Some(delay) = parse_delay(text) {
        return Some(delay);
    }
    let at = parse_date(text)?;
    // The server's own clock, if it reports it: the local one may be wrong.
    let now = header(headers, "date").and_then(parse_date).or_else(|| {
        let now = jiff::Timestamp::try_from(now?).ok()?;
        Some(jiff::tz::TimeZone::UTC.to_datetime(now))
    })?;
    Some(seconds(at.duration_since(now).as_secs_f64()))
}

/// Reads a date of HTTP, in any of its three forms, or one with an offset. As a date of the calendar it may be at the
/// end of the year 9999, which is beyond what a time stamp can say.
fn parse_date(text: &str) -> Option<jiff::civil::DateTime> {
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
        .iter()
        .find_map(|form| jiff::civil::DateTime::strptime(form, text).ok())
        .or_else(|| {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            Some(jiff::tz::TimeZone::UTC.to_datetime(at))
        })
}

/// Reads `23s`, `1.5s` or `250ms`.
pub(super) fn parse_delay(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Some(milliseconds) = text.strip_suffix("ms") {
        return milliseconds.trim().parse::<f64>().ok().map(|number| seconds(number / 1000.0));
    }
    text.strip_suffix('s')?.trim().parse::<f64>().ok().map(seconds)
}

/// Negative and nonsensical numbers are no wait; a wait beyond a year is a year.
fn seconds(number: f64) -> Duration {
    if number > 0.0 { Duration::from_secs_f64(number.min(31_536_000.0)) } else { Duration::ZERO }
}
