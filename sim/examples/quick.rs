//! Runs a scenario file and prints the flows.
fn main() {
    let file = std::env::args().nth(1).expect("a scenario file");
    let text = std::fs::read_to_string(file).expect("readable");
    let scenario: farhop_proto::stack::Scenario = toml::from_str(&text).expect("a scenario");
    let report = farhop_sim::engine::run(&scenario, Default::default()).expect("runs");
    for flow in &report.flows {
        println!(
            "{} {:.3} Mb/s loss {:?} delay {:?} rtx {:?}",
            flow.name, flow.goodput_mbps, flow.loss, flow.delay_ms, flow.retransmissions
        );
    }
    println!(
        "total {:.3} speed {:.0} hash {:?} frames {} events {}",
        report.total_mbps(),
        report.simulated_s / report.wall_s,
        report.trace_hash,
        report.frames_on_air,
        report.events
    );
    if std::env::args().nth(2).is_some() {
        println!("{}", serde_json::to_string_pretty(&(report.links, report.nodes)).unwrap());
    }
}
