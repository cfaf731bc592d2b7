//! Wires beside radios that send in slots: gateways before networks of long links.

use farhop_sim::engine::{FlowReport, LinkReport, Report};

use super::report;

/// A village 40 km and a lossy hop beyond a gateway, and a server `delay_ms` of wire before it.
fn behind_a_gateway(delay_ms: f64, keys: &str, flows: &str) -> Report {
    report(&format!(
        "name = \"gateway\"\nduration_s = 20\nmeasure_from_s = 3\n{keys}\n\
         [radio]\nphy = \"802.11b\"\nrate_mbps = 11\n[stack.link]\nkind = \"wild\"\n\
         [[node]]\nname = \"server\"\n[[node]]\nname = \"gateway\"\n[[node]]\nname = \"village\"\n\
         [[link]]\nbetween = [\"server\", \"gateway\"]\ndelay_ms = {delay_ms}\n\
         radio = {{ phy = \"wire\", rate_mbps = 10 }}\n\
         [[link]]\nbetween = [\"gateway\", \"village\"]\ndistance_km = 40\nloss = 0.1\n{flows}"
    ))
}

fn flow(from: &str, to: &str, kind: &str) -> String {
    format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nkind = \"{kind}\"\n")
}

fn rate(flow: &FlowReport) -> f64 {
    flow.goodput_mbps
}

#[test]
fn a_wire_has_both_ways_of_its_rate_beside_slots() {
    let both = flow("server", "gateway", "udp") + &flow("gateway", "server", "udp");
    let report = behind_a_gateway(15.0, "", &both);
    let rates: Vec<f64> = report.flows.iter().map(rate).collect();
    assert!(rates.iter().all(|rate| *rate > 9.5), "{rates:?}");
    let is_wire = |it: &&LinkReport| [&it.from, &it.to].contains(&&"server".to_owned());
    let (wires, radios): (Vec<_>, Vec<_>) = report.links.iter().partition(is_wire);
    assert_eq!((wires.len(), radios.len()), (2, 2));
    assert!(wires.iter().all(|it| it.protocol == "plain"));
    assert!(radios.iter().all(|it| it.protocol == "wild"));
}

#[test]
fn a_long_wire_costs_what_comes_over_it_nothing() {
    for kind in ["tcp", "hop"] {
        let near = rate(&behind_a_gateway(0.0, "", &flow("gateway", "village", kind)).flows[0]);
        for (from, to) in [("server", "village"), ("village", "server")] {
            let far = rate(&behind_a_gateway(15.0, "", &flow(from, to, kind)).flows[0]);
            println!("{kind} from {from} to {to}: {far:.2}, without the wire {near:.2}");
            assert!(far > 0.9 * near && near > 2.5, "{kind}: {far} and {near}");
        }
    }
}

#[test]
fn blocks_over_a_wire_are_as_fast_beside_radios_that_are_slow() {
    let to_server = |more: &str| {
        let flows = flow("gateway", "server", "hop") + more;
        rate(&behind_a_gateway(0.0, "", &flows).flows[0])
    };
    let (alone, beside) = (to_server(""), to_server(&flow("gateway", "village", "hop")));
    println!("{alone:.2}, beside a radio {beside:.2}");
    assert!(beside > 0.95 * alone && alone > 8.0, "{beside} of {alone}");
}

#[test]
fn a_fast_wire_holds_what_slots_let_go_of_at_once() {
    let rates =
        [("server", "village"), ("village", "server"), ("gateway", "village")].map(|ends| {
            let text = format!(
                "name = \"fast\"\nduration_s = 10\nmeasure_from_s = 4\n\
             [radio]\nphy = \"802.11a\"\nrate_mbps = 54\n[stack.link]\nkind = \"wild\"\n\
             [[node]]\nname = \"server\"\n[[node]]\nname = \"gateway\"\n\
             [[node]]\nname = \"village\"\n\
             [[link]]\nbetween = [\"server\", \"gateway\"]\ndelay_ms = 10\n\
             radio = {{ phy = \"wire\", rate_mbps = 1000 }}\n\
             [[link]]\nbetween = [\"gateway\", \"village\"]\ndistance_km = 10\nloss = 0.02\n{}",
                flow(ends.0, ends.1, "tcp")
            );
            rate(&report(&text).flows[0])
        });
    println!("{rates:.1?}");
    assert!(rates[..2].iter().all(|rate| *rate > 0.9 * rates[2]), "{rates:.1?}");
}

#[test]
fn the_queue_of_wires_is_their_own() {
    let waits_ms = |packets: usize| {
        let keys = format!("stack.wires = {{ queue_packets = {packets} }}");
        let report = behind_a_gateway(1.0, &keys, &flow("server", "gateway", "udp"));
        report.flows[0].delay_ms.as_ref().expect("packets came").p50
    };
    // A packet takes 1.2 ms.
    let (short, long) = (waits_ms(5), waits_ms(100));
    assert!((5.0..9.0).contains(&short) && (110.0..130.0).contains(&long), "{short} and {long}");
}
