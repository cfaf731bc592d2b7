//! Scenarios for tests.

use farhop_proto::stack::Scenario;

/// Reads a scenario from TOML, without checking its problems. Reading one compiles a hundred types:
/// here that is done once, not in each test program.
///
/// # Panics
/// If the text is no scenario, with the error.
#[track_caller]
pub fn scenario(text: &str) -> Scenario {
    toml::from_str(text).unwrap_or_else(|error| panic!("no scenario: {error}"))
}
