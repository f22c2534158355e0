//! Waits for the browser to come back from a sign-in.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Returns the `state` of an address, by which a sign-in is known again.
pub(super) fn state_of(address: &str) -> Option<String> {
    let base = url::Url::parse("http://localhost").ok()?;
    let url = base.join(address).ok()?;
    url.query_pairs().find(|(key, _)| key == "state").map(|(_, state)| state.into_owned())
}

/// What a request to the callback is.
#[derive(Debug, PartialEq, Eq)]
enum Callback {
    /// It belongs to the sign-in: what was requested.
    Ours(String),
    /// It is of another sign-in, or of nobody: any page in the browser can send one.
    Foreign,
    /// It asks for something else.
    Other,
}

impl Callback {
    /// Reads the first line of a request.
    fn read(line: &str, path: &str, state: &str) -> Callback {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("GET"), Some(target)) if target.split('?').next() == Some(path) => {
                match state_of(target).is_some_and(|given| !given.is_empty() && given == state) {
                    true => Callback::Ours(target.to_owned()),
                    false => Callback::Foreign,
                }
            }
            _ => Callback::Other,
        }
    }
}

/// Answers the browser; returns the target of the request if it is the one that is waited for.
pub(super) async fn answer(mut stream: tokio::net::TcpStream, path: &str, state: &str) -> Option<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    let read = async {
        while head.len() < 16 << 10 && !head.windows(4).any(|four| four == b"\r\n\r\n") {
            match stream.read(&mut buffer).await {
                Ok(length @ 1..) => head.extend_from_slice(&buffer[..length]),
                Ok(0) | Err(_) => break,
            }
        }
    };
    let _slow = tokio::time::timeout(Duration::from_secs(5), read).await;
    let head = String::from_utf8_lossy(&head);
    let callback = Callback::read(head.lines().next().unwrap_or_default(), path, state);
    let (status, text) = match &callback {
        Callback::Ours(_) => ("200 OK", "You can close this window and go back to the terminal.\n"),
        Callback::Foreign => ("400 Bad Request", "This does not belong to the sign-in that is waited for.\n"),
        Callback::Other => ("404 Not Found", "Nothing is here.\n"),
    };
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    let _gone = tokio::time::timeout(Duration::from_secs(5), stream.write_all(reply.as_bytes())).await;
    match callback {
        Callback::Ours(target) => Some(target),
        Callback::Foreign | Callback::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_callback_of_another_sign_in_does_not_end_this_one() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        for (target, status, ours) in [
            ("/cb?code=c&state=ours", "200", true),
            ("/cb?error=access_denied&state=ours", "200", true),
            ("/cb?code=evil&state=wrong", "400", false),
            ("/cb?error=access_denied", "400", false),
            ("/cb?code=c&state=", "400", false),
            ("/cb", "400", false),
            ("/favicon.ico?state=ours", "404", false),
        ] {
            let ask = async {
                let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
                stream.write_all(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).await.unwrap();
                text
            };
            let serve = async { answer(listener.accept().await.unwrap().0, "/cb", "ours").await };
            let (text, found) = tokio::join!(ask, serve);
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {text}");
            assert_eq!(found.as_deref(), ours.then_some(target));
        }
        assert_eq!(state_of("https://a.example/authorize?x=1&state=a%2Bb").as_deref(), Some("a+b"));
        assert_eq!(Callback::read("GET /cb?code=c&state= HTTP/1.1", "/cb", ""), Callback::Foreign);
    }
}
