//! Looks for secrets in each commit of a range: what one commit adds and a later one removes is sent with the history.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use crate::git::contents::Contents;
use crate::path::RelPath;
use crate::recipe::file::LocalRule;
use crate::run::recipe::diff::{ChangeReader, Choice};
use crate::verify::findings::Finding;
use crate::verify::local::{self, Changed, Rules};
use crate::verify::new_side::Shown;
use crate::verify::review::Class;

/// What is looked for in a commit that a later one may have changed.
const RULES: [LocalRule; 2] = [LocalRule::Secrets, LocalRule::Denied];

/// A file of a commit, and the ids of its contents in the parents.
type InCommit = (Changed, Vec<String>);

/// What the message of a commit is called, and that of a tag; the lines of a tag before its message; a file that only a tag
/// names.
const MESSAGE: &str = "COMMIT_EDITMSG";
const TAG: &str = "TAG_EDITMSG";
const TAG_HEAD: &str = "TAG";
const BLOB: &str = "BLOB";

/// What was seen of commits.
pub struct LookedAtCommits {
    /// Problems, each with the commit that it is in.
    pub findings: Vec<(String, Finding)>,
    /// Commits that there was no time for.
    pub left: usize,
}

impl ChangeReader<'_> {
    /// Looks at the commits that `tip` has and neither `base` nor any known branch of `remote`, and at their messages, the
    /// newest first. Nothing begins after `until`.
    ///
    /// Errors with the reason alone.
    pub fn commits(
        &self,
        (base, remote): (Option<&str>, Option<&str>),
        tip: &str,
        until: Instant,
    ) -> Result<LookedAtCommits, String> {
        let git = self.repository.without_filters().map_err(|error| error.to_string())?;
        let remotes = remote.map(|remote| format!("--remotes={remote}"));
        let without = base.map(|base| format!("^{base}"));
        let mut words = vec!["rev-list"];
        words.extend(remotes.iter().flat_map(|remotes| ["--not", remotes, "--not"]));
        words.extend(["--end-of-options", tip]);
        words.extend(without.as_deref());
        let commits = git.run(&words, b"").map_err(|error| error.to_string())?;
        if commits.is_empty() {
            return Ok(LookedAtCommits { findings: Vec::new(), left: 0 });
        }
        let messages = ["log", "--no-walk=unsorted", "--stdin", "-z", "--format=%H%n%B"];
        let messages = git.run(&messages, &commits).map_err(|error| error.to_string())?;
        // Of a merge, what none of its parents has.
        let listed = ["diff-tree", "--stdin", "--root", "-r", "-c", "--raw", "-z", "--no-abbrev", "--no-renames"];
        let listed = git.run(&listed, &commits).map_err(|error| error.to_string())?;
        let (may_read, contents) = (self.policy.reader(self.facts), self.repository.contents());
        let is_ignored = |path: &str, digest: &str| self.policy.ignores_secret(path, digest);
        let text_of = |file: &Changed| contents.text(&file.id, &RelPath::from_bytes(&file.path)?);
        let link_at = |_: &str| None;
        let rules = Rules {
            wanted: &RULES,
            secrets: self.secrets,
            is_ignored: &is_ignored,
            link_at: &link_at,
            text_of: &text_of,
        };
        let (mut looked, mut seen) = (LookedAtCommits { findings: Vec::new(), left: 0 }, HashSet::new());
        for message in String::from_utf8_lossy(&messages).split('\0') {
            let Some((commit, text)) = message.split_once('\n') else { continue };
            let found = in_message(text, MESSAGE, &rules);
            looked.findings.extend(found.into_iter().map(|finding| (commit.to_owned(), finding)));
        }
        for (commit, files) in by_commit(&listed) {
            if Instant::now() >= until {
                looked.left += 1;
                continue;
            }
            for (file, parents) in files {
                if file.status == 'D' || !seen.insert((file.path.clone(), file.id.clone(), parents.clone())) {
                    continue;
                }
                let (file, path, class) = self.classed(file, &may_read, &contents, &Choice::default());
                if class != Some(Class::Outside) {
                    let lines = added(&contents, &file, &parents);
                    let found = local::problems(&file, &path, Some(&lines), &rules);
                    looked.findings.extend(found.into_iter().map(|finding| (commit.clone(), finding)));
                }
            }
        }
        Ok(looked)
    }

    /// Looks at all of a tag, at the tags that it names, and at the file that one stands for. Nothing begins after `until`.
    /// Returns also what was not looked at, if that is not a commit.
    ///
    /// Errors with the reason alone.
    pub fn tag(&self, object: &str, until: Instant) -> Result<(Vec<Finding>, Option<String>), String> {
        let (git, contents) = (self.repository.git(), self.repository.contents());
        let is_ignored = |path: &str, digest: &str| self.policy.ignores_secret(path, digest);
        let rules = Rules {
            wanted: &RULES,
            secrets: self.secrets,
            is_ignored: &is_ignored,
            link_at: &|_| None,
            text_of: &|_| None,
        };
        let (mut object, mut findings) = (object.to_owned(), Vec::new());
        loop {
            let kind = git.line(&["cat-file", "-t", &object], b"").map_err(|error| error.to_string())?;
            let short = object.get(..12).unwrap_or(&object);
            let blob = RelPath::new(BLOB).filter(|_| kind == "blob").and_then(|path| contents.text(&object, &path));
            if Instant::now() >= until {
                return Ok((findings, Some(format!("there was no time to search {short} for secrets"))));
            } else if let Some(text) = blob {
                findings.extend(in_message(&text, BLOB, &rules));
                return Ok((findings, None));
            } else if kind != "tag" {
                let unsearched = (kind != "commit").then(|| format!("{short} is a {kind}, which is not searched"));
                return Ok((findings, unsearched));
            }
            let tag = git.run(&["cat-file", "tag", &object], b"").map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&tag);
            let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
            let (first, others) = head.split_once('\n').unwrap_or((head, ""));
            findings.extend(in_message(others, TAG_HEAD, &rules));
            findings.extend(in_message(message, TAG, &rules));
            let named = first.strip_prefix("object ");
            named.ok_or_else(|| format!("the tag {object} names no object"))?.clone_into(&mut object);
        }
    }
}

/// Looks for problems in a message that git keeps under this name while it is written.
fn in_message(text: &str, name: &str, rules: &Rules<'_>) -> Vec<Finding> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, (line.to_owned(), true))).collect();
    local::problems(&message_file(name), name, Some(&lines), rules)
}

/// Returns a message as a file that is added.
fn message_file(name: &str) -> Changed {
    let [mode, id] = ["100644", "message"].map(str::to_owned);
    let (path, before) = (name.as_bytes().to_vec(), mode.clone());
    Changed { path, before, after: mode, base_id: id.clone(), id, status: 'A', lines: None }
}

/// Returns the lines of a file that no parent of its commit has.
fn added(contents: &Contents<'_>, file: &Changed, parents: &[String]) -> Shown {
    let Some(path) = RelPath::from_bytes(&file.path).filter(|_| !file.is_submodule()) else { return Shown::new() };
    let mut lines: Option<BTreeMap<u64, String>> = None;
    for parent in parents {
        let new: BTreeMap<u64, String> = contents.added_lines(&file.id, parent, &path).into_iter().collect();
        lines = Some(match lines {
            Some(lines) => lines.into_iter().filter(|(number, _)| new.contains_key(number)).collect(),
            None => new,
        });
    }
    lines.unwrap_or_default().into_iter().map(|(number, line)| (number, (line, true))).collect()
}

/// Reads the output of `git diff-tree --stdin -c --raw -z`: for each commit its files, each with the ids of its contents in
/// the parents. One colon is a commit with one parent or none, more are a merge.
fn by_commit(listed: &[u8]) -> Vec<(String, Vec<InCommit>)> {
    let mut words = listed.split(|byte| *byte == 0);
    let mut commits: Vec<(String, Vec<InCommit>)> = Vec::new();
    while let Some(word) = words.next() {
        let word = String::from_utf8_lossy(word);
        let head = word.trim_start_matches(':');
        let parents = word.len() - head.len();
        if parents == 0 {
            commits.extend((!head.is_empty()).then(|| (head.trim().to_owned(), Vec::new())));
            continue;
        }
        let (fields, Some(path)) = (head.split(' ').collect::<Vec<_>>(), words.next()) else { continue };
        let text = |at: usize| fields.get(at).map(|field| (*field).to_owned()).unwrap_or_default();
        let ids: Vec<String> = (parents + 1..=2 * parents + 1).map(text).collect();
        let Some(((id, bases), (_, files))) = ids.split_last().zip(commits.last_mut()) else { continue };
        let file = Changed {
            path: path.to_vec(),
            before: text(0),
            after: text(parents),
            id: id.clone(),
            base_id: bases.first().cloned().unwrap_or_default(),
            status: text(2 * parents + 2).chars().next().unwrap_or('M'),
            lines: None,
        };
        files.push((file, bases.to_vec()));
    }
    commits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_has_the_files_that_none_of_its_parents_has() {
        let listed =
            "c1\0:000000 100644 0 a A\0x\0:100644 100644 a b M\0y y\0c2\0c3\0::100644 100644 100644 a b c MM\0z\0";
        let read: Vec<String> = by_commit(listed.as_bytes())
            .into_iter()
            .map(|(commit, files)| {
                let file = |(file, parents): &(Changed, Vec<String>)| {
                    let path = String::from_utf8_lossy(&file.path).into_owned();
                    format!(" {path}:{}:{}:{}:{}", file.status, file.after, file.id, parents.join("+"))
                };
                commit + &files.iter().map(file).collect::<String>()
            })
            .collect();
        assert_eq!(read, ["c1 x:A:100644:a:0 y y:M:100644:b:a", "c2", "c3 z:M:100644:c:a+b"]);
    }
}
