//! Decides who is next of several that share the air: start-time fair queueing (Goyal, Vin and
//! Cheng 1996).
//!
//! Everyone that has something to send gets the same air time, however long its frames are. The
//! neighbours of a radio are served this way, and so are the flows to a neighbour: a call beside
//! downloads waits for one frame, not for one frame of each download.

use std::collections::VecDeque;

use crate::base::Duration;

/// Several that take turns, as indices; the first one is next.
#[derive(Debug, Default)]
pub(super) struct Line {
    places: VecDeque<Place>,
    /// Virtual time: the start tag of the one served last.
    now: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    who: usize,
    /// Virtual time: the air time that it has been charged.
    had: Duration,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Who is `turn` places behind the first.
    pub(super) fn get(&self, turn: usize) -> Option<usize> {
        Some(self.places.get(turn)?.who)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &usize> {
        self.places.iter().map(|place| &place.who)
    }

    /// Adds `who`, which had been charged `had` when it left. Air time that it did not use
    /// meanwhile is not compensated.
    pub(super) fn join(&mut self, who: usize, had: Duration) {
        let had = had.max(self.now);
        let at = self.places.partition_point(|other| other.had <= had);
        self.places.insert(at, Place { who, had });
    }

    /// The same, but behind the one that is next.
    pub(super) fn join_behind_first(&mut self, who: usize, had: Duration) {
        let first = self.places.front().map_or(self.now, |first| first.had);
        self.join(who, had.max(first));
    }

    /// Removes the one at `turn`; returns who it is and what it has been charged.
    pub(super) fn leave(&mut self, turn: usize) -> Option<(usize, Duration)> {
        self.places.remove(turn).map(|place| (place.who, place.had))
    }

    /// The one at `turn` is served and charged `air`. `first` is the first one before it that has
    /// something to send, though nothing that would still have fitted: that is compensated, because
    /// the virtual time does not advance beyond it.
    pub(super) fn serve(&mut self, turn: usize, air: Duration, first: usize) {
        let waited = self.places.get(first).map(|place| place.had);
        let Some((who, had)) = self.leave(turn) else { return };
        let had = had.max(self.now);
        self.now = self.now.max(waited.map_or(had, |waited| had.min(waited)));
        self.join(who, had + air);
    }

    /// Charges the one at `turn` additional air time: for the frame that was served last, whether
    /// that was its own or another's.
    pub(super) fn charge(&mut self, turn: usize, air: Duration) {
        let Some((who, had)) = self.leave(turn) else { return };
        self.join(who, had + air);
    }

    /// Returns `air` to one whose frame was not sent. It comes before all others charged as much.
    pub(super) fn give_back(&mut self, who: usize, air: Duration) {
        let Some((who, had)) = self.turn_of(who).and_then(|turn| self.leave(turn)) else { return };
        let had = had.saturating_sub(air);
        self.now = self.now.min(had);
        let at = self.places.partition_point(|other| other.had < had);
        self.places.insert(at, Place { who, had });
    }

    /// How many places somebody is behind the first.
    pub(super) fn turn_of(&self, who: usize) -> Option<usize> {
        self.iter().position(|other| *other == who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn line(many: usize) -> Line {
        let mut line = Line::default();
        (0..many).for_each(|who| line.join(who, Duration::ZERO));
        line
    }

    /// How many of `frames` frames each one gets, if its frames take `lengths` milliseconds; `None`
    /// has nothing to send.
    fn shares(line: &mut Line, lengths: &[Option<u64>], frames: usize) -> Vec<usize> {
        let mut had = vec![0; lengths.len()];
        for _ in 0..frames {
            let is_busy = |who: &usize| lengths[*who].is_some();
            let turn = line.iter().position(is_busy).expect("somebody is busy");
            let who = line.get(turn).expect("it is there");
            line.serve(turn, ms(lengths[who].expect("it is busy")), turn);
            had[who] += 1;
        }
        had
    }

    #[test]
    fn all_get_the_same_air_however_long_their_frames_are() {
        let had = shares(&mut line(3), &[Some(1), Some(4), Some(2)], 700);
        assert_eq!(had, [400, 100, 200]);
    }

    #[test]
    fn whoever_was_silent_is_next_and_makes_nothing_up() {
        let mut line = line(3);
        shares(&mut line, &[Some(1), Some(1), None], 200);
        assert_eq!(line.get(0), Some(2));
        assert_eq!(shares(&mut line, &[Some(1), Some(1), Some(1)], 30), [10, 10, 10]);
        // The same for one that left and comes back.
        let (who, had) = line.leave(0).expect("somebody");
        let mut lengths = [Some(1); 3];
        lengths[who] = None;
        shares(&mut line, &lengths, 200);
        line.join(who, had);
        let had = shares(&mut line, &[Some(1); 3], 30);
        assert!(had.iter().all(|frames| (9..=11).contains(frames)), "{had:?}");
    }

    #[test]
    fn whoever_joins_behind_the_first_comes_before_all_others() {
        let mut line = Line::default();
        for (who, had) in [(0, 1), (1, 5), (2, 7)] {
            line.join(who, ms(had));
        }
        line.join_behind_first(3, Duration::ZERO);
        assert_eq!(line.iter().copied().collect::<Vec<_>>(), [0, 3, 1, 2]);
    }

    #[test]
    fn what_did_not_go_is_not_counted_and_what_goes_along_is() {
        let mut line = line(2);
        line.serve(0, ms(3), 0);
        assert_eq!(line.iter().copied().collect::<Vec<_>>(), [1, 0]);
        line.give_back(0, ms(3));
        assert_eq!(line.get(0), Some(0));
        line.charge(0, ms(5));
        assert_eq!(shares(&mut line, &[Some(1), Some(1)], 5), [0, 5]);
    }

    #[test]
    fn whose_frames_do_not_fit_in_the_end_is_made_up_for() {
        let (mut line, mut had) = (line(2), [0_i64; 2]);
        for frame in 0..1_000 {
            // Every fifth place has room only for a short frame, which is the other's.
            let fits = |who: usize| frame % 5 > 0 || who == 1;
            let turn = (0..2).find(|turn| fits(line.get(*turn).expect("two"))).expect("one fits");
            let who = line.get(turn).expect("it is there");
            line.serve(turn, ms([6, 1][who]), 0);
            had[who] += [6, 1][who];
        }
        assert!((had[0] - had[1]).abs() <= 12, "{had:?}");
    }
}
