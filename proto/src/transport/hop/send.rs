//! Transfers to next hops, and whose turn it is.

use super::bits::Bits;
use super::block::{Block, End, Phase, Shape, Transfer};
use super::{ARRIVED_TRIES, Hop, InRadio, Message};
use crate::base::{
    AccessCategory, AckPolicy, Datagram, Duration, Instant, NodeId, TxOptions, UnitId,
};
use crate::wire::hop::{self as wire, BlockId, Body, FlowKey};

/// A block of fewer bytes goes together with its request (`hop.md` 3).
const SMALL_BYTES: u32 = 8_192;
/// How long an answer is waited for at first, and at most; each time half as long again.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

impl Shape {
    /// Whether it goes together with its request.
    pub(super) fn is_small(&self) -> bool {
        self.length < SMALL_BYTES
    }
}

impl Hop {
    /// Starts to pass on the next block of a flow, if it is time to.
    pub(super) fn forward(&mut self, now: Instant, flow: FlowKey) {
        let (own, turn) = (self.node, self.config.turn_frames);
        let is_next = |block: &Block| {
            let is_worth_it = block.is_complete() || block.have.count() >= turn;
            is_worth_it && block.shape.destination != own && block.transfer.is_none()
        };
        let first = self.of_flow(flow).find(|(_, block)| block.is_open());
        if let Some(id) = first.and_then(|(id, block)| is_next(block).then_some(*id)) {
            self.begin_transfer(now, id, false);
        }
    }

    /// The same for all flows.
    pub(super) fn forward_all(&mut self, now: Instant) {
        let flows: std::collections::BTreeSet<FlowKey> =
            self.blocks.keys().map(|id| id.flow).collect();
        flows.into_iter().for_each(|flow| self.forward(now, flow));
    }

    /// Offers a block to the next hop; nothing where no route was ever known.
    pub(super) fn begin_transfer(&mut self, now: Instant, id: BlockId, is_virtual: bool) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let Some(via) = self.routes.get(&block.shape.destination).copied() else { return };
        if block.shape.hops_left == 0 {
            self.counters.out_of_hops += 1;
            return;
        }
        let frames = block.shape.frames;
        block.used = now;
        block.transfer = Some(Transfer {
            via,
            round: 1,
            theirs: Bits::none(frames),
            sent: Bits::none(frames),
            cursor: 0,
            in_radio: 0,
            phase: Phase::Asked { due: now, tries: 0 },
            is_virtual,
        });
        self.ask(now, id);
        let block = self.blocks.get_mut(&id).expect("it was there");
        if let Some(transfer) = &mut block.transfer
            && block.shape.is_small()
            && !is_virtual
        {
            transfer.phase = Phase::Sending;
            self.turns.push_back(id);
        }
    }

    /// Asks the next hop what it has.
    pub(super) fn ask(&mut self, now: Instant, id: BlockId) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        // The route may be another by now.
        let via = self.routes.get(&block.shape.destination).copied();
        let Some(transfer) = &mut block.transfer else { return };
        transfer.via = via.unwrap_or(transfer.via);
        let tries = match transfer.phase {
            Phase::Asked { tries, .. } => tries + 1,
            Phase::Sending => 1,
        };
        let wait = (1..tries.min(16)).fold(FIRST_WAIT, |wait, _| wait * 3 / 2).min(LONGEST_WAIT);
        transfer.phase = Phase::Asked { due: now + wait, tries };
        let message = Message::Request { block: id };
        if !self.messages.contains(&message) {
            self.queue(message);
        }
    }

    /// The request of a transfer, as it goes out.
    pub(super) fn request(&mut self, id: BlockId) -> Option<(BlockId, NodeId, Shape, Body)> {
        let block = self.blocks.get(&id)?;
        let transfer = block.transfer.as_ref()?;
        self.counters.requests += 1;
        let Shape { length, crc, .. } = block.shape;
        let (round, is_virtual) = (transfer.round, transfer.is_virtual);
        Some((id, transfer.via, block.shape, Body::Request { round, is_virtual, length, crc }))
    }

    /// The next hop told what it has.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        id: BlockId,
        via: NodeId,
        round: u16,
        bits: &[u8],
    ) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        block.used = now;
        let frames = block.shape.frames;
        let Some(transfer) = &mut block.transfer else { return };
        if transfer.via != via || transfer.round != round {
            return;
        }
        let Some(theirs) = Bits::read(frames, bits) else { return };
        if theirs.is_full() {
            return self.on_passed_on(now, id);
        }
        if matches!(transfer.phase, Phase::Asked { .. }) {
            (transfer.theirs, transfer.sent) = (theirs, Bits::none(frames));
            (transfer.cursor, transfer.phase) = (0, Phase::Sending);
            self.turns.push_back(id);
            self.on_round(now, id);
        }
    }

    fn on_passed_on(&mut self, now: Instant, id: BlockId) {
        let block = self.blocks.get_mut(&id).expect("the caller has looked");
        if block.is_open() {
            self.counters.blocks_passed_on += 1;
        }
        block.transfer = None;
        block.end = End::PassedOn { at: now };
        self.let_go();
        self.forward(now, id.flow);
        // The brake may be off.
        self.admit_next(now);
    }

    /// New frames are here: those of a block that is being passed on go out too.
    pub(super) fn on_more(&mut self, now: Instant, id: BlockId) {
        let Some(block) = self.blocks.get(&id) else { return };
        let turn = u32::from(self.config.turn_frames);
        let is_sending =
            block.transfer.as_ref().is_some_and(|transfer| transfer.phase == Phase::Sending);
        let is_worth_it = block.is_complete() || block.ready() >= turn;
        if is_sending && is_worth_it && !self.turns.contains(&id) {
            self.turns.push_back(id);
        }
        self.on_round(now, id);
    }

    /// Asks again once all that there is was sent and is out of the radio.
    fn on_round(&mut self, now: Instant, id: BlockId) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let (is_complete, ready) = (block.is_complete(), block.ready());
        let Some(transfer) = &mut block.transfer else { return };
        let is_out = transfer.phase == Phase::Sending && transfer.in_radio == 0 && ready == 0;
        if is_out && is_complete {
            transfer.round = transfer.round.wrapping_add(1);
            self.ask(now, id);
        }
    }

    /// A datagram of ours left the radio.
    pub(super) fn on_out(&mut self, now: Instant, id: UnitId, is_sent: bool) {
        match self.in_radio.remove(&id) {
            Some(InRadio::Frame(block)) => {
                self.frames_in_radio -= 1;
                let transfer = self.blocks.get_mut(&block).and_then(|b| b.transfer.as_mut());
                if let Some(transfer) = transfer {
                    transfer.in_radio = transfer.in_radio.saturating_sub(1);
                }
                self.on_round(now, block);
            }
            Some(InRadio::Message(Message::Arrived { block, shape, tries })) if !is_sent => {
                if tries < ARRIVED_TRIES {
                    self.queue(Message::Arrived { block, shape, tries: tries + 1 });
                }
            }
            // Requests and answers have timers.
            Some(InRadio::Message(_)) | None => {}
        }
    }

    /// The next frame of the block whose turn it is.
    pub(super) fn next_frame(&mut self, now: Instant) -> Option<Datagram> {
        while let Some(id) = self.turns.front().copied() {
            if let Some(frame) = self.frame_of(id) {
                self.turn_left -= 1;
                if self.turn_left == 0 {
                    self.end_turn();
                    self.turns.push_back(id);
                }
                return Some(self.frame(now, id, frame));
            }
            self.end_turn();
        }
        None
    }

    fn end_turn(&mut self) {
        self.turns.pop_front();
        self.turn_left = self.config.turn_frames;
    }

    /// A frame that the next hop of a block is missing.
    fn frame_of(&mut self, id: BlockId) -> Option<u16> {
        let block = self.blocks.get_mut(&id)?;
        let transfer = block.transfer.as_mut().filter(|one| one.phase == Phase::Sending)?;
        let others = [&transfer.theirs, &transfer.sent];
        // Behind the cursor there is something only if frames came late: once round is enough.
        let found = block.have.next_beyond(transfer.cursor, others);
        let frame = found.or_else(|| block.have.next_beyond(0, others))?;
        transfer.cursor = frame;
        Some(frame)
    }

    fn frame(&mut self, now: Instant, id: BlockId, frame: u16) -> Datagram {
        let block = self.blocks.get_mut(&id).expect("it has the frame");
        block.used = now;
        let (shape, payload) = (block.shape, block.data[usize::from(frame)].clone());
        let transfer = block.transfer.as_mut().expect("it is under way");
        transfer.sent.set(frame);
        transfer.in_radio += 1;
        let via = transfer.via;
        self.frames_in_radio += 1;
        self.counters.frames_sent += 1;
        let options = TxOptions {
            access: AccessCategory::Background,
            ack: AckPolicy::NoAck,
            attempts: Some(1),
            burst: true,
            ..TxOptions::default()
        };
        let front =
            wire::encode(&self.header(id, shape), &Body::Data { frame, payload: payload.clone() });
        let what = InRadio::Frame(id);
        self.datagram(via, wire::DATA_PORT, options, &front, &payload, what)
    }
}
