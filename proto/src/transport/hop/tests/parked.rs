//! Blocks whose bytes leave memory for the disk.

use super::*;

/// Blocks of a length of which four fit into memory, and a relay that takes thirty.
const LENGTH: usize = 14_000;
const MEMORY: u64 = 60_000;
const BLOCKS: u32 = 30;

fn config(disk_bytes: u64) -> HopConfig {
    let (memory_bytes, high_blocks, ahead) = (MEMORY, 100, Ahead::Always);
    HopConfig { memory_bytes, disk_bytes, high_blocks, ahead, ..small_config() }
}

/// The disk of node 2.
#[derive(Default)]
struct Disk(BTreeMap<BlockId, Whole>);

impl Disk {
    fn turn(&mut self, row: &mut Row) {
        let now = row.now;
        let hop = row.hop(2);
        while let Some(keep) = hop.poll_keep() {
            match keep {
                Keep::Put(whole) => {
                    let id = whole.id;
                    self.0.insert(id, whole);
                    hop.handle_kept(id);
                }
                Keep::Drop(id) => _ = self.0.remove(&id),
                Keep::Get(id) => hop.handle_got(now, id, self.0.get(&id).cloned()),
            }
        }
        assert!(hop.counters()["memory_held"] <= MEMORY, "{:?}", hop.counters());
    }
}

/// Sends the blocks from node 1 to node 3 until so many have arrived, or for this long at most.
fn send(row: &mut Row, disk: &mut Disk, wanted: usize, limit_s: u64) {
    let end = row.now + Duration::from_secs(limit_s);
    while row.arrived.len() < wanted && row.now < end {
        while row.pushed < BLOCKS as usize && row.has_room(1, flow(1), LENGTH) {
            let number = row.pushed as u32;
            row.push(flow(1), number, 3, LENGTH, number + 1 == BLOCKS);
            row.pushed += 1;
        }
        let step = row.now + Duration::from_millis(20);
        row.run_until(step);
        disk.turn(row);
    }
}

/// A row of three of which the first has sent its flow's first block.
fn opened(disk_bytes: u64, seed: u64) -> (Row, Disk) {
    let mut row = Row::new(3, config(disk_bytes), Harm::default(), seed);
    row.nodes[0].config.memory_bytes = 1 << 30;
    row.hop(2).keep_blocks();
    let mut disk = Disk::default();
    send(&mut row, &mut disk, 1, 10);
    assert_eq!(row.arrived.len(), 1);
    (row, disk)
}

#[test]
fn a_relay_takes_more_than_its_memory_holds_while_the_next_hop_is_away() {
    let (mut row, mut disk) = opened(1 << 30, 1);
    row.deaf = Some(NodeId(3));
    send(&mut row, &mut disk, usize::MAX, 120);
    assert!(row.count(1, "blocks_passed_on") >= 20, "{:?}", row.hop(1).counters());
    assert!(row.count(2, "parked") >= 15, "{:?}", row.hop(2).counters());
    row.deaf = None;
    send(&mut row, &mut disk, BLOCKS as usize, 120);
    row.assert_delivered(flow(1), &[LENGTH; BLOCKS as usize]);
    assert!(disk.0.is_empty(), "what has arrived is kept no longer");
}

#[test]
fn a_relay_whose_disk_is_full_takes_no_more_and_passes_on_what_it_has() {
    // It differs which of its blocks are in memory when the neighbour is back. If none of them is,
    // it must read one again although there is no place on disk for another.
    for seed in 1..=8 {
        let (mut row, mut disk) = opened(10 * LENGTH as u64, seed);
        row.deaf = Some(NodeId(3));
        send(&mut row, &mut disk, usize::MAX, 60);
        let length = |whole: &Whole| u64::from(whole.shape.length);
        let held: u64 = disk.0.values().map(length).sum();
        assert!(held > MEMORY && held <= 10 * LENGTH as u64, "{held} bytes on disk");
        row.deaf = None;
        send(&mut row, &mut disk, BLOCKS as usize, 240);
        row.assert_delivered(flow(1), &[LENGTH; BLOCKS as usize]);
    }
}

#[test]
fn a_relay_that_begins_anew_holds_what_its_disk_has_and_no_more_in_memory_than_it_may() {
    let (mut row, mut disk) = opened(1 << 30, 1);
    row.deaf = Some(NodeId(3));
    send(&mut row, &mut disk, usize::MAX, 60);
    let held = disk.0.len();
    row.restart(2);
    row.hop(2).keep_blocks();
    let now = row.now;
    disk.0.values().for_each(|whole| row.hop(2).restore(now, whole.clone()));
    assert_eq!(row.count(2, "blocks_held") as usize, held);
    row.deaf = None;
    send(&mut row, &mut disk, BLOCKS as usize, 240);
    row.assert_delivered(flow(1), &[LENGTH; BLOCKS as usize]);
}

#[test]
fn a_block_that_is_gone_from_the_disk_comes_again() {
    let (mut row, mut disk) = opened(1 << 30, 1);
    row.deaf = Some(NodeId(3));
    send(&mut row, &mut disk, usize::MAX, 60);
    let lost = disk.0.len();
    disk.0.clear();
    assert!(lost > 10);
    row.deaf = None;
    send(&mut row, &mut disk, BLOCKS as usize, 600);
    assert!(row.count(2, "corrupt") > 0);
    row.assert_delivered(flow(1), &[LENGTH; BLOCKS as usize]);
}

#[test]
fn a_relay_whose_disk_is_full_does_not_fetch_a_block_again_and_again() {
    let (mut row, mut disk) = opened(1 << 30, 1);
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 1, 3, LENGTH, true);
    for _ in 0..1_500 {
        let step = row.now + Duration::from_millis(20);
        row.run_until(step);
        while let Some(keep) = row.hop(2).poll_keep() {
            let Keep::Put(whole) = keep else { continue };
            row.hop(2).handle_not_kept(step, whole.id);
        }
    }
    let count = row.count(2, "not_kept");
    assert!((1..=6).contains(&count), "{count} times in 30 s");
    row.deaf = None;
    row.pushed = BLOCKS as usize;
    send(&mut row, &mut disk, 2, 60);
    row.assert_delivered(flow(1), &[LENGTH; 2]);
}

#[test]
fn a_relay_takes_no_more_than_its_memory_holds_of_what_its_disk_has_not_written() {
    let (mut row, _) = opened(1 << 30, 1);
    let mut unwritten = Vec::new();
    let mut go_on = |row: &mut Row, writes: bool| {
        let end = row.now + Duration::from_secs(60);
        while row.now < end {
            while row.pushed < BLOCKS as usize && row.has_room(1, flow(1), LENGTH) {
                let number = row.pushed as u32;
                row.push(flow(1), number, 3, LENGTH, number + 1 == BLOCKS);
                row.pushed += 1;
            }
            let step = row.now + Duration::from_millis(20);
            row.run_until(step);
            while let Some(keep) = row.hop(2).poll_keep() {
                unwritten.extend(if let Keep::Put(whole) = keep { Some(whole) } else { None });
            }
            if writes {
                unwritten.drain(..).for_each(|whole| row.hop(2).handle_kept(whole.id));
            }
        }
        unwritten.iter().map(|whole| u64::from(whole.shape.length)).sum::<u64>()
    };
    let bytes = go_on(&mut row, false);
    assert!((1..MEMORY).contains(&bytes), "{bytes} bytes wait for the disk");
    go_on(&mut row, true);
    row.assert_delivered(flow(1), &[LENGTH; BLOCKS as usize]);
    assert_eq!(row.count(2, "memory_held"), 0);
}
