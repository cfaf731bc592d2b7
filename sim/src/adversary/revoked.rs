//! A stranger with a key pair that the nodes no longer trust: it performs real handshakes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use farhop_proto::base::{
    AckPolicy, Bitrate, Cx, EtherType, FlowId, Frame, FrameDown, FrameUp, Instant, Layer, NodeId,
    RadioId, ReceivedFrame, Rng, Room, TxOptions, UnitId,
};
use farhop_proto::base::{Identity, PublicKey};
use farhop_proto::link::PeerSpec;
use farhop_proto::link::secure::{Secure, SecureSpec, SecurityConfig};

use super::Record;

/// The most nodes that it impersonates, and the most neighbours of each.
const PLACES: usize = 8;
const NEIGHBOURS: usize = 32;
/// The most frames that wait to be sent.
const WAITING: usize = 8;

/// What a stranger has that was once trusted.
#[derive(Clone, Debug)]
pub struct OldKey {
    /// How the nodes protect their frames, which everyone who was trusted knows.
    pub security: SecurityConfig,
    /// The public keys of the nodes.
    pub keys: BTreeMap<NodeId, PublicKey>,
}

/// A revoked key pair, used in the name of several nodes at which it may still be accepted.
#[derive(Debug)]
pub(super) struct Revoked {
    /// The key layer that real nodes have, one for each node that it impersonates.
    places: Vec<(NodeId, Secure)>,
    nodes: Vec<NodeId>,
    waiting: VecDeque<Record>,
}

impl Revoked {
    /// With a key pair that the nodes do not trust.
    pub(super) fn build(old: OldKey, rng: &mut Rng) -> Self {
        let secret = random(rng);
        let nodes: Vec<NodeId> = old.keys.keys().copied().take(NEIGHBOURS).collect();
        let layer = |node: &NodeId| {
            let others = nodes.iter().filter(|other| *other != node);
            let peer = |node: &NodeId| PeerSpec { node: *node, radio: RadioId(0) };
            let secure = Secure::build(SecureSpec {
                node: *node,
                identity: Identity::from_secret(secret),
                entropy: random(rng),
                config: old.security.clone(),
                peers: others.map(peer).collect(),
                keys: Arc::new(old.keys.clone()),
            });
            (*node, secure)
        };
        let places = nodes.iter().take(PLACES).map(layer).collect();
        Self { places, nodes, waiting: VecDeque::new() }
    }

    /// Takes a frame that answers one of the impersonated nodes.
    pub(super) fn handle_frame(&mut self, now: Instant, frame: &ReceivedFrame) {
        let place = self.places.iter_mut().find(|(node, _)| Some(*node) == frame.to);
        let Some((_, secure)) = place else { return };
        let mut cx = Cx::new(now);
        secure.handle_rx(&mut cx, FrameUp::Received(frame.clone()));
        while secure.poll_rx(&mut cx).is_some() {}
    }

    /// The next handshake message to some node.
    pub(super) fn poll_frame(&mut self, now: Instant, rng: &mut Rng) -> Option<Record> {
        if let Some(record) = self.waiting.pop_front() {
            return Some(record);
        }
        let count = self.places.len() as u64;
        let (from, secure) = self.places.get_mut(rng.below(count.max(1)) as usize)?;
        let others = self.nodes.iter().filter(|node| *node != from);
        let to = *others.clone().nth(rng.below(others.count().max(1) as u64) as usize)?;
        let mut cx = Cx::new(now);
        secure.handle_timeout(&mut cx);
        secure.handle_tx(&mut cx, FrameDown::Frame(beacon(to)));
        while secure.poll_rx(&mut cx).is_some() {}
        while let Some(down) = secure.poll_tx(&mut cx, &|_| Room::UNLIMITED) {
            if let FrameDown::Frame(frame) = down
                && self.waiting.len() < WAITING
            {
                self.waiting.push_back(Record {
                    from: *from,
                    to: frame.to,
                    protocol: frame.protocol,
                    payload: frame.payload,
                    // The caller sets the rate.
                    rate: Bitrate::from_bps(0),
                });
            }
        }
        self.waiting.pop_front()
    }
}

/// A frame of a link, for which the key layer first needs a handshake.
fn beacon(to: NodeId) -> Frame {
    Frame {
        id: UnitId(0),
        radio: RadioId(0),
        to: Some(to),
        flow: FlowId::CONTROL,
        protocol: EtherType::FARHOP,
        payload: Bytes::from_static(&[0; 32]),
        options: TxOptions { ack: AckPolicy::NoAck, ..TxOptions::default() },
    }
}

fn random(rng: &mut Rng) -> [u8; 32] {
    let mut out = [0; 32];
    for word in out.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_proto::base::{Duration, Seed};
    use farhop_proto::wire::secure::{Header, Kind};

    #[test]
    fn it_begins_handshakes_under_the_names_of_all() {
        let key = |node: u8| (NodeId(node.into()), Identity::from_secret([node; 32]).public());
        let keys = BTreeMap::from([1, 2, 3].map(key));
        let mut rng = Seed(1).stream("draws");
        let mut revoked =
            Revoked::build(OldKey { security: SecurityConfig::default(), keys }, &mut rng);
        let mut pairs = std::collections::BTreeSet::new();
        for step in 0..300 {
            let now = Instant::ZERO + Duration::from_millis(step * 20);
            let Some(record) = revoked.poll_frame(now, &mut rng) else { continue };
            let header = Header::decode(&record.payload).expect("a sealed frame");
            assert_eq!((header.kind, record.protocol), (Kind::Init, EtherType::SEALED));
            pairs.insert((record.from, record.to));
        }
        assert_eq!(pairs.len(), 6);
    }
}
