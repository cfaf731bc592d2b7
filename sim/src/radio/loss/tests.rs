//! Long-run means, bursts, and what each process depends on.

use farhop_proto::base::{Phy, Seed};

use super::*;

const AIR: Duration = Duration::from_millis(1);

const FRAME: Exposed = Exposed {
    start: Instant::ZERO,
    length: AIR,
    plcp: Duration::from_micros(192),
    bytes: 1500,
    rate: Bitrate::from_100kbps(110),
};

fn fates(model: &LossModel, frames: u64, apart: Duration, frame: Exposed) -> Vec<Fate> {
    let mut process = model.build(Seed(3).stream("loss"));
    let start = |number: u64| Instant::from_nanos(number * apart.as_nanos());
    (0..frames).map(|number| process.lost(&Exposed { start: start(number), ..frame })).collect()
}

fn losses(model: &LossModel, frames: u64, apart: Duration) -> Vec<bool> {
    fates(model, frames, apart, FRAME).into_iter().map(|fate| fate != Fate::Ok).collect()
}

fn share(losses: &[bool]) -> f64 {
    losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
}

/// The share of lost frames, and the mean length of a run of them.
fn share_and_burst(losses: &[bool]) -> (f64, f64) {
    let bursts = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let lost = losses.iter().filter(|lost| **lost).count();
    (share(losses), lost as f64 / bursts as f64)
}

#[test]
fn bernoulli_loses_its_share() {
    let losses = losses(&LossModel::Bernoulli { p: 0.1 }, 400_000, AIR);
    assert!((share(&losses) - 0.1).abs() < 0.002, "{}", share(&losses));
}

#[test]
fn a_frame_is_lost_with_any_of_its_units() {
    let model = LossModel::Units { p: 0.01, bytes: 100 };
    assert!((model.mean(&FRAME) - (1.0 - 0.99_f64.powi(15))).abs() < 1e-12);
    for bytes in [50, 1500] {
        let frame = Exposed { bytes, ..FRAME };
        let lost = fates(&model, 200_000, AIR, frame);
        let share = lost.iter().filter(|fate| **fate != Fate::Ok).count() as f64 / 200_000.0;
        assert!((share - model.mean(&frame)).abs() < 0.003, "{share}");
    }
}

#[test]
fn gilbert_elliott_has_the_long_run_loss_and_bursts_of_its_bad_stays() {
    let (good, bad) = (Duration::from_millis(90), Duration::from_millis(10));
    let model = LossModel::GilbertElliott { good, bad, good_loss: 0.0, bad_loss: 1.0 };
    assert!((model.mean(&FRAME) - 0.1).abs() < 1e-12);
    let (share, burst) = share_and_burst(&losses(&model, 4_000_000, Duration::from_micros(100)));
    assert!((share - 0.1).abs() < 0.005, "{share}");
    // A bad sojourn of 10 ms covers 100 frames that start 100 us apart. Sojourns that fall between
    // two frames are not observed, so observed bursts are a little longer.
    assert!((burst / 100.5 - 1.0).abs() < 0.05, "a burst is {burst} frames");
}

#[test]
fn gilbert_elliott_keeps_its_loss_over_long_silences() {
    let (good, bad) = (Duration::from_millis(3), Duration::from_millis(1));
    let model = LossModel::GilbertElliott { good, bad, good_loss: 0.1, bad_loss: 0.9 };
    for apart in [Duration::from_millis(2), Duration::from_secs(60)] {
        let share = share(&losses(&model, 200_000, apart));
        assert!((share - 0.3).abs() < 0.006, "{share} with frames {apart} apart");
    }
}

#[test]
fn gilbert_elliott_by_frame_does_not_care_for_time() {
    let model = LossModel::GilbertElliottFrames {
        to_bad: 0.01,
        to_good: 0.1,
        good_loss: 0.0,
        bad_loss: 1.0,
    };
    let near = losses(&model, 1_000_000, AIR);
    assert_eq!(near, losses(&model, 1_000_000, Duration::from_secs(1)));
    let (share, burst) = share_and_burst(&near);
    assert!((share - 1.0 / 11.0).abs() < 0.003, "{share}");
    assert!((share - model.mean(&FRAME)).abs() < 0.003);
    assert!((burst - 10.0).abs() < 0.3, "{burst}");
}

#[test]
fn runs_of_lost_frames_are_as_long_as_measured() {
    let points = [(1, 0.5), (2, 0.7), (5, 0.9), (20, 1.0)];
    let runs = ErrorRuns::new(&points, 0.2).expect("a distribution");
    let losses = losses(&LossModel::Runs(Arc::new(runs)), 2_000_000, AIR);
    let (share, burst) = share_and_burst(&losses);
    assert!((share - 0.2).abs() < 0.004, "{share}");
    // 1 + .5 + .3 + (.7 + .5 + .3 over steps of a fifteenth ...): by the sum of what is longer.
    let longer: f64 = [0.5, 0.3, 0.3 - 0.2 / 3.0, 0.3 - 0.4 / 3.0].iter().sum::<f64>()
        + (0..15).map(|step| 0.1 * (1.0 - f64::from(step) / 15.0)).sum::<f64>();
    assert!((burst - (1.0 + longer)).abs() < 0.05, "{burst} and {longer}");
    let singles = losses.windows(3).filter(|three| **three == [false, true, false]).count();
    let runs = losses.windows(2).filter(|two| **two == [false, true]).count();
    assert!((singles as f64 / runs as f64 - 0.5).abs() < 0.01);
}

#[test]
fn runs_that_cannot_make_their_loss_are_refused() {
    assert_eq!(ErrorRuns::new(&[(1, 1.0)], 0.6), None);
    // Runs of four and of nine, with one frame between two of them.
    assert!(ErrorRuns::new(&[(3, 0.0), (4, 1.0)], 0.8).is_some());
    assert!(ErrorRuns::new(&[(8, 0.0), (9, 1.0)], 0.9).is_some());
    assert_eq!(ErrorRuns::new(&[(1, 0.5), (2, 0.9)], 0.1), None);
    assert_eq!(ErrorRuns::new(&[(2, 0.5), (1, 1.0)], 0.1), None);
    assert_eq!(ErrorRuns::new(&[], 0.1), None);
    let none = ErrorRuns::new(&[(1, 1.0)], 0.0).expect("no loss at all");
    assert_eq!(share(&losses(&LossModel::Runs(Arc::new(none)), 10_000, AIR)), 0.0);
}

#[test]
fn an_interferer_destroys_preambles_first() {
    let air_time = Duration::from_micros(1310);
    let interval = Duration::from_millis(24);
    let model =
        LossModel::Interferer(Box::new(Interferer { interval, air_time, phy: Phy::default() }));
    // Frames at times that have nothing to do with the interval.
    let fates = fates(&model, 400_000, Duration::from_micros(2237), FRAME);
    let count = |kind: Fate| fates.iter().filter(|fate| **fate == kind).count() as f64 / 400_000.0;
    let (preamble, crc) = (count(Fate::Preamble), count(Fate::Crc));
    assert!((preamble - (1310.0 + 192.0) / 24_000.0).abs() < 0.001, "{preamble}");
    assert!((crc - (1000.0 - 192.0) / 24_000.0).abs() < 0.001, "{crc}");
    assert!((preamble + crc - model.mean(&FRAME)).abs() < 0.002);
}

#[test]
fn an_interferer_is_there_after_a_long_silence() {
    let air_time = Duration::from_millis(3);
    let interval = Duration::from_millis(12);
    let model =
        LossModel::Interferer(Box::new(Interferer { interval, air_time, phy: Phy::default() }));
    let share = share(&losses(&model, 20_000, Duration::from_micros(33_333_337)));
    assert!((share - 4.0 / 12.0).abs() < 0.015, "{share}");
}

#[test]
fn an_interferer_that_cannot_keep_up_sends_one_frame_after_the_other() {
    let air_time = Duration::from_micros(1_200);
    let phy = Phy::default();
    // What is judged: often, so that one of its frames is between two, and rarely.
    for (interval, spacing) in [(1_000, 5_000), (1_250, 5_000), (1_000, 200), (1_250, 50_000)] {
        let interval = Duration::from_micros(interval);
        let model = LossModel::Interferer(Box::new(Interferer { interval, air_time, phy }));
        let instant = Exposed { length: Duration::ZERO, plcp: Duration::ZERO, ..FRAME };
        let fates = fates(&model, 100_000, Duration::from_micros(spacing) + AIR / 97, instant);
        let lost = fates.iter().filter(|fate| **fate != Fate::Ok).count() as f64 / 100_000.0;
        let gap = phy.difs() + phy.slot().mul_f64(f64::from(phy.contention_window().0) / 2.0);
        let share = air_time.as_secs_f64() / (air_time + gap).as_secs_f64();
        assert!((lost - share).abs() < 0.01, "{lost} of {share}, every {interval:?}");
    }
}

fn drift(burst: Option<Burst>) -> Drift {
    Drift {
        loss: 0.2,
        sigma: 1.0,
        correlation: Duration::from_secs(20),
        reference_bytes: 1500,
        burst,
    }
}

#[test]
fn a_drift_has_its_mean_and_its_memory() {
    let model = LossModel::Drift(Box::new(drift(None)));
    assert!((model.mean(&FRAME) - 0.2).abs() < 1e-9);
    // Frames far apart are independent draws of the drift.
    let far = share(&losses(&model, 200_000, Duration::from_secs(300)));
    assert!((far - 0.2).abs() < 0.005, "{far}");
    // The loss is constant over a second, but not over minutes.
    let near = losses(&model, 4_000_000, Duration::from_millis(10));
    let seconds: Vec<f64> = near.chunks(100).map(share).collect();
    let together = |apart: usize| {
        let mean = share(&near);
        let pairs = seconds.windows(apart + 1).map(|span| (span[0] - mean) * (span[apart] - mean));
        let all: Vec<f64> = pairs.collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    assert!((together(20) / together(1) - 0.39).abs() < 0.15, "{}", together(20) / together(1));
    assert!((together(200) / together(1)).abs() < 0.15);
}

#[test]
fn longer_frames_lose_more_in_a_drift() {
    let model = LossModel::Drift(Box::new(drift(None)));
    let mut before = 0.0;
    for bytes in [14, 500, 1500, 3000] {
        let frame = Exposed { bytes, ..FRAME };
        let fates = fates(&model, 100_000, Duration::from_secs(300), frame);
        let lost = fates.iter().filter(|fate| **fate != Fate::Ok).count() as f64 / 1e5;
        let mean = model.mean(&frame);
        assert!((lost - mean).abs() < 0.006, "{bytes} bytes: {lost}, not {mean}");
        assert!(lost > before);
        before = lost;
    }
}

#[test]
fn bursts_add_to_a_drift() {
    let burst = Burst {
        gap: Duration::from_secs(2),
        shortest: Duration::from_millis(1),
        longest: Duration::from_secs(4),
        loss: 1.0,
    };
    let model = LossModel::Drift(Box::new(drift(Some(burst))));
    let mean_burst = 3.999 / 4000.0_f64.ln();
    let expected = (mean_burst + 0.2 * 2.0) / (mean_burst + 2.0);
    assert!((model.mean(&FRAME) - expected).abs() < 1e-9);
    let share = share(&losses(&model, 400_000, Duration::from_secs(1)));
    assert!((share - expected).abs() < 0.01, "{share}, not {expected}");
}

#[test]
fn a_modulated_loss_keeps_its_mean_between_its_ends() {
    for is_square in [false, true] {
        let period = Duration::from_millis(100);
        let modulated = Modulated { loss: 0.3, spread: 0.5, period, is_square };
        let model = LossModel::Modulated(Box::new(modulated));
        let losses = losses(&model, 2_000_000, AIR);
        assert!((share(&losses) - 0.3).abs() < 0.005, "{}", share(&losses));
        let periods: Vec<f64> = losses.chunks(100).map(share).collect();
        let spread = periods.iter().map(|p| (p - 0.3).powi(2)).sum::<f64>() / periods.len() as f64;
        // Variance of a hundred draws, and of the modulation: 0.15^2, or a third of that.
        let own = if is_square { 0.0225 } else { 0.0075 };
        let draws = 0.3 * 0.7 / 100.0 - own / 100.0;
        assert!((spread - own - draws).abs() < 0.0005, "{spread}");
    }
}

#[test]
fn a_recording_is_played_back_by_time() {
    let text = "time_ns,link,fate\n10,a>b,crc\n20,a>b,ok\n30,a>b,preamble\n40,a>b,end\n";
    let trace = Arc::new(LossTrace::parse(text, None).expect("a recording"));
    let fate_from = |begin: u64, repeat: bool, times: &[u64]| -> Vec<Fate> {
        let model = LossModel::Trace { trace: Arc::clone(&trace), repeat };
        let mut process = model.build(Seed(1).stream("loss"));
        process.begin_recording_at(Instant::from_nanos(begin));
        let exposed = |at: &u64| Exposed { start: Instant::from_nanos(*at), ..FRAME };
        times.iter().map(|at| process.lost(&exposed(at))).collect()
    };
    let fate_at = |repeat: bool, times: &[u64]| fate_from(0, repeat, times);
    use Fate::{Crc, Ok, Preamble};
    assert_eq!(fate_at(false, &[9, 10, 19, 20, 39, 40, 55]), [Ok, Crc, Crc, Ok, Preamble, Ok, Ok]);
    assert_eq!(fate_at(true, &[35, 41, 55, 75, 90]), [Preamble, Ok, Crc, Preamble, Crc]);
    assert_eq!(fate_from(100, true, &[15, 35, 110, 135, 150]), [Ok, Ok, Crc, Preamble, Crc]);
}

#[test]
fn frames_at_the_same_instant_have_their_fates_back_one_by_one() {
    let text = "time_ns,link,fate\n10,a>b,crc\n10,a>b,ok\n10,a>b,crc\n20,a>b,ok\n40,a>b,end\n";
    let trace = Arc::new(LossTrace::parse(text, None).expect("a recording"));
    let mut process = LossModel::Trace { trace, repeat: true }.build(Seed(1).stream("loss"));
    let mut fate = |at| process.lost(&Exposed { start: Instant::from_nanos(at), ..FRAME });
    use Fate::{Crc, Ok};
    for round in [0, 40] {
        let fates = [5, 10, 10, 10, 12, 20].map(|at| fate(round + at));
        assert_eq!(fates[1..], [Crc, Ok, Crc, Crc, Ok]);
    }
    assert_eq!(fate(80 + 15), Crc, "the last one holds on");
}

#[test]
fn each_bit_rate_has_a_loss_of_its_own() {
    let text = "time_ns,link,fate\n10,a>b,crc\n20,a>b,ok\n10000000000000,a>b,end\n";
    let trace = Arc::new(LossTrace::parse(text, None).expect("a recording"));
    let of_rate = [
        (20, LossModel::Bernoulli { p: 0.1 }),
        (55, LossModel::Trace { trace, repeat: false }),
        (
            110,
            LossModel::Modulated(Box::new(Modulated {
                loss: 0.6,
                spread: 0.5,
                period: Duration::from_millis(100),
                is_square: true,
            })),
        ),
    ];
    let models = of_rate.map(|(rate, model)| (Bitrate::from_100kbps(rate), model));
    let model = LossModel::ByRate(models.to_vec());
    // A bit-rate that is not listed loses like the next faster one, or like the fastest.
    for (rate, expected) in [(10, 0.1), (20, 0.1), (55, 0.0), (60, 0.6), (110, 0.6), (540, 0.6)] {
        let frame = Exposed { rate: Bitrate::from_100kbps(rate), ..FRAME };
        let fates = fates(&model, 100_000, AIR, frame);
        let lost = fates.iter().filter(|fate| **fate == Fate::Crc).count() as f64 / 1e5;
        assert!((lost - expected).abs() < 0.005, "{rate}: {lost}");
        // The recording loses one of its two frames, and nothing for the rest of the time.
        let mean = if rate == 55 { 0.5 } else { expected };
        assert!((model.mean(&frame) - mean).abs() < 1e-12);
    }
    // Times of a recording among them are those of the link.
    let mut process = model.build(Seed(1).stream("loss"));
    process.begin_recording_at(Instant::from_nanos(100));
    let mut at = |nanos| {
        let rate = Bitrate::from_100kbps(55);
        process.lost(&Exposed { start: Instant::from_nanos(nanos), rate, ..FRAME })
    };
    assert_eq!([15, 110, 120].map(&mut at), [Fate::Ok, Fate::Crc, Fate::Ok]);
}

#[test]
fn a_driver_drops_what_the_channel_let_through() {
    let channel = Box::new(LossModel::Bernoulli { p: 0.1 });
    for (acknowledges, fate) in [(true, Fate::Dropped), (false, Fate::Unanswered)] {
        let model = LossModel::Driver { share: 0.25, acknowledges, channel: channel.clone() };
        let fates = fates(&model, 100_000, AIR, FRAME);
        let share = |wanted| fates.iter().filter(|fate| **fate == wanted).count() as f64 / 1e5;
        assert!((share(Fate::Crc) - 0.1).abs() < 0.004);
        assert!((share(fate) - 0.9 * 0.25).abs() < 0.005);
        assert!((share(Fate::Ok) - 0.9 * 0.75).abs() < 0.005);
        let answered = if acknowledges { 0.9 } else { 0.9 * 0.75 };
        assert!((model.mean(&FRAME) - (1.0 - answered)).abs() < 1e-12);
    }
}

#[test]
fn nothing_is_lost_where_nothing_was_said() {
    assert!(share(&losses(&LossModel::None, 100, AIR)) == 0.0);
}
