//! Blocks for this node that could not be written, because the disk is full for example. They wait,
//! and are tried again: of their flows more may have been confirmed already, so these cannot be
//! refused, and what came of them cannot be let go of. Their senders are held back as by a program
//! that reads slowly.

use std::time::{Duration, Instant};

use farhop_proto::wire::hop::{BlockId, FlowKey};

use super::clerk::Task;
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
        if !is_safe {
            tried.into_iter().for_each(|task| self.put(task));
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
