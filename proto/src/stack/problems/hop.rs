//! Checks of the settings of flows of blocks.

use super::Found;
use crate::transport::hop::HopConfig;

/// Most bytes of a block in one frame: with its headers it must fit into an IP packet.
const FRAME_BYTES: f64 = 1_448.0;
/// Most frames of a block: their numbers have 16 bits.
const FRAMES: u32 = 65_535;
/// Most memory for blocks, in bytes.
const MEMORY_BYTES: f64 = 1e15;

pub(super) fn check_hop(found: &mut Found, hop: &HopConfig) {
    let path = |key: &str| format!("stack.hop.{key}");
    let frame = f64::from(hop.frame_bytes);
    found.number(path("frame_bytes"), frame, 64.0..=FRAME_BYTES, "a number of bytes in a frame");
    // Consequences of an impossible length are not problems of their own.
    let possible = HopConfig { frame_bytes: frame.clamp(64.0, FRAME_BYTES) as u16, ..*hop };
    let most = f64::from(possible.frame_bytes) * f64::from(FRAMES);
    let block = f64::from(hop.bytes_of_block());
    found.number(path("block_bytes"), block, 8_192.0..=most, "a length of a block in bytes");
    let block = block.clamp(8_192.0, most);
    let possible = HopConfig { block_bytes: Some(block as u32), ..possible };
    let turn = f64::from(hop.turn_frames);
    found.number(path("turn_frames"), turn, 1.0..=1_000.0, "a number of frames in a turn");
    if let Some(blocks) = hop.in_flight {
        found.number(path("in_flight"), blocks.into(), 1.0..=16.0, "a number of blocks");
    }
    let high = f64::from(hop.high_blocks);
    found.number(path("high_blocks"), high, 1.0..=1_000.0, "a number of blocks");
    let spell = f64::from(hop.spell_blocks);
    found.number(path("spell_blocks"), spell, 0.0..=1e6, "a number of blocks, or 0");
    let below = f64::from(hop.high_blocks.max(1)) - 1.0;
    let low = f64::from(hop.low_blocks);
    found.number(path("low_blocks"), low, 0.0..=below, "a number of blocks below high_blocks");
    let gap = hop.interactive_gap_ms;
    found.number(path("interactive_gap_ms"), gap, 0.0..=400.0, "a time in milliseconds, or 0");
    let gap = hop.call_gap_ms;
    found.number(path("call_gap_ms"), gap, 0.0..=400.0, "a time in milliseconds, or 0");
    if let Some(control) = hop.control_mbps {
        found.number(path("control_mbps"), control, 0.1..=1_000.0, "a bit-rate in Mb/s");
    }
    let wait = hop.end_to_end_s;
    found.number(path("end_to_end_s"), wait, 0.01..=86_400.0, "a time in seconds");
    found.number(path("silence_s"), hop.silence_s, 1.0..=86_400.0, "a time in seconds");
    found.number(path("relay_hours"), hop.relay_hours, 0.001..=87_600.0, "a time in hours");
    let memory = hop.memory_bytes as f64;
    // The block of a neighbour may take half of it.
    let least = (4.0 * block).max(2.0 * possible.block_cost() as f64);
    let is_small = memory < least;
    let what = if is_small { "room for four blocks at least" } else { "memory that a node has" };
    found.number(path("memory_bytes"), memory, least..=MEMORY_BYTES, what);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of the problems with these settings.
    fn paths(hop: &HopConfig) -> Vec<String> {
        let mut found = Found(Vec::new());
        check_hop(&mut found, hop);
        found.0.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn a_length_that_cannot_be_is_one_problem() {
        for frame_bytes in [0, 1, 63, 1_449, u16::MAX] {
            let hop = HopConfig { frame_bytes, ..HopConfig::default() };
            assert_eq!(paths(&hop), ["stack.hop.frame_bytes"], "{frame_bytes}");
        }
        for block_bytes in [0, 8_191, 1_400 * FRAMES + 1, u32::MAX] {
            let hop = HopConfig { block_bytes: Some(block_bytes), ..HopConfig::default() };
            let memory_bytes = 1 << 40;
            assert_eq!(paths(&HopConfig { memory_bytes, ..hop }), ["stack.hop.block_bytes"]);
        }
    }

    #[test]
    fn too_much_memory_is_not_told_as_too_little() {
        let said = |memory_bytes| {
            let mut found = Found(Vec::new());
            check_hop(&mut found, &HopConfig { memory_bytes, ..HopConfig::default() });
            found.0.into_iter().map(|problem| problem.message).collect::<Vec<_>>()
        };
        assert_eq!(said(1), ["1 is not room for four blocks at least"]);
        assert_eq!(said(10_000_000_000_000), [""; 0]);
        assert_eq!(said(2_000_000_000_000_000), ["2000000000000000 is not memory that a node has"]);
    }

    #[test]
    fn times_that_cannot_be_are_refused() {
        let of_hours = |relay_hours| paths(&HopConfig { relay_hours, ..HopConfig::default() });
        for hours in [-1.0, 0.0, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(of_hours(hours), ["stack.hop.relay_hours"], "{hours}");
        }
        assert_eq!(of_hours(0.01), Vec::<String>::new());
        let silence = HopConfig { silence_s: 0.5, ..HopConfig::default() };
        assert_eq!(paths(&silence), ["stack.hop.silence_s"]);
    }
}
