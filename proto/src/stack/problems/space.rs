//! Checks of positions, propagation and movement.

use super::{Found, NODES};
use crate::stack::scenario::{
    InterferenceConfig, LayoutConfig, MobilityKind, NodeConfig, PropagationConfig, PropagationKind,
    Scenario,
};
use crate::stack::space::read_positions;

/// Farthest coordinate, in metres.
const FAR_M: f64 = 1e7;
/// Range of powers, in dBm.
pub(super) const POWERS_DBM: std::ops::RangeInclusive<f64> = -200.0..=60.0;
/// Range of noise, in dBm: compared with noise, a signal counts as 0 dBm at most.
const NOISES_DBM: std::ops::RangeInclusive<f64> = -200.0..=0.0;

/// Checks everything that positions depend on. Returns whether the layouts can be expanded.
pub(super) fn check_space(found: &mut Found, scenario: &Scenario) -> bool {
    let before = found.0.len();
    if let Some(area) = &scenario.area {
        for (axis, size) in area.size_m.into_iter().enumerate() {
            found.number(format!("area.size_m[{axis}]"), size, 1.0..=FAR_M, "a size in metres");
        }
    }
    for (index, node) in scenario.node.iter().enumerate() {
        check_place(found, &format!("node[{index}]"), node);
    }
    let mut total = scenario.node.len() as u64;
    for (index, layout) in scenario.layout.iter().enumerate() {
        let path = format!("layout[{index}]");
        check_layout(found, &path, layout, scenario);
        if scenario.layout[..index].iter().any(|other| other.name() == layout.name()) {
            let message = format!("two layouts are called '{}'", layout.name());
            found.add(format!("{path}.name"), message, "a name of its own for each layout");
        }
        total = total.saturating_add(size(layout));
    }
    let is_sound = found.0.len() == before;
    if is_sound && total > NODES as u64 {
        let message = format!("{total} nodes are too many together");
        found.add("layout", message, format!("at most {NODES} nodes"));
    }
    check_propagation(found, scenario);
    check_interference(found, scenario);
    check_mobility(found, scenario);
    is_sound && total <= NODES as u64
}

/// Checks the positions of the nodes of layouts, which come after the nodes of the file.
pub(super) fn check_laid_out(found: &mut Found, scenario: &Scenario, placed: &Scenario) {
    let is_far = |node: &&NodeConfig| {
        let at_m = node.position_m.iter().flat_map(|position| position.0);
        at_m.into_iter().any(|at| !(-FAR_M..=FAR_M).contains(&at))
    };
    let first = scenario.node.len();
    if let Some(at) = placed.node.iter().skip(first).position(|node| is_far(&node)) {
        let node = &placed.node[first + at];
        let message = format!("it puts '{}' farther than {FAR_M} m away", node.name);
        let index = scenario.layout_of(first + at);
        found.add(format!("layout[{index}]"), message, "less room between nodes, or fewer nodes");
    }
}

fn size(layout: &LayoutConfig) -> u64 {
    match layout {
        LayoutConfig::Chain(chain) => chain.count,
        LayoutConfig::Grid(grid) => grid.rows.saturating_mul(grid.columns),
        LayoutConfig::Circle(circle) => circle.count,
        LayoutConfig::Random(random) => random.count,
        LayoutConfig::File(file) => {
            file.text.as_deref().map_or(0, |text| text.lines().count() as u64)
        }
    }
}

fn check_place(found: &mut Found, path: &str, node: &NodeConfig) {
    if let Some(position) = &node.position_m {
        check_numbers(found, &format!("{path}.position_m"), &position.0);
    }
    let mut last = f64::NEG_INFINITY;
    for (index, point) in node.path_m.iter().enumerate() {
        let path = format!("{path}.path_m[{index}]");
        if !(3..=4).contains(&point.len()) {
            let message = "a point of a path has a time and a place";
            found.add(&path, message, "[second, x, y] or [second, x, y, z]");
            continue;
        }
        check_numbers(found, &path, point);
        if point[0] <= last || point[0] < 0.0 {
            let message = format!("at {} s the path goes back in time", point[0]);
            found.add(&path, message, "times from 0 on that rise from point to point");
        }
        last = point[0];
    }
}

pub(super) fn check_numbers(found: &mut Found, path: &str, numbers: &[f64]) {
    for (axis, number) in numbers.iter().enumerate() {
        let path = format!("{path}[{axis}]");
        found.number(path, *number, -FAR_M..=FAR_M, "a coordinate in metres");
    }
}

fn check_layout(found: &mut Found, path: &str, layout: &LayoutConfig, scenario: &Scenario) {
    let key = |key: &str| format!("{path}.{key}");
    let name = layout.name();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > 20 || !name.chars().all(plain) {
        let message = format!("the names of nodes cannot begin with '{name}'");
        found.add(key("name"), message, "letters, digits and '-', at most 20 of them");
    }
    let mut count = |name: &str, value: u64| {
        let what = "a number of nodes";
        found.number(key(name), value as f64, 1.0..=NODES as f64, what);
    };
    match layout {
        LayoutConfig::Chain(chain) => count("count", chain.count),
        LayoutConfig::Circle(circle) => count("count", circle.count),
        LayoutConfig::Random(random) => count("count", random.count),
        LayoutConfig::Grid(grid) => {
            count("rows", grid.rows);
            count("columns", grid.columns);
        }
        LayoutConfig::File(_) => {}
    }
    let lengths = 0.0..=FAR_M;
    match layout {
        LayoutConfig::Chain(chain) => {
            check_numbers(found, &key("origin_m"), &chain.origin_m.0);
            found.number(key("spacing_m"), chain.spacing_m, lengths, "a distance in metres");
        }
        LayoutConfig::Grid(grid) => {
            check_numbers(found, &key("origin_m"), &grid.origin_m.0);
            found.number(key("spacing_m"), grid.spacing_m, lengths, "a distance in metres");
        }
        LayoutConfig::Circle(circle) => {
            check_numbers(found, &key("origin_m"), &circle.origin_m.0);
            found.number(key("radius_m"), circle.radius_m, lengths, "a radius in metres");
        }
        LayoutConfig::Random(random) => {
            check_numbers(found, &key("origin_m"), &random.origin_m.0);
            for size in random.area_m.into_iter().flatten() {
                found.number(key("area_m"), size, lengths.clone(), "a size in metres");
            }
            if random.area_m.is_none() && scenario.area.is_none() {
                let message = "random places need an area";
                found.add(path, message, "area_m = [width, height] here, or [area] size_m");
            }
        }
        LayoutConfig::File(file) => {
            let outcome = file.text.as_deref().map_or_else(
                || Err("it was not read".to_owned()),
                |text| read_positions(text).map(|places| places.len()),
            );
            match outcome {
                Ok(0) => found.add(key("file"), format!("{}: no nodes", file.file), LINES),
                Ok(_) => {}
                Err(what) => found.add(key("file"), format!("{}: {what}", file.file), LINES),
            }
        }
    }
}

/// The format of a file of positions.
const LINES: &str = "lines of name,x,y or name,x,y,z with places in metres";

fn check_propagation(found: &mut Found, scenario: &Scenario) {
    let config = &scenario.propagation;
    let kind = scenario.propagation_kind();
    check_keys(found, config, kind);
    let path = |key: &str| format!("propagation.{key}");
    found.number(path("exponent"), config.exponent, 1.0..=10.0, "an exponent of distance");
    found.number(path("reference_db"), config.reference_db, 0.0..=300.0, "a loss in decibels");
    found.number(path("reference_m"), config.reference_m, 1e-3..=1e6, "a distance in metres");
    found.number(path("shadowing_db"), config.shadowing_db, 0.0..=40.0, "a deviation in decibels");
    found.number(path("height_m"), config.height_m, 0.01..=1e5, "a height in metres");
    found.number(path("signal_dbm"), config.signal_dbm, POWERS_DBM, "a power in dBm");
    if let Some(mhz) = config.frequency_mhz {
        found.number(path("frequency_mhz"), mhz, 1.0..=1e6, "a frequency in MHz");
    }
    super::loss::check_loss(found, "propagation.loss", &config.loss, scenario.duration_s);
    for (index, loss) in config.loss_spread.into_iter().flatten().enumerate() {
        found.number(format!("propagation.loss_spread[{index}]"), loss, 0.0..=1.0, "a loss");
    }
    if config.loss_spread.is_some_and(|[low, high]| low > high) {
        found.add(path("loss_spread"), "the first loss is the larger one", "[least, most]");
    }
    if kind != PropagationKind::Range {
        return;
    }
    match (config.receive_m, config.sense_m) {
        (None, _) => found.add("propagation", "a range needs its length", "receive_m = 100"),
        (Some(receive), sense) => {
            found.number(path("receive_m"), receive, 0.0..=FAR_M, "a distance in metres");
            if let Some(sense) = sense {
                let what = "a distance in metres from receive_m on";
                found.number(path("sense_m"), sense, receive..=FAR_M, what);
            }
        }
    }
}

/// Checks for keys that the model does not have, which would silently have no effect.
fn check_keys(found: &mut Found, config: &PropagationConfig, kind: PropagationKind) {
    use PropagationKind::{Fixed, FreeSpace, LogDistance, Range, TwoRay};
    let usual = PropagationConfig::default();
    let keys: [(&str, bool, &[PropagationKind]); 9] = [
        ("exponent", config.exponent != usual.exponent, &[LogDistance]),
        ("reference_db", config.reference_db != usual.reference_db, &[LogDistance]),
        ("reference_m", config.reference_m != usual.reference_m, &[LogDistance]),
        ("shadowing_db", config.shadowing_db != usual.shadowing_db, &[LogDistance]),
        ("frequency_mhz", config.frequency_mhz.is_some(), &[FreeSpace, TwoRay]),
        ("height_m", config.height_m != usual.height_m, &[TwoRay]),
        ("receive_m", config.receive_m.is_some(), &[Range]),
        ("sense_m", config.sense_m.is_some(), &[Range]),
        ("signal_dbm", config.signal_dbm != usual.signal_dbm, &[Range, Fixed]),
    ];
    for (key, given, kinds) in keys {
        if given && !kinds.contains(&kind) {
            let names: Vec<String> =
                kinds.iter().map(|kind| format!("kind = \"{}\"", kind.name())).collect();
            let message = format!("propagation of kind \"{}\" has no {key}", kind.name());
            found.add(format!("propagation.{key}"), message, names.join(" or "));
        }
    }
}

fn check_interference(found: &mut Found, scenario: &Scenario) {
    let InterferenceConfig::Sinr(sinr) = &scenario.interference else { return };
    let path = |key: &str| format!("interference.{key}");
    if let Some(noise) = sinr.noise_dbm {
        found.number(path("noise_dbm"), noise, NOISES_DBM, "a power in dBm");
    }
    if let Some(ratio) = sinr.preamble_db {
        found.number(path("preamble_db"), ratio, -50.0..=50.0, "a ratio in decibels");
    }
    if let Some(least) = sinr.preamble_min_dbm {
        found.number(path("preamble_min_dbm"), least, POWERS_DBM, "a power in dBm");
    }
}

fn check_mobility(found: &mut Found, scenario: &Scenario) {
    let config = &scenario.mobility;
    let what = "a time in milliseconds";
    found.number("mobility.refresh_ms".into(), config.refresh_ms, 1.0..=1e5, what);
    let spans = [("pause_s", config.pause_s, 0.0), ("speed_m_per_s", config.speed_m_per_s, 1e-3)];
    for (key, [low, high], least) in spans {
        if !(low >= least && high >= low && high <= 1e4) {
            let message = format!("[{low}, {high}] is no span");
            let help = format!("[least, most], from {least} to 10000");
            found.add(format!("mobility.{key}"), message, help);
        }
    }
    let walks = config.kind == MobilityKind::RandomWalk;
    if walks && scenario.area.is_none() {
        found.add("mobility.kind", "a random walk needs an area", "[area] size_m");
    }
    if scenario.propagation_kind() != PropagationKind::Links {
        return;
    }
    let help = "[propagation] kind = \"free-space\" or another model";
    if walks {
        found.add("mobility.kind", "only links carry anything: movement does nothing", help);
    }
    for (index, node) in scenario.node.iter().enumerate().filter(|(_, n)| !n.path_m.is_empty()) {
        let message = format!("only links carry anything: '{}' moves for nothing", node.name);
        found.add(format!("node[{index}].path_m"), message, help);
    }
}
