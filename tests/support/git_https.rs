//! Serves bare repositories on loopback by `git http-backend`, over TLS.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Returns a file of the certificates for tests.
pub(crate) fn fixture(name: &str) -> String {
    format!("{}/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the configuration of a server that shows this certificate.
pub(crate) fn shows(certificate: &str) -> Arc<ServerConfig> {
    let key = std::fs::read_to_string(fixture("key-for-tests.txt")).unwrap().replace('\n', "");
    let key = PrivatePkcs8KeyDer::from(base64::engine::general_purpose::STANDARD.decode(key).unwrap());
    let certificate = CertificateDer::from_pem_file(fixture(certificate)).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::from(key))
        .unwrap();
    Arc::new(config)
}

/// A server of the bare repositories below a directory, for whoever has the token.
pub(crate) struct GitHttps {
    port: u16,
    refused: Arc<Mutex<usize>>,
}

impl GitHttps {
    /// Starts the server.
    pub(crate) fn start(root: &Path, token: &'static str) -> GitHttps {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (config, refused) = (shows("authority.pem"), Arc::default());
        let (counter, root) = (Arc::clone(&refused), root.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, counter, root) = (Arc::clone(&config), Arc::clone(&counter), root.clone());
                std::thread::spawn(move || {
                    let _gone = serve(&config, stream, &root, token, &counter);
                });
            }
        });
        GitHttps { port, refused }
    }

    /// Returns host and port.
    pub(crate) fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Returns how many requests came without the token.
    pub(crate) fn refused(&self) -> usize {
        *self.refused.lock().unwrap()
    }
}

fn serve(
    config: &Arc<ServerConfig>,
    stream: TcpStream,
    root: &Path,
    token: &str,
    refused: &Mutex<usize>,
) -> std::io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut bytes = Vec::new();
    let mut piece = [0; 1 << 16];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            length => bytes.extend_from_slice(&piece[..length]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    assert_eq!(header("transfer-encoding"), None, "a request of a test is short");
    let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = bytes[end..].to_vec();
    while body.len() < length {
        let read = stream.read(&mut piece)?;
        body.extend_from_slice(&piece[..read]);
    }
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{token}"));
    let is_given = |given: String| {
        given.split_once(' ').is_some_and(|(scheme, value)| scheme.eq_ignore_ascii_case("basic") && value == basic)
    };
    if !header("authorization").is_some_and(is_given) {
        *refused.lock().unwrap() += 1;
        stream.write_all(
            b"HTTP/1.1 401 X\r\nwww-authenticate: Basic\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        )?;
        return stream.flush();
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let answer = backend(root, (method, path, query), &header, body);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("the headers of an answer");
    let headers = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = headers.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let content = &answer[end + 4..];
    let length = content.len();
    write!(stream, "HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")?;
    stream.write_all(content)?;
    stream.flush()
}

/// Has git answer a request as a program of a web server.
fn backend(
    root: &Path,
    (method, path, query): (&str, &str, &str),
    header: &dyn Fn(&str) -> Option<String>,
    body: Vec<u8>,
) -> Vec<u8> {
    let mut command = Command::new("git");
    command.arg("http-backend").env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1").env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("HOME", "/dev/null").env("REMOTE_USER", "a").env("REMOTE_ADDR", "127.0.0.1");
    command.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
    command.env("CONTENT_LENGTH", body.len().to_string());
    for (name, variable) in [
        ("content-type", "CONTENT_TYPE"),
        ("content-encoding", "HTTP_CONTENT_ENCODING"),
        ("git-protocol", "GIT_PROTOCOL"),
    ] {
        command.envs(header(name).map(|value| (variable, value)));
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(&body));
    let output = child.wait_with_output().unwrap();
    let _closed = writer.join();
    output.stdout
}
