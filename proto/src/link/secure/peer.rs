//! The state of keys and handshakes with one neighbour.

use std::collections::VecDeque;

use snow::HandshakeState;

use crate::base::{Identity, Limit, PublicKey};

use super::noise::{Cookie, INIT_BYTES, MAC_BYTES, Pair, Psk, RESPONSE_BYTES};
use super::session::{Session, TheirBroadcast};
use super::status::{Difference, Rejected};
use crate::base::{Duration, Instant, NodeId, RadioId};
use crate::link::PeerSpec;
use crate::wire::secure::{HANDSHAKE_HEADER_BYTES, SEAL_BYTES};

/// First messages of ours that may still be answered.
const BEGUN: usize = 16;
/// Interval between first messages. At first, when both nodes are likely to be there, it is short.
/// It then grows with the time, because an answer must arrive before its first message is
/// forgotten, and over the Internet or a satellite the round trip is long. From `BEGIN_OFTEN` on it
/// is `BEGIN_AT_LAST`, for hours if necessary.
const BEGIN_SOONEST: Duration = Duration::from_millis(10);
const BEGIN_LATEST: Duration = Duration::from_millis(100);
const BEGIN_OFTEN: Duration = Duration::from_secs(60);
const BEGIN_AT_LAST: Duration = Duration::from_secs(1);
/// The same, at most, with a neighbour that was met: each interval is as long as all before it.
const BEGIN_MET: Duration = Duration::from_secs(10);
/// After this time without keys, a neighbour that was met is forgotten. Its next frame is as good.
const GIVE_UP: Duration = Duration::from_secs(60);
/// First messages of the neighbour that wait until our link can place an answer.
const ANSWERS: usize = 4;
/// Answers of ours that the neighbour may still confirm: as many as it has first messages that can
/// still be answered, and some to recordings.
const PENDING: usize = 2 * BEGUN;
/// Older sessions that are kept: two, because both ends may have renewed the last one at once.
const EARLIER: usize = 2;
/// HMACs of first messages that are remembered, so that a recording counts only once.
const SEEN: usize = 256;
/// Answers that are remembered for each handshake of ours, so that a recording costs work only
/// once.
const TRIED: usize = 32;
/// Most radios that are tried.
const WAYS: usize = 8;
/// How long an answer waits for our link to place it.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a received cookie is used.
const COOKIE_LIFE: Duration = Duration::from_secs(10);
/// How much later the node with the higher number begins, so that two nodes that meet do not begin
/// at the same time and take over each other's slots.
const HIGHER_WAITS: Duration = Duration::from_secs(1);
/// Interval at which the link is asked again for a frame for an answer.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Intervals at which the broadcast key is told, and a session is renewed, until it is confirmed.
const TELL_AGAIN: Duration = Duration::from_millis(100);
const RENEW_AGAIN: Duration = Duration::from_millis(500);

/// If no frame was opened and no session agreed on for this time, the neighbour's configuration may
/// have changed.
const SILENT: Duration = Duration::from_secs(5);

/// The key of a neighbour, and what is derived from it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) key: PublicKey,
    pub(super) pair: Pair,
}

impl Known {
    pub(super) fn new(us: &Identity, key: PublicKey, psk: Option<&Psk>) -> Self {
        Self { key, pair: Pair::new(us, &key, psk) }
    }
}

/// A handshake that we began.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) epoch: u8,
    pub(super) state: Box<HandshakeState>,
    pub(super) mac: [u8; MAC_BYTES],
    /// The beginnings of answers that did not belong to it. It takes work to find that out.
    tried: VecDeque<[u8; 8]>,
}

impl Begun {
    pub(super) fn new(epoch: u8, state: HandshakeState, mac: [u8; MAC_BYTES]) -> Self {
        Self { epoch, state: Box::new(state), mac, tried: VecDeque::new() }
    }

    /// Records an answer that the neighbour made at some time. Returns whether it is new.
    pub(super) fn on_tried(&mut self, message: &[u8]) -> bool {
        // Each answer begins with a newly drawn key.
        let short = message.get(HANDSHAKE_HEADER_BYTES..).and_then(|key| key.first_chunk());
        let Some(short) = short.copied().filter(|short| !self.tried.contains(short)) else {
            return false;
        };
        if self.tried.len() == TRIED {
            self.tried.pop_front();
        }
        self.tried.push_back(short);
        true
    }
}

/// A handshake that the neighbour began; its answer waits until our link can place it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) theirs: u8,
    pub(super) state: Box<HandshakeState>,
    /// Whether the first message arrived under the keys of a session.
    pub(super) is_sealed: bool,
    /// The radio that it came by.
    radio: RadioId,
    came: Instant,
}

/// A first message that will be answered with a cookie.
#[derive(Clone, Copy, Debug)]
pub(super) struct CookieAnswer {
    pub(super) epoch: u8,
    pub(super) mac: [u8; MAC_BYTES],
    /// The radio that it came by.
    pub(super) radio: RadioId,
}

/// What a neighbour must be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// An answer that it waits for.
    Answer,
    /// Our broadcast key, or that its own arrived.
    Tell,
    /// That the session is to be renewed.
    Renew,
    /// A first message: there is no session, or the neighbour seems not to have it.
    Begin,
}

/// The state for one neighbour.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    /// Radios that reach it. The first of a node that was met is where a frame in its name came.
    pub(super) ways: Vec<RadioId>,
    /// How many of our own messages were asked for; they take turns over the radios.
    turns: usize,
    pub(super) known: Option<Known>,
    pub(super) current: Option<Session>,
    /// Sessions from before the current one, the newest first.
    earlier: VecDeque<Session>,
    pub(super) pending: VecDeque<Session>,
    pub(super) begun: VecDeque<Begun>,
    pub(super) answers: VecDeque<Answer>,
    pub(super) cookie_answers: VecDeque<CookieAnswer>,
    cookie: Option<(Cookie, Instant)>,
    pub(super) broadcast: Option<TheirBroadcast>,
    /// Whether it has not confirmed our broadcast key yet.
    pub(super) owes_key: bool,
    /// The epoch of its broadcast key, if we have not confirmed that yet.
    pub(super) owes_ack: Option<u8>,
    seen: VecDeque<[u8; 8]>,
    pub(super) freely: Limit,
    pub(super) with_cookie: Limit,
    pub(super) cookies: Limit,
    pub(super) renewals: Limit,
    next_epoch: u8,
    /// Since when there has been no session.
    alone_since: Instant,
    /// Whether it is no neighbour by the configuration: a sealed frame in its name arrived.
    pub(super) is_met: bool,
    /// When the link is next asked for a frame for an answer, if one is due.
    pub(super) answer_at: Instant,
    /// The same for messages that this node sends by itself. First messages of others, which may be
    /// recordings, do not delay these.
    pub(super) own_at: Instant,
    /// Whether the link was asked for a frame for these and has not placed it yet.
    pub(super) is_own_asked: bool,
    /// Whether the last requested frame contained an answer.
    pub(super) has_answered: bool,
    pub(super) last_handshake: Option<Instant>,
    pub(super) rejected: Rejected,
    /// The last mismatch of its security configuration, and when it was noticed.
    pub(super) differs: Option<(Difference, Instant)>,
    pub(super) sealed: u64,
    pub(super) opened: u64,
    /// When the last of these was opened.
    opened_at: Option<Instant>,
}

impl Peer {
    pub(super) fn new(spec: PeerSpec, known: Option<Known>, now: Instant, first_epoch: u8) -> Self {
        Self {
            node: spec.node,
            ways: vec![spec.radio],
            turns: 0,
            known,
            current: None,
            earlier: VecDeque::new(),
            pending: VecDeque::new(),
            begun: VecDeque::new(),
            answers: VecDeque::new(),
            cookie_answers: VecDeque::new(),
            cookie: None,
            broadcast: None,
            owes_key: false,
            owes_ack: None,
            seen: VecDeque::new(),
            freely: Limit::new(8, Duration::from_millis(500)),
            with_cookie: Limit::new(8, Duration::from_millis(125)),
            cookies: Limit::new(8, Duration::from_millis(60)),
            renewals: Limit::new(4, Duration::from_secs(1)),
            next_epoch: first_epoch,
            alone_since: now,
            is_met: false,
            answer_at: now,
            own_at: now,
            is_own_asked: false,
            has_answered: false,
            last_handshake: None,
            rejected: Rejected::default(),
            differs: None,
            opened_at: None,
            sealed: 0,
            opened: 0,
        }
    }

    /// Forgets all but where the neighbour is and what was rejected; its key is `known` now.
    pub(super) fn begin_anew(&mut self, known: Option<Known>, now: Instant, first_epoch: u8) {
        let spec = PeerSpec { node: self.node, radio: self.ways[0] };
        let before = std::mem::replace(self, Self::new(spec, known, now, first_epoch));
        self.ways = before.ways;
        (self.rejected, self.is_met) = (before.rejected, before.is_met);
    }

    /// Adds a radio that reaches the neighbour.
    pub(super) fn add_way(&mut self, radio: RadioId) {
        if !self.ways.contains(&radio) && self.ways.len() < WAYS {
            self.ways.push(radio);
        }
    }

    /// The radio for a message: an answer goes back where its question came from; of our own, each
    /// takes the next, as some of the ways may be cut or not lead to the neighbour at all.
    pub(super) fn way(&mut self, need: Need) -> RadioId {
        let asked = self.answers.front().map(|answer| answer.radio);
        let asked = asked.or(self.cookie_answers.front().map(|answer| answer.radio));
        if let Some(radio) = asked.filter(|_| need == Need::Answer) {
            return radio;
        }
        self.turns = self.turns.wrapping_add(1);
        self.ways[(self.turns - 1) % self.ways.len()]
    }

    /// An unused number for a key under which the neighbour will send.
    pub(super) fn next_epoch(&mut self) -> u8 {
        loop {
            self.next_epoch = self.next_epoch.wrapping_add(1);
            let epoch = self.next_epoch;
            let sessions = self.current.iter().chain(&self.earlier).chain(&self.pending);
            let is_used = sessions.map(|session| session.ours).any(|ours| ours == epoch)
                || self.begun.iter().any(|begun| begun.epoch == epoch);
            if !is_used {
                return epoch;
            }
        }
    }

    /// The session in which frames to us have this epoch.
    pub(super) fn session(&mut self, epoch: u8) -> Option<&mut Session> {
        let sessions = self.current.iter_mut().chain(&mut self.earlier).chain(&mut self.pending);
        let mut sessions = sessions;
        sessions.find(|session| session.ours == epoch)
    }

    /// Whether a session that was agreed on at `born` is older than the one that we send under.
    pub(super) fn is_older(&self, born: Instant) -> bool {
        self.current.as_ref().is_some_and(|session| born < session.born)
    }

    pub(super) fn on_begun(&mut self, begun: Begun) {
        if self.begun.len() == BEGUN {
            self.begun.pop_front();
        }
        self.begun.push_back(begun);
    }

    /// Records a first message. Returns whether it is new.
    pub(super) fn on_seen(&mut self, mac: &[u8; MAC_BYTES]) -> bool {
        let short: [u8; 8] = mac[..8].try_into().expect("eight of 32");
        if self.seen.contains(&short) {
            return false;
        }
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(short);
        true
    }

    /// Records a handshake that waits for our answer. Returns whether there was room.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        theirs: u8,
        state: HandshakeState,
        (radio, is_sealed): (RadioId, bool),
    ) -> bool {
        self.answers.retain(|answer| now.since(answer.came) < ANSWER_PATIENCE);
        if self.answers.len() == ANSWERS {
            return false;
        }
        let state = Box::new(state);
        self.answers.push_back(Answer { theirs, state, is_sealed, radio, came: now });
        self.answer_at = now;
        true
    }

    pub(super) fn on_answered(&mut self, session: Session) {
        if self.pending.len() == PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(session);
    }

    /// Takes a session that has proved to be fresh: from now on we send under it.
    pub(super) fn on_session(&mut self, now: Instant, session: Session) {
        // If both ends renewed at once, the other may send under the one before.
        if let Some(before) = self.current.replace(session) {
            self.earlier.push_front(before);
        }
        if self.earlier.len() > EARLIER {
            // The other may not have a session that it never used.
            let unused = self.earlier.iter().position(|session| session.doubtful_at() <= now);
            self.earlier.remove(unused.unwrap_or(EARLIER));
        }
        self.broadcast.iter_mut().for_each(TheirBroadcast::on_session);
        self.begun.clear();
        self.cookie = None;
        self.freely.fill();
        self.last_handshake = Some(now);
        self.differs = None;
        self.owes_key = true;
        self.own_at = now;
    }

    /// Records that a frame was opened.
    pub(super) fn on_opened(&mut self, now: Instant) {
        self.opened += 1;
        self.opened_at = Some(now);
    }

    /// Records a mismatch shown by frames that claim to be the neighbour's. If frames of it are
    /// opened at the same time, these are a stranger's. A session alone proves little, because the
    /// neighbour may have restarted.
    pub(super) fn on_difference(&mut self, now: Instant, difference: Difference) {
        let shared = self.opened_at.max(self.last_handshake);
        if shared.is_none_or(|at| at + SILENT <= now) {
            self.differs = Some((difference, now));
        }
    }

    /// Makes a session that the neighbour has used the current one. Returns whether it was pending.
    pub(super) fn on_used(&mut self, now: Instant, epoch: u8) -> bool {
        let Some(at) = self.pending.iter().position(|session| session.ours == epoch) else {
            return false;
        };
        let session = self.pending.remove(at).expect("found there");
        self.pending.clear();
        self.on_session(now, session);
        true
    }

    /// Takes a cookie that answers a first message of ours.
    pub(super) fn on_cookie(&mut self, now: Instant, cookie: Cookie) {
        self.cookie = Some((cookie, now));
        self.own_at = now;
    }

    /// The cookie for the next first message.
    pub(super) fn cookie(&self, now: Instant) -> Option<Cookie> {
        self.cookie.filter(|(_, came)| now.since(*came) < COOKIE_LIFE).map(|(cookie, _)| cookie)
    }

    /// Whether it need not be known any more: it was met, and no keys were agreed for long.
    pub(super) fn is_given_up(&self, now: Instant) -> bool {
        let has_none = self.current.is_none() && self.pending.is_empty() && self.answers.is_empty();
        self.is_met && has_none && now.since(self.alone_since) >= GIVE_UP
    }

    /// Drops expired sessions. Returns whether no current session is left as a result.
    pub(super) fn on_time(&mut self, now: Instant) -> bool {
        let is_over = |session: &Session| session.expires_at() <= now;
        self.pending.retain(|session| !is_over(session));
        self.earlier.retain(|session| !is_over(session));
        if self.current.take_if(|session| is_over(session)).is_none() {
            return false;
        }
        self.broadcast = None;
        // Sealed answers can no longer be sent.
        self.answers.retain(|answer| !answer.is_sealed);
        (self.owes_key, self.owes_ack) = (false, None);
        self.alone_since = now;
        self.own_at = now;
        true
    }

    /// What the neighbour must be told now, if anything.
    pub(super) fn need(&self, now: Instant, us: NodeId) -> Option<Need> {
        let own = self.own_need(now, us);
        let is_asked = !self.answers.is_empty() || !self.cookie_answers.is_empty();
        // However many ask for answers, every other frame is for this node's own messages.
        let is_our_turn = self.has_answered && (self.is_own_asked || self.own_at <= now);
        if is_asked && !(is_our_turn && own.is_some()) { Some(Need::Answer) } else { own }
    }

    fn own_need(&self, now: Instant, us: NodeId) -> Option<Need> {
        match &self.current {
            Some(session) if session.doubtful_at() <= now => Some(Need::Begin),
            Some(session) if session.rekey_at() <= now => Some(Need::Renew),
            Some(_) => (self.owes_key || self.owes_ack.is_some()).then_some(Need::Tell),
            None if self.known.is_some() && now >= self.begins_at(us) => Some(Need::Begin),
            None => None,
        }
    }

    /// When the link is next asked for a frame for a need.
    pub(super) fn ask_at(&mut self, need: Need) -> &mut Instant {
        match need {
            Need::Answer => &mut self.answer_at,
            Need::Tell | Need::Renew | Need::Begin => &mut self.own_at,
        }
    }

    fn begins_at(&self, us: NodeId) -> Instant {
        let waits = if us > self.node { HIGHER_WAITS } else { Duration::ZERO };
        self.alone_since + waits
    }

    /// Interval at which the link is asked for a frame for a need.
    pub(super) fn interval(&self, now: Instant, need: Need) -> Duration {
        match need {
            Need::Answer => ASK_AGAIN,
            Need::Tell => TELL_AGAIN,
            Need::Renew => RENEW_AGAIN,
            Need::Begin => {
                let alone = now.since(self.alone_since);
                if self.is_met {
                    // Its frames may be a stranger's, and it may have gone.
                    return alone.clamp(BEGIN_SOONEST, BEGIN_MET);
                }
                let often = (alone / (BEGUN as u64 / 2)).clamp(BEGIN_SOONEST, BEGIN_LATEST);
                if alone < BEGIN_OFTEN { often } else { BEGIN_AT_LAST }
            }
        }
    }

    /// Bytes that a need adds to a frame of the link, besides those of sealing.
    pub(super) fn bytes(&self, need: Need) -> usize {
        match need {
            Need::Answer => RESPONSE_BYTES - SEAL_BYTES,
            Need::Begin => INIT_BYTES - SEAL_BYTES,
            Need::Renew => INIT_BYTES + 64,
            Need::Tell => 64,
        }
    }

    /// When something is next due.
    pub(super) fn due(&self, now: Instant, us: NodeId) -> Instant {
        let over = |session: &Session| session.expires_at();
        let sessions = self.pending.iter().chain(&self.earlier).map(over).min();
        let own = match &self.current {
            _ if self.own_need(now, us).is_some() => self.own_at,
            Some(session) => {
                session.rekey_at().min(session.doubtful_at()).min(session.expires_at())
            }
            None if self.known.is_some() => self.begins_at(us).max(self.own_at),
            None => Instant::MAX,
        };
        let next = match self.need(now, us) {
            // An own message that is overdue has its turn after the answer.
            Some(Need::Answer) if own <= now => self.answer_at,
            Some(Need::Answer) => self.answer_at.min(own),
            _ => own,
        };
        let current = self.current.as_ref().map_or(Instant::MAX, over);
        next.min(current).min(sessions.unwrap_or(Instant::MAX))
    }
}
