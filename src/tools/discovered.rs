//! Offers tools that a command from the settings lists and another command runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::command::Variables;
use super::common::bound::bound;
use super::{
    Call, CallFuture, CommandReport, CommandRequest, CommandRunner, Effects, MissingOutput, Tool, ToolContext,
    ToolError, ToolOutput,
};
use crate::model::ToolSpec;
use crate::policy::Facts;
use crate::policy::{Access, CommandPlan, Grant, Policy};

/// What the discovery may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tools of a discovery.
const MOST: usize = 100;

/// The two commands of the settings, under the policy.
pub struct Commands {
    /// `tools.discoveryCommand`.
    pub discovery: String,
    /// `tools.callCommand`.
    pub call: Option<String>,
    /// The rules: what they deny is not run, and what cannot be understood is not either.
    pub policy: Policy,
    /// What decisions rest on.
    pub facts: Facts,
}

impl Commands {
    fn plan(&self, command: &str) -> Result<CommandPlan, String> {
        self.policy.operator_command(command, &self.facts).map_err(|denial| match denial.hint {
            Some(hint) => format!("denied by the policy: {} ({hint})", denial.reason),
            None => format!("denied by the policy: {}", denial.reason),
        })
    }
}

/// A tool from elsewhere.
pub struct Discovered {
    /// As the model sees it.
    spec: ToolSpec,
    /// Its name as the discovery gave it, which the policy and `tools.callCommand` know.
    name: String,
    commands: Arc<Commands>,
}

/// Why a discovery gives no tools.
#[derive(Debug, thiserror::Error)]
#[error("tools.discoveryCommand `{command}`: {fault}")]
pub struct DiscoveryError {
    /// The command.
    pub command: String,
    /// What is wrong with it, or with what it printed.
    pub fault: DiscoveryFault,
}

/// What is wrong with a discovery.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryFault {
    /// Its tools could not be called.
    #[error("tools.callCommand, which runs its tools, is not set")]
    NoCall,
    /// The policy denies it.
    #[error("{0}")]
    Denied(String),
    /// It did not start.
    #[error("{0}")]
    NotStarted(String),
    /// It did not end.
    #[error("it did not end within {} s", PATIENCE.as_secs())]
    TimedOut,
    /// It printed more than is kept.
    #[error("its output is too long")]
    TooLong,
    /// It failed.
    #[error("it ended with {code}: {first}")]
    Failed {
        /// Its exit code.
        code: i32,
        /// The first line of its standard error.
        first: String,
    },
    /// A signal ended it.
    #[error("it was ended by signal {}", .0.map_or("?".to_owned(), |signal| signal.to_string()))]
    Signal(Option<i32>),
    /// It printed something else.
    #[error("it did not print JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// It printed other JSON.
    #[error("it did not print a JSON array of function declarations")]
    NotAnArray,
    /// A group of declarations is not a list.
    #[error("its `function_declarations` is not an array")]
    GroupNotAnArray,
    /// Two tools have one name.
    #[error("it names {0} twice")]
    Twice(String),
    /// There are too many tools.
    #[error("it names {0} tools; at most {MOST} are allowed")]
    TooMany(usize),
    /// A tool cannot be called by its name.
    #[error("a declaration has an invalid name ({0}); use up to 63 letters, digits, `_`, `-` and `.`")]
    NoName(String),
    /// The schema of a tool is not an object.
    #[error("the schema of {0} is not an object")]
    SchemaNotAnObject(String),
    /// The schema of a tool is not one.
    #[error("the schema of {name} is not valid: {problem}")]
    Schema {
        /// The tool.
        name: String,
        /// Why not.
        problem: String,
    },
}

/// Runs the discovery command and returns the tools that it names.
pub async fn discover(commands: Commands, runner: &dyn CommandRunner) -> Result<Vec<Discovered>, DiscoveryError> {
    let specs = specs(&commands, runner).await;
    let specs = specs.map_err(|fault| DiscoveryError { command: commands.discovery.clone(), fault })?;
    let commands = Arc::new(commands);
    let tool = |spec: ToolSpec| Discovered { name: spec.name.clone(), spec, commands: Arc::clone(&commands) };
    Ok(specs.into_iter().map(tool).collect())
}

async fn specs(commands: &Commands, runner: &dyn CommandRunner) -> Result<Vec<ToolSpec>, DiscoveryFault> {
    if commands.call.is_none() {
        return Err(DiscoveryFault::NoCall);
    }
    let plan = commands.plan(&commands.discovery).map_err(DiscoveryFault::Denied)?;
    let request = CommandRequest { timeout: PATIENCE, background: false, ..CommandRequest::default() };
    let report = runner.run(&plan, request).await.map_err(|error| DiscoveryFault::NotStarted(error.message))?;
    match &report {
        CommandReport { timed_out: true, .. } => Err(DiscoveryFault::TimedOut),
        CommandReport { exit_code: Some(0), missing: MissingOutput { stdout: 0, .. }, stdout, .. } => {
            declarations(stdout)
        }
        CommandReport { exit_code: Some(0), .. } => Err(DiscoveryFault::TooLong),
        CommandReport { exit_code: Some(code), stderr, .. } => {
            Err(DiscoveryFault::Failed { code: *code, first: first(stderr) })
        }
        CommandReport { exit_code: None, signal, .. } => Err(DiscoveryFault::Signal(*signal)),
    }
}

fn first(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing on standard error");
    super::common::names::brief(line)
}

/// Reads what the discovery printed: declarations, bare or as `function_declarations`.
fn declarations(stdout: &[u8]) -> Result<Vec<ToolSpec>, DiscoveryFault> {
    let Value::Array(items) = serde_json::from_slice(stdout)? else { return Err(DiscoveryFault::NotAnArray) };
    let mut specs: Vec<ToolSpec> = Vec::new();
    for item in &items {
        let wrapped = item.get("function_declarations").or_else(|| item.get("functionDeclarations"));
        let inner = match wrapped {
            Some(Value::Array(inner)) => inner.as_slice(),
            Some(_) => return Err(DiscoveryFault::GroupNotAnArray),
            None => std::slice::from_ref(item),
        };
        for declaration in inner {
            let spec = spec_of(declaration)?;
            if specs.iter().any(|known| known.name == spec.name) {
                return Err(DiscoveryFault::Twice(spec.name));
            }
            specs.push(spec);
        }
    }
    if specs.len() > MOST {
        return Err(DiscoveryFault::TooMany(specs.len()));
    }
    Ok(specs)
}

fn spec_of(declaration: &Value) -> Result<ToolSpec, DiscoveryFault> {
    let name = declaration.get("name").and_then(Value::as_str).unwrap_or_default();
    if !is_name(name) {
        return Err(DiscoveryFault::NoName(super::common::names::brief(&declaration.to_string())));
    }
    let schema = declaration.get("parametersJsonSchema").or_else(|| declaration.get("parameters"));
    let parameters = match schema {
        Some(Value::Object(schema)) => Value::Object(schema.clone()),
        Some(Value::Null) | None => json!({"type": "object", "properties": {}}),
        Some(_) => return Err(DiscoveryFault::SchemaNotAnObject(name.to_owned())),
    };
    if let Err(error) = jsonschema::validator_for(&parameters) {
        return Err(DiscoveryFault::Schema { name: name.to_owned(), problem: error.to_string() });
    }
    let description = declaration.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(ToolSpec { name: name.to_owned(), description, parameters })
}

fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && !name.starts_with(['-', '.'])
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

impl Discovered {
    /// Returns what every call of it touches, so that the policy can tell whether any call would be allowed.
    pub fn access(&self) -> Access {
        Access::Discovered { tool: self.name.clone() }
    }

    /// Returns its name as the discovery gave it.
    pub fn own_name(&self) -> &str {
        &self.name
    }

    /// Returns the same tool under another name for the model.
    pub fn renamed(&self, name: String) -> Discovered {
        let spec = ToolSpec { name, ..self.spec.clone() };
        Discovered { spec, name: self.name.clone(), commands: Arc::clone(&self.commands) }
    }
}

impl Tool for Discovered {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn effects(&self) -> Effects {
        Effects::Other
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
        let command = command_line(self.commands.call.as_deref().unwrap_or_default(), &self.name, &arguments);
        Ok(Box::new(DiscoveredCall { tool: self.name.clone(), command, commands: Arc::clone(&self.commands) }))
    }
}

/// Writes the command with its arguments as JSON on standard input.
fn command_line(call: &str, tool: &str, arguments: &Map<String, Value>) -> String {
    // One line of plain ASCII: it can neither end the document nor hold a letter that a shell could mistake.
    let mut line = String::new();
    for c in Value::Object(arguments.clone()).to_string().chars() {
        if c.is_ascii() {
            line.push(c);
        } else {
            let mut units = [0; 2];
            line.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    format!("{call} {tool} <<'ARGUMENTS'\n{line}\nARGUMENTS\n")
}

struct DiscoveredCall {
    tool: String,
    command: String,
    commands: Arc<Commands>,
}

impl Call for DiscoveredCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Discovered { tool: self.tool.clone() }]
    }

    fn subject(&self, _root: &Path) -> String {
        self.tool.clone()
    }

    fn run<'a>(self: Box<Self>, _grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let plan = self.commands.plan(&self.command).map_err(|problem| {
                ToolError::failed(format!("{} was not run: tools.callCommand is {problem}", self.tool))
            })?;
            let request = CommandRequest {
                timeout: cx.limits.shell_timeout,
                background: false,
                variables: Variables::traced(cx.traced),
            };
            let report = cx.runner.run(&plan, request).await?;
            answer(&self.tool, &report, cx)
        })
    }
}

/// What the model reads: the output of a call that went well, else everything there is to know.
fn answer(tool: &str, report: &CommandReport, cx: &ToolContext<'_>) -> Result<ToolOutput, ToolError> {
    let stdout = String::from_utf8_lossy(&report.stdout);
    if report.exit_code == Some(0) && report.stderr.is_empty() && !report.timed_out {
        return Ok(ToolOutput::text(bound(&stdout, cx), format!("Called {tool}")));
    }
    let stderr = String::from_utf8_lossy(&report.stderr);
    let shown = |text: &str| if text.is_empty() { "(empty)".to_owned() } else { text.to_owned() };
    let number = |value: Option<i32>| value.map_or("(none)".to_owned(), |value| value.to_string());
    let error = match report.timed_out {
        true => format!("it did not end within {} s", cx.limits.shell_timeout.as_secs()),
        false => "(none)".to_owned(),
    };
    let text = format!(
        "Stdout: {}\nStderr: {}\nError: {error}\nExit Code: {}\nSignal: {}",
        shown(&stdout),
        shown(&stderr),
        number(report.exit_code),
        number(report.signal)
    );
    let text = bound(&text, cx);
    match report.exit_code {
        Some(0) => Ok(ToolOutput::text(text, format!("Called {tool}"))),
        Some(_) | None => Err(ToolError::failed(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BoxFuture;
    use crate::model::Part;
    use crate::policy::grant::Start;
    use crate::tools::Toolbox;
    use crate::tools::tests::Project;

    /// Answers every command with the same report and keeps what it was asked to run.
    struct Scripted {
        report: CommandReport,
        started: std::sync::Mutex<Vec<Start>>,
    }

    impl Scripted {
        fn new(report: CommandReport) -> Scripted {
            Scripted { report, started: Default::default() }
        }
    }

    impl CommandRunner for Scripted {
        fn run<'a>(
            &'a self,
            plan: &'a CommandPlan,
            _request: CommandRequest,
        ) -> BoxFuture<'a, Result<CommandReport, ToolError>> {
            self.started.lock().unwrap().push(plan.start.clone());
            Box::pin(std::future::ready(Ok(self.report.clone())))
        }
    }

    fn printed(stdout: &str) -> CommandReport {
        CommandReport { stdout: stdout.into(), exit_code: Some(0), ..CommandReport::default() }
    }

    fn commands(project: &Project, discovery: &str) -> Commands {
        let facts = Facts {
            root: project.workspace.root().to_path_buf(),
            included: Vec::new(),
            outputs: None,
            home: String::new(),
            tree: Arc::new(crate::workspace::disk::Disk),
            git: crate::policy::GitFacts::default(),
        };
        let policy = Policy::builtin("default").unwrap();
        Commands { discovery: discovery.into(), call: Some("mytools call".into()), policy, facts }
    }

    fn found(report: CommandReport) -> Result<Vec<Discovered>, DiscoveryError> {
        let project = Project::new(&[]);
        futures_util::FutureExt::now_or_never(discover(commands(&project, "mytools list"), &Scripted::new(report)))
            .unwrap()
    }

    #[test]
    fn declarations_are_read_in_every_spelling() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        let printed_by = json!([
            {"name": "one", "description": "First", "parameters": schema},
            {"function_declarations": [{"name": "two", "parametersJsonSchema": schema}]},
            {"functionDeclarations": [{"name": "three"}]},
        ]);
        let tools = found(printed(&printed_by.to_string())).unwrap();
        let specs: Vec<ToolSpec> = tools.iter().map(Tool::spec).collect();
        assert_eq!(specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["one", "two", "three"]);
        assert_eq!((&specs[0].parameters, &specs[1].parameters), (&schema, &schema));
    }

    #[test]
    fn a_fault_of_the_discovery_names_the_command() {
        let with = |report| found(report).err().unwrap().to_string();
        let failed = CommandReport { exit_code: Some(3), stderr: b"\nno such thing\n".to_vec(), ..Default::default() };
        for (report, says) in [
            (printed("oops"), "it did not print JSON: expected value at line 1 column 1"),
            (printed("{}"), "it did not print a JSON array of function declarations"),
            (printed("[{\"name\":\"a\"},{\"name\":\"a\"}]"), "it names a twice"),
            (printed("[{\"name\":\"a\",\"parameters\":7}]"), "the schema of a is not an object"),
            (failed, "it ended with 3: no such thing"),
            (CommandReport { signal: Some(11), ..Default::default() }, "it was ended by signal 11"),
            (CommandReport { timed_out: true, ..Default::default() }, "it did not end within 30 s"),
        ] {
            assert_eq!(with(report), format!("tools.discoveryCommand `mytools list`: {says}"));
        }
        for name in ["", "-x", "a b", "a;b", "é"] {
            assert!(with(printed(&json!([{ "name": name }]).to_string())).contains("has an invalid name"), "{name}");
        }
        let project = Project::new(&[]);
        for command in ["curl x | $(y)", "eval x"] {
            let runner = Scripted::new(printed("[]"));
            let outcome = discover(commands(&project, command), &runner);
            let error = futures_util::FutureExt::now_or_never(outcome).unwrap().err().unwrap().to_string();
            assert!(error.contains("denied by the policy"), "{error}");
        }
    }

    #[test]
    fn a_call_is_made_by_the_protocol() {
        let tools = found(printed("[{\"name\":\"one\"}]")).unwrap();
        let mut toolbox = Toolbox::default();
        for tool in tools {
            assert!(toolbox.add_foreign(Arc::new(tool), &[]));
        }
        let project = Project::new(&[]);
        let call = |report: CommandReport| {
            let runner = Scripted::new(report);
            let arguments = Map::from_iter([("text".to_owned(), Value::from("a'b\nARGUMENTS\n$x é\u{202e}"))]);
            let said = project
                .call_of(&toolbox, "one", arguments, &runner)
                .map(|output| Part::text_of(&output.llm_content))
                .map_err(|error| error.message);
            let started = runner.started.lock().unwrap().remove(0);
            (said, started)
        };
        let (said, started) = call(printed("done\n"));
        assert_eq!(said, Ok("done\n".to_owned()));
        let Start::Script(script) = started else { panic!("{started:?}") };
        assert!(script.starts_with("mytools call one <<"), "{script}");
        assert!(script.contains(r#"{"text":"a'b\nARGUMENTS\n$x \u00e9\u202e"}"#), "{script}");
        let failed = CommandReport { stderr: b"bad".to_vec(), exit_code: Some(2), ..Default::default() };
        let text = "Stdout: (empty)\nStderr: bad\nError: (none)\nExit Code: 2\nSignal: (none)";
        assert_eq!(call(failed).0, Err(text.to_owned()));
        let warned = CommandReport { stderr: b"w".to_vec(), ..printed("out") };
        let text = "Stdout: out\nStderr: w\nError: (none)\nExit Code: 0\nSignal: (none)";
        assert_eq!(call(warned).0, Ok(text.to_owned()));
    }

    #[test]
    fn a_tool_of_ours_is_not_replaced() {
        let mut toolbox = Toolbox::of_built_ins();
        for tool in found(printed("[{\"name\":\"edit\"},{\"name\":\"web_fetch\"},{\"name\":\"mine\"}]")).unwrap() {
            let name = tool.spec().name;
            assert_eq!(toolbox.add_foreign(Arc::new(tool), &[]), name == "mine");
        }
    }
}
