//! A stranger with a key pair that the nodes no longer trust: its handshakes are real.

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

/// Nodes whose place it tries to take, and neighbours of each, at most.
const PLACES: usize = 8;
const NEIGHBOURS: usize = 32;
/// Frames that wait to be sent, at most.
const WAITING: usize = 8;

/// What a stranger needs who was once trusted.
#[derive(Clone, Debug)]
pub struct OldKey {
    /// How the nodes protect their frames; whoever was trusted knows that.
    pub security: SecurityConfig,
    /// The public keys of the nodes.
    pub keys: BTreeMap<NodeId, PublicKey>,
}

/// The keys of a node that are no longer its, at every place where they may still pass.
#[derive(Debug)]
pub(super) struct Revoked {
    /// The same layer that nodes have, under the name of one node each.
    places: Vec<(NodeId, Secure)>,
    nodes: Vec<NodeId>,
    waiting: VecDeque<Record>,
}

impl Revoked {
    /// With a key pair of its own, which the nodes do not trust.
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

    /// Hears what nodes answer to whom they take it for.
    pub(super) fn handle_frame(&mut self, now: Instant, frame: &ReceivedFrame) {
        let place = self.places.iter_mut().find(|(node, _)| Some(*node) == frame.to);
        let Some((_, secure)) = place else { return };
        let mut cx = Cx::new(now);
        secure.handle_rx(&mut cx, FrameUp::Received(frame.clone()));
        while secure.poll_rx(&mut cx).is_some() {}
    }

    /// The next message of a handshake with some node.
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
                    // Whoever sends it puts in his own.
                    rate: Bitrate::from_bps(0),
                });
            }
        }
        self.waiting.pop_front()
    }
}

/// A frame of a link into which the layer puts what it has to say.
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
