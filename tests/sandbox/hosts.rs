//! Tests that named hosts are reached through the proxy, in T3, and nothing else is.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use super::*;

/// Asks the proxy for something, as a program that knows it would, and prints what comes back.
const ASK: &str = r#"ask() { exec 3<>/dev/tcp/127.0.0.1/31280 && printf "$1" >&3 && cat <&3; exec 3>&-; }; "#;

/// A server on our own loopback, which answers each connection with what it was asked; tells of each connection.
fn server() -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = vec![0; 4096];
            let length = stream.read(&mut asked).unwrap_or(0);
            let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
            let first = asked.lines().next().unwrap_or_default();
            let body = format!("heard {first}\n");
            let _gone = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if tell.send(asked).is_err() {
                return;
            }
        }
    });
    (address, told)
}

/// A place whose commands may reach `open.test` and what is below `wide.test`; every name is our server, but for one
/// that claims to be the machine itself.
fn place(server: SocketAddr) -> Place {
    let mut place = Place::new();
    place.network = Network::Hosts(vec!["open.test".to_owned(), "*.wide.test".to_owned(), "inside.test".to_owned()]);
    place.names = Names {
        look_up: Arc::new(move |host, _| {
            let inside = SocketAddr::from(([127, 0, 0, 2], server.port()));
            let found = match host.as_str() {
                "inside.test" => vec![server, inside],
                "none.wide.test" => Vec::new(),
                _ => vec![server],
            };
            Box::pin(std::future::ready(Ok(found)))
        }),
        may_connect: |address| address == IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    place
}

fn said(sandbox: &Sandbox, place: &Place, text_of: &str) -> String {
    let output = run(sandbox, &script(text_of), place.request());
    text(&output.stdout) + &text(&output.stderr) + &output.notes.join("\n")
}

#[test]
fn a_host_that_is_open_is_reached_and_no_other() {
    let (address, heard) = server();
    let place = place(address);
    let Some(sandbox) = place.sandbox(Tier::T3) else { return };
    assert!(sandbox.confinement().describe().contains("network: open.test"), "{}", sandbox.confinement().describe());
    let answer = said(&sandbox, &place, &format!("{ASK} ask 'GET http://open.test/x HTTP/1.1\\r\\n\\r\\n'"));
    assert!(answer.contains("heard GET /x HTTP/1.1"), "{answer}");
    assert!(heard.recv().unwrap().contains("Host: open.test\r\n"));
    let tunnel = "CONNECT a.b.wide.test:443 HTTP/1.1\\r\\n\\r\\nhello through the tunnel\\n";
    let answer = said(&sandbox, &place, &format!("{ASK} ask '{tunnel}'"));
    assert!(answer.contains("200 Connection established") && answer.contains("heard hello through"), "{answer}");
    heard.recv().unwrap();
    for (request, why) in [
        ("CONNECT closed.test:443", "closed.test is not one of the hosts"),
        ("CONNECT wide.test:443", "wide.test is not one of the hosts"),
        ("CONNECT xopen.test:443", "xopen.test is not one of the hosts"),
        ("CONNECT open.test:22", "only the ports 443 and 80 are allowed"),
        ("CONNECT 127.0.0.1:443", "is not the name of a public host"),
        ("CONNECT inside.test:443", "inside.test resolves to 127.0.0.2, which is not a public address"),
        ("CONNECT none.wide.test:443", "has no address"),
        ("GET http://closed.test/", "closed.test is not one of the hosts"),
        ("GET http://open.test:8080/", "only the ports 443 and 80 are allowed"),
        ("GET /", "a request that is refused"),
    ] {
        let answer = said(&sandbox, &place, &format!("{ASK} ask '{request} HTTP/1.1\\r\\n\\r\\n'"));
        assert!(answer.matches(why).count() >= 2, "said inside and in the notes, {request}: {answer}");
        assert!(heard.try_recv().is_err(), "{request}");
    }
}

#[test]
fn beside_the_proxy_nothing_is_open() {
    let (address, heard) = server();
    let place = place(address);
    let Some(sandbox) = place.sandbox(Tier::T3) else { return };
    let direct = format!("exec 3<>/dev/tcp/127.0.0.1/{} && echo reached", address.port());
    assert!(!said(&sandbox, &place, &direct).contains("reached"));
    // A second request after the first one goes nowhere.
    let two = "GET http://open.test/1 HTTP/1.1\\r\\n\\r\\nGET http://closed.test/2 HTTP/1.1\\r\\n\\r\\n";
    let answer = said(&sandbox, &place, &format!("{ASK} ask '{two}'"));
    assert!(answer.contains("heard GET /1") && !answer.contains("/2"), "{answer}");
    assert!(!heard.recv().unwrap().contains("closed.test"));
    // What cannot be read gets no network at all, the proxy's neither.
    let text_of = format!("{ASK} ask 'GET http://open.test/ HTTP/1.1\\r\\n\\r\\n'; echo \"proxy: $http_proxy.\"");
    let output = run(&sandbox, &plan(Start::AsWritten(text_of)), place.request());
    assert!(text(&output.stdout).contains("proxy: .\n"), "{output:?}");
    assert!(heard.try_recv().is_err());
}

#[test]
fn programs_find_the_proxy_by_the_usual_variables() {
    let (address, heard) = server();
    let place = place(address);
    let Some(sandbox) = place.sandbox(Tier::T3) else { return };
    let curl = said(&sandbox, &place, "command -v curl > /dev/null && curl -sS http://open.test/from-curl");
    if curl.is_empty() {
        aloud("NOT TESTED: curl is not installed");
    } else {
        assert!(curl.contains("heard GET /from-curl"), "{curl}");
        heard.recv().unwrap();
    }
    let python = "command -v python3 > /dev/null && python3 -c 'import urllib.request as u; \
                  print(u.urlopen(\"http://a.wide.test/from-python\").read().decode())'";
    let python = said(&sandbox, &place, python);
    if python.is_empty() {
        aloud("NOT TESTED: python3 is not installed");
    } else {
        assert!(python.contains("heard GET /from-python"), "{python}");
    }
}

#[test]
fn below_namespaces_single_hosts_open_nothing_and_nothing_runs() {
    let (address, heard) = server();
    let place = place(address);
    let Some(sandbox) = place.sandbox(Tier::T2) else { return };
    match wait(sandbox.run(&script("echo ran > ran"), place.request())) {
        Err(SandboxError::Refused(why)) => assert!(why.contains("needs isolation tier T3"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(!place.at("tree/ran").exists() && heard.try_recv().is_err());
}
