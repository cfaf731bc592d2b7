//! Tests of blocks and files when the disk is full, files were changed by others, or after a crash.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::*;

/// A disk on which nothing can be written while `is_full`.
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
    // Its source knows that the first block arrived: the file is not refused, and loses nothing.
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
    // A file that somebody else put there does not count either.
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
fn a_store_that_was_cut_is_not_made_longer_again() {
    let mut desk = Desk::new();
    let store = desk.dir.path().join("blocks.redb");
    let kept = |number| Task::Keep(whole(number, 30_000));
    // More than it has in memory.
    desk.clerk.perform((0..300).map(kept).collect());
    let half = fs::metadata(&store).expect("it is there").len() / 2;
    File::options().write(true).open(&store).expect("it is there").set_len(half).expect("cut");
    for number in 300..310 {
        let outcome = desk.clerk.perform(vec![kept(number)]);
        assert!(matches!(outcome[..], [Done::NotKept(_)]), "{outcome:?}");
    }
    let why = desk.clerk.trouble().expect("nothing can be kept");
    assert!(why.starts_with(&format!("{} was cut: move it away", store.display())), "{why}");
    desk.clerk.perform((0..300).map(|number| Task::Get(id(number))).collect());
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
    let [Done::Refused(_, why), Done::Stands(_)] = done[..] else { panic!("{done:?}") };
    assert_eq!(why, Refusal::Unknown, "what came is gone");
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
    let (_, metadata) = super::super::open_file(&path).expect("a file");
    let file = Outgoing {
        path: path.clone(),
        modified_ns: super::super::modified_ns(&metadata),
        ..map(9)
    };
    let part = file.part(0).expect("a block");
    let read = || vec![Task::Read(Box::new(file.clone()), 0, part.clone())];
    fs::rename(&path, &aside).expect("it is there");
    // An error that means neither that the file is missing nor that it may not be read.
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
