//! The physics of the radio model against closed forms, published oracles and hand-made timelines.

mod aggregation;
mod announced;
mod chain;
mod coexistence;
mod contention;
mod edca;
mod faults;
mod long_links;
mod ns3;
mod reception;
mod siblings;
mod swarm;
mod timing;
mod wires;

use bytes::Bytes;
use farhop_proto::base::{
    AccessCategory, AckPolicy, Bitrate, Dbm, Duration, EtherType, FlowId, Frame, FrameDone,
    FrameDown, FrameOutcome, FrameUp, Instant, NodeId, Phy, Preamble, RadioId, ReceivedFrame, Seed,
    TxOptions, UnitId,
};

use super::{AirLink, ChipConfig, LossModel, Medium, MediumConfig};

/// 802.11b at 11 Mb/s, short preamble, acknowledgements at 2 Mb/s: the calibrated radio.
fn chip(node: u16) -> ChipConfig {
    let phy = Phy { preamble: Preamble::Short, ..Phy::default() };
    ChipConfig {
        ack_rate: Some(Bitrate::from_100kbps(20)),
        ..ChipConfig::new(NodeId(node), RadioId(0), phy)
    }
}

fn link(from: usize, to: usize, delay: Duration) -> AirLink {
    AirLink { from, to, delay, signal: Dbm::new(-60), loss: LossModel::None }
}

/// Every radio hears every other after `delay`.
fn mesh(radios: Vec<ChipConfig>, delay: Duration) -> MediumConfig {
    let count = radios.len();
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let links = pairs.filter(|(from, to)| from != to).map(|(from, to)| link(from, to, delay));
    MediumConfig::new(radios, links.collect())
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + us(micros)
}

/// Propagation over `km` kilometres at the speed of light.
fn over_km(km: f64) -> Duration {
    Duration::from_secs_f64(km * 1000.0 / 299_792_458.0)
}

fn frame(id: u64, to: Option<u16>, bytes: usize, options: TxOptions) -> FrameDown {
    FrameDown::Frame(Frame {
        id: UnitId(id),
        radio: RadioId(0),
        to: to.map(NodeId),
        flow: FlowId(0),
        protocol: EtherType::IPV4,
        payload: Bytes::from(vec![0; bytes]),
        options,
    })
}

fn no_ack() -> TxOptions {
    TxOptions { ack: AckPolicy::NoAck, ..TxOptions::default() }
}

/// A radio that always has frames of one kind to send.
#[derive(Clone)]
struct Saturated {
    radio: usize,
    to: u16,
    bytes: usize,
    options: TxOptions,
}

/// The result of a run: for each radio the frames delivered to it, and the outcomes of its own.
#[derive(Default, Clone)]
struct Tally {
    delivered: u64,
    done: u64,
    failed: u64,
    first: u64,
}

/// Runs saturated sources and counts from `warm_up` to the end.
fn saturate(
    medium: &mut Medium,
    radios: usize,
    sources: &[Saturated],
    length: Duration,
) -> Vec<Tally> {
    let end = Instant::ZERO + length;
    let mut tally = vec![Tally::default(); radios];
    let mut id = 0;
    let mut put = |medium: &mut Medium, now: Instant, source: &Saturated| {
        id += 1;
        let unit = frame(id, Some(source.to), source.bytes, source.options);
        medium.handle_frame(now, source.radio, unit);
    };
    for source in sources {
        put(medium, Instant::ZERO, source);
        put(medium, Instant::ZERO, source);
    }
    while let Some(now) = medium.poll_timeout().filter(|now| *now <= end) {
        medium.handle_timeout(now);
        while let Some(event) = medium.poll_event() {
            let tally = &mut tally[event.radio];
            match event.event {
                FrameUp::Received(_) => tally.delivered += 1,
                FrameUp::Overheard(_) | FrameUp::Wanted(_) => {}
                FrameUp::Done(done) => {
                    tally.done += 1;
                    tally.failed += u64::from(done.outcome == FrameOutcome::Failed);
                    tally.first += u64::from(done.attempts == 1);
                    let source = sources.iter().find(|source| source.radio == event.radio);
                    put(medium, now, source.expect("only sources have frames"));
                }
            }
        }
    }
    tally
}

/// Throughput in Mb/s of `frames` frames with `bytes` bytes of payload.
fn mbps(frames: u64, bytes: usize, length: Duration) -> f64 {
    frames as f64 * bytes as f64 * 8.0 / length.as_secs_f64() / 1e6
}

/// Runs until nothing is left to happen, and returns all reports.
fn run_out(medium: &mut Medium) -> Vec<(usize, Instant, FrameUp)> {
    while let Some(now) = medium.poll_timeout() {
        medium.handle_timeout(now);
    }
    std::iter::from_fn(|| medium.poll_event())
        .map(|event| (event.radio, event.at, event.event))
        .collect()
}

fn dones(reports: &[(usize, Instant, FrameUp)]) -> Vec<(usize, Instant, FrameDone)> {
    let done = |(radio, at, event): &(usize, Instant, FrameUp)| match event {
        FrameUp::Done(done) => Some((*radio, *at, *done)),
        _ => None,
    };
    reports.iter().filter_map(done).collect()
}

fn receptions(reports: &[(usize, Instant, FrameUp)]) -> Vec<(usize, Instant, ReceivedFrame)> {
    let received = |(radio, at, event): &(usize, Instant, FrameUp)| match event {
        FrameUp::Received(frame) => Some((*radio, *at, frame.clone())),
        _ => None,
    };
    reports.iter().filter_map(received).collect()
}

/// Transmissions: radio, start and end in whole microseconds.
fn on_air(medium: &mut Medium) -> Vec<(usize, u64, u64)> {
    let us = |at: Instant| at.as_nanos() / 1000;
    std::iter::from_fn(|| medium.poll_transmission())
        .map(|transmission| (transmission.radio, us(transmission.start), us(transmission.end)))
        .collect()
}

fn medium(config: MediumConfig) -> Medium {
    let mut medium = Medium::new(config, Seed(1));
    medium.record_transmissions(true);
    medium
}

fn close(ours: f64, expected: f64, tolerance: f64) {
    let error = ours / expected - 1.0;
    assert!(error.abs() <= tolerance, "{ours:.4} is {:.2}% off {expected}", error * 100.0);
}
