//! Tests that what is stored survives, and that what arrives is written where it belongs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};

use bytes::Bytes;
use farhop_proto::base::{AddressPlan, Instant, NodeId, Seed};
use farhop_proto::transport::hop::{
    Delivery, Durable, Hop, HopConfig, PAST_IN_ALL, PAST_OF_ONE, Shape, Whole, frames_of,
};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};
use redb::{Database, TableDefinition};
use tempfile::TempDir;

use super::clerk::Clerk;
use super::inbox::{Inbox, sum_bytes};
use super::store::{Change, PastFlow, Store, StoreError, file_bytes};
use super::task::{Done, Task};
use super::{Numbers, Office, restore};
use crate::files::{FileInfo, Incoming, Outgoing, Part, State};
use crate::sockets::{Receiving, Sending};

mod disk;

impl Office {
    /// The office of node 1, and the tasks that the clerk is given.
    pub(crate) fn of_test() -> (Self, Receiver<Task>) {
        let (tasks, asked) = mpsc::channel();
        let (names, dir) = (BTreeMap::new(), "/".into());
        let config = HopConfig::default();
        (Self { node: NodeId(1), names, dir, config, tasks }, asked)
    }
}

fn all_blocks(store: &Store) -> Result<Vec<Whole>, StoreError> {
    let mut all = Vec::new();
    let unreadable = store.each_block(|whole| all.push(whole))?;
    assert_eq!(unreadable, []);
    Ok(all)
}

fn id(number: u32) -> BlockId {
    BlockId { flow: FlowKey { source: NodeId(1), local: 7 }, number }
}

fn shape(number: u32, block: &Bytes, finishes: bool) -> Shape {
    let here = Whole::build(id(number), NodeId(3), finishes, frames_of(block, 1_400));
    Shape { hops_left: 48, hops_made: 2, ..here.shape }
}

fn whole(number: u32, bytes: usize) -> Whole {
    let block = Bytes::from(vec![number as u8; bytes]);
    Whole { id: id(number), shape: shape(number, &block, false), frames: frames_of(&block, 1_400) }
}

fn config(durable: Durable) -> HopConfig {
    HopConfig { durable, disk_bytes: 1_000_000, ..HopConfig::default() }
}

#[test]
fn blocks_are_there_again_after_the_store_was_closed() {
    for durable in [Durable::Fsync, Durable::PageCache] {
        let dir = TempDir::new().expect("a folder");
        let store = Store::open(dir.path(), &config(durable)).expect("a new store");
        let blocks = [whole(0, 3_000), whole(1, 1_400), whole(2, 0)];
        let put = blocks.clone().map(Change::Block);
        store.change(&put).expect("it can be written");
        store.change(&[Change::NoBlock(id(1))]).expect("it can be written");
        drop(store);
        let store = Store::open(dir.path(), &config(durable)).expect("the same store");
        let found = all_blocks(&store).expect("it can be read");
        let all = |blocks: &[Whole]| {
            blocks.iter().map(|b| (b.id, b.shape, b.frames.clone())).collect::<Vec<_>>()
        };
        assert_eq!(all(&found), all(&[blocks[0].clone(), blocks[2].clone()]));
    }
}

#[test]
fn what_an_earlier_version_kept_is_taken_over() {
    let dir = TempDir::new().expect("a folder");
    let old: TableDefinition<'_, u16, &[u8]> = TableDefinition::new("sending");
    let record = r#"{"local":7,"to":3,"service":"mail","name":"job","taken":2,"arrived":1,
        "is_finished":false,"state":"moving"}"#;
    let store = Database::create(dir.path().join("blocks.redb")).expect("a new store");
    let write = store.begin_write().expect("it can be written");
    let mut table = write.open_table(old).expect("a new table");
    table.insert(7, record.as_bytes()).expect("it can be written");
    drop(table);
    write.commit().expect("it can be written");
    drop(store);
    for _ in 0..2 {
        let store = Store::open(dir.path(), &config(Durable::Fsync)).expect("the same store");
        let sending = store.sending().expect("it can be read");
        assert!(matches!(&sending[..], [Sending { local: 7, taken: 2, .. }]), "{sending:?}");
    }
}

#[test]
fn flows_of_which_the_numbers_are_alike_but_for_their_length_are_kept_apart() {
    let dir = TempDir::new().expect("a folder");
    let store = Store::open(dir.path(), &config(Durable::PageCache)).expect("a new store");
    let numbers = [7, 0x0007_0000, 0x0001_0007];
    for local in numbers {
        let id = BlockId { flow: FlowKey { local, ..id(0).flow }, number: 7 };
        let block = Whole { id, ..whole(local % 251, 10_000) };
        store.change(&[Change::Block(block)]).expect("it can be written");
    }
    for local in numbers {
        let id = BlockId { flow: FlowKey { local, ..id(0).flow }, number: 7 };
        let found = store.block(id).expect("it can be read").expect("it is there");
        assert!(found.frames == whole(local % 251, 10_000).frames);
    }
    let mut found: Vec<u32> =
        all_blocks(&store).expect("it can be read").iter().map(|one| one.id.flow.local).collect();
    found.sort_unstable();
    assert_eq!(found, [7, 0x0001_0007, 0x0007_0000]);
}

#[test]
fn numbers_of_flows_do_not_come_again_while_somebody_may_remember_them() {
    let mut numbers = Numbers(u32::MAX - 10);
    let is_taken = |local| local == u32::MAX;
    let given: BTreeSet<u32> = (0..200_000).map(|_| numbers.next(is_taken)).collect();
    assert_eq!(given.len(), 200_000);
    assert!(!given.contains(&u32::MAX));
}

#[test]
fn of_flows_that_ended_long_ago_the_oldest_of_the_busiest_source_are_forgotten() {
    let dir = TempDir::new().expect("a folder");
    let store = Store::open(dir.path(), &config(Durable::PageCache)).expect("a new store");
    assert_eq!(store.past().expect("it can be read"), []);
    let past = |source, local: u32| {
        let flow = FlowKey { source: NodeId(source), local };
        PastFlow { flow, opened: local ^ 9, is_refused: local.is_multiple_of(3) }
    };
    let put = |source, locals: std::ops::Range<u32>| {
        let changes: Vec<_> = locals.map(|local| Change::Past(past(source, local))).collect();
        store.change(&changes).expect("it can be written");
    };
    let of = |source: u16| {
        let all = store.past().expect("it can be read");
        all.into_iter().filter(|one| one.flow.source == NodeId(source)).collect::<Vec<_>>()
    };
    put(1, 7..8);
    let most = PAST_OF_ONE as u32;
    put(2, 0..most + 10);
    assert_eq!(of(1), [past(1, 7)]);
    assert_eq!(of(2), (10..most + 10).map(|local| past(2, local)).collect::<Vec<_>>());
    (3..18).for_each(|source| put(source, 0..most - 1));
    let count = || store.past().expect("it can be read").len();
    assert_eq!(count(), PAST_IN_ALL - 14);
    put(u16::MAX, 0..15);
    assert_eq!((count(), of(2).len(), of(u16::MAX).len()), (PAST_IN_ALL, PAST_OF_ONE - 1, 15));
    assert_eq!((of(1), of(2)[0]), (vec![past(1, 7)], past(2, 11)));
    store.change(&[Change::NoPast(NodeId(3))]).expect("it can be written");
    assert_eq!((of(3), of(4).len()), (vec![], PAST_OF_ONE - 1));
}

#[test]
fn a_record_that_goes_leaves_behind_that_its_flow_ended() {
    let mut desk = Desk::new();
    let record = |local, state, is_cut| Receiving {
        source: NodeId(3),
        local,
        opened: local + 40,
        nonce: 9,
        service: "mail".into(),
        name: "job".into(),
        next: 2,
        confirmed: 2,
        is_finished: false,
        is_cut,
        state,
        over: 0,
    };
    let file = |local, state| {
        let (source, opened, from) = (NodeId(4), local + 40, String::new());
        let (name, sha256) = ("map".into(), String::new());
        let info = FileInfo { name, size: 9, sha256, nonce: 1, streamed: false };
        Incoming { source, from, local, opened, info, received: 9, next: 1, state }
    };
    let failed = || State::Failed("nobody wants it".into());
    let flows = [
        record(1, State::Fetched, false),
        record(2, State::Moving, true),
        record(3, failed(), false),
        record(4, State::Moving, false),
    ];
    let files = [file(1, State::Fetched), file(2, failed())];
    let records = flows.map(|record| Task::ForgetReceiving(Box::new(record)));
    desk.clerk.perform(records.into());
    desk.clerk.perform(files.map(|file| Task::ForgetIncoming(Box::new(file))).into());
    drop(desk.clerk);
    let store = Store::open(desk.dir.path(), &config(Durable::Fsync)).expect("the same store");
    let past = |source, local, is_refused| PastFlow {
        flow: FlowKey { source: NodeId(source), local },
        opened: local + 40,
        is_refused,
    };
    let right = [past(3, 1, false), past(3, 2, false), past(3, 3, true), past(4, 1, false)];
    assert_eq!(store.past().expect("it can be read"), [&right[..], &[past(4, 2, true)]].concat());
}

#[test]
fn the_file_of_a_store_shrinks_with_what_is_in_it() {
    let dir = TempDir::new().expect("a folder");
    let mut store = Store::open(dir.path(), &config(Durable::PageCache)).expect("a new store");
    for number in 0..24 {
        store.change(&[Change::Block(whole(number, 1 << 20))]).expect("it can be written");
    }
    store.shrink().expect("it can be written");
    let full = file_bytes(dir.path());
    for number in 1..24 {
        store.change(&[Change::NoBlock(id(number))]).expect("it can be written");
    }
    store.shrink().expect("it can be written");
    let left = file_bytes(dir.path());
    assert!(full >= 24 << 20 && left < 8 << 20, "{full} and then {left} bytes");
    store.change(&[Change::Block(whole(30, 1_000))]).expect("it can be written");
    let found = all_blocks(&store).expect("it can be read");
    assert_eq!(found.iter().map(|whole| whole.id).collect::<Vec<_>>(), [id(0), id(30)]);
}

#[test]
fn what_an_earlier_version_stored_in_one_piece_is_read_and_deleted() {
    let dir = TempDir::new().expect("a folder");
    let kept = whole(0, 100_000);
    let crc = kept.shape.crc.to_be_bytes();
    let front = [&[0, 3, 0, 72, 0, 1, 0x86, 0xa0][..], &crc, &[48, 2, 1, 5, 120]].concat();
    let value = [&front[..], &kept.frames.concat()].concat();
    let old: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("blocks");
    let store = Database::create(dir.path().join("blocks.redb")).expect("a new store");
    let write = store.begin_write().expect("it can be written");
    let mut table = write.open_table(old).expect("a new table");
    table.insert(&[0, 1, 0, 7, 0, 0, 0, 0][..], &value[..]).expect("it can be written");
    drop(table);
    write.commit().expect("it can be written");
    drop(store);
    let store = Store::open(dir.path(), &config(Durable::PageCache)).expect("the same store");
    let found = store.block(id(0)).expect("it can be read").expect("it is there");
    assert_eq!((found.shape, found.frames), (kept.shape, kept.frames));
    store.change(&[Change::NoBlock(id(0))]).expect("it can be written");
    assert!(all_blocks(&store).expect("it can be read").is_empty());
}

#[test]
fn blocks_take_hardly_more_disk_than_they_have_bytes() {
    let bound = |limit: u64| limit / 100 * 115 + (3 << 20);
    for sizes in [&[1 << 20][..], &[1 << 18], &[1 << 13], &[1 << 20, 1 << 13, 70_000, 200_000]] {
        let dir = TempDir::new().expect("a folder");
        let mut store = Store::open(dir.path(), &config(Durable::PageCache)).expect("a new store");
        let block = |number: u32| whole(number, sizes[number as usize % sizes.len()]);
        let (limit, mut bytes, mut most) = (16 << 20, 0, 0);
        let mut held = Vec::new();
        // Some leave from among the oldest, as others come, until four times as much has come.
        for number in 0..(4 * limit * sizes.len() / sizes.iter().sum::<usize>()) as u32 {
            let mut changes = vec![Change::Block(block(number))];
            bytes += block(number).shape.length as usize;
            held.push(number);
            while bytes > limit {
                let gone = held.remove(number as usize * 7 % (held.len() / 3));
                bytes -= block(gone).shape.length as usize;
                changes.push(Change::NoBlock(id(gone)));
            }
            store.change(&changes).expect("it can be written");
            most = most.max(file_bytes(dir.path()));
        }
        assert!(most < bound(limit as u64), "{most} bytes on disk for {limit} in {sizes:?}");
        let found = all_blocks(&store).expect("it can be read");
        assert!(found.iter().all(|one| one.frames == block(one.id.number).frames));
        let found: BTreeSet<u32> = found.iter().map(|one| one.id.number).collect();
        assert_eq!(found, held.iter().copied().collect());
        let gone: Vec<Change> = held.iter().map(|number| Change::NoBlock(id(*number))).collect();
        store.change(&gone).expect("it can be written");
        store.shrink().expect("it can be written");
        let left = file_bytes(dir.path());
        assert!(left < 2 << 20, "{left} bytes on disk for nothing");
    }
}

/// Measures how fast blocks become safe: `cargo test --release ... -- --ignored --nocapture`.
#[test]
#[ignore = "system: measures the disk"]
fn how_long_two_hundred_blocks_take_until_they_are_safe() {
    let dir = TempDir::new_in(".").expect("a folder");
    let store = Store::open(dir.path(), &config(Durable::Fsync)).expect("a new store");
    for each in [1_u32, 4] {
        let blocks: Vec<Whole> = (0..200).map(|number| whole(number, 1 << 20)).collect();
        let begun = std::time::Instant::now();
        for few in blocks.chunks(each as usize) {
            let put: Vec<Change> = few.iter().cloned().map(Change::Block).collect();
            store.change(&put).expect("it can be written");
        }
        let took = begun.elapsed();
        println!("200 blocks, {each} at a time: {took:?}, {} bytes", file_bytes(dir.path()));
        assert!(took.as_secs() < 120, "{took:?}");
    }
}

/// What is found in a store: that its file is refused, with advice, or all of these blocks.
fn is_refused_or_as_it_was(dir: &Path, stored: &[Whole]) -> bool {
    let refused = match Store::open(dir, &config(Durable::PageCache)) {
        Ok(store) => match all_blocks(&store) {
            Ok(found) => {
                let found: Vec<_> = found.iter().map(|b| (b.id, b.shape, &b.frames)).collect();
                let right: Vec<_> = stored.iter().map(|b| (b.id, b.shape, &b.frames)).collect();
                assert!(found == right, "{} of {} blocks", found.len(), right.len());
                return false;
            }
            Err(error) => error,
        },
        Err(error) => error,
    };
    let said = refused.to_string();
    assert!(said.contains("block cache") && said.contains("move it away"), "{said}");
    true
}

#[test]
fn a_store_that_was_cut_says_so_or_is_as_it_was() {
    let dir = TempDir::new().expect("a folder");
    let store = Store::open(dir.path(), &config(Durable::Fsync)).expect("a new store");
    let sizes = [100_000, 5_000, 0, 4_070 - 17, 300_000];
    let stored: Vec<Whole> =
        (0..40).map(|number| whole(number, sizes[number as usize % 5])).collect();
    for few in stored.chunks(3) {
        let put: Vec<Change> = few.iter().cloned().map(Change::Block).collect();
        store.change(&put).expect("it can be written");
    }
    let path = dir.path().join("blocks.redb");
    // As a power cut leaves it, and as the end of the daemon does.
    let powerless = fs::read(&path).expect("it is a file");
    drop(store);
    let closed = fs::read(&path).expect("it is a file");
    for bytes in [powerless, closed] {
        let length = bytes.len();
        let near = |at: usize| [at.saturating_sub(1), at, at + 1];
        let even = (1..48).flat_map(|part| near(length * part / 48 / 4_096 * 4_096));
        let ends = [1, 3, 9, 64, 320, 4_095, length - 4_097, length - 2, length - 1];
        let mut refused = 0;
        for cut in even.chain(ends) {
            fs::write(&path, &bytes[..cut]).expect("it is cut");
            refused += u32::from(is_refused_or_as_it_was(dir.path(), &stored));
        }
        // The end of the file may be free space.
        assert!(refused > 100, "{refused} were refused");
        fs::write(&path, &bytes).expect("it is put back");
        assert!(!is_refused_or_as_it_was(dir.path(), &stored));
    }
}

#[test]
fn a_block_that_is_not_whole_is_counted_as_gone() {
    let dir = TempDir::new().expect("a folder");
    let store = Store::open(dir.path(), &config(Durable::PageCache)).expect("a new store");
    for (number, bytes) in [(0, 100_000), (1, 3_000), (2, 200_000)] {
        store.change(&[Change::Block(whole(number, bytes))]).expect("it can be written");
    }
    drop(store);
    let long: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("blocks-long");
    let store = Database::create(dir.path().join("blocks.redb")).expect("the same store");
    let write = store.begin_write().expect("it can be written");
    let mut table = write.open_table(long).expect("the table");
    let piece = [0, 1, 0, 7, 0, 0, 0, 2, 0, 0, 0, 1];
    assert!(table.remove(&piece[..]).expect("it can be written").is_some());
    drop(table);
    write.commit().expect("it can be written");
    drop(store);
    let store = Store::open(dir.path(), &config(Durable::PageCache)).expect("the same store");
    let mut found = Vec::new();
    let unreadable = store.each_block(|whole| found.push(whole.id)).expect("it can be read");
    assert_eq!((unreadable, found), (vec![id(2)], vec![id(0), id(1)]));
    assert!(store.block(id(2)).expect("it can be read").is_none());
}

#[test]
fn a_block_from_here_with_wrong_bytes_ends_its_flow_and_one_of_another_node_is_dropped() {
    let dir = TempDir::new().expect("a folder");
    let store = Store::open(dir.path(), &config(Durable::PageCache)).expect("a new store");
    let foreign = BlockId { flow: FlowKey { source: NodeId(2), local: 7 }, number: 0 };
    let wrong = |mut whole: Whole| {
        whole.frames[0] = Bytes::from(vec![99; whole.frames[0].len()]);
        Change::Block(whole)
    };
    let record = Sending { is_finished: true, ..Sending::of_test(7, (2, 0)) };
    let relayed = wrong(Whole { id: foreign, ..whole(0, 3_000) });
    let changes = [Change::Block(whole(0, 3_000)), wrong(whole(1, 3_000)), relayed];
    store.change(&changes).expect("it can be written");
    store.change(&[Change::Sending(record.clone())]).expect("it can be written");
    let rng = Seed(1).stream("hop");
    let plan = AddressPlan::default();
    let mut hop = Hop::build(HopConfig::default(), NodeId(1), plan, None, rng);
    let mut sending = [record];
    let own = (NodeId(1), &mut sending[..]);
    let kept = restore::blocks(&store, Instant::ZERO, &mut hop, own).expect("it can be read");
    assert_eq!(kept, BTreeSet::new());
    let why = "a block of it cannot be read from the store";
    assert_eq!(sending[0].state, State::Failed(why.into()));
    assert_eq!(store.sending().expect("it can be read"), sending);
    assert!(all_blocks(&store).expect("it can be read").is_empty());
}

#[test]
fn a_letter_with_wrong_bytes_is_not_delivered_and_one_of_an_earlier_version_is() {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("blocks.redb");
    let store = Store::open(dir.path(), &config(Durable::PageCache)).expect("a new store");
    let mut wrong = whole(2, 3_000);
    wrong.frames[1] = Bytes::from(vec![99; 1_400]);
    let letters = [whole(1, 100_000), wrong].map(Change::Letter);
    store.change(&letters).expect("it can be written");
    drop(store);
    let bare: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("letters");
    let database = Database::create(&path).expect("the same store");
    let write = database.begin_write().expect("it can be written");
    let mut table = write.open_table(bare).expect("the table");
    table.insert(&[0, 1, 0, 7, 0, 0, 0, 3][..], &b"old"[..]).expect("it can be written");
    drop(table);
    write.commit().expect("it can be written");
    drop(database);
    let store = Store::open(dir.path(), &config(Durable::PageCache)).expect("the same store");
    let letter = |number| store.letter(id(number)).expect("it can be read");
    assert_eq!(letter(1).as_deref(), Some(&[1; 100_000][..]));
    assert_eq!((letter(2), letter(3)), (None, Some(Bytes::from_static(b"old"))));
    store.change(&[1, 2, 3].map(|number| Change::NoLetter(id(number)))).expect("written");
    assert_eq!([1, 2, 3].map(letter), [None, None, None]);
}

#[test]
fn what_a_first_start_that_was_killed_left_is_made_anew() {
    let mut rest = vec![0; 4_096];
    rest[9..300].fill(7);
    // Nothing, a part of the store, and zeros of its length; under the hidden name also all but the
    // mark, which is written last.
    for left in [vec![], vec![0; 5], vec![0; 1_056_768], rest] {
        let dir = TempDir::new().expect("a folder");
        if left.iter().all(|byte| *byte == 0) {
            fs::write(dir.path().join("blocks.redb"), &left).expect("it can be written");
        }
        fs::write(dir.path().join(".blocks.redb"), &left).expect("it can be written");
        for number in 0..2 {
            let store = Store::open(dir.path(), &config(Durable::PageCache)).expect("a store");
            assert_eq!(all_blocks(&store).expect("it can be read").len(), number as usize);
            store.change(&[Change::Block(whole(number, 100))]).expect("it can be written");
        }
        let names = fs::read_dir(dir.path()).expect("it is there").flatten();
        assert_eq!(names.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["blocks.redb"]);
    }
}

#[test]
fn a_store_that_cannot_be_made_has_no_file() {
    let dir = TempDir::new().expect("a folder");
    let aside = dir.path().join(".blocks.redb");
    fs::create_dir(&aside).expect("what is in its way");
    let open = || Store::open(dir.path(), &config(Durable::Fsync));
    assert!(open().is_err());
    assert!(!dir.path().join("blocks.redb").exists(), "it was made under its own name");
    fs::remove_dir(&aside).expect("it is empty");
    assert!(open().is_ok());
}

#[test]
fn a_store_that_another_has_open_is_named_with_advice() {
    let dir = TempDir::new().expect("a folder");
    let open = || Store::open(dir.path(), &config(Durable::Fsync));
    let first = open().expect("a new store");
    let said = open().err().expect("the first has it").to_string();
    let right = format!("another daemon keeps its blocks in {}: ", dir.path().display());
    assert!(said.starts_with(&right) && said.ends_with("with --state"), "{said}");
    drop(first);
    assert!(open().is_ok());
}

#[test]
fn what_is_no_store_is_left_alone_with_advice() {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("blocks.redb");
    let letters = vec![b'x'; 100_000];
    fs::write(&path, &letters).expect("it can be written");
    let Err(refused) = Store::open(dir.path(), &config(Durable::Fsync)) else {
        panic!("letters are no store");
    };
    let said = refused.to_string();
    assert!(said.starts_with(&path.display().to_string()), "{said}");
    assert!(
        said.ends_with("magic number mismatch): move it away, and a new one is made"),
        "{said}"
    );
    assert_eq!(fs::read(&path).expect("it is there"), letters);
    // The database would take a file that begins with zeros for a new one, and overwrite it.
    let damaged = [vec![0; 512], letters].concat();
    fs::write(&path, &damaged).expect("it can be written");
    let refused = Store::open(dir.path(), &config(Durable::Fsync)).err().expect("no store");
    assert!(refused.to_string().ends_with("move it away, and a new one is made"), "{refused}");
    assert_eq!(fs::read(&path).expect("it is there"), damaged);
}

#[test]
fn what_came_whole_stays_when_the_store_is_taken_away() {
    let mut desk = Desk::new();
    for (number, (block, finishes)) in (0..).zip(blocks(35_000, None)) {
        desk.deliver(number, block, finishes);
    }
    let inbox = desk.dir.path().join("inbox");
    let wholes = |inbox: &Path| {
        let all = fs::read_dir(inbox).expect("a folder").map(|entry| entry.expect("one").path());
        all.filter(|path| path.extension().is_some_and(|end| end == "whole")).collect::<Vec<_>>()
    };
    let here = wholes(&inbox);
    let [whole] = &here[..] else { panic!("{here:?}") };
    let bytes = fs::read(whole).expect("it came");
    fs::write(inbox.join("1-2-00000003.part"), "a crash left it").expect("room");
    let store = desk.dir.path().join("blocks.redb");
    for take_away in [|store: &Path| fs::remove_file(store), |store: &Path| fs::write(store, "")] {
        drop(desk.clerk);
        take_away(&store).expect("it is there");
        desk.clerk = Desk::clerk(&desk.dir);
        assert_eq!((wholes(&inbox), fs::read(whole).ok()), (here.clone(), Some(bytes.clone())));
        assert!(!inbox.join("1-2-00000003.part").exists());
    }
}

/// A clerk, and what it was asked, one task after another.
struct Desk {
    dir: TempDir,
    clerk: Clerk,
}

impl Desk {
    fn new() -> Self {
        let dir = TempDir::new().expect("a folder");
        let clerk = Self::clerk(&dir);
        Self { dir, clerk }
    }

    fn clerk(dir: &TempDir) -> Clerk {
        let config = config(Durable::Fsync);
        let store = Store::open(dir.path(), &config).expect("a store");
        let mut incoming = store.incoming().expect("it can be read");
        let inbox = Inbox::build(dir.path().join("inbox"), &config, &store, &mut incoming);
        Clerk::new(store, inbox.expect("a folder"))
    }

    /// As after a crash: only what was written is left.
    fn restart(self) -> Self {
        drop(self.clerk);
        Self { clerk: Self::clerk(&self.dir), dir: self.dir }
    }

    fn deliver(&mut self, number: u32, block: Vec<u8>, finishes: bool) -> Vec<Done> {
        let block = Bytes::from(block);
        let (shape, frames) = (shape(number, &block, finishes), frames_of(&block, 1_400));
        self.clerk.perform(vec![Task::Deliver(Delivery { id: id(number), shape, frames })])
    }
}

fn accepted(done: &[Done]) -> Option<&Incoming> {
    match done {
        [Done::Accepted(_, file)] => Some(file),
        _ => None,
    }
}

/// A file of so many bytes that is sent.
fn map(size: u64) -> Outgoing {
    let (name, sha256) = ("map".into(), String::new());
    Outgoing {
        local: 7,
        before: 0,
        path: "/map".into(),
        modified_ns: 0,
        info: FileInfo { name, size, sha256, nonce: 1, streamed: false },
        to: NodeId(3),
        to_name: "valley".into(),
        block_bytes: 10_000,
        arrived: 0,
        state: State::Moving,
    }
}

/// A file of so many bytes, as its sender cuts it.
fn blocks(size: u64, sha256: Option<&str>) -> Vec<(Vec<u8>, bool)> {
    let content: Vec<u8> = (0..size).map(|at| (at * 7 / 3) as u8).collect();
    let mut file = map(size);
    file.info.sha256 = sha256.map_or_else(|| sum_bytes(&content), str::to_owned);
    let block = |part: Part| {
        let bytes = &content[part.offset as usize..(part.offset + part.length) as usize];
        ([&part.front[..], bytes].concat(), part.is_last)
    };
    (0..).map_while(|number| file.part(number)).map(block).collect()
}

#[test]
fn a_file_that_came_in_blocks_is_whole_though_its_node_began_anew_between_them() {
    let mut desk = Desk::new();
    for (number, (block, is_last)) in (0..).zip(blocks(35_000, None)) {
        let done = desk.deliver(number, block, is_last);
        let file = accepted(&done).expect("it is taken");
        assert_eq!(file.state == State::Done, is_last);
        desk = desk.restart();
    }
    let inbox = fs::read_dir(desk.dir.path().join("inbox")).expect("it is there");
    let files: Vec<_> = inbox.flatten().map(|entry| entry.path()).collect();
    assert_eq!(fs::metadata(&files[0]).expect("it is there").len(), 35_000);
    assert!(files.len() == 1 && files[0].extension().is_some_and(|end| end == "whole"));
}

#[test]
fn a_file_with_a_wrong_checksum_is_refused_and_leaves_nothing() {
    let mut desk = Desk::new();
    let mut last = Vec::new();
    for (number, (block, is_last)) in (0..).zip(blocks(35_000, Some(&"00".repeat(32)))) {
        last = desk.deliver(number, block, is_last);
    }
    let [Done::Refused(_, why), Done::Stands(_)] = last[..] else { panic!("{last:?}") };
    assert_eq!(why, Refusal::Unusable);
    let inbox = fs::read_dir(desk.dir.path().join("inbox")).expect("it is there");
    assert_eq!(inbox.count(), 0);
}

#[test]
fn a_file_for_which_there_is_no_disk_is_refused_at_once() {
    let mut desk = Desk::new();
    let (first, is_last) = blocks(1_000_001, None).swap_remove(0);
    let done = desk.deliver(0, first, is_last);
    assert!(matches!(done[..], [Done::Refused(_, Refusal::Full)]), "{done:?}");
}

#[test]
fn a_block_of_a_file_that_nobody_opened_is_refused() {
    let mut desk = Desk::new();
    let done = desk.deliver(3, vec![0; 100], false);
    assert!(matches!(done[..], [Done::Refused(_, Refusal::Unknown)]), "{done:?}");
}

#[test]
fn what_is_kept_is_nobody_elses_to_read() {
    let dir = TempDir::new().expect("a folder");
    let node = dir.path().join("state").join("hill");
    let mode = || fs::metadata(&node).expect("it is there").permissions().mode() & 0o777;
    drop(Store::open(&node, &config(Durable::Fsync)).expect("a new store"));
    assert_eq!(mode(), 0o700);
    fs::set_permissions(&node, fs::Permissions::from_mode(0o755)).expect("it is ours");
    drop(Store::open(&node, &config(Durable::Fsync)).expect("the same store"));
    assert_eq!(mode(), 0o700, "as an earlier version made it");
}
