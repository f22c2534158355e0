//! Measures an MCP server over standard input and output: the handshake, the lists and a call.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use qwen_run::model::BoxFuture;
use qwen_run::settings::{Origin, Valued};
use qwen_run::tools::mcp::launch::Process;
use qwen_run::tools::mcp::oauth::Tokens;
use qwen_run::tools::mcp::pins::Pins;
use qwen_run::tools::mcp::{Config, Launched, Launcher, Options as ServerOptions, Servers};
use serde_json::{Map, Value, json};

use crate::server::Turn;
use crate::whole::{contest, ms, wall};
use crate::{Options, Row, conversation, median};

/// The first argument that makes this program a server.
pub(crate) const WORD: &str = "--echo-server";

/// A server that answers at once and has one tool.
pub(crate) fn serve() -> ExitCode {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"}}),
            "tools/list" => json!({"tools": [{"name": "echo", "description": "Says it", "inputSchema": {
                "type": "object", "properties": {"text": {"type": "string"}}}}]}),
            "tools/call" => json!({"content": [{"type": "text", "text": "echo"}]}),
            _ => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        if writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Starts this program as the server, outside of any sandbox.
struct Plain;

struct Child(tokio::process::Child);

impl Process for Child {
    fn ended<'a>(&'a mut self) -> BoxFuture<'a, Option<i32>> {
        Box::pin(async { self.0.wait().await.ok().and_then(|status| status.code()) })
    }
}

impl Launcher for Plain {
    fn launch<'a>(&'a self, _: &'a Config) -> BoxFuture<'a, Result<Launched, String>> {
        let spawn = || -> std::io::Result<tokio::process::Child> {
            tokio::process::Command::new(std::env::current_exe()?)
                .arg(WORD)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
        };
        Box::pin(async move {
            let mut child = spawn().map_err(|error| error.to_string())?;
            let piped = "it was asked for";
            Ok(Launched {
                stdin: Box::new(child.stdin.take().expect(piped)),
                stdout: Box::new(child.stdout.take().expect(piped)),
                stderr: Box::new(child.stderr.take().expect(piped)),
                process: Box::new(Child(child)),
                note: None,
            })
        })
    }

    fn refuses(&self, _: &Config, _: &str) -> Option<String> {
        None
    }
}

/// The handshake and a call by themselves, and what a server adds to a run, its sandbox included.
pub(crate) fn mcp(options: &Options) -> Result<Vec<Row>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let (mut ready, mut called) = (Vec::new(), Vec::new());
    for _ in 0..options.runs.max(5) {
        let (start, call) = runtime.block_on(once())?;
        ready.push(start);
        called.push(call);
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let servers = json!({"mcpServers": {"echo": {"command": own, "args": [WORD], "trust": true, "required": true}}});
    let finished = |_: &Path, sample: &crate::sample::Sample| match sample.code == 0 {
        true => Ok(()),
        false => Err("it did not end well".to_owned()),
    };
    let script = |tool: &'static str, arguments: Value| {
        vec![
            Turn { text: String::new(), calls: vec![(tool.to_owned(), arguments)] },
            conversation::one_answer().remove(0),
        ]
    };
    let with = contest(
        options,
        "Say hello.",
        &["--mcp-config", &servers.to_string()],
        &|_, _| script("mcp__echo__echo", json!({"text": "x"})),
        finished,
    )?;
    let without =
        contest(options, "Say hello.", &[], &|_, _| script("list_directory", json!({"path": "."})), finished)?;
    let added = wall(&with[0]).saturating_sub(wall(&without[0]));
    Ok(vec![
        Row::new("MCP over stdio: start, handshake, lists", ms(median(ready)), "with a call ≤ 10 ms"),
        Row::new("MCP over stdio: a call", ms(median(called)), ""),
        Row::new("MCP over stdio: added to a run, copy of the project and sandbox included", ms(added), ""),
    ])
}

async fn once() -> Result<(Duration, Duration), String> {
    let value = Valued::new(json!({"command": "echo-server"}), Origin::Default);
    let (config, _) = Config::parse("echo", &value).map_err(|error| error.to_string())?;
    let clock = Instant::now();
    let servers = Servers::start(ServerOptions {
        configs: vec![(config, Pins::default())],
        launcher: Arc::new(Plain),
        tokens: Tokens::of_home(None),
        root: std::env::temp_dir(),
    })
    .await;
    let ready = clock.elapsed();
    let clock = Instant::now();
    let arguments: Map<String, Value> = [("text".to_owned(), json!("x"))].into_iter().collect();
    servers.servers()[0].call("echo", arguments, &qwen_run::base::trace::Context::NONE).await?;
    let called = clock.elapsed();
    servers.close().await;
    Ok((ready, called))
}
