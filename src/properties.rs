//! Configures the property tests of this crate.
//!
//! `.cargo/config.toml` fixes the seed, so that CI fails because of a change and not because of new random input. To
//! look for new counterexamples: `PROPTEST_RNG_SEED=$RANDOM PROPTEST_CASES=20000 cargo test --lib`.

use proptest::test_runner::Config;

/// Returns the settings of a property that is tried with so many cases, unless `PROPTEST_CASES` says otherwise.
///
/// A counterexample is printed and not written next to the source: it belongs into a test of its own.
pub(crate) fn tried(usual: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    Config { cases: asked.unwrap_or(usual), failure_persistence: None, ..Config::default() }
}
