//! Prints how the items of a batch ended as JUnit: one suite, a case for each item.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::json::to_line;
use super::safe::escape;
use crate::batch::journal::Ended;
use crate::exit::Exit;

/// Characters of an answer that a case shows.
const OUTPUT: usize = 4_000;

/// A report that grows item by item.
#[derive(Debug)]
pub struct Junit {
    suite: TestSuite,
}

impl Junit {
    /// Begins the report of a batch of this name.
    pub fn new(name: &str) -> Junit {
        Junit { suite: TestSuite::new(&*escape(name)) }
    }

    /// Adds an item; one that is not done is skipped.
    pub fn add(&mut self, key: &str, ended: Option<&Ended>) {
        let mut case = TestCase::new(&*escape(key), ended.map_or_else(TestCaseStatus::skipped, status));
        if let Some(ended) = ended {
            case.set_classname(self.suite.name.as_str().to_owned());
            case.set_time(Duration::from_millis(ended.duration_ms));
            let output: String = answer(ended).chars().take(OUTPUT).collect();
            if !output.is_empty() {
                case.set_system_out(&*escape(&output));
            }
        }
        self.suite.add_test_case(case);
    }

    /// Returns the report. What XML cannot hold is left out.
    pub fn text(self) -> Result<String, String> {
        let mut report = Report::new(self.suite.name.as_str());
        report.add_test_suite(self.suite);
        report.to_string().map_err(|error| error.to_string())
    }
}

/// Returns the answer of an item as text.
pub(super) fn answer(ended: &Ended) -> String {
    match &ended.product.output {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        value => to_line(value),
    }
}

fn status(ended: &Ended) -> TestCaseStatus {
    let is = |exits: &[Exit]| exits.iter().any(|exit| exit.code() == ended.exit_code);
    if is(&[Exit::Ok]) {
        return TestCaseStatus::success();
    }
    let kind = match is(&[Exit::Gate, Exit::Denied, Exit::Schema, Exit::Verify, Exit::NoChanges]) {
        true => NonSuccessKind::Failure,
        false => NonSuccessKind::Error,
    };
    let mut status = TestCaseStatus::non_success(kind);
    let message = ended.error.as_ref().map_or_else(|| said(ended), |error| error.message.clone());
    status.set_message(&*escape(&message)).set_type(format!("{} {}", ended.exit_code, ended.exit_reason));
    if let Some(hint) = ended.error.as_ref().and_then(|error| error.hint.as_deref()) {
        status.set_description(&*escape(hint));
    }
    status
}

/// Says in a few words how an item ended that has no error.
pub(super) fn said(ended: &Ended) -> String {
    match ended.product.findings {
        0 => ended.conclusion.clone(),
        number => super::words::count(number, "finding"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::batch::journal::Product;
    use crate::event::RunError;

    #[test]
    fn every_item_is_a_case_and_nothing_of_it_is_markup() {
        let error = RunError { message: "it <failed> & \u{0}\u{1b}[31m".into(), ..RunError::default() };
        let output = json!({"label": "</system-out><x/>"});
        let ended = |exit_code, exit_reason: &str, error| Ended {
            exit_code,
            exit_reason: exit_reason.into(),
            duration_ms: 1500,
            product: Product { output: output.clone(), ..Product::default() },
            error,
            ..Ended::default()
        };
        let mut report = Junit::new("classify");
        report.add("a\"><b", Some(&ended(0, "ok", None)));
        report.add("b", Some(&ended(64, "verify", Some(error.clone()))));
        report.add("c", Some(&ended(75, "unavailable", Some(error))));
        report.add("d", None);
        insta::assert_snapshot!(report.text().unwrap());
    }
}
