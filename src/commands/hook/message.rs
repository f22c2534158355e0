//! Runs `qwen hook prepare-commit-msg`: puts a draft above what git wrote into the message.

use std::io::Write;
use std::path::Path;

use super::super::console::print;
use super::asked::{BUDGET, HookRequest, Reply, given, skipped};
use super::error::HookError;
use crate::base::private_file;
use crate::bounded;
use crate::exit::Exit;
use crate::run::Failure;

/// The largest message that is read: `git commit -v` puts the whole change into it.
const LARGEST: u64 = 16 << 20;

pub(super) async fn draft(
    asked: &HookRequest<'_>,
    file: &Path,
    source: Option<&str>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let environment = asked.environment;
    let source = given(source).or_else(|| environment.value("PRE_COMMIT_COMMIT_MSG_SOURCE"));
    // Git sets this editor where nobody will see the draft before it is committed.
    let nobody_edits = environment.value("GIT_EDITOR").is_some_and(|editor| editor.trim() == ":");
    if source.is_some() || nobody_edits || asked.is_in_between() {
        return Ok(Exit::Ok);
    }
    let file = environment.cwd.join(file);
    let unreadable = |problem: String| HookError::Message { path: file.display().to_string(), problem };
    let written = bounded::regular_text(&file, LARGEST).map_err(|error| unreadable(error.to_string()))?;
    let comment = comment(asked, &written);
    if !is_open(&written, &comment) {
        return Ok(Exit::Ok);
    }
    let budget = asked.common.max_wall_time.unwrap_or(BUDGET);
    let result = match asked.ask("commit-message", &[], asked.facts(), budget).await? {
        Reply::Result(result) => result,
        Reply::Shown(text) => return print(out, &(crate::emit::safe::escape(&text).into_owned() + "\n")),
        Reply::None(reason) => return skipped(asked.common, asked.what, err, &reason),
    };
    if result["conclusion"] == "nothing_to_do" {
        return Ok(Exit::Ok);
    }
    let Some(text) = with_draft(&written, result["result"].as_str().unwrap_or_default(), &comment) else {
        return skipped(asked.common, asked.what, err, "the model returned no message");
    };
    private_file::replace(&file, text.as_bytes(), None).map_err(|error| unreadable(error.to_string()))?;
    Ok(Exit::Ok)
}

/// Returns what a comment line begins with.
fn comment(asked: &HookRequest<'_>, written: &str) -> String {
    let git = asked.repository().git();
    let configured = ["core.commentString", "core.commentChar"]
        .iter()
        .find_map(|key| git.line(&["config", "--get", key], b"").ok().filter(|value| !value.is_empty()));
    match configured {
        Some(value) if value != "auto" => value,
        // Git has chosen one that no line of the message begins with; its own lines are at the end.
        Some(_) => {
            let last = written.lines().rev().find_map(|line| line.chars().next());
            last.filter(|mark| "#;@!$%^&|:".contains(*mark)).unwrap_or('#').to_string()
        }
        None => "#".to_owned(),
    }
}

/// Tells whether nobody has written a message yet: there are comments, and trailers such as `git commit -s` adds.
fn is_open(written: &str, comment: &str) -> bool {
    let lines = written.lines().take_while(|line| !line.contains(" >8 "));
    lines.filter(|line| !line.trim().is_empty() && !line.starts_with(comment)).all(|line| {
        let name = line.split_once(": ").map(|(name, _)| name);
        name.is_some_and(|name| name.contains('-') && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-'))
    })
}

/// Puts a draft above the rest; `None` if it is empty.
fn with_draft(written: &str, draft: &str, comment: &str) -> Option<String> {
    // A line that git would take for a comment gets a space in front.
    let lines = draft.trim().lines().map(|line| match line.starts_with(comment) {
        true => format!(" {}\n", line.trim_end()),
        false => format!("{}\n", line.trim_end()),
    });
    let draft: String = lines.collect();
    if draft.trim().is_empty() {
        return None;
    }
    let gap = if written.starts_with('\n') || written.is_empty() { "" } else { "\n" };
    Some(format!("{draft}{gap}{written}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_that_nobody_has_begun_is_drafted() {
        for open in [
            "",
            "\n# Please enter the message\n#\n",
            "\n\nSigned-off-by: A <a@b>\n# x\n",
            "\n# x\n# ---- >8 ----\ndiff --git a/x b/x\n+y\n",
        ] {
            assert!(is_open(open, "#"), "{open:?}");
        }
        for begun in ["fix: it\n", "\nA line\n# x\n", "; not a comment\n", "ends with colon: \u{e9}\n"] {
            assert!(!is_open(begun, "#"), "{begun:?}");
        }
        assert!(is_open("\n; x\n", ";"));
    }

    #[test]
    fn a_draft_stands_above_and_no_line_of_it_is_lost_as_a_comment() {
        let text = with_draft("\n# Please\n", "fix: a\r\n\n#12 is gone  \n", "#").unwrap();
        assert_eq!(text, "fix: a\n\n #12 is gone\n\n# Please\n");
        assert_eq!(with_draft("# Please\n", "fix: a", "#").unwrap(), "fix: a\n\n# Please\n");
        assert_eq!(with_draft("", " \n\t", "#"), None);
    }
}
