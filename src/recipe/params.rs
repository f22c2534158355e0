//! Collects parameters from their sources and checks them against their declarations, without prompting.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

use super::command_line;
use super::file::{Given, Param, ParamType, Text};
use super::project::{LOOKED_FOR, Project, Purpose, Unclear};
use crate::base::cut;
use crate::base::document::yaml::nearest;
use crate::base::{Code, Diagnostic, Location};
use crate::hidden::is_foreign;
use crate::path::RelPath;
use crate::policy::protected::is_protected;

/// Where a value may come from next to the command line.
pub trait World {
    /// Reads a file that `k=@FILE` names.
    fn file(&self, path: &str) -> Result<String, String>;
    /// Reads the event of the CI at a JSON pointer.
    fn event(&self, pointer: &str) -> Result<Value, String>;
    /// Returns what the comment asks for that started the run.
    fn command(&self) -> Result<String, String>;
    /// Reads standard input.
    fn standard_input(&self) -> Result<String, String>;
    /// Returns a variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// Tells whether variables count.
    fn reads_variables(&self) -> bool {
        true
    }
    /// Returns the commands of the project, or why none of its files may be read.
    fn project(&self) -> Result<Project, String>;
    /// Returns the last tag before HEAD; `None` where there is none.
    fn last_tag(&self) -> Option<String>;
    /// Follows the links of a path below the workspace: whether it is there, or why it may not be named.
    fn path(&self, path: &RelPath) -> Result<bool, String>;
}

/// What the caller gave.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `--param k=v`, in order.
    pub flags: Vec<String>,
    /// `--params-file`.
    pub file: serde_json::Map<String, Value>,
    /// Values of an item of a batch: they are taken as they are.
    pub items: serde_json::Map<String, Value>,
}

/// The values of a run, by name.
pub type Bound = BTreeMap<String, Value>;

/// Finds and checks every value. All errors are found at once.
pub fn bind(params: &BTreeMap<String, Param>, sources: &Sources, world: &dyn World) -> Result<Bound, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut flags = flags(params, &sources.flags, world, &mut errors);
    for name in sources.file.keys().filter(|name| !params.contains_key(*name)) {
        errors.push(unknown(name, params));
    }
    let mut bound = Bound::new();
    let mut missing = Vec::new();
    for (name, param) in params {
        let texts = texts_of(name, param, flags.remove(name), sources, world);
        let texts = match texts {
            Ok(None) if is_last_tag(param) => match world.last_tag() {
                Some(tag) => Ok(Some(vec![tag])),
                None => {
                    let error = usage(Code::P001, format!("{name}: there is no tag before HEAD"));
                    errors.push(error.help(format!("add --param {name}=REVISION")));
                    continue;
                }
            },
            other => other,
        };
        if let (Ok(None), Some(purpose)) = (&texts, of_project(param)) {
            match project_command(world, purpose, Some(name)) {
                Ok(words) => drop(bound.insert(name.clone(), Value::from(words))),
                Err(error) => errors.push(error),
            }
            continue;
        }
        match texts.and_then(|texts| texts.map(|texts| convert(name, param, texts, Some(world))).transpose()) {
            Ok(Some(value)) => drop(bound.insert(name.clone(), value)),
            // What is wrong with a value that was given is said already.
            Ok(None) if sources.flags.iter().any(|flag| flag.split('=').next() == Some(name)) => {}
            Ok(None) => missing.push((name, param)),
            Err(error) => errors.push(error),
        }
    }
    if !missing.is_empty() {
        let lines: Vec<String> = missing
            .iter()
            .map(|(name, param)| format!("{name} ({}): {}", param.r#type.name(), param.description.value))
            .collect();
        let flags: Vec<String> = missing.iter().map(|(name, _)| format!("--param {name}=…")).collect();
        let noun = if missing.len() == 1 { "a parameter is" } else { "parameters are" };
        let error = usage(Code::P001, format!("{noun} missing: {}", lines.join("; ")));
        let untaken = missing.iter().any(|(_, param)| param.env.is_some()) && !world.reads_variables();
        let why = match untaken {
            true => {
                "; the recipe is of a checkout that is not trusted, so it takes nothing from the environment \
                 (`qwen policy trust`, or --trust-checkout)"
            }
            false => "",
        };
        errors.insert(0, error.help(format!("add {}{why}", flags.join(" "))));
    }
    if errors.is_empty() { Ok(bound) } else { Err(errors) }
}

/// Reads the values of flags, one for each time that a parameter is given.
fn flags(
    params: &BTreeMap<String, Param>,
    flags: &[String],
    world: &dyn World,
    errors: &mut Vec<Diagnostic>,
) -> BTreeMap<String, Vec<Raw>> {
    let mut found: BTreeMap<String, Vec<Raw>> = BTreeMap::new();
    for flag in flags {
        let Some((name, value)) = flag.split_once('=') else {
            let error = usage(Code::P003, format!("--param {flag} has no `=`"));
            errors.push(error.help("write --param NAME=VALUE"));
            continue;
        };
        match params.get(name).map(|param| read(name, param, value, world)) {
            None => errors.push(unknown(name, params)),
            Some(Ok(raw)) => found.entry(name.to_owned()).or_default().push(raw),
            Some(Err(error)) => errors.push(error),
        }
    }
    found
}

/// Returns the texts of a parameter: those of flags, else of the file, its variable or its default; `None` without any.
fn texts_of(
    name: &str,
    param: &Param,
    flags: Option<Vec<Raw>>,
    sources: &Sources,
    world: &dyn World,
) -> Result<Option<Vec<String>>, Diagnostic> {
    if let Some(given) = flags {
        if given.len() > 1 && param.r#type != ParamType::List {
            return Err(usage(Code::P003, format!("--param {name} is given twice and is not a list")));
        }
        return Ok(Some(given.into_iter().flat_map(|Raw(texts)| texts).collect()));
    }
    let given = [(&sources.items, "of the item"), (&sources.file, "in the parameters file")];
    for (values, place) in given {
        if let Some(value) = values.get(name) {
            let message = || format!("{name} {place} is {}, which is not allowed", kind(value));
            return from_json(value).map(Some).ok_or_else(|| usage(Code::P003, message()));
        }
    }
    let variable = param.env.as_ref().and_then(|variable| world.variable(variable.as_str()));
    let default = param.default.as_ref().filter(|_| of_project(param).is_none() && !is_last_tag(param));
    Ok(variable.map(|text| split(param, text)).or_else(|| default.map(defaults)))
}

/// Tells whether a parameter is the last tag by default.
fn is_last_tag(param: &Param) -> bool {
    matches!((&param.default, param.r#type), (Some(Given::One(text)), ParamType::String) if text.value == "git.last_tag")
}

/// Returns the command of the project that a parameter has by default.
fn of_project(param: &Param) -> Option<Purpose> {
    match (&param.default, param.r#type) {
        (Some(Given::One(text)), ParamType::Command) => Purpose::of(text.as_str()),
        (_, _) => None,
    }
}

/// Returns the words of the project's command for a purpose. `param` is the parameter that can give another one.
pub fn project_command(world: &dyn World, purpose: Purpose, param: Option<&str>) -> Result<Vec<String>, Diagnostic> {
    let what = purpose.name();
    let give = match param {
        Some(param) => format!("add --param {param}='COMMAND'"),
        None => "use a parameter with `type: command` in the recipe".to_owned(),
    };
    let param = param.map_or_else(|| format!("project.{what}"), str::to_owned);
    let project = world.project().map_err(|why| {
        usage(Code::P001, format!("{param}: the command to {what} is unknown: {why}")).help(give.clone())
    })?;
    project.command(purpose).map(<[String]>::to_vec).map_err(|unclear| match unclear {
        Unclear::None => {
            let message = format!("{param}: no file of the project gives a command to {what}");
            usage(Code::P001, message).help(format!("{give}; looked for {LOOKED_FOR}"))
        }
        Unclear::Several(all) => {
            let all: Vec<String> = all.iter().map(|words| words.join(" ")).collect();
            usage(Code::P003, format!("{param}: several: {}", all.join(", "))).help(give)
        }
    })
}

/// Checks a default against its declaration; the message alone, without the parameter's place.
pub fn check_default(name: &str, param: &Param) -> Result<Value, String> {
    match &param.default {
        None => Ok(Value::Null),
        Some(_) if of_project(param).is_some() || is_last_tag(param) => Ok(Value::Null),
        Some(Given::One(text)) if param.r#type == ParamType::Command && text.value.starts_with("project.") => {
            let words = Purpose::ALL.map(|purpose| format!("project.{}", purpose.name()));
            Err(format!("`{}` is none of {}", text.value, words.join(", ")))
        }
        Some(given) => convert(name, param, defaults(given), None).map_err(|error| error.message),
    }
}

struct Raw(Vec<String>);

fn usage(code: Code, message: String) -> Diagnostic {
    Diagnostic::new(code, Location::default(), message)
}

fn unknown(name: &str, params: &BTreeMap<String, Param>) -> Diagnostic {
    let error = |message: String| usage(Code::P002, message);
    match nearest(name, params.keys().map(String::as_str)) {
        Some(near) => error(format!("unknown parameter `{name}`; did you mean `{near}`?")),
        None if params.is_empty() => error(format!("unknown parameter `{name}`; this recipe has none")),
        None => error(format!("unknown parameter `{name}`"))
            .help(format!("use one of {}", params.keys().cloned().collect::<Vec<_>>().join(", "))),
    }
}

/// Reads what is after the `=` of a flag.
fn read(name: &str, param: &Param, value: &str, world: &dyn World) -> Result<Raw, Diagnostic> {
    let failed = |what: String| usage(Code::P003, format!("{name}: {what}"));
    if let Some(literal) = value.strip_prefix("@@") {
        return Ok(Raw(vec![format!("@{literal}")]));
    }
    if let Some(pointer) = value.strip_prefix("@event:") {
        if param.r#type == ParamType::Command {
            return Err(failed("a command is never taken from an event".to_owned()));
        }
        // What strangers wrote may only go where it is fenced, or where a rule says which texts there can be.
        let is_text = !matches!(param.r#type, ParamType::Integer | ParamType::Number | ParamType::Boolean);
        if is_text && !param.untrusted && param.pattern.is_none() && param.r#enum.is_none() {
            return Err(failed(
                "a text of the event needs a parameter with `untrusted: true`, `pattern` or `enum`".into(),
            )
            .help("declare the parameter so in the recipe"));
        }
        let value = world.event(pointer).map_err(|problem| failed(format!("@event:{pointer}: {problem}")))?;
        return match value {
            Value::Null => Ok(Raw(vec![String::new()])),
            value => from_json(&value).map(Raw).ok_or_else(|| failed(format!("@event:{pointer} is {}", kind(&value)))),
        };
    }
    if value == "@command" {
        if !param.command {
            let help = "declare it with `command: true`, or name a file with `@./command`";
            return Err(failed("what a comment asks for needs a parameter with `command: true`".into()).help(help));
        }
        let text = world.command().map_err(|problem| failed(format!("@command: {problem}")))?;
        return Ok(Raw(vec![text]));
    }
    if let Some(path) = value.strip_prefix('@') {
        let text = world.file(path).map_err(|problem| failed(format!("@{path}: {problem}")))?;
        return Ok(Raw(split(param, text)));
    }
    if value == "-" {
        return world
            .standard_input()
            .map(|text| Raw(split(param, text)))
            .map_err(|problem| failed(format!("-: {problem}")));
    }
    Ok(Raw(vec![value.to_owned()]))
}

/// A text that was read whole: one value, or for a list one a line.
fn split(param: &Param, text: String) -> Vec<String> {
    match param.r#type {
        ParamType::List => text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        ParamType::String => vec![text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)],
        ParamType::Integer
        | ParamType::Number
        | ParamType::Boolean
        | ParamType::Path
        | ParamType::Enum
        | ParamType::Command => {
            vec![text.trim_end_matches(['\r', '\n']).to_owned()]
        }
    }
}

fn defaults(given: &Given) -> Vec<String> {
    match given {
        Given::One(text) => vec![text.value.clone()],
        Given::Many(texts) => texts.iter().map(|text| text.value.clone()).collect(),
    }
}

fn from_json(value: &Value) -> Option<Vec<String>> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    match value {
        Value::Array(items) => items.iter().map(scalar).collect(),
        other => scalar(other).map(|text| vec![text]),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn convert(name: &str, param: &Param, texts: Vec<String>, world: Option<&dyn World>) -> Result<Value, Diagnostic> {
    // A message does not quote what is secret or untrusted.
    let quoted = |text: &str| {
        if param.untrusted || param.secret { "the value".to_owned() } else { format!("`{text}`") }
    };
    let wrong = |rule: String| usage(Code::P003, format!("{name}: {rule}"));
    if param.r#type == ParamType::List {
        let items =
            texts.into_iter().map(|text| checked(param, text, &quoted, &wrong)).collect::<Result<Vec<_>, _>>()?;
        return Ok(Value::from(items));
    }
    let [text] = <[String; 1]>::try_from(texts)
        .map_err(|texts| wrong(format!("{} values, but it is not a list", texts.len())))?;
    let text = checked(param, text, &quoted, &wrong)?;
    match param.r#type {
        ParamType::String | ParamType::List => Ok(Value::String(text)),
        ParamType::Enum => Ok(Value::String(text)),
        ParamType::Boolean => match text.as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(wrong(format!("{} is not true or false", quoted(&text)))),
        },
        ParamType::Integer => {
            let number: i64 = text.parse().map_err(|_| wrong(format!("{} is not a whole number", quoted(&text))))?;
            in_range(param, number as f64).map_err(wrong)?;
            Ok(Value::from(number))
        }
        ParamType::Number => {
            let number: Option<f64> = text.parse().ok().filter(|number: &f64| number.is_finite());
            let number = number.ok_or_else(|| wrong(format!("{} is not a number", quoted(&text))))?;
            in_range(param, number).map_err(wrong)?;
            Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
        }
        ParamType::Path => path(name, param, &text, world, &quoted(&text)),
        // No words: no command, where the recipe can do without.
        ParamType::Command if text.trim().is_empty() => Ok(Value::Array(Vec::new())),
        ParamType::Command => {
            let words = command_line::words(&text).map_err(|why| wrong(format!("{}: {why}", quoted(&text))))?;
            Ok(Value::from(words))
        }
    }
}

fn checked(
    param: &Param,
    mut text: String,
    quoted: &dyn Fn(&str) -> String,
    wrong: &dyn Fn(String) -> Diagnostic,
) -> Result<String, Diagnostic> {
    if param.untrusted {
        text.retain(|c| !is_foreign(c));
    } else if text.contains('\0') {
        return Err(wrong("a NUL character".to_owned()));
    }
    if param.secret && (text.len() < 8 || text.starts_with('/') || text.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(wrong(
            "a secret has 8 characters or more and is neither a number nor a path, else it could not be masked"
                .to_owned(),
        ));
    }
    if let Some(most) = param.max_bytes
        && text.len() > most
    {
        if !param.untrusted {
            return Err(wrong(format!("{} bytes; at most {most}", text.len())));
        }
        text.truncate(cut::end(&text, most));
    }
    if let Some(words) = &param.r#enum
        && !words.iter().any(|word| word.value == text)
    {
        let words: Vec<&str> = words.iter().map(Text::as_str).collect();
        return Err(wrong(format!("{} is not one of {}", quoted(&text), words.join(", "))));
    }
    if let Some(pattern) = &param.pattern {
        let whole = whole(pattern.as_str()).map_err(&wrong)?;
        if !whole.is_match(&text) {
            return Err(wrong(format!("{} does not match `{}`", quoted(&text), pattern.value)));
        }
    }
    Ok(text)
}

/// Compiles a pattern that the whole value must match.
pub fn whole(pattern: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
        .size_limit(1 << 20)
        .build()
        .map_err(|error| format!("`{pattern}` is not a regular expression: {}", last_line(&error.to_string())))
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ")
}

fn in_range(param: &Param, number: f64) -> Result<(), String> {
    match (param.min, param.max) {
        (Some(min), _) if number < min => Err(format!("less than {min}")),
        (_, Some(max)) if number > max => Err(format!("more than {max}")),
        _ => Ok(()),
    }
}

fn path(name: &str, param: &Param, text: &str, world: Option<&dyn World>, quoted: &str) -> Result<Value, Diagnostic> {
    let wrong = |what: String| usage(Code::P004, format!("{name}: {what}"));
    let normal = normalised(text).ok_or_else(|| {
        wrong(format!("{quoted} is not inside the workspace")).help("give a relative path without `..` out of it")
    })?;
    let Some(world) = world else { return Ok(Value::String(normal.to_string_lossy())) };
    if param.writes && is_protected(&normal) {
        let help = "name another file: no recipe may write this one";
        return Err(wrong(format!("{quoted} is protected")).help(help));
    }
    let exists = world.path(&normal).map_err(|problem| wrong(format!("{quoted} {problem}")))?;
    if param.must_exist && !exists {
        return Err(wrong(format!("{quoted} does not exist")).help("name a file of the workspace"));
    }
    Ok(Value::String(normal.to_string_lossy()))
}

/// Takes `.` and `..` out of a relative path; `None` if it leaves the directory, is absolute or empty.
pub fn normalised(text: &str) -> Option<RelPath> {
    if text.is_empty() || text.starts_with('/') || text.contains('\0') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            other => parts.push(other),
        }
    }
    if parts.is_empty() { None } else { RelPath::new(parts.join("/")) }
}

#[cfg(test)]
pub(crate) mod tests;
