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
use farhop_sim::radio::{AirLink, ChipConfig, LossModel, Medium, MediumConfig};

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

/// Keeps the first `senders` radios busy with frames to the last, and counts what was on air.
fn run(medium: &mut Medium, senders: usize, to: u16, ack: AckPolicy) -> u64 {
    let payload = Bytes::from_static(&[0; 1468]);
    let frame = |id: u64| {
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
    for radio in 0..senders {
        for _ in 0..8 {
            id += 1;
            medium.handle_frame(Instant::ZERO, radio, frame(id));
        }
    }
    let end = Instant::ZERO + LENGTH;
    while let Some(now) = medium.poll_timeout().filter(|now| *now <= end) {
        medium.handle_timeout(now);
        while let Some(event) = medium.poll_event() {
            if let FrameUp::Done(_) = event.event {
                id += 1;
                medium.handle_frame(now, event.radio, frame(id));
            }
        }
    }
    medium.frames_on_air()
}

fn measure(bencher: Bencher<'_, '_>, radios: u16, gap: Gap, ack: AckPolicy) {
    let senders = usize::from(radios) - 1;
    let frames = run(&mut medium(radios, gap), senders, radios, ack);
    bencher
        .counter(ItemsCount::new(frames))
        .with_inputs(|| medium(radios, gap))
        .bench_local_values(|mut medium| run(&mut medium, senders, radios, ack));
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
