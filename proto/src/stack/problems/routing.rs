//! Checks of routing.

use super::Found;
use crate::routing::olsr::OlsrConfig;
use crate::stack::{RoutingConfig, Scenario};

pub(super) fn check_routing(found: &mut Found, scenario: &Scenario) {
    let RoutingConfig::Olsr(config) = &scenario.stack.routing else { return };
    if !scenario.stack.link.has_broadcast() {
        let message = format!("olsr over '{}', which has no broadcast", scenario.stack.link.name());
        found.add("stack.routing.kind", message, "kind = \"fixed\", or another stack.link.kind");
    }
    check_olsr(found, config, scenario);
}

fn check_olsr(found: &mut Found, config: &OlsrConfig, scenario: &Scenario) {
    let key = |name: &str| format!("stack.routing.{name}");
    let times =
        [("hello_s", config.hello_s), ("tc_s", config.tc_s), ("recompute_s", config.recompute_s)];
    for (name, seconds) in times {
        found.number(key(name), seconds, 0.1..=60.0, "a time in seconds");
    }
    let most = f64::from(OlsrConfig::MOST_WINDOW);
    let counts = [
        ("window", config.window, 1.0..=most, "a number of HELLOs"),
        ("hello_hold", config.hello_hold, 2.0..=100.0, "a number of HELLOs"),
        ("tc_hold", config.tc_hold, 2.0..=100.0, "a number of topology messages"),
        ("willingness", config.willingness, 0.0..=7.0, "0 (never) to 7 (always)"),
        ("relays", config.relays, 1.0..=16.0, "a number of relays"),
    ];
    for (name, count, range, what) in counts {
        found.number(key(name), f64::from(count), range, what);
    }
    let Some(rate) = config.rate_mbps else { return };
    let phy = scenario.radio.phy();
    if rate.is_finite() && rate > 0.0 && phy.has_rate(crate::base::Bitrate::from_mbps(rate)) {
        return;
    }
    let rates: Vec<String> = phy.basic_rates().iter().map(|rate| rate.mbps().to_string()).collect();
    let help = format!("a rate that all radios know, in Mb/s: {}", rates.join(", "));
    found.add(key("rate_mbps"), format!("no rate of this radio: {rate}"), help);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::two_p::TwoPConfig;
    use crate::stack::{LinkConfig, StackConfig};

    fn places(olsr: OlsrConfig, link: LinkConfig) -> Vec<String> {
        let stack =
            StackConfig { link, routing: RoutingConfig::Olsr(olsr), ..StackConfig::default() };
        let mut found = Found(Vec::new());
        check_routing(&mut found, &Scenario { stack, ..Scenario::default() });
        found.0.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn what_olsr_cannot_do_is_said() {
        let plain = LinkConfig::default;
        assert_eq!(places(OlsrConfig::default(), plain()), [""; 0]);
        let two_p = LinkConfig::TwoP(TwoPConfig::default());
        assert_eq!(places(OlsrConfig::default(), two_p), ["stack.routing.kind"]);
        let wrong = OlsrConfig { hello_s: 0.0, window: 40, ..OlsrConfig::default() };
        let found = places(wrong, plain());
        assert_eq!(found, ["stack.routing.hello_s", "stack.routing.window"]);
        let wrong = OlsrConfig { rate_mbps: Some(3.0), ..OlsrConfig::default() };
        assert_eq!(places(wrong, plain()), ["stack.routing.rate_mbps"]);
    }
}
