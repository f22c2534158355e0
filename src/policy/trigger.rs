//! Decides who may start a run in CI, by the event, the people behind it, and what the run could do at most.
//!
//! Performs no I/O: the caller asks whether those that [`Verdict::Ask`] names may write to the repository.
//! `author_association` is ignored: it does not tell whether somebody may write.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use serde_json::Value;

use crate::hidden::is_foreign;

/// What is known about who wants a run.
#[derive(Debug, Clone, Default)]
pub struct Trigger<'a> {
    /// `GITHUB_EVENT_NAME`.
    pub event_name: &'a str,
    /// The event.
    pub event: Option<&'a Value>,
    /// `GITHUB_ACTOR`: who caused the event.
    pub actor: &'a str,
    /// `GITHUB_TRIGGERING_ACTOR`: who started this run; another one where it is started again.
    pub triggering_actor: &'a str,
    /// Logins that the workflow's owner lists.
    pub allowed: &'a [String],
    /// What a comment must say to start a run; `None`: any comment does.
    pub mention: Option<&'a str>,
    /// The label that starts a run; `None`: any that is set.
    pub label: Option<&'a str>,
    /// Whose assignment starts a run; `None`: anybody's.
    pub assignee: Option<&'a str>,
    /// The run can neither write, run commands nor reach out, so that anyone may start it by an issue.
    pub is_harmless: bool,
}

/// What becomes of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It starts.
    Start,
    /// It starts if all of these may write to the repository.
    Ask(Vec<String>),
    /// Nobody asked for it.
    Skip(String),
    /// It does not start.
    Refuse(String),
}

impl Trigger<'_> {
    /// Decides. What is not known is refused, or asked for.
    pub fn judge(&self) -> Verdict {
        if let Some(wildcard) = self.allowed.iter().find(|login| !is_login(login)) {
            return Verdict::Refuse(format!("allow-actors: `{wildcard}` is not a login; wildcards are not supported"));
        }
        if let Some(reason) = self.foreign_head() {
            return Verdict::Refuse(reason);
        }
        if let Some(reason) = self.nobody_asked() {
            return Verdict::Skip(reason);
        }
        // Time has no account, and a merge queue takes only what somebody with write access put there.
        if matches!(self.event_name, "schedule" | "merge_group") {
            return Verdict::Start;
        }
        let people = match self.people() {
            Ok(people) => people,
            Err(reason) => return Verdict::Refuse(reason),
        };
        let unlisted: Vec<String> = people.into_iter().filter(|login| !self.is_listed(login)).collect();
        if let Some(bot) = unlisted.iter().find(|login| self.is_bot(login)) {
            return Verdict::Skip(format!("{bot} is a bot; list it in allow-actors to let it start a run"));
        }
        if !unlisted.is_empty() && self.comes_from_fork() {
            let text = "the pull request comes from a fork, which gets no secrets; allow-actors lists people who may \
                        start a run all the same";
            return Verdict::Skip(text.to_owned());
        }
        let anyone = self.is_harmless && self.event_name == "issues" && self.chosen().is_none();
        if unlisted.is_empty() || self.needs_write() || anyone { Verdict::Start } else { Verdict::Ask(unlisted) }
    }

    /// Tells whether whoever causes the event may write: otherwise there would be no event.
    pub fn needs_write(&self) -> bool {
        matches!(self.event_name, "push" | "workflow_dispatch")
    }

    /// Tells whether GitHub withholds the secrets of this event: from forks, and from Dependabot.
    pub fn gets_no_secrets(&self) -> bool {
        let is_dependabot = [self.actor, self.triggering_actor].contains(&"dependabot[bot]");
        self.event_name == "pull_request" && (is_dependabot || self.comes_from_fork())
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.event?.pointer(pointer)?.as_str()
    }

    /// A workflow with secrets must not look at a tree that anybody can write.
    fn foreign_head(&self) -> Option<String> {
        let head = match self.event_name {
            "pull_request_target" => "/pull_request/head/repo/full_name",
            "workflow_run" => "/workflow_run/head_repository/full_name",
            _ => return None,
        };
        match (self.text(head), self.text("/repository/full_name")) {
            (Some(head), Some(own)) if head.eq_ignore_ascii_case(own) => None,
            (head, _) => Some(format!(
                "the event {} with a head in {}: a fork's tree is not worked on where secrets are at hand",
                self.event_name,
                head.unwrap_or("an unknown repository")
            )),
        }
    }

    /// GitHub gives no secrets to a pull request of a fork, so that no model can be asked: nobody did wrong.
    fn comes_from_fork(&self) -> bool {
        let Some(head) = self.event.and_then(|event| event.pointer("/pull_request/head")) else { return false };
        let is_own = match (head.pointer("/repo/full_name").and_then(Value::as_str), self.text("/repository/full_name"))
        {
            (Some(head), Some(own)) => head.eq_ignore_ascii_case(own),
            (None, _) | (_, None) => false,
        };
        self.event_name == "pull_request" && !is_own
    }

    /// Returns the label that was set, or who was assigned, with the input that says which starts a run.
    fn chosen(&self) -> Option<(&str, &'static str, Option<&str>)> {
        if !matches!(self.event_name, "issues" | "pull_request" | "pull_request_target") {
            return None;
        }
        match self.text("/action")? {
            "labeled" => Some((self.text("/label/name").unwrap_or_default(), "label", self.label)),
            "assigned" => Some((self.text("/assignee/login").unwrap_or_default(), "assignee", self.assignee)),
            _ => None,
        }
    }

    fn nobody_asked(&self) -> Option<String> {
        if let Some((it, input, Some(wanted))) = self.chosen()
            && !it.eq_ignore_ascii_case(wanted)
        {
            return Some(format!("the {input} is `{it}`, and the input {input} names `{wanted}`"));
        }
        if !is_comment(self.event_name) {
            return None;
        }
        // What is edited later, by whomever, starts nothing: only words that are new do.
        if let Some(action) = self.text("/action").filter(|action| !matches!(*action, "created" | "submitted")) {
            return Some(format!("the comment was {action}; only a new one starts a run"));
        }
        let mention = self.mention?;
        said(self.event?, mention).is_none().then(|| format!("the comment does not say `{mention}`"))
    }

    /// Everybody whose word the run would be.
    fn people(&self) -> Result<Vec<String>, String> {
        let mut people = Vec::new();
        let mut add = |login: &str| {
            if !is_login(login) {
                return Err(format!("`{login}` is not a login, so its permissions cannot be checked"));
            }
            if !people.iter().any(|known: &String| known.eq_ignore_ascii_case(login)) {
                people.push(login.to_owned());
            }
            Ok(())
        };
        add(self.actor)?;
        if !self.triggering_actor.is_empty() {
            add(self.triggering_actor)?;
        }
        if is_comment(self.event_name) {
            let author = self.text("/comment/user/login").or_else(|| self.text("/review/user/login"));
            add(author.ok_or("the event does not say who wrote the comment")?)?;
            add(self.text("/sender/login").ok_or("the event does not say who caused it")?)?;
            // The words are the author's: nobody else starts a run by them.
            if let [first, other, ..] = &people[..] {
                return Err(format!(
                    "{first} starts it by a comment that {other} wrote or sent; write a comment of your own"
                ));
            }
        }
        Ok(people)
    }

    fn is_listed(&self, login: &str) -> bool {
        self.allowed.iter().any(|listed| listed.eq_ignore_ascii_case(login))
    }

    fn is_bot(&self, login: &str) -> bool {
        let is_sender = self.text("/sender/login").is_some_and(|sender| sender.eq_ignore_ascii_case(login));
        login.ends_with("[bot]") || (is_sender && self.text("/sender/type").is_some_and(|kind| kind == "Bot"))
    }
}

/// Tells whether a text can be a login: letters, digits and hyphens, `[bot]` after those of apps.
pub fn is_login(text: &str) -> bool {
    let name = text.strip_suffix("[bot]").unwrap_or(text);
    (1..=100).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Tells whether an event is a comment of somebody.
pub fn is_comment(event_name: &str) -> bool {
    matches!(
        event_name,
        "issue_comment"
            | "commit_comment"
            | "discussion_comment"
            | "pull_request_review"
            | "pull_request_review_comment"
    )
}

/// The most bytes of what a comment asks for.
pub const LARGEST_COMMAND: usize = 8 << 10;

/// Returns what the comment of an event says behind a phrase: the rest of its line and the lines below, without what
/// quotes somebody else and without what nobody sees, cut to [`LARGEST_COMMAND`] bytes. `None` where the
/// comment does not say the phrase by itself: not inside a word, code, a quote, HTML or the text of an image.
pub fn said(event: &Value, phrase: &str) -> Option<String> {
    let body = ["/comment/body", "/review/body"].iter().find_map(|pointer| event.pointer(pointer)?.as_str())?;
    let is_edge =
        |c: Option<char>| c.is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '@' | '`')));
    let is_quote = |line: &&str| line.trim_start().starts_with('>');
    let body: String = body.split_inclusive('\n').filter(|line| !is_quote(line)).collect();
    let Seen { words, hidden } = Seen::of(&body);
    let end = words.into_iter().find_map(|range| {
        let mut found = body[range.clone()]
            .match_indices(phrase)
            .map(|(at, found)| range.start + at..range.start + at + found.len());
        found.find(|at| is_edge(body[..at.start].chars().next_back()) && is_edge(body[at.end..].chars().next()))
    });
    let mut end = end?.end;
    let mut text = String::new();
    for range in hidden {
        text.push_str(body.get(end..range.start).unwrap_or_default());
        end = end.max(range.end);
    }
    text.push_str(&body[end..]);
    let mut text: String = text.chars().filter(|c| !is_foreign(*c)).collect();
    let mut end = text.len().min(LARGEST_COMMAND);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    Some(text.trim().to_owned())
}

/// What a reader of a comment sees as its author's own words.
#[derive(Default)]
struct Seen {
    /// Where words are that are neither quoted nor code, HTML or an image.
    words: Vec<Range<usize>>,
    /// What is not seen, or is somebody else's, in order.
    hidden: Vec<Range<usize>>,
}

impl Seen {
    fn of(body: &str) -> Seen {
        let parser = Parser::new(body);
        let mut seen = Seen::default();
        seen.hidden.extend(parser.reference_definitions().iter().map(|(_, definition)| definition.span.clone()));
        // Quotes, code blocks and images that are open; elements of HTML that are open.
        let (mut inside, mut elements, mut last) = (0_usize, 0_usize, 0);
        let mut titled = Vec::new();
        for (event, range) in parser.into_offset_iter() {
            let end = range.end;
            match event {
                Event::Start(Tag::BlockQuote(_) | Tag::Image { .. }) => {
                    inside += 1;
                    seen.hidden.push(range);
                }
                Event::Start(Tag::CodeBlock(_)) => inside += 1,
                Event::End(TagEnd::BlockQuote(_) | TagEnd::Image | TagEnd::CodeBlock) => inside -= 1,
                Event::Start(Tag::Link { title, .. }) => titled.push(!title.is_empty()),
                Event::End(TagEnd::Link) if titled.pop() == Some(true) => seen.hidden.push(last..end),
                Event::Html(html) | Event::InlineHtml(html) => {
                    elements = opened(&html, elements);
                    seen.hidden.push(range);
                }
                Event::Text(_) if inside == 0 && elements == 0 => match seen.words.last_mut() {
                    Some(before) if before.end == range.start => before.end = range.end,
                    Some(_) | None => seen.words.push(range),
                },
                _ => {}
            }
            last = end;
        }
        seen.hidden.sort_by_key(|range| range.start);
        seen
    }
}

/// Returns how many elements are open behind a piece of HTML, if `before` were before it. What is wrongly nested counts
/// as open.
fn opened(html: &str, before: usize) -> usize {
    const VOID: [&str; 7] = ["br", "hr", "img", "input", "wbr", "source", "col"];
    if html.trim_start().starts_with("<!--") {
        return before;
    }
    html.split('<').skip(1).fold(before, |open, tag| {
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        match (tag.starts_with('/'), name.to_ascii_lowercase()) {
            (true, _) => open.saturating_sub(1),
            (false, name) if name.is_empty() || VOID.contains(&name.as_str()) => open,
            (false, _) => open + 1,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge<'a>(event_name: &'a str, event: &'a Value, change: impl FnOnce(&mut Trigger<'a>)) -> Verdict {
        let mut trigger =
            Trigger { event_name, event: Some(event), actor: "ann", triggering_actor: "ann", ..Trigger::default() };
        change(&mut trigger);
        trigger.judge()
    }

    fn comment(author: &str, body: &str) -> Value {
        json!({"action": "created", "comment": {"user": {"login": author}, "body": body},
               "sender": {"login": "ann", "type": "User"}})
    }

    fn ask(people: &[&str]) -> Verdict {
        Verdict::Ask(people.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Events as GitHub publishes them in npm `@octokit/webhooks-examples` (MIT), without their addresses.
    #[test]
    fn published_events_are_decided_by_who_is_behind_them() {
        let events: Vec<Value> = serde_json::from_str(include_str!("../../fixtures/github/events.json")).unwrap();
        let octocat = || ask(&["Codertocat"]);
        for entry in &events {
            let (name, event) = (entry["name"].as_str().unwrap(), &entry["event"]);
            let by = |change: &dyn Fn(&mut Trigger<'_>)| {
                let mut trigger = Trigger { event_name: name, event: Some(event), ..Trigger::default() };
                (trigger.actor, trigger.triggering_actor) = ("Codertocat", "Codertocat");
                change(&mut trigger);
                trigger.judge()
            };
            let is_skipped = |verdict: &Verdict| matches!(verdict, Verdict::Skip(_));
            let action = event["action"].as_str().unwrap_or_default();
            match (name, action) {
                ("push" | "workflow_dispatch" | "merge_group", _) => assert_eq!(by(&|_| ()), Verdict::Start, "{name}"),
                ("issue_comment" | "pull_request_review_comment", "created") => {
                    assert_eq!(by(&|_| ()), octocat(), "{name}");
                    assert!(is_skipped(&by(&|trigger| trigger.mention = Some("/qwen"))), "{name}");
                    assert!(matches!(by(&|trigger| trigger.actor = "eve"), Verdict::Refuse(_)), "{name}");
                }
                ("workflow_run", _) => assert!(matches!(by(&|_| ()), Verdict::Refuse(_)), "its head is in a fork"),
                ("issue_comment", _) => assert!(is_skipped(&by(&|_| ())), "{action}"),
                (_, "labeled") => {
                    assert_eq!(by(&|trigger| trigger.label = Some("bug")), octocat(), "{name}");
                    assert!(is_skipped(&by(&|trigger| trigger.label = Some("docs"))), "{name}");
                }
                (_, "assigned") => {
                    assert_eq!(by(&|trigger| trigger.assignee = Some("codertocat")), octocat(), "{name}");
                    assert!(is_skipped(&by(&|trigger| trigger.assignee = Some("qwen"))), "{name}");
                }
                _ => assert_eq!(by(&|_| ()), octocat(), "{name} {action}"),
            }
        }
        assert_eq!(events.len(), 13);
    }

    #[test]
    fn everybody_behind_an_event_is_asked_about() {
        assert_eq!(judge("issue_comment", &comment("ann", "x"), |_| ()), ask(&["ann"]));
        assert_eq!(judge("issues", &json!({}), |t| t.triggering_actor = "bob"), ask(&["ann", "bob"]));
        let listed = ["Ann".to_owned()];
        assert_eq!(judge("issue_comment", &comment("ann", "x"), |t| t.allowed = &listed), Verdict::Start);
        assert_eq!(judge("unheard_of", &json!({}), |_| ()), ask(&["ann"]));
        assert_eq!(judge("issues", &json!({}), |t| t.is_harmless = true), Verdict::Start);
        assert_eq!(judge("issue_comment", &comment("ann", "x"), |t| t.is_harmless = true), ask(&["ann"]));
        for event in ["push", "workflow_dispatch", "schedule", "merge_group"] {
            assert_eq!(judge(event, &json!({}), |_| ()), Verdict::Start, "{event}");
        }
    }

    #[test]
    fn forks_with_secrets_wildcards_and_nobody_are_refused() {
        let refused = |verdict: Verdict| assert!(matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
        refused(judge("issues", &json!({}), |t| t.actor = ""));
        refused(judge("issues", &json!({}), |t| t.actor = "a/../b"));
        let all = ["*".to_owned()];
        refused(judge("issues", &json!({}), |t| t.allowed = &all));
        refused(judge("issue_comment", &json!({}), |_| ()));
        // The words of somebody else, and a run that somebody else starts again.
        let both = ["eve".to_owned(), "ann".to_owned()];
        refused(judge("issue_comment", &comment("eve", "x"), |t| t.allowed = &both));
        refused(judge("issue_comment", &comment("ann", "x"), |t| t.triggering_actor = "bob"));
        let fork =
            json!({"repository": {"full_name": "o/r"}, "pull_request": {"head": {"repo": {"full_name": "e/r"}}}});
        refused(judge("pull_request_target", &fork, |t| t.is_harmless = true));
        refused(judge("workflow_run", &json!({"repository": {"full_name": "o/r"}}), |_| ()));
        let own = json!({"repository": {"full_name": "o/r"}, "pull_request": {"head": {"repo": {"full_name": "O/r"}}}});
        assert_eq!(judge("pull_request_target", &own, |_| ()), ask(&["ann"]));
        let bot = ["renovate[bot]".to_owned()];
        let listed = judge("push", &json!({}), |t| {
            (t.actor, t.allowed) = ("renovate[bot]", &bot);
        });
        assert_eq!(listed, Verdict::Start);
    }

    #[test]
    fn a_comment_starts_a_run_only_with_the_phrase_in_its_own_words() {
        for (body, says) in [
            ("/qwen fix", true),
            ("please, /qwen.", true),
            ("> /qwen fix\nno", false),
            ("/qwen-other", false),
            ("a/qwen", false),
            ("say `/qwen fix` for that", false),
            ("like this:\n```text\n/qwen fix\n```\n", false),
            ("~~~~\n```\n~~~\n/qwen fix\n~~~~", false),
            ("- so:\n  ```\n  /qwen fix", false),
            ("```\ncode\n```\n/qwen fix", true),
            ("- /qwen fix", true),
            ("**/qwen fix** it", true),
            ("so <!-- note --> /qwen fix", true),
            ("a <br> /qwen fix", true),
            ("thanks\n<!-- /qwen fix -->", false),
            ("<!--\n\n/qwen fix\n-->", false),
            ("a\n\n    /qwen fix", false),
            ("<pre>\n/qwen fix\n</pre>", false),
            ("so <code>/qwen fix</code>", false),
            ("<blockquote>\n\n/qwen fix\n\n</blockquote>", false),
            ("- > /qwen fix", false),
            ("> they said\n/qwen fix", true),
            ("[x](u \"/qwen fix\")", false),
            ("![/qwen fix x](u)", false),
            ("[//]: # (/qwen fix x)", false),
            ("", false),
        ] {
            let verdict = judge("issue_comment", &comment("ann", body), |t| t.mention = Some("/qwen"));
            assert_eq!(verdict == ask(&["ann"]), says, "{body:?} {verdict:?}");
            assert!(says || matches!(verdict, Verdict::Skip(_)));
        }
        assert_eq!(judge("push", &json!({}), |t| t.mention = Some("/qwen")), Verdict::Start);
        for action in ["edited", "deleted"] {
            let mut event = comment("ann", "/qwen fix");
            event["action"] = action.into();
            let verdict = judge("issue_comment", &event, |t| t.mention = Some("/qwen"));
            assert!(matches!(verdict, Verdict::Skip(_)), "{action}: {verdict:?}");
        }
    }

    #[test]
    fn a_command_is_what_stands_behind_the_mention() {
        let long = format!("/qwen {}é", "x".repeat(LARGEST_COMMAND - 1));
        for (body, command) in [
            ("please /qwen fix it\n\n> old words\nnow\n", Some("fix it\n\nnow")),
            (
                "/qwen do it <!-- and more --> ![all](u) [here](v \"too\") so\n\n[//]: # (not this)",
                Some("do it   [here so"),
            ),
            ("/qwen", Some("")),
            ("/qwen \u{202e}\u{200b}a\u{e0041}b", Some("ab")),
            ("/qwen do\n```\ncode\n```", Some("do\n```\ncode\n```")),
            ("> /qwen a\n/qwen b", Some("b")),
            (&long, Some(&long[6..LARGEST_COMMAND + 5])),
            ("nothing", None),
        ] {
            assert_eq!(said(&comment("ann", body), "/qwen").as_deref(), command, "{body:?}");
        }
        assert_eq!(said(&json!({"review": {"body": "/qwen x"}}), "/qwen").as_deref(), Some("x"));
    }

    #[test]
    fn only_the_label_and_the_assignee_that_inputs_name_start_a_run() {
        let labeled = json!({"action": "labeled", "label": {"name": "qwen"}});
        let assigned = json!({"action": "assigned", "assignee": {"login": "bob"}});
        for (event, label, assignee, starts) in [
            (&labeled, Some("Qwen"), None, true),
            (&labeled, Some("other"), None, false),
            (&labeled, None, None, true),
            (&assigned, None, Some("bob"), true),
            (&assigned, Some("qwen"), Some("ann"), false),
        ] {
            let verdict = judge("issues", event, |t| (t.label, t.assignee, t.is_harmless) = (label, assignee, true));
            assert_eq!(verdict == ask(&["ann"]), starts, "{verdict:?}");
            assert!(starts || matches!(verdict, Verdict::Skip(_)), "{verdict:?}");
        }
    }

    #[test]
    fn forks_and_bots_are_skipped_and_not_refused() {
        let pull = |head: Value| json!({"repository": {"full_name": "o/r"}, "pull_request": {"head": {"repo": head}}});
        let skipped = |verdict: Verdict| {
            assert!(matches!(&verdict, Verdict::Skip(why) if why.contains("allow-actors")), "{verdict:?}");
        };
        let ann = ["ann".to_owned()];
        for head in [json!({"full_name": "eve/r"}), json!(null)] {
            skipped(judge("pull_request", &pull(head.clone()), |_| ()));
            assert_eq!(judge("pull_request", &pull(head), |t| t.allowed = &ann), Verdict::Start);
        }
        let own = pull(json!({"full_name": "O/r"}));
        assert_eq!(judge("pull_request", &own, |_| ()), ask(&["ann"]));
        skipped(judge("pull_request", &own, |t| t.actor = "dependabot[bot]"));
        skipped(judge("push", &json!({}), |t| t.actor = "renovate[bot]"));
        skipped(judge("issues", &json!({"sender": {"login": "ann", "type": "Bot"}}), |t| t.is_harmless = true));
    }
}
