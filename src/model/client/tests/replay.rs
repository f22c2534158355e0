//! Tests that a cassette replays what was recorded.

use super::*;

fn masks(cwd: &str) -> Masks {
    Masks::new(cwd, Some("/home/ann"), None, Vec::new())
}

#[tokio::test]
async fn r62_a_replay_gives_the_same_turn_and_the_same_deltas() {
    let scripts = vec![
        refused(503, "busy"),
        stream(&[&text("Hel"), &text("lo")]),
        stream(&[&text(" you"), &call_chunk("{\"file_path\":\"a\"}"), &finish("tool_calls"), DONE]),
    ];
    let server = TestServer::play(scripts).await;
    let cassette = Shared::default();
    let config = config(&server);
    let in_folder = |cwd: &str| {
        let mut request = request();
        Arc::make_mut(&mut request.messages).push(Message::User(vec![Part::Text(format!("look at {cwd}/src"))]));
        request
    };
    let recorder = Client::recording(
        config.clone(),
        Client::http(&config, 1).unwrap(),
        Box::new(cassette.clone()),
        masks("/one/place"),
    )
    .unwrap();
    let recorded = ask(&recorder, &in_folder("/one/place")).await;
    drop(recorder);
    drop(server);

    let player = Arc::new(Player::new(&cassette.text(), masks("/quite/another")).unwrap());
    assert_eq!(player.header().model, "qwen3-coder-plus");
    let base_url = player.header().base_url.clone();
    let client = Client::with_transport(ClientConfig { key: None, base_url, ..config }, player.clone()).unwrap();
    let replayed = ask(&client, &in_folder("/quite/another")).await;
    let (one, other) = (recorded.result.unwrap(), replayed.result.unwrap());
    assert_eq!(one.message, other.message);
    assert_eq!((one.requests, one.usage, one.stop), (other.requests, other.usage, other.stop));
    assert_eq!(recorded.shown, replayed.shown);
    assert_eq!(recorded.notices, replayed.notices);
    assert_eq!(player.left(), 0);
}

#[tokio::test]
async fn a_secret_that_the_stream_splits_is_in_no_recording() {
    let server =
        TestServer::play(vec![stream(&[&text("is sk-t"), &text("estk"), &text("ey, ok"), &finish("stop"), DONE])]);
    let server = server.await;
    let (cassette, config) = (Shared::default(), config(&server));
    let masks = || Masks::new("/x", None, None, vec!["sk-testkey".to_owned()]);
    let http = Client::http(&config, 1).unwrap();
    let recorder = Client::recording(config.clone(), http, Box::new(cassette.clone()), masks()).unwrap();
    let recorded = ask(&recorder, &request()).await.result.unwrap();
    assert!(recorded.message.text.contains("is sk-testkey, ok"));
    let player = Player::new(&cassette.text(), masks()).unwrap();
    let client = Client::with_transport(config, Arc::new(player)).unwrap();
    let replayed = ask(&client, &request()).await.result.unwrap();
    assert_eq!(replayed.message.text, "is **********, ok");
}

#[tokio::test]
async fn r62_another_request_fails_with_the_first_difference() {
    let server = TestServer::play(vec![says("ok")]).await;
    let cassette = Shared::default();
    let config = config(&server);
    let recorder =
        Client::recording(config.clone(), Client::http(&config, 1).unwrap(), Box::new(cassette.clone()), masks("/x"))
            .unwrap();
    ask(&recorder, &request()).await.result.unwrap();
    let replay = |asked: Request| {
        let player = Player::new(&cassette.text(), masks("/x")).unwrap();
        let client = Client::with_transport(config.clone(), Arc::new(player)).unwrap();
        async move {
            let first = ask(&client, &asked).await.result;
            let second = ask(&client, &asked).await.result;
            (first, second)
        }
    };
    let (first, second) = replay(request()).await;
    assert!(first.is_ok());
    let ErrorClass::ReplayMismatch(difference) = second.unwrap_err().class else { panic!("it was played twice") };
    insta::assert_snapshot!(difference, @"the cassette ends after 1 requests and one more is made");
    let mut other = request();
    Arc::make_mut(&mut other.messages)[1] = Message::User(vec![Part::Text("do that".into())]);
    let ErrorClass::ReplayMismatch(difference) = replay(other).await.0.unwrap_err().class else { panic!("it matched") };
    insta::assert_snapshot!(
        difference,
        @r#"request 1: messages[1].content was "do it" and is "do that" now (from character 3)"#
    );
}

#[tokio::test]
async fn r62_resets_and_timers_replay_as_they_were() {
    let ms = Duration::from_millis;
    let timers = Timers { idle: ms(40), first_byte: Some(ms(40)), ..Timers::default() };
    let half = |end: Step| vec![stream_head(), Step::Write(call_chunk("{\"file").into_bytes()), end];
    for script in [half(Step::Reset), half(Step::Stall), vec![Step::Stall]] {
        let server = TestServer::play(vec![script]).await;
        let cassette = Shared::default();
        let mut config = ClientConfig { timers, ..config(&server) };
        config.retry.retries = 0;
        let recorder = Client::recording(
            config.clone(),
            Client::http(&config, 1).unwrap(),
            Box::new(cassette.clone()),
            masks("/x"),
        )
        .unwrap();
        let recorded = ask(&recorder, &request()).await.result.unwrap_err();
        let player = Player::new(&cassette.text(), masks("/x")).unwrap();
        let client = Client::with_transport(config, Arc::new(player)).unwrap();
        assert_eq!(ask(&client, &request()).await.result.unwrap_err().class, recorded.class, "{}", cassette.text());
    }
}

#[test]
fn a_broken_cassette_is_refused() {
    for text in ["", "{}", "{\"v\":2}", "not json"] {
        assert!(Player::new(text, Masks::default()).is_err(), "{text}");
    }
}
