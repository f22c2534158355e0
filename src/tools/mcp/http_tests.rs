//! Tests servers that answer too much, garbage or nonsense over HTTP: each costs one clear message.

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::tests::start;

/// A server over HTTP that answers each request with the next of these, byte for byte.
async fn over_http(answers: Vec<Vec<u8>>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for answer in answers {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (read, mut write) = stream.into_split();
            let mut read = BufReader::new(read);
            let (mut line, mut length) = (String::new(), 0);
            while line != "\r\n" {
                line.clear();
                if read.read_line(&mut line).await.unwrap_or(0) == 0 {
                    break;
                }
                if let Some(said) = line.to_lowercase().strip_prefix("content-length:") {
                    length = said.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            let _gone = read.read_exact(&mut body).await;
            let _gone = write.write_all(&answer).await;
        }
    });
    address
}

fn http_answer(kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

async fn error_over_http(answers: Vec<Vec<u8>>, key: &str) -> String {
    let address = over_http(answers).await;
    let servers = start(|_| async {}, json!({ key: address })).await;
    servers.states()[0].error.clone().expect("it cannot be had")
}

#[tokio::test]
async fn over_http_too_much_garbage_and_nonsense_are_one_message_each() {
    let huge = format!("data: {}\n\n", "x".repeat(20 << 20));
    for (kind, body, why) in [
        ("application/json", "not json", "not json"),
        ("application/json", &*"x".repeat(20 << 20), "exceeded the maximum size"),
        ("text/html", "<h1>Welcome</h1>", "text/html"),
        ("text/event-stream", "data: garbage\n\n", ""),
        ("text/event-stream", &huge, ""),
    ] {
        let said = error_over_http(vec![http_answer(kind, body)], "httpUrl").await;
        assert!(said.contains(why) && said.len() < 600 && !said.contains('\n'), "{kind}: {said}");
    }
    let said = error_over_http(vec![http_answer("text/html", "<h1>Welcome</h1>")], "url").await;
    assert_eq!(said, "it responded 200 OK with \"text/html\" instead of an event stream");
    let said = error_over_http(vec![http_answer("text/event-stream", &huge)], "url").await;
    assert_eq!(said, "it sent a message of more than 16 MiB");
    let servers = start(|_| async {}, json!({"httpUrl": "http://127.0.0.1:9/mcp"})).await;
    let said = servers.states()[0].error.clone().unwrap();
    assert!(said.contains("onnection refused"), "{said}");
    let elsewhere = "event: endpoint\ndata: http://evil.example/x\n\n";
    let said = error_over_http(vec![http_answer("text/event-stream", elsewhere)], "url").await;
    assert_eq!(said, "the endpoint that it named is on another server");
    let said = error_over_http(vec![b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_vec()], "url").await;
    assert!(said.starts_with("it responded 500"), "{said}");
}

#[tokio::test]
async fn a_server_on_the_network_is_judged_before_it_is_reached() {
    let servers = start(|_| async {}, json!({"httpUrl": "https://refused.example/mcp"})).await;
    assert_eq!(servers.states()[0].error.as_deref(), Some("the policy does not let it be reached"));
}
