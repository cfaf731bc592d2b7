//! Notes on a scenario: what is possible but hardly intended. It runs, and its author is told.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::config::LinkConfig;
use super::plan::LINK_SIGNAL_DBM;
use super::scenario::{
    DeviceConfig, FlowConfig, InterferenceConfig, NodeConfig, PropagationConfig, PropagationKind,
    RadioConfig, RadioLinkConfig, RadioOverride, RateControl, Scenario,
};
use super::space::{PathLoss, distance_m};
use crate::base::{AccessCategory, PhyKind};

/// No receiver is this much better than the standard requires.
const BELOW_SENSITIVITY_DB: f64 = 15.0;

impl Scenario {
    /// The notes on a scenario without problems, one line each.
    pub fn notes(&self) -> Vec<String> {
        let radios = self.radios();
        let rates = radios.iter().filter_map(|(whose, radio)| self.vain_rates(whose, radio));
        let deaf = radios.iter().filter_map(|(whose, radio)| self.deafness(whose, radio));
        // Other links send everything in one category.
        let keeps_categories = matches!(self.stack.link, LinkConfig::Plain(_));
        let has_categories = keeps_categories && radios.iter().any(|(_, radio)| radio.edca);
        let has_classes = matches!(self.stack.link, LinkConfig::Wild(_));
        let heeds_marks = (has_categories || has_classes) && !self.is_all_wires();
        let vain = self.flow.iter().enumerate().filter(|_| !heeds_marks).filter_map(vain_mark);
        let idle = self.idle_slots().into_iter().chain(self.idle_wires());
        let asked = radios.iter().filter_map(|(whose, radio)| self.vain_rts(whose, radio));
        let told = deaf.chain(rates).chain(asked).chain(vain).chain(idle);
        told.chain(self.late_faults())
            .chain(self.vain_budgets())
            .chain(self.shared_phases())
            .chain(self.vain_lengths())
            .chain(self.vain_keys())
            .chain(self.other_addresses())
            .chain(self.names_given_twice())
            .chain(self.other_lengths())
            .chain(self.weak_links())
            .chain(self.lengths_without_signal())
            .chain(self.chosen_rates())
            .chain(self.vain_losses())
            .collect()
    }

    /// Every radio that the file describes, with its owner.
    fn radios(&self) -> Vec<(String, RadioConfig)> {
        let all = std::iter::once(("radio".to_owned(), self.radio.clone()));
        let of_nodes = self.node.iter().filter_map(|node| {
            let radio = node.radio.as_ref()?;
            Some((format!("radio of node {}", node.name), radio.over(&self.radio)))
        });
        let of_links = self.link.iter().filter_map(|link| {
            let radio = link.radio.as_ref()?;
            let [a, b] = &link.between;
            Some((format!("radio of link {a}-{b}"), radio.over(&self.radio)))
        });
        all.chain(of_nodes).chain(of_links).collect()
    }

    /// The PHY of each link.
    fn phys(&self) -> impl Iterator<Item = PhyKind> {
        let own = self.node.iter().filter_map(|node| Some((&*node.name, node.radio.as_ref()?)));
        let own: BTreeMap<&str, &RadioOverride> = own.collect();
        self.link.iter().map(move |link| {
            let common = own.get(&*link.between[0]).copied();
            link.radio.as_ref().or(common).map_or(self.radio.phy, |it| it.over(&self.radio).phy)
        })
    }

    /// Whether nodes reach each other by wire only.
    fn is_all_wires(&self) -> bool {
        let has_places = self.node.iter().any(|node| node.place().is_some());
        let all_wires = self.phys().all(|phy| phy == PhyKind::Wire);
        all_wires && !self.link.is_empty() && !has_places
    }

    /// Settings of the queue of wires where no link is a wire.
    fn idle_wires(&self) -> Option<String> {
        self.stack.wires.as_ref()?;
        let has_wires = self.phys().any(|phy| phy == PhyKind::Wire);
        (!has_wires).then(|| "stack.wires: no link is a wire".to_owned())
    }

    /// Faults that begin after the end of the run.
    fn late_faults(&self) -> impl Iterator<Item = String> {
        let late = self.fault.iter().enumerate().filter(|(_, it)| it.from_s >= self.duration_s);
        late.map(|(index, fault)| {
            let (from_s, end_s) = (fault.from_s, self.duration_s);
            format!("fault[{index}]: it begins at {from_s} s, and the run ends at {end_s} s")
        })
    }

    /// Links whose length differs from the distance between their ends.
    fn other_lengths(&self) -> impl Iterator<Item = String> {
        let place = |node: &NodeConfig| Some((node.name.clone(), node.position_m?.0));
        let places: BTreeMap<String, [f64; 3]> = self.node.iter().filter_map(place).collect();
        let wrap_m = self.area.filter(|area| area.wrap).map(|area| area.size_m);
        let moves = self.has_movers();
        let links = self.link.iter().enumerate().filter(move |_| !moves);
        links.filter_map(move |(index, link)| {
            let (given, [a, b]) = (link.distance_km?, &link.between);
            let apart = distance_m(wrap_m, *places.get(a)?, *places.get(b)?) / 1e3;
            ((given - apart).abs() > 0.01 * given.max(apart)).then(|| {
                format!(
                    "link[{index}]: it counts as {given} km long, and its ends stand {apart:.3} \
                     km apart"
                )
            })
        })
    }

    /// Flows with the name of another flow.
    fn names_given_twice(&self) -> impl Iterator<Item = String> {
        let mut first = BTreeMap::new();
        let named = self.flow.iter().enumerate().filter(|(_, flow)| !flow.name.is_empty());
        named.filter_map(move |(index, flow)| {
            let other = *first.entry(&*flow.name).or_insert(index);
            (other != index).then(|| {
                let name = &flow.name;
                format!("flow[{index}]: it is called '{name}', as flow[{other}] is, in all tables")
            })
        })
    }

    /// 2P radios with several neighbours, whose phases are the same.
    fn shared_phases(&self) -> Option<String> {
        let is_two_p = matches!(self.stack.link, LinkConfig::TwoP(_));
        let topology = is_two_p.then(|| self.topology().ok()).flatten()?;
        let name = self.node_name(topology.shared_radio()?)?.to_owned();
        Some(format!(
            "two-p: a radio of {name} has several neighbours, who send at the same time: it loses \
             what they send. Give each link radios of its own (radio = {{}} there)"
        ))
    }

    /// Slot lengths that have no effect because all slots are equally long.
    fn vain_lengths(&self) -> Option<String> {
        let LinkConfig::Wild(wild) = &self.stack.link else { return None };
        let [least, most] = [wild.slot_least_ms, wild.slot_most_ms];
        let is_other = |length: &f64| *length != wild.slot_ms;
        let key = match (least.filter(is_other), most.filter(is_other)) {
            (_, Some(_)) => "slot_most_ms",
            (Some(_), None) => "slot_least_ms",
            (None, None) => return None,
        };
        let why = if !self.topology().ok()?.has_lengths() {
            "no pair or star is by itself: all slots of a row are slot_ms long"
        } else if least.is_none() && self.node.iter().any(NodeConfig::has_udp) {
            "over udp devices all slots are slot_ms long unless slot_least_ms is given"
        } else {
            return None;
        };
        Some(format!("stack.link.{key} changes nothing: {why}"))
    }

    /// Links whose radio has a link budget that has no effect.
    fn vain_budgets(&self) -> impl Iterator<Item = String> {
        let path_loss = PathLoss::build(self, self.radio.phy().band());
        let by_power = path_loss.as_ref().is_some_and(PathLoss::weakens);
        let node = |name: &String| self.node_id(name).expect("a node of the scenario");
        self.link.iter().enumerate().filter_map(move |(index, link)| {
            let radio = link.radio.as_ref().filter(|radio| radio.has_budget())?;
            let has_length = self.length_m(link, link.between.each_ref().map(node)).is_some();
            let why = if radio.over(&self.radio).phy == PhyKind::Wire {
                "it is a wire"
            } else if link.signal_dbm.is_some() {
                "signal_dbm says how strong its signal is"
            } else if !by_power {
                "propagation.kind is none by which signals weaken (as \"log-distance\")"
            } else if !has_length {
                "neither distance_km nor positions of both ends are given"
            } else {
                return None;
            };
            Some(format!(
                "link[{index}]: the power and the gains of its radio change nothing: {why}"
            ))
        })
    }

    /// Links from whose lengths no signal follows, though there is propagation by which signals
    /// weaken.
    fn lengths_without_signal(&self) -> Option<String> {
        let path_loss = PathLoss::build(self, self.radio.phy().band());
        path_loss.filter(PathLoss::weakens)?;
        let is_placed = |name: &String| {
            self.node.iter().any(|node| node.name == *name && node.place().is_some())
        };
        let of_length_alone = |link: &&RadioLinkConfig| {
            let is_own = link.radio.as_ref().is_some_and(RadioOverride::has_budget);
            let is_on_common_air = link.radio.is_none() && link.between.iter().all(is_placed);
            let own = link.radio.as_ref().map_or(self.radio.phy, |own| own.over(&self.radio).phy);
            link.distance_km.is_some()
                && link.signal_dbm.is_none()
                && !is_own
                && !is_on_common_air
                && own != PhyKind::Wire
        };
        let link = self.link.iter().position(|link| of_length_alone(&link))?;
        Some(format!(
            "link[{link}]: propagation does not weaken it: its signal is {LINK_SIGNAL_DBM} dBm \
             whatever its length, unless it has signal_dbm, radio = {{ tx_power_dbm = ... }}, or \
             both ends have positions"
        ))
    }

    /// A link protocol with slots in a network of wires only.
    fn idle_slots(&self) -> Option<String> {
        let link = &self.stack.link;
        let is_idle = link.has_schedule() && self.is_all_wires();
        is_idle.then(|| format!("{}: all links are wires, which have no slots", link.name()))
    }

    /// A radio with rate control that may not choose, or gets no feedback.
    fn vain_rates(&self, whose: &str, radio: &RadioConfig) -> Option<String> {
        if radio.rate_control == RateControl::Fixed || radio.phy == PhyKind::Wire {
            return None;
        }
        let link = &self.stack.link;
        if !link.chooses_rates(radio) {
            let name = link.name();
            return Some(format!("{whose}: rate_control chooses nothing: {name} uses rate_mbps"));
        }
        let has_blocks = self.flow.iter().any(FlowConfig::has_blocks);
        let what = match link {
            LinkConfig::Plain(plain) if !plain.mac_ack => "mac_ack = false",
            LinkConfig::Plain(_) if has_blocks => "blocks",
            LinkConfig::Plain(_) => return None,
            _ => link.name(),
        };
        Some(format!(
            "{whose}: rate_control hears nothing of frames without MAC acknowledgement ({what}): \
             they go at the lowest rate"
        ))
    }

    /// Radios with rate control that are given a bit-rate.
    fn chosen_rates(&self) -> impl Iterator<Item = String> {
        let is_vain = move |radio: &RadioConfig| {
            radio.rate_mbps.is_some()
                && radio.phy != PhyKind::Wire
                && self.stack.link.chooses_rates(radio)
        };
        let all = self.radios().into_iter().filter(move |(_, radio)| is_vain(radio));
        all.map(|(whose, _)| {
            format!("{whose}: rate_mbps changes nothing: rate_control chooses among all rates")
        })
    }

    /// Links with a given signal that is too weak for any frame: where signals are compared with
    /// noise hardly any comes, and elsewhere the signal has no effect.
    fn weak_links(&self) -> impl Iterator<Item = String> {
        let adds_up = matches!(self.interference, InterferenceConfig::Sinr(_));
        let is_ignored = matches!(self.propagation_kind(), PropagationKind::Links) && !adds_up;
        let links = self.link.iter().enumerate().filter(move |_| adds_up || is_ignored);
        links.filter_map(move |(index, link)| {
            let signal = link.signal_dbm?;
            let own = self.node.iter().find(|node| node.name == link.between[0]);
            let own = link.radio.as_ref().or_else(|| own?.radio.as_ref());
            let radio = own.map_or_else(|| self.radio.clone(), |own| own.over(&self.radio));
            if radio.phy == PhyKind::Wire || self.stack.link.chooses_rates(&radio) {
                return None;
            }
            let rate = radio.rate();
            let wanted = radio.phy().sensitivity_dbm(rate);
            if is_ignored {
                // Unless its radios hear nothing so weak.
                let is_heard = signal >= radio.receive_dbm.unwrap_or(-120.0);
                return (is_heard && signal < wanted).then(|| {
                    format!(
                        "link[{index}]: its signal of {signal} dBm loses nothing, though {} Mb/s \
                         wants {wanted:.0} dBm: `loss` alone says what a link loses, unless \
                         interference.kind is \"sinr\" or propagation has a kind",
                        rate.mbps()
                    )
                });
            }
            (signal < wanted - BELOW_SENSITIVITY_DB).then(|| {
                format!(
                    "link[{index}]: its signal of {signal} dBm is far below the {wanted:.0} dBm \
                     that {} Mb/s wants: hardly a frame comes",
                    rate.mbps()
                )
            })
        })
    }

    /// A loss for all pairs of nodes that the links in the file do not use.
    fn vain_losses(&self) -> Option<String> {
        let is_vain = self.propagation.loss != PropagationConfig::default().loss
            && matches!(self.propagation_kind(), PropagationKind::Links);
        is_vain.then(|| {
            "propagation.loss changes nothing: each [[link]] says what it loses itself".to_owned()
        })
    }

    /// A radio that uses RTS in slots, which are calculated without it.
    fn vain_rts(&self, whose: &str, radio: &RadioConfig) -> Option<String> {
        let has_slots = self.stack.link.has_schedule_over(radio.phy);
        let bytes = radio.rts_threshold.filter(|_| has_slots)?;
        let link = self.stack.link.name();
        Some(format!(
            "{whose}: rts_threshold = {bytes}: RTS and CTS have no time in the slots of {link}, \
             and frames that are longer end late"
        ))
    }

    /// UDP peers at an address that their own sockets do not have, as behind a NAT.
    fn other_addresses(&self) -> impl Iterator<Item = String> {
        let sockets = |node: &NodeConfig| {
            let of = |device: &DeviceConfig| match device {
                DeviceConfig::Udp { bind, .. } => Some(*bind),
                _ => None,
            };
            node.all_devices().filter_map(of).collect::<Vec<SocketAddr>>()
        };
        let binds: BTreeMap<&str, Vec<SocketAddr>> =
            self.node.iter().map(|node| (&*node.name, sockets(node))).collect();
        let is_at = |given: &SocketAddr, bind: &SocketAddr| {
            bind.port() == given.port() && (bind.ip() == given.ip() || bind.ip().is_unspecified())
        };
        let peers = |node: &NodeConfig| {
            let of = |device: &DeviceConfig| match device {
                DeviceConfig::Udp { peers, .. } => peers.clone(),
                _ => BTreeMap::new(),
            };
            node.all_devices().flat_map(of).collect::<Vec<(String, SocketAddr)>>()
        };
        let mut told = Vec::new();
        for node in &self.node {
            for (peer, given) in peers(node) {
                let own = binds.get(&*peer).map_or(&[][..], Vec::as_slice);
                let from = &node.name;
                match own.first() {
                    None => told.push(format!(
                        "{from} sends to {peer} at {given}, and {peer} has no device: `farhop up` \
                         will not run there"
                    )),
                    Some(bind) if !own.iter().any(|it| is_at(&given, it)) => told.push(format!(
                        "{from} sends to {peer} at {given}, and {peer} is at {bind}: that is \
                         right only if a router between them translates"
                    )),
                    Some(_) => {}
                }
            }
        }
        told.into_iter()
    }

    /// Keys of `[radio]` that have no effect with its PHY or its other settings.
    fn vain_keys(&self) -> impl Iterator<Item = String> {
        let (radio, usual) = (&self.radio, RadioConfig::default());
        let aggregates = matches!(radio.phy, PhyKind::N | PhyKind::Ac);
        let has_dsss = radio.phy == PhyKind::B || radio.mixed;
        let all = [
            (
                "aggregate",
                radio.aggregate != usual.aggregate && !aggregates,
                "only 802.11n and 802.11ac aggregate",
            ),
            (
                "preamble",
                radio.preamble != usual.preamble && !has_dsss,
                "nothing is sent with a DSSS preamble",
            ),
            (
                "long_attempts",
                radio.long_attempts != usual.long_attempts && radio.rts_threshold.is_none(),
                "no frame is long without rts_threshold",
            ),
        ];
        // Radios of nodes and links may have another PHY, and take these keys from here.
        let has_others = self.node.iter().any(|node| node.radio.is_some())
            || self.link.iter().any(|link| link.radio.is_some());
        let vain = all.into_iter().filter(move |(_, is_vain, _)| *is_vain && !has_others);
        vain.map(|(key, _, why)| format!("radio.{key} changes nothing: {why}"))
    }

    /// A radio that does not defer to signals that it could decode, and so sends over frames for
    /// others.
    fn deafness(&self, whose: &str, radio: &RadioConfig) -> Option<String> {
        // With `links` and `fixed`, signals are as strong as the file says.
        let by_signal =
            !matches!(self.propagation_kind(), PropagationKind::Links | PropagationKind::Fixed);
        let thresholds = self.thresholds(radio);
        let (sense, data) = (thresholds.sense, thresholds.data);
        // Where signals add up, a receiver that may lock on considers the medium busy.
        let effect = match self.interference {
            InterferenceConfig::Threshold {} => "frames between them do not make the medium busy",
            InterferenceConfig::Sinr(_) => "where signals add up they make the medium busy too",
        };
        (by_signal && sense > data).then(|| {
            format!(
                "{whose}: sense_dbm of {sense:.1} lies above the {data:.1} dBm down to which data \
                 can be decoded; {effect}"
            )
        })
    }
}

/// A DSCP that asks for an access category where radios have none.
fn vain_mark((index, flow): (usize, &FlowConfig)) -> Option<String> {
    let dscp = flow.dscp?;
    let access = AccessCategory::of_dscp(dscp);
    (access != AccessCategory::default()).then(|| {
        format!(
            "flow[{index}]: dscp = {dscp} asks for the access category {access:?}, and no radio \
             has edca = true: it goes as all others"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(radio: &str, node: &str) -> Vec<String> {
        let text = format!(
            r#"{{ "name": "x", "radio": {{ "rate_mbps": 1 {radio} }},
                 "propagation": {{ "kind": "free-space" }},
                 "node": [{{ "name": "a", "position_m": [0, 0] {node} }}] }}"#
        );
        let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
        scenario.notes()
    }

    #[test]
    fn a_mark_that_nobody_heeds_is_told() {
        let notes = |radio: &str, link: &str, dscp: u8| {
            let text = format!(
                r#"{{ "name": "x", "radio": {{ "rate_mbps": 1 {radio} }},
                     "node": [{{ "name": "a" }}, {{ "name": "b" }}],
                     "stack": {{ "link": {{ "kind": "{link}" }} }},
                     "flow": [{{ "from": "a", "to": "b", "kind": "udp", "dscp": {dscp} }}] }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            scenario.notes()
        };
        let told = notes("", "plain", 46);
        assert!(told.len() == 1 && told[0].contains("dscp = 46 asks for"), "{told:?}");
        assert!(notes("", "plain", 0).is_empty() && notes("", "wild", 46).is_empty());
        assert!(notes(r#", "edca": true"#, "plain", 46).is_empty());
    }

    #[test]
    fn a_length_of_slots_that_nobody_has_is_told() {
        let notes = |lengths: &str, nodes: &str, links: &str| {
            let text = format!(
                r#"{{ "name": "x", "node": [{nodes}], "link": [{links}],
                     "stack": {{ "link": {{ "kind": "wild", {lengths} }} }} }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            assert_eq!(scenario.problems(), []);
            scenario.notes()
        };
        let names = r#"{ "name": "a" }, { "name": "b" }, { "name": "c" }"#;
        let star = r#"{ "between": ["a", "b"] }, { "between": ["b", "c"] }"#;
        let row = star.replace(" }", r#", "radio": {} }"#);
        let (pair, least) = (r#"{ "between": ["a", "b"] }"#, r#""slot_least_ms": 5"#);
        let (most, both) = (r#""slot_most_ms": 30"#, r#""slot_most_ms": 30, "slot_least_ms": 5"#);
        let end = |name: &str, own: u16, other: &str, port: u16| {
            format!(
                r#"{{ "name": "{name}", "device": {{ "kind": "udp", "bind": "127.0.0.1:{own}",
                     "peers": {{ "{other}": "127.0.0.1:{port}" }} }} }}"#
            )
        };
        let udp = [end("a", 7001, "b", 7002), end("b", 7002, "a", 7001)].join(", ");
        assert!(notes(most, names, star).is_empty() && notes(both, &udp, pair).is_empty());
        assert!(notes(r#""slot_least_ms": 20"#, names, &row).is_empty(), "it is what they have");
        for (lengths, nodes, links, what) in [
            (most, names, &*row, "slot_most_ms changes nothing: no pair"),
            (least, names, &*row, "slot_least_ms changes nothing: no pair"),
            (most, &*udp, pair, "slot_most_ms changes nothing: over udp"),
        ] {
            let told = notes(lengths, nodes, links);
            assert!(told.len() == 1 && told[0].contains(what), "{told:?}");
        }
    }

    #[test]
    fn a_budget_of_which_nothing_follows_is_told() {
        let notes = |kind: &str, link: &str| {
            let text = format!(
                r#"{{ "name": "x", "node": [{{ "name": "a" }}, {{ "name": "b" }}],
                     "propagation": {{ "kind": "{kind}" }},
                     "link": [{{ "between": ["a", "b"] {link} }}] }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            scenario.notes()
        };
        let gain = r#", "radio": { "antenna_gain_dbi": 24 }"#;
        let long = format!(r#", "distance_km": 10 {gain}"#);
        assert!(notes("free-space", &long).is_empty());
        for (kind, link, what) in [
            ("links", long.clone(), "propagation.kind"),
            ("free-space", gain.to_owned(), "neither distance_km nor positions"),
            ("free-space", format!(r#", "signal_dbm": -70 {long}"#), "signal_dbm"),
        ] {
            let told = notes(kind, &link);
            assert!(told.len() == 1 && told[0].contains(what), "{told:?}");
        }
    }

    #[test]
    fn neighbours_that_send_to_one_radio_of_two_p_at_the_same_time_are_told() {
        let notes = |radio: &str| {
            let text = format!(
                r#"{{ "name": "x", "stack": {{ "link": {{ "kind": "two-p" }} }},
                     "node": [{{ "name": "a" }}, {{ "name": "b" }}, {{ "name": "c" }}],
                     "link": [{{ "between": ["a", "b"], "distance_km": 10 {radio} }},
                              {{ "between": ["b", "c"], "distance_km": 10 {radio} }}] }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            scenario.notes()
        };
        let told = notes("");
        assert!(told.len() == 1 && told[0].contains("a radio of b has several"), "{told:?}");
        assert!(notes(r#", "radio": { "channel": 1 }"#).is_empty());
    }

    #[test]
    fn rates_that_nobody_can_choose_are_told() {
        let notes = |link: &str, flow: &str, rate_control: &str| {
            let text = format!(
                r#"{{ "name": "x", "node": [{{ "name": "a" }}, {{ "name": "b" }}],
                     "stack": {{ "link": {link} }},
                     "link": [{{ "between": ["a", "b"],
                                 "radio": {{ "rate_control": "{rate_control}" }} }}],
                     "flow": [{{ "from": "a", "to": "b", "kind": "{flow}" }}] }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            scenario.notes()
        };
        let plain = r#"{ "kind": "plain" }"#;
        assert!(notes(plain, "udp", "arf").is_empty());
        assert!(notes(plain, "hop", "fixed").is_empty());
        let wild = notes(r#"{ "kind": "wild" }"#, "udp", "arf");
        assert_eq!(wild, ["radio of link a-b: rate_control chooses nothing: wild uses rate_mbps"]);
        let deaf = r#"{ "kind": "plain", "mac_ack": false }"#;
        for (link, flow, what) in [
            (deaf, "udp", "mac_ack = false"),
            (plain, "hop", "blocks"),
            (r#"{ "kind": "blindfec" }"#, "udp", "blindfec"),
        ] {
            let told = notes(link, flow, "minstrel");
            assert!(told.len() == 1 && told[0].contains(what), "{told:?}");
        }
    }

    #[test]
    fn rts_in_slots_is_told() {
        let notes = |link: &str| {
            let text = format!(
                r#"{{ "name": "x", "radio": {{ "rts_threshold": 500 }},
                     "node": [{{ "name": "a" }}, {{ "name": "b" }}],
                     "stack": {{ "link": {{ "kind": "{link}" }} }},
                     "link": [{{ "between": ["a", "b"] }}] }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            scenario.notes()
        };
        assert!(notes("plain").is_empty());
        let told = notes("wild");
        assert!(told.len() == 1 && told[0].contains("the slots of wild"), "{told:?}");
    }

    #[test]
    fn a_peer_at_another_address_than_its_own_is_told() {
        let notes = |bind: &str, peer: &str| {
            let scenario: Scenario = serde_json::from_value(serde_json::json!({
                "name": "addresses",
                "duration_s": 1,
                "node": [
                    { "name": "a", "device": {
                        "kind": "udp", "bind": "192.0.2.1:4850", "peers": { "b": peer }
                    } },
                    { "name": "b", "device": {
                        "kind": "udp", "bind": bind, "peers": { "a": "192.0.2.1:4850" }
                    } },
                ],
                "link": [{ "between": ["a", "b"] }],
            }))
            .expect("a scenario");
            assert_eq!(scenario.problems(), []);
            scenario.other_addresses().collect::<Vec<_>>()
        };
        assert!(notes("192.0.2.2:4850", "192.0.2.2:4850").is_empty());
        assert!(notes("0.0.0.0:4850", "192.0.2.2:4850").is_empty());
        let told = notes("192.0.2.2:4850", "192.0.2.2:4851");
        assert!(told[0].starts_with("a sends to b at 192.0.2.2:4851, and b is at 192.0.2.2:4850"));
        assert_eq!(notes("192.0.2.9:4850", "192.0.2.2:4850").len(), 1);
    }

    #[test]
    fn keys_that_a_phy_has_no_use_for_are_told() {
        let mut scenario = Scenario::default();
        scenario.radio.phy = PhyKind::A;
        assert_eq!(scenario.vain_keys().count(), 0);
        scenario.radio.aggregate = 16;
        scenario.radio.preamble = crate::base::Preamble::Long;
        scenario.radio.long_attempts = 1;
        let told: Vec<String> = scenario.vain_keys().collect();
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], "radio.aggregate changes nothing: only 802.11n and 802.11ac aggregate");
        scenario.radio.phy = PhyKind::N;
        scenario.radio.rts_threshold = Some(500);
        let told: Vec<String> = scenario.vain_keys().collect();
        assert_eq!(told, ["radio.preamble changes nothing: nothing is sent with a DSSS preamble"]);
    }

    #[test]
    fn a_fault_that_never_comes_is_told() {
        let notes = |from_s: f64| {
            let text = format!(
                r#"{{ "name": "x", "duration_s": 10, "node": [{{ "name": "a" }}, {{ "name": "b" }}],
                     "link": [{{ "between": ["a", "b"] }}],
                     "fault": [{{ "node": "a", "from_s": {from_s}, "to_s": 40 }}] }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            assert_eq!(scenario.problems(), []);
            scenario.notes()
        };
        assert_eq!(notes(10.0), ["fault[0]: it begins at 10 s, and the run ends at 10 s"]);
        assert!(notes(9.5).is_empty());
    }

    #[test]
    fn a_queue_of_wires_that_nothing_waits_in_is_told() {
        let notes = |phy: &str, link: &str| {
            let text = format!(
                r#"{{ "name": "x",
                     "node": [{{ "name": "a" }}, {{ "name": "b" }}, {{ "name": "c" }}],
                     "stack": {{ "link": {{ "kind": "{link}" }}, "wires": {{}} }},
                     "link": [{{ "between": ["a", "b"], "radio": {{ "phy": "{phy}" }} }},
                              {{ "between": ["b", "c"], "radio": {{ "phy": "802.11b" }} }}] }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            scenario.notes()
        };
        assert_eq!(notes("wire", "wild"), [] as [&str; 0]);
        assert_eq!(notes("802.11b", "wild"), ["stack.wires: no link is a wire"]);
    }

    #[test]
    fn a_mark_over_wires_alone_is_told_whatever_the_radios_would_do() {
        let text = r#"{ "name": "x", "node": [{ "name": "a" }, { "name": "b" }],
                        "stack": { "link": { "kind": "wild" } },
                        "link": [{ "between": ["a", "b"], "radio": { "phy": "wire" } }],
                        "flow": [{ "from": "a", "to": "b", "kind": "udp", "dscp": 46 }] }"#;
        let scenario: Scenario = serde_json::from_str(text).expect("a good scenario");
        let told = scenario.notes();
        assert!(told.iter().any(|note| note.contains("dscp = 46 asks for")), "{told:?}");
    }

    #[test]
    fn a_mark_is_heeded_by_the_radios_of_a_link() {
        let text = r#"{ "name": "x", "node": [{ "name": "a" }, { "name": "b" }],
                        "link": [{ "between": ["a", "b"], "radio": { "edca": true } }],
                        "flow": [{ "from": "a", "to": "b", "kind": "udp", "dscp": 46 }] }"#;
        let scenario: Scenario = serde_json::from_str(text).expect("a good scenario");
        assert!(scenario.notes().is_empty());
    }

    #[test]
    fn slots_that_no_radio_has_are_told() {
        let notes = |phy: &str, link: &str| {
            let text = format!(
                r#"{{ "name": "x", "node": [{{ "name": "a" }}, {{ "name": "b" }}],
                     "stack": {{ "link": {{ "kind": "{link}" }} }},
                     "link": [{{ "between": ["a", "b"], "radio": {{ "phy": "{phy}" }} }}] }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            scenario.notes()
        };
        assert_eq!(notes("wire", "wild"), ["wild: all links are wires, which have no slots"]);
        assert!(notes("802.11b", "wild").is_empty() && notes("wire", "plain").is_empty());
    }

    #[test]
    fn a_link_that_is_longer_than_its_ends_are_apart_is_told() {
        let notes = |x: &str, link: &str| {
            let text = format!(
                r#"{{ "name": "x",
                     "node": [{{ "name": "a", "position_m": [0, 0] }},
                              {{ "name": "b", "position_m": [{x}, 300] }}],
                     "link": [{{ "between": ["a", "b"]{link} }}] }}"#
            );
            let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
            scenario.notes()
        };
        let told = "link[0]: it counts as 12 km long, and its ends stand 0.500 km apart";
        assert_eq!(notes("400", ", \"distance_km\": 12"), [told]);
        assert!(notes("400", ", \"distance_km\": 0.5").is_empty() && notes("400", "").is_empty());
    }

    #[test]
    fn flows_of_one_name_are_told() {
        let flow = |name: &str| {
            format!(r#"{{ "name": "{name}", "from": "a", "to": "b", "kind": "udp" }}"#)
        };
        let flows = ["x", "", "y", "", "x"].map(flow).join(", ");
        let text = format!(
            r#"{{ "name": "x", "node": [{{ "name": "a" }}, {{ "name": "b" }}],
                 "link": [{{ "between": ["a", "b"] }}], "flow": [{flows}] }}"#
        );
        let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
        let told = "flow[4]: it is called 'x', as flow[0] is, in all tables";
        assert_eq!(scenario.notes(), [told]);
    }

    #[test]
    fn who_senses_less_than_it_decodes_is_told() {
        assert_eq!(notes("", "").len(), 0);
        assert_eq!(notes(r#", "receive_dbm": -80, "sense_dbm": -80"#, "").len(), 0);
        let told = notes(r#", "receive_dbm": -80, "sense_dbm": -70"#, "");
        assert!(told[0].starts_with("radio: sense_dbm of -70.0 lies above the -80.0 dBm"));
        let told = notes("", r#", "radio": { "sense_dbm": -40 }"#);
        assert!(told.len() == 1 && told[0].starts_with("radio of node a"), "{told:?}");
    }

    /// The notes on two radios with a link between them.
    fn of_link(before: &str, link: &str) -> Vec<String> {
        let text = format!(
            r#"{{ "name": "x", {before}, "node": [{{ "name": "a" }}, {{ "name": "b" }}],
                 "link": [{{ "between": ["a", "b"] {link} }}] }}"#
        );
        let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
        scenario.notes()
    }

    #[test]
    fn a_signal_that_no_frame_is_decoded_from_is_told() {
        let sinr = r#""radio": { "phy": "802.11a", "rate_mbps": 54 },
                      "interference": { "kind": "sinr" }"#;
        let told = of_link(sinr, r#", "signal_dbm": -120"#);
        assert!(told.len() == 1 && told[0].starts_with("link[0]: its signal of -120 dBm is far"));
        assert!(told[0].ends_with("54 Mb/s wants: hardly a frame comes"), "{told:?}");
        assert!(of_link(sinr, r#", "signal_dbm": -60"#).is_empty());
        let threshold = r#""radio": { "phy": "802.11a", "rate_mbps": 54 }"#;
        let told = of_link(threshold, r#", "signal_dbm": -120"#);
        assert!(told.len() == 1 && told[0].contains("of -120 dBm loses nothing"), "{told:?}");
        assert!(of_link(threshold, r#", "signal_dbm": -60"#).is_empty());
    }

    #[test]
    fn a_length_from_which_no_signal_follows_is_told() {
        let space = r#""propagation": { "kind": "free-space" }"#;
        let told = of_link(space, r#", "distance_km": 60"#);
        let words = "link[0]: propagation does not weaken it: its signal is -60 dBm whatever its";
        assert!(told.len() == 1 && told[0].starts_with(words), "{told:?}");
        assert!(told[0].contains("radio = { tx_power_dbm = ... }"), "{told:?}");
        for good in [r#", "signal_dbm": -70"#, r#", "radio": { "tx_power_dbm": 30 }"#] {
            let told = of_link(space, &format!(r#", "distance_km": 60 {good}"#));
            assert!(told.is_empty(), "{told:?}");
        }
    }

    #[test]
    fn a_rate_beside_a_control_that_chooses_is_told_and_so_is_a_loss_of_no_link() {
        let arf = r#""radio": { "phy": "802.11a", "rate_mbps": 24, "rate_control": "arf" }"#;
        let told = of_link(arf, "");
        assert!(told.len() == 1 && told[0].starts_with("radio: rate_mbps changes nothing"));
        let alone = r#""radio": { "phy": "802.11a", "rate_control": "arf" }"#;
        assert!(of_link(alone, "").is_empty());
        let told = of_link(r#""propagation": { "loss": 0.5 }"#, "");
        assert!(told.len() == 1 && told[0].starts_with("propagation.loss changes nothing"));
    }
}
