//! One node's stack: flows over routing over a link, and the turn that moves units between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::any::{AnyLink, AnyRouting};
use super::flows::{Flows, FlowsStats};
use super::plan::{NodePlan, RadioPlan};
use crate::base::{
    Cx, FrameDown, FrameUp, Identity, Instant, Layer, Moved, Name, NodeId, PhyKind, PublicKey,
    RoomBelow, Seed, settle, sooner,
};
use crate::link::secure::{Keys, Secure, SecureSpec, SecurityStatus};
use crate::link::{Link, LinkStatus, SlotStatus};
use crate::routing::{Routing, RoutingStatus, Signing};
use crate::transport::hop::{Hop, HopConfig, PathStatus};

/// Rounds after which a turn that still moves units counts as a livelock.
const ROUNDS: usize = 100_000;

/// One node's stack.
#[derive(Debug)]
pub struct Stack {
    link: AnyLink,
    heeds_overheard: bool,
    /// Frames for other nodes that were counted here because the link has no use for them.
    overheard: u32,
    /// The layer between link and radios that protects frames.
    secure: Option<Box<Secure>>,
    routing: AnyRouting,
    /// Whether a timer of routing has fired since routing and flows were last settled.
    is_routing_touched: bool,
    /// The flow ends and the port to the host.
    pub flows: Flows,
}

/// What a stack is doing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StackStatus {
    /// Link.
    pub link: LinkStatus,
    /// Keys and rejected frames, if frames are protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<SecurityStatus>,
    /// Routing.
    pub routing: RoutingStatus,
    /// Flows and host.
    pub flows: FlowsStats,
    /// Counters of the machine for flows of blocks, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop: Option<BTreeMap<Name, u64>>,
    /// The paths on which that machine spaces frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathStatus>,
}

/// See [`Stack::turn`]. Events that went up have been handled at once; only units that went down
/// may need another round.
fn turn(
    cx: &mut Cx<'_>,
    link: &mut (impl Link + ?Sized),
    routing: &mut (impl Routing + ?Sized),
    flows: &mut Flows,
    mut is_touched: bool,
) {
    for _ in 0..ROUNDS {
        let below = settle(cx, routing, link);
        let may_move = below.up || below.down || is_touched || flows.may_sink();
        is_touched = false;
        let above = if may_move { settle(cx, flows, routing) } else { Moved::default() };
        if !below.down && !above.down && !flows.drop_unsent() {
            return;
        }
    }
    panic!("the layers of a stack moved units for {ROUNDS} rounds of one turn");
}

impl Stack {
    /// The stack of a node.
    pub fn build(plan: &NodePlan, seed: Seed) -> Self {
        let link = AnyLink::build(plan, seed);
        let mut flows = Flows::build(plan.addresses);
        let mut routing = AnyRouting::build(plan, seed);
        flows.set_networks(Arc::clone(&plan.networks));
        routing.get_mut().set_networks(Arc::clone(&plan.networks));
        if let Some(config) = &plan.hop {
            let rng = seed.stream(&format!("node/{}/hop", plan.node.0));
            let mut config = HopConfig::clone(config);
            // Nobody sends unheard where the link schedules the radios, nor over wires.
            let is_wire = |radio: &RadioPlan| radio.spec.phy.kind == PhyKind::Wire;
            if plan.stack.link.has_schedule() || plan.radios.iter().all(is_wire) {
                (config.interactive_gap_ms, config.call_gap_ms) = (0.0, 0.0);
            }
            let rate = plan.response_rate();
            let mut hop = Hop::build(config, plan.node, plan.addresses, rate, rng);
            hop.set_airs(plan.airs());
            hop.set_below(plan.below_blocks());
            flows.set_hop(hop);
        }
        Self {
            heeds_overheard: link.get().heeds_overheard(),
            overheard: 0,
            link,
            secure: None,
            routing,
            // Fixed routes may be announced from the start.
            is_routing_touched: plan.hop.is_some(),
            flows,
        }
    }

    /// Protects frames from now on. Call it before anything else.
    pub fn set_security(&mut self, spec: SecureSpec) {
        let identity = Identity::from_secret(spec.identity.secret());
        let keys = Arc::clone(&spec.keys);
        self.routing.get_mut().set_signing(Signing { identity, keys });
        self.secure = Some(Box::new(Secure::build(spec)));
    }

    /// Trusts these keys and no others from now on.
    pub fn set_keys(&mut self, cx: &mut Cx<'_>, keys: &BTreeMap<NodeId, PublicKey>) {
        if let Some(secure) = &mut self.secure {
            secure.set_keys(cx, keys);
            self.routing.get_mut().set_keys(cx, keys);
            self.is_routing_touched = true;
        }
        self.raise(cx);
    }

    /// How often a check of the keys succeeded; `None` if frames are not protected.
    pub fn believed(&self) -> Option<u64> {
        let heeded = self.link.get().heeded();
        self.secure.as_ref().map(|secure| secure.believed() + heeded)
    }

    /// Whether it has a use for frames for other nodes. If not, it only counts them.
    pub fn heeds_overheard(&self) -> bool {
        self.heeds_overheard || self.secure.is_some()
    }

    /// Hands the link the events that came through the layer below it.
    fn raise(&mut self, cx: &mut Cx<'_>) {
        let Some(secure) = &mut self.secure else { return };
        while let Some(event) = secure.poll_rx(cx) {
            let keys = Keys::new(secure);
            self.link.get_mut().handle_rx(&mut cx.with_seal(&keys), event);
        }
    }

    /// Reads a word from each part of the stack. It has no effect; but stacks of a large simulation
    /// lie in distant memory, and these loads overlap.
    pub fn fetch(&self) -> u64 {
        self.link.fetch() ^ self.routing.fetch() ^ self.flows.fetch()
    }

    /// Moves everything that can move between the layers. Call it after any other call that hands
    /// something in. Flows and routing are settled only if something reached one of them.
    ///
    /// Panics if the layers pass units around without end.
    pub fn turn(&mut self, cx: &mut Cx<'_>) {
        let is_touched = std::mem::take(&mut self.is_routing_touched);
        let flows = &mut self.flows;
        match (&mut self.link, &mut self.routing) {
            // Nearly all nodes of large simulations have these; naming the types allows static
            // calls.
            (AnyLink::Plain(link), AnyRouting::Fixed(routing)) => {
                turn(cx, &mut **link, routing, flows, is_touched);
            }
            (link, routing) => turn(cx, link.get_mut(), routing.get_mut(), flows, is_touched),
        }
    }

    /// Takes an event of a radio. Returns whether the stack needs a turn.
    pub fn handle_frame(&mut self, cx: &mut Cx<'_>, event: FrameUp) -> bool {
        match (&mut self.secure, &event) {
            (None, FrameUp::Overheard(_)) if !self.heeds_overheard => {
                self.overheard += 1;
                return false;
            }
            (None, _) => self.link.get_mut().handle_rx(cx, event),
            (Some(secure), _) => {
                secure.handle_rx(cx, event);
                self.raise(cx);
            }
        }
        true
    }

    /// Gives the next frame for a radio that has room.
    pub fn poll_frame(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<FrameDown> {
        let Some(secure) = &mut self.secure else {
            return self.link.get_mut().poll_tx(cx, below);
        };
        // Nothing queues between the two layers: a frame is pulled only if there is room for it,
        // and then it is sealed and goes down at once.
        loop {
            let unit = {
                let keys = Keys::new(secure);
                let room = |lane| keys.room(lane, below(lane));
                self.link.get_mut().poll_tx(&mut cx.with_seal(&keys), &room)?
            };
            secure.handle_tx(cx, unit);
            let sealed = secure.poll_tx(cx, below);
            while let Some(event) = secure.poll_rx(cx) {
                self.link.get_mut().handle_rx(cx, event);
            }
            if sealed.is_some() {
                return sealed;
            }
        }
    }

    /// When [`Stack::handle_timeout`] is next due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let (link, routing) = match (&self.link, &self.routing) {
            // As in `turn`.
            (AnyLink::Plain(link), AnyRouting::Fixed(routing)) => {
                (link.poll_timeout(), routing.poll_timeout())
            }
            (link, routing) => (link.get().poll_timeout(), routing.get().poll_timeout()),
        };
        let secure = self.secure.as_ref().and_then(|secure| secure.poll_timeout());
        sooner(sooner(link, routing), sooner(secure, self.flows.poll_timeout()))
    }

    /// Fires every timer that is due.
    ///
    /// Panics if a layer's next deadline does not lie ahead afterwards.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if let Some(secure) = self.secure.as_mut().filter(|layer| is_due(layer.poll_timeout())) {
            secure.handle_timeout(cx);
            self.raise(cx);
        }
        let (link, routing) = (self.link.get_mut(), self.routing.get_mut());
        if is_due(link.poll_timeout()) {
            link.handle_timeout(cx);
        }
        if is_due(routing.poll_timeout()) {
            routing.handle_timeout(cx);
            self.is_routing_touched = true;
        }
        if is_due(self.flows.poll_timeout()) {
            self.flows.handle_timeout(cx);
        }
        assert!(!is_due(self.poll_timeout()), "a deadline that does not lie ahead");
    }

    /// Takes an IP packet from the host's own IP stack.
    pub fn handle_ip(&mut self, packet: Bytes) {
        self.flows.handle_ip(packet);
    }

    /// Gives the next IP packet for the host's own IP stack.
    pub fn poll_ip(&mut self) -> Option<Bytes> {
        self.flows.poll_ip()
    }

    /// What the stack is doing.
    pub fn status(&self, now: Instant) -> StackStatus {
        let mut link = self.link.get().status(now);
        if !self.heeds_overheard {
            *link.counters.entry("overheard".into()).or_default() += u64::from(self.overheard);
        }
        StackStatus {
            link,
            security: self.secure.as_ref().map(|secure| secure.status(now)),
            routing: self.routing.get().status(now),
            flows: self.flows.stats(),
            hop: self.flows.hop().map(Hop::counters),
            paths: self.flows.hop().map(Hop::path_status).unwrap_or_default(),
        }
    }

    /// Where the link is in its slots ([`Link::slots`]).
    pub fn slots(&self, now: Instant) -> Vec<(SlotStatus, Vec<NodeId>)> {
        self.link.get().slots(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Scenario;

    #[test]
    fn every_counter_is_explained() {
        let explained: Vec<&str> =
            include_str!("../../../docs/counters.md").split('`').skip(1).step_by(2).collect();
        for kind in ["plain", "wild", "two-p", "blindfec", "harq", "arq"] {
            let routing = if kind == "two-p" { "fixed" } else { "olsr" };
            let scenario: Scenario = serde_json::from_value(serde_json::json!({
                "name": "counters",
                "duration_s": 1,
                "security": "encrypt",
                "node": [{ "name": "a" }, { "name": "b" }],
                "link": [{ "between": ["a", "b"] }],
                "flow": [{ "from": "a", "to": "b", "kind": "hop" }],
                "stack": { "link": { "kind": kind }, "routing": { "kind": routing }, "snoop": {} },
            }))
            .expect("a scenario");
            assert_eq!(scenario.problems(), []);
            let plan = &scenario.plan().nodes[0];
            let mut stack = Stack::build(plan, Seed(1));
            stack.set_security(SecureSpec {
                node: plan.node,
                identity: Identity::from_secret([1; 32]),
                entropy: [2; 32],
                config: plan.security.as_deref().expect("it is on").clone(),
                peers: plan.peers.clone(),
                keys: Arc::default(),
            });
            let StackStatus { link, security, routing, hop, .. } = stack.status(Instant::ZERO);
            let (security, hop) = (security.expect("it is on").counters, hop.expect("blocks"));
            for (what, counters) in [("link", link.counters), ("security", security), ("hop", hop)]
                .into_iter()
                .chain([("routing", routing.counters)])
            {
                assert!(!counters.is_empty() || what == "routing", "{kind}: {what} has none");
                for name in counters.keys() {
                    assert!(explained.contains(&&**name), "{kind}: {name} is not explained");
                }
            }
        }
    }
}
