//! What changes of the neighbours, told to the log.

use std::collections::BTreeMap;

use farhop_proto::base::{NodeId, RadioId};
use farhop_proto::link::{LinkStatus, NeighbourStatus};
use farhop_proto::stack::NodePlan;

/// What the log was told of the neighbours.
pub(super) struct Neighbours {
    names: BTreeMap<NodeId, String>,
    told: BTreeMap<(NodeId, RadioId), Told>,
}

/// What it was told of one.
#[derive(Default)]
struct Told {
    is_up: bool,
    refused: Option<String>,
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// As it should be.
    Info(String),
    /// Something is wrong.
    Warning(String),
}

impl Neighbours {
    /// Nothing was told yet.
    pub(super) fn build(plan: &NodePlan) -> Self {
        Self { names: plan.peer_names(), told: BTreeMap::new() }
    }

    /// What changed: who comes into step and who falls out of it, where there are slots, and whose
    /// frames are refused. Without slots a neighbour that has nothing to say is not heard.
    pub(super) fn news(&mut self, link: &LinkStatus) -> Vec<Line> {
        let mut news = Vec::new();
        for neighbour in &link.neighbours {
            let NeighbourStatus { node, radio, up, refused, .. } = neighbour;
            let Some(name) = self.names.get(node) else { continue };
            let told = self.told.entry((*node, *radio)).or_default();
            if *up != told.is_up && !link.slots.is_empty() {
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
        let mut link = stack.status(farhop_proto::base::Instant::ZERO).link;
        assert_eq!(neighbours.news(&link), [], "it was not there before");
        let mut told = |up: bool, refused: Option<&'static str>| {
            link.neighbours[0].up = up;
            link.neighbours[0].refused = refused.map(Into::into);
            neighbours.news(&link)
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
}
