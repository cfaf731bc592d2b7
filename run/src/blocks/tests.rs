//! What is kept survives, and what comes is written where it belongs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};

use bytes::Bytes;
use farhop_proto::base::NodeId;
use farhop_proto::transport::hop::{Delivery, Durable, HopConfig, Shape, Whole, frames_of};
use farhop_proto::wire::hop::{BlockId, FlowKey};
use redb::backends::FileBackend;
use redb::{Database, StorageBackend, TableDefinition};
use tempfile::TempDir;

use super::clerk::{Clerk, Done, Task};
use super::inbox::{Inbox, sum_bytes};
use super::store::{Change, Store, StoreError, file_bytes};
use super::{Numbers, Office};
use crate::files::{FileInfo, Incoming, Outgoing, Part, State};
use crate::sockets::{Receiving, Sending};

impl Office {
    /// That of node 1, and what it asks the clerk for.
    pub(crate) fn of_test() -> (Self, Receiver<Task>) {
        let (tasks, asked) = mpsc::channel();
        let (names, dir) = (BTreeMap::new(), "/".into());
        let config = HopConfig::default();
        (Self { node: NodeId(1), names, dir, config, tasks }, asked)
    }
}

fn all_blocks(store: &Store) -> Result<Vec<Whole>, StoreError> {
    let mut all = Vec::new();
    store.each_block(|whole| all.push(whole))?;
    Ok(all)
}

fn id(number: u32) -> BlockId {
    BlockId { flow: FlowKey { source: NodeId(1), local: 7 }, number }
}

fn shape(number: u32, block: &Bytes, finishes: bool) -> Shape {
    Shape {
        destination: NodeId(3),
        frames: frames_of(block, 1_400).len() as u16,
        length: block.len() as u32,
        crc: number,
        hops_left: 48,
        hops_made: 2,
        opens: number == 0,
        finishes,
        is_early: false,
    }
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
        store.change(&[Change::Block(Whole { id, ..whole(0, 10) })]).expect("it can be written");
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
fn a_store_that_was_cut_says_so_or_is_as_it_was() {
    let dir = TempDir::new().expect("a folder");
    let store = Store::open(dir.path(), &config(Durable::Fsync)).expect("a new store");
    store.change(&[Change::Block(whole(0, 100_000))]).expect("it can be written");
    drop(store);
    let path = dir.path().join("blocks.redb");
    let bytes = fs::read(&path).expect("it is a file");
    for part in [0, 1, 3, 7] {
        fs::write(&path, &bytes[..bytes.len() * part / 8]).expect("it is cut");
        match Store::open(dir.path(), &config(Durable::Fsync)) {
            Ok(store) => assert!(all_blocks(&store).is_ok_and(|blocks| blocks.len() <= 1)),
            Err(error) => assert!(error.to_string().contains("block cache"), "{error}"),
        }
    }
}

#[test]
fn what_a_first_start_that_was_killed_left_is_made_anew() {
    let mut rest = vec![0; 4_096];
    rest[9..300].fill(7);
    // Nothing, a part of it, and its length alone; under the hidden name all but its mark, too,
    // which comes last.
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
    // What begins with zeros would be a new store to it, over all that follows.
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

    /// As after a crash: what is written is all that is left.
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
    for (number, (block, is_last)) in (0..).zip(blocks(35_000, Some("00"))) {
        last = desk.deliver(number, block, is_last);
    }
    assert!(matches!(last[..], [Done::Refused(_), Done::Stands(_)]), "{last:?}");
    let inbox = fs::read_dir(desk.dir.path().join("inbox")).expect("it is there");
    assert_eq!(inbox.count(), 0);
}

#[test]
fn a_file_for_which_there_is_no_disk_is_refused_at_once() {
    let mut desk = Desk::new();
    let (first, is_last) = blocks(1_000_001, None).swap_remove(0);
    let done = desk.deliver(0, first, is_last);
    assert!(matches!(done[..], [Done::Refused(_)]), "{done:?}");
}

#[test]
fn a_block_of_a_file_that_nobody_opened_is_refused() {
    let mut desk = Desk::new();
    let done = desk.deliver(3, vec![0; 100], false);
    assert!(matches!(done[..], [Done::Refused(_)]), "{done:?}");
}

/// A disk on which nothing can be written while it is full.
#[derive(Debug)]
struct Disk {
    file: FileBackend,
    is_full: Arc<AtomicBool>,
}

impl Disk {
    fn check(&self) -> io::Result<()> {
        let is_full = self.is_full.load(Ordering::Relaxed);
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check().and_then(|()| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check().and_then(|()| self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check().and_then(|()| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// A clerk with such a disk.
fn desk_that_can_be_full() -> (Desk, Arc<AtomicBool>) {
    let dir = TempDir::new().expect("a folder");
    let is_full = Arc::new(AtomicBool::new(false));
    let (path, disk) = (dir.path().join("blocks.redb"), Arc::clone(&is_full));
    let opens = move || {
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
        let file = FileBackend::new(file).map_err(|error| StoreError::Store(error.into()))?;
        let disk = Disk { file, is_full: Arc::clone(&disk) };
        let database = Database::builder().create_with_backend(disk);
        database.map_err(|error| StoreError::Store(error.into()))
    };
    let store = Store::build(Box::new(opens)).expect("a store");
    let inbox = dir.path().join("inbox");
    let own = Inbox::build(inbox, &config(Durable::Fsync), &store, &mut []);
    let desk = Desk { dir, clerk: Clerk::new(store, own.expect("a folder")) };
    (desk, is_full)
}

#[test]
fn a_disk_that_was_full_is_used_again_once_there_is_room() {
    let (mut desk, is_full) = desk_that_can_be_full();
    let inbox = desk.dir.path().join("inbox");
    let parts = blocks(35_000, None);
    assert!(accepted(&desk.deliver(0, parts[0].0.clone(), false)).is_some());
    is_full.store(true, Ordering::Relaxed);
    let kept = desk.clerk.perform(vec![Task::Keep(whole(5, 3_000))]);
    assert!(matches!(kept[..], [Done::NotKept(_)]), "{kept:?}");
    // Its source was told that it has the first: it is not refused, and loses nothing.
    for number in [1, 2] {
        let part = desk.deliver(number, parts[number as usize].0.clone(), false);
        assert!(part.is_empty(), "{part:?}");
    }
    is_full.store(false, Ordering::Relaxed);
    let kept = desk.clerk.perform(vec![Task::Keep(whole(6, 3_000))]);
    assert!(matches!(kept[..], [Done::Kept(_)]), "{kept:?}");
    let late = desk.clerk.perform_late();
    assert!(matches!(late[..], [Done::Accepted(..), Done::Accepted(..)]), "{late:?}");
    let last = desk.deliver(3, parts[3].0.clone(), true);
    assert!(accepted(&last).is_some_and(|file| file.state == State::Done), "{last:?}");
    drop(desk.clerk);
    let store = Store::open(desk.dir.path(), &config(Durable::Fsync)).expect("the same store");
    let blocks = all_blocks(&store).expect("it can be read");
    assert_eq!(blocks.iter().map(|block| block.id.number).collect::<Vec<_>>(), [6]);
    assert_eq!(fs::read_dir(inbox).expect("it is there").count(), 1);
}

#[test]
fn what_is_written_into_a_store_that_was_taken_away_is_not_acknowledged() {
    let mut desk = Desk::new();
    let parts = blocks(35_000, None);
    let store = desk.dir.path().join("blocks.redb");
    let [aside, other] = ["aside", "other"].map(|end| store.with_extension(end));
    assert!(accepted(&desk.deliver(0, parts[0].0.clone(), false)).is_some());
    fs::rename(&store, &aside).expect("it is there");
    let gone = format!("{} is gone: put it back", store.display());
    let kept = desk.clerk.perform(vec![Task::Keep(whole(5, 3_000))]);
    assert!(matches!(kept[..], [Done::NotKept(_)]), "{kept:?}");
    assert!(desk.clerk.trouble().is_some_and(|why| why.starts_with(&gone)));
    assert!(desk.deliver(1, parts[1].0.clone(), false).is_empty());
    assert!(!store.exists(), "a new one would know nothing of the file");
    // What somebody else puts there is not it either.
    fs::write(&other, "no store").expect("room");
    fs::rename(&other, &store).expect("it is there");
    let kept = desk.clerk.perform(vec![Task::Keep(whole(5, 3_000))]);
    assert!(matches!(kept[..], [Done::NotKept(_)]), "{kept:?}");
    fs::rename(&aside, &store).expect("it is there");
    let kept = desk.clerk.perform(vec![Task::Keep(whole(6, 3_000))]);
    assert!(matches!(kept[..], [Done::Kept(_)]), "{kept:?}");
    let late = desk.clerk.perform_late();
    assert!(accepted(&late).is_some_and(|file| file.next == 2), "{late:?}");
}

#[test]
fn a_store_that_is_damaged_while_it_is_open_is_told_with_advice() {
    let mut desk = Desk::new();
    let store = desk.dir.path().join("blocks.redb");
    let kept = |number| Task::Keep(whole(number, 30_000));
    // More than it has in memory.
    desk.clerk.perform((0..300).map(kept).collect());
    File::options().write(true).open(&store).expect("it is there").set_len(8_192).expect("cut");
    let mut why = None;
    for number in 0..300 {
        desk.clerk.perform(vec![Task::Drop(id(number)), kept(number + 300)]);
        why = why.or_else(|| desk.clerk.trouble());
    }
    let why = why.expect("nothing can be kept");
    assert!(why.starts_with(&store.display().to_string()) && why.contains("move it away"), "{why}");
}

#[test]
fn a_part_that_was_cut_is_not_taken_for_whole() {
    let mut desk = Desk::new();
    let parts = blocks(35_000, None);
    let done = desk.deliver(0, parts[0].0.clone(), false);
    let part = format!("inbox/{}.part", accepted(&done).expect("it is taken").id());
    let part = File::options().write(true).open(desk.dir.path().join(part)).expect("it is there");
    part.set_len(100).expect("it is cut");
    let done = desk.deliver(1, parts[1].0.clone(), false);
    assert!(matches!(done[..], [Done::Refused(_), Done::Stands(_)]), "{done:?}");
}

#[test]
fn an_inbox_that_was_taken_away_is_made_anew() {
    let mut desk = Desk::new();
    fs::remove_dir_all(desk.dir.path().join("inbox")).expect("it is there");
    for (number, (block, is_last)) in (0..).zip(blocks(35_000, None)) {
        assert!(accepted(&desk.deliver(number, block, is_last)).is_some(), "{number}");
    }
}

#[test]
fn a_block_that_its_file_has_no_room_for_waits() {
    let mut desk = Desk::new();
    let parts = blocks(35_000, None);
    let done = desk.deliver(0, parts[0].0.clone(), false);
    let id = accepted(&done).expect("it is taken").id();
    let [part, aside] = ["part", "aside"].map(|end| desk.dir.path().join(end));
    let part = part.with_file_name(format!("inbox/{id}.part"));
    fs::rename(&part, &aside).expect("it is there");
    std::os::unix::fs::symlink("/dev/full", &part).expect("a device");
    let done = desk.deliver(1, parts[1].0.clone(), false);
    assert!(done.is_empty(), "{done:?}");
    let why = desk.clerk.trouble().expect("it is told");
    assert!(why.starts_with("a file that comes: No space left"), "{why}");
    fs::rename(&aside, &part).expect("it is there");
    assert!(accepted(&desk.clerk.perform_late()).is_some());
}

#[test]
fn a_file_that_cannot_be_read_for_a_while_is_not_given_up() {
    let mut desk = Desk::new();
    let [path, aside] = ["map", "aside"].map(|name| desk.dir.path().join(name));
    fs::write(&path, b"all of it").expect("a file");
    let (_, metadata) = super::open_file(&path).expect("a file");
    let file =
        Outgoing { path: path.clone(), modified_ns: super::modified_ns(&metadata), ..map(9) };
    let part = file.part(0).expect("a block");
    let read = || vec![Task::Read(Box::new(file.clone()), 0, part.clone())];
    fs::rename(&path, &aside).expect("it is there");
    // An error that neither says that there is no file nor that it may not be read.
    std::os::unix::fs::symlink(&path, &path).expect("a link to itself");
    let done = desk.clerk.perform(read());
    assert!(matches!(done[..], [Done::NotRead(7, 0)]), "{done:?}");
    fs::rename(&aside, &path).expect("it is there");
    let done = desk.clerk.perform(read());
    assert!(matches!(done[..], [Done::Read(7, 0, _, true)]), "{done:?}");
    fs::remove_file(&path).expect("it is there");
    let done = desk.clerk.perform(read());
    assert!(matches!(done[..], [Done::Unreadable(7, _)]), "{done:?}");
}

#[test]
fn a_block_that_waits_is_forgotten_with_its_flow() {
    let (mut desk, is_full) = desk_that_can_be_full();
    let first = blocks(35_000, None).swap_remove(0).0;
    is_full.store(true, Ordering::Relaxed);
    assert!(desk.deliver(0, first.clone(), false).is_empty());
    desk.clerk.perform(vec![Task::GiveUp(id(0).flow, "it was dropped here")]);
    is_full.store(false, Ordering::Relaxed);
    assert!(desk.clerk.perform_late().is_empty());
    assert!(accepted(&desk.deliver(0, first, false)).is_some(), "another one of that number");
}

#[test]
fn a_file_that_was_fetched_while_the_disk_was_full_gives_its_room_back() {
    for is_killed in [false, true] {
        let (mut desk, is_full) = desk_that_can_be_full();
        let (only, _) = blocks(100, None).swap_remove(0);
        let done = desk.deliver(0, only, true);
        let file = accepted(&done).expect("it is whole").clone();
        let inbox = desk.dir.path().join("inbox");
        let lengths = || {
            let files = fs::read_dir(&inbox).expect("it is there").flatten();
            files.map(|file| file.metadata().expect("it is there").len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(), [100]);
        is_full.store(true, Ordering::Relaxed);
        let fetched = Incoming { state: State::Fetched, ..file.clone() };
        let done = desk.clerk.perform(vec![Task::Fetched(Box::new(fetched.clone()))]);
        assert!(matches!(&done[..], [Done::LetGo(id)] if *id == file.id()), "{done:?}");
        assert_eq!(lengths(), [0], "what is written down says that it is there");
        is_full.store(false, Ordering::Relaxed);
        if is_killed {
            desk = desk.restart();
        } else {
            desk.clerk.perform(Vec::new());
        }
        assert!(lengths().is_empty());
        drop(desk.clerk);
        let store = Store::open(desk.dir.path(), &config(Durable::Fsync)).expect("the same store");
        assert_eq!(store.incoming().expect("it can be read"), [fetched]);
    }
}

#[test]
fn what_is_owed_is_written_though_nothing_else_is_to_be_done() {
    let (mut desk, is_full) = desk_that_can_be_full();
    is_full.store(true, Ordering::Relaxed);
    desk.clerk.perform(vec![Task::Drop(id(5))]);
    assert!(desk.clerk.patience().is_some(), "it waits for a task");
    is_full.store(false, Ordering::Relaxed);
    desk.clerk.perform(Vec::new());
    assert_eq!(desk.clerk.patience(), None);
}

#[test]
fn what_was_let_go_of_or_confirmed_while_the_disk_was_full_is_so_once_there_is_room() {
    let (mut desk, is_full) = desk_that_can_be_full();
    let record = |next, confirmed| Receiving {
        source: NodeId(1),
        local: 7,
        opened: 0,
        nonce: 0,
        service: "letters".into(),
        name: String::new(),
        next,
        confirmed,
        is_finished: false,
        is_cut: false,
        state: State::Moving,
        over: 0,
    };
    let letter = |number, confirmed| {
        let block = Bytes::from(vec![number as u8; 900]);
        let (shape, frames) = (shape(number, &block, false), frames_of(&block, 1_400));
        let delivery = Delivery { id: id(number), shape, frames };
        Task::Letter(Box::new((delivery, record(number + 1, confirmed))))
    };
    let kept = desk.clerk.perform(vec![Task::Keep(whole(5, 3_000)), letter(1, 1), letter(2, 1)]);
    assert_eq!(kept.len(), 3, "{kept:?}");
    is_full.store(true, Ordering::Relaxed);
    let confirm = Task::Confirm(id(1), Box::new(record(4, 2)));
    let kept = desk.clerk.perform(vec![Task::Drop(id(5)), letter(3, 1), confirm]);
    assert!(kept.is_empty(), "{kept:?}");
    is_full.store(false, Ordering::Relaxed);
    desk.clerk.perform(vec![Task::Keep(whole(6, 3_000))]);
    let late = desk.clerk.perform_late();
    assert!(matches!(late[..], [Done::Letter(_)]), "{late:?}");
    drop(desk.clerk);
    let store = Store::open(desk.dir.path(), &config(Durable::Fsync)).expect("the same store");
    let blocks = all_blocks(&store).expect("it can be read");
    assert_eq!(blocks.iter().map(|block| block.id.number).collect::<Vec<_>>(), [6]);
    assert_eq!(store.receiving().expect("it can be read"), [record(4, 2)]);
    let letter = |number| store.letter(id(number)).expect("it can be read");
    assert_eq!([1, 2, 3].map(|number| letter(number).is_some()), [false, true, true]);
}

#[test]
fn a_block_that_could_not_be_kept_is_not_taken_whatever_is_said_of_earlier_ones() {
    let (mut desk, is_full) = desk_that_can_be_full();
    let record = |taken, arrived| Sending {
        local: 7,
        to: NodeId(3),
        service: "letters".into(),
        name: String::new(),
        file_name: None,
        nonce: None,
        taken,
        arrived,
        is_finished: taken == 3,
        state: State::Moving,
        over: 0,
    };
    let hold = |number| Task::Hold(Box::new((whole(number, 900), record(number + 1, 0))));
    assert_eq!(desk.clerk.perform(vec![hold(0), hold(1)]).len(), 2);
    is_full.store(true, Ordering::Relaxed);
    let held = desk.clerk.perform(vec![hold(2)]);
    assert!(matches!(held[..], [Done::NotHeld(7)]), "{held:?}");
    is_full.store(false, Ordering::Relaxed);
    // The first arrived before it was known that the third is lost.
    desk.clerk.perform(vec![Task::Sent(id(0), Box::new(record(3, 1)))]);
    let written = |desk: &Desk| desk.clerk.sending();
    assert_eq!(written(&desk), [record(2, 1)]);
    let held = desk.clerk.perform(vec![hold(2)]);
    assert!(matches!(held[..], [Done::Held(_)]), "{held:?}");
    desk.clerk.perform(vec![Task::Sent(id(1), Box::new(record(3, 2)))]);
    assert_eq!(written(&desk), [record(3, 2)]);
}

#[test]
fn what_a_crash_left_half_done_is_done_at_the_next_start() {
    let mut desk = Desk::new();
    let mut last = None;
    for (number, (block, is_last)) in (0..).zip(blocks(35_000, None)) {
        last = accepted(&desk.deliver(number, block, is_last)).cloned();
    }
    let file = last.expect("it is whole");
    let inbox = desk.dir.path().join("inbox");
    let [part, whole] = ["part", "whole"].map(|end| inbox.join(format!("{}.{end}", file.id())));
    fs::rename(&whole, &part).expect("as before it got its name");
    desk = desk.restart();
    assert!(whole.exists() && !part.exists(), "it is there under its name");
    let fetched = Incoming { state: State::Fetched, ..file.clone() };
    desk.clerk.perform(vec![Task::Fetched(Box::new(fetched))]);
    assert!(!whole.exists());
    fs::write(&whole, "as before it was removed").expect("it can be written");
    let stray = inbox.join("1-8-00000000.part");
    fs::write(&stray, "as before anything was written down").expect("it can be written");
    desk = desk.restart();
    assert!(!whole.exists() && !stray.exists());
    desk.clerk.perform(vec![Task::Fetched(Box::new(file))]);
    desk = desk.restart();
    drop(desk.clerk);
    let store = Store::open(desk.dir.path(), &config(Durable::Fsync)).expect("the same store");
    let files = store.incoming().expect("it can be read");
    assert!(matches!(&files[..], [Incoming { state: State::Failed(_), .. }]), "its bytes are gone");
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
