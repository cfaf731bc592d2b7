//! The demo, as a new user runs it: what it promises holds.

use serde_json::Value;

use crate::folder::{Folder, json, program, stderr};

fn demo(folder: &Folder) -> Option<Value> {
    let out = program()
        .args(["demo", "--json", "--seconds", "10", "--out", &folder.file("demo")])
        .env("FARHOP_RUNTIME_DIR", folder.file("run"))
        .output()
        .expect("farhop runs");
    let said = stderr(&out);
    if !out.status.success() && said.contains("namespace") {
        farhop_testkit::skip(said.trim());
        return None;
    }
    Some(json(&out))
}

#[test]
#[ignore = "system: five labs in real time, a minute"]
fn wild_carries_half_as_much_again_as_plain_802_11() {
    let folder = Folder::new("demo");
    let Some(result) = demo(&folder) else { return };
    let page = folder.read("demo/demo.html");
    let runs = result["runs"].as_array().expect("a list of runs");
    assert_eq!(runs.len(), 5);
    assert_eq!(page.matches("<svg").count(), 6, "the bars, and each run over time");
    for run in runs {
        println!(
            "{} {} {}: {} Mb/s",
            run["stack"], run["congestion"], run["loss"], run["total_mbps"]
        );
        if run["late"] == true {
            println!("late twice on this machine: not judged");
            continue;
        }
        let number = |key: &str| run[key].as_f64().expect(key);
        let (least, ratio) = match (run["stack"].as_str(), number("loss") > 0.0) {
            (Some("wild"), false) => (6.3, 1.5),
            (Some("wild"), true) => (5.2, 1.6),
            _ => (0.5, 0.5),
        };
        assert!(number("total_mbps") >= least, "{run}");
        assert!(number("ratio") >= ratio, "{run}");
    }
}
