//! Tests what a reviewer sees: findings at lines of a pull request, once, with a comment that is brought up to date.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::runner::Seen;
use super::{Event, Job};
use crate::support::github::{TOKEN, Trouble};
use crate::support::{GitHub, Project, Reply, call, program};

/// A pull request from `change` to `main`, and what its model answers, run by run.
pub(super) struct Reviewed {
    project: Project,
    api: GitHub,
    second: PathBuf,
}

const NUMBER: u64 = 12;

fn finding(path: &str, line: u64, quote: &str, message: &str) -> Value {
    json!({"rule_id": "correctness", "severity": "error", "path": path, "start_line": line, "end_line": line,
           "quote": quote, "message": message, "confidence": "high"})
}

/// An answer of the model.
pub(super) fn findings(all: &[Value]) -> Reply {
    call("structured_output", json!({"findings": all}))
}

const BEFORE: &str = "def a():\n    return 1\n\n\ndef z():\n    return 26\n";
const AFTER: &str = "def a():\n    return 1 / 0\n\n\ndef b():\n    return [][0]\n\n\ndef z():\n    return 26\n";

impl Reviewed {
    /// Makes the pull request; `replies` are the model's, one a run.
    pub(super) fn new(replies: impl IntoIterator<Item = Reply>) -> Reviewed {
        let project = Project::new().file("src/a.py", BEFORE).model(replies).git();
        let origin = project.beside("origin.git");
        project.run_git(&["clone", "-q", "--bare", ".", &origin.display().to_string()]);
        project.run_git(&["remote", "add", "origin", &origin.display().to_string()]);
        project.run_git(&["fetch", "-q", "origin"]);
        project.run_git(&["checkout", "-q", "-b", "change"]);
        let second = project.beside("second");
        let api = GitHub::start(&origin);
        let reviewed = Reviewed { project, api, second };
        reviewed.push(&[("src/a.py", AFTER)]);
        reviewed.api.state().open_pull(NUMBER, "change", "main");
        let clone = ["clone", "-q", &origin.display().to_string(), &reviewed.second.display().to_string()];
        reviewed.project.run_git(&clone);
        reviewed
    }

    /// Commits files to the branch of the pull request.
    pub(super) fn push(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.project.root().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.project.run_git(&["add", "-A"]);
        self.project.run_git(&["commit", "-q", "--allow-empty", "-m", "more"]);
        self.project.run_git(&["push", "-q", "origin", "change"]);
    }

    /// Returns the event of a name; `synchronize` is that of a push to the pull request.
    fn event(&self, name: &'static str) -> Event {
        let commit = |revision: &str| self.project.run_git(&["rev-parse", revision]).trim().to_owned();
        let repository = json!({"default_branch": "main", "full_name": "o/r"});
        let content = match name {
            "issue_comment" => json!({"repository": repository, "action": "created",
                "issue": {"number": NUMBER, "pull_request": {}}, "sender": {"login": "ann", "type": "User"},
                "comment": {"id": 5, "body": "/qwen", "user": {"login": "ann"}}}),
            action => json!({"repository": repository, "action": action, "pull_request": {"number": NUMBER,
                "head": {"sha": commit("change"), "repo": {"full_name": "o/r"}}, "base": {"sha": commit("main")}}}),
        };
        let name = if name == "synchronize" { "pull_request" } else { name };
        Event { name, content, actor: "ann" }
    }

    fn job(&self, folder: &Path, event: Event, inputs: Vec<(&'static str, String)>) -> Seen {
        let home = self.project.home();
        let mut all = vec![
            ("binary", program().display().to_string()),
            ("github-token", TOKEN.to_owned()),
            ("recipe", "review-diff".to_owned()),
        ];
        all.extend(inputs);
        let environment = vec![("GITHUB_API_URL", self.api.url.clone())];
        Job { folder, home: &home, event, inputs: all, environment }.run()
    }

    /// Runs the job with the model.
    fn review(&self, event: &'static str) -> Seen {
        let inputs = vec![
            ("api-key", "sk-something-secret".to_owned()),
            ("base-url", self.project.server().base_url()),
            ("model", "scripted".to_owned()),
        ];
        self.job(&self.project.root(), self.event(event), inputs)
    }

    /// Runs the job that delivers what a review proposed.
    fn deliver(&self, review: &Seen, event: &'static str) -> Seen {
        let inputs = vec![
            ("job", "deliver".to_owned()),
            ("proposal-dir", review.outputs["proposal-dir"].clone()),
            ("proposal-sha256", review.outputs["proposal-sha256"].clone()),
        ];
        self.job(&self.second, self.event(event), inputs)
    }

    /// Both jobs of a pull request's event; both succeed.
    pub(super) fn both(&self) -> (Seen, Seen) {
        let review = self.review("pull_request");
        assert!(matches!(review.code, 0 | 3), "{}", review.log);
        let delivered = self.deliver(&review, "pull_request");
        assert_eq!(delivered.code, 0, "{}", delivered.log);
        (review, delivered)
    }

    /// Each thread: path, first and last line, whether it is resolved, and the text that began it.
    pub(super) fn threads(&self) -> Vec<(String, u64, u64, bool, String)> {
        let state = self.api.state();
        let thread = |thread: &crate::support::github::Thread| {
            let start = thread.start_line.unwrap_or(thread.line);
            let text = thread.comments[0].2.clone();
            (thread.path.clone(), start, thread.line, thread.resolved_by.is_some(), text)
        };
        state.threads.iter().map(thread).collect()
    }

    pub(super) fn comments(&self) -> Vec<String> {
        self.api.state().comments_of(NUMBER).into_iter().map(|(_, body)| body.to_owned()).collect()
    }
}

#[test]
fn findings_are_posted_at_their_lines_with_a_comment_that_says_the_rest() {
    let mut suggested = finding("src/a.py", 2, "    return 1 / 0", "Divides by zero; see @octocat.");
    suggested["suggestion"] = json!({"start_line": 2, "end_line": 2, "replacement": "    return 1\n"});
    let index = finding("src/a.py", 6, "    return [][0]", "The list is empty.");
    let reviewed = Reviewed::new([findings(&[suggested, index])]);
    let (review, delivered) = reviewed.both();
    assert_eq!((review.code, review.outputs["conclusion"].as_str()), (3, "findings"), "{}", review.log);
    assert_eq!((review.outputs["findings-count"].as_str(), review.outputs["errors"].as_str()), ("2", "2"));
    assert_eq!(review.outputs["complete"], "true");
    let threads = reviewed.threads();
    assert_eq!(threads.len(), 2, "{threads:?}");
    let (path, start, end, _, text) = &threads[0];
    assert_eq!((path.as_str(), *start, *end), ("src/a.py", 2, 2));
    assert!(text.starts_with("🔴 **error** `correctness`\n\nDivides by zero; see `@octocat.`\n\n"), "{text}");
    assert!(text.contains("```suggestion\n    return 1\n```\n"), "{text}");
    assert!(text.ends_with(" rule=correctness lines=1 error high -->"), "{text}");
    let comments = reviewed.comments();
    assert_eq!(comments.len(), 1);
    assert!(comments[0].starts_with("<!-- qwen:sticky v1 review-diff -->\n### 🔴 2 errors found\n"), "{}", comments[0]);
    assert!(comments[0].contains("[`src/a.py:2`](https://github.example/o/r/pull/12#discussion_r"), "{}", comments[0]);
    let head = reviewed.api.state().tip("change");
    let base = reviewed.api.state().tip("main");
    let state = format!("\n<!-- qwen:state {{\"reviewed\":\"{head}\",\"base\":\"{base}\",\"scope\":\"");
    assert!(comments[0].contains(&state), "{}", comments[0]);
    assert_eq!((delivered.outputs["posted"].as_str(), delivered.outputs["gone"].as_str()), ("2", "0"));
    assert!(delivered.outputs["review-url"].contains("#pullrequestreview-"), "{:?}", delivered.outputs);
    assert!(delivered.outputs["comment-url"].contains("#issuecomment-"), "{:?}", delivered.outputs);
    assert!(delivered.summary.contains("2 at lines of the change"), "{}", delivered.summary);
    let asked = reviewed.api.asked();
    assert!(asked.len() <= 14, "{asked:?}");
    let posted = reviewed.api.state().reviews[0].clone();
    assert_eq!((posted.commit.as_str(), posted.author.as_str()), (head.as_str(), "github-actions[bot]"));
    assert!(posted.body.contains("the AI model `scripted`"), "{}", posted.body);
    assert!(reviewed.api.state().checks.is_empty(), "the job's own status is at the head");

    // The same proposal again.
    let before = reviewed.api.asked().len();
    let again = reviewed.deliver(&review, "pull_request");
    assert_eq!((again.code, reviewed.api.writes_since(before)), (0, Vec::<String>::new()), "{}", again.log);
}

#[test]
fn three_pushes_repeat_nothing_and_mark_what_was_fixed() {
    let zero = || finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.");
    let index = || finding("src/a.py", 6, "    return [][0]", "The list is empty.");
    let reviewed = Reviewed::new([findings(&[zero(), index()]), findings(&[index()]), findings(&[])]);
    reviewed.both();
    let fixed = AFTER.replace("1 / 0", "1");
    reviewed.push(&[("src/a.py", fixed.as_str())]);
    let (_, second) = reviewed.both();
    assert_eq!((second.outputs["posted"].as_str(), second.outputs["gone"].as_str()), ("0", "1"), "{}", second.log);
    let threads = reviewed.threads();
    assert_eq!(threads.len(), 2, "{threads:?}");
    let gone = &threads[0];
    assert!(gone.3 && gone.4.starts_with("✅ No longer in the code at `"), "{gone:?}");
    assert!(gone.4.contains("Divides by zero.") && gone.4.ends_with(" -->"), "{gone:?}");
    assert!(!threads[1].3, "what is still there stays open");
    assert!(reviewed.comments()[0].contains("### 🔴 1 error found"), "{:?}", reviewed.comments());
    // The model does not repeat what is still there: it stays open.
    reviewed.push(&[("src/b.py", "x = 1\n")]);
    let (review, third) = reviewed.both();
    assert_eq!(review.code, 3, "an open thread counts although the model does not repeat it: {}", review.log);
    assert_eq!((third.outputs["posted"].as_str(), third.outputs["gone"].as_str()), ("0", "0"), "{}", third.log);
    assert!(!reviewed.threads()[1].3);
    assert_eq!(reviewed.comments().len(), 1);
    assert!(reviewed.comments()[0].contains("[`src/a.py"), "{:?}", reviewed.comments());
}

#[test]
fn what_a_person_resolved_is_not_posted_again_and_a_forged_mark_is_not_ours() {
    let zero = || finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.");
    let reviewed = Reviewed::new([findings(&[zero()]), findings(&[zero()])]);
    reviewed.both();
    {
        let mut state = reviewed.api.state();
        let mut forged = state.threads[0].clone();
        (forged.id, forged.comments[0].0, forged.comments[0].1) = ("PRRT_forged".into(), 9_999, "eve".into());
        state.threads[0].resolved_by = Some("ann".into());
        state.threads.push(forged);
        let sticky = state.comments[0].body.clone();
        state.add_comment(NUMBER, "eve", &sticky);
    }
    reviewed.push(&[("src/b.py", "x = 1\n")]);
    let (review, second) = reviewed.both();
    assert_eq!((review.code, review.outputs["findings-count"].as_str()), (0, "1"), "{}", review.log);
    assert!(review.outputs["findings"].contains("\"dismissed\":true"), "{:?}", review.outputs["findings"]);
    assert_eq!(second.outputs["posted"], "0", "{}", second.log);
    assert_eq!(reviewed.threads().len(), 2);
    let state = reviewed.api.state();
    let comments = state.comments_of(NUMBER);
    assert_eq!(comments.len(), 2);
    assert!(comments[1].1.contains("`src/a.py:2`") && !comments[0].1.contains("src/a.py"), "{comments:?}");
}

#[test]
fn a_dismissal_is_not_one_of_the_same_line_elsewhere() {
    let zero = |line| finding("src/a.py", line, "    return 1 / 0", "Divides by zero.");
    let reviewed = Reviewed::new([findings(&[zero(2)]), findings(&[zero(2), zero(6)])]);
    reviewed.both();
    reviewed.api.state().threads[0].resolved_by = Some("ann".into());
    let serving = format!("def serve(request):\n    return 1 / 0\n\n\n{AFTER}");
    reviewed.push(&[("src/a.py", serving.as_str())]);
    let (review, second) = reviewed.both();
    assert_eq!((review.code, second.outputs["posted"].as_str()), (3, "1"), "{}", review.log);
    let threads = reviewed.threads();
    assert_eq!((threads.len(), threads[1].2, threads[1].3), (2, 2, false), "{threads:?}");
    assert_eq!(review.outputs["findings"].matches("\"dismissed\":true").count(), 1, "{}", review.outputs["findings"]);
}

#[test]
fn a_finding_whose_lines_moved_stays_where_another_rule_found_something_too() {
    let zero = finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.");
    let mut slow = finding("src/a.py", 10, "    return 1 / 0", "Slow.");
    (slow["rule_id"], slow["severity"]) = ("performance".into(), "warning".into());
    let reviewed = Reviewed::new([findings(&[zero]), findings(&[slow]), findings(&[])]);
    reviewed.both();
    let moved = "def b():\n    return [][0]\n\n\ndef z():\n    return 26\n\n\ndef a():\n    return 1 / 0\n";
    reviewed.push(&[("src/a.py", moved)]);
    let (review, second) = reviewed.both();
    assert_eq!((review.code, second.outputs["posted"].as_str()), (3, "1"), "{}", review.log);
    reviewed.push(&[("src/b.py", "x = 1\n")]);
    let (review, third) = reviewed.both();
    assert_eq!((review.code, third.outputs["gone"].as_str()), (3, "0"), "{}", review.log);
    assert!(!reviewed.threads()[0].3, "{:?}", reviewed.threads());
}

#[test]
fn what_github_does_not_take_at_a_line_stands_in_the_comment() {
    // A long file: only its end is changed, and GitHub shows three lines around it.
    let long: String = (1..60).map(|number| format!("x{number} = {number}\n")).collect();
    let zero = finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.");
    let reviewed = Reviewed::new([findings(std::slice::from_ref(&zero)), findings(std::slice::from_ref(&zero))]);
    reviewed.push(&[("src/long.py", long.as_str())]);
    reviewed.api.trouble("POST /repos/o/r/pulls/12/reviews", Trouble::Status(422, Vec::new(), "Unprocessable Entity"));
    let (_, first) = reviewed.both();
    assert_eq!((first.outputs["posted"].as_str(), reviewed.threads().len()), ("0", 0), "{}", first.log);
    let comment = &reviewed.comments()[0];
    assert!(comment.contains("- 🔴 error `src/a.py:2` `correctness`  \n  Divides by zero."), "{comment}");
    assert!(comment.contains("GitHub did not take the comments at lines."), "{comment}");
}

#[test]
fn a_delivery_that_breaks_off_anywhere_is_finished_by_the_next_one() {
    let zero = finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.");
    let writes = ["POST /repos/o/r/pulls/12/reviews", "POST /repos/o/r/issues/12/comments"];
    for request in writes {
        let reviewed = Reviewed::new([findings(std::slice::from_ref(&zero))]);
        let review = reviewed.review("pull_request");
        for _ in 0..2 {
            reviewed.api.trouble(request, Trouble::Status(502, Vec::new(), "Bad Gateway"));
        }
        let broken = reviewed.deliver(&review, "pull_request");
        assert_eq!(broken.code, 75, "{request}: {}", broken.log);
        assert!(broken.log.contains("run the job again"), "{}", broken.log);
        // What was written although its answer is lost is not written again.
        reviewed.api.trouble(request, Trouble::LostAnswer);
        let rest = reviewed.deliver(&review, "pull_request");
        assert_eq!(rest.code, 0, "{request}: {}", rest.log);
        assert_eq!((reviewed.threads().len(), reviewed.comments().len()), (1, 1), "{request}");
        let before = reviewed.api.asked().len();
        assert_eq!(reviewed.deliver(&review, "pull_request").code, 0);
        assert_eq!(reviewed.api.writes_since(before), Vec::<String>::new(), "{request}");
    }
}

#[test]
fn limits_are_waited_for_and_a_missing_permission_is_named() {
    let zero = finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.");
    let reviewed = Reviewed::new([findings(std::slice::from_ref(&zero))]);
    let review = reviewed.review("pull_request");
    {
        let mut state = reviewed.api.state();
        state.set_token("ghs_reads", "github-actions[bot]", &["pull-requests: read"]);
    }
    let inputs = vec![
        ("job", "deliver".to_owned()),
        ("proposal-dir", review.outputs["proposal-dir"].clone()),
        ("proposal-sha256", review.outputs["proposal-sha256"].clone()),
        ("github-token", "ghs_reads".to_owned()),
    ];
    let refused = reviewed.job(&reviewed.second, reviewed.event("pull_request"), inputs);
    assert_eq!(refused.code, 41, "{}", refused.log);
    assert!(refused.log.contains("give the job `pull-requests: write`"), "{}", refused.log);
    let again = || vec![("retry-after", "0".to_owned())];
    reviewed.api.trouble("POST /repos/o/r/pulls/12/reviews", Trouble::Status(429, again(), "slow down"));
    let secondary = "You have exceeded a secondary rate limit.";
    reviewed.api.trouble("POST /repos/o/r/issues/12/comments", Trouble::Status(403, Vec::new(), secondary));
    reviewed.api.trouble("GET /repos/o/r/pulls/12", Trouble::Status(502, Vec::new(), "Bad Gateway"));
    let delivered = reviewed.deliver(&review, "pull_request");
    assert_eq!(delivered.code, 0, "{}", delivered.log);
    assert_eq!((reviewed.threads().len(), reviewed.comments().len()), (1, 1));
}

#[test]
fn a_moved_or_closed_pull_request_gets_no_stale_review() {
    let zero = || findings(&[finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.")]);
    let reviewed = Reviewed::new([zero(), zero()]);
    let review = reviewed.review("pull_request");
    let of_comment = reviewed.review("issue_comment");
    assert_eq!(of_comment.code, 3, "{}", of_comment.log);
    let event = reviewed.event("pull_request");
    reviewed.push(&[("src/b.py", "x = 1\n")]);
    let inputs = |seen: &Seen| {
        vec![
            ("job", "deliver".to_owned()),
            ("proposal-dir", seen.outputs["proposal-dir"].clone()),
            ("proposal-sha256", seen.outputs["proposal-sha256"].clone()),
        ]
    };
    let before = reviewed.api.asked().len();
    let moved = reviewed.job(&reviewed.second, event, inputs(&review));
    assert_eq!((moved.code, moved.outputs["conclusion"].as_str()), (0, "superseded"), "{}", moved.log);
    assert_eq!(reviewed.api.writes_since(before), Vec::<String>::new());
    // No newer run follows a comment: it says what it looked at, at no line.
    let delivered = reviewed.deliver(&of_comment, "issue_comment");
    assert_eq!((delivered.code, reviewed.threads().len()), (0, 0), "{}", delivered.log);
    let comments = reviewed.comments();
    assert!(comments[0].contains("`src/a.py:2`") && comments[0].contains("at commit `"), "{comments:?}");
    reviewed.api.state().pulls.get_mut(&NUMBER).unwrap().is_open = false;
    let before = reviewed.api.asked().len();
    let closed = reviewed.deliver(&of_comment, "issue_comment");
    assert_eq!((closed.code, closed.outputs["conclusion"].as_str()), (0, "nothing_to_do"), "{}", closed.log);
    assert_eq!(reviewed.api.writes_since(before), Vec::<String>::new());
}

#[test]
fn a_review_that_a_comment_started_writes_a_check_at_the_head() {
    let reviewed = Reviewed::new([findings(&[finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.")])]);
    let review = reviewed.review("issue_comment");
    let delivered = reviewed.deliver(&review, "issue_comment");
    assert_eq!((delivered.code, delivered.outputs["posted"].as_str()), (0, "1"), "{}", delivered.log);
    let state = reviewed.api.state();
    assert_eq!(state.checks.len(), 1);
    let check = &state.checks[0];
    assert_eq!((&check["conclusion"], &check["name"]), (&json!("failure"), &json!("qwen review-diff")));
    assert_eq!(check["head_sha"], state.tip("change"));
}

#[test]
fn a_policy_decides_what_is_written() {
    let reviewed = Reviewed::new([findings(&[finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.")])]);
    let policy = "version: 1\nname: few\nextends: builtin:edit\ngithub: {allow: [comment]}\n";
    std::fs::write(reviewed.project.beside("few.yaml"), policy).unwrap();
    let named = ("policy", reviewed.project.beside("few.yaml").display().to_string());
    let mut inputs = vec![
        ("api-key", "sk-something-secret".to_owned()),
        ("base-url", reviewed.project.server().base_url()),
        ("model", "scripted".to_owned()),
        named.clone(),
    ];
    let review = reviewed.job(&reviewed.project.root(), reviewed.event("pull_request"), inputs.clone());
    assert_eq!(review.code, 3, "{}", review.log);
    let delivery = vec![
        ("job", "deliver".to_owned()),
        ("proposal-dir", review.outputs["proposal-dir"].clone()),
        ("proposal-sha256", review.outputs["proposal-sha256"].clone()),
        named,
    ];
    let delivered = reviewed.job(&reviewed.second, reviewed.event("pull_request"), delivery);
    assert_eq!((delivered.code, reviewed.threads().len()), (0, 0), "{}", delivered.log);
    assert!(reviewed.comments()[0].contains("Divides by zero."), "{:?}", reviewed.comments());
    // What a recipe wants by name is granted or refused, before the model is asked.
    let recipe = "recipe: 1\nname: ours\ndescription: d\nextends: builtin-review.yaml\ndeliver: {review: {}}\n";
    let base = "recipe: 1\nname: builtin-review\ndescription: d\ncontext: [{name: change, diff: worktree}]\n\
        prompt: '{{ context.change | fence }}'\nneeds: {tools: []}\noutput: {kind: findings, rules: [{id: bug, \
        description: B}]}\n";
    std::fs::create_dir_all(reviewed.project.beside("recipes")).unwrap();
    std::fs::write(reviewed.project.beside("recipes/ours.yaml"), recipe).unwrap();
    std::fs::write(reviewed.project.beside("recipes/builtin-review.yaml"), base).unwrap();
    inputs.push(("recipe", reviewed.project.beside("recipes/ours.yaml").display().to_string()));
    let before = reviewed.project.server().requests().len();
    let refused = reviewed.job(&reviewed.project.root(), reviewed.event("pull_request"), inputs);
    assert_eq!((refused.code, reviewed.project.server().requests().len()), (60, before), "{}", refused.log);
    assert!(refused.log.contains("N001") && refused.log.contains("github.allow"), "{}", refused.log);
}

#[test]
fn a_push_is_reviewed_by_what_is_new_unless_the_whole_is_wanted() {
    let long: String = (1..80).map(|number| format!("x{number} = {number}\n")).collect();
    let reviewed = Reviewed::new((0..6).map(|_| findings(&[])));
    reviewed.push(&[("src/long.py", long.as_str())]);
    reviewed.both();
    let again = long.replace("x70 = 70\n", "x70 = 1 / 0\n");
    reviewed.push(&[("src/long.py", again.as_str()), ("src/new.py", "y = 1\n")]);
    let sent = |inputs: Vec<(&'static str, String)>| {
        let mut all = vec![
            ("api-key", "sk-something-secret".to_owned()),
            ("base-url", reviewed.project.server().base_url()),
            ("model", "scripted".to_owned()),
        ];
        all.extend(inputs);
        let seen = reviewed.job(&reviewed.project.root(), reviewed.event("synchronize"), all);
        (seen, reviewed.project.server().requests().pop().unwrap()["messages"].to_string())
    };
    // The comment of the first review is not there: it had nothing to say.
    let (seen, whole) = sent(Vec::new());
    assert!(whole.contains("return 1 / 0") && whole.contains("x70 = 1 / 0"), "{whole}");
    let proposal = std::fs::read(format!("{}/proposal.json", seen.outputs["proposal-dir"])).unwrap();
    let proposal: Value = serde_json::from_slice(&proposal).unwrap();
    let scope = proposal["scope"].as_str().unwrap();
    let head = reviewed.project.run_git(&["rev-parse", "change~1"]).trim().to_owned();
    let base = reviewed.api.state().tip("main");
    let state = |base: &str, scope: &str| {
        let state = json!({"reviewed": head, "base": base, "scope": scope});
        format!("<!-- qwen:sticky v1 review-diff -->\nx\n<!-- qwen:state {state} -->")
    };
    reviewed.api.state().add_comment(NUMBER, "eve", &state(&base, scope));
    // What was compared with another branch, or looked at another part, was another review.
    for other in [state(&head, scope), state(&base, "00")] {
        reviewed.api.state().add_comment(NUMBER, "github-actions[bot]", &other);
        assert!(sent(Vec::new()).1.contains("return 1 / 0"));
        reviewed.api.state().comments.pop();
    }
    reviewed.api.state().add_comment(NUMBER, "github-actions[bot]", &state(&base, scope));
    let (seen, new) = sent(Vec::new());
    assert!(new.contains("x70 = 1 / 0") && new.contains("+y = 1"), "{new}");
    assert!(!new.contains("return 1 / 0") && new.contains("(reviewed before)"), "{new}");
    assert_eq!((seen.code, seen.outputs["complete"].as_str()), (0, "true"), "{}", seen.log);
    let (_, whole) = sent(vec![("scope", "full".to_owned())]);
    assert!(whole.contains("return 1 / 0"), "{whole}");
}

#[test]
fn a_run_that_cannot_begin_leaves_no_old_verdict() {
    let reviewed = Reviewed::new([findings(&[finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.")])]);
    reviewed.both();
    assert!(reviewed.comments()[0].contains("1 error found"), "{:?}", reviewed.comments());
    let mut inputs = vec![
        ("api-key", "sk-something-secret".to_owned()),
        ("base-url", reviewed.project.server().base_url()),
        ("policy", "no-such-file.yaml".to_owned()),
    ];
    inputs.push(("model", "scripted".to_owned()));
    let broken = reviewed.job(&reviewed.project.root(), reviewed.event("pull_request"), inputs);
    assert_eq!(broken.code, 52, "{}", broken.log);
    assert_ne!(broken.outputs["proposal-sha256"], "", "{}", broken.log);
    let delivered = reviewed.deliver(&broken, "pull_request");
    assert_eq!(delivered.code, 0, "{}", delivered.log);
    let comments = reviewed.comments();
    assert!(comments.len() == 1 && comments[0].contains("The run failed"), "{comments:?}");
    // Neither with a key that nobody has.
    let inputs = vec![("base-url", "http://127.0.0.1:9".to_owned()), ("flags", "--retries=0".to_owned())];
    let failed = reviewed.job(&reviewed.project.root(), reviewed.event("pull_request"), inputs);
    assert_ne!(failed.code, 0);
    assert_eq!(reviewed.deliver(&failed, "pull_request").code, 0);
    assert!(reviewed.comments()[0].contains("The run failed"), "{:?}", reviewed.comments());
}

#[test]
fn what_the_first_job_never_writes_in_a_proposal_is_refused_before_anything_is_posted() {
    let reviewed = Reviewed::new([findings(&[finding("src/a.py", 2, "    return 1 / 0", "Divides by zero.")])]);
    let mut review = reviewed.review("pull_request");
    let file = Path::new(&review.outputs["proposal-dir"]).join("proposal.json");
    let honest: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let before = reviewed.api.asked().len();
    let other = json!("a".repeat(40));
    for (pointer, value, part) in [
        ("/result/run_id", json!("x -->\n\n@everyone"), "`run_id` is not a word"),
        ("/result/changes/base", json!("HEAD"), "`base` is not the name of a commit"),
        ("/trusted", json!("main -->"), "`trusted` is not the name of a commit"),
        ("/result/findings/0/fingerprint", json!("00 -->"), "`findings[].fingerprint` is not a number in hexadecimal"),
        ("/gone", json!([{"comment": 1, "fingerprint": "zz"}]), "`gone[].fingerprint` is not a number in hexadecimal"),
        ("/head", json!("x --> @everyone"), "the proposal is for another commit than this job"),
        ("/head", other, "the proposal is for another commit than this job"),
        ("/head", Value::Null, "the proposal is for another commit than this job"),
        ("/reply_to", json!({"id": 5, "kind": "comment"}), "the proposal is for another comment than this job"),
    ] {
        let mut proposal = honest.clone();
        *proposal.pointer_mut(pointer).unwrap() = value;
        std::fs::write(&file, proposal.to_string()).unwrap();
        let digest = qwen_run::base::digest::sha256(proposal.to_string().as_bytes());
        review.outputs.insert("proposal-sha256".to_owned(), digest);
        let refused = reviewed.deliver(&review, "pull_request");
        assert!(refused.code == 63 && refused.log.contains(part), "{pointer}: {}", refused.log);
    }
    assert_eq!(reviewed.api.writes_since(before), [] as [&str; 0]);
    assert_eq!(reviewed.comments(), [] as [&str; 0]);
}
