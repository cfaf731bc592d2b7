//! Checks of the PHY of a radio.

use super::Found;
use crate::base::{Band, Bitrate, GuardInterval, PhyKind, Width};
use crate::stack::scenario::RadioConfig;

/// Checks for keys that the PHY does not have, which would silently have no effect.
pub(super) fn check_phy(found: &mut Found, radio: &RadioConfig) {
    let kind = radio.phy;
    let has_mcs = matches!(kind, PhyKind::N | PhyKind::Ac);
    check_width(found, radio);
    if !(1..=2).contains(&radio.streams) {
        let message = format!("{} is not a number of spatial streams", radio.streams);
        found.add("radio.streams", message, "1 or 2");
    }
    let only_mcs = "phy = \"802.11n\" or \"802.11ac\", or leave it out";
    if radio.streams > 1 && !has_mcs {
        found.add("radio.streams", "this PHY has one stream", only_mcs);
    }
    if radio.guard_interval == GuardInterval::Short && !has_mcs {
        found.add("radio.guard_interval", "this PHY has no short guard interval", only_mcs);
    }
    if radio.mixed && kind != PhyKind::G {
        found.add("radio.mixed", "this PHY has no mixed form", "phy = \"802.11g\"");
    }
    if radio.mixed && radio.width_mhz != 20 {
        let message = "802.11b has no narrow channels";
        found.add("radio.mixed", message, "width_mhz = 20, or mixed = false");
    }
    if let Some(band) = radio.band
        && kind != PhyKind::Wire
        && band != radio.phy().band()
    {
        let help = match radio.phy().band() {
            Band::Ghz2 => "\"2.4GHz\", or phy = \"802.11n\"",
            Band::Ghz5 => "\"5GHz\", or phy = \"802.11n\"",
        };
        found.add("radio.band", "this PHY does not work in this band", help);
    }
    check_rates(found, radio, has_mcs);
}

fn check_width(found: &mut Found, radio: &RadioConfig) {
    let accepted: &[u16] = match radio.phy {
        PhyKind::B | PhyKind::Wire => &[20],
        PhyKind::A | PhyKind::G => &[5, 10, 20],
        PhyKind::N => &[20, 40],
        PhyKind::Ac => &[20, 40, 80],
    };
    if Width::from_mhz(radio.width_mhz).is_none() || !accepted.contains(&radio.width_mhz) {
        let message = format!("this PHY has no channels of {} MHz", radio.width_mhz);
        found.add("radio.width_mhz", message, format!("one of {}", list(accepted)));
    }
}

fn check_rates(found: &mut Found, radio: &RadioConfig, has_mcs: bool) {
    let phy = radio.phy();
    let known = [
        ("rate_mbps", radio.rate_mbps, phy.rates()),
        ("ack_rate_mbps", radio.ack_rate_mbps, phy.legacy_rates()),
        ("broadcast_rate_mbps", radio.broadcast_rate_mbps, phy.legacy_rates()),
    ];
    for (key, rate, rates) in known {
        let Some(rate) = rate else { continue };
        let path = format!("radio.{key}");
        if radio.phy == PhyKind::Wire {
            found.number(path, rate, 1e-3..=1e6, "a rate of a wire in Mb/s");
        } else if !rates.contains(&Bitrate::from_mbps(rate)) {
            let accepted: Vec<f64> = rates.iter().map(|rate| rate.mbps()).collect();
            let help = format!("one of {}", list(&accepted));
            found.add(path, format!("this PHY has no rate of {rate} Mb/s"), help);
        }
    }
    let Some(mcs) = radio.mcs else { return };
    if !has_mcs {
        found.add("radio.mcs", "this PHY has no MCS", "rate_mbps, or phy = \"802.11n\"");
    } else if phy.rate_of_mcs(mcs).is_none() {
        let numbers: Vec<u8> = phy.rates().iter().filter_map(|rate| phy.mcs(*rate)).collect();
        let message = format!("these settings have no MCS {mcs}");
        found.add("radio.mcs", message, format!("one of {}", list(&numbers)));
    }
    if radio.rate_mbps.is_some() {
        let help = "either mcs or rate_mbps";
        found.add("radio.mcs", "the rate of data is given twice", help);
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(radio: &RadioConfig) -> Vec<(String, String)> {
        let mut found = Found(Vec::new());
        check_phy(&mut found, radio);
        found.0.into_iter().map(|problem| (problem.path, problem.help)).collect()
    }

    fn radio(phy: PhyKind) -> RadioConfig {
        RadioConfig { phy, ..RadioConfig::default() }
    }

    #[test]
    fn every_phy_is_fine_with_its_defaults_and_with_all_it_has() {
        for kind in [PhyKind::B, PhyKind::A, PhyKind::G, PhyKind::N, PhyKind::Ac, PhyKind::Wire] {
            assert_eq!(problems(&radio(kind)), []);
        }
        let wide = RadioConfig {
            width_mhz: 80,
            streams: 2,
            guard_interval: GuardInterval::Short,
            mcs: Some(9),
            ack_rate_mbps: Some(24.0),
            ..radio(PhyKind::Ac)
        };
        assert_eq!(problems(&wide), []);
        assert_eq!(wide.rate().mbps(), 866.7);
        let narrow = RadioConfig { width_mhz: 5, rate_mbps: Some(2.25), ..radio(PhyKind::G) };
        assert_eq!(problems(&narrow), []);
    }

    #[test]
    fn a_rate_that_the_phy_lacks_lists_those_it_has() {
        let n = RadioConfig { rate_mbps: Some(54.0), ..radio(PhyKind::N) };
        let rates = "one of 6.5, 13, 19.5, 26, 39, 52, 58.5, 65".to_owned();
        assert_eq!(problems(&n), [("radio.rate_mbps".to_owned(), rates)]);
        let one = RadioConfig { mcs: Some(9), ..radio(PhyKind::Ac) };
        let numbers = "one of 0, 1, 2, 3, 4, 5, 6, 7, 8".to_owned();
        assert_eq!(problems(&one), [("radio.mcs".to_owned(), numbers)]);
    }

    #[test]
    fn choices_that_a_phy_does_not_have_are_refused() {
        let b = RadioConfig {
            width_mhz: 40,
            streams: 2,
            guard_interval: GuardInterval::Short,
            mixed: true,
            band: Some(Band::Ghz5),
            mcs: Some(7),
            ..radio(PhyKind::B)
        };
        let keys = ["width_mhz", "streams", "guard_interval", "mixed", "mixed", "band", "mcs"];
        let paths: Vec<String> = problems(&b).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, keys.map(|key| format!("radio.{key}")));
    }
}
