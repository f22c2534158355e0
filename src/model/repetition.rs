//! Detects an answer that repeats itself endlessly while it streams.
//!
//! Only exact repetition counts: rows of a table differ in their numbers, and minified files nowhere repeat for long. A
//! hash of the last bytes finds where a text begins to repeat; from there on each byte is compared with the one a
//! period before. The memory is fixed, whatever the length of the answer.

use super::xml_call::MAX_TAG;

/// The longest unit that is recognised, in bytes.
const MAX_PERIOD: usize = 4096;

/// The bytes of the tail that are kept: a unit and the bytes that are hashed must fit.
const TAIL: usize = 2 * MAX_PERIOD;

/// The bytes that are hashed to find an earlier place.
const GRAM: usize = 16;

/// The places that are remembered; a later one with the same hash takes the place of an earlier one.
const PLACES: usize = 8192;

/// The fewest repeated bytes after which a text goes round in circles.
const LEAST: usize = 2048;

/// The same for whole calls.
const LEAST_CALLS: usize = 512;

/// Bytes of a unit of words from which on not even a file has it again and again.
const LONG_UNIT: usize = 128;

/// How often a unit must have come again.
const TIMES: usize = 3;

/// What ends a call that is written as text.
const END_OF_CALL: &str = "</function>";

/// The longest token that is a word; beyond it is encoded data.
const MAX_WORD: usize = 30;

/// The multiplier of the rolling hash.
const FACTOR: u64 = 0x0000_0100_0000_01b3;

/// The kind of place in a text, which decides how much of it may repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// An answer, or reasoning.
    Text,
    /// What may be a call that holds a file, or the file itself in a fence.
    Code,
    /// The arguments of a call.
    Data,
}

/// Compares a text with itself as it arrives.
#[derive(Debug)]
pub(super) struct Repetition {
    tail: Box<[u8; TAIL]>,
    /// Where each hash was seen last, counted from 1. An answer has fewer bytes than these numbers tell apart.
    places: Box<[u32; PLACES]>,
    length: usize,
    hash: u64,
    /// `FACTOR` to the power of `GRAM`: what a byte weighs when it leaves the hash.
    oldest: u64,
    /// How far back the text repeats; 0 where it does not.
    period: usize,
    /// Bytes that repeat.
    span: usize,
}

impl Default for Repetition {
    fn default() -> Repetition {
        Repetition {
            tail: Box::new([0; TAIL]),
            places: Box::new([0; PLACES]),
            length: 0,
            hash: 0,
            oldest: (0..GRAM).fold(1u64, |power, _| power.wrapping_mul(FACTOR)),
            period: 0,
            span: 0,
        }
    }
}

impl Repetition {
    /// Takes the next text; returns how many bytes came before those that only repeat them, once these are too many.
    pub(super) fn push(&mut self, text: &str, place: Place) -> Option<usize> {
        text.bytes().find_map(|byte| self.push_byte(byte, place))
    }

    fn push_byte(&mut self, byte: u8, place: Place) -> Option<usize> {
        let left = if self.length >= GRAM { self.at(self.length - GRAM) } else { 0 };
        self.hash = self
            .hash
            .wrapping_mul(FACTOR)
            .wrapping_add(u64::from(byte))
            .wrapping_sub(u64::from(left).wrapping_mul(self.oldest));
        self.tail[self.length % TAIL] = byte;
        self.length += 1;
        if self.length < GRAM {
            return None;
        }
        if self.period > 0 && self.at(self.length - 1 - self.period) == byte {
            self.span += 1;
        } else {
            (self.period, self.span) = (0, 0);
        }
        // The low bits of such a hash know the last bytes alone.
        let slot = (self.hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 51) as usize % PLACES;
        let earlier = std::mem::replace(&mut self.places[slot], self.length as u32) as usize;
        if self.period == 0 && earlier >= GRAM {
            let period = self.length - earlier;
            let repeats = |back: usize| self.at(self.length - back) == self.at(self.length - back - period);
            if period <= MAX_PERIOD && (1..=GRAM).all(repeats) {
                (self.period, self.span) = (period, GRAM);
            }
        }
        // Checked rarely, as the words of a unit must be counted.
        let is_long = self.span >= LEAST_CALLS && self.span.is_multiple_of(256) && self.span >= TIMES * self.period;
        (is_long && self.span >= self.bound(place)).then(|| self.length - self.span)
    }

    /// Returns how many bytes may repeat. Tables of numbers, fill characters and drawings may repeat longer than words,
    /// and in files without a limit.
    /// Whole calls that come again and again are no file.
    fn bound(&self, place: Place) -> usize {
        match (place, self.is_words()) {
            (Place::Code | Place::Data, _) if self.is_call() => LEAST_CALLS,
            (Place::Text, true) => LEAST,
            (Place::Code, true) if self.period >= LONG_UNIT => LEAST,
            (Place::Text, false) | (Place::Code, true) => 16 << 10,
            (Place::Data, true) => 64 << 10,
            (Place::Code | Place::Data, false) => usize::MAX,
        }
    }

    /// Tells whether what repeats has the end of a call that is written as text.
    fn is_call(&self) -> bool {
        // The end of the call may be where the unit begins again.
        let length = (2 * self.period).min(TAIL).min(self.length);
        let unit: Vec<u8> = (self.length - length..self.length).map(|place| self.at(place)).collect();
        let has = |end: &str| unit.windows(end.len()).any(|part| part == end.as_bytes());
        has("</function>") || has("</tool_call>")
    }

    fn at(&self, place: usize) -> u8 {
        self.tail[place % TAIL]
    }

    /// Tells whether what repeats consists of words: three different ones, which make up much of it.
    fn is_words(&self) -> bool {
        let length = self.period.max(64).min(self.span);
        let unit: Vec<u8> = (self.length - length..self.length).map(|place| self.at(place)).collect();
        let unit = String::from_utf8_lossy(&unit);
        let mut words: Vec<&str> = Vec::new();
        let (mut letters, mut others) = (0, 0);
        for token in unit.split_whitespace() {
            let word = token.trim_matches(|c: char| !c.is_alphanumeric());
            let in_token = token.chars().filter(|c| c.is_alphabetic()).count();
            // Chinese and similar scripts write no spaces between words, and each character carries more meaning.
            let is_ideographic = in_token >= 3 && word.chars().all(|c| !c.is_ascii_alphanumeric());
            if is_ideographic || (2..=MAX_WORD).contains(&in_token) && word.chars().all(is_of_a_word) {
                letters += in_token;
                others += token.chars().count() - in_token;
                if !words.contains(&word) {
                    words.push(word);
                    words.extend(is_ideographic.then_some(["", " "]).into_iter().flatten());
                }
            } else {
                others += token.chars().count();
            }
        }
        words.len() >= 3 && letters >= others
    }
}

fn is_of_a_word(character: char) -> bool {
    character.is_alphabetic() || matches!(character, '\'' | '\u{2019}' | '-' | '_' | '.' | '/' | ',')
}

/// Looks for text, reasoning and arguments of an answer that only repeat themselves.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Whether an answer that only repeats itself is cut.
    pub(super) is_on: bool,
    text: Option<Repetition>,
    looked: usize,
    reasoning: Option<Repetition>,
    arguments: Option<Repetition>,
    /// How much of the text and of the reasoning to keep, once something repeats itself.
    pub(super) found: Option<(Option<usize>, Option<usize>)>,
    /// How much of the text to keep, once its calls go round in a circle.
    pub(super) circle: Option<usize>,
}

/// Returns where the calls that end a text begin to go round in a circle: two in a row came before, one behind the other.
fn circle(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    let mut calls: Vec<(usize, &str)> = Vec::new();
    for call in text[from..].split_inclusive(END_OF_CALL) {
        calls.extend((!call.trim().is_empty()).then(|| (at, call.trim())));
        at += call.len();
    }
    let [.., (begin, first), (_, second)] = calls[..] else { return None };
    let is_call = |call: &str| call.contains("<function=");
    let came = calls[..calls.len() - 1].windows(2).any(|pair| pair[0].1 == first && pair[1].1 == second);
    let came = came && is_call(first) && is_call(second);
    came.then_some(begin)
}

/// Tells whether a text ends within a tag that names a parameter and is longer than any name.
fn has_endless_tag(text: &str) -> bool {
    let from = text.floor_char_boundary(text.len().saturating_sub(16 * MAX_TAG));
    let last = text[from..].rfind("\n<parameter").map(|at| &text[from + at + 1..]);
    last.is_some_and(|tag| tag.len() > MAX_TAG && !tag.contains(['>', '\n']))
}

impl Watch {
    /// Begins the text anew.
    pub(super) fn restart_text(&mut self) {
        (self.text, self.looked) = (None, 0);
    }

    pub(super) fn text(&mut self, text: &str, certain: usize, may_be_call: Option<usize>) {
        if !self.is_on {
            return;
        }
        let all = if may_be_call.is_some() { text.len() } else { certain };
        // What may be a call holds files: in tags for certain, in fences perhaps.
        let place = match may_be_call {
            Some(at) if text[at..].starts_with('<') => Place::Data,
            Some(_) => Place::Code,
            None => Place::Text,
        };
        let repetition = self.text.get_or_insert_default();
        for (from, until, place) in [(self.looked, certain, Place::Text), (self.looked.max(certain), all, place)] {
            if let Some(kept) = text.get(from..until).and_then(|added| repetition.push(added, place)) {
                self.found.get_or_insert((Some(kept), None));
            }
        }
        self.looked = self.looked.max(all);
        // In a fence it may be an example.
        let in_tags = may_be_call.filter(|at| text[*at..].starts_with('<'));
        if let Some(at) = in_tags.filter(|at| has_endless_tag(&text[*at..])) {
            self.found.get_or_insert((Some(at), None));
        }
        if let Some(at) = in_tags.filter(|_| text.trim_end().ends_with(END_OF_CALL)) {
            self.circle = self.circle.or_else(|| circle(text, at));
        }
    }

    pub(super) fn reasoning(&mut self, added: &str) {
        if self.is_on
            && let Some(kept) = self.reasoning.get_or_insert_default().push(added, Place::Text)
        {
            self.found.get_or_insert((None, Some(kept)));
        }
    }

    pub(super) fn arguments(&mut self, added: &str) {
        if self.is_on && self.arguments.get_or_insert_default().push(added, Place::Data).is_some() {
            self.found.get_or_insert((None, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, place: Place) -> Option<usize> {
        Repetition::default().push(text, place)
    }

    #[test]
    fn an_answer_that_repeats_itself_is_noticed_within_a_few_units() {
        let units = [
            "I will look at the file again to be sure. ",
            "Wait, let me check.\n",
            "- [ ] read `src/main.rs` and fix the error in it\n",
            "\u{8ba9}\u{6211}\u{518d}\u{68c0}\u{67e5}\u{4e00}\u{6b21}\u{4ee3}\u{7801}\u{3002}",
            "\u{422}\u{435}\u{43f}\u{435}\u{440}\u{44c} \u{43f}\u{440}\u{43e}\u{432}\u{435}\u{440}\u{438}\u{43c} \u{444}\u{430}\u{439}\u{43b}. ",
            &(0..90).map(|n| format!("Sentence number {n} of a long paragraph. ")).collect::<String>(),
        ];
        for unit in units {
            let text = format!("First something else. {}", unit.repeat(2 + 3 * LEAST / unit.len().min(LEAST)));
            let kept = cut(&text, Place::Text).unwrap_or_else(|| panic!("{unit}"));
            assert!(kept <= 22 + unit.len() + GRAM, "{kept} of {unit}");
            let noticed = (0..text.len())
                .filter(|at| text.is_char_boundary(*at))
                .find(|at| cut(&text[..*at], Place::Text).is_some());
            let most = (LEAST + 256).max(TIMES * unit.len() + 256) + unit.len() + 64;
            assert!(noticed.is_none_or(|at| at <= most), "{noticed:?} of {unit}");
        }
        assert!(cut(&"!".repeat(20 << 10), Place::Text).is_some());
    }

    #[test]
    fn calls_go_round_in_a_circle_when_two_in_a_row_come_again() {
        let call = |name: &str| format!("<function={name}>\n</function>\n");
        let calls = |names: &str| names.chars().map(|name| call(&name.to_string())).collect::<String>();
        let begins = |names: &str| circle(calls(names).trim_end(), 0).map(|at| (at + 1) / call("a").len());
        assert_eq!(begins("abcab"), Some(3));
        assert_eq!(begins("aaa"), Some(1));
        for fine in ["a", "ab", "aa", "abca", "abcb", "tatbtc"] {
            assert_eq!(begins(fine), None, "{fine}");
        }
    }

    #[test]
    fn whole_calls_that_repeat_are_a_circle_also_where_files_may_repeat() {
        let call =
            |key: &str| format!("<function=edit>\n<parameter={key}>\nx[{key}] = 1;\n</parameter>\n</function>\n");
        let text = call("a").repeat(12);
        let kept = cut(&text, Place::Data);
        assert!(kept.is_some_and(|kept| kept < 200), "{kept:?} of {}", text.len());
        assert_eq!(cut(&call("a").repeat(3), Place::Data), None);
        let different: String = (0..60).map(|n| call(&format!("a{n}"))).collect();
        assert_eq!(cut(&different, Place::Data), None);
    }

    #[test]
    fn a_tag_that_does_not_end_is_cut() {
        let found = |text: &str| {
            let mut watch = Watch { is_on: true, ..Watch::default() };
            watch.text(text, 8, Some(8));
            watch.found
        };
        let name = ".*".repeat(MAX_TAG);
        assert_eq!(found(&format!("I look.\n<function=glob>\n<parameter=\"{name}")), Some((Some(8), None)));
        for fine in [format!("<parameter=pattern>\n{name}"), format!("<parameter=pattern>{name}"), "x".repeat(2000)] {
            assert_eq!(found(&format!("I look.\n<function=glob>\n{fine}")), None, "{}", &fine[..30]);
        }
    }

    #[test]
    fn long_units_of_words_repeat_in_no_file() {
        let finding = "  {\n    \"path\": \"src/timer.rs\",\n    \"quote\": \"/// Counts time.\",\n    \
                       \"message\": \"The comment should say that the timer counts time in milliseconds.\"\n  },\n";
        let kept = cut(&finding.repeat(20), Place::Code);
        assert!(kept.is_some_and(|kept| kept < 2 * finding.len()), "{kept:?}");
        assert_eq!(cut(&finding.repeat(12), Place::Data), None);
    }

    #[test]
    fn what_repeats_by_its_nature_is_no_circle() {
        let rows = |row: &dyn Fn(usize) -> String| (0..2000).map(row).collect::<String>();
        let texts = [
            rows(&|n| format!("| {n} | yes | no | yes |\n")),
            rows(&|n| format!("<rect x=\"{n}\" y=\"10\" width=\"10\" height=\"10\"/>\n")),
            rows(&|n| format!("  {{\"id\": {n}, \"name\": \"a\", \"tags\": []}},\n")),
            rows(&|n| format!("{n},0,0,0,0,0,0\n")),
            rows(&|n| format!("Step {n}: read the file and go on to the next one.\n")),
            "-".repeat(10_000),
            "0x00, ".repeat(2_000),
            "| - | - |\n".repeat(1_000),
            "AAAA".repeat(4_000),
        ];
        for text in texts {
            assert_eq!(cut(&text, Place::Text), None, "{}", &text[..60]);
        }
        for text in ["AAAA".repeat(100_000), "0x00, ".repeat(100_000), "hello world and more\n".repeat(2_000)] {
            assert_eq!(cut(&text, Place::Data), None, "{}", &text[..40]);
        }
    }

    proptest! {
        #[test]
        fn no_split_of_a_text_changes_what_is_noticed(
            head in ".{0,40}", unit in "[a-d ]{1,30}", times in 1usize..200, cuts in prop::collection::vec(1usize..300, 1..9),
        ) {
            let text = format!("{head}{}", unit.repeat(times));
            let mut pieces = Repetition::default();
            let (mut at, mut found) = (0, None);
            for length in cuts.iter().cycle() {
                let mut end = (at + length).min(text.len());
                while !text.is_char_boundary(end) {
                    end += 1;
                }
                found = found.or(pieces.push(&text[at..end], Place::Text));
                at = end;
                if at == text.len() {
                    break;
                }
            }
            prop_assert_eq!(found, cut(&text, Place::Text));
        }

        #[test]
        fn what_does_not_repeat_is_kept(words in prop::collection::vec("[a-z]{3,9}", 400..900)) {
            prop_assert_eq!(cut(&words.join(" "), Place::Text), None);
        }
    }
}
