//! First blocks of flows: what kind a flow is, what it says of itself, and its first bytes.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Bytes of a first block at most: it goes together with its request.
pub(crate) const FIRST_BYTES: usize = 8_191;
/// Bytes before the text of a first block.
const FRONT_BYTES: usize = 3;

/// What a flow is for, told by the first byte of its first block.
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
    /// Says that a file was given up, or a stream.
    GivenUp = 5,
    /// Says nothing: that it arrives tells that its destination is there.
    Hail = 6,
    /// Asks its destination whether it still sends a file, or blocks of a program.
    Asks = 7,
}

/// What a flow of a socket says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opening {
    /// Whom it is for.
    pub(crate) service: String,
    /// What its sender calls it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// Of the second flow of a stream: the number of the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answers: Option<u32>,
    /// Drawn by the sender, so that no two first blocks are alike.
    pub(crate) nonce: u64,
}

/// What stands before the first bytes of a flow.
pub(crate) fn front(kind: Kind, what: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(what).expect("plain data");
    let mut front = vec![kind as u8];
    front.extend((text.len() as u16).to_be_bytes());
    front.extend(text);
    front
}

/// What a first block is of; `None` if that does not exist.
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

/// Reads a first block: what it says, and the bytes behind that. `None` if it is of another kind,
/// or says nothing.
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
