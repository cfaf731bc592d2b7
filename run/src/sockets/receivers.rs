//! Programs that receive blocks.
//!
//! A block is stored before its source learns that it arrived, and is kept until the program has
//! confirmed it. Until then it is given again to each program that takes the flow. A flow for which
//! no program listens yet waits in the store: the source may have let its program go, because the
//! blocks were taken, and the program here may be started long after its host.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;

use bytes::{Buf as _, Bytes};
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::transport::hop::{Delivery, Hop};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};
use rustix::event::PollFlags;

use super::channel::{BLOCK_BYTES, Cause, Channel, Kind, RECORDS};
use super::listeners::{Listeners, Purpose};
use super::read_opening;
use super::records::Receiving;
use super::streams::Refused;
use crate::blocks::{Coming, Consignment, Kind as FlowKind, Office, Task};
use crate::files::State;

/// Most blocks of a flow that are stored for its program.
const KEPT: u32 = 8;
/// Once this many are stored for all programs, only as many of a flow are as it may be given at a
/// time. No block is longer than a megabyte.
const KEPT_OF_ALL: u32 = 1_024;
/// Most blocks that a program has been given and has not confirmed.
const GIVEN: u32 = 2;
/// Most flows that came while no program listened for them, and wait for one.
const WAITING: usize = 64;
/// Most of these from one node, so that there is space for flows of others.
const WAITING_OF_ONE: usize = WAITING / 2;
/// Most flows that are kept, finished ones included.
const FLOWS: usize = 1_024;

/// A flow of blocks for a program here.
struct Receiver {
    record: Receiving,
    channel: Option<Channel>,
    /// Number of the block that the program is given next, among all of the flow.
    given: u32,
    /// Blocks that the program confirmed before an earlier one.
    early: BTreeSet<u32>,
    /// Whether the clerk is reading block `given`.
    is_fetching: bool,
    /// Blocks that arrived and are not stored yet.
    held: VecDeque<Delivery>,
    /// Whether the clerk is storing one of them.
    is_writing: bool,
    /// Whether it came while no program listened for it, and none was told of it since.
    is_unheard: bool,
}

/// All flows of blocks for programs here.
#[derive(Default)]
pub(super) struct Receivers {
    all: BTreeMap<FlowKey, Receiver>,
    todo: BTreeSet<FlowKey>,
    /// How many flows have finished so far.
    over: u64,
    /// Whether a program has sent more than was handled in the last turn.
    pub(super) is_cut: bool,
}

impl Receivers {
    pub(super) fn build(records: Vec<Receiving>) -> Self {
        let receiver = |record: Receiving| (record.flow(), Receiver::new(record));
        let over = records.iter().map(|record| record.over).max().unwrap_or_default();
        let all = records.into_iter().map(receiver).collect();
        Self { all, over, ..Self::default() }
    }

    /// Flows that a program has taken. The others were opened by other nodes, and are limited by
    /// `FLOWS`.
    pub(super) fn count(&self) -> usize {
        self.all.values().filter(|one| one.channel.is_some()).count()
    }

    /// The flows of which more blocks are to come.
    pub(super) fn coming(&self) -> impl Iterator<Item = Coming> {
        let records = self.all.values().map(|one| &one.record);
        let moving = records.filter(|record| {
            record.state == State::Moving && !record.is_finished && !record.is_cut
        });
        moving.map(|record| Coming { flow: record.flow(), nonce: record.nonce, next: record.next })
    }

    pub(super) fn has(&self, flow: FlowKey) -> bool {
        self.all.contains_key(&flow)
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.all.values().filter_map(|one| Some(one.channel.as_ref()?.source(true)))
    }

    pub(super) fn set_ready(&mut self, ready: &mut dyn Iterator<Item = bool>) {
        for (flow, receiver) in &mut self.all {
            let Some(channel) = &mut receiver.channel else { continue };
            if !channel.source(true).1.is_empty() && ready.next().unwrap_or(false) {
                channel.set_ready(true);
                self.todo.insert(*flow);
            }
        }
    }

    pub(super) fn is_called(&self) -> bool {
        !self.todo.is_empty()
    }

    /// The first block of a flow arrived.
    pub(super) fn on_opening(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        delivery: Delivery,
        listeners: &mut Listeners,
    ) {
        let flow = delivery.id.flow;
        let block = Bytes::from(delivery.frames.concat());
        let Some((opening, _)) = read_opening(FlowKind::Blocks, &block) else {
            return hop.refuse(now, delivery.id, Refusal::Unusable);
        };
        if delivery.shape.length as usize > BLOCK_BYTES {
            return hop.refuse(now, delivery.id, Refusal::Unusable);
        }
        self.forget_old(office);
        if self.all.len() >= FLOWS {
            return hop.refuse(now, delivery.id, Refusal::Full);
        }
        if let Some(old) = self.all.remove(&flow) {
            // The source was restarted and uses the number again.
            office.ask(Task::ForgetReceiving(Box::new(old.record)));
        }
        if listeners.is_full(Purpose::Blocks, &opening.service) {
            return hop.refuse(now, delivery.id, Refusal::Full);
        }
        let is_unheard = listeners.find(Purpose::Blocks, &opening.service).is_none();
        if is_unheard {
            let waiting = self.all.iter().filter(|(_, one)| one.is_unheard).map(|(flow, _)| flow);
            let of_it = waiting.clone().filter(|other| other.source == flow.source).count();
            if waiting.count() >= WAITING || of_it >= WAITING_OF_ONE {
                return hop.refuse(now, delivery.id, Refusal::Full);
            }
        }
        let record = Receiving {
            source: flow.source,
            local: flow.local,
            opened: delivery.shape.crc,
            nonce: opening.nonce,
            service: opening.service,
            name: opening.name,
            next: 0,
            confirmed: 1,
            is_finished: false,
            is_cut: false,
            state: State::Moving,
            over: 0,
        };
        let mut receiver = Receiver { is_unheard, ..Receiver::new(record) };
        receiver.held.push_back(delivery);
        self.all.insert(flow, receiver);
        self.todo.insert(flow);
    }

    /// A further block of a flow arrived.
    pub(super) fn on_delivery(&mut self, now: Instant, hop: &mut Hop, delivery: Delivery) {
        let flow = delivery.id.flow;
        if delivery.shape.length as usize > BLOCK_BYTES {
            // No program would take it.
            return hop.refuse(now, delivery.id, Refusal::Unusable);
        }
        match self.all.get_mut(&flow) {
            Some(receiver) if receiver.record.state == State::Moving && !receiver.record.is_cut => {
                receiver.held.push_back(delivery);
                self.todo.insert(flow);
            }
            _ => hop.refuse(now, delivery.id, Refusal::Unknown),
        }
    }

    /// Messages for a new listener: the flows of its service that no program has taken.
    pub(super) fn offers(&mut self, office: &Office, service: &str) -> Vec<Vec<u8>> {
        let is_one = |one: &&mut Receiver| {
            let is_open = one.record.state == State::Moving && one.stored() > 0;
            is_open && one.record.service == service && one.channel.is_none()
        };
        self.all.values_mut().filter(is_one).map(|one| one.offer(office)).collect()
    }

    /// Gives a flow to a program, and takes it from the one that had it.
    pub(super) fn accept(&mut self, mut channel: Channel, id: &str) -> Result<(), Refused> {
        let found = self.all.iter_mut().find(|(_, one)| one.record.id() == id);
        let found = found.filter(|(_, one)| one.record.state == State::Moving);
        let Some((flow, receiver)) = found else {
            return Err((channel, format!("no blocks of {id} wait here")));
        };
        let next = receiver.record.confirmed - 1;
        channel.say(Kind::Opened, serde_json::json!({ "id": id, "next": next }).to_string());
        if let Some(mut old) = receiver.channel.replace(channel) {
            old.say_no(Cause::Broken, "another program took its place");
        }
        receiver.given = receiver.record.confirmed;
        receiver.early.clear();
        self.todo.insert(*flow);
        Ok(())
    }

    /// Moves blocks between the machine, the clerk and programs.
    pub(super) fn turn(&mut self, office: &Office) {
        let todo = std::mem::take(&mut self.todo);
        let kept = |one: &Receiver| one.record.end().saturating_sub(one.record.confirmed);
        let stored = || self.all.values().map(kept).sum::<u32>();
        let most = if todo.is_empty() || stored() < KEPT_OF_ALL { KEPT } else { GIVEN };
        self.is_cut = false;
        for flow in todo {
            if let Some(receiver) = self.all.get_mut(&flow)
                && receiver.move_blocks(office, most, &mut self.over)
            {
                self.is_cut = true;
                self.todo.insert(flow);
            }
        }
    }

    /// A block was stored.
    pub(super) fn on_kept(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        id: BlockId,
        listeners: &mut Listeners,
    ) {
        hop.accept(now, id);
        let Some(receiver) = self.all.get_mut(&id.flow) else { return };
        receiver.is_writing = false;
        self.todo.insert(id.flow);
        if id.number == 0
            && let Some(listener) = listeners.find(Purpose::Blocks, &receiver.record.service)
        {
            let offer = receiver.offer(office);
            listener.say(Kind::Incoming, offer);
        }
    }

    /// A block was read from the store; `None` if that failed.
    pub(super) fn on_fetched(&mut self, id: BlockId, block: Option<Bytes>) {
        let Some(receiver) = self.all.get_mut(&id.flow) else { return };
        receiver.is_fetching = false;
        self.todo.insert(id.flow);
        if receiver.given != id.number {
            return;
        }
        let Some(block) = block else {
            // If it were asked for again at once, reading would fail again.
            if let Some(mut channel) = receiver.channel.take() {
                channel.say_no(Cause::Broken, "the daemon cannot read a block; its log says why");
            }
            return;
        };
        if let Some(channel) = &mut receiver.channel {
            receiver.given += 1;
            let number = Bytes::copy_from_slice(&(id.number - 1).to_be_bytes());
            channel.put(Kind::Data, &[number, block], None);
        }
    }

    /// A listener refuses a flow.
    pub(super) fn refuse(&mut self, office: &Office, now: Instant, hop: &mut Hop, id: &str) {
        let found =
            self.all.values().find(|one| one.record.id() == id).map(|one| one.record.flow());
        if let Some(mut receiver) = found.and_then(|flow| self.all.remove(&flow)) {
            let all = BlockId { flow: receiver.record.flow(), number: u32::MAX };
            hop.refuse(now, all, Refusal::Unwanted);
            receiver.record.state = State::Failed("it was refused".into());
            office.ask(Task::ForgetReceiving(Box::new(receiver.record)));
        }
    }

    /// The source of a flow gave it up. Returns whether the flow is known.
    pub(super) fn on_given_up(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        (source, what): (NodeId, Consignment),
    ) -> bool {
        let flow = FlowKey { source, local: what.local };
        let is_it = |one: &&mut Receiver| {
            one.record.state == State::Moving && one.record.nonce == what.nonce
        };
        let Some(receiver) = self.all.get_mut(&flow).filter(is_it) else { return false };
        if !receiver.record.is_finished && !receiver.record.is_cut {
            hop.refuse(now, BlockId { flow, number: u32::MAX }, Refusal::LetGo);
            self.over += 1;
            if receiver.cut(office, self.over) {
                self.todo.insert(flow);
            } else {
                self.all.remove(&flow);
            }
        }
        true
    }

    /// Forgets the oldest finished flows. Half of `FLOWS` are remembered, so that their sources can
    /// be answered again. Flows that their sources gave up and that no program has taken count as
    /// finished.
    fn forget_old(&mut self, office: &Office) {
        let is_over = |one: &&Receiver| {
            one.record.state != State::Moving || (one.record.is_cut && one.channel.is_none())
        };
        let over = self.all.values().filter(is_over).map(|one| &one.record);
        let mut over: Vec<_> = over.map(|record| (record.over, record.flow())).collect();
        let surplus = over.len().saturating_sub(FLOWS / 2);
        over.sort_unstable();
        for (_, flow) in over.into_iter().take(surplus) {
            if let Some(receiver) = self.all.remove(&flow) {
                office.ask(Task::ForgetReceiving(Box::new(receiver.record)));
            }
        }
    }

    /// All flows that are not finished.
    pub(super) fn moving(&self) -> impl Iterator<Item = &Receiving> {
        let records = self.all.values().map(|receiver| &receiver.record);
        records.filter(|record| record.state == State::Moving)
    }
}

impl Receiver {
    fn new(record: Receiving) -> Self {
        Self {
            given: record.confirmed,
            record,
            channel: None,
            early: BTreeSet::new(),
            is_fetching: false,
            held: VecDeque::new(),
            is_writing: false,
            is_unheard: false,
        }
    }

    /// How many of its blocks were stored. One that is still being written cannot be read.
    fn stored(&self) -> u32 {
        self.record.next - u32::from(self.is_writing)
    }

    /// Ends the flow at what is stored. Returns whether a program is still to get something of it.
    fn cut(&mut self, office: &Office, over: u64) -> bool {
        self.held.clear();
        (self.record.is_cut, self.record.over) = (true, over);
        let is_wanted = self.channel.is_some() || self.record.confirmed < self.record.next;
        let record = Box::new(self.record.clone());
        // There is no block with this number.
        let id = BlockId { flow: record.flow(), number: record.next };
        office.ask(match is_wanted {
            true => Task::Confirm(id, record),
            false => Task::ForgetReceiving(record),
        });
        is_wanted
    }

    /// The message to a listener about this flow.
    fn offer(&mut self, office: &Office) -> Vec<u8> {
        self.is_unheard = false;
        let (id, name) = (self.record.id(), &self.record.name);
        let from = office.name(self.record.source);
        serde_json::json!({ "id": id, "from": from, "name": name }).to_string().into_bytes()
    }

    /// Moves blocks as far as possible, with at most `most` in the store; `over` counts finished
    /// flows. Returns whether to call again.
    fn move_blocks(&mut self, office: &Office, most: u32, over: &mut u64) -> bool {
        let says_more = self.hear(office);
        let is_full = self.record.next >= self.record.confirmed + most;
        if !self.is_writing
            && !is_full
            && let Some(delivery) = self.held.pop_front()
        {
            self.record.next = delivery.id.number + 1;
            self.record.is_finished = delivery.shape.finishes;
            self.is_writing = true;
            office.ask(Task::Letter(Box::new((delivery, self.record.clone()))));
        }
        let there = self.record.end().min(self.stored());
        let may_give = self.given < there && self.given < self.record.confirmed + GIVEN;
        if self.channel.is_some() && !self.is_fetching && may_give {
            self.is_fetching = true;
            let id = BlockId { flow: self.record.flow(), number: self.given };
            office.ask(Task::Fetch(id));
        }
        if let Some(channel) = &mut self.channel {
            channel.write();
        }
        self.end_if_all(office, over);
        says_more
    }

    /// Handles some of the program's records. Returns whether there may be more.
    fn hear(&mut self, office: &Office) -> bool {
        let Some(channel) = &mut self.channel else { return false };
        let mut count = 0;
        while count < RECORDS
            && let Some((kind, mut payload)) = channel.poll_record()
        {
            count += 1;
            if kind != Kind::Confirm || payload.len() != 4 {
                continue;
            }
            let number = payload.get_u32().saturating_add(1);
            if (self.record.confirmed..self.given).contains(&number) {
                self.early.insert(number);
            }
            // Confirmations are written down only in order.
            while self.early.remove(&self.record.confirmed) {
                let number = self.record.confirmed;
                self.record.confirmed += 1;
                let id = BlockId { flow: self.record.flow(), number };
                office.ask(Task::Confirm(id, Box::new(self.record.clone())));
            }
        }
        if channel.has_ended() {
            self.channel = None;
            self.given = self.record.confirmed;
        }
        count == RECORDS
    }

    /// Tells the program once it has everything.
    fn end_if_all(&mut self, office: &Office, over: &mut u64) {
        let is_all = (self.record.is_finished || self.record.is_cut) && !self.is_writing;
        if !is_all || self.record.confirmed < self.record.end() {
            return;
        }
        let Some(mut channel) = self.channel.take() else { return };
        match self.record.is_cut {
            true => channel.say_no(Cause::Broken, "its sender gave it up"),
            false => channel.say(Kind::Finish, ""),
        }
        channel.write();
        *over += 1;
        (self.record.state, self.record.over) = (State::Fetched, *over);
        let id = BlockId { flow: self.record.flow(), number: self.record.end() };
        office.ask(Task::Confirm(id, Box::new(self.record.clone())));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use farhop_proto::base::{AddressPlan, Seed};
    use farhop_proto::transport::hop::{HopConfig, Whole, frames_of};

    use super::*;
    use crate::blocks::{Opening, front};

    fn record(local: u32) -> Receiving {
        Receiving {
            source: NodeId(3),
            local,
            opened: 0,
            nonce: 9,
            service: "mail".into(),
            name: local.to_string(),
            next: 2,
            confirmed: 1,
            is_finished: true,
            is_cut: false,
            state: State::Moving,
            over: 0,
        }
    }

    /// The daemon's end of a program that sends `says`, and the program's end.
    fn program(says: &[u8]) -> (Channel, UnixStream) {
        let (socket, program) = UnixStream::pair().expect("two sockets");
        socket.set_nonblocking(true).expect("it can be");
        (Channel::new(socket, says), program)
    }

    #[test]
    fn of_flows_that_are_over_the_oldest_is_forgotten() {
        let (office, asked) = Office::of_test();
        let newest = (FLOWS / 2) as u32;
        let over = |local| (State::Fetched, u64::from(local) + 1);
        let mut records: Vec<Receiving> = (0..=newest).map(record).collect();
        for record in &mut records[..FLOWS / 2] {
            (record.state, record.over) = over(record.local);
        }
        let flow = |local| FlowKey { source: NodeId(3), local };
        let mut receivers = Receivers::build(records);
        let receiver = receivers.all.get_mut(&flow(newest)).expect("it is there");
        let (channel, _program) = program(b"");
        receiver.channel = Some(channel);
        receiver.move_blocks(&office, KEPT, &mut receivers.over);
        assert_eq!(receiver.record.state, State::Fetched);
        receivers.forget_old(&office);
        assert!(receivers.has(flow(newest)) && !receivers.has(flow(0)));
        let last = asked.try_iter().last();
        assert!(matches!(&last, Some(Task::ForgetReceiving(old)) if old.local == 0), "{last:?}");
    }

    #[test]
    fn a_flow_for_which_nobody_listens_waits_in_the_store_and_is_offered_later() {
        let (office, asked) = Office::of_test();
        let rng = Seed(1).stream("hop");
        let mut hop =
            Hop::build(HopConfig::default(), NodeId(1), AddressPlan::default(), None, rng);
        let (mut receivers, mut listeners) = (Receivers::default(), Listeners::default());
        let opening = |local| BlockId { flow: FlowKey { source: NodeId(3), local }, number: 0 };
        let mut open = |receivers: &mut Receivers, listeners: &mut Listeners, local| {
            let what = Opening { service: "mail".into(), name: "job".into(), ..Opening::default() };
            let frames = frames_of(&front(FlowKind::Blocks, &what).into(), 1_000);
            let Whole { id, shape, frames } =
                Whole::build(opening(local), NodeId(1), false, frames);
            let delivery = Delivery { id, shape, frames };
            receivers.on_opening(&office, Instant::ZERO, &mut hop, delivery, listeners);
            receivers.turn(&office);
            receivers.has(id.flow)
        };
        for local in 0..WAITING as u32 {
            let is_taken = open(&mut receivers, &mut listeners, local);
            assert_eq!(is_taken, (local as usize) < WAITING_OF_ONE, "flow {local}");
        }
        let first = asked.try_recv();
        assert!(matches!(&first, Ok(Task::Letter(letter)) if letter.0.id == opening(0)));
        assert_eq!(receivers.offers(&office, "mail").len(), 0, "none is stored yet");
        receivers.all.get_mut(&opening(0).flow).expect("it is there").is_writing = false;
        assert_eq!(receivers.offers(&office, "mail").len(), 1);
        assert!(open(&mut receivers, &mut listeners, 99), "one is not waiting any more");
    }

    #[test]
    fn blocks_may_be_confirmed_in_any_order() {
        let (office, asked) = Office::of_test();
        let mut receiver = Receiver::new(Receiving { next: 4, is_finished: false, ..record(7) });
        receiver.given = 3;
        let confirm =
            |number: u32| [&Kind::Confirm.head(4)[..], &number.to_be_bytes()[..]].concat();
        // The last was not given yet.
        let (channel, _program) = program(&[1, 0, 2].map(confirm).concat());
        receiver.channel = Some(channel);
        receiver.hear(&office);
        assert_eq!(receiver.record.confirmed, 3);
        let confirmed = asked.try_iter().map(|task| match task {
            Task::Confirm(id, record) => (id.number, record.confirmed),
            other => panic!("{other:?}"),
        });
        assert_eq!(confirmed.collect::<Vec<_>>(), [(1, 2), (2, 3)]);
    }

    #[test]
    fn a_flow_that_its_source_gave_up_is_over_once_its_program_has_what_came() {
        let (office, asked) = Office::of_test();
        let rng = Seed(1).stream("hop");
        let mut hop =
            Hop::build(HopConfig::default(), NodeId(1), AddressPlan::default(), None, rng);
        let open = |local, next| Receiving { next, is_finished: false, ..record(local) };
        // Of the first there is a block that no program has.
        let mut receivers = Receivers::build(vec![open(1, 2), open(2, 1), record(3)]);
        assert_eq!(receivers.count(), 0, "no program here has one");
        let mut give_up = |receivers: &mut Receivers, local, nonce| {
            let what = (NodeId(3), Consignment { local, nonce });
            receivers.on_given_up(&office, Instant::ZERO, &mut hop, what)
        };
        assert!(!give_up(&mut receivers, 1, 8), "another one of that number");
        assert!([1, 2, 3].iter().all(|local| give_up(&mut receivers, *local, 9)));
        let stands = |task| match task {
            Task::Confirm(_, record) => (record.local, record.is_cut),
            Task::ForgetReceiving(record) => (record.local, false),
            other => panic!("{other:?}"),
        };
        let asked: Vec<_> = asked.try_iter().map(stands).collect();
        assert_eq!(asked, [(1, true), (2, false)], "all of the third came");
        let receiver = receivers.all.values_mut().next().expect("the first");
        let confirm = [&Kind::Confirm.head(4)[..], &[0; 4]].concat();
        let (channel, _program) = program(&confirm);
        (receiver.channel, receiver.given) = (Some(channel), 2);
        receiver.move_blocks(&office, KEPT, &mut 5);
        assert_eq!(receiver.record.state, State::Fetched);
    }
}
