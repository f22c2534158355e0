//! Runs hooks: the user's own commands before and after a call, at the beginning and at the end of a run.
//!
//! They come from the user's settings only; `settings` drops those of a checkout. A hook gets the facts as JSON on
//! standard input. Exit 2 blocks, and its standard error is the reason; a hook before a call that cannot be run or that
//! times out blocks too, since its decision is unknown.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::agent::invoke::Hooks as AgentHooks;
use crate::base::cut;
use crate::base::trace::{Context, Trace};
use crate::event::Event;
use crate::git::Programs;
use crate::model::BoxFuture;
use crate::sandbox::own_command::{OwnOutput, run_own};
use crate::settings::{Environment, Settings};
use crate::tool_name::tool_named;

use crate::run::error::SetupError;
use crate::run::rules::started::Started;

/// Default timeout of a hook.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum timeout of a hook.
const LONGEST: Duration = Duration::from_secs(600);

/// How often hooks may send the model back to work.
const STOPS: u32 = 5;

/// Variables that no hook needs and that would let it spend money.
const KEYS: &[&str] = &["QWEN_API_KEY", "OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"];

/// Maximum characters of a hook's output that reach the model or a person.
const WORDS: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    PreToolUse,
    PostToolUse,
    SessionStart,
    Stop,
}

impl When {
    const ALL: [When; 4] = [When::PreToolUse, When::PostToolUse, When::SessionStart, When::Stop];

    fn name(self) -> &'static str {
        match self {
            When::PreToolUse => "PreToolUse",
            When::PostToolUse => "PostToolUse",
            When::SessionStart => "SessionStart",
            When::Stop => "Stop",
        }
    }
}

struct Hook {
    when: When,
    matcher: Matcher,
    command: String,
    timeout: Duration,
}

/// Which tools a hook is for.
#[derive(Debug, Clone)]
enum Matcher {
    All,
    Names(Vec<String>),
    Pattern(Regex),
}

impl Matcher {
    /// Parses a matcher as Qwen Code and Claude Code define it: nothing or `*`, names with `|` between them (also
    /// theirs, such as `Bash`), or a pattern for the whole name.
    fn parse(text: &str) -> Result<Matcher, String> {
        let text = text.trim();
        if text.is_empty() || text == "*" {
            return Ok(Matcher::All);
        }
        if text.chars().all(|c| c.is_alphanumeric() || "_-| ".contains(c)) {
            return Ok(Matcher::Names(
                text.split('|')
                    .map(|name| tool_named(name.trim()).map_or(name.trim(), |tool| tool.name()).to_owned())
                    .collect(),
            ));
        }
        Regex::new(&format!("^(?:{text})$")).map(Matcher::Pattern).map_err(|error| error.to_string())
    }

    fn matches(&self, tool: &str) -> bool {
        match self {
            Matcher::All => true,
            Matcher::Names(names) => names.iter().any(|name| name == tool),
            Matcher::Pattern(pattern) => pattern.is_match(tool),
        }
    }
}

/// The hooks of a run.
#[derive(Clone)]
pub struct Hooks {
    hooks: Arc<[Hook]>,
    facts: Map<String, Value>,
    folder: PathBuf,
    programs: Programs,
    variables: Vec<(String, String)>,
    said: Arc<Mutex<Vec<String>>>,
    stops: Arc<Mutex<u32>>,
    /// The variables of hooks that belong to no call.
    traced: Context,
}

/// What a hook decided.
enum Verdict {
    Pass { said: String },
    Block { reason: String },
}

impl Hooks {
    /// Reads the hooks of the settings. An invalid hook is exit 52; an unknown event is a warning.
    pub fn of(
        settings: &Settings,
        environment: &Environment,
        folder: PathBuf,
        programs: &Programs,
        warnings: &mut Vec<String>,
    ) -> Result<Hooks, SetupError> {
        let mut hooks = Vec::new();
        for (event, groups) in &settings.hooks {
            let Some(when) = When::ALL.into_iter().find(|when| when.name() == event) else {
                let known = When::ALL.map(When::name).join(", ");
                warnings.push(format!("hooks.{event} left out: unknown event; known are {known}"));
                continue;
            };
            let read = read(when, groups);
            hooks.extend(read.map_err(|problem| SetupError::Hooks { event: event.clone(), problem })?);
        }
        let variables = environment
            .variables
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .chain(environment.additional.iter().map(|(name, (value, _))| (name.clone(), value.clone())))
            .filter(|(name, _)| !KEYS.contains(&name.as_str()))
            .collect();
        let facts = Map::from_iter([("cwd".to_owned(), folder.display().to_string().into())]);
        let programs = programs.clone();
        let (said, stops) = (Arc::default(), Arc::default());
        Ok(Hooks { hooks: hooks.into(), facts, folder, programs, variables, said, stops, traced: Context::NONE })
    }

    /// Returns the hooks with the facts that are known at the beginning of the run; `None` if there are none.
    pub fn begin(&self, session_id: &str, permission_mode: &str) -> Option<Hooks> {
        let mut begun = self.clone();
        begun.facts.insert("session_id".into(), session_id.into());
        begun.facts.insert("permission_mode".into(), permission_mode.into());
        (!self.hooks.is_empty()).then_some(begun)
    }

    /// Tells hooks that belong to no call of this trace.
    #[must_use]
    pub fn tracing(self, trace: Option<&Trace>) -> Hooks {
        Hooks { traced: trace.map(Trace::context_of_run).unwrap_or_default(), ..self }
    }

    /// Returns messages of hooks for their owner, once.
    pub fn warnings(&self) -> Vec<Event> {
        let mut said = self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        said.drain(..).map(|message| Event::Warning { message }).collect()
    }

    /// Runs the hooks of `SessionStart`; their output is context for the model.
    pub async fn session_start(&self, resumed: bool) -> Result<String, SetupError> {
        let source = if resumed { "resume" } else { "startup" };
        match self.ask(When::SessionStart, None, &self.traced, json!({"source": source})).await {
            Verdict::Pass { said } => Ok(said),
            Verdict::Block { reason } => Err(SetupError::Blocked(reason)),
        }
    }

    /// Runs the hooks of `Stop`; the output of one that blocks is the next message to the model.
    pub async fn stop(&self) -> Option<String> {
        if !self.hooks.iter().any(|hook| hook.when == When::Stop) {
            return None;
        }
        let times = {
            let mut stops = self.stops.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *stops += 1;
            *stops - 1
        };
        match self.ask(When::Stop, None, &self.traced, json!({"stop_hook_active": times > 0})).await {
            Verdict::Pass { .. } => None,
            Verdict::Block { reason } if times >= STOPS => {
                self.warn(format!("a Stop hook asked for more work {STOPS} times and is now ignored: {reason}"));
                None
            }
            Verdict::Block { reason } => Some(reason),
        }
    }

    fn warn(&self, message: String) {
        self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(message);
    }

    /// Runs the hooks of an event in order, up to the first that blocks.
    async fn ask(&self, when: When, tool: Option<&str>, traced: &Context, more: Value) -> Verdict {
        let mut facts = self.facts.clone();
        facts.insert("hook_event_name".into(), when.name().into());
        if let Value::Object(more) = more {
            facts.extend(more);
        }
        let input = Value::Object(facts).to_string();
        let mut all = String::new();
        for hook in
            self.hooks.iter().filter(|hook| hook.when == when && tool.is_none_or(|tool| hook.matcher.matches(tool)))
        {
            let variables = self.variables.iter().cloned().chain(traced.variables());
            let output = run_own(&hook.command, &self.programs, &self.folder, variables, &input, hook.timeout).await;
            match self.verdict(hook, output) {
                Verdict::Block { reason } => return Verdict::Block { reason },
                Verdict::Pass { said } => all.push_str(&said),
            }
        }
        Verdict::Pass { said: all }
    }

    fn verdict(&self, hook: &Hook, output: std::io::Result<OwnOutput>) -> Verdict {
        let name = format!("hook `{}` of {}", hook.command, hook.when.name());
        let failed = |why: String| match hook.when {
            When::PreToolUse | When::SessionStart => Verdict::Block { reason: format!("{name} {why}") },
            When::PostToolUse | When::Stop => {
                self.warn(format!("{name} {why}"));
                Verdict::Pass { said: String::new() }
            }
        };
        let output = match output {
            Ok(output) if output.timed_out => {
                return failed(format!("took longer than {} s", hook.timeout.as_secs_f32()));
            }
            Ok(output) => output,
            Err(error) => return failed(format!("cannot be started: {error}")),
        };
        match output.exit_code {
            Some(2) => Verdict::Block { reason: words(&output.stderr, "no reason given") },
            Some(0) => match decision(&output.stdout) {
                Some(Verdict::Block { reason }) => Verdict::Block { reason },
                Some(Verdict::Pass { said }) => Verdict::Pass { said },
                // Only at the beginning is a hook's output meant for the model.
                None if hook.when == When::SessionStart => Verdict::Pass { said: words(&output.stdout, "") },
                None => Verdict::Pass { said: String::new() },
            },
            Some(127 | 126) => failed(format!("cannot be run: {}", words(&output.stderr, "no such command"))),
            Some(code) => {
                self.warn(format!("{name} ended with {code}: {}", words(&output.stderr, "no output")));
                Verdict::Pass { said: String::new() }
            }
            None => failed("was ended by a signal".into()),
        }
    }
}

impl AgentHooks for Hooks {
    fn before<'a>(&'a self, tool: &'a str, input: &'a Value, traced: &'a Context) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let facts = json!({"tool_name": tool, "tool_input": input});
            match self.ask(When::PreToolUse, Some(tool), traced, facts).await {
                Verdict::Pass { .. } => None,
                Verdict::Block { reason } => Some(reason),
            }
        })
    }

    fn after<'a>(
        &'a self,
        tool: &'a str,
        input: &'a Value,
        traced: &'a Context,
        output: String,
        is_error: bool,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let response = json!({"content": output, "is_error": is_error});
            let facts = json!({"tool_name": tool, "tool_input": input, "tool_response": response});
            match self.ask(When::PostToolUse, Some(tool), traced, facts).await {
                Verdict::Pass { .. } => None,
                Verdict::Block { reason } => Some(reason),
            }
        })
    }
}

fn words(text: &str, otherwise: &str) -> String {
    let text = text.trim();
    if text.is_empty() { otherwise.to_owned() } else { text[..cut::end(text, WORDS)].to_owned() }
}

/// Parses the decision that a hook may print as JSON; `None` if it printed something else.
fn decision(stdout: &str) -> Option<Verdict> {
    let printed: Map<String, Value> = serde_json::from_str(stdout.trim()).ok()?;
    let specific = printed.get("hookSpecificOutput").and_then(Value::as_object);
    let text = |map: Option<&Map<String, Value>>, key: &str| map?.get(key)?.as_str().map(str::to_owned);
    let denies = matches!(text(Some(&printed), "decision").as_deref(), Some("block" | "deny"))
        || matches!(text(specific, "permissionDecision").as_deref(), Some("deny" | "ask"))
        || printed.get("continue") == Some(&Value::Bool(false));
    if denies {
        let reason = text(Some(&printed), "reason")
            .or_else(|| text(specific, "permissionDecisionReason"))
            .or_else(|| text(Some(&printed), "stopReason"))
            .unwrap_or_default();
        return Some(Verdict::Block { reason: words(&reason, "no reason given") });
    }
    Some(Verdict::Pass { said: text(specific, "additionalContext").map(|said| words(&said, "")).unwrap_or_default() })
}

/// Returns the commands of all hooks, each with a name for messages; what is not a hook is found by [`Hooks::of`].
pub fn commands(hooks: &Map<String, Value>) -> Vec<Started> {
    let mut found = Vec::new();
    for (event, groups) in hooks {
        let groups = groups.as_array().into_iter().flatten();
        let each = groups.filter_map(|group| group.get("hooks")?.as_array()).flatten();
        let commands = each.filter_map(|hook| hook.get("command")?.as_str());
        found.extend(commands.map(|command| Started::text(&format!("hooks.{event}"), command)));
    }
    found
}

fn read(when: When, groups: &Value) -> Result<Vec<Hook>, String> {
    let mut hooks = Vec::new();
    for group in groups.as_array().ok_or("it must be a list")? {
        let group = group.as_object().ok_or("each entry must be an object")?;
        let matcher = match group.get("matcher") {
            None | Some(Value::Null) => Matcher::All,
            Some(Value::String(text)) => {
                Matcher::parse(text).map_err(|error| format!("matcher `{text}` is not a pattern: {error}"))?
            }
            Some(_) => return Err("matcher must be text".into()),
        };
        for hook in group.get("hooks").and_then(Value::as_array).ok_or("each entry needs a list `hooks`")? {
            let hook = hook.as_object().ok_or("each hook must be an object")?;
            match hook.get("type").and_then(Value::as_str) {
                None | Some("command") => {}
                Some(other) => return Err(format!("unknown type `{other}`; only `command` is supported")),
            }
            let command = hook.get("command").and_then(Value::as_str).filter(|command| !command.trim().is_empty());
            let timeout = match hook.get("timeout") {
                None => TIMEOUT,
                Some(value) => timeout(value.as_f64().filter(|n| *n > 0.0).ok_or("timeout must be a number above 0")?),
            };
            hooks.push(Hook {
                when,
                matcher: matcher.clone(),
                command: command.ok_or("each hook needs a `command`")?.to_owned(),
                timeout,
            });
        }
    }
    Ok(hooks)
}

/// Claude Code uses seconds and Qwen Code milliseconds: a hook never has more than 1000 s or less than 1 s.
fn timeout(number: f64) -> Duration {
    let seconds = if number < 1_000.0 { number } else { number / 1_000.0 };
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(settings: Value) -> Hooks {
        let Value::Object(hooks) = settings else { panic!("hooks are an object") };
        let settings = Settings { hooks, ..Settings::default() };
        let path = std::env::var("PATH").unwrap();
        let environment = Environment {
            variables: [("PATH".into(), path), ("QWEN_API_KEY".into(), "k".into())].into(),
            ..Environment::default()
        };
        Hooks::of(
            &settings,
            &environment,
            std::env::temp_dir(),
            &Programs::of_process(&std::env::temp_dir()),
            &mut Vec::new(),
        )
        .unwrap()
    }

    fn one(event: &str, matcher: &str, command: &str) -> Hooks {
        hooks(json!({event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command, "timeout": 20}]}]}))
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn before(hooks: &Hooks, tool: &str) -> Option<String> {
        wait(hooks.before(tool, &json!({"file_path": "a"}), &Context::NONE))
    }

    #[test]
    fn a_matcher_names_tools_as_everybody_does() {
        for (matcher, tool, matches) in [
            ("", "edit", true),
            ("*", "edit", true),
            ("Bash", "run_shell_command", true),
            ("Edit|Write", "write_file", true),
            ("edit", "read_file", false),
            ("edit", "edit_more", false),
            ("mcp__.*", "mcp__git__log", true),
            ("read.*", "thread_read", false),
        ] {
            assert_eq!(Matcher::parse(matcher).unwrap().matches(tool), matches, "{matcher} {tool}");
        }
        assert!(Matcher::parse("(").is_err());
    }

    #[test]
    fn exit_2_blocks_with_its_reason_and_others_warn() {
        assert_eq!(before(&one("PreToolUse", "edit", "echo no >&2; exit 2"), "edit").as_deref(), Some("no"));
        assert_eq!(before(&one("PreToolUse", "edit", "exit 2"), "read_file"), None);
        let warns = one("PreToolUse", "", "echo hm >&2; exit 1");
        assert_eq!(before(&warns, "edit"), None);
        assert_eq!(warns.warnings().len(), 1);
    }

    #[test]
    fn a_hook_reads_the_call_and_no_key() {
        let reads =
            one("PreToolUse", "", r#"grep -q '"tool_input":{"file_path":"a"}' && test -z "$QWEN_API_KEY" || exit 2"#);
        assert_eq!(before(&reads, "edit"), None);
    }

    #[test]
    fn a_hook_that_cannot_answer_blocks_before_a_call() {
        let slow = hooks(json!({"PreToolUse": [{"hooks": [{"command": "sleep 60", "timeout": 0.05}]}]}));
        assert!(before(&slow, "edit").unwrap().contains("took longer"));
        assert!(before(&one("PreToolUse", "", "/no/such/program"), "edit").unwrap().contains("cannot be run"));
        let after = one("PostToolUse", "", "/no/such/program");
        assert_eq!(wait(after.after("edit", &Value::Null, &Context::NONE, String::new(), false)), None);
        assert_eq!(after.warnings().len(), 1);
    }

    #[test]
    fn a_decision_may_be_printed_as_json() {
        let deny = r#"echo '{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"r"}}'"#;
        assert_eq!(before(&one("PreToolUse", "", deny), "edit").as_deref(), Some("r"));
        assert_eq!(before(&one("PreToolUse", "", "echo '{\"decision\":\"approve\"}'"), "edit"), None);
    }

    #[test]
    fn a_stop_hook_is_heard_a_bounded_number_of_times() {
        let stubborn = one("Stop", "", "echo more >&2; exit 2");
        wait(async {
            for _ in 0..STOPS {
                assert_eq!(stubborn.stop().await.as_deref(), Some("more"));
            }
            assert_eq!(stubborn.stop().await, None);
        });
    }

    #[test]
    fn what_is_no_hook_is_an_error_and_an_unknown_event_a_warning() {
        for broken in
            [json!(1), json!([1]), json!([{}]), json!([{"hooks": [{}]}]), json!([{"matcher": "(", "hooks": []}])]
        {
            assert!(read(When::Stop, &broken).is_err(), "{broken}");
        }
        let settings = Settings { hooks: Map::from_iter([("Notification".into(), json!([]))]), ..Settings::default() };
        let mut warnings = Vec::new();
        Hooks::of(&settings, &Environment::default(), "/".into(), &Programs::of_process("/".as_ref()), &mut warnings)
            .unwrap();
        assert!(warnings[0].contains("hooks.Notification"));
        assert_eq!((timeout(30.0), timeout(5_000.0)), (Duration::from_secs(30), Duration::from_secs(5)));
    }
}
