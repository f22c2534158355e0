//! Tests servers with their own certificates: which ones `--ca-file` makes trusted, and what the others' errors say.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::Project;
use crate::support::git_https::{fixture, shows};

/// Answers one request with `hello`; what fails is the client's to tell.
fn answer(config: &Arc<ServerConfig>, stream: TcpStream) -> std::io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.ends_with(b"}") {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        request.extend_from_slice(&piece[..length]);
    }
    let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length";
    write!(stream, "{head}: {}\r\n\r\n{body}", body.len())?;
    stream.flush()
}

/// Starts a server that shows this certificate, and returns its base URL.
fn start(certificate: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = shows(certificate);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _refused = answer(&config, stream);
        }
    });
    format!("https://localhost:{port}/v1")
}

#[test]
fn a_certificate_that_signs_itself_is_trusted_where_it_is_named_and_only_for_its_own_host() {
    let cases = [
        ("leaf.pem", Some("leaf.pem"), None),
        ("leaf.pem", None, Some(("is not trusted", "--ca-file"))),
        ("leaf.pem", Some("other.pem"), Some(("is not trusted", "--ca-file"))),
        ("other.pem", Some("other.pem"), Some(("not valid for name", "a name that the certificate is valid for"))),
        // As `openssl req -x509` makes it.
        ("authority.pem", Some("authority.pem"), None),
        ("authority.pem", Some("leaf.pem"), Some(("is not trusted", "--ca-file"))),
    ];
    for (shown, named, refused) in cases {
        let project = Project::new().file("a.txt", "one\n").env("QWEN_MODEL", "scripted");
        let project = project.env("QWEN_BASE_URL", &start(shown));
        let named = named.map(fixture);
        let flags = named.as_ref().map_or_else(Vec::new, |file| vec!["--ca-file", file]);
        let outcome = project.run(&[&flags[..], &["hi"]].concat());
        match refused {
            None => assert_eq!((outcome.code, outcome.stdout.trim()), (0, "hello"), "{}", outcome.stderr),
            Some((why, what)) => {
                assert_eq!(outcome.code, 75, "{shown} {named:?}: {}", outcome.stderr);
                assert!(outcome.stderr.contains(why) && outcome.stderr.contains(what), "{shown}: {}", outcome.stderr);
            }
        }
    }
}
