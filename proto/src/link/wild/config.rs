//! Settings of `link/wild`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::classify::ClassConfig;
use crate::base::{Duration, RadioSpec};
use crate::wire::wild::{HEADER_BYTES, MAX_ACK_BITS};

/// Smallest default window, in packets.
const SMALLEST_WINDOW: usize = 128;
/// IP packets that the window is counted in, in bytes: voice.
const SMALL_PACKET_BYTES: usize = 100;
/// The shortest slot over the usual one, if nothing is said of it.
const USUAL_LEAST: f64 = 0.2;

/// Whether the slots of a node may have lengths of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lengths {
    /// None: it is in a row, or has no slots.
    Equal,
    /// Each side of a pair of nodes says how long its own slot is.
    Pair,
    /// The middle of a star splits cycles, which are always equally long.
    Star,
}

/// Settings of `link/wild`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WildConfig {
    /// Length of the send slot of a node that has enough to send, in milliseconds.
    pub slot_ms: f64,
    /// The shortest send slot of a node that has little to send, in milliseconds; without it a
    /// fifth of `slot_ms`, or what a packet takes, or twice the way there and back, if that is
    /// more; over `udp` devices, whose way nobody knows, `slot_ms`. If it is `slot_ms`, all slots
    /// are equally long, and so they are where a node has several radios on a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_least_ms: Option<f64>,
    /// The longest send slot of a node whose neighbours have little to send, in milliseconds: it is
    /// longer than `slot_ms` by what theirs are shorter. Without it it is `slot_ms` between two
    /// nodes, and in a star what the shortest one leaves of a cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_most_ms: Option<f64>,
    /// Time at the start of each send slot in which nothing is sent, in milliseconds: it absorbs
    /// late wake-ups and switching.
    pub guard_ms: f64,
    /// Most retransmissions of a packet, or `auto`.
    pub retries: Retries,
    /// Which packets wait for earlier ones at the receiver.
    pub in_order: InOrder,
    /// When erasure coding is used beside retransmission.
    pub recovery: Recovery,
    /// Loss that remains after recovery by coding, and by retries that are `auto`, 0 to 1. Coding
    /// goes by the losses of the last ten slots: alone it leaves more of flows that send little.
    pub target_loss: f64,
    /// Most packets of a code block that carry data.
    pub block_packets: u8,
    /// Packets in flight to one neighbour; without it, four slots of packets of 100 bytes, at least
    /// 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_packets: Option<u16>,
    /// Packets that one flow may have waiting; without it, four slots of packets of 1,500 bytes,
    /// and at least 64, but of TCP no more than eight such slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<usize>,
    /// Whether acknowledgements of TCP and short packets ride in the frames of other packets, where
    /// there is place. Acknowledgements then go up when these come, before earlier ones that are
    /// repeated.
    pub acks_ride: bool,
    /// Fills frames up to so many bytes behind the MAC header with packets and parts of packets,
    /// for neighbours who can join them; without it a packet is a frame. 802.11 carries 2,304.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u16>,
    /// Time added to each frame's air time in the plan of a slot, in microseconds.
    pub overhead_us: f64,
    /// Classes of flows with values of their own; the first that matches counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<ClassConfig>,
}

impl Default for WildConfig {
    fn default() -> Self {
        Self {
            slot_ms: 20.0,
            slot_least_ms: None,
            slot_most_ms: None,
            guard_ms: 1.5,
            retries: Retries::Fixed(10),
            in_order: InOrder::Flow,
            recovery: Recovery::BurstFec,
            target_loss: 0.01,
            block_packets: 10,
            window_packets: None,
            queue_packets: None,
            acks_ride: true,
            frame_bytes: None,
            overhead_us: 0.0,
            class: Vec::new(),
        }
    }
}

impl WildConfig {
    /// Length of a slot.
    pub fn slot(&self) -> Duration {
        Duration::from_secs_f64(self.slot_ms / 1e3)
    }

    /// The same with the lengths of slots that are not given, for a node whose packets take up to
    /// `on_air`, and whose farthest neighbour is a `way` away, if that is known.
    pub fn with_lengths(&self, lengths: Lengths, on_air: Duration, way: Option<Duration>) -> Self {
        let slot_ms = self.slot_ms;
        let packet_ms = self.guard_ms + self.overhead_us / 1e3 + on_air.as_millis_f64();
        let way_ms = way.map_or(slot_ms, |way| Self::shortest_over(way).as_millis_f64());
        // In tenths, as people write it.
        let usual_ms = (slot_ms * USUAL_LEAST).max(packet_ms).max(way_ms);
        let usual_ms = (usual_ms * 10.0).ceil() / 10.0;
        let least_ms = self.slot_least_ms.unwrap_or(usual_ms.min(slot_ms));
        let (least_ms, most_ms) = match lengths {
            Lengths::Equal => (slot_ms, slot_ms),
            Lengths::Pair => (least_ms, self.slot_most_ms.unwrap_or(slot_ms)),
            Lengths::Star => (least_ms, self.slot_most_ms.unwrap_or(slot_ms * 2.0 - least_ms)),
        };
        Self { slot_least_ms: Some(least_ms), slot_most_ms: Some(most_ms), ..self.clone() }
    }

    /// The shortest slot that others can follow who are a `way` away. Measured: a pair fails where
    /// the way there and back takes two thirds of a slot, a relay near half of one.
    pub fn shortest_over(way: Duration) -> Duration {
        way * 4
    }

    /// Length of the shortest slot; that of all if neither the scenario nor its plan gives one.
    pub fn slot_least(&self) -> Duration {
        Duration::from_secs_f64(self.slot_least_ms.unwrap_or(self.slot_ms) / 1e3)
    }

    /// Length of the longest slot; that of all if neither the scenario nor its plan gives one.
    pub fn slot_most(&self) -> Duration {
        Duration::from_secs_f64(self.slot_most_ms.unwrap_or(self.slot_ms) / 1e3)
    }

    /// Guard at the start of a send slot.
    pub fn guard(&self) -> Duration {
        Duration::from_secs_f64(self.guard_ms / 1e3)
    }

    /// IP packets of so many bytes that a radio sends in a slot of this length. What is added to
    /// each frame in the plan is given back when it has gone: it counts once, at the end. Where
    /// frames go many in a transmission the first goes by itself, and behind the last there is time
    /// to ask for a block acknowledgement.
    pub fn packets_a_slot(&self, radio: &RadioSpec, slot: Duration, bytes: usize) -> u64 {
        let overhead = Duration::from_secs_f64(self.overhead_us / 1e6);
        let (room, bytes) = (slot.saturating_sub(self.guard() + overhead), HEADER_BYTES + bytes);
        if !radio.aggregates() {
            return radio.frames_in(room, bytes);
        }
        let first = radio.unacknowledged(bytes);
        // The answer to the last one is still on its way when the slot is over.
        let others =
            (room + radio.there_and_back()).saturating_sub(first + radio.block_ack_request());
        u64::from(room >= first) + radio.frames_in(others, bytes)
    }

    /// Packets in flight to one neighbour: four slots of small ones unless it is set. Counted in
    /// full ones, a flow of small packets would stand still while a lost one is repeated.
    pub fn window(&self, radio: &RadioSpec) -> usize {
        let capacity = self.packets_a_slot(radio, self.slot(), SMALL_PACKET_BYTES) as usize;
        let window = self.window_packets.map_or((4 * capacity).max(SMALLEST_WINDOW), usize::from);
        window.clamp(1, MAX_ACK_BITS)
    }
}

/// Most retransmissions of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retries {
    /// So many.
    Fixed(u8),
    /// As many as leave no more than the target of losses at the loss that is seen, at most 10.
    Auto,
}

impl fmt::Display for Retries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(retries) => retries.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl Serialize for Retries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(retries) => serializer.serialize_u8(*retries),
            Self::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Retries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Retries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0 to 255, or \"auto\"")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Retries, E> {
                let other = || E::invalid_value(serde::de::Unexpected::Str(word), &self);
                if word == "auto" { Ok(Retries::Auto) } else { Err(other()) }
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Retries, E> {
                let large = || E::invalid_value(serde::de::Unexpected::Unsigned(number), &self);
                u8::try_from(number).map(Retries::Fixed).map_err(|_| large())
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Retries, E> {
                let low = || E::invalid_value(serde::de::Unexpected::Signed(number), &self);
                u8::try_from(number).map(Retries::Fixed).map_err(|_| low())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Retries {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Retries".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        RetriesForm::json_schema(generator)
    }
}

/// A number of retransmissions, or a word.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it stands for the forms in the schema")]
enum RetriesForm {
    /// So many.
    Fixed(u8),
    /// A word.
    Word(RetriesWord),
}

/// How retransmissions are set by themselves.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[allow(dead_code, reason = "it stands for the forms in the schema")]
enum RetriesWord {
    /// From the loss that is seen and the loss that may remain.
    Auto,
}

/// Which packets a receiver holds back until earlier ones have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InOrder {
    /// None.
    None,
    /// Those of the same flow.
    #[default]
    Flow,
    /// All of the neighbour.
    Link,
}

/// The combinations of retransmission and erasure coding (`wildnet.md` 7.2, options a to d).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Coding only: nothing is sent twice.
    Fec,
    /// Retransmission only.
    Arq,
    /// Retransmission, with coding in the first round while losses come in bursts.
    #[default]
    BurstFec,
    /// Retransmission, with coding on the retransmissions only.
    FecOnRetransmit,
}
