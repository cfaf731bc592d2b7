//! What crosses the boundaries of the stack, from the radio up: frames, packets, datagrams,
//! messages.
//!
//! | boundary | unit | reach |
//! |---|---|---|
//! | [`Frames`] | one transmission of one radio | a neighbour, or all that hear it |
//! | [`Packets`] | what a link carries to one neighbour | one hop |
//! | [`Datagrams`] | an IP packet | end to end, or to the next hop for transports that relay |
//! | [`Messages`] | bytes of an application | end to end |
//!
//! Cross-layer facts travel as data in events: no layer calls into another.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::id::{AccessCategory, FlowId, Lane, NodeId, RadioId, UnitId};
use super::layer::Boundary;
use super::networks::NetworkId;
use super::outcome::{DropCause, FrameOutcome, PacketOutcome};
use super::time::{Duration, Instant};
use super::units::{Bitrate, Dbm};

/// The boundary between a link and the radios.
#[derive(Debug)]
pub enum Frames {}

/// The boundary between routing and a link.
#[derive(Debug)]
pub enum Packets {}

/// The boundary between transports (or the TUN device) and routing.
#[derive(Debug)]
pub enum Datagrams {}

/// The boundary between applications and transports.
#[derive(Debug)]
pub enum Messages {}

impl Boundary for Frames {
    type Down = FrameDown;
    type Up = FrameUp;
}

impl Boundary for Packets {
    type Down = Packet;
    type Up = PacketUp;
}

impl Boundary for Datagrams {
    type Down = Datagram;
    type Up = DatagramUp;
}

impl Boundary for Messages {
    type Down = Message;
    type Up = MessageUp;
}

/// An EtherType, as in the LLC/SNAP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// Frames of farhop's own links: IEEE 802 local experimental EtherType 1.
    pub const FARHOP: Self = Self(0x88b5);
    /// Sealed frames of farhop: IEEE 802 local experimental EtherType 2.
    pub const SEALED: Self = Self(0x88b6);
}

/// Whether the receiver's MAC acknowledges a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckPolicy {
    /// An acknowledgement after SIFS; without it the sender's MAC retransmits.
    #[default]
    Normal,
    /// No acknowledgement and no retransmission (QoS no-ack).
    NoAck,
}

/// What happens to a unit for which a queue has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Overflow {
    /// It is dropped, as by the full queue of an interface.
    #[default]
    DropTail,
    /// In links with a queue for each flow, the oldest similar unit of its flow is dropped;
    /// otherwise the unit itself.
    DropHead,
    /// It waits above.
    Wait,
}

impl Overflow {
    /// Whether the unit waits above.
    pub fn waits(self) -> bool {
        self == Self::Wait
    }
}

/// How a unit is to be sent. The options pass unchanged from the layer that chose them to the
/// radio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOptions {
    /// Access category.
    pub access: AccessCategory,
    /// Whether a MAC acknowledgement is expected.
    pub ack: AckPolicy,
    /// Bit-rate; `None` leaves it to the radio.
    pub rate: Option<Bitrate>,
    /// Most transmissions of the frame, the first included; `None` leaves it to the radio.
    pub attempts: Option<u8>,
    /// Whether it may share a TXOP with the frame before it.
    pub burst: bool,
    /// What happens to it if a queue is full.
    pub overflow: Overflow,
    /// Earliest time on air, on the node's clock. The driver waits for it.
    pub not_before: Option<Instant>,
    /// Time on the node's clock after which it is of no use on air. A driver returns a frame that
    /// would end later as [`FrameOutcome::Late`].
    pub deadline: Option<Instant>,
    /// How a layer of keys protects the frame.
    pub cover: Cover,
    /// Bytes of the payload that belong to links and not to packets. A wire whose overhead is free
    /// takes no time for them.
    pub overhead: u16,
}

/// How a layer of keys protects a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cover {
    /// It is sealed.
    #[default]
    Sealed,
    /// It gets a short tag: it is a part of a packet that was sealed as a whole ([`Cx::seal`]), or
    /// a report on such parts. Its receiver must tolerate replays of it.
    ///
    /// [`Cx::seal`]: super::layer::Cx::seal
    Tagged,
}

/// What goes down to the radios.
#[derive(Clone, Debug)]
pub enum FrameDown {
    /// One frame to send.
    Frame(Frame),
    /// The bits that the chip puts into its next ACK and CTS, and whether it accepts data: SAFE's
    /// control field and negative acknowledgement. Real cards cannot do this.
    ReplyState {
        /// The radio.
        radio: RadioId,
        /// The control field.
        bits: u16,
        /// Whether data for this node is accepted.
        accept: bool,
    },
    /// Takes back a frame that is not on air yet.
    Cancel(UnitId),
}

/// One frame: what the radio sends at once, with its options.
///
/// The driver writes the MAC header: an 802.11 data header (QoS data if no acknowledgement is
/// expected) and LLC/SNAP with `protocol`, see [`crate::wire::ieee80211`].
#[derive(Clone, Debug)]
pub struct Frame {
    /// The id; a frame ends in exactly one [`FrameDone`].
    pub id: UnitId,
    /// The radio that sends.
    pub radio: RadioId,
    /// The receiver, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// The flow, for [`Lane`]s; it is not sent.
    pub flow: FlowId,
    /// EtherType of the payload.
    pub protocol: EtherType,
    /// The bytes after the LLC/SNAP header.
    pub payload: Bytes,
    /// How to send it.
    pub options: TxOptions,
}

impl Frame {
    /// The lane of the frame.
    pub fn lane(&self) -> Lane {
        let TxOptions { access, overflow, .. } = self.options;
        Lane { radio: self.radio, to: self.to, flow: self.flow, access, overflow }
    }
}

/// What comes up from the radios.
#[derive(Clone, Debug)]
pub enum FrameUp {
    /// A frame for this node, or a broadcast.
    Received(ReceivedFrame),
    /// A frame for another node.
    Overheard(ReceivedFrame),
    /// A frame of ours has ended.
    Done(FrameDone),
    /// A layer between link and radios wants a frame to be sent, to which it adds a message of its
    /// own.
    Wanted(Wanted),
}

/// What a layer without frames of its own asks of the link above it: one short frame of flow
/// [`FlowId::CONTROL`], when the link sees fit. Asking again before that frame was sent has no
/// effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The radio.
    pub radio: RadioId,
    /// The neighbour.
    pub to: NodeId,
    /// Bytes that the layer will add to the frame, beyond what it adds to every frame.
    pub bytes: usize,
    /// Whether the message answers one of the neighbour, which waits: then a link that has no
    /// schedule yet sends the frame at once.
    pub is_answer: bool,
}

/// A frame as it was received without error.
#[derive(Clone, Debug)]
pub struct ReceivedFrame {
    /// The receiving radio.
    pub radio: RadioId,
    /// The transmitter.
    pub from: NodeId,
    /// The receiver in the header, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// EtherType of the payload.
    pub protocol: EtherType,
    /// The bytes after the LLC/SNAP header.
    pub payload: Bytes,
    /// When the first bit of the frame (of its preamble) arrived, on the node's clock, by the
    /// radio's hardware timestamp.
    pub started: Instant,
    /// Bit-rate.
    pub rate: Bitrate,
    /// Received power, if the radio reports it.
    pub signal: Option<Dbm>,
    /// SAFE's control field, in the simulator only.
    pub bits: u16,
}

/// The end of a frame of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameDone {
    /// The frame.
    pub id: UnitId,
    /// What became of it.
    pub outcome: FrameOutcome,
    /// Number of transmissions; also 1 if only its announcements were sent, without an answer.
    pub attempts: u8,
    /// Air time of all attempts and announcements, without waiting times and without the answers to
    /// them.
    pub air_time: Duration,
}

/// What a link carries to one neighbour.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The id; a packet ends in exactly one [`PacketUp::Done`] or [`PacketUp::Dropped`].
    pub id: UnitId,
    /// The radio to use.
    pub radio: RadioId,
    /// The neighbour, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// The flow.
    pub flow: FlowId,
    /// EtherType of the payload.
    pub protocol: EtherType,
    /// The payload.
    pub payload: Bytes,
    /// How to send it.
    pub options: TxOptions,
    /// Position in an ordered stream (SrcRR's persistence and reordering).
    pub order: Option<Order>,
}

impl Packet {
    /// The lane of the packet.
    pub fn lane(&self) -> Lane {
        let TxOptions { access, overflow, .. } = self.options;
        Lane { radio: self.radio, to: self.to, flow: self.flow, access, overflow }
    }
}

/// A packet's position in an ordered stream, and where a queue should put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The stream.
    pub route: u32,
    /// The number in the stream.
    pub number: u32,
    /// Where in the queue.
    pub position: Position,
}

/// Where a queue puts a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// Before all others.
    Head,
    /// Behind all others.
    #[default]
    Tail,
    /// So that the numbers of a route ascend.
    Ordered,
}

/// What comes up from a link.
#[derive(Clone, Debug)]
pub enum PacketUp {
    /// A packet from a neighbour.
    Received(ReceivedPacket),
    /// A packet of ours has ended.
    Done(PacketDone),
    /// A queue of the link had to drop a packet, for which there is no `Done`.
    Dropped {
        /// The packet.
        id: UnitId,
        /// Why.
        cause: DropCause,
    },
    /// A neighbour came into reach or was lost.
    Neighbour {
        /// The neighbour.
        node: NodeId,
        /// The radio.
        radio: RadioId,
        /// Whether it is in reach now.
        up: bool,
    },
    /// A packet of a call (expedited forwarding and related classes), or two packets in a row of
    /// anything else that does not wait for the air ([`Overflow::Wait`]), failed in all attempts of
    /// the radio, although the neighbour is there. Where the radio makes few attempts this is no
    /// sign of anything, and is not told.
    Drowned(NodeId),
    /// A measurement of a link.
    LinkSample(LinkSample),
}

/// A packet from a neighbour.
#[derive(Clone, Debug)]
pub struct ReceivedPacket {
    /// The radio.
    pub radio: RadioId,
    /// The previous hop.
    pub from: NodeId,
    /// The flow as the sender numbers it; 0 if the link does not carry it.
    pub flow: FlowId,
    /// EtherType of the payload.
    pub protocol: EtherType,
    /// The payload.
    pub payload: Bytes,
    /// Received power of the frame that carried it, if known.
    pub signal: Option<Dbm>,
    /// Bit-rate of the frame that carried it, if known.
    pub rate: Option<Bitrate>,
}

/// The end of a packet of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketDone {
    /// The packet.
    pub id: UnitId,
    /// Whether the neighbour is known to have it.
    pub outcome: PacketOutcome,
    /// Number of transmissions.
    pub attempts: u8,
    /// Air time of all transmissions.
    pub air_time: Duration,
}

/// Delivery measured on a link, for routing metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSample {
    /// The neighbour.
    pub node: NodeId,
    /// The bit-rate of the measurement.
    pub rate: Bitrate,
    /// Fraction delivered from us to the neighbour, 0 to 1.
    pub forward: f64,
    /// Fraction delivered from the neighbour to us, 0 to 1.
    pub backward: f64,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To a node, over as many hops as necessary.
    End(NodeId),
    /// To the nearest node before this network, over as many hops as necessary.
    Network(NetworkId),
    /// To this neighbour and no further, regardless of routes (Hop, stitched TCP, DTN).
    NextHop(NodeId),
    /// To all nodes that hear what is sent to this neighbour, and no further.
    Around(NodeId),
}

/// An IP packet on its way to a node.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Unique at this boundary.
    pub id: UnitId,
    /// Where it goes.
    pub to: Destination,
    /// The flow.
    pub flow: FlowId,
    /// The IP packet, from its first header byte.
    pub payload: Bytes,
    /// How to send it.
    pub options: TxOptions,
}

/// What comes up from routing.
#[derive(Clone, Debug)]
pub enum DatagramUp {
    /// An IP packet for this node.
    Received {
        /// The previous hop.
        via: NodeId,
        /// The IP packet.
        payload: Bytes,
        /// Received power of the frame that carried it, if known.
        signal: Option<Dbm>,
    },
    /// The first hop of a datagram of ours has ended.
    Done(PacketDone),
    /// A datagram of ours was dropped here.
    Dropped {
        /// The datagram.
        id: UnitId,
        /// Why.
        cause: DropCause,
    },
    /// The link does not get packets across to this next hop: packets of a call, or of anything
    /// else that does not wait for the air.
    Drowned(NodeId),
    /// The route to a destination, even if it is only the last known one.
    NextHop {
        /// Destination.
        dst: NodeId,
        /// Next hop.
        via: NodeId,
        /// The radio over which the next hop is reached.
        radio: RadioId,
        /// Hops to the destination.
        hops: u8,
    },
}

/// Bytes of an application for a flow.
#[derive(Clone, Debug)]
pub struct Message {
    /// The flow at this node.
    pub flow: FlowId,
    /// The bytes; may be empty.
    pub payload: Bytes,
    /// Whether these are the last bytes.
    pub finish: bool,
}

/// What comes up from a transport.
#[derive(Clone, Debug)]
pub enum MessageUp {
    /// The flow is ready to carry bytes.
    Connected(FlowId),
    /// The next bytes, in order.
    Received {
        /// The flow.
        flow: FlowId,
        /// The bytes.
        payload: Bytes,
    },
    /// The peer has everything that was written, and both sides have finished.
    Finished(FlowId),
    /// The flow failed.
    Reset(FlowId),
}
