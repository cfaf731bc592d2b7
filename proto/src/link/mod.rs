//! Links: layers that carry packets to neighbours over frames.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::{
    DropCause, Duration, FlowId, Frames, Instant, Lane, Layer, Name, NodeId, PacketUp, Packets,
    RadioId, RadioSpec, ReceivedFrame, ReceivedPacket, RoomBelow,
};

pub mod blindfec;
mod code;
mod copies;
pub mod harq;
pub mod plain;
pub mod queue;
pub mod secure;
pub mod snoop;
pub mod two_p;
pub mod wild;
pub mod wired;

/// Reason shown for a neighbour whose frames are all refused because it runs another link protocol.
const OTHER_LINK: &str = "link-protocol";

/// A link protocol.
pub trait Link: Layer<Above = Packets, Below = Frames> {
    /// What the link is doing, for `status` and reports.
    fn status(&self, now: Instant) -> LinkStatus;

    /// The slot state of each radio and the neighbours that are in step there: the part of the
    /// status that is read often.
    fn slots(&self, now: Instant) -> Vec<(SlotStatus, Vec<NodeId>)> {
        let _ = now;
        Vec::new()
    }

    /// Whether the link uses frames that are addressed to other nodes, beyond counting them as
    /// `overheard`. If not, its caller may count such frames itself and not hand them over.
    fn heeds_overheard(&self) -> bool {
        true
    }

    /// How many frames with a short tag changed the state of the link. A replayed frame must not.
    fn heeded(&self) -> u64 {
        0
    }
}

/// Whether a lane is closed only because no keys are shared with its neighbour, though the radio
/// has room. Waiting for room is then pointless.
fn lacks_keys(below: &RoomBelow<'_>, lane: Lane) -> bool {
    below(lane).is_none() && lacks_only_keys(below, lane)
}

/// The same for a lane that is known to have no room.
fn lacks_only_keys(below: &RoomBelow<'_>, lane: Lane) -> bool {
    !below(Lane { flow: FlowId::CONTROL, ..lane }).is_none()
}

/// The fraction `part / all`; none if `all` is 0.
fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

/// The packet in a frame of a link that adds no header of its own: the whole payload.
fn bare_packet(frame: ReceivedFrame) -> PacketUp {
    PacketUp::Received(ReceivedPacket {
        radio: frame.radio,
        from: frame.from,
        flow: FlowId(0),
        protocol: frame.protocol,
        payload: frame.payload,
        signal: frame.signal,
        rate: Some(frame.rate),
    })
}

/// A neighbour that a link serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSpec {
    /// The neighbour.
    pub node: NodeId,
    /// The radio that reaches it.
    pub radio: RadioId,
}

/// How frames travel between a node and a neighbour that has a different kind of radio, or over a
/// radio link with its own rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The neighbour.
    pub peer: PeerSpec,
    /// The node's radio, as it sends to the neighbour.
    pub there: RadioSpec,
    /// The neighbour's radio, as it sends to the node.
    pub back: RadioSpec,
}

/// What a link is doing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Protocol.
    pub kind: Name,
    /// State of the slots of each radio, if the link has slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotStatus>,
    /// Neighbours.
    pub neighbours: Vec<NeighbourStatus>,
    /// Air time that this node used, and air time of guards, in which it sent nothing.
    pub air: AirTimes,
    /// Counters by name.
    pub counters: BTreeMap<Name, u64>,
    /// Units dropped, by cause.
    pub drops: BTreeMap<DropCause, u64>,
}

/// State of the slots of one radio.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlotStatus {
    /// The radio. Radios on one channel share their slots.
    pub radio: RadioId,
    /// Its channel.
    pub channel: u16,
    /// Number of the cluster: the same for all nodes that are in step on this channel.
    pub cluster: u8,
    /// `"start"` (nobody heard yet), `"receive"`, `"guard"` or `"send"`.
    pub phase: Name,
    /// The slot counter of this node.
    pub number: u16,
    /// When the current phase ends, as time from now.
    #[serde(rename = "ends_in_ns")]
    pub ends_in: Duration,
    /// Length of this node's current send slot, or of the last one.
    #[serde(rename = "length_ns")]
    pub length: Duration,
}

/// What a link knows of one neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NeighbourStatus {
    /// The protocol, if it is not that of the link as a whole: for neighbours over wires, beside a
    /// link with slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Name>,
    /// The neighbour.
    pub node: NodeId,
    /// The radio that reaches it.
    pub radio: RadioId,
    /// Whether the neighbour has been heard and is not known to be gone; where there are slots,
    /// whether it is in step. Without slots, a neighbour that has nothing to send stays up however
    /// long ago it was heard.
    pub up: bool,
    /// Time since the last frame from it, or the last acknowledgement where the radio reports
    /// these.
    #[serde(rename = "heard_ago_ns")]
    pub heard_ago: Option<Duration>,
    /// The last correction of the slot start by this neighbour's stamp, in nanoseconds.
    pub sync_error_ns: Option<i64>,
    /// The link's current estimate of the loss of frames to the neighbour, 0 to 1.
    pub loss: Option<f64>,
    /// Loss over all frames so far whose fate the link knows, 0 to 1.
    #[serde(default)]
    pub loss_so_far: Option<f64>,
    /// Coded frames per data frame in the last slot.
    pub coding_rate: f64,
    /// Whether losses come in bursts; none if the link does not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_bursts: Option<bool>,
    /// How each class of flows is treated, if the link has classes. The first one is the default
    /// class, for flows that no other class selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassStatus>,
    /// Packets waiting or not yet acknowledged.
    pub queue_packets: usize,
    /// Payload delivered to the neighbour so far, in bytes, as far as this node knows.
    pub sent_bytes: u64,
    /// Payload received from the neighbour and passed to the layer above so far, in bytes.
    pub received_bytes: u64,
    /// Signal of the last frame from it, in dBm.
    pub signal_dbm: Option<f64>,
    /// Why all its frames are refused, as long as they arrive: `"version"`, `"slot-length"`, or
    /// `"link-protocol"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Name>,
}

/// How a link treats one class of flows to one neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Name.
    pub name: Name,
    /// The preset in use now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Name>,
    /// Packets that wait for their first transmission.
    pub queue_packets: usize,
    /// Packets that were sent and are neither acknowledged nor given up yet.
    pub unfinished_packets: usize,
    /// Most retransmissions of a packet.
    pub retries: u8,
    /// Which transmissions are coded.
    pub codes: Codes,
    /// Parity packets of a full block.
    pub parity: usize,
    /// Packets dropped because a queue was full.
    pub dropped: u64,
    /// Packets given up after all retries.
    pub abandoned: u64,
}

/// Which transmissions a link codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codes {
    /// None.
    Nothing,
    /// First transmissions.
    New,
    /// Retransmissions.
    Again,
}

/// Air time by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AirShares {
    /// First transmissions of data.
    #[serde(rename = "data_ns")]
    pub data: Duration,
    /// Repeated transmissions of data.
    #[serde(rename = "retransmission_ns")]
    pub retransmission: Duration,
    /// Parity frames of the erasure code.
    #[serde(rename = "coding_ns")]
    pub coding: Duration,
    /// Frames with only an acknowledgement, and beacons.
    #[serde(rename = "acknowledgement_ns")]
    pub acknowledgement: Duration,
    /// Guards of send slots.
    #[serde(rename = "guard_ns")]
    pub guard: Duration,
}

impl AirShares {
    /// The total.
    pub fn sum(&self) -> Duration {
        let Self { data, retransmission, coding, acknowledgement, guard } = *self;
        data + retransmission + coding + acknowledgement + guard
    }

    /// What was added since an earlier state.
    fn since(self, before: Self) -> Self {
        Self {
            data: self.data.saturating_sub(before.data),
            retransmission: self.retransmission.saturating_sub(before.retransmission),
            coding: self.coding.saturating_sub(before.coding),
            acknowledgement: self.acknowledgement.saturating_sub(before.acknowledgement),
            guard: self.guard.saturating_sub(before.guard),
        }
    }
}

/// Air time by radio and neighbour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AirTimes(Vec<AirTime>);

/// Air time of one radio that one neighbour cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AirTime {
    /// The radio.
    pub radio: RadioId,
    /// The neighbour; none for guards and for frames to all neighbours.
    pub to: Option<NodeId>,
    /// The air time by use.
    #[serde(rename = "times")]
    pub shares: AirShares,
}

impl AirTimes {
    /// The air time of a radio that one neighbour has cost; starts at 0 when first asked for.
    pub fn of(&mut self, radio: RadioId, to: Option<NodeId>) -> &mut AirShares {
        let found = self.0.iter().position(|time| (time.radio, time.to) == (radio, to));
        let place = found.unwrap_or_else(|| {
            self.0.push(AirTime { radio, to, shares: AirShares::default() });
            self.0.len() - 1
        });
        &mut self.0[place].shares
    }

    /// What was added since an earlier state.
    pub fn since(mut self, before: &Self) -> Self {
        for AirTime { radio, to, shares } in before.iter() {
            let now = self.of(*radio, *to);
            *now = now.since(*shares);
        }
        self
    }

    /// Adds the air times of other radios.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    /// All air times: one for each radio and neighbour that has cost any.
    pub fn iter(&self) -> impl Iterator<Item = &AirTime> {
        self.0.iter()
    }
}
