//! Tests how servers are reached, and what they say of themselves.

use super::*;

#[tokio::test]
async fn r54_a_redirect_is_not_followed() {
    let other = TestServer::play(vec![says("stolen")]).await;
    let moved = respond_with(302, &format!("location: {}/chat/completions\r\n", other.url), b"");
    let (ran, _) = play(vec![moved]).await;
    let error = ran.result.unwrap_err();
    assert!(error.message.contains("redirects to"), "{}", error.message);
    assert!(other.seen().is_empty());
}

#[test]
fn r54_plain_http_beyond_this_machine_is_refused() {
    let remote = ClientConfig::new("http://model.example/v1", "m");
    assert!(Client::new(ClientConfig { key: Some(Secret::parse("abcd").unwrap()), ..remote.clone() }).is_err());
    let mut allowed = ClientConfig { key: Some(Secret::parse("abcd").unwrap()), ..remote };
    allowed.connection.allow_http = true;
    assert!(Client::new(allowed).is_ok());
}

#[tokio::test]
async fn r56_a_base_without_its_version_is_tried_with_it() {
    let server = TestServer::play(vec![respond(404, "text/plain", "404 page not found"), says("ok")]).await;
    let base_url = server.url.trim_end_matches("/v1").to_owned();
    let client = Client::new(ClientConfig { base_url, ..config(&server) }).unwrap();
    assert_eq!(ask(&client, &request()).await.result.unwrap().message.text, "ok");
    let lines: Vec<String> = server.seen().iter().map(|seen| seen.line.clone()).collect();
    assert_eq!(lines, ["POST /chat/completions HTTP/1.1", "POST /v1/chat/completions HTTP/1.1"]);
}

#[tokio::test]
async fn r57_this_machine_is_reached_without_a_proxy() {
    let proxy = Proxies { all: Some("http://127.0.0.1:1".into()), ..Proxies::default() };
    let (ran, _) = play_with(vec![says("ok")], |config| config.connection.proxy = proxy).await;
    assert_eq!(ran.result.unwrap().message.text, "ok");
}

#[tokio::test]
async fn r57_a_zipped_stream_is_read() {
    use base64::Engine as _;
    let zipped = base64::engine::general_purpose::STANDARD
        .decode("H4sIAAAAAAACAx3MMQqEMBAF0D6nkF9bWE/ttusBJEhwZnFgmQQzhSi5+4atHzxOnmh4sB9Zd6mg9YEaywWaRrB8PYE6Z3MxB+HWUoTRRnzUtB7bKalm61I9F7TYQuB/us7L+xVD+AF7omQ1YwAAAA==")
        .unwrap();
    let script = respond_with(200, "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n", &zipped);
    let (ran, _) = play(vec![script]).await;
    assert_eq!(ran.result.unwrap().message.text, "zipped");
}

#[tokio::test]
async fn a_refused_connection_is_tried_as_often_as_asked() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let mut config = ClientConfig::new(base, "m");
    (config.retry.retries, config.retry.first_wait) = (2, Duration::from_micros(10));
    let ran = ask(&Client::new(config).unwrap(), &request()).await;
    assert_eq!(retries(&ran), ["network", "network"]);
    let error = ran.result.unwrap_err();
    assert_eq!((error.class, error.requests), (ErrorClass::Network, 3));
}

#[tokio::test]
async fn the_only_model_of_a_server_is_found() {
    let list = |names: &[&str]| {
        let data: Vec<Value> = names.iter().map(|name| json!({"id": name})).collect();
        respond(200, "application/json", &json!({"object": "list", "data": data}).to_string())
    };
    let server = TestServer::play(vec![list(&["one"]), list(&["one", "two"]), list(&[])]).await;
    let config = config(&server);
    assert_eq!(only_model(&config).await.unwrap().name, "one");
    assert!(only_model(&config).await.unwrap_err().message.contains("one, two"));
    assert_eq!(only_model(&config).await.unwrap_err().class, ErrorClass::ModelNotFound);
    assert_eq!(server.seen()[0].line, "GET /v1/models HTTP/1.1");
}

#[tokio::test]
async fn the_window_of_a_slot_is_asked_of_llama_cpp_where_the_list_does_not_say_it() {
    let models = json!({"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 32768}}]});
    let props = json!({"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1});
    let server = TestServer::play(vec![
        respond(200, "application/json", &models.to_string()),
        respond(200, "application/json", &props.to_string()),
    ])
    .await;
    let client = Client::new(ClientConfig::new(server.url.clone(), "m")).unwrap();
    client.probe().await;
    assert_eq!(client.facts().context_window, 8192);
    let lines: Vec<String> = server.seen().iter().map(|seen| seen.line.clone()).collect();
    assert_eq!(lines, ["GET /v1/models HTTP/1.1", "GET /props HTTP/1.1"]);
}

/// Keeps connections open: `answers` lists how many requests each answers before it closes, with one more request read.
async fn closing_server(answers: Vec<usize>) -> (String, tokio::task::JoinHandle<usize>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let mut seen = 0;
        for count in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            for number in 0..=count {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.ends_with(b"}") {
                    match stream.read(&mut buffer).await {
                        Ok(read) if read > 0 => request.extend_from_slice(&buffer[..read]),
                        _ => break,
                    }
                }
                if request.is_empty() {
                    break;
                }
                seen += 1;
                if number < count {
                    let body = completion("fine");
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    stream.write_all(head.as_bytes()).await.unwrap();
                }
            }
        }
        seen
    });
    (url, task)
}

#[tokio::test]
async fn r44_a_kept_connection_that_the_server_closed_is_no_retry() {
    let (url, server) = closing_server(vec![1, 1]).await;
    let mut config = ClientConfig::new(url, "qwen3-coder-plus");
    config.retry.retries = 0;
    let client = Client::new(config).unwrap();
    assert!(ask(&client, &request()).await.result.is_ok());
    let second = ask(&client, &request()).await;
    assert_eq!(second.notices, []);
    assert_eq!(second.result.unwrap().requests, 1);
    drop(client);
    assert_eq!(server.await.unwrap(), 3, "the second request was sent twice");
}

#[tokio::test]
async fn a_server_that_closes_every_connection_is_an_error_all_the_same() {
    let (url, _server) = closing_server(vec![0, 0, 0]).await;
    let mut config = ClientConfig::new(url, "qwen3-coder-plus");
    config.retry.retries = 0;
    let client = Client::new(config).unwrap();
    let error = ask(&client, &request()).await.result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Network);
}
