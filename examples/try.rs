use qwen_run::model::config::*;
use qwen_run::model::*;
use serde_json::json;
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let t = std::time::Instant::now();
    let force = std::env::args().nth(1).as_deref() == Some("force");
    let mut config = ClientConfig::new("http://127.0.0.1:8090/v1", "");
    config.model = client::only_model(&config).await.unwrap();
    eprintln!("{} {:?}", config.model, t.elapsed());
    if force {
        config.text_tools = TextToolsMode::Force;
    }
    let out = std::fs::File::create("/tmp/cassette-try.jsonl").unwrap();
    let t = std::time::Instant::now();
    let client = client::Client::recording(config.clone(), Box::new(out), canonical::Masks::default()).unwrap();
    eprintln!("new {:?}", t.elapsed());
    let tools: std::sync::Arc<[ToolSpec]> = vec![ToolSpec {
        name: "read_file".into(),
        description: "Reads a file.".into(),
        parameters: json!({"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}),
    }]
    .into();
    let mut request = Request {
        messages: vec![
            Message::System("You are an agent. Use tools.".into()),
            Message::User(vec![Part::Text("What does the file a.txt say? Read it.".into())]),
        ],
        tools,
        max_output_tokens: Some(200),
        ..Request::default()
    };
    for turn in 0..2 {
        request.turn = turn;
        let r = client.respond(&request, &mut |d| eprintln!("{d:?}")).await;
        eprintln!("{r:#?}");
        let Ok(mut turn) = r else { return };
        if turn.message.calls.is_empty() {
            if let Some(t) = client.read_again(&turn, &request) {
                eprintln!("AGAIN {t:?}");
                turn = t;
            }
        }
        let calls = turn.message.calls.clone();
        request.messages.push(Message::Assistant(turn.message));
        if calls.is_empty() {
            break;
        }
        for c in calls {
            request.messages.push(Message::Tool(ToolMessage {
                call_id: c.id,
                name: c.name,
                content: vec![Part::Text("The magic word is plum.".into())],
                is_error: false,
            }));
        }
    }
}
