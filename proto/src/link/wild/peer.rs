//! The state that a link keeps for one neighbour.

use std::collections::VecDeque;

use bytes::Bytes;

use super::Settings;
use super::class::UsualQueue;
use super::grants::Served;
use super::parts::Joiner;
use super::queue::Queue;
use super::receiver::Receiver;
use super::recovery::Estimate;
use super::sender::Sender;
use crate::base::{Dbm, Duration, Instant, RadioSpec, Wanted};
use crate::link::code::Encoder;
use crate::link::{OTHER_LINK, PeerSpec};
use crate::wire::wild::Coded;

/// The first frames of a slot carry this many copies of the acknowledgement. With one copy, losses
/// of 10 to 50% would too often waste a whole cycle.
const PIGGYBACKED_ACKS: u8 = 3;
/// Copies of an acknowledgement that are sent by themselves; one if more than `FEW` neighbours
/// share a radio.
const ALONE_ACKS: u8 = 2;
const FEW: usize = 4;
/// An acknowledgement is sent by itself in this many slots after something arrived that it covers.
const OWED_SLOTS: u8 = 4;
/// Where more than `FEW` share a radio, an acknowledgement without news is sent in one of this many
/// slots: the other side measures its losses by it.
const IDLE_ACKS_OF: u16 = 4;

/// One neighbour.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) spec: PeerSpec,
    /// Position of its radio: group and port.
    pub(super) place: (usize, usize),
    pub(super) heard: Option<Instant>,
    pub(super) is_up: bool,
    /// When a packet for it or from it was last seen.
    pub(super) used: Option<Instant>,
    /// While it is gone: when its waiting packets are next checked for age.
    pub(super) expires: Option<Instant>,
    pub(super) sync_error: Option<i64>,
    pub(super) signal: Option<Dbm>,
    pub(super) received_bytes: u64,
    pub(super) queue: Queue,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// What is being coded, by class.
    pub(super) codes: Vec<Coding>,
    /// Number of the next code block.
    pub(super) next_block: u16,
    pub(super) acks: AckCopies,
    /// A frame that the layer below wants to be sent.
    pub(super) wanted: Option<Wanted>,
    /// Its last stamp: number and start of its slot, and when the stamp arrived.
    pub(super) stamp: Option<(u16, Instant, Instant)>,
    /// How much it could send, as it announces itself, in the unit of the header.
    pub(super) demand: u8,
    /// How much later than the end of our slot its slot begins, in nanoseconds.
    pub(super) lag: Option<i64>,
    /// The turns that it has had, if this node assigns them.
    pub(super) served: Served,
    /// Its own radio as it sends to this node, if it is not like this node's.
    pub(super) radio: Option<Box<RadioSpec>>,
    /// Whether it joins parts of packets, as it announces itself.
    pub(super) takes_parts: bool,
    /// Whether it has packets of a higher priority for us, as it announces itself.
    pub(super) hurries: bool,
    /// When a packet of a higher priority was last sent to it.
    pub(super) hurried: Option<Instant>,
    /// Joins the parts of packets that it sends.
    pub(super) joiner: Joiner,
    /// Why and when a frame of it was last refused, if the last one was.
    pub(super) refused: Option<(Refusal, Instant)>,
}

impl Peer {
    /// Why its frames are refused, as long as they arrive.
    pub(super) fn refused_now(&self, now: Instant) -> Option<Refusal> {
        self.refused.filter(|(_, at)| now.since(*at) < REFUSED).map(|(why, _)| why)
    }

    pub(super) fn new(
        spec: PeerSpec,
        place: (usize, usize),
        settings: &Settings,
        (window, queue): (usize, UsualQueue),
        lanes: usize,
    ) -> Self {
        let mut classes = settings.classes.clone();
        classes.set_usual_queue(queue);
        let estimate = Estimate::new(classes.rules(), settings.block);
        let coding = |class| Coding { class, ..Coding::default() };
        Self {
            spec,
            place,
            heard: None,
            used: None,
            is_up: false,
            expires: None,
            sync_error: None,
            signal: None,
            received_bytes: 0,
            queue: Queue::new(classes.clone(), lanes),
            sender: Sender::new(window, classes.levels(), settings.slot * 2, estimate),
            receiver: settings.receiver(),
            codes: (0..classes.all().len()).map(coding).collect(),
            next_block: 0,
            acks: AckCopies::default(),
            wanted: None,
            stamp: None,
            demand: 0,
            lag: None,
            served: Served::default(),
            radio: None,
            takes_parts: false,
            hurries: false,
            hurried: None,
            joiner: Joiner::default(),
            refused: None,
        }
    }

    /// A send slot begins, on a radio that `sharers` neighbours share.
    pub(super) fn on_slot(&mut self, number: u16, until: Instant, sharers: usize) {
        self.sender.on_slot(number, until);
        self.codes.iter_mut().for_each(Coding::on_slot);
        let owed = self.acks.owed;
        let is_its_turn = number.wrapping_add(self.spec.node.0).is_multiple_of(IDLE_ACKS_OF);
        let alone = match sharers {
            0..=FEW => ALONE_ACKS,
            _ => u8::from(owed > 0 || is_its_turn),
        };
        let owed = owed.saturating_sub(1);
        self.acks = AckCopies { record: None, left: PIGGYBACKED_ACKS, alone, owed };
    }

    /// Something arrived that must be acknowledged.
    pub(super) fn owes_ack(&mut self) {
        self.acks.owed = OWED_SLOTS;
    }

    /// Whether data that may be sent now, or parity, waits.
    pub(super) fn has_data(&self) -> bool {
        self.queue.levels().any(|level| self.has_data_of(level))
            || self.codes.iter().any(|code| !code.parity.is_empty())
    }

    /// The same for data of one level.
    pub(super) fn has_data_of(&self, level: usize) -> bool {
        self.sender.has_lost(level) || (self.queue.has(level) && self.sender.has_room(level))
    }

    /// Air time for the parity of open blocks and for waiting parity, except that of the open block
    /// of one class.
    pub(super) fn reserved(&self, except: usize) -> Duration {
        let open = self.codes.iter().filter(|code| code.class != except);
        let waiting = self.codes.iter().map(|code| code.waiting_air);
        open.map(|code| code.open_air).chain(waiting).sum()
    }

    /// The classes with parity that waits.
    pub(super) fn classes_with_parity(&self) -> impl Iterator<Item = usize> {
        let waiting = self.codes.iter().filter(|code| !code.parity.is_empty());
        waiting.map(|code| code.class)
    }

    /// Coded frames per data frame, in the last slot with data.
    pub(super) fn coding_rate(&self) -> f64 {
        let (data, parity) = self
            .codes
            .iter()
            .fold((0, 0), |(data, parity), code| (data + code.before.0, parity + code.before.1));
        if data == 0 { 0.0 } else { f64::from(parity) / f64::from(data) }
    }

    /// The acknowledgement for the next frame to the neighbour; empty once enough copies were sent.
    pub(super) fn ack(&mut self) -> Bytes {
        if self.acks.left == 0 {
            return Bytes::new();
        }
        let receiver = &self.receiver;
        let build = || receiver.ack().map(|ack| ack.encode()).unwrap_or_default();
        self.acks.record.get_or_insert_with(build).clone()
    }

    /// A frame is given down, of a kind that the neighbour counts (`counts`) and with a copy of the
    /// acknowledgement (`tells`).
    pub(super) fn on_given(&mut self, now: Instant, counts: bool, tells: bool) {
        if counts {
            self.sender.on_frame();
        }
        if tells {
            if !self.is_told() {
                self.receiver.on_told(now);
            }
            self.acks.left -= 1;
        }
    }

    /// Whether a frame of this slot has carried an acknowledgement.
    pub(super) fn is_told(&self) -> bool {
        self.acks.left < PIGGYBACKED_ACKS
    }

    /// Whether an acknowledgement should be sent by itself: because there is no data or, if
    /// `fits_nothing`, because no data fits into the slot and no frame of it has carried one.
    pub(super) fn wants_ack_alone(&self, fits_nothing: bool) -> bool {
        let is_first = !self.is_told();
        let may_go = self.acks.left > 0 && self.acks.alone > 0;
        may_go && if fits_nothing { is_first } else { !self.has_data() }
    }
}

/// How long a refusal counts: a refused neighbour that stays silent for longer has gone away.
const REFUSED: Duration = Duration::from_secs(10);

/// Why all frames of a neighbour are refused: the two ends are configured differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It uses another link protocol.
    Link,
    SlotLength,
    Version,
}

impl Refusal {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Link => OTHER_LINK,
            Self::SlotLength => "slot-length",
            Self::Version => "version",
        }
    }
}

/// Copies of the acknowledgement in the current slot.
#[derive(Debug, Default)]
pub(super) struct AckCopies {
    record: Option<Bytes>,
    /// Copies that frames may still carry.
    pub(super) left: u8,
    /// Copies that may still be sent by themselves.
    pub(super) alone: u8,
    /// For how many more slots copies are sent by themselves though nothing new arrives.
    owed: u8,
}

/// The open code block of a class, and parity that waits.
#[derive(Debug, Default)]
pub(super) struct Coding {
    class: usize,
    pub(super) block: Option<Encoder>,
    pub(super) parity: VecDeque<(Coded, Bytes)>,
    /// Air time for the parity of the open block, and for the waiting parity.
    pub(super) open_air: Duration,
    pub(super) waiting_air: Duration,
    data_frames: u32,
    parity_frames: u32,
    /// Data and coded frames in the last slot with data.
    before: (u32, u32),
}

impl Coding {
    fn on_slot(&mut self) {
        if self.data_frames > 0 {
            self.before = (self.data_frames, self.parity_frames);
        }
        self.data_frames = 0;
        self.parity_frames = 0;
        self.block = None;
        self.parity.clear();
        (self.open_air, self.waiting_air) = (Duration::ZERO, Duration::ZERO);
    }

    pub(super) fn on_data_frame(&mut self) {
        self.data_frames += 1;
    }

    pub(super) fn on_parity_frame(&mut self) {
        self.parity_frames += 1;
    }

    /// The open block; if there is none, a new one with the number `next_id`.
    pub(super) fn open(&mut self, next_id: &mut u16) -> &mut Encoder {
        if self.block.is_none() {
            self.block = Some(Encoder::new(*next_id));
            *next_id = next_id.wrapping_add(1);
        }
        self.block.as_mut().expect("just opened")
    }

    /// Closes the open block, if it contains packets. Its parity then waits to be sent.
    pub(super) fn close(&mut self, estimate: &Estimate) {
        let Some(block) = self.block.take().filter(|block| block.len() > 0) else { return };
        let k = block.len() as u8;
        let count = estimate.parity(self.class, block.len());
        for (number, unit) in block.parity(count).into_iter().enumerate() {
            let coded = Coded { block: block.id, index: k + number as u8, k };
            self.parity.push_back((coded, unit));
        }
        let air = std::mem::take(&mut self.open_air);
        if !self.parity.is_empty() {
            self.waiting_air += air;
        }
    }
}
