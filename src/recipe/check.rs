//! Validates a whole recipe: one that passes can be bound and rendered.

pub(super) mod schema;

use std::collections::{BTreeMap, BTreeSet};

pub use schema::{SchemaError, check_schema};

use super::file::{
    AllowedLabels, Before, CacheKey, CheckFile, Context, GitHubKind, Kind, Limits, Needs, Offline, Output, OutputKind,
    Param, ParamType, RecipeFile, Severity, Text,
};
use super::project::Purpose;
use super::{needs, params, render, version};
use crate::base::{Code, Diagnostic, Location, Span, digest, document::yaml::nearest};
use crate::event::RecipeFacts;
use crate::policy::file::Delivery;

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
    pub warnings: Vec<Diagnostic>,
    /// The files that it is made of, for errors that are found later.
    pub texts: Texts,
}

/// Errors that are shown of one recipe.
const MOST_ERRORS: usize = 50;

/// The texts of the files that a recipe is made of, by the name that messages use.
pub type Texts = BTreeMap<String, String>;

impl Recipe {
    /// Checks a merged file. `stem` is the file's name without its ending. All errors are found at once.
    pub fn check(file: RecipeFile, stem: &str, source: &str, texts: &Texts) -> Result<Recipe, Vec<Diagnostic>> {
        let canonical = serde_json::to_vec(&file).expect("a recipe is a mapping of texts, numbers and lists");
        let sha256 = digest::sha256(&canonical);
        let mut checker =
            Checker { file, source, texts, errors: Vec::new(), warnings: Vec::new(), used: BTreeSet::new() };
        checker.head(stem);
        checker.inputs();
        checker.templates();
        checker.needs();
        checker.needed_commands();
        checker.named_params();
        checker.counts();
        checker.finish();
        checker.limits();
        checker.guards();
        checker.verify();
        checker.output();
        checker.deliveries();
        checker.cases();
        checker.deliver();
        if checker.errors.is_empty() {
            checker.warn();
        }
        let Checker { file, mut errors, mut warnings, .. } = checker;
        cut(&mut errors);
        cut(&mut warnings);
        for problem in errors.iter_mut().chain(warnings.iter_mut()) {
            *problem = with_line(problem.clone(), texts);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Recipe { file, source: source.to_owned(), sha256, warnings, texts: texts.clone() })
    }

    /// Adds the line of the file to an error that was found after loading.
    pub fn with_line(&self, error: Diagnostic) -> Diagnostic {
        with_line(error, &self.texts)
    }

    /// Returns the place of a key, such as `requires.git`, or of what it would be in.
    pub fn place(&self, path: &str) -> Location {
        self.file.places.of(path).unwrap_or_default()
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

    /// Returns the commands of the project that its templates name, each with a place where one does.
    pub fn project_commands(&self) -> BTreeMap<Purpose, Location> {
        let mut found = BTreeMap::new();
        self.file.clone().each_text(&mut |_, kind, text| {
            let is_template = !matches!(kind, Kind::Plain | Kind::Fixed) && render::is_template(&text.value);
            let names = if is_template { render::names(&text.value).unwrap_or_default() } else { BTreeSet::new() };
            found.extend(names.iter().filter_map(|name| Some((Purpose::of(name)?, text.place.clone()))));
        });
        found
    }

    /// Returns the names (`params.x`, `context.y`) whose text strangers may have written.
    pub fn untrusted(&self) -> BTreeSet<String> {
        untrusted(&self.file)
    }
}

/// Keeps as many errors as somebody reads.
fn cut(errors: &mut Vec<Diagnostic>) {
    if let Some(more) = errors.len().checked_sub(MOST_ERRORS).filter(|more| *more > 0) {
        errors.truncate(MOST_ERRORS);
        let mut end = Diagnostic::of_file("", format!("{more} more are not shown"));
        end.code = errors.last().and_then(|error| error.code);
        errors.push(end);
    }
}

/// Adds the line of the file, if its text is at hand.
pub(super) fn with_line(error: Diagnostic, texts: &Texts) -> Diagnostic {
    match texts.get(&*error.file) {
        Some(text) => error.with_line_of(text),
        None => error,
    }
}

/// Returns the names whose text strangers may have written.
pub(super) fn untrusted(file: &RecipeFile) -> BTreeSet<String> {
    let params = file.params.iter().flatten().filter(|(_, param)| param.untrusted);
    let mut names: BTreeSet<String> = params.map(|(name, _)| format!("params.{name}")).collect();
    for context in file.context.iter().flatten() {
        let of_param = context.param.as_ref().is_some_and(|param| names.contains(&format!("params.{}", param.value)));
        let of_github = context.github.is_some_and(|kind| kind != GitHubKind::Labels);
        if context.untrusted || of_param || of_github {
            names.insert(format!("context.{}", context.name.value));
        }
    }
    names
}

/// A recipe that is being checked, with what was found so far.
pub(super) struct Checker<'a> {
    pub(super) file: RecipeFile,
    pub(super) source: &'a str,
    pub(super) texts: &'a Texts,
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
    pub(super) used: BTreeSet<String>,
}

impl Checker<'_> {
    pub(super) fn error(&mut self, code: Code, place: &Location, message: impl Into<String>) {
        self.errors.push(Diagnostic::new(code, place.clone(), message));
    }

    pub(super) fn error_with_help(
        &mut self,
        code: Code,
        place: &Location,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.errors.push(Diagnostic::new(code, place.clone(), message).help(help));
    }

    /// Returns the place of a key, or of what it would be in.
    pub(super) fn at(&self, path: &str) -> Location {
        self.file.places.of(path).unwrap_or_else(|| Location { file: self.source.into(), span: Span::START })
    }

    /// Returns the place of a byte of a text: its own line and column where the file has the text as it is, else the
    /// place of the whole.
    pub(super) fn place_in(&self, text: &Text, offset: usize) -> Location {
        // Where there are so many, nobody looks for each.
        let source = self.texts.get(&*text.place.file).filter(|_| self.errors.len() < MOST_ERRORS);
        let found = source.and_then(|source| {
            let before = &text.value[..offset];
            let line = before.matches('\n').count();
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
            let Span { line: from, column: margin } = text.place.span;
            let place = |more: usize| {
                let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
                let span = Span { line: from + count(line), column: margin + count(column + more) };
                Location { span, ..text.place.clone() }
            };
            if *source == text.value {
                return Some(place(0));
            }
            let index = usize::try_from(from).ok()?.checked_sub(1)?;
            let start = source.lines().nth(index)?.chars().skip(usize::try_from(margin).ok()?.checked_sub(1)?);
            let (start, first): (String, &str) = (start.collect(), text.value.lines().next()?);
            let quotes = usize::from(start.starts_with(['"', '\'']));
            if !start[quotes..].starts_with(first) {
                return None;
            }
            // Of the texts with several lines, only a block with `|` has them as the file does.
            let head = index.checked_sub(1).and_then(|index| source.lines().nth(index)).unwrap_or_default().trim_end();
            let is_block = quotes == 0 && ["|", "|-", "|+"].iter().any(|mark| head.ends_with(mark));
            (line == 0 || is_block).then(|| place(quotes))
        });
        found.unwrap_or_else(|| text.place.clone())
    }

    fn name(&mut self, stem: &str) {
        match self.file.name.clone() {
            None => self.error_with_help(
                Code::R005,
                &self.at("recipe"),
                "`name` is missing",
                format!("write `name: {stem}`"),
            ),
            Some(name) if !is_slug(&name.value) => self.error_with_help(
                Code::R005,
                &name.place,
                format!("`name`: `{}` is not a slug", name.value),
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
    }

    fn head(&mut self, stem: &str) {
        self.name(stem);
        match self.file.description.clone() {
            None => self.error(Code::R005, &self.at("recipe"), "`description` is missing"),
            Some(text) if text.value.trim().is_empty() || text.value.trim().contains('\n') => {
                self.error(Code::R005, &text.place, "`description` is one line of text");
            }
            Some(_) => {}
        }
        match (self.file.prompt.clone(), self.file.prompt_file.clone()) {
            (None, None) => {
                self.error_with_help(
                    Code::R005,
                    &self.at("recipe"),
                    "`prompt` is missing",
                    "write `prompt:` or `prompt_file:`",
                );
            }
            (Some(text), None) if text.value.trim().is_empty() => {
                self.error(Code::R005, &text.place, "`prompt` is empty");
            }
            (_, Some(_)) | (Some(_), None) => {}
        }
        if let Some(version) = self.file.version.clone()
            && version::parse(&version.value).is_none()
        {
            self.error(Code::R005, &version.place, format!("`version`: `{}` is not of the form 1.2.3", version.value));
        }
        if let Some(range) = self.file.requires.as_ref().and_then(|requires| requires.qwen.clone())
            && let Err(problem) = version::satisfies(&range.value, "0.0.0")
        {
            self.error(Code::R005, &range.place, format!("`requires.qwen`: {problem}"));
        }
    }

    fn needs(&mut self) {
        let Some(Some(asked)) = self.file.needs.clone() else { return };
        for (key, globs) in
            [("read", &asked.read), ("write", &asked.write), ("create", &asked.create), ("delete", &asked.delete)]
        {
            self.globs(&format!("needs.{key}"), globs.as_deref().unwrap_or_default());
        }
        for text in asked.run.iter().flatten().filter(|text| needs::of_param(text.as_str()).is_none()) {
            if let Err(problem) = needs::command(&text.value) {
                self.error(Code::R005, &text.place, format!("`needs.run`: {problem}"));
            }
        }
        for text in asked.net.iter().flatten() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let host = text.value.strip_prefix("*.").unwrap_or(&text.value);
            if host.is_empty() || !host.chars().all(plain) {
                self.error(Code::R005, &text.place, format!("`needs.net`: `{}` is not a host", text.value));
            }
        }
        for text in asked.tools.iter().flatten() {
            let known = crate::tool_name::BUILT_IN.map(crate::tool_name::ToolId::name);
            if !known.contains(&text.as_str()) {
                let message = match nearest(&text.value, known.iter().copied()) {
                    Some(near) => format!("`needs.tools`: unknown tool `{}`; did you mean `{near}`?", text.value),
                    None => format!("`needs.tools`: unknown tool `{}`", text.value),
                };
                self.error(Code::R005, &text.place, message);
            }
        }
    }

    pub(super) fn globs(&mut self, path: &str, globs: &[Text]) {
        for text in globs {
            let inside = !text.value.starts_with('/') && !text.value.split('/').any(|part| part == "..");
            if !inside || text.value.is_empty() || globset::Glob::new(&text.value).is_err() {
                let message = format!("`{path}`: `{}` is not a glob relative to the workspace", text.value);
                self.error(Code::R005, &text.place, message);
            }
        }
    }

    /// Refuses limits with which no run could do anything.
    fn limits(&mut self) {
        let limits = self.file.limits.clone().unwrap_or_default();
        for (key, is_nothing) in [
            ("turns", limits.turns == Some(0)),
            ("tool_calls", limits.tool_calls == Some(0)),
            ("total_tokens", limits.total_tokens == Some(0)),
            ("output_tokens", limits.output_tokens == Some(0)),
            ("context_bytes", limits.context_bytes == Some(0)),
        ] {
            if is_nothing {
                self.error(Code::R005, &self.at(&format!("limits.{key}")), format!("`limits.{key}` is at least 1"));
            }
        }
        if limits.cost_usd.is_some_and(|most| most.is_nan() || most <= 0.0) {
            self.error(Code::R005, &self.at("limits.cost_usd"), "`limits.cost_usd` is more than 0");
        }
    }

    fn guards(&mut self) {
        let Some(guards) = self.file.guards.clone() else { return };
        let kind = self.file.output.as_ref().map(|output| output.kind).unwrap_or_default();
        if matches!(kind, OutputKind::Findings | OutputKind::Json | OutputKind::Message) {
            self.error(Code::R005, &self.at("guards"), "`guards` judge a change, and this `output.kind` has none");
        }
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
            self.error(Code::R005, &self.at("verify.attempts"), "`verify.attempts` is at least 1");
        }
        let given = [
            ("before", verify.before.is_some_and(|before| before != Before::Ignore)),
            ("stop_if_same", verify.stop_if_same.is_some() && self.file.guards.is_none()),
        ];
        let none = verify.checks.as_ref().is_none_or(Vec::is_empty);
        for (key, _) in given.iter().filter(|(_, given)| *given && none) {
            let place = self.at(&format!("verify.{key}"));
            self.error(Code::R005, &place, format!("`verify.{key}` needs `checks`"));
        }
        let mut names = BTreeSet::new();
        for check in verify.checks.iter().flatten() {
            let path = format!("verify.checks.{}", check.name.value);
            if check.run.is_empty() {
                self.error(Code::R005, &check.name.place, format!("`{path}.run` does not name a program"));
            }
            if check.repeat.is_some_and(|times| times == 0 || times > 100) {
                self.error(Code::R005, &check.name.place, format!("`{path}.repeat` is 1 to 100"));
            }
            if !names.insert(check.name.value.clone()) {
                self.error(Code::R005, &check.name.place, format!("`{path}` is given twice"));
            }
            self.variables(&path, check.env.as_ref());
        }
    }

    /// Checks the names of a command's variables: none that makes a program load or run something else.
    pub(super) fn variables(&mut self, path: &str, variables: Option<&BTreeMap<String, Text>>) {
        const OURS: [&str; 9] = ["PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "PS4", "TMPDIR"];
        for (name, text) in variables.into_iter().flatten() {
            let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let is_name = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(plain);
            let is_ours = OURS.contains(&name.as_str())
                || ["LD_", "DYLD_", "GIT_", "QWEN_", "OPENAI_"].iter().any(|prefix| name.starts_with(prefix));
            if !is_name {
                let message = format!("`{path}.env`: `{name}` is not a name of capital letters, digits and `_`");
                self.error(Code::R005, &text.place, message);
            } else if is_ours {
                let message = format!("`{path}.env`: recipes cannot set `{name}`");
                self.error(Code::R005, &text.place, message);
            }
        }
    }

    fn output(&mut self) {
        let Some(output) = self.file.output.clone() else { return };
        let kind = self.at("output.kind");
        let is_json = output.kind == OutputKind::Json;
        match (&output.schema, is_json) {
            (None, true) if output.schema_file.is_none() => {
                self.error(Code::R011, &kind, "`output.kind: json` needs a `schema` or `schema_file`");
            }
            (Some(_), false) => {
                self.error(Code::R005, &self.at("output.schema"), "`output.schema` belongs to `kind: json`")
            }
            (Some(schema), true) => {
                if let Err(problem) = check_schema(schema) {
                    self.error(Code::R011, &self.at("output.schema"), format!("`output.schema`: {problem}"));
                }
            }
            (None, _) => {}
        }
        let is_findings = output.kind == OutputKind::Findings;
        let rules = output.rules.as_deref().unwrap_or_default();
        if is_findings && rules.is_empty() {
            self.error(Code::R005, &kind, "`output.kind: findings` needs `rules`, so that ids stay the same");
        }
        let mut ids = BTreeSet::new();
        for rule in rules {
            if !is_slug(&rule.id.value) || !ids.insert(rule.id.value.clone()) {
                let message = format!("`output.rules`: `{}` is not a slug, or is given twice", rule.id.value);
                self.error(Code::R005, &rule.id.place, message);
            }
            if rule.severity == Some(Severity::Never) {
                self.error(Code::R005, &rule.id.place, "`severity` of a rule is error, warning or note");
            }
        }
        for (given, kind, key) in [
            (output.rules.is_some(), is_findings, "rules"),
            (output.filter.is_some(), is_findings, "filter"),
            (output.max_findings.is_some(), is_findings, "max_findings"),
            (output.fail_on.is_some(), is_findings, "fail_on"),
            (output.fail_confidence.is_some(), is_findings, "fail_confidence"),
            (output.min_confidence.is_some(), is_findings, "min_confidence"),
            (output.max_chars.is_some(), output.kind == OutputKind::Message, "max_chars"),
            (output.repairs.is_some(), is_json || is_findings, "repairs"),
        ] {
            if given && !kind {
                let place = self.at(&format!("output.{key}"));
                self.error(Code::R005, &place, format!("`output.{key}` does not belong to this `kind`"));
            }
        }
    }

    /// Checks keys that mean something only together.
    fn deliveries(&mut self) {
        let git = self.file.git.clone().unwrap_or_default();
        let is_branch = git.changes == Some(Delivery::Branch);
        if is_branch != git.branch.is_some() {
            let place = self.at(if is_branch { "git.changes" } else { "git.branch" });
            self.error(Code::R005, &place, "`git.changes: branch` and `git.branch` belong together");
        }
        if let Some(closes) = &git.closes {
            let param = self.file.params.iter().flatten().find(|(name, _)| **name == closes.value);
            match param.map(|(_, param)| param.r#type) {
                Some(ParamType::Integer) => drop(self.used.insert(format!("params.{}", closes.value))),
                Some(_) => {
                    self.error(
                        Code::R005,
                        &closes.place,
                        format!("`git.closes`: `{}` is not an integer", closes.value),
                    );
                }
                None => {
                    self.error(
                        Code::R007,
                        &closes.place,
                        format!("`git.closes`: unknown parameter `{}`", closes.value),
                    );
                }
            }
        }
        let gives_changes = self.file.output.as_ref().is_some_and(|output| output.kind == OutputKind::Changes);
        if let Some(cache) = self.file.cache.clone() {
            if cache.key.is_none() {
                self.error(Code::R005, &self.at("cache"), "`cache` needs `key`: context or none");
            }
            if cache.key == Some(CacheKey::Context) && gives_changes {
                self.error(Code::R005, &self.at("cache"), "`cache` is for answers, not for changes");
            }
        }
        if self.file.offline == Some(Offline::Cached) && gives_changes {
            self.error(Code::R005, &self.at("offline"), "`offline: cached` is for answers, not for changes");
        }
    }

    /// Checks what is to be written to GitHub.
    fn deliver(&mut self) {
        let Some(deliver) = self.file.deliver.clone() else { return };
        let kind = self.file.output.as_ref().map(|output| output.kind).unwrap_or_default();
        let mut wrong = |key: &str, message: &str| {
            let place = self.at(&format!("deliver.{key}"));
            self.error(Code::R005, &place, format!("`deliver.{key}`: {message}"));
        };
        if deliver.review.is_some() && kind != OutputKind::Findings {
            wrong("review", "only findings have lines to comment at: write `output: {kind: findings}`");
        }
        if deliver.review.as_ref().and_then(|review| review.max_inline).is_some_and(|most| !(1..=100).contains(&most)) {
            wrong("review.max_inline", "give 1 to 100");
        }
        if deliver.pull_request.is_some() && kind != OutputKind::Changes {
            wrong("pull_request", "it needs a change: write `output: {kind: changes}`");
        }
        let Some(labels) = deliver.labels else { return };
        if kind != OutputKind::Json || !labels.from.value.starts_with('/') {
            wrong("labels.from", "it is a JSON pointer into the answer of `output: {kind: json}`, such as `/labels`");
        }
        if labels.max == Some(0) {
            wrong("labels.max", "give 1 or more");
        }
        if let AllowedLabels::Param { param } = &labels.allowed {
            let is_list = |param: &Param| param.r#type == ParamType::List;
            if !self.file.params.as_ref().and_then(|params| params.get(param)).is_some_and(is_list) {
                let place = self.at("deliver.labels.allowed");
                self.error(
                    Code::R005,
                    &place,
                    format!("`deliver.labels.allowed`: no list among `params` is called `{param}`"),
                );
            }
        }
    }
}

fn is_slug(text: &str) -> bool {
    !text.is_empty()
        && text
            .split('-')
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()))
}

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.len() <= 40
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
