//! Generates the profile for `sandbox-exec` on macOS: written from its documentation, untested.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::wire::Program;

/// The tool that applies a profile to a program.
pub const TOOL: &str = "/usr/bin/sandbox-exec";

/// Writes the profile: reading `read`, `write` and the system, writing `write` and the usual devices.
///
/// Paths must be canonical, as the kernel compares them after following links.
pub fn profile(read: &[OsString], write: &[OsString], network: bool) -> String {
    let mut text = String::from(
        "(version 1)\n(deny default)\n(allow process-fork process-exec)\n(allow signal (target same-sandbox))\n\
         (allow sysctl-read mach-lookup)\n(allow file-read-metadata)\n\
         (allow file-read* (literal \"/\") (subpath \"/System\") (subpath \"/Library\") (subpath \"/private/var/db/dyld\") (subpath \"/dev\"))\n\
         (allow file-write-data (literal \"/dev/null\") (literal \"/dev/zero\"))\n",
    );
    for path in read {
        text.push_str(&format!("(allow file-read* (subpath {}))\n", quoted(path)));
    }
    for path in write {
        text.push_str(&format!("(allow file-read* file-write* (subpath {}))\n", quoted(path)));
    }
    if network {
        text.push_str("(allow network*)\n");
    }
    text
}

/// Starts a program under the profile.
pub(super) fn wrap(program: &mut Program, profile: &str) {
    let Some(file) = program.file.replace(TOOL.into()) else {
        program.file = None;
        return;
    };
    let own = [OsString::from("sandbox-exec"), "-p".into(), profile.into(), file];
    program.words = own.into_iter().chain(program.words.iter().skip(1).cloned()).collect();
}

/// Quotes a path as a string of the profile's language; bytes that are not text match nothing.
fn quoted(path: &OsStr) -> String {
    let text = String::from_utf8_lossy(path.as_bytes());
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_not_found_stays_so() {
        let mut program = Program { file: None, words: vec!["x".into()] };
        wrap(&mut program, "p");
        assert_eq!(program, Program { file: None, words: vec!["x".into()] });
        let mut program = Program { file: Some("/bin/x".into()), words: vec!["x".into(), "y".into()] };
        wrap(&mut program, "p");
        assert_eq!(program.words, ["sandbox-exec", "-p", "p", "/bin/x", "y"]);
    }

    #[test]
    fn a_path_cannot_end_its_string() {
        let text = profile(&["/a\")(allow default)".into()], &["/b\\".into()], false);
        assert!(text.contains(r#"(subpath "/a\")(allow default)")"#), "{text}");
        assert!(text.contains(r#"(subpath "/b\\")"#));
        assert!(!text.contains("network"));
    }
}
