//! Runs the program on a pseudo-terminal, and draws what it shows there.

use std::fmt::Write as _;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Project;

/// Runs `qwen ARGUMENTS` on a terminal of this width; returns its exit code and every byte that it wrote.
pub(crate) fn raw(project: &Project, columns: u16, arguments: &[&str]) -> (i32, Vec<u8>) {
    on_terminal(columns, project.command(arguments))
}

/// Runs a command on a terminal of this width; returns its exit code and every byte that it wrote.
pub(crate) fn on_terminal(columns: u16, mut command: std::process::Command) -> (i32, Vec<u8>) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let terminal: OwnedFd = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty()).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 500, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    command.stdin(std::process::Stdio::null());
    command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
    let mut child = command.spawn().expect("the program starts");
    // The last descriptor of the terminal goes with the program.
    drop(command);
    let mut bytes = Vec::new();
    // The end of a pseudo-terminal is an error on Linux.
    let _ended = std::fs::File::from(master).read_to_end(&mut bytes);
    (child.wait().unwrap().code().unwrap_or(-1), bytes)
}

/// Returns what a screen shows, as text with the sequences of its colours.
pub(crate) fn painted(bytes: &[u8], columns: u16) -> String {
    let mut parser = vt100::Parser::new(500.try_into().unwrap(), columns.try_into().unwrap(), 0);
    parser.process(bytes);
    let screen = parser.screen();
    let time = regex::Regex::new(r"\b\d+\.\d s\b").unwrap();
    let mut text = String::new();
    for row in 0..500 {
        let (mut line, mut current) = (String::new(), anstyle::Style::new());
        for column in 0..columns {
            let Some(cell) = screen.cell(row, column) else { continue };
            let contents = if cell.has_contents() { cell.contents() } else { " " };
            let mut style = anstyle::Style::new();
            if let vt100::Color::Idx(number @ 0..16) = cell.fgcolor() {
                style = style.fg_color(Some(anstyle::Ansi256Color(number).into_ansi().expect("one of 16").into()));
            }
            let effects = [
                (cell.bold(), anstyle::Effects::BOLD),
                (cell.dim(), anstyle::Effects::DIMMED),
                (cell.inverse(), anstyle::Effects::INVERT),
            ];
            let effects = effects.into_iter().filter(|(is_on, _)| *is_on);
            style = effects.fold(style, |style, (_, effect)| style | effect);
            if style != current {
                write!(line, "{current:#}{style}").unwrap();
                current = style;
            }
            line.push_str(contents);
        }
        // How long it took is not the same again.
        let line = time.replace_all(line.trim_end(), "4.2 s").into_owned();
        text.push_str(&format!("{}{current:#}", line));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// Compares a picture (SVG) of a painted text with the file of this name; `SNAPSHOTS=overwrite` writes the file.
pub(crate) fn assert_picture(name: &str, text: &str) {
    // Paler colours than a terminal's: they are read on black.
    let paler = [("AAAAAA", "D6DEE6"), ("AA0000", "FF7B72"), ("00AA00", "3FB950"), ("00AAAA", "76E3EA")];
    let picture = anstyle_svg::Term::new().render_svg(text);
    let picture =
        paler.iter().fold(picture, |picture, (from, to)| picture.replace(&format!("#{from}"), &format!("#{to}")));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &picture).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == picture, "{name} differs: SNAPSHOTS=overwrite draws it anew; it should show\n{text}");
}
