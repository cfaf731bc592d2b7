//! One file for each command.

pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod files;
pub(crate) mod keys;
pub(crate) mod lab;
pub(crate) mod noise;
pub(crate) mod paper;
mod paper_lab;
pub(crate) mod proxy;
pub(crate) mod schema;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod up;

use serde::Serialize;

use crate::Failure;

/// Prints data as JSON on standard output.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    use std::io::Write as _;
    // Piece by piece: the report of ten thousand nodes as one text would be its largest part.
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from);
    match written.and_then(|()| writeln!(out)).and_then(|()| out.flush()) {
        // A reader that has gone away is no error.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints text on standard output; a reader that has gone away is no error.
pub(crate) fn print_text(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{text}");
}
