use super::*;
use crate::base::{PhyKind, Seed};
use crate::stack::scenario::RadioOverride;
use crate::stack::space::LIGHT_M_PER_S;
use crate::stack::{
    AreaConfig, ChainLayout, FlowConfig, LayoutConfig, LinkConfig, LossConfig, NodeConfig,
    Position, PropagationConfig, PropagationKind, RadioLinkConfig, RandomEnds, RandomLayout,
    RateControl, RoutingConfig,
};

fn chain(length: usize) -> Scenario {
    let name = |index: usize| format!("n{index}");
    Scenario {
        name: "chain".into(),
        duration_s: 1.0,
        node: (0..length)
            .map(|index| NodeConfig { name: name(index), ..NodeConfig::default() })
            .collect(),
        link: (1..length)
            .map(|index| RadioLinkConfig {
                between: [name(index - 1), name(index)],
                distance_km: Some(80.0),
                ..RadioLinkConfig::default()
            })
            .collect(),
        ..Scenario::default()
    }
}

/// Settings of a radio that differ from those of all.
fn own(json: &str) -> Option<RadioOverride> {
    serde_json::from_str(json).expect("settings of a radio")
}

/// A chain in the air: neighbours at 90 m, reception up to 100 m, sensing up to 220 m.
fn placed_chain(count: u64) -> Scenario {
    let origin_m = Default::default();
    let chain = ChainLayout { name: "n".into(), count, spacing_m: 90.0, origin_m };
    Scenario {
        duration_s: 1.0,
        layout: vec![LayoutConfig::Chain(chain)],
        propagation: range(),
        ..Scenario::default()
    }
}

fn range() -> PropagationConfig {
    PropagationConfig {
        kind: Some(PropagationKind::Range),
        receive_m: Some(100.0),
        sense_m: Some(220.0),
        ..PropagationConfig::default()
    }
}

#[test]
fn links_of_their_own_radios_have_a_budget_where_they_say_how_strongly_they_send() {
    let signal = |radio: &str, kind: Option<PropagationKind>| {
        let mut scenario = chain(2);
        scenario.propagation.kind = kind;
        scenario.link[0].distance_km = Some(50.0);
        scenario.link[0].radio = own(radio);
        let hop = scenario.plan().hops[0].clone();
        (hop.signal.as_f64(), hop.usable)
    };
    let free_space = Some(PropagationKind::FreeSpace);
    let a = r#""phy": "802.11a", "rate_mbps": 54"#;
    // 20 log10(4 pi d / lambda) at 5.2 GHz: 140.75 dB.
    let (weak, usable) = signal(&format!(r#"{{ {a}, "tx_power_dbm": 20 }}"#), free_space);
    assert!((weak + 120.75).abs() < 0.02 && !usable, "{weak}");
    let gains = format!(r#"{{ {a}, "antenna_gain_dbi": 30, "cable_loss_db": 1 }}"#);
    let (strong, usable) = signal(&gains, free_space);
    assert!((strong + 62.75).abs() < 0.02 && usable, "{strong}");
    assert_eq!(signal(&format!("{{ {a} }}"), free_space), (-60.0, true), "aligned");
    assert_eq!(signal(&gains, None), (-60.0, true), "nothing weakens it");
    let mut told = chain(2);
    told.propagation.kind = free_space;
    (told.link[0].radio, told.link[0].signal_dbm) = (own(&gains), Some(-95.0));
    let hop = told.plan().hops[0].clone();
    assert_eq!((hop.signal.as_f64(), hop.usable), (-95.0, true), "as it says");
}

#[test]
fn routes_lead_along_the_chain() {
    let plan = chain(4).plan();
    let hop = plan.nodes[0].next_hops[&NodeId(4)];
    assert_eq!((hop.via, hop.hops), (NodeId(2), 3));
    assert_eq!(plan.nodes[2].next_hops[&NodeId(1)].via, NodeId(2));
    assert_eq!(plan.hops.len(), 6);
}

#[test]
fn the_ack_timeout_covers_the_longest_link() {
    let plan = chain(2).plan();
    assert_eq!(plan.hops[0].delay.as_micros(), 266);
    assert_eq!(plan.nodes[0].radios[0].ack_timeout.as_micros(), 2 * 266 + 30 + 1);
}

#[test]
fn routes_use_only_links_that_can_be_received() {
    let plan = placed_chain(5).plan();
    // Two on either side are heard, the nearer one can be received.
    assert_eq!(plan.hops.len(), 2 * (4 + 3));
    assert_eq!(plan.hops.iter().filter(|hop| hop.usable).count(), 2 * 4);
    let hop = plan.nodes[0].next_hops[&NodeId(5)];
    assert_eq!((hop.via, hop.hops), (NodeId(2), 4));
    // What is only sensed does not stretch the time-out: 90 m there and back, SIFS and a slot.
    assert_eq!(plan.nodes[0].radios[0].ack_timeout.as_nanos() / 100, 306);
}

#[test]
fn who_cannot_decode_a_frame_is_no_neighbour() {
    let mut scenario = placed_chain(2).expanded().into_owned();
    scenario.radio.phy = PhyKind::G;
    let is_joined = |scenario: &Scenario| !scenario.plan().nodes[0].next_hops.is_empty();
    assert!(is_joined(&scenario));
    // 802.11g alone leaves the DSSS of 802.11b out.
    scenario.node[0].radio = own(r#"{ "phy": "802.11b" }"#);
    assert!(!is_joined(&scenario));
    scenario.node[1].radio = own(r#"{ "mixed": true }"#);
    assert!(is_joined(&scenario));
    // The own rates of the first radio have more streams than the second has antennas for; with one
    // stream they understand each other.
    let mut scenario = placed_chain(2).expanded().into_owned();
    scenario.radio.phy = PhyKind::N;
    scenario.node[0].radio = own(r#"{ "streams": 2 }"#);
    assert!(is_joined(&scenario));
    scenario.stack.link = LinkConfig::Wild(Default::default());
    assert!(is_joined(&scenario));
    // It sends all at its own rate.
    scenario.stack.link = LinkConfig::TwoP(Default::default());
    assert!(!is_joined(&scenario));
}

#[test]
fn slots_know_at_which_rates_each_neighbour_sends_and_is_sent_to() {
    let text = r#"{
        "name": "star", "radio": { "phy": "802.11n", "streams": 2 },
        "node": [{ "name": "mast" }, { "name": "a" }, { "name": "b" },
                 { "name": "c", "radio": { "streams": 1 } }],
        "link": [{ "between": ["mast", "a"] }, { "between": ["mast", "b"], "rate_mbps": 30 },
                 { "between": ["c", "mast"], "rate_mbps": 0.1 }],
        "stack": { "link": { "kind": "wild" } } }"#;
    let mut scenario: Scenario = serde_json::from_str(text).expect("a scenario");
    assert_eq!(scenario.problems(), []);
    let plan = scenario.plan();
    let rates = |node: &str| -> Vec<(u16, f64, f64)> {
        let ways = plan.node(node).expect("it is there").ways.iter();
        ways.map(|way| (way.peer.node.0, way.there.rate.mbps(), way.back.rate.mbps())).collect()
    };
    // The next lower rate of two streams; of one and of two, the lowest that both know.
    assert_eq!(rates("mast"), [(3, 26.0, 26.0), (4, 6.5, 6.5)]);
    assert_eq!((rates("a"), rates("c")), (vec![], vec![(1, 6.5, 6.5)]));
    let ways = plan.nodes[0].ways.iter();
    assert!(ways.clone().all(|way| way.there.aggregates()));
    let streams = ways.map(|way| way.there.phy.sent(way.there.rate).0.streams);
    assert_eq!(streams.collect::<Vec<_>>(), [2, 1]);
    scenario.stack.link = LinkConfig::default();
    let problems = scenario.problems();
    let paths: Vec<&str> = problems.iter().map(|problem| &*problem.path).collect();
    assert_eq!(paths, ["link[1].rate_mbps", "link[2].rate_mbps"]);
}

#[test]
fn who_moves_hears_acknowledgements_from_wherever_it_goes() {
    let timeout = |scenario: &Scenario| scenario.plan().nodes[0].radios[0].ack_timeout;
    let mut scenario = Scenario {
        node: [("a", 0.0), ("b", 100.0)]
            .map(|(name, x)| NodeConfig {
                name: name.into(),
                position_m: Some(Position([x, 0.0, 0.0])),
                ..NodeConfig::default()
            })
            .into(),
        duration_s: 1.0,
        ..Scenario::default()
    };
    let standing = timeout(&scenario);
    // A kilometre away at the end.
    scenario.node[1].path_m = vec![vec![100.0, 0.0, 1000.0]];
    let longer_m = 1000.0_f64.hypot(100.0) - 100.0;
    let round_trip = Duration::from_secs_f64(2.0 * longer_m / LIGHT_M_PER_S);
    let longer = timeout(&scenario).saturating_sub(standing);
    assert!(longer.as_nanos().abs_diff(round_trip.as_nanos()) < 5, "{longer}, {round_trip}");
    // As far as its signal goes, where that is less.
    scenario.propagation = range();
    assert_eq!(timeout(&scenario), standing);
}

#[test]
fn a_flow_has_routes_along_its_path_and_nowhere_else() {
    let mut scenario = placed_chain(6);
    scenario.flow = vec![FlowConfig {
        from: "n2".into(),
        to: "n4".into(),
        size_bytes: 1000,
        ..FlowConfig::default()
    }];
    let plan = scenario.plan_for_flows();
    let routes = plan.nodes.iter().map(|node| node.next_hops.len());
    assert_eq!(routes.collect::<Vec<_>>(), [0, 1, 2, 1, 0, 0]);
    assert_eq!(plan.nodes[2].next_hops[&NodeId(2)].via, NodeId(2));
}

#[test]
fn a_link_that_loses_all_is_a_way_where_there_is_no_other() {
    let mut scenario = chain(5);
    let dead = |between: [&str; 2]| RadioLinkConfig {
        between: between.map(Into::into),
        loss: Some(LossConfig::Bernoulli { p: 1.0 }),
        ..RadioLinkConfig::default()
    };
    // Straight across from n0 to n2; and n3 is reached over a dead link alone.
    scenario.link[2] = dead(["n2", "n3"]);
    scenario.link.insert(0, dead(["n0", "n2"]));
    let flow = |to: &str| FlowConfig {
        from: "n0".into(),
        to: to.into(),
        size_bytes: 1000,
        ..FlowConfig::default()
    };
    for plan in [scenario.plan(), {
        scenario.flow = ["n2", "n3", "n4"].map(flow).to_vec();
        scenario.plan_for_flows()
    }] {
        let way = |from: usize, to: u16| {
            let hop = plan.nodes[from].next_hops[&NodeId(to)];
            (hop.via, hop.hops)
        };
        assert_eq!(way(0, 3), (NodeId(2), 2));
        assert_eq!(way(2, 1), (NodeId(2), 2));
        assert_eq!(way(0, 5), (NodeId(2), 4));
        assert_eq!(way(1, 5), (NodeId(3), 3));
        assert_eq!(way(2, 5), (NodeId(4), 2));
        assert_eq!(way(4, 1), (NodeId(4), 4));
    }
}

#[test]
fn a_link_in_the_file_is_stronger_than_the_model() {
    let mut scenario = placed_chain(3);
    scenario.link = vec![
        RadioLinkConfig {
            between: ["n1".into(), "n2".into()],
            signal_dbm: Some(-90.0),
            ..RadioLinkConfig::default()
        },
        RadioLinkConfig { between: ["n1".into(), "n3".into()], ..RadioLinkConfig::default() },
    ];
    let plan = scenario.plan();
    assert_eq!(plan.hops.len(), 6);
    // Too weak now; and the one that was only sensed is still only sensed.
    assert!(plan.nodes[0].next_hops.is_empty());
    assert_eq!(plan.hops[2].signal, Dbm::new(-63));
    assert_eq!(plan.hops[0].delay.as_nanos(), 300);
}

#[test]
fn links_with_radios_of_their_own_make_nodes_with_several() {
    let mut scenario = chain(3);
    scenario.link[0].radio = own(r#"{ "channel": 6 }"#);
    scenario.link[1].radio = own(r#"{ "channel": 11 }"#);
    let plan = scenario.plan();
    let channels = |node: usize| -> Vec<u16> {
        plan.nodes[node].radios.iter().map(|radio| radio.spec.channel).collect()
    };
    assert_eq!([channels(0), channels(1), channels(2)], [vec![6], vec![6, 11], vec![11]]);
    assert_eq!(plan.nodes[1].next_hops[&NodeId(3)].radio, RadioId(1));
    assert_eq!(plan.hops[2].from, (NodeId(2), RadioId(1)));
    assert_eq!(plan.hops[2].to, (NodeId(3), RadioId(0)));
    // With a place it has the common radio as well, which is the first.
    scenario.node[1].position_m = Some(Default::default());
    let plan = scenario.plan();
    assert_eq!(plan.nodes[1].radios.len(), 3);
    assert_eq!(plan.nodes[1].next_hops[&NodeId(3)].radio, RadioId(2));
}

#[test]
fn radios_aggregate_unless_frames_are_injected_or_another_radio_listens_beside() {
    let aggregates = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = chain(3);
        scenario.radio.phy = PhyKind::N;
        change(&mut scenario);
        let radios = |node: NodePlan| node.radios.into_iter().map(|radio| radio.spec.aggregate);
        scenario
            .plan()
            .nodes
            .into_iter()
            .map(|node| radios(node).collect())
            .collect::<Vec<Vec<_>>>()
    };
    let wild = || LinkConfig::Wild(Default::default());
    let of_own = |scenario: &mut Scenario, channels: [u16; 2]| {
        for (link, channel) in scenario.link.iter_mut().zip(channels) {
            link.radio = own(&format!(r#"{{ "channel": {channel} }}"#));
        }
    };
    assert_eq!(aggregates(&|_| {}), [[64]; 3]);
    assert_eq!(aggregates(&|scenario| scenario.radio.phy = PhyKind::A), [[1]; 3]);
    assert_eq!(aggregates(&|scenario| scenario.radio.aggregate = 8), [[8]; 3]);
    let units = LinkConfig::Harq(Default::default());
    assert_eq!(aggregates(&|scenario| scenario.stack.link = units.clone()), [[1]; 3]);
    let injects = |scenario: &mut Scenario| {
        scenario.node[1].device = Some(DeviceConfig::Monitor { interface: "mon0".into() });
    };
    assert_eq!(aggregates(&injects), [[64], [1], [64]]);
    // One radio of a node must not answer while another one listens.
    let beside = |scenario: &mut Scenario| of_own(scenario, [36, 36]);
    assert_eq!(aggregates(&beside), [vec![64], vec![64; 2], vec![64]], "without slots");
    let slots = |scenario: &mut Scenario| {
        scenario.stack.link = wild();
        of_own(scenario, [36, 36]);
    };
    assert_eq!(aggregates(&slots), [vec![1], vec![1; 2], vec![1]]);
    let apart = |scenario: &mut Scenario| {
        scenario.stack.link = wild();
        of_own(scenario, [36, 44]);
    };
    assert_eq!(aggregates(&apart), [vec![64], vec![64; 2], vec![64]]);
}

#[test]
fn slots_have_lengths_of_their_own_in_pairs_and_stars_but_not_in_rows() {
    let lengths_over = |km: Option<f64>, leaves: &[&str], radio: Option<&str>, link: &str| {
        // Nobody knows how far they are: they reach each other by UDP.
        let address = |name: &str| ([127, 0, 0, name.len() as u8], 4850).into();
        let device = |name: &str| {
            let others = [&"hub"].into_iter().chain(leaves).filter(|other| **other != name);
            let peers = others.map(|other| ((*other).to_owned(), address(other))).collect();
            DeviceConfig::Udp { bind: address(name), peers, paced: None }
        };
        let name = |name: &&str| NodeConfig {
            name: (*name).into(),
            device: km.is_none().then(|| device(name)),
            ..NodeConfig::default()
        };
        let to = |leaf: &&str| RadioLinkConfig {
            between: ["hub".into(), (*leaf).into()],
            distance_km: km,
            radio: match *leaf {
                "wired" => own(r#"{ "phy": "wire" }"#),
                _ => radio.and_then(own),
            },
            ..RadioLinkConfig::default()
        };
        let mut scenario = Scenario {
            name: "lengths".into(),
            duration_s: 1.0,
            node: [&"hub"].into_iter().chain(leaves).map(name).collect(),
            link: leaves.iter().map(to).collect(),
            ..Scenario::default()
        };
        let wild = serde_json::from_str(link).expect("settings of wild");
        scenario.stack.link = LinkConfig::Wild(wild);
        let of = |node: &NodePlan| match &node.stack.link {
            LinkConfig::Wild(wild) => {
                [wild.slot_least(), wild.slot_most()].map(Duration::as_millis_f64)
            }
            other => panic!("{other:?}"),
        };
        let mut all: Vec<[f64; 2]> = scenario.plan().nodes.iter().map(of).collect();
        all.dedup();
        all
    };
    let lengths = |leaves, radio, link| lengths_over(Some(1.0), leaves, radio, link);
    let (pair, star) = (&["a"][..], &["a", "b"][..]);
    assert_eq!(lengths(pair, None, "{}"), [[4.0, 20.0]]);
    assert_eq!(lengths(star, None, "{}"), [[4.0, 36.0]]);
    assert_eq!(lengths(star, Some("{}"), "{}"), [[20.0, 20.0]], "two radios on one channel");
    let beside = &["a", "b", "wired"];
    assert_eq!(lengths(beside, Some("{}"), "{}"), [[20.0, 20.0]], "a wire is no end of a pair");
    // 1.5 ms of guard, and a packet at 2 Mb/s.
    assert_eq!(lengths(pair, Some(r#"{ "rate_mbps": 2 }"#), "{}"), [[8.4, 20.0]]);
    // Four times 2.001 ms.
    assert_eq!(lengths_over(Some(600.0), pair, None, "{}"), [[8.1, 20.0]]);
    assert_eq!(lengths_over(None, pair, None, "{}"), [[20.0, 20.0]]);
    assert_eq!(lengths_over(None, pair, None, r#"{ "slot_least_ms": 4 }"#), [[4.0, 20.0]]);
    assert_eq!(lengths(star, None, r#"{ "slot_least_ms": 20 }"#), [[20.0, 20.0]]);
    assert_eq!(lengths(star, None, r#"{ "slot_most_ms": 30 }"#), [[4.0, 30.0]]);
    assert_eq!(lengths(pair, None, r#"{ "slot_ms": 10, "slot_least_ms": 3.5 }"#), [[3.5, 10.0]]);
}

#[test]
fn a_node_on_another_channel_is_heard_but_has_no_route() {
    let mut scenario = placed_chain(2).expanded().into_owned();
    scenario.node[1].radio = own(r#"{ "channel": 3 }"#);
    let plan = scenario.plan();
    assert_eq!(plan.hops.len(), 2);
    assert!(plan.nodes[0].next_hops.is_empty());
    scenario.node[1].radio = own(r#"{ "channel": 11 }"#);
    assert_eq!(scenario.plan().hops.len(), 0);
}

#[test]
fn ten_thousand_nodes_and_five_thousand_flows_are_planned() {
    let random = RandomLayout {
        name: "n".into(),
        count: 10_000,
        area_m: None,
        origin_m: Default::default(),
        seed: 1,
        generator: Default::default(),
    };
    let ends =
        RandomEnds { count: 5_000, among: None, start_within_s: 0.0, hops: Some(3), seed: 1 };
    let scenario = Scenario {
        duration_s: 1.0,
        area: Some(AreaConfig { size_m: [5_000.0, 5_000.0], wrap: true }),
        layout: vec![LayoutConfig::Random(random)],
        propagation: range(),
        flow: vec![FlowConfig { random: Some(ends), size_bytes: 1000, ..FlowConfig::default() }],
        ..Scenario::default()
    };
    let plan = scenario.plan_for_flows();
    assert_eq!(plan.nodes.len(), 10_000);
    // 10,000 / 25 km^2 times a circle of 220 m, and of 100 m.
    let heard = plan.hops.len() as f64 / 10_000.0;
    assert!((58.0..63.0).contains(&heard), "{heard}");
    let usable = plan.hops.iter().filter(|hop| hop.usable).count() as f64 / 10_000.0;
    assert!((12.0..13.2).contains(&usable), "{usable}");
    let routes: usize = plan.nodes.iter().map(|node| node.next_hops.len()).sum();
    assert!((10_000..40_000).contains(&routes), "{routes}");
}

#[test]
fn blocks_leave_no_gaps_where_nobody_sends_unheard() {
    let gap_ms = |link: LinkConfig, phy: PhyKind| {
        let mut scenario = chain(4);
        (scenario.stack.link, scenario.stack.hop) = (link, Some(HopConfig::default()));
        scenario.radio.phy = phy;
        let stack = crate::stack::Stack::build(&scenario.plan().nodes[0], Seed(1));
        stack.flows.hop().map(|hop| hop.config().interactive_gap_ms)
    };
    let plain = LinkConfig::default;
    assert_eq!(gap_ms(plain(), PhyKind::B), Some(40.0));
    assert_eq!(gap_ms(plain(), PhyKind::Wire), Some(0.0));
    assert_eq!(gap_ms(LinkConfig::Wild(Default::default()), PhyKind::B), Some(0.0), "a schedule");
}

#[test]
fn blocks_are_shorter_where_routes_may_change_and_as_long_as_somebody_says() {
    let bytes = |routing: RoutingConfig, block_bytes: Option<u32>| {
        let mut scenario = chain(4);
        scenario.stack.routing = routing;
        scenario.stack.hop = Some(HopConfig { block_bytes, ..HopConfig::default() });
        scenario.plan().nodes[0].hop.as_ref().map(|hop| hop.bytes_of_block())
    };
    let olsr = || RoutingConfig::Olsr(Default::default());
    assert_eq!(bytes(RoutingConfig::default(), None), Some(1 << 20));
    assert_eq!([bytes(olsr(), None), bytes(olsr(), Some(70_000))], [Some(1 << 18), Some(70_000)]);
}

/// The airs over which the centre of a star reaches the others, by the settings of their links.
/// Equal numbers are the same air.
fn airs_of_hub(links: &[&str]) -> Vec<usize> {
    let mut scenario = chain(links.len() + 1);
    for (index, (link, settings)) in scenario.link.iter_mut().zip(links).enumerate() {
        link.between[0] = "n0".into();
        link.between[1] = format!("n{}", index + 1);
        link.radio = own(settings);
    }
    scenario.plan().nodes[0].airs().into_values().collect()
}

#[test]
fn neighbours_share_the_air_of_a_radio_and_of_overlapping_channels_but_not_of_wires() {
    let (one, three, six) = ("{\"channel\": 1}", "{\"channel\": 3}", "{\"channel\": 6}");
    let wire = "{\"phy\": \"wire\", \"rate_mbps\": 10}";
    assert_eq!(airs_of_hub(&[one, one]), [0, 0]);
    assert_eq!(airs_of_hub(&[one, three]), [0, 0], "they overlap");
    assert_eq!(airs_of_hub(&[one, six]), [0, 1]);
    assert_eq!(airs_of_hub(&["null", six]), [0, 1], "the common one is 1");
    assert_eq!(airs_of_hub(&[one, three, six, three]), [0, 0, 0, 0], "3 overlaps with both");
    let [first, second, third, fourth] = airs_of_hub(&[wire, "null", wire, "null"])[..] else {
        panic!("four neighbours")
    };
    assert_eq!(second, fourth);
    assert!(first != third && ![first, third].contains(&second));
}

#[test]
fn a_card_sends_messages_of_routing_as_far_as_data() {
    let mut links = chain(2);
    links.node[1].device = Some(DeviceConfig::Monitor { interface: "mon0".into() });
    let of = |node: &NodePlan| node.control_rates(None)[0].1.map(|rate| rate.mbps());
    let rates: Vec<_> = links.plan().nodes.iter().map(of).collect();
    assert_eq!(rates, [Some(1.0), Some(11.0)], "links say who hears whom, and cards do not");
}

#[test]
fn messages_of_routing_are_heard_as_far_as_data() {
    let rates = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = placed_chain(2).expanded().into_owned();
        scenario.radio.phy = PhyKind::G;
        scenario.propagation = PropagationConfig {
            kind: Some(PropagationKind::LogDistance),
            ..PropagationConfig::default()
        };
        change(&mut scenario);
        let plan = scenario.plan();
        let of = |node: &NodePlan| node.control_rates(None)[0].1.map(|rate| rate.mbps());
        plan.nodes.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(rates(&|scenario| scenario.radio.rate_mbps = Some(24.0)), [Some(24.0); 2]);
    assert_eq!(
        rates(&|scenario| scenario.radio.rate_control = RateControl::Minstrel),
        [Some(6.0); 2]
    );
    // MCS 2 is QPSK 3/4, as 18 Mb/s of those that need no HT.
    let n = |scenario: &mut Scenario| {
        scenario.radio.phy = PhyKind::N;
        scenario.radio.mcs = Some(2);
    };
    assert_eq!(rates(&n), [Some(18.0); 2]);
    // All are heard equally far.
    let said = |scenario: &mut Scenario| scenario.radio.receive_dbm = Some(-80.0);
    assert_eq!(rates(&said), [Some(6.0); 2]);
    assert_eq!(rates(&|scenario| scenario.propagation = range()), [Some(6.0); 2]);
    // Not all know the rate of data.
    let another = |scenario: &mut Scenario| scenario.node[1].radio = own(r#"{ "phy": "802.11b" }"#);
    assert_eq!(rates(&another), [Some(6.0), Some(1.0)]);
}
