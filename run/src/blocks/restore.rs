//! Gives the machine of a node what the store has, after a restart.

use std::collections::BTreeSet;

use anyhow::Result;
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::transport::hop::Hop;
use farhop_proto::wire::hop::BlockId;

use super::store::{Change, PastFlow, Store};
use crate::files::{Incoming, State};
use crate::sockets::{Receiving, Sending};

/// Why a flow from here is given up: the store is damaged.
const UNREADABLE: &str = "a block of it cannot be read from the store";

/// Restores what was accepted of the flows that end here.
pub(super) fn arrivals(
    now: Instant,
    hop: &mut Hop,
    past: Vec<PastFlow>,
    (incoming, receiving): (&[Incoming], &[Receiving]),
) {
    for PastFlow { flow, opened, is_refused } in past {
        hop.restore_past(now, flow, (opened, is_refused));
    }
    for file in incoming {
        if matches!(file.state, State::Failed(_)) {
            hop.restore_refused(now, file.flow(), file.opened);
        } else {
            let is_over = file.state != State::Moving;
            hop.restore_arrivals(now, file.flow(), (file.opened, file.next), is_over);
        }
    }
    for flow in receiving {
        let come = (flow.opened, flow.next);
        hop.restore_arrivals(now, flow.flow(), come, flow.is_finished || flow.is_cut);
    }
}

/// Restores the stored blocks, one at a time: there may be more than memory holds. Blocks from
/// here, `node`, of flows that were given up are deleted, and flows of which one cannot be read, or
/// has wrong bytes, are given up. Returns the blocks that there are.
///
/// Fails if the store cannot be read or written.
pub(super) fn blocks(
    store: &Store,
    now: Instant,
    hop: &mut Hop,
    (node, sending): (NodeId, &mut [Sending]),
) -> Result<BTreeSet<BlockId>> {
    let (mut kept, mut changes) = (BTreeSet::new(), Vec::new());
    let given_up = sending.iter().filter(|flow| flow.is_failed()).map(|flow| flow.local);
    let given_up: BTreeSet<u32> = given_up.collect();
    let unreadable = store.each_block(|whole| {
        if whole.id.flow.source == node && given_up.contains(&whole.id.flow.local) {
            return changes.push(Change::NoBlock(whole.id));
        }
        kept.insert(whole.id);
        hop.restore(now, whole);
    })?;
    // Without this, an unreadable block of a program here would count as arrived.
    for id in &unreadable {
        changes.push(Change::NoBlock(*id));
        if id.flow.source != node {
            continue;
        }
        let is_it =
            |flow: &&mut Sending| flow.local == id.flow.local && flow.state == State::Moving;
        for flow in sending.iter_mut().filter(is_it) {
            flow.state = State::Failed(UNREADABLE.into());
            changes.push(Change::Sending(flow.clone()));
            hop.abandon(id.flow);
        }
        let others = kept.extract_if(.., |other| other.flow == id.flow);
        changes.extend(others.map(Change::NoBlock));
    }
    if !changes.is_empty() {
        store.change(&changes)?;
    }
    Ok(kept)
}
