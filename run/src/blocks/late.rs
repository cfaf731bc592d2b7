//! Blocks for this node that could not be written, for example because the disk is full. They wait,
//! and are tried again. They cannot be refused, as earlier blocks of their flows may have been
//! acknowledged. Meanwhile their senders are held back, as by a program that reads slowly.

use std::time::{Duration, Instant};

use farhop_proto::wire::hop::{BlockId, FlowKey};

use super::task::Task;
use crate::sockets::Receiving;

/// Time until they are tried again, as long as for blocks that pass through.
pub(super) const AGAIN: Duration = Duration::from_secs(10);

/// Blocks of files and of programs.
#[derive(Default)]
pub(super) struct Late {
    waiting: Vec<Task>,
    /// When they are tried again; `None` if none wait.
    due: Option<Instant>,
    /// The blocks whose changes are just being written together.
    tried: Vec<Task>,
}

fn block_of(task: &Task) -> Option<BlockId> {
    match task {
        Task::Deliver(delivery) => Some(delivery.id),
        Task::Letter(letter) => Some(letter.0.id),
        _ => None,
    }
}

fn flow_of(task: &Task) -> Option<FlowKey> {
    Some(block_of(task)?.flow)
}

impl Late {
    /// Time until blocks are to be tried again; `None` if none wait.
    pub(super) fn patience(&self) -> Option<Duration> {
        Some(self.due?.saturating_duration_since(Instant::now()))
    }

    /// The waiting blocks, if it is time to try them again.
    pub(super) fn take_due(&mut self) -> Vec<Task> {
        if self.patience() == Some(Duration::ZERO) { self.take() } else { Vec::new() }
    }

    /// The waiting blocks.
    pub(super) fn take(&mut self) -> Vec<Task> {
        self.due = None;
        std::mem::take(&mut self.waiting)
    }

    /// Lets a block wait behind others of its flow; returns it if there are none. A first block
    /// begins a new flow with the same number: the blocks of the old one are dropped.
    pub(super) fn behind(&mut self, task: Task) -> Option<Task> {
        let id = block_of(&task)?;
        if id.number == 0 {
            self.forget(id.flow);
        }
        let is_behind = self.waiting.iter().any(|other| flow_of(other) == Some(id.flow));
        if is_behind {
            self.waiting.push(task);
            return None;
        }
        Some(task)
    }

    /// Lets a block wait.
    pub(super) fn put(&mut self, task: Task) {
        self.waiting.push(task);
        self.due.get_or_insert_with(|| Instant::now() + AGAIN);
    }

    /// A block is about to be written, with others.
    pub(super) fn begin(&mut self, task: Task) {
        self.tried.push(task);
    }

    /// The blocks since [`Late::begin`] are safe, or are tried again.
    pub(super) fn end(&mut self, is_safe: bool) {
        let tried = std::mem::take(&mut self.tried);
        if !is_safe && !tried.is_empty() {
            // Blocks that already wait are later ones of the same flows.
            self.waiting.splice(0..0, tried);
            self.due.get_or_insert_with(|| Instant::now() + AGAIN);
        }
    }

    /// Drops the blocks of a flow.
    pub(super) fn forget(&mut self, flow: FlowKey) {
        for tasks in [&mut self.waiting, &mut self.tried] {
            tasks.retain(|task| flow_of(task) != Some(flow));
        }
        self.due = self.due.filter(|_| !self.waiting.is_empty());
    }

    /// A program has confirmed blocks. Returns the record of the flow without waiting blocks. These
    /// are written later with records of their own, which must not take the confirmation back.
    pub(super) fn on_confirmed(&mut self, mut record: Receiving) -> Receiving {
        let flow = record.flow();
        let (waiting, tried) = (self.waiting.iter_mut(), self.tried.iter_mut());
        let waiting = waiting.map(|task| (true, task));
        for (waits, task) in waiting.chain(tried.map(|task| (false, task))) {
            let Task::Letter(letter) = task else { continue };
            let (delivery, own) = &mut **letter;
            if delivery.id.flow == flow {
                own.confirmed = own.confirmed.max(record.confirmed);
                if waits {
                    record.next = record.next.min(delivery.id.number);
                    record.is_finished = false;
                }
            }
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use farhop_proto::base::NodeId;
    use farhop_proto::transport::hop::{Delivery, Shape};

    use super::*;

    fn block(local: u32, number: u32) -> Task {
        let id = BlockId { flow: FlowKey { source: NodeId(1), local }, number };
        let shape = Shape {
            destination: NodeId(3),
            frames: 1,
            length: 0,
            crc: 0,
            hops_left: 1,
            hops_made: 0,
            opens: false,
            finishes: false,
            is_early: false,
        };
        Task::Deliver(Delivery { id, shape, frames: vec![Bytes::new()] })
    }

    #[test]
    fn blocks_that_were_written_in_vain_come_before_those_that_could_not_be() {
        let mut late = Late::default();
        late.begin(block(1, 5));
        late.put(block(1, 6));
        assert!(late.behind(block(1, 7)).is_none(), "it waits behind that");
        late.begin(block(2, 3));
        late.end(false);
        let waiting = late.take();
        let waiting = waiting.iter().map(|task| block_of(task).expect("a block"));
        let waiting: Vec<_> = waiting.map(|id| (id.flow.local, id.number)).collect();
        assert_eq!(waiting, [(1, 5), (2, 3), (1, 6), (1, 7)]);
    }
}
