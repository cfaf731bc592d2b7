//! A stranger: what it sends next, and when.

use bytes::{Bytes, BytesMut};
use farhop_proto::base::{
    AddressPlan, Bitrate, Duration, Instant, NodeId, Phy, ReceivedFrame, Rng, Seed,
};
use farhop_proto::stack::{AdversaryConfig, AdversaryKind};

use super::forge::Forger;
use super::memory::Memory;
use super::revoked::{OldKey, Revoked};
use super::{Record, Shot, air_time};

/// How long it waits if it has nothing to send yet.
const PAUSE: Duration = Duration::from_millis(2);
/// Frame length that the gap before the first frame is based on.
const TYPICAL: Duration = Duration::from_millis(1);

/// Everything that a stranger is built from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its configuration in the scenario.
    pub config: AdversaryConfig,
    /// PHY of its radio.
    pub phy: Phy,
    /// The rate that most of its frames have.
    pub rate: Bitrate,
    /// The nodes that it impersonates; at least one.
    pub nodes: Vec<NodeId>,
    /// Address plan of the nodes.
    pub addresses: AddressPlan,
    /// Key material that was trusted once, if nodes have keys.
    pub old_key: Option<OldKey>,
}

/// A stranger.
#[derive(Debug)]
pub struct Stranger {
    config: AdversaryConfig,
    phy: Phy,
    nodes: Vec<NodeId>,
    memory: Memory,
    forger: Forger,
    revoked: Option<Revoked>,
    rng: Rng,
    next_at: Option<Instant>,
    end: Instant,
    left: u64,
}

impl Stranger {
    /// Panics if there are no nodes.
    pub fn build(setup: Setup, seed: Seed) -> Self {
        let Setup { config, phy, rate, nodes, addresses, old_key } = setup;
        assert!(!nodes.is_empty(), "an adversary without nodes");
        let stream = |what| seed.stream(&format!("adversary/{}/{what}", config.name));
        let mut rng = stream("draws");
        let at = |seconds| Instant::ZERO + Duration::from_secs_f64(seconds);
        let mut rates = vec![rate];
        rates.extend(phy.rates().iter().filter(|other| **other != rate));
        let first = (config.duty > 0.0 && config.frames != Some(0))
            .then(|| at(config.from_s) + gap(TYPICAL, config.duty, &mut rng));
        Self {
            memory: Memory::new(stream("memory")),
            revoked: old_key
                .filter(|_| config.kinds.contains(&AdversaryKind::RevokedKey))
                .map(|old_key| Revoked::build(old_key, &mut stream("old-key"))),
            forger: Forger::new(nodes.clone(), addresses, rates),
            next_at: first,
            end: config.to_s.map_or(Instant::MAX, at),
            left: config.frames.unwrap_or(u64::MAX),
            config,
            phy,
            nodes,
            rng,
        }
    }

    /// Its configuration in the scenario.
    pub fn config(&self) -> &AdversaryConfig {
        &self.config
    }

    /// Takes a frame that its radio heard.
    pub fn handle_frame(&mut self, now: Instant, frame: &ReceivedFrame) {
        if let Some(revoked) = &mut self.revoked {
            revoked.handle_frame(now, frame);
        }
        let record = Record {
            from: frame.from,
            to: frame.to,
            protocol: frame.protocol,
            payload: frame.payload.clone(),
            rate: frame.rate,
        };
        self.forger.take(&record);
        self.memory.take(&record);
    }

    /// When it next sends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_at
    }

    /// The frame that it sends now, if one is due.
    pub fn poll_shot(&mut self, now: Instant) -> Option<Shot> {
        if self.next_at.is_none_or(|at| at > now) {
            return None;
        }
        if now >= self.end || self.left == 0 {
            self.next_at = None;
            return None;
        }
        let Some((kind, frame)) = self.choose(now) else {
            self.next_at = Some(now + PAUSE);
            return None;
        };
        let air_time = air_time(&self.phy, frame.payload.len(), frame.rate);
        self.left -= 1;
        self.next_at = Some(now + air_time + gap(air_time, self.config.duty, &mut self.rng));
        Some(Shot { kind: Some(kind), frame, air_time })
    }

    /// A frame of a random kind, equally likely among those that can be made now.
    fn choose(&mut self, now: Instant) -> Option<(AdversaryKind, Record)> {
        let mut kinds = self.config.kinds.clone();
        while !kinds.is_empty() {
            let drawn = self.rng.below(kinds.len() as u64) as usize;
            let kind = kinds.swap_remove(drawn);
            if let Some(frame) = self.frame_of(now, kind) {
                return Some((kind, frame));
            }
        }
        None
    }

    fn frame_of(&mut self, now: Instant, kind: AdversaryKind) -> Option<Record> {
        let rng = &mut self.rng;
        match kind {
            AdversaryKind::Flood => Some(self.forger.flood(rng)),
            AdversaryKind::Forge => Some(self.forger.forge(&self.memory, rng)),
            AdversaryKind::Replay => self.replay(),
            AdversaryKind::BitFlip => self.bit_flip(),
            AdversaryKind::Reorder => self.memory.reordered(rng),
            AdversaryKind::RecordedHandshakes => self.handshake(),
            AdversaryKind::RevokedKey => {
                let record = self.revoked.as_mut()?.poll_frame(now, rng)?;
                Some(Record { rate: self.forger.rate(rng), ..record })
            }
        }
        .map(own_bytes)
    }

    /// The last frame, a recent one, or any earlier one, at its own rate.
    fn replay(&mut self) -> Option<Record> {
        let rng = &mut self.rng;
        match rng.below(4) {
            0 => self.memory.last(),
            1 => self.memory.recent(rng),
            _ => self.memory.old(rng),
        }
        .cloned()
    }

    fn bit_flip(&mut self) -> Option<Record> {
        let mut record = self.replay().filter(|record| !record.payload.is_empty())?;
        let mut payload = BytesMut::from(&record.payload[..]);
        // Distinct bits, so that none is flipped back.
        let bits = payload.len() as u64 * 8;
        let count = (1 + self.rng.below(3)).min(bits);
        let first = self.rng.below(bits);
        let stride = 1 + self.rng.below((bits / count).max(1));
        for step in 0..count {
            let bit = (first + step * stride) % bits;
            payload[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        record.payload = payload.freeze();
        Some(record)
    }

    /// A recorded handshake message, to its receiver or with other ends.
    fn handshake(&mut self) -> Option<Record> {
        let mut record = self.memory.handshake(&mut self.rng)?.clone();
        if self.rng.chance(0.5) {
            let other = self.nodes[self.rng.below(self.nodes.len() as u64) as usize];
            match self.rng.below(3) {
                0 => record.to = Some(other).filter(|other| *other != record.from),
                1 if Some(other) != record.to => record.from = other,
                // Back to its sender.
                _ => {
                    if let Some(to) = record.to {
                        (record.from, record.to) = (to, Some(record.from));
                    }
                }
            }
        }
        Some(record)
    }
}

/// Copies the payload: drivers recognize a hostile frame by the address of its payload in memory.
fn own_bytes(record: Record) -> Record {
    Record { payload: Bytes::copy_from_slice(&record.payload), ..record }
}

/// The silence after a frame: exponential, so that on average the frame's share of both is `duty`.
fn gap(frame: Duration, duty: f64, rng: &mut Rng) -> Duration {
    let mean = frame.mul_f64((1.0 - duty) / duty);
    // 1 - u lies in (0, 1], so that the logarithm is finite.
    mean.mul_f64(-libm::log(1.0 - rng.uniform()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_proto::base::{EtherType, RadioId, Subnet};
    use std::collections::BTreeMap;

    fn stranger(config: AdversaryConfig) -> Stranger {
        let setup = Setup {
            config: AdversaryConfig { name: "eve".into(), ..config },
            phy: Phy::default(),
            rate: Bitrate::from_100kbps(110),
            nodes: vec![NodeId(1), NodeId(2), NodeId(3)],
            addresses: AddressPlan(Subnet::default()),
            old_key: None,
        };
        Stranger::build(setup, Seed(1))
    }

    fn heard(number: u8, length: usize) -> ReceivedFrame {
        let mut payload = vec![number; length];
        payload[0] = 0x10 | (number % 8);
        ReceivedFrame {
            radio: RadioId(0),
            from: NodeId(1),
            to: Some(NodeId(2)),
            protocol: EtherType::SEALED,
            payload: payload.into(),
            started: Instant::ZERO,
            rate: Bitrate::from_100kbps(20),
            signal: None,
            bits: 0,
        }
    }

    /// Everything that it sends in a time; it hears a frame before each of its own.
    fn shots(stranger: &mut Stranger, seconds: u64) -> Vec<(Instant, Shot)> {
        let end = Instant::ZERO + Duration::from_secs(seconds);
        let mut shots = Vec::new();
        while let Some(at) = stranger.poll_timeout().filter(|at| *at < end) {
            let number = shots.len() as u8;
            stranger.handle_frame(at, &heard(number, 100 + usize::from(number)));
            shots.extend(stranger.poll_shot(at).map(|shot| (at, shot)));
        }
        shots
    }

    #[test]
    fn its_share_of_the_air_is_the_duty() {
        for duty in [0.1, 0.3, 0.6, 1.0] {
            let mut stranger = stranger(AdversaryConfig { duty, ..Default::default() });
            let sent = shots(&mut stranger, 200);
            let on_air: f64 = sent.iter().map(|(_, shot)| shot.air_time.as_secs_f64()).sum();
            assert!((on_air / 200.0 / duty - 1.0).abs() < 0.05, "{duty}: {}", on_air / 200.0);
            let overlaps = |pair: &[(Instant, Shot)]| pair[0].0 + pair[0].1.air_time > pair[1].0;
            assert!(!sent.windows(2).any(overlaps));
        }
    }

    #[test]
    fn it_keeps_to_its_span_and_its_number() {
        let config = AdversaryConfig {
            duty: 0.5,
            from_s: 3.0,
            to_s: Some(5.0),
            ..AdversaryConfig::default()
        };
        let sent = shots(&mut stranger(config.clone()), 10);
        assert!(sent.len() > 500, "{}", sent.len());
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert!(sent.iter().all(|(start, _)| (at(3)..at(5)).contains(start)));
        let few = AdversaryConfig { frames: Some(7), ..config };
        assert_eq!(shots(&mut stranger(few), 10).len(), 7);
        assert!(shots(&mut stranger(AdversaryConfig::default()), 10).is_empty(), "no duty");
    }

    #[test]
    fn every_kind_has_its_share_and_does_what_it_says() {
        let mut stranger = stranger(AdversaryConfig { duty: 0.5, ..Default::default() });
        let mut counts: BTreeMap<AdversaryKind, usize> = BTreeMap::new();
        for (_, shot) in shots(&mut stranger, 20) {
            let kind = shot.kind.expect("no script");
            *counts.entry(kind).or_default() += 1;
            let Record { payload, protocol, .. } = &shot.frame;
            // The frames that were heard repeat one byte after their first byte.
            let differing =
                payload[1..].iter().map(|byte| (byte ^ payload[payload.len() / 2]).count_ones());
            match kind {
                AdversaryKind::Replay | AdversaryKind::Reorder => {
                    assert_eq!(differing.sum::<u32>(), 0);
                }
                AdversaryKind::RecordedHandshakes => {
                    assert_eq!(*protocol, EtherType::SEALED);
                    assert!(payload[0] & 0x0f < 3);
                }
                _ => {}
            }
        }
        let all = counts.values().sum::<usize>();
        for kind in AdversaryKind::ALL {
            let share = counts.get(&kind).copied().unwrap_or(0) as f64 / all as f64;
            println!("{}: {share:.3}", kind.name());
            assert!(share > 0.02 || kind == AdversaryKind::RevokedKey, "{}", kind.name());
        }
    }

    #[test]
    fn a_flipped_frame_differs_in_one_to_three_bits() {
        let kinds = vec![AdversaryKind::BitFlip];
        let mut stranger = stranger(AdversaryConfig { duty: 0.5, kinds, ..Default::default() });
        let original = heard(5, 64);
        stranger.handle_frame(Instant::ZERO, &original);
        for _ in 0..1_000 {
            let at = stranger.poll_timeout().expect("it goes on");
            let shot = stranger.poll_shot(at).expect("a frame");
            let pairs = shot.frame.payload.iter().zip(&original.payload);
            let bits: u32 = pairs.map(|(a, b)| (a ^ b).count_ones()).sum();
            assert!((1..=3).contains(&bits), "{bits}");
        }
    }

    #[test]
    fn without_anything_to_send_it_waits() {
        let kinds = vec![AdversaryKind::Replay];
        let mut stranger = stranger(AdversaryConfig { duty: 0.5, kinds, ..Default::default() });
        let at = stranger.poll_timeout().expect("it begins");
        assert_eq!(stranger.poll_shot(at), None);
        assert_eq!(stranger.poll_timeout(), Some(at + PAUSE));
    }
}
