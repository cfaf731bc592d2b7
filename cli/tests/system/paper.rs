//! The runs of a paper in the lab: ended in the middle, and taken up again.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::Value;

use crate::place::{Place, interfaces, wait_for};

/// The runs in the folder, whole lines only.
fn runs(place: &Place) -> Vec<Value> {
    let text = std::fs::read_to_string(place.path("out/lab-runs.jsonl")).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(|line| serde_json::from_str(line).expect("a run")).collect()
}

/// Starts the command, and ends it while a lab runs after one more run is done.
fn ends_after_one_more(place: &Place) {
    let before = runs(place).len();
    let out = place.path("out");
    let words = ["paper", "wildnet", "--quick", "--lab", "--only", "W-F9c", "--seeds", "1"];
    let paper = place.start(&[&words[..], &["--out", &out]].concat());
    // Before the first run the same is simulated.
    wait_for("the first run", || !place.labs().is_empty());
    wait_for("a run", || runs(place).len() > before);
    place.wait_until_ready();
    paper.signal(Signal::INT);
    let (status, said) = paper.end();
    assert_eq!(status, Some(130), "{said}");
    place.assert_empty();
    assert_eq!(runs(place).len(), before + 1, "the run in the middle does not count");
    let files = std::fs::read_dir(&out).expect("the folder of the runs").flatten();
    let names: BTreeSet<_> = files.map(|file| file.file_name()).collect();
    // Those of the simulator are kept until all is done.
    let kept = ["lab-runs.jsonl", "paper-runs.jsonl"].map(Into::into);
    assert_eq!(names, BTreeSet::from(kept), "nothing else is left");
}

#[test]
#[ignore = "system: two runs of a paper in the lab, about 40 s"]
fn runs_of_a_paper_end_by_ctrl_c_and_go_on_where_they_were() {
    let place = Place::new("paper");
    let before = interfaces();
    ends_after_one_more(&place);
    ends_after_one_more(&place);
    let scenarios: BTreeSet<String> = runs(&place)
        .iter()
        .map(|run| run["scenario"].as_str().expect("a scenario").to_owned())
        .collect();
    assert_eq!(scenarios.len(), 2, "the first run is not made again");
    assert_eq!(interfaces(), before);
}
