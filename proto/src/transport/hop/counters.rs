//! What a node counts of its blocks.

use std::collections::BTreeMap;

use super::Hop;
use crate::base::{Name, named};

/// Counters since the start; `docs/counters.md` explains them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) frames_sent: u64,
    pub(super) frames_too_long: u64,
    pub(super) frames_received: u64,
    pub(super) frames_again: u64,
    pub(super) frames_forwarded: u64,
    pub(super) blocks_forwarded: u64,
    pub(super) requests: u64,
    pub(super) answers: u64,
    pub(super) withheld: u64,
    pub(super) pauses: u64,
    pub(super) gaps: u64,
    pub(super) gaps_asked: u64,
    pub(super) calls_told: u64,
    pub(super) held_back: u64,
    pub(super) virtual_requests: u64,
    pub(super) blocks_passed_on: u64,
    pub(super) blocks_delivered: u64,
    pub(super) blocks_refused: u64,
    pub(super) corrupt: u64,
    pub(super) malformed: u64,
    pub(super) frames_unknown: u64,
    pub(super) unknown: u64,
    pub(super) contradictions: u64,
    pub(super) out_of_hops: u64,
    pub(super) let_go: u64,
    pub(super) expired: u64,
    pub(super) parked: u64,
    pub(super) no_memory: u64,
    pub(super) not_kept: u64,
    pub(super) flows_forgotten: u64,
    pub(super) messages_dropped: u64,
}

impl Hop {
    /// Its counters, and what it holds now, by name.
    pub fn counters(&self) -> BTreeMap<Name, u64> {
        let all = &self.counters;
        named([
            ("blocks_held", self.blocks.len() as u64),
            ("memory_held", self.memory),
            ("frames_sent", all.frames_sent),
            ("frames_too_long", all.frames_too_long),
            ("frames_received", all.frames_received),
            ("frames_again", all.frames_again),
            ("frames_forwarded", all.frames_forwarded),
            ("blocks_forwarded", all.blocks_forwarded),
            ("requests", all.requests),
            ("answers", all.answers),
            ("withheld", all.withheld),
            ("pauses", all.pauses),
            ("gaps", all.gaps),
            ("gaps_asked", all.gaps_asked),
            ("calls_told", all.calls_told),
            ("held_back", all.held_back),
            ("virtual_requests", all.virtual_requests),
            ("blocks_passed_on", all.blocks_passed_on),
            ("blocks_delivered", all.blocks_delivered),
            ("blocks_refused", all.blocks_refused),
            ("corrupt", all.corrupt),
            ("malformed", all.malformed),
            ("frames_unknown", all.frames_unknown),
            ("unknown", all.unknown),
            ("contradictions", all.contradictions),
            ("out_of_hops", all.out_of_hops),
            ("let_go", all.let_go),
            ("expired", all.expired),
            ("parked", all.parked),
            ("no_memory", all.no_memory),
            ("not_kept", all.not_kept),
            ("flows_forgotten", all.flows_forgotten),
            ("messages_dropped", all.messages_dropped),
        ])
    }
}
