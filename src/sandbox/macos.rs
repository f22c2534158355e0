//! Confines commands on macOS with `sandbox-exec` and the profile of `seatbelt.sbpl`. Never run on hardware.

#![expect(clippy::disallowed_methods, reason = "sandbox-exec is started to try it")]

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use super::wire::Program;

/// The tool that applies a profile to a program. No other one is used, whatever `PATH` says.
pub const TOOL: &str = "/usr/bin/sandbox-exec";

/// The constant part of the profile.
const PROFILE: &str = include_str!("seatbelt.sbpl");

/// Returns the options of `sandbox-exec` for reading `read`, `write` and the system, and for writing `write`.
///
/// Paths must be canonical, as the kernel compares them after following links. They are passed as parameters: the text of
/// the profile names none of them.
pub fn options(read: &[OsString], write: &[OsString], network: bool) -> Vec<OsString> {
    let mut text = String::from(PROFILE);
    let mut options = Vec::new();
    let groups = [
        ("READ", read, "file-read* file-map-executable"),
        ("WRITE", write, "file-read* file-map-executable file-write*"),
    ];
    for (name, paths, allowed) in groups {
        for (number, path) in paths.iter().enumerate() {
            text.push_str(&format!("(allow {allowed} (subpath (param \"{name}_{number}\")))\n"));
            let mut parameter = OsString::from(format!("{name}_{number}="));
            parameter.push(path);
            options.extend(["-D".into(), parameter]);
        }
    }
    if network {
        text.push_str("(allow network*)\n(allow system-socket)\n");
    }
    options.extend(["-p".into(), text.into()]);
    options
}

/// Starts a program under the profile.
pub(super) fn wrap(program: &mut Program, options: &[OsString]) {
    let Some(file) = program.file.replace(TOOL.into()) else {
        program.file = None;
        return;
    };
    let words = program.words.iter().skip(1).cloned();
    program.words = [OsString::from("sandbox-exec")]
        .into_iter()
        .chain(options.iter().cloned())
        .chain([file])
        .chain(words)
        .collect();
}

/// Tries the profile in `folder`, an empty private directory, with the home directory `home`; names the first thing that
/// does not behave as the profile says.
///
/// A tool that lets anything through, or that lets nothing run, gives no isolation.
#[cfg_attr(all(target_os = "linux", not(test)), expect(dead_code, reason = "tried on macOS, tested everywhere"))]
pub(super) fn try_it(tool: &Path, folder: &Path, home: &Path) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let (inside, beside) = (folder.join("inside"), folder.join("beside"));
    for directory in [&inside, &beside] {
        std::fs::create_dir(directory).map_err(io)?;
    }
    let listener =
        TcpListener::bind(("127.0.0.1", 0)).and_then(|one| one.set_nonblocking(true).map(|()| one)).map_err(io)?;
    let port = listener.local_addr().map_err(io)?.port().to_string();

    let options = options(&[], &[inside.clone().into()], false);
    let run = |program: &str, arguments: &[&OsStr]| -> Result<std::process::Output, String> {
        let mut command = Command::new(tool);
        command.args(&options).arg(program).args(arguments).env_clear().current_dir(&inside).stdin(Stdio::null());
        command.output().map_err(|error| format!("{}: {error}", tool.display()))
    };
    let shell = |script: &str, argument: &OsStr| {
        run(
            "/bin/bash",
            &["--noprofile", "--norc", "-c", script, "bash"]
                .map(OsStr::new)
                .into_iter()
                .chain([argument])
                .collect::<Vec<_>>(),
        )
    };

    if !run("/usr/bin/true", &[])?.status.success() {
        return Err("sandbox-exec did not start /usr/bin/true".to_owned());
    }
    let (allowed, denied) = (inside.join("file"), beside.join("file"));
    shell(": > \"$1\"", allowed.as_os_str())?;
    if !allowed.exists() {
        return Err("sandbox-exec stopped a write into the command workspace".to_owned());
    }
    shell(": > \"$1\"", denied.as_os_str())?;
    if denied.exists() {
        return Err("sandbox-exec let a write through".to_owned());
    }
    // The home directory is listed, so that nothing has to be written there to try it.
    let listed = shell("cd \"$1\" && for name in * .*; do printf '%s\\n' \"$name\"; done", home.as_os_str())?.stdout;
    let names = std::fs::read_dir(home).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name()));
    let lines: Vec<&[u8]> = listed.split(|byte| *byte == b'\n').collect();
    if names.into_iter().any(|name| lines.contains(&name.as_encoded_bytes())) {
        return Err("sandbox-exec let the home directory be read".to_owned());
    }
    shell("exec 3<>\"/dev/tcp/127.0.0.1/$1\"", OsStr::new(&port))?;
    match listener.accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        Ok(_) | Err(_) => Err("sandbox-exec let a connection through".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_that_was_not_found_stays_so() {
        let mut program = Program { file: None, words: vec!["x".into()] };
        wrap(&mut program, &[]);
        assert_eq!(program, Program { file: None, words: vec!["x".into()] });
        let mut program = Program { file: Some("/bin/x".into()), words: vec!["x".into(), "y".into()] };
        wrap(&mut program, &["-p".into(), "text".into()]);
        assert_eq!(program.words, ["sandbox-exec", "-p", "text", "/bin/x", "y"]);
    }

    #[test]
    fn no_path_of_a_run_is_in_the_text_of_its_profile() {
        let options = options(&["/a\")(allow default)".into()], &["/b\\".into(), "/c d".into()], false);
        let names: Vec<&OsString> = options.iter().skip(1).step_by(2).take(3).collect();
        assert_eq!(names, ["READ_0=/a\")(allow default)", "WRITE_0=/b\\", "WRITE_1=/c d"]);
        let text = options.last().unwrap().to_str().unwrap();
        assert!(text.starts_with(PROFILE));
        let rules: Vec<&str> = text[PROFILE.len()..].lines().collect();
        assert_eq!(
            rules,
            [
                "(allow file-read* file-map-executable (subpath (param \"READ_0\")))",
                "(allow file-read* file-map-executable file-write* (subpath (param \"WRITE_0\")))",
                "(allow file-read* file-map-executable file-write* (subpath (param \"WRITE_1\")))",
            ]
        );
    }

    #[test]
    fn the_profile_denies_first_and_opens_the_network_only_where_it_is_asked_to() {
        let rules: Vec<&str> = PROFILE.lines().filter(|line| line.starts_with('(')).collect();
        assert_eq!(rules[..2], ["(version 1)", "(deny default)"]);
        assert!(!PROFILE.contains("network") && !PROFILE.contains("(allow mach-lookup)"));
        assert_eq!(PROFILE.matches('(').count(), PROFILE.matches(')').count());
        let text = |network| options(&[], &[], network).pop().unwrap().into_string().unwrap();
        assert_eq!(text(false), PROFILE);
        assert!(text(true).ends_with("(allow network*)\n(allow system-socket)\n"));
    }

    /// Tries a stand-in for `sandbox-exec` that does `script` with the program and its arguments.
    fn tried(script: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let private = folder.path().join("private");
        for directory in [&home, &private] {
            std::fs::create_dir(directory).unwrap();
        }
        std::fs::write(home.join("secret"), "").unwrap();
        let tool = folder.path().join("sandbox-exec");
        let text = format!("#!/bin/bash\nwhile [[ $1 == -* ]]; do shift 2; done\n{script}\n");
        std::fs::write(&tool, text).unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        try_it(&tool, &private, &home)
    }

    #[test]
    fn a_tool_that_does_not_do_as_the_profile_says_gives_no_isolation() {
        let case = |rest: &str| format!("case \"$*\" in {rest} esac\n\"$@\"");
        let (write, read, connect) = ("*/beside/*) exit 1;;", "*/home) exit 1;;", "*/dev/tcp/*) exit 1;;");
        let says = |rest: &[&str]| tried(&case(&rest.concat())).unwrap_err();
        assert_eq!(tried(&case(&[write, read, connect].concat())), Ok(()));
        assert_eq!(says(&[read, connect]), "sandbox-exec let a write through");
        assert_eq!(says(&[write, connect]), "sandbox-exec let the home directory be read");
        assert_eq!(says(&[write, read]), "sandbox-exec let a connection through");
        assert_eq!(says(&["*/inside/*) exit 1;;"]), "sandbox-exec stopped a write into the command workspace");
        assert_eq!(tried("exit 71").unwrap_err(), "sandbox-exec did not start /usr/bin/true");
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let said = try_it(&missing, folder.path(), folder.path()).unwrap_err();
        assert!(said.contains("missing: No such file"), "{said}");
    }
}
