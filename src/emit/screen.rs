//! Writes to standard error: plain lines, or a terminal with one live status line below finished ones.

use std::io::Write;
use std::time::Duration;

use anstyle::Style;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::appearance::Appearance;
use super::sink::Sink;
use super::words;

/// What `--color` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// As the environment says, else on a terminal
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    /// Not at all
    Never,
}

/// What the environment says about colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Colours {
    /// The flag.
    pub flag: Colour,
    /// `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `CLICOLOR_FORCE` or `FORCE_COLOR` is set, not empty and not `0`.
    pub force: bool,
    /// `CLICOLOR=0`.
    pub clicolor_off: bool,
}

impl Colours {
    /// Reads the environment through `get`.
    pub fn from_environment(flag: Colour, get: impl Fn(&str) -> Option<String>) -> Colours {
        let on = |name| get(name).is_some_and(|value| !value.is_empty() && value != "0");
        Colours {
            flag,
            no_color: get("NO_COLOR").is_some_and(|value| !value.is_empty()),
            force: on("CLICOLOR_FORCE") || on("FORCE_COLOR"),
            clicolor_off: get("CLICOLOR").is_some_and(|value| value == "0"),
        }
    }

    /// Tells whether a stream gets colours.
    pub fn on(self, is_terminal: bool) -> bool {
        match self.flag {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto if self.no_color => false,
            Colour::Auto if self.force => true,
            Colour::Auto if self.clicolor_off => false,
            Colour::Auto => is_terminal,
        }
    }
}

/// Where lines for people go.
pub enum Screen {
    /// The terminal on standard error, with one live line at the bottom.
    Live,
    /// Any other stream.
    Plain(Box<dyn Write + Send>),
}

/// Standard error, as it is written to.
pub(super) struct Terminal {
    stream: Stream,
    colour: bool,
    /// A program reads standard error as JSON: nothing but that goes there.
    silent: bool,
}

enum Stream {
    Live(ProgressBar),
    Plain(Sink),
}

impl Terminal {
    /// Returns the stream; a terminal that is written to in lines (`look` is `None`) has no live line.
    pub(super) fn new(screen: Screen, quiet: bool, colour: bool, look: Option<Appearance>) -> Terminal {
        let stream = match screen {
            Screen::Live => Stream::Live(live_line(quiet, look)),
            Screen::Plain(writer) => Stream::Plain(Sink::new(writer)),
        };
        Terminal { stream, colour, silent: false }
    }

    /// Writes no more lines, or writes them again; returns how it was.
    pub(super) fn silence(&mut self, silent: bool) -> bool {
        std::mem::replace(&mut self.silent, silent)
    }

    /// Writes a line for a program, also where people read nothing.
    pub(super) fn machine(&mut self, line: &str) {
        let was_silent = self.silence(false);
        self.line(line);
        self.silence(was_silent);
    }

    /// Returns a text in a style, if the stream gets colours.
    pub(super) fn styled(&self, style: Style, text: &str) -> String {
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Writes one line.
    pub(super) fn line(&mut self, line: &str) {
        if self.silent {
            return;
        }
        match &mut self.stream {
            Stream::Live(bar) => bar.suspend(|| {
                let mut stream = std::io::stderr().lock();
                let _ = writeln!(stream, "{line}");
            }),
            Stream::Plain(sink) => sink.line(line),
        }
    }

    /// Changes the live line: what is being done, and, behind the time, what the run used so far.
    pub(super) fn status(&self, text: impl FnOnce() -> (String, String)) {
        if let Stream::Live(bar) = &self.stream {
            let (doing, used) = text();
            bar.set_prefix(doing);
            bar.set_message(used);
        }
    }

    /// Clears the live line for good, so that the answer starts at the left.
    pub(super) fn clear(&self) {
        if let Stream::Live(bar) = &self.stream {
            bar.finish_and_clear();
        }
    }
}

fn live_line(quiet: bool, look: Option<Appearance>) -> ProgressBar {
    let Some(look) = look.filter(|_| !quiet) else { return ProgressBar::hidden() };
    let bar = ProgressBar::new_spinner();
    let between = look.separator();
    let template = format!("{{spinner}} {{prefix}}{between}{{time}}{{msg}}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    let style = style.with_key("time", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let _ = out.write_str(&words::time(u64::try_from(state.elapsed().as_millis()).unwrap_or(u64::MAX)));
    });
    bar.set_style(if look.ascii { style.tick_chars("|/-\\ ") } else { style });
    bar.set_prefix("starting");
    bar.enable_steady_tick(Duration::from_millis(125));
    bar
}
