//! Wires beside the air.

use super::*;
use farhop_proto::base::PhyKind;

/// Ten megabits per second.
fn port(node: u16) -> ChipConfig {
    let phy = Phy { kind: PhyKind::Wire, ..Phy::default() };
    ChipConfig { rate: Bitrate::from_mbps(10.0), ..ChipConfig::new(NodeId(node), RadioId(0), phy) }
}

fn send(medium: &mut Medium, at: Instant, radio: usize, id: u64, bytes: usize) {
    let to = 2 - radio as u16;
    medium.handle_frame(at, radio, frame(id, Some(to), bytes, TxOptions::default()));
}

#[test]
fn frames_follow_each_other_at_the_rate_of_the_wire_and_arrive_after_its_delay() {
    let mut medium = medium(mesh(vec![port(1), port(2)], us(5000)));
    for id in 1..=3 {
        send(&mut medium, at(100), 0, id, 1250);
    }
    let reports = run_out(&mut medium);
    // 1,250 bytes are a millisecond.
    let arrivals: Vec<_> = receptions(&reports).iter().map(|(_, end, _)| *end).collect();
    assert_eq!(arrivals, [at(6100), at(7100), at(8100)]);
    assert_eq!(receptions(&reports)[0].2.started, at(5100));
    let ends: Vec<_> = dones(&reports).iter().map(|(_, end, done)| (*end, done.outcome)).collect();
    assert_eq!(ends, [1100, 2100, 3100].map(|end| (at(end), FrameOutcome::Sent)));
}

#[test]
fn a_frame_of_which_an_end_was_down_does_not_arrive() {
    let mut medium = medium(mesh(vec![port(1), port(2)], us(10)));
    send(&mut medium, at(0), 0, 1, 1250);
    send(&mut medium, at(0), 0, 2, 1250);
    medium.set_radio_up(at(100), 1, false);
    medium.set_radio_up(at(500), 1, true);
    let arrivals: Vec<_> = receptions(&run_out(&mut medium)).iter().map(|one| one.1).collect();
    assert_eq!(arrivals, [at(2010)]);
}

#[test]
fn both_ways_go_at_once() {
    let mut medium = medium(mesh(vec![port(1), port(2)], us(10)));
    send(&mut medium, at(0), 0, 1, 1250);
    send(&mut medium, at(0), 1, 2, 1250);
    let reports = run_out(&mut medium);
    let arrivals: Vec<_> = receptions(&reports).iter().map(|(_, end, _)| *end).collect();
    assert_eq!(arrivals, [at(1010), at(1010)]);
}

#[test]
fn a_wire_loses_its_share_and_what_is_cut() {
    let mut config = mesh(vec![port(1), port(2)], us(10));
    config.links[0].loss = LossModel::Bernoulli { p: 0.25 };
    let mut medium = medium(config);
    let mut received = 0;
    for id in 0..2000_u64 {
        let now = at(id * 100);
        medium.handle_timeout(now);
        received += std::iter::from_fn(|| medium.poll_event())
            .filter(|event| matches!(event.event, FrameUp::Received(_)))
            .count();
        send(&mut medium, now, 0, id, 100);
    }
    assert!((received as f64 / 2000.0 - 0.75).abs() < 0.03, "{received}");
    let end = at(300_000);
    send(&mut medium, end, 0, 1, 1250);
    medium.set_radio_up(end + us(500), 0, false);
    let reports = run_out(&mut medium);
    let last = dones(&reports).last().expect("it ended").2;
    assert_eq!(last.outcome, FrameOutcome::Failed);
    assert!(receptions(&reports).iter().all(|(_, at, _)| *at < end));
}
