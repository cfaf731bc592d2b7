//! Our air times against those of ns-3 3.37 (`bench/ns3/airtime.cc` made the table).
//!
//! They are equal to the nanosecond, but for three cases, in which the test demands what ns-3 has
//! with what the standard adds:
//! - with short guard intervals ns-3 ends a frame with its last symbol of 3.6 us, the standard on a
//!   multiple of 4 us after the preamble (802.11-2012 20.4.3, 802.11ac-2013 22.4.3);
//! - in channels of 5 and 10 MHz ns-3 cuts the data into symbols of 4 us, the standard into whole
//!   symbols of 16 and 8 us (802.11-2012 table 18-5);
//! - ns-3 leaves out the 4 us of VHT-SIG-B, which is in every VHT frame and not only in those for
//!   several receivers (802.11ac-2013 22.3.2 and 22.4.3).

use farhop_proto::base::{AckRate, Band, Bitrate, GuardInterval, Phy, PhyKind, Preamble, Width};

const TABLE: &str = include_str!("data/airtime-ns3.csv");

struct Row {
    phy: Phy,
    rate: Bitrate,
    bytes: usize,
    air_ns: u64,
    head_ns: u64,
}

fn row(line: &str) -> Row {
    let fields: Vec<&str> = line.split(',').collect();
    let [kind, preamble, band, width, gi, streams, rate, bytes, air, head] = fields[..] else {
        panic!("ten fields in {line}");
    };
    let number = |field: &str| field.parse::<u64>().expect("a number");
    let kinds = [
        ("b", PhyKind::B),
        ("a", PhyKind::A),
        ("g", PhyKind::G),
        ("n", PhyKind::N),
        ("ac", PhyKind::Ac),
    ];
    let phy = Phy {
        kind: kinds.iter().find(|known| known.0 == kind).expect("a PHY").1,
        preamble: if preamble == "short" { Preamble::Short } else { Preamble::Long },
        width: Width::from_mhz(number(width) as u16).unwrap_or_default(),
        guard_interval: if gi == "400" { GuardInterval::Short } else { GuardInterval::Long },
        streams: number(streams) as u8,
        band: if band == "2" { Band::Ghz2 } else { Band::Ghz5 },
        mixed: false,
        ack_rule: AckRate::Basic,
    };
    let rate = match rate.strip_prefix('m') {
        Some(mcs) => phy.rate_of_mcs(number(mcs) as u8).expect("an MCS of this PHY"),
        None => Bitrate::from_mbps(rate.parse().expect("a rate")),
    };
    assert!(phy.has_rate(rate), "{line}");
    Row { phy, rate, bytes: number(bytes) as usize, air_ns: number(air), head_ns: number(head) }
}

fn rows() -> impl Iterator<Item = (&'static str, Row)> {
    TABLE.lines().skip(2).map(|line| (line, row(line)))
}

#[test]
fn air_times_are_those_of_another_calculator() {
    let mut short = 0;
    for (line, row) in rows() {
        let whole = match (row.phy.guard_interval, row.phy.width) {
            (GuardInterval::Short, _) => 4_000,
            (_, Width::Mhz5) => 16_000,
            (_, Width::Mhz10) => 8_000,
            _ => 1,
        };
        short += usize::from(whole == 4_000);
        // The 6 us after OFDM at 2.4 GHz are no part of what is rounded.
        let is_extended = row.phy.band() == Band::Ghz2 && row.phy.kind != PhyKind::B;
        let extension = if is_extended { 6_000 } else { 0 };
        let data = (row.air_ns - row.head_ns - extension).next_multiple_of(whole);
        let head = row.head_ns + if row.phy.kind == PhyKind::Ac { 4_000 } else { 0 };
        let ours = row.phy.air_time(row.bytes, row.rate).as_nanos();
        assert_eq!(ours, head + data + extension, "{line}");
        assert_eq!(row.phy.plcp(row.rate).as_nanos(), head, "{line}");
    }
    assert!(short > 1000, "{short} rows with short guard intervals");
}

#[test]
fn the_table_has_every_mode_of_every_phy() {
    let all: Vec<(Phy, Bitrate)> = rows().map(|(_, row)| (row.phy, row.rate)).collect();
    for (phy, _) in &all {
        for rate in phy.rates() {
            let is_long = phy.preamble == Preamble::Short && rate.mbps() == 1.0;
            assert!(is_long || all.contains(&(*phy, *rate)), "{phy:?} at {rate}");
        }
    }
}
