//! Validates the test cases of a recipe.

use std::collections::BTreeSet;

use super::cases::{TestCase, TestExpect};
use super::check::Checker;
use super::check::schema::check_any_schema;
use crate::base::Code;

impl Checker<'_> {
    pub(super) fn cases(&mut self) {
        let cases = self.file.tests.clone().unwrap_or_default();
        let mut names = BTreeSet::new();
        for (index, case) in cases.iter().enumerate() {
            let name = &case.name;
            if name.value.trim().is_empty() {
                self.error(Code::R005, &name.place, "`tests`: a name is empty");
            } else if !names.insert(&name.value) {
                self.error(Code::R005, &name.place, format!("`tests`: `{}` is given twice", name.value));
            }
            if case.transcript.is_none() && !case.is_evaluated() {
                let message = format!("`tests`: nothing runs `{}`", name.value);
                let help = "add a `transcript`, or remove `eval: false`";
                self.error_with_help(Code::R005, &name.place, message, help);
            }
            if let Some(expect) = &case.expect {
                self.expectation(&format!("tests[{index}].expect"), case, expect);
            }
        }
    }

    fn expectation(&mut self, path: &str, case: &TestCase, expect: &TestExpect) {
        self.globs("expect.changed_only", expect.changed_only.as_deref().unwrap_or_default());
        for pointer in expect.equals.iter().flat_map(|equals| equals.keys()) {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                let place = self.at(&format!("{path}.equals"));
                let message = format!("`expect.equals`: `{pointer}` is not a JSON pointer");
                self.error_with_help(Code::R005, &place, message, format!("write `/{pointer}`"));
            }
        }
        if let Some(Err(problem)) = expect.schema.as_ref().map(check_any_schema) {
            let place = self.at(&format!("{path}.schema"));
            self.error(Code::R005, &place, format!("`expect.schema`: {problem}"));
        }
        for (index, check) in expect.checks.iter().flatten().enumerate() {
            if check.run.first().is_none_or(|program| program.value.is_empty()) {
                let place = self.at(&format!("{path}.checks[{index}]"));
                let message = format!("`expect.checks` of `{}`: `run` does not name a program", case.name.value);
                self.error(Code::R005, &place, message);
            }
        }
        if expect.max_cost_usd.is_some_and(|most| !most.is_finite() || most < 0.0) {
            self.error(Code::R005, &self.at(&format!("{path}.max_cost_usd")), "`expect.max_cost_usd` is 0 or more");
        }
    }
}
