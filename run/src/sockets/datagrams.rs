//! Programs that send and receive datagrams.
//!
//! The datagrams from one service to another share a flow, in order. They are lost, and counted, if
//! they do not fit or nobody is bound to the other service, and lost if a daemon ends.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use bytes::{Buf as _, Bytes, BytesMut};
use farhop_proto::base::{Duration, Instant, NodeId};
use farhop_proto::transport::hop::{Arrived, Delivery, Hop, frames_of};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};
use rustix::event::PollFlags;

use super::batch::{Batch, Mark};
use super::channel::{Channel, Kind, RECORDS};
use super::streams::Refused;
use super::{SocketCounters, is_service, read_opening};
use crate::blocks::{Kind as FlowKind, Office, Opening, front, random};

/// Longest datagram, in bytes, as in UDP over IPv4.
pub(super) const DATAGRAM_BYTES: usize = 65_507;
/// Longest record of a program: an address with two names of up to 255 bytes, and a datagram.
pub(super) const RECORD_BYTES: usize = DATAGRAM_BYTES + 2 * 256;
/// Most bytes of a flow that wait to go out.
const WAITING_BYTES: usize = 1 << 20;
/// Most bytes that wait for a program to read them.
const UNREAD_BYTES: usize = 1 << 20;
/// Most flows from here, and most flows to here.
const FLOWS: usize = 256;
/// After this time without a datagram a flow is closed.
const IDLE: Duration = Duration::from_secs(60);

/// The two ends of a flow from here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    service: String,
    to: NodeId,
    their_service: String,
}

#[derive(Debug)]
struct Out {
    way: Way,
    batch: Batch,
    used: Instant,
}

/// A flow that arrives here.
#[derive(Debug)]
struct In {
    service: String,
    their_service: String,
    /// The start of a datagram that is not complete.
    rest: BytesMut,
    /// When the last block arrived.
    used: Instant,
}

/// All sockets of datagrams, and their flows.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    ports: BTreeMap<String, Channel>,
    outs: BTreeMap<u32, Out>,
    ins: BTreeMap<FlowKey, In>,
    ready: BTreeSet<String>,
    todo: BTreeSet<u32>,
}

impl Datagrams {
    pub(super) fn count(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn services(&self) -> impl Iterator<Item = &String> {
        self.ports.keys()
    }

    pub(super) fn has(&self, flow: FlowKey) -> bool {
        self.ins.contains_key(&flow)
    }

    pub(super) fn has_local(&self, local: u32) -> bool {
        self.outs.contains_key(&local)
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.ports.values().map(|channel| channel.source(true))
    }

    pub(super) fn set_ready(&mut self, ready: &mut dyn Iterator<Item = bool>) {
        for (service, channel) in &mut self.ports {
            if !channel.source(true).1.is_empty() && ready.next().unwrap_or(false) {
                channel.set_ready(true);
                self.ready.insert(service.clone());
            }
        }
    }

    pub(super) fn is_called(&self) -> bool {
        !self.ready.is_empty() || !self.todo.is_empty()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        // Flows in `todo` wait for room, which no timer brings.
        let outs = self.outs.iter().filter(|(local, _)| !self.todo.contains(local));
        outs.map(|(_, out)| out.batch.poll_timeout().unwrap_or(out.used + IDLE)).min()
    }

    /// Binds a program to a service.
    pub(super) fn bind(&mut self, mut channel: Channel, service: String) -> Result<(), Refused> {
        if !is_service(&service) {
            return Err((channel, format!("'{service}' is no name for a service")));
        }
        if self.ports.contains_key(&service) {
            return Err((channel, format!("another program here has '{service}'")));
        }
        channel.say(Kind::Opened, "{}");
        self.ready.insert(service.clone());
        self.ports.insert(service, channel);
        Ok(())
    }

    /// The first block of a flow arrived.
    pub(super) fn on_opening(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        delivery: &Delivery,
        counters: &mut SocketCounters,
    ) {
        let block = Bytes::from(delivery.frames.concat());
        let opening = read_opening(FlowKind::Datagrams, &block);
        let is_known = |opening: &Opening| self.ports.contains_key(&opening.service);
        let opening = opening.filter(|(opening, _)| is_known(opening));
        let Some((Opening { service, name, .. }, bytes)) = opening else {
            counters.refused += 1;
            return hop.refuse(now, delivery.id, Refusal::Unwanted);
        };
        if self.ins.len() >= FLOWS {
            self.let_go_of_one();
        }
        let (their_service, rest, used) = (name, BytesMut::new(), now);
        self.ins.insert(delivery.id.flow, In { service, their_service, rest, used });
        hop.accept(now, delivery.id);
        self.give(office, delivery.id.flow, &bytes, counters);
    }

    /// A further block of a flow arrived.
    pub(super) fn on_delivery(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        delivery: Delivery,
        counters: &mut SocketCounters,
    ) {
        let flow = delivery.id.flow;
        let is_there = self.ins.get(&flow).is_some_and(|one| self.ports.contains_key(&one.service));
        let block = Bytes::from(delivery.frames.concat());
        if !is_there || block.first() != Some(&(Mark::Bytes as u8)) {
            self.ins.remove(&flow);
            return hop.refuse(now, delivery.id, Refusal::Unwanted);
        }
        hop.accept(now, delivery.id);
        if let Some(one) = self.ins.get_mut(&flow) {
            one.used = now;
        }
        self.give(office, flow, &block[1..], counters);
        if delivery.shape.finishes {
            self.ins.remove(&flow);
        }
    }

    /// Drops one incoming flow: the least recently used one of the node that has the most flows. So
    /// a node that opens many flows takes no place from others.
    fn let_go_of_one(&mut self) {
        let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
        for flow in self.ins.keys() {
            *counts.entry(flow.source).or_default() += 1;
        }
        let idlest = |(flow, one): &(&FlowKey, &In)| (counts[&flow.source], Reverse(one.used));
        if let Some(flow) = self.ins.iter().max_by_key(idlest).map(|(flow, _)| *flow) {
            self.ins.remove(&flow);
        }
    }

    /// Gives a program the complete datagrams.
    fn give(
        &mut self,
        office: &Office,
        flow: FlowKey,
        bytes: &[u8],
        counters: &mut SocketCounters,
    ) {
        let Some(one) = self.ins.get_mut(&flow) else { return };
        let Some(channel) = self.ports.get_mut(&one.service) else { return };
        one.rest.extend_from_slice(bytes);
        while one.rest.len() >= 2 {
            let length = usize::from(u16::from_be_bytes([one.rest[0], one.rest[1]]));
            if one.rest.len() < 2 + length {
                break;
            }
            one.rest.advance(2);
            let datagram = one.rest.split_to(length).freeze();
            if channel.unwritten() + length > UNREAD_BYTES {
                counters.datagrams_lost += 1;
                continue;
            }
            counters.datagrams_received += 1;
            let front = address(&office.name(flow.source), &one.their_service);
            channel.put(Kind::Data, &[front.into(), datagram], None);
        }
        self.ready.insert(one.service.clone());
    }

    /// The destination has a block of a flow, or refuses the flow.
    pub(super) fn on_arrived(
        &mut self,
        hop: &mut Hop,
        arrived: Arrived,
        counters: &mut SocketCounters,
    ) {
        let local = arrived.id.flow.local;
        let Some(out) = self.outs.get_mut(&local) else { return };
        out.batch.handle_arrived();
        self.todo.insert(local);
        if arrived.refusal.is_some() {
            // The service is not there, or its daemon was restarted: the next datagram opens a new
            // flow.
            counters.datagrams_lost += 1;
            hop.abandon(arrived.id.flow);
            self.outs.remove(&local);
        }
    }

    /// Moves datagrams between programs and the machine; `spare` is a number for one new flow.
    pub(super) fn turn(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        mut spare: Option<u32>,
        counters: &mut SocketCounters,
    ) {
        if self.outs.len() >= FLOWS {
            self.make_room(office, hop, counters);
        }
        for service in std::mem::take(&mut self.ready) {
            self.take(office, now, &service, &mut spare, counters);
        }
        for (local, out) in &mut self.outs {
            if out.batch.poll_timeout().unwrap_or(out.used + IDLE) <= now {
                if out.batch.waiting() == 0 {
                    out.batch.finish();
                    out.used = now;
                }
                self.todo.insert(*local);
            }
        }
        for local in std::mem::take(&mut self.todo) {
            self.push(office, now, hop, local);
        }
    }

    /// Gives up the oldest flow that was closed and has not arrived: flows to a node that is away
    /// would take the place of all others.
    fn make_room(&mut self, office: &Office, hop: &mut Hop, counters: &mut SocketCounters) {
        let is_closing = |(_, out): &(&u32, &Out)| out.batch.is_finish_wanted();
        let oldest = self.outs.iter().filter(is_closing).min_by_key(|(_, out)| out.used);
        if let Some(local) = oldest.map(|(local, _)| *local) {
            counters.datagrams_lost += 1;
            hop.abandon(office.flow(local));
            self.outs.remove(&local);
        }
    }

    fn push(&mut self, office: &Office, now: Instant, hop: &mut Hop, local: u32) {
        let Some(out) = self.outs.get_mut(&local) else { return };
        let (flow, block_bytes) = (office.flow(local), office.config.bytes_of_block() as usize);
        while out.batch.has_block(now, block_bytes) {
            if !hop.has_room(now, flow, out.batch.next_bytes(block_bytes)) {
                self.todo.insert(local);
                return;
            }
            let (number, block, is_last) = out.batch.take_block(now, block_bytes);
            let frames = frames_of(&block, usize::from(office.config.frame_bytes));
            hop.push(now, BlockId { flow, number }, out.way.to, is_last, frames);
        }
        if out.batch.has_finished() {
            self.outs.remove(&local);
        }
    }

    /// Handles the records of a program.
    fn take(
        &mut self,
        office: &Office,
        now: Instant,
        service: &str,
        spare: &mut Option<u32>,
        counters: &mut SocketCounters,
    ) {
        let Some(channel) = self.ports.get_mut(service) else { return };
        channel.write();
        // A turn can open only one flow: the datagram for a second one waits for the next turn.
        for _ in 0..RECORDS {
            let channel = self.ports.get_mut(service).filter(|_| spare.is_some());
            let Some((kind, payload)) = channel.and_then(Channel::poll_record) else { break };
            match kind {
                Kind::Data => {
                    let is_taken = self.send(office, now, service, payload, spare);
                    counters.datagrams_sent += u64::from(is_taken);
                    counters.datagrams_lost += u64::from(!is_taken);
                }
                Kind::Flush => {
                    let own = self.outs.iter_mut().filter(|(_, out)| out.way.service == service);
                    for (local, out) in own {
                        out.batch.flush();
                        self.todo.insert(*local);
                    }
                }
                _ => {}
            }
        }
        let Some(channel) = self.ports.get(service) else { return };
        let (has_ended, has_more) = (channel.has_ended(), channel.is_ready());
        if has_ended {
            self.ports.remove(service);
            let own = self.outs.iter_mut().filter(|(_, out)| out.way.service == service);
            for (local, out) in own {
                out.batch.finish();
                self.todo.insert(*local);
            }
        } else if has_more {
            self.ready.insert(service.into());
        }
    }

    /// Queues a datagram. Returns whether it could.
    fn send(
        &mut self,
        office: &Office,
        now: Instant,
        service: &str,
        record: Bytes,
        spare: &mut Option<u32>,
    ) -> bool {
        let Some((node, their_service, datagram)) = split(record) else { return false };
        let Ok(to) = office.node_of(&node) else { return false };
        if !is_service(&their_service) || datagram.len() > DATAGRAM_BYTES {
            return false;
        }
        let way = Way { service: service.into(), to, their_service };
        let is_way = |out: &Out| out.way == way && !out.batch.is_finish_wanted();
        let known = self.outs.iter().find(|(_, out)| is_way(out)).map(|(local, _)| *local);
        let local = match known {
            Some(local) => local,
            None => {
                if self.outs.len() >= FLOWS {
                    return false;
                }
                let Some(local) = spare.take() else { return false };
                let opening = Opening {
                    service: way.their_service.clone(),
                    name: service.into(),
                    nonce: random().unwrap_or_default(),
                    ..Opening::default()
                };
                let batch = Batch::new(front(FlowKind::Datagrams, &opening));
                self.outs.insert(local, Out { way, batch, used: now });
                local
            }
        };
        let Some(out) = self.outs.get_mut(&local) else { return false };
        if out.batch.waiting() + datagram.len() > WAITING_BYTES {
            return false;
        }
        out.batch.write(now, &(datagram.len() as u16).to_be_bytes());
        out.batch.write(now, &datagram);
        out.used = now;
        self.todo.insert(local);
        true
    }
}

/// What precedes a datagram between a program and its daemon: the node and the service at its other
/// end.
pub(super) fn address(node: &str, service: &str) -> Vec<u8> {
    let mut front = vec![node.len() as u8];
    front.extend_from_slice(node.as_bytes());
    front.push(service.len() as u8);
    front.extend_from_slice(service.as_bytes());
    front
}

/// The node, the service and the bytes of a datagram; `None` if the record is invalid.
pub(super) fn split(mut record: Bytes) -> Option<(String, String, Bytes)> {
    let mut word = || {
        let length = usize::from(*record.first()?);
        record.advance(1);
        let word = (record.len() >= length).then(|| record.split_to(length))?;
        String::from_utf8(word.to_vec()).ok()
    };
    let (node, service) = (word()?, word()?);
    Some((node, service, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_with_the_address_that_it_was_given() {
        let record = [address("valley", "time"), b"bytes".to_vec()].concat();
        let read_back = split(record.clone().into());
        let bytes = Bytes::from_static(b"bytes");
        assert_eq!(read_back, Some(("valley".into(), "time".into(), bytes)));
        for end in 0..record.len() - 5 {
            assert_eq!(split(Bytes::copy_from_slice(&record[..end])), None);
        }
    }
}
