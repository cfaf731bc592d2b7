//! Neighbours whose frames are protected differently than ours: detected, and logged once each.

use std::collections::BTreeMap;

use farhop_proto::base::{Duration, EtherType, Instant, NodeId, ReceivedFrame};
use farhop_proto::link::secure::{Difference, SecurityStatus};
use farhop_proto::stack::NodePlan;

/// How long a neighbour is not logged again, whatever it does; and how long one sealed frame counts
/// as a sign that it seals its frames. Where security is off, anybody can send in its name.
const PAUSE: Duration = Duration::from_secs(60);

/// What a daemon knows of neighbours whose security differs.
pub(super) struct Differing {
    names: BTreeMap<NodeId, String>,
    /// Neighbours whose last frame was sealed although security is off here, and when it came.
    sealing: BTreeMap<NodeId, Instant>,
    /// What was last logged about each neighbour, and when.
    told: BTreeMap<NodeId, (Option<Difference>, Instant)>,
}

impl Differing {
    /// Nobody differs yet.
    pub(super) fn build(plan: &NodePlan) -> Self {
        Self { names: plan.peer_names(), sealing: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// Notes a frame that was received while security is off.
    pub(super) fn on_frame(&mut self, now: Instant, frame: &ReceivedFrame) {
        if frame.protocol != EtherType::SEALED {
            self.sealing.remove(&frame.from);
        } else if self.names.contains_key(&frame.from) {
            self.sealing.insert(frame.from, now);
        }
    }

    /// Who differs, and how. `security` is the state of this node's; `None` if it is off.
    fn all(&self, now: Instant, security: Option<&SecurityStatus>) -> BTreeMap<NodeId, Difference> {
        let peers = security.into_iter().flat_map(|security| &security.peers);
        let found = peers.filter_map(|peer| Some((peer.node, peer.differs?)));
        let sealing = self.sealing.iter().filter(|(_, at)| now.since(**at) < PAUSE);
        found.chain(sealing.map(|(node, _)| (*node, Difference::Sealed))).collect()
    }

    /// The same, by name.
    pub(super) fn named(
        &self,
        now: Instant,
        security: Option<&SecurityStatus>,
    ) -> BTreeMap<String, Difference> {
        let name = |(node, how)| Some((self.names.get(&node)?.clone(), how));
        self.all(now, security).into_iter().filter_map(name).collect()
    }

    /// For the log: who began to differ since the last entry about it, and who no longer does.
    pub(super) fn news(
        &mut self,
        now: Instant,
        security: Option<&SecurityStatus>,
    ) -> Vec<(String, Option<Difference>)> {
        let all = self.all(now, security);
        let mut news = Vec::new();
        for (node, name) in &self.names {
            let how = all.get(node).copied();
            let (before, at) = self.told.get(node).copied().unzip();
            let is_pause = at.is_some_and(|at| now.since(at) < PAUSE);
            if how != before.flatten() && !is_pause {
                self.told.insert(*node, (how, now));
                news.push((name.clone(), how));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use farhop_proto::base::{Bitrate, RadioId};
    use farhop_proto::stack::{NodeConfig, RadioLinkConfig, Scenario};

    /// For a node called hill, whose only neighbour is valley.
    fn differing() -> Differing {
        let node = |name: &str| NodeConfig { name: name.into(), ..NodeConfig::default() };
        let link = RadioLinkConfig {
            between: ["hill".into(), "valley".into()],
            distance_km: Some(1.0),
            ..RadioLinkConfig::default()
        };
        let scenario = Scenario {
            name: "pair".into(),
            duration_s: 1.0,
            node: ["hill", "valley", "moor"].map(node).into(),
            link: vec![link],
            ..Scenario::default()
        };
        Differing::build(&scenario.plan().nodes[0])
    }

    fn frame(from: u16, protocol: EtherType) -> ReceivedFrame {
        ReceivedFrame {
            radio: RadioId(0),
            from: NodeId(from),
            to: Some(NodeId(1)),
            protocol,
            payload: Bytes::new(),
            started: Instant::ZERO,
            rate: Bitrate::from_mbps(11.0),
            signal: None,
            bits: 0,
        }
    }

    #[test]
    fn sealed_frames_of_a_neighbour_are_told_once_and_others_not_at_all() {
        let mut differing = differing();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        differing.on_frame(at(0), &frame(2, EtherType::FARHOP));
        differing.on_frame(at(0), &frame(3, EtherType::SEALED));
        differing.on_frame(at(0), &frame(9, EtherType::SEALED));
        assert_eq!(differing.news(at(1), None), []);
        differing.on_frame(at(2), &frame(2, EtherType::SEALED));
        assert_eq!(differing.named(at(2), None), [("valley".into(), Difference::Sealed)].into());
        let news = [("valley".to_owned(), Some(Difference::Sealed))];
        assert_eq!(differing.news(at(2), None), news);
        assert!(differing.named(at(62), None).is_empty(), "it may have gone");
        differing.on_frame(at(100), &frame(2, EtherType::SEALED));
        assert_eq!(differing.news(at(100), None), []);
        differing.on_frame(at(101), &frame(2, EtherType::IPV4));
        assert!(differing.named(at(101), None).is_empty());
        assert_eq!(differing.news(at(101), None), [("valley".to_owned(), None)]);
        // Somebody who sends in its name cannot fill the log by taking turns with it.
        differing.on_frame(at(102), &frame(2, EtherType::SEALED));
        assert_eq!(differing.news(at(102), None), []);
        differing.on_frame(at(161), &frame(2, EtherType::SEALED));
        assert_eq!(differing.news(at(162), None), news);
    }
}
