//! Runs a `llama-server` on loopback for `--local MODEL.gguf`, for the duration of the run.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The name of the program.
pub const PROGRAM: &str = "llama-server";

/// Tokens of the window: enough for the work, and little enough for a small machine's memory.
const WINDOW: &str = "16384";

/// How long loading may take.
const LOADING: Duration = Duration::from_secs(10 * 60);

/// How often to ask whether it is ready, and how often to report that it is not.
const ASK_EVERY: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Lines of what it says that are kept for the error.
const KEPT_LINES: usize = 8;

/// Why there is no local server.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// No such file.
    #[error("--local {}: file not found", .0.display())]
    NoModel(PathBuf),
    /// The program is not installed.
    #[error("--local needs `{PROGRAM}`, which is not in PATH")]
    NoProgram,
    /// It could not be started.
    #[error("cannot start `{}`: {error}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It ended before it was ready.
    #[error("`{PROGRAM}` ended before it was ready ({status}){said}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// The end of its output, after a colon.
        said: String,
    },
    /// It did not get ready in time.
    #[error("`{PROGRAM}` had not loaded the model after {} s", LOADING.as_secs())]
    Slow,
}

impl LocalError {
    /// Returns what to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            LocalError::NoModel(_) => "name a GGUF file, for example one from huggingface.co/Qwen",
            LocalError::NoProgram => {
                "install llama.cpp: `brew install llama.cpp`, `winget install llama.cpp`, `nix profile install \
                 nixpkgs#llama-cpp`, or a release from github.com/ggml-org/llama.cpp/releases"
            }
            LocalError::Start { .. } => "run it by hand: it says what is wrong",
            LocalError::Ended { .. } => "run `llama-server -m MODEL.gguf --jinja` by hand; try a smaller model",
            LocalError::Slow => "try a smaller model, or start the server yourself and set QWEN_BASE_URL",
        }
    }
}

/// How long a killed server may take to give back its memory.
const ENDING: Duration = Duration::from_secs(5);

/// A server that lives no longer than this value.
#[derive(Debug)]
pub struct LocalServer {
    /// The base URL.
    pub base_url: String,
    /// The model's name there.
    pub model: String,
    child: Child,
}

impl LocalServer {
    /// Ends the server and returns once it is gone. Dropping the value kills it and does not wait.
    pub async fn end(mut self) {
        let _late = tokio::time::timeout(ENDING, self.child.kill()).await;
    }
}

/// Starts the server with the model's own template and waits until it is ready.
///
/// `program` is its path, and the command that starts it in safe surroundings and ends it together with this process;
/// `tell` gets reports about the wait.
pub async fn start(
    model: &Path,
    program: Option<(PathBuf, Command)>,
    tell: &(dyn Fn(Duration) + Send + Sync),
) -> Result<LocalServer, LocalError> {
    if !model.is_file() {
        return Err(LocalError::NoModel(model.to_owned()));
    }
    let (program, mut command) = program.ok_or(LocalError::NoProgram)?;
    let failed = |error| LocalError::Start { program: program.clone(), error };
    let (port, _reserved) = reserve_port().map_err(failed)?;
    let name = model.file_stem().map_or_else(|| "local".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let mut child = command
        .arg("-m")
        .arg(model)
        .args(["--jinja", "-c", WINDOW, "-np", "1", "--host", "127.0.0.1"])
        .args(["--port", &port.to_string(), "--alias", &name])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C at a terminal is meant for this process, which ends the server itself.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let reader = child.stderr.take().map(|stderr| tokio::spawn(keep_last_lines(stderr, Arc::clone(&kept))));
    let began = Instant::now();
    let mut told = began;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            let said = last_words(reader, &kept).await;
            return Err(LocalError::Ended { status, said });
        }
        if is_ready(port).await {
            return Ok(LocalServer { base_url: format!("http://127.0.0.1:{port}/v1"), model: name, child });
        }
        if began.elapsed() > LOADING {
            return Err(LocalError::Slow);
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell(began.elapsed());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Returns the last lines that a server printed.
async fn last_words(reader: Option<JoinHandle<()>>, kept: &Mutex<Vec<String>>) -> String {
    if let Some(reader) = reader {
        // A grandchild may hold the pipe: what is said by now has to do.
        let _late = tokio::time::timeout(Duration::from_secs(1), reader).await;
    }
    let said = kept.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
    if said.is_empty() { said } else { format!(": {said}") }
}

/// Returns a port and the socket that keeps it from every program that lets the system choose one.
///
/// The socket does not listen, and shares its address: only a program that names the port gets it, as the server does.
/// Without it another server could take the port first, and would be asked in the place of ours.
fn reserve_port() -> std::io::Result<(u16, TcpSocket)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    Ok((socket.local_addr()?.port(), socket))
}

/// Tells whether `/health` answers 200; while the model loads it is 503.
async fn is_ready(port: u16) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.ok()?;
        Some(status.ends_with(b" 200"))
    };
    tokio::time::timeout(Duration::from_secs(2), ask).await.ok().flatten().unwrap_or(false)
}

async fn keep_last_lines(stderr: tokio::process::ChildStderr, kept: Arc<Mutex<Vec<String>>>) {
    let mut lines = tokio::io::BufReader::new(stderr).split(b'\n');
    // Read to the end, so that the server never waits for a full pipe.
    while let Ok(Some(line)) = lines.next_segment().await {
        let line: String = String::from_utf8_lossy(&line).trim_end().chars().take(500).collect();
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_LINES {
            kept.remove(0);
        }
        kept.push(line);
    }
}
