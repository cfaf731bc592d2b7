//! A-MPDUs, block acknowledgements, and the throughput of 802.11n and ac.

use std::sync::Arc;

use super::*;
use crate::radio::{AcParams, Transmission, TransmissionKind};
use farhop_proto::base::phy::{AckRate, GuardInterval, PhyKind, Width};
use farhop_proto::stack::LossTrace;

const HT: Phy = Phy {
    kind: PhyKind::N,
    preamble: Preamble::Long,
    width: Width::Mhz20,
    guard_interval: GuardInterval::Long,
    streams: 1,
    band: farhop_proto::base::phy::Band::Ghz5,
    mixed: false,
    ack_rule: AckRate::Basic,
};

fn ht(node: u16) -> ChipConfig {
    ChipConfig { queue_frames: 128, ..ChipConfig::new(NodeId(node), RadioId(0), HT) }
}

/// Two radios, with a loss in each direction.
fn pair(phy: Phy, there: f64, back: f64) -> MediumConfig {
    let radios =
        [1, 2].map(|node| ChipConfig { phy, rate: *phy.rates().last().unwrap(), ..ht(node) });
    let mut config = mesh(radios.to_vec(), Duration::ZERO);
    for (link, p) in config.links.iter_mut().zip([there, back]) {
        link.loss = LossModel::Bernoulli { p };
    }
    config
}

/// Frames whose payload begins with their number.
fn give(medium: &mut Medium, now: Instant, ids: std::ops::Range<u64>, options: TxOptions) {
    for id in ids {
        let FrameDown::Frame(mut frame) = frame(id, Some(2), 1500, options) else { unreachable!() };
        let mut payload = frame.payload.to_vec();
        payload[..8].copy_from_slice(&id.to_be_bytes());
        frame.payload = payload.into();
        medium.handle_frame(now, 0, FrameDown::Frame(frame));
    }
}

fn arrived(reports: &[(usize, Instant, FrameUp)]) -> Vec<u64> {
    let id = |frame: &ReceivedFrame| u64::from_be_bytes(frame.payload[..8].try_into().unwrap());
    receptions(reports).iter().map(|(_, _, frame)| id(frame)).collect()
}

fn transmissions(medium: &mut Medium) -> Vec<Transmission> {
    std::iter::from_fn(|| medium.poll_transmission()).collect()
}

fn ids(transmission: &Transmission) -> Vec<u64> {
    transmission.mpdus().iter().map(|mpdu| mpdu.id.0).collect()
}

#[test]
fn frames_that_wait_go_together_and_are_acknowledged_together() {
    let mut medium = medium(pair(HT, 0.0, 0.0));
    // The first frame is sent alone, as the others have not been given yet.
    give(&mut medium, at(1000), 0..4, TxOptions::default());
    let reports = run_out(&mut medium);
    let sent = transmissions(&mut medium);
    let names: Vec<_> = sent.iter().map(Transmission::name).collect();
    assert_eq!(names, ["data", "ack", "a-mpdu", "block-ack"]);
    // 1538 bytes at 65 Mb/s: 36 us and 48 symbols. Three with delimiters: 1544 + 1544 + 1542 bytes,
    // 143 symbols. The block acknowledgement at 24 Mb/s: 20 us and 3 symbols.
    assert_eq!((sent[0].start, sent[0].end), (at(1000), at(1000 + 228)));
    let (start, end) = (sent[2].start, sent[2].end);
    assert_eq!(end - start, us(36 + 4 * 143));
    assert_eq!((sent[3].start, sent[3].end), (end + us(16), end + us(16 + 32)));
    assert_eq!(sent[2].nav, us(16 + 32));
    let spans: Vec<_> = sent[2].mpdus().iter().map(|mpdu| (mpdu.from, mpdu.until)).collect();
    assert!(spans.is_sorted() && spans[0].0 == us(36) && spans[2].1 <= end - start, "{spans:?}");
    assert_eq!(arrived(&reports), [0, 1, 2, 3]);
    let done = dones(&reports)[3];
    assert_eq!((done.1, done.2.outcome, done.2.attempts), (sent[3].end, FrameOutcome::Acked(0), 1));
    let stats = medium.stats(0);
    assert_eq!((stats.aggregates, stats.aggregated, stats.block_acks_received), (1, 3, 1));
}

#[test]
fn what_the_map_lacks_goes_again_before_the_new_and_all_goes_up_in_order() {
    let mut medium = medium(pair(HT, 0.3, 0.0));
    give(&mut medium, at(1000), 0..100, TxOptions::default());
    let reports = run_out(&mut medium);
    assert_eq!(arrived(&reports), (0..100).collect::<Vec<_>>());
    let ends = dones(&reports);
    assert_eq!(ends.len(), 100);
    assert!(ends.iter().all(|end| matches!(end.2.outcome, FrameOutcome::Acked(_))));
    let sent = transmissions(&mut medium);
    let mut holes = 0;
    for (place, first) in sent.iter().enumerate().filter(|(_, tx)| !tx.mpdus().is_empty()) {
        let later = &sent[place + 1..];
        let Some(TransmissionKind::BlockAck { start, map, .. }) = later.first().map(|tx| &tx.kind)
        else {
            continue;
        };
        let is_missing = |mpdu: &&crate::radio::Mpdu| {
            map.checked_shr(u32::from(mpdu.sequence - start)).unwrap_or(0) & 1 == 0
        };
        let missing: Vec<_> = first.mpdus().iter().filter(is_missing).map(|m| m.id.0).collect();
        if let Some(next) = later.iter().find(|tx| !tx.mpdus().is_empty()) {
            assert!(ids(next).starts_with(&missing), "{missing:?}, then {:?}", ids(next));
            assert!(ids(next).is_sorted(), "{:?}", ids(next));
            holes += missing.len();
        }
    }
    assert!(holes > 20, "{holes}");
}

#[test]
fn without_the_block_acknowledgement_the_whole_attempt_failed() {
    let mut medium = medium(pair(HT, 0.0, 0.0));
    give(&mut medium, at(1000), 0..9, TxOptions::default());
    let mut lost = 0;
    while let Some(now) = medium.poll_timeout() {
        medium.handle_timeout(now);
        for sent in transmissions(&mut medium) {
            // The first block acknowledgement is lost.
            let is_it = matches!(sent.kind, TransmissionKind::BlockAck { .. }) && lost == 0;
            lost += u64::from(is_it);
            medium.set_link_up(now, 1, !is_it);
        }
    }
    let reports = run_out(&mut medium);
    assert_eq!(arrived(&reports), (0..9).collect::<Vec<_>>());
    let attempts: Vec<_> = dones(&reports).iter().map(|(_, _, done)| done.attempts).collect();
    assert_eq!(attempts, [1, 2, 2, 2, 2, 2, 2, 2, 2]);
    assert_eq!(medium.stats(1).duplicates, 8);
    assert_eq!((medium.stats(0).retries, medium.stats(0).failures), (8, 0));
}

#[test]
fn what_was_acknowledged_goes_up_though_the_last_frame_before_it_went_alone() {
    let tries = |attempts| TxOptions { attempts: Some(attempts), ..TxOptions::default() };
    let mut alone = 0;
    for seed in 0..200 {
        let mut medium = Medium::new(pair(HT, 0.5, 0.0), Seed(seed));
        medium.record_transmissions(true);
        give(&mut medium, at(1000), 0..1, tries(50));
        give(&mut medium, at(1000), 1..2, tries(1));
        give(&mut medium, at(1000), 2..6, tries(50));
        let reports = run_out(&mut medium);
        let sent = transmissions(&mut medium);
        let last = sent.iter().rfind(|tx| ["data", "a-mpdu"].contains(&tx.name()));
        alone += usize::from(last.is_some_and(|tx| tx.name() == "data"));
        let mut arrived = arrived(&reports);
        arrived.sort_unstable();
        let is_acked = |done: &FrameDone| matches!(done.outcome, FrameOutcome::Acked(_));
        let acked = dones(&reports).into_iter().filter(|(_, _, done)| is_acked(done));
        let mut acked: Vec<u64> = acked.map(|(_, _, done)| done.id.0).collect();
        acked.sort_unstable();
        assert_eq!(arrived, acked, "seed {seed}");
    }
    assert!(alone > 20, "{alone} of 200");
}

#[test]
fn what_is_acknowledged_ends_before_its_deadline_and_one_request_behind_it() {
    let deadline = at(10_000);
    let options = TxOptions { deadline: Some(deadline), ..TxOptions::default() };
    let (mut late, mut told) = (0, 0);
    for seed in 0..40 {
        let mut medium = Medium::new(pair(HT, 0.3, 0.1), Seed(seed));
        medium.record_transmissions(true);
        give(&mut medium, at(1000), 0..80, options);
        let reports = run_out(&mut medium);
        let sent = transmissions(&mut medium);
        let is_data = |tx: &&Transmission| ["data", "a-mpdu"].contains(&tx.name());
        let last = sent.iter().rfind(is_data).expect("frames went out").end;
        assert!(last + us(16 + 32) <= deadline, "{last:?}");
        let behind: Vec<_> = sent.iter().filter(|tx| tx.start > last + us(16)).collect();
        let requests = behind.iter().filter(|tx| tx.name() == "block-ack-request");
        // DIFS and the longest backoff, the request, SIFS and the answer.
        let limit = deadline + us(34 + 135 + 32 + 16 + 32);
        assert!(requests.clone().all(|request| request.end + us(16 + 32) <= limit));
        let ends = dones(&reports);
        assert_eq!(ends.len(), 80);
        let of = |wanted: fn(FrameOutcome) -> bool| -> Vec<u64> {
            let ends = ends.iter().filter(|(_, _, done)| wanted(done.outcome));
            ends.map(|(_, _, done)| done.id.0).collect()
        };
        late += of(|outcome| outcome == FrameOutcome::Late).len();
        let mut acked = of(|outcome| matches!(outcome, FrameOutcome::Acked(_)));
        acked.sort_unstable();
        // Once the receiver knows that nothing more comes, it delivers all that it has.
        if behind.last().is_some_and(|tx| tx.name() == "block-ack") && requests.count() > 0 {
            let up = arrived(&reports);
            assert!(acked.iter().all(|id| up.contains(id)), "{acked:?}, and {up:?} went up");
            told += 1;
        }
    }
    assert!(late > 500 && told > 10, "{late} late, {told} told");
}

#[test]
fn a_frame_that_is_given_up_holds_nothing_back() {
    let mut medium = medium(pair(HT, 0.3, 0.0));
    let once = TxOptions { attempts: Some(1), ..TxOptions::default() };
    give(&mut medium, at(1000), 0..120, once);
    let reports = run_out(&mut medium);
    let got = arrived(&reports);
    assert!(got.is_sorted() && got.len() > 60 && got.len() < 110, "{got:?}");
    assert_eq!(got, acknowledged(&reports));
    assert!(medium.stats(0).block_ack_requests > 0);
}

#[test]
fn the_receiver_hears_of_it_even_when_the_sender_was_cut_off_meanwhile() {
    let mut medium = medium(pair(HT, 0.0, 0.0));
    give(&mut medium, at(1000), 0..3, TxOptions::default());
    medium.handle_timeout(at(5000));
    medium.set_link_up(at(5000), 0, false);
    give(&mut medium, at(5000), 3..40, TxOptions::default());
    medium.handle_timeout(at(1_000_000));
    medium.set_link_up(at(1_000_000), 0, true);
    give(&mut medium, at(1_000_000), 40..60, TxOptions::default());
    let reports = run_out(&mut medium);
    let expected: Vec<u64> = (0..3).chain(40..60).collect();
    assert_eq!(arrived(&reports), expected);
}

#[test]
fn a_request_that_was_given_up_goes_when_the_receiver_answers_again() {
    let mut medium = medium(pair(HT, 0.0, 0.0));
    give(&mut medium, at(1000), 0..3, TxOptions::default());
    medium.handle_timeout(at(5000));
    medium.set_link_up(at(5000), 0, false);
    // A frame that is given up after one attempt, as later is its request; and frames with many
    // attempts.
    let once = TxOptions { attempts: Some(1), ..TxOptions::default() };
    give(&mut medium, at(5000), 3..4, once);
    give(&mut medium, at(5000), 4..8, TxOptions { attempts: Some(200), ..TxOptions::default() });
    let is_given_up = |medium: &Medium| medium.stats(0).block_ack_requests >= 7;
    while let Some(now) = medium.poll_timeout() {
        medium.handle_timeout(now);
        if is_given_up(&medium) && medium.stats(0).attempts > 20 {
            medium.set_link_up(now, 0, true);
        }
    }
    let reports = run_out(&mut medium);
    assert_eq!(arrived(&reports), [0, 1, 2, 4, 5, 6, 7], "nothing new has to come behind them");
}

/// The numbers of the frames that were acknowledged.
fn acknowledged(reports: &[(usize, Instant, FrameUp)]) -> Vec<u64> {
    let is_acked = |done: &FrameDone| matches!(done.outcome, FrameOutcome::Acked(_));
    dones(reports).iter().filter(|end| is_acked(&end.2)).map(|end| end.2.id.0).collect()
}

#[test]
fn a_request_of_a_category_that_has_nothing_more_goes_when_another_is_answered() {
    let mut config = pair(HT, 0.3, 0.0);
    for radio in &mut config.radios {
        radio.edca = Some(AcParams::all(&radio.phy));
    }
    let mut medium = medium(config);
    let access = AccessCategory::Voice;
    let together = Some(at(1000));
    let once =
        TxOptions { access, attempts: Some(1), not_before: together, ..TxOptions::default() };
    give(&mut medium, at(500), 0..20, once);
    while let Some(now) = medium.poll_timeout() {
        medium.handle_timeout(now);
        medium.set_link_up(now, 0, medium.stats(0).block_acks_received == 0);
    }
    let mut reports = run_out(&mut medium);
    assert!(arrived(&reports).len() < acknowledged(&reports).len(), "some wait at the receiver");
    medium.set_link_up(at(1_000_000), 0, true);
    give(&mut medium, at(1_000_000), 20..21, TxOptions::default());
    reports.extend(run_out(&mut medium));
    let mut arrived = arrived(&reports);
    arrived.sort_unstable();
    assert_eq!(arrived, acknowledged(&reports));
}

#[test]
fn a_frame_that_the_receiver_refuses_holds_nothing_back() {
    let mut medium = medium(pair(HT, 0.0, 0.0));
    let mut reports = Vec::new();
    for (start, ids, accept) in [(1000, 0..1, true), (50_000, 1..2, false), (100_000, 2..5, true)] {
        let state = FrameDown::ReplyState { radio: RadioId(0), bits: 0, accept };
        medium.handle_frame(at(start), 1, state);
        give(&mut medium, at(start), ids, TxOptions::default());
        medium.handle_timeout(at(start + 10_000));
        reports.extend(run_out(&mut medium));
    }
    assert_eq!(arrived(&reports), [0, 2, 3, 4]);
    assert_eq!(medium.stats(0).refused, 1);
}

#[test]
fn frames_of_several_categories_are_one_row_where_one_function_sends_them() {
    let mut medium = medium(pair(HT, 0.0, 0.0));
    let mut next = 0;
    let mut reports = Vec::new();
    // A single frame, several together, and a single frame again.
    for (count, access) in [
        (1, AccessCategory::Voice),
        (3, AccessCategory::BestEffort),
        (1, AccessCategory::Background),
        (1, AccessCategory::Voice),
    ] {
        let start = at(1000 + 50_000 * next);
        let together = Some(start + us(100));
        let options = TxOptions { access, not_before: together, ..TxOptions::default() };
        give(&mut medium, start, next..next + count, options);
        next += count;
        reports.extend(run_out(&mut medium));
    }
    assert_eq!(arrived(&reports), [0, 1, 2, 3, 4, 5]);
    assert_eq!(medium.stats(0).aggregates, 1);
}

#[test]
fn every_frame_of_an_aggregate_takes_a_symbol_at_least() {
    let phy = Phy { kind: PhyKind::Ac, width: Width::Mhz80, ..HT };
    let mut medium = medium(pair(phy, 0.0, 0.0));
    let together = TxOptions { not_before: Some(at(2000)), ..TxOptions::default() };
    for id in 0..30 {
        medium.handle_frame(at(1000), 0, frame(id, Some(2), 40, together));
    }
    run_out(&mut medium);
    let sent = transmissions(&mut medium);
    let burst = sent.iter().find(|tx| tx.mpdus().len() == 30).expect("one aggregate");
    let shortest = burst.mpdus().iter().map(|mpdu| mpdu.until - mpdu.from).min();
    assert_eq!(shortest, Some(us(4)), "{:?}", burst.mpdus());
    let last = burst.mpdus().last().expect("thirty");
    assert_eq!(last.until, burst.end - burst.start);
}

#[test]
fn no_more_than_64_frames_are_in_one_transmission_or_between_the_first_and_the_last() {
    let fast = Phy { kind: PhyKind::Ac, width: Width::Mhz80, ..HT };
    let mut medium = medium(pair(fast, 0.1, 0.0));
    give(&mut medium, at(1000), 0..128, TxOptions::default());
    let reports = run_out(&mut medium);
    assert_eq!(arrived(&reports), (0..128).collect::<Vec<_>>());
    let sent = transmissions(&mut medium);
    let sizes: Vec<_> = sent.iter().map(|tx| tx.mpdus().len()).collect();
    assert_eq!(sizes.iter().max(), Some(&64));
    for aggregate in sent.iter().filter(|tx| !tx.mpdus().is_empty()) {
        let numbers = aggregate.mpdus();
        assert!(numbers[numbers.len() - 1].sequence - numbers[0].sequence < 64);
    }
}

/// Throughput of 1472-byte datagrams in Mb/s with a queue that is never empty.
fn goodput(config: MediumConfig) -> f64 {
    let length = Duration::from_secs(4);
    let mut medium = Medium::new(config, Seed(1));
    let (mut id, mut received) = (0, 0);
    while medium.poll_timeout().is_none_or(|now| now <= Instant::ZERO + length) {
        let now = medium.poll_timeout().unwrap_or(Instant::ZERO);
        medium.handle_timeout(now);
        received += std::iter::from_fn(|| medium.poll_event())
            .filter(|event| matches!(event.event, FrameUp::Received(_)))
            .count() as u64;
        while medium.room(0, AccessCategory::BestEffort) > 0 {
            medium.handle_frame(now, 0, frame(id, Some(2), 1500, TxOptions::default()));
            id += 1;
        }
    }
    mbps(received, 1472, length)
}

#[test]
fn a_saturated_link_carries_what_its_air_time_allows() {
    // Frames of 1538 bytes, with delimiter and padding 1544. 802.11n at 65 Mb/s, 260 bits to a
    // symbol: 28 fit into 5,484 us. 802.11ac at 390 Mb/s, 1560 bits to a symbol: all 64 do.
    let symbols = |bytes: u64, bits: u64| (16 + 8 * bytes + 6).div_ceil(bits);
    let n = 36 + 4 * symbols(27 * 1544 + 1542, 260);
    let ac = 40 + 4 * symbols(64 * 1544, 1560);
    assert!(n <= 5484 && 36 + 4 * symbols(28 * 1544 + 1542, 260) > 5484);
    let fast = Phy { kind: PhyKind::Ac, width: Width::Mhz80, ..HT };
    for (phy, count, air) in [(HT, 28.0, n), (fast, 64.0, ac)] {
        // DIFS, 7.5 slots, the data, SIFS, a block acknowledgement at 24 Mb/s.
        let cycle = 34.0 + 67.5 + air as f64 + 16.0 + 32.0;
        let expected = count * 1472.0 * 8.0 / cycle;
        let ours = goodput(pair(phy, 0.0, 0.0));
        println!("{:?}: {ours:.2} Mb/s ({expected:.2})", phy.kind);
        close(ours, expected, 0.02);
    }
}

#[test]
fn one_frame_at_a_time_over_distance_pays_for_the_way_and_for_its_slot() {
    let phy = Phy { width: Width::Mhz40, guard_interval: GuardInterval::Short, ..HT };
    let carried = |km: f64, is_slot_widened: bool| {
        let delay = over_km(km);
        let slot = if is_slot_widened { us(9) + delay } else { us(9) };
        let end = |node| ChipConfig {
            slot,
            ack_timeout: phy.sifs() + slot + delay * 2,
            aggregate: 1,
            phy,
            rate: *phy.rates().last().unwrap(),
            ..ht(node)
        };
        goodput(mesh(vec![end(1), end(2)], delay)) * 1500.0 / 1472.0
    };
    for (is_slot_widened, figures) in [(false, [45.4, 36.3, 30.2]), (true, [45.4, 18.5, 11.6])] {
        for (km, expected) in [0.0, 10.0, 20.0].into_iter().zip(figures) {
            let ours = carried(km, is_slot_widened);
            println!("{km} km, slot {is_slot_widened}: {ours:.2} Mb/s ({expected})");
            close(ours, expected, 0.02);
        }
    }
}

#[test]
fn a_lone_frame_of_802_11ac_is_an_aggregate_of_one_and_gets_a_plain_acknowledgement() {
    let phy = Phy { kind: PhyKind::Ac, ..HT };
    let mut config = pair(phy, 0.0, 0.0);
    for radio in &mut config.radios {
        radio.rate = Bitrate::from_100kbps(650);
    }
    let mut medium = medium(config);
    give(&mut medium, at(1000), 0..1, TxOptions::default());
    run_out(&mut medium);
    let sent = transmissions(&mut medium);
    assert_eq!(sent.iter().map(Transmission::name).collect::<Vec<_>>(), ["data", "ack"]);
    // 4 + 1538 bytes, padded to 1544.
    assert_eq!(sent[0].end - sent[0].start, us(40 + 4 * (16_u64 + 8 * 1544 + 6).div_ceil(260)));
}

#[test]
fn a_radio_with_rate_control_sends_all_attempts_of_a_packet_at_one_rate() {
    use farhop_proto::stack::RateControl;
    let sender = ChipConfig { rate_control: RateControl::Prism, attempts: 8, ..chip(1) };
    let mut medium = medium(MediumConfig::new(vec![sender, chip(2)], vec![]));
    for id in 1..=5 {
        medium.handle_frame(at(1000), 0, frame(id, Some(2), 500, TxOptions::default()));
    }
    run_out(&mut medium);
    let rates: Vec<_> = transmissions(&mut medium).iter().map(|tx| tx.rate.mbps()).collect();
    let expected = [11.0, 5.5, 2.0, 1.0, 1.0].map(|rate| [rate; 8]).concat();
    assert_eq!(rates, expected);
}

#[test]
fn interference_destroys_only_the_frames_that_it_overlaps() {
    use crate::radio::Interference;
    use farhop_proto::stack::{CurveConfig, SinrSettings};
    let mut config = pair(HT, 0.0, 0.0);
    config.interference = Interference::Sinr(SinrSettings {
        noise_dbm: Some(-94.0),
        preamble_db: Some(4.0),
        preamble_min_dbm: Some(-101.0),
        curve: CurveConfig::default(),
    });
    // Only the receiver hears it, as strong as the sender.
    config.radios.push(ht(3));
    config.links.push(link(2, 1, Duration::ZERO));
    let mut medium = medium(config);
    let together = TxOptions { not_before: Some(at(1000)), ..TxOptions::default() };
    give(&mut medium, at(500), 0..20, together);
    let spoken = TxOptions { not_before: Some(at(2500)), ..no_ack() };
    medium.handle_frame(at(500), 2, frame(99, None, 500, spoken));
    medium.handle_timeout(at(6000));
    let sent = transmissions(&mut medium);
    let (burst, noise) = (&sent[0], &sent[1]);
    assert_eq!((burst.mpdus().len(), noise.radio), (20, 2));
    let TransmissionKind::BlockAck { start, map, .. } = sent[2].kind else {
        panic!("{} instead of a block acknowledgement", sent[2].name());
    };
    for mpdu in burst.mpdus() {
        let (from, until) = (burst.start + mpdu.from, burst.start + mpdu.until);
        let is_hit = from < noise.end && until > noise.start;
        assert_eq!(map >> (mpdu.sequence - start) & 1 == 0, is_hit, "{}", mpdu.id.0);
    }
    assert!(map.count_ones() > 8 && map.count_ones() < 20, "{map:b}");
}

#[test]
fn an_agreement_goes_on_however_many_frames_were_given_up_unheard() {
    // Of the 4,096 numbers, those up to 2,048 before the start count as old.
    for given_up in [2_000_u64, 2_100, 4_000, 4_096, 4_200] {
        let chip = |node| ChipConfig { queue_frames: 5_000, ..ht(node) };
        let mut medium = medium(mesh(vec![chip(1), chip(2)], Duration::ZERO));
        give(&mut medium, at(1_000), 0..3, TxOptions::default());
        let mut reports = run_out(&mut medium);
        medium.set_link_up(at(100_000), 0, false);
        let once = TxOptions { attempts: Some(1), ..TxOptions::default() };
        give(&mut medium, at(100_000), 3..3 + given_up, once);
        reports.extend(run_out(&mut medium));
        medium.set_link_up(at(1_000_000_000), 0, true);
        give(&mut medium, at(1_000_000_000), 9_000..9_010, TxOptions::default());
        reports.extend(run_out(&mut medium));
        let expected: Vec<u64> = (0..3).chain(9_000..9_010).collect();
        assert_eq!(arrived(&reports), expected, "{given_up}");
    }
}

#[test]
fn a_lost_preamble_within_an_aggregate_loses_only_what_comes_behind_it() {
    let text = "time_ns,link,fate\n3000000,a>b,preamble\n6000000,a>b,ok\n9000000,a>b,end\n";
    let trace = Arc::new(LossTrace::parse(text, None).expect("a recording"));
    let mut config = mesh(vec![ht(1), ht(2)], Duration::ZERO);
    config.links[0].loss = LossModel::Trace { trace, repeat: false };
    let mut medium = medium(config);
    give(&mut medium, at(1_000), 0..20, TxOptions::default());
    let reports = run_out(&mut medium);
    assert_eq!(arrived(&reports), (0..20).collect::<Vec<_>>());
    let first = reports.iter().filter(|report| report.0 == 1 && report.1 < at(6_000)).count();
    assert!((5..15).contains(&first), "{first} of the first aggregate");
}
