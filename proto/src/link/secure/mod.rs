//! Keys: every frame is authenticated, and encrypted unless the rules of the band forbid it.
//!
//! This is a layer between the link and the radios. Frames of the link to a neighbour are sealed
//! under keys that the two nodes share (`session`); frames to all are sealed under the sender's own
//! broadcast key, which each neighbour is told. A received frame is passed up only if it opens, so
//! that a forged stamp, acknowledgement or packet never reaches a protocol. Keys are agreed on by a
//! Noise handshake (`noise`). Its messages are sent in frames that the link places
//! ([`FrameUp::Wanted`]), because only the link knows when it may send. The answer contains such a
//! frame with its stamp, so that first contact also brings the nodes into step. The first message
//! contains none: it may be a recording, and nothing follows from it but an answer.
//!
//! Two nodes that share keys agree on the next ones under these, where nobody can interfere.
//! `docs/security.md` contains the threat model, and what a neighbour that holds keys can still do.

mod config;
mod noise;
mod peer;
mod receive;
mod send;
mod session;
mod status;
mod whole;
mod window;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng};

pub use config::{Cipher, CookieUse, SecurityConfig, SecurityMode};
pub use status::{Difference, SecurePeerStatus, SecurityStatus};
pub use whole::Keys;

use self::noise::{Handshakes, Psk};
use self::peer::{Known, Peer};
use self::session::{FRAMES, OwnBroadcast};
use self::status::{Counters, Reason, Rejected, SecureEvent};
use super::PeerSpec;
use crate::base::{
    Cx, Duration, EtherType, FlowId, FrameDown, FrameUp, Frames, Identity, Instant, Lane, Layer,
    Limit, NodeId, PublicKey, ReceivedFrame, Room, RoomBelow, Wanted, named,
};

/// How long a cookie secret is used for new cookies.
const COOKIE_SECRET_LIFE: Duration = Duration::from_secs(10);
/// Nodes that may be met at once, and how often one more: each costs some frames, and a frame that
/// only claims to be from a trusted node is enough.
const MEETINGS: (u32, Duration) = (32, Duration::from_secs(1));
/// How long a broadcast key is used.
const BROADCAST_LIFE: Duration = Duration::from_secs(3_600);

/// What a node needs to protect its frames.
#[derive(Debug)]
pub struct SecureSpec {
    /// The node.
    pub node: NodeId,
    /// Its keys.
    pub identity: Identity,
    /// Random bytes that nobody else knows, and that are never used twice.
    pub entropy: [u8; 32],
    /// The configuration, with [`SecurityConfig::is_on`].
    pub config: SecurityConfig,
    /// Its initial neighbours. If several radios reach one, its handshakes take turns over them.
    pub peers: Vec<PeerSpec>,
    /// The keys of all trusted nodes.
    pub keys: Arc<BTreeMap<NodeId, PublicKey>>,
}

/// The layer at one node.
#[derive(Debug)]
pub struct Secure {
    node: NodeId,
    identity: Identity,
    config: SecurityConfig,
    psk: Option<Psk>,
    peers: Vec<Peer>,
    index: BTreeMap<NodeId, usize>,
    /// The keys of all trusted nodes, near or far.
    keys: Arc<BTreeMap<NodeId, PublicKey>>,
    rng: ChaCha20Rng,
    broadcast: OwnBroadcast,
    /// Cookie secrets, the newest first, and when the newest was drawn.
    cookie_secrets: [[u8; 32]; 2],
    cookie_drawn: Instant,
    /// Limits first messages, of all neighbours together, that are answered without a cookie.
    freely: Limit,
    /// Limits nodes that are met.
    meetings: Limit,
    up: VecDeque<FrameUp>,
    down: VecDeque<FrameDown>,
    timeout: Instant,
    is_born: bool,
    strangers: Rejected,
    counters: Counters,
}

impl Secure {
    /// The layer of a node.
    ///
    /// Panics if security is off or the pre-shared key is invalid: [`SecurityConfig::psk_bytes`] is
    /// checked when a scenario is read.
    pub fn build(spec: SecureSpec) -> Self {
        assert!(spec.config.is_on(), "a layer that would do nothing");
        let mut rng = ChaCha20Rng::from_seed(spec.entropy);
        let psk = spec.config.psk_bytes().expect("checked where the scenario was read");
        let secret = draw(&mut rng);
        let broadcast =
            OwnBroadcast::new(spec.config.cipher, secret[0], draw(&mut rng), Instant::ZERO);
        let mut peers: Vec<Peer> = Vec::new();
        let mut index: BTreeMap<NodeId, usize> = BTreeMap::new();
        for peer in spec.peers {
            if let Some(known) = index.get(&peer.node) {
                peers[*known].add_way(peer.radio);
                continue;
            }
            let known = spec.keys.get(&peer.node);
            let known = known.map(|key| Known::new(&spec.identity, *key, psk.as_ref()));
            index.insert(peer.node, peers.len());
            let first_epoch = draw(&mut rng)[0];
            peers.push(Peer::new(peer, known, Instant::ZERO, first_epoch));
        }
        Self {
            node: spec.node,
            identity: spec.identity,
            config: spec.config,
            psk,
            peers,
            index,
            keys: spec.keys,
            broadcast,
            cookie_secrets: [draw(&mut rng), draw(&mut rng)],
            cookie_drawn: Instant::ZERO,
            rng,
            freely: Limit::new(32, Duration::from_millis(50)),
            meetings: Limit::new(MEETINGS.0, MEETINGS.1),
            up: VecDeque::new(),
            down: VecDeque::new(),
            timeout: Instant::ZERO,
            is_born: false,
            strangers: Rejected::default(),
            counters: Counters::default(),
        }
    }

    /// Trusts these keys and no others from now on. All keys shared with nodes whose own key was
    /// removed or changed are dropped, and the broadcast key is renewed.
    pub fn set_keys(&mut self, cx: &mut Cx<'_>, keys: &BTreeMap<NodeId, PublicKey>) {
        // A node that was met and forgotten since may know the broadcast key too.
        let is_gone = |(node, key): (&NodeId, &PublicKey)| keys.get(node) != Some(key);
        let has_revoked = self.keys.iter().any(is_gone);
        self.keys = Arc::new(keys.clone());
        for peer in &mut self.peers {
            let key = keys.get(&peer.node);
            let before = peer.known.as_ref().map(|known| known.key);
            if key.copied() == before {
                continue;
            }
            let known = key.map(|key| Known::new(&self.identity, *key, self.psk.as_ref()));
            peer.begin_anew(known, cx.now, draw(&mut self.rng)[0]);
        }
        if has_revoked {
            self.renew_broadcast(cx.now);
        }
        self.set_timeout(cx.now);
    }

    /// A sealed frame of a node that was no neighbour has arrived. If the node is trusted it
    /// becomes a neighbour, as happens where nodes move. Returns its index.
    ///
    /// Fails with the reason why it does not.
    fn meet(&mut self, now: Instant, frame: &ReceivedFrame) -> Result<usize, Reason> {
        let ReceivedFrame { from, radio, protocol, .. } = *frame;
        let may_be = from != self.node && protocol == EtherType::SEALED;
        let key = self.keys.get(&from).filter(|_| may_be).ok_or(Reason::NotTrusted)?;
        if !self.meetings.take(now) {
            return Err(Reason::HandshakeLimited);
        }
        let known = Known::new(&self.identity, *key, self.psk.as_ref());
        let spec = PeerSpec { node: from, radio };
        let first_epoch = draw(&mut self.rng)[0];
        self.index.insert(from, self.peers.len());
        let mut peer = Peer::new(spec, Some(known), now, first_epoch);
        peer.is_met = true;
        self.peers.push(peer);
        self.set_timeout(now);
        Ok(self.peers.len() - 1)
    }

    /// Which neighbours share keys with this node, and what was rejected.
    pub fn status(&self, now: Instant) -> SecurityStatus {
        let mut rejected = self.strangers;
        self.peers.iter().for_each(|peer| rejected.add(&peer.rejected));
        let counters = &self.counters;
        SecurityStatus {
            mode: self.config.mode,
            cipher: self.config.cipher,
            fingerprint: self.identity.public().fingerprint(),
            peers: self.peers.iter().map(|peer| peer_status(peer, now)).collect(),
            rejected: rejected.named(),
            counters: named([
                ("sealed", counters.sealed),
                ("opened", counters.opened),
                ("units_tagged", counters.tagged),
                ("units_believed", counters.units),
                ("not_sealed", counters.not_sealed),
                ("overheard", counters.overheard),
                ("handshakes_begun", counters.handshakes_begun),
                ("handshakes_answered", counters.handshakes_answered),
                ("handshakes_done", counters.handshakes_done),
                ("cookies_sent", counters.cookies_sent),
                ("sessions_expired", counters.sessions_expired),
            ]),
        }
    }

    /// How many frames were opened and handshakes completed. Tagged units do not count: the link
    /// knows whether they changed anything.
    pub fn believed(&self) -> u64 {
        self.counters.opened + self.counters.handshakes_done
    }

    /// Draws a new broadcast key, which every neighbour must then be told.
    fn renew_broadcast(&mut self, now: Instant) {
        let epoch = self.broadcast.epoch.wrapping_add(1);
        let secret = draw(&mut self.rng);
        self.broadcast = OwnBroadcast::new(self.config.cipher, epoch, secret, now);
        for peer in self.peers.iter_mut().filter(|peer| peer.current.is_some()) {
            peer.owes_key = true;
            peer.own_at = now;
        }
    }

    /// The inputs of handshakes with a neighbour; none if its key is not trusted.
    fn handshakes(&self, index: usize) -> Option<Handshakes<'_>> {
        let peer = &self.peers[index];
        let known = peer.known.as_ref()?;
        Some(Handshakes {
            us: (self.node, &self.identity),
            other: (peer.node, &known.key),
            pair: &known.pair,
            psk: self.psk.as_ref(),
            mode: self.config.code(),
        })
    }

    fn set_timeout(&mut self, now: Instant) {
        let due = self.peers.iter().map(|peer| peer.due(now, self.node)).min();
        self.timeout = due.unwrap_or(Instant::MAX);
    }

    /// Asks the link for a frame for each neighbour that must be told something.
    fn ask(&mut self, now: Instant) {
        for peer in &mut self.peers {
            let Some(need) = peer.need(now, self.node) else { continue };
            if *peer.ask_at(need) > now {
                continue;
            }
            let is_answer = need == peer::Need::Answer;
            let (radio, to, bytes) = (peer.way(need), peer.node, peer.bytes(need));
            self.up.push_back(FrameUp::Wanted(Wanted { radio, to, bytes, is_answer }));
            *peer.ask_at(need) = now + later(&mut self.rng, peer.interval(now, need));
            peer.is_own_asked |= !is_answer;
        }
    }

    fn advance(&mut self, cx: &mut Cx<'_>) {
        if !self.is_born {
            self.is_born = true;
            self.broadcast.born = cx.now;
            self.cookie_drawn = cx.now;
            for peer in &mut self.peers {
                let known = peer.known.take();
                peer.begin_anew(known, cx.now, draw(&mut self.rng)[0]);
            }
        }
        for peer in &mut self.peers {
            if peer.on_time(cx.now) {
                self.counters.sessions_expired += 1;
                let with = peer.node;
                cx.emit(|| SecureEvent::KeysExpired { with });
            }
        }
        self.forget(cx.now);
        let is_old = cx.now.since(self.broadcast.born) >= BROADCAST_LIFE;
        if is_old || self.broadcast.sent >= FRAMES {
            self.renew_broadcast(cx.now);
        }
        self.ask(cx.now);
        self.set_timeout(cx.now);
    }

    /// Forgets neighbours that were met and did not agree on keys.
    fn forget(&mut self, now: Instant) {
        if !self.peers.iter().any(|peer| peer.is_given_up(now)) {
            return;
        }
        for peer in self.peers.extract_if(.., |peer| peer.is_given_up(now)) {
            self.strangers.add(&peer.rejected);
        }
        let nodes = self.peers.iter().enumerate();
        self.index = nodes.map(|(index, peer)| (peer.node, index)).collect();
    }

    /// The secrets under which valid cookies may have been made, the newest first.
    fn cookie_secrets(&mut self, now: Instant) -> [[u8; 32]; 2] {
        let age = now.since(self.cookie_drawn);
        if age >= COOKIE_SECRET_LIFE {
            let before = self.cookie_secrets[0];
            let is_recent = age < COOKIE_SECRET_LIFE * 2;
            let newest = draw(&mut self.rng);
            let other = if is_recent { before } else { draw(&mut self.rng) };
            self.cookie_secrets = [newest, other];
            self.cookie_drawn = now;
        }
        self.cookie_secrets
    }
}

fn draw(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut out = [0; 32];
    rng.fill_bytes(&mut out);
    out
}

/// A random time around `mean`, so that two nodes do not keep colliding.
fn later(rng: &mut ChaCha20Rng, mean: Duration) -> Duration {
    let half = mean.as_nanos() / 2;
    Duration::from_nanos(half + rng.next_u64() % (2 * half + 1))
}

/// How long a mismatch is reported after the last frame that showed it. The neighbour's
/// configuration may have changed, and until keys are shared anybody can send such a frame.
const DIFFERS: Duration = Duration::from_secs(60);

fn peer_status(peer: &Peer, now: Instant) -> SecurePeerStatus {
    SecurePeerStatus {
        node: peer.node,
        key: peer.known.as_ref().map(|known| known.key),
        since: peer.current.as_ref().map(|session| now.since(session.born)),
        last_handshake: peer.last_handshake.map(|at| now.since(at)),
        sealed: peer.sealed,
        opened: peer.opened,
        rejected: peer.rejected.named(),
        differs: peer.differs.filter(|(_, at)| now.since(*at) < DIFFERS).map(|(how, _)| how),
    }
}

impl Layer for Secure {
    type Above = Frames;
    type Below = Frames;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: FrameUp) {
        // A host that slept reads frames before it runs its timers: keys that expired must go
        // first.
        self.handle_timeout(cx);
        match event {
            FrameUp::Received(frame) => self.on_frame(cx, frame),
            // It is for another node, whose keys nobody here has.
            FrameUp::Overheard(_) => self.counters.overheard += 1,
            FrameUp::Done(_) | FrameUp::Wanted(_) => self.up.push_back(event),
        }
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<FrameUp> {
        self.up.pop_front()
    }

    /// Room if somebody can open the frame, and always for frames that this layer requested.
    fn room(&self, lane: Lane) -> Room {
        let has_session = |peer: &Peer| peer.current.is_some();
        let is_open = match lane.to {
            _ if lane.flow == FlowId::CONTROL => true,
            Some(to) => self.index.get(&to).is_some_and(|index| has_session(&self.peers[*index])),
            None => self.peers.iter().any(has_session),
        };
        if is_open { Room::UNLIMITED } else { Room::NONE }
    }

    fn handle_tx(&mut self, cx: &mut Cx<'_>, unit: FrameDown) {
        match unit {
            FrameDown::Frame(frame) => self.on_sent(cx, frame),
            FrameDown::ReplyState { .. } | FrameDown::Cancel(_) => self.down.push_back(unit),
        }
    }

    fn poll_tx(&mut self, _cx: &mut Cx<'_>, _below: &RoomBelow<'_>) -> Option<FrameDown> {
        self.down.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.timeout)
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        if cx.now >= self.timeout {
            self.advance(cx);
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod vectors;
