//! Reads requests and writes answers of HTTP/1.1, one a connection.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path with its query.
    pub(super) target: String,
    /// The token, without `Bearer`.
    pub(super) token: String,
    pub(super) body: Value,
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn new(status: u16, body: Value) -> Answer {
        Answer { status, headers: Vec::new(), body }
    }

    pub(super) fn error(status: u16, message: &str) -> Answer {
        let address = "https://docs.github.com/rest";
        Answer::new(status, json!({"message": message, "documentation_url": address, "status": status.to_string()}))
    }
}

impl Request {
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Returns the query, decoded.
    pub(super) fn query(&self) -> Vec<(String, String)> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        url::form_urlencoded::parse(query.as_bytes()).map(|(name, value)| (name.into(), value.into())).collect()
    }

    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.query().into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

pub(super) fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let header = |name: &str| {
            head.lines().find_map(|line| {
                let (known, value) = line.split_once(": ")?;
                known.eq_ignore_ascii_case(name).then(|| value.to_owned())
            })
        };
        let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if bytes.len() - end - 4 < length {
            continue;
        }
        let mut words = head.lines().next()?.split(' ');
        return Some(Request {
            method: words.next()?.to_owned(),
            target: words.next()?.to_owned(),
            token: header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned(),
            body: serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default(),
        });
    }
}

pub(super) fn write(stream: &mut TcpStream, answer: &Answer) {
    let body = match &answer.body {
        Value::Null => String::new(),
        // No answer of the interface is a text alone: it is that of a file.
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    let headers: String = answer.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let _gone = write!(
        stream,
        "HTTP/1.1 {} X\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        answer.status,
        body.len()
    );
}
