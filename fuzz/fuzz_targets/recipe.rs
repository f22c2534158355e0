//! Checks that any bytes are a recipe or an error with its position, and that a recipe that loads renders without a
//! panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::recipe::load::from_text;
use qwen_run::recipe::parse::parse;

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse("r.yaml", bytes);
    if let Err(error) = &parsed {
        assert!(!error.to_string().is_empty());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match from_text("r.yaml", text) {
        Ok(recipe) => {
            assert!(parsed.is_ok());
            assert_eq!(recipe.name(), "r");
            let _shown: Vec<String> = recipe.warnings.iter().map(ToString::to_string).collect();
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(!error.to_string().is_empty());
            }
        }
    }
});
