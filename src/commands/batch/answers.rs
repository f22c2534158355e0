//! Finds in the files of the provider's Batch API which items were asked for, and what the answers are.

use std::collections::HashMap;
use std::io;

use serde_json::{Value, json};

use crate::batch::item::{Item, Short};
use crate::batch::provider::{AllSent, LONGEST_LINE, Reply, Sent, Step, answers_of, input_of};
use crate::model::batch_answer::{self, BatchAnswer};
use crate::workspace::batch_reader::{BatchReader, Pieces};

/// What the provider was asked and has answered, as far as it is not in the journal for sure.
#[derive(Default)]
pub(super) struct Answers {
    asked: HashMap<Short, Asked>,
    places: HashMap<Short, Place>,
    files: Vec<Pieces>,
    /// Items whose request is too large for a line, with its bytes.
    pub(super) too_large: HashMap<Short, usize>,
}

/// A request that was handed to the provider, or is about to be.
struct Asked {
    /// The batch.
    n: u32,
    digest: String,
    /// Whether its batch has not ended.
    waits: bool,
}

/// Where an answer is.
struct Place {
    /// The batch.
    n: u32,
    file: usize,
    offset: u64,
    length: usize,
    is_good: bool,
}

impl Answers {
    /// Reads the files of all batches that are not collected. Of one item the last counts.
    pub(super) fn read(reader: &BatchReader, sent: &AllSent) -> io::Result<Answers> {
        let mut answers = Answers::default();
        for sent in sent.open() {
            answers.add_requests(reader, sent)?;
            if sent.step == Step::Ended {
                for name in answers_of(sent.n) {
                    answers.add_answers(reader, sent.n, &name)?;
                }
            }
        }
        Ok(answers)
    }

    fn add_requests(&mut self, reader: &BatchReader, sent: &Sent) -> io::Result<()> {
        for line in reader.lines(&input_of(sent.n))?.into_iter().flatten() {
            let request: Value = serde_json::from_slice(&line?.bytes)?;
            let key = Short::of_hex(request["custom_id"].as_str().unwrap_or_default());
            let digest = batch_answer::line("", request["body"].to_string().as_bytes()).map(|(_, digest)| digest);
            self.places.remove(&key);
            let (n, digest, waits) = (sent.n, digest.unwrap_or_default(), sent.step < Step::Ended);
            self.asked.insert(key, Asked { n, digest, waits });
        }
        Ok(())
    }

    fn add_answers(&mut self, reader: &BatchReader, n: u32, name: &str) -> io::Result<()> {
        let Some(lines) = reader.lines(name)? else { return Ok(()) };
        let file = self.files.len();
        self.files.push(reader.pieces(name)?);
        for line in lines {
            let line = line?;
            // What is no answer is missing.
            let Ok(reply) = serde_json::from_slice::<Reply>(&line.bytes) else { continue };
            let key = Short::of_hex(&reply.custom_id);
            let Some((status, _)) = reply.said() else { continue };
            let place =
                Place { n, file, offset: line.offset, length: line.bytes.len(), is_good: (200..300).contains(&status) };
            if self.asked.contains_key(&key) && self.places.get(&key).is_none_or(|known| !known.is_good) {
                self.places.insert(key, place);
            }
        }
        Ok(())
    }

    /// Tells whether an item's request is at the provider, or its answer is here.
    pub(super) fn is_on_the_way(&self, item: &Item) -> bool {
        let key = Short::of_hex(&item.sha256);
        self.asked.get(&key).is_some_and(|asked| asked.waits) || self.good_of(item).is_some()
    }

    /// Returns the number of the batch in which the provider was asked for an item and has not answered.
    pub(super) fn missing_of(&self, item: &Item) -> Option<u32> {
        let key = Short::of_hex(&item.sha256);
        self.asked.get(&key).filter(|_| !self.places.contains_key(&key)).map(|asked| asked.n)
    }

    /// Returns the number of the batch that has a good answer for an item.
    pub(super) fn good_of(&self, item: &Item) -> Option<u32> {
        self.places.get(&Short::of_hex(&item.sha256)).filter(|place| place.is_good).map(|place| place.n)
    }

    /// Returns the answer for an item; `None` if it was not asked for.
    pub(super) fn of(&self, item: &Item) -> io::Result<Option<BatchAnswer>> {
        let key = Short::of_hex(&item.sha256);
        if let Some(bytes) = self.too_large.get(&key) {
            let message = format!("the request has {bytes} bytes; a Batch API takes {LONGEST_LINE}");
            let body = json!({"error": {"message": message, "type": "invalid_request_error"}});
            return Ok(Some(BatchAnswer { digest: String::new(), status: 400, body }));
        }
        let (Some(place), Some(asked)) = (self.places.get(&key), self.asked.get(&key)) else { return Ok(None) };
        let reply: Reply = serde_json::from_slice(&self.files[place.file].read(place.offset, place.length)?)?;
        let (status, body) = reply.said().ok_or_else(|| io::Error::other("the file of answers has changed"))?;
        Ok(Some(BatchAnswer { digest: asked.digest.clone(), status, body }))
    }
}
