//! Records of files on their way, and the description of a file in its first block.

use std::ops::RangeInclusive;

use bytes::Bytes;
use farhop_proto::base::NodeId;
use farhop_proto::wire::hop::FlowKey;
use serde::{Deserialize, Serialize};

use crate::blocks::{Consignment, FIRST_BYTES, Kind, PastFlow, front, read};

/// Length of the last block of a file of unknown length: length (8), SHA-256 (32).
const TRAILER_BYTES: usize = 40;
/// Longest name of a file, in bytes, as on most file systems.
pub const NAME_BYTES: usize = 255;

/// Description of a file, in front of its first bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its name at the destination.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Drawn by the sender, so that the same file can be sent again.
    pub nonce: u64,
    /// Whether length and checksum are only in the last block.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub streamed: bool,
}

/// A file that is sent from here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Number of its flow at this node.
    pub local: u32,
    /// How many files were recorded as sent from here before it. Earlier versions did not record
    /// this.
    #[serde(default)]
    pub before: u64,
    /// Path of the file.
    pub path: std::path::PathBuf,
    /// When the file was last changed, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// Its description.
    pub info: FileInfo,
    /// The destination.
    pub to: NodeId,
    /// Name of the destination.
    pub to_name: String,
    /// Length of a block in bytes, except for the first and the last.
    pub block_bytes: u32,
    /// How many blocks, from the first, the destination has.
    pub arrived: u32,
    /// Its state.
    pub state: State,
}

/// A file that arrives, or arrived, here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incoming {
    /// The node that sends it.
    pub source: NodeId,
    /// Name of the source, if its number belongs to another node now; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Number of its flow at the source.
    pub local: u32,
    /// Checksum of the first block, which tells the flow from others with the same number.
    pub opened: u32,
    /// Its description.
    pub info: FileInfo,
    /// Bytes that have arrived.
    pub received: u64,
    /// Number of the next block.
    pub next: u32,
    /// Its state.
    pub state: State,
}

/// State of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// On its way.
    Moving,
    /// All of it is at its destination, and its checksum is right.
    Done,
    /// It was fetched at its destination. The record stays to answer its sender.
    Fetched,
    /// It was given up, for this reason.
    Failed(String),
}

impl FileInfo {
    /// The description of a file whose length is not known when it begins.
    pub(crate) fn of_unknown_length(name: &str, nonce: u64) -> Self {
        let (size, sha256) = (0, String::new());
        Self { name: name.into(), size, sha256, nonce, streamed: true }
    }

    /// Takes length and checksum from the last block of such a file. Returns the bytes of the file
    /// in it: none.
    ///
    /// Fails if the block is invalid.
    pub(crate) fn handle_trailer(&mut self, block: &[u8]) -> anyhow::Result<Bytes> {
        anyhow::ensure!(block.len() == TRAILER_BYTES, "its last block says nothing");
        let (size, sum) = block.split_at(8);
        self.size = size.iter().fold(0, |size, byte| size << 8 | u64::from(*byte));
        self.sha256 = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Bytes::new())
    }

    /// Reads a first block: the description and the bytes after it. `None` if it is invalid.
    pub(crate) fn read(block: &Bytes) -> Option<(Self, Bytes)> {
        let (info, rest): (Self, Bytes) = read(Kind::File, block)?;
        let is_fit = match info.streamed {
            true => info.sha256.is_empty(),
            false => info.size >= rest.len() as u64 && is_sum(&info.sha256),
        };
        (is_name(&info.name) && is_fit).then_some((info, rest))
    }
}

/// Whether this is a SHA-256 in hexadecimal.
pub(crate) fn is_sum(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Characters that change the direction of writing (Unicode Standard Annex 9, section 2).
const DIRECTIONAL: [RangeInclusive<char>; 4] = [
    '\u{61c}'..='\u{61c}',
    '\u{200e}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2066}'..='\u{2069}',
];

/// Explains to people why a name is not valid; `None` if [`is_name`].
pub fn wrong_name(name: &str) -> Option<String> {
    (!is_name(name)).then(|| {
        format!(
            "'{}' is no name for a file: a name has 1 to {NAME_BYTES} bytes, no '/', no control \
             character, none that turns the direction of writing, and no leading dot",
            name.escape_debug()
        )
    })
}

/// Whether a file may have this name wherever it arrives: it must not lead to another folder, be
/// hidden or be unprintable.
pub fn is_name(name: &str) -> bool {
    // Characters that change the direction make a name look like another.
    let turns = |letter| DIRECTIONAL.iter().any(|range| range.contains(&letter));
    let is_plain = |letter: char| letter != '/' && !letter.is_control() && !turns(letter);
    !name.is_empty()
        && name.len() <= NAME_BYTES
        && !name.starts_with('.')
        && name.chars().all(is_plain)
}

/// Whether this can be the id of a file that arrived, as [`Incoming::id`] gives it.
pub fn is_id(text: &str) -> bool {
    let is_number = |part: &str, most: u32| part.parse().is_ok_and(|number: u32| number <= most);
    let is_sum =
        |part: &str| part.len() == 8 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut parts = text.split('-');
    parts.next().is_some_and(|source| is_number(source, u16::MAX.into()))
        && parts.next().is_some_and(|local| is_number(local, u32::MAX))
        && parts.next().is_some_and(is_sum)
        && parts.next().is_none()
}

/// What a block of a file consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The header before the file's bytes.
    pub front: Vec<u8>,
    /// Where these begin in the file.
    pub offset: u64,
    /// How many they are.
    pub length: u64,
    /// Whether it is the last block.
    pub is_last: bool,
}

impl Part {
    /// Length of the block in bytes.
    pub fn bytes(&self) -> usize {
        self.front.len() + self.length as usize
    }
}

impl Outgoing {
    /// Sorts files by age, the oldest first. The age of files from earlier versions is not known.
    pub(crate) fn age(&self) -> (u64, u32) {
        (self.before, self.local)
    }

    /// The key of the flow; `node` is its source.
    pub fn flow(&self, node: NodeId) -> FlowKey {
        FlowKey { source: node, local: self.local }
    }

    /// What a block consists of; `None` after the last.
    pub fn part(&self, number: u32) -> Option<Part> {
        let (size, front) = (self.info.size, front(Kind::File, &self.info));
        let first = ((FIRST_BYTES - front.len()) as u64).min(size);
        if number == 0 {
            return Some(Part { front, offset: 0, length: first, is_last: first == size });
        }
        let block = u64::from(self.block_bytes);
        let offset = first + u64::from(number - 1) * block;
        let length = size.checked_sub(offset).filter(|left| *left > 0)?.min(block);
        Some(Part { front: Vec::new(), offset, length, is_last: offset + length == size })
    }

    /// How many bytes the destination has.
    pub fn arrived_bytes(&self) -> u64 {
        self.part(self.arrived).map_or(self.info.size, |part| part.offset)
    }
}

impl Incoming {
    /// The key of its flow.
    pub fn flow(&self) -> FlowKey {
        FlowKey { source: self.source, local: self.local }
    }

    /// What is remembered of it without its record; `None` if more of it may come, or the number of
    /// its source belongs to another node now.
    pub(crate) fn past(&self) -> Option<PastFlow> {
        let is_past = self.state != State::Moving && self.from.is_empty();
        let is_refused = matches!(self.state, State::Failed(_));
        is_past.then(|| PastFlow { flow: self.flow(), opened: self.opened, is_refused })
    }

    /// What notices about it call it.
    pub(crate) fn as_consignment(&self) -> Consignment {
        Consignment { local: self.local, nonce: self.info.nonce }
    }

    /// Its id at this node.
    pub fn id(&self) -> String {
        format!("{}-{}-{:08x}", self.source.0, self.local, self.opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(size: u64) -> Outgoing {
        let info = FileInfo {
            name: "map.png".into(),
            size,
            sha256: "ab".repeat(32),
            nonce: 7,
            streamed: false,
        };
        Outgoing {
            local: 1,
            before: 0,
            path: "/map.png".into(),
            modified_ns: 0,
            info,
            to: NodeId(3),
            to_name: "valley".into(),
            block_bytes: 100_000,
            arrived: 0,
            state: State::Moving,
        }
    }

    #[test]
    fn the_parts_of_a_file_are_all_of_it_and_the_last_says_so() {
        for size in [0, 1, 8_000, 9_000, 100_000, 300_000, 1_234_567] {
            let file = outgoing(size);
            let parts: Vec<Part> = (0..).map_while(|number| file.part(number)).collect();
            let mut end = 0;
            for part in &parts {
                assert_eq!(part.offset, end);
                end += part.length;
                assert_eq!(part.is_last, end == size);
            }
            assert_eq!(end, size);
            assert!(parts[0].bytes() <= FIRST_BYTES);
        }
    }

    #[test]
    fn a_first_block_tells_what_the_file_is() {
        let part = outgoing(5).part(0).expect("a first block");
        let block = Bytes::from([part.front, b"bytes".to_vec()].concat());
        let (info, rest) = FileInfo::read(&block).expect("as it was written");
        assert_eq!((info, &rest[..]), (outgoing(5).info, &b"bytes"[..]));
        assert!((0..block.len() - 5).all(|end| FileInfo::read(&block.slice(..end)).is_none()));
        for sha256 in ["", "ab", &"ab".repeat(30_000), &"xy".repeat(32)] {
            let info = FileInfo { sha256: sha256.into(), ..outgoing(5).info };
            assert!(FileInfo::read(&front(Kind::File, &info).into()).is_none(), "{sha256:.70}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        for name in ["", ".", "..", "../x", "a/b", ".hidden", "a\nb", &"x".repeat(256)] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(!is_name("a\u{202e}txt.exe"), "a terminal would show another name");
        assert!(is_name("Übersicht 2024.pdf") && is_name("تقرير.pdf"));
    }
}
