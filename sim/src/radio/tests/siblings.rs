//! Several radios at one node, and channels that overlap partly (`radio.md` 6).

use super::*;

/// Node 1 has a radio for node 2 and one for node 3; the peers do not hear each other.
fn fork(channels: [u16; 2]) -> MediumConfig {
    let at = |node, radio, channel| ChipConfig { channel, radio: RadioId(radio), ..chip(node) };
    let radios = vec![
        at(1, 0, channels[0]),
        at(1, 1, channels[1]),
        at(2, 0, channels[0]),
        at(3, 0, channels[1]),
    ];
    let links = [(0, 2), (2, 0), (1, 3), (3, 1)].map(|(from, to)| link(from, to, us(50)));
    MediumConfig::new(radios, links.to_vec())
}

/// Throughput of node 1 to both neighbours at once, in Mb/s.
fn fanned_out(channels: [u16; 2], options: TxOptions) -> f64 {
    let length = Duration::from_secs(20);
    let sources =
        [(0, 2), (1, 3)].map(|(radio, to)| Saturated { radio, to, bytes: 1440 + 28, options });
    let mut config = fork(channels);
    for radio in &mut config.radios {
        radio.ack_timeout += us(100);
    }
    let tally = saturate(&mut Medium::new(config, Seed(1)), 4, &sources, length);
    mbps(tally[2].delivered + tally[3].delivered, 1440, length)
}

#[test]
fn radios_of_a_node_share_one_channel_but_not_two() {
    let (shared, apart) = (fanned_out([1, 1], no_ack()), fanned_out([1, 6], no_ack()));
    println!("{shared:.2} Mb/s on one channel, {apart:.2} on two");
    // Measured by the paper: 7.88 and 14.20 Mb/s.
    close(shared, 7.88, 0.1);
    close(apart, 14.2, 0.1);
    // The closer the channels, the more acknowledgements are drowned.
    let steps = [1, 2, 3, 4, 5].map(|channel| fanned_out([1, channel], TxOptions::default()));
    println!("{steps:.2?}");
    assert!(steps[4] > 1.5 * steps[0], "{steps:?}");
}

#[test]
fn a_radio_hears_nothing_while_its_sibling_sends_on_its_channel() {
    for (channel, heard) in [(1, 0), (6, 1)] {
        let mut config = fork([1, channel]);
        for radio in &mut config.radios {
            radio.carrier_sense = false;
        }
        let mut medium = medium(config);
        medium.handle_frame(at(1000), 2, frame(1, Some(1), 500, no_ack()));
        medium.handle_frame(at(1200), 1, frame(2, Some(3), 100, no_ack()));
        let reports = run_out(&mut medium);
        let of_node_1 = receptions(&reports).iter().filter(|(radio, _, _)| *radio == 0).count();
        assert_eq!(of_node_1, heard, "with the sibling on channel {channel}");
        assert_eq!(medium.stats(0).missed, 1 - heard as u64);
    }
}

#[test]
fn a_sibling_that_sends_makes_the_medium_busy() {
    let mut medium = medium(fork([1, 3]));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, no_ack()));
    medium.handle_frame(at(1100), 1, frame(2, Some(3), 500, no_ack()));
    run_out(&mut medium);
    let air = on_air(&mut medium);
    assert!(air[1].1 >= air[0].2 + 50, "{air:?}");
}

#[test]
fn a_channel_that_overlaps_in_part_is_energy_and_no_more() {
    let other = ChipConfig { channel: 3, ..chip(2) };
    let mut medium = medium(mesh(vec![chip(1), other], us(3)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, no_ack()));
    medium.handle_frame(at(1100), 1, frame(2, Some(1), 500, no_ack()));
    assert!(receptions(&run_out(&mut medium)).is_empty());
    let air = on_air(&mut medium);
    assert!(air[1].1 >= air[0].2 + 50, "{air:?}");
}

#[test]
fn links_can_be_replaced_while_a_frame_is_on_its_way() {
    let mut medium = medium(mesh(vec![chip(1), chip(2), chip(3)], us(3)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, no_ack()));
    // Node 2 moves out of reach, and comes back far away.
    medium.set_links(at(1100), 0, &[link(0, 2, us(3))]);
    medium.handle_frame(at(3000), 0, frame(2, Some(2), 500, no_ack()));
    medium.handle_timeout(at(9000));
    medium.set_links(at(9000), 0, &[link(0, 1, us(300)), link(0, 2, us(3))]);
    medium.handle_frame(at(10_000), 0, frame(3, Some(2), 500, no_ack()));
    let reports = run_out(&mut medium);
    let heard: Vec<_> = receptions(&reports).iter().map(|(_, _, frame)| frame.started).collect();
    assert_eq!(heard, [at(1003), at(10_300)]);
}

#[test]
fn channels_disturb_each_other_as_far_as_they_are_wide() {
    use farhop_proto::base::{PhyKind, Width};
    let waits = |kind, width, channel| {
        let phy = Phy { kind, width, ..Phy::default() };
        let at_channel = |node, channel| ChipConfig {
            channel,
            ..ChipConfig::new(NodeId(node), RadioId(0), phy)
        };
        let mut medium = medium(mesh(vec![at_channel(1, 42), at_channel(2, channel)], us(3)));
        medium.handle_frame(at(1000), 0, frame(1, None, 1500, no_ack()));
        medium.handle_frame(at(1020), 1, frame(2, None, 1500, no_ack()));
        run_out(&mut medium);
        let air = on_air(&mut medium);
        air[1].1 >= air[0].2
    };
    assert!(waits(PhyKind::Ac, Width::Mhz80, 42 + 15), "5 MHz in common");
    assert!(!waits(PhyKind::Ac, Width::Mhz80, 42 + 16));
    assert!(waits(PhyKind::A, Width::Mhz20, 42 + 1));
    assert!(!waits(PhyKind::A, Width::Mhz5, 42 + 1), "narrow channels side by side");
}
