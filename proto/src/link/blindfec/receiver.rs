//! The receiving side of one neighbour: blocks are reassembled and delivered in order.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::base::{Duration, Instant};
use crate::link::code::Decoder;
use crate::wire::blindfec::Header;
use crate::wire::wild::{UnitHead, decode_unit};

/// After a silence of this length any block may be next: block numbers may have wrapped around, and
/// a neighbour that restarted may have drawn the same incarnation again.
const SILENCE: Duration = Duration::from_secs(1);

/// What was received from one neighbour.
#[derive(Debug)]
pub(super) struct Receiver {
    incarnation: u8,
    block: u16,
    /// When a frame of its blocks last arrived.
    heard: Instant,
    decoder: Decoder,
    /// The index that is delivered next.
    next: u32,
    /// Packets that wait behind a gap.
    held: BTreeMap<u32, (UnitHead, Bytes)>,
    /// How long packets wait for missing ones, and until when those that wait now do.
    patience: Duration,
    until: Instant,
    pub(super) decoded: u64,
    pub(super) late: u64,
    pub(super) malformed: u64,
}

impl Receiver {
    pub(super) fn new(first: &Header, patience: Duration) -> Self {
        Self {
            incarnation: first.incarnation,
            block: first.block,
            heard: Instant::ZERO,
            decoder: Decoder::new(first.block),
            next: 0,
            held: BTreeMap::new(),
            patience,
            until: Instant::MAX,
            decoded: 0,
            late: 0,
            malformed: 0,
        }
    }

    /// Handles a frame. Packets that can be delivered are added to `out`, in order.
    pub(super) fn on_frame(
        &mut self,
        now: Instant,
        header: &Header,
        unit: Bytes,
        out: &mut Vec<(UnitHead, Bytes)>,
    ) {
        let ahead = header.block.wrapping_sub(self.block) as i16;
        let is_known = header.incarnation == self.incarnation && now < self.heard + SILENCE;
        if is_known && ahead < 0 {
            self.late += 1;
            return;
        }
        if header.incarnation != self.incarnation || ahead != 0 {
            self.begin(header, out);
        }
        self.heard = now;
        match header.k {
            None => match decode_unit(&unit) {
                Some((head, payload)) if head.seq.0 == u32::from(header.index) => {
                    self.decoder.on_data(header.index, head, payload.clone());
                    self.hold(head, payload);
                }
                _ => self.malformed += 1,
            },
            Some(k) => self.decoder.on_parity(k, header.index, unit),
        }
        for unit in self.decoder.recover() {
            match decode_unit(&unit) {
                // With forged parity the result may be anything.
                Some((head, payload)) if head.seq.0 <= u32::from(u8::MAX) => {
                    self.decoded += 1;
                    self.hold(head, payload);
                }
                _ => self.malformed += 1,
            }
        }
        self.give_up(out);
        self.until = if self.held.is_empty() { Instant::MAX } else { now + self.patience };
    }

    fn hold(&mut self, head: UnitHead, payload: Bytes) {
        if head.seq.0 >= self.next {
            self.held.entry(head.seq.0).or_insert((head, payload));
        }
    }

    /// Delivers packets that have no gap before them.
    fn give_up(&mut self, out: &mut Vec<(UnitHead, Bytes)>) {
        while let Some(packet) = self.held.remove(&self.next) {
            self.next += 1;
            out.push(packet);
        }
    }

    /// Goes on to another block. Packets of the old one that still wait are delivered as they are.
    fn begin(&mut self, header: &Header, out: &mut Vec<(UnitHead, Bytes)>) {
        out.extend(std::mem::take(&mut self.held).into_values());
        (self.incarnation, self.block) = (header.incarnation, header.block);
        self.decoder = Decoder::new(header.block);
        self.next = 0;
    }

    /// When packets will have waited too long.
    pub(super) fn due(&self) -> Instant {
        self.until
    }

    /// Delivers packets that have waited too long. Missing packets before them are dropped if they
    /// still arrive.
    pub(super) fn on_timeout(&mut self, now: Instant, out: &mut Vec<(UnitHead, Bytes)>) {
        if self.until > now {
            return;
        }
        self.until = Instant::MAX;
        if let Some((last, _)) = self.held.last_key_value() {
            self.next = last + 1;
        }
        out.extend(std::mem::take(&mut self.held).into_values());
    }
}
