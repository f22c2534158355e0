//! Manages the session of a run: where its conversation is kept, and which one it continues.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agent::session::{self, Header, Session};
use crate::cli::RunArgs;
use crate::cli::run::SessionArgs;
use crate::event::Event;
use crate::exit::Exit;
use crate::model::Message;
use crate::settings::Environment;
use crate::workspace::session_file::{self, SessionFile};

use crate::run::error::Failure;
use crate::run::error::SessionError;
use crate::run::place::Place;

/// The session of a run.
pub struct RunSession {
    /// Its id.
    pub id: String,
    /// The conversation before the prompt; empty for a new one.
    pub earlier: Vec<Message>,
    /// Whether an earlier conversation continues.
    pub resumed: bool,
    /// Whether the earlier conversation has text of strangers.
    pub is_untrusted: bool,
    /// What the owner should know.
    pub warnings: Vec<String>,
    /// Whether the file is still to say that such text is in it.
    marks: AtomicBool,
    writer: Mutex<Writer>,
}

/// Where messages go.
enum Writer {
    /// Nowhere: sessions are off, or a write failed.
    Off,
    /// To a file that is created with the first message; `begin` and the earlier conversation precede it.
    New { path: PathBuf, begin: String },
    /// To a file.
    Open(SessionFile),
}

impl RunSession {
    /// Returns the session of a run whose conversation is not kept.
    pub fn unkept(id: &str) -> RunSession {
        RunSession::of(id.to_owned(), Writer::Off)
    }

    fn of(id: String, writer: Writer) -> RunSession {
        RunSession {
            id,
            earlier: Vec::new(),
            resumed: false,
            is_untrusted: false,
            warnings: Vec::new(),
            marks: AtomicBool::new(false),
            writer: Mutex::new(writer),
        }
    }

    /// Notes that text of strangers is in the conversation: whoever continues it may do no more with it.
    pub fn holds_untrusted(&self) {
        self.marks.store(!self.is_untrusted, Ordering::Relaxed);
    }

    /// Finds the session that the flags name. Creates only directories; a new file is created with the first message.
    ///
    /// Sessions are off in CI, for a replay, with `--no-session`, and with a warning if the state directory cannot be
    /// written.
    pub fn choose(
        arguments: &RunArgs,
        environment: &Environment,
        place: &Result<Place, Failure>,
        run_id: &str,
    ) -> Result<RunSession, Failure> {
        let flags = &arguments.session;
        let goes_on = flags.continue_last || flags.resume.is_some();
        check(flags, goes_on)?;
        let id = flags.session_id.clone().unwrap_or_else(|| run_id.to_owned());
        let off = |warnings| Ok(RunSession { warnings, ..RunSession::unkept(&id) });
        if flags.no_session || arguments.test.replay.is_some() || (environment.is_ci() && !goes_on) {
            return off(Vec::new());
        }
        if environment.is_ci() {
            return Err(SessionError::Ci.into());
        }
        let place = place.as_ref().map_err(Failure::clone)?;
        let workspace = place.root();
        let all = match place.state() {
            Ok(state) => state.join("sessions"),
            Err(error) if goes_on => {
                return Err(Failure { exit: Exit::Input, ..error.into() });
            }
            Err(_) => return off(vec!["this session is not saved: no home directory is set".to_owned()]),
        };
        let own = all.join(session_file::folder_name(workspace));
        if let Err(error) = session_file::make_folder(&own) {
            let problem = format!("{}: {error}", own.display());
            if !goes_on {
                return off(vec![format!("this session is not saved: {problem}")]);
            }
            return Err(SessionError::NoDirectory(problem).into());
        }
        let begun = Begun { id, own, cwd: workspace.display().to_string(), time: jiff::Timestamp::now().to_string() };
        if !goes_on {
            return Ok(begun.anew()?);
        }
        let path = find(&all, &begun.own, flags.resume.as_deref())?;
        Ok(if flags.fork_session { begun.fork(&path) } else { begun.resume(&path) }?)
    }

    /// Appends messages to the file, their texts passed through `mask`. A failure stops this and is reported once.
    pub fn keep(&self, messages: &[Message], mask: &dyn Fn(String) -> String) -> Option<Event> {
        let mut writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let lines: String = match &*writer {
            Writer::Off => return None,
            Writer::New { .. } | Writer::Open(_) => {
                messages.iter().filter_map(|message| session::line_of(message, mask)).collect()
            }
        };
        if lines.is_empty() {
            return None;
        }
        let lines = if self.marks.swap(false, Ordering::Relaxed) { session::untrusted_line() + &lines } else { lines };
        let written = match std::mem::replace(&mut *writer, Writer::Off) {
            Writer::Off => return None,
            Writer::Open(file) => file.append(&lines).map(|()| file),
            Writer::New { path, begin } => SessionFile::create(&path).and_then(|file| {
                let earlier = self.earlier.iter().filter_map(|message| session::line_of(message, mask));
                file.append(&(earlier.fold(begin, |begin, line| begin + &line) + &lines))?;
                Ok(file)
            }),
        };
        match written {
            Ok(file) => {
                *writer = Writer::Open(file);
                None
            }
            Err(error) => Some(Event::Warning { message: format!("the session is no longer saved: {error}") }),
        }
    }
}

/// A session that is to be begun or resumed.
struct Begun {
    id: String,
    /// The directory of this workspace's sessions.
    own: PathBuf,
    cwd: String,
    time: String,
}

impl Begun {
    /// Returns the file of a new session.
    fn file(&self, more: &str) -> Result<PathBuf, SessionError> {
        let path = self.own.join(format!("{}.jsonl", self.id));
        match path.exists() {
            true => Err(SessionError::Flags(format!("session {} already exists{more}", self.id))),
            false => Ok(path),
        }
    }

    fn anew(self) -> Result<RunSession, SessionError> {
        let path = self.file(&format!("; resume it with --resume {}", self.id))?;
        let begin = session::first_line(&Header::new(&self.id, &self.cwd, &self.time, None));
        Ok(RunSession::of(self.id, Writer::New { path, begin }))
    }

    fn fork(self, from: &Path) -> Result<RunSession, SessionError> {
        let text = session_file::read(from).map_err(|error| unreadable(from, &error))?;
        let found = session::read(&text).map_err(|error| unreadable(from, &error))?;
        let path = self.file("")?;
        // The new file holds the whole conversation: it does not need the old one.
        let mut begin = session::first_line(&Header::new(&self.id, &self.cwd, &self.time, Some(&found.header.id)));
        if found.is_untrusted {
            begin += &session::untrusted_line();
        }
        let forked = RunSession::of(self.id, Writer::New { path, begin });
        Ok(RunSession { earlier: found.messages, resumed: true, is_untrusted: found.is_untrusted, ..forked })
    }

    fn resume(self, path: &Path) -> Result<RunSession, SessionError> {
        let (file, text) = SessionFile::open(path).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => SessionError::Busy(path.display().to_string()),
            _ => unreadable(path, &error),
        })?;
        let Session { header, messages, is_untrusted, whole } =
            session::read(&text).map_err(|error| unreadable(path, &error))?;
        file.keep(whole).map_err(|error| unreadable(path, &error))?;
        let elsewhere = header.cwd != self.cwd;
        let warnings = elsewhere.then(|| format!("the session {} began in {}, not here", header.id, header.cwd));
        let warnings = warnings.into_iter().collect();
        let resumed = RunSession::of(header.id, Writer::Open(file));
        Ok(RunSession { earlier: messages, resumed: true, is_untrusted, warnings, ..resumed })
    }
}

/// Finds a session by its id, here or in another project; without one, the last of this project.
fn find(all: &Path, own: &Path, id: Option<&str>) -> Result<PathBuf, SessionError> {
    let Some(id) = id else {
        return session_file::sessions(own).into_iter().next().ok_or(SessionError::NoneHere);
    };
    let name = format!("{id}.jsonl");
    let here = own.join(&name);
    let elsewhere =
        || session_file::folders(all).into_iter().map(|folder| folder.join(&name)).find(|path| path.is_file());
    if here.is_file() { Some(here) } else { elsewhere() }.ok_or_else(|| {
        let last = session_file::sessions(own).into_iter().next();
        let last = last.and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
        SessionError::Unknown { id: id.to_owned(), last }
    })
}

/// Refuses flags of sessions that contradict each other.
fn check(flags: &SessionArgs, goes_on: bool) -> Result<(), Failure> {
    if flags.fork_session && !goes_on {
        return Err(usage("--fork-session needs a session: --continue or --resume ID"));
    }
    if goes_on && flags.session_id.is_some() && !flags.fork_session {
        return Err(usage("--session-id names a new session: add --fork-session, or leave it out"));
    }
    for id in [&flags.session_id, &flags.resume].into_iter().flatten() {
        if !session::is_id(id) {
            return Err(usage(&format!("`{id}` is not a session id: 1 to 64 letters, digits, `-` and `_`")));
        }
    }
    Ok(())
}

fn usage(message: &str) -> Failure {
    SessionError::Flags(message.to_owned()).into()
}

fn unreadable(path: &Path, problem: &dyn std::error::Error) -> SessionError {
    SessionError::Unreadable { path: path.display().to_string(), why: problem.to_string() }
}
