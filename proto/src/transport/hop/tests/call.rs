//! Bursts and gaps beside calls.

use super::*;

fn config() -> HopConfig {
    HopConfig { block_bytes: Some(210_000), call_gap_ms: 4.5, ..HopConfig::default() }
}

/// When node 1 sends the frames of a block of 150 to node 2, this long after a packet of a call
/// failed at a node.
fn frames_beside(config: HopConfig, failing: u16, wait: Duration) -> (Row, Vec<Instant>) {
    let mut row = Row::new(6, config, Harm::default(), 1);
    row.push(flow(1), 0, 2, 7_000, false);
    row.run_until(row.now + Duration::from_secs(1));
    let now = row.now;
    row.hop(failing).handle_rx(&mut Cx::new(now), DatagramUp::Drowned(NodeId(failing.max(2) - 1)));
    row.run_until(now + wait);
    row.first_frames.clear();
    row.push(flow(1), 1, 2, 210_000, true);
    row.run_until(row.now + Duration::from_secs(5));
    let frames = std::mem::take(&mut row.first_frames);
    assert!(frames.len() >= 150, "a block of 150 frames");
    (row, frames)
}

/// Most frames between two pauses as long as a gap.
fn longest_burst(frames: &[Instant]) -> usize {
    let is_one = |a: &Instant, b: &Instant| b.since(*a) < Duration::from_micros(4_500);
    frames.chunk_by(is_one).map(<[Instant]>::len).max().unwrap_or(0)
}

#[test]
fn who_hears_of_a_failing_call_sends_short_bursts() {
    let soon = Duration::from_millis(100);
    // Frames take a millisecond, so three of them are as long as a burst has to be.
    for failing in [1, 2, 3, 4, 5] {
        let (mut row, frames) = frames_beside(config(), failing, soon);
        let burst = longest_burst(&frames);
        let told = row.count(failing, "calls_told");
        match failing {
            5 => assert!(burst > 100, "it is told over three hops, not further"),
            _ => assert!(burst <= 3, "{burst} frames in a row with a call at {failing}"),
        }
        assert_eq!(told, 1, "once for one packet");
    }
}

#[test]
fn there_are_no_gaps_long_after_a_call_nor_where_they_are_not_wanted() {
    let burst = |config, wait| longest_burst(&frames_beside(config, 1, wait).1);
    assert!(burst(config(), Duration::from_secs(11)) > 100);
    let unwanted = HopConfig { call_gap_ms: 0.0, ..config() };
    assert!(burst(unwanted, Duration::from_millis(100)) > 100);
}

#[test]
fn a_next_hop_that_never_acknowledges_is_told_less_and_less_often() {
    // How often it is told while all packets to it fail.
    let told = |row: &mut Row, seconds: u64| {
        let (before, end) = (row.messages, row.now + Duration::from_secs(seconds));
        while row.now < end {
            let mut cx = Cx::new(row.now);
            row.hop(1).handle_rx(&mut cx, DatagramUp::Drowned(NodeId(2)));
            row.run_until(row.now + Duration::from_millis(50));
        }
        row.messages - before
    };
    let mut row = Row::new(2, config(), Harm::default(), 1);
    let heard = told(&mut row, 20);
    assert!((38..=41).contains(&heard), "once every half a second, as it acknowledges: {heard}");
    row.deaf = Some(NodeId(2));
    let unheard = told(&mut row, 20);
    assert!((17..=6 * 17).contains(&unheard), "{unheard} messages that it does not acknowledge");
    row.deaf = None;
    told(&mut row, 8);
    let again = told(&mut row, 10);
    assert!((18..=21).contains(&again), "as often as ever once it acknowledges: {again}");
}
