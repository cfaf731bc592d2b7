//! `farhop paper` as a script uses it.

use std::process::{Command, Output};

use serde_json::Value;

fn paper(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farhop"));
    command.arg("paper").args(arguments).output().expect("farhop runs")
}

#[test]
fn a_target_comes_as_rows_with_a_page_and_its_figure() {
    let dir = std::env::temp_dir().join(format!("farhop-paper-{}", std::process::id()));
    let out = dir.to_string_lossy().into_owned();
    let arguments = ["wildnet", "--quick", "--json", "--only", "W-N4", "--out", &out];
    let done = paper(&[&arguments[..], &["--only", "W-X1"]].concat());
    let page = std::fs::read_to_string(dir.join("paper.html")).unwrap_or_default();
    let has_figure = dir.join("W-X1.svg").exists();
    let _ = std::fs::remove_dir_all(&dir);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 5);
    for row in rows {
        for key in ["id", "what", "published", "ours", "band", "ok"] {
            assert!(row.get(key).is_some(), "{key} of {row}");
        }
        assert_eq!(row["ok"], true, "{row}");
    }
    assert!(has_figure && page.contains("ack_timeout_us = 746"), "with its calibration");
}

#[test]
fn the_rows_of_hop_come_with_their_figures() {
    let dir = std::env::temp_dir().join(format!("farhop-paper-hop-{}", std::process::id()));
    let out = dir.to_string_lossy().into_owned();
    let targets = ["H-F2", "H-F5", "H-N3", "H-X1", "H-X2"].map(|id| ["--only", id]).concat();
    let arguments = ["hop", "--quick", "--seeds", "1", "--json", "--out", &out];
    let done = paper(&[&arguments[..], &targets, &["--only", "H-F8"]].concat());
    let has_figure = dir.join("H-F8.svg").exists() && dir.join("paper.html").exists();
    let _ = std::fs::remove_dir_all(&dir);
    assert!(has_figure, "{}", String::from_utf8_lossy(&done.stderr));
    let json: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 19);
    // How much comes through a driver that drops nearly all takes longer to see.
    for row in rows.iter().filter(|row| row["id"] != "H-F8") {
        assert_eq!(row["ok"], true, "{row}");
    }
}

#[test]
fn what_does_not_exist_is_refused_with_what_does() {
    for (arguments, named) in
        [(&["wildnt"][..], "wildnet"), (&["wildnet", "--only", "W-Z"][..], "W-F9b")]
    {
        let done = paper(arguments);
        let said = String::from_utf8_lossy(&done.stderr).replace(['\n', '|', ' '], "");
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains(named), "{said}");
    }
}
