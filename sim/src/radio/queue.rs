//! The queue of future events: an indexed 4-ary heap whose entries can be moved and cancelled.
//!
//! Every possible event has a fixed handle (a timer of a radio, the next edge of a transmission),
//! so there is at most one entry for each, no allocation after warm-up, and no dead entries. Events
//! at the same time fire in the order in which they were set. A plain binary heap with lazy
//! cancellation is about as fast, but keeps the dead entries of cancelled timers.

use farhop_proto::base::Instant;

/// Position of a handle that is not in the heap.
const NOWHERE: u32 = u32::MAX;
/// Children of an entry in the heap.
const ARITY: usize = 4;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Time, order of setting and handle, from the highest bits to the lowest: entries compare as one
/// integer, and the four children of an entry share a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

const HANDLE_BITS: u32 = 24;
const ORDER_BITS: u32 = 40;

/// The order in which events were set. It wraps after months of simulated traffic; events of one
/// time on both sides of the wrap are then out of order, but deterministically so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order(u64);

impl Entry {
    /// Sorts after all others.
    const NEVER: Self = Self(u128::MAX);

    fn new(at: Instant, order: Order, handle: usize) -> Self {
        let low = order.0 << HANDLE_BITS | handle as u64;
        Self(u128::from(at.as_nanos()) << 64 | u128::from(low))
    }

    fn instant(self) -> Instant {
        Instant::from_nanos((self.0 >> 64) as u64)
    }

    fn handle(self) -> usize {
        self.0 as usize & ((1 << HANDLE_BITS) - 1)
    }
}

/// Future events by handle.
#[derive(Debug)]
pub struct EventQueue {
    /// The entries from `first` on, then [`Entry::NEVER`] as padding, so that every entry with a
    /// child has four.
    heap: Vec<Entry>,
    /// Index of the first entry, chosen so that the children of an entry share a cache line.
    first: usize,
    /// Entries in use.
    count: usize,
    /// The position of each handle's entry, relative to `first`.
    place: Vec<u32>,
    issued: u64,
    /// The first entry has been taken and not been replaced yet. Its old value still sorts before
    /// all others.
    has_hole: bool,
}

impl EventQueue {
    /// An empty queue for the handles `0..handles`.
    pub fn new(handles: usize) -> Self {
        let (heap, place) = (Vec::new(), Vec::new());
        let mut queue = Self { heap, first: 0, count: 0, place, issued: 0, has_hole: false };
        queue.grow(handles);
        queue
    }

    /// Adds handles, up to `handles` in all.
    pub fn grow(&mut self, handles: usize) {
        assert!(handles <= 1 << HANDLE_BITS, "too many event handles");
        let room = self.heap.len().saturating_sub(2 * ARITY);
        if handles > room || self.heap.is_empty() {
            let mut heap = vec![Entry::NEVER; handles.max(room * 2) + 2 * ARITY];
            let first = heap[1..].as_ptr().align_offset(LINE).min(ARITY - 1);
            heap[first..][..self.count].copy_from_slice(&self.heap[self.first..][..self.count]);
            (self.heap, self.first) = (heap, first);
        }
        if handles > self.place.len() {
            self.place.resize(handles, NOWHERE);
        }
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<Instant> {
        self.peek().map(|(at, _)| at)
    }

    /// The next event, which stays in the queue until it is cancelled or set again.
    pub fn peek(&self) -> Option<(Instant, usize)> {
        let first = match self.has_hole {
            true => self.second(),
            false => (self.count > 0).then(|| self.entry(0)),
        };
        first.map(|entry| (entry.instant(), entry.handle()))
    }

    /// Takes the next event if it is due at `limit` or before. The gap that it leaves at the top is
    /// filled by the event that is set next, as usually one is soon.
    pub fn take_due(&mut self, limit: Instant) -> Option<(Instant, usize)> {
        self.fill();
        let first = self.entry(0);
        if self.count == 0 || first.instant() > limit {
            return None;
        }
        self.take_first(first.handle());
        Some((first.instant(), first.handle()))
    }

    /// Takes the event of `handle`, which must be the next one.
    pub(super) fn take_first(&mut self, handle: usize) {
        debug_assert_eq!(self.place[handle], 0, "the next event");
        self.place[handle] = NOWHERE;
        self.has_hole = true;
    }

    /// Closes the gap at the top, if there is one.
    pub(super) fn fill(&mut self) {
        if std::mem::take(&mut self.has_hole) {
            self.take_out(0);
        }
    }

    /// When the event of a handle is due, if it is set.
    pub fn due(&self, handle: usize) -> Option<Instant> {
        let place = self.place[handle];
        (place != NOWHERE).then(|| self.entry(place as usize).instant())
    }

    /// Reserves a place in the order of setting, for an event that is set later with
    /// [`Self::set_in_order`].
    pub(super) fn take_order(&mut self) -> Order {
        self.issued = (self.issued + 1) % (1 << ORDER_BITS);
        Order(self.issued)
    }

    /// Sets the event of a handle, or moves it.
    pub fn set(&mut self, handle: usize, at: Instant) {
        let order = self.take_order();
        self.set_in_order(handle, at, order);
    }

    /// Sets the event of a handle at a place in the order that was reserved before.
    pub(super) fn set_in_order(&mut self, handle: usize, at: Instant, order: Order) {
        let entry = Entry::new(at, order, handle);
        if self.has_hole && self.place[handle] != NOWHERE && entry < self.entry(0) {
            // The entry would move up above the gap.
            self.fill();
        }
        let place = self.place[handle];
        if place == NOWHERE && std::mem::take(&mut self.has_hole) {
            self.places().sink(0, entry);
        } else if place == NOWHERE {
            let last = self.count;
            self.count += 1;
            self.places().rise(last, entry);
        } else if entry < self.entry(place as usize) {
            self.places().rise(place as usize, entry);
        } else {
            self.places().sink(place as usize, entry);
        }
    }

    /// Whether the first event would still be the first at this time and place in the order.
    pub(super) fn would_be_next(&self, at: Instant, order: Order) -> bool {
        let entry = Entry::new(at, order, 0);
        self.second().is_none_or(|other| entry < other)
    }

    /// Removes the event of a handle, if it has one.
    pub fn cancel(&mut self, handle: usize) {
        let place = std::mem::replace(&mut self.place[handle], NOWHERE);
        if place != NOWHERE {
            self.take_out(place as usize);
        }
    }

    fn entry(&self, place: usize) -> Entry {
        self.heap[self.first..][place]
    }

    /// The next event after the one in the first place.
    fn second(&self) -> Option<Entry> {
        least_child(&self.heap[self.first..], self.count, 0).map(|(_, entry)| entry)
    }

    /// The parts that change when entries move, borrowed together.
    fn places(&mut self) -> Places<'_> {
        let heap = &mut self.heap[self.first..];
        Places { heap, count: self.count, place: &mut self.place }
    }

    fn take_out(&mut self, place: usize) {
        self.count -= 1;
        let mut places = self.places();
        let last = std::mem::replace(&mut places.heap[places.count], Entry::NEVER);
        if place == places.count {
            return;
        }
        if place > 0 && last < places.heap[(place - 1) / ARITY] {
            places.rise(place, last);
        } else {
            places.sink(place, last);
        }
    }
}

/// The entries in use, and the position of each handle's entry.
struct Places<'a> {
    heap: &'a mut [Entry],
    count: usize,
    place: &'a mut [u32],
}

impl Places<'_> {
    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            let above = self.heap[parent];
            if above < entry {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        while let Some((child, least)) = least_child(self.heap, self.count, place)
            && least < entry
        {
            self.put(place, least);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.place[entry.handle()] = place as u32;
    }
}

/// The least child of an entry, in a heap of `count` entries in use.
fn least_child(heap: &[Entry], count: usize, place: usize) -> Option<(usize, Entry)> {
    let first = place * ARITY + 1;
    if first >= count {
        return None;
    }
    let least = |a: (usize, Entry), b: (usize, Entry)| if b.1 < a.1 { b } else { a };
    let [a, b, c, d] = *heap[first..].first_chunk().expect("never fewer");
    Some(least(least((first, a), (first + 1, b)), least((first + 2, c), (first + 3, d))))
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use farhop_proto::base::Seed;

    use super::*;

    #[test]
    fn it_fires_like_a_binary_heap_with_lazy_cancellation() {
        const HANDLES: usize = 97;
        let mut rng = Seed(7).stream("queue");
        let mut queue = EventQueue::new(HANDLES);
        let mut oracle = BinaryHeap::new();
        let mut current = [None; HANDLES];
        let mut fired = 0;
        for order in 1..200_000_u64 {
            let handle = rng.below(HANDLES as u64) as usize;
            match rng.below(4) {
                0 => {
                    queue.cancel(handle);
                    current[handle] = None;
                    assert_eq!(queue.due(handle), None);
                }
                1 | 2 => {
                    // Few different times, so that the order of setting matters often.
                    let at = Instant::from_nanos(order / 16 + rng.below(40));
                    let order = queue.take_order();
                    queue.set_in_order(handle, at, order);
                    oracle.push(Reverse((at, order, handle)));
                    current[handle] = Some(order);
                    assert_eq!(queue.due(handle), Some(at));
                }
                _ => {
                    while oracle
                        .peek()
                        .is_some_and(|Reverse((_, order, handle))| current[*handle] != Some(*order))
                    {
                        oracle.pop();
                    }
                    let expected = oracle.pop().map(|Reverse((at, _, handle))| (at, handle));
                    assert_eq!(queue.peek(), expected);
                    assert_eq!(queue.next_at(), expected.map(|(at, _)| at));
                    if let Some((at, handle)) = expected {
                        if rng.chance(0.5) {
                            queue.cancel(handle);
                        } else {
                            assert_eq!(queue.take_due(at), expected);
                        }
                        current[handle] = None;
                        fired += 1;
                    }
                }
            }
        }
        assert!(fired > 10_000, "{fired} events fired");
    }

    #[test]
    fn the_children_of_an_entry_share_a_cache_line() {
        let mut queue = EventQueue::new(1);
        for handles in [1, 9, 10, 200, 5_000] {
            queue.grow(handles);
            let children = queue.heap[queue.first..][1..=ARITY].as_ptr();
            assert_eq!(children.addr() % LINE, 0, "{handles} handles");
        }
    }

    #[test]
    fn events_at_one_time_fire_in_the_order_of_setting() {
        let mut queue = EventQueue::new(8);
        let at = Instant::from_nanos(5);
        for handle in [3, 1, 7, 2] {
            queue.set(handle, at);
        }
        queue.set(1, at);
        let mut fired = Vec::new();
        while let Some((_, handle)) = queue.peek() {
            queue.cancel(handle);
            fired.push(handle);
        }
        assert_eq!(fired, [3, 7, 2, 1]);
    }
}
