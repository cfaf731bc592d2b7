//! Targets of connections, and the messages between the two ends of a proxy.
//!
//! A stream begins with a line of JSON in each direction: `{"connect":"HOST:PORT"}`, and
//! `{"connected":"ADDRESS:PORT"}` or `{"failed":"refused"}`. The bytes of the connection follow.

use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::rules::NotUnderstood;

/// The service name of an exit.
pub const SERVICE: &str = "proxy";
/// Longest line, in bytes.
const LINE_BYTES: usize = 1_024;
/// Longest host name, in bytes (RFC 1035).
const NAME_BYTES: usize = 253;

/// The target of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A host name, which the exit resolves, and a port.
    Name(String, u16),
}

impl Target {
    /// From a host name or the text of an address; `None` if it is neither.
    pub fn of_name(name: &str, port: u16) -> Option<Self> {
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Self::Address(SocketAddr::new(address, port)));
        }
        let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        let is_name = !name.is_empty() && name.len() <= NAME_BYTES && name.chars().all(is_fit);
        is_name.then(|| Self::Name(name.to_owned(), port))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(out, "{address}"),
            Self::Name(name, port) => write!(out, "{name}:{port}"),
        }
    }
}

impl FromStr for Target {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Self, NotUnderstood> {
        let target = text.rsplit_once(':').and_then(|(name, port)| {
            let port: NonZero<u16> = port.parse().ok()?;
            Self::of_name(name, port.get())
        });
        let wrong = || NotUnderstood(format!("'{text}' is no target; example.org:443 is one"));
        target.ok_or_else(wrong)
    }
}

/// The entry's request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) connect: String,
}

/// The exit's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// It is connected to this address.
    Connected(SocketAddr),
    /// It could not connect.
    Failed(Failed),
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Failed {
    /// The exit's rules do not allow it.
    NotAllowed,
    /// There is no exit, or it does not answer.
    NoExit,
    /// There is no route to the target.
    Unreachable,
    /// The host name cannot be resolved.
    NoSuchName,
    /// The target refuses connections at this port.
    Refused,
    /// The target does not answer.
    TimedOut,
    /// Something else.
    Other,
}

impl Failed {
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Self::Refused,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::TimedOut,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            io::ErrorKind::PermissionDenied => Self::NotAllowed,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NotAllowed => "the exit does not allow it",
            Self::NoExit => "there is no exit for it, or the exit does not answer",
            Self::Unreachable => "no way leads there",
            Self::NoSuchName => "the exit does not know the name",
            Self::Refused => "refused",
            Self::TimedOut => "no answer",
            Self::Other => "the exit cannot connect",
        })
    }
}

/// Encodes a line.
pub(super) fn line(what: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(what).expect("plain data");
    line.push(b'\n');
    line
}

/// Reads a line, and not a byte more.
///
/// Fails if the stream ends, or the line is invalid.
pub(super) fn read_line<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<T> {
    let mut line = Vec::new();
    let mut byte = [0];
    while byte[0] != b'\n' {
        if line.len() >= LINE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(serde_json::from_slice(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_addresses_and_names_with_ports() {
        for text in ["192.0.2.1:80", "[2001:db8::1]:443", "example.org:22"] {
            assert_eq!(text.parse::<Target>().expect("a target").to_string(), text);
        }
        for text in ["example.org", "example.org:x", ":80", "a b:80", "a\"b:80", "x:65536", "x:0"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_line_is_read_without_what_is_behind_it() {
        let said = [line(&Answer::Failed(Failed::TimedOut)), b"bytes".to_vec()].concat();
        let mut said = &said[..];
        let answer: Answer = read_line(&mut said).expect("a line");
        assert!(matches!(answer, Answer::Failed(Failed::TimedOut)));
        assert_eq!(said, b"bytes");
        assert!(read_line::<Answer>(&mut &vec![b' '; 5_000][..]).is_err());
    }
}
