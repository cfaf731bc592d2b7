//! How the radios spent their time, for the report of each link.

use std::collections::BTreeMap;

use farhop_proto::base::{Duration, NodeId, RadioId};
use farhop_proto::link::{AirShares, LinkStatus, NeighbourStatus};

use super::report::{AirReport, LinkReport};
use crate::radio::LinkAir;

/// Air time that radios know of and link protocols do not: answers of the MAC, and collisions.
#[derive(Debug, Default)]
pub struct LinkTimes {
    /// By the radio that sent the answers: the node that got them, and their air time.
    answered: BTreeMap<(NodeId, RadioId), Vec<(NodeId, Duration)>>,
    /// By the radio that sent the frames, and the node that they were for.
    collided: BTreeMap<(NodeId, RadioId, NodeId), Duration>,
}

impl FromIterator<LinkAir> for LinkTimes {
    fn from_iter<I: IntoIterator<Item = LinkAir>>(links: I) -> Self {
        let mut times = Self::default();
        for LinkAir { from, to, answered, collided } in links {
            times.answered.entry(to).or_default().push((from.0, answered));
            *times.collided.entry((from.0, from.1, to.0)).or_default() += collided;
        }
        times
    }
}

impl LinkTimes {
    /// The report of one direction of a link, from the view of the sender's link protocol and
    /// radio. `names` are those of the sender and of the neighbour.
    pub fn link_report(
        &self,
        own: NodeId,
        (from, to): (&str, &str),
        link: &LinkStatus,
        neighbour: &NeighbourStatus,
        run: Duration,
    ) -> LinkReport {
        LinkReport {
            from: from.into(),
            to: to.into(),
            protocol: neighbour.kind.as_ref().unwrap_or(&link.kind).to_string(),
            loss: neighbour.loss_so_far,
            sync_error_us: neighbour.sync_error_ns.map(|nanos| nanos as f64 / 1e3),
            slot_error_us: None,
            air: self.shares(own, link, neighbour, run),
        }
    }

    /// Shares of a run's time. Frames that collided do not count as data too.
    fn shares(
        &self,
        own: NodeId,
        link: &LinkStatus,
        neighbour: &NeighbourStatus,
        run: Duration,
    ) -> AirReport {
        let (radio, peer) = (neighbour.radio, neighbour.node);
        let share = |span: Duration| span.as_secs_f64() / run.as_secs_f64();
        let (mut mine, mut others, mut guard) =
            (AirShares::default(), Duration::ZERO, Duration::ZERO);
        for time in link.air.iter().filter(|time| time.radio == radio) {
            match time.to {
                Some(to) if to == peer => mine = time.shares,
                _ => others += time.shares.sum() - time.shares.guard,
            }
            guard += time.shares.guard;
        }
        let mut acknowledged = mine.acknowledgement;
        for (to, time) in self.answered.get(&(own, radio)).into_iter().flatten() {
            *if *to == peer { &mut acknowledged } else { &mut others } += *time;
        }
        let collided = self.collided.get(&(own, radio, peer)).copied().unwrap_or_default();
        let collided = share(collided);
        let parts = [mine.data, mine.retransmission, mine.coding].map(share);
        let sum: f64 = parts.iter().sum();
        let intact = if sum > 0.0 { (1.0 - collided / sum).max(0.0) } else { 1.0 };
        let air = AirReport {
            data: parts[0] * intact,
            retransmission: parts[1] * intact,
            coding: parts[2] * intact,
            acknowledgement: share(acknowledged),
            guard: share(guard),
            collision: collided.min(sum),
            others: share(others),
            idle: 0.0,
        };
        AirReport { idle: (1.0 - air.used()).max(0.0), ..air }
    }
}
