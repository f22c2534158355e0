//! The profile for `sandbox-exec` on macOS: written from its documentation, untested.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The tool that applies a profile to a program.
pub const TOOL: &str = "/usr/bin/sandbox-exec";

/// Writes the profile: reading `read`, `write` and the system, writing `write` and the usual devices.
///
/// Paths must be canonical: the kernel compares them after following links.
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

/// Quotes a path as a string of the profile's language; bytes that are no text cannot be said, and match nothing.
fn quoted(path: &OsStr) -> String {
    let text = String::from_utf8_lossy(path.as_bytes());
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_end_its_string() {
        let text = profile(&["/a\")(allow default)".into()], &["/b\\".into()], false);
        assert!(text.contains(r#"(subpath "/a\")(allow default)")"#), "{text}");
        assert!(text.contains(r#"(subpath "/b\\")"#));
        assert!(!text.contains("network"));
    }
}
