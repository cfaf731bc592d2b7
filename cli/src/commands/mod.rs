//! The commands, a module for each, and how they read values and print.

mod carrier;
pub(crate) mod check;
mod daemons;
pub(crate) mod demo;
mod fetch;
pub(crate) mod files;
pub(crate) mod keys;
pub(crate) mod lab;
pub(crate) mod noise;
pub(crate) mod paper;
mod paper_lab;
mod paper_runs;
pub(crate) mod proxy;
pub(crate) mod receive;
pub(crate) mod schema;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod up;

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::Failure;

/// Parses a count, from 1 on.
pub(crate) fn how_many(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "right would be: a whole number from 1 on".into())
}

/// Parses a seed.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    whole(0..=u64::MAX)(text)
}

/// Makes a parser of whole numbers in a range.
pub(crate) fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("right would be: a whole number from {least} to {most}"))
    }
}

/// Prints data as JSON on standard output.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    // Written in pieces: as one string, the report of ten thousand nodes would dominate memory.
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
    printed(written.and_then(|()| writeln!(out)).and_then(|()| out.flush())).map(|_| ())
}

/// Prints text on standard output.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    is_printed(text).map(|_| ())
}

/// Prints text on standard output; returns whether there is still somebody to read it.
pub(crate) fn is_printed(text: &str) -> Result<bool, Failure> {
    printed(writeln!(io::stdout(), "{text}"))
}

/// The kind of terminal at standard output.
pub(crate) enum Terminal {
    /// Standard output is no terminal.
    None,
    /// It can only print line after line, as its user says with TERM=dumb.
    Dumb,
    /// It has a screen that can be cleared and redrawn.
    Screen,
}

/// The kind of terminal at standard output.
pub(crate) fn terminal() -> Terminal {
    match io::stdout().is_terminal() {
        false => Terminal::None,
        true if env::var_os("TERM").is_some_and(|name| name == "dumb") => Terminal::Dumb,
        true => Terminal::Screen,
    }
}

/// Whether standard output still has a reader: the other end of a pipe may be closed.
pub(crate) fn has_reader() -> bool {
    let stdout = io::stdout();
    let mut out = [PollFd::new(&stdout, PollFlags::empty())];
    // Other errors show when something is written.
    poll(&mut out, Some(&Timespec::default())).is_err()
        || !out[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Turns a broken pipe into `false`, because a reader that went away is no error; a full disk is.
fn printed(outcome: io::Result<()>) -> Result<bool, Failure> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Failed(format!("standard output cannot be written: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_away_is_no_error_but_has_read_nothing() {
        let outcome = |kind: io::ErrorKind| printed(Err(kind.into())).ok();
        assert_eq!(printed(Ok(())).ok(), Some(true));
        assert_eq!(outcome(io::ErrorKind::BrokenPipe), Some(false));
        assert_eq!(outcome(io::ErrorKind::StorageFull), None);
    }
}
