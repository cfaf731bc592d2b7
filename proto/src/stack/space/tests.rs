use super::*;
use crate::base::{Band, Bitrate, Phy, PhyKind, Width};
use crate::stack::{
    ChainLayout, FileLayout, FlowConfig, FlowKind, Generator, GridLayout, LayoutConfig,
    PropagationConfig, RandomEnds, RandomLayout, RelayConfig,
};

fn random(count: u64, generator: Generator) -> LayoutConfig {
    LayoutConfig::Random(RandomLayout {
        name: "n".into(),
        count,
        area_m: Some([1000.0, 1000.0]),
        origin_m: Default::default(),
        seed: 1,
        generator,
    })
}

fn scenario(layout: LayoutConfig, propagation: PropagationConfig) -> Scenario {
    Scenario { duration_s: 10.0, layout: vec![layout], propagation, ..Scenario::default() }
}

fn range(receive_m: f64, sense_m: f64) -> PropagationConfig {
    PropagationConfig {
        kind: Some(PropagationKind::Range),
        receive_m: Some(receive_m),
        sense_m: Some(sense_m),
        ..PropagationConfig::default()
    }
}

/// The space of a scenario with all its nodes in it.
fn space(scenario: &Scenario) -> Space {
    let scenario = scenario.expanded();
    let mut space = Space::build(&scenario).expect("a model");
    let place = |node: &crate::stack::NodeConfig| node.place().expect("a place");
    let site = |node| Site::build(&scenario, &scenario.radio, place(node));
    space.put(scenario.node.iter().map(site).collect());
    space
}

fn hearers(space: &Space, from: usize) -> Vec<usize> {
    let mut found = Vec::new();
    space.hearers(from, &mut Vec::new(), &mut |heard| found.push(heard.by));
    found
}

#[test]
fn names_and_places_follow_from_the_layout() {
    let grid = GridLayout {
        name: "g".into(),
        rows: 3,
        columns: 4,
        spacing_m: 90.0,
        origin_m: crate::stack::Position([10.0, 20.0, 2.0]),
    };
    let mut grid = scenario(LayoutConfig::Grid(grid), range(100.0, 220.0));
    let flow = FlowConfig { from: "g.first".into(), to: "g.last".into(), ..Default::default() };
    grid.flow = vec![flow];
    let whole = grid.expanded();
    assert_eq!(whole.node.len(), 12);
    assert_eq!(whole.node[6].name, "g2-3");
    assert_eq!(whole.node[6].place(), Some([190.0, 110.0, 2.0]));
    assert_eq!((&*whole.flow[0].from, &*whole.flow[0].to), ("g1-1", "g3-4"));
    assert_eq!(whole.expanded(), whole, "nothing is left to write out");
}

#[test]
fn the_reference_generator_is_repeated_to_the_bit() {
    // The first three of its values after the eight that are skipped, by another program.
    let scenario = scenario(random(2, Generator::Lcg), range(100.0, 220.0));
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 11) as f64 / 2f64.powi(53) * 1000.0
    };
    let values: Vec<f64> = (0..12).map(|_| next()).skip(8).collect();
    let places: Vec<[f64; 3]> =
        scenario.expanded().node.iter().filter_map(crate::stack::NodeConfig::place).collect();
    assert_eq!(places, [[values[0], values[1], 0.0], [values[2], values[3], 0.0]]);
}

#[test]
fn random_flows_have_two_ends_each_and_stay_where_they_are_told() {
    let mut scenario = scenario(random(200, Generator::Pcg), range(100.0, 220.0));
    let ends = |hops| RandomEnds { count: 50, among: None, start_within_s: 5.0, hops, seed: 3 };
    let flow = |hops| FlowConfig {
        random: Some(ends(hops)),
        start_s: 1.0,
        size_bytes: 1000,
        ..FlowConfig::default()
    };
    scenario.flow = vec![flow(None), flow(Some(3))];
    let whole = scenario.expanded();
    assert_eq!(whole.flow.len(), 100);
    assert!(whole.flow.iter().all(|flow| flow.from != flow.to && flow.random.is_none()));
    assert!(whole.flow.iter().all(|flow| (1.0..6.0).contains(&flow.start_s)));
    let plan = scenario.plan();
    for flow in &whole.flow[50..] {
        let (from, to) = (whole.node_id(&flow.from), whole.node_id(&flow.to));
        let (from, to) = (from.expect("a node"), to.expect("a node"));
        assert!(plan.nodes[usize::from(from.0) - 1].next_hops[&to].hops <= 3);
    }
    assert_eq!(scenario.expanded(), whole, "draws are the same each time");
}

/// Hops between the ends of the random flows of a kind, in a chain of so many nodes.
fn drawn_hops(nodes: u64, kind: FlowKind, relay: Option<RelayConfig>) -> Vec<usize> {
    let chain = ChainLayout {
        name: "n".into(),
        count: nodes,
        spacing_m: 90.0,
        origin_m: Default::default(),
    };
    let mut scenario = scenario(LayoutConfig::Chain(chain), range(100.0, 100.0));
    let random = RandomEnds { count: 30, among: None, start_within_s: 0.0, hops: None, seed: 1 };
    let random = Some(random);
    scenario.flow =
        vec![FlowConfig { kind, relay, random, size_bytes: 1000, ..FlowConfig::default() }];
    assert_eq!(scenario.problems(), []);
    let whole = scenario.expanded();
    // They can be planned.
    assert_eq!(whole.problems(), []);
    let place = |name: &str| usize::from(whole.node_id(name).expect("a node").0);
    whole.flow.iter().map(|flow| place(&flow.from).abs_diff(place(&flow.to))).collect()
}

#[test]
fn random_flows_have_ends_between_which_packets_live() {
    let hops = drawn_hops(200, FlowKind::Udp, None);
    assert!(hops.len() == 30 && hops.iter().all(|hops| (1..=64).contains(hops)), "{hops:?}");
    let far = drawn_hops(200, FlowKind::Relayed, None);
    assert!(far.len() == 30 && far.iter().any(|hops| *hops > 64), "each hop is by itself");
    let relay = RelayConfig { at: vec!["n2".into()], ..RelayConfig::default() };
    assert_eq!(drawn_hops(3, FlowKind::Relayed, Some(relay)), [2; 30], "no end is a relay");
}

#[test]
fn those_near_are_found_as_by_looking_at_all() {
    let mut scenario = scenario(random(300, Generator::Pcg), range(100.0, 220.0));
    for wrap in [false, true] {
        scenario.area = Some(AreaConfig { size_m: [1000.0, 1000.0], wrap });
        let space = space(&scenario);
        let mut most = 0;
        for from in 0..300 {
            let all = (0..300).filter(|by| space.heard(from, *by).is_some());
            let found = hearers(&space, from);
            assert_eq!(found, all.collect::<Vec<_>>());
            most = most.max(found.len());
        }
        assert!(most < 150, "{most} hear one node");
    }
}

#[test]
fn a_torus_has_no_edges() {
    let chain =
        ChainLayout { name: "n".into(), count: 10, spacing_m: 100.0, origin_m: Default::default() };
    let mut scenario = scenario(LayoutConfig::Chain(chain), range(100.0, 200.0));
    assert_eq!(hearers(&space(&scenario), 0), [1, 2]);
    scenario.area = Some(AreaConfig { size_m: [1000.0, 1000.0], wrap: true });
    assert_eq!(hearers(&space(&scenario), 0), [1, 2, 8, 9]);
    assert!((space(&scenario).distance_m([0.0; 3], [900.0, 0.0, 0.0]) - 100.0).abs() < 1e-9);
}

#[test]
fn whoever_moves_is_found_where_it_went() {
    let scenario = scenario(random(100, Generator::Pcg), range(100.0, 220.0));
    let mut space = space(&scenario);
    space.move_to(7, [5000.0, -3000.0, 0.0]);
    assert_eq!(hearers(&space, 7), [0_usize; 0]);
    space.move_to(7, space.sites()[8].at_m);
    assert!(hearers(&space, 7).contains(&8));
    assert!(hearers(&space, 8).contains(&7));
}

#[test]
fn the_two_ray_model_has_the_ranges_of_ns_2() {
    let config = PropagationConfig { kind: Some(PropagationKind::TwoRay), ..Default::default() };
    let scenario = scenario(random(1, Generator::Pcg), config);
    let model = PathLoss::build(&scenario, Band::Ghz2).expect("a model");
    let received = |distance| model.received(24.5, distance).expect("a signal");
    // `radio.md` 4.1: 1.4268e-8 W at 100 m, 6.0908e-10 W at 220 m, the cross-over at 86.1 m.
    let dbm = |watts: f64| 10.0 * (watts * 1e3).log10();
    assert!((received(100.0) - dbm(1.4268e-8)).abs() < 0.01, "{}", received(100.0));
    assert!((received(220.0) - dbm(6.0908e-10)).abs() < 0.01, "{}", received(220.0));
    assert!((received(86.0) - received(86.3)).abs() < 0.1);
    let thresholds = scenario.thresholds(&scenario.radio);
    assert!(received(100.0) >= thresholds.receive && received(101.0) < thresholds.receive);
    assert!(received(220.0) >= thresholds.sense && received(222.0) < thresholds.sense);
}

#[test]
fn shadowing_is_normal_fixed_and_cut_off() {
    let mut config = PropagationConfig {
        kind: Some(PropagationKind::LogDistance),
        shadowing_db: 6.0,
        ..PropagationConfig::default()
    };
    let shadowed = space(&scenario(random(60, Generator::Pcg), config.clone()));
    config.shadowing_db = 0.0;
    let clear = space(&scenario(random(60, Generator::Pcg), config));
    let mut deviations = Vec::new();
    for from in 0..60 {
        for by in 0..60 {
            let pair = (shadowed.heard(from, by), clear.heard(from, by));
            if let (Some(shadowed), Some(clear)) = pair {
                deviations.push(shadowed.signal.above(clear.signal));
            }
        }
    }
    let count = deviations.len() as f64;
    let variance = deviations.iter().map(|d| d * d).sum::<f64>() / count;
    assert!((4.5..7.0).contains(&variance.sqrt()), "sigma {}", variance.sqrt());
    assert!(deviations.iter().all(|d| d.abs() <= 18.01));
    assert_ne!(shadowed.heard(0, 1).map(|h| h.signal), shadowed.heard(1, 0).map(|h| h.signal));
}

#[test]
fn sensitivities_are_those_of_the_sheet() {
    let at = |kind, width, mbps| {
        let phy = Phy { kind, width, mixed: kind == PhyKind::G, ..Phy::default() };
        phy.sensitivity_dbm(Bitrate::from_mbps(mbps))
    };
    assert_eq!(at(PhyKind::B, Width::Mhz20, 11.0), -85.0);
    assert_eq!(at(PhyKind::A, Width::Mhz20, 6.0), -90.0);
    assert_eq!(at(PhyKind::A, Width::Mhz20, 54.0), -73.0);
    assert_eq!(at(PhyKind::G, Width::Mhz20, 5.5), -89.0);
    // A quarter of the width, and four times as wide.
    assert!((at(PhyKind::A, Width::Mhz5, 1.5) + 96.02).abs() < 0.01);
    assert!((at(PhyKind::Ac, Width::Mhz80, 29.3) + 83.98).abs() < 0.01);
    assert!((at(PhyKind::Ac, Width::Mhz80, 390.0) + 58.98).abs() < 0.01);
}

#[test]
fn how_weak_a_signal_may_be_hangs_on_its_rate_unless_it_is_given() {
    let at = |radio: serde_json::Value| {
        let scenario = serde_json::json!({
            "name": "one",
            "propagation": { "kind": "free-space" },
            "radio": radio,
        });
        let scenario: Scenario = serde_json::from_value(scenario).expect("a scenario");
        scenario.thresholds(&scenario.radio)
    };
    let radio = |rate: f64| serde_json::json!({ "phy": "802.11a", "rate_mbps": rate });
    let with = |key: &str, value: serde_json::Value| {
        let mut radio = radio(54.0);
        radio[key] = value;
        at(radio)
    };
    let fixed = at(radio(54.0));
    assert_eq!((fixed.receive, fixed.data, fixed.by_rate), (-90.0, -73.0, true));
    let chosen = with("rate_control", "minstrel".into());
    assert_eq!((chosen.receive, chosen.data, chosen.by_rate), (-90.0, -90.0, true));
    let given = with("receive_dbm", (-80.0).into());
    assert_eq!((given.receive, given.data, given.by_rate), (-80.0, -80.0, false));
}

#[test]
fn a_file_of_positions_becomes_nodes() {
    let file = FileLayout {
        name: "town".into(),
        file: "town.csv".into(),
        text: Some("hill,0,0\nvalley,50,0\n".into()),
    };
    let whole = scenario(LayoutConfig::File(file), range(100.0, 220.0));
    let names: Vec<String> = whole.expanded().node.iter().map(|node| node.name.clone()).collect();
    assert_eq!(names, ["hill", "valley"]);
}

#[test]
fn what_a_layout_or_a_name_cannot_be_is_refused() {
    let problems = |key: &str, value: serde_json::Value| {
        let mut scenario = serde_json::json!({
            "name": "x",
            "propagation": { "kind": "range", "receive_m": 100 },
            "layout": [{ "kind": "chain", "name": "n", "count": 3, "spacing_m": 90 }],
        });
        scenario[key] = value;
        let scenario: Scenario = serde_json::from_value(scenario).expect("a scenario");
        scenario.problems().into_iter().map(|problem| problem.path).collect::<Vec<_>>()
    };
    let layout = |apart: f64| {
        let row =
            serde_json::json!({ "kind": "chain", "name": "n", "count": 3, "spacing_m": apart });
        serde_json::json!([row])
    };
    assert_eq!(problems("layout", layout(4e6)), [""; 0]);
    assert_eq!(problems("layout", layout(6e6)), ["layout[0]"]);
    let flow = |name: &str| {
        let flow = serde_json::json!({ "name": name, "from": "n1", "to": "n2", "kind": "udp" });
        serde_json::json!([flow])
    };
    assert_eq!(problems("flow", flow("a call")), [""; 0]);
    assert_eq!(problems("flow", flow("\u{1b}[31m")), ["flow[0].name"]);
}
