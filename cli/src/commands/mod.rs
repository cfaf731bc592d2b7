//! One file for each command.

pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod lab;
pub(crate) mod noise;
pub(crate) mod schema;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod up;

use serde::Serialize;

use crate::Failure;

/// Prints data as JSON on standard output.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("reports are plain data");
    print_text(&text);
    Ok(())
}

/// Prints text on standard output; a reader that has gone away is no error.
pub(crate) fn print_text(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{text}");
}
