//! Runs `qwen hook pre-commit` on the staged change, as the index holds it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt as _;

use super::asked::{BUDGET, HookRequest, Line, of_git, report};
use crate::exit::Exit;
use crate::path::RelPath;
use crate::policy::redact::Secrets;
use crate::run::Failure;
use crate::run::error::SetupError;
use crate::run::output::masking::secret_variables;
use crate::run::recipe::from_hook::is_generated;
use crate::verify::findings::new_side;

/// Configuration for git that overrides the user's and starts no program of the repository.
const PLAIN: [&str; 6] = ["diff", "--cached", "--no-ext-diff", "--no-textconv", "--no-color", "--diff-filter=ACMRT"];

pub(super) async fn run(asked: &HookRequest<'_>, out: &mut dyn Write, err: &mut dyn Write) -> Result<Exit, Failure> {
    if asked.is_in_between() {
        return Ok(Exit::Ok);
    }
    let git = asked.git()?;
    let counts = git.run(&[&PLAIN[..], &["--numstat", "-z", "--no-renames"]].concat(), b"");
    let paths = texts(&counts.map_err(|error| of_git(&error))?);
    if paths.is_empty() {
        return Ok(Exit::Ok);
    }
    let secrets = secrets(asked, &paths)?;
    if !secrets.is_empty() {
        let exit = report(secrets, asked.environment, out)?;
        let _closed = writeln!(err, "qwen: nothing was sent; take the secret out, or QWEN_HOOK=0 git commit");
        return Ok(exit);
    }
    let budget = asked.common.max_wall_time.unwrap_or(BUDGET);
    let reply = asked.ask("staged-check", &[], None, budget).await?;
    asked.judge(reply, out, err)
}

/// Reads the paths of changed texts from `git diff --numstat -z`: no binary files, no lock files.
fn texts(counts: &[u8]) -> Vec<Vec<u8>> {
    counts
        .split(|byte| *byte == 0)
        .filter_map(|line| {
            let mut parts = line.splitn(3, |byte| *byte == b'\t');
            let (added, _, path) = (parts.next()?, parts.next()?, parts.next()?);
            (added != b"-" && !path.is_empty() && !is_generated(path)).then(|| path.to_vec())
        })
        .collect()
}

/// Finds secrets in the added lines by patterns; files that the policy keeps from the model are skipped.
fn secrets(asked: &HookRequest<'_>, paths: &[Vec<u8>]) -> Result<Vec<Line>, Failure> {
    let policy = asked.place.policy(None, false, asked.environment)?.policy;
    let facts = asked.place.facts(asked.environment);
    let prefix = &asked.repository().prefix;
    let may_read = policy.reader(&facts);
    let readable: Vec<OsString> = paths
        .iter()
        .filter(|path| {
            let inside = RelPath::from_bytes(path).and_then(|path| RelPath::below(prefix.as_path(), path.as_path()));
            inside.is_some_and(|path| may_read(&path))
        })
        .map(|path| OsString::from_vec(path.clone()))
        .collect();
    if readable.is_empty() {
        return Ok(Vec::new());
    }
    let secrets = Secrets::new(&secret_variables(asked.environment, None, None), &policy.secret_patterns())
        .map_err(SetupError::SecretPatterns)?;
    let mut words: Vec<OsString> = PLAIN.map(OsString::from).into();
    words.extend(["-U0", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/", "--"].map(OsString::from));
    words.extend(readable);
    let diff = asked.git()?.run(&words, b"").map_err(|error| of_git(&error))?;
    let mut lines = Vec::new();
    for (path, added) in new_side(&String::from_utf8_lossy(&diff)) {
        for (number, (text, _)) in added {
            let found = secrets.shown_in(&text).into_iter();
            lines.extend(found.map(|what| Line {
                text: crate::emit::safe::one_line(&format!("{path}:{number}: [secret] {what}")),
                value: None,
                blocks: true,
            }));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_what_is_neither_binary_nor_a_lock_file() {
        let counts = b"1\t0\ta b\n.rs\x00-\t-\tpicture.png\x005\t2\tCargo.lock\x000\t3\tsub/x\ty\x00";
        assert_eq!(texts(counts), [b"a b\n.rs".to_vec(), b"sub/x\ty".to_vec()]);
        assert!(texts(b"").is_empty());
    }
}
