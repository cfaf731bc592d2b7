//! Configuration of `link/wild`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::classify::ClassConfig;
use crate::base::{Duration, RadioSpec};
use crate::wire::wild::{HEADER_BYTES, MAX_ACK_BITS};

/// Smallest default window, in packets.
const SMALLEST_WINDOW: usize = 128;
/// Packet length by which the default window is computed, in bytes: packets of voice.
const SMALL_PACKET_BYTES: usize = 100;
/// Default of the shortest slot, as a fraction of the usual one.
const USUAL_LEAST: f64 = 0.2;

/// Whether the lengths of a node's slots may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lengths {
    /// They do not: the node is in a row, or has no slots.
    Equal,
    /// Each of two nodes decides how long its own slot is.
    Pair,
    /// The middle of a star divides each cycle between both sides; all cycles are equally long.
    Star,
}

/// Configuration of `link/wild`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WildConfig {
    /// Length of the send slot of a node that has enough to send, in milliseconds.
    pub slot_ms: f64,
    /// Shortest send slot of a node that has little to send, in milliseconds. Default: the largest
    /// of a fifth of `slot_ms`, the time of a packet, and twice the round-trip propagation delay,
    /// but at most `slot_ms`. Over `udp` devices, whose delay is unknown, the default is `slot_ms`.
    /// If this equals `slot_ms`, all slots are equally long; they also are where a node has several
    /// radios on a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_least_ms: Option<f64>,
    /// Longest send slot of a node whose neighbours have little to send, in milliseconds. A slot
    /// exceeds `slot_ms` at most by what the neighbours' slot is shorter. Default between two
    /// nodes: `slot_ms`; in a star: what the shortest slot leaves of a cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_most_ms: Option<f64>,
    /// Time at the start of each send slot in which nothing is sent, in milliseconds. It absorbs
    /// late wake-ups and the switch from receiving to sending.
    pub guard_ms: f64,
    /// Most retransmissions of a packet, or `auto`.
    pub retries: Retries,
    /// Which packets wait at the receiver until earlier ones have arrived.
    pub in_order: InOrder,
    /// When erasure coding is used, besides retransmission.
    pub recovery: Recovery,
    /// Loss that may remain after coding, and after retries that are `auto`, 0 to 1. Coding adapts
    /// to the losses of the last ten slots; without retransmission, flows that send little lose
    /// more.
    pub target_loss: f64,
    /// Most data packets in a code block.
    pub block_packets: u8,
    /// Packets in flight to one neighbour. Default: four slots of 100-byte packets, at least 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_packets: Option<u16>,
    /// Packets of one flow that may wait. Default: four slots of 1,500-byte packets, at least 64
    /// and at most 4,096; for TCP, also at most eight such slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<usize>,
    /// Whether TCP acknowledgements and short packets may ride in the frames of other packets that
    /// have space left. Acknowledgements that ride are passed on as soon as they arrive, even if
    /// earlier ones are still being repeated.
    pub acks_ride: bool,
    /// Fill frames up to this many bytes after the MAC header with packets and parts of packets,
    /// for neighbours that can join the parts. 802.11 permits 2,304. Default: one packet per frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u16>,
    /// Time added to each frame's air time when a slot is planned, in microseconds.
    pub overhead_us: f64,
    /// Classes of flows with their own values; a flow belongs to the first class that matches.
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

    /// This configuration with the slot lengths that are not set filled in, for a node whose
    /// longest packet takes `on_air`, and whose farthest neighbour is a propagation delay of `way`
    /// away, if that is known.
    pub fn with_lengths(&self, lengths: Lengths, on_air: Duration, way: Option<Duration>) -> Self {
        let slot_ms = self.slot_ms;
        let packet_ms = self.guard_ms + self.overhead_us / 1e3 + on_air.as_millis_f64();
        let way_ms = way.map_or(slot_ms, |way| Self::shortest_over(way).as_millis_f64());
        // Rounded up to tenths of a millisecond, as people write it.
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

    /// The shortest slot that a neighbour at a propagation delay of `way` can follow. Measured: a
    /// pair fails if the round trip takes two thirds of a slot, a relay if it takes about half.
    pub fn shortest_over(way: Duration) -> Duration {
        way * 4
    }

    /// Length of the shortest slot; that of all slots if neither the scenario nor the plan sets
    /// one.
    pub fn slot_least(&self) -> Duration {
        Duration::from_secs_f64(self.slot_least_ms.unwrap_or(self.slot_ms) / 1e3)
    }

    /// Length of the longest slot; that of all slots if neither the scenario nor the plan sets one.
    pub fn slot_most(&self) -> Duration {
        Duration::from_secs_f64(self.slot_most_ms.unwrap_or(self.slot_ms) / 1e3)
    }

    /// The guard at the start of a send slot.
    pub fn guard(&self) -> Duration {
        Duration::from_secs_f64(self.guard_ms / 1e3)
    }

    /// How many IP packets of `bytes` bytes a radio sends in a slot of this length. The time that
    /// is added to each frame in the plan is returned when the frame has been sent, so it counts
    /// only once, at the end of the slot. If the radio aggregates, the first frame goes by itself,
    /// and time for a block acknowledgement request is kept after the last one.
    pub fn packets_a_slot(&self, radio: &RadioSpec, slot: Duration, bytes: usize) -> u64 {
        let (room, bytes) = (self.room(slot), HEADER_BYTES + bytes);
        if !radio.aggregates() {
            return radio.frames_in(room, bytes);
        }
        let first = radio.unacknowledged(bytes);
        // The block acknowledgement of the last transmission may still be on its way at the end.
        let others =
            (room + radio.there_and_back()).saturating_sub(first + radio.block_ack_request());
        u64::from(room >= first) + radio.frames_in(others, bytes)
    }

    /// The part of a slot that frames may use: without the guard and the overhead of one frame.
    pub fn room(&self, slot: Duration) -> Duration {
        slot.saturating_sub(self.guard() + Duration::from_secs_f64(self.overhead_us / 1e6))
    }

    /// Packets in flight to one neighbour; by default four slots of small packets. If it were
    /// computed from full packets, a flow of small packets would stand still while a lost one is
    /// repeated.
    pub fn window(&self, radio: &RadioSpec) -> usize {
        let capacity = self.packets_a_slot(radio, self.slot(), SMALL_PACKET_BYTES) as usize;
        let window = self.window_packets.map_or((4 * capacity).max(SMALLEST_WINDOW), usize::from);
        window.clamp(1, MAX_ACK_BITS)
    }
}

/// Most retransmissions of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retries {
    /// This many.
    Fixed(u8),
    /// As many as keep the loss that remains within the target at the measured loss, at most 10.
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

/// A number of retransmissions, or `auto`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it stands for the forms in the schema")]
enum RetriesForm {
    /// This many.
    Fixed(u8),
    /// A word.
    Word(RetriesWord),
}

/// How retransmissions are chosen automatically.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[allow(dead_code, reason = "it stands for the forms in the schema")]
enum RetriesWord {
    /// From the measured loss and the loss that may remain.
    Auto,
}

/// Which packets a receiver holds back until earlier ones have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InOrder {
    /// None: packets are passed on as they arrive.
    None,
    /// Each packet waits for earlier packets of its flow.
    #[default]
    Flow,
    /// Each packet waits for all earlier packets of the neighbour.
    Link,
}

/// The combinations of retransmission and erasure coding (`wildnet.md` 7.2, options a to d).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Coding only: no packet is sent twice.
    Fec,
    /// Retransmission only.
    Arq,
    /// Retransmission, and coding of first transmissions while losses come in bursts.
    #[default]
    BurstFec,
    /// Retransmission, and coding of the retransmissions only.
    FecOnRetransmit,
}
