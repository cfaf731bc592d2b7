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

/// Sixteen bytes, so that the four children of an entry share a cache line.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    /// Order of setting among entries of one time. It wraps: two entries of one time that were
    /// set two billion settings apart do not meet.
    order: u32,
    handle: u32,
}

impl Entry {
    fn is_before(&self, other: &Self) -> bool {
        if self.at == other.at {
            self.order.wrapping_sub(other.order) > u32::MAX / 2
        } else {
            self.at < other.at
        }
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.at)
    }
}

/// Future events by handle.
#[derive(Clone, Debug)]
pub struct EventQueue {
    heap: Vec<Entry>,
    /// Where each handle stands in `heap`.
    place: Vec<u32>,
    issued: u32,
}

impl EventQueue {
    /// An empty queue for the handles `0..handles`.
    pub fn new(handles: usize) -> Self {
        assert!(handles < NOWHERE as usize, "too many event handles");
        Self { heap: Vec::with_capacity(handles), place: vec![NOWHERE; handles], issued: 0 }
    }

    /// Adds handles, up to `handles` in all.
    pub fn grow(&mut self, handles: usize) {
        assert!(handles < NOWHERE as usize, "too many event handles");
        if handles > self.place.len() {
            self.place.resize(handles, NOWHERE);
        }
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.first().map(Entry::instant)
    }

    /// The next event, which stays in the queue until it is cancelled or set again.
    pub fn peek(&self) -> Option<(Instant, usize)> {
        self.heap.first().map(|entry| (entry.instant(), entry.handle as usize))
    }

    /// When the event of a handle is due.
    pub fn due(&self, handle: usize) -> Option<Instant> {
        let place = self.place[handle];
        (place != NOWHERE).then(|| self.heap[place as usize].instant())
    }

    /// A place in the order of setting, for an event that is set later with
    /// [`Self::set_in_order`].
    pub fn take_order(&mut self) -> u32 {
        self.issued = self.issued.wrapping_add(1);
        self.issued
    }

    /// Sets the event of a handle, or moves it.
    pub fn set(&mut self, handle: usize, at: Instant) {
        let order = self.take_order();
        self.set_in_order(handle, at, order);
    }

    /// Sets the event of a handle with a place in the order that was taken before.
    pub fn set_in_order(&mut self, handle: usize, at: Instant, order: u32) {
        let entry = Entry { at: at.as_nanos(), order, handle: handle as u32 };
        let place = self.place[handle];
        if place == NOWHERE {
            self.heap.push(entry);
            self.rise(self.heap.len() - 1, entry);
        } else if entry.is_before(&self.heap[place as usize]) {
            self.rise(place as usize, entry);
        } else {
            self.sink(place as usize, entry);
        }
    }

    /// Removes the event of a handle, if it has one.
    pub fn cancel(&mut self, handle: usize) {
        let place = self.place[handle];
        if place == NOWHERE {
            return;
        }
        self.place[handle] = NOWHERE;
        let last = self.heap.pop().expect("a handle has a place in a heap that is not empty");
        let place = place as usize;
        if place == self.heap.len() {
            return;
        }
        if place > 0 && last.is_before(&self.heap[(place - 1) / ARITY]) {
            self.rise(place, last);
        } else {
            self.sink(place, last);
        }
    }

    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if !entry.is_before(&self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        let len = self.heap.len();
        loop {
            let first = place * ARITY + 1;
            if first >= len {
                break;
            }
            let mut least = first;
            for child in first + 1..(first + ARITY).min(len) {
                if self.heap[child].is_before(&self.heap[least]) {
                    least = child;
                }
            }
            if !self.heap[least].is_before(&entry) {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.place[entry.handle as usize] = place as u32;
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
        let mut current = [0_u32; HANDLES];
        let mut fired = 0;
        for order in 1..200_000_u64 {
            let handle = rng.below(HANDLES as u64) as usize;
            match rng.below(4) {
                0 => {
                    queue.cancel(handle);
                    current[handle] = 0;
                    assert_eq!(queue.due(handle), None);
                }
                1 | 2 => {
                    // Few different times, so that the order of setting matters often.
                    let at = Instant::from_nanos(order / 16 + rng.below(40));
                    let order = queue.take_order();
                    queue.set_in_order(handle, at, order);
                    oracle.push(Reverse((at, order, handle)));
                    current[handle] = order;
                    assert_eq!(queue.due(handle), Some(at));
                }
                _ => {
                    while oracle
                        .peek()
                        .is_some_and(|Reverse((_, order, handle))| current[*handle] != *order)
                    {
                        oracle.pop();
                    }
                    let expected = oracle.pop().map(|Reverse((at, _, handle))| (at, handle));
                    assert_eq!(queue.peek(), expected);
                    assert_eq!(queue.next_at(), expected.map(|(at, _)| at));
                    if let Some((_, handle)) = expected {
                        queue.cancel(handle);
                        current[handle] = 0;
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
