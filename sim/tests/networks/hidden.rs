//! Blocks beside others whose senders do not hear each other.

use farhop_sim::engine::FlowReport;

use super::report;

/// Three nodes in a row, of which the first and the last do not hear each other, with these flows
/// over these radios.
fn row(secs: u32, radio: &str, flows: &[(&str, &str, &str)]) -> Vec<FlowReport> {
    let mut text = format!("name = \"row\"\nduration_s = {secs}\n[radio]\n{radio}\n");
    for node in 0..3 {
        text += &format!("[[node]]\nname = \"n{node}\"\n");
    }
    for from in 0..2 {
        text += &format!("[[link]]\nbetween = [\"n{from}\", \"n{}\"]\n", from + 1);
    }
    for (from, to, kind) in flows {
        text += &format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nkind = {kind}\n");
    }
    report(&text).flows
}

/// Goodput of two flows, in Mb/s.
fn rates(flows: Vec<FlowReport>) -> [f64; 2] {
    let rates: Vec<f64> = flows.iter().map(|flow| flow.goodput_mbps).collect();
    rates.try_into().expect("two flows")
}

const B: &str = "phy = \"802.11b\"";
/// With the bursts of `scenarios/hop.toml`.
const BURSTS: &str = "edca = true\naccess = { background = { txop_us = 8160 } }";

#[test]
fn a_transfer_begins_soon_beside_one_that_its_sender_does_not_hear() {
    let radio = format!("{B}\n{BURSTS}");
    let flows = [("n0", "n1", "\"hop\""), ("n2", "n1", "\"hop\"\nbytes = 20000\nstart_s = 10")];
    let took = row(50, &radio, &flows)[1].completed_s;
    assert!(took.is_some_and(|took| took < 20.0), "{took:?}");
    let large = [("n0", "n1", "\"hop\""), ("n2", "n1", "\"hop\"\nstart_s = 5")];
    let [one, other] = rates(row(60, &radio, &large));
    assert!(one > 2.0 && other > 2.0, "{one} and {other} Mb/s");
}

#[test]
fn answers_come_beside_blocks_of_one_who_does_not_hear_them() {
    let radio = format!("phy = \"802.11g\"\nrate_mbps = 6\n{BURSTS}");
    let flows = [("n0", "n1", "\"hop\""), ("n1", "n2", "\"hop\"\nstart_s = 3")];
    let [one, other] = rates(row(40, &radio, &flows));
    assert!(one > 1.2 && other > 1.2, "{one} and {other} Mb/s");
}

#[test]
fn others_get_a_share_beside_blocks_whose_sender_does_not_hear_them() {
    let flows = [("n0", "n1", "\"hop\""), ("n2", "n1", "\"tcp\"\nstart_s = 5")];
    let [blocks, tcp] = rates(row(30, B, &flows));
    assert!(blocks > 1.0 && tcp > 0.5, "{blocks} and {tcp} Mb/s");
}

#[test]
fn a_call_is_heard_beside_blocks_whose_sender_does_not_hear_it() {
    let flows = [("n0", "n1", "\"hop\""), ("n2", "n1", "\"voip\"\nstart_s = 5")];
    for radio in [B, &format!("phy = \"802.11a\"\n{BURSTS}")] {
        let found = row(30, radio, &flows);
        let loss = found[1].loss.expect("udp");
        assert!(loss < 0.03, "{radio}: {loss}");
    }
}
