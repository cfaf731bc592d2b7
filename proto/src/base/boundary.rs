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
//! Events carry the cross-layer facts as data: nobody calls into another layer.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::id::{AccessCategory, FlowId, Lane, NodeId, RadioId, UnitId};
use super::layer::Boundary;
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

/// An EtherType, as it stands in the LLC/SNAP header.
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

/// Whether the receiver's MAC answers a frame with an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckPolicy {
    /// An acknowledgement after SIFS; the sender's MAC repeats without it.
    #[default]
    Normal,
    /// No acknowledgement and no repetition (QoS no-ack).
    NoAck,
}

/// What becomes of a unit for which a queue has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Overflow {
    /// It is lost, as in the full queue of an interface.
    #[default]
    DropTail,
    /// The oldest unit of its flow is lost that is like it, where a link has a queue for each flow;
    /// else the unit itself.
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

/// How a unit is to be sent; passes unchanged from the layer that chose it down to the radio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOptions {
    /// Access category.
    pub access: AccessCategory,
    /// MAC acknowledgement.
    pub ack: AckPolicy,
    /// Bit-rate; `None` leaves it to the radio.
    pub rate: Option<Bitrate>,
    /// Most transmissions of the frame, the first included; `None` leaves it to the radio.
    pub attempts: Option<u8>,
    /// May share a TXOP with the frame before it.
    pub burst: bool,
    /// What becomes of it where a queue is full.
    pub overflow: Overflow,
    /// Must not go on air before this time on the node's clock. The driver keeps it.
    pub not_before: Option<Instant>,
    /// Of no use on air after this time on the node's clock: a driver that finds its frame's end
    /// later than this gives it back as [`FrameOutcome::Late`].
    pub deadline: Option<Instant>,
    /// What a layer of keys does to the frame.
    pub cover: Cover,
    /// Bytes of the payload that belong to links and not to packets: a wire whose overhead is free
    /// takes no time for them.
    pub overhead: u16,
}

/// What a layer of keys does to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cover {
    /// It is sealed.
    #[default]
    Sealed,
    /// It gets a short tag: a part of a packet that was sealed as a whole ([`Cx::seal`]), or what
    /// is said about such parts. Whoever takes it must not be harmed if it comes again.
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
    /// control field and negative acknowledgement. A real card cannot do this.
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

/// One frame: what the radio sends at once, with the options for it.
///
/// The MAC header is the driver's: an 802.11 data header (QoS data where there is no
/// acknowledgement) and LLC/SNAP with `protocol`, see [`crate::wire::ieee80211`].
#[derive(Clone, Debug)]
pub struct Frame {
    /// Ends in exactly one [`FrameDone`].
    pub id: UnitId,
    /// The radio that sends.
    pub radio: RadioId,
    /// The receiver, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// The flow, for [`Lane`]s; not on the wire.
    pub flow: FlowId,
    /// What the payload is.
    pub protocol: EtherType,
    /// What follows the LLC/SNAP header.
    pub payload: Bytes,
    /// How to send it.
    pub options: TxOptions,
}

impl Frame {
    /// The lane that the frame takes.
    pub fn lane(&self) -> Lane {
        let TxOptions { access, overflow, .. } = self.options;
        Lane { radio: self.radio, to: self.to, flow: self.flow, access, overflow }
    }
}

/// What comes up from the radios.
#[derive(Clone, Debug)]
pub enum FrameUp {
    /// A frame for this node, or for all.
    Received(ReceivedFrame),
    /// A frame for another node.
    Overheard(ReceivedFrame),
    /// The end of a frame of our own.
    Done(FrameDone),
    /// A layer between link and radios wants a frame to go out, into which it puts what it has to
    /// say.
    Wanted(Wanted),
}

/// What a layer that has no frames of its own asks of the link above it: one short frame of flow
/// [`FlowId::CONTROL`], when the link sees fit. Asking again before it came changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The radio.
    pub radio: RadioId,
    /// The neighbour.
    pub to: NodeId,
    /// Bytes that will be put in, beside what every frame gets.
    pub bytes: usize,
    /// Whether it answers a message of the neighbour, who waits: a link that has no schedule yet
    /// sends it now.
    pub is_answer: bool,
}

/// A frame as it was received without error.
#[derive(Clone, Debug)]
pub struct ReceivedFrame {
    /// The radio that received.
    pub radio: RadioId,
    /// The transmitter.
    pub from: NodeId,
    /// The receiver in the header, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// What the payload is.
    pub protocol: EtherType,
    /// What follows the LLC/SNAP header.
    pub payload: Bytes,
    /// When the first bit of the frame (of its preamble) arrived, on the node's clock, as the
    /// radio's hardware timestamp tells it.
    pub started: Instant,
    /// Bit-rate.
    pub rate: Bitrate,
    /// Received power, where the radio tells it.
    pub signal: Option<Dbm>,
    /// SAFE's control field, in the simulator only.
    pub bits: u16,
}

/// The end of a frame of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameDone {
    /// The frame.
    pub id: UnitId,
    /// What became of it.
    pub outcome: FrameOutcome,
    /// Transmissions, the first included; one also if only its announcements went, unanswered.
    pub attempts: u8,
    /// Air time of all attempts and announcements, without waiting and without what answers them.
    pub air_time: Duration,
}

/// What a link carries to one neighbour.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Ends in exactly one [`PacketUp::Done`].
    pub id: UnitId,
    /// The radio to use.
    pub radio: RadioId,
    /// The neighbour, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// The flow.
    pub flow: FlowId,
    /// What the payload is.
    pub protocol: EtherType,
    /// The payload.
    pub payload: Bytes,
    /// How to send it.
    pub options: TxOptions,
    /// Place in an ordered stream (SrcRR's persistence and reordering).
    pub order: Option<Order>,
}

impl Packet {
    /// The lane that the packet takes.
    pub fn lane(&self) -> Lane {
        let TxOptions { access, overflow, .. } = self.options;
        Lane { radio: self.radio, to: self.to, flow: self.flow, access, overflow }
    }
}

/// A packet's place in an ordered stream, and where a queue is to put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The stream.
    pub route: u32,
    /// The number in it.
    pub number: u32,
    /// The place in the queue.
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
    /// So that numbers of the same route ascend.
    Ordered,
}

/// What comes up from a link.
#[derive(Clone, Debug)]
pub enum PacketUp {
    /// A packet from a neighbour.
    Received(ReceivedPacket),
    /// The end of a packet of ours.
    Done(PacketDone),
    /// A packet that a queue of the link had to drop; it gets no `Done`.
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
    /// A packet of a call (expedited forwarding and what goes with it), or two in a row of anything
    /// else that does not wait for the air (`TxOptions::waits`), failed in all tries of the radio,
    /// to a neighbour that is there.
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
    /// The flow as the sender numbers it; 0 where the link does not carry it.
    pub flow: FlowId,
    /// What the payload is.
    pub protocol: EtherType,
    /// The payload.
    pub payload: Bytes,
    /// Received power of the frame that brought it, where known.
    pub signal: Option<Dbm>,
    /// Bit-rate of the frame that brought it, where known.
    pub rate: Option<Bitrate>,
}

/// The end of a packet of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketDone {
    /// The packet.
    pub id: UnitId,
    /// Whether the neighbour is known to have it.
    pub outcome: PacketOutcome,
    /// Transmissions, the first included.
    pub attempts: u8,
    /// Air time of all of them.
    pub air_time: Duration,
}

/// Delivery measured on a link, for routing metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSample {
    /// The neighbour.
    pub node: NodeId,
    /// Bit-rate that was measured.
    pub rate: Bitrate,
    /// Fraction delivered from us to the neighbour, 0 to 1.
    pub forward: f64,
    /// Fraction delivered from the neighbour to us, 0 to 1.
    pub backward: f64,
}

/// Where a datagram is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To a node, over as many hops as it takes.
    End(NodeId),
    /// To this neighbour and no further, whatever the routes say (Hop, stitched TCP, DTN).
    NextHop(NodeId),
    /// To all who hear what goes to this neighbour, and no further.
    Around(NodeId),
}

/// An IP packet on its way to a node.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Unique at this boundary.
    pub id: UnitId,
    /// Where to.
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
        /// Received power of the frame that brought it, where known.
        signal: Option<Dbm>,
    },
    /// The first hop's end of a datagram of ours.
    Done(PacketDone),
    /// A datagram of ours that was dropped here.
    Dropped {
        /// The datagram.
        id: UnitId,
        /// Why.
        cause: DropCause,
    },
    /// The link does not bring packets to this next hop, of a call or of anything else that does
    /// not wait for the air.
    Drowned(NodeId),
    /// The route to a destination, also when it is only the last known.
    NextHop {
        /// Destination.
        dst: NodeId,
        /// Next hop.
        via: NodeId,
        /// The radio that reaches it.
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
    /// The bytes; empty is allowed.
    pub payload: Bytes,
    /// Whether these are the last.
    pub finish: bool,
}

/// What comes up from a transport.
#[derive(Clone, Debug)]
pub enum MessageUp {
    /// The flow can carry bytes.
    Connected(FlowId),
    /// Bytes in order.
    Received {
        /// The flow.
        flow: FlowId,
        /// The bytes.
        payload: Bytes,
    },
    /// The peer has all that was written, and both sides are done.
    Finished(FlowId),
    /// The flow failed.
    Reset(FlowId),
}
