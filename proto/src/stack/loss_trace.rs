//! Recorded losses: the fate of the frames on each link over time, as a text file that can be
//! played back (`radio.md` 5).
//!
//! A file is CSV. Lines that begin with `#` are skipped; the first other line is
//! `time_ns,link,fate`. Each further line says when a frame began to arrive, on which link (`a>b`,
//! nodes by name), and its fate:
//!
//! - `ok`: it arrives;
//! - `crc`: its content is destroyed;
//! - `preamble`: it is not even detected;
//! - `dropped` or `unanswered`: the receiver's driver drops what its card has received, after the
//!   card acknowledged it or before. Only the frame's receiver is affected; for all others it is
//!   `ok`.
//!
//! The last line of each link has `end` in place of a fate: the recording is complete up to there.
//! The times of a link never decrease.
//!
//! In playback, a fate holds from its time to that of the next line; before the first line nothing
//! is lost. So any traffic can be exposed to a recording, and the traffic that made it meets the
//! same fates frame by frame.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::{Duration, Instant};

/// The fate of a frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fate {
    /// It arrives.
    Ok,
    /// Its content is destroyed: a receiver that locks on to it finds the check sequence wrong.
    Crc,
    /// Its preamble is destroyed: a receiver does not lock on to it.
    Preamble,
    /// It arrives, and the card acknowledges it; the driver drops it.
    Dropped,
    /// It arrives, and the driver drops it before the card acknowledges it.
    Unanswered,
}

impl Fate {
    const ALL: [Self; 5] = [Self::Ok, Self::Crc, Self::Preamble, Self::Dropped, Self::Unanswered];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Crc => "crc",
            Self::Preamble => "preamble",
            Self::Dropped => "dropped",
            Self::Unanswered => "unanswered",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fate| fate.name() == name)
    }
}

/// The first line of a recording that is not a comment.
pub const TRACE_HEADER: &str = "time_ns,link,fate";
/// What the last line of a link has in place of a fate.
pub const TRACE_END: &str = "end";

/// The recording of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossTrace {
    /// Fates with the times from which they hold, never decreasing.
    entries: Vec<(Instant, Fate)>,
    end: Instant,
}

/// Why a text is not a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// There are only comments, or nothing.
    Empty,
    /// Nothing follows the header.
    NoLinks,
    /// The first line is not the header.
    Header {
        /// Line number.
        line: usize,
    },
    /// A line that does not have three fields.
    Fields {
        /// Line number.
        line: usize,
    },
    /// A time that is not a whole number of nanoseconds.
    Time {
        /// Line number.
        line: usize,
        /// What the line has there.
        found: String,
    },
    /// A fate that does not exist.
    Fate {
        /// Line number.
        line: usize,
        /// What the line has there.
        found: String,
    },
    /// A time earlier than that of the previous line of the same link.
    GoesBack {
        /// Line number.
        line: usize,
        /// The time of the line.
        to_ns: u64,
        /// The time before it.
        from_ns: u64,
    },
    /// A line of a link after its end.
    BehindEnd {
        /// Line number.
        line: usize,
    },
    /// The file ends before the end of a link: it was cut off.
    EndsEarly {
        /// Number of the last line.
        line: usize,
        /// The link without an end.
        link: String,
    },
    /// The requested link is not in the file, or none was requested and there are several.
    Link {
        /// The links in the file.
        known: Vec<String>,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the file is empty; its first line must be {TRACE_HEADER}"),
            Self::NoLinks => write!(f, "no line of a link follows the first one"),
            Self::Header { line } => {
                write!(f, "line {line}: the first line must be {TRACE_HEADER}")
            }
            Self::Fields { line } => write!(f, "line {line}: not three fields, {TRACE_HEADER}"),
            Self::Time { line, found } => {
                write!(f, "line {line}: '{found}' is no whole number of nanoseconds")
            }
            Self::Fate { line, found } => {
                let names = Fate::ALL.map(Fate::name).join(", ");
                write!(f, "line {line}: '{found}' is none of {names}, {TRACE_END}")
            }
            Self::GoesBack { line, to_ns, from_ns } => {
                write!(f, "line {line}: time goes back from {from_ns} to {to_ns} ns")
            }
            Self::BehindEnd { line } => write!(f, "line {line}: behind the end of its link"),
            Self::EndsEarly { line, link } => write!(
                f,
                "line {line}: the file ends early: the last line of link {link} must say 'end'"
            ),
            Self::Link { known } => {
                write!(f, "`link` must name one of the links in it: {}", known.join(", "))
            }
        }
    }
}

impl std::error::Error for TraceError {}

impl LossTrace {
    /// Reads the recording of a link; without a link, that of the only one.
    pub fn parse(text: &str, link: Option<&str>) -> Result<Self, TraceError> {
        let mut links = parse_links(text)?;
        if links.is_empty() {
            return Err(TraceError::NoLinks);
        }
        let wanted = match link {
            Some(link) => links.remove(link),
            None if links.len() == 1 => links.pop_first().map(|(_, trace)| trace),
            None => None,
        };
        wanted.ok_or_else(|| TraceError::Link { known: links.into_keys().collect() })
    }

    /// A recording of this length in which nothing is lost.
    pub fn lossless(length: Duration) -> Self {
        Self { entries: Vec::new(), end: Instant::ZERO + length }
    }

    /// The fates, each with the time from which it holds.
    pub fn entries(&self) -> &[(Instant, Fate)] {
        &self.entries
    }

    /// Length of the recording.
    pub fn length(&self) -> Duration {
        self.end.since(Instant::ZERO)
    }
}

/// A link whose lines have been read so far.
#[derive(Default)]
struct Reading {
    trace: LossTrace,
    has_end: bool,
}

fn parse_links(text: &str) -> Result<BTreeMap<String, LossTrace>, TraceError> {
    let mut links: BTreeMap<String, Reading> = BTreeMap::new();
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#'));
    let (line, header) = lines.next().ok_or(TraceError::Empty)?;
    if header.trim_end() != TRACE_HEADER {
        return Err(TraceError::Header { line });
    }
    let mut last = line;
    for (line, text) in lines {
        last = line;
        let mut fields = text.trim_end().split(',');
        let (Some(time), Some(link), Some(fate), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(TraceError::Fields { line });
        };
        let nanos = time.parse().map_err(|_| TraceError::Time { line, found: time.to_owned() })?;
        if !links.contains_key(link) {
            links.insert(link.to_owned(), Reading::default());
        }
        let reading = links.get_mut(link).expect("it was just put there");
        reading.add(line, nanos, fate)?;
    }
    let without_end = links.iter().find(|(_, reading)| !reading.has_end);
    match without_end {
        Some((link, _)) => Err(TraceError::EndsEarly { line: last, link: link.clone() }),
        None => Ok(links.into_iter().map(|(link, reading)| (link, reading.trace)).collect()),
    }
}

impl Reading {
    fn add(&mut self, line: usize, nanos: u64, fate: &str) -> Result<(), TraceError> {
        if self.has_end {
            return Err(TraceError::BehindEnd { line });
        }
        let at = Instant::from_nanos(nanos);
        let from_ns = self.trace.end.as_nanos();
        if nanos < from_ns {
            return Err(TraceError::GoesBack { line, to_ns: nanos, from_ns });
        }
        self.trace.end = at;
        if fate == TRACE_END {
            self.has_end = true;
            return Ok(());
        }
        let fate =
            Fate::of(fate).ok_or_else(|| TraceError::Fate { line, found: fate.to_owned() })?;
        self.trace.entries.push((at, fate));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# by hand\ntime_ns,link,fate\n5,a>b,ok\n2,b>a,crc\n9,a>b,preamble\n\
                        20,a>b,end\n20,b>a,end\n";

    #[test]
    fn each_link_has_its_own_times() {
        let there = LossTrace::parse(GOOD, Some("a>b")).expect("a recording");
        let at = Instant::from_nanos;
        assert_eq!(there.entries(), [(at(5), Fate::Ok), (at(9), Fate::Preamble)]);
        assert_eq!(there.length().as_nanos(), 20);
        let back = LossTrace::parse(GOOD, Some("b>a")).expect("a recording");
        assert_eq!(back.entries(), [(at(2), Fate::Crc)]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let head = "time_ns,link,fate\n";
        let cases = [
            ("", TraceError::Empty),
            ("5,a>b,ok\n", TraceError::Header { line: 1 }),
            ("5,a>b\n", TraceError::Fields { line: 2 }),
            ("5,a>b,ok,1\n", TraceError::Fields { line: 2 }),
            ("-5,a>b,ok\n", TraceError::Time { line: 2, found: "-5".into() }),
            ("5,a>b,well\n", TraceError::Fate { line: 2, found: "well".into() }),
            ("5,a>b,ok\n4,a>b,ok\n", TraceError::GoesBack { line: 3, to_ns: 4, from_ns: 5 }),
            ("5,a>b,end\n6,a>b,ok\n", TraceError::BehindEnd { line: 3 }),
            ("5,a>b,ok\n", TraceError::EndsEarly { line: 2, link: "a>b".into() }),
        ];
        for (at, (text, expected)) in cases.into_iter().enumerate() {
            let text = if at < 2 { text.to_owned() } else { format!("{head}{text}") };
            assert_eq!(LossTrace::parse(&text, None), Err(expected), "{text}");
        }
        let bare = format!("{TRACE_HEADER}\n");
        assert_eq!(LossTrace::parse(&bare, None), Err(TraceError::NoLinks));
        let known = vec!["a>b".to_owned(), "b>a".to_owned()];
        for link in [None, Some("a>c")] {
            let error = LossTrace::parse(GOOD, link);
            assert_eq!(error, Err(TraceError::Link { known: known.clone() }));
        }
    }
}
