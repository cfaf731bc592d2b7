//! Headers as we write them, and as drivers do.

use super::*;
use crate::base::{GuardInterval, Preamble};

const MBPS_11: Bitrate = Bitrate::from_100kbps(110);

#[test]
fn an_unacknowledged_frame_is_injected_with_rate_and_flag_alone() {
    let mut out = Vec::new();
    put_injection(&mut out, &Injection { phy: Phy::default(), rate: MBPS_11, retries: None });
    assert_eq!(out, [0, 0, 12, 0, 0x04, 0x80, 0, 0, 22, 0, 0x08, 0]);
    let flags = TxFlags { failed: false, no_ack: true };
    assert_eq!(parse(&out).expect("a header").tx_flags, Some(flags));
}

#[test]
fn an_acknowledged_frame_is_injected_with_its_retries() {
    let mut out = Vec::new();
    put_injection(&mut out, &Injection { phy: Phy::default(), rate: MBPS_11, retries: Some(2) });
    assert_eq!(out, [0, 0, 13, 0, 0x04, 0x80, 0x02, 0, 22, 0, 0, 0, 2]);
    let found = parse(&out).expect("a header");
    assert_eq!((found.rate, found.data_retries), (Some(MBPS_11), Some(2)));
}

#[test]
fn a_reception_comes_back_as_it_went() {
    let reception = Reception {
        tsft_us: 0x0102_0304_0506_0708,
        phy: Phy::default(),
        rate: MBPS_11,
        channel: 6,
        signal: Some(Dbm::new(-61)),
        antenna: Some(3),
        ampdu: None,
    };
    let mut out = vec![0xff; 3];
    put_reception(&mut out, &reception);
    let found = parse(&out[3..]).expect("a header");
    assert_eq!(found.length, out.len() - 3);
    assert_eq!(found.tsft_us, Some(reception.tsft_us));
    assert_eq!((found.rate, found.signal), (Some(MBPS_11), Some(Dbm::new(-61))));
    assert_eq!(found.frequency_mhz, Some(2437));
    assert!(!found.is_echo());
}

#[test]
fn captured_frames_have_the_fields_of_their_phy_where_they_belong() {
    let n = Phy {
        kind: PhyKind::N,
        width: Width::Mhz40,
        guard_interval: GuardInterval::Short,
        ..Phy::default()
    };
    let rate = n.rate_of_mcs(7).expect("an MCS");
    let captured = Reception {
        tsft_us: 1,
        phy: n,
        rate,
        channel: 36,
        signal: Some(Dbm::new(-60)),
        antenna: None,
        ampdu: Some((7, true)),
    };
    let mut out = Vec::new();
    put_reception(&mut out, &captured);
    // TSFT, flags, alignment, 5180 MHz, signal; MCS 7; alignment to 4, A-MPDU 7, its last.
    let ht = [0x7f, 0x05, 7, 0, 0, 7, 0, 0, 0, 0x0c, 0, 0, 0];
    assert_eq!(out[18..23], [0x3c, 0x14, 0x40, 0x01, 0xc4]);
    assert_eq!(out[23..], ht);
    let found = parse(&out).expect("a header");
    assert_eq!((found.length, found.tsft_us), (out.len(), Some(1)));
    assert_eq!((found.signal, found.frequency_mhz), (Some(Dbm::new(-60)), Some(5180)));
    let ac = Phy { kind: PhyKind::Ac, width: Width::Mhz80, streams: 2, ..n };
    let rate = ac.rate_of_mcs(9).expect("an MCS");
    let mut out = Vec::new();
    put_reception(&mut out, &Reception { phy: ac, rate, ampdu: None, ..captured });
    assert_eq!(out[out.len() - 12..], [0x45, 0, 4, 4, 0x92, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(parse(&out).expect("a header").length, out.len());
    let mut out = Vec::new();
    let answer = Reception { rate: ac.legacy_rates()[4], phy: ac, ampdu: None, ..captured };
    put_reception(&mut out, &answer);
    assert_eq!(parse(&out).expect("a header").rate, Some(Bitrate::from_100kbps(240)));
}

#[test]
fn a_short_preamble_is_told() {
    let flags = |preamble, rate| {
        let mut out = Vec::new();
        let phy = Phy { preamble, ..Phy::default() };
        let (tsft_us, channel, signal, antenna, ampdu) = (1, 1, None, None, None);
        put_reception(&mut out, &Reception { tsft_us, phy, rate, channel, signal, antenna, ampdu });
        // Behind the eight bytes of the front and those of the time.
        out[16]
    };
    assert_eq!(flags(Preamble::Short, MBPS_11), 0x02);
    assert_eq!(flags(Preamble::Long, MBPS_11), 0);
    assert_eq!(flags(Preamble::Short, Bitrate::from_100kbps(10)), 0, "it has none");
}

#[test]
fn an_echo_is_told_from_a_reception() {
    let mut out = Vec::new();
    put_echo(&mut out, &Echo { phy: Phy::default(), rate: MBPS_11, failed: true, retries: 3 });
    let found = parse(&out).expect("a header");
    assert_eq!(out.len(), 13, "as mac80211 writes it");
    assert!(found.is_echo());
    assert!(found.tx_flags.is_some_and(|flags| flags.failed));
    assert_eq!(found.data_retries, Some(3));
}

/// A reception as mac80211_hwsim of Linux 6.1 hands it up: TSFT, flags, rate, channel, signal,
/// antenna, RX flags; 26 bytes.
const HWSIM: [u8; 26] = [
    0x00, 0x00, 0x1a, 0x00, 0x2f, 0x48, 0x00, 0x00, // present: bits 0, 1, 2, 3, 5, 11, 14
    0x10, 0x32, 0x54, 0x76, 0x00, 0x00, 0x00, 0x00, // TSFT
    0x00, 0x16, // flags, 11 Mb/s
    0x6c, 0x09, 0xa0, 0x00, // 2412 MHz, CCK
    0xce, 0x00, // -50 dBm, antenna 0
    0x00, 0x00, // RX flags
];

#[test]
fn the_header_of_a_real_driver_is_read() {
    let found = parse(&HWSIM).expect("a header");
    assert_eq!(found.tsft_us, Some(0x7654_3210));
    assert_eq!(found.rate, Some(MBPS_11));
    assert_eq!(found.signal, Some(Dbm::new(-50)));
    assert_eq!(found.frequency_mhz, Some(2412));
}

/// A header with these fields, its body after `fields`.
fn header<const N: usize>(fields: u32, body: [u8; N]) -> Vec<u8> {
    let mut out = vec![0, 0, 8 + N as u8, 0];
    out.extend_from_slice(&fields.to_le_bytes());
    out.extend_from_slice(&body);
    out
}

#[test]
fn receptions_at_ht_and_vht_rates_are_read_past_what_they_add() {
    // TSFT, flags, a byte of alignment, channel 5180 MHz, -70 dBm, antenna, RX flags.
    let body = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3c, 0x14, 0x40, 0x01, 0xba, 0, 0, 0];
    let mut ht = [0; 21];
    ht[..18].copy_from_slice(&body);
    ht[18..].copy_from_slice(&[0x07, 0x04, 7]);
    let mut vht = [0; 30];
    vht[..18].copy_from_slice(&body);
    vht[18] = 0x44;
    for packet in [header(0x0008_482b, ht), header(0x0020_482b, vht)] {
        let found = parse(&packet).expect("a header");
        assert!([29, 38].contains(&found.length), "the lengths that mac80211 writes");
        assert_eq!((found.tsft_us, found.signal), (Some(1), Some(Dbm::new(-70))));
        assert_eq!((found.rate, found.frequency_mhz), (None, Some(5180)));
        let n = fast(PhyKind::N, Width::Mhz20, 1);
        let is_ht = found.length == 29;
        assert_eq!(found.rate_of(&n), n.rate_of_mcs(7).filter(|_| is_ht));
        assert!(!found.is_echo());
    }
}

#[test]
fn echoes_at_ht_and_vht_rates_are_read() {
    // TX flags "failed", one retry, MCS 7; the VHT field is aligned to two bytes.
    let mut vht = [0; 16];
    vht[..3].copy_from_slice(&[1, 0, 1]);
    vht[4] = 0x44;
    for packet in [header(0x000a_8000, [1, 0, 1, 7, 0, 7]), header(0x0022_8000, vht)] {
        let found = parse(&packet).expect("a header");
        assert!([14, 24].contains(&found.length), "the lengths that mac80211 writes");
        assert!(found.is_echo() && found.tx_flags.is_some_and(|flags| flags.failed));
        assert_eq!((found.data_retries, found.rate), (Some(1), None));
    }
}

#[test]
fn a_second_bitmap_and_odd_alignment_are_stepped_over() {
    let header = [
        0x00, 0x00, 0x18, 0x00, 0x22, 0x00, 0x00, 0xa0, // flags, signal; more bitmaps
        0x20, 0x08, 0x00, 0x00, // second bitmap: per-antenna signal and antenna
        0x10, 0xc4, // flags with FCS, -60 dBm
        0xc4, 0x00, // the second bitmap's fields
        0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let found = parse(&header).expect("a header");
    assert!(found.has_fcs);
    assert_eq!(found.signal, Some(Dbm::new(-60)));
    assert_eq!(found.length, 24);
}

#[test]
fn headers_cut_short_or_of_another_version_are_refused() {
    for length in 0..HWSIM.len() {
        assert_eq!(parse(&HWSIM[..length]), Err(DecodeError::Truncated));
    }
    let mut short = HWSIM;
    short[2] = 9;
    assert_eq!(parse(&short), Err(DecodeError::Truncated));
    short[0] = 1;
    assert_eq!(parse(&short), Err(DecodeError::Version));
}

#[test]
fn a_header_leads_back_to_each_rate_of_each_width() {
    for (kind, width) in [
        (PhyKind::B, Width::Mhz20),
        (PhyKind::A, Width::Mhz20),
        (PhyKind::G, Width::Mhz10),
        (PhyKind::A, Width::Mhz5),
    ] {
        let phy = Phy { kind, width, ..Phy::default() };
        for rate in phy.rates() {
            let mut out = Vec::new();
            put_injection(&mut out, &Injection { phy, rate: *rate, retries: None });
            let found = parse(&out).expect("a header");
            assert_eq!(found.rate_of(&phy), Some(*rate), "{kind:?} {width:?}");
            assert!(out.len() <= injection_bytes(&phy));
        }
    }
}

/// 802.11n or ac with a width and streams, and a short guard interval.
fn fast(kind: PhyKind, width: Width, streams: u8) -> Phy {
    Phy { kind, width, streams, guard_interval: GuardInterval::Short, ..Phy::default() }
}

#[test]
fn rates_of_ht_and_vht_are_injected_as_their_mcs() {
    let of = |phy: Phy, mcs: u8, retries| {
        let mut out = Vec::new();
        let rate = phy.rate_of_mcs(mcs).expect("an MCS");
        put_injection(&mut out, &Injection { phy, rate, retries });
        out
    };
    // All of the MCS field is known: 40 MHz, short guard interval.
    let n = of(fast(PhyKind::N, Width::Mhz40, 2), 15, None);
    assert_eq!(n, [0, 0, 13, 0, 0, 0x80, 0x08, 0, 0x08, 0, 0x7f, 0x05, 15]);
    // STBC, guard interval and bandwidth of the VHT field are known: 80 MHz, MCS 9 on two streams.
    let ac = of(fast(PhyKind::Ac, Width::Mhz80, 2), 9, Some(3));
    let head = [0, 0, 24, 0, 0, 0x80, 0x22, 0, 0, 0, 3, 0];
    assert_eq!(ac[..12], head);
    assert_eq!(ac[12..], [0x45, 0, 4, 4, 0x92, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_frame_of_a_width_that_there_is_not_has_no_rate_of_ours() {
    // 160 MHz is bandwidth 11; MCS 9 on two streams, short guard interval.
    let vht = |bandwidth| {
        let head = header(0x0020_0000, [0x45, 0, 4, bandwidth, 0x92, 0, 0, 0, 0, 0, 0, 0]);
        parse(&head).expect("a header").rate_of(&fast(PhyKind::Ac, Width::Mhz80, 2))
    };
    assert!(vht(4).is_some() && vht(1).is_some() && vht(11).is_none());
}

#[test]
fn a_header_leads_back_to_each_mcs_that_a_phy_knows() {
    let phys = [
        fast(PhyKind::N, Width::Mhz20, 1),
        fast(PhyKind::N, Width::Mhz40, 1),
        fast(PhyKind::N, Width::Mhz40, 2),
        fast(PhyKind::Ac, Width::Mhz40, 2),
        fast(PhyKind::Ac, Width::Mhz80, 1),
        fast(PhyKind::Ac, Width::Mhz80, 2),
    ];
    for phy in phys {
        for rate in phy.rates().iter().chain(phy.legacy_rates()) {
            let mut out = Vec::new();
            put_injection(&mut out, &Injection { phy, rate: *rate, retries: Some(1) });
            let found = parse(&out).expect("a header");
            assert_eq!((found.rate_of(&phy), found.data_retries), (Some(*rate), Some(1)));
            assert!(out.len() <= injection_bytes(&phy));
            let has_mcs = phy.mcs(*rate).is_some();
            let mut out = Vec::new();
            let reception = Reception {
                tsft_us: 9,
                phy,
                rate: *rate,
                channel: 36,
                signal: Some(Dbm::new(-61)),
                antenna: None,
                ampdu: None,
            };
            put_reception(&mut out, &reception);
            let received = parse(&out).expect("a header");
            assert_eq!((received.rate_of(&phy), received.tsft_us), (Some(*rate), Some(9)));
            assert_eq!(received.signal, reception.signal);
            let mut out = Vec::new();
            put_echo(&mut out, &Echo { phy, rate: *rate, failed: true, retries: 2 });
            let echo = parse(&out).expect("a header");
            assert!(echo.is_echo() && echo.rate_of(&phy) == Some(*rate));
            assert_eq!(echo.data_retries, Some(2));
            let others = phys.iter().filter(|other| has_mcs && **other != phy);
            for other in others {
                let known = found.rate_of(other).map(|rate| other.sent(rate));
                let expected = other.decodes(&phy, *rate).then_some((phy, *rate));
                assert_eq!(known, expected, "{phy:?} and {other:?}");
            }
        }
    }
}
