//! When something is due next, and what is done then.

use super::Hop;
use super::block::{Block, Phase};
use super::reception::Reception;
use crate::base::{Cx, Instant, sooner};
use crate::wire::hop::BlockId;

impl Hop {
    /// When [`Hop::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_block = |(id, block): (&BlockId, &Block)| match (&block.transfer, block.end) {
            (Some(transfer), _) => match transfer.phase {
                Phase::Asked { due, .. } | Phase::Paused { until: due } => Some(due),
                Phase::Sending => None,
            },
            (None, _) => self.asks_for_arrival_at(id, block),
        };
        let of_all = |entry| sooner(of_block(entry), self.expiry(entry));
        let blocks = self.blocks.iter().filter_map(of_all);
        let receptions = self.receptions.values().map(Reception::poll_timeout);
        let gaps = self.gaps.poll_timeout().into_iter().chain(self.listen.poll_timeout());
        let others = blocks
            .chain(receptions)
            .chain(self.stranded_due())
            .chain(gaps)
            .chain(self.path_due())
            .min();
        sooner(others, self.away.poll_timeout())
    }

    /// Does all that is due: repeats requests, ends pauses and gaps, drops old blocks, and goes on
    /// without neighbours that fell silent.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_due = |block: &Block| match block.transfer.as_ref().map(|transfer| transfer.phase) {
            Some(Phase::Asked { due, .. }) => due <= now,
            _ => false,
        };
        let due: Vec<BlockId> =
            self.blocks.iter().filter(|(_, block)| is_due(block)).map(|(id, _)| *id).collect();
        due.into_iter().for_each(|id| self.ask_again(now, id));
        self.ask_who_is_away(now);
        self.end_pauses(now);
        self.end_path_waits(now);
        self.gaps.handle_timeout(now);
        self.tell_that_it_listens(now);
        self.try_stranded(now);
        self.expire(now);
        self.watch_receptions(now);
        // The steps before may have made it possible to ask for others.
        self.ask_for_arrivals(now);
    }
}
