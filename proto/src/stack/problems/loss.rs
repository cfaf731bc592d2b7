//! Checks of loss processes.

use super::Found;
use crate::base::{Bitrate, Phy};
use crate::stack::scenario::{
    BurstConfig, ByRateConfig, DriftConfig, ErrorRunsConfig, InterfererConfig, LossConfig,
    ModulatedConfig, TraceConfig,
};

const STAY: &str = "a mean stay in milliseconds";

/// Checks a process for a run of `duration_s` seconds.
pub(super) fn check_loss(found: &mut Found, path: &str, loss: &LossConfig, duration_s: f64) {
    let mut share = |key: &str, value: f64| {
        let path = if key.is_empty() { path.to_owned() } else { format!("{path}.{key}") };
        found.number(path, value, 0.0..=1.0, "a loss");
    };
    match loss {
        LossConfig::Bernoulli { p } => share("", *p),
        LossConfig::BernoulliUnits { p, unit_bytes } => {
            share("p", *p);
            let size = f64::from(*unit_bytes);
            found.number(format!("{path}.unit_bytes"), size, 1.0..=65_535.0, "a size in bytes");
        }
        LossConfig::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
            share("good_loss", *good_loss);
            share("bad_loss", *bad_loss);
            for (key, stay) in [("good_ms", *good_ms), ("bad_ms", *bad_ms)] {
                found.number(format!("{path}.{key}"), stay, 1e-3..=1e9, STAY);
            }
        }
        LossConfig::GilbertElliottFrames { to_bad, to_good, good_loss, bad_loss } => {
            share("good_loss", *good_loss);
            share("bad_loss", *bad_loss);
            for (key, chance) in [("to_bad", *to_bad), ("to_good", *to_good)] {
                let what = "a probability of leaving a state";
                found.number(format!("{path}.{key}"), chance, 1e-9..=1.0, what);
            }
        }
        LossConfig::Runs(runs) => check_runs(found, path, runs),
        LossConfig::Interferer(interferer) => check_interferer(found, path, interferer),
        LossConfig::Drift(drift) => check_drift(found, path, drift),
        LossConfig::Modulated(modulated) => check_modulated(found, path, modulated),
        LossConfig::Trace(trace) => check_trace(found, path, trace, duration_s),
        LossConfig::ByRate(losses) => check_rates(found, path, losses, duration_s),
        LossConfig::Driver(driver) => {
            share("q", driver.q);
            if matches!(*driver.loss, LossConfig::Driver(_)) {
                found.add(format!("{path}.loss"), "a driver behind a driver", "another loss");
            }
            check_loss(found, &format!("{path}.loss"), &driver.loss, duration_s);
        }
    }
}

fn check_runs(found: &mut Found, path: &str, runs: &ErrorRunsConfig) {
    /// Longest run: the distribution is laid out frame by frame.
    const LONGEST: u32 = 1 << 20;
    let points = &runs.errors;
    let rises = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    let begins = points.first().is_some_and(|(length, share)| *length > 0 && *share >= 0.0);
    let ends = points.last().is_some_and(|(length, share)| *share == 1.0 && *length <= LONGEST);
    found.number(format!("{path}.loss"), runs.loss, 0.0..=0.999_999, "a loss");
    if !(rises && begins && ends) {
        let help = "points [length, share of runs no longer than that] that rise to a share of 1, \
                    for example [[1, 0.5], [2, 0.7], [20, 1]]";
        found.add(format!("{path}.errors"), "not a distribution of runs", help);
        return;
    }
    // The share is linear between the points, so the mean is a sum of trapezoids over whole
    // lengths.
    let mut mean = 0.0;
    let mut before = (0, 0.0);
    for (length, share) in points {
        let steps = f64::from(length - before.0);
        mean += steps * (1.0 - (before.1 + share) / 2.0) + (share - before.1) / 2.0;
        before = (*length, *share);
    }
    let most = mean / (1.0 + mean);
    if runs.loss > most {
        let message = format!("runs of {mean:.2} frames in the mean cannot lose {}", runs.loss);
        let most = (most * 1e3).floor() / 1e3;
        found.add(format!("{path}.loss"), message, format!("at most {most}, or longer runs"));
    }
}

fn check_interferer(found: &mut Found, path: &str, interferer: &InterfererConfig) {
    let load = interferer.load_mbps;
    found.number(format!("{path}.load_mbps"), load, 1e-6..=11.0, "a load in Mb/s");
    let size = f64::from(interferer.size_bytes);
    found.number(format!("{path}.size_bytes"), size, 1.0..=2304.0, "a size in bytes");
    if !Phy::default().has_rate(Bitrate::from_mbps(interferer.rate_mbps)) {
        let message = format!("802.11b has no rate of {} Mb/s", interferer.rate_mbps);
        found.add(format!("{path}.rate_mbps"), message, "one of 1, 2, 5.5, 11");
    }
}

fn check_drift(found: &mut Found, path: &str, drift: &DriftConfig) {
    let DriftConfig { loss, sigma, correlation_s, reference_bytes, burst } = drift;
    found.number(format!("{path}.loss"), *loss, 1e-6..=0.999_999, "a mean loss of a drift");
    found.number(format!("{path}.sigma"), *sigma, 0.0..=10.0, "a deviation of log-odds");
    found.number(format!("{path}.correlation_s"), *correlation_s, 1e-3..=1e6, "a time in seconds");
    let size = f64::from(*reference_bytes);
    found.number(format!("{path}.reference_bytes"), size, 1.0..=65_535.0, "a size in bytes");
    let Some(BurstConfig { every_s, shortest_ms, longest_ms, loss }) = burst else { return };
    let path = format!("{path}.burst");
    found.number(format!("{path}.every_s"), *every_s, 1e-3..=1e9, "a time in seconds");
    found.number(format!("{path}.loss"), *loss, 0.0..=1.0, "a loss");
    let what = "a length in milliseconds";
    found.number(format!("{path}.shortest_ms"), *shortest_ms, 1e-3..=1e9, what);
    let least = shortest_ms.clamp(1e-3, 1e9);
    found.number(format!("{path}.longest_ms"), *longest_ms, least..=1e9, what);
}

fn check_modulated(found: &mut Found, path: &str, modulated: &ModulatedConfig) {
    let ModulatedConfig { loss, spread, period_ms, .. } = *modulated;
    found.number(format!("{path}.loss"), loss, 0.0..=1.0, "a loss");
    found.number(format!("{path}.spread"), spread, 0.0..=1.0, "a share of the loss");
    found.number(format!("{path}.period_ms"), period_ms, 1e-3..=1e9, "a time in milliseconds");
    let highest = loss * (1.0 + spread);
    if loss <= 1.0 && spread <= 1.0 && highest > 1.0 {
        let message = format!("the loss would go up to {highest}");
        found.add(format!("{path}.spread"), message, "loss * (1 + spread) of at most 1");
    }
}

fn check_rates(found: &mut Found, path: &str, losses: &ByRateConfig, duration_s: f64) {
    let path = format!("{path}.rates");
    let rates = &losses.rates;
    let are_rates = rates.iter().all(|(mbps, _)| *mbps > 0.0 && mbps.is_finite());
    if rates.is_empty() || !are_rates || !rates.is_sorted_by(|one, next| one.0 < next.0) {
        let help =
            "points [bit-rate in Mb/s, loss] in rising order, for example [[1, 0], [11, 0.3]]";
        found.add(path, "not losses by bit-rate", help);
        return;
    }
    for (place, (_, loss)) in rates.iter().enumerate() {
        let path = format!("{path}[{place}]");
        match loss {
            LossConfig::ByRate(_) => {
                found.add(path, "losses by bit-rate within others", "the loss of one bit-rate");
            }
            LossConfig::Driver(_) => {
                let help = "the driver around them: { kind = \"driver\", q = 0.1, loss = { kind = \
                            \"by-rate\", ... } }";
                found.add(path, "a driver that drops frames of one bit-rate", help);
            }
            _ => check_loss(found, &path, loss, duration_s),
        }
    }
}

fn check_trace(found: &mut Found, path: &str, trace: &TraceConfig, duration_s: f64) {
    let Some(recording) = &trace.recording else {
        let message = format!("the recording '{}' was not read", trace.file);
        found.add(format!("{path}.file"), message, "a file that can be read");
        return;
    };
    let length = recording.length().as_secs_f64();
    if trace.repeat && length == 0.0 {
        found.add(format!("{path}.repeat"), "a recording without length", "a longer one");
    } else if !trace.repeat && length < duration_s {
        let message = format!("the recording ends at {length} s, the run at {duration_s} s");
        let help = format!("repeat = true, or duration_s = {length} at most");
        found.add(format!("{path}.file"), message, help);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::stack::{DriverConfig, LossTrace};

    fn problems(loss: &LossConfig) -> Vec<String> {
        let mut found = Found(Vec::new());
        check_loss(&mut found, "loss", loss, 20.0);
        found.0.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn runs_must_be_long_enough_for_their_loss() {
        let runs = |loss, errors: &[(u32, f64)]| {
            LossConfig::Runs(ErrorRunsConfig { loss, errors: errors.to_vec() })
        };
        assert_eq!(problems(&runs(0.4, &[(1, 1.0)])), [""; 0]);
        // Runs of one frame each cannot lose more than every second frame.
        assert_eq!(problems(&runs(0.6, &[(1, 1.0)])), ["loss.loss"]);
        // Runs of 1 to 3 frames, 2 in the mean: two thirds.
        assert_eq!(problems(&runs(0.66, &[(3, 1.0)])), [""; 0]);
        assert_eq!(problems(&runs(0.67, &[(3, 1.0)])), ["loss.loss"]);
        assert_eq!(problems(&runs(0.1, &[(3, 0.9)])), ["loss.errors"]);
    }

    #[test]
    fn a_recording_must_be_there_and_last_for_the_run() {
        let text = "time_ns,link,fate\n5000000000,a>b,end\n";
        let recording = Some(Arc::new(LossTrace::parse(text, None).expect("a recording")));
        let missing = TraceConfig { file: "x".into(), ..TraceConfig::default() };
        let short = TraceConfig { recording, ..missing.clone() };
        let repeated = TraceConfig { repeat: true, ..short.clone() };
        assert_eq!(problems(&LossConfig::Trace(missing.clone())), ["loss.file"]);
        assert_eq!(problems(&LossConfig::Trace(short)), ["loss.file"]);
        assert_eq!(problems(&LossConfig::Trace(repeated)), [""; 0]);
        let inside = Box::new(LossConfig::Trace(missing));
        let driver = DriverConfig { q: 1.5, ack: true, loss: inside };
        assert_eq!(problems(&LossConfig::Driver(driver)), ["loss.q", "loss.loss.file"]);
    }

    #[test]
    fn losses_by_rate_rise_and_hold_what_a_rate_can_lose() {
        let by_rate = |rates: &[(f64, LossConfig)]| {
            LossConfig::ByRate(ByRateConfig { rates: rates.to_vec() })
        };
        let p = |p| LossConfig::Bernoulli { p };
        assert_eq!(problems(&by_rate(&[(1.0, p(0.0)), (11.0, p(0.4))])), [""; 0]);
        assert_eq!(problems(&by_rate(&[(1.0, p(0.0)), (11.0, p(1.4))])), ["loss.rates[1]"]);
        for rates in [&[][..], &[(11.0, p(0.0)), (1.0, p(0.4))], &[(f64::NAN, p(0.0))]] {
            assert_eq!(problems(&by_rate(rates)), ["loss.rates"]);
        }
        let driver = DriverConfig { q: 0.1, ack: true, loss: Box::default() };
        let within = [by_rate(&[(1.0, p(0.0))]), LossConfig::Driver(driver)];
        for loss in within {
            assert_eq!(problems(&by_rate(&[(11.0, loss)])), ["loss.rates[0]"]);
        }
        let around = Box::new(by_rate(&[(11.0, p(0.4))]));
        let driver = DriverConfig { q: 0.1, ack: true, loss: around };
        assert_eq!(problems(&LossConfig::Driver(driver)), [""; 0]);
    }

    #[test]
    fn a_modulated_loss_stays_below_one() {
        let modulated = |loss, spread| {
            let shape = Default::default();
            LossConfig::Modulated(ModulatedConfig { loss, spread, period_ms: 100.0, shape })
        };
        assert_eq!(problems(&modulated(0.6, 0.5)), [""; 0]);
        assert_eq!(problems(&modulated(0.8, 0.5)), ["loss.spread"]);
    }
}
