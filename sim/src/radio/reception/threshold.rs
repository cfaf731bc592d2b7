//! Overlap as in ns-2 (`radio.md` 4.1): one frame at a time occupies the receiver. A later frame
//! that is weaker by the capture threshold passes unnoticed; any other destroys both, and the
//! receiver is occupied until the later end. Interference does not add up, and a later, stronger
//! frame never captures the receiver.

use farhop_proto::base::{Dbm, Duration, Instant};

use super::super::air::{Air, TxId};
use super::super::chip::Chip;
use super::super::links::{Hearer, Reach};
use super::{Ended, Model, Rare, Reception};

/// A preamble that is hit within this time of its start is not locked on to (ns-3's detector).
const LOCK: Duration = Duration::from_micros(4);

/// A receiver that one frame occupies at a time.
#[derive(Debug, Default)]
pub(super) struct Threshold {
    occupant: Option<Occupant>,
    /// Frames that overlap with the occupant and end before it, unless the occupant is cut off.
    beside: Rare<Occupant>,
}

/// The frame that occupies a receiver.
#[derive(Clone, Copy, Debug)]
struct Occupant {
    /// The link over which it can be decoded; `u32::MAX` if there is none.
    link: u32,
    tx: TxId,
    start: Instant,
    end: Instant,
    signal: Dbm,
    /// Nothing has destroyed it so far.
    is_intact: bool,
    /// The receiver locked on to its preamble.
    is_locked: bool,
}

impl Occupant {
    fn destroy(&mut self) {
        (self.is_intact, self.is_locked) = (false, false);
    }

    /// The frame, and the link over which it can be decoded.
    fn frame(&self) -> (TxId, Option<u32>) {
        (self.tx, (self.link != u32::MAX).then_some(self.link))
    }

    fn ended(&self) -> Ended {
        let Self { link, tx, start, signal, .. } = *self;
        if self.is_intact {
            Ended::Passed(Reception { tx, link, signal, start, decoded: u64::MAX, dropped: 0 })
        } else if self.is_locked {
            Ended::Failed(tx)
        } else {
            Ended::Unheard
        }
    }
}

impl Threshold {
    pub(super) fn was_locked_by(&self, limit: Instant) -> bool {
        self.occupant.is_some_and(|occupant| occupant.is_locked && occupant.start <= limit)
    }

    /// A signal ends. Returns how its reception ended, if it occupied the receiver.
    pub(super) fn end(&mut self, now: Instant, tx: TxId) -> Option<Ended> {
        if self.occupant.is_some_and(|occupant| occupant.tx == tx) {
            return self.release(now);
        }
        self.beside.retain(|other| other.tx != tx);
        None
    }

    /// The occupant ends. If it was cut off, the last to end of the frames that it overlapped with
    /// takes its place.
    fn release(&mut self, now: Instant) -> Option<Ended> {
        let over = self.occupant.take()?;
        self.beside.retain(|other| other.end > now);
        self.occupant = self.beside.as_slice().iter().max_by_key(|other| other.end).copied();
        if let Some(Occupant { tx, .. }) = self.occupant {
            self.beside.retain(|other| other.tx != tx);
        }
        Some(over.ended())
    }

    /// The radio goes down: what is on the air stays there, and cannot be decoded.
    pub(super) fn go_deaf(&mut self) {
        self.occupant.iter_mut().for_each(Occupant::destroy);
    }

    /// A frame begins while the radio is down. It is still on the air when the radio is up again.
    fn on_unheard(&mut self, now: Instant, arrival: Occupant, capture_db: f64) {
        if self.occupant.is_some_and(|current| current.end <= now) {
            self.release(now);
        }
        match self.occupant {
            None => self.occupant = Some(arrival),
            Some(current) if current.signal.above(arrival.signal) >= capture_db => {}
            Some(_) => _ = self.overlap(arrival),
        }
    }

    /// A frame that cannot be decoded any more overlaps with the occupant, and takes its place if
    /// it ends later. Returns whether it does.
    fn overlap(&mut self, mut arrival: Occupant) -> bool {
        arrival.destroy();
        let current = self.occupant.as_mut().expect("something to overlap with");
        let is_longer = arrival.end > current.end;
        let mut beside = if is_longer { std::mem::replace(current, arrival) } else { arrival };
        beside.destroy();
        self.beside.push(beside);
        is_longer
    }

    /// Destroys the current reception. Returns whether there was anything to destroy.
    pub(super) fn spoil(&mut self, now: Instant) -> bool {
        let Some(occupant) = self.occupant.as_mut().filter(|occupant| occupant.end > now) else {
            return false;
        };
        std::mem::take(&mut occupant.is_intact)
    }
}

impl Chip {
    fn threshold(&mut self) -> &mut Threshold {
        match &mut self.receiver.model {
            Model::Threshold(threshold) => threshold,
            Model::Sinr(_) => unreachable!("only called under the threshold model"),
        }
    }

    pub(super) fn on_threshold_start(
        &mut self,
        air: &mut Air,
        now: Instant,
        hearer: &Hearer,
        tx: TxId,
    ) {
        if !self.is_up {
            return self.on_unheard_start(air, now, hearer, tx);
        }
        // Frames that only touch do not overlap, whichever event is processed first.
        let threshold = self.threshold();
        if threshold.occupant.is_some_and(|current| current.end <= now)
            && let Some(ended) = threshold.release(now)
        {
            self.on_reception_end(air, now, ended);
        }
        let transmission = air.transmission(tx);
        let length = transmission.end - transmission.start;
        let is_deaf = air.ear(self.index).tx_until().is_some_and(|until| until > now);
        let is_strong = !self.config.receives_by_rate || hearer.signal >= air.weakest(tx);
        let link = match hearer.reach {
            Reach::Decodable(link) if is_strong => Some(link),
            _ => None,
        };
        let is_clear = !is_deaf && link.is_some() && !self.is_deaf(air);
        let arrival = Occupant {
            link: link.unwrap_or(u32::MAX),
            tx,
            start: now,
            end: now + length,
            signal: hearer.signal,
            is_intact: is_clear,
            is_locked: is_clear,
        };
        if self.threshold().occupant.is_some() {
            self.on_overlap(air, now, arrival, is_deaf);
            return;
        }
        if is_deaf {
            self.stats.missed += 1;
            self.on_collided(air, (tx, link), length);
        }
        self.threshold().occupant = Some(arrival);
    }

    #[cold]
    fn on_unheard_start(&mut self, air: &Air, now: Instant, hearer: &Hearer, tx: TxId) {
        let capture_db = self.config.capture_db;
        let (link, signal) = (u32::MAX, hearer.signal);
        let transmission = air.transmission(tx);
        let end = now + (transmission.end - transmission.start);
        let (is_intact, is_locked) = (false, false);
        let arrival = Occupant { link, tx, start: now, end, signal, is_intact, is_locked };
        self.threshold().on_unheard(now, arrival, capture_db);
    }

    /// The start of a frame arrives while another occupies the receiver.
    fn on_overlap(&mut self, air: &mut Air, now: Instant, arrival: Occupant, is_deaf: bool) {
        let capture_db = self.config.capture_db;
        let always = self.heeds_all;
        let threshold = self.threshold();
        let current = threshold.occupant.as_mut().expect("something to overlap with");
        if current.signal.above(arrival.signal) >= capture_db {
            if current.is_intact {
                self.stats.captures += 1;
            } else {
                self.on_arrival_lost(air, arrival, is_deaf);
            }
            return;
        }
        let was_intact = std::mem::take(&mut current.is_intact);
        if now.since(current.start) < LOCK {
            current.is_locked = false;
        }
        let before = *current;
        let is_longer = threshold.overlap(arrival);
        if was_intact {
            self.stats.collisions += 1;
            self.on_collided(air, before.frame(), before.end - before.start);
        }
        if is_longer && before.is_locked {
            air.tell_heard(self.node, before.tx, 0);
        }
        // The reception that was locked on to still fails at its own end, not at the later one.
        if is_longer && (before.is_locked || always) {
            self.error_at = Some(before.end);
        }
        self.on_arrival_lost(air, arrival, is_deaf);
    }

    /// Counts a frame that is lost as it begins.
    fn on_arrival_lost(&mut self, air: &mut Air, arrival: Occupant, is_deaf: bool) {
        if is_deaf {
            self.stats.missed += 1;
        } else {
            self.stats.collisions += 1;
        }
        self.on_collided(air, arrival.frame(), arrival.end - arrival.start);
    }

    pub(super) fn on_threshold_own_start(&mut self, air: &mut Air, now: Instant) {
        let Some(occupant) =
            self.threshold().occupant.as_mut().filter(|occupant| occupant.end > now)
        else {
            return;
        };
        let was_intact = std::mem::take(&mut occupant.is_intact);
        occupant.is_locked = false;
        let (frame, length) = (occupant.frame(), occupant.end - occupant.start);
        if was_intact {
            self.stats.missed += 1;
            self.on_collided(air, frame, length);
        }
        if self.error_at.is_some_and(|at| at > now) {
            self.error_at = None;
        }
    }
}
