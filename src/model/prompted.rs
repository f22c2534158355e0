//! Describes tools in the prompt, for servers and models without the `tools` parameter.

use serde_json::{Map, Value};

use super::{Arguments, ToolCall, ToolSpec};
use crate::tool_name::{NOT_SHOWN_IN_TEXT, ToolId};

/// The end of the description of the tools.
pub const ENDING: &str = "To see or change anything, end your reply with such a call and write nothing behind it; its \
     result comes next. When the task is done, reply in words, without a call.";

/// Describes the tools for the system message; empty without tools.
pub fn describe(tools: &[ToolSpec]) -> String {
    let form = answer(tools).map(|tool| {
        format!("with one JSON object of this form and nothing else:\n\n{}", form(&shown(&tool.parameters), 0))
    });
    let tools: Vec<&ToolSpec> = tools.iter().filter(|tool| !is_answer(tool)).collect();
    if tools.is_empty() {
        return form.map(|form| format!("Reply {form}")).unwrap_or_default();
    }
    let mut text = "# Tools\n\nTools run on the user's machine when you write a call.\n".to_owned();
    // A list of tasks leads small models away from the task.
    for tool in tools.iter().filter(|tool| tool.name != ToolId::TodoWrite.name() || tools.len() == 1) {
        // Written like a function, it would be called like one.
        text.push_str(&format!("\n<function={}>", tool.name));
        let parameters = parameters(tool);
        if !parameters.is_empty() {
            text.push_str(&format!(" with {parameters}"));
        }
        if !tool.description.is_empty() {
            text.push_str(&format!(": {}", tool.description.trim()));
        }
    }
    let ending = form.map_or_else(|| ENDING.to_owned(), |form| ENDING.replace("in words, without a call.", &form));
    // The tag of results is not named here: small models would write it themselves.
    text.push_str(&format!(
        "\n\nCalls are written like this. Values are raw text: no quotes, no escapes.\n\n{}\n{ending}",
        examples(&tools).join("\n")
    ));
    text
}

/// Returns the tool that takes the answer, if it has to be a JSON object.
pub fn answer(tools: &[ToolSpec]) -> Option<&ToolSpec> {
    tools.iter().find(|tool| is_answer(tool))
}

fn is_answer(tool: &ToolSpec) -> bool {
    tool.name == ToolId::StructuredOutput.name()
}

/// Returns a schema without what small models are not shown.
pub fn shown(schema: &Value) -> Value {
    match schema {
        Value::Object(keys) => {
            let kept = keys.iter().filter(|(_, schema)| schema["$comment"] != NOT_SHOWN_IN_TEXT);
            Value::Object(kept.map(|(name, schema)| (name.clone(), shown(schema))).collect())
        }
        Value::Array(values) => values.iter().map(shown).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Shows which values a schema takes, as a value with types in the places of values. Small models repeat a JSON schema
/// as it is; this they fill in.
fn form(schema: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth + 1);
    let kind = schema.get("type").and_then(Value::as_str);
    match (kind, schema.get("properties").and_then(Value::as_object), schema.get("items")) {
        (Some("object"), Some(properties), _) => {
            let required = schema.get("required").and_then(Value::as_array);
            let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
            let lines: Vec<String> = properties
                .iter()
                .map(|(name, schema)| {
                    let optional = if is_required(name) { "" } else { "?" };
                    let meaning = schema.get("description").and_then(Value::as_str);
                    let meaning = meaning.map(|meaning| format!(" // {}", meaning.replace('\n', " ")));
                    let meaning = meaning.unwrap_or_default();
                    format!("{indent}\"{name}\"{optional}: {},{meaning}", form(schema, depth + 1))
                })
                .collect();
            format!("{{\n{}\n{}}}", lines.join("\n"), "  ".repeat(depth))
        }
        (Some("array"), _, Some(items)) => format!("[{}]", form(items, depth)),
        _ => match schema.get("enum").and_then(Value::as_array) {
            Some(values) => values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | "),
            None if schema.get("type").is_some() => type_of(schema),
            // What has no plain type is shown as it is: `anyOf`, `$ref` and the like.
            None => schema.to_string(),
        },
    }
}

/// Adds the right format to the message about a failed call; examples in JSON would teach the wrong format. `path` stands
/// for paths in it: small models copy an example as it is.
pub fn correction(problem: &str, tool: Option<&ToolSpec>, path: Option<&str>) -> String {
    let problem = ["\nExample: ", "\nReceived: ", "\nA valid call of ", " Inside a string write"]
        .iter()
        .fold(problem, |kept, cut| kept.split_once(cut).map_or(kept, |(before, _)| before));
    match tool {
        Some(tool) => format!("{problem}\nWrite it like this:\n\n{}", example_call(tool, path.unwrap_or(ANY_PATH))),
        None => problem.to_owned(),
    }
}

/// The lines of the examples: nobody's task has them, so that an answer which does tells of the examples.
const EXAMPLE_LINES: [&str; 3] = ["a heron waits", "a kettle sings", "a teapot sings"];

/// Tells whether an answer speaks of what the examples write, and the task does not.
pub fn tells_example(answer: &str, task: &str) -> bool {
    EXAMPLE_LINES.iter().any(|line| answer.contains(line) && !task.contains(line))
}

/// What a model is told that calls what an example calls: small models copy one when they do not know what to do.
pub const EXAMPLE_CALLED: &str =
    "This call only shows how calls are written, and was not run. Call what the task needs.";

/// Tells whether the texts of a call are those of an example, and not of the task.
pub fn is_example(arguments: &Map<String, Value>, task: &str) -> bool {
    let texts = ["content", "old_string", "new_string"].map(|name| arguments.get(name).and_then(Value::as_str));
    let mut lines = texts.into_iter().flatten().flat_map(|text| text.trim().lines()).peekable();
    lines.peek().is_some() && lines.all(|line| EXAMPLE_LINES.contains(&line.trim()) && !task.contains(line.trim()))
}

/// Returns the file that a call names, also one whose arguments cannot be read.
pub fn path_in(call: &ToolCall) -> Option<String> {
    let raw = match &call.arguments {
        Arguments::Object(arguments) => return arguments.get("file_path")?.as_str().map(str::to_owned),
        Arguments::Incomplete { raw } | Arguments::Invalid { raw, .. } => raw,
    };
    let path = raw.split_once("<parameter=file_path>")?.1.split_once("</parameter>")?.0.trim();
    (!path.is_empty() && !path.contains('\n')).then(|| path.to_owned())
}

/// Returns examples of what small models get wrong without one: several parameters, and values of several lines.
fn examples(tools: &[&ToolSpec]) -> Vec<String> {
    let known = |id: ToolId| tools.iter().any(|tool| tool.name == id.name());
    let text = |value: &str| value.to_owned();
    let mut examples = Vec::new();
    let [first, second, changed] = EXAMPLE_LINES;
    if known(ToolId::WriteFile) {
        let values = [("file_path", text("poem.txt")), ("content", format!("{first}\n{second}"))];
        examples.push(shape(ToolId::WriteFile.name(), values.into_iter()));
    }
    if known(ToolId::Edit) {
        let values = [("file_path", text("poem.txt")), ("old_string", text(second)), ("new_string", text(changed))];
        examples.push(shape(ToolId::Edit.name(), values.into_iter()));
    }
    if examples.is_empty() {
        let tool = tools.iter().find(|tool| tool.name == ToolId::ReadFile.name()).or(tools.first()).copied();
        examples.extend(tool.map(|tool| example_call(tool, ANY_PATH)));
    }
    examples
}

/// Writes a call in the format that the description asks for; an unreadable one stays as the model wrote it, so that
/// the message about it makes sense and an empty call is not an example to follow.
pub fn call(call: &ToolCall) -> String {
    let arguments = match &call.arguments {
        Arguments::Object(map) => map,
        Arguments::Incomplete { raw } | Arguments::Invalid { raw, .. } => return format!("{}\n", raw.trim_end()),
    };
    let values = arguments.iter().map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        };
        (name.as_str(), text)
    });
    shape(&call.name, values)
}

/// Wraps the answer to a call.
pub fn response(words: &str) -> String {
    format!("<tool_response>\n{words}\n</tool_response>")
}

/// How `write_file` says that a file is as it was.
pub const UNCHANGED: &str = "It had exactly this content before: nothing has changed.";

/// How `edit` says that it was to replace a text by itself. Small models correct word by word and name also what is right.
pub const IDENTICAL: &str = "No changes to apply. The old_string and new_string are identical";

/// Tells whether a call that was to change a file failed or left the file as it was. What is denied stays denied, and the
/// model may say so.
pub fn changes_nothing(tool: &str, words: &str, is_error: bool) -> bool {
    let is_change = [ToolId::WriteFile, ToolId::Edit].iter().any(|known| known.name() == tool);
    is_change && !words.starts_with("Denied") && (is_error || is_unchanged(words))
}

/// Tells whether an answer is that of a `write_file` which wrote what was there; a line of a file may have the same words.
fn is_unchanged(words: &str) -> bool {
    words.starts_with("Successfully overwrote file: ") && words.lines().nth(1) == Some(UNCHANGED)
}

/// Tells whether the answer to a call is that of a command that ended with an error.
pub fn is_failed_command(tool: &str, words: &str) -> bool {
    let code = || words.lines().find_map(|line| line.strip_prefix("Exit Code: "));
    tool == ToolId::RunShellCommand.name() && code().is_some_and(|code| code.trim() != "0")
}

/// Returns what is said of a call that failed, or was to change a file and did not, instead of the call and its answer:
/// small models repeat the calls that they see. `None` if both are shown.
pub fn in_vain(call: &ToolCall, words: &str, is_error: bool) -> Option<String> {
    let is_wrong = changes_nothing(&call.name, words, is_error);
    if is_wrong && is_unchanged(words) {
        let named = |object: &serde_json::Map<String, Value>| Some(object.get("file_path")?.as_str()?.to_owned());
        let file = match &call.arguments {
            Arguments::Object(object) => named(object),
            Arguments::Incomplete { .. } | Arguments::Invalid { .. } => None,
        };
        return Some(format!(
            "Nothing was changed: you wrote {} as it already was. Change it with edit: old_string is the part that is \
             to go or to change, new_string what stands there then, and nothing if it is to go.",
            file.unwrap_or_else(|| "the file".to_owned())
        ));
    }
    let is_unknown = is_error && words.starts_with("There is no tool ");
    if is_wrong || is_unknown {
        return Some(format!("Nothing was changed yet. {words}"));
    }
    // What a command prints is worth reading, and what is denied may be said.
    let is_seen = call.name == ToolId::RunShellCommand.name() || words.starts_with("Denied");
    (is_error && !is_seen)
        .then(|| format!("Your last call did not work. {words}\n\nMake another call, or answer with what you know."))
}

/// Returns the calls of a turn, by the words of their answers, that replaced a text by itself, if others did more: they
/// are nothing to go on about.
pub fn idle<'a>(answers: impl Iterator<Item = (&'a str, String)>) -> Vec<&'a str> {
    let (idle, others): (Vec<_>, Vec<_>) = answers.partition(|(_, words)| words.starts_with(IDENTICAL));
    if others.is_empty() { Vec::new() } else { idle.into_iter().map(|(call, _)| call).collect() }
}

/// How the calls of a turn went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallsOutcome {
    /// All of them did what they had to.
    Succeeded,
    /// A search had no result.
    FoundNothing,
    /// One of them failed.
    Failed,
}

/// Follows the answers of a turn: small models call tools endlessly if nothing tells them that they may stop.
const AFTER_SUCCESS: &str =
    "\n\nIf the task is done, answer the user in words, without a call. Else make the next call.";

/// The same after a call that failed: they would otherwise take it for done.
const AFTER_FAILURE: &str = "\n\nA call failed and changed nothing. Make it again, corrected.";

/// The same after a search without a result: they search for names of files, and take nothing for an answer.
const AFTER_NOTHING: &str = "\n\nNothing was found. `pattern` is text that a line contains, not the name of a file. \
     Make another call, or say that there is none.";

/// Tells whether what a call returned says that a search has no result.
pub fn finds_nothing(response: &str) -> bool {
    response.starts_with("No matches found for pattern")
}

/// The same where the answer has to be a JSON object.
const AFTER_SUCCESS_JSON: &str =
    "\n\nIf the task is done, reply with the JSON object and nothing else. Else make the next call.";

/// Returns what follows the answers of a turn. A question is said once more: small models forget what was asked.
pub fn after_responses(outcome: CallsOutcome, question: Option<&str>, tools: &[ToolSpec]) -> String {
    match (outcome, question) {
        (CallsOutcome::Failed, _) => AFTER_FAILURE.to_owned(),
        (CallsOutcome::FoundNothing, None) => AFTER_NOTHING.to_owned(),
        (CallsOutcome::FoundNothing, Some(question)) => format!("{AFTER_NOTHING} The task: {question}"),
        (CallsOutcome::Succeeded, None) if answer(tools).is_some() => AFTER_SUCCESS_JSON.to_owned(),
        (CallsOutcome::Succeeded, None) => AFTER_SUCCESS.to_owned(),
        (CallsOutcome::Succeeded, Some(question)) => {
            format!("\n\nNow answer with what these results show, by name: {question}\nOr make the next call.")
        }
    }
}

fn shape<'a>(name: &str, values: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut text = format!("<tool_call>\n<function={name}>\n");
    for (name, value) in values {
        text.push_str(&format!("<parameter={name}>\n{value}\n</parameter>\n"));
    }
    text.push_str("</function>\n</tool_call>\n");
    text
}

/// The path in an example, where no better one is known.
const ANY_PATH: &str = "src/main.rs";

fn example_call(tool: &ToolSpec, path: &str) -> String {
    let required = required(tool);
    let values = properties(tool).into_iter().filter(|(name, _)| required.contains(name)).map(|(name, schema)| {
        let value = match type_of(schema).as_str() {
            "integer" | "number" => "1".to_owned(),
            "boolean" => "true".to_owned(),
            kind if kind.ends_with("[]") => "[\"…\"]".to_owned(),
            "object" => "{}".to_owned(),
            _ if name.contains("path") => path.to_owned(),
            _ => "…".to_owned(),
        };
        (name, value)
    });
    shape(&tool.name, values)
}

fn properties(tool: &ToolSpec) -> Vec<(&str, &Value)> {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema)).collect()
}

fn required(tool: &ToolSpec) -> Vec<&str> {
    let names = tool.parameters.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Lists the required parameters of a call. Small models fill in every listed parameter with something; optional ones
/// are accepted all the same, and the tools' own messages name them where it helps.
fn parameters(tool: &ToolSpec) -> String {
    let required = required(tool);
    let parameters: Vec<String> = properties(tool)
        .into_iter()
        .filter(|(name, _)| required.contains(name))
        .map(|(name, schema)| match type_of(schema).as_str() {
            "string" => name.to_owned(),
            kind => format!("{name} ({kind})"),
        })
        .collect();
    parameters.join(", ")
}

/// Names a parameter's type in as few characters as are clear.
fn type_of(schema: &Value) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> =
            values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        return words.join("|");
    }
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "array" => {
            format!("{}[]", schema.get("items").map_or_else(|| "any".to_owned(), type_of))
        }
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            let words: Vec<&str> = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect();
            words.join("|")
        }
        Some(_) | None => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn tools() -> Vec<ToolSpec> {
        vec![
            ToolSpec {
                name: "list".into(),
                description: String::new(),
                parameters: json!({"type": "object", "properties": {}}),
            },
            ToolSpec {
                name: "read_file".into(),
                description: "Reads a file.".into(),
                parameters: json!({"type": "object", "properties": {
                    "file_path": {"type": "string"}, "limit": {"type": ["integer", "null"]},
                    "tags": {"type": "array", "items": {"type": "string"}}, "mode": {"enum": ["a", "b"]}
                }, "required": ["file_path"]}),
            },
        ]
    }

    #[test]
    fn an_answer_of_a_schema_is_shown_as_a_form() {
        let answer = ToolSpec {
            name: ToolId::StructuredOutput.name().into(),
            description: "Give the final answer.".into(),
            parameters: json!({"type": "object", "required": ["list"], "properties": {
                "list": {"type": "array", "items": {"type": "object", "properties": {
                    "level": {"enum": ["low", "high"], "description": "how bad\nit is"},
                    "more": {"type": "object", "$comment": NOT_SHOWN_IN_TEXT},
                    "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]}
                }}},
                "tags": {"type": "array", "items": {"type": ["string", "null"]}}, "any": {"type": "object"}
            }}),
        };
        insta::assert_snapshot!(describe(std::slice::from_ref(&answer)), @r#"
        Reply with one JSON object of this form and nothing else:

        {
          "list": [{
            "level"?: "low" | "high", // how bad it is
            "either"?: {"anyOf":[{"type":"string"},{"type":"integer"}]},
          }],
          "tags"?: [string],
          "any"?: object,
        }
        "#);
        let beside = describe(&[&tools()[..], &[answer]].concat());
        assert!(beside.contains("its result comes next. When the task is done, reply with one JSON"));
        assert!(!beside.contains("<function=structured_output>") && !beside.contains("in words"), "{beside}");
    }

    #[test]
    fn the_description_is_short_and_has_one_example() {
        insta::assert_snapshot!(describe(&tools()), @r"
        # Tools

        Tools run on the user's machine when you write a call.

        <function=list>
        <function=read_file> with file_path: Reads a file.

        Calls are written like this. Values are raw text: no quotes, no escapes.

        <tool_call>
        <function=read_file>
        <parameter=file_path>
        src/main.rs
        </parameter>
        </function>
        </tool_call>

        To see or change anything, end your reply with such a call and write nothing behind it; its result comes next. When the task is done, reply in words, without a call.
        ");
    }

    #[test]
    fn what_follows_results_depends_on_how_the_calls_went_and_says_a_question_again() {
        let after = |outcome, question| after_responses(outcome, question, &[]).trim().to_owned();
        let question = Some("Which file?");
        assert!(after(CallsOutcome::Succeeded, None).starts_with("If the task is done"));
        assert_eq!(
            after(CallsOutcome::Succeeded, question),
            "Now answer with what these results show, by name: Which file?\nOr make the next call."
        );
        assert!(after(CallsOutcome::FoundNothing, None).ends_with("or say that there is none."));
        assert!(after(CallsOutcome::FoundNothing, question).ends_with("The task: Which file?"));
        assert!(after(CallsOutcome::Failed, question).starts_with("A call failed"));
        assert!(finds_nothing("No matches found for pattern \"x\" in path \".\".") && !finds_nothing("Found 1 match"));
    }

    #[test]
    fn a_call_that_changed_nothing_is_told_and_not_shown() {
        let call = |name: &str| ToolCall {
            id: "c1".into(),
            name: name.into(),
            arguments: Arguments::Object(Map::from_iter([("file_path".to_owned(), "a.py".into())])),
            recovered: None,
            notes: Vec::new(),
        };
        let unchanged = format!("Successfully overwrote file: a.py\n{UNCHANGED}");
        let said = in_vain(&call("write_file"), &unchanged, false).unwrap();
        assert!(said.starts_with("Nothing was changed: you wrote a.py as it already was."), "{said}");
        let of_a_file =
            format!("Successfully modified file: a.py (1 replacements).\nLines 1-2 are now:\n{UNCHANGED}\n");
        assert_eq!(in_vain(&call("edit"), &of_a_file, false), None);
        let said = in_vain(&call("edit"), "Failed to edit, 0 occurrences", true).unwrap();
        assert_eq!(said, "Nothing was changed yet. Failed to edit, 0 occurrences");
        assert!(in_vain(&call("sort"), "There is no tool \"sort\". Use one of these: edit.", true).is_some());
        assert_eq!(in_vain(&call("edit"), "Successfully modified file: a.py", false), None);
        assert_eq!(in_vain(&call("run_shell_command"), "Denied: no rule", true), None);
        assert!(is_failed_command("run_shell_command", "Stdout: (empty)\nExit Code: 127\nSignal: (none)"));
        assert!(!is_failed_command("run_shell_command", "Stdout: (empty)\nExit Code: 0\nSignal: (none)"));
        assert_eq!(in_vain(&call("run_shell_command"), "Exit Code: 1", true), None);
        let said = in_vain(&call("read_file"), "File not found: a", true).unwrap();
        assert!(said.starts_with("Your last call did not work. File not found: a\n\nMake another"), "{said}");
    }

    #[test]
    fn what_replaced_a_text_by_itself_is_left_out_next_to_others() {
        let same = format!("{IDENTICAL} in file: a");
        let of = |words: &[&str]| idle(["a", "b"].into_iter().zip(words.iter().map(|words| (*words).to_owned())));
        assert_eq!(of(&["Successfully modified file: a", &same]), ["b"]);
        assert_eq!(of(&[&same, &same]), [""; 0]);
    }

    #[test]
    fn without_tools_nothing_is_said() {
        assert_eq!(describe(&[]), "");
    }

    #[test]
    fn a_call_is_written_with_raw_values() {
        let arguments = json!({"content": "a < b && \"c\"\n", "background": true});
        let written = call(&ToolCall {
            id: "c1".into(),
            name: "write_file".into(),
            arguments: Arguments::Object(arguments.as_object().unwrap().clone()),
            recovered: None,
            notes: Vec::new(),
        });
        insta::assert_snapshot!(written, @r#"
        <tool_call>
        <function=write_file>
        <parameter=content>
        a < b && "c"

        </parameter>
        <parameter=background>
        true
        </parameter>
        </function>
        </tool_call>
        "#);
    }
}
