//! Decodes server-sent events byte by byte.
//!
//! The frames are the same however the bytes are split: a line is read only once its end has arrived, so neither a
//! UTF-8 character nor a `\r\n` can be torn.

/// Maximum bytes of one event, or of a body that is not a stream of events.
pub const MAX_EVENT: usize = 16 << 20;

/// Maximum bytes of one stream. Deltas of one byte cost some 200 bytes each, so this is far above what any answer
/// needs; it only stops endless streams.
pub const MAX_STREAM: u64 = 4 << 30;

/// Maximum bytes of a comment that are kept.
const MAX_COMMENT: usize = 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What a server said, in the order it said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// An event: its name, and its `data:` lines joined with `\n`.
    Event {
        /// The `event:` field, if there was one.
        event: Option<String>,
        /// The data; empty if only a name came.
        data: String,
    },
    /// A comment, which shows that the connection lives and nothing else.
    Comment(String),
    /// DashScope's comment `:HTTP_STATUS/429`: the status of the event that it is in.
    HttpStatus(u16),
    /// The whole body, which is JSON or HTML and no stream of events. Only [`Decoder::finish`] returns it.
    Body(String),
    /// A cap was broken; nothing follows.
    TooLarge,
}

/// What the first byte said the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unknown,
    Events,
    Body,
    Broken,
}

/// Turns bytes into [`Frame`]s.
///
/// ```
/// use qwen_run::model::sse::{Decoder, Frame};
///
/// let mut decoder = Decoder::new();
/// assert!(decoder.push(b"data: {}\r").is_empty());
/// assert_eq!(decoder.push(b"\n\r\n"), [Frame::Event { event: None, data: "{}".into() }]);
/// ```
#[derive(Debug)]
pub struct Decoder {
    kind: Kind,
    /// The line that has not ended, or the body so far.
    line: Vec<u8>,
    after_cr: bool,
    /// Whether a byte-order mark may still come.
    at_start: bool,
    event: Option<String>,
    data: String,
    has_data: bool,
    total: u64,
    max_event: usize,
    max_stream: u64,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// Starts at the first byte of a response's body.
    pub fn new() -> Decoder {
        Decoder::with_caps(MAX_EVENT, MAX_STREAM)
    }

    /// Starts with other caps than [`MAX_EVENT`] and [`MAX_STREAM`].
    pub fn with_caps(max_event: usize, max_stream: u64) -> Decoder {
        Decoder {
            kind: Kind::Unknown,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            event: None,
            data: String::new(),
            has_data: false,
            total: 0,
            max_event,
            max_stream,
        }
    }

    /// Takes the next bytes and returns the frames that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        // Only what the limits allow is examined, so that the cut falls on the same byte however the bytes arrive.
        let allowed = usize::try_from(self.max_stream.saturating_sub(self.total)).unwrap_or(usize::MAX);
        let within = &bytes[..bytes.len().min(allowed)];
        self.total += within.len() as u64;
        self.take(within, &mut frames);
        if within.len() < bytes.len() {
            self.break_off(&mut frames);
        }
        frames
    }

    /// Ends the stream: returns an event that no blank line closed, or the body that was not a stream.
    pub fn finish(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        match self.kind {
            Kind::Events | Kind::Unknown => {
                if !self.line.is_empty() {
                    let line = std::mem::take(&mut self.line);
                    self.end_line(&line, &mut frames);
                }
                if self.kind != Kind::Broken {
                    self.dispatch(&mut frames);
                }
            }
            Kind::Body => frames.push(Frame::Body(text(&std::mem::take(&mut self.line)))),
            Kind::Broken => {}
        }
        self.kind = Kind::Broken;
        frames
    }

    fn break_off(&mut self, frames: &mut Vec<Frame>) {
        if self.kind != Kind::Broken {
            self.kind = Kind::Broken;
            self.line = Vec::new();
            self.data = String::new();
            frames.push(Frame::TooLarge);
        }
    }

    fn take(&mut self, mut bytes: &[u8], frames: &mut Vec<Frame>) {
        while !bytes.is_empty() {
            match self.kind {
                Kind::Broken => return,
                Kind::Body => {
                    let room = self.max_event - self.line.len();
                    self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    if bytes.len() > room {
                        self.break_off(frames);
                    }
                    return;
                }
                Kind::Unknown => {
                    bytes = self.sniff(bytes, frames);
                }
                Kind::Events => {
                    if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                        bytes = &bytes[1..];
                        continue;
                    }
                    let end = memchr::memchr2(b'\n', b'\r', bytes);
                    let piece = &bytes[..end.unwrap_or(bytes.len())];
                    if self.line.len() + piece.len() > self.max_event {
                        return self.break_off(frames);
                    }
                    let Some(end) = end else {
                        self.line.extend_from_slice(piece);
                        return;
                    };
                    self.after_cr = bytes[end] == b'\r';
                    if self.line.is_empty() {
                        self.end_line(piece, frames);
                    } else {
                        let mut line = std::mem::take(&mut self.line);
                        line.extend_from_slice(piece);
                        self.end_line(&line, frames);
                        // The room is kept for the next line.
                        line.clear();
                        self.line = line;
                    }
                    bytes = &bytes[end + 1..];
                }
            }
        }
    }

    /// Reads up to the first byte that decides what the body is, past a byte-order mark and whitespace.
    fn sniff<'a>(&mut self, bytes: &'a [u8], frames: &mut Vec<Frame>) -> &'a [u8] {
        for (at, &byte) in bytes.iter().enumerate() {
            self.line.push(byte);
            if self.at_start && BOM.starts_with(&self.line) {
                if self.line == BOM {
                    self.line.clear();
                    self.at_start = false;
                }
                continue;
            }
            self.at_start = false;
            if self.line.len() == 1 && byte.is_ascii_whitespace() {
                self.line.clear();
                continue;
            }
            if matches!(self.line[0], b'{' | b'[' | b'<') {
                self.kind = Kind::Body;
            } else {
                self.kind = Kind::Events;
                let head = std::mem::take(&mut self.line);
                self.take(&head, frames);
            }
            return &bytes[at + 1..];
        }
        &[]
    }

    fn end_line(&mut self, line: &[u8], frames: &mut Vec<Frame>) {
        if line.is_empty() {
            return self.dispatch(frames);
        }
        if let Some(comment) = line.strip_prefix(b":") {
            let comment = text(&comment[..comment.len().min(MAX_COMMENT)]);
            frames.push(match comment.trim().strip_prefix("HTTP_STATUS/").map(str::parse) {
                Some(Ok(status)) => Frame::HttpStatus(status),
                Some(Err(_)) | None => Frame::Comment(comment.trim().to_owned()),
            });
            return;
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let (name, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        // Older builds of llama.cpp write `error: {…}`; some proxies pass the error's JSON on without any field.
        let is_error = name == b"error" && !value.is_empty() || is_bare_error(line);
        let value = if is_bare_error(line) { line } else { value };
        if is_error {
            self.event = Some("error".to_owned());
        }
        match name {
            _ if name == b"data" || is_error => {
                if self.data.len() + value.len() + 1 > self.max_event {
                    return self.break_off(frames);
                }
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                match std::str::from_utf8(value) {
                    Ok(value) => self.data.push_str(value),
                    Err(_) => self.data.push_str(&String::from_utf8_lossy(value)),
                }
            }
            b"event" => self.event = Some(text(value).trim().to_owned()),
            // `id`, `retry` and other fields.
            _ => {}
        }
    }

    fn dispatch(&mut self, frames: &mut Vec<Frame>) {
        let event = self.event.take().filter(|name| !name.is_empty());
        if self.has_data || event.is_some() {
            self.has_data = false;
            frames.push(Frame::Event { event, data: std::mem::take(&mut self.data) });
        }
    }
}

/// Tells whether a line is the JSON of an error that is where a field should be.
fn is_bare_error(line: &[u8]) -> bool {
    line.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"error\""))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(bytes: &[u8], piece: usize) -> Vec<Frame> {
        let mut decoder = Decoder::with_caps(64, 300);
        let mut frames: Vec<Frame> = bytes.chunks(piece.max(1)).flat_map(|piece| decoder.push(piece)).collect();
        frames.extend(decoder.finish());
        frames
    }

    fn event(event: Option<&str>, data: &str) -> Frame {
        Frame::Event { event: event.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn r2_frames_of_every_form_are_read() {
        let cases: &[(&str, Vec<Frame>)] = &[
            ("data: a\n\n", vec![event(None, "a")]),
            ("\u{feff}data:a\r\n\r\n", vec![event(None, "a")]),
            ("data:  a\r\rdata: b", vec![event(None, " a"), event(None, "b")]),
            ("data: a\ndata\ndata: b\n\n", vec![event(None, "a\n\nb")]),
            ("event: error\n:HTTP_STATUS/429\ndata:x\n\n", vec![Frame::HttpStatus(429), event(Some("error"), "x")]),
            ("data: a\n\nerror: {\"code\":400}\n\n", vec![event(None, "a"), event(Some("error"), "{\"code\":400}")]),
            ("data: a\n\n{\"error\":{}}\n", vec![event(None, "a"), event(Some("error"), "{\"error\":{}}")]),
            ("data: a\n\nerror\n\n{\"other\":1}\n\n", vec![event(None, "a")]),
            (": ping\n\n", vec![Frame::Comment("ping".into())]),
            ("event: ping\n\n", vec![event(Some("ping"), "")]),
            ("id: 1\nretry: 2\nnonsense\n\n", vec![]),
            ("\n\n  \ndata: a\n\n", vec![event(None, "a")]),
            (" {\"a\":1}\n", vec![Frame::Body("{\"a\":1}\n".into())]),
            ("", vec![]),
        ];
        for (text, wanted) in cases {
            assert_eq!(&frames(text.as_bytes(), 64), wanted, "{text:?}");
        }
        assert_eq!(frames(b"data: \xff\n\n", 1), [event(None, "\u{fffd}")]);
        assert_eq!(frames(b"\xef\xbbdata: a\n\n", 1), []);
    }

    proptest! {
        #[test]
        fn r1_any_split_gives_the_same_frames(
            parts in prop::collection::vec(prop::sample::select(vec![
                &b"data:"[..], b" ", b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xf0\x9f", b"\xa6\x80", b"event:", b":",
                b"x", b"HTTP_STATUS/429", b"{", b"<", b"error", b"error:", b"{\"error\"", b"0123456789abcdef0123456789abcdef",
            ]), 0..40),
            piece in 1usize..7,
        ) {
            let bytes = parts.concat();
            prop_assert_eq!(frames(&bytes, bytes.len()), frames(&bytes, piece));
        }
    }
}
