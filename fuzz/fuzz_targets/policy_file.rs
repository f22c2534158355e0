//! Checks that any text is a policy file or an error with its position.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::policy::file::PolicyFile;

fuzz_target!(|text: &str| {
    if let Err(error) = PolicyFile::parse("policy.yaml", text) {
        assert!(!error.to_string().is_empty());
    }
});
