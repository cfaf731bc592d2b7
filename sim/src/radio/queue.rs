//! The queue of future events: an indexed 4-ary heap whose entries can be moved and cancelled.
//!
//! Each thing that can happen has a fixed handle (a timer of a radio, the next edge on a link), so
//! there is at most one entry for each, no allocation after the first rounds, and no dead entries.
//! Events at the same time fire in the order in which they were set. A plain binary heap with lazy
//! cancellation is about as fast, but keeps the dead entries of cancelled timers.

use farhop_proto::base::Instant;

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;
/// Children of an entry.
const ARITY: usize = 4;
/// Place of the first entry, the last of its line: so the lines after it are whole families.
const TOP: usize = ARITY - 1;

/// The time, the place in the order of setting and the handle, from the highest bits to the lowest:
/// one comparison of whole numbers, and the four children of an entry fit a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

const HANDLE_BITS: u32 = 24;
const ORDER_BITS: u32 = 40;

/// A place in the order of setting. It wraps after months of simulated traffic: two events of one
/// time are then in the order of their numbers all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order(u64);

impl Entry {
    /// After all others.
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

/// Entries with one parent, in one cache line. Those that are missing never come.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Family([Entry; ARITY]);

impl Family {
    const EMPTY: Self = Self([Entry::NEVER; ARITY]);
}

/// The places of the children of an entry begin here, and are one family.
const fn children(place: usize) -> usize {
    (place - TOP + 1) * ARITY
}

/// The place of the parent of an entry.
const fn parent(place: usize) -> usize {
    place / ARITY - 1 + TOP
}

/// Future events by handle.
#[derive(Clone, Debug)]
pub struct EventQueue {
    /// The entries by their places from [`TOP`] on.
    heap: Vec<Family>,
    /// Behind the place of the last entry.
    end: usize,
    /// Where each handle stands in `heap`.
    place: Vec<u32>,
    issued: u64,
    /// The first entry has been taken, and nothing has come in its place yet. It is still before
    /// all others.
    has_hole: bool,
}

impl EventQueue {
    /// An empty queue for the handles `0..handles`.
    pub fn new(handles: usize) -> Self {
        let mut queue =
            Self { heap: Vec::new(), end: TOP, place: Vec::new(), issued: 0, has_hole: false };
        queue.grow(handles);
        queue
    }

    /// Adds handles, up to `handles` in all.
    pub fn grow(&mut self, handles: usize) {
        assert!(handles <= 1 << HANDLE_BITS, "too many event handles");
        if handles >= self.place.len() {
            self.place.resize(handles, NOWHERE);
            self.heap.resize((TOP + handles).div_ceil(ARITY).max(1), Family::EMPTY);
        }
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<Instant> {
        self.peek().map(|(at, _)| at)
    }

    /// The next event, which stays in the queue until it is cancelled or set again.
    pub fn peek(&self) -> Option<(Instant, usize)> {
        let first = match self.has_hole {
            true => self.least_child(TOP).map(|(_, entry)| entry),
            false => (self.end > TOP).then(|| self.entry(TOP)),
        };
        first.map(|entry| (entry.instant(), entry.handle()))
    }

    /// Takes the next event if it is due at `limit` or before. As a rule another is set soon after,
    /// and takes its place in the heap.
    pub fn take_due(&mut self, limit: Instant) -> Option<(Instant, usize)> {
        self.fill();
        let first = self.entry(TOP);
        if self.end == TOP || first.instant() > limit {
            return None;
        }
        self.take_first(first.handle());
        Some((first.instant(), first.handle()))
    }

    /// The same of the event of `handle`, which is the next.
    pub(super) fn take_first(&mut self, handle: usize) {
        debug_assert_eq!(self.place[handle], TOP as u32, "the next event");
        self.place[handle] = NOWHERE;
        self.has_hole = true;
    }

    /// Closes the gap that was left at the top.
    pub(super) fn fill(&mut self) {
        if std::mem::take(&mut self.has_hole) {
            self.take_out(TOP);
        }
    }

    /// When the event of a handle is due.
    pub fn due(&self, handle: usize) -> Option<Instant> {
        let place = self.place[handle];
        (place != NOWHERE).then(|| self.entry(place as usize).instant())
    }

    /// A place in the order of setting, for an event that is set later with
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

    /// Sets the event of a handle with a place in the order that was taken before.
    pub(super) fn set_in_order(&mut self, handle: usize, at: Instant, order: Order) {
        let entry = Entry::new(at, order, handle);
        if self.has_hole && self.place[handle] != NOWHERE && entry < self.entry(TOP) {
            // It would rise above the gap.
            self.fill();
        }
        let place = self.place[handle];
        if place == NOWHERE && std::mem::take(&mut self.has_hole) {
            self.sink(TOP, entry);
        } else if place == NOWHERE {
            self.end += 1;
            self.rise(self.end - 1, entry);
        } else if entry < self.entry(place as usize) {
            self.rise(place as usize, entry);
        } else {
            self.sink(place as usize, entry);
        }
    }

    /// Whether the next event would still be the next if it moved to this time.
    pub(super) fn would_be_next(&self, at: Instant, order: Order) -> bool {
        let entry = Entry::new(at, order, 0);
        self.least_child(TOP).is_none_or(|(_, other)| entry < other)
    }

    /// Removes the event of a handle, if it has one.
    pub fn cancel(&mut self, handle: usize) {
        let place = std::mem::replace(&mut self.place[handle], NOWHERE);
        if place != NOWHERE {
            self.take_out(place as usize);
        }
    }

    fn take_out(&mut self, place: usize) {
        self.end -= 1;
        let last = std::mem::replace(self.entry_mut(self.end), Entry::NEVER);
        if place == self.end {
            return;
        }
        if place > TOP && last < self.entry(parent(place)) {
            self.rise(place, last);
        } else {
            self.sink(place, last);
        }
    }

    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > TOP {
            let above = self.entry(parent(place));
            if above < entry {
                break;
            }
            self.put(place, above);
            place = parent(place);
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        while let Some((child, least)) = self.least_child(place)
            && least < entry
        {
            self.put(place, least);
            place = child;
        }
        self.put(place, entry);
    }

    fn least_child(&self, place: usize) -> Option<(usize, Entry)> {
        let first = children(place);
        if first >= self.end {
            return None;
        }
        let least = |a: (usize, Entry), b: (usize, Entry)| if b.1 < a.1 { b } else { a };
        let Family([a, b, c, d]) = self.heap[first / ARITY];
        Some(least(least((first, a), (first + 1, b)), least((first + 2, c), (first + 3, d))))
    }

    fn entry(&self, place: usize) -> Entry {
        self.heap[place / ARITY].0[place % ARITY]
    }

    fn entry_mut(&mut self, place: usize) -> &mut Entry {
        &mut self.heap[place / ARITY].0[place % ARITY]
    }

    fn put(&mut self, place: usize, entry: Entry) {
        *self.entry_mut(place) = entry;
        self.place[entry.handle()] = place as u32;
    }
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
