//! Validates the templates of a recipe before any of them is used.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{Checker, untrusted};
use super::file::{Argument, Kind, Param, ParamType, RecipeFile, Text};
use super::project::Purpose;
use super::render::{self, NAMESPACES, Renderer, TemplateProblem, Values, is_template};
use crate::base::document::yaml::nearest;
use crate::base::{Code, Diagnostic};

/// Mistakes for which a neighbour is looked for.
const MOST_NEIGHBOURS: usize = 20;

/// A mistake, and what to do.
type Wrong = (Code, String, Option<String>);

/// The names that templates may use.
struct Names {
    inputs: BTreeSet<String>,
    untrusted: BTreeSet<String>,
    secret: BTreeSet<String>,
    commands: BTreeSet<String>,
}

impl Names {
    fn of(file: &RecipeFile) -> Names {
        let those = |is: fn(&Param) -> bool| {
            let found = file.params.iter().flatten().filter(|(_, param)| is(param));
            found.map(|(name, _)| format!("params.{name}")).collect()
        };
        Names {
            inputs: file.context.iter().flatten().map(|context| context.name.value.clone()).collect(),
            untrusted: untrusted(file),
            secret: those(|param| param.secret),
            commands: those(|param| param.command),
        }
    }

    /// Returns why a declared name may not be in a text.
    fn misuses(&self, full: &str, kind: Kind) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        if full.starts_with("context.") && kind != Kind::Prompt {
            wrong.push((Code::R006, "`context` is available only in `prompt`".to_owned(), None));
        }
        if self.untrusted.contains(full) && kind != Kind::Prompt {
            let help = "declare a `pattern` or `enum` instead of `untrusted`, or remove it here".to_owned();
            wrong.push((Code::R009, format!("`{full}` is untrusted and allowed only in `prompt`"), Some(help)));
        }
        if self.commands.contains(full) && kind != Kind::Prompt {
            wrong.push((Code::R009, format!("`{full}` takes a command and is allowed only in `prompt`"), None));
        }
        if self.secret.contains(full) && kind != Kind::Variable {
            let help = "pass it to a command through `env`".to_owned();
            wrong.push((Code::R009, format!("`{full}` is secret and not allowed in text"), Some(help)));
        }
        wrong
    }
}

impl Checker<'_> {
    pub(super) fn templates(&mut self) {
        let mut found: Vec<(String, Kind, Text)> = Vec::new();
        self.file.clone().each_text(&mut |path, kind, text| found.push((path.to_owned(), kind, text.clone())));
        let names = Names::of(&self.file);
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
                Kind::Prompt | Kind::Template | Kind::Word | Kind::Item | Kind::Variable => {
                    self.template(path, *kind, text, &names);
                }
            }
        }
        self.repeated(&names);
        if self.errors.is_empty() {
            self.render_once(&found);
        }
    }

    fn template(&mut self, path: &str, kind: Kind, text: &Text, names: &Names) {
        let found = match render::names(&text.value) {
            Ok(found) => found,
            Err(problem) => return self.broken(path, text, &problem),
        };
        for name in found.into_iter().filter(|name| kind != Kind::Item || name != "item") {
            let wrong = match self.known(&name, names) {
                Err(wrong) => vec![wrong],
                Ok(full) => {
                    let wrong = names.misuses(&full, kind);
                    self.used.insert(full);
                    wrong
                }
            };
            for (code, message, help) in wrong {
                let place = self.place_in(text, render::offset_of(&text.value, &name));
                let mut error = Diagnostic::new(code, place, format!("`{path}`: {message}"));
                error.help = help;
                self.errors.push(error);
            }
        }
    }

    /// Checks the lists by which words of commands are repeated.
    fn repeated(&mut self, names: &Names) {
        let mut lists: Vec<(String, Text)> = Vec::new();
        for (path, arguments) in self.file.commands() {
            lists.extend(arguments.iter().filter_map(|argument| match argument {
                Argument::Each { each, .. } => Some((path.clone(), each.clone())),
                Argument::Word(_) => None,
            }));
        }
        for (path, each) in lists {
            let param = self.file.params.as_ref().and_then(|params| params.get(each.as_str()));
            let full = format!("params.{}", each.value);
            if param.is_none_or(|param| param.r#type != ParamType::List) {
                let message = format!("`{path}`: no list among `params` is called `{}`", each.value);
                self.error(Code::R007, &each.place, message);
            }
            for (code, message, help) in names.misuses(&full, Kind::Word) {
                let mut error = Diagnostic::new(code, each.place.clone(), format!("`{path}`: {message}"));
                error.help = help;
                self.errors.push(error);
            }
            self.used.insert(full);
        }
    }

    /// Returns the declared name that a name of a template means, or what is wrong with it.
    fn known(&self, name: &str, names: &Names) -> Result<String, Wrong> {
        let mut parts = name.split('.');
        let (space, member) = (parts.next().unwrap_or_default(), parts.next());
        let Some((_, members)) = NAMESPACES.iter().find(|(known, _)| *known == space) else {
            let spaces: Vec<&str> = NAMESPACES.iter().map(|(name, _)| *name).collect();
            let near = nearest(space, spaces.iter().copied()).unwrap_or("params");
            let (spaces, member) = (spaces.join(", "), member.unwrap_or(space));
            let help = format!("names begin with {spaces}; perhaps `{near}.{member}`");
            return Err((Code::R006, format!("unknown name `{name}` in a template"), Some(help)));
        };
        let Some(member) = member else {
            return Err((Code::R006, format!("name one of `{space}`, as `{space}.x`"), None));
        };
        let full = format!("{space}.{member}");
        let is_known = match (space, members) {
            (_, Some(members)) => members.contains(&member),
            ("params", None) => self.file.params.as_ref().is_some_and(|params| params.contains_key(member)),
            (_, None) => names.inputs.contains(member),
        };
        if is_known {
            return Ok(full);
        }
        // Every name is compared with every other: after the first mistakes that is not a help any more.
        let known: Vec<&str> = match (space, members) {
            _ if self.errors.len() >= MOST_NEIGHBOURS => Vec::new(),
            (_, Some(members)) => members.to_vec(),
            ("params", None) => self.file.params.iter().flatten().map(|(name, _)| name.as_str()).collect(),
            (_, None) => names.inputs.iter().map(String::as_str).collect(),
        };
        let near = nearest(member, known.into_iter());
        let near = near.map(|near| format!("; did you mean `{space}.{near}`?")).unwrap_or_default();
        Err((Code::R007, format!("`{full}` is not declared{near}"), None))
    }

    /// Says what is wrong with a template, at its line.
    fn broken(&mut self, path: &str, text: &Text, problem: &TemplateProblem) {
        let lines = text.value.split_inclusive('\n');
        let start: usize = lines.clone().take(problem.line.saturating_sub(1)).map(str::len).sum();
        let line = lines.clone().nth(problem.line.saturating_sub(1)).unwrap_or_default();
        let place = self.place_in(text, start + (line.len() - line.trim_start_matches(' ').len()));
        let message = format!("`{path}`: {}", problem.message);
        match &problem.help {
            Some(help) => self.error_with_help(Code::R006, &place, message, help),
            None => self.error(Code::R006, &place, message),
        }
    }

    /// Filters are only checked when a template is rendered, so each is rendered with full and with empty values.
    fn render_once(&mut self, found: &[(String, Kind, Text)]) {
        let untrusted = untrusted(&self.file);
        let mut said = BTreeSet::new();
        for text in ["x", ""] {
            let dummy = |param: &Param| match param.r#type {
                ParamType::String | ParamType::Path | ParamType::Enum => Value::from(text),
                ParamType::Integer => Value::from(i64::from(text.len() as u8)),
                ParamType::Number => Value::from(0.5),
                ParamType::Boolean => Value::from(!text.is_empty()),
                ParamType::List | ParamType::Command => Value::from(vec![text]),
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
                project: Purpose::ALL.map(|purpose| (purpose.name(), vec![text.to_owned()])).into(),
                untrusted: untrusted.clone(),
                secret: Vec::new(),
            });
            for (path, kind, text) in found {
                let result = match kind {
                    Kind::Plain | Kind::Fixed => continue,
                    Kind::Prompt | Kind::Template | Kind::Variable => renderer.text(&text.value).map(drop),
                    Kind::Item => renderer.item(&text.value, "x").map(drop),
                    Kind::Word => renderer.words(&["--", &text.value]).map(drop),
                };
                if let Err(problem) = result
                    && said.insert((path, problem.line, problem.message.clone()))
                {
                    self.broken(path, text, &problem);
                }
            }
        }
    }
}
