//! Defines `provider.jsonl`: what was handed to the provider's Batch API, and how far it has come.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::digest::sha256;

/// Maximum requests of a file.
const MOST_LINES: u64 = 50_000;

/// Maximum bytes of a file.
const MOST_BYTES: u64 = 90_000_000;

/// Maximum bytes of a request.
pub const LONGEST_LINE: usize = 6_000_000;

/// Tells whether a request of so many bytes still goes into a file that has so many requests and bytes.
pub fn has_room(lines: u64, bytes: u64, more: usize) -> bool {
    lines < MOST_LINES && bytes + more as u64 <= MOST_BYTES
}

/// Returns the name of the file with the requests.
pub fn input_of(n: u32) -> String {
    format!("provider-{n}.input.jsonl")
}

/// Returns the names of the files with the answers: the provider's output, and its errors.
pub fn answers_of(n: u32) -> [String; 2] {
    [format!("provider-{n}.output.jsonl"), format!("provider-{n}.errors.jsonl")]
}

/// A line of `provider.jsonl`. `n` counts the provider's batches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum Line {
    /// The requests are in a file of this directory.
    Input {
        /// The number.
        n: u32,
        /// How many.
        items: u64,
        /// The digest of key and endpoint.
        account: String,
        /// When, as RFC 3339.
        time: String,
    },
    /// The provider has the file.
    Uploaded {
        /// The number.
        n: u32,
        /// The provider's id of the file.
        file: String,
    },
    /// The provider's batch is about to be created.
    Create {
        /// The number.
        n: u32,
    },
    /// It was looked for and not found.
    Missing {
        /// The number.
        n: u32,
    },
    /// It is there.
    Created {
        /// The number.
        n: u32,
        /// The provider's id of the batch.
        batch: String,
    },
    /// `qwen batch cancel` was called.
    Cancel {
        /// The number.
        n: u32,
    },
    /// It has ended, and its answers are in files of this directory.
    Ended {
        /// The number.
        n: u32,
        /// The provider's status.
        status: String,
        /// What the provider says about it.
        message: Option<String>,
        /// The provider's ids of the files with answers.
        files: Vec<String>,
    },
    /// Its answers are in the journal, and its files are deleted.
    Collected {
        /// The number.
        n: u32,
    },
}

/// How far a batch of the provider has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Its requests are in a file here.
    #[default]
    Input,
    /// The provider has the file.
    Uploaded,
    /// Whether it was created is not known.
    Creating,
    /// The same, and it was looked for once.
    Missing,
    /// The provider works on it.
    Created,
    /// Its answers are here.
    Ended,
    /// Nothing is left to do.
    Collected,
}

/// A batch of the provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub n: u32,
    /// How many requests it has.
    pub items: u64,
    /// The digest of key and endpoint.
    pub account: String,
    /// When its file was made, as RFC 3339.
    pub time: String,
    /// The provider's id of the file with the requests.
    pub file: Option<String>,
    /// The provider's id of the batch.
    pub batch: Option<String>,
    /// How far it has come.
    pub step: Step,
    /// Whether `qwen batch cancel` was called.
    pub is_cancelled: bool,
    /// The provider's status at its end.
    pub status: String,
    /// What the provider says about that.
    pub message: Option<String>,
    /// The provider's ids of the files with answers.
    pub files: Vec<String>,
}

impl Sent {
    /// Returns the name that its file has at the provider: no other upload has it.
    pub fn file_name(&self) -> String {
        let digest = sha256(format!("{}\n{}\n{}", self.account, self.time, self.n).as_bytes());
        format!("qwen-batch-{}.jsonl", &digest[..32])
    }

    /// Tells whether the provider may be at work on it.
    pub fn is_out(&self) -> bool {
        (Step::Creating..=Step::Created).contains(&self.step)
    }

    /// Adds what a line says.
    fn add(&mut self, line: &Line) {
        self.step = match line {
            Line::Input { items, account, time, .. } => {
                (self.items, self.account, self.time) = (*items, account.clone(), time.clone());
                Step::Input
            }
            Line::Uploaded { file, .. } => {
                self.file = Some(file.clone());
                Step::Uploaded
            }
            Line::Create { .. } => Step::Creating,
            Line::Missing { .. } => Step::Missing,
            Line::Created { batch, .. } => {
                self.batch = Some(batch.clone());
                Step::Created
            }
            Line::Cancel { .. } => {
                self.is_cancelled = true;
                self.step
            }
            Line::Ended { status, message, files, .. } => {
                (self.status, self.message, self.files) = (status.clone(), message.clone(), files.clone());
                Step::Ended
            }
            Line::Collected { .. } => Step::Collected,
        };
    }
}

/// The provider's batches of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllSent(pub Vec<Sent>);

impl AllSent {
    /// Reads `provider.jsonl`. The error is the number of a line that is not valid; an incomplete last one is left out.
    pub fn read(text: &[u8]) -> Result<AllSent, usize> {
        let mut all = AllSent::default();
        for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            match serde_json::from_slice(line) {
                _ if !line.ends_with(b"\n") => {}
                Ok(line) => all.add(&line),
                Err(_) => return Err(at + 1),
            }
        }
        Ok(all)
    }

    /// Adds a line.
    pub fn add(&mut self, line: &Line) {
        let (Line::Input { n, .. }
        | Line::Uploaded { n, .. }
        | Line::Create { n }
        | Line::Missing { n }
        | Line::Created { n, .. }
        | Line::Cancel { n }
        | Line::Ended { n, .. }
        | Line::Collected { n }) = line;
        if !self.0.iter().any(|sent| sent.n == *n) {
            self.0.push(Sent { n: *n, ..Sent::default() });
        }
        self.0.iter_mut().filter(|sent| sent.n == *n).for_each(|sent| sent.add(line));
    }

    /// Returns those that are not collected.
    pub fn open(&self) -> impl Iterator<Item = &Sent> {
        self.0.iter().filter(|sent| sent.step != Step::Collected)
    }
}

/// A line of the provider's file of answers or errors.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Reply {
    /// The item's digest.
    pub custom_id: String,
    /// The answer.
    response: Option<Response>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Response {
    status_code: u16,
    #[serde(default)]
    body: Value,
}

impl Reply {
    /// Returns status and body if they say something of the request itself: an answer, or a refusal that would come again.
    pub fn said(self) -> Option<(u16, Value)> {
        let Response { status_code, body } = self.response?;
        let is_said = matches!(status_code, 200..300 | 400..500) && ![408, 409, 425, 429].contains(&status_code);
        is_said.then_some((status_code, body))
    }
}

/// How much the requests of a batch have in common.
#[derive(Debug, Clone, Default)]
pub struct Common {
    prefix: Vec<u8>,
    bytes: u64,
    requests: u64,
}

impl Common {
    /// Adds a request.
    pub fn add(&mut self, body: &[u8]) {
        if self.requests == 0 {
            self.prefix = body.to_vec();
        }
        let same = self.prefix.iter().zip(body).take_while(|(a, b)| a == b).count();
        self.prefix.truncate(same);
        self.bytes += body.len() as u64;
        self.requests += 1;
    }

    /// Returns how much of them all begins with the same bytes, in percent; `None` for a single one.
    pub fn percent(&self) -> Option<u64> {
        let shared = self.prefix.len() as u64 * self.requests * 100;
        (self.requests > 1).then(|| shared / self.bytes.max(1))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
    }

    #[test]
    fn the_lines_say_how_far_each_has_come_and_a_torn_last_one_nothing() {
        let input = |n| Line::Input { n, items: 2, account: "a".into(), time: String::new() };
        let created = Line::Created { n: 1, batch: "b1".into() };
        let lines = [input(1), Line::Uploaded { n: 1, file: "f1".into() }, Line::Create { n: 1 }, input(2), created];
        let whole = text(&lines);
        let steps = |text: &str| -> Vec<(u32, Step, bool)> {
            let all = AllSent::read(text.as_bytes()).unwrap();
            all.open().map(|sent| (sent.n, sent.step, sent.is_out())).collect()
        };
        assert_eq!(steps(&whole), [(1, Step::Created, true), (2, Step::Input, false)]);
        assert_eq!(steps(&whole[..whole.len() - 1]), [(1, Step::Creating, true), (2, Step::Input, false)]);
        assert_eq!(steps(&(whole.clone() + &text(&[Line::Collected { n: 1 }]))), [(2, Step::Input, false)]);
        assert_eq!(AllSent::read(format!("{{\n{whole}").as_bytes()), Err(1));
        assert_eq!(text(&[Line::Create { n: 7 }]), "{\"t\":\"create\",\"n\":7}\n");
    }

    #[test]
    fn what_would_not_come_again_is_no_answer() {
        let said = |response: Value| {
            serde_json::from_value::<Reply>(json!({"id": "x", "custom_id": "k", "response": response})).unwrap().said()
        };
        for (status, expected) in [(200, true), (400, true), (404, true), (408, false), (429, false), (500, false)] {
            assert_eq!(said(json!({"status_code": status, "body": {}})).is_some(), expected, "{status}");
        }
        assert_eq!(said(Value::Null), None);
    }

    #[test]
    fn a_file_is_full_before_a_provider_refuses_it() {
        assert!(has_room(0, 0, LONGEST_LINE) && has_room(MOST_LINES - 1, MOST_BYTES - 7, 7));
        assert!(!has_room(MOST_LINES, 0, 1) && !has_room(1, MOST_BYTES - 6, 7));
    }

    #[test]
    fn requests_share_what_all_of_them_begin_with() {
        let mut common = Common::default();
        common.add(b"the same: one");
        assert_eq!(common.percent(), None);
        common.add(b"the same: two");
        assert_eq!(common.percent(), Some(76));
        common.add(b"other");
        assert_eq!(common.percent(), Some(0));
    }
}
