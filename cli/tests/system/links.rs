//! Every link protocol, a star, and OLSR, between real daemons.

use farhop_testkit::skip;
use serde_json::Value;

use crate::place::{Place, stderr};

/// What flows at a constant rate offer, in Mb/s.
const OFFERED: f64 = 0.3;
/// Exit status of a lab that was late.
const LATE: i32 = 3;

/// Runs a lab until it is not late; returns the goodput of each flow, in Mb/s. `None` on a host
/// without labs.
fn goodputs(place: &Place, name: &str, text: &str) -> Option<Vec<f64>> {
    let file = place.path(&format!("{name}.toml"));
    let head = format!("name = \"{name}\"\n");
    std::fs::write(&file, head + text).expect("the scenario is written");
    for _ in 0..3 {
        let out = place.farhop(&["lab", &file, "--json"]);
        let said = stderr(&out);
        match out.status.code() {
            Some(0) => {
                let report: Value = serde_json::from_slice(&out.stdout).expect("a report");
                let flows = report["flows"].as_array().expect("flows").iter();
                let goodput = |flow: &Value| flow["goodput_mbps"].as_f64().expect("a rate");
                return Some(flows.map(goodput).collect());
            }
            Some(LATE) => {}
            _ if said.contains("namespace") => {
                skip(said.trim());
                return None;
            }
            status => panic!("{name}: {status:?}: {said}"),
        }
    }
    panic!("{name} was late three times");
}

fn flow(from: &str, to: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nkind = \"udp\"\nrate_mbps = {OFFERED}\n\
         size_bytes = 1000\n"
    )
}

#[test]
#[ignore = "system: a lab of 3 s for each of six links, about 35 s"]
fn every_link_carries_packets_between_daemons() {
    let place = Place::new("links");
    for link in ["plain", "two-p", "blindfec", "arq", "harq", "snoop"] {
        let stack = match link {
            "snoop" => "[stack]\nsnoop = {}\nlink = { kind = \"plain\" }\n".to_owned(),
            kind => format!("[stack.link]\nkind = \"{kind}\"\n"),
        };
        let text = format!(
            "duration_s = 3\n{stack}[[node]]\nname = \"hill\"\n[[node]]\nname = \"valley\"\n\
             [[link]]\nbetween = [\"hill\", \"valley\"]\ndistance_km = 3\nloss = 0.03\n{}{}",
            flow("hill", "valley"),
            flow("valley", "hill")
        );
        let Some(found) = goodputs(&place, link, &text) else { return };
        println!("{link}: {found:.3?} Mb/s");
        // 2P repeats nothing, and TCP is not there to do it.
        assert!(found.iter().all(|rate| *rate > 0.8 * OFFERED), "{link}: {found:.3?} Mb/s");
    }
}

#[test]
#[ignore = "system: a star of four daemons, about 10 s"]
fn a_star_of_daemons_serves_all_stations() {
    let place = Place::new("star");
    let mut text =
        "duration_s = 5\n[stack.link]\nkind = \"wild\"\n[[node]]\nname = \"mast\"\n".to_owned();
    let stations = ["north", "east", "south"];
    for (name, km) in stations.into_iter().zip([5, 12, 30]) {
        text += &format!(
            "[[node]]\nname = \"{name}\"\n[[link]]\nbetween = [\"mast\", \"{name}\"]\n\
             distance_km = {km}\nloss = 0.05\n"
        );
    }
    for name in stations {
        text += &(flow("mast", name) + &flow(name, "mast"));
    }
    let Some(found) = goodputs(&place, "star", &text) else { return };
    println!("{found:.3?} Mb/s");
    assert!(found.iter().all(|rate| *rate > 0.8 * OFFERED), "{found:.3?} Mb/s");
}

#[test]
#[ignore = "system: three daemons that find their routes, about 30 s"]
fn daemons_find_a_route_with_olsr() {
    let place = Place::new("olsr");
    let mut text = "duration_s = 22\n[stack.routing]\nkind = \"olsr\"\n".to_owned();
    for name in ["a", "b", "c"] {
        text += &format!("[[node]]\nname = \"{name}\"\n");
    }
    for ends in ["\"a\", \"b\"", "\"b\", \"c\""] {
        text += &format!("[[link]]\nbetween = [{ends}]\ndistance_km = 0.2\n");
    }
    text += &format!("{}start_s = 14\n", flow("a", "c"));
    let Some(found) = goodputs(&place, "olsr", &text) else { return };
    println!("{found:.3?} Mb/s");
    assert!(found[0] > 0.8 * OFFERED, "{found:.3?} Mb/s");
}
