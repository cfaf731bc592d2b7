//! Frames on their way down: they are sealed, or carry a handshake message.

use super::noise::{INIT_BYTES, MAC_BYTES, cookie_of};
use super::peer::{Begun, CookieAnswer, Need};
use super::session::{OwnBroadcast, Session};
use super::{Secure, draw, later};
use crate::base::{
    Cover, Cx, Duration, EtherType, FlowId, Frame, FrameDone, FrameDown, FrameOutcome, FrameUp,
    Instant,
};
use crate::wire::secure::{Header, Kind, Said, UNIT_SEAL_BYTES};
use bytes::Bytes;

impl Secure {
    /// Handles a frame of the link.
    pub(super) fn on_sent(&mut self, cx: &mut Cx<'_>, mut frame: Frame) {
        let sealed = match frame.flow {
            FlowId::CONTROL => self.carry(cx.now, &frame),
            _ if frame.options.cover == Cover::Tagged => {
                frame.options.overhead += UNIT_SEAL_BYTES as u16;
                self.close_unit(&frame)
            }
            _ => self.seal(&frame),
        };
        let Some(payload) = sealed else {
            self.counters.not_sealed += 1;
            let (id, outcome) = (frame.id, FrameOutcome::Cancelled);
            let done = FrameDone { id, outcome, attempts: 0, air_time: Duration::ZERO };
            return self.up.push_back(FrameUp::Done(done));
        };
        frame.payload = payload;
        frame.protocol = EtherType::SEALED;
        self.down.push_back(FrameDown::Frame(frame));
    }

    /// Adds a tag to a unit of a packet, or to feedback about units.
    fn close_unit(&mut self, frame: &Frame) -> Option<Bytes> {
        let to = frame.to?;
        let peer = &mut self.peers[*self.index.get(&to)?];
        let unit = peer.current.as_ref()?.close_unit(self.node, to, &frame.payload);
        self.counters.tagged += 1;
        Some(unit)
    }

    pub(super) fn header(&self, kind: Kind) -> Header {
        let is_readable = self.config.is_readable() && kind > Kind::Carrier;
        Header { kind, is_readable, epoch: 0, counter: 0 }
    }

    fn seal(&mut self, frame: &Frame) -> Option<Bytes> {
        let header = self.header(Kind::of(frame.protocol, frame.to)?);
        let Some(to) = frame.to else {
            self.counters.sealed += 1;
            return Some(self.broadcast.seal(header, self.node, &frame.payload));
        };
        let peer = &mut self.peers[*self.index.get(&to)?];
        let session = peer.current.as_mut()?;
        peer.sealed += 1;
        self.counters.sealed += 1;
        Some(session.seal(header, self.node, to, &frame.payload))
    }

    /// Adds to a requested frame what its receiver must be told.
    fn carry(&mut self, now: Instant, frame: &Frame) -> Option<Bytes> {
        let index = *self.index.get(&frame.to?)?;
        let need = self.peers[index].need(now, self.node);
        let out = match need {
            Some(Need::Answer) => self
                .answer(now, index, &frame.payload)
                .or_else(|| self.answer_with_cookie(now, index))
                .or_else(|| self.carrier(now, index, need, &frame.payload)),
            Some(Need::Begin) => self.begin(now, index).map(Bytes::from),
            Some(Need::Tell | Need::Renew) | None => self.carrier(now, index, need, &frame.payload),
        };
        let peer = &mut self.peers[index];
        peer.has_answered = need == Some(Need::Answer);
        // A link places one frame for all requests.
        if std::mem::take(&mut peer.is_own_asked) && peer.has_answered {
            peer.own_at = now;
        }
        match peer.need(now, self.node) {
            Some(Need::Answer) => peer.answer_at = now,
            // This node's own message was not sent yet.
            Some(_) if peer.has_answered => {}
            Some(need) => peer.own_at = now + later(&mut self.rng, peer.interval(now, need)),
            None => {}
        }
        self.ask(now);
        self.set_timeout(now);
        out
    }

    /// A first message; the caller sends it unsealed or under keys.
    fn begin(&mut self, now: Instant, index: usize) -> Option<Vec<u8>> {
        let epoch = self.peers[index].next_epoch();
        let cookie = self.peers[index].cookie(now);
        let seed = draw(&mut self.rng);
        let (message, state) = self.handshakes(index)?.init(epoch, cookie.as_ref(), seed);
        let mac_at = INIT_BYTES - 2 * MAC_BYTES;
        let mac = message[mac_at..mac_at + MAC_BYTES].try_into().expect("its length");
        self.peers[index].on_begun(Begun::new(epoch, state, mac));
        self.counters.handshakes_begun += 1;
        Some(message)
    }

    /// The answer to a first message that arrived unsealed, containing the frame of the link.
    fn answer(&mut self, now: Instant, index: usize, frame: &[u8]) -> Option<Bytes> {
        let answers = &self.peers[index].answers;
        let at = answers.iter().position(|answer| !answer.is_sealed)?;
        self.respond(now, index, at, frame).map(Bytes::from)
    }

    fn respond(&mut self, now: Instant, index: usize, at: usize, frame: &[u8]) -> Option<Vec<u8>> {
        let mut answer = self.peers[index].answers.remove(at)?;
        let ours = self.peers[index].next_epoch();
        let epochs = (answer.theirs, ours);
        let (message, (there, back)) =
            self.handshakes(index)?.response(&mut answer.state, epochs, frame);
        let (cipher, keys) = (self.config.cipher, (&back, &there));
        let session = Session::new(cipher, (ours, answer.theirs), keys, now, false);
        self.peers[index].on_answered(session);
        self.counters.handshakes_answered += 1;
        Some(message)
    }

    fn answer_with_cookie(&mut self, now: Instant, index: usize) -> Option<Bytes> {
        let CookieAnswer { epoch, mac, .. } = self.peers[index].cookie_answers.pop_front()?;
        let cookie = cookie_of(&self.cookie_secrets(now)[0], self.peers[index].node);
        let pair = &self.peers[index].known.as_ref()?.pair;
        let message = pair.seal_cookie(&cookie, (epoch, &mac), &mut self.rng);
        self.counters.cookies_sent += 1;
        Some(message.into())
    }

    /// A frame of the link, sealed, preceded by statements about keys.
    fn carrier(
        &mut self,
        now: Instant,
        index: usize,
        need: Option<Need>,
        frame: &[u8],
    ) -> Option<Bytes> {
        self.peers[index].current.as_ref()?;
        let mut body = vec![0, 0];
        if need == Some(Need::Renew) {
            Said::Init(&self.begin(now, index)?).append(&mut body);
        } else if need == Some(Need::Answer) && !self.peers[index].answers.is_empty() {
            Said::Response(&self.respond(now, index, 0, &[])?).append(&mut body);
        }
        let peer = &mut self.peers[index];
        if peer.owes_key {
            let OwnBroadcast { epoch, sent: first, secret, .. } = &self.broadcast;
            Said::BroadcastKey { epoch: *epoch, first: *first, secret }.append(&mut body);
        }
        if let Some(epoch) = peer.owes_ack.take() {
            Said::BroadcastAck(epoch).append(&mut body);
        }
        let length = (body.len() as u16 - 2).to_be_bytes();
        body[..2].copy_from_slice(&length);
        body.extend_from_slice(frame);
        let header = self.header(Kind::Carrier);
        let peer = &mut self.peers[index];
        let to = peer.node;
        peer.sealed += 1;
        self.counters.sealed += 1;
        Some(peer.current.as_mut()?.seal(header, self.node, to, &body))
    }
}
