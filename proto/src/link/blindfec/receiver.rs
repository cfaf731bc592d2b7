//! The receiving side of one neighbour: blocks are put together again and given up in order.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::base::{Duration, Instant};
use crate::link::code::Decoder;
use crate::wire::blindfec::Header;
use crate::wire::wild::{UnitHead, decode_unit};

/// After so long a silence any block is the next: its number may have gone around, and a neighbour
/// that began anew may have drawn the incarnation that it had.
const SILENCE: Duration = Duration::from_secs(1);

/// What was received of one neighbour.
#[derive(Debug)]
pub(super) struct Receiver {
    incarnation: u8,
    block: u16,
    /// When something of its blocks last came.
    heard: Instant,
    decoder: Decoder,
    /// The index that is given up next.
    next: u32,
    /// What waits behind a gap.
    held: BTreeMap<u32, (UnitHead, Bytes)>,
    /// When what waits is given up without what is missing.
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

    /// Takes a frame; what can be given up comes out in order.
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
                // Forged parity may make anything of it.
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

    /// Gives up what has no gap before it.
    fn give_up(&mut self, out: &mut Vec<(UnitHead, Bytes)>) {
        while let Some(packet) = self.held.remove(&self.next) {
            self.next += 1;
            out.push(packet);
        }
    }

    /// Goes on to another block: what waits of this one has waited in vain.
    fn begin(&mut self, header: &Header, out: &mut Vec<(UnitHead, Bytes)>) {
        out.extend(std::mem::take(&mut self.held).into_values());
        (self.incarnation, self.block) = (header.incarnation, header.block);
        self.decoder = Decoder::new(header.block);
        self.next = 0;
    }

    /// When something has waited for too long.
    pub(super) fn due(&self) -> Instant {
        self.until
    }

    /// Gives up what has waited for too long; what comes later of before it is dropped.
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
