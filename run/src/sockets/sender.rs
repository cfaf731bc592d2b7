//! One flow of blocks of a program here.

use std::collections::BTreeSet;

use bytes::{Buf as _, Bytes};
use farhop_proto::base::Instant;
use farhop_proto::transport::hop::{Hop, Whole, frames_of};
use farhop_proto::wire::hop::BlockId;

use super::channel::{BLOCK_BYTES, Cause, Channel, Kind};
use super::records::Sending;
use crate::blocks::{Office, Task};
use crate::files::State;

/// From this many bytes on that programs have sent and that have no room yet, a program's next
/// block is read only if there is room for it; from twice as many on none is.
pub(super) const WAITING_BYTES: usize = 32 << 20;

/// A flow of blocks that a program here sends.
pub(super) struct Sender {
    pub(super) record: Sending,
    pub(super) channel: Option<Channel>,
    /// Whether the program was told the state of the flow. It is not told while a block is being
    /// written, because the block would count as taken.
    pub(super) is_greeted: bool,
    /// Whether the clerk is storing a block of it.
    pub(super) is_writing: bool,
    /// A block of the program for which the machine has no room yet, and whether it is the last.
    pub(super) waiting: Option<(Bytes, bool)>,
    /// Whether its next block stays with the program until there is room.
    pub(super) is_held_back: bool,
    /// Blocks that arrived before an earlier one.
    pub(super) early: BTreeSet<u32>,
}

impl Sender {
    pub(super) fn new(record: Sending) -> Self {
        Self {
            record,
            channel: None,
            is_greeted: false,
            is_writing: false,
            waiting: None,
            is_held_back: false,
            early: BTreeSet::new(),
        }
    }

    /// Bytes of its program that are here, or are coming, and have no room yet.
    pub(super) fn held(&self) -> usize {
        let waiting = self.waiting.as_ref().map_or(0, |(block, _)| block.len());
        waiting + if self.has_begun() { BLOCK_BYTES } else { 0 }
    }

    /// Whether a record of its program has begun to come.
    fn has_begun(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.unread() > 0)
    }

    /// Whether it is a file whose program left before its end.
    pub(super) fn is_left(&self) -> bool {
        let is_ending = matches!(self.waiting, Some((_, true)));
        let is_moving = self.record.state == State::Moving;
        let is_all = self.record.is_finished || is_ending;
        self.record.is_file() && is_moving && self.channel.is_none() && !is_all
    }

    /// Whether another record of the program can be taken.
    fn may_take(&self) -> bool {
        !self.is_writing && self.waiting.is_none()
    }

    /// Whether more is read from the program.
    pub(super) fn reads(&self) -> bool {
        self.may_take() && !self.is_held_back
    }

    /// Gives the clerk the next block once the machine has room for it. Of other flows so many
    /// bytes wait for room. Returns whether the block waits for it, here or with the program.
    pub(super) fn move_blocks(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        others: usize,
    ) -> bool {
        let flow = office.flow(self.record.local);
        if let Some(channel) = &mut self.channel {
            channel.write();
        }
        if self.may_take() {
            // A record that has begun to come is of use only once all of it is here.
            let may_begin = others < WAITING_BYTES
                || (others < 2 * WAITING_BYTES && hop.has_room(now, flow, most_bytes(office)));
            self.is_held_back = !may_begin && !self.has_begun();
        }
        if self.reads() {
            self.take(office);
        }
        if self.channel.as_ref().is_some_and(Channel::has_ended) {
            self.channel = None;
        }
        let Some((block, _)) = self.waiting.as_ref().filter(|_| !self.is_writing) else {
            return self.is_held_back && self.channel.is_some();
        };
        if !hop.reserve(now, flow, block.len()) {
            return true;
        }
        let Some((block, is_last)) = self.waiting.take() else { return false };
        let id = BlockId { flow, number: self.record.taken };
        self.record.taken += 1;
        self.record.is_finished = is_last;
        let frames = frames_of(&block, usize::from(office.config.frame_bytes));
        let whole = Whole::build(id, self.record.to, is_last, frames);
        office.ask(Task::Hold(Box::new((whole, self.record.clone()))));
        self.is_writing = true;
        false
    }

    /// Takes the next block from the program.
    fn take(&mut self, office: &Office) {
        let Some(channel) = &mut self.channel else { return };
        let Some((kind, mut payload)) = channel.poll_record() else { return };
        let most = most_bytes(office);
        let wrong = match kind {
            _ if self.record.is_finished => Some("it was finished before".to_owned()),
            Kind::Data if payload.len() < 4 => Some("a block without a number".to_owned()),
            Kind::Data => {
                let number = payload.get_u32();
                let next = self.record.program_blocks();
                let is_next = number == next && payload.len() <= most;
                let why = format!("block {number} of {} bytes came", payload.len());
                let why = format!("{why} in place of {next}, of at most {most}");
                self.waiting = is_next.then_some((payload, false));
                (!is_next).then_some(why)
            }
            Kind::Finish => {
                self.waiting = Some((payload, true));
                None
            }
            _ => None,
        };
        if let Some(why) = wrong
            && let Some(mut channel) = self.channel.take()
        {
            channel.say_no(Cause::Broken, &why);
        }
    }

    /// Tells the program the state of the flow.
    pub(super) fn greet(&mut self, office: &Office) {
        let Some(channel) = &mut self.channel else { return };
        channel.say(Kind::Opened, opened(office, &self.record));
        self.is_greeted = true;
        self.tell_if_done();
    }

    /// Tells the program how much has arrived, and when it is all.
    pub(super) fn tell_if_done(&mut self) {
        let Some(channel) = self.channel.as_mut().filter(|_| self.is_greeted) else { return };
        let arrived = self.record.arrived.saturating_sub(1).min(self.record.program_blocks());
        channel.say(Kind::Arrived, arrived.to_be_bytes());
        if self.record.state == State::Done {
            channel.say(Kind::Finish, "");
        }
        channel.write();
    }
}

/// The message to a program that its flow is open.
fn opened(office: &Office, record: &Sending) -> Vec<u8> {
    let Sending { local, is_finished, .. } = record;
    let next = record.program_blocks();
    let block_bytes = most_bytes(office);
    let what = serde_json::json!({
        "id": local, "next": next, "finished": is_finished, "block_bytes": block_bytes,
    });
    what.to_string().into()
}

/// Most bytes of a program's block.
pub(super) fn most_bytes(office: &Office) -> usize {
    (office.config.bytes_of_block() as usize).min(BLOCK_BYTES)
}
