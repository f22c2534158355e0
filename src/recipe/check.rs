//! A whole recipe, checked: what passes here can be bound and rendered.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::{Code, RecipeError, Warning};
use super::file::{
    CacheKey, CheckFile, Context, Kind, Limits, Needs, Output, OutputKind, Param, ParamType, Place, RecipeFile,
    Severity, Text,
};
use super::render::{self, NAMESPACES, Renderer, Values, is_template};
use super::{needs, params};
use crate::event::RecipeFacts;
use crate::yaml::nearest;

/// A recipe that holds together.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The merged file.
    pub file: RecipeFile,
    /// Where it comes from, as messages say it.
    pub source: String,
    /// The digest of the merged form.
    pub sha256: String,
    /// What the owner should know.
    pub warnings: Vec<Warning>,
}

/// The texts of the files that a recipe is made of, by the name that messages use.
pub type Texts = BTreeMap<String, String>;

impl Recipe {
    /// Checks a merged file. `stem` is the file's name without its ending. All errors are found at once.
    pub fn check(file: RecipeFile, stem: &str, source: &str, texts: &Texts) -> Result<Recipe, Vec<RecipeError>> {
        let canonical = serde_json::to_vec(&file).expect("a recipe is a map of texts, numbers and lists");
        let sha256 = Sha256::digest(&canonical).iter().map(|byte| format!("{byte:02x}")).collect();
        let mut checker = Checker { file, source, errors: Vec::new(), warnings: Vec::new(), used: BTreeSet::new() };
        checker.head(stem);
        checker.declarations();
        checker.templates();
        checker.needs();
        checker.guards();
        checker.verify();
        checker.output();
        if checker.errors.is_empty() {
            checker.warn();
        }
        let Checker { file, mut errors, mut warnings, .. } = checker;
        for problem in errors.iter_mut().chain(warnings.iter_mut()) {
            if let Some(text) = texts.get(&*problem.place.file) {
                *problem = problem.clone().with_snippet(text);
            }
        }
        if errors.is_empty() { Ok(Recipe { file, source: source.to_owned(), sha256, warnings }) } else { Err(errors) }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.file.name.as_ref().map_or("", Text::as_str)
    }

    /// Returns name, version and digest for the result.
    pub fn facts(&self) -> RecipeFacts {
        RecipeFacts {
            name: self.name().to_owned(),
            version: self.file.version.as_ref().map(|version| version.value.clone()),
            sha256: self.sha256.clone(),
        }
    }

    /// Returns what the recipe asks of the policy.
    pub fn needs(&self) -> Option<&Needs> {
        self.file.needs.as_ref().and_then(Option::as_ref)
    }

    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        self.file.limits.clone().unwrap_or_default()
    }

    /// Returns the parameters.
    pub fn params(&self) -> BTreeMap<String, Param> {
        self.file.params.clone().unwrap_or_default()
    }

    /// Returns what the run gives back.
    pub fn output(&self) -> Output {
        self.file.output.clone().unwrap_or_default()
    }

    /// Returns the gathered inputs, in order.
    pub fn context(&self) -> &[Context] {
        self.file.context.as_deref().unwrap_or_default()
    }

    /// Returns the checks, in order.
    pub fn checks(&self) -> &[CheckFile] {
        self.file.verify.as_ref().and_then(|verify| verify.checks.as_deref()).unwrap_or_default()
    }

    /// Returns the names (`params.x`, `context.y`) whose text strangers may have written.
    pub fn untrusted(&self) -> BTreeSet<String> {
        untrusted(&self.file)
    }
}

fn untrusted(file: &RecipeFile) -> BTreeSet<String> {
    let params = file.params.iter().flatten().filter(|(_, param)| param.untrusted);
    let mut names: BTreeSet<String> = params.map(|(name, _)| format!("params.{name}")).collect();
    for context in file.context.iter().flatten() {
        let of_param = context.param.as_ref().is_some_and(|param| names.contains(&format!("params.{}", param.value)));
        if context.untrusted || of_param {
            names.insert(format!("context.{}", context.name.value));
        }
    }
    names
}

struct Checker<'a> {
    file: RecipeFile,
    source: &'a str,
    errors: Vec<RecipeError>,
    warnings: Vec<Warning>,
    used: BTreeSet<String>,
}

impl Checker<'_> {
    fn error(&mut self, code: Code, place: &Place, message: impl Into<String>) {
        self.errors.push(RecipeError::new(code, place.clone(), message));
    }

    fn error_with_help(&mut self, code: Code, place: &Place, message: impl Into<String>, help: impl Into<String>) {
        self.errors.push(RecipeError::new(code, place.clone(), message).help(help));
    }

    fn top(&self) -> Place {
        Place { file: self.source.into(), line: 0, column: 0 }
    }

    fn head(&mut self, stem: &str) {
        match self.file.name.clone() {
            None => {
                self.error_with_help(Code::R005, &self.top(), "there is no `name`", format!("write `name: {stem}`"))
            }
            Some(name) if !is_slug(&name.value) => self.error_with_help(
                Code::R005,
                &name.place,
                format!("`name`: `{}` is no slug", name.value),
                "write lower-case letters, digits and single hyphens",
            ),
            Some(name) if name.value != stem => self.error_with_help(
                Code::R012,
                &name.place,
                format!("the name is `{}` and the file is `{stem}`", name.value),
                format!("write `name: {stem}`, or rename the file"),
            ),
            Some(_) => {}
        }
        match self.file.description.clone() {
            None => self.error(Code::R005, &self.top(), "there is no `description`"),
            Some(text) if text.value.trim().is_empty() || text.value.trim().contains('\n') => {
                self.error(Code::R005, &text.place, "`description` is one line of text");
            }
            Some(_) => {}
        }
        match (self.file.prompt.clone(), self.file.prompt_file.clone()) {
            (None, None) => {
                self.error_with_help(
                    Code::R005,
                    &self.top(),
                    "there is no `prompt`",
                    "write `prompt:` or `prompt_file:`",
                );
            }
            (Some(text), None) if text.value.trim().is_empty() => {
                self.error(Code::R005, &text.place, "`prompt` is empty");
            }
            (_, Some(_)) | (Some(_), None) => {}
        }
        if let Some(version) = self.file.version.clone()
            && parse_version(&version.value).is_none()
        {
            self.error(Code::R005, &version.place, format!("`version`: `{}` is not of the form 1.2.3", version.value));
        }
        if let Some(range) = self.file.requires.as_ref().and_then(|requires| requires.qwen.clone())
            && let Err(problem) = satisfies(&range.value, "0.0.0")
        {
            self.error(Code::R005, &range.place, format!("`requires.qwen`: {problem}"));
        }
    }

    fn declarations(&mut self) {
        for (name, param) in self.file.params.clone().iter().flatten() {
            let place = param.description.place.clone();
            let path = format!("params.{name}");
            if !is_name(name) {
                self.error(Code::R005, &place, format!("`{path}`: a name is lower-case letters, digits and `_`"));
            }
            if (param.r#type == ParamType::Enum) != param.r#enum.is_some() {
                self.error(Code::R005, &place, format!("`{path}`: `type: enum` and `enum: [..]` belong together"));
            }
            let is_number = matches!(param.r#type, ParamType::Integer | ParamType::Number);
            if !is_number && (param.min.is_some() || param.max.is_some()) {
                self.error(Code::R005, &place, format!("`{path}`: `min` and `max` are for numbers"));
            }
            if param.must_exist && param.r#type != ParamType::Path {
                self.error(Code::R005, &place, format!("`{path}`: `must_exist` is for paths"));
            }
            if let Some(pattern) = &param.pattern
                && let Err(problem) = params::whole(&pattern.value)
            {
                self.error(Code::R005, &pattern.place, format!("`{path}.pattern`: {problem}"));
                continue;
            }
            if let Err(problem) = params::check_default(name, param) {
                self.error(Code::R005, &place, format!("`{path}.default`: {problem}"));
            }
        }
        let mut names = BTreeSet::new();
        for context in self.file.context.clone().iter().flatten() {
            let place = &context.name.place;
            let path = format!("context.{}", context.name.value);
            if !is_name(context.name.as_str()) {
                self.error(Code::R005, place, format!("`{path}`: a name is lower-case letters, digits and `_`"));
            }
            if !names.insert(context.name.value.clone()) {
                self.error(Code::R005, place, format!("`{path}` is there twice"));
            }
            let sources = [
                context.run.is_some(),
                context.file.is_some(),
                context.glob.is_some(),
                context.diff.is_some(),
                context.stdin == Some(true),
                context.param.is_some(),
            ];
            if sources.iter().filter(|given| **given).count() != 1 {
                self.error(
                    Code::R005,
                    place,
                    format!("`{path}` needs exactly one of `run`, `file`, `glob`, `diff`, `stdin` and `param`"),
                );
            }
            if context.run.as_ref().is_some_and(Vec::is_empty) {
                self.error(Code::R005, place, format!("`{path}.run` names no program"));
            }
            let is_range = context.diff == Some(super::file::DiffKind::Range);
            if is_range != context.range.is_some() {
                self.error(Code::R005, place, format!("`{path}`: `diff: range` and `range` belong together"));
            }
            if let Some(param) = &context.param {
                match self.file.params.iter().flatten().find(|(name, _)| **name == param.value) {
                    None => self.error(
                        Code::R007,
                        &param.place,
                        format!("`{path}.param`: there is no parameter `{}`", param.value),
                    ),
                    Some(_) => drop(self.used.insert(format!("params.{}", param.value))),
                }
            }
        }
    }

    fn templates(&mut self) {
        let mut found: Vec<(String, Kind, Text)> = Vec::new();
        self.file.clone().each_text(&mut |path, kind, text| found.push((path.to_owned(), kind, text.clone())));
        let untrusted = untrusted(&self.file);
        let secret: BTreeSet<String> = self
            .file
            .params
            .iter()
            .flatten()
            .filter(|(_, param)| param.secret)
            .map(|(name, _)| format!("params.{name}"))
            .collect();
        for (path, kind, text) in &found {
            match kind {
                Kind::Plain => {}
                Kind::Fixed => {
                    if is_template(&text.value) {
                        self.error_with_help(
                            Code::R010,
                            &text.place,
                            format!("`{path}`: a template; permissions cannot depend on input"),
                            "write the value itself",
                        );
                    }
                }
                Kind::Prompt | Kind::Template | Kind::Word => {
                    self.template(path, *kind, text, &untrusted, &secret);
                }
            }
        }
        if self.errors.is_empty() {
            self.render_once(&found);
        }
    }

    fn template(
        &mut self,
        path: &str,
        kind: Kind,
        text: &Text,
        untrusted: &BTreeSet<String>,
        secret: &BTreeSet<String>,
    ) {
        let names = match render::names(&text.value) {
            Ok(names) => names,
            Err(problem) => {
                let message = format!("`{path}`, line {} of it: {}", problem.line, problem.message);
                return self.error(Code::R006, &text.place, message);
            }
        };
        for name in names {
            let mut parts = name.split('.');
            let (space, member) = (parts.next().unwrap_or_default(), parts.next());
            let Some((_, members)) = NAMESPACES.iter().find(|(known, _)| *known == space) else {
                let spaces: Vec<&str> = NAMESPACES.iter().map(|(name, _)| *name).collect();
                let near = nearest(space, spaces.iter().copied()).unwrap_or("params");
                self.error_with_help(
                    Code::R006,
                    &text.place,
                    format!("`{path}`: there is no `{name}` in templates"),
                    format!("names begin with {}; perhaps `{near}.{}`", spaces.join(", "), member.unwrap_or(space)),
                );
                continue;
            };
            let Some(member) = member else {
                self.error(Code::R006, &text.place, format!("`{path}`: name one of `{space}`, as `{space}.x`"));
                continue;
            };
            let full = format!("{space}.{member}");
            let known: Vec<String> = match (space, members) {
                (_, Some(members)) => members.iter().map(|member| (*member).to_owned()).collect(),
                ("params", None) => self.file.params.iter().flatten().map(|(name, _)| name.clone()).collect(),
                (_, None) => self.file.context.iter().flatten().map(|context| context.name.value.clone()).collect(),
            };
            if !known.iter().any(|known| known == member) {
                let message = match nearest(member, known.iter().map(String::as_str)) {
                    Some(near) => format!("`{path}`: `{full}` is not declared; did you mean `{space}.{near}`?"),
                    None => format!("`{path}`: `{full}` is not declared"),
                };
                self.error(Code::R007, &text.place, message);
                continue;
            }
            if space == "context" && kind != Kind::Prompt {
                self.error(Code::R006, &text.place, format!("`{path}`: `context` is known in `prompt` alone"));
            }
            if untrusted.contains(&full) && kind != Kind::Prompt {
                self.error_with_help(
                    Code::R009,
                    &text.place,
                    format!("`{path}`: `{full}` is untrusted and may stand in `prompt` alone"),
                    "declare a `pattern` or `enum` instead of `untrusted`, or leave it out here",
                );
            }
            if secret.contains(&full) {
                self.error(Code::R009, &text.place, format!("`{path}`: `{full}` is secret and may stand in no text"));
            }
            self.used.insert(full);
        }
    }

    /// Filters are only looked at when a template is rendered, so each is rendered with full and with empty values.
    fn render_once(&mut self, found: &[(String, Kind, Text)]) {
        let untrusted = untrusted(&self.file);
        for text in ["x", ""] {
            let dummy = |param: &Param| match param.r#type {
                ParamType::String | ParamType::Path | ParamType::Enum => Value::from(text),
                ParamType::Integer => Value::from(i64::from(text.len() as u8)),
                ParamType::Number => Value::from(0.5),
                ParamType::Boolean => Value::from(!text.is_empty()),
                ParamType::List => Value::from(vec![text]),
            };
            let fixed = |space: &str| {
                let members = NAMESPACES.iter().find(|(name, _)| *name == space).and_then(|(_, members)| *members);
                members.unwrap_or_default().iter().map(|member| (*member, text.to_owned())).collect()
            };
            let renderer = Renderer::new(&Values {
                params: self.file.params.iter().flatten().map(|(name, param)| (name.clone(), dummy(param))).collect(),
                context: self
                    .file
                    .context
                    .iter()
                    .flatten()
                    .map(|context| (context.name.value.clone(), text.to_owned()))
                    .collect(),
                git: fixed("git"),
                run: fixed("run"),
                recipe: fixed("recipe"),
                untrusted: untrusted.clone(),
                secret: Vec::new(),
            });
            for (path, kind, text) in found {
                let result = match kind {
                    Kind::Plain | Kind::Fixed => continue,
                    Kind::Prompt | Kind::Template => renderer.text(&text.value).map(drop),
                    Kind::Word => renderer.words(&["--", &text.value]).map(drop),
                };
                if let Err(problem) = result {
                    let message = format!("`{path}`, line {} of it: {}", problem.line, problem.message);
                    if !self.errors.iter().any(|error| error.message == message) {
                        self.error(Code::R006, &text.place, message);
                    }
                }
            }
        }
    }

    fn needs(&mut self) {
        let Some(Some(asked)) = self.file.needs.clone() else { return };
        for (key, globs) in
            [("read", &asked.read), ("write", &asked.write), ("create", &asked.create), ("delete", &asked.delete)]
        {
            self.globs(&format!("needs.{key}"), globs.as_deref().unwrap_or_default());
        }
        for text in asked.run.iter().flatten() {
            if let Err(problem) = needs::command(&text.value) {
                self.error(Code::R005, &text.place, format!("`needs.run`: {problem}"));
            }
        }
        for text in asked.net.iter().flatten() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let host = text.value.strip_prefix("*.").unwrap_or(&text.value);
            if host.is_empty() || !host.chars().all(plain) {
                self.error(Code::R005, &text.place, format!("`needs.net`: `{}` is no host", text.value));
            }
        }
        for text in asked.tools.iter().flatten() {
            let known = crate::tool_name::BUILT_IN;
            if !known.contains(&text.as_str()) {
                let message = match nearest(&text.value, known.iter().copied()) {
                    Some(near) => format!("`needs.tools`: there is no tool `{}`; did you mean `{near}`?", text.value),
                    None => format!("`needs.tools`: there is no tool `{}`", text.value),
                };
                self.error(Code::R005, &text.place, message);
            }
        }
    }

    fn globs(&mut self, path: &str, globs: &[Text]) {
        for text in globs {
            let inside = !text.value.starts_with('/') && !text.value.split('/').any(|part| part == "..");
            if !inside || text.value.is_empty() || globset::Glob::new(&text.value).is_err() {
                let message = format!("`{path}`: `{}` is no glob relative to the workspace", text.value);
                self.error(Code::R005, &text.place, message);
            }
        }
    }

    fn guards(&mut self) {
        let Some(guards) = self.file.guards.clone() else { return };
        self.globs("guards.only_paths", guards.only_paths.as_deref().unwrap_or_default());
        self.globs("guards.never_paths", guards.never_paths.as_deref().unwrap_or_default());
        for rule in guards.forbid_added.iter().chain(&guards.forbid_removed).flatten() {
            if let Err(problem) = params::whole(&rule.pattern.value) {
                self.error(Code::R005, &rule.pattern.place, format!("`guards`: {problem}"));
            }
        }
    }

    fn verify(&mut self) {
        let Some(verify) = self.file.verify.clone() else { return };
        if verify.attempts == Some(0) {
            self.error(Code::R005, &self.top(), "`verify.attempts` is at least 1");
        }
        let mut names = BTreeSet::new();
        for check in verify.checks.iter().flatten() {
            let path = format!("verify.checks.{}", check.name.value);
            if check.run.is_empty() {
                self.error(Code::R005, &check.name.place, format!("`{path}.run` names no program"));
            }
            if check.repeat.is_some_and(|times| times == 0 || times > 100) {
                self.error(Code::R005, &check.name.place, format!("`{path}.repeat` is 1 to 100"));
            }
            if !names.insert(check.name.value.clone()) {
                self.error(Code::R005, &check.name.place, format!("`{path}` is there twice"));
            }
        }
    }

    fn output(&mut self) {
        let Some(output) = self.file.output.clone() else { return };
        let top = self.top();
        let is_json = output.kind == OutputKind::Json;
        match (&output.schema, is_json) {
            (None, true) if output.schema_file.is_none() => {
                self.error(Code::R011, &top, "`output.kind: json` needs a `schema` or `schema_file`");
            }
            (Some(_), false) => self.error(Code::R005, &top, "`output.schema` belongs to `kind: json`"),
            (Some(schema), true) => {
                if let Err(problem) = check_schema(schema) {
                    self.error(Code::R011, &top, format!("`output.schema`: {problem}"));
                }
            }
            (None, _) => {}
        }
        let is_findings = output.kind == OutputKind::Findings;
        let rules = output.rules.as_deref().unwrap_or_default();
        if is_findings && rules.is_empty() {
            self.error(Code::R005, &top, "`output.kind: findings` needs `rules`, so that ids stay the same");
        }
        let mut ids = BTreeSet::new();
        for rule in rules {
            if !is_slug(&rule.id.value) || !ids.insert(rule.id.value.clone()) {
                let message = format!("`output.rules`: `{}` is no slug, or there twice", rule.id.value);
                self.error(Code::R005, &rule.id.place, message);
            }
            if rule.severity == Some(Severity::Never) {
                self.error(Code::R005, &rule.id.place, "`severity` is error, warning or note");
            }
        }
        for (given, kind, key) in [
            (output.rules.is_some(), is_findings, "rules"),
            (output.filter.is_some(), is_findings, "filter"),
            (output.max_findings.is_some(), is_findings, "max_findings"),
            (output.fail_on.is_some(), is_findings, "fail_on"),
            (output.max_chars.is_some(), output.kind == OutputKind::Message, "max_chars"),
        ] {
            if given && !kind {
                self.error(Code::R005, &top, format!("`output.{key}` does not belong to this `kind`"));
            }
        }
    }

    fn warn(&mut self) {
        let file = self.file.clone();
        let mut warn = |code: Code, place: &Place, message: String| {
            self.warnings.push(RecipeError::new(code, place.clone(), message));
        };
        let top = Place { file: self.source.into(), line: 0, column: 0 };
        for (name, param) in file.params.iter().flatten() {
            if !param.secret && !self.used.contains(&format!("params.{name}")) {
                warn(Code::W101, &param.description.place, format!("the parameter `{name}` is not used"));
            }
        }
        for context in file.context.iter().flatten() {
            let skips = context.on_empty.is_some_and(|on_empty| on_empty != super::file::OnEmpty::Continue);
            if !skips && !self.used.contains(&format!("context.{}", context.name.value)) {
                warn(Code::W103, &context.name.place, format!("the input `{}` is not used", context.name.value));
            }
        }
        let cached = file.cache.as_ref().is_some_and(|cache| cache.key == Some(CacheKey::Context));
        if cached && let Some(prompt) = &file.prompt {
            let names = render::names(&prompt.value).unwrap_or_default();
            if names.iter().any(|name| name.starts_with("run.")) {
                let message = "`run.*` in the prompt of a cached recipe: no answer is ever found again".to_owned();
                warn(Code::W102, &prompt.place, message);
            }
        }
        let is_changes = file.output.as_ref().is_some_and(|output| output.kind == OutputKind::Changes);
        if is_changes && file.verify.as_ref().is_none_or(|verify| verify.checks.iter().flatten().next().is_none()) {
            warn(Code::W104, &top, "it gives changes and nothing verifies them".to_owned());
        }
        if file.limits.as_ref().is_none_or(|limits| limits.cost_usd.is_none()) {
            warn(Code::W105, &top, "there is no `limits.cost_usd`".to_owned());
        }
        let needs = file.needs.as_ref().and_then(Option::as_ref);
        if let Some(text) =
            needs.into_iter().flat_map(|needs| needs.run.iter().flatten()).find(|text| text.value == "**")
        {
            warn(Code::W106, &text.place, "`needs.run` asks for every command".to_owned());
        }
        let acts = needs.is_some_and(|needs| {
            [&needs.write, &needs.create, &needs.delete, &needs.run, &needs.net]
                .iter()
                .any(|list| list.as_ref().is_some_and(|list| !list.is_empty()))
        });
        if acts && !untrusted(&file).is_empty() {
            warn(Code::W107, &top, "untrusted text comes beside the right to write, run or reach out".to_owned());
        }
    }
}

/// Says what is wrong with a schema of an answer: it must be valid, of an object, and complete in itself.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    fn remote(value: &Value) -> Option<&str> {
        match value {
            Value::Object(map) => map.iter().find_map(|(key, value)| match (key.as_str(), value.as_str()) {
                ("$ref" | "$dynamicRef", Some(target)) if !target.starts_with('#') => Some(target),
                _ => remote(value),
            }),
            Value::Array(items) => items.iter().find_map(remote),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("the answer is an object: write `type: object`".to_owned());
    }
    if let Some(target) = remote(schema) {
        return Err(format!("`$ref: {target}` leads out of the schema"));
    }
    jsonschema::validator_for(schema).map(drop).map_err(|error| format!("at {}: {error}", error.instance_path()))
}

/// Reads `1.2.3`.
pub fn parse_version(text: &str) -> Option<[u64; 3]> {
    let parts: Vec<u64> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    <[u64; 3]>::try_from(parts).ok()
}

/// Tells whether a version lies in a range: comparisons with `>=`, `>`, `<=`, `<`, `=`, joined by commas.
pub fn satisfies(range: &str, version: &str) -> Result<bool, String> {
    let wrong = |part: &str| format!("`{part}` is no range; write for example `>=0.1, <2`");
    let own = parse_version(version).ok_or_else(|| wrong(version))?;
    let mut all = true;
    for part in range.split(',').map(str::trim) {
        let (operator, number) = ["<=", ">=", "<", ">", "="]
            .iter()
            .find_map(|operator| Some((*operator, part.strip_prefix(operator)?.trim())))
            .unwrap_or((">=", part));
        let padded = match number.matches('.').count() {
            0 => format!("{number}.0.0"),
            1 => format!("{number}.0"),
            _ => number.to_owned(),
        };
        let bound = parse_version(&padded).ok_or_else(|| wrong(part))?;
        all &= match operator {
            "<=" => own <= bound,
            ">=" => own >= bound,
            "<" => own < bound,
            ">" => own > bound,
            _ => own == bound,
        };
    }
    Ok(all)
}

fn is_slug(text: &str) -> bool {
    !text.is_empty()
        && text
            .split('-')
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.len() <= 40
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
