//! Frames on their way up: they are opened, or rejected and counted.

use bytes::Bytes;

use super::config::CookieUse;
use super::noise::{Refusal, cookie_of, has_cookie};
use super::peer::CookieAnswer;
use super::session::{Disbelief, SaidAt, Session, TheirBroadcast};
use super::status::{Reason, SecureEvent};
use super::{Secure, draw};
use crate::base::{Cx, EtherType, FrameUp, Instant, RadioId, ReceivedFrame};
use crate::wire::secure::{
    DecodeError, HANDSHAKE_HEADER_BYTES, Header, Kind, Said, UNIT, decode_carrier,
};

/// Most first messages that wait until our link can place a cookie for them.
const COOKIE_ANSWERS: usize = 4;

impl Secure {
    /// Handles a frame for this node or for all.
    pub(super) fn on_frame(&mut self, cx: &mut Cx<'_>, frame: ReceivedFrame) {
        let known = self.index.get(&frame.from).copied();
        let met = known.map_or_else(|| self.meet(cx.now, &frame), Ok);
        let index = match met {
            Ok(index) => index,
            Err(reason) => return self.strangers.count(reason),
        };
        if let Err(reason) = self.open(cx, index, frame) {
            let peer = &mut self.peers[index];
            peer.rejected.count(reason);
            if let Some(difference) = reason.difference() {
                peer.on_difference(cx.now, difference);
            }
        }
    }

    fn open(&mut self, cx: &mut Cx<'_>, index: usize, frame: ReceivedFrame) -> Result<(), Reason> {
        if frame.protocol != EtherType::SEALED {
            return Err(Reason::Clear);
        }
        if self.peers[index].known.is_none() {
            return Err(Reason::NotTrusted);
        }
        if frame.payload.first() == Some(&UNIT) {
            return self.open_unit(index, frame);
        }
        let header = Header::decode(&frame.payload).map_err(|error| match error {
            DecodeError::Version => Reason::OtherVersion,
            DecodeError::Short | DecodeError::Kind => Reason::Malformed,
        })?;
        if header.kind.is_to_all() != frame.to.is_none() {
            return Err(Reason::Malformed);
        }
        // A neighbour may still have a session from before one of the two changed its mode.
        let has_mode = header.kind > Kind::Carrier;
        let is_other = has_mode && header.is_readable != self.config.is_readable();
        let opened = self.open_kind(cx, index, &header, frame);
        opened.map_err(|reason| match reason {
            Reason::NoKey if is_other => Reason::OtherMode,
            reason => reason,
        })
    }

    fn open_kind(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        header: &Header,
        frame: ReceivedFrame,
    ) -> Result<(), Reason> {
        match header.kind {
            Kind::Init => self.on_init(cx, index, &frame.payload, (frame.radio, false)),
            Kind::Response => {
                let beacon = self.on_response(cx, index, &frame.payload)?;
                self.give_up(index, &frame, header.kind, beacon)
            }
            Kind::Cookie => self.on_cookie(cx, index, &frame.payload),
            Kind::Carrier => {
                let body = self.open_for_us(cx, index, header, frame.payload.clone())?;
                let beacon = self.on_carrier(cx, index, header, (frame.radio, &body))?;
                self.give_up(index, &frame, header.kind, beacon)
            }
            Kind::Link | Kind::Packet | Kind::Cut => {
                let mut frame = frame;
                let payload = std::mem::take(&mut frame.payload);
                let body = self.open_for_us(cx, index, header, payload)?;
                self.give_up(index, &frame, header.kind, body)
            }
            Kind::LinkToAll | Kind::PacketToAll => {
                let mut frame = frame;
                let payload = std::mem::take(&mut frame.payload);
                let body = self.open_for_all(cx.now, index, header, payload)?;
                self.give_up(index, &frame, header.kind, body)
            }
        }
    }

    /// Passes an authenticated frame to the link. A carrier may contain nothing for it.
    fn give_up(
        &mut self,
        index: usize,
        frame: &ReceivedFrame,
        kind: Kind,
        body: Bytes,
    ) -> Result<(), Reason> {
        self.peers[index].add_way(frame.radio);
        self.counters.opened += 1;
        if body.is_empty() && kind <= Kind::Carrier {
            return Ok(());
        }
        let protocol = kind.protocol(&body).ok_or(Reason::Malformed)?;
        self.up.push_back(FrameUp::Received(ReceivedFrame {
            protocol,
            payload: body,
            ..frame.clone()
        }));
        Ok(())
    }

    /// Passes a unit to the link. It may be a replay, and it does not confirm a session, because
    /// its tag is short.
    fn open_unit(&mut self, index: usize, frame: ReceivedFrame) -> Result<(), Reason> {
        let (us, peer) = (self.node, &mut self.peers[index]);
        let epoch = frame.payload.get(1).filter(|_| frame.to.is_some());
        let session = peer.session(*epoch.ok_or(Reason::Malformed)?).ok_or(Reason::NoKey)?;
        let body = session.open_unit(frame.from, us, &frame.payload).ok_or(Reason::Forged)?;
        self.counters.units += 1;
        let protocol = EtherType::FARHOP;
        let frame = ReceivedFrame { protocol, payload: body, ..frame };
        self.up.push_back(FrameUp::Received(frame));
        Ok(())
    }

    pub(super) fn open_for_us(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        header: &Header,
        frame: Bytes,
    ) -> Result<Bytes, Reason> {
        let (us, peer) = (self.node, &mut self.peers[index]);
        let from = peer.node;
        let session = peer.session(header.epoch).ok_or(Reason::NoKey)?;
        let body = session.open(header, from, us, frame).map_err(reason)?;
        peer.on_opened(cx.now);
        if peer.on_used(cx.now, header.epoch) {
            self.on_agreed(cx, index, false);
        }
        Ok(body)
    }

    fn open_for_all(
        &mut self,
        now: Instant,
        index: usize,
        header: &Header,
        frame: Bytes,
    ) -> Result<Bytes, Reason> {
        let peer = &mut self.peers[index];
        let from = peer.node;
        let key = peer.broadcast.as_mut().filter(|key| key.epoch == header.epoch);
        let body = key.ok_or(Reason::NoKey)?.open(header, from, frame).map_err(reason)?;
        peer.on_opened(now);
        Ok(body)
    }

    fn on_agreed(&mut self, cx: &mut Cx<'_>, index: usize, is_initiator: bool) {
        self.counters.handshakes_done += 1;
        let with = self.peers[index].node;
        cx.emit(|| SecureEvent::KeysAgreed { with, is_initiator });
        self.ask(cx.now);
        self.set_timeout(cx.now);
    }

    /// Handles a first message. At most it is answered; nothing else follows from it, because it
    /// may be a recording.
    fn on_init(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        message: &[u8],
        (radio, is_sealed): (RadioId, bool),
    ) -> Result<(), Reason> {
        let handshakes = self.handshakes(index).ok_or(Reason::NotTrusted)?;
        let mac = handshakes.init_mac(message).ok_or(Reason::HandshakeForged)?;
        let epoch = message[HANDSHAKE_HEADER_BYTES - 1];
        if !self.peers[index].on_seen(&mac) {
            return Err(Reason::HandshakeReplayed);
        }
        if is_sealed {
            if !self.peers[index].renewals.take(cx.now) {
                return Err(Reason::HandshakeLimited);
            }
        } else if !self.may_answer(cx, index, message) {
            return self.offer_cookie(cx, index, CookieAnswer { epoch, mac, radio });
        }
        let seed = draw(&mut self.rng);
        let handshakes = self.handshakes(index).ok_or(Reason::NotTrusted)?;
        let state = handshakes.read_init(message, seed).map_err(|refusal| match refusal {
            Refusal::Forged => Reason::HandshakeForged,
            Refusal::Mode => Reason::OtherMode,
        })?;
        if !self.peers[index].on_answer(cx.now, epoch, state, (radio, is_sealed)) {
            return Err(Reason::HandshakeLimited);
        }
        self.ask(cx.now);
        self.set_timeout(cx.now);
        Ok(())
    }

    /// Whether to do the work for an answer: a few times for anyone, and beyond that only if the
    /// message contains a cookie of ours, which no recording has.
    fn may_answer(&mut self, cx: &mut Cx<'_>, index: usize, message: &[u8]) -> bool {
        let secrets = self.cookie_secrets(cx.now);
        let peer = &mut self.peers[index];
        let node = peer.node;
        if secrets.iter().any(|secret| has_cookie(message, &cookie_of(secret, node))) {
            return peer.with_cookie.take(cx.now);
        }
        self.config.cookie == CookieUse::UnderLoad
            && peer.freely.take(cx.now)
            && self.freely.take(cx.now)
    }

    fn offer_cookie(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        to: CookieAnswer,
    ) -> Result<(), Reason> {
        let peer = &mut self.peers[index];
        if peer.cookie_answers.len() < COOKIE_ANSWERS && peer.cookies.take(cx.now) {
            peer.cookie_answers.push_back(to);
            peer.answer_at = cx.now;
            self.ask(cx.now);
            self.set_timeout(cx.now);
        }
        Err(Reason::HandshakeLimited)
    }

    fn on_cookie(&mut self, cx: &mut Cx<'_>, index: usize, message: &[u8]) -> Result<(), Reason> {
        let peer = &mut self.peers[index];
        let epoch = message[HANDSHAKE_HEADER_BYTES - 1];
        let begun = peer.begun.iter().find(|begun| begun.epoch == epoch);
        let mac = begun.ok_or(Reason::HandshakeReplayed)?.mac;
        let pair = &peer.known.as_ref().ok_or(Reason::NotTrusted)?.pair;
        let cookie = pair.open_cookie(message, &mac).ok_or(Reason::HandshakeForged)?;
        peer.on_cookie(cx.now, cookie);
        self.ask(cx.now);
        self.set_timeout(cx.now);
        Ok(())
    }

    /// Handles an answer, after which keys are shared. Returns the frame of the neighbour's link.
    fn on_response(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        message: &[u8],
    ) -> Result<Bytes, Reason> {
        let epoch = *message.get(HANDSHAKE_HEADER_BYTES - 1).ok_or(Reason::Malformed)?;
        let begun = &self.peers[index].begun;
        let at = begun.iter().position(|begun| begun.epoch == epoch);
        let at = at.ok_or(Reason::HandshakeReplayed)?;
        let handshakes = self.handshakes(index).ok_or(Reason::NotTrusted)?;
        if !handshakes.is_their_response(message) {
            return Err(Reason::HandshakeForged);
        }
        if !self.peers[index].begun[at].on_tried(message) {
            return Err(Reason::HandshakeReplayed);
        }
        let mut begun = self.peers[index].begun.remove(at).expect("found there");
        let handshakes = self.handshakes(index).ok_or(Reason::NotTrusted)?;
        let read = handshakes.read_response(&mut begun.state, message);
        let (theirs, (there, back), frame) = match read {
            Ok(read) => read,
            Err(Refusal::Mode) => return Err(Reason::OtherMode),
            Err(Refusal::Forged) => {
                // It answers another first message with this epoch, perhaps an old one, and
                // somebody has repeated it: the answer to this one may still arrive.
                self.peers[index].begun.insert(at, begun);
                return Err(Reason::HandshakeForged);
            }
        };
        let (cipher, keys) = (self.config.cipher, (&there, &back));
        let session = Session::new(cipher, (epoch, theirs), keys, cx.now, true);
        self.peers[index].on_session(cx.now, session);
        self.on_agreed(cx, index, true);
        Ok(frame.into())
    }

    /// Handles a neighbour's statements about keys, made under shared keys. Returns the rest of the
    /// frame.
    fn on_carrier(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        header: &Header,
        (radio, body): (RadioId, &Bytes),
    ) -> Result<Bytes, Reason> {
        let (said, frame) = decode_carrier(body).ok_or(Reason::Malformed)?;
        let frame = body.slice_ref(frame);
        let session = self.peers[index].session(header.epoch).ok_or(Reason::NoKey)?;
        let when = SaidAt { session: session.born, counter: header.counter };
        for said in said {
            self.on_said(cx, index, (when, radio), said)?;
        }
        Ok(frame)
    }

    fn on_said(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        (when, radio): (SaidAt, RadioId),
        said: Said<'_>,
    ) -> Result<(), Reason> {
        let peer = &mut self.peers[index];
        match said {
            Said::Init(message) => return self.on_init(cx, index, message, (radio, true)),
            Said::Response(message) => {
                self.on_response(cx, index, message)?;
            }
            // A carrier that somebody held back may tell a key that is no longer used. That the
            // present one came is said again.
            Said::BroadcastKey { epoch, secret, .. }
                if let Some(key) = peer.broadcast.as_ref().filter(|key| when <= key.said) =>
            {
                if key.is(epoch, secret) {
                    (peer.owes_ack, peer.own_at) = (Some(epoch), cx.now);
                }
            }
            Said::BroadcastKey { epoch, first, secret } => {
                match peer.broadcast.as_mut().filter(|key| key.is(epoch, secret)) {
                    Some(key) => key.on_told_again(first, when),
                    None => {
                        let cipher = self.config.cipher;
                        let key = TheirBroadcast::new(cipher, epoch, secret, (first, when));
                        peer.broadcast = Some(key);
                    }
                }
                peer.owes_ack = Some(epoch);
                peer.own_at = cx.now;
            }
            // From an older session: the node that had the key then may have restarted.
            Said::BroadcastAck(_) if peer.is_older(when.session) => {}
            Said::BroadcastAck(epoch) => peer.owes_key &= epoch != self.broadcast.epoch,
        }
        self.ask(cx.now);
        self.set_timeout(cx.now);
        Ok(())
    }
}

fn reason(disbelief: Disbelief) -> Reason {
    match disbelief {
        Disbelief::Forged => Reason::Forged,
        Disbelief::Replayed => Reason::Replayed,
    }
}
