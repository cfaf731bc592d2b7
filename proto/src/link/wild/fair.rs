//! Who is next of several that share the air: start-time fair queueing (Goyal, Vin and Cheng 1996).
//!
//! Everyone who has something to send gets the same air time, however long its frames are. The
//! neighbours of a radio are served so, and the flows to a neighbour: a call beside downloads waits
//! for one frame, not for one of each.

use std::collections::VecDeque;

use crate::base::Duration;

/// Some that take turns, as indices; the first is the one whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Line {
    places: VecDeque<Place>,
    /// Virtual time: that of the last one served, when its turn began.
    now: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    who: usize,
    /// Virtual time: the air that it has had.
    had: Duration,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Who is so many turns behind the first.
    pub(super) fn get(&self, turn: usize) -> Option<usize> {
        Some(self.places.get(turn)?.who)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &usize> {
        self.places.iter().map(|place| &place.who)
    }

    /// Somebody comes who `had` so much when it left. What was not used meanwhile is not made up
    /// for.
    pub(super) fn join(&mut self, who: usize, had: Duration) {
        let had = had.max(self.now);
        let at = self.places.partition_point(|other| other.had <= had);
        self.places.insert(at, Place { who, had });
    }

    /// The same, behind the one whose turn it is.
    pub(super) fn join_behind_first(&mut self, who: usize, had: Duration) {
        let first = self.places.front().map_or(self.now, |first| first.had);
        self.join(who, had.max(first));
    }

    /// Takes somebody out; who it is, and what it had.
    pub(super) fn leave(&mut self, turn: usize) -> Option<(usize, Duration)> {
        self.places.remove(turn).map(|place| (place.who, place.had))
    }

    /// Who is at `turn` is served, and has `air` of it. Of those before it, who is at `first` is
    /// the first that has something to send, though nothing that would still have fitted: that is
    /// made up for.
    pub(super) fn serve(&mut self, turn: usize, air: Duration, first: usize) {
        let waited = self.places.get(first).map(|place| place.had);
        let Some((who, had)) = self.leave(turn) else { return };
        let had = had.max(self.now);
        self.now = self.now.max(waited.map_or(had, |waited| had.min(waited)));
        self.join(who, had + air);
    }

    /// Who is at `turn` has some air besides: with the frame that was served last, be it its own or
    /// that of another.
    pub(super) fn charge(&mut self, turn: usize, air: Duration) {
        let Some((who, had)) = self.leave(turn) else { return };
        self.join(who, had + air);
    }

    /// Of what somebody was served, so much has not gone. Nobody who had as much comes before it.
    pub(super) fn give_back(&mut self, who: usize, air: Duration) {
        let Some((who, had)) = self.turn_of(who).and_then(|turn| self.leave(turn)) else { return };
        let had = had.saturating_sub(air);
        self.now = self.now.min(had);
        let at = self.places.partition_point(|other| other.had < had);
        self.places.insert(at, Place { who, had });
    }

    /// How many turns somebody is behind the first.
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

    /// Frames that each gets of `frames`, if those of `who` take so many milliseconds; nothing of
    /// somebody who has nothing to send.
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
        // One that left and comes back as well.
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
            // Every fifth place holds a short one only, which is that of the other.
            let fits = |who: usize| frame % 5 > 0 || who == 1;
            let turn = (0..2).find(|turn| fits(line.get(*turn).expect("two"))).expect("one fits");
            let who = line.get(turn).expect("it is there");
            line.serve(turn, ms([6, 1][who]), 0);
            had[who] += [6, 1][who];
        }
        assert!((had[0] - had[1]).abs() <= 12, "{had:?}");
    }
}
