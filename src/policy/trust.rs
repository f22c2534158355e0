//! Decides which files of a checkout are trusted: which event means which trusted commit, and which hashes were
//! approved.
//!
//! Performs no I/O: the event, the flags and the hashes come in, and what may be trusted comes out. Unknown is
//! untrusted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is known about who started the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Circumstances<'a> {
    /// `--trust-checkout` or `QWEN_TRUST_CHECKOUT`.
    pub trust_checkout: bool,
    /// `--trusted-ref`.
    pub trusted_ref: Option<&'a str>,
    /// Whether a CI system runs us.
    pub is_ci: bool,
    /// `GITHUB_EVENT_NAME`.
    pub event_name: Option<&'a str>,
    /// The event as `GITHUB_EVENT_PATH` holds it; `None` where it cannot be read.
    pub event: Option<&'a Value>,
    /// Whether `qwen policy trust` approved the files as they are now.
    pub is_approved: bool,
}

/// Whose `.qwen/`, settings, recipes and context files count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those of the checkout as it is there.
    Checkout,
    /// Those of this commit, never those of the tree under review.
    Ref(TrustedRef),
    /// Nobody's: what a checkout says can only take away.
    Nothing {
        /// Why, as the end of "not trusted: …".
        why: String,
    },
}

/// A commit to be trusted, before git was asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedRef {
    /// What git is asked for: a full object name, a full reference name, `HEAD`, or what the operator wrote.
    pub revision: String,
    /// Why this one, for people.
    pub why: String,
}

impl Circumstances<'_> {
    /// Decides whose files count.
    pub fn trust(&self) -> Trust {
        if self.trust_checkout {
            return Trust::Checkout;
        }
        if let Some(revision) = self.trusted_ref {
            return Trust::Ref(TrustedRef { revision: revision.to_owned(), why: "--trusted-ref".to_owned() });
        }
        match (self.event_name, self.is_ci, self.is_approved) {
            (Some(name), _, _) => of_event(name, self.event),
            (None, true, _) => nothing("the event of this CI system is unknown; name a commit with --trusted-ref"),
            (None, false, true) => Trust::Checkout,
            (None, false, false) => nothing("`qwen policy trust` has not approved its files as they are"),
        }
    }
}

fn nothing(why: impl Into<String>) -> Trust {
    Trust::Nothing { why: why.into() }
}

/// Reads GitHub's event. A pull request is judged by what it is to be merged into, a comment by the default branch.
fn of_event(name: &str, event: Option<&Value>) -> Trust {
    let text = |pointer: &str| event.and_then(|event| event.pointer(pointer)).and_then(Value::as_str);
    let commit = |pointer: &str, why: &str| match text(pointer).filter(|text| is_object(text)) {
        Some(revision) => Trust::Ref(TrustedRef { revision: revision.to_owned(), why: why.to_owned() }),
        None => nothing(format!("the event {name} names no base commit")),
    };
    let default_branch = |why: &str| match text("/repository/default_branch").filter(|name| is_branch(name)) {
        // A local branch of that name may be anybody's: a checkout of a fork makes one.
        Some(branch) => {
            Trust::Ref(TrustedRef { revision: format!("refs/remotes/origin/{branch}"), why: why.to_owned() })
        }
        None => nothing(format!("the event {name} names no default branch")),
    };
    match name {
        "pull_request" | "pull_request_target" => {
            let (head, base) = (text("/pull_request/head/repo/full_name"), text("/pull_request/base/repo/full_name"));
            // A deleted fork has no name: it is a fork all the same.
            match (head, base) {
                (Some(head), Some(base)) if head == base => {
                    commit("/pull_request/base/sha", "the base commit of the pull request")
                }
                _ => default_branch("the default branch, since the pull request comes from another repository"),
            }
        }
        "merge_group" => commit("/merge_group/base_sha", "the base commit of the merge group"),
        "issue_comment"
        | "commit_comment"
        | "discussion_comment"
        | "pull_request_review"
        | "pull_request_review_comment"
        | "issues"
        | "workflow_run" => default_branch("the default branch"),
        "push" | "schedule" | "workflow_dispatch" => {
            Trust::Ref(TrustedRef { revision: "HEAD".to_owned(), why: format!("the commit of the event {name}") })
        }
        _ => nothing(format!("nothing is known about who can cause the event {name}")),
    }
}

fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_branch(name: &str) -> bool {
    !name.is_empty()
        && !name.contains("..")
        && name.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
        && name.chars().all(|c| c.is_alphanumeric() || "/._-+#@".contains(c))
        && !name.contains("@{")
}

/// The files of a checkout that `qwen policy trust` approved, by their hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The checkout's top directory.
    pub checkout: String,
    /// SHA-256 of each file, by its path below the top directory.
    pub files: BTreeMap<String, String>,
}

impl Approval {
    /// Names the files that are not as they were approved: changed, added or gone. None: the approval holds.
    pub fn changed<'a>(&'a self, now: &'a Approval) -> Vec<&'a str> {
        let differs = |path: &&str| self.files.get(*path) != now.files.get(*path);
        let mut paths: Vec<&str> = self.files.keys().chain(now.files.keys()).map(String::as_str).collect();
        paths.sort_unstable();
        paths.dedup();
        paths.retain(differs);
        if self.checkout != now.checkout {
            paths.push(".");
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SHA: &str = "0123456789012345678901234567890123456789";

    fn shown(circumstances: &Circumstances<'_>) -> String {
        match circumstances.trust() {
            Trust::Checkout => "checkout".to_owned(),
            Trust::Ref(found) => found.revision,
            Trust::Nothing { .. } => "nothing".to_owned(),
        }
    }

    fn by_event(name: &str, event: &Value) -> String {
        // An approval of this machine does not count in CI.
        let circumstances = Circumstances {
            is_ci: true,
            event_name: Some(name),
            event: Some(event),
            is_approved: true,
            ..Circumstances::default()
        };
        shown(&circumstances)
    }

    fn pull_request(head: &str) -> Value {
        json!({"repository": {"default_branch": "main"}, "pull_request": {
            "head": {"sha": "f".repeat(40), "repo": {"full_name": head}},
            "base": {"sha": SHA, "repo": {"full_name": "acme/app"}}}})
    }

    #[test]
    fn each_event_has_its_trusted_commit() {
        let comment = json!({"repository": {"default_branch": "release/1.x"}});
        let group = json!({"merge_group": {"base_sha": SHA, "head_sha": "f".repeat(40)}});
        let cases = [
            ("pull_request", &pull_request("acme/app"), SHA),
            ("pull_request_target", &pull_request("acme/app"), SHA),
            ("pull_request", &pull_request("evil/app"), "refs/remotes/origin/main"),
            ("merge_group", &group, SHA),
            ("issue_comment", &comment, "refs/remotes/origin/release/1.x"),
            ("issues", &comment, "refs/remotes/origin/release/1.x"),
            ("workflow_run", &comment, "refs/remotes/origin/release/1.x"),
            ("pull_request_review_comment", &comment, "refs/remotes/origin/release/1.x"),
            ("push", &json!({}), "HEAD"),
            ("schedule", &json!({}), "HEAD"),
            ("workflow_dispatch", &json!({}), "HEAD"),
            ("repository_dispatch", &comment, "nothing"),
            ("fork", &comment, "nothing"),
            ("", &comment, "nothing"),
        ];
        for (name, event, expected) in cases {
            assert_eq!(by_event(name, event), expected, "{name} {event}");
        }
    }

    #[test]
    fn an_event_cannot_name_a_revision_of_its_own() {
        let odd = |sha: &str| json!({"merge_group": {"base_sha": sha}});
        for sha in ["HEAD", "", "--output=x", "abc", "refs/heads/evil"] {
            assert_eq!(by_event("merge_group", &odd(sha)), "nothing");
        }
        for branch in ["", "-x/../y", "a b", "main^{tree}", "a..b", "x@{1}", "../../heads/evil", "a//b", "x:y"] {
            let event = json!({"repository": {"default_branch": branch}});
            assert_eq!(by_event("issues", &event), "nothing", "{branch}");
        }
        let mut gone = pull_request("acme/app");
        gone["pull_request"]["head"]["repo"] = Value::Null;
        assert_eq!(by_event("pull_request", &gone), "refs/remotes/origin/main");
    }

    #[test]
    fn an_operators_word_comes_first_and_silence_is_no_trust() {
        let ci = Circumstances { is_ci: true, is_approved: true, ..Circumstances::default() };
        assert_eq!(shown(&ci), "nothing");
        assert_eq!(shown(&Circumstances { trusted_ref: Some("v1"), ..ci.clone() }), "v1");
        assert_eq!(shown(&Circumstances { trusted_ref: Some("v1"), trust_checkout: true, ..ci }), "checkout");
        assert_eq!(shown(&Circumstances::default()), "nothing");
        assert_eq!(shown(&Circumstances { is_approved: true, ..Circumstances::default() }), "checkout");
        let unread = Circumstances { event_name: Some("pull_request"), ..Circumstances::default() };
        assert_eq!(shown(&unread), "nothing");
    }

    #[test]
    fn an_approval_is_void_when_a_file_changes_comes_or_goes() {
        let approval = |files: &[(&str, &str)]| Approval {
            checkout: "/p".to_owned(),
            files: files.iter().map(|(path, hash)| ((*path).to_owned(), (*hash).to_owned())).collect(),
        };
        let approved = approval(&[(".env", "1"), (".qwen/policy.yaml", "2")]);
        assert_eq!(approved.changed(&approved.clone()), [] as [&str; 0]);
        assert_eq!(approved.changed(&approval(&[(".env", "1"), (".qwen/policy.yaml", "3")])), [".qwen/policy.yaml"]);
        assert_eq!(approved.changed(&approval(&[(".env", "1")])), [".qwen/policy.yaml"]);
        let more = approval(&[(".env", "1"), (".qwen/policy.yaml", "2"), (".qwen/x", "4")]);
        assert_eq!(approved.changed(&more), [".qwen/x"]);
        assert_eq!(approved.changed(&Approval { checkout: "/q".into(), ..approved.clone() }), ["."]);
    }
}
