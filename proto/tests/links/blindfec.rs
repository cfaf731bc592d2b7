//! Stories of blind coding.

use farhop_proto::base::{Duration, Instant, Seed};
use farhop_proto::link::blindfec::{BlindFec, BlindFecConfig};
use farhop_proto::link::wild::residual;
use farhop_testkit::{Pair, PairConfig, Source};

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// Loss that is left of a saturated flow, and packets sent.
fn left(config: &BlindFecConfig, loss: f64, every: Duration) -> (f64, usize) {
    let pipe = PairConfig { half_duplex: false, ..PairConfig::with_loss(loss) };
    let mut pair = Pair::build(pipe, |node, radio, _| {
        BlindFec::build(config, node, std::slice::from_ref(radio), Seed(5))
    });
    pair.add(Source { bytes: 300, every, ..Source::saturated(0, 1, secs(30.0)) });
    pair.run_until(secs(31.0));
    let (sent, came) = (pair.ledger.sent(0, 1), pair.ledger.received(0, 1).len());
    (1.0 - came as f64 / sent as f64, sent)
}

#[test]
fn of_eight_packets_in_twelve_frames_as_much_is_lost_as_computed() {
    let (left, sent) = left(&BlindFecConfig::default(), 0.2, Duration::ZERO);
    let expected = residual(8, 12, 0.2);
    assert!((left / expected - 1.0).abs() < 0.15, "{left} of {sent}, {expected} computed");
}

#[test]
fn a_block_that_does_not_fill_up_is_protected_all_the_same() {
    // A packet each 30 ms stands alone in its block: it goes out twice.
    let (left, sent) = left(&BlindFecConfig::default(), 0.2, Duration::from_millis(30));
    assert!((left - 0.04).abs() < 0.02, "{left} of {sent}");
}
