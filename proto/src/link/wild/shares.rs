//! Divides a slot of a star among the stations, according to what each could use.

use crate::base::Duration;

/// What a station could use of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// The shortest turn that it must have.
    pub(super) least: Duration,
    /// The shortest turn that is worthwhile if it sends packets.
    pub(super) paying: Duration,
    /// Air time of one more packet, where packets are sent whole; 0 where any part of a turn can be
    /// filled.
    pub(super) packet: Duration,
    /// What it could fill, including its acknowledgements.
    pub(super) wanted: Duration,
}

/// Divides a time among several claims. Each gets its least, and then what it wants. If that is too
/// much, they get equal parts; if equal parts are too short to be worthwhile, the first claims get
/// what is worthwhile. Where packets are sent whole, the rest is given out as one more packet for
/// some of them, different ones in each round. What nobody wants is shared by all.
pub(super) fn share(left: Duration, claims: &[Claim], round: u32) -> Vec<Duration> {
    let all = claims.len() as u64;
    if all == 0 {
        return Vec::new();
    }
    let is_enough = claims.iter().map(|claim| claim.least).sum::<Duration>() <= left;
    let least = |at: usize| match is_enough {
        true => claims[at].least,
        false => claims[at].least.min(left / all),
    };
    let mut shares: Vec<Duration> = (0..claims.len()).map(least).collect();
    let more = |at: usize| claims[at].wanted.saturating_sub(least(at));
    let mut left = left.saturating_sub(shares.iter().copied().sum());
    let mut open: Vec<usize> = (0..claims.len()).filter(|at| !more(*at).is_zero()).collect();
    // A claim that wants less than a frame does not keep others from theirs.
    let first = |at: usize| more(at).min(claims[at].paying.saturating_sub(least(at)));
    let mut taken = Duration::ZERO;
    open.retain(|at| {
        let fits = taken + first(*at) <= left;
        taken += if fits { first(*at) } else { Duration::ZERO };
        fits
    });
    while !open.is_empty() {
        let part = left / open.len() as u64;
        // Each of the others keeps room for one frame.
        let spare = left.saturating_sub(open.iter().map(|at| first(*at)).sum());
        let needs_less =
            |at: &usize| more(*at) <= part && more(*at).saturating_sub(first(*at)) <= spare;
        // If a frame is longer than an equal part, its station gets room for one.
        let settled = match open.iter().position(needs_less) {
            Some(place) => Some((place, more(open[place]))),
            None => {
                let place = open.iter().position(|at| first(*at) > part);
                place.map(|place| (place, first(open[place])))
            }
        };
        if let Some((place, share)) = settled {
            shares[open.remove(place)] += share;
            left = left.saturating_sub(share);
            continue;
        }
        let packets: Vec<_> = open.iter().map(|at| (first(*at), claims[*at].packet)).collect();
        for (at, part) in open.iter().zip(parts(left, &packets, round)) {
            shares[*at] += part;
            left = left.saturating_sub(part);
        }
        break;
    }
    shares.iter_mut().for_each(|share| *share += left / all);
    shares
}

/// Equal parts of a time, each rounded down to a first packet and further packets (`packets` gives
/// their air times); not rounded where the time of a further packet is 0.
fn parts(left: Duration, packets: &[(Duration, Duration)], round: u32) -> Vec<Duration> {
    let part = left / packets.len().max(1) as u64;
    let whole = |(first, packet): &(Duration, Duration)| match *packet {
        Duration::ZERO => part,
        packet => *first + packet * part.saturating_sub(*first).div_duration(packet),
    };
    let mut parts: Vec<Duration> = packets.iter().map(whole).collect();
    let mut left = left.saturating_sub(parts.iter().copied().sum());
    // Where the additional packets begin: at each station equally often, whatever their order
    // (Fibonacci hashing, Knuth, volume 3, 6.4).
    let begins = (round.wrapping_mul(0x9e37_79b1) >> 16) as usize;
    for place in 0..packets.len() {
        let at = (place + begins) % packets.len();
        let packet = packets[at].1;
        let more = if packet <= left { packet } else { Duration::ZERO };
        parts[at] += more;
        left = left.saturating_sub(more);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Claims by least, paying and wanted, in milliseconds; each further packet takes `packet`.
    fn claims<const N: usize>(packet: u64, of: [(u64, u64, u64); N]) -> [Claim; N] {
        of.map(|(least, paying, wanted)| Claim {
            least: ms(least),
            paying: ms(paying),
            packet: ms(packet),
            wanted: ms(wanted),
        })
    }

    #[test]
    fn whoever_wants_little_gets_it_and_the_others_share_the_rest() {
        let shares = share(ms(18), &claims(0, [(1, 3, 2), (1, 3, 60), (1, 3, 60)]), 0);
        assert_eq!(shares, [ms(2), ms(8), ms(8)]);
    }

    #[test]
    fn what_nobody_wants_is_for_all() {
        let shares = share(ms(18), &claims(0, [(1, 3, 0), (1, 3, 4)]), 0);
        assert_eq!(shares, [7_500, 10_500].map(Duration::from_micros));
    }

    #[test]
    fn whose_packets_are_longer_than_an_equal_part_has_place_for_one() {
        let all = claims(0, [(2, 8, 60), (1, 2, 60), (1, 2, 60)]);
        assert_eq!(share(ms(18), &all, 0), [ms(8), ms(5), ms(5)]);
        // Otherwise all get equal parts.
        assert_eq!(share(ms(25), &all, 0), [ms(9), ms(8), ms(8)]);
    }

    #[test]
    fn no_more_is_given_out_than_there_is() {
        let shares = share(ms(10), &claims(0, [(0, 1, 5), (0, 6, 60)]), 0);
        assert_eq!(shares, [ms(4), ms(6)]);
        for seed in 0..2_000_u64 {
            let number = |at: u64, most: u64| (seed * 7 + at) * 2_654_435_761 % 4_093 % most;
            let of = [0, 1, 2, 3].map(|at| {
                (number(at, 4), number(at + 4, 9), number(at + 8, 30) + number(at + 12, 30))
            });
            let (left, all) = (ms(8 + number(16, 20)), claims(number(17, 3), of));
            let given: Duration = share(left, &all, seed as u32).into_iter().sum();
            assert!(given <= left, "{given:?} of {left:?}: {all:?}");
        }
    }

    #[test]
    fn where_not_all_can_send_a_packet_the_first_ones_do() {
        let shares = share(ms(9), &claims(0, [(1, 3, 9); 5]), 0);
        assert_eq!(shares, [ms(3), ms(3), ms(1), ms(1), ms(1)]);
    }

    #[test]
    fn where_packets_go_whole_no_part_of_one_is_given() {
        let of = |left| share(ms(left), &claims(2, [(1, 2, 60); 4]), 0);
        // Two packets for each, and one more for the first.
        assert_eq!(of(18), [ms(6), ms(4), ms(4), ms(4)]);
        assert_eq!(of(12), [ms(4), ms(4), ms(2), ms(2)]);
        let mut extra = [0; 4];
        for round in 0..4_000 {
            let shares = share(ms(18), &claims(2, [(1, 2, 60); 4]), round);
            (0..4).filter(|at| shares[*at] == ms(6)).for_each(|at| extra[at] += 1);
        }
        assert!(extra.iter().all(|times| (950..1_050).contains(times)), "{extra:?}");
        // A rest that is shorter than a packet is shared by all.
        assert_eq!(of(9), [Duration::from_micros(2_250); 4]);
    }
}
