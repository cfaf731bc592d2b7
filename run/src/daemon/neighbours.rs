//! Changes at the neighbours, for the log.

use std::collections::BTreeMap;

use farhop_proto::base::{DropCause, Duration, Instant, NodeId, RadioId};
use farhop_proto::link::{LinkStatus, NeighbourStatus};
use farhop_proto::routing::RoutingStatus;
use farhop_proto::stack::NodePlan;

use super::episodes::Episodes;

/// How long a neighbour must have been silent, although packets are sent to it, to be reported.
const SILENT: Duration = Duration::from_secs(60);

/// What the log was told about the neighbours.
pub(super) struct Neighbours {
    names: BTreeMap<NodeId, String>,
    told: BTreeMap<(NodeId, RadioId), Told>,
    foreign: Episodes,
}

/// What it was told about one neighbour on one radio.
#[derive(Default)]
struct Told {
    is_up: bool,
    refused: Option<String>,
    is_silent: bool,
    /// When the neighbour was last heard (at first: when it was first looked at), and how many
    /// bytes had been sent to it by then.
    since: Option<(Instant, u64)>,
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// All is well.
    Info(String),
    /// Something is wrong.
    Warning(String),
}

impl Neighbours {
    /// Nothing has been logged yet.
    pub(super) fn build(plan: &NodePlan) -> Self {
        Self { names: plan.peer_names(), told: BTreeMap::new(), foreign: Episodes::default() }
    }

    /// The changes since the last call: with slots, who came into step or fell out of it; without,
    /// who is silent although packets are sent to it; and whose frames are refused.
    pub(super) fn news(&mut self, now: Instant, link: &LinkStatus) -> Vec<Line> {
        let mut news = Vec::new();
        for neighbour in &link.neighbours {
            let NeighbourStatus { node, radio, up, refused, .. } = neighbour;
            let Some(name) = self.names.get(node) else { continue };
            let told = self.told.entry((*node, *radio)).or_default();
            let has_slots = !link.slots.is_empty() && neighbour.kind.is_none();
            if !has_slots {
                news.extend(told.silence(now, name, neighbour));
            } else if *up != told.is_up {
                told.is_up = *up;
                news.push(match *up {
                    true => Line::Info(format!("{name} is up: in step with its slots")),
                    false => {
                        Line::Warning(format!("{name} is down: out of step, or not heard any more"))
                    }
                });
            }
            let refused = refused.as_ref().map(ToString::to_string);
            if refused != told.refused {
                news.push(match &refused {
                    Some(why) => {
                        Line::Warning(format!("{name} is set differently, and refused: {why}"))
                    }
                    None => Line::Info(format!("{name} is taken again")),
                });
                told.refused = refused;
            }
        }
        news
    }

    /// A warning when packets begin to come for addresses outside the subnet of the nodes.
    pub(super) fn foreign(&mut self, now: Instant, routing: &RoutingStatus) -> Option<Line> {
        let to = routing.foreign?;
        self.foreign.begins(now, routing.drops.get(&DropCause::Foreign)).then(|| {
            Line::Warning(format!(
                "packets for {to} come from a neighbour: no node has such an address here, and no \
                 network behind a node. Has its file another `subnet`, or other `networks`?"
            ))
        })
    }
}

impl Told {
    /// Notes if a neighbour fell silent, or is heard again.
    fn silence(&mut self, now: Instant, name: &str, neighbour: &NeighbourStatus) -> Option<Line> {
        let NeighbourStatus { heard_ago, sent_bytes, .. } = *neighbour;
        let (since, sent) = *self.since.get_or_insert((now, sent_bytes));
        let is_heard = heard_ago.is_some_and(|ago| ago < now.since(since));
        if is_heard {
            self.since = heard_ago.map(|ago| (now - ago, sent_bytes));
            let was_silent = std::mem::take(&mut self.is_silent);
            return was_silent.then(|| Line::Info(format!("{name} is heard again")));
        }
        if self.is_silent || now.since(since) < SILENT || sent_bytes == sent {
            return None;
        }
        self.is_silent = true;
        let since = now.since(since).as_nanos() / 1_000_000_000;
        Some(Line::Warning(format!(
            "nothing was heard of {name} for {since} s, though packets go there: it is gone, or \
             has nothing to say"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let text = "name = \"x\"\nstack.link = { kind = \"wild\" }\n\
                    node = [{ name = \"hill\" }, { name = \"valley\" }]\n\
                    link = [{ between = [\"hill\", \"valley\"], distance_km = 12 }]\n";
        let scenario = farhop_testkit::scenario(text);
        let plan = scenario.plan();
        let mut neighbours = Neighbours::build(&plan.nodes[0]);
        let stack = farhop_proto::stack::Stack::build(&plan.nodes[0], farhop_proto::base::Seed(1));
        let mut link = stack.status(Instant::ZERO).link;
        let now = Instant::ZERO;
        assert_eq!(neighbours.news(now, &link), [], "it was not there before");
        let mut told = |up: bool, refused: Option<&'static str>| {
            link.neighbours[0].up = up;
            link.neighbours[0].refused = refused.map(Into::into);
            neighbours.news(now, &link)
        };
        let info = |text: &str| [Line::Info(text.into())];
        assert_eq!(told(true, None), info("valley is up: in step with its slots"));
        assert_eq!(told(true, None), []);
        let down = Line::Warning("valley is down: out of step, or not heard any more".into());
        assert_eq!(told(false, None), [down]);
        let why = "valley is set differently, and refused: slots of 10 ms".into();
        assert_eq!(told(false, Some("slots of 10 ms")), [Line::Warning(why)]);
        assert_eq!(told(false, None), info("valley is taken again"));
    }

    #[test]
    fn one_that_packets_go_to_and_that_says_nothing_is_told_of_once() {
        let told = &mut Told::default();
        let text = "name = \"x\"\nstack.link = { kind = \"wild\" }\n\
                    node = [{ name = \"hill\" }, { name = \"valley\" }]\n\
                    link = [{ between = [\"hill\", \"valley\"], distance_km = 12 }]\n";
        let plan = farhop_testkit::scenario(text).plan();
        let stack = farhop_proto::stack::Stack::build(&plan.nodes[0], farhop_proto::base::Seed(1));
        let link = stack.status(Instant::ZERO).link;
        let mut neighbour = link.neighbours[0].clone();
        // Arguments: the time in seconds, how long ago it was heard, and bytes sent to it.
        let mut at = |second: u64, heard_ago: Option<u64>, sent_bytes| {
            neighbour.heard_ago = heard_ago.map(|ago| Duration::from_secs(1) * ago);
            neighbour.sent_bytes = sent_bytes;
            let line =
                told.silence(Instant::ZERO + Duration::from_secs(second), "hill", &neighbour);
            line.map(|line| match line {
                Line::Warning(text) => text.starts_with("nothing was heard of hill for 6"),
                Line::Info(text) => text != "hill is heard again",
            })
        };
        assert_eq!(at(1, Some(0), 0), None);
        assert_eq!(at(100, Some(90), 0), None, "nobody speaks");
        assert_eq!(at(150, Some(0), 50), None, "it was heard");
        for second in 151..210 {
            assert_eq!(at(second, Some(second - 150), 50 + second), None, "second {second}");
        }
        assert_eq!(at(212, Some(62), 500), Some(true), "it is silent");
        assert_eq!(at(300, Some(150), 900), None, "it was said");
        assert_eq!(at(301, Some(1), 900), Some(false), "it is heard");
        assert_eq!(at(302, Some(0), 900), None);
    }
}
