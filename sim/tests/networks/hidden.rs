//! Blocks beside others whose senders do not hear each other.

use farhop_sim::engine::FlowReport;

use super::report;

/// Nodes in a row, each of which hears its neighbours alone, with these flows over these radios.
fn row(secs: u32, nodes: usize, radio: &str, flows: &[(&str, &str, &str)]) -> Vec<FlowReport> {
    let mut text = format!("name = \"row\"\nduration_s = {secs}\n[radio]\n{radio}\n");
    for node in 0..nodes {
        text += &format!("[[node]]\nname = \"n{node}\"\n");
    }
    for from in 1..nodes {
        text += &format!("[[link]]\nbetween = [\"n{}\", \"n{from}\"]\n", from - 1);
    }
    for (from, to, kind) in flows {
        text += &format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nkind = {kind}\n");
    }
    report(&text).flows
}

const B: &str = "phy = \"802.11b\"";
/// With the bursts of `scenarios/hop.toml`.
const BURSTS: &str = "edca = true\naccess = { background = { txop_us = 8160 } }";

#[test]
fn a_transfer_begins_soon_beside_one_that_its_sender_does_not_hear() {
    let radio = format!("{B}\n{BURSTS}");
    let flows = [("n0", "n1", "\"hop\""), ("n2", "n1", "\"hop\"\nbytes = 20000\nstart_s = 10")];
    let took = row(50, 3, &radio, &flows)[1].completed_s;
    assert!(took.is_some_and(|took| took < 20.0), "{took:?}");
    let large = [("n0", "n1", "\"hop\""), ("n2", "n1", "\"hop\"\nstart_s = 5")];
    let found = row(60, 3, &radio, &large);
    let [one, other] = [0, 1].map(|flow: usize| found[flow].goodput_mbps);
    assert!(one > 2.0 && other > 2.0, "{one} and {other} Mb/s");
}

#[test]
fn answers_come_beside_blocks_of_one_who_does_not_hear_them() {
    let radio = format!("phy = \"802.11g\"\nrate_mbps = 6\n{BURSTS}");
    let flows = [("n0", "n1", "\"hop\""), ("n1", "n2", "\"hop\"\nstart_s = 3")];
    let found = row(40, 3, &radio, &flows);
    let [one, other] = [0, 1].map(|flow: usize| found[flow].goodput_mbps);
    assert!(one > 1.2 && other > 1.2, "{one} and {other} Mb/s");
}

#[test]
fn others_get_a_share_beside_blocks_whose_sender_does_not_hear_them() {
    let flows = [("n0", "n1", "\"hop\""), ("n2", "n1", "\"tcp\"\nstart_s = 5")];
    let found = row(30, 3, B, &flows);
    let [blocks, tcp] = [0, 1].map(|flow: usize| found[flow].goodput_mbps);
    assert!(blocks > 1.0 && tcp > 0.5, "{blocks} and {tcp} Mb/s");
}

#[test]
fn a_call_is_heard_beside_blocks_whose_sender_does_not_hear_it() {
    let flows = [("n0", "n1", "\"hop\""), ("n2", "n1", "\"voip\"\nstart_s = 5")];
    for radio in [B, &format!("phy = \"802.11a\"\n{BURSTS}")] {
        let found = row(30, 3, radio, &flows);
        let loss = found[1].loss.expect("udp");
        assert!(loss < 0.03, "{radio}: {loss}");
    }
}
