//! All that is kept for one neighbour.

use std::collections::VecDeque;

use snow::HandshakeState;

use crate::base::{Identity, Limit, PublicKey};

use super::noise::{Cookie, INIT_BYTES, MAC_BYTES, Pair, Psk, RESPONSE_BYTES};
use super::session::{Session, TheirBroadcast};
use super::status::{Difference, Rejected};
use crate::base::{Duration, Instant, NodeId};
use crate::link::PeerSpec;
use crate::wire::secure::{HANDSHAKE_HEADER_BYTES, SEAL_BYTES};

/// First messages of ours that may still be answered.
const BEGUN: usize = 16;
/// How often they go. Often at first, when both are likely to be there, and then in intervals that
/// grow with the time: an answer comes too late where so many have gone since that its own is
/// forgotten, and over the Internet or a satellite the way there and back is long. For hours if
/// need be.
const BEGIN_SOONEST: Duration = Duration::from_millis(10);
const BEGIN_LATEST: Duration = Duration::from_millis(100);
const BEGIN_OFTEN: Duration = Duration::from_secs(60);
const BEGIN_AT_LAST: Duration = Duration::from_secs(1);
/// First messages of the other that wait for our link to place an answer.
const ANSWERS: usize = 4;
/// Answers of ours that the other may still confirm: to all of its first messages that it still
/// takes an answer to, and to some recordings.
const PENDING: usize = 2 * BEGUN;
/// HMACs of first messages that are remembered, so that a recording counts once.
const SEEN: usize = 256;
/// Answers that are remembered of each handshake of ours, so that a recording is work only once.
const TRIED: usize = 32;
/// How long an answer waits for our link to place it.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a cookie is of use.
const COOKIE_LIFE: Duration = Duration::from_secs(10);
/// How much later the node with the higher number begins, so that two who meet do not begin at
/// once and take over each other's slots.
const HIGHER_WAITS: Duration = Duration::from_secs(1);
/// How often an answer that the link has not placed is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How often keys for broadcast are told, and a session is renewed, until that is confirmed.
const TELL_AGAIN: Duration = Duration::from_millis(100);
const RENEW_AGAIN: Duration = Duration::from_millis(500);

/// After this time without a frame that was opened, or a new session, a neighbour may have other
/// settings than it had.
const SILENT: Duration = Duration::from_secs(5);

/// The key of a neighbour, and what follows from it.
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
    /// How answers that were not to it begin: it is work to find that out.
    tried: VecDeque<[u8; 8]>,
}

impl Begun {
    pub(super) fn new(epoch: u8, state: HandshakeState, mac: [u8; MAC_BYTES]) -> Self {
        Self { epoch, state: Box::new(state), mac, tried: VecDeque::new() }
    }

    /// Notes an answer, which the other has made at some time; returns whether it is new.
    pub(super) fn on_tried(&mut self, message: &[u8]) -> bool {
        // The key in front of it is drawn anew for each.
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

/// A handshake that the other began, and that waits for our link to place the answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) theirs: u8,
    pub(super) state: Box<HandshakeState>,
    /// Whether the first message came under the keys of a session.
    pub(super) is_sealed: bool,
    came: Instant,
}

/// What a neighbour is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Somebody waits for an answer.
    Answer,
    /// Keys for broadcast, or that they came.
    Tell,
    /// The session is to be renewed.
    Renew,
    /// There is no session, or the other seems not to have it.
    Begin,
}

/// One neighbour.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) spec: PeerSpec,
    pub(super) known: Option<Known>,
    pub(super) current: Option<Session>,
    pub(super) previous: Option<Session>,
    pub(super) pending: VecDeque<Session>,
    pub(super) begun: VecDeque<Begun>,
    pub(super) answers: VecDeque<Answer>,
    /// First messages that will be answered with a cookie: their epochs and HMACs.
    pub(super) cookie_answers: VecDeque<(u8, [u8; MAC_BYTES])>,
    cookie: Option<(Cookie, Instant)>,
    pub(super) broadcast: Option<TheirBroadcast>,
    /// Whether it has yet to confirm our key for broadcast.
    pub(super) owes_key: bool,
    /// A key for broadcast of theirs that we have yet to confirm.
    pub(super) owes_ack: Option<u8>,
    seen: VecDeque<[u8; 8]>,
    pub(super) freely: Limit,
    pub(super) with_cookie: Limit,
    pub(super) cookies: Limit,
    pub(super) renewals: Limit,
    next_epoch: u8,
    /// Since when there has been no session.
    alone_since: Instant,
    /// When the link is next asked for a frame for an answer, if somebody waits for one.
    pub(super) answer_at: Instant,
    /// The same for what this node has to say by itself. First messages of others, which may be
    /// recordings, do not put it off.
    pub(super) own_at: Instant,
    /// Whether the link was asked for a frame for that, and has not placed it.
    pub(super) is_own_asked: bool,
    /// Whether the last frame that was wanted bore an answer.
    pub(super) has_answered: bool,
    pub(super) last_handshake: Option<Instant>,
    pub(super) rejected: Rejected,
    /// What was last rejected of it because its security is another.
    pub(super) differs: Option<(Difference, Instant)>,
    pub(super) sealed: u64,
    pub(super) opened: u64,
    /// When the last was opened.
    opened_at: Option<Instant>,
}

impl Peer {
    pub(super) fn new(spec: PeerSpec, known: Option<Known>, now: Instant, first_epoch: u8) -> Self {
        Self {
            spec,
            known,
            current: None,
            previous: None,
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

    /// A number for a key under which the other will send, that none in use has.
    pub(super) fn next_epoch(&mut self) -> u8 {
        loop {
            self.next_epoch = self.next_epoch.wrapping_add(1);
            let epoch = self.next_epoch;
            let sessions = self.current.iter().chain(&self.previous).chain(&self.pending);
            let is_used = sessions.map(|session| session.ours).any(|ours| ours == epoch)
                || self.begun.iter().any(|begun| begun.epoch == epoch);
            if !is_used {
                return epoch;
            }
        }
    }

    /// The session whose frames to us have this number.
    pub(super) fn session(&mut self, epoch: u8) -> Option<&mut Session> {
        let sessions = self.current.iter_mut().chain(&mut self.previous).chain(&mut self.pending);
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

    /// Notes a first message; returns whether it is new.
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

    /// Notes a handshake that waits for an answer; returns whether there is room.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        theirs: u8,
        state: HandshakeState,
        is_sealed: bool,
    ) -> bool {
        self.answers.retain(|answer| now.since(answer.came) < ANSWER_PATIENCE);
        if self.answers.len() == ANSWERS {
            return false;
        }
        let state = Box::new(state);
        self.answers.push_back(Answer { theirs, state, is_sealed, came: now });
        self.answer_at = now;
        true
    }

    pub(super) fn on_answered(&mut self, session: Session) {
        if self.pending.len() == PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(session);
    }

    /// A session is proved to be fresh: from now on we send under it.
    pub(super) fn on_session(&mut self, now: Instant, session: Session) {
        let before = self.current.replace(session);
        // One that the other never used may be one that it does not have.
        if before.as_ref().is_some_and(Session::is_used) || self.previous.is_none() {
            self.previous = before;
        }
        self.begun.clear();
        self.cookie = None;
        self.freely.fill();
        self.last_handshake = Some(now);
        self.differs = None;
        self.owes_key = true;
        self.own_at = now;
    }

    /// Notes a frame that was opened.
    pub(super) fn on_opened(&mut self, now: Instant) {
        self.opened += 1;
        self.opened_at = Some(now);
    }

    /// Notes how the security of frames that say they are its differs. Where its own are opened
    /// they are a stranger's; a session alone proves little, for the neighbour may have begun anew.
    pub(super) fn on_difference(&mut self, now: Instant, difference: Difference) {
        let shared = self.opened_at.max(self.last_handshake);
        if shared.is_none_or(|at| at + SILENT <= now) {
            self.differs = Some((difference, now));
        }
    }

    /// Moves a session that the other has used to the front. Returns whether it was pending.
    pub(super) fn on_used(&mut self, now: Instant, epoch: u8) -> bool {
        let Some(at) = self.pending.iter().position(|session| session.ours == epoch) else {
            return false;
        };
        let session = self.pending.remove(at).expect("found there");
        self.pending.clear();
        self.on_session(now, session);
        true
    }

    /// A cookie that came in answer to a first message of ours.
    pub(super) fn on_cookie(&mut self, now: Instant, cookie: Cookie) {
        self.cookie = Some((cookie, now));
        self.own_at = now;
    }

    /// The cookie to go with a first message.
    pub(super) fn cookie(&self, now: Instant) -> Option<Cookie> {
        self.cookie.filter(|(_, came)| now.since(*came) < COOKIE_LIFE).map(|(cookie, _)| cookie)
    }

    /// Drops what is no longer used. Returns whether the node is alone from now on.
    pub(super) fn on_time(&mut self, now: Instant) -> bool {
        let is_over = |session: &Session| session.expires_at() <= now;
        self.pending.retain(|session| !is_over(session));
        self.previous.take_if(|session| is_over(session));
        if self.current.take_if(|session| is_over(session)).is_none() {
            return false;
        }
        self.broadcast = None;
        // Nothing is left to bear these.
        self.answers.retain(|answer| !answer.is_sealed);
        (self.owes_key, self.owes_ack) = (false, None);
        self.alone_since = now;
        self.own_at = now;
        true
    }

    /// What it is to be told now, if anything.
    pub(super) fn need(&self, now: Instant, us: NodeId) -> Option<Need> {
        let own = self.own_need(now, us);
        let is_asked = !self.answers.is_empty() || !self.cookie_answers.is_empty();
        // However many ask, every other frame is for what is due here.
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
        let waits = if us > self.spec.node { HIGHER_WAITS } else { Duration::ZERO };
        self.alone_since + waits
    }

    /// How long after it was asked for once a frame is asked for again.
    pub(super) fn interval(&self, now: Instant, need: Need) -> Duration {
        match need {
            Need::Answer => ASK_AGAIN,
            Need::Tell => TELL_AGAIN,
            Need::Renew => RENEW_AGAIN,
            Need::Begin => {
                let alone = now.since(self.alone_since);
                let often = (alone / (BEGUN as u64 / 2)).clamp(BEGIN_SOONEST, BEGIN_LATEST);
                if alone < BEGIN_OFTEN { often } else { BEGIN_AT_LAST }
            }
        }
    }

    /// Bytes that go into a frame of the link for a need, beside those of sealing.
    pub(super) fn bytes(&self, need: Need) -> usize {
        match need {
            Need::Answer => RESPONSE_BYTES - SEAL_BYTES,
            Need::Begin => INIT_BYTES - SEAL_BYTES,
            Need::Renew => INIT_BYTES + 64,
            Need::Tell => 64,
        }
    }

    /// When something is due.
    pub(super) fn due(&self, now: Instant, us: NodeId) -> Instant {
        let over = |session: &Session| session.expires_at();
        let sessions = self.pending.iter().chain(&self.previous).map(over).min();
        let own = match &self.current {
            _ if self.own_need(now, us).is_some() => self.own_at,
            Some(session) => {
                session.rekey_at().min(session.doubtful_at()).min(session.expires_at())
            }
            None if self.known.is_some() => self.begins_at(us).max(self.own_at),
            None => Instant::MAX,
        };
        let next = match self.need(now, us) {
            // What was due here before has its turn behind the answer.
            Some(Need::Answer) if own <= now => self.answer_at,
            Some(Need::Answer) => self.answer_at.min(own),
            _ => own,
        };
        let current = self.current.as_ref().map_or(Instant::MAX, over);
        next.min(current).min(sessions.unwrap_or(Instant::MAX))
    }
}
