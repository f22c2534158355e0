//! Runs the proxy that is the only way out of a network namespace, for commands that may reach certain hosts.
//!
//! The supervisor opens a listener inside the command's network and passes it to this process, so that connections made
//! inside arrive outside. Each is judged by its host, the host's addresses are looked up once, and the connection goes
//! to an address that was checked. The contents of tunnels are not inspected.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use super::wire;
use crate::policy::web::{host_matches, is_public};

/// The port of the listener inside: every command has a network of its own, so the number is free.
pub(super) const PORT: u16 = 31_280;

/// The ports that may be reached outside.
const PORTS: [u16; 2] = [443, 80];

/// Maximum bytes before the body of a request.
const MOST_HEAD: usize = 32 << 10;

/// Maximum fields of a head.
const MOST_FIELDS: usize = 100;

/// Maximum connections at the same time.
const MOST_CONNECTIONS: usize = 128;

/// How long to keep reading from a client that has its answer.
const LINGER: Duration = Duration::from_secs(1);

/// Timeout for a request to arrive, and for a connection to be made.
const PATIENCE: Duration = Duration::from_secs(20);

/// Resolves a host and port.
type LookUp = dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// How host names become addresses.
#[derive(Clone)]
pub struct Names {
    /// Resolves them.
    pub look_up: Arc<LookUp>,
    /// Tells which addresses may be connected to.
    pub may_connect: fn(IpAddr) -> bool,
}

impl Names {
    /// The system's resolver, with public addresses only.
    pub fn of_the_system() -> Names {
        let look_up = |host: String, port: u16| -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            Box::pin(async move { Ok(tokio::net::lookup_host((host.as_str(), port)).await?.collect()) })
        };
        Names { look_up: Arc::new(look_up), may_connect: is_public }
    }
}

/// The variables by which programs find the proxy.
pub(super) fn variables() -> Vec<(&'static str, String)> {
    let address = format!("http://127.0.0.1:{PORT}");
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let mut variables: Vec<_> = names.into_iter().map(|name| (name, address.clone())).collect();
    variables.extend(["NO_PROXY", "no_proxy"].map(|name| (name, "localhost,127.0.0.1,::1".to_owned())));
    variables
}

/// Serves one command until it is dropped.
pub(super) struct Proxy {
    work: JoinHandle<()>,
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Proxy {
    /// Waits for the listener that arrives over `socket`, then serves it.
    pub(super) fn start(socket: StdUnixStream, hosts: Vec<String>, names: Names) -> io::Result<Proxy> {
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        let refused: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let door = Arc::new(Door { hosts, names, refused: Arc::clone(&refused) });
        let work = tokio::spawn(async move {
            // Without a listener the command reaches nothing, which its programs report themselves.
            if let Ok(listener) = listener(&socket).await {
                serve(&listener, &door).await;
            }
        });
        Ok(Proxy { work, refused })
    }

    /// Returns a sentence about each request that was refused.
    pub(super) fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter().cloned().collect()
    }
}

async fn listener(socket: &UnixStream) -> io::Result<TcpListener> {
    let descriptor = socket.async_io(Interest::READABLE, || wire::receive_descriptor(socket)).await?;
    let listener = std::net::TcpListener::from(descriptor);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn serve(listener: &TcpListener, door: &Arc<Door>) {
    let mut connections = JoinSet::new();
    loop {
        if connections.len() >= MOST_CONNECTIONS {
            connections.join_next().await;
        }
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    let door = Arc::clone(door);
                    connections.spawn(async move { drop(door.answer(client).await) });
                }
                // Out of descriptors, or similar: wait before trying again.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
        }
    }
}

/// The hosts that may be reached.
struct Door {
    hosts: Vec<String>,
    names: Names,
    refused: Arc<Mutex<BTreeSet<String>>>,
}

/// A request as far as its first line and its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Request {
    /// A tunnel to a port of a host.
    Tunnel { host: String, port: u16 },
    /// One request to a server over plain HTTP, as it will be sent there.
    Plain { host: String, port: u16, head: String, body: u64 },
}

/// Why a request is not passed on: the status and the sentence.
type Refusal = (&'static str, String);

impl Door {
    async fn answer(&self, mut client: TcpStream) -> io::Result<()> {
        let mut begin = Vec::new();
        let read = tokio::time::timeout(PATIENCE, read_head(&mut client, &mut begin));
        let Ok(Ok(Some(length))) = read.await else { return Ok(()) };
        let rest = begin.split_off(length);
        match self.connect(&begin).await {
            Ok((Request::Tunnel { .. }, mut server)) => {
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                server.write_all(&rest).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await?;
            }
            Ok((Request::Plain { head, body, .. }, mut server)) => {
                server.write_all(head.as_bytes()).await?;
                exchange(&mut client, &mut server, &rest, body).await?;
                read_off(&mut client).await;
            }
            Err((status, why)) => {
                let text = format!("qwen: {why}\n");
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    text.len()
                );
                // First, as the client that has the answer may end the command, and with it this task.
                self.note(why);
                client.write_all((head + &text).as_bytes()).await?;
                client.shutdown().await?;
                read_off(&mut client).await;
            }
        }
        Ok(())
    }

    fn note(&self, why: String) {
        let mut refused = self.refused.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if refused.len() < 10 {
            refused.insert(why);
        }
    }

    async fn connect(&self, head: &[u8]) -> Result<(Request, TcpStream), Refusal> {
        let request = read_request(head)?;
        let (Request::Tunnel { host, port } | Request::Plain { host, port, .. }) = &request;
        self.judge(host, *port)?;
        let looked_up = tokio::time::timeout(PATIENCE, (self.names.look_up)(host.clone(), *port)).await;
        let addresses = match looked_up {
            Ok(Ok(addresses)) if !addresses.is_empty() => addresses,
            Ok(Ok(_)) => return Err(("502 Bad Gateway", format!("{host} has no address"))),
            Ok(Err(error)) => return Err(("502 Bad Gateway", format!("cannot resolve {host}: {error}"))),
            Err(_) => return Err(("504 Gateway Timeout", format!("cannot resolve {host}: no answer in time"))),
        };
        if let Some(bad) = addresses.iter().find(|address| !(self.names.may_connect)(address.ip())) {
            return Err(forbidden(format!("{host} resolves to {}, which is not a public address", bad.ip())));
        }
        let mut why = String::new();
        for address in addresses {
            match tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(server)) => return Ok((request, server)),
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => why = "no answer in time".to_owned(),
            }
        }
        Err(("502 Bad Gateway", format!("{host} cannot be reached: {why}")))
    }

    fn judge(&self, host: &str, port: u16) -> Result<(), Refusal> {
        if !self.hosts.iter().any(|allowed| host_matches(&allowed.to_lowercase(), host)) {
            return Err(forbidden(format!("{host} is not one of the hosts that the policy allows to commands")));
        }
        if !PORTS.contains(&port) {
            return Err(forbidden(format!("{host}:{port}: only the ports 443 and 80 are allowed")));
        }
        Ok(())
    }
}

fn forbidden(why: String) -> Refusal {
    ("403 Forbidden", why)
}

fn malformed(why: &str) -> Refusal {
    ("400 Bad Request", format!("a request that is refused: {why}"))
}

/// Reads until the empty line; returns the length of the head. `None` if there is none.
async fn read_head(client: &mut TcpStream, begin: &mut Vec<u8>) -> io::Result<Option<usize>> {
    loop {
        if let Some(end) = begin.windows(4).position(|four| four == b"\r\n\r\n") {
            return Ok(Some(end + 4));
        }
        if begin.len() > MOST_HEAD || client.read_buf(begin).await? == 0 {
            return Ok(None);
        }
    }
}

/// Sends the body and passes on what comes back, until the server is done.
async fn exchange(client: &mut TcpStream, server: &mut TcpStream, rest: &[u8], body: u64) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let first = usize::try_from(body).unwrap_or(usize::MAX).min(rest.len());
    let send = async {
        to_server.write_all(&rest[..first]).await?;
        // What follows the body would be a second request, which nothing has judged.
        tokio::io::copy(&mut (&mut from_client).take(body - first as u64), &mut to_server).await?;
        std::future::pending::<io::Result<()>>().await
    };
    tokio::select! {
        sent = send => sent?,
        answered = tokio::io::copy(&mut from_server, &mut to_client) => { answered?; }
    }
    to_client.shutdown().await
}

/// Reads what else the client sends, for a while: closing a connection with unread bytes would discard the answer.
async fn read_off(client: &mut TcpStream) {
    let read = async {
        let mut some = [0; 4096];
        let mut left = MOST_HEAD;
        while let Ok(count @ 1..) = client.read(&mut some).await {
            let Some(fewer) = left.checked_sub(count) else { break };
            left = fewer;
        }
    };
    let _ended = tokio::time::timeout(LINGER, read).await;
}

/// Writes the fields of a request that are for the other side; returns the length of the body.
fn pass_on(fields: &[httparse::Header<'_>], out: &mut String) -> Result<u64, Refusal> {
    let mut body = None;
    for httparse::Header { name, value } in fields {
        let value = std::str::from_utf8(value).map_err(|_| malformed("a field that is not UTF-8"))?;
        match name.to_ascii_lowercase().as_str() {
            "transfer-encoding" => return Err(("411 Length Required", "a body must state its length".to_owned())),
            "content-length" => {
                let digits = !value.is_empty() && value.chars().all(|c| c.is_ascii_digit());
                let length: Option<u64> = value.parse().ok().filter(|_| digits);
                if length.is_none() || body.replace(length.unwrap_or_default()).is_some() {
                    return Err(malformed("its length"));
                }
                out.push_str(&format!("Content-Length: {value}\r\n"));
            }
            // Fields about this connection, not the other; `Upgrade` would turn it into a tunnel.
            "host" | "connection" | "keep-alive" | "upgrade" | "te" | "trailer" | "expect" => {}
            proxy if proxy.starts_with("proxy-") => {}
            _ => out.push_str(&format!("{name}: {value}\r\n")),
        }
    }
    Ok(body.unwrap_or_default())
}

fn read_request(head: &[u8]) -> Result<Request, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let status = request.parse(head).map_err(|error| malformed(&error.to_string()))?;
    // The parser also takes a line feed alone as the end of a line, and empty lines before the first.
    let is_strict = status == httparse::Status::Complete(head.len())
        && !head.starts_with(b"\r")
        && memchr::memchr_iter(b'\n', head).all(|at| at > 0 && head[at - 1] == b'\r');
    let (true, Some(method), Some(target)) = (is_strict, request.method, request.path) else {
        return Err(malformed("the line ends of its head"));
    };
    if !method.chars().all(|c| c.is_ascii_alphabetic()) {
        return Err(malformed("its method"));
    }
    if method == "CONNECT" {
        let (host, port) = target.rsplit_once(':').ok_or_else(|| malformed("a tunnel without a port"))?;
        let digits = !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
        let port = port.parse().ok().filter(|_| digits).ok_or_else(|| malformed("the port of a tunnel"))?;
        return Ok(Request::Tunnel { host: name_of(host)?, port });
    }
    let rest = target.strip_prefix("http://").ok_or_else(|| malformed("a target that does not begin with http://"))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') || path.contains('#') {
        return Err(malformed("user information or a fragment in its target"));
    }
    let (host, port) = match authority.rsplit_once(':') {
        None => (authority, 80),
        Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => {
            (host, port.parse().map_err(|_| malformed("the port of its target"))?)
        }
        Some(_) => return Err(malformed("the port of its target")),
    };
    let host = name_of(host)?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let at = if port == 80 { host.clone() } else { format!("{host}:{port}") };
    let mut out = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n");
    let body = pass_on(request.headers, &mut out)?;
    out.push_str("\r\n");
    Ok(Request::Plain { host, port, head: out, body })
}

/// Returns a host name in the form that rules compare; an address in any notation is refused.
fn name_of(host: &str) -> Result<String, Refusal> {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let last = name.split('.').next_back().unwrap_or_default();
    let is_number = last.starts_with("0x") || last.chars().all(|c| c.is_ascii_digit());
    if !name.chars().all(is_letter) || name.split('.').any(str::is_empty) || is_number || last == "localhost" {
        return Err(forbidden(format!("{host:?} is not the name of a public host")));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Request, &'static str> {
        read_request(text.as_bytes()).map_err(|(status, _)| status)
    }

    #[test]
    fn a_tunnel_names_a_host_and_a_port() {
        let tunnel = |host: &str, port| Ok(Request::Tunnel { host: host.to_owned(), port });
        assert_eq!(asked("CONNECT crates.io:443 HTTP/1.1\r\nHost: x\r\n\r\n"), tunnel("crates.io", 443));
        assert_eq!(asked("CONNECT Crates.IO.:443 HTTP/1.1\r\n\r\n"), tunnel("crates.io", 443));
        for target in [
            "127.0.0.1:443",
            "[::1]:443",
            "2130706433:443",
            "0x7f.1:443",
            "a.0x7f000001:443",
            "localhost:443",
            "a..b:443",
            "u@crates.io:443",
            "crates.io%2e:443",
            ":443",
            "crätes.io:443",
        ] {
            assert_eq!(asked(&format!("CONNECT {target} HTTP/1.1\r\n\r\n")), Err("403 Forbidden"), "{target}");
        }
        for target in ["crates.io", "crates.io:", "crates.io:+443", "crates.io:99999", "crates.io:443 x"] {
            assert_eq!(asked(&format!("CONNECT {target} HTTP/1.1\r\n\r\n")), Err("400 Bad Request"), "{target}");
        }
    }

    #[test]
    fn a_plain_request_is_sent_to_the_host_of_its_target_and_is_the_only_one() {
        let text = "GET http://a.example/x?y HTTP/1.1\r\nHost: other.example\r\nProxy-Connection: keep-alive\r\n\
                    Connection: keep-alive\r\nAccept: */*\r\n\r\n";
        let head = "GET /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nAccept: */*\r\n\r\n".to_owned();
        assert_eq!(asked(text), Ok(Request::Plain { host: "a.example".into(), port: 80, head, body: 0 }));
        let text = "POST http://a.example?q HTTP/1.1\r\ncontent-length: 3\r\n\r\n";
        let Ok(Request::Plain { head, body: 3, .. }) = asked(text) else { panic!() };
        assert!(head.starts_with("POST /?q HTTP/1.1\r\n"), "{head}");
    }

    #[test]
    fn what_two_readers_could_read_in_two_ways_is_refused() {
        for text in [
            "GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET https://a.example/ HTTP/1.1\r\n\r\n",
            "GET http://u@a.example/ HTTP/1.1\r\n\r\n",
            "GET http://a.example:x/ HTTP/1.1\r\n\r\n",
            "GET http://a.example/ HTTP/2\r\n\r\n",
            "GET  http://a.example/ HTTP/1.1\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\n\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA : b\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: \x01\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\nA: b\r\n\r\n",
            "\r\nGET http://a.example/ HTTP/1.1\r\n\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
        ] {
            assert_eq!(asked(text), Err("400 Bad Request"), "{text:?}");
        }
        let chunked = "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(asked(chunked), Err("411 Length Required"));
        assert_eq!(asked("GET http://10.0.0.1/ HTTP/1.1\r\n\r\n"), Err("403 Forbidden"));
    }

    #[test]
    fn hosts_are_compared_by_whole_labels() {
        let hosts = vec!["crates.io".to_owned(), "*.Rust-Lang.org".to_owned()];
        let door = Door { hosts, names: Names::of_the_system(), refused: Arc::default() };
        for (host, port, open) in [
            ("crates.io", 443, true),
            ("crates.io", 80, true),
            ("crates.io", 22, false),
            ("static.crates.io", 443, false),
            ("xcrates.io", 443, false),
            ("doc.rust-lang.org", 443, true),
            ("a.b.rust-lang.org", 443, true),
            ("rust-lang.org", 443, false),
            ("evilrust-lang.org", 443, false),
            ("crates.io.evil.example", 443, false),
        ] {
            assert_eq!(door.judge(host, port).is_ok(), open, "{host}:{port}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_request_makes_the_proxy_panic(text in "(GET|CONNECT|P) (http://)?[a-z.:@/0-9\\[\\] ]{0,20} HTTP/1.1\r\n\\PC{0,20}\r\n\r\n") {
            let _ = read_request(text.as_bytes());
        }
    }
}
