//! What is written down of files on their way, and what a first block says of its file.

use std::ops::RangeInclusive;

use bytes::Bytes;
use farhop_proto::base::NodeId;
use farhop_proto::wire::hop::FlowKey;
use serde::{Deserialize, Serialize};

use crate::blocks::{Consignment, FIRST_BYTES, Kind, front, read};

/// Bytes of the last block of a file of unknown length: length (8), SHA-256 (32).
const TRAILER_BYTES: usize = 40;
/// Longest name of a file, in bytes, as on most file systems.
pub const NAME_BYTES: usize = 255;

/// What a file is, as its sender tells it in front of the first bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its name at the destination.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 over them, in hexadecimal.
    pub sha256: String,
    /// Drawn by the sender, so that the same file can be sent again.
    pub nonce: u64,
    /// Whether length and sum come in the last block alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub streamed: bool,
}

/// A file that is sent from here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Number of its flow at this node.
    pub local: u32,
    /// How many files were sent from here before it, of which something was kept. Earlier versions
    /// did not write it down.
    #[serde(default)]
    pub before: u64,
    /// Where it is.
    pub path: std::path::PathBuf,
    /// When it was last changed, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// What it is.
    pub info: FileInfo,
    /// The destination.
    pub to: NodeId,
    /// Its name.
    pub to_name: String,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks that the destination has; all before this one.
    pub arrived: u32,
    /// How it stands.
    pub state: State,
}

/// A file that comes here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incoming {
    /// The node that sends it.
    pub source: NodeId,
    /// Its name, where that number is another node's by now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Number of its flow there.
    pub local: u32,
    /// Checksum of the first block, which tells it from other flows of that number.
    pub opened: u32,
    /// What it is.
    pub info: FileInfo,
    /// Bytes that are here.
    pub received: u64,
    /// Number of the block that is next.
    pub next: u32,
    /// How it stands.
    pub state: State,
}

/// How a file stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Under way.
    Moving,
    /// All of it is at its destination, and is what it was.
    Done,
    /// It was fetched from where it came; what is known of it answers its sender.
    Fetched,
    /// It was given up, and why.
    Failed(String),
}

impl FileInfo {
    /// A file of which nothing but the name is known at its beginning.
    pub(crate) fn of_unknown_length(name: &str, nonce: u64) -> Self {
        let (size, sha256) = (0, String::new());
        Self { name: name.into(), size, sha256, nonce, streamed: true }
    }

    /// Takes the last block of such a file, which tells length and sum. Returns the bytes of the
    /// file in it: none.
    ///
    /// Fails if it is no such block.
    pub(crate) fn handle_trailer(&mut self, block: &[u8]) -> anyhow::Result<Bytes> {
        anyhow::ensure!(block.len() == TRAILER_BYTES, "its last block says nothing");
        let (size, sum) = block.split_at(8);
        self.size = size.iter().fold(0, |size, byte| size << 8 | u64::from(*byte));
        self.sha256 = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Bytes::new())
    }

    /// Reads the front of a first block; `None` if it is none, or the name is not one of a file.
    pub(crate) fn read(block: &Bytes) -> Option<(Self, Bytes)> {
        let (info, rest): (Self, Bytes) = read(Kind::File, block)?;
        let is_fit = info.streamed || info.size >= rest.len() as u64;
        (is_name(&info.name) && is_fit).then_some((info, rest))
    }
}

/// Characters that turn the direction of writing (Unicode Standard Annex 9, section 2).
const DIRECTIONAL: [RangeInclusive<char>; 4] = [
    '\u{61c}'..='\u{61c}',
    '\u{200e}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2066}'..='\u{2069}',
];

/// What is wrong with a name, and what [`is_name`] asks of one, for people; nothing if it is right.
pub fn wrong_name(name: &str) -> Option<String> {
    (!is_name(name)).then(|| {
        format!(
            "'{}' is no name for a file: a name has 1 to {NAME_BYTES} bytes, no '/', no control \
             character, none that turns the direction of writing, and no leading dot",
            name.escape_debug()
        )
    })
}

/// Whether a file may have this name wherever it arrives: nothing that leads elsewhere, is hidden
/// or cannot be shown.
pub fn is_name(name: &str) -> bool {
    // What turns the order of letters shows another name than there is.
    let turns = |letter| DIRECTIONAL.iter().any(|range| range.contains(&letter));
    let is_plain = |letter: char| letter != '/' && !letter.is_control() && !turns(letter);
    !name.is_empty()
        && name.len() <= NAME_BYTES
        && !name.starts_with('.')
        && name.chars().all(is_plain)
}

/// Whether a file that came may be called this: what [`Incoming::id`] gives.
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

/// A block of a file, in its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What stands before the file's bytes.
    pub front: Vec<u8>,
    /// Where they begin in the file.
    pub offset: u64,
    /// How many there are.
    pub length: u64,
    /// Whether it is the last.
    pub is_last: bool,
}

impl Part {
    /// Bytes of its block.
    pub fn bytes(&self) -> usize {
        self.front.len() + self.length as usize
    }
}

impl Outgoing {
    /// By this the older files come first; of those of earlier versions the age is not known.
    pub(crate) fn age(&self) -> (u64, u32) {
        (self.before, self.local)
    }

    /// The flow at its source, `node`.
    pub fn flow(&self, node: NodeId) -> FlowKey {
        FlowKey { source: node, local: self.local }
    }

    /// What is in a block; `None` behind the last one.
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

    /// Bytes that the destination has.
    pub fn arrived_bytes(&self) -> u64 {
        self.part(self.arrived).map_or(self.info.size, |part| part.offset)
    }
}

impl Incoming {
    /// Its flow.
    pub fn flow(&self) -> FlowKey {
        FlowKey { source: self.source, local: self.local }
    }

    /// What a notice calls it that its sender has given it up.
    pub(crate) fn as_consignment(&self) -> Consignment {
        Consignment { local: self.local, nonce: self.info.nonce }
    }

    /// What it is called here, among all files that came.
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
            sha256: "ab".into(),
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
