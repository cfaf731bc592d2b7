//! Scenarios of tests.

use farhop_proto::stack::Scenario;

/// The scenario that a text in TOML is, its problems not looked at. What reads one is a hundred
/// types to compile: it is so once, here, and not in each test program.
///
/// # Panics
/// If the text is no scenario, with what is wrong with it.
#[track_caller]
pub fn scenario(text: &str) -> Scenario {
    toml::from_str(text).unwrap_or_else(|error| panic!("no scenario: {error}"))
}
