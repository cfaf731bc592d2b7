//! First blocks of flows: the kind of the flow, its description, and its first bytes.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Most bytes of a first block, which travels together with its request.
pub(crate) const FIRST_BYTES: usize = 8_191;
/// Bytes before the description in a first block.
const FRONT_BYTES: usize = 3;

/// What a flow is for: the first byte of its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A file, in blocks.
    File = 1,
    /// One way of a stream.
    Stream = 2,
    /// Blocks of a program.
    Blocks = 3,
    /// Datagrams of a program.
    Datagrams = 4,
    /// A notice that a file, a stream or blocks of a program were given up.
    GivenUp = 5,
    /// A notice without content, whose arrival shows that the destination is there.
    Hail = 6,
    /// A question whether the destination still sends a file or blocks of a program.
    Asks = 7,
}

/// The description of a socket's flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opening {
    /// The service that it is for.
    pub(crate) service: String,
    /// The sender's name for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// In the second flow of a stream: the number of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answers: Option<u32>,
    /// Drawn by the sender, so that no two first blocks are the same.
    pub(crate) nonce: u64,
    /// In a flow of a stream: drawn by the sender's daemon when it began; 0 in earlier versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) life: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The header of a first block: kind, length of the description, description as JSON.
pub(crate) fn front(kind: Kind, what: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(what).expect("plain data");
    let mut front = vec![kind as u8];
    front.extend((text.len() as u16).to_be_bytes());
    front.extend(text);
    front
}

/// The kind of a flow from its first block; `None` if it is unknown.
pub(crate) fn kind_of(frames: &[Bytes]) -> Option<Kind> {
    let kinds = [
        Kind::File,
        Kind::Stream,
        Kind::Blocks,
        Kind::Datagrams,
        Kind::GivenUp,
        Kind::Hail,
        Kind::Asks,
    ];
    let first = *frames.first()?.first()?;
    kinds.into_iter().find(|kind| *kind as u8 == first)
}

/// Reads a first block: its description, and the bytes after it. `None` if it is of another kind or
/// invalid.
pub(crate) fn read<T: DeserializeOwned>(kind: Kind, block: &Bytes) -> Option<(T, Bytes)> {
    let length = usize::from(u16::from_be_bytes([*block.get(1)?, *block.get(2)?]));
    let end = FRONT_BYTES + length;
    let text = block.get(FRONT_BYTES..end).filter(|_| block[0] == kind as u8)?;
    Some((serde_json::from_slice(text).ok()?, block.slice(end..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_block_is_read_as_it_was_written_and_not_as_another_kind() {
        let opening = Opening { service: "proxy".into(), answers: Some(7), ..Opening::default() };
        let block = Bytes::from([front(Kind::Stream, &opening), b"bytes".to_vec()].concat());
        let read_back: Option<(Opening, Bytes)> = read(Kind::Stream, &block);
        assert_eq!(read_back, Some((opening, Bytes::from_static(b"bytes"))));
        assert_eq!(kind_of(std::slice::from_ref(&block)), Some(Kind::Stream));
        assert!(read::<Opening>(Kind::Blocks, &block).is_none());
        for end in 0..block.len() - 5 {
            assert!(read::<Opening>(Kind::Stream, &block.slice(..end)).is_none());
        }
    }
}
