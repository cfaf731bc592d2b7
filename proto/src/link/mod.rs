//! Links: what carries packets to neighbours over frames.

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

/// Why all frames of a neighbour are refused whose link is another one.
const OTHER_LINK: &str = "link-protocol";

/// A link protocol.
pub trait Link: Layer<Above = Packets, Below = Frames> {
    /// What the link is doing, for `status` and reports.
    fn status(&self, now: Instant) -> LinkStatus;

    /// Where the link is in its slots, by radio, and the neighbours there that are in step: of its
    /// status what is looked at often.
    fn slots(&self, now: Instant) -> Vec<(SlotStatus, Vec<NodeId>)> {
        let _ = now;
        Vec::new()
    }

    /// Whether it does anything with a frame for another node beside counting it in `overheard`.
    /// If not, its caller may count such frames in its place and not hand them over at all.
    fn heeds_overheard(&self) -> bool {
        true
    }

    /// How many frames with a short tag changed anything; one that came before must not.
    fn heeded(&self) -> u64 {
        0
    }
}

/// Whether nothing can be sent on a lane because no keys are shared with its neighbour, though the
/// radio has room: then waiting helps nobody.
fn lacks_keys(below: &RoomBelow<'_>, lane: Lane) -> bool {
    below(lane).is_none() && lacks_only_keys(below, lane)
}

/// The same of a lane for which there is no room.
fn lacks_only_keys(below: &RoomBelow<'_>, lane: Lane) -> bool {
    !below(Lane { flow: FlowId::CONTROL, ..lane }).is_none()
}

/// The packet that a frame is where a link adds no header of its own.
fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

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

/// A neighbour that a link is to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSpec {
    /// The neighbour.
    pub node: NodeId,
    /// The radio that reaches it.
    pub radio: RadioId,
}

/// How frames go between a node and a neighbour whose radio is another, or over a link with a rate
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The neighbour.
    pub peer: PeerSpec,
    /// The node's radio as it sends to it.
    pub there: RadioSpec,
    /// Its radio as it sends to the node.
    pub back: RadioSpec,
}

/// What a link is doing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Protocol.
    pub kind: Name,
    /// Where the link is in its slots, if it has slots: by radio.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotStatus>,
    /// Neighbours.
    pub neighbours: Vec<NeighbourStatus>,
    /// Air time that this node spent or left.
    pub air: AirTimes,
    /// Counters by name.
    pub counters: BTreeMap<Name, u64>,
    /// Units dropped, by cause.
    pub drops: BTreeMap<DropCause, u64>,
}

/// Where a link is in its slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlotStatus {
    /// The radio; those of one channel share their slots.
    pub radio: RadioId,
    /// Its channel.
    pub channel: u16,
    /// The number that all who are in step on this channel share.
    pub cluster: u8,
    /// `"start"` (nobody heard yet), `"receive"`, `"guard"` or `"send"`.
    pub phase: Name,
    /// The slot counter of this node.
    pub number: u16,
    /// When the current phase ends, as time from now.
    #[serde(rename = "ends_in_ns")]
    pub ends_in: Duration,
    /// Length of a send slot.
    #[serde(rename = "length_ns")]
    pub length: Duration,
}

/// What a link knows of one neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NeighbourStatus {
    /// The protocol, if it is another than that of the link: over wires beside slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Name>,
    /// The neighbour.
    pub node: NodeId,
    /// The radio that reaches it.
    pub radio: RadioId,
    /// Whether it has been heard and is not known to be gone; where there are slots, whether it is
    /// in step. Without slots one that has nothing to say is up however long ago it was heard.
    pub up: bool,
    /// How long ago a frame of it came, or an acknowledgement where the radio tells of these.
    #[serde(rename = "heard_ago_ns")]
    pub heard_ago: Option<Duration>,
    /// The last correction of the slot start by this neighbour's stamp, in nanoseconds.
    pub sync_error_ns: Option<i64>,
    /// Loss of frames to the neighbour as the link takes it to be now, 0 to 1.
    pub loss: Option<f64>,
    /// Loss of all frames so far of which the link knows whether they came, 0 to 1.
    #[serde(default)]
    pub loss_so_far: Option<f64>,
    /// Coded frames per data frame in the last slot.
    pub coding_rate: f64,
    /// Whether losses come in bursts, where the link looks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_bursts: Option<bool>,
    /// What is done for each class of flows, where the link has classes; the first is that of
    /// all flows that no other takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassStatus>,
    /// Packets waiting or not yet acknowledged.
    pub queue_packets: usize,
    /// Payload delivered to the neighbour so far, in bytes, as far as known.
    pub sent_bytes: u64,
    /// Payload received from the neighbour and given up so far, in bytes.
    pub received_bytes: u64,
    /// Signal of its last frame, in dBm.
    pub signal_dbm: Option<f64>,
    /// Why all its frames are refused, while they come: `"version"`, `"slot-length"`, or
    /// `"link-protocol"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Name>,
}

/// What a link does for one class of flows to one neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Name.
    pub name: Name,
    /// The preset that it follows now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Name>,
    /// Packets that wait for their first transmission.
    pub queue_packets: usize,
    /// Packets that were sent and are neither acknowledged nor given up.
    pub unfinished_packets: usize,
    /// Most retransmissions of a packet.
    pub retries: u8,
    /// Which transmissions are coded.
    pub codes: Codes,
    /// Parity packets for a full block.
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
    /// Frames of erasure code.
    #[serde(rename = "coding_ns")]
    pub coding: Duration,
    /// Acknowledgements and slot beacons by themselves.
    #[serde(rename = "acknowledgement_ns")]
    pub acknowledgement: Duration,
    /// Guards of send slots.
    #[serde(rename = "guard_ns")]
    pub guard: Duration,
}

impl AirShares {
    /// All of it.
    pub fn sum(&self) -> Duration {
        let Self { data, retransmission, coding, acknowledgement, guard } = *self;
        data + retransmission + coding + acknowledgement + guard
    }
}

/// Air time by radio and neighbour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AirTimes(Vec<AirTime>);

/// Air time of a radio that one neighbour cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AirTime {
    /// The radio.
    pub radio: RadioId,
    /// The neighbour; none for guards, and for frames that are for all.
    pub to: Option<NodeId>,
    /// What for.
    #[serde(rename = "times")]
    pub shares: AirShares,
}

impl AirTimes {
    /// What a neighbour cost.
    pub fn of(&mut self, radio: RadioId, to: Option<NodeId>) -> &mut AirShares {
        let found = self.0.iter().position(|time| (time.radio, time.to) == (radio, to));
        let place = found.unwrap_or_else(|| {
            self.0.push(AirTime { radio, to, shares: AirShares::default() });
            self.0.len() - 1
        });
        &mut self.0[place].shares
    }

    /// Adds what the neighbours of other radios cost.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    /// Each neighbour of each radio that has cost any.
    pub fn iter(&self) -> impl Iterator<Item = &AirTime> {
        self.0.iter()
    }
}
