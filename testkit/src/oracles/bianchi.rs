//! Bianchi's model of saturated stations under DCF (`radio.md` 12; Bianchi, JSAC 2000).
//!
//! `n` stations that hear each other always have a frame to send. Each sends in a slot with
//! probability `tau`, which follows from the probability `p` that its frame meets another; the two
//! equations have one solution, found by bisection. Retries have no limit.

/// A saturated cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bianchi {
    /// Number of stations.
    pub stations: u32,
    /// Smallest contention window, for example 31.
    pub cw_min: u32,
    /// Largest contention window, for example 1023.
    pub cw_max: u32,
    /// Slot time, in microseconds.
    pub slot_us: f64,
    /// How long a successful exchange keeps the medium, DIFS included, in microseconds.
    pub success_us: f64,
    /// How long a collision keeps the medium, DIFS or EIFS included, in microseconds.
    pub collision_us: f64,
    /// Payload of a frame, in bytes.
    pub payload_bytes: f64,
}

/// The result for a saturated cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// Probability that a station sends in a slot.
    pub tau: f64,
    /// Probability that a transmission collides.
    pub collision: f64,
    /// Payload delivered by all stations together, in Mb/s.
    pub mbps: f64,
}

impl Bianchi {
    /// Solves the model, which has one solution.
    pub fn solve(&self) -> Saturation {
        let others = self.stations.saturating_sub(1) as i32;
        let collision_of = |tau: f64| 1.0 - (1.0 - tau).powi(others);
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..100 {
            let p = (low + high) / 2.0;
            if collision_of(self.tau(p)) > p {
                low = p;
            } else {
                high = p;
            }
        }
        let tau = self.tau(low);
        Saturation { tau, collision: collision_of(tau), mbps: self.mbps(tau) }
    }

    /// The probability to send in a slot if transmissions collide with probability `p`.
    fn tau(&self, p: f64) -> f64 {
        let window = f64::from(self.cw_min) + 1.0;
        let stages = (f64::from(self.cw_max) + 1.0) / window;
        // (1 - (2p)^m) / (1 - 2p) as the sum that it equals, so that p = 1/2 needs no special case.
        let sum: f64 = (0..stages.log2().round() as i32).map(|stage| (2.0 * p).powi(stage)).sum();
        2.0 / (1.0 + window + p * window * sum)
    }

    fn mbps(&self, tau: f64) -> f64 {
        let idle = (1.0 - tau).powi(self.stations as i32);
        let success = f64::from(self.stations) * tau * (1.0 - tau).powi(self.stations as i32 - 1);
        let collision = 1.0 - idle - success;
        let slot = idle * self.slot_us + success * self.success_us + collision * self.collision_us;
        success * self.payload_bytes * 8.0 / slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATIONS: [u32; 6] = [1, 2, 5, 10, 20, 50];

    /// 1500 bytes of IP over 1 us: 802.11b at 11 Mb/s, acknowledged at 2 Mb/s.
    fn b(stations: u32, data_us: f64, ack_us: f64, after_collision_us: f64) -> Saturation {
        let cell = Bianchi {
            stations,
            cw_min: 31,
            cw_max: 1023,
            slot_us: 20.0,
            success_us: data_us + 10.0 + ack_us + 50.0 + 2.0,
            collision_us: data_us + after_collision_us + 1.0,
            payload_bytes: 1500.0,
        };
        cell.solve()
    }

    fn a(stations: u32, after_collision_us: f64) -> Saturation {
        let cell = Bianchi {
            stations,
            cw_min: 15,
            cw_max: 1023,
            slot_us: 9.0,
            success_us: 248.0 + 16.0 + 28.0 + 34.0 + 2.0,
            collision_us: 248.0 + after_collision_us + 1.0,
            payload_bytes: 1500.0,
        };
        cell.solve()
    }

    /// Asserts that a row is within one unit of the last digit that the sheet prints.
    fn is_row(row: impl Fn(u32) -> f64, expected: [f64; 6], digit: f64) {
        for (stations, expected) in STATIONS.into_iter().zip(expected) {
            let ours = row(stations);
            assert!((ours - expected).abs() <= digit, "{stations}: {ours} {expected}");
        }
    }

    #[test]
    fn the_rows_of_the_sheet_for_802_11b_come_out() {
        let short = |after| move |n| b(n, 1214.0, 152.0, after).mbps;
        is_row(short(50.0), [6.91, 7.36, 7.32, 6.96, 6.49, 5.76], 0.01);
        is_row(short(364.0), [6.91, 7.32, 7.17, 6.72, 6.17, 5.35], 0.01);
        let long = |after| move |n| b(n, 1310.0, 248.0, after).mbps;
        is_row(long(50.0), [6.22, 6.57, 6.51, 6.20, 5.79, 5.16], 0.01);
        is_row(long(364.0), [6.22, 6.54, 6.40, 6.01, 5.54, 4.84], 0.01);
    }

    #[test]
    fn the_rows_of_the_sheet_for_802_11a_come_out() {
        is_row(|n| a(n, 34.0).mbps, [30.3, 31.3, 29.9, 28.1, 26.2, 23.3], 0.1);
        is_row(|n| a(n, 16.0 + 34.0 + 44.0).mbps, [30.3, 31.0, 29.2, 27.0, 24.8, 21.7], 0.1);
    }

    #[test]
    fn collisions_do_not_depend_on_how_long_they_last() {
        let expected = [0.0, 0.057, 0.178, 0.290, 0.399, 0.532];
        is_row(|n| b(n, 1214.0, 152.0, 50.0).collision, expected, 0.001);
        is_row(|n| b(n, 1310.0, 248.0, 364.0).collision, expected, 0.001);
    }
}
