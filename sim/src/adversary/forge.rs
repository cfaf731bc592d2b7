//! Frames that a stranger makes up, with plausible values in each field.

use std::collections::BTreeMap;

use bytes::Bytes;
use farhop_proto::base::{AddressPlan, Bitrate, Duration, EtherType, FlowId, NodeId, Rng, Seq};
use farhop_proto::wire::harq;
use farhop_proto::wire::olsr::{self, Body, LinkCode};
use farhop_proto::wire::secure::{UNIT, UNIT_HEADER_BYTES, UNIT_TAG_BYTES};
use farhop_proto::wire::wild::{self, BulkAck, Coded, Header, Kind, flag};
use farhop_proto::wire::{ip, udp};

use super::Record;
use super::memory::Memory;

/// Longest body of a forged frame, in bytes.
const BODY: u64 = 1440;
/// Length of the tag at the end of a sealed frame, in bytes.
const TAG: usize = 16;
/// Version of sealed frames, in the upper half of their first byte.
const SEALED_VERSION: u8 = 1 << 4;

/// What was last heard from a node.
#[derive(Clone, Debug, Default)]
struct Overheard {
    /// Epoch and counter of a sealed frame.
    sealed: Option<(u8, u64)>,
    /// A unit or a report of units, with its tag.
    unit: Option<Bytes>,
    /// Header of a frame of a link.
    link: Option<Header>,
}

/// Makes up frames.
#[derive(Debug)]
pub(super) struct Forger {
    nodes: Vec<NodeId>,
    addresses: AddressPlan,
    rates: Vec<Bitrate>,
    overheard: BTreeMap<NodeId, Overheard>,
}

impl Forger {
    /// The usual rate is the first of `rates`.
    pub(super) fn new(nodes: Vec<NodeId>, addresses: AddressPlan, rates: Vec<Bitrate>) -> Self {
        let overheard = nodes.iter().map(|node| (*node, Overheard::default())).collect();
        Self { nodes, addresses, rates, overheard }
    }

    /// Learns plausible header values from a frame.
    pub(super) fn take(&mut self, record: &Record) {
        let Some(known) = self.overheard.get_mut(&record.from) else { return };
        match record.protocol {
            EtherType::SEALED if record.payload.first() == Some(&UNIT) => {
                known.unit = Some(record.payload.clone());
            }
            EtherType::SEALED => {
                let head = record.payload.first_chunk::<8>();
                known.sealed = head.filter(|head| head[0] & 0x0f >= 3).map(|head| {
                    let counter = u64::from_be_bytes(*head) & 0xffff_ffff_ffff;
                    (head[1], counter)
                });
            }
            EtherType::FARHOP => {
                known.link = wild::decode(&record.payload).ok().map(|decoded| decoded.header);
            }
            _ => {}
        }
    }

    /// A random sender, and another node or all as the receiver.
    pub(super) fn ends(&self, rng: &mut Rng) -> (NodeId, Option<NodeId>) {
        let from = *pick(&self.nodes, rng);
        let to = *pick(&self.nodes, rng);
        (from, (to != from && rng.chance(0.8)).then_some(to))
    }

    /// Mostly the usual rate, otherwise a random one.
    pub(super) fn rate(&self, rng: &mut Rng) -> Bitrate {
        if rng.chance(0.75) { self.rates[0] } else { *pick(&self.rates, rng) }
    }

    /// Random bytes after a plausible first byte.
    pub(super) fn flood(&self, rng: &mut Rng) -> Record {
        let protocols = [EtherType::SEALED, EtherType::FARHOP, EtherType::IPV4, EtherType::IPV6];
        let protocol = *pick(&protocols, rng);
        let length = 1 + rng.below(BODY) as usize;
        let mut payload = random_bytes(length, rng);
        payload[0] = match protocol {
            EtherType::SEALED => SEALED_VERSION | payload[0] & 0x0f,
            EtherType::FARHOP => 0x10 | (1 + payload[0] % 5),
            EtherType::IPV4 => 0x45,
            _ => 0x60,
        };
        let (from, to) = self.ends(rng);
        Record { from, to, protocol, payload: payload.into(), rate: self.rate(rng) }
    }

    /// A well-formed frame of a random type.
    pub(super) fn forge(&self, memory: &Memory, rng: &mut Rng) -> Record {
        let (from, to) = self.ends(rng);
        let (protocol, payload) = match rng.below(5) {
            0 | 1 => (EtherType::SEALED, self.sealed(from, memory, rng)),
            2 => (EtherType::FARHOP, self.link_frame(from, rng)),
            3 => (EtherType::IPV4, self.routes(from, rng)),
            _ => (EtherType::IPV4, self.packet(from, to, rng)),
        };
        Record { from, to, protocol, payload, rate: self.rate(rng) }
    }

    /// A sealed frame with a header that could be the sender's next. The body is random, or that of
    /// another frame.
    fn sealed(&self, from: NodeId, memory: &Memory, rng: &mut Rng) -> Bytes {
        let kind = rng.below(16) as u8;
        // If units are sent, they are what is worth forging.
        if let Some(unit) = &self.overheard[&from].unit
            && rng.chance(0.5)
        {
            return forged_unit(unit, rng);
        }
        let (epoch, counter) = match self.overheard[&from].sealed {
            Some((epoch, counter)) => {
                let epoch = epoch.wrapping_add(*pick(&[0, 0, 0, 1, 255], rng));
                let ahead = *pick(&[0, 1, 1, 2, 100, 5_000, 1 << 32], rng);
                (epoch, if rng.chance(0.2) { counter / 2 } else { counter + ahead })
            }
            None => (rng.below(4) as u8, rng.below(1 << 16)),
        };
        let mut out = vec![SEALED_VERSION | kind, epoch];
        if kind >= 3 {
            out.extend_from_slice(&counter.to_be_bytes()[2..]);
        }
        let other = memory.recent(rng).filter(|other| other.payload.len() > 8 + TAG);
        match other.filter(|_| rng.chance(0.3)) {
            Some(other) => out.extend_from_slice(&other.payload[8..]),
            None => out.extend(random_bytes(TAG + rng.below(BODY) as usize, rng)),
        }
        out.into()
    }

    /// A frame of the slotted link in the clear, with stamps, acknowledgements, data or parity.
    fn link_frame(&self, from: NodeId, rng: &mut Rng) -> Bytes {
        let kinds = [Kind::Data, Kind::Fec, Kind::Ack, Kind::Idle, Kind::Marker];
        let kind = *pick(&kinds, rng);
        let known = self.overheard[&from].link;
        let last = known.unwrap_or(Header {
            kind,
            flags: 0,
            flow: FlowId(rng.below(1 << 16) as u16),
            seq: Seq(rng.below(1000) as u32),
            flow_seq: rng.below(1000) as u16,
            attempt: 0,
            slot: rng.below(1 << 16) as u16,
            delta_us: 0,
            incarnation: rng.below(256) as u8,
            coded: None,
            base_offset: 0,
            protocol: EtherType::IPV4,
            cluster: 0,
            length: wild::FULL_LENGTH,
            demand: 0,
        });
        let is_coded = kind == Kind::Fec || rng.chance(0.2);
        let header = Header {
            kind,
            flags: rng.below(32) as u8 & !flag::HAS_ACK | flag::FIRST_IN_SLOT,
            seq: last.seq.add(rng.below(40) as u32),
            flow_seq: last.flow_seq.wrapping_add(rng.below(40) as u16),
            attempt: rng.below(3) as u8,
            slot: last.slot.wrapping_add(rng.below(3) as u16),
            delta_us: rng.below(20_000) as u32,
            incarnation: last.incarnation.wrapping_add(u8::from(rng.chance(0.1))),
            coded: is_coded.then(|| {
                let index = if kind == Kind::Fec { 10 } else { rng.below(10) as u8 };
                Coded { block: rng.below(1 << 16) as u16, index, k: 10 }
            }),
            base_offset: rng.below(8) as u16,
            ..last
        };
        let is_acknowledging = kind == Kind::Ack || rng.chance(0.3);
        let ack = if is_acknowledging { bulk_ack(&header, rng) } else { Bytes::new() };
        let body = match kind {
            // The length of the slot, in microseconds.
            Kind::Idle => (1_000 + rng.below(79_000) as u32).to_be_bytes().to_vec(),
            Kind::Ack | Kind::Marker => Vec::new(),
            Kind::Data | Kind::Fec => random_bytes(1 + rng.below(BODY - 60) as usize, rng),
        };
        wild::encode(&header, &ack, &body)
    }

    /// A routing message that a node could send: neighbours of its own, or those of another node.
    fn routes(&self, from: NodeId, rng: &mut Rng) -> Bytes {
        let neighbour = |rng: &mut Rng| {
            let address = self.addresses.ipv4(*pick(&self.nodes, rng));
            olsr::Neighbour { address, lq: rng.below(256) as u8, nlq: rng.below(256) as u8 }
        };
        let neighbours: Vec<_> = (0..1 + rng.below(8)).map(|_| neighbour(rng)).collect();
        let is_hello = rng.chance(0.5);
        let body = if is_hello {
            let codes = [LinkCode::Asymmetric, LinkCode::Symmetric, LinkCode::Relay];
            let neighbours = neighbours.iter().map(|at| (*pick(&codes, rng), *at)).collect();
            let interval = Duration::from_secs(2);
            Body::Hello(olsr::Hello { interval, willingness: 7, neighbours })
        } else {
            let ansn = rng.below(1 << 16) as u16;
            Body::Topology(olsr::Topology { ansn, reach: u8::MAX, neighbours, counter: None })
        };
        let originator = if is_hello { from } else { *pick(&self.nodes, rng) };
        let message = olsr::Message {
            validity: Duration::from_secs(60),
            originator: self.addresses.ipv4(originator),
            ttl: 255,
            hops: u8::from(originator != from),
            seq: rng.below(1 << 16) as u16,
            body,
            bytes: Bytes::new(),
        };
        let packet = olsr::packet(rng.below(1 << 16) as u16, &[message.encode(None)]);
        let at = |address| std::net::SocketAddrV4::new(address, olsr::PORT);
        let everybody = std::net::Ipv4Addr::BROADCAST;
        udp::encode(at(self.addresses.ipv4(from)), at(everybody), &packet, &[])
    }

    /// A datagram to a node, with ports that may be in use.
    fn packet(&self, from: NodeId, to: Option<NodeId>, rng: &mut Rng) -> Bytes {
        let to = to.unwrap_or_else(|| *pick(&self.nodes, rng));
        let [source, destination] = [from, to].map(|node| {
            let port = 5_000 + rng.below(300) as u16;
            std::net::SocketAddrV4::new(self.addresses.ipv4(node), port)
        });
        let body = random_bytes(1 + rng.below(1_000) as usize, rng);
        if rng.chance(0.5) {
            return udp::encode(source, destination, &body, &[]);
        }
        // A TCP segment that resets a connection.
        let mut out = Vec::new();
        ip::put_ipv4(&mut out, *source.ip(), *destination.ip(), ip::TCP, 20);
        out.extend_from_slice(&source.port().to_be_bytes());
        out.extend_from_slice(&destination.port().to_be_bytes());
        out.extend(random_bytes(8, rng));
        out.extend_from_slice(&[0x50, 0x04, 0xff, 0xff, 0, 0, 0, 0]);
        out.into()
    }
}

/// The next unit that a node could send, or the last one with another body or other reports; its
/// tag is a guess.
fn forged_unit(unit: &Bytes, rng: &mut Rng) -> Bytes {
    let head = UNIT_HEADER_BYTES + harq::UNIT_HEADER_BYTES;
    let mut out = unit.to_vec();
    let end = out.len() - UNIT_TAG_BYTES;
    let guess = random_bytes(UNIT_TAG_BYTES, rng);
    out[end..].copy_from_slice(&guess);
    if end > head && rng.chance(0.7) {
        let body = random_bytes(end - head, rng);
        out[head..end].copy_from_slice(&body);
    }
    // The last bytes of the burst number and of the block number, and the index.
    for at in [6, 10, 13].map(|at| UNIT_HEADER_BYTES + at) {
        if at < end && rng.chance(0.5) {
            out[at] = out[at].wrapping_add(rng.below(4) as u8);
        }
    }
    out.into()
}

/// An acknowledgement of frames that may have been sent.
fn bulk_ack(header: &Header, rng: &mut Rng) -> Bytes {
    let nbits = rng.below(100) as u16;
    let ack = BulkAck {
        cum: header.seq.add(rng.below(64) as u32),
        nbits,
        bits: random_bytes(usize::from(nbits).div_ceil(8), rng).into(),
        slot: header.slot,
        received: rng.below(20) as u16,
    };
    ack.encode()
}

fn pick<'a, T>(of: &'a [T], rng: &mut Rng) -> &'a T {
    &of[rng.below(of.len() as u64) as usize]
}

fn random_bytes(length: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for part in bytes.chunks_mut(8) {
        let drawn = rng.next_u64().to_be_bytes();
        part.copy_from_slice(&drawn[..part.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_proto::base::{Seed, Subnet};
    use std::collections::BTreeSet;

    fn forger() -> Forger {
        let nodes = vec![NodeId(1), NodeId(2), NodeId(3)];
        let rates = [110, 10, 20].map(Bitrate::from_100kbps);
        Forger::new(nodes, AddressPlan(Subnet::default()), rates.into())
    }

    #[test]
    fn every_type_of_frame_is_forged_under_every_name() {
        let (forger, mut rng) = (forger(), Seed(1).stream("draws"));
        let memory = Memory::new(Seed(1).stream("memory"));
        let (mut sealed, mut links, mut names) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut datagrams = 0;
        for _ in 0..2_000 {
            let Record { from, protocol, payload, .. } = forger.forge(&memory, &mut rng);
            names.insert(from);
            match protocol {
                EtherType::SEALED => {
                    assert_eq!(payload[0] >> 4, 1);
                    sealed.insert(payload[0] & 0x0f);
                }
                EtherType::FARHOP => {
                    let decoded = wild::decode(&payload).expect("well-formed");
                    links.insert((decoded.header.kind as u8, decoded.ack.is_some()));
                }
                _ => datagrams += usize::from(udp::decode(&payload).is_ok()),
            }
        }
        assert_eq!((sealed.len(), names.len()), (16, 3));
        // A frame of type `Ack` always has an acknowledgement.
        assert_eq!(links.len(), 9);
        assert!(datagrams > 100, "{datagrams}");
    }

    #[test]
    fn counters_follow_what_was_heard() {
        let (mut forger, mut rng) = (forger(), Seed(1).stream("draws"));
        let memory = Memory::new(Seed(1).stream("memory"));
        let payload = [&[0x14, 7, 0, 0, 0, 0, 1, 0][..], &[0; 20]].concat();
        for from in [1, 2, 3].map(NodeId) {
            let record = Record {
                from,
                to: None,
                protocol: EtherType::SEALED,
                payload: payload.clone().into(),
                rate: Bitrate::from_100kbps(110),
            };
            forger.take(&record);
        }
        let next = [0x14, 7, 0, 0, 0, 0, 1, 1];
        let is_next = |_: &i32| {
            let forged = forger.forge(&memory, &mut rng);
            forged.protocol == EtherType::SEALED && forged.payload[1..8] == next[1..]
        };
        assert!((0..2_000).filter(is_next).count() > 50);
    }

    #[test]
    fn units_are_forged_where_they_are_heard() {
        let (mut forger, mut rng) = (forger(), Seed(1).stream("draws"));
        let memory = Memory::new(Seed(1).stream("memory"));
        let bytes = [&[UNIT, 7][..], &[0x11; 60], &[0; 4]].concat();
        for from in [1, 2, 3].map(NodeId) {
            let (to, protocol) = (Some(NodeId(4)), EtherType::SEALED);
            let rate = Bitrate::from_100kbps(110);
            forger.take(&Record { from, to, protocol, payload: bytes.clone().into(), rate });
        }
        let is_unit = |_: &i32| {
            let forged = forger.forge(&memory, &mut rng).payload;
            forged.len() == bytes.len() && forged[..5] == bytes[..5] && forged[..] != bytes[..]
        };
        assert!((0..2_000).filter(is_unit).count() > 400);
    }
}
