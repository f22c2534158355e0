//! Converts the answer of a run to the requested form: a value of a schema, findings, or a short message.

use serde_json::Value;

use crate::agent::limits::Denials;
use crate::event::{FindingPlace, RuleFacts, RunFinished};
use crate::exit::Exit;
use crate::model::ToolSpec;
use crate::model::coerce::Parameters;
use crate::model::repair::{self, Fragment, Reading};
use crate::recipe::file::{Incomplete, Output, OutputKind, Rule};
use crate::tool_name::ToolId;
use crate::verify::anchor::{self, Sources, Wanted};
use crate::verify::findings::{self, Earlier, Gate, Reported};
use crate::verify::review::{Coverage, Review};

use crate::run::error::{AnswerError, Failure};

/// How often the model may correct an answer that does not fit the schema.
const REPAIRS: u32 = 2;

/// Maximum number of findings.
const MAX_FINDINGS: usize = 25;

/// What the answer must be.
pub struct AnswerSpec {
    /// The schema; `None` if any text is accepted.
    pub schema: Option<Value>,
    /// How often it may be corrected.
    pub repairs: u32,
    /// Answers of several conversations can be put together.
    pub merges: bool,
    kind: OutputKind,
    wanted: Wanted,
    gate: Gate,
    /// What stands in the threads of the pull request already.
    earlier: Vec<Earlier>,
    incomplete: Incomplete,
    max_chars: usize,
    validator: Option<jsonschema::Validator>,
}

/// The parsed answer.
#[derive(Debug, Default)]
pub struct ParsedAnswer {
    /// The value.
    pub structured: Option<Value>,
    /// The findings.
    pub findings: Vec<Value>,
    /// How each relates to the diff under review.
    pub places: Vec<FindingPlace>,
    /// Findings that do not count, by reason.
    pub dropped: std::collections::BTreeMap<String, u64>,
    /// Whether they fail the run.
    pub fails: bool,
    /// The text, if it is the answer.
    pub text: Option<String>,
}

/// The result of the model's work.
#[derive(Default)]
pub struct Answer {
    /// The final text.
    pub text: String,
    /// Calls that the policy denied.
    pub denials: Denials,
    /// The structured answer.
    pub taken: ParsedAnswer,
    /// There was nothing to do; the text says why.
    pub nothing_to_do: bool,
    /// What ended the run before all parts of a change were looked at.
    pub cut_short: Option<Failure>,
}

impl Answer {
    /// Returns the answer of a run without work.
    pub fn nothing_to_do(text: String) -> Answer {
        Answer { text, nothing_to_do: true, ..Answer::default() }
    }

    /// Adds the findings of the next part of a change.
    pub fn add(&mut self, next: Answer) {
        let Answer { text, denials, mut taken, .. } = next;
        (self.text, self.denials) = (text, denials);
        for (reason, number) in std::mem::take(&mut taken.dropped) {
            *self.taken.dropped.entry(reason).or_default() += number;
        }
        let list = |taken: &mut ParsedAnswer| match taken.structured.as_mut()?.get_mut("findings")? {
            Value::Array(list) => Some(std::mem::take(list)),
            _ => None,
        };
        let mut all = list(&mut self.taken).unwrap_or_default();
        all.extend(list(&mut taken).unwrap_or_default());
        self.taken.structured = Some(serde_json::json!({"findings": all}));
    }
}

impl AnswerSpec {
    /// Combines the recipe's output and the flags.
    pub fn new(output: &Output, json_schema: Option<Value>, gate: Gate) -> Result<AnswerSpec, AnswerError> {
        let wanted = Wanted {
            rules: output.rules.clone().unwrap_or_default(),
            filter: output.filter.unwrap_or_default(),
            min_confidence: output.min_confidence.unwrap_or_default(),
            most: output.max_findings.unwrap_or(MAX_FINDINGS),
            gate: Some(gate),
        };
        let merges = output.kind == OutputKind::Findings && json_schema.is_none();
        let schema = match (json_schema, output.kind) {
            (Some(schema), _) => Some(schema),
            (None, OutputKind::Json) => output.schema.clone(),
            (None, OutputKind::Findings) => Some(findings::schema(&wanted.rules, wanted.most)),
            (None, OutputKind::Text | OutputKind::Changes | OutputKind::Message) => None,
        };
        let validator = schema
            .as_ref()
            .map(jsonschema::validator_for)
            .transpose()
            .map_err(|error| AnswerError::Schema(error.to_string()))?;
        Ok(AnswerSpec {
            schema,
            merges,
            repairs: output.repairs.unwrap_or(REPAIRS),
            kind: output.kind,
            wanted,
            gate,
            earlier: Vec::new(),
            incomplete: output.incomplete.unwrap_or_default(),
            max_chars: output.max_chars.unwrap_or(4_000),
            validator,
        })
    }

    /// Takes what stands in the threads of the pull request already, as far as it is about these rules.
    pub fn after(self, mut earlier: Vec<Earlier>) -> AnswerSpec {
        earlier.retain(|one| self.wanted.rules.iter().any(|rule| rule.id.value == one.rule_id));
        AnswerSpec { earlier, ..self }
    }

    /// Returns the rules that findings may name.
    pub fn rules(&self) -> Vec<RuleFacts> {
        let facts = |rule: &Rule| RuleFacts {
            id: rule.id.value.clone(),
            description: rule.description.value.clone(),
            severity: rule.severity.map(|severity| format!("{severity:?}").to_lowercase()),
        };
        self.wanted.rules.iter().map(facts).collect()
    }

    /// Returns what the model is told about its answer.
    pub fn instruction(&self) -> Option<String> {
        match (&self.schema, self.kind) {
            // Its schema is that of the tool: what the model is shown of it depends on how it calls tools.
            (Some(_), _) => Some("The answer of this task is one JSON object (structured_output).".to_owned()),
            (None, OutputKind::Message) => Some(format!(
                "Your last message is taken as it is: give nothing but the text that was asked for, at most {} characters, without a fence.",
                self.max_chars
            )),
            (None, OutputKind::Text | OutputKind::Changes | OutputKind::Json | OutputKind::Findings) => None,
        }
    }

    /// Parses the answer: the value given through the tool, else the last fenced block of JSON. The error is what the
    /// model is told.
    pub fn take(&self, by_tool: Option<Value>, text: &str) -> Result<ParsedAnswer, String> {
        let Some(validator) = &self.validator else {
            let text = (self.kind == OutputKind::Message).then(|| self.message(text));
            return Ok(ParsedAnswer { text, ..ParsedAnswer::default() });
        };
        let value = match by_tool {
            Some(value) => value,
            None => self.listed(written_json(text)?)?,
        };
        let value = if validator.is_valid(&value) { value } else { self.out_of_schema(value) };
        let mut value = self.coerced(validator, value);
        let misfits = if validator.is_valid(&value) { 0 } else { self.without_misfits(&mut value) };
        let problems: Vec<String> = validator
            .iter_errors(&value)
            .take(5)
            .map(|error| {
                let path = error.instance_path().to_string();
                let path = if path.is_empty() { "/".to_owned() } else { path };
                let mut text = error.to_string();
                if text.len() > 300 {
                    let end = (0..=300).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                    text.truncate(end);
                }
                format!("at {path}: {text}")
            })
            .collect();
        if problems.is_empty() {
            let dropped = (misfits > 0).then(|| ("misfit".to_owned(), misfits));
            Ok(ParsedAnswer {
                structured: Some(value),
                dropped: dropped.into_iter().collect(),
                ..ParsedAnswer::default()
            })
        } else {
            Err(problems.join("\n"))
        }
    }

    /// Accepts a bare list for the only list that the schema asks for.
    fn listed(&self, value: Value) -> Result<Value, String> {
        if !value.is_array() {
            return Ok(value);
        }
        let schema = self.schema.as_ref();
        let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
        let name = match required.map(Vec::as_slice) {
            Some([name]) => name.as_str(),
            Some(_) | None => None,
        };
        let is_list = |name: &&str| schema.is_some_and(|schema| schema["properties"][*name]["type"] == "array");
        match name.filter(is_list) {
            Some(name) => Ok(serde_json::json!({ name: value })),
            None => Err("the answer has a list instead of a JSON object".to_owned()),
        }
    }

    /// Extracts the values from an answer that repeats the schema with the values in place of its properties.
    fn out_of_schema(&self, mut value: Value) -> Value {
        let schema = self.schema.as_ref().map(|schema| &schema["properties"]);
        let repeats = value["type"] == "object" && schema.is_some_and(|schema| schema.get("properties").is_none());
        match value.get_mut("properties").filter(|inner| repeats && inner.is_object()) {
            Some(inner) => inner.take(),
            None => value,
        }
    }

    /// Coerces a value that does not fit, like a call's arguments; returns it unchanged if that does not help.
    fn coerced(&self, validator: &jsonschema::Validator, value: Value) -> Value {
        match &self.schema {
            Some(schema) if !validator.is_valid(&value) => coerced_to(schema, value),
            Some(_) | None => value,
        }
    }

    /// Drops the findings that do not fit, as long as one does: an invented rule must not cost the others. Returns how
    /// many.
    fn without_misfits(&self, value: &mut Value) -> u64 {
        let item = self.schema.as_ref().map(|schema| &schema["properties"]["findings"]["items"]);
        let fits = item.filter(|_| self.kind == OutputKind::Findings).map(jsonschema::validator_for);
        let (Some(Ok(fits)), Some(found)) = (fits, value.get_mut("findings").and_then(Value::as_array_mut)) else {
            return 0;
        };
        let before = found.len();
        for finding in found.iter_mut().filter(|finding| !fits.is_valid(finding)) {
            *finding = coerced_to(item.unwrap_or(&Value::Null), finding.take());
            // A suggestion that cannot be read must not cost the finding.
            let mut alone = finding.clone();
            let had_one = alone.as_object_mut().and_then(|keys| keys.remove("suggestion")).is_some();
            if had_one && !fits.is_valid(finding) {
                let alone = coerced_to(item.unwrap_or(&Value::Null), alone);
                if fits.is_valid(&alone) {
                    *finding = alone;
                }
            }
        }
        if found.iter().any(|finding| fits.is_valid(finding)) {
            found.retain(|finding| fits.is_valid(finding));
        }
        (before - found.len()) as u64
    }

    /// Matches findings with their lines, and adds what was found without the model; does nothing if none were asked
    /// for. The answer then has what counts alone; this is the one place where paths become those of the repository.
    pub fn anchor(&self, taken: &mut ParsedAnswer, review: Option<&Review>, sources: &Sources<'_>) {
        if self.kind != OutputKind::Findings {
            return;
        }
        let given = taken.structured.as_ref().and_then(|value| value.get("findings")).cloned().unwrap_or_default();
        let given: Vec<Reported> = serde_json::from_value(given).unwrap_or_default();
        let anchored = anchor::anchor(given, &self.wanted, sources);
        let mut all = review.map(|review| review.local.clone()).unwrap_or_default();
        taken.places = all.iter().map(|local| sources.place(local)).collect();
        taken.places.extend(anchored.places);
        all.extend(anchored.findings);
        let is_incomplete = review.is_some_and(|review| review.coverage.is_incomplete());
        for (reason, number) in anchored.dropped {
            *taken.dropped.entry(reason).or_default() += number;
        }
        for finding in all.iter_mut().filter(|_| !sources.prefix.is_empty()) {
            finding.path = format!("{}/{}", sources.prefix, finding.path);
        }
        findings::number(&mut all);
        let open = findings::settle(&mut all, &self.earlier);
        let is_open = open.iter().any(|one| self.gate.counts(one.severity, one.confidence));
        taken.fails = is_open || self.gate.fails(&all) || is_incomplete && self.incomplete == Incomplete::Fail;
        taken.findings = all.iter().filter_map(|finding| serde_json::to_value(finding).ok()).collect();
        let coverage = review.map(|review| review.coverage.in_repository(sources.prefix));
        // A schema of the caller's own stays as it is.
        if taken.structured.as_ref().is_none_or(|value| value.get("findings").is_some()) {
            let mut value = serde_json::json!({"findings": taken.findings, "dropped": taken.dropped});
            if let Some(coverage) = &coverage {
                value["coverage"] = serde_json::to_value(coverage).unwrap_or_default();
            }
            taken.structured = Some(value);
        }
        let lines = all.iter().map(findings::line).chain(coverage.as_ref().map(Coverage::sentence));
        taken.text = Some(lines.collect::<Vec<_>>().join("\n"));
    }

    fn message(&self, text: &str) -> String {
        let text = text.trim();
        // A model that fences its whole answer means what is inside.
        let inner =
            text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")).and_then(|rest| rest.split_once('\n'));
        let text = inner.map_or(text, |(_, inner)| inner);
        let plain: String = text.chars().filter(|c| *c == '\n' || !crate::hidden::is_foreign(*c)).collect();
        plain.trim().chars().take(self.max_chars).collect()
    }
}

impl ParsedAnswer {
    /// Writes the parsed answer into the ending.
    pub fn complete(self, finished: &mut RunFinished) {
        finished.structured = self.structured;
        finished.findings = self.findings;
        finished.places = self.places;
        finished.dropped = self.dropped;
        if let Some(text) = self.text {
            finished.result = text;
        }
        if self.fails {
            finished.exit = finished.exit.or_worse(Exit::Gate);
        }
    }
}

/// Coerces an object to a schema like a call's arguments; returns it unchanged if that does not help.
fn coerced_to(schema: &Value, value: Value) -> Value {
    let Value::Object(object) = &value else { return value };
    let spec =
        ToolSpec { name: ToolId::StructuredOutput.to_string(), description: String::new(), parameters: schema.clone() };
    match Parameters::of(&spec).fit(object.clone()) {
        Ok(fitted) => Value::Object(fitted.arguments),
        Err(_) => value,
    }
}

/// Returns the last fenced block that is a JSON object or list, else the whole text if it is one, else a value at the
/// end of the text that begins a line. A fence inside a value does not end the block.
fn written_json(text: &str) -> Result<Value, String> {
    let mut last = None;
    let mut rest = text;
    while let Some(start) = rest.find("```") {
        let inner = &rest[start + 3..];
        let body = inner.find('\n').map_or(inner, |line| &inner[line + 1..]);
        let body = if is_json(body) { body } else { inner };
        if let Some((value, length)) = first_value(body) {
            last = Some(Ok(value));
            rest = &body[length..];
            rest = rest.find("```").map_or("", |end| &rest[end + 3..]);
            continue;
        }
        let (block, more) = inner.split_once("```").unwrap_or((inner, ""));
        let body = block.split_once('\n').map_or(block, |(_, body)| body).trim();
        if is_json(body) {
            last = Some(parsed(body));
        }
        rest = more;
    }
    last.or_else(|| Some(text.trim()).filter(|text| is_json(text)).map(parsed))
        .or_else(|| last_value(text).map(Ok))
        .unwrap_or_else(|| Err("the answer has no JSON object".to_owned()))
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Parses JSON, repairing it like a call's arguments; what was cut off is never completed.
fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).or_else(|error| {
        let reading = if text.starts_with('{') { Some(repair::read(text)) } else { None };
        match reading {
            Some(Reading::Fragments { mut pieces, .. }) if pieces.len() == 1 => match pieces.pop() {
                Some(Fragment::Object(object)) => Ok(Value::Object(object)),
                Some(Fragment::Incomplete(_)) | None => Err(format!("the JSON does not parse: {error}")),
            },
            Some(_) | None => Err(format!("the JSON does not parse: {error}")),
        }
    })
}

/// Parses the JSON object or list at the beginning of a text, and returns its length.
fn first_value(text: &str) -> Option<(Value, usize)> {
    let text = is_json(text).then_some(text)?;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// Parses the JSON object or list at the end of a text, if it begins a line.
fn last_value(text: &str) -> Option<Value> {
    let text = text.trim_end();
    let mut starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    starts.find_map(|start| {
        let rest = &text[start..];
        first_value(rest).filter(|(_, length)| *length == rest.len()).map(|(value, _)| value)
    })
}

/// Returns the message that sends an answer back to the model.
pub fn sent_back(problem: &str, left: u32) -> String {
    let left = if left == 1 { "This is the last try.".to_owned() } else { format!("{left} tries are left.") };
    format!("The answer does not fit its schema:\n{problem}\n\nGive the whole object again, corrected. {left}")
}

/// Returns the ending of a run whose answer still does not fit.
pub fn unfit(problem: &str) -> AnswerError {
    AnswerError::Unfit(problem.lines().next().unwrap_or_default().to_owned())
}

/// Reads `--json-schema`: a literal, or `@FILE`, which `read` reads.
pub fn schema_flag(given: &str, read: &dyn Fn(&str) -> Result<String, String>) -> Result<Value, AnswerError> {
    let wrong = AnswerError::Flag;
    let text = match given.strip_prefix('@') {
        Some(path) => read(path).map_err(|error| wrong(format!("{path}: {error}")))?,
        None => given.to_owned(),
    };
    let schema: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    crate::recipe::check::check_schema(&schema).map_err(|error| wrong(error.to_string()))?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::recipe::file::{Confidence, Severity};

    const GATE: Gate = Gate { fail_on: Severity::Error, fail_confidence: Confidence::Medium };

    fn wanted() -> AnswerSpec {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        AnswerSpec::new(&Output::default(), Some(schema), GATE).unwrap()
    }

    #[test]
    fn the_tool_wins_then_the_last_block_then_the_whole_text() {
        let wanted = wanted();
        let text = "first ```json\n{\"n\": 1}\n``` then\n```json\n{\"n\": 2}\n```";
        assert_eq!(wanted.take(Some(json!({"n": 3})), text).unwrap().structured, Some(json!({"n": 3})));
        assert_eq!(wanted.take(None, text).unwrap().structured, Some(json!({"n": 2})));
        assert_eq!(wanted.take(None, " {\"n\": 4} ").unwrap().structured, Some(json!({"n": 4})));
        assert_eq!(wanted.take(None, "{\"n\": \"x\"}").unwrap_err(), "at /n: \"x\" is not of type \"integer\"");
        assert_eq!(wanted.take(None, "no").unwrap_err(), "the answer has no JSON object");
        assert_eq!(wanted.take(None, "Here:\n{\"n\": 7}\n").unwrap().structured, Some(json!({"n": 7})));
        assert!(wanted.take(None, "Here:\n{\"n\": 7}\nor so").is_err());
        let fenced = "```json\n{\"n\": 5, \"t\": \"```sh\\nls\\n```\"}\n```\nDone, see ```n```.";
        assert_eq!(wanted.take(None, fenced).unwrap().structured.unwrap()["n"], 5);
        assert_eq!(wanted.take(None, "```{\"n\": 6}```").unwrap().structured, Some(json!({"n": 6})));
        let broken = wanted.take(None, "```json\n{\"n\": 5\n```\n").unwrap_err();
        assert!(broken.starts_with("the JSON does not parse"), "{broken}");
        let cut = wanted.take(None, "```json\n{\"n\": 5").unwrap_err();
        assert!(cut.starts_with("the JSON does not parse"), "{cut}");
    }

    #[test]
    fn what_a_small_model_means_is_taken() {
        let wanted = wanted();
        for text in ["{\"n\": \"8\"}", "{'n': 8,}", "```\n{n: 8}\n```"] {
            assert_eq!(wanted.take(None, text).unwrap().structured, Some(json!({"n": 8})), "{text}");
        }
        let repeated = json!({"type": "object", "required": ["n"], "properties": {"n": 8}}).to_string();
        assert_eq!(wanted.take(None, &repeated).unwrap().structured, Some(json!({"n": 8})));
        assert_eq!(wanted.take(None, "[8]").unwrap_err(), "the answer has a list instead of a JSON object");
        let output = Output { kind: OutputKind::Findings, ..Output::default() };
        let findings = AnswerSpec::new(&output, None, GATE).unwrap();
        let finding = |rule: &str| json!({"rule_id": rule, "severity": "note", "path": "a", "start_line": "1", "end_line": 1, "quote": "q", "message": "m", "confidence": "low"});
        let rules: Vec<Rule> = vec![findings::rule("known", Severity::Note)];
        let output = Output { kind: OutputKind::Findings, rules: Some(rules), ..Output::default() };
        let of_rules = AnswerSpec::new(&output, None, GATE).unwrap();
        let taken = of_rules.take(None, &json!([finding("made-up"), finding("known")]).to_string()).unwrap();
        assert_eq!(taken.structured.unwrap()["findings"][0]["rule_id"], "known");
        assert_eq!(taken.dropped, [("misfit".to_owned(), 1)].into());
        assert!(of_rules.take(None, &json!([finding("made-up")]).to_string()).is_err());
        let mut odd = finding("known");
        odd["suggestion"] = json!({"replacement": {"quote": "x"}});
        let taken = of_rules.take(None, &json!([odd]).to_string()).unwrap();
        assert_eq!(taken.structured.unwrap()["findings"][0].get("suggestion"), None);
        assert!(taken.dropped.is_empty(), "the finding stays");
        for text in ["[]", "```json\n[]\n```", "Nothing found.\n[]"] {
            assert_eq!(findings.take(None, text).unwrap().structured, Some(json!({"findings": []})), "{text}");
        }
    }

    #[test]
    fn a_message_is_plain_and_short() {
        let output = Output { kind: OutputKind::Message, max_chars: Some(6), ..Output::default() };
        let wanted = AnswerSpec::new(&output, None, GATE).unwrap();
        let taken = wanted.take(None, "```\nfix:\u{1b} all the things\n```").unwrap();
        assert_eq!(taken.text.as_deref(), Some("fix: a"));
    }
}
