//! Starts the process: as the sandbox helper or a command, with one environment, one runtime and one exit code.

use std::io::{IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use qwen_run::cli::usage::{self, UsageError};
use qwen_run::cli::{Cli, Command};
use qwen_run::commands;
use qwen_run::emit::ci_lines::CiLines;
use qwen_run::emit::{Backlog, Eager, Ids, Outputs, Renderer, Screen};
use qwen_run::event::Event;
use qwen_run::run::output::outputs::Streams;
use qwen_run::sandbox;
use qwen_run::settings::Environment;
use rustix::process::Resource;

/// How long a thread that reads standard input may keep the process from ending.
const SHUTDOWN: Duration = Duration::from_millis(20);

/// The stack of the thread that works, in bytes: what a main thread has where nobody limits it.
const STACK: usize = 8 << 20;

/// The limits of the system below which nothing is begun: what fails for want of a file or of memory fails anywhere.
const LEAST: [(Resource, u64, &str, &str); 2] = [
    (Resource::Nofile, 32, "open files", "ulimit -n 1024"),
    (Resource::As, 512 << 20, "bytes of addresses", "ulimit -v unlimited"),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == sandbox::HELPER) {
        return sandbox::helper_main(arguments);
    }
    // No process of the same user may read our memory: a key is in it.
    sandbox::make_undumpable();
    // The main thread's stack is as small as a limit makes it (`ulimit -s`).
    let started = std::thread::Builder::new().name("work".to_owned()).stack_size(STACK).spawn(work);
    // Panics of a run are reported where they happen; the event loop can panic, too.
    let ended = started.map_or_else(|_| std::panic::catch_unwind(work), std::thread::JoinHandle::join);
    ended.unwrap_or(ExitCode::FAILURE)
}

/// Does everything but a helper's work.
fn work() -> ExitCode {
    for (resource, least, what, command) in LEAST {
        if let Some(limit) = rustix::process::getrlimit(resource).current.filter(|limit| *limit < least) {
            let _closed = writeln!(
                std::io::stderr(),
                "error: the limit is {limit} {what}, and {least} are needed; raise it, for example with `{command}`"
            );
            return ExitCode::FAILURE;
        }
    }
    let cli = match usage::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let environment = match Environment::capture() {
        Ok(environment) => environment,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "error: cannot read the current directory: {error}");
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "error: cannot start the event loop: {error}");
            return ExitCode::FAILURE;
        }
    };
    qwen_run::run::output::signals::watch();
    let code = runtime.block_on(dispatch(cli, &environment));
    runtime.shutdown_timeout(SHUTDOWN);
    ExitCode::from(code)
}

async fn dispatch(cli: Cli, environment: &Environment) -> u8 {
    match cli.command {
        None => qwen_run::run::run(&cli.run, environment, streams()).await.code(),
        Some(Command::Run(run)) => qwen_run::run::run(&run, environment, streams()).await.code(),
        Some(command) => {
            // Workflow commands are what `qwen ci` writes itself, and a file is no log.
            let is_logged = environment.is_ci() && !matches!(command, Command::Ci { .. });
            let mut out = standard(is_logged && !is_file(std::io::stdout()), std::io::stdout());
            let mut err = standard(is_logged, std::io::stderr());
            let exit = commands::run(command, environment, &mut out, &mut err).await;
            let _closed = out.flush().and(err.flush());
            exit.code()
        }
    }
}

/// Returns a stream of a command: where a CI system reads along, none of its lines is a command to that system.
fn standard(is_logged: bool, stream: impl Write + 'static) -> Box<dyn Write> {
    if is_logged { Box::new(CiLines::new(stream)) } else { Box::new(stream) }
}

fn is_file(stream: impl std::os::fd::AsFd) -> bool {
    let kind = |stat: rustix::fs::Stat| rustix::fs::FileType::from_raw_mode(stat.st_mode);
    rustix::fs::fstat(stream).is_ok_and(|stat| kind(stat).is_file())
}

fn streams() -> Streams {
    let mut backlogs = Vec::new();
    let stdout = eager(std::io::stdout(), &mut backlogs);
    let stderr_is_terminal = std::io::stderr().is_terminal();
    let stderr = if stderr_is_terminal { Screen::Live } else { Screen::Plain(eager(std::io::stderr(), &mut backlogs)) };
    Streams { stdout, stdout_is_terminal: std::io::stdout().is_terminal(), stderr, stderr_is_terminal, backlogs }
}

/// Makes a stream that waits for no reader.
fn eager<S: Write + AsFd + Send + 'static>(stream: S, backlogs: &mut Vec<Backlog>) -> Box<dyn Write + Send> {
    match stream.as_fd().try_clone_to_owned() {
        Ok(to) => {
            let (eager, backlog) = Eager::new(to);
            backlogs.push(backlog);
            Box::new(eager)
        }
        // No descriptor is left.
        Err(_) => Box::new(stream),
    }
}

/// Help goes to standard output; a wrong argument ends in a result object in the format that was asked for.
fn usage(error: &UsageError) -> ExitCode {
    match error {
        UsageError::Help(text) => {
            let mut out = std::io::stdout();
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    let _closed = writeln!(std::io::stderr(), "error: cannot write standard output: {error}");
                    ExitCode::FAILURE
                }
                _ => ExitCode::SUCCESS,
            }
        }
        UsageError::Wrong { format, result_file, .. } => {
            let ids = Ids::new(String::new(), qwen_run::run::output::outputs::new_id);
            let mut outputs = Outputs::plain(*format, Box::new(std::io::stdout()), Box::new(std::io::stderr()), ids);
            outputs.files.result = result_file.clone();
            let mut renderer = Renderer::new(outputs);
            if let Some(ending) = error.ending() {
                renderer.event(&Event::RunFinished(Box::new(ending)));
            }
            ExitCode::from(renderer.close().code())
        }
    }
}
