//! Lists every text of a recipe file, with its path and which template names it may use.

use std::collections::BTreeMap;

use super::file::RecipeFile;
use super::scalar::{Argument, Given, Text};

/// What a text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A template; untrusted values may be in it, inside a fence.
    Prompt,
    /// A template without untrusted values.
    Template,
    /// A template that is one word of a command.
    Word,
    /// A word that is repeated for each item of a list.
    Item,
    /// A template that is the value of a command's variable: secrets may be in it.
    Variable,
    /// No template at all: permissions cannot depend on input.
    Fixed,
    /// Not a template: braces mean themselves.
    Plain,
}

impl RecipeFile {
    /// Shows each text with its path and what it may be.
    pub fn each_text(&mut self, see: See<'_>) {
        self.texts_of_head(see);
        self.texts_of_inputs(see);
        self.texts_of_permissions(see);
        self.texts_of_results(see);
        self.texts_of_tests(see);
    }

    fn texts_of_head(&mut self, see: See<'_>) {
        for (path, kind, text) in [
            ("name", Kind::Fixed, &mut self.name),
            ("description", Kind::Plain, &mut self.description),
            ("version", Kind::Fixed, &mut self.version),
            ("extends", Kind::Fixed, &mut self.extends),
            ("instructions", Kind::Template, &mut self.instructions),
            ("prompt", Kind::Prompt, &mut self.prompt),
            ("prompt_file", Kind::Fixed, &mut self.prompt_file),
        ] {
            optional(path, kind, text, see);
        }
        list("instructions_files", Kind::Fixed, self.instructions_files.as_mut(), see);
        if let Some(requires) = &mut self.requires {
            optional("requires.qwen", Kind::Fixed, &mut requires.qwen, see);
            list("requires.programs", Kind::Fixed, requires.programs.as_mut(), see);
        }
    }

    fn texts_of_inputs(&mut self, see: See<'_>) {
        for (name, param) in self.params.iter_mut().flatten() {
            let path = format!("params.{name}");
            see(&format!("{path}.description"), Kind::Plain, &mut param.description);
            list(&format!("{path}.enum"), Kind::Plain, param.r#enum.as_mut(), see);
            optional(&format!("{path}.pattern"), Kind::Plain, &mut param.pattern, see);
            optional(&format!("{path}.env"), Kind::Fixed, &mut param.env, see);
            if let Some(default) = &mut param.default {
                given_texts(&format!("{path}.default"), default, see);
            }
        }
        for context in self.context.iter_mut().flatten() {
            let path = format!("context.{}", context.name.value);
            see(&format!("{path}.name"), Kind::Fixed, &mut context.name);
            arguments(&format!("{path}.run"), context.run.as_mut(), see);
            optional(&format!("{path}.file"), Kind::Template, &mut context.file, see);
            list(&format!("{path}.glob"), Kind::Template, context.glob.as_mut(), see);
            optional(&format!("{path}.range"), Kind::Word, &mut context.range, see);
            optional(&format!("{path}.number"), Kind::Template, &mut context.number, see);
            list(&format!("{path}.include"), Kind::Fixed, context.include.as_mut(), see);
            list(&format!("{path}.exclude"), Kind::Fixed, context.exclude.as_mut(), see);
            optional(&format!("{path}.param"), Kind::Fixed, &mut context.param, see);
            variables(&path, context.env.as_mut(), see);
        }
    }

    fn texts_of_permissions(&mut self, see: See<'_>) {
        if let Some(needs) = self.needs.as_mut().and_then(Option::as_mut) {
            for (name, texts) in [
                ("read", &mut needs.read),
                ("write", &mut needs.write),
                ("create", &mut needs.create),
                ("delete", &mut needs.delete),
                ("run", &mut needs.run),
                ("net", &mut needs.net),
                ("tools", &mut needs.tools),
            ] {
                list(&format!("needs.{name}"), Kind::Fixed, texts.as_mut(), see);
            }
        }
        if let Some(model) = &mut self.model {
            optional("model.name", Kind::Fixed, &mut model.name, see);
        }
        if let Some(guards) = &mut self.guards {
            list("guards.only_paths", Kind::Fixed, guards.only_paths.as_mut(), see);
            list("guards.never_paths", Kind::Fixed, guards.never_paths.as_mut(), see);
            for (name, rules) in
                [("forbid_added", &mut guards.forbid_added), ("forbid_removed", &mut guards.forbid_removed)]
            {
                for (index, rule) in rules.iter_mut().flatten().enumerate() {
                    see(&format!("guards.{name}[{index}].pattern"), Kind::Fixed, &mut rule.pattern);
                    see(&format!("guards.{name}[{index}].why"), Kind::Plain, &mut rule.why);
                }
            }
        }
    }

    fn texts_of_results(&mut self, see: See<'_>) {
        for finish in self.finish.iter_mut().flatten() {
            let path = format!("finish.{}", finish.name.value);
            see(&format!("{path}.name"), Kind::Fixed, &mut finish.name);
            arguments(&format!("{path}.run"), Some(&mut finish.run), see);
            list(&format!("{path}.writes"), Kind::Fixed, Some(&mut finish.writes), see);
        }
        for check in self.verify.iter_mut().flat_map(|verify| verify.checks.iter_mut().flatten()) {
            let path = format!("verify.checks.{}", check.name.value);
            see(&format!("{path}.name"), Kind::Fixed, &mut check.name);
            arguments(&format!("{path}.run"), Some(&mut check.run), see);
            optional(&format!("{path}.cwd"), Kind::Template, &mut check.cwd, see);
            variables(&path, check.env.as_mut(), see);
        }
        if let Some(output) = &mut self.output {
            optional("output.schema_file", Kind::Fixed, &mut output.schema_file, see);
            for (index, rule) in output.rules.iter_mut().flatten().enumerate() {
                see(&format!("output.rules[{index}].id"), Kind::Fixed, &mut rule.id);
                see(&format!("output.rules[{index}].description"), Kind::Plain, &mut rule.description);
            }
        }
        if let Some(git) = &mut self.git {
            optional("git.branch", Kind::Template, &mut git.branch, see);
            optional("git.base", Kind::Word, &mut git.base, see);
            optional("git.subject", Kind::Template, &mut git.subject, see);
            optional("git.closes", Kind::Fixed, &mut git.closes, see);
            for (name, text) in git.trailers.iter_mut().flatten() {
                see(&format!("git.trailers.{name}"), Kind::Template, text);
            }
        }
        if let Some(deliver) = &mut self.deliver {
            if let Some(labels) = &mut deliver.labels {
                see("deliver.labels.from", Kind::Fixed, &mut labels.from);
            }
            let labels = deliver.pull_request.as_mut().and_then(|wish| wish.labels.as_mut());
            list("deliver.pull_request.labels", Kind::Plain, labels, see);
        }
    }

    fn texts_of_tests(&mut self, see: See<'_>) {
        for test in self.tests.iter_mut().flatten() {
            let path = format!("tests.{}", test.name.value);
            see(&format!("{path}.name"), Kind::Fixed, &mut test.name);
            see(&format!("{path}.fixture"), Kind::Fixed, &mut test.fixture);
            optional(&format!("{path}.transcript"), Kind::Fixed, &mut test.transcript, see);
            for (name, given) in test.params.iter_mut().flatten() {
                given_texts(&format!("{path}.params.{name}"), given, see);
            }
            if let Some(expect) = &mut test.expect {
                list(&format!("{path}.expect.changed"), Kind::Plain, expect.changed.as_mut(), see);
                list(&format!("{path}.expect.contains"), Kind::Plain, expect.contains.as_mut(), see);
                list(&format!("{path}.expect.not_contains"), Kind::Plain, expect.not_contains.as_mut(), see);
                list(&format!("{path}.expect.changed_only"), Kind::Plain, expect.changed_only.as_mut(), see);
                for (index, check) in expect.checks.iter_mut().flatten().enumerate() {
                    list(&format!("{path}.expect.checks[{index}].run"), Kind::Plain, Some(&mut check.run), see);
                }
            }
        }
    }
}

type See<'a> = &'a mut dyn FnMut(&str, Kind, &mut Text);

fn optional(path: &str, kind: Kind, text: &mut Option<Text>, see: See<'_>) {
    if let Some(text) = text {
        see(path, kind, text);
    }
}

fn list(path: &str, kind: Kind, texts: Option<&mut Vec<Text>>, see: See<'_>) {
    for (index, text) in texts.into_iter().flatten().enumerate() {
        see(&format!("{path}[{index}]"), kind, text);
    }
}

fn arguments(path: &str, words: Option<&mut Vec<Argument>>, see: See<'_>) {
    for (index, word) in words.into_iter().flatten().enumerate() {
        let path = format!("{path}[{index}]");
        match word {
            Argument::Word(text) => see(&path, Kind::Word, text),
            Argument::Each { each, words } => {
                see(&format!("{path}.each"), Kind::Fixed, each);
                list(&format!("{path}.words"), Kind::Item, Some(words), see);
            }
        }
    }
}

fn variables(path: &str, variables: Option<&mut BTreeMap<String, Text>>, see: See<'_>) {
    for (name, text) in variables.into_iter().flatten() {
        see(&format!("{path}.env.{name}"), Kind::Variable, text);
    }
}

fn given_texts(path: &str, given: &mut Given, see: See<'_>) {
    match given {
        Given::One(text) => see(path, Kind::Plain, text),
        Given::Many(texts) => list(path, Kind::Plain, Some(texts), see),
    }
}
