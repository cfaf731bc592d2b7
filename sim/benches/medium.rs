//! How fast the radio model is: frames on air per second of wall time.
//!
//! Each round simulates two seconds of saturated radios, so `items/s` are frames on air.

use bytes::Bytes;
use divan::Bencher;
use divan::counter::ItemsCount;
use farhop_proto::base::{
    AckPolicy, Bitrate, Dbm, Duration, EtherType, FlowId, Frame, FrameDown, FrameUp, Gap, Instant,
    NodeId, Phy, Preamble, RadioId, Seed, TxOptions, UnitId,
};
use farhop_proto::stack::{CurveConfig, SinrSettings};
use farhop_sim::radio::{AirLink, ChipConfig, Interference, LossModel, Medium, MediumConfig};

const LENGTH: Duration = Duration::from_secs(2);

fn main() {
    divan::main();
}

fn medium(radios: u16, gap: Gap) -> Medium {
    let phy = Phy { preamble: Preamble::Short, ..Phy::default() };
    let chip = |node| ChipConfig {
        gap,
        overhear: false,
        ack_rate: Some(Bitrate::from_100kbps(20)),
        ..ChipConfig::new(NodeId(node), RadioId(0), phy)
    };
    let count = usize::from(radios);
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let links = pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| AirLink {
            from,
            to,
            delay: Duration::from_micros(1),
            signal: Dbm::new(-60),
            loss: LossModel::Bernoulli { p: 0.01 },
        })
        .collect();
    Medium::new(MediumConfig::new((1..=radios).map(chip).collect(), links), Seed(1))
}

/// Side of the grid.
const SIDE: u16 = 13;
/// Distance between neighbours in the grid, in metres.
const SPACING: f64 = 90.0;

/// A grid in which frames reach 100 m and are sensed to 220 m: 18 to 24 hear each inner radio.
fn grid(interference: Interference) -> Medium {
    let count = usize::from(SIDE * SIDE);
    let side = usize::from(SIDE);
    let phy = Phy::default();
    let chip = |node| ChipConfig {
        overhear: false,
        ack_rate: Some(Bitrate::from_100kbps(20)),
        receive_threshold: Dbm::new(-60),
        ..ChipConfig::new(NodeId(node), RadioId(0), phy)
    };
    let link = |(from, to): (usize, usize)| {
        let (rows, columns) =
            ((from / side).abs_diff(to / side), (from % side).abs_diff(to % side));
        let distance = SPACING * ((rows * rows + columns * columns) as f64).sqrt();
        (distance > 0.0 && distance <= 220.0).then(|| AirLink {
            from,
            to,
            delay: Duration::from_secs_f64(distance / 299_792_458.0),
            signal: Dbm::from_f64(20.0 - 40.0 * distance.log10()),
            loss: LossModel::None,
        })
    };
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let radios = (1..=SIDE * SIDE).map(chip).collect();
    let config = MediumConfig {
        interference,
        ..MediumConfig::new(radios, pairs.filter_map(link).collect())
    };
    Medium::new(config, Seed(1))
}

/// Every radio of six rows sends to the next in its row.
fn grid_senders() -> Vec<(usize, u16)> {
    let radio = |row: u16, column: u16| row * SIDE + column;
    let row = |row| (0..SIDE - 1).map(move |column| (radio(row, column), radio(row, column + 1)));
    let senders = [1, 3, 5, 7, 9, 11].into_iter().flat_map(row);
    senders.map(|(from, to)| (usize::from(from), to + 1)).collect()
}

/// Keeps radios busy with frames, and counts what was on air.
fn run(medium: &mut Medium, senders: &[(usize, u16)], ack: AckPolicy) -> u64 {
    let payload = Bytes::from_static(&[0; 1468]);
    let frame = |id: u64, to: u16| {
        FrameDown::Frame(Frame {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(to)),
            flow: FlowId(0),
            protocol: EtherType::IPV4,
            payload: payload.clone(),
            options: TxOptions { ack, ..TxOptions::default() },
        })
    };
    let mut id = 0;
    let mut sinks = vec![0; senders.iter().map(|sender| sender.0 + 1).max().unwrap_or(0)];
    for (radio, to) in senders {
        sinks[*radio] = *to;
        for _ in 0..8 {
            id += 1;
            medium.handle_frame(Instant::ZERO, *radio, frame(id, *to));
        }
    }
    let end = Instant::ZERO + LENGTH;
    while let Some(now) = medium.poll_timeout().filter(|now| *now <= end) {
        medium.handle_timeout(now);
        while let Some(event) = medium.poll_event() {
            if let FrameUp::Done(_) = event.event {
                id += 1;
                medium.handle_frame(now, event.radio, frame(id, sinks[event.radio]));
            }
        }
    }
    medium.frames_on_air()
}

fn measure(bencher: Bencher<'_, '_>, radios: u16, gap: Gap, ack: AckPolicy) {
    let senders: Vec<_> = (0..usize::from(radios) - 1).map(|radio| (radio, radios)).collect();
    measure_all(bencher, || medium(radios, gap), &senders, ack);
}

fn measure_all(
    bencher: Bencher<'_, '_>,
    medium: impl Fn() -> Medium + Copy,
    senders: &[(usize, u16)],
    ack: AckPolicy,
) {
    let frames = run(&mut medium(), senders, ack);
    bencher
        .counter(ItemsCount::new(frames))
        .with_inputs(medium)
        .bench_local_values(|mut medium| run(&mut medium, senders, ack));
}

#[divan::bench(sample_count = 10)]
fn grid_with_thresholds(bencher: Bencher<'_, '_>) {
    measure_all(bencher, || grid(Interference::Threshold), &grid_senders(), AckPolicy::Normal);
}

#[divan::bench(sample_count = 10)]
fn grid_with_summed_interference(bencher: Bencher<'_, '_>) {
    let sinr = SinrSettings {
        noise_dbm: Some(-94.0),
        preamble_db: Some(4.0),
        preamble_min_dbm: Some(-60.0),
        curve: CurveConfig::Stock,
    };
    measure_all(bencher, || grid(Interference::Sinr(sinr)), &grid_senders(), AckPolicy::Normal);
}

#[divan::bench]
fn one_sender_without_acknowledgements(bencher: Bencher<'_, '_>) {
    measure(bencher, 2, Gap::Difs, AckPolicy::NoAck);
}

#[divan::bench]
fn one_sender_with_acknowledgements(bencher: Bencher<'_, '_>) {
    measure(bencher, 2, Gap::Backoff, AckPolicy::Normal);
}

#[divan::bench(args = [5, 20])]
fn contending_senders(bencher: Bencher<'_, '_>, senders: u16) {
    measure(bencher, senders + 1, Gap::Backoff, AckPolicy::Normal);
}
