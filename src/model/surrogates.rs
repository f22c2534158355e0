//! Joins characters that a server split in two.
//!
//! A server that cuts text by UTF-16 units and writes each part as JSON ends one event with `\\ud83d` and begins the
//! next with `\\ude00`. Neither is JSON that can be read alone.

/// Joins torn characters over the events of a stream.
#[derive(Debug, Default)]
pub(super) struct Surrogates {
    /// The escape of a first half that ended a string of the last event.
    held: Option<String>,
}

impl Surrogates {
    /// Mends an event that cannot be read; `None` if no half character is the cause.
    ///
    /// A first half at the end of a string waits for the next event; a half that finds no other becomes U+FFFD.
    pub(super) fn mend(&mut self, raw: &str) -> Option<String> {
        let mut mended = String::with_capacity(raw.len());
        let held = self.held.take();
        let mut halves = 0;
        let mut at = 0;
        while let Some(offset) = raw[at..].find('\\') {
            let place = at + offset;
            mended.push_str(&raw[at..place]);
            let Some(unit) = unit(raw, place) else {
                // Any other escape is two bytes, of which the second may be a backslash.
                let length = 1 + raw[place + 1..].chars().next().map_or(0, char::len_utf8);
                mended.push_str(&raw[place..place + length]);
                at = place + length;
                continue;
            };
            at = place + 6;
            let is_pair = (0xd800..0xdc00).contains(&unit)
                && self::unit(raw, at).is_some_and(|second| (0xdc00..0xe000).contains(&second));
            match unit {
                _ if is_pair => {
                    mended.push_str(&raw[place..place + 12]);
                    at = place + 12;
                }
                0xd800..0xdc00 if raw[at..].starts_with('"') && self.held.is_none() => {
                    halves += 1;
                    self.held = Some(raw[place..at].to_owned());
                }
                0xdc00..0xe000 if mended.ends_with('"') && held.is_some() && halves == 0 => {
                    halves += 1;
                    mended.push_str(held.as_deref().unwrap_or_default());
                    mended.push_str(&raw[place..at]);
                }
                0xd800..0xe000 => {
                    halves += 1;
                    mended.push_str("\\ufffd");
                }
                _ => mended.push_str(&raw[place..at]),
            }
        }
        mended.push_str(&raw[at..]);
        (halves > 0).then_some(mended)
    }

    /// Tells whether half a character waits, and forgets it: the event after it had no other half.
    pub(super) fn lost(&mut self) -> bool {
        self.held.take().is_some()
    }

    /// Tells whether half a character waits.
    pub(super) fn waits(&self) -> bool {
        self.held.is_some()
    }
}

/// Reads `\\uXXXX`.
fn unit(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_halves_of_characters_meet_over_events() {
        let mut surrogates = Surrogates::default();
        assert_eq!(surrogates.mend(r#"{"a":"x\ud83d"}"#).as_deref(), Some(r#"{"a":"x"}"#));
        assert_eq!(surrogates.mend(r#"{"a":"\ude00y"}"#).as_deref(), Some(r#"{"a":"\ud83d\ude00y"}"#));
        assert_eq!(surrogates.mend(r#"{"a":"\ude00y"}"#).as_deref(), Some(r#"{"a":"\ufffdy"}"#));
        assert_eq!(surrogates.mend(r#"{"a":"\ud83dx"}"#).as_deref(), Some(r#"{"a":"\ufffdx"}"#));
        assert_eq!(surrogates.mend(r#"{"a":"\ud83d\ude00"#), None);
        assert_eq!(surrogates.mend(r#"{"a":"\\ud83d"#), None);
        assert_eq!(surrogates.mend("{\"a\":\"\\"), None);
    }
}
