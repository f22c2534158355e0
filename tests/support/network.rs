//! Provides an MCP server on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// A server on the network: it keeps the first line, headers and body of each request, speaks MCP at `/mcp`, and gives
/// the token `new` at `/token`.
pub(crate) fn on_the_network() -> (String, Arc<Mutex<Vec<String>>>) {
    on_the_network_with(|_, _| None)
}

/// The same, which answers a path (the first value; the second is its own address) with a document instead.
pub(crate) fn on_the_network_with(
    document: impl Fn(&str, &str) -> Option<Value> + Send + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let kept = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&kept);
    let own = address.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let length = |line: &str| line.to_lowercase().strip_prefix("content-length: ").map(str::parse);
            let mut body = vec![0; head.lines().find_map(length).map_or(0, Result::unwrap)];
            reader.read_exact(&mut body).unwrap();
            let body = String::from_utf8(body).unwrap();
            let message: Value = serde_json::from_str(&body).unwrap_or_default();
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "n", "version": "1"}})
                }
                Some("tools/list") => {
                    json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}, {"name": "find", "inputSchema": {"type": "object"}}]})
                }
                Some("tools/call") => json!({"content": [{"type": "text", "text": "found on the network"}]}),
                _ => Value::Null,
            };
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let document = document(path, &own).map(|document| document.to_string());
            let (status, answer) = match path {
                _ if document.is_some() => (200, document.unwrap_or_default()),
                "/token" => {
                    (200, json!({"access_token": "new", "token_type": "Bearer", "expires_in": 3600}).to_string())
                }
                "/mcp" if !result.is_null() => (200, answer),
                "/mcp" if head.starts_with("POST") => (202, String::new()),
                _ => (405, String::new()),
            };
            shared.lock().unwrap().push(head + &body);
            let length = answer.len();
            let _gone = write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
            );
        }
    });
    (address, kept)
}
