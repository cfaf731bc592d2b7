//! An oracle for the packets of any link: a ledger of what was sent and what arrived.

use std::collections::BTreeMap;

use bytes::Bytes;
use farhop_proto::base::{
    DropCause, Duration, FlowId, Instant, PacketDone, PacketOutcome, ReceivedPacket, UnitId,
};

/// What was sent and what arrived, at both ends.
#[derive(Debug, Default)]
pub struct Ledger {
    ends: BTreeMap<(usize, UnitId), End>,
    sent: BTreeMap<(usize, FlowId), u32>,
    received: BTreeMap<(usize, FlowId), Vec<u32>>,
    delays: Vec<Duration>,
    /// Packets that a queue dropped.
    pub dropped: u64,
    /// Packets that arrived damaged, or that nobody sent.
    pub strange: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Done(PacketOutcome),
    Dropped,
}

impl Ledger {
    /// The payload of the next packet of a flow, at the true time `now`: its number, the time, the
    /// flow, and padding that depends on the number.
    pub fn payload(&mut self, end: usize, flow: FlowId, bytes: usize, now: Instant) -> Bytes {
        let number = self.sent.entry((end, flow)).or_default();
        let mut payload = Vec::with_capacity(bytes.max(14));
        payload.extend_from_slice(&number.to_be_bytes());
        payload.extend_from_slice(&now.as_nanos().to_be_bytes());
        payload.extend_from_slice(&flow.0.to_be_bytes());
        payload.resize(bytes.max(14), *number as u8);
        *number += 1;
        payload.into()
    }

    /// Records that end `end` sent a packet.
    pub fn on_sent(&mut self, end: usize, id: UnitId) {
        let before = self.ends.insert((end, id), End::Open);
        assert!(before.is_none(), "one id for two packets");
    }

    /// Records the outcome of a packet at end `end`. Panics if it has one already.
    pub fn on_done(&mut self, end: usize, done: &PacketDone) {
        let known = self.ends.get_mut(&(end, done.id)).expect("the end of a packet that was sent");
        assert_eq!(*known, End::Open, "packet {:?} of end {end} ended twice", done.id);
        *known = End::Done(done.outcome);
    }

    /// Records that end `end` dropped a packet.
    pub fn on_dropped(&mut self, end: usize, id: UnitId, cause: DropCause) {
        let known = self.ends.get_mut(&(end, id)).expect("the end of a packet that was sent");
        assert_eq!(*known, End::Open, "packet {id:?} of end {end} ended twice");
        assert_ne!(cause, DropCause::QueueFull, "dropped where there was room");
        *known = End::Dropped;
        self.dropped += 1;
    }

    /// Records that end `end` received a packet at the true time `now`.
    pub fn on_received(&mut self, end: usize, packet: &ReceivedPacket, now: Instant) {
        let payload = &packet.payload;
        if payload.len() < 14 {
            self.strange += 1;
            return;
        }
        let number = u32::from_be_bytes(payload[..4].try_into().expect("four bytes"));
        let sent = u64::from_be_bytes(payload[4..12].try_into().expect("eight bytes"));
        let flow = FlowId(u16::from_be_bytes([payload[12], payload[13]]));
        if payload[14..].iter().any(|byte| *byte != number as u8) {
            self.strange += 1;
            return;
        }
        self.received.entry((1 - end, flow)).or_default().push(number);
        self.delays.push(now.since(Instant::from_nanos(sent)));
    }

    /// The number of packets that the source of a flow sent.
    pub fn sent(&self, from: usize, flow: u16) -> usize {
        self.sent.get(&(from, FlowId(flow))).map_or(0, |count| *count as usize)
    }

    /// The numbers of a flow's packets in the order in which they arrived at the other end.
    pub fn received(&self, from: usize, flow: u16) -> &[u32] {
        self.received.get(&(from, FlowId(flow))).map_or(&[], Vec::as_slice)
    }

    /// The longest delay of a packet so far.
    pub fn longest_delay(&self) -> Duration {
        self.delays.iter().copied().max().unwrap_or_default()
    }

    /// Panics if a packet arrived twice or damaged, or was never sent.
    pub fn assert_at_most_once(&self) {
        assert_eq!(self.strange, 0, "damaged packets");
        for (flow, numbers) in &self.received {
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), numbers.len(), "flow {flow:?} has duplicates");
        }
    }

    /// Panics if a packet of any flow overtook another.
    pub fn assert_in_order(&self) {
        for (flow, numbers) in &self.received {
            let swapped = numbers.windows(2).find(|pair| pair[0] >= pair[1]);
            assert!(swapped.is_none(), "flow {flow:?} has {swapped:?}");
        }
    }

    /// Panics if a packet that was sent did not arrive.
    pub fn assert_all_came(&self) {
        for ((end, flow), sent) in &self.sent {
            let came = self.received(*end, flow.0).len();
            assert_eq!(came, *sent as usize, "flow {flow:?} of end {end}");
        }
    }

    /// Packets without an outcome yet.
    pub fn open(&self) -> usize {
        self.ends.values().filter(|end| **end == End::Open).count()
    }

    /// The number of packets with this outcome.
    pub fn ended(&self, outcome: PacketOutcome) -> usize {
        self.ends.values().filter(|end| **end == End::Done(outcome)).count()
    }
}
