//! Handling of segments from the peer, by the state of the connection (RFC 9293, 3.10.7), with
//! checks of timestamps (RFC 7323, 5) and challenges to resets (RFC 5961, 3.2).

use bytes::Bytes;

use super::ecn::Haste;
use super::receiver::Pace;
use super::sender::Ack;
use super::{Handshake, Phase, TICK_NANOS, Tcp};
use crate::base::{Duration, Instant, MessageUp, Seq};
use crate::wire::ip::{self, Ecn};
use crate::wire::tcp::{self, Flags, Header, TIMESTAMPS_BYTES};

impl Tcp {
    pub(super) fn on_segment(&mut self, now: Instant, packet: &Bytes) {
        let Ok((header, range)) = tcp::decode(packet) else {
            self.refused.malformed += 1;
            return;
        };
        let mark = ip::ecn(packet);
        match self.phase {
            Phase::Listen => self.on_listen(&header),
            Phase::SynSent => self.on_syn_sent(now, &header),
            Phase::SynReceived => self.on_syn_received(now, &header, packet.slice(range), mark),
            Phase::Open | Phase::Done => self.on_open(now, &header, packet.slice(range), mark),
            Phase::Failed => {}
        }
    }

    fn on_listen(&mut self, header: &Header) {
        if header.flags.has(Flags::RST) {
            return;
        }
        if header.flags.has(Flags::ACK) {
            self.reset = Some((header.ack, None));
        } else if header.flags.has(Flags::SYN) {
            self.on_peer_syn(header);
            self.phase = Phase::SynReceived;
            self.handshake.to_send = true;
        }
    }

    /// Takes the options of the peer's SYN.
    fn on_peer_syn(&mut self, header: &Header) {
        let options = &header.options;
        self.timestamps &= options.timestamps.is_some();
        self.sack &= options.sack_permitted;
        let answer = header.flags.has(Flags::ACK);
        self.marks.on_syn(header.flags, self.config.ecn, answer);
        self.sender.ecn = self.marks.agreed;
        match options.window_scale {
            Some(scale) => self.peer_scale = scale,
            None => (self.peer_scale, self.window_scale) = (0, 0),
        }
        if let Some((value, _)) = options.timestamps {
            self.recent = value;
        }
        // RFC 6691: the MSS option does not count other options, but the payload of our segments
        // does.
        let taken = if self.timestamps { TIMESTAMPS_BYTES as u32 } else { 0 };
        let peer = u32::from(options.mss.unwrap_or(536)).saturating_sub(taken).max(1);
        self.sender.mss = peer.min(self.config.mss as u32);
        self.sender.recovery = self.config.recovery_with(self.sack);
        self.receiver.on_syn(header.seq, self.sack, self.timestamps);
    }

    fn on_syn_sent(&mut self, now: Instant, header: &Header) {
        let good = header.flags.has(Flags::ACK) && header.ack == self.initial.add(1);
        if header.flags.has(Flags::RST) {
            if good {
                self.fail();
            }
        } else if header.flags.has(Flags::ACK) && !good {
            self.reset = Some((header.ack, None));
        } else if good && header.flags.has(Flags::SYN) {
            self.on_peer_syn(header);
            self.on_established(now, header, u64::from(header.window));
            // It is sent alone, before any data: the peer measures its only round trip with it.
            self.acknowledge(now);
        }
    }

    fn on_syn_received(&mut self, now: Instant, header: &Header, payload: Bytes, mark: Ecn) {
        if header.flags.has(Flags::RST) {
            if header.seq != self.receiver.ack() {
                return;
            }
            let end = self.end;
            *self = Self::build(self.config.clone(), end, Phase::Listen);
        } else if header.flags.has(Flags::SYN) {
            self.handshake.to_send = true;
        } else if header.flags.has(Flags::ACK) && header.ack == self.initial.add(1) {
            self.on_established(now, header, u64::from(header.window) << self.peer_scale);
            self.on_open(now, header, payload, mark);
        }
    }

    fn on_established(&mut self, now: Instant, header: &Header, window: u64) {
        self.phase = Phase::Open;
        let tries = self.handshake.tries;
        let una = self.sender.una;
        let stamps = header.options.timestamps.filter(|_| self.timestamps);
        let sent = match tries {
            1 => self.handshake.sent,
            // Which of several was answered, only the echoed timestamp tells.
            _ => stamps.and_then(|(_, echo)| self.echoed(now, echo)),
        };
        match sent {
            Some(sent) => {
                self.sender.rtt.on_sample(now.since(sent), una, una);
                self.sender.rtt.on_minimum(now, now.since(sent));
            }
            None => self.sender.rtt.on_syn_lost(),
        }
        self.handshake = Handshake { tries, ..Handshake::default() };
        self.sender.on_established(now, window, tries > 2);
        self.up.push_back(MessageUp::Connected(self.end.flow));
    }

    fn on_open(&mut self, now: Instant, header: &Header, payload: Bytes, mark: Ecn) {
        let fin = header.flags.has(Flags::FIN);
        let left = self.receiver.place(header.seq);
        let right = left + payload.len() as u64 + u64::from(fin);
        if header.flags.has(Flags::RST) {
            self.refused.resets += 1;
            // RFC 5961, 3.2: only the exact next number resets; for others a challenge is sent.
            if header.seq == self.receiver.ack() {
                self.fail();
            } else if self.receiver.is_acceptable(left, right) {
                self.receiver.request_ack();
            }
            return;
        }
        if header.flags.has(Flags::SYN) {
            return self.receiver.request_ack();
        }
        let bare = payload.is_empty() && !fin;
        if !self.is_fresh(header, bare) {
            self.refused.old_timestamps += 1;
            // An acknowledgement that was overtaken by others needs no answer.
            if !(bare && header.seq.is_before(self.receiver.ack())) {
                self.receiver.on_refused(left, right);
            }
            return;
        }
        if !self.receiver.is_acceptable(left, right) {
            self.refused.outside_window += 1;
            return self.receiver.on_refused(left, right);
        }
        if right < self.receiver.acked() {
            // As in Linux, nothing of an old segment counts, not even its timestamp: the answer
            // echoes an older one, and the peer gets a long round-trip time from it.
            return self.receiver.on_refused(left, right);
        }
        if !header.flags.has(Flags::ACK) {
            return;
        }
        if !self.on_ack(now, header, bare) {
            // It acknowledges what was never sent (RFC 9293, 3.10.7.4).
            return self.receiver.request_ack();
        }
        if let Some((value, _)) = header.options.timestamps.filter(|_| self.timestamps)
            && left <= self.receiver.acked()
            && !Seq(value).is_before(Seq(self.recent))
        {
            self.recent = value;
        }
        if !bare {
            let is_new = right > self.receiver.place(self.receiver.ack());
            match self.marks.on_data(header.flags, if is_new { mark } else { Ecn::NotEct }) {
                Haste::None => {}
                Haste::Cut => self.receiver.request_ack(),
                Haste::Mark => self.receiver.on_mark(),
            }
            self.on_data(now, left, payload, header);
        }
        self.on_progress();
    }

    /// RFC 7323, 5.3: whether the timestamp is not older than an earlier one by more than a tick
    /// (`TCP_PAWS_WINDOW`), or belongs to an acknowledgement that repeats another and was overtaken
    /// a short time ago (`tcp_disordered_ack`), whose SACK blocks count.
    fn is_fresh(&self, header: &Header, bare: bool) -> bool {
        let Some((value, _)) = header.options.timestamps.filter(|_| self.timestamps) else {
            return true;
        };
        let late = i64::from(Seq(self.recent).distance(Seq(value)));
        let patience = self.sender.rtt.rto().as_micros() * 12 / 10 * 1_000 / TICK_NANOS;
        late <= 1
            || (bare
                && header.seq == self.receiver.ack()
                && self.place(header.ack) == self.sender.una
                && late <= patience as i64)
    }

    fn on_ack(&mut self, now: Instant, header: &Header, bare: bool) -> bool {
        let mut ack = Ack {
            number: self.place(header.ack),
            window: u64::from(header.window) << self.peer_scale,
            sacks: [(0, 0); 4],
            sack_count: 0,
            echo: None,
            bare,
            echo_mark: header.flags.has(Flags::ECE),
        };
        if let Some((_, echo)) = header.options.timestamps.filter(|_| self.timestamps) {
            ack.echo = self.echoed(now, echo);
        }
        if self.sack {
            for (left, right) in header.options.sack.as_slice() {
                ack.sacks[ack.sack_count] = (self.place(*left), self.place(*right));
                ack.sack_count += 1;
            }
        }
        self.sender.on_ack(now, &ack)
    }

    fn on_data(&mut self, now: Instant, left: u64, payload: Bytes, header: &Header) {
        let flags = header.flags;
        let (rto, rtt) = (self.sender.rtt.rto(), self.sender.rtt.smoothed());
        let echo = header.options.timestamps.filter(|_| self.timestamps).and_then(|(_, echo)| {
            // At least a tick, as the clock has no finer resolution.
            let ago = now.since(self.echoed(now, echo)?);
            Some((echo, ago.max(Duration::from_nanos(TICK_NANOS))))
        });
        let pace = Pace { now, rto, rtt, echo, push: flags.has(Flags::PSH) };
        let fin = flags.has(Flags::FIN);
        let (up, flow) = (&mut self.up, self.end.flow);
        self.receiver.on_data(pace, left, payload, fin, |payload| {
            up.push_back(MessageUp::Received { flow, payload });
        });
    }

    /// Checks whether an acknowledgement or data has ended a direction.
    fn on_progress(&mut self) {
        if self.receiver.is_finished() && self.config.close_with_peer {
            self.sender.finish();
        }
        if self.phase == Phase::Open && self.sender.is_done() && self.receiver.is_finished() {
            self.phase = Phase::Done;
            self.up.push_back(MessageUp::Finished(self.end.flow));
        }
    }

    pub(super) fn fail(&mut self) {
        self.phase = Phase::Failed;
        self.handshake = Handshake::default();
        self.up.push_back(MessageUp::Reset(self.end.flow));
    }
}
