//! Programs that send blocks, and those that push files of unknown length.
//!
//! A program is told that its block was taken once the block is stored. From then on the block is
//! delivered whatever becomes of the program and of the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use farhop_proto::base::{Duration, Instant, NodeId};
use farhop_proto::transport::hop::{Arrived, Hop, Whole};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};
use rustix::event::PollFlags;

use super::channel::{Cause, Channel, Kind};
use super::is_service;
use super::records::Sending;
use super::sender::{Sender, most_bytes};
use super::streams::Refused;
use crate::blocks::{Consignment, Kind as FlowKind, Office, Opening, Task, front, random};
use crate::files::{FileInfo, OutgoingStatus, State, wrong_name};

/// How many finished flows are remembered, so that their programs can learn the outcome.
const REMEMBERED: usize = 1_024;

/// How long a pushed file waits for its program to come back. Nobody else can continue it, and a
/// program that still runs comes back at once, also after its daemon was restarted.
const PATIENCE: Duration = Duration::from_secs(60);

/// All flows of blocks that programs here send.
#[derive(Default)]
pub(super) struct Senders {
    all: BTreeMap<u32, Sender>,
    todo: BTreeSet<u32>,
    /// How many flows have finished so far.
    over: u64,
    /// Files whose program left before their end, and when it left.
    left: BTreeMap<u32, Instant>,
    /// Flows that were given up here, to be reported to their destinations.
    given_up: Vec<(NodeId, Consignment)>,
}

/// A flow that was cancelled.
pub(crate) struct Cancelled {
    /// Its destination, and its name there; `None` if the name is not known.
    pub(crate) told: Option<(NodeId, Consignment)>,
}

/// What a program wants to send.
pub(super) struct Wanted<'a> {
    pub(super) to: &'a str,
    pub(super) service: &'a str,
    pub(super) name: &'a str,
    /// Name of the file at its destination; `None` for blocks.
    pub(super) file: Option<&'a str>,
}

impl Senders {
    /// Continues these flows. A block that was taken and is not among those that are `kept` has
    /// arrived, perhaps before an earlier one.
    pub(super) fn build(records: Vec<Sending>, node: NodeId, kept: &BTreeSet<BlockId>) -> Self {
        let sender = |record: Sending| {
            let flow = FlowKey { source: node, local: record.local };
            let is_gone = |number: &u32| !kept.contains(&BlockId { flow, number: *number });
            let early = (record.arrived..record.taken).filter(is_gone).collect();
            (record.local, Sender { early, ..Sender::new(record) })
        };
        let over = records.iter().map(|record| record.over).max().unwrap_or_default();
        let all: BTreeMap<u32, Sender> = records.into_iter().map(sender).collect();
        let todo = all.keys().copied().collect();
        Self { all, todo, over, left: BTreeMap::new(), given_up: Vec::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.all.values().filter(|sender| sender.record.state == State::Moving).count()
    }

    /// Whether there is such a flow that was not given up. Earlier versions did not record the
    /// nonce: then any matches.
    pub(super) fn sends(&self, what: Consignment) -> bool {
        let is_it = |sender: &Sender| {
            let is_one = sender.record.nonce.is_none_or(|nonce| nonce == what.nonce);
            is_one && !matches!(sender.record.state, State::Failed(_))
        };
        self.all.get(&what.local).is_some_and(is_it)
    }

    /// Whether there is a flow of this name.
    pub(super) fn knows(&self, office: &Office, to: &str, service: &str, name: &str) -> bool {
        let Ok(to) = office.node_of(to) else { return false };
        self.all.values().any(|sender| sender.record.is(to, service, name))
    }

    pub(super) fn has_local(&self, local: u32) -> bool {
        self.all.contains_key(&local)
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let source = |sender: &'_ Sender| sender.reads();
        self.all.values().filter_map(move |one| Some(one.channel.as_ref()?.source(source(one))))
    }

    pub(super) fn set_ready(&mut self, ready: &mut dyn Iterator<Item = bool>) {
        for (local, sender) in &mut self.all {
            let reads = sender.reads();
            let Some(channel) = &mut sender.channel else { continue };
            if !channel.source(reads).1.is_empty() && ready.next().unwrap_or(false) {
                channel.set_ready(true);
                self.todo.insert(*local);
            }
        }
    }

    pub(super) fn is_called(&self) -> bool {
        !self.todo.is_empty()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.left.values().min().map(|since| *since + PATIENCE)
    }

    /// Opens a flow for a program, or continues the one of that name.
    pub(super) fn open(
        &mut self,
        office: &Office,
        channel: Channel,
        wanted: &Wanted<'_>,
        local: u32,
    ) -> Result<(), Refused> {
        let to = match check(office, wanted) {
            Ok(to) => to,
            Err(why) => return Err((channel, why)),
        };
        let is_same = |record: &Sending| record.is(to, wanted.service, wanted.name);
        let known = self.all.iter_mut().find(|(_, sender)| is_same(&sender.record));
        if let Some((local, sender)) = known {
            if let State::Failed(why) = &sender.record.state {
                let why = why.clone();
                let local = *local;
                self.forget(office, local);
                return Err((channel, why));
            }
            if let Some(mut old) = sender.channel.replace(channel) {
                old.say_no(Cause::Broken, "another program took its place");
            }
            sender.is_greeted = false;
            // Until the first block is in the store there is nothing to go on with.
            if sender.record.taken > 0 {
                // The block of the other program, which was not told that it was taken.
                sender.waiting = None;
            }
            if sender.record.taken > 0 && !sender.is_writing {
                sender.greet(office);
            }
            self.todo.insert(*local);
            return Ok(());
        }
        self.forget_old(office);
        let nonce = random().unwrap_or_default();
        let record = new_record(wanted, (local, to), nonce);
        let first = Some((first_block(wanted, nonce).into(), false));
        let sender = Sender { channel: Some(channel), waiting: first, ..Sender::new(record) };
        self.all.insert(local, sender);
        self.todo.insert(local);
        Ok(())
    }

    fn forget(&mut self, office: &Office, local: u32) {
        self.all.remove(&local);
        office.ask(Task::ForgetSending(local));
    }

    /// Forgets the oldest finished flows.
    fn forget_old(&mut self, office: &Office) {
        let records = self.all.values().map(|sender| &sender.record);
        let over = records.filter(|record| record.state != State::Moving);
        let mut over: Vec<(u64, u32)> = over.map(|record| (record.over, record.local)).collect();
        let surplus = over.len().saturating_sub(REMEMBERED);
        over.sort_unstable();
        over.into_iter().take(surplus).for_each(|(_, local)| self.forget(office, local));
    }

    /// Moves blocks from programs to the clerk.
    pub(super) fn turn(&mut self, office: &Office, now: Instant, hop: &mut Hop) {
        let todo = std::mem::take(&mut self.todo);
        let mut held: usize = match todo.is_empty() {
            true => 0,
            false => self.all.values().map(Sender::held).sum(),
        };
        for local in todo {
            let Some(sender) = self.all.get_mut(&local) else { continue };
            let others = held - sender.held();
            if sender.move_blocks(office, now, hop, others) {
                self.todo.insert(local);
            }
            held = others + sender.held();
            if sender.is_left() {
                self.left.entry(local).or_insert(now);
            } else {
                self.left.remove(&local);
            }
        }
        let late = self.left.extract_if(.., |_, since| *since + PATIENCE <= now);
        for (local, _) in late.collect::<Vec<_>>() {
            self.given_up.extend(self.under_way(local).and_then(|file| file.told));
            self.fail(office, hop, local, "the program that pushed it is gone".into());
        }
    }

    /// Flows that were given up here, to be reported to their destinations.
    pub(super) fn take_given_up(&mut self) -> Vec<(NodeId, Consignment)> {
        std::mem::take(&mut self.given_up)
    }

    /// A block was stored: hands it to the machine.
    pub(super) fn on_held(&mut self, office: &Office, now: Instant, hop: &mut Hop, whole: Whole) {
        let (local, number) = (whole.id.flow.local, whole.id.number);
        let is_last = whole.shape.finishes;
        let Some(sender) = self.all.get_mut(&local) else { return };
        sender.is_writing = false;
        if sender.record.state != State::Moving {
            return;
        }
        hop.push_whole(now, whole);
        if !sender.is_greeted {
            sender.greet(office);
        } else if let Some(channel) = &mut sender.channel
            // The first and the last block are not from the program.
            && number > 0
            && !is_last
        {
            channel.say(Kind::Taken, (number - 1).to_be_bytes());
        }
        self.todo.insert(local);
    }

    /// A block could not be stored: the program is told, and may try again.
    pub(super) fn on_not_held(&mut self, office: &Office, hop: &mut Hop, local: u32) {
        hop.release(office.flow(local));
        let Some(sender) = self.all.get_mut(&local) else { return };
        (sender.is_writing, sender.waiting) = (false, None);
        sender.record.taken -= 1;
        sender.record.is_finished = false;
        if let Some(mut channel) = sender.channel.take() {
            channel.say_no(Cause::Broken, "the daemon cannot keep blocks; its status says why");
        }
        self.todo.insert(local);
        if sender.record.taken == 0 {
            self.all.remove(&local);
        }
    }

    /// The destination has a block, or refuses the flow.
    pub(super) fn on_arrived(&mut self, office: &Office, hop: &mut Hop, arrived: Arrived) {
        let (local, number) = (arrived.id.flow.local, arrived.id.number);
        let Some(sender) = self.all.get_mut(&local) else { return };
        if sender.record.state != State::Moving {
            return;
        }
        if let Some(refusal) = arrived.refusal {
            let why = match (refusal, number) {
                (Refusal::Full, _) => "there is no place for it there beside what waits",
                (Refusal::Unknown, _) => "what came of it is lost there",
                (Refusal::Unusable, _) => "it cannot be taken there, as the log there says",
                (Refusal::LetGo, _) => "it was dropped there",
                (Refusal::Unwanted, _) | (Refusal::Unsaid, 0) => "nobody there takes it",
                (Refusal::Unsaid, _) => "it is not taken there any more",
            };
            let why = why.to_owned();
            self.given_up.extend(self.under_way(local).and_then(|file| file.told));
            return self.fail(office, hop, local, why);
        }
        sender.early.insert(number);
        while sender.early.remove(&sender.record.arrived) {
            sender.record.arrived += 1;
        }
        let record = &mut sender.record;
        if record.is_finished && record.arrived == record.taken {
            self.over += 1;
            (record.state, record.over) = (State::Done, self.over);
        }
        office.ask(Task::Sent(arrived.id, Box::new(record.clone())));
        sender.tell_if_done();
        self.todo.insert(local);
    }

    /// Gives up a flow and tells its program why.
    pub(super) fn fail(&mut self, office: &Office, hop: &mut Hop, local: u32, why: String) {
        let Some(sender) = self.all.get_mut(&local) else { return };
        let flow = office.flow(local);
        hop.abandon(flow);
        if let Some(mut channel) = sender.channel.take() {
            channel.say_no(Cause::Refused, &why);
        }
        self.over += 1;
        (sender.record.state, sender.record.over) = (State::Failed(why), self.over);
        sender.waiting = None;
        // The record is written down even if all that was taken has arrived.
        let last = sender.record.taken.max(sender.record.arrived + 1);
        for number in sender.record.arrived..last {
            let id = BlockId { flow, number };
            office.ask(Task::Sent(id, Box::new(sender.record.clone())));
        }
    }

    /// The record to report if this flow is given up; `None` if it is finished.
    pub(super) fn under_way(&self, local: u32) -> Option<Cancelled> {
        let record = &self.all.get(&local)?.record;
        let told = record.nonce.map(|nonce| (record.to, Consignment { local, nonce }));
        (record.state == State::Moving).then_some(Cancelled { told })
    }

    /// All flows that are not finished.
    pub(super) fn moving(&self) -> impl Iterator<Item = &Sending> {
        let records = self.all.values().map(|sender| &sender.record);
        records.filter(|record| record.state == State::Moving)
    }

    /// Files that are being pushed; their bytes are counted in whole blocks.
    pub(super) fn pushed(&self, office: &Office) -> impl Iterator<Item = OutgoingStatus> {
        let most = most_bytes(office) as u64;
        // The first block has no bytes of the file.
        let bytes = move |blocks: u32| u64::from(blocks.saturating_sub(1)) * most;
        let pushed = self.moving().filter(|record| record.is_file());
        pushed.map(move |record| OutgoingStatus {
            id: record.local,
            path: PathBuf::new(),
            to: office.name(record.to),
            name: record.file_name.as_ref().unwrap_or(&record.name).clone(),
            size: 0,
            streamed: true,
            arrived: bytes(record.arrived),
            under_way: bytes(record.taken).saturating_sub(bytes(record.arrived)),
            is_kept: true,
            state: record.state.clone(),
        })
    }
}

fn check(office: &Office, wanted: &Wanted<'_>) -> Result<NodeId, String> {
    let to = office.node_of(wanted.to).map_err(|error| format!("{error:#}"))?;
    match wanted.file.map(wrong_name) {
        Some(Some(wrong)) => Err(wrong),
        None if !is_service(wanted.service) => {
            Err(format!("'{}' is no name for a service", wanted.service))
        }
        _ if !is_service(wanted.name) => Err(format!("'{}' is no name for blocks", wanted.name)),
        _ => Ok(to),
    }
}

/// The record of a new flow.
fn new_record(wanted: &Wanted<'_>, (local, to): (u32, NodeId), nonce: u64) -> Sending {
    Sending {
        local,
        to,
        service: wanted.service.into(),
        name: wanted.name.into(),
        file_name: wanted.file.map(str::to_owned),
        nonce: Some(nonce),
        taken: 0,
        arrived: 0,
        is_finished: false,
        state: State::Moving,
        over: 0,
    }
}

/// The first block of a flow, which says what the flow is.
fn first_block(wanted: &Wanted<'_>, nonce: u64) -> Vec<u8> {
    if let Some(file) = wanted.file {
        return front(FlowKind::File, &FileInfo::of_unknown_length(file, nonce));
    }
    let (service, name) = (wanted.service.to_owned(), wanted.name.to_owned());
    front(FlowKind::Blocks, &Opening { service, name, nonce, ..Opening::default() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use bytes::Bytes;
    use farhop_proto::base::{AddressPlan, Seed};
    use farhop_proto::transport::hop::{HopConfig, frames_of};

    use super::super::channel::BLOCK_BYTES;
    use super::super::sender::WAITING_BYTES;
    use super::*;

    #[test]
    fn of_flows_that_are_over_the_oldest_is_forgotten() {
        let (office, asked) = Office::of_test();
        let record = |local: u32| Sending {
            is_finished: true,
            state: State::Done,
            over: u64::from(local) + 1,
            ..Sending::of_test(local, (1, 1))
        };
        let newest = REMEMBERED as u32;
        let mut records: Vec<Sending> = (0..=newest).map(record).collect();
        let last = &mut records[REMEMBERED];
        (last.arrived, last.state, last.over) = (0, State::Moving, 0);
        let id = BlockId { flow: office.flow(newest), number: 0 };
        let mut senders = Senders::build(records, office.node, &BTreeSet::from([id]));
        let rng = Seed(1).stream("hop");
        let plan = AddressPlan::default();
        let mut hop = Hop::build(HopConfig::default(), office.node, plan, None, rng);
        senders.on_arrived(&office, &mut hop, Arrived { id, bytes: 1, refusal: None });
        senders.forget_old(&office);
        assert!(senders.has_local(newest) && !senders.has_local(0));
        let last = asked.try_iter().last();
        assert!(matches!(last, Some(Task::ForgetSending(0))), "{last:?}");
    }

    /// Blocks of a program, of which so many were taken and have arrived.
    fn job(taken: u32, arrived: u32) -> Sending {
        Sending { name: "job".into(), nonce: None, ..Sending::of_test(1, (taken, arrived)) }
    }

    #[test]
    fn a_program_hears_of_its_own_blocks_and_not_of_those_around_them() {
        let (office, _asked) = Office::of_test();
        let record = Sending { is_finished: true, ..job(3, 1) };
        let id = |number| BlockId { flow: office.flow(1), number };
        let mut senders =
            Senders::build(vec![record], office.node, &BTreeSet::from([id(1), id(2)]));
        let (socket, program) = UnixStream::pair().expect("two sockets");
        program.set_nonblocking(true).expect("it can be");
        let sender = senders.all.get_mut(&1).expect("it is there");
        (sender.channel, sender.is_greeted) = (Some(Channel::new(socket, b"")), true);
        let rng = Seed(1).stream("hop");
        let plan = AddressPlan::default();
        let mut hop = Hop::build(HopConfig::default(), office.node, plan, None, rng);
        for (number, block, is_last) in [(1, &b"block"[..], false), (2, b"", true)] {
            let frames = frames_of(&Bytes::from_static(block), 1_000);
            let whole = Whole::build(id(number), NodeId(3), is_last, frames);
            senders.on_held(&office, Instant::ZERO, &mut hop, whole);
        }
        for number in [1, 2] {
            let arrived = Arrived { id: id(number), bytes: 1, refusal: None };
            senders.on_arrived(&office, &mut hop, arrived);
        }
        let mut program = Channel::new(program, b"");
        let heard = std::iter::from_fn(|| program.poll_record());
        let number = |payload: Bytes| payload[..].try_into().map(u32::from_be_bytes).ok();
        let heard: Vec<_> = heard.map(|(kind, payload)| (kind, number(payload))).collect();
        let arrived = (Kind::Arrived, Some(1));
        assert_eq!(heard, [(Kind::Taken, Some(0)), arrived, arrived, (Kind::Finish, None)]);
    }

    #[test]
    fn blocks_for_which_there_is_no_room_stay_with_their_programs() {
        let (mut office, _asked) = Office::of_test();
        office.names.insert(NodeId(3), "valley".into());
        let records = (0..100).map(|local| Sending { local, ..job(1, 1) }).collect();
        let mut senders = Senders::build(records, office.node, &BTreeSet::new());
        let rng = Seed(1).stream("hop");
        let config = HopConfig { memory_bytes: 4 << 20, ..HopConfig::default() };
        let mut hop = Hop::build(config, office.node, AddressPlan::default(), None, rng);
        let bytes = most_bytes(&office);
        let block = [&Kind::Data.head(4 + bytes)[..], &[0; 4], &vec![7; bytes]].concat();
        let mut writers = Vec::new();
        for sender in senders.all.values_mut() {
            let (socket, mut program) = UnixStream::pair().expect("two sockets");
            socket.set_nonblocking(true).expect("it can be");
            program.set_nonblocking(true).expect("it can be");
            let channel = Channel::new(socket, b"").with_records_of(bytes + 4);
            (sender.channel, sender.is_greeted) = (Some(channel), true);
            let mut left = block.clone();
            writers.push(move || {
                use std::io::Write as _;
                while let Ok(written @ 1..) = program.write(&left) {
                    left.drain(..written);
                }
                left.len()
            });
        }
        let held = |senders: &Senders| senders.all.values().map(Sender::held).sum::<usize>();
        for _ in 0..100 {
            writers.iter_mut().for_each(|write| _ = write());
            senders.set_ready(&mut std::iter::repeat(true));
            senders.turn(&office, Instant::ZERO, &mut hop);
            assert!(
                held(&senders) < 2 * WAITING_BYTES + 2 * BLOCK_BYTES,
                "{} bytes",
                held(&senders)
            );
        }
        assert!(held(&senders) >= WAITING_BYTES, "{} bytes", held(&senders));
        assert!(senders.all.values().filter(|sender| sender.is_held_back).count() > 30);
    }

    #[test]
    fn a_program_that_begins_anew_hears_of_a_block_once_it_is_in_the_store() {
        let (mut office, _asked) = Office::of_test();
        office.names.insert(NodeId(3), "valley".into());
        let record = job(2, 2);
        let mut senders = Senders::build(vec![record], office.node, &BTreeSet::new());
        // Its first program was killed while its second block was written.
        let sender = senders.all.get_mut(&1).expect("it is there");
        (sender.record.taken, sender.is_writing) = (3, true);
        let (socket, program) = UnixStream::pair().expect("two sockets");
        program.set_nonblocking(true).expect("it can be");
        let wanted = Wanted { to: "valley", service: "mail", name: "job", file: None };
        let opened = senders.open(&office, Channel::new(socket, b""), &wanted, 2);
        assert!(opened.is_ok());
        let mut program = Channel::new(program, b"");
        assert_eq!(program.poll_record(), None, "it may not come into the store");
        let rng = Seed(1).stream("hop");
        let plan = AddressPlan::default();
        let mut hop = Hop::build(HopConfig::default(), office.node, plan, None, rng);
        let id = BlockId { flow: office.flow(1), number: 2 };
        let frames = frames_of(&Bytes::from_static(b"block"), 1_000);
        let whole = Whole::build(id, NodeId(3), false, frames);
        senders.on_held(&office, Instant::ZERO, &mut hop, whole);
        program.set_ready(true);
        let (kind, said) = program.poll_record().expect("now it is there");
        let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
        assert_eq!((kind, &said["next"]), (Kind::Opened, &serde_json::json!(2)));
    }

    #[test]
    fn a_file_of_which_the_program_was_killed_is_given_up_and_its_destination_told() {
        let (office, _asked) = Office::of_test();
        let file = |local, is_finished| Sending {
            local,
            to: NodeId(3),
            service: String::new(),
            name: "push".into(),
            file_name: Some("site.tar".into()),
            nonce: Some(9),
            taken: 2,
            arrived: 0,
            is_finished,
            state: State::Moving,
            over: 0,
        };
        let rng = Seed(1).stream("hop");
        let plan = AddressPlan::default();
        let mut hop = Hop::build(HopConfig::default(), office.node, plan, None, rng);
        let records = vec![file(1, false), file(2, true)];
        let kept =
            BTreeSet::from([1, 2].map(|local| BlockId { flow: office.flow(local), number: 0 }));
        let mut senders = Senders::build(records, office.node, &kept);
        let listed = senders.pushed(&office).map(|file| (file.id, file.name, file.arrived));
        let block = most_bytes(&office) as u64;
        // Their first block waits, and one of the program came before it.
        let right = [1, 2].map(|local| (local, "site.tar".to_owned(), 0));
        assert_eq!(listed.collect::<Vec<_>>(), right);
        assert!(senders.pushed(&office).all(|file| file.streamed && file.under_way == block));
        senders.turn(&office, Instant::ZERO, &mut hop);
        let due = senders.poll_timeout().expect("one waits");
        senders.turn(&office, due - Duration::from_millis(1), &mut hop);
        assert_eq!(senders.count(), 2, "it may come back");
        senders.turn(&office, due, &mut hop);
        assert_eq!(senders.take_given_up(), [(NodeId(3), Consignment { local: 1, nonce: 9 })]);
        // The other one is complete, and needs no program.
        assert_eq!(senders.moving().map(|one| one.local).collect::<Vec<_>>(), [2]);
        assert_eq!(senders.poll_timeout(), None);
    }
}
