//! Gives up what the store has for or from nodes whose numbers have changed. Frames name nodes by
//! numbers, which follow the order in the scenario. After a change of the scenario a number may
//! belong to another node, which must not get what was meant for the first.

use std::collections::{BTreeMap, BTreeSet};

use farhop_proto::base::{NodeId, counted};

use super::store::{Change, Store, StoreError};
use crate::files::State;

/// Gives up what is for or from nodes that have other numbers in `names` than before, logs that,
/// and records `names`. Complete files stay, under the name of the node that sent them.
///
/// Fails if the store cannot be read or written.
pub(super) fn let_go(
    store: &Store,
    node: NodeId,
    names: &BTreeMap<NodeId, String>,
) -> Result<(), StoreError> {
    let before = store.names()?;
    if before == *names {
        return Ok(());
    }
    let has_moved = |(number, name): &(&NodeId, &String)| names.get(number) != Some(name);
    let moved: BTreeSet<NodeId> = before.iter().filter(has_moved).map(|(node, _)| *node).collect();
    // If this node's own number changed, no other node knows it by that number.
    let is_own = !before.is_empty() && before.get(&node) != names.get(&node);
    let concerns = |other: NodeId| is_own || moved.contains(&other);
    let mut changes = Vec::new();
    store.each_block(|whole| {
        if concerns(whole.id.flow.source) || concerns(whole.shape.destination) {
            changes.push(Change::NoBlock(whole.id));
        }
    })?;
    let blocks = changes.len();
    let failed = || State::Failed("nodes have other numbers now: send it again".into());
    for mut file in store.outgoing()? {
        if file.state == State::Moving && concerns(file.to) {
            file.state = failed();
            changes.push(Change::Outgoing(file));
        }
    }
    for mut file in store.incoming()?.into_iter().filter(|file| concerns(file.source)) {
        if file.from.is_empty() {
            file.from = before.get(&file.source).cloned().unwrap_or_default();
        }
        if file.state == State::Moving {
            file.state = failed();
        }
        changes.push(Change::Incoming(file));
    }
    for mut flow in store.sending()? {
        if flow.state == State::Moving && concerns(flow.to) {
            flow.state = failed();
            changes.push(Change::Sending(flow));
        }
    }
    for mut flow in store.receiving()?.into_iter().filter(|flow| concerns(flow.source)) {
        flow.is_cut |= !flow.is_finished;
        changes.push(Change::Receiving(flow));
    }
    if !changes.is_empty() {
        let moved: Vec<&str> = moved.iter().map(|node| &*before[node]).collect();
        tracing::warn!(
            "{} had other numbers in the scenario when something was kept here: {}, and what was \
             under way to or from them, are given up",
            moved.join(", "),
            counted(blocks as u64, "block"),
        );
    }
    changes.extend(before.keys().copied().filter(|node| concerns(*node)).map(Change::NoPast));
    changes.push(Change::Names(names.clone()));
    store.change(&changes)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use farhop_proto::transport::hop::{HopConfig, Whole};
    use farhop_proto::wire::hop::{BlockId, FlowKey};
    use tempfile::TempDir;

    use super::*;
    use crate::files::{FileInfo, Incoming, Outgoing};

    fn names(all: &[&str]) -> BTreeMap<NodeId, String> {
        (1..).map(NodeId).zip(all.iter().map(|name| (*name).to_owned())).collect()
    }

    fn block(source: u16, to: u16) -> Whole {
        let flow = FlowKey { source: NodeId(source), local: to.into() };
        let frames = vec![Bytes::from_static(b"bytes")];
        Whole::build(BlockId { flow, number: 0 }, NodeId(to), false, frames)
    }

    fn info() -> FileInfo {
        let (name, sha256) = ("map.png".into(), "ab".into());
        FileInfo { name, size: 9, sha256, nonce: 1, streamed: false }
    }

    fn outgoing(to: u16) -> Outgoing {
        Outgoing {
            local: to.into(),
            before: 0,
            path: "/map.png".into(),
            modified_ns: 0,
            info: info(),
            to: NodeId(to),
            to_name: "one".into(),
            block_bytes: 100,
            arrived: 0,
            state: State::Moving,
        }
    }

    fn incoming(source: u16, state: State) -> Incoming {
        let (source, from, info) = (NodeId(source), String::new(), info());
        Incoming { source, from, local: 7, opened: 1, info, received: 9, next: 1, state }
    }

    #[test]
    fn what_was_for_a_node_does_not_go_to_the_one_that_has_its_number_now() {
        let dir = TempDir::new().expect("a folder");
        let store = Store::open(dir.path(), &HopConfig::default()).expect("a new store");
        let before = names(&["hill", "valley", "lake", "farm"]);
        let_go(&store, NodeId(1), &before).expect("it can be written");
        let put = [
            Change::Block(block(1, 2)),
            Change::Block(block(1, 4)),
            Change::Block(block(4, 2)),
            Change::Outgoing(outgoing(2)),
            Change::Outgoing(outgoing(4)),
            Change::Incoming(incoming(2, State::Moving)),
            Change::Incoming(incoming(4, State::Done)),
        ];
        store.change(&put).expect("it can be written");
        let kept = || {
            let mut kept = Vec::new();
            store.each_block(|whole| kept.push(whole.id)).expect("it can be read");
            kept
        };
        let_go(&store, NodeId(1), &before).expect("no change");
        assert_eq!(kept(), [block(1, 2).id, block(1, 4).id, block(4, 2).id]);
        // A node more, before the last.
        let after = names(&["hill", "valley", "lake", "new", "farm"]);
        let_go(&store, NodeId(1), &after).expect("it can be written");
        assert_eq!(kept(), [block(1, 2).id]);
        let states: Vec<_> =
            store.outgoing().expect("files").into_iter().map(|f| f.state).collect();
        assert!(matches!(&states[..], [State::Moving, State::Failed(_)]), "{states:?}");
        let came = store.incoming().expect("files");
        assert_eq!((&*came[0].from, &came[0].state), ("", &State::Moving));
        assert_eq!((&*came[1].from, &came[1].state), ("farm", &State::Done), "it is not new's");
        let_go(&store, NodeId(1), &after).expect("it is written down");
        assert_eq!(kept(), [block(1, 2).id]);
        // The number of this node itself, to one that nobody had.
        let after = names(&["other", "valley", "lake", "new", "farm", "hill"]);
        let_go(&store, NodeId(6), &after).expect("it can be written");
        assert_eq!(kept(), []);
        let is_failed = |file: &Outgoing| matches!(file.state, State::Failed(_));
        assert!(store.outgoing().expect("files").iter().all(is_failed));
    }
}
