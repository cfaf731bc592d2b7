//! A stranger in the emulated air, among real daemons with keys and without.

use farhop_run::lab::has_report;
use serde_json::Value;

use crate::place::{Place, stderr};

/// What `adversary` of the report says, of a lab of `scenarios/adversary.toml` for a few seconds
/// with `security`; nothing where there are no labs.
fn attacked(place: &Place, name: &str, security: &str) -> Option<Value> {
    let text = include_str!("../../../scenarios/adversary.toml");
    assert!(text.contains("duration_s = 15\n") && text.contains("[security]\n"));
    let text = text.replace("duration_s = 15\n", "duration_s = 4\n");
    let text = text.replace("[security]\n", &format!("[security]\n{security}\n"));
    let file = place.path(name);
    std::fs::write(&file, text).expect("the scenario is written");
    let out = place.farhop(&["lab", &file, "--json"]);
    if !has_report(out.status) && stderr(&out).contains("namespace") {
        farhop_testkit::skip(stderr(&out).trim());
        return None;
    }
    assert!(has_report(out.status), "{}", stderr(&out));
    let report: Value = serde_json::from_slice(&out.stdout).expect("a report");
    println!("{}", report["adversary"]);
    Some(report["adversary"].clone())
}

#[test]
#[ignore = "system: four labs of a few seconds"]
fn a_stranger_among_daemons_is_believed_only_where_there_are_no_keys() {
    let place = Place::new("strangers");
    let Some(sealed) = attacked(&place, "sealed.toml", "mode = \"encrypt\"") else { return };
    let count = |adversary: &Value, what: &str| adversary[what].as_u64().expect("a count");
    assert!(count(&sealed, "sent") > 800, "{sealed}");
    assert_eq!(count(&sealed, "accepted"), 0, "{sealed}");
    let rejected = sealed["rejected"].as_object().expect("reasons");
    assert!(rejected.values().filter_map(Value::as_u64).sum::<u64>() > 100, "{sealed}");
    // What bears the name of its own receiver comes to no keys; the radio drops it.
    assert!(rejected.get("own-name").and_then(Value::as_u64) > Some(0), "{sealed}");
    // What share of it is heard depends on the traffic: 13 to 94% in labs of 4 s, least where the
    // stranger does not break the flows, whose own frames then cover the others.
    let open = attacked(&place, "open.toml", "mode = \"off\"").expect("there are labs");
    assert!(count(&open, "accepted") > 20, "{open}");
}
