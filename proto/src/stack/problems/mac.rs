//! Checks of the MAC of a radio.

use super::Found;
use crate::base::{AccessCategory, PhyKind};
use crate::stack::scenario::{AccessConfig, LinkOverhead, Protection, RadioConfig};

/// The longest TXOP that a driver can ask for, in microseconds.
const MOST_TXOP_US: u32 = 8160;
/// The largest contention window.
const MOST_WINDOW: u32 = 32_767;

/// Checks for values that no card takes, and for keys that would silently have no effect.
pub(super) fn check_mac(found: &mut Found, radio: &RadioConfig) {
    if radio.long_attempts == 0 {
        let message = "a frame needs at least one attempt";
        found.add("radio.long_attempts", message, "1 or more, usually 4");
    }
    if !(1..=64).contains(&radio.aggregate) {
        let message = format!("{} frames cannot go in one transmission", radio.aggregate);
        found.add("radio.aggregate", message, "1 to 64");
    }
    if radio.protection != Protection::None && !radio.mixed {
        let message = "there is nobody to protect OFDM from";
        found.add("radio.protection", message, "mixed = true with phy = \"802.11g\"");
    }
    if radio.edca && radio.phy == PhyKind::Wire {
        found.add("radio.edca", "nothing contends on a wire", "leave it out");
    }
    if radio.link_overhead != LinkOverhead::Counted && radio.phy != PhyKind::Wire {
        let message = "every byte takes time on the air";
        found.add("radio.link_overhead", message, "phy = \"wire\", or leave it out");
    }
    if !radio.edca && !radio.access.is_default() {
        found.add("radio.access", "DCF has no access categories", "edca = true");
    }
    for (name, access) in [
        ("background", AccessCategory::Background),
        ("best_effort", AccessCategory::BestEffort),
        ("video", AccessCategory::Video),
        ("voice", AccessCategory::Voice),
    ] {
        let standard = radio.phy().contention_window_of(access);
        check_access(found, name, radio.access.of(access), standard);
    }
}

fn check_access(
    found: &mut Found,
    name: &str,
    access: &AccessConfig,
    (smallest, largest): (u32, u32),
) {
    if let Some(aifsn) = access.aifsn.filter(|aifsn| !(2..=15).contains(aifsn)) {
        let message = format!("{aifsn} slots make no interframe space");
        found.add(format!("radio.access.{name}.aifsn"), message, "2 to 15");
    }
    for (key, window) in [("cw_min", access.cw_min), ("cw_max", access.cw_max)] {
        let is_bad = |window: &u32| *window > MOST_WINDOW || !(window + 1).is_power_of_two();
        if let Some(window) = window.filter(is_bad) {
            let message = format!("{window} is not a contention window");
            let help = "a power of two less one, up to 32767";
            found.add(format!("radio.access.{name}.{key}"), message, help);
        }
    }
    let given = (access.cw_min, access.cw_max);
    let (smallest, largest) = (given.0.unwrap_or(smallest), given.1.unwrap_or(largest));
    if given != (None, None) && smallest > largest {
        let message = format!("the window cannot shrink from {smallest} to {largest}");
        let (key, help) = match given {
            (Some(_), None) => ("cw_min", format!("{largest} or less, or a larger cw_max with it")),
            (None, _) => ("cw_max", format!("{smallest} or more, or a smaller cw_min with it")),
            _ => ("cw_max", "cw_min or more".to_owned()),
        };
        found.add(format!("radio.access.{name}.{key}"), message, help);
    }
    if let Some(txop) = access.txop_us.filter(|txop| *txop > MOST_TXOP_US) {
        let message = format!("no driver asks for a TXOP of {txop} us");
        found.add(format!("radio.access.{name}.txop_us"), message, "8160 or less; 0 is one frame");
    }
}
