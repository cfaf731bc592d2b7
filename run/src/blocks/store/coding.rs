//! Blocks and their ids as bytes in the store.

use bytes::Bytes;
use farhop_proto::base::NodeId;
use farhop_proto::transport::hop::{Shape, Whole, frames_of};
use farhop_proto::wire::hop::{BlockId, FlowKey};

/// Bytes of the header before the bytes of a block.
const FRONT_BYTES: usize = 17;

/// The key of a block: source, number of the flow, its own number. Earlier versions had two bytes
/// for the number of the flow, and so has this one where that is enough.
pub(super) fn key_of(id: BlockId) -> Vec<u8> {
    let mut key = id.flow.source.0.to_be_bytes().to_vec();
    match u16::try_from(id.flow.local) {
        Ok(local) => key.extend(local.to_be_bytes()),
        Err(_) => key.extend(id.flow.local.to_be_bytes()),
    }
    key.extend(id.number.to_be_bytes());
    key
}

/// The block with this key; `None` if the key is invalid.
pub(super) fn id_of(key: &[u8]) -> Option<BlockId> {
    let (source, rest) = key.split_first_chunk()?;
    let (local, number) = rest.split_last_chunk()?;
    let local = match *local {
        [c, d] => u32::from_be_bytes([0, 0, c, d]),
        _ => u32::from_be_bytes(local.try_into().ok()?),
    };
    let flow = FlowKey { source: NodeId(u16::from_be_bytes(*source)), local };
    Some(BlockId { flow, number: u32::from_be_bytes(*number) })
}

/// A block's shape and bytes, as they are stored.
pub(super) fn encode(whole: &Whole) -> Vec<u8> {
    let Whole { shape, frames, .. } = whole;
    let mut out = Vec::with_capacity(FRONT_BYTES + shape.length as usize);
    out.extend(shape.destination.0.to_be_bytes());
    out.extend(shape.frames.to_be_bytes());
    out.extend(shape.length.to_be_bytes());
    out.extend(shape.crc.to_be_bytes());
    let frame_bytes = frames.first().map_or(0, Bytes::len) as u16;
    out.extend([shape.hops_left, shape.hops_made]);
    let marks = [shape.opens, shape.finishes, shape.is_early];
    out.push(marks.iter().rev().fold(0, |bits, mark| bits << 1 | u8::from(*mark)));
    out.extend(frame_bytes.to_be_bytes());
    frames.iter().for_each(|frame| out.extend_from_slice(frame));
    out
}

/// Reads a stored block; `None` if it is incomplete.
pub(super) fn decode(key: &[u8], value: &[u8]) -> Option<Whole> {
    let short = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let long =
        |bytes: &[u8], at| u32::from(short(bytes, at)) << 16 | u32::from(short(bytes, at + 2));
    let id = id_of(key)?;
    let rest = Bytes::copy_from_slice(value.get(FRONT_BYTES..)?);
    let shape = Shape {
        destination: NodeId(short(value, 0)),
        frames: short(value, 2),
        length: long(value, 4),
        crc: long(value, 8),
        hops_left: value[12],
        hops_made: value[13],
        opens: value[14] & 1 != 0,
        finishes: value[14] & 2 != 0,
        is_early: value[14] & 4 != 0,
    };
    let frames = frames_of(&rest, usize::from(short(value, 15)).max(1));
    let is_whole = frames.len() == usize::from(shape.frames) && rest.len() as u32 == shape.length;
    is_whole.then_some(Whole { id, shape, frames })
}
