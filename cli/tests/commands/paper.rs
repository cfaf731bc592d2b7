//! `farhop paper` as a script uses it.

use std::process::Output;

use serde_json::Value;

use crate::folder::{Folder, farhop, json, refusal, stderr};

fn paper(words: &[&str]) -> Output {
    farhop(&[&["paper"], words].concat())
}

#[test]
fn a_target_comes_as_rows_with_a_page_and_its_figure() {
    let folder = Folder::new("paper");
    let out = folder.file("");
    let arguments = ["wildnet", "--quick", "--json", "--only", "W-N4", "--out", &out];
    let done = paper(&[&arguments[..], &["--only", "W-F2c"]].concat());
    let result = json(&done);
    let rows = result["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 7);
    for row in rows {
        for key in ["id", "what", "published", "ours", "band", "ok"] {
            assert!(row.get(key).is_some(), "{key} of {row}");
        }
        assert_eq!(row["ok"], true, "{row}");
    }
    assert!(folder.path().join("W-F2c.svg").exists());
    assert!(folder.read("paper.html").contains("ack_timeout_us = 746"), "with its calibration");
    let said = refusal(&["paper", "hop", "--quick", "--only", "H-F8", "--out", &out]);
    assert!(said.contains("holds the report of 'wildnet'"), "{said}");
}

#[test]
fn the_rows_of_hop_come_with_their_figures() {
    let folder = Folder::new("paper-hop");
    let out = folder.file("");
    let targets = ["H-F2", "H-F5", "H-N3", "H-X1", "H-X2"].map(|id| ["--only", id]).concat();
    let arguments = ["hop", "--quick", "--seeds", "1", "--json", "--out", &out];
    let done = paper(&[&arguments[..], &targets, &["--only", "H-F8"]].concat());
    for file in ["H-F8.svg", "paper.html"] {
        assert!(folder.path().join(file).exists(), "no {file}: {}", stderr(&done));
    }
    // A row that is known to be outside may be, and the status tells so.
    let result: Value = serde_json::from_slice(&done.stdout).expect("it is JSON");
    let rows = result["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 23);
    for row in rows.iter().filter(|row| row["known"] != true) {
        assert_eq!(row["ok"], true, "{row}");
    }
    // How much comes through a driver that drops nearly all takes longer to see.
    let unmeasured = rows.iter().filter(|row| row["unmeasured"] == true);
    let unmeasured: Vec<&str> = unmeasured.filter_map(|row| row["what"].as_str()).collect();
    assert_eq!(unmeasured, ["Hop at 80% over Hop without"]);
    assert!(folder.read("H-F8.svg").contains("dropped by the driver, %"));
}

#[test]
fn what_does_not_exist_is_refused_with_what_does() {
    for (words, named) in
        [(&["paper", "wildnt"][..], "wildnet"), (&["paper", "wildnet", "--only", "W-Z"], "W-F9b")]
    {
        let said = refusal(words);
        assert!(said.contains(named), "{said}");
    }
}

#[test]
fn options_of_a_paper_are_refused_where_none_is_named() {
    let more = [&["--quick"][..], &["--known"], &["--lab"], &["--only", "W-N4"], &["--seeds", "2"]];
    for words in more.into_iter().chain([&["--jobs", "1"][..], &["--out", "none"]]) {
        let said = refusal(&[&["paper"], words].concat());
        let right = format!("right would be: farhop paper wildnet|hop {}", words[0]);
        assert!(said.contains(&right), "{said}");
    }
}

#[test]
fn a_lab_is_refused_where_nothing_has_runs_in_one() {
    for words in [&["paper", "hop", "--lab"][..], &["paper", "wildnet", "--lab", "--only", "W-N4"]]
    {
        let said = refusal(words);
        assert!(said.contains("--lab does nothing") && said.contains("wildnet W-F9b"), "{said}");
    }
}
