//! Validates the inputs that a recipe declares: parameters and context.

use std::collections::BTreeSet;

use super::check::{Checker, is_name};
use super::file::{Context, DiffKind, OnLarge, OutputKind, Param, ParamType};
use super::params;
use crate::base::Code;
use crate::policy::glob::Glob;

impl Checker<'_> {
    pub(super) fn inputs(&mut self) {
        for (name, param) in self.file.params.clone().iter().flatten() {
            self.param(name, param);
        }
        let mut names = BTreeSet::new();
        for context in self.file.context.clone().iter().flatten() {
            self.context(context, names.insert(context.name.value.clone()));
        }
    }

    fn param(&mut self, name: &str, param: &Param) {
        let path = format!("params.{name}");
        let place = self.at(&path);
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
        if param.r#type == ParamType::Command && (param.untrusted || param.secret) {
            let message = format!("`{path}`: a command is neither `untrusted` nor `secret`");
            self.error(Code::R005, &place, message);
        }
        if param.writes && param.r#type != ParamType::Path {
            self.error(Code::R005, &place, format!("`{path}`: `writes` is for paths"));
        }
        if param.must_exist && param.r#type != ParamType::Path {
            self.error(Code::R005, &place, format!("`{path}`: `must_exist` is for paths"));
        }
        if param.command && (param.r#type != ParamType::String || param.untrusted || param.secret) {
            let message = format!("`{path}`: `command: true` is for a text that is neither `untrusted` nor `secret`");
            self.error(Code::R005, &place, message);
        }
        if param.secret && param.default.is_some() {
            let place = self.at(&format!("{path}.default"));
            let message = format!("`{path}.default`: the file would contain a secret");
            self.error_with_help(Code::R009, &place, message, "read it from a variable: `env: NAME`");
        }
        if let Some(pattern) = &param.pattern
            && let Err(problem) = params::whole(&pattern.value)
        {
            self.error(Code::R005, &pattern.place, format!("`{path}.pattern`: {problem}"));
            return;
        }
        if let Err(problem) = params::check_default(name, param) {
            let place = self.at(&format!("{path}.default"));
            self.error(Code::R005, &place, format!("`{path}.default`: {problem}"));
        }
    }

    /// Checks that each key stands beside the source that it belongs to.
    fn keys(&mut self, path: &str, context: &Context) {
        let place = context.name.place.clone();
        for (key, is_given, source, is_source) in [
            ("ok_exit", context.ok_exit.is_some(), "run", context.run.is_some()),
            ("timeout", context.timeout.is_some(), "run", context.run.is_some()),
            ("env", context.env.is_some(), "run", context.run.is_some()),
            ("include", context.include.is_some(), "diff", context.diff.is_some()),
            ("exclude", context.exclude.is_some(), "diff", context.diff.is_some()),
            ("generated", context.generated.is_some(), "diff", context.diff.is_some()),
            ("on_large", context.on_large.is_some(), "diff", context.diff.is_some()),
            ("max_parts", context.max_parts.is_some(), "diff", context.diff.is_some()),
            ("number", context.number.is_some(), "github", context.github.is_some()),
        ] {
            if is_given && !is_source {
                self.error(Code::R005, &place, format!("`{path}.{key}` belongs to `{source}`"));
            }
        }
    }

    /// Checks the sizes of a change.
    fn sizes(&mut self, path: &str, context: &Context) {
        let place = context.name.place.clone();
        if context.max_parts.is_some_and(|parts| !(1..=32).contains(&parts)) {
            self.error(Code::R005, &place, format!("`{path}.max_parts`: 1 to 32"));
        }
        let of_findings = self.file.output.as_ref().is_some_and(|output| output.kind == OutputKind::Findings);
        let diffs = self.file.context.iter().flatten().filter(|context| context.diff.is_some()).count();
        if context.on_large == Some(OnLarge::Split) && !(of_findings && diffs == 1) {
            let message = format!("`{path}.on_large`: `split` is for the only `diff` of a recipe with findings");
            self.error(Code::R005, &place, message);
        }
        if context.max_parts.is_some() && !matches!(context.on_large, None | Some(OnLarge::Split)) {
            self.error(Code::R005, &place, format!("`{path}.max_parts` belongs to `on_large: split`"));
        }
    }

    fn context(&mut self, context: &Context, is_new: bool) {
        let place = &context.name.place;
        let path = format!("context.{}", context.name.value);
        if !is_name(context.name.as_str()) {
            self.error(Code::R005, place, format!("`{path}`: a name is lower-case letters, digits and `_`"));
        }
        if !is_new {
            self.error(Code::R005, place, format!("`{path}` is given twice"));
        }
        let sources = [
            context.run.is_some(),
            context.file.is_some(),
            context.glob.is_some(),
            context.diff.is_some(),
            context.github.is_some(),
            context.stdin == Some(true),
            context.param.is_some(),
        ];
        if sources.iter().filter(|given| **given).count() != 1 {
            self.error(
                Code::R005,
                place,
                format!("`{path}` needs exactly one of `run`, `file`, `glob`, `diff`, `github`, `stdin` and `param`"),
            );
        }
        if context.run.as_ref().is_some_and(Vec::is_empty) {
            self.error(Code::R005, place, format!("`{path}.run` does not name a program"));
        }
        self.keys(&path, context);
        for (key, globs) in [("include", &context.include), ("exclude", &context.exclude)] {
            for glob in globs.iter().flatten() {
                if let Err(problem) = Glob::new(glob.as_str()) {
                    self.error(Code::R005, &glob.place, format!("`{path}.{key}`: {problem}"));
                }
            }
        }
        self.sizes(&path, context);
        self.variables(&path, context.env.as_ref());
        let is_range = context.diff == Some(DiffKind::Range);
        if is_range != context.range.is_some() {
            self.error(Code::R005, place, format!("`{path}`: `diff: range` and `range` belong together"));
        }
        if let Some(param) = &context.param {
            match self.file.params.clone().iter().flatten().find(|(name, _)| **name == param.value) {
                None => {
                    self.error(Code::R007, &param.place, format!("`{path}.param`: unknown parameter `{}`", param.value))
                }
                Some((name, found)) => {
                    if found.command {
                        let message =
                            format!("`{path}.param`: `params.{name}` takes a command and is allowed only in `prompt`");
                        self.error(Code::R009, &param.place, message);
                    }
                    self.used.insert(format!("params.{}", param.value));
                }
            }
        }
    }
}
